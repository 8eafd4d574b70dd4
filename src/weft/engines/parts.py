"""Users in parts, on whatever machines: what an engine has to offer, and what it is handed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")
S = TypeVar("S")
T_co = TypeVar("T_co", covariant=True)


@dataclass(frozen=True)
class Part:
    """Everything that was given about some users: a frame for each argument that has rows of users, empty where there are none.

    `frames`, by argument: `source` (user, item, and score, rank or both), `truth` and `train` (user, item, and rating if there is
    one), `candidates` (user, item), `users` (user), `user_groups` and `slices['NAME']` (user, label). Ids are Int64 or String as
    they came, scores, ranks and ratings Float64. `source everyone`, `truth everyone` (user): who is named there without a row.
    `source`: the model that scores these users, where there are no lists.
    """

    frames: Mapping[str, pl.DataFrame]
    source: Any = None


@dataclass(frozen=True)
class Origin:
    """Where the rows of an argument come from. `where` names it in messages, as in "truth (s3://logs/test)"."""

    where: str
    path: str | None = None  # None: no file
    unread: tuple[str, ...] = ()  # columns that play no role
    notes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # of its frames, in every part: ("user", "item", "score")


class Parts(Protocol[T_co]):
    """Something of each part, which stays where it is.

    All rows of a user are in one part; a part may have no user. Work may be done more than once (on a machine that was lost, and
    again elsewhere); what comes of it counts once.
    """

    def keep(self, work: Callable[[T_co], S]) -> Parts[S]:
        """Do this with each part. What comes of it stays where it is, and is not computed again when it is asked for again."""
        ...

    def merged(self, work: Callable[[T_co], S], join: Callable[[list[S]], S]) -> S:
        """Do this with each part, and bring what comes of it here, as one: joined on the way, some at a time."""
        ...

    def release(self) -> None:
        """Nobody asks for these any more."""
        ...


@dataclass(frozen=True)
class Held(Generic[T]):
    """Parts that are in this process: for tests, and for what an engine has to merge at the end."""

    parts: list[T]

    def keep(self, work: Callable[[T], S]) -> Held[S]:
        return Held([work(part) for part in self.parts])

    def merged(self, work: Callable[[T], S], join: Callable[[list[S]], S]) -> S:
        return join([work(part) for part in self.parts])

    def release(self) -> None:
        self.parts.clear()

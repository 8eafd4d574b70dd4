"""Users in parts, on whatever machines: what an engine has to offer, and what it is handed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from weft.data import Vocabulary
from weft.data.readers.files import File, FileTable
from weft.errors import InputError, WeftError

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")
S = TypeVar("S")
T_co = TypeVar("T_co", covariant=True)
_FEW = 3  # rows that a message shows


@dataclass(frozen=True)
class Part:
    """Everything that was given about some users: a frame for each argument that has rows of users,
    empty where there are none.

    `frames`, by argument: `source` (user, item, and score, rank or both), `truth` and `train`
    (user, item, and rating if there is one), `candidates` (user, item), `users` (user),
    `user_groups` and `slices['NAME']` (user, label). Ids are Int64 or String as they came, scores,
    ranks and ratings Float64. `source everyone`, `truth everyone` (user): who is named there
    without a row. `source`: the model that scores these users, where there are no lists."""

    frames: Mapping[str, pl.DataFrame]
    source: Any = None


@dataclass(frozen=True)
class Origin:
    """Where the rows of an argument come from. `where` names it in messages, as in "truth
    (s3://logs/test)".
    """

    where: str
    path: str | None = None  # None: no file
    unread: tuple[str, ...] = ()  # columns that play no role
    notes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # of its frames, in every part: ("user", "item", "score")


class Parts(Protocol[T_co]):
    """Something of each part, which stays where it is.

    All rows of a user are in one part; a part may have no user. Work may be done more than once (on
    a machine that was lost, and again elsewhere); what comes of it counts once."""

    def keep(self, work: Callable[[T_co], S]) -> Parts[S]:
        """Do this with each part. What comes of it stays where it is, and is not computed again
        when it is asked for again.
        """
        ...

    def merged(self, work: Callable[[T_co], S], join: Callable[[list[S]], S]) -> S:
        """Do this with each part, and bring what comes of it here, as one: joined on the way, some
        at a time.
        """
        ...

    def release(self) -> None:
        """Nobody asks for these any more."""
        ...


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Failure:
    """What is wrong in a part, on its way to the caller. `others`: how many other parts have failed
    too.
    """

    kind: type[WeftError]
    message: str
    others: int = 0

    def error(self) -> WeftError:
        more = (
            f"\nSo have {self.others:,} other parts of the users; theirs are not shown."
            if self.others
            else ""
        )
        return self.kind(self.message + more)


def _or_failure(work: Callable[[T], S], part: T | Failure) -> S | Failure:
    if isinstance(part, Failure):
        return part
    try:
        return work(part)
    except WeftError as error:
        return Failure(type(error), str(error))


def _joined(join: Callable[[list[S]], S], parts: list[S | Failure]) -> S | Failure:
    failures = sorted(
        (part for part in parts if isinstance(part, Failure)), key=lambda failure: failure.message
    )
    if failures:
        others = sum(failure.others + 1 for failure in failures) - 1
        return replace(failures[0], others=others)
    return join(list(parts))  # type: ignore[arg-type]


def merged(parts: Parts[Any], work: Callable[[Any], S], join: Callable[[list[S]], S]) -> S:
    """What comes of this work in all parts, as one. What is wrong in one of them is raised here."""
    found: S | Failure = parts.merged(partial(_or_failure, work), partial(_joined, join))
    if isinstance(found, Failure):
        raise found.error()
    return found


def kept(parts: Parts[Any], work: Callable[[Any], Any]) -> Parts[Any]:
    """What comes of this work stays in the parts; what is wrong there is raised by `merged`."""
    return parts.keep(partial(_or_failure, work))


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Portion(FileTable):
    """The rows of a part, as a table."""

    file: File | None = None  # type: ignore[assignment]
    columns: Mapping[str, pl.Series] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    origin: Origin = field(default_factory=lambda: Origin(""))

    @property
    def path(self) -> str | None:
        return self.origin.path

    def locate_rows(self, rows: Sequence[int]) -> list[str]:
        return ["a row"] * len(rows)  # where it stands in which file, nobody knows any more


def portion(frames: Mapping[str, pl.DataFrame], argument: str, origin: Origin) -> Portion:
    """The rows of an argument in a part. A row without an id is refused."""
    frame, everyone = frames[argument], frames.get(f"{argument} everyone")
    for kind in ("user", "item"):
        if kind in frame.columns and frame[kind].null_count():
            missing = frame.filter(frame[kind].is_null())
            shown = "\n".join(
                f"  a row: {_shown(row)}" for row in missing.head(_FEW).iter_rows(named=True)
            )
            raise InputError(
                f"{origin.where} has no {kind} id in {len(missing):,} rows:\n{shown}\nEvery row "
                "needs one."
            )
    columns = {name: frame[name] for name in frame.columns}
    named = (
        None
        if everyone is None
        else Vocabulary.from_data(
            "user", [frame["user"], everyone["user"]], origin=origin.where
        ).ids
    )
    return Portion(
        where=origin.where,
        columns=columns,
        unused_columns=origin.unread,
        num_columns=len(columns),
        notes=origin.notes,
        all_users=named,
        origin=origin,
    )


def _shown(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value!r}" for name, value in row.items())

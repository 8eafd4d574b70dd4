"""Partitions of the users: the interface that an engine implements, and the data of a partition."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from weft.data import Vocabulary
from weft.data.readers.files import File, FileTable
from weft.errors import InputError, WeftError, agree

if TYPE_CHECKING:
    import polars as pl

T = TypeVar("T")
S = TypeVar("S")
T_co = TypeVar("T_co", covariant=True)
ALL_USERS = " all users"  # suffix of the frame with the users of an input, also those without rows
# In train and candidates, a user without rows is as good as unknown.
INPUTS_WITH_ALL_USERS = ("source", "truth")
_MAX_EXAMPLES = 3  # rows that a message shows


@dataclass(frozen=True)
class Partition:
    """All inputs about some of the users: a frame per input that has rows of users.

    `frames`, by input: `source` (user, item, and score, rank or both), `truth` and `train` (user,
    item, optionally rating), `candidates` (user, item), `users` (user), `user_groups` and
    `slices['NAME']` (user, label). A frame may be empty. Ids are Int64 or String; scores, ranks and
    ratings are Float64. `source all users` and `truth all users` (user) name users without a row.
    `source` is the model that scores these users if there are no recommendation lists.
    """

    frames: Mapping[str, pl.DataFrame]
    source: Any = None

    def select(self, roles: Collection[str]) -> Partition:
        """Return the partition with frames that need no columns but these; they may have more."""
        if not isinstance(self.frames, LazyFrames):
            return self
        return replace(self, frames=self.frames.select(roles))


class LazyFrames(Mapping[str, "pl.DataFrame"]):
    """Frames that are read whenever they are used.

    `readers`, by input, take the columns that are needed, or None for all of them.
    """

    def __init__(
        self,
        readers: Mapping[str, Callable[[Collection[str] | None], pl.DataFrame]],
        roles: Collection[str] | None = None,
    ) -> None:
        self._readers, self._roles = readers, roles

    def __getitem__(self, name: str) -> pl.DataFrame:
        return self._readers[name](self._roles)

    def __contains__(self, name: object) -> bool:
        return name in self._readers

    def __iter__(self) -> Iterator[str]:
        return iter(self._readers)

    def __len__(self) -> int:
        return len(self._readers)

    def select(self, roles: Collection[str]) -> LazyFrames:
        """Return frames of which only these columns are needed."""
        return LazyFrames(self._readers, roles)


@dataclass(frozen=True)
class InputOrigin:
    """Origin of the rows of an input; `where` names it in messages: "truth (s3://logs/test)"."""

    where: str
    path: str | None = None  # None if the input is not a file
    unused_columns: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # of its frame in every partition: ("user", "item", "score")
    num_rows: int | None = None  # None if it is not known before they are read


class Partitions(Protocol[T_co]):
    """A value per partition, each stored on a worker.

    All rows of a user are in one partition; a partition may have no user. An engine may run a
    function more than once for a partition, if a worker is lost; its result counts once.
    """

    def map(self, function: Callable[[T_co], S]) -> Partitions[S]:
        """Apply a function to each partition; the results are computed once, and stay there."""
        ...

    def map_reduce(self, function: Callable[[T_co], S], combine: Callable[[list[S]], S]) -> S:
        """Apply a function to each partition and return the results, combined as a tree."""
        ...

    def release(self) -> None:
        """Free the storage of these values."""
        ...


def use_cores(number: int) -> None:
    """Limit the threads of a worker, since several tasks run at once on a machine."""
    # polars reads the variable when it is imported, which a new worker has not done yet.
    os.environ.setdefault("POLARS_MAX_THREADS", str(number))
    import torch

    if torch.get_num_threads() != number:
        torch.set_num_threads(number)


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message, without its full stop."""
    return (str(error).strip().partition("\n")[0] or type(error).__name__).rstrip(".")


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PartitionFailure:
    """An error in a partition, sent to the driver as a value."""

    kind: type[WeftError]
    message: str
    num_others: int = 0  # other partitions that failed

    def to_error(self) -> WeftError:
        """Return the error to raise on the driver."""
        if not self.num_others:
            return self.kind(self.message)
        others = agree(
            self.num_others,
            "{n} other partition{s} of the users also failed; {their} error{s} {are} not shown.",
        )
        return self.kind(f"{self.message}\n{others}")


def _catch_failure(function: Callable[[T], S], value: T | PartitionFailure) -> S | PartitionFailure:
    if isinstance(value, PartitionFailure):
        return value
    try:
        return function(value)
    except WeftError as error:
        return PartitionFailure(type(error), error.message)


def _combine_or_fail(
    combine: Callable[[list[S]], S], values: list[S | PartitionFailure]
) -> S | PartitionFailure:
    failures = [value for value in values if isinstance(value, PartitionFailure)]
    if failures:
        num_failed = sum(failure.num_others + 1 for failure in failures)
        first = min(failures, key=lambda failure: failure.message)
        return replace(first, num_others=num_failed - 1)
    return combine(list(values))  # type: ignore[arg-type]


def map_reduce(
    partitions: Partitions[Any], function: Callable[[Any], S], combine: Callable[[list[S]], S]
) -> S:
    """Apply a function to all partitions and combine the results; raise an error of one of them."""
    result: S | PartitionFailure = partitions.map_reduce(
        partial(_catch_failure, function), partial(_combine_or_fail, combine)
    )
    if isinstance(result, PartitionFailure):
        raise result.to_error()
    return result


def map_partitions(partitions: Partitions[Any], function: Callable[[Any], Any]) -> Partitions[Any]:
    """Apply a function to all partitions; `map_reduce` on the results raises its errors."""
    return partitions.map(partial(_catch_failure, function))


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PartitionTable(FileTable):
    """The rows of an input in a partition, as a table."""

    file: File | None = None  # type: ignore[assignment]
    columns: Mapping[str, pl.Series] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    origin: InputOrigin = field(default_factory=lambda: InputOrigin(""))

    @property
    def path(self) -> str | None:
        return self.origin.path

    def locate_rows(self, rows: Sequence[int]) -> list[str]:
        return ["a row"] * len(rows)  # partitions do not know files and line numbers


def read_partition_table(
    frames: Mapping[str, pl.DataFrame], argument: str, origin: InputOrigin
) -> PartitionTable:
    """Return the rows of an input in a partition; raise InputError for rows without an id."""
    frame, all_users = frames[argument], frames.get(argument + ALL_USERS)
    for kind in ("user", "item"):
        if kind in frame.columns and frame[kind].null_count():
            raise _missing_id(frame, kind, origin.where)
    columns = {name: frame[name] for name in frame.columns}
    user_ids = None
    if all_users is not None:
        series = [frame["user"], all_users["user"]]
        user_ids = Vocabulary.from_data("user", series, origin=origin.where).ids
    return PartitionTable(
        where=origin.where,
        columns=columns,
        unused_columns=origin.unused_columns,
        num_columns=len(columns),
        notes=origin.notes,
        all_users=user_ids,
        origin=origin,
    )


def _missing_id(frame: pl.DataFrame, kind: str, where: str) -> InputError:
    missing = frame.filter(frame[kind].is_null())
    examples = "\n".join(
        "  a row: " + ", ".join(f"{name} {value!r}" for name, value in row.items())
        for row in missing.head(_MAX_EXAMPLES).iter_rows(named=True)
    )
    return InputError(
        f"{where} has no {kind} id in {agree(len(missing), '{n} row{s}')}:\n{examples}\nEvery row "
        "needs one."
    )

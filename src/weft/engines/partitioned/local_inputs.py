"""Inputs in the memory or the files of the driver, as rows of users that can be partitioned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from weft._input_kinds import InputKind
from weft.data import Vocabulary, read_interactions, read_labels
from weft.data.frames import collect_frame, is_frame
from weft.data.interaction_readers import read_pairs
from weft.data.number_files import read_input_file
from weft.data.number_readers import read_ids_and_values
from weft.data.readers.files import FileTable, is_file, read_table
from weft.data.readers.role_assignment import assign_frame_roles
from weft.data.readers.roles import VALUE_ROLE
from weft.data.recommendations import ROW_RANK_OFFSET, ListTable, are_lists, read_lists
from weft.data.vocabulary import distinct_ids, id_series
from weft.engines.partitioned.partitions import ALL_USERS, INPUTS_WITH_ALL_USERS, InputOrigin
from weft.errors import InputError, describe_type

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class DriverInput:
    """Vectors or lists of users, which the driver reads; `name` is that of the input.

    The rows of an `unordered` table of the engine, which the driver has collected, have no order.
    """

    data: Any
    name: str
    kind: InputKind
    unordered: bool = False

    def collect(self, collect: Callable[[Any, str], Any]) -> DriverInput:
        """Return the input with data in memory in the place of a table of the engine."""
        data = collect(self.data, self.name)
        return replace(self, data=data, unordered=data is not self.data)


def assign_roles(
    columns: Sequence[str],
    argument: str,
    where: str,
    declared: Mapping[str, str | int] | None = None,
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the column of each role, `{"user": "visitor_id", ...}`, and the unused columns.

    `argument` is the input that the table is given as; `declared` are columns that the caller
    declares, as in `weft.File.columns`. Errors are those of files.
    """
    return assign_frame_roles(list(columns), declared or {}, _file_use(argument), where)


def _file_use(argument: str) -> str:
    if argument == "source":
        return "lists"
    return "user_groups" if argument.startswith(("slices[", "inputs[")) else argument


def read_local(data: Any, argument: str) -> tuple[dict[str, pl.DataFrame], InputOrigin]:
    """Return an input (frame, dict, file) as frames of a `Partition`, and its origin.

    Lists without scores and ranks get ranks from the order of their rows.
    """
    import polars as pl

    if argument in ("source", "truth", "train", "candidates"):
        return _read_pairs(data, argument)
    if isinstance(data, DriverInput):
        read = _read_user_lists if data.kind.form == "list" else _read_user_vectors
        return read(data, argument)
    if is_file(data):
        table = read_table(data, argument, use=_file_use(argument))
        names = ("user",) if argument == "users" else ("user", "label")
        frame = pl.DataFrame({name: _plain_ids(table.columns[name]) for name in names})
        return {argument: frame}, InputOrigin(
            table.where, table.path, table.unused_columns, table.notes, names
        )
    if argument == "users":
        frame = pl.DataFrame({"user": Vocabulary.from_ids("user", data).ids})
    else:
        frame = _read_user_labels(data, argument)
    return {argument: frame}, InputOrigin(argument, columns=tuple(frame.columns))


def _read_pairs(data: Any, argument: str) -> tuple[dict[str, pl.DataFrame], InputOrigin]:
    """Return an input with rows (user, item, ...)."""
    import polars as pl

    columns: dict[str, Any] = {}
    unused: tuple[str, ...] = ()
    if argument == "source":
        lists = read_lists(data)
        pairs, unused, columns = lists.entries, lists.unused_columns, _rank_columns(lists)
    elif argument == "candidates":
        pairs = read_pairs(data, argument)
    else:
        pairs = read_interactions(data, argument)
        columns = {"rating": pairs.values}
    if pairs.shape is not None:
        raise InputError(
            f"{argument} is a matrix with row and column numbers; partitioned users and items have "
            "ids. Give a frame or a file (user, item, rating), or evaluate it in one process with "
            "weft.evaluate."
        )
    frame = pl.DataFrame(
        {"user": _plain_ids(pairs.users), "item": _plain_ids(pairs.items), **columns}
    )
    frames = {argument: frame}
    if pairs.all_users is not None and argument in INPUTS_WITH_ALL_USERS:
        frames[argument + ALL_USERS] = pl.DataFrame({"user": _plain_ids(pairs.all_users)})
    origin = InputOrigin(pairs.where, unused_columns=unused, columns=tuple(frame.columns))
    if (table := pairs.table) is not None:
        origin = InputOrigin(
            pairs.where, table.path, unused or table.unused_columns, table.notes, origin.columns
        )
    return frames, origin


def _rank_columns(lists: ListTable) -> dict[str, Any]:
    """Return the scores and ranks of lists; ranks from the order of rows without either."""
    columns: dict[str, Any] = {"score": lists.entries.values} if lists.has_scores else {}
    if lists.ranks is not None:
        columns["rank"] = lists.ranks
    elif lists.order == "rows":
        columns["rank"] = np.arange(len(lists.entries.values)) + ROW_RANK_OFFSET
    return columns


def _read_user_lists(
    given: DriverInput, argument: str
) -> tuple[dict[str, pl.DataFrame], InputOrigin]:
    """Return lists of users as rows (user, item, and score, rank or both), and all their users."""
    import polars as pl

    if not are_lists(given.data):
        raise _unordered_users(given.data, given.name, "{id: [items]}, or a frame (user, item)")
    lists = read_lists(given.data, given.name)
    if given.unordered and lists.order == "rows":
        raise InputError(
            f"{given.name} has neither scores nor ranks, and rows on an engine have no order. Add "
            "a column 'score' or 'rank'."
        )
    entries, file = lists.entries, lists.file
    origin = InputOrigin(lists.where)
    if file is not None:
        origin = InputOrigin(lists.where, str(file.path), lists.unused_columns, file.notes)
    ids = {"user": _plain_ids(entries.users), "item": _plain_ids(entries.items)}
    frame = pl.DataFrame({**ids, **_rank_columns(lists)})
    users = pl.DataFrame({"user": _plain_ids(distinct_ids(lists.users))})
    frames = {argument: frame, argument + ALL_USERS: users}
    return frames, replace(origin, columns=tuple(frame.columns))


def _read_user_labels(data: Any, argument: str) -> pl.DataFrame:
    """Return labels of users as rows (user, label)."""
    import polars as pl

    ids = id_series(_labelled_users(data, argument), "user", argument)
    users = Vocabulary.from_data("user", [ids], origin=argument)
    labels = read_labels(data, argument, users, num_in_order=0)
    strings = [name for name in labels.names if isinstance(name, str)]
    numbers = [name for name in labels.names if not isinstance(name, str)]
    if numbers and strings:
        raise InputError(
            f"{argument} has numbers and strings as labels, such as {numbers[0]!r} and "
            f"{strings[0]!r}; all labels of partitioned users must have the same type. Write "
            f"{str(numbers[0])!r}."
        )
    codes = labels.codes.values.numpy()
    names = pl.Series([*labels.names, None], strict=False)
    column = names.gather(np.where(codes < 0, len(labels.names), codes))
    return pl.DataFrame({"user": users.ids, "label": column})


def _read_user_vectors(
    vectors: DriverInput, argument: str
) -> tuple[dict[str, pl.DataFrame], InputOrigin]:
    """Return vectors of users as rows (user, value 0, value 1, ...)."""
    import polars as pl

    data, name = vectors.data, vectors.name
    origin = InputOrigin(name)
    if is_file(data):
        data = read_input_file(data, name, vectors.kind)
    if isinstance(data, FileTable):
        origin = InputOrigin(data.where, str(data.path), data.unused_columns, data.notes)
    users, values = read_ids_and_values(data, name, "user", "vector")
    if users is None:
        raise _unordered_users(data, name, "{id: vector}, or a frame with a column of ids")
    columns = {f"{VALUE_ROLE} {number}": column for number, column in enumerate(values.T)}
    frame = pl.DataFrame({"user": _plain_ids(users), **columns})
    return {argument: frame}, replace(origin, columns=tuple(frame.columns))


def _unordered_users(data: Any, argument: str, expected: str) -> InputError:
    return InputError(
        f"{argument} is {describe_type(data)}, but partitioned users have no order; give "
        f"{expected}."
    )


def _labelled_users(data: Any, argument: str) -> list[Any]:
    """Return the ids of users with a label; an id may be repeated."""
    if isinstance(data, Mapping):
        return list(data)
    if type(data).__module__.partition(".")[0] == "pandas" and type(data).__name__ == "Series":
        return list(data.index)
    if not is_frame(data):
        expected = "{id: label}, or a frame with a column of ids and one of labels"
        raise _unordered_users(data, argument, expected)
    data = collect_frame(data, argument)
    columns = {str(name): name for name in data.columns}
    roles, _ = assign_roles(list(columns), argument, argument)
    ids: list[Any] = data[columns[roles["user"]]].to_list()
    return ids


def _plain_ids(column: pl.Series) -> pl.Series:
    """Return ids as Int64 or String; other types are left unchanged."""
    import polars as pl

    if isinstance(column.dtype, (pl.Enum, pl.Categorical)):
        return column.cast(pl.String)
    return column.cast(pl.Int64) if column.dtype.is_integer() else column


def check_id_types(samples: Mapping[str, pl.DataFrame], origins: Mapping[str, InputOrigin]) -> None:
    """Raise InputError if the first rows of two inputs have ids of different types."""
    for kind in ("item", "user"):
        first: Vocabulary | None = None
        for argument, sample in samples.items():
            if kind not in sample.columns or len(sample) == 0:
                continue
            ids = id_series(sample[kind].drop_nulls(), kind, origins[argument].where)
            if first is None:
                first = Vocabulary.from_data(kind, [ids], origin=origins[argument].where)
            else:
                first.encode(ids, origins[argument].where)

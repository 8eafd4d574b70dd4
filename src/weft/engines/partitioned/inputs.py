"""What the caller holds, as rows of users that can be shared out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.data import Vocabulary, read_interactions, read_labels
from weft.data.interaction_readers import read_pairs
from weft.data.readers.files import is_file, read_table
from weft.data.readers.role_assignment import assign_frame_roles
from weft.data.recommendations import read_lists
from weft.data.vocabulary import id_series
from weft.engines.partitioned.partitions import Origin
from weft.errors import InputError

if TYPE_CHECKING:
    import polars as pl


def roles(
    columns: Sequence[str], argument: str, where: str, named: Mapping[str, str | int] | None = None
) -> tuple[dict[str, str], tuple[str, ...]]:
    """Which column of a table plays which role, `{"user": "visitor_id", ...}`, and which play none;
    errors as for files.

    `argument`: as what it is given; `named`: what the caller says of its columns, as
    `weft.File.columns`."""
    return assign_frame_roles(list(columns), named or {}, _use(argument), where)


def _use(argument: str) -> str:
    return (
        "lists"
        if argument == "source"
        else "user_groups"
        if argument.startswith("slices[")
        else argument
    )


def held(given: Any, argument: str) -> tuple[dict[str, pl.DataFrame], Origin]:
    """What the caller holds (frames, dicts, files) as the frames of a part, and where it comes
    from.

    Lists without scores and ranks get ranks from the order of their rows.
    """
    import polars as pl

    if argument in ("source", "truth", "train", "candidates"):
        return _held_cells(given, argument)
    if is_file(given):
        table = read_table(given, argument, use=_use(argument))
        columns = {"user": table.columns["user"]} | (
            {} if argument == "users" else {"label": table.columns["label"]}
        )
        frame = pl.DataFrame({name: _plain(column) for name, column in columns.items()})
        return {argument: frame}, Origin(
            table.where, table.path, table.unused_columns, table.notes, tuple(frame.columns)
        )
    if argument == "users":
        frame = pl.DataFrame({"user": Vocabulary.from_ids("user", given).ids})
    else:
        frame = _held_labels(given, argument)
    return {argument: frame}, Origin(argument, columns=tuple(frame.columns))


def _held_cells(given: Any, argument: str) -> tuple[dict[str, pl.DataFrame], Origin]:
    import polars as pl

    columns: dict[str, Any] = {}
    if argument == "source":
        named = read_lists(given)
        cells, unread = named.entries, named.unused_columns
        columns = {"score": cells.values} if named.has_scores else {}
        columns |= {"rank": named.ranks} if named.ranks is not None else {}
        if named.order == "rows":
            columns["rank"] = np.arange(len(cells.values), dtype=np.float64)
    else:
        cells, unread = (
            (read_pairs if argument == "candidates" else read_interactions)(given, argument),
            (),
        )
        if cells.shape is not None:
            raise InputError(
                f"{argument} is a matrix, whose rows and columns are numbers; where users lie in "
                "parts they go by their ids. Give "
                "a frame or a file (user, item, rating), or evaluate it in one process with "
                "weft.evaluate."
            )
        columns = {} if argument == "candidates" else {"rating": cells.values}
    frame = pl.DataFrame({"user": _plain(cells.users), "item": _plain(cells.items), **columns})
    frames = {argument: frame}
    if cells.all_users is not None:
        frames[f"{argument} everyone"] = pl.DataFrame({"user": _plain(cells.all_users)})
    table = cells.table
    about = (None, (), ()) if table is None else (table.path, table.unused_columns, table.notes)
    return frames, Origin(cells.where, about[0], unread or about[1], about[2], tuple(frame.columns))


def _held_labels(given: Any, argument: str) -> pl.DataFrame:
    """Labels of users as rows (user, label)."""
    import polars as pl

    names: Any
    if isinstance(given, Mapping):
        names = list(given)
    elif type(given).__module__.partition(".")[0] == "pandas" and type(given).__name__ == "Series":
        names = given.index.tolist()
    elif hasattr(given, "columns"):
        given = given.collect() if hasattr(given, "collect") else given
        real = {str(name): name for name in given.columns}
        names = given[real[roles(list(real), argument, argument)[0]["user"]]].to_list()
    else:
        raise InputError(
            f"{argument} is a {type(given).__name__}, but where users lie in parts they are in no "
            f"order; give {{id: label}}, or a "
            "frame with a column of ids and one of labels."
        )
    users = Vocabulary.from_data("user", [id_series(names, "user", argument)], origin=argument)
    labels = read_labels(given, argument, users, in_order=0)
    numbers, words = (
        [name for name in labels.names if isinstance(name, str) is is_word]
        for is_word in (False, True)
    )
    if numbers and words:
        raise InputError(
            f"{argument} has numbers and words as labels, such as {numbers[0]!r} and {words[0]!r}; "
            "where users lie in parts labels "
            f"are all of one kind. Write {str(numbers[0])!r}."
        )
    codes = labels.codes.values.numpy()
    found = pl.Series([*labels.names, None], strict=False).gather(
        np.where(codes < 0, len(labels.names), codes)
    )
    return pl.DataFrame({"user": users.ids, "label": found})


def _plain(column: pl.Series) -> pl.Series:
    """Ids as Int64 or String, whatever they are coded as."""
    import polars as pl

    if isinstance(column.dtype, (pl.Enum, pl.Categorical)):
        return column.cast(pl.String)
    return column.cast(pl.Int64) if column.dtype.is_integer() else column


def refuse_other_ids(samples: Mapping[str, pl.DataFrame], origins: Mapping[str, Origin]) -> None:
    """Refuse ids of other types than those of the rest, from the first rows of each argument,
    before any work is done.
    """
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

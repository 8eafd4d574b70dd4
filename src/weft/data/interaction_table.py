"""What users give as truth or train, read into (user, item, value) cells.

Two kinds come in: *named* cells carry the caller's ids (frames, dicts); *placed* cells are
matrices, whose rows and columns are the numbers of users and items."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.data.interactions import Interactions
from weft.data.readers.files import FileTable, is_file, read_table
from weft.data.readers.roles import ID_ROLES, find_column
from weft.data.vocabulary import Vocabulary, id_series
from weft.errors import InputError, setting_ref

if TYPE_CHECKING:
    import polars as pl

SHOWN = 5  # offending rows in a message


@dataclass(frozen=True)
class InteractionTable:
    """InteractionTable under the caller's ids (`users`, `items` are series) or placed by numbers (`shape` is
    given).
    """

    where: str
    users: pl.Series
    items: pl.Series
    values: NDArray[np.float64]
    shape: tuple[int, int] | None = None
    all_users: pl.Series | None = (
        None  # users that are named, with cells or without; None: those with cells
    )
    value_name: str = "rating"  # what the values are; "" where they say nothing
    table: FileTable | None = None  # the file that they were read from
    row_numbers: NDArray[np.int64] | None = None  # which of its rows these are; None: all

    def __post_init__(self) -> None:
        bad = ~np.isfinite(self.values)
        if bad.any():
            raise InputError(
                f"{self.where} has {self.value_name}s that are not finite "
                f"numbers:\n{self.format_rows(bad)}\nRemove or repair these rows."
            )

    def format_rows(self, which: NDArray[np.bool_]) -> str:
        """The first of the chosen cells, one per line."""
        rows = np.flatnonzero(which)
        shown = rows[:SHOWN].tolist()
        given = shown if self.row_numbers is None else self.row_numbers[shown].tolist()
        places = (
            [f"row {row}" for row in given] if self.table is None else self.table.locate_rows(given)
        )
        lines = [
            f"  {place}: user {self.users[int(row)]!r}, item {self.items[int(row)]!r}"
            + (f", {self.value_name} {self.values[row]:g}" if self.value_name else "")
            for place, row in zip(places, shown)
        ]
        if len(rows) > SHOWN:
            lines.append(f"  ... {len(rows):,} rows in all")
        return "\n".join(lines)

    def filter(self, rows: NDArray[np.bool_]) -> InteractionTable:
        """Only the chosen cells, which keep their rows in messages. Every user stays."""
        chosen = np.flatnonzero(rows)
        return replace(
            self,
            users=self.users.filter(rows),
            items=self.items.filter(rows),
            values=self.values[chosen],
            all_users=self.users.unique() if self.all_users is None else self.all_users,
            row_numbers=chosen if self.row_numbers is None else self.row_numbers[chosen],
        )

    def with_ids(self, items: Vocabulary) -> InteractionTable:
        """The same under ids: the rows and columns of a matrix by their numbers, or its columns as
        `items` names them.
        """
        import polars as pl

        if self.shape is None:
            return self
        if self.shape[1] != items.size:
            raise InputError(
                f"{self.where} is a matrix of {self.shape[1]} columns, but there are {items.size} "
                "items; expected one for each."
            )
        everyone = pl.int_range(self.shape[0], dtype=pl.Int64, eager=True)
        return replace(self, items=items.ids.gather(self.items), shape=None, all_users=everyone)

    def encode(
        self, users: Vocabulary, items: Vocabulary
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """User and item codes; -1 for a user that is not in the vocabulary. Items outside it are an
        error.
        """
        if self.shape is not None:
            if self.shape != (users.size, items.size):
                raise InputError(
                    f"{self.where} is a matrix of shape {list(self.shape)}, but there are "
                    f"{users.size} users and "
                    f"{items.size} items; expected shape [{users.size}, {items.size}], rows and "
                    "columns in the order of "
                    "the scores."
                )
            return self.users.to_numpy(), self.items.to_numpy()
        item_codes = self.encode_items(items)
        user_codes = users.encode(self.users, self.where)
        if users.is_positional and (user_codes < 0).any():
            raise InputError(
                f"{self.where} has users that are not rows of the scores{_range(users)}:\n"
                f"{self.format_rows(user_codes < 0)}\nGive the ids of the scores' rows as users=[...]."
            )
        return user_codes, item_codes

    def encode_items(
        self, items: Vocabulary, *, dtype: type[np.signedinteger[Any]] = np.int64
    ) -> NDArray[Any]:
        """The code of each item. Items outside the vocabulary are an error."""
        codes = items.encode(self.items, self.where, dtype=dtype)
        outside = codes < 0
        if outside.any():
            raise InputError(
                f"{self.where} has items that are not in the catalogue of {items.size} items"
                f"{_range(items)}:\n{self.format_rows(outside)}\n"
                f"Remove these rows, or give the whole catalogue as {setting_ref('items')}."
            )
        return codes


def read_interactions(data: Any, where: str) -> InteractionTable:
    """Truth or train in any of the accepted forms. `where` ("truth", "train") names it in messages."""
    if isinstance(data, Mapping):
        return _from_dict(data, where)
    if is_file(data):
        return _from_table(read_table(data, where))
    library, name = type(data).__module__.partition(".")[0], type(data).__name__
    if is_frame(data):
        return _from_columns(*open_frame(data, where), where)
    if library == "scipy" and hasattr(data, "tocoo"):
        return _from_scipy(data, where)
    if library == "torch" and hasattr(data, "layout"):
        return _from_torch(data, where)
    if isinstance(data, np.ndarray):
        return _from_dense(data, where)
    raise InputError(
        f"{where} is a {name}; expected a path, a polars or pandas frame (user, item, rating), a "
        "scipy or torch "
        "sparse matrix, a dense [users, items] matrix, or {user: {item: rating}}."
    )


def read_pairs(data: Any, where: str) -> InteractionTable:
    """Users and items in any of the same forms, whatever else stands beside them."""
    if is_frame(data):
        users, items = read_ids(*open_frame(data, where), where)
        return InteractionTable(where, users, items, np.ones(len(users)), value_name="")
    cells = read_interactions(data, where)
    return replace(cells, values=np.ones(len(cells.values)), value_name="")


def is_frame(data: Any) -> bool:
    """Whether this is a table of polars' or pandas'."""
    library, name = type(data).__module__.partition(".")[0], type(data).__name__
    return (library == "polars" and name in ("DataFrame", "LazyFrame")) or (
        library == "pandas" and name == "DataFrame"
    )


def open_frame(frame: Any, where: str) -> tuple[list[str], Callable[[str], Any]]:
    """The names of a frame's columns, each once, and a way to get one."""
    if type(frame).__module__.partition(".")[0] == "pandas":
        columns, column = (
            [str(name) for name in frame.columns],
            lambda name: _from_pandas(frame[name]),
        )
    else:
        frame = frame.collect() if hasattr(frame, "collect") else frame
        columns, column = frame.columns, frame.__getitem__
    doubled = [name for name in columns if columns.count(name) > 1]
    if doubled:
        raise InputError(f"{where} has the column {doubled[0]!r} twice; rename or drop one.")
    return columns, column


def build(
    cells: InteractionTable,
    users: NDArray[np.int64],
    items: NDArray[np.int64],
    size: tuple[int, int],
) -> Interactions:
    """The truth's cells as rows: each cell once, or an error that shows the first repeated ones."""
    rows = Interactions.from_codes(users, items, cells.values, *size)
    repeated = rows.find_duplicates()
    if repeated.any():
        keys = users * size[1] + items
        seen_first = np.zeros(len(keys), dtype=np.bool_)
        seen_first[np.unique(keys, return_index=True)[1]] = True
        raise InputError(
            f"{cells.where} has {int(repeated.sum()):,} repeated (user, item) "
            f"rows:\n{cells.format_rows(~seen_first)}\n"
            "Each item may occur once per user; aggregate or drop the repetitions."
        )
    return rows


def _range(vocabulary: Vocabulary) -> str:
    what = "row" if vocabulary.kind == "user" else "column"
    return f" ({what} numbers 0 to {vocabulary.size - 1})" if vocabulary.is_positional else ""


def _from_dict(data: Mapping[Any, Any], where: str) -> InteractionTable:
    users: list[Any] = []
    items: list[Any] = []
    values: list[float] = []
    for user, row in data.items():
        if isinstance(row, (str, bytes)) or not hasattr(row, "__iter__"):
            raise InputError(
                f"{where}[{user!r}] is {row!r}; expected {{item: rating}} or a list of items."
            )
        liked = list(row)
        ratings = row.values() if isinstance(row, Mapping) else [1.0] * len(liked)
        users.extend([user] * len(liked))
        items.extend(liked)
        try:
            values.extend(float(rating) for rating in ratings)
        except (TypeError, ValueError):
            raise InputError(
                f"{where}[{user!r}] is {row!r}; its ratings must be numbers."
            ) from None
    return InteractionTable(
        where,
        id_series(users, "user", where),
        id_series(items, "item", where),
        np.asarray(values, dtype=np.float64),
        all_users=id_series(list(data), "user", where),
    )


def _from_table(table: FileTable) -> InteractionTable:
    ratings = table.columns.get("rating")
    values = np.ones(len(table)) if ratings is None else ratings.to_numpy()
    return InteractionTable(
        table.where,
        table.columns["user"],
        table.columns["item"],
        values,
        all_users=table.all_users,
        table=table,
    )


def _from_columns(columns: list[str], column: Callable[[str], Any], where: str) -> InteractionTable:
    """A frame, by the names of its columns and a way to get one."""
    users, items = read_ids(columns, column, where)
    ratings = find_column(columns, "rating", where)
    return InteractionTable(
        where,
        users,
        items,
        np.ones(len(users)) if ratings is None else read_numbers(column(ratings), ratings, where),
    )


def read_ids(
    columns: list[str], column: Callable[[str], Any], where: str
) -> tuple[pl.Series, pl.Series]:
    """The user and the item of each row of a frame."""
    users, items = (
        id_series(column(str(find_column(columns, role, where))), role, where) for role in ID_ROLES
    )
    return users, items


def read_numbers(column: Any, name: str, where: str, what: str = "rating") -> NDArray[np.float64]:
    """A column of numbers, NaN where one is missing."""
    import polars as pl

    numbers = column if isinstance(column, pl.Series) else pl.Series(column, strict=False)
    if not (
        numbers.dtype.is_numeric()
        or numbers.dtype == pl.Boolean
        or numbers.null_count() == len(numbers)
    ):
        raise InputError(
            f"{where}: the column {name!r} holds {numbers.dtype}; {what}s must be numbers."
        )
    return numbers.cast(pl.Float64).fill_null(float("nan")).to_numpy()


def _from_pandas(column: Any) -> Any:
    """A pandas column as an array of numbers, or as a list with None for what is missing."""
    # Not by polars' own conversion: it wants pyarrow, which is not a dependency.
    if isinstance(column.dtype, np.dtype) and column.dtype.kind in "iufb":
        return column.to_numpy()
    return [None if missing else value for value, missing in zip(column.tolist(), column.isna())]


def _placed(
    users: Any, items: Any, values: NDArray[Any], shape: tuple[int, ...], where: str
) -> InteractionTable:
    import polars as pl

    if values.dtype.kind not in "biuf":
        raise InputError(f"{where} is a matrix of {values.dtype}; ratings must be real numbers.")
    users, items = (pl.Series(np.asarray(codes, dtype=np.int64)) for codes in (users, items))
    return InteractionTable(
        where, users, items, values.astype(np.float64, copy=False), (shape[0], shape[1])
    )


def _from_scipy(matrix: Any, where: str) -> InteractionTable:
    _check_two_dimensions(matrix.shape, where)
    coo = matrix.tocoo()  # stored zeros and repeated cells stay, so that they can be judged
    return _placed(coo.row, coo.col, coo.data, coo.shape, where)


def _from_torch(tensor: Any, where: str) -> InteractionTable:
    import torch

    _check_two_dimensions(tuple(tensor.shape), where)

    def array(part: Any) -> NDArray[Any]:
        part = part.detach().cpu()
        numbers: NDArray[Any] = (part.float() if part.dtype == torch.bfloat16 else part).numpy()
        return numbers

    if tensor.layout == torch.strided:
        return _from_dense(array(tensor), where)
    if tensor.layout == torch.sparse_csr:
        offsets, columns, values = (
            tensor.crow_indices(),
            array(tensor.col_indices()),
            tensor.values(),
        )
        rows = np.repeat(np.arange(tensor.shape[0]), np.diff(array(offsets)))
    elif tensor.layout == torch.sparse_coo and tensor.dense_dim() == 0:
        (rows, columns), values = array(tensor._indices()), tensor._values()
    else:
        raise InputError(
            f"{where} has the torch layout {tensor.layout}; expected a sparse CSR, sparse COO or "
            "dense matrix."
        )
    return _placed(rows, columns, array(values), tuple(tensor.shape), where)


def _from_dense(matrix: NDArray[Any], where: str) -> InteractionTable:
    _check_two_dimensions(matrix.shape, where)
    rows, columns = np.nonzero(matrix)
    return _placed(rows, columns, matrix[rows, columns], matrix.shape, where)


def _check_two_dimensions(shape: tuple[int, ...], where: str) -> None:
    if len(shape) != 2:
        raise InputError(
            f"{where} has shape {list(shape)}; a matrix of ratings is [users, items], 0 where "
            "absent."
        )

"""`TopKItems`: recommended items as a matrix, and the detection of one that is given as scores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.data.positions import are_positions
from weft.data.precision import find_inexact, inexact_integers
from weft.data.vocabulary import Vocabulary
from weft.errors import InputError, agree, check_unmasked

if TYPE_CHECKING:
    import polars as pl

_PADDING = -1
_MAX_COLUMNS = 1000  # no library recommends more items per user
_SAMPLE_ROWS = 100  # to detect item ids


class TopKItems:
    """Recommendation lists as a matrix `[users, k]` of integers.

    `weft.evaluate` and the engines accept it wherever they accept recommendation lists.

    Parameters
    ----------
    ids
        Item ids, or positions in `items`, with the best item first. -1 is padding of shorter lists.
    scores
        Scores `[users, k]` for metrics that read scores, not increasing along a row. The order of
        `ids` decides on the ranking.
    users
        Id of each row. By default users are the row numbers, from 0; then a truth or train that is
        a frame or a file raises an error, unless `"positions"` declares that its ids are row
        numbers.
    items
        Ids of the items, if `ids` are positions in them.

    Raises
    ------
    InputError
        If ids, scores or users are invalid.

    Examples
    --------
    >>> import numpy as np, weft
    >>> ids = np.array([[7, 3, 5], [5, 7, -1]])
    >>> lists = weft.TopKItems(ids, users=["ann", "bob"])
    >>> weft.evaluate(lists, {"ann": [3], "bob": [5]}, metrics="MRR", top_k=3)["MRR@3"]
    0.75
    """

    def __init__(
        self, ids: Any, scores: Any = None, *, users: Any = None, items: Any = None
    ) -> None:
        matrix = _to_array(ids, "ids")
        if matrix.dtype.kind not in "iu":
            raise InputError(
                f"ids of weft.TopKItems has the type {matrix.dtype}; expected integers: item ids, "
                "or positions in items=[...], with -1 as padding."
            )
        if matrix.size and matrix.max() >= 2**63:
            raise InputError(
                f"ids of weft.TopKItems has the id {matrix.max()}, beyond 63 bits; give positions "
                "in items=[...]."
            )
        is_item = matrix != _PADDING
        if (matrix < _PADDING).any():
            raise InputError(
                f"ids of weft.TopKItems has {matrix.min()}; only -1 (padding) may be negative."
            )
        self._codes = matrix[is_item].astype(np.int64)
        self._rows, self._columns = np.nonzero(is_item)
        self._scores = None if scores is None else _read_scores(scores, is_item)
        self.has_undeclared_rows = users is None and len(matrix) > 0
        self._users = Vocabulary.from_size("user", len(matrix))
        if users is not None and not are_positions(users):
            self._users = Vocabulary.from_ids("user", users)
            _check_size(self._users.size, len(matrix))
        self._items = None if items is None else Vocabulary.from_ids("item", items)
        if self._items is not None and (self._codes >= self._items.size).any():
            raise InputError(
                f"ids of weft.TopKItems has the position {self._codes.max()}, but items has "
                f"{agree(self._items.size, '{n} id{s}')}; positions range from 0 to "
                f"{self._items.size - 1}. Remove items if ids contains the ids themselves."
            )

    @property
    def users(self) -> pl.Series:
        """The id of each row."""
        return self._users.ids

    def to_frame(self) -> pl.DataFrame:
        """Return a frame with the columns user, item, rank, and score if there are scores."""
        import polars as pl

        items = pl.Series(self._codes) if self._items is None else self._items.ids[self._codes]
        columns = {"user": self.users[self._rows], "item": items, "rank": self._columns + 1.0}
        return pl.DataFrame(columns if self._scores is None else {**columns, "score": self._scores})


def _to_array(data: Any, name: str) -> NDArray[Any]:
    where = f"{name} of weft.TopKItems"
    if hasattr(data, "detach"):  # a torch tensor
        data = data.double() if data.is_floating_point() else data
    check_unmasked(data, where, "give the id -1 (padding) there, ids.filled(-1)")
    from weft.data.devices import read_array

    array = read_array(data, where)
    if array.ndim != 2:
        raise InputError(
            f"{name} of weft.TopKItems has shape {list(array.shape)}; expected [users, k]."
        )
    return array


def _read_scores(data: Any, is_item: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the score of each item; raise `InputError` for scores that increase along a row."""
    scores = _to_array(data, "scores")
    if scores.shape != is_item.shape or scores.dtype.kind not in "fiu":
        raise InputError(
            f"scores of weft.TopKItems has shape {list(scores.shape)} and type {scores.dtype}; "
            f"expected numbers of shape {list(is_item.shape)}, as ids."
        )
    if len(large := find_inexact(scores)):
        row, column = divmod(int(large[0]), scores.shape[1])
        location = f"position [{row}, {column}]"
        raise inexact_integers("scores of weft.TopKItems", location, scores[row, column], "score")
    scores = scores.astype(np.float64)
    lowest = np.fmin.accumulate(np.where(is_item, scores, np.inf), axis=1)
    increases = is_item[:, 1:] & (scores[:, 1:] > lowest[:, :-1])
    if increases.any():
        row, column = np.argwhere(increases)[0]
        raise InputError(
            f"scores of weft.TopKItems increase in row {row}, to {scores[row, column + 1]:g} at "
            f"position {column + 2}; expected the best item first. Sort each row by descending "
            "score, or negate distances."
        )
    return scores[is_item]


def _check_size(num_users: int, num_rows: int) -> None:
    if num_users != num_rows:
        raise InputError(
            f"users of weft.TopKItems has {agree(num_users, '{n} id{s}')}, but ids has "
            f"{agree(num_rows, '{n} row{s}')}; expected one id for each row."
        )


def check_no_item_ids(scores: Any) -> None:
    """Raise `InputError` if a matrix of scores looks like item ids `[users, k]`.

    These are integers of few columns that are distinct in each row (but for -1, padding), with more
    different values than columns, or with values far beyond the number of columns.
    """
    num_columns = scores.shape[1]
    is_float = scores.is_floating_point() if hasattr(scores, "detach") else None
    if is_float or not 0 < num_columns <= _MAX_COLUMNS:
        return
    sample = scores[:_SAMPLE_ROWS]
    if np.ma.is_masked(sample) and sample.dtype.kind in "iu":
        sample = sample.astype(np.int64).filled(_PADDING)
    sample = _to_array(np.ma.getdata(sample) if is_float is None else sample, "scores")
    if sample.dtype.kind not in "iu" or (sample < _PADDING).any():
        return
    ordered = np.sort(sample, axis=1)
    is_repeated = (ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] != _PADDING)
    values = np.unique(sample[sample != _PADDING])
    is_wide = len(values) > num_columns or (len(values) and values[-1] >= 2 * num_columns)
    if is_wide and not is_repeated.any():
        raise InputError(
            f"the source is a matrix {list(scores.shape)} of integers that are distinct in each "
            f"row, such as {sample[0, :3].tolist()}: these look like item ids, best first, rather "
            "than scores [users, items]. Give item ids as weft.TopKItems(ids, users=[...]), and "
            "integer scores as floats."
        )

"""`Scores`: score matrices and factors with the ids of their users and items."""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from weft.data.frames import collect_frame, is_frame, library_of
from weft.data.positions import are_positions
from weft.data.readers.file_settings import File, is_matrix_file
from weft.data.readers.files import is_file, read_table
from weft.data.sources.factors import Factors
from weft.data.sources.matrix import ScoreMatrix
from weft.data.sources.matrix_files import Arrays, read_arrays
from weft.errors import InputError, SettingError, agree, describe_type, plain_text

# Accepted names of arrays in files. Those of _EITHER are ids if they have one dimension, and
# embeddings if they have two.
_NAMES = {
    "scores": ("scores", "score"),
    "user_embeddings": ("user_embeddings", "user_embedding", "user_factors"),
    "item_embeddings": ("item_embeddings", "item_embedding", "item_factors"),
    "user_biases": ("user_biases", "user_bias"),
    "item_biases": ("item_biases", "item_bias"),
    "users": ("user_ids",),
    "items": ("item_ids",),
}
_EITHER = {"user": "user", "users": "user", "item": "item", "items": "item"}
_EXPECTED = (
    "expected one matrix [users, items], named 'scores' or anything else, or 'user_embeddings' "
    "and 'item_embeddings' (or user_factors and item_factors), optionally with 'user_biases' and "
    "'item_biases', and with the ids 'users' and 'items'"
)


class Scores:
    """Scores or factors with the ids of their rows and columns.

    Parameters
    ----------
    scores
        Scores `[users, items]` in one of these forms:

        - a pandas frame with users in its index and items in its columns;
        - a polars frame or Arrow table with users in its first column, and one column for each
          item;
        - an array or tensor, or `weft.Factors`;
        - the path of a `.npy`, `.npz`, `.pt` or `.safetensors` file with scores or factors.
    users
        Ids of the rows: a list, an array, the path of a file, or `"positions"` if ids are row
        numbers. They replace the ids of a frame or file.
    items
        Ids of the columns, in the same forms. If all column names of a polars frame are texts of
        integers, they are read as integers.

    Raises
    ------
    InputError
        If scores cannot be read, or the number of ids differs from that of rows or columns.

    Examples
    --------
    >>> import pandas as pd, weft
    >>> frame = pd.DataFrame([[0.9, 0.1], [0.2, 0.8]], index=["ann", "bob"], columns=["x", "y"])
    >>> weft.evaluate(weft.Scores(frame), {"ann": ["x"], "bob": ["y"]}, metrics="HitRate@1")[
    ...     "HitRate@1"
    ... ]
    1.0
    """

    def __init__(self, scores: Any, *, users: Any = None, items: Any = None) -> None:
        self.path: str | None = None
        own_users = own_items = None
        if is_matrix_file(scores):
            source, own_users, own_items = _read_file(scores)
            self.path = plain_text(scores.path if isinstance(scores, File) else scores)
        elif is_frame(scores):
            source, own_users, own_items = _read_frame(scores)
        elif isinstance(scores, (Factors, ScoreMatrix)):
            source = scores
        elif isinstance(scores, (Tensor, np.ndarray)):
            source = ScoreMatrix(scores)
        else:
            raise InputError(
                f"weft.Scores takes a [users, items] frame, array or tensor, weft.Factors, or the "
                f"path of a .npy, .npz, .pt or .safetensors file; got {describe_type(scores)}."
            )
        self._source = source
        self.users = _read_ids("users", own_users if users is None else users, source.num_users)
        self.items = _read_ids("items", own_items if items is None else items, source.num_items)

    def open(self) -> ScoreMatrix | Factors:
        """Return the source of scores, with its ids."""
        source = copy(self._source)
        source.user_ids, source.item_ids, source.path = self.users, self.items, self.path
        return source


def _read_ids(name: str, ids: Any, size: int | None) -> Any:
    """Return ids; those of files are read. Raises `InputError` if their number does not fit."""
    if ids is None or are_positions(ids):
        return ids
    ids = read_table(ids, name) if is_file(ids) else ids
    number = len(ids) if hasattr(ids, "__len__") else None
    if number is not None and number != size:
        axis = "row" if name == "users" else "column"
        raise InputError(
            f"{name} of weft.Scores has {agree(number, '{n} id{s}')}, but the scores have "
            f"{agree(size or 0, '{n} {axis}{s}', axis=axis)}; expected one id for each."
        )
    return ids


def _read_frame(frame: Any) -> tuple[ScoreMatrix, Any, Any]:
    """Return the scores of a wide frame, and the ids of its users and items."""
    frame = collect_frame(frame, "the frame of weft.Scores")
    if library_of(frame) == "pandas":
        matrix, users, items = frame.to_numpy(), frame.index.tolist(), frame.columns.tolist()
        types = sorted({str(dtype) for dtype in frame.dtypes if dtype.kind not in "fiub"})
    else:
        if frame.width < 2:
            raise InputError(
                f"the frame of weft.Scores has the columns {frame.columns}; expected a column of "
                "user ids first, and one for each item."
            )
        columns = frame.drop(frame.columns[0])
        types = sorted({str(one) for one in columns.dtypes if not one.is_numeric()})
        matrix = np.empty(0) if types else columns.to_numpy()
        users, items = frame.to_series(0), _parse_integers(columns.columns)
    if types:
        raise InputError(
            f"the frame of weft.Scores has columns of {', '.join(types)}; expected a number for "
            "each user (row) and item (column). A frame with a row per user and item is a "
            "recommendation list; give it without weft.Scores."
        )
    return ScoreMatrix(matrix), users, items


def _parse_integers(names: list[str]) -> list[str] | list[int]:
    """Return names as integers if all of them are, in their canonical form."""
    is_integer = all(name.removeprefix("-").isdecimal() for name in names)
    if is_integer and [str(int(name)) for name in names] == names:
        return [int(name) for name in names]
    return names


# --------------------------------------------------------------------------------------------------


def _read_file(data: Any) -> tuple[ScoreMatrix | Factors, Any, Any]:
    """Return the scores or factors of a file, and the ids of its users and items, if it has any."""
    path = data.path if isinstance(data, File) else Path(data)
    where = f"source ({plain_text(path)})"
    if isinstance(data, File) and data != File(path):
        raise SettingError(
            f"{where} contains arrays; separator, header, columns and ids apply to tables. Give "
            "only its path."
        )
    arrays = _assign_roles(read_arrays(path, where), where)
    users, items = (_to_ids(arrays.pop(name, None)) for name in ("users", "items"))
    try:
        if "scores" in arrays:
            return ScoreMatrix(arrays["scores"]), users, items
        return Factors(**arrays), users, items
    except InputError as error:
        raise InputError(f"{where}: {error.message}") from None


def _to_ids(ids: Any) -> Any:
    return ids.tolist() if isinstance(ids, (Tensor, np.ndarray)) else ids


def _assign_roles(arrays: Arrays, where: str) -> Arrays:
    """Return the arrays of a file by their role. Raises `InputError` for any other content."""
    if not arrays or not all(isinstance(one, (Tensor, np.ndarray)) for one in arrays.values()):
        raise InputError(f"{where} contains {_describe(arrays)}; {_EXPECTED}.")
    roles: dict[str, Any] = {}
    unknown = {}
    for name, array in arrays.items():
        role = _find_role(name, array.ndim)
        if role is None or role in roles:
            unknown[name] = array
        else:
            roles[role] = array
    if len(unknown) == 1 and not roles.keys() - {"users", "items"}:
        roles["scores"] = unknown.popitem()[1]
    factors = {"user_embeddings", "item_embeddings"}
    is_matrix = "scores" in roles and roles.keys() <= {"scores", "users", "items"}
    is_pair = factors <= roles.keys() and "scores" not in roles
    if unknown or not (is_matrix or is_pair):
        raise InputError(f"{where} contains {_describe(arrays)}; {_EXPECTED}.")
    return roles


def _find_role(name: str, num_dimensions: int) -> str | None:
    """Return the role of an array; None for any other name."""
    plain = name.removesuffix(".weight").casefold()
    if plain in _EITHER:
        return f"{_EITHER[plain]}s" if num_dimensions == 1 else f"{_EITHER[plain]}_embeddings"
    return next((role for role, names in _NAMES.items() if plain in names), None)


def _describe(arrays: Mapping[str, Any]) -> str:
    """Return the names and shapes of arrays as text."""
    shown = [
        f"{name or 'an array'} {list(getattr(array, 'shape', ()))}"
        if hasattr(array, "shape")
        else f"{name} ({type(array).__name__})"
        for name, array in list(arrays.items())[:8]
    ]
    return ", ".join(shown) + (", ..." if len(arrays) > 8 else "") if shown else "nothing"

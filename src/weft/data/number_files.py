"""Files of inputs: tables, and arrays of numbers or vectors in the order of the ids."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft._input_kinds import InputKind
from weft.data.readers.files import File, FileTable, is_file, read_table
from weft.errors import InputError

_ARRAY_SUFFIXES = (".npy", ".npz")


def read_input_file(
    data: str | Path | File | FileTable, name: str, kind: InputKind
) -> FileTable | NDArray[Any]:
    """Return the content of a file of an input: a table, or the array of a .npy or .npz file."""
    if not isinstance(data, FileTable) and kind.form in ("number", "vector"):
        path = data.path if isinstance(data, File) else Path(data)
        if path.suffix.lower() in _ARRAY_SUFFIXES:
            return _read_array(path, f"{name} ({path})")
    return read_table(data, name, use=kind.use)


def read_input_files(inputs: Mapping[str, Any], kinds: Mapping[str, InputKind]) -> dict[str, Any]:
    """Return inputs by name, with the content in the place of files."""
    return {
        name: read_input_file(data, name, kinds[name]) if is_file(data) else data
        for name, data in inputs.items()
    }


def _read_array(path: Path, where: str) -> NDArray[Any]:
    """Return the array of a NumPy file. Raises `InputError` if there is not exactly one."""
    try:
        loaded = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise InputError(f"{where} cannot be read: {error}.") from None
    if isinstance(loaded, np.ndarray):
        return loaded
    with loaded:
        if len(loaded.files) != 1:
            raise InputError(
                f"{where} has the arrays {', '.join(loaded.files) or 'none'}; expected one array, "
                "with a row for each id in order."
            )
        array: NDArray[Any] = loaded[loaded.files[0]]
        return array

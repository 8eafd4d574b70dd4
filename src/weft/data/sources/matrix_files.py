"""Files of score matrices and factors: NumPy, torch and safetensors.

Arrays are mapped into memory where the format allows it, so that a matrix may be larger than the
memory. Nothing in a file is executed.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.errors import InputError, MissingExtra, describe_type

Arrays = dict[str, Any]  # by name; the only array of a file without names is ""
_LOCAL_HEADER_BYTES = 30  # of an entry in a zip file, before its name
_HEADER_READERS: dict[tuple[int, int], Callable[..., Any]] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_arrays(path: Path, where: str) -> Arrays:
    """Return the arrays of a file by name. Raises `InputError` for files that cannot be read."""
    reader = _READERS[path.suffix.lower()]
    try:
        return reader(path, where)
    except (InputError, MissingExtra):
        raise
    except FileNotFoundError:
        raise InputError(f"{where}: there is no such file.") from None
    except Exception as error:  # whatever the library raises for damaged content
        reason = str(error).strip().partition("\n")[0]
        raise InputError(
            f"{where} cannot be read as {path.suffix.lower()}: {reason or type(error).__name__}."
        ) from error


def _read_npy(path: Path, where: str) -> Arrays:
    return {"": np.load(path, mmap_mode="r", allow_pickle=False)}


def _read_npz(path: Path, where: str) -> Arrays:
    """Map the arrays that are not compressed; the others are read."""
    arrays: Arrays = {}
    with zipfile.ZipFile(path) as archive, np.load(path, allow_pickle=False) as content:
        for entry in archive.infolist():
            name = entry.filename.removesuffix(".npy")
            mapped = _map_entry(path, entry) if entry.compress_type == zipfile.ZIP_STORED else None
            arrays[name] = content[name] if mapped is None else mapped
    return arrays


def _map_entry(path: Path, entry: zipfile.ZipInfo) -> NDArray[Any] | None:
    """Return the array of an entry that is not compressed, mapped; None if it cannot be mapped."""
    with open(path, "rb") as file:
        file.seek(entry.header_offset)
        header = file.read(_LOCAL_HEADER_BYTES)
        lengths = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
        file.seek(entry.header_offset + _LOCAL_HEADER_BYTES + sum(lengths))
        read_header = _HEADER_READERS.get(np.lib.format.read_magic(file))
        if read_header is None:
            return None
        shape, is_fortran, dtype = read_header(file)
        if dtype.hasobject or 0 in shape:
            return None
        return np.memmap(
            path, dtype, "r", offset=file.tell(), shape=shape, order="F" if is_fortran else "C"
        )


def _read_torch(path: Path, where: str) -> Arrays:
    try:
        content = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except RuntimeError as error:  # files in torch's old format cannot be mapped
        if "mmap" not in str(error):
            raise
        content = torch.load(path, map_location="cpu", weights_only=True)
    if isinstance(content, Tensor):
        return {"": content}
    if not isinstance(content, dict):
        raise InputError(
            f"{where} contains {describe_type(content)}; expected a tensor [users, items], or a "
            "dict of tensors."
        )
    return {str(name): value for name, value in content.items()}


def _read_safetensors(path: Path, where: str) -> Arrays:
    try:
        from safetensors import safe_open
    except ImportError as error:
        raise MissingExtra(
            f"{where}: this file needs safetensors; install it with: pip install "
            "'weft[safetensors]'"
        ) from error
    with safe_open(path, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (no mapping)


_READERS = {
    ".npy": _read_npy,
    ".npz": _read_npz,
    ".pt": _read_torch,
    ".pth": _read_torch,
    ".safetensors": _read_safetensors,
}

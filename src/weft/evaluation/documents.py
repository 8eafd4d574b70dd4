"""Files of tensors and plain values, such as states and checkpoints.

A file is one line (format, version, SHA-256 digest and length of the rest), a line of JSON with
the plain values and the types and shapes of the tensors, and the bytes of the tensors one after the
other. Nothing in a file is executed, and nothing outside of it is read.
"""

from __future__ import annotations

import hashlib
import json
import math
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from weft.errors import InputError, SettingError, describe_type
from weft.evaluation.document_fields import (
    check_list,
    check_mapping,
    check_whole,
    describe,
    read_file,
    reject,
)

FORMAT, VERSION = "weft-state", 4
_EXPECTED = "expected a state written by weft.save_state"
_TENSOR = "$tensor"  # key of the type and shape of a tensor; other keys with $ get another $
_MAX_DIMENSIONS = 64  # as in NumPy
_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float64, torch.float32, torch.float16, torch.bfloat16),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
        *(torch.complex64, torch.complex128),
    )
}


def pack_document(document: Mapping[str, Any]) -> bytes:
    """Return the bytes of a file with tensors and plain values."""
    tensors: list[Tensor] = []
    text = json.dumps(_to_json(document, tensors))
    content = b"".join([text.encode(), b"\n", *map(_tensor_bytes, tensors)])
    digest = hashlib.sha256(content).hexdigest()
    return f"{FORMAT} {VERSION} {digest} {len(content)}\n".encode() + content


def read_document(path: Path) -> dict[str, Any]:
    """Read a file of `pack_document`; tuples were written as lists.

    Raises `InputError` for files that are missing, incomplete, changed, or of another format or
    version. The content is plain values and tensors, but otherwise unknown."""
    content = _read_content(path)
    end = content.find(b"\n")
    try:
        if end < 0:
            reject("its content", "without a line of JSON", "one before the tensors")
        tensors = _TensorReader(memoryview(content)[end + 1 :])
        read = check_mapping(tensors.read(json.loads(content[:end])), "its content")
        tensors.check_end()
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: its content is not JSON ({error}). It is damaged, or was changed."
        ) from None
    return read


def _read_content(path: Path) -> bytes:
    """Return the content after the first line; check format, version, length and digest."""
    header, _, content = read_file(path, _EXPECTED).partition(b"\n")
    fields = (*header.decode(errors="replace").split(" "), "", "", "", "")
    name, version, digest, length = fields[:4]
    if name != FORMAT:
        raise InputError(f"{path}: this is not a state of Weft; {_EXPECTED}.")
    if version != str(VERSION):
        raise InputError(
            f"{path}: written in version {version!r} of the format of states, but this Weft reads "
            f"version {VERSION}; evaluate again, or use the Weft that wrote it."
        )
    if str(len(content)) != length:
        raise InputError(
            f"{path}: has {len(content)} bytes of state, but was written with {length}; the "
            "file was truncated or changed. Copy the original file again, or evaluate its users "
            "again."
        )
    if hashlib.sha256(content).hexdigest() != digest:
        raise InputError(
            f"{path}: the file was changed after it was written; copy the original file again, or "
            "evaluate its users again."
        )
    return content


# --------------------------------------------------------------------------------------------------


def _to_json(value: Any, tensors: list[Tensor]) -> Any:
    """Return plain values for JSON, and append tensors to `tensors`."""
    if isinstance(value, Tensor):
        tensors.append(value)
        return {_TENSOR: [_dtype_name(value), list(value.shape)]}
    if isinstance(value, Mapping):
        return {_escape(name): _to_json(one, tensors) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [_to_json(one, tensors) for one in value]
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    raise SettingError(
        f"a state contains {describe_type(value)}, which cannot be saved; expected tensors, "
        "numbers and strings."
    )


def _dtype_name(tensor: Tensor) -> str:
    """Return the name of a tensor's type. Raises `SettingError` if it cannot be saved."""
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in _DTYPES or tensor.layout != torch.strided or tensor.is_quantized:
        raise SettingError(
            f"a state has a {tensor.layout} tensor of {tensor.dtype}, which cannot be saved; "
            f"expected a dense tensor of {', '.join(_DTYPES)}."
        )
    return name


def _escape(name: Any) -> str:
    if not isinstance(name, str):
        raise SettingError(
            f"a state has a field {name!r}, which cannot be saved: it is not a string."
        )
    return f"${name}" if name.startswith("$") else name


def _tensor_bytes(tensor: Tensor) -> bytes:
    if sys.byteorder != "little":
        raise SettingError("states, which are little-endian, cannot be saved on this machine.")
    flat = torch.empty(tensor.numel(), dtype=tensor.dtype).copy_(tensor.detach().reshape(-1))
    return flat.view(torch.uint8).numpy().tobytes()


class _TensorReader:
    """Puts tensors back into the values of JSON, from their bytes."""

    def __init__(self, content: memoryview) -> None:
        self._content, self._position = content, 0

    def read(self, value: Any, field: str = "its content") -> Any:
        """Return a value with its tensors. Raises `InputError` for those that do not fit."""
        if isinstance(value, list):
            return [self.read(one, f"{field}[{row}]") for row, one in enumerate(value)]
        if not isinstance(value, dict):
            return value
        if _TENSOR in value:
            return self._read_tensor(check_mapping(value, field, {_TENSOR})[_TENSOR], field)
        return {
            name.removeprefix("$"): self.read(one, f"{field}[{name!r}]")
            for name, one in value.items()
        }

    def _read_tensor(self, form: Any, field: str) -> Tensor:
        dtype, shape = _read_form(form, field)
        size = math.prod(shape) * dtype.itemsize
        bounds = math.prod(max(1, length) for length in shape) * dtype.itemsize
        chunk = self._content[self._position : self._position + size]
        if len(shape) > _MAX_DIMENSIONS or bounds >= 1 << 63 or len(chunk) != size:
            reject(field, f"a tensor {shape}", f"one of the {len(self._content):,} bytes there are")
        self._position += size
        if size == 0:
            return torch.empty(shape, dtype=dtype)
        flat = torch.frombuffer(bytearray(chunk), dtype=torch.uint8)
        if dtype == torch.bool and bool((flat > 1).any()):
            reject(field, "with other values than 0 and 1", "a tensor of bool")
        return flat.view(dtype).reshape(shape)

    def check_end(self) -> None:
        """Raise `InputError` if there are bytes of no tensor."""
        if left := len(self._content) - self._position:
            reject("its content", f"{left:,} bytes longer than its tensors", "nothing after them")


def _read_form(form: Any, field: str) -> tuple[torch.dtype, list[int]]:
    """Return the type and the shape of a tensor."""
    name, lengths = check_list(form, field, 2)
    if not isinstance(name, str) or name not in _DTYPES:
        reject(f"the type of {field}", describe(name), f"one of {', '.join(_DTYPES)}")
    shape = [check_whole(one, f"the shape of {field}") for one in check_list(lengths, field)]
    return _DTYPES[name], shape

"""Weights in the format of safetensors, used in place."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import warnings
from typing import TYPE_CHECKING, Any

import torch

from .. import Array
from .._samples import file_system
from ..errors import Error, Exists, Invalid, Overflow

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Mapping

    from .. import Container, File

# All cells of an Array are in one chunk, so that each tensor is one piece.
CHUNK_BYTES = 1 << 40
_NAMES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "C64": "complex64",
    "I64": "int64",
    "I32": "int32",
    "I16": "int16",
    "I8": "int8",
    "U64": "uint64",
    "U32": "uint32",
    "U16": "uint16",
    "U8": "uint8",
    "BOOL": "bool",
}
# Types that this release of torch has.
_TYPES = {name: getattr(torch, known) for name, known in _NAMES.items() if hasattr(torch, known)}
_CODES = {known: name for name, known in _TYPES.items()}
# The entry of the header that is not a tensor.
_METADATA = "__metadata__"
# Length of the number before the header, and limit of the format for the header.
_PREFIX, _HEADER_MAX = 8, 100_000_000


def _header(
    tensors: Mapping[str, torch.Tensor], metadata: Mapping[str, str] | None
) -> tuple[bytes, dict[str, Any]]:
    """The header of a file with these tensors, and their offsets in the data; larger elements come first."""
    if _METADATA in tensors:
        raise ValueError(f"no tensor can have the name {_METADATA!r} in the format: give it another name")
    entries: dict[str, Any] = {_METADATA: metadata} if metadata else {}
    at = 0
    for name in sorted(tensors, key=lambda name: (-tensors[name].element_size(), name)):
        tensor = tensors[name]
        if tensor.dtype not in _CODES:
            raise TypeError(f"{name!r} is of {tensor.dtype}, which safetensors does not have")
        end = at + tensor.numel() * tensor.element_size()
        entries[name] = {
            "dtype": _CODES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [at, end],
        }
        at = end
    header = json.dumps(entries, separators=(",", ":")).encode()
    return header + b" " * (-len(header) % 8), entries


def save_safetensors(
    tensors: Mapping[str, torch.Tensor],
    container: Container,
    name: str,
    metadata: Mapping[str, str] | None = None,
) -> Array:
    """Store tensors as a new Array of a container, whose cells are the bytes of a safetensors file.

    `tensors` is a dict of names and tensors, `metadata` a dict of texts. The header is written last: an
    Array whose writer was killed cannot be loaded. If the save fails, the Array is destroyed. Returns the
    Array.
    """
    header, entries = _header(tensors, metadata)
    array = _new_array(container, name)
    try:
        _write(array, tensors, header, entries)
    except BaseException:
        with contextlib.suppress(Error):
            array.destroy()
        raise
    return array


def _write(
    array: Array, tensors: Mapping[str, torch.Tensor], header: bytes, entries: Mapping[str, Any]
) -> None:
    """Write the tensors of a file to their offsets, and then its header."""
    begin = _PREFIX + len(header)
    for name, tensor in tensors.items():
        if tensor.numel():
            whole = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            array.write(begin + entries[name]["data_offsets"][0], whole.numpy())
    array.write(0, len(header).to_bytes(_PREFIX, "little") + header)


def _new_array(container: Container, name: str) -> Array:
    """Create an Array of bytes. If there is one, the error names the remedy."""
    try:
        return container.create_array(name, 1, CHUNK_BYTES)
    except Exists:
        remedy = f"choose another name, or container.array({name!r}).destroy() removes it"
        raise Exists(errno.EEXIST, f'array "{name}" already exists: {remedy}') from None


def load_safetensors(
    source: Array | str | os.PathLike[str], *, copy: bool | None = None
) -> dict[str, torch.Tensor]:
    """The tensors of an Array of `save_safetensors`, or of a file `esker://POOL/CONTAINER/path`, by name.

    Tensors of an Array in a pool in memory are views of the stored bytes, without a copy, if they have
    more than 1024 bytes and at most 4 MiB; all others are copies. Do not write to a view: the memory is
    read-only, and the process would be killed. `copy=True` makes all of them writable.
    """
    if isinstance(source, Array):
        end = source.size()
        return _load(source.read, lambda at, size: _cells(source, at, size, end, copy))
    files, path = file_system(source)
    with files.open_file(path) as file:
        return _load(file.read, lambda at, size: _content(file, at, size))


def _load(read: Callable[[int, int], bytes], place: Callable[[int, int], Any]) -> dict[str, torch.Tensor]:
    """The tensors of the header that `read` returns, in the buffers that `place` returns."""
    size = int.from_bytes(read(0, _PREFIX), "little")
    if not 0 < size <= _HEADER_MAX:
        raise Invalid(22, f"a header of {size} bytes: not a safetensors file, or one that is not finished")
    entries = json.loads(read(_PREFIX, size))
    entries.pop(_METADATA, None)
    return {name: _tensor(name, entry, _PREFIX + size, place) for name, entry in entries.items()}


def _tensor(name: str, entry: Mapping[str, Any], data: int, place: Callable[[int, int], Any]) -> torch.Tensor:
    """The tensor of an entry of the header, in the buffer that `place` returns; data begins at `data`."""
    dtype, (begin, end) = _TYPES.get(entry["dtype"]), entry["data_offsets"]
    if dtype is None:
        raise TypeError(f"{name!r} is of type {entry['dtype']}, which this release of torch does not have")
    if end - begin != math.prod(entry["shape"]) * torch.empty(0, dtype=dtype).element_size():
        raise Invalid(22, f"{name!r} has {end - begin} bytes, which its shape {entry['shape']} does not have")
    if begin == end:
        return torch.empty(entry["shape"], dtype=dtype)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given buffer is not writable")
        return torch.frombuffer(place(data + begin, end - begin), dtype=dtype).reshape(entry["shape"])


def _cells(array: Array, at: int, size: int, end: int, copy: bool | None) -> bytearray | memoryview:
    """A view of cells if possible, else a writable copy; the Array has `end` cells."""
    if at + size > end:
        raise Invalid(22, f"the Array ends before byte {at + size}")
    try:
        view = None if copy else array.view(at, size)
    except Overflow:  # the process has as many views as it may have
        view = None
    if view is not None and not view.is_copy:
        return memoryview(view)
    cells = bytearray(size)
    array.read_into(at, cells)
    return cells


def _content(file: File, at: int, size: int) -> bytearray:
    content = bytearray(size)
    if file.read_into(at, content) < size:
        raise Invalid(22, f"the file ends before byte {at + size}")
    return content

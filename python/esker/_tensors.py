"""Methods of tensors that need numpy: putting arrays, and reading selections as arrays."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex

from ._esker import Tensor, TensorPut, TensorStore

if TYPE_CHECKING:
    from types import ModuleType

    import numpy
    from numpy.typing import ArrayLike, DTypeLike

    from ._esker import _Described, _Memory, _NumpyArray, _Path


def _numpy() -> ModuleType:
    try:
        import numpy
    except ImportError as error:
        raise ImportError("tensors are numpy arrays: pip install numpy") from error
    return numpy


def _described(dtype: numpy.dtype[Any]) -> _Described:
    """A dtype for the store: its code, or the size of a structured one and its members."""
    if dtype.hasobject or dtype.kind == "T":
        raise TypeError(
            f"dtype {dtype} holds pointers to Python objects, not values: convert the array to a numeric, "
            "bytes or str type of a fixed size, e.g. with astype"
        )
    if dtype.names is None or dtype.fields is None:
        return dtype.str
    members = []
    for name in dtype.names:
        inner, offset, *titles = dtype.fields[name]
        inner, shape = inner.subdtype or (inner, ())
        title = titles[0] if titles and isinstance(titles[0], str) else ""
        members.append((name, title, offset, _described(inner), shape))
    return dtype.itemsize, members


def _dtype(described: _Described) -> numpy.dtype[Any]:
    """The dtype that the store described."""
    if isinstance(described, str):
        return _made(described)
    size, members = described
    names, titles, offsets, inner, shapes = zip(*members)
    formats = [(_dtype(one), shape) if shape else _dtype(one) for one, shape in zip(inner, shapes)]
    fields: dict[str, Any] = {"names": names, "formats": formats, "offsets": offsets, "itemsize": size}
    if any(titles):
        fields["titles"] = [title or None for title in titles]
    return _made(fields)


def _made(code: Any) -> numpy.dtype[Any]:
    dtype: numpy.dtype[Any] = _numpy().dtype(code)
    return dtype


def _memory(array: _NumpyArray) -> _Memory:
    """The bytes of an array, the offset of the first element in them, and the strides."""
    numpy = _numpy()
    if array.nbytes == 0:
        return b"", 0, (0,) * array.ndim
    if array.flags.c_contiguous:
        return array.reshape(-1).view(numpy.uint8), 0, array.strides
    reach = [(n - 1) * stride for n, stride in zip(array.shape, array.strides)]
    # With its negative strides reversed, the array begins at its lowest address.
    lowest = array[tuple(slice(None, None, -1 if stride < 0 else 1) for stride in array.strides)]
    as_strided = numpy.lib.stride_tricks.as_strided
    element = as_strided(lowest, (1,), (array.itemsize,), writeable=False).view(numpy.uint8)
    span = sum(map(abs, reach)) + array.itemsize
    memory = as_strided(element, (span,), (1,), writeable=False)
    return memory, -sum(one for one in reach if one < 0), array.strides


def _plain(value: Any) -> Any:
    """An attribute without numpy: scalars and arrays become numbers and lists."""
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value.tolist() if hasattr(value, "tolist") else value


def _attributes(attrs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Attributes as a new dict without values of numpy."""
    return {name: _plain(value) for name, value in (attrs or {}).items()}


def _array(data: ArrayLike) -> _NumpyArray:
    """The data as a plain array of numpy. Refuses one with masked values."""
    array = _numpy().asanyarray(data)
    mask = getattr(array, "mask", None)
    if mask is not None and _numpy().any(mask):
        raise TypeError("a masked array has no value where it is masked: use filled()")
    plain: _NumpyArray = _numpy().asarray(array)
    return plain


def _put(
    self: TensorStore,
    array: ArrayLike,
    name: str | None = None,
    attrs: Mapping[str, Any] | None = None,
    *,
    chunks: Sequence[int] | None = None,
) -> str:
    """Stores a complete array, visible under `name` or by its UUID only, and returns the UUID.

    It replaces a tensor with that name: readers see the old one or the new one. `attrs` is a dict of bool,
    int, float, str, bytes, and lists of them. `chunks` is the shape of chunks, by default complete rows of
    up to 4 MiB.
    """
    array = _array(array)
    kind = _described(array.dtype)
    return self._put(kind, array.shape, chunks, _attributes(attrs), _memory(array), name)


def _begin(
    self: TensorStore,
    shape: SupportsIndex | Sequence[int],
    dtype: DTypeLike,
    attrs: Mapping[str, Any] | None = None,
    *,
    chunks: Sequence[int] | None = None,
) -> TensorPut:
    """Begins a tensor that is written in parts, by any processes, and returns its TensorPut."""
    return self._begin(_described(_made(dtype)), _several(shape), chunks, _attributes(attrs))


def _several(numbers: SupportsIndex | Sequence[int]) -> Sequence[int]:
    """Numbers of each dimension; a number alone is that of the only one."""
    return (operator.index(numbers),) if isinstance(numbers, SupportsIndex) else numbers


def _get(self: TensorStore, name: str) -> _NumpyArray:
    """The elements of a tensor, by its name or UUID: a new array."""
    array: _NumpyArray = self.open(name)[...]
    return array


def _put_hdf5(
    self: TensorStore,
    path: _Path,
    name: str | None = None,
    dataset: str | None = None,
    *,
    chunks: Sequence[int] | None = None,
) -> str:
    """Stores a dataset of an HDF5 file, visible under `name` or by its UUID only, and returns the UUID.

    `dataset` is its path in the file, and may be omitted if it is the only one; netCDF 4 files are HDF5
    files. Type, byte order and attributes are kept. Chunks are kept unless they are very small or larger
    than 64 MiB, or `chunks` gives others. The dataset may be larger than the memory. A warning names each
    attribute that is changed or left out: complex numbers become lists of two, compounds become texts in
    JSON.
    """
    uuid, remarks = self._put_hdf5(path, name, dataset, chunks)
    for remark in remarks:
        warnings.warn(f"{path}: {remark}", stacklevel=2)
    return uuid


def _keys(self: TensorStore) -> list[str]:
    """The names of tensors, sorted."""
    return [one["name"] for one in self.list() if one["name"] is not None]


def _iterate(self: TensorStore) -> Iterator[str]:
    return iter(_keys(self))


def _write(self: TensorPut, offset: SupportsIndex | Sequence[int], array: ArrayLike) -> None:
    """Writes a part: `array`, with the first index `offset`. When this returns, the part is stored.

    Its type must be that of the tensor, and so must its number of dimensions.
    """
    array = _array(array)
    if array.dtype != self.dtype:
        raise TypeError(f"a part of dtype {array.dtype} for a tensor of {self.dtype}: use astype")
    self._write(_several(offset), array.shape, _memory(array))


def _own_dtype(self: Tensor | TensorPut) -> numpy.dtype[Any]:
    """The type of its elements, a numpy.dtype."""
    return _dtype(self._data_type())


def _ndim(self: Tensor) -> int:
    """Number of its dimensions."""
    return len(self.shape)


def _length(self: Tensor) -> int:
    if not self.shape:
        raise TypeError("len() of a tensor without dimensions")
    return self.shape[0]


def _expanded(key: Any, ndim: int) -> tuple[tuple[Any, ...], int | None]:
    """One item for each dimension, None for new ones, and the position of `...` (None without one)."""
    key = key if isinstance(key, tuple) else (key,)
    used = sum(1 for item in key if item is not None and item is not Ellipsis)
    dots = [at for at, item in enumerate(key) if item is Ellipsis]
    if len(dots) > 1 or used > ndim:
        why = "more than one '...'" if len(dots) > 1 else f"{used} indexes for {ndim} dimensions"
        raise IndexError(f"{why} in {key!r}")
    rest = (slice(None),) * (ndim - used)
    if not dots:
        return key + rest, None
    return key[: dots[0]] + rest + key[dots[0] + 1 :], dots[0]


def _one(item: Any, length: int) -> tuple[tuple[int, int, int], slice | int]:
    """(start, step, count) of an item of a selection, and the numpy index for the rest of the work."""
    if isinstance(item, slice):
        start, stop, step = item.indices(length)
        count = len(range(start, stop, step))
        if step > 0 or count == 0:
            return (min(start, length) if count else 0, abs(step), count), slice(None)
        # The store reads ascending indexes, which numpy then reverses.
        return (start + (count - 1) * step, -step, count), slice(None, None, -1)
    if isinstance(item, bool) or not hasattr(item, "__index__"):
        raise IndexError(
            f"a tensor is indexed by integers, slices, ... and None, not {item!r}: read a range, "
            "then index the array"
        )
    index = operator.index(item)
    at = index + length if index < 0 else index
    if not 0 <= at < length:
        raise IndexError(f"index {index} is out of bounds for a dimension of {length}")
    return (at, 1, 1), 0


def _select(self: Tensor, key: Any) -> Any:
    """Reads a selection. The result is that of numpy for the same key."""
    numpy = _numpy()
    shape = self.shape
    items, dots = _expanded(key, len(shape))
    # The selection that the store reads, and the numpy index that is applied to the result.
    slabs: list[tuple[int, int, int]] = []
    left: list[Any] = []
    lengths = iter(shape)
    for item in items:
        if item is None:
            left.append(None)
            continue
        slab, rest = _one(item, next(lengths))
        slabs.append(slab)
        left.append(rest)
    array = numpy.ndarray([count for _, _, count in slabs], self.dtype)
    if array.nbytes:
        self._read_into(slabs, array.reshape(-1).view(numpy.uint8))
    if dots is not None:
        left.insert(dots, Ellipsis)
    return array[tuple(left)]


def _asarray(self: Tensor, dtype: DTypeLike | None = None, copy: bool | None = None) -> _NumpyArray:
    if copy is False:
        raise ValueError("a tensor is read to new memory: it cannot become an array without a copy")
    array: _NumpyArray = self[...]
    return array if dtype is None else array.astype(dtype, copy=False)


_ADDED: dict[type, dict[str, Any]] = {
    TensorStore: {
        "put": _put,
        "begin": _begin,
        "get": _get,
        "put_hdf5": _put_hdf5,
        "keys": _keys,
        "__iter__": _iterate,
    },
    TensorPut: {"write": _write, "dtype": property(_own_dtype)},
    Tensor: {
        "dtype": property(_own_dtype),
        "ndim": property(_ndim),
        "__len__": _length,
        "__getitem__": _select,
        "__array__": _asarray,
    },
}


def complete() -> None:
    """Add the members that need numpy, which is imported on first use."""
    for cls, members in _ADDED.items():
        for name, member in members.items():
            setattr(cls, name, member)

"""Arrays: one-dimensional arrays of numbers in a container."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any, SupportsIndex

from .. import Array
from ._client import failing
from ._object import DObject

if TYPE_CHECKING:
    from types import ModuleType

    import numpy
    from numpy.typing import ArrayLike, DTypeLike

    from .._esker import _NumpyArray
    from ._container import DCont


def _numpy() -> ModuleType:
    try:
        import numpy
    except ImportError as error:
        raise ImportError("a DArray's values are a numpy array: pip install numpy") from error
    return numpy


# Kinds of numpy's types that are numbers: truth values, integers, floating-point and complex numbers.
_NUMBERS = "biufc"


def values_of(v: ArrayLike | None) -> _NumpyArray:
    """The values of a list or an array as a one-dimensional numpy array; no values are float64."""
    numpy = _numpy()
    values: _NumpyArray = numpy.ascontiguousarray([] if v is None else v)
    if values.dtype.kind not in _NUMBERS:
        remedy = "store numbers that stand for them, such as values.view('u1'), or each member of a structure"
        raise ValueError(f"a DArray has numbers, not {values.dtype}: {remedy}")
    if values.ndim != 1:
        raise ValueError(f"{values.ndim} dimensions of {values.dtype}: a DArray has one, of numbers")
    return values


class DArray(DObject[Array]):
    """A one-dimensional array of a container, stored as an Array with one cell per number.

    In DAOS the class has a name only. Here elements and slices are read and set as in numpy, and
    `numpy.asarray(array)` reads all of it.
    """

    def __init__(self, name: str, handle: Array, cont: DCont, dtype: DTypeLike) -> None:
        """Keep the handle and the type of the numbers."""
        super().__init__(name, handle, cont)
        self.dtype: numpy.dtype[Any] = _numpy().dtype(dtype)

    @property
    def shape(self) -> tuple[int]:
        """Its length, as a tuple."""
        return (len(self),)

    def resize(self, size: int) -> None:
        """Truncate it to `size` numbers, or extend it with zeros."""
        with failing("resize array"):
            self.oh.set_size(size)

    def _span(self, index: SupportsIndex | slice) -> tuple[int, int, int]:
        """The start of an index, its number of elements, and its step, which is 1 for a single number."""
        if isinstance(index, slice):
            begin, end, step = index.indices(len(self))
            return begin, len(range(begin, end, step)), step
        at = operator.index(index)
        begin = at + len(self) if at < 0 else at
        if not 0 <= begin < len(self):
            raise IndexError(f"{self.name} has {len(self)} numbers, none at {at}")
        return begin, 1, 1

    def _read(self, begin: int, count: int) -> _NumpyArray:
        values: _NumpyArray = _numpy().zeros(count, self.dtype)
        # The read leaves cells that were never written as they are.
        with failing("read array"):
            self.oh.read_into(begin, values)
        return values

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        begin, count, step = self._span(index)
        # Reads all numbers from the first to the last, and selects from them in memory.
        last = begin + max(0, count - 1) * step
        span = abs(last - begin) + 1 if count else 0
        found = self._read(min(begin, last), span)[:: 1 if step > 0 else -1][:: abs(step)]
        return found if isinstance(index, slice) else found[0]

    def __setitem__(self, index: SupportsIndex | slice, values: ArrayLike) -> None:
        begin, count, step = self._span(index)
        if step != 1:
            raise ValueError(f"step {step}: a DArray is set in slices of step 1")
        stored = _numpy().empty(count, self.dtype)
        stored[:] = values
        with failing("write array"):
            self.oh.write(begin, stored)

    def __len__(self) -> int:
        with failing("query array"):
            return self.oh.size()

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> _NumpyArray:
        """All its numbers, for `numpy.asarray`."""
        if copy is False:
            raise ValueError(f"{self.name} is stored in a container: it is read into a copy")
        values: _NumpyArray = self[:]
        return values.astype(dtype or self.dtype, copy=False)

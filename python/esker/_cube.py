"""Fields as a cube: an array with axes of a request's names, followed by the dimensions of the grid."""

from __future__ import annotations

import bisect
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

import numpy as np

from ._axes import expect_size

# The names and values at one index of an axis; an axis has None where no field can be.
Slot = dict[str, str]
Slots = Sequence[Optional[Slot]]

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ._axes import GridIdentity
    from ._esker import Field, Fields, FieldStore, _Floats


@dataclass
class Part:
    """The fields of a request: names with one value each, and axes of the other names.

    An axis is a list with one entry per index: a dict of names and values, or None where no field can be.
    """

    fixed: dict[str, str]
    axes: Sequence[Slots]

    @classmethod
    def from_values(cls, values: Mapping[str, Sequence[str]], axes: Iterable[Sequence[str]]) -> Part:
        """Make the part of a request from the values of each name; `axes` lists the names of each axis."""
        fixed = {name: several[0] for name, several in values.items()}
        product = itertools.product
        return cls(
            fixed,
            [[dict(zip(names, one)) for one in product(*(values[name] for name in names))] for names in axes],
        )

    def request(self) -> dict[str, list[str]] | None:
        """The request for its fields; None if no field can be in it."""
        axes = [[slot for slot in axis if slot is not None] for axis in self.axes]
        if not all(axes):
            return None
        fixed = {name: [value] for name, value in self.fixed.items()}
        return fixed | {
            name: list(dict.fromkeys(slot[name] for slot in axis)) for axis in axes for name in axis[0]
        }

    def key(self, at: Sequence[int]) -> dict[str, str] | None:
        """The names and values of the field at an index; None if no field can be there."""
        key = dict(self.fixed)
        for axis, index in zip(self.axes, at):
            slot = axis[index]
            if slot is None:
                return None
            key |= slot
        return key


def with_ranges(listed: Mapping[str, Sequence[str]]) -> dict[str, Sequence[str]]:
    """The request in which each step is also the end of a range from 0, as in a retrieval."""
    ranges = [f"0-{value}" for value in listed.get("step", ()) if "-" not in value and value != "0"]
    return {**listed, "step": [*listed["step"], *ranges]} if ranges else dict(listed)


def some_fields(store: FieldStore, request: Mapping[str, Any]) -> Fields:
    """A few fields of a request, none only if it has none.

    One name after another is limited to a value that exists, so that not all fields are listed.
    """
    axes = store.axes(request)
    for name in [name for name, values in axes.items() if len(values) > 1]:
        # The fields that are left may lack the name.
        if name in axes:
            request = {**request, name: axes[name][:1]}
            axes = store.axes(request)
    return store.list(request)


class Cube:
    """Values of fields by index. They are read when they are requested.

    Several parts follow each other on the axis `along`. Chunks have `lengths` indexes of each axis, and all
    points of the grid, whose shape is `grid`. Missing values are `fill`.
    """

    dtype = np.dtype("<f4")

    def __init__(
        self,
        parts: Sequence[Part],
        lengths: Iterable[int],
        grid: Iterable[int],
        *,
        along: int = 0,
        fill: float = math.nan,
        identity: GridIdentity | None = None,
    ) -> None:
        """Take the parts, which have the same axes except `along`, and the identity of their grid."""
        self._parts, self._along, self.fill, self._identity = parts, along, fill, identity
        shape = [len(axis) for axis in parts[0].axes]
        if shape:
            # The index along the axis at which each part ends.
            ends = itertools.accumulate(len(part.axes[along]) for part in parts)
            self._ends = list(ends)
            shape[along] = self._ends[-1]
        self._grid = tuple(grid)
        self._axes, self._lengths = tuple(shape), tuple(lengths)
        self.shape, self.chunks = self._axes + self._grid, self._lengths + self._grid

    def __eq__(self, other: object) -> bool:
        """Two cubes are equal if they have the same fields at the same indexes."""
        return isinstance(other, Cube) and self._layout() == other._layout()

    def _layout(self) -> tuple[Any, ...]:
        return self._parts, self._along, self.shape, self.chunks

    def key(self, at: Sequence[int]) -> dict[str, str] | None:
        """The names and values of the field at an index of the axes; None if no field can be there."""
        if not at:
            return self._parts[0].key(at)
        number = bisect.bisect_right(self._ends, at[self._along])
        at = list(at)
        at[self._along] -= self._ends[number - 1] if number else 0
        return self._parts[number].key(at)

    def _within(self, chunk: Sequence[int]) -> Iterator[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Each index of a chunk, in the chunk and in the cube."""
        begin = [index * length for index, length in zip(chunk, self._lengths)]
        ends = [min(length, n - at) for length, n, at in zip(self._lengths, self._axes, begin)]
        for place in np.ndindex(*ends):
            yield place, tuple(a + b for a, b in zip(begin, place))

    def has(self, store: FieldStore, chunk: Sequence[int]) -> bool:
        """Whether the store has some field of a chunk."""
        return any(self._field(store, at) is not None for _, at in self._within(chunk))

    def _field(self, store: FieldStore, at: Sequence[int]) -> Field | None:
        """The field at an index of the axes; None if the store does not have it."""
        key = self.key(at)
        if key is None:
            return None
        found = store.retrieve(key, partial=True)
        return found[0] if len(found) else None

    def read(self, store: FieldStore, chunk: Sequence[int]) -> NDArray[np.float32] | None:
        """The values of a chunk; None if the store has none of its fields."""
        values = None
        for place, at in self._within(chunk):
            field = self._field(store, at)
            if field is None:
                continue
            if values is None:
                values = np.full(self.chunks, self.fill, self.dtype)
            values[place] = self._decoded(field, store)
        return values

    def _values(self, field: Field, store: FieldStore) -> _Floats:
        """The values of a field. Refuses a field on another grid than that of the cube."""
        identity = self._identity
        if identity is None:
            return field.values
        return identity.values(field, lambda: store.retrieve(identity.key)[0])

    def _decoded(self, field: Field, store: FieldStore) -> _Floats:
        """The values of a field in the shape of the grid, with the fill value for missing ones."""
        decoded = self._values(field, store)
        expect_size(field, decoded, self._grid)
        if not math.isnan(self.fill):
            decoded[np.isnan(decoded)] = self.fill
        return decoded.reshape(self._grid)


class Points:
    """A coordinate of the points of a grid: `name` is `latitudes` or `longitudes` of the field of a key."""

    dtype = np.dtype("<f8")

    def __init__(self, key: Mapping[str, str], name: str, size: int) -> None:
        """Take the key of a field on the grid, the name, and the number of points."""
        self._key, self._name = key, name
        self.shape = self.chunks = (size,)

    def __eq__(self, other: object) -> bool:
        """Two are equal if they are those of the same field."""
        return isinstance(other, Points) and vars(self) == vars(other)

    def has(self, store: FieldStore, chunk: Sequence[int]) -> bool:
        """Whether the store still has the field."""
        return len(store.retrieve(self._key, partial=True)) > 0

    def read(self, store: FieldStore, chunk: Sequence[int]) -> _Floats:
        """The values, in degrees."""
        values: _Floats = getattr(store.retrieve(self._key)[0], self._name)
        return values

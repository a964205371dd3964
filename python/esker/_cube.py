"""Fields as a cube: an array with axes of a request's names, followed by the dimensions of the grid."""

from __future__ import annotations

import bisect
import itertools
import math

import numpy as np

from ._axes import expect_size


class Part:
    """The fields of a request: names with one value each, and axes of the other names.

    An axis is a list with one entry per index: a dict of names and values, or None where no field can be.
    """

    def __init__(self, fixed, axes):
        """Take the names and values that all fields have, and the axes."""
        self.fixed, self.axes = fixed, axes

    @classmethod
    def from_values(cls, values, axes):
        """Make the part of a request from the values of each name; `axes` lists the names of each axis."""
        fixed = {name: several[0] for name, several in values.items()}
        product = itertools.product
        return cls(
            fixed,
            [[dict(zip(names, one)) for one in product(*(values[name] for name in names))] for names in axes],
        )

    def requests(self):
        """Requests for its fields: for the first of them, then for all."""
        if all(self.axes):
            yield self.key([0] * len(self.axes))
            several = {name: axis for axis in self.axes for name in axis[0]}
            listed = {name: [slot[name] for slot in axis] for name, axis in several.items()}
            yield self.fixed | listed

    def key(self, at):
        """The names and values of the field at an index; None if no field can be there."""
        slots = [axis[index] for axis, index in zip(self.axes, at)]
        if None in slots:
            return None
        return self.fixed | {name: value for slot in slots for name, value in slot.items()}


class Cube:
    """Values of fields by index. They are read when they are requested.

    Several parts follow each other on the axis `along`. Chunks have `lengths` indexes of each axis, and all
    points of the grid, whose shape is `grid`. Missing values are `fill`.
    """

    dtype = np.dtype("<f4")

    def __init__(self, parts, lengths, grid, *, along=0, fill=math.nan, identity=None):
        """Take the parts, which have the same axes except `along`, and the identity of their grid."""
        self._parts, self._along, self.fill, self._identity = parts, along, fill, identity
        shape = [len(axis) for axis in parts[0].axes]
        if shape:
            ends = itertools.accumulate(len(part.axes[along]) for part in parts)
            self._ends = list(ends)
            shape[along] = self._ends[-1]
        self._grid = tuple(grid)
        self._axes, self._lengths = tuple(shape), tuple(lengths)
        self.shape, self.chunks = self._axes + self._grid, self._lengths + self._grid

    def key(self, at):
        """The names and values of the field at an index of the axes; None if no field can be there."""
        if not at:
            return self._parts[0].key(at)
        number = bisect.bisect_right(self._ends, at[self._along])
        at = list(at)
        at[self._along] -= self._ends[number - 1] if number else 0
        return self._parts[number].key(at)

    def _within(self, chunk):
        """Each index of a chunk, in the chunk and in the cube."""
        begin = [index * length for index, length in zip(chunk, self._lengths)]
        ends = [min(length, n - at) for length, n, at in zip(self._lengths, self._axes, begin)]
        for place in np.ndindex(*ends):
            yield place, tuple(a + b for a, b in zip(begin, place))

    def has(self, store, chunk):
        """Whether the store has some field of a chunk."""
        return any(self._field(store, at) is not None for _, at in self._within(chunk))

    def _field(self, store, at):
        key = self.key(at)
        found = store.retrieve(key, partial=True) if key is not None else ()
        return found[0] if len(found) else None

    def read(self, store, chunk):
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

    def _values(self, field, store):
        if self._identity is None:
            return field.values
        return self._identity.values(field, lambda: store.retrieve(self._identity.key)[0])

    def _decoded(self, field, store):
        decoded = self._values(field, store)
        expect_size(field, decoded, self._grid)
        if not math.isnan(self.fill):
            decoded[np.isnan(decoded)] = self.fill
        return decoded.reshape(self._grid)


class Points:
    """A coordinate of the points of a grid: `name` is `latitudes` or `longitudes` of the field of a key."""

    dtype = np.dtype("<f8")

    def __init__(self, key, name, size):
        """Take the key of a field on the grid, the name, and the number of points."""
        self._key, self._name = key, name
        self.shape = self.chunks = (size,)

    def has(self, store, chunk):
        """Whether the store still has the field."""
        return len(store.retrieve(self._key, partial=True)) > 0

    def read(self, store, chunk):
        """The values, in degrees."""
        return getattr(store.retrieve(self._key)[0], self._name)

"""The interface of z3fdb on a field store: change the import, and name the store.

    from esker.z3fdb import AxisDefinition, Chunking, ExtractorType, SimpleStoreBuilder

    builder = SimpleStoreBuilder("tank/fields")
    axes = [AxisDefinition(["date", "time"], Chunking.SINGLE_VALUE)]
    builder.add_part({"class": "ea", "date": "20200101/to/20200104", ...}, axes, ExtractorType.GRIB)
    zarr.open_array(builder.build(), mode="r")

`esker.zarr.Fields` needs no definitions, and xarray opens it.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from ._optional import missing_package

try:
    from ._axes import grid_identity
    from ._cube import Cube, Part, some_fields, with_ranges
    from ._zarr_cubes import CubeStore, Layout
except ImportError as error:
    raise missing_package(error, "esker.z3fdb needs zarr 3", "zarr") from error

from . import FieldStore
from .errors import Error
from .pyfdb import _config

if TYPE_CHECKING:
    from ._esker import Field

__all__ = [
    "AxisDefinition",
    "Chunking",
    "ExtractorType",
    "MarsSelection",
    "SimpleStoreBuilder",
    "Z3fdbError",
]

# Names and values of a request: one value, or several in a collection.
MarsSelection = Mapping[str, Any]


class Z3fdbError(RuntimeError):
    """A view cannot be built from its parts."""


@dataclass(frozen=True)
class _FixedSizeChunk:
    """Chunks of a fixed number of values, which divides the length of the axis."""

    chunkShape: int


class Chunking(enum.Enum):
    """Number of values of an axis in a chunk: all, one, or `FixedSizeChunk(chunkShape=n)`."""

    WHOLE_AXIS = enum.auto()
    SINGLE_VALUE = enum.auto()
    FixedSizeChunk: ClassVar[type[_FixedSizeChunk]]


Chunking.FixedSizeChunk = _FixedSizeChunk


class ExtractorType(enum.Enum):
    """Format of fields: GRIB messages."""

    GRIB = "GRIB"


@dataclass
class AxisDefinition:
    """A dimension: its names, of which the last changes fastest, and its chunks."""

    keys: Sequence[str]
    chunking: Chunking | _FixedSizeChunk

    def length(self, values: int) -> int:
        """Number of values in a chunk, for an axis with `values` values."""
        if self.chunking is Chunking.WHOLE_AXIS:
            return values
        wanted = getattr(self.chunking, "chunkShape", 1)
        if wanted < 1 or values % wanted:
            raise Z3fdbError(f"chunks of {wanted} do not divide the {values} values of {'/'.join(self.keys)}")
        return wanted


class SimpleStoreBuilder:
    """Builds a read-only zarr store with one array at its root, of shape (axis, ..., points).

    `fdb_config_file` is a store, POOL/CONTAINER or esker://POOL/CONTAINER, or a configuration as
    `esker.pyfdb.FDB` takes it; without one, ESKER_FIELDS or the configuration names the store.
    """

    def __init__(self, fdb_config_file: Path | str | Mapping[str, Any] | None = None) -> None:
        """Open the field store."""
        given = _config.of_environment() if fdb_config_file is None else _config.read(fdb_config_file)
        self._fields = FieldStore(_config.store_of(given, create=False).name, "r")
        self._given: list[tuple[MarsSelection, Sequence[AxisDefinition], ExtractorType]] = []
        self._along: int | None = None
        self._fill = math.nan

    def add_part(
        self, mars_request: MarsSelection, axes: Sequence[AxisDefinition], extractor_type: ExtractorType
    ) -> None:
        """Add the fields of a request. Each name with several values is in the keys of one axis."""
        self._given.append((mars_request, axes, extractor_type))

    def _part(
        self, request: MarsSelection, axes: Sequence[AxisDefinition], extractor_type: ExtractorType
    ) -> Part:
        """The part of a request, whose axes have the names with several values."""
        if extractor_type is not ExtractorType.GRIB:
            raise Z3fdbError(f"{extractor_type}: fields are GRIB messages: use ExtractorType.GRIB")
        if [axis.chunking for axis in axes] != [axis.chunking for axis in self._axes()]:
            raise Z3fdbError("the axes of a part differ from those of the first in their number or chunking")
        values, named = self._values(request), [name for axis in axes for name in axis.keys]
        unknown = {name for name in named if name not in values}
        lacking = {name for name, several in values.items() if len(several) > 1 and name not in named}
        twice = {name for name in named if named.count(name) > 1}
        nowhere = {name for name, several in values.items() if not several}
        for names, why in (
            (unknown, "the request does not have it"),
            (lacking, "it has several values, and must be in the keys of an axis"),
            (twice, "it is in the keys of more than one axis"),
            (nowhere, "no field of the request has a value for it"),
        ):
            if names:
                raise Z3fdbError(f"{', '.join(sorted(names))}: {why}")
        return Part.from_values(values, [axis.keys for axis in axes])

    def _axes(self) -> Sequence[AxisDefinition]:
        """The axes of the first part."""
        if not self._given:
            raise Z3fdbError("the view has no parts: call add_part")
        return self._given[0][1]

    def _values(self, request: MarsSelection) -> dict[str, list[str]]:
        """The values of each name of a request. For a name with all values, those in the store."""
        try:
            values = self._fields.expand(request)
            found = self._fields.axes(request) if None in values.values() else {}
        except (Error, TypeError, ValueError) as error:
            raise Z3fdbError(str(error)) from error
        return {name: found.get(name, []) if several is None else several for name, several in values.items()}

    def fill_missing_value(self, value: float) -> None:
        """Set the value of missing fields and points, which is NaN by default."""
        self._fill = float(value)

    def extend_on_axis(self, axis: int) -> None:
        """Concatenate the parts along an axis, given by its number."""
        self._along = axis

    def build(self) -> CubeStore:
        """Build the store. The grid is that of the first field that exists."""
        axes, parts = self._axes(), [self._part(*given) for given in self._given]
        lengths = [axis.length(values) for axis, values in zip(axes, self._shape(parts))]
        first = self._first(parts)
        identity = grid_identity(first)
        points = [len(first.values)]
        cube = Cube(parts, lengths, points, along=self._along or 0, fill=self._fill, identity=identity)
        layout = Layout()
        layout.add_cube("", cube, [*("_".join(axis.keys) for axis in axes), "values"], fill=self._fill)
        return CubeStore(self._fields, layout.written(), layout.cubes)

    def _shape(self, parts: Sequence[Part]) -> list[int]:
        """The lengths of the axes of all parts, which fit together."""
        whole, *shapes = [[len(axis) for axis in part.axes] for part in parts]
        along = self._along
        if along is None:
            if shapes:
                raise Z3fdbError("the view has several parts: call extend_on_axis")
            return whole
        if not 0 <= along < len(whole):
            raise Z3fdbError(f"extend_on_axis({along}): the view has {len(whole)} axes, counted from 0")
        for shape in shapes:
            for axis, (before, more) in enumerate(zip(whole, shape)):
                if axis != along and before != more:
                    raise Z3fdbError(f"axis {axis}: one part has {before} values, another {more}")
            whole[along] += shape[along]
        return whole

    def _some_fields(self, part: Part) -> Sequence[Field]:
        """The first field of a part, or others if it does not exist; none if the part has no fields."""
        request = part.request()
        if request is None:
            return []
        first = {name: values[0] for name, values in request.items()}
        found = self._fields.retrieve(first, partial=True)
        return found if len(found) else some_fields(self._fields, with_ranges(request))

    def _first(self, parts: Sequence[Part]) -> Field:
        """A field that exists, usually the first one."""
        for part in parts:
            found = self._some_fields(part)
            if len(found):
                return found[0]
        raise Z3fdbError("the store has no field of the view, and the size of its grid is unknown")

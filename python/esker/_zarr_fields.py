"""Fields of a request as a group of zarr, with the names and coordinates that cfgrib uses."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np

from . import FieldStore
from ._axes import Axis, grid, level_name, number, step, time, union
from ._cube import Cube, Part, Points, some_fields, with_ranges
from ._described import Described
from ._zarr_cubes import CubeStore, Layout
from .errors import NotFound

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence, Set

    from ._axes import Coordinate, Grid
    from ._cube import Slot
    from ._esker import Field, _Request

# The attributes of coordinates that xarray decodes to times.
_TIME = {"units": "seconds since 1970-01-01", "calendar": "proleptic_gregorian"}
_STEP = {"units": "seconds", "dtype": "timedelta64[ns]"}


class Fields(CubeStore):
    """The fields that a request finds, as a group: `xarray.open_zarr(esker.zarr.Fields("tank/fields"))`.

    `store` is a FieldStore or its name, POOL/CONTAINER; `request` a dict or a text in the MARS language.
    There is an array for each parameter, with the names, dimensions and coordinates of xarray's engine
    `esker`: `number`, `time`, `step`, `isobaricInhPa` or `level` if they have more than one value, then the
    grid. Values are float32; fields that the store does not have are NaN. A chunk is a field, which is
    retrieved and decoded when it is read; `chunks={"step": 4}` makes chunks of several fields. The existing
    fields are looked up once, when the object is made.
    """

    def __init__(
        self,
        store: FieldStore | str,
        request: _Request | None = None,
        *,
        chunks: Mapping[str, int] | None = None,
    ) -> None:
        """Look up the axes of the request, and decode one field of each parameter."""
        opened = store if isinstance(store, FieldStore) else FieldStore(store.removeprefix("esker://"), "r")
        layout = _layout(opened, _listed(opened, request), chunks or {})
        opened._expect_each_value(request or {})
        super().__init__(opened, layout.written(), layout.cubes)


def _listed(store: FieldStore, request: _Request | None) -> dict[str, Sequence[str]]:
    """The values that a request lists; each step is also the end of a range from 0, as in a retrieval."""
    expanded = store.expand(request or {})
    return with_ranges({name: values for name, values in expanded.items() if values is not None})


def _layout(store: FieldStore, listed: Mapping[str, Sequence[str]], chunks: Mapping[str, int]) -> Layout:
    """The arrays of all parameters on common axes, with their coordinates. All fields must have one grid."""
    parameters = list(_parameters(store, listed))
    if not parameters:
        # Raises an error that names the missing fields, if the request names fields.
        store.retrieve(listed)
        raise NotFound(2, f"field store {store.name} has no fields")
    axes = union(parameters)
    layout = Layout()
    grids: dict[str, Grid] = {}
    place = parameters[0].grid(grids)
    unknown = chunks.keys() - axes.keys()
    if unknown:
        raise ValueError(f"chunks of {sorted(unknown)}: the axes are {sorted(axes)}")
    for one in parameters:
        where = one.grid(grids)
        if not place.same(where):
            raise place.identity.error(where.identity)
        described = Described(one.first)
        cube, dims = one.cube(axes, where, chunks)
        layout.add_cube(described.name(layout.cubes), cube, dims, described.attributes())
    coordinates = {axis.name: axis.coordinate() for axis in axes.values()}
    _add_coordinates(layout, _with_valid_time(coordinates))
    others = coordinates.keys() | _add_grid(layout, place, parameters[0].first.key)
    layout.group({"Conventions": "CF-1.7", "coordinates": " ".join(sorted(others))})
    return layout


def _parameters(store: FieldStore, listed: Mapping[str, Sequence[str]]) -> Iterator[_Parameter]:
    """The parameters on each type of level that exist."""
    found = store.axes(listed, empty=True)
    for levtype in found.get("levtype", [""]) if found else ():
        here = {**listed, "levtype": [levtype]} if levtype else listed
        for param in store.axes(here).get("param", [""]):
            key = {**here, "param": [param]} if param else here
            yield _Parameter(store, key, levtype, param)


def _with_valid_time(coordinates: dict[str, Coordinate]) -> dict[str, Coordinate]:
    """Add the time of validity, the sum of `time` and `step`, if there are both."""
    kinds = {name: coordinates[name][1].dtype.kind for name in ("time", "step") if name in coordinates}
    if kinds == {"time": "M", "step": "m"}:
        (dims, start, _), (more, length, _) = coordinates["time"], coordinates["step"]
        valid = np.add.outer(start, length) if dims and more else start + length
        about = {"standard_name": "time", "long_name": "time"}
        coordinates["valid_time"] = ((*dims, *more), valid, about)
    return coordinates


def _add_coordinates(layout: Layout, coordinates: Mapping[str, Coordinate]) -> None:
    for name, (dims, values, attributes) in coordinates.items():
        kind = np.asarray(values).dtype.kind
        encoded = values.astype(f"{kind}8[s]").astype("i8") if kind in "mM" else np.asarray(values)
        layout.add_values(name, encoded, dims, {**attributes, **{"M": _TIME, "m": _STEP}.get(kind, {})})


def _add_grid(layout: Layout, place: Grid, key: Mapping[str, str]) -> Set[str]:
    """Add the coordinates of the grid, and return their names. Coordinates of points are read when needed."""
    for name, (dims, values, attributes) in place.coordinates.items():
        if dims == ("values",):
            layout.add_cube(name, Points(key, f"{name}s", values.size), dims, attributes)
        else:
            layout.add_values(name, values, dims, attributes)
    return place.coordinates.keys()


class _Parameter:
    """The fields of a parameter on a type of level: their axes, and the first of them."""

    def __init__(
        self, store: FieldStore, listed: Mapping[str, Sequence[str]], levtype: str, param: str
    ) -> None:
        self.param = param
        self._values = {
            name: values
            for name, values in store.axes(listed, empty=True).items()
            if values != [""] and name not in ("param", "levtype")
        }
        self._fixed = {name: value for name, value in (("levtype", levtype), ("param", param)) if value}
        for name, values in self._values.items():
            if "" in values:
                key = ",".join(f"{name}={value}" for name, value in self._fixed.items())
                text = f"some fields of {key} have no {name}, unlike others"
                raise ValueError(f"{text}: request fields with the same keys")
        self.axes = dict(map(self._axis, self._groups(), itertools.repeat(levtype)))
        self.first = self._first(store, listed)

    def _groups(self) -> list[tuple[str, ...]]:
        """The names that share an axis."""
        rest = [name for name in self._values if name not in ("date", "time")]
        times = [name for name in ("date", "time") if name in self._values]
        return [(name,) for name in rest] + ([tuple(times)] if times else [])

    def _axis(self, names: Sequence[str], levtype: str) -> tuple[str, dict[Any, Slot]]:
        """The name of an axis, and its slots by the values of its coordinate."""
        slots = [slot for slot in Part.from_values(self._values, [names]).axes[0] if slot is not None]
        name = {"levelist": level_name(levtype), "date": "time"}.get(names[0], names[0])
        axis = {self._coordinate(name, slot): slot for slot in slots}
        if len(axis) < len(slots):
            raise ValueError(f"{self.param} has two values of {names[0]} for one {name}: request one of them")
        return name, axis

    @staticmethod
    def _coordinate(name: str, slot: Slot) -> Any:
        if "date" in slot:
            return time(slot["date"], slot.get("time", ""))
        (value,) = slot.values()
        return step(value) if name == "step" else number(value)

    def _first(self, store: FieldStore, listed: Mapping[str, Sequence[str]]) -> Field:
        """A field that exists, usually the first one."""
        first = self._fixed | {name: values[0] for name, values in self._values.items()}
        found = store.retrieve(first, partial=True)
        return found[0] if len(found) else some_fields(store, listed)[0]

    def grid(self, known: dict[str, Grid]) -> Grid:
        """The grid of its fields. ecCodes computes it once for all fields on the same grid."""
        section = self.first.metadata("md5GridSection") or self.param
        if section not in known:
            known[section] = grid(self.first)
        return known[section]

    def cube(
        self, union: Mapping[str, Axis], where: Grid, chunks: Mapping[str, int]
    ) -> tuple[Cube, list[str]]:
        """The cube of its fields on the axes of all parameters, and the names of its dimensions."""
        fixed = dict(self._fixed)
        axes = [union[name] for name in self.axes if len(union[name]) > 1]
        for name, slots in self.axes.items():
            if len(union[name]) == 1:
                fixed |= next(iter(slots.values()))
        axes.sort(key=Axis.rank)
        places = [list(map(self.axes[axis.name].get, axis.values())) for axis in axes]
        lengths = [min(chunks.get(axis.name, 1), len(axis)) for axis in axes]
        cube = Cube([Part(fixed, places)], lengths, where.shape, identity=where.identity)
        return cube, [axis.name for axis in axes] + list(where.dims)

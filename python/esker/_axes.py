"""Axes and grids of datasets, with the names that cfgrib uses."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np

from ._fields import section_and_values

# A coordinate: the names of its dimensions, its values, and its attributes.
Coordinate = tuple[tuple[str, ...], Any, Mapping[str, str]]


class Group(Protocol):
    """Fields with axes: the values of each name."""

    @property
    def axes(self) -> Mapping[str, Iterable[Any]]:
        """The values of each name."""
        ...


if TYPE_CHECKING:
    from ._esker import Field, _Floats

# The order of axes. Other axes follow, then the grid.
_ORDER = ("number", "time", "step", "isobaricInhPa", "level")

_ATTRIBUTES = {
    "number": {"long_name": "ensemble member numerical id", "units": "1", "standard_name": "realization"},
    "time": {"long_name": "initial time of forecast", "standard_name": "forecast_reference_time"},
    "step": {"long_name": "time since forecast_reference_time", "standard_name": "forecast_period"},
    "isobaricInhPa": {
        "long_name": "pressure",
        "units": "hPa",
        "positive": "down",
        "stored_direction": "decreasing",
        "standard_name": "air_pressure",
    },
    "level": {"long_name": "level", "units": "1"},
}

# Largest difference in degrees between coordinates of the same point: edition 1 of GRIB rounds to this.
_SAME_DEGREES = 1e-3

# Keys of ecCodes that describe a grid in errors.
_CORNERS = tuple(
    f"{axis}Of{end}GridPointInDegrees" for end in ("First", "Last") for axis in ("latitude", "longitude")
)
_GRID = ("gridType", "Ni", "Nj", "numberOfPoints", "md5GridSection", *_CORNERS)

_UNITS: Mapping[str, Literal["h", "m", "s", "D"]] = {"": "h", "h": "h", "m": "m", "s": "s", "d": "D"}


class Axis:
    """The values of a name in the fields of a dataset."""

    def __init__(self, name: str) -> None:
        """Start without values."""
        self.name = name
        self._values: dict[Any, None] = {}
        self._places: dict[Any, int] | None = None

    def add(self, values: Iterable[Any]) -> None:
        """Add values."""
        self._values |= dict.fromkeys(values)

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self._values)

    def values(self) -> list[Any]:
        """The values in order: pressure descending, everything else ascending."""
        try:
            return sorted(self._values, reverse=self.name == "isobaricInhPa")
        except TypeError:  # numbers and texts have no common order
            return sorted(self._values, key=str)

    def index(self, value: Any) -> int:
        """The index of a value."""
        if self._places is None:
            self._places = {value: place for place, value in enumerate(self.values())}
        return self._places[value]

    def rank(self) -> tuple[int, str]:
        """The rank of the axis in the order of axes."""
        return (_ORDER.index(self.name) if self.name in _ORDER else len(_ORDER), self.name)

    def coordinate(self) -> Coordinate:
        """The coordinate: one-dimensional, or a scalar for a single value."""
        values = np.array(self.values())
        if self.name == "isobaricInhPa" and values.dtype.kind in "iu":
            values = values.astype("float64")
        if values.dtype.kind in "mM":
            values = values.astype(f"{values.dtype.kind}8[ns]")
        attributes = _ATTRIBUTES.get(self.name, {})
        return ((self.name,), values, attributes) if len(self) > 1 else ((), values[0], attributes)


def union(groups: Iterable[Group]) -> dict[str, Axis]:
    """The axes of all groups of fields by name, with the values of all of them."""
    axes: dict[str, Axis] = {}
    for group in groups:
        for name, values in group.axes.items():
            axes.setdefault(name, Axis(name)).add(values)
    return axes


def level_name(levtype: str) -> str:
    """The name of the axis for a type of level."""
    return "isobaricInhPa" if levtype == "pl" else "level"


def number(text: str) -> int | float | str:
    """The number that a text represents in canonical form; other texts, such as 0001, unchanged."""
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            if str(kind(text)) == text:
                return kind(text)
    return text


def time(date: str, hour: str) -> np.datetime64 | str:
    """The time of a date (20240610, or 202406 for months) and a time of day (1200); other texts
    unchanged.
    """
    parts = re.fullmatch(r"(\d{4})(\d{2})(\d{2})?", date)
    if not parts:
        return f"{date} {hour}".strip()
    year, month, day = parts.groups()
    hour = f"{hour:0<4}" if hour.isdigit() else "0000"
    return np.datetime64(f"{year}-{month}-{day or '01'}T{hour[:2]}:{hour[2:4]}", "s")


def step(text: str) -> np.timedelta64 | str:
    """The end of a step (24, 0-24, 90m) as a time difference; other texts unchanged."""
    parts = re.fullmatch(r"(?:\d+[hmsd]?-)?(\d+)([hmsd]?)", text)
    return np.timedelta64(int(parts[1]), _UNITS[parts[2]]).astype("m8[s]") if parts else text


class Grid:
    """The positions of a field's values: names, shape and coordinates of the dimensions."""

    def __init__(
        self,
        dims: tuple[str, ...],
        shape: tuple[int, ...],
        coordinates: Mapping[str, Coordinate],
        identity: GridIdentity,
    ) -> None:
        """Store names, shape, coordinates and the identity of the grid."""
        self.dims, self.shape, self.coordinates, self.identity = dims, shape, coordinates, identity

    def same(self, other: Grid) -> bool:
        """Return whether another grid has the same points."""
        mine, others = self.identity, other.identity
        if mine.section is not None and mine.section == others.section:
            return True
        if self.dims != other.dims or self.shape != other.shape:
            return False
        # Spherical harmonics have no points: equal numbers of them are on the same grid.
        if not self.coordinates or not other.coordinates:
            return bool(mine.kind == others.kind == "sh")
        return all(
            np.allclose(variable[1], other.coordinates[name][1], rtol=0, atol=_SAME_DEGREES)
            for name, variable in self.coordinates.items()
        )


class GridIdentity:
    """Identity of the grid of a field, so that other grids do not get its coordinates. It pickles small."""

    def __init__(self, field: Field, about: Mapping[str, Any]) -> None:
        """Take a field on the grid, and ecCodes' description of the grid."""
        self.key, self.kind, self.section = field.key, about["gridType"], about["md5GridSection"]
        self._text = _grid_text(about)
        self._sections = {self.section} - {None}

    def values(self, field: Field, first: Callable[[], Field]) -> _Floats:
        """Values of a field. Refuses a field whose grid differs from that of the field `first()`."""
        section, values = section_and_values(field)
        if section not in self._sections:
            self._compare(field, first)
        return values

    def _compare(self, field: Field, first: Callable[[], Field]) -> None:
        """Refuse a field on another grid than `first()`; otherwise remember how it describes the grid."""
        # The editions of GRIB describe one grid by different sections.
        where = grid(field)
        if not where.same(grid(first())):
            raise self.error(where.identity)
        if where.identity.section is not None:
            self._sections.add(where.identity.section)

    def error(self, other: GridIdentity) -> ValueError:
        """The error for a field on another grid, with a request that works."""
        differ = (name for name in self.key if self.key[name] != other.key.get(name))
        wanted = ",".join(f"{name}={self.key[name]}" for name in differ)
        such = f", such as {wanted}" if wanted else ""
        remedy = "open each grid as a dataset of its own with esker.open_datasets"
        return ValueError(
            f"{key_text(other.key)} is on another grid ({other._text}) than {key_text(self.key)} "
            f"({self._text}): request fields of one grid{such}, or {remedy}"
        )


def _about(field: Field) -> Mapping[str, Any]:
    """EcCodes' description of the grid of a field."""
    return field.metadata(*_GRID)


def grid_identity(field: Field) -> GridIdentity:
    """The GridIdentity of a field."""
    return GridIdentity(field, _about(field))


def expect_size(field: Field, values: _Floats, shape: Sequence[int]) -> None:
    """Refuse values of a field that do not fit the shape of a grid."""
    if values.size != math.prod(shape):
        text = " x ".join(map(str, shape))
        raise ValueError(
            f"{field.key}: {values.size} values do not fit the grid {text}: request one grid at a time"
        )


def key_text(key: Mapping[str, str]) -> str:
    """A key as `esker fields list` prints it."""
    return ",".join(f"{name}={value}" for name, value in key.items())


def _grid_text(about: Mapping[str, Any]) -> str:
    """Description of a grid: its type, size and corners."""
    sides, corners = [about["Nj"], about["Ni"]], [about[name] for name in _CORNERS]
    regular = not {None, "MISSING"} & set(sides)
    size = " x ".join(sides) if regular else about["numberOfPoints"]
    text = f"{about['gridType']}, {size} points"
    if None in corners:
        return text
    north, west, south, east = corners
    return f"{text} from {north} N {west} E to {south} N {east} E"


def by_grid(fields: Iterable[Field]) -> list[list[Field]]:
    """The fields of each grid, grids in the order in which they first occur. Reads every message."""
    groups: list[tuple[Grid, list[Field]]] = []
    known: dict[str | None, int] = {}
    for field in fields:
        section = field.metadata("md5GridSection")
        if section is None or section not in known:
            where = grid(field)
            same = (number for number, (place, _) in enumerate(groups) if place.same(where))
            known[section] = next(same, len(groups))
            if known[section] == len(groups):
                groups.append((where, []))
        groups[known[section]][1].append(field)
    return [members for _, members in groups]


_NORTH = {"units": "degrees_north", "standard_name": "latitude", "long_name": "latitude"}
_EAST = {"units": "degrees_east", "standard_name": "longitude", "long_name": "longitude"}


def grid(field: Field) -> Grid:
    """The grid of a field, according to ecCodes."""
    about = _about(field)
    identity = GridIdentity(field, about)
    points = len(field.values) if about["gridType"] == "sh" else int(about["numberOfPoints"])
    try:
        north, east = field.latitudes, field.longitudes
    except (KeyError, ValueError):  # ecCodes knows no points of this grid
        return Grid(("values",), (points,), {}, identity)
    if about["gridType"] in ("regular_ll", "regular_gg"):
        rows, columns = int(about["Nj"]), int(about["Ni"])
        if rows * columns == north.size:
            lines, meridians = north.reshape(rows, columns), east.reshape(rows, columns)
            if (lines == lines[:, :1]).all() and np.allclose(meridians, meridians[:1]):
                coordinates = {
                    "latitude": (("latitude",), lines[:, 0], _NORTH),
                    "longitude": (("longitude",), meridians[0], _EAST),
                }
                return Grid(("latitude", "longitude"), (rows, columns), coordinates, identity)
    coordinates = {"latitude": (("values",), north, _NORTH), "longitude": (("values",), east, _EAST)}
    return Grid(("values",), (north.size,), coordinates, identity)

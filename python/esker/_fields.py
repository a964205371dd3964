"""Properties of Field that need numpy and are computed from its message."""

from __future__ import annotations

import atexit
from typing import TYPE_CHECKING

from ._esker import Field, finish_fields

if TYPE_CHECKING:
    from types import ModuleType

    from ._esker import _Floats


def _numpy() -> ModuleType:
    try:
        import numpy
    except ImportError as error:
        raise ImportError("the values of a field are a numpy array: pip install numpy") from error
    return numpy


def _numbers(field: Field, key: str) -> _Floats:
    """The numbers of an ecCodes key of a field: a float64 array."""
    numbers: _Floats = _numpy().frombuffer(field._numbers(key), dtype="float64")
    return numbers


def section_and_values(field: Field) -> tuple[str | None, _Floats]:
    """The checksum of the section that describes its grid, and its values. Reads the message once."""
    section, numbers = field._section_and_values()
    return section, _numpy().frombuffer(numbers, dtype="float64")


def _values(self: Field) -> _Floats:
    """Its values, decoded by ecCodes, in the order of the message and in the unit of its parameter.

    A float64 array of shape (points,), read and decoded at each access; missing values are NaN.
    """
    return _numbers(self, "values")


def _latitudes(self: Field) -> _Floats:
    """Latitude of each value in degrees north: a float64 array of shape (points,)."""
    return _numbers(self, "latitudes")


def _longitudes(self: Field) -> _Floats:
    """Longitude of each value in degrees east: a float64 array of shape (points,)."""
    return _numbers(self, "longitudes")


def complete() -> None:
    """Add the properties that need numpy, which is imported on first use; close open stores at exit."""
    atexit.register(finish_fields)
    for name, getter in {"values": _values, "latitudes": _latitudes, "longitudes": _longitudes}.items():
        setattr(Field, name, property(getter))

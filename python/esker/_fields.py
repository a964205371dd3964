"""Properties of Field that need numpy and are computed from its message."""

import atexit

from ._esker import Field, finish_fields


def _numpy():
    try:
        import numpy
    except ImportError as error:
        raise ImportError("the values of a field are a numpy array: pip install numpy") from error
    return numpy


def _numbers(field, key):
    return _numpy().frombuffer(field._numbers(key), dtype="float64")


def section_and_values(field):
    """The checksum of the section that describes its grid, and its values. Reads the message once."""
    section, numbers = field._section_and_values()
    return section, _numpy().frombuffer(numbers, dtype="float64")


def _values(self):
    """Its values, decoded by ecCodes, in the order of the message and in the unit of its parameter.

    A float64 array of shape (points,), read and decoded at each access; missing values are NaN.
    """
    return _numbers(self, "values")


def _latitudes(self):
    """Latitude of each value in degrees north: a float64 array of shape (points,)."""
    return _numbers(self, "latitudes")


def _longitudes(self):
    """Longitude of each value in degrees east: a float64 array of shape (points,)."""
    return _numbers(self, "longitudes")


def complete():
    """Add the properties that need numpy, which is imported on first use; close open stores at exit."""
    atexit.register(finish_fields)
    Field.values = property(_values)
    Field.latitudes = property(_latitudes)
    Field.longitudes = property(_longitudes)

"""What numpy makes of fields: the properties of Field that follow from its message."""

import atexit

from ._esker import Field, finish_fields


def _numpy():
    try:
        import numpy
    except ImportError as error:
        raise ImportError("the values of a field are an array of numpy: pip install numpy") from error
    return numpy


def _numbers(field, key):
    return _numpy().frombuffer(field._numbers(key), dtype="float64")


def _values(self):
    """Its values by ecCodes, in the order of the message and in the unit of its parameter.

    An array of float64 of shape (points,), read and unpacked now; values that the message leaves out are NaN.
    """
    return _numbers(self, "values")


def _latitudes(self):
    """Latitude of each value, in degrees north: an array of float64 of shape (points,)."""
    return _numbers(self, "latitudes")


def _longitudes(self):
    """Longitude of each value, in degrees east: an array of float64 of shape (points,)."""
    return _numbers(self, "longitudes")


def complete():
    """Add to Field what needs numpy, which is looked for when it is used; see to stores at the end."""
    atexit.register(finish_fields)
    Field.values = property(_values)
    Field.latitudes = property(_latitudes)
    Field.longitudes = property(_longitudes)

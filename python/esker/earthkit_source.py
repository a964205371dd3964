"""A source of earthkit-data: `earthkit.data.from_source("esker", "POOL/CONTAINER", step=[0, 6])`."""

import io

from earthkit.data.sources import Source
from earthkit.data.sources.stream import StreamSource

from . import FieldStore


class FieldStream(io.RawIOBase):
    """The bytes of fields, one after the other; each field is read when the stream comes to it."""

    def __init__(self, fields):
        """Begin before the first field."""
        self._fields, self._rest = iter(fields), memoryview(b"")

    def readable(self):
        """Tell that it can be read."""
        return True

    def readinto(self, buffer):
        """Fill a buffer from one field; nothing is left where it is 0."""
        while not self._rest:
            field = next(self._fields, None)
            if field is None:
                return 0
            self._rest = memoryview(field.read())
        count = min(len(buffer), len(self._rest))
        buffer[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count


class EskerSource(Source):
    """The fields of a request, as a stream in the order of the request.

    `store` is "POOL/CONTAINER" or a FieldStore; the request is a dict or MARS text, or given by name. A field
    that is missing is an error that names it. `.to_fieldlist(read_all=True)` of it is a list in memory.
    """

    def __init__(self, store, request=None, **names):
        """Take the store and what is wanted of it."""
        super().__init__()
        if isinstance(request, str) and names:
            raise ValueError("a request as text and names besides: give one of them")
        self._store = FieldStore(store, "r") if isinstance(store, str) else store
        self._request = request if isinstance(request, str) else dict(request or {}) | names

    def mutate(self):
        """Become what earthkit-data makes of a stream of GRIB messages."""
        fields = self._store.retrieve(self._request)
        return StreamSource(io.BufferedReader(FieldStream(fields))).mutate()

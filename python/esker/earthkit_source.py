"""A source of earthkit-data: `earthkit.data.from_source("esker", "POOL/CONTAINER", step=[0, 6])`."""

import io

from earthkit.data.sources import Source
from earthkit.data.sources.stream import StreamSource

from . import FieldStore


class FieldStream(io.RawIOBase):
    """The bytes of fields, one after the other. Each field is read when the stream reaches it."""

    def __init__(self, fields):
        """Start before the first field."""
        self._fields, self._rest = iter(fields), memoryview(b"")

    def readable(self):
        """Return True: it is readable."""
        return True

    def readinto(self, buffer):
        """Fill a buffer from one field; return 0 at the end."""
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
    """The fields of a request as a stream, in the order of the request.

    `store` is "POOL/CONTAINER" or a FieldStore. The request is a dict, MARS text, or keyword arguments. A
    missing field is an error that names it. `.to_fieldlist(read_all=True)` turns it into a list in
    memory.
    """

    def __init__(self, store, request=None, **names):
        """Store the arguments."""
        super().__init__()
        if isinstance(request, str) and names:
            raise ValueError("a request as text excludes keyword arguments: use one of them")
        self._store = FieldStore(store, "r") if isinstance(store, str) else store
        self._request = request if isinstance(request, str) else dict(request or {}) | names

    def mutate(self):
        """Become the object that earthkit-data makes from a stream of GRIB messages."""
        fields = self._store.retrieve(self._request)
        return StreamSource(io.BufferedReader(FieldStream(fields))).mutate()

"""A source of earthkit-data: `earthkit.data.from_source("esker", "POOL/CONTAINER", step=[0, 6])`."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from earthkit.data.data.fieldlist import FieldListData
from earthkit.data.field.grib.create import create_grib_field
from earthkit.data.indexing.indexed import IndexFieldListBase
from earthkit.data.indexing.simple import SimpleFieldList
from earthkit.data.indexing.stream import StreamFieldList
from earthkit.data.readers.grib.handle import MemoryGribHandle
from earthkit.data.sources import Source
from earthkit.data.sources.stream import StreamSource

from . import FieldStore

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._esker import Field, Fields, _Request


class FieldStream(io.RawIOBase):
    """The concatenated bytes of fields. Each field is read when the stream reaches it."""

    def __init__(self, fields: Iterable[Field]) -> None:
        """Start before the first field."""
        self._fields, self._rest = iter(fields), memoryview(b"")

    def readable(self) -> bool:
        """Return True: it is readable."""
        return True

    def readinto(self, buffer: Any) -> int:
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


class StoredFields(IndexFieldListBase):
    """The fields that a request finds, as a list. The message of a field is read when the field is used."""

    def __init__(self, fields: Fields) -> None:
        """Take the fields that were found."""
        super().__init__()
        self._found = fields

    def mutate(self) -> StoredFields:
        """Return itself: it is a list already."""
        return self

    def __len__(self) -> int:
        """Return the number of fields."""
        return len(self._found)

    def _getitem(self, n: Any) -> Any:
        if isinstance(n, int):
            return create_grib_field(MemoryGribHandle.from_message(bytes(self._found[n].read())))
        return None

    def to_data_object(self) -> Any:
        """Return the object that `from_source` returns to the user."""
        return FieldListData(self)


class Stream(StreamFieldList):
    """The fields that a request finds, as a stream. Each use begins with the first field again."""

    def __init__(self, fields: Fields) -> None:
        """Take the fields that were found."""
        super().__init__(None)
        self._found = fields

    @property
    def _source(self) -> Any:
        return StreamSource(io.BufferedReader(FieldStream(self._found)))

    @_source.setter
    def _source(self, _: object) -> Any:
        """Ignored: each use has a source of its own."""


class EskerSource(Source):
    """The fields of a request in its order, as a list that reads a field when it is used.

    `store` is "POOL/CONTAINER" or a FieldStore. The request is a dict, MARS text, or keyword arguments. A
    missing field is an error that names it. `read_all=True` reads all fields at once into memory;
    `stream=True` gives a stream, which holds one field at a time. `lazy` is accepted, as by the source `fdb`:
    `lazy=False` is `read_all=True` unless `stream` is set.
    """

    def __init__(
        self,
        store: FieldStore | str,
        request: _Request | None = None,
        *,
        stream: bool = False,
        read_all: bool = False,
        lazy: bool = True,
        **names: Any,
    ) -> None:
        """Store the arguments."""
        super().__init__()
        if isinstance(request, str) and names:
            raise ValueError("a request as text excludes keyword arguments: use one of them")
        if stream and read_all:
            raise ValueError(
                "stream=True reads field by field, and read_all=True all at once: use one of them"
            )
        self._store = FieldStore(store, "r") if isinstance(store, str) else store
        self._request = request if isinstance(request, str) else dict(request or {}) | names
        self._stream, self._read_all = stream, not stream and (read_all or not lazy)

    def mutate(self) -> Any:
        """Become the list or stream that earthkit-data works with."""
        fields = self._store.retrieve(self._request)
        if self._stream:
            return Stream(fields)
        found: Any = StoredFields(fields)
        return SimpleFieldList.from_fields(list(found)) if self._read_all else found

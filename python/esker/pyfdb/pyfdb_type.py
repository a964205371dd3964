"""Selections, identifiers, data handles and other types of pyfdb."""

from __future__ import annotations

import bisect
import io
import itertools
import os
from collections.abc import Collection, Iterator, Mapping
from enum import IntEnum, IntFlag
from pathlib import Path
from typing import Any, Union
from urllib import parse

from .. import Fields
from ._errors import as_of_fdb

# Names and values of a request: one value, several, or a text such as "0/to/24/by/6".
MarsSelection = Mapping[str, Any]
# The names and values of one field.
MarsIdentifier = Union[list[tuple[str, str]], dict[str, str]]


class UserInputMapper:
    """Brings selections and identifiers into the form that functions below the interface use."""

    @classmethod
    def map_selection_to_internal(cls, selection: MarsSelection) -> dict[str, list[str]]:
        """All values as lists of texts; a text with slashes is split."""
        return {name: cls._values(name, values) for name, values in selection.items()}

    @staticmethod
    def _values(name: str, values: Any) -> list[str]:
        if isinstance(values, str):
            return values.split("/")
        if isinstance(values, Collection) and not isinstance(values, (Mapping, bytes)):
            return [str(value) for value in values]
        if isinstance(values, (int, float)):
            return [str(values)]
        message = f"the value {values!r} of {name} is none of a selection: use a text, a number or a list"
        raise ValueError(message)

    @staticmethod
    def map_selection_to_external(selection: Mapping[str, Any]) -> dict[str, Any]:
        """Lists as lists of texts, single values as texts."""
        one = (str, int, float)
        return {
            name: str(values) if isinstance(values, one) else [str(value) for value in values]
            for name, values in selection.items()
        }

    @staticmethod
    def map_identifier_to_internal(identifier: MarsIdentifier) -> list[tuple[str, str]]:
        """The pairs of an identifier, each name once and with one value."""
        if not isinstance(identifier, (list, dict)):
            raise ValueError("an identifier must be a dict, or a list of pairs of a name and a value")
        pairs = list(identifier.items() if isinstance(identifier, dict) else identifier)
        seen: set[str] = set()
        for name, value in pairs:
            if name in seen:
                raise KeyError(f"the identifier has {name} twice")
            if isinstance(value, (list, tuple)) or "/" in str(value):
                raise ValueError(f"{name}={value}: an identifier has one value for each name")
            seen.add(name)
        return [(name, str(value)) for name, value in pairs]


class ControlIdentifier(IntFlag):
    """Actions on a database that `FDB.control` disables or enables."""

    NONE = 0
    LIST = 1
    RETRIEVE = 2
    ARCHIVE = 4
    WIPE = 8
    UNIQUEROOT = 16

    def __repr__(self) -> str:
        return "|".join(str(one.name) for one in ControlIdentifier if one and self & one) or "NONE"

    __str__ = __repr__


class NamedEnum(IntEnum):
    """An enumeration whose members are written as their names."""

    def __repr__(self) -> str:
        return self.name

    __str__ = __repr__


class ControlAction(NamedEnum):
    """Whether `FDB.control` disables or enables."""

    NONE = 0
    DISABLE = 1
    ENABLE = 2


class URI:
    """A uniform resource identifier, and its parts."""

    def __init__(self, uri: str | Path, scheme: str = "", allow_fragments: bool = True) -> None:
        """Split an identifier; `scheme` is the default scheme."""
        text = uri.as_posix() if isinstance(uri, Path) else str(uri)
        self._parts = parse.urlsplit(text, scheme=scheme, allow_fragments=allow_fragments)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, URI) and str(self) == str(other)

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return parse.urlunsplit(self._parts)

    def netloc(self) -> str:
        """User, host and port, as they are written; for `esker://POOL/CONTAINER`, the pool."""
        return self._parts.netloc

    def scheme(self) -> str:
        """The scheme."""
        return self._parts.scheme

    def username(self) -> str | None:
        """The user."""
        return self._parts.username

    def password(self) -> str | None:
        """The password."""
        return self._parts.password

    def hostname(self) -> str | None:
        """The host."""
        return self._parts.hostname

    def port(self) -> int | None:
        """The port."""
        return self._parts.port

    def path(self) -> str:
        """The path."""
        return self._parts.path

    def query(self) -> str:
        """The text after a question mark; for a field, its key."""
        return self._parts.query

    def fragment(self) -> str:
        """The text after a number sign."""
        return self._parts.fragment


# Fields up to this size, in bytes, are read completely when a part of them is needed.
_WHOLE = 16 << 20


class DataHandle:
    """The concatenated bytes of fields, as a file for reading. Bytes are read when they are needed.

    A handle is opened by `open` or `with`, and may be opened again after it was closed.
    """

    def __init__(self, fields: Any = None, *, _internal: bool = False) -> None:
        """Only `FDB.retrieve` and `ListElement.data_handle` make handles."""
        if not _internal:
            raise TypeError("a DataHandle is made by FDB.retrieve, not by its class")
        self._fields = fields
        self._ends = list(itertools.accumulate(field.nbytes for field in fields))
        self._at, self._opened = 0, False
        self._current: tuple[int, memoryview] | None = None

    def __enter__(self) -> DataHandle:
        self.open()
        return self

    def __exit__(self, *details: object) -> None:
        self.close()

    def open(self) -> None:
        """Open it for reading from its beginning; nothing happens if it is open."""
        if not self._opened:
            self._at, self._opened = 0, True

    def close(self) -> None:
        """Close it; nothing happens if it is closed."""
        self._opened, self._current = False, None

    @property
    def closed(self) -> bool:
        """Whether it is closed."""
        return not self._opened

    def readable(self) -> bool:
        """Return True: it can be read."""
        return True

    def seekable(self) -> bool:
        """Return True: its position can be set."""
        return True

    def writable(self) -> bool:
        """Return False: it cannot be written."""
        return False

    def size(self) -> int:
        """The length of all fields in bytes; the handle need not be open."""
        return self._ends[-1] if self._ends else 0

    def _check(self) -> None:
        if not self._opened:
            raise RuntimeError("DataHandle: Read occured before the handle was opened. Must be opened first.")

    def tell(self) -> int:
        """The position in bytes."""
        self._check()
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Set the position, relative to the beginning, the position or the end, and return it."""
        self._check()
        origin = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size()}
        if whence not in origin:
            raise ValueError(f"whence={whence} is none of 0, 1 and 2")
        if origin[whence] + offset < 0:
            raise ValueError(f"position {origin[whence] + offset} is before the beginning")
        self._at = origin[whence] + offset
        return self._at

    def read(self, len: int | None = -1) -> bytes:
        """Read at most `len` bytes, by default all that are left; b"" at the end."""
        self._check()
        left = max(self.size() - self._at, 0)
        count = left if len is None or len < 0 else min(len, left)
        buffer = bytearray(count)
        self._fill(memoryview(buffer))
        return bytes(buffer)

    def readinto(self, buffer: Any) -> int:
        """Fill a writable buffer and return the number of bytes; 0 at the end."""
        self._check()
        target = memoryview(buffer).cast("B")
        count = min(target.nbytes, max(self.size() - self._at, 0))
        self._fill(target[:count])
        return count

    def readall(self, buffer_size: int = 1024) -> bytes:
        """Read all remaining bytes, opening and closing the handle. `buffer_size` has no effect."""
        self.open()
        try:
            return self.read()
        finally:
            self.close()

    def __iter__(self) -> Iterator[bytes]:
        """The bytes of each field, from the first, whatever the position."""
        for field in self._fields:
            with as_of_fdb():
                message = field.read()
            yield message

    def _fill(self, target: memoryview) -> None:
        """Fill `target` with the bytes from the position, which has enough bytes after it."""
        while target:
            with as_of_fdb():
                done = self._some(target)
            self._at += done
            target = target[done:]

    def _some(self, target: memoryview) -> int:
        """Fill the beginning of `target` with a part of a field, or with complete fields."""
        number = bisect.bisect_right(self._ends, self._at)
        field = self._fields[number]
        offset = self._at - (self._ends[number] - field.nbytes)
        count: int = min(field.nbytes - offset, target.nbytes)
        if isinstance(self._fields, Fields) and offset == 0 and count == field.nbytes:
            end = bisect.bisect_right(self._ends, self._at + target.nbytes)
            count = self._ends[end - 1] - self._at
            self._fields[number:end].read_into(target[:count])
        # A field that is not too large is read whole once, for several reads of parts.
        elif count < field.nbytes <= _WHOLE:
            target[:count] = self._whole(number)[offset : offset + count]
        else:
            field.read_into(target[:count], offset)
        return count

    def _whole(self, number: int) -> memoryview:
        """All bytes of a field, kept until another one is read."""
        if self._current is None or self._current[0] != number:
            self._current = (number, memoryview(self._fields[number].view()))
        return self._current[1]

    def __repr__(self) -> str:
        state = "Opened" if self._opened else "Closed"
        return f"[{state}] DataHandle of {len(self._fields)} fields, {self.size()} bytes"


io.RawIOBase.register(DataHandle)

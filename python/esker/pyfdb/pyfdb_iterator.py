"""Elements that the queries of pyfdb yield."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any, cast
from urllib import parse

from .. import Field
from .pyfdb_type import URI, ControlIdentifier, DataHandle, MarsSelection, NamedEnum, UserInputMapper


def _by_fdb_only(internal: bool, kind: type) -> None:
    """Refuse to make an element unless a method of FDB makes it."""
    if not internal:
        raise TypeError(f"a {kind.__name__} is made by the methods of FDB, not by its class")


def base(store: str) -> str:
    """The URI of a store."""
    return store if ":" in store.split("/")[0] else f"esker://{store}"


def database_name(key: Mapping[str, str]) -> str:
    """The name of a database: its values, as FDB names its directory."""
    return ":".join(key.values())


def field_uri(field: Field) -> URI:
    """The identifier of a field: the file it was adopted from, or its store and key."""
    if field.adopted:
        return URI(field.adopted[0])
    key = parse.urlencode(field.key, quote_via=parse.quote)
    return URI(f"{base(field.store.name)}?{key}")


def _braced(key: Mapping[str, str]) -> str:
    return "{" + ",".join(f"{name}={value}" for name, value in key.items()) + "}" if key else ""


class ListElement:
    """A field of a listing; or an index or a database, which have no location."""

    def __init__(self, levels: Any, field: Any = None, *, _internal: bool = False) -> None:
        """Only `FDB.list` and `FDB.inspect` make elements."""
        _by_fdb_only(_internal, ListElement)
        self._levels, self._field = levels, field

    def has_location(self) -> bool:
        """Whether it is a field."""
        return self._field is not None

    def offset(self) -> int | None:
        """The offset of a field in the file it was adopted from, else 0; None for an index or a database."""
        if self._field is None:
            return None
        return self._field.adopted[1] if self._field.adopted else 0

    def length(self) -> int | None:
        """The length of a field in bytes; None for an index or a database."""
        return None if self._field is None else self._field.nbytes

    def keys(self) -> list[dict[str, str]]:
        """Its key in three dicts: database, index and field; empty for the levels inside it."""
        return [dict(sorted(level.items())) for level in self._levels]

    def combined_key(self) -> dict[str, str]:
        """Its key in one dict, sorted by name."""
        key: Mapping[str, str] = {}
        for level in self._levels if self._field is None else [self._field.key]:
            key = key | level
        return dict(sorted(key.items()))

    @property
    def data_handle(self) -> DataHandle | None:
        """The bytes of a field; None for an index or a database."""
        return None if self._field is None else DataHandle([self._field], _internal=True)

    @property
    def uri(self) -> URI | None:
        """The field: the file it was adopted from, or its store and key; None for an index or a database."""
        return None if self._field is None else field_uri(self._field)

    def __repr__(self) -> str:
        key = "".join(_braced(level) for level in self._levels)
        if self._field is None:
            return f"{key},length=0,timestamp=0"
        where = f"{self.uri},offset={self.offset()}"
        return f"{key},{where},length={self.length()},timestamp={int(self._field.archived)}"


class WipeElementType(NamedEnum):
    """Kind of a WipeElement."""

    ERROR = 0
    CATALOGUE_INFO = 1
    CATALOGUE = 2
    CATALOGUE_INDEX = 3
    CATALOGUE_SAFE = 4
    CATALOGUE_CONTROL = 5
    STORE = 6
    STORE_AUX = 7
    STORE_SAFE = 8
    UNKNOWN = 9


class WipeElement:
    """Data of one kind in one database that a wipe removes, or would remove."""

    def __init__(
        self, kind: WipeElementType, message: str = "", uris: Collection[URI] = (), *, _internal: bool = False
    ) -> None:
        """Only `FDB.wipe` makes elements."""
        _by_fdb_only(_internal, WipeElement)
        self._kind, self._message, self._uris = kind, message, list(uris)

    def type(self) -> WipeElementType:
        """Its kind."""
        return self._kind

    def msg(self) -> str:
        """A message for users."""
        return self._message

    def uris(self) -> list[URI]:
        """The removed URIs."""
        return self._uris

    def __repr__(self) -> str:
        return "\n    ".join([self._message, *map(str, self._uris)])


class PurgeElement:
    """A line about data that a purge removes, or would remove."""

    def __init__(self, line: str, *, _internal: bool = False) -> None:
        """Only `FDB.purge` makes elements."""
        _by_fdb_only(_internal, PurgeElement)
        self._line = line

    def __repr__(self) -> str:
        return self._line


def _lines(rows: Mapping[str, str]) -> str:
    return "\n".join(f"{name:<32}: {value}" for name, value in rows.items())


def _sized(count: int) -> str:
    return f"{count:,} ({count} bytes)"


class StatsElement:
    """The counts of one database."""

    def __init__(self, counts: Any, *, _internal: bool = False) -> None:
        """Only `FDB.stats` makes elements."""
        _by_fdb_only(_internal, StatsElement)
        self._counts = counts

    def index_statistics(self) -> str:
        """Counts of fields: all with masked ones, and those that readers reach."""
        counts = self._counts
        rows = {
            "Fields": counts["fields"] + counts["masked"],
            "Size of fields": _sized(counts["bytes"] + counts["masked_bytes"]),
        }
        if counts["masked"]:
            rows["Duplicated fields"] = counts["masked"]
            rows["Size of duplicates"] = _sized(counts["masked_bytes"])
        rows["Reacheable fields"] = counts["fields"]
        rows["Reachable size"] = _sized(counts["bytes"])
        return _lines(rows)

    def db_statistics(self) -> str:
        """Counts of databases and indexes, and the bytes that they own."""
        counts = self._counts
        owned = counts["bytes"] + counts["masked_bytes"]
        rows = {"Databases": 1, "Indexes": counts["indexes"], "Total owned size": _sized(owned)}
        return _lines(rows)

    def __repr__(self) -> str:
        return f"Index Statistics:\n{self.index_statistics()}\n\nDB Statistics:\n{self.db_statistics()}"


class _Database:
    """A database, and its disabled actions."""

    def __init__(
        self,
        location: Any,
        key: Mapping[str, str] | None = None,
        identifiers: ControlIdentifier = ControlIdentifier.NONE,
        *,
        _internal: bool = False,
    ) -> None:
        """Only methods of FDB make elements."""
        _by_fdb_only(_internal, type(self))
        self._location, self._key, self._identifiers = location, key or {}, identifiers

    def location(self) -> URI:
        """The store and the name of the database in it."""
        return URI(self._location)

    def controlIdentifiers(self) -> list[ControlIdentifier]:
        """The disabled actions."""
        return [one for one in ControlIdentifier if one and self._identifiers & one]

    def key(self) -> dict[str, list[str]]:
        """The names of the database, each with its value in a list."""
        return {name: [value] for name, value in sorted(self._key.items())}

    def _all(self) -> tuple[Any, ...]:
        return self._location, self._key, self._identifiers

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Database) and self._all() == other._all()

    def __hash__(self) -> int:
        return hash(self._location)

    def __repr__(self) -> str:
        about = f"control_identifiers={self.controlIdentifiers()}, key={self.key()}"
        return f"{type(self).__name__}({about}, location={self._location})"


class StatusElement(_Database):
    """A database, and its disabled actions."""


class ControlElement(_Database):
    """A database after a change of its disabled actions."""


def _fixed(*arguments: object, **names: object) -> Any:
    raise TypeError("axes cannot be changed: make a dict of them")


class IndexAxis(dict[str, list[str]]):
    """The values of each name: a mapping that cannot be changed."""

    def __init__(self, axes: Any) -> None:
        """Take a mapping of names to values."""
        if not isinstance(axes, Mapping):
            raise TypeError(f"axes are made from a dict of names and values, not from {axes!r}")
        super().__init__(sorted(UserInputMapper.map_selection_to_internal(axes).items()))

    def __missing__(self, name: str) -> Collection[str]:
        raise KeyError(f"Couldn't find key: {name}. There are {', '.join(self)}")

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = cast(Any, _fixed)

    def has_key(self, name: str) -> bool:
        """Whether it has a name."""
        return name in self

    def __eq__(self, other: object) -> bool:
        """Equal to a mapping with the same values. A single value equals a list with this value."""
        if not isinstance(other, Mapping):
            return False
        return dict(self) == UserInputMapper.map_selection_to_internal(other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __iter__(self) -> Iterator[str]:
        return super().__iter__()

    def __reduce__(self) -> tuple[Any, ...]:
        return IndexAxis, (dict(self),)


__all__ = [
    "ControlElement",
    "IndexAxis",
    "ListElement",
    "MarsSelection",
    "PurgeElement",
    "StatsElement",
    "StatusElement",
    "WipeElement",
    "WipeElementType",
]

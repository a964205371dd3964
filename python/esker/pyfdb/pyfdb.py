"""The class FDB of pyfdb on a field store."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import Container, FieldStore, Pool
from ..errors import NoPermission
from . import _config
from ._errors import as_of_fdb, refused
from .pyfdb_iterator import (
    ControlElement,
    IndexAxis,
    ListElement,
    PurgeElement,
    StatsElement,
    StatusElement,
    WipeElement,
    WipeElementType,
    base,
    database_name,
    field_uri,
)
from .pyfdb_type import (
    URI,
    ControlAction,
    ControlIdentifier,
    DataHandle,
    MarsIdentifier,
    MarsSelection,
    UserInputMapper,
)

# Prefix of the attributes of the container that list disabled actions in a database; its key follows.
_DISABLED = "pyfdb.disabled."


def _text(key: Mapping[str, str]) -> str:
    return ",".join(f"{name}={value}" for name, value in key.items())


class FDB:
    """A field store with the methods of pyfdb's FDB.

    `config` is a dict, YAML text, or the Path of a YAML file. It names a store: {"type": "esker", "store":
    "POOL/CONTAINER", "schema": FILE}, where the schema is for a store that does not exist yet; just the text
    "POOL/CONTAINER" does as well. A configuration of FDB's with one root directory keeps the store in a pool
    in that directory, which is created with the `size` of the configuration, or 1 GiB. Without `config`, the
    environment variable ESKER_FIELDS names the store; then FDB5_CONFIG, FDB5_CONFIG_FILE and FDB_HOME count,
    then `fields` of Esker's configuration file.
    `user_config` is accepted and returned by `config`; it has no effect.

    The store is opened, and created if it is missing, at the first call that needs it. Fields are visible
    after `flush`, which the end of a `with` statement and of the object call as well.
    """

    def __init__(
        self,
        config: str | Mapping[str, Any] | Path | None = None,
        user_config: str | Mapping[str, Any] | Path | None = None,
    ) -> None:
        """Read the configuration; the store is not opened yet."""
        self._config = _config.of_environment() if config is None else _config.read(config)
        self._user_config = _config.read(user_config)
        self._store: FieldStore | None = None
        self._container: Container | None = None
        # The databases in which archiving is disabled, as the first archiving after a flush found them.
        self._unarchivable: set[str] | None = None

    def __enter__(self) -> FDB:
        return self

    def __exit__(self, *details: object) -> None:
        self.flush()

    def __reduce__(self) -> tuple[Any, ...]:
        return FDB, (self._config, self._user_config)

    def __repr__(self) -> str:
        return f"FDB({self._config!r})"

    @property
    def store(self) -> FieldStore:
        """The field store, for functions that pyfdb lacks: text requests, watching, moving, transactions."""
        if self._store is None:
            with as_of_fdb():
                self._store = self._opened(_config.store_of(self._config))
        return self._store

    @staticmethod
    def _opened(settings: _config.StoreSettings) -> FieldStore:
        """The store of a configuration, read-only if this user may not write to it."""
        if not settings.writable:
            return FieldStore(settings.name, "r")
        try:
            return FieldStore(settings.name, schema=settings.schema, flush_on_close=True)
        except NoPermission:
            return FieldStore(settings.name, "r")

    def _attributes(self) -> Any:
        """The attributes of the container, in which `control` stores disabled actions."""
        if self._container is None:
            pool, label = self.store.name.rsplit("/", 1)
            mode = self.store.mode
            self._container = Pool(pool, mode).container(label, mode)
        return self._container.attributes

    def _disabled(self) -> dict[str, ControlIdentifier]:
        """Disabled actions, by the key of the database."""
        attributes = self._attributes()
        names = [name for name in attributes if name.startswith(_DISABLED)]
        return {
            name.removeprefix(_DISABLED): ControlIdentifier(int(attributes.get(name, b"0"))) for name in names
        }

    def _closed(self, identifier: ControlIdentifier) -> set[str]:
        """The keys of databases in which an action is disabled."""
        with as_of_fdb():
            return {key for key, disabled in self._disabled().items() if disabled & identifier}

    def _request(self, selection: MarsSelection | None) -> dict[str, list[str]]:
        return UserInputMapper.map_selection_to_internal(selection or {})

    def _allowed(self, identifier: ControlIdentifier, doing: str) -> None:
        if not self.enabled(identifier):
            text = "the configuration says writable: false"
            raise refused(NoPermission, f"{text}, so it refuses {doing}: remove that, or use another FDB")

    def archive(self, data: Any, identifier: MarsIdentifier | None = None) -> None:
        """Archive bytes under an identifier; without one, GRIB messages under the keys they have."""
        self._allowed(ControlIdentifier.ARCHIVE, "archiving")
        key = None
        if identifier is not None:
            key = dict(UserInputMapper.map_identifier_to_internal(identifier))
        if self._unarchivable is None:
            self._unarchivable = self._closed(ControlIdentifier.ARCHIVE)
        with as_of_fdb():
            if self._unarchivable:
                # Otherwise an open file would be at its end after its keys were read.
                data = data.read() if hasattr(data, "read") else data
                self._refuse_closed([key] if key else self.store.keys(data), self._unarchivable)
            self.store.archive(data, key)

    def _refuse_closed(self, keys: Any, closed: set[str]) -> None:
        """Refuse the keys of databases in which archiving is disabled."""
        for key in keys:
            database = _text(self.store.explain(key)["database"])
            if database in closed:
                text = f"archiving is disabled in the database {database}"
                raise NoPermission(f"{text}: FDB.control enables it")

    def flush(self) -> None:
        """Make archived fields visible, if any."""
        self._unarchivable = None
        if self._store is not None and self._store.mode != "r":
            with as_of_fdb():
                self._store.flush()

    def dirty(self) -> bool:
        """Whether fields were archived and not flushed."""
        return self._store is not None and self._store.pending[0] > 0

    def _visible(self, fields: Any, identifier: ControlIdentifier) -> Any:
        """The fields of databases in which an action is not disabled."""
        if not self.enabled(identifier):
            return []
        closed = self._closed(identifier)
        return [field for field in fields if _text(field.levels[0]) not in closed] if closed else fields

    def retrieve(self, mars_selection: MarsSelection) -> DataHandle:
        """The fields of a selection, in its order, as a file for reading. Missing fields are left out."""
        if not mars_selection:
            raise TypeError("a retrieval needs a selection: name the fields")
        return DataHandle(self._found(mars_selection), _internal=True)

    def _found(self, selection: MarsSelection) -> Any:
        with as_of_fdb():
            found = self.store.retrieve(self._request(selection), partial=True)
            return self._visible(found, ControlIdentifier.RETRIEVE)

    def inspect(self, mars_selection: MarsSelection) -> Iterator[ListElement]:
        """Yield the fields that `retrieve` would read."""
        for field in self._found(mars_selection):
            yield ListElement(field.levels, field, _internal=True)

    def list(
        self, mars_selection: MarsSelection | None, include_masked: bool = False, level: int = 3
    ) -> Iterator[ListElement]:
        """Yield the fields of a selection; at level 2 the indexes that have some, at level 1 the databases.

        With `include_masked`, fields that later ones replaced follow the others.
        """
        request = self._request(mars_selection)
        if level in (1, 2):
            yield from self._groups(request, level)
            return
        with as_of_fdb():
            found = [self.store.list(request)]
            found += [self.store.list(request, masked=True)] if include_masked else []
            fields = [self._visible(some, ControlIdentifier.LIST) for some in found]
        for field in itertools.chain(*fields):
            yield ListElement(field.levels, field, _internal=True)

    def _groups(self, request: dict[str, Any], level: int) -> Iterator[ListElement]:
        """Yield the databases of a request, at level 2 their indexes, except where listing is disabled."""
        if not self.enabled(ControlIdentifier.LIST):
            return
        closed = self._closed(ControlIdentifier.LIST)
        for row in self._status(request, level == 2):
            if _text(row["database"]) not in closed:
                levels = [row["database"], row.get("index", {}), {}]
                yield ListElement(levels, _internal=True)

    def _status(self, request: dict[str, Any], indexes: bool = False) -> Any:
        with as_of_fdb():
            return self.store.status(request, indexes=indexes)

    def _location(self, database: Mapping[str, str]) -> str:
        return f"{base(self.store.name)}/{database_name(database)}"

    def status(self, mars_selection: MarsSelection) -> Iterator[StatusElement]:
        """Yield the databases with fields of a selection, and the disabled actions."""
        disabled = self._disabled()
        for row in self._status(self._request(mars_selection)):
            key = row["database"]
            now = disabled.get(_text(key), ControlIdentifier.NONE)
            yield StatusElement(self._location(key), key, now, _internal=True)

    def control(
        self,
        mars_selection: MarsSelection,
        control_action: ControlAction,
        control_identifiers: Collection[ControlIdentifier],
    ) -> Iterator[ControlElement]:
        """Disable or enable listing, retrieving, archiving or wiping in the databases of a selection.

        Each database is changed when it is yielded. This binds users of this interface only.
        """
        change = ControlIdentifier.NONE
        for one in control_identifiers:
            change |= one
        for row in self._status(self._request(mars_selection)):
            key = row["database"]
            with as_of_fdb():
                now = self._changed(_text(key), ControlAction(control_action), change)
            yield ControlElement(self._location(key), key, now, _internal=True)

    def _changed(self, key: str, action: ControlAction, change: ControlIdentifier) -> ControlIdentifier:
        """Change the disabled actions of a database, and return them."""
        attributes, name = self._attributes(), _DISABLED + key
        now = ControlIdentifier(int(attributes.get(name, b"0")))
        now = {
            ControlAction.NONE: now,
            ControlAction.DISABLE: now | change,
            ControlAction.ENABLE: now & ~change,
        }[action]
        if now:
            attributes[name] = str(int(now)).encode()
        else:
            attributes.pop(name, None)
        self._unarchivable = None
        return now

    def enabled(self, control_identifier: ControlIdentifier) -> bool:
        """Whether the configuration allows an action: its `writable` and `visitable` may be false."""
        config = self._config if isinstance(self._config, Mapping) else {}
        writing = ControlIdentifier.ARCHIVE | ControlIdentifier.WIPE
        reading = ControlIdentifier.LIST | ControlIdentifier.RETRIEVE
        forbidden = ControlIdentifier.NONE
        forbidden |= writing if config.get("writable") is False else ControlIdentifier.NONE
        forbidden |= reading if config.get("visitable") is False else ControlIdentifier.NONE
        return not forbidden & control_identifier

    def axes(self, mars_selection: MarsSelection, level: int = 3) -> IndexAxis:
        """The values of each name in the fields of a selection.

        At level 1 it has the names of databases, at level 2 those of indexes too.
        """
        request = self._request(mars_selection)
        with as_of_fdb():
            axes = self.store.axes(request, empty=level not in (1, 2))
        if level in (1, 2):
            rows = self._status(request, level == 2)
            names = {name for row in rows for name in row["database"] | row.get("index", {})}
            axes = {name: axes[name] for name in names}
        # The empty value comes first.
        first = {name: sorted(values, key=lambda value: value != "") for name, values in axes.items()}
        return IndexAxis(first)

    def stats(self, mars_selection: MarsSelection) -> Iterator[StatsElement]:
        """Yield the counts of each database with fields of a selection."""
        request = self._request(mars_selection)
        counts: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
        for row in self._status(request, indexes=True):
            one = counts[_text(row["database"])]
            one["indexes"] += 1
            one["fields"] += row["fields"]
            one["bytes"] += row["bytes"]
        with as_of_fdb():
            masked = self.store.list(request, masked=True)
        for field in masked:
            one = counts[_text(field.levels[0])]
            one["masked"] += 1
            one["masked_bytes"] += field.nbytes
        for one in counts.values():
            yield StatsElement(one, _internal=True)

    def purge(
        self, mars_selection: MarsSelection, doit: bool = False, porcelain: bool = False
    ) -> Iterator[PurgeElement]:
        """Free the space of masked fields of a selection, and yield them and a summary.

        Without `doit`, nothing is changed. With `porcelain`, no summary is yielded.
        """
        request = self._request(mars_selection)
        if doit:
            self._allowed(ControlIdentifier.WIPE, "purging")
        with as_of_fdb():
            masked = [ListElement(one.levels, one, _internal=True) for one in self._masked(request)]
            counts = self.store.purge(request, doit)
        for element in masked:
            yield PurgeElement(str(element), _internal=True)
        if not porcelain:
            done = "purged" if doit else "would purge"
            left = counts["unflushed"] + counts["removed"]
            text = f"{done} {counts['masked']} masked fields and {left} unflushed or partly removed ones"
            yield PurgeElement(f"{text}, {counts['bytes']} bytes", _internal=True)

    def _masked(self, request: dict[str, Any]) -> Any:
        return self.store.list(request, masked=True)

    def wipe(
        self,
        mars_selection: MarsSelection,
        doit: bool = False,
        porcelain: bool = False,
        unsafe_wipe_all: bool = False,
    ) -> Iterator[WipeElement]:
        """Remove the fields of a selection, and yield the removed data of each database.

        Without `doit`, nothing is changed; with it, each database is wiped when its first element is yielded.
        With `porcelain`, only fields are yielded.
        `unsafe_wipe_all` has no effect.
        """
        request = self._request(mars_selection)
        if doit:
            self._allowed(ControlIdentifier.WIPE, "wiping")
        wiped: dict[str, list[Any]] = defaultdict(list)
        for row in self._status(request, indexes=True):
            wiped[_text(row["database"])].append(row)
        closed = self._closed(ControlIdentifier.WIPE).intersection(wiped)
        if closed and doit:
            text = f"wiping is disabled in the database {min(closed)}: FDB.control enables it"
            raise refused(NoPermission, text)
        everything = {_text(row["database"]): row["fields"] for row in self._status({})}
        for name, rows in wiped.items():
            whole = everything.get(name) == sum(row["fields"] for row in rows)
            elements = list(self._wiped(request, rows, whole))
            if doit:
                with as_of_fdb():
                    self.store.wipe(request | _one(rows[0]["database"]), doit=True)
                    if whole:
                        self._attributes().pop(_DISABLED + name, None)
            yield from elements[-1:] if porcelain else elements

    def _wiped(self, request: dict[str, Any], rows: Sequence[Any], whole: bool) -> Iterator[WipeElement]:
        """Elements about the data that a wipe removes in a database; fields are last."""
        database, kinds = rows[0]["database"], WipeElementType
        location = self._location(database)
        yield WipeElement(kinds.CATALOGUE_INFO, f"Database: {_text(database)}", _internal=True)
        if whole:
            uris = [URI(location)]
            yield WipeElement(kinds.CATALOGUE, "Databases to delete:", uris, _internal=True)
        indexes = [URI(f"{location}/{database_name(row['index'])}") for row in rows]
        yield WipeElement(kinds.CATALOGUE_INDEX, "Indexes to delete from:", indexes, _internal=True)
        with as_of_fdb():
            found = self.store.list(request | _one(database))
        fields = [field_uri(field) for field in found]
        yield WipeElement(kinds.STORE, "Fields to delete:", fields, _internal=True)

    def config(self) -> tuple[Any, dict[str, Any]]:
        """The configurations: the one that names the store, and the user's."""
        return self._config, self._user_config or {}


def _one(database: Mapping[str, str]) -> dict[str, list[str]]:
    """The request for a database."""
    return {name: [value] for name, value in database.items()}

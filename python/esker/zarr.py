"""A store for zarr 3: `zarr.open_group(esker.zarr.Store("tank/c"))`, with versions and commits.

    store = esker.zarr.Store("tank/c")                     # a container, created if it does not exist
    zarr.create_array(store, name="t2m", data=values)      # visible at once, as in any zarr store
    with store.transaction("January", name="v1") as session:
        zarr.open_group(session)["t2m"][0] = 0             # others see all of it at the end of the block
    esker.zarr.Store("tank/c", at="v1")                    # the hierarchy as of that commit, read-only
    store.ancestry()                                       # the commits, latest first
    xarray.open_zarr(esker.zarr.Fields("tank/fields", {"step": [0, 6]}))   # fields, decoded when read

Any number of processes may write at a time. Stores and sessions pickle, so that workers can use them.
"""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import json
import os
import time
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, Union

from ._optional import missing_package

try:
    import numpy as np
    from zarr.abc.store import Store as ZarrStore
    from zarr.core.buffer import Buffer, default_buffer_prototype
except ImportError as error:
    raise missing_package(error, "esker.zarr needs zarr 3", "zarr") from error

from . import Container, Pool, Snapshot
from ._zarr_bounds import bounds
from ._zarr_fields import Fields
from ._zarr_index import ARRAY, REMOVED, STAGED, VALUE, VALUE_MAX, Entry, Index, may_refer, reference
from ._zarr_writers import BASE, Writers, is_dead, this_process
from .errors import Corrupt, Error, Exists, Invalid, NoHandle, NotFound, NotSupported

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import BufferPrototype

    from ._esker import Kv, Transaction, _Mode

__all__ = ["Commit", "Conflict", "Fields", "Session", "Store"]

_T = TypeVar("_T")
# The record of a commit.
Record = dict[str, Any]
# A value or a part of it.
Value = Union[bytes, memoryview, "NDArray[np.uint8]"]
# The bytes of the entry of a key, and the index of its value.
Found = tuple[bytes, Index]

# Prefix of the names of snapshots of commits that were given no name.
VERSION = "zarr-"


class Conflict(Error, RuntimeError):
    """Another writer has changed the `keys` of a session. Begin another session, or commit by force."""

    keys: list[str]


@dataclass(frozen=True)
class Commit:
    """A commit of a session. `Store(name, at=commit.epoch)` opens its state, unless that has expired."""

    id: int
    message: str
    time: datetime
    name: str | None
    epoch: int | None


def _open(name: str, mode: _Mode, create: bool) -> Container:
    """The container of a name or a URL."""
    pool, _, label = name.rpartition("/")
    if not pool or not label:
        raise NotFound(2, f"{name!r} has no container: use POOL/CONTAINER or esker://POOL/CONTAINER")
    opened = Pool(pool, mode)
    try:
        return opened.container(label)
    except NotFound:
        if not create:
            raise
    return opened.create_container(label, exist_ok=True)


def _plain(name: str) -> str:
    """A name without the scheme of a URL."""
    if not name.startswith("esker://"):
        return name
    rest = name.removeprefix("esker://").rstrip("/")
    return f"esker:{rest}" if rest.startswith("/") else rest


class Store(ZarrStore):
    """A zarr store in a container. Opening it creates the container, unless it is read-only.

    `store` is POOL/CONTAINER, as for a FieldStore, the URL esker://POOL/CONTAINER, or a Container. `at` (a
    Snapshot, its epoch or its name) shows the hierarchy at that moment, read-only.
    """

    supports_writes = True  # pyright: ignore[reportAssignmentType]
    supports_deletes = True  # pyright: ignore[reportAssignmentType]
    supports_listing = True  # pyright: ignore[reportAssignmentType]

    def __init__(
        self, store: str | Container, *, read_only: bool = False, at: Snapshot | int | str | None = None
    ) -> None:
        """Set the options; nothing is opened yet."""
        super().__init__(read_only=read_only or at is not None)
        self._at = at.epoch if isinstance(at, Snapshot) else at
        self._name = _plain(store) if isinstance(store, str) else f"{store.pool.name}/{store.uuid}"
        self._given = store if isinstance(store, Container) else None
        # The container, in a copy that was unpickled: a label may lead to another one.
        self._url: str | None = None
        # The indexes of the latest state and of the state shown, once they are open.
        self._head: Index | None = None
        self._shown: Index | None = None
        self._in_memory = False

    def __eq__(self, other: object) -> bool:
        """Two stores are equal if they show the same state and allow the same changes."""
        return isinstance(other, type(self)) and self._identity() == other._identity()

    def _identity(self) -> tuple[Any, ...]:
        return self._name, self._at, self.read_only

    def __getstate__(self) -> dict[str, Any]:
        """Pickle by URL, or by name if it is not open, without open handles."""
        container = self._given or (self._head and self._head.container)
        url = f"{container.pool.url}/{container.uuid}" if container else self._url
        opened = {"_shown": None, "_head": None, "_given": None}
        return {**self.__dict__, **opened, "_url": url}

    def __str__(self) -> str:
        return f"esker://{self._name}"

    def __repr__(self) -> str:
        at = "" if self._at is None else f", at={self._at!r}"
        return f"{type(self).__module__}.{type(self).__name__}({self._name!r}{at})"

    @property
    def container(self) -> Container:
        """Its container."""
        return self._index.container

    def with_read_only(self, read_only: bool = False) -> Store:
        """The same store, for reading only or for writing too. A snapshot remains read-only."""
        store = type(self)(self._given or self._name, read_only=read_only, at=self._at)
        store._url = self._url
        return store

    def close(self) -> None:
        """Close it; it opens again when it is used again."""
        self._shown = self._head = None
        super().close()

    @property
    def _latest(self) -> Index:
        """The index of the latest state, which is opened at the first use."""
        if self._head is None:
            mode: _Mode = "r" if self.read_only else "rw"
            create = not self.read_only and self._url is None
            container = self._given or _open(self._url or self._name, mode, create)
            self._in_memory = container.pool.info()["medium"] == "memory"
            self._head = Index(container)
            self._is_open = True
        return self._head

    @property
    def _index(self) -> Index:
        """The index of the state shown, which is opened at the first use."""
        if self._shown is None:
            self._shown = self._latest if self._at is None else self._latest.at(self._at)
        return self._shown

    async def _open(self) -> None:
        """Open the container."""
        await super()._open()
        await asyncio.to_thread(lambda: self._index)

    # The following methods have one implementation, which blocks. The methods that zarr awaits follow below.

    def _find(self, key: str) -> Found | None:
        """The bytes of the entry of a key and the index of its value; None if the key does not exist."""
        index = self._index
        raw = index.raw(key)
        return (raw, index) if raw else None

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """The value of a key or a part of it, None if the key does not exist."""
        return self._get(key, prototype, byte_range, self._find(key))

    def _get(
        self, key: str, prototype: BufferPrototype | None, byte_range: ByteRequest | None, found: Found | None
    ) -> Buffer | None:
        """The value of the entry `found`. If it is replaced during the read, that of the new entry."""
        buffer = (prototype or default_buffer_prototype()).buffer
        while found:
            value = self._value(key, byte_range, found)
            if value is not None:
                array: Any = np.frombuffer(value, dtype="B")
                return buffer.from_array_like(array)
            before, found = found, self._find(key)
            if found and found[0] == before[0]:
                raise Corrupt(
                    5, f"{self}: the data of key {key!r} is missing: set the key again, or delete it"
                )
        return None

    def _value(self, key: str, byte_range: ByteRequest | None, found: Found) -> Value | None:
        """The value of an entry; None if it was replaced meanwhile."""
        raw, index = found
        entry = Entry.parse(raw)
        begin, end = bounds(entry.size, byte_range)
        if entry.tag == VALUE:
            return entry.value[begin:end]
        if entry.tag == STAGED:
            staged = index.session(entry.number).get(key)
            return None if staged is None else memoryview(staged)[:-1][begin:end]
        try:
            value = np.empty(max(0, end - begin), dtype="B")
            index.array(entry.number).read_into(begin, value)
        except NotFound:
            return None
        # A destroyed Array reads as zeros, but it is destroyed only after the entry has changed.
        again = self._find(key)
        return value if again and again[0] == raw else None

    def size_sync(self, key: str) -> int | None:
        """Length of the value of a key in bytes, None if the key does not exist."""
        size = self._entry_size(key)
        if not may_refer(size):
            # The entry is the value, followed by its tag, which is one byte.
            return size and size - 1
        found = self._find(key)
        return found and Entry.parse(found[0]).size

    def _entry_size(self, key: str) -> int | None:
        return self._index.size(key)

    def set_sync(self, key: str, value: Buffer) -> None:
        """Set the value of a key."""
        self._check_writable()
        if not isinstance(value, Buffer):
            raise TypeError(f"{type(self).__name__}.set(): `value` must be a Buffer, got {type(value)}")
        data = np.ascontiguousarray(value.as_numpy_array()).data.cast("B")
        if len(data) > VALUE_MAX:
            self._set_long(key, data)
        else:
            self._set_short(key, b"".join((data, VALUE)))

    def _set_short(self, key: str, raw: bytes) -> None:
        try:
            self._index.put(key, raw, "insert")
        except Exists:
            self._index.change(lambda index: self._replace(index, key, raw))

    @staticmethod
    def _replace(index: Index, key: str, raw: bytes) -> None:
        """Set the entry of a key in place of an old one, whose object is removed first."""
        index.free_old(key)
        index.put(key, raw)

    def _set_long(self, key: str, data: memoryview) -> None:
        """Write an Array, then let the index refer to it."""
        number = Writers(self._latest).enter()
        self._latest.create_array(number, data)

        def refer(index: Index) -> None:
            self._replace(index, key, reference(ARRAY, number, len(data)))
            Writers(index).remove(number)

        self._latest.change(refer)

    def _insert(self, key: str, value: Buffer) -> bool:
        """Set the value of a key unless it exists. Returns whether it was set."""
        if self._entry_size(key) is not None:
            return False
        data = value.to_bytes()
        if len(data) > VALUE_MAX:
            return self._insert_long(key, data)
        try:
            self._index.put(key, data + VALUE, "insert")
        except Exists:
            return False
        return True

    def _insert_long(self, key: str, data: bytes) -> bool:
        """Write an Array and insert a reference to it. If another writer is faster, the Array is removed."""
        number = Writers(self._latest).enter()
        self._latest.create_array(number, data)

        def refer(index: Index) -> bool:
            is_new = index.size(key) is None
            if is_new:
                index.put(key, reference(ARRAY, number, len(data)))
            else:
                index.destroy_array(number)
            Writers(index).remove(number)
            return is_new

        return self._latest.change(refer)

    def delete_sync(self, key: str) -> None:
        """Remove a key. Removing a missing key is not an error."""
        self._check_writable()
        if self._entry_size(key) is not None:
            self._remove(key)

    def _remove(self, key: str) -> None:
        def remove(index: Index) -> None:
            if index.free_old(key):
                index.discard(key)

        self._index.change(remove)

    def _keys(self, prefix: str) -> Iterator[str]:
        return self._index.keys(prefix)

    def _names(self, folder: str) -> list[str]:
        return self._index.names(folder)

    def _delete_below(self, folder: str) -> None:
        for key in list(self._keys(f"{folder}/" if folder else "")):
            self._remove(key)
        self._index.prune(folder)

    # The methods that zarr awaits.

    async def _soon(self, work: Callable[..., _T], *arguments: Any, size: int = 0, **options: Any) -> _T:
        """Call a function that may wait for the medium, in a thread unless it is short and in memory."""
        if self._in_memory and size <= VALUE_MAX:
            return work(*arguments, **options)
        return await asyncio.to_thread(work, *arguments, **options)

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """The value of a key or a part of it, None if the key does not exist."""
        await self._ensure_open()
        found = await self._soon(self._find, key)
        size = Entry.parse(found[0]).size if found else 0
        return await self._soon(self._get, key, prototype, byte_range, found, size=size)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """The requested parts of values, in order, with None for missing keys."""
        parts = (self.get(key, prototype, byte_range) for key, byte_range in key_ranges)
        return list(await asyncio.gather(*parts))

    async def exists(self, key: str) -> bool:
        """Whether a key exists."""
        await self._ensure_open()
        return await self._soon(self._entry_size, key) is not None

    async def getsize(self, key: str) -> int:
        """Length of the value of a key in bytes. The value is not read."""
        await self._ensure_open()
        size = await self._soon(self.size_sync, key)
        if size is None:
            raise FileNotFoundError(key)
        return size

    async def set(self, key: str, value: Buffer) -> None:
        """Set the value of a key."""
        self._check_writable()
        await self._ensure_open()
        size = len(value) if isinstance(value, Buffer) else 0
        await self._soon(self.set_sync, key, value, size=size)

    async def set_if_not_exists(self, key: str, value: Buffer) -> None:
        """Set the value of a key that does not exist. Of several writers, one succeeds."""
        self._check_writable()
        await self._ensure_open()
        await self._soon(self._insert, key, value, size=len(value))

    async def delete(self, key: str) -> None:
        """Remove a key. Removing a missing key is not an error."""
        self._check_writable()
        await self._ensure_open()
        await self._soon(self.delete_sync, key)

    async def delete_dir(self, prefix: str) -> None:
        """Remove all keys of a directory, one by one."""
        self._check_writable()
        await self._ensure_open()
        await asyncio.to_thread(self._delete_below, prefix.rstrip("/"))

    async def list(self) -> AsyncIterator[str]:
        """All keys."""
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """All keys that begin with a prefix."""
        await self._ensure_open()
        for key in await asyncio.to_thread(list, self._keys(prefix)):
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The names directly below a prefix."""
        await self._ensure_open()
        for name in await asyncio.to_thread(self._names, prefix.rstrip("/")):
            yield name

    async def is_empty(self, prefix: str) -> bool:
        """Whether no key exists below a prefix."""
        await self._ensure_open()
        folder = prefix.rstrip("/")
        return await asyncio.to_thread(lambda: not any(self._keys(f"{folder}/" if folder else "")))

    # Versions.

    def writable_session(self) -> Session:
        """A Session: a store whose writes become visible to others at its commit, all at once."""
        self._check_writable()
        self.garbage_collect()
        number = Writers(self._latest).enter()
        base = None
        with contextlib.suppress(NotSupported):
            base = self._latest.container.create_snapshot(f"{BASE}{number}").epoch
        return Session(self._given or self._name, number, base)

    @contextlib.contextmanager
    def transaction(self, message: str = "", name: str | None = None) -> Iterator[Session]:
        """A session for a `with` block: committed at its end, discarded if an exception leaves it."""
        session, process = self.writable_session(), os.getpid()
        try:
            yield session
            # A forked child that leaves the block, too, does not end the session of its parent.
            if os.getpid() == process:
                session.commit(message, name)
        except BaseException:
            if os.getpid() == process:
                session.discard_changes()
            raise

    def readonly_session(self, at: Snapshot | int | str) -> Store:
        """The store at a snapshot, its epoch or its name, like `Store(store, at=at)`."""
        return Store(self._given or self._name, at=at)

    def ancestry(self) -> builtins.list[Commit]:
        """The commits, latest first."""
        entries = self._index.kv("zarr.history").items()
        commits = [_commit(int(key), json.loads(text)) for key, text in entries if key != b"head"]
        return sorted(commits, key=lambda commit: -commit.id)

    def expire_snapshots(self, keep: int) -> None:
        """Remove commits without a name and their snapshots, except for the latest `keep` commits."""
        self._check_writable()
        expired = [commit for commit in self.ancestry()[max(1, keep) :] if commit.name is None]
        epochs = {commit.epoch for commit in expired}
        for snapshot in self._latest.container.snapshots():
            if snapshot.epoch in epochs:
                self._latest.destroy_snapshot(snapshot)
        history = self._latest.kv("zarr.history")
        for commit in expired:
            history.discard(b"%d" % commit.id)

    def garbage_collect(self) -> int:
        """Remove objects of killed writers, as each new session does. Returns the number of objects."""
        self._check_writable()
        _keep_last(self._latest, lambda last: is_dead(last["process"]))
        return Writers(self._latest).collect()


def _last(index: Index) -> tuple[bytes, Record | None]:
    """The number of the last commit and its record; None without commits."""
    history = index.kv("zarr.history")
    number = history.get(b"head", b"0")
    text = history.get(number)
    return number, json.loads(text) if text else None


def _keep_last(index: Index, where: Callable[[Record], bool] = lambda _last: True) -> None:
    """Create the snapshot of the last commit if it has none yet and `where` accepts its record."""
    number, last = _last(index)
    if last and last["epoch"] is None and where(last):
        _keep_version(index, number, last)


def _keep_version(index: Index, number: bytes, record: Record) -> Record:
    """Create the snapshot of a commit, unless it exists, and add it to the record, which is returned."""
    name = record["name"] or f"{VERSION}{number.decode()}"
    try:
        epoch = (_named(index, name) or [index.container.create_snapshot(name)])[0].epoch
    except NotSupported:
        return record
    record = index.change(lambda inside: _enter_version(inside, number, {**record, "epoch": epoch}))
    # Another process with the same commit may have created it at the same time.
    for snapshot in _named(index, name):
        if snapshot.epoch != record["epoch"]:
            index.destroy_snapshot(snapshot)
    return record


def _named(index: Index, name: str) -> list[Snapshot]:
    return [snapshot for snapshot in index.container.snapshots() if snapshot.name == name]


def _enter_version(index: Index, number: bytes, record: Record) -> Record:
    """Add a commit's snapshot to its record, unless that has one or has expired. Return the record."""
    history = index.kv("zarr.history")
    known = history.get(number)
    if known is None:
        return {**record, "epoch": None}
    stored: Record = json.loads(known)
    if stored["epoch"] is not None:
        return stored
    history[number] = json.dumps(record).encode()
    return record


def _commit(number: int, record: Record) -> Commit:
    when = datetime.fromtimestamp(record["time"], timezone.utc)
    return Commit(number, record["message"], when, record["name"], record["epoch"])


class Session(Store):
    """A store that keeps its writes to itself until its commit. `Store.writable_session` and
    `Store.transaction` make it.

    It reads its own writes, and apart from them the state in which it began. It may be pickled: workers write
    into the same session, and one process commits. If the process that made it dies before the commit, all
    writes are discarded.
    """

    def __init__(
        self, store: str | Container, number: int | None, base: int | None, *, read_only: bool = False
    ) -> None:
        """Take the store, the number of the session, and the epoch of the snapshot in which it began.

        A session that has ended has no number.
        """
        super().__init__(store, read_only=read_only)
        self._number, self._base = number, base

    def _identity(self) -> tuple[Any, ...]:
        return *super()._identity(), self._number

    def with_read_only(self, read_only: bool = False) -> Session:
        """The same session, for reading only or for writing too."""
        return Session(self._given or self._name, self._number, self._base, read_only=read_only)

    @property
    def _index(self) -> Index:
        """The index of the state in which it began; once it has ended, of the latest state."""
        if self._shown is None:
            self._shown = self._latest if self._number is None else self._latest.at(self._base)
        return self._shown

    @property
    def _own(self) -> Kv | None:
        """The Key-Value with its writes; None once it has ended."""
        return None if self._number is None else self._latest.session(self._number)

    def _running(self) -> tuple[int, Kv]:
        """Its number and the Key-Value with its writes, unless it has ended."""
        if self._number is None:
            raise NoHandle(9, "the session has ended: begin another one")
        return self._number, self._latest.session(self._number)

    @property
    def store(self) -> Session:
        """The session itself, which is the store to write to."""
        return self

    @property
    def has_uncommitted_changes(self) -> bool:
        """Whether the session has uncommitted writes."""
        own = self._own
        return not self.read_only and own is not None and next(iter(own), None) is not None

    def writable_session(self) -> NoReturn:
        """A session has no sessions."""
        raise Invalid(22, "this is a session: begin another one in the store")

    def _find(self, key: str) -> Found | None:
        own = self._own
        raw = None if own is None else own.get(key)
        if raw is None:
            return super()._find(key)
        return None if raw == REMOVED else (raw, self._latest)

    def _entry_size(self, key: str) -> int | None:
        own = self._own
        size = None if own is None else own.size(key)
        if own is None or size is None:
            return super()._entry_size(key)
        return None if size == 1 and own.get(key) == REMOVED else size

    def _set_short(self, key: str, raw: bytes) -> None:
        number, latest_own = self._running()

        def replace(tx: Transaction | None) -> None:
            # After a commit, readers find values in the session's Key-Value, so it must not change any more.
            if not Writers(self._latest).has(number, tx):
                raise self._ended()
            own = latest_own.at(tx)
            if may_refer(own.size(key)):
                self._free_own(self._latest.at(tx), Entry.parse(own[key]))
            own.put(key, raw)

        self._latest.transact(replace)

    def _ended(self) -> NoHandle:
        return NoHandle(9, f"session {self._number} has ended: begin another one")

    @staticmethod
    def _free_own(index: Index, entry: Entry) -> None:
        if entry.tag == ARRAY:
            index.destroy_array(entry.number)
            Writers(index).remove(entry.number)

    def _set_long(self, key: str, data: memoryview) -> None:
        session, _ = self._running()
        number = Writers(self._latest).enter(session=session)
        self._latest.create_array(number, data)
        self._set_short(key, reference(ARRAY, number, len(data)))

    def _insert(self, key: str, value: Buffer) -> bool:
        """Set the value of a key unless it exists. Returns whether it was set."""
        is_new = self._entry_size(key) is None
        if is_new:
            self.set_sync(key, value)
        return is_new

    def _remove(self, key: str) -> None:
        self._set_short(key, REMOVED)

    def _keys(self, prefix: str) -> Iterator[str]:
        own = {key: self._entry_size(key) is not None for key in map(bytes.decode, self._own or ())}
        yield from (key for key in super()._keys(prefix) if key not in own)
        yield from (key for key, exists in own.items() if exists and key.startswith(prefix))

    def _names(self, folder: str) -> list[str]:
        inside = f"{folder}/" if folder else ""
        return sorted({key[len(inside) :].split("/")[0] for key in self._keys(inside)})

    def _delete_below(self, folder: str) -> None:
        for key in list(self._keys(f"{folder}/" if folder else "")):
            self._remove(key)

    def commit(self, message: str = "", name: str | None = None, *, force: bool = False) -> Commit:
        """Make the writes visible to others, all at once, and end the session. Returns the Commit.

        A snapshot keeps the state, under `name` if one is given. If another writer has changed any of the
        same keys since the session began, nothing is changed, and Conflict is raised; with `force` these keys
        are overwritten. Other processes must have finished their writes to the session.
        """
        self._check_writable()
        while (done := self._latest.change(lambda index: self._apply(index, message, name, force))) is None:
            _keep_last(self._latest)
        self._end()
        number, record = done
        return _commit(int(number), _keep_version(self._latest, number, record))

    def _check_name(self, name: str | None) -> None:
        if name is not None and (not name or name.startswith((BASE, VERSION)) or self._has_snapshot(name)):
            raise Exists(17, f"{name!r} exists or is not a valid name of a snapshot: choose another name")

    def _has_snapshot(self, name: str) -> bool:
        with contextlib.suppress(NotSupported):
            return bool(_named(self._latest, name))
        return False

    def _apply(
        self, index: Index, message: str, name: str | None, force: bool
    ) -> tuple[bytes, Record] | None:
        """Commit in a transaction. None if the last commit has no snapshot yet: it would show this one."""
        session, _ = self._running()
        writers, own = Writers(index), index.session(session)
        if not writers.has(session):
            raise self._ended()
        before, last = _last(index)
        if last and last["epoch"] is None and self._base is not None:
            return None
        self._check_name(name)
        keys = [key.decode() for key in own]
        self._check_conflicts(index, () if force else keys)
        for key in keys:
            self._move(index, session, own, key)
        writers.remove(session)
        number = b"%d" % (int(before) + 1)
        record = {
            "message": message,
            "name": name,
            "time": time.time(),
            "epoch": None,
            "process": this_process(),
        }
        history = index.kv("zarr.history")
        history[b"head"], history[number] = number, json.dumps(record).encode()
        return number, record

    def _check_conflicts(self, index: Index, keys: Sequence[str]) -> None:
        """Raise Conflict if any of the keys has changed since the session began."""
        if self._base is None:
            return
        changed = [key for key in keys if self._differs(index, key)]
        if changed:
            named = ", ".join(changed[:3]) + (", ..." if len(changed) > 3 else "")
            conflict = Conflict(16, f"others have changed {len(changed)} keys of the session: {named}")
            conflict.keys = changed
            raise conflict

    def _differs(self, index: Index, key: str) -> bool:
        """True if the entry of a key is another one than when the session began."""
        before, now = self._index.size(key), index.size(key)
        return before != now or (now is not None and self._index.raw(key) != index.raw(key))

    @staticmethod
    def _move(index: Index, session: int, own: Kv, key: str) -> None:
        """Let the index refer to a value of the session, in place of the old value."""
        size = own.size(key) or 0
        # Entries of other sizes are values, which need not be read.
        raw = own[key] if size == 1 or may_refer(size) else VALUE
        entry = Entry.parse(raw) if raw[-1:] == ARRAY else None
        existed = index.free_old(key)
        if raw == REMOVED or entry:
            own.discard(key)
        if entry:
            Writers(index).remove(entry.number)
            index.put_blindly(key, raw)
        elif raw != REMOVED:
            index.put_blindly(key, reference(STAGED, session, size - 1))
        elif existed:
            index.discard(key)

    def discard_changes(self) -> None:
        """End the session without a commit. A session that has ended is left as it is."""
        if not self.read_only and self._number is not None:
            Writers(self._latest).collect(abandoned=[self._number])
            self._end()

    def _end(self) -> None:
        """Show the latest state from now on, for reading."""
        self._read_only, self._number, self._shown = True, None, self._latest
        Writers(self._latest).destroy_bases()

"""Layout of the values of a zarr hierarchy in a container (docs/format.md, "The zarr layout").

Each node of the hierarchy has a Key-Value with the documents of its children and its own chunks. An entry is
a value, or refers to it: in the Key-Value of the session that wrote it, or in an Array.
"""

from __future__ import annotations

import contextlib
import json
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from . import FileSystem
from .errors import Invalid, NotFound, NotSupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ._esker import Array, Container, Kv, Snapshot, Transaction, _At, _Buffer

_T = TypeVar("_T")

# Longest value in a Key-Value, in bytes; a longer one is an Array, of which parts can be read.
VALUE_MAX = 512 << 10
# The attribute of a container that describes its layout.
ATTRIBUTE = "zarr"
LAYOUT = 1
# The last byte of an entry is its kind.
VALUE, STAGED, ARRAY, REMOVED = b"\0", b"\1", b"\2", b"\3"
_REFERENCE = struct.Struct("<QQc")
# A key of a node that refers to a child with a Key-Value of its own. No text in UTF-8 begins with this byte.
_CHILD = b"\xff"
# The bits of an object id that belong to the user.
_USER_BITS = (1 << 32) - 1
# The type of an object in the upper half of its id: a Key-Value with hashed keys, and an Array.
_KV_TYPE, _ARRAY_TYPE = 8 << 56, 11 << 56
_DOCUMENTS = ("zarr.json", ".zarray", ".zgroup", ".zattrs", ".zmetadata")


@dataclass(frozen=True)
class Entry:
    """Entry of the index under a key: a value, or the number of the object that holds it."""

    tag: bytes
    value: memoryview
    number: int
    size: int

    @staticmethod
    def parse(raw: bytes) -> Entry:
        """Read an entry from its bytes."""
        whole = memoryview(raw)
        # The last byte says whether the entry is the value itself, or refers to the object that holds it.
        tag = bytes(whole[-1:])
        if tag in (STAGED, ARRAY):
            number, size, _ = _REFERENCE.unpack(whole)
            return Entry(tag, whole[:0], number, size)
        return Entry(tag, whole[:-1], 0, len(whole) - 1)


def reference(tag: bytes, number: int, size: int) -> bytes:
    """The bytes of an entry that refers to a value, with its length."""
    return _REFERENCE.pack(number, size, tag)


def may_refer(size: int | None) -> bool:
    """True if an entry of `size` bytes may be a reference. `size` is None if the entry does not exist."""
    return size == _REFERENCE.size


def split(key: str) -> tuple[str, str]:
    """The node whose Key-Value has a key, and the rest of the key within it.

    Chunks are in the Key-Value of their array: "a/t2m/c/0/1" is "c/0/1" of the node "a/t2m". Documents are in
    that of the parent: "a/t2m/zarr.json" is "t2m/zarr.json" of the node "a".
    """
    parts = key.split("/")
    cut = len(parts) - 1
    if parts[cut] in _DOCUMENTS:
        cut = max(0, cut - 1)
    else:
        while cut and _is_coordinate(parts[cut]):
            cut -= 1
        if parts[cut] != "c" and not _is_coordinate(parts[cut]) and cut < len(parts) - 1:
            cut += 1
    return "/".join(parts[:cut]), "/".join(parts[cut:])


def _is_coordinate(part: str) -> bool:
    """Whether a part of a key numbers a chunk, such as 3, or 0.3 in the format of zarr 2."""
    return part.replace(".", "").isdigit()


def _inside(node: str, rest: str) -> str:
    """The key of `rest` in the Key-Value of a node."""
    return f"{node}/{rest}" if node else rest


def is_hierarchy(container: Container) -> bool:
    """True if a container holds a zarr hierarchy and no file system."""
    return ATTRIBUTE in container.attributes and not _holds_files(container)


def _holds_files(container: Container) -> bool:
    """Whether a file system was created in the container."""
    try:
        FileSystem(container, True)
    except Invalid:
        return False
    return True


class Index:
    """The entries of a container, in its latest state, at a snapshot, or in a transaction."""

    def __init__(self, container: Container, ids: _Ids | None = None) -> None:
        """Take a container, and the ids of objects that another index of it knows."""
        self.container, self._ids = container, ids or _Ids(container)
        self._objects: dict[str | int, Kv] = {}
        self._marked: set[str] = set()

    def at(self, view: _At) -> Index:
        """The same index at a snapshot or in a transaction; None is the latest state."""
        return Index(self.container.at(view), self._ids)

    def kv(self, name: str) -> Kv:
        """A Key-Value by its name."""
        if name not in self._objects:
            self._objects[name] = self.container.kv(self._ids.from_name(name))
        return self._objects[name]

    def node(self, path: str) -> Kv:
        """The Key-Value of a node."""
        return self.kv(f"zarr/{path}")

    def session(self, number: int) -> Kv:
        """The Key-Value with the values of a session."""
        if number not in self._objects:
            self._objects[number] = self.container.kv(self._ids.kv(number))
        return self._objects[number]

    def array(self, number: int) -> Array:
        """The Array with this number."""
        return self.container.array(self._ids.array(number))

    def create_array(self, number: int, data: _Buffer) -> None:
        """Make an Array of these bytes."""
        self.container.create_array(self._ids.array(number)).write(0, data)

    def raw(self, key: str) -> bytes | None:
        """The bytes of the entry of a key; None if it does not exist."""
        node, rest = split(key)
        return self.node(node).get(rest)

    def size(self, key: str) -> int | None:
        """Length of the entry of a key in bytes; None if it does not exist."""
        node, rest = split(key)
        return self.node(node).size(rest)

    def put(self, key: str, raw: bytes, condition: Literal["insert", "update"] | None = None) -> None:
        """Set the entry of a key, and list the nodes above it."""
        node, rest = split(key)
        if node not in self._marked:
            self.mark(node)
        self.node(node).put(rest, raw, condition)
        # A process that prunes the node from now on sees the entry. An earlier pruning is seen here.
        self.mark(node)

    def put_blindly(self, key: str, raw: bytes) -> None:
        """Set the entry of a key in a transaction, without reads that could conflict."""
        node, rest = split(key)
        self.node(node).put(rest, raw)
        while node and node not in self._marked:
            self._marked.add(node)
            node = self._put_mark(node)

    def discard(self, key: str) -> None:
        """Remove the entry of a key."""
        node, rest = split(key)
        self.node(node).discard(rest)

    def mark(self, node: str) -> None:
        """List a node in its parent, and the parent in its own parent, as far up as necessary."""
        self._marked.add(node)
        while node:
            above, _, name = node.rpartition("/")
            if self.node(above).size(_CHILD + name.encode()) is not None:
                return
            node = self._put_mark(node)

    def _put_mark(self, node: str) -> str:
        """List a node in its parent, and return the parent."""
        above, _, name = node.rpartition("/")
        self.node(above).put(_CHILD + name.encode(), b"")
        return above

    def free(self, key: str, raw: bytes) -> None:
        """Remove the object to which an entry refers."""
        entry = Entry.parse(raw)
        if entry.tag == STAGED:
            self.session(entry.number).discard(key)
        elif entry.tag == ARRAY:
            self.destroy_array(entry.number)

    def destroy_array(self, number: int) -> None:
        """Destroy an Array if it exists."""
        with contextlib.suppress(NotFound):
            self.array(number).destroy()

    def destroy_snapshot(self, snapshot: Snapshot) -> None:
        """Destroy a snapshot of the container if it exists."""
        with contextlib.suppress(NotFound):
            self.container.destroy_snapshot(snapshot)

    def free_old(self, key: str) -> bool:
        """Remove the object to which a key's entry refers, before the entry changes. False without entry."""
        size = self.size(key)
        if may_refer(size) and (raw := self.raw(key)) is not None:
            self.free(key, raw)
        return size is not None

    def keys(self, prefix: str) -> Iterator[str]:
        """All keys that begin with a prefix."""
        folder = prefix.rpartition("/")[0]
        for key in self._below(folder):
            if key.startswith(prefix):
                yield key

    def _below(self, folder: str) -> Iterator[str]:
        """All keys below a folder."""
        yield from self._beside(folder)
        yield from self._within(folder)

    def _beside(self, folder: str) -> Iterator[str]:
        """Keys of a folder in the Key-Values of nodes above it: its documents, and parts of chunks."""
        if not folder:
            return
        for name in _DOCUMENTS:
            if self.size(f"{folder}/{name}") is not None:
                yield f"{folder}/{name}"
        above, _ = split(f"{folder}/0")
        if above != folder:
            inside = (_inside(above, rest.decode()) for rest in self.node(above) if rest[:1] != _CHILD)
            for key in inside:
                if key.startswith(f"{folder}/") and key[len(folder) + 1 :] not in _DOCUMENTS:
                    yield key

    def _within(self, node: str) -> Iterator[str]:
        """The keys of a node and of all nodes below it."""
        children = []
        for rest in self.node(node):
            if rest[:1] == _CHILD:
                children.append(_inside(node, rest[1:].decode()))
            else:
                yield _inside(node, rest.decode())
        for child in children:
            yield from self._within(child)

    def names(self, folder: str) -> list[str]:
        """The names directly below a folder."""
        found, children = set(), []
        for key in self._beside(folder):
            found.add(key[len(folder) + 1 :].split("/")[0])
        for rest in self.node(folder):
            if rest[:1] == _CHILD:
                children.append(rest[1:].decode())
            else:
                found.add(rest.decode().split("/")[0])
        for name in children:
            if name not in found and any(self._within(_inside(folder, name))):
                found.add(name)
        return sorted(found)

    def prune(self, node: str) -> None:
        """Stop listing this node and nodes below it that are empty."""
        for rest in list(self.node(node)):
            if rest[:1] == _CHILD:
                self.prune(_inside(node, rest[1:].decode()))
        if node:
            self.change(lambda index: index._unmark(node))

    def _unmark(self, node: str) -> None:
        """Stop listing a node in its parent if it has no keys."""
        if next(iter(self.node(node)), None) is None:
            above, _, name = node.rpartition("/")
            self.node(above).discard(_CHILD + name.encode())

    def change(self, work: Callable[[Index], _T]) -> _T:
        """Call `work` with the index in a transaction until it commits; once without transactions."""
        return self.transact(lambda tx: work(self.at(tx)))

    def transact(self, work: Callable[[Transaction | None], _T]) -> _T:
        """Call `work` with a transaction until it commits. Pools without transactions pass None."""
        try:
            return self.container.transact(work, attempts=10_000)
        except NotSupported:
            return work(None)


class _Ids:
    """The object ids of a store. Their class was chosen for the pool in which the store was created."""

    def __init__(self, container: Container) -> None:
        self.container = container
        self._known: dict[str, str] = {}
        text = container.attributes.get(ATTRIBUTE)
        if not text and _holds_files(container):
            raise Invalid(22, f"{container!r} holds files: zarr opens them by the URL esker://POOL/CONTAINER")
        described: dict[str, Any] = json.loads(text) if text else {"layout": LAYOUT, "ids": self._usual()}
        if described["layout"] != LAYOUT:
            raise Invalid(22, f"{container!r} has zarr layout {described['layout']}: Esker reads {LAYOUT}")
        if not text and container.mode != "r":
            container.attributes[ATTRIBUTE] = json.dumps(described).encode()
        self._high = int(described["ids"])

    def _usual(self) -> str:
        """The upper half of the ids in a new store: its object class is SX of this pool."""
        return self.container.kv("0.1", oclass="SX").oid.split(".")[0]

    def kv(self, number: int) -> str:
        return f"{self._high}.{number}"

    def array(self, number: int) -> str:
        return f"{self._high + _ARRAY_TYPE - _KV_TYPE}.{number}"

    def from_name(self, name: str) -> str:
        """The id of a Key-Value by its name, as in `esker kv`."""
        if name not in self._known:
            high, low = self.container.kv(name, oclass="S1").oid.split(".")
            self._known[name] = f"{self._high | (int(high) & _USER_BITS)}.{low}"
        return self._known[name]

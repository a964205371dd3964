"""Containers, and the names of their objects."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from .. import Pool, errors
from ._array import DArray, values_of
from ._client import INVALID, DaosClient, PyDError, failing
from ._dict import DDict

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import numpy
    from numpy.typing import ArrayLike

    from .._esker import Container, Kv, Transaction, _Mode

# The Key-Value of the names. The value of a name is "dict OID" or "array OID DTYPE".
ROOT = ".pydaos"
# Prefixes of a path that names a pool and a container.
_SCHEMES = ("daos://", "esker://")
# DAOS's modes of opening, and Esker's.
_MODES: dict[str, _Mode] = {"RW": "rw", "RO": "r"}


class InvalidModeError(ValueError):
    """The open mode is neither "RW" nor "RO"."""


class DObjNotFound(Exception):
    """The container has no object with this name."""

    def __init__(self, name: str) -> None:
        """Take the name."""
        super().__init__(name)
        self.name = name

    def __str__(self) -> str:
        return f"Failed to open '{self.name}'"


def _parts(pool: str | None, cont: str | None, path: str | None) -> tuple[str, str]:
    """The pool and the container that the arguments of DCont name."""
    if path is None:
        if pool is None or cont is None:
            raise PyDError("invalid pool or container: both have to be given, or path", INVALID)
        return pool, cont
    scheme = next((scheme for scheme in _SCHEMES if path.startswith(scheme)), None)
    pool, slash, cont = path.removeprefix(scheme or "").rstrip("/").rpartition("/")
    if not (scheme and pool and slash and cont):
        raise PyDError(f"{path!r} names no container: use daos://POOL/CONTAINER", INVALID)
    return pool, cont


def _open(pool: str | None, cont: str | None, path: str | None, mode: _Mode) -> Container:
    """Esker's container that the arguments of DCont name."""
    pool, cont = _parts(pool, cont, path)
    with failing("access container"):
        return Pool(pool, mode).container(cont)


def _class(cid: str) -> str | None:
    """Esker's object class for one of DAOS's, such as OC_SX; 0 lets Esker choose."""
    return None if cid in ("0", "OC_UNKNOWN") else cid.removeprefix("OC_")


class DCont:
    """A container, by pool and container (labels or UUIDs) or by path (`daos://POOL/CONTAINER`).

    `open_mode` is "RW" or "RO". `cont[name]` is `cont.get(name)`; `in` and iteration use the names.
    """

    def __init__(
        self, pool: str | None = None, cont: str | None = None, path: str | None = None, open_mode: str = "RW"
    ) -> None:
        """Open it; it is closed once neither it nor any of its objects is used."""
        if open_mode not in _MODES:
            raise InvalidModeError(f'open_mode {open_mode!r} is neither "RO" nor "RW"')
        self._dc = DaosClient()
        self.pool, self.cont = pool, cont
        self._container = _open(pool, cont, path, _MODES[open_mode])
        if path is not None:
            self.pool, self.cont = self._container.pool.name, self._container.label
        with failing("access container"):
            self._root = self._container.kv(ROOT)

    def get(self, name: str) -> Any:
        """The DDict or DArray with a name; raises DObjNotFound if it does not exist."""
        with failing("look up name"):
            kind, oid, *dtype = self._entry_of(name)
            if kind == "dict":
                return DDict(name, self._container.kv(oid), self)
            return DArray(name, self._container.array(oid), self, *dtype)

    def _entry_of(self, name: str) -> list[str]:
        """The kind and object id of a name, and the type of an array's numbers."""
        entry = self._root.get(name)
        if entry is None:
            raise DObjNotFound(name)
        return entry.decode().split(" ")

    def dict(self, name: str, v: Mapping[str, str | bytes | None] | None = None, cid: str = "0") -> DDict:
        """Create a DDict with the items of `v`; a name that is in use is an error.

        A Key-Value that Esker's own interface made under this name becomes the dictionary.
        """
        with failing("create DAOS dict"):
            kv = self._container.kv(name, oclass=_class(cid))
            self._enter(self._root, name, f"dict {kv.oid}")
        made = DDict(name, kv, self)
        made.bput(v)
        return made

    def array(self, name: str, v: ArrayLike | None = None, cid: str = "0") -> DArray:
        """Create a DArray with the numbers of `v`, by default none, of type float64.

        If that fails, there is no object with the name.
        """
        values = values_of(v)
        with failing("create DAOS array"):
            oid = self._create_array(name, values.dtype, cid)
            try:
                array = self._container.array(oid)
                if len(values):
                    array.write(0, values)
            except BaseException:
                # Another process may have destroyed the object and given the name to its own.
                with contextlib.suppress(errors.Error, DObjNotFound):
                    if self._entry_of(name)[1] == oid:
                        self._remove(name)
                raise
        return DArray(name, array, self, values.dtype)

    def _create_array(self, name: str, dtype: numpy.dtype[Any], cid: str) -> str:
        """Create an Array and add its name, both or neither; returns the object id."""

        def create(tx: Transaction) -> str:
            array = self._container.at(tx).create_array(name, dtype.itemsize, oclass=_class(cid))
            self._enter(self._root.at(tx), name, f"array {array.oid} {dtype.str}")
            return array.oid

        try:
            return self._container.transact(create)
        except errors.Exists:
            if name in self._root:
                raise errors.Exists(17, f"{name!r} already exists") from None
            remedy = "pydaos.check names it by its object id, and destroy removes it by that"
            raise errors.Exists(17, f"{name!r} is an Array without an entry in {ROOT!r}: {remedy}") from None

    @staticmethod
    def _enter(root: Kv, name: str, entry: str) -> None:
        """Add a name to `root`, where it must not be in use. If several processes add it, one succeeds."""
        if name == ROOT:
            raise errors.Invalid(22, f"{ROOT!r} holds the names of objects: use another name")
        if name in root:
            raise errors.Exists(17, f"{name!r} already exists")
        root.put(name, entry.encode(), "insert")

    def destroy(self, name: str) -> None:
        """Destroy the object with a name and all its content. Do not use open handles of it any more.

        If that fails, the name stays, and it can be repeated.
        """
        with failing("destroy DAOS object"):
            self._remove(name)

    def _remove(self, name: str) -> None:
        """Remove the content of a name, which an interrupted call may have removed already, then the name."""
        kind, oid, *_ = self._entry_of(name)
        if kind == "dict":
            self._container.kv(oid).clear()
        else:
            with contextlib.suppress(errors.NotFound):
                self._container.array(oid).destroy()
        self._root.discard(name)

    def __getitem__(self, name: str) -> Any:
        return self.get(name)

    def __contains__(self, name: str) -> bool:
        with failing("look up name"):
            return name in self._root

    def __iter__(self) -> Iterator[str]:
        with failing("enumerate names"):
            for name in self._root:
                yield name.decode()

    def __str__(self) -> str:
        return f"{self.pool}/{self.cont}"

    def __repr__(self) -> str:
        return f"daos://{self.pool}/{self.cont}"


def check(pool: str | None = None, cont: str | None = None, path: str | None = None) -> None:
    """Name each Key-Value and Array that has no name by its object id, as DAOS's checker does.

    No other process should use the container meanwhile.
    """
    container = _open(pool, cont, path, "rw")
    with failing("check container"):
        root = container.kv(ROOT)
        known = {root.oid, *(value.decode().split(" ")[1] for value in root.values())}
        for oid in set(container.objects()) - known:
            entry = _entry(container, oid)
            if entry:
                root.put(oid, entry.encode(), "insert")


def _entry(container: Container, oid: str) -> str | None:
    """The entry of an object without a name; None if it is neither a Key-Value nor an Array."""
    try:
        array = container.array(oid)
    except errors.Error:
        pass
    else:
        return f"array {oid} |V{array.cell_size}"
    try:
        container.kv(oid)
    except errors.Error:
        return None
    return f"dict {oid}"

"""Dictionaries: Key-Values with text as keys."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import TYPE_CHECKING, Any, Optional, TypeVar

from .. import Kv
from .._parallel import each
from ._client import failing
from ._object import DObject

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_Filled = TypeVar("_Filled", bound=Optional[MutableMapping[Any, Any]])


def _encoded(key: str | bytes) -> bytes:
    """A key as bytes. For a key that is not UTF-8, accepts the text that iteration returned."""
    return key.encode(errors="surrogateescape") if isinstance(key, str) else key


class DDict(DObject[Kv]):
    """A dictionary of a container: a Key-Value.

    Its keys are text; its values are set as text or bytes, and read as bytes.
    A key whose value is set to None or an empty text is removed.
    """

    # In DAOS, the size in bytes of the buffer for a value. Esker needs none.
    value_size = 1 << 20

    def get(self, key: str | bytes) -> bytes:
        """The value of a key as bytes; raises KeyError if it is missing."""
        value = self._find(key)
        if value is None:
            raise KeyError(key)
        return value

    def put(self, key: str | bytes, val: str | bytes | None) -> None:
        """Set the value of a key; None and the empty text remove the key."""
        with failing("store KV value"):
            self._store(key, val)

    def pop(self, key: str | bytes) -> None:
        """Remove a key. As in DAOS, it returns nothing, and a missing key is not an error."""
        self.put(key, None)

    def bget(self, d: _Filled, value_size: int | None = None) -> _Filled:
        """Set the value of each key of `d` to the stored value, None if it is missing, and return `d`."""
        if d is not None:
            keys = list(d)
            d.update(zip(keys, each(self.oh.container.pool, self._find, keys)))
        return d

    def bput(self, d: Mapping[str, str | bytes | None] | None) -> None:
        """Set the values of all keys of `d`; None and the empty text remove a key."""
        with failing("store KV value"):
            each(self.oh.container.pool, lambda item: self._store(*item), (d or {}).items())

    def dump(self) -> dict[str, bytes]:
        """A dict of all keys and values."""
        with failing("enumerate Dictionary"):
            return {_decoded(key): value for key, value in self.oh.items() if value}

    def _find(self, key: str | bytes) -> bytes | None:
        with failing("retrieve KV value"):
            return self.oh.get(_encoded(key)) or None

    def _store(self, key: str | bytes, value: str | bytes | None) -> None:
        """Set the value of a key. An empty value, or None, removes the key."""
        if isinstance(value, str):
            value = value.encode()
        if value is not None and not isinstance(value, bytes):
            raise TypeError(f"the value of {key!r} is neither text nor bytes: {type(value).__name__}")
        if value:
            self.oh.put(_encoded(key), value)
        else:
            self.oh.discard(_encoded(key))

    def __getitem__(self, key: str | bytes) -> bytes:
        return self.get(key)

    def __setitem__(self, key: str | bytes, val: str | bytes | None) -> None:
        self.put(key, val)

    def __delitem__(self, key: str | bytes) -> None:
        self.pop(key)

    def __iter__(self) -> Iterator[str]:
        with failing("enumerate Dictionary"):
            yield from map(_decoded, self.oh)

    def __len__(self) -> int:
        with failing("enumerate Dictionary"):
            return len(self.oh)

    def __bool__(self) -> bool:
        return next(iter(self), None) is not None

    def __contains__(self, key: str | bytes) -> bool:
        with failing("retrieve KV value"):
            return bool(self.oh.size(_encoded(key)))

    def __eq__(self, other: object) -> bool:
        """Whether it has the same keys and values as another dictionary; values of a dict are bytes."""
        if not isinstance(other, (DDict, dict)) or len(self) != len(other):
            return False
        return all(self._find(key) == other[key] for key in other)


def _decoded(key: bytes) -> str:
    return key.decode(errors="surrogateescape")

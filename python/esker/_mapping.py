"""Methods that make Kv and Attributes mappings, derived from their other methods."""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, KeysView, MutableMapping, ValuesView
from typing import Any

from ._esker import Attributes, Kv


class _Items(ItemsView[Any, bytes]):
    """Iterate over pairs of key and value, read in batches."""

    _mapping: Kv

    def __iter__(self) -> Iterator[tuple[Any, bytes]]:
        return self._mapping._items()


class _Values(ValuesView[bytes]):
    """Iterate over values, read in batches."""

    _mapping: Kv

    def __iter__(self) -> Iterator[bytes]:
        return self._mapping._values()


_NONE = object()
# Type checkers do not know that it is an abstract base class.
_MUTABLE_MAPPING: Any = MutableMapping


def _pop(self: Kv | Attributes, key: Any, default: Any = _NONE) -> Any:
    """Remove a key and return its value; if the key is missing, return `default` if it is given."""
    try:
        value = self[key]
    except KeyError:
        if default is _NONE:
            raise
        return default
    del self[key]
    return value


def _keys(self: Kv) -> KeysView[Any]:
    """A view of the keys."""
    return KeysView(self)


def _items(self: Kv) -> ItemsView[Any, bytes]:
    """A view of the pairs of key and value."""
    return _Items(self)


def _values(self: Kv) -> ValuesView[bytes]:
    """A view of the values."""
    return _Values(self)


_ADDED: dict[type, dict[str, Any]] = {
    Kv: {"keys": _keys, "items": _items, "values": _values, "pop": _pop},
    Attributes: {"pop": _pop},
}


def complete() -> None:
    """Add the methods of MutableMapping that the classes do not define themselves."""
    for mapping, methods in _ADDED.items():
        for name, method in methods.items():
            setattr(mapping, name, method)
        for name in ("get", "keys", "items", "values", "popitem", "setdefault", "update", "clear"):
            if name not in vars(mapping):
                setattr(mapping, name, getattr(MutableMapping, name))
        _MUTABLE_MAPPING.register(mapping)

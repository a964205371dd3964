"""Methods that make Kv and Attributes mappings, derived from their other methods."""

from collections.abc import ItemsView, KeysView, MutableMapping, ValuesView

from ._esker import Attributes, Kv


class _Items(ItemsView):
    """Iterate over pairs of key and value, read in batches."""

    def __iter__(self):
        return self._mapping._items()


class _Values(ValuesView):
    """Iterate over values, read in batches."""

    def __iter__(self):
        return self._mapping._values()


_NONE = object()


def _pop(self, key, default=_NONE):
    """Remove a key and return its value; if the key is missing, return `default` if it is given."""
    try:
        value = self[key]
    except KeyError:
        if default is _NONE:
            raise
        return default
    del self[key]
    return value


def _keys(self):
    """A view of the keys."""
    return KeysView(self)


def _items(self):
    """A view of the pairs of key and value."""
    return _Items(self)


def _values(self):
    """A view of the values."""
    return _Values(self)


def complete():
    """Add the methods of MutableMapping that the classes do not define themselves."""
    Kv.keys, Kv.items, Kv.values = _keys, _items, _values
    for mapping in (Kv, Attributes):
        mapping.pop = _pop
        for name in ("get", "keys", "items", "values", "popitem", "setdefault", "update", "clear"):
            if name not in vars(mapping):
                setattr(mapping, name, getattr(MutableMapping, name))
        MutableMapping.register(mapping)

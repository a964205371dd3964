"""A target of earthkit-data: `fields.to_target("esker", "POOL/CONTAINER")`."""

import os

from earthkit.data.targets import SimpleTarget

from . import FieldStore


class EskerTarget(SimpleTarget):
    """Archives fields under the keys of their messages.

    `store` is "POOL/CONTAINER", created if it does not exist, or a FieldStore; by default the store that
    ESKER_FIELDS names. Written fields become visible at `flush` and at `close`, which ends a `with`
    statement. If an exception leaves that, unflushed fields are discarded.
    """

    def __init__(self, store=None, **kwargs):
        """Open the store."""
        super().__init__(**kwargs)
        store = os.environ.get("ESKER_FIELDS") if store is None else store
        if store is None:
            raise TypeError('a store is missing: pass "POOL/CONTAINER", or set ESKER_FIELDS')
        self._owned = not isinstance(store, FieldStore)
        self._store = FieldStore(store) if self._owned else store

    def flush(self):
        """Make the written fields visible."""
        self._raise_if_closed()
        self._store.flush()

    def close(self):
        """Flush, and end writing."""
        self.flush()
        self._end()

    def __exit__(self, kind, error, traceback):
        """Close; after an exception, discard unflushed fields."""
        if kind is None:
            self.close()
        elif not self.closed:
            self._store.discard()
            self._end()

    def _end(self):
        self._mark_closed()
        if self._owned:
            self._store.close()

    def _write(self, data, **kwargs):
        encoded = self._encode(data, **kwargs)
        for message in encoded if hasattr(encoded, "__iter__") else [encoded]:
            self._store.archive(message.to_bytes())

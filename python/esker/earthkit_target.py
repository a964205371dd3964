"""A target of earthkit-data: `fields.to_target("esker", "POOL/CONTAINER")`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from earthkit.data.targets import SimpleTarget

from . import FieldStore
from ._esker import configured_fields

if TYPE_CHECKING:
    from types import TracebackType


class EskerTarget(SimpleTarget):
    """Archives fields under the keys of their messages.

    `store` is "POOL/CONTAINER", created if it does not exist, or a FieldStore; by default the store that
    ESKER_FIELDS names, or else `fields` of Esker's configuration file. Written fields become visible at
    `flush` and at `close`, which ends a `with` statement. If an exception leaves that, unflushed fields are
    discarded.
    """

    def __init__(self, store: FieldStore | str | None = None, **kwargs: Any) -> None:
        """Open the store."""
        super().__init__(**kwargs)
        if store is None:
            store = os.environ.get("ESKER_FIELDS") or configured_fields()
        if store is None:
            raise TypeError('a store is missing: pass "POOL/CONTAINER", or set ESKER_FIELDS')
        self._owned = not isinstance(store, FieldStore)
        self._store = store if isinstance(store, FieldStore) else FieldStore(store)

    def flush(self) -> None:
        """Make the written fields visible."""
        self._raise_if_closed()
        self._store.flush()

    def close(self) -> None:
        """Flush, and end writing."""
        self.flush()
        self._end()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Close; after an exception, discard unflushed fields."""
        if kind is None:
            self.close()
        elif not self.closed:
            self._store.discard()
            self._end()

    def _end(self) -> None:
        self._mark_closed()
        if self._owned:
            self._store.close()

    def _write(self, data: Any, **kwargs: Any) -> None:
        encoded: Any = self._encode(data, **kwargs)
        for message in encoded if hasattr(encoded, "__iter__") else [encoded]:
            self._store.archive(message.to_bytes())

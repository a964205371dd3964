"""The asyncio variants: each runs the corresponding method in a thread of the event loop's executor.

Calls on a local pool wait only for the storage medium and release the GIL meanwhile, so a thread is
sufficient; the event loop continues with other tasks.
"""

import asyncio
import functools

from ._esker import (
    Array,
    Container,
    Field,
    Fields,
    FieldStore,
    File,
    FileSystem,
    Kv,
    Pool,
    TensorPut,
    TensorStore,
    Transaction,
)

_WAITING = {
    Pool: ("info", "container", "create_container", "containers", "destroy_container"),
    Container: ("info", "array", "create_array", "objects", "create_snapshot", "snapshots", "transact"),
    Kv: ("get", "get_into", "view", "size", "put", "discard", "clear"),
    Array: ("read", "read_into", "view", "write", "size", "set_size", "punch", "destroy"),
    Transaction: ("commit", "abort"),
    File: ("read", "read_into", "write", "size", "set_size", "close"),
    FieldStore: (
        "archive",
        "adopt",
        "keys",
        "flush",
        "discard",
        "retrieve",
        "list",
        "inspect",
        "axes",
        "stats",
        "status",
        "dump",
        "move",
        "wipe",
        "purge",
    ),
    Field: ("read", "read_range", "read_into", "view", "metadata"),
    Fields: ("read", "read_into"),
    TensorStore: ("put", "get", "begin", "open", "list", "rename", "remove", "collect", "check"),
    TensorPut: ("write", "commit", "abort"),
    FileSystem: ("open_file", "stat", "exists", "listdir", "scandir", "mkdir", "remove", "rename"),
}


def _variant(cls, name):
    method = getattr(cls, name)

    async def variant(self, *args, **kwargs):
        return await asyncio.to_thread(method, self, *args, **kwargs)

    variant.__name__ = f"a{name}"
    variant.__qualname__ = f"{cls.__name__}.a{name}"
    variant.__doc__ = f"As `{name}`, awaitable.\n\n{method.__doc__}"
    return functools.update_wrapper(variant, method, assigned=("__module__",), updated=())


def complete():
    """Add a variant of every method that may block."""
    for cls, names in _WAITING.items():
        for name in names:
            setattr(cls, f"a{name}", _variant(cls, name))

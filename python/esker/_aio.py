"""The asyncio variants: each runs the method it is named after in a thread of the loop's executor.

Calls on a pool of this machine wait for nothing but the medium and release the GIL meanwhile, so a thread is
all they need; the loop goes on with its other tasks.
"""

import asyncio
import functools

from ._esker import Array, Container, Field, Fields, FieldStore, File, FileSystem, Kv, Pool, Transaction

_WAITING = {
    Pool: ("info", "container", "create_container", "containers", "destroy_container"),
    Container: ("info", "array", "create_array", "objects", "create_snapshot", "snapshots", "transact"),
    Kv: ("get", "get_into", "view", "size", "put", "discard", "clear"),
    Array: ("read", "read_into", "view", "write", "size", "set_size", "punch", "destroy"),
    Transaction: ("commit", "abort"),
    File: ("read", "read_into", "write", "size", "set_size", "close"),
    FieldStore: (
        "archive",
        "flush",
        "discard",
        "retrieve",
        "list",
        "inspect",
        "axes",
        "stats",
        "wipe",
        "purge",
    ),
    Field: ("read", "read_range", "read_into", "view", "metadata"),
    Fields: ("read", "read_into"),
    FileSystem: ("open_file", "stat", "exists", "listdir", "scandir", "mkdir", "remove", "rename"),
}


def _variant(cls, name):
    method = getattr(cls, name)

    async def variant(self, *args, **kwargs):
        return await asyncio.to_thread(method, self, *args, **kwargs)

    variant.__name__ = f"a{name}"
    variant.__qualname__ = f"{cls.__name__}.a{name}"
    variant.__doc__ = f"As `{name}`, awaited.\n\n{method.__doc__}"
    return functools.update_wrapper(variant, method, assigned=("__module__",), updated=())


def complete():
    """Adds a variant of every method that may wait."""
    for cls, names in _WAITING.items():
        for name in names:
            setattr(cls, f"a{name}", _variant(cls, name))

"""The asyncio variants: each runs the corresponding method in a thread of the event loop's executor.

Calls on a local pool wait only for the storage medium, and release the GIL meanwhile. So a thread is
sufficient, and the event loop continues with other tasks.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable
from typing import Any

from . import _esker

_WAITING = {
    _esker.Pool: ("info", "container", "create_container", "containers", "destroy_container", "close"),
    _esker.Container: (
        "info",
        "kv",
        "array",
        "create_array",
        "objects",
        "allocate_oids",
        "create_snapshot",
        "snapshots",
        "destroy_snapshot",
        "transact",
        "close",
    ),
    _esker.Kv: ("get", "get_into", "view", "size", "put", "discard", "clear"),
    _esker.Array: ("read", "read_into", "view", "write", "size", "set_size", "punch", "destroy"),
    _esker.Transaction: ("commit", "abort"),
    _esker.File: ("read", "read_into", "write", "size", "set_size", "close"),
    _esker.FieldStore: (
        "archive",
        "adopt",
        "keys",
        "explain",
        "expand",
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
        "close",
    ),
    _esker.Field: ("read", "read_range", "read_into", "view", "metadata"),
    _esker.Fields: ("read", "read_into"),
    _esker.TensorStore: (
        "put",
        "put_hdf5",
        "get",
        "begin",
        "resume",
        "open",
        "keys",
        "list",
        "rename",
        "remove",
        "collect",
        "check",
        "close",
    ),
    _esker.Tensor: ("to_hdf5",),
    _esker.TensorPut: ("write", "commit", "abort"),
    _esker.FileSystem: (
        "open_file",
        "stat",
        "exists",
        "listdir",
        "scandir",
        "mkdir",
        "rmdir",
        "remove",
        "remove_tree",
        "rename",
        "rename_all",
        "symlink",
        "readlink",
        "set",
        "space",
    ),
}


def _variant(cls: type[Any], name: str) -> Callable[..., Awaitable[Any]]:
    """The method `a<name>`: awaits the method `name`, which runs in a thread."""
    method = getattr(cls, name)

    async def variant(self: Any, *args: Any, **kwargs: Any) -> Any:
        return await asyncio.to_thread(method, self, *args, **kwargs)

    variant.__name__ = f"a{name}"
    variant.__qualname__ = f"{cls.__name__}.a{name}"
    variant.__doc__ = f"Awaitable variant of `{name}`.\n\n{method.__doc__}"
    return functools.update_wrapper(variant, method, assigned=("__module__",), updated=())


def complete() -> None:
    """Add a variant of every method that may block."""
    for cls, names in _WAITING.items():
        for name in names:
            setattr(cls, f"a{name}", _variant(cls, name))

"""Base of dictionaries and arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from .. import Array, Kv

if TYPE_CHECKING:
    from ._container import DCont


_Handle = TypeVar("_Handle", Array, Kv)


class DObject(Generic[_Handle]):
    """A named object of a container."""

    def __init__(self, name: str, handle: _Handle, cont: DCont) -> None:
        """Keep the name, Esker's own handle, and the container."""
        self.name, self.cont = name, cont
        self.oh: _Handle = handle
        self.hi, self.lo = (int(part) for part in handle.oid.split("."))

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"[{self.hi:#x}:{self.lo:#x}]"

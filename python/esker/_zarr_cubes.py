"""A read-only store for zarr whose chunks are computed when they are read."""

from __future__ import annotations

import asyncio
import itertools
import math
import warnings
from typing import TYPE_CHECKING, Any, Protocol

import zarr
from zarr.abc.store import Store as ZarrStore
from zarr.core.buffer import default_buffer_prototype
from zarr.storage import MemoryStore

from . import FieldStore
from ._zarr_bounds import bounds
from .errors import NoPermission

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray
    from zarr.abc.store import ByteRequest
    from zarr.core.buffer import Buffer, BufferPrototype


class Chunked(Protocol):
    """An array whose chunks are computed from the fields of a store."""

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        ...

    @property
    def chunks(self) -> tuple[int, ...]:
        """The shape of a chunk."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of the elements."""
        ...

    def has(self, store: FieldStore, chunk: Sequence[int]) -> bool:
        """Whether the store has some field of a chunk."""
        ...

    def read(self, store: FieldStore, chunk: Sequence[int]) -> NDArray[Any] | None:
        """The values of a chunk; None if the store has none of its fields."""
        ...


class CubeStore(ZarrStore):
    """Arrays whose chunks are fields of a store, which are retrieved and decoded when they are read.

    Metadata and small coordinates are kept as zarr wrote them. Only chunks that are being read are in memory.
    """

    supports_writes = False  # pyright: ignore[reportAssignmentType]
    supports_deletes = False  # pyright: ignore[reportAssignmentType]
    supports_listing = True  # pyright: ignore[reportAssignmentType]

    def __init__(
        self, store: FieldStore | str, written: Mapping[str, bytes], cubes: Mapping[str, Chunked]
    ) -> None:
        """Take a FieldStore or its name, the values that zarr wrote, and the cubes by their arrays' paths."""
        super().__init__(read_only=True)
        self._name = store.name if isinstance(store, FieldStore) else store
        # The name by which other processes find the store, once it was opened.
        self._url = store.url if isinstance(store, FieldStore) else store
        self._store = store if isinstance(store, FieldStore) else None
        self._written, self._cubes = written, cubes

    def __eq__(self, other: object) -> bool:
        """Two stores are equal if they show the same fields in the same way."""
        return isinstance(other, CubeStore) and self._identity() == other._identity()

    def _identity(self) -> tuple[Any, ...]:
        return self._name, self._written, self._cubes

    def __getstate__(self) -> dict[str, Any]:
        """Pickle by URL, or by name if it was not opened yet, without open handles."""
        return {**self.__dict__, "_store": None}

    def __str__(self) -> str:
        return f"esker://{self._name}"

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} of {self._name!r}>"

    @property
    def fields(self) -> FieldStore:
        """The FieldStore, which is opened at the first use."""
        if self._store is None:
            self._store = FieldStore(self._url, "r")
            self._url = self._store.url
        return self._store

    def with_read_only(self, read_only: bool = False) -> CubeStore:
        """The same store; it cannot be written."""
        if not read_only:
            raise self._refused()
        return self

    def _refused(self) -> NoPermission:
        return NoPermission(1, f"{self} shows fields, read-only: archive fields to change what it shows")

    def _chunk(self, key: str) -> tuple[Chunked, tuple[int, ...]] | None:
        """The cube and the chunk of a key; None if it is not the key of a chunk."""
        path, mark, rest = f"/{key}".rpartition("/c/")
        cube = self._cubes.get(path[1:]) if mark else None
        parts = rest.split("/")
        if cube is None or not all(part.isdecimal() for part in parts):
            return None
        chunk = tuple(map(int, parts))
        counts = _counts(cube)
        fits = len(chunk) == len(counts) and all(n < count for n, count in zip(chunk, counts))
        # A number with leading zeros is not part of a key.
        return (cube, chunk) if fits and rest == "/".join(map(str, chunk)) else None

    def get_sync(
        self, key: str, *, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """The value of a key or a part of it, None if the key does not exist."""
        value: Any = self._written.get(key)
        if value is None:
            found = self._chunk(key)
            values = found and found[0].read(self.fields, found[1])
            if values is None:
                return None
            value = values.reshape(-1).view("B")
        begin, end = bounds(len(value), byte_range)
        return (prototype or default_buffer_prototype()).buffer.from_bytes(value[begin:end])

    def _has(self, key: str) -> bool:
        found = self._chunk(key)
        return key in self._written or (found is not None and found[0].has(self.fields, found[1]))

    def _keys(self, prefix: str) -> Iterator[str]:
        """The keys that begin with `prefix`: those that zarr wrote, then those of chunks that have fields."""
        yield from (key for key in self._written if key.startswith(prefix))
        for path, cube in self._cubes.items():
            chunks = f"{path}/c/" if path else "c/"
            if chunks.startswith(prefix) or prefix.startswith(chunks):
                for chunk in itertools.product(*map(range, _counts(cube))):
                    key = chunks + "/".join(map(str, chunk))
                    if key.startswith(prefix) and cube.has(self.fields, chunk):
                        yield key

    def _names(self, folder: str) -> list[str]:
        """The names directly below a folder."""
        above = f"{folder}/" if folder else ""
        paths = itertools.chain(self._written, (f"{path}/c/" if path else "c/" for path in self._cubes))
        names = {path[len(above) :].split("/")[0] for path in paths if path.startswith(above)} - {""}
        # The folder is in the chunks of a cube.
        if not names and (found := next(self._keys(above), None)):
            names = {key[len(above) :].split("/")[0] for key in itertools.chain([found], self._keys(above))}
        return sorted(names)

    # The methods that zarr awaits. Calls that may wait for the medium run in a thread.

    async def get(
        self, key: str, prototype: BufferPrototype | None = None, byte_range: ByteRequest | None = None
    ) -> Buffer | None:
        """The value of a key or a part of it, None if the key does not exist."""
        return await asyncio.to_thread(self.get_sync, key, prototype=prototype, byte_range=byte_range)

    async def get_partial_values(
        self, prototype: BufferPrototype, key_ranges: Iterable[tuple[str, ByteRequest | None]]
    ) -> list[Buffer | None]:
        """The requested parts of values, in order, with None for missing keys."""
        parts = (self.get(key, prototype, byte_range) for key, byte_range in key_ranges)
        return list(await asyncio.gather(*parts))

    async def exists(self, key: str) -> bool:
        """Whether a key exists: a chunk does if the store has some of its fields."""
        return await asyncio.to_thread(self._has, key)

    async def getsize(self, key: str) -> int:
        """Length of the value of a key in bytes. No field is decoded."""
        if key in self._written:
            return len(self._written[key])
        found = self._chunk(key)
        if found is None or not await self.exists(key):
            raise FileNotFoundError(key)
        cube, _ = found
        return math.prod(cube.chunks) * cube.dtype.itemsize

    async def set(self, key: str, value: Buffer) -> None:
        """Refused."""
        raise self._refused()

    async def delete(self, key: str) -> None:
        """Refused."""
        raise self._refused()

    async def list(self) -> AsyncIterator[str]:
        """All keys."""
        async for key in self.list_prefix(""):
            yield key

    async def list_prefix(self, prefix: str) -> AsyncIterator[str]:
        """All keys that begin with a prefix."""
        keys = self._keys(prefix)
        while (key := await asyncio.to_thread(next, keys, None)) is not None:
            yield key

    async def list_dir(self, prefix: str) -> AsyncIterator[str]:
        """The names directly below a prefix."""
        for name in await asyncio.to_thread(self._names, prefix.rstrip("/")):
            yield name


def _counts(cube: Chunked) -> list[int]:
    """Number of chunks on each dimension."""
    return [-(-n // length) for n, length in zip(cube.shape, cube.chunks)]


class Layout:
    """Builder of the zarr hierarchy of a CubeStore: arrays of cubes, and arrays with values."""

    def __init__(self) -> None:
        """Begin without arrays."""
        self._kept: dict[str, Buffer] = {}
        self._memory = MemoryStore(self._kept)
        self.cubes: dict[str, Chunked] = {}

    def add_cube(
        self,
        path: str,
        cube: Chunked,
        dims: Iterable[str],
        attributes: Mapping[str, Any] | None = None,
        fill: float = math.nan,
    ) -> None:
        """Add the array of a cube."""
        self.cubes[path] = cube
        self._create(path, cube, cube.chunks, dims, attributes, fill)

    def add_values(
        self,
        path: str,
        values: NDArray[Any],
        dims: Iterable[str],
        attributes: Mapping[str, Any] | None = None,
    ) -> None:
        """Add an array with these values."""
        self._create(path, values, values.shape, dims, attributes, None)[...] = values

    def _create(
        self,
        path: str,
        like: Chunked | NDArray[Any],
        chunks: tuple[int, ...],
        dims: Iterable[str],
        attributes: Mapping[str, Any] | None,
        fill: float | None,
    ) -> zarr.Array[Any]:
        """Create an array of the shape and type of `like`, without values."""
        with warnings.catch_warnings():
            # Texts, which some coordinates are, have a type of zarr's own.
            warnings.simplefilter("ignore")
            return zarr.create_array(
                self._memory,
                name=path or None,
                shape=like.shape,
                dtype=like.dtype,
                chunks=chunks,
                dimension_names=dims,
                attributes=dict(attributes or {}),
                fill_value=fill,
                compressors=None,
            )

    def group(self, attributes: Mapping[str, Any]) -> None:
        """Make the arrays a group, with the consolidated metadata of all of them."""
        zarr.open_group(self._memory, mode="a").attrs.update(attributes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            zarr.consolidate_metadata(self._memory)

    def written(self) -> dict[str, bytes]:
        """The values that zarr wrote, by key."""
        return {key: value.to_bytes() for key, value in self._kept.items()}

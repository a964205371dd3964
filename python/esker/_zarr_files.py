"""The keys of a zarr store as files, so that `esker://POOL/CONTAINER` is one hierarchy to every program."""

from __future__ import annotations

import io
import posixpath
from typing import TYPE_CHECKING, Any, NoReturn

from zarr.abc.store import OffsetByteRequest, RangeByteRequest
from zarr.core.buffer import default_buffer_prototype

from .errors import Exists, IsDirectory, NotDirectory, NotFound, NotSupported

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

    from typing_extensions import Self
    from zarr.abc.store import ByteRequest

    from .zarr import Store

# The modes in which a value can be opened.
_MODES = {"rb", "wb", "xb", "r", "w", "x"}


class ZarrFiles:
    """The methods of a FileSystem that `esker.fsspec` needs. Values are files, parts of keys directories.

    Directories exist while they have a key below them. Values are replaced completely, have no times, and
    are not renamed.
    """

    def __init__(self, store: Store) -> None:
        """Take an `esker.zarr.Store`."""
        self._store = store

    def stat(self, path: str, *, follow: bool = True) -> dict[str, Any]:
        """Size and type of a path; a value hides keys below it. There are no links to follow."""
        key = _key(path)
        size = self._store.size_sync(key) if key else None
        if size is not None:
            return {"type": "file", "size": size}
        if key and not self._has_keys(key):
            raise NotFound(2, f"{self._store} has no key {key!r}, and none below it")
        return {"type": "directory", "size": 0}

    def exists(self, path: str) -> bool:
        """Whether a key, or a key below it, exists."""
        try:
            self.stat(path)
        except NotFound:
            return False
        return True

    def _has_keys(self, folder: str) -> bool:
        return next(iter(self._store._keys(f"{folder}/")), None) is not None

    def listdir(self, path: str = "/") -> list[str]:
        """The names directly below a path, sorted."""
        return self._store._names(_key(path))

    def scandir(self, path: str = "/") -> list[tuple[str, dict[str, Any]]]:
        """The names directly below a path, each with what `stat` returns."""
        return [(name, self.stat(posixpath.join(path, name))) for name in self.listdir(path)]

    def mkdir(self, path: str, *, parents: bool = False) -> None:
        """Do nothing: a directory exists as soon as a key below it exists."""

    def rmdir(self, path: str) -> NoReturn:
        """Refuse to remove a directory: every directory has keys."""
        if self.stat(path)["type"] == "directory":
            raise NotSupported(95, f"{self._store}: {path} has keys: remove them, and the directory is gone")
        raise NotDirectory(20, f"{self._store}: {path} is a value, not a directory")

    def remove(self, path: str) -> None:
        """Remove a value."""
        if self.stat(path)["type"] == "directory":
            raise IsDirectory(21, f"{self._store}: {path} is a directory: remove it recursively")
        self._store.delete_sync(_key(path))

    def remove_tree(self, path: str) -> None:
        """Remove a value or all values below a path."""
        if self.stat(path)["type"] == "file":
            self._store.delete_sync(_key(path))
        else:
            self._store._check_writable()
            self._store._delete_below(_key(path))

    def rename(self, path: str, new_path: str, *, replace: bool = True) -> NoReturn:
        """Refuse to rename."""
        raise NotSupported(95, f"{self._store} cannot rename {path}: copy it, and remove the old one")

    def rename_all(self, paths: Sequence[tuple[str, str]], *, replace: bool = True) -> NoReturn:
        """Refuse a transaction of fsspec."""
        message = "has no transactions of fsspec: use Store.transaction of esker.zarr"
        raise NotSupported(95, f"{self._store} {message}")

    def set(self, path: str, **times: float | None) -> NoReturn:
        """Refuse to set times."""
        raise NotSupported(95, f"{self._store} keeps no times: {path} cannot be touched")

    def open(self, path: str, mode: str, buffering: int = -1) -> io.BytesIO:
        """Open a value for reading, or for replacing it at `close`."""
        if mode not in _MODES:
            raise NotSupported(95, f"{self._store}: {path} cannot be opened by mode {mode!r}: write it whole")
        if "r" in mode:
            return io.BytesIO(self._content(path))
        self._store._check_writable()
        return _Replacing(self._store, _key(path), "x" in mode)

    def open_file(self, path: str, mode: str = "r", *, permissions: int = 0o644) -> _Value:
        """Open a value for reading by offset; `w` as for fsspec's transactions is refused."""
        if mode != "r":
            self.rename_all([])
        return _Value(self._content(path))

    def cat_file(self, path: str, start: int | None, end: int | None) -> bytes:
        """The bytes of a value from `start` to `end`, all of the same value if it is replaced meanwhile."""
        begin = start or 0
        if begin < 0 or (end is not None and end <= begin):
            # Negative offsets count from the end, which the store would ask for separately.
            return self._content(path)[begin:end]
        return self._content(path, OffsetByteRequest(begin) if end is None else RangeByteRequest(begin, end))

    def _content(self, path: str, part: ByteRequest | None = None) -> bytes:
        """A value, or a part of it."""
        key = _key(path)
        found = self._store.get_sync(key, byte_range=part) if key else None
        if found is not None:
            return found.to_bytes()
        if self.stat(path)["type"] == "directory":
            raise IsDirectory(21, f"{self._store}: {path} is a directory")
        raise NotFound(2, f"{self._store} had no key {key!r} when it was read")


def _key(path: str) -> str:
    return path.strip("/")


class _Value:
    """A value, read by offset: as it was when it was opened."""

    def __init__(self, content: bytes) -> None:
        self._content = content

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *trouble: object) -> None:
        pass

    def size(self) -> int:
        return len(self._content)

    def read(self, begin: int, count: int) -> bytes:
        return self._content[begin : begin + count]

    def read_into(self, begin: int, buffer: Any) -> int:
        found = self.read(begin, len(buffer))
        buffer[: len(found)] = found
        return len(found)


class _Replacing(io.BytesIO):
    """A value that is stored at `close`, and not at all if an exception leaves its `with`."""

    def __init__(self, store: Store, key: str, exclusive: bool) -> None:
        super().__init__()
        self._store, self._key, self._exclusive = store, key, exclusive
        if exclusive and store.size_sync(key) is not None:
            raise self._exists()

    def _exists(self) -> Exists:
        return Exists(17, f"{self._store}: {self._key} already exists")

    def close(self) -> None:
        if self.closed:
            return
        try:
            self._store_content()
        finally:
            super().close()

    def _store_content(self) -> None:
        content = default_buffer_prototype().buffer.from_bytes(self.getvalue())
        if not self._exclusive:
            self._store.set_sync(self._key, content)
        elif not self._store._insert(self._key, content):
            raise self._exists()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            super().close()
        self.close()

    def __del__(self) -> None:
        super().close()

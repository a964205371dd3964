"""An fsspec file system: `esker://POOL/CONTAINER/path`, for pandas, zarr, torch and others.

POOL is a label, a UUID or `memory:NAME`. CONTAINER holds a file system (`esker cont create --type posix`,
or `mkdir` of `esker://POOL/CONTAINER`), or the hierarchy of an `esker.zarr.Store`, whose keys are the files.
Pools are searched in the directories of ESKER_POOLS.
"""

from __future__ import annotations

import contextlib
import posixpath
from datetime import datetime, timezone
from glob import has_magic
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from fsspec import AbstractFileSystem
from fsspec.utils import stringify_path

from . import FileSystem, Pool
from ._deferred import DeferredFile, EskerTransaction
from ._zarr_index import is_hierarchy
from .errors import Exists, Invalid, Loop, NotDirectory, NotFound, NotSupported, ReadOnly

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ._esker import _Mode
    from ._zarr_files import ZarrFiles

# Options that fsspec defines for every file system, and that libraries pass with those of the user.
_BASE_OPTIONS = {
    "asynchronous",
    "batch_size",
    "listings_expiry_time",
    "loop",
    "max_paths",
    "skip_instance_cache",
    "use_listings_cache",
}
# Size of the blocks in which files are copied, in bytes.
COPY_BYTES = 4 << 20


def _label(url: str) -> str:
    """The label of a pool in a listing: for a pool over nodes, the name of its map."""
    name = posixpath.basename(url)
    return name.removesuffix(".map") if url.startswith("nodes:") else name


def _refuse_unknown(options: Iterable[str]) -> None:
    """Raise if one of the options is not one of fsspec's own, so that a misspelt option is not ignored."""
    for name in options:
        if name not in _BASE_OPTIONS:
            known = "auto_mkdir, read_only and snapshot"
            raise TypeError(f"{name!r} is not a storage option of esker://, which are {known}")


def _names(path: str) -> list[str]:
    """The names of a path, without empty ones and dots."""
    return [name for name in path.split("/") if name not in ("", ".")]


def _outermost(paths: Iterable[str]) -> list[str]:
    """The paths that are not below another one of them."""
    known = {*paths}
    return [path for path in sorted(known) if not known.intersection(map(str, PurePosixPath(path).parents))]


class EskerFileSystem(AbstractFileSystem):
    """Files in containers of Esker, for reading and writing.

    With `auto_mkdir` (the default), missing parent directories of a new file are created. With
    `read_only`, nothing can be modified. `snapshot` (an epoch or a name) shows the files at that time.
    Other options, except those of every fsspec file system, are refused.
    """

    protocol = "esker"
    transaction_type = EskerTransaction
    root_marker = ""

    def __init__(
        self,
        auto_mkdir: bool = True,
        read_only: bool = False,
        snapshot: int | str | None = None,
        **storage_options: Any,
    ) -> None:
        """Set the options; nothing is opened yet."""
        _refuse_unknown(storage_options)
        super().__init__(auto_mkdir=auto_mkdir, read_only=read_only, snapshot=snapshot, **storage_options)
        self.auto_mkdir, self.read_only, self.snapshot = auto_mkdir, read_only, snapshot
        self._mounted: dict[tuple[str, str], FileSystem | ZarrFiles] = {}

    def _parts(self, path: str) -> tuple[str, str, str]:
        """Split a path into pool, container, and the path within it; missing parts are empty."""
        parts = self._strip_protocol(path).lstrip("/").split("/", 2)
        pool, container, inner = (*parts, "", "")[:3]
        return pool, container, inner

    @property
    def _mode(self) -> _Mode:
        """The mode in which pools are opened."""
        return "r" if self.read_only or self.snapshot is not None else "rw"

    def _mount(self, pool: str, container: str) -> FileSystem | ZarrFiles:
        if (pool, container) not in self._mounted:
            self._mounted[pool, container] = self._files(Pool(pool, self._mode), container)
        return self._mounted[pool, container]

    def _files(self, pool: Pool, container: str) -> FileSystem | ZarrFiles:
        """The file system in a container, or its zarr keys as files."""
        opened = pool.container(container)
        if is_hierarchy(opened):
            from ._zarr_files import ZarrFiles
            from .zarr import Store

            return ZarrFiles(Store(opened, read_only=self.read_only, at=self.snapshot))
        at = opened if self.snapshot is None else opened.at(self.snapshot)
        return FileSystem(at, self.read_only)

    def _locate(self, path: str) -> tuple[FileSystem | ZarrFiles, str]:
        """The file system of a path, and the path within it."""
        pool, container, inner = self._parts(path)
        if not container:
            raise NotFound(2, f"{path!r} has no container: use esker://POOL/CONTAINER/path")
        return self._mount(pool, container), f"/{inner}"

    def _make_parents(self, path: str) -> None:
        if self.auto_mkdir:
            files, inner = self._locate(path)
            files.mkdir(posixpath.dirname(inner), parents=True)

    def info(self, path: str, **kwargs: Any) -> dict[str, Any]:
        """Name, size in bytes, type and times of a path; links are followed."""
        path = self._strip_protocol(path)
        pool, container, _ = self._parts(path)
        if not container:
            # An error if there is no such pool.
            if pool:
                Pool(pool, "r").close()
            return {"name": path, "size": 0, "type": "directory"}
        files, inner = self._locate(path)
        return self._shown(path, files.stat(inner))

    @staticmethod
    def _shown(path: str, stat: Mapping[str, Any]) -> dict[str, Any]:
        size = stat["size"] if stat["type"] == "file" else 0
        return {**stat, "name": path, "size": size}

    def ls(self, path: str, detail: bool = True, **kwargs: Any) -> list[Any]:
        """The entries of a directory, sorted by name; for a file, its own entry."""
        path = self._strip_protocol(path)
        pool, container, _ = self._parts(path)
        if not pool:
            names = sorted(map(_label, Pool.list()))
            found = [{"name": name, "size": 0, "type": "directory"} for name in names]
        elif not container:
            found = self._containers(pool)
        else:
            found = self._entries(path)
        return found if detail else [entry["name"] for entry in found]

    @staticmethod
    def _containers(pool: str) -> list[dict[str, Any]]:
        names = sorted(known["label"] or known["uuid"] for known in Pool(pool, "r").containers())
        return [{"name": f"{pool}/{name}", "size": 0, "type": "directory"} for name in names]

    def _entries(self, path: str) -> list[dict[str, Any]]:
        """The entries of a directory in a container, or that of a file."""
        files, inner = self._locate(path)
        here = files.stat(inner)
        if here["type"] != "directory":
            return [self._shown(path, here)]
        entries = sorted(files.scandir(inner), key=lambda entry: entry[0])
        return [self._entry(files, inner, path, name, stat) for name, stat in entries]

    def _entry(
        self, files: FileSystem | ZarrFiles, inner: str, path: str, name: str, stat: Mapping[str, Any]
    ) -> dict[str, Any]:
        """An entry of the directory `inner`, which `path` names. A link to a file has those of the file."""
        if stat["type"] == "link":
            target = stat
            with contextlib.suppress(NotFound, NotDirectory, Loop):  # a link without a target
                target = files.stat(posixpath.join(inner, name))
            # A link to a directory stays a link, or fsspec would walk round in circles.
            stat = {**(target if target["type"] == "file" else stat), "islink": True}
        return self._shown(f"{path}/{name}", stat)

    def mkdir(self, path: str, create_parents: bool = True, **kwargs: Any) -> None:
        """Make a directory; `esker://POOL/CONTAINER` creates the container."""
        pool, container, inner = self._parts(path)
        if not inner:
            if self._mode == "r":
                raise ReadOnly(30, f"{path} cannot be created: this file system is read-only")
            Pool(pool).create_container(container, posix=True).close()
            return
        files, inner = self._locate(path)
        if files.exists(inner):
            raise Exists(17, f"{path} already exists")
        files.mkdir(inner, parents=create_parents)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        """Make a directory and its parents, in an existing container."""
        files, inner = self._locate(path)
        if not exist_ok and files.exists(inner):
            raise Exists(17, f"{path} already exists")
        files.mkdir(inner, parents=True)

    def rmdir(self, path: str) -> None:
        """Remove an empty directory."""
        files, inner = self._locate(path)
        files.rmdir(inner)

    def _rm(self, path: str) -> None:
        files, inner = self._locate(path)
        files.remove(inner)

    def rm_file(self, path: str) -> None:
        """Remove a file."""
        self._rm(path)

    def rm(self, path: str, recursive: bool = False, maxdepth: int | None = None) -> None:
        """Remove files and, if `recursive`, directories with their contents, or `maxdepth` levels of them.

        Links are removed, not followed.
        """
        if recursive and maxdepth is not None:
            self._remove_levels(path, maxdepth)
            return
        found = self.expand_path(path, maxdepth=maxdepth)
        for one in _outermost(found) if recursive else found:
            files, inner = self._locate(one)
            if not recursive:
                files.remove(inner)
            elif inner == "/":
                for name in files.listdir("/"):
                    files.remove_tree(f"/{name}")
            else:
                files.remove_tree(inner)

    def _remove_levels(self, path: str | list[str], maxdepth: int) -> None:
        """Remove entries down to the depth of fsspec's `walk`, and directories that are then empty."""
        if maxdepth < 1:
            raise ValueError("maxdepth must be at least 1")
        levels = {
            # The names that a pattern matches are a level of their own.
            one: maxdepth - has_magic(given)
            for given in (path if isinstance(path, list) else [stringify_path(path)])
            for one in self.expand_path(given, maxdepth=maxdepth)
        }
        # Entries come before the directories that they are in.
        for one in sorted(levels, reverse=True):
            self._remove_entry(*self._locate(one), levels[one])

    def _remove_entry(self, files: FileSystem | ZarrFiles, path: str, levels: int) -> None:
        """Remove a file, or some levels below a directory, and the directory if it is then empty."""
        if files.stat(path, follow=False)["type"] != "directory":
            files.remove(path)
            return
        for name in files.listdir(path) if levels else []:
            self._remove_entry(files, posixpath.join(path, name), levels - 1)
        # A directory of a zarr store is gone with its last key.
        with contextlib.suppress(NotFound):
            if path != "/" and not files.listdir(path):
                files.rmdir(path)

    @staticmethod
    def _is_same(here: Mapping[str, Any], old: str, files: FileSystem | ZarrFiles, new: str) -> bool:
        """Whether `new` leads to the file at `old` with the attributes `here`, in the same container."""
        if old.strip("/") == new.strip("/"):
            return True
        try:
            # The values of a zarr store have no numbers.
            return "ino" in here and files.stat(new)["ino"] == here["ino"]
        except (NotFound, NotDirectory, Loop):
            return False

    def cp_file(self, path1: str, path2: str, *, kept: list[str] | None = None, **kwargs: Any) -> None:
        """Copy a file; for a directory, make a directory. If both are the same, add it to `kept`."""
        (source, old), (target, new) = self._locate(path1), self._locate(path2)
        here = source.stat(old)
        if source is target and self._is_same(here, old, target, new):
            if kept is not None:
                kept.append(path2)
            return
        if here["type"] == "directory":
            target.mkdir(new, parents=True)
            return
        piece = memoryview(bytearray(COPY_BYTES))
        writer: Any
        with source.open_file(old) as reader, self.open(path2, "wb", 0) as writer:
            at = 0
            while count := reader.read_into(at, piece):
                at += writer.write(piece[:count])

    def mv(
        self, path1: str, path2: str, recursive: bool = False, maxdepth: int | None = None, **kwargs: Any
    ) -> None:
        """Move a file or directory: atomically within a container, otherwise by copying."""
        (source, old), (target, new) = self._locate(path1), self._locate(path2)
        if source is target:
            if _names(old) == _names(new):
                source.stat(old, follow=False)
                return
            for one in self.expand_path(path1) if has_magic(old) else [path1]:
                self._expect_outside(source, self._locate(one)[1], new)
        is_one = source is target and not has_magic(old)
        if is_one and not self.isdir(path2):
            self._make_parents(path2)
            source.rename(old, new)
            return
        inside = posixpath.join(new, posixpath.basename(old))
        is_whole = is_one and isinstance(source, FileSystem) and maxdepth is None and path1[-1:] != "/"
        if is_whole and not source.exists(inside):
            source.rename(old, inside, replace=False)
            return
        kept: list[str] = []
        self.copy(path1, path2, recursive=recursive, maxdepth=maxdepth, on_error="raise", kept=kept, **kwargs)
        # Files that are there already have not moved, and must not be removed.
        if not kept:
            self.rm(path1, recursive=recursive, maxdepth=maxdepth)

    def _expect_outside(self, files: FileSystem | ZarrFiles, old: str, new: str) -> None:
        """Refuse to move a directory into itself, also through a link: its removal would remove the copy."""
        here, names = files.stat(old, follow=False), _names(new)
        if here["type"] != "directory":
            return
        for count in range(len(names) + 1):
            if self._is_same(here, old, files, "/" + "/".join(names[:count])):
                raise Invalid(22, f"{old} cannot be moved to {new}: that is the same directory, or below it")

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | str | None = None,
        autocommit: bool = True,
        cache_options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Any:
        if "r" not in mode:
            self._make_parents(path)
        files, inner = self._locate(path)
        if not autocommit and "r" not in mode:
            return self._deferred(files, inner, mode)
        if not autocommit and "+" in mode:
            raise ValueError(f"{path}: a file cannot be changed in place in a transaction: write it whole")
        return files.open(inner, mode, block_size if isinstance(block_size, int) else -1)

    @staticmethod
    def _deferred(files: FileSystem | ZarrFiles, path: str, mode: str) -> DeferredFile:
        """A file that appears at the end of a transaction of fsspec."""
        return DeferredFile(files, path, mode) if isinstance(files, FileSystem) else files.rename_all([])

    def touch(self, path: str, truncate: bool = True, **kwargs: Any) -> None:
        """Create an empty file; empty an existing one, or with `truncate=False` only update its time."""
        self.open(path, "wb" if truncate else "ab").close()
        if not truncate and not self._intrans:
            files, inner = self._locate(path)
            files.set(inner, mtime=datetime.now().timestamp())

    def cat_file(self, path: str, start: int | None = None, end: int | None = None, **kwargs: Any) -> bytes:
        """The bytes of a file from `start` to `end` (negative values count from the end)."""
        files, inner = self._locate(path)
        if not isinstance(files, FileSystem):
            return files.cat_file(inner, start, end)
        with files.open_file(inner) as file:
            begin, stop, _ = slice(start, end).indices(file.size())
            return file.read(begin, max(0, stop - begin))

    def modified(self, path: str) -> datetime:
        """The time of the last modification of a file's content."""
        shown = self.info(path)
        if "mtime" not in shown:
            raise NotSupported(95, f"{path} has no time: zarr stores and lists of containers keep none")
        return datetime.fromtimestamp(shown["mtime"], tz=timezone.utc)

    created = modified

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(one) for one in path]
        path = stringify_path(path)
        return path.removeprefix("esker://").removeprefix("esker:").rstrip("/")

"""Storage of torch.distributed.checkpoint in containers with files."""

from __future__ import annotations

import contextlib
import dataclasses
import pickle
from typing import IO, TYPE_CHECKING, Any

from torch.distributed.checkpoint import FileSystemReader, FileSystemWriter
from torch.distributed.checkpoint.filesystem import FileSystemBase

from .. import FileSystem
from .._replacing import remove
from .._samples import file_system
from ..errors import NotFound

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator

    from torch.distributed.checkpoint.metadata import Metadata
    from torch.distributed.checkpoint.planner import SavePlan
    from torch.distributed.checkpoint.storage import WriteResult

    from .._esker import _Mode

METADATA = ".metadata"
DATA = ".distcp"
# Size of the buffer of a file in bytes.
BUFFER_BYTES = 1 << 20


class _Files(FileSystemBase):
    """The file system for torch. Paths are `esker://POOL/CONTAINER/path`, or paths within `files`."""

    def __init__(self, files: FileSystem | None, mode: _Mode) -> None:
        self._given = files
        self._mode: _Mode = mode

    @property
    def _files(self) -> FileSystem:
        if self._given is None:
            raise ValueError("no container: use esker://POOL/CONTAINER/path, or give files=")
        return self._given

    def init_path(self, path: Any) -> str:
        """The path within the container. A URL also names the container, which is opened."""
        if str(path).startswith("esker://"):
            self._given, path = file_system(path, self._mode)
        elif self._given is None:
            raise ValueError(f"{path!r} is in no container: use esker://POOL/CONTAINER/path, or give files=")
        return "/" + str(path).strip("/")

    @contextlib.contextmanager
    def create_stream(self, path: Any, mode: str) -> Iterator[IO[Any]]:
        with self._files.open(path, mode, BUFFER_BYTES) as stream:
            yield stream

    def concat_path(self, path: Any, suffix: str) -> str:
        return f"{path.rstrip('/')}/{suffix}"

    def rename(self, path: Any, new_path: Any) -> None:
        self._files.rename(path, new_path)

    def mkdir(self, path: Any) -> None:
        self._files.mkdir(path, parents=True)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return str(checkpoint_id).startswith("esker://")

    def exists(self, path: Any) -> bool:
        return self._files.exists(path)

    def rm_file(self, path: Any) -> None:
        # torch removes the old metadata before it renames the new one, which replaces it in one step.
        if not path.endswith(METADATA):
            self._files.remove(path)

    def sweep(self, folder: str) -> None:
        """Remove the data files of a folder that its checkpoint does not use."""
        used, names = set(), self._files.listdir(folder)
        with contextlib.suppress(NotFound), self.create_stream(f"{folder}/{METADATA}", "rb") as stream:
            stored = pickle.load(stream).storage_data or {}
            used = {where.relative_path for where in stored.values()}
        for name in names:
            if name.endswith(DATA) and name not in used:
                remove(self._files, f"{folder}/{name}")


class CheckpointWriter(FileSystemWriter):
    """A writer of distributed checkpoints that ends with a commit.

    `path` is `esker://POOL/CONTAINER/folder`, or a folder of the FileSystem `files`. Until all ranks have
    stored their part, the folder has its old checkpoint; then the new one replaces it atomically. A killed
    save leaves the old checkpoint, and the next save removes the files of the killed one. Other options are
    those of torch's FileSystemWriter. Only one save to a folder may run at a time.
    """

    def __init__(
        self, path: str | os.PathLike[str], *, files: FileSystem | None = None, **options: Any
    ) -> None:
        """Open the container; nothing is written yet."""
        super().__init__(path, **{**options, "sync_files": False})
        self.fs = _Files(files, "rw")
        self.path = self.fs.init_path(path)

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """Give each rank names that no other save has, and remove the files of killed saves."""
        plans = super().prepare_global_plan(plans)
        self._sweep()
        return [dataclasses.replace(plan, storage_data=self._own(plan.storage_data)) for plan in plans]

    def _own(self, where: Any) -> Any:
        return dataclasses.replace(where, prefix=f"__{self.save_id}{where.prefix}")

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """Commit: replace the metadata. Afterwards nothing refers to the files of the old checkpoint."""
        super().finish(metadata, results)
        self._sweep()

    def _sweep(self) -> None:
        # Without collective calls each rank has its own metadata, and no rank knows which ranks still write.
        if getattr(self, "use_collectives", True):
            self.fs.sweep(self.path)

    def _metadata_exists(self) -> bool:
        """Whether a checkpoint exists that must not be replaced. If it may be replaced, torch warns."""
        return not self.overwrite and super()._metadata_exists()

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """Whether it is a path that begins with `esker://`."""
        return _Files.validate_checkpoint_id(checkpoint_id)


class CheckpointReader(FileSystemReader):
    """A reader of distributed checkpoints; `path` and `files` are those of CheckpointWriter.

    A load during the end of a save may find files missing and fail: load again.
    """

    def __init__(self, path: str | os.PathLike[str], *, files: FileSystem | None = None) -> None:
        """Open the container; nothing is read yet."""
        super().__init__(path)
        self.fs = _Files(files, "r")
        self.path = self.fs.init_path(path)

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """Whether it is a path that begins with `esker://`."""
        return _Files.validate_checkpoint_id(checkpoint_id)

"""Datasets and checkpoints for PyTorch, as DAOS's `pydaos.torch` has them, over containers with files.

    from pydaos.torch import Checkpoint, Dataset

    with Dataset("tank", "samples", path="/train", transform_fn=decode) as dataset:
        loader = DataLoader(dataset, batch_size=16, num_workers=4, worker_init_fn=dataset.worker_init)

`esker.torch` has more: Key-Values and Arrays, shuffling by seed, and resuming.
"""

from __future__ import annotations

import io
import os
import posixpath
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, SupportsIndex, overload

try:
    from torch.utils.data import Dataset as _Dataset
    from torch.utils.data import IterableDataset as _IterableDataset
    from torch.utils.data import get_worker_info
except ImportError as _error:
    raise ImportError("pydaos.torch needs PyTorch: pip install torch") from _error

from .. import FileSystem, Pool
from .._replacing import ReplacingFile, make_folder_of
from .._samples import FileSamples

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from .._esker import _Mode

__all__ = ["Checkpoint", "Dataset", "IterableDataset", "WriteBuffer"]

DEFAULT_CHUNK_SIZE = 64 << 20
_MODE = stat.S_IFREG | 0o644


def _files(pool: str | None, cont: str | None, mode: _Mode) -> FileSystem:
    if pool is None or cont is None:
        raise ValueError("a pool and a container are required: labels or UUIDs")
    return FileSystem(Pool(pool, mode).container(cont), mode == "r")


class _Objects(Sequence[tuple[str, int]]):
    """Path and size of each sample."""

    def __init__(self, samples: FileSamples) -> None:
        self._samples = samples

    def __len__(self) -> int:
        return len(self._samples)

    @overload
    def __getitem__(self, index: SupportsIndex) -> tuple[str, int]: ...

    @overload
    def __getitem__(self, index: slice) -> list[tuple[str, int]]: ...

    def __getitem__(self, index: SupportsIndex | slice) -> tuple[str, int] | list[tuple[str, int]]:
        if isinstance(index, slice):
            return [self[at] for at in range(*index.indices(len(self)))]
        number = range(len(self))[index]
        return self._samples.key(number), self._samples.size(number)


class _Closing:
    """Base of objects with `close`. Esker's handles need no end, but a closed object has no samples."""

    _closed = False

    def close(self) -> None:
        """Release the container. Closing twice is not an error."""
        self._closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _FileDataset(_Closing):
    """The files below a folder, as bytearrays given to a function."""

    def __init__(
        self,
        pool: str | None,
        cont: str | None,
        path: str | None,
        transform_fn: Callable[[bytearray], Any] | None,
    ) -> None:
        path = "/" if path is None else path
        if not path.startswith("/"):
            raise ValueError(f"path {path!r} is relative: begin it with /")
        # A closed dataset has None in their place.
        self._samples: Any = FileSamples(_files(pool, cont, "r"), path)
        self._transform_fn = transform_fn
        self.objects: Any = _Objects(self._samples)

    def __len__(self) -> int:
        return len(self._samples)

    def worker_init(self, worker_id: int) -> None:
        """Do nothing: unlike DAOS's, Esker's handles work in forked and spawned workers."""

    def close(self) -> None:
        """Release the container and the list of samples."""
        super().close()
        self._samples = self.objects = None

    def _read(self, numbers: Sequence[int]) -> list[Any]:
        read = self._samples.read(numbers)
        return read if self._transform_fn is None else list(map(self._transform_fn, read))


class Dataset(_FileDataset, _Dataset):
    """The files of a container, or below `path`, by number.

    `transform_fn` is called with each as a bytearray.

    The other arguments tune how DAOS lists folders. Here they are accepted and have no effect.
    """

    def __init__(
        self,
        pool: str | None = None,
        cont: str | None = None,
        path: str | None = None,
        transform_fn: Callable[[bytearray], Any] | None = None,
        readdir_batch_size: int | None = None,
        dir_cache_size: int | None = None,
        readdir_workers: int | None = None,
    ) -> None:
        """List the files."""
        super().__init__(pool, cont, path, transform_fn)

    def __getitem__(self, idx: int) -> Any:
        return self._read([range(len(self))[idx]])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """The samples of a batch, read in parallel where that is faster."""
        return self._read(indices)


class IterableDataset(_FileDataset, _IterableDataset):
    """The files of a container, or below `path`, in order.

    `transform_fn` is called with each as a bytearray. `batch_size` files are read together. Workers of a
    DataLoader share the files, even without `worker_init`. The other arguments tune how DAOS lists
    folders. Here they are accepted and have no effect.
    """

    def __init__(
        self,
        pool: str | None = None,
        cont: str | None = None,
        path: str | None = None,
        transform_fn: Callable[[bytearray], Any] | None = None,
        readdir_batch_size: int | None = None,
        batch_size: int = 32,
        dir_cache_size: int | None = None,
        readdir_workers: int | None = None,
    ) -> None:
        """List the files."""
        super().__init__(pool, cont, path, transform_fn)
        self._batch_size = batch_size

    def __iter__(self) -> Iterator[Any]:
        # Each worker reads one range of the samples, which may be shorter for the last.
        worker, count = get_worker_info(), len(self)
        share = -(-count // worker.num_workers) if worker else count
        begin = share * worker.id if worker else 0
        mine = range(begin, min(begin + share, count))
        for at in range(0, len(mine), self._batch_size):
            yield from self._read(mine[at : at + self._batch_size])


class WriteBuffer(ReplacingFile):
    """A checkpoint that is being written: a file that appears, or replaces the old one, when it is closed."""


class Checkpoint(_Closing):
    """Checkpoints as files of a container, below `prefix`.

    `mode` has the permissions of new files; `transfer_chunk_size` is the number of bytes collected in
    memory, with 0 all until the end. The other arguments tune DAOS's writer processes and object classes.
    Here they are accepted and have no effect.
    """

    def __init__(
        self,
        pool: str | None,
        cont: str | None,
        prefix: str = "/",
        mode: int = _MODE,
        open_flags: int = os.O_CREAT | os.O_RDWR,
        class_name: str = "OC_UNKNOWN",
        file_chunk_size: int = 0,
        transfer_chunk_size: int = DEFAULT_CHUNK_SIZE,
        chunks_limit: int = 0,
        workers: int = 4,
    ) -> None:
        """Open the container."""
        self._files = _files(pool, cont, "rw")
        self._prefix, self._mode, self._chunk = prefix, stat.S_IMODE(mode), transfer_chunk_size

    def reader(self, file: str, stream: BinaryIO | None = None) -> BinaryIO:
        """The content of a checkpoint as a BytesIO, or written into `stream`, at its beginning."""
        stream = io.BytesIO() if stream is None else stream
        with self._files.open_file(self._path(file)) as stored:
            at, size = 0, stored.size()
            while at < size:
                chunk = stored.read(at, min(self._chunk or size, size - at))
                if not chunk:
                    raise OSError(f"{file} was truncated to {at} bytes while it was read")
                stream.write(chunk)
                at += len(chunk)
        stream.seek(0)
        return stream

    def writer(self, file: str, ensure_path: bool = True) -> WriteBuffer:
        """A WriteBuffer for a checkpoint; with `ensure_path`, missing folders are created."""
        path = self._path(file)
        if ensure_path:
            make_folder_of(self._files, path)
        return WriteBuffer(self._files, path, permissions=self._mode, buffer_bytes=self._chunk)

    def _path(self, file: str) -> str:
        if file is None:
            raise ValueError("the name of a checkpoint is required")
        return posixpath.join("/", self._prefix, file)

"""Samples to learn from: values of a Key-Value, cells of an Array, rows of a tensor, files of a folder.

Names and sizes are packed: Python objects would be copied into each forked worker when their reference counts
change.
"""

from __future__ import annotations

import operator
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, Union

from . import Array, FileSystem, Kv, Pool, Tensor
from ._parallel import each
from .errors import Invalid

if TYPE_CHECKING:
    from ._esker import _Mode, _NumpyArray

# A run of neighbouring cells is read at once up to this many bytes.
RUN_BYTES = 4 << 20


class Packed(Sequence[bytes]):
    """A sequence of byte strings in one piece of memory."""

    def __init__(self, strings: Iterable[bytes]) -> None:
        """Pack the strings."""
        self._ends, packed = array("Q"), bytearray()
        for string in strings:
            packed += string
            self._ends.append(len(packed))
        self._bytes = bytes(packed)

    def __len__(self) -> int:
        return len(self._ends)

    def __getitem__(self, index: int) -> bytes:  # type: ignore[override]
        begin = self._ends[index - 1] if index else 0
        return self._bytes[begin : self._ends[index]]


class Samples(Sequence[Any]):
    """Samples by number. `read` returns many at once; `key` names one."""

    def __getitem__(self, index: SupportsIndex) -> Any:  # type: ignore[override]
        number = operator.index(index)
        if not -len(self) <= number < len(self):
            raise IndexError(f"sample {number} of {len(self)}")
        return self.read([number % len(self)])[0]

    def key(self, number: int) -> Any:
        """The name of a sample."""
        raise NotImplementedError

    def read(self, numbers: Sequence[int]) -> Sequence[Any]:
        """The samples with these numbers, in their order, as bytes or bytearrays."""
        raise NotImplementedError


class KvSamples(Samples):
    """The values of a Key-Value, sorted by key. Keys are those at the time of creation."""

    def __init__(self, kv: Kv) -> None:
        """List the keys."""
        self._kv, keys = kv, sorted(kv)
        whole = bool(keys) and isinstance(keys[0], int)
        self._keys = array("Q", keys) if whole else Packed(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def key(self, number: int) -> bytes | int:
        """The key of a sample: bytes, or a number."""
        return self._keys[number]

    def read(self, numbers: Sequence[int]) -> list[bytes]:
        """The values with these numbers, as bytes."""
        keys = [self._keys[number] for number in numbers]
        return each(self._kv.container.pool, self._kv.__getitem__, keys)


class ArraySamples(Samples):
    """The cells of an Array. Their number is that at the time of creation."""

    def __init__(self, cells: Array) -> None:
        """Ask for the number of cells."""
        self._array, self._count = cells, cells.size()

    def __len__(self) -> int:
        return self._count

    def key(self, number: int) -> int:
        """The number itself."""
        return number

    def read(self, numbers: Sequence[int]) -> list[bytearray]:
        """The cells with these numbers, as bytearrays; neighbours are read at once."""
        size = self._array.cell_size
        found = each(self._array.container.pool, self._run, _runs(numbers, max(1, RUN_BYTES // size)))
        return [run[at : at + size] for run in found for at in range(0, len(run), size)]

    def _run(self, run: tuple[int, int]) -> bytearray:
        """Read a run, given by its first cell and the number of cells."""
        begin, count = run
        cells = bytearray(count * self._array.cell_size)
        self._array.read_into(begin, cells)
        return cells


def _runs(numbers: Iterable[int], longest: int) -> list[tuple[int, int]]:
    """Begin and length of the runs of successive numbers, each of at most `longest` numbers."""
    runs: list[tuple[int, int]] = []
    for number in numbers:
        # The sum of begin and length is the number after a run.
        if runs and number == sum(runs[-1]) and runs[-1][1] < longest:
            runs[-1] = (runs[-1][0], runs[-1][1] + 1)
        else:
            runs.append((number, 1))
    return runs


class TensorSamples(Samples):
    """The slices of a tensor along its first dimension. A tensor never changes."""

    def __init__(self, tensor: Tensor) -> None:
        """Take the number of samples from the shape."""
        self._tensor, self._count = tensor, len(tensor)
        self._longest = max(1, RUN_BYTES * self._count // max(1, tensor.nbytes))
        self._pool = Pool(tensor.store.name.rpartition("/")[0], "r")

    def __len__(self) -> int:
        return self._count

    def key(self, number: int) -> int:
        """The number itself."""
        return number

    def read(self, numbers: Sequence[int]) -> list[_NumpyArray]:
        """The samples with these numbers, as arrays of numpy; neighbours are read at once."""
        found = each(self._pool, self._run, _runs(numbers, self._longest))
        return [sample for run in found for sample in run]

    def _run(self, run: tuple[int, int]) -> _NumpyArray:
        """Read a run, given by its first sample and the number of samples."""
        begin, count = run
        samples: _NumpyArray = self._tensor[begin : begin + count]
        return samples


class FileSamples(Samples):
    """The files below a folder, sorted by path. Paths and sizes are those at the time of creation."""

    def __init__(self, files: FileSystem, folder: str = "/") -> None:
        """List the files in all folders below; links are left out."""
        self._files = files
        found = sorted(_walk(files, folder.rstrip("/")))
        self._paths = Packed(path for path, _ in found)
        self._sizes = array("Q", (size for _, size in found))

    def __len__(self) -> int:
        return len(self._sizes)

    def key(self, number: int) -> str:
        """The path of a file."""
        return self._paths[number].decode(errors="surrogateescape")

    def size(self, number: int) -> int:
        """The size of a file in bytes."""
        return self._sizes[number]

    def read(self, numbers: Sequence[int]) -> list[bytearray]:
        """The contents of the files with these numbers, as bytearrays."""
        return each(self._files.container.pool, self._content, numbers)

    def _content(self, number: int) -> bytearray:
        """The content of a file; shorter than its size if it was truncated meanwhile."""
        content = bytearray(self._sizes[number])
        with self._files.open_file(self.key(number)) as file:
            count = file.read_into(0, content)
        return content[:count] if count < len(content) else content


def _walk(files: FileSystem, folder: str) -> Iterator[tuple[bytes, int]]:
    """Paths and sizes of the files below a folder."""
    folders = [folder]
    while folders:
        here = folders.pop()
        for name, stat in files.scandir(here or "/"):
            path = f"{here}/{name}"
            if stat["type"] == "directory":
                folders.append(path)
            elif stat["type"] == "file":
                yield path.encode(errors="surrogateescape"), stat["size"]


def file_system(url: str | os.PathLike[str], mode: _Mode = "r") -> tuple[FileSystem, str]:
    """The file system and the path of `esker://POOL/CONTAINER/path`."""
    scheme, _, rest = str(url).partition("://")
    pool, container, path = (*rest.split("/", 2), "", "", "")[:3]
    if scheme != "esker" or not container:
        raise Invalid(22, f"{url!r} has no container: use esker://POOL/CONTAINER/path")
    opened = Pool(pool, mode).container(container)
    return FileSystem(opened, mode == "r"), f"/{path}"


# Sources of samples: see `samples_of`.
Source = Union[Samples, Kv, Array, Tensor, FileSystem, str]


def samples_of(source: Source) -> Samples:
    """The samples of a Key-Value, an Array, a Tensor, a FileSystem, or a folder `esker://POOL/CONTAINER/path`."""
    kinds: dict[type, Callable[[Any], Samples]] = {
        Kv: KvSamples,
        Array: ArraySamples,
        Tensor: TensorSamples,
        FileSystem: FileSamples,
    }
    if isinstance(source, Samples):
        return source
    if type(source) in kinds:
        return kinds[type(source)](source)
    if isinstance(source, str):
        return FileSamples(*file_system(source))
    kind = type(source).__name__
    raise TypeError(
        f"{kind} has no samples: use a Kv, an Array, a Tensor, a FileSystem or esker://POOL/CONTAINER/path"
    )

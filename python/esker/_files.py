"""Files with a position, like Python's own: the result of `FileSystem.open`."""

from __future__ import annotations

import io
from typing import IO, TYPE_CHECKING, Any, cast

from ._esker import FileSystem

if TYPE_CHECKING:
    from typing_extensions import Buffer

    from ._esker import File, _Path

# Default size of a buffer in bytes.
BUFFER_BYTES = 64 << 10


class RawFile(io.RawIOBase):
    """An open unbuffered file with a position."""

    def __init__(self, files: FileSystem, file: File, name: _Path, mode: str) -> None:
        """Start at the end of a file opened for appending, otherwise at its beginning."""
        self._files, self._file, self.name, self.mode = files, file, name, mode
        self._at = file.size() if "a" in mode else 0

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self._file.size()

    def readable(self) -> bool:
        """Return whether it is open for reading."""
        return self._file.readable

    def writable(self) -> bool:
        """Return whether it is open for writing."""
        return self._file.writable

    def seekable(self) -> bool:
        """Return True: it has a position."""
        self._check()
        return True

    def readinto(self, buffer: Buffer) -> int:
        """Fill a buffer from the current position; only at the end of the file with fewer bytes."""
        self._check()
        count = self._file.read_into(self._at, buffer)
        self._at += count
        return count

    def readall(self) -> bytes:
        """Return everything from the current position to the end."""
        self._check()
        found = self._file.read(self._at, max(0, self._file.size() - self._at))
        self._at += len(found)
        return found

    def write(self, buffer: Buffer) -> int:
        """Write all of a buffer at the current position."""
        self._check()
        self._at = self._file.write(self._at, buffer)
        return memoryview(buffer).nbytes

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Set the position, relative to the beginning, the current position, or the end."""
        self._check()
        if whence not in (io.SEEK_SET, io.SEEK_CUR, io.SEEK_END):
            raise ValueError(f"{self.name}: whence {whence}: it must be 0, 1 or 2")
        begin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at}
        at = (begin[whence] if whence in begin else self._file.size()) + offset
        if at < 0:
            raise ValueError(f"{self.name}: position {at} is before the beginning of the file")
        self._at = at
        return at

    def tell(self) -> int:
        """Return the position in bytes."""
        self._check()
        return self._at

    def truncate(self, size: int | None = None) -> int:
        """Truncate or extend it to `size` bytes, by default to the current position."""
        self._check()
        size = self._at if size is None else size
        self._file.set_size(size)
        return size

    def close(self) -> None:
        """Close it. Closing it twice is not an error."""
        if not self.closed:
            try:
                super().close()
            finally:
                self._file.close()

    def _check(self) -> None:
        if self.closed:
            raise ValueError(f"{self.name}: I/O operation on closed file")

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Pickle by path and position, if it is open for reading only."""
        return _reopen, (*_opening(self, self), 0, self.tell())


if TYPE_CHECKING:
    _BufferedReader = io.BufferedReader[RawFile]
else:
    _BufferedReader = io.BufferedReader


class Reader(_BufferedReader):
    """A file open for reading, which pickles by path and position."""

    @property
    def size(self) -> int:
        """Its size in bytes."""
        return self.raw.size

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Pickle by path and position."""
        return _reopen, (*_opening(self, self.raw), -1, self.tell())


class TextReader(io.TextIOWrapper):
    """A text file open for reading, which pickles by path and position."""

    def __init__(
        self,
        buffer: Reader,
        encoding: str | None,
        errors: str | None,
        newline: str | None,
        line_buffering: bool,
    ) -> None:
        """Take the arguments of TextIOWrapper."""
        super().__init__(buffer, encoding, errors, newline, line_buffering)
        self._newline = newline

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        """Pickle by path and position."""
        how = (-1, self.tell(), self.encoding, self.errors, self._newline)
        return _reopen, (*_opening(self, cast("Reader", self.buffer).raw), *how)


def _opening(file: RawFile | Reader | TextReader, raw: RawFile) -> tuple[FileSystem, _Path, str]:
    """The arguments of `_reopen` that open a file again."""
    if file.closed or raw.writable():
        state = "closed" if file.closed else "open for writing, and others cannot write at its position"
        raise TypeError(
            f"{raw.name}: a file that is {state} cannot be pickled: pickle the FileSystem and its path"
        )
    return raw._files, raw.name, file.mode


def _reopen(files: FileSystem, path: _Path, mode: str, buffering: int, position: int, *how: Any) -> IO[Any]:
    """Open a file at the position of another process."""
    file = files.open(path, mode, buffering, *how)
    file.seek(position)
    return file


def _open(
    self: FileSystem,
    path: _Path,
    mode: str = "r",
    buffering: int = -1,
    encoding: str | None = None,
    errors: str | None = None,
    newline: str | None = None,
) -> IO[Any]:
    """Open a file like Python's own `open`, with the same arguments."""
    text, binary = "t" in mode or "b" not in mode, mode.replace("t", "").replace("b", "")
    if text and "b" in mode:
        raise ValueError("text and binary mode exclude each other: use one of t and b")
    for name, given in (("encoding", encoding), ("errors", errors), ("newline", newline)):
        if given is not None and not text:
            raise ValueError(f"binary mode takes no {name}: use text mode")
    raw = RawFile(self, self.open_file(path, binary), path, mode)
    if buffering == 0:
        if text:
            raw.close()
            raise ValueError("text mode needs a buffer: use binary mode for unbuffered I/O")
        return cast("IO[Any]", raw)
    size = BUFFER_BYTES if buffering in (-1, 1) else buffering
    buffered: Any
    if "+" in mode:
        buffered = io.BufferedRandom(raw, size)
    else:
        buffered = Reader(raw, size) if binary == "r" else io.BufferedWriter(raw, size)
    if not text:
        return cast("IO[Any]", buffered)
    kind = TextReader if binary == "r" else io.TextIOWrapper
    wrapped = kind(buffered, encoding, errors, newline, buffering == 1)
    wrapped.mode = mode  # type: ignore[misc]  # as Python's own `open` does
    return wrapped


def complete() -> None:
    """Add `open` to FileSystem."""
    _open.__name__, _open.__qualname__ = "open", "FileSystem.open"
    setattr(FileSystem, _open.__name__, _open)

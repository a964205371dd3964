"""Files that appear completely or not at all."""

from __future__ import annotations

import contextlib
import io
import os
import posixpath
import re
import secrets
import time
from typing import TYPE_CHECKING

from .errors import NoHandle, NotFound

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Buffer

    from ._esker import FileSystem


# Ending of the name of a file that is being written.
PART = ".part"
# Time in seconds without a write after which such a file counts as that of a killed writer.
_LEFT_OVER_SECONDS = 24 * 3600


class ReplacingFile(io.BufferedIOBase):
    """A file for writing that replaces another at `close`: readers see the old one or the new one.

    Bytes are collected in memory up to `buffer_bytes`; with 0, until `close`. If an exception leaves its
    `with`, the old file stays. Of several writers of one file, the last that closes it wins. A killed process
    leaves a file with the ending `.part`. After a day, a writer that replaces the same file removes it. A
    child created by fork can only close its copy, which changes nothing.
    """

    def __init__(
        self,
        files: FileSystem,
        path: str,
        *,
        permissions: int = 0o644,
        buffer_bytes: int = 4 << 20,
        part: str | None = None,
    ) -> None:
        """Begin a file; its folder has to exist. `part` is its name until it is closed."""
        self._files, self.name, self._limit = files, path, buffer_bytes
        # Removal lists the folder. For new files that would be too slow: each would list all before it.
        if part is None and files.exists(path):
            _remove_left_over(files, path)
        # Writers of the same file must not write to the same part.
        self.part, self.is_stored = part or f"{path}.{secrets.token_hex(8)}{PART}", True
        self._process = os.getpid()
        self._file = files.open_file(self.part, "w", permissions=permissions)
        self._buffer, self._stored = bytearray(), 0

    def writable(self) -> bool:
        """Return True: it is writable."""
        return True

    def write(self, data: Buffer) -> int:
        """Append bytes, and return their number."""
        self._check()
        if os.getpid() != self._process:
            began = f"process {self._process} began it, and this one is a copy made by fork"
            raise NoHandle(9, f"{self.name} cannot be written: {began}: open the file here")
        # Without a limit, everything is buffered until the file is closed.
        with memoryview(data) as view, view.cast("B") as content:
            if self._limit and len(self._buffer) + len(content) >= self._limit:
                self._store()
            if self._limit and len(content) >= self._limit:
                self._stored = self._file.write(self._stored, content)
            else:
                self._buffer += content
            return len(content)

    def tell(self) -> int:
        """Return the number of bytes written."""
        self._check()
        return self._stored + len(self._buffer)

    def flush(self) -> None:
        """Do nothing: before `close`, the file is not visible."""
        self._check()

    def close(self) -> None:
        """Store the buffered bytes, and replace the old file."""
        if self.closed:
            return
        if os.getpid() != self._process:
            self.discard()
            return
        try:
            self._store()
            self._file.sync()
            self._file.close()
            self._finish()
        except BaseException:
            self.discard()
            raise
        super().close()

    def _finish(self) -> None:
        """Replace the old file."""
        self._files.rename(self.part, self.name)
        self.is_stored = False

    def discard(self) -> None:
        """Discard the written bytes; the old file stays."""
        if os.getpid() != self._process:
            # The file belongs to the process that began it.
            self.is_stored = False
            super().close()
            return
        if not self.closed:
            super().close()
            self._file.close()
        if self.is_stored:
            self.is_stored = False
            remove(self._files, self.part)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Replace the old file, unless an exception leaves the block."""
        self.close() if kind is None else self.discard()

    def __del__(self) -> None:
        """Discard a file that was not closed."""
        if hasattr(self, "_buffer"):
            self.discard()

    def _store(self) -> None:
        if self._buffer:
            self._stored = self._file.write(self._stored, self._buffer)
            self._buffer = bytearray()

    def _check(self) -> None:
        if self.closed:
            raise ValueError(f"{self.name}: I/O operation on closed file")


def remove(files: FileSystem, path: str) -> None:
    """Remove a file, if it exists."""
    with contextlib.suppress(NotFound):
        files.remove(path)


def _remove_left_over(files: FileSystem, path: str) -> None:
    """Remove the parts of a file that killed writers have left."""
    folder, name = posixpath.split(path)
    pattern = re.compile(rf"{re.escape(name)}\.[0-9a-f]{{16}}{re.escape(PART)}")
    latest = time.time() - _LEFT_OVER_SECONDS
    for part in filter(pattern.fullmatch, files.listdir(folder)):
        # Another writer may be faster.
        with contextlib.suppress(NotFound):
            if files.stat(f"{folder}/{part}")["mtime"] < latest:
                files.remove(f"{folder}/{part}")


def make_folder_of(files: FileSystem, path: str) -> None:
    """Create the folder of a file, with those above it."""
    files.mkdir(posixpath.dirname(path), parents=True)

"""Files of fsspec's transactions: written at once, visible at the end of the transaction."""

from __future__ import annotations

import itertools
import logging
import os
import posixpath
import time
from typing import TYPE_CHECKING, Any

from fsspec.transaction import Transaction

from ._replacing import PART, ReplacingFile

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ._esker import FileSystem


_numbers = itertools.count()
# Size of the blocks in which a file is copied that is appended to, in bytes.
_COPY_BYTES = 4 << 20


class DeferredFile(ReplacingFile):
    """A file for writing that appears at its `commit`, or never at its `discard`.

    `close` stores it under another name, which ends with `.part`. A killed process leaves that file.
    """

    def __init__(self, files: FileSystem, path: str, mode: str) -> None:
        """Begin a file; its folder has to exist."""
        self.files, self.exclusive = files, "x" in mode
        exists = files.exists(path)
        if exists and self.exclusive:
            raise FileExistsError(17, f"{path} already exists")
        number = f"{os.getpid():x}-{time.time_ns():x}-{next(_numbers):x}"
        super().__init__(files, path, part=f"{posixpath.dirname(path)}/.{number}{PART}")
        if exists and "a" in mode:
            with files.open(path, "rb") as before:
                while piece := before.read(_COPY_BYTES):
                    self.write(piece)

    def _finish(self) -> None:
        """Keep the stored file for the commit."""

    def commit(self) -> None:
        """Make the file visible, without the others of a transaction."""
        self.close()
        _appear([self])


class EskerTransaction(Transaction):
    """Files written in a `with fs.transaction:` appear at its end, those of a container at one moment.

    If an exception leaves the block, or a file cannot be stored, none of them appears. Of several files of
    one name, the last counts.
    """

    def complete(self, commit: bool = True) -> None:
        """Make all files visible, or discard them."""
        files: list[DeferredFile] = list(self.files)
        self.files: Any = type(self.files)()
        try:
            if commit:
                for file in files:
                    file.close()
                _appear(files)
        finally:
            for file in files:
                _discard(file)
            super().complete(commit)


def _appear(files: Iterable[DeferredFile]) -> None:
    """Rename the stored files, in one transaction for each container."""
    # A later file of the same name replaces an earlier one.
    last = {(id(file.files), file.name): file for file in files if file.is_stored}
    groups: dict[int, list[DeferredFile]] = {}
    for file in last.values():
        groups.setdefault(id(file.files), []).append(file)
    for several in groups.values():
        several[0].files.rename_all([(file.part, file.name, not file.exclusive) for file in several])
        for file in several:
            file.is_stored = False


def _discard(file: DeferredFile) -> None:
    """Discard a file. A failure is only logged, so that the other files are discarded too."""
    try:
        file.discard()
    except Exception:
        logging.getLogger("esker").warning("%s was not removed", file.part, exc_info=True)

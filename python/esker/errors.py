"""The exceptions of Esker: one class for each kind of error.

Each is an `Error` and also the builtin exceptions that Python's users expect, so that `except KeyError` and
`except OSError` work as well. The table they follow is that of the crate `esker-types`.
"""

from __future__ import annotations


class Error(Exception):
    """Something that Esker could not do. Its class says what the caller can do about it."""

    #: The errno of POSIX that comes closest.
    errno: int | None
    #: Bytes or entries that would have been enough, where that is the trouble.
    needed: int | None = None

    def __init__(self, *args: object) -> None:
        """Take an errno and a message, as OSError does."""
        super().__init__(*args)
        self.errno = args[0] if len(args) > 1 and isinstance(args[0], int) else None

    def __str__(self) -> str:
        """The message, for the person who reads it."""
        return str(self.args[-1]) if self.args else type(self).__name__

    @property
    def kind(self) -> str:
        """Name of the kind of error."""
        return type(self).__name__

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by class, arguments and attributes, whichever builtin exceptions the class derives from."""
        return _again, (type(self), self.args, self.__dict__.copy())


def _again(kind: type[Error], args: tuple[object, ...], attributes: dict[str, object]) -> Error:
    """Make an error that was pickled."""
    error = kind(*args)
    error.__dict__.update(attributes)
    return error


class NoPermission(Error, PermissionError):
    """The user or the handle may not do this; ask for access."""


class NoHandle(Error, ValueError):
    """The handle is unknown, closed, or of another sort; fix the program."""


class Invalid(Error, ValueError):
    """An argument is wrong; fix the input."""


class Exists(Error, FileExistsError):
    """The thing exists already."""


class NotFound(Error, KeyError, FileNotFoundError):
    """The thing does not exist."""


class NoSpace(Error, OSError):
    """The pool is full; delete something or make a larger pool."""


class Already(Error, RuntimeError):
    """It was done before; nothing more to do."""


class NoMemory(Error, MemoryError):
    """Memory ran out, or a memory limit was hit."""


class NotImplemented(Error, NotImplementedError):
    """This release does not have the function."""


class TimedOut(Error, TimeoutError):
    """It took longer than allowed; retry later."""


class Busy(Error, BlockingIOError):
    """Somebody else holds it; retry when they are done."""


class Again(Error, BlockingIOError):
    """A passing shortage; retry now."""


class Uninitialised(Error, RuntimeError):
    """The library is not initialised."""


class Truncated(Error, BufferError):
    """The caller's buffer is too short."""


class Overflow(Error, OverflowError):
    """A number does not fit, or a table is full."""


class Canceled(Error, InterruptedError):
    """The operation was cancelled."""


class BadPath(Error, FileNotFoundError):
    """A path or URL does not lead to a pool."""


class Io(Error, OSError):
    """The medium failed; check the device."""


class KeyTooBig(Error, ValueError):
    """A key exceeds a limit or the caller's buffer."""


class RecordTooBig(Error, ValueError):
    """A record exceeds a limit or the caller's buffer."""


class Checksum(Error, OSError):
    """Stored bytes do not match their checksum; restore them."""


class Corrupt(Error, OSError):
    """Structures on the medium are damaged; run `esker pool check`."""


class Incompatible(Error, OSError):
    """The format is of a version this release cannot read."""


class RecordSize(Error, ValueError):
    """The record size differs from the stored one."""


class TxRestart(Error, BlockingIOError):
    """A transaction met a conflict; restart it."""


class NotSupported(Error, NotImplementedError):
    """This backend cannot do it; see its capabilities."""


class AccessDenied(Error, PermissionError):
    """The mode bits of a file forbid it; ask its owner."""


class NotDirectory(Error, NotADirectoryError):
    """A part of a path that must be a directory is none."""


class IsDirectory(Error, IsADirectoryError):
    """The operation is not one for directories."""


class NotEmpty(Error, OSError):
    """The directory has entries; remove them first."""


class Loop(Error, OSError):
    """A path leads through too many symbolic links."""


class NameTooLong(Error, OSError):
    """A name or path of a file is too long."""


class NoAttribute(Error, OSError):
    """The file has no such attribute."""


class ReadOnly(Error, OSError):
    """The file system is mounted for reading only."""


class PastEnd(Error, OSError):
    """The position lies past the end of the file."""


class FileTooBig(Error, OSError):
    """A file would exceed the largest size."""

"""The exceptions of Esker: one class per kind of error.

Each class derives from `Error` and from the builtin exceptions that Python programs expect, so that
`except KeyError` and `except OSError` work as well. The classes correspond to the table of errors in the
crate `esker-types`.
"""

from __future__ import annotations


class Error(Exception):
    """An operation of Esker failed. The class tells what the caller can do about it."""

    # The closest errno of POSIX.
    errno: int | None
    # The required number of bytes or entries, if a limit was too low.
    needed: int | None = None

    def __init__(self, *args: object) -> None:
        """Take an errno and a message, like OSError."""
        super().__init__(*args)
        self.errno = args[0] if len(args) > 1 and isinstance(args[0], int) else None

    def __str__(self) -> str:
        """The message, for humans."""
        return str(self.args[-1]) if self.args else type(self).__name__

    @property
    def kind(self) -> str:
        """The name of the kind of error."""
        return type(self).__name__

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle by class, arguments and attributes, independent of the builtin base classes."""
        return _again, (type(self), self.args, self.__dict__.copy())


def _again(kind: type[Error], args: tuple[object, ...], attributes: dict[str, object]) -> Error:
    """Restore a pickled error."""
    error = kind(*args)
    error.__dict__.update(attributes)
    return error


class NoPermission(Error, PermissionError):
    """The user or the handle lacks permission; ask for access."""


class NoHandle(Error, ValueError):
    """The handle is unknown, closed, or of another type; fix the program."""


class Invalid(Error, ValueError):
    """An argument is wrong; fix the input."""


class Exists(Error, FileExistsError):
    """The object already exists."""


class NotFound(Error, KeyError, FileNotFoundError):
    """The object does not exist."""


class NoSpace(Error, OSError):
    """The pool is full; delete something or create a larger pool."""


class Already(Error, RuntimeError):
    """The operation was already done; nothing remains to be done."""


class NoMemory(Error, MemoryError):
    """Memory is exhausted, or a memory limit was reached."""


class NotImplemented(Error, NotImplementedError):
    """This release does not implement the function."""


class TimedOut(Error, TimeoutError):
    """The operation took longer than allowed; retry later."""


class Busy(Error, BlockingIOError):
    """Another process uses it exclusively; retry when it is done."""


class Again(Error, BlockingIOError):
    """A temporary shortage; retry now."""


class Uninitialised(Error, RuntimeError):
    """The library is not initialised."""


class Truncated(Error, BufferError):
    """The caller's buffer is too short."""


class Overflow(Error, OverflowError):
    """A number is out of range, or a table is full."""


class Canceled(Error, InterruptedError):
    """The operation was cancelled."""


class BadPath(Error, FileNotFoundError):
    """A path or URL does not refer to a pool."""


class Io(Error, OSError):
    """The medium failed; check the device."""


class KeyTooBig(Error, ValueError):
    """A key exceeds a limit or the caller's buffer."""


class RecordTooBig(Error, ValueError):
    """A record exceeds a limit or the caller's buffer."""


class Checksum(Error, OSError):
    """Stored bytes do not match their checksum; restore them."""


class Corrupt(Error, OSError):
    """Data structures on the medium are damaged; run `esker pool check`."""


class Incompatible(Error, OSError):
    """The format version is not supported by this release."""


class RecordSize(Error, ValueError):
    """The record size differs from the stored one."""


class TxRestart(Error, BlockingIOError):
    """A transaction conflicted with another; restart it."""


class InDoubt(Error, BlockingIOError):
    """A commit over several nodes is not decided yet; retry."""


class TxUncertain(Error, OSError):
    """A commit may or may not have taken effect; read the data before you repeat the change."""


class NotSupported(Error, NotImplementedError):
    """The backend does not support the operation; see its capabilities."""


class AccessDenied(Error, PermissionError):
    """The mode bits of a file forbid it; ask its owner."""


class NotDirectory(Error, NotADirectoryError):
    """A component of a path is not a directory."""


class IsDirectory(Error, IsADirectoryError):
    """The operation does not apply to directories."""


class NotEmpty(Error, OSError):
    """The directory is not empty; remove its entries first."""


class Loop(Error, OSError):
    """A path contains too many symbolic links."""


class NameTooLong(Error, OSError):
    """The name or path of a file is too long."""


class NoAttribute(Error, OSError):
    """The file has no such attribute."""


class ReadOnly(Error, OSError):
    """The file system is mounted read-only."""


class PastEnd(Error, OSError):
    """The position is past the end of the file."""


class FileTooBig(Error, OSError):
    """A file would exceed the maximum size."""


class DataLoss(Error, OSError):
    """Data was lost with the node that stored it; restore the data, or remove the rest of it."""

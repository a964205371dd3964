"""Errors with DAOS's codes, and the life of the client."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from .. import _esker, errors

if TYPE_CHECKING:
    from typing_extensions import Self

# Names of DAOS's error codes that Esker's errors have.
_NAMES = {
    -1001: "DER_NO_PERM",
    -1002: "DER_NO_HDL",
    -1003: "DER_INVAL",
    -1004: "DER_EXIST",
    -1005: "DER_NONEXIST",
    -1007: "DER_NOSPACE",
    -1008: "DER_ALREADY",
    -1009: "DER_NOMEM",
    -1010: "DER_NOSYS",
    -1011: "DER_TIMEDOUT",
    -1012: "DER_BUSY",
    -1013: "DER_AGAIN",
    -1015: "DER_UNINIT",
    -1016: "DER_TRUNC",
    -1017: "DER_OVERFLOW",
    -1018: "DER_CANCELED",
    -1026: "DER_BADPATH",
    -2001: "DER_IO",
    -2012: "DER_KEY2BIG",
    -2013: "DER_REC2BIG",
    -2021: "DER_CSUM",
    -2022: "DER_DF_INVAL",
    -2023: "DER_DF_INCOMPT",
    -2024: "DER_REC_SIZE",
    -2025: "DER_TX_RESTART",
    -2026: "DER_DATA_LOSS",
    -2028: "DER_TX_BUSY",
    -2033: "DER_TX_UNCERTAIN",
    -2037: "DER_NOTSUPPORTED",
}
# The DAOS code of each class of `esker.errors`.
_CODES = {kind: der for kind, _, der, _ in _esker.error_table()}
INVALID = _CODES["Invalid"]


def _meanings() -> dict[int, str]:
    """The meaning of each code: the documentation of the first class that has it."""
    found: dict[int, str] = {}
    for kind, code in _CODES.items():
        found.setdefault(code, getattr(errors, kind).__doc__)
    return found


_MEANINGS = _meanings()


class DaosErrorCode:
    """One of DAOS's error codes, a negative number, with its name and meaning. It is not an exception."""

    def __init__(self, err_num: int) -> None:
        """Look up the name and the meaning of a code."""
        self.err = err_num
        self.name = _NAMES.get(err_num, "DER_UNKNOWN")
        self.message = _MEANINGS.get(err_num, f"Unknown error code {err_num}")

    def __str__(self) -> str:
        return f'DAOS error code {self.err} ({self.name}): "{self.message}"'


class PyDError(Exception):
    """An operation failed. `error` is its DaosErrorCode; the cause is an exception of `esker.errors`."""

    def __init__(self, message: str, rc: int) -> None:
        """Take the failed action and the DAOS code."""
        super().__init__(message, rc)
        self.error = DaosErrorCode(rc)
        self.message = f"{message}: {self.error}"

    def __str__(self) -> str:
        return self.message


@contextlib.contextmanager
def failing(what: str) -> Iterator[None]:
    """Raise exceptions of Esker as a PyDError: "failed to `what`", with the cause."""
    try:
        yield
    except errors.Error as error:
        raise PyDError(f"failed to {what}: {error}", _CODES[error.kind]) from error


class DaosClient:
    """The only client of this process. Unlike DAOS, Esker needs neither start nor end."""

    _instance: Self | None = None
    connected: bool

    def __new__(cls) -> Self:
        """Return the one instance."""
        if cls._instance is None:
            cls._instance = super().__new__(cls)
            cls._instance.connected = True
        return cls._instance

    @classmethod
    def cleanup(cls) -> None:
        """Forget the instance; open objects stay usable."""
        if cls._instance is not None:
            cls._instance.connected = False
            cls._instance = None

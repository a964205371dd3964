"""The exceptions of `esker.errors` as a program for pyfdb expects them: each is a RuntimeError as well."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from .. import errors


def _variant(kind: type[errors.Error]) -> type[errors.Error]:
    """The variant of a class of `esker.errors`."""
    if issubclass(kind, RuntimeError):
        return kind
    about = {"__doc__": kind.__doc__, "__module__": __name__}
    return type(kind.__name__, (kind, RuntimeError), about)


_KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, errors.Error)]
_VARIANTS = {kind: _variant(kind) for kind in _KINDS}
# Pickles name a class by its module.
globals().update({kind.__name__: variant for kind, variant in _VARIANTS.items()})


@contextlib.contextmanager
def as_of_fdb() -> Iterator[None]:
    """Raise errors of Esker as RuntimeErrors too. Messages about invalid arguments begin as in FDB."""
    try:
        yield
    except errors.Error as error:
        kind = type(error)
        if kind not in _VARIANTS:
            raise
        raise _VARIANTS[kind](error.errno, _begun(kind, str(error))) from error


def _begun(kind: type[errors.Error], message: str) -> str:
    """The message of an error as FDB begins it. One about a value begins with its name."""
    if kind is not errors.Invalid:
        return message
    return f"UserError: Bad value: {message}" if re.match(r"\w+=", message) else f"UserError: {message}"


def refused(kind: type[errors.Error], message: str) -> errors.Error:
    """An error of a kind of `esker.errors`, to be raised."""
    return _VARIANTS[kind](message)

"""Optional packages: parts of Esker need them, and users install them separately."""

from __future__ import annotations


def missing_package(error: ImportError, what: str, extra: str) -> ImportError:
    """The exception for a missing package. Its message names the `extra` of Esker to install."""
    return ImportError(f"{what}, which is missing or too old ({error}): pip install 'esker[{extra}]'")

"""Packages that parts of Esker need, and that are installed separately."""


def missing(error, what, extra):
    """The exception that says what to install; `extra` names the extra of Esker that has it."""
    return ImportError(f"{what}, which is missing or too old ({error}): pip install 'esker[{extra}]'")

"""Medians of several runs with their ranges, and the cells of tables that show them."""

from __future__ import annotations

import statistics
from typing import NamedTuple


class Spread(NamedTuple):
    """The median of several runs, the smallest and the largest."""

    median: float
    low: float
    high: float


def spread_of(values: list[float | None]) -> Spread | None:
    """The spread of the values that were measured."""
    known = [float(value) for value in values if value is not None]
    return Spread(statistics.median(known), min(known), max(known)) if known else None


def digits(number: float) -> str:
    """Two digits, but never fewer than the whole ones."""
    return f"{number:.2g}" if abs(number) < 100 else f"{number:.0f}"


def ratio(spread: Spread | None) -> str:
    """A ratio with its range, or a dash. Ends of a range that look like the median are left out."""
    if spread is None:
        return "-"
    middle, *ends = map(digits, spread)
    return middle if ends == [middle, middle] else f"{middle} ({ends[0]}-{ends[1]})"


def quantity(number: float | None, unit: str = "") -> str:
    """Three digits, with a letter for thousands, or a dash."""
    if number is None:
        return "-"
    for letter, scale in (("M", 1e6), ("k", 1e3)):
        if number >= scale:
            return f"{number / scale:.3g} {letter}{unit}"
    return f"{number:.3g} {unit}".strip()


def rate(spread: Spread | None, unit: str = "/s") -> str:
    """The median rate of several runs, or a dash."""
    return quantity(None if spread is None else spread.median, unit)


def mebibytes(spread: Spread | None) -> str:
    """The median bandwidth of several runs, or a dash."""
    return "-" if spread is None else f"{spread.median:.0f} MiB/s"


def duration(microseconds: float) -> str:
    """A time with three digits in the unit that suits it."""
    for unit, scale in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= scale:
            return f"{microseconds / scale:.3g} {unit}"
    return f"{microseconds:.3g} us"

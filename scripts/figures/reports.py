"""Reports of `esker bench`: their runs by name, and ratios between runs of one report."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from spread import Spread, spread_of

Run = dict[str, Any]
Report = dict[str, Any]


def select(report: Report, **members: Any) -> Run | None:
    """The first run with these members, or none."""
    found = (run for run in report["runs"] if all(run.get(name) == value for name, value in members.items()))
    return next(found, None)


def over_reports(reports: Iterable[Report], value: Callable[[Report], float | None]) -> Spread | None:
    """The spread of a value over several reports."""
    return spread_of([value(report) for report in reports])


def member(name: str, **members: Any) -> Callable[[Report], float | None]:
    """A function that takes a member of the run with these members from a report."""

    def value(report: Report) -> float | None:
        run = select(report, **members)
        return None if run is None else run[name]

    return value


def divided(rate: Callable[[Report], float | None], base: Callable[[Report], float | None]) -> Callable[[Report], float | None]:
    """A function that divides two values of a report."""

    def value(report: Report) -> float | None:
        over, under = rate(report), base(report)
        return over / under if over is not None and under else None

    return value


def pair_ratios(run: Run | None, base: Run | None) -> list[float | None]:
    """The ratios of the rates of two runs, iteration by iteration."""
    if run is None or base is None:
        return []
    bases = {one["repeat"]: one["rate"] for one in base["repeats"]}
    return [one["rate"] / bases[one["repeat"]] for one in run["repeats"] if bases.get(one["repeat"])]


def paired(run: Run | None, base: Run | None) -> Spread | None:
    """The spread of the ratios of two runs over their iterations."""
    return spread_of(pair_ratios(run, base))


def median_rate(run: Run | None) -> Spread | None:
    """The spread of the rates of a run's iterations."""
    return spread_of([one["rate"] for one in run["repeats"]]) if run else None

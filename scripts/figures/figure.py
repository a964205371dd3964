"""A figure: the table that a measurement fills, and the numbers for the charts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from machine import Machine
from spread import Spread


@dataclass
class Table:
    """The rows of a table, and numbers by name for the charts."""

    rows: list[list[str]] = field(default_factory=list)
    values: dict[str, list[float]] = field(default_factory=dict)
    # Replaces columns of the figure if they depend on the measurement.
    columns: list[str] | None = None

    def keep(self, name: str, spread: Spread | None) -> Spread | None:
        """Remembers a number for the charts, if it was measured."""
        if spread is not None:
            self.values[name] = [float(f"{number:.4g}") for number in spread]
        return spread


@dataclass(frozen=True)
class Figure:
    """How a table of the page is measured, and how it is introduced."""

    columns: list[str]
    # One or two sentences: meaning of the numbers.
    shows: str
    measure: Callable[[Machine], Table]

    def recorded(self, machine: Machine, table: Table, today: str) -> dict[str, Any]:
        """The table as it is recorded."""
        return {
            "shows": self.shows,
            "commands": machine.commands,
            "machine": machine.describe(),
            "file_systems": list(machine.media),
            "measured": today,
            "commit": machine.commit(),
            "absent": machine.absent,
            "columns": table.columns or self.columns,
            "rows": table.rows,
            "values": table.values,
        }

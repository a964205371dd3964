"""The page of figures: its tables are generated between marks."""

from __future__ import annotations

import collections
import re
from typing import Any

SECTION = re.compile(r"(<!-- figure: (\w+) -->)\n.*?\n(<!-- end -->)", re.DOTALL)
ORIGIN = re.compile(r"(<!-- origin -->)\n.*?\n(<!-- end -->)", re.DOTALL)
HEADING = re.compile(r"^#{2,3} [^\n]*$|<!-- figure: (\w+) -->", re.MULTILINE)
LINE_LENGTH = 140

Data = dict[str, Any]


def table_lines(columns: list[str], rows: list[list[str]]) -> list[str]:
    """A table in Markdown."""
    lines = [columns, ["---"] * len(columns), *rows]
    return ["| " + " | ".join(cells) + " |" for cells in lines]


def wrapped(text: str) -> list[str]:
    """A paragraph in lines of limited length."""
    lines: list[str] = []
    for word in text.split():
        if lines and len(lines[-1]) + 1 + len(word) <= LINE_LENGTH:
            lines[-1] += " " + word
        else:
            lines.append(word)
    return lines


def main_commit(tables: dict[str, Data]) -> str | None:
    """The commit at which most tables were measured; the last one of those with as many."""
    counts = collections.Counter(table["commit"] for table in tables.values() if table.get("commit"))
    best = max(counts.values(), default=0)
    return next((commit for commit in reversed(list(counts)) if counts[commit] == best), None)


def origin(tables: dict[str, Data]) -> str:
    """Commit, machine and date of most tables."""
    commit = main_commit(tables)
    if commit is None:
        return "The commit at which these tables were measured was not recorded. Each has its date and its machine."
    ours = [table for table in tables.values() if table.get("commit") == commit]
    dates = list(dict.fromkeys(table["measured"] for table in ours))
    machines = list(dict.fromkeys(table["machine"] for table in ours))
    systems = list(dict.fromkeys(name for table in ours for name in table["file_systems"]))
    return f"Measured at commit `{commit}` on {' and '.join(dates)}: {'; '.join(machines)}; {' and '.join(systems)}."


def differing_origin(table: Data, commit: str | None) -> list[str]:
    """The origin of a table that was not measured at the page's commit."""
    own = table.get("commit")
    if own and own == commit:
        return []
    at = f"at another commit, `{own}`" if own else "at a commit that was not recorded"
    return [f"Measured {at}, on {table['measured']}: {table['machine']}."]


def section_lines(table: Data | None, reason: str | None, commit: str | None) -> list[str]:
    """The text between the marks of a table."""
    if table is None:
        return ["", f"Not measured here: {reason}." if reason else "Not measured here.", ""]
    commands = ["    " + command for command in table["commands"]]
    absent = [f"Left out: {'; '.join(table['absent'])}."] if table.get("absent") else []
    facts = wrapped(" ".join([table["shows"], *absent, *differing_origin(table, commit)]))
    return ["", *commands, "", *facts, "", *table_lines(table["columns"], table["rows"]), ""]


def render_page(page: str, data: Data) -> str:
    """The page with its first line of facts, and every table between its marks, replaced."""
    tables, reasons = data["tables"], data.get("reasons", {})
    commit = main_commit(tables)

    def section(match: re.Match[str]) -> str:
        name = match[2]
        return "\n".join([match[1], *section_lines(tables.get(name), reasons.get(name), commit), match[3]])

    page = ORIGIN.sub(lambda match: "\n".join([match[1], "", *wrapped(origin(tables)), "", match[2]]), page)
    return SECTION.sub(section, page)


def headings_and_marks(page: str, names: list[str]) -> str:
    """The page without its prose: headings with tables of these names, and their marks."""
    lines = ["# Figures of this machine", "", "<!-- origin -->", "", "<!-- end -->", ""]
    lines += ["![Beside other stores](figures.svg)", "", "![Beside the raw medium](performance.svg)", ""]
    pending: list[str] = []
    for match in HEADING.finditer(page):
        if match[1] is None:
            pending = [*(line for line in pending if line.startswith("## ") and match[0].startswith("### ")), match[0]]
        elif match[1] in names:
            lines += [line for heading in pending for line in (heading, "")]
            lines += [match[0], "", "<!-- end -->", ""]
            pending = []
    return "\n".join(lines)

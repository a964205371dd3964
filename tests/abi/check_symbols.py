#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that symbols.c and symbols_fs.h contain exactly the functions that the headers declare.

The headers declare all functions that the programs of clients.txt call.
"""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = HERE.parent.parent / "include"

# A declaration: the type alone on a line, then the name, then parameters up to a semicolon.
DECLARATION = re.compile(r"^(?!static|typedef|#)\w[^\n;{}()]*\n(\w+)\([^;{}]*\);", re.MULTILINE)
NAMED = re.compile(r"^\tNAME\((\w+)\),?$", re.MULTILINE)

ALIAS = re.compile(r"^\tALIAS\((\w+)\),?$", re.MULTILINE)


def declared():
    names = set()
    for header in sorted(INCLUDE.rglob("*.h")):
        names.update(DECLARATION.findall(header.read_text(encoding="ascii")))
    return names


def called():
    """Pairs of a program and a function that it calls."""
    program, pairs = None, []
    for line in (HERE / "clients.txt").read_text(encoding="ascii").splitlines():
        if line.startswith("["):
            program = line.strip("[]")
        elif not line.startswith("#"):
            pairs += [(program, name) for name in line.split()]
    return pairs


def main():
    wanted = declared()
    calls = called()
    tables = [HERE / "symbols.c", HERE / "symbols_fs.h"]
    named = [name for table in tables for name in NAMED.findall(table.read_text(encoding="ascii"))]
    problems = [f"declared but not in symbols.c: {name}" for name in sorted(wanted - set(named))]
    problems += [f"in symbols.c but not declared: {name}" for name in sorted(set(named) - wanted)]
    twice = sorted({name for name in named if named.count(name) > 1})
    problems += [f"duplicate in symbols.c: {name}" for name in twice]
    known = wanted | {name for table in tables for name in ALIAS.findall(table.read_text(encoding="ascii"))}
    missing = [(program, name) for program, name in calls if name not in known]
    problems += [f"{program} calls {name}, which no header declares" for program, name in missing]
    for problem in problems:
        print(problem, file=sys.stderr)
    programs = {program for program, _ in calls}
    print(f"{len(wanted)} functions declared; {len(programs)} programs call {len(calls)}")
    return 1 if problems or not wanted or not calls else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that symbols.c and symbols_fs.h contain exactly the functions that the headers declare."""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent
INCLUDE = HERE.parent.parent / "include"

# A declaration: the type alone on a line, then the name, then parameters up to a semicolon.
DECLARATION = re.compile(r"^(?!static|typedef|#)\w[^\n;{}()]*\n(\w+)\([^;{}]*\);", re.MULTILINE)
NAMED = re.compile(r"^\tNAME\((\w+)\),?$", re.MULTILINE)


def declared():
    names = set()
    for header in sorted(INCLUDE.rglob("*.h")):
        names.update(DECLARATION.findall(header.read_text(encoding="ascii")))
    return names


def main():
    wanted = declared()
    tables = [HERE / "symbols.c", HERE / "symbols_fs.h"]
    named = [name for table in tables for name in NAMED.findall(table.read_text(encoding="ascii"))]
    problems = [f"declared but not in symbols.c: {name}" for name in sorted(wanted - set(named))]
    problems += [f"in symbols.c but not declared: {name}" for name in sorted(set(named) - wanted)]
    twice = sorted({name for name in named if named.count(name) > 1})
    problems += [f"duplicate in symbols.c: {name}" for name in twice]
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{len(wanted)} functions declared")
    return 1 if problems or not wanted else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Check that layout*.c assert every structure and field in a file of known layouts.

usage: check_layouts.py [LAYOUTS]

The file has a section for each structure, "## NAME", a dash, "sizeof N", with a line for each field:
offset, size and declaration, as pahole or ptype/o print them; "=" stands for the offset of the enclosing
union. Without a file there is nothing to compare, which is not an error.
"""

import pathlib
import re
import sys

HERE = pathlib.Path(__file__).resolve().parent

# Structures of headers that are not part of this interface (yet).
ELSEWHERE = re.compile(r"struct daos_obj_(layout|shard)|struct daos_shard_loc")

HEADING = re.compile(r"^## (.+?) \S+ sizeof (\d+)$")
FIELD = re.compile(r"^\s*(\d+|=)\s+(\d+)\s+(.+)$")
FUNCTION_POINTER = re.compile(r"\(\*(\w+)\)")
NAME = re.compile(r"(\w+)(\[\w*\])*;$")

ASSERTED_SIZE = re.compile(r"^SIZE\(([^,]+), (\d+)\);$", re.MULTILINE)
ASSERTED_FIELD = re.compile(r"^\tFIELD\(([^,]+), ([\w.]+), (\d+), (\d+)\);$", re.MULTILINE)
ASSERTED_TAIL = re.compile(r"^\tTAIL\(([^,]+), (\w+), (\d+)\);$", re.MULTILINE)


def field_name(declaration):
    """The name of a field, or None for a line that starts a structure or union."""
    if declaration.endswith("{"):
        return None
    match = FUNCTION_POINTER.search(declaration) or NAME.search(declaration)
    if match is None:
        raise ValueError(f"cannot read: {declaration}")
    return match.group(1)


def read_layouts(text):
    """(name, size, [(field, offset, size)]) for every structure in the text."""
    layouts = []
    union_offset = 0
    for line in text.splitlines():
        heading = HEADING.match(line)
        field = FIELD.match(line)
        if heading:
            layouts.append((heading.group(1), int(heading.group(2)), []))
        elif field and layouts:
            offset, size, declaration = field.groups()
            offset = union_offset if offset == "=" else int(offset)
            name = field_name(declaration)
            if name is None:
                union_offset = offset
            else:
                layouts[-1][2].append((name, offset, int(size)))
    return layouts


def read_asserted():
    """{name: size} and {(name, last part of field, offset, size)} from layout*.c."""
    sizes, fields = {}, set()
    for source in sorted(HERE.glob("layout*.c")):
        text = source.read_text(encoding="ascii")
        sizes.update({name: int(size) for name, size in ASSERTED_SIZE.findall(text)})
        for name, path, offset, size in ASSERTED_FIELD.findall(text):
            fields.add((name, path.split(".")[-1], int(offset), int(size)))
        for name, path, offset in ASSERTED_TAIL.findall(text):
            fields.add((name, path, int(offset), 0))
    return sizes, fields


def missing_members(layouts):
    sizes, fields = read_asserted()
    for name, size, members in layouts:
        if ELSEWHERE.fullmatch(name):
            continue
        if sizes.get(name) != size:
            yield f"no SIZE({name}, {size})"
        for member, offset, member_size in members:
            if (name, member, offset, member_size) not in fields:
                yield f"no FIELD({name}, ...{member}, {offset}, {member_size})"


def main():
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else None
    if path is None or not path.is_file():
        print("skipped: no file of layouts to compare with")
        return 0
    layouts = read_layouts(path.read_text(encoding="utf-8"))
    problems = list(missing_members(layouts))
    for problem in problems:
        print(problem, file=sys.stderr)
    here = [layout for layout in layouts if not ELSEWHERE.fullmatch(layout[0])]
    print(f"{len(here)} of {len(layouts)} structures belong here, {len(problems)} assertions missing")
    return 1 if problems or not here else 0


if __name__ == "__main__":
    sys.exit(main())

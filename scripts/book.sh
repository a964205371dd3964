#!/usr/bin/env bash
# Builds the book of the documentation into build/book/html. Pages keep their places, so that the links among them hold;
# links to anything else in the repository go to its home. What mdBook warns of is an error.
set -euo pipefail
cd "$(dirname "$0")/.."
home=$(sed -n 's/^git-repository-url = "\(.*\)"/\1/p' book.toml)
source=build/book/src

rm -rf build/book
mkdir -p "$source"
git ls-files --cached --others --exclude-standard -- ':(glob)*.md' docs | grep -vx docs/SUMMARY.md |
    while read -r page; do install -D -m 644 "$page" "$source/$page"; done

# mdBook calls the page of a folder index; its own table of contents knows.
find "$source" -name '*.md' -exec sed -i -E 's,(\]\(([^:)]*/)?)README\.md([#)]),\1index.md\3,g' {} +

# The table of contents lies beside the pages of docs; that of mdBook must lie at the top, and name each decision, which
# the index of decisions does.
sed -nE 's#^\| \[([0-9]+)\]\(([^)]+)\) \| (.*) \|$#  - [\1 \3](decisions/\2)#p' docs/decisions/README.md >build/book/decisions
sed '/(decisions\/README.md)/r build/book/decisions' docs/SUMMARY.md |
    sed -E 's#\]\(([a-z])#](docs/\1#; s#\]\(\.\./#](#' >"$source/SUMMARY.md"

elsewhere='(\.\./)*(crates|examples|include|python|scripts|tests|packaging|\.github|LICENSE|Makefile)'
find "$source" -name '*.md' -exec sed -i -E "s#\]\($elsewhere#](https://HOME/\2#g; s#https://HOME#$home/blob/main#g" {} +

if ! mdbook build 2>build/book/log || grep -q 'WARN\|ERROR' build/book/log; then
    cat build/book/log >&2
    exit 1
fi

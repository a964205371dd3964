#!/usr/bin/env bash
# Builds the book of the documentation into build/book/html. Pages keep their paths, so that links among them stay
# valid; other links refer to the sources of this release, or of main. Warnings of mdBook are errors. The notebooks are
# included with what they show if `make notebooks` has run them.
set -euo pipefail
cd "$(dirname "$0")/.."
home=$(sed -n 's/^git-repository-url = "\(.*\)"/\1/p' book.toml)
release=$(git describe --tags --exact-match --match "v*" 2>/dev/null || echo main)
source=build/book/src

rm -rf build/book
mkdir -p "$source"
git ls-files --cached --others --exclude-standard -- ':(glob)*.md' docs | grep -v "^docs/\(SUMMARY\.md$\|site/\)" |
    while read -r page; do install -D -m 644 "$page" "$source/$page"; done

# mdBook calls the page of a directory index; its own table of contents handles that.
find "$source" -name '*.md' -exec sed -i -E 's,(\]\(([^:)]*/)?)README\.md([#)]),\1index.md\3,g' {} +

# The table of contents is in the directory of the pages; mdBook's must be at the top, and must list each decision,
# which the index of decisions does.
sed -nE 's#^\| \[([0-9]+)\]\(([^)]+)\) \| ([^|]*) \|.*$#  - [\1 \3](decisions/\2)#p' docs/decisions/README.md >build/book/decisions
sed '/(decisions\/README.md)/r build/book/decisions' docs/SUMMARY.md |
    sed -E 's#\]\(([a-z])#](docs/\1#; s#\]\(\.\./#](#' >"$source/SUMMARY.md"

# add_notebooks: copies the pages, pictures and notebooks, and lists the pages by their titles.
add_notebooks() {
    local page title
    mkdir "$source/notebooks"
    find build/notebooks -maxdepth 1 -type f -exec cp -t "$source/notebooks" {} +
    printf '\n# Notebooks\n\n'
    for page in "$source"/notebooks/*.md; do
        title=$(sed -n '1s/^# //p' "$page")
        echo "- [$title](notebooks/${page##*/})"
    done
}
if compgen -G "build/notebooks/*.md" >/dev/null; then
    add_notebooks >build/book/notebooks
    sed -i '/^# How-to$/{
        r build/book/notebooks
        N
    }' "$source/SUMMARY.md"
else
    echo "book.sh: without notebooks: make notebooks runs them"
fi

elsewhere='(\.\./)*(crates|examples|include|python|scripts|tests|packaging|\.github|LICENSE|Makefile)'
find "$source" -name '*.md' -exec sed -i -E "s#\]\($elsewhere#](https://HOME/\2#g; s#https://HOME#$home/blob/$release#g" {} +

if ! mdbook build 2>build/book/log || grep -q 'WARN\|ERROR' build/book/log; then
    cat build/book/log >&2
    exit 1
fi

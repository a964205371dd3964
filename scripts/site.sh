#!/usr/bin/env bash
# Builds the site into build/site: a landing page, the book, and the references of Python, C and Rust with the tools that
# are installed. It names each reference that is skipped and counts them; links lead to what was built only.
# usage: site.sh [PART...]
#   PART  python, c or rust; default: all. The book and the landing page are always built
set -euo pipefail
cd "$(dirname "$0")/.."
[ $# -gt 0 ] || set -- python c rust
site=build/site skipped=0
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
commit=$(git rev-parse --short HEAD)
home=$(sed -n 's/^git-repository-url = "\(.*\)"/\1/p' book.toml)
rm -rf $site
mkdir -p $site

skip() {
    echo "site.sh: skipped: $*"
    skipped=$((skipped + 1))
}

# card PAGE NAME TEXT: an entry of the landing page.
card() {
    echo "<li><a href=\"$1\">$2</a><span>$3</span></li>" >>build/site.references
}

# From the docstrings; notebooks.sh makes the environment, in which esker is installed.
python_reference() {
    local environment=build/notebooks/python
    [ -e $environment/bin/python ] || { skip "the Python reference (make notebooks installs esker)" && return; }
    build/python/bin/pip --python $environment/bin/python install --quiet --disable-pip-version-check \
        --constraint python/requirements.txt pdoc
    # It warns of names that exist for type checkers only, and shows them as they are written.
    $environment/bin/python -W ignore -m pdoc --output-directory $site/python --footer-text "Esker $version" \
        esker esker.errors esker.fsspec esker.zarr esker.pyfdb pydaos
    card python/esker.html Python "classes and functions of the package"
}

c_reference() {
    command -v doxygen >/dev/null || { skip "the C reference (Doxygen is not installed)" && return; }
    mkdir $site/c
    printf 'OUTPUT_DIRECTORY = %s/c\nPROJECT_NUMBER = %s\nWARN_AS_ERROR = FAIL_ON_WARNINGS\n' $site "$version" |
        cat docs/site/Doxyfile - | doxygen -
    card c/index.html C "the headers of libdaos, libdfs and libduns"
}

# The crate that programs use, and what its types refer to.
rust_reference() {
    cargo doc --quiet --locked --no-deps -p esker -p esker-types -p esker-backend -p esker-dfs -p esker-fields -p esker-tensors
    cp -r "${CARGO_TARGET_DIR:-target}/doc" $site/rust
    card rust/esker/index.html Rust "the crate esker and those that it refers to"
}

: >build/site.references
card book/docs/cli.html "Command line" "every command and option"
for part in "$@"; do
    case $part in
    python | c | rust) "${part}_reference" ;;
    *) echo "site.sh: no such part: $part" >&2 && exit 2 ;;
    esac
done
# Its title has the version, and each page a link to the landing page.
MDBOOK_BOOK__TITLE="Esker $version" MDBOOK_OUTPUT__HTML__THEME=docs/site/theme scripts/book.sh
cp -r build/book/html $site/book
sed -e "/<!-- references -->/{
    r build/site.references
    d
}" -e "s|<!-- version -->|$version, commit $commit|; s|<!-- home -->|$home|" docs/site/index.html >$site/index.html

# Each link of the landing page leads to a file.
grep -o '\(href\|src\)="[^":]*"' $site/index.html | cut -d '"' -f 2 | while read -r link; do
    [ -e "$site/$link" ] || { echo "site.sh: the landing page links to $link, which does not exist" >&2 && exit 1; }
done
echo "site: $site/index.html, $skipped of $# references skipped"

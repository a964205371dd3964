#!/usr/bin/env bash
# Prints the licences of the crates that are compiled into the binaries of a release, each text once. cargo must have
# fetched their sources, as it does for a build.
# usage: third-party.sh [-p PACKAGE]...
#   PACKAGE  another package of ours, the crates of which are added
set -euo pipefail
cd "$(dirname "$0")/.."
packages=(-p esker-cli -p esker-bench -p esker-libdaos -p esker-preload -p esker-preload-store "$@")
sources=${CARGO_HOME:-$HOME/.cargo}/registry/src
declare -A seen

# NAME VERSION LICENCE of each crate that is not ours.
crates() {
    cargo tree --locked --edges normal --prefix none --no-dedupe --format '{p}|{l}' "${packages[@]}" |
        grep -v -e ' (/' -e '^$' | sed 's/ (proc-macro)//; s/^\([^ ]*\) v\([^|]*\)|/\1 \2 /' | sort -u
}

# texts NAME VERSION: the files with its licences and notices, also of the C sources that it brings.
texts() {
    find "$sources"/*/"$1-$2" -type f \( -iname 'licen[cs]e*' -o -iname 'copying*' -o -iname 'notice*' -o -iname copyright \) \
        -size -100k ! -name '*.rs' 2>/dev/null | sort
}

# text FILE NAME: what the file says, unless it was printed before. NAME is how later ones refer to it.
text() {
    local sum
    sum=$(tr -d '[:space:]' <"$1" | cksum)
    if [ -n "${seen[$sum]:-}" ]; then
        echo "The text of ${1##*/} is that of ${seen[$sum]}."
    else
        seen[$sum]=$2
        cat "$1"
        echo
    fi
}

# Not read by a loop from the command, whose failure would go unnoticed.
listed=$(crates)
while read -r name version licence; do
    printf -- '--- %s %s: %s\n\n' "$name" "$version" "$licence"
    while read -r file; do text "$file" "$name $version, ${file##*/}"; done < <(texts "$name" "$version")
    echo
done <<<"$listed"

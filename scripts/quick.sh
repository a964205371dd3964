#!/usr/bin/env bash
# Checks what has changed since a commit: formats, lints and unit tests of the crates with changes, and the style of the repository.
# usage: quick.sh [COMMIT]; default: where this branch left main, and what is not committed
set -euo pipefail
cd "$(dirname "$0")/.."
base=${1:-$(git merge-base HEAD origin/main 2>/dev/null || git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)}
base=$(git rev-parse --verify --quiet "$base^{commit}") || { echo "quick.sh: ${1:-HEAD} is not a commit" >&2 && exit 1; }
mapfile -t touched < <({ git diff --name-only "$base" && git ls-files --others --exclude-standard; } | sort -u)
mapfile -t changed < <(for file in "${touched[@]}"; do [ ! -e "$file" ] || echo "$file"; done)

step() {
    echo "--- $*"
    "$@"
}

# matching PATTERN: the changed files whose path matches; removed ones are not among them.
matching() {
    printf '%s\n' "${changed[@]}" | grep -E "$1" || true
}

# The package of a file: the name in the nearest manifest above it.
package() {
    local folder=$1
    while [[ $folder == */* ]]; do
        folder=${folder%/*}
        if [ -f "$folder/Cargo.toml" ]; then
            sed -n 's/^name = "\(.*\)"/\1/p' "$folder/Cargo.toml" | head -n 1
            return
        fi
    done
}

# Also those of removed files.
packages() {
    local file
    printf '%s\n' "${touched[@]}" | { grep -E '\.rs$|Cargo\.toml$' || true; } |
        while read -r file; do package "$file"; done | sort -u
}

mapfile -t crates < <(packages | sed 's/^/-p/')
mapfile -t shell < <(matching '^(scripts|tests/packages)/.*\.sh$')
mapfile -t pages < <(matching '\.md$')
echo "${#touched[@]} files have changed since $(git log -1 --format='%h %s' "$base")"

step cargo fmt --all --check
step cargo test --quiet -p esker-tidy
[ ${#shell[@]} = 0 ] || step shellcheck -x "${shell[@]}"
[ ${#pages[@]} = 0 ] || step build/python/bin/rumdl check --quiet "${pages[@]}"
[ -z "$(matching '\.pyi?$')" ] || {
    step build/python/bin/ruff check --quiet --no-cache
    step build/python/bin/ruff format --quiet --no-cache --check python
    step build/python/bin/mypy --config-file python/pyproject.toml --cache-dir build/mypy --no-error-summary
}
[ ${#crates[@]} = 0 ] || {
    step cargo clippy --quiet "${crates[@]}" --lib --bins -- -D warnings
    step cargo test --quiet "${crates[@]}" --lib --bins
}

#!/usr/bin/env bash
# Checks that no public crate has broken its API since the current version began: a change that breaks it raises the
# minor version in the same commit (CONTRIBUTING.md).
# usage: semver.sh [ARGUMENT-OF-CARGO-SEMVER-CHECKS...]
#   ESKER_SEMVER_BASELINE  commit to compare with [default: the one that wrote the version into Cargo.toml]
set -euo pipefail
cd "$(dirname "$0")/.."

begin_of_version() {
    git log -1 --format=%h -G'^version = ' -- Cargo.toml
}

# The first version has no API to compare before the commit that added this check.
begin_of_check() {
    git log -1 --format=%h --diff-filter=A -- scripts/semver.sh
}

later() {
    if git merge-base --is-ancestor "$1" "$2"; then echo "$2"; else echo "$1"; fi
}

baseline=${ESKER_SEMVER_BASELINE:-$(later "$(begin_of_version)" "$(begin_of_check)")}
echo "comparing the public crates with $(git log -1 --format='%h (%s)' "$baseline")"
exec cargo semver-checks --baseline-rev "$baseline" "$@"

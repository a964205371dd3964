#!/usr/bin/env bash
# Checks everything about a change except that it works: format, lints, dependencies, style.
set -euo pipefail
cd "$(dirname "$0")/.."

step() {
    echo "--- $*"
    "$@"
}

skip() {
    echo "--- skipped: $*"
}

# Tests, including their helper functions, may panic; product code may not.
in_tests=(-A clippy::unwrap_used -A clippy::expect_used -A clippy::panic)

# The advisory database is on a host that is not reachable from every network.
advisories() {
    if timeout 60 cargo deny fetch db >/dev/null 2>&1; then
        step cargo deny check --disable-fetch advisories
    else
        skip "security advisories, their database cannot be fetched"
    fi
}

python_lints() {
    step build/python/bin/ruff check --quiet --no-cache
    step build/python/bin/ruff format --quiet --no-cache --check python
}

# Types of the package and of the code in the documentation; python/pyproject.toml configures both checkers.
python_types() {
    step build/python/bin/mypy --config-file python/pyproject.toml --cache-dir build/mypy --no-error-summary
    step build/python/bin/basedpyright --project python/pyproject.toml --pythonpath build/python/bin/python --level error
    step build/python/bin/python scripts/typed_pages.py
}

# Installing it takes longer than all of this.
semver() {
    if cargo semver-checks --version >/dev/null 2>&1; then
        step scripts/semver.sh --quiet
    else
        skip "cargo-semver-checks is not installed (make semver installs it)"
    fi
}

# The tables, the charts, the book and the site are generated from files in the repository.
pages() {
    step build/python/bin/rumdl check --quiet .
    step build/python/bin/python scripts/figures check
    step scripts/site.sh python c
}

step cargo fetch --quiet --locked
step cargo fmt --all --check
step cargo clippy --quiet --workspace --lib --bins -- -D warnings
step cargo clippy --quiet -p esker --no-default-features -- -D warnings
step cargo clippy --quiet --workspace --all-targets -- -D warnings "${in_tests[@]}"
step cargo deny --log-level error check licenses bans sources
advisories
step cargo publish --quiet --dry-run --workspace --no-verify --allow-dirty --locked
semver
step shellcheck -x .ci/run scripts/*.sh tests/packages/*.sh
python_lints
python_types
pages
step cargo test --quiet -p esker-tidy

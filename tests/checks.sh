# Counts named checks of shell tests, to be sourced by them. `work` names a directory for their output.
# shellcheck shell=bash
passed=0 failed=0 skipped=0

# that NAME COMMAND...
that() {
    local name=$1
    shift
    if "$@" >"${work:?names a directory}/output" 2>&1; then
        passed=$((passed + 1))
    else
        echo "FAILED: $name" && cat "$work/output"
        failed=$((failed + 1))
    fi
}

# skip REASON
skip() {
    echo "skipped: $1"
    skipped=$((skipped + 1))
}

# with TOOL NAME COMMAND...: a check that is skipped without a tool.
with() {
    local tool=$1
    shift
    if command -v "$tool" >/dev/null; then
        that "$@"
    else
        skip "$1: no $tool"
    fi
}

# Prints the counts. Fails if a check has failed.
summary() {
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
}

# Shared functions of the shell checks: source it, write functions whose names start with test_, call run_tests. Each
# runs in its own directory under test, with `set -e`; $outside is a directory elsewhere.
# shellcheck shell=bash
set -u
place=$1 elsewhere=$2

# need COMMAND...: skips the check if one of them is missing.
need() {
    local command
    for command; do
        command -v "$command" >/dev/null || { echo "$command is not installed"; exit 77; }
    done
}

# skip WHY: reports that the running test, or a part of it, is skipped. run.sh counts these lines.
skip() {
    echo "skipped $test: $1" >&2
}

# has COMMAND...: false, and the running test is reported as skipped, if one of them is missing: `has ed || return 0`.
has() {
    local command
    for command; do
        command -v "$command" >/dev/null || { skip "$command is not installed"; return 1; }
    done
}

# has_mpi FLAVOUR: true if programs can be built with it. Debian installs the compiler's command without the headers, too.
has_mpi() {
    echo '#include <mpi.h>' | "mpicc.$1" -E - >/dev/null 2>&1
}

# is ACTUAL EXPECTED
is() {
    [ "$1" = "$2" ] || { printf 'is:        %s\nshould be: %s\n' "$1" "$2" >&2; return 1; }
}

# holds FILE TEXT: the content of the file is exactly the text and a newline.
holds() {
    printf '%s\n' "$2" | cmp - "$1"
}

# fails COMMAND...: the command must not succeed.
fails() {
    if "$@" 2>/dev/null; then echo "succeeded but should have failed: $*" >&2; return 1; fi
}

# bytes COUNT [SEED]: deterministic bytes without repetitions.
bytes() {
    awk -v n="$1" -v x="${2:-1}" 'BEGIN {
        for (i = 0; i * 8 < n + 8; i++) { x = (x * 1103515245 + 12345) % 2147483648; printf "%07x\n", x }
    }' | head -c "$1"
}

# tree DIR: a small tree with every kind of entry.
tree() {
    mkdir -p "$1/deep/er/still" "$1/empty"
    bytes 300000 7 >"$1/large"
    printf 'one line\n' >"$1/deep/small"
    : >"$1/deep/nothing"
    ln -s ../large "$1/deep/link"
    ln -s nowhere "$1/dangling"
    printf '#!/bin/sh\necho run\n' >"$1/deep/er/script"
    chmod 755 "$1/deep/er/script"
    chmod 640 "$1/large"
    touch -d '2021-03-04 05:06:07.123456789' "$1/large" "$1/deep/small"
    touch -d '2020-01-02 03:04:05' "$1/deep/er/still" "$1/deep/er" "$1/deep" "$1"
}

# describe DIR: types, modes, sizes, times of files in whole seconds, links and checksums of a tree.
describe() {
    (cd "$1" && find . -type f -printf '%m %s %T@ %P\n' | sed 's/\.[0-9]* / /' | sort -k 4 &&
        find . -type l -printf '%P %l\n' | sort && find . -type d -printf '%m %P\n' | sort -k 2 &&
        find . -type f -exec cksum {} + | sort -k 3)
}

# same_trees ONE OTHER
same_trees() {
    diff <(describe "$1") <(describe "$2") && diff -r --no-dereference "$1" "$2"
}

# run_tests: runs all functions test_*, or those in the environment variable TESTS.
run_tests() {
    local test outside failures=0
    exec {BASH_XTRACEFD}>&2
    for test in ${TESTS:-$(declare -F | sed -n 's/^declare -f \(test_.*\)/\1/p')}; do
        outside=$elsewhere/$test
        mkdir -p "$place/$test" "$outside" || exit 1
        (
            cd "$place/$test" || exit 1
            set -ex
            "$test"
        )
        # shellcheck disable=SC2181 # a condition would turn `set -e` off
        [ $? -eq 0 ] || { echo "FAILED $test" && failures=$((failures + 1)); }
    done
    [ $failures -eq 0 ]
}

# Shared functions of the package tests, to be sourced by them.
# shellcheck shell=bash
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck disable=SC2034
preload=$(dirname "${ESKER:?names the command}")/libesker_preload.so

passed=0 failed=0
# that NAME COMMAND...
that() {
    local name=$1
    shift
    if "$@" >"$work/output" 2>&1; then
        passed=$((passed + 1))
    else
        echo "FAILED: $name" && cat "$work/output"
        failed=$((failed + 1))
    fi
}

summary() {
    echo "$passed passed, $failed failed"
    [ "$failed" -eq 0 ]
}

# Like a user who has just installed it, with new pools.
with_pools() {
    local status
    pools=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo "$work")" esker-test.XXXXXX)
    env -u ESKER_PRELOAD ESKER_POOLS="$pools" "$@"
    status=$?
    rm -rf "$pools"
    return $status
}

run_a_program() {
    # shellcheck disable=SC2016
    with_pools bash -euc '"$1" pool create tank --size 128M --targets 2
        [ "$("$1" run tank/home --create -- sh -c "echo hi >/esker/a; cat /esker/a")" = hi ]' - "$1/bin/esker"
}

start_libdaos() {
    cat >"$work/start.c" <<END
#include <daos.h>
int main(void) { return daos_init() || daos_fini(); }
END
    "${CC:-cc}" -o "$work/start" "$work/start.c" -I"$1/include" -L"$1/lib" -ldaos -luuid &&
        LD_LIBRARY_PATH=$1/lib "$work/start"
}

# has_manual PREFIX NAME
has_manual() {
    local page
    page=$(echo "$1/share/man/man1/$2.1"*)
    gzip -cdf "$page" | grep -q '^\.TH'
}

completes_benchmarks() {
    grep -q mdtest "$1/share/bash-completion/completions/esker"
}

# uses PREFIX: tests what the installation at PREFIX is for.
uses() {
    that "a program runs on files of Esker" run_a_program "$1"
    that "a program builds on libdaos and starts" start_libdaos "$1"
    that "the command has a manual page" has_manual "$1" esker
    that "a benchmark has a manual page" has_manual "$1" esker-bench-array
    that "shells complete benchmarks" completes_benchmarks "$1"
    that "the command finds its benchmarks" "$1/bin/esker" bench array --help
}

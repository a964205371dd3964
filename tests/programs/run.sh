#!/usr/bin/env bash
# Runs real programs on files in a directory and compares their results with the expected ones.
#
# usage: run.sh DIR [NAME...]
#   DIR   a directory of the file system under test; each check works in its own directory below it
#   NAME  a check, without .sh, .py or .c; default: all
#
# Each check has a line: `ok`, `FAILED` with the path of its log, or `skipped` with what is missing. So has each test of a
# shell check that is skipped; it is counted as well.
# The status is 0 if no check failed.
#
# environment: WITH    a command that starts each check, as in WITH="esker run tank/home --"
#              WITHOUT names of tests of the C checks to be left out
#              PYTHON  the Python interpreter (default python3); CC, the C compiler (default cc)
#              LOGS    directory of logs and compiled programs (default: a new one in TMPDIR)
#              TAIL    lines shown of the log of a failed check (default 40)
#              LIMIT   time limit of a check in seconds (default 600), which only a hanging check reaches
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
[ $# -ge 1 ] || { sed -n '2,/^set/{s/^# \{0,1\}//p}' "$0" >&2; exit 2; }
target=$1
shift
logs=${LOGS:-$(mktemp -d "${TMPDIR:-/tmp}/esker-programs.XXXXXX")}
mkdir -p "$logs"
read -r -a with <<<"${WITH:-}"
passed=0 failed=0 skipped=0
# Under make, a make started by a check would report that it is a recursive one.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES

# Compiles one source with both sets of names, without and with 64, and with the variants that check lengths.
declare -A builds=([plain]=-O1 [large]="-O1 -D_FILE_OFFSET_BITS=64" [fortified]="-O2 -D_FORTIFY_SOURCE=2")

# in_place NAME COMMAND...: runs the command with a new directory under test and one outside of it.
in_place() {
    local name=$1 place=$target/$1.$$ outside=$logs/$1.out
    shift
    rm -rf "$outside"
    mkdir -p "$outside"
    "${with[@]}" mkdir -p "$place" || return 1
    timeout -k 5 "${LIMIT:-600}" "${with[@]}" "$@" "$place" "$outside"
    local status=$?
    [ $status -ne 0 ] || "${with[@]}" rm -rf "$place" || return 1
    return $status
}

build_and_run() {
    local name=$1 build flags
    for build in "${!builds[@]}"; do
        read -r -a flags <<<"${builds[$build]}"
        "${CC:-cc}" -std=gnu11 -g -Wall -Wextra -Werror -D_GNU_SOURCE "${flags[@]}" -o "$logs/$name-$build" \
            "$here/$name.c" -lpthread -lrt -ldl || return 1
        echo "=== $build"
        in_place "$name" "$logs/$name-$build" || return $?
    done
}

check() {
    local name=$1
    if [ -f "$here/$name.sh" ]; then
        in_place "$name" bash "$here/$name.sh"
    elif [ -f "$here/$name.py" ]; then
        in_place "$name" "${PYTHON:-python3}" -B "$here/$name.py"
    elif [ -f "$here/$name.c" ]; then
        command -v "${CC:-cc}" >/dev/null || { echo "${CC:-cc} is not installed"; return 77; }
        build_and_run "$name"
    else
        echo "no check has that name in $here"
        return 1
    fi
}

# skipped_tests LOG: shows and counts the tests that a check has skipped.
skipped_tests() {
    grep -a '^skipped test_' "$1" | sed 's/^/         /'
    skipped=$((skipped + $(grep -ac '^skipped test_' "$1")))
}

report() {
    local name=$1 log=$logs/$1.log
    check "$name" >"$log" 2>&1
    case $? in
        0) passed=$((passed + 1)) && echo "ok       $name" && skipped_tests "$log" ;;
        77) skipped=$((skipped + 1)) && echo "skipped  $name: $(tail -n 1 "$log")" ;;
        *)
            failed=$((failed + 1)) && echo "FAILED   $name: $log"
            grep -a '^FAILED' "$log" | sed 's/^/         /'
            tail -n "${TAIL:-40}" "$log" | sed 's/^/    | /'
            skipped_tests "$log"
            ;;
    esac
}

all_checks() {
    find "$here" -maxdepth 1 -name '*.sh' ! -name run.sh ! -name lib.sh -o -maxdepth 1 -name '*.c' \
        -o -maxdepth 1 -name '*.py' ! -name lib.py | sed 's|.*/||; s|\.[a-z]*$||' | sort
}

names=("$@")
[ $# -gt 0 ] || mapfile -t names < <(all_checks)
for name in "${names[@]}"; do
    report "$name"
done
echo "$passed passed, $failed failed, $skipped skipped; logs in $logs"
[ "$failed" -eq 0 ]

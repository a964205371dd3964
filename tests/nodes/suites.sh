# shellcheck shell=bash
# The tests of files, fields, tensors and Python on the pool over hosts, from a host of the pool and from another one.
# Sourced by run.sh.
#
# environment: ESKER_SUITES, a directory with the tests of crates/dfs, fields and tensors as cargo built them, called
#              CRATE-TEST; ESKER_PYTHON, a Python in which the package esker and pytest are installed;
#              ESKER_REFERENCE_ROUNDS and ESKER_TORTURE_ROUNDS, how long they last; ESKER_ALL_SUITES, if set, has all
#              of them run from both hosts

: "${here:?the directory of the tests}" "${work:?a scratch directory}" "${dir:?that of pools}"

# count WORD FILE: the sum of the numbers before a word in the summaries of cargo or pytest.
count() {
    tr -d ',;' <"$2" | awk -v word="$1" '
        /^test result: |^[0-9]+ (passed|failed|skipped|errors?) / {
            for (at = 1; at < NF; at++) if ($(at + 1) == word) sum += $at
        }
        END { print sum + 0 }'
}

# suite WHAT HOST COMMAND...: runs tests on a host, and counts each of them. Those that are skipped are listed.
suite() {
    local what=$1 host=$2 good bad left
    shift 2
    : >"$work/skipped"
    on "$host" env ESKER_TEST_NODES="nodes:$dir/tank.map" ESKER_TEST_SKIPPED="$work/skipped" \
        ESKER_REFERENCE_ROUNDS="${ESKER_REFERENCE_ROUNDS:-5}" ESKER_TORTURE_ROUNDS="${ESKER_TORTURE_ROUNDS:-2}" \
        "$@" >"$work/log" 2>&1
    local status=$?
    grep '^SKIPPED' "$work/log" >>"$work/skipped"
    good=$(count passed "$work/log") bad=$(count failed "$work/log")
    left=$(($(grep -c '^skipped' "$work/skipped") + $(count skipped "$work/log")))
    # Cargo counts them as passed.
    good=$((good - $(grep -c '^skipped' "$work/skipped")))
    [ $status = 0 ] || [ "$bad" -gt 0 ] || bad=1
    passed=$((passed + good)) failed=$((failed + bad)) skipped=$((skipped + left))
    if [ $status = 0 ]; then
        echo "ok      $what, on $host: $good, $left skipped"
        sed 's/^/        /' "$work/skipped"
    else
        echo "FAILED  $what, on $host" && sed 's/^/        /' "$work/log"
    fi
}

# Suites that run from another host too, unless all do.
elsewhere=(dfs-killed dfs-namespace dfs-reference fields-killed fields-store tensors-killed tensors-store)
python_elsewhere=(test_array.py test_kv.py test_processes.py test_transactions.py)

# suites_on HOST SUITE...: the suites of Rust.
suites_on() {
    local host=$1 name
    shift
    for name in "$@"; do
        suite "${name/-/: }" "$host" "$ESKER_SUITES/$name" --quiet
    done
}

# python_on HOST FILE...: the tests of the Python package.
python_on() {
    local host=$1
    shift
    # shellcheck disable=SC2016 # The shell on the host expands it.
    suite Python "$host" sh -c 'cd "$0" && exec "$@"' "$here/../../python/tests" \
        "$ESKER_PYTHON" -B -m pytest -rs --rootdir . -c ../pyproject.toml "$@"
}

suites() {
    if [ -d "${ESKER_SUITES:-}" ]; then
        local all
        mapfile -t all < <(ls "$ESKER_SUITES")
        [ -z "${ESKER_ALL_SUITES:-}" ] || elsewhere=("${all[@]}")
        suites_on h1 "${all[@]}"
        suites_on h4 "${elsewhere[@]}"
    fi
    if [ -n "${ESKER_PYTHON:-}" ]; then
        [ -z "${ESKER_ALL_SUITES:-}" ] || python_elsewhere=(.)
        python_on h1 .
        python_on h4 "${python_elsewhere[@]}"
    fi
    [ -n "${ESKER_PYTHON:-}" ] || skip Python "no package is installed in build/test/python (scripts/test-python.sh)"
}

#!/usr/bin/env bash
# Scripts for contributors refuse what they must not do, and notice what fails.
#
# environment: ESKER, the command
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: "${ESKER:?names the command}"

# shellcheck source=tests/checks.sh
. tests/checks.sh

# A folder like /etc/ceph.
foreign_cluster_stays() {
    mkdir -p "$work/etc/mon" && echo "[global]" >"$work/etc/ceph.conf" && touch "$work/etc/keyring" || return
    ! scripts/ceph.sh down "$work/etc" && [ -e "$work/etc/ceph.conf" ] && [ -e "$work/etc/keyring" ] && [ -d "$work/etc/mon" ]
}

existing_folder_keeps_its_mode() {
    mkdir -m 755 "$work/shared"
    # It fails, because there are no daemons, or afterwards.
    mkdir -p "$work/bin" && for tool in ceph-mon ceph-osd ceph rados ceph-authtool; do ln -sf /bin/false "$work/bin/$tool"; done
    ! PATH=$work/bin:$PATH scripts/ceph.sh up "$work/shared" && [ "$(stat -c %a "$work/shared")" = 755 ]
}

# A program that ends without a message, and the second of four processes fails.
failing_programs_are_reported() {
    mkdir -p "$work/programs/bin" && cat >"$work/programs/bin/mpirun" <<'END'
#!/bin/sh
exit 9
END
    chmod 755 "$work/programs/bin/mpirun"
    local name
    for name in ior mdtest; do ln -s /bin/true "$work/programs/$name"; done
    cat >"$work/programs/write" <<'END'
#!/bin/sh
case $3 in *20260101*) exit 1 ;; esac
END
    chmod 755 "$work/programs/write" && ln -s write "$work/programs/read"
    PATH=$work/programs/bin:$PATH ESKER_POOLS=$work/pools scripts/genuine.sh \
        ior="$work/programs" field-io="$work/programs" >"$work/table" 2>"$work/errors"
    [ $? = 1 ] && cat "$work/table" && ! grep '^passed' "$work/table" && grep -q '0 passed, 9 failed' "$work/table"
}

# stub PATH: a script with the content of the input.
stub() {
    mkdir -p "$(dirname "$1")" && cat >"$1" && chmod 755 "$1"
}

# A suite that reports a failed test, and nevertheless ends with status 0.
counted_failures_are_reported() {
    local copy=$work/repository name
    for name in bin/cargo scripts/lay-out-library.sh scripts/ceph.sh; do stub "$copy/$name" <<<'#!/bin/sh' || return; done
    cp scripts/test.sh "$copy/scripts/" && stub "$copy/tests/abi/run.sh" <<'END' || return
#!/bin/sh
echo "1 passed, 1 failed, 0 skipped"
END
    PATH=$copy/bin:$PATH ESKER_TEST_REQUIRE='' "$copy/scripts/test.sh" c >"$work/summary"
    [ $? = 1 ] && grep -q '^FAILED .*tests/abi/run.sh: 1 passed, 1 failed, 0 skipped$' "$work/summary" &&
        grep -qx '1 passed, 1 failed, 0 skipped' <(tail -n 1 "$work/summary")
}

# A test of a check that lacks a program, while the others of the check run.
skipped_tests_of_programs_are_counted() {
    local copy=$work/checks
    mkdir -p "$copy" "$work/under-test" && cp tests/programs/{run,lib}.sh "$copy/" && cat >"$copy/example.sh" <<'END' || return
. "$(dirname "$0")/lib.sh"
test_with() { has sh; }
test_without() {
    has no-such-program || return 0
    false
}
run_tests
END
    LOGS=$work/logs "$copy/run.sh" "$work/under-test" >"$work/summary" &&
        grep -qx ' *skipped test_without: no-such-program is not installed' "$work/summary" &&
        grep -q '^1 passed, 0 failed, 1 skipped; ' "$work/summary"
}

unknown_commit_is_refused() {
    ! scripts/quick.sh no-such-commit
}

that "the configuration of another cluster is not removed" foreign_cluster_stays
that "a folder that exists keeps its mode" existing_folder_keeps_its_mode
with jq "programs that fail are reported" failing_programs_are_reported
that "failures that a suite counts are reported, whatever its status" counted_failures_are_reported
that "skipped tests of programs are counted" skipped_tests_of_programs_are_counted
that "changes since an unknown commit cannot be checked" unknown_commit_is_refused
summary

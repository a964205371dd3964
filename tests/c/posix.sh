#!/usr/bin/env bash
# Runs the C programs of this directory on a posix pool, in the environment of run.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
parent=$(mktemp -d "${TMPDIR:-/tmp}/esker-c-posix.XXXXXX")
trap 'rm -rf "$parent"' EXIT
"${ESKER:?names the command}" pool create "posix:$parent/test" >/dev/null
ESKER_TEST_POOL=posix:$parent/test "$here/run.sh"
"$ESKER" pool check "posix:$parent/test"

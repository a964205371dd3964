#!/usr/bin/env bash
# Runs the C programs of this folder on a pool of plain files, in the environment of run.sh.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
place=$(mktemp -d "${TMPDIR:-/tmp}/esker-c-posix.XXXXXX")
trap 'rm -rf "$place"' EXIT
"${ESKER:?names the command}" pool create "posix:$place/test" >/dev/null
ESKER_TEST_POOL=posix:$place/test "$here/run.sh"
"$ESKER" pool check "posix:$place/test"

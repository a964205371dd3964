#!/usr/bin/env bash
# Runs a command with a pool for the tests of daos: pools, in ESKER_TEST_DAOS. Unless the environment names one of a
# genuine system, it is a pool of Esker that is reached through Esker's own libdaos, as if that were DAOS's.
# usage: daos.sh COMMAND...
# environment: ESKER and LIBDAOS, the tool and the library to use; by default those of the last debug build.
#              ESKER_TEST_DAOS, the URL of a pool of a genuine system, in which everything is destroyed.
set -euo pipefail
root=$(dirname "$0")/..
[ $# -gt 0 ] || { sed -n 's/^# \{0,1\}//; 2,/^set/ { /^set/d; p }' "$0" >&2 && exit 2; }
[ -z "${ESKER_TEST_DAOS:-}" ] || exec "$@"

built=${CARGO_TARGET_DIR:-$root/target}/debug
tool=$(realpath "${ESKER:-$built/esker}")
library=$(realpath "${LIBDAOS:-$built/libdaos.so}")
folder=$(mktemp -d /dev/shm/esker-daos.XXXXXX)
trap 'rm -rf "$folder"' EXIT
export ESKER_POOLS=$folder
"$tool" pool create standin --size 1G --targets 4 >/dev/null
export ESKER_TEST_DAOS=daos:standin ESKER_LIBDAOS=$library ESKER_LIBDAOS_OWN=allow ESKER_DAOS_STRICT=1
"$@"

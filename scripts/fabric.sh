#!/usr/bin/env bash
# Runs the conformance suite over the fabric, by each provider of libfabric that every machine has: engines and client are
# processes of this machine.
# environment: ESKER_SEED, the seed of all random choices
#              ESKER, the command, and ESKER_OVER_NODES, the test `over_nodes` of crates/client; built unless given
set -euo pipefail
cd "$(dirname "$0")/.."

if ! PATH=$PATH:/sbin ldconfig -p | grep -F libfabric.so.1 >/dev/null; then
    echo "libfabric is missing (scripts/setup.sh fabric)"
    echo "1 skipped"
    exit
fi

# The program of the test, as cargo built it.
over_nodes() {
    cargo test --workspace --test over_nodes --no-run 2>&1 | sed -n 's/.*Executable.*(\(.*\))$/\1/p'
}

if [ -z "${ESKER:-}" ]; then
    cargo build-for-tests --quiet
    ESKER=${CARGO_TARGET_DIR:-target}/debug/esker
fi
ESKER_OVER_NODES=${ESKER_OVER_NODES:-$(over_nodes)}

dir=$(mktemp -d /dev/shm/esker-fabric.XXXXXX)
export ESKER_POOLS=$dir
finish() {
    "$ESKER" pool destroy --force tank >/dev/null || true
    rm -rf "$dir"
}
trap finish EXIT
"$ESKER" pool create tank --size 256M --targets 2 --launcher local --nodes 2 --transport fabric
for provider in "tcp;ofi_rxm" shm; do
    echo "--- $provider"
    FI_PROVIDER=$provider ESKER_NODE=none ESKER_TEST_NODES=nodes:$dir/tank.map \
        "$ESKER_OVER_NODES" the_pool_of_the_environment
done

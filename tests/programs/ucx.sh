#!/usr/bin/env bash
# Shared mappings in programs of Open MPI and MPICH on UCX, which replaces mmap and munmap by its own functions.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
source_file=$(cd "$(dirname "$0")" && pwd)/mpi/mapped.c
need mpicc.openmpi mpicc.mpich ompi_info
has_mpi openmpi || { echo "the headers of Open MPI are not installed"; exit 77; }
ompi_info | grep -q 'MCA pml: ucx' || { echo "Open MPI has no UCX"; exit 77; }
mpichversion | grep -qi 'device:.*ucx' || { echo "MPICH has no UCX"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl_vader_single_copy_mechanism=none
# Selects UCX although no network for it is present.
export OMPI_MCA_pml=ucx OMPI_MCA_pml_ucx_tls=any OMPI_MCA_pml_ucx_devices=any OMPI_MCA_opal_common_ucx_tls=any
export OMPI_MCA_opal_common_ucx_devices=any

# mapped FLAVOUR: the files have the bytes that a program wrote into its mappings.
mapped() {
    mpicc."$1" -std=gnu11 -D_GNU_SOURCE -O1 -Wall -o "$outside/mapped" "$source_file"
    is "$(timeout 60 mpirun."$1" -np 1 "$outside/mapped" "$PWD" | tail -n 1)" unmapped
    is "$(tr -d b <before | wc -c) $(wc -c <before)" "0 65536"
    is "$(tr -d a <after | wc -c) $(wc -c <after)" "0 65536"
}

test_openmpi() { mapped openmpi; }
test_openmpi_tables() { UCX_MEM_MMAP_HOOK_MODE=reloc mapped openmpi; }
test_mpich() { mapped mpich; }

run_tests

#!/usr/bin/env bash
# MPI-IO with both implementations of Open MPI (OMPIO, ROMIO) and with MPICH's ROMIO, and parallel HDF5 if installed.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
source_file=$(cd "$(dirname "$0")" && pwd)/mpi/parallel.c
has_mpi openmpi || has_mpi mpich || { echo "neither Open MPI nor MPICH is installed"; exit 77; }
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none

# built FLAVOUR: builds the program, with HDF5 of that flavour if it is installed.
built() {
    local hdf5
    hdf5=$(find /usr/lib/*/hdf5/"$1" -maxdepth 1 -name libhdf5.so 2>/dev/null | head -n 1)
    mpicc."$1" -std=gnu11 -O1 -Wall ${hdf5:+-DWITH_HDF5 -I"/usr/include/hdf5/$1"} -o "$outside/parallel" "$source_file" \
        ${hdf5:+"$hdf5"}
}

# compared FLAVOUR RANKS OPTION...
compared() {
    local flavour=$1 ranks=$2
    shift 2
    has_mpi "$flavour" || { skip "the headers of $flavour are not installed"; return 0; }
    built "$flavour"
    is "$(mpirun."$flavour" "$@" -np "$ranks" "$outside/parallel" "$PWD" | grep -c '^compared$')" 1
}

test_openmpi_ompio() { compared openmpi 2 --mca io ompio; }
test_openmpi_romio() { compared openmpi 2 --mca io romio321; }
test_openmpi_four() { compared openmpi 4; }
test_mpich() { compared mpich 2; }
test_mpich_four() { compared mpich 4; }

run_tests

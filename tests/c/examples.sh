#!/usr/bin/env bash
# Builds the examples for esker.h in C and Fortran and runs them on a pool; with MPI, by four processes. The command line
# reads what they have stored.
#
# environment: as for run.sh
set -uo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$here/../..
include=${ESKER_INCLUDE:-$root/include}
library=${ESKER_LIB:-$root/build/test/lib}
work=$(mktemp -d)
place=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo "$work")" esker-examples.XXXXXX)
trap 'rm -rf "$work" "$place"' EXIT
export ESKER_POOLS=$place
export LD_LIBRARY_PATH=$library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
# Open MPI refuses to run as root, or more processes than there are cores.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none
"${ESKER:?names the command}" pool create tank --dir "$place" --size 256M >/dev/null || exit 1

# shellcheck source=tests/checks.sh
. "$here/../checks.sh"

# built COMPILER NAME FLAG...
built() {
    local compiler=$1 name=$2
    shift 2
    "$compiler" -std=gnu11 -O1 -Wall -Wextra -Werror "$@" -I"$include" -o "$work/$name" "$root/examples/c/$name.c" \
        -L"$library" -ldaos -luuid
}

# is EXPECTED COMMAND...: the command prints that.
is() {
    local expected=$1 found
    shift
    found=$("$@") || return
    [ "$found" = "$expected" ] || { printf '%s\n' "expected: $expected" "found: $found" && return 1; }
}

grib_fields() {
    printf 'GRIB\0\0\x10\x02\0\0\0\0\0\0\0\x147777' >"$work/one.grib"
    cat "$work/one.grib" "$work/one.grib" >"$work/two.grib"
    built "${CC:-cc}" fields &&
        "$work/fields" write --repeat 3 tank grib "$work/one.grib" "$work/two.grib" &&
        "$work/fields" read tank grib "$work/two.grib" &&
        is 3 count_fields tank/grib && ! "$work/fields" read tank grib "$root/examples/c/fields.c"
}

count_fields() {
    "$ESKER" fields list --store "$1" | wc -l
}

# waits_for FOLLOWER TEXT: waits until the program has printed the text; fails if it ends before.
waits_for() {
    until grep -q "$2" "$work/followed"; do
        kill -0 "$1" || return
        sleep 0.1
    done
}

# Another process writes a field while the program runs.
follows_new_fields() {
    waits_for "$1" 'one.grib.*: 20 bytes' && cp "$work/one.grib" "$work/three.grib" &&
        "$work/fields" write tank grib "$work/three.grib" >/dev/null &&
        waits_for "$1" 'three.grib.*: 20 bytes, sum ' && grep -q '^message: 1$' "$work/followed"
}

# A field that is there, and one that is written later. The program ends if no field comes.
followed_fields() {
    local follower status
    built "${CC:-cc}" follow || return
    "$work/follow" --seconds 120 tank grib message=1 >"$work/followed" &
    follower=$!
    follows_new_fields "$follower"
    status=$?
    kill "$follower"
    wait "$follower"
    [ $status = 0 ] && "$work/follow" --seconds 1 tank grib message=1 >"$work/followed"
}

# shape POOL/CONT NAME: the lengths of a tensor.
shape() {
    "$ESKER" tensor list "$1" | awk -v name="$2" '$1 == name { print $4, $5, $6 }'
}

one_process() {
    built "${CC:-cc}" tensors && "$work/tensors" tank alone t && is "25 x 360" shape tank/alone t
}

skeleton() {
    built "${CC:-cc}" skeleton && "$work/skeleton" --cycles 20 --rows 16 tank skeleton >"$work/told" &&
        grep -q '^1 process, 20 cycles, 4 I/O phases$' "$work/told" && is "16 x 1024" shape tank/skeleton state
}

four_processes() {
    built mpicc tensors -DWITH_MPI && mpirun -n 4 "$work/tensors" tank job t && is "100 x 360" shape tank/job t
}

skeleton_of_four() {
    built mpicc skeleton -DWITH_MPI && mpirun -n 4 "$work/skeleton" --cycles 10 --rows 16 tank crowd >"$work/told" &&
        grep -q '^4 processes, 10 cycles, 2 I/O phases$' "$work/told" && is "64 x 1024" shape tank/crowd state
}

fortran() {
    gfortran -std=f2018 -Wall -Wextra -Werror -J "$work" -o "$work/fortran" "$include/esker.f90" \
        "$root/examples/fortran/fields.f90" -L"$library" -ldaos -luuid && "$work/fortran" tank ff ft >"$work/told" &&
        cmp "$work/told" - <<END && is 3 count_fields tank/ff && is "6 x 4" shape tank/ft t2m
run=a,type=fc,step=0: 192 bytes
run=a,type=fc,step=12: 192 bytes
run=a,type=fc,step=6: 192 bytes
step 7: 1 of 1 fields are missing: run=a,type=fc,step=7
t2m: 12.0 13.0 14.0 62.0 63.0 64.0
END
}

# The calls of the module that the example leaves out.
fortran_calls() {
    gfortran -std=f2018 -Wall -Wextra -Werror -J "$work" -o "$work/calls" "$include/esker.f90" "$here/stores.f90" \
        -L"$library" -ldaos -luuid && "$work/calls" tank cf ct
}

# A failure ends the program with its text, also before a pool is open.
fortran_failure() {
    ! "$work/fortran" nowhere ff ft 2>"$work/refused" && grep -q '^nowhere/ff: The entity does not exist' "$work/refused"
}

that "fields.c" grib_fields
that "follow.c" followed_fields
that "tensors.c" one_process
that "skeleton.c" skeleton
with mpicc "tensors.c by four processes" four_processes
with mpicc "skeleton.c by four processes" skeleton_of_four
with gfortran "fields.f90" fortran
with gfortran "fields.f90 without a pool" fortran_failure
with gfortran "the other calls of esker.f90" fortran_calls

summary

# shellcheck shell=bash
# Benchmarks of parallel file systems under MPICH: IOR, mdtest, IO500 and Field I/O, a rank on each of four hosts, over a
# pool on three of them. Each rank compares the bytes that it reads with those that another rank wrote. Sourced by run.sh.
#
# ior, mdtest and io500 are those on the PATH, if they were built with MPICH; with DAOS's backend (DFS) too, they reach
# the pool in both ways. FIELD_IO_SRC is a checkout of ecmwf-projects/daos-tests.
: "${here:?the directory of the tests}" "${work:?a scratch directory}" "${dir:?that of pools}"

# under_mpi COMMAND...: four ranks, one on each host.
under_mpi() {
    on h1 env HYDRA_LAUNCHER_EXEC="$here/ssh" LD_LIBRARY_PATH="$ESKER_LIB" \
        mpiexec.hydra -launcher ssh -hosts h1,h2,h3,h4 -np 4 "$@"
}

# under_mpi_run CONTAINER COMMAND...: the same, under `esker run`.
under_mpi_run() {
    local container=$1
    shift
    under_mpi "$ESKER" run "tank/$container" -- "$@"
}

# uncomplaining COMMAND...: the command succeeds and reports no error. IOR and mdtest end with 0 after many errors.
uncomplaining() {
    local printed
    printed=$("$@" 2>&1) || { echo "$printed" && return 1; }
    ! grep -E 'WARNING|ERROR|FAILED|rror' <<<"$printed"
}

# Files of each rank in small odd pieces, and one file of all; each rank reads what the one before it wrote.
ior_files() {
    uncomplaining "$@" -F -t 47008 -b 47008 -s 3 -w -W -r -R -C -e -i 2 &&
        uncomplaining "$@" -t 1m -b 3m -s 2 -w -W -r -R -C -e -i 2
}

ior_dfs() {
    ior_files under_mpi ior -a DFS --dfs.pool tank --dfs.cont "$1" --dfs.oclass "$1" -o /ior
}

ior_posix() {
    ior_files under_mpi_run "$1" ior -a POSIX -o /esker/ior &&
        uncomplaining under_mpi_run "$1" ior -a MPIIO -c -o /esker/mpi-io -t 47008 -b 47008 -s 2 -w -W -r -R -C
}

# A tree of all ranks, and a directory for each. A rank examines, reads and removes the files of another rank.
mdtest_trees() {
    uncomplaining "$@" -n 6 -z 1 -b 2 -N 1 -w 3901 -e 3901 -X &&
        uncomplaining "$@" -n 6 -u -N 1 -w 3901 -e 3901 -X
}

mdtest_dfs() {
    mdtest_trees under_mpi mdtest -a DFS --dfs.pool tank --dfs.cont "$1" --dfs.oclass "$1" --dfs.dir_oclass "$1" -d /mdtest
}

mdtest_posix() {
    mdtest_trees under_mpi_run "$1" mdtest -a POSIX -d /esker/mdtest
}

# io500_settings NAME DATA [API]: little data, so that all phases end long before the time limit. Its find, which does not
# support DFS, searches names that contain 01, such as that of the 102nd file of a rank.
io500_settings() {
    mkdir -p "$work/$1"
    cat <<END
[global]
datadir = $2
resultdir = $work/$1
timestamp-datadir = FALSE
timestamp-resultdir = FALSE
${3:+api = $3}
[debug]
stonewall-time = 30
[ior-easy]
blockSize = 4m
[ior-hard]
segmentCount = 20
[mdtest-easy]
n = 4
[mdtest-hard]
n = $([ -n "${3:-}" ] && echo 4 || echo 102)
[ior-rnd4K-easy-read]
run = FALSE
[find]
run = $([ -n "${3:-}" ] && echo FALSE || echo TRUE)
END
}

# complete_io500 COMMAND...: all phases ran, and the only complaint is that it was too short to be valid.
complete_io500() {
    local printed complaints
    printed=$("$@" 2>&1) || { echo "$printed" && return 1; }
    complaints=$(grep -E 'WARNING|ERROR|FAILED|rror' <<<"$printed" | grep -vE 'ERROR INVALID .*([Ss]tonewall|[Rr]untime|score)')
    [[ -z $complaints && $printed == *"[SCORE"* ]] || { echo "$printed" && return 1; }
}

io500_dfs() {
    io500_settings "$1-dfs" /io500 \
        "DFS --dfs.pool=tank --dfs.cont=$1 --dfs.oclass=$1 --dfs.dir_oclass=$1" >"$work/io500.ini" &&
        complete_io500 under_mpi io500 "$work/io500.ini"
}

io500_posix() {
    io500_settings "$1-posix" /esker/io500 >"$work/io500.ini" &&
        complete_io500 under_mpi_run "$1" io500 "$work/io500.ini" &&
        grep -q '^found *= *4$' "$work/$1-posix/result.txt"
}

# The fields of `esker bench field-io`.
own_field_io() {
    under_mpi "$ESKER" bench field-io --pool tank --rendezvous "$work/meet.$1" --procs 1 --ops 3 --repeat 1 \
        --mode full,no-index --pattern A,B --contention high --class-array "$1" --verify
}

# field_io_tool TOOL SHIFT ARGUMENT...: each rank works on the fields of the rank that is SHIFT after it, its WRITER.
field_io_tool() {
    # shellcheck disable=SC2016 # Each rank expands it.
    under_mpi bash -c 'tool=$1 writer=$(((PMI_RANK + $2) % 4))
        shift 2
        exec "$tool" fields c1 "{\"class\":\"od\",\"date\":\"2026010$writer\"}" "{\"param\":\"t\"}" "${@//WRITER/$writer}"' - "$@"
}

# Four hosts write fields, each reads those of the next one, and all bytes are compared.
field_io() {
    local class=$1 mode=$2 built=$work/field-io.$1.$2 fields=3
    build_field_io "$mode" "$ESKER_INCLUDE" "$class" "$built" &&
        "${CC:-cc}" -I"$ESKER_INCLUDE" "$here/../c/field_io/equal.c" -o "$built/equal" -L"$ESKER_LIB" -ldaos -luuid &&
        esker_on h1 pool create fields --size 64M --targets 2 --hosts h1,h2,h3,h4 --launcher ssh --dir "$dir" &&
        esker_on h2 cont create fields c1 &&
        head -c 1048576 /dev/urandom >"$built/field" &&
        field_io_tool "$built/write" 0 "$built/field" 1 $fields 1 $fields 0 0 0 WRITER 0 &&
        field_io_tool "$built/read" 1 "$built/unused" $fields 1 $fields 0 0 0 WRITER 1 0 &&
        prints "$((4 * fields)) Arrays are equal" on h3 env LD_LIBRARY_PATH="$ESKER_LIB" "$built/equal" fields "$built/field" &&
        esker_on h1 pool destroy --recursive fields
}

# at_hand PROGRAM: it is on the PATH, and was built with MPICH.
at_hand() {
    command -v "$1" >/dev/null && [[ $(ldd "$(command -v "$1")") == *libmpich* ]]
}

has_dfs() {
    [[ $(ldd "$(command -v "$1")") == *libdaos* ]]
}

benchmarks_of_class() {
    local class=$1 program mode
    check "a file system of class $class" esker_on h4 cont create tank "$class" --type posix --class "$class"
    for program in ior mdtest io500; do
        if at_hand $program; then
            check "$program under esker run and MPI, $class" ${program}_posix "$class"
        else
            skip "$program under esker run and MPI, $class" "none that was built with MPICH is on the PATH"
        fi
        if at_hand $program && has_dfs $program; then
            check "$program over DFS and MPI, $class" ${program}_dfs "$class"
        else
            skip "$program over DFS and MPI, $class" "none that was built with MPICH and DAOS is on the PATH"
        fi
    done
    check "esker bench field-io under MPI, $class" own_field_io "$class"
    for mode in full no-containers; do
        if [ -n "${FIELD_IO_SRC:-}" ]; then
            check "Field I/O under MPI, $mode, $class" field_io "$class" $mode
        else
            skip "Field I/O under MPI, $mode, $class" "FIELD_IO_SRC is not set"
        fi
    done
}

benchmarks() {
    benchmarks_of_class S1
    benchmarks_of_class SX
    check "they left a sound pool" esker_on h1 pool check tank
}

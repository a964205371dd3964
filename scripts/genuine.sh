#!/usr/bin/env bash
# Runs programs that other projects wrote, as somebody has built them, on an installed Esker. Prints a table with a line for
# each check. It builds and fetches nothing: docs/genuine.md says how the programs are built.
#
# usage: genuine.sh [--json] [--posix] PROGRAM[@VERSION]=FOLDER...
#   PROGRAM  ior (also mdtest), io500, field-io, fdb or h5bench
#   VERSION  is printed in the table
#   FOLDER   has the programs of PROGRAM, itself or in its subfolder bin
#   --json   prints a line of JSON for each check instead
#   --posix  runs them on a pool of plain files (posix:) instead of a native pool
# environment: GRIB, a file with GRIB messages for fdb; ESKER, the command, if it is not on the PATH; RANKS, the number of
#   processes under mpirun (2)
# The exit status is 1 if a check has failed, and 2 for wrong arguments. Programs that are not given are listed as skipped.
set -euo pipefail

known=(ior io500 field-io fdb h5bench)
declare -A folders versions
json='' posix='' passed=0 failed=0 skipped=0 ranks=${RANKS:-2}

wrong() {
    echo "genuine.sh: $1" >&2
    sed -n '/^# usage/,/^#   --posix/s/^# \{0,1\}//p' "$0" >&2
    exit 2
}

for word in "$@"; do
    if [ "$word" = --json ]; then
        json=1
        continue
    elif [ "$word" = --posix ]; then
        posix=1
        continue
    fi
    name=${word%%=*} folder=${word#*=}
    program=${name%%@*}
    [[ $word = *=* && " ${known[*]} " = *" $program "* ]] || wrong "'$word' is not PROGRAM[@VERSION]=FOLDER"
    [ -d "$folder" ] || wrong "$folder is not a folder"
    folders[$program]=$(realpath "$folder")
    versions[$program]=$([ "$name" = "$program" ] || echo "${name#*@}")
done

esker=$(command -v "${ESKER:-esker}") || wrong "esker is not on the PATH, and ESKER does not name it"
base=/dev/shm
[ -w $base ] || base=${TMPDIR:-/tmp}
work=$(mktemp -d "$base/esker-genuine.XXXXXX")
trap '"$esker" pool destroy genuine --force >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
library=$(dirname "$(dirname "$(realpath "$esker")")")/lib
export ESKER_POOLS=$work LD_LIBRARY_PATH=$library${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
if [ -n "$posix" ]; then
    "$esker" pool create "posix:$work/genuine" >/dev/null
else
    "$esker" pool create genuine --dir "$work" --size 2G >/dev/null
fi

# program NAME COMMAND: the path of a command of a program.
program() {
    local place
    for place in "${folders[$1]}/bin/$2" "${folders[$1]}/$2"; do
        if [ -x "$place" ]; then
            echo "$place"
            return
        fi
    done
    echo "${folders[$1]} has no program $2" >&2
    return 1
}

# line RESULT PROGRAM REACHED-BY WHAT SECONDS
line() {
    local version=${versions[$2]:-}
    if [ -n "$json" ]; then
        printf '{"result":"%s","program":"%s","version":"%s","reached_by":"%s","what":"%s","seconds":%d}\n' \
            "$1" "$2" "$version" "$3" "$4" "$5"
    else
        printf '%-8s %-9s %-10s %-12s %-60s %4d s\n' "$1" "$2" "$version" "$3" "$4" "$5"
    fi
}

# check PROGRAM REACHED-BY WHAT COMMAND...: shows the output of a command that fails. The command does not run inside a
# condition, which would make it go on after errors.
check() {
    local name=$1 reached=$2 what=$3 start=$SECONDS status
    shift 3
    set +e
    (set -e; "$@") >"$work/log" 2>&1 </dev/null
    status=$?
    set -e
    if [ "$status" = 0 ]; then
        passed=$((passed + 1))
        line passed "$name" "$reached" "$what" $((SECONDS - start))
    else
        failed=$((failed + 1))
        line FAILED "$name" "$reached" "$what" $((SECONDS - start))
        sed 's/^/    /' "$work/log" >&2
    fi
}

# Starts the processes of a program that uses MPI.
mpi=(mpirun -n "$ranks")

# under_run CONTAINER COMMAND...: with the file system of the container at /esker.
under_run() {
    local container=$1
    shift
    "$esker" run --create "genuine/$container" -- "$@"
}

# says TEXT COMMAND...: the command succeeds, and a line of its output contains the text.
says() {
    local text=$1
    shift
    "$@" 2>&1 | tee "$work/said"
    grep -F -- "$text" "$work/said" >/dev/null
}

# without TEXT COMMAND...: the command succeeds, and no line of its output contains the text.
without() {
    local text=$1
    shift
    "$@" 2>&1 | tee "$work/said"
    ! grep -iF -- "$text" "$work/said" >/dev/null
}

# IOR and mdtest check what they read and count errors, and end with success all the same.
ior() {
    local ior mdtest
    ior=$(program ior ior) mdtest=$(program ior mdtest)
    "$esker" cont create genuine ior --type posix >/dev/null
    local dfs=(-a DFS --dfs.pool genuine --dfs.cont ior)
    local easy=(-t 1m -b 16m -w -W -r -R -C -e) hard=(-t 47008 -b 47008 -s 200 -w -W -r -R -C)
    local tree=(-n 200 -w 3901 -e 3901 -u -X)
    check ior libdaos "ior, a file of 16 MiB for each process" without error "${mpi[@]}" "$ior" "${dfs[@]}" "${easy[@]}" -F -o /easy
    check ior libdaos "ior, records of 47,008 bytes in one file" without error "${mpi[@]}" "$ior" "${dfs[@]}" "${hard[@]}" -o /hard
    check ior libdaos "mdtest, 200 files of 3,901 bytes for each process" without error "${mpi[@]}" "$mdtest" "${dfs[@]}" "${tree[@]}" -d /tree
    check ior "esker run" "ior, a file of 16 MiB for each process" without error under_run ior "${mpi[@]}" "$ior" "${easy[@]}" -F -o /esker/easy
    check ior "esker run" "ior, records of 47,008 bytes in one file" without error under_run ior "${mpi[@]}" "$ior" "${hard[@]}" -o /esker/hard
    check ior "esker run" "mdtest, 200 files of 3,901 bytes for each process" without error under_run ior "${mpi[@]}" "$mdtest" "${tree[@]}" -d /esker/tree
}

# The whole of IO500 with phases that end after a second; its score is not valid, but its data are checked.
io500_config() {
    cat <<END
[global]
datadir = $1
resultdir = $work/results
timestamp-resultdir = FALSE
verbosity = 1
$2
[debug]
stonewall-time = 1
[ior-easy]
blockSize = 64m
[ior-hard]
segmentCount = 500
[mdtest-easy]
n = 300
[mdtest-hard]
n = 200
END
}

io500() {
    local io500
    io500=$(program io500 io500)
    mkdir -p "$work/results"
    io500_config /esker/io500 "" >"$work/files.ini"
    check io500 "esker run" "all phases, stonewall 1 s" says "[SCORE ]" under_run io500 "${mpi[@]}" "$io500" "$work/files.ini"
    "$esker" cont create genuine io500-dfs --type posix >/dev/null
    io500_config /io500 "api = DFS --dfs.pool=genuine --dfs.cont=io500-dfs" >"$work/dfs.ini"
    printf '[%s]\nrun = FALSE\n' find-easy find find-hard >>"$work/dfs.ini"
    check io500 libdaos "all phases but find, which reads files, stonewall 1 s" says "[SCORE ]" "${mpi[@]}" "$io500" "$work/dfs.ini"
}

# side_by_side COMMAND...: runs four processes with their number in place of PROCESS.
side_by_side() {
    local process pids=() pid
    for process in 0 1 2 3; do
        "${@//PROCESS/$process}" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do wait "$pid"; done
}

# arrays_equal FILE COUNT: that many Arrays of the pool's containers have the size of the file, and hold its bytes.
arrays_equal() {
    local container oid count=0 size
    size=$(wc -c <"$1")
    for container in $("$esker" cont list genuine --json | jq -r '.response[].uuid'); do
        for oid in $("$esker" obj list "genuine/$container" --json | jq -r '.response[] | select(.type == "Array").oid'); do
            "$esker" array get "genuine/$container" "$oid" >"$work/array"
            [ "$(wc -c <"$work/array")" = "$size" ] || continue
            cmp "$work/array" "$1"
            count=$((count + 1))
        done
    done
    [ "$count" = "$2" ]
}

# Its readers compare nothing, so the Arrays are compared with the file that the writers have read.
field-io() {
    local write read
    write=$(program field-io write) read=$(program field-io read)
    local keys=(genuine field-io '{"class":"od","date":"2026010PROCESS"}' '{"param":"t"}')
    head -c 1048576 /dev/urandom >"$work/field"
    "$esker" cont create genuine field-io >/dev/null
    check field-io libdaos "four processes write 50 fields of 1 MiB each" \
        side_by_side "$write" "${keys[@]}" "$work/field" 1 50 1 50 0 0 0 PROCESS 0
    check field-io libdaos "four processes read them" \
        side_by_side "$read" "${keys[@]}" "$work/unused" 50 1 50 0 0 0 PROCESS 1 0
    check field-io libdaos "the Arrays hold what was written" arrays_equal "$work/field" 200
}

fdb_config() {
    cat <<END
type: local
schema: $work/schema
engine: daos
store: daos
spaces:
- roots:
  - path: $work/fdb-root
daos:
  catalogue:
    pool: genuine
    root_cont: fdb-root
  store:
    pool: genuine
END
}

# fdb_lists COMMAND: lists all fields, of which there are some.
fdb_lists() {
    "$1" --minimum-keys= --all --porcelain | tee "$work/listed" | grep .
}

# messages FILE: a checksum of each message of a GRIB file, sorted. Zeros between messages do not count.
messages() {
    local begin end='' size
    size=$(wc -c <"$1")
    for begin in $(LC_ALL=C grep -abo GRIB "$1" | cut -d : -f 1 | tac); do
        tail -c "+$((begin + 1))" "$1" | head -c "$((${end:-$size} - begin))" | LC_ALL=C sed '$s/\x00*$//' | cksum
        end=$begin
    done | sort
}

# fdb_reads COMMAND: reads the fields that the GRIB file describes, in any order.
fdb_reads() {
    "$1" --extract "$GRIB" "$work/retrieved"
    diff <(messages "$work/retrieved") <(messages "$GRIB")
}

# fdb_wipes WIPE LIST: removes the database of the first field that is listed, and lists none of its fields any more.
fdb_wipes() {
    local key
    key=$(head -n 1 "$work/listed" | sed 's/^{\([^}]*\)}.*/\1/')
    "$1" --doit --minimum-keys= "$key"
    "$2" --minimum-keys= --all --porcelain >"$work/left"
    ! grep -F "{$key}" "$work/left"
}

fdb() {
    if [ -z "${GRIB:-}" ]; then
        skipped=$((skipped + 1))
        line skipped fdb libdaos "GRIB names no file" 0
        return
    fi
    local write list read wipe
    write=$(program fdb fdb-write) list=$(program fdb fdb-list) read=$(program fdb fdb-read) wipe=$(program fdb fdb-wipe)
    mkdir -p "$work/fdb-root"
    echo '[ class, expver, stream, date, time, domain? [ type, levtype [ step?, number?, levelist?, param ]]]' >"$work/schema"
    fdb_config >"$work/fdb.yaml"
    export FDB5_CONFIG_FILE=$work/fdb.yaml FDB_SCHEMA_FILE=$work/schema
    check fdb libdaos "fdb-write archives a GRIB file" "$write" "$GRIB"
    check fdb libdaos "fdb-list lists its fields" fdb_lists "$list"
    check fdb libdaos "fdb-read --extract, equal to what was written" fdb_reads "$read"
    check fdb libdaos "fdb-wipe removes a database" fdb_wipes "$wipe" "$list"
}

# h5bench_config LINES
h5bench_config() {
    cat <<END
MEM_PATTERN=CONTIG
FILE_PATTERN=CONTIG
TIMESTEPS=3
DELAYED_CLOSE_TIMESTEPS=0
COLLECTIVE_DATA=NO
COLLECTIVE_METADATA=NO
EMULATED_COMPUTE_TIME_PER_TIMESTEP=0 s
NUM_DIMS=1
DIM_1=65536
DIM_2=1
DIM_3=1
CSV_FILE=$work/h5bench.csv
$1
END
}

h5bench() {
    local write read
    write=$(program h5bench h5bench_write) read=$(program h5bench h5bench_read)
    h5bench_config "IO_OPERATION=WRITE" >"$work/write.cfg"
    h5bench_config "IO_OPERATION=READ
READ_OPTION=FULL
TO_READ_NUM_PARTICLES=65536" >"$work/read.cfg"
    check h5bench "esker run" "particles of VPIC, 3 time steps" says "Total write" under_run h5bench "${mpi[@]}" "$write" "$work/write.cfg" /esker/vpic.h5
    check h5bench "esker run" "the same, read as BD-CATS" says "Total read" under_run h5bench "${mpi[@]}" "$read" "$work/read.cfg" /esker/vpic.h5
    ! command -v h5dump >/dev/null ||
        check h5bench "esker run" "h5dump reads the file" says "Timestep_2" under_run h5bench h5dump -n /esker/vpic.h5
}

for name in "${known[@]}"; do
    if [ -n "${folders[$name]:-}" ]; then
        "$name"
    else
        skipped=$((skipped + 1))
        line skipped "$name" - "not given" 0
    fi
done
[ -n "$json" ] || echo "$passed passed, $failed failed, $skipped skipped"
[ $failed = 0 ]

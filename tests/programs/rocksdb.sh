#!/usr/bin/env bash
# RocksDB's db_bench and ldb: all ways of input and output, and a database whose writer was killed.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
need db_bench ldb

bench() {
    db_bench --db="$PWD/db" --compression_type=none --write_buffer_size=200000 "$@" >>"$outside/said" 2>&1
}

test_ways_of_input_and_output() {
    local flags
    for flags in --sync=0 --use_direct_reads=1 --use_direct_io_for_flush_and_compaction=1 --mmap_read=1 --mmap_write=1; do
        bench --num=5000 --benchmarks=fillrandom,overwrite,compact,readrandom,deleterandom,verifychecksum $flags
        is "$(ldb --db="$PWD/db" checkconsistency)" OK
        rm -r db
    done
    bench --num=100 --benchmarks=fillsync,readseq --use_fsync=1
}

test_a_killed_writer() {
    bench --num=50000000 --benchmarks=fillrandom &
    until [ "$(find db -name '*.sst' 2>/dev/null | wc -l)" -gt 4 ]; do sleep 0.1; done
    pkill -KILL -P $!
    wait $! || true
    bench --use_existing_db=1 --num=1000 --benchmarks=verifychecksum,readrandom,overwrite,compact
    is "$(ldb --db="$PWD/db" checkconsistency)" OK
}

run_tests

#!/usr/bin/env bash
# fio: writes with several of its engines, reads back and compares by checksums.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
need fio

# verified ENGINE OPTION...: two jobs write at random, then compare. It fails if fio fails, also in a condition, where
# `set -e` is off.
verified() {
    local engine=$1
    shift
    fio --minimal --name=job --directory="$PWD" --aux-path="$outside" --ioengine="$engine" --size=4m --numjobs=2 \
        --rw=randwrite --bsrange=512-64k --verify=crc32c --do_verify=1 --verify_fatal=1 --randseed=7 "$@" || return
    is "$(stat -c %s job.0.0 job.1.0 | tr '\n' ' ')" "4194304 4194304 "
}

test_pread_and_pwrite() { verified psync; }
test_read_and_write() { verified sync; }
test_vectors() { verified vsync; }
test_position_vectors() { verified pvsync; }
test_position_vectors_with_flags() { verified pvsync2; }
test_asynchronous_of_the_c_library() { verified posixaio --iodepth=8; }

test_asynchronous_of_the_kernel() {
    fio --enghelp | grep -q libaio || { skip "fio has no libaio"; return 0; }
    verified libaio --iodepth=8
}

test_mapped() { verified mmap; }
test_spliced() { verified splice; }

# Rings are refused under esker run. Elsewhere, they verify.
test_rings() {
    if ! verified io_uring --iodepth=8 >"$outside/ring" 2>&1; then
        grep -E 'err=(38|1)/|support io_uring' "$outside/ring"
    fi
}

test_threads() { verified psync --thread; }
test_preallocated() { verified psync --fallocate=posix --fsync=16; }

test_one_shared_file() {
    fio --minimal --name=job --filename="$PWD/shared" --aux-path="$outside" --ioengine=psync --size=1m --numjobs=4 \
        --offset_increment=1m --rw=write --bs=4k --verify=crc32c --do_verify=1 --verify_fatal=1
    is "$(stat -c %s shared)" 4194304
}

test_read_while_mapped() {
    verified psync
    fio --minimal --name=job --directory="$PWD" --aux-path="$outside" --ioengine=mmap --size=4m --numjobs=2 --rw=read --bs=4k
}

run_tests

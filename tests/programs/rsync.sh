#!/usr/bin/env bash
# rsync into the directory, within it, and out of it.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
need rsync

test_there_and_back() {
    rm -rf "$outside/tree" "$outside/back"
    tree "$outside/tree"
    rsync -a "$outside/tree/" in/
    same_trees "$outside/tree" in
    is "$(rsync -ai --checksum "$outside/tree/" in/)" ""
    rsync -a in/ "$outside/back/"
    same_trees "$outside/tree" "$outside/back"
}

test_changes() {
    tree a
    rsync -a a/ b/
    printf changed | dd of=a/large bs=1 seek=150000 conv=notrunc status=none
    rm a/deep/small
    mkdir a/new
    echo new >a/new/file
    rsync -a --no-whole-file --delete a/ b/
    same_trees a b
    printf again | dd of=a/large bs=1 seek=1000 conv=notrunc status=none
    rsync -a --no-whole-file --inplace --ignore-times a/ b/
    same_trees a b
    rsync -a --backup --suffix=.old --ignore-times a/large b/
    cmp b/large b/large.old
    rsync -a --sparse --ignore-times a/large b/large
    cmp a/large b/large
    rsync -a --append-verify a/large b/large
    rsync -a --remove-source-files a/ c/
    is "$(find a -type f)" ""
}

run_tests

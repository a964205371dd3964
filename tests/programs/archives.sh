#!/usr/bin/env bash
# tar, cpio and zip: extracted files equal the archived ones, with modes, times and links.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
need tar

test_tar_there_and_back() {
    rm -rf "$outside/tree"
    tree "$outside/tree"
    tar -C "$outside" -cf tree.tar tree
    tar xf tree.tar
    same_trees "$outside/tree" tree
    is "$(stat -c %Y tree/deep)" "$(stat -c %Y "$outside/tree/deep")"
    tar df tree.tar
    tar cf again.tar tree
    mkdir again
    tar xpf again.tar -C again --strip-components=1
    same_trees tree again
    is "$(tar tf again.tar | sort | md5sum)" "$(tar tf tree.tar | sort | md5sum)"
}

test_tar_changes() {
    tree t
    tar cf t.tar -C t large
    echo more >t/more
    tar rf t.tar -C t more deep
    is "$(tar tf t.tar | grep -c .)" 9
    echo newer >t/more
    touch -d '+1 hour' t/more
    tar uf t.tar -C t more
    mkdir x
    tar xf t.tar -C x
    holds x/more newer
    tar --delete -f t.tar large
    fails tar xOf t.tar large
    is "$(tar xOf t.tar deep/small)" "one line"
}

test_tar_compressed() {
    tree t
    for program in gzip bzip2 xz zstd; do
        has $program || continue
        tar c --use-compress-program=$program -f t.tar.$program t
        mkdir $program
        tar x --use-compress-program=$program -f t.tar.$program -C $program
        same_trees t $program/t
    done
    tar cz t | tar xz --one-top-level=piped
    same_trees t piped/t
}

test_tar_sparse() {
    truncate -s 3M sparse
    printf data | dd of=sparse bs=1 seek=2000000 conv=notrunc status=none
    tar cSf sparse.tar sparse
    mkdir x
    tar xSf sparse.tar -C x
    cmp sparse x/sparse
}

test_tar_over_existing() {
    tree t
    tar cf t.tar t
    echo damaged >t/large
    rm t/deep/link
    mkdir t/deep/link
    tar xf t.tar --recursive-unlink
    mkdir fresh
    tar xf t.tar -C fresh
    same_trees t fresh/t
    tar xf t.tar --keep-newer-files 2>/dev/null
}

test_hard_links_in_tar() {
    mkdir "$outside/h" 2>/dev/null || rm -f "$outside"/h/*
    echo text >"$outside/h/one"
    ln "$outside/h/one" "$outside/h/two"
    tar -C "$outside" -cf h.tar h
    # Without hard links, only the first of the two names is extracted; either may be first.
    tar xf h.tar || ! ln h/* probe
    for name in h/*; do
        holds "$name" text
    done
}

test_gzip() {
    bytes 200000 >file
    cp file kept
    touch -d '2011-11-11' file
    gzip file
    [ ! -e file ]
    gzip -t file.gz
    gunzip file.gz
    cmp file kept
    is "$(date -r file +%F)" 2011-11-11
    gzip -kc file | zcat | cmp - kept
}

test_cpio() {
    has cpio || return 0
    tree t
    (cd t && find . -print0 | cpio -0 -o -H newc --quiet) >t.cpio
    mkdir x
    (cd x && cpio -i -d -m --quiet <../t.cpio)
    same_trees t x
    mkdir passed
    (cd t && find . -depth -print0 | cpio -0 -p -d -m --quiet ../passed)
    same_trees t passed
}

test_zip() {
    has zip unzip || return 0
    tree t
    zip -q -r -y t.zip t
    unzip -q -t t.zip
    mkdir x
    unzip -q t.zip -d x
    diff -r --no-dereference t x/t
    echo more >t/more
    zip -q -u t.zip t/more
    is "$(unzip -p t.zip t/more)" more
    zip -q -d t.zip t/large
    fails unzip -p t.zip t/large
}

test_ar() {
    has ar || return 0
    seq 100 >one
    seq 200 >two
    ar rc lib.a one two
    rm one two
    ar x lib.a
    cmp one <(seq 100)
    cmp two <(seq 200)
    is "$(ar t lib.a | tr '\n' ' ')" "one two "
}

run_tests

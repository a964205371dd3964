#!/usr/bin/env bash
# Common commands: their results are compared with those in another file system.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

test_copies() {
    rm -rf "$outside/tree"
    tree "$outside/tree"
    cp -a "$outside/tree" in
    same_trees "$outside/tree" in
    cp -a in again
    same_trees in again
    cp -r in plain
    diff -r --no-dereference in plain
    rm -rf "$outside/back"
    cp -a again "$outside/back"
    same_trees "$outside/tree" "$outside/back"
    cp --reflink=auto in/large reflinked
    cmp in/large reflinked
    cp -u in/large reflinked
    cp -b in/deep/small reflinked
    cmp in/large reflinked~
}

test_moves() {
    tree a
    describe a >"$outside/before"
    mv a b
    describe b | cmp "$outside/before" -
    [ ! -e a ]
    echo old >target
    echo new >source
    mv source target
    holds target new
    [ ! -e source ]
    mkdir dir
    mv target b dir
    describe dir/b | cmp "$outside/before" -
    mkdir full
    touch full/file
    mkdir other
    mkdir other/full
    touch other/full/kept
    fails mv -T dir other
    mv -T full other/full.new
    [ -f other/full.new/file ]
    rm -rf "$outside/moved"
    mv dir "$outside/moved"
    describe "$outside/moved/b" | cmp "$outside/before" -
    mv "$outside/moved" home
    describe home/b | cmp "$outside/before" -
    fails mv home home/b/deep/
}

test_links() {
    echo text >file
    ln -s file link
    ln -s ../test_links/file up
    is "$(readlink link)" file
    holds link text
    holds up text
    is "$(readlink -f up)" "$(pwd -P)/file"
    is "$(realpath --relative-to=.. link)" test_links/file
    ln -sfn other link
    is "$(readlink link)" other
    ln -s loop1 loop2
    ln -s loop2 loop1
    fails cat loop1
    is "$(stat -c %F link)" "symbolic link"
    is "$(stat -c %s link)" 5
}

# A hard link is created or rejected; a copy in its place would be wrong.
test_hard_links() {
    echo text >file
    if ln file link; then
        is "$(stat -c %h file)" 2
        is "$(stat -c %i file)" "$(stat -c %i link)"
        echo more >>"link"
        cmp file link
        rm file
        is "$(stat -c %h link)" 1
    else
        [ ! -e link ] && holds file text
    fi
}

test_directories() {
    mkdir -p a/b/c d
    mkdir -m 700 private
    is "$(stat -c %a private)" 700
    fails mkdir a
    fails rmdir a
    rmdir -p a/b/c
    [ ! -e a ]
    fails rm d
    rm -d d
    tree t
    rm -rf t
    [ ! -e t ]
    fails cd t
    touch "name with  spaces" $'tab\t' $'new\nline' -- -dash 'quote"'
    is "$(find . -mindepth 1 -print0 | tr -cd '\0' | wc -c)" 6
    rm -- -dash
    rm -r -- *
    is "$(ls -A)" ""
    long=$(printf '%0255d' 0)
    touch "$long"
    is "$(ls)" "$long"
    fails touch "${long}1"
}

test_times() {
    touch -d '2001-02-03 04:05:06.5' file
    is "$(stat -c %Y file)" "$(date -d '2001-02-03 04:05:06' +%s)"
    touch -r file other
    is "$(stat -c %Y other)" "$(stat -c %Y file)"
    touch -a -d '2005-01-01' other
    is "$(stat -c %Y other)" "$(stat -c %Y file)"
    before=$(date +%s)
    echo x >>file
    [ "$(stat -c %Y file)" -ge $((before - 1)) ]
    mkdir dir
    touch -d '2001-01-01' dir
    touch dir/new
    [ "$(stat -c %Y dir)" -ge $((before - 1)) ]
    touch -c none
    [ ! -e none ]
}

test_modes() {
    (umask 077 && touch private && mkdir hidden)
    is "$(stat -c '%a %F' private)" "600 regular empty file"
    is "$(stat -c %a hidden)" 700
    chmod u=rwx,g=rx,o= private
    is "$(stat -c %A private)" -rwxr-x---
    chmod -R a+rX hidden
    is "$(stat -c %a hidden)" 755
    install -m 640 private installed
    is "$(stat -c %a installed)" 640
    install -d -m 711 one/two
    is "$(stat -c %a one/two)" 711
    if [ "$(id -u)" = 0 ] && chown 12:34 private; then is "$(stat -c %u:%g private)" 12:34; fi
}

test_truncate_and_dd() {
    bytes 10000 >file
    cp file "$outside/file"
    for where in . "$outside"; do
        truncate -s 5000 "$where/file"
        truncate -s +20000 "$where/file"
        printf middle | dd of="$where/file" bs=1 seek=12345 conv=notrunc status=none
        dd if="$where/file" of="$where/part" bs=1000 skip=3 count=11 status=none
        dd if="$where/file" of="$where/swapped" bs=512 conv=swab,sync status=none
        dd if="$where/file" of="$where/synced" bs=64k oflag=append conv=notrunc,fsync status=none
        split -b 3000 -d "$where/file" "$where/piece"
        cat "$where"/piece* >"$where/joined"
    done
    for name in file part swapped synced joined; do cmp $name "$outside/$name"; done
    is "$(stat -c %s file)" 25000
    cmp file joined
}

test_readers() {
    seq 100000 >file
    is "$(wc -l <file)" 100000
    is "$(wc -c file)" "588895 file"
    is "$(head -c 5 file | tr '\n' .)" 1.2.3
    is "$(tail -n 2 file | tr '\n' ' ')" "99999 100000 "
    is "$(tail -c 7 file)" 100000
    is "$(head -n -99999 file)" 1
    is "$(md5sum <file)" "$(seq 100000 | md5sum)"
    sha256sum file >sums
    sha256sum --quiet -c sums
    is "$(tac file | head -n 1)" 100000
    is "$(od -An -tx1 -j 4 -N 4 file)" " 33 0a 34 0a"
    is "$(cut -c 1 file | uniq | head -n 3 | tr '\n' ' ')" "1 2 3 "
    is "$(comm -12 file <(seq 99999 100001) 2>/dev/null | tr '\n' ' ')" "99999 100000 "
    is "$(shuf file | sort -n | md5sum)" "$(md5sum <file)"
    is "$(paste -s -d + <(head -n 4 file))" 1+2+3+4
}

test_sort() {
    seq 200000 | shuf --random-source=<(bytes 3000000) >file
    sort -n -S 1M -T . file >sorted
    cmp sorted <(seq 200000)
    sort -n -o file file
    cmp sorted file
    sort -n -m file sorted | uniq -c | awk '$1 != 2 { exit 1 }'
    is "$(ls)" "$(printf 'file\nsorted')"
}

test_tee() {
    seq 1000 | tee one two | tee -a three >four
    seq 1000 | tee -a three >/dev/null
    for name in one two four; do cmp $name <(seq 1000); done
    cmp three <(seq 1000; seq 1000)
}

test_lists() {
    tree t
    is "$(ls t)" "$(printf 'dangling\ndeep\nempty\nlarge')"
    is "$(ls -A t/deep | wc -l)" 4
    is "$(ls -R t | grep -c .)" 15
    is "$(ls -l t/large | cut -d ' ' -f 1,5)" "-rw-r----- 300000"
    is "$(ls -l t/dangling | sed 's/.* t.dangling/dangling/')" "dangling -> nowhere"
    is "$(ls -i t/large | cut -d ' ' -f 1)" "$(stat -c %i t/large)"
    is "$(du -b t/large | cut -f 1)" 300000
    [ "$(du -k t/large | cut -f 1)" -gt 0 ]
    df -k . | awk 'NR == 2 && $2 > 0 { found = 1 } END { exit !found }'
    [ "$(stat -f -c %S .)" -gt 0 ]
    is "$(ls -U t | sort)" "$(ls t)"
}

test_many_names() {
    seq -f 'file%05g' 3000 | xargs touch
    is "$(ls | md5sum)" "$(seq -f 'file%05g' 3000 | md5sum)"
    is "$(ls -U | sort -u | wc -l)" 3000
    rm file*5
    is "$(ls | wc -l)" 2700
    rm -- *
    is "$(ls -A)" ""
}

test_temporary() {
    file=$(mktemp -p .)
    dir=$(TMPDIR=$PWD mktemp -d)
    is "$(stat -c %a "$file")" 600
    is "$(stat -c %a "$dir")" 700
}

test_holes() {
    truncate -s 1M file
    printf end >>file
    is "$(stat -c %s file)" 1048579
    cmp -n 1048576 file /dev/zero
    cp --sparse=always file sparse
    cp --sparse=never file full
    cmp file sparse
    cmp file full
    fallocate -l 2M file || [ "$(stat -c %s file)" = 1048579 ]
    is "$(tail -c +1048577 file | head -c 3)" end
}

test_sync() {
    echo x >file
    sync file
    sync -d file
    sync -f file
    holds file x
}

test_comparisons() {
    seq 1000 >one
    sed 's/^500$/changed/' one >two
    fails cmp -s one two
    diff -u one two >"patch" || true
    grep -q '^+changed$' patch
    if has patch; then
        patch -s one patch
        cmp one two
    fi
    mkdir a b
    cp one a/x
    cp one b/x
    diff -r a b
    echo y >>b/x
    fails diff -rq a b
}

test_full_names_and_dots() {
    mkdir -p a/b
    here=$(pwd -P)
    echo text >a/../a/./b//file
    holds "$here/a/b/file" text
    cat "$here/a/b/../../a/b/file" >/dev/null
    fails cat a/b/file/
    fails cat a/b/file/x
    fails cat a/none/../b/file
}

run_tests

#!/usr/bin/env bash
# File operations of shells: redirections, here-documents, descriptors they keep open, globs, scripts.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

test_redirections() {
    echo one >file
    echo two >>file
    printf 'one\ntwo\n' | cmp - file
    cat <file >copy
    cmp file copy
    : >file
    [ ! -s file ]
    [ -e file ]
    { echo out; echo err >&2; } >both 2>&1
    printf 'out\nerr\n' | cmp - both
}

test_noclobber() {
    echo first >file
    set -C
    fails eval 'echo second >file'
    echo second >|file
    holds file second
}

test_descriptors() {
    exec 5<>file
    echo abcdef >&5
    exec 6>&5 5>&-
    echo ghi >&6
    exec 6>&-
    printf 'abcdef\nghi\n' | cmp - file
    exec {fd}<file
    read -r -u "$fd" first
    read -r -u "$fd" second
    is "$first $second" "abcdef ghi"
    exec {fd}<&-
}

test_shared_offset() {
    (echo a; (echo b); echo c | cat; command echo d) >file
    is "$(tr '\n' ' ' <file)" "a b c d "
    seq 1000 >lines
    { read -r first; read -r second; } <lines
    is "$first $second" "1 2"
    { head -n 1 >/dev/null; cat; } <lines >rest || true
    [ -s rest ]
}

test_removed_and_kept_open() {
    mkfifo "$outside/go"
    echo hello >file
    exec 5<file
    rm file
    # The shell closes it before the child uses it.
    (read -r _ <"$outside/go"; cat <&5) >seen &
    exec 5<&-
    echo >"$outside/go"
    wait
    holds seen hello
}

test_rotated() {
    exec 5>log
    mv log log.1
    command /bin/echo one >&5
    (echo two >&5)
    exec 5>&-
    is "$(tr '\n' ' ' <log.1)" "one two "
    is "$(ls)" log.1
}

test_here_documents() {
    TMPDIR=$PWD
    cat >file <<END
$((6 * 7))
$(seq 20000)
END
    is "$(wc -l <file)" 20001
    cat <<<"a line" >short
    holds short "a line"
}

# A job reads its here-document after its shell has ended; a program reads a file that its shell removed.
test_read_by_successors() {
    TMPDIR=$PWD
    mkfifo "$outside/go"
    (
        { read -r _ <"$outside/go"; cat <&4 | wc -l >counted; } 4<<END &
$(seq 20000)
END
    )
    echo >"$outside/go"
    while [ ! -s counted ]; do sleep 0.01; done
    is "$(tr -d ' ' <counted)" 20000
    is "$(bash -c 'echo kept >file; exec 4<file; rm file; exec cat <&4')" kept
    is "$(bash -c 'echo kept >file; exec 4<file; rm file; exec bash -c "cat <&4; exec cat /dev/null"')" kept
}

# ended_first ENDING: a child reads a file that its parent has removed, after the parent has ended in this way.
ended_first() {
    # shellcheck disable=SC2016 # The inner shell expands it.
    bash -c 'echo kept >file; exec 4<>file; rm file
        (trap "" TERM; read -r _ <"$0"; cat <&4 >read.new || echo gone >read.new; mv read.new read) &
        eval "$1"' "$outside/go" "$1" || true
    echo >"$outside/go"
    while [ ! -e read ]; do sleep 0.01; done
    cat read
    rm read
}

test_read_by_heirs() {
    mkfifo "$outside/go"
    is "$(ended_first 'exit 0')" kept
    is "$(ended_first 'exec 0<&- 1>&- 2>&-; exit 0')" kept
    is "$(ended_first 'exec 4<&-; exec true')" kept
    # Over nodes, a program that is started later may find nothing.
    is "$(ended_first 'kill -9 $$' | sed s/gone/kept/)" kept
    is "$(ended_first 'kill -TERM $$' | sed s/gone/kept/)" kept
    seq 10 >file
    exec 4<file
    rm file
    is "$(cat <&4 4<&- | tail -n 1)" 10
    exec 4<&-
}

test_substitutions() {
    seq 3 >file
    is "$(<file)" "$(printf '1\n2\n3')"
    diff <(sort -r file) <(printf '3\n2\n1\n')
    seq 5 | tee >(wc -l >counted) >/dev/null
    while [ ! -s counted ]; do sleep 0.01; done
    is "$(tr -d ' ' <counted)" 5
}

test_background() {
    for i in 1 2 3 4; do (seq "$i" 4 400 >"part$i") & done
    wait
    sort -n part? | cmp - <(seq 400)
}

test_directories() {
    mkdir -p a/b
    cd a/b
    is "${PWD##*/}" b
    is "$(pwd -P)" "$(/bin/pwd)"
    echo here >../file
    cd ..
    holds file here
    cd - >/dev/null
    holds ../file here
    cd ../..
    ln -s a/b link
    cd link
    is "${PWD##*/}" link
    is "$(cd -P . && pwd)" "${PWD%/link}/a/b"
}

test_globs() {
    mkdir -p d/e
    touch d/e/one.c d/two.c d/.hidden d/e/three.h
    is "$(echo d/*.c d/*/*.[ch])" "d/two.c d/e/one.c d/e/three.h"
    shopt -s globstar nullglob dotglob
    is "$(echo d/**/*.c)" "d/e/one.c d/two.c"
    is "$(echo d/.h* nothing*)" "d/.hidden"
}

test_conditions() {
    echo x >file
    : >empty
    mkdir dir
    ln -s file link
    ln -s gone dangling
    touch -d '2001-01-01' old
    [ -f file ]
    [ -s file ]
    [ ! -s empty ]
    [ -d dir ]
    [ -L link ]
    [ -f link ]
    [ -L dangling ]
    [ ! -e dangling ]
    [ file -nt old ]
    [ old -ot file ]
    [ link -ef file ]
    [ -r file ]
    [ -w file ]
    [ ! -x file ]
    chmod +x file
    [ -x file ]
}

test_sourced() {
    echo 'answer=42' >settings
    . ./settings
    is "$answer" 42
    printf 'echo "$1 from $0"\n' >script
    is "$(bash script hello)" "hello from script"
    is "$(sh ./script hello)" "hello from ./script"
    printf 'cd "$(dirname "$0")" && cat data\n' >dir.sh
    echo data >data
    is "$(cd / && sh "$OLDPWD/dir.sh")" data
}

test_dash() {
    has dash || return 0
    dash -ec '
        i=0
        while [ $i -lt 200 ]; do echo $i >>numbers; i=$((i + 1)); done
        exec 3<numbers
        read a <&3; read b <&3
        exec 3<&-
        [ "$a$b" = 01 ]
        for f in n*; do [ "$f" = numbers ]; done
        cat <<-END >here
		indented
		END
    '
    is "$(wc -l <numbers)" 200
    holds here indented
}

test_many_appends() {
    for i in 1 2 3 4; do (for j in $(seq 50); do echo "$i $j"; done >>log) & done
    wait
    is "$(sort -u log | wc -l)" 200
}

test_traps_and_children() {
    bash -c 'trap "echo trapped >>log" EXIT USR1; kill -USR1 $$; echo body >>log'
    is "$(tr '\n' ' ' <log)" "trapped body trapped "
    env -i PATH="$PATH" LD_PRELOAD="${LD_PRELOAD:-}" sh -c 'echo through env' >file
    holds file "through env"
}

run_tests

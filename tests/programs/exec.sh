#!/usr/bin/env bash
# Programs stored in the directory itself, which the kernel and the dynamic loader open.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"

test_a_script_with_interpreter() {
    printf '#!/bin/sh\necho "ran $0 $1"\n' >script
    chmod 755 script
    is "$(./script x)" "ran ./script x"
    is "$("$PWD/script" y)" "ran $PWD/script y"
}

test_a_script_without_interpreter() {
    printf 'echo plain\n' >script
    chmod 755 script
    is "$(./script)" plain
}

test_a_program() {
    cp /bin/echo ./copy
    is "$(./copy hello)" hello
    PATH=$PWD:$PATH
    is "$(copy again)" again
    is "$(find . -name copy -exec {} found \;)" found
}

# Files in a directory of PATH: links that lead out, scripts without an interpreter, and files that are not programs.
test_found_in_path() {
    mkdir bin none
    ln -s /bin/echo bin/linked
    # shellcheck disable=SC2016 # The script expands it.
    printf 'echo "plain $1"\n' >bin/plain
    chmod 755 bin/plain
    mkdir none/plain
    : >none/linked
    is "$(PATH=$PWD/none:$PWD/bin:$PATH env linked out)" out
    is "$(PATH=$PWD/none:$PWD/bin:$PATH env plain script)" "plain script"
    is "$(PATH=$PWD/none:$PWD/bin:$PATH nice linked again)" again
    cd bin
    is "$(PATH=:$PATH env plain here)" "plain here"
    is "$(PATH=.:$PATH env linked here)" here
}

# The child shares the open files of its parent.
test_while_a_child_lives() {
    echo text >file
    mkfifo "$outside/end"
    for _ in 1 2 3 4 5; do
        # shellcheck disable=SC2016 # The inner shell expands it.
        is "$(bash -c 'read -r _ <file; (read -r _ <"$0"; :) >/dev/null & exec cat file' "$outside/end")" text
        echo >"$outside/end"
    done
}

# A script elsewhere, whose interpreter is in the directory.
test_an_interpreter_of_a_script_elsewhere() {
    cp /bin/sh interpreter
    # shellcheck disable=SC2016 # The script expands it.
    printf '#!%s/interpreter -e\necho "ran $0 $1"\n' "$PWD" >"$outside/elsewhere"
    fails "$outside/elsewhere"
    chmod 755 "$outside/elsewhere"
    is "$("$outside/elsewhere" x)" "ran $outside/elsewhere x"
    is "$(PATH=$outside:$PATH elsewhere y)" "ran $outside/elsewhere y"
    is "$(PATH=$outside:$PATH env elsewhere z)" "ran $outside/elsewhere z"
}

test_not_executable() {
    printf '#!/bin/sh\n' >script
    fails ./script
    fails ./missing
}

run_tests

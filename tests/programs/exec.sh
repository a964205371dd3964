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

test_not_executable() {
    printf '#!/bin/sh\n' >script
    fails ./script
    fails ./missing
}

run_tests

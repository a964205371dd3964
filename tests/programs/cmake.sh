#!/usr/bin/env bash
# CMake with ninja and make: a build tree whose programs need its own shared library, built again and installed.
# shellcheck source-path=SCRIPTDIR source=lib.sh
. "$(dirname "$0")/lib.sh"
need cmake ctest cc

sources() {
    mkdir src
    cat >src/CMakeLists.txt <<'END'
cmake_minimum_required(VERSION 3.13)
project(example C)
add_library(answer SHARED answer.c)
add_executable(ask ask.c)
target_link_libraries(ask answer)
enable_testing()
add_test(NAME ask COMMAND ask)
install(TARGETS ask answer RUNTIME DESTINATION bin LIBRARY DESTINATION lib)
END
    echo 'int answer(void) { return 42; }' >src/answer.c
    printf '#include <stdio.h>\nint answer(void);\nint main(void) { printf("%%d\\n", answer()); return 0; }\n' >src/ask.c
}

# built GENERATOR
built() {
    sources
    cmake -G "$1" -S src -B build -DCMAKE_INSTALL_PREFIX="$PWD/installed" >said
    cmake --build build >said
    is "$(build/ask)" 42
    (cd build && ctest >tested)
    echo 'int answer(void) { return 43; }' >src/answer.c
    cmake --build build >said
    is "$(build/ask)" 43
    cmake --build build --target install >said
    is "$(LD_LIBRARY_PATH=$PWD/installed/lib installed/bin/ask)" 43
}

test_make() {
    has make || return 0
    built "Unix Makefiles"
}

test_ninja() {
    has ninja || return 0
    built Ninja
    is "$(ninja -C build | tail -n 1)" "ninja: no work to do."
}

run_tests

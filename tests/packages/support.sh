# Shared functions of the package tests, to be sourced by them.
# shellcheck shell=bash
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# shellcheck disable=SC2034
preload=$(dirname "${ESKER:?names the command}")/libesker_preload.so

# shellcheck source=tests/checks.sh
. "${BASH_SOURCE[0]%/*}/../checks.sh"

# Like a user who has just installed it, with new pools.
with_pools() {
    local status
    pools=$(mktemp -d -p "$([ -w /dev/shm ] && echo /dev/shm || echo "$work")" esker-test.XXXXXX)
    env -u ESKER_PRELOAD ESKER_POOLS="$pools" "$@"
    status=$?
    rm -rf "$pools"
    return $status
}

run_a_program() {
    # shellcheck disable=SC2016
    with_pools bash -euc '"$1" pool create tank --size 128M --targets 2
        [ "$("$1" run tank/home --create -- sh -c "echo hi >/esker/a; cat /esker/a")" = hi ]' - "$1/bin/esker"
}

# libraries PREFIX: the directory of libdaos below it.
libraries() {
    dirname "$(find "$1"/lib{,64} -maxdepth 1 -name 'libdaos.so.2.*' -type f 2>/dev/null | head -n 1)"
}

# write_program FILE
write_program() {
    cat >"$1" <<END
#include <daos.h>
int main(void) { return daos_init() || daos_fini(); }
END
}

start_libdaos() {
    local library
    library=$(libraries "$1")
    write_program "$work/start.c"
    "${CC:-cc}" -o "$work/start" "$work/start.c" -I"$1/include" -L"$library" -ldaos -luuid &&
        LD_LIBRARY_PATH=$library "$work/start"
}

# configure PREFIX FOLDER: runs CMake, which searches lib64 on distributions with RPM only.
configure() {
    local library hint=()
    library=$(libraries "$1")
    [[ $library != */lib64 ]] || hint=("-DDAOS_DIR=$library/cmake/DAOS")
    CMAKE_PREFIX_PATH=$1 cmake -S "$work/project" -B "$work/project/$2" "${hint[@]}"
}

# A project that finds DAOS by its files for CMake.
builds_with_cmake() {
    rm -rf "$work/project" && mkdir "$work/project"
    cat >"$work/project/CMakeLists.txt" <<'END'
cmake_minimum_required(VERSION 3.13)
project(program C)
find_package(DAOS 2.0 CONFIG REQUIRED)
add_executable(program program.c)
target_link_libraries(program PRIVATE DAOS::daos)
file(WRITE "${CMAKE_BINARY_DIR}/found" "${DAOS_VERSION} ${DAOS_INCLUDE_DIRS} ${DAOS_LIBRARIES}")
END
    write_program "$work/project/program.c"
    configure "$1" build &&
        cmake --build "$work/project/build" &&
        LD_LIBRARY_PATH=$(libraries "$1") "$work/project/build/program" &&
        grep -q "^2[0-9.]* $1/include .*libuuid" "$work/project/build/found"
}

refuses_another_version_in_cmake() {
    sed -i 's/find_package(DAOS 2.0/find_package(DAOS 3.0/' "$work/project/CMakeLists.txt"
    ! configure "$1" other 2>"$work/refused" &&
        tr -s '[:space:]' ' ' <"$work/refused" | grep -q 'compatible with requested version'
}

# has_manual PREFIX NAME
has_manual() {
    local page
    page=$(echo "$1"/share/man/man?/"$2".?*)
    gzip -cdf "$page" | grep '^\.TH' >/dev/null
}

completes_pools() {
    # shellcheck disable=SC2016
    with_pools bash -euc 'PATH=$1/bin:$PATH
        esker -q pool create tank --size 128M --targets 2
        . "$1/share/bash-completion/completions/esker"
        COMP_WORDS=(esker pool query "") COMP_CWORD=3
        _esker_or_names esker "" query
        [ "${COMPREPLY[*]}" = tank ]' - "$1"
}

completes_benchmarks() {
    grep -q mdtest "$1/share/bash-completion/completions/esker"
}

# uses PREFIX: tests what the installation at PREFIX is for.
uses() {
    that "a program runs on files of Esker" run_a_program "$1"
    that "a program builds on libdaos and starts" start_libdaos "$1"
    if command -v cmake >/dev/null; then
        that "CMake finds DAOS" builds_with_cmake "$1"
        that "CMake refuses another major version" refuses_another_version_in_cmake "$1"
    else
        skip "CMake is missing"
    fi
    that "the command has a manual page" has_manual "$1" esker
    that "a benchmark has a manual page" has_manual "$1" esker-bench-array
    that "environment variables have a manual page" has_manual "$1" esker-environment
    that "shells complete benchmarks" completes_benchmarks "$1"
    that "bash completes pools" completes_pools "$1"
    that "the command finds its benchmarks" "$1/bin/esker" bench array --help
}

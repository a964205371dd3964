#!/usr/bin/env bash
# Installs into a directory and builds programs with the installation like their build systems do; then uninstalls.
#
# environment: ESKER, the command; ESKER_LIB, the directory of the library; CC.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
preload=$(dirname "${ESKER:?names the command}")/libesker_preload.so
multiarch=lib/$(cc -print-multiarch 2>/dev/null)
[ "$multiarch" != lib/ ] || multiarch=lib/$(uname -m)-linux-gnu

# shellcheck source=tests/checks.sh
. tests/checks.sh

cat >"$work/program.c" <<END
#include <daos.h>
int main(void) { uuid_t uuid; uuid_generate(uuid); return daos_init() || daos_fini(); }
END
sed 's/main/library/' "$work/program.c" >"$work/library.c"
echo 'int library(void); int main(void) { return library(); }' >"$work/user.c"

install_in() {
    scripts/install.sh "$ESKER" "${ESKER_LIB:-build/test/lib}/libdaos.so.2" "$preload" "" "$1"
}

# A program built only with the flags that pkg-config prints.
by_pkg_config() {
    local flags
    read -ra flags < <(PKG_CONFIG_PATH=$1/pkgconfig pkg-config --cflags --libs daos) &&
        "${CC:-cc}" -o "$work/program" "$work/program.c" "${flags[@]}" && LD_LIBRARY_PATH=$1 "$work/program"
}

# A library that links only libdaos, and a program that uses it: libdaos brings libuuid.
by_libdaos_alone() {
    "${CC:-cc}" -shared -fPIC -I"$prefix/include" -o "$work/libuser.so" "$work/library.c" -L"$1" -ldaos &&
        LD_LIBRARY_PATH=$1 "${CC:-cc}" -o "$work/user" "$work/user.c" -L"$work" -luser -Wl,-rpath,"$work" &&
        LD_LIBRARY_PATH=$1 "$work/user"
}

cat >"$work/stores.c" <<END
#include <esker.h>
int main(void) { return esker_error_text()[0] != 0; }
END
cat >"$work/stores.f90" <<END
program stores
    use esker
    if (len(esker_text()) > 0) error stop
end program
END
cat >"$work/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.13)
project(stores C)
find_package(esker $("$ESKER" --version | cut -d ' ' -f 2 | cut -d . -f 1,2) REQUIRED)
if(NOT EXISTS "\${esker_FORTRAN_SOURCE}")
  message(FATAL_ERROR "no \${esker_FORTRAN_SOURCE}")
endif()
add_executable(stores stores.c)
target_link_libraries(stores esker::esker)
END

# The functions of esker.h, by their own name.
stores_by_pkg_config() {
    local flags
    read -ra flags < <(PKG_CONFIG_PATH=$1/pkgconfig pkg-config --cflags --libs esker) &&
        "${CC:-cc}" -o "$work/stores" "$work/stores.c" "${flags[@]}" && LD_LIBRARY_PATH=$1 "$work/stores"
}

fortran_by_pkg_config() {
    local flags
    read -ra flags < <(PKG_CONFIG_PATH=$1/pkgconfig pkg-config --libs esker) &&
        gfortran -J "$work" -o "$work/fortran" \
            "$(PKG_CONFIG_PATH=$1/pkgconfig pkg-config --variable=fortran_source esker)" "$work/stores.f90" \
            "${flags[@]}" && LD_LIBRARY_PATH=$1 "$work/fortran"
}

by_cmake() {
    cmake -S "$work" -B "$work/cmake" -DCMAKE_PREFIX_PATH="$1" && cmake --build "$work/cmake" && "$work/cmake/stores"
}

# Releases of another minor version may have another interface.
refuses_another_version() {
    mkdir -p "$work/newer" && cp "$work/stores.c" "$work/newer" &&
        sed 's/find_package(esker [0-9.]*/find_package(esker 9.0/' "$work/CMakeLists.txt" >"$work/newer/CMakeLists.txt" &&
        ! cmake -S "$work/newer" -B "$work/newer/build" -DCMAKE_PREFIX_PATH="$1"
}

prefix=$work/plain
that "it installs" install_in "$prefix"
for place in lib lib64 "$multiarch"; do
    that "pkg-config in $place" by_pkg_config "$prefix/$place"
    that "libdaos in $place brings libuuid" by_libdaos_alone "$prefix/$place"
done
that "pkg-config finds the stores" stores_by_pkg_config "$prefix/lib"
with gfortran "a Fortran program" fortran_by_pkg_config "$prefix/lib"
with cmake "CMake finds it" by_cmake "$prefix"
with cmake "CMake refuses another version" refuses_another_version "$prefix"
that "the licences of crates are installed" grep -q '^--- libc ' "$prefix/share/doc/esker/THIRD-PARTY"
that "it is removed" scripts/uninstall.sh "$prefix"
that "nothing is left" test ! -e "$prefix"

can_be_read_by_others() {
    [ -z "$(find "$1" \( -type d -not -perm -o=rx -o -type f -not -perm -o=r \) -print -quit)" ]
}

# Adds a file that a version of before has installed.
add_older_file() {
    touch "$prefix/lib/older" && echo ./lib/older >>"$prefix/share/esker/installed"
}

# A directory of the system that is empty but for the installation.
prefix=$work/system
mkdir -p "$prefix/bin"
umask 077
that "it installs with a strict file creation mask" install_in "$prefix"
umask 022
that "other users can read it" can_be_read_by_others "$prefix/lib"
that "an older version is installed" add_older_file
that "it is installed again" install_in "$prefix"
that "files of the older version are gone" test ! -e "$prefix/lib/older"
that "it is removed from the system" scripts/uninstall.sh "$prefix"
that "directories of the system stay" rmdir "$prefix/bin" "$prefix"

prefix=$work/linked
mkdir -p "$prefix/lib" && ln -s lib "$prefix/lib64"
that "it installs where lib64 is a link" install_in "$prefix"
that "the link stays" test -L "$prefix/lib64"
that "libraries are found by it" by_pkg_config "$prefix/lib64"
that "it is removed there" scripts/uninstall.sh "$prefix"

summary

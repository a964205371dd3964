#!/usr/bin/env bash
# Builds the Debian packages, installs them with dpkg below a directory, uses the installation, and removes them with dpkg.
#
# environment: ESKER, the command; ESKER_LIB, the directory of the library.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
if ! command -v dpkg-shlibdeps >/dev/null; then
    echo "dpkg-dev is missing (scripts/setup.sh deb)"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
. tests/packages/support.sh
root=$work/root
mkdir -p "$root"/var/lib/dpkg/{info,updates,triggers}
touch "$root/var/lib/dpkg/status"

# Its dependencies are outside that directory, which needs no root privileges either.
dpkg_there() {
    PATH=$PATH:/sbin:/usr/sbin dpkg --root="$root" --log=/dev/null --force-depends --force-not-root \
        --force-script-chrootless "$@"
}

make_packages() {
    mapfile -t packages < <(scripts/deb.sh "$ESKER" "$(readlink -f "${ESKER_LIB:?}/libdaos.so.2")" "$preload" "$work/made")
    [ "${#packages[@]}" -eq 2 ] && [ -s "${packages[0]}" ] && [ -s "${packages[1]}" ]
}

# says PACKAGE FIELD VALUE
says() {
    [ "$(dpkg-deb --field "${packages[$1]}" "$2")" = "$3" ]
}

# needs PACKAGE NAME
needs() {
    dpkg-deb --field "${packages[$1]}" Depends | tr ',' '\n' | grep -q "^ *$2\b"
}

# has PACKAGE PATTERN: a file of this name.
has() {
    dpkg-deb --contents "${packages[$1]}" >"$work/contents" && grep -q " \./usr/$2" "$work/contents"
}

development_is_apart() {
    has 1 include/daos.h && has 1 'lib/libdaos.so -> ' && has 1 lib/pkgconfig/daos.pc && has 1 lib/cmake/DAOS/ &&
        ! has 0 include/ && ! has 0 'lib/libdaos.so -> ' && ! has 0 'lib/.*/pkgconfig/' && ! has 0 lib/cmake/ &&
        has 0 'lib/libdaos.so.2 -> ' && has 0 'lib/libdaos_common.so -> ' && has 0 bin/esker-bench && ! has 1 bin/
}

is_intact() {
    [ -z "$(dpkg_there --verify "$1")" ] && [ "$(dpkg_there --list "$1" | tail -n 1 | cut -c 1-2)" = ii ]
}

only_the_database_is_left() {
    [ -z "$(cd "$root" && find . -not -type d -not -path './var/lib/dpkg/*' -print -quit)" ]
}

that "they are made" make_packages
that "they have the version of the command" says 0 Version "$("$ESKER" --version | cut -d ' ' -f 2)"
that "esker depends on the C library" needs 0 libc6
that "esker depends on libuuid, which libdaos brings" needs 0 libuuid1
that "esker-dev depends on esker" needs 1 esker
that "headers and names of linkers are in esker-dev" development_is_apart
that "dpkg installs esker alone" dpkg_there --install "${packages[0]}"
that "a program runs without esker-dev" run_a_program "$root/usr"
that "dpkg installs esker-dev" dpkg_there --install "${packages[1]}"
that "esker is as packed" is_intact esker
that "esker-dev is as packed" is_intact esker-dev
uses "$root/usr"
that "dpkg removes them" dpkg_there --purge esker-dev esker
that "nothing is left" only_the_database_is_left
summary

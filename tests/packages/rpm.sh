#!/usr/bin/env bash
# Builds the RPM packages, installs them with rpm below a directory, uses the installation, and removes them with rpm.
#
# environment: ESKER, the command; ESKER_LIB, the directory of the library.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
if ! command -v rpmbuild >/dev/null; then
    echo "rpmbuild is missing (Debian: rpm; RHEL: rpm-build)"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
. tests/packages/support.sh
prefix=$work/root/usr

# A database and a prefix of its own need no privileges. The system may have the dependencies without RPM.
rpm_there() {
    rpm --dbpath "$work/db" "$@"
}

make_packages() {
    mapfile -t packages < <(scripts/rpm.sh "$ESKER" "$(readlink -f "${ESKER_LIB:?}/libdaos.so.2")" "$preload" "$work/made")
    [ "${#packages[@]}" -eq 2 ] && [ -s "${packages[0]}" ] && [ -s "${packages[1]}" ]
}

# package NAME: its file.
package() {
    printf '%s\n' "${packages[@]}" | grep "/$1-[0-9]"
}

# says TAG VALUE
says() {
    [ "$(rpm -qp --queryformat "%{$1}" "$(package esker)")" = "$2" ]
}

# lists KIND PACKAGE PATTERN: rpm lists a line with this beginning.
lists() {
    rpm -qp "--$1" "$(package "$2")" >"$work/listed" && grep -q "^$3" "$work/listed"
}

# has PACKAGE FILE
has() {
    lists list "$1" "/usr/$2\$"
}

development_is_apart() {
    has esker-devel include/daos.h && has esker-devel lib64/libdaos.so && has esker-devel lib64/pkgconfig/daos.pc &&
        has esker lib64/libdaos.so.2 && has esker lib64/libdaos_common.so && has esker bin/esker-bench &&
        ! has esker include/daos.h && ! has esker lib64/libdaos.so && ! has esker-devel bin/esker
}

install_there() {
    rpm_there --install --prefix "$prefix" --nodeps --ignorearch "$(package "$1")"
}

is_intact() {
    rpm_there --verify --nodeps --nouser --nogroup "$1"
}

that "they are made" make_packages
that "they have the version of the command" says VERSION "$("$ESKER" --version | cut -d ' ' -f 2)"
that "they have the licence" says LICENSE Apache-2.0
that "esker needs the C library" lists requires esker 'libc.so.6('
that "esker provides libdaos" lists provides esker 'libdaos.so.2('
that "esker-devel needs esker" lists requires esker-devel 'esker = '
that "headers and names of linkers are in esker-devel" development_is_apart
that "rpm makes a database" rpm_there --initdb
that "rpm installs esker alone" install_there esker
that "a program runs without esker-devel" run_a_program "$prefix"
that "rpm installs esker-devel" install_there esker-devel
that "esker is as packed" is_intact esker
that "esker-devel is as packed" is_intact esker-devel
uses "$prefix"
that "rpm removes them" rpm_there --erase --nodeps esker-devel esker
that "nothing is left" test -z "$(find "$prefix" -not -type d -print -quit 2>/dev/null)"
summary

#!/usr/bin/env bash
# Builds the Debian package, installs it with dpkg below a directory, uses the installation, and removes it with dpkg.
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

make_package() {
    package=$(scripts/deb.sh "$ESKER" "$(readlink -f "${ESKER_LIB:?}/libdaos.so.2")" "$preload" "$work/made") &&
        [ -s "$package" ]
}

says() {
    [ "$(dpkg-deb --field "$package" "$1")" = "$2" ]
}

needs() {
    dpkg-deb --field "$package" Depends | tr ',' '\n' | grep -q "^ *$1\b"
}

is_intact() {
    [ -z "$(dpkg_there --verify esker)" ] && [ "$(dpkg_there --list esker | tail -n 1 | cut -c 1-2)" = ii ]
}

only_the_database_is_left() {
    [ -z "$(cd "$root" && find . -not -type d -not -path './var/lib/dpkg/*' -print -quit)" ]
}

that "it is made" make_package
that "it has the version of the command" says Version "$("$ESKER" --version | cut -d ' ' -f 2)"
that "it depends on the C library" needs libc6
that "it depends on libuuid, which libdaos brings" needs libuuid1
that "dpkg installs it" dpkg_there --install "$package"
that "what is installed is what was packed" is_intact
uses "$root/usr"
that "dpkg removes it" dpkg_there --purge esker
that "nothing is left" only_the_database_is_left
summary

#!/usr/bin/env bash
# Builds RPM packages from the build results, for the distribution that this runs on: esker, and esker-devel with headers
# and what linkers need. Libraries are in lib64, as on RHEL and SLES.
# usage: rpm.sh ESKER LIBDAOS PRELOAD FOLDER
#   FOLDER  where to put the packages; prints their paths
set -euo pipefail
cd "$(dirname "$0")/.."
mkdir -p "$4"
folder=$(cd "$4" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
staged=$work/root/usr

version() {
    sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml
}

lay_out() {
    scripts/install.sh "$@" "$work/root" /usr >&2
    # rpm records the list of files, and modules are for other prefixes.
    rm -r "$staged/share/esker" "$staged/share/modulefiles"
    find "$work/root" -name .debug -prune -exec rm -r {} +
    find "$staged/share/man" -type f -exec gzip -9n {} +
    mkdir -p "$staged/share/licenses"
    mv "$staged/share/doc/esker" "$staged/share/licenses/esker"
}

# Moves the libraries from lib to lib64, and removes their links elsewhere.
use_lib64() {
    rm -r "${staged:?}/lib64"
    find "$staged/lib" -mindepth 1 -maxdepth 1 -name '*-linux-gnu' -exec rm -r {} +
    mkdir "$staged/lib64"
    mv "$staged"/lib/*.so* "$staged/lib/pkgconfig" "$staged/lib/cmake" "$staged/lib64/"
    # shellcheck disable=SC2016
    sed -i 's|^libdir=.*|libdir=${prefix}/lib64|' "$staged"/lib64/pkgconfig/*.pc
}

umask 022
rm -f "$folder"/esker{,-devel}-[0-9]*.rpm
lay_out "$1" "$2" "$3"
use_lib64
rpmbuild --quiet -bb --define "_topdir $work/rpm" --define "_rpmdir $folder" \
    --define "_rpmfilename %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm" \
    --define "_dbpath $work/db" --define "esker_version $(version)" --define "staged $staged" packaging/rpm/esker.spec >"$work/log" 2>&1 ||
    { cat "$work/log" >&2 && exit 1; }
ls "$folder"/esker{,-devel}-"$(version)"-*.rpm

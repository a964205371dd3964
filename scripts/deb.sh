#!/usr/bin/env bash
# Builds Debian packages from the build results, for the release of Debian or Ubuntu that this runs on: esker, and
# esker-dev with headers and what linkers need.
# usage: deb.sh ESKER LIBDAOS PRELOAD FOLDER
#   FOLDER  where to put esker_VERSION_ARCHITECTURE.deb and esker-dev_VERSION_ARCHITECTURE.deb; prints their paths
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# dpkg-shlibdeps expects a directory named debian in the current directory.
root=$work/debian/esker
dev=$work/debian/esker-dev

version() {
    sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml
}

# The packages of the libraries that our binaries load.
depends() {
    (cd "$work" && dpkg-shlibdeps -O -l"$root/usr/lib" debian/esker/usr/bin/esker debian/esker/usr/bin/esker-bench \
        debian/esker/usr/lib/libdaos.so.2 debian/esker/usr/lib/esker/libesker_preload{,_store}.so 2>"$work/problems" |
        sed -n 's/^shlibs:Depends=//p') || { cat "$work/problems" >&2 && return 1; }
}

# control FILE ROOT DEPENDS
control() {
    cat "$1"
    cat <<TEXT
Version: $(version)
Architecture: $(dpkg --print-architecture)
Depends: $3
Installed-Size: $(du -sk "$2/usr" | cut -f 1)
TEXT
}

# dpkg itself records the list of files.
lay_out() {
    mkdir -p "$root/DEBIAN"
    scripts/install.sh "$@" "$root" /usr >&2
    rm "$root/usr/share/esker/installed" "$root/usr/share/doc/esker/LICENSE"
    rmdir --ignore-fail-on-non-empty "$root/usr/share/esker"
    find "$root" -name .debug -prune -exec rm -r {} +
    find "$root/usr/share/man" -type f -exec gzip -9n {} +
}

# Moves headers, the names that linkers use, and the files of pkg-config and CMake. DAOS's libdaos_common.so has no
# version, so programs load it by this name.
split_development() {
    local path
    mkdir -p "$dev/DEBIAN" "$dev/usr"
    mv "$root/usr/include" "$dev/usr/"
    while read -r path; do
        mkdir -p "$dev/$(dirname "$path")"
        mv "$root/$path" "$dev/$path"
    done < <(cd "$root" && find usr/lib* \( -name 'lib*.so' ! -name libdaos_common.so -type l -o -name pkgconfig -o -name cmake \) -prune -print)
}

# licensed ROOT NAME
licensed() {
    install -D -m 644 LICENSE "$1/usr/share/doc/$2/copyright"
}

# packed ROOT NAME
packed() {
    local package
    package=$folder/$2_$(version)_$(dpkg --print-architecture).deb
    (cd "$1" && find usr -type f -exec md5sum {} +) >"$1/DEBIAN/md5sums"
    dpkg-deb --root-owner-group -Zxz --build "$1" "$package" >/dev/null
    echo "$package"
}

umask 022
lay_out "$1" "$2" "$3"
split_development
licensed "$root" esker
licensed "$dev" esker-dev
touch "$work/debian/control"
control packaging/deb/control "$root" "$(depends)" >"$root/DEBIAN/control"
control packaging/deb/control.dev "$dev" "esker (= $(version)), uuid-dev" >"$dev/DEBIAN/control"
cp packaging/deb/triggers "$root/DEBIAN/triggers"
mkdir -p "$folder"
rm -f "$folder"/esker{,-dev}_*.deb
packed "$root" esker
packed "$dev" esker-dev

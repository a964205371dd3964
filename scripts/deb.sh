#!/usr/bin/env bash
# Builds a Debian package from the build results, for the release of Debian or Ubuntu that this runs on.
# usage: deb.sh ESKER LIBDAOS PRELOAD FOLDER
#   FOLDER  where to put esker_VERSION_ARCHITECTURE.deb; prints its path
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$4
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# dpkg-shlibdeps expects a directory named debian in the current directory.
root=$work/debian/esker

version() {
    sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml
}

# The packages of the libraries that our binaries load.
depends() {
    (cd "$work" && dpkg-shlibdeps -O -l"$root/usr/lib" debian/esker/usr/bin/esker debian/esker/usr/bin/esker-bench \
        debian/esker/usr/lib/libdaos.so.2 debian/esker/usr/lib/esker/libesker_preload.so 2>"$work/problems" |
        sed -n 's/^shlibs:Depends=//p') || { cat "$work/problems" >&2 && return 1; }
}

control() {
    local needs
    needs=$(depends)
    cat packaging/deb/control
    cat <<END
Version: $(version)
Architecture: $(dpkg --print-architecture)
Depends: $needs
Installed-Size: $(du -sk "$root/usr" | cut -f 1)
END
}

# dpkg itself records the list of files.
lay_out() {
    mkdir -p "$root/DEBIAN" "$root/usr/share/doc/esker"
    scripts/install.sh "$@" "$root" /usr >&2
    rm "$root/usr/share/esker/installed"
    rmdir --ignore-fail-on-non-empty "$root/usr/share/esker"
    find "$root" -name .debug -prune -exec rm -r {} +
    find "$root/usr/share/man" -type f -exec gzip -9n {} +
    cp LICENSE "$root/usr/share/doc/esker/copyright"
    chmod 644 "$root/usr/share/doc/esker/copyright"
}

umask 022
lay_out "$1" "$2" "$3"
touch "$work/debian/control"
control >"$root/DEBIAN/control"
cp packaging/deb/triggers "$root/DEBIAN/triggers"
(cd "$root" && find usr -type f -exec md5sum {} +) >"$root/DEBIAN/md5sums"
mkdir -p "$folder"
package=$folder/esker_$(version)_$(dpkg --print-architecture).deb
dpkg-deb --root-owner-group -Zxz --build "$root" "$package" >/dev/null
echo "$package"

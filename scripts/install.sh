#!/usr/bin/env bash
# Installs the build results and records every file, and every directory that it makes, for uninstall.sh.
# usage: install.sh ESKER LIBDAOS PRELOAD DESTDIR PREFIX
set -euo pipefail
umask 022
cd "$(dirname "$0")/.."
esker=$1 libdaos=$2 preload=$3 prefix=$5 root=$4$5
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
stage=$work/stage

# Also installs links below lib64 and Debian's multiarch directory, where build systems look. They refer to the library
# file itself, not to its other names: lib64 may be a link to lib, where such a link would replace its own target.
other_places() {
    local machine place name library
    library=$(readlink "$stage/lib/libdaos.so.2")
    machine=$(cc -print-multiarch 2>/dev/null || true)
    for place in lib64 "lib/${machine:-$(uname -m)-linux-gnu}"; do
        mkdir -p "$stage/$place/pkgconfig"
        for name in $(cd "$stage/lib" && find . -name '*.so*' -type l); do
            ln -s "$(realpath -m --relative-to="$stage/$place" "$stage/lib/$library")" "$stage/$place/$name"
        done
        pkg_configs "$stage/$place/pkgconfig"
    done
}

# pkg_configs FOLDER: the library under the name of DAOS, with DAOS's version, and under its own.
pkg_configs() {
    local library
    library=$(readlink "$stage/lib/libdaos.so.2")
    pkg_config daos "The DAOS API on Esker" "${library#libdaos.so.}" >"$1/daos.pc"
    pkg_config esker "Fields and tensors on Esker, and the DAOS API" "$(version)" >"$1/esker.pc"
}

version() {
    "$esker" --version | cut -d ' ' -f 2
}

# pkg_config NAME DESCRIPTION VERSION
pkg_config() {
    cat <<END
prefix=$prefix
libdir=\${prefix}/lib
includedir=\${prefix}/include
fortran_source=\${includedir}/esker.f90

Name: $1
Description: $2
Version: $3
Libs: -L\${libdir} -ldaos -luuid
Cflags: -I\${includedir}
END
}

# For Lmod and for Environment Modules, below the directory that `module use` names.
module_files() {
    local place=$stage/share/modulefiles/esker
    mkdir -p "$place"
    sed "s|@PREFIX@|$prefix|; s|@VERSION@|$(version)|" packaging/modulefiles/esker.lua >"$place/$(version).lua"
    sed "s|@PREFIX@|$prefix|; s|@VERSION@|$(version)|" packaging/modulefiles/esker.tcl >"$place/$(version)"
}

# For find_package(DAOS), in the directory of the library alone: its files find the prefix from where they are.
daos_cmake_package() {
    local library version
    library=$(readlink "$stage/lib/libdaos.so.2")
    version=${library#libdaos.so.}
    mkdir -p "$stage/lib/cmake/DAOS"
    install -m 644 packaging/cmake/DAOSConfig.cmake "$stage/lib/cmake/DAOS/DAOSConfig.cmake"
    sed "s|@VERSION@|$version|; s|@MAJOR@|${version%%.*}|" packaging/cmake/DAOSConfigVersion.cmake \
        >"$stage/lib/cmake/DAOS/DAOSConfigVersion.cmake"
}

# For find_package(esker).
cmake_package() {
    local place=$stage/lib/cmake/esker
    mkdir -p "$place"
    install -m 644 packaging/cmake/esker-config.cmake "$place/esker-config.cmake"
    sed "s|@VERSION@|$(version)|; s|@SERIES@|$(version | cut -d . -f 1,2)|" packaging/cmake/esker-config-version.cmake \
        >"$place/esker-config-version.cmake"
}

scripts/lay-out-command.sh "$esker" "$preload" "$stage"
scripts/lay-out-library.sh "$libdaos" "$stage/lib"
scripts/split-debug.sh "$stage"/bin/esker{,-bench} "$stage"/lib/esker/libesker_preload{,_store}.so \
    "$(readlink -f "$stage/lib/libdaos.so.2")"
(cd include && find . \( -name '*.h' -o -name '*.f90' \) -exec install -D -m 644 {} "$stage/include/{}" \;)
mkdir -p "$stage/lib/pkgconfig" "$stage/share/esker"
pkg_configs "$stage/lib/pkgconfig"
other_places
daos_cmake_package
module_files
cmake_package

# Directories that this installation makes, or that an earlier one has made; each ends with a slash.
directories() {
    local directory
    (cd "$stage" && find . -type d -printf '%p/\n') | while read -r directory; do
        [ -d "$root/$directory" ] || echo "$directory"
    done
    [ ! -f "$root/$manifest" ] || grep '/$' "$root/$manifest" || true
}

# Files that only an older version installed would stay for ever.
remove_older_files() {
    local older
    [ -f "$root/$manifest" ] || return 0
    mapfile -t older < <(grep -vxFf "$stage/$manifest" "$root/$manifest" | grep -v '/$')
    (cd "$root" && rm -f "${older[@]}")
}

manifest=share/esker/installed
touch "$stage/$manifest"
{ (cd "$stage" && find . -not -type d) && directories; } | sort -u >"$work/list"
mv "$work/list" "$stage/$manifest"

mkdir -p "$root"
remove_older_files
tar -C "$stage" -c . | tar -C "$root" -x --no-same-owner --no-overwrite-dir --keep-directory-symlink
echo "installed $(grep -vc '/$' "$root/$manifest") files in $root"

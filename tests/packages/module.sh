#!/usr/bin/env bash
# Installs below a prefix, and uses the environment module of that installation: by Lmod if the machine has it, and
# always by evaluating the module's lines.
#
# environment: ESKER, the command; ESKER_LIB, the directory of the library; CC.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
. tests/packages/support.sh
prefix=$work/opt/esker/1
modules=$prefix/share/modulefiles
version=$("$ESKER" --version | cut -d ' ' -f 2)

install_there() {
    scripts/install.sh "$ESKER" "${ESKER_LIB:?}/libdaos.so.2" "$preload" "" "$prefix"
}

# paths: prints VARIABLE=DIRECTORY for each path that the module prepends.
paths() {
    sed -n 's|^prepend_path("\(.*\)", pathJoin(prefix, "\(.*\)"))$|\1='"$prefix"'/\2|p; s|^prepend_path("\(.*\)", prefix)$|\1='"$prefix"'|p' \
        "$modules/esker/$version.lua"
}

# appended: prints what the module appends: an empty path to MANPATH, for the manual pages of the system.
appended() {
    sed -n 's|^append_path("\(.*\)", "\(.*\)")$|append \1=\2|p' "$modules/esker/$version.lua" | grep -Fx "append MANPATH="
}

all_there() {
    local line
    [ "$(paths | wc -l)" -ge 6 ] || return
    for line in $(paths); do
        [ -d "${line#*=}" ] || { echo "$line is not a directory" && return 1; }
    done
}

is_filled_in() {
    grep -Fqx "local prefix = \"$prefix\"" "$modules/esker/$version.lua" && ! grep @ "$modules/esker/$version.lua"
}

# A program built and run with nothing but the environment of the module.
builds_there() {
    cat >"$work/program.c" <<END
#include <daos.h>
int main(void) { return daos_init() || daos_fini(); }
END
    mapfile -t environment < <(paths)
    # shellcheck disable=SC2016
    env "${environment[@]/#PATH=*/PATH=$prefix/bin:$PATH}" bash -euc \
        '"${CC:-cc}" -o "$1" "$1.c" -ldaos -luuid && "$1" && [ "$(command -v esker)" = "$2/bin/esker" ]' \
        - "$work/program" "$prefix"
}

# CI builds without debug information, so only the section that leads to it is certain.
debug_files_are_apart() {
    local binary
    for binary in "$prefix/bin/esker" "$prefix"/lib/esker/libesker_preload{,_store}.so \
        "$(readlink -f "$prefix/lib/libdaos.so")"; do
        ! readelf --sections --wide "$binary" | grep -F .debug_info || return
        readelf --sections --wide "$binary" | grep -F .gnu_debuglink >/dev/null || return
        [ -s "$(dirname "$binary")/.debug/$(basename "$binary").debug" ] || return
    done
}

# A Tcl interpreter with the commands of Environment Modules, which prints VARIABLE=VALUE for each.
tcl_paths() {
    cat >"$work/module.tcl" <<'END'
proc setenv {name value} { puts "$name=$value" }
proc prepend-path {name value} { puts "$name=$value" }
proc append-path {name value} { puts "append $name=$value" }
proc module-whatis {text} { }
proc conflict {name} { puts "conflict=$name" }
source [lindex $argv 0]
END
    tclsh "$work/module.tcl" "$modules/esker/$version"
}

# Both modules set the same variables.
tcl_is_like_lua() {
    head -n 1 "$modules/esker/$version" | grep -q '^#%Module' && ! grep @ "$modules/esker/$version" &&
        diff <(tcl_paths | sort) <({ paths && echo "ESKER_ROOT=$prefix" && echo conflict=daos && appended; } | sed "s|/\$||" | sort)
}

# modulecmd, lmod: print the path of the program, or nothing if it is missing.
modulecmd() {
    find /usr/lib /usr/share/modules /usr/libexec -name modulecmd.tcl 2>/dev/null | head -n 1
}

lmod() {
    find /usr/share/lmod /opt/apps/lmod -path '*libexec/lmod' 2>/dev/null | head -n 1
}

# loads COMMAND...: the lines that it prints for the shell set the variables. In a subshell, so that each check sees only
# variables that its own program has set.
loads() (
    eval "$(MODULEPATH=$modules "$@" bash load "esker/$version")" &&
        [ "${ESKER_ROOT:-}" = "$prefix" ] && [ "$(command -v esker)" = "$prefix/bin/esker" ]
)

that "it installs" install_there
that "the module knows its prefix" is_filled_in
that "what it puts on paths is there" all_there
that "the manual pages of the system stay" appended
that "debug information is in files of its own" debug_files_are_apart
that "programs build and run with it" builds_there
uses "$prefix"
if [ -n "$(lmod)" ]; then
    that "Lmod loads it" loads "$(lmod)"
else
    skip "Lmod is missing"
fi
if command -v tclsh >/dev/null; then
    that "the module in Tcl sets the same variables" tcl_is_like_lua
else
    skip "tclsh is missing"
fi
if [ -n "$(modulecmd)" ]; then
    that "Environment Modules loads it" loads tclsh "$(modulecmd)"
else
    skip "Environment Modules is missing"
fi
that "it is removed" scripts/uninstall.sh "$prefix"
that "nothing is left" test ! -e "$prefix"
summary

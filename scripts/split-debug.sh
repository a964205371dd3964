#!/usr/bin/env bash
# Moves the debug information of installed binaries into files of their own, where debuggers and backtraces look for it:
# `.debug/NAME.debug` beside the binary.
# usage: split-debug.sh BINARY...
set -euo pipefail
umask 022

for binary in "$@"; do
    debug=$(dirname "$binary")/.debug/$(basename "$binary").debug
    mkdir -p "$(dirname "$debug")"
    objcopy --only-keep-debug --compress-debug-sections "$binary" "$debug"
    chmod 644 "$debug"
    objcopy --strip-unneeded --add-gnu-debuglink="$debug" "$binary"
done

#!/usr/bin/env bash
# Removes the files that install.sh recorded, and directories that are empty afterwards, ROOT itself too.
# usage: uninstall.sh ROOT
set -euo pipefail
manifest=share/esker/installed

root=$(realpath -m "$1")
[ -f "$root/$manifest" ] || { echo "nothing of Esker's is installed in $root" >&2 && exit 1; }
cd "$root"
mapfile -t files <"$manifest"
rm -f "${files[@]}"
printf '%s\n' "${files[@]%/*}" | sort -u | xargs rmdir -p --ignore-fail-on-non-empty 2>/dev/null || true
cd /
rmdir "$root" 2>/dev/null || true
echo "removed ${#files[@]} files from $root"

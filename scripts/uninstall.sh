#!/usr/bin/env bash
# Removes the files that install.sh recorded, and directories that are empty afterwards.
# usage: uninstall.sh ROOT
set -euo pipefail
manifest=share/esker/installed

cd "$1"
[ -f "$manifest" ] || { echo "nothing of Esker's is installed in $1" >&2 && exit 1; }
mapfile -t files <"$manifest"
rm -f "${files[@]}"
printf '%s\n' "${files[@]%/*}" | sort -u | xargs rmdir -p --ignore-fail-on-non-empty 2>/dev/null || true
echo "removed ${#files[@]} files from $1"

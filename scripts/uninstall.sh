#!/usr/bin/env bash
# Removes the files that install.sh recorded, and the directories that it made, ROOT too, if they are empty afterwards.
# usage: uninstall.sh ROOT
set -euo pipefail
manifest=share/esker/installed

root=$(realpath -m "$1")
[ -f "$root/$manifest" ] || { echo "nothing of Esker's is installed in $root" >&2 && exit 1; }
cd "$root"
mapfile -t files < <(grep -v '/$' "$manifest")
mapfile -t directories < <(grep '/$' "$manifest" | sort -r)
rm -f "${files[@]}"
for directory in "${directories[@]}"; do
    # The last one is ./, the prefix itself, which is not a name that can be removed.
    directory=${directory%/}
    rmdir --ignore-fail-on-non-empty "$root${directory#.}" 2>/dev/null || true
done
echo "removed ${#files[@]} files from $root"

#!/usr/bin/env bash
# Prints the paths of ecCodes' sample GRIB fields, one per line; fails if there are none.
set -euo pipefail

IFS=: read -ra folders <<<"${ECCODES_SAMPLES_PATH:-/usr/share/eccodes/samples:/usr/share/eccodes/ifs_samples}"

# Not all samples are GRIB; only their first bytes tell.
is_grib() {
    [ "$(head -c 4 "$1" | tr -d '\0')" = GRIB ]
}

found=0
while read -r file; do
    is_grib "$file" || continue
    echo "$file"
    found=1
done < <(find -L "${folders[@]}" -name '*.tmpl' 2>/dev/null | sort)
[ "$found" = 1 ]

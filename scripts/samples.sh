#!/usr/bin/env bash
# Prints the paths of ecCodes' sample GRIB fields, one a line; fails where there are none.
set -euo pipefail

IFS=: read -ra folders <<<"${ECCODES_SAMPLES_PATH:-/usr/share/eccodes/samples:/usr/share/eccodes/ifs_samples}"

# The samples are not all GRIB, and only their first bytes say which are.
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

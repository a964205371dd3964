#!/usr/bin/env bash
# Copies libdaos into a directory under every name that linkers and loaders use.
# usage: lay-out-library.sh LIBRARY FOLDER
set -euo pipefail
library=$1 folder=$2
header=$(dirname "$0")/../include/daos_version.h
version=$(sed -n 's/^#define DAOS_API_VERSION_[A-Z]* *//p' "$header" | paste -s -d .)

install -D -m 755 "$library" "$folder/libdaos.so.$version"
ln -sf "libdaos.so.$version" "$folder/libdaos.so.2"

# Programs built for DAOS also link its helper libraries; this library contains everything clients use of them.
for name in libdaos.so libdaos_common.so libgurt.so libgurt.so.4 libdfs.so libdfs.so.2 libduns.so libduns.so.2; do
    ln -sf libdaos.so.2 "$folder/$name"
done

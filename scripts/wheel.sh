#!/usr/bin/env bash
# Builds the Python package, including the command `esker`, with the tools that `setup.sh python` installs.
# usage: wheel.sh FOLDER PROFILE
#        wheel.sh FOLDER portable
#   FOLDER    where to put the wheels; removes older ones
#   PROFILE   cargo profile: release, or dev to share the tests' build. Builds a wheel for this machine and CPython 3.11
#             and later
#   portable  builds wheels for Linux with glibc 2.28 (RHEL 8): one for CPython 3.11 and later, and one for each older
#             version. Needs `setup.sh wheels`
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$1 profile=$2
glibc=2.28
# Versions whose stable ABI lacks the buffer protocol (docs/decisions/0031).
older=(3.9 3.10)
tools=$PWD/build/python/bin
# The name that maturin looks for. Files below scripts are installed into bin, files below data into the root of the
# environment.
stage=python/esker._esker.data
# Two at a time would take each other's files from there.
mkdir -p build
exec {lock}>>build/wheel.lock
flock $lock
trap 'rm -rf "$stage"' EXIT

# stage_command DIRECTORY: copies the command and its library from there, without debug information.
stage_command() {
    rm -rf "$stage"
    scripts/lay-out-command.sh "$1/esker" "$1/libesker_preload.so" "$stage/data"
    scripts/third-party.sh -p esker-python >"$stage/data/share/doc/esker/THIRD-PARTY"
    strip --strip-debug "$stage"/data/bin/esker{,-bench} "$stage"/data/lib/esker/libesker_preload{,_store}.so
    mv "$stage/data/bin" "$stage/scripts"
}

build_wheel() {
    "$tools/maturin" build --quiet --locked --manifest-path python/Cargo.toml --out "$folder" --strip "$@"
}

# zig_build PACKAGE CARGO-ARGUMENT...
zig_build() {
    cargo-zigbuild rustc --quiet --locked --release --target "$target.$glibc" -p "$@"
}

# Builds the same packages as `make test` or `make build`: for others, cargo would compile dependencies again.
build_command() {
    if [ "$profile" = dev ]; then
        cargo build-for-tests --quiet --locked
    else
        cargo build --quiet --locked --profile "$profile" -p esker-cli -p esker-bench -p esker-libdaos \
            -p esker-preload -p esker-preload-store
    fi
}

local_wheel() {
    local built=${CARGO_TARGET_DIR:-target}/${profile/#dev/debug}
    echo "building the command and the Python module, which takes some minutes the first time"
    build_command
    stage_command "$built"
    build_wheel --profile "$profile" --compatibility linux
}

# Libraries use the system's unwinder instead of zig's, which crashes when glibc unwinds a thread of the program
# (docs/decisions/0031).
portable_wheels() {
    local target unwinder portable version
    target=$(uname -m)-unknown-linux-gnu
    unwinder=(-C "link-arg=$(cc -print-file-name=libgcc_s.so.1)")
    portable=(--release --zig --target "$target" --compatibility "manylinux_${glibc/./_}")
    export PATH=$tools:$PATH
    zig_build esker-cli --bins
    zig_build esker-bench --bins
    zig_build esker-preload --lib -- "${unwinder[@]}"
    zig_build esker-preload-store --lib -- "${unwinder[@]}"
    stage_command "${CARGO_TARGET_DIR:-target}/$target/release"
    build_wheel "${portable[@]}" -- "${unwinder[@]}"
    for version in "${older[@]}"; do
        build_wheel "${portable[@]}" --no-default-features --interpreter "python$version" -- "${unwinder[@]}"
    done
    check_portable "manylinux_${glibc/./_}"
}

# tag_of WHEEL: the oldest platform that it runs on, as in manylinux_2_28.
tag_of() {
    "$tools/auditwheel" show "$1" | tr '\n' ' ' | sed -n 's/.*following platform tag: *"\(manylinux_[0-9]*_[0-9]*\)_.*/\1/p'
}

# maturin checks the module only; this checks the command and its library too.
check_portable() {
    local wheel tag
    for wheel in "$folder"/*.whl; do
        tag=$(tag_of "$wheel")
        if [ -z "$tag" ] || ! printf '%s\n' "$tag" "$1" | sort -C -V; then
            echo "wheel.sh: $wheel needs ${tag:-more than manylinux}, newer than $1" >&2
            return 1
        fi
    done
}

rm -rf "$folder"
if [ "$profile" = portable ]; then portable_wheels; else local_wheel; fi

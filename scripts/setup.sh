#!/usr/bin/env bash
# Ensures that the build requirements are present: installs them if it may, lists them otherwise.
# usage: setup.sh [samples] [fields] [fuse] [fabric] [fortran] [ceph] [slurm] [lint] [semver] [python] [deb] [rpm] [recipes] [wheels]
#   samples  also the sample fields of ecCodes
#   fields   also ecCodes, which reads GRIB
#   fuse     also the packages that mounting needs, if this machine has the device; as root, also lets the kernel serve
#            mounts over io_uring, if it can
#   fabric   also libfabric, for connections over fast networks
#   fortran  also a Fortran compiler, for the tests of the Fortran module
#   ceph     also librados, and the daemons of a cluster for tests
#   slurm    also Slurm and munge, for the tests of jobs
#   lint     also rustfmt, clippy, cargo-deny, shellcheck and mdbook
#   semver   also cargo-semver-checks
#   python   also the tools that build, check and test the Python package, into build/python
#   deb      also the tools that build Debian packages
#   rpm      also the tools that build RPM packages
#   recipes  also EasyBuild with Lmod, and rattler-build, into build/recipes, for the tests of recipes
#   wheels   also the tools that build wheels for other machines, into build/python
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()

# need PACKAGE COMMAND...: the package is missing if the command fails.
need() {
    local package=$1
    shift
    "$@" >/dev/null 2>&1 || missing+=("$package")
}

has_header() {
    echo "#include <$1>" | cc -E -x c -
}

# ldconfig is not on every user's path.
has_library() {
    PATH=$PATH:/sbin ldconfig -p | grep -F "$1"
}

has_eccodes() {
    [ -n "${ESKER_ECCODES:-}" ] || has_library libeccodes.so
}

cargo_is_recent() {
    local oldest found
    oldest=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    found=$(cargo --version | cut -d ' ' -f 2)
    printf '%s\n' "$oldest" "$found" | sort -C -V
}

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; else sudo -n "$@"; fi
}

can_install() {
    command -v apt-get && as_root true
} >/dev/null 2>&1

# --no-remove: never replace a compiler that the user chose.
apt_get() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=120 "$@"
}

apt_install() {
    apt_get install -y --no-remove --no-install-recommends "$@"
}

explain() {
    cat >&2 <<END
These packages are missing and cannot be installed automatically:
    $*
On Debian 12:  apt-get install $*
Elsewhere:     a C and a C++ compiler, pkg-config, the headers of libuuid, git, fusermount3, ecCodes'
               library and sample fields (set ESKER_ECCODES and ECCODES_SAMPLES_PATH to their paths),
               libfabric, gfortran and a recent Rust with rustfmt and clippy (https://rustup.rs); shellcheck for \`make check\`;
               librados and Ceph's monitor, OSD and tools for a cluster of \`make ceph-up\`;
               Python 3.11 or later with its modules venv and ensurepip
END
    exit 1
}

install_missing() {
    [ $# -gt 0 ] || return 0
    can_install || explain "$@"
    echo "installing: $*"
    apt_install "$@" >/dev/null 2>&1 && return
    apt_get update || explain "$@"
    apt_install "$@" >/dev/null || explain "$@"
}

need_build_tools() {
    need ca-certificates test -s /etc/ssl/certs/ca-certificates.crt
    need g++ command -v c++
    need gcc command -v cc
    need git command -v git
    need pkg-config command -v pkg-config
    need uuid-dev has_header uuid/uuid.h
    need cargo-web cargo_is_recent
}

# The other packages include the library's, which is all that programs need to use a cluster.
need_ceph() {
    need ceph-common command -v rados
    need ceph-mon command -v ceph-mon
    need ceph-osd command -v ceph-osd
    need librados2 has_library librados.so.2
}

has_slurm() {
    (PATH=$PATH:/usr/sbin && command -v slurmctld && command -v slurmd && command -v munged && command -v sbatch)
}

# rustup installs components for its own toolchains; Debian's packages are for Debian's compiler.
need_lint_tools() {
    need shellcheck command -v shellcheck
    if command -v rustup >/dev/null; then
        rustup -q component add rustfmt clippy
    else
        need rustfmt-web cargo fmt --version
        need rust-web-clippy cargo clippy --version
    fi
}

# An unoptimised build takes a third of the time, and is fast enough.
install_cargo_deny() {
    cargo deny --version >/dev/null 2>&1 && return
    echo "installing: cargo-deny (about a minute)"
    CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug cargo-deny
}

# It reads the output of rustdoc, whose format changes with the compiler: the newest version that builds is the right one.
install_semver_checks() {
    cargo semver-checks --version >/dev/null 2>&1 && return
    echo "installing: cargo-semver-checks (about ten minutes)"
    CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug cargo-semver-checks
}

# Installs mdbook for HTML with its search only, without the server.
install_mdbook() {
    mdbook --version >/dev/null 2>&1 && return
    echo "installing: mdbook (about a minute)"
    CARGO_PROFILE_DEV_DEBUG=0 cargo install --quiet --locked --debug --no-default-features --features search \
        mdbook --version 0.5.4
}

has_python() {
    python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))'
}

# The environment is recreated if its requirements change or its interpreter is gone.
install_python_tools() {
    local tools=build/python wanted=python/requirements.txt
    cmp -s "$wanted" "$tools/requirements.txt" && "$tools/bin/maturin" --version >/dev/null 2>&1 && return
    echo "installing: maturin, pytest, ruff, mypy and basedpyright into $tools"
    python3 -m venv --clear "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted"
    cp "$wanted" "$tools/requirements.txt"
}

# The tools of recipes have an environment of their own: their requirements conflict with those of the other tools.
install_recipe_tools() {
    local tools=build/recipes wanted=python/requirements-recipes.txt
    cmp -s "$wanted" "$tools/requirements.txt" && [ -x "$tools/bin/eb" ] && return
    echo "installing: EasyBuild and rattler-build into $tools"
    python3 -m venv --clear "$tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted"
    cp "$wanted" "$tools/requirements.txt"
}

# zig links against an older glibc than this machine's; auditwheel checks the result.
install_wheel_tools() {
    local tools=build/python wanted=python/requirements-wheels.txt
    cmp -s "$wanted" "$tools/requirements-wheels.txt" && return
    echo "installing: zig, cargo-zigbuild and auditwheel into $tools"
    "$tools/bin/pip" install --quiet --disable-pip-version-check --requirement "$wanted"
    cp "$wanted" "$tools/requirements-wheels.txt"
}

# Until the machine starts again. A kernel before 6.14 has no such parameter.
allow_fuse_over_io_uring() {
    local parameter=/sys/module/fuse/parameters/enable_uring
    [ ! -w "$parameter" ] || echo 1 >"$parameter" || true
}

need_build_tools
for group in "$@"; do
    case $group in
    samples) need libeccodes-data scripts/samples.sh ;;
    fields) need libeccodes0 has_eccodes ;;
    fuse) [ ! -e /dev/fuse ] || need fuse3 command -v fusermount3 ;;
    fabric) need libfabric1 has_library libfabric.so.1 ;;
    fortran) need gfortran command -v gfortran ;;
    ceph) need_ceph ;;
    slurm) need slurm-wlm has_slurm ;;
    lint) need_lint_tools ;;
    semver) ;;
    deb) need dpkg-dev command -v dpkg-shlibdeps ;;
    rpm) need rpm command -v rpmbuild ;;
    recipes) need lmod test -e /usr/share/lmod && need python3-venv has_python ;;
    python | wheels) need python3-venv has_python ;;
    *) echo "setup.sh: no such group: $group" >&2 && exit 2 ;;
    esac
done
install_missing "${missing[@]}"
[[ " $* " != *" fuse "* ]] || allow_fuse_over_io_uring
[[ " $* " != *" lint "* ]] || { install_cargo_deny && install_mdbook; }
[[ " $* " != *" python "* && " $* " != *" wheels "* ]] || install_python_tools
[[ " $* " != *" recipes "* ]] || install_recipe_tools
[[ " $* " != *" semver "* ]] || install_semver_checks
[[ " $* " != *" wheels "* ]] || install_wheel_tools

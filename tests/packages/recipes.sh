#!/usr/bin/env bash
# Checks recipes: their syntax, their version, and that they name files and packages of this repository. Those of EasyBuild
# and conda are built, and the phases of Spack's run, with a `cargo` that copies the results of the test build in place of
# compiling for a quarter of an hour.
#
# environment: ESKER, the command; ESKER_LIB, the directory of the library.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
. tests/packages/support.sh
version=$(sed -n '/^\[workspace.package\]/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)

# script_is_known FILE: it calls the installation script as that wants it, with crates of the workspace.
script_is_known() {
    local crate
    grep -q 'scripts.*install.sh' "$1" || return
    while read -r crate; do
        grep -qx "name = \"$crate\"" crates/*/Cargo.toml crates/*/*/Cargo.toml || return
    done < <(grep -o -- '-p esker-[a-z]*' "$1" | cut -c 4-)
}

has_version() {
    grep -Fq "$version" "$1"
}

spack_is_python() {
    python3 - <<'END'
import ast
tree = ast.parse(open("packaging/spack/package.py").read())
classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
assert [node.name for node in classes] == ["Esker"], classes
END
}

easybuild_is_complete() {
    python3 - packaging/easybuild/*.eb "$version" <<'END'
import sys
recipe = {"SYSTEM": {"name": "system", "version": "system"}}
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"), recipe)
wanted = "easyblock name version homepage description toolchain sources moduleclass sanity_check_paths".split()
assert all(name in recipe for name in wanted), sorted(recipe)
assert recipe["version"] == sys.argv[2] and sys.argv[1].endswith(f"/esker-{sys.argv[2]}.eb"), sys.argv
assert recipe["installopts"] == "%(installdir)s"
END
}

conda_is_complete() {
    "$python" - "$version" <<'END'
import pathlib, sys, yaml
path = pathlib.Path("packaging/conda/recipe.yaml")
recipe = yaml.safe_load(path.read_text())
assert recipe["schema_version"] == 1 and recipe["context"]["version"] == sys.argv[1], recipe["context"]
assert (path.parent / recipe["source"]["path"] / "Cargo.toml").resolve() == pathlib.Path("Cargo.toml").resolve()
# The build writes the other one.
assert recipe["about"]["license_file"] == ["LICENSE", "target/release/THIRD-PARTY"] and pathlib.Path("LICENSE").exists()
assert recipe["about"]["license"] == "Apache-2.0"
assert {"package", "build", "requirements", "tests"} <= set(recipe)
END
}

# has_labels FILE SEPARATOR
has_labels() {
    local name
    for name in title description url source licenses version; do
        grep -q "org.opencontainers.image.$name$2" "$1" || { echo "no $name" && return 1; }
    done
}

# Makes an archive of the repository, and the cargo.
make_sources() {
    local built=${ESKER%/*}
    tracked "esker-$version/" "$work/esker-$version.tar.gz" && mkdir "$work/bin" && cat >"$work/bin/cargo" <<END
#!/bin/sh
# For the list of licences.
[ "\$1" != tree ] || { echo "libc v0.2.0|MIT" && exit; }
echo "\$* RUSTFLAGS=\$RUSTFLAGS" >>"$work/cargo"
mkdir -p target/release
cp "$built/esker" "$built/esker-bench" "$preload" "${preload%.so}_store.so" target/release/
cp "$(readlink -f "${ESKER_LIB:?}/libdaos.so.2")" target/release/libdaos.so
END
    chmod +x "$work/bin/cargo"
}

# tracked PREFIX FILE: an archive of the files that git does not ignore, as they are now.
tracked() {
    git ls-files -z --cached --others --exclude-standard | tar --null --transform "s|^|$1|" -czf "$2" --files-from -
}

easybuild() {
    PATH=$recipe_tools:$PATH LMOD_CMD=$lmod eb --allow-use-as-root-and-accept-consequences --modules-tool=Lmod "$@"
}

# EasyBuild refuses programs that were linked without its wrapper: here, all.
builds_with_easybuild() {
    PATH=$work/bin:$PATH easybuild --disable-rpath --prefix="$work/easybuild" --sourcepath="$work" packaging/easybuild/*.eb &&
        grep -q 'RUSTFLAGS=-C linker=gcc' "$work/cargo" &&
        run_a_program "$work/easybuild/software/esker/$version"
}

builds_with_conda() {
    PATH=$recipe_tools:$PATH python tests/packages/build_conda.py "$work/bin/cargo" "$work/conda" &&
        [ -s "$(echo "$work"/conda/out/linux-*/"esker-$version"-*.conda)" ]
}

builds_with_spack() {
    tar -C "$work" -xzf "$work/esker-$version.tar.gz" &&
        (cd "$work/esker-$version" && python3 tests/packages/build_spack.py "$work/bin/cargo" "$work/spack") &&
        run_a_program "$work/spack"
}

# The interpreter of the tests has PyYAML; so do some systems.
python=$(for python in build/python/bin/python python3; do
    "$python" -c 'import yaml' 2>/dev/null && echo "$python" && break
done)

that "Spack's package is in Python" spack_is_python
that "EasyBuild's recipe is complete" easybuild_is_complete
if [ -n "$python" ]; then that "conda's recipe is complete" conda_is_complete; else skip "PyYAML is missing"; fi
for recipe in packaging/conda/recipe.yaml packaging/easybuild/*.eb; do
    that "$recipe installs as the script wants" script_is_known "$recipe"
done
for recipe in packaging/conda/recipe.yaml packaging/easybuild/*.eb packaging/oci/Containerfile packaging/apptainer/esker.def; do
    that "$recipe has the version" has_version "$recipe"
done
that "the image has labels" has_labels packaging/oci/Containerfile =
that "the image of Apptainer has labels" has_labels packaging/apptainer/esker.def ' '
that "there are sources and a cargo" make_sources
that "the phases of Spack's package run" builds_with_spack
recipe_tools=$PWD/build/recipes/bin
lmod=$(find /usr/share/lmod /opt/apps/lmod -path '*libexec/lmod' 2>/dev/null | head -n 1)
if [ -x "$recipe_tools/eb" ] && [ -n "$lmod" ]; then
    that "EasyBuild accepts the style of its recipe" easybuild --check-style packaging/easybuild/*.eb
    that "EasyBuild builds its recipe" builds_with_easybuild
    that "rattler-build builds conda's recipe" builds_with_conda
else
    skip "EasyBuild, Lmod and rattler-build are missing (scripts/setup.sh recipes)"
fi
summary

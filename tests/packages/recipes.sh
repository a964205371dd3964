#!/usr/bin/env bash
# Checks recipes whose tools would build for a quarter of an hour or need a network: their syntax, their version, and that
# they name files and packages of this repository.
#
# environment: ESKER, the command.
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
assert pathlib.Path(recipe["about"]["license_file"]).exists() and recipe["about"]["license"] == "Apache-2.0"
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
if command -v eb >/dev/null; then
    that "EasyBuild accepts the style of its recipe" eb --allow-use-as-root-and-accept-consequences --check-style packaging/easybuild/*.eb
else
    skip "EasyBuild is missing"
fi
summary

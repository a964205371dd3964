"""Builds packaging/conda with rattler-build and no network: `python build_conda.py CARGO FOLDER`.

Packages that the recipe needs for building come from a channel in FOLDER. They are empty, so that the system's compiler is used,
except that of Rust, whose `cargo` runs the program CARGO. The built package is in FOLDER/out.
"""

import pathlib
import sys
import warnings

from rattler_build import build_recipes

NEEDED = {"gcc_linux-64": "14", "gxx_linux-64": "14", "sysroot_linux-64": "2.28", "rust": "1.99", "pkg-config": "1", "git": "2", "libuuid": "2"}
RECIPE = """schema_version: 1
package: {{name: {name}, version: "{version}"}}
build:
  noarch: generic
  script:
    - mkdir -p $PREFIX/share/{name} $PREFIX/bin
    - touch $PREFIX/share/{name}/empty
    - {command}
"""


def recipe(folder: pathlib.Path, name: str, cargo: str) -> pathlib.Path:
    """The recipe of a package that the build needs."""
    command = f"cp {cargo} $PREFIX/bin/cargo" if name == "rust" else "true"
    path = folder / name / "recipe.yaml"
    path.parent.mkdir(parents=True)
    path.write_text(RECIPE.format(name=name, version=NEEDED[name], command=command))
    return path


def main(cargo: str, folder: pathlib.Path) -> None:
    """Build the channel, then the package."""
    channel = folder / "channel"
    recipes = [recipe(folder / "recipes", name, cargo) for name in NEEDED]
    build_recipes(recipes, output_dir=channel, channel=[], test="skip")
    build_recipes(["packaging/conda/recipe.yaml"], output_dir=folder / "out", channel=[channel.resolve().as_uri()], package_format="conda:-7")


warnings.simplefilter("ignore", DeprecationWarning)
main(sys.argv[1], pathlib.Path(sys.argv[2]))

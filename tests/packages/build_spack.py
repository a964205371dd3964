"""Runs the phases of packaging/spack/package.py with stand-ins for Spack's classes: `python build_spack.py CARGO PREFIX`.

Spack itself comes from no registry of packages. This shows that the phases are valid Python, call cargo and the installation
script with arguments that exist, and set paths below the prefix.
"""

import os
import pathlib
import subprocess
import sys
import types


class Executable:
    """A program, which is run by calling it."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, *arguments: object, **how: object) -> str:
        return subprocess.run([self.path, *map(str, arguments)], check=True, stdout=subprocess.PIPE, text=True).stdout


class Prefix(str):
    """A path whose attributes are paths below it."""

    def __getattr__(self, name: str) -> "Prefix":
        return Prefix(os.path.join(self, name))


class Environment:
    """Records the changes of an environment."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def prepend_path(self, name: str, path: str) -> None:
        self.paths.append(path)

    def set(self, name: str, value: str) -> None:
        raise AssertionError(f"{name} is set without the variant that needs it")


def stand_in(cargo: str) -> None:
    """Makes the modules that the package imports."""
    spack = types.ModuleType("spack.package")
    for name in ("depends_on", "license", "variant", "version"):
        setattr(spack, name, lambda *arguments, **options: None)
    spack.join_path, spack.Executable, spack.EnvironmentModifications = os.path.join, Executable, Environment
    spack.which = lambda name, required: Executable(cargo if name == "cargo" else name)
    generic = types.ModuleType("spack_repo.builtin.build_systems.generic")
    generic.Package = object
    for name in ("spack", "spack_repo", "spack_repo.builtin", "spack_repo.builtin.build_systems"):
        sys.modules[name] = types.ModuleType(name)
    sys.modules |= {module.__name__: module for module in (spack, generic)}


def main(cargo: str, prefix: Prefix) -> None:
    """Build, install and test."""
    stand_in(cargo)
    source = pathlib.Path("packaging/spack/package.py").read_text()
    defined: dict = {"__name__": "package"}
    exec(compile(source, "package.py", "exec"), defined)
    package = defined["Esker"]()
    package.module = types.SimpleNamespace(make_jobs=2)
    package.stage = types.SimpleNamespace(source_path=os.getcwd())
    package.prefix = prefix
    package.spec = types.SimpleNamespace(satisfies=lambda condition: False)
    for phase in package.phases:
        getattr(package, phase)(package.spec, prefix)
    package.test_version()
    environment = Environment()
    package.setup_run_environment(environment)
    package.setup_dependent_build_environment(environment, package.spec)
    missing = [path for path in environment.paths if not os.path.isdir(path)]
    assert not missing, missing


main(sys.argv[1], Prefix(sys.argv[2]))

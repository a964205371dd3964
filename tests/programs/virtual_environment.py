"""A virtual environment of Python in the directory, with a package that has extension modules."""
import os
import pathlib
import shutil
import subprocess
import sys
import venv

import lib

numpy = lib.need("numpy")
PROGRAM = """
import numpy, os
pid = os.fork()
solved = numpy.linalg.solve(numpy.diag([2.0, 4.0]), numpy.array([2.0, 8.0]))
assert list(solved) == [1.0, 2.0], solved
if pid == 0:
    os._exit(0)
assert os.waitpid(pid, 0)[1] == 0
print(numpy.__file__)
"""


def copy_package(to):
    """Copy numpy, and the libraries that it brings."""
    package = pathlib.Path(numpy.__file__).parent
    for folder in (package, package.with_name("numpy.libs")):
        if folder.exists():
            ignored = shutil.ignore_patterns("__pycache__", "tests")
            shutil.copytree(folder, to / folder.name, ignore=ignored)


def test_extension_modules(_):
    venv.create("environment", with_pip=False, symlinks=True)
    here = pathlib.Path("environment").absolute()
    packages = next(here.glob("lib/python*/site-packages"))
    copy_package(packages)
    run = [here / "bin" / "python", "-c", PROGRAM]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    found = subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
    assert found.strip() == str(packages / "numpy" / "__init__.py"), found


def test_loaded_by_ctypes(_):
    import ctypes
    import importlib.machinery

    suffix = importlib.machinery.EXTENSION_SUFFIXES[0]
    module = next(pathlib.Path(numpy.__file__).parent.glob(f"fft/*{suffix}"))
    shutil.copy(module, f"module{suffix}")
    path = os.path.abspath(f"module{suffix}")
    assert ctypes.PyDLL(path)._name == path
    os.remove(path)
    assert ctypes.PyDLL(path)._name == path, "it is still loaded"
    try:
        ctypes.PyDLL(path + ".missing")
    except OSError as error:
        assert path in str(error), error
    else:
        sys.exit("a missing library was loaded")


if __name__ == "__main__":
    lib.run_tests(globals())

"""Shared code of the Python checks: functions named test_* run, each in its own directory.

Each gets a directory elsewhere as an argument. A check of something that is not installed ends with
status 77.
"""
import importlib
import os
import pathlib
import sys
import traceback


def need(module):
    """Import a module, or end the check if it is not installed."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        print(f"{module} is not installed: {error}")
        sys.exit(77)


def _passes(name, test, place, outside):
    here, there = place / name, outside / name
    here.mkdir(parents=True)
    there.mkdir(parents=True, exist_ok=True)
    os.chdir(here)
    print("===", name, flush=True)
    try:
        test(there)
        return True
    except BaseException:
        traceback.print_exc()
        print("FAILED", name, flush=True)
        return False


def run_tests(namespace):
    """Run the functions test_* of a namespace, or those in the environment variable TESTS; end the
    program."""
    place, outside = map(pathlib.Path, sys.argv[1:3])
    tests = {name: value for name, value in namespace.items() if name.startswith("test_")}
    wanted = os.environ.get("TESTS", "").split() or tests
    passed = [_passes(name, tests[name], place, outside) for name in wanted]
    os.chdir("/")
    sys.exit(0 if all(passed) else 1)

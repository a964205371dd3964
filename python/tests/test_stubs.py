"""The stub file matches the extension module."""

import ast
import inspect
import pathlib
from collections.abc import MutableMapping

import pytest

import esker
from esker import _esker

STUB = ast.parse(pathlib.Path(esker.__file__).with_name("_esker.pyi").read_text())
CLASSES = {node.name: node for node in STUB.body if isinstance(node, ast.ClassDef)}


def members(name):
    """The functions in the stub of a class, including its base classes in the stub."""
    node = CLASSES[name]
    found = {}
    for base in node.bases:
        if isinstance(base, ast.Name) and base.id in CLASSES:
            found |= members(base.id)
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return found | {child.name: child for child in node.body if isinstance(child, kinds)}


def parameters(function):
    """Names of the parameters in a stub, without the first."""
    arguments = function.args
    several = [arguments.vararg] if arguments.vararg else []
    every = (*arguments.posonlyargs, *arguments.args, *several, *arguments.kwonlyargs)
    return [argument.arg for argument in every]


@pytest.mark.parametrize("name", sorted(CLASSES.keys() - {"_Closing"}))
def test_every_member_is_in_the_stub(name):
    cls = getattr(_esker, name)
    inherited = set(dir(MutableMapping)) if issubclass(cls, MutableMapping) else set()
    public = {member for member in vars(cls) if not member.startswith("_")}
    stub = {member: node for member, node in members(name).items() if not member.startswith("_")}
    assert public - inherited == stub.keys() - inherited


@pytest.mark.parametrize("name", sorted(CLASSES.keys() - {"_Closing"}))
def test_parameters_have_the_same_names(name):
    for member, node in members(name).items():
        if member.startswith("_"):  # `__buffer__` is an attribute from Python 3.12 on
            continue
        if inspect.isdatadescriptor(inspect.getattr_static(getattr(_esker, name), member)):
            continue
        runtime = list(inspect.signature(getattr(getattr(_esker, name), member)).parameters)
        assert parameters(node) == runtime, f"{name}.{member}"

"""Pools for the tests: one in memory, one on a memory file system where the machine has one."""

import itertools
import os
import tempfile

import pytest

import esker

_numbers = itertools.count()


@pytest.fixture(scope="session")
def native_url():
    """URL of a pool on this machine, made once: reserving takes longest."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="esker-python-", dir=place) as folder:
        with esker.Pool.create("tests", 192 << 20, dir=folder, targets=2) as pool:
            url = pool.name
        yield url
        esker.Pool.destroy(url, force=True)


@pytest.fixture(params=["memory", "native"])
def pool(request):
    """A pool on each backend that has everything."""
    if request.param == "memory":
        return esker.Pool(f"memory:tests-{next(_numbers)}")
    return esker.Pool(request.getfixturevalue("native_url"))


def _container(pool, **options):
    label = f"c{next(_numbers)}"
    with pool.create_container(label, **options) as container:
        yield container
    pool.destroy_container(label, force=True)


@pytest.fixture
def container(pool):
    """A new container on each backend."""
    yield from _container(pool)


@pytest.fixture
def native(native_url):
    """A new container of the pool on this machine, for what crosses processes."""
    yield from _container(esker.Pool(native_url))


@pytest.fixture
def posix(native_url):
    """A new container with a file system."""
    yield from _container(esker.Pool(native_url), posix=True)


@pytest.fixture(params=["memory", "native"])
def store(request):
    """A new field store on each backend that has everything."""
    url = f"memory:fields-{next(_numbers)}"
    if request.param == "native":
        url = request.getfixturevalue("native_url")
    yield from _field_store(url)


@pytest.fixture
def shared(native_url):
    """A new field store of the pool on this machine, for what crosses processes."""
    yield from _field_store(native_url)


def _field_store(url):
    label = f"fields{next(_numbers)}"
    with esker.FieldStore(f"{url}/{label}") as store:
        yield store
    esker.Pool(url).destroy_container(label, force=True)

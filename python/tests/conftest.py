"""Pools for the tests: one in process memory, and one in a memory file system if the machine has one.

ESKER_TEST_RADOS adds one on a Ceph cluster (`rados:POOL?conf=FILE`), ESKER_TEST_DAOS the pool of a DAOS
system (`daos:POOL`). ESKER_TEST_NODES names a pool over nodes that takes the place of all of them; everything
in it is destroyed.
"""

import itertools
import os
import tempfile

import pytest

import esker

_numbers = itertools.count()
_rados = os.environ.get("ESKER_TEST_RADOS")
_nodes = os.environ.get("ESKER_TEST_NODES")
_daos = os.environ.get("ESKER_TEST_DAOS")
_elsewhere = (["rados"] if _rados else []) + (["daos"] if _daos else [])
_backends = ["nodes"] if _nodes else ["memory", "native", *_elsewhere]


def _url(request):
    """URL of a pool on the backend of a parametrized fixture."""
    if request.param == "memory":
        return f"memory:tests-{next(_numbers)}"
    if request.param == "rados":
        return f"{_rados}&namespace=python-{os.getpid()}-{next(_numbers)}"
    if request.param == "daos":
        return _daos
    return request.getfixturevalue("native_url")


@pytest.fixture(scope="session")
def native_url():
    """URL of a native pool or the pool over nodes; created once, because reserving space takes longest."""
    if _nodes:
        with esker.Pool(_nodes) as pool:
            for container in pool.containers():
                pool.destroy_container(container["uuid"], force=True)
            pool.attributes.clear()
        yield _nodes
        return
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="esker-python-", dir=place) as folder:
        with esker.Pool.create("tests", 192 << 20, dir=folder, targets=2) as pool:
            url = pool.name
        yield url
        esker.Pool.destroy(url, force=True)


@pytest.fixture(params=_backends)
def pool(request):
    """A pool on each backend that has transactions."""
    return esker.Pool(_url(request))


@pytest.fixture
def keeps_snapshots(request):
    """Skip a test if the backend has no snapshots."""
    if "rados" in request.node.callspec.params.values():
        pytest.skip("a rados pool does not support snapshots")


@pytest.fixture
def one_node():
    """Skip a test about a pool on this machine, such as views in place, if the pool is over nodes."""
    if _nodes:
        pytest.skip("about a pool on this machine")


def _container(pool, **options):
    """A new container in a pool, which is destroyed after the test."""
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
    """A new container of the native pool, for tests across processes."""
    yield from _container(esker.Pool(native_url))


@pytest.fixture(params=["native", *(["daos"] if _daos and not _nodes else [])])
def posix(request):
    """A new container with a file system, in a native pool and in that of a DAOS system."""
    yield from _container(esker.Pool(_url(request)), posix=True)


@pytest.fixture(params=_backends)
def store(request):
    """A new field store on each backend that has transactions."""
    yield from _field_store(_url(request))


@pytest.fixture
def shared(native_url):
    """A new field store of the native pool, for tests across processes."""
    yield from _field_store(native_url)


def _field_store(url):
    """A new field store in the pool of a URL, which is destroyed after the test."""
    label = f"fields{next(_numbers)}"
    with esker.FieldStore(f"{url}/{label}") as store:
        yield store
    esker.Pool(url).destroy_container(label, force=True)


@pytest.fixture
def shared_tensors(native_url):
    """A new tensor store of the native pool, for tests across processes."""
    label = f"tensors{next(_numbers)}"
    with esker.TensorStore(f"{native_url}/{label}") as store:
        yield store
    esker.Pool(native_url).destroy_container(label, force=True)

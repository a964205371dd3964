"""Pools, containers, attributes and snapshots."""

import tempfile
import time
from collections.abc import MutableMapping

import pytest

import esker


def test_pools_are_created_and_destroyed(tmp_path, monkeypatch):
    monkeypatch.setenv("ESKER_POOLS", str(tmp_path))
    with esker.Pool.create("tank", 32 << 20, targets=2, durability="process") as pool:
        assert pool.name == f"esker:{tmp_path}/tank"
        info = pool.info()
        assert (info["label"], info["targets"], info["durability"]) == ("tank", 2, "process")
        assert 0 < info["data_free_bytes"] <= info["data_total_bytes"] < 32 << 20
        assert esker.Pool.list() == [pool.name]
        assert esker.Pool(info["uuid"]).info()["label"] == esker.Pool("tank").info()["label"] == "tank"
    esker.Pool.destroy("tank", force=True)
    assert esker.Pool.list() == []
    with pytest.raises(FileNotFoundError, match="tank"):
        esker.Pool("tank")


def test_a_pool_in_huge_pages():
    with (
        tempfile.TemporaryDirectory(dir="/dev/shm") as memory,
        esker.Pool.create("huge", 32 << 20, dir=memory, huge_pages=True) as pool,
        pool.create_container("c") as container,
    ):
        container.kv("index")["key"] = b"x" * 100_000
        assert container.kv("index")["key"] == b"x" * 100_000


def test_a_posix_pool(tmp_path):
    url = f"posix:{tmp_path}/files"
    with esker.Pool.create(url) as pool, pool.create_container("c") as container:
        container.kv("index")["a"] = b"1"
        cells = container.create_array("cells")
        cells.write(3, b"abc")
        assert container.kv("index")["a"] == b"1" and cells.read(0, 6) == b"\0\0\0abc"
        with container.transaction() as tx:
            container.kv("index").at(tx)["a"] = b"2"
            container.kv("other").at(tx)["b"] = b"3"
        assert container.kv("index")["a"] == b"2" and container.kv("other")["b"] == b"3"
        with pytest.raises(NotImplementedError):
            container.create_snapshot("s")
    esker.Pool.destroy(url)
    with pytest.raises(ValueError):
        esker.Pool.create(url, 1 << 30)
    with pytest.raises(esker.Invalid, match="huge pages"):
        esker.Pool.create(url, huge_pages=True)


def test_a_pool_needs_a_size_and_a_known_mode():
    with pytest.raises(ValueError, match="4 << 30"):
        esker.Pool.create("tank")
    with pytest.raises(ValueError, match="exclusive"):
        esker.Pool("memory:any", "w")
    with pytest.raises(FileNotFoundError, match="posix:/path"):
        esker.Pool("http://example.org/pool")


def test_using_a_closed_pool_is_an_error(pool):
    pool.close()
    pool.close()
    with pytest.raises(ValueError, match="closed"):
        pool.info()


def test_containers_are_created_and_destroyed(pool):
    with pool.create_container("run1", checksum="crc64") as made:
        info = made.info()
        assert (info["label"], info["uuid"], info["checksum"]) == ("run1", made.uuid, "crc64")
        assert abs(info["created"] - time.time()) < 3600
        with pytest.raises(esker.Exists):
            pool.create_container("run1")
        assert pool.create_container("run1", exist_ok=True).uuid == made.uuid
        assert pool.container(made.uuid).label == "run1"
        assert "run1" in [known["label"] for known in pool.containers()]
    pool.destroy_container("run1", force=True)
    with pytest.raises(KeyError):
        pool.container("run1")


def test_using_a_closed_container_is_an_error(container):
    kv = container.kv("index")
    container.close()
    with pytest.raises(ValueError, match="closed"):
        kv["a"] = b"1"
    container.close()


def test_read_only_handles(pool, container):
    container.kv("index")["a"] = b"1"
    reader = pool.container(container.uuid, "r")
    assert reader.mode == "r" and reader.kv("index")["a"] == b"1"
    with pytest.raises(PermissionError, match="read-only"):
        reader.kv("index")["a"] = b"2"


def test_attributes(pool, container):
    for owner in (pool, container):
        attributes = owner.attributes
        assert isinstance(attributes, MutableMapping)
        attributes["model"] = b"ifs"
        attributes["cycle"] = bytearray(b"49r1")
        assert dict(attributes) == {"cycle": b"49r1", "model": b"ifs"}
        assert attributes.pop("model") == b"ifs" and "model" not in attributes and len(attributes) == 1
        with pytest.raises(KeyError, match="model"):
            del attributes["model"]
        attributes.clear()


@pytest.mark.usefixtures("keeps_snapshots")
def test_snapshots_do_not_change(pool, container):
    kv, cells = container.kv("index"), container.create_array("cells")
    kv["a"] = b"1"
    cells.write(0, b"old")
    before = container.create_snapshot("before")
    kv["a"] = b"2"
    kv["b"] = b"3"
    cells.write(0, b"new!")
    assert container.snapshots() == [before]
    for at in (before, before.epoch, "before"):
        assert dict(kv.at(at).items()) == {b"a": b"1"}
        assert cells.at(at).read(0, cells.at(at).size()) == b"old"
        assert container.at(at).kv("index")["a"] == b"1"
        assert pool.container(container.uuid, at=at).array("cells").size() == 3
    assert kv.at(before).at(None)["a"] == b"2"
    with pytest.raises(PermissionError):
        kv.at(before)["a"] = b"3"
    with pytest.raises(KeyError, match="after"):
        kv.at("after")
    container.destroy_snapshot(before)
    with pytest.raises(esker.NotFound):
        kv.at(before)

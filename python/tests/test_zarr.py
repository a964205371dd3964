"""The zarr store, with the tests that zarr provides for all stores."""

import asyncio
import json
import multiprocessing
import os
import pickle
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

import pytest

import esker

zarr = pytest.importorskip("zarr", minversion="3.1")
numpy = pytest.importorskip("numpy")
hypothesis = pytest.importorskip("hypothesis")
pytest.importorskip("pytest_asyncio")

from killing import KILLS, expect_room, killed, moments, room  # noqa: E402
from ranks import run_ranks  # noqa: E402
from zarr.abc.store import OffsetByteRequest, RangeByteRequest, SuffixByteRequest  # noqa: E402
from zarr.core.buffer import cpu, default_buffer_prototype  # noqa: E402
from zarr.testing import stateful  # noqa: E402
from zarr.testing.store import StoreTests  # noqa: E402

from esker._zarr_index import VALUE_MAX  # noqa: E402
from esker._zarr_writers import Writers  # noqa: E402
from esker.zarr import Conflict, Session, Store  # noqa: E402

# Number of random sequences of operations that zarr's state machines try; ESKER_ZARR_EXAMPLES changes it.
EXAMPLES = int(os.environ.get("ESKER_ZARR_EXAMPLES", "8"))
# Time limit in seconds, after which a process counts as hanging.
PATIENCE = 600


def url_of(container):
    """The name of a store in a container."""
    return f"{container.pool.name}/{container.label}"


@pytest.fixture
def url(native):
    """The name of a new store, for tests across processes."""
    return url_of(native)


class Kept(StoreTests[Store, cpu.Buffer]):
    """zarr's tests; `set` and `get` go through another handle."""

    store_cls = Store
    buffer_cls = cpu.Buffer

    async def set(self, store, key, value):
        """Set a value by another store."""
        await self.other(store).set(key, value)

    async def get(self, store, key):
        """Get a value by another store."""
        return await self.other(store).get(key, default_buffer_prototype())

    def other(self, store):
        """Another store with the same content."""
        return pickle.loads(pickle.dumps(store))

    def test_store_repr(self, store):
        assert str(store).startswith("esker://") and type(store).__name__ in repr(store)

    def test_store_supports_writes(self, store):
        assert store.supports_writes

    def test_store_supports_listing(self, store):
        assert store.supports_listing


class TestStore(Kept):
    """The store, on each backend."""

    @pytest.fixture
    def store_kwargs(self, container):
        """Arguments that open the store."""
        return {"store": url_of(container)}


class TestSession(Kept):
    """A session is a store too."""

    store_cls = Session

    @pytest.fixture
    def store_kwargs(self, container):
        """Arguments that open the store."""
        session = Store(container).writable_session()
        return {"store": url_of(container), "number": session._number, "base": session._base}


MACHINES = {"store": stateful.ZarrStoreStateMachine, "hierarchy": stateful.ZarrHierarchyStateMachine}


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("kind", ["store", "session"])
@pytest.mark.filterwarnings("ignore::zarr.errors.ZarrUserWarning", "ignore:.*V3 specification")
def test_machines(native, machine, kind):
    opened = Store(native) if kind == "store" else Store(native).writable_session()
    settings = hypothesis.settings(
        derandomize=True,
        deadline=None,
        max_examples=EXAMPLES if machine == "hierarchy" or "ESKER_TEST_NODES" in os.environ else 2 * EXAMPLES,
        stateful_step_count=30,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    hypothesis.stateful.run_state_machine_as_test(lambda: MACHINES[machine](opened), settings=settings)


def data(value):
    """A value as zarr passes it."""
    return cpu.Buffer.from_bytes(value)


def read(store, key, byte_range=None):
    """A value as bytes."""
    found = store.get_sync(key, byte_range=byte_range)
    return None if found is None else found.to_bytes()


LONG = bytes(range(256)) * 4096


@pytest.mark.parametrize("kind", ["store", "session"])
def test_long_values_are_read_in_parts(container, kind):
    store = Store(container) if kind == "store" else Store(container).writable_session()
    store.set_sync("a/c/0", data(LONG))
    store.set_sync("a/c/1", data(LONG[::-1]))
    assert read(store, "a/c/0") == LONG and store.size_sync("a/c/0") == len(LONG)
    assert read(store, "a/c/0", RangeByteRequest(1000, 1010)) == LONG[1000:1010]
    assert read(store, "a/c/1", SuffixByteRequest(3)) == b"\2\1\0"
    assert read(store, "a/c/1", OffsetByteRequest(len(LONG) - 1)) == b"\0"
    assert read(store, "a/c/1", RangeByteRequest(len(LONG), len(LONG) + 5)) == b""
    arrays = len(container.objects())
    store.set_sync("a/c/0", data(b"short"))
    store.delete_sync("a/c/1")
    assert read(store, "a/c/0") == b"short" and read(store, "a/c/1") is None
    assert len(container.objects()) == arrays - 2, "both Arrays are gone"


async def test_of_several_writers_one_inserts(container):
    store = Store(container)
    for value in (b"1", LONG):
        await asyncio.gather(*(store.set_if_not_exists(f"{len(value)}", data(value)) for _ in range(4)))
        await store.set_if_not_exists(f"{len(value)}", data(b"2"))
        assert read(store, f"{len(value)}") == value
    await store.clear()
    assert container.objects() == []


def test_missing_data_of_a_key_is_an_error(container):
    store = Store(container)
    store.set_sync("a", data(LONG))
    with store.transaction() as session:
        session.set_sync("b", data(b"short"))
    for key in "ab":
        store._latest.free(key, store._latest.raw(key))
        with pytest.raises(esker.errors.Corrupt, match=f"data of key '{key}' is missing"):
            read(store, key)
        store.set_sync(key, data(b"again"))
        assert read(store, key) == b"again"


def test_a_session_that_a_listing_misses_keeps_its_values(container, monkeypatch):
    """A listing shows one target after another, so it may miss a session whose later entry it shows."""
    store = Store(container)
    session = store.writable_session()
    session.set_sync("a", data(LONG))
    known = Writers(store._latest).all()
    monkeypatch.setattr(
        Writers, "all", lambda _: {number: entry for number, entry in known.items() if "session" in entry}
    )
    assert store.garbage_collect() == 0
    assert read(session, "a") == LONG
    monkeypatch.undo()
    session.commit()
    assert read(Store(container), "a") == LONG and not Writers(store._latest).all()


def test_names_of_stores(native, monkeypatch):
    store = Store(url_of(native))
    store.set_sync("a", data(b"1"))
    path = native.pool.name.removeprefix("esker:")
    assert read(Store(f"esker://{path}/{native.label}"), "a") == read(Store(native), "a") == b"1"
    monkeypatch.setenv("ESKER_POOLS", os.path.dirname(urllib.parse.urlsplit(native.pool.name).path))
    label = native.pool.info()["label"]
    assert read(Store(f"esker://{label}/{native.label}", read_only=True), "a") == b"1"
    with pytest.raises(FileNotFoundError, match="has no container"):
        Store("tank").set_sync("a", data(b"1"))
    with pytest.raises(FileNotFoundError):
        Store(f"{label}/none", read_only=True).get_sync("a")


def test_open_stores_pickle_as_the_url_of_their_pool(native, monkeypatch):
    """Another process may find another pool by a label."""
    folder = os.path.dirname(urllib.parse.urlsplit(native.pool.name).path)
    monkeypatch.setenv("ESKER_POOLS", folder)
    Store(native).set_sync("a/zarr.json", data(b"x"))
    stores = [Store(native), Store(f"{native.pool.info()['label']}/{native.label}")]
    stores.append(stores[-1].with_read_only(True))
    assert [read(store, "a/zarr.json") for store in stores] == [b"x"] * 3
    pickled = pickle.dumps(stores)
    monkeypatch.setenv("ESKER_POOLS", f"{folder}/others")
    again = pickle.loads(pickled)
    assert again == stores and [read(store, "a/zarr.json") for store in again] == [b"x"] * 3
    assert read(again[1].with_read_only(True), "a/zarr.json") == b"x"


@pytest.mark.usefixtures("keeps_snapshots")
def test_a_commit_is_seen_as_a_whole(container):
    store = Store(container)
    store.set_sync("a/c/0", data(b"old"))
    store.set_sync("a/c/1", data(b"old"))
    with store.transaction("first", name="v1") as session:
        session.set_sync("a/c/0", data(b"new"))
        session.set_sync("b/c/0", data(LONG))
        session.delete_sync("a/c/1")
        assert read(session, "a/c/0") == b"new" and read(session, "a/c/1") is None
        assert sorted(session._keys("")) == ["a/c/0", "b/c/0"] and session._names("") == ["a", "b"]
        assert session.has_uncommitted_changes and session.store is session
        assert sorted(store._keys("")) == ["a/c/0", "a/c/1"] and read(store, "a/c/0") == b"old"
    assert sorted(store._keys("")) == ["a/c/0", "b/c/0"] and read(store, "a/c/0") == b"new"
    assert session.read_only and read(session, "b/c/0") == LONG
    with pytest.raises(ValueError, match="read-only"):
        session.set_sync("a/c/0", data(b"late"))
    with pytest.raises(ZeroDivisionError), store.transaction("never") as session:
        session.set_sync("a/c/0", data(LONG))
        1 / 0  # noqa: B018
    assert [commit.message for commit in store.ancestry()] == ["first"]
    assert [snapshot.name for snapshot in container.snapshots()] == ["v1"]
    store.set_sync("a/c/0", data(b"newer"))
    old = Store(container, at="v1")
    assert old.read_only and read(old, "a/c/0") == b"new" and read(old, "b/c/0") == LONG
    assert read(store.readonly_session(store.ancestry()[0].epoch), "a/c/0") == b"new"
    with pytest.raises(ValueError, match="read-only"):
        old.set_sync("a/c/0", data(b"1"))


@pytest.mark.usefixtures("keeps_snapshots")
def test_commits_of_the_same_keys_conflict(container):
    store = Store(container)
    store.set_sync("a", data(b"0"))
    one, two, three = (store.writable_session() for _ in range(3))
    one.set_sync("a", data(b"1"))
    two.set_sync("a", data(b"2"))
    three.set_sync("b", data(b"3"))
    one.commit("one")
    three.commit("three")
    with pytest.raises(Conflict, match="1 keys of the session: a") as raised:
        two.commit("two")
    assert raised.value.keys == ["a"] and read(store, "a") == b"1"
    two.commit("two", force=True)
    assert read(store, "a") == b"2" and read(store, "b") == b"3"
    assert [commit.message for commit in store.ancestry()] == ["two", "three", "one"]


@pytest.mark.usefixtures("keeps_snapshots")
def test_versions_expire(container):
    store = Store(container)
    for number in range(4):
        with store.transaction(f"{number}", name="kept" if number == 0 else None) as session:
            session.set_sync("a/c/0", data(b"%d" % number))
    with pytest.raises(FileExistsError), store.transaction(name="kept"):
        pass
    versions = [commit.epoch for commit in store.ancestry()]
    assert [read(store.readonly_session(epoch), "a/c/0") for epoch in versions] == [b"3", b"2", b"1", b"0"]
    store.expire_snapshots(1)
    assert [snapshot.name for snapshot in container.snapshots()] == ["kept", "zarr-4"]
    assert [commit.message for commit in store.ancestry()] == ["3", "0"]
    assert read(Store(container, at="kept"), "a/c/0") == b"0"


@pytest.mark.usefixtures("keeps_snapshots")
@pytest.mark.parametrize("first", [True, False])
def test_a_dead_commit_is_finished_by_two(container, monkeypatch, first):
    """Both see that its snapshot is missing; one of the two that they create stays."""
    store, other = Store(container), Store(container)
    monkeypatch.setattr(esker.zarr, "_keep_version", lambda _index, _number, record: record)
    with store.transaction("dead") as session:
        session.set_sync("a", data(b"1"))
    monkeypatch.undo()
    monkeypatch.setattr(esker.zarr, "is_dead", lambda _process: True)
    named, calls = esker.zarr._named, []

    def look(index, name):
        found = named(index, name)
        calls.append(name)
        if len(calls) == 1:
            other.garbage_collect()
            if not first:
                # The other has created the snapshot, but not yet entered it.
                history = other._index.kv("zarr.history")
                history[b"1"] = json.dumps({**json.loads(history[b"1"]), "epoch": None}).encode()
        return found

    monkeypatch.setattr(esker.zarr, "_named", look)
    store.garbage_collect()
    assert [(snapshot.epoch, snapshot.name) for snapshot in container.snapshots()] == [
        (store.ancestry()[0].epoch, "zarr-1")
    ]
    assert read(Store(container, at="zarr-1"), "a") == b"1"


def test_sessions_end_side_by_side(url):
    def commit_many(writer):
        store = Store(url)
        for number in range(12):
            with store.transaction() as session:
                session.set_sync(f"{writer}", data(b"%d" % number))
            store.expire_snapshots(1)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(commit_many, range(4)))
    store = Store(url)
    assert store.ancestry()[0].id == 48 and [read(store, f"{writer}") for writer in range(4)] == [b"11"] * 4
    store.garbage_collect()
    assert not [snapshot for snapshot in store._latest.container.snapshots() if "session" in snapshot.name]


@pytest.mark.usefixtures("keeps_snapshots")
def test_a_version_shows_no_later_commit(container, monkeypatch):
    """Another session commits just before the snapshot of the first one is created, under the same name."""
    store = Store(container)
    first, second, third = (store.writable_session() for _ in range(3))
    for session, key in (first, "a"), (second, "b"), (third, "c"):
        session.set_sync(key, data(b"1"))
    keep = esker.zarr._keep_version

    def keep_late(*arguments):
        monkeypatch.undo()
        with pytest.raises(FileExistsError, match="choose another name"):
            second.commit(name="v1")
        third.commit(name="v2")
        return keep(*arguments)

    monkeypatch.setattr(esker.zarr, "_keep_version", keep_late)
    commits = [first.commit(name="v1"), second.commit(name="v3")]
    seen = [sorted(Store(container, at=at)._keys("")) for at in (commits[0].epoch, "v1", "v2", "v3")]
    assert seen == [["a"], ["a"], ["a", "c"], ["a", "b", "c"]]
    assert [commit.name for commit in store.ancestry()] == ["v3", "v2", "v1"]
    assert sorted(snapshot.name for snapshot in container.snapshots()) == ["v1", "v2", "v3"]


@pytest.mark.usefixtures("keeps_snapshots")
def test_a_session_that_has_ended_takes_no_writes(container):
    store = Store(container)
    session = store.writable_session()
    worker = pickle.loads(pickle.dumps(session))
    worker.set_sync("a", data(b"1"))
    session.discard_changes()
    with pytest.raises(ValueError, match="has ended"):
        worker.set_sync("b", data(LONG))
    with pytest.raises(ValueError, match="has ended"):
        worker.commit()
    store.garbage_collect()
    assert container.objects() == [] and container.snapshots() == []
    session = store.writable_session()
    worker = pickle.loads(pickle.dumps(session))
    worker.set_sync("a", data(b"1"))
    session.commit()
    for value in (b"2", LONG):
        with pytest.raises(ValueError, match="has ended"):
            worker.set_sync("a", data(value))
    assert read(store, "a") == b"1" and store.garbage_collect() == 1
    again = session.with_read_only(False)
    assert read(again, "a") == b"1" and not again.has_uncommitted_changes
    for change in (
        lambda: again.set_sync("a", data(b"2")),
        lambda: again.set_sync("a", data(LONG)),
        lambda: again.delete_sync("a"),
        again.commit,
    ):
        with pytest.raises(ValueError, match="has ended"):
            change()
    again.discard_changes()
    assert read(store, "a") == b"1"


def test_an_entry_that_is_removed_meanwhile_has_nothing_to_free(container, monkeypatch):
    store = Store(container)
    store.set_sync("a", data(LONG))
    other = Store(container)._index
    monkeypatch.setattr(other, "raw", lambda _key: None)
    assert other.free_old("a") is True
    assert read(store, "a") == LONG


def write_region(store, number):
    """Write a row of the array, in a worker."""
    zarr.open_array(store, path="rows", mode="r+")[number] = number
    return os.getpid()


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("kind", ["store", "session"])
def test_processes_write_regions(url, method, kind):
    store = Store(url)
    writer = store.writable_session() if kind == "session" else store
    zarr.create_array(writer, name="rows", shape=(12, 1000), chunks=(1, 300), dtype="i4")
    with multiprocessing.get_context(method).Pool(3) as workers:
        pids = workers.starmap(write_region, [(writer, number) for number in range(12)])
    assert os.getpid() not in pids
    if kind == "session":
        assert list(store._keys("")) == []
        writer.commit("rows")
    rows = zarr.open_array(Store(url, read_only=True), path="rows")[:]
    assert (rows == numpy.arange(12)[:, None]).all()


def test_xarray(url):
    xarray = pytest.importorskip("xarray")
    store = Store(url)
    hours = xarray.Dataset({"t": (("time", "x"), numpy.arange(40.0).reshape(4, 10))}, {"time": range(4)})
    hours.to_zarr(store, mode="w", consolidated=False)
    later = hours.assign_coords(time=range(4, 8))
    with store.transaction("later") as session:
        later.to_zarr(session, append_dim="time", consolidated=False)
        assert xarray.open_zarr(store, consolidated=False).sizes["time"] == 4
    (hours * 2).drop_vars("time").to_zarr(store, region={"time": slice(4, 8)}, consolidated=False)
    expected = xarray.concat([hours, later.copy(data={"t": hours["t"].values * 2})], "time")
    opened = xarray.open_zarr(store, consolidated=False, chunks=None)
    assert opened.load().equals(expected)
    with xarray.open_zarr(store.readonly_session(store.ancestry()[0].epoch), consolidated=False) as before:
        assert before["t"].values[4:].tolist() == later["t"].values.tolist()


def test_dask(url):
    array = pytest.importorskip("dask.array")
    values = array.arange(10_000, chunks=1000)
    values.to_zarr(zarr.create_array(Store(url), name="a", shape=10_000, chunks=1000, dtype="i8"))
    assert array.from_zarr(Store(url), component="a").sum().compute() == sum(range(10_000))


def write_hours(url, hours):
    """Write some hours of the array in a store, with dask, in a worker."""
    xarray, dask = pytest.importorskip("xarray"), pytest.importorskip("dask")
    store = Store(url)
    values = numpy.arange(40.0).reshape(1, 40) + 100 * numpy.array(hours)[:, None]
    part = xarray.Dataset({"t": (("time", "x"), values)}).chunk({"time": 2, "x": 10})
    # Dask's own pool may be the parent's, whose threads are not in a forked child.
    with ThreadPoolExecutor(2) as threads, dask.config.set(pool=threads):
        part.to_zarr(store, region={"time": slice(hours[0], hours[-1] + 1)}, consolidated=False)
    return os.getpid()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_write_regions_of_xarray(url, method):
    """Like in a job, one process describes the array, and others write their hours with dask."""
    xarray = pytest.importorskip("xarray")
    array = pytest.importorskip("dask.array")
    whole = xarray.Dataset({"t": (("time", "x"), array.zeros((24, 40), chunks=(2, 10)))})
    whole.to_zarr(Store(url), compute=False, consolidated=False)
    parts = [list(range(first, first + 4)) for first in range(0, 24, 4)]
    with multiprocessing.get_context(method).Pool(3) as workers:
        pids = workers.starmap(write_hours, [(url, hours) for hours in parts])
    assert os.getpid() not in pids
    with xarray.open_zarr(Store(url, read_only=True), consolidated=False) as opened:
        assert dict(opened.chunksizes) == {"time": (2,) * 12, "x": (10,) * 4}
        assert (opened["t"].values == numpy.arange(40) + 100 * numpy.arange(24)[:, None]).all()


RANKS = """
import pickle, sys
from mpi4py import MPI
import numpy, zarr
from esker.zarr import Store

ranks = MPI.COMM_WORLD
store = Store(sys.argv[1])
for number in range(1, 4):
    session = ranks.bcast(store.writable_session() if ranks.rank == 0 else None)
    zarr.open_array(session, path="rows", mode="r+")[ranks.rank] = number * 10 + ranks.rank
    seen = zarr.open_array(store, path="rows")[ranks.rank]
    before = number * 10 - 10 + ranks.rank if number > 1 else 0
    assert (seen == before).all(), "not visible before the commit"
    ranks.Barrier()
    if ranks.rank == 0:
        session.commit(f"{number}")
    ranks.Barrier()
    rows = zarr.open_array(store, path="rows")[:]
    assert (rows == number * 10 + numpy.arange(ranks.size)[:, None]).all()
    ranks.Barrier()
# One rank prints: the output of several may be mixed up.
readers = ranks.reduce(1)
if ranks.rank == 0:
    print("read by", readers)
"""


def test_ranks_write_in_one_session(url):
    zarr.create_array(Store(url), name="rows", shape=(4, 1000), chunks=(1, 300), dtype="i4")
    assert run_ranks(4, RANKS, url) == "read by 4\n"
    assert [commit.message for commit in Store(url).ancestry()] == ["3", "2", "1"]


def versions_seen(store):
    """The different numbers that the values have at one moment: one, unless a commit was torn."""
    moment = store.container.create_snapshot("moment")
    state = store.readonly_session(moment)
    seen = {read(state, key)[:8] for key in state._keys("")}
    store.container.destroy_snapshot(moment)
    return seen


def commit_forever(store, pipe, number):
    """Commit the next number to all keys, over and over."""
    while True:
        number += 1
        value = b"%08d" % number
        session = store.writable_session()
        for key in range(20):
            session.set_sync(f"a/{key}/c/0", data(value * (key + 1)))
        session.set_sync("long/c/0", data(value * (VALUE_MAX // 4)))
        session.delete_sync(f"odd/c/{(number - 1) % 2}")
        session.set_sync(f"odd/c/{number % 2}", data(value))
        os.write(pipe, b"b")
        session.commit(value.decode())
        os.write(pipe, b"e")


def test_a_writer_killed_in_a_commit(native):
    store, draws, before = Store(native), moments(), room(native.pool)
    number, kept = 0, set()
    for _ in range(KILLS):
        told = killed(lambda pipe: commit_forever(store, pipe, number), draws)  # noqa: B023
        store.garbage_collect()
        seen = versions_seen(store)
        assert len(seen) <= 1, f"a mix: {seen}"
        done = int(seen.pop()) if seen else 0
        assert number + told.count(b"e") <= done <= number + told.count(b"b")
        assert all(commit.epoch for commit in store.ancestry())
        store.expire_snapshots(1)
        assert [commit.id for commit in store.ancestry()] == [done][: min(done, 1)]
        assert len(native.snapshots()) == min(done, 1)
        number = done
        kept.add(len(native.objects()))
    assert len(kept) <= 2, "the number of objects does not grow, apart from the first commit"
    remove_all(store)
    assert len(native.objects()) <= 1, "the history"
    # The history has an entry for the latest commit, which takes room.
    store._index.kv("zarr.history").clear()
    expect_room(native.pool, before)


def remove_all(store):
    """Remove all values and all snapshots."""
    for key in list(store._keys("")):
        store.delete_sync(key)
    store._index.prune("")
    for snapshot in store.container.snapshots():
        store.container.destroy_snapshot(snapshot)


def write_long_forever(store, pipe):
    """Replace a long value over and over."""
    while True:
        store.set_sync("a/c/0", data(LONG))
        os.write(pipe, b"e")


def test_a_killed_writer_of_long_values_leaves_nothing(native):
    store, draws, before = Store(native), moments(), room(native.pool)
    for _ in range(KILLS):
        killed(lambda pipe: write_long_forever(store, pipe), draws, range(1, 4))
        store.garbage_collect()
        assert read(store, "a/c/0") == LONG
        assert len(native.objects()) == 3, "the Key-Values of two nodes, and one Array"
    remove_all(store)
    assert native.objects() == []
    expect_room(native.pool, before)

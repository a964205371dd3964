"""Views: values used in place, which never change."""

import gc
import os
import pickle
import subprocess
import sys
import threading

import pytest
from test_processes import run

import esker

MIB = 1 << 20


def churn(container):
    """Write and overwrite several times the capacity of the pool."""
    kv = container.kv("churn")
    for number in range(600):
        kv[f"{number % 20}"] = bytes([number % 251]) * MIB
    kv.clear()


def test_a_view_equals_a_read(container):
    kv, cells = container.kv("index"), container.create_array("cells", 4, 10_000)
    data = os.urandom(40_000)
    kv["a"], kv["empty"] = data, b""
    cells.write(5, data)
    whole, part = kv.view("a"), cells.view(10, 9_000)
    assert bytes(whole) == data and len(whole) == whole.nbytes == 40_000
    assert bytes(part) == cells.read(10, 9_000) == data[20:36_020]
    assert bytes(cells.view(5)) == data and bytes(cells.view()) == bytes(20) + data
    assert bytes(kv.view("empty")) == b"" and len(cells.view(100_000)) == 0
    with pytest.raises(KeyError, match="missing"):
        kv.view("missing")
    with pytest.raises(esker.errors.Overflow):
        cells.view(0, 2**62)


@pytest.mark.usefixtures("one_node")
def test_values_viewed_in_place(native):
    kv, cells = native.kv("index"), native.create_array("cells", 4, 10_000)
    kv["long"], kv["short"] = bytes(1025), bytes(1024)
    cells.write(5_000, bytes(40_000))
    assert not kv.view("long", copy=False).is_copy and kv.view("short").is_copy
    assert not cells.view(5_000, 5_000).is_copy and cells.view(9_999, 2).is_copy
    refused = [lambda: kv.view("short", copy=False), lambda: cells.view(9_999, 2, copy=False)]
    for view in refused:
        with pytest.raises(esker.errors.NotSupported, match="allow a copy"):
            view()
    assert "in place" in repr(kv.view("long")) and "copied" in repr(kv.view("short"))


def test_views_of_other_backends_are_copies(tmp_path):
    esker.Pool.create(f"posix:{tmp_path}/files").close()
    for name in ("memory:views", f"posix:{tmp_path}/files"):
        with esker.Pool(name).create_container() as container:
            kv = container.kv("index")
            kv["a"] = bytes(5_000)
            assert kv.view("a").is_copy and bytes(kv.view("a")) == bytes(5_000)
            with pytest.raises(esker.errors.NotSupported):
                kv.view("a", copy=False)


@pytest.mark.usefixtures("one_node")
def test_numpy_uses_a_view_in_place_and_read_only(native):
    numpy = pytest.importorskip("numpy")
    cells = native.create_array("cells", 8, 10_000)
    numbers = numpy.arange(8_000, dtype="f8").reshape(80, 100)
    cells.write(0, numbers)
    seen = numpy.frombuffer(cells.view(copy=False), dtype="f8").reshape(80, 100)
    assert (seen == numbers).all() and not seen.flags.writeable and seen.flags.aligned
    assert numpy.asarray(cells.view()).dtype == "uint8"
    with pytest.raises(ValueError, match="read-only"):
        seen[0] = 1
    with pytest.raises(TypeError):
        memoryview(cells.view())[0] = 1
    with pytest.raises(BufferError, match="read-only"):
        cells.read_into(0, cells.view())
    cells.write(0, numbers * 2)
    part = seen[10:20, 5]
    del seen
    gc.collect()
    churn(native)
    assert (part == numbers[10:20, 5]).all()


def test_a_view_outlives_value_handles_and_pool(tmp_path):
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path
    label = f"views-{os.getpid()}"
    with esker.Pool.create(label, 64 << 20, dir=place, targets=1) as pool:
        name = pool.name
        with pool.create_container("c") as container:
            kv = container.kv("index")
            kv["a"] = b"a" * MIB
            view = kv.view("a")
            del kv["a"]
            churn(container)
            del kv
        del container
    del pool
    gc.collect()
    with esker.Pool(name) as pool, pool.container("c") as container:
        churn(container)
    esker.Pool.destroy(name, force=True)
    assert bytes(view) == b"a" * MIB


@pytest.mark.usefixtures("keeps_snapshots")
def test_views_of_snapshots(container):
    kv = container.kv("index")
    kv["a"] = b"1" * 5_000
    before = container.create_snapshot("before")
    kv["a"] = b"2" * 5_000
    old = kv.at(before).view("a")
    assert bytes(old) == b"1" * 5_000 and bytes(kv.view("a")) == b"2" * 5_000


def test_a_pickled_view_is_a_copy(native):
    kv = native.kv("index")
    kv["a"] = b"a" * 5_000
    again = pickle.loads(pickle.dumps(kv.view("a")))
    assert isinstance(again, esker.View) and again.is_copy and bytes(again) == b"a" * 5_000
    assert bytes(esker.View(bytearray(b"abc"))) == b"abc"


@pytest.mark.usefixtures("one_node")
def test_a_forked_child_inherits_views(native):
    """A view that one process drops remains valid in the other."""
    kv = native.kv("index")
    kv["a"], kv["b"] = b"a" * MIB, b"b" * MIB
    childs, parents = kv.view("a", copy=False), kv.view("b", copy=False)
    (told, tell), (heard, answer) = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            del parents
            gc.collect()
            os.write(answer, b".")
            os.read(told, 1)
            assert bytes(childs) == b"a" * MIB
            assert bytes(kv.view("c")) == b"c" * 5_000
            code = 0
        finally:
            os._exit(code)
    del childs
    gc.collect()
    os.read(heard, 1)
    kv["a"], kv["b"], kv["c"] = b"1", b"2", b"c" * 5_000
    churn(native)
    os.write(tell, b".")
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert bytes(parents) == b"b" * MIB
    for end in (told, tell, heard, answer):
        os.close(end)


@pytest.mark.usefixtures("one_node")
def test_threads_use_views_while_others_write(native):
    kv, failures = native.kv("index"), []
    kv["a"] = bytes([0]) * 100_000

    def look():
        try:
            for _ in range(200):
                view = kv.view("a", copy=False)
                first = bytes(view)
                assert len(set(first)) == 1
                kv["a"] = bytes([(first[0] + 1) % 256]) * 100_000
                assert bytes(view) == first
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


VIEWING = """
import signal, sys, esker
kv = esker.Pool(sys.argv[1]).container("c").kv("index")
views = [kv.view(key, copy=False) for key in kv]
print(len(views), flush=True)
signal.pause()
"""


def test_the_death_of_a_process_ends_its_views(tmp_path):
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path
    with esker.Pool.create(f"dying-{os.getpid()}", 64 << 20, dir=place, targets=1) as pool:
        with pool.create_container("c") as container:
            kv = container.kv("index")
            for number in range(40):
                kv[f"{number}"] = bytes(MIB)
            command = [sys.executable, "-c", VIEWING, pool.name]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as viewer:
                assert viewer.stdout.readline() == b"40\n"
                kv.clear()
                with pytest.raises(esker.NoSpace, match="views prevent"):
                    churn(container)
                viewer.kill()
            churn(container)
        esker.Pool.destroy(pool.name, force=True)


LIMIT = """
import sys, esker
kv = esker.Pool(sys.argv[1]).container(sys.argv[2]).kv("index")
kv["a"] = bytes(5_000)
views = []
try:
    while True:
        views.append(kv.view("a"))
except esker.errors.Overflow as error:
    assert "VIEWS_MAX" in str(error) and len(views) == 4096, (error, len(views))
views.pop()
views.append(kv.view("a"))
print(len(views))
"""


@pytest.mark.usefixtures("one_node")
def test_views_are_limited(native):
    assert run(LIMIT, native.pool.name, native.uuid) == "4096\n"


LEAKS = """
import gc, os, sys, esker
container = esker.Pool(sys.argv[1]).container(sys.argv[2])
kv, cells = container.kv("index"), container.create_array("cells")

def once():
    kv["a"] = bytes(100_000)
    cells.write(0, bytes(300_000))
    views = [kv.view("a"), cells.view(), cells.view(5, 10_000)]
    assert not any(view.is_copy for view in views)
    kept = memoryview(views[0])
    del views
    assert kept[99_999] == 0

def held():
    gc.collect()
    with open("/proc/self/maps") as maps:
        return len(os.listdir("/proc/self/fd")), len(maps.readlines())

once()
before = held()
for _ in range(300):
    once()
assert held()[0] == before[0] and held()[1] <= before[1] + 4, (before, held())
kept_at_exit = kv.view("a")
"""


@pytest.mark.usefixtures("one_node")
def test_views_do_not_leak(native):
    run(LEAKS, native.pool.name, native.uuid)


def test_making_a_view_of_damaged_data_fails(tmp_path):
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path
    with esker.Pool.create(f"damaged-{os.getpid()}", 64 << 20, dir=place, targets=1) as pool:
        with pool.create_container("c") as container:
            kv = container.kv("index")
            kv["a"] = b"once" * 50_000
            path = os.path.join(pool.name.removeprefix("esker:"), "target-0", "data")
            with open(path, "r+b") as data:
                data.seek(data.read().index(b"onceonce") + 150_000)
                data.write(b"X")
            for copy in (None, False):
                with pytest.raises(esker.errors.Checksum):
                    kv.view("a", copy=copy)
        esker.Pool.destroy(pool.name, force=True)


@pytest.mark.usefixtures("one_node")
def test_views_of_fields(native_url):
    key = {"class": "rd", "expver": 1, "stream": "oper", "date": 20240610, "time": 0, "type": "fc"}
    key |= {"levtype": "sfc", "step": 0, "param": 167}
    with esker.FieldStore(f"{native_url}/views") as store:
        store.archive(b"GRIB" * 5_000, key)
        store.flush()
        (field,) = store.retrieve(key)
        view = field.view(copy=False)
        store.archive(b"new", key)
        store.flush()
        store.purge(key, doit=True)
        assert bytes(view) == b"GRIB" * 5_000 and not view.is_copy
        with pytest.raises(KeyError):
            field.view()
        with pytest.raises(KeyError):
            field.view(copy=False)
        (short,) = store.retrieve(key)
        assert short.view().is_copy and bytes(short.view()) == b"new"

"""Handles across pickling, fork, spawned processes, threads, and the exit of the interpreter."""

import contextlib
import multiprocessing
import os
import pathlib
import pickle
import subprocess
import sys
import threading

import pytest
from killing import KILLS, expect_room, killed, moments, room

import esker
from esker._deferred import DeferredFile
from esker._replacing import ReplacingFile
from esker._zarr_writers import is_dead, this_process

# Time limit in seconds, after which a process counts as hanging.
PATIENCE = 600


def test_handles_pickle(native):
    kv, cells = native.kv("index"), native.create_array("cells", 2, 10)
    kv["a"] = b"1"
    cells.write(0, b"abcd")
    before = native.create_snapshot("before")
    kv["a"] = b"2"
    again = pickle.loads(
        pickle.dumps((native.pool, native, kv, cells, kv.at(before), native.at(before), before))
    )
    pool, container, index, field, old_index, old_container, snapshot = again
    assert pool.name == native.pool.name and container.uuid == native.uuid and snapshot == before
    assert index["a"] == b"2" and field.read(1, 1) == b"cd" and field.chunk_size == 10
    assert old_index["a"] == old_container.kv("index")["a"] == b"1"
    native.attributes["a"] = b"1"
    assert pickle.loads(pickle.dumps(native.attributes))["a"] == b"1"
    assert len(pickle.loads(pickle.dumps(native.pool.attributes))) == len(native.pool.attributes)
    with native.transaction() as tx:
        for bound in (kv.at(tx), cells.at(tx), native.at(tx), tx):
            with pytest.raises(TypeError, match="transaction"):
                pickle.dumps(bound)


def test_pools_opened_by_a_label_pickle_as_their_url(tmp_path, monkeypatch):
    esker.Pool.create("labelled", 64 << 20, dir=tmp_path, targets=1).close()
    monkeypatch.setenv("ESKER_POOLS", str(tmp_path))
    pool = esker.Pool("labelled")
    url = pool.info()["url"]
    assert pool.url == url
    pool.close()
    stores = [esker.FieldStore("labelled/fields"), esker.TensorStore("labelled/tensors")]
    stores.append(esker.FieldStore(esker.Pool("labelled"), label="fields"))
    pickled = pickle.dumps([pool, *stores])
    monkeypatch.setenv("ESKER_POOLS", str(tmp_path / "others"))
    pool, *stores = pickle.loads(pickled)
    assert (pool.name, pool.info()["label"]) == (url, "labelled")
    uuids = {one["label"]: one["uuid"] for one in pool.containers()}
    places = [f"{url}/{uuids[label]}" for label in ("fields", "tensors", "fields")]
    assert [store.name for store in stores] == places
    esker.Pool.destroy(url, force=True)


def _fill(kv, cells, number):
    """Write a value and a cell in a worker; return its process."""
    kv[f"{number}"] = b"x" * number
    cells.write(number, bytes([number]))
    return os.getpid()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers(native, method):
    kv, cells = native.kv("index"), native.create_array("cells")
    with multiprocessing.get_context(method).Pool(2) as workers:
        pids = workers.starmap(_fill, [(kv, cells, number) for number in range(20)])
    assert os.getpid() not in pids
    assert {len(value) for value in kv.values()} == set(range(20))
    assert cells.read(0, 20) == bytes(range(20))


def test_a_forked_child_uses_inherited_handles(native):
    kv = native.kv("index")
    kv["parent"] = b"1"
    listing = iter(kv)
    child = os.fork()
    if child == 0:
        try:
            assert next(listing) == b"parent" and kv["parent"] == b"1"
            kv["child"] = b"2"
            with native.transaction() as tx:
                kv.at(tx)["tx"] = b"3"
            native.close()
        except BaseException:
            os._exit(1)
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert sorted(kv) == [b"child", b"parent", b"tx"]
    kv["parent"] = b"still works"


def test_threads(native):
    kv, cells = native.kv("index"), native.create_array("cells", 1, 4096)
    failures = []

    def work(number):
        try:
            for step in range(40):
                kv[f"{number} {step}"] = bytes([number]) * 100
                cells.write((number * 40 + step) * 4096, bytes([number]) * 4096)
                assert cells.read(number * 40 * 4096, 1) == bytes([number])
                assert kv[f"{number} {step}"] == bytes([number]) * 100
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and len(kv) == 160


def test_one_iterator_in_two_threads_is_an_error_or_works(native):
    kv = native.kv("index")
    kv.update({f"{number}": b"x" for number in range(200)})
    listing, seen = iter(kv.items()), []

    def drain():
        with contextlib.suppress(RuntimeError):  # raised if the other thread is using it
            seen.extend(listing)

    threads = [threading.Thread(target=drain) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == len(set(seen)) <= 200


def run(code, *arguments):
    """Run Python code in a new interpreter in development mode; return the output. Errors fail the test."""
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


OPEN_HANDLES = """
import sys, esker
pool = esker.Pool(sys.argv[1])
container = pool.container(sys.argv[2])
kv = container.kv("index")
kv["a"] = b"1"
listing = iter(kv)
next(listing)
tx = container.transaction()
kv.at(tx)["b"] = b"2"
"""


def test_exit_with_open_handles(native):
    run(OPEN_HANDLES, native.pool.name, native.uuid)
    assert list(native.kv("index")) == [b"a"]


EXIT_WITH_THREADS = """
import sys, threading, esker
container = esker.Pool(sys.argv[1]).container(sys.argv[2])
kv, cells = container.kv("index"), container.create_array("cells", exist_ok=True)
running = threading.Event()

def work():
    while True:
        kv["a"] = b"x" * 1000
        cells.write(0, b"y" * 100_000)
        running.set()

for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
running.wait()
"""


def test_exit_while_threads_work(native):
    for _ in range(3):
        run(EXIT_WITH_THREADS, native.pool.name, native.uuid)
    assert native.kv("index")["a"] == b"x" * 1000


FORK_AND_EXIT = """
import os, sys, esker
container = esker.Pool(sys.argv[1]).container(sys.argv[2])
kv = container.kv("index")
kv["a"] = b"1"
if os.fork():
    os.wait()
    kv["parent"] = b"1"
else:
    kv["child"] = b"1"
"""


def test_parent_and_child_both_exit(native):
    run(FORK_AND_EXIT, native.pool.name, native.uuid)
    assert sorted(native.kv("index")) == [b"a", b"child", b"parent"]


LEAKS = """
import gc, os, sys, esker
pool = esker.Pool(sys.argv[1])

def once():
    with pool.container(sys.argv[2]) as container:
        kv, cells = container.kv("index"), container.create_array("cells", exist_ok=True)
        kv["a"] = bytes(100_000)
        buffer = bytearray(100_000)
        kv.get_into("a", buffer)
        cells.write(0, buffer)
        cells.read(0, 100_000)
        list(kv.items())
        try:
            kv["missing"]
        except KeyError:
            pass

def resident():
    gc.collect()
    with open("/proc/self/status") as status:
        kinds = dict(line.split(":", 1) for line in status)
    return int(kinds["RssAnon"].split()[0])

for _ in range(100):
    once()
before, files = resident(), len(os.listdir("/proc/self/fd"))
for _ in range(300):
    once()
grown = resident() - before
assert grown < 4096, f"grown by {grown} KiB"
# Over nodes, the process may open connections meanwhile.
assert len(os.listdir("/proc/self/fd")) < files + 50
"""


def test_processes_do_not_leak(native):
    run(LEAKS, native.pool.name, native.uuid)


# Lengths of values: the shortest is kept in a page of the index, the longest in several pieces of a segment.
LENGTHS = [100, 900, 5000, 50_000, 1 << 20, (4 << 20) - 1]


def put_forever(kv, pipe, number):
    """Replace all values again and again, by the next number repeated to one of the lengths in turn.

    A `b` in the pipe says that a round begins, an `e` that it has ended.
    """
    while True:
        number += 1
        os.write(pipe, b"b")
        for key in range(len(LENGTHS)):
            kv[f"{key}"] = number.to_bytes(4, "big") * (LENGTHS[(key + number) % len(LENGTHS)] // 4)
        os.write(pipe, b"e")


def number_of(value):
    """The number that a value repeats from end to end, and the length of the value."""
    number = int.from_bytes(value[:4], "big")
    assert value == value[:4] * (len(value) // 4), "a mix of two values"
    return number, len(value)


def test_killed_writers_leave_no_torn_values(native):
    kv, draws, before = native.kv("index"), moments(), room(native.pool)
    ended = begun = 0
    for _ in range(KILLS):
        told = killed(lambda pipe: put_forever(kv, pipe, begun), draws, range(1, 5))  # noqa: B023
        ended = begun + told.count(b"e") if b"e" in told else ended
        begun += told.count(b"b")
        for key, value in kv.items():
            number, size = number_of(value)
            assert ended <= number <= begun
            assert size // 4 == LENGTHS[(int(key) + number) % len(LENGTHS)] // 4
    assert len(kv) == len(LENGTHS)
    kv.clear()
    expect_room(native.pool, before)


FORK_AMONG_THREADS = """
import os, sys, threading, esker
container = esker.Pool(sys.argv[1]).container(sys.argv[2])
kv, cells = container.kv("index"), container.create_array("cells", exist_ok=True)
pairs = container.kv("pairs")
files = esker.FileSystem(esker.Pool(sys.argv[1]).container(sys.argv[3]))
ended = threading.Event()

def put_pair(name):
    def put(tx):
        pairs.at(tx)[name + " a"] = pairs.at(tx)[name + " b"] = b"x"
    container.transact(put)

def work(number):
    while not ended.is_set():
        kv[f"thread {number}"] = b"x" * 2000
        put_pair(f"thread {number}")
        cells.write(number * 5000, b"y" * 5000)
        with files.open(f"{number}", "ab") as file:
            file.write(b"z")
        container.info()

threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
for thread in threads:
    thread.start()
for child in range(20):
    if not os.fork():
        code = 1
        try:
            kv[f"child {child}"] = kv.get("thread 0", b"")
            put_pair(f"child {child}")
            with files.open(f"child {child}", "wb") as file:
                file.write(b"z")
            container.info(), cells.read(0, 1)
            code = 0
        finally:
            os._exit(code)
    _, status = os.wait()
    assert status == 0, status
ended.set()
for thread in threads:
    thread.join()
assert len(kv) == 23 and len(pairs) == 46 and len(files.listdir()) == 23
"""


def test_forks_among_threads_that_work(native, posix):
    if posix.pool.name.startswith("daos:"):
        pytest.skip("a child made by fork cannot use libdaos")
    run(FORK_AMONG_THREADS, native.pool.name, native.uuid, posix.uuid)


def test_forks_among_threads_on_a_pool_of_files(tmp_path):
    with esker.Pool.create(f"posix:{tmp_path}/tank") as pool:
        container, files = pool.create_container("c"), pool.create_container("files", posix=True)
        run(FORK_AMONG_THREADS, pool.name, container.uuid, files.uuid)


@pytest.mark.parametrize("hidden", [FileNotFoundError, PermissionError])
def test_hidden_processes_are_not_dead(monkeypatch, hidden):
    """With the mount option hidepid, /proc does not show the processes of other users."""
    process = this_process()
    assert not is_dead(process)
    assert is_dead({**process, "began": process["began"] + 1})
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        ended.wait()
    assert is_dead({**process, "pid": ended.pid})
    read_text = pathlib.Path.read_text

    def read(path, *arguments, **named):
        if path.name == "stat":
            raise hidden(path)
        return read_text(path, *arguments, **named)

    monkeypatch.setattr(pathlib.Path, "read_text", read)
    assert not is_dead(process)
    assert is_dead({**process, "pid": ended.pid})


@pytest.mark.parametrize(("machine", "dead"), [("this", True), ("another", False), (None, False)])
def test_a_host_name_and_another_boot_do_not_make_a_process_dead(monkeypatch, machine, dead):
    """Two machines may have the name "localhost"."""
    monkeypatch.setattr(esker._zarr_writers, "_machine", lambda: "this")
    process = {**this_process(), "boot": "another", "machine": machine}
    assert is_dead(process) == dead
    monkeypatch.setattr(esker._zarr_writers, "_machine", lambda: None)
    assert not is_dead({**process, "machine": None})
    del process["machine"]
    assert not is_dead(process)


def _end_in_a_child(end):
    """Call `end` in a child created by fork, which must not fail."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            end()
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0


@pytest.mark.parametrize("error", [None, SystemExit])
def test_a_forked_child_leaves_the_unfinished_files_of_its_parent(posix, error):
    if posix.pool.name.startswith("daos:"):
        pytest.skip("a child made by fork cannot use libdaos")
    files = esker.FileSystem(posix)
    with ReplacingFile(files, "/a", buffer_bytes=4) as file:
        file.write(b"stored")
        file.write(b"+")
        _end_in_a_child(lambda: file.__exit__(error, None, None))
        file.write(b"more")
    deferred = DeferredFile(files, "/b", "wb")
    deferred.write(b"whole")
    _end_in_a_child(deferred.commit)
    _end_in_a_child(deferred.__del__)
    assert not files.exists("/b")
    deferred.commit()
    with files.open("/a", "rb") as first, files.open("/b", "rb") as second:
        assert (first.read(), second.read()) == (b"stored+more", b"whole")


def test_a_forked_child_cannot_write_to_a_file_of_its_parent(posix):
    if posix.pool.name.startswith("daos:"):
        pytest.skip("a child made by fork cannot use libdaos")
    files = esker.FileSystem(posix)

    def write():
        with pytest.raises(esker.errors.NoHandle, match="made by fork"):
            file.write(b"child")

    with ReplacingFile(files, "/a", buffer_bytes=4) as file:
        _end_in_a_child(write)
        file.write(b"parent")
    with files.open("/a", "rb") as stored:
        assert stored.read() == b"parent"


def test_new_files_are_written_without_listing_their_folder(posix, monkeypatch):
    files, listed = esker.FileSystem(posix), []
    whole = esker.FileSystem.listdir
    monkeypatch.setattr(esker.FileSystem, "listdir", lambda *args: listed.append(args[1]) or whole(*args))
    for name in ("/a", "/b", "/c", "/a"):
        ReplacingFile(files, name).close()
    assert listed == ["/"]


@pytest.mark.parametrize("error", [None, SystemExit])
def test_a_forked_child_leaves_the_session_of_its_parent(native, error):
    zarr_store = pytest.importorskip("esker.zarr")
    value = pytest.importorskip("zarr.core.buffer").default_buffer_prototype().buffer.from_bytes(b"1")
    store = zarr_store.Store(native)
    block = store.transaction("parent")
    session = block.__enter__()
    session.set_sync("a", value)

    def end():
        with contextlib.suppress(SystemExit):
            block.__exit__(error, error and error(), None)

    _end_in_a_child(end)
    session.set_sync("b", value)
    block.__exit__(None, None, None)
    assert store.size_sync("a") == store.size_sync("b") == 1


HOLDING = """
import fcntl, sys
SETUP = 1 << 40  # docs/format.md: held while a pool is opened
with open(sys.argv[1], "r+b") as control:
    fcntl.lockf(control, fcntl.LOCK_EX, 1, SETUP)
    print("held", flush=True)
    sys.stdin.read()
"""

WAITING = """
import os, subprocess, sys, threading, esker
url, holding = sys.argv[1:]
control = url.removeprefix("esker:") + "/control"
holder = [sys.executable, "-c", holding, control]
with subprocess.Popen(holder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
    assert holder.stdout.readline() == "held\\n"
    opening = threading.Thread(target=esker.Pool, args=(url,))
    opening.start()
    waits = False
    while not waits:
        with open("/proc/locks") as locks:
            waits = any("->" in lock and f":{os.stat(control).st_ino} " in lock for lock in locks)
    holder.stdin.close()
    opening.join()
"""


@pytest.mark.usefixtures("one_node")
def test_other_threads_run_while_a_call_waits(native_url):
    """The call waits in the kernel for a lock that only another Python thread releases."""
    run(WAITING, native_url, HOLDING)

"""Fields: archived, flushed, listed, retrieved, watched and removed by key."""

import asyncio
import datetime
import enum
import io
import itertools
import multiprocessing
import os
import pickle
import subprocess
import sys
import threading

import pytest

import esker

_numbers = itertools.count()
KEY = {
    "class": "rd",
    "expver": "0001",
    "stream": "oper",
    "date": "20240610",
    "time": "0000",
    "domain": "g",
    "type": "fc",
    "levtype": "sfc",
    "step": "0",
    "param": "167",
}


def fill(store, steps=range(3), params=(167, 168)):
    """Archive and flush a few fields whose bytes identify them."""
    for step in steps:
        for param in params:
            store.archive(f"{step} {param}".encode(), KEY | {"step": step, "param": param})
    store.flush()


def test_fields_are_retrieved_in_the_order_of_the_request(store):
    fill(store)
    found = store.retrieve({"class": "rd", "step": [2, 0], "param": [168, 167]})
    assert [field.data for field in found] == [b"2 168", b"2 167", b"0 168", b"0 167"]
    assert found[0].key == KEY | {"step": "2", "param": "168"}
    assert found.read() == b"2 1682 1670 1680 167" and found.nbytes == 20 and len(found) == 4
    assert [field.read() for field in found[1:3]] == [b"2 167", b"0 168"]
    place = bytearray(20)
    found.read_into(place)
    assert place == found.read()
    with pytest.raises(ValueError, match="19 bytes"):
        found.read_into(bytearray(19))
    assert found[-1].read_range(2, 3) == b"167"
    with pytest.raises(IndexError):
        found[4]
    with pytest.raises(ValueError, match="of a field of 5 bytes"):
        found[0].read_range(3, 3)
    place = bytearray(3)
    found[0].read_into(place, 2)
    assert place == b"168"


@pytest.mark.parametrize(
    "request_",
    [
        "class=rd,date=2024-06-10,step=0/to/2/by/2,param=167",
        "retrieve, class=rd, step=0/2, param=167",
        {"date": datetime.date(2024, 6, 10), "step": "0/2", "param": 167},
        {"step": range(0, 3, 2), "param": ["167"]},
        {"step": "0/to/2/by/2", "param": (167,)},
    ],
)
def test_all_kinds_of_requests(store, request_):
    fill(store)
    assert [field.data for field in store.retrieve(request_)] == [b"0 167", b"2 167"]


def test_missing_fields_are_named(store):
    fill(store)
    full = KEY | {"step": [2, 3, 4]}
    with pytest.raises(KeyError, match=r"2 of 3 fields are missing: .*step=3"):
        store.retrieve(full)
    found = store.retrieve(full, partial=True)
    assert [field.data for field in found] == [b"2 167"] and found.missing_count == 2
    assert found.missing == [KEY | {"step": "3"}, KEY | {"step": "4"}]
    assert len(store.inspect(full)) == 1
    with pytest.raises(esker.NotFound, match="step"):
        store.inspect(KEY | {"step": 7})
    with pytest.raises(esker.Invalid, match="notadate"):
        store.retrieve({"date": "notadate"})
    with pytest.raises(TypeError, match="dict"):
        store.retrieve(7)


def test_a_flush_makes_all_fields_visible_at_once(store):
    store.archive(b"one", KEY)
    assert len(store.list()) == 0 and store.pending == (1, 3)
    store.flush()
    assert len(store.list()) == 1 and store.pending == (0, 0)
    store.archive(b"two", KEY)
    store.discard()
    store.flush()
    assert store.retrieve(KEY).read() == b"one"


def test_a_with_statement_flushes_or_discards(shared):
    with esker.FieldStore(shared.name) as store:
        store.archive(b"kept", KEY)
    with pytest.raises(RuntimeError, match="middle"), esker.FieldStore(shared.name) as store:
        store.archive(b"lost", KEY)
        raise RuntimeError("in the middle")
    assert shared.retrieve(KEY).read() == b"kept"
    with pytest.raises(ValueError, match="closed"):
        store.list()
    store.close()


def test_axes_stats_wipe_and_purge(store):
    fill(store)
    fill(store, steps=[0])
    assert store.axes({"param": 167})["step"] == ["0", "1", "2"]
    assert store.axes()["param"] == ["167", "168"]
    assert store.stats({"step": 0}) | {"databases": 0} == {
        "databases": 0,
        "indexes": 1,
        "fields": 2,
        "bytes": 10,
        "adopted": 0,
        "adopted_bytes": 0,
        "masked": 2,
        "masked_bytes": 10,
    }
    assert [field.data for field in store.list({"param": 167}, masked=True)] == [b"0 167"]
    assert store.purge()["masked"] == 2 and len(store.list(masked=True)) == 2
    assert store.purge(doit=True) == {"masked": 2, "unflushed": 0, "removed": 0, "bytes": 10}
    whole = {name: KEY[name] for name in ("class", "expver", "stream", "date", "time", "domain")}
    assert store.wipe(whole | {"step": 1}) == {"fields": 2, "masked": 0, "bytes": 10}
    assert len(store.list()) == 6
    store.wipe(whole | {"step": 1}, doit=True)
    assert store.axes()["step"] == ["0", "2"]
    with pytest.raises(ValueError, match="to wipe fields of"):
        store.wipe({"step": 1})


def test_paths_and_files_under_a_key(store, tmp_path):
    path = tmp_path / "field"
    path.write_bytes(b"from a file")
    store.archive(path, KEY)
    store.archive(str(path), KEY | {"step": 1})
    store.archive(io.BytesIO(b"from an object"), KEY | {"step": 2})
    store.archive(memoryview(b"from a view"), ",".join(f"{k}={v}" for k, v in (KEY | {"step": 3}).items()))
    store.flush()
    found = store.retrieve({"step": [0, 1, 2, 3]})
    assert [field.data for field in found] == [
        b"from a file",
        b"from a file",
        b"from an object",
        b"from a view",
    ]
    with pytest.raises(FileNotFoundError, match="nowhere"):
        store.archive(tmp_path / "nowhere", KEY)
    with pytest.raises(ValueError, match="no bytes"):
        store.archive(b"", KEY)
    with pytest.raises(TypeError):
        store.archive(7, KEY)


def test_a_store_is_opened_by_name_or_in_a_pool(native_url):
    label = f"fields{next(_numbers)}"
    with pytest.raises(esker.NotFound):
        esker.FieldStore(f"{native_url}/{label}", create=False)
    with pytest.raises(esker.NotFound):
        esker.FieldStore(f"{native_url}/{label}", "r")
    pool = esker.Pool(native_url)
    schema = "[ model [ run [ step ]]]"
    with esker.FieldStore(pool, label=label, schema=schema) as store:
        store.archive(b"x", {"model": "a", "run": 1, "step": 2})
    reader = esker.FieldStore(f"{native_url}/{label}", "r")
    assert reader.schema == schema and reader.mode == "r" and reader.axes()["run"] == ["1"]
    with pytest.raises(PermissionError):
        reader.archive(b"y", {"model": "a", "run": 1, "step": 3})
    with pytest.raises(TypeError, match="label"):
        esker.FieldStore(pool)
    with pytest.raises(ValueError, match="POOL/CONTAINER"):
        esker.FieldStore("nopool")
    pool.destroy_container(label, force=True)


def test_watching(shared):
    fill(shared, steps=[0])
    watch = shared.watch({"param": 167}, timeout=60)
    fill(esker.FieldStore(shared.name), steps=[1, 2])
    assert [next(watch).data, next(watch).data] == [b"1 167", b"2 167"]
    seen = [field.data for field in shared.watch({"param": 167}, timeout=0, existing=True)]
    assert seen == [b"0 167", b"1 167", b"2 167"]
    fill(shared, steps=[12, 6, 100, 48])
    assert [int(next(watch).key["step"]) for _ in range(4)] == [12, 6, 100, 48]
    with pytest.raises(ValueError, match="seconds"):
        shared.watch(timeout=-1)


def test_handles_pickle(shared):
    fill(shared)
    found = shared.retrieve(KEY | {"step": [0, 9]}, partial=True)
    store, field, found = pickle.loads(pickle.dumps((shared, shared.retrieve(KEY)[0], found)))
    assert (found.read(), found.missing, found.missing_count) == (b"0 167", [KEY | {"step": "9"}], 1)
    assert store.name == store.url == shared.url and len(store.list()) == 6
    assert field.data == b"0 167" and field.key == KEY


def test_masked_fields_do_not_pickle(shared):
    fill(shared, steps=[0, 0])
    masked = shared.list(masked=True)
    for one in (masked, masked[0], masked[:1]):
        with pytest.raises(TypeError, match="masked"):
            pickle.dumps(one)


def test_values_of_subclasses_are_their_values(store):
    class Level(str, enum.Enum):
        SURFACE = "sfc"

    class Number(int, enum.Enum):
        ONE = 1

    fill(store)
    assert [field.data for field in store.list({"levtype": [Level.SURFACE], "step": Number.ONE})] == [
        b"1 167",
        b"1 168",
    ]
    store.archive(b"x", KEY | {"levtype": Level.SURFACE, "step": Number.ONE})
    store.flush()
    assert store.retrieve(KEY | {"step": 1})[0].data == b"x"


@pytest.mark.parametrize("unit", ["D", "s", "ns"])
def test_dates_of_numpy_are_dates(store, unit):
    numpy = pytest.importorskip("numpy")
    fill(store, steps=[0])
    date = numpy.datetime64("2024-06-10", unit)
    assert len(store.list({"date": date})) == len(store.list({"date": [date]})) == 2
    with pytest.raises(TypeError, match="a date"):
        store.list({"date": numpy.datetime64("NaT", unit)})


def test_a_request_of_comments_is_refused(store):
    for ask in (store.list, store.retrieve, store.watch):
        with pytest.raises(ValueError, match="no request"):
            ask("# nothing\n")


def _work(store, number):
    """Archive the fields of a step in a worker; return how many it lists."""
    fill(store, steps=[number])
    return len(store.list({"step": number}))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers(shared, method):
    with multiprocessing.get_context(method).Pool(2) as workers:
        assert workers.starmap(_work, [(shared, number) for number in range(8)]) == [2] * 8
    assert len(shared.list()) == 16


def test_a_forked_child_does_not_flush_what_its_parent_archived(shared):
    shared.archive(b"of the parent", KEY)
    child = os.fork()
    if child == 0:
        try:
            shared.flush()
            assert len(shared.list()) == 0
            shared.archive(b"of the child", KEY | {"step": 1})
            shared.flush()
        except BaseException:
            os._exit(1)
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [field.data for field in shared.list()] == [b"of the child"]
    shared.flush()
    assert [field.data for field in shared.retrieve({"step": [0, 1]})] == [b"of the parent", b"of the child"]


def test_threads_share_a_store(shared):
    def work(number):
        fill(shared, steps=range(number * 10, number * 10 + 10))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(shared.list()) == 80


def test_asyncio(store):
    async def work():
        await asyncio.gather(*(store.aarchive(b"x", KEY | {"step": step}) for step in range(5)))
        await store.aflush()
        found = await store.aretrieve({"step": [0, 4]})
        return await found.aread(), await found[0].aread(), (await store.aaxes())["step"]

    assert asyncio.run(work()) == (b"xx", b"x", ["0", "1", "2", "3", "4"])


def _alone(code, **environment):
    """Run Python code in a new interpreter; return the ended process, with its output."""
    environment = os.environ | environment
    return subprocess.run(
        [sys.executable, "-X", "dev", "-c", code],
        capture_output=True,
        text=True,
        env=environment,
        timeout=600,
    )


def test_missing_packages_are_named(shared):
    fill(shared)
    code = f"import esker; store = esker.FieldStore({shared.name!r}); "
    without_numpy = "import sys; sys.modules['numpy'] = None; " + code + "store.list()[0].values"
    assert "pip install numpy" in _alone(without_numpy).stderr
    ended = _alone(code + "store.archive(b'GRIB')", ESKER_ECCODES="/nowhere/libeccodes.so")
    assert ended.returncode == 1
    ended = _alone(code + "store.list()[0].metadata('units')", ESKER_ECCODES="/nowhere/libeccodes.so")
    assert "install libeccodes0" in ended.stderr and "/nowhere" in ended.stderr


def test_the_interpreter_exits_while_a_thread_watches(shared):
    code = f"""
import threading, esker
store = esker.FieldStore({shared.name!r})
store.archive(b"never flushed", {KEY!r})
threading.Thread(target=list, args=(store.watch(),), daemon=True).start()
print("end")
"""
    ended = _alone(code)
    assert (ended.returncode, ended.stdout) == (0, "end\n")
    assert "1 fields of 13 bytes were archived and never flushed" in ended.stderr
    assert len(shared.list()) == 0

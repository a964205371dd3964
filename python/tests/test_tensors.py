"""Tensors: what numpy puts comes back, whole and in any selection, on each backend and across processes."""

import asyncio
import itertools
import multiprocessing
import os
import pathlib
import pickle
import random
import re

import numpy
import pytest
from ranks import require_mpi, run_ranks

import esker

_numbers = itertools.count()


@pytest.fixture
def tensors(pool):
    """A new tensor store on each backend."""
    label = f"each{next(_numbers)}"
    with esker.TensorStore(pool, label=label) as store:
        yield store
    pool.destroy_container(label, force=True)


_SIMPLE = [
    *(
        order + code
        for order in "<>"
        for code in ("i2", "i4", "i8", "u2", "u4", "u8", "f2", "f4", "f8", "c8", "c16")
    ),
    *("?", "i1", "u1", "S1", "S7", "V5", "<U3", ">U4"),
    *(f"{order}{kind}8[{unit}]" for order in "<>" for kind in "mM" for unit in ("s", "ns", "25s", "D")),
    *("<m8", "<M8", numpy.longdouble, numpy.clongdouble),
]

_STRUCTURED = [
    numpy.dtype([("a", "<f4"), ("b", ">i8"), ("c", "S3")]),
    numpy.dtype([("a", "<f4"), ("b", "<f8")], align=True),
    numpy.dtype([("a", "<f2", (2, 3)), ("in", [("x", "u1"), ("y", "<M8[ns]")])]),
    numpy.dtype([(("a title", "a"), "<i4"), ("b", "?")]),
    numpy.dtype({"names": ["b", "a"], "formats": ["<i4", "<f8"], "offsets": [8, 0], "itemsize": 20}),
    numpy.dtype({"names": ["whole", "low"], "formats": ["<u4", "<u2"], "offsets": [0, 0]}),
]


def _filled(shape, dtype, seed=0):
    """An array of random elements: valid ones of texts and numbers, any bytes of other types."""
    dtype = numpy.dtype(dtype)
    count = int(numpy.prod(shape))
    numbers = numpy.random.default_rng(seed).integers(0, 100, count)
    if dtype.kind in "SU":
        return numbers.astype(dtype).reshape(shape)
    if dtype.kind in "iufcb":
        return (numbers - 20 * (dtype.kind in "if")).astype(dtype).reshape(shape)
    raw = numpy.random.default_rng(seed).bytes(count * dtype.itemsize)
    return numpy.frombuffer(raw, dtype, count).reshape(shape)


def _same(one, two):
    """Fail unless type, shape and bytes are the same. Of structured types compare the members: numpy does not
    copy the bytes between them.
    """
    assert (one.dtype, one.shape) == (two.dtype, two.shape)
    for name in one.dtype.names or ():
        _same(one[name], two[name])
    assert one.dtype.names or one.tobytes() == two.tobytes()


@pytest.mark.parametrize("dtype", [*_SIMPLE, *_STRUCTURED], ids=str)
def test_every_dtype_round_trips(tensors, dtype):
    array = _filled((5, 4), dtype)
    tensors.put(array, "a", chunks=(2, 3))
    tensor = tensors["a"]
    assert tensor.dtype == array.dtype and tensor.dtype.itemsize == array.dtype.itemsize
    for key in (..., (slice(1, 4), slice(None, None, -2)), (slice(2, 3), 3), 1):
        _same(numpy.asarray(tensor[key]), numpy.asarray(array[key]))


@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (1,) * 32, (7,), (3, 700, 500)], ids=str)
def test_every_shape_round_trips(tensors, shape):
    array = _filled(shape, "<f8")
    uuid = tensors.put(array)
    _same(tensors.get(uuid), array)
    tensor = tensors[uuid]
    assert (tensor.shape, tensor.ndim, tensor.nbytes) == (shape, len(shape), array.nbytes)
    assert tensor.name is None and tensor.uuid == uuid
    _same(numpy.asarray(tensor), array)


def _random_item(length, rng):
    """A random index or slice of an axis; slices may go beyond its ends."""
    if length and rng.random() < 0.2:
        return rng.randrange(-length, length)
    start, stop = (rng.choice([None, rng.randint(-length - 2, length + 2)]) for _ in range(2))
    return slice(start, stop, rng.choice([None, 1, 2, 3, -1, -2, -5]))


def _random_key(shape, rng):
    """A random selection, at times with an ellipsis, fewer items than axes, or a new axis."""
    items = [_random_item(length, rng) for length in shape]
    first = rng.randint(0, len(items))
    if rng.random() < 0.3:
        items[first : rng.randint(first, len(items))] = [...]
    elif rng.random() < 0.5:
        del items[first:]
    if rng.random() < 0.3:
        items.insert(rng.randint(0, len(items)), None)
    return tuple(items)


def test_selections_are_those_of_numpy(tensors):
    rng = random.Random(int(os.environ.get("ESKER_SEED", "1")))
    for _ in range(60):
        shape = tuple(rng.randint(0, 12) for _ in range(rng.randint(0, 4)))
        array = _filled(shape, rng.choice(["<f4", "|u1", ">c16", "S3"]))
        tensors.put(array, "a", chunks=[rng.randint(1, 6) for _ in shape])
        tensor = tensors["a"]
        for _ in range(10):
            key = _random_key(shape, rng)
            read, expected = tensor[key], array[key]
            assert type(read) is type(expected), key
            _same(numpy.asarray(read), numpy.asarray(expected))


def test_invalid_selections_raise_index_errors(tensors):
    tensors.put(numpy.zeros((3, 4)), "a")
    for key in (3, -4, (0, 0, 0), [0, 1], True, (..., ...), "x", 1.5):
        with pytest.raises(IndexError):
            tensors["a"][key]
    with pytest.raises(TypeError):
        len(tensors[tensors.put(numpy.float64(1))])
    with pytest.raises(ValueError, match="copy"):
        numpy.asarray(tensors["a"], copy=False)


def test_memory_with_strides_is_put(tensors):
    array = _filled((12, 10, 6), "<i4")
    for view in (
        array.T,
        array[::2, ::-3],
        array[:, 3:4],
        numpy.broadcast_to(array[0], (3, 10, 6)),
        numpy.asfortranarray(array),
        array[5, ::-1, 2],
    ):
        tensors.put(view, "a", chunks=[4] * view.ndim)
        _same(tensors.get("a"), numpy.ascontiguousarray(view))


def test_objects_and_masked_arrays_are_refused(tensors):
    texts = numpy.array(["a"], numpy.dtypes.StringDType())
    for array in (numpy.array([None]), numpy.zeros(2, [("a", "O")]), texts):
        with pytest.raises(TypeError, match="pointers"):
            tensors.put(array)
    with pytest.raises(TypeError, match="masked"):
        tensors.put(numpy.ma.masked_array([1, 2], [False, True]))
    assert tensors.list() == []


def test_attributes_round_trip(tensors):
    attrs = {"units": "K", "step": 3, "scale": 0.5, "raw": b"\0", "ok": True, "list": [1, [2.0, "x"]]}
    tensors.put([1, 2], "a", attrs | {"numpy": numpy.arange(3), "scalar": numpy.float32(2)})
    assert tensors["a"].attrs == attrs | {"numpy": [0, 1, 2], "scalar": 2.0}
    assert tensors["a"].attrs["ok"] is True
    with pytest.raises(TypeError, match="attributes"):
        tensors.put([1], "b", {"a": object()})
    with pytest.raises(OverflowError):
        tensors.put([1], "b", {"a": 1 << 70})


def test_names(tensors):
    uuid = tensors.put(numpy.arange(3), "a")
    tensors.put(numpy.arange(4))
    assert "a" in tensors and uuid in tensors and "b" not in tensors
    tensors.rename("a", "b")
    assert (list(tensors), tensors.keys(), len(tensors.list())) == (["b"], ["b"], 2)
    with pytest.raises(KeyError):
        tensors["a"]
    del tensors["b"]
    assert tensors.keys() == []
    with pytest.raises(esker.NotFound):
        tensors.remove("b")
    with pytest.raises(esker.Invalid):
        tensors.put([1], "a\nb")


def test_damaged_tensors_are_named(tensors, pool):
    for name in ("a", "b"):
        tensors.put(numpy.zeros(3), name)
    container = pool.container(tensors.name.rpartition("/")[2])
    # The Key-Value of names (docs/format.md).
    container.kv("576742231608655872.0")["a"] = b"x"
    with pytest.warns(UserWarning, match=r'not listed: \["a"\]: run `esker tensor check`'):
        assert [listed["name"] for listed in tensors.list()] == ["b"]
    tensors.remove("a")
    assert tensors.keys() == ["b"]


def test_an_open_tensor_is_kept_when_it_is_replaced(tensors):
    tensors.put(numpy.zeros(1000), "a")
    old = tensors["a"]
    tensors.put(numpy.ones(1000), "a")
    assert not old[...].any() and tensors["a"][...].all()
    del old
    assert tensors.collect(0)["kept"] == 0
    assert tensors.check(data=True) == []


def test_parts_are_checked_at_the_commit(tensors):
    put = tensors.begin((4, 3), "f4", {"units": "K"}, chunks=(2, 2))
    assert (put.shape, put.chunks, put.dtype) == ((4, 3), (2, 2), numpy.dtype("f4"))
    put.write((0, 0), numpy.ones((2, 3), "f4"))
    with pytest.raises(esker.Invalid, match=r"\[2:4, 0:3\] is missing"):
        put.commit("a")
    with pytest.raises(TypeError, match="astype"):
        put.write((2, 0), numpy.ones((2, 3)))
    with pytest.raises(esker.Invalid, match="fit"):
        put.write((3, 0), numpy.ones((2, 3), "f4"))
    assert "a" not in tensors
    put.write((2, 0), numpy.full((2, 3), 2, "f4"))
    assert put.commit("a") == put.uuid
    assert tensors["a"].attrs == {"units": "K"}
    assert tensors.get("a").sum(axis=1).tolist() == [3, 3, 6, 6]
    double = tensors.begin(3, "u1")
    double.write(0, numpy.zeros(2, "u1"))
    double.write(1, numpy.zeros(2, "u1"))
    with pytest.raises(esker.Invalid, match=r"part \[0:2\] overlaps part \[1:3\]"):
        double.commit()
    double.abort()
    with pytest.raises(esker.NotFound):
        tensors.resume(double.token)


def _write_row(put, row):
    """Write a row in a worker."""
    put.write((row, 0), numpy.full((1, 5000), row, "<i8"))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_processes_write_parts(shared_tensors, method):
    put = shared_tensors.begin((8, 5000), "<i8", chunks=(3, 2000))
    context = multiprocessing.get_context(method)
    processes = [context.Process(target=_write_row, args=(put, row)) for row in range(8)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    put.commit("rows")
    assert (shared_tensors.get("rows") == numpy.arange(8)[:, None]).all()


def _sum(tensor):
    return int(tensor[...].sum())


def test_tensors_are_read_by_other_processes(shared_tensors):
    shared_tensors.put(numpy.arange(1000), "a")
    tensor = shared_tensors["a"]
    with multiprocessing.get_context("fork").Pool(2) as pool:
        assert pool.map(_sum, [tensor] * 4) == [499500] * 4
    again = pickle.loads(pickle.dumps((shared_tensors, tensor)))
    assert again[0].get("a").sum() == again[1][...].sum() == 499500


def test_a_snapshot_shows_the_tensors_of_its_time(pool, tensors, keeps_snapshots):
    label = tensors.name.rpartition("/")[2]
    tensors.put([1], "a")
    pool.container(label).create_snapshot("then")
    tensors.put([2], "a")
    then = esker.TensorStore(pool, "r", label=label, snapshot="then")
    assert (then.get("a")[0], tensors.get("a")[0]) == (1, 2)


def test_coroutines(tensors):
    async def work():
        await tensors.aput(numpy.arange(3), "a")
        return await tensors.aget("a")

    assert asyncio.run(work()).tolist() == [0, 1, 2]


def test_stores_are_opened_and_closed(pool, tensors):
    label = tensors.name.rpartition("/")[2]
    with pytest.raises(esker.NotFound):
        esker.TensorStore(pool, "r", label="missing")
    with pytest.raises(TypeError):
        esker.TensorStore(pool)
    reading = esker.TensorStore(pool, "r", label=label)
    with pytest.raises(esker.NoPermission):
        reading.put([1])
    reading.close()
    with pytest.raises(esker.Error, match="closed"):
        reading.list()
    assert repr(tensors) == f'TensorStore("{tensors.name}", "rw")'


def _snippet_with(text):
    """The one block of Python in the how-to about tensors that contains a text."""
    page = pathlib.Path(__file__).resolve().parents[2] / "docs" / "howto" / "tensors.md"
    (found,) = [
        part for part in re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL) if text in part
    ]
    return found


def test_the_how_to_runs_under_mpi(shared_tensors):
    assert require_mpi().COMM_WORLD.size == 1
    names = {}
    exec(_snippet_with("mpi4py"), names)
    names["save"](shared_tensors, "a", numpy.arange(12.0).reshape(3, 4))
    assert shared_tensors.get("a").sum() == 66


_RANKS = """
import sys
from mpi4py import MPI
import numpy, esker

ranks = MPI.COMM_WORLD
store = esker.TensorStore(sys.argv[1])
for number in range(3):
    # Chunks of three rows: the ranks, which have two each, write to the same ones.
    new = {"shape": (2 * ranks.size, 5000), "dtype": "<i8", "chunks": (3, 2000)}
    put = store.begin(**new) if ranks.rank == 0 else None
    token = ranks.bcast(put.token if put else None)
    store.resume(token).write((2 * ranks.rank, 0), numpy.full((2, 5000), ranks.rank + number, "<i8"))
    ranks.Barrier()
    if put:
        assert number == 0 or store.get("a")[0, 0] == number - 1, "not visible before the commit"
        put.commit("a")
    ranks.Barrier()
    found = store.get("a")
    assert (found == numpy.arange(ranks.size).repeat(2)[:, None] + number).all()
    ranks.Barrier()
# One rank prints: the output of several may be mixed up.
readers = ranks.reduce(1)
if ranks.rank == 0:
    print("read by", readers)
"""


def test_ranks_write_parts(shared_tensors):
    assert run_ranks(4, _RANKS, shared_tensors.name) == "read by 4\n"

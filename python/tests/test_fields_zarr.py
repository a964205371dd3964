"""Fields as arrays of zarr: by the names of cfgrib, and by z3fdb's definitions of axes."""

import asyncio
import multiprocessing
import pickle
import subprocess
import sys
import warnings

import pytest
from made import GRID, NI, NJ, OTHER_GRIDS, forecast, level, on_grid

import esker

numpy = pytest.importorskip("numpy")
zarr = pytest.importorskip("zarr", minversion="3.1")

from zarr.abc.store import RangeByteRequest  # noqa: E402
from zarr.core.buffer import default_buffer_prototype  # noqa: E402

from esker import z3fdb  # noqa: E402
from esker.z3fdb import AxisDefinition, Chunking, ExtractorType, SimpleStoreBuilder, Z3fdbError  # noqa: E402
from esker.zarr import Fields  # noqa: E402

# Time limit in seconds, after which a process counts as hanging.
PATIENCE = 600
KEY = {
    **{"class": "od", "expver": "0001", "stream": "enfo", "date": "20240610", "time": "1200", "type": "pf"},
    **{"levtype": "pl", "levelist": "850", "step": "0", "param": "130", "number": "1"},
}


def keys(store, prefix=""):
    """The keys of a store."""

    async def listed():
        return [key async for key in store.list_prefix(prefix)]

    return asyncio.run(listed())


def names(store, folder):
    """The names below a folder of a store."""

    async def listed():
        return [name async for name in store.list_dir(folder)]

    return asyncio.run(listed())


def test_a_group_is_the_dataset_of_the_engine(store):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("dask")
    kept = forecast(store)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = xarray.open_zarr(Fields(store))
    assert found.t.dims == ("number", "step", "isobaricInhPa", "latitude", "longitude")
    assert found.t.chunks == ((1, 1), (1, 1), (1, 1), (NJ,), (NI,)) and found.t.dtype == "float32"
    xarray.testing.assert_identical(found.load(), xarray.open_dataset(store, engine="esker").load())
    array = zarr.open_group(Fields(store, {"param": "2t"}), mode="r")["t2m"]
    assert array.metadata.dimension_names == ("number", "step", "latitude", "longitude")
    numpy.testing.assert_allclose(array[1, 1].ravel(), kept[6, 2, None], atol=1e-2)


def test_fields_are_retrieved_when_they_are_read(shared, monkeypatch):
    from esker import _cube

    kept, read = forecast(shared), []
    whole = _cube.Cube._decoded
    monkeypatch.setattr(_cube.Cube, "_decoded", lambda *args: read.append(args[1].key) or whole(*args))
    store = Fields(shared, {"param": 130}, chunks={"step": 2})
    array = zarr.open_group(store, mode="r")["t"]
    assert array.shape == (2, 2, 2, NJ, NI) and array.chunks == (1, 2, 1, NJ, NI) and not read
    numpy.testing.assert_allclose(array[0, 1, 0].ravel(), kept[6, 1, 850], atol=1e-2)
    assert [(key["step"], key["number"], key["levelist"]) for key in read] == [
        ("0", "1", "850"),
        ("6", "1", "850"),
    ]


def test_missing_fields_are_nan(store):
    for step, pressure in ((0, 850), (6, 850), (12, 850), (12, 500)):
        store.archive(level(step, pressure)[0])
    store.flush()
    fields = Fields(store, chunks={"step": 2})
    array = zarr.open_group(fields, mode="r")["t"]
    assert numpy.isnan(array[:2, 1]).all() and not numpy.isnan(array[:, 0]).any()
    assert not numpy.isnan(array[2, 1]).any() and array.chunks == (2, 1, NJ, NI)
    # Chunks in which all fields are missing do not exist.
    assert sorted(keys(fields, "t/c")) == ["t/c/0/0/0/0", "t/c/1/0/0/0", "t/c/1/1/0/0"]


def test_keys_and_parts_of_values(shared):
    forecast(shared)
    store = Fields(shared)
    assert {"t", "t2m", "number", "zarr.json", "latitude"} <= set(names(store, ""))
    assert names(store, "t") == ["c", "zarr.json"] and names(store, "t/c/0/1") == ["0", "1"]
    every = keys(store)
    assert len(every) == len(set(every)) and len(keys(store, "t/c/")) == 8

    async def ask():
        prototype = default_buffer_prototype()
        whole, chunk = await store.get("t/c/0/1/1/0/0", prototype), "t/c/1/1/1/0/0"
        part = await store.get("t/c/0/1/1/0/0", prototype, RangeByteRequest(8, 16))
        assert part.to_bytes() == whole.to_bytes()[8:16] and len(whole) == NI * NJ * 4
        sizes = [await store.getsize(key) for key in every]
        assert sizes == [len(await store.get(key, prototype)) for key in every]
        assert await store.exists(chunk) and await store.exists("t/zarr.json")
        for wrong in (
            "t/c/2/0/0/0/0",
            "t/c/0/0/0/0",
            "t/c/00/0/0/0/0",
            "t/c/x/0/0/0/0",
            "u/c/0",
            "c/0",
            "t/c",
        ):
            assert not await store.exists(wrong) and await store.get(wrong, prototype) is None
            with pytest.raises(FileNotFoundError):
                await store.getsize(wrong)
        for refused in (store.set("a", whole), store.delete(chunk)):
            with pytest.raises(PermissionError, match="read-only"):
                await refused

    asyncio.run(ask())
    assert store.with_read_only(True) is store
    with pytest.raises(PermissionError):
        store.with_read_only()


def _mean(store):
    """The mean of all values of t, in a worker."""
    return float(zarr.open_group(store, mode="r")["t"][:].mean())


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_views_pickle(shared, method):
    forecast(shared)
    store = Fields(shared.name)
    again = pickle.loads(pickle.dumps(store))
    assert again == store != Fields(shared.name, {"param": 130}) and str(again) == f"esker://{shared.name}"
    assert pickle.loads(pickle.dumps(Fields(shared))).fields.name == shared.url
    with multiprocessing.get_context(method).Pool(2) as workers:
        assert workers.map(_mean, [store] * 2) == [_mean(again)] * 2


def test_dask(shared):
    xarray = pytest.importorskip("xarray")
    dask = pytest.importorskip("dask")
    kept = forecast(shared)
    found = xarray.open_zarr(Fields(shared), chunks={})
    with dask.config.set(scheduler="processes", num_workers=2):
        mean = found.t.mean("number").sel(step=numpy.timedelta64(6, "h"), isobaricInhPa=500).values
    numpy.testing.assert_allclose(mean.ravel(), (kept[6, 1, 500] + kept[6, 2, 500]) / 2, atol=1e-2)


MEMORY = """
import sys, zarr
import esker
from esker.zarr import Fields

def own():
    with open("/proc/self/status") as status:
        kinds = dict(line.split(":", 1) for line in status)
    return int(kinds["RssAnon"].split()[0]) >> 10

array = zarr.open_group(Fields(sys.argv[1]), mode="r")["t"]
assert array[0].size == 1_000_000, array.shape
before, most = own(), 0
for step in range(40):
    assert array[step].max() > 0
    most = max(most, own())
assert most - before < 64, (before, most)
"""


def test_memory_is_that_of_a_few_fields(shared):
    """160 MB of values, of which one field at a time is read."""
    grid = GRID | {"Ni": 1000, "Nj": 1000, "iDirectionIncrementInDegrees": 0.035}
    grid |= {"jDirectionIncrementInDegrees": 0.02, "longitudeOfLastGridPointInDegrees": 34.965}
    grid |= {"latitudeOfLastGridPointInDegrees": 40.02, "paramId": 130}
    message = esker.make_grib("regular_ll_pl_grib2", grid, numpy.arange(1e6))
    for step in range(40):
        shared.archive(message, KEY | {"step": step})
    shared.flush()
    subprocess.run([sys.executable, "-c", MEMORY, shared.name], check=True, timeout=PATIENCE)


def test_coordinates_of_each_point_are_read_when_needed(shared):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("dask")
    shared.archive(esker.make_grib("reduced_gg_pl_32_grib2", {"paramId": 130}))
    shared.flush()
    store = Fields(shared)
    found = xarray.open_zarr(store)
    assert found.t.dims == ("values",) and found.latitude.dims == ("values",) and "latitude" in found.coords
    assert keys(store, "latitude/") == ["latitude/zarr.json", "latitude/c/0"]
    assert (found.latitude.values == shared.list()[0].latitudes).all()
    assert len(pickle.dumps(store)) < 20_000 < found.longitude.nbytes


def test_a_step_selects_values_accumulated_up_to_it(shared):
    for step in ("24", "0-24", "48"):
        param = {"param": "228" if "-" in step else "167", "levtype": "sfc", "levelist": "", "step": step}
        shared.archive(level(24, param=167)[0], KEY | param)
    shared.flush()
    group = zarr.open_group(Fields(shared, {"step": [24, 48]}), mode="r")
    shapes = {name: array.shape for name, array in group.arrays() if array.ndim > 1}
    # Each key is an array of its own, although all messages are of the same parameter.
    assert list(shapes.values()) == [(2, NJ, NI)] * 2
    assert sorted(numpy.isnan(group[name][1]).all() for name in shapes) == [False, True]


def test_unsuitable_fields_raise_errors_with_the_cause(shared):
    with pytest.raises(KeyError, match="the store has no fields"):
        Fields(shared)
    shared.archive(level(0, 850, 1)[0])
    shared.archive(level(0, 850)[0], {name: KEY[name] for name in KEY if name != "number"})
    shared.flush()
    with pytest.raises(ValueError, match="no number, unlike others"):
        Fields(shared)
    with pytest.raises(ValueError, match=r"chunks of \['level'\]"):
        Fields(shared, {"number": 1}, chunks={"level": 1})
    with pytest.raises(KeyError, match="param=131"):
        Fields(shared, {"param": 131})
    shared.archive(esker.make_grib("reduced_gg_pl_32_grib2", {"paramId": 131}), KEY | {"param": "131"})
    shared.flush()
    with pytest.raises(ValueError, match=r"param=131 is on another grid .* such as param=130, or"):
        Fields(shared, {"number": 1})


def test_requests_expand(shared):
    request = {"step": "0/to/12/by/6", "date": "2024-06-10/to/2024-06-11", "param": "2t/t", "number": "all"}
    expected = {"step": ["0", "6", "12"], "date": ["20240610", "20240611"], "param": ["167", "130"]}
    assert shared.expand(request) == expected | {"number": None} and shared.expand({}) == {}
    with pytest.raises(ValueError, match="one request was expected"):
        shared.expand("step=0\nstep=6")


REQUEST = {"class": "od", "expver": "0001", "stream": "enfo", "date": "20240610", "time": 1200, "type": "pf"}
NUMBER = AxisDefinition(["number"], Chunking.SINGLE_VALUE)
STEPS = AxisDefinition(["step"], Chunking.WHOLE_AXIS)
SFC = ({"levtype": "sfc", "param": 167}, [AxisDefinition(["param"], Chunking.SINGLE_VALUE)])
PL = (
    {"levtype": "pl", "param": "130/131", "levelist": [850, 500]},
    [AxisDefinition(["param", "levelist"], Chunking.SINGLE_VALUE)],
)


def build(store, *parts, number="1/to/2", along=None, fill=None, first=(NUMBER, STEPS)):
    """A view with members and steps, and the given parts on the last axis."""
    builder = SimpleStoreBuilder(store.name)
    for request, axes in parts:
        whole = REQUEST | {"number": number, "step": [6, 0]} | request
        builder.add_part(whole, [*first, *axes], ExtractorType.GRIB)
    if along is not None:
        builder.extend_on_axis(along)
    if fill is not None:
        builder.fill_missing_value(fill)
    return builder.build()


def test_axes_by_definition(shared):
    kept = forecast(shared)
    array = zarr.open_array(build(shared, SFC, PL, along=2), mode="r")
    assert array.shape == (2, 2, 5, NI * NJ) and array.chunks == (1, 2, 1, NI * NJ)
    assert array.dtype == "float32" and array.metadata.dimension_names[2] == "param"
    for number in (0, 1):
        for at, step in enumerate((6, 0)):
            several = array[number, at]
            for place, pressure in enumerate((None, 850, 500)):
                numpy.testing.assert_allclose(several[place], kept[step, number + 1, pressure], atol=1e-2)
            assert numpy.isnan(several[3:]).all()
    filled = zarr.open_array(build(shared, PL, number=2, fill=-1), mode="r")
    assert filled.shape == (1, 2, 4, NI * NJ) and filled.fill_value == -1
    assert (filled[0, :, 2:] == -1).all() and (filled[0, 0, 1] > 0).all()
    again = pickle.loads(pickle.dumps(build(shared, SFC)))
    assert again == build(shared, SFC) and zarr.open_array(again, mode="r")[0, 0, 0, 0] == kept[6, 1, None][0]


def test_equal_views_have_equal_fields(shared):
    forecast(shared)
    assert build(shared, SFC, number=1) == build(shared, SFC, number=1) != build(shared, SFC, number=2)
    assert build(shared, PL) == build(shared, PL)


def test_a_missing_first_field_is_replaced_by_one_that_is_looked_for(shared, monkeypatch):
    for step, pressure in ((0, 500), (6, 850), (6, 500), (12, 850), (12, 500)):
        shared.archive(level(step, pressure)[0])
    shared.flush()
    found, calls = [], {name: getattr(esker.FieldStore, name) for name in ("list", "retrieve")}
    for name, call in calls.items():
        monkeypatch.setattr(
            esker.FieldStore,
            name,
            lambda *args, call=call, **named: found.append(call(*args, **named)) or found[-1],
        )
    assert zarr.open_group(Fields(shared), mode="r")["t"].shape == (3, 2, NJ, NI)
    request = KEY | {"step": [0, 6, 12], "levelist": [850, 500]}
    axes = [AxisDefinition([name], Chunking.SINGLE_VALUE) for name in ("step", "levelist")]
    builder = SimpleStoreBuilder(shared.name)
    builder.add_part(request, axes, ExtractorType.GRIB)
    assert zarr.open_array(builder.build(), mode="r").shape == (3, 2, NJ * NI)
    assert max(map(len, found)) == 1


def test_a_view_of_a_missing_pool_creates_none(tmp_path):
    with pytest.raises(esker.NotFound):
        SimpleStoreBuilder({"spaces": [{"roots": [{"path": str(tmp_path)}]}]})
    assert not list(tmp_path.iterdir())


def test_chunks_of_a_fixed_size(shared):
    kept = forecast(shared)
    pairs = AxisDefinition(["number", "step"], Chunking.FixedSizeChunk(chunkShape=2))
    request, axes = PL
    array = zarr.open_array(build(shared, (request, axes), first=[pairs]), mode="r")
    assert array.shape == (4, 4, NI * NJ) and array.chunks == (2, 1, NI * NJ)
    numpy.testing.assert_allclose(array[3, 1], kept[0, 2, 500], atol=1e-2)
    every = zarr.open_array(build(shared, (request | {"levelist": "all"}, axes)), mode="r")
    assert every.shape == (2, 2, 4, NI * NJ)


@pytest.mark.parametrize(
    ("parts", "options", "why"),
    [
        ([], {}, "has no parts"),
        ([SFC, PL], {}, "extend_on_axis"),
        ([SFC], {"along": 3}, "counted from 0"),
        ([SFC, PL], {"along": 0}, "axis 2: one part has 1 values, another 4"),
        ([PL], {"first": [NUMBER]}, "step: it has several values"),
        ([PL], {"first": [NUMBER, STEPS, STEPS]}, "step: it is in the keys of more than one axis"),
        (
            [SFC, (PL[0], [AxisDefinition(["param", "levelist"], Chunking.WHOLE_AXIS)])],
            {"along": 2},
            "chunking",
        ),
        (
            [(SFC[0], [AxisDefinition(["levelist"], Chunking.SINGLE_VALUE)])],
            {},
            "levelist: the request does not",
        ),
        ([({"levels": 1}, [])], {}, "levels"),
        ([({"param": 1}, [])], {}, "no field of the view"),
        ([(PL[0] | {"param": 1, "levelist": "all"}, PL[1])], {}, "levelist: no field of the request"),
        ([PL], {"first": [NUMBER, AxisDefinition(["step"], Chunking.FixedSizeChunk(3))]}, "chunks of 3"),
    ],
    ids=str,
)
def test_views_that_cannot_be_built(shared, parts, options, why):
    forecast(shared)
    with pytest.raises(Z3fdbError, match=why):
        build(shared, *parts, **options)


def test_configurations_are_those_of_pyfdb(shared, monkeypatch):
    forecast(shared)
    monkeypatch.setenv("ESKER_FIELDS", shared.name)
    for config in (None, {"type": "esker", "store": shared.name}, f"esker://{shared.name}"):
        builder = z3fdb.SimpleStoreBuilder(config)
        builder.add_part(REQUEST | SFC[0] | {"number": 1, "step": 0}, [], ExtractorType.GRIB)
        assert zarr.open_array(builder.build(), mode="r").shape == (NI * NJ,)


@pytest.mark.parametrize("other", OTHER_GRIDS.values(), ids=OTHER_GRIDS)
def test_fields_on_another_grid_of_the_same_shape_are_refused(shared, other):
    shared.archive(on_grid(0, {}))
    shared.archive(on_grid(6, other))
    shared.flush()
    store = pickle.loads(pickle.dumps(Fields(shared)))
    (name,) = {key.partition("/c/")[0] for key in keys(store) if key.endswith("/c/0/0/0")}
    array = zarr.open_group(store, mode="r")[name]
    assert array[0].shape == (NJ, NI)
    with pytest.raises(ValueError, match=r"step=6.* is on another grid .*such as step=0, or .*open_datasets"):
        array[1]
    assert Fields(shared, {"step": 6})
    builder = SimpleStoreBuilder(shared.name)
    axes = [AxisDefinition(["step"], Chunking.SINGLE_VALUE)]
    builder.add_part(shared.list()[0].key | {"step": [0, 6]}, axes, ExtractorType.GRIB)
    view = zarr.open_array(pickle.loads(pickle.dumps(builder.build())), mode="r")
    assert view[0].shape == (NJ * NI,)
    with pytest.raises(ValueError, match=r"step=6.* is on another grid .*such as step=0"):
        view[1]


def test_a_listed_value_that_no_field_has_is_named(shared):
    for at in ((0, 850), (6, 850), (6, 500)):
        shared.archive(level(*at)[0])
    shared.flush()
    with pytest.raises(KeyError, match=r"no field of the request has step=12: .*expect=any"):
        Fields(shared, {"step": [0, 6, 12]})
    for request in ({"step": [0, 6]}, {"step": [0, 6, 12], "expect": "any"}):
        assert zarr.open_group(Fields(shared, request), mode="r")["t"].shape == (2, 2, NJ, NI)

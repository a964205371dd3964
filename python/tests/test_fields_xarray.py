"""Fields as datasets of xarray."""

import pickle
import subprocess
import sys

import pytest
from made import NI, NJ, OTHER_GRIDS, forecast, level, on_grid

import esker

#: A field of the same parameter without a member.
CONTROL = {
    **{"class": "od", "expver": "0001", "stream": "enfo", "date": "20240610", "time": "1200", "type": "cf"},
    **{"levtype": "pl", "levelist": "850", "step": "0", "param": "130"},
}

numpy = pytest.importorskip("numpy")
xarray = pytest.importorskip("xarray")


def test_axes_become_dimensions(shared):
    kept = forecast(shared)
    found = xarray.open_dataset(f"esker://{shared.name.removeprefix('esker:')}", engine="esker")
    assert set(found.data_vars) == {"t", "t2m"}
    assert found.t.dims == ("number", "step", "isobaricInhPa", "latitude", "longitude")
    assert found.t2m.dims == ("number", "step", "latitude", "longitude")
    assert found.t.shape == (2, 2, 2, NJ, NI) and found.t.dtype == "float32"
    assert found.t.attrs["units"] == "K" and found.t.attrs["GRIB_paramId"] == 130
    assert found.t.attrs["long_name"] == "Temperature"
    assert list(found.isobaricInhPa.values) == [850, 500] and list(found.number.values) == [1, 2]
    assert found.time.values == numpy.datetime64("2024-06-10T12:00")
    assert list(found.step.values) == [numpy.timedelta64(0, "h"), numpy.timedelta64(6, "h")]
    assert found.valid_time.values[1] == numpy.datetime64("2024-06-10T18:00")
    assert list(found.latitude.values) == [60, 55, 50, 45, 40] and found.longitude.values[-1] == 35
    for (step, member, pressure), values in kept.items():
        where = {"step": numpy.timedelta64(step, "h"), "number": member}
        one = found.t.sel(**where, isobaricInhPa=pressure) if pressure else found.t2m.sel(**where)
        numpy.testing.assert_allclose(one.values.ravel(), values, atol=1e-2)


def test_only_requested_fields_are_read(shared, monkeypatch):
    kept = forecast(shared)
    read = []
    from esker import xarray_backend

    whole = xarray_backend.FieldArray._values
    monkeypatch.setattr(
        xarray_backend.FieldArray, "_values", lambda *args: read.append(args[1].key) or whole(*args)
    )
    request = {"param": 130, "levelist": 850}
    found = xarray.open_dataset(shared, engine="esker", request=request)
    assert found.t.dims == ("number", "step", "latitude", "longitude") and found.isobaricInhPa == 850
    assert not read
    part = found.t.isel(number=1, step=[1], latitude=slice(1, 3), longitude=[0, 7]).values
    assert part.shape == (1, 2, 2) and [key["step"] for key in read] == ["6"]
    numpy.testing.assert_allclose(part[0], kept[6, 2, 850].reshape(NJ, NI)[1:3][:, [0, 7]], atol=1e-2)


def test_missing_fields_are_nan(shared):
    for step, pressure in ((0, 850), (6, 850), (6, 500)):
        shared.archive(level(step, pressure)[0])
    shared.flush()
    found = xarray.open_dataset(shared, engine="esker")
    assert numpy.isnan(found.t.isel(step=0).sel(isobaricInhPa=500)).all()
    assert not numpy.isnan(found.t.isel(step=1)).any()


def test_a_listed_value_that_no_field_has_is_named(shared):
    for at in ((0, 850), (6, 850), (6, 500)):
        shared.archive(level(*at)[0])
    shared.flush()
    whole = dict(shared.list()[0].key) | {"step": [0, 6, 12], "levelist": [850, 500]}
    for request in ({"step": [0, 6, 12]}, whole):
        for opened in (xarray.open_dataset, esker.open_datasets):
            with pytest.raises(KeyError, match=r"no field of the request has step=12: .*expect=any"):
                opened(shared, request=request)
        found = xarray.open_dataset(shared, request={**request, "expect": "any"})
        assert found.t.shape == (2, 2, NJ, NI) and numpy.isnan(found.t.values).any()


def test_fields_with_different_axes_are_an_error_that_names_the_axis(shared):
    for member in (1, 2):
        shared.archive(level(0, 850, member)[0])
    shared.archive(level(0, 850)[0], CONTROL)
    shared.flush()
    with pytest.raises(ValueError, match="param=130 has no number, unlike other fields"):
        xarray.open_dataset(shared, engine="esker")


def test_a_step_selects_values_accumulated_up_to_it(shared):
    message = level(24, param=167)[0]
    shared.archive(message, {**CONTROL, "param": "167", "levtype": "sfc", "levelist": "", "step": "0-24"})
    shared.flush()
    found = xarray.open_dataset(shared, engine="esker", request={"param": 167, "step": 24})
    assert found.step == numpy.timedelta64(24, "h")
    assert [field.key["step"] for field in shared.retrieve({"step": 24})] == ["0-24"]
    assert not len(shared.list({"step": 24}))


def test_requests_of_the_url(shared):
    forecast(shared)
    url = f"esker://{shared.name.removeprefix('esker:')}?param=167&step=6"
    found = xarray.open_dataset(url, engine="esker")
    assert found.t2m.dims == ("number", "latitude", "longitude")
    with pytest.raises(KeyError, match="param=1"):
        xarray.open_dataset(url.replace("167", "1"), engine="esker")
    with pytest.raises(ValueError, match="esker://"):
        xarray.open_dataset("other://x/y", engine="esker")
    with pytest.raises(ValueError, match="has step more than once"):
        xarray.open_dataset(f"{url}&step=0", engine="esker")
    with pytest.raises(ValueError, match="levelist lacks a value"):
        xarray.open_dataset(f"{url}&levelist=", engine="esker")


def test_urls_need_no_engine(shared):
    forecast(shared)
    url = f"esker://{shared.name.removeprefix('esker:')}"
    found = xarray.open_dataset(url)
    assert set(found.data_vars) == {"t", "t2m"} and set(xarray.open_dataset(f"{url}?param=2t")) == {"t2m"}
    assert set(xarray.open_dataset(shared)) == {"t", "t2m"}
    guess = xarray.backends.list_engines()["esker"].guess_can_open
    assert not any(map(guess, ("esker://tank/home/table.nc", "esker:///tank/home/table.nc", "table.nc", 3)))
    for missing, why in (
        (f"{url}s", "no container"),
        ("esker://no-pool/c", "no pool"),
        (f"{url}?a=b", "no name a"),
    ):
        with pytest.raises((OSError, ValueError), match=why):
            xarray.open_dataset(missing)


def test_urls_of_zarr_need_no_engine(native):
    pytest.importorskip("zarr", minversion="3.1")
    from esker.zarr import Store

    name = f"{native.pool.name}/{native.label}"
    kept = xarray.Dataset({"a": (("x", "y"), numpy.arange(6.0).reshape(2, 3)), "b": ("y", [1, 2, 3])})
    kept.to_zarr(Store(name), consolidated=False)
    url = f"esker://{name.removeprefix('esker:')}"
    xarray.testing.assert_identical(xarray.open_dataset(url).load(), kept)
    assert set(xarray.open_dataset(url, drop_variables="a")) == {"b"}
    assert xarray.open_dataset(url, chunks={}).a.chunks == ((2,), (3,))


def test_missing_packages_are_named(tmp_path):
    hidden = tmp_path / "zarr"
    hidden.mkdir()
    (hidden / "__init__.py").write_text("__version__ = '2.18'")
    for module in ("zarr", "z3fdb"):
        code = f"import sys; sys.path.insert(0, sys.argv[1]); import esker.{module}"
        run = subprocess.run(
            [sys.executable, "-c", code, tmp_path], capture_output=True, text=True, timeout=600
        )
        assert "needs zarr 3, which is missing or too old" in run.stderr and "esker[zarr]" in run.stderr


def test_dask_and_pickle(shared):
    pytest.importorskip("dask")
    kept = forecast(shared)
    found = xarray.open_dataset(shared, engine="esker", chunks={})
    mean = found.t.mean("number").sel(step=numpy.timedelta64(6, "h"), isobaricInhPa=500).values
    numpy.testing.assert_allclose(mean.ravel(), (kept[6, 1, 500] + kept[6, 2, 500]) / 2, atol=1e-2)
    lazy = pickle.loads(pickle.dumps(xarray.open_dataset(shared, engine="esker")))
    assert lazy.t.shape == (2, 2, 2, NJ, NI)
    assert float(lazy.t[0, 0, 0, 0, 0]) == pytest.approx(kept[0, 1, 850][0], abs=1e-2)


def test_other_grids(shared):
    shared.archive(esker.make_grib("reduced_gg_pl_32_grib2", {"paramId": 130}))
    shared.flush()
    found = xarray.open_dataset(shared, engine="esker")
    assert found.t.dims == ("values",) and found.latitude.dims == ("values",)
    assert found.t.size == found.latitude.size == found.t.values.size


@pytest.mark.parametrize("other", OTHER_GRIDS.values(), ids=OTHER_GRIDS)
def test_fields_on_another_grid_of_the_same_shape_are_refused(shared, other):
    shared.archive(on_grid(0, {}))
    shared.archive(on_grid(6, other))
    shared.flush()
    found = xarray.open_dataset(shared, engine="esker")
    variable = next(iter(found.data_vars.values()))
    assert variable.isel(step=0).shape == (NJ, NI) and not numpy.isnan(variable.isel(step=0)).any()
    with pytest.raises(ValueError, match=r"step=6.* is on another grid \(regular_ll, 5 x 8 .*open_datasets"):
        variable.isel(step=1).load()
    with pytest.raises(ValueError, match="such as step=0, or"):
        variable.load()
    # The request that the error proposes works.
    assert not numpy.isnan(
        next(iter(xarray.open_dataset(shared, request={"step": 0}).data_vars.values()))
    ).any()
    one, two = esker.open_datasets(shared)
    for dataset, step in ((one, 0), (two, 6)):
        (values,) = dataset.data_vars.values()
        numpy.testing.assert_allclose(values.values.ravel(), numpy.arange(NI * NJ) + 1000 * step, atol=1e-2)
        assert dataset.step == numpy.timedelta64(step, "h")
    same = all(one[name].identical(two[name]) for name in ("latitude", "longitude"))
    assert not same and two.latitude[0] == other.get("latitudeOfFirstGridPointInDegrees", 60)


def test_both_editions_of_grib_describe_one_grid(shared):
    shared.archive(on_grid(0, {}))
    shared.archive(on_grid(6, {}, "regular_ll_sfc_grib1"))
    shared.flush()
    (dataset,) = esker.open_datasets(shared)
    (values,) = dataset.load().data_vars.values()
    assert values.shape == (2, NJ, NI) and not numpy.isnan(values).any()


def test_parameters_on_several_grids_are_datasets_of_their_own(shared):
    shared.archive(on_grid(0, {}))
    shared.archive(esker.make_grib("reduced_gg_pl_32_grib2", {"paramId": 130}))
    shared.flush()
    name = shared.name.removeprefix("esker:")
    with pytest.raises(ValueError, match=r"is on another grid \(.* than .*esker.open_datasets"):
        xarray.open_dataset(f"esker://{name}")
    one, two = sorted(esker.open_datasets(f"esker://{name}"), key=lambda dataset: "values" in dataset.dims)
    assert set(one.dims) == {"latitude", "longitude"} and set(two.data_vars) == {"t"}
    assert len(esker.open_datasets(shared, {"param": 130})) == 1
    with pytest.raises(KeyError, match="param=1"):
        esker.open_datasets(shared, "param=1")


@pytest.mark.parametrize("param", [130, 167, 165, 166, 34, 151, 260015])
def test_variables_have_the_names_of_cfgrib(shared, tmp_path, param):
    pytest.importorskip("cfgrib")
    pytest.importorskip("zarr", minversion="3.1")
    from esker.zarr import Fields

    message, _ = level(6, None, 1, param)
    (tmp_path / "one.grib").write_bytes(message)
    shared.archive(message)
    shared.flush()
    theirs = xarray.open_dataset(tmp_path / "one.grib", engine="cfgrib", backend_kwargs={"indexpath": ""})
    (name,) = theirs.data_vars
    for ours in (xarray.open_dataset(shared, engine="esker"), xarray.open_zarr(Fields(shared), chunks=None)):
        assert list(ours.data_vars) == [name]
        about = theirs[name].attrs
        for attribute in ("GRIB_cfVarName", "GRIB_shortName", "GRIB_paramId"):
            assert ours[name].attrs.get(attribute) == about.get(attribute), attribute

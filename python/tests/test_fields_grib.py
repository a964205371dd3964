"""Fields of GRIB: keys and values by ecCodes, and xarray. Each test needs ecCodes with its samples."""

import pickle

import pytest

import esker

from test_fields import shared, store  # noqa: F401

try:
    esker.make_grib("regular_ll_sfc_grib2", {})
except esker.Error as error:
    pytest.skip(f"skipped: {error}", allow_module_level=True)

numpy = pytest.importorskip("numpy")

NI, NJ = 8, 5
MARS = {"class": "od", "stream": "enfo", "type": "pf", "expver": "0001"}
GRID = {
    "Ni": NI,
    "Nj": NJ,
    "latitudeOfFirstGridPointInDegrees": 60.0,
    "latitudeOfLastGridPointInDegrees": 40.0,
    "longitudeOfFirstGridPointInDegrees": 0.0,
    "longitudeOfLastGridPointInDegrees": 35.0,
    "iDirectionIncrementInDegrees": 5.0,
    "jDirectionIncrementInDegrees": 5.0,
}


def level(step, pressure=None, member=1, param=130, date=20240610):
    """A message whose values say what it is, and the values."""
    where = {"typeOfLevel": "isobaricInhPa", "level": pressure} if pressure else {}
    keys = {"setLocalDefinition": 1, **MARS} if False else {}
    keys |= {"productDefinitionTemplateNumber": 1, **where, "paramId": param, "date": date, "time": 1200}
    keys |= {"stepRange": str(step), "number": member, **GRID, "bitsPerValue": 24}
    values = numpy.arange(NI * NJ) + 1000.0 * step + (pressure or 0) + 0.5 * member
    return esker.make_grib("regular_ll_pl_grib2" if pressure else "regular_ll_sfc_grib2", keys, values), values


def forecast(store):
    """Archive a small forecast: t on two levels and the temperature near the ground, of two steps and members."""
    kept = {}
    for step in (0, 6):
        for member in (1, 2):
            for pressure in (850, 500):
                message, kept[step, member, pressure] = level(step, pressure, member)
                assert store.archive(message) == 1
            message, kept[step, member, None] = level(step, None, member, 167)
            store.archive(message)
    store.flush()
    return kept


def test_keys_and_values_come_from_the_message(store):  # noqa: F811
    message, values = level(6, 850)
    store.archive(message + level(6, 500)[0])
    store.flush()
    [field] = store.retrieve({"levelist": 850})
    assert field.data == message
    assert field.key["param"] == "130" and field.key["step"] == "6" and field.key["date"] == "20240610"
    assert field.values.dtype == "float64" and field.values.shape == (NI * NJ,)
    numpy.testing.assert_allclose(field.values, values, atol=1e-3)
    assert field.latitudes[0] == 60 and field.longitudes[1] == 5
    assert field.metadata("shortName") == "t"
    assert field.metadata("units", "nosuchkey") == {"units": "K", "nosuchkey": None}


def test_messages_without_labels_are_filed_as_unknown(store):  # noqa: F811
    message = esker.make_grib("regular_ll_sfc_grib2", {"centre": "lfpw", "paramId": 167})
    store.archive(message)
    store.flush()
    [field] = store.list()
    assert {field.key["class"], field.key["stream"], field.key["type"]} <= {"unknown", "fc", "od"}


def test_missing_values_are_nan(store):  # noqa: F811
    values = [1.0, 9999.0, float("nan")] + [2.0] * (NI * NJ - 3)
    store.archive(esker.make_grib("regular_ll_sfc_grib2", GRID, values))
    store.flush()
    got = store.list()[0].values
    assert numpy.isnan(got[2]) and numpy.isnan(got).sum() == 1 and abs(got[1] - 9999) < 1


def test_what_is_good_is_kept_beside_damage(store, tmp_path):  # noqa: F811
    path, (one, _), (two, _) = tmp_path / "damaged.grib", level(0, 850), level(6, 850)
    path.write_bytes(one + one[:-50] + two)
    with pytest.raises(ValueError, match=rf"message 2 at byte {len(one)}.*2 other fields were archived"):
        store.archive(path)
    store.flush()
    assert store.axes()["step"] == ["0", "6"]
    with pytest.raises(ValueError, match="no GRIB message"):
        store.archive(b"nothing of the kind")


def test_files_and_objects(store, tmp_path):  # noqa: F811
    path, (one, _), (two, _) = tmp_path / "two.grib", level(0, 850), level(6, 850)
    path.write_bytes(one + two)
    assert store.archive(path) == 2
    with open(path, "rb") as file:
        assert store.archive(file) == 2
    store.flush()
    assert store.retrieve({"step": [6, 0]}).read() == two + one


class TestXarray:
    """The backend engine."""

    xarray = pytest.importorskip("xarray")

    def test_axes_become_dimensions(self, shared):  # noqa: F811
        kept = forecast(shared)
        found = self.xarray.open_dataset(f"esker://{shared.name.removeprefix('esker:')}", engine="esker")
        assert set(found.data_vars) == {"t", "2t"}
        assert found.t.dims == ("number", "step", "isobaricInhPa", "latitude", "longitude")
        assert found["2t"].dims == ("number", "step", "latitude", "longitude")
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
            one = found.t.sel(**where, isobaricInhPa=pressure) if pressure else found["2t"].sel(**where)
            numpy.testing.assert_allclose(one.values.ravel(), values, atol=1e-2)

    def test_only_what_is_asked_for_is_read(self, shared, monkeypatch):  # noqa: F811
        kept = forecast(shared)
        read = []
        from esker import xarray_backend

        whole = xarray_backend.FieldArray._values
        monkeypatch.setattr(
            xarray_backend.FieldArray, "_values", lambda *args: read.append(args[1].key) or whole(*args)
        )
        request = {"param": 130, "levelist": 850}
        found = self.xarray.open_dataset(shared, engine="esker", request=request)
        assert found.t.dims == ("number", "step", "latitude", "longitude") and found.isobaricInhPa == 850
        assert not read
        part = found.t.isel(number=1, step=[1], latitude=slice(1, 3), longitude=[0, 7]).values
        assert part.shape == (1, 2, 2) and [key["step"] for key in read] == ["6"]
        numpy.testing.assert_allclose(part[0], kept[6, 2, 850].reshape(NJ, NI)[1:3][:, [0, 7]], atol=1e-2)

    def test_what_is_not_there_is_nan(self, shared):  # noqa: F811
        for step, pressure in ((0, 850), (6, 850), (6, 500)):
            shared.archive(level(step, pressure)[0])
        shared.flush()
        found = self.xarray.open_dataset(shared, engine="esker")
        assert numpy.isnan(found.t.isel(step=0).sel(isobaricInhPa=500)).all()
        assert not numpy.isnan(found.t.isel(step=1)).any()

    def test_requests_of_the_url(self, shared):  # noqa: F811
        forecast(shared)
        url = f"esker://{shared.name.removeprefix('esker:')}?param=167&step=6"
        assert self.xarray.open_dataset(url)["2t"].dims == ("number", "latitude", "longitude")
        with pytest.raises(KeyError, match="param=1"):
            self.xarray.open_dataset(url.replace("167", "1"), engine="esker")
        with pytest.raises(ValueError, match="esker://"):
            self.xarray.open_dataset("other://x/y", engine="esker")

    def test_dask_and_pickle(self, shared):  # noqa: F811
        pytest.importorskip("dask")
        kept = forecast(shared)
        found = self.xarray.open_dataset(shared, engine="esker", chunks={})
        mean = found.t.mean("number").sel(step=numpy.timedelta64(6, "h"), isobaricInhPa=500).values
        numpy.testing.assert_allclose(
            mean.ravel(), (kept[6, 1, 500] + kept[6, 2, 500]) / 2, atol=1e-2
        )
        lazy = pickle.loads(pickle.dumps(self.xarray.open_dataset(shared, engine="esker")))
        assert lazy.t.shape == (2, 2, 2, NJ, NI)
        assert float(lazy.t[0, 0, 0, 0, 0]) == pytest.approx(kept[0, 1, 850][0], abs=1e-2)

    def test_other_grids(self, shared):  # noqa: F811
        shared.archive(esker.make_grib("reduced_gg_pl_32_grib2", {"paramId": 130}))
        shared.flush()
        found = self.xarray.open_dataset(shared, engine="esker")
        assert found.t.dims == ("values",) and found.latitude.dims == ("values",)
        assert found.t.size == found.latitude.size == found.t.values.size

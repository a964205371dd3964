"""Fields of GRIB: keys and values by ecCodes."""

import types

import pytest
from made import GRID, NI, NJ, level

import esker

numpy = pytest.importorskip("numpy")


def test_keys_and_values_come_from_the_message(store):
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


def test_messages_without_labels_are_archived_as_unknown(store):
    keys = types.MappingProxyType({"centre": "lfpw", "paramId": 167})  # any mapping
    message = esker.make_grib("regular_ll_sfc_grib2", keys)
    store.archive(message)
    store.flush()
    [field] = store.list()
    assert field.key["class"] == field.key["stream"] == field.key["type"] == "unknown"


def test_missing_values_are_nan(store):
    values = [1.0, 9999.0, float("nan")] + [2.0] * (NI * NJ - 3)
    store.archive(esker.make_grib("regular_ll_sfc_grib2", GRID, values))
    store.flush()
    got = store.list()[0].values
    assert numpy.isnan(got[2]) and numpy.isnan(got).sum() == 1 and abs(got[1] - 9999) < 1


def test_undamaged_messages_are_archived_despite_damage(store, tmp_path):
    path, (one, _), (two, _) = tmp_path / "damaged.grib", level(0, 850), level(6, 850)
    path.write_bytes(one + one[:-50] + two)
    with pytest.raises(ValueError, match=rf"message 2 at byte {len(one)}.*2 other fields were archived"):
        store.archive(path)
    store.flush()
    assert store.axes()["step"] == ["0", "6"]
    with pytest.raises(ValueError, match="no GRIB message"):
        store.archive(b"nothing of the kind")


def test_files_and_objects(store, tmp_path):
    path, (one, _), (two, _) = tmp_path / "two.grib", level(0, 850), level(6, 850)
    path.write_bytes(one + two)
    assert store.archive(path) == 2
    with open(path, "rb") as file:
        assert store.archive(file) == 2
    store.flush()
    assert store.retrieve({"step": [6, 0]}).read() == two + one

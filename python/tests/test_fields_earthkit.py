"""Fields as a source of earthkit-data."""

import pytest
from made import forecast

numpy = pytest.importorskip("numpy")
data = pytest.importorskip("earthkit.data")


def test_fields_are_in_the_order_of_the_request(shared):
    kept = forecast(shared)
    request = {"param": 130, "levelist": [500, 850], "number": 2}
    found = data.from_source("esker", shared.name, request, step=[6, 0]).to_fieldlist(read_all=True)
    wanted = [kept[step, 2, level] for level in (500, 850) for step in (6, 0)]
    assert len(found) == len(wanted)
    for field, values in zip(found, wanted):
        numpy.testing.assert_allclose(field.to_numpy().ravel(), values, atol=1e-2)
    with pytest.raises(KeyError, match="step=7"):
        data.from_source("esker", shared, request | {"step": 7})

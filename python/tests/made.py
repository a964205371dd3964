"""Messages created by ecCodes. Tests that need them are skipped if ecCodes or its samples are missing."""

import pytest

import esker

try:
    esker.make_grib("regular_ll_sfc_grib2", {})
except esker.Error as error:
    pytest.skip(f"skipped: {error}", allow_module_level=True)

numpy = pytest.importorskip("numpy")

NI, NJ = 8, 5
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


LABELS = {"setLocalDefinition": 1, "class": "od", "stream": "enfo", "type": "pf"}


def level(step, pressure=None, member=1, param=130):
    """A message of an ensemble member with distinguishable values, and these values."""
    keys = {"productDefinitionTemplateNumber": 1, **LABELS, "date": 20240610, "time": 1200}
    keys |= {"typeOfLevel": "isobaricInhPa", "level": pressure} if pressure else {}
    keys |= {"paramId": param, "stepRange": str(step), "number": member, **GRID, "bitsPerValue": 24}
    values = numpy.arange(NI * NJ) + 1000.0 * step + (pressure or 0) + 0.5 * member
    sample = "regular_ll_pl_grib2" if pressure else "regular_ll_sfc_grib2"
    return esker.make_grib(sample, keys, values), values


def forecast(store):
    """Archive a small forecast: t on two levels and near the ground, for two steps and two members."""
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


#: Changes of GRID that leave its shape: from south to north, and cut elsewhere, as by a moving nest.
OTHER_GRIDS = {
    "south to north": {
        "jScansPositively": 1,
        "latitudeOfFirstGridPointInDegrees": 40.0,
        "latitudeOfLastGridPointInDegrees": 60.0,
    },
    "further south": {"latitudeOfFirstGridPointInDegrees": 30.0, "latitudeOfLastGridPointInDegrees": 10.0},
    "further east": {"longitudeOfFirstGridPointInDegrees": 5.0, "longitudeOfLastGridPointInDegrees": 40.0},
}


def on_grid(step, changes, sample="regular_ll_sfc_grib2"):
    """A message of t2m at a step on a changed grid, whose values tell the step."""
    keys = {"setLocalDefinition": 1, "class": "od", "stream": "oper", "type": "fc", "date": 20240610}
    keys |= {"time": 0, "paramId": 167, "stepRange": str(step), **GRID, **changes, "bitsPerValue": 24}
    return esker.make_grib(sample, keys, numpy.arange(NI * NJ) + 1000.0 * step)

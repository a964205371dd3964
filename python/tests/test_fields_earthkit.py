"""Fields as a source and a target of earthkit-data."""

import pytest
from made import forecast, level

import esker

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


@pytest.mark.parametrize(
    "options", [{}, {"lazy": True}, {"lazy": False}, {"read_all": True}, {"stream": True}]
)
def test_options_are_not_names_of_the_request(shared, options):
    kept = forecast(shared)
    found = data.from_source("esker", shared.name, {"param": 130, "number": 2}, step=[6, 0], **options)
    for _ in range(2):
        # A stream has no length, for which list() would ask.
        fields = [field for field in found.to_fieldlist()]
        assert len(fields) == 4
        numpy.testing.assert_allclose(fields[0].to_numpy().ravel(), kept[6, 2, 500], atol=1e-2)


def test_fields_are_a_list_that_reads_used_fields_only(shared, monkeypatch):
    forecast(shared)
    from esker import earthkit_source

    read = []
    whole = earthkit_source.StoredFields._getitem
    monkeypatch.setattr(
        earthkit_source.StoredFields, "_getitem", lambda *args: read.append(args[1]) or whole(*args)
    )
    found = data.from_source("esker", shared, param=130, number=1).to_fieldlist()
    assert len(found) == 4 and not read
    assert found[-1].get("vertical.level") in (500, 850) and len(read) == 1
    assert len(found.ls()) == 4
    assert len(found.sel({"vertical.level": 500})) == len(found[:2]) == 2
    dataset = found.to_xarray()
    assert dataset["t"].size == found.to_numpy().size


def test_a_stream_excludes_reading_all_at_once(shared):
    with pytest.raises(ValueError, match="stream=True reads field by field"):
        data.from_source("esker", shared, param=130, stream=True, read_all=True)


@pytest.fixture
def messages(tmp_path):
    """Two messages in a file, and the file as earthkit reads it."""
    path, made = tmp_path / "two.grib", [level(step, 850)[0] for step in (0, 6)]
    path.write_bytes(b"".join(made))
    return made, data.from_source("file", str(path)).to_fieldlist()


def test_fields_are_written_to_a_store(shared, messages, monkeypatch):
    made, fields = messages
    fields.to_target("esker", shared.name)
    assert [field.data for field in shared.list()] == made
    data.to_target("esker", store=shared, data=fields[1])
    assert len(shared.list(masked=True)) == 1 and shared.pending == (0, 0)
    found = data.from_source("esker", shared.name, step=[6]).to_fieldlist(read_all=True)
    numpy.testing.assert_allclose(found[0].to_numpy(), fields[1].to_numpy())
    monkeypatch.delenv("ESKER_FIELDS", raising=False)
    with pytest.raises(TypeError, match="ESKER_FIELDS"):
        fields.to_target("esker")
    monkeypatch.setenv("ESKER_FIELDS", shared.name)
    fields[0].to_target("esker")
    assert len(shared.list(masked=True)) == 2


def test_the_target_writes_to_the_configured_store(shared, messages, monkeypatch):
    import esker.earthkit_target

    monkeypatch.delenv("ESKER_FIELDS", raising=False)
    monkeypatch.setattr(esker.earthkit_target, "configured_fields", lambda: shared.name)
    messages[1].to_target("esker")
    assert len(shared.list()) == 2


def test_an_exception_discards_written_fields(shared, messages):
    from esker.earthkit_target import EskerTarget

    with pytest.raises(RuntimeError), EskerTarget(shared) as target:
        target.write(messages[1][0])
        raise RuntimeError
    assert shared.pending == (0, 0) and len(shared.list()) == 0
    with EskerTarget(shared.name) as target:
        target.write(messages[1][0])
        target.flush()
        assert len(shared.list()) == 1
    assert target.closed
    with pytest.raises(ValueError, match="closed"):
        target.write(messages[1][0])


def test_the_target_for_fdb_takes_the_interface_of_pyfdb(shared, messages):
    from esker import pyfdb

    messages[1].to_target("fdb", fdb=pyfdb.FDB(shared.name))
    assert [field.data for field in shared.list()] == messages[0]


def test_a_closed_target_keeps_a_store_that_it_was_given(shared, messages):
    messages[1].to_target("esker", shared)
    assert len(shared.list()) == 2 and isinstance(shared, esker.FieldStore)

"""Field commands of the command line from Python: adopt, explain, status, dump, move."""

import asyncio
import itertools

import pytest
from test_fields import KEY, fill

import esker

_numbers = itertools.count()
DATABASE = {name: KEY[name] for name in ("class", "expver", "stream", "date", "time", "domain")}


@pytest.fixture
def other(shared):
    """The name of a second store on the pool of `shared`, which does not exist yet."""
    pool = shared.name.rsplit("/", 1)[0]
    label = f"other{next(_numbers)}"
    yield f"{pool}/{label}"
    esker.Pool(pool).destroy_container(label, force=True)


def test_a_key_is_explained(store):
    explained = store.explain(KEY | {"param": "2t", "step": "024"})
    assert explained["database"] == DATABASE
    assert explained["index"] | explained["datum"] | DATABASE == KEY | {"step": "24"}
    assert explained["rule"].startswith("[class") and explained["line"] > 1
    assert store.schema.splitlines()[explained["line"] - 1].strip()
    with pytest.raises(ValueError, match="date is missing"):
        store.explain({"class": "rd", "stream": "oper"})


def test_fields_know_the_levels_of_their_keys(store):
    fill(store, steps=[0])
    database, index, datum = store.list({"param": 167})[0].levels
    assert (database, index["type"], datum["param"]) == (DATABASE, "fc", "167")
    assert database | index | datum == KEY


def test_status_counts_by_database_and_by_index(store):
    fill(store)
    store.archive(b"a level", KEY | {"levtype": "pl", "levelist": 500})
    store.archive(b"another day", KEY | {"date": "20240611"})
    store.flush()
    days = store.status()
    assert [(row["database"]["date"], row["fields"], row["bytes"]) for row in days] == [
        ("20240610", 7, 37),
        ("20240611", 1, 11),
    ]
    rows = store.status({"date": "20240610"}, indexes=True)
    assert sorted((row["index"]["levtype"], row["fields"]) for row in rows) == [("pl", 1), ("sfc", 6)]
    assert all(row["database"] == DATABASE for row in rows)
    assert store.status({"step": 99}) == []


def test_empty_values_are_on_the_axes_if_wanted(store):
    fill(store, steps=[0], params=[167])
    assert "levelist" not in store.axes()
    assert store.axes(empty=True)["levelist"] == [""]
    store.archive(b"a level", KEY | {"levtype": "pl", "levelist": 500})
    store.flush()
    assert store.axes(empty=True)["levelist"] == ["500", ""]


def test_a_dump_has_masked_fields(store):
    fill(store, steps=[0])
    fill(store, steps=[0], params=[167])
    found = store.dump({"param": [167]})
    assert [len(found[state]) for state in ("current", "masked")] == [1, 1]
    assert found["masked"][0].key == found["current"][0].key == KEY
    assert found["masked"][0].archived < found["current"][0].archived


def test_fields_move(shared, other):
    fill(shared)
    fill(shared, steps=[0])
    with pytest.raises(ValueError, match="name the whole database"):
        shared.move({"class": "rd"}, other, doit=True)
    wanted = DATABASE | {"step": [0, 1]}
    counts = {"fields": 4, "bytes": 20, "there": 0, "left": 0}
    assert shared.move(wanted, other) == counts
    with pytest.raises(KeyError):
        esker.FieldStore(other, "r")
    assert shared.move(wanted, other, doit=True, keep=True) == counts
    assert len(shared.list()) == 6
    moved = esker.FieldStore(other)
    assert [field.data for field in moved.list()] == [b"0 167", b"0 168", b"1 167", b"1 168"]
    assert moved.schema == shared.schema
    assert shared.move(wanted, moved, doit=True, workers=1) == counts | {"there": 4}
    assert len(shared.list()) == 2 and len(shared.list(masked=True)) == 0
    with pytest.raises(ValueError, match="already in"):
        moved.move(wanted, moved, doit=True)
    with pytest.raises(TypeError):
        moved.move(wanted, 7)


def test_files_are_adopted(store, tmp_path):
    made = pytest.importorskip("made")
    (one, _), (two, _) = made.level(0, 850), made.level(6, 850)
    path = tmp_path / "forecast.grib"
    path.write_bytes(one + two)
    assert store.keys(path) == store.keys(one + two)
    assert [key["step"] for key in store.keys(path)] == ["0", "6"]
    assert store.pending == (0, 0)
    assert store.adopt(path, set={"expver": "test"}) == 2
    store.flush()
    [field] = store.retrieve({"step": 6})
    assert field.adopted == (str(path), len(one)) and field.read() == two
    assert field.key == store.keys(two)[0] | {"expver": "test"}
    assert store.stats()["adopted"] == 2
    path.write_bytes(one[:-20] + two)
    with pytest.raises(ValueError, match=r"message 1 at byte 0.*1 other"):
        store.adopt(path)
    with pytest.raises(FileNotFoundError):
        store.adopt(tmp_path / "none.grib")


def test_field_commands_are_awaitable(shared, other):
    fill(shared)

    async def work():
        rows = await shared.astatus()
        moved = await shared.amove(DATABASE, other, doit=True)
        return rows[0]["fields"], moved["fields"], len((await shared.adump())["current"])

    assert asyncio.run(work()) == (6, 6, 0)

"""DAOS's Python interface over Esker."""

import multiprocessing
import subprocess
import sys

import pytest

import esker
import pydaos

CITIES = {"Barcelona": "Camp Nou", "London": "Wembley"}


@pytest.fixture
def cont(container):
    """A container on each backend, opened by pool and container."""
    return pydaos.DCont(container.pool.name, container.label)


def test_a_dictionary(cont):
    dd = cont.dict("stadium", CITIES)
    dd["Milano"] = "San Siro"
    dd.put("Rio", "Maracan\u00e3".encode())
    assert dd["Milano"] == dd.get("Milano") == b"San Siro" and dd["Rio"].decode() == "Maracan\u00e3"
    assert len(dd) == 4 and dd and "London" in dd and "Paris" not in dd
    assert sorted(dd) == ["Barcelona", "London", "Milano", "Rio"]
    assert (str(dd), dd.name) == ("stadium", "stadium") and repr(dd) == f"[{dd.hi:#x}:{dd.lo:#x}]"
    with pytest.raises(KeyError, match="Paris"):
        dd["Paris"]


def test_items_in_bulk(cont):
    dd = cont.dict("stadium")
    dd.bput({f"city {number}": b"%d" % number for number in range(100)})
    asked = {"city 7": None, "nowhere": "old", b"city 99": None}
    assert dd.bget(asked) is asked
    assert asked == {"city 7": b"7", "nowhere": None, b"city 99": b"99"}
    assert dd.dump() == {f"city {number}": b"%d" % number for number in range(100)}
    assert dd.bget(None) is None and dd.bput(None) is None and dd.bget({}, value_size=16) == {}


def test_empty_values_remove_keys(cont):
    dd = cont.dict("stadium", {**CITIES, "Milano": "San Siro", "Rio": ""})
    assert len(dd) == 3
    assert dd.pop("Milano") is None and dd.pop("never was") is None
    del dd["London"]
    dd["Barcelona"] = ""
    assert not dd and list(dd) == [] and dd.dump() == {}


def test_dictionaries_compare(cont):
    first, second = cont.dict("first", CITIES), cont.dict("second", CITIES)
    assert first == second and first == {"Barcelona": b"Camp Nou", "London": b"Wembley"}
    second["London"] = "Emirates"
    assert first != second and first != {} and first != {"Barcelona": b"Camp Nou", "Paris": b""}


def test_values_are_text_or_bytes(cont):
    dd = cont.dict("stadium")
    with pytest.raises(TypeError, match="'Rome' is neither text nor bytes: int"):
        dd["Rome"] = 7
    dd[b"\xff"] = b"raw"
    assert list(dd) == ["\udcff"] and dd["\udcff"] == b"raw"


def test_names(cont):
    made = cont.dict("stadium", CITIES)
    assert cont.get("stadium") == cont["stadium"] == made
    assert "stadium" in cont and "airport" not in cont and list(cont) == ["stadium"]
    with pytest.raises(pydaos.DObjNotFound, match="Failed to open 'airport'"):
        cont.get("airport")
    with pytest.raises(pydaos.PyDError, match=r"DER_EXIST") as caught:
        cont.dict("stadium")
    assert caught.value.error.err == -1004 and isinstance(caught.value.__cause__, esker.Exists)
    with pytest.raises(pydaos.PyDError, match="holds the names"):
        cont.dict(".pydaos")


def test_destroying(cont):
    cont.dict("stadium", CITIES)
    cont.destroy("stadium")
    assert "stadium" not in cont and not cont.dict("stadium")
    with pytest.raises(pydaos.DObjNotFound):
        cont.destroy("airport")


def _fail(*_):
    """Fail in place of a step."""
    raise esker.NoSpace(28, "the pool is full")


def test_destroying_can_be_repeated(cont, monkeypatch):
    cont.dict("stadium", CITIES)
    with monkeypatch.context() as patch:
        patch.setattr(esker.Kv, "clear", _fail)
        with pytest.raises(pydaos.PyDError, match="the pool is full"):
            cont.destroy("stadium")
    assert "stadium" in cont
    cont.destroy("stadium")
    assert "stadium" not in cont and not cont.dict("stadium")


def test_destroying_an_array_can_be_repeated(cont, monkeypatch):
    pytest.importorskip("numpy")
    cont.array("field", [1.0])
    with monkeypatch.context() as patch:
        patch.setattr(esker.Kv, "discard", _fail)
        with pytest.raises(pydaos.PyDError, match="the pool is full"):
            cont.destroy("field")
    cont.destroy("field")
    assert "field" not in cont and len(cont.array("field")) == 0


@pytest.mark.parametrize("step", [(pydaos.DCont, "_enter"), (esker.Array, "write")])
def test_an_array_that_cannot_be_made_leaves_nothing(cont, monkeypatch, step):
    pytest.importorskip("numpy")
    before = set(cont._container.objects())
    with monkeypatch.context() as patch:
        patch.setattr(*step, _fail)
        with pytest.raises(pydaos.PyDError, match="the pool is full"):
            cont.array("field", [1.0, 2.0])
    assert "field" not in cont and set(cont._container.objects()) <= {*before, cont._root.oid}
    assert list(cont.array("field", [3.0])[:]) == [3.0]
    with pytest.raises(pydaos.PyDError, match="'field' already exists"):
        cont.array("field", [1.0])
    assert list(cont["field"][:]) == [3.0]


def test_an_array_of_esker_is_not_replaced(container):
    pytest.importorskip("numpy")
    container.create_array("field", 8).write(0, b"12345678")
    cont = pydaos.DCont(container.pool.name, container.label)
    with pytest.raises(pydaos.PyDError, match=r"'field' is an Array without an entry.*DER_EXIST"):
        cont.array("field", [1.0])
    assert "field" not in cont and container.array("field").read(0, 1) == b"12345678"
    pydaos.check(container.pool.name, container.label)
    cont.destroy(container.array("field").oid)
    assert list(cont.array("field", [1.0])[:]) == [1.0]


def test_esker_and_pydaos_see_the_same_objects(container):
    container.kv("stadium")["Rome"] = b"Olimpico"
    cont = pydaos.DCont(container.pool.name, container.uuid)
    dd = cont.dict("stadium", CITIES)
    assert dd.dump()["Rome"] == b"Olimpico" and container.kv("stadium")["London"] == b"Wembley"


def test_object_classes(cont):
    assert cont.dict("spread", CITIES, "OC_SX").dump() == cont.dict("one", CITIES, cid="OC_S1").dump()
    assert cont.get("spread") == cont.get("one")
    with pytest.raises(ValueError, match="not an object class"):
        cont.dict("wrong", cid="OC_WRONG")
    assert "wrong" not in cont


def test_an_array(cont):
    numpy = pytest.importorskip("numpy")
    kept = numpy.arange(100, dtype="i4")
    cont.array("field", kept)
    found = cont.get("field")
    assert isinstance(found, pydaos.DArray) and found.dtype == "i4" and found.shape == (100,)
    assert (numpy.asarray(found) == kept).all() and found[3] == 3 and found[-1] == 99
    for part in (slice(10, 20), slice(90, 10, -7), slice(None, None, 3), slice(5, 5), slice(-3, None)):
        assert (found[part] == kept[part]).all() and len(found[part]) == len(kept[part])
    found[2:5], found[0] = [7, 8, 9], -1
    assert list(found[:6]) == [-1, 1, 7, 8, 9, 5]
    found.resize(120)
    assert len(found) == 120 and found[119] == 0
    with pytest.raises(IndexError, match="none at 120"):
        found[120]
    with pytest.raises(ValueError, match="broadcast"):
        found[0:3] = [1, 2]
    with pytest.raises(ValueError, match="2 dimensions"):
        cont.array("matrix", [[1.0]])
    for dtype in ("M8[s]", "m8[h]", [("a", "M8[s]")], [("a", "i4"), ("b", "f4")], "S5", "U5", "V3", "O"):
        with pytest.raises(ValueError, match="has numbers, not"):
            cont.array("others", numpy.zeros(2, dtype))
        assert "others" not in cont
    for dtype in ("?", "u1", "i8", "f2", "c16", ">f4"):
        cont.array(dtype, numpy.ones(2, dtype))
        assert cont[dtype].dtype == dtype and list(cont[dtype][:]) == [1, 1]
    cont.destroy("field")
    assert len(cont.array("field")) == 0 and cont["field"].dtype == "f8"


def test_cells_of_an_array_that_were_never_written_are_zeros(cont, monkeypatch):
    numpy = pytest.importorskip("numpy")
    array = cont.array("field", numpy.arange(10))
    array.resize(120)
    monkeypatch.setattr(numpy, "empty", lambda count, dtype: numpy.full(count, 77, dtype))
    assert list(array[:]) == [*range(10), *[0] * 110]


def test_paths(container):
    where = f"{container.pool.name}/{container.label}"
    by_path = pydaos.DCont(path=f"daos://{where}")
    by_path.dict("stadium", CITIES)
    assert "stadium" in pydaos.DCont(path=f"esker://{where}")
    assert str(by_path) == where and repr(by_path) == f"daos://{where}"
    for wrong in ("/mnt/dfs/link", "daos://tank", "daos://"):
        with pytest.raises(pydaos.PyDError, match="names no container"):
            pydaos.DCont(path=wrong)


def test_opening_invalid_containers_fails(container):
    with pytest.raises(pydaos.PyDError, match="both have to be given"):
        pydaos.DCont("tank")
    with pytest.raises(pydaos.InvalidModeError, match="RW"):
        pydaos.DCont(container.pool.name, container.label, open_mode="w")
    with pytest.raises(pydaos.PyDError, match=r"failed to access container.*DER_NONEXIST"):
        pydaos.DCont(container.pool.name, "missing")


def test_read_only(container):
    pydaos.DCont(container.pool.name, container.label).dict("stadium", CITIES)
    cont = pydaos.DCont(container.pool.name, container.label, open_mode="RO")
    assert cont.get("stadium")["London"] == b"Wembley"
    with pytest.raises(pydaos.PyDError, match="DER_NO_PERM"):
        cont.get("stadium")["London"] = "Emirates"


def test_the_checker_names_unnamed_objects(container):
    pytest.importorskip("numpy")
    cont = pydaos.DCont(container.pool.name, container.label)
    named = cont.dict("stadium", CITIES)
    container.kv("lost")["a"] = b"1"
    cells = container.create_array("cells", 2)
    cells.write(0, b"abcd")
    pydaos.check(container.pool.name, container.label)
    names = set(cont)
    assert names == {"stadium", container.kv("lost").oid, cells.oid}
    assert cont[container.kv("lost").oid]["a"] == b"1" and len(cont[cells.oid]) == 2
    pydaos.check(path=f"daos://{container.pool.name}/{container.label}")
    assert set(cont) == names and cont["stadium"] == named


def test_the_client():
    client = pydaos.DaosClient()
    assert client is pydaos.DaosClient() and client.connected
    pydaos.DaosClient.cleanup()
    assert not client.connected and pydaos.DaosClient().connected


def test_every_error_has_a_name():
    for kind, _, der, _ in esker._esker.error_table():
        code = pydaos.DaosErrorCode(der)
        assert code.name.startswith("DER_") and code.name != "DER_UNKNOWN", kind
        assert code.name in str(code) and code.message
    assert pydaos.DaosErrorCode(-9999).name == "DER_UNKNOWN"


def _create(where, number, made):
    """Create the dictionary in a worker, which puts its number into `made` if it is the first."""
    try:
        pydaos.DCont(path=where).dict("contested", {"creator": str(number)})
    except pydaos.PyDError:
        return
    made.put(number)


def test_one_of_several_processes_creates_a_dictionary(native):
    where = f"daos://{native.pool.name}/{native.label}"
    context = multiprocessing.get_context("spawn")
    made = context.Queue()
    workers = [context.Process(target=_create, args=(where, number, made)) for number in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
        assert worker.exitcode == 0
    (creator,) = pydaos.DCont(path=where)["contested"].dump().values()
    assert made.get(timeout=60) == int(creator) and made.empty()


def test_the_module_is_esker_s():
    program = (
        "from pydaos import *; import esker.pydaos as own; print(DCont is own.DCont, DDict is own.DDict)"
    )
    shown = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True).stdout
    assert shown == b"True True\n"

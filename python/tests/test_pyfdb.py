"""The interface of pyfdb on field stores; beside pyfdb itself, where it is installed."""

import contextlib
import io
import os
import pickle
import shutil
import subprocess
import sys

import pytest
from test_fields import KEY

import esker
from esker import pyfdb
from esker.pyfdb import ControlAction, ControlIdentifier

DATABASE = {name: KEY[name] for name in ("class", "expver", "stream", "date", "time", "domain")}
NAME = "rd:0001:oper:20240610:0000:g"
SCHEMA = """
param: Param; step: Step; date: Date; levelist: Double; expver: Expver; time: Time;
[ class, expver, stream, date, time, domain?
    [ type, levtype
        [ step, levelist?, param ]]]
"""


def fill(fdb):
    """Archive seven fields on a day and one on the next, whose bytes identify them."""
    for step in ("0", "6", "12"):
        for param in ("167", "168"):
            fdb.archive(f"{step} {param}".encode(), KEY | {"step": step, "param": param})
    fdb.archive(b"a level", KEY | {"levtype": "pl", "levelist": "500", "param": "130"})
    fdb.archive(b"next day", KEY | {"date": "20240611"})
    fdb.flush()
    return fdb


@pytest.fixture
def fdb(store):
    """An FDB with fields on each backend."""
    return fill(pyfdb.FDB({"type": "esker", "store": store.name}))


@pytest.fixture
def empty(native_url, tmp_path):
    """An FDB of its own schema without fields."""
    (tmp_path / "schema").write_text(SCHEMA)
    config = {"type": "esker", "store": f"{native_url}/pyfdb", "schema": str(tmp_path / "schema")}
    yield pyfdb.FDB(config)
    with contextlib.suppress(esker.NotFound):
        esker.Pool(native_url).destroy_container("pyfdb", force=True)


def test_every_public_name_of_pyfdb_exists():
    names = {"archive", "axes", "config", "control", "dirty", "enabled", "flush", "inspect", "list"}
    names |= {"purge", "retrieve", "stats", "status", "wipe"}
    assert names <= set(dir(pyfdb.FDB))
    theirs = pytest.importorskip("pyfdb")
    assert set(theirs.__all__) == set(pyfdb.__all__)
    for name in names:
        ours = getattr(pyfdb.FDB, name).__code__
        them = getattr(theirs.FDB, name).__code__
        count = them.co_argcount
        assert ours.co_varnames[: ours.co_argcount] == them.co_varnames[:count], name
    public = {name for name in dir(theirs.DataHandle) if not name.startswith("_")}
    assert public - {"dataHandle", "opened"} <= set(dir(pyfdb.DataHandle))
    for kind in ("ListElement", "WipeElement", "StatusElement", "StatsElement", "ControlElement", "URI"):
        public = {name for name in dir(getattr(theirs, kind)) if not name.startswith("_")}
        assert public - {"element"} <= set(dir(getattr(pyfdb, kind)))
    for kind in ("ControlAction", "ControlIdentifier"):
        assert dict(getattr(theirs, kind).__members__) == dict(getattr(pyfdb, kind).__members__)


def test_fields_are_visible_after_a_flush(empty):
    assert not empty.dirty() and list(empty.list({})) == []
    with empty:
        empty.archive(b"one", list(KEY.items()))
        assert empty.dirty() and list(empty.list({})) == []
    assert not empty.dirty()
    assert empty.retrieve(KEY).readall() == b"one"
    with pytest.raises(ValueError), empty:
        empty.archive(b"kept, as in FDB", KEY | {"step": "1"})
        raise ValueError
    assert len(list(empty.list({}))) == 2


def test_deleting_an_fdb_flushes(empty):
    other = pyfdb.FDB(empty.config()[0])
    other.archive(b"one", KEY)
    del other
    assert len(list(empty.list({}))) == 1


@pytest.mark.parametrize(
    ("identifier", "error"),
    [
        (KEY | {"stream": "oper/wave"}, ValueError),
        (KEY | {"stream": ["oper", "wave"]}, ValueError),
        ([("class", "rd"), ("class", "od")], KeyError),
        ("class=rd", ValueError),
        ({"class": "rd"}, RuntimeError),
        (KEY | {"date": "no date"}, RuntimeError),
    ],
)
def test_invalid_identifiers_are_refused(empty, identifier, error):
    with pytest.raises(error):
        empty.archive(b"x", identifier)
    assert not empty.dirty()


def test_messages_are_archived_by_their_keys(empty):
    made = pytest.importorskip("made")
    messages = [made.level(step, 850)[0] for step in (0, 6)]
    schema = SCHEMA.replace("levelist?", "levelist?, number?")
    fdb = pyfdb.FDB(empty.config()[0] | {"schema": schema})
    fdb.archive(b"".join(messages))
    fdb.flush()
    selection = {"class": "od", "levelist": 850, "param": "t", "step": [6, 0]}
    assert fdb.retrieve(selection).readall() == messages[1] + messages[0]
    with pytest.raises(RuntimeError):
        fdb.archive(b"no message")


def test_a_handle_is_a_file(fdb):
    handle = fdb.retrieve(KEY | {"step": ["12", "0"], "param": "167/168"})
    assert handle.size() == 22 and handle.closed and "Closed" in repr(handle)
    for call in (handle.read, handle.tell, lambda: handle.readinto(bytearray(1)), lambda: handle.seek(0)):
        with pytest.raises(RuntimeError, match="before the handle was opened"):
            call()
    with handle:
        assert "Opened" in repr(handle)
        assert (handle.read(3), handle.read(0), handle.tell()) == (b"12 ", b"", 3)
        place = bytearray(5)
        assert handle.readinto(place) == 5 and place == b"16712"
        assert handle.read() == b" 1680 1670 168" and handle.read() == b"" == handle.read(4)
        assert handle.readinto(place) == 0
        assert handle.seek(-3, os.SEEK_END) == 19 and handle.read(9) == b"168"
        assert handle.seek(-4, os.SEEK_CUR) == 18 and handle.seek(12) == 12
        assert handle.read(5) == b"0 167"
        assert handle.seek(99) == 99 and handle.read() == b""
        with pytest.raises(ValueError, match="before the beginning"):
            handle.seek(-1)
        with pytest.raises(ValueError, match="whence"):
            handle.seek(0, 3)
    assert handle.readall() == b"12 16712 1680 1670 168" and handle.closed
    handle.open()
    assert handle.read(2) == b"12" and list(handle) == [b"12 167", b"12 168", b"0 167", b"0 168"]
    assert handle.readall() == b" 16712 1680 1670 168"
    with fdb.retrieve(KEY) as handle, io.BufferedReader(handle) as buffered:
        assert buffered.read(3) == b"0 1" and buffered.read() == b"67"
    copied = io.BytesIO()
    with fdb.retrieve(KEY | {"step": "0/to/12/by/6"}) as handle:
        shutil.copyfileobj(handle, copied, 4)
    assert copied.getvalue() == b"0 1676 16712 167"


def test_missing_fields_are_left_out(fdb):
    assert fdb.retrieve(KEY | {"step": ["99", "6"]}).readall() == b"6 167"
    with fdb.retrieve(KEY | {"step": "99"}) as handle:
        assert (handle.size(), handle.read(), handle.read(4)) == (0, b"", b"")
    assert [one.combined_key()["step"] for one in fdb.inspect(KEY | {"step": [99, 0]})] == ["0"]
    with pytest.raises(TypeError):
        fdb.retrieve({})


def test_listings(fdb):
    element, *_ = found = list(fdb.list(KEY | {"step": "0/to/6/by/6"}))
    assert [one.combined_key()["step"] for one in found] == ["0", "6"]
    assert element.combined_key() == dict(sorted(KEY.items()))
    database, index, datum = element.keys()
    assert database == DATABASE and datum["param"] == "167" and index["type"] == "fc"
    assert (element.has_location(), element.offset(), element.length()) == (True, 0, 5)
    assert element.data_handle.readall() == b"0 167"
    assert "param=167" in element.uri.query() and element.uri.scheme()
    assert "{class=rd,expver=0001," in str(element) and ",length=5,timestamp=" in str(element)
    indexes = [one.keys() for one in fdb.list({}, level=2)]
    assert [(one[0]["date"], one[1]["levtype"], one[2]) for one in indexes] == [
        ("20240610", "pl", {}),
        ("20240610", "sfc", {}),
        ("20240611", "sfc", {}),
    ]
    first, second = fdb.list({"levtype": "sfc"}, level=1)
    assert first.keys() == [DATABASE, {}, {}] and second.combined_key()["date"] == "20240611"
    assert (first.has_location(), first.offset(), first.length()) == (False, None, None)
    assert first.uri is None and first.data_handle is None and "length=0" in repr(first)
    fdb.archive(b"new", KEY)
    fdb.flush()
    lengths = [one.length() for one in fdb.list(KEY, include_masked=True)]
    assert lengths == [3, 5] and [one.length() for one in fdb.list(KEY)] == [3]
    assert [one.data_handle.readall() for one in fdb.list(KEY, True)] == [b"new", b"0 167"]


def test_wrong_selections_are_runtime_errors(fdb):
    with pytest.raises(RuntimeError, match="UserError: Bad value"):
        list(fdb.list({"date": ["20240610/to/20240611"]}))
    with pytest.raises(RuntimeError, match=r"UserError.*nosuch"):
        list(fdb.list({"nosuch": "1"}))
    with pytest.raises(ValueError, match="step"):
        list(fdb.list({"step": {"from": 0}}))
    with pytest.raises(ValueError) as caught:
        fdb.axes({"nosuch": "1"})
    again = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(again, RuntimeError) and isinstance(again, esker.Invalid)


def test_axes(empty):
    axes = fill(empty).axes({"date": "20240610"})
    assert axes["step"] == ["0", "6", "12"] and axes["levelist"] == ["", "500"] and len(axes) == 11
    assert axes == {name: axes[name] for name in axes} and axes.has_key("param")
    assert empty.axes({"levtype": "pl"}) == KEY | {"levtype": "pl", "levelist": "500", "param": 130}
    assert empty.axes({"levtype": "pl"}) != KEY
    assert sorted(empty.axes({}, level=2)) == sorted([*DATABASE, "type", "levtype"])
    assert empty.axes({}, level=1)["date"] == ["20240610", "20240611"]
    assert sorted(empty.axes({}, level=1)) == sorted(DATABASE)
    with pytest.raises(KeyError, match="Couldn't find key: nosuch"):
        axes["nosuch"]
    for change in (lambda: axes.update(a=1), axes.clear, lambda: axes.pop("step")):
        with pytest.raises(TypeError):
            change()
    assert pickle.loads(pickle.dumps(axes)) == axes


def test_disabled_actions_stay_disabled(fdb):
    everything = [one for one in ControlIdentifier if one]
    assert [(one.key()["date"], one.controlIdentifiers()) for one in fdb.status({})] == [
        (["20240610"], []),
        (["20240611"], []),
    ]
    first, _ = fdb.status({})
    assert str(first.location()).endswith(f"/{NAME}")
    [element] = fdb.control({"date": 20240610}, ControlAction.DISABLE, everything)
    assert element.controlIdentifiers() == everything
    assert element.key() == {name: [value] for name, value in DATABASE.items()}
    other = pyfdb.FDB(fdb.config()[0])
    first, second = other.status({})
    assert element == first != second
    assert [one.combined_key()["date"] for one in other.list({})] == ["20240611"]
    assert len(list(other.list({}, level=1))) == 1
    assert other.retrieve(KEY).readall() == b"" and list(other.inspect(KEY)) == []
    with pytest.raises(RuntimeError, match=r"archiving is disabled.*20240610"):
        other.archive(b"x", KEY)
    other.archive(b"x", KEY | {"date": "20240611"})
    with pytest.raises(RuntimeError, match="wiping is disabled"):
        list(other.wipe({"class": "rd"}, doit=True))
    [element] = other.control({"date": 20240610}, ControlAction.ENABLE, everything[1:])
    assert element.controlIdentifiers() == [ControlIdentifier.LIST]
    other.archive(b"newer", KEY | {"step": "6"})
    fdb.archive(b"new", KEY)
    fdb.flush()
    assert fdb.retrieve(KEY).readall() == b"new"


def test_messages_are_not_archived_where_that_is_disabled(store):
    made = pytest.importorskip("made")
    fdb = pyfdb.FDB(store.name)
    fdb.archive(made.level(0, 850)[0])
    fdb.flush()
    [_] = fdb.control({}, ControlAction.DISABLE, [ControlIdentifier.ARCHIVE])
    with pytest.raises(PermissionError, match="archiving is disabled"):
        fdb.archive(made.level(6, 850)[0])
    assert not fdb.dirty()
    # Messages of other databases are read from an open file.
    message = made.on_grid(0, {})
    fdb.archive(io.BytesIO(message))
    fdb.flush()
    assert fdb.retrieve({"stream": "oper"}).readall() == message


@pytest.mark.parametrize(
    ("config", "closed"),
    [
        ({}, ControlIdentifier.NONE),
        ({"writable": False}, ControlIdentifier.ARCHIVE | ControlIdentifier.WIPE),
        ({"visitable": False}, ControlIdentifier.LIST | ControlIdentifier.RETRIEVE),
    ],
)
def test_configurations_disable(fdb, config, closed):
    limited = pyfdb.FDB(fdb.config()[0] | config)
    assert [one for one in ControlIdentifier if not limited.enabled(one)] == [
        one for one in ControlIdentifier if one & closed
    ]
    readable = not closed & ControlIdentifier.LIST
    assert (
        len(list(limited.list({}))) == 8 * readable and len(list(limited.list({}, level=1))) == 2 * readable
    )
    assert limited.retrieve(KEY).readall() == b"0 167" * readable
    if closed & ControlIdentifier.ARCHIVE:
        for change in (lambda: limited.archive(b"x", KEY), lambda: list(limited.wipe({}, doit=True))):
            with pytest.raises(PermissionError, match="writable: false"):
                change()
    limited.flush()


def test_wiping(fdb):
    kinds = pyfdb.pyfdb_iterator.WipeElementType
    elements = list(fdb.wipe({"date": "20240610"}))
    assert len(list(fdb.list({}))) == 8
    assert [one.type() for one in elements] == [
        kinds.CATALOGUE_INFO,
        kinds.CATALOGUE,
        kinds.CATALOGUE_INDEX,
        kinds.STORE,
    ]
    assert len(elements[-1].uris()) == 7 and NAME in str(elements[1].uris()[0])
    assert "class=rd" in elements[0].msg() and "Fields" in str(elements[-1])
    [fields] = fdb.wipe({"levtype": "pl"}, porcelain=True)
    assert [uri.query().count("levelist=500") for uri in fields.uris()] == [1]
    assert len(list(fdb.wipe({"levtype": "pl"}, doit=True))) == 3
    assert len(list(fdb.list({}))) == 7
    list(fdb.control({}, ControlAction.DISABLE, [ControlIdentifier.RETRIEVE]))
    assert len(list(fdb.wipe({}, doit=True))) == 8
    assert list(fdb.list({})) == [] == list(fdb.status({})) == list(fdb.wipe({}))
    fdb.archive(b"again", KEY)
    fdb.flush()
    assert fdb.retrieve(KEY).readall() == b"again"


def test_purging_and_statistics(fdb):
    fdb.archive(b"new", KEY)
    fdb.flush()
    first, second = fdb.stats({})
    rows = dict(line.split(":", 1) for line in first.index_statistics().splitlines())
    counts = {name.strip(): value.strip() for name, value in rows.items()}
    assert counts["Fields"] == "8" and counts["Reacheable fields"] == "7"
    assert counts["Duplicated fields"] == "1" and counts["Size of duplicates"] == "5 (5 bytes)"
    assert "Indexes                         : 2" in first.db_statistics()
    assert "Duplicated" not in str(second) and str(second).startswith("Index Statistics:")
    assert len(list(fdb.list(KEY, True))) == 2
    [masked, summary] = map(str, fdb.purge(DATABASE))
    assert "step=0" in masked and summary.startswith("would purge 1 masked")
    assert len(list(fdb.list(KEY, True))) == 2
    assert len(list(fdb.purge({}, doit=True, porcelain=True))) == 1
    assert len(list(fdb.list(KEY, True))) == 1
    assert [str(one)[:8] for one in fdb.purge({}, doit=True)] == ["purged 0"]


def test_configurations_name_stores(shared, tmp_path, monkeypatch):
    fill(pyfdb.FDB(shared.name))
    file = tmp_path / "config.yaml"
    dict_ = {"type": "esker", "store": shared.name}
    file.write_text(f"type: esker\nstore: '{shared.name}'\n")
    named = [shared.name, dict_]
    try:
        import yaml  # noqa: F401

        named += [file, file.read_text()]
    except ImportError:
        pass
    for config in named:
        assert len(list(pyfdb.FDB(config).list({}))) == 8
    assert pyfdb.FDB(dict_, {"useSubToc": True}).config() == (dict_, {"useSubToc": True})
    assert pickle.loads(pickle.dumps(pyfdb.FDB(dict_))).config() == (dict_, {})
    assert pyfdb.FDB(dict_).store.name == shared.name and shared.name in repr(pyfdb.FDB(dict_))
    for name in ("ESKER_FIELDS", "FDB5_CONFIG", "FDB5_CONFIG_FILE", "FDB5_HOME", "FDB_HOME"):
        monkeypatch.delenv(name, raising=False)
    nowhere = pyfdb.FDB()
    assert nowhere.config() == ({}, {}) and not nowhere.dirty()
    nowhere.flush()
    with pytest.raises(RuntimeError, match="ESKER_FIELDS"):
        list(nowhere.list({}))
    monkeypatch.setenv("FDB5_CONFIG", shared.name)
    assert len(list(pyfdb.FDB().list({}))) == 8
    monkeypatch.setenv("ESKER_FIELDS", shared.name)
    monkeypatch.setenv("FDB5_CONFIG", "nowhere/fields")
    assert len(list(pyfdb.FDB().list({}))) == 8
    with pytest.raises(ValueError, match="must be str, dict or Path"):
        pyfdb.FDB(0)
    with pytest.raises(KeyError):
        list(pyfdb.FDB("nosuchpool/fields").list({}))


def test_the_configuration_file_names_the_store(shared, tmp_path):
    fill(pyfdb.FDB(shared.name))
    file = tmp_path / "esker.conf"
    file.write_text(f"fields = {shared.name}\n")
    names = ("ESKER_FIELDS", "FDB5_CONFIG", "FDB5_CONFIG_FILE", "FDB5_HOME", "FDB_HOME")
    environment = {name: value for name, value in os.environ.items() if name not in names}

    def counted(code, **variables):
        code = f"from esker import pyfdb\n{code}"
        run = [sys.executable, "-c", code]
        variables = {**environment, "ESKER_CONFIG": str(file), **variables}
        return subprocess.run(run, env=variables, capture_output=True, text=True)

    listing = "print(len(list(pyfdb.FDB().list({}))))"
    assert counted(listing).stdout == "8\n"
    assert counted(listing, ESKER_CONFIG="").returncode == 1
    # Variables take precedence over the file.
    assert counted("print(pyfdb.FDB().config()[0])", FDB5_CONFIG="other/fields").stdout == "other/fields\n"
    file.write_text("fields = nothing\n")
    assert "POOL/CONT" in counted(listing).stderr


def configuration(root):
    """A configuration of FDB's own."""
    (root / "schema").write_text(SCHEMA)
    (root / "root").mkdir()
    spaces = [{"handler": "Default", "roots": [{"path": str(root / "root")}]}]
    return {"type": "local", "engine": "toc", "schema": str(root / "schema"), "spaces": spaces}


@pytest.mark.usefixtures("one_node")
def test_a_directory_of_fdb_gets_a_pool(tmp_path):
    config = configuration(tmp_path) | {"size": "64M"}
    fill(pyfdb.FDB(config))
    assert len(list(pyfdb.FDB(config).list({}))) == 8
    assert pyfdb.FDB(config).store.schema == SCHEMA
    url = f"esker:{tmp_path}/root/esker"
    assert len(esker.FieldStore(f"{url}/fields", "r").list()) == 8
    esker.Pool.destroy(url, force=True)
    for size in ("much", "-1"):
        with pytest.raises(ValueError, match="size"):
            list(pyfdb.FDB(config | {"size": size}).list({}))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"type": "remote", "engine": "remote"}, "type remote"),
        ({"spaces": []}, "0 root directories"),
        ({"spaces": [{"roots": [{"path": "/a"}, {"path": "/b"}]}]}, "2 root directories"),
    ],
)
def test_other_configurations_of_fdb_are_refused(tmp_path, change, said):
    with pytest.raises(RuntimeError, match=f'{said}.*"POOL/CONTAINER"'):
        list(pyfdb.FDB(configuration(tmp_path) | change).list({}))


def test_directories_with_data_of_fdb_are_refused(tmp_path):
    config = configuration(tmp_path)
    (tmp_path / "root" / NAME).mkdir()
    (tmp_path / "root" / NAME / "toc").touch()
    with pytest.raises(RuntimeError, match="esker fields adopt"):
        list(pyfdb.FDB(config).list({}))


@pytest.mark.parametrize(
    "kind",
    [
        "DataHandle",
        "IndexAxis",
        "ListElement",
        "StatusElement",
        "ControlElement",
        "WipeElement",
        "PurgeElement",
    ],
)
def test_elements_are_made_by_an_fdb_only(kind):
    with pytest.raises(TypeError):
        getattr(pyfdb, kind)(None)


def test_uris_and_flags():
    uri = pyfdb.URI("a://user:word@host:1/path?query#part")
    assert (uri.scheme(), uri.netloc(), uri.path()) == ("a", "user:word@host:1", "/path")
    assert (uri.username(), uri.password(), uri.hostname(), uri.port()) == ("user", "word", "host", 1)
    assert (uri.query(), uri.fragment()) == ("query", "part")
    assert uri == pyfdb.URI(str(uri)) != pyfdb.URI("a://b") and uri != str(uri)
    assert str(ControlIdentifier.LIST | ControlIdentifier.WIPE) == "LIST|WIPE"
    assert str(ControlIdentifier.NONE) == "NONE" and repr(ControlAction.DISABLE) == "DISABLE"


def both(tmp_path, native_url):
    """The same fields in pyfdb's FDB and in ours."""
    theirs = pytest.importorskip("pyfdb")
    config = configuration(tmp_path)
    ours = pyfdb.FDB({"type": "esker", "store": f"{native_url}/beside", "schema": config["schema"]})
    return fill(theirs.FDB(config)), fill(ours)


def answers(fdb):
    """The answers of an FDB, in a form that does not depend on order and location."""
    control = sys.modules[type(fdb).__module__].ControlAction
    identifiers = sys.modules[type(fdb).__module__].ControlIdentifier

    def keys(elements):
        return sorted(str(sorted(one.combined_key().items())) for one in elements)

    def read(selection):
        with fdb.retrieve(selection) as handle:
            return sorted([handle.read(5), handle.read()]), handle.size()

    yield "keys", keys(fdb.list({}))
    yield "levels", sorted(str(one.keys()) for one in fdb.list({}))
    yield "databases", keys(fdb.list({}, level=1))
    yield "indexes", keys(fdb.list({"levtype": "sfc"}, level=2))
    yield "a range", keys(fdb.list({"step": "0/to/12/by/6", "date": 20240610}))
    yield "a short name", keys(fdb.list({"param": ["2t"]}))
    yield "found", read(KEY)
    yield "one missing", read(KEY | {"step": ["0", "99"]})
    yield "all missing", read(KEY | {"step": "99"})
    yield "inspected", keys(fdb.inspect(KEY | {"step": ["6", "99"]}))
    for level in (1, 2, 3):
        axes = fdb.axes({"date": "20240610"}, level)
        yield f"axes {level}", {name: sorted(values) for name, values in axes.items()}
    yield "status", sorted(str((one.key(), one.controlIdentifiers())) for one in fdb.status({}))
    fdb.archive(b"new", KEY)
    fdb.flush()
    yield "masked", sorted(one.length() for one in fdb.list(KEY, include_masked=True))
    fdb = type(fdb)(fdb.config()[0])  # an open FDB of pyfdb retrieves the old field
    yield "replaced", read(KEY)
    closing = (control.DISABLE, [identifiers.LIST, identifiers.RETRIEVE])
    yield "closed", [str(one.controlIdentifiers()) for one in fdb.control({"date": 20240611}, *closing)]
    again = type(fdb)(fdb.config()[0])
    yield "hidden", (keys(again.list({})), again.retrieve(KEY | {"date": "20240611"}).readall())
    yield "wiped", len(list(fdb.wipe({"date": "20240610", "levtype": "pl"}, doit=True))) > 0
    yield "left", keys(fdb.list({}))


def test_answers_are_those_of_pyfdb(tmp_path, native_url):
    theirs, ours = both(tmp_path, native_url)
    try:
        for (what, expected), (_, answer) in zip(answers(theirs), answers(ours)):
            assert answer == expected, what
    finally:
        esker.Pool(native_url).destroy_container("beside", force=True)


@pytest.mark.usefixtures("one_node")
def test_the_tests_of_pyfdb_itself(tmp_path):
    folder = os.environ.get("ESKER_TEST_PYFDB")
    if not folder:
        pytest.skip("ESKER_TEST_PYFDB names no folder with the tests of pyfdb (tests/pyfdb of ecmwf/fdb)")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "as_pyfdb", "-p", "no:cacheprovider"]
    environment = os.environ | {"PYTHONPATH": os.path.dirname(os.path.abspath(__file__))}
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tmp_path
    environment["TMPDIR"] = str(place)
    ended = subprocess.run(
        [*command, folder], env=environment, cwd=folder, capture_output=True, text=True, timeout=1200
    )
    assert ended.returncode == 0, ended.stdout[-4000:]

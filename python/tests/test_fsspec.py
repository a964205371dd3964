"""The fsspec file system, with the test suite that fsspec provides for all implementations."""

import os
import pickle
import urllib.parse

import pytest

import esker

fsspec = pytest.importorskip("fsspec")
abstract = pytest.importorskip("fsspec.tests.abstract")


@pytest.fixture
def root(posix, monkeypatch):
    """URL of a new container with a file system."""
    label = posix.pool.name
    if not label.startswith("daos:"):
        monkeypatch.setenv("ESKER_POOLS", os.path.dirname(urllib.parse.urlsplit(posix.pool.name).path))
        label = posix.pool.info()["label"]
    fsspec.AbstractFileSystem.clear_instance_cache()
    return f"esker://{label}/{posix.label}"


class Fixtures(abstract.AbstractFixtures):
    """The fixtures that fsspec's own tests need."""

    @pytest.fixture
    def fs(self, root):
        """Esker's file system."""
        return fsspec.filesystem("esker")

    @pytest.fixture
    def fs_path(self, root):
        """The directory of the tests."""
        return root.removeprefix("esker://")

    @pytest.fixture
    def fs_join(self):
        """How paths are joined."""
        return lambda *parts: "/".join(parts)


class TestCopy(abstract.AbstractCopyTests, Fixtures):
    """Copying within it."""


class TestGet(abstract.AbstractGetTests, Fixtures):
    """Bringing files out."""


class TestPut(abstract.AbstractPutTests, Fixtures):
    """Bringing files in."""


class TestOpen(abstract.AbstractOpenTests, Fixtures):
    """Opening."""


class TestPipe(abstract.AbstractPipeTests, Fixtures):
    """Values as files."""


def test_urls_open(root):
    with fsspec.open(f"{root}/deep/down/a.txt", "w") as file:
        file.write("text")
    with fsspec.open(f"{root}/deep/down/a.txt") as file:
        assert file.read() == b"text"
    with fsspec.open(f"{root}/a.gz", "wt", compression="infer") as file:
        file.write("pressed")
    with fsspec.open(f"{root}/a.gz", "rt", compression="infer") as file:
        assert file.read() == "pressed"


def test_listing(root):
    fs, path = fsspec.core.url_to_fs(root)
    fs.pipe({f"{path}/a/1": b"1", f"{path}/a/22": b"22", f"{path}/b": b"b"})
    assert fs.ls(path, detail=False) == [f"{path}/a", f"{path}/b"]
    assert fs.find(path) == [f"{path}/a/1", f"{path}/a/22", f"{path}/b"]
    assert fs.glob(f"{path}/*/2*") == [f"{path}/a/22"] and fs.du(path) == 4
    assert fs.info(f"{path}/b")["size"] == 1 and fs.isdir(f"{path}/a") and fs.isfile(f"{path}/b")
    assert not fs.exists(f"{path}/c") and fs.exists(path) and fs.exists(path.split("/")[0])
    pool = path.split("/")[0]
    assert path in fs.ls(pool, detail=False)
    # Only pools of this machine are listed.
    assert pool.startswith("daos:") or pool in fs.ls("", detail=False)
    assert fs.cat_file(f"{path}/a/22", 1) == b"2" and fs.cat_file(f"{path}/a/22", -2, -1) == b"2"
    assert fs.cat(f"{path}/a/*") == {f"{path}/a/1": b"1", f"{path}/a/22": b"22"}
    assert abs(fs.modified(f"{path}/b").timestamp() - fs.info(f"{path}/b")["mtime"]) < 1e-3
    for missing in (f"{path}/c", path + "x", "no-pool/c", "no-pool"):
        with pytest.raises(FileNotFoundError):
            fs.info(missing)
        with pytest.raises(FileNotFoundError):
            fs.ls(missing)


def test_links_without_a_target_are_listed(root, posix):
    fs, path = fsspec.core.url_to_fs(root)
    fs.pipe(f"{path}/file", b"1")
    for target, name in (("none", "dangling"), ("loop", "loop"), ("file/x", "through")):
        esker.FileSystem(posix).symlink(target, f"/{name}")
    found = {entry["name"].removeprefix(f"{path}/"): entry["type"] for entry in fs.ls(path)}
    assert found == {"file": "file", "dangling": "link", "loop": "link", "through": "link"}


def test_reading_in_blocks(root):
    fs, path = fsspec.core.url_to_fs(root)
    fs.pipe(f"{path}/a", b"one\ntwo\nthree\n")
    assert fs.read_block(f"{path}/a", 2, 4, delimiter=b"\n") == b"two\n"
    assert fs.head(f"{path}/a", 3) == b"one" and fs.tail(f"{path}/a", 3) == b"ee\n"
    assert fs.cat_ranges([f"{path}/a"] * 2, [0, 4], [3, 7]) == [b"one", b"two"]
    with fs.open(f"{path}/a", "rb") as file:
        assert file.size == 14
    with fsspec.open(f"simplecache::{root}/a") as file:
        assert file.read() == b"one\ntwo\nthree\n"
    mapper = fsspec.get_mapper(f"{root}/map")
    mapper["a/b"] = b"1"
    assert dict(mapper) == {"a/b": b"1"}


def test_modifying(root):
    fs, path = fsspec.core.url_to_fs(root)
    fs.pipe(f"{path}/a/1", b"1")
    fs.mv(f"{path}/a/1", f"{path}/c/2")
    assert fs.find(path) == [f"{path}/c/2"]
    fs.touch(f"{path}/c/2", truncate=False)
    assert fs.cat(f"{path}/c/2") == b"1"
    fs.touch(f"{path}/c/2")
    assert fs.cat(f"{path}/c/2") == b""
    with pytest.raises(OSError):
        fs.rmdir(f"{path}/c")
    with pytest.raises(IsADirectoryError):
        fs.rm(f"{path}/c")
    fs.rm(f"{path}/c", recursive=True)
    fs.rmdir(f"{path}/a")
    assert fs.ls(path) == []
    fs.pipe(f"{path}/d/1", b"1")
    fs.rm(path, recursive=True)
    assert fs.ls(path) == [] and fs.exists(path)
    strict = fsspec.filesystem("esker", auto_mkdir=False)
    with pytest.raises(FileNotFoundError):
        strict.pipe(f"{path}/e/1", b"1")


def test_a_file_copied_or_moved_onto_itself_stays(root, posix):
    fs, path = fsspec.core.url_to_fs(root)
    fs.pipe(f"{path}/d/a", b"1")
    esker.FileSystem(posix).symlink("a", "/d/link")
    for same in (f"{path}/d/a", f"{path}//d/a", f"{path}/d/link"):
        fs.cp_file(f"{path}/d/a", same)
        assert fs.cat(f"{path}/d/a") == b"1"
    fs.mv(f"{path}/d/a", f"{path}/d/a")
    fs.mv(f"{path}/d/a", f"{path}/d/")
    fs.mv(f"{path}/d/*", f"{path}/d")
    fs.mv(f"{path}/d", f"{path}/", recursive=True)
    assert fs.cat(f"{path}/d/a") == b"1"
    with pytest.raises(FileNotFoundError):
        fs.cp_file(f"{path}/none", f"{path}/none")


def test_a_directory_is_not_moved_into_itself(root, posix):
    fs, path = fsspec.core.url_to_fs(root)
    fs.pipe({f"{path}/d/a": b"1", f"{path}/d/sub/b": b"2"})
    esker.FileSystem(posix).symlink("d", "/link")
    before = contents(fs, f"{path}/d")
    for same in ("d", "/d", "d/"):
        fs.mv(f"{path}/d", f"{path}/{same}", recursive=True)
    for below in ("d/sub", "d/sub/", "d/new/deep", "link", "link/sub", "link/new"):
        with pytest.raises(esker.Invalid, match="below it"):
            fs.mv(f"{path}/d", f"{path}/{below}", recursive=True)
    with pytest.raises(esker.Invalid, match="below it"):
        fs.mv(f"{path}/*", f"{path}/d", recursive=True)
    assert contents(fs, f"{path}/d") == before
    fs.mv(f"{path}/link", f"{path}/d/other")
    assert target_of(posix, "/d/other") == "d"
    with pytest.raises(FileNotFoundError):
        fs.mv(f"{path}/none", f"{path}/none")


def target_of(container, path):
    """Return the target of a link."""
    return esker.FileSystem(container).readlink(path)


def test_a_directory_moves_into_another_with_its_links(root, posix):
    fs, path = fsspec.core.url_to_fs(root)
    fs.pipe({f"{path}/d/a": b"1", f"{path}/to/d2/c": b"3", f"{path}/d2/b": b"2"})
    esker.FileSystem(posix).symlink("/to", "/d/link")
    fs.mv(f"{path}/d", f"{path}/to", recursive=True)
    assert target_of(posix, "/to/d/link") == "/to" and not fs.exists(f"{path}/d")
    # There is one of this name: both become one.
    fs.mv(f"{path}/d2", f"{path}/to", recursive=True)
    assert fs.find(f"{path}/to/d2") == [f"{path}/to/d2/b", f"{path}/to/d2/c"] and not fs.exists(f"{path}/d2")


def test_links_to_directories_are_not_walked(root, posix):
    fs, path = fsspec.core.url_to_fs(root)
    fs.pipe({f"{path}/d/a": b"1", f"{path}/other/b": b"22"})
    for target, name in (("..", "/d/up"), ("../other", "/d/other"), ("a", "/d/file")):
        esker.FileSystem(posix).symlink(target, name)
    assert {entry["name"][-2:]: entry["type"] for entry in fs.ls(f"{path}/d")} == {
        "/a": "file",
        "le": "file",
        "er": "link",
        "up": "link",
    }
    assert fs.find(f"{path}/d") == [f"{path}/d/{name}" for name in ("a", "file", "other", "up")]
    assert fs.isdir(f"{path}/d/other") and fs.find(f"{path}/d/other") == [f"{path}/d/other/b"]
    assert fs.du(path) == 4
    fs.rm(f"{path}/d", recursive=True, maxdepth=2)
    assert fs.find(path) == [f"{path}/other/b"] and not fs.exists(f"{path}/d")


def test_removing_several_levels(root, posix):
    fs, path = fsspec.core.url_to_fs(root)
    files = {f"{path}/d/{name}": b"1" for name in ("a", "b/c", "b/d/e", "f/g")}
    fs.pipe(files)
    with pytest.raises(ValueError, match="maxdepth"):
        fs.rm(f"{path}/d", recursive=True, maxdepth=0)
    fs.rm(f"{path}/d", recursive=True, maxdepth=1)
    assert fs.find(path) == [f"{path}/d/{name}" for name in ("b/c", "b/d/e", "f/g")]
    fs.rm(f"{path}/d/*", recursive=True, maxdepth=2)
    assert fs.find(path) == [f"{path}/d/b/d/e"]
    esker.FileSystem(posix).symlink("d", "/link")
    fs.rm(f"{path}/link", recursive=True, maxdepth=5)
    assert fs.find(path) == [f"{path}/d/b/d/e"] and not fs.exists(f"{path}/link")
    fs.pipe(files)
    fs.rm([f"{path}/d/b", f"{path}/d/b/d"], recursive=True)
    assert fs.find(path) == [f"{path}/d/a", f"{path}/d/f/g"]
    fs.pipe(files)
    fs.rm(f"{path}/d/**", recursive=True)
    assert fs.find(path) == []


def test_a_value_of_a_zarr_store_moved_into_its_own_directory_stays(root):
    zarr = pytest.importorskip("zarr")
    zarr_store = pytest.importorskip("esker.zarr")
    pool, container = root.removeprefix("esker://").rsplit("/", 1)
    with esker.Pool(pool) as opened:
        values = opened.create_container(f"{container}-zarr")
        zarr.create_group(zarr_store.Store(values))
        fs = fsspec.filesystem("esker")
        path = f"{pool}/{container}-zarr/zarr.json"
        before = fs.cat(path)
        fs.cp_file(path, path)
        fs.mv(path, f"{pool}/{container}-zarr/")
        assert before and fs.cat(path) == before


def test_creating_a_container(root):
    fs, path = fsspec.core.url_to_fs(f"{root}-more")
    fs.mkdir(path)
    with pytest.raises(FileExistsError):
        fs.mkdir(path)
    fs.pipe(f"{path}/a", b"1")
    assert fs.cat(f"{path}/a") == b"1"
    with pytest.raises(FileNotFoundError, match="has no container"):
        fs.pipe("esker://pool", b"1")


def test_read_only_and_snapshots(root, posix):
    fs, path = fsspec.core.url_to_fs(root)
    fs.pipe(f"{path}/a", b"old")
    posix.create_snapshot("before")
    fs.pipe(f"{path}/a", b"new")
    assert fsspec.filesystem("esker", snapshot="before").cat(f"{path}/a") == b"old"
    reader = fsspec.filesystem("esker", read_only=True)
    assert reader.cat(f"{path}/a") == b"new"
    with pytest.raises(OSError):
        reader.pipe(f"{path}/a", b"x")
    for options in ({"read_only": True}, {"snapshot": "before"}):
        with pytest.raises(esker.errors.ReadOnly):
            fsspec.filesystem("esker", **options).mkdir(f"{path}-new")
    assert not fs.exists(f"{path}-new")


def test_unknown_options_are_refused(root):
    for option in ("snapshto", "readonly"):
        with pytest.raises(TypeError, match=f"'{option}' is not a storage option.*auto_mkdir, read_only"):
            fsspec.open(f"{root}/a", **{option: True})
    base = {"use_listings_cache": False, "skip_instance_cache": True, "asynchronous": False, "loop": None}
    fs = fsspec.filesystem("esker", **base, batch_size=4, max_paths=8, listings_expiry_time=1)
    fs.pipe(f"{root}/a", b"1")
    with fsspec.open(f"simplecache::{root}/a", esker={"read_only": True}) as file:
        assert file.read() == b"1"


def test_pickling(root):
    fs, path = fsspec.core.url_to_fs(root)
    fs.pipe(f"{path}/a", b"1")
    assert pickle.loads(pickle.dumps(fs)).cat(f"{path}/a") == b"1"
    opened = pickle.loads(pickle.dumps(fsspec.open(f"{root}/a")))
    with opened as file:
        assert file.read() == b"1"


def test_a_pool_in_memory():
    with esker.Pool("memory:fsspec") as pool, pool.create_container("c", posix=True):
        with fsspec.open("esker://memory:fsspec/c/a", "wb") as file:
            file.write(b"1")
        assert fsspec.filesystem("esker").cat("memory:fsspec/c/a") == b"1"


def test_pandas(root):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    table.to_csv(f"{root}/tables/t.csv", index=False)
    assert pandas.read_csv(f"{root}/tables/t.csv").equals(table)


def test_zarr(root):
    zarr = pytest.importorskip("zarr")
    numpy = pytest.importorskip("numpy")
    values = numpy.arange(100.0).reshape(10, 10)
    zarr.save(f"{root}/field.zarr", values)
    assert (zarr.load(f"{root}/field.zarr") == values).all()


def test_torch(root):
    torch = pytest.importorskip("torch")
    with fsspec.open(f"{root}/model.pt", "wb") as file:
        torch.save({"weight": torch.arange(10)}, file)
    with fsspec.open(f"{root}/model.pt") as file:
        assert torch.load(file)["weight"].tolist() == list(range(10))


def contents(fs, path):
    """The contents of the files below a path."""
    return {name: fs.cat(name) for name in fs.find(path)}


def test_transactions(root):
    fs, path = fsspec.core.url_to_fs(root)
    fs.pipe({f"{path}/old": b"old", f"{path}/grown": b"12"})
    with fs.transaction:
        fs.pipe(f"{path}/deep/a", b"1")
        with fs.open(f"{path}/text", "w") as file:
            file.write("text")
        with fs.open(f"{path}/grown", "ab") as file:
            file.write(b"3")
        fs.cp_file(f"{path}/old", f"{path}/copy")
        fs.pipe(f"{path}/old", b"not the last")
        fs.pipe(f"{path}/old", b"new")
        fs.touch(f"{path}/empty")
        with fs.open(f"{path}/given-up", "wb") as file:
            file.write(b"x")
            file.discard()
        names = {name for name in fs.find(path) if not name.endswith(".part")}
        assert names == {f"{path}/old", f"{path}/grown"} and fs.cat(f"{path}/old") == b"old"
    kept = {"copy": b"old", "deep/a": b"1", "empty": b"", "grown": b"123", "old": b"new", "text": b"text"}
    assert contents(fs, path) == {f"{path}/{name}": value for name, value in kept.items()}
    fs.pipe(f"{path}/later", b"at once")
    assert fs.cat(f"{path}/later") == b"at once"


def test_a_transaction_with_an_error_leaves_everything_as_it_was(root):
    fs, path = fsspec.core.url_to_fs(root)
    fs.pipe(f"{path}/a", b"old")
    with pytest.raises(RuntimeError, match="mine"), fs.transaction:
        fs.pipe({f"{path}/a": b"new", f"{path}/b": b"new"})
        raise RuntimeError("mine")
    assert contents(fs, path) == {f"{path}/a": b"old"}
    # One of the names is taken in the meantime: none of the files appears.
    with pytest.raises(FileExistsError), fs.transaction:
        for name in "bc":
            with fs.open(f"{path}/{name}", "xb") as file:
                file.write(b"new")
        fsspec.filesystem("esker", skip_instance_cache=True).pipe(f"{path}/c", b"other")
    assert contents(fs, path) == {f"{path}/a": b"old", f"{path}/c": b"other"}
    # Also a file that would replace another is left as it was.
    with pytest.raises(FileExistsError), fs.transaction:
        fs.pipe(f"{path}/a", b"new")
        with fs.open(f"{path}/d", "xb") as file:
            file.write(b"new")
        fsspec.filesystem("esker", skip_instance_cache=True).pipe(f"{path}/d", b"other")
    assert contents(fs, path) == {f"{path}/a": b"old", f"{path}/c": b"other", f"{path}/d": b"other"}
    fs.rm(f"{path}/d")
    with pytest.raises(FileExistsError), fs.transaction:
        fs.open(f"{path}/a", "xb")
    with pytest.raises(ValueError, match="in place"), fs.transaction:
        fs.open(f"{path}/a", "r+b")
    assert not fs._intrans and fs.find(path) == [f"{path}/a", f"{path}/c"]


def test_files_with_a_commit_of_their_own(root):
    fs, path = fsspec.core.url_to_fs(root)
    first, second = (fs.open(f"{path}/{name}", "wb", autocommit=False) for name in "ab")
    first.write(b"1")
    second.write(b"2")
    first.commit()
    second.discard()
    assert contents(fs, path) == {f"{path}/a": b"1"}


def test_transactions_over_containers(root):
    fs, path = fsspec.core.url_to_fs(root)
    other = f"{path}-second"
    fs.mkdir(other)
    fs.start_transaction()
    fs.pipe({f"{path}/a": b"1", f"{other}/a": b"2"})
    fs.end_transaction()
    assert fs.cat(f"{path}/a") == b"1" and fs.cat(f"{other}/a") == b"2" and len(fs.find(other)) == 1


def test_open_files_pickle(root):
    fs, path = fsspec.core.url_to_fs(root)
    fs.pipe(f"{path}/a", b"one\ntwo\n")
    with fs.open(f"{path}/a", "rb") as file:
        assert file.readline() == b"one\n"
        again = pickle.loads(pickle.dumps(file))
        assert again.size == 8 and again.read() == b"two\n"

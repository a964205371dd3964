"""A zarr hierarchy by its URL: zarr's own stores, fsspec, and `esker.zarr.Store` see one and the same."""

import os
import urllib.parse

import pytest

import esker

zarr = pytest.importorskip("zarr", minversion="3.1")
numpy = pytest.importorskip("numpy")
fsspec = pytest.importorskip("fsspec")

from zarr.core.buffer import default_buffer_prototype  # noqa: E402

from esker._zarr_files import ZarrFiles  # noqa: E402
from esker._zarr_index import VALUE_MAX  # noqa: E402
from esker.zarr import Store  # noqa: E402


def url_of(container, monkeypatch):
    """The URL of a container, whose pool is looked up by label if it is on this machine."""
    fsspec.AbstractFileSystem.clear_instance_cache()
    pool = container.pool.name
    if not pool.startswith("daos:"):
        monkeypatch.setenv("ESKER_POOLS", os.path.dirname(urllib.parse.urlsplit(pool).path))
        pool = container.pool.info()["label"]
    return f"esker://{pool}/{container.label}"


@pytest.fixture
def url(native, monkeypatch):
    """The URL of a new container."""
    return url_of(native, monkeypatch)


def test_a_url_reads_and_extends_a_store(url):
    chunk = numpy.arange(1 << 17, dtype="f8")
    zarr.create_array(Store(url), name="a/b", data=chunk, chunks=(1 << 17,))
    group = zarr.open_group(url)
    assert (group["a/b"][5:9] == chunk[5:9]).all()
    group["a"].create_array("c", data=chunk, chunks=(1 << 10,))
    again = zarr.open_group(Store(url, read_only=True), mode="r")
    assert sorted(again["a"].keys()) == ["b", "c"] and (again["a/c"][:] == chunk).all()
    del group["a/b"]
    assert sorted(zarr.open_group(Store(url), mode="r")["a"].keys()) == ["c"]


def test_the_keys_of_a_store_are_files(url):
    store = Store(url)
    zarr.create_array(store, name="t", data=numpy.arange(8, dtype="u1"), chunks=(4,), compressors=None)
    fs, path = fsspec.core.url_to_fs(url)
    assert fs.ls(path, detail=False) == [f"{path}/t", f"{path}/zarr.json"]
    assert fs.isdir(f"{path}/t/c") and not fs.exists(f"{path}/u")
    assert fs.find(path) == [f"{path}/t/c/0", f"{path}/t/c/1", f"{path}/t/zarr.json", f"{path}/zarr.json"]
    assert fs.cat_file(f"{path}/t/c/1", 1, 3) == bytes([5, 6]) and fs.size(f"{path}/t/c/1") == 4
    with fs.open(f"{path}/t/c/0", "rb") as file:
        assert file.read() == bytes(range(4))
    with pytest.raises(RuntimeError, match="the writer"), fs.open(f"{path}/t/c/0", "wb") as file:
        file.write(bytes(4))
        raise RuntimeError("the writer")
    with pytest.raises(FileExistsError):
        fs.open(f"{path}/t/c/0", "xb")
    fs.cp_file(f"{path}/t/c/1", f"{path}/t/c/0")
    assert zarr.open_array(store, path="t")[:4].tolist() == [4, 5, 6, 7]
    with ZarrFiles(store).open_file("/t/c/0") as value:
        fs.rm(f"{path}/t", recursive=True)
        assert value.size() == 4 and value.read(0, 4) == bytes([4, 5, 6, 7])
    assert fs.find(path) == [f"{path}/zarr.json"]


@pytest.mark.parametrize("size", [1, VALUE_MAX + 1])
def test_a_value_opened_exclusively_replaces_none(url, monkeypatch, size):
    store = Store(url)
    zarr.create_group(store)
    fs, path = fsspec.core.url_to_fs(url)
    other, whole = [b"other"], Store._entry_size

    def entry_size(self, key):
        found = whole(self, key)
        # Another writer is faster, after this one has found no value.
        if found is None and other:
            store.set_sync(key, default_buffer_prototype().buffer.from_bytes(other.pop()))
        return found

    file = fs.open(f"{path}/a", "xb")
    file.write(bytes(size))
    monkeypatch.setattr(Store, "_entry_size", entry_size)
    with pytest.raises(FileExistsError, match="a already exists"):
        file.close()
    assert fs.cat_file(f"{path}/a") == b"other"


@pytest.mark.parametrize("change", ["get_sync", "size_sync"])
def test_a_value_that_is_replaced_while_it_is_read_is_not_mixed(url, monkeypatch, change):
    store = Store(url)
    zarr.create_group(store)
    fs, path = fsspec.core.url_to_fs(url)
    reads = [
        lambda: fs.open(f"{path}/a", "rb").read(),
        lambda: fs.cat_file(f"{path}/a"),
        lambda: fs.cat_file(f"{path}/a", -100),
        lambda: (fs.cp_file(f"{path}/a", f"{path}/b"), fs.cat_file(f"{path}/b"))[1],
    ]
    monkeypatch.setattr("esker.fsspec.COPY_BYTES", 4)
    for read in reads:
        fs.pipe_file(f"{path}/a", b"value 0")
        with monkeypatch.context() as patch:
            call, stored = getattr(Store, change), [b"value 0"]

            def replace(self, *arguments, _call=call, _stored=stored, **named):
                found = _call(self, *arguments, **named)
                if arguments[0] == "a" and len(_stored) < 6:
                    _stored.append(b"value " + b"%d" % len(_stored) * (len(_stored) + 1))
                    store.set_sync("a", default_buffer_prototype().buffer.from_bytes(_stored[-1]))
                return found

            patch.setattr(Store, change, replace)
            assert read() in stored


def test_parts_of_values(url):
    zarr.create_group(Store(url))
    fs, path = fsspec.core.url_to_fs(url)
    value = bytes(range(10))
    fs.pipe_file(f"{path}/a", value)
    for begin in (None, 0, 3, 10, 12, -3, -12):
        for end in (None, 0, 3, 7, 12, -2, -12):
            assert fs.cat_file(f"{path}/a", begin, end) == value[begin:end]
    with pytest.raises(FileNotFoundError):
        fs.cat_file(f"{path}/none")


@pytest.mark.parametrize("mode", ["ab", "r+b", "w+b"])
def test_a_value_is_replaced_as_a_whole(url, mode):
    zarr.create_array(Store(url), name="t", data=numpy.arange(8))
    fs, path = fsspec.core.url_to_fs(url)
    with pytest.raises(esker.errors.NotSupported, match="write it whole"):
        fs.open(f"{path}/t/zarr.json", mode)


def test_unsupported_calls_on_keys_are_refused(url):
    zarr.create_array(Store(url), name="t", data=numpy.arange(8))
    fs, path = fsspec.core.url_to_fs(url)
    for refused in (fs.modified, fs.rmdir, lambda path: fs.touch(f"{path}/zarr.json", truncate=False)):
        with pytest.raises(esker.errors.NotSupported):
            refused(f"{path}/t")
    with pytest.raises(esker.errors.NotSupported, match="rename"):
        fs.mv(f"{path}/t/zarr.json", f"{path}/t/.zarray")
    with pytest.raises(esker.errors.NotSupported, match=r"Store\.transaction"), fs.transaction:
        fs.pipe_file(f"{path}/t/zarr.json", b"{}")
    for mistaken in (lambda: fs.cat_file(f"{path}/t"), lambda: fs.rm(f"{path}/t")):
        with pytest.raises(IsADirectoryError):
            mistaken()
    reading = fsspec.filesystem("esker", read_only=True)
    for write in (
        lambda: reading.pipe_file(f"{path}/t/x", b"x"),
        lambda: reading.rm(f"{path}/t", recursive=True),
    ):
        with pytest.raises(ValueError, match="read-only"):
            write()
    assert zarr.open_array(url, path="t")[:].tolist() == list(range(8))


def test_a_url_shows_a_version(url):
    store = Store(url)
    zarr.create_array(store, name="t", shape=(2,), dtype="i4")
    with store.transaction("one", name="v1") as session:
        zarr.open_array(session, path="t")[0] = 1
    zarr.open_array(store, path="t")[0] = 2
    at = {"storage_options": {"snapshot": "v1"}, "mode": "r"}
    assert zarr.open_group(url, **at)["t"][0] == 1 and zarr.open_group(url)["t"][0] == 2


def test_files_are_opened_by_url_and_refused_by_a_store(posix, monkeypatch):
    url = url_of(posix, monkeypatch)
    zarr.open_group(url, mode="w").create_array("t", data=numpy.arange(3))
    for store in (Store(url), Store(url, read_only=True), Store(posix)):
        with pytest.raises(esker.errors.Invalid, match="holds files"):
            list(zarr.open_group(store, mode="r").keys())
    assert zarr.open_array(url, path="t", mode="r")[:].tolist() == [0, 1, 2]
    assert "zarr" not in posix.attributes

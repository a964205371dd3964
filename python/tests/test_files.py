"""Files in a container."""

import io
import os
import pickle

import pytest

import esker


@pytest.fixture
def files(posix):
    """A file system, mounted."""
    return esker.FileSystem(posix)


def test_files_behave_like_those_of_python(files):
    with files.open("/a.txt", "w", encoding="utf-8") as file:
        file.write("one\ntwo\n")
    with files.open("a.txt") as file:
        assert file.readlines() == ["one\n", "two\n"] and file.mode == "r"
    with files.open("a.txt", "rb") as file:
        assert file.read() == b"one\ntwo\n" and file.seek(-4, io.SEEK_END) == 4
        assert file.read(3) == b"two" and file.tell() == 7 and file.seekable()
    with files.open("a.txt", "ab") as file:
        file.write(b"three\n")
    with files.open("a.txt", "r+b") as file:
        file.write(b"ONE")
        file.truncate(8)
        file.seek(0)
        assert file.read() == b"ONE\ntwo\n"
    with files.open("a.txt", "rb", buffering=0) as raw:
        place = bytearray(3)
        assert raw.readinto(place) == 3 and place == b"ONE" and raw.readall() == b"\ntwo\n"
        with pytest.raises(io.UnsupportedOperation):
            raw.fileno()
    with pytest.raises(ValueError, match="closed"):
        raw.read()


def test_files_on_each_backend(pool):
    label = f"files{os.getpid()}"
    data = bytes(range(256)) * 5000
    with pool.create_container(label, posix=True) as container:
        files = esker.FileSystem(container)
        files.mkdir("/d")
        with files.open("/d/a", "wb") as file:
            file.write(data)
        with files.open("/d/a", "rb") as file:
            file.seek(-7, io.SEEK_END)
            assert file.read() == data[-7:]
        files.rename("/d/a", "/b")
        assert sorted(files.listdir("/")) == ["b", "d"] and files.listdir("/d") == []
        with files.open("b", "rb") as file:
            assert file.read() == data
    pool.destroy_container(label, force=True)


def test_large_files(files):
    data = bytes(range(256)) * 20_000
    with files.open("large", "wb") as file:
        for begin in range(0, len(data), 10_007):
            file.write(data[begin : begin + 10_007])
    with files.open("large", "rb") as file:
        assert file.read() == data
    with files.open_file("large", "r+") as file:
        assert file.size() == len(data) and file.read(len(data) - 2, 10) == data[-2:]
        file.set_size(10)
        assert file.read(0, 100) == data[:10] and file.write(20, b"x") == 21
        assert file.read(8, 20) == data[8:10] + bytes(10) + b"x"


def test_modes(files):
    with pytest.raises(FileNotFoundError, match="gone"):
        files.open("gone")
    with files.open("a", "x"), pytest.raises(FileExistsError):
        files.open("a", "x")
    with pytest.raises(ValueError):
        files.open("a", "q")
    with files.open("a", "rb") as file, pytest.raises(io.UnsupportedOperation):
        file.write(b"x")
    for buffering in (0, -1):
        with files.open("a", "rb", buffering) as file, pytest.raises(ValueError, match="whence"):
            file.seek(0, 9)
    for text in ("encoding", "errors", "newline"):
        with pytest.raises(ValueError, match=f"takes no {text}"):
            files.open("a", "wb", **{text: ""})
    with files.open_file("a", "r") as file, pytest.raises(ValueError, match="writing"):
        file.write(0, b"x")
    file.close()
    assert file.closed
    with pytest.raises(ValueError, match="closed"):
        file.size()


def test_directories(files):
    files.mkdir("/run/step0", parents=True)
    files.mkdir("run/step0", parents=True)
    with pytest.raises(FileExistsError):
        files.mkdir("run")
    with pytest.raises(FileNotFoundError):
        files.mkdir("no/such")
    files.open("run/out", "w").close()
    assert sorted(files.listdir("run")) == ["out", "step0"]
    kinds = {name: stat["type"] for name, stat in files.scandir("run")}
    assert kinds == {"out": "file", "step0": "directory"}
    with pytest.raises(NotADirectoryError):
        files.listdir("run/out")
    with pytest.raises(OSError) as caught:
        files.rmdir("run")
    assert isinstance(caught.value, esker.errors.NotEmpty) and caught.value.errno == 39
    with pytest.raises(IsADirectoryError):
        files.remove("run/step0")
    with pytest.raises(FileExistsError):
        files.mkdir("run/out", parents=True)
    files.rename("run/step0", "run/step1")
    assert files.remove_tree("run") == 3 and files.listdir() == []


def test_links_to_nothing_lead_to_new_files(files):
    files.mkdir("d")
    files.symlink("d/link", "link")
    files.symlink("../new", "d/link")
    with files.open("link", "w") as file:
        file.write("12345")
    assert files.stat("new")["size"] == 5
    assert files.stat("link", follow=False)["type"] == "link"
    files.symlink("gone", "other")
    with pytest.raises(FileExistsError):
        files.open("other", "x")
    files.symlink("loop", "loop")
    with pytest.raises(OSError):
        files.open("loop", "w")


def test_attributes(files):
    with files.open("a", "w") as file:
        file.write("12345")
    files.set("a", mode=0o600, mtime=1e9)
    stat = files.stat("a")
    assert (stat["type"], stat["size"], stat["mode"], stat["mtime"]) == ("file", 5, 0o100600, 1e9)
    files.set("a", size=2)
    assert files.stat("a")["size"] == 2 and files.exists("a") and not files.exists("a/b")
    files.symlink("a", "link")
    assert files.readlink("link") == "a" and files.stat("link")["ino"] == stat["ino"]
    assert files.stat("link", follow=False)["type"] == "link"
    files.open("b", "w").close()
    with pytest.raises(FileExistsError):
        files.rename("a", "b", replace=False)
    files.rename("a", "b")
    assert files.stat("b")["size"] == 2 and 0 < files.space()[1] <= files.space()[0]


def test_unusual_names(files):
    for name in ("caf\u00e9", "a b", "\udcff\udcfe", "x" * 255):
        files.open(name, "w").close()
    assert sorted(files.listdir()) == sorted(["caf\u00e9", "a b", "\udcff\udcfe", "x" * 255])
    with pytest.raises(OSError) as caught:
        files.open("x" * 256, "w")
    assert isinstance(caught.value, esker.errors.NameTooLong)


def test_snapshots_and_read_only(posix, files):
    with files.open("a", "w") as file:
        file.write("old")
    before = posix.create_snapshot("before")
    files.open("a", "w").close()
    then = esker.FileSystem(posix.at(before))
    assert then.read_only and then.open("a").read() == "old"
    reader = esker.FileSystem(posix, read_only=True)
    for refused in (then, reader):
        with pytest.raises(OSError) as caught:
            refused.open("a", "w")
        assert isinstance(caught.value, esker.errors.ReadOnly)
    again = pickle.loads(pickle.dumps((files, then, reader)))
    assert [one.read_only for one in again] == [False, True, True]
    assert again[1].open("a").read() == "old" and again[2].open("a").read() == ""


def test_a_container_without_a_file_system_is_an_error(native):
    with pytest.raises(ValueError):
        esker.FileSystem(native)


def test_a_removed_file_remains_usable(files):
    with files.open("a", "w+b") as file:
        file.write(b"abc")
        files.remove("a")
        file.seek(0)
        assert file.read() == b"abc"
    assert files.listdir() == []


def test_open_files_pickle(files):
    with files.open("a", "w") as file:
        file.write("caf\u00e9\ntwo\nthree\n")
        with pytest.raises(TypeError, match="open for writing"):
            pickle.dumps(file.buffer.raw)
    with files.open("a", encoding="utf-8", newline="\n") as text, files.open("a", "rb") as data:
        assert text.readline() == "caf\u00e9\n" and data.read(2) == b"ca"
        text_again, data_again = pickle.loads(pickle.dumps((text, data)))
        assert text_again.read() == text.read() == "two\nthree\n" and text_again.encoding == "utf-8"
        assert data_again.tell() == 2 and data_again.read() == data.read() and data_again.size == 16
    with files.open("a", "rb", buffering=0) as raw:
        raw.seek(3)
        assert pickle.loads(pickle.dumps(raw)).read() == raw.read()
    for closed in (text, data, raw):
        with pytest.raises((TypeError, ValueError), match="closed"):
            pickle.dumps(closed)


@pytest.mark.parametrize("mode", ["r", "r+", "w", "w+", "a", "a+"])
def test_files_by_offset_pickle(files, mode):
    with files.open_file("a", "w") as file:
        file.write(0, b"12")
    with files.open_file("a", mode) as file:
        again = pickle.loads(pickle.dumps(file))
        assert (again.writable, again.size()) == (mode != "r", 0 if "w" in mode else 2)
        if mode != "r":
            again.write(0, b"3")
            assert file.size() == (3 if "a" in mode else 1 if "w" in mode else 2)
        again.close()
    with pytest.raises(ValueError, match="closed"):
        pickle.dumps(file)


def test_renaming_several_files(files):
    for name in "abc":
        files.open(name, "w").close()
    files.mkdir("d")
    with pytest.raises(FileExistsError):
        files.rename_all([("a", "d/a"), ("b", "c")], replace=False)
    with pytest.raises(ValueError, match="two renames"):
        files.rename_all([("a", "d/a"), ("b", "d/a")])
    assert sorted(files.listdir()) == ["a", "b", "c", "d"] and files.listdir("d") == []
    files.rename_all([("a", "d/a"), ("b", "c")])
    assert sorted(files.listdir()) == ["c", "d"] and files.listdir("d") == ["a"]


def test_a_file_system_is_opened_by_the_name_of_its_container(posix):
    name = f"{posix.pool.name}/{posix.label}"
    with esker.FileSystem(name).open("/a", "w") as file:
        file.write("text")
    reader = esker.FileSystem(name, read_only=True)
    assert reader.open("/a").read() == "text" and reader.read_only
    assert (reader.container.mode, reader.container.pool.mode) == ("r", "r")
    with pytest.raises(esker.NotFound):
        esker.FileSystem(f"{posix.pool.name}/none")
    with pytest.raises(esker.Invalid, match="tank/home"):
        esker.FileSystem("tank")
    with pytest.raises(TypeError, match="POOL/CONTAINER"):
        esker.FileSystem(7)

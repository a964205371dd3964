"""Python's own file interfaces: io, os, shutil, pathlib, tempfile, mmap, archives, processes."""
import concurrent.futures
import csv
import dbm.dumb
import errno
import fcntl
import filecmp
import fileinput
import glob
import io
import json
import mmap
import multiprocessing
import os
import pathlib
import pickle
import shelve
import shutil
import sqlite3
import stat
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile

import lib

DATA = bytes((i * 2654435761 >> 9) & 255 for i in range(300_000))


def fails(code, call, *args, **kwargs):
    try:
        call(*args, **kwargs)
    except OSError as error:
        assert error.errno == code, error
    else:
        raise AssertionError(f"{call} succeeds")


def test_open(_):
    with open("file", "wb") as file:
        assert file.write(DATA) == len(DATA)
        assert file.tell() == len(DATA)
    with open("file", "rb") as file:
        assert file.read() == DATA
        assert file.seek(1000) == 1000 and file.read(10) == DATA[1000:1010]
        assert file.seek(-5, io.SEEK_END) == len(DATA) - 5 and file.read() == DATA[-5:]
    with open("file", "r+b") as file:
        file.seek(100)
        file.write(b"changed")
        assert file.truncate(1000) == 1000
    assert pathlib.Path("file").read_bytes() == DATA[:100] + b"changed" + DATA[107:1000]
    with open("file", "ab", buffering=0) as file:
        assert file.write(b"end") == 3
    assert os.path.getsize("file") == 1003
    with open("text", "w", encoding="utf-8") as file:
        print("caf\u00e9", "two", sep="\n", file=file)
    with open("text", encoding="utf-8") as file:
        assert [line.strip() for line in file] == ["caf\u00e9", "two"]
    fails(errno.EEXIST, open, "text", "x")
    fails(errno.ENOENT, open, "none")
    fails(errno.EISDIR, open, ".")
    with open("both", "w+") as file:
        file.write("abc")
        file.seek(0)
        assert file.read() == "abc"
        assert not file.isatty() and file.fileno() > 2


def test_raw_descriptors(_):
    fd = os.open("file", os.O_RDWR | os.O_CREAT, 0o640)
    assert os.write(fd, DATA) == len(DATA)
    assert os.pread(fd, 10, 5000) == DATA[5000:5010]
    assert os.pwrite(fd, b"xyz", 5000) == 3
    assert os.writev(fd, [b"a", b"bc", b""]) == 3
    buffers = [bytearray(2), bytearray(3)]
    assert os.preadv(fd, buffers, 4999) == 5
    assert bytes(b"".join(buffers)) == DATA[4999:5000] + b"xyz" + DATA[5003:5004]
    assert os.pwritev(fd, [b"1", b"23"], 0) == 3
    assert os.lseek(fd, 0, os.SEEK_SET) == 0 and os.read(fd, 4) == b"123" + DATA[3:4]
    info = os.fstat(fd)
    assert info.st_size == len(DATA) + 3 and stat.S_ISREG(info.st_mode)
    assert stat.S_IMODE(info.st_mode) == 0o640 & ~0o022
    copy = os.dup(fd)
    assert os.lseek(copy, 0, os.SEEK_CUR) == 4
    os.close(fd)
    os.ftruncate(copy, 10)
    os.fsync(copy)
    os.fdatasync(copy)
    assert os.path.sameopenfile(copy, copy)
    os.posix_fallocate(copy, 0, 100)
    assert os.fstat(copy).st_size == 100
    os.posix_fadvise(copy, 0, 0, os.POSIX_FADV_WILLNEED)
    assert os.pread(copy, 200, 10) == bytes(90)
    os.close(copy)
    fails(errno.EBADF, os.fstat, copy)


def _copy_range(file, to, offset, length):
    """Number of bytes copied, or None if the kernel cannot copy between the two file systems."""
    left = length
    try:
        while left:
            left -= os.copy_file_range(file.fileno(), to.fileno(), left, offset + length - left)
    except OSError as error:
        assert error.errno == errno.EXDEV and left == length, error
        return None
    return length


def test_kernel_copies(outside):
    pathlib.Path("from").write_bytes(DATA)
    (outside / "plain").write_bytes(DATA)
    for source in ("from", outside / "plain"):
        with open(source, "rb") as file, open("to", "wb") as to:
            assert _copy_range(file, to, 0, len(DATA)) in (None, len(DATA))
        assert pathlib.Path("to").read_bytes() == (DATA if source == "from" or os.path.getsize("to") else b"")
        with open(source, "rb") as file, open("sent", "wb") as to:
            offset = 7
            while sent := os.sendfile(to.fileno(), file.fileno(), offset, 100_000):
                offset += sent
        assert pathlib.Path("sent").read_bytes() == DATA[7:]
    with open("from", "rb") as file, open(outside / "out", "wb") as to:
        if _copy_range(file, to, 50, 1000):
            assert (outside / "out").read_bytes() == DATA[50:1050]
    shutil.copyfile("from", outside / "copied")
    shutil.copyfile(outside / "copied", "back")
    assert filecmp.cmp("from", "back", shallow=False)
    reader, writer = os.pipe()
    with open("from", "rb") as file:
        assert os.sendfile(writer, file.fileno(), 0, 1000) == 1000
        assert os.splice(file.fileno(), writer, 100, offset_src=1000) == 100
    assert os.read(reader, 4096) == DATA[:1100]


def test_directories(_):
    os.makedirs("a/b/c")
    for name in ("one", "two", "a/three", "a/b/c/four"):
        pathlib.Path(name).write_text(name)
    os.symlink("b", "a/link")
    assert sorted(os.listdir()) == ["a", "one", "two"]
    with os.scandir("a") as entries:
        kinds = {e.name: (e.is_dir(), e.is_symlink(), e.is_file()) for e in entries}
    assert kinds == {
        "b": (True, False, False), "link": (True, True, False), "three": (False, False, True)}
    assert {e.name: e.inode() for e in os.scandir("a")}["b"] == os.stat("a/b").st_ino
    walked = [(top, sorted(dirs), sorted(files)) for top, dirs, files in os.walk("a")]
    assert walked[0] == ("a", ["b", "link"], ["three"]) and len(walked) == 3
    assert len(list(os.fwalk("a"))) == 3
    assert sorted(glob.glob("**/*o*", recursive=True)) == [
        "a/b/c/four", "a/link/c/four", "one", "two"]
    assert sorted(map(str, pathlib.Path(".").rglob("t*"))) == ["a/three", "two"]
    fails(errno.ENOTEMPTY, os.rmdir, "a")
    fails(errno.EEXIST, os.mkdir, "a")
    fails(errno.ENOTDIR, os.listdir, "one")
    os.rename("a/b", "a/moved")
    assert not os.path.exists("a/link") and os.path.lexists("a/link")
    shutil.copytree("a", "copy", symlinks=True)
    assert os.readlink("copy/link") == "b" and not filecmp.dircmp("a", "copy").left_only
    shutil.move("copy", "elsewhere")
    shutil.rmtree("elsewhere")
    shutil.rmtree("a")
    assert sorted(os.listdir()) == ["one", "two"]


def test_directory_descriptors(_):
    os.mkdir("d")
    d = os.open("d", os.O_RDONLY | os.O_DIRECTORY)
    fd = os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=d)
    os.write(fd, b"text")
    os.close(fd)
    assert os.stat("file", dir_fd=d).st_size == 4 and os.listdir(d) == ["file"]
    os.symlink("file", "link", dir_fd=d)
    assert os.readlink("link", dir_fd=d) == "file"
    assert stat.S_ISLNK(os.stat("link", dir_fd=d, follow_symlinks=False).st_mode)
    os.rename("file", "renamed", src_dir_fd=d, dst_dir_fd=d)
    os.mkdir("sub", dir_fd=d)
    os.chmod("renamed", 0o600, dir_fd=d)
    os.utime("renamed", (1, 2), dir_fd=d)
    assert os.access("renamed", os.W_OK, dir_fd=d) and not os.access("none", os.F_OK, dir_fd=d)
    assert os.stat("d/renamed").st_mtime == 2
    os.unlink("renamed", dir_fd=d)
    os.rmdir("sub", dir_fd=d)
    here = os.getcwd()
    os.fchdir(d)
    assert os.getcwd() == os.path.join(here, "d") and os.listdir() == ["link"]
    os.chdir("..")
    assert os.getcwd() == here and os.path.realpath("d/../d") == os.path.join(here, "d")
    os.fsync(d)
    os.close(d)


def test_attributes(_):
    path = pathlib.Path("file")
    path.write_text("x")
    os.chmod(path, 0o751)
    assert stat.S_IMODE(path.stat().st_mode) == 0o751
    os.utime(path, ns=(10**18 + 123456789, 10**18 + 987654321))
    assert path.stat().st_mtime_ns == 10**18 + 987654321
    with open(path, "ab") as file:
        os.utime(file.fileno(), (5, 6))
        os.fchmod(file.fileno(), 0o600)
        assert os.fstat(file.fileno()).st_mtime == 6
    before = time.time()
    path.write_text("y")
    assert path.stat().st_mtime > before - 2
    try:
        os.setxattr(path, "user.key", b"value")
    except OSError as error:
        assert error.errno == errno.ENOTSUP
    else:
        assert os.getxattr(path, "user.key") == b"value" and "user.key" in os.listxattr(path)
        os.removexattr(path, "user.key")
        fails(errno.ENODATA, os.getxattr, path, "user.key")
    space = os.statvfs(".")
    assert space.f_blocks > 0 and shutil.disk_usage(".").total == space.f_blocks * space.f_frsize
    assert os.path.samefile("file", "./file") and not os.path.ismount("file")
    try:
        os.link("file", "hard")
    except OSError as error:
        assert error.errno in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS)
    else:
        assert os.path.samefile("file", "hard") and os.stat("hard").st_nlink == 2


def test_rename_and_unlinked(_):
    pathlib.Path("old").write_text("old")
    pathlib.Path("new").write_text("new")
    with open("old") as file:
        os.replace("new", "old")
        assert file.read() == "old" and os.fstat(file.fileno()).st_nlink == 0
    assert pathlib.Path("old").read_text() == "new" and os.listdir() == ["old"]
    with open("old", "r+") as file:
        os.unlink("old")
        file.write("more")
        file.flush()
        file.seek(0)
        assert file.read() == "more" and os.fstat(file.fileno()).st_size == 4
    assert os.listdir() == []


def test_temporary_files(_):
    with tempfile.TemporaryFile(dir=".") as file:
        file.write(DATA)
        file.seek(10)
        assert file.read(5) == DATA[10:15]
    with tempfile.NamedTemporaryFile(dir=".") as file:
        file.write(b"x")
        file.flush()
        assert os.path.getsize(file.name) == 1
    with tempfile.TemporaryDirectory(dir=".") as name:
        pathlib.Path(name, "file").write_text("x")
    assert os.listdir() == []


def test_mappings(_):
    pathlib.Path("file").write_bytes(DATA)
    with open("file", "rb") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as view:
            assert view[:] == DATA and view.find(DATA[4000:4100]) == 4000
        with mmap.mmap(file.fileno(), 8192, prot=mmap.PROT_READ, offset=8192) as view:
            assert view[:] == DATA[8192:16384]
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY) as view:
            view[:5] = b"local"
            assert view[:6] == b"local" + DATA[5:6]
    assert pathlib.Path("file").read_bytes() == DATA
    with open("file", "r+b") as file:
        try:
            view = mmap.mmap(file.fileno(), 0)
        except OSError as error:
            assert error.errno in (errno.ENODEV, errno.ENOTSUP, errno.EACCES)
        else:
            view[100:105] = b"share"
            view.flush()
            view.close()
            assert pathlib.Path("file").read_bytes()[99:106] == DATA[99:100] + b"share" + DATA[105:106]


def test_locks(_):
    with open("file", "w") as one:
        fcntl.flock(one, fcntl.LOCK_EX)
        with open("file") as two:
            fails(errno.EWOULDBLOCK, fcntl.flock, two, fcntl.LOCK_SH | fcntl.LOCK_NB)
            fcntl.flock(one, fcntl.LOCK_UN)
            fcntl.flock(two, fcntl.LOCK_SH | fcntl.LOCK_NB)
        fcntl.lockf(one, fcntl.LOCK_EX | fcntl.LOCK_NB, 10, 5)
        code = ("import fcntl, sys\nf = open('file', 'r+')\nfcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 5, 0)\n"
                "try: fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, 7)\nexcept OSError: sys.exit(3)")
        assert subprocess.call([sys.executable, "-c", code]) == 3


def test_archives(outside):
    os.makedirs("t/sub")
    pathlib.Path("t/large").write_bytes(DATA)
    pathlib.Path("t/sub/small").write_text("small")
    os.symlink("sub/small", "t/link")
    with tarfile.open("t.tar.gz", "w:gz") as archive:
        archive.add("t")
    with tarfile.open("t.tar.gz") as archive:
        archive.extractall("x")
    assert os.readlink("x/t/link") == "sub/small"
    assert not filecmp.dircmp("t", "x/t").diff_files
    with zipfile.ZipFile("t.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write("t/large")
        archive.writestr("made", "here")
    with zipfile.ZipFile("t.zip") as archive:
        assert archive.testzip() is None and archive.read("t/large") == DATA
        archive.extractall(outside / "unzipped")
    assert (outside / "unzipped/t/large").read_bytes() == DATA
    assert shutil.make_archive("again", "zip", "t") == os.path.abspath("again.zip")


def test_formats(_):
    thing = {"list": list(range(1000)), "text": "x" * 1000, "none": None}
    for module, mode in ((pickle, "b"), (json, "")):
        with open("thing", "w" + mode) as file:
            module.dump(thing, file)
        with open("thing", "r" + mode) as file:
            assert module.load(file) == thing
    with open("t.csv", "w", newline="") as file:
        csv.writer(file).writerows([[i, f"name {i}"] for i in range(1000)])
    with open("t.csv", newline="") as file:
        assert list(csv.reader(file))[999] == ["999", "name 999"]
    with dbm.dumb.open("dumb", "c") as database:
        database["key"] = "value"
    with dbm.dumb.open("dumb") as database:
        assert database["key"] == b"value"
    with shelve.open("shelf") as shelf:
        shelf["thing"] = thing
    with shelve.open("shelf") as shelf:
        assert shelf["thing"] == thing
    connection = sqlite3.connect("db")
    with connection:
        connection.execute("CREATE TABLE t(a, b)")
        connection.executemany("INSERT INTO t VALUES(?, ?)", ((i, str(i)) for i in range(5000)))
    connection.close()
    assert sqlite3.connect("db").execute("SELECT sum(a) FROM t").fetchone() == (12497500,)
    pathlib.Path("lines").write_text("one\ntwo\n")
    for line in fileinput.input("lines", inplace=True):
        print(line.upper(), end="")
    assert pathlib.Path("lines").read_text() == "ONE\nTWO\n"


def test_modules(_):
    os.makedirs("package/inner")
    pathlib.Path("package/__init__.py").write_text("from .part import value\n")
    pathlib.Path("package/part.py").write_text("value = 42\n")
    pathlib.Path("package/inner/__init__.py").write_text("deep = 'yes'\n")
    code = "import package.inner, package; print(package.value, package.inner.deep)"
    environment = {**os.environ, "PYTHONPATH": os.getcwd(), "PYTHONDONTWRITEBYTECODE": ""}
    for _ in range(2):
        said = subprocess.check_output([sys.executable, "-c", code], env=environment)
        assert said == b"42 yes\n"
    assert len(glob.glob("package/**/__pycache__/*.pyc", recursive=True)) == 3
    with zipfile.ZipFile("z.zip", "w") as archive:
        archive.writestr("zipped.py", "value = 7\n")
    sys.path.insert(0, os.path.abspath("z.zip"))
    import zipped
    assert zipped.value == 7


def test_children(outside):
    with open("out", "w") as out, open("err", "w") as err:
        subprocess.run(["sh", "-c", "echo out; echo err >&2; cat"], stdin=open("/dev/null"), stdout=out, stderr=err, check=True)
    assert (pathlib.Path("out").read_text(), pathlib.Path("err").read_text()) == ("out\n", "err\n")
    with open("out") as file:
        assert subprocess.check_output(["cat"], stdin=file) == b"out\n"
    os.mkdir("d")
    subprocess.run(["sh", "-c", "echo here >file"], cwd="d", check=True)
    assert pathlib.Path("d/file").read_text() == "here\n"
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", "echo spawned; cat d/file"], os.environ, file_actions=[
        (os.POSIX_SPAWN_OPEN, 1, "spawned", os.O_WRONLY | os.O_CREAT, 0o644)])
    assert os.waitpid(pid, 0)[1] == 0
    assert pathlib.Path("spawned").read_text() == "spawned\nhere\n"
    fd = os.open("inherited", os.O_RDWR | os.O_CREAT)
    subprocess.run(["sh", "-c", f"echo through >&{fd}"], pass_fds=[fd], check=True)
    assert os.pread(fd, 100, 0) == b"through\n"


def _part(number):
    with open("shared", "r+b") as file:
        file.seek(number * 1000)
        file.write(DATA[number * 1000:(number + 1) * 1000])
    pathlib.Path(f"part{number}").write_bytes(DATA[:number])
    return os.path.getsize("shared")


def test_processes_and_threads(_):
    for how in ("fork", "spawn"):
        pathlib.Path("shared").write_bytes(bytes(20_000))
        with multiprocessing.get_context(how).Pool(4) as pool:
            assert pool.map(_part, range(20)) == [20_000] * 20
        assert pathlib.Path("shared").read_bytes() == DATA[:20_000]
        assert [os.path.getsize(f"part{i}") for i in range(20)] == list(range(20))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        sizes = list(pool.map(lambda i: pathlib.Path(f"t{i}").write_bytes(DATA[:i * 100]), range(50)))
    assert sizes == [os.path.getsize(f"t{i}") for i in range(50)]


def _replace_often(name, times):
    for number in range(times):
        pathlib.Path("fresh").write_bytes(bytes([number % 256]) * 1000)
        os.replace("fresh", name)


def test_a_name_replaced_by_renames_always_exists(_):
    pathlib.Path("settings").write_bytes(bytes(1000))
    writer = multiprocessing.get_context("fork").Process(target=_replace_often, args=("settings", 500))
    writer.start()
    while writer.is_alive():
        data = pathlib.Path("settings").read_bytes()
        assert len(data) == 1000 and len(set(data)) == 1, (len(data), set(data))
        os.chmod("settings", 0o640)
        os.setxattr("settings", "user.seen", b"yes")
        with open("settings") as held:
            os.chmod(held.fileno(), 0o600)
            os.utime(held.fileno())
            os.setxattr(held.fileno(), "user.seen", b"again")
            assert "user.seen" in os.listxattr(held.fileno())
    writer.join()
    assert writer.exitcode == 0


def test_files_moved_and_removed_by_others_while_open(_):
    held = os.open("file", os.O_RDWR | os.O_CREAT, 0o644)
    os.write(held, b"content")
    subprocess.run(["mv", "file", "moved"], check=True)
    os.fchmod(held, 0o600)
    os.utime(held, (1, 2))
    os.setxattr(held, "user.a", b"1")
    seen = os.stat("moved")
    assert (seen.st_mode & 0o777, seen.st_mtime, seen.st_nlink) == (0o600, 2, 1), seen
    assert os.getxattr("moved", "user.a") == b"1"
    assert pathlib.Path(f"/proc/self/fd/{held}").read_bytes() == b"content"
    os.lseek(held, 0, os.SEEK_SET)
    assert subprocess.run(["cat"], stdin=held, capture_output=True, check=True).stdout == b"content"
    subprocess.run(["rm", "moved"], check=True)
    os.setxattr(held, "user.b", b"2")
    assert sorted(os.listxattr(held)) == ["user.a", "user.b"]
    seen = os.fstat(held)
    assert (seen.st_mode & 0o777, seen.st_size, seen.st_nlink) == (0o600, 7, 0), seen
    # Only a child has it open; as another program, the child accesses it at the very end.
    ready, go = os.pipe()
    os.set_inheritable(held, True)
    if os.fork() == 0:
        os.close(go)
        os.read(ready, 1)
        check = f"import os; exit(os.pread({held}, 9, 0) != b'content' or os.fstat({held}).st_nlink)"
        os.execv(sys.executable, [sys.executable, "-c", check])
    os.close(held)
    os.close(go)
    assert os.wait()[1] == 0


def test_record_locks_survive_actions_of_their_owner(_):
    held = os.open("file", os.O_RDWR | os.O_CREAT)
    ready, go = os.pipe()
    locked, tell = os.pipe()
    child = os.fork()
    if child == 0:
        os.read(ready, 1)
        fcntl.lockf(held, fcntl.LOCK_EX)
        os.rename("file", "moved")
        os.write(tell, b"x")
        os.read(ready, 1)
        os._exit(0)
    os.close(held)
    os.write(go, b"x")
    os.read(locked, 1)
    with open("moved", "r+") as other:
        fails(errno.EAGAIN, fcntl.lockf, other, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.write(go, b"x")
        fcntl.lockf(other, fcntl.LOCK_EX)
    assert os.waitpid(child, 0)[1] == 0


def test_a_fork_with_many_open_files_leaves_free_descriptors(_):
    code = """
import os
held = [os.open(f"file{i}", os.O_RDWR | os.O_CREAT) for i in range(600)]
if os.fork() == 0:
    os._exit(0 if all(os.pwrite(fd, b"x", 0) == 1 for fd in held) else 1)
assert os.wait()[1] == 0
os.close(os.open("/etc/passwd", os.O_RDONLY))
os.close(os.open("one more", os.O_RDWR | os.O_CREAT))
"""
    limited = f"ulimit -n 1024; exec {sys.executable} -"
    subprocess.run(["sh", "-c", limited], input=code, text=True, check=True)


def test_unusual_uses_of_descriptors(_):
    kept = os.open("kept", os.O_RDWR | os.O_CREAT)
    os.dup2(kept, 200)
    os.write(200, b"via 200")
    os.closerange(100, 300)
    fails(errno.EBADF, os.write, 200, b"x")
    assert os.pread(kept, 10, 0) == b"via 200"
    saved = os.dup(1)
    os.dup2(kept, 1)
    os.system("echo system")
    os.dup2(saved, 1)
    assert os.pread(kept, 20, 7) == b"system\n"
    if os.fork() == 0:
        os.closerange(3, 4096)
        pathlib.Path("afterwards").write_text("works")
        os._exit(0)
    assert os.wait()[1] == 0 and pathlib.Path("afterwards").read_text() == "works"


if __name__ == "__main__":
    lib.run_tests(globals())

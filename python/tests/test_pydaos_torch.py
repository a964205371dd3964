"""The datasets and checkpoints of DAOS's Python interface. Skipped where PyTorch is not installed."""

import errno
import hashlib
import io
import os
import subprocess
import sys
import time

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import esker  # noqa: E402
from pydaos.torch import Checkpoint, Dataset, IterableDataset  # noqa: E402

COUNT = 50


@pytest.fixture
def files(posix):
    """A file system with samples in folders."""
    files = esker.FileSystem(posix)
    for number in range(COUNT):
        folder = f"/samples/{number % 4}/{number % 3}"
        files.mkdir(folder, parents=True)
        with files.open(f"{folder}/{number}", "wb") as file:
            file.write(os.urandom(1000 + number))
    return files


@pytest.fixture
def place(posix):
    """Pool and container."""
    return posix.pool.name, posix.label


def digest(data):
    """A digest of a sample."""
    return hashlib.sha256(data).hexdigest()


def digests(files, folder="/samples"):
    """Digests of all samples, sorted."""
    found = []
    for name, stat in files.scandir(folder):
        path = f"{folder}/{name}"
        if stat["type"] == "directory":
            found += digests(files, path)
        else:
            with files.open(path, "rb") as file:
                found.append(digest(file.read()))
    return sorted(found)


def same(batch):
    """Leave a batch as it is: samples have several sizes."""
    return batch


def test_a_dataset(files, place):
    with Dataset(*place, transform_fn=digest) as dataset:
        assert len(dataset) == len(dataset.objects) == COUNT
        assert sorted(dataset) == digests(files) == sorted(dataset.__getitems__(range(COUNT)))
        path, size = dataset.objects[-1]
        assert path == max(dataset.objects[:])[0] and size == files.stat(path)["size"]
        assert dataset[COUNT - 1] == dataset[-1]
    dataset.close()
    assert len(Dataset(*place, path="/samples/1/1")) == len(files.listdir("/samples/1/1"))
    assert isinstance(Dataset(*place, path="/samples")[0], bytearray)


def test_datasets_refuse_invalid_arguments(place):
    with pytest.raises(ValueError, match="relative"):
        Dataset(*place, path="samples")
    with pytest.raises(ValueError, match="container are required"):
        Dataset(place[0])
    with pytest.raises(OSError, match="missing"):
        IterableDataset(place[0], "missing")


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.parametrize("kind", [Dataset, IterableDataset])
def test_workers(files, place, kind, method):
    dataset = kind(*place, transform_fn=digest)
    options = {"num_workers": 2, "multiprocessing_context": method, "worker_init_fn": dataset.worker_init}
    loader = torch.utils.data.DataLoader(dataset, batch_size=7, collate_fn=same, **options)
    assert sorted(found for batch in loader for found in batch) == digests(files)


def test_an_iterable_dataset(files, place):
    with IterableDataset(*place, transform_fn=digest, batch_size=8) as dataset:
        assert sorted(dataset) == digests(files) and len(dataset.objects) == COUNT


@pytest.mark.parametrize("chunk", [0, 1000, 1 << 20])
def test_a_checkpoint_reads_back(place, chunk):
    writes = [os.urandom(size) for size in (1, 999, 70_000, 0, 1000, 3_000_000)]
    with Checkpoint(*place, prefix="/deep/down", transfer_chunk_size=chunk) as checkpoints:
        with checkpoints.writer("step-1") as file:
            for number, data in enumerate(writes):
                assert file.write(data) == len(data)
                assert file.tell() == sum(map(len, writes[: number + 1]))
            file.flush()
        assert file.closed and not file.readable() and not file.seekable()
        assert checkpoints.reader("step-1").getvalue() == b"".join(writes)
        stream = io.BytesIO()
        assert checkpoints.reader("step-1", stream) is stream and stream.read() == b"".join(writes)
        with pytest.raises(ValueError, match="closed"):
            file.write(b"late")


def test_a_model_in_a_checkpoint(place):
    model = torch.nn.Linear(300, 200)
    checkpoints = Checkpoint(*place)
    with checkpoints.writer("model.pt") as file:
        torch.save(model.state_dict(), file)
    again = torch.load(checkpoints.reader("/model.pt"), weights_only=True)
    assert all(torch.equal(again[name], value) for name, value in model.state_dict().items())


def test_folders_of_a_checkpoint(posix, place):
    checkpoints = Checkpoint(*place, mode=0o600)
    with pytest.raises(OSError) as caught:
        checkpoints.writer("no/folder.pt", ensure_path=False)
    assert caught.value.errno == errno.ENOENT
    with checkpoints.writer("/a/b/c.pt") as file:
        file.write(b"1")
    assert esker.FileSystem(posix).stat("/a/b/c.pt")["mode"] & 0o777 == 0o600
    with pytest.raises(FileNotFoundError):
        checkpoints.reader("missing")
    for refused in (checkpoints.reader, checkpoints.writer):
        with pytest.raises(ValueError, match="required"):
            refused(None)


def test_a_checkpoint_that_fails_leaves_the_old_one(posix, place):
    checkpoints = Checkpoint(*place, transfer_chunk_size=1000)
    with checkpoints.writer("last") as file:
        file.write(b"old" * 1000)
    with pytest.raises(RuntimeError, match="in the middle"), checkpoints.writer("last") as file:
        file.write(b"new" * 1000)
        raise RuntimeError("in the middle")
    checkpoints.writer("last").write(b"never closed")
    assert checkpoints.reader("last").getvalue() == b"old" * 1000
    assert esker.FileSystem(posix).listdir("/") == ["last"]


KILLED = """
import os, signal, sys
from pydaos.torch import Checkpoint
file = Checkpoint(sys.argv[1], sys.argv[2], transfer_chunk_size=1000).writer("last")
file.write(b"new" * 10_000)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_writer_leaves_the_old_checkpoint(posix, place):
    files, checkpoints = esker.FileSystem(posix), Checkpoint(*place)
    for number in range(3):
        with checkpoints.writer("last") as file:
            file.write(b"%d" % number)
        assert files.listdir("/") == ["last"]
        subprocess.run([sys.executable, "-c", KILLED, *place], check=False)
        assert checkpoints.reader("last").getvalue() == b"%d" % number
        (left,) = set(files.listdir("/")) - {"last"}
        assert left.startswith("last.") and left.endswith(".part")
        files.set(left, mtime=time.time() - 25 * 3600)


def test_each_of_several_writers_stores_its_own_checkpoint(posix, place):
    one, two = (Checkpoint(*place, transfer_chunk_size=1000) for _ in range(2))
    with one.writer("last") as first:
        first.write(b"1" * 3000)
        with two.writer("last") as second:
            second.write(b"2" * 2000)
        assert one.reader("last").getvalue() == b"2" * 2000
        first.write(b"1" * 3000)
    assert one.reader("last").getvalue() == b"1" * 6000
    assert esker.FileSystem(posix).listdir("/") == ["last"]

"""Distributed checkpoints and safetensors. Skipped where PyTorch is not installed."""

import os
import signal
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

dcp = pytest.importorskip("torch.distributed.checkpoint", reason="PyTorch has no distributed checkpoints")

from killing import KILLS, expect_room, killed, moments, room  # noqa: E402
from torch.distributed.checkpoint.api import CheckpointException  # noqa: E402

import esker.torch  # noqa: E402
from esker._files import RawFile  # noqa: E402
from esker.torch._checkpoint import _Files  # noqa: E402

MIB = 1 << 20


def state(number):
    """Tensors that all have a number, and an object."""
    tensors = {f"layer {at}": torch.full((200, at + 1), float(number)) for at in range(20)}
    return {"model": tensors, "step": number, "name": f"state {number}"}


def saved(files, folder="/last"):
    """The number in a checkpoint, which all its tensors have."""
    found = state(-1)
    dcp.load(found, storage_reader=esker.torch.CheckpointReader(folder, files=files))
    numbers = {found["step"], *(value.unique().item() for value in found["model"].values())}
    assert len(numbers) == 1 and found["name"] == f"state {found['step']}", numbers
    return found["step"]


@pytest.fixture
def files(posix):
    """A file system on the native pool."""
    return esker.FileSystem(posix)


def save(files, number, folder="/last", **options):
    """Save a state."""
    writer = esker.torch.CheckpointWriter(folder, files=files, **options)
    dcp.save(state(number), storage_writer=writer)


def test_checkpoints_replace_each_other(files):
    for number in range(3):
        save(files, number, thread_count=2)
        assert saved(files) == number
        names = files.listdir("/last")
        assert sorted(name.split(".")[-1] for name in names) == ["distcp", "distcp", "metadata"]
    with pytest.raises(CheckpointException, match="already exists"):
        save(files, 3, overwrite=False)
    save(files, 4, "/deep/down", overwrite=False, single_file_per_rank=False)
    assert saved(files) == 2 and saved(files, "deep/down/") == 4


def test_checkpoints_by_url(tmp_path, monkeypatch):
    monkeypatch.setenv("ESKER_POOLS", str(tmp_path))
    esker.Pool.create("tank", 64 * MIB, dir=tmp_path).create_container("checkpoints", posix=True)
    url = "esker://tank/checkpoints/last"
    writer = esker.torch.CheckpointWriter(url)
    dcp.save(state(7), storage_writer=writer)
    found = state(0)
    dcp.load(found, storage_reader=esker.torch.CheckpointReader(url))
    assert found["step"] == 7 and writer.validate_checkpoint_id(url)
    dcp.save(state(8), checkpoint_id="esker://tank/checkpoints/next", storage_writer=writer)
    dcp.load(found, storage_reader=esker.torch.CheckpointReader("esker://tank/checkpoints/next"))
    assert found["step"] == 8
    for kind in (esker.torch.CheckpointReader, esker.torch.CheckpointWriter):
        assert not kind.validate_checkpoint_id("/tmp/last")
        with pytest.raises(ValueError, match="in no container"):
            kind("/last")


def test_a_rank_that_fails_leaves_the_old_checkpoint(files, monkeypatch):
    save(files, 1)
    monkeypatch.setattr(esker.torch.CheckpointWriter, "finish", lambda *_, **options: 1 / 0)
    with pytest.raises(CheckpointException, match="division"):
        save(files, 2)
    assert saved(files) == 1 and len(files.listdir("/last")) == 3
    monkeypatch.undo()
    save(files, 3)
    assert saved(files) == 3 and len(files.listdir("/last")) == 2


RANKS = """
import sys, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp, esker.torch
rank, store, pool, container = int(sys.argv[1]), *sys.argv[2:]
dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
files = esker.FileSystem(esker.Pool(pool).container(container))
for number in range(3):
    mine = {f"rank {rank}": torch.full((1000,), float(number)), "shared": torch.tensor([float(number)])}
    dcp.save(mine, storage_writer=esker.torch.CheckpointWriter("/last", files=files))
    found = {name: torch.zeros_like(value) for name, value in mine.items()}
    dcp.load(found, storage_reader=esker.torch.CheckpointReader("/last", files=files))
    assert all(torch.equal(found[name], mine[name]) for name in mine), found
dist.destroy_process_group()
"""


def test_two_ranks_save_one_checkpoint(files, posix, tmp_path):
    if not torch.distributed.is_available():
        pytest.skip("this PyTorch has no torch.distributed")
    arguments = [tmp_path / "store", posix.pool.name, posix.label]
    loopback = {**os.environ, "GLOO_SOCKET_IFNAME": "lo"}
    commands = [[sys.executable, "-c", RANKS, str(rank), *arguments] for rank in range(2)]
    ranks = [subprocess.Popen(command, env=loopback) for command in commands]
    assert [rank.wait() for rank in ranks] == [0, 0]
    assert len(files.listdir("/last")) == 3


def die_at(monkeypatch, step):
    """Let this process kill itself before one of its calls of the file system, counted from 1 on."""
    left = iter(range(step - 1, -1, -1))

    def counted(method):
        def call(*arguments, **options):
            if next(left) == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return method(*arguments, **options)

        return call

    for owner, name in [(RawFile, "write"), (RawFile, "close")]:
        monkeypatch.setattr(owner, name, counted(getattr(owner, name)))
    for name in ("create_stream", "rename", "mkdir", "rm_file", "sweep"):
        monkeypatch.setattr(_Files, name, counted(getattr(_Files, name)))


def killed_at(files, number, step):
    """Save in a child that dies at a step; return whether it did."""
    child = os.fork()
    if child == 0:
        try:
            with pytest.MonkeyPatch.context() as monkeypatch:
                die_at(monkeypatch, step)
                save(files, number)
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    assert status in (0, signal.SIGKILL)
    return status == signal.SIGKILL


def test_a_save_killed_at_any_step_leaves_the_old_or_the_new_checkpoint(files):
    number, step, seen = 0, 0, set()
    save(files, number)
    while killed_at(files, number + 1, step := step + 1):
        found = saved(files)
        assert found in (number, number + 1)
        seen.add(found - number)
        number = found
    assert saved(files) == number + 1 and len(files.listdir("/last")) == 2
    assert seen == {0, 1} and step > 8


def tensors():
    """Tensors of several types and sizes."""
    made = {
        "large": torch.arange(3 * MIB, dtype=torch.int16),
        "weights": torch.randn(300, 200),
        "half": torch.randn(1001).half(),
        "brain": torch.randn(33, 44).bfloat16(),
        "mask": torch.rand(5000) > 0.5,
        "scalar": torch.tensor(3.5, dtype=torch.float64),
        "empty": torch.empty(0, 7),
        "column": torch.randn(200, 300).t(),
    }
    return made


def equal(one, other):
    """Whether two dicts of tensors are the same."""
    assert one.keys() == other.keys()
    return all(
        torch.equal(value, other[name]) and value.dtype == other[name].dtype for name, value in one.items()
    )


def save_forever(files, pipe, number):
    """Save checkpoint after checkpoint."""
    while True:
        number += 1
        os.write(pipe, b"b")
        save(files, number)
        os.write(pipe, b"e")


def test_saves_killed_at_random_moments_leave_the_old_or_the_new_checkpoint(files, posix):
    draws, before, number = moments(), room(posix.pool), 0
    save(files, number)
    for _ in range(KILLS):
        told = killed(lambda pipe: save_forever(files, pipe, number), draws, range(1, 4))  # noqa: B023
        found = saved(files)
        assert number + told.count(b"e") <= found <= number + told.count(b"b")
        number = found
    save(files, number + 1)
    assert saved(files) == number + 1 and len(files.listdir("/last")) == 2, (
        "what the killed ones wrote is gone"
    )
    files.remove_tree("/last")
    # Opening a file system removes files that killed processes had open when they were removed.
    esker.FileSystem(posix)
    expect_room(posix.pool, before)


def test_safetensors_in_an_array(container):
    kept = tensors()
    array = esker.torch.save_safetensors(kept, container, "weights", {"made by": "a test"})
    assert equal(esker.torch.load_safetensors(array), kept)
    again = esker.torch.load_safetensors(container.array("weights"), copy=True)
    for tensor in again.values():
        tensor.zero_()
    assert equal(esker.torch.load_safetensors(array), kept)
    with pytest.raises(esker.Exists, match="destroy"):
        esker.torch.save_safetensors(kept, container, "weights")


def test_a_failed_save_of_safetensors_leaves_nothing(container, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    kept = tensors()
    with monkeypatch.context() as patch:
        patch.setattr(esker.Array, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            esker.torch.save_safetensors(kept, container, "weights")
    array = esker.torch.save_safetensors(kept, container, "weights")
    assert equal(esker.torch.load_safetensors(array), kept)


@pytest.mark.usefixtures("one_node")
def test_safetensors_are_not_copied(native):
    array = esker.torch.save_safetensors(tensors(), native, "weights")
    first, second = esker.torch.load_safetensors(array), esker.torch.load_safetensors(array)
    same = {name for name, tensor in first.items() if tensor.data_ptr() == second[name].data_ptr() != 0}
    assert same == {"weights", "half", "brain", "mask", "column"}
    array.destroy()
    esker.torch.save_safetensors({"other": torch.zeros(4 * MIB)}, native, "other")
    assert equal(first, second) and first["weights"].sum() == second["weights"].clone().sum()


def test_safetensors_are_those_of_the_library(native, files, tmp_path, monkeypatch):
    library = pytest.importorskip("safetensors.torch", reason="safetensors is not installed")
    kept = {name: tensor.contiguous() for name, tensor in tensors().items()}
    array = esker.torch.save_safetensors(kept, native, "weights", {"made by": "a test"})
    assert equal(library.load(array.read(0, array.size())), kept)
    monkeypatch.setenv("ESKER_POOLS", str(tmp_path))
    container = esker.Pool.create("tank", 64 * MIB, dir=tmp_path).create_container("files", posix=True)
    with esker.FileSystem(container).open("/model.safetensors", "wb") as file:
        file.write(library.save(kept, {"made by": "the library"}))
    assert equal(esker.torch.load_safetensors("esker://tank/files/model.safetensors"), kept)


def test_invalid_safetensors_are_refused(native):
    array = native.create_array("weights")
    with pytest.raises(esker.Invalid, match="not finished"):
        esker.torch.load_safetensors(array)
    header = b'{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}'
    array.write(0, len(header).to_bytes(8, "little") + header)
    with pytest.raises(esker.Invalid, match="'a' has 8 bytes"):
        esker.torch.load_safetensors(array)
    whole = header.replace(b"[3]", b"[2]")
    array.write(0, len(whole).to_bytes(8, "little") + whole + bytes(7))
    for copy in (None, True):
        with pytest.raises(esker.Invalid, match="ends before byte"):
            esker.torch.load_safetensors(array, copy=copy)
    array.write(0, len(header).to_bytes(8, "little") + header.replace(b"F32", b"F33"))
    with pytest.raises(TypeError, match="F33"):
        esker.torch.load_safetensors(array)
    with pytest.raises(ValueError, match="no tensor can have the name '__metadata__'"):
        esker.torch.save_safetensors({"__metadata__": torch.zeros(2)}, native, "b")
    with pytest.raises(TypeError, match="complex128"):
        esker.torch.save_safetensors({"a": torch.zeros(2, dtype=torch.complex128)}, native, "b")

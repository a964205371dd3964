"""Samples of a tensor; those of other sources are tested with PyTorch."""

import os
import pickle
import subprocess
import sys
import threading

import pytest

import esker
from esker import _parallel, _samples

numpy = pytest.importorskip("numpy")


@pytest.fixture
def tensor(native):
    """A tensor of 100 samples."""
    store = esker.TensorStore(f"{native.pool.name}/{native.label}-tensors")
    yield store[store.put(numpy.arange(600, dtype="f4").reshape(100, 2, 3), "images", chunks=(7, 2, 3))]
    native.pool.destroy_container(f"{native.label}-tensors", force=True)


def test_samples_of_a_tensor(tensor):
    samples = pickle.loads(pickle.dumps(_samples.samples_of(tensor)))
    assert len(samples) == 100 and samples.key(7) == 7
    numbers = [3, 4, 5, 99, 0, 50, 51, 3]
    for number, sample in zip(numbers, samples.read(numbers)):
        assert (sample == numpy.arange(6, dtype="f4").reshape(2, 3) + 6 * number).all()
    assert (samples[-1] == samples.read([99])[0]).all()
    with pytest.raises(IndexError):
        samples[100]


def test_neighbours_are_read_at_once(tensor, monkeypatch):
    monkeypatch.setattr(_samples, "RUN_BYTES", 24 * 4)
    samples, runs = _samples.samples_of(tensor), []
    run = samples._run
    monkeypatch.setattr(samples, "_run", lambda one: runs.append(one) or run(one))
    assert len(samples.read(range(10, 20))) == 10
    assert runs == [(10, 4), (14, 4), (18, 2)]


def test_scalars_and_sources_without_samples(native):
    store = esker.TensorStore(f"memory:{native.label}/tensors")
    assert _samples.samples_of(store[store.put(numpy.arange(5))]).read([4, 0]) == [4, 0]
    with pytest.raises(TypeError, match="without dimensions"):
        _samples.samples_of(store[store.put(numpy.float64(1))])
    with pytest.raises(TypeError, match="a Tensor"):
        _samples.samples_of(store)


def test_a_pool_of_this_machine_is_read_without_threads_whatever_its_name(one_node, native_url, monkeypatch):
    folder, _, label = native_url.removeprefix("esker:").rpartition("/")
    monkeypatch.setenv("ESKER_POOLS", folder)
    # Any use of threads would fail.
    monkeypatch.setattr(_parallel, "ThreadPoolExecutor", None)
    for name in (label, native_url, "memory:samples-without-threads"):
        with esker.Pool(name) as pool:
            assert _parallel.each(pool, abs, [-1, 2, -3]) == [1, 2, 3]


def test_a_pool_of_files_is_read_by_threads(tmp_path):
    with esker.Pool.create(f"posix:{tmp_path}/files") as pool:
        callers = _parallel.each(pool, lambda _: threading.get_ident(), range(8))
    assert threading.get_ident() not in callers


# A PyTorch without distributed checkpoints, as Debian 12 has it: the part that `esker.torch` imports.
OLD_TORCH = """
class Base:
    pass

Dataset = IterableDataset = Sampler = DataLoader = Base
get_worker_info = None
"""


def test_samples_and_weights_work_without_distributed_checkpoints(tmp_path):
    (tmp_path / "torch/utils").mkdir(parents=True)
    (tmp_path / "torch/__init__.py").write_text("from . import utils")
    (tmp_path / "torch/utils/__init__.py").write_text("from . import data")
    (tmp_path / "torch/utils/data.py").write_text(OLD_TORCH)
    code = "import esker.torch as et; et.Dataset, et.DataLoader, et.load_safetensors; et.CheckpointWriter"
    path = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True
    )
    assert done.stderr.splitlines()[-1] == (
        "ImportError: esker.torch.CheckpointWriter needs PyTorch 2.4 or later, with torch.distributed"
    )

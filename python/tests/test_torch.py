"""PyTorch over Esker. Skipped where PyTorch is not installed."""

import json
import os
import pathlib
import re
import subprocess
import sys
import types
import warnings

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

import esker.torch  # noqa: E402
from esker._order import Order  # noqa: E402

# Time limit in seconds for a batch of a worker.
PATIENCE = 600
COUNT = 103


def number_of(sample):
    """The number that a sample has in its first bytes."""
    return int.from_bytes(bytes(sample[:4]), "little")


def sample(number):
    """A sample of its own length."""
    return number.to_bytes(4, "little") + bytes(number % 7)


def same(batch):
    """Leave samples as they are."""
    return list(batch)


@pytest.fixture
def values(native):
    """A Key-Value with samples."""
    kv = native.kv("samples")
    for number in range(COUNT):
        kv[f"{number:03}"] = sample(number)
    return kv


@pytest.fixture
def cells(native):
    """An Array with samples."""
    array = native.create_array("samples", 16, 10)
    array.write(0, torch.arange(COUNT * 4, dtype=torch.int32).numpy())
    return array


@pytest.fixture
def files(posix):
    """A file system with samples in folders."""
    files = esker.FileSystem(posix)
    for number in range(COUNT):
        folder = f"/train/{number // 10:02}"
        files.mkdir(folder, parents=True)
        with files.open(f"{folder}/{number:03}", "wb") as file:
            file.write(sample(number))
    files.symlink("00", "/train/link")
    return files


def test_values_of_a_key_value(values):
    dataset = esker.torch.Dataset(values)
    assert len(dataset) == COUNT and dataset[7] == sample(7) and dataset[-1] == sample(COUNT - 1)
    assert dataset.__getitems__([3, 1, 3]) == [sample(3), sample(1), sample(3)]
    assert esker.torch.Dataset(values, keyed=True)[5] == (b"005", sample(5))
    with pytest.raises(IndexError, match="sample 103 of 103"):
        dataset[COUNT]


def test_values_with_numbers_as_keys(native):
    kv = native.kv("numbered", keys="integer")
    for number in (300, 2, 7):
        kv[number] = sample(number)
    assert list(esker.torch.Dataset(kv, keyed=True)) == [(key, sample(key)) for key in (2, 7, 300)]


def test_cells_of_an_array(cells):
    dataset = esker.torch.Dataset(cells, dtype=torch.int32, shape=(2, 2))
    assert len(dataset) == COUNT and dataset[2].tolist() == [[8, 9], [10, 11]]
    numbers = [5, 6, 7, 50, 9, 10, 5]
    assert [found[0, 0].item() for found in dataset.__getitems__(numbers)] == [4 * at for at in numbers]
    loader = esker.torch.DataLoader(dataset, batch_size=50)
    assert [tuple(batch.shape) for batch in loader] == [(50, 2, 2), (50, 2, 2), (3, 2, 2)]


def test_samples_of_a_tensor(native):
    label = f"{native.label}-tensors"
    with esker.TensorStore(f"{native.pool.name}/{label}") as store:
        tensor = store[store.put(torch.arange(COUNT * 4, dtype=torch.int16).reshape(COUNT, 2, 2).numpy())]
        dataset = esker.torch.Dataset(tensor)
        assert len(dataset) == COUNT and dataset[1].tolist() == [[4, 5], [6, 7]]
        assert dataset[1].dtype == torch.int16
        loader = esker.torch.DataLoader(dataset, batch_size=10, shuffle=True, num_workers=2)
        assert sorted(int(sample[0, 0]) for batch in loader for sample in batch) == list(
            range(0, COUNT * 4, 4)
        )
        shaped = esker.torch.Dataset(tensor, dtype=torch.float32, shape=(4,), keyed=True)
        assert shaped[2][0] == 2 and shaped[2][1].tolist() == [8.0, 9.0, 10.0, 11.0]
        ordered = esker.torch.IterableDataset(tensor, batch_size=8)
        assert [int(one[0, 0]) for one in ordered] == list(range(0, COUNT * 4, 4))
    native.pool.destroy_container(label, force=True)


@pytest.mark.usefixtures("one_node")
def test_files_of_a_folder(files, monkeypatch):
    dataset = esker.torch.Dataset(files, transform=number_of)
    assert list(dataset) == list(range(COUNT))
    pool, container = files.container.pool.name, files.container.label
    monkeypatch.setenv("ESKER_POOLS", os.path.dirname(pool.removeprefix("esker:")))
    folder = esker.torch.Dataset(f"esker://{os.path.basename(pool)}/{container}/train/03", keyed=True)
    assert [path for path, _ in folder][:2] == ["/train/03/030", "/train/03/031"] and len(folder) == 10
    for wrong in ("esker://tank", "/train", "s3://a/b"):
        with pytest.raises(esker.Invalid, match="no container"):
            esker.torch.Dataset(wrong)
    with pytest.raises(TypeError, match="int has no samples"):
        esker.torch.Dataset(7)


def test_samples_of_a_snapshot(values):
    dataset = esker.torch.Dataset(values.at(values.container.create_snapshot("before")))
    values["000"] = b"changed"
    assert dataset[0] == sample(0) and esker.torch.Dataset(values)[0] == b"changed"


@pytest.mark.parametrize("method", [None, "fork", "spawn"])
@pytest.mark.parametrize("kind", ["values", "cells", "files"])
def test_workers(values, cells, files, kind, method):
    dataset = esker.torch.Dataset({"values": values, "cells": cells, "files": files}[kind])
    options = {"num_workers": 2, "multiprocessing_context": method, "timeout": PATIENCE} if method else {}
    loader = esker.torch.DataLoader(dataset, 8, shuffle=True, seed=5, collate_fn=same, **options)
    order = list(Order(COUNT, shuffle=True, seed=5))
    seen = [bytes(found) for batch in loader for found in batch]
    assert seen == [bytes(dataset[number]) for number in order]


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("prefetch", [0, 2])
def test_samples_in_an_order(values, workers, prefetch):
    dataset = esker.torch.IterableDataset(
        values, number_of, batch_size=8, shuffle=True, seed=5, prefetch=prefetch
    )
    loader = esker.torch.DataLoader(dataset, 8, num_workers=workers)
    for epoch in range(2):
        expected = list(Order(COUNT, shuffle=True, seed=5, epoch=epoch))
        assert torch.cat(list(loader)).tolist() == expected
    assert len(dataset) == COUNT


def test_workers_that_do_not_learn_the_epoch_warn(values, monkeypatch):
    worker = types.SimpleNamespace(id=0, num_workers=1)
    monkeypatch.setattr("esker.torch._datasets.get_worker_info", lambda: worker)
    dataset = esker.torch.IterableDataset(values, number_of, shuffle=True)
    with pytest.warns(UserWarning, match="unless they are persistent.*call set_epoch before each epoch"):
        assert list(dataset) == list(Order(COUNT, shuffle=True))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset.set_epoch(1)
        assert list(dataset) == list(Order(COUNT, shuffle=True, epoch=1))
        assert list(esker.torch.IterableDataset(values, number_of)) == list(range(COUNT))


@pytest.mark.parametrize("kind", [esker.torch.Dataset, esker.torch.IterableDataset])
@pytest.mark.parametrize("workers", [(0, 0), (0, 2), (2, 0), (2, 3)])
def test_resuming(values, kind, workers):
    def loader(workers):
        order = {"shuffle": True, "seed": 7}
        if kind is esker.torch.Dataset:
            return esker.torch.DataLoader(kind(values, number_of), 8, num_workers=workers, **order)
        return esker.torch.DataLoader(kind(values, number_of, batch_size=8, **order), 8, num_workers=workers)

    first, seen = loader(workers[0]), []
    seen += torch.cat(list(first)).tolist()
    for batch in first:
        seen += batch.tolist()
        if len(seen) == COUNT + 40:
            state = json.loads(json.dumps(first.state_dict()))
            break
    assert state == {"seed": 7, "epoch": 1, "samples": 40}
    second = loader(workers[1])
    second.load_state_dict(state)
    for _ in range(2):
        seen += torch.cat(list(second)).tolist()
    assert seen == [
        number for epoch in range(3) for number in Order(COUNT, shuffle=True, seed=7, epoch=epoch)
    ]
    assert second.state_dict() == {"seed": 7, "epoch": 3, "samples": 0}


def test_resuming_without_a_loader(values):
    def dataset():
        return esker.torch.IterableDataset(values, number_of, batch_size=8, shuffle=True)

    first = dataset()
    reading = iter(first)
    seen = [next(reading) for _ in range(13)]
    second = dataset()
    second.load_state_dict(first.state_dict())
    assert seen + list(second) == list(Order(COUNT, shuffle=True))
    assert list(second) == list(Order(COUNT, shuffle=True, epoch=1))
    second.set_epoch(1)
    assert list(second) == list(Order(COUNT, shuffle=True, epoch=1))


def test_loaders_refuse_invalid_arguments(values):
    dataset = esker.torch.IterableDataset(values, batch_size=8)
    refused = [({"batch_size": 4}, "batches of 8"), ({"shuffle": True}, "has an order")]
    refused += [({"persistent_workers": True}, "first epoch")]
    for options, message in refused:
        with pytest.raises(ValueError, match=message):
            esker.torch.DataLoader(dataset, **{"batch_size": 8, **options})
    for option in ("sampler", "batch_sampler"):
        for source in (dataset, esker.torch.Dataset(values)):
            with pytest.raises(TypeError, match=f"^{option} is not taken.*shuffle, seed, rank and ranks"):
                esker.torch.DataLoader(source, 8, **{option: [[0, 1]]})
    assert len(esker.torch.DataLoader(esker.torch.Dataset(values), 8, sampler=None)) == -(-COUNT // 8)
    with pytest.raises(ValueError, match="at least 1"):
        esker.torch.IterableDataset(values, batch_size=0)
    with pytest.raises(ValueError, match="at least 1"):
        esker.torch.IterableDataset(values, batch_size=1, prefetch=-1)


@pytest.fixture
def tank(tmp_path, monkeypatch):
    """A pool with the label tank and a container for files."""
    monkeypatch.setenv("ESKER_POOLS", str(tmp_path))
    with esker.Pool.create("tank", 128 << 20, dir=tmp_path) as pool:
        pool.create_container("samples", posix=True)
        yield pool


@pytest.mark.usefixtures("tank")
def test_the_example():
    pytest.importorskip("torch.distributed.checkpoint", reason="PyTorch has no distributed checkpoints")
    example = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python" / "train.py"
    command = [sys.executable, example, "esker://tank/samples"]

    def run(epochs):
        shown = subprocess.run([*command, str(epochs)], stdout=subprocess.PIPE, text=True, check=True).stdout
        return shown.splitlines()

    first, *epochs = run(2)
    assert first == "800 samples to train with" and [line[:8] for line in epochs] == ["epoch 1:", "epoch 2:"]
    _, resumed, last = run(3)
    assert resumed == "resumed after epoch 2" and last.startswith("epoch 3:")
    assert int(re.search(r"(\d+)% of unseen", last)[1]) > 90

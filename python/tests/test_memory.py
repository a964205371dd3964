"""Memory that reading needs. `make soak ARGS=memory` reads 10 GiB, and 100,000 samples."""

import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import pytest

import esker

MIB = 1 << 20
# Size of the tensor that is read in slabs; the samples that a DataLoader reads, and its workers.
TENSOR_MIB = int(os.environ.get("ESKER_TENSOR_MIB", "64"))
SAMPLES = int(os.environ.get("ESKER_SAMPLES", "20000"))
WORKERS = int(os.environ.get("ESKER_WORKERS", "2"))
# Rows of 512 KiB that are read at a time.
ROWS = 4
# Most bytes of its own that a process takes to read slabs of 2 MiB, however many there are.
SLABS_MAX = 16 * MIB if TENSOR_MIB <= 1024 else 256 * MIB
# Bytes of memory of its own that a worker may gain per sample read, far below what a copied list would cost.
GROWTH_PER_SAMPLE = 8


def figure(text):
    """Print what was measured, in the form that `make soak` repeats."""
    print(f"figure: {text}")


SLABS = f"""
import pathlib, re, sys
import esker

def own():
    return int(re.search(r"RssAnon:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1]) << 10

tensor = esker.TensorStore(sys.argv[1], "r")["a"]
tensor[:1]
start, most = own(), 0
for row in range(0, len(tensor), {ROWS}):
    slab = tensor[row : row + {ROWS}]
    assert slab[{ROWS - 1}, 0, 0] == row + {ROWS - 1}
    most = max(most, own() - start)
print(most, own())
"""


@pytest.fixture
def large_tensors(request):
    """A tensor store with room for the tensor: on a disk, if that is large."""
    if TENSOR_MIB <= 64:
        yield request.getfixturevalue("shared_tensors")
        return
    build = pathlib.Path(__file__).resolve().parents[2] / "build"
    with tempfile.TemporaryDirectory(dir=build) as folder:
        pool = esker.Pool.create(
            "large", (TENSOR_MIB + TENSOR_MIB // 8) * MIB, dir=folder, durability="process"
        )
        with esker.TensorStore(f"{pool.name}/tensors") as store:
            yield store


def test_reading_in_slabs_takes_the_memory_of_a_slab(large_tensors):
    rows = 2 * TENSOR_MIB
    put = large_tensors.begin((rows, 512, 256), "<f4")
    for row in range(rows):
        put.write((row, 0, 0), numpy.full((1, 512, 256), row, "<f4"))
    put.commit("a")
    command = [sys.executable, "-c", SLABS, large_tensors.name]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=3600)
    most, whole = map(int, ended.stdout.split())
    figure(
        f"{TENSOR_MIB} MiB read in slabs of 2 MiB: {most / MIB:.1f} MiB more, {whole / MIB:.0f} MiB in all"
    )
    assert most < SLABS_MAX and whole < 256 * MIB


def own_memory():
    """Bytes of memory that this process shares with no other."""
    with open("/proc/self/smaps_rollup") as rollup:
        return sum(int(line.split()[1]) << 10 for line in rollup if line.startswith("Private_Dirty"))


def test_workers_do_not_grow(native):
    pytest.importorskip("torch", reason="PyTorch is not installed")
    import esker.torch

    kv = native.kv("many")
    kv.update({f"{number:06}": b"x" for number in range(SAMPLES)})
    dataset = esker.torch.Dataset(kv)
    options = {"multiprocessing_context": "fork", "persistent_workers": True, "num_workers": WORKERS}
    loader = esker.torch.DataLoader(dataset, 100, shuffle=True, collate_fn=lambda _: own_memory(), **options)
    passes = [max(loader) for _ in range(3)]
    shown = ", ".join(f"{most / MIB:.1f}" for most in passes)
    figure(f"{WORKERS} workers over {SAMPLES} samples: {shown} MiB of its own at most in each pass")
    assert max(passes) < passes[0] + GROWTH_PER_SAMPLE * SAMPLES

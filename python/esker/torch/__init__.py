"""PyTorch over Esker: datasets, checkpoints, and weights without a copy.

import esker.torch

images = esker.torch.Dataset("esker://tank/samples/train", transform=decode)
loader = esker.torch.DataLoader(images, batch_size=64, shuffle=True, seed=1, num_workers=4)
for batch in loader:
    ...
    saved = loader.state_dict()        # after the batches that the loop has had; load_state_dict resumes

    writer = esker.torch.CheckpointWriter("esker://tank/checkpoints/last")
    torch.distributed.checkpoint.save({"model": model.state_dict()}, storage_writer=writer)
"""

try:
    import torch as _  # noqa: F401
except ImportError as _error:
    raise ImportError("esker.torch needs PyTorch: pip install torch") from _error

from ._checkpoint import CheckpointReader, CheckpointWriter
from ._datasets import Dataset, IterableDataset
from ._loader import DataLoader
from ._safetensors import load_safetensors, save_safetensors

__all__ = [
    "CheckpointReader",
    "CheckpointWriter",
    "DataLoader",
    "Dataset",
    "IterableDataset",
    "load_safetensors",
    "save_safetensors",
]

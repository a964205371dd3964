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

from __future__ import annotations

from typing import TYPE_CHECKING, Any

try:
    import torch as _  # noqa: F401
except ImportError as _error:
    raise ImportError("esker.torch needs PyTorch: pip install torch") from _error

from ._datasets import Dataset, IterableDataset
from ._loader import DataLoader
from ._safetensors import load_safetensors, save_safetensors

if TYPE_CHECKING:
    from ._checkpoint import CheckpointReader, CheckpointWriter

__all__ = [
    "CheckpointReader",
    "CheckpointWriter",
    "DataLoader",
    "Dataset",
    "IterableDataset",
    "load_safetensors",
    "save_safetensors",
]


def __getattr__(name: str) -> Any:
    """Load the classes of checkpoints on first use, because some builds of PyTorch have no base for them."""
    if name not in ("CheckpointReader", "CheckpointWriter"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from . import _checkpoint
    except ImportError as error:
        raise ImportError(f"esker.torch.{name} needs PyTorch 2.4 or later, with torch.distributed") from error
    return getattr(_checkpoint, name)

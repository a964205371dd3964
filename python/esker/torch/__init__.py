"""PyTorch over Esker: datasets, checkpoints, and weights without a copy.

import esker.torch

images = esker.torch.Dataset("esker://tank/samples/train", transform=decode)
loader = esker.torch.DataLoader(images, batch_size=64, shuffle=True, seed=1, num_workers=4)
for batch in loader:
    ...
    saved = loader.state_dict()        # after the batches that the loop has had; load_state_dict resumes
"""

try:
    import torch as _  # noqa: F401
except ImportError as _error:
    raise ImportError("esker.torch needs PyTorch: pip install torch") from _error

from ._datasets import Dataset, IterableDataset
from ._loader import DataLoader

__all__ = ["DataLoader", "Dataset", "IterableDataset"]

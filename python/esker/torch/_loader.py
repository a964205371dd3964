"""A DataLoader that can stop in the middle of an epoch and continue there."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch.utils.data import Sampler

from .._order import Order, Progress, Resumable
from ._datasets import IterableDataset


class _Numbers(Sampler):
    """The numbers of the samples of an epoch, starting at a position."""

    def __init__(self, count: int, options: Mapping[str, Any]) -> None:
        self._count, self._options = count, options
        self.progress = Progress(0)

    def __iter__(self) -> Iterator[int]:
        progress = self.progress
        order = Order(self._count, seed=progress.seed, epoch=progress.epoch, **self._options)
        return map(order.__getitem__, range(progress.given, len(order)))

    def __len__(self) -> int:
        return len(Order(self._count, **self._options))


def _refuse_samplers(options: Mapping[str, Any]) -> None:
    """Raise if a sampler is among the options: it would be replaced by the loader's own."""
    for name in ("sampler", "batch_sampler"):
        if options.get(name) is not None:
            remedy = "give shuffle, seed, rank and ranks, or use torch's own DataLoader"
            raise TypeError(f"{name} is not taken, because this DataLoader has its own order: {remedy}")


class DataLoader(Resumable, torch.utils.data.DataLoader):
    """torch's DataLoader, shuffled by seed and epoch, and resumable.

    `shuffle`, `seed`, `rank` and `ranks` determine the order of a dataset by number; an IterableDataset
    of `esker.torch` has them itself, and its batch size is this one's. Everything else is as in torch:
    `num_workers`, `multiprocessing_context`, `prefetch_factor` and so on. `state_dict` counts the samples
    that the loop received, not those that workers have read ahead; it may be loaded with another number of
    workers. Each iteration is an epoch.
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        seed: int = 0,
        rank: int = 0,
        ranks: int = 1,
        **options: Any,
    ) -> None:
        """Take the arguments of torch's DataLoader, except samplers, and those that determine the order."""
        _refuse_samplers(options)
        self._numbers: _Numbers | None = None
        if not isinstance(dataset, IterableDataset):
            order = {"shuffle": shuffle, "rank": rank, "ranks": ranks}
            self._numbers = options["sampler"] = _Numbers(len(dataset), order)
        elif shuffle or seed or (rank, ranks) != (0, 1):
            raise ValueError("an IterableDataset has an order: give shuffle, seed, rank and ranks to it")
        elif batch_size != dataset.batch_size:
            raise ValueError(f"the dataset reads batches of {dataset.batch_size}, not {batch_size}")
        elif options.get("persistent_workers"):
            raise ValueError("persistent_workers keep the first epoch of an IterableDataset: use a Dataset")
        self.progress = Progress(seed if self._numbers else dataset.progress.seed)
        torch.utils.data.DataLoader.__init__(self, dataset, batch_size, **options)

    def __iter__(self) -> Iterator[Any]:
        self.progress.begin()
        if self._numbers is None:
            self.dataset.load_state_dict(self.state_dict())
        else:
            self._numbers.progress = self.progress
        for batch in super().__iter__():
            self.progress.given += self.batch_size
            yield batch
        self.progress.end()

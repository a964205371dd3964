"""Datasets: samples by number, and samples in an order."""

from __future__ import annotations

import warnings
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import torch
from torch.utils.data import get_worker_info

from .._order import Order, Progress, Resumable
from .._samples import samples_of

if TYPE_CHECKING:
    from .._samples import Source


class _Samples:
    """Base of both kinds of datasets: the source of samples, and their conversion."""

    def __init__(
        self,
        source: Source,
        transform: Callable[[Any], Any] | None,
        keyed: bool,
        dtype: torch.dtype | None,
        shape: Sequence[int] | None,
    ) -> None:
        self.samples = samples_of(source)
        self._transform, self._keyed, self._dtype, self._shape = transform, keyed, dtype, shape

    def load(self, numbers: Sequence[int]) -> list[Any]:
        """The samples with these numbers, read together."""
        return list(map(self._made, numbers, self.samples.read(numbers)))

    def _made(self, number: int, data: Any) -> Any:
        made = data if self._dtype is None and isinstance(data, (bytes, bytearray)) else self._tensor(data)
        if self._keyed:
            made = (self.samples.key(number), made)
        return made if self._transform is None else self._transform(made)

    def _tensor(self, data: Any) -> torch.Tensor:
        """The data of a sample as a tensor; bytes are copied unless they are a bytearray."""
        if isinstance(data, (bytes, bytearray)):
            whole = data if isinstance(data, bytearray) else bytearray(data)
            tensor = (
                torch.frombuffer(whole, dtype=self._dtype) if whole else torch.empty(0, dtype=self._dtype)
            )
        else:
            tensor = torch.as_tensor(data, dtype=self._dtype)
        return tensor if self._shape is None else tensor.reshape(self._shape)


class Dataset(_Samples, torch.utils.data.Dataset):
    """Samples by number, for `DataLoader`.

    `source` is a Kv (its values, sorted by key), an Array (its cells), a Tensor (along its first dimension),
    a FileSystem (its files, sorted by path) or a folder `esker://POOL/CONTAINER/path`. Samples are bytes or
    bytearrays, and those of a Tensor are tensors; with `dtype` and `shape` all are. With `keyed` they are
    pairs of key (or path, or number) and sample.
    `transform` is called with each. Batches are read together, in parallel where that is faster. Workers
    may be forked or spawned.
    """

    def __init__(
        self,
        source: Source,
        transform: Callable[[Any], Any] | None = None,
        *,
        keyed: bool = False,
        dtype: torch.dtype | None = None,
        shape: Sequence[int] | None = None,
    ) -> None:
        """List the samples; nothing is read yet."""
        super().__init__(source, transform, keyed, dtype, shape)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        return self.load([index % len(self)])[0]

    def __getitems__(self, indices: Sequence[int]) -> list[Any]:
        """The samples of a batch."""
        return self.load(indices)


class IterableDataset(_Samples, Resumable, torch.utils.data.IterableDataset):
    """Samples in an order, read in batches ahead of their use.

    Arguments are those of Dataset, and: `batch_size` samples are read together, `prefetch` batches ahead.
    With `shuffle`, `seed` and the epoch determine the order. `rank` of `ranks` processes reads its share.
    Workers of a DataLoader with the same `batch_size` share the batches, and yield them in the order of a
    single process. Each iteration is an epoch; `set_epoch` sets the next one. Call it before each epoch if
    torch's own DataLoader has workers: they always begin with the epoch of the dataset in the main process.
    `state_dict` counts the samples yielded; in a DataLoader with workers, use the state of the DataLoader.
    """

    def __init__(
        self,
        source: Source,
        transform: Callable[[Any], Any] | None = None,
        *,
        keyed: bool = False,
        dtype: torch.dtype | None = None,
        shape: Sequence[int] | None = None,
        batch_size: int = 32,
        shuffle: bool = False,
        seed: int = 0,
        rank: int = 0,
        ranks: int = 1,
        prefetch: int = 2,
    ) -> None:
        """List the samples; nothing is read yet."""
        super().__init__(source, transform, keyed, dtype, shape)
        if batch_size < 1 or prefetch < 0:
            raise ValueError(f"batch_size {batch_size}, prefetch {prefetch}: at least 1 and 0")
        self.batch_size, self._prefetch = batch_size, prefetch
        self._order: dict[str, Any] = {"shuffle": shuffle, "rank": rank, "ranks": ranks}
        self.progress = Progress(seed)

    def __len__(self) -> int:
        return len(self.order(0))

    def order(self, epoch: int) -> Order:
        """The order of an epoch."""
        return Order(len(self.samples), seed=self.progress.seed, epoch=epoch, **self._order)

    def _warn_of_repetition(self) -> None:
        """Warn in a worker that every epoch may have the order of the first."""
        worker = get_worker_info()
        if worker and worker.id == 0 and self._order["shuffle"] and not self.progress.is_set:
            why = "torch's DataLoader does not tell its workers the epoch"
            remedy = "call set_epoch before each epoch, or use esker.torch.DataLoader"
            warnings.warn(
                f"{why}: unless they are persistent, each epoch has the same order; {remedy}", stacklevel=2
            )

    def __iter__(self) -> Iterator[Any]:
        self._warn_of_repetition()
        epoch, start = self.progress.begin()
        for batch in self._batches(self._numbers(epoch, start)):
            for sample in batch:
                self.progress.given += 1
                yield sample
        self.progress.end()

    def _batches(self, wanted: Iterable[Sequence[int]]) -> Iterator[list[Any]]:
        """Batches of samples, of which `prefetch` are read ahead while one is used."""
        if not self._prefetch:
            yield from map(self.load, wanted)
            return
        with ThreadPoolExecutor(1, "esker-prefetch") as thread:
            ahead: deque[Future[list[Any]]] = deque()
            for numbers in wanted:
                ahead.append(thread.submit(self.load, numbers))
                if len(ahead) > self._prefetch:
                    yield ahead.popleft().result()
            while ahead:
                yield ahead.popleft().result()

    def _numbers(self, epoch: int, start: int) -> Iterator[list[int]]:
        """The numbers of the samples of each batch that this worker reads."""
        worker, order, size = get_worker_info(), self.order(epoch), self.batch_size
        index, workers = (worker.id, worker.num_workers) if worker else (0, 1)
        for begin in range(start + index * size, len(order), workers * size):
            yield order[begin : begin + size]

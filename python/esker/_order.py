"""The order in which samples are read."""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Mapping, Sequence
from typing import SupportsIndex, overload

_ROUNDS = 4
_ODD = 0x9E3779B97F4A7C15


class Order(Sequence[int]):
    """The numbers of the samples that one of `ranks` processes reads in one epoch, in order.

    With `shuffle`, the order is a permutation that `seed` and `epoch` determine. It is computed, not
    stored: each position costs the same, so reading can start anywhere, and memory does not depend on the
    number of samples. All ranks have equally many samples: if the number is not a multiple of `ranks`, the
    first samples are repeated.
    """

    def __init__(
        self,
        count: int,
        *,
        shuffle: bool = False,
        seed: int = 0,
        epoch: int = 0,
        rank: int = 0,
        ranks: int = 1,
    ) -> None:
        """Take the total number of samples."""
        if not 0 <= rank < ranks:
            raise ValueError(f"rank {rank} of {ranks} ranks: ranks count from 0")
        self._count, self._shuffle, self._rank, self._ranks = count, shuffle, rank, ranks
        # The permutation has twice as many bits as this half, and one key for each round.
        self._half = max(1, (max(count - 1, 1).bit_length() + 1) // 2)
        digest = hashlib.blake2b(f"{seed}/{epoch}".encode(), digest_size=8 * _ROUNDS).digest()
        self._keys = [int.from_bytes(digest[8 * at : 8 * at + 8], "little") for at in range(_ROUNDS)]

    def __len__(self) -> int:
        return -(-self._count // self._ranks)

    @overload
    def __getitem__(self, index: SupportsIndex) -> int: ...

    @overload
    def __getitem__(self, index: slice) -> list[int]: ...

    def __getitem__(self, index: SupportsIndex | slice) -> int | list[int]:
        if isinstance(index, slice):
            return [self._at(position) for position in range(*index.indices(len(self)))]
        position = operator.index(index)
        if not -len(self) <= position < len(self):
            raise IndexError(f"position {position} of {len(self)}")
        return self._at(position % len(self))

    def _at(self, position: int) -> int:
        """The number of the sample at a position in the order of this rank."""
        number = (position * self._ranks + self._rank) % self._count
        return self._permuted(number) if self._shuffle else number

    def _permuted(self, number: int) -> int:
        """The permutation: a Feistel network over a power of four, repeated until the result is below the
        count.
        """
        mask = (1 << self._half) - 1
        while True:
            left, right = number >> self._half, number & mask
            for key in self._keys:
                # The round function is a multiplicative hash of one half and the key.
                mixed = (right + key) * _ODD & (1 << 64) - 1
                left, right = right, left ^ ((mixed ^ mixed >> 29) * _ODD >> 35 & mask)
            number = left << self._half | right
            if number < self._count:
                return number


class Progress:
    """Progress of reading: the seed, the epoch, and the number of samples returned in it."""

    def __init__(self, seed: int) -> None:
        """Start at the beginning of epoch 0."""
        self.seed, self.epoch, self.given = seed, 0, 0
        # Epoch and position of the next iteration, and whether the caller or a DataLoader has set them.
        self.next, self.is_set = (0, 0), False

    def begin(self) -> tuple[int, int]:
        """Begin an iteration and return its epoch and position; the one after it is the next epoch."""
        self.epoch, self.given = self.next
        self.next = self.epoch + 1, 0
        return self.epoch, self.given

    def end(self) -> None:
        """Finish an epoch."""
        self.epoch, self.given = self.next

    def state_dict(self) -> dict[str, int]:
        """The state as a dict of numbers."""
        return {"seed": self.seed, "epoch": self.epoch, "samples": self.given}

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Begin the next iteration at a saved state."""
        self.seed, self.next, self.is_set = state["seed"], (state["epoch"], state["samples"]), True
        self.epoch, self.given = self.next


class Resumable:
    """Base of readers in epochs, with a `progress`. They can stop in an epoch and continue there."""

    progress: Progress

    def set_epoch(self, epoch: int) -> None:
        """Start the next iteration at the beginning of an epoch."""
        self.progress.next, self.progress.is_set = (epoch, 0), True

    def state_dict(self) -> dict[str, int]:
        """Epoch, seed, and the number of samples returned in the epoch."""
        return self.progress.state_dict()

    def load_state_dict(self, state: Mapping[str, int]) -> None:
        """Continue where `state_dict` was called, in the same or in another process."""
        self.progress.load_state_dict(state)

"""Weights of users in bootstrap resamples and jackknife groups.

A resample gives each user a Poisson(1) weight that depends only on the seed, the key of the user
and the number of the resample, not on batches, their order, or other users. Therefore partitions of
the users can be resampled separately.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.ranking.ties import mix64

Floats = NDArray[np.float64]
_SALT = 0x626F6F74  # makes weights independent of the order of ties under the same seed
_DRAWS_PER_HASH = 4  # a hash of 64 bits gives four weights of 16 bits
_BLOCK_BYTES = 1 << 26  # of a block of rows that is processed at once


def rows_per_block(numbers_per_row: int) -> int:
    """Return how many rows of float64 numbers are processed at once, whole hashes if possible."""
    rows = max(1, _BLOCK_BYTES // (8 * max(1, numbers_per_row)))
    return rows - rows % _DRAWS_PER_HASH or rows


class UserWeights(Protocol):
    """Rows of user weights, each a function of the keys of the users alone."""

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        ...

    def compute(self, keys: Tensor) -> Floats:
        """Return the weights of the users with these keys, `[rows, users]`."""
        ...

    def block(self, start: int, stop: int) -> UserWeights:
        """Return the rows `start` to `stop - 1`, fewer at the end."""
        ...


@dataclass(frozen=True)
class PoissonWeights:
    """Weights of users in the resamples `start` to `stop - 1`."""

    seed: int
    start: int
    stop: int

    @property
    def num_rows(self) -> int:
        return self.stop - self.start

    def compute(self, keys: Tensor) -> Floats:
        return poisson_weights(keys, self.seed, self.start, self.stop)

    def block(self, start: int, stop: int) -> PoissonWeights:
        return PoissonWeights(self.seed, self.start + start, min(self.start + stop, self.stop))


@dataclass(frozen=True)
class LeaveGroupOut:
    """Weights that leave out group `start`, `start + 1`, ..., `stop - 1` of the users in turn.

    Group i holds the users with `jackknife_hashes` from `edges[i - 1]` up to `edges[i]`. With
    `LeaveGroupOut.none()` every user has weight 1.
    """

    edges: NDArray[np.int64]
    start: int
    stop: int

    @classmethod
    def none(cls) -> LeaveGroupOut:
        """Leave out nothing: there is one group, and another one is left out."""
        return cls(np.empty(0, dtype=np.int64), 1, 2)

    @property
    def num_rows(self) -> int:
        return self.stop - self.start

    def compute(self, keys: Tensor) -> Floats:
        group = np.searchsorted(self.edges, jackknife_hashes(keys), "right")
        weights: Floats = (group != np.arange(self.start, self.stop)[:, None]).astype(np.float64)
        return weights

    def block(self, start: int, stop: int) -> LeaveGroupOut:
        return replace(self, start=self.start + start, stop=min(self.start + stop, self.stop))


class KeepGroup(LeaveGroupOut):
    """Weights that are 1 for one group of the users in turn, and 0 for all others."""

    def compute(self, keys: Tensor) -> Floats:
        return 1 - super().compute(keys)


@dataclass(frozen=True)
class UserDigest:
    """Weights of which the totals identify the set of the users, whatever their order.

    The rows `start` to `stop - 1` of four are 16 bits of a hash of each user: their sums are exact
    for up to 2^37 users.
    """

    start: int = 0
    stop: int = 4

    @property
    def num_rows(self) -> int:
        return self.stop - self.start

    def compute(self, keys: Tensor) -> Floats:
        shifts = 16 * np.arange(self.start, self.stop)[:, None]
        weights: Floats = ((jackknife_hashes(keys) >> shifts) & 0xFFFF).astype(np.float64)
        return weights

    def block(self, start: int, stop: int) -> UserDigest:
        return UserDigest(self.start + start, min(self.start + stop, self.stop))


def jackknife_hashes(keys: Tensor) -> NDArray[np.int64]:
    """Return the hashes `[users]` that assign users to jackknife groups, whatever their order."""
    hashes: NDArray[np.int64] = mix64(keys + _SALT).numpy()
    return hashes


def poisson_weights(keys: Tensor, seed: int, start: int, stop: int) -> Floats:
    """Return the weights in the resamples `start` to `stop - 1`, `[resamples, users]`.

    `keys` has an int64 number for each user.
    """
    seeded = mix64(keys + mix64(torch.full_like(keys, seed) + _SALT))
    first, last = start // _DRAWS_PER_HASH, -(-stop // _DRAWS_PER_HASH)
    weights = np.empty(((last - first) * _DRAWS_PER_HASH, len(keys)))
    for number in range(first, last):
        hashes = mix64(seeded + torch.full_like(keys, number) * -7046029254386353131).numpy()
        for draw in range(_DRAWS_PER_HASH):
            row = (number - first) * _DRAWS_PER_HASH + draw
            weights[row] = _poisson_table()[(hashes >> 16 * draw) & 0xFFFF]
    return weights[start - first * _DRAWS_PER_HASH : stop - first * _DRAWS_PER_HASH]


@cache
def _poisson_table() -> NDArray[np.uint8]:
    """Return the Poisson(1) quantile of each number of 16 bits, exact to 1 / 65,536."""
    density = [math.exp(-1) / math.factorial(weight) for weight in range(9)]
    starts = np.round(np.cumsum(density) * (1 << 16)).astype(np.int64)
    weights: NDArray[np.uint8] = np.searchsorted(starts, np.arange(1 << 16), side="right").astype(
        np.uint8
    )
    return weights

"""Which items a user's list is ranked from: all of them, those given, or the relevant ones among
sampled negatives.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.ranking.ties import mix64

Numbers = NDArray[np.int64]
# Elements of one tile, where every item of the pool gets a number for each user.
_TILE = 1 << 20
# The streams of random numbers: drawing one after the other, filling up, and (in `TieRule`, which
# adds nothing) breaking ties.
_DRAWS, _FILLS = 0x51ED_2701_A9C4_E36B, 0x2F0B_4C47_D7E8_9A15
_STEP = -7046029254386353131  # of splitmix64


@dataclass(frozen=True)
class SampleSizes:
    """The numbers of negatives among each user's candidates, and of eligible items, `[batch]`."""

    num_negatives: Tensor
    num_eligible: Tensor


class NegativeSampler:
    """Draws `number` items for each user, without replacement, from those of a pool that the user
    does not have.

    `pool` are item codes, `item_keys` a number for each item of the catalogue that depends on its
    id alone, `weights` (above 0) how likely each item of the pool is to come next; without them all
    are alike. What a user is given depends on the seed, the user's key and the items, on nothing
    else.

    Items are drawn with replacement, and what the user has or has been given is passed over: that
    is drawing without replacement. A user who is short after a fixed number of draws continues, as
    exactly, by exponential times: the items that the user still could be given come in the order of
    independent times with their weights as rates."""

    def __init__(
        self,
        pool: Numbers,
        item_keys: Numbers,
        *,
        number: int,
        seed: int,
        weights: NDArray[Any] | None = None,
    ) -> None:
        order = np.argsort(item_keys[pool], kind="stable")
        self._pool, self._keys = pool[order], item_keys[pool][order]
        self._weights = None if weights is None else weights[order].astype(np.float64)
        self._reached = None if self._weights is None else np.cumsum(self._weights)
        self._number, self._seed, self._num_items = number, seed, len(item_keys)
        self._is_in_pool = np.zeros(len(item_keys), dtype=np.bool_)
        self._is_in_pool[pool] = True

    def draw(self, user_keys: Numbers, taken: Numbers) -> tuple[Numbers, Numbers]:
        """The drawn cells as places in a flattened `[users, items]` matrix, ascending; and from how
        many each user's were drawn.

        `taken` are the places, ascending, of the cells that users have.
        """
        rows, items = np.divmod(taken, max(1, self._num_items))
        eligible = len(self._pool) - np.bincount(
            rows[self._is_in_pool[items]], minlength=len(user_keys)
        )
        wanted = np.minimum(eligible, self._number)
        found: list[Numbers] = []
        # Few draws are enough for nearly all users; whoever is short has more of the same sequence.
        short = np.flatnonzero(wanted)
        most = 4 * self._number + 64
        for draws in (min(most, self._number + self._number // 8 + 16), most):
            if len(short):
                cells, counts = self._first(short, user_keys[short], taken, draws)
                enough = counts == wanted[short]
                found.append(cells[np.repeat(enough, counts)])
                short, cells, counts = (
                    short[~enough],
                    cells[np.repeat(~enough, counts)],
                    counts[~enough],
                )
        if len(short):
            found += [
                cells,
                self._fill(short, user_keys[short], merged(taken, cells), wanted[short] - counts),
            ]
        return np.sort(np.concatenate(found)) if found else np.empty(0, dtype=np.int64), eligible

    def _first(
        self, rows: Numbers, user_keys: Numbers, taken: Numbers, draws: int
    ) -> tuple[Numbers, Numbers]:
        """The first different cells that are not taken, at most as many as are drawn for a user;
        and how many each user has.
        """
        bits = draws.bit_length()
        packed = self._pool[self._positions(user_keys, draws)] << bits
        packed |= np.arange(draws)  # when it was drawn
        packed.sort(axis=1)
        items, turns = packed >> bits, packed & ((1 << bits) - 1)
        cells = items + rows[:, None] * self._num_items
        counts_for_user = ~is_in_sorted(cells.reshape(-1), taken).reshape(cells.shape)
        counts_for_user[:, 1:] &= items[:, 1:] != items[:, :-1]
        in_turn = np.empty_like(counts_for_user)
        np.put_along_axis(in_turn, turns, counts_for_user, axis=1)
        in_turn &= np.cumsum(in_turn, axis=1, dtype=np.int32) <= self._number
        chosen = np.take_along_axis(in_turn, turns, axis=1)
        return cells[chosen], np.count_nonzero(chosen, axis=1)

    def _positions(self, user_keys: Numbers, draws: int) -> Numbers:
        """Positions in the pool, drawn with replacement, `[users, draws]`."""
        shares = _shares(self._seed + _DRAWS, user_keys, np.arange(draws))
        if self._reached is None:
            positions = (shares * len(self._pool)).astype(np.int64)
        else:
            positions = np.searchsorted(self._reached, shares * self._reached[-1], side="right")
        return np.minimum(positions, len(self._pool) - 1)  # rounding

    def _fill(self, rows: Numbers, user_keys: Numbers, taken: Numbers, lacking: Numbers) -> Numbers:
        """The `lacking` first cells of each user, by exponential times, that are not taken."""
        found = []
        step = max(1, _TILE // len(self._pool))
        for start in range(0, len(rows), step):
            some = slice(start, start + step)
            cells = self._pool + rows[some, None] * self._num_items
            times = -np.log(_shares(self._seed + _FILLS, user_keys[some], self._keys))
            if self._weights is not None:
                times /= self._weights
            times[is_in_sorted(cells.reshape(-1), taken).reshape(cells.shape)] = np.inf
            most = int(lacking[some].max())
            first = np.argpartition(times, most - 1, axis=1)[:, :most]
            first = np.take_along_axis(
                first, np.argsort(np.take_along_axis(times, first, 1), axis=1), 1
            )
            found.append(np.take_along_axis(cells, first, 1)[np.arange(most) < lacking[some, None]])
        return np.concatenate(found)


def _shares(seed: int, user_keys: Numbers, numbers: Numbers) -> NDArray[np.float64]:
    """A number above 0 and below 1 for each user and number: a hash of both and the seed, and of
    nothing else.
    """
    users = torch.as_tensor(user_keys)
    seeded = mix64(users + mix64(torch.full_like(users, _wrapped(seed))))
    hashes = mix64(seeded[:, None] + torch.as_tensor(numbers) * _STEP).numpy().view(np.uint64)
    shares: NDArray[np.float64] = ((hashes >> np.uint64(11)).astype(np.float64) + 0.5) * 2.0**-53
    return shares


def _wrapped(number: int) -> int:
    """The number as a signed one of 64 bits."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def merged(cells: Numbers, others: Numbers) -> Numbers:
    """All cells of both, ascending, each once. NumPy's own union hashes, which takes many times
    longer.
    """
    together = np.concatenate([cells, others])
    together.sort()
    is_first = np.ones(len(together), dtype=np.bool_)
    np.not_equal(together[1:], together[:-1], out=is_first[1:])
    return together[is_first]


def is_in_sorted(cells: Numbers, sorted_cells: Numbers) -> NDArray[np.bool_]:
    """Whether each cell is among the sorted ones."""
    if len(sorted_cells) == 0:
        return np.zeros(len(cells), dtype=np.bool_)
    found: NDArray[np.bool_] = (
        sorted_cells[np.minimum(np.searchsorted(sorted_cells, cells), len(sorted_cells) - 1)]
        == cells
    )
    return found

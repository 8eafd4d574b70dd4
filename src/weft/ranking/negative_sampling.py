"""Sampling of negatives for each user, without replacement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.ranking.ties import SPLITMIX_STEP, mix64

Numbers = NDArray[np.int64]
# Elements of a tile in which every item of the pool gets a random number for each user.
_TILE_SCORES = 1 << 20
# Offsets of the seed for independent streams of random numbers (`TieRule` adds nothing).
_DRAW_STREAM, _FILL_STREAM = 0x51ED_2701_A9C4_E36B, 0x2F0B_4C47_D7E8_9A15


@dataclass(frozen=True)
class SampleSizes:
    """The numbers of negatives among each user's candidates, and of eligible items, `[batch]`."""

    num_negatives: Tensor
    num_eligible: Tensor


class NegativeSampler:
    """Draws `number` items for each user without replacement, from a pool without the user's items.

    `pool` are item codes, `item_keys` a number for each item of the catalogue that depends on its
    id alone, `weights` (above 0) how likely each item of the pool is to come next (default: equal).
    The draws depend on the seed, the user's key and the items, and on nothing else.

    Items are drawn with replacement, and items that the user has or got already are skipped, which
    is drawing without replacement. If a fixed number of draws is not enough, the rest is drawn
    exactly by exponential times: the remaining items in the order of independent times with their
    weights as rates."""

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
        self._cumulative = None if self._weights is None else np.cumsum(self._weights)
        self._number, self._seed, self._num_items = number, seed, len(item_keys)
        self._is_in_pool = np.zeros(len(item_keys), dtype=np.bool_)
        self._is_in_pool[pool] = True

    def draw(self, user_keys: Numbers, excluded: Numbers) -> tuple[Numbers, Numbers]:
        """Return the drawn items, and the number of eligible items of each user, `[users]`.

        Both the drawn items and `excluded`, the items that users have, are ascending indices in a
        flattened `[users, items]` matrix."""
        rows, items = np.divmod(excluded, max(1, self._num_items))
        rows = rows[self._is_in_pool[items]]
        eligible = len(self._pool) - np.bincount(rows, minlength=len(user_keys))
        required = np.minimum(eligible, self._number)
        drawn: list[Numbers] = []
        # Few draws are enough for nearly all users; the others get more of the same sequence.
        short = np.flatnonzero(required)
        most = 4 * self._number + 64
        for draws in (min(most, self._number + self._number // 8 + 16), most):
            if len(short):
                keys, counts = self._draw_distinct(short, user_keys[short], excluded, draws=draws)
                is_done = counts == required[short]
                drawn.append(keys[np.repeat(is_done, counts)])
                keys = keys[np.repeat(~is_done, counts)]
                short, counts = short[~is_done], counts[~is_done]
        if len(short):
            missing = required[short] - counts
            excluded = sorted_union(excluded, keys)
            drawn += [keys, self._draw_rest(short, user_keys[short], excluded, missing=missing)]
        return np.sort(np.concatenate(drawn)) if drawn else np.empty(0, dtype=np.int64), eligible

    def _draw_distinct(
        self, rows: Numbers, user_keys: Numbers, excluded: Numbers, *, draws: int
    ) -> tuple[Numbers, Numbers]:
        """Return the first distinct items that are not excluded, and their number per user."""
        bits = draws.bit_length()
        packed = self._pool[self._draw_positions(user_keys, draws)] << bits
        packed |= np.arange(draws)  # the turn of each draw
        packed.sort(axis=1)
        items, turns = packed >> bits, packed & ((1 << bits) - 1)
        keys = items + rows[:, None] * self._num_items
        is_new = ~is_in_sorted(keys.reshape(-1), excluded).reshape(keys.shape)
        is_new[:, 1:] &= items[:, 1:] != items[:, :-1]
        by_turn = np.empty_like(is_new)
        np.put_along_axis(by_turn, turns, is_new, axis=1)
        by_turn &= np.cumsum(by_turn, axis=1, dtype=np.int32) <= self._number
        is_drawn = np.take_along_axis(by_turn, turns, axis=1)
        return keys[is_drawn], np.count_nonzero(is_drawn, axis=1)

    def _draw_positions(self, user_keys: Numbers, draws: int) -> Numbers:
        """Return positions in the pool, drawn with replacement, `[users, draws]`."""
        uniforms = _draw_uniforms(self._seed + _DRAW_STREAM, user_keys, np.arange(draws))
        if self._cumulative is None:
            positions = (uniforms * len(self._pool)).astype(np.int64)
        else:
            sums = self._cumulative
            positions = np.searchsorted(sums, uniforms * sums[-1], side="right")
        return np.minimum(positions, len(self._pool) - 1)  # a product may be rounded up

    def _draw_rest(
        self, rows: Numbers, user_keys: Numbers, excluded: Numbers, *, missing: Numbers
    ) -> Numbers:
        """Return the first `missing [users]` items by exponential times that are not excluded."""
        drawn = []
        step = max(1, _TILE_SCORES // len(self._pool))
        for start in range(0, len(rows), step):
            tile = slice(start, start + step)
            keys = self._pool + rows[tile, None] * self._num_items
            times = -np.log(_draw_uniforms(self._seed + _FILL_STREAM, user_keys[tile], self._keys))
            if self._weights is not None:
                times /= self._weights
            times[is_in_sorted(keys.reshape(-1), excluded).reshape(keys.shape)] = np.inf
            most = int(missing[tile].max())
            first = np.argpartition(times, most - 1, axis=1)[:, :most]
            order = np.argsort(np.take_along_axis(times, first, 1), axis=1)
            first = np.take_along_axis(first, order, 1)
            is_drawn = np.arange(most) < missing[tile, None]
            drawn.append(np.take_along_axis(keys, first, 1)[is_drawn])
        return np.concatenate(drawn)


def _draw_uniforms(seed: int, user_keys: Numbers, numbers: Numbers) -> NDArray[np.float64]:
    """Return numbers above 0 and below 1, hashes of (seed, user, number), `[users, numbers]`."""
    users = torch.as_tensor(user_keys)
    signed_seed = (seed + (1 << 63)) % (1 << 64) - (1 << 63)
    seeded = mix64(users + mix64(torch.full_like(users, signed_seed)))
    hashes = mix64(seeded[:, None] + torch.as_tensor(numbers) * SPLITMIX_STEP)
    bits = hashes.numpy().view(np.uint64) >> np.uint64(11)
    uniforms: NDArray[np.float64] = (bits.astype(np.float64) + 0.5) * 2.0**-53
    return uniforms


def sorted_union(keys: Numbers, others: Numbers) -> Numbers:
    """Return the distinct keys of both, ascending; many times faster than `np.union1d`."""
    union = np.concatenate([keys, others])
    union.sort()
    is_first = np.ones(len(union), dtype=np.bool_)
    np.not_equal(union[1:], union[:-1], out=is_first[1:])
    return union[is_first]


def is_in_sorted(keys: Numbers, sorted_keys: Numbers) -> NDArray[np.bool_]:
    """Return whether each key is among the sorted ones."""
    if len(sorted_keys) == 0:
        return np.zeros(len(keys), dtype=np.bool_)
    index = np.minimum(np.searchsorted(sorted_keys, keys), len(sorted_keys) - 1)
    is_equal: NDArray[np.bool_] = sorted_keys[index] == keys
    return is_equal

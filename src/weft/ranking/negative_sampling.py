"""Sampling of negatives for each user, without replacement."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft._native import call, is_built
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
        rows, items = split_keys(excluded, len(user_keys), self._num_items)
        rows = rows[self._is_in_pool[items]]
        eligible = len(self._pool) - np.bincount(rows, minlength=len(user_keys))
        required = np.minimum(eligible, self._number)
        draw = self._draw_natively if is_built() else self._draw_by_sorting
        keys, counts = draw(user_keys, excluded, required)
        short = np.flatnonzero(counts < required)
        if len(short):
            missing = required[short] - counts[short]
            excluded = sorted_union(excluded, keys)
            rest = self._draw_rest(short, user_keys[short], excluded, missing=missing)
            keys = np.sort(np.concatenate([keys, rest]))
        return keys, eligible

    @property
    def _most_draws(self) -> int:
        """The number of draws with replacement, after which the rest is drawn exactly."""
        return 4 * self._number + 64

    def _draw_natively(
        self, user_keys: Numbers, excluded: Numbers, required: Numbers
    ) -> tuple[Numbers, Numbers]:
        """Return the first distinct items that are not excluded, and their number per user."""
        keys, counts = np.empty(required.sum() + 1, dtype=np.int64), np.empty_like(required)
        seed = _mixed_seed(self._seed + _DRAW_STREAM)
        total = call(
            "draw_negatives",
            seed,
            np.ascontiguousarray(user_keys),
            len(user_keys),
            self._pool,
            len(self._pool),
            self._cumulative,
            self._num_items,
            excluded,
            len(excluded),
            required,
            self._most_draws,
            keys,
            counts,
        )
        return keys[:total], counts

    def _draw_by_sorting(
        self, user_keys: Numbers, excluded: Numbers, required: Numbers
    ) -> tuple[Numbers, Numbers]:
        """Return what `_draw_natively` does, by NumPy."""
        drawn: list[Numbers] = [np.empty(0, dtype=np.int64)]
        counts = np.zeros_like(required)
        # Few draws are enough for nearly all users; the others get more of the same sequence.
        short = np.flatnonzero(required)
        first = self._number + self._number // 8 + 16
        for draws in (min(self._most_draws, first), self._most_draws):
            if len(short):
                keys, of_short = self._draw_distinct(short, user_keys[short], excluded, draws=draws)
                is_last = (of_short == required[short]) | (draws == self._most_draws)
                drawn.append(keys[np.repeat(is_last, of_short)])
                counts[short[is_last]] = of_short[is_last]
                short = short[~is_last]
        return np.sort(np.concatenate(drawn)), counts

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
    seeded = mix64(torch.as_tensor(user_keys) + _mixed_seed(seed))
    hashes = mix64(seeded[:, None] + torch.as_tensor(numbers) * SPLITMIX_STEP)
    bits = hashes.numpy().view(np.uint64) >> np.uint64(11)
    uniforms: NDArray[np.float64] = (bits.astype(np.float64) + 0.5) * 2.0**-53
    return uniforms


def _mixed_seed(seed: int) -> int:
    """Return the hash of a seed of any size, as a signed number."""
    signed_seed = (seed + (1 << 63)) % (1 << 64) - (1 << 63)
    return int(mix64(torch.tensor(signed_seed)))


def split_keys(keys: Numbers, num_rows: int, num_items: int) -> tuple[Numbers, Numbers]:
    """Return rows and items of ascending indices in a flattened `[rows, items]` matrix.

    Several times faster than a division of each."""
    starts = np.searchsorted(keys, np.arange(num_rows + 1) * num_items)
    rows = np.repeat(np.arange(num_rows), np.diff(starts))
    return rows, keys - rows * num_items


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

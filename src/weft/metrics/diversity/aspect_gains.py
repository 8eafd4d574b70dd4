"""Gains of relevant items by their aspects: each further occurrence of an aspect adds less.

The aspects of a user are the features of the user's relevant items.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from weft.batch.batch import Batch
from weft.data import Features
from weft.data.devices import is_host_readable
from weft.data.tensors import SparseRows

# Gains that differ by a smaller share are equal: sums of equal terms may differ by rounding.
_TOLERANCE = 1e-9


@dataclass(frozen=True, eq=False)
class Aspects:
    """The aspects of the relevant items of a batch, one by one, ordered by item.

    `index [n]` of the relevant item; `pair [n]`, a number of the user and the aspect, below n;
    `is_known [n]`, False for entries that are no aspect."""

    relevant: SparseRows
    index: Tensor
    pair: Tensor
    is_known: Tensor

    def sum_by_item(self, values: Tensor) -> Tensor:
        """Return the sum of values of aspects `[n]` of each relevant item."""
        sums = torch.zeros_like(self.relevant.values)
        return sums.index_add_(0, self.index, torch.where(self.is_known, values, 0))

    def count_by_item(self) -> Tensor:
        """Return the number of aspects of each relevant item."""
        return self.sum_by_item(self.relevant.values.new_ones(len(self.index)))

    def count_by_user(self) -> Tensor:
        """Return the number of distinct aspects of each user, `[batch, 1]`."""
        is_first = self._numbers(torch.zeros_like(self.index)) == 0
        counts = self.sum_by_item(is_first.to(self.relevant.values.dtype))
        return self.relevant.sum_rows(counts)[:, None]

    def gains(self, positions: Tensor, alpha: float) -> Tensor:
        """Return the gain of each relevant item at its position: the sum over its aspects of
        (1 - alpha)^n, where n of the relevant items above have the aspect.
        """
        number = self._numbers(positions.index_select(0, self.index))
        return self.sum_by_item((1 - alpha) ** number.to(self.relevant.values.dtype))

    def _numbers(self, positions: Tensor) -> Tensor:
        """Return the number of entries of the same pair above each entry by position, `[n]`."""
        order = positions.argsort(stable=True)
        order = order[self.pair[order].argsort(stable=True)]
        pair, places = self.pair[order], torch.arange(len(order), device=order.device)
        is_first = torch.ones_like(pair, dtype=torch.bool)
        is_first[1:] = pair[1:] != pair[:-1]
        first = torch.where(is_first, places, 0)
        # No data, no maximum.
        first = first.cummax(0).values if len(first) else first
        return torch.empty_like(places).scatter_(0, order, places - first)

    def greedy_order(self, alpha: float, length: int) -> tuple[Tensor, Tensor]:
        """Return the position of each relevant item in a list that is built greedily, from 0 and
        `length` if it is not among the first, and its gain there.

        Each position takes the item with the highest gain that is left, and of several the one
        with the highest index."""
        relevant = self.relevant
        rows, places = relevant.rows, torch.arange(len(relevant.items), device=self.index.device)
        factors = relevant.values.new_ones(len(self.index))
        weights = factors.clone()  # of aspects, by pair
        is_left = relevant.fill_invalid(torch.ones_like(places, dtype=torch.bool), False)
        positions, gains = torch.full_like(places, length), torch.zeros_like(relevant.values)
        for position in range(min(length, self._longest_row())):
            candidates = self.sum_by_item(weights.index_select(0, self.pair))
            candidates = torch.where(is_left, candidates, -1)
            best = candidates.new_full((relevant.num_rows,), -1)
            best = best.scatter_reduce_(0, rows, candidates, "amax") * (1 - _TOLERANCE)
            is_best = is_left & (candidates >= best.index_select(0, rows))
            chosen = torch.full_like(best, -1, dtype=torch.int64).scatter_reduce_(
                0, rows, torch.where(is_best, places, -1), "amax"
            )
            is_chosen = places == chosen.index_select(0, rows)
            positions = torch.where(is_chosen, position, positions)
            gains = torch.where(is_chosen, candidates, gains)
            is_left = is_left & ~is_chosen
            is_covered = self.is_known & is_chosen.index_select(0, self.index)
            # An item has an aspect once: at most one factor of each pair is not 1.
            weights.scatter_reduce_(
                0, self.pair, factors.masked_fill(is_covered, 1 - alpha), "prod"
            )
        return positions, gains

    def _longest_row(self) -> int:
        """Return the number of relevant items of a user at most, as far as the host knows."""
        lengths = self.relevant.lengths
        if is_host_readable(lengths.device):
            return int(lengths.max()) if len(lengths) else 0
        return len(self.relevant.items)


def find_aspects(batch: Batch, features: Features) -> Aspects:
    """Return the aspects of the relevant items of a batch, computed once."""

    def find() -> Aspects:
        relevant = batch.relevant
        index, code = features.lookup(relevant.fill_invalid(relevant.items, -1))
        num_features = max(1, len(features.names))
        key = relevant.rows.index_select(0, index) * num_features + code.clamp(min=0)
        # Entries without a feature are a pair of their own.
        key, order = torch.where(code < 0, relevant.num_rows * num_features, key).sort(stable=True)
        is_first = torch.ones_like(key)
        is_first[1:] = key[1:] != key[:-1]
        pair = torch.empty_like(key).scatter_(0, order, is_first.cumsum(0) - 1)
        return Aspects(relevant, index, pair, code >= 0)

    return batch.cached(("aspects", features.codes), find)

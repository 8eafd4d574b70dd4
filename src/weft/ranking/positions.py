"""Positions of relevant items in the ranked lists: observed, or averaged over all orders of ties.

All classes give the same sums over the first k positions for all cut-offs at once, so that a metric
is one formula for every tie rule and for estimates from sampled negatives. Each sum takes weights
by position `[depth]`, 1 by default:

- `hits(cutoffs)`: sum over relevant items of the probability of the position (0 or 1 if observed),
- `gains(cutoffs, values)`: sum of a value per relevant item, such as its gain,
- `cumulative_hits(cutoffs)`: sum over hits of the number of hits up to and including each,
- `first_hit(cutoffs)`: sum over the first hit of each list.

`hits_within(limits)` counts the hits up to a position that differs between users.

The closed forms for ties follow McSherry and Najork (2008), doi 10.1007/978-3-540-78646-7_38.
"""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from weft.data.tensors import SparseRows
from weft.ranking.ties import count_above

Cutoffs = tuple[int, ...]


class Positions(Protocol):
    """Sums over positions, each `[batch, cut-offs]`."""

    def hits(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor: ...
    def hits_within(self, limits: Tensor) -> Tensor: ...
    def gains(self, cutoffs: Cutoffs, values: Tensor, weights: Tensor | None = None) -> Tensor: ...
    def cumulative_hits(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor: ...
    def first_hit(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor: ...
    def precision_per_hit(self, k: int) -> Tensor: ...


def cutoff_by_position(cutoffs: Cutoffs, depth: int, device: torch.device) -> Tensor:
    """Return the number of the first cut-off that includes each position, `[depth + 1]`.

    After the last cut-off: the number of cut-offs."""
    ends = [min(k, depth) for k in cutoffs]  # positions of lists are below `depth`
    spans = enumerate(zip((0, *ends), (*ends, depth + 1)))
    return torch.cat(
        [torch.full((stop - start,), number, device=device) for number, (start, stop) in spans]
    )


def rank_in_rows(positions: Tensor, relevant: SparseRows, limit: int) -> Tensor:
    """Return the rank, from 1, of each relevant item among those of its row by position, `[n]`.

    All positions are below `limit`."""
    rows = relevant.rows
    order = (rows * limit + positions).argsort(stable=True)
    first = relevant.offsets.index_select(0, rows)
    ranks = torch.arange(1, len(rows) + 1, device=rows.device) - first
    return torch.empty_like(ranks).scatter_(0, order, ranks)


class ObservedPositions:
    """Relevant items at known positions `[n]` from 0, `depth` if an item is not in the list.

    Every sum is over the relevant items, which are far fewer than positions. `hit_ranks [n]`: the
    rank, from 1, of each relevant item among those of its row; computed if not given."""

    def __init__(
        self,
        positions: Tensor,
        relevant: SparseRows,
        depth: int,
        *,
        dtype: torch.dtype,
        hit_ranks: Tensor | None = None,
    ) -> None:
        self._positions, self._relevant, self._depth = positions, relevant, depth
        self._dtype = dtype
        self._given_ranks = hit_ranks
        self._slots: dict[Cutoffs, Tensor] = {}

    def _sum(self, cutoffs: Cutoffs, values: Tensor) -> Tensor:
        """Sum values `[n]` over the items in the first k positions."""
        width = len(cutoffs) + 1  # items in no list go to one more column, which is dropped
        device = self._positions.device
        if cutoffs not in self._slots:
            by_position = cutoff_by_position(cutoffs, self._depth, device)
            column = by_position.index_select(0, self._positions)
            self._slots[cutoffs] = self._relevant.rows * width + column
        sums = torch.zeros(self._relevant.num_rows * width, dtype=self._dtype, device=device)
        sums.scatter_add_(0, self._slots[cutoffs], values)
        return sums.view(-1, width)[:, :-1].cumsum(1)

    def weights_of_items(self, weights: Tensor) -> Tensor:
        """Return weights by position `[depth]` as weights of the relevant items, `[n]`.

        0 if an item is not in the list."""
        return torch.nn.functional.pad(weights, (0, 1)).index_select(0, self._positions)

    def hits(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor:
        if weights is None:
            return self._sum(cutoffs, torch.ones_like(self._relevant.values))
        return self._sum(cutoffs, self.weights_of_items(weights))

    def hits_within(self, limits: Tensor) -> Tensor:
        """Return the number of hits in the first positions up to limits `[batch, n]`."""
        limits = limits.clamp(max=self._depth).index_select(0, self._relevant.rows)
        is_within = (self._positions[:, None] < limits).to(self._dtype)
        sums = is_within.new_zeros((self._relevant.num_rows, limits.shape[1]))
        return sums.index_add_(0, self._relevant.rows, is_within)

    def gains(self, cutoffs: Cutoffs, values: Tensor, weights: Tensor | None = None) -> Tensor:
        return self._weighted_sum(cutoffs, values, weights)

    def _weighted_sum(self, cutoffs: Cutoffs, values: Tensor, weights: Tensor | None) -> Tensor:
        if weights is not None:
            values = values * self.weights_of_items(weights)
        return self._sum(cutoffs, values)

    def cumulative_hits(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor:
        return self._weighted_sum(cutoffs, self._hit_ranks, weights)

    def first_hit(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor:
        return self._weighted_sum(cutoffs, self._first_hits, weights)

    @cached_property
    def _first_hits(self) -> Tensor:
        """1 for the first hit of each row, 0 for other relevant items, `[n]`."""
        return (self._hit_ranks == 1).to(self._dtype)

    @cached_property
    def _hit_ranks(self) -> Tensor:
        """The number of hits of the list up to and including each hit, `[n]`."""
        ranks = self._given_ranks
        if ranks is None:
            ranks = rank_in_rows(self._positions, self._relevant, self._depth + 1)
        return ranks.to(self._dtype)

    def per_position(self, values: Tensor) -> Tensor:
        """Return values of the relevant items `[n]` at their positions, `[batch, depth]`."""
        width = self._depth + 1
        flat = values.new_zeros(self._relevant.num_rows * width)
        flat.scatter_(0, self._relevant.rows * width + self._positions, values)
        return flat.view(-1, width)[:, :-1]

    def precision_per_hit(self, k: int) -> Tensor:
        """Return the mean over the hits of the precision at each, 0 without a hit, `[batch]`."""
        device = self._positions.device
        positions = torch.arange(1, self._depth + 1, dtype=self._dtype, device=device)
        sums = self.cumulative_hits((k,), 1 / positions)
        return (sums / self.hits((k,)).clamp(min=1))[:, 0]


class WeightedPositions:
    """Positions of relevant items that count a weight each, `[n]`, in sums over the hits."""

    def __init__(self, positions: Positions, item_weights: Tensor) -> None:
        self._positions, self._item_weights = positions, item_weights

    def hits(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor:
        return self._positions.gains(cutoffs, self._item_weights, weights)

    def gains(self, cutoffs: Cutoffs, values: Tensor, weights: Tensor | None = None) -> Tensor:
        return self._positions.gains(cutoffs, values * self._item_weights, weights)


class TieAveragedPositions:
    """Relevant items averaged over all orders of ties, which are equally likely.

    A group is a set of items with equal scores; only the last group of a list can extend beyond it.
    By position `[batch, depth]`: `_start`, the number of items above its group; `_size`, the items
    of its group; `_offset`, the position within the group; `_hits`, the relevant items of the
    group; `_before`, the relevant items above the group."""

    def __init__(
        self,
        values: Tensor,
        ties_with_last: Tensor,
        relevant: SparseRows,
        relevant_scores: Tensor,
        *,
        dtype: torch.dtype,
    ) -> None:
        self._dtype = dtype
        depth = values.shape[1]
        positions = torch.arange(depth, device=values.device).expand_as(values)
        is_start = torch.ones_like(values, dtype=torch.bool)
        is_start[:, 1:] = values[:, 1:] != values[:, :-1]
        self._start = torch.where(is_start, positions, 0).cummax(1).values
        ones = torch.ones_like(values, dtype=dtype)
        size = torch.zeros_like(ones).scatter_add_(1, self._start, ones).gather(1, self._start)
        is_last_group = (self._start == self._start[:, -1:]) & (values > -torch.inf)
        self._size = torch.where(is_last_group, ties_with_last[:, None].to(dtype), size)
        self._offset = (positions - self._start).to(dtype)

        # The group of a relevant item starts at the first score not above its own, if both agree.
        group = count_above(values, relevant.rows, relevant_scores).clamp(max=depth - 1)
        self._group = relevant.rows * depth + group
        is_equal = values.reshape(-1).index_select(0, self._group) == relevant_scores
        self._is_listed = is_equal & (relevant_scores > -torch.inf)
        self._set_hits(relevant)

    def _set_hits(self, relevant: SparseRows) -> None:
        """Count the relevant items of each group, and those above it."""
        hits = self._sum_by_group(torch.ones_like(relevant.values))
        self._hits = hits.gather(1, self._start)
        self._before = (hits.cumsum(1) - hits).gather(1, self._start)

    def _sum_by_group(self, values: Tensor) -> Tensor:
        """Sum values `[n]` over the relevant items of each group, at the start of the group."""
        listed = torch.where(self._is_listed, values, 0).to(self._dtype)
        sums = self._size.new_zeros(self._size.numel()).scatter_add_(0, self._group, listed)
        return sums.view_as(self._size)

    def hits(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor:
        return _sum_positions(self._relevance, cutoffs, weights)

    def hits_within(self, limits: Tensor) -> Tensor:
        hits = torch.nn.functional.pad(self._relevance.cumsum(1), (1, 0))
        return hits.gather(1, limits.clamp(max=hits.shape[1] - 1))

    def gains(self, cutoffs: Cutoffs, values: Tensor, weights: Tensor | None = None) -> Tensor:
        means = self._sum_by_group(values).gather(1, self._start) / self._size
        return _sum_positions(means, cutoffs, weights)

    def cumulative_hits(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor:
        return _sum_positions(self._cumulative_hits, cutoffs, weights)

    def first_hit(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor:
        left = self._size - self._offset
        # The probability of no hit up to each position.
        missed = ((left - self._hits).clamp(min=0) / left).cumprod(1)
        is_first = torch.nn.functional.pad(missed, (1, 0), value=1.0)[:, :-1] - missed
        return _sum_positions(is_first, cutoffs, weights)

    @cached_property
    def _relevance(self) -> Tensor:
        """The probability that a position holds a relevant item."""
        return self._hits / self._size

    @cached_property
    def _cumulative_hits(self) -> Tensor:
        """The expected product of relevance at a position and hits up to it."""
        others = self._offset * (self._hits - 1) / (self._size - 1).clamp(min=1)
        return self._relevance * (self._before + 1 + others)

    def precision_per_hit(self, k: int) -> Tensor:
        """Return the expected mean over the hits of the precision at each, `[batch]`.

        The number of hits is uncertain in the group at the cut only: sum over its possible values.
        """
        dtype, device = self._dtype, self._size.device
        k = min(k, self._size.shape[1])
        positions = torch.arange(1, k + 1, dtype=dtype, device=device)
        is_cut = self._start[:, :k] == self._start[:, k - 1 : k]  # in the group at the cut
        certain = torch.where(is_cut, 0, self._cumulative_hits[:, :k] / positions)
        certain = certain.sum(1, keepdim=True)
        first = torch.where(is_cut, 1 / positions, 0).sum(1, keepdim=True)
        second = torch.where(is_cut, self._offset[:, :k] / positions, 0).sum(1, keepdim=True)
        slots = is_cut.sum(1, keepdim=True).to(dtype)
        size, hits, before = (x[:, k - 1 : k] for x in (self._size, self._hits, self._before))
        drawn = torch.arange(k + 1, dtype=dtype, device=device)
        is_possible = (drawn <= hits) & (drawn <= slots) & (slots - drawn <= size - hits)
        probability = torch.exp(
            log_choose(hits, drawn)
            + log_choose(size - hits, slots - drawn)
            - log_choose(size, slots)
        )
        pairs = drawn * (drawn - 1) / (slots * (slots - 1).clamp(min=1))
        precisions = certain + drawn / slots * (before + 1) * first + pairs * second
        num_hits = before + drawn
        means = torch.where(num_hits > 0, precisions / num_hits.clamp(min=1), 0)
        return (torch.where(is_possible, probability, 0) * means).sum(1)


def _sum_positions(per_position: Tensor, cutoffs: Cutoffs, weights: Tensor | None) -> Tensor:
    sums = (per_position if weights is None else per_position * weights).cumsum(1)
    return torch.stack([sums[:, min(k, sums.shape[1]) - 1] for k in cutoffs], dim=1)


def log_choose(n: Tensor, k: Tensor) -> Tensor:
    """Return the log of n over k where 0 <= k <= n; elsewhere the value has no meaning."""
    k = torch.minimum(k.clamp(min=0), n)
    return torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)

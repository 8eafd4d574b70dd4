"""Estimated positions among all items, from positions among sampled negatives."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from weft.data.tensors import SparseRows
from weft.errors import SettingError
from weft.ranking.estimates import estimate_ranks, estimate_weights
from weft.ranking.negative_sampling import SampleSizes
from weft.ranking.positions import Cutoffs, ObservedPositions, Positions


@dataclass(frozen=True)
class RankEstimator:
    """A method that turns ranks among sampled negatives into estimates of ranks among all items.

    `gamma`: the weight of variance against bias (`bias_variance` only)."""

    method: str
    gamma: float = 0.1


class EstimatedPositions:
    """Some relevant items with a weight at each position, `[m, depth]`; others are in no list.

    Weights are estimates and may be negative. `index [m]`: the number of each item among the
    relevant ones; `hit_ranks [m]`: its rank, from 1, among those of its row."""

    def __init__(
        self, weights: Tensor, index: Tensor, hit_ranks: Tensor, relevant: SparseRows
    ) -> None:
        self._weights, self._index, self._relevant = weights, index, relevant
        self._rows = relevant.rows.index_select(0, index)
        self._hit_ranks = hit_ranks.to(weights.dtype)

    def _sum(self, cutoffs: Cutoffs, values: Tensor | None, weights: Tensor | None) -> Tensor:
        positions = torch.arange(self._weights.shape[1], device=self._weights.device)
        columns = torch.stack([positions < k for k in cutoffs], dim=1).to(self._weights.dtype)
        by_item = self._weights @ (columns if weights is None else columns * weights[:, None])
        return self._sum_rows(by_item if values is None else by_item * values[:, None])

    def _sum_rows(self, by_item: Tensor) -> Tensor:
        """Return the row sums `[batch, n]` of values of the items, `[m, n]`."""
        sums = by_item.new_zeros((self._relevant.num_rows, by_item.shape[1]))
        return sums.index_add_(0, self._rows, by_item)

    def hits(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor:
        return self._sum(cutoffs, None, weights)

    def hits_within(self, limits: Tensor) -> Tensor:
        hits = torch.nn.functional.pad(self._weights.cumsum(1), (1, 0))
        limits = limits.clamp(max=self._weights.shape[1]).index_select(0, self._rows)
        return self._sum_rows(hits.gather(1, limits))

    def gains(self, cutoffs: Cutoffs, values: Tensor, weights: Tensor | None = None) -> Tensor:
        return self._sum(cutoffs, values.index_select(0, self._index), weights)

    def cumulative_hits(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor:
        return self._sum(cutoffs, self._hit_ranks, weights)

    def first_hit(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor:
        return self._sum(cutoffs, (self._hit_ranks == 1).to(self._hit_ranks.dtype), weights)

    def precision_per_hit(self, k: int) -> Tensor:
        raise SettingError(
            "the mean precision over the hits is not a sum over relevant items, so it cannot be "
            "estimated from sampled negatives; use another normalizer, or remove the estimator."
        )


def estimate_positions(
    estimator: RankEstimator | None,
    positions: Tensor,
    *,
    is_offered: Tensor,
    hit_ranks: Tensor,
    sample_sizes: SampleSizes,
    relevant: SparseRows,
    depth: int,
    dtype: torch.dtype,
) -> Positions:
    """Estimate positions among all items from `positions [n]` (from 0, not cut) among negatives.

    `hit_ranks [n]`: the rank, from 1, of each relevant item among those of its row. Items that are
    not offered are in no list, nor are those of a user with eligible negatives of which none was
    drawn. Without an estimator: the positions as observed.

    The tables of `bias_variance` are computed on the CPU, which waits for the positions."""
    if estimator is None:
        cut = torch.where(is_offered, positions, depth).clamp(max=depth)
        return ObservedPositions(cut, relevant, depth, dtype=dtype, hit_ranks=hit_ranks)
    num_above = positions - (hit_ranks - 1)
    num_negatives, num_eligible = (
        sizes.index_select(0, relevant.rows)
        for sizes in (sample_sizes.num_negatives, sample_sizes.num_eligible)
    )
    is_known = is_offered & ((num_negatives > 0) | (num_eligible == 0))
    if estimator.method == "rank_estimate":
        positions = estimate_ranks(num_above, num_negatives, num_eligible) + hit_ranks - 1
        cut = torch.where(is_known, positions, depth).clamp(max=depth)
        return ObservedPositions(cut, relevant, depth, dtype=dtype, hit_ranks=hit_ranks)
    index = is_known.nonzero().flatten()
    above, drawn, pool = (
        values.index_select(0, index).cpu() for values in (num_above, num_negatives, num_eligible)
    )
    weights = estimate_weights(above, drawn, pool, gamma=estimator.gamma, depth=depth)
    weights = weights.to(positions.device, dtype)
    hit_ranks = hit_ranks.index_select(0, index)
    # With `a` negatives above, the item of hit rank j is at position a + j - 1, from 0.
    column = torch.arange(depth, device=positions.device) - (hit_ranks - 1)[:, None]
    weights = torch.where(column >= 0, weights.gather(1, column.clamp(min=0)), 0)
    return EstimatedPositions(weights, index, hit_ranks, relevant)

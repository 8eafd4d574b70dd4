"""The top k of a batch: hits, gains and sums over the first k positions at several cut-offs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from weft.batch.gains import Gain, discount_divisor
from weft.data import DeviceColumn
from weft.ranking.positions import (
    ObservedPositions,
    Positions,
    WeightedPositions,
    cutoff_by_position,
)
from weft.ranking.reference_positions import IdealPositions, RandomPositions

if TYPE_CHECKING:
    from weft.batch.batch import Batch

# Users processed at once where a quantity is computed for every position, to save memory.
_TILE_USERS = 128


class TopK:
    """A batch at some cut-offs. Quantities per user are `[batch, cut-offs]` or `[batch, 1]`.

    `k [cut-offs]`; `positions [depth]`: 1, 2, ...; `discounts [depth]`: 1 / log2(position + 1).
    Cut-offs may be beyond `depth`, where no list has an item.
    `is_estimated`: hits are those among all items, estimated from sampled negatives. `order`: the
    lists are those of the model, or a "random" or the "ideal" order of the offered items; then only
    counts, hits and gains are meaningful."""

    def __init__(
        self,
        batch: Batch,
        cutoffs: tuple[int, ...],
        *,
        is_estimated: bool = False,
        order: str = "model",
    ) -> None:
        self.batch, self.cutoffs, self.is_estimated = batch, cutoffs, is_estimated
        self.order = order
        dtype, device = batch.dtype, batch.device
        self.k = torch.cat([torch.full((1,), k, dtype=dtype, device=device) for k in cutoffs])
        self.positions, self.discounts = batch.position_weights

    @cached_property
    def all_discounts(self) -> Tensor:
        """The discount of each position up to the largest k, also beyond `depth`, `[largest k]`."""
        return self._discount_all("log")

    def _discount(self, discount: str) -> Tensor:
        """Return the discount of each position, `[depth]`."""
        if discount == "log":
            return self.discounts
        return 1 / discount_divisor(self.positions, discount)

    def _discount_all(self, discount: str) -> Tensor:
        """Return the discount of each position up to the largest k, `[largest k]`."""
        last = self.cutoffs[-1]
        if last <= len(self.positions):
            return self._discount(discount)[:last]
        positions = torch.arange(1, last + 1, dtype=self.k.dtype, device=self.k.device)
        return 1 / discount_divisor(positions, discount)

    @property
    def estimated(self) -> TopK:
        """The top k with estimated positions; itself if the run has no estimator."""
        if self.is_estimated or self.batch.estimator is None:
            return self
        return self.batch.cached(
            ("estimated", self.cutoffs), lambda: TopK(self.batch, self.cutoffs, is_estimated=True)
        )

    def in_order(self, order: str) -> TopK:
        """Return the top k of a "random" or the "ideal" order of the offered items."""
        key = (order, self.cutoffs, self.is_estimated)
        return self.batch.cached(
            key,
            lambda: TopK(self.batch, self.cutoffs, is_estimated=self.is_estimated, order=order),
        )

    @cached_property
    def relevant_positions(self) -> Positions:
        """The positions of relevant items."""
        batch = self.batch
        if self.order == "model":
            return batch.estimated_positions if self.is_estimated else batch.positions
        relevant, is_offered = batch.relevant, batch.offered.is_relevant_offered
        if self.order == "ideal":
            return IdealPositions(relevant, is_offered, batch.depth, dtype=batch.dtype)
        return RandomPositions(
            self.num_offered, relevant, is_offered, batch.depth, dtype=batch.dtype
        )

    def weigh_hits(self, weights: Tensor) -> TopK:
        """Return the top k in which each relevant item counts a weight, `[n]`, when it is a hit.

        Hits and gains are sums of weights; the best list and all counts stay as they are."""
        weighted = TopK(self.batch, self.cutoffs, is_estimated=self.is_estimated, order=self.order)
        positions = WeightedPositions(self.relevant_positions, weights)
        vars(weighted)["relevant_positions"] = positions  # other sums over positions do not exist
        return weighted

    # --------------------------------------------------------------------------------------- counts

    @property
    def num_relevant(self) -> Tensor:
        """The number of relevant items, `[batch, 1]`."""
        return self.batch.num_relevant[:, None]

    @property
    def num_negatives(self) -> Tensor:
        """The number of offered items that are not relevant, `[batch, 1]`.

        An empty position of the top k counts as one more of them: then `[batch, cut-offs]`."""
        return self.batch.offered.num_negatives[:, None] + self.num_empty

    @cached_property
    def num_offered(self) -> Tensor:
        """The number of offered items, or of those that sampled negatives stand for, `[batch]`."""
        batch = self.batch
        if not self.is_estimated or batch.sample_sizes is None:
            return batch.offered.counts
        is_offered = batch.offered.is_relevant_offered.to(batch.dtype)
        return batch.sample_sizes.num_eligible + batch.relevant.sum_rows(is_offered)

    @property
    def max_hits(self) -> Tensor:
        """The most hits that a list of k can have: min(relevant items, k)."""
        return torch.minimum(self.num_relevant, self.k)

    @property
    def list_length(self) -> Tensor:
        """The number of positions of each list cut at k, empty ones included."""
        lengths = self.batch.lengths if self.order == "model" else self.num_offered
        return torch.minimum(lengths[:, None].to(self.k.dtype), self.k)

    @property
    def has_empty(self) -> bool:
        """True if lists may have empty positions."""
        return self.batch.has_empty and self.order == "model"

    @property
    def num_listed(self) -> Tensor:
        """The number of items in the top k; `list_length` without the empty positions."""
        if not self.has_empty:
            return self.list_length
        return self.batch.cached(
            ("num_listed", self.cutoffs),
            lambda: self.sum_positions((self.batch.items >= 0).to(self.k.dtype)),
        )

    def count_empty(self, *codes: int) -> Tensor | int:
        """Return the number of positions in the top k that are empty for one of some reasons, by
        the codes of `list_policy`.
        """
        if not self.has_empty:
            return 0
        held = self.batch.ranking.items[:, : self.batch.depth]
        is_counted = torch.stack([held == code for code in codes]).any(0)
        return self.sum_positions(is_counted.to(self.k.dtype))

    @property
    def num_empty(self) -> Tensor | int:
        """The number of empty positions in the top k."""
        return self.list_length - self.num_listed if self.has_empty else 0

    # ----------------------------------------------------------------------------- hits and gains

    @cached_property
    def hits(self) -> Tensor:
        """The number of relevant items in the top k."""
        return self.relevant_positions.hits(self.cutoffs)

    def hits_within(self, limits: Tensor) -> Tensor:
        """Return the number of relevant items in the first min(limit, k) positions.

        `limits [batch, 1]` have integer values."""
        return self.relevant_positions.hits_within(torch.minimum(limits, self.k).long())

    @cached_property
    def hit_position_sum(self) -> Tensor:
        """The sum of the positions, from 1, of the hits in the top k."""
        return self.relevant_positions.hits(self.cutoffs, self.positions)

    def first_hit(self, weights: Tensor | None = None) -> Tensor:
        """Return the weight of the position of the first hit, 0 without a hit.

        `weights [depth]` by position; 1 by default."""
        return self.relevant_positions.first_hit(self.cutoffs, weights)

    def cumulative_hits(self, weights: Tensor | None = None) -> Tensor:
        """Return the sum over the hits of the number of hits up to and including each.

        `weights [depth]`, by position, multiply each summand; without them: 1 + 2 + ... + hits."""
        if weights is not None:
            return self.relevant_positions.cumulative_hits(self.cutoffs, weights)
        return self.batch.cached(
            ("cumulative_hits", self.cutoffs, self.is_estimated, self.order),
            lambda: self.relevant_positions.cumulative_hits(self.cutoffs),
        )

    def precision_per_hit(self) -> Tensor:
        """Return the mean over the hits of the precision at each, 0 without a hit."""
        positions = self.relevant_positions
        return torch.stack([positions.precision_per_hit(k) for k in self.cutoffs], dim=1)

    def dcg(self, gain: Gain, discount: str = "log") -> Tensor:
        """Return the discounted cumulative gain of the lists."""
        gains, weights = self.batch.gains(gain), self._discount(discount)
        return self.relevant_positions.gains(self.cutoffs, gains, weights)

    def ideal_dcg(self, gain: Gain, discount: str = "log", *, missing_gain: float = 0.0) -> Tensor:
        """Return the discounted cumulative gain of the best list of k.

        `missing_gain` is the gain of each position for which there is no relevant item."""
        gains, positions = self.ideal_order(gain)
        ideal = positions.gains(self.cutoffs, gains, self._discount(discount))
        if missing_gain == 0:
            return ideal
        cumulative = torch.nn.functional.pad(self._discount_all(discount).cumsum(0), (1, 0))
        missing = cumulative[self.k.long()] - cumulative[self.max_hits.long()]
        return ideal + missing_gain * missing

    def ideal_order(self, gain: Gain) -> tuple[Tensor, ObservedPositions]:
        """Return the gains of the relevant items, `[n]`, and their positions in the best list."""
        batch = self.batch
        gains, positions = batch.ideal_gains(gain)
        return gains, ObservedPositions(
            positions.clamp(max=batch.depth), batch.relevant, batch.depth, dtype=batch.dtype
        )

    def full_ideal_dcg(self, gain: Gain, discount: str = "log") -> Tensor:
        """Return the discounted gain of the best list of all relevant items, `[batch, 1]`."""
        gains, positions = self.batch.ideal_gains(gain)
        discounted = gains / discount_divisor(positions.to(gains.dtype) + 1, discount)
        # Not `sum_rows`, which would clear padding: the gains have moved within their rows, and
        # those of padding are 0.
        sums = gains.new_zeros(self.batch.size)
        return sums.index_add_(0, self.batch.relevant.rows, discounted)[:, None]

    # ------------------------------------------------------------------------ sums over positions

    def sum_positions(self, values: Tensor) -> Tensor:
        """Return the sums of values by position `[batch, depth]` over the top k."""
        # Summed span by span: a cumulative sum would take as much memory as the values.
        spans = zip((0, *self.cutoffs), self.cutoffs)
        sums = [values[:, start:stop].sum(1) for start, stop in spans]
        return torch.stack(sums, dim=1).cumsum(1)

    def sum_items(self, compute: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """Return the sums over the top k of `compute(items, scores)`, all `[users, depth]`.

        It is called for a few users at a time."""
        tiles = zip(*(torch.split(x, _TILE_USERS) for x in (self.batch.items, self.batch.values)))
        return torch.cat([self.sum_positions(compute(*tile)) for tile in tiles])

    def sum_column(self, column: DeviceColumn) -> Tensor:
        """Return the sums over the top k of a value per item."""
        return self.batch.cached(
            ("sum_column", column, self.cutoffs),
            lambda: self.sum_items(lambda items, _: column.lookup(items)),
        )

    @cached_property
    def cutoff_index(self) -> Tensor:
        """The number of the first cut-off that includes each position, `[depth + 1]`."""
        return cutoff_by_position(self.cutoffs, self.batch.depth, self.batch.device)

    @cached_property
    def item_slots(self) -> Tensor:
        """The index of each position in a flattened `[items, cut-offs]`, `[batch, n]`.

        n is the largest k, at most `depth`. 0 after the end of a list."""
        last, width = self.cutoffs[-1], len(self.cutoffs)
        items = self.batch.items[:, :last]
        is_small = self.batch.truth.num_items * width < 1 << 31
        slots = torch.empty_like(items, dtype=torch.int32 if is_small else torch.int64)
        for tile, out in zip(torch.split(items, _TILE_USERS), torch.split(slots, _TILE_USERS)):
            out.copy_((tile * width).add_(self.cutoff_index[: items.shape[1]]).clamp_(min=0))
        return slots

    @cached_property
    def hit_slots(self) -> tuple[Tensor, Tensor]:
        """Indices of relevant items in a flattened `[items, cut-offs]`, and whether they are hits.

        0 and 0.0 if it is not in the list; `[n]` both."""
        index = self.cutoff_index.index_select(0, self.batch.hit_positions)
        is_hit = index < len(self.cutoffs)
        slots = torch.where(is_hit, self.batch.relevant.items * len(self.cutoffs) + index, 0)
        return slots, is_hit.to(self.batch.dtype)

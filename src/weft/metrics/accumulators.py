"""Accumulators: quantities that add up over users, and the part that each batch contributes.

A metric is a formula over accumulators, and metrics that need the same accumulator share it. An
accumulator has a number of rows, and a column for each cut-off if it depends on one.
`weft.metrics.state_layout` places all accumulators of a run in one vector.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import torch
from torch import Tensor

from weft.batch.batch import Batch
from weft.batch.topk import TopK
from weft.data import Labels
from weft.data.devices import float_type
from weft.metrics.names import MetricSpec

if TYPE_CHECKING:
    from weft.metrics.base.formulas import RatingMetric, UserMeanMetric

# Values that are converted and added at once, and users processed at once, to bound temporaries.
_CHUNK_VALUES, _CHUNK_USERS = 1 << 13, 128


class Contribution(NamedTuple):
    """The values that the users of a batch add to an accumulator, attributed to users.

    `values [n, ...]`. `indices`, of the same shape, are positions in the flattened `[rows,
    cut-offs]`; None means that the dimensions after n run over all positions. `user_rows [n]` are
    rows of the batch; None means that the n are the users of the batch."""

    values: Tensor
    indices: Tensor | None = None
    user_rows: Tensor | None = None

    def reduce(self, size: int) -> Contribution:
        """Return the sum at each of `size` positions, without users, if that makes it smaller."""
        if self.indices is None:
            return Contribution(self.values.sum(0, keepdim=True))
        if not 0 < size < self.values.numel():
            return self
        sums = torch.zeros(size, dtype=float_type(self.values.device), device=self.values.device)
        self.add_to(sums)
        return Contribution(sums[None])

    def add_to(self, sums: Tensor) -> None:
        """Add the values of all users to the sums `[positions]`, in place."""
        if self.indices is None:
            values = self.values if len(self.values) == 1 else self.values.sum(0)
            sums += values.reshape(-1).to(sums.dtype)
            return
        chunks = (
            torch.split(self.indices.reshape(-1), _CHUNK_VALUES),
            torch.split(self.values.reshape(-1), _CHUNK_VALUES),
        )
        for indices, values in zip(*chunks):
            sums.index_add_(0, indices, values.to(sums.dtype))

    def select_from(self, sums: Tensor) -> Tensor:
        """Return a copy of the sums that `add_to` changes, for `write_to`."""
        return sums.clone() if self.indices is None else sums[self.indices.reshape(-1)]

    def write_to(self, sums: Tensor, selected: Tensor) -> None:
        """Undo `add_to`: write back what `select_from` returned before it."""
        if self.indices is None:
            sums.copy_(selected)
        else:
            sums[self.indices.reshape(-1)] = selected


@dataclass(frozen=True)
class Accumulator:
    """A quantity that adds up, `[rows, cut-offs]`. Equal accumulators are computed once."""

    # True if there is a column for each cut-off; otherwise there is a single column.
    has_cutoffs: ClassVar[bool] = True
    # True if a batch contributes a value for each position of its lists, rather than few.
    is_per_position: ClassVar[bool] = False
    count_rows: ClassVar[slice] = slice(0)  # rows that are numbers of users or lists
    is_scalar: ClassVar[bool] = False  # True if the only row is read as a scalar

    @property
    def num_rows(self) -> int:
        raise NotImplementedError

    def contributions(self, topk: TopK) -> Contribution:
        """Return the contribution of a batch by user."""
        raise NotImplementedError

    def batch_total(self, topk: TopK) -> Contribution:
        """Return the batch total if it is cheaper; attribution to users is lost."""
        return self.contributions(topk)

    def decode(self, sums: Tensor) -> Tensor:
        """Return the accumulated quantity `[rows, cut-offs]` from its stored sums."""
        return sums


@dataclass(frozen=True)
class UserMeanSums(Accumulator):
    """The `MEAN_SUMS` of a metric's values per user: its mean and its standard error."""

    key: MetricSpec
    metric: UserMeanMetric = field(compare=False)

    def values(self, topk: TopK) -> Tensor:
        """Return the values that enter the mean, `[batch, cut-offs]`; NaN for users left out."""
        return self.metric.averaged_values(topk)

    def user_weights(self, batch: Batch) -> Tensor | None:
        """Return the weight of each user in the mean `[batch]`; None for equal weights."""
        return self.metric.user_weights(self.metric.own_batch(batch))


@dataclass(frozen=True)
class ReferenceSums(UserMeanSums):
    """The `MEAN_SUMS` of values per user in a "random" or the "ideal" order of the candidates."""

    order: str = "random"

    def values(self, topk: TopK) -> Tensor:
        return self.metric.reference_values(topk, self.order)


@dataclass(frozen=True)
class GroupMeanSums(Accumulator):
    """Per user group, the sum of values `[batch, cut-offs]` and their number; rows `[2 groups]`."""

    key: MetricSpec
    groups: Labels
    values: Callable[[TopK], Tensor] = field(compare=False)

    @property
    def num_rows(self) -> int:
        return 2 * len(self.groups.names)

    def contributions(self, topk: TopK) -> Contribution:
        values = self.values(topk)
        group = self.groups.codes.lookup(topk.batch.users, -1)[:, None]
        is_counted = ~torch.isnan(values) & (group >= 0)
        both = torch.stack([torch.where(is_counted, values, 0), is_counted.to(values.dtype)], dim=1)
        width = len(topk.cutoffs)
        columns = torch.arange(width, device=values.device)
        first = torch.where(group >= 0, group * width, 0) + columns
        second = first + len(self.groups.names) * width
        return Contribution(both, torch.stack([first, second], dim=1))


@dataclass(frozen=True)
class UserSums(Accumulator):
    """Quantities `[batch, size]` of each user, added up; equal keys mean equal quantities.

    `threshold`: the relevance threshold of a metric that has its own."""

    key: Hashable
    size: int
    values: Callable[[Batch], Tensor] = field(compare=False)
    threshold: float | None = None
    has_cutoffs = False

    @property
    def num_rows(self) -> int:
        return self.size

    def contributions(self, topk: TopK) -> Contribution:
        batch = topk.batch
        own = batch if self.threshold is None else batch.at_threshold(self.threshold)
        return Contribution(self.values(own))


@dataclass(frozen=True)
class RatingErrorSums(Accumulator):
    """The sum of the errors of all ratings that have a score, and their number."""

    key: MetricSpec
    metric: RatingMetric = field(compare=False)
    has_cutoffs = False

    @property
    def num_rows(self) -> int:
        return 2

    def contributions(self, topk: TopK) -> Contribution:
        errors, is_scored = self.metric.rating_errors(topk.batch)
        both = torch.stack([errors, is_scored.to(errors.dtype)], dim=1)
        return Contribution(both, user_rows=topk.batch.truth.rows)


@dataclass(frozen=True)
class PairWins(Accumulator):
    """Over users with a negative: the share of negatives below each relevant item, summed; the
    number of relevant items; the number of users.
    """

    has_cutoffs = False
    count_rows = slice(2, 3)

    @property
    def num_rows(self) -> int:
        return 3

    def contributions(self, topk: TopK) -> Contribution:
        batch = topk.batch
        wins, has_pairs = batch.offered.pairwise_wins, batch.offered.has_pairs
        relevant = torch.where(has_pairs, batch.num_relevant, 0)
        sums = [torch.where(has_pairs, wins, 0), relevant, has_pairs.to(wins.dtype)]
        return Contribution(torch.stack(sums, dim=1))


@dataclass(frozen=True)
class ItemAccumulator(Accumulator):
    """A number for each item of the catalogue."""

    num_items: int
    is_sparse = True  # of a large catalogue most items have 0

    @property
    def num_rows(self) -> int:
        return self.num_items


@dataclass(frozen=True)
class ListedItemAccumulator(ItemAccumulator):
    """The sum of a quantity over the positions that an item has in lists.

    A position is stored at the first cut-off that includes it."""

    def decode(self, sums: Tensor) -> Tensor:
        return sums.cumsum(1)


@dataclass(frozen=True)
class ItemExposure(ListedItemAccumulator):
    """The number of lists that contain each item, of all users ("lists") or of those with a
    relevant item ("evaluated").
    """

    users: str = "lists"
    is_per_position = True
    count_rows = slice(None)

    def contributions(self, topk: TopK) -> Contribution:
        is_counted = topk.batch.items[:, : topk.cutoffs[-1]] >= 0
        if self.users == "evaluated":
            is_counted = is_counted & (topk.num_relevant > 0)
        return Contribution(is_counted, topk.item_slots)


@dataclass(frozen=True)
class HitAccumulator(ListedItemAccumulator):
    """The sum of a quantity over the relevant items in the lists."""

    def weights(self, topk: TopK) -> Tensor:
        """Return the quantity for each relevant (user, item) pair, `[pairs]`."""
        raise NotImplementedError

    def contributions(self, topk: TopK) -> Contribution:
        slots, is_hit = topk.hit_slots
        return Contribution(is_hit * self.weights(topk), slots, topk.batch.relevant.rows)


@dataclass(frozen=True)
class ItemHits(HitAccumulator):
    """The number of lists in which each item is a hit."""

    def weights(self, topk: TopK) -> Tensor:
        return topk.hit_slots[1]


@dataclass(frozen=True)
class ItemGains(HitAccumulator):
    """The gain of each item over its hits, discounted by position or not."""

    gain: str = "exponential"
    discount: bool = True

    def weights(self, topk: TopK) -> Tensor:
        gains = topk.batch.gains(self.gain)
        if not self.discount:
            return gains
        return gains * topk.batch.observed_positions.weights_of_items(topk.discounts)


@dataclass(frozen=True)
class ItemHitScores(HitAccumulator):
    """The score of each item over its hits."""

    def weights(self, topk: TopK) -> Tensor:
        scores = topk.batch.relevant_scores.to(topk.k.dtype)
        # An item without a score is no hit, but -inf times 0 is NaN.
        return torch.where(scores > -torch.inf, scores, 0)


@dataclass(frozen=True)
class ItemRelevance(ItemAccumulator):
    """An accumulator of the number of users for whom each item is relevant, `[num_items]`.

    >>> import weft
    >>> weft.ItemRelevance(num_items=3).num_rows
    3
    """

    has_cutoffs = False

    def contributions(self, topk: TopK) -> Contribution:
        relevant = topk.batch.relevant
        return Contribution(relevant.valid_ones, relevant.items, relevant.rows)


@dataclass(frozen=True)
class ItemCandidacy(ItemAccumulator):
    """The number of users for whom each item was a candidate: of all users ("lists") or of those
    with a relevant item ("evaluated").

    Most items are candidates of most users. An extra last row counts the users with all items as
    candidates, except for those that are subtracted one by one."""

    users: str = "lists"
    has_cutoffs = False
    is_sparse = False

    @property
    def num_rows(self) -> int:
        return self.num_items + 1

    def contributions(self, topk: TopK) -> Contribution:
        has_all, pairs = topk.batch.offered.by_user(only_evaluated=self.users == "evaluated")
        users = torch.arange(topk.batch.size, device=has_all.device)
        return Contribution(
            torch.cat([has_all.to(pairs.values.dtype), pairs.values]),
            torch.cat([torch.full_like(users, self.num_items), pairs.items]),
            torch.cat([users, pairs.rows]),
        )

    def batch_total(self, topk: TopK) -> Contribution:
        masked = topk.batch.offered.find_masked_items(only_evaluated=self.users == "evaluated")
        if masked is not None and len(masked[1]) < self.num_items:  # fewer values than items
            users, items = masked
            indices = torch.nn.functional.pad(items, (1, 0), value=self.num_items)
            values = torch.full(indices.shape, -1.0, dtype=topk.k.dtype)
            values[0] = users
            return Contribution(values, indices)
        # Counted by item: the pairs of users with few candidates would be many, and their number
        # would synchronize the device.
        counts = topk.batch.offered.count_by_item(only_evaluated=self.users == "evaluated")
        return Contribution(torch.nn.functional.pad(counts, (0, 1))[None])

    def decode(self, sums: Tensor) -> Tensor:
        return sums[:-1] + sums[-1:]


@dataclass(frozen=True)
class GroupExposure(Accumulator):
    """The number of recommended positions of each user group that each item cluster has; rows
    `[groups * clusters]`.
    """

    groups: Labels
    clusters: Labels
    is_per_position = True

    @property
    def num_rows(self) -> int:
        return len(self.groups.names) * len(self.clusters.names)

    def contributions(self, topk: TopK) -> Contribution:
        values, indices, _ = zip(*self._chunks(topk))
        return Contribution(torch.cat(values), torch.cat(indices))

    def batch_total(self, topk: TopK) -> Contribution:
        size = self.num_rows * len(topk.cutoffs)
        if not 0 < size < topk.batch.items.numel():
            return self.contributions(topk)
        sums = torch.zeros(size, dtype=topk.k.dtype, device=topk.k.device)
        for chunk in self._chunks(topk):
            chunk.add_to(sums)
        return Contribution(sums[None])

    def _chunks(self, topk: TopK) -> Iterator[Contribution]:
        """Yield the contributions of `_CHUNK_USERS` users at a time."""
        last = topk.cutoffs[-1]
        groups = torch.split(self.groups.codes.lookup(topk.batch.users, -1)[:, None], _CHUNK_USERS)
        for group, items in zip(groups, torch.split(topk.batch.items[:, :last], _CHUNK_USERS)):
            cluster = self.clusters.codes.lookup(items, -1)
            is_counted = (group >= 0) & (cluster >= 0)
            row = torch.where(is_counted, cluster.add_(group * len(self.clusters.names)), 0)
            indices = row.mul_(len(topk.cutoffs)).add_(topk.cutoff_index[: items.shape[1]]).int()
            yield Contribution(is_counted, indices)

    def decode(self, sums: Tensor) -> Tensor:
        return sums.cumsum(1)

"""What adds up over batches. A metric is a formula over some totals; metrics that need the same
total share it.

A total has a number of rows, and a column for each cut-off if it depends on one. All totals of a
run lie behind one another in one vector of sums (`StateLayout`), so that batches, shards and processes
merge by adding vectors."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
import torch
from torch import Tensor

from weft.batch.batch import Batch
from weft.batch.topk import TopK
from weft.data import DeviceColumn, Labels
from weft.data.devices import float_type
from weft.metrics.group_rates import by_group
from weft.metrics.names import MetricSpec

if TYPE_CHECKING:
    from weft.metrics.base.formulas import RatingMetric, UserMeanMetric

# Up to so many items it is cheaper to look at all than to find those that matter.
_SMALL = 1 << 17
# Means over users that are added up together: enough to make few operations, not so many as to take
# much memory.
_TOGETHER = 8
# Terms that are converted and added at once, and users whose terms are made at once: what is made
# on the way takes little memory.
_PIECE, _USERS = 1 << 13, 128


class Contribution(NamedTuple):
    """What the users of a batch add to a total, and whose it is.

    `values [n, ...]`; `places`, of the same shape: where each is added in the flattened `[rows,
    cut-offs]`, or None: what follows n runs over all places. `rows [n]`: the user's row in the
    batch, or None: the n are the users of the batch."""

    values: Tensor
    places: Tensor | None = None
    rows: Tensor | None = None

    def reduce(self, size: int) -> Contribution:
        """The same as sums for each of `size` places, if there are more terms than places."""
        if self.places is None:
            return Contribution(self.values.sum(0, keepdim=True))
        if not 0 < size < self.values.numel():
            return self
        sums = torch.zeros(size, dtype=float_type(self.values.device), device=self.values.device)
        self.add_to(sums)
        return Contribution(sums[None])

    def add_to(self, sums: Tensor) -> None:
        """Add everybody's terms to the sums of all places, in place."""
        if self.places is None:
            sums += (
                (self.values if len(self.values) == 1 else self.values.sum(0))
                .reshape(-1)
                .to(sums.dtype)
            )
            return
        for where, what in zip(
            torch.split(self.places.reshape(-1), _PIECE),
            torch.split(self.values.reshape(-1), _PIECE),
        ):
            sums.index_add_(0, where, what.to(sums.dtype))


@dataclass(frozen=True)
class Accumulator:
    """A quantity that adds up, `[rows, cut-offs]`. Equal totals are computed once."""

    @property
    def rows(self) -> int:
        raise NotImplementedError

    @property
    def has_cutoffs(self) -> bool:
        """Whether there is a column for each cut-off, rather than one in all."""
        return True

    @property
    def of_lists(self) -> bool:
        """Whether a batch adds a term for each position of its lists, rather than few."""
        return False

    def contributions(self, topk: TopK) -> Contribution:
        """What each user of a batch adds."""
        raise NotImplementedError

    def batch_total(self, topk: TopK) -> Contribution:
        """What they add in all, where that is had at less cost; whose it is, it then does not say."""
        return self.contributions(topk)

    def read(self, sums: Tensor) -> Tensor:
        """The total `[rows, cut-offs]` from its sums."""
        return sums


class StateLayout:
    """Where each total lies in one vector of sums, and how a batch is added to it.

    First comes a table with a column for each mean over users and cut-off: all of them are added up
    together."""

    def __init__(
        self, wanted: Mapping[Accumulator, set[int]], slices: Mapping[str, Labels] | None = None
    ) -> None:
        self.cutoffs = {
            total: tuple(sorted(of)) if total.has_cutoffs else (1,) for total, of in wanted.items()
        }
        self._columns: dict[UserMeanSums, slice] = {}
        width = 0
        for total, cutoffs in self.cutoffs.items():
            if isinstance(total, UserMeanSums):
                self._columns[total] = slice(width, width + len(cutoffs))
                width += len(cutoffs)
        self._table = slice(0, len(MEAN_SUMS) * width)
        self._places: dict[Accumulator, slice] = {}
        end = self._table.stop
        for total, cutoffs in self.cutoffs.items():
            if not isinstance(total, UserMeanSums):
                self._places[total] = slice(end, end + total.rows * len(cutoffs))
                end = self._places[total].stop
        self.other_sums = slice(self._table.stop, end)  # all that is no mean over users
        self.slices = dict(slices or {})
        self._sliced: dict[str, slice] = {}
        for name, groups in self.slices.items():  # the table again for each group of users
            self._sliced[name] = slice(end, end + len(groups.names) * self._table.stop)
            end = self._sliced[name].stop
        self.size = end

    def contributions(
        self, batch: Batch, *, by_user: bool = False
    ) -> list[tuple[slice, Contribution]]:
        """What a batch adds, ready to be added: first what is small, so that little is held while
        metrics are computed.

        `by_user`: whose each term is, is said of all totals but the means over users, whose values
        `user_values` gives."""

        def of(total: Accumulator) -> tuple[slice, Contribution]:
            topk = batch.at_cutoffs(self.cutoffs[total])
            place = self._places[total]
            # Where nobody asks whose terms are, they are added up at once if that makes them fewer.
            return place, total.contributions(topk) if by_user else total.batch_total(topk).reduce(
                place.stop - place.start
            )

        terms = [of(total) for total in self._places if not total.of_lists]
        if self._columns:
            terms += self._user_tables(batch)
        return terms + [of(total) for total in self._places if total.of_lists]

    def _user_tables(self, batch: Batch) -> Iterable[tuple[slice, Contribution]]:
        """The table of all users, and of each slice the tables of its groups."""
        totals = list(self._columns)
        few = (totals[start : start + _TOGETHER] for start in range(0, len(totals), _TOGETHER))
        values = (torch.cat([self._values(total, batch) for total in some], dim=1) for some in few)
        return self._tables(values, self.user_weights(batch), batch.users)

    def mean_tables(
        self, values: Tensor, weights: Mapping[int, Tensor], users: Tensor
    ) -> Iterable[tuple[slice, Contribution]]:
        """The same from the values that are averaged, `[users, columns of the table]`, and the
        users' numbers.
        """
        return (
            self._tables(iter(torch.split(values, _TOGETHER, dim=1)), weights, users)
            if values.shape[1]
            else ()
        )

    def _tables(
        self, pieces: Iterator[Tensor], weights: Mapping[int, Tensor], users: Tensor
    ) -> Iterable[tuple[slice, Contribution]]:
        """From the values of some columns at a time."""
        parts, sliced, weighted = (
            [],
            {name: list[Tensor]() for name in self.slices},
            dict[int, Tensor](),
        )
        first = 0
        for values in pieces:
            parts.append(mean_sums(values))
            for name, groups in self.slices.items():
                sliced[name].append(mean_sums_by_group(values, groups, users))
            weighted |= {
                column: values[:, column - first, None]
                for column in weights
                if 0 <= column - first < values.shape[1]
            }
            first += values.shape[1]
        table = torch.cat(parts, dim=1)
        tables = {name: torch.cat(found, dim=2) for name, found in sliced.items()}
        for column, values in weighted.items():
            table[:, column, None] = mean_sums(values, weights[column])
            for name, groups in self.slices.items():
                tables[name][:, :, column, None] = mean_sums_by_group(
                    values, groups, users, weights[column]
                )
        yield self._table, Contribution(table.reshape(1, -1))
        for name, of_groups in tables.items():
            yield self._sliced[name], Contribution(of_groups.reshape(1, -1))

    def _values(self, total: UserMeanSums, batch: Batch) -> Tensor:
        return total.metric.averaged_values(batch.at_cutoffs(self.cutoffs[total]))

    def columns(self, total: Accumulator) -> slice:
        """Where a mean over users lies in the table: a column for each cut-off."""
        assert isinstance(total, UserMeanSums)
        return self._columns[total]

    def user_values(self, batch: Batch) -> Tensor:
        """The values that are averaged, `[batch, columns of the table]`; NaN where undefined."""
        nothing = batch.truth.values.new_empty((batch.size, 0))
        return torch.cat([nothing, *(self._values(total, batch) for total in self._columns)], dim=1)

    def user_weights(self, batch: Batch) -> dict[int, Tensor]:
        """How much each user counts `[batch]` in the means where not all count alike, by column."""
        found = (
            (total.metric.user_weights(batch), columns) for total, columns in self._columns.items()
        )
        return {
            column: weights
            for weights, columns in found
            if weights is not None
            for column in range(columns.start, columns.stop)
        }

    @staticmethod
    def add(sums: Tensor, terms: list[tuple[slice, Contribution]]) -> None:
        """Add to the vector, in place."""
        for place, added in terms:
            if place.start < place.stop:
                added.add_to(sums[place])

    def view(self, sums: Tensor) -> Callable[[int | None], StateView]:
        """The totals at a cut-off, for any cut-off."""
        reader = StateReader(self, sums)
        return lambda k: StateView(reader, k)

    def select(self, sums: Tensor, total: Accumulator) -> Tensor:
        """What was added up for a total, `[rows, cut-offs]`."""
        if isinstance(total, UserMeanSums):
            return sums[self._table].view(len(MEAN_SUMS), -1)[:, self._columns[total]]
        return sums[self._places[total]].view(total.rows, len(self.cutoffs[total]))

    def select_group(self, sums: Tensor, name: str, group: int) -> Tensor:
        """Sums of one group of a slice, from which its means over users can be read."""
        return sums[self._sliced[name]].view(-1, self._table.stop)[group]


class StateReader:
    """Reads totals off the sums, each once for all cut-offs.

    Most items of a large catalogue stand in no list: there, what is known per item is looked at
    only where there is something."""

    def __init__(self, layout: StateLayout, sums: Tensor) -> None:
        self.layout = layout
        self._sums = sums
        self._known: dict[object, Tensor] = {}

    def _once(self, key: object, compute: Callable[[], Tensor]) -> Tensor:
        if key not in self._known:
            self._known[key] = compute()
        return self._known[key]

    def all(self, total: Accumulator) -> Tensor:
        """The total, `[rows, cut-offs]`."""
        return self._once(total, lambda: total.read(self.layout.select(self._sums, total)))

    def items(self, total: ItemAccumulator) -> Tensor:
        """The items that have something at any cut-off, and perhaps others that stand in a list; of
        a small catalogue, all.
        """
        listed, cutoffs = ItemExposure(total.num_items), self.layout.cutoffs
        if (
            isinstance(total, ListedItemAccumulator)
            and listed in cutoffs
            and cutoffs[listed][-1] >= cutoffs[total][-1]
        ):
            total = (
                listed  # whatever is counted of lists is counted of these items: one look for all
            )

        def compute() -> Tensor:
            added = self.layout.select(self._sums, total)
            if total.num_items <= _SMALL:
                return torch.arange(total.num_items, device=added.device)
            items = (
                np.flatnonzero(added.cpu().numpy() != 0) // added.shape[1]
            )  # by NumPy, which is several times faster
            once = items[np.diff(items, prepend=-1) > 0]  # whatever its number of cut-offs
            return torch.from_numpy(once).to(added.device)

        return self._once(("items", total), compute)

    def at(self, total: ItemAccumulator, like: ItemAccumulator) -> Tensor:
        """A total at the items of another, `[their number, cut-offs]`."""
        if total.num_items <= _SMALL:
            return self.all(total)
        added = self.layout.select(self._sums, total)
        return self._once(
            ("at", total, like), lambda: total.read(added.index_select(0, self.items(like)))
        )

    def by_group(
        self, total: ItemAccumulator, groups: DeviceColumn, number: int, *, items: bool = False
    ) -> Tensor:
        """A total summed over groups of items, `[groups, cut-offs]`, or the number of items that
        have something.
        """

        def compute() -> Tensor:
            codes = groups.to(self._sums.device)
            if total.is_of_few and total.num_items > _SMALL:
                values, codes = self.at(total, total), codes.index_select(0, self.items(total))
            else:
                values = self.all(total)
            values, codes = (values > 0).to(values.dtype) if items else values, codes.long()
            return torch.stack(
                [by_group(column, codes, number) for column in values.unbind(1)], dim=1
            )

        return self._once(("by_group", total, groups, items), compute)


@dataclass(frozen=True)
class StateView:
    """The totals at one cut-off."""

    reader: StateReader
    k: int | None

    def _pick(self, total: Accumulator, values: Tensor) -> Tensor:
        cutoffs = self.reader.layout.cutoffs[total]
        return values[:, cutoffs.index(self.k) if total.has_cutoffs and self.k is not None else 0]

    def __getitem__(self, total: Accumulator) -> Tensor:
        """A total, `[rows]`."""
        return self._pick(total, self.reader.all(total))

    def at_items(self, total: ItemAccumulator, like: ItemAccumulator | None = None) -> Tensor:
        """A total at the items that have something in it, or in another total; elsewhere it is 0."""
        return self._pick(total, self.reader.at(total, like or total))

    def items(self, total: ItemAccumulator) -> Tensor:
        """The items of `at_items`, among them all that have something in a total."""
        return self.reader.items(total)

    def by_group(self, total: ItemAccumulator, groups: DeviceColumn, number: int) -> Tensor:
        """A total summed over groups of items, `[groups]`; items without a group (-1) are left out."""
        return self._pick(total, self.reader.by_group(total, groups, number))

    def items_by_group(self, total: ItemAccumulator, groups: DeviceColumn, number: int) -> Tensor:
        """How many items of each group have something in a total, `[groups]`."""
        return self._pick(total, self.reader.by_group(total, groups, number, items=True))


# --------------------------------------------------------------------------------------------------

MEAN_SUMS = ("users", "weight", "weighted", "weight2", "weight2_value", "weight2_value2")


@dataclass(frozen=True)
class UserMeanSums(Accumulator):
    """What the mean of a metric over users and its standard error need."""

    key: MetricSpec
    metric: UserMeanMetric = field(compare=False)

    @property
    def rows(self) -> int:
        return len(MEAN_SUMS)

    @property
    def has_cutoffs(self) -> bool:
        return self.metric.k is not None


@dataclass(frozen=True)
class GroupSums(Accumulator):
    """For each group of users, the sum of some values `[batch, cut-offs]` and their number: rows
    `[2 * groups]`.
    """

    key: MetricSpec
    groups: Labels
    values: Callable[[TopK], Tensor] = field(compare=False)

    @property
    def rows(self) -> int:
        return 2 * len(self.groups.names)

    def contributions(self, topk: TopK) -> Contribution:
        values = self.values(topk)
        group = self.groups.codes.lookup(topk.batch.users, -1)[:, None]
        counted = ~torch.isnan(values) & (group >= 0)
        both = torch.stack([torch.where(counted, values, 0), counted.to(values.dtype)], dim=1)
        width = len(topk.cutoffs)
        first = torch.where(group >= 0, group * width, 0) + torch.arange(
            width, device=values.device
        )
        return Contribution(
            both, torch.stack([first, first + len(self.groups.names) * width], dim=1)
        )


def mean_sums(values: Tensor, weights: Tensor | None = None) -> Tensor:
    """What a mean over users and its standard error need, as sums `[6, n]` of values `[batch, n]`;
    NaN is left out.
    """
    defined = ~torch.isnan(values)
    x = torch.where(defined, values, 0)
    users = defined.sum(0).to(x.dtype)
    if weights is None:
        total = x.sum(0)
        return torch.stack([users, users, total, users, total, x.square_().sum(0)])
    w = torch.where(defined, weights[:, None].to(x.dtype), 0)
    return torch.stack(
        [users, *(part.sum(0) for part in (w, w * x, w * w, w * w * x, w * w * x * x))]
    )


def mean_sums_by_group(
    values: Tensor, groups: Labels, users: Tensor, weights: Tensor | None = None
) -> Tensor:
    """The sums of `user_sums` for each group of users, `[groups, 6, n]`; users without a label are
    left out.
    """
    group = groups.codes.lookup(users, -1)
    group = torch.where(group >= 0, group, len(groups.names))  # one more group, which is cut off
    defined = ~torch.isnan(values)
    x, users_defined = torch.where(defined, values, 0), defined.to(values.dtype)
    w = users_defined if weights is None else torch.where(defined, weights[:, None].to(x.dtype), 0)
    terms = torch.stack([users_defined, w, w * x, w * w, w * w * x, w * w * x * x], dim=1)
    return terms.new_zeros((len(groups.names) + 1, *terms.shape[1:])).index_add_(0, group, terms)[
        :-1
    ]


def mean_from_sums(sums: Tensor) -> Tensor:
    """The (weighted) mean; NaN where no user counts."""
    return sums[2] / sums[1]


def standard_error_from_sums(sums: Tensor) -> float:
    """The standard error; with equal weights the sample standard deviation over the root of the
    number of users.
    """
    users, weight, weighted, weight2, weight2_value, weight2_value2 = map(float, sums)
    if users <= 1 or weight == 0:
        return math.nan
    mean = weighted / weight
    spread = weight2_value2 - 2 * mean * weight2_value + mean * mean * weight2
    if (
        spread <= 1e-14 * weight2_value2
    ):  # what rounding alone can leave: users who all have the same value
        return 0.0
    return math.sqrt(users / (users - 1) * spread) / weight


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class RatingErrorSums(Accumulator):
    """The errors of all rated cells that have a score, and their number."""

    key: MetricSpec
    metric: RatingMetric = field(compare=False)

    @property
    def rows(self) -> int:
        return 2

    @property
    def has_cutoffs(self) -> bool:
        return False

    def contributions(self, topk: TopK) -> Contribution:
        errors, scored = self.metric.cell_errors(topk.batch)
        return Contribution(
            torch.stack([errors, scored.to(errors.dtype)], dim=1), rows=topk.batch.truth.rows
        )


@dataclass(frozen=True)
class PairWins(Accumulator):
    """Over the relevant cells of users with a negative: the share of negatives that each beats;
    their number; their users.
    """

    @property
    def rows(self) -> int:
        return 3

    @property
    def has_cutoffs(self) -> bool:
        return False

    def contributions(self, topk: TopK) -> Contribution:
        batch = topk.batch
        wins, judged = batch.offered.pairwise_wins, batch.offered.has_pairs
        cells = torch.where(judged, batch.num_relevant, 0)
        return Contribution(
            torch.stack([torch.where(judged, wins, 0), cells, judged.to(wins.dtype)], dim=1)
        )


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ItemAccumulator(Accumulator):
    """A number for each item of the catalogue. `is_of_few`: of a large one most items have 0."""

    num_items: int
    is_of_few: ClassVar[bool] = True

    @property
    def rows(self) -> int:
        return self.num_items


@dataclass(frozen=True)
class ListedItemAccumulator(ItemAccumulator):
    """The sum of a quantity over the positions at which an item stands."""

    def read(self, sums: Tensor) -> Tensor:
        return sums.cumsum(1)  # each position was counted at the first cut-off that holds it


@dataclass(frozen=True)
class ItemExposure(ListedItemAccumulator):
    """In how many lists each item stands, of all users ("lists") or of those with a relevant item
    ("evaluated").
    """

    users: str = "lists"

    @property
    def of_lists(self) -> bool:
        return True

    def contributions(self, topk: TopK) -> Contribution:
        counted = topk.batch.items[:, : topk.cutoffs[-1]] >= 0
        if self.users == "evaluated":
            counted = counted & (topk.num_relevant > 0)
        return Contribution(counted, topk.item_slots)


@dataclass(frozen=True)
class HitAccumulator(ListedItemAccumulator):
    """A sum over the relevant items in the lists."""

    def weights(self, topk: TopK) -> Tensor:
        """The quantity for each relevant cell, `[cells]`."""
        raise NotImplementedError

    def contributions(self, topk: TopK) -> Contribution:
        slots, hit = topk.hit_slots
        return Contribution(hit * self.weights(topk), slots, topk.batch.relevant.rows)


@dataclass(frozen=True)
class ItemHits(HitAccumulator):
    """In how many lists each item stands as a relevant one."""

    def weights(self, topk: TopK) -> Tensor:
        return topk.hit_slots[1]


@dataclass(frozen=True)
class ItemGains(HitAccumulator):
    """The gain of each item over its appearances, discounted by position or not."""

    gain: str = "exponential"
    discount: bool = True

    def weights(self, topk: TopK) -> Tensor:
        gains = topk.batch.gains(self.gain)
        return (
            gains * topk.batch.observed_positions.weights_of_items(topk.discounts)
            if self.discount
            else gains
        )


@dataclass(frozen=True)
class ItemHitScores(HitAccumulator):
    """The score of each item over the appearances where it is relevant."""

    def weights(self, topk: TopK) -> Tensor:
        scores = topk.batch.relevant_scores.to(topk.k.dtype)
        return torch.where(
            scores > -torch.inf, scores, 0
        )  # what is not offered is no hit, and -inf times 0 is NaN


@dataclass(frozen=True)
class ItemRelevance(ItemAccumulator):
    """For how many users each item is relevant, offered or not."""

    @property
    def has_cutoffs(self) -> bool:
        return False

    def contributions(self, topk: TopK) -> Contribution:
        cells = topk.batch.relevant
        return Contribution(cells.valid_ones, cells.items, cells.rows)


@dataclass(frozen=True)
class ItemCandidacy(ItemAccumulator):
    """To how many users each item was offered: all of them, or the evaluated ones.

    Most users are offered everything but a few items. So there is one more row, for users who are
    offered everything unless their items say otherwise."""

    users: str = "lists"
    is_of_few: ClassVar[bool] = False

    @property
    def rows(self) -> int:
        return self.num_items + 1

    @property
    def has_cutoffs(self) -> bool:
        return False

    def contributions(self, topk: TopK) -> Contribution:
        whole, cells = topk.batch.offered.by_user(only_evaluated=self.users == "evaluated")
        users = torch.arange(topk.batch.size, device=whole.device)
        return Contribution(
            torch.cat([whole.to(cells.values.dtype), cells.values]),
            torch.cat([torch.full_like(users, self.num_items), cells.items]),
            torch.cat([users, cells.rows]),
        )

    def batch_total(self, topk: TopK) -> Contribution:
        found = topk.batch.offered.find_masked_items(only_evaluated=self.users == "evaluated")
        if found is not None and len(found[1]) < self.num_items:  # the shorter way to say it
            users, items = found
            places = torch.nn.functional.pad(items, (1, 0), value=self.num_items)
            values = torch.full(places.shape, -1.0, dtype=topk.k.dtype)
            values[0] = users
            return Contribution(values, places)
        # Counted item by item: the cells of users to whom much is not offered would be many, and
        # their number waited for.
        counts = topk.batch.offered.count_by_item(only_evaluated=self.users == "evaluated")
        return Contribution(torch.nn.functional.pad(counts, (0, 1))[None])

    def read(self, sums: Tensor) -> Tensor:
        return sums[:-1] + sums[-1:]


@dataclass(frozen=True)
class GroupExposure(Accumulator):
    """How many slots of each group's lists each cluster of items has: rows `[groups * clusters]`."""

    groups: Labels
    clusters: Labels

    @property
    def rows(self) -> int:
        return len(self.groups.names) * len(self.clusters.names)

    @property
    def of_lists(self) -> bool:
        return True

    def contributions(self, topk: TopK) -> Contribution:
        counted, slots, _ = zip(*self._parts(topk))
        return Contribution(torch.cat(counted), torch.cat(slots))

    def batch_total(self, topk: TopK) -> Contribution:
        size = self.rows * len(topk.cutoffs)
        if not 0 < size < topk.batch.items.numel():
            return self.contributions(topk)
        sums = torch.zeros(size, dtype=topk.k.dtype, device=topk.k.device)
        for part in self._parts(topk):
            part.add_to(sums)
        return Contribution(sums[None])

    def _parts(self, topk: TopK) -> Iterator[Contribution]:
        """The terms of some users at a time."""
        last = topk.cutoffs[-1]
        groups = torch.split(self.groups.codes.lookup(topk.batch.users, -1)[:, None], _USERS)
        for group, items in zip(groups, torch.split(topk.batch.items[:, :last], _USERS)):
            cluster = self.clusters.codes.lookup(items, -1)
            counted = (group >= 0) & (cluster >= 0)
            row = torch.where(counted, cluster.add_(group * len(self.clusters.names)), 0)
            yield Contribution(
                counted, row.mul_(len(topk.cutoffs)).add_(topk.cutoff_index[:last]).int()
            )

    def read(self, sums: Tensor) -> Tensor:
        return sums.cumsum(1)

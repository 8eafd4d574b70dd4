"""A batch of users and everything that metrics share about it, each quantity computed at most once.

`MetricBlock` names the seven blocks that users' own metrics may ask for. The built-in metrics read
a `TopK`: the batch seen at some cut-offs, with all quantities as `[batch, cut-offs]`."""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from typing import Any, Generic, TypeVar, overload

import torch
from torch import Tensor

from weft.data import BatchLists, DeviceColumn
from weft.data.devices import DEFERRED_ERRORS, float_type, is_host_readable
from weft.data.rows import SparseRows
from weft.errors import InputError, SettingError
from weft.ranking import (
    Ranking,
    SampleSizes,
    TieRule,
    break_ties,
    count_equal_scores,
    get_kernel,
    hidden,
    within,
    without,
)
from weft.ranking.positions import (
    ObservedPositions,
    Positions,
    RankEstimator,
    TieAveragedPositions,
    estimate_positions,
    rank_in_rows,
    segments,
)

# Elements that a comparison over the whole catalogue may hold at once; users of whom something is
# made at once: little memory.
_TILE, _USERS = 1 << 20, 128
GAINS = ("exponential", "linear", "binary", "exponential_shifted")
Value = TypeVar("Value")


class MetricBlock(enum.Enum):
    """The shared quantities that a user's own metric can declare; the value is the keyword's name."""

    BINARY_RELEVANCE = "binary_relevance"
    DISCOUNTED_RELEVANCE = "discounted_relevance"
    VALID_USERS = "valid_users"
    TOP_K_INDICES = "top_k_indices"
    TOP_K_VALUES = "top_k_values"
    TOP_K_BINARY_RELEVANCE = "top_k_binary_relevance"
    TOP_K_DISCOUNTED_RELEVANCE = "top_k_discounted_relevance"

    @property
    def has_cutoff(self) -> bool:
        """Whether the block is cut at k."""
        return self.value.startswith("top_k_")

    def keyword(self, k: int | None) -> str:
        """The keyword under which a metric receives the block: `top_10_values` for k = 10."""
        return self.value.replace("top_k_", f"top_{k}_") if self.has_cutoff else self.value


class block(Generic[Value]):  # noqa: N801 - reads as a decorator
    """A property that is computed on first use, kept, and counted in `computed`."""

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self.compute = compute
        self.name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, batch: None, owner: type) -> block[Value]: ...
    @overload
    def __get__(self, batch: Batch, owner: type) -> Value: ...
    def __get__(self, batch: Batch | None, owner: type) -> block[Value] | Value:
        return self if batch is None else batch.once(self.name, lambda: self.compute(batch))


class Batch:
    """Some users: masked scores `[batch, items]` or masked lists (neither: the source has nothing
    for them) and their sparse truth.

    `truth` holds every cell, `relevant` the relevant ones, `raw_scores` the score of each truth
    cell before masking, `seen` the cells that were masked, `judged [batch]` who is a user of the
    truth. `depth` is the largest cut-off, 0 if no metric has one. What could be recommended beside
    what is listed: `columns [items]` says which items at all, `candidates` which cells. Quantities
    are float64 (float32 where the device has no better)."""

    def __init__(
        self,
        scores: Tensor | None,
        truth: SparseRows,
        *,
        relevant: SparseRows,
        raw_scores: Tensor,
        users: Tensor,
        user_keys: Tensor,
        rule: TieRule,
        depth: int,
        seen: SparseRows | None = None,
        judged: Tensor | None = None,
        lists: BatchLists | None = None,
        columns: Tensor | None = None,
        candidates: SparseRows | None = None,
        drawn: SampleSizes | None = None,
        correction: RankEstimator | None = None,
    ) -> None:
        self.columns = columns
        self.candidates = candidates
        self.drawn = drawn
        self.correction = correction
        self.scores = scores
        self.lists = lists
        self.truth = truth
        self.relevant = relevant
        self.raw_scores = raw_scores
        self.users = users
        self.user_keys = user_keys
        self.rule = rule
        self.depth = depth
        self.seen = seen
        self.judged = torch.ones_like(users, dtype=torch.bool) if judged is None else judged
        self.size = truth.num_rows
        self.device = truth.items.device
        self.dtype = float_type(self.device)
        self.computed: Counter[object] = Counter()
        self._kept: dict[object, Any] = {}
        self._faults: list[tuple[str, Tensor]] = [
            *truth.faults.items(),
            *(lists.faults.items() if lists is not None else ()),
        ]

    def once(self, key: object, compute: Callable[[], Value]) -> Value:
        """The value under `key`, computed the first time it is asked for."""
        if key not in self._kept:
            self.computed[key] += 1
            self._kept[key] = compute()
        kept: Value = self._kept[key]
        return kept

    def close(self) -> None:
        """Let go of everything: a batch and its `TopK` hold each other, and would wait for the
        garbage collector.
        """
        self._kept.clear()
        self.scores = self.lists = None

    def at(self, cutoffs: tuple[int, ...]) -> TopK:
        """The batch seen at these cut-offs."""
        return self.once(("at", cutoffs), lambda: TopK(self, cutoffs))

    @block
    def preds(self) -> Tensor:
        """The masked scores for a user's own metric; where the source has none, nothing is offered."""
        if self.scores is not None:
            return self.scores
        if self.lists is not None:
            return self.lists.to_dense()
        return torch.full(
            (self.size, self.truth.num_items), -torch.inf, dtype=self.dtype, device=self.device
        )

    @block
    def bad_rows(self) -> Tensor:
        """Whether a row has NaN or +inf, `[batch]`. Where there are lists their first values tell,
        which saves a look at all.
        """
        if self.scores is None or self.scores.numel() == 0:
            return torch.zeros(self.size, dtype=torch.bool, device=self.device)
        highest = self.ranking.values[:, 0] if self.depth else self.scores.amax(1)
        return ~(highest < torch.inf)

    @property
    def is_bad(self) -> bool:
        """Whether there are such rows. Where the host does not see it, they are counted instead."""
        return is_host_readable(self.device) and bool(self.bad_rows.any())

    def note(self, fault: str, count: Tensor) -> None:
        """Count what is wrong, where the host does not see it."""
        self._faults.append((fault, count))

    @property
    def faults(self) -> Tensor:
        """How much of each of `DEFERRED_ERRORS` there is; nothing where the host sees it, because that was
        refused.
        """
        counts = dict.fromkeys(
            DEFERRED_ERRORS, torch.zeros((), dtype=torch.int64, device=self.device)
        )
        if not is_host_readable(self.device):
            for fault, count in (*self._faults, ("bad_scores", self.bad_rows.sum())):
                counts[fault] = counts[fault] + count
        return torch.stack(list(counts.values()))

    @property
    def is_missing(self) -> bool:
        """Whether the source has nothing for these users."""
        return self.scores is None if self.lists is None else self.lists.is_missing

    # ----------------------------------------------------------------------------------------------

    @block
    def settled(self) -> BatchLists | None:
        """The lists that the source gave, ties in the order of the rule; None where it gave scores."""
        return (
            None
            if self.lists is None
            else break_ties(self.lists, self.rule, self.user_keys, self.relevant)
        )

    @block
    def ranking(self) -> Ranking:
        """The lists one position deeper than the largest cut-off, if they are so long: so that ties
        at the cut can be seen.
        """
        if self.settled is not None:
            return Ranking(*self.settled.top(self.depth))
        if self.scores is None:
            nothing = torch.full((self.size, self.depth + 1), -1, device=self.device)
            return Ranking(nothing, nothing.to(self.dtype).fill_(-torch.inf))
        return self.rule.rank(self.scores, self.depth + 1, self.user_keys, self.relevant)

    @block
    def items(self) -> Tensor:
        """The ranked items `[batch, depth]`, -1 behind the end of a list."""
        return self.ranking.items[:, : self.depth]

    @block
    def values(self) -> Tensor:
        """Their scores, `-inf` behind the end of a list."""
        return self.ranking.values[:, : self.depth]

    @block
    def lengths(self) -> Tensor:
        """The length of each list `[batch]`, at most depth."""
        if (
            is_host_readable(self.device) and self.depth and bool((self.items[:, -1] >= 0).all())
        ):  # mostly all are full
            return torch.full((self.size,), self.depth)
        return (self.items >= 0).sum(1)

    @block
    def hit_positions(self) -> Tensor:
        """For each relevant cell its position in the list, from 0; `depth` where it is not in the
        list.
        """
        if self.settled is not None:
            listed, is_listed = self.settled.locate(self.relevant.keys)
            position = (listed - self.settled.offsets[self.relevant.rows]).clamp(max=self.depth)
            return self.relevant.only(torch.where(is_listed, position, self.depth), self.depth)
        return get_kernel(self.device).find_in_lists(
            self.items, self.values, self.relevant, self.relevant_scores
        )

    @block
    def listed(self) -> ObservedPositions:
        """Where the relevant items stand in the lists as they are, tied items in the order that was
        drawn.
        """
        return ObservedPositions(self.hit_positions, self.relevant, self.depth, dtype=self.dtype)

    @block
    def order(self) -> Positions:
        """What is known about each position: from the one list, or averaged over all orders of tied
        items.
        """
        if self.rule.name != "expected" or self.is_certain:
            return self.listed
        last = self.values[:, -1]
        if self.settled is not None:
            ties_with_last = count_equal_scores(self.settled, last)
        else:
            assert self.scores is not None
            rows = torch.arange(self.size + 1, device=self.device)
            one_each = SparseRows(rows, torch.zeros_like(rows[1:]), last, self.truth.num_items)
            ranks, _ = get_kernel(self.device).double_ranks(self.scores, one_each, last)
            ties_with_last = ranks - 2 * (self.values > last[:, None]).sum(
                1
            )  # whatever is above the last is in the list
        return TieAveragedPositions(
            self.values, ties_with_last, self.relevant, self.relevant_scores, dtype=self.dtype
        )

    @block
    def estimated_order(self) -> Positions:
        """The order among all items, estimated from sampled negatives where a correction is asked
        for; ties as they were drawn.
        """
        if self.correction is None or self.drawn is None or self.settled is None:
            return self.order
        cells, offered = self.settled.locate(self.relevant.keys)
        offered = self.relevant.only(offered, False)
        longest = len(self.settled.items)  # of one list, at most
        positions = torch.where(offered, cells - self.settled.offsets[self.relevant.rows], longest)
        numbers = rank_in_rows(positions, self.relevant, longest + 1)
        about = (self.drawn, self.relevant, self.depth)
        return estimate_positions(
            self.correction, positions, offered, numbers, *about, dtype=self.dtype
        )

    @property
    def is_certain(self) -> bool:
        """Whether there are no ties: the source has nothing, or says in which order it comes."""
        return self.scores is None if self.lists is None else self.lists.is_order_given

    # ----------------------------------------------------------------------------------------------

    @block
    def relevant_counts(self) -> Tensor:
        """The number of relevant items `[batch]`, offered or not."""
        return self.relevant.lengths.to(self.dtype)

    @block
    def without_relevant(self) -> Tensor:
        """Whether a user has no relevant item, `[batch, 1]`."""
        return self.relevant.lengths[:, None] == 0

    @block
    def relevant_scores(self) -> Tensor:
        """The masked score of each relevant cell, `-inf` for what was not offered, or not listed,
        or does not count.
        """
        if self.lists is not None:
            return self.relevant.only(self.lists.scores_at(self.relevant.keys), -torch.inf)
        if self.scores is None:
            return torch.full_like(self.relevant.values, -torch.inf)
        return self.relevant.only(
            self.scores.view(-1).index_select(0, self.relevant.keys), -torch.inf
        )

    def gains(self, kind: str) -> Tensor:
        """The gain of each relevant cell."""

        def compute() -> Tensor:
            gains = self.relevant.only(gain_of(self.relevant.values, kind), 0)
            if is_host_readable(self.device) and bool(torch.isinf(self.relevant.sum(gains)).any()):
                raise InputError(
                    f"the rating {float(self.relevant.values.max()):g} is too large: the gain 2^r "
                    "- 1, or a user's sum of gains, "
                    'overflows. Use gain="linear", or rescale the ratings.'
                )
            return gains

        return self.once(("gains", kind), compute)

    def best_gains(self, kind: str) -> tuple[Tensor, Tensor]:
        """Relevant cells by gain, best first within each row: their gains and their positions from
        0, `[cells]` both.

        Cells that do not count have gain 0, and so come last.
        """

        def compute() -> tuple[Tensor, Tensor]:
            gains, rows = self.gains(kind), self.relevant.rows
            positions = torch.arange(
                len(rows), device=self.device
            ) - self.relevant.offsets.index_select(0, rows)
            if is_host_readable(self.device) and len(gains) and gains.min() == gains.max():
                return gains, positions
            order = gains.argsort(descending=True, stable=True)
            # Sorting by row last keeps the rows where they were: only the gains move within each.
            return gains[order[rows[order].argsort(stable=True)]], positions

        return self.once(("best_gains", kind), compute)

    # ------------------------------------------------------------------------------- ranks over the

    @property
    def offered_cells(self) -> BatchLists | SparseRows | None:
        """The cells that could be recommended, where they are known one by one: complete lists, or
        candidates.
        """
        return self.lists if self.lists is not None and self.lists.is_complete else self.candidates

    @property
    def knows_all_scores(self) -> bool:
        """Whether everything that was offered has a score."""
        return self.scores is not None or (self.lists is not None and self.lists.is_complete)

    @block
    def offered(self) -> Tensor:
        """The number of items that could be recommended `[batch]`: to users with lists, whatever is
        not masked.
        """
        if self.offered_cells is not None:
            return self.offered_cells.lengths.to(self.dtype)
        if self.lists is not None:
            return (self._num_columns - self._masked).to(self.dtype)
        if self.scores is None:
            return torch.zeros(self.size, dtype=self.dtype, device=self.device)
        counted = (
            self.ranks[1]
            if "ranks" in self._kept
            else get_kernel(self.device).count_offered(self.scores)
        )
        return counted.to(self.dtype)

    @property
    def _num_columns(self) -> Tensor | int:
        """How many items there are, for whoever has nothing masked."""
        return self.truth.num_items if self.columns is None else self.columns.sum()

    @block
    def _masked(self) -> Tensor:
        """How many of these are masked `[batch]`."""
        if self.seen is None:
            return torch.zeros_like(self.relevant.lengths)
        if self.columns is None:
            return self.seen.lengths
        return self.seen.sum(self.columns[self.seen.items].to(self.seen.values.dtype)).long()

    @block
    def relevant_offered(self) -> Tensor:
        """Whether each relevant cell was offered."""
        if self.offered_cells is not None:
            return self.relevant.only(self.offered_cells.contains(self.relevant.keys), False)
        if self.lists is None:
            return self.relevant_scores > -torch.inf
        offered = torch.ones_like(self.relevant.items, dtype=torch.bool)
        if self.columns is not None:
            offered = self.columns[self.relevant.items]
        return self.relevant.only(
            offered if self.seen is None else offered & ~self.seen.contains(self.relevant.keys),
            False,
        )

    @block
    def negatives(self) -> Tensor:
        """The number of offered items that are not relevant `[batch]`."""
        return self.offered - self.relevant.sum(self.relevant_offered.to(self.dtype))

    @block
    def ranks(self) -> tuple[Tensor, Tensor]:
        """How many items score above a relevant one, plus how many at least as high, summed over
        it; and how many are offered.
        """
        if self.settled is not None:
            cells, found = self.settled.locate(self.relevant.keys)
            if len(self.settled.items) == 0:
                return torch.zeros_like(self.relevant.lengths), self.settled.lengths
            ranks = torch.where(found, self.settled.double_ranks.index_select(0, cells), 0)
            return self.relevant.sum(ranks), self.settled.lengths
        assert self.scores is not None
        return get_kernel(self.device).double_ranks(
            self.scores, self.relevant, self.relevant_scores
        )

    @block
    def wins(self) -> Tensor:
        """The share of a user's negatives that a relevant item beats, ties counting half, summed
        over the relevant items `[batch]`.

        What is not offered beats nothing.
        """
        if not self.knows_all_scores:
            return torch.zeros(self.size, dtype=self.dtype, device=self.device)
        ranks = self.ranks[0].to(self.dtype)
        own = self.relevant.sum(self.relevant_offered.to(self.dtype))
        # Of two relevant items each pair counts twice among the ranks, and each item once itself:
        # own squared in all.
        lost = (ranks - own.square()) / 2
        return own - lost / torch.where(self.negatives > 0, self.negatives, torch.nan)

    @block
    def has_pairs(self) -> Tensor:
        """Whether a user has both a relevant item and a negative, `[batch]`."""
        return (self.negatives > 0) & (self.relevant_counts > 0)

    def negative_scores(self, users: Tensor) -> tuple[Tensor, Tensor]:
        """The scores of the offered items that are not relevant, of the users where the mask
        `[batch]` is true, row by row; and how many each row has, `[batch]`.

        Where the host does not see how many these are, all scores, with `-inf` in place of the
        others."""
        if self.lists is not None:
            cells, found = self.lists.locate(self.relevant.keys)
            negative = torch.ones(len(self.lists.items) + 1, dtype=torch.bool, device=self.device)
            negative[
                torch.where(self.relevant.only(found, False), cells, len(self.lists.items))
            ] = False
            scores, numbers = self.lists.chosen(
                self.lists.scores, negative[:-1] & users[self.lists.rows], -torch.inf
            )
            return scores.to(self.dtype), numbers
        numbers = torch.zeros_like(self.relevant.sizes)
        if self.scores is None:
            return self.truth.values.new_empty(0), numbers
        if not is_host_readable(self.device):
            with hidden(self.scores, self.relevant) as (scores, _):
                every = torch.where(users[:, None], scores, -torch.inf).to(self.dtype).view(-1)
            return every, numbers + self.scores.shape[1]
        found_scores = [self.truth.values.new_empty(0)]
        for row in users.nonzero().flatten():
            scores = self.scores[row]
            is_negative = scores > -torch.inf
            is_negative[self.relevant.items[self.relevant.rows == row]] = False
            found_scores.append(scores[is_negative].to(self.dtype))
            numbers[row] = len(found_scores[-1])
        return torch.cat(found_scores), numbers

    def offered_by_item(self, *, evaluated: bool) -> Tensor:
        """To how many users of the batch (or only the evaluated ones) each item was offered,
        `[items]`.
        """

        def compute() -> Tensor:
            chosen = (
                self.relevant.lengths > 0
                if evaluated
                else torch.ones_like(self.relevant.lengths, dtype=torch.bool)
            )
            return self._count_offered(chosen).to(self.dtype)

        return self.once(("offered_by_item", evaluated), compute)

    def masked_alone(self, *, evaluated: bool) -> tuple[Tensor, Tensor] | None:
        """How many users (or only the evaluated ones) were offered everything but what was masked,
        and its items, one by one.

        None where that is not so of all of them, or the host does not see it.
        """
        if (
            not is_host_readable(self.device)
            or self.columns is not None
            or self.offered_cells is not None
        ):
            return None
        chosen = (
            self.relevant.lengths > 0
            if evaluated
            else torch.ones_like(self.relevant.lengths, dtype=torch.bool)
        )
        if not bool((self.offered == self.truth.num_items - self._masked)[chosen].all()):
            return None
        if self.seen is None:
            return chosen.sum(), self.truth.items.new_empty(0)
        return chosen.sum(), self.seen.items if bool(chosen.all()) else self.seen.items[
            chosen[self.seen.rows]
        ]

    def _count_offered(self, chosen: Tensor) -> Tensor:
        num_items = self.truth.num_items
        counts = torch.zeros(num_items, dtype=torch.int64, device=self.device)
        if self.offered_cells is not None:
            counted = self.offered_cells.only(chosen[self.offered_cells.rows], False)
            return counts.index_add_(0, self.offered_cells.items, counted.long())
        if self.scores is None and self.lists is None:
            return counts
        looked_at = chosen
        if is_host_readable(self.device) or self.lists is not None:
            # Where nothing is missing but what was masked, the masked cells tell; only other rows
            # must be looked at.
            whole = chosen & (self.offered == self._num_columns - self._masked)
            counts += whole.sum()
            if self.seen is not None:
                if is_host_readable(self.device) and bool(whole.all()):
                    masked_once = torch.full((1,), -1).expand(len(self.seen.items))
                else:
                    masked_once = -self.seen.only(whole[self.seen.rows], False).long()
                counts.index_add_(0, self.seen.items, masked_once)
            if self.columns is not None:
                counts *= self.columns
            looked_at = chosen & ~whole
            if self.scores is None or not looked_at.any():
                return counts
        assert self.scores is not None
        for start in range(0, self.size, step := max(1, _TILE // max(1, num_items))):
            rows = slice(start, start + step)
            counts += ((self.scores[rows] > -torch.inf) & looked_at[rows, None]).sum(0)
        return counts

    def offered_by_user(self, *, evaluated: bool) -> tuple[Tensor, SparseRows]:
        """What was offered to each user (or only to the evaluated ones), whichever is shorter to
        say.

        Either everything, `[batch]`, but for cells of value -1; or only the cells of value 1. They
        add up to `offered_by_item`."""
        num_items, seen = self.truth.num_items, self.seen
        chosen = (
            self.relevant.lengths > 0
            if evaluated
            else torch.ones_like(self.relevant.lengths, dtype=torch.bool)
        )
        if self.scores is None and self.lists is None:
            chosen = torch.zeros_like(chosen)
        cells = [torch.empty(0, dtype=torch.int64, device=self.device)]
        if self.offered_cells is not None:
            known, most = chosen, torch.zeros_like(chosen)
            rows = self.offered_cells.rows
            cells.append(
                (rows * num_items + self.offered_cells.items)[
                    self.offered_cells.only(chosen[rows], False)
                ]
            )
        else:
            most = chosen & (self.offered * 2 > num_items)
            known = torch.zeros_like(chosen)
            if self.columns is None:  # mostly nothing is missing but what was masked
                known = chosen & (self.offered == num_items - self._masked)
                most = most | known
                if seen is not None:
                    cells.append(seen.keys[seen.only(known[seen.rows], False)])
        for rows in torch.split(
            (chosen & ~known).nonzero().flatten(), max(1, _TILE // max(1, num_items))
        ):
            found, items = (self._is_offered(rows) != most[rows, None]).nonzero(as_tuple=True)
            cells.append(rows[found] * num_items + items)
        keys = torch.cat(cells).sort().values
        offsets = torch.searchsorted(
            keys, torch.arange(self.size + 1, device=self.device) * num_items
        )
        signs = (
            torch.where(most, -1, 1)
            .to(self.dtype)
            .repeat_interleave(offsets.diff(), output_size=len(keys))
        )
        return most, SparseRows(offsets, keys % max(1, num_items), signs, num_items)

    def _is_offered(self, rows: Tensor) -> Tensor:
        """Whether each item was offered to some of the users, `[rows, items]`."""
        if self.scores is not None:
            return self.scores.index_select(0, rows) > -torch.inf
        every = torch.ones(self.truth.num_items, dtype=torch.bool, device=self.device)
        offered = (every if self.columns is None else self.columns).repeat(len(rows), 1)
        if self.seen is not None:
            place = torch.full((self.size,), -1, device=self.device)
            place[rows] = torch.arange(len(rows), device=self.device)
            masked = place[self.seen.rows]
            offered[masked[masked >= 0], self.seen.items[masked >= 0]] = False
        return offered

    # ----------------------------------------------------------------------------------- blocks for

    def metric_block(self, which: MetricBlock, k: int | None) -> Tensor:
        """One of the seven public blocks as a plain tensor, cut at k where it has a cut-off."""
        whole: Tensor = self.once(which, lambda: getattr(self, f"_{which.value}")())
        return whole[:, :k] if which.has_cutoff else whole

    def keywords(self, wanted: Set[MetricBlock] | None, k: int | None) -> dict[str, Tensor]:
        """The blocks that a metric declared (all of them without a declaration), under their
        keyword names.
        """
        blocks = (
            {which for which in MetricBlock if k is not None or not which.has_cutoff}
            if wanted is None
            else wanted
        )
        if k is None and any(which.has_cutoff for which in blocks):
            cut = ", ".join(which.name for which in blocks if which.has_cutoff)
            raise SettingError(
                f"{cut} need a cut-off; derive the metric from TopKMetric, which has one."
            )
        given = {which.keyword(k): self.metric_block(which, k) for which in blocks}
        return {**given, "user_indices": self.users}

    def _binary_relevance(self) -> Tensor:
        return self.relevant.dense(self.relevant.ones.float())

    def _discounted_relevance(self) -> Tensor:
        return self.relevant.dense(self.gains("exponential"))

    def _valid_users(self) -> Tensor:
        return (self.relevant.lengths > 0).float()

    def _top_k_indices(self) -> Tensor:
        return self.items

    def _top_k_values(self) -> Tensor:
        return self.values

    def _top_k_binary_relevance(self) -> Tensor:
        return self.listed.per_position(torch.ones_like(self.relevant.values)).float()

    def _top_k_discounted_relevance(self) -> Tensor:
        return self.listed.per_position(self.gains("exponential"))


class TopK:
    """A batch at some cut-offs. Everything per user is `[batch, cut-offs]` or `[batch, 1]`, ready
    to be combined.

    `of_all`: as all items would be ordered, as far as that is estimated, rather than the
    candidates."""

    def __init__(self, batch: Batch, cutoffs: tuple[int, ...], *, of_all: bool = False) -> None:
        self.batch = batch
        self.cutoffs = cutoffs
        self.of_all = of_all
        dtype, device = batch.dtype, batch.device
        self.k = torch.cat([torch.full((1,), k, dtype=dtype, device=device) for k in cutoffs])
        self.positions = torch.arange(1, batch.depth + 1, dtype=dtype, device=device)
        self.discounts = 1 / torch.log2(self.positions + 1)

    def total(self, per_position: Tensor) -> Tensor:
        """Sums over the first k positions of `[batch, depth]`, for each cut-off."""
        spans = zip(
            (0, *self.cutoffs), self.cutoffs
        )  # added up piece by piece: a running sum would be as large as its input
        return torch.stack(
            [per_position[:, start:stop].sum(1) for start, stop in spans], dim=1
        ).cumsum(1)

    def total_of(self, quantity: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
        """The same of a quantity that is made from items and their scores, `[users, depth]` all:
        for some users at a time.
        """
        parts = zip(*(torch.split(part, _USERS) for part in (self.batch.items, self.batch.values)))
        return torch.cat([self.total(quantity(*part)) for part in parts])

    @property
    def segments(self) -> Tensor:
        """For each position, the number of the first cut-off that holds it, `[depth + 1]`; cut-offs
        ascending.
        """
        batch = self.batch
        return batch.once(
            ("segments", self.cutoffs), lambda: segments(self.cutoffs, batch.depth, batch.device)
        )

    @property
    def slots(self) -> Tensor:
        """For each position up to the largest cut-off, its place in a flattened `[items,
        cut-offs]`; 0 where a list has ended.
        """
        last = self.cutoffs[-1]
        items = self.batch.items[:, :last]
        small = self.batch.truth.num_items * len(self.cutoffs) < 1 << 31

        def compute() -> Tensor:
            places = torch.empty_like(items, dtype=torch.int32 if small else torch.int64)
            for some, of_some in zip(torch.split(items, _USERS), torch.split(places, _USERS)):
                of_some.copy_((some * len(self.cutoffs)).add_(self.segments[:last]).clamp_(min=0))
            return places

        return self.batch.once(("slots", self.cutoffs), compute)

    @property
    def cell_slots(self) -> tuple[Tensor, Tensor]:
        """The same for each relevant cell, 0 where it is not in the list; and whether it is, as 0
        or 1.
        """

        def compute() -> tuple[Tensor, Tensor]:
            segment = self.segments.index_select(0, self.batch.hit_positions)
            hit = segment < len(self.cutoffs)
            return torch.where(
                hit, self.batch.relevant.items * len(self.cutoffs) + segment, 0
            ), hit.to(self.batch.dtype)

        return self.batch.once(("cell_slots", self.cutoffs), compute)

    def total_of_items(self, column: DeviceColumn) -> Tensor:
        """What a column holds for the items among the first k, summed."""
        return self.batch.once(
            ("of_items", column, self.cutoffs),
            lambda: self.total_of(lambda items, _: column.at(items)),
        )

    @property
    def estimated(self) -> TopK:
        """The same with the order that is estimated for all items; itself, where there is no
        correction.
        """
        if self.of_all or self.batch.correction is None:
            return self
        return self.batch.once(
            ("estimated", self.cutoffs), lambda: TopK(self.batch, self.cutoffs, of_all=True)
        )

    @property
    def order(self) -> Positions:
        """Relevance, gains and hits by position."""
        return self.batch.estimated_order if self.of_all else self.batch.order

    @property
    def relevant(self) -> Tensor:
        """The number of relevant items, `[batch, 1]`."""
        return self.batch.relevant_counts[:, None]

    @property
    def reachable(self) -> Tensor:
        """The most hits that a list of k can have: min(relevant items, k)."""
        return torch.minimum(self.relevant, self.k)

    @property
    def negatives(self) -> Tensor:
        """The number of offered items that are not relevant, `[batch, 1]`."""
        return self.batch.negatives[:, None]

    @property
    def length(self) -> Tensor:
        """The length of each list cut at k."""
        return torch.minimum(self.batch.lengths[:, None].to(self.k.dtype), self.k)

    @property
    def hits(self) -> Tensor:
        """The number of relevant items among the first k."""
        return self.batch.once(
            ("hits", self.cutoffs, self.of_all), lambda: self.order.hits(self.cutoffs)
        )

    @property
    def hit_pairs(self) -> Tensor:
        """The hits up to each hit, summed over the first k: 1 + 2 + ... + hits."""
        return self.batch.once(
            ("hit_pairs", self.cutoffs, self.of_all), lambda: self.order.pairs(self.cutoffs)
        )

    @property
    def hit_positions(self) -> Tensor:
        """The positions of the hits among the first k, from 1, summed."""
        return self.batch.once(
            ("hit_positions", self.cutoffs, self.of_all),
            lambda: self.order.hits(self.cutoffs, self.positions),
        )

    def discounted_gain(self, kind: str) -> Tensor:
        """The gains of the hits among the first k, discounted by position."""
        return self.order.gains(self.cutoffs, self.batch.gains(kind), self.discounts)

    def ideal_gain(self, kind: str, *, beyond: float = 0.0) -> Tensor:
        """The discounted gain of the best list of k; with `beyond` for each position where the
        relevant items have run out.
        """

        def compute() -> Tensor:
            batch = self.batch
            gains, positions = batch.best_gains(kind)
            best = ObservedPositions(
                positions.clamp(max=batch.depth), batch.relevant, batch.depth, dtype=batch.dtype
            )
            ideal = best.gains(self.cutoffs, gains, self.discounts)
            if beyond == 0:
                return ideal
            upto = torch.nn.functional.pad(
                self.discounts.cumsum(0), (1, 0)
            )  # of the first p positions
            return ideal + beyond * (upto[self.k.long()] - upto[self.reachable.long()])

        return self.batch.once(("ideal_gain", kind, beyond, self.cutoffs), compute)

    def full_ideal(self, kind: str) -> Tensor:
        """The discounted gain of the best list of all relevant items, `[batch, 1]`."""
        gains, positions = self.batch.best_gains(kind)
        discounted = gains / torch.log2(positions.to(gains.dtype) + 2)
        # Not relevant.sum: the gains have moved within their rows, and with them those of cells
        # that do not count, which are 0.
        return gains.new_zeros(self.batch.size).index_add_(0, self.batch.relevant.rows, discounted)[
            :, None
        ]


@contextmanager
def open_batch(
    scores: Tensor | BatchLists | None,
    truth: SparseRows,
    *,
    threshold: float | None,
    users: Tensor,
    user_keys: Tensor | None = None,
    rule: TieRule,
    depth: int,
    seen: SparseRows | None = None,
    relevant: SparseRows | None = None,
    judged: Tensor | None = None,
    raw_scores: Tensor | None = None,
    columns: Tensor | None = None,
    candidates: SparseRows | None = None,
    drawn: SampleSizes | None = None,
    correction: RankEstimator | None = None,
) -> Iterator[Batch]:
    """A batch with the seen cells hidden while it is open. `relevant` may be given when it is known
    already.

    `judged` says who is a user of the truth; without it all are. `columns [items]` are the items
    that can be recommended; without it all can. `candidates` are the cells that can be, seen ones
    not among them, where lists hold nothing else but not all of them. `raw_scores` are those of the
    truth's cells, where the lists do not tell them."""
    bad_ratings = None
    if relevant is None:
        bad_ratings = check_ratings(truth, threshold)
        relevant = truth.keep(truth.values > 0 if threshold is None else truth.values >= threshold)
    keys = users if user_keys is None else user_keys
    about: dict[str, Any] = {
        "relevant": relevant,
        "users": users,
        "user_keys": keys,
        "rule": rule,
        "depth": depth,
    }
    about |= {
        "seen": seen,
        "judged": judged,
        "columns": columns,
        "drawn": drawn,
        "correction": correction,
    }
    if scores is None or isinstance(scores, BatchLists):
        if raw_scores is None:
            nothing = torch.full_like(truth.values, -torch.inf)
            raw_scores = (
                nothing if scores is None else truth.only(scores.scores_at(truth.keys), -torch.inf)
            )
        lists = None if scores is None else without(within(scores, columns), seen)
        batch = Batch(
            None, truth, raw_scores=raw_scores, lists=lists, candidates=candidates, **about
        )
        if bad_ratings is not None:
            batch.note("bad_ratings", bad_ratings)
        yield batch
        batch.close()
        return
    scores = scores.contiguous()
    raw_scores = truth.only(scores.view(-1).index_select(0, truth.keys), -torch.inf)
    given = scores
    if columns is not None:
        check_scores(scores, users)  # what is hidden would not be noticed
        scores = torch.where(columns, scores, -torch.inf)
    with hidden(scores, seen) as (masked, kept):
        batch = Batch(masked, truth, raw_scores=raw_scores, **about)
        if bad_ratings is not None:
            batch.note("bad_ratings", bad_ratings)
        if not is_host_readable(batch.device):
            hid = [] if kept is None else [kept]
            for values in hid if columns is None else [*hid, given]:
                batch.note("bad_scores", (~(values < torch.inf)).sum())
        try:
            is_bad = batch.is_bad or (
                kept is not None
                and is_host_readable(batch.device)
                and not bool(kept.amax() < torch.inf)
            )
            if not is_bad:
                yield batch
        finally:
            batch.close()
    if is_bad:
        check_scores(scores, users)


def lists_from_candidates(
    scores: Tensor, items: Tensor, users: Tensor, num_items: int
) -> BatchLists:
    """Lists of candidates with their scores, `[batch, n]` both, in any order; -1 is no item. They
    hold all that is offered.
    """
    outside = (items < -1) | (items >= num_items)
    if not is_host_readable(items.device):
        items, order = torch.where(outside | (items < 0), num_items, items).sort(
            dim=1
        )  # what is no item comes last
        scores = torch.where(items < num_items, scores.gather(1, order), -torch.inf)
        repeated = (items[:, 1:] == items[:, :-1]) & (items[:, 1:] < num_items)
        faults = {
            "bad_candidates": outside.sum() + repeated.sum(),
            "bad_scores": (~(scores < torch.inf)).sum(),
        }
        return BatchLists.from_masked_candidates(scores, items, num_items, faults)
    if len(found := items[outside]):
        raise InputError(
            f"items holds {int(found[0])}; item numbers go from 0 to {num_items - 1}, and -1 fills "
            "up short rows."
        )
    items, order = items.sort(dim=1)
    if bool(((items[:, 1:] == items[:, :-1]) & (items[:, 1:] >= 0)).any()):
        raise InputError("items holds the same item twice in a row; each candidate may occur once.")
    scores = torch.where(items >= 0, scores.gather(1, order), -torch.inf)
    check_scores(scores, users, items)
    return BatchLists.from_candidates(scores, items, num_items)


def gain_of(ratings: Tensor, kind: str) -> Tensor:
    """What a relevant item of this rating is worth."""
    if kind == "binary":
        return torch.ones_like(ratings)
    if kind == "linear":
        return ratings
    return torch.exp2(ratings + 1 if kind == "exponential_shifted" else ratings) - 1


def check_ratings(truth: SparseRows, threshold: float | None) -> Tensor | None:
    """Refuse ratings that are not finite, or negative without a threshold. Where the host does not
    see them: their number.
    """
    ratings = truth.values
    if not is_host_readable(ratings.device):
        bad = ~torch.isfinite(ratings) | ((ratings < 0) & (threshold is None))
        return truth.only(bad, False).sum()
    if len(ratings) == 0:
        return None
    low, high = torch.aminmax(ratings)
    if not (torch.isfinite(low) and torch.isfinite(high)):
        raise InputError(
            "the truth has ratings that are not finite numbers; remove or repair them."
        )
    if low < 0 and threshold is None:
        raise InputError(
            f"the truth has the negative rating {float(low):g}; give relevance_threshold= to say "
            "from which rating on an "
            "item is relevant, or remove negative ratings."
        )
    return None


def check_scores(scores: Tensor, users: Tensor, items: Tensor | None = None) -> None:
    """Refuse NaN and +inf: an error that says where the first is. Only where the host sees them:
    elsewhere they are counted.

    `items [batch, n]` are the columns of scores that are not of all items.
    """
    if not is_host_readable(scores.device) or scores.numel() == 0:
        return
    highest = scores.amax(1)
    bad = (~(highest < torch.inf)).nonzero().flatten()
    if len(bad):
        row = int(bad[0])
        what = "NaN" if torch.isnan(highest[row]) else "+inf"
        place = int(
            (torch.isnan(scores[row]) if what == "NaN" else scores[row] == torch.inf).nonzero()[0]
        )
        column = place if items is None else int(items[row, place])
        raise InputError(
            f"the scores hold {what}, first in row {int(users[row])}, column {column} ({len(bad)} "
            f"of the {len(scores)} rows of "
            "this batch have such scores); scores must be finite, or -inf for items that are not "
            "offered."
        )

"""A batch of users and the quantities that metrics share, each computed at most once."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor

from weft.batch.gains import Gain, compute_gain, discount_divisor
from weft.batch.input_validation import InputValidation, validation_for
from weft.batch.located import LocatedItems, LocatedSubset
from weft.batch.offered import OfferedItems
from weft.batch.topk import TopK
from weft.data import BatchLists
from weft.data.devices import float_type, is_host_readable
from weft.data.recommendations.list_policy import NO_ITEM
from weft.data.tensors import SparseRows
from weft.data.truth_groups import TruthGroups
from weft.errors import InputError, setting_ref
from weft.ranking import (
    MaskedScores,
    Ranking,
    SampleSizes,
    TieRule,
    break_ties,
    get_kernel,
)
from weft.ranking.kernels.row_scan import RowScan
from weft.ranking.positions import (
    ObservedPositions,
    Positions,
    rank_in_rows,
)
from weft.ranking.rank_estimator import RankEstimator, estimate_positions

Value = TypeVar("Value")
# What does not depend on the relevant items.
_INDEPENDENT = {"position_weights", "lengths", "dense_scores", "ordered_lists"}


@dataclass(frozen=True)
class BatchInputs:
    """Some users with their predictions and truth.

    `predictions`: scores `[batch, items]`, lists, or None if the source has nothing for these
    users. `user_keys [batch]` seed random ties (default: `users`). `relevant`: the relevant
    interactions of the truth, if known. `seen`: the interactions to mask. `has_truth [batch]`:
    whether a user occurs in the truth (default: all). `raw_scores [n]`: the scores of the truth
    before masking, if lists do not hold them. `item_mask [items]`: the items that can be
    recommended (default: all). `candidates`: the items that can be recommended to each user, seen
    ones excluded, if lists hold some of them only. `sample_sizes`: the numbers of sampled negatives
    of the lists. `num_left_out [batch]`: the interactions of the truth that do not count."""

    predictions: Tensor | BatchLists | None
    truth: SparseRows
    users: Tensor
    user_keys: Tensor | None = None
    relevant: SparseRows | None = None
    seen: SparseRows | None = None
    has_truth: Tensor | None = None
    raw_scores: Tensor | None = None
    item_mask: Tensor | None = None
    candidates: SparseRows | None = None
    sample_sizes: SampleSizes | None = None
    num_left_out: Tensor | None = None


@dataclass(frozen=True)
class RankingOptions:
    """Options of all batches of a run.

    `depth`: the largest cut-off, 0 if no metric has one. `relevance_threshold`: the lowest rating
    of a relevant item (None: any rating above 0). `estimator`: estimates ranks among all items from
    ranks among sampled negatives. `counts_ranks`: some metric reads the ranks of relevant items
    among all scores, which are then counted in the same pass. `targets`: the group of the truth
    that counts (None: all of it)."""

    tie_rule: TieRule
    depth: int
    relevance_threshold: float | None = None
    estimator: RankEstimator | None = None
    counts_ranks: bool = False
    targets: tuple[TruthGroups, int] | None = None


class Batch:
    """Some users with masked `scores` or masked `lists`, and their sparse truth.

    `relevant` holds the relevant interactions, `raw_scores` the score of each interaction of the
    truth before masking. `is_missing`: the source has nothing for these users; `is_tie_free`: that,
    or lists with a definite order. Quantities are float64 (float32 on devices without float64). Use
    `rank_batch`, which masks and ranks.

    `rank()` sets `ranking`, one position deeper than the largest cut-off to see ties at the cut;
    `items [batch, depth]`, the ranked items, -1 at empty positions and after the end of a list; and
    `values`, their scores, `-inf` there; and `scan`, if one pass over the scores gave all of it.
    `depth` is the largest cut-off, or the number of items if that is less. `has_empty`: lists may
    have empty positions, which have codes below -1 in `ranking` (see `list_policy`)."""

    ranking: Ranking
    items: Tensor
    values: Tensor

    def __init__(
        self,
        inputs: BatchInputs,
        options: RankingOptions,
        validation: InputValidation | None = None,
    ) -> None:
        truth, users, predictions = inputs.truth, inputs.users, inputs.predictions
        self.truth, self.users, self.seen = truth, users, inputs.seen
        self.scores = (
            MaskedScores(predictions, inputs.seen) if isinstance(predictions, Tensor) else None
        )
        self.lists = predictions if isinstance(predictions, BatchLists) else None
        self.size, self.device = truth.num_rows, truth.items.device
        self.dtype = float_type(self.device)
        self.is_host_readable = is_host_readable(self.device)
        self.tie_rule, self.estimator = options.tie_rule, options.estimator
        self.counts_ranks = options.counts_ranks
        self.is_missing = self.is_tie_free = predictions is None
        self.has_empty = False
        if self.lists is not None:
            self.is_missing, self.is_tie_free = self.lists.is_missing, self.lists.is_order_given
            self.has_empty = self.lists.has_empty
        self.depth = options.depth
        if not self.has_empty:
            # No list is longer than the catalogue; 1, so that an empty one has a position.
            self.depth = min(options.depth, max(1, truth.num_items))
        self.sample_sizes, self.num_left_out = inputs.sample_sizes, inputs.num_left_out
        self.item_mask, self.candidates = inputs.item_mask, inputs.candidates
        self.validation = validation or validation_for(self.device)
        self.user_keys = users if inputs.user_keys is None else inputs.user_keys
        has_truth, raw_scores = inputs.has_truth, inputs.raw_scores
        if has_truth is None:
            has_truth = torch.ones_like(users, dtype=torch.bool)
        if raw_scores is None:
            raw_scores = torch.full_like(truth.values, -torch.inf)
        self.has_truth, self.raw_scores = has_truth, raw_scores
        self._add_input_errors()
        self._set_relevant(inputs.relevant or self._select_relevant(options.relevance_threshold))

    def _add_input_errors(self) -> None:
        """Add the errors that were counted when the truth and the lists were read."""
        for source in (self.truth, self.lists):
            if source is not None:
                for name, count in source.error_counts.items():
                    self.validation.add(name, count)

    def _select_relevant(self, threshold: float | None) -> SparseRows:
        self.validation.check_ratings(self.truth, threshold)
        ratings = self.truth.values
        return self.truth.filter(ratings > 0 if threshold is None else ratings >= threshold)

    def at_threshold(self, threshold: float) -> Batch:
        """Return the batch with another relevance threshold: the same lists, other relevant items.

        Ties are ranked again if their order depends on relevance."""
        return self.cached(
            ("threshold", threshold), lambda: self._with_relevant(self._select_relevant(threshold))
        )

    def in_group(self, groups: TruthGroups, group: int) -> Batch:
        """Return the batch with a group of the truth alone: the same lists, fewer relevant items.

        Users without an interaction in the group are no users of the truth."""
        return self.cached(("group", groups, group), lambda: self._restrict(groups, group))

    def _restrict(self, groups: TruthGroups, group: int) -> Batch:
        truth, relevant = self.truth, self.relevant
        is_kept = mask = groups.contains(self.users, truth, group=group)
        if relevant is not truth:
            mask = groups.contains(self.users, relevant, group=group)
        other = self._with_relevant(relevant.filter(mask))
        other.truth = truth.filter(is_kept)
        other.has_truth = self.has_truth & (other.truth.lengths > 0)
        if self.is_host_readable:
            other.raw_scores = self.raw_scores[is_kept]
        if not self._ranks_by_relevance:
            other.located = LocatedSubset(other, other.relevant, self.located, mask)
            if "ties_with_last" in self._cache:  # depends on the lists alone
                other._cache["ties_with_last"] = self._cache["ties_with_last"]
        return other

    @property
    def _ranks_by_relevance(self) -> bool:
        """True if the order of ties depends on relevance."""
        return self.tie_rule.name in ("pessimistic", "optimistic")

    def _with_relevant(self, relevant: SparseRows) -> Batch:
        """Return a batch with other relevant items. It is closed with this one."""
        other = copy.copy(self)
        for name in vars(self).keys() - _INDEPENDENT:
            if isinstance(getattr(Batch, name, None), cached_property):
                del vars(other)[name]
        if self._ranks_by_relevance:
            vars(other).pop("ordered_lists", None)
        other._set_relevant(relevant)
        if self._ranks_by_relevance:
            other.rank()
        return other

    def _set_relevant(self, relevant: SparseRows) -> None:
        """Set the relevant items, and forget what was computed for others."""
        self.relevant = relevant
        self.scan: RowScan | None = None
        self._gains: dict[Gain, Tensor] = {}
        self._ideal_gains: dict[Gain, tuple[Tensor, Tensor]] = {}
        self._topk: dict[tuple[int, ...], TopK] = {}
        self._cache: dict[object, Any] = {}
        self.user_values: dict[object, Tensor] = {}  # by the names of metrics, and cut-offs

    def cached(self, key: object, compute: Callable[[], Value]) -> Value:
        """Return the value of `key`, computed at its first use."""
        if key not in self._cache:
            self._cache[key] = compute()
        value: Value = self._cache[key]
        return value

    def close(self) -> None:
        """Release all tensors, without waiting for the garbage collector. Ends the batch's use."""
        for value in self._cache.values():
            if isinstance(value, Batch):
                value.close()
        vars(self).clear()

    def at_cutoffs(self, cutoffs: tuple[int, ...]) -> TopK:
        """Return the top k of the batch at ascending cut-offs."""
        if cutoffs not in self._topk:
            self._topk[cutoffs] = TopK(self, cutoffs)
        return self._topk[cutoffs]

    @cached_property
    def position_weights(self) -> tuple[Tensor, Tensor]:
        """The positions 1, 2, ... and their discounts 1 / log2(position + 1), `[depth]` both."""
        positions = torch.arange(1, self.depth + 1, dtype=self.dtype, device=self.device)
        return positions, 1 / discount_divisor(positions, "log")

    @cached_property
    def offered(self) -> OfferedItems:
        """The items that could be recommended."""
        return OfferedItems(self)

    @cached_property
    def dense_scores(self) -> Tensor:
        """A copy of the masked scores, `[batch, items]`; `-inf` where there are none."""
        if self.scores is not None:
            return self.scores.to_dense()
        if self.lists is not None:
            return self.lists.to_dense()
        shape = (self.size, self.truth.num_items)
        return torch.full(shape, -torch.inf, dtype=self.dtype, device=self.device)

    # --------------------------------------------------------------------------------- the ranking

    def rank(self) -> bool:
        """Rank each user's items at the largest cut-off, if there is one.

        Return False if scores contain NaN or +inf, which must be refused."""
        depth, scores = self.depth, self.scores
        if depth:
            self.ranking = self._rank_items()
            self.items, self.values = self.ranking.items[:, :depth], self.ranking.values[:, :depth]
            if self.has_empty:
                self.values = torch.where(self.items >= 0, self.values, -torch.inf)
                self.items = self.items.clamp(min=NO_ITEM)
        if scores is None or scores.data.numel() == 0:
            return True
        return not self.validation.has_invalid(self.values[:, 0] if depth else scores.data.amax(1))

    def _rank_items(self) -> Ranking:
        """Return the ranking to `depth + 1`; set `scan` if one pass over the scores gives it."""
        scores, relevant, depth = self.scores, self.relevant, self.depth + 1
        if self.lists is not None:
            return Ranking(*self.ordered_lists.top(self.depth))
        if scores is None:
            items = torch.full((self.size, depth), -1, device=self.device)
            return Ranking(items, items.to(self.dtype).fill_(-torch.inf))
        if self.tie_rule.name == "index" and scores.data.numel():
            self.scan = get_kernel(self.device).scan(scores, depth, relevant, self.counts_ranks)
            return Ranking.from_lists(self.scan.values, self.scan.items)
        return self.tie_rule.rank(scores, depth, user_keys=self.user_keys, relevant=relevant)

    @cached_property
    def ordered_lists(self) -> BatchLists:
        """The lists with ties ordered by the tie rule."""
        assert self.lists is not None
        return break_ties(
            self.lists, self.tie_rule, user_keys=self.user_keys, relevant=self.relevant
        )

    @cached_property
    def lengths(self) -> Tensor:
        """The number of positions of each list, empty ones included, at most `depth`, `[batch]`."""
        items = self.ranking.items[:, : self.depth] if self.has_empty else self.items
        # Usually all lists are full.
        if self.is_host_readable and self.depth and bool((items[:, -1] != NO_ITEM).all()):
            return torch.full((self.size,), self.depth)
        return (items != NO_ITEM).sum(1)

    # -------------------------------------------------------------------- relevant items, positions

    @cached_property
    def num_relevant(self) -> Tensor:
        """The number of relevant items, offered or not, `[batch]`."""
        return self.relevant.lengths.to(self.dtype)

    @cached_property
    def has_no_relevant(self) -> Tensor:
        """True where a user has no relevant item, `[batch, 1]`."""
        return self.relevant.lengths[:, None] == 0

    @cached_property
    def located(self) -> LocatedItems:
        """The positions of the relevant items."""
        return LocatedItems(self, self.relevant)

    @cached_property
    def judged(self) -> LocatedItems:
        """The positions of the items of the truth, relevant or not."""
        if self.is_host_readable and len(self.truth.items) == len(self.relevant.items):
            return self.located
        return LocatedItems(self, self.truth)

    @cached_property
    def relevant_scores(self) -> Tensor:
        """The masked score of each relevant item, `-inf` if not offered, listed or valid, `[n]`."""
        return self.located.scores

    @cached_property
    def hit_positions(self) -> Tensor:
        """The position of each relevant item from 0, `depth` if it is not in the list, `[n]`."""
        return self.located.indices

    @cached_property
    def observed_positions(self) -> ObservedPositions:
        """The positions of relevant items in the lists as they are, ties in the order drawn."""
        return self.located.observed

    @cached_property
    def positions(self) -> Positions:
        """The positions of relevant items, averaged over all orders of ties for `expected`."""
        return self.located.positions

    @cached_property
    def estimated_positions(self) -> Positions:
        """The positions among all items, estimated from sampled negatives; ties as drawn.

        Without an estimator: `positions`."""
        if self.estimator is None or self.sample_sizes is None or self.lists is None:
            return self.positions
        lists = self.ordered_lists
        index, is_offered = lists.locate(self.relevant.keys)
        is_offered = self.relevant.fill_invalid(is_offered, False)
        max_length = len(lists.items)
        positions = torch.where(is_offered, index - lists.offsets[self.relevant.rows], max_length)
        return estimate_positions(
            self.estimator,
            positions,
            is_offered=is_offered,
            hit_ranks=rank_in_rows(positions, self.relevant, max_length + 1),
            sample_sizes=self.sample_sizes,
            relevant=self.relevant,
            depth=self.depth,
            dtype=self.dtype,
        )

    def gains(self, kind: Gain) -> Tensor:
        """Return the gain of each relevant item, `[n]`. Raises `InputError` if it overflows."""
        if kind not in self._gains:
            gains = self.relevant.fill_invalid(compute_gain(self.relevant.values, kind), 0)
            if self.is_host_readable and bool(torch.isinf(self.relevant.sum_rows(gains)).any()):
                raise InputError(
                    f"the rating {float(self.relevant.values.max()):g} is too large: the gain 2^r "
                    '- 1, or the sum of the gains of a user, overflows. Use gain="binary" or '
                    'gain="linear" in the metric, rescale the ratings, or ignore them with '
                    f"{setting_ref('implicit', True)}."
                )
            self._gains[kind] = gains
        return self._gains[kind]

    def ideal_gains(self, kind: Gain) -> tuple[Tensor, Tensor]:
        """Return gains in the ideal order of each row, and their positions from 0, `[n]` both.

        Padding has gain 0, and so comes last."""
        if kind not in self._ideal_gains:
            gains, rows = self.gains(kind), self.relevant.rows
            first = self.relevant.offsets.index_select(0, rows)
            positions = torch.arange(len(rows), device=self.device) - first
            if not (self.is_host_readable and len(gains) and gains.min() == gains.max()):
                order = gains.argsort(descending=True, stable=True)
                # A stable sort by row, last, reorders the gains within each row only.
                gains = gains[order[rows[order].argsort(stable=True)]]
            self._ideal_gains[kind] = gains, positions
        return self._ideal_gains[kind]

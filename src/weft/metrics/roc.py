"""Accuracy by the area under the ROC curve (AUC). Higher is better.

`R` are the relevant items of a user, the negatives are the candidates that are not relevant.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torchmetrics.utilities import dim_zero_cat

from weft._choices import choices
from weft.batch.batch import Batch
from weft.batch.negatives_above import count_negatives_above
from weft.batch.topk import TopK
from weft.data.devices import float_type
from weft.errors import InputError, SettingError, check_choice, check_float
from weft.metrics.accumulators import Accumulator, PairWins
from weft.metrics.accuracy import AccuracyMetric
from weft.metrics.base.formulas import UserMeanMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.base.stateful import State
from weft.metrics.base.summed import ComputedValue, SummedMetric
from weft.metrics.parameter_types import AucScope, GaucWeight, RocCompletion
from weft.metrics.registry import register
from weft.metrics.state_layout import StateView

_UNDEFINED = "no user has both a relevant item and a negative"


@register
class LAUC(AccuracyMetric):
    r"""Area under the ROC curve of the list, completed by a straight line from the end of the list
    to (1, 1).

    Formula: \mathrm{LAUC}_u = \frac{1}{|R_u| \, |N_u|} \sum_{p=1}^{|L_u|} [i_p \notin R_u] \, h_p +
    \left(1 - \frac{m_u}{|N_u|}\right) \frac{1}{2} \left(\frac{|L_u \cap R_u|}{|R_u|} + 1\right)

    m_u = |L| - hits is the number of misses. The sum is the area below the curve along the list,
    the second term the area below the line. A list with all relevant items first reaches 1, an
    empty list 0.5, and a random list about 0.5 for every k.

    Parameters:
        completion: Area outside of the list: `"line"` adds that below a straight line to (1, 1), as
            for a random order, and `"none"` adds nothing. With `"none"`, the value is the sum over
            the hits of the share of negatives that the hit outranks, divided by min(|R|, k).

    Use: it is the AUC for recommendation lists, when there are no scores of the items outside of
    them. The line assumes that the items outside of the list are in random order, so that with a
    large catalogue the value depends mostly on Recall; use GAUC if all scores are available, and
    nDCG to evaluate the order of short lists.

    Related: GAUC, AUC, PartialAUC, FallOut.

    Edge cases: relevant items that are not candidates are never hit; undefined for users without
    negatives and for users for whom the model has no scores. With recommendation lists every item
    that is not masked is a candidate, so that a user without a list has 0.5.

    Example: one hit and then one miss, with one relevant item and three negatives: the curve has
    height 1 from the start.

    >>> import torch, weft
    >>> metric = weft.metrics.LAUC(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1, 0.0]]), torch.tensor([[1, 0, 0, 0]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)
    """

    sampling_behaviour = "candidates"  # the line to (1, 1) depends on items outside the list
    undefined = _UNDEFINED
    reference = (
        "Schröder, Thiele and Lehner (2011), Setting goals and choosing metrics for recommender "
        "system evaluations; on ROC curves Fawcett (2006), An introduction to ROC analysis, "
        "doi 10.1016/j.patrec.2005.10.010"
    )

    def __init__(self, k: int, *, completion: RocCompletion = "line", **settings: Any) -> None:
        super().__init__(k, **settings)
        self.completion = check_choice("completion", completion, choices(RocCompletion))

    def user_values(self, topk: TopK) -> Tensor:
        hits, length, negatives = topk.hits, topk.list_length, topk.num_negatives
        cumulative_hits = topk.cumulative_hits()
        if self.completion == "none":
            # The hit at position p has p - hits_p misses before it.
            wins = negatives * hits - topk.hit_position_sum + cumulative_hits
            return _defined(wins / negatives / topk.max_hits, negatives)
        # A miss adds a column as high as the hits so far: each hit counts at its own and every
        # later position, except at hits.
        area = hits * (length + 1) - topk.hit_position_sum - cumulative_hits
        # 1 + 2 + ... + h = (h² + h) / 2, which also holds in expectation.
        hits_squared = 2 * cumulative_hits - hits
        unlisted_negatives = hits - length + negatives
        line = (
            unlisted_negatives * topk.num_relevant + (negatives - length) * hits + hits_squared
        ) / 2
        return _defined((area + line) / (topk.num_relevant * negatives), negatives)


class _PairMetric(SummedMetric):
    """The common properties of metrics of (relevant item, negative) pairs."""

    family = "accuracy"
    has_expected_tie_form = True
    sampling_behaviour = "unbiased"  # a share of the negatives
    needs_all_scores = True
    higher_is_better = True
    bounds: Bounds = (0.0, 1.0)
    undefined = _UNDEFINED


@register
class GAUC(_PairMetric, UserMeanMetric):
    r"""Group AUC: the area under the ROC curve of each user, averaged over users.

    Formula: \mathrm{GAUC}_u = \frac{1}{|R_u| \, |N_u|} \sum_{i \in R_u} \sum_{j \in N_u} \left(
    [s_{uj} < s_{ui}] + \frac{1}{2} [s_{uj} = s_{ui}]\right)

    The AUC of a user is the share of (relevant item, negative) pairs in which the relevant item has
    the higher score; ties count half.

    Parameters:
        weight: Weight of a user in the mean: `"uniform"` is 1, `"positives"` is the number of the
            user's relevant items, and `"interactions"` is the number of the user's interactions in
            the truth, relevant or not.
        max_fpr: Share of the negatives, above 0 and at most 1, to which the area is limited (the
            highest false positive rate). The area is then corrected after McClish (1989), so that a
            random order has 0.5 and a perfect one 1. None takes the whole area.

    Use: it evaluates how well the scores separate relevant items from others within each user, as
    in click prediction and ranking with negative feedback. All positions count the same, so that
    with a large catalogue most models are close to 1; use nDCG, Recall or PartialAUC for the top of
    the list. Use AUC if users with many relevant items should weigh more.

    Related: AUC, LAUC, PartialAUC, PercentileRank.

    Edge cases: a relevant item that is not a candidate outranks no negative; tie rules have no
    effect; users without negatives are excluded; recommendation lists are an error, because they
    lack the scores of the other items (use LAUC), unless they contain all candidates
    (`candidates="listed"`).

    Example: the relevant item of the first user outranks both negatives, that of the second user
    one of two.

    >>> import torch, weft
    >>> metric = weft.metrics.GAUC()
    >>> scores = torch.tensor([[0.9, 0.5, 0.1], [0.9, 0.5, 0.1]])
    >>> metric.update(scores, torch.tensor([[1, 0, 0], [0, 1, 0]]))
    >>> metric.compute()
    tensor(0.7500, dtype=torch.float64)
    """

    has_reference_values = True
    reference = (
        "Zhu et al. (2017), Optimized cost per click in Taobao display advertising, "
        "doi 10.1145/3097983.3098134"
    )

    def __init__(
        self, *, weight: GaucWeight = "uniform", max_fpr: float | None = None, **settings: Any
    ) -> None:
        super().__init__(**settings)
        self.weight = check_choice("weight", weight, choices(GaucWeight))
        self.max_fpr = None if max_fpr is None else _check_rate(max_fpr)
        if self.max_fpr is not None:  # not a sum over pairs
            self.sampling_behaviour, self.has_reference_values = "candidates", False

    def user_values(self, topk: TopK) -> Tensor:
        offered = topk.batch.offered
        if self.max_fpr is not None:
            return _defined(_partial_area(topk, self.max_fpr), topk.num_negatives)
        wins = offered.pairwise_wins[:, None]
        if topk.order != "model":
            is_offered = offered.is_relevant_offered.to(wins.dtype)
            num_offered = topk.batch.relevant.sum_rows(is_offered)[:, None]
            wins = num_offered if topk.order == "ideal" else num_offered / 2
        return _defined(wins / topk.num_relevant, topk.num_negatives)

    def user_weights(self, batch: Batch) -> Tensor | None:
        if self.weight == "uniform":
            return None
        if self.weight == "positives":
            return batch.num_relevant
        return batch.truth.lengths.to(batch.dtype)


@register
class AUC(_PairMetric):
    r"""Area under the ROC curve: the share of negatives that a relevant item outranks, averaged
    over all relevant items of all users; ties count half.

    Formula: \mathrm{AUC} = \frac{1}{\sum_{u} |R_u|} \sum_{u} \sum_{i \in R_u} \frac{1}{|N_u|}
    \sum_{j \in N_u} \left([s_{uj} < s_{ui}] + \frac{1}{2} [s_{uj} = s_{ui}]\right)

    The sums are over users with at least one negative.

    Parameters:
        scope: `"positives"` is the mean over the relevant items, each compared with the negatives
            of the same user. `"pooled"` is the area under one ROC curve over the items of all
            users: it compares scores between users, and stores the scores of all candidates until
            the end, which takes as much memory as the score matrix.

    Use: it is the probability that a random relevant item has a higher score than a random negative
    of the same user, where users with many relevant items weigh more; use GAUC to give users equal
    weight. All positions count the same, so that with a large catalogue most models are close to 1;
    use nDCG or Recall for the top of the list. Use `scope="pooled"` only if scores of different
    users are on one scale, as for predicted probabilities.

    Related: GAUC, LAUC, PartialAUC, PercentileRank, LogLoss.

    Edge cases: a relevant item that is not a candidate outranks no negative; tie rules have no
    effect; constant scores give 0.5; recommendation lists are an error, because they lack the
    scores of the other items (use LAUC), unless they contain all candidates
    (`candidates="listed"`).

    Example: three relevant items outrank 2 of 2, 1 of 2 and 0 of 1 negatives: (1 + 1/2 + 0) / 3.

    >>> import torch, weft
    >>> metric = weft.metrics.AUC()
    >>> scores = torch.tensor([[0.9, 0.5, 0.1], [0.9, 0.5, 0.1], [0.1, 0.5, -torch.inf]])
    >>> metric.update(scores, torch.tensor([[1, 0, 0], [0, 1, 0], [1, 0, 0]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    reference = (
        "Hanley and McNeil (1982), The meaning and use of the area under a ROC curve, "
        "doi 10.1148/radiology.143.1.7063747"
    )

    supports_row_filtering = True
    # Of the pooled area: all scores row by row, and per row `[3]` the number of relevant items, of
    # their scores, and of negative scores.
    positive_scores: list[Tensor]
    negative_scores: list[Tensor]
    row_counts: list[Tensor]

    def __init__(self, *, scope: AucScope = "positives", **settings: Any) -> None:
        super().__init__(**settings)
        self.scope = check_choice("scope", scope, choices(AucScope))
        if self.scope == "pooled":  # users with many candidates weigh more than others
            self.sampling_behaviour = "candidates"

    @property
    def is_summed(self) -> bool:
        return self.scope == "positives"

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (PairWins(),)

    def compute_value(self, state: StateView) -> Tensor:
        sums = state[PairWins()]
        return sums[0] / sums[1]

    def summarize(self, state: StateView) -> ComputedValue:
        return ComputedValue(self.compute_value(state), users=int(state[PairWins()][2]))

    # ----------------------------------------------------------------------------------------------
    # scope="pooled"

    def add_states(self) -> None:
        super().add_states()
        if self.scope == "pooled":
            for name in ("positive_scores", "negative_scores", "row_counts"):
                self.add_state(name, [], dist_reduce_fx="cat")

    def accumulate(self, batch: Batch) -> None:
        if self.is_summed:
            super().accumulate(batch)
            return
        relevant, scores, has_pairs = batch.relevant, batch.relevant_scores, batch.offered.has_pairs
        is_counted = relevant.fill_invalid(has_pairs[relevant.rows], False) & (scores > -torch.inf)
        positives, num_positives = relevant.select_values(scores, is_counted, -torch.inf)
        negatives, num_negatives = batch.offered.negative_scores(has_pairs)
        num_relevant = torch.where(has_pairs, relevant.lengths, 0)
        self.positive_scores.append(positives.to(batch.dtype))
        self.negative_scores.append(negatives)
        self.row_counts.append(torch.stack([num_relevant, num_positives, num_negatives], dim=1))

    def num_users_counted(self) -> Tensor:
        # TorchMetrics makes one tensor of the list when processes are synchronized.
        counts = self.row_counts if isinstance(self.row_counts, list) else [self.row_counts]
        users = ((rows[:, 0] > 0).sum().cpu() for rows in counts)
        return torch.stack([torch.zeros(()), *users]).sum()

    def check_states(self, states: Mapping[str, State]) -> None:
        counts = list(states.get("row_counts", ()))
        positives, negatives = (
            list(states.get(name, ())) for name in ("positive_scores", "negative_scores")
        )
        if not (
            all(map(_are_row_counts, counts))
            and _are_scores(positives, sum(int(rows[:, 1].sum()) for rows in counts))
            and _are_scores(negatives, sum(int(rows[:, 2].sum()) for rows in counts))
        ):
            raise InputError(
                f"the state 'row_counts' of {self.spec} does not match its scores; the state is "
                "damaged or was changed."
            )

    def filter_rows(self, states: dict[str, Any], rows: Tensor) -> dict[str, Any]:
        if self.is_summed:
            return super().filter_rows(states, rows)
        counts = dim_zero_cat(states["row_counts"])
        rows = rows.to(counts.device)
        filtered: dict[str, Any] = {**states, "row_counts": [counts[rows]]}
        for name, numbers in (("positive_scores", counts[:, 1]), ("negative_scores", counts[:, 2])):
            filtered[name] = [dim_zero_cat(states[name])[rows.repeat_interleave(numbers)]]
        return filtered

    def compute(self) -> Any:
        if self.is_summed:
            return super().compute()
        if len(self.row_counts) == 0:
            return torch.tensor(torch.nan, dtype=float_type(self.device), device=self.device)
        lists = (dim_zero_cat(scores) for scores in (self.positive_scores, self.negative_scores))
        positives, negatives = (scores[scores > -torch.inf] for scores in lists)
        ordered = negatives.sort().values
        below = torch.searchsorted(ordered, positives)
        not_above = torch.searchsorted(ordered, positives, right=True)
        wins = (below + not_above).to(ordered.dtype).sum() / 2
        return wins / len(negatives) / dim_zero_cat(self.row_counts)[:, 0].sum()


def _are_row_counts(rows: Tensor) -> bool:
    """Return True for counts per row, `[rows, 3]`."""
    return rows.shape[1:] == (3,) and rows.dtype == torch.int64 and bool((rows >= 0).all())


def _are_scores(tensors: list[Tensor], number: int) -> bool:
    """Return True for so many scores, in tensors `[n]`."""
    are_flat = all(one.ndim == 1 and one.is_floating_point() for one in tensors)
    return are_flat and sum(map(len, tensors)) == number


def _check_rate(max_fpr: float) -> float:
    """Return a share of the negatives, above 0 and at most 1. Raises `SettingError`."""
    if not 0 < check_float("max_fpr", max_fpr, more=" above 0 and at most 1") <= 1:
        raise SettingError(f"got max_fpr={max_fpr!r}; it must be a number above 0 and at most 1.")
    return float(max_fpr)


def _partial_area(topk: TopK, max_fpr: float) -> Tensor:
    """Return the corrected area under the ROC curve up to a share of the negatives, `[batch, 1]`.

    The curve of one relevant item is 0 up to the negatives above it, rises over those tied with it,
    and is 1 from there on."""
    batch, relevant = topk.batch, topk.batch.relevant
    negatives = batch.cached("negatives", lambda: count_negatives_above(batch))
    num_negatives = batch.offered.num_negatives.index_select(0, relevant.rows)
    start, stop = negatives.above / num_negatives, negatives.at_least / num_negatives
    on_the_rise = (max_fpr - start).square() / (2 * (stop - start))
    area = torch.where(max_fpr < stop, on_the_rise, max_fpr - (start + stop) / 2)
    area = torch.where(negatives.is_ranked & (max_fpr > start), area, 0)
    total = relevant.sum_rows(area)[:, None] / topk.num_relevant
    random = max_fpr**2 / 2
    return (1 + (total - random) / (max_fpr - random)) / 2


def _defined(values: Tensor, negatives: Tensor) -> Tensor:
    """Return the values, NaN for users without negatives."""
    return torch.where(negatives > 0, values, torch.nan)

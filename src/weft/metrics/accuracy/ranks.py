"""Accuracy by the ranks of relevant items among all candidates.

Ranks are from 1, and items with equal scores have the mean of their ranks. Relevant items that are
no candidates have no rank and are left out.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from weft._choices import choices
from weft.batch.batch import Batch
from weft.batch.topk import TopK
from weft.errors import check_choice
from weft.metrics.accumulators import Accumulator, UserSums
from weft.metrics.base.formulas import PooledMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.base.summed import SummedMetric
from weft.metrics.parameter_types import RankAverage, RankMean
from weft.metrics.registry import register
from weft.metrics.state_layout import StateView


def rank_sums(batch: Batch) -> Tensor:
    """Return sums over the offered relevant items of each user, `[batch, 5]`: of their rank, 1, the
    mean rank of all offered items, and, of users with several offered items, their relative rank
    (from 0 to 1) and 1.
    """

    def compute() -> Tensor:
        relevant, offered = batch.relevant, batch.offered
        if not offered.has_all_scores:
            return torch.zeros((batch.size, 5), dtype=batch.dtype, device=batch.device)
        number = relevant.sum_rows(offered.is_relevant_offered.to(batch.dtype))
        ranks = (offered.rank_sums[0].to(batch.dtype) + number) / 2
        has_others = offered.counts > 1
        relative = torch.where(has_others, (ranks - number) / (offered.counts - 1), 0)
        expected = number * (offered.counts + 1) / 2
        columns = [ranks, number, expected, relative, torch.where(has_others, number, 0)]
        return torch.stack(columns, dim=1)

    return batch.cached("rank_sums", compute)


def log_rank_sums(batch: Batch) -> Tensor:
    """Return the sum of ln(rank) over the offered relevant items of each user, and their number,
    `[batch, 2]`.
    """
    relevant, is_offered = batch.relevant, batch.offered.is_relevant_offered
    ranks = (batch.offered.double_ranks.to(batch.dtype) + 1) / 2
    logs = relevant.sum_rows(torch.where(is_offered, ranks.log(), 0))
    return torch.stack([logs, relevant.sum_rows(is_offered.to(batch.dtype))], dim=1)


class _RankMetric(SummedMetric):
    """The common properties of metrics of ranks."""

    family = "accuracy"
    has_expected_tie_form = True  # ties have their mean rank, under every rule
    needs_all_scores = True
    supports_own_threshold = True
    higher_is_better: bool | None = False
    undefined = "no relevant item is a candidate"

    @property
    def rank_sums(self) -> UserSums:
        """The sums of `rank_sums`."""
        return UserSums("rank_sums", 5, rank_sums, self.own_threshold)


class _AveragedRank(PooledMetric, _RankMetric):
    """A mean over the relevant items of each user, then over users, or over all relevant items."""

    averages = choices(RankAverage)

    def _select_users(self, values: Tensor, batch: Batch) -> Tensor:
        return values  # users without a rank are never counted as 0, which is better than any rank


@register
class MeanRank(_AveragedRank):
    r"""The mean rank of the relevant items of a user among all candidates, averaged over users.

    Formula: \mathrm{MeanRank}_u = \frac{1}{|R_u \cap C_u|} \sum_{i \in R_u \cap C_u} \rho_{ui}

    ρ_ui is the rank of item i among the candidates of the user, from 1.

    Parameters:
        average: `"users"` is the mean over users of the mean of each user, and `"items"` is the
            mean over all relevant items of all users, so that users with many of them weigh more.
        mean: Mean of the ranks: `"arithmetic"`, or `"geometric"`, in which a few very bad ranks
            have less influence. The mean over users is arithmetic in both cases.

    Use: it evaluates the whole ranking and is common in link prediction. It grows with the number
    of candidates and is dominated by the worst ranks, which users never see; use AMRI or
    PercentileRank to compare catalogues of different sizes, and nDCG or MRR for the top of the
    list.

    Related: PercentileRank, AMRI, MRR, GAUC.

    Edge cases: items with equal scores share the mean of their ranks, whatever the tie rule;
    relevant items that are not candidates are left out and counted, as are users without a relevant
    candidate; recommendation lists are an error, because they lack the scores of the other items,
    unless they contain all candidates (`candidates="listed"`).

    Example: the relevant items have ranks 1 and 3.

    >>> import torch, weft
    >>> metric = weft.metrics.MeanRank()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1, 0.0]]), torch.tensor([[1, 0, 1, 0]]))
    >>> metric.compute()
    tensor(2., dtype=torch.float64)
    """

    bounds: Bounds = (1.0, None)
    reference = (
        "Bordes et al. (2013), Translating embeddings for modeling multi-relational data; on the "
        "geometric mean Hoyt et al. (2022), A unified framework for rank-based evaluation metrics "
        "for link prediction, doi 10.48550/arXiv.2203.07544"
    )

    def __init__(
        self, *, average: RankAverage = "users", mean: RankMean = "arithmetic", **settings: Any
    ) -> None:
        super().__init__(average=average, **settings)
        self.mean = check_choice("mean", mean, choices(RankMean))

    def pooled_sums(self) -> Accumulator:
        if self.mean == "geometric":
            return UserSums("log_rank_sums", 2, log_rank_sums, self.own_threshold)
        return self.rank_sums

    def pooled_value(self, sums: Tensor) -> Tensor:
        mean = sums[0] / sums[1]
        return mean.exp() if self.mean == "geometric" else mean

    def user_values(self, topk: TopK) -> Tensor:
        sums = (log_rank_sums if self.mean == "geometric" else rank_sums)(topk.batch)
        return self.pooled_value(sums.T)[:, None]


@register
class PercentileRank(_AveragedRank):
    r"""The mean relative rank of the relevant items, (rank - 1) / (candidates - 1): 0 is the first
    rank, 1 the last, and 0.5 the expected value of a random order.

    Formula: \mathrm{PercentileRank} = \frac{\sum_{u} \sum_{i \in R_u \cap C_u} \frac{\rho_{ui} -
    1}{|C_u| - 1}} {\sum_{u} |R_u \cap C_u|}

    ρ_ui is the rank of item i among the candidates of the user, from 1. The mean is over all
    relevant items of all users, so that users with many of them weigh more.

    Parameters:
        average: As in MeanRank.

    Use: it evaluates the whole ranking on a scale that does not depend on the number of candidates,
    as in work on implicit feedback. With a large catalogue every useful model has a value close to
    0; use nDCG or Recall to compare the top of the lists. With one relevant item per user it equals
    1 - AUC.

    Related: MeanRank, AMRI, AUC, GAUC.

    Edge cases: items with equal scores share the mean of their ranks, whatever the tie rule;
    relevant items that are not candidates are left out and counted, as are users with a single
    candidate; recommendation lists are an error unless they contain all candidates
    (`candidates="listed"`).

    Example: the relevant items have the ranks 1 and 3 of 4: (0 + 2/3) / 2.

    >>> import torch, weft
    >>> metric = weft.metrics.PercentileRank()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1, 0.0]]), torch.tensor([[1, 0, 1, 0]]))
    >>> metric.compute()
    tensor(0.3333, dtype=torch.float64)
    """

    bounds: Bounds = (0.0, 1.0)
    undefined = "no user with a relevant candidate has another candidate"
    reference = (
        "Hu, Koren and Volinsky (2008), Collaborative filtering for implicit feedback datasets, "
        "doi 10.1109/ICDM.2008.22"
    )

    def __init__(self, *, average: RankAverage = "items", **settings: Any) -> None:
        super().__init__(average=average, **settings)

    def pooled_sums(self) -> Accumulator:
        return self.rank_sums

    def pooled_value(self, sums: Tensor) -> Tensor:
        return sums[3] / sums[4]

    def user_values(self, topk: TopK) -> Tensor:
        return self.pooled_value(rank_sums(topk.batch).T)[:, None]


@register
class AMRI(_RankMetric):
    r"""Adjusted mean rank index: 1 - (mean rank - 1) / (expected mean rank - 1), over all relevant
    items of all users.

    Formula: \mathrm{AMRI} = 1 - \frac{\sum_{u} \sum_{i \in R_u \cap C_u} (\rho_{ui} - 1)} {\sum_{u}
    \sum_{i \in R_u \cap C_u} \frac{|C_u| - 1}{2}}

    ρ_ui is the rank of item i among the candidates of the user, from 1. The expected rank of a
    random order is (candidates + 1) / 2. A value of 1 is best, 0 is that of a random order, and -1
    the worst.

    Use: it makes MeanRank comparable between catalogues of different sizes and shows whether a
    model is better than a random order. Like MeanRank it is dominated by the ranks far down, which
    users never see; use nDCG or MRR for the top of the list.

    Related: MeanRank, PercentileRank, AUC.

    Edge cases: items with equal scores share the mean of their ranks, whatever the tie rule;
    relevant items that are not candidates are left out and counted; undefined if no user with a
    relevant candidate has another candidate; recommendation lists are an error unless they contain
    all candidates (`candidates="listed"`).

    Example: the relevant items have the ranks 1 and 3 of 4: 1 - (2 - 1) / (2.5 - 1).

    >>> import torch, weft
    >>> metric = weft.metrics.AMRI()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1, 0.0]]), torch.tensor([[1, 0, 1, 0]]))
    >>> metric.compute()
    tensor(0.3333, dtype=torch.float64)
    """

    higher_is_better = True
    bounds: Bounds = (-1.0, 1.0)
    undefined = "no user with a relevant candidate has another candidate"
    reference = (
        "Berrendorf et al. (2020), On the ambiguity of rank-based evaluation of entity alignment "
        "or link prediction methods, doi 10.48550/arXiv.2002.06914"
    )

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (self.rank_sums,)

    def compute_value(self, state: StateView) -> Tensor:
        ranks, number, expected, *_ = state[self.rank_sums]
        excess = expected - number
        return torch.where(excess > 0, 1 - (ranks - number) / excess, torch.nan)

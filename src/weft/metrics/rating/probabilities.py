"""Scores as probabilities that an item is relevant, for models that predict clicks.

The label of an interaction of the truth is 1 if it is relevant, 0 if it is stored and not relevant,
such as a rating of 0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from weft._choices import choices
from weft.batch.batch import Batch
from weft.batch.topk import TopK
from weft.errors import InputError, check_choice, check_int
from weft.metrics.accumulators import Accumulator, Contribution, UserSums
from weft.metrics.base.formulas import PooledMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.base.summed import SummedMetric
from weft.metrics.parameter_types import RatingCells, ScoreKind
from weft.metrics.registry import register
from weft.metrics.state_layout import StateView

SCORE_KINDS = choices(ScoreKind)
# Probabilities of 0 and 1 are moved inside by this, as in scikit-learn and RecBole.
_CLIP = 1e-15


def probabilities(batch: Batch, scores: Tensor, kind: str) -> Tensor:
    """Return scores as probabilities. Raises `InputError` for probabilities outside [0, 1]."""
    if kind == "logits":
        return torch.sigmoid(scores)
    is_invalid = (scores < 0) | (scores > 1)
    if not batch.is_host_readable:
        batch.validation.add("bad_probabilities", is_invalid.sum())
    elif bool(is_invalid.any()):
        raise InputError(
            f"the scores contain {float(scores[is_invalid][0]):g}, but a metric reads them as "
            'probabilities, which are from 0 to 1. Use scores="logits" in the metric if the scores '
            "are log-odds, or rescale them."
        )
    return scores


def log_losses(batch: Batch, scores: Tensor, kind: str) -> tuple[Tensor, Tensor]:
    """Return the log loss of scores for the label 0, and for the label 1."""
    if kind == "logits":
        # Neither exponential overflows, and a loss close to 0 keeps its digits.
        rest = torch.log1p(torch.exp(-scores.abs()))
        return scores.clamp(min=0) + rest, (-scores).clamp(min=0) + rest
    clip = max(_CLIP, torch.finfo(scores.dtype).eps)
    clipped = probabilities(batch, scores, kind).clamp(clip, 1 - clip)
    return -torch.log1p(-clipped), -clipped.log()


def labelled_scores(batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    """Return the score of each interaction of the truth, 0 if it has none, whether it is relevant,
    and whether it has a score; all `[n]`.
    """
    is_scored = batch.raw_scores > -torch.inf
    scores = torch.where(is_scored, batch.raw_scores.to(batch.dtype), 0)
    return scores, batch.relevant.contains(batch.truth.keys) & is_scored, is_scored


def truth_sums(kind: str, batch: Batch) -> Tensor:
    """Return sums over the scored interactions of each user, `[batch, 4]`: of their log loss, 1,
    label and probability.
    """

    def compute() -> Tensor:
        scores, is_relevant, is_scored = labelled_scores(batch)
        negative, positive = log_losses(batch, scores, kind)
        loss = torch.where(is_relevant, positive, negative)
        summed = (loss, torch.ones_like(scores), is_relevant, probabilities(batch, scores, kind))
        columns = [
            batch.truth.sum_rows(torch.where(is_scored, one.to(batch.dtype), 0)) for one in summed
        ]
        return torch.stack(columns, dim=1)

    return batch.cached(("truth_sums", kind), compute)


def offered_sums(kind: str, batch: Batch) -> Tensor:
    """Return the sum of the log loss of each user's offered items, and their number, `[batch, 2]`.

    Users who are not in the truth have none."""

    def compute() -> Tensor:
        relevant = batch.relevant
        is_offered = batch.relevant_scores > -torch.inf
        scores = torch.where(is_offered, batch.relevant_scores.to(batch.dtype), 0)
        negative, positive = log_losses(batch, scores, kind)
        # Every item counts as a negative first.
        losses = batch.offered.sum_scores(lambda tile: log_losses(batch, tile, kind)[0])
        losses = losses + relevant.sum_rows(torch.where(is_offered, positive - negative, 0))
        sums = torch.stack([losses, batch.offered.counts], dim=1)
        return torch.where(batch.has_truth[:, None], sums, 0)

    return batch.cached(("offered_sums", kind), compute)


class _ProbabilityMetric(SummedMetric):
    """The common properties of metrics of probabilities."""

    family = "rating"
    higher_is_better: bool | None = False
    bounds: Bounds = (0.0, None)
    has_expected_tie_form = True  # there are no lists, and so no ties
    sampling_behaviour = "unbiased"  # there are no negatives
    supports_own_threshold = True
    reads_scores = True
    undefined = "no rating has a score"

    def __init__(self, *, scores: ScoreKind = "logits", **settings: Any) -> None:
        super().__init__(**settings)
        self.scores = check_choice("scores", scores, SCORE_KINDS)

    @property
    def truth_sums(self) -> UserSums:
        """The sums of `truth_sums`."""
        compute = partial(truth_sums, self.scores)
        return UserSums(("truth_sums", self.scores), 4, compute, self.own_threshold)

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (self.truth_sums,)


@register
class LogLoss(PooledMetric, _ProbabilityMetric):
    r"""The log loss (binary cross-entropy) of scores that are read as probabilities of relevance.

    The label of an interaction is 1 if it is relevant and 0 otherwise. The loss is averaged over
    the interactions of the truth that have a score.

    Formula: \mathrm{LogLoss} = -\frac{1}{|D|} \sum_{D} \left( y_{ui} \ln p_{ui} + (1 - y_{ui})
    \ln(1 - p_{ui}) \right), \quad p_{ui} = \frac{1}{1 + e^{-s_{ui}}}

    Symbols: $D$ are the interactions of the truth that have a score, $y$ are their labels and $p$
    their probabilities.

    Parameters:
        cells: Interactions that are averaged: `"truth"` means those of the truth that have a score,
            and `"offered"` all candidates of the users in the truth, where items that are not
            relevant have the label 0.
        average: As in MAE.
        scores: Meaning of the scores: `"logits"` are log-odds, which the logistic function turns
            into probabilities, and `"probabilities"` are the probabilities themselves, from 0 to 1.

    Use: LogLoss answers whether predicted click probabilities are right, in their order and in
    their size. Use it for models that predict clicks or conversions, if the truth has negatives
    (stored interactions that are not relevant). Do not use it on positives alone, where a model
    that predicts 1 for everything is perfect, nor to judge top-k lists, for which nDCG or GAUC is
    better. Values of data sets with different shares of positives are not comparable; use NE for
    that.

    Related: NE, ECE, ScoreCalibration, GAUC, AUC.

    Edge cases: an interaction that is stored with a rating of 0, or with a rating below the
    threshold, is not relevant; a score of -inf counts as missing; probabilities outside [0, 1] are
    an error, and probabilities of 0 and 1 are moved inside by 1e-15; `cells="offered"` needs the
    scores of all items, so recommendation lists are an error unless they contain all candidates
    (`candidates="listed"`).

    Example: the logits 0 and ln 3 are probabilities of 1/2 and 3/4. Ratings of 4 and above are
    relevant, so the first label is 0 and the second 1: (ln 2 + ln(4/3)) / 2.

    >>> import torch, weft
    >>> metric = weft.metrics.LogLoss(relevance_threshold=4)
    >>> metric.update(torch.tensor([[0.0, 1.0986]]), torch.tensor([[1, 5]]))
    >>> metric.compute()
    tensor(0.4904, dtype=torch.float64)
    """

    reference = "Good (1952), Rational decisions, doi 10.1111/j.2517-6161.1952.tb00104.x"
    users = "lists"  # all users who have an interaction with a score

    def __init__(self, *, cells: RatingCells = "truth", **settings: Any) -> None:
        super().__init__(**settings)
        self.cells = check_choice("cells", cells, choices(RatingCells))
        if self.cells == "offered":
            self.needs_all_scores = True
            self.sampling_behaviour = "candidates"

    def pooled_sums(self) -> Accumulator:
        if self.cells == "truth":
            return self.truth_sums
        compute = partial(offered_sums, self.scores)
        return UserSums(("offered_sums", self.scores), 2, compute, self.own_threshold)

    def user_values(self, topk: TopK) -> Tensor:
        compute: Callable[[str, Batch], Tensor]
        compute = truth_sums if self.cells == "truth" else offered_sums
        losses, numbers = compute(self.scores, topk.batch)[:, :2].unbind(1)
        return (losses / numbers)[:, None]

    def pooled_value(self, sums: Tensor) -> Tensor:
        return sums[0] / sums[1]


@register
class NE(_ProbabilityMetric):
    r"""Normalized entropy: the log loss divided by the log loss of always predicting the share of
    relevant interactions.

    A value below 1 means that the scores predict better than the constant.

    Formula: \mathrm{NE} = \frac{\mathrm{LogLoss}}{-\left( q \ln q + (1 - q) \ln(1 - q) \right)},
    \quad q = \frac{1}{|D|} \sum_{D} y_{ui}

    Symbols: $D$ are the interactions of the truth that have a score, $y$ are their labels, and $q$
    is the share of relevant ones.

    Parameters:
        scores: As in LogLoss.

    Use: NE answers how much better predicted probabilities are than the average click rate. Use it
    instead of LogLoss to compare models on data sets or days with different click rates. It does
    not separate the order of the scores from their calibration: use AUC or GAUC for the order and
    ScoreCalibration or ECE for the calibration.

    Related: LogLoss, ScoreCalibration, ECE, AUC.

    Edge cases: an interaction that is stored with a rating of 0, or with a rating below the
    threshold, is not relevant; a score of -inf counts as missing; probabilities outside [0, 1] are
    an error; undefined if all interactions are relevant, or none is.

    Example: the logits 0 and ln 3 are probabilities of 1/2 and 3/4. Ratings of 4 and above are
    relevant, so q is 1/2: (ln 2 + ln(4/3)) / 2 / ln 2.

    >>> import torch, weft
    >>> metric = weft.metrics.NE(relevance_threshold=4)
    >>> metric.update(torch.tensor([[0.0, 1.0986]]), torch.tensor([[1, 5]]))
    >>> metric.compute()
    tensor(0.7075, dtype=torch.float64)
    """

    reference = (
        "He et al. (2014), Practical lessons from predicting clicks on ads at Facebook, "
        "doi 10.1145/2648584.2648589"
    )
    undefined = "no rating has a score, all interactions are relevant, or none is"

    def compute_value(self, state: StateView) -> Tensor:
        loss, number, relevant, _ = state[self.truth_sums]
        share = relevant / number
        entropy = -(torch.xlogy(share, share) + torch.xlogy(1 - share, 1 - share))
        return torch.where(entropy > 0, loss / number / entropy, torch.nan)


@register
class ScoreCalibration(_ProbabilityMetric):
    r"""The number of relevant interactions that the scores predict, divided by the actual number.
    The target is 1.

    It covers the interactions of the truth that have a score. A value above 1 means that the
    probabilities are too high on average.

    Formula: \mathrm{ScoreCalibration} = \frac{\sum_{D} p_{ui}}{\sum_{D} y_{ui}}

    Symbols: $D$ are the interactions of the truth that have a score, $y$ are their labels (1 if
    relevant, otherwise 0) and $p$ their probabilities.

    Parameters:
        scores: As in LogLoss.

    Use: ScoreCalibration answers whether a model predicts too many or too few clicks in total,
    which matters if probabilities enter bids or forecasts. Use it along with LogLoss or AUC: a
    constant prediction of the average click rate is perfectly calibrated. Errors that cancel out
    are invisible, such as high probabilities that are too high and low ones that are too low; ECE
    shows these. For the categories of lists, use Calibration.

    Related: ECE, NE, LogLoss, Calibration.

    Edge cases: an interaction that is stored with a rating of 0, or with a rating below the
    threshold, is not relevant; a score of -inf counts as missing; probabilities outside [0, 1] are
    an error; undefined if no interaction with a score is relevant.

    Example: the logits 0 and ln 3 are probabilities of 1/2 and 3/4, and one of the two interactions
    is relevant (a rating of 4 or above): 1.25 / 1.

    >>> import torch, weft
    >>> metric = weft.metrics.ScoreCalibration(relevance_threshold=4)
    >>> metric.update(torch.tensor([[0.0, 1.0986]]), torch.tensor([[1, 5]]))
    >>> metric.compute()
    tensor(1.2500, dtype=torch.float64)
    """

    higher_is_better = None
    target = 1.0
    reference = (
        "He et al. (2014), Practical lessons from predicting clicks on ads at Facebook, "
        "doi 10.1145/2648584.2648589"
    )
    undefined = "no interaction with a score is relevant"

    def compute_value(self, state: StateView) -> Tensor:
        _, _, relevant, predicted = state[self.truth_sums]
        return torch.where(relevant > 0, predicted / relevant, torch.nan)


@dataclass(frozen=True)
class CalibrationGaps(Accumulator):
    """The sum of label minus probability in each bin of probabilities, and, in a last row, the
    number of interactions.
    """

    scores: str
    bins: int
    has_cutoffs = False

    @property
    def num_rows(self) -> int:
        return self.bins + 1

    def contributions(self, topk: TopK) -> Contribution:
        batch = topk.batch
        scores, is_relevant, is_scored = labelled_scores(batch)
        predicted = probabilities(batch, scores, self.scores)
        edges = torch.arange(1, self.bins, dtype=batch.dtype, device=batch.device) / self.bins
        bins = torch.bucketize(predicted, edges, right=True)
        gap = torch.where(is_scored, is_relevant.to(batch.dtype) - predicted, 0)
        return Contribution(
            torch.stack([gap, is_scored.to(batch.dtype)], dim=1),
            torch.stack([bins, torch.full_like(bins, self.bins)], dim=1),
            batch.truth.rows,
        )


@register
class ECE(_ProbabilityMetric):
    r"""Expected calibration error: the mean distance between predicted probabilities and the share
    of relevant interactions, in bins of similar probability.

    The interactions of the truth that have a score are put into bins of equal width by their
    probability: with 10 bins, from 0 to 0.1, from 0.1 to 0.2 and so on, where a bin includes its
    lower end. The value is the mean over the bins of |share of relevant interactions - mean
    probability|, weighted by their numbers of interactions.

    Formula: \mathrm{ECE} = \sum_{b=1}^{10} \frac{|D_b|}{|D|} \, {|\bar{y}_b - \bar{p}_b|}, \quad
    D_b = \{ (u,i) \in D : b - 1 \le 10 \, p_{ui} < b \}

    Symbols: $D$ are the interactions of the truth that have a score, and bars denote means over the
    bin of the labels $y$ (1 if relevant, otherwise 0) and of the probabilities $p$.

    Parameters:
        bins: Number of bins, an integer of at least 1.
        scores: As in LogLoss.

    Use: ECE answers whether a predicted probability of, for example, 0.2 means that 20% of such
    items are relevant. Use it if the probabilities themselves are used, along with a metric of
    their order, since a constant prediction can have an ECE of 0. The value depends on the number
    of bins, and many bins with few interactions look worse than they are; compare values only for
    the same `bins`. If only the total matters, ScoreCalibration is simpler.

    Related: ScoreCalibration, LogLoss, NE.

    Edge cases: an interaction that is stored with a rating of 0, or with a rating below the
    threshold, is not relevant; a score of -inf counts as missing; probabilities outside [0, 1] are
    an error; an empty bin has no weight; a probability of 1 is in the last bin.

    Example: the logits 0 and ln 3 are probabilities of 1/2 and 3/4, in different bins. Ratings of 4
    and above are relevant, so the labels are 0 and 1: (1/2 + 1/4) / 2.

    >>> import torch, weft
    >>> metric = weft.metrics.ECE(relevance_threshold=4)
    >>> metric.update(torch.tensor([[0.0, 1.0986]]), torch.tensor([[1, 5]]))
    >>> metric.compute()
    tensor(0.3750, dtype=torch.float64)
    """

    bounds = (0.0, 1.0)
    supports_own_threshold = False
    reference = (
        "Naeini, Cooper and Hauskrecht (2015), Obtaining well calibrated probabilities using "
        "Bayesian binning, doi 10.1609/aaai.v29i1.9602"
    )

    def __init__(self, *, bins: int = 10, **settings: Any) -> None:
        super().__init__(**settings)
        self.bins = check_int("ECE got bins", bins)

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (CalibrationGaps(self.scores, self.bins),)

    def compute_value(self, state: StateView) -> Tensor:
        gaps = state[CalibrationGaps(self.scores, self.bins)]
        return gaps[:-1].abs().sum() / gaps[-1]

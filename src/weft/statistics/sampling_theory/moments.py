"""Exact moments of sampled metrics over all draws of negatives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.data.tensors import SparseRows
from weft.errors import SettingError, check_bool, check_int, setting_ref
from weft.evaluation.sampling_settings import rank_estimator
from weft.evaluation.settings import EvaluationSettings
from weft.ranking import SampleSizes
from weft.ranking.positions import Positions
from weft.ranking.rank_estimator import RankEstimator, estimate_positions
from weft.statistics.pairing import Floats, Integers
from weft.statistics.sampling_theory.rank_formulas import RankFormulas
from weft.statistics.sampling_theory.ranked_users import RankedUsers

_TILE_NUMBERS = 1 << 22  # numbers in a table of probabilities


@dataclass(frozen=True)
class NegativeDraws:
    """Number and kind of drawn negatives, and the rank estimator that is applied to them."""

    num_negatives: int
    replacement: bool
    estimator: RankEstimator | None

    @classmethod
    def from_settings(
        cls, num_negatives: int, replacement: bool, estimator: str | None, gamma: float | None
    ) -> NegativeDraws:
        """Check the settings; rank estimators need draws without replacement."""
        options = {"estimator": estimator, "gamma": gamma, "strategy": "sampled"}
        chosen = rank_estimator(EvaluationSettings.from_options(**options).resolve(()))
        replacement = check_bool("replacement", replacement)
        if replacement and chosen is not None:
            raise SettingError(
                f"{setting_ref('estimator', chosen.method)} is for negatives without replacement; "
                "leave replacement out."
            )
        return cls(check_int("num_negatives", num_negatives), replacement, chosen)

    def num_drawn(self, eligible: Integers) -> Integers:
        """Return how many are drawn from so many eligible items: all, if there are too few."""
        if self.replacement:
            return np.where(eligible > 0, self.num_negatives, 0)
        return np.minimum(self.num_negatives, eligible)


def sampled_moments(
    users: RankedUsers, draws: NegativeDraws, formulas: RankFormulas, *, variance: bool
) -> tuple[Floats, Floats]:
    """Return means and variances of the sampled values of each user, `[users, formulas]` both.

    Variances are 0 unless `variance` is True.
    """
    shape = (len(users.counts), len(formulas.metrics))
    means, variances = np.zeros(shape), np.zeros(shape)
    drawn, starts = draws.num_drawn(users.eligible), users.counts.cumsum() - users.counts
    # Users with equal counts have the same values at the same positions.
    pool = users.eligible if draws.estimator is not None else np.zeros_like(drawn)
    kinds, kind = np.unique(
        np.stack([users.counts, drawn, pool], axis=1), axis=0, return_inverse=True
    )
    for number, (count, m, eligible) in enumerate(kinds.tolist()):
        values = item_values(formulas, draws, count=count, m=m, eligible=eligible)
        members = np.flatnonzero(kind.ravel() == number)
        step = max(1, _TILE_NUMBERS // ((m + 1) * (m + 1 if variance and count > 1 else count)))
        for block in np.split(members, range(step, len(members), step)):
            above = users.above[starts[block][:, None] + np.arange(count)]
            chain = _RankChain(above, users.eligible[block], m, draws.replacement)
            if variance:
                means[block], variances[block] = chain.mean_and_variance(values)
            else:
                means[block] = np.einsum("njx,jxs->ns", chain.probabilities(), values)
    return means, variances


@dataclass(frozen=True)
class _RankChain:
    """The numbers of drawn negatives above each relevant item of users with equal counts.

    They are a Markov chain: the number drawn between two items depends on the number drawn above
    the first. `above` is `[users, relevant items]`, `eligible` is `[users]`.
    """

    above: Integers
    eligible: Integers
    m: int
    replacement: bool

    def probabilities(self) -> Floats:
        """Return the probability of each number above each item, `[users, items, m + 1]`."""
        return draw_probabilities(
            self.above[:, :, None], self.eligible[:, None, None], self.m, self.replacement
        )

    def mean_and_variance(self, values: Floats) -> tuple[Floats, Floats]:
        """Return the moments, `[users, formulas]`, from `values [items, m + 1, formulas]`.

        The probability of each state and the first two moments of the sum so far go along the
        chain.
        """
        probability = self.probabilities()[:, 0, :, None]
        first, second = probability * values[0], probability * values[0] ** 2
        for item in range(1, self.above.shape[1]):
            step = self._transition(item).transpose(0, 2, 1)
            probability, first, second = (step @ part for part in (probability, first, second))
            second = second + 2 * values[item] * first + values[item] ** 2 * probability
            first = first + values[item] * probability
        mean = first.sum(1)
        return mean, np.maximum(second.sum(1) - mean**2, 0)

    def _transition(self, item: int) -> Floats:
        """Return the transition probabilities to an item, `[users, from m + 1, to m + 1]`."""
        states = np.arange(self.m + 1)
        between = self.above[:, item] - self.above[:, item - 1]
        left = self.eligible - self.above[:, item - 1]
        rest = self.m - states
        if not self.replacement:
            rest = np.minimum(rest, left[:, None])
        step = draw_probabilities(
            between[:, None, None],
            left[:, None, None],
            rest[..., None],
            self.replacement,
            width=self.m + 1,
        )
        increase = states - states[:, None]
        return np.where(increase >= 0, step[:, states[:, None], np.maximum(increase, 0)], 0)


def item_values(
    formulas: RankFormulas, draws: NegativeDraws, *, count: int, m: int, eligible: int
) -> Floats:
    """Return the contribution of each of `count` relevant items to the values of a user.

    The shape is `[count, m + 1, formulas]`, for each number of the m drawn negatives above it.
    """
    blocks = []
    step = max(1, (_TILE_NUMBERS // 8) // ((m + 1) * count))
    for items in torch.split(torch.arange(1, count + 1), step):
        number, above = (
            part.flatten() for part in torch.meshgrid(items, torch.arange(m + 1), indexing="ij")
        )

        def positions(
            relevant: SparseRows, depth: int, number: Tensor = number, above: Tensor = above
        ) -> Positions:
            hit_ranks = torch.arange(1, count + 1).repeat(len(above))
            sizes = SampleSizes(torch.full_like(above, m), torch.full_like(above, eligible))
            return estimate_positions(
                draws.estimator,
                (above + number - 1).repeat_interleave(count),
                is_offered=hit_ranks == number.repeat_interleave(count),
                hit_ranks=hit_ranks,
                sample_sizes=sizes,
                relevant=relevant,
                depth=depth,
                dtype=torch.float64,
            )

        wins = 1 - above.double() / m if m else torch.full(above.shape, torch.nan)
        negatives = torch.full(above.shape, m, dtype=torch.float64)
        counts = torch.full_like(above, count)
        blocks.append(formulas.compute(counts, wins.double(), negatives, positions))
    return np.concatenate(blocks).reshape(count, m + 1, len(formulas.metrics))


def draw_probabilities(
    above: Any, eligible: Any, m: Any, replacement: bool, width: int | None = None
) -> Floats:
    """Return the probability that x of m drawn negatives are among the `above` first ones.

    Arguments are broadcast; the last axis has x = 0 to m, or `width` entries. Ratios of neighbours
    are exact, where factorials of a large catalogue would not be.
    """
    x = np.arange(int(np.max(m)) + 1 if width is None else width)
    if replacement:
        least, most = np.where((above == eligible) & (above > 0), m, 0), np.where(above == 0, 0, m)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (m - x) * above / ((x + 1.0) * (eligible - above))
    else:
        least, most = np.maximum(0, m - (eligible - above)), np.minimum(above, m)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (above - x) * (m - x) / ((x + 1.0) * (eligible - above - m + x + 1))
    steps = np.log(np.where((x >= least) & (x < most), ratio, 1.0))
    logs = np.concatenate([np.zeros_like(steps[..., :1]), steps.cumsum(-1)[..., :-1]], axis=-1)
    logs = np.where((x >= least) & (x <= most), logs, -np.inf)
    probabilities = np.exp(logs - logs.max(-1, keepdims=True))
    return np.asarray(probabilities / probabilities.sum(-1, keepdims=True))

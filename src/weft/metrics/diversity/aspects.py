"""Accuracy by aspect: relevant items count less the more often their aspects occur above them.

The aspects of an item are its features, such as genres; those of a user are the features of the
user's relevant items.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from weft._input_kinds import built_in_inputs
from weft.batch.topk import TopK
from weft.data import Features
from weft.errors import SettingError, check_bool, check_float, setting_ref
from weft.metrics.base.formulas import UserAverageTopKMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.diversity.aspect_gains import Aspects, find_aspects
from weft.metrics.registry import register
from weft.ranking.positions import ObservedPositions


class _AspectMetric(UserAverageTopKMetric):
    """A number per list that depends on the aspects of its relevant items."""

    family = "diversity"
    needs = built_in_inputs("item_features")
    higher_is_better = True
    undefined = "no user has a relevant item with a feature"

    def __init__(self, k: int, **settings: Any) -> None:
        super().__init__(k, **settings)
        self._features: Features = self.inputs["item_features"]

    def aspects(self, topk: TopK) -> Aspects:
        """Return the aspects of the relevant items."""
        return find_aspects(topk.batch, self._features)

    def num_aspects(self, topk: TopK) -> Tensor:
        """Return the number of aspects of each user, NaN if there are none, `[batch, 1]`."""
        number = self.aspects(topk).count_by_user()
        return torch.where(number > 0, number, torch.nan)


class _RepeatedAspectMetric(_AspectMetric):
    """A sum over the hits of their gains, which repeated aspects lessen, by position."""

    def __init__(self, k: int, *, alpha: float = 0.5, **settings: Any) -> None:
        super().__init__(k, **settings)
        self.alpha = float(check_float("alpha", alpha, more=" from 0 to 1"))
        if not 0 <= self.alpha <= 1:
            raise SettingError(f"{setting_ref('alpha', alpha)}; it must be a number from 0 to 1.")

    def list_gain(self, topk: TopK, weights: Tensor) -> Tensor:
        """Return the weighted gains of the lists; `weights [depth]` by position."""
        batch = topk.batch
        gains = self.aspects(topk).gains(batch.hit_positions, self.alpha)
        return batch.observed_positions.gains(topk.cutoffs, gains, weights)

    def greedy_gain(self, topk: TopK, weights: Tensor) -> Tensor:
        """Return the weighted gains of lists that are built greedily, NaN without an aspect."""
        batch, alpha = topk.batch, self.alpha
        length = min(topk.cutoffs[-1], batch.depth)
        positions, gains = batch.cached(
            ("greedy_order", self._features.codes, alpha, length),
            lambda: self.aspects(topk).greedy_order(alpha, length),
        )
        positions = torch.where(positions < length, positions, batch.depth)
        order = ObservedPositions(positions, batch.relevant, batch.depth, dtype=batch.dtype)
        gain = order.gains(topk.cutoffs, gains, weights)
        return torch.where(gain > 0, gain, torch.nan)


@register
class alpha_nDCG(_RepeatedAspectMetric):  # noqa: N801 - its name in other tools
    r"""The discounted gain of new aspects in a list, divided by that of a list that is built
    greedily, averaged over users.

    The aspects of an item are its features. A relevant item at position p adds 1 / log2(p + 1)
    times the sum over its aspects of (1 - α)^m, where m is the number of relevant items above it
    with the same aspect.

    The greedy list takes, at each position, the relevant item that adds most, and of several such
    items the one with the highest index, as ndeval takes the last document id. The greedy list is
    not always the best list, so values above 1 are possible.

    Formula: \text{alpha-nDCG}_u = \frac{D(L_u)}{D(G_u)}, \quad D(L) = \sum_{p:\, i_p \in R_u} d_p
    \sum_{f \in F_{i_p}} (1 - \alpha)^{m_p(f)}

    Symbols: $D$ is the discounted gain of a list, with $\alpha = 0.5$; $m$ is the number of
    relevant items above position $p$ with the aspect $f$; $G$ is the greedy list, cut at $k$.

    Parameters:
        alpha: Loss of gain by repetition, α, from 0 to 1: each relevant item above with the same
            aspect multiplies the gain of the aspect by 1 - α. With 0, repeated aspects count in
            full, and with 1 not at all.

    Use: it answers whether the first positions hold relevant items that cover different interests.
    Use it for ambiguous queries and for users with several interests, if items have features such
    as genres. It measures relevance and diversity at once and does not show which of them changed:
    compare nDCG and ILD for that. To count covered features without positions, SRecall is simpler.

    Related: ERR_IA, SRecall, P_IA, nDCG, ILD.

    Edge cases: relevant items without features, and items that are not relevant, add nothing; users
    with relevant items of which none has a feature are left out; under `ties="expected"` ties are
    broken at random, because there is no closed form.

    Example: the list has two dramas, and the relevant comedy is missing: (1 + 0.5 / log2(3)) / (1 +
    1 / log2(3)).

    >>> import torch, weft
    >>> genres = {0: ["drama"], 1: ["drama"], 2: ["comedy"]}
    >>> metric = weft.metrics.alpha_nDCG(k=2, item_features=genres, num_items=3)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 1, 1]]))
    >>> metric.compute()
    tensor(0.8066, dtype=torch.float64)
    """

    bounds: Bounds = (0.0, None)
    reference = (
        "Clarke et al. (2008), Novelty and diversity in information retrieval evaluation, "
        "doi 10.1145/1390334.1390446"
    )

    def user_values(self, topk: TopK) -> Tensor:
        weights = topk.discounts
        return self.list_gain(topk, weights) / self.greedy_gain(topk, weights)


@register
class ERR_IA(_RepeatedAspectMetric):  # noqa: N801 - its name in other tools
    r"""Intent-aware expected reciprocal rank: the gain of new aspects in a list, discounted by 1 /
    position and divided by that of a list that is built greedily, averaged over users.

    The gains and the greedy list are those of alpha_nDCG.

    Formula: \text{ERR-IA}_u = \frac{E(L_u)}{E(G_u)}, \quad E(L) = \sum_{p:\, i_p \in R_u}
    \frac{1}{p} \sum_{f \in F_{i_p}} (1 - \alpha)^{m_p(f)}

    Symbols: $E$ is the gain of a list, with $\alpha = 0.5$; $m$ is the number of relevant items
    above position $p$ with the aspect $f$; $G$ is the greedy list, cut at $k$.

    Parameters:
        normalize: True divides by the gain of the greedy list (nERR-IA of ndeval and ir_measures).
            False divides by the gain of a list in which every item has all aspects of the user
            (ERR-IA there), which is their number times the sum over positions of (1 - α)^(p - 1) /
            p.
        alpha: As in alpha_nDCG.

    Use: ERR_IA answers whether a user with one of several interests finds a relevant item at the
    very top. Use it if users stop after the first good item, as in search; its discount falls
    faster than that of alpha_nDCG, which is better if users look at the whole list. Without
    features of items, use ERR or MRR.

    Related: alpha_nDCG, ERR, P_IA, SRecall.

    Edge cases: relevant items without features, and items that are not relevant, add nothing; users
    with relevant items of which none has a feature are left out; with `ties="expected"` ties are
    broken at random, because there is no closed form; values above 1 are possible only with
    `normalize=True`.

    Example: the list has two dramas, and the relevant comedy is missing: (1 + 0.5 / 2) / (1 + 1 /
    2).

    >>> import torch, weft
    >>> genres = {0: ["drama"], 1: ["drama"], 2: ["comedy"]}
    >>> metric = weft.metrics.ERR_IA(k=2, item_features=genres, num_items=3)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 1, 1]]))
    >>> metric.compute()
    tensor(0.8333, dtype=torch.float64)
    """

    bounds: Bounds = (0.0, None)
    reference = (
        "Chapelle et al. (2011), Intent-based diversification of web search results: metrics and "
        "algorithms, doi 10.1007/s10791-011-9167-7; Clarke et al. (2011), A comparative analysis "
        "of cascade measures for novelty and diversity, doi 10.1145/1935826.1935847"
    )

    def __init__(self, k: int, *, normalize: bool = True, **settings: Any) -> None:
        super().__init__(k, **settings)
        self.normalize = check_bool("normalize", normalize)
        if not self.normalize:
            self.bounds = (0.0, 1.0)

    def user_values(self, topk: TopK) -> Tensor:
        weights = 1 / topk.positions
        gain = self.list_gain(topk, weights)
        if self.normalize:
            return gain / self.greedy_gain(topk, weights)
        p = torch.arange(1, topk.cutoffs[-1] + 1, dtype=topk.k.dtype, device=topk.k.device)
        perfect = ((1 - self.alpha) ** (p - 1) / p).cumsum(0)[topk.k.long() - 1]
        return gain / (self.num_aspects(topk) * perfect)


@register
class P_IA(_AspectMetric):  # noqa: N801 - its name in other tools
    r"""Intent-aware precision: the share of a list that is relevant and has a given aspect,
    averaged over the aspects of the user and then over users.

    The aspects of an item are its features, and the aspects of a user are the features of the
    user's relevant items. A relevant item counts once for each of its aspects.

    Formula: \text{P-IA}_u = \frac{1}{k \, {|A_u|}} \sum_{i \in L_u \cap R_u} {|F_i|}, \quad A_u =
    \bigcup_{i \in R_u} F_i

    Symbols: $A$ are the aspects of the user.

    Use: P_IA answers how many relevant items a list has for each interest of a user. Use it to
    compare with search evaluations that report it. It does not reward diversity by itself, since
    many hits for one interest count as much as one hit for each: use alpha_nDCG or SRecall to
    reward the coverage of interests.

    Related: Precision, alpha_nDCG, SRecall, ERR_IA.

    Edge cases: a list shorter than k counts as if it were filled with misses; relevant items
    without features add nothing; users with relevant items of which none has a feature are left
    out.

    Example: a drama and a comedy are relevant, and the list of two items holds the drama: (1/2 + 0)
    / 2.

    >>> import torch, weft
    >>> genres = {0: ["drama"], 1: ["drama"], 2: ["comedy"]}
    >>> metric = weft.metrics.P_IA(k=2, item_features=genres, num_items=3)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]]))
    >>> metric.compute()
    tensor(0.2500, dtype=torch.float64)
    """

    bounds: Bounds = (0.0, 1.0)
    has_expected_tie_form = True
    sampling_behaviour = "corrected"
    has_reference_values = True
    reference = "Agrawal et al. (2009), Diversifying search results, doi 10.1145/1498759.1498766"

    def user_values(self, topk: TopK) -> Tensor:
        found = topk.relevant_positions.gains(topk.cutoffs, self.aspects(topk).count_by_item())
        return found / (topk.k * self.num_aspects(topk))

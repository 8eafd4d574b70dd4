"""Accuracy that corrects for popular items being observed more often: hits divided by propensities.

The propensity p_i is the probability that an interaction with item i is observed. Hits on items
that are seldom observed stand for many that were not.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from weft._input_kinds import BUILT_IN_INPUTS, TrainInteractions
from weft.batch.batch import Batch
from weft.batch.topk import TopK
from weft.data import DeviceColumn, Train
from weft.data.numbers import Numbers
from weft.data.popularity import NO_TRAIN, check_ratio
from weft.errors import InputError, SettingError, agree, check_float, setting_ref
from weft.metrics.accumulators import Accumulator, UserMeanSums, UserSums
from weft.metrics.accuracy.base import AccuracyMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.base.summed import ComputedValue
from weft.metrics.registry import build_metric, register
from weft.metrics.state_layout import StateView

_YANG = (
    "Yang et al. (2018), Unbiased offline recommender evaluation for missing-not-at-random "
    "implicit feedback, doi 10.1145/3240323.3240355"
)
SAITO = (
    "Saito et al. (2020), Unbiased recommender learning from missing-not-at-random implicit "
    "feedback, doi 10.1145/3336191.3371783"
)


class PropensityMetric(AccuracyMetric):
    """A metric in which each relevant item weighs 1 / p_i."""

    needs = {
        "train": TrainInteractions(
            required=False,
            description="the train interactions, from which propensities are estimated if the "
            "input propensities is not given",
        ),
        "propensities": replace(BUILT_IN_INPUTS["propensities"], required=False),
    }
    undefined = (
        "no user has a relevant item, or train, from which propensities are estimated, is empty"
    )

    def __init__(self, k: int, *, power: float = 0.5, clip: float = 0.1, **settings: Any) -> None:
        super().__init__(k, **settings)
        self.power = check_float("power", power, more=" of at least 0")
        if self.power < 0:
            raise SettingError(f"{setting_ref('power', power)}; it must be a number of at least 0.")
        self.clip = check_ratio("clip", clip)
        self._train: Train = self.inputs.get("train", NO_TRAIN)
        self._given: Numbers | None = self.inputs.get("propensities")
        if self._given is not None:
            _check_probabilities(self._given.values.values)

    def needed_inputs(self) -> Set[str]:
        return {"train"}

    def missing_inputs(self, available: Set[str]) -> Set[str]:
        return frozenset() if "propensities" in available else super().missing_inputs(available)

    @property
    def has_propensities(self) -> bool:
        """True unless train is empty, and propensities are not given."""
        return self._given is not None or self._train.num_interactions > 0

    @cached_property
    def _weights(self) -> DeviceColumn:
        """The weight 1 / p_i of each item; and the same, but 0 for items with a propensity that is
        not clipped, `[items, 2]`.
        """
        if self._given is not None:
            return DeviceColumn(self._weigh(self._given.values.values.double()))
        most = int(self._train.item_counts.max(initial=1))
        return self._train.by_count(lambda counts: self._weigh((counts / most) ** self.power))

    def _weigh(self, propensities: Tensor) -> Tensor:
        weights = 1 / propensities.clamp(self.clip, 1)
        return torch.stack([weights, torch.where(propensities < self.clip, weights, 0)], dim=1)

    def _relevant_weights(self, batch: Batch) -> Tensor:
        """Return the `_weights` of the relevant items, `[n, 2]`."""
        source = self._train if self._given is None else self._given
        items = batch.relevant.fill_invalid(batch.relevant.items, -1)
        return batch.cached(
            ("propensities", source, self.power, self.clip), lambda: self._weights.lookup(items)
        )

    def weighted_hits(self, topk: TopK, discounts: Tensor | None = None) -> Tensor:
        """Return the sum over the hits of 1 / p_i, times the discount of the position."""
        if not self.has_propensities:
            return torch.full_like(topk.list_length, torch.nan)
        weights = self._relevant_weights(topk.batch)[:, 0]
        return topk.relevant_positions.gains(topk.cutoffs, weights, discounts)

    def total_weight(self, topk: TopK) -> Tensor:
        """Return the sum over the relevant items of 1 / p_i, `[batch, 1]`."""
        return topk.batch.relevant.sum_rows(self._relevant_weights(topk.batch)[:, 0])[:, None]

    @property
    def weight_sums(self) -> UserSums:
        """Over all relevant items: their number, and the sums of their weights, of the squares of
        the weights, and of the weights of items with a clipped propensity.
        """
        return UserSums(
            ("propensities", self.power, self.clip, self.own_threshold), 4, self._sum_weights
        )

    def _sum_weights(self, batch: Batch) -> Tensor:
        batch = self.own_batch(batch)
        weights, clipped = self._relevant_weights(batch).unbind(1)
        terms = (torch.ones_like(weights), weights, weights**2, clipped)
        return torch.stack([batch.relevant.sum_rows(each) for each in terms], dim=1)

    @cached_property
    def _other_powers(self) -> dict[float, UserMeanSums]:
        """The sums of the metric with no, half and twice the power, if that has an effect.

        They are those of the metric in a run that has it with that power, too."""
        if self._given is not None:
            return {}
        power = float(self.power)
        powers = sorted({0.0, power / 2, power * 2} - {power})
        return {power: self._with_power(power).mean_sums for power in powers}

    def _with_power(self, power: float) -> PropensityMetric:
        """Return the metric with another power, without states."""
        params = [(name, value) for name, value in self.spec.params if name != "power"]
        spec = replace(self.spec, params=(*params, ("power", power)))
        built = build_metric(
            spec,
            metric_class=type(self),
            inputs=self.own_inputs(),
            standalone=False,
            **self.settings(),
        )
        assert isinstance(built, PropensityMetric)
        return built

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (*super().accumulators(), self.weight_sums, *self._other_powers.values())

    def summarize(self, state: StateView) -> ComputedValue:
        computed = super().summarize(state)
        if not self.has_propensities:
            return computed
        sums = {power: state[mean] for power, mean in self._other_powers.items()}
        by_power = tuple((power, float(one[2] / one[1])) for power, one in sums.items())
        return replace(computed, by_power=by_power)


def _check_probabilities(propensities: Tensor) -> None:
    """Raise `InputError` unless all propensities are from 0 to 1."""
    outside = propensities[(propensities < 0) | (propensities > 1)]
    if len(outside):
        raise InputError(
            f"propensities has {agree(len(outside), '{n} value{s}')} outside [0, 1], such as "
            f"{float(outside[0]):g}; expected the probability that each item is observed. Divide "
            "values on another scale by their maximum."
        )


@register
class IPSRecall(PropensityMetric):
    r"""Recall with inverse propensity scores: the sum of 1 / π_i over the hits, divided by |R|.

    Formula: \mathrm{IPSRecall}_u = \frac{1}{|R_u|} \sum_{i \in L_u \cap R_u} \frac{1}{\pi_i},
    \qquad \pi_i = \max\left(0.1, \left(\frac{n_i}{\max_j n_j}\right)^{0.5}\right)

    The propensity π_i is the probability that an interaction with item i is observed. It is the
    input `propensities` or, without it, the estimate (n_i / max n)^`power`, where n_i are the train
    interactions of the item; both are clipped to [`clip`, 1]. The result notes the effective sample
    size of the weights 1 / π_i, the share of clipped ones and, for propensities from train, the
    value with no, half and twice the power (`by_power` of the entry in `result.entries`).

    Parameters:
        power: Exponent of the propensities that are estimated from train, at least 0: with
            0, all propensities are 1, and with a higher one, rare items weigh more. It has no
            effect on given propensities.
        clip: Lowest propensity, a number above 0 and at most 1. Lower propensities, estimated or
            given, are replaced by it, which limits the weight of a hit to 1 / `clip`.

    Use: it estimates the recall on data in which all items are observed equally often, and thereby
    corrects the advantage of popular items in logged data. The estimate depends on the propensities
    and has a high variance if some of them are small; check the effective sample size, and use
    SNIPSRecall for a stable value. It may exceed 1, so that it is not a share; report Recall with
    it.

    Related: SNIPSRecall, IPSDCG, IPS, Recall.

    Edge cases: relevant items that are not candidates count in |R|; an item without train
    interactions has the propensity `clip`; undefined if propensities are not given and train is
    empty; users without a relevant item are excluded.

    Example: items 0 and 1 are relevant, with propensities of 1 and 1/4, and the list contains item
    1 only: 4 / 2.

    >>> import torch, weft
    >>> metric = weft.metrics.IPSRecall(k=1, propensities=[1.0, 0.25, 0.5])
    >>> metric.update(torch.tensor([[0.1, 0.9, 0.5]]), torch.tensor([[1, 1, 0]]))
    >>> metric.compute()
    tensor(2., dtype=torch.float64)
    """

    bounds: Bounds = (0.0, None)
    reference = SAITO

    def user_values(self, topk: TopK) -> Tensor:
        return self.weighted_hits(topk) / topk.num_relevant


@register
class SNIPSRecall(PropensityMetric):
    r"""Recall with self-normalized inverse propensity scores: the sum of 1 / π_i over the hits,
    divided by that over all relevant items.

    Formula: \mathrm{SNIPSRecall}_u = \frac{\sum_{i \in L_u \cap R_u} \frac{1}{\pi_i}} {\sum_{i \in
    R_u} \frac{1}{\pi_i}}

    The propensities π_i are those of IPSRecall. Their scale cancels.

    Parameters:
        power, clip: As in IPSRecall.

    Use: it corrects Recall for the popularity of items and stays between 0 and 1, with a lower
    variance than IPSRecall. The normalization causes a small bias, which is larger for users with
    few relevant items: with one relevant item it equals Recall, and no correction takes place. Use
    IPSRecall in a leave-one-out evaluation.

    Related: IPSRecall, SNIPSDCG, IPS, Recall.

    Edge cases: equal propensities give Recall; relevant items that are not candidates count in the
    denominator; undefined if propensities are not given and train is empty; users without a
    relevant item are excluded.

    Example: items 0 and 1 are relevant, with propensities of 1 and 1/4, and the list contains item
    1 only: 4 / (1 + 4).

    >>> import torch, weft
    >>> metric = weft.metrics.SNIPSRecall(k=1, propensities=[1.0, 0.25, 0.5])
    >>> metric.update(torch.tensor([[0.1, 0.9, 0.5]]), torch.tensor([[1, 1, 0]]))
    >>> metric.compute()
    tensor(0.8000, dtype=torch.float64)
    """

    reference = _YANG

    def user_values(self, topk: TopK) -> Tensor:
        return self.weighted_hits(topk) / self.total_weight(topk)


@register
class IPSDCG(PropensityMetric):
    r"""Discounted cumulative gain with inverse propensity scores: the sum over the hits of 1 / π_i,
    divided by log2(position + 1).

    Formula: \mathrm{IPSDCG}_u = \sum_{p=1}^{|L_u|} [i_p \in R_u] \, \frac{d_p}{\pi_{i_p}}

    The propensities π_i are those of IPSRecall. Each relevant item has gain 1, whatever its rating.

    Parameters:
        power, clip: As in IPSRecall.

    Use: it estimates the DCG on data in which all items are observed equally often, including the
    order of the list. It is not normalized: users with many relevant items dominate, and the scale
    depends on the propensities; use SNIPSDCG for a value between 0 and 1, or `IPS(metric=nDCG)` for
    nDCG with propensities.

    Related: SNIPSDCG, IPSRecall, IPS, DCG.

    Edge cases: an item without train interactions has the propensity `clip`; undefined if
    propensities are not given and train is empty; users without a relevant item are excluded.

    Example: item 1, with a propensity of 1/4, is at position 1, and item 0, with a propensity of 1,
    is at position 3: 4 / 1 + 1 / 2.

    >>> import torch, weft
    >>> metric = weft.metrics.IPSDCG(k=3, propensities=[1.0, 0.25, 0.5])
    >>> metric.update(torch.tensor([[0.1, 0.9, 0.5]]), torch.tensor([[1, 1, 0]]))
    >>> metric.compute()
    tensor(4.5000, dtype=torch.float64)
    """

    bounds: Bounds = (0.0, None)
    reference = SAITO

    def user_values(self, topk: TopK) -> Tensor:
        return self.weighted_hits(topk, topk.discounts)


@register
class SNIPSDCG(PropensityMetric):
    r"""Discounted cumulative gain with self-normalized inverse propensity scores: IPSDCG divided by
    the sum of 1 / π_i over all relevant items.

    Formula: \mathrm{SNIPSDCG}_u = \frac{\sum_{p=1}^{|L_u|} [i_p \in R_u] \, \frac{d_p}{\pi_{i_p}}}
    {\sum_{i \in R_u} \frac{1}{\pi_i}}

    The propensities π_i are those of IPSRecall. Their scale cancels. The best list reaches 1 only
    for a user with one relevant item.

    Parameters:
        power, clip: As in IPSRecall.

    Use: it corrects a discounted gain for the popularity of items, with a lower variance than
    IPSDCG. The denominator has no discounts, so that the value falls with the number of relevant
    items even for a perfect list; compare models on the same users only. Use `IPS(metric=nDCG,
    self_normalized=True)` if a perfect list should have about 1.

    Related: IPSDCG, SNIPSRecall, IPS, nDCG.

    Edge cases: an item without train interactions has the propensity `clip`; undefined if
    propensities are not given and train is empty; users without a relevant item are excluded.

    Example: item 1, with a propensity of 1/4, is at position 1, and item 0, with a propensity of 1,
    is at position 3: (4 / 1 + 1 / 2) / (4 + 1).

    >>> import torch, weft
    >>> metric = weft.metrics.SNIPSDCG(k=3, propensities=[1.0, 0.25, 0.5])
    >>> metric.update(torch.tensor([[0.1, 0.9, 0.5]]), torch.tensor([[1, 1, 0]]))
    >>> metric.compute()
    tensor(0.9000, dtype=torch.float64)
    """

    reference = _YANG

    def user_values(self, topk: TopK) -> Tensor:
        return self.weighted_hits(topk, topk.discounts) / self.total_weight(topk)

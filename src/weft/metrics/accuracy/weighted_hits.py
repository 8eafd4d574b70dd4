"""Inverse propensity scores for every metric that is a sum over the hits."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

import torch
from torch import Tensor

from weft.batch.topk import TopK
from weft.errors import SettingError, check_bool
from weft.metrics.accuracy.base import AccuracyMetric
from weft.metrics.accuracy.propensity import SAITO, PropensityMetric
from weft.metrics.base.composites import ComponentMetric
from weft.metrics.base.metric import BaseMetric, Bounds
from weft.metrics.names import MetricSpec, parse_name
from weft.metrics.registry import all_metrics, find_metric, register


@register
class IPS(PropensityMetric):
    r"""A metric with inverse propensity scores: the contribution of each hit to the metric is
    divided by the propensity π_i of the item.

    Formula: \mathrm{IPS}_u = \sum_{i \in L_u \cap R_u} \frac{m_u(i)}{\pi_i}, \qquad \text{where }
    \; \sum_{i \in L_u \cap R_u} m_u(i) \; \text{ is the metric without propensities}

    The metric must be a sum over the hits, in which the summand m_u(i) of a hit depends on its
    position and rating alone. Its normalizer, such as the best possible list of nDCG, is not
    weighted. The propensities π_i are those of IPSRecall. IPSRecall, SNIPSRecall, IPSDCG and
    SNIPSDCG are the cases of Recall and of DCG with binary gain.

    Parameters:
        metric: Metric by its name, without a cut-off and with parameters if needed
            (`"nDCG(gain=linear)"`): Precision, Recall, DCG, nDCG, nDCGRendle2020, NCRR or RBP.
        self_normalized: True divides the weights 1 / π_i of each user by their mean over the
            relevant items, so that the scale of the propensities cancels. DCG, which has no
            normalizer, is divided by the sum of the weights instead.
        power, clip: As in IPSRecall.

    Use: it corrects any of these metrics for popular items being observed more often. The
    propensities are an assumption about how data was collected; report the metric without them,
    too, and use propensities that were measured if there are any. Without `self_normalized=True`
    values may exceed 1 and have a high variance if some propensities are small.

    Related: IPSRecall, SNIPSRecall, IPSDCG, SNIPSDCG, nDCG.

    Edge cases: those of the metric; an item without train interactions has the propensity `clip`;
    undefined if propensities are not given and train is empty.

    Example: item 1, with a propensity of 1/4, is at position 1, and item 0, with a propensity of 1,
    is at position 3: (4 / 1 + 1 / 2) / (1 / 1 + 1 / log2(3)).

    >>> import torch, weft
    >>> metric = weft.metrics.IPS(k=3, metric="nDCG", propensities=[1.0, 0.25, 0.5])
    >>> metric.update(torch.tensor([[0.1, 0.9, 0.5]]), torch.tensor([[1, 1, 0]]))
    >>> metric.compute()
    tensor(2.7592, dtype=torch.float64)
    """

    example = "IPS(metric=nDCG)"
    bounds: Bounds = (0.0, None)
    reference = SAITO

    def __init__(
        self, k: int, *, metric: str | MetricSpec, self_normalized: bool = False, **settings: Any
    ) -> None:
        super().__init__(k, **settings)
        self.self_normalized = check_bool("self_normalized", self_normalized)
        spec = parse_name(metric) if isinstance(metric, str) else metric
        if isinstance(spec, MetricSpec):  # others are refused with the component
            _check_hit_sum(find_metric(spec.name))
        self._component = ComponentMetric(spec, self, k=k, inputs=None, needs_user_values=True)
        self.metric = self._component.name
        own: AccuracyMetric = self._component.metric
        if own.own_threshold is not None:
            raise SettingError(
                f"IPS got metric={spec}; set the threshold of IPS instead, for example "
                f"'IPS(metric={spec.name}, relevance_threshold={own.own_threshold:g})'."
            )
        self._is_plain = own.hit_sum == "plain"
        self.has_expected_tie_form = own.has_expected_tie_form
        self.sampling_behaviour = own.sampling_behaviour

    def used_gains(self) -> Set[str]:
        used: Set[str] = self._component.metric.used_gains()
        return used

    def user_values(self, topk: TopK) -> Tensor:
        if not self.has_propensities:
            return torch.full_like(topk.list_length, torch.nan)
        weights = self._relevant_weights(topk.batch)[:, 0]
        values: Tensor = self._component.metric.user_values(topk.weigh_hits(weights))
        if not self.self_normalized:
            return values
        return values * (1 if self._is_plain else topk.num_relevant) / self.total_weight(topk)


def _check_hit_sum(metric: type[BaseMetric]) -> None:
    """Raise `SettingError` unless the metric is declared to be a sum over the hits by the class
    that has its formula.
    """
    if _is_hit_sum(metric):
        return
    known = ", ".join(one.__name__ for one in all_metrics() if _is_hit_sum(one))
    raise SettingError(
        f"IPS got metric={metric.__name__}, which is not a sum of independent contributions of "
        f"hits; expected one of {known}."
    )


def _is_hit_sum(metric: type[BaseMetric]) -> bool:
    owner = next((base for base in metric.__mro__ if "user_values" in vars(base)), metric)
    return bool(vars(owner).get("hit_sum", ""))

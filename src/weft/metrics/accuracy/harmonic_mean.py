"""The harmonic mean of two metrics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from weft.batch.topk import TopK
from weft.errors import SettingError, check_float
from weft.metrics.accuracy.base import resolve_alias
from weft.metrics.base.composites import CompositeMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.names import MetricSpec
from weft.metrics.registry import register


@register
class F1(CompositeMetric):
    r"""The harmonic mean of two metrics, by default Precision and Recall: (1 + β²) a b / (β² a +
    b).

    Formula: \mathrm{F1}_u = \frac{(1 + \beta^2) \, a_u \, b_u}{\beta^2 a_u + b_u}, \qquad a_u =
    \mathrm{Precision}_u, \quad b_u = \mathrm{Recall}_u, \quad \beta = 1

    a and b are the values of the two metrics for a user.

    Parameters:
        metric_name_1: First metric, a, by its name: any metric with a value per user, with
            parameters if needed (`"nDCG(gain=linear)"`) and without a cut-off, since the cut-off of
            F1 applies. `metric_1` is an alias.
        metric_name_2: Second metric, b, like the first. `metric_2` is an alias.
        beta: Weight β of the second metric, a number above 0: above 1, the second metric counts
            more than the first, and below 1 less.

    Use: it gives one number for two metrics that are in conflict, and is low if one of them is low.
    It is computed per user and then averaged, which differs from the harmonic mean of the averaged
    precision and recall that some tools report. Precision at k depends on the number of relevant
    items per user, and so does F1; use nDCG or MAP as the main metric of a ranking.

    Related: Precision, Recall, RPrecision, EucDistance.

    Edge cases: 0 for a user with a denominator of 0; users for whom a component is undefined are
    excluded.

    Example: a precision of 1/2 and a recall of 1 give 2 · 0.5 / 1.5.

    >>> import torch, weft
    >>> metric = weft.metrics.F1(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(0.6667, dtype=torch.float64)
    """

    family = "accuracy"
    higher_is_better = True
    bounds: Bounds = (0.0, 1.0)
    undefined = "no user with a relevant item has values of both components"
    reference = (
        "van Rijsbergen (1979), Information Retrieval; Chinchor (1992), MUC-4 evaluation metrics, "
        "doi 10.3115/1072064.1072067"
    )
    parameter_aliases = {"metric_1": "metric_name_1", "metric_2": "metric_name_2"}

    def __init__(
        self,
        k: int,
        *,
        metric_name_1: str | MetricSpec = "Precision",
        metric_name_2: str | MetricSpec = "Recall",
        beta: float = 1.0,
        inputs: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        names = [
            resolve_alias(
                "F1",
                (f"metric_name_{number}", f"metric_{number}"),
                value=value,
                default=default,
                settings=settings,
            )
            for number, value, default in (
                (1, metric_name_1, "Precision"),
                (2, metric_name_2, "Recall"),
            )
        ]
        super().__init__(k, **settings)
        if check_float("F1 got beta", beta, more=" above 0") <= 0:
            raise SettingError(f"F1 got beta={beta!r}; it must be a number above 0.")
        self.beta = float(beta)
        self._set_components(names, k=k, inputs=inputs, needs_user_values=True)
        self.metric_name_1, self.metric_name_2 = (one.name for one in self._components)
        highest = [high for one in self._components if (high := one.metric.bounds[1]) is not None]
        self.bounds = (0.0, max(highest) if len(highest) == 2 else None)

    def user_values(self, topk: TopK) -> Tensor:
        a, b = (component.user_values(topk) for component in self._components)
        denominator = self.beta**2 * a + b
        return torch.where(denominator == 0, 0, (1 + self.beta**2) * a * b / denominator)

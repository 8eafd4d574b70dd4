"""Notes on metrics that weigh relevant items by propensities."""

from __future__ import annotations

from collections.abc import Iterator

from weft.evaluation.metric_set import MetricSet
from weft.evaluation.state import EvaluationState
from weft.metrics.accumulators import UserSums
from weft.metrics.accuracy.propensity import PropensityMetric


def propensity_notes(metric_set: MetricSet, state: EvaluationState) -> Iterator[str]:
    """Yield how many equal weights those of the relevant items are worth, and how many are clipped,
    for each way of weighing.
    """
    metrics: dict[UserSums, tuple[PropensityMetric, dict[str, None]]] = {}
    for spec, metric in metric_set.formulas.items():
        if isinstance(metric, PropensityMetric) and metric.has_propensities:
            _, names = metrics.setdefault(metric.weight_sums, (metric, {}))
            names[metric_set.names[spec]] = None
    for sums, (metric, names) in metrics.items():
        view = metric_set.layout.view(state.sums)(None)
        number, total, squares, clipped = view[sums].tolist()
        if number:
            yield (
                f"{', '.join(names)} {'weighs' if len(names) == 1 else 'weigh'} {int(number):,} "
                f"relevant interactions by 1 / propensity: their effective sample size is "
                f"{total**2 / squares:,.2f}, and {clipped / total:.1%} of the weight is on items "
                f"with a propensity below {metric.clip:g}, which are clipped"
            )

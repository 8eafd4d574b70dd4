"""Notes on metrics that weigh relevant items by propensities."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.evaluation.metric_set import MetricSet
from weft.evaluation.metric_value import MetricValue
from weft.evaluation.state import EvaluationState
from weft.metrics.accumulators import UserSums
from weft.metrics.accuracy.propensity import PropensityMetric

_SHOWN_VALUES = 4


def propensity_notes(
    metric_set: MetricSet, state: EvaluationState, values: Sequence[MetricValue]
) -> Iterator[str]:
    """Yield how many equal weights those of the relevant items are worth, and how many are clipped,
    for each way of weighing; and the values with other powers.
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
                f"{', '.join(names)} {'weights' if len(names) == 1 else 'weight'} {int(number):,} "
                f"relevant interactions by 1 / propensity: the effective sample size is "
                f"{total**2 / squares:,.2f}, and {clipped / total:.1%} of the weight is on items "
                f"with a propensity below {metric.clip:g}, which is clipped"
            )
            own = [one for one in values if one.metric in names and one.by_power]
            yield from _power_notes(own, metric.power)


def _power_notes(values: Sequence[MetricValue], power: float) -> Iterator[str]:
    """Yield the values of metrics of one power with other powers."""
    if not values:
        return
    others = ", ".join(f"{other:g}" for other, _ in values[0].by_power)
    shown = "; ".join(
        f"{one.name} {one.value:.4f} would be {', '.join(f'{x:.4f}' for _, x in one.by_power)}"
        for one in values[:_SHOWN_VALUES]
    )
    more = len(values) - _SHOWN_VALUES
    yield (
        f"power={power:g} is an assumption; with the powers {others}, {shown}"
        + (f"; for {more} more values see by_power of their entries" if more > 0 else "")
    )

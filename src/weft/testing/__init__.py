"""Conformance checks for authors of metrics. Weft's own metrics pass them in its tests.

    import weft

    def test_my_metric():
        weft.testing.check_metric("MyMetric(alpha=0.5)")

Each check compares a metric with itself: on reordered users, other batches, relabelled items,
merged shards and so on. The expected values are a matter of the metric's own tests.
"""

from __future__ import annotations

from weft.errors import SettingError, check_bool, check_choice, check_float, check_type
from weft.metrics.names import MetricSpec, parse_name
from weft.metrics.registry import needs_cutoff
from weft.testing.checks import CHECKS
from weft.testing.subject import Subject

__all__ = ["CHECKS", "TOLERANCE", "check_metric", "run_check"]

TOLERANCE = 1e-9
_K = 5


def check_metric(
    metric: str | MetricSpec, *, order_only: bool | None = None, tolerance: float = TOLERANCE
) -> dict[str, str]:
    """Run every check on a registered metric.

    Parameters
    ----------
    metric
        Name of the metric, with parameters and a cut-off if needed, such as
        `"MyMetric(alpha=0.5)"`.
    order_only
        Whether the metric depends only on the order of the scores. Default: True unless the class
        has `reads_scores`.
    tolerance
        Largest difference of two computations of the same value. A metric that computes in float32
        needs about 1e-6.

    Returns
    -------
    dict
        Outcome by the name of the check: `"passed"`, or the reason why it does not apply.

    Raises
    ------
    AssertionError
        If a check fails. The message names the check.
    UnknownMetric
        If no metric of this name is registered.

    Examples
    --------
    >>> import weft
    >>> weft.testing.check_metric("Gini@5")["prefers_the_perfect_ranking"]
    'not applicable: more hits are not better in the family diversity'
    """
    if not isinstance(metric, str):
        check_type("metric", metric, MetricSpec, "the name of a metric, such as 'nDCG@10'")
    if check_float("tolerance", tolerance, more=" of at least 0") < 0:
        raise SettingError(f"tolerance={tolerance}; it must be a number of at least 0.")
    if order_only is not None:
        check_bool("order_only", order_only)
    return {
        name: run_check(name, metric, order_only=order_only, tolerance=tolerance) for name in CHECKS
    }


def run_check(
    name: str,
    metric: str | MetricSpec,
    *,
    order_only: bool | None = None,
    tolerance: float = TOLERANCE,
) -> str:
    """Run one check on a registered metric.

    Parameters
    ----------
    name
        Name of the check, a key of `CHECKS`.
    metric, order_only, tolerance
        As in `check_metric`.

    Returns
    -------
    str
        `"passed"`, or the reason why the check does not apply.

    Raises
    ------
    AssertionError
        If the check fails.
    SettingError
        If there is no check of this name.
    UnknownMetric
        If no metric of this name is registered.

    Examples
    --------
    >>> import weft
    >>> weft.testing.run_check("stays_in_bounds", "Recall@5")
    'passed'
    """
    name = check_choice("name", name, tuple(CHECKS))
    spec = parse_name(metric) if isinstance(metric, str) else metric
    if spec.k is None and needs_cutoff(spec.name):
        spec = spec.with_cutoff(_K)
    subject = Subject(spec, tolerance)
    subject.order_only = not subject.build().reads_scores if order_only is None else order_only
    try:
        reason = CHECKS[name](subject)
    except AssertionError as error:
        raise AssertionError(f"{error} (check {name})") from error
    return "passed" if reason is None else f"not applicable: {reason}"

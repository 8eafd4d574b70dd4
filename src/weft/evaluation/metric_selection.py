"""`build_metric_set`: builds the metrics of an evaluator, which must fit the run."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from weft.errors import MissingInput, SettingError, setting_ref
from weft.evaluation.metric_set import MetricClasses, MetricSet
from weft.metrics.base.identity import own_threshold_hint
from weft.metrics.base.metric import BaseMetric
from weft.metrics.declarations import METRIC_SETTINGS

if TYPE_CHECKING:
    from weft.evaluation.evaluator import Evaluator


def build_metric_set(
    evaluator: Evaluator, classes: MetricClasses, known: MetricSet | None
) -> MetricSet:
    """Return `known`, or else the metrics of these classes.

    Raises an error for metric objects or `exposure` that do not fit the run."""
    settings, inputs = evaluator.settings, evaluator.inputs
    counting = {name: getattr(settings, name) for name in METRIC_SETTINGS}
    _check_metric_objects(settings.metrics, counting, inputs)
    if settings.keep_lists and not any(spec.k for spec in classes):
        raise SettingError(
            f"{setting_ref('keep_lists', True)} keeps lists up to the largest cut-off, but no "
            f"metric has one; add a metric such as nDCG@10."
        )
    if settings.exposure and evaluator.num_items is None:
        raise MissingInput(
            f"{setting_ref('exposure', True)} counts the recommendations of each item and "
            f"needs {setting_ref('num_items')}, or {setting_ref('train')}."
        )
    return known or MetricSet(
        classes,
        inputs=inputs,
        counting=counting,
        slices=evaluator.slices,
        item_slices=evaluator.item_slices,
        exposure=evaluator.num_items if settings.exposure else None,
        skill=settings.skill,
    )


def _check_metric_objects(
    metrics: Sequence[Any], counting: Mapping[str, Any], inputs: Mapping[str, Any]
) -> None:
    """Raise `SettingError` for a metric object with other settings or inputs than the run."""
    for metric in metrics:
        if isinstance(metric, BaseMetric):
            _check_metric_object(metric, counting, inputs)


def _check_metric_object(
    metric: BaseMetric, counting: Mapping[str, Any], inputs: Mapping[str, Any]
) -> None:
    defaults = inspect.signature(BaseMetric.__init__).parameters
    for name, value in metric.settings().items():
        if value not in (defaults[name].default, counting[name]):
            raise SettingError(
                f"{metric.spec} was made with {name}={value!r}, but all metrics of a run use the "
                f"same setting, here {setting_ref(name, counting[name])}; give "
                f"{setting_ref(name, value)} to the evaluation "
                f"instead{own_threshold_hint(metric, name)}."
            )
    size, num_items = getattr(metric, "num_items", None), inputs.get("num_items")
    if isinstance(size, int) and num_items not in (None, size):
        raise SettingError(
            f"{metric.spec} was made with num_items={size}, but the run has {num_items} items."
        )
    for name, own in metric.own_inputs().items():
        if name in inputs and not own.equals(inputs[name]):
            raise SettingError(
                f"{metric.spec} was made with another {name} than that of the run; give "
                f"metrics by name, or the same {name}."
            )

"""`Composite`: a formula of the caller over the values that other metrics have in a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from weft.errors import SettingError
from weft.metrics.accumulators import Accumulator
from weft.metrics.arithmetic import Arithmetic, CompositeSpec, composite_spec
from weft.metrics.base.composites import (
    CombinedMetric,
    build_component,
    check_component,
    find_class,
    is_combinable,
)
from weft.metrics.base.identity import own_threshold_hint
from weft.metrics.base.metric import BaseMetric
from weft.metrics.base.summed import ComputedValue
from weft.metrics.base.value_labels import read_values
from weft.metrics.names import MetricSpec, parse_name
from weft.metrics.registry import EMPTY_INPUTS, needs_cutoff
from weft.metrics.state_layout import StateView


class Composite(CombinedMetric):
    """A formula over the values of other metrics.

    The composite reads the sums of the run, which it shares with the same metrics of the run. It
    has one value for all users: there are no values per user or per slice. The value is NaN if a
    value of a metric is undefined, or if the result of the formula is not finite, as after a
    division by zero.

    Arithmetic on metrics also makes composites: `nDCG(k=10) * Recall(k=10)`, `1 - a`, `a / 2`. Such
    a composite is named by its operation, as in `nDCG@10 * Recall@10`; `rename` returns one with
    another name.

    Parameters
    ----------
    name
        A word, with a cut-off if the composite has one (`"quality@10"`).
    metrics
        Names with their cut-offs (`"nDCG@10"`), or metric objects, which are not changed.
    formula
        Function of the values of the metrics, scalar tensors in the order of `metrics`.
    higher_is_better
        Direction of the value. Default: None, unknown.
    inputs
        Inputs, such as `train`, of metrics that are given by name. Inside a run, those of the run
        apply.
    settings
        Settings of `BaseMetric`.

    Raises
    ------
    SettingError
        If a metric keeps states of its own or has only values by label, or an argument is invalid.

    Examples
    --------
    >>> import torch, weft
    >>> parts = [weft.metrics.Precision(k=2), weft.metrics.Recall(k=2)]
    >>> metric = weft.Composite("better", parts, lambda precision, recall: precision.max(recall))
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)
    """

    undefined = "a combined value is undefined, or the formula has no finite value"

    def __init__(
        self,
        name: str,
        metrics: Sequence[str | MetricSpec | BaseMetric],
        formula: Callable[..., Any],
        *,
        higher_is_better: bool | None = None,
        inputs: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        if isinstance(metrics, (str, MetricSpec, BaseMetric)) or not metrics:
            raise SettingError(
                f"Composite got metrics={metrics!r}; give a list of metrics, such as ['nDCG@10', "
                "'Recall@10']."
            )
        if not callable(formula):
            raise SettingError(
                f"Composite got formula={formula!r}; give a function of the values of its metrics."
            )
        objects = [metric for metric in metrics if isinstance(metric, BaseMetric)]
        super().__init__(**_join_settings(objects, settings))
        given = _join_inputs(objects, inputs)
        own = {**self.settings(), "inputs": given}
        self._metrics = [_build_own(metric, own) for metric in metrics]
        self.metrics = tuple(metric.spec for metric in self._metrics)
        self.formula, self._direction = formula, higher_is_better
        self.name = self._check_name(name)
        self._adopt_properties()

    def _check_name(self, name: Any) -> str:
        """Return the name. Raises `SettingError` unless it is one that no metric has."""
        spec = parse_name(name) if isinstance(name, str) else None
        if isinstance(spec, CompositeSpec) and isinstance(self.formula, Arithmetic):
            return self.formula.title(self.metrics)  # as the metrics are spelt
        if spec is None or isinstance(spec, CompositeSpec) or spec.params:
            raise SettingError(f"Composite got name={name!r}; give a word, such as 'quality'.")
        if find_class(spec.name) is not None:
            raise SettingError(
                f"Composite got name={name!r}, which is the name of a metric; choose another name."
            )
        return str(spec)

    def rename(self, name: str, *, higher_is_better: bool | None = None) -> Composite:
        """Return a new composite of the same metrics and formula under another name.

        `higher_is_better` is kept unless it is given.
        """
        if higher_is_better is None:
            higher_is_better = self.higher_is_better
        return Composite(
            name,
            self._metrics,
            self.formula,
            higher_is_better=higher_is_better,
            nan_scores=self.nan_scores,
        )

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override]
        """The direction, None if it was not given."""
        return self._direction

    @property
    def spec(self) -> MetricSpec:
        return composite_spec(
            self.name, self.metrics, self.formula, higher_is_better=self.higher_is_better
        )

    @property
    def components(self) -> list[Any]:
        return self._metrics

    @property
    def cutoffs(self) -> frozenset[int]:
        return frozenset[int]().union(*(metric.cutoffs for metric in self._metrics))

    def accumulators(self) -> tuple[Accumulator, ...]:
        return tuple(self.accumulator_cutoffs(()))

    def accumulator_cutoffs(self, cutoffs: Iterable[int]) -> dict[Accumulator, set[int]]:
        joined: dict[Accumulator, set[int]] = {}
        for metric in self._metrics:
            own = metric.accumulator_cutoffs(() if metric.k is None else (metric.k,))
            for accumulator, columns in own.items():
                joined.setdefault(accumulator, set()).update(columns)
        return joined

    def _combine(self, values: list[Tensor]) -> Tensor:
        value = torch.as_tensor(self.formula(*values), dtype=values[0].dtype)
        if value.numel() != 1:
            raise SettingError(
                f"the formula of {self.name} returned a value of shape {list(value.shape)}; "
                "expected one number."
            )
        return torch.where(value.isinf(), torch.nan, value).reshape(())

    def _values(self, state: StateView) -> list[Tensor]:
        values = []
        for metric in self._metrics:
            value = metric.compute_value(state.at_cutoff(metric.k))
            labelled = read_values(metric, value, "compute_value")
            if () not in labelled:
                raise SettingError(
                    f"{self.name} needs a single value of {metric.spec}, which has only values by "
                    "label; combine another metric."
                )
            values.append(labelled[()])
        return values

    def compute_value(self, state: StateView) -> Tensor:
        return self._combine(self._values(state))

    def summarize(self, state: StateView) -> ComputedValue:
        values = self._values(state)
        return ComputedValue(self._combine(values), parts=tuple(map(float, values)))


def _build_own(metric: str | MetricSpec | BaseMetric, own: dict[str, Any]) -> Any:
    """Return a component of a composite, built with the settings and inputs of the composite."""
    spec = metric.spec if isinstance(metric, BaseMetric) else metric
    spec = parse_name(spec) if isinstance(spec, str) else spec
    if not isinstance(spec, MetricSpec):
        raise SettingError(
            f"Composite got the component {metric!r}; expected the name of a metric or a metric "
            "object."
        )
    if isinstance(metric, BaseMetric):
        check_component(metric, owner="Composite")
        if not is_combinable(metric):
            raise SettingError(
                f"Composite builds its metrics by name, but {type(metric).__name__} is not "
                "registered; decorate the class with @weft.register."
            )
    if spec.k is None and needs_cutoff(spec.name):
        raise SettingError(f"Composite needs the cut-off of {spec}: write '{spec}@10'.")
    built = build_component(spec, owner="Composite", **own)
    check_component(built, owner="Composite")
    return built


def _join_settings(metrics: Sequence[BaseMetric], given: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a composite: those given, and those of its metric objects.

    Raises `SettingError` if they differ."""
    joined = dict(given)
    for metric in metrics:
        for name, value in {**metric.settings(), "nan_scores": metric.nan_scores}.items():
            if joined.setdefault(name, value) != value:
                raise SettingError(
                    f"the metrics of a Composite must have the same settings, but {metric.spec} "
                    f"has {name}={value!r} and another metric {name}={joined[name]!r}; use the "
                    f"same {name} for all{own_threshold_hint(metric, name)}."
                )
    return joined


def _own_inputs(metric: BaseMetric) -> dict[str, Any]:
    """Return the inputs of a metric object, and the numbers of users and items that it has."""
    sizes = {name: getattr(metric, name, None) for name in ("num_users", "num_items")}
    known = {name: size for name, size in sizes.items() if isinstance(size, int)}
    return {**metric.own_inputs(), **known}


def _join_inputs(
    metrics: Sequence[BaseMetric], given: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    """Return the inputs of a composite: those given, and those of its metric objects.

    Raises `SettingError` if metric objects have different ones."""
    if given is EMPTY_INPUTS:
        return given
    joined: dict[str, Any] = {}
    for metric in metrics:
        for name, value in _own_inputs(metric).items():
            known = joined.setdefault(name, value)
            if known is not value and not (
                known == value if isinstance(value, int) else known.equals(value)
            ):
                raise SettingError(
                    f"the metrics of a Composite must have the same inputs, but {metric.spec} was "
                    f"made with a different {name}; use the same {name} for all."
                )
    return {**joined, **given} if given is not None else joined or None

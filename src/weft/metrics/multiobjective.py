"""Multi-objective: several metrics of a model as one point, rated by its distance or volume."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from weft._choices import choices
from weft.batch.topk import TopK
from weft.data.devices import read_array
from weft.errors import SettingError, check_choice, check_float
from weft.metrics.accumulators import Accumulator
from weft.metrics.base.composites import CompositeMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.base.summed import ComputedValue
from weft.metrics.names import MetricSpec
from weft.metrics.parameter_types import ObjectiveScope
from weft.metrics.registry import register
from weft.metrics.state_layout import StateView


class _ObjectivePoint(CompositeMetric):
    """A function of the values of several metrics: those of the model (`scope="system"`), or of
    each user, then averaged.
    """

    family = "multi-objective"
    bounds: Bounds = (0.0, None)
    undefined = "one of the combined values is undefined"

    def __init__(
        self,
        k: int,
        *,
        metric_names: Sequence[str | MetricSpec],
        scope: ObjectiveScope = "system",
        inputs: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(k, **settings)
        if not _is_list(metric_names) or not metric_names:
            raise SettingError(
                f"{type(self).__name__} got metric_names={metric_names!r}; give a list of names, "
                "such as ['nDCG', 'EPC']."
            )
        self.scope = check_choice("scope", scope, choices(ObjectiveScope))
        if self.scope == "system" and self.own_threshold is not None:
            raise SettingError(
                f"{type(self).__name__} got relevance_threshold={self.own_threshold:g}, which is "
                "supported only with scope='users'; set it in the combined metrics instead, such "
                f"as metric_names=['nDCG(relevance_threshold={self.own_threshold:g})', ...]."
            )
        self._set_components(
            metric_names, k=k, inputs=inputs, needs_user_values=self.scope == "users"
        )
        self.metric_names = tuple(component.name for component in self._components)
        self.supports_all_cutoffs = all(one.metric.supports_all_cutoffs for one in self._components)

    def _read_points(self, parameter: str, values: Sequence[float]) -> tuple[float, ...]:
        name, number = type(self).__name__, len(self._components)
        values = _to_list(values, parameter)
        if not _is_list(values) or len(values) != number:
            raise SettingError(
                f"{name} got {parameter}={values!r}; give one number for each of its {number} "
                "metrics."
            )
        try:
            return tuple(check_float(parameter, value) for value in values)
        except SettingError:
            raise SettingError(
                f"{name} got {parameter}={list(values)!r}; expected numbers, one for each metric."
            ) from None

    @property
    def has_user_values(self) -> bool:
        return self.scope == "users"

    def combine(self, values: list[Tensor]) -> Tensor:
        """Return the metric for the values of its components."""
        raise NotImplementedError

    def user_values(self, topk: TopK) -> Tensor:
        return self.combine([component.user_values(topk) for component in self._components])

    def accumulators(self) -> tuple[Accumulator, ...]:
        if self.scope == "users":
            return super().accumulators()
        accumulators = (one for part in self._components for one in part.accumulators(self.k))
        return tuple(dict.fromkeys(accumulators))

    def compute_value(self, state: StateView) -> Tensor:
        if self.scope == "users":
            return super().compute_value(state)
        return self.combine([component.value(state) for component in self._components])

    def summarize(self, state: StateView) -> ComputedValue:
        if self.scope == "users":
            return super().summarize(state)
        values = [component.value(state) for component in self._components]
        return ComputedValue(self.combine(values), parts=tuple(map(float, values)))


def _to_list(values: Any, parameter: str) -> Any:
    """Return the elements of a tensor or an array; other values as they are."""
    return read_array(values, parameter).tolist() if hasattr(values, "tolist") else values


def _is_list(values: Any) -> bool:
    return isinstance(values, Sequence) and not isinstance(values, (str, MetricSpec))


@register
class EucDistance(_ObjectivePoint):
    r"""The Euclidean distance between the values of several metrics and their ideal values. Lower
    is better.

    Formula: \mathrm{EucDistance} = \sqrt{\sum_{j} (x_j - z_j)^2}

    Symbols: $x$ are the values of the metrics, and $z$ their ideal values.

    Parameters:
        metric_names: Metrics by their names, without cut-offs, since the cut-off of this metric
            applies. Their parameters nest: `[nDCG(gain=linear), EPC]`. A run needs the inputs of
            all of them.
        utopia_points: Ideal values of the metrics: a number for each.
        scope: Values that enter the formula: `"system"` means those of the model, and `"users"`
            those of each user, of which the results are averaged over users with a relevant item.
            The latter requires metrics with a value per user.

    Use: EucDistance answers which model is the best compromise between several goals, if an ideal
    value is known for each. Use it to select one of several Pareto-optimal models. The metric with
    the widest range of values dominates the distance, so combine metrics on similar scales, and do
    not set ideal values that no model can reach. To see the trade-off itself, report the metrics
    separately; Hypervolume measures from the worst acceptable values instead.

    Related: Hypervolume, F1.

    Edge cases: undefined if one of the values is undefined; with `scope="users"`, users with an
    undefined value are left out.

    Example: a precision of 1/2 and a recall of 1 are half a unit from (1, 1).

    >>> import torch, weft
    >>> names = ["Precision", "Recall"]
    >>> metric = weft.metrics.EucDistance(k=2, metric_names=names, utopia_points=[1, 1])
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    higher_is_better = False
    example = "EucDistance(metric_names=[nDCG, EPC], utopia_points=[1, 1])"
    reference = (
        "Paparella et al. (2023), Post-hoc selection of Pareto-optimal solutions in search and "
        "recommendation, doi 10.1145/3583780.3615010"
    )

    def __init__(
        self,
        k: int,
        *,
        metric_names: Sequence[str | MetricSpec],
        utopia_points: Sequence[float],
        **settings: Any,
    ) -> None:
        super().__init__(k, metric_names=metric_names, **settings)
        self.utopia_points = self._read_points("utopia_points", utopia_points)

    def combine(self, values: list[Tensor]) -> Tensor:
        squares = [(value - utopia) ** 2 for value, utopia in zip(values, self.utopia_points)]
        return torch.stack(squares).sum(0).sqrt()


@register
class Hypervolume(_ObjectivePoint):
    r"""The volume between the values of several metrics and their worst acceptable values: the
    product of the gaps. Higher is better.

    Each gap is taken in the direction in which the metric is better. A gap on the wrong side counts
    0.

    Formula: \mathrm{Hypervolume} = \prod_{j} \max\left( 0, \; \sigma_j (x_j - z_j) \right)

    Symbols: $x$ are the values of the metrics, $z$ their worst acceptable values, and $\sigma$ is 1
    for metrics of which higher values are better and -1 for others.

    Parameters:
        metric_names: As in EucDistance.
        nadir_points: Worst acceptable values of the metrics: a number for each.
        higher_is_better: True or False for each metric: whether a higher value is better. None
            takes the direction of each metric; it is an error if one has none.
        scope: As in EucDistance.

    Use: Hypervolume answers how much a model gains in several goals at once over minimal
    requirements. Use it to compare models that must not fail in any goal, since one failed goal
    makes it 0. The product favours balanced models and depends on `nadir_points`, so choose these
    before looking at the results. If ideal values are known rather than minimal ones, use
    EucDistance.

    Related: EucDistance, F1.

    Edge cases: undefined if one of the values is undefined; with `scope="users"`, users with an
    undefined value are left out. A metric without a direction is refused, unless `higher_is_better`
    gives one.

    Example: a precision of 1/2 and a recall of 1 span a rectangle with (0, 0).

    >>> import torch, weft
    >>> names = ["Precision", "Recall"]
    >>> metric = weft.metrics.Hypervolume(k=2, metric_names=names, nadir_points=[0, 0])
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    higher_is_better = True
    example = "Hypervolume(metric_names=[nDCG, EPC], nadir_points=[0, 0])"
    reference = (
        "Zitzler and Thiele (1999), Multiobjective evolutionary algorithms: a comparative case "
        "study, doi 10.1109/4235.797969"
    )

    def __init__(
        self,
        k: int,
        *,
        metric_names: Sequence[str | MetricSpec],
        nadir_points: Sequence[float],
        higher_is_better: Sequence[bool] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(k, metric_names=metric_names, **settings)
        self.nadir_points = self._read_points("nadir_points", nadir_points)
        self._override = self._read_directions(higher_is_better)
        self._directions = self._override or tuple(
            component.metric.higher_is_better for component in self._components
        )
        for component, direction in zip(self._components, self._directions):
            if direction is None:
                raise SettingError(
                    f"Hypervolume needs the direction of {component.name}, which is unknown; give "
                    "higher_is_better=[True, ...] with True or False for each metric."
                )

    def _read_directions(self, directions: Any) -> tuple[bool, ...] | None:
        if directions is None:
            return None
        values = _to_list(directions, "higher_is_better")
        number = len(self._components)
        if isinstance(values, Sequence) and len(values) == number:
            plain = tuple(one.item() if hasattr(one, "item") else one for one in values)
            if all(isinstance(one, bool) for one in plain):
                return plain
        raise SettingError(
            f"Hypervolume got higher_is_better={directions!r}; give True or False for each of its "
            f"{number} metrics."
        )

    def parameter(self, name: str) -> Any:
        return self._override if name == "higher_is_better" else super().parameter(name)

    def gaps(self, values: Sequence[Any]) -> list[Any]:
        """Return the distance of each value from its nadir point, negative on the wrong side."""
        return [
            value - nadir if higher else nadir - value
            for value, nadir, higher in zip(values, self.nadir_points, self._directions)
        ]

    def combine(self, values: list[Tensor]) -> Tensor:
        # Not clamp, which would make an undefined gap 0.
        return torch.stack([torch.where(gap < 0, 0, gap) for gap in self.gaps(values)]).prod(0)

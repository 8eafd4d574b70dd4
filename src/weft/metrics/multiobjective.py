"""Multi-objective: several metrics as one point, and how good that point is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from weft.batch.topk import TopK
from weft.errors import SettingError, check_choice, check_float
from weft.metrics.accumulators import Accumulator, StateView
from weft.metrics.base.composites import ComponentMetric, combined_sampling_behaviour
from weft.metrics.base.formulas import ComputedValue, UserAverageTopKMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.names import MetricSpec
from weft.metrics.registry import register


class _Point(UserAverageTopKMetric):
    """The values of several metrics, combined: those of the model (`scope="system"`), or of each
    user, then averaged.
    """

    family = "multi-objective"
    bounds: Bounds = (0.0, None)
    undefined = "one of the combined values is undefined"

    def __init__(
        self,
        k: int,
        *,
        metric_names: Sequence[str | MetricSpec],
        points: tuple[str, Sequence[float]],
        scope: str,
        inputs: Mapping[str, Any] | None,
        **settings: Any,
    ) -> None:
        super().__init__(k, **settings)
        who, (what, given) = type(self).__name__, points
        given = given.tolist() if hasattr(given, "tolist") else given
        if (
            isinstance(metric_names, (str, MetricSpec))
            or not isinstance(metric_names, Sequence)
            or not metric_names
        ):
            raise SettingError(
                f"{who} got metric_names={metric_names!r}; give a list of names, like [nDCG, EPC]."
            )
        if (
            isinstance(given, (str, MetricSpec))
            or not isinstance(given, Sequence)
            or len(given) != len(metric_names)
        ):
            raise SettingError(
                f"{who} got {what}={given!r}; give one number for each of its {len(metric_names)} "
                "metrics."
            )
        self.scope = check_choice("scope", scope, ("system", "users"))
        try:
            self._points = tuple(check_float(what, point) for point in given)
        except SettingError:
            raise SettingError(f"{who} got {what}={list(given)!r}; they must be numbers.") from None
        self._parts = [
            ComponentMetric(name, self, k, inputs=inputs, per_user=self.scope == "users")
            for name in metric_names
        ]
        self.metric_names = tuple(part.name for part in self._parts)
        self.supports_all_cutoffs = all(part.metric.supports_all_cutoffs for part in self._parts)
        self.has_expected_tie_form = all(part.metric.has_expected_tie_form for part in self._parts)
        self.sampling_behaviour = combined_sampling_behaviour(self._parts)
        self.reads_scores = any(part.metric.reads_scores for part in self._parts)
        self.needs_all_scores = any(part.metric.needs_all_scores for part in self._parts)
        self.is_exposure_metric = any(part.metric.is_exposure_metric for part in self._parts)

    def needed_inputs(self) -> set[str]:
        return set[str]().union(*(part.metric.needed_inputs() for part in self._parts))

    def own_inputs(self) -> dict[str, Any]:
        return {
            name: given for part in self._parts for name, given in part.metric.own_inputs().items()
        }

    @property
    def has_user_values(self) -> bool:
        return self.scope == "users"

    def combine(self, values: list[Tensor]) -> Tensor:
        """The number that the point is worth."""
        raise NotImplementedError

    def user_values(self, topk: TopK) -> Tensor:
        return self.combine([part.user_values(topk) for part in self._parts])

    def accumulators(self) -> tuple[Accumulator, ...]:
        if self.scope == "users":
            return super().accumulators()
        return tuple(
            dict.fromkeys(total for part in self._parts for total in part.accumulators(self.k))
        )

    def compute_value(self, sums: StateView) -> Tensor:
        if self.scope == "users":
            return super().compute_value(sums)
        return self.combine([part.value(sums) for part in self._parts])

    def summarize(self, sums: StateView) -> ComputedValue:
        if self.scope == "users":
            return super().summarize(sums)
        values = [part.value(sums) for part in self._parts]
        return ComputedValue(self.combine(values), parts=tuple(map(float, values)))


@register
class EucDistance(_Point):
    """The distance of the model's point from the best thinkable one: √Σ (value - utopia)² over
    `metric_names`.

    `utopia_points` holds the best value of each metric. `scope="users"` is the distance of each
    user's own values, averaged over users with a relevant item. Parameters of the metrics nest:
    `metric_names=[nDCG(gain=linear), EPC]`.

    Edge cases: undefined if one of the values is; with `scope="users"` users with an undefined
    value are left out.

    Example: precision 1/2 and recall 1 are half a unit from (1, 1).

    >>> import torch, weft
    >>> metric = weft.metrics.EucDistance(k=2, metric_names=["Precision", "Recall"], utopia_points=[1, 1])
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
        scope: str = "system",
        inputs: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        points = ("utopia_points", utopia_points)
        super().__init__(
            k, metric_names=metric_names, points=points, scope=scope, inputs=inputs, **settings
        )
        self.utopia_points = self._points

    def combine(self, values: list[Tensor]) -> Tensor:
        squares = [(value - utopia) ** 2 for value, utopia in zip(values, self.utopia_points)]
        return torch.stack(squares).sum(0).sqrt()


@register
class Hypervolume(_Point):
    """The volume between the model's point and the worst acceptable one: Π max(0, gap) over
    `metric_names`.

    `nadir_points` holds the worst acceptable value of each metric; each gap is taken in the
    metric's own direction, unless `higher_is_better` (a list of True and False) says otherwise.
    `scope="users"` is the volume of each user's own values, averaged over users with a relevant
    item.

    Edge cases: undefined if one of the values is; with `scope="users"` users with an undefined
    value are left out. A metric without a direction is refused, unless `higher_is_better` gives
    one.

    Example: precision 1/2 and recall 1 span a rectangle with (0, 0).

    >>> import torch, weft
    >>> metric = weft.metrics.Hypervolume(k=2, metric_names=["Precision", "Recall"], nadir_points=[0, 0])
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    higher_is_better = True
    example = "Hypervolume(metric_names=[nDCG, EPC], nadir_points=[0, 0])"
    reference = "Zitzler and Thiele (1999), Multiobjective evolutionary algorithms: a comparative case study, doi 10.1109/4235.797969"

    def __init__(
        self,
        k: int,
        *,
        metric_names: Sequence[str | MetricSpec],
        nadir_points: Sequence[float],
        higher_is_better: Sequence[bool] | None = None,
        scope: str = "system",
        inputs: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        points = ("nadir_points", nadir_points)
        super().__init__(
            k, metric_names=metric_names, points=points, scope=scope, inputs=inputs, **settings
        )
        self.nadir_points = self._points
        self._override: tuple[bool | None, ...] | None = None
        directions: Any = higher_is_better
        directions = directions.tolist() if hasattr(directions, "tolist") else directions
        if isinstance(directions, Sequence):
            self._override = tuple(
                one.item() if hasattr(one, "item") else one for one in directions
            )
        if higher_is_better is not None and (
            self._override is None
            or len(self._override) != len(self._parts)
            or not all(isinstance(one, bool) for one in self._override)
        ):
            raise SettingError(
                f"Hypervolume got higher_is_better={higher_is_better!r}; give True or False for "
                f"each of its {len(self._parts)} metrics."
            )
        self._directions = self._override or tuple(
            part.metric.higher_is_better for part in self._parts
        )
        for part, direction in zip(self._parts, self._directions):
            if direction is None:
                raise SettingError(
                    f"Hypervolume cannot tell whether more {part.name} is better; give "
                    "higher_is_better=[True, ...] for all metrics."
                )

    def parameter(self, name: str) -> Any:
        return self._override if name == "higher_is_better" else super().parameter(name)

    def gaps(self, values: Sequence[Any]) -> list[Any]:
        """How far each value is on the good side of its nadir."""
        return [
            value - nadir if higher else nadir - value
            for value, nadir, higher in zip(values, self.nadir_points, self._directions)
        ]

    def combine(self, values: list[Tensor]) -> Tensor:
        # Not clamp, which would turn an undefined gap into 0.
        return torch.stack([torch.where(gap < 0, 0, gap) for gap in self.gaps(values)]).prod(0)

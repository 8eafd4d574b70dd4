"""Pareto fronts of models and the hypervolume that they dominate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.errors import SettingError
from weft.evaluation.result import Result
from weft.metrics import Hypervolume
from weft.metrics.names import parse_name
from weft.metrics.registry import prototype


@dataclass(frozen=True)
class ParetoFront:
    """The models on a Pareto front, and the hypervolume between the front and the nadir.

    Attributes
    ----------
    models
        Names of the models on the front.
    hypervolume
        Volume that the front dominates.
    """

    models: tuple[str, ...]
    hypervolume: float


def find_fronts(results: Mapping[str, Result]) -> dict[str, ParetoFront]:
    """Return the Pareto front of each Hypervolume that all results have, by its name.

    Only for Hypervolumes of the values of the models (`scope="system"`).
    """
    shared = set.intersection(*map(set, results.values()))
    fronts = {}
    for name in next(iter(results.values())):
        if name not in shared or not name.startswith(Hypervolume.__name__):
            continue
        parts = {model: result.entry(name).parts for model, result in results.items()}
        if not all(parts.values()):
            continue
        try:
            metric = prototype(parse_name(name))
        except SettingError:  # a part of a loaded result that is not registered here
            continue
        assert isinstance(metric, Hypervolume)
        fronts[name] = compute_front({model: metric.gaps(parts[model]) for model in parts})
    return fronts


def compute_front(gaps: Mapping[str, Sequence[float]]) -> ParetoFront:
    """Return the front of points given by their gaps to the nadir, which are maximized."""
    models = pareto_optimal(gaps)
    inside = {tuple(gaps[model]) for model in models if all(gap > 0 for gap in gaps[model])}
    return ParetoFront(models, hypervolume(sorted(inside)) if models else math.nan)


def pareto_optimal(points: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    """Return the models that no other dominates; coordinates are maximized.

    Models with an undefined coordinate are left out.
    """
    defined = {
        model: tuple(point) for model, point in points.items() if not any(map(math.isnan, point))
    }
    return tuple(
        model
        for model, point in defined.items()
        if not any(_dominates(other, point) for other in defined.values())
    )


def _dominates(a: Sequence[float], b: Sequence[float]) -> bool:
    return a != b and all(x >= y for x, y in zip(a, b))


def hypervolume(points: Sequence[Sequence[float]]) -> float:
    """Return the volume of the union of the boxes between 0 and each point.

    The union is cut into slabs along the first axis; a slab has the union of the boxes, without
    that axis, of all points that reach it.

    >>> hypervolume([(1.0, 2.0), (2.0, 1.0)])
    3.0
    """
    if not points:
        return 0.0
    if len(points[0]) == 1:
        return max(point[0] for point in points)
    volume, start = 0.0, 0.0
    for level in sorted({point[0] for point in points}):
        reaching = [point[1:] for point in points if point[0] >= level]
        volume += (level - start) * hypervolume(reaching)
        start = level
    return volume

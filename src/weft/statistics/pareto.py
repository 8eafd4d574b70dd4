"""Which models no other beats in everything, and how much the best of them cover together."""

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
    """The models on a Pareto front, and the volume between their points and the nadir that they
    cover together.
    """

    models: tuple[str, ...]
    hypervolume: float


def fronts(named: Mapping[str, Result]) -> dict[str, ParetoFront]:
    """The Pareto front of each Hypervolume of the model's own values (`scope="system"`) that all
    results have.
    """
    shared = set.intersection(*(set(result) for result in named.values()))
    found = {}
    for name in next(iter(named.values())):
        entries = (
            {model: result.entry(name) for model, result in named.items()} if name in shared else {}
        )
        if entries and all(
            entry.parts and entry.metric.startswith(Hypervolume.__name__)
            for entry in entries.values()
        ):
            try:
                metric = prototype(parse_name(name))
            except SettingError:  # a part that is not registered here, of a loaded result
                continue
            assert isinstance(metric, Hypervolume)
            found[name] = front(
                {model: metric.gaps(entry.parts) for model, entry in entries.items()}
            )
    return found


def front(gaps: Mapping[str, Sequence[float]]) -> ParetoFront:
    """The front of points given by their gaps to the nadir, more is better; undefined points are
    left out.
    """
    best = pareto_optimal(gaps)
    inside = {tuple(gaps[model]) for model in best if all(gap > 0 for gap in gaps[model])}
    return ParetoFront(best, covered(sorted(inside)) if best else math.nan)


def pareto_optimal(points: Mapping[str, Sequence[float]]) -> tuple[str, ...]:
    """The models that no other beats, more is better; undefined points are left out."""
    defined = {
        model: tuple(point) for model, point in points.items() if not any(map(math.isnan, point))
    }
    return tuple(
        model
        for model, point in defined.items()
        if not any(_beats(other, point) for other in defined.values())
    )


def _beats(a: Sequence[float], b: Sequence[float]) -> bool:
    return a != b and all(x >= y for x, y in zip(a, b))


def covered(points: Sequence[Sequence[float]]) -> float:
    """The volume of the union of the boxes that span from 0 to each point.

    Cut into slices along the first axis: below each point's first coordinate lie the boxes of all
    points that reach as far.

    >>> covered([(1.0, 2.0), (2.0, 1.0)])
    3.0
    """
    if not points:
        return 0.0
    if len(points[0]) == 1:
        return max(point[0] for point in points)
    total, below = 0.0, 0.0
    for level in sorted({point[0] for point in points}):
        total += (level - below) * covered([point[1:] for point in points if point[0] >= level])
        below = level
    return total

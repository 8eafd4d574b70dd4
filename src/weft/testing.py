"""Conformance checks: what every metric must survive. Weft's own metrics run them; so can yours.

    import weft

    def test_my_metric():
        weft.testing.check_metric("MyMetric(alpha=0.5)")

Each check compares a metric with itself: on reordered users, other batches, relabelled items, merged shards and so on. What the
value should be is for the metric's own tests.
"""

from __future__ import annotations

import copy
import inspect
import math
import pickle
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torchmetrics import MetricCollection

from weft.blocks import MetricBlock
from weft.errors import InputError
from weft.evaluator import Evaluator
from weft.metrics.base import BaseMetric, RatingMetric
from weft.names import Spec, parse
from weft.registry import RUN_INPUTS, build, canonical, find, takes_k

TOLERANCE = 1e-9
_USERS, _ITEMS, _K = 23, 17, 5


def check_metric(metric: str | Spec, *, order_only: bool | None = None, tolerance: float = TOLERANCE) -> None:
    """Run every check on a registered metric; the first failure raises AssertionError with what was expected.

    `order_only`: whether the metric depends on the order of the scores alone, as rankers do (default: all but rating metrics).
    `tolerance`: how closely two ways to the same value must agree; a metric that computes in float32 needs about 1e-6.
    """
    for name in CHECKS:
        run_check(name, metric, order_only=order_only, tolerance=tolerance)


def run_check(name: str, metric: str | Spec, *, order_only: bool | None = None, tolerance: float = TOLERANCE) -> None:
    """Run one of `CHECKS`."""
    spec = parse(metric) if isinstance(metric, str) else metric
    if spec.k is None and takes_k(spec.name):
        spec = spec.at(_K)
    if order_only is None:
        order_only = not issubclass(find(spec.name), RatingMetric)
    CHECKS[name](_Subject(build(spec).spec, order_only, tolerance))


class _Subject:
    """A metric under test, and the random data it is tested on: no two scores are equal, some items are not offered."""

    def __init__(self, spec: Spec, order_only: bool, tolerance: float) -> None:
        self.spec = spec
        self.order_only = order_only
        self.tolerance = tolerance
        generator = torch.Generator().manual_seed(20_260_101)
        places = torch.rand((_USERS, _ITEMS), generator=generator, dtype=torch.float64).argsort(1)
        self.scores = places.double() / 4 - 2
        hidden = torch.rand((_USERS, _ITEMS), generator=generator) < 0.1
        self.scores = self.scores.masked_fill(hidden, -torch.inf)
        ratings = torch.randint(1, 6, (_USERS, _ITEMS), generator=generator).double()
        self.target = ratings * (torch.rand((_USERS, _ITEMS), generator=generator) < 0.3)

    def build(self) -> BaseMetric:
        return build(self.spec, inputs={"num_users": _USERS, "num_items": self.scores.shape[1]})

    def value(
        self, scores: Tensor | None = None, target: Tensor | None = None, *, k: int | None = None, batch: int = _USERS
    ) -> float:
        """The metric's value in an Evaluator, which refuses infinities."""
        scores, target = self.scores if scores is None else scores, self.target if target is None else target
        spec = self.spec if k is None else self.spec.at(k)
        evaluator = Evaluator([spec], num_users=len(scores), num_items=scores.shape[1])
        for start in range(0, len(scores), batch):
            rows = slice(start, start + batch)
            evaluator.update(scores[rows], target[rows], torch.arange(len(scores))[rows])
        try:
            return evaluator.compute()[str(spec)]
        except InputError as error:
            raise AssertionError(f"{spec}: {error}") from None

    def agree(self, got: float, expected: float, what: str) -> None:
        """Both NaN, or equal within the tolerance."""
        close = math.isclose(got, expected, rel_tol=self.tolerance, abs_tol=self.tolerance)
        same = close or (math.isnan(got) and math.isnan(expected))
        assert same, f"{self.spec}: {what}: got {got!r}, expected {expected!r}"


def _stays_in_bounds(subject: _Subject) -> None:
    low, high = find(subject.spec.name).bounds
    for scores in (subject.scores, -subject.scores.abs(), _perfect(subject)):
        value = subject.value(scores)
        inside = (low is None or value >= low - subject.tolerance) and (high is None or value <= high + subject.tolerance)
        assert math.isnan(value) or inside, f"{subject.spec}: {value!r} lies outside its bounds {(low, high)}"


def _perfect(subject: _Subject) -> Tensor:
    """Scores that rank by rating."""
    return subject.target + torch.linspace(0.1, 0, subject.target.shape[1], dtype=torch.float64)


def _prefers_the_perfect_ranking(subject: _Subject) -> None:
    higher = find(subject.spec.name).higher_is_better
    if higher is None or not subject.order_only:
        return
    best, middle, worst = subject.value(_perfect(subject)), subject.value(), subject.value(-_perfect(subject))
    if not higher:
        best, worst = worst, best
    assert best >= middle >= worst, f"{subject.spec}: perfect {best!r}, random {middle!r}, worst {worst!r} are not in order"


def _ignores_the_order_of_users(subject: _Subject) -> None:
    order = torch.randperm(_USERS, generator=torch.Generator().manual_seed(1))
    subject.agree(subject.value(subject.scores[order], subject.target[order]), subject.value(), "users in another order")


def _ignores_batches(subject: _Subject) -> None:
    for size in (1, 7):
        subject.agree(subject.value(batch=size), subject.value(), f"batches of {size}")


def _ignores_item_numbers(subject: _Subject) -> None:
    order = torch.randperm(_ITEMS, generator=torch.Generator().manual_seed(2))
    subject.agree(subject.value(subject.scores[:, order], subject.target[:, order]), subject.value(), "items relabelled")


def _ignores_shift_and_scale(subject: _Subject) -> None:
    if subject.order_only:
        subject.agree(subject.value(subject.scores - 100), subject.value(), "scores shifted by -100")
        subject.agree(subject.value(subject.scores * 8), subject.value(), "scores scaled by 8")


def _takes_any_cutoff(subject: _Subject) -> None:
    if subject.spec.k is not None:
        for k in (1, _ITEMS, _ITEMS + 1, 10 * _ITEMS):
            subject.value(k=k)


def _survives_empty_users(subject: _Subject) -> None:
    """Nobody has a relevant item, half of the users have none, nothing is offered: anything finite or NaN, no exception."""
    half = subject.target.clone()
    half[::2] = 0
    for target in (torch.zeros_like(subject.target), half):
        subject.value(target=target)
    subject.value(torch.full_like(subject.scores, -torch.inf))


def _agrees_between_float_types(subject: _Subject) -> None:
    subject.agree(subject.value(subject.scores.float()), subject.value(), "float32 scores")


def _alone(subject: _Subject, metric: BaseMetric, rows: slice = slice(None)) -> BaseMetric:
    metric.update(subject.scores[rows], subject.target[rows], torch.arange(_USERS)[rows])
    return metric


def _is_the_same_alone(subject: _Subject) -> None:
    subject.agree(float(_alone(subject, subject.build()).compute()), subject.value(), "alone instead of in an Evaluator")


def _forgets_on_reset(subject: _Subject) -> None:
    metric = _alone(subject, subject.build(), slice(0, 9))
    metric.reset()
    subject.agree(float(_alone(subject, metric).compute()), subject.value(), "after a reset")


def _merges_shards(subject: _Subject) -> None:
    first, second = (_alone(subject, subject.build(), rows) for rows in (slice(0, 9), slice(9, None)))
    first.absorb(second)
    subject.agree(float(first.compute()), subject.value(), "two shards merged")


def _survives_copies(subject: _Subject) -> None:
    half = _alone(subject, subject.build(), slice(0, 9))
    copies = [copy.deepcopy(half)]
    home = sys.modules.get(type(half).__module__)
    if getattr(home, type(half).__name__, None) is type(half):  # a class that is no module's cannot be pickled by anyone
        copies.append(pickle.loads(pickle.dumps(half)))
    for metric in copies:
        subject.agree(float(_alone(subject, metric, slice(9, None)).compute()), subject.value(), "copied half-way")


def _uses_what_it_declares(subject: _Subject) -> None:
    """Changing a declared block must change the value, or the declaration asks for work that nobody needs."""
    declared = find(subject.spec.name)._REQUIRED_COMPONENTS
    if find(subject.spec.name)._update_from_blocks is None or declared is None:
        return
    for which in declared:
        metric, whole = subject.build(), _alone(subject, subject.build())
        with metric.open(subject.scores, subject.target) as batch:
            batch.once(which, lambda which=which: _garbled(batch, which))  # type: ignore[misc]
            metric.accumulate(batch)
        changed = float(type(metric).compute(metric)) != float(whole.compute())
        assert changed, f"{subject.spec} declares {which.name}, but its value does not depend on it"


def _garbled(batch: Any, which: MetricBlock) -> Tensor:
    right: Tensor = getattr(batch, f"_{which.value}")()
    if right.is_floating_point():
        by_row = torch.linspace(1.5, 2.5, len(right), dtype=right.dtype).reshape(-1, *[1] * (right.ndim - 1))
        return torch.where(torch.isinf(right), right, by_row * right + 0.25)
    num_items: int = batch.truth.num_items
    return (right + 1).remainder(num_items)


def _refuses_unknown_parameters(subject: _Subject) -> None:
    """The constructor itself, which a name reaches only after its parameters were checked."""
    wanted = inspect.signature(find(subject.spec.name).__init__).parameters
    given: dict[str, Any] = {name: _USERS for name in RUN_INPUTS if name in wanted}
    if subject.spec.k is not None:
        given["k"] = subject.spec.k
    try:
        find(subject.spec.name)(**given, no_such_parameter=1)
    except TypeError:  # of Python's, or UnknownParameter
        return
    raise AssertionError(f"{subject.spec}: accepts a parameter that it does not have; do not swallow **kwargs")


def _has_a_name_that_parses_back(subject: _Subject) -> None:
    assert parse(str(subject.spec)) == subject.spec, f"{subject.spec}: its name does not parse back"
    assert canonical(str(subject.spec)) == str(subject.spec), f"{subject.spec}: is not its own canonical name"


def _keeps_apart_in_a_collection(subject: _Subject) -> None:
    """TorchMetrics merges metrics whose states agree after a first batch, here one without a hit; ours must stay apart."""
    other = Spec("HitRate", (), 1) if subject.spec.k is None else subject.spec.at(1)
    inputs = {"num_users": _USERS, "num_items": _ITEMS}
    collection = MetricCollection({"subject": subject.build(), "other": build(other, inputs=inputs)})
    alone = {"subject": subject.build(), "other": build(other, inputs=inputs)}
    misses = torch.zeros_like(subject.target)
    misses.scatter_(1, subject.scores.argmin(1, keepdim=True), 1.0)
    for target in (misses, subject.target):
        collection.update(subject.scores, target)
        for metric in alone.values():
            metric.update(subject.scores, target)
    for name, value in collection.compute().items():
        subject.agree(float(value), float(alone[name].compute()), "in a MetricCollection")


CHECKS: dict[str, Callable[[_Subject], None]] = {
    check.__name__.strip("_"): check
    for check in (
        _stays_in_bounds,
        _prefers_the_perfect_ranking,
        _ignores_the_order_of_users,
        _ignores_batches,
        _ignores_item_numbers,
        _ignores_shift_and_scale,
        _takes_any_cutoff,
        _survives_empty_users,
        _agrees_between_float_types,
        _is_the_same_alone,
        _forgets_on_reset,
        _merges_shards,
        _survives_copies,
        _uses_what_it_declares,
        _refuses_unknown_parameters,
        _has_a_name_that_parses_back,
        _keeps_apart_in_a_collection,
    )
}

"""Conformance checks for authors of metrics. Weft's own metrics pass them in its tests.

    import weft

    def test_my_metric():
        weft.testing.check_metric("MyMetric(alpha=0.5)")

Each check compares a metric with itself: on reordered users, other batches, relabelled items,
merged shards and so on. The expected values are a matter of the metric's own tests.
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

from weft.batch.blocks import MetricBlock, compute_block
from weft.errors import InputError
from weft.evaluation.evaluator import Evaluator
from weft.metrics.base.metric import BaseMetric
from weft.metrics.names import MetricSpec, parse_name
from weft.metrics.registry import (
    build_metric,
    canonical_name,
    constructor_parameters,
    find_metric,
    needs_cutoff,
)

TOLERANCE = 1e-9
_USERS, _ITEMS, _K = 23, 17, 5


def check_metric(
    metric: str | MetricSpec, *, order_only: bool | None = None, tolerance: float = TOLERANCE
) -> None:
    """Run every check on a registered metric; the first failure raises `AssertionError`.

    `order_only`: whether the metric depends only on the order of the scores (default: not
    `reads_scores`). `tolerance`: how closely two computations of the same value must agree; a
    metric that computes in float32 needs about 1e-6."""
    for name in CHECKS:
        run_check(name, metric, order_only=order_only, tolerance=tolerance)


def run_check(
    name: str,
    metric: str | MetricSpec,
    *,
    order_only: bool | None = None,
    tolerance: float = TOLERANCE,
) -> None:
    """Run one of `CHECKS`."""
    spec = parse_name(metric) if isinstance(metric, str) else metric
    if spec.k is None and needs_cutoff(spec.name):
        spec = spec.with_cutoff(_K)
    subject = _Subject(spec, tolerance)
    subject.order_only = not subject.build().reads_scores if order_only is None else order_only
    CHECKS[name](subject)


class _Subject:
    """A metric under test with random data: no two scores of a user are equal, and some items are
    not candidates.

    All inputs are available: train (no two items are equally popular, one is cold), labels (some
    are missing) and features."""

    def __init__(self, spec: MetricSpec, tolerance: float) -> None:
        self.order_only = True
        self.tolerance = tolerance
        generator = torch.Generator().manual_seed(20_260_101)
        order = torch.rand((_USERS, _ITEMS), generator=generator, dtype=torch.float64).argsort(1)
        is_masked = torch.rand((_USERS, _ITEMS), generator=generator) < 0.1
        self.scores = (order.double() / 4 - 2).masked_fill(is_masked, -torch.inf)
        ratings = torch.randint(1, 6, (_USERS, _ITEMS), generator=generator).double()
        self.target = ratings * (torch.rand((_USERS, _ITEMS), generator=generator) < 0.3)
        seen = torch.rand((_USERS, _ITEMS), generator=generator).argsort(0) < torch.arange(_ITEMS)
        self.sizes: dict[str, Any] = {"num_users": _USERS, "num_items": _ITEMS}
        self.inputs: dict[str, Any] = {
            "train": seen.int(),
            "user_groups": ["F", "M", None, "M"] * (_USERS // 4) + ["F"] * (_USERS % 4),
            "item_clusters": [1, 2, 2, 3, None] * (_ITEMS // 5) + [3] * (_ITEMS % 5),
            "item_features": [{number % 3, number % 4} - {3} for number in range(_ITEMS)],
        }
        self.spec = spec
        self.spec = self.build().spec

    def build(self, spec: MetricSpec | None = None) -> BaseMetric:
        """Return the metric, or another one, with all inputs."""
        return build_metric(spec or self.spec, inputs={**self.inputs, **self.sizes})

    def with_items(self, order: Tensor) -> dict[str, Any]:
        """Return the inputs with the items in another order."""
        inputs = {**self.inputs, "train": self.inputs["train"][:, order]}
        for name in ("item_clusters", "item_features"):
            inputs[name] = [self.inputs[name][number] for number in order]
        return inputs

    def values(
        self,
        scores: Tensor | None = None,
        target: Tensor | None = None,
        *,
        k: int | None = None,
        batch: int = _USERS,
        users: Tensor | None = None,
        inputs: dict[str, Any] | None = None,
    ) -> dict[str, float]:
        """Return the values of the metric in an Evaluator, which refuses infinities, by name."""
        scores = self.scores if scores is None else scores
        target = self.target if target is None else target
        users = torch.arange(len(scores)) if users is None else users
        spec = self.spec if k is None else self.spec.with_cutoff(k)
        inputs = self.inputs if inputs is None else inputs
        evaluator = Evaluator([spec], mask_seen=False, **self.sizes, **inputs)
        for start in range(0, len(scores), batch):
            rows = slice(start, start + batch)
            evaluator.update(scores[rows], target[rows], users[rows])
        try:
            return {value.name: value.value for value in evaluator.compute().values}
        except InputError as error:
            raise AssertionError(f"{spec}: {error}") from None

    def value(self, scores: Tensor | None = None) -> float:
        """Return the value of a metric that has a single one."""
        return self.values(scores)[str(self.spec)]

    def agree_on_all(self, got: dict[str, float], expected: dict[str, float], case: str) -> None:
        """Assert that both have the same names, and that the values agree."""
        assert got.keys() == expected.keys(), (
            f"{self.spec}: {case}: got {list(got)}, expected {list(expected)}"
        )
        for name, value in got.items():
            self.agree(value, expected[name], case)

    def agree(self, got: float, expected: float, case: str) -> None:
        """Assert that both are NaN, or equal within the tolerance."""
        is_close = math.isclose(got, expected, rel_tol=self.tolerance, abs_tol=self.tolerance)
        is_same = is_close or (math.isnan(got) and math.isnan(expected))
        assert is_same, f"{self.spec}: {case}: got {got!r}, expected {expected!r}"


def _stays_in_bounds(subject: _Subject) -> None:
    low, high = subject.build().bounds
    for scores in (subject.scores, -subject.scores.abs(), _perfect(subject)):
        for value in subject.values(scores).values():
            is_low = low is not None and value < low - subject.tolerance
            is_high = high is not None and value > high + subject.tolerance
            assert not is_low and not is_high, (
                f"{subject.spec}: {value!r} is outside its bounds {(low, high)}"
            )


def _perfect(subject: _Subject) -> Tensor:
    """Return scores that rank by rating."""
    return subject.target + torch.linspace(0.1, 0, subject.target.shape[1], dtype=torch.float64)


def _prefers_the_perfect_ranking(subject: _Subject) -> None:
    metric = subject.build()
    higher = metric.higher_is_better
    if higher is None or not subject.order_only or metric.family not in ("accuracy", "custom"):
        return  # in other families a list with more hits is not better
    perfect = _perfect(subject)
    best, middle, worst = subject.value(perfect), subject.value(), subject.value(-perfect)
    if not higher:
        best, worst = worst, best
    assert best >= middle >= worst, (
        f"{subject.spec}: perfect {best!r}, random {middle!r}, worst {worst!r} are not in order"
    )


def _ignores_the_order_of_users(subject: _Subject) -> None:
    order = torch.randperm(_USERS, generator=torch.Generator().manual_seed(1))
    others = subject.values(subject.scores[order], subject.target[order], users=order)
    subject.agree_on_all(others, subject.values(), "users in another order")


def _ignores_batches(subject: _Subject) -> None:
    for size in (1, 7):
        subject.agree_on_all(subject.values(batch=size), subject.values(), f"batches of {size}")


def _ignores_item_numbers(subject: _Subject) -> None:
    order = torch.randperm(_ITEMS, generator=torch.Generator().manual_seed(2))
    scores, target = subject.scores[:, order], subject.target[:, order]
    others = subject.values(scores, target, inputs=subject.with_items(order))
    subject.agree_on_all(others, subject.values(), "items relabelled")


def _ignores_shift_and_scale(subject: _Subject) -> None:
    changes = {"shifted by -100": subject.scores - 100, "scaled by 8": subject.scores * 8}
    for change, scores in changes.items() if subject.order_only else ():
        subject.agree_on_all(subject.values(scores), subject.values(), f"scores {change}")


def _takes_any_cutoff(subject: _Subject) -> None:
    if subject.spec.k is not None:
        for k in (1, _ITEMS, _ITEMS + 1, 10 * _ITEMS):
            subject.values(k=k)


def _survives_empty_users(subject: _Subject) -> None:
    """No user has a relevant item, half of the users have none, there are no candidates: the value
    is finite or NaN, without an exception.
    """
    half = subject.target.clone()
    half[::2] = 0
    subject.values(target=half)
    subject.values(target=torch.zeros_like(half))
    subject.values(torch.full_like(subject.scores, -torch.inf))


def _agrees_between_float_types(subject: _Subject) -> None:
    subject.agree_on_all(subject.values(subject.scores.float()), subject.values(), "float32 scores")


def _update(subject: _Subject, metric: BaseMetric, rows: slice = slice(None)) -> BaseMetric:
    """Return a standalone metric after an update with some rows."""
    metric.update(subject.scores[rows], subject.target[rows], torch.arange(_USERS)[rows])
    return metric


def _computed(metric: BaseMetric, name: str) -> dict[str, float]:
    """Return the values of a standalone metric by name."""
    value = metric.compute()
    named = value if isinstance(value, dict) else {name: value}
    return {name: float(number) for name, number in named.items()}


def _agree_standalone(subject: _Subject, metric: BaseMetric, case: str) -> None:
    """Assert that a standalone metric agrees with an Evaluator, which may have further values."""
    got, expected = _computed(metric, str(metric.spec)), subject.values()
    expected = {name: value for name, value in expected.items() if name in got}
    subject.agree_on_all(got, expected, case)


def _agrees_standalone(subject: _Subject) -> None:
    metric = _update(subject, subject.build())
    _agree_standalone(subject, metric, "standalone instead of in an Evaluator")


def _forgets_on_reset(subject: _Subject) -> None:
    metric = _update(subject, subject.build(), slice(0, 9))
    metric.reset()
    _agree_standalone(subject, _update(subject, metric), "after a reset")


def _merges_shards(subject: _Subject) -> None:
    first = _update(subject, subject.build(), slice(0, 9))
    first.absorb(_update(subject, subject.build(), slice(9, None)))
    _agree_standalone(subject, first, "two shards merged")


def _survives_copies(subject: _Subject) -> None:
    half = _update(subject, subject.build(), slice(0, 9))
    copies = [copy.deepcopy(half)]
    module = sys.modules.get(type(half).__module__)
    if getattr(module, type(half).__name__, None) is type(half):  # otherwise it has no pickle
        copies.append(pickle.loads(pickle.dumps(half)))
    half.persistent(True)
    loaded = subject.build()
    loaded.load_state_dict(half.state_dict())
    for metric in (*copies, loaded):
        _update(subject, metric, slice(9, None))
        _agree_standalone(subject, metric, "copied, or saved and loaded, half-way")


def _uses_what_it_declares(subject: _Subject) -> None:
    """Changing a declared block must change the value; otherwise the declaration is needless."""
    kind = find_metric(subject.spec.name)
    if kind._update_from_blocks is None:
        return
    for which in kind._REQUIRED_COMPONENTS or ():
        metric, unchanged = subject.build(), _update(subject, subject.build())
        with metric.open(subject.scores, subject.target) as batch:
            garbled = _garbled(batch, which)
            batch.cached(which, lambda garbled=garbled: garbled)  # type: ignore[misc]
            metric.accumulate(batch)
        is_changed = float(type(metric).compute(metric)) != float(unchanged.compute())
        assert is_changed, (
            f"{subject.spec} declares {which.name}, but its value does not depend on it"
        )


def _garbled(batch: Any, which: MetricBlock) -> Tensor:
    right: Tensor = compute_block(batch, which)
    if right.is_floating_point():
        by_row = torch.linspace(1.5, 2.5, len(right), dtype=right.dtype)
        garbled = (right.T * by_row).T if right.ndim > 1 else right * by_row
        return torch.where(torch.isinf(right), right, garbled + 0.25)
    return (right + 1).remainder(batch.truth.num_items)


def _leaves_its_tensors_unchanged(subject: _Subject) -> None:
    """Weft hands out copies, so that a write changes no other metric; other callers may not."""

    def checked(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **blocks: Any) -> Any:
            given = dict(zip(inspect.signature(method).parameters, args)) | blocks
            tensors = {name: one for name, one in given.items() if isinstance(one, Tensor)}
            before = {name: (one._version, one.clone()) for name, one in tensors.items()}
            result = method(*args, **blocks)
            for name, (version, values) in before.items():
                after = tensors[name]
                assert after._version == version and after.equal(values), (
                    f"{subject.spec} writes to {name}; a metric may only read what it is given: "
                    f"change a copy, {name}.clone()"
                )
            return result

        return call

    metric = subject.build()
    for name in ("_update_from_blocks", "compute_scores", "compute_errors"):
        if (method := getattr(metric, name, None)) is not None:
            setattr(metric, name, checked(method))
    _update(subject, metric)


def _refuses_unknown_parameters(subject: _Subject) -> None:
    """Check the constructor itself: the parameters of a name are checked before."""
    accepted = constructor_parameters(find_metric(subject.spec.name))
    inputs = {**subject.inputs, **subject.sizes}
    known = {**inputs, "inputs": inputs}
    given = {name: value for name, value in known.items() if name in accepted}
    given |= dict(subject.spec.params)
    if subject.spec.k is not None:
        given["k"] = subject.spec.k
    try:
        find_metric(subject.spec.name)(**given, no_such_parameter=1)
    except TypeError:  # of Python's, or UnknownParameter
        return
    raise AssertionError(
        f"{subject.spec}: accepts a parameter that it does not have; do not swallow **kwargs"
    )


def _has_a_name_that_parses_back(subject: _Subject) -> None:
    name = str(subject.spec)
    assert parse_name(name) == subject.spec, f"{name}: its name does not parse back"
    assert canonical_name(name) == name, f"{name}: is not its own canonical name"


def _stays_separate_in_a_collection(subject: _Subject) -> None:
    """TorchMetrics merges metrics with equal states after the first batch, here one without a hit;
    Weft's metrics must stay separate.
    """
    other = MetricSpec("HitRate", (), 1) if subject.spec.k is None else subject.spec.with_cutoff(1)

    def both() -> dict[str, Any]:
        return {"subject": subject.build(), "other": subject.build(other)}

    collection, separate = MetricCollection(both()), both()
    worst = subject.scores.argmin(1, keepdim=True)
    misses = torch.zeros_like(subject.target).scatter_(1, worst, 1.0)
    for target in (misses, subject.target):
        collection.update(subject.scores, target, torch.arange(_USERS))
        for metric in separate.values():
            metric.update(subject.scores, target, torch.arange(_USERS))
    expected: dict[str, float] = {}
    for name, metric in separate.items():
        expected |= _computed(metric, name)
    got = {name: float(value) for name, value in collection.compute().items()}
    subject.agree_on_all(got, expected, "in a MetricCollection")


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
        _agrees_standalone,
        _forgets_on_reset,
        _merges_shards,
        _survives_copies,
        _uses_what_it_declares,
        _leaves_its_tensors_unchanged,
        _refuses_unknown_parameters,
        _has_a_name_that_parses_back,
        _stays_separate_in_a_collection,
    )
}

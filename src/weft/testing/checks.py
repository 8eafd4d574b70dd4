"""The checks of `weft.testing`, each of which compares a metric with itself.

A check raises `AssertionError`, or returns the reason why it does not apply to the metric.
"""

from __future__ import annotations

import copy
import inspect
import pickle
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torchmetrics import MetricCollection

from weft.batch.blocks import MetricBlock, compute_block
from weft.metrics.base.metric import BaseMetric
from weft.metrics.base.summed import SummedMetric
from weft.metrics.base.value_labels import read_values
from weft.metrics.declarations import constructor_parameters
from weft.metrics.names import MetricSpec, format_labels, parse_name
from weft.metrics.registry import canonical_name, find_metric
from weft.testing.subject import NUM_ITEMS, NUM_USERS, Subject

Check = Callable[[Subject], str | None]


def _stays_in_bounds(subject: Subject) -> None:
    low, high = subject.build().bounds
    for scores in (subject.scores, -subject.scores.abs(), _perfect(subject)):
        for value in subject.values(scores).values():
            is_low = low is not None and value < low - subject.tolerance
            is_high = high is not None and value > high + subject.tolerance
            assert not is_low and not is_high, (
                f"{subject.spec}: {value!r} is outside its bounds {(low, high)}"
            )


def _perfect(subject: Subject) -> Tensor:
    """Return scores that rank by rating."""
    return subject.target + torch.linspace(0.1, 0, subject.target.shape[1], dtype=torch.float64)


def _prefers_the_perfect_ranking(subject: Subject) -> str | None:
    metric = subject.build()
    higher = metric.higher_is_better
    if metric.family != "accuracy":
        return f"more hits are not better in the family {metric.family}"
    if higher is None or not subject.order_only:
        return "it has no direction (higher_is_better), or depends on the values of scores"
    if str(subject.spec) not in subject.values():
        return "it has only values by label"
    perfect = _perfect(subject)
    best, middle, worst = subject.value(perfect), subject.value(), subject.value(-perfect)
    is_ordered = best >= middle >= worst if higher else best <= middle <= worst
    assert is_ordered, (
        f"{subject.spec}: the values {best!r} of a perfect ranking, {middle!r} of a random one and "
        f"{worst!r} of the worst are not in the order of higher_is_better={higher}"
    )
    return None


def _ignores_the_order_of_users(subject: Subject) -> None:
    order = torch.randperm(NUM_USERS, generator=torch.Generator().manual_seed(1))
    others = subject.values(subject.scores[order], subject.target[order], users=order)
    subject.agree_on_all(others, subject.values(), "users in another order")


def _ignores_batches(subject: Subject) -> None:
    for size in (1, 7):
        subject.agree_on_all(subject.values(batch=size), subject.values(), f"batches of {size}")


def _ignores_item_numbers(subject: Subject) -> None:
    order = torch.randperm(NUM_ITEMS, generator=torch.Generator().manual_seed(2))
    scores, target = subject.scores[:, order], subject.target[:, order]
    others = subject.values(scores, target, inputs=subject.with_items(order))
    subject.agree_on_all(others, subject.values(), "items relabelled")


def _ignores_shift_and_scale(subject: Subject) -> str | None:
    if not subject.order_only:
        return "it depends on the values of scores"
    changes = {"shifted by -100": subject.scores - 100, "scaled by 8": subject.scores * 8}
    for change, scores in changes.items():
        subject.agree_on_all(subject.values(scores), subject.values(), f"scores {change}")
    return None


def _takes_any_cutoff(subject: Subject) -> str | None:
    if subject.spec.k is None:
        return "it has no cut-off"
    for k in (1, NUM_ITEMS, NUM_ITEMS + 1, 10 * NUM_ITEMS):
        subject.values(k=k)
    return None


def _survives_empty_users(subject: Subject) -> None:
    """No user has a relevant item, half of the users have none, there are no candidates: the value
    is finite or NaN, without an exception.
    """
    half = subject.target.clone()
    half[::2] = 0
    subject.values(target=half)
    subject.values(target=torch.zeros_like(half))
    subject.values(torch.full_like(subject.scores, -torch.inf))


def _agrees_between_float_types(subject: Subject) -> None:
    subject.agree_on_all(subject.values(subject.scores.float()), subject.values(), "float32 scores")


def _update(subject: Subject, metric: BaseMetric, rows: slice = slice(None)) -> BaseMetric:
    """Return a standalone metric after an update with some rows."""
    metric.update(subject.scores[rows], subject.target[rows], torch.arange(NUM_USERS)[rows])
    return metric


def _computed(metric: BaseMetric) -> dict[str, float]:
    """Return the values of a standalone metric by name."""
    value = metric.compute()
    if isinstance(metric, SummedMetric) and isinstance(value, dict):  # by full names
        return {name: float(number) for name, number in value.items()}
    values = read_values(metric, value, "compute")
    return {f"{metric.spec}{format_labels(one)}": float(values[one]) for one in values}


def _agree_standalone(subject: Subject, metric: BaseMetric, case: str) -> None:
    """Assert that a standalone metric agrees with an Evaluator, which may have further values."""
    got, expected = _computed(metric), subject.values()
    expected = {name: value for name, value in expected.items() if name in got}
    subject.agree_on_all(got, expected, case)


def _agrees_standalone(subject: Subject) -> None:
    metric = _update(subject, subject.build())
    _agree_standalone(subject, metric, "standalone instead of in an Evaluator")


def _forgets_on_reset(subject: Subject) -> None:
    metric = _update(subject, subject.build(), slice(0, 9))
    metric.reset()
    _agree_standalone(subject, _update(subject, metric), "after a reset")


def _merges_shards(subject: Subject) -> None:
    first = _update(subject, subject.build(), slice(0, 9))
    first.absorb(_update(subject, subject.build(), slice(9, None)))
    _agree_standalone(subject, first, "two shards merged")


def _survives_copies(subject: Subject) -> None:
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
        _agree_standalone(subject, metric, "copied, or saved and loaded, between updates")


def _uses_what_it_declares(subject: Subject) -> str | None:
    """Changing a declared block must change the value; otherwise the declaration is needless."""
    kind = find_metric(subject.spec.name)
    if kind._update_from_blocks is None or not kind._REQUIRED_COMPONENTS:
        return "it has no update method that declares blocks"
    for which in kind._REQUIRED_COMPONENTS:
        metric, unchanged = subject.build(), _update(subject, subject.build())
        with metric.open(subject.scores, subject.target) as batch:
            garbled = _garbled(batch, which)
            batch.cached(which, lambda garbled=garbled: garbled)  # type: ignore[misc]
            metric.accumulate(batch)
        changed = read_values(metric, type(metric).compute(metric), "compute")
        assert list(map(float, changed.values())) != list(_computed(unchanged).values()), (
            f"{subject.spec} declares {which.name}, but its value does not depend on it"
        )
    return None


def _garbled(batch: Any, which: MetricBlock) -> Tensor:
    right: Tensor = compute_block(batch, which)
    if right.is_floating_point():
        by_row = torch.linspace(1.5, 2.5, len(right), dtype=right.dtype)
        garbled = (right.T * by_row).T if right.ndim > 1 else right * by_row
        return torch.where(torch.isinf(right), right, garbled + 0.25)
    return (right + 1).remainder(batch.truth.num_items)


def _leaves_its_tensors_unchanged(subject: Subject) -> None:
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
                    f"{subject.spec} modifies {name}; a metric must not modify its arguments: "
                    f"change a copy, {name}.clone()"
                )
            return result

        return call

    metric = subject.build()
    for name in ("_update_from_blocks", "compute_scores", "compute_errors"):
        if (method := getattr(metric, name, None)) is not None:
            setattr(metric, name, checked(method))
    _update(subject, metric)


def _refuses_unknown_parameters(subject: Subject) -> None:
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
        f"{subject.spec}: the constructor accepts the unknown parameter no_such_parameter; do not "
        "ignore **kwargs"
    )


def _has_a_name_that_parses_back(subject: Subject) -> None:
    name = str(subject.spec)
    assert parse_name(name) == subject.spec, f"{name}: the name is parsed differently"
    assert canonical_name(name) == name, f"{name}: the name is not canonical"


def _stays_separate_in_a_collection(subject: Subject) -> None:
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
        collection.update(subject.scores, target, torch.arange(NUM_USERS))
        for metric in separate.values():
            metric.update(subject.scores, target, torch.arange(NUM_USERS))
    # A collection has the entries of dicts under names of its own, by metric in sorted order.
    expected = [value for name in sorted(separate) for value in _computed(separate[name]).values()]
    computed = [torch.as_tensor(value).reshape(-1) for value in collection.compute().values()]
    got = torch.cat(computed).tolist()
    assert len(got) == len(expected), f"{subject.spec}: a MetricCollection has {len(got)} values"
    for value, other_value in zip(got, expected):
        subject.agree(value, other_value, "in a MetricCollection")


CHECKS: dict[str, Check] = {
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

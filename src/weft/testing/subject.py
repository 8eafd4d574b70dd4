"""The metric under test, with random data and all inputs of a run."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from weft._input_kinds import BUILT_IN_INPUTS, InputKind
from weft.data.side_inputs import read_positional_inputs
from weft.errors import InputError
from weft.evaluation.evaluator import Evaluator
from weft.metrics.base.metric import BaseMetric
from weft.metrics.names import MetricSpec
from weft.metrics.registry import build_metric, needs_cutoff, prototype

NUM_USERS, NUM_ITEMS = 23, 17
_FLOAT32_ERROR = 1e-6  # relative


def _declared_inputs(spec: MetricSpec) -> Mapping[str, InputKind]:
    """Return the inputs that the metric of a name declares, by name."""
    cutoff = (spec.k or 1) if needs_cutoff(spec.name) else spec.k
    return prototype(spec.with_cutoff(cutoff)).declared_inputs()


# Values of a user or item for an input of a form, by its number.
_VALUES_OF_FORM: dict[str, Callable[[int], Any]] = {
    "number": lambda number: float(number * 7 % 11 + 1) / 11,
    "vector": lambda number: [math.sin(number), math.cos(2 * number), 1.0],
    "list": lambda number: [(number * 5 + place * 3) % NUM_ITEMS for place in range(4)],
    "label": lambda number: "abc"[number % 3],
    "features": lambda number: {number % 3, number % 4} - {3},
}


def _make_values(kind: InputKind) -> list[Any]:
    """Return values of all users or items for an input of a kind; some are missing if they may."""
    numbers = range(NUM_USERS if kind.axis == "user" else NUM_ITEMS)
    values = list(map(_VALUES_OF_FORM[kind.form], numbers))
    # Labels and lists may be missing, too.
    if kind.form != "features" and getattr(kind, "missing", None) != "error":
        values[5] = None
    return values


class Subject:
    """A metric under test with random data: no two scores of a user are equal, and some items are
    not candidates.

    All inputs are available: train (no two items are equally popular, one is cold), labels (some
    are missing), features, and what the metric declares (some is missing, if that has a meaning).
    """

    def __init__(self, spec: MetricSpec, tolerance: float) -> None:
        self.order_only = True
        self.tolerance = tolerance
        generator, shape = torch.Generator().manual_seed(20_260_101), (NUM_USERS, NUM_ITEMS)
        order = torch.rand(shape, generator=generator, dtype=torch.float64).argsort(1)
        is_masked = torch.rand(shape, generator=generator) < 0.1
        self.scores = (order.double() / 4 - 2).masked_fill(is_masked, -torch.inf)
        ratings = torch.randint(1, 6, shape, generator=generator).double()
        self.target = ratings * (torch.rand(shape, generator=generator) < 0.3)
        seen = torch.rand(shape, generator=generator).argsort(0) < torch.arange(NUM_ITEMS)
        self.sizes: dict[str, Any] = {"num_users": NUM_USERS, "num_items": NUM_ITEMS}
        self.inputs: dict[str, Any] = {
            "train": seen.int(),
            "user_groups": ["F", "M", None, "M"] * (NUM_USERS // 4) + ["F"] * (NUM_USERS % 4),
            "item_clusters": [1, 2, 2, 3, None] * (NUM_ITEMS // 5) + [3] * (NUM_ITEMS % 5),
            "item_features": [{number % 3, number % 4} - {3} for number in range(NUM_ITEMS)],
        }
        self.kinds = {**BUILT_IN_INPUTS, **_declared_inputs(spec)}
        for name in self.kinds.keys() - self.inputs.keys():
            self.inputs[name] = _make_values(self.kinds[name])
        self.spec = spec
        self.spec = self.build().spec

    def build(self, spec: MetricSpec | None = None) -> BaseMetric:
        """Return the metric, or another one, with all inputs in the form that a run gives."""
        inputs = read_positional_inputs(self.inputs, self.kinds, **self.sizes)
        return build_metric(spec or self.spec, inputs=inputs)

    def with_items(self, order: Tensor) -> dict[str, Any]:
        """Return the inputs with the items in another order."""
        inputs = {**self.inputs, "train": self.inputs["train"][:, order]}
        places = order.argsort().tolist()
        for name, kind in self.kinds.items():
            if kind.axis == "item":
                inputs[name] = [self.inputs[name][number] for number in order]
            elif kind.form == "list":
                lists = self.inputs[name]
                inputs[name] = [one and [places[item] for item in one] for one in lists]
        return inputs

    def values(
        self,
        scores: Tensor | None = None,
        target: Tensor | None = None,
        *,
        k: int | None = None,
        batch: int = NUM_USERS,
        users: Tensor | None = None,
        inputs: dict[str, Any] | None = None,
    ) -> dict[str, float]:
        """Return the values of the metric in an Evaluator, which refuses infinities, by name."""
        scores = self.scores if scores is None else scores
        target = self.target if target is None else target
        users = torch.arange(len(scores)) if users is None else users
        spec = self.spec if k is None else self.spec.with_cutoff(k)
        inputs = self.inputs if inputs is None else inputs
        evaluator = Evaluator([spec], mask_seen=False, **self.sizes, inputs=inputs)
        for start in range(0, len(scores), batch):
            rows = slice(start, start + batch)
            evaluator.update(scores[rows], target[rows], users[rows])
        try:
            return dict(evaluator.compute())
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
        is_rounded = math.isclose(got, expected, rel_tol=_FLOAT32_ERROR)
        hint = "; if the metric computes in float32, set tolerance=1e-6" if is_rounded else ""
        assert is_same, f"{self.spec}: {case}: got {got!r}, expected {expected!r}{hint}"

"""Composites as values: their specs, and the formulas of arithmetic on metrics.

Importing this module does not load torch.
"""

from __future__ import annotations

import hashlib
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from types import CodeType
from typing import Any

from weft.metrics.names import DataValue, MetricSpec

_OPERATIONS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "**": operator.pow,
}


@dataclass(frozen=True)
class CompositeSpec(MetricSpec):
    """A composite of metrics, printed as `title` without its parameters."""

    title: str = ""

    def __str__(self) -> str:
        return self.title

    def with_cutoff(self, k: int | None) -> CompositeSpec:
        return replace(self, k=k)

    @property
    def definition(self) -> str:
        params: dict[str, Any] = dict(self.params)
        formula = params["formula"]
        text = formula.text if isinstance(formula, DataValue) else repr(formula)
        metrics = [metric.definition for metric in params["metrics"]]
        content = repr((text, metrics, params.get("higher_is_better")))
        return f"{self.title} {hashlib.sha256(content.encode()).hexdigest()[:12]}"


@dataclass(frozen=True)
class Arithmetic:
    """A formula of one operation on the values of two metrics, or of one metric and a number."""

    symbol: str
    left: float | None = None
    right: float | None = None

    def __call__(self, *values: Any) -> Any:
        """Return the outcome for the values of the operands that are metrics."""
        metrics = iter(values)
        left, right = (next(metrics) if one is None else one for one in (self.left, self.right))
        return _OPERATIONS[self.symbol](left, right)

    def title(self, metrics: Sequence[MetricSpec]) -> str:
        """Return the operation as text; operands that are operations are in parentheses."""
        is_operation = (isinstance(one, CompositeSpec) and " " in one.title for one in metrics)
        names = (f"({one})" if nested else str(one) for one, nested in zip(metrics, is_operation))
        operands = [next(names) if one is None else repr(one) for one in (self.left, self.right)]
        return f" {self.symbol} ".join(operands)

    @classmethod
    def from_operands(
        cls, symbol: str, left: MetricSpec | float, right: MetricSpec | float
    ) -> tuple[Arithmetic, tuple[MetricSpec, ...]]:
        """Return an operation, and those of its operands that are metrics."""
        operands = (left, right)
        formula = cls(symbol, *(None if isinstance(one, MetricSpec) else one for one in operands))
        return formula, tuple(one for one in operands if isinstance(one, MetricSpec))


def arithmetic_spec(
    symbol: str, left: MetricSpec | float, right: MetricSpec | float
) -> CompositeSpec:
    """Return the composite of an operation on two metrics, or on a metric and a number."""
    formula, metrics = Arithmetic.from_operands(symbol, left, right)
    return composite_spec(formula.title(metrics), metrics, formula)


def composite_spec(
    name: str,
    metrics: tuple[MetricSpec, ...],
    formula: Callable[..., Any],
    *,
    higher_is_better: bool | None = None,
) -> CompositeSpec:
    """Return the spec of a composite: equal for equal names, metrics, formulas and directions."""
    value: Any = formula if isinstance(formula, Arithmetic) else _describe(formula)
    params: tuple[tuple[str, Any], ...] = (("name", name), ("metrics", metrics), ("formula", value))
    if higher_is_better is not None:
        params += (("higher_is_better", higher_is_better),)
    return CompositeSpec("Composite", params, title=name)


def _describe(function: Callable[..., Any]) -> DataValue:
    """Return a function as a value that is equal in all processes for the same code."""
    module, name = (getattr(function, key, "") for key in ("__module__", "__qualname__"))
    name = name or type(function).__qualname__
    code = getattr(function, "__code__", None)
    digest = f" {_digest(code)}" if isinstance(code, CodeType) else ""
    return DataValue(f"<{module}.{name}{digest}>".replace("<lambda>", "lambda"), function)


def _digest(code: CodeType) -> str:
    """Return a digest of the instructions and constants of a function, not of its place."""
    constants = [_digest(one) if isinstance(one, CodeType) else one for one in code.co_consts]
    content = repr((code.co_code, code.co_names, constants))
    return hashlib.sha256(content.encode()).hexdigest()[:12]

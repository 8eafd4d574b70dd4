"""Arithmetic on metrics: `a * b`, `2 * a`, `1 - a` are composites of their values of the run."""

from __future__ import annotations

from typing import Any

from weft.errors import SettingError
from weft.metrics.arithmetic import Arithmetic
from weft.metrics.base.metric import BaseMetric
from weft.metrics.base.metric_type import MetricType
from weft.metrics.names import MetricSpec


class ArithmeticOperators(BaseMetric):
    """Operators that return a `weft.Composite`.

    With an operand that cannot be part of one, such as a metric of another library or one that has
    batches already, they are those of TorchMetrics: its `CompositionalMetric` reads the states of
    both operands, and updates them."""

    def __add__(self, other: Any) -> Any:
        return _combine("+", self, other) or super().__add__(other)

    def __radd__(self, other: Any) -> Any:
        return _combine("+", other, self) or super().__radd__(other)

    def __sub__(self, other: Any) -> Any:
        return _combine("-", self, other) or super().__sub__(other)

    def __rsub__(self, other: Any) -> Any:
        return _combine("-", other, self) or super().__rsub__(other)

    def __mul__(self, other: Any) -> Any:
        return _combine("*", self, other) or super().__mul__(other)

    def __rmul__(self, other: Any) -> Any:
        return _combine("*", other, self) or super().__rmul__(other)

    def __truediv__(self, other: Any) -> Any:
        return _combine("/", self, other) or super().__truediv__(other)

    def __rtruediv__(self, other: Any) -> Any:
        return _combine("/", other, self) or super().__rtruediv__(other)

    def __pow__(self, other: Any) -> Any:
        return _combine("**", self, other) or super().__pow__(other)

    def __rpow__(self, other: Any) -> Any:
        return _combine("**", other, self) or super().__rpow__(other)

    def __neg__(self) -> Any:
        return _combine("*", -1, self) or super().__neg__()


def _combine(symbol: str, left: Any, right: Any) -> Any:
    """Return the composite of an operation, None if an operand cannot be part of one."""
    from weft.metrics.base.composite_formula import Composite

    first, second = _read_operand(left), _read_operand(right)
    if first is None or second is None:
        return None
    formula, specs = Arithmetic.from_operands(symbol, first, second)
    metrics = [one for one in (left, right) if isinstance(one, BaseMetric)]
    return Composite(formula.title(specs), metrics, formula)


def _read_operand(operand: Any) -> MetricSpec | float | None:
    """Return a number, or the spec of a metric that can be combined; None for anything else.

    Raises `SettingError` for the class of a metric, of which TorchMetrics would make a constant."""
    from weft.metrics.base.composites import is_combinable

    if isinstance(operand, MetricType):
        name = operand.__name__
        raise SettingError(f"{name} is a class; combine metric objects, such as {name}(k=10).")
    if is_combinable(operand) and operand._update_count == 0:
        return operand.spec
    if hasattr(operand, "item") and getattr(operand, "shape", None) == ():
        operand = operand.item()  # of NumPy or torch
    is_number = isinstance(operand, (int, float)) and not isinstance(operand, bool)
    return operand if is_number else None

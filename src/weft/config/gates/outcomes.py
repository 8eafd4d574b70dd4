"""The outcome of a gate, and the values that gates compare."""

from __future__ import annotations

import math
from dataclasses import dataclass

from weft.config.gates.grammar import Gate
from weft.errors import did_you_mean
from weft.evaluation.result import Result


@dataclass(frozen=True)
class GateOutcome:
    """The outcome of a gate for one model.

    The bound of a claim is the value of the baseline over the same users as `value`.
    """

    gate: Gate
    model: str
    name: str  # of the value, with its labels and its group of users
    value: float
    bound: float
    passed: bool
    detail: str  # the difference, the test of a claim, or why nothing could be compared

    @property
    def difference(self) -> float:
        """The value minus the bound."""
        return self.value - self.bound

    @property
    def comparison(self) -> str:
        """The two numbers as text, such as `0.3 >= 0.2 (baseline.json - 0.1)`."""
        return f"{self.value:.6g} {self.gate.sign} {self.bound:.6g}{self.gate.origin}"

    def __str__(self) -> str:
        word = "passed" if self.passed else "FAILED"
        return f"{word}  {self.model}: {self.name} {self.comparison}, {self.detail}"


class NotComparable(Exception):
    """A result lacks what a gate compares; the text is the reason."""


def describe_undefined(gate: Gate, value: float, bound: float) -> str:
    """Return why two values cannot be compared, empty if both are defined."""
    if math.isnan(value):
        return "the value is undefined, so the gate fails"
    if math.isnan(bound):
        return f"the value in {gate.file} is undefined, so the gate fails"
    return ""


def find_value(gate: Gate, result: Result, name: str) -> float:
    """Return the value of a metric, in the group of users or relevant items that the gate names."""
    if gate.slice is None:
        return result[name]
    slice_, group = gate.slice
    if result.slices is None:
        raise NotComparable(
            f"there is no slice {slice_!r}: the result was evaluated without slices"
        )
    rows = result.slices.filter(result.slices["slice"] == slice_)
    groups = rows["group"].unique(maintain_order=True).to_list()
    if group not in groups:
        raise NotComparable(
            f"the slice {slice_!r} has no group {group!r}.{did_you_mean(group, groups)} "
            f"Available: {', '.join(groups) or 'none'}"
        )
    for row in rows.filter(rows["group"] == group).iter_rows(named=True):
        if name == row["metric"] or name == f"{row['metric']}@{row['k']}":
            return math.nan if row["value"] is None else float(row["value"])
    raise NotComparable(f"{name} has no value in the slice {slice_!r}")

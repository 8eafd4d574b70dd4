"""The value of one metric at one cut-off, with its uncertainty."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from weft.evaluation.document_fields import (
    check_flag,
    check_list,
    check_mapping,
    check_number,
    check_optional,
    check_present,
    check_text,
    check_whole,
    describe,
    reject,
)
from weft.metrics.names import format_labels

Z95 = 1.959964  # quantile of the normal distribution for a 95% interval
REFERENCE_COLUMNS = ("floor", "ceiling")
SKILL_COLUMNS = (*REFERENCE_COLUMNS, "skill")
BOOTSTRAP_COLUMNS = ("boot_low", "boot_high", "bca_low", "bca_high", "boot_std_error")


class Interval(NamedTuple):
    """A 95% interval.

    Attributes
    ----------
    low, high
        Ends of the interval.
    kind
        `"normal"`, `"BCa"`, `"bootstrap"`, or `"none"`, for which both ends are NaN.
    """

    low: float
    high: float
    kind: str

    def __str__(self) -> str:
        return "" if self.kind == "none" else f"{self.low:.4f} to {self.high:.4f}"


@dataclass(frozen=True, eq=False)
class MetricValue:
    """A metric at one cut-off. Undefined numbers are NaN, and equal each other.

    Attributes
    ----------
    metric
        Name of the metric without its cut-off.
    k
        Cut-off, None for a metric without one.
    value, std_error
        Value and its standard error.
    users
        Number of users of the value, None if it has no meaning for the metric.
    higher_is_better
        Direction, None for a metric without one.
    target
        Best value, if the metric has one.
    cell
        Labels, for one of several values of a metric: `BiasDisparityBR@10[F, Drama]`.
    parts
        Values that a composite metric combined.
    by_power
        Pairs (power, value) of a metric with propensities from train, with other powers than its
        own.
    floor, ceiling
        Expected value of a random order of the candidates, and the best reachable value.
    boot_low, boot_high, bca_low, bca_high
        Ends of the 95% bootstrap intervals, by percentiles and BCa.
    boot_std_error
        Standard deviation of the resamples.
    """

    metric: str  # the name without its cut-off
    k: int | None
    value: float
    std_error: float = math.nan
    users: int | None = None
    higher_is_better: bool | None = None
    target: float | None = None  # the best value, if there is one
    cell: tuple[str, ...] = ()  # labels, for one of several values: BiasDisparityBR@10[F, Drama]
    parts: tuple[float, ...] = ()  # the values that a composite metric combined
    # Of a metric with propensities from train, (power, value) with other powers than its own.
    by_power: tuple[tuple[float, float], ...] = ()
    # The expected value of a random order of the offered items, and the best reachable value.
    floor: float = math.nan
    ceiling: float = math.nan
    # Bootstrap: 95% intervals by percentiles and BCa, standard deviation of the resamples.
    boot_low: float = math.nan
    boot_high: float = math.nan
    bca_low: float = math.nan
    bca_high: float = math.nan
    boot_std_error: float = math.nan

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, MetricValue):
            return NotImplemented
        return self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        """The fields, with `math.nan` for each NaN: tuples take one object as equal to itself."""
        return tuple(_unify_nan(getattr(self, field.name)) for field in fields(self))

    @property
    def plain_name(self) -> str:
        """The name of the metric with its cut-off, such as `nDCG@10`."""
        return self.metric if self.k is None else f"{self.metric}@{self.k}"

    @property
    def name(self) -> str:
        """The full name, with labels if there are any, such as `BiasDisparityBR@10[F, Drama]`."""
        return self.plain_name + format_labels(self.cell)

    @property
    def merit(self) -> float | None:
        """The value as a quantity to maximize; None for a metric without direction and target."""
        if self.higher_is_better is None:
            return None if self.target is None else -abs(self.value - self.target)
        return self.value if self.higher_is_better else -self.value

    @property
    def skill(self) -> float:
        """The position between floor and ceiling, (value - floor) / (ceiling - floor).

        1 for the best order, 0 for a random one, and below 0 for a worse one. NaN if floor and
        ceiling are equal or were not computed.
        """
        room = self.ceiling - self.floor
        return (self.value - self.floor) / room if room else math.nan

    @property
    def ci_low(self) -> float:
        """The lower end of the normal 95% confidence interval."""
        return self.value - Z95 * self.std_error

    @property
    def ci_high(self) -> float:
        """The upper end of the normal 95% confidence interval."""
        return self.value + Z95 * self.std_error

    @property
    def interval(self) -> Interval:
        """The 95% interval to show, BCa if users were resampled, otherwise the normal one.

        If BCa is undefined but the resamples vary, it is the value ± 1.96 standard deviations of
        the resamples (kind `"bootstrap"`).
        """
        if not math.isnan(self.bca_low):
            return Interval(self.bca_low, self.bca_high, "BCa")
        if not math.isnan(self.boot_std_error):
            half = Z95 * self.boot_std_error
            return Interval(self.value - half, self.value + half, "bootstrap")
        if not math.isnan(self.std_error):
            return Interval(self.ci_low, self.ci_high, "normal")
        return Interval(math.nan, math.nan, "none")

    def to_dict(self) -> dict[str, Any]:
        """Return the fields as plain values for JSON; NaN becomes None."""
        row = {"name": self.name, **asdict(self), "ci_low": self.ci_low, "ci_high": self.ci_high}
        row["cell"] = list(self.cell)
        row["parts"] = [_to_json(part) for part in self.parts]
        row["by_power"] = [[power, _to_json(value)] for power, value in self.by_power]
        if not self.by_power:
            del row["by_power"]
        for columns in (REFERENCE_COLUMNS, BOOTSTRAP_COLUMNS):
            if all(math.isnan(row[column]) for column in columns):
                row = {key: value for key, value in row.items() if key not in columns}
        return nan_to_none(row)

    @classmethod
    def from_dict(cls, row: object, field: str = "value") -> MetricValue:
        """Build a value from what `to_dict` returned. Raises `InputError` for anything else."""
        fields = check_mapping(row, field)
        required = ("metric", "k", "value", "std_error", "users", "higher_is_better")
        check_present(fields, required, field)
        cell = check_list(fields.get("cell", []), f"{field}['cell']")
        parts = check_list(fields.get("parts", []), f"{field}['parts']")
        return cls(
            metric=check_text(fields["metric"], f"{field}['metric']"),
            k=check_optional(fields["k"], f"{field}['k']", check_whole),
            users=check_optional(fields["users"], f"{field}['users']", check_whole),
            higher_is_better=check_optional(
                fields["higher_is_better"], f"{field}['higher_is_better']", check_flag
            ),
            target=check_optional(fields.get("target"), f"{field}['target']", check_number),
            cell=tuple(check_text(one, f"{field}['cell']") for one in cell),
            parts=tuple(float(check_number(one, f"{field}['parts']")) for one in parts),
            by_power=_read_powers(fields.get("by_power", []), f"{field}['by_power']"),
            **{
                name: check_number(fields.get(name), f"{field}[{name!r}]")
                for name in ("value", "std_error", *REFERENCE_COLUMNS, *BOOTSTRAP_COLUMNS)
            },
        )


def _read_powers(plain: object, field: str) -> tuple[tuple[float, float], ...]:
    """Return pairs of a power and a value. Raises `InputError` for anything else."""
    pairs = []
    for pair in check_list(plain, field):
        numbers = [float(check_number(one, field)) for one in check_list(pair, field)]
        if len(numbers) != 2:
            reject(field, describe(pair), "pairs of a power and a value")
        pairs.append((numbers[0], numbers[1]))
    return tuple(pairs)


def _unify_nan(value: Any) -> Any:
    """Return a field with `math.nan` for each NaN."""
    if isinstance(value, tuple):
        return tuple(_unify_nan(one) for one in value)
    return math.nan if isinstance(value, float) and math.isnan(value) else value


def _to_json(number: float) -> float | None:
    return None if math.isnan(number) else number


def nan_to_none(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return the row with None for NaN, which JSON does not have."""
    return {
        key: None if isinstance(value, float) and math.isnan(value) else value
        for key, value in row.items()
    }

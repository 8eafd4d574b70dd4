"""Preparation of gates before an evaluation, and their outcome for its results."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from weft.config.gates.grammar import COMPARE, Claim, Gate
from weft.errors import InputError, SettingError, did_you_mean
from weft.evaluation.result import Result, describe_differences, slice_column
from weft.evaluation.result_io import load_result
from weft.metrics.names import format_labels, parse_name, split_labels
from weft.metrics.profiles import profiled_name
from weft.metrics.registry import canonical_name, needs_cutoff
from weft.statistics.noninferiority import AdvantageTest, measure_advantage
from weft.statistics.pairing import Floats, align_users


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


def prepare_gates(
    gates: Iterable[Gate],
    *,
    models: Sequence[str],
    profile: str | None = None,
    slices: Collection[str] = (),
    folder: Path = Path(),
) -> list[Gate]:
    """Resolve metrics, check models and slices, and read files, which are relative to `folder`.

    `slices` are the names of the slices of the run. Raises `SettingError` for the first problem.
    """
    prepared = []
    for gate in gates:
        _check_known(gate, "model", gate.model, models)
        _check_known(gate, "slice", gate.slice and gate.slice[0], slices)
        name = _canonical_metric(gate, profile)
        baseline = None if gate.file is None else _read_baseline(gate, name, folder / gate.file)
        prepared.append(replace(gate, name=name, baseline=baseline))
    return prepared


def judge_gates(
    gates: Iterable[Gate], results: Sequence[Result]
) -> tuple[list[GateOutcome], list[str]]:
    """Return the outcome of every gate for each of its models, and notes about baselines."""
    outcomes, notes = [], []
    for gate in gates:
        for result in results:
            if gate.model in (None, result.name):
                outcomes.append(_judge(gate, result))
                if gate.baseline is not None:
                    name = str(gate.file)
                    notes += describe_differences(gate.baseline, name, result, "this run")
    return outcomes, list(dict.fromkeys(notes))


# --------------------------------------------------------------------------------------------------


def _check_known(gate: Gate, kind: str, name: str | None, known: Collection[str]) -> None:
    """Raise `SettingError` for a model or a slice that is not evaluated."""
    if name is not None and name not in known:
        raise SettingError(
            f"the gate {gate.text!r} is about the {kind} {name!r}, which is not evaluated."
            f"{did_you_mean(name, known)} Evaluated: {', '.join(known) or 'none'}."
        )


def _read_baseline(gate: Gate, name: str, path: Path) -> Result:
    """Return the result of a file, which must have what the gate compares."""
    try:
        baseline = load_result(path)
    except InputError as error:
        raise SettingError(
            f"the gate {gate.text!r}: {error} After the operator comes a number, or a result file "
            "as --out and Result.save write."
        ) from None
    if name not in list(baseline):
        raise SettingError(
            f"the gate {gate.text!r} compares {name}, which {path} does not have. It has: "
            f"{', '.join(baseline)}.{_hint_other_definition(name, baseline)}"
        )
    try:
        _slice_value(gate, baseline, name)
        if gate.claim is not None:
            _check_claim(gate, baseline, name)
    except _NotComparable as error:
        raise SettingError(f"the gate {gate.text!r}: {path}: {error}") from None
    return baseline


def _canonical_metric(gate: Gate, profile: str | None) -> str:
    """Return the canonical name of the metric, with its labels."""
    plain, labels = split_labels(gate.metric)
    try:
        spec = parse_name(plain)
        if spec.k is None and needs_cutoff(spec.name):
            raise SettingError(f"{plain} needs a cut-off: write '{plain}@10'.")
        name = canonical_name(plain) if profile is None else profiled_name(plain, profile)
    except SettingError as error:
        raise type(error)(f"the gate {gate.text!r}: {error.message}") from None
    return name + format_labels(labels)


def _hint_other_definition(name: str, baseline: Result) -> str:
    """Return a hint if the baseline has the metric with other parameters."""
    wanted = parse_name(split_labels(name)[0])
    others = [parse_name(value.plain_name) for value in baseline.entries]
    if any((other.name, other.k) == (wanted.name, wanted.k) for other in others):
        return " Other parameters make another metric: evaluate both in the same way."
    return ""


# --------------------------------------------------------------------------------------------------


class _NotComparable(Exception):
    """A result lacks what a gate compares; the text says why."""


def _judge(gate: Gate, result: Result) -> GateOutcome:
    try:
        name = result.entry(gate.name).name
    except KeyError as error:
        raise SettingError(
            f"the gate {gate.text!r} for the model {result.name!r}: {error.args[0]}"
        ) from None
    label = name + gate.slice_label
    try:
        if gate.claim is not None:
            return _judge_claim(gate, gate.claim, result, name)
        value = _slice_value(gate, result, name)
    except _NotComparable as error:  # the results of the run are not lost for it
        return GateOutcome(gate, result.name, label, math.nan, math.nan, False, str(error))
    bound = gate.number
    if gate.baseline is not None:
        bound = gate.apply_tolerance(_slice_value(gate, gate.baseline, gate.name))
    assert bound is not None
    undefined = _describe_undefined(gate, value, bound)
    passed = not undefined and bool(COMPARE[gate.sign](value, bound))
    detail = undefined or f"difference {value - bound:+.3g}"
    return GateOutcome(gate, result.name, label, value, bound, passed, detail)


def _describe_undefined(gate: Gate, value: float, bound: float) -> str:
    if math.isnan(value):
        return "the value is undefined, which passes no gate"
    if math.isnan(bound):
        return f"the value in {gate.file} is undefined, which passes no gate"
    return ""


def _slice_value(gate: Gate, result: Result, name: str) -> float:
    """Return the value of a metric, in the group of users or relevant items that the gate names."""
    if gate.slice is None:
        return result[name]
    slice_, group = gate.slice
    if result.slices is None:
        raise _NotComparable(f"there is no slice {slice_!r}, because it was evaluated without any")
    rows = result.slices.filter(result.slices["slice"] == slice_)
    groups = rows["group"].unique(maintain_order=True).to_list()
    if group not in groups:
        raise _NotComparable(
            f"the slice {slice_!r} has no group {group!r}.{did_you_mean(group, groups)} It has: "
            f"{', '.join(groups) or 'none'}"
        )
    for row in rows.filter(rows["group"] == group).iter_rows(named=True):
        if name == row["metric"] or name == f"{row['metric']}@{row['k']}":
            return math.nan if row["value"] is None else float(row["value"])
    raise _NotComparable(f"{name} has no value in the slice {slice_!r}")


# --------------------------------------------------------------------------------------------------


def _check_claim(gate: Gate, result: Result, name: str) -> None:
    """Raise `_NotComparable` if the result has no values of this metric per user to pair."""
    if result.entry(name).higher_is_better is None:
        raise _NotComparable(f"{name} has no direction, so that no value is worse than another")
    if result.per_user is None:
        raise _NotComparable(
            f"it has no values per user, which '{gate.sign}' pairs; evaluate it with --per-user "
            "(per_user=True)"
        )
    if name not in result.per_user.columns:
        raise _NotComparable(f"{name} has no value per user that could be paired")


def _judge_claim(gate: Gate, claim: Claim, result: Result, name: str) -> GateOutcome:
    """Return the outcome of a test over the users that the result and the baseline share."""
    assert gate.baseline is not None
    _check_claim(gate, result, name)
    _slice_value(gate, result, name)  # the slice has the group
    pair = {f"model {result.name}": result, f"file {gate.file}": gate.baseline}
    try:
        ours, theirs = align_users(pair).values(name)
    except InputError as error:
        raise _NotComparable(str(error)) from None
    if gate.slice is not None:
        ours, theirs = _select_group(gate, result, ours, theirs)
    is_shared = ~(np.isnan(ours) | np.isnan(theirs))
    ours, theirs = ours[is_shared], theirs[is_shared]
    value, bound = (float(one.mean()) if len(one) else math.nan for one in (ours, theirs))
    sign = 1.0 if result.entry(name).higher_is_better else -1.0
    margin = claim.margin_for(bound)
    test = measure_advantage(sign * (ours - theirs), margin=margin, level=claim.level)
    detail = _describe_undefined(gate, value, bound) or _describe_test(test, claim, sign, margin)
    label = name + gate.slice_label
    return GateOutcome(gate, result.name, label, value, bound, test.low > -margin, detail)


def _select_group(
    gate: Gate, result: Result, ours: Floats, theirs: Floats
) -> tuple[Floats, Floats]:
    """Return the values of the users of the gate's group, by their labels in the result."""
    assert gate.slice is not None
    column, group = slice_column(gate.slice[0]), gate.slice[1]
    if result.user_labels is None or column not in result.user_labels.columns:
        raise _NotComparable(
            f"{gate.slice[0]!r} is a slice of relevant items, which has no values per user to "
            f"pair; compare its value with a number, or with a file by '>=' or '<='"
        )
    is_member = (result.user_labels[column] == group).fill_null(value=False).to_numpy()
    members = np.flatnonzero(is_member)  # rows of the result come first among all users
    return ours[members], theirs[members]


def _describe_test(test: AdvantageTest, claim: Claim, sign: float, margin: float) -> str:
    level, users = f"{100 * claim.level:g} %", f"{test.users:,} users"
    if math.isnan(test.low):
        return f"fewer than two users are shared ({users}), which is no test"
    side = "at least" if sign > 0 else "at most"
    more = f", margin {margin:.3g}" if claim.name == "not worse than" else ""
    return (
        f"difference {sign * test.advantage:+.3g} ({level} confidence: {side} "
        f"{sign * test.low:+.3g}{more}), p = {test.p_value:.2g}, {users}"
    )

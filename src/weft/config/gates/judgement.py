"""Preparation of gates before an evaluation, and their outcome for its results."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from weft.config.gates.claims import check_claim, judge_claim
from weft.config.gates.grammar import COMPARE, Gate
from weft.config.gates.outcomes import GateOutcome, NotComparable, describe_undefined, find_value
from weft.errors import InputError, SettingError, did_you_mean
from weft.evaluation.result import Result
from weft.evaluation.result_differences import describe_differences
from weft.evaluation.result_io import load_result
from weft.metrics.names import format_labels, parse_name, split_labels
from weft.metrics.profiles import profiled_name
from weft.metrics.registry import canonical_name, needs_cutoff

_ALLOWS_LOSS = {(">", "-"), ("<", "+")}  # operators with the arithmetic that loosens their bound


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
                    notes += _describe_wide_margin(gate, outcomes[-1].bound)
                    notes += describe_differences(gate.baseline, name, result, "this run")
    return outcomes, list(dict.fromkeys(notes))


# --------------------------------------------------------------------------------------------------


def _check_known(gate: Gate, kind: str, name: str | None, known: Collection[str]) -> None:
    """Raise `SettingError` for a model or a slice that is not evaluated."""
    if name is not None and name not in known:
        raise SettingError(
            f"the gate {gate.text!r} refers to the {kind} {name!r}, which is not "
            f"evaluated.{did_you_mean(name, known)} Evaluated: {', '.join(known) or 'none'}."
        )


def _read_baseline(gate: Gate, name: str, path: Path) -> Result:
    """Return the result of a file, which must have what the gate compares."""
    try:
        baseline = load_result(path)
    except InputError as error:
        expected = "a number after the operator, or a result file that --out or Result.save wrote"
        if "%" in path.name:
            expected += (
                "; per cent can be given only as a margin, as in 'not worse than baseline.json by "
                "2%', so write '* 0.98' instead of '* 98%' or '- 2%'"
            )
        raise SettingError(f"the gate {gate.text!r}: {error} Expected {expected}.") from None
    if name not in list(baseline):
        raise SettingError(
            f"the gate {gate.text!r} compares {name}, which is not in {path}. Available: "
            f"{', '.join(baseline)}.{_hint_other_definition(name, baseline)}"
        )
    try:
        find_value(gate, baseline, name)
        if gate.claim is not None:
            check_claim(gate, baseline, name)
    except NotComparable as error:
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
        return (
            " A metric with other parameters is a different metric; evaluate both with the "
            "same parameters."
        )
    return ""


# --------------------------------------------------------------------------------------------------


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
            return judge_claim(gate, gate.claim, result, name)
        value = find_value(gate, result, name)
    except NotComparable as error:  # the results of the run are not lost for it
        value, bound = _value_or_nan(gate, result, name), _bound_or_nan(gate)
        return GateOutcome(gate, result.name, label, value, bound, False, str(error))
    bound = _bound_or_nan(gate)
    undefined = describe_undefined(gate, value, bound)
    passed = not undefined and bool(COMPARE[gate.sign](value, bound))
    detail = undefined or f"difference {value - bound:+.3g}"
    return GateOutcome(gate, result.name, label, value, bound, passed, detail)


def _value_or_nan(gate: Gate, result: Result, name: str) -> float:
    try:
        return find_value(gate, result, name)
    except NotComparable:
        return math.nan


def _describe_wide_margin(gate: Gate, bound: float) -> list[str]:
    """Return a warning if a gate allows a loss as large as the value of the baseline.

    `bound` is that of the outcome. Typical causes are 'by 2' and '- 2' instead of 2%.
    """
    if gate.claim is not None:
        value, allowed, instead = bound, gate.claim.margin_for(bound), "by 2%"
    elif gate.tolerance is not None and (gate.sign[0], gate.tolerance[0]) in _ALLOWS_LOSS:
        assert gate.baseline is not None
        value = _value_or_nan(gate, gate.baseline, gate.name)
        allowed, instead = gate.tolerance[1], "* 0.98" if gate.sign[0] == ">" else "* 1.02"
    else:
        return []
    if not allowed >= abs(value) > 0:
        return []
    return [
        f"the gate {gate.text!r} allows a loss of {allowed:.3g}, which is not below the value in "
        f"{gate.file} ({value:.3g}), so that it detects hardly any loss; for 2%, write '{instead}'"
    ]


def _bound_or_nan(gate: Gate) -> float:
    """Return the number of a gate, or the value of its file; NaN if the file has none."""
    if gate.baseline is None:
        assert gate.number is not None
        return gate.number
    value = _value_or_nan(gate, gate.baseline, gate.name)
    return value if gate.claim is not None else gate.apply_tolerance(value)

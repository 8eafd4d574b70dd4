"""Gates: conditions that results must meet, for use in CI.

    gate   := [ model ":" ] metric operator bound
    bound  := number | file | file ("-" | "+" | "*") number

`nDCG@10 >= 0.31`, `Recall@20 > baseline.json`, `als: Recall@20 >= baseline.json * 0.98`. A file is
a saved result and stands for its value of the same metric. A gate that names no model holds for
each."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from weft.errors import InputError, SettingError, did_you_mean
from weft.evaluation.metric_value import MetricValue
from weft.evaluation.result import Result, describe_differences
from weft.evaluation.result_io import load_result
from weft.metrics.names import format_labels, parse_name, split_labels, unquoted_characters
from weft.metrics.profiles import profiled_name
from weft.metrics.registry import canonical_name, needs_cutoff

# Equal up to the rounding of float64, which another machine may do in another order.
_COMPARE = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": lambda a, b: math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12),
    ">": operator.gt,
    "<": operator.lt,
}
_SIGNS = {"≥": ">=", "≤": "<="} | {sign: sign for sign in _COMPARE}
_ARITHMETIC = {"-": operator.sub, "+": operator.add, "*": operator.mul}
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
# A sign stands apart from the file, whose name may hold it, unless the file ends in .json.
_TOLERANCE = re.compile(
    rf"(?P<file>.*\S)(?:\s+|(?<=\.json)\s*)(?P<sign>[-+*])\s*(?P<number>{_NUMBER})\Z", re.DOTALL
)
_EXAMPLES = "Gates look like 'nDCG@10 >= 0.31', 'Recall@20 > baseline.json' or 'als: Recall@20 >= baseline.json - 0.005'."


@dataclass(frozen=True)
class Gate:
    """One condition. `bound` is the number, or where there is a file, what `sign` does to its
    value: `- 0.005`, `* 0.98`.
    """

    text: str  # as written
    metric: str  # as written, with its labels
    sign: str
    number: float | None
    file: Path | None = None
    tolerance: tuple[str, float] | None = None
    model: str | None = None

    def __str__(self) -> str:
        return self.text

    @property
    def origin(self) -> str:
        """Where the bound comes from, if not from the gate: ` (baseline.json - 0.005)`."""
        if self.file is None:
            return ""
        return (
            f" ({self.file})"
            if self.tolerance is None
            else f" ({self.file} {self.tolerance[0]} {self.tolerance[1]:g})"
        )

    @property
    def plain_metric(self) -> str:
        """The metric to evaluate, without labels of one of its values."""
        return split_labels(self.metric)[0]


@dataclass(frozen=True)
class ReadyGate:
    """A gate whose metric and model are known, and whose file was read."""

    gate: Gate
    name: str  # the one spelling of the metric, under the profile of the run
    baseline: Result | None = None
    baseline_value: MetricValue | None = None

    @property
    def bound(self) -> float:
        """What the value is compared with."""
        if self.baseline_value is None:
            assert self.gate.number is not None
            return self.gate.number
        if self.gate.tolerance is None:
            return self.baseline_value.value
        sign, number = self.gate.tolerance
        return float(_ARITHMETIC[sign](self.baseline_value.value, number))


@dataclass(frozen=True)
class GateOutcome:
    """What became of a gate for one model."""

    gate: Gate
    model: str
    name: str
    value: float
    bound: float
    passed: bool
    reason: str = ""  # why it could not be compared, if so

    @property
    def difference(self) -> float:
        """How far the value lies above the bound."""
        return self.value - self.bound

    def __str__(self) -> str:
        word = "passed" if self.passed else "FAILED"
        compared = f"{self.value:.6g} {self.gate.sign} {self.bound:.6g}{self.gate.origin}"
        told = f"difference {self.difference:+.3g}" if not self.reason else self.reason
        return f"{word}  {self.model}: {self.name} {compared}, {told}"


def parse_gate(text: str) -> Gate:
    """Read a gate.

    >>> gate = parse_gate("als: Recall@20 >= baseline.json - 0.005")
    >>> gate.model, gate.metric, gate.sign, str(gate.file), gate.tolerance
    ('als', 'Recall@20', '>=', 'baseline.json', ('-', 0.005))
    """
    if not isinstance(text, str):
        raise SettingError(f"a gate is text; got {text!r}. {_EXAMPLES}")
    found = _operator(text)
    if found is None:
        single = (
            " A single '=' compares nothing: write '=='."
            if "=" in re.sub(r"\(.*?\)", "", text)
            else ""
        )
        raise SettingError(
            f"the gate {text!r} has no operator (>, >=, <, <=, ==).{single} {_EXAMPLES}"
        )
    start, stop, sign = found
    left, right = text[:start].strip(), text[stop:].strip()
    if right[:1] in ("=", ">", "<") or left[-1:] in ("=", "!"):
        raise SettingError(
            f"the gate {text!r} has an operator that is not known; choose one of >, >=, <, <=, ==. "
            f"{_EXAMPLES}"
        )
    model, metric = _split_model(left)
    if not metric or not right or model == "":
        lacking = (
            "no metric"
            if not metric
            else "no number or result file after the operator"
            if not right
            else "an empty model"
        )
        raise SettingError(f"the gate {text!r} has {lacking}. {_EXAMPLES}")
    gate = Gate(text, metric, sign, None, model=model)
    if re.fullmatch(_NUMBER, right):
        number = float(right)
        if not math.isfinite(number):
            raise SettingError(
                f"the gate {text!r} compares with {right}, which is more than a number can hold."
            )
        return replace(gate, number=number)
    if re.fullmatch(r"[-+]?(nan|inf|infinity)", right, re.IGNORECASE) or re.fullmatch(
        rf"{_NUMBER}\s*\S{{0,2}}", right
    ):
        raise SettingError(
            f"the gate {text!r} compares with {right!r}, which is no number. {_EXAMPLES}"
        )
    tolerance = _TOLERANCE.match(right)
    if tolerance is None:
        return replace(gate, file=Path(right))
    return replace(
        gate,
        file=Path(tolerance["file"]),
        tolerance=(tolerance["sign"], float(tolerance["number"])),
    )


def prepare_gates(
    gates: Iterable[Gate],
    *,
    models: Sequence[str],
    profile: str | None = None,
    folder: Path = Path(),
) -> list[ReadyGate]:
    """Look up what gates speak of before anything is evaluated; files are relative to `folder`."""
    return [_ready(gate, models, profile, folder) for gate in gates]


def judge_gates(
    gates: Iterable[ReadyGate], results: Sequence[Result]
) -> tuple[list[GateOutcome], list[str]]:
    """The outcome of every gate for every model that it is about, and what to know about the files
    compared with.
    """
    outcomes, notes = [], []
    for gate in gates:
        for result in results:
            if gate.gate.model in (None, result.name):
                outcomes.append(_outcome(gate, result))
                notes += _differences(gate, result)
    return outcomes, list(dict.fromkeys(notes))


# --------------------------------------------------------------------------------------------------


def _operator(text: str) -> tuple[int, int, str] | None:
    """Where the operator starts and stops, and which it is."""
    signs = dict(unquoted_characters(text))
    for position in signs:
        for sign, meant in _SIGNS.items():
            if text.startswith(sign, position) and all(
                at in signs for at in range(position, position + len(sign))
            ):
                return position, position + len(sign), meant
    return None


def _split_model(left: str) -> tuple[str | None, str]:
    """The model, if one is named, and the metric."""
    colons = [position for position, sign in unquoted_characters(left) if sign == ":"]
    if not colons:
        return None, left
    model, metric = left[: colons[-1]].strip(), left[colons[-1] + 1 :].strip()
    if len(model) > 1 and model[0] == model[-1] and model[0] in "'\"":
        model = model[1:-1]
    return model, metric


def _ready(gate: Gate, models: Sequence[str], profile: str | None, folder: Path) -> ReadyGate:
    if gate.model is not None and gate.model not in models:
        raise SettingError(
            f"the gate {gate.text!r} is about the model {gate.model!r}, which is not evaluated."
            f"{did_you_mean(gate.model, models)} Evaluated: {', '.join(models)}."
        )
    plain, labels = split_labels(gate.metric)
    try:
        spec = parse_name(plain)
        if spec.k is None and needs_cutoff(spec.name):
            raise SettingError(f"{plain} needs a cut-off: write '{plain}@10'.")
        name = (
            canonical_name(plain) if profile is None else profiled_name(plain, profile)
        ) + format_labels(labels)
    except SettingError as error:
        raise type(error)(f"the gate {gate.text!r}: {error}") from None
    if gate.file is None:
        return ReadyGate(gate, name)
    place = folder / gate.file
    try:
        baseline = load_result(place)
    except InputError as error:
        raise SettingError(
            f"the gate {gate.text!r}: {error} After the operator comes a number, or a result file "
            "as --out and Result.save write."
        ) from None
    value = next((value for value in baseline.values if value.name == name), None)
    if value is None:
        raise SettingError(
            f"the gate {gate.text!r} compares {name}, which {place} does not have. It has: "
            f"{', '.join(baseline)}."
            f"{_another_definition(name, baseline)}"
        )
    return ReadyGate(gate, name, baseline, value)


def _another_definition(name: str, baseline: Result) -> str:
    wanted = parse_name(split_labels(name)[0])
    others = [parse_name(value.plain_name) for value in baseline.values]
    alike = any((other.name, other.k) == (wanted.name, wanted.k) for other in others)
    return " Other parameters make another metric: evaluate both in the same way." if alike else ""


# --------------------------------------------------------------------------------------------------


def _outcome(gate: ReadyGate, result: Result) -> GateOutcome:
    try:
        value = result.entry(gate.name)
    except KeyError as error:
        raise SettingError(
            f"the gate {gate.gate.text!r} for the model {result.name!r}: {error.args[0]}"
        ) from None
    bound = gate.bound
    reason = ""
    if math.isnan(value.value):
        reason = "the value is undefined, which passes no gate"
    elif math.isnan(bound):
        reason = f"the value in {gate.gate.file} is undefined, which passes no gate"
    passed = not reason and bool(_COMPARE[gate.gate.sign](value.value, bound))
    return GateOutcome(gate.gate, result.name, value.name, value.value, bound, passed, reason)


def _differences(gate: ReadyGate, result: Result) -> list[str]:
    """How the file was evaluated differently, as far as it tells."""
    return (
        []
        if gate.baseline is None
        else describe_differences(gate.baseline, str(gate.gate.file), result, "this run")
    )

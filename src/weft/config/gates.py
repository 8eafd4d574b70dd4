"""Gates: conditions on results, which fail a command in CI.

    gate   := [ model ":" ] metric operator bound
    bound  := number | file | file ("-" | "+" | "*") number

`nDCG@10 >= 0.31`, `Recall@20 > baseline.json`, `als: Recall@20 >= baseline.json * 0.98`. A file is
a saved result, and means its value of the same metric. A gate without a model applies to every
model.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from weft.errors import InputError, SettingError, did_you_mean
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
_OPERATORS = {"≥": ">=", "≤": "<="} | {sign: sign for sign in _COMPARE}
_ARITHMETIC = {"-": operator.sub, "+": operator.add, "*": operator.mul}
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
# The sign needs a space before it, since file names may contain it, unless the file ends in .json.
_TOLERANCE = re.compile(
    rf"(?P<file>.*\S)(?:\s+|(?<=\.json)\s*)(?P<sign>[-+*])\s*(?P<number>{_NUMBER})\Z", re.DOTALL
)
_EXAMPLES = (
    "Gates look like 'nDCG@10 >= 0.31', 'Recall@20 > baseline.json' or "
    "'als: Recall@20 >= baseline.json - 0.005'."
)


@dataclass(frozen=True)
class Gate:
    """A condition. Its bound is `number`, or the value of `file` changed by `tolerance`.

    `prepare_gates` resolves the metric to `name`, its canonical name under the profile of the run,
    and reads the file as `baseline`.
    """

    text: str  # as written
    metric: str  # as written, with its labels
    sign: str
    number: float | None
    file: Path | None = None
    tolerance: tuple[str, float] | None = None
    model: str | None = None
    name: str = ""
    baseline: Result | None = None

    def __str__(self) -> str:
        return self.text

    @property
    def origin(self) -> str:
        """The file of the bound, such as ` (baseline.json - 0.005)`; empty without a file."""
        tolerance = "" if self.tolerance is None else " {} {:g}".format(*self.tolerance)
        return "" if self.file is None else f" ({self.file}{tolerance})"

    @property
    def plain_metric(self) -> str:
        """The metric to evaluate, without the labels of one of its values."""
        return split_labels(self.metric)[0]

    @property
    def bound(self) -> float:
        """The number with which the value is compared."""
        if self.baseline is None:
            assert self.number is not None
            return self.number
        value = self.baseline[self.name]
        if self.tolerance is None:
            return value
        sign, number = self.tolerance
        return float(_ARITHMETIC[sign](value, number))


@dataclass(frozen=True)
class GateOutcome:
    """The outcome of a gate for one model."""

    gate: Gate
    model: str
    name: str
    value: float
    bound: float
    passed: bool
    reason: str = ""  # why it could not be compared, if so

    @property
    def difference(self) -> float:
        """The value minus the bound."""
        return self.value - self.bound

    def __str__(self) -> str:
        word = "passed" if self.passed else "FAILED"
        compared = f"{self.value:.6g} {self.gate.sign} {self.bound:.6g}{self.gate.origin}"
        reason = self.reason or f"difference {self.difference:+.3g}"
        return f"{word}  {self.model}: {self.name} {compared}, {reason}"


def parse_gate(text: str) -> Gate:
    """Parse a gate. Raises `SettingError` for text that is not one.

    >>> gate = parse_gate("als: Recall@20 >= baseline.json - 0.005")
    >>> gate.model, gate.metric, gate.sign, str(gate.file), gate.tolerance
    ('als', 'Recall@20', '>=', 'baseline.json', ('-', 0.005))
    """
    if not isinstance(text, str):
        raise SettingError(f"a gate is text; got {text!r}. {_EXAMPLES}")
    start, stop, sign = _find_operator(text)
    left, right = text[:start].strip(), text[stop:].strip()
    if right[:1] in ("=", ">", "<") or left[-1:] in ("=", "!"):
        raise SettingError(
            f"the gate {text!r} has an operator that is not known; choose one of >, >=, <, <=, ==. "
            f"{_EXAMPLES}"
        )
    model, metric = _split_model(left)
    missing = {
        "no metric": not metric,
        "no number or result file after the operator": not right,
        "an empty model": model == "",
    }
    for problem, is_present in missing.items():
        if is_present:
            raise SettingError(f"the gate {text!r} has {problem}. {_EXAMPLES}")
    return _with_bound(Gate(text, metric, sign, None, model=model), right)


def _with_bound(gate: Gate, bound: str) -> Gate:
    """Return the gate with the number or the file of its bound."""
    if re.fullmatch(_NUMBER, bound):
        number = float(bound)
        if not math.isfinite(number):
            raise SettingError(
                f"the gate {gate.text!r} compares with {bound}, which is too large for a number."
            )
        return replace(gate, number=number)
    is_not_finite = re.fullmatch(r"[-+]?(nan|inf|infinity)", bound, re.IGNORECASE)
    if is_not_finite or re.fullmatch(rf"{_NUMBER}\s*\S{{0,2}}", bound):
        raise SettingError(
            f"the gate {gate.text!r} compares with {bound!r}, which is no number. {_EXAMPLES}"
        )
    match = _TOLERANCE.match(bound)
    if match is None:
        return replace(gate, file=Path(bound))
    tolerance = match["sign"], float(match["number"])
    return replace(gate, file=Path(match["file"]), tolerance=tolerance)


def prepare_gates(
    gates: Iterable[Gate],
    *,
    models: Sequence[str],
    profile: str | None = None,
    folder: Path = Path(),
) -> list[Gate]:
    """Resolve metrics, check models and read files; files are relative to `folder`."""
    return [_prepare(gate, models, profile, folder) for gate in gates]


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


def _find_operator(text: str) -> tuple[int, int, str]:
    """Return start and stop of the operator in the text, and its canonical form."""
    characters = dict(unquoted_characters(text))
    for start in characters:
        for sign, canonical in _OPERATORS.items():
            stop = start + len(sign)
            if text.startswith(sign, start) and all(at in characters for at in range(start, stop)):
                return start, stop, canonical
    single = ""
    if "=" in re.sub(r"\(.*?\)", "", text):
        single = " A single '=' compares nothing: write '=='."
    raise SettingError(f"the gate {text!r} has no operator (>, >=, <, <=, ==).{single} {_EXAMPLES}")


def _split_model(left: str) -> tuple[str | None, str]:
    """Return the model, None if there is none, and the metric."""
    colons = [position for position, sign in unquoted_characters(left) if sign == ":"]
    if not colons:
        return None, left
    model, metric = left[: colons[-1]].strip(), left[colons[-1] + 1 :].strip()
    if len(model) > 1 and model[0] == model[-1] and model[0] in "'\"":
        model = model[1:-1]
    return model, metric


def _prepare(gate: Gate, models: Sequence[str], profile: str | None, folder: Path) -> Gate:
    if gate.model is not None and gate.model not in models:
        raise SettingError(
            f"the gate {gate.text!r} is about the model {gate.model!r}, which is not evaluated."
            f"{did_you_mean(gate.model, models)} Evaluated: {', '.join(models)}."
        )
    name = _canonical_metric(gate, profile)
    if gate.file is None:
        return replace(gate, name=name)
    path = folder / gate.file
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
    return replace(gate, name=name, baseline=baseline)


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


def _judge(gate: Gate, result: Result) -> GateOutcome:
    try:
        value = result.entry(gate.name)
    except KeyError as error:
        raise SettingError(
            f"the gate {gate.text!r} for the model {result.name!r}: {error.args[0]}"
        ) from None
    bound = gate.bound
    reason = ""
    if math.isnan(value.value):
        reason = "the value is undefined, which passes no gate"
    elif math.isnan(bound):
        reason = f"the value in {gate.file} is undefined, which passes no gate"
    passed = not reason and bool(_COMPARE[gate.sign](value.value, bound))
    return GateOutcome(gate, result.name, value.name, value.value, bound, passed, reason)

"""The text of gates: how it is read, see the package for the grammar."""

from __future__ import annotations

import math
import operator
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from weft.errors import SettingError
from weft.evaluation.result import Result
from weft.metrics.names import split_labels, unquoted_characters

# Equal up to the rounding of float64, which another machine may do in another order.
COMPARE = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": lambda a, b: math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-12),
    ">": operator.gt,
    "<": operator.lt,
}
_OPERATORS = {"≥": ">=", "≤": "<="} | {sign: sign for sign in COMPARE}
_ARITHMETIC = {"-": operator.sub, "+": operator.add, "*": operator.mul}
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
# The sign needs a space before it, since file names may contain it, unless the file ends in .json.
_TOLERANCE = re.compile(
    rf"(?P<file>.*\S)(?:\s+|(?<=\.json)\s*)(?P<sign>[-+*])\s*(?P<number>{_NUMBER})\Z", re.DOTALL
)
_CLAIM = re.compile(r"\s(?P<words>not\s+worse\s+than|better\s+than)\s", re.IGNORECASE)
_LEVEL = re.compile(rf"(?P<rest>.*\S)\s+at\s+(?P<level>{_NUMBER})\s*%\Z", re.DOTALL | re.IGNORECASE)
_MARGIN = re.compile(
    rf"(?P<rest>.*\S)\s+by\s+(?P<number>{_NUMBER})\s*(?P<unit>%?)\Z", re.DOTALL | re.IGNORECASE
)
_SLICE = re.compile(
    r"\[\s*(?P<slice>[^\[\]'\",=]+?)\s*=\s*(?P<group>'[^']*'|\"[^\"]*\"|[^\[\]'\",]+?)\s*\]\s*\Z"
)
DEFAULT_MARGIN_PERCENT = 1.0
DEFAULT_LEVEL = 0.95
_EXAMPLES = (
    "Gates look like 'nDCG@10 >= 0.31', 'Recall@20 > baseline.json', "
    "'als: Recall@20 >= baseline.json - 0.005' or 'nDCG@10 not worse than baseline.json by 2%'."
)

ClaimName = Literal["not worse than", "better than"]


@dataclass(frozen=True)
class Claim:
    """A claim that is tested over the users that a model and the baseline share.

    A model is not worse if its disadvantage is below the margin, and better if its advantage is
    above 0, at the one-sided confidence `level`.
    """

    name: ClaimName
    margin: float = 0.0  # as written: a number, or per cent of the baseline's value
    is_percentage: bool = False
    level: float = DEFAULT_LEVEL

    def margin_for(self, baseline: float) -> float:
        """Return the margin in units of the metric, for a value of the baseline."""
        return self.margin / 100 * abs(baseline) if self.is_percentage else self.margin


@dataclass(frozen=True)
class Gate:
    """A condition. Its bound is `number`, or the value of `file` changed by `tolerance`; or it has
    a claim about `file`.

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
    slice: tuple[str, str] | None = None  # name and group
    claim: Claim | None = None
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
    def slice_label(self) -> str:
        """The group of users, such as `[gender=F]`; empty for all users."""
        return "" if self.slice is None else "[{}={}]".format(*self.slice)

    def apply_tolerance(self, value: float) -> float:
        """Return the bound that follows from the value of the baseline."""
        if self.tolerance is None:
            return value
        sign, number = self.tolerance
        return float(_ARITHMETIC[sign](value, number))


def parse_gate(text: str) -> Gate:
    """Parse a gate. Raises `SettingError` for text that is not one.

    >>> gate = parse_gate("als: Recall@20 >= baseline.json - 0.005")
    >>> gate.model, gate.metric, gate.sign, str(gate.file), gate.tolerance
    ('als', 'Recall@20', '>=', 'baseline.json', ('-', 0.005))
    >>> gate = parse_gate("nDCG@10[gender=F] not worse than baseline.json by 2%")
    >>> gate.slice, gate.claim.name, gate.claim.margin, gate.claim.is_percentage
    (('gender', 'F'), 'not worse than', 2.0, True)
    """
    if not isinstance(text, str):
        raise SettingError(f"got {text!r}; expected a gate as text. {_EXAMPLES}")
    start, stop, sign = _find_claim(text) or _find_operator(text)
    left, right = text[:start].strip(), text[stop:].strip()
    is_operator = sign in COMPARE
    if is_operator and (right[:1] in ("=", ">", "<") or left[-1:] in ("=", "!")):
        raise SettingError(
            f"the gate {text!r} has an unknown operator; choose one of >, >=, <, <=, ==. "
            f"{_EXAMPLES}"
        )
    model, metric = _split_model(left)
    metric, slice_ = _split_slice(metric)
    after = "number or result file after the operator" if is_operator else f"file after '{sign}'"
    missing = {
        "no metric": not metric,
        f"no {after}": not right,
        "an empty model": model == "",
    }
    for problem, is_present in missing.items():
        if is_present:
            raise SettingError(f"the gate {text!r} has {problem}. {_EXAMPLES}")
    gate = Gate(text, metric, sign, None, model=model, slice=slice_)
    return _with_bound(gate, right) if is_operator else _with_claim(gate, right)


def _with_bound(gate: Gate, bound: str) -> Gate:
    """Return the gate with the number or the file of its bound."""
    if re.fullmatch(_NUMBER, bound):
        return replace(gate, number=_read_number(gate, bound))
    is_not_finite = re.fullmatch(r"[-+]?(nan|inf|infinity)", bound, re.IGNORECASE)
    if is_not_finite or re.fullmatch(rf"{_NUMBER}\s*\S{{0,2}}", bound):
        raise SettingError(
            f"the gate {gate.text!r} compares with {bound!r}, which is not a number. {_EXAMPLES}"
        )
    match = _TOLERANCE.match(bound)
    if match is None:
        return replace(gate, file=Path(bound))
    tolerance = match["sign"], float(match["number"])
    return replace(gate, file=Path(match["file"]), tolerance=tolerance)


def _with_claim(gate: Gate, right: str) -> Gate:
    """Return the gate with its claim: a file, a margin and a confidence level."""
    is_margin_allowed = gate.sign == "not worse than"
    level, margin, is_percentage = DEFAULT_LEVEL, 0.0, False
    if is_margin_allowed:
        margin, is_percentage = DEFAULT_MARGIN_PERCENT, True
    if match := _LEVEL.match(right):
        right, level = match["rest"], _read_number(gate, match["level"]) / 100
        if not 0.5 <= level < 1:
            raise SettingError(
                f"the gate {gate.text!r} has a confidence level of {match['level']}%; it must be "
                "from 50 to below 100."
            )
    if match := _MARGIN.match(right):
        right, margin = match["rest"], _read_number(gate, match["number"])
        is_percentage = bool(match["unit"])
        if margin < 0 or not is_margin_allowed:
            expected = "a margin of at least 0" if is_margin_allowed else "no margin"
            raise SettingError(
                f"the gate {gate.text!r} has the margin {match['number']}{match['unit']}; "
                f"'{gate.sign}' takes {expected}. {_EXAMPLES}"
            )
    if re.fullmatch(_NUMBER, right):
        raise SettingError(
            f"the gate {gate.text!r} compares users with those of a result file, but {right} is a "
            f"number; write '>= {right}' to compare with it."
        )
    name: ClaimName = "not worse than" if is_margin_allowed else "better than"
    return replace(gate, file=Path(right), claim=Claim(name, margin, is_percentage, level))


def _read_number(gate: Gate, text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise SettingError(
            f"the gate {gate.text!r} compares with {text}, which is too large for a number."
        )
    return number


def _find_claim(text: str) -> tuple[int, int, str] | None:
    """Return start and stop of the words of a claim in the text, and the claim, if there is one."""
    characters = dict(unquoted_characters(text))
    for match in _CLAIM.finditer(text):
        start, stop = match.span("words")
        if all(at in characters for at in range(start, stop)):
            return start, stop, " ".join(match["words"].lower().split())
    return None


def _find_operator(text: str) -> tuple[int, int, str]:
    """Return start and stop of the operator in the text, and its canonical form."""
    characters = dict(unquoted_characters(text))
    for start in characters:
        for sign, canonical in _OPERATORS.items():
            stop = start + len(sign)
            if text.startswith(sign, start) and all(at in characters for at in range(start, stop)):
                return start, stop, canonical
    single = ""
    if "=" in re.sub(r"\(.*?\)|\[.*?\]", "", text):
        single = " Write '==' instead of '='."
    raise SettingError(
        f"the gate {text!r} has no operator (>, >=, <, <=, ==) and neither 'not worse than' nor "
        f"'better than'.{single} {_EXAMPLES}"
    )


def _split_model(left: str) -> tuple[str | None, str]:
    """Return the model, None if there is none, and the metric."""
    colons = [position for position, sign in unquoted_characters(left) if sign == ":"]
    if not colons:
        return None, left
    model, metric = left[: colons[-1]].strip(), left[colons[-1] + 1 :].strip()
    if len(model) > 1 and model[0] == model[-1] and model[0] in "'\"":
        model = model[1:-1]
    return model, metric


def _split_slice(metric: str) -> tuple[str, tuple[str, str] | None]:
    """Return the metric, and the name and the group of its slice, if it has one."""
    match = _SLICE.search(metric)
    if match is None:
        return metric, None
    group = match["group"]
    group = group[1:-1] if group[0] in "'\"" else group
    return metric[: match.start()].rstrip(), (match["slice"], group)

"""The report of `weft.check`: its findings as data, as JSON and as text."""

from __future__ import annotations

import json
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, groupby
from typing import Any

from weft.errors import check_choice, escape_controls

SEVERITIES = ("error", "warning", "note")


@dataclass(frozen=True)
class Effect:
    """The value of a metric of a model before and after a finding is treated.

    Attributes
    ----------
    model, metric
        Names of the model and the metric.
    treatment
        Description of the treatment.
    value
        Value of the metric before the treatment; None if `weft.evaluate` rejects the data.
    treated
        Value of the metric after the treatment.
    """

    model: str
    treatment: str
    metric: str
    value: float | None  # None: weft.evaluate rejects the data
    treated: float

    @property
    def change(self) -> float:
        """The difference `treated - value`; NaN if there is no value."""
        return math.nan if self.value is None else self.treated - self.value


@dataclass(frozen=True)
class Finding:
    """A suspicious property of the data.

    Attributes
    ----------
    kind
        Name of the kind of finding, such as `"short-lists"`.
    severity
        `"error"` (`weft.evaluate` rejects the data), `"warning"` (accepted, but probably not
        intended) or `"note"` (for information).
    where
        `"truth"`, `"train"`, `"items"`, or the name of a model.
    message
        Description of the finding.
    count
        Number of cases.
    examples
        The first rows or ids.
    effects
        Changes of the metrics.
    fix
        How to fix the data.
    remark
        The reason if there are no effects.
    """

    kind: str
    severity: str
    where: str
    message: str
    count: int
    examples: tuple[Mapping[str, Any], ...]
    effects: tuple[Effect, ...]
    fix: str
    remark: str = ""


@dataclass(frozen=True)
class Input:
    """Size of one input."""

    name: str
    path: str | None
    rows: int
    users: int | None  # None: a catalogue has no users
    items: int


@dataclass(frozen=True)
class CheckReport:
    """Findings of `weft.check`, the most severe first. `print` shows them as text.

    Attributes
    ----------
    findings
        The findings.
    inputs
        Name, path, and numbers of rows, users and items of each input.
    values
        Metrics of each model as `weft.evaluate` returns them, or with the errors repaired if the
        model is in `refused`.
    refused
        Models that `weft.evaluate` rejects on these data.
    """

    findings: tuple[Finding, ...]
    inputs: tuple[Input, ...]
    values: Mapping[str, Mapping[str, float]]
    refused: tuple[str, ...]  # models that weft.evaluate rejects on these data

    def of(self, severity: str) -> tuple[Finding, ...]:
        """Return the findings of one severity."""
        severity = check_choice("severity", severity, SEVERITIES)
        return tuple(finding for finding in self.findings if finding.severity == severity)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The distinct kinds of the findings."""
        return tuple(dict.fromkeys(finding.kind for finding in self.findings))

    def to_json(self) -> str:
        """Return the report as JSON; undefined and rejected values are null."""
        document = asdict(self)
        for finding, fields in zip(self.findings, document["findings"]):
            fields["examples"] = [
                {key: _example_value(value) for key, value in example.items()}
                for example in finding.examples
            ]
            for effect, row in zip(finding.effects, fields["effects"]):
                row["change"] = effect.change
        return json.dumps(_plain(document), indent=2, ensure_ascii=False, allow_nan=False)

    def __str__(self) -> str:
        blocks = [_inputs(self), *(_block(finding, self.refused) for finding in self.findings)]
        return escape_controls("\n\n".join([*blocks, _summary(self)]))


def _plain(value: Any) -> Any:
    """Convert a value to types that JSON has."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value if isinstance(value, (str, int, bool)) or value is None else str(value)


def _example_value(value: Any) -> Any:
    """Return NaN and infinities as text, because they may be the finding itself."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


# Text of up to 80 columns.
_WIDTH = 80
_INDENT = "    "


def _inputs(checked: CheckReport) -> str:
    rows = [("", "rows", "users", "items")]
    for part in checked.inputs:
        users = "" if part.users is None else f"{part.users:,}"
        rows.append((part.name, f"{part.rows:,}", users, f"{part.items:,}"))
    paths = ("", *(part.path or "" for part in checked.inputs))
    return "\n".join(f"{line}  {path}".rstrip() for line, path in zip(_table(rows), paths))


def _block(finding: Finding, refused: Sequence[str]) -> str:
    lines = [f"{finding.severity}: {finding.kind} in {finding.where}".replace(" in ids", "")]
    lines += _wrapped(finding.message)
    lines += [_cut(f"{_INDENT}  {_example(example)}") for example in finding.examples]
    hidden = finding.count - len(finding.examples)
    if finding.examples and hidden > 0 and finding.kind not in _COUNTS_NO_EXAMPLES:
        lines.append(f"{_INDENT}  ... and {hidden:,} more")
    lines += [_INDENT + line for line in _effects(finding, refused)]
    if finding.remark:
        lines += _wrapped(f"Effect: not shown, because {finding.remark}.")
    lines += _wrapped(f"Fix: {finding.fix}")
    return "\n".join(lines)


# Kinds with a count that is not the number of possible examples.
_COUNTS_NO_EXAMPLES = {
    "id-types",
    "nothing-in-common",
    "same-lists",
    "cold-items-in-truth",
    "ties",
    "ranks-against-scores",
}


def _summary(checked: CheckReport) -> str:
    counts = [len(checked.of(severity)) for severity in SEVERITIES]
    if not any(counts):
        return "No problems found."
    shown = ", ".join(
        f"{count} {severity}{'' if count == 1 else 's'}"
        for count, severity in zip(counts, SEVERITIES)
        if count
    )
    refused = (
        f"\nweft evaluate raises an error for: {', '.join(checked.refused)}."
        if checked.refused
        else ""
    )
    return f"{shown}.{refused}"


def _example(example: Mapping[str, Any]) -> str:
    values = dict(example)
    values.pop("file", None)
    row = f"row {values.pop('row')}" if "row" in values else ""
    place = values.pop("place", values.pop("where", row))
    shown = ", ".join(f"{name} {_value(value)}" for name, value in values.items())
    return f"{place}: {shown}" if place else shown


def _value(value: Any) -> str:
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.0f}" if value.is_integer() else f"{value:g}"
    return repr(value) if isinstance(value, str) else str(value)


def _effects(finding: Finding, refused: Sequence[str]) -> list[str]:
    """Return a table per model: values before (or with errors repaired) and after treatments."""
    lines: list[str] = []
    has_several_models = len({effect.model for effect in finding.effects}) > 1
    for model, effects in groupby(finding.effects, key=lambda effect: effect.model):
        own = {(effect.metric, effect.treatment): effect for effect in effects}
        treatments = list(dict.fromkeys(treatment for _, treatment in own))
        is_repaired = finding.severity != "error" and model in refused
        head = (model * has_several_models, "errors repaired" if is_repaired else "as given")
        tables = [_effect_table(head, own, treatments)]
        if max(map(len, tables[0])) > _WIDTH - len(_INDENT):  # side by side is too wide
            tables = [_effect_table(head, own, [treatment]) for treatment in treatments]
        lines += chain.from_iterable(tables)
    return lines


def _effect_table(
    head: tuple[str, str], own: Mapping[tuple[str, str], Effect], treatments: Sequence[str]
) -> list[str]:
    """Return a table with a row per metric and a column per treatment."""
    rows = [(*head, *treatments)]
    for metric in dict.fromkeys(metric for metric, _ in own):
        effects = [own[metric, treatment] for treatment in treatments]
        before = "error" if effects[0].value is None else _number(effects[0].value)
        rows.append(
            (metric, before, *(f"{_number(effect.treated)}{_change(effect)}" for effect in effects))
        )
    return _table(rows)


def _change(effect: Effect) -> str:
    change = effect.change
    if math.isnan(change):
        return ""
    if abs(change) < 1e-12:
        text = "same"
    else:
        text = f"{change:+.4f}" if abs(change) >= 5e-5 else f"{change:+.0e}"
    return f" {f'({text})':>9}"


def _number(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:.4f}"


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return aligned lines, the first column to the left and all others to the right."""
    columns = []
    for index, column in enumerate(zip(*rows)):
        width = max(map(len, column))
        columns.append([cell.rjust(width) if index else cell.ljust(width) for cell in column])
    return ["  ".join(row).rstrip() for row in zip(*columns)]


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(
        text, _WIDTH, initial_indent=_INDENT, subsequent_indent=_INDENT, break_on_hyphens=False
    )


def _cut(line: str) -> str:
    return line if len(line) <= _WIDTH else line[: _WIDTH - 3] + "..."

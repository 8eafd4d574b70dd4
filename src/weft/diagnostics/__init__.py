"""Diagnostics of input data: suspicious rows, their counts, and their effect on the metrics."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from weft.errors import SettingError, check_choice

if TYPE_CHECKING:
    from weft.config import Configuration
    from weft.diagnostics.reading import RawTable

SEVERITIES = ("error", "warning", "note")


@dataclass(frozen=True)
class Effect:
    """A metric of a model, before and after a finding is treated."""

    model: str
    treatment: str
    metric: str
    value: float | None  # None: weft.evaluate rejects the data
    treated: float

    @property
    def change(self) -> float:
        """Difference `treated - value`; NaN if there is no value."""
        return math.nan if self.value is None else self.treated - self.value


@dataclass(frozen=True)
class Finding:
    """A suspicious property of the data.

    `severity`: "error" (`weft.evaluate` rejects it), "warning" (accepted, but probably not
    intended), "note" (for information). `where`: "truth", "train", "items" or a model. `examples`:
    the first rows or ids. `effects`: changes of the metrics; if there are none, `remark` gives the
    reason.
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
    """Findings of `weft.check`, most severe first, and the inputs.

    `values`: metrics of each model as `weft.evaluate` returns them, or with the errors repaired if
    the model is in `refused`.
    """

    findings: tuple[Finding, ...]
    inputs: tuple[Input, ...]
    values: Mapping[str, Mapping[str, float]]
    refused: tuple[str, ...]  # models that weft.evaluate rejects on these data

    def of(self, severity: str) -> tuple[Finding, ...]:
        """Return the findings of one severity."""
        if severity not in SEVERITIES:
            raise SettingError(
                f"severity={severity!r}; choose one of {', '.join(map(repr, SEVERITIES))}."
            )
        return tuple(finding for finding in self.findings if finding.severity == severity)

    @property
    def kinds(self) -> tuple[str, ...]:
        """Distinct kinds of the findings."""
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
        from weft.diagnostics.findings_text import render

        return render(self)


def check(
    source: Any,
    truth: Any,
    *,
    train: Any = None,
    items: Any = None,
    user_groups: Any = None,
    item_clusters: Any = None,
    item_features: Any = None,
    metrics: Any = ("nDCG", "Recall"),
    top_k: Iterable[int] | int | None = (10,),
    relevance_threshold: float | None = None,
    candidates: str = "all",
    profile: str | None = None,
    name: str = "lists",
) -> CheckReport:
    """Find suspicious properties of recommendation lists and of the data they are evaluated on.

    The arguments are those of `weft.evaluate`: `source` are lists (a file, a frame, `{user:
    [items]}`, `{user: {item: score}}`). For each finding, the metrics are evaluated again with the
    finding repaired or treated differently. Rows that `weft.evaluate` rejects are findings of
    severity "error", not exceptions; a file that cannot be read at all raises as usual.

    >>> import weft
    >>> lists, truth = {"ann": ["tea", "rye"], "bob": ["rye"]}, {"ann": ["rye"], "bob": ["rye"]}
    >>> checked = weft.check(lists, truth, metrics="MRR", top_k=2)
    >>> [(finding.kind, finding.count) for finding in checked.findings]
    [('short-lists', 1)]
    >>> effect = checked.findings[0].effects[0]
    >>> (effect.treatment, effect.metric, effect.value, effect.treated)
    ('users with short lists left out', 'MRR@2', 0.75, 0.5)
    """
    options = CheckOptions(
        train=train,
        items=items,
        user_groups=user_groups,
        item_clusters=item_clusters,
        item_features=item_features,
        metrics=metrics,
        top_k=top_k,
        relevance_threshold=relevance_threshold,
        candidates=candidates,
        profile=profile,
    )
    return _run_checks({name: source}, truth, options)


@dataclass(frozen=True)
class CheckOptions:
    """Inputs and settings of `weft.check` in addition to lists and truth, with their defaults."""

    train: Any = None
    items: Any = None
    user_groups: Any = None
    item_clusters: Any = None
    item_features: Any = None
    metrics: Any = ("nDCG", "Recall")
    top_k: Iterable[int] | int | None = (10,)
    relevance_threshold: float | None = None
    candidates: str = "all"
    profile: str | None = None

    def evaluation_settings(self) -> dict[str, Any]:
        """Return the validated keyword arguments of `weft.evaluate`, labels included."""
        from weft._choices import CandidatePool, choices
        from weft.data.readers.files import is_file, read_table
        from weft.errors import check_threshold
        from weft.evaluation.setting_types import read_cutoffs

        labels = {
            name: getattr(self, name) for name in ("user_groups", "item_clusters", "item_features")
        }
        return {
            **{
                name: read_table(label, name) if is_file(label) else label
                for name, label in labels.items()
                if label is not None
            },
            "metrics": self.metrics,
            "top_k": list(read_cutoffs(self.top_k) or ()),
            "relevance_threshold": check_threshold(self.relevance_threshold),
            "candidates": check_choice("candidates", self.candidates, choices(CandidatePool)[:-1]),
            "profile": self.profile,
        }


def check_models(
    sources: Mapping[str, Any],
    truth: Any,
    *,
    begin: Callable[[str], None] = lambda step: None,
    **options: Any,
) -> CheckReport:
    """Check several models by name; findings in truth and train are reported once for all models.

    `options` are the fields of `CheckOptions`. `begin` receives the name of each step when it
    starts.
    """
    return _run_checks(sources, truth, CheckOptions(**options), begin)


def _run_checks(
    sources: Mapping[str, Any],
    truth: Any,
    options: CheckOptions,
    begin: Callable[[str], None] = lambda step: None,
) -> CheckReport:
    from weft.diagnostics import reading, search
    from weft.diagnostics.what_if import Inputs

    _check_model_names(sources)
    begin("reading the data")
    lists = {name: reading.read(source, name, reading.LISTS) for name, source in sources.items()}
    truth = reading.read(truth, "truth", reading.INTERACTIONS)
    train, items = options.train, options.items
    if train is not None:
        train = reading.read(train, "train", reading.INTERACTIONS)
    if items is not None:
        items = reading.read_items(items)
    settings = options.evaluation_settings()
    # One model after the other, so that a fault of one model does not change values of another.
    findings: list[Finding] = []
    values: dict[str, Mapping[str, float]] = {}
    refused = []
    for name, table in lists.items():
        inputs = Inputs(table, truth, train, items)
        new, values[name], is_refused = search.find_all(inputs, settings, begin)
        findings += new
        refused += [name] if is_refused else []
    described = [_describe(table) for table in (*lists.values(), truth, train) if table is not None]
    if items is not None:
        described.append(Input("items", None, len(items), None, items.n_unique()))
    return CheckReport(_merge_findings(findings), tuple(described), values, tuple(refused))


def _check_model_names(sources: Mapping[str, Any]) -> None:
    if not sources:
        raise SettingError("there is nothing to check.")
    for name in sources:
        if name in ("truth", "train", "items", "ids"):
            raise SettingError(f"a model cannot be called {name!r}; give it another name.")


def _merge_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Merge the effects of equal findings of several models; sort by severity."""
    merged: dict[tuple[str, str, str], Finding] = {}
    for finding in findings:
        key = (finding.kind, finding.where, finding.message)
        if key in merged:
            finding = replace(merged[key], effects=merged[key].effects + finding.effects)
        merged[key] = finding
    return tuple(sorted(merged.values(), key=lambda finding: SEVERITIES.index(finding.severity)))


def check_configuration(
    configuration: Configuration, begin: Callable[[str], None] = lambda step: None
) -> CheckReport:
    """Check the files and metrics of a configuration; without metrics, nDCG and Recall at 10.

    A file of candidates is ignored: the metrics are those of all items.
    """
    from weft.config.run import check_complete

    evaluation = configuration.evaluation
    if not evaluation.all_metrics:
        updated = {"metrics": ["nDCG", "Recall"], "top_k": evaluation.top_k or [10]}
        evaluation = evaluation.model_copy(update=updated)
        configuration = configuration.model_copy(update={"evaluation": evaluation})
    check_complete(configuration)
    assert configuration.data is not None
    files = {
        name: getattr(configuration.data, name) for name in type(configuration.data).model_fields
    }
    data = {
        name: file.file()
        for name, file in files.items()
        if file is not None and name != "candidates"
    }
    truth = data.pop("truth")
    options = CheckOptions(
        **data,
        metrics=evaluation.all_metrics,
        top_k=evaluation.top_k,
        relevance_threshold=evaluation.relevance_threshold,
        candidates=evaluation.candidates,
        profile=evaluation.profile,
    )
    models = {name: file.file() for name, file in configuration.models.items()}
    return _run_checks(models, truth, options, begin)


def _describe(table: RawTable) -> Input:
    """Return the size of a table."""
    path = None if table.file is None else str(table.file.file.path)
    return Input(table.where, path, table.rows, len(table.users), len(table.items))


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

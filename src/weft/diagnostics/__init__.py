"""Everything suspicious about files, before any number: what it is, how often, where, and how far
it moves the metrics.
"""

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
    """A metric of a model as it is, and with a finding treated in another way."""

    model: str
    treatment: str
    metric: str
    value: float | None  # None: weft.evaluate refuses the data
    treated: float

    @property
    def change(self) -> float:
        """How far the treatment moves the metric; NaN where there is no value to move."""
        return math.nan if self.value is None else self.treated - self.value


@dataclass(frozen=True)
class Finding:
    """Something suspicious.

    `severity`: "error" (`weft.evaluate` refuses it), "warning" (it is evaluated, but is probably
    not meant), "note" (good to know). `where`: "truth", "train", "items" or a model. `examples`:
    the first rows or ids. `effects`: how far it moves the metrics; where there are none, `remark`
    says why."""

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
    """What one of the inputs holds."""

    name: str
    path: str | None
    rows: int
    users: int | None  # None: a catalogue has no users
    items: int


@dataclass(frozen=True)
class CheckReport:
    """What `weft.check` found, worst first, and what it looked at.

    `values`: each model's metrics as `weft.evaluate` gives them by default, or with the errors
    repaired if it is `refused`."""

    findings: tuple[Finding, ...]
    inputs: tuple[Input, ...]
    values: Mapping[str, Mapping[str, float]]
    refused: tuple[str, ...]  # models that weft.evaluate refuses on these data

    def of(self, severity: str) -> tuple[Finding, ...]:
        """The findings of one severity."""
        if severity not in SEVERITIES:
            raise SettingError(
                f"severity={severity!r}; choose one of {', '.join(map(repr, SEVERITIES))}."
            )
        return tuple(finding for finding in self.findings if finding.severity == severity)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of the findings, each once."""
        return tuple(dict.fromkeys(finding.kind for finding in self.findings))

    def to_json(self) -> str:
        """Everything as JSON. What is undefined or refused is null."""
        document = asdict(self)
        for finding, told in zip(self.findings, document["findings"]):
            told["examples"] = [
                {key: _shown(value) for key, value in example.items()}
                for example in finding.examples
            ]
            for effect, row in zip(finding.effects, told["effects"]):
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
    """Say everything suspicious about recommendation lists and the data that they are evaluated on.

    The arguments are those of `weft.evaluate`: `source` are lists (a file, a frame, `{user:
    [items]}`, `{user: {item: score}}`). For each finding, the metrics are evaluated again with the
    finding repaired or treated the other way. Rows that `weft.evaluate` refuses are findings of
    severity "error", not exceptions; a file that cannot be read at all is an exception as usual.

    >>> import weft
    >>> checked = weft.check({"ann": ["tea", "rye"], "bob": ["rye"]}, {"ann": ["rye"], "bob": ["rye"]}, metrics="MRR", top_k=2)
    >>> [(finding.kind, finding.count) for finding in checked.findings]
    [('short-lists', 1)]
    >>> effect = checked.findings[0].effects[0]
    >>> (effect.treatment, effect.metric, effect.value, effect.treated)
    ('users with short lists left out', 'MRR@2', 0.75, 0.5)
    """
    return check_models(
        {name: source},
        truth,
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


def check_models(
    sources: Mapping[str, Any],
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
    begin: Callable[[str], None] = lambda what: None,
) -> CheckReport:
    """The same for several models by name: what is found in truth and train is said once, with its
    effect on each model.

    `begin` is told what starts.
    """
    from weft._choices import CandidatePool, choices
    from weft.data.readers.files import is_file, read_table
    from weft.diagnostics import reading as tables
    from weft.diagnostics import search
    from weft.diagnostics import what_if as trials
    from weft.errors import check_threshold
    from weft.evaluation.setting_types import read_cutoffs

    taken = [name for name in sources if name in ("truth", "train", "items", "ids")]
    if taken or not sources:
        raise SettingError(
            f"a model cannot be called {taken[0]!r}; give it another name."
            if taken
            else "there is nothing to check."
        )
    begin("reading the data")
    lists = {name: tables.read(source, name, tables.LISTS) for name, source in sources.items()}
    read_truth = tables.read(truth, "truth", tables.INTERACTIONS)
    read_train = None if train is None else tables.read(train, "train", tables.INTERACTIONS)
    catalogue = None if items is None else tables.read_items(items)
    labels = {
        "user_groups": user_groups,
        "item_clusters": item_clusters,
        "item_features": item_features,
    }
    settings = {
        **{
            name: read_table(given, name) if is_file(given) else given
            for name, given in labels.items()
            if given is not None
        },
        "metrics": metrics,
        "top_k": list(read_cutoffs(top_k) or ()),
        "relevance_threshold": check_threshold(relevance_threshold),
        "candidates": check_choice("candidates", candidates, choices(CandidatePool)[:-1]),
        "profile": profile,
    }
    # One model after the other, so that nothing odd about one changes the numbers of another.
    found: dict[tuple[str, str, str], Finding] = {}
    values: dict[str, Mapping[str, float]] = {}
    refused = []
    for name, table in lists.items():
        findings, values[name], is_refused = search.find_all(
            trials.Inputs(table, read_truth, read_train, catalogue), settings, begin
        )
        refused += [name] if is_refused else []
        for one in findings:
            key = (one.kind, one.where, one.message)
            found[key] = (
                replace(found[key], effects=found[key].effects + one.effects)
                if key in found
                else one
            )
    ordered = sorted(found.values(), key=lambda finding: SEVERITIES.index(finding.severity))
    described = [
        _describe(table) for table in (*lists.values(), read_truth, read_train) if table is not None
    ]
    if catalogue is not None:
        described.append(Input("items", None, len(catalogue), None, catalogue.n_unique()))
    return CheckReport(tuple(ordered), tuple(described), values, tuple(refused))


def check_configuration(
    configuration: Configuration, begin: Callable[[str], None] = lambda what: None
) -> CheckReport:
    """The same for the files and metrics of a configuration; without metrics, nDCG and Recall at
    10.

    A file of candidates is not looked at: the metrics are those of all items.
    """
    from weft.config.run import check_complete

    evaluation = configuration.evaluation
    if not evaluation.all_metrics:
        updated = {"metrics": ["nDCG", "Recall"], "top_k": evaluation.top_k or [10]}
        evaluation = evaluation.model_copy(update=updated)
        configuration = configuration.model_copy(update={"evaluation": evaluation})
    check_complete(configuration)
    assert configuration.data is not None
    given = {
        name: getattr(configuration.data, name) for name in type(configuration.data).model_fields
    }
    data = {
        name: file.file()
        for name, file in given.items()
        if file is not None and name != "candidates"
    }
    return check_models(
        {name: file.file() for name, file in configuration.models.items()},
        data.pop("truth"),
        **data,
        metrics=evaluation.all_metrics,
        top_k=evaluation.top_k,
        relevance_threshold=evaluation.relevance_threshold,
        candidates=evaluation.candidates,
        profile=evaluation.profile,
        begin=begin,
    )


def _describe(table: RawTable) -> Input:
    """What a table holds."""
    path = None if table.file is None else str(table.file.file.path)
    return Input(table.where, path, table.rows, len(table.users), len(table.items))


def _plain(value: Any) -> Any:
    """A value that JSON can hold."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value if isinstance(value, (str, int, bool)) or value is None else str(value)


def _shown(value: Any) -> Any:
    """A value of an example: NaN and infinities as text, because they may be what was found."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value

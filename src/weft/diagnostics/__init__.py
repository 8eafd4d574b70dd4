"""Diagnostics of input data: suspicious rows, their counts, and their effect on the metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import polars as pl

from weft._choices import CandidatePool, ProfileName, choices
from weft._input_kinds import SIDE_INPUTS
from weft.data.number_files import read_input_files
from weft.data.readers.files import read_table
from weft.data.readers.pipes import check_pipes
from weft.data.side_inputs import merge_inputs
from weft.diagnostics import reading
from weft.diagnostics.check_report import SEVERITIES, CheckReport, Effect, Finding, Input
from weft.diagnostics.cross_table import check_across_tables
from weft.diagnostics.ids import check_id_types, check_unreadable_ids, unify_id_types
from weft.diagnostics.list_checks import check_within_lists
from weft.diagnostics.rejected_rows import (
    check_catalogue,
    check_list_rows,
    check_train_rows,
    check_truth_rows,
    ignore_ratings,
    repair_lists,
    repair_train,
    repair_truth,
)
from weft.diagnostics.what_if import DraftFinding, EffectEvaluator, Inputs, leave_metrics_out
from weft.errors import SettingError, UnknownParameter, check_choice, check_type, did_you_mean
from weft.evaluation.setting_defaults import DEFAULT_METRICS, DEFAULT_TOP_K
from weft.evaluation.setting_rules import read_metrics
from weft.evaluation.settings import EvaluationSettings
from weft.metrics.registry import find_input_kinds

if TYPE_CHECKING:
    from weft.config import Configuration
    from weft.evaluation.argument_types import (
        Features,
        IdList,
        Interactions,
        Labels,
        Metric,
        RecommendationLists,
    )

__all__ = [
    "SEVERITIES",
    "CheckReport",
    "Effect",
    "Finding",
    "Input",
    "check",
    "check_configuration",
    "check_models",
]


class CheckOptions(TypedDict, total=False):
    """Further keyword arguments of `check` and `check_models`, as in `weft.evaluate`."""

    user_groups: Labels | None
    item_clusters: Labels | None
    item_features: Features | None
    inputs: Mapping[str, Any] | None
    feature_separator: str | None
    relevance_threshold: float | None
    implicit: bool
    candidates: CandidatePool
    profile: ProfileName | None


def check(
    source: RecommendationLists,
    truth: Interactions,
    *,
    train: Interactions | None = None,
    items: IdList | None = None,
    metrics: Metric | Iterable[Metric] = DEFAULT_METRICS,
    top_k: Iterable[int] | int | None = DEFAULT_TOP_K,
    name: str = "lists",
    **options: Unpack[CheckOptions],
) -> CheckReport:
    """Find suspicious properties of recommendation lists, and of the data they are evaluated on.

    For each finding, the metrics are evaluated again with the finding repaired or treated
    differently. Rows that `weft.evaluate` rejects are findings of severity `"error"`; they raise no
    exception.

    Parameters
    ----------
    source
        Recommendation lists: a frame or file, `{user: [items]}`, `{user: {item: score}}`, or
        another form that `weft.evaluate` accepts.
    truth
        Test interactions (ground truth), as in `weft.evaluate`.
    train
        Train interactions.
    items
        Ids of the catalogue, by default every item of train, truth and lists.
    metrics
        Names of metrics, or metric objects. Default: nDCG and Recall.
    top_k
        Cut-offs of the metrics that are named without one. Default: 10.
    name
        Name of the lists in the report.
    options
        Further keyword arguments as in `weft.evaluate`: `user_groups`, `item_clusters`,
        `item_features`, `inputs`, `feature_separator`, `relevance_threshold`, `implicit`,
        `candidates` (`"all"`, `"cold"`, `"warm"` or `"listed"`) and `profile`.

    Returns
    -------
    CheckReport
        The findings, with their effects on the metrics.

    Raises
    ------
    InputError
        If a file cannot be read at all.
    SettingError
        If an option is invalid.

    Examples
    --------
    >>> import weft
    >>> lists, truth = {"ann": ["tea", "rye"], "bob": ["rye"]}, {"ann": ["rye"], "bob": ["rye"]}
    >>> checked = weft.check(lists, truth, metrics="MRR", top_k=2)
    >>> [(finding.kind, finding.count) for finding in checked.findings]
    [('short-lists', 1)]
    >>> effect = checked.findings[0].effects[0]
    >>> (effect.treatment, effect.metric, effect.value, effect.treated)
    ('without users with short lists', 'MRR@2', 0.75, 0.5)
    """
    check_type("name", name, str, "the name of the lists as text")
    return check_models(
        {name: source}, truth, train=train, items=items, metrics=metrics, top_k=top_k, **options
    )


def check_models(
    sources: Mapping[str, Any],
    truth: Any,
    *,
    train: Any = None,
    items: Any = None,
    metrics: Any = DEFAULT_METRICS,
    top_k: Iterable[int] | int | None = DEFAULT_TOP_K,
    begin: Callable[[str], None] = lambda step: None,
    **options: Unpack[CheckOptions],
) -> CheckReport:
    """Check several models by name; findings in truth and train are reported once for all models.

    The other arguments are those of `check`. `begin` receives the name of each step when it starts.
    """
    _check_names(sources, options)
    side, settings = _split_options(options, train)
    train = side.pop("train", None)
    check_pipes({**sources, "truth": truth, "train": train, "items": items})
    begin("reading the data")
    lists = {name: reading.read(source, name, use="lists") for name, source in sources.items()}
    truth = reading.read(truth, "truth", use="timed")
    if train is not None:
        train = reading.read(train, "train", use="timed")
    if items is not None:
        items = reading.read_items(items)
    kinds = find_input_kinds(side, read_metrics(metrics))
    side = read_input_files(side, kinds)
    # One model after the other, so that a fault of one model does not change values of another.
    findings: list[Finding] = []
    values: dict[str, Mapping[str, float]] = {}
    refused = []
    for name, table in lists.items():
        inputs = Inputs(table, truth, train, items, side, kinds)
        run = EvaluationSettings.from_options(metrics=metrics, top_k=top_k, name=name, **settings)
        new, values[name], is_refused = _check_model(inputs, run, begin)
        findings += new
        refused += [name] if is_refused else []
    described = [_describe(table) for table in (*lists.values(), truth, train) if table is not None]
    if items is not None:
        described.append(Input("items", None, len(items), None, items.n_unique()))
    return CheckReport(_merge_findings(findings), tuple(described), values, tuple(refused))


def _check_names(sources: Mapping[str, Any], options: CheckOptions) -> None:
    for option in options.keys() - CheckOptions.__annotations__.keys():
        hint = did_you_mean(option, CheckOptions.__annotations__)
        raise UnknownParameter(f"weft.check has no argument {option!r}.{hint}", setting=option)
    if not sources:
        raise SettingError("there are no lists to check; give a source.")
    for name in sources:
        if name in ("truth", "train", "items", "ids"):
            raise SettingError(f"{name!r} cannot be the name of a model; choose another name.")


def _split_options(options: CheckOptions, train: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the inputs of metrics, train among them, and the settings."""
    settings: dict[str, Any] = dict(options)
    named = {name: settings.pop(name, None) for name in SIDE_INPUTS}
    side = merge_inputs(settings.pop("inputs", None), train=train, **named)
    check_choice("candidates", settings.get("candidates", "all"), choices(CandidatePool)[:-1])
    return side, settings


def _check_model(
    data: Inputs, settings: EvaluationSettings, begin: Callable[[str], None]
) -> tuple[list[Finding], dict[str, float], bool]:
    """Return (findings about one model, its values with errors repaired, is_refused).

    `is_refused` is True if `weft.evaluate` rejects the inputs. Checks run in the order in which a
    finding can hide another.
    """
    name = data.lists.where
    begin(f"checking {name}")
    resolved = settings.resolve(data.available)
    repaired, drafts = _check_rows(data, resolved)
    begin(f"evaluating {name}")
    result, failures = repaired.evaluate(settings)
    drafts += [failure.draft(name) for failure in failures]
    evaluated = () if result is None else result.entries
    depths = {value.k for value in evaluated}
    depths |= {spec.k for failure in failures for spec in failure.specs}
    cutoffs = sorted(k for k in depths if k is not None)
    begin(f"comparing {name} with the truth")
    drafts += check_across_tables(repaired, resolved, cutoffs)
    drafts += check_within_lists(repaired.lists, cutoffs, evaluated)
    values = {value.name: value.value for value in evaluated}
    evaluator = EffectEvaluator(repaired, leave_metrics_out(settings, failures), values)
    findings = []
    for draft in drafts:
        begin(f"{name}: measuring the effect of {draft.kind}")
        findings.append(evaluator.complete(draft))
    return findings, values, any(draft.severity == "error" for draft in drafts)


def _check_rows(data: Inputs, settings: EvaluationSettings) -> tuple[Inputs, list[DraftFinding]]:
    """Return the repaired inputs, and the findings about rows that an evaluation rejects."""
    tables = (data.truth, data.train)
    width = next((table.width for table in tables if table is not None and table.width), None)
    if data.items is None and width:
        data = replace(data, items=pl.int_range(width, dtype=pl.Int64, eager=True))
    drafts = [*check_unreadable_ids(data), *check_id_types(data)]
    data = unify_id_types(data)
    threshold = settings.relevance_threshold
    if settings.implicit:
        data = replace(data, truth=ignore_ratings(data.truth))
    drafts += check_truth_rows(data.truth, threshold)
    if data.train is not None:
        drafts += check_train_rows(data.train)
    drafts += check_list_rows(data.lists)
    repaired = replace(
        data,
        lists=repair_lists(data.lists),
        truth=repair_truth(data.truth, threshold),
        train=None if data.train is None else repair_train(data.train),
    )
    return repaired, [*drafts, *check_catalogue(repaired)]


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
    from weft.config.run import check_complete, open_inputs, with_default_metrics

    configuration, _ = with_default_metrics(configuration)
    evaluation = configuration.evaluation
    check_complete(configuration)
    assert configuration.data is not None
    data: dict[str, Any] = {name: file.file() for name, file in configuration.data.files().items()}
    for name in ("candidates", "users"):
        data.pop(name, None)
    if configuration.data.inputs:
        data["inputs"] = open_inputs(configuration, reads_files=True)
    if not configuration.data.truth.ratings:
        table = read_table(data["truth"], "truth", use="timed")
        columns = {role: column for role, column in table.columns.items() if role != "rating"}
        data["truth"] = replace(table, columns=columns)
    return check_models(
        {name: file.file() for name, file in configuration.models.items()},
        data.pop("truth"),
        **data,
        metrics=evaluation.all_metrics,
        top_k=evaluation.top_k,
        feature_separator=evaluation.feature_separator,
        relevance_threshold=evaluation.relevance_threshold,
        implicit=evaluation.implicit,
        candidates=evaluation.candidates,
        profile=evaluation.profile,
        begin=begin,
    )


def _describe(table: reading.RawTable) -> Input:
    """Return the size of a table."""
    path = None if table.file is None else table.file.path
    return Input(table.where, path, table.rows, len(table.users), len(table.items))

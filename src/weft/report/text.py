"""What a report says in words: on what data, with which outcome, what to know before trusting it,
how to get it again.

All of it is plain text.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.errors import SettingError, UnknownMetric
from weft.evaluation.result import Result
from weft.metrics.names import MetricSpec, parse_name
from weft.metrics.registry import find_metric, metric_parameters
from weft.report import definitions as known
from weft.report.context import ReportContext
from weft.report.rerun import rerun
from weft.report.verdict_phrases import CORRECTIONS, TESTS
from weft.report.verdicts import Verdict, verdict, verdicts

__all__ = [
    "CORRECTIONS",
    "TESTS",
    "Definition",
    "Verdict",
    "counts",
    "counts_line",
    "definitions",
    "facts",
    "list_notes",
    "notes",
    "provenance",
    "rerun",
    "verdict",
    "verdicts",
]

_TIES = {
    "index": "index: the item with the lower number comes first",
    "random": "random: drawn by the seed",
    "expected": "expected: the mean over all orders of equal scores",
    "pessimistic": "pessimistic: relevant items come last",
    "optimistic": "optimistic: relevant items come first",
}
# Counts by the names that results have. Those with a cut-off or a slice in their name follow below.
_COUNTS = {
    "users": "users",
    "evaluated_users": "users evaluated",
    "users_without_relevant": "users without a relevant item",
    "users_without_truth": "users who are not in the truth",
    "missing_users": "users of the truth without a list or scores",
    "repeated_users": "rows of users who were met before",
    "users_without_group": "users without a label in user_groups",
    "users_without_candidates": "users without candidates",
    "users_with_few_negatives": "users with fewer negatives than asked for",
    "items": "items",
    "candidate_items": "items that could be recommended",
    "items_without_train": "items without a train interaction",
    "items_without_cluster": "items without a label in item_clusters",
    "items_without_features": "items without a feature",
    "relevant_items": "relevant interactions",
    "relevant_seen": "relevant items masked as seen",
    "relevant_not_offered": "relevant items that were not offered",
    "ratings_without_score": "ratings without a score",
    "train_interactions": "train interactions",
    "train_repetitions": "repeated rows of train",
    "train_rows_unmatched": "rows of train of users who are not evaluated",
    "seen_in_lists": "seen items in lists",
    "duplicates_dropped": "repeated items dropped from lists",
    "candidates": "candidates",
    "candidates_unmatched": "candidates of users or items that are not known",
    "candidates_not_listed": "candidates in no list",
}


# --------------------------------------------------------------------------------------------------


def facts(context: ReportContext) -> list[tuple[str, str]]:
    """On what the models were evaluated: what, and how much. What was left out is said with what
    became of it.
    """
    models = context.models
    rows = [
        ("model", models[0]) if len(models) == 1 else (f"{len(models)} models", ", ".join(models))
    ]
    for count in (
        "evaluated_users",
        "items",
        "candidate_items",
        "relevant_items",
        "train_interactions",
    ):
        if any(count in result.counts for result in context.results.values()):
            rows.append((_COUNTS[count], _amount(context, count)))
    cutoffs = sorted(
        {
            value.k
            for line in context.metric_rows
            for value in line.values
            if value is not None and value.k is not None
        }
    )
    if cutoffs:
        rows.append(("cut-offs" if len(cutoffs) > 1 else "cut-off", ", ".join(map(str, cutoffs))))
    rows += _left_out(context)
    for name, words in (
        ("ranked", _offered),
        ("relevant", _relevance),
        ("ties", _ties),
        ("profile", _profile),
    ):
        if told := _told(context, words):
            rows.append((name, told))
    return rows


def _left_out(context: ReportContext) -> Iterable[tuple[str, str]]:
    """Whoever and whatever does not count, or not as the rest does; nothing that is not there."""

    def counted(
        setting: str, usual: str, words: Mapping[str, str]
    ) -> Callable[[Result], str | None]:
        return lambda result: words[result.settings.get(setting, usual)]

    fates: dict[str, Callable[[Result], str | None]] = {
        "users_without_relevant": counted(
            "empty_users", "skip", {"skip": "left out of the means", "zero": "count 0"}
        ),
        "users_without_truth": lambda result: "left out of the means",
        "missing_users": lambda result: "evaluated with an empty list",
        "repeated_users": counted(
            "repeated_users", "count", {"drop": "left out", "count": "count again"}
        ),
        "users_without_candidates": lambda result: None,
        "relevant_seen": lambda result: "stay relevant and cannot be hit",
        "relevant_not_offered": lambda result: "cannot be hit",
        "duplicates_dropped": lambda result: "the best place counts",
        "train_repetitions": lambda result: "each counts once",
        "train_rows_unmatched": lambda result: None,
    }
    for count, fate in fates.items():
        concerned = {
            name: result
            for name, result in context.results.items()
            if result.counts.get(count, 0) > 0
        }
        if concerned:
            said = _told(ReportContext(concerned), fate)
            yield _COUNTS[count], _amount(context, count) + (f", {said}" if said else "")
    if seen := _told(context, _seen):
        yield "seen items", seen


def _seen(result: Result) -> str | None:
    """What became of what users have seen."""
    if "mask_seen" not in result.settings:
        return None
    if result.settings["mask_seen"]:
        return "masked"
    if "seen_in_lists" in result.counts:
        return f"kept, {result.counts['seen_in_lists']:,} in lists"
    has_train = result.provenance.get("fingerprint", {}).get("train") is not None
    return "not masked" if has_train else "not known, because there is no train"


def _offered(result: Result) -> str | None:
    """What was ranked; whoever adds batches alone knows."""
    settings = result.settings
    if "strategy" not in settings:
        return None
    pools = {
        "all": "all items",
        "cold": "items without a train interaction",
        "warm": "items with a train interaction",
        "given": "the candidates given for each user",
        "listed": "what each list holds",
    }
    pool = pools.get(settings.get("candidates", "all"), str(settings.get("candidates")))
    if settings["strategy"] == "full":
        return pool
    if settings.get("num_negatives") is None:
        said = f"sampled: relevant items among {pool}"
    else:
        how = settings.get("negative_sampling") or "uniform"
        power = (
            ""
            if settings.get("neg_alpha") is None
            else f" to the power of {settings['neg_alpha']:g}"
        )
        drawn = "uniformly" if how == "uniform" else f"by {how}{power}"
        where = "" if pool == "all items" else f" from {pool}"
        said = f"sampled: relevant items among {settings['num_negatives']:,} negatives per user, drawn {drawn}{where}"
    corrected = settings.get("estimator")
    return said + ("" if corrected is None else f"; corrected by {corrected}")


def _relevance(result: Result) -> str | None:
    if "relevance_threshold" not in result.settings:
        return None
    threshold = result.settings["relevance_threshold"]
    return "ratings above 0" if threshold is None else f"ratings from {threshold:g} on"


def _ties(result: Result) -> str | None:
    rule = result.settings.get("ties")
    return None if rule is None else _TIES.get(rule, str(rule))


def _profile(result: Result) -> str | None:
    return result.settings.get("profile")


def _amount(context: ReportContext, count: str) -> str:
    """A count, or its range over the models."""
    numbers = sorted({result.counts.get(count, 0) for result in context.results.values()})
    return f"{numbers[0]:,}" if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,}"


def _told(context: ReportContext, words: Callable[[Result], str | None]) -> str:
    """What is true of all models; or, where they differ, what is true of whom."""
    found: dict[str, list[str]] = {}
    for name, result in context.results.items():
        if said := words(result):
            found.setdefault(said, []).append(name)
    if len(found) == 1 and len(*found.values()) == len(context.results):
        return next(iter(found))
    return "; ".join(f"{said} ({', '.join(models)})" for said, models in found.items())


def counts_line(results: Sequence[Result]) -> str:
    """On how many users and items the models were evaluated, as a sentence."""
    # names do not matter here, and may be equal
    context = ReportContext(dict(enumerate(results)))  # type: ignore[arg-type]

    def told(count: str, what: str) -> str:
        amount = _amount(context, count)
        return f"{amount} {what}{'' if amount == '1' else 's'}"

    parts = [
        told("evaluated_users", "evaluated user"),
        told("items", "item"),
        told("relevant_items", "relevant interaction"),
    ]
    masks = {result.settings.get("mask_seen") for result in results}
    return ", ".join(parts) + ("; what users have seen is masked" if masks == {True} else "") + "."


# ------------------------------------------------------------------------------------------------ b


def notes(context: ReportContext) -> list[str]:
    """What to know about the numbers: of the run, of all models, of each of them, and of their
    comparison.
    """
    comparison = context.comparison
    return [
        *context.warnings,
        *list_notes(context.results.items()),
        *(() if comparison is None else comparison.notes),
    ]


def list_notes(named: Iterable[tuple[str, Result]]) -> list[str]:
    """The notes of some results: first what is true of all, then of each."""
    named = list(named)
    results = [result for _, result in named]
    shared = set.intersection(*(set(result.notes) for result in results))
    said = []
    if len({result.counts.get("items") for result in results}) > 1:
        said.append(
            "the models have different catalogues, which moves what counts items: give one as "
            "--items"
        )
    said += [
        f"all: {note}" if len(results) > 1 else note for note in results[0].notes if note in shared
    ]
    return said + [
        f"{name}: {note}" for name, result in named for note in result.notes if note not in shared
    ]


def counts(context: ReportContext) -> list[tuple[str, list[str]]]:
    """Every count with a readable name, and one value per model; "-" where a model does not have
    it.
    """
    names = list(
        dict.fromkeys(name for result in context.results.values() for name in result.counts)
    )
    found = []
    for name in names:
        numbers = [result.counts.get(name) for result in context.results.values()]
        found.append(
            (_count_name(name), ["-" if number is None else f"{number:,}" for number in numbers])
        )
    return found


def _count_name(name: str) -> str:
    what, _, k = name.partition("@")
    if what == "short_lists" and k:
        return f"users with fewer than {k} recommended items"
    if what == "ties" and k.isdigit():
        return f"users with equal scores at positions {k} and {int(k) + 1}"
    if name.startswith("users_outside_"):
        return f"users in no group of the slice {name.removeprefix('users_outside_')}"
    return _COUNTS.get(name, name.replace("_", " "))


@dataclass(frozen=True)
class Definition:
    """What a metric is. Of one that is not registered here, only the name is known; `summary` says
    so.
    """

    name: str  # as the report has it, without a cut-off: nDCG(gain=linear)
    summary: str
    definition: str = ""  # paragraphs
    better: str = ""
    range: str = ""
    parameters: tuple[
        tuple[str, str], ...
    ] = ()  # the value that this run used; "(default)" behind those that were not set
    reference: str = ""


def definitions(context: ReportContext) -> list[Definition]:
    """Each metric shown, once for all its cut-offs and labels."""
    names = dict.fromkeys(
        value.metric for line in context.metric_rows for value in line.values if value is not None
    )
    return [_definition(name) for name in names]


def _definition(name: str) -> Definition:
    try:
        spec = parse_name(name)
        metric = find_metric(spec.name)
    except (UnknownMetric, SettingError):
        return Definition(name, "not known here")
    words = known.words(metric)
    given = dict(spec.params)
    used = [(key, _value(value)) for key, value in given.items()]
    for parameter in metric_parameters(metric).values():
        if parameter.name not in given and parameter.default is not inspect.Parameter.empty:
            used.append((parameter.name, f"{_value(parameter.default)} (default)"))
    return Definition(
        name,
        words.summary,
        "\n\n".join(part for part in (words.definition, words.edge_cases) if part),
        known.better(metric),
        known.value_range(metric),
        tuple(used),
        metric.reference,
    )


def _value(value: Any) -> str:
    """A parameter as names have it."""
    return str(MetricSpec("", (("", value),)))[2:-1]


# --------------------------------------------------------------------------------------------------

_PACKAGES = {"weft": "Weft", "torch": "PyTorch", "numpy": "NumPy", "python": "Python"}
_SHORT = 8  # of a fingerprint


def provenance(context: ReportContext) -> list[tuple[str, str]]:
    """Versions, files, fingerprints, processes and settings, and how the models were compared."""

    def origin(*keys: str, length: int | None = None) -> Callable[[Result], str | None]:
        def words(result: Result) -> str | None:
            found: Any = result.provenance
            for key in keys:
                found = found.get(key) if isinstance(found, Mapping) else None
            return None if found is None else _plain(found)[:length]

        return words

    def setting(key: str) -> Callable[[Result], str | None]:
        return lambda result: (
            None if result.settings.get(key) is None else _plain(result.settings[key])
        )

    rows: list[tuple[str, str]] = []
    every = [result.provenance for result in context.results.values()]
    for key in _keys(every):
        if key not in ("fingerprint", "files", "configuration"):
            rows.append((_PACKAGES.get(key, key), _told(context, origin(key))))
    for key in _keys(one.get("files", {}) for one in every):
        rows.append((f"file of {key}", _told(context, origin("files", key))))
    for key in _keys(one.get("fingerprint", {}) for one in every):
        if key == "source_kind":
            rows.append(("kind of source", _told(context, origin("fingerprint", key))))
        else:
            rows.append(
                (f"fingerprint of {key}", _told(context, origin("fingerprint", key, length=_SHORT)))
            )
    for key in _keys(result.settings for result in context.results.values()):
        if key != "metrics":  # the tables have them
            rows.append((key.replace("_", " "), _told(context, setting(key))))
    if context.comparison is not None:
        rows += [
            (
                "comparison",
                "; ".join(context.comparison.caption(test) for test in context.comparison.tests),
            )
        ]
    return [(name, told) for name, told in rows if told]


def _keys(mappings: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for mapping in mappings for key in mapping))


def _plain(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_plain(one)}" for key, one in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(_plain, value)) if isinstance(value, (list, tuple)) else str(value)

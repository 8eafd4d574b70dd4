"""The texts of a report: data, notes, counts and provenance; verdicts, definitions and reruns.

All of it is plain text.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from weft.evaluation.result import Result
from weft.evaluation.sampling_settings import NEGATIVE_SETTINGS
from weft.report.context import ReportContext
from weft.report.definitions import MetricDefinition
from weft.report.definitions import metric_definitions as definitions
from weft.report.rerun import rerun
from weft.report.verdict_phrases import caption_test
from weft.report.verdicts import Verdict, verdict, verdicts

__all__ = [
    "MetricDefinition",
    "Verdict",
    "counts",
    "counts_line",
    "definitions",
    "facts",
    "list_notes",
    "notes",
    "provenance",
    "rerun",
    "subtitle",
    "verdict",
    "verdicts",
]

_TIES = {
    "index": "index (the item with the lower index comes first)",
    "random": "random (drawn with the seed)",
    "expected": "expected (mean over all orders of equal scores)",
    "pessimistic": "pessimistic (relevant items come last)",
    "optimistic": "optimistic (relevant items come first)",
}
# Readable names of counts. Counts with a cut-off or a slice in their name are in `_count_name`.
_COUNTS = {
    "users": "users",
    "evaluated_users": "evaluated users",
    "users_without_relevant": "users without a relevant item",
    "users_without_truth": "users not in the truth",
    "missing_users": "users of the truth without a list or scores",
    "repeated_users": "repeated rows of users",
    "invalid_scores": "rows with scores that are NaN or +inf",
    "users_without_group": "users without a label in user_groups",
    "users_without_candidates": "users without candidates",
    "users_with_few_negatives": "users with fewer negatives than requested",
    "items": "items",
    "candidate_items": "candidate items",
    "items_without_train": "items without a train interaction",
    "items_without_cluster": "items without a label in item_clusters",
    "items_without_features": "items without a feature",
    "relevant_items": "relevant interactions",
    "truth_outside_targets": "truth interactions that are not targets",
    "relevant_seen": "relevant items masked as seen",
    "relevant_not_offered": "relevant items that are not candidates",
    "ratings_without_score": "ratings without a score",
    "judged_not_relevant": "rows of the truth that are not relevant",
    "zero_ratings": "ratings of 0",
    "graded_ratings": "ratings other than 0 and 1",
    "large_ratings": "relevant ratings above 20",
    "truth_interactions": "rows of the truth",
    "truth_in_train": "rows of the truth that are also in train",
    "train_interactions": "train interactions",
    "train_repetitions": "repeated rows of train",
    "train_rows_unmatched": "rows of train of users that are not evaluated",
    "seen_in_lists": "seen items in lists",
    "lists_with_rank_gaps": "lists with gaps in their ranks",
    "duplicates_dropped": "repeated items dropped from lists",
    "repeated_in_lists": "repeated items in lists",
    "unknown_in_lists": "items of lists outside the catalogue",
    "candidates": "candidates",
    "candidates_unmatched": "candidates of unknown users or items",
    "candidates_not_listed": "candidates that are in no list",
}
_SIZE_COUNTS = (
    "evaluated_users",
    "items",
    "candidate_items",
    "relevant_items",
    "train_interactions",
)
_POOLS = {
    "all": "all items",
    "cold": "items without a train interaction",
    "warm": "items with a train interaction",
    "given": "given candidates per user",
    "listed": "the items of each list",
}
_Describe = Callable[[Result], str | None]


# --------------------------------------------------------------------------------------------------


def facts(context: ReportContext) -> list[tuple[str, str]]:
    """Return names and values of what was evaluated: data, cut-offs, exclusions, settings."""
    models = context.models
    names = (f"{len(models)} models", ", ".join(models))
    rows = [("model", models[0]) if len(models) == 1 else names]
    for count in _SIZE_COUNTS:
        if any(count in result.counts for result in context.results.values()):
            rows.append((_COUNTS[count], _format_count(context, count)))
    cutoffs = sorted(
        {row.any_value.k for row in context.metric_rows if row.any_value.k is not None}
    )
    if cutoffs:
        rows.append(("cut-offs" if len(cutoffs) > 1 else "cut-off", ", ".join(map(str, cutoffs))))
    descriptions: dict[str, _Describe] = {
        "data": _describe_split,
        "candidates": _describe_candidates,
        "relevant items": _describe_relevance,
        "ties": _describe_ties,
        "profile": lambda result: result.settings.get("profile"),
    }
    return [*rows, *_exclusions(context), *_describe_all(context, descriptions.items())]


def _describe_split(result: Result) -> str | None:
    split = result.provenance.get("split")
    return None if split is None else f"split by {split}"


def subtitle(context: ReportContext, date: datetime.date) -> str:
    """Return the files of the data, the date of the report, and the version of Weft."""
    origins = [result.provenance for result in context.results.values()]
    parts = []
    for role in ("truth", "train"):
        files = dict.fromkeys(
            str(origin["files"][role]) for origin in origins if role in origin.get("files", {})
        )
        if files:
            parts.append(f"{role}: {', '.join(files)}")
    parts.append(f"report created on {date.isoformat()}")
    versions = dict.fromkeys(str(origin["weft"]) for origin in origins if "weft" in origin)
    parts += [f"Weft {', '.join(versions)}"] if versions else []
    return " · ".join(parts)


def _describe_all(
    context: ReportContext, descriptions: Iterable[tuple[str, _Describe]]
) -> Iterator[tuple[str, str]]:
    """Yield the names and texts of what has a description for some model."""
    for name, describe in descriptions:
        if text := _describe_models(context, describe):
            yield name, text


def _exclusions(context: ReportContext) -> Iterable[tuple[str, str]]:
    """Yield the counts of what is excluded or treated specially, with its treatment."""

    def by_setting(name: str, default: str, treatments: Mapping[str, str]) -> _Describe:
        return lambda result: treatments[result.settings.get(name, default)]

    treatments: dict[str, _Describe] = {
        "users_without_relevant": by_setting(
            "empty_users", "skip", {"skip": "excluded from means", "zero": "counted as 0"}
        ),
        "users_without_truth": by_setting(
            "extra_users", "count", {"count": "excluded from means", "skip": "excluded"}
        ),
        "missing_users": lambda result: "evaluated with an empty list",
        "repeated_users": by_setting(
            "repeated_users", "count", {"drop": "excluded", "count": "counted again"}
        ),
        "users_without_candidates": lambda result: None,
        "relevant_seen": lambda result: "remain relevant, but cannot be hits",
        "relevant_not_offered": lambda result: "cannot be hits",
        "lists_with_rank_gaps": lambda result: "items below a gap move up",
        "duplicates_dropped": lambda result: "the best position is kept",
        "repeated_in_lists": lambda result: "counted as misses",
        "unknown_in_lists": lambda result: "counted as misses",
        "train_repetitions": lambda result: "counted once",
        "train_rows_unmatched": lambda result: None,
    }
    for count, describe in treatments.items():
        concerned = {
            name: result
            for name, result in context.results.items()
            if result.counts.get(count, 0) > 0
        }
        if concerned:
            treatment = _describe_models(ReportContext(concerned), describe)
            amount = _format_count(context, count)
            yield _COUNTS[count], f"{amount}, {treatment}" if treatment else amount
    if seen := _describe_models(context, _describe_seen):
        yield "seen items", seen


def _describe_seen(result: Result) -> str | None:
    if "mask_seen" not in result.settings:
        return None
    if result.settings["mask_seen"]:
        return "masked"
    if "seen_in_lists" in result.counts:
        return f"not removed ({result.counts['seen_in_lists']:,} in lists)"
    has_train = result.provenance.get("fingerprint", {}).get("train") is not None
    return "not masked" if has_train else "unknown (no train data)"


def _describe_candidates(result: Result) -> str | None:
    """Return the ranked items; None for an `Evaluator`, which is not given them."""
    settings = result.settings
    if "strategy" not in settings:
        return None
    candidates = settings.get("candidates", "all")
    pool = _POOLS.get(candidates, str(candidates))
    if settings["strategy"] == "full":
        return pool
    text = f"sampled: relevant items among {_describe_negatives(settings, pool)}"
    estimator = settings.get("estimator")
    return text if estimator is None else f"{text}; full ranking estimated by {estimator}"


def _describe_negatives(settings: Mapping[str, Any], pool: str) -> str:
    number, distribution, exponent = (settings.get(name) for name in NEGATIVE_SETTINGS)
    if number is None:
        return pool
    power = "" if exponent is None else f" to the power of {exponent:g}"
    is_uniform = distribution in (None, "uniform")
    drawn = "uniformly" if is_uniform else f"by {distribution}{power}"
    origin = "" if pool == _POOLS["all"] else f" from {pool}"
    return f"{number:,} negatives per user, drawn {drawn}{origin}"


def _describe_relevance(result: Result) -> str | None:
    if "relevance_threshold" not in result.settings:
        return None
    if result.settings.get("implicit"):
        return "all interactions (ratings are ignored)"
    threshold = result.settings["relevance_threshold"]
    return "ratings above 0" if threshold is None else f"ratings of at least {threshold:g}"


def _describe_ties(result: Result) -> str | None:
    rule = result.settings.get("ties")
    return None if rule is None else _TIES.get(rule, str(rule))


def _format_count(context: ReportContext, count: str) -> str:
    """Return a count, or its range over the models."""
    numbers = sorted({result.counts.get(count, 0) for result in context.results.values()})
    return f"{numbers[0]:,}" if len(numbers) == 1 else f"{numbers[0]:,} to {numbers[-1]:,}"


def _describe_models(context: ReportContext, describe: _Describe) -> str:
    """Return the description that all models share, or each with the models that it is about."""
    models_by_text: dict[str, list[str]] = {}
    for name, result in context.results.items():
        if text := describe(result):
            models_by_text.setdefault(text, []).append(name)
    if len(models_by_text) == 1 and len(*models_by_text.values()) == len(context.results):
        return next(iter(models_by_text))
    return "; ".join(f"{text} ({', '.join(models)})" for text, models in models_by_text.items())


def counts_line(results: Sequence[Result]) -> str:
    """Return a sentence with the numbers of users, items and relevant interactions."""
    # Models are numbered, because their names may be equal.
    context = ReportContext({str(number): result for number, result in enumerate(results)})
    parts = []
    for count, noun in (
        ("evaluated_users", "evaluated user"),
        ("items", "item"),
        ("relevant_items", "relevant interaction"),
    ):
        amount = _format_count(context, count)
        parts.append(f"{amount} {noun}{'' if amount == '1' else 's'}")
    is_masked = {result.settings.get("mask_seen") for result in results} == {True}
    return f"{', '.join(parts)}{'; seen items are masked' if is_masked else ''}."


# --------------------------------------------------------------------------------------------------


def notes(context: ReportContext) -> list[str]:
    """Return the notes on the run, on all models, on each of them, and on their comparison."""
    comparison = context.comparison
    own = () if comparison is None else comparison.notes
    return [*context.warnings, *list_notes(context.results.items()), *own]


def list_notes(named_results: Iterable[tuple[str, Result]]) -> list[str]:
    """Return the notes of results with their names: first those of all models, then of each."""
    pairs = list(named_results)
    shared = set.intersection(*(set(result.notes) for _, result in pairs))
    lines = []
    if len({result.counts.get("items") for _, result in pairs}) > 1:
        lines.append(
            "the models have different catalogues, which changes metrics that depend on the number "
            "of items; give the same catalogue to all (items=, --items)"
        )
    prefix = "all models: " if len(pairs) > 1 else ""
    lines += [f"{prefix}{note}" for note in pairs[0][1].notes if note in shared]
    return lines + [
        f"{name}: {note}" for name, result in pairs for note in result.notes if note not in shared
    ]


def counts(context: ReportContext) -> list[tuple[str, list[str]]]:
    """Return readable names of all counts with a value per model, "-" for one without it."""
    results = context.results.values()
    rows = []
    for name in dict.fromkeys(name for result in results for name in result.counts):
        numbers = (result.counts.get(name) for result in results)
        texts = ["-" if number is None else f"{number:,}" for number in numbers]
        rows.append((_count_name(name), texts))
    return rows


def _count_name(name: str) -> str:
    base, _, k = name.partition("@")
    if base == "short_lists" and k:
        return f"users with fewer than {k} recommended items"
    if base == "ties" and k.isdigit():
        return f"users with equal scores at positions {k} and {int(k) + 1}"
    if name.startswith("users_outside_"):
        return f"users without a group in the slice {name.removeprefix('users_outside_')}"
    if name.startswith("relevant_outside_"):
        slice_name = name.removeprefix("relevant_outside_")
        return f"relevant items without a group in the item slice {slice_name}"
    return _COUNTS.get(name, name.replace("_", " "))


# --------------------------------------------------------------------------------------------------

_PROVENANCE = {
    "weft": "Weft",
    "torch": "PyTorch",
    "numpy": "NumPy",
    "python": "Python",
    "ids": "origin of ids",
}
_SETTINGS = {"nan_scores": "NaN scores"}
_FINGERPRINT_LENGTH: int | None = 8


def provenance(context: ReportContext) -> list[tuple[str, str]]:
    """Return versions, files, fingerprints, processes, settings, and the tests of a comparison."""
    rows = [*_describe_all(context, _provenance_readers(context))]
    if context.comparison is not None:
        comparison = context.comparison
        tests = [caption_test(comparison, test) for test in comparison.tests]
        rows.append(("comparison", "; ".join(tests)))
    return rows


def _provenance_readers(context: ReportContext) -> Iterator[tuple[str, _Describe]]:
    origins = [result.provenance for result in context.results.values()]
    for key in _keys(origins):
        if key not in ("fingerprint", "files", "configuration", "split"):
            yield _PROVENANCE.get(key, key.replace("_", " ")), _reader("provenance", key)
    for key in _keys(origin.get("files", {}) for origin in origins):
        yield f"{key} file", _reader("provenance", "files", key)
    for key in _keys(origin.get("fingerprint", {}) for origin in origins):
        name, length = f"{key.replace('_', ' ')} fingerprint", _FINGERPRINT_LENGTH
        if key == "source_kind":
            name, length = "source kind", None
        yield name, _reader("provenance", "fingerprint", key, length=length)
    for key in _keys(result.settings for result in context.results.values()):
        if key != "metrics":  # the tables have them
            yield _SETTINGS.get(key, key.replace("_", " ")), _reader("settings", key)


def _reader(attribute: str, *keys: str, length: int | None = None) -> _Describe:
    """Return a function that formats a nested entry of a result's provenance or settings."""

    def describe(result: Result) -> str | None:
        value: Any = getattr(result, attribute)
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else None
        return None if value is None else _format_value(value)[:length]

    return describe


def _keys(mappings: Iterable[Mapping[str, Any]]) -> list[str]:
    return list(dict.fromkeys(key for mapping in mappings for key in mapping))


def _format_value(value: Any) -> str:
    if isinstance(value, Mapping):
        return ", ".join(f"{key}: {_format_value(entry)}" for key, entry in value.items())
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ", ".join(map(_format_value, value)) if isinstance(value, (list, tuple)) else str(value)

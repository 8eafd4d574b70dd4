"""Notes of a result: remarks on counts, undefined values and intervals.

Notes are stored in files and shown by every interface, so they name settings without the syntax of
one interface.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.data import Features, Labels, Train
from weft.evaluation.bootstrap import BootstrapInterval
from weft.evaluation.metric_set import MetricSet
from weft.evaluation.metric_value import MetricValue
from weft.metrics.base.metric import BaseMetric
from weft.metrics.names import format_labels
from weft.ranking.rank_estimator import RankEstimator

# `BaseMetric.sampling_behaviour` of metrics to which rank estimators apply.
_ESTIMATED = ("corrected", "combined")
# Inputs that items may lack: the name of the count, and the text of the note.
_ITEMS_WITHOUT = {
    "train": ("items_without_train", "have no train interaction"),
    "item_clusters": (
        "items_without_cluster",
        "have no label in item_clusters and are in no cluster",
    ),
    "item_features": ("items_without_features", "have no feature in item_features"),
}
_SHOWN_CELLS, _SHOWN_NAMES = 3, 4


@dataclass(frozen=True)
class NoteContext:
    """Settings and inputs of an evaluation that notes depend on."""

    metric_set: MetricSet
    inputs: Mapping[str, Any]
    ties: str
    empty_users: str
    estimator: RankEstimator | None
    has_lists: bool  # True if the source gives recommendation lists, not scores
    has_candidates: bool  # True if candidates are not the whole catalogue
    drops_repeats: bool = False  # True if repeated rows of a user are left out

    @property
    def labels(self) -> dict[str, Labels | Features]:
        """The labels and features of users and items, by the names that notes use."""
        named = {**self.inputs}
        named |= {f"the slice {name!r}": labels for name, labels in self.metric_set.slices.items()}
        return {
            name: labels for name, labels in named.items() if isinstance(labels, (Labels, Features))
        }


Counts = Mapping[str, int]
NoteRule = Callable[[NoteContext, Counts], Iterator[str]]


def count_items_without_input(metric_set: MetricSet, inputs: Mapping[str, Any]) -> dict[str, int]:
    """Count the items that lack an input which metrics of the run use."""
    return {
        count: given.num_cold_items if isinstance(given, Train) else given.num_unlabelled
        for name, (count, _) in _ITEMS_WITHOUT.items()
        if name in metric_set.needs and (given := inputs[name]) is not None
    }


def count_notes(context: NoteContext, counts: Counts) -> list[str]:
    """Return the notes on the users, items, ties and estimates of an evaluation."""
    return [note for rule in _RULES for note in rule(context, counts)]


def _users_without_truth(context: NoteContext, counts: Counts) -> Iterator[str]:
    users = f"of {counts['users']:,} users"
    left_out = "are left out of the means over evaluated users"
    if counts["evaluated_users"] == 0 and context.empty_users == "skip":
        yield "no user has a relevant item: every mean over evaluated users is undefined"
    if empty := counts["users_without_relevant"]:
        effect = "count 0" if context.empty_users == "zero" else left_out
        yield f"{empty:,} {users} have no relevant item and {effect}"
    if unknown := counts["users_without_truth"]:
        yield f"{unknown:,} {users} are not in the truth and {left_out}"


def _missing_users(context: NoteContext, counts: Counts) -> Iterator[str]:
    if missing := counts["missing_users"]:
        lack = "scores and are evaluated with an empty list"
        if context.has_lists:
            lack = "list and are evaluated with an empty one"
        yield f"{missing:,} users of the truth have no {lack}"


def _repeated_users(context: NoteContext, counts: Counts) -> Iterator[str]:
    if repeated := counts.get("repeated_users"):
        effect = "count again (the setting repeated_users can drop them)"
        if context.drops_repeats:
            effect = "are left out"
        yield f"{repeated:,} rows repeat users of earlier rows and {effect}"


def _unreachable_items(context: NoteContext, counts: Counts) -> Iterator[str]:
    relevant = f"of {counts['relevant_items']:,} relevant items"
    if seen := counts["relevant_seen"]:
        yield (
            f"{seen:,} {relevant} are masked because they are in train; they stay relevant and "
            "cannot be hit"
        )
    if (unreachable := counts["relevant_not_offered"]) > 0:
        reason = "no finite score"
        if context.has_candidates:
            reason = "not among the candidates, or without a finite score"
        yield f"{unreachable:,} {relevant} were not offered ({reason})"


def _short_lists(context: NoteContext, counts: Counts) -> Iterator[str]:
    for k in context.metric_set.cutoffs:
        if short := counts[f"short_lists@{k}"]:
            yield f"{short:,} users have fewer than {k} recommended items"


def _ties_at_cutoffs(context: NoteContext, counts: Counts) -> Iterator[str]:
    for k in context.metric_set.cutoffs:
        if tied := counts[f"ties@{k}"]:
            yield (
                f"{tied:,} users have equal scores at positions {k} and {k + 1}: the tie rule "
                f"{context.ties!r} decides which items are in the top {k}"
            )


def _users_without_label(context: NoteContext, counts: Counts) -> Iterator[str]:
    users = f"of {counts['users']:,} users"
    for name in context.metric_set.slices:
        if outside := counts[f"users_outside_{name}"]:
            yield (
                f"{outside:,} {users} have no label in the slice {name!r} and are in no group of it"
            )
    without = counts.get("users_without_group")
    if without and "user_groups" in context.metric_set.needs:
        yield f"{without:,} {users} have no label in user_groups and are in no group"


def _unknown_labels(context: NoteContext, counts: Counts) -> Iterator[str]:
    for name, labels in context.labels.items():
        if unknown := labels.num_unknown:
            kind = "items" if name.startswith("item_") else "users"
            yield f"{unknown:,} labels of {name} belong to {kind} that are not known here"


def _items_without_input(context: NoteContext, counts: Counts) -> Iterator[str]:
    for name, (count, lack) in _ITEMS_WITHOUT.items():
        if name in context.metric_set.needs and (without := counts.get(count)):
            yield f"{without:,} of {counts['items']:,} items {lack}"


def _drawn_ties(context: NoteContext, counts: Counts) -> Iterator[str]:
    """Name metrics without a closed form for tied items, also because ranks are estimated."""

    def is_drawn(metric: BaseMetric) -> bool:
        is_estimated = context.estimator and metric.sampling_behaviour in _ESTIMATED
        return not metric.has_expected_tie_form or bool(is_estimated)

    if context.ties == "expected" and (names := context.metric_set.select_names(is_drawn)):
        yield (
            f"the tie rule 'expected' has no closed form for {', '.join(names)}: ties are broken "
            "as by the rule 'random'"
        )


def _estimated_ranks(context: NoteContext, counts: Counts) -> Iterator[str]:
    if context.estimator is None:
        return
    select_names, method = context.metric_set.select_names, context.estimator.method
    if names := select_names(lambda metric: metric.sampling_behaviour in _ESTIMATED):
        verb = "estimates" if len(names) == 1 else "estimate"
        yield f"{', '.join(names)} {verb} the ranking of all items, by the estimator {method!r}"
    if names := select_names(lambda metric: metric.sampling_behaviour == "candidates"):
        yield (
            f"the estimator {method!r} does not apply to {', '.join(names)}: computed on the "
            "sampled candidates"
        )


_RULES: tuple[NoteRule, ...] = (
    _users_without_truth,
    _missing_users,
    _repeated_users,
    _unreachable_items,
    _short_lists,
    _ties_at_cutoffs,
    _users_without_label,
    _unknown_labels,
    _items_without_input,
    _drawn_ties,
    _estimated_ranks,
)


# --------------------------------------------------------------------------------------------------


def undefined_notes(
    metric_set: MetricSet, values: Sequence[MetricValue], earlier: Sequence[str]
) -> Iterator[str]:
    """Yield why values are undefined, one note per reason that no earlier note starts with."""
    classes = {str(spec.with_cutoff(None)): metric for spec, metric in metric_set.classes.items()}
    by_reason: dict[str, dict[str, list[str]]] = {}
    for value in values:
        metric = classes[value.metric]
        reason = metric.undefined_cell if value.cell else metric.undefined
        if math.isnan(value.value) and not any(note.startswith(reason) for note in earlier):
            cells = by_reason.setdefault(reason, {}).setdefault(value.plain_name, [])
            cells.append(format_labels(value.cell))
    names = {value.plain_name for value in values}
    for spec in metric_set.specs:
        if str(spec) not in names:
            yield f"{spec} has no value: no user or no item has a label"
    for reason, metrics in by_reason.items():
        shown = [
            name if cells == [""] else f"{name} for {_shorten(cells, _SHOWN_CELLS)}"
            for name, cells in metrics.items()
        ]
        yield f"{', '.join(shown)} {'is' if len(shown) == 1 else 'are'} undefined: {reason}"


def interval_notes(
    metric_set: MetricSet,
    values: Sequence[MetricValue],
    intervals: Mapping[str, BootstrapInterval],
    resamples: int,
) -> Iterator[str]:
    """Yield the notes on bootstrap intervals."""
    if metric_set.stateful:
        names = ", ".join(map(str, metric_set.stateful))
        verb = "keeps a state" if len(metric_set.stateful) == 1 else "keep states"
        yield f"{names} {verb} of their own, which cannot be resampled: no bootstrap interval"
    undefined = {
        name: interval.undefined
        for name, interval in intervals.items()
        if interval.undefined and not math.isnan(interval.low)
    }
    if undefined:
        verb = "has" if len(undefined) == 1 else "have"
        yield (
            f"{_shorten(undefined, _SHOWN_NAMES)} {verb} no value in up to "
            f"{max(undefined.values()):,} of {resamples:,} resamples; the intervals are those of "
            "the others"
        )
    if without_bca := [value.name for value in values if value.interval.kind == "bootstrap"]:
        yield (
            f"{_shorten(without_bca, _SHOWN_NAMES)}: the BCa interval is undefined, because nearly "
            "all resamples, which hold fewer different users, are on one side of the value; shown "
            "is the value ± 1.96 standard deviations of the resamples"
        )


def _shorten(names: Iterable[str], shown: int) -> str:
    """Join the first `shown` names and count the others."""
    listed = list(names)
    more = f" and {len(listed) - shown} more" if len(listed) > shown else ""
    return ", ".join(listed[:shown]) + more

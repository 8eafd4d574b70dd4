"""What a pass found, in words: whatever a reader of its values should know."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from weft.data import Features, Labels, Train
from weft.evaluation.bootstrap import BootstrapInterval
from weft.evaluation.metric_set import MetricSet
from weft.evaluation.metric_value import MetricValue
from weft.metrics.base.metric import BaseMetric
from weft.metrics.names import format_labels
from weft.ranking.positions import RankEstimator

# What becomes of metrics under a correction: see `BaseMetric.sampling_behaviour`.
ESTIMATED = ("corrected", "combined")
# What to say of items that lack an input which a metric looks at: the count, and what follows.
_ITEMS_WITHOUT = {
    "train": ("items_without_train", "have no train interaction"),
    "item_clusters": (
        "items_without_cluster",
        "have no label in item_clusters and are in no cluster",
    ),
    "item_features": ("items_without_features", "have no feature in item_features"),
}


@dataclass(frozen=True)
class NoteContext:
    """How a pass counted, and what it was given."""

    metric_set: MetricSet
    inputs: Mapping[str, Any]
    ties: str
    empty_users: str
    correction: RankEstimator | None
    has_lists: bool  # what the source gave: lists, or scores
    has_candidates: bool  # whether something else than the whole catalogue was offered
    drops_repeats: bool = False  # whether each user counts once

    def draws_ties(self, metric: BaseMetric) -> bool:
        """Whether ties="expected" cannot be averaged over: never where positions are estimated."""
        return not metric.has_expected_tie_form or (
            self.correction is not None and metric.sampling_behaviour in ESTIMATED
        )


def count_items_without_input(metric_set: MetricSet, inputs: Mapping[str, Any]) -> dict[str, int]:
    """Items that the metrics leave out, or treat in their own way."""
    uses = metric_set.needs
    return {
        count: given.num_cold_items if isinstance(given, Train) else given.num_unlabelled
        for name, (count, _) in _ITEMS_WITHOUT.items()
        if name in uses and (given := inputs[name]) is not None
    }


def count_notes(about: NoteContext, counts: Mapping[str, int]) -> list[str]:
    """What a reader should know about the users, items and ties of a pass."""
    notes, metric_set = [], about.metric_set
    if counts["evaluated_users"] == 0 and about.empty_users == "skip":
        notes.append("no user has a relevant item: every mean over evaluated users is undefined")
    if empty := counts["users_without_relevant"]:
        how = (
            "count 0"
            if about.empty_users == "zero"
            else "are left out of the means over evaluated users"
        )
        notes.append(f"{empty:,} of {counts['users']:,} users have no relevant item and {how}")
    if unknown := counts["users_without_truth"]:
        notes.append(
            f"{unknown:,} of {counts['users']:,} users are not in the truth and are left out of "
            "the means over evaluated users"
        )
    if missing := counts["missing_users"]:
        what = (
            "list and are evaluated with an empty one"
            if about.has_lists
            else "scores and are evaluated with an empty list"
        )
        notes.append(f"{missing:,} users of the truth have no {what}")
    if again := counts.get("repeated_users"):
        how = (
            "are left out"
            if about.drops_repeats
            else "count again; repeated_users='drop' counts each user once"
        )
        notes.append(f"{again:,} rows are of users who were met before, and {how}")
    if seen := counts["relevant_seen"]:
        notes.append(
            f"{seen:,} of {counts['relevant_items']:,} relevant items are masked because they are "
            "in train; "
            "they stay relevant and cannot be hit"
        )
    if (gone := counts["relevant_not_offered"]) and gone > 0:
        why = (
            "not among the candidates, or without a finite score"
            if about.has_candidates
            else "no finite score"
        )
        notes.append(
            f"{gone:,} of {counts['relevant_items']:,} relevant items were not offered ({why})"
        )
    for k in metric_set.cutoffs:
        if short := counts[f"short_lists@{k}"]:
            notes.append(f"{short:,} users have fewer than {k} recommended items")
    for k in metric_set.cutoffs:
        if tied := counts[f"ties@{k}"]:
            notes.append(
                f"{tied:,} users have equal scores at positions {k} and {k + 1}: "
                f"ties={about.ties!r} decides what is in the top {k}"
            )
    uses = metric_set.needs
    for name in metric_set.slices:
        if outside := counts[f"users_outside_{name}"]:
            notes.append(
                f"{outside:,} of {counts['users']:,} users have no label in the slice {name!r} and "
                "are in no group of it"
            )
    if (without := counts.get("users_without_group")) and "user_groups" in uses:
        notes.append(
            f"{without:,} of {counts['users']:,} users have no label in user_groups and are in no "
            "group"
        )
    for name, labels in {
        **about.inputs,
        **{f"slices[{name!r}]": labels for name, labels in metric_set.slices.items()},
    }.items():
        if isinstance(labels, (Labels, Features)) and labels.num_unknown:
            kind = "item" if name.startswith("item_") else "user"
            notes.append(
                f"{labels.num_unknown:,} labels of {name} belong to {kind}s that are not known here"
            )
    for name, (what, effect) in _ITEMS_WITHOUT.items():
        if name in uses and (without := counts.get(what)):
            notes.append(f"{without:,} of {counts['items']:,} items {effect}")
    if about.ties == "expected" and (others := metric_set.names_of(about.draws_ties)):
        notes.append(
            f"ties='expected' has no closed form for {', '.join(others)}: drawn as with "
            "ties='random'"
        )
    if about.correction is not None and (
        corrected := metric_set.names_of(lambda metric: metric.sampling_behaviour in ESTIMATED)
    ):
        notes.append(
            f"correction={about.correction.method!r}: {', '.join(corrected)} "
            f"estimate{'' if len(corrected) > 1 else 's'} what "
            "ranking all items would give"
        )
    if about.correction is not None and (
        others := metric_set.names_of(lambda metric: metric.sampling_behaviour == "candidates")
    ):
        notes.append(
            f"correction={about.correction.method!r} has no estimate for {', '.join(others)}: "
            "computed on the sampled candidates"
        )
    return notes


def undefined_notes(
    metric_set: MetricSet, values: tuple[MetricValue, ...], already_said: list[str]
) -> Iterator[str]:
    """Why values are undefined, one note per reason."""
    classes = {str(spec.with_cutoff(None)): metric for spec, metric in metric_set.classes.items()}
    names: dict[str, dict[str, list[str]]] = {}
    for value in values:
        reason = (
            classes[value.metric].undefined_cell if value.cell else classes[value.metric].undefined
        )
        if math.isnan(value.value) and not any(note.startswith(reason) for note in already_said):
            names.setdefault(reason, {}).setdefault(value.plain_name, []).append(
                format_labels(value.cell)
            )
    told = {value.plain_name for value in values}
    for spec in metric_set.specs:
        if str(spec) not in told:
            yield f"{spec} has no value: no user or no item has a label"
    for reason, metrics in names.items():
        shown = []
        for name, cells in metrics.items():
            more = f" and {len(cells) - 3} more" if len(cells) > 3 else ""
            shown.append(name + ("" if cells == [""] else f" for {', '.join(cells[:3])}{more}"))
        yield f"{', '.join(shown)} {'is' if len(shown) == 1 else 'are'} undefined: {reason}"


def interval_notes(
    metric_set: MetricSet,
    values: tuple[MetricValue, ...],
    found: Mapping[str, BootstrapInterval],
    resamples: int,
) -> Iterator[str]:
    """What to know about the intervals of resampled users."""
    if metric_set.own:
        names = ", ".join(map(str, metric_set.own))
        verb = "keeps a state" if len(metric_set.own) == 1 else "keep states"
        yield f"{names} {verb} of their own, which cannot be resampled: no bootstrap interval"
    if gone := {
        name: one.undefined
        for name, one in found.items()
        if one.undefined and not math.isnan(one.low)
    }:
        yield (
            f"{_some(gone)} {'has' if len(gone) == 1 else 'have'} no value in up to "
            f"{max(gone.values()):,} of "
            f"{resamples:,} resamples; the intervals are those of the others"
        )
    if outside := [value.name for value in values if value.interval.kind == "bootstrap"]:
        yield (
            f"{_some(outside)}: the BCa interval is undefined, because nearly all resamples, which "
            "hold fewer different users, "
            "lie on one side of the value; shown is the value ± 1.96 standard deviations of the "
            "resamples"
        )


def _some(names: Iterable[str]) -> str:
    """Names for a note, not all if they are many."""
    first = list(names)
    more = f" and {len(first) - 4} more" if len(first) > 4 else ""
    return ", ".join(first[:4]) + more

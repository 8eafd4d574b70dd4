"""Notes of a result: remarks on its inputs, counts, undefined values and intervals.

Notes are stored in files and shown by every interface, so they name settings without the syntax of
one interface.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from weft._input_kinds import InputKind, UserLabels
from weft.data import Features, Train
from weft.data.dataset import EvaluationData
from weft.data.sources import ListSource
from weft.errors import agree
from weft.evaluation.bootstrap import BootstrapInterval
from weft.evaluation.candidates import CandidateProvider
from weft.evaluation.counts import items_without, unknown_items, users_without
from weft.evaluation.list_notes import list_notes
from weft.evaluation.metric_set import MetricSet
from weft.evaluation.metric_value import MetricValue
from weft.evaluation.own_state_notes import describe_kept_repeats, own_state_notes
from weft.evaluation.propensity_notes import propensity_notes
from weft.evaluation.rating_notes import judgement_notes, rating_notes, unrated_notes
from weft.evaluation.settings import EvaluationSettings
from weft.evaluation.slice_notes import named_inputs, slice_notes, target_notes
from weft.evaluation.state import EvaluationState
from weft.metrics.base.metric import BaseMetric
from weft.metrics.declarations import MAX_RATING, declared_inputs
from weft.metrics.names import format_labels
from weft.metrics.registry import all_metrics

if TYPE_CHECKING:
    from weft.evaluation.evaluator import Evaluator

Counts = Mapping[str, int]
# `BaseMetric.sampling_behaviour` of metrics to which rank estimators apply.
_ESTIMATED = ("corrected", "combined")
# By form of an input, what items or users without a value have, or count as.
_LACKS = {
    "interactions": "{have} no train interaction",
    "label": "{have} no label in {name} and {are} in no {group}",
    "features": "{have} no feature in {name}",
    "number": "{have} no number in {name} and {count} as {missing}",
    "vector": "{have} no vector in {name} and {count} as {missing}",
    "list": "{have} no list in {name}",
}
_REPEATED_ROWS = " {n} repeated (user, item) row{s}; each pair is counted once"
_SHOWN_CELLS, _SHOWN_NAMES = 3, 4


def input_notes(
    dataset: EvaluationData,
    settings: EvaluationSettings,
    candidates: CandidateProvider,
    counts: Counts,
    metric_set: MetricSet,
) -> Iterator[str]:
    """Yield the notes about the inputs of a run."""
    for file in dataset.files.values():
        yield from file.notes
    yield from dataset.notes
    if others := counts.get("candidates_unmatched"):
        yield agree(others, "{n} row{s} of candidates {belong} to users that are not evaluated")
    if repeated := counts.get("candidates_repeated"):
        yield agree(repeated, "candidates contain" + _REPEATED_ROWS)
    if (missing := counts.get("users_without_source")) and settings.missing_lists == "skip":
        kind = "scores" if dataset.lists is None else "list"
        yield agree(
            missing,
            "{n} user{s} of the truth {have} no {kind} and {are} excluded (missing_lists='skip')",
            kind=kind,
        )
    if isinstance(dataset.source, ListSource):
        yield from list_notes(dataset.source, settings, counts, metric_set)
    if settings.candidates != "all" or settings.strategy == "sampled":
        yield from _candidate_notes(candidates, metric_set)
    if MAX_RATING in metric_set.needs:
        names = metric_set.select_names(lambda metric: MAX_RATING in metric.needed_inputs())
        yield (
            f"max_grade is {dataset.stats.max_rating:g}, the highest rating of the truth, in "
            f"{', '.join(names)}; give max_grade to compare with other data"
        )
    if "truth_in_train" in counts:
        yield from _train_notes(counts)


def _candidate_notes(candidates: CandidateProvider, metric_set: MetricSet) -> Iterator[str]:
    yield from candidates.notes()
    if names := metric_set.select_names(lambda metric: metric.is_exposure_metric):
        verb = "depend" if len(names) > 1 else "depends"
        yield (
            f"{', '.join(names)} {verb} on which items are recommended; only candidates were "
            f"ranked: {candidates.describe()}"
        )


def _train_notes(counts: Counts) -> Iterator[str]:
    if common := counts.get("truth_in_train"):
        yield agree(
            common,
            "{n} of {total:,} rows of the truth {are} also in train: a model may have learned "
            "{them} in training. weft check lists {them}",
            total=counts["truth_interactions"],
        )
    if repeated := counts.get("train_repetitions"):
        yield agree(repeated, "train contains" + _REPEATED_ROWS)
    if unmatched := counts.get("train_rows_unmatched"):
        yield agree(unmatched, "{n} row{s} of train {belong} to users that are not evaluated")


# --------------------------------------------------------------------------------------------------


def state_notes(
    evaluator: Evaluator, state: EvaluationState, counts: Counts, values: Sequence[MetricValue]
) -> list[str]:
    """Return the notes on users, items, ties, estimates, ratings and undefined values."""
    metric_set = evaluator.metric_set
    notes = [*target_notes(evaluator.settings, counts)]
    notes += [*_user_notes(evaluator, state, counts), *_list_notes(evaluator, state, counts)]
    if metric_set.has_slices or evaluator.kinds.keys() - {"train"} or "train" in metric_set.needs:
        notes += _label_notes(evaluator, counts)
    notes += [*unrated_notes(evaluator, counts), *judgement_notes(evaluator, counts)]
    notes += propensity_notes(metric_set, state, values)
    if evaluator.rule.name == "expected" or evaluator.estimator is not None:
        notes += _estimate_notes(evaluator)
    if counts["graded_ratings"]:
        notes += rating_notes(evaluator)
    notes += _undefined_notes(metric_set, values, notes)
    if metric_set.stateful:
        notes += own_state_notes(evaluator)
    return notes


def _user_notes(evaluator: Evaluator, state: EvaluationState, counts: Counts) -> Iterator[str]:
    left_out = "{are} excluded from the means over evaluated users"
    of_users = "{n} of {total:,} users "
    total = counts["users"]
    if total == 0:
        yield "no users were evaluated: the data, or the batches passed to update, have none"
    elif counts["evaluated_users"] == 0 and evaluator.settings.empty_users == "skip":
        yield "no user has a relevant item: every mean over evaluated users is undefined"
    if empty := counts["users_without_relevant"]:
        effect = "{count} as 0" if evaluator.settings.empty_users == "zero" else left_out
        yield agree(empty, of_users + "{have} no relevant item and " + effect, total=total)
    unknown = counts["users_without_truth"]
    if unknown and evaluator.settings.extra_users == "skip":
        yield agree(
            unknown,
            "{n} user{s} {have} no interaction in the truth and {are} excluded from all metrics "
            "(extra_users='skip')",
        )
    elif unknown:
        yield agree(unknown, of_users + "{are} not in the truth and " + left_out, total=total)
    if missing := counts["missing_users"]:
        lack = "scores and {are} evaluated with an empty list"
        if state.has_lists:
            lack = "list and {are} evaluated with an empty one"
        yield agree(missing, "{n} user{s} of the truth {have} no " + lack)
    if repeated := counts.get("repeated_users"):
        effect = (
            "counted again (reset() starts a new epoch; in one epoch, repeated_users='drop' "
            "excludes such rows)"
        )
        if evaluator.drops_repeats:
            effect = f"excluded{describe_kept_repeats(evaluator)}"
        yield agree(
            repeated,
            "{n} row{s} {repeat} users of earlier rows and {are} {effect}",
            effect=effect,
        )


def _list_notes(evaluator: Evaluator, state: EvaluationState, counts: Counts) -> Iterator[str]:
    of_items = "{n} of {total:,} relevant items "
    total = counts["relevant_items"]
    if seen := counts["relevant_seen"]:
        yield agree(
            seen,
            of_items + "{are} masked because {they} {are} in train; {they} {remain} relevant, but "
            "cannot be recommended",
            total=total,
        )
    if (unreachable := counts["relevant_not_offered"]) > 0:
        reason = "no finite score"
        if state.has_candidates:
            reason = "not among the candidates, or without a finite score"
        yield agree(
            unreachable, of_items + "cannot be recommended ({reason})", total=total, reason=reason
        )
    yield from _cutoff_notes(evaluator, counts)


def _cutoff_notes(evaluator: Evaluator, counts: Counts) -> Iterator[str]:
    """Yield the notes on short lists and ties, with the numbers of users at each cut-off."""
    cutoffs = evaluator.metric_set.cutoffs
    short = {k: counts[f"short_lists@{k}"] for k in cutoffs if counts[f"short_lists@{k}"]}
    if short:
        (first, users), *others = short.items()
        more = "".join(f", {number:,} fewer than {k}" for k, number in others)
        items = agree(first, "{n} recommended item{s}") + more
        yield agree(users, "{n} user{s} {have} fewer than ") + items
    tied = {k: counts[f"ties@{k}"] for k in cutoffs if counts[f"ties@{k}"]}
    if tied:
        yield _describe_ties(tied, evaluator.rule.name)


def _describe_ties(tied: Mapping[int, int], rule: str) -> str:
    """Return the note on the users with equal scores at each cut-off."""
    (first, users), *others = tied.items()
    more = "".join(f", {number:,} at {k} and {k + 1}" for k, number in others)
    effect = f"decides which items are in the top {'k' if others else first}"
    if rule == "expected":
        effect = "averages over all orders of these items"
    return (
        agree(users, "{n} user{s} {have} equal scores ")
        + f"at positions {first} and {first + 1}{more}: the tie rule {rule!r} {effect}"
    )


def _label_notes(evaluator: Evaluator, counts: Counts) -> Iterator[str]:
    yield from slice_notes(evaluator, counts)
    yield from _unused_notes(evaluator)
    yield from _lack_notes(evaluator, counts, "user")
    kinds: dict[str, InputKind] = {**evaluator.kinds}
    given = {name: evaluator.inputs[name] for name in kinds}
    for name, groups in evaluator.metric_set.slices.items():
        given[f"the slice {name!r}"], kinds[f"the slice {name!r}"] = groups, UserLabels()
    for name, value in given.items():
        if not isinstance(value, Train) and value.num_unknown:
            form = "label" if kinds[name].form == "features" else kinds[name].form
            yield agree(
                value.num_unknown,
                "{n} {form}{s} of {name} {belong} to unknown {axis}s",
                form=form,
                name=name,
                axis=kinds[name].axis,
            )
        if unknown := counts.get(unknown_items(name)):
            yield agree(
                unknown,
                "{n} item{s} in the lists of {name} {are} not in the catalogue of this evaluation "
                "and {match} no recommended item; {their} position{s} {are} kept",
                name=name,
            )
        if isinstance(value, Features):
            yield from value.notes
    yield from _lack_notes(evaluator, counts, "item")


def _lack_notes(evaluator: Evaluator, counts: Counts, axis: str) -> Iterator[str]:
    """Say how many users or items have no value in the inputs that metrics read."""
    for name, kind in evaluator.kinds.items():
        own_axis = "user" if kind.axis == "user" else "item"
        count = users_without(name) if axis == "user" else items_without(name)
        if own_axis == axis and name in evaluator.metric_set.needs and counts.get(count):
            group = "group" if axis == "user" else "cluster"
            missing = f"{getattr(kind, 'missing', 0):g}".replace("nan", "NaN")
            yield agree(
                counts[count],
                "{n} of {total:,} {axis}s " + _LACKS[kind.form],
                total=counts[f"{axis}s"],
                axis=axis,
                name=name,
                group=group,
                missing=missing,
            )


def _unused_notes(evaluator: Evaluator) -> Iterator[str]:
    """Name labels that were given although nothing in the run reads them."""
    metric_set = evaluator.metric_set
    used = metric_set.needs | named_inputs(evaluator.settings)
    if evaluator.settings.per_user:
        used.add("user_groups")  # the group of each user is in the result
    for name, kind in evaluator.kinds.items():
        if kind.form != "interactions" and name not in used:
            readers = [
                metric.__name__ for metric in all_metrics() if name in declared_inputs(metric)
            ]
            yield (
                f"{name} was given, but no metric of this run uses it (metrics that do: "
                f"{_shorten(readers, _SHOWN_NAMES)})"
            )


def _estimate_notes(evaluator: Evaluator) -> Iterator[str]:
    """Name the metrics with ties that are drawn, and those with estimated ranks."""
    select_names, estimator = evaluator.metric_set.select_names, evaluator.estimator

    def is_drawn(metric: BaseMetric) -> bool:
        is_estimated = estimator is not None and metric.sampling_behaviour in _ESTIMATED
        return not metric.has_expected_tie_form or is_estimated

    if evaluator.rule.name == "expected" and (names := select_names(is_drawn)):
        yield (
            f"the tie rule 'expected' has no closed form for {', '.join(names)}: ties are broken "
            "by the rule 'random'"
        )
    if estimator is None:
        return
    if names := select_names(lambda metric: metric.sampling_behaviour in _ESTIMATED):
        verb = "is an estimate" if len(names) == 1 else "are estimates"
        yield (
            f"{', '.join(names)} {verb} of the value of the full ranking (estimator "
            f"{estimator.method!r})"
        )
    if names := select_names(lambda metric: metric.sampling_behaviour == "candidates"):
        yield (
            f"the estimator {estimator.method!r} does not apply to {', '.join(names)}: computed on "
            "the sampled candidates"
        )


def _undefined_notes(
    metric_set: MetricSet, values: Sequence[MetricValue], earlier: Sequence[str]
) -> Iterator[str]:
    """Yield why values are undefined, one note per reason that no earlier note starts with."""
    by_reason: dict[str, dict[str, list[str]]] = {}
    for value in values:
        if not math.isnan(value.value):
            continue
        metric = metric_set.classes_by_name[value.metric]
        reason = (value.cell and metric.undefined_cell) or metric.undefined
        if not any(note.startswith(reason) for note in earlier):
            cells = by_reason.setdefault(reason, {}).setdefault(value.plain_name, [])
            cells.append(format_labels(value.cell))
    evaluated = {(value.metric, value.k) for value in values}
    for spec, name in metric_set.names.items():
        if (name, spec.k) not in evaluated:
            yield f"{spec} has no value: no user or no item has a label"
    for reason, metrics in by_reason.items():
        shown = [
            name if cells == [""] else f"{name} for {_shorten(cells, _SHOWN_CELLS)}"
            for name, cells in metrics.items()
        ]
        yield f"{', '.join(shown)} {'is' if len(shown) == 1 else 'are'} undefined: {reason}"


# --------------------------------------------------------------------------------------------------


def interval_notes(
    values: Sequence[MetricValue],
    intervals: Mapping[str, BootstrapInterval],
    resamples: int,
) -> Iterator[str]:
    """Yield the notes on bootstrap intervals."""
    undefined = {
        name: interval.undefined
        for name, interval in intervals.items()
        if interval.undefined and not math.isnan(interval.low)
    }
    if undefined:
        verb = "is" if len(undefined) == 1 else "are"
        yield (
            f"{_shorten(undefined, _SHOWN_NAMES)} {verb} undefined in up to "
            f"{max(undefined.values()):,} of {resamples:,} resamples; the intervals use the other "
            "resamples"
        )
    if without_bca := [value.name for value in values if value.interval.kind == "bootstrap"]:
        yield (
            f"{_shorten(without_bca, _SHOWN_NAMES)}: the BCa interval is undefined, because nearly "
            "all resamples are on one side of the value (a resample has fewer distinct users). The "
            "interval shown is the value ± 1.96 standard deviations of the resamples"
        )


def _shorten(names: Iterable[str], shown: int) -> str:
    """Join the first `shown` names and count the others."""
    listed = list(names)
    more = f" and {len(listed) - shown} more" if len(listed) > shown else ""
    return ", ".join(listed[:shown]) + more

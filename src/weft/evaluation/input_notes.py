"""Notes of a result about its inputs: lists, train, and the candidates of each user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from weft.data.dataset import EvaluationData
from weft.data.sources import ListSource
from weft.evaluation.candidates import CandidateProvider
from weft.evaluation.settings import EvaluationSettings


def input_notes(
    dataset: EvaluationData,
    settings: EvaluationSettings,
    candidates: CandidateProvider,
    counts: Mapping[str, int],
    exposure_metrics: Sequence[str],
) -> Iterator[str]:
    """Yield the notes about the inputs of a run.

    `exposure_metrics` are the metrics that depend on which items are listed.
    """
    for file in dataset.files.values():
        yield from file.notes
    yield from dataset.notes
    if others := counts.get("candidates_unmatched"):
        yield f"{others:,} rows of candidates belong to users who are not evaluated"
    if repeated := counts.get("candidates_repeated"):
        yield f"candidates repeat {repeated:,} (user, item) rows; each counts once"
    if (missing := counts.get("users_without_source")) and settings.missing_lists == "skip":
        kind = "scores" if dataset.lists is None else "list"
        yield (
            f"{missing:,} users of the truth have no {kind} and are left out (missing_lists='skip')"
        )
    yield from _list_notes(dataset, settings, counts)
    yield from candidates.notes()
    if exposure_metrics and (description := candidates.describe()):
        verb = "look" if len(exposure_metrics) > 1 else "looks"
        yield (
            f"{', '.join(exposure_metrics)} {verb} at which items are listed, and ran on "
            f"candidates: {description}"
        )
    if repeated := counts.get("train_repetitions"):
        yield f"train repeats {repeated:,} (user, item) rows; each counts once"
    if unmatched := counts.get("train_rows_unmatched"):
        yield f"{unmatched:,} rows of train belong to users who are not evaluated"


def _list_notes(
    dataset: EvaluationData, settings: EvaluationSettings, counts: Mapping[str, int]
) -> Iterator[str]:
    if not isinstance(dataset.source, ListSource):
        return
    lists = dataset.source.table
    if lists.order == "rank" and lists.has_scores:
        yield "the lists have ranks and scores: they are ranked by rank"
    if lists.order == "rows" and lists.unused_columns:
        unread = ", ".join(map(repr, lists.unused_columns))
        yield (
            "the lists have neither scores nor ranks: rows are taken best first (columns that were "
            f"not read: {unread})"
        )
    if dropped := counts.get("duplicates_dropped"):
        yield f"{dropped:,} rows repeat an item of their list; its best place is kept"
    if seen := counts.get("seen_in_lists"):
        is_masked = settings.mask_seen is True
        outcome = "are removed" if is_masked else "are kept; mask_seen=True removes them"
        yield f"{seen:,} recommended items are in their user's train and {outcome}"

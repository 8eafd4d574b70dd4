"""Notes of a result on recommendation lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from weft.data.sources import ListSource
from weft.errors import agree
from weft.evaluation.metric_set import MetricSet
from weft.evaluation.settings import EvaluationSettings
from weft.metrics.coverage import DuplicateRate, ValidRate


def list_notes(
    source: ListSource,
    settings: EvaluationSettings,
    counts: Mapping[str, int],
    metric_set: MetricSet,
) -> Iterator[str]:
    """Yield the notes about recommendation lists: their order, gaps, repeated and seen items."""
    yield from _order_notes(source)
    if gaps := counts.get("lists_with_rank_gaps"):
        yield agree(gaps, "{n} list{s} {have} gaps in {their} ranks; the items below a gap move up")
    if dropped := counts.get("duplicates_dropped"):
        yield agree(
            dropped, "{n} row{s} {repeat} an item of {their} list; its best position is kept"
        )
    if unknown := counts.get("unknown_in_lists"):
        yield agree(
            unknown,
            "{n} recommended item{s} {are} not in the catalogue; {their} position{s} {count} as "
            "{misses}",
            misses=_misses(unknown),
        )
    if repeated := counts.get("repeated_in_lists"):
        yield agree(
            repeated,
            "{n} recommended item{s} {repeat} an earlier item of {their} list; {their} position{s} "
            "{count} as {misses}",
            misses=_misses(repeated),
        )
    yield from _validity_notes(settings, metric_set)
    if seen := counts.get("seen_in_lists"):
        is_masked = settings.mask_seen is True
        outcome = "removed" if is_masked else "kept; mask_seen=True removes {them}"
        yield agree(
            seen, "{n} recommended item{s} {are} in {their} user's train and {are} " + outcome
        )


def _misses(number: int) -> str:
    return "a miss" if number == 1 else "misses"


def _order_notes(source: ListSource) -> Iterator[str]:
    """Yield notes on lists with ranks and scores, or with neither but other columns."""
    lists = source.table
    if lists.order == "rank" and lists.has_scores:
        yield "the lists have ranks and scores; the ranks are used"
    if lists.order == "rows" and lists.unused_columns:
        unread = ", ".join(map(repr, lists.unused_columns))
        yield (
            "the lists have neither scores nor ranks; the order of the rows is used, best first "
            f"(columns that were not read: {unread})"
        )


def _validity_notes(settings: EvaluationSettings, metric_set: MetricSet) -> Iterator[str]:
    """Yield notes on metrics of valid and repeated positions that are constant by the settings."""
    if settings.unknown_items != "miss":
        for name in metric_set.select_names(lambda metric: isinstance(metric, ValidRate)):
            yield (
                f"{name} is 1 because every item of the lists is in the catalogue; give the "
                "catalogue as items, and unknown_items='miss', to count items outside it"
            )
    if settings.duplicates == "keep-best":
        for name in metric_set.select_names(lambda metric: isinstance(metric, DuplicateRate)):
            yield (
                f"{name} is 0 because duplicates='keep-best' removes repeated items; "
                "duplicates='miss' keeps their positions"
            )

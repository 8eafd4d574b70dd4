"""Notes of a result on the ratings of its truth: what is relevant, judged, and how it counts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from weft.errors import agree
from weft.evaluation.counts import LARGE_RATING
from weft.evaluation.metric_set import MetricSet
from weft.metrics.base.formulas import RatingMetric

if TYPE_CHECKING:
    from weft.evaluation.evaluator import Evaluator

_UNRATED = (
    "no rating above 1. Without a column of ratings that is recognized, such as 'rating', every "
    "interaction has the rating 1"
)
# Formulas of gains that depend on the rating r.
_GAINS = {"exponential": "2^r - 1", "exponential_shifted": "2^(r+1) - 1", "linear": "r"}


def large_rating_notes(metric_set: MetricSet, counts: Mapping[str, int]) -> Iterator[str]:
    """Yield a warning if single items decide, because ratings are exponents."""
    gains = metric_set.gains
    if names := [name for gain in gains if gain != "linear" for name in gains[gain]]:
        yield (
            agree(
                counts["large_ratings"],
                "warning: {n} rating{s} of relevant items {are} above {limit}. ",
                limit=LARGE_RATING,
            )
            + f"With the gain 2^r - 1 of {', '.join(names)}, the highest rating of a user "
            "outweighs all others. If the ratings are counts, ignore them with the setting "
            "implicit, or use gain=binary or gain=linear"
        )


def judgement_notes(evaluator: Evaluator, counts: Mapping[str, int]) -> Iterator[str]:
    """Name the metrics of judged items if the truth has relevant items only."""
    names = evaluator.metric_set.select_names(lambda metric: metric.reads_judgements)
    if names and not counts["judged_not_relevant"]:
        yield (
            "no item of the truth is judged as not relevant (by a rating of 0 or below "
            f"relevance_threshold): {', '.join(names)} {'treats' if len(names) == 1 else 'treat'} "
            "all other items as not judged. Judged then equals the precision of the list, and "
            "bpref its recall"
        )


def unrated_notes(evaluator: Evaluator, counts: Mapping[str, int]) -> Iterator[str]:
    """Yield notes on a threshold and on rating errors, if the truth has no ratings above 1."""
    settings = evaluator.settings
    if counts["graded_ratings"]:
        return
    threshold = settings.relevance_threshold
    if threshold is not None and threshold > 1 and counts["judged_not_relevant"]:
        yield f"relevance_threshold is {threshold:g}, but the truth has {_UNRATED}"
    errors = evaluator.metric_set.select_names(lambda metric: isinstance(metric, RatingMetric))
    if errors and counts["relevant_items"] and not (counts["zero_ratings"] or settings.implicit):
        compare = "compares" if len(errors) == 1 else "compare"
        yield f"{', '.join(errors)} {compare} every score with 1: the truth has {_UNRATED}"


def rating_notes(evaluator: Evaluator) -> Iterator[str]:
    """Yield how ratings enter the metrics of the run: as gains, or as what is relevant."""
    gains, threshold = evaluator.metric_set.gains, evaluator.settings.relevance_threshold
    if not gains:
        is_counted = threshold is None and evaluator.metric_set.select_names(
            lambda metric: metric.family == "accuracy" and metric.own_threshold is None
        )
        if is_counted:
            yield (
                "the truth has ratings other than 0 and 1, and every rating above 0 is relevant. "
                "To change this, give relevance_threshold"
            )
        return
    used = "; ".join(f"{_GAINS[gain]} in {', '.join(names)}" for gain, names in gains.items())
    relevant = (
        "every rating above 0" if threshold is None else f"every rating of at least {threshold:g}"
    )
    is_own = evaluator.metric_set.select_names(lambda metric: metric.own_threshold is not None)
    others = " except in metrics with their own relevance_threshold" if is_own else ""
    yield (
        f"the truth has ratings r other than 0 and 1: the gain is {used}, and {relevant} is "
        f"relevant{others}. To change this, use the metric parameter gain (binary, linear, "
        "exponential) or the settings relevance_threshold and implicit"
    )

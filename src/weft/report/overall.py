"""The overall verdict: how many metrics each model wins, and where the winner loses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from weft.report.context import USUAL_CUTOFF, ReportContext
from weft.report.number_format import common_places
from weft.report.verdict_phrases import join_names
from weft.report.verdicts import verdict
from weft.statistics.metric_rows import MetricRow

_MAX_LOSSES = 4  # that are named
_MAX_NAMED_WINS = 3


@dataclass(frozen=True)
class _Contest:
    """A metric at its cut-off, and the models with the best value."""

    row: MetricRow
    winners: tuple[str, ...]


def overall(context: ReportContext) -> list[str]:
    """Return sentences on all metrics with a direction, each at one cut-off; none for one model."""
    contests = _find_contests(context)
    if not contests:
        return []
    wins = {model: [one for one in contests if model in one.winners] for model in context.models}
    most = max(map(len, wins.values()))
    leaders = [model for model, won in wins.items() if len(won) == most]
    sentences = [_describe_wins(leaders, wins, contests)]
    if len(leaders) == 1:
        sentences += _describe_tests(context, leaders[0], wins[leaders[0]])
        sentences += _describe_losses(context, leaders[0], contests)
    return sentences + _describe_cutoffs(context, contests)


def _find_contests(context: ReportContext) -> list[_Contest]:
    """Return every metric with a direction that two models have; at cut-off 10 if it is there."""
    chosen: dict[str, MetricRow] = {}
    for row in filter(_is_contested, context.metric_rows):
        value = row.any_value
        if value.metric not in chosen or value.k == USUAL_CUTOFF:
            chosen[value.metric] = row
    contests = []
    for row in chosen.values():
        winners = (model for model, one in zip(context.models, row.values) if row.is_best(one))
        contests.append(_Contest(row, tuple(winners)))
    return [one for one in contests if one.winners]  # without metrics on which all are equal


def _is_contested(row: MetricRow) -> bool:
    """True if the metric has a direction and no labels."""
    return not row.any_value.cell and row.any_value.merit is not None


def _describe_wins(
    leaders: Sequence[str], wins: dict[str, list[_Contest]], contests: Sequence[_Contest]
) -> str:
    total = f"{len(contests)} metrics"
    most = len(wins[leaders[0]])
    if len(leaders) > 1:
        opening = f"{join_names(leaders)} each have the best value on {most} of {total}"
    elif len(contests) == 1:
        opening = f"{leaders[0]} has the best value on the only metric"
    elif most == len(contests):
        opening = f"{leaders[0]} has the best value on all {total}"
    else:
        opening = f"{leaders[0]} has the best value on {most} of {total}"
    others = [
        _count_wins(model, won) for model, won in wins.items() if won and model not in leaders
    ]
    if others:
        opening += f"; {join_names(others)}"
    is_shared = any(len(one.winners) > 1 for one in contests)
    return f"{opening}{'; ties count for each model' if is_shared else ''}."


def _count_wins(model: str, won: Sequence[_Contest]) -> str:
    """Return a model with the number of metrics that it wins, and their names if they are few."""
    names = f" ({', '.join(one.row.name for one in won)})" if len(won) <= _MAX_NAMED_WINS else ""
    return f"{model} on {len(won)}{names}"


def _describe_tests(context: ReportContext, leader: str, won: Sequence[_Contest]) -> list[str]:
    """Return a sentence on how many wins are significant, if models were compared."""
    if context.comparison is None:
        return []
    alone = [one for one in won if one.winners == (leader,)]
    outcomes = [verdict(context, one.row.name).significant for one in alone]
    tested = [outcome for outcome in outcomes if outcome is not None]
    if not tested:
        return []
    untested = len(outcomes) - len(tested)
    more = f"; {untested} {'was' if untested == 1 else 'were'} not tested" if untested else ""
    return [
        f"Its lead over every other model is significant on {sum(tested)} of {len(tested)} tested "
        f"metrics{more}."
    ]


def _describe_cutoffs(context: ReportContext, contests: Sequence[_Contest]) -> list[str]:
    """Return a sentence on the cut-offs that count, if metrics have several."""
    counted = {one.row.name: one.row.any_value for one in contests}
    metrics = {value.metric for value in counted.values()}
    rows = filter(_is_contested, context.metric_rows)
    if all(row.name in counted for row in rows if row.any_value.metric in metrics):
        return []
    rule = f"Each metric counts once, at cut-off {USUAL_CUTOFF}"
    if {value.k for value in counted.values()} <= {USUAL_CUTOFF, None}:
        return [f"{rule}."]
    return [f"{rule}, or at its first cut-off if it has no value there."]


def _describe_losses(
    context: ReportContext, leader: str, contests: Sequence[_Contest]
) -> list[str]:
    """Return a sentence on the metrics that the leader does not win."""
    lost = [one for one in contests if leader not in one.winners]
    if not lost:
        return []
    named = []
    for one in lost[:_MAX_LOSSES]:
        values = dict(zip(context.models, one.row.values))
        own, best = values[leader], values[one.winners[0]]
        if own is None or math.isnan(own.value):
            named.append(f"{one.row.name} (no value)")
            continue
        assert best is not None
        digits = common_places([own.value, best.value])
        named.append(
            f"{one.row.name} ({own.value:.{digits}f}; {one.winners[0]}: {best.value:.{digits}f})"
        )
    rest = len(lost) - len(named)
    more = f" and {rest} more" if rest else ""
    return [f"{leader} is not the best on {', '.join(named)}{more}."]

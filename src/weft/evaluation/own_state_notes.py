"""Notes of a result on metrics with states of their own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from weft.errors import agree

if TYPE_CHECKING:
    from weft.evaluation.evaluator import Evaluator

_KEEP_STATES = "{keep} {their} own state{s}"
_POINTER_TO_SUMS = "Metrics derived from weft.SummedMetric or weft.UserAverageMetric have them"
_POINTER_TO_MEANS = "Metrics derived from weft.UserAverageMetric have them"
_AND_SUMS = ", and those derived from weft.SummedMetric have bootstrap intervals"


def describe_kept_repeats(evaluator: Evaluator) -> str:
    """Name the metrics with own states that hold the rows of repeated users."""
    keep = [
        spec
        for spec, one in evaluator.metric_set.stateful.items()
        if not one.supports_row_filtering
    ]
    if not keep:
        return ""
    return f", except in {', '.join(map(str, keep))}, which {agree(len(keep), _KEEP_STATES)}"


def own_state_notes(evaluator: Evaluator) -> Iterator[str]:
    """Yield what was requested but metrics with states of their own do not have."""
    stateful, settings = evaluator.metric_set.stateful, evaluator.settings
    has_slices, has_bootstrap = evaluator.metric_set.has_slices, settings.bootstrap is not None
    requests = {
        "no bootstrap intervals": has_bootstrap,
        "no per-user values (needed for comparisons)": settings.per_user,
        "no values by slice": has_slices,
    }
    lacks = [text for text, is_requested in requests.items() if is_requested]
    if not lacks:
        return
    pointer = _POINTER_TO_SUMS
    if settings.per_user or has_slices:
        pointer = _POINTER_TO_MEANS + _AND_SUMS * has_bootstrap
    is_custom = not all(type(one).__module__.startswith("weft.") for one in stateful.values())
    names, keep = ", ".join(map(str, stateful)), agree(len(stateful), _KEEP_STATES)
    yield f"{names} {keep}: {', '.join(lacks)}" + f". {pointer}" * is_custom

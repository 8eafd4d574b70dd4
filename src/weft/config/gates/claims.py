"""Claims of gates: tests of the difference between a model and a baseline."""

from __future__ import annotations

import math

import numpy as np

from weft.config.gates.grammar import Claim, Gate
from weft.config.gates.outcomes import (
    GateOutcome,
    NotComparable,
    describe_undefined,
    find_value,
)
from weft.errors import InputError
from weft.evaluation.result import Result, slice_column
from weft.evaluation.result_io import describe_missing_table
from weft.statistics.noninferiority import AdvantageTest, measure_advantage
from weft.statistics.paired_bootstrap import BootstrapTest, find_obstacle
from weft.statistics.pairing import Floats, align_users


def check_claim(gate: Gate, result: Result, name: str) -> None:
    """Raise `NotComparable` if the result has neither values per user nor resamples to pair."""
    if result.entry(name).higher_is_better is None:
        raise NotComparable(f"{name} has no direction: no value is worse than another")
    if _has_user_values(result, name) or _is_resampled(result, name):
        return
    if missing := describe_missing_table(result, "per_user"):
        raise NotComparable(f"{missing}; '{gate.sign}' needs them: put the file there")
    if result.per_user is None:
        raise NotComparable(
            f"it has no values per user, which '{gate.sign}' needs; evaluate it with --per-user "
            "(per_user=True), or with --bootstrap 1000 for metrics without a value per user"
        )
    raise NotComparable(
        f"{name} has neither per-user values to pair nor resamples; evaluate both "
        "with --bootstrap 1000 (bootstrap=1000)"
    )


def _has_user_values(result: Result, name: str) -> bool:
    return result.per_user is not None and name in result.per_user.columns


def _is_resampled(result: Result, name: str) -> bool:
    return result.resamples is not None and name in result.resamples.names


def judge_claim(gate: Gate, claim: Claim, result: Result, name: str) -> GateOutcome:
    """Return the outcome of a test over the users that the result and the baseline share.

    Values per user are paired. A metric without them is tested by its resamples.
    """
    assert gate.baseline is not None
    check_claim(gate, result, name)
    find_value(gate, result, name)  # the slice has the group
    sign = 1.0 if result.entry(name).higher_is_better else -1.0
    pair = {f"model {result.name}": result, f"file {gate.file}": gate.baseline}
    is_paired = all(_has_user_values(one, name) for one in pair.values())
    if is_paired:
        ours, theirs = _pair_users(gate, pair, name)
        value, bound = (float(one.mean()) if len(one) else math.nan for one in (ours, theirs))
        margin = claim.margin_for(bound)
        test = measure_advantage(sign * (ours - theirs), margin=margin, level=claim.level)
    else:
        value, bound = (one[name] for one in pair.values())
        margin = claim.margin_for(bound)
        test = _test_resamples(gate, claim, pair, name)
    detail = describe_undefined(gate, value, bound) or _describe_test(test, claim, sign, margin)
    label = name + gate.slice_label
    return GateOutcome(gate, result.name, label, value, bound, test.low > -margin, detail)


def _pair_users(gate: Gate, pair: dict[str, Result], name: str) -> tuple[Floats, Floats]:
    """Return the values of the users that both results have, in the gate's group."""
    try:
        ours, theirs = align_users(pair).values(name)
    except InputError as error:
        raise NotComparable(str(error)) from None
    if gate.slice is not None:
        ours, theirs = _select_group(gate, next(iter(pair.values())), ours, theirs)
    is_shared = ~(np.isnan(ours) | np.isnan(theirs))
    return ours[is_shared], theirs[is_shared]


def _test_resamples(gate: Gate, claim: Claim, pair: dict[str, Result], name: str) -> AdvantageTest:
    """Return the advantage and its bound, from resamples of the same users."""
    if gate.slice is not None:
        raise NotComparable(f"{name} has no values per user within a group")
    test = BootstrapTest(pair)
    obstacle = find_obstacle(pair)
    if obstacle is None and name in test.swapped_metrics:
        obstacle = test.find_swap_obstacle()
    if obstacle is not None:
        raise NotComparable(obstacle.rstrip("."))
    (difference,) = test.run([name], [(0, 1)]).values()
    result = next(iter(pair.values()))
    low, high = difference.interval(2 * (1 - claim.level))
    is_higher = result.entry(name).higher_is_better
    advantage = difference.difference if is_higher else -difference.difference
    assert result.resamples is not None
    users = result.resamples.num_users
    return AdvantageTest(advantage, low if is_higher else -high, math.nan, users)


def _select_group(
    gate: Gate, result: Result, ours: Floats, theirs: Floats
) -> tuple[Floats, Floats]:
    """Return the values of the users of the gate's group, by their labels in the result."""
    assert gate.slice is not None
    column, group = slice_column(gate.slice[0]), gate.slice[1]
    if result.user_labels is None or column not in result.user_labels.columns:
        raise NotComparable(
            f"{gate.slice[0]!r} is a slice of relevant items, which has no values per user; "
            "compare its value with a number, or with a file by '>=' or '<='"
        )
    is_member = (result.user_labels[column] == group).fill_null(value=False).to_numpy()
    members = np.flatnonzero(is_member)  # rows of the result come first among all users
    return ours[members], theirs[members]


def _describe_test(test: AdvantageTest, claim: Claim, sign: float, margin: float) -> str:
    level, users = f"{100 * claim.level:g}%", f"{test.users:,} users"
    if math.isnan(test.low):
        return f"too few shared users or resamples for a test ({users})"
    side = "at least" if sign > 0 else "at most"
    more = f", margin {margin:.3g}" if claim.name == "not worse than" else ""
    p_value = ", by bootstrap" if math.isnan(test.p_value) else f", p = {test.p_value:.2g}"
    return (
        f"difference {sign * test.advantage:+.3g} ({level} confidence: {side} "
        f"{sign * test.low:+.3g}{more}){p_value}, {users}"
    )

"""Verdicts: a sentence per headline metric on who leads, by how much, and how significantly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.evaluation.metric_value import MetricValue
from weft.report.context import ReportContext
from weft.report.number_format import (
    common_places,
    number,
    percent,
    places,
    probability,
    with_places,
)
from weft.report.verdict_phrases import (
    describe_direction,
    describe_overlap,
    format_ends,
    half_width,
    has_ratio_scale,
    join_names,
    name_all,
    name_test,
    with_interval,
)
from weft.statistics import Comparison
from weft.statistics.comparison_text import describe_correction, name_interval, row_metric

HOW_TO_TEST = (
    "To test it, evaluate with per-user values (per_user=True, --per-user) or, for any metric, "
    "with a bootstrap (bootstrap=1000, --bootstrap 1000), then compare the results (weft.compare, "
    "weft compare)."
)
# Tests of the value itself; the others compare ranks or signs.
_MEAN_TESTS = ("paired_t", "randomization", "bootstrap")
_Row = Mapping[str, Any]  # of `Comparison.rows`


@dataclass(frozen=True)
class Verdict:
    """A sentence on one metric.

    `leader` is None with one model, a shared lead or nothing defined. `significant` is True if
    every other model differs significantly from the leader, None if that was not tested.
    """

    metric: str
    sentence: str
    leader: str | None
    significant: bool | None


def verdicts(context: ReportContext) -> list[Verdict]:
    """Return a verdict for each headline metric."""
    first_untested = next((name for name in context.headlines if name not in context.tests), None)
    return [
        _build_verdict(context, name, has_hint=name == first_untested) for name in context.headlines
    ]


def verdict(context: ReportContext, name: str) -> Verdict:
    """Return the verdict on one metric that some of the models have."""
    return _build_verdict(context, name, has_hint=True)


def _build_verdict(context: ReportContext, name: str, *, has_hint: bool) -> Verdict:
    values = {
        model: result.entry(name) for model, result in context.results.items() if name in result
    }
    defined = {model: value for model, value in values.items() if not math.isnan(value.value)}
    head = name + describe_direction(next(iter(values.values())))
    if not defined:
        return Verdict(name, f"{head}: undefined for {name_all(context.models)}.", None, None)
    is_compared = name in context.tests
    ranked, tied = _rank(defined)
    leader = significant = None
    if len(defined) == 1 or not ranked:
        sentence = _describe_unranked(defined, len(context.models))
    elif len(tied) > 1:
        sentence = _describe_tie(defined, ranked, tied)
        significant = False if is_compared else None
    else:
        leader, second = ranked[:2]
        lead = _Lead(context, name, leader, second, {model: defined[model] for model in ranked})
        sentence, significant = lead.tested() if is_compared else lead.untested(has_hint=has_hint)
    missing = _describe_missing(context, name, values, defined)
    reach = _describe_reach(defined[leader or next(iter(defined))])
    return Verdict(name, f"{head}: {sentence}{reach}{missing}", leader, significant)


def _rank(values: Mapping[str, MetricValue]) -> tuple[list[str], list[str]]:
    """Return the models with a direction, the best first, and those that are as good as it."""
    merits = {model: value.merit for model, value in values.items() if value.merit is not None}
    ranked = sorted(merits, key=lambda model: -merits[model])

    def is_best(model: str) -> bool:
        return math.isclose(merits[model], merits[ranked[0]], rel_tol=1e-9, abs_tol=1e-15)

    return ranked, [*filter(is_best, ranked)]


def _describe_unranked(defined: Mapping[str, MetricValue], num_models: int) -> str:
    """Return a sentence on a single value, or on values of which none is better."""
    if len(defined) == 1:
        ((model, value),) = defined.items()
        return f"{f'only {model} has a value, ' if num_models > 1 else ''}{with_interval(value)}."
    low, high = (
        f"{number(defined[model].value)} ({model})"
        for model in (pick(defined, key=lambda one: defined[one].value) for pick in (min, max))
    )
    return f"from {low} to {high}; this metric has no preferred direction."


def _describe_tie(
    defined: Mapping[str, MetricValue], ranked: Sequence[str], tied: Sequence[str]
) -> str:
    best = with_interval(defined[tied[0]])
    if len(tied) == len(ranked):
        return f"{name_all(ranked)} {'have' if len(ranked) > 2 else 'both have'} {best}."
    second = ranked[len(tied)]
    follows = number(defined[second].value, half_width(defined[second].interval))
    return f"{join_names(tied)} share the lead with {best}; {second} follows with {follows}."


def _describe_reach(value: MetricValue) -> str:
    """Return a sentence on the floor and the ceiling of a value, if they are known."""
    if math.isnan(value.floor) or math.isnan(value.ceiling):
        return ""
    skill = "" if math.isnan(value.skill) else f" (skill {number(value.skill)})"
    return (
        f" A random order would have {number(value.floor)}, the best possible order "
        f"{number(value.ceiling)}"
        f"{skill}."
    )


def _describe_missing(
    context: ReportContext,
    name: str,
    values: Mapping[str, MetricValue],
    defined: Mapping[str, MetricValue],
) -> str:
    """Return sentences on the models for which the metric is undefined or not evaluated."""
    undefined = [model for model in values if model not in defined]
    missing = [model for model in context.models if model not in values]
    text = f" {name} is undefined for {join_names(undefined)}." if undefined else ""
    if missing:
        text += f" {join_names(missing)} {'has' if len(missing) == 1 else 'have'} no {name}."
    return text


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Gap:
    """The lead over the second model as tested: positive if the leader is better."""

    row: _Row  # as seen from the leader
    size: float
    interval: str  # " (95% interval 0.011 to 0.089)", empty if there is none
    text: str  # "0.050 (20%) above knn"

    @property
    def is_tested(self) -> bool:
        return not math.isnan(self.row["p_value"])


@dataclass(frozen=True)
class _Lead:
    """The best model on a metric and the second one; `values` by model, the best first."""

    context: ReportContext
    name: str
    leader: str
    second: str
    values: Mapping[str, MetricValue]

    @property
    def comparison(self) -> Comparison:
        assert self.context.comparison is not None
        return self.context.comparison

    @property
    def opening(self) -> str:
        return f"{self.leader} leads with {with_interval(self.values[self.leader])}"

    def untested(self, *, has_hint: bool) -> tuple[str, None]:
        """Return a sentence on the two values, and None: it was not tested."""
        first, second = self.values[self.leader], self.values[self.second]
        gap = _merit(first) - _merit(second)
        digits = places(gap, half_width(first.interval))
        is_count = common_places([first.value, second.value]) == 0
        gap_text = self._describe_gap(gap, 0 if is_count else digits, second.value)
        text = f"{self.opening}, {gap_text} with {with_interval(second)}"
        overlap = describe_overlap(first.interval, second.interval)
        if self.context.comparison is None:
            hint = f" {HOW_TO_TEST}" if has_hint else ""
            return f"{text}; not tested for significance{overlap}.{hint}", None
        reason, advice = self._reason_untested()
        return f"{text}{overlap}. {reason}.{f' {advice}.' if advice and has_hint else ''}", None

    def _reason_untested(self) -> tuple[str, str]:
        """Return why the metric was not tested, and how to test it, empty if that is obvious."""
        tables = [result.per_user for result in self.comparison.results.values()]
        if all(table is not None and self.name in table.columns for table in tables):
            return "It was not among the tested metrics", ""
        if self.values[self.leader].users is None:
            return (
                "It was not tested, because it has no value per user",
                "The bootstrap test can compare such metrics: evaluate all models with "
                "bootstrap=1000 and the same seed",
            )
        return "It was not tested, because not every model has per-user values", ""

    def tested(self) -> tuple[str, bool | None]:
        """Return a sentence on the test, and whether the leader is significantly better than all.

        That is None if the second model could not be tested, or the test asked for the opposite.
        """
        rows = {_other(row, self.leader): row for row in self._rows()}
        gap = self._measure_gap(rows[self.second])
        if gap.size <= 0:
            return self._describe_reversal(gap), False
        if not gap.is_tested:
            text = f"{self.opening}, {gap.text}; the difference could not be tested, because "
            return text + "fewer than two users have both values.", None
        is_two_sided = self.comparison.alternative == "two-sided"
        if not is_two_sided and not self._asks_for_lead(rows[self.second]):
            return self._describe_opposite_test(rows[self.second], gap), None
        text = self._describe_test(gap)
        compared = [model for model in self.values if model in rows]
        unsure = [model for model in compared if not self._is_surely_ahead(rows[model])]
        if unsure and is_two_sided:
            text += self._describe_unsure(gap, unsure)
        return text, not unsure

    def _rows(self) -> list[_Row]:
        """Return the rows of the first test on this metric that involve the leader."""
        return [
            row
            for row in self.comparison.rows
            if row["test"] == self.context.tests[self.name]
            and row_metric(row) == self.name
            and self.leader in (row["model_a"], row["model_b"])
        ]

    def _measure_gap(self, row: _Row) -> _Gap:
        row = _seen_from(row, self.leader)
        size, low, high = self._orient(row)
        value = self.values[self.leader]
        has_target = value.higher_is_better is None
        digits = places(size, half_width(value.interval) if has_target else (high - low) / 2)
        template = f" ({name_interval(self.comparison, [row])} {{}} to {{}})"
        interval = format_ends(template, low, high, digits)
        return _Gap(row, size, interval, self._describe_gap(size, digits, row["mean_b"]))

    def _describe_p_value(self, row: _Row) -> str:
        comparison = self.comparison
        p = probability(row["p_adjusted"], comparison.alpha)
        return f"{name_test(comparison, row['test'])}, p {p}{describe_correction(comparison, row)}"

    def _describe_reversal(self, gap: _Gap) -> str:
        """Return a sentence on a leader that is not ahead among the users of both models."""
        row = gap.row
        text = (
            f"{self.opening}, but it is not ahead of {self.second} among the {row['users']:,} "
            "shared users"
        )
        if not gap.is_tested:
            return f"{text}."
        outcome = "significant" if row["significant"] else "not significant"
        return f"{text}; the difference{gap.interval} is {outcome} ({self._describe_p_value(row)})."

    def _describe_opposite_test(self, row: _Row, gap: _Gap) -> str:
        """Return a sentence on a one-sided test that asked whether the leader is worse."""
        relation = {"greater": "higher", "less": "lower"}[self.comparison.alternative]
        answer = "they are" if row["significant"] else "they are not"
        return (
            f"{self.opening}, {gap.text}; the test asked only whether the values of "
            f"{row['model_a']} are significantly {relation} than those of {row['model_b']}: "
            f"{answer} ({self._describe_p_value(row)})."
        )

    def _describe_test(self, gap: _Gap) -> str:
        row, is_significant = gap.row, gap.row["significant"]
        outcome = f"the difference{gap.interval} is {'' if is_significant else 'not '}significant"
        if self.values[self.leader].higher_is_better is None:
            # The test compares the values, not their distances from the target.
            verb = "differ" if is_significant else "do not differ"
            outcome = f"the two values {verb} significantly"
        shared = f"among the {row['users']:,} shared users, " if row["left_out"] else ""
        p_value = self._describe_p_value(row)
        text = f"{self.opening}, {gap.text}; {shared}{outcome} ({p_value})."
        is_mean_test = row["test"] in _MEAN_TESTS
        if is_significant and not is_mean_test and self._has_fewer_winners(row):
            fewer, more = map(percent, sorted((row["wins"], row["losses"])))
            text += f" More users have a better value with {self.second} ({more} versus {fewer})."
        if gap.interval and self._contradicts_interval(row):
            text += (
                " The test and the interval (mean difference, Student's t) use different methods "
                "and disagree here."
            )
        return text

    def _describe_unsure(self, gap: _Gap, unsure: Sequence[str]) -> str:
        """Return a sentence on the models from which the leader does not differ significantly."""
        row = gap.row
        power = ""
        if not row["significant"] and not math.isnan(row["detectable"]):
            detectable = number(row["detectable"], row["detectable"])
            power = (
                f"; with {row['users']:,} users, a test detects a difference of {detectable} with "
                "a power of 80%"
            )
            if row["family_size"] > 1 and self.comparison.correction != "none":
                power += " (single test)"
        return f" {self.leader} is not significantly better than {join_names(unsure)}{power}."

    def _describe_gap(self, gap: float, digits: int, second: float) -> str:
        """Return how far the leader is ahead of the second value."""
        value = self.values[self.leader]
        size = with_places(abs(gap), digits)
        if value.higher_is_better is None:
            return f"{size} closer to {value.target:g} than {self.second}"
        is_ratio = has_ratio_scale(self.name, value, self.values[self.second])
        share = f" ({percent(abs(gap / second))})" if is_ratio else ""
        return f"{size}{share} {'above' if value.higher_is_better else 'below'} {self.second}"

    def _orient(self, row: _Row) -> tuple[float, float, float]:
        """Return the lead and its interval, positive is better; the row is seen from the leader.

        A lead towards a target has no interval: that of the row is about values, not distances.
        """
        value = self.values[self.leader]
        if value.higher_is_better is None:
            assert value.target is not None
            distance_a, distance_b = (abs(row[m] - value.target) for m in ("mean_a", "mean_b"))
            return distance_b - distance_a, math.nan, math.nan
        if value.higher_is_better:
            return row["difference"], row["ci_low"], row["ci_high"]
        return -row["difference"], -row["ci_high"], -row["ci_low"]

    def _is_surely_ahead(self, row: _Row) -> bool:
        return bool(row["significant"] and self._orient(_seen_from(row, self.leader))[0] > 0)

    def _asks_for_lead(self, row: _Row) -> bool:
        """True if a one-sided test asked whether the leader is better."""
        is_first = bool(row["model_a"] == self.leader)
        asks_for_more = (self.comparison.alternative == "greater") == is_first
        return asks_for_more == (self.values[self.leader].higher_is_better is True)

    def _contradicts_interval(self, row: _Row) -> bool:
        """True if the interval excludes 0 although the row is not significant, or includes it."""
        return bool((row["ci_low"] > 0 or row["ci_high"] < 0) != row["significant"])

    def _has_fewer_winners(self, row: _Row) -> bool:
        """True if more users are better off with the second model."""
        surplus = row["wins"] - row["losses"]
        return bool(surplus < 0 if self.values[self.leader].higher_is_better else surplus > 0)


def _other(row: _Row, model: str) -> str:
    return str(row["model_b"] if row["model_a"] == model else row["model_a"])


def _seen_from(row: _Row, model: str) -> _Row:
    """Return the row with this model as the first one."""
    if row["model_a"] == model:
        return row
    swapped = {"model_a": "model_b", "mean_a": "mean_b", "wins": "losses"}
    swapped |= {second: first for first, second in swapped.items()}
    negated = {"difference": "difference", "ci_low": "ci_high", "ci_high": "ci_low"}
    return {
        **row,
        **{field: row[other] for field, other in swapped.items()},
        **{field: -row[other] for field, other in negated.items()},
    }


def _merit(value: MetricValue) -> float:
    assert value.merit is not None
    return value.merit

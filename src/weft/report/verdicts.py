"""Who leads, by how much, and whether that could be luck: a sentence for each metric that stands
first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from weft.errors import SettingError, UnknownMetric
from weft.evaluation.metric_value import Interval, MetricValue
from weft.metrics.names import parse_name, split_labels
from weft.metrics.registry import find_metric
from weft.report.context import ReportContext
from weft.report.number_format import number, percent, places, probability, with_places
from weft.statistics import Comparison
from weft.statistics.comparison_text import row_metric
from weft.statistics.significance_tests import UNPAIRED

TESTS = {
    "paired_t": "paired t-test",
    "wilcoxon": "Wilcoxon's signed-rank test",
    "randomization": "paired randomisation test",
    "sign": "sign test",
    "kruskal": "Kruskal-Wallis test",
    "mann_whitney": "Mann-Whitney U test",
}
CORRECTIONS = {
    "holm": " after Holm's correction",
    "bonferroni": " after Bonferroni's correction",
    "fdr": " after Benjamini and Hochberg's correction",
    "none": ", not corrected for the number of tests",
}
HOW_TO_TEST = "To test it, evaluate with values per user (per_user=True, --per-user) and compare the results (weft.compare, weft compare)."
_OF_MEANS = (
    "paired_t",
    "randomization",
)  # tests that ask about the mean, as the sentence does; others ask about ranks
_NAMED = 4  # models in a sentence
# Where chance is not 0, a percentage of the value says nothing.
_CHANCE_IS_HALF = ("AUC", "GAUC", "LAUC")


@dataclass(frozen=True)
class Verdict:
    """What the numbers say of one metric.

    `leader` is None where there is none: one model only, the lead shared, nothing defined.
    `significant` says whether every other model differs significantly from the leader; None where
    that was not tested, or could not be."""

    metric: str
    sentence: str
    leader: str | None
    significant: bool | None


def verdicts(context: ReportContext) -> list[Verdict]:
    """A verdict for each of the headlines."""
    found = []
    for at, name in enumerate(context.headlines):
        found.append(_verdict(context, name, hint=at == 0))
    return found


def verdict(context: ReportContext, name: str) -> Verdict:
    """The verdict on one metric that some of the models have."""
    return _verdict(context, name, hint=True)


def _verdict(context: ReportContext, name: str, *, hint: bool) -> Verdict:
    values = {
        model: result.entry(name) if name in result else None
        for model, result in context.results.items()
    }
    defined = {
        model: value
        for model, value in values.items()
        if value is not None and not math.isnan(value.value)
    }
    head = f"{name}{_direction(next(value for value in values.values() if value is not None))}"
    lacking = [model for model, value in values.items() if value is None]
    undefined = [
        model for model, value in values.items() if value is not None and model not in defined
    ]
    without = f" {name} is undefined for {_listed(undefined)}." if undefined else ""
    without += (
        f" {_listed(lacking)} {'has' if len(lacking) == 1 else 'have'} no {name}."
        if lacking
        else ""
    )
    if not defined:
        return Verdict(name, f"{head}: undefined for {_everybody(context.models)}.", None, None)
    if len(defined) == 1:
        ((model, value),) = defined.items()
        who = f"only {model} has a value, " if len(values) > 1 else ""
        return Verdict(name, f"{head}: {who}{_with_interval(value)}.{without}", None, None)
    merits = {model: value.merit for model, value in defined.items() if value.merit is not None}
    if not merits:
        low, high = (
            choose(defined, key=lambda model: defined[model].value) for choose in (min, max)
        )
        said = f"{head}: from {number(defined[low].value)} ({low}) to {number(defined[high].value)} ({high}); no value is better"
        return Verdict(name, f"{said} than another.{without}", None, None)
    ranked = sorted(merits, key=lambda model: -merits[model])
    first = [
        model
        for model in ranked
        if math.isclose(merits[model], merits[ranked[0]], rel_tol=1e-9, abs_tol=1e-15)
    ]
    if len(first) == len(ranked):
        said = f"{head}: {_everybody(ranked)} {'have' if len(ranked) > 2 else 'both have'} {_with_interval(defined[first[0]])}."
        return Verdict(name, said + without, None, False if _is_compared(context, name) else None)
    if len(first) > 1:
        second = ranked[len(first)]
        said = f"{head}: {_listed(first)} lead together with {_with_interval(defined[first[0]])}; {second} follows with "
        said += f"{number(defined[second].value, _half(defined[second].interval))}."
        return Verdict(name, said + without, None, False if _is_compared(context, name) else None)
    lead = _Lead(context, name, ranked[0], ranked[1], {model: defined[model] for model in ranked})
    said, significant = lead.tested() if _is_compared(context, name) else lead.untested(hint=hint)
    return Verdict(name, f"{head}: {said}{without}", ranked[0], significant)


def _is_compared(context: ReportContext, name: str) -> bool:
    return context.comparison is not None and name in context.comparison.means


@dataclass(frozen=True)
class _Lead:
    """A model that leads, and the one that follows."""

    context: ReportContext
    name: str
    leader: str
    second: str
    values: Mapping[str, MetricValue]  # of the models that have one, the best first

    @property
    def opening(self) -> str:
        return f"{self.leader} leads with {_with_interval(self.values[self.leader])}"

    def untested(self, *, hint: bool) -> tuple[str, bool | None]:
        """Without values per user there are only the two values."""
        first, second = self.values[self.leader], self.values[self.second]
        gap = _merit(first) - _merit(second)
        said = f"{self.opening}, {self._gap(gap, places(gap, _half(first.interval)), second.value)} with {_with_interval(second)}"
        overlap = _overlap(first.interval, second.interval)
        comparison = self.context.comparison
        if comparison is None:
            return (
                f"{said}; not tested for significance{overlap}.{f' {HOW_TO_TEST}' if hint else ''}",
                None,
            )
        tables = [result.per_user for result in comparison.results.values()]
        if all(table is not None and self.name in table.columns for table in tables):
            why = "It was not among the metrics that were tested"
        elif first.users is None:
            why = "No test was possible: it is one value of all users together, without values per user to pair"
        else:
            why = "No test was possible: not every model has its values per user"
        return f"{said}. {why}{overlap}.", None

    def tested(self) -> tuple[str, bool | None]:
        comparison = self.context.comparison
        assert comparison is not None
        rows = {
            _other(row, self.leader): row for row in _rows_of(comparison, self.name, self.leader)
        }
        row = _seen_from(rows[self.second], self.leader)
        gap, low, high = self._oriented(row)
        sure = [
            model for model, one in rows.items() if one["significant"] and self._shows_lead(one)
        ]
        how = f"{_test(comparison)}, p {probability(row['p_adjusted'], comparison.alpha)}{CORRECTIONS[comparison.correction]}"
        has_target = self.values[self.leader].higher_is_better is None
        digits = places(
            gap, _half(self.values[self.leader].interval) if has_target else (high - low) / 2
        )
        beside = _ends(" ({} to {})", low, high, digits)
        shared = f"among the {row['users']:,} users that both have, " if row["left_out"] else ""
        gap_in_words = self._gap(gap, digits, row["mean_b"])
        if (
            gap <= 0
        ):  # over their own users the leader is ahead, over those that both have it is not
            said = f"{self.opening}, but among the {row['users']:,} users that both have it is not ahead of {self.second}"
            if math.isnan(row["p_value"]):
                return f"{said}.", False
            differ = "significant" if row["significant"] else "not significant"
            return f"{said}; the difference{beside} is {differ} ({how}).", False
        if math.isnan(row["p_value"]):
            return (
                f"{self.opening}, {gap_in_words}; the difference could not be tested, because "
                "fewer than two users have both.",
                None,
            )
        if comparison.alternative != "two-sided" and not self._asks_for_lead(rows[self.second]):
            a, b = rows[self.second]["model_a"], rows[self.second]["model_b"]
            wanted = {"greater": "higher", "less": "lower"}[comparison.alternative]
            answer = "they are" if row["significant"] else "that was not shown"
            return (
                f"{self.opening}, {gap_in_words}; the test asked only whether the values of {a} "
                f"are {wanted} than those of {b}: "
                f"{answer} ({how}).",
                None,
            )
        if has_target:  # what is tested are the values, not how far they are from the target
            outcome = f"the two values {'differ' if row['significant'] else 'do not differ'} significantly"
        else:
            outcome = f"the difference{beside} is {'' if row['significant'] else 'not '}significant"
        said = f"{self.opening}, {gap_in_words}; {shared}{outcome} ({how})."
        if row["significant"] and comparison.tests[0] not in _OF_MEANS and self._few_win(row):
            better, worse = sorted((row["wins"], row["losses"]))
            said += f" More users are better off with {self.second} ({percent(worse)} against {percent(better)})."
        unsure = [model for model in self.values if model in rows and model not in sure]
        if unsure and comparison.alternative == "two-sided":
            said += f" {self.leader} cannot be told from {_listed(unsure)}"
            if not row["significant"] and not math.isnan(row["detectable"]):
                seen = number(row["detectable"], row["detectable"])
                said += f"; {row['users']:,} users would show a difference of {seen} with a power of 80 %"
            said += "."
        return said, not unsure

    def _gap(self, gap: float, digits: int, second: float) -> str:
        """How far the leader is ahead, in words."""
        value = self.values[self.leader]
        size = with_places(abs(gap), digits)
        if value.higher_is_better is None:
            return f"{size} closer to {value.target:g} than {self.second}"
        share = (
            f" ({percent(abs(gap / second))})"
            if _has_shares(self.name, value, self.values[self.second])
            else ""
        )
        return f"{size}{share} {'above' if value.higher_is_better else 'below'} {self.second}"

    def _oriented(self, row: Mapping[str, Any]) -> tuple[float, float, float]:
        """The lead and its interval, more is better; the row is seen from the leader."""
        value = self.values[self.leader]
        if (
            value.higher_is_better is None
        ):  # the interval is one of raw values, and says nothing of distances
            assert value.target is not None
            return (
                abs(row["mean_b"] - value.target) - abs(row["mean_a"] - value.target),
                math.nan,
                math.nan,
            )
        if value.higher_is_better:
            return row["difference"], row["ci_low"], row["ci_high"]
        return -row["difference"], -row["ci_high"], -row["ci_low"]

    def _shows_lead(self, row: Mapping[str, Any]) -> bool:
        """Whether this difference, if significant, is one in favour of the leader."""
        return self._oriented(_seen_from(row, self.leader))[0] > 0

    def _asks_for_lead(self, row: Mapping[str, Any]) -> bool:
        """Whether a one-sided test asked for what the leader has."""
        comparison = self.context.comparison
        assert comparison is not None
        wants_more = (comparison.alternative == "greater") == bool(row["model_a"] == self.leader)
        return wants_more == (self.values[self.leader].higher_is_better is True)

    def _few_win(self, row: Mapping[str, Any]) -> bool:
        """Whether more users lose by the leader than win."""
        better = row["wins"] - row["losses"]
        return bool(better < 0 if self.values[self.leader].higher_is_better else better > 0)


def _rows_of(comparison: Comparison, name: str, model: str) -> list[Mapping[str, Any]]:
    test = comparison.tests[0]
    return [
        row
        for row in comparison.rows
        if row["test"] == test
        and row_metric(row) == name
        and model in (row["model_a"], row["model_b"])
    ]


def _other(row: Mapping[str, Any], model: str) -> str:
    return str(row["model_b"] if row["model_a"] == model else row["model_a"])


def _seen_from(row: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    """The row with this model as the first one."""
    if row["model_a"] == model:
        return row
    turned = {
        "model_a": row["model_b"],
        "model_b": row["model_a"],
        "mean_a": row["mean_b"],
        "mean_b": row["mean_a"],
    }
    turned |= {
        "difference": -row["difference"],
        "ci_low": -row["ci_high"],
        "ci_high": -row["ci_low"],
    }
    return {**row, **turned, "wins": row["losses"], "losses": row["wins"]}


def _test(comparison: Comparison) -> str:
    test = comparison.tests[0]
    one_sided = "" if comparison.alternative == "two-sided" else ", one-sided"
    return (
        TESTS[test]
        + one_sided
        + (", which ignores that the users are the same" if test in UNPAIRED else "")
    )


def _merit(value: MetricValue) -> float:
    assert value.merit is not None
    return value.merit


def _direction(value: MetricValue) -> str:
    """Said where it is not the usual one."""
    if value.higher_is_better is None:
        return "" if value.target is None else f" (closer to {value.target:g} is better)"
    return "" if value.higher_is_better else " (lower is better)"


def _with_interval(value: MetricValue) -> str:
    low, high, kind = value.interval
    half = _half(value.interval)
    if not half > 0:
        return number(value.value)
    digits = places(value.value, half)
    what = "95 % interval" if kind == "normal" else "95 % bootstrap interval"
    return with_places(value.value, digits) + _ends(f" ({what} {{}} to {{}})", low, high, digits)


def _ends(template: str, low: float, high: float, digits: int) -> str:
    """Both ends of an interval, if there is one that can be seen."""
    ends = [with_places(end, digits) for end in (low, high)]
    return "" if math.isnan(low) or ends[0] == ends[1] else template.format(*ends)


def _half(interval: Interval) -> float:
    return (interval.high - interval.low) / 2


def _overlap(one: Interval, other: Interval) -> str:
    """Whether two intervals overlap, where a test cannot tell more."""
    if math.isnan(one.low) or math.isnan(other.low):
        return ""
    return "; the two intervals " + (
        "overlap" if one.low <= other.high and other.low <= one.high else "do not overlap"
    )


def _has_shares(name: str, first: MetricValue, second: MetricValue) -> bool:
    """Whether a percentage of the second value means something: on a scale from 0, and not where
    that is near.
    """
    try:
        metric = find_metric(parse_name(split_labels(name)[0]).name)
        is_ratio = (
            metric.bounds[0] == 0
            and metric.target is None
            and metric.__name__ not in _CHANCE_IS_HALF
        )
    except (UnknownMetric, SettingError):
        is_ratio = first.target is None and first.value >= 0
    half = _half(second.interval)
    return is_ratio and second.value > max(1e-9, 0.0 if math.isnan(half) else half)


def _listed(names: Sequence[str]) -> str:
    shown = (
        list(names)
        if len(names) <= _NAMED + 1
        else [*names[:_NAMED], f"{len(names) - _NAMED} more"]
    )
    return shown[0] if len(shown) == 1 else f"{', '.join(shown[:-1])} and {shown[-1]}"


def _everybody(models: Sequence[str]) -> str:
    return _listed(models) if len(models) <= 2 else f"all {len(models)} models"

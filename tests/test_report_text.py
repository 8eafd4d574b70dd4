"""Texts of the report: sentences, facts, notes, and calls that reproduce the values."""

import datetime
import math
import re
import shlex
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
import torch
from typer.testing import CliRunner

import weft
from doc_commands import write_data
from metric_cases import BY_POSITION
from weft import cli
from weft.config import from_mapping, load
from weft.config import run as config_run
from weft.evaluation.metric_value import MetricValue
from weft.evaluation.result import Result
from weft.report import number_format as digits
from weft.report import text as words
from weft.report.context import ReportContext
from weft.report.local_paths import hide_folders
from weft.report.overall import overall as summarize

USERS = 200
SPREAD = 0.2 * np.sin(12.9898 * np.arange(USERS))
SPREAD -= SPREAD.mean()


def result(name, mean, metric="nDCG@10", *, shift=0, spread=1.0, users=USERS, **about):
    """A model of so many users, whose values have this mean over all 200."""
    values = mean + spread * np.roll(SPREAD, shift)
    own = values[:users]
    plain, _, k = metric.partition("@")
    entry = MetricValue(
        plain,
        int(k) if k else None,
        float(own.mean()),
        float(own.std(ddof=1) / math.sqrt(users)),
        users,
        **({"higher_is_better": True} | about),
    )
    kept = np.where(np.arange(USERS) < users, values, math.nan)
    return Result((entry,), name, per_user=pl.DataFrame({"user": range(USERS), metric: kept}))


def with_total(of, value, metric="Gini@10", **about):
    """The same with a metric that has no values per user."""
    plain, _, k = metric.partition("@")
    entry = MetricValue(plain, int(k), value, **({"higher_is_better": False} | about))
    return replace(of, entries=(entry, *of.entries))


ALS, KNN, POP = result("als", 0.3), result("knn", 0.25, shift=7), result("pop", 0.29, shift=7)
UNDEFINED = Result(
    (MetricValue("nDCG", 10, math.nan, higher_is_better=True),),
    "bad",
    per_user=ALS.per_user.with_columns(pl.lit(math.nan).alias("nDCG@10")),
)
OPENING = "nDCG@10: als leads with 0.300 (95% interval 0.280 to 0.320), "
BIG = "0.050 (20%) above knn; the difference (95% interval 0.011 to 0.089) is significant "
SMALL = "0.010 (3.4%) above pop; the difference (95% interval -0.029 to 0.049) is not significant "
ONE = ", not adjusted: one pair of models per metric"
UNSURE = (
    " als is not significantly better than pop; with 200 users, a test detects a difference of "
    "0.055 with a power of 80%."
)


def first(*results, **settings):
    """The first verdict on a comparison."""
    return words.verdicts(ReportContext.from_result(weft.compare(results, **settings)))[0]


# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("models", [(ALS, KNN), (KNN, ALS)])
def test_verdict_of_a_significant_lead(models):
    verdict = first(*models)
    assert verdict.sentence == OPENING + BIG + f"(paired t-test, p = 0.012{ONE})."
    assert (verdict.metric, verdict.leader, verdict.significant) == ("nDCG@10", "als", True)


@pytest.mark.parametrize("models", [(ALS, POP), (POP, ALS)])
def test_verdict_of_a_lead_that_is_not_significant(models):
    verdict = first(*models)
    assert verdict.sentence == OPENING + SMALL + f"(paired t-test, p = 0.61{ONE})." + UNSURE
    assert (verdict.leader, verdict.significant) == ("als", False)


def test_verdict_of_three_models_with_two_alike():
    far = result("far", 0.1, shift=7)
    verdict = first(ALS, far, POP)
    assert verdict.sentence == (
        OPENING
        + "0.010 (3.4%) above pop; the difference (adjusted 95% interval -0.037 to 0.057) is not "
        "significant (paired t-test, p = 0.61 after Holm's correction over the 3 pairs of models "
        "on this metric)." + UNSURE.replace("80%.", "80% (single test).")
    )
    assert verdict.significant is False


def test_verdict_of_a_lead_over_the_second_but_not_the_third():
    """The second differs for every user alike; the third has lower values, but scattered ones."""
    close, scattered = result("knn", 0.29, spread=0.9), result("pop", 0.285, shift=30, spread=1.5)
    verdict = first(ALS, close, scattered)
    assert verdict.sentence == (
        OPENING
        + "0.0100 (3.4%) above knn; the difference (adjusted 95% interval 0.0076 to 0.0124) is "
        "significant (paired t-test, p < 0.001 after Holm's correction over the 3 pairs of models "
        "on this metric). als is not significantly better than pop."
    )
    assert verdict.significant is False


def test_verdict_shortens_long_lists_of_models():
    verdict = first(*(result(f"m{at}", 0.3 - at / 1000, shift=at) for at in range(12)))
    assert (
        "m0 is not significantly better than m1, m2, m3, m4 and 7 more; with 200 users, a test"
        in verdict.sentence
    )


@pytest.mark.parametrize("turned", [False, True])
def test_verdict_if_lower_is_better(turned):
    models = [
        result("als", 3.0, "ARP@10", higher_is_better=False),
        result("knn", 2.8, "ARP@10", shift=7, higher_is_better=False),
    ]
    verdict = first(*(reversed(models) if turned else models))
    assert verdict.sentence == (
        "ARP@10 (lower is better): knn leads with 2.800 (95% interval 2.780 to 2.820), 0.200 (6.7%"
        ") below als; the difference "
        f"(95% interval 0.161 to 0.239) is significant (paired t-test, p < 0.001{ONE})."
    )
    assert (verdict.leader, verdict.significant) == ("knn", True)


def test_verdict_if_closer_to_a_target_is_better():
    """The raw difference favours nobody: 0.9 is closer to 1 than 1.3."""
    about = {"metric": "BiasDisparityBR@10", "higher_is_better": None, "target": 1.0}
    verdict = first(result("als", 1.3, **about), result("knn", 0.9, shift=7, **about))
    assert verdict.sentence == (
        "BiasDisparityBR@10 (closer to 1 is better): knn leads with 0.900 (95% interval 0.880 to "
        "0.920), 0.200 closer to 1 than "
        f"als; the two values differ significantly (paired t-test, p < 0.001{ONE})."
    )
    assert (verdict.leader, verdict.significant) == ("knn", True)
    alike = first(result("als", 1.1, **about), result("knn", 0.91, shift=7, spread=20, **about))
    assert (
        "the two values do not differ significantly" in alike.sentence
        and alike.significant is False
    )


def test_verdict_of_a_shared_lead():
    twin = result("bpr", 0.3, shift=3)
    verdict = first(ALS, twin, KNN)
    assert verdict.sentence == (
        "nDCG@10: als and bpr share the lead with 0.300 (95% interval 0.280 to 0.320); knn follows "
        "with 0.250."
    )
    assert (verdict.leader, verdict.significant) == (None, False)
    assert (
        first(ALS, twin).sentence
        == "nDCG@10: als and bpr both have 0.300 (95% interval 0.280 to 0.320)."
    )
    everybody = first(ALS, twin, result("bpr2", 0.3))
    assert everybody.sentence == "nDCG@10: all 3 models have 0.300 (95% interval 0.280 to 0.320)."
    assert (everybody.leader, everybody.significant) == (None, False)


def test_verdict_with_undefined_values():
    verdict = first(ALS, KNN, UNDEFINED)
    assert (
        verdict.sentence.endswith(f"p = 0.012{ONE}). nDCG@10 is undefined for bad.")
        and verdict.significant
    )
    alone = first(ALS, UNDEFINED)
    assert alone.sentence == (
        "nDCG@10: only als has a value, 0.300 (95% interval 0.280 to 0.320). nDCG@10 is undefined "
        "for bad."
    )
    assert (alone.leader, alone.significant) == (None, None)
    nobody = words.verdict(ReportContext({"bad": UNDEFINED, "worse": UNDEFINED}), "nDCG@10")
    assert nobody.sentence == "nDCG@10: undefined for bad and worse." and nobody.leader is None
    assert words.verdicts(ReportContext({"bad": UNDEFINED})) == []


def test_verdict_names_models_without_the_metric():
    other = result("other", 0.3, "MRR@10")
    verdict = words.verdicts(ReportContext({"als": ALS, "knn": KNN, "other": other}))[0]
    assert verdict.sentence.endswith(" other has no nDCG@10.") and verdict.leader == "als"


def test_verdict_of_one_model():
    (verdict,) = words.verdicts(ReportContext.from_result(ALS))
    assert verdict == words.Verdict(
        "nDCG@10", "nDCG@10: 0.300 (95% interval 0.280 to 0.320).", None, None
    )


def test_verdict_without_a_comparison():
    models = {one.name: one for one in (with_total(ALS, 0.9), with_total(KNN, 0.95))}
    gini, ndcg = words.verdicts(ReportContext(models))
    assert gini.sentence == (
        "Gini@10 (lower is better): als leads with 0.9000, 0.0500 (5.3%) below knn with 0.9500; "
        "not tested for significance. "
        "To test it, evaluate with per-user values (per_user=True, --per-user) or, for any metric, "
        "with a bootstrap (bootstrap=1000, --bootstrap 1000), then compare the results "
        "(weft.compare, weft compare)."
    )
    assert ndcg.sentence == (
        OPENING + "0.050 (20%) above knn with 0.250 (95% interval 0.230 to 0.270); not tested for "
        "significance; the two "
        "intervals do not overlap."
    )
    assert gini.significant is ndcg.significant is None and ndcg.leader == "als"


def test_verdict_of_a_metric_without_values_per_user():
    verdict = first(with_total(ALS, 0.9), with_total(KNN, 0.95))
    assert verdict.sentence == (
        "Gini@10 (lower is better): als leads with 0.9000, 0.0500 (5.3%) below knn with 0.9500. "
        "It was not tested, because it has no value per user. The bootstrap test can compare such "
        "metrics: evaluate all models with bootstrap=1000 and the same seed."
    )
    assert (verdict.leader, verdict.significant) == ("als", None)
    one, other = (
        with_total(ALS, 0.9, bca_low=0.89, bca_high=0.93),
        with_total(KNN, 0.92, bca_low=0.91, bca_high=0.96),
    )
    resampled = first(one, other)
    assert resampled.sentence == (
        "Gini@10 (lower is better): als leads with 0.900 (95% bootstrap interval 0.890 to 0.930), "
        "0.020 (2.2%) below knn with "
        "0.920 (95% bootstrap interval 0.910 to 0.960); the two intervals overlap. It was not "
        "tested, because it has no value per user. The bootstrap test can compare such metrics: "
        "evaluate all models with bootstrap=1000 and the same seed."
    )
    apart = first(one, with_total(KNN, 0.99, bca_low=0.98, bca_high=0.995))
    assert "); the two intervals do not overlap. It was" in apart.sentence
    assert apart.significant is None


def test_only_the_first_untested_metric_has_advice():
    models = [
        with_total(with_total(one, gini), items, "ItemCoverage@10", higher_is_better=True)
        for one, gini, items in ((ALS, 0.9, 309.0), (KNN, 0.95, 308.0))
    ]
    context = ReportContext.from_result(weft.compare(models))
    sentences = [one.sentence for one in words.verdicts(context)]
    untested = [text for text in sentences if "because it has no value per user" in text]
    assert ["bootstrap=1000" in text for text in untested] == [True, False]
    # A difference of counts has no digits after the point.
    assert "als leads with 309, 1 (0.32%) above knn with 308." in "".join(sentences)


def test_verdict_of_a_metric_that_was_not_compared():
    def both(name, mean, shift):
        one, other = result(name, mean, shift=shift), result(name, mean, "MRR@10", shift=shift)
        table = one.per_user.with_columns(other.per_user["MRR@10"])
        return Result((*one.entries, *other.entries), name, per_user=table)

    comparison = weft.compare([both("als", 0.3, 0), both("knn", 0.25, 7)], metrics="MRR@10")
    verdict = words.verdict(ReportContext.from_result(comparison), "nDCG@10")
    assert verdict.sentence.endswith(
        "; the two intervals do not overlap. It was not among the tested metrics."
    )
    assert words.verdict(ReportContext.from_result(comparison), "MRR@10").significant is True
    (call,) = [
        text
        for heading, text in words.rerun(ReportContext.from_result(comparison))
        if heading == "Comparison in Python"
    ]
    assert call == "comparison = weft.compare(results, metrics=['MRR@10'])"


def test_verdict_of_one_sided_tests():
    asked = first(ALS, KNN, alternative="greater")
    assert (
        asked.sentence
        == OPENING
        + BIG.replace("95% interval 0.011 to 0.089", "90% interval 0.018 to 0.082")
        + f"(paired t-test, one-sided, p = 0.0058{ONE})."
    )
    assert asked.significant is True
    unsure = first(ALS, POP, alternative="greater")
    assert (
        unsure.sentence
        == OPENING
        + SMALL.replace("95% interval -0.029 to 0.049", "90% interval -0.022 to 0.042")
        + f"(paired t-test, one-sided, p = 0.31{ONE})."
    )
    assert unsure.significant is False
    unasked = first(ALS, KNN, alternative="less")
    assert unasked.sentence == (
        OPENING + "0.050 (20%) above knn; the test asked only whether the values of als are "
        "significantly lower than those of knn: they are not "
        f"(paired t-test, one-sided, p = 0.99{ONE})."
    )
    assert unasked.significant is None
    lower = [
        result("als", 3.0, "ARP@10", higher_is_better=False),
        result("knn", 2.8, "ARP@10", shift=7, higher_is_better=False),
    ]
    assert (
        first(*lower, alternative="greater").significant is True
    )  # that als has more is what knn wants
    assert first(*lower, alternative="less").significant is None


@pytest.mark.parametrize(
    ("settings", "how"),
    [
        ({"correction": "none"}, "paired t-test, p = 0.012, not adjusted for the number of tests"),
        ({"correction": "bonferroni"}, f"paired t-test, p = 0.012{ONE}"),
        ({"correction": "fdr"}, f"paired t-test, p = 0.012{ONE}"),
        (
            {"tests": "kruskal"},
            "Kruskal-Wallis test, which ignores that the users are the same, p < 0.001" + ONE,
        ),
        ({"tests": ["wilcoxon", "paired_t"]}, f"Wilcoxon's signed-rank test, p = 0.0062{ONE}"),
    ],
)
def test_verdict_names_the_test(settings, how):
    assert f"({how})." in first(ALS, KNN, **settings).sentence


@pytest.mark.parametrize(
    ("settings", "how", "caption"),
    [
        (
            {},
            " after Holm's correction over the 3 pairs of models on this metric",
            "p-values adjusted by Holm's correction over the 3 pairs of models on each metric",
        ),
        (
            {"correction": "bonferroni"},
            " after Bonferroni's correction over the 3 pairs of models on this metric",
            "p-values adjusted by Bonferroni's correction over the 3 pairs of models on each "
            "metric",
        ),
        (
            {"correction": "fdr"},
            " after Benjamini and Hochberg's correction over the 3 pairs of models on this metric",
            "p-values adjusted by Benjamini and Hochberg's correction over the 3 pairs of models "
            "on each metric",
        ),
        (
            {"correction": "none"},
            ", not adjusted for the number of tests",
            "p-values not adjusted",
        ),
        (
            {"family": "test"},
            " after Holm's correction over the 6 pairs of models and metrics",
            "p-values adjusted by Holm's correction over all 6 pairs of models and metrics",
        ),
        (
            {"family": "test", "metrics": "nDCG@10"},
            " after Holm's correction over the 3 pairs of models and metrics",
            "p-values adjusted by Holm's correction over all 3 pairs of models and metrics",
        ),
        (
            {"family": "pair"},
            " after Holm's correction over the 2 metrics of this pair of models",
            "p-values adjusted by Holm's correction over the 2 metrics of each pair of models",
        ),
        (
            {"family": "pair", "metrics": "nDCG@10"},
            ", not adjusted: one metric per pair of models",
            "p-values not adjusted (one metric per pair of models)",
        ),
        (
            {"family": "all", "tests": ["paired_t", "sign"]},
            " after Holm's correction over the 12 pairs of models, metrics and tests",
            "p-values adjusted by Holm's correction over all 12 pairs of models, metrics and tests",
        ),
    ],
)
def test_texts_name_the_family_of_tests(settings, how, caption):
    models = [
        joined(one, result(one.name, 0.2 + one.entries[0].value, "MRR@10", shift=at))
        for at, one in enumerate((ALS, KNN, POP))
    ]
    comparison = weft.compare(models, **settings)
    (sentence, *_) = (one.sentence for one in words.verdicts(ReportContext.from_result(comparison)))
    assert re.search(rf"\(paired t-test, p [=<] [\d.]+{re.escape(how)}\)\.", sentence)
    is_adjusted = " after " in how
    interval = "adjusted 95% interval" if is_adjusted else "95% interval"
    assert f"the difference ({interval} " in sentence
    assert comparison.caption("paired_t") == f"paired t-test, {caption}, alpha = 0.05"
    with pytest.raises(weft.errors.SettingError, match=r"'pairedt' is not known.*'paired_t'"):
        comparison.caption("pairedt")
    for text in (comparison.to_markdown(), comparison.to_markdown(pairs=True)):
        assert f"paired t-test, {caption}, alpha = 0.05" in text
    printed = " ".join(repr(comparison).split())
    assert f"Paired t-test, {caption}, alpha = 0.05; " in printed
    pairs = comparison.to_markdown(pairs=True), comparison.to_latex(pairs=True)
    assert all(f"; {interval} of the difference" in text for text in pairs)
    assert f"second model, with its {interval}" in printed
    found = dict(words.provenance(ReportContext.from_result(comparison)))["comparison"]
    assert found.startswith(f"paired t-test, {caption}, alpha = 0.05")


def joined(*results):
    """One Result with the metrics of several."""
    values = tuple(value for one in results for value in one.entries)
    table = results[0].per_user.with_columns(*(one.per_user[:, 1] for one in results[1:]))
    return Result(values, results[0].name, per_user=table)


def test_explains_a_test_that_contradicts_the_interval():
    """Few users gain much, most lose a little: the mean does not differ, the signs do."""
    users = np.arange(USERS)
    values = 0.25 + 0.001 * (users % 7)
    more = values + np.where(users < 10, 0.4, -0.01)

    def made(name, of_one):
        entry = MetricValue("nDCG", 10, float(of_one.mean()), 0.01, USERS, higher_is_better=True)
        return Result((entry,), name, per_user=pl.DataFrame({"user": users, "nDCG@10": of_one}))

    models = [made("als", more), made("knn", values)]
    explanation = (
        " The test and the interval (mean difference, Student's t) use different methods and "
        "disagree here."
    )
    (row,) = weft.compare(models, tests="sign").rows
    assert row["significant"] and row["ci_low"] < 0 < row["ci_high"]
    assert explanation in first(*models, tests="sign").sentence
    assert explanation not in first(*models).sentence


def test_verdict_if_more_users_prefer_the_second_model():
    """Few users gain much, most lose a little: tests of ranks speak of the many, the sentence of
    the mean.
    """
    users = np.arange(USERS)
    values = 0.25 + 0.001 * (users % 7)
    many = {"als": np.where(users < 30, 0.9, values), "knn": values + 0.01}

    def made(name):
        entry = MetricValue(
            "nDCG", 10, float(many[name].mean()), 0.01, USERS, higher_is_better=True
        )
        return Result((entry,), name, per_user=pl.DataFrame({"user": users, "nDCG@10": many[name]}))

    verdict = first(made("als"), made("knn"), tests="sign")
    assert verdict.leader == "als" and verdict.sentence.endswith(
        "More users have a better value with knn (85% versus 15%)."
    )
    assert "have a better value" not in first(made("als"), made("knn")).sentence


def test_verdict_of_models_with_different_users():
    verdict = first(result("als", 0.3, users=150), KNN)
    assert verdict.sentence == (
        "nDCG@10: als leads with 0.296 (95% interval 0.273 to 0.318), 0.039 (15%) above knn; "
        "among the 150 shared users, "
        "the difference (95% interval -0.006 to 0.083) is not significant (paired t-test, "
        f"p = 0.087{ONE}). als is not "
        "significantly better than knn; with 150 users, a test detects a difference of 0.063 with "
        "a power of 80%."
    )
    users = np.arange(USERS)
    easy, hard = (
        np.where(users < 100, 0.5, math.nan),
        np.where(users < 100, 0.6, 0.1) + 0.01 * (users % 3),
    )
    one, other = (
        Result(
            (MetricValue("nDCG", 10, float(np.nanmean(values)), 0.01, 100, higher_is_better=True),),
            name,
            per_user=pl.DataFrame({"user": users, "nDCG@10": values}),
        )
        for name, values in (("few", easy), ("all", hard))
    )
    turned = first(one, other)
    assert turned.leader == "few" and turned.significant is False
    assert (
        "but it is not ahead of all among the 100 shared users; the difference" in turned.sentence
    )


def test_omits_meaningless_percentages():
    assert (
        "0.299 above knn;" in first(ALS, result("knn", 0.001, shift=7)).sentence
    )  # of nearly nothing
    auc = [
        replace(one, entries=(replace(one.entries[0], metric="GAUC", k=None),))
        for one in (ALS, KNN)
    ]
    assert (
        "0.050 above knn with"
        in words.verdicts(ReportContext({one.name: one for one in auc}))[0].sentence
    )
    fair = [
        result(name, mean, "PopREO@10", shift=at, higher_is_better=False, target=0.0)
        for at, name, mean in ((0, "a", 0.3), (7, "b", 0.2))
    ]
    assert "0.100 below a;" in first(*fair).sentence


def test_verdict_of_unregistered_metrics():
    verdict = first(result("als", 0.3, "Own(x=2)@10"), result("knn", 0.2, "Own(x=2)@10", shift=7))
    assert verdict.sentence.startswith(
        "Own(x=2)@10: als leads with 0.300 (95% interval 0.280 to 0.320), 0.100 (50%) above knn;"
    )
    (definition,) = words.definitions(ReportContext.from_result(result("als", 0.3, "Own(x=2)@10")))
    assert definition == words.MetricDefinition("Own(x=2)", "not known here")


def test_verdicts_do_not_interpret_names():
    strange = ["<script>alert(1)</script>", "", "[bold]", 'a"b', "ä" * 300]
    verdict = first(*(result(name, 0.3 - at / 10, shift=at) for at, name in enumerate(strange)))
    assert verdict.leader == strange[0] and f"nDCG@10: {strange[0]} leads with" in verdict.sentence


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (0.2289050, 0.0103, "0.229"),
        (0.2289050, 0.0098, "0.2289"),
        (0.2289050, 0.00996, "0.229"),
        (279.0949, 1.75, "279.1"),
        (12345.678, 1234, "12,346"),
        (287.0, math.nan, "287"),
        (279.0949, math.nan, "279.09"),
        (1.0, math.nan, "1.0000"),
        (0.0, math.nan, "0"),
        (0.0, 0.1, "0"),
        (0.00004, 0.01, "0.000040"),
        (-0.00001234, math.nan, "-0.000012"),
        (1.234e-9, math.nan, "1.2e-09"),
        (0.5, 0.0, "0.5000"),
        (0.5, 1e-12, "0.500000"),
        (math.nan, math.nan, "undefined"),
        (math.inf, math.nan, "∞"),
    ],
)
def test_numbers_have_significant_digits(value, half, text):
    assert digits.number(value, half) == text


def test_rounding_keeps_p_values_on_their_side_of_alpha():
    assert (
        digits.probability(0.0499999, 0.05) == "= 0.05"
        and digits.probability(0.0500001, 0.05) == "= 0.0500001"
    )
    assert (
        digits.probability(0.0004, 0.0005) == "= 0.0004" and digits.probability(1.0, 0.05) == "= 1"
    )
    assert (
        digits.percent(0.273) == "27%"
        and digits.percent(0.0337) == "3.4%"
        and digits.percent(0.0001) == "less than 0.1%"
    )
    assert digits.percent(0.0999) == "10%" and digits.percent(2.5) == "250%"
    shares = (0.605, 0.145, 0.0049, 1.0)  # charts round 60.5 and 14.5 up
    assert [digits.whole_percent(share) for share in shares] == [61, 15, 0, 100]


# --------------------------------------------------------------------------------------------------


def evaluated(name="als", **more):
    """A real evaluation of 40 users and 30 items, one of them without a relevant item."""
    generator = torch.Generator().manual_seed(3)
    scores = torch.rand(40, 30, generator=generator)
    truth = {user: {user % 30: 5, (7 * user + 1) % 30: 3} for user in range(39)} | {39: {0: 0}}
    settings = {
        "metrics": ["nDCG", "Gini", "GAUC"],
        "top_k": [5, 10],
        "train": {user: [(user + 1) % 30] for user in range(40)},
    }
    return weft.evaluate(scores, truth, name=name, **BY_POSITION, **(settings | more))


def test_facts_describe_the_data():
    one = evaluated()
    found = dict(words.facts(ReportContext.from_result(one)))
    assert found["model"] == "als" and found["evaluated users"] == "39" and found["items"] == "30"
    assert (
        found["relevant interactions"] == f"{one.counts['relevant_items']}"
        and found["cut-offs"] == "5, 10"
    )
    assert found["users without a relevant item"] == "1, excluded from means"
    assert (
        found["seen items"] == "masked"
        and found["candidates"] == "all items"
        and found["relevant items"] == "ratings above 0"
    )
    assert found["ties"] == "index (the item with the lower index comes first)"
    assert (
        found["train interactions"] == "40"
        and not {"profile", "repeated items dropped from lists"} & found.keys()
    )
    other = evaluated(
        "b",
        strategy="sampled",
        num_negatives=9,
        empty_users="zero",
        relevance_threshold=4,
        profile="rectools",
        metrics="nDCG",
    )
    other = replace(
        other, counts={**other.counts, "train_interactions": 1234, "evaluated_users": 1000}
    )
    both = dict(words.facts(ReportContext({"als": one, "b": other})))
    assert (
        both["2 models"] == "als, b"
        and both["evaluated users"] == "39 to 1,000"
        and both["train interactions"] == "40 to 1,234"
    )
    assert (
        both["candidates"]
        == "all items (als); sampled: relevant items among 9 negatives per user, drawn uniformly "
        "(b)"
    )
    assert (
        both["relevant items"] == "ratings above 0 (als); ratings of at least 4 (b)"
        and both["profile"] == "rectools (b)"
    )
    assert both["users without a relevant item"] == "1, excluded from means (als); counted as 0 (b)"


def test_facts_omit_unknown_values():
    assert words.facts(ReportContext.from_result(ALS)) == [("model", "als"), ("cut-off", "10")]
    bare = ReportContext.from_result(Result((), "empty"))
    assert words.facts(bare) == [("model", "empty")] and not any(
        found(bare)
        for found in (
            words.verdicts,
            words.notes,
            words.counts,
            words.definitions,
            words.provenance,
        )
    )
    batches = weft.Evaluator(metrics="MRR@2")
    batches.update(torch.eye(3), torch.eye(3))
    assert "candidates" not in dict(words.facts(ReportContext.from_result(batches.compute())))


def test_facts_describe_lists():
    lists, truth = {"ann": ["a", "b"], "bob": ["a"]}, {"ann": ["a", "c"], "cyd": ["b"]}
    found = dict(
        words.facts(
            ReportContext.from_result(
                weft.evaluate(lists, truth, train={"ann": ["b"]}, metrics="MRR@2")
            )
        )
    )
    assert found["seen items"] == "not removed (1 in lists)" and found["cut-off"] == "2"
    assert found["users of the truth without a list or scores"] == "1, evaluated with an empty list"
    assert found["users not in the truth"] == "1, excluded from means"
    bare = dict(
        words.facts(ReportContext.from_result(weft.evaluate(lists, truth, metrics="MRR@2")))
    )
    assert bare["seen items"] == "unknown (no train data)"


def test_notes_and_counts():
    one, other = evaluated(), evaluated("b", train=None)
    comparison = weft.compare([evaluated(per_user=True), evaluated("b", per_user=True)])
    said = words.notes(ReportContext({"als": one, "b": other}))
    assert said[0].startswith("all models: 1 of 40 users has no relevant item") and not any(
        note.startswith("b:") for note in said
    )
    assert words.notes(ReportContext.from_result(one))[-1] == one.notes[-1]
    assert words.notes(ReportContext.from_result(comparison))[-2].startswith(
        "not compared, because they have no value per user: Gini"
    )
    counts = dict(
        words.counts(
            ReportContext({"als": one, "b": replace(other, counts={"users": 1000, "odd_thing": 2})})
        )
    )
    assert counts["users"] == ["40", "1,000"] and counts["odd thing"] == ["-", "2"]
    assert counts["users with equal scores at positions 5 and 6"] == ["0", "-"]
    assert counts["users with fewer than 10 recommended items"] == ["0", "-"]
    assert len(words.counts(ReportContext.from_result(one))) == len(one.counts)
    sliced = evaluated(slices={"half": dict.fromkeys(range(20), "x")})
    assert ("users without a group in the slice half", ["20"]) in words.counts(
        ReportContext.from_result(sliced)
    )


def test_every_count_has_a_text():
    from weft.evaluation.candidates import COUNTS
    from weft.evaluation.counts import COUNT_NAMES, DEFERRED_ERRORS

    for name in {*COUNT_NAMES, *COUNTS} - {*DEFERRED_ERRORS}:
        assert name in words._COUNTS


def test_definitions_show_the_parameters_used():
    shown = evaluated(
        metrics=[
            "nDCG(gain=linear)",
            "nDCG(gain=linear)@7",
            "Gini",
            "F1(metric_name_1=nDCG, metric_name_2=MAP, beta=0.5)",
        ]
    )
    ndcg, gini, f1 = words.definitions(ReportContext.from_result(shown))
    assert (ndcg.name, ndcg.better, ndcg.range) == ("nDCG(gain=linear)", "higher", "0 to 1")
    assert ndcg.parameters == (
        ("gain", "linear"),
        ("ideal", "cut (default)"),
        ("discount", "log (default)"),
    )
    assert (
        ndcg.summary.startswith("Normalized discounted cumulative gain")
        and "`gain`: Gain of a relevant item" in ndcg.definition
        and "Järvelin" in ndcg.reference
    )
    assert gini.better == "lower" and dict(gini.parameters) == {
        "denominator": "N-1 (default)",
        "users": "lists (default)",
        "weight": "uniform (default)",
        "p": "0.85 (default)",
    }
    assert ("beta", "0.5") in f1.parameters and ("metric_name_2", "MAP") in f1.parameters


def test_provenance():
    one, other = evaluated(per_user=True), evaluated("b", per_user=True, ties="random", seed=7)
    found = dict(words.provenance(ReportContext.from_result(weft.compare([one, other]))))
    assert found["Weft"] == one.provenance["weft"] and found["PyTorch"] == torch.__version__
    assert (
        found["truth fingerprint"] == one.provenance["fingerprint"]["truth"][:8]
        and found["source kind"] == "score matrix"
    )
    assert (
        found["ties"] == "index (als); random (b)"
        and found["seed"] == "0 (als); 7 (b)"
        and found["mask seen"] == "yes"
    )
    assert (
        found["comparison"]
        == "paired t-test, p-values not adjusted (one pair of models per metric), alpha = 0.05"
    )
    assert not {"metrics", "num_negatives", "configuration"} & found.keys()
    told = replace(
        one, provenance={**one.provenance, "processes": 4, "files": {"truth": "/data/test.csv"}}
    )
    assert dict(words.provenance(ReportContext.from_result(told)))["processes"] == "4"
    assert dict(words.provenance(ReportContext.from_result(told)))["truth file"] == "/data/test.csv"


# --------------------------------------------------------------------------------------------------


def values(results):
    return {
        (one.name, value.name): (value.value, value.std_error, value.bca_low)
        for one in results
        for value in one.entries
    }


def equal(one, other):
    return one.keys() == other.keys() and all(
        np.array_equal(one[key], other[key], equal_nan=True) for key in one
    )


def test_python_call_reproduces_the_values():
    generator = torch.Generator().manual_seed(3)
    given = {
        "truth": {user: {user % 30: 5, (7 * user + 1) % 30: 3} for user in range(40)},
        "train": {user: [(user + 1) % 30, 3] for user in range(40)},
        "user_groups": {user: "xy"[user % 2] for user in range(40)},
        "item_features": {item: [str(item % 4), str(item % 3)] for item in range(30)},
        "sources": {
            name: torch.rand(40, 30, generator=generator).round(decimals=1)
            for name in ("als", "it's <b>")
        },
    }
    ways = [
        {
            "metrics": ["nDCG", "GAUC", "EPC", "SRecall", "UserMADRanking"],
            "top_k": [5, 10],
            "ties": "random",
            "seed": 4,
        },
        {
            "metrics": ["nDCG@5", "nDCG@7", "Recall@5", "Gini@9"],
            "bootstrap": 50,
            "slices": {"activity": "bins(1, 2)"},
            "per_user": True,
        },
        {
            "metrics": ["nDCG"],
            "top_k": 5,
            "strategy": "sampled",
            "num_negatives": 5,
            "negative_sampling": "popularity",
            "seed": 2,
        },
        {
            "metrics": ["Recall"],
            "top_k": 5,
            "strategy": "sampled",
            "num_negatives": 5,
            "estimator": "bias_variance",
            "gamma": 0.2,
        },
        {
            "metrics": ["nDCG", "MAP"],
            "top_k": [5],
            "profile": "trec_eval",
            "mask_seen": False,
            "relevance_threshold": 4,
        },
        {
            "metrics": ["nDCG"],
            "top_k": [5],
            "candidates": "warm",
            "empty_users": "zero",
            "ties": "expected",
        },
    ]
    for way in ways:
        inputs = {name: given[name] for name in ("train", "user_groups", "item_features")}
        results = [
            weft.evaluate(source, given["truth"], name=name, **inputs, **way)
            for name, source in given["sources"].items()
        ]
        ((heading, text),) = words.rerun(ReportContext({one.name: one for one in results}))
        assert heading == "Evaluation in Python"
        assert "users='positions'" in text and "items='positions'" in text
        there = dict(given)
        exec(text, there)
        assert equal(values(there["results"]), values(results)), text
        assert [one.per_user is None for one in there["results"]] == ["per_user" not in way] * 2
        ((_, alone),) = words.rerun(ReportContext.from_result(results[1]))
        there = given | {"source": given["sources"]["it's <b>"]}
        exec(alone, there)
        assert equal(values([there["result"]]), values(results[1:])), alone


def test_rerun_of_an_evaluator():
    batches = [
        (
            torch.rand(4, 9, generator=torch.Generator().manual_seed(at)),
            torch.eye(9)[:4],
            torch.arange(4) + 4 * at,
        )
        for at in range(2)
    ]
    evaluator = weft.Evaluator(
        metrics=["nDCG", "Gini"], top_k=[3, 5], ties="random", seed=3, num_items=9
    )
    for batch in batches:
        evaluator.update(*batch)
    ((_, text),) = words.rerun(ReportContext.from_result(evaluator.compute()))
    there = {"batches": batches}
    exec(text, there)
    assert "weft.Evaluator(" in text and equal(
        values([there["result"]]), values([evaluator.compute()])
    )


def test_models_with_different_settings_have_separate_calls():
    found = words.rerun(
        ReportContext(
            {"a": evaluated("a"), "b": evaluated("b"), "c": evaluated("c", ties="random")}
        )
    )
    assert [heading for heading, _ in found] == [
        "Evaluation of a, b in Python",
        "Evaluation of c in Python",
    ]
    assert "ties='random'" in found[1][1] and "ties='random'" not in found[0][1]


@pytest.fixture
def files(tmp_path, monkeypatch):
    write_data(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_configuration_reproduces_the_values(files):
    names = {"als": "als.csv", "on": "knn.csv", "it's: #1 <b>[x]": "pop.csv"}
    given = {
        "evaluation": {
            "metrics": ["nDCG", "nDCG(gain=linear)@7", "Gini"],
            "complex_metrics": [{"name": "F1", "params": {"beta": 0.5}}],
            "top_k": [5, 10],
            "ties": "random",
            "seed": 3,
            "bootstrap": 20,
            "slices": {"activity": "quantiles(2)"},
            "gates": ["nDCG@5 >= elsewhere.json"],
            "stat_significance": {"wilcoxon_test": True, "corrections": {"fdr": True}},
        },
        "data": {"truth": "test.csv", "train": {"path": "train.csv", "ratings": False}},
        "models": names,
    }
    run = config_run.run(from_mapping(given, folder=files))
    subject = ReportContext({one.name: one for one in run.results}, run.comparisons[0])
    (heading, text), *comparing = words.rerun(subject)
    assert heading.startswith("Configuration file: save as config.yaml")
    assert text.startswith("# Gates are omitted")
    elsewhere = files / "folder"
    elsewhere.mkdir()
    (elsewhere / "again.yaml").write_text(text, encoding="utf-8")
    again = config_run.run(load(elsewhere / "again.yaml"))
    assert equal(values(again.results), values(run.results)) and list(names) == [
        one.name for one in again.results
    ]
    assert again.comparisons[0].rows == run.comparisons[0].rows
    assert comparing[0] == (
        "Comparison in Python",
        "comparison = weft.compare(results, tests=['wilcoxon'], correction='fdr')",
    )


def test_different_configurations_are_separate(files):
    common = {"data": {"truth": "test.csv"}}
    runs = [
        config_run.run(
            from_mapping(
                {
                    **common,
                    "evaluation": {"metrics": ["MRR"], "top_k": [k]},
                    "models": {"als": file},
                },
                folder=files,
            )
        )
        for k, file in ((5, "als.csv"), (5, "knn.csv"), (7, "als.csv"))
    ]
    named = dict(zip(("als", "als (2)", "als (3)"), (one for run in runs for one in run.results)))
    found = words.rerun(ReportContext(named))
    assert [heading.partition(":")[0] for heading, _ in found] == [
        "Configuration file of als, als (2)",
        "Configuration file of als (3)",
    ]
    (files / "both.yaml").write_text(found[0][1], encoding="utf-8")
    assert {name: file.path.name for name, file in load(files / "both.yaml").models.items()} == {
        "als": "als.csv",
        "als (2)": "knn.csv",
    }


def test_rerun_of_a_comparison(files):
    arguments = [
        "--truth",
        "test.csv",
        "-m",
        "nDCG,MRR",
        "-k",
        "5,10",
        "--out",
        "results",
        "--per-user",
    ]
    done = CliRunner().invoke(
        cli.app, ["evaluate", "--recs", "als.csv", "--recs", "pop.csv", *arguments]
    )
    assert done.exit_code == 0, done.output
    results = [weft.load_result(f"results/{name}.json") for name in ("als", "pop")]
    settings = {
        "metrics": ["nDCG@5", "MRR@10"],
        "tests": ["randomization", "sign"],
        "correction": "none",
        "family": "pair",
    }
    settings |= {"alternative": "greater", "alpha": 0.01, "resamples": 50, "seed": 9}
    comparison = weft.compare(results, **settings)
    (_, call), (_, command) = words.rerun(ReportContext.from_result(comparison))[-2:]
    there = {"weft": weft, "results": results}
    exec(call, there)
    assert there["comparison"].rows == comparison.rows and there["comparison"].alpha == 0.01
    words_of_command = shlex.split(command)
    assert words_of_command[:4] == ["weft", "compare", "als.json", "pop.json"]
    there = [f"results/{word}" if word.endswith(".json") else word for word in words_of_command[1:]]
    printed = CliRunner().invoke(cli.app, [*there, "--format", "csv"])
    assert printed.exit_code == 0 and printed.stdout == comparison.to_csv()
    renamed = weft.compare({"old": results[0], "new": results[1]})
    (_, call), _ = words.rerun(ReportContext.from_result(renamed))[-2:]
    assert call == "comparison = weft.compare(dict(zip(['old', 'new'], results)))"


# --------------------------------------------------------------------------------------------------


def overall(*models, compared=False):
    context = ReportContext({one.name: one for one in models})
    if compared:
        context = ReportContext.from_result(weft.compare(list(models)))
    return summarize(context)


def test_overall_verdict_counts_wins_and_names_losses():
    als, knn = with_total(ALS, 0.4), with_total(KNN, 0.2)
    assert overall(als, knn, compared=True) == [
        "als and knn each have the best value on 1 of 2 metrics."
    ]
    als = with_total(als, 0.5, "ItemCoverage@10", higher_is_better=True)
    knn = with_total(knn, 0.1, "ItemCoverage@10", higher_is_better=True)
    assert overall(als, knn, compared=True) == [
        "als has the best value on 2 of 3 metrics; knn on 1 (Gini@10).",
        "Its lead over every other model is significant on 1 of 1 tested metrics; 1 was not "
        "tested.",
        "als is not the best on Gini@10 (0.4000; knn: 0.2000).",
    ]
    assert overall(als, knn) == [
        "als has the best value on 2 of 3 metrics; knn on 1 (Gini@10).",
        "als is not the best on Gini@10 (0.4000; knn: 0.2000).",
    ]
    assert overall(ALS, KNN) == ["als has the best value on the only metric."]
    assert overall(ALS) == []


def test_overall_verdict_takes_one_cutoff_of_each_metric():
    """Cut-off 10 if it is there, else the first one; ties count for each model."""
    entries = [
        MetricValue("nDCG", 5, 0.9, higher_is_better=True),
        MetricValue("nDCG", 10, 0.3, higher_is_better=True),
        MetricValue("MRR", 5, 0.7, higher_is_better=True),
        MetricValue("MRR", 20, 0.1, higher_is_better=True),
        MetricValue("BiasDisparityBR", 10, 1.5),
    ]
    first = Result(tuple(entries), "first")
    numbers = (0.8, 0.5, 0.7, 0.2, 1)
    changed = (replace(one, value=value) for one, value in zip(entries, numbers))
    second = Result(tuple(changed), "second")
    assert overall(first, second) == [
        "second has the best value on the only metric.",
        "Each metric counts once, at cut-off 10.",
    ]
    third = Result((replace(entries[2], value=0.1),), "third")
    assert overall(first, second, third) == [
        "second has the best value on all 2 metrics; first on 1 (MRR@5); ties count for each "
        "model.",
        "Each metric counts once, at cut-off 10, or at its first cut-off if it has no value there.",
    ]
    undefined = replace(first, entries=tuple(replace(one, value=math.nan) for one in entries))
    assert overall(undefined, second) == []


def test_verdicts_name_floor_and_ceiling():
    (entry,) = ALS.entries
    known = replace(ALS, entries=(replace(entry, floor=0.02, ceiling=0.98),))
    (sentence,) = words.verdicts(ReportContext({"als": known}))
    assert sentence.sentence.endswith(
        "A random order would have 0.0200, the best possible order 0.9800 (skill 0.2917)."
    )


def test_paths_lose_the_folders_of_the_machine():
    files = {"truth": "/home/ann/study/data/test.csv", "source": "/home/ann/study/als.csv"}
    configuration = {
        "data": {"truth": {"path": files["truth"]}},
        "models": {"als": files["source"]},
    }
    found = replace(
        ALS,
        provenance={"files": files, "configuration": configuration, "weft": "1"},
        notes=(f"{files['truth']}: two rows",),
    )
    context = ReportContext({"als": found}, warnings=(f"see {files['source']}",))
    hidden = hide_folders(context)
    result = hidden.results["als"]
    assert result.provenance["files"] == {"truth": "data/test.csv", "source": "als.csv"}
    assert result.provenance["configuration"]["models"] == {"als": "als.csv"}
    assert result.notes == ("data/test.csv: two rows",) and hidden.warnings == ("see als.csv",)
    assert "/home/ann" not in repr(words.rerun(hidden)) + repr(words.provenance(hidden))
    date = datetime.date(2026, 3, 1)
    assert (
        words.subtitle(hidden, date)
        == "truth: data/test.csv · report created on 2026-03-01 · Weft 1"
    )
    relative = ReportContext({"als": replace(ALS, provenance={"files": {"truth": "test.csv"}})})
    assert hide_folders(relative) is relative
    apart = replace(ALS, provenance={"files": {"truth": "/a/test.csv", "train": "/b/train.csv"}})
    (result,) = hide_folders(ReportContext({"als": apart})).results.values()
    assert result.provenance["files"] == {"truth": "test.csv", "train": "train.csv"}

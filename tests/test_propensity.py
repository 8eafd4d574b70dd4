"""Metrics with inverse propensity scores: values, given propensities, ties, notes, errors."""

import itertools
import json
import re

import numpy as np
import pytest
import torch
from torchmetrics import MetricCollection

import weft
from local_engine import evaluate as evaluate_in_partitions
from test_examples_accuracy import LISTS, TRAIN, TRUTH
from weft.metrics.accuracy.weighted_hits import _is_hit_sum
from weft.metrics.names import parse_name
from weft.report.context import ReportContext
from weft.report.rerun import rerun

NAMES = ["IPSRecall", "SNIPSRecall", "IPSDCG", "SNIPSDCG"]
GIVEN = {1: 1.0, 2: 0.5**0.5, 3: 0.5, 4: 0.5, 5: 0.0, 6: 0.05, 7: 0.1, 8: 0.01}


def run(metrics=NAMES, **settings):
    data = {"train": TRAIN, "mask_seen": True, "items": range(1, 9), "top_k": 4}
    return weft.evaluate(LISTS, TRUTH, metrics=metrics, **{**data, **settings})


@pytest.mark.parametrize(
    ("metric", "value", "by_user"),
    [  # WarpRec 2.2.8, full strategy
        ("IPSRecall@4", 3.569036, [4, 6, 0.707107]),
        ("SNIPSRecall@4", 0.556451, [0.545455, 1, 0.123899]),
        ("IPSDCG@4", 4.764045, [7.309298, 5.568625, 1.414214]),
        ("SNIPSDCG@4", 0.306731, [0.332241, 0.464052, 0.123899]),
    ],
)
def test_values_on_example(metric, value, by_user):
    """Estimated from train or given, below the clip too, and on three partitions."""
    given = {"train": None, "mask_seen": False, "inputs": {"propensities": GIVEN}}
    for settings in ({}, given, {"inputs": {"propensities": GIVEN}}):
        result = run(metric, per_user=True, **settings)
        assert result[metric] == pytest.approx(value, abs=5e-7)
        users = dict(zip(result.per_user["user"], result.per_user[metric]))
        assert [users[user] for user in "abc"] == pytest.approx(by_user, abs=5e-7)
    data = {"train": TRAIN, "mask_seen": True, "items": range(1, 9), "metrics": metric}
    parts = evaluate_in_partitions(LISTS, TRUTH, parts=3, **data)
    assert parts[metric] == pytest.approx(value, abs=5e-7)
    assert [note for note in parts.notes if "propensity" in note] == [
        note for note in run(metric).notes if "propensity" in note
    ]


def test_notes_effective_sample_size_and_clipped_weight():
    """Weights of a 10 2 10, b 2 10, c √2 10: items 5 to 8 are clipped; given, 7 has 0.1 itself."""
    names = [*NAMES, "IPSRecall(power=0)", "IPSRecall(relevance_threshold=3)"]
    total, squares = 44 + 2**0.5, 4 * 100 + 2 * 4 + 2
    share = total**2 / squares
    assert share == pytest.approx(5.030368, abs=5e-7)
    notes = [note for note in run(names).notes if "propensity" in note]
    assert notes == [
        "IPSRecall, SNIPSRecall, IPSDCG, SNIPSDCG weight 7 relevant interactions by 1 / "
        f"propensity: the effective sample size is {share:.2f}, and {40 / total:.1%} of the weight "
        "is on items with a propensity below 0.1, which is clipped",
        "IPSRecall(power=0) weights 7 relevant interactions by 1 / propensity: the effective "
        "sample size is 7.00, and 0.0% of the weight is on items with a propensity below 0.1, "
        "which is clipped",
        "IPSRecall(relevance_threshold=3) weights 2 relevant interactions by 1 / propensity: the "
        f"effective sample size is {144 / 104:.2f}, and {10 / 12:.1%} of the weight is on items "
        "with a propensity below 0.1, which is clipped",
    ]
    given = run(["IPSRecall"], inputs={"propensities": GIVEN}).notes
    assert any(f"and {30 / total:.1%} of the weight" in note for note in given)
    assert not any("propensity" in note for note in run(["Recall"]).notes)
    # Users who are dropped because they are repeated do not count twice.
    evaluator = weft.Evaluator(
        ["IPSRecall@2"], num_items=3, repeated_users="drop", inputs={"propensities": [1, 0.5, 0.05]}
    )
    for _ in range(2):
        evaluator.update(torch.rand(2, 3), torch.tensor([[1, 1, 0], [0, 0, 1]]), torch.arange(2))
    (note,) = (note for note in evaluator.compute().notes if "propensity" in note)
    assert note.startswith("IPSRecall weights 3 relevant interactions")
    assert f"the effective sample size is {169 / 105:.2f}, and {10 / 13:.1%} of" in note


def test_values_with_other_powers(tmp_path):
    """They are those of the same metric with that power, from the same pass."""
    names = ["SNIPSRecall", "IPS(metric=nDCG(gain=linear), clip=0.2)", "IPSDCG(power=2)"]
    names += ["IPSRecall(relevance_threshold=3)", "IPSDCG(power=0)"]
    data = {"top_k": [2, 4], "bootstrap": 20, "slices": {"half": {"a": 1, "b": 2, "c": 2}}}
    result = run(names, **data)
    for value in result.entries:
        power = weft.metrics.registry.prototype(parse_name(value.plain_name)).power
        expected = sorted({0, power / 2, power * 2} - {power})
        assert [other for other, _ in value.by_power] == expected
        for other, number in value.by_power:
            inside = value.metric.replace(f", power={power:g}", "").replace(
                f"(power={power:g})", ""
            )
            text = f"{inside[:-1]}, power={other})" if "(" in inside else f"{inside}(power={other})"
            assert run(f"{text}@{value.k}").entries[0].value == number, (value.name, other)
    # With the metric of that power in the run, its own sums are used.
    both = run(["SNIPSRecall", "SNIPSRecall(power=1)"])
    assert dict(both.entry("SNIPSRecall@4").by_power)[1] == both["SNIPSRecall(power=1)@4"]
    result.save(tmp_path / "result.json")
    assert weft.load_result(tmp_path / "result.json").entries == result.entries
    text = json.loads((tmp_path / "result.json").read_text())
    text["values"][0]["by_power"] = [[0.5]]
    (tmp_path / "result.json").write_text(json.dumps(text))
    with pytest.raises(weft.errors.InputError, match="pairs of a power and a value"):
        weft.load_result(tmp_path / "result.json")
    parts = evaluate_in_partitions(
        LISTS, TRUTH, parts=3, train=TRAIN, items=range(1, 9), metrics=names, top_k=[2, 4]
    )
    for one, other in zip(parts.entries, result.entries):
        assert dict(one.by_power) == pytest.approx(dict(other.by_power))


def test_notes_values_with_other_powers():
    (note,) = (note for note in run(["SNIPSRecall"]).notes if "assumption" in note)
    powers = [run(f"SNIPSRecall(power={power})").entries[0].value for power in (0, 0.25, 1)]
    assert note == (
        "power=0.5 is an assumption; with the powers 0, 0.25, 1, SNIPSRecall@4 0.5565 would be "
        + ", ".join(f"{value:.4f}" for value in powers)
    )
    (note,) = (n for n in run(NAMES, top_k=[1, 4]).notes if "assumption" in n)
    assert note.endswith("; for 4 more values see by_power of their entries")
    for settings in (
        {"inputs": {"propensities": GIVEN}},
        {"train": {"a": []}},
        {"metrics": "IPSRecall(power=0)"},
    ):
        result = run(**{"metrics": "IPSRecall", **settings})
        assert result.entries[0].by_power == ()
        assert not any("assumption" in note for note in result.notes)


def test_equal_propensities_give_plain_metrics():
    names = ["IPSRecall(power=0)", "SNIPSRecall(power=0)", "Recall"]
    names += ["IPSDCG(clip=1)", "DCG(gain=binary)"]
    one, two, three, four, five = (value.value for value in run(names, ties="expected").entries)
    assert one == two == three and four == five


def test_general_metric_has_the_four_as_cases():
    general = ["Recall", "Recall, self_normalized=True", "DCG(gain=binary)"]
    general += ["DCG(gain=binary), self_normalized=True"]
    for ties in ("index", "expected"):
        for parameters in ("", "power=1, clip=0.3"):
            own = [f"{name}({parameters})" if parameters else name for name in NAMES]
            names = [f"IPS(metric={name}, {parameters})".replace(", )", ")") for name in general]
            result = run([*own, *names], ties=ties)
            one, other = np.split(np.array([value.value for value in result.entries]), 2)
            assert one == pytest.approx(other, rel=1e-12)


HIT_SUMS = ["Precision", "Recall(normalizer=capped)", "DCG", "nDCG(gain=linear)", "NCRR"]
HIT_SUMS += ["nDCGRendle2020", "RBP(p=0.6)", "RBP(relevance=graded, max_grade=9)"]


def test_general_metric_with_equal_propensities_is_the_metric():
    """The scale of equal propensities matters unless the weights are normalized."""
    inputs = {"propensities": dict.fromkeys(range(1, 9), 0.25)}
    for name in HIT_SUMS:
        names = [name, f"IPS(metric={name}, clip=1)", f"IPS(metric={name})"]
        names.append(f"IPS(metric={name}, self_normalized=True)")
        result = run(names, inputs=inputs, ties="expected")
        plain, equal, scaled, normalized = (value.value for value in result.entries)
        assert equal == pytest.approx(plain) and scaled == pytest.approx(4 * plain), name
        if name != "DCG":  # SNIPSDCG is divided by the number of relevant items, too
            assert normalized == pytest.approx(plain), name


def test_general_metric_in_names_and_partitions():
    name = "IPS(metric=nDCG(gain=linear), power=0.25)@4"
    assert str(
        weft.metrics.IPS(k=4, metric="ndcg(gain=linear)", power=0.25, propensities=[1.0]).spec
    ) == (name)
    data = {"train": TRAIN, "items": range(1, 9), "metrics": name}
    alone = weft.evaluate(LISTS, TRUTH, **data)
    parts = evaluate_in_partitions(LISTS, TRUTH, parts=3, **data)
    assert parts[name] == pytest.approx(alone[name]) and parts.notes == alone.notes
    assert any(
        "IPS(metric=nDCG(gain=linear), power=0.25)" in n and "gain" in n for n in alone.notes
    )
    own = weft.evaluate(
        LISTS, TRUTH, **{**data, "metrics": "IPS(metric=Recall, relevance_threshold=2)@4"}
    )
    whole = weft.evaluate(
        LISTS, TRUTH, **{**data, "metrics": "IPSRecall@4", "relevance_threshold": 2}
    )
    assert own.entries[0].value == whole.entries[0].value


class Squared(weft.metrics.Recall):
    """Recall, squared: a formula of its own."""

    def user_values(self, topk):
        return super().user_values(topk) ** 2


@pytest.mark.parametrize(
    ("metric", "reason"),
    [
        *((name, "expected one of DCG, NCRR, nDCG,") for name in ("MRR", "MAP", "HitRate", "F1")),
        *(
            (name, "is not a sum of independent contributions")
            for name in ("Gini", "EPC", "IPSRecall", "ERR")
        ),
        ("Recall@3", "evaluates Recall at the cut-off of IPS"),
        (
            "Recall(relevance_threshold=2)",
            "set the threshold of IPS instead, for example 'IPS(metric=Recall,",
        ),
        ("nope", "there is no metric named 'nope'"),
        (3, "got the component 3; expected the name of a metric"),
    ],
)
def test_general_metric_refuses(metric, reason):
    with pytest.raises(weft.WeftError, match=re.escape(reason)):
        weft.metrics.IPS(k=2, metric=metric, propensities=[1.0])


def test_general_metric_refuses_formulas_that_are_not_declared():
    assert _is_hit_sum(weft.metrics.Recall) and not _is_hit_sum(Squared)
    with pytest.raises(weft.WeftError, match="IPS@4 needs metric: write for example 'IPS"):
        run("IPS")


@pytest.mark.parametrize("name", [*NAMES, *(f"IPS(metric={name})" for name in HIT_SUMS)])
def test_expected_ties_floor_and_ceiling_are_those_of_all_orders(name):
    """One user of six items: item 0 is masked, items 0, 1 and 2 are relevant."""
    orders = np.array(list(itertools.permutations(range(5))))
    scores = np.hstack([np.zeros((len(orders), 1)), orders.astype(float)])
    data = {
        "metrics": name,
        "top_k": [1, 2, 3, 8],
        "inputs": {"propensities": [0.9, 0.2, 0.5, 1, 0.1, 0.3]},
    }
    truth, seen = np.array([[2, 1, 3, 0, 0, 0]]), np.array([[1, 0, 0, 0, 0, 0]])

    def evaluate(scores, **settings):
        rows = len(scores)
        return weft.evaluate(
            scores, truth.repeat(rows, 0), train=seen.repeat(rows, 0), **data, **settings
        )

    result = evaluate(scores, skill=True, per_user=True)
    tied = evaluate(np.ones((1, 6)), ties="expected")
    for value in result.entries:
        values = result.per_user[value.name]
        assert value.floor == pytest.approx(values.mean(), abs=1e-12), value.name
        assert value.ceiling == pytest.approx(values.max(), abs=1e-12), value.name
        assert tied[value.name] == pytest.approx(values.mean(), abs=1e-12), value.name


@pytest.mark.parametrize("estimator", ["rank_estimate", "bias_variance"])
def test_sampled_negatives_estimate_the_ranks_among_all_items(estimator):
    """Of a single relevant item, the weight is a factor of the estimates of Recall and DCG."""
    rng = np.random.default_rng(7)
    items, propensities = rng.integers(0, 50, 60), rng.uniform(0.1, 1, 50)
    settings = {
        "strategy": "sampled",
        "num_negatives": 20,
        "estimator": estimator,
        "top_k": [2, 20],
    }
    names = [*NAMES, "Recall", "DCG(gain=binary)", "nDCG", "IPS(metric=nDCG)"]
    result = weft.evaluate(
        rng.random((60, 50)),
        items,
        metrics=names,
        inputs={"propensities": propensities},
        per_user=True,
        **settings,
    )
    users = {name: np.array(result.per_user[name]) for name in result.per_user.columns[1:]}
    for k in (2, 20):
        recall, dcg = users[f"Recall@{k}"], users[f"DCG(gain=binary)@{k}"]
        assert 0 < recall.mean() < 1
        assert users[f"IPSRecall@{k}"] == pytest.approx(recall / propensities[items])
        assert users[f"IPSDCG@{k}"] == pytest.approx(dcg / propensities[items])
        assert users[f"SNIPSRecall@{k}"] == pytest.approx(recall)
        ndcg = users[f"nDCG@{k}"] / propensities[items]
        assert users[f"IPS(metric=nDCG)@{k}"] == pytest.approx(ndcg)
        assert users[f"SNIPSDCG@{k}"] == pytest.approx(dcg)


def test_train_that_is_empty():
    result = run(NAMES, train={"a": []})
    assert all(np.isnan(value.value) for value in result.entries)
    assert any("train, from which propensities are estimated, is empty" in n for n in result.notes)
    assert not any("effective sample size" in note for note in result.notes)


def test_standalone_metrics_with_different_propensities_share_a_ranking():
    collection = MetricCollection(
        {
            name: weft.metrics.IPSRecall(k=1, propensities=values)
            for name, values in {"a": [1.0, 0.25, 0.5], "b": [1.0, 0.5, 0.5]}.items()
        },
        compute_groups=False,
    )
    collection.update(torch.tensor([[0.1, 0.9, 0.5]]), torch.tensor([[1, 1, 0]]))
    assert {name: float(value) for name, value in collection.compute().items()} == {"a": 2, "b": 1}


def test_either_input_is_enough():
    parts = "F1(metric_name_1=SNIPSRecall, metric_name_2=SNIPSDCG)@4"
    given = {"train": None, "mask_seen": False, "inputs": {"propensities": GIVEN}}
    assert run(parts, **given)[parts] == run(parts)[parts] > 0
    message = (
        r"IPSRecall@4 needs train, the train interactions, from which propensities are.*train="
    )
    with pytest.raises(weft.errors.MissingInput, match=message):
        run("IPSRecall", train=None, mask_seen=False)
    with pytest.raises(weft.errors.MissingInput, match=r"F1.* needs train"):
        run(parts, train=None, mask_seen=False)
    with pytest.raises(weft.errors.MissingInput, match="IPSDCG needs train"):
        weft.metrics.IPSDCG(k=2)
    for settings, is_read in (({}, True), (given, False)):
        result = run("IPSRecall", **settings)
        ((_, call),) = rerun(ReportContext.from_result(result))
        assert ("train=train" in call) is is_read


@pytest.mark.parametrize(
    ("name", "propensities", "reason"),
    [
        ("IPSRecall(power=-1)", None, "power=-1; it must be a number of at least 0"),
        ("IPSRecall(power=much)", None, "power='much'; it must be a number of at least 0"),
        ("SNIPSDCG(clip=0)", None, "clip=0; it must be a number above 0 and at most 1"),
        ("SNIPSDCG(clip=1.5)", None, "clip=1.5; it must be a number above 0 and at most 1"),
        (
            "IPSDCG",
            {**GIVEN, 3: 3.5},
            r"1 value outside \[0, 1\], such as 3.5; expected the prob",
        ),
        ("IPSDCG", {**GIVEN, 3: -0.5}, r"outside \[0, 1\], such as -0.5"),
        ("IPSDCG", {3: 0.5}, "has no number for 7 of 8 items"),
    ],
)
def test_rejects_wrong_parameters_and_propensities(name, propensities, reason):
    with pytest.raises(weft.WeftError, match=reason):
        run(name, inputs={"propensities": propensities})

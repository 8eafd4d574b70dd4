"""`weft.Composite` and arithmetic on metrics: formulas over the values of a run."""

import copy
import math
import pickle

import numpy as np
import pytest
import torch
import torchmetrics
from torch import nn
from typer.testing import CliRunner

import weft
from local_engine import assert_same, evaluate, make_lists
from process_groups import run_in_processes
from weft.cli import app
from weft.errors import MissingInput, SettingError
from weft.metrics.names import parse_name
from weft.metrics.registry import canonical_name

USERS, ITEMS = 60, 40
GENERATOR = torch.Generator().manual_seed(3)
SCORES = torch.rand(USERS, ITEMS, generator=GENERATOR)
TRUTH = (torch.rand(USERS, ITEMS, generator=GENERATOR) < 0.1).float()
TRAIN = (torch.rand(USERS, ITEMS, generator=GENERATOR) < 0.2).int()

nDCG, Recall, Precision, EPC = (
    getattr(weft.metrics, name) for name in ("nDCG", "Recall", "Precision", "EPC")
)
COMPONENTS = ["nDCG@10", "Recall@5"]


def larger(ndcg, recall):
    return torch.maximum(ndcg, recall)


def ratio(ndcg, recall):
    return ndcg / recall


def make_composites():
    """Return composites of nDCG@10 and Recall@5 by name, with plain Python for their values."""
    ndcg, recall = nDCG(k=10), Recall(k=5)
    return {
        "nDCG@10 * Recall@5": (ndcg * recall, lambda n, r: n * r),
        "2 * nDCG@10": (2 * ndcg, lambda n, r: 2 * n),
        "nDCG@10 - Recall@5": (ndcg - recall, lambda n, r: n - r),
        "nDCG@10 / Recall@5": (ndcg / recall, lambda n, r: n / r),
        "1 - nDCG@10": (1 - ndcg, lambda n, r: 1 - n),
        "0.5 / Recall@5": (0.5 / recall, lambda n, r: 0.5 / r),
        "-1 * Recall@5": (-recall, lambda n, r: -r),
        "((nDCG@10 * Recall@5) ** 0.5) + 1": (
            (ndcg * recall) ** 0.5 + 1,
            lambda n, r: (n * r) ** 0.5 + 1,
        ),
        "2 ** nDCG@10": (2**ndcg, lambda n, r: 2**n),
        "larger": (weft.Composite("larger", [ndcg, recall], larger), max),
        "ratio@5": (weft.Composite("ratio@5", COMPONENTS, ratio), lambda n, r: n / r),
        "gap": ((ndcg - recall).rename("gap"), lambda n, r: n - r),
    }


def as_floats(result):
    """Return the values of a result by name."""
    return {value.name: value.value for value in result.entries}


def expected_values(result):
    return {
        name: formula(result["nDCG@10"], result["Recall@5"])
        for name, (_, formula) in make_composites().items()
    }


@pytest.mark.parametrize("beside", [[], COMPONENTS])
def test_composites_read_the_values_of_the_run(beside):
    metrics = [metric for metric, _ in make_composites().values()]
    plain = weft.evaluate(SCORES, TRUTH, metrics=COMPONENTS)
    result = weft.evaluate(SCORES, TRUTH, metrics=[*metrics, *beside])
    assert as_floats(result) == pytest.approx(
        {**expected_values(plain), **{n: plain[n] for n in beside}}
    )
    assert [value.name for value in result.entries] == [*make_composites(), *beside]


def test_composites_share_the_sums_of_the_run():
    together = weft.Evaluator([nDCG(k=10) * Recall(k=5), *COMPONENTS])
    assert together.sums.shape == weft.Evaluator(COMPONENTS).sums.shape


def test_every_form_of_evaluation_has_the_same_values():
    metrics = [metric for metric, _ in make_composites().values()]
    expected = as_floats(weft.evaluate(SCORES, TRUTH, metrics=metrics))
    evaluator = weft.Evaluator(metrics)
    collection = torchmetrics.MetricCollection(
        {f"m{number:02}": metric for number, metric in enumerate(metrics)}
    )
    alone = [copy.deepcopy(metric) for metric in metrics]
    for rows in torch.arange(USERS).split(25):
        for target in (evaluator, collection, *alone):
            target.update(SCORES[rows], TRUTH[rows])
    assert as_floats(evaluator.compute()) == pytest.approx(expected)
    assert [float(value) for value in collection.compute().values()] == pytest.approx(
        list(expected.values())
    )
    assert [float(metric.compute()) for metric in alone] == pytest.approx(list(expected.values()))
    prepared = weft.prepare(TRUTH, metrics=metrics)
    assert as_floats(prepared.evaluate(SCORES)) == pytest.approx(expected)
    assert prepared.evaluate(-SCORES)["gap"] != prepared.evaluate(SCORES)["gap"]


def test_alone_a_composite_resets_merges_copies_and_saves():
    rows = torch.arange(USERS).split(35)
    whole = nDCG(k=10) * Recall(k=5)
    parts = [pickle.loads(pickle.dumps(whole)), copy.deepcopy(whole)]
    whole.update(SCORES, TRUTH)
    expected = whole.compute()
    of_first = nDCG(k=10) * Recall(k=5)
    assert float(of_first(SCORES[rows[0]], TRUTH[rows[0]])) != float(expected)
    for part, some in zip(parts, rows):
        part.update(SCORES[some], TRUTH[some])
    parts[0].merge_state(parts[1])
    assert float(parts[0].compute()) == pytest.approx(float(expected))
    assert torch.equal(of_first.compute(), of_first.compute())
    of_first.reset()
    of_first.update(SCORES, TRUTH)
    assert torch.equal(of_first.compute(), expected)
    whole.persistent(True)
    other = nDCG(k=10) * Recall(k=5)
    other.persistent(True)
    other.load_state_dict(whole.state_dict())
    assert torch.equal(other.compute(), expected)
    another = nDCG(k=10) + Recall(k=5)
    another.persistent(True)
    with pytest.raises(SettingError, match="states"):
        another.load_state_dict(whole.state_dict())
    with pytest.raises(SettingError, match="cannot be merged with"):
        another.merge_state(whole)


def test_evaluators_with_composites_merge_and_are_saved(tmp_path):
    def build(formula=larger):
        return weft.Evaluator([weft.Composite("larger", COMPONENTS, formula), "1 - nDCG@10"])

    whole, parts = build(), [build(), build()]
    whole.update(SCORES, TRUTH)
    files = []
    for number, (part, rows) in enumerate(zip(parts, torch.arange(USERS).split(35))):
        part.update(SCORES[rows], TRUTH[rows], rows)
        files.append(weft.save_state(part, tmp_path / f"{number}.state"))
    expected = pytest.approx(as_floats(whole.compute()))
    assert as_floats(weft.merge_states(files, build())) == expected
    parts[0].merge(parts[1])
    assert as_floats(parts[0].compute()) == expected
    with pytest.raises(SettingError, match="definitions"):
        parts[0].merge(build(ratio))
    by_name = weft.Evaluator(["1 - nDCG@10"])
    by_name.update(SCORES, TRUTH)
    loaded = weft.load_state(weft.save_state(by_name, tmp_path / "name.state"))
    assert as_floats(loaded.compute()) == as_floats(by_name.compute())


def test_names_parse_and_print_back():
    for name, (metric, _) in make_composites().items():
        assert str(metric.spec) == name
        if " " in name:
            assert parse_name(name) == metric.spec
            assert canonical_name(name) == name
    assert canonical_name("ndcg@10*recall@5 + 1") == "(nDCG@10 * Recall@5) + 1"
    assert canonical_name("2*(nDCG@10 - Recall@5 - 1)") == "2 * ((nDCG@10 - Recall@5) - 1)"
    assert canonical_name("nDCG(gain=linear)@10 / F1@5") == "nDCG(gain=linear)@10 / F1@5"
    result = weft.evaluate(SCORES, TRUTH, metrics=["nDCG@10*Recall@5", *COMPONENTS])
    assert result["ndcg@10 * recall@5"] == result["nDCG@10"] * result["Recall@5"]


@pytest.mark.parametrize(
    "name", ["1 + 2", "nDCG@10 *", "* nDCG@10", "(nDCG@10", "nDCG@10 + + 1", "3", "2 * 3 * nDCG@10"]
)
def test_mistakes_in_arithmetic_names_are_refused(name):
    with pytest.raises(SettingError, match="cannot read the metric name"):
        parse_name(name)


def test_composites_are_sound_metrics():
    outcomes = weft.testing.check_metric("nDCG@5 * Recall@3")
    assert outcomes["merges_shards"] == outcomes["forgets_on_reset"] == "passed"


def test_profiles_leave_composite_objects_as_they_are():
    truth = TRUTH * torch.arange(1, ITEMS + 1)  # graded, so that gains matter
    composite = weft.Composite("twice", ["nDCG(gain=binary)@10"], lambda ndcg: 2 * ndcg)
    metrics = [composite, "nDCG(gain=binary)@10", "nDCG@10"]
    result = weft.evaluate(SCORES, truth, metrics=metrics, profile="ranx")
    assert result["twice"] == 2 * result["nDCG(gain=binary)@10"] != 2 * result["nDCG@10"]
    with pytest.raises(SettingError, match=r"does not cover Composite \(arithmetic on metrics\)"):
        weft.evaluate(SCORES, truth, metrics=["2 * nDCG@10"], profile="ranx")


def test_a_name_without_a_cutoff_is_refused():
    with pytest.raises(SettingError, match="write 'nDCG@10'"):
        weft.evaluate(SCORES, TRUTH, metrics=["nDCG * Recall@5"], top_k=10)


def test_division_by_zero_and_infinite_values_are_undefined():
    never = torch.zeros(USERS, ITEMS)
    never[:, -1] = 1
    scores = torch.arange(ITEMS, 0, -1).float().repeat(USERS, 1)  # the relevant item comes last
    composites = [
        nDCG(k=10) / Recall(k=5),
        1 / Recall(k=5),
        Recall(k=5) ** -1,
        weft.Composite("ratio", COMPONENTS, ratio),
        weft.Composite("power", COMPONENTS, lambda ndcg, recall: recall ** (ndcg - 1)),
    ]
    result = weft.evaluate(scores, never, metrics=[*composites, *COMPONENTS])
    assert result["Recall@5"] == 0
    assert all(math.isnan(result[str(metric.spec)]) for metric in composites)
    assert any("no finite value" in note for note in result.notes)
    composites[0].update(scores, never)
    assert math.isnan(composites[0].compute())


def test_the_direction_is_unknown_unless_given():
    better = weft.Composite("larger", COMPONENTS, larger, higher_is_better=True)
    worse = (1 - nDCG(k=10)).rename("loss", higher_is_better=False)
    result = weft.evaluate(SCORES, TRUTH, metrics=[better, worse, nDCG(k=10) * 2])
    assert [value.higher_is_better for value in result.entries] == [True, False, None]
    assert better.rename("other").higher_is_better is True


def test_a_composite_has_intervals_but_no_values_per_user_or_slice():
    metrics = [nDCG(k=10) * Recall(k=5), "nDCG@10"]
    groups = {"half": ["a", "b"] * (USERS // 2)}
    evaluator = weft.Evaluator(
        metrics, bootstrap=200, per_user=True, slices=groups, num_users=USERS
    )
    evaluator.update(SCORES, TRUTH, torch.arange(USERS))
    result = evaluator.compute()
    value = result.entry("nDCG@10 * Recall@5")
    assert value.interval[0] < value.value < value.interval[1]
    assert value.parts == (
        result["nDCG@10"],
        weft.evaluate(SCORES, TRUTH, metrics="Recall@5")["Recall@5"],
    )
    assert "nDCG@10 * Recall@5" not in result.per_user.columns
    assert set(result.slices["metric"]) == {"nDCG"}


def test_repeated_users_are_dropped():
    users = torch.cat([torch.arange(USERS), torch.arange(5)])
    evaluator = weft.Evaluator([nDCG(k=10) * Recall(k=5)], repeated_users="drop")
    evaluator.update(SCORES[users], TRUTH[users], users)
    expected = weft.evaluate(SCORES, TRUTH, metrics=["nDCG@10 * Recall@5"])
    assert as_floats(evaluator.compute()) == pytest.approx(as_floats(expected))


def test_inputs_come_from_objects_arguments_and_the_run():
    by_object = EPC(k=5, train=TRAIN) - nDCG(k=5)
    by_name = weft.Composite(
        "gap", ["EPC@5", "nDCG@5"], lambda epc, ndcg: epc - ndcg, inputs={"train": TRAIN}
    )
    for metric in (by_object, by_name):
        metric.update(SCORES, TRUTH)
    assert torch.equal(by_object.compute(), by_name.compute())
    with pytest.raises(MissingInput, match=r"give it to Composite as inputs=\{'train'"):
        weft.Composite("gap", ["EPC@5", "nDCG@5"], larger)
    run = weft.evaluate(
        SCORES, TRUTH, train=TRAIN, mask_seen=False, metrics=["EPC@5 - nDCG@5", by_object]
    )
    assert list(run) == ["EPC@5 - nDCG@5"]
    assert run["EPC@5 - nDCG@5"] == pytest.approx(float(by_object.compute()))
    with pytest.raises(MissingInput, match="EPC@5 - nDCG@5 needs train"):
        weft.evaluate(SCORES, TRUTH, metrics=["EPC@5 - nDCG@5"])
    with pytest.raises(SettingError, match="a different train"):
        EPC(k=5, train=TRAIN) + EPC(k=10, train=1 - TRAIN)


def test_settings_come_from_the_objects_and_must_agree():
    strict = nDCG(k=10, relevance_threshold=1) * Recall(k=5, relevance_threshold=1)
    assert strict.settings()["relevance_threshold"] == 1
    hint = r"for all, or set the threshold of this metric alone, such as 'nDCG\(relev"
    with pytest.raises(SettingError, match=hint):
        nDCG(k=10, relevance_threshold=1) * Recall(k=5)


def test_classes_are_refused():
    with pytest.raises(SettingError, match=r"Recall is a class; combine .* Recall\(k=10\)"):
        nDCG(k=10) * Recall


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nDCG", COMPONENTS, larger), "the name of a metric"),
        (("two words", COMPONENTS, larger), "cannot read"),
        (("q(a=1)", COMPONENTS, larger), "give a word"),
        (("nDCG@10 * 2", COMPONENTS, larger), "give a word"),
        ((None, COMPONENTS, larger), "give a word"),
        (("q", [], larger), "give a list"),
        (("q", "nDCG@10", larger), "give a list"),
        (("q", COMPONENTS, "a * b"), "give a function"),
        (("q", ["nDCG", "Recall@5"], larger), "write 'nDCG@10'"),
        (("q", [3, "Recall@5"], larger), "got the component 3"),
        (("q", ["BiasDisparityBR@5"], larger, {"inputs": "all"}), "no single value"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    keywords = arguments[3] if len(arguments) > 3 else {}
    if keywords:
        keywords = {
            "inputs": {
                "train": TRAIN,
                "user_groups": ["a", "b"] * (USERS // 2),
                "item_clusters": ["x", "y"] * (ITEMS // 2),
                "num_items": ITEMS,
            }
        }
    with pytest.raises(SettingError, match=message):
        weft.Composite(*arguments[:3], **keywords)


def test_a_formula_that_gives_no_number_is_refused():
    metric = weft.Composite("pair", COMPONENTS, lambda ndcg, recall: torch.stack([ndcg, recall]))
    with pytest.raises(SettingError, match=r"shape \[2\]; expected one number"):
        weft.evaluate(SCORES, TRUTH, metrics=[metric])


class OwnStates(weft.TopKMetric):
    """A metric with states of its own, which no composite can read."""

    def __init__(self, k, **settings):
        super().__init__(k, **settings)
        self.add_state("total", torch.zeros(()), dist_reduce_fx="sum")

    def update(self, preds, **kwargs):
        self.total += kwargs["valid_users"].sum()

    def compute(self):
        return self.total


class Unregistered(weft.UserAverageTopKMetric):
    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        return top_k_rel.sum(1).double()


class CountRows(torchmetrics.Metric):
    """A foreign metric that takes the same arguments."""

    full_state_update = False

    def __init__(self):
        super().__init__()
        self.add_state("rows", torch.zeros(()), dist_reduce_fx="sum")

    def update(self, preds, target):
        self.rows += len(preds)

    def compute(self):
        return self.rows


@pytest.mark.parametrize("other", [OwnStates(k=5), Unregistered(k=5), CountRows()])
def test_other_metrics_combine_as_torchmetrics_does(other):
    other, plain = copy.deepcopy(other), copy.deepcopy(other)
    combined = [nDCG(k=10) * other, other * nDCG(k=10)]
    plain.update(SCORES, TRUTH)
    expected = float(plain.compute()) * weft.evaluate(SCORES, TRUTH, metrics="nDCG@10")["nDCG@10"]
    for metric in combined:
        assert isinstance(metric, torchmetrics.metric.CompositionalMetric)
        metric.reset()
        metric.update(SCORES, TRUTH)
        assert float(metric.compute()) == pytest.approx(expected)
        with pytest.raises(SettingError, match=r"a combination by TorchMetrics.* weft.Composite"):
            weft.evaluate(SCORES, TRUTH, metrics=[metric])


def test_a_composite_refuses_what_it_cannot_read():
    with pytest.raises(SettingError, match="cannot combine OwnStates"):
        weft.Composite("q", [OwnStates(k=5)], larger)
    with pytest.raises(SettingError, match=r"@weft\.register"):
        weft.Composite("q", [Unregistered(k=5)], larger)
    with pytest.raises(SettingError, match=r"combine all metrics in one weft\.Composite"):
        weft.metrics.Hypervolume(k=5, metric_names=[parse_name("2 * nDCG@5")], nadir_points=[0])


def test_metrics_with_batches_combine_their_present_values():
    ndcg, recall = nDCG(k=10), Recall(k=5)
    ndcg.update(SCORES[:30], TRUTH[:30])
    recall.update(SCORES, TRUTH)
    product = ndcg * recall
    assert float(product.compute()) == float(ndcg.compute()) * float(recall.compute())
    with pytest.raises(SettingError, match="was already updated"):
        weft.Evaluator([product])
    made = weft.Composite("product", [ndcg, recall], lambda a, b: a * b)
    made.update(SCORES, TRUTH)
    expected = weft.evaluate(SCORES, TRUTH, metrics=COMPONENTS)
    assert float(made.compute()) == pytest.approx(expected["nDCG@10"] * expected["Recall@5"])


# --------------------------------------------------------------------------------------------------


class Parent(weft.UserAverageTopKMetric):
    """A metric that keeps another one, in a form that the subclass chooses."""

    def keep(self, child):
        return child

    def __init__(self, k, **settings):
        super().__init__(k, **settings)
        self.child = self.keep(weft.metrics.nDCG(k=k))

    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        return top_k_rel.sum(1).double()


class ParentOfList(Parent):
    def keep(self, child):
        return [1, (child,)]


class ParentOfDict(Parent):
    def keep(self, child):
        return {"x": {"y": child}}


class ParentOfModules(Parent):
    def keep(self, child):
        return nn.ModuleList([nn.ModuleDict({"a": child})])


class ParentOfForeign(Parent):
    def keep(self, child):
        return torchmetrics.MetricCollection([torchmetrics.MeanMetric()])


@pytest.mark.parametrize(
    "metric", [Parent, ParentOfList, ParentOfDict, ParentOfModules, ParentOfForeign]
)
def test_metrics_inside_an_authors_metric_are_refused(metric):
    message = rf"{metric.__name__}@5 has a metric .* in self.child.* weft.Composite"
    with pytest.raises(SettingError, match=message):
        weft.evaluate(SCORES, TRUTH, metrics=[metric(k=5)])
    with pytest.raises(SettingError, match=message):
        weft.Evaluator([metric], top_k=5)


# --------------------------------------------------------------------------------------------------


def test_partitions_have_the_same_values():
    _, lists, truth = make_lists(np.random.default_rng(5), 40, 30)
    metrics = ["nDCG@10 * Recall@5", weft.Composite("larger", COMPONENTS, larger), *COMPONENTS]
    expected = weft.evaluate(lists, truth, metrics=metrics, bootstrap=50)
    assert_same(evaluate(lists, truth, metrics=metrics, bootstrap=50), expected)


def evaluate_in_process(rank, number):
    evaluator = weft.Evaluator(["nDCG@10 * Recall@5", weft.Composite("larger", COMPONENTS, larger)])
    alone = nDCG(k=10) * Recall(k=5)
    rows = torch.arange(rank, USERS, number)
    for target in (evaluator, alone):
        target.update(SCORES[rows], TRUTH[rows])
    return as_floats(evaluator.compute()), float(alone.compute())


@pytest.mark.slow
def test_processes_synchronize_composites():
    metrics = ["nDCG@10 * Recall@5", weft.Composite("larger", COMPONENTS, larger)]
    expected = as_floats(weft.evaluate(SCORES, TRUTH, metrics=metrics))
    for result, alone in run_in_processes(2, evaluate_in_process):
        assert result == pytest.approx(expected)
        assert alone == pytest.approx(expected["nDCG@10 * Recall@5"])


def test_arithmetic_works_on_the_command_line_and_in_files(tmp_path):
    lists, truth = tmp_path / "lists.csv", tmp_path / "truth.csv"
    lists.write_text("user,item,score\n1,a,3\n1,b,2\n2,a,1\n")
    truth.write_text("user,item\n1,b\n2,a\n")
    expected = weft.evaluate(lists, truth, metrics=["MRR@2", "Recall@2"])
    product = expected["MRR@2"] * expected["Recall@2"]
    config = tmp_path / "run.yaml"
    gates = "['MRR@2 * Recall@2 >= 0.5', 'MRR@2 * Recall@2 < 0.8']"
    config.write_text(
        f"data: {{truth: {truth}}}\nmodels: {{m: {lists}}}\nevaluation:\n"
        f"  metrics: [MRR@2 * Recall@2, Recall@2]\n  gates: {gates}\n"
    )
    arguments = ["--recs", str(lists), "--truth", str(truth), "-m", "MRR@2 * Recall@2,Recall@2"]
    for given in (arguments, [str(config)]):
        outcome = CliRunner().invoke(app, ["evaluate", *given, "--format", "json"])
        assert outcome.exit_code == 0, outcome.output
        assert f'"value": {product}' in outcome.stdout

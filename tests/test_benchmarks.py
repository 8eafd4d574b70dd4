"""The benchmarks run on small data, and measure what they describe. No times are tested."""

import json

import pytest
import torch
from benchmarks import cases, clock, collection, compare, files, metrics, repeated, sampled, threads
from benchmarks.data import CUTOFFS, SIX, make

import weft
from metric_cases import BUILT_IN
from weft.ranking.kernels import any_device as anywhere
from weft.ranking.kernels import using

PROBLEM = make(items=1_200, users=12)


def test_data_has_the_documented_shape():
    assert (
        PROBLEM.truth.sum(1).tolist() == [[10]] * 12
        and PROBLEM.train.sum(1).tolist() == [[100]] * 12
    )
    assert PROBLEM.truth.multiply(PROBLEM.train).nnz == 0
    assert (
        PROBLEM.first(5).truth.shape == (5, 1_200)
        and len(PROBLEM.first(5).about["user_groups"]) == 5
    )


@pytest.mark.parametrize(
    "name", [name for name in cases.main_cases(PROBLEM) if name != "exact top 100"]
)
def test_every_case_runs(name):
    assert cases.main_cases(PROBLEM)[name]() is not None


def test_every_metric_is_benchmarked():
    assert sorted(cases.ALL_METRICS) == sorted(BUILT_IN)
    assert sorted(cases.METRICS_BY_COST) == sorted(cases.ALL_METRICS)
    result = cases.evaluation(PROBLEM, cases.ALL_METRICS)
    assert {value.metric.partition("(")[0] for value in result.entries} == {
        name.partition("(")[0] for name in cases.ALL_METRICS
    }


def test_collection_matches_evaluator():
    found = {name: run() for name, run in collection.cases(PROBLEM).items()}
    assert len(found["Evaluator"]) == 30
    for name in ("collection", "one metric"):
        assert {key: float(value) for key, value in found[name].items()} == pytest.approx(
            {key: float(found["Evaluator"][key]) for key in found[name]}, abs=1e-12
        )


def test_costs_of_metrics_are_sorted_multiples_of_the_six():
    costs = metrics.compare(PROBLEM, rounds=1, names=["nDCG", "Intersection", "ILD"])
    assert sorted(costs.metrics) == ["ILD", "Intersection"]  # nDCG is one of the six
    ratios = list(costs.metrics.values())
    assert ratios == sorted(ratios, reverse=True) and costs.seconds > 0 and costs.together > 0
    assert costs.added == pytest.approx(1 + sum(ratios) - 2)
    assert set(metrics.EVERY_METRIC) >= set(cases.ALL_METRICS)


def test_repeated_evaluations_are_measured_against_the_pass():
    found = repeated.compare(PROBLEM, rounds=2)
    assert list(found) == [repeated.PASS, "prepared.evaluate", "weft.evaluate"]
    assert found[repeated.PASS].low == found[repeated.PASS].high == 1


def test_torch_fallback_matches_native_loops():
    def run():
        settings = {
            "train": PROBLEM.train,
            "metrics": cases.ALL_METRICS,
            "top_k": CUTOFFS,
            **PROBLEM.about,
        }
        return weft.evaluate(PROBLEM.scores, PROBLEM.truth, **settings).entries

    expected = run()
    with using(anywhere):
        found = run()
    assert [value.name for value in found] == [value.name for value in expected]
    assert [value.value for value in found] == pytest.approx(
        [value.value for value in expected], rel=1e-12, nan_ok=True
    )


def test_worst_scores_have_the_documented_shape():
    kinds = dict(cases.worst_scores(4, 300))
    assert (
        torch.equal(kinds["ascending"], kinds["ascending"].sort(1).values)
        and kinds["constant"].unique().numel() == 1
    )
    assert (
        kinds["99 % zeros"].eq(0).float().mean() > 0.95
        and kinds["bfloat16"].dtype == torch.bfloat16
    )


def test_ratios_compare_times_of_the_same_round(monkeypatch):
    times = iter([9, 9, 1, 3, 2, 2, 4, 20])  # the first round warms up
    monkeypatch.setattr(clock, "cpu_seconds", lambda call: next(times))
    found = clock.measure({"base": None, "other": None}, "base", rounds=3)
    assert found["base"] == clock.Ratio(1, 1, 1) and found["other"] == clock.Ratio(3, 1, 5)
    assert str(found["other"]) == "3 (1-5)"
    assert len(SIX) == 6


@pytest.mark.parametrize(
    ("ids", "kind"), [("integer", "parquet"), ("string", "csv"), ("shuffled integer", "parquet")]
)
def test_file_benchmark_runs(ids, kind, tmp_path, capsys):
    lists, truth = (str(tmp_path / f"{name}.{kind}") for name in ("lists", "truth"))
    files.make(lists, truth, ids, users=30)
    files.main("evaluate", lists, truth)
    took = json.loads(capsys.readouterr().out)
    assert took["gibibytes"] > 0 and took["seconds"] > 0
    result = weft.evaluate(lists, truth, metrics=files.METRICS, top_k=files.CUTOFFS)
    assert result.counts["users"] == 30 and 0 < result["Recall@100"] < 1


@pytest.mark.slow
def test_benchmark_of_lists_on_disk_runs(monkeypatch):
    monkeypatch.setattr(files, "PART_USERS", 20)
    row = files.measure_large(users=50, memory="1KiB")
    assert row.rows == 50 * files.LENGTH and row.peak_beyond_libraries >= 0


def test_thread_benchmark_runs():
    before = torch.get_num_threads()
    with threads.busy_process():
        ratios = [threads.compare(PROBLEM, names, rounds=1) for names in threads.SETS.values()]
    points = threads.curve(PROBLEM, rounds=1)
    assert all(ratio.median > 0 for ratio in ratios) and len(threads.SETS["22 metrics"]) == 22
    assert points[0] == (1, clock.Ratio(1, 1, 1)) and torch.get_num_threads() == before


def test_sampled_benchmark_runs():
    results = {name: call() for name, call in sampled.cases(users=12, items=1_200).items()}
    assert {result.counts["evaluated_users"] for result in results.values()} == {12}
    assert (
        results[sampled.UNIFORM].counts["candidates"] == 12 * 109
        and results[sampled.UNIFORM]["Recall@100"] > results["all items"]["Recall@100"]
    )


def test_comparison_benchmark_runs(monkeypatch):
    monkeypatch.setattr(compare, "CUTOFFS", (5, 10))
    made = compare.make(3, 4, 50)
    assert (
        list(made) == ["model 0", "model 1", "model 2"]
        and len(made["model 0"].per_user.columns) == 1 + 4 * 2
    )
    rows = list(compare.measure(3, 4, 50))
    assert [row.case for row in rows] == [*compare.USER_TESTS, "paired_t, no two values alike"]
    assert all(row.ratio > 0 and row.seconds > 0 for row in rows)

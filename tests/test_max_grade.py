"""ERR and nERR with the highest rating of the truth as `max_grade`."""

import polars as pl
import pytest
import torch

import weft
from local_engine import assert_same, evaluate
from weft.errors import InputError, MissingInput
from weft.metrics.registry import canonical_name

LISTS = {"a": [3, 5, 4, 6], "b": [2, 4, 5, 7], "c": [2, 3, 4, 5]}
TRUTH = {"a": {5: 2, 4: 1, 8: 3}, "b": {4: 3, 7: 1}, "c": {2: 1, 6: 2}}
NAMES = ["ERR", "nERR"]


def run(metrics=NAMES, truth=TRUTH, **settings):
    return weft.evaluate(LISTS, truth, items=range(1, 9), metrics=metrics, top_k=4, **settings)


def test_is_the_highest_rating_of_the_truth():
    """The values of the example with max_grade 3."""
    result = run()
    assert dict(result) == pytest.approx({"ERR@4": 0.259983, "nERR@4": 0.346237}, abs=5e-7)
    given = run([f"{name}(max_grade=3)" for name in NAMES])
    assert list(result.values()) == list(given.values())
    assert result.settings["max_grade"] == 3 and "max_grade" not in given.settings
    note = "max_grade is 3, the highest rating of the truth, in ERR, nERR; give max_grade"
    assert any(text.startswith(note) for text in result.notes)
    assert not any(text.startswith("max_grade is") for text in given.notes)
    assert canonical_name("err@4") == "ERR@4"


def test_is_recorded_in_files(tmp_path):
    run().save(tmp_path / "result.json")
    assert weft.load_result(tmp_path / "result.json").settings["max_grade"] == 3


def test_counts_ratings_of_all_users():
    """The highest rating is that of a user without a list, below the threshold or not."""
    truth = {**TRUTH, "d": {1: 5}}
    assert run(truth=truth, missing_lists="skip").settings["max_grade"] == 5
    ignored = run(implicit=True)
    assert ignored.settings["max_grade"] == 1
    assert ignored["ERR@4"] == run("ERR(max_grade=1)", implicit=True)["ERR(max_grade=1.0)@4"]


def test_truth_without_a_relevant_item():
    result = run(truth={"a": {3: 0}})
    assert result.settings["max_grade"] == 1 and all(value != value for value in result.values())


def test_composites_read_it():
    result = run(["F1(metric_name_1=ERR, metric_name_2=nERR)", "ERR@4 + nERR@4"])
    names = ["F1(metric_name_1=ERR(max_grade=3), metric_name_2=nERR(max_grade=3))"]
    assert next(iter(result.values())) == next(iter(run(names).values()))
    assert result["ERR@4 + nERR@4"] == pytest.approx(sum(run().values()))
    assert result.settings["max_grade"] == 3


def test_prepared_and_batches():
    prepared = weft.prepare(TRUTH, metrics=NAMES, top_k=4, items=range(1, 9))
    assert dict(prepared.evaluate(LISTS)) == dict(run())
    small = run(batch_size=1, bootstrap=20, slices={"half": {"a": "x", "b": "x", "c": "y"}})
    assert dict(small) == pytest.approx(dict(run()))


MUST_BE_GIVEN = r"needs? max_grade, the highest rating of the scale.*write for example"


def test_must_be_given_where_batches_come_one_by_one():
    for name in ("ERR", "nERR", "F1(metric_name_1=ERR)", "ERR@3 * 2"):
        with pytest.raises(MissingInput, match=MUST_BE_GIVEN):
            weft.Evaluator(name, 3)
    with pytest.raises(MissingInput, match=MUST_BE_GIVEN):
        weft.metrics.ERR(k=3)
    with pytest.raises(MissingInput, match=MUST_BE_GIVEN) as error:
        weft.metrics.F1(k=3, metric_name_1="ERR")
    assert "inputs=" not in str(error.value)  # it is a parameter, not an input
    metric = weft.metrics.ERR(k=3, max_grade=2)
    metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 2, 0]]))
    assert float(metric.compute()) == pytest.approx(0.53125)


def test_rating_above_a_given_one_is_an_error():
    with pytest.raises(InputError, match="rating 3, but a metric has max_grade=2"):
        run("ERR(max_grade=2)")


@pytest.mark.parametrize("rated", [True, False])
def test_partitions_have_the_highest_rating_of_all(rated):
    """One user of twelve has the rating 5, others 1 to 3."""
    rows = [(user, item, 5 if user == 7 else 1 + item % 3) for user in range(12) for item in (1, 3)]
    truth = pl.DataFrame(rows, schema=["user", "item", "rating"], orient="row")
    lists = pl.DataFrame(
        [(user, (user + item) % 6, -float(item)) for user in range(12) for item in range(4)],
        schema=["user", "item", "score"],
        orient="row",
    )
    truth = truth if rated else truth.drop("rating")
    settings = {"metrics": NAMES, "top_k": 3}
    result = evaluate(lists, truth, parts=3, **settings)
    assert_same(result, weft.evaluate(lists, truth, **settings))
    assert result.settings["max_grade"] == (5 if rated else 1)

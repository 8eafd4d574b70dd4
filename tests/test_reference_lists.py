"""Lists of another model as an input of metrics: forms, files, states, partitions, errors."""

import json
import math
import os
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from typer.testing import CliRunner

import local_engine
import weft
from engines import require_ray, require_spark
from test_examples_beyond_accuracy import LISTS, TRUTH
from weft import cli, config
from weft.config import run as config_run
from weft.data.item_lists import read_item_lists
from weft.data.vocabulary import Vocabulary
from weft.errors import InputError, MissingInput, SettingError
from weft.evaluation.documents import pack_document, read_document
from weft.report.context import ReportContext
from weft.report.rerun import rerun

# Of the users, b has an empty list and c none; item 99 and user x are not known.
REFERENCE = {"a": [99, 5, 4], "b": [], "x": [1]}
NAMES = ["Unexpectedness", "Intersection", "Serendipity(definition=base)"]
# By hand: a 3 5 | 4 6 has 5 in common at 2, and 5 and 4 at 4; its hits are 5 and 4.
EXPECTED = {
    "Unexpectedness@2": (1 / 2 + 1) / 2,
    "Unexpectedness@4": (2 / 4 + 1) / 2,
    "Intersection@2": (1 / 2 + 0) / 2,
    "Intersection@4": (2 / 4 + 0) / 2,
    "Serendipity(definition=base)@2": (0 + 1 / 2) / 2,
    "Serendipity(definition=base)@4": (0 + 2 / 4) / 2,
}


def options(**changes):
    data = {"metrics": NAMES, "top_k": [2, 4], "items": list(range(1, 9))}
    return {**data, "inputs": {"reference": REFERENCE}, **changes}


def agree(result, expected=EXPECTED):
    assert {name: result[name] for name in expected} == pytest.approx(expected, abs=1e-12)


def frame(lists=REFERENCE, **columns):
    rows = [(user, item, rank) for user, row in lists.items() for rank, item in enumerate(row, 1)]
    made = pl.DataFrame(rows, schema=["user", "item", "rank"], orient="row")
    return made.select("user", "item", **columns).sample(fraction=1, shuffle=True, seed=3)


FULL = {"a": [99, 5, 4], "b": [7], "x": [1, 2]}
FORMS = {
    "dict": FULL,
    "scores by item": {user: {i: -r for r, i in enumerate(row)} for user, row in FULL.items()},
    "ranks": frame(FULL, rank="rank"),
    "scores": frame(FULL, score=-pl.col("rank")),
    "pandas": pd.DataFrame(frame(FULL, position=pl.col("rank") - 1).to_dict(as_series=False)),
    "matrix": weft.TopKItems(
        np.array([[99, 5, 4], [7, -1, -1], [1, 2, -1]]), users=["a", "b", "x"]
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form):
    result = weft.evaluate(LISTS, TRUTH, **options(inputs={"reference": FORMS[form]}))
    expected = EXPECTED | {
        "Unexpectedness@4": (2 / 4 + 3 / 4) / 2,
        "Intersection@4": (2 / 4 + 1 / 4) / 2,
        "Serendipity(definition=base)@4": (0 + 1 / 4) / 2,
    }
    agree(result, expected)
    dict_result = weft.evaluate(LISTS, TRUTH, **options(inputs={"reference": FULL}))
    digests = [one.provenance["fingerprint"]["reference"] for one in (result, dict_result)]
    assert digests[0] == digests[1]


def test_users_without_a_list_and_unknown_items_are_counted():
    result = weft.evaluate(LISTS, TRUTH, **options(per_user=True))
    agree(result)
    assert result.counts["users_without_reference"] == 1
    assert result.counts["unknown_items_of_reference"] == 1
    assert {
        "1 of 3 users has no list in reference",
        "1 list of reference belongs to unknown users",
        "1 item in the lists of reference is not in the catalogue of this evaluation and matches "
        "no recommended item; its position is kept",
    } <= set(result.notes)
    assert math.isnan(dict(result.per_user.select("user", "Unexpectedness@2").iter_rows())["c"])
    assert [result.entry(name).users for name in EXPECTED] == [2] * 6
    ((_, call),) = rerun(ReportContext.from_result(result))
    assert "inputs={'reference': reference}" in call
    nobody = weft.evaluate(LISTS, TRUTH, **options(inputs={"reference": {"x": [1]}}))
    assert all(math.isnan(value.value) for value in nobody.entries)
    assert any(
        "no user has both a list with an item and a list in reference" in n for n in nobody.notes
    )


def test_lists_of_the_model_itself():
    """Ties of equal scores are in the order of the catalogue in both."""
    scores = {user: dict.fromkeys(row, 1.0) for user, row in LISTS.items()}
    catalogue = [7, 2, 6, 5, 4, 3, 8, 1]
    settings = options(items=catalogue, inputs={"reference": scores})
    result = weft.evaluate(scores, TRUTH, **settings)
    assert result["Unexpectedness@2"] == 0 and result["Intersection@4"] == 1
    assert result["Serendipity(definition=base)@2"] == 0


def test_expected_ties_are_the_mean_of_all_orders():
    scores, truth = torch.ones(1, 4), torch.tensor([[1, 1, 0, 1]])
    inputs = {"reference": [[1, 2]]}
    settings = {"metrics": "Serendipity(definition=base)", "top_k": [1, 2], "inputs": inputs}
    tied = weft.evaluate(scores, truth, ties="expected", **settings)
    # At 1, items 0 and 3 count, each first with probability 1/4; at 2, each in with 1/2.
    assert tied["Serendipity(definition=base)@1"] == pytest.approx(2 / 4)
    assert tied["Serendipity(definition=base)@2"] == pytest.approx((1 / 2 + 1 / 2) / 2)


def as_scores():
    scores = torch.full((3, 8), -torch.inf)
    for row, listed in enumerate(LISTS.values()):
        scores[row, torch.tensor(listed) - 1] = torch.tensor([4.0, 3.0, 2.0, 1.0])
    truth = torch.zeros(3, 8)
    for row, items in enumerate(TRUTH.values()):
        truth[row, torch.tensor(list(items)) - 1] = 1
    return scores, truth


BY_NUMBER = {
    "lists": [[98, 4, 3], [], None],
    "dict": {0: [98, 4, 3], 1: [], 9: [0]},
    "matrix": np.array([[98, 4, 3], [-1, -1, -1]]),
}


@pytest.mark.parametrize("form", ["lists", "dict"])
def test_evaluator_and_state(form, tmp_path):
    scores, truth = as_scores()
    given = {"inputs": {"reference": BY_NUMBER[form]}, "num_users": 3, "num_items": 8}

    def run(**changes):
        evaluator = weft.Evaluator(NAMES, [2, 4], **{**given, **changes})
        evaluator.update(scores[:2], truth[:2], torch.arange(2))
        return evaluator

    evaluator = run()
    weft.save_state(evaluator, tmp_path / "state.pt")
    restored = weft.load_state(tmp_path / "state.pt")
    for one in (evaluator, restored):
        one.update(scores[2:], truth[2:], torch.tensor([2]))
        agree(one.compute())
        assert one.compute().counts["unknown_items_of_reference"] == 1
    other = run(inputs={"reference": [[98, 4, 5], [], None]})
    weft.save_state(other, tmp_path / "other.pt")
    with pytest.raises(weft.WeftError, match="reference"):
        weft.merge_states([tmp_path / "state.pt", tmp_path / "other.pt"])
    with pytest.raises(
        InputError, match="needs user_indices to know which values of an input of users to use"
    ):
        run().update(scores, truth)


def test_damaged_state(tmp_path):
    evaluator = weft.Evaluator(
        NAMES, 2, inputs={"reference": [[1, 2], None]}, num_users=2, num_items=3
    )
    weft.save_state(evaluator, tmp_path / "state.pt")
    for field, value in {
        "items": torch.tensor([1, 1]),
        "offsets": torch.tensor([0, 1]),
        "has_list": torch.tensor([False, True]),
        "num_items": 2,
    }.items():
        document = read_document(tmp_path / "state.pt")
        document["inputs"]["reference"][field] = value
        (tmp_path / "damaged.pt").write_bytes(pack_document(document))
        with pytest.raises(InputError, match="reference"):
            weft.load_state(tmp_path / "damaged.pt")


def test_metric_on_its_own():
    scores, truth = as_scores()
    for reference in (BY_NUMBER["lists"], BY_NUMBER["matrix"]):
        metric = weft.metrics.Unexpectedness(k=2, reference=reference)
        rows = len(reference)
        metric.update(scores[:rows], truth[:rows], torch.arange(rows))
        assert float(metric.compute()) == pytest.approx(EXPECTED["Unexpectedness@2"])
    with pytest.raises(
        InputError, match="user_indices contains 2; expected rows of reference, from 0 to"
    ):
        metric.update(scores, truth, torch.arange(3))
    with pytest.raises(MissingInput, match="Unexpectedness needs reference, the recommendation"):
        weft.metrics.Unexpectedness(k=2)
    with pytest.raises(SettingError, match="does not determine the number of users; give num_us"):
        weft.metrics.Unexpectedness(k=2, reference={0: [1]})
    metric = weft.metrics.Serendipity(k=4, definition="base", reference={0: [1]}, num_users=3)
    metric.update(scores, truth, torch.arange(3))
    assert float(metric.compute()) == 2 / 4  # two hits, neither of them item 1


def test_prepared_evaluation_reads_lists_once():
    prepared = weft.prepare(TRUTH, **options())
    for _ in range(2):
        agree(prepared.evaluate(LISTS))


def test_extra_users_are_skipped():
    truth = {user: items for user, items in TRUTH.items() if user != "a"}
    result = weft.evaluate(LISTS, truth, **options(extra_users="skip"))
    assert result["Unexpectedness@2"] == 1 and result.entry("Unexpectedness@2").users == 1


@pytest.fixture
def folder(tmp_path):
    frame({user: items for user, items in REFERENCE.items() if items}, place="rank").write_csv(
        tmp_path / "base.csv"
    )
    for name, data in {"recs": LISTS, "truth": TRUTH}.items():
        rows = [(user, item) for user, items in data.items() for item in items]
        pl.DataFrame(rows, schema=["user", "item"], orient="row").write_csv(
            tmp_path / f"{name}.csv"
        )
    pl.DataFrame({"item": range(1, 9)}).write_csv(tmp_path / "items.csv")
    (tmp_path / "config.yaml").write_text(
        "data:\n  truth: truth.csv\n  items: items.csv\n  inputs:\n"
        "    reference: {path: base.csv, columns: {rank: place}}\n"
        "models: {one: recs.csv}\nevaluation: {metrics: Unexpectedness, top_k: [2, 4]}\n"
    )
    return tmp_path


# Files hold no empty list: only user a has a list.
OF_FILES = {"Unexpectedness@2": 1 / 2, "Unexpectedness@4": 2 / 4}


def test_files_configuration_and_check(folder):
    (result,) = config_run.run(config.load(folder / "config.yaml"))
    agree(result, OF_FILES)
    (repeated,) = config_run.run(config.from_mapping(result.provenance["configuration"]))
    assert dict(repeated) == dict(result)
    base = weft.File(folder / "base.csv", columns={"rank": "place"})
    checked = weft.check(
        folder / "recs.csv",
        folder / "truth.csv",
        items=range(1, 9),
        metrics="Unexpectedness",
        top_k=[2, 4],
        inputs={"reference": base},
    )
    assert checked.values["lists"] == pytest.approx(OF_FILES)


def test_command_line(folder):
    names = ("recs", "truth", "items")
    command = ["evaluate", *(f"--{name}={folder / name}.csv" for name in names), "--format=json"]
    command += ["-m", "Unexpectedness", "-k", "2,4", "--input", f"reference={folder / 'base.csv'}"]
    done = CliRunner().invoke(cli.app, [*command, "--column", "reference.rank=place"])
    assert done.exit_code == 0, done.output
    values = {one["name"]: one["value"] for one in json.loads(done.stdout)[0]["values"]}
    assert values == pytest.approx(OF_FILES)
    done = CliRunner().invoke(cli.app, command[:-2])
    assert done.exit_code != 0 and "give --input reference=" in " ".join(done.output.split())


class LastOfReference(weft.UserAverageTopKMetric):
    """The lowest position in the reference of an item of the list, of all users with a list."""

    users = "lists"
    needs = {"earlier": weft.UserLists(required=False)}
    _REQUIRED_COMPONENTS = {weft.MetricBlock.TOP_K_INDICES}

    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        users, earlier = kwargs["user_indices"], self.inputs["earlier"]
        ranks = earlier.find_ranks(users, kwargs[f"top_{self.k}_indices"]).double()
        assert ((ranks <= earlier.list_lengths(users)[:, None]) | (ranks == 0)).all()
        return torch.where(earlier.lacks(users), torch.nan, ranks.amax(1))


def test_metric_of_an_author():
    result = weft.evaluate(
        LISTS,
        TRUTH,
        metrics=[LastOfReference(4)],
        items=range(1, 9),
        inputs={"earlier": REFERENCE},
    )
    assert result["LastOfReference@4"] == (3 + 0) / 2


def test_lookup_matches_a_search():
    random = np.random.default_rng(3)
    lists = {user: random.permutation(30)[: random.integers(0, 9)].tolist() for user in range(40)}
    users, items = Vocabulary.from_size("user", 40), Vocabulary.from_size("item", 25)
    read = read_item_lists(lists, "reference", users, items)
    queries = torch.from_numpy(random.integers(-1, 25, (40, 12)))
    expected = [
        [lists[user].index(item) + 1 if item in lists[user] else 0 for item in row]
        for user, row in enumerate(queries.tolist())
    ]
    assert read.find_ranks(torch.arange(40), queries).tolist() == expected
    flat = read.find_ranks(torch.arange(40).repeat_interleave(12), queries.flatten())
    assert flat.tolist() == [rank for row in expected for rank in row]
    assert read.count_unknown(torch.arange(40)).tolist() == [
        sum(item >= 25 for item in row) for row in lists.values()
    ]
    order = random.permutation(40)[:7]
    selected = read.select(order)
    assert selected.find_ranks(torch.arange(7), queries[:7]).tolist() == [
        [lists[user].index(item) + 1 if item in lists[user] else 0 for item in row]
        for user, row in zip(order.tolist(), queries[:7].tolist())
    ]
    assert not read.equals(selected) and read.equals(read.select(np.arange(40)))


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ({"a": [1, 2, 1]}, r"reference has the same item twice in a list:\n  row \d: user 'a'"),
        (
            pl.DataFrame({"user": ["a", "a"], "item": [1, 2], "rank": [1, 1]}),
            r"reference has the same rank twice in a list",
        ),
        ({"a": {1, 2}}, r"reference\['a'\] is \{1, 2\}; expected a list of items, best first"),
        ({"a": ["x"]}, r"reference has .* as item ids, but items= has"),
        ({1: [1]}, r"reference has .* as user ids, but source has"),
        ([[1], [2], [3]], r"reference is a list, but the order of the users is not known"),
        (3, r"reference is an int; expected recommendation lists: a file, a frame"),
        (
            pl.DataFrame({"user": ["a"], "score": [1.0]}),
            r"reference is a DataFrame with the columns",
        ),
    ],
)
def test_rejects(reference, message):
    with pytest.raises(InputError, match=message):
        weft.evaluate(LISTS, TRUTH, **options(inputs={"reference": reference}))


def test_rejects_parameters_and_numbers():
    with pytest.raises(SettingError, match="ref_k=0; it must be an integer of at least 1"):
        weft.evaluate(LISTS, TRUTH, **options(metrics="Intersection(ref_k=0)"))
    with pytest.raises(InputError, match="expected item numbers from 0"):
        weft.metrics.Unexpectedness(k=2, reference=[["x"]])
    with pytest.raises(InputError, match="has 2 lists for 3 users; give one for each"):
        weft.Evaluator(NAMES, 2, inputs={"reference": [[1], [2]]}, num_users=3)


# --------------------------------------------------------------------------------------------------
# Engines


@pytest.mark.parametrize("parts", [1, 3, 7])
def test_partitions(parts):
    """Also the catalogue is that of one process, without the items of the reference alone."""
    for items in (None, list(range(1, 9))):
        settings = options(items=items, bootstrap=20, per_user=True)
        alone = weft.evaluate(LISTS, TRUTH, **settings)
        agree(alone)
        local_engine.assert_same(
            local_engine.evaluate(LISTS, TRUTH, **settings, parts=parts), alone
        )
    with pytest.raises(InputError, match="reference is a list, but partitioned users have no o"):
        local_engine.evaluate(LISTS, TRUTH, **options(inputs={"reference": [[1]] * 3}))


def as_table(data):
    rows = [(user, item, -rank) for user, row in data.items() for rank, item in enumerate(row)]
    return pl.DataFrame(rows, schema=["user", "item", "score"], orient="row")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's own, of its own settings
def test_ray():
    require_ray()
    import ray

    from weft.engines import ray as on_ray

    folders = [str(Path(weft.__file__).parents[1]), str(Path(__file__).parent)]
    ray.init(
        "local",  # not a cluster of another test on this machine
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        runtime_env={"env_vars": {"PYTHONPATH": os.pathsep.join(folders)}},
    )
    try:
        agree(on_ray.evaluate(LISTS, TRUTH, **options(), parts=2))
        table = as_table({**FULL, "b": [1]})
        given = {"reference": ray.data.from_arrow(table.to_arrow())}
        agree(on_ray.evaluate(LISTS, TRUTH, **options(inputs=given), parts=2))
        given = {"reference": ray.data.from_arrow(table.drop("score").to_arrow())}
        with pytest.raises(InputError, match="neither scores nor ranks, and rows on an engine"):
            on_ray.evaluate(LISTS, TRUTH, **options(inputs=given), parts=2)
    finally:
        ray.shutdown()


@pytest.mark.slow
def test_spark():
    require_spark()
    from weft.engines import spark as on_spark

    with on_spark.session("local[2]") as session:
        agree(on_spark.evaluate(LISTS, TRUTH, **options(), parts=2))
        table = session.createDataFrame(as_table({**FULL, "b": [1]}).to_arrow())
        agree(on_spark.evaluate(LISTS, TRUTH, **options(inputs={"reference": table}), parts=2))
        given = {"reference": table.drop("score")}
        with pytest.raises(InputError, match="neither scores nor ranks, and rows on an engine"):
            on_spark.evaluate(LISTS, TRUTH, **options(inputs=given), parts=2)

"""Metrics by groups of users against separate evaluations, and groups of numbers."""

import io
import json
import math

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import weft
from metric_cases import BUILT_IN, make_labels
from weft.data.slices import Cut, CutNumbers
from weft.errors import InputError, MissingInput, SettingError
from weft.evaluation.result import SLICE_COLUMNS
from weft.report.result_folder import save_results
from weft.report.result_formats import slices, slices_to_csv, slices_to_markdown, to_markdown
from weft.report.terminal import slice_tables

USERS, ITEMS, CUTOFFS = 50, 20, [3, 10]
GENERATOR = torch.Generator().manual_seed(9)
SCORES = torch.rand(USERS, ITEMS, generator=GENERATOR)
SCORES[torch.rand(USERS, ITEMS, generator=GENERATOR) < 0.1] = -torch.inf
SCORES[4] = -torch.inf
TARGET = (torch.rand(USERS, ITEMS, generator=GENERATOR) < 0.12) * torch.randint(
    1, 4, (USERS, ITEMS), generator=GENERATOR
)
TRAIN = (torch.rand(USERS, ITEMS, generator=GENERATOR) < 0.2).int()
EVERYONE = torch.arange(USERS)
ABOUT = make_labels(USERS, ITEMS)
METRICS = [
    *BUILT_IN,
    "GAUC(weight=positives)",
    "GAUC(weight=interactions)",
    "RMSE(average=users)",
    "UserCoverage(as_fraction=True)",
]
GROUPS = [("young", "old", None, "old", "young")[user % 5] for user in range(USERS)]


def evaluator(slices, metrics=METRICS, **more):
    return weft.Evaluator(
        metrics,
        CUTOFFS,
        train=TRAIN,
        num_users=USERS,
        num_items=ITEMS,
        slices=slices,
        **ABOUT,
        **more,
    )


def passed(made, order=EVERYONE, batch=7):
    for rows in order.split(batch):
        made.update(SCORES[rows], TARGET[rows], rows)
    return made


def same(table, other):
    numbers = ["value", "std_error", "ci_low", "ci_high"]
    assert table.drop(numbers).equals(other.drop(numbers))
    for column in numbers:
        assert table[column].to_list() == pytest.approx(
            other[column].to_list(), rel=1e-9, abs=1e-12, nan_ok=True
        )


# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("empty_users", ["skip", "zero"])
def test_groups_match_separate_evaluations(empty_users):
    result = passed(
        evaluator({"age": GROUPS, "all": ["x"] * USERS}, empty_users=empty_users)
    ).compute()
    table = result.slice("age")
    assert table["group"].unique(maintain_order=True).to_list() == ["old", "young"]
    with_values = list(evaluator(None, per_user=True).metric_set.user_columns)
    for group in ("old", "young"):
        members = torch.tensor([user for user in range(USERS) if GROUPS[user] == group])
        alone = passed(evaluator(None, empty_users=empty_users), order=members).compute()
        rows = table.filter(pl.col("group") == group)
        assert rows.height == len(with_values)
        for row in rows.iter_rows(named=True):
            entry = alone.entry(
                row["metric"] if row["k"] is None else f"{row['metric']}@{row['k']}"
            )
            assert (row["value"], row["std_error"]) == pytest.approx(
                (entry.value, entry.std_error), rel=1e-9, nan_ok=True
            )
            assert row["users"] == entry.users and row["ci_high"] == pytest.approx(
                entry.ci_high, rel=1e-9, nan_ok=True
            )
    everyone = result.slice("all")  # one group of all is the result itself
    for row in everyone.iter_rows(named=True):
        entry = result.entry(row["metric"] if row["k"] is None else f"{row['metric']}@{row['k']}")
        assert row["value"] == pytest.approx(entry.value, rel=1e-12) and row["users"] == entry.users
    assert result.counts["users_outside_age"] == 10 and result.counts["users_outside_all"] == 0
    assert "10 of 50 users have no label in the slice 'age' and belong to no group" in result.notes


def test_means_have_standard_errors_without_values_per_user():
    made = passed(evaluator({"age": GROUPS}))
    result = made.compute()
    assert result.per_user is None
    means = [
        spec
        for spec, formula in made.metric_set.formulas.items()
        if getattr(formula, "is_user_mean", False)
    ]
    assert len(means) > 30
    for spec in means:
        assert result.entry(str(spec)).std_error >= 0 and result.entry(str(spec)).users > 1
        rows = result.slices.filter(
            (pl.col("metric") == str(spec.with_cutoff(None))) & pl.col("k").eq_missing(spec.k)
        )
        assert (rows["std_error"] >= 0).all() and rows.height == 2


def test_slices_do_not_depend_on_shards_batches_or_order():
    by, some = (
        {"age": GROUPS, "twice": [user % 3 for user in range(USERS)]},
        ["nDCG", "GAUC(weight=positives)", "Gini", "ARP", "RMSE"],
    )
    expected = passed(evaluator(by, some), batch=USERS).compute()
    first = passed(evaluator(by, some), order=EVERYONE[30:].flip(0))
    second = passed(evaluator(by, some), order=EVERYONE[:30], batch=1)
    first.merge(second)
    same(first.compute().slices, expected.slices)
    first.reset()
    same(passed(first).compute().slices, expected.slices)
    assert first.compute().notes == expected.notes


def test_rejects_merging_other_slices():
    with pytest.raises(SettingError, match=r"differ in slices: \['age'\] and None"):
        evaluator({"age": GROUPS}).merge(evaluator(None))
    with pytest.raises(SettingError, match="differ in slices\\['age'\\]"):
        evaluator({"age": GROUPS}).merge(evaluator({"age": [*GROUPS[1:], "old"]}))


def test_slices_with_bootstrap():
    made = passed(evaluator({"age": GROUPS}, metrics=["nDCG", "Gini"], bootstrap=20))
    plain = passed(evaluator({"age": GROUPS}, metrics=["nDCG", "Gini"]))
    same(made.compute().slices, plain.compute().slices)


def test_groups_without_a_value_are_undefined():
    groups = ["a"] * USERS
    groups[4] = "nothing offered"
    table = (
        passed(evaluator({"g": groups}, metrics=["GAUC", "nDCG", "NumRetrieved"])).compute().slices
    )
    alone = table.filter(pl.col("group") == "nothing offered")
    gauc = alone.filter(pl.col("metric") == "GAUC")
    assert (
        math.isnan(gauc["value"][0]) and gauc["users"][0] == 0 and math.isnan(gauc["std_error"][0])
    )
    assert alone.filter(pl.col("metric") == "NumRetrieved")["value"].to_list() == [0, 0]


# -------------------------------------------------------------------------------------------------


NAMES = [f"u{user:02}" for user in range(USERS)]
TRUTH = {
    name: {int(item): int(row[item]) for item in row.nonzero().flatten()}
    for name, row in zip(NAMES, TARGET)
}
SEEN = {name: row.nonzero().flatten().tolist() for name, row in zip(NAMES, TRAIN)}


def sliced(how, train=SEEN, **more):
    settings = {
        "metrics": ["nDCG@3", "NumRetrieved@3"],
        "users": NAMES,
        "items": list(range(ITEMS)),
        "train": train,
    }
    return weft.evaluate(SCORES, TRUTH, slices=how, **{**settings, **more})


def test_reads_every_form_of_labels(tmp_path):
    by_name = {name: label for name, label in zip(NAMES, GROUPS) if label is not None}
    frame = pl.DataFrame({"user": NAMES, "age": GROUPS})
    path = tmp_path / "age.csv"
    frame.drop_nulls().write_csv(path)
    odd = {**by_name, "stranger": "old"}
    expected = sliced({"age": GROUPS})
    for labels in (by_name, frame, str(path), path, weft.File(path), odd):
        result = sliced({"age": labels})
        same(result.slices, expected.slices)
        assert result.counts["users_outside_age"] == 10
    assert "1 label of the slice 'age' belongs to unknown users" in result.notes
    assert expected.settings["slices"] == {"age": "labels"}


def test_activity_counts_distinct_train_interactions():
    result = sliced(
        {"activity": "bins(3, 5)"}, train={name: items + items[:1] for name, items in SEEN.items()}
    )
    counts = TRAIN.sum(1)
    evaluated = (TARGET > 0).any(1)
    expected = [
        int(((counts < 3) & evaluated).sum()),
        int(((counts >= 3) & (counts < 5) & evaluated).sum()),
    ]
    expected.append(int(((counts >= 5) & evaluated).sum()))
    table = result.slices.filter(pl.col("metric") == "nDCG")
    assert (
        table["group"].to_list() == ["up to 2", "3 to 4", "5 and more"]
        and table["users"].to_list() == expected
    )
    assert result.settings["slices"] == {"activity": "bins(3, 5)"}
    everybody = result.slices.filter(
        pl.col("metric") == "NumRetrieved"
    )  # also users without a relevant item
    assert everybody["users"].sum() == USERS


def test_item_popularity_is_the_mean_over_the_relevant_items():
    popularity = TRAIN.sum(0).double()
    relevant = (TARGET > 0).double()
    means = (relevant @ popularity) / relevant.sum(1)
    border = float(means[~means.isnan()].median())
    result = sliced({"item_popularity": f"bins({border!r})"})
    table = result.slices.filter(pl.col("metric") == "nDCG")
    assert table["users"].to_list() == [int((means < border).sum()), int((means >= border).sum())]
    assert result.counts["users_outside_item_popularity"] == int(means.isnan().sum()) > 0
    assert table["group"].to_list() == [f"below {border:.4g}", f"{border:.4g} and more"]


def test_item_popularity_of_single_targets():
    target = {name: [user % ITEMS] for user, name in enumerate(NAMES)}
    result = weft.evaluate(
        SCORES,
        target,
        metrics="MRR@3",
        users=NAMES,
        items=list(range(ITEMS)),
        train=SEEN,
        slices={"item_popularity": "bins(10)"},
    )
    popular = (TRAIN.sum(0) >= 10)[EVERYONE % ITEMS].sum()
    assert result.slices["users"].to_list() == [USERS - popular, popular]
    assert result.slices["group"].to_list() == ["up to 9", "10 and more"]


def test_reads_given_numbers(tmp_path):
    ages = {name: 20 + user % 30 for user, name in enumerate(NAMES) if user % 10}
    path = tmp_path / "ages.tsv"
    pl.DataFrame({"user": list(ages), "age": list(ages.values())}).write_csv(path, separator="\t")
    expected = sliced({"age": {"of": ages, "by": "quantiles(2)"}})
    table = expected.slices.filter(pl.col("metric") == "nDCG")
    of_evaluated = [ages[name] for name, row in TRUTH.items() if row and name in ages]
    halves = [sum(age <= 33 for age in of_evaluated), sum(age > 33 for age in of_evaluated)]
    assert (
        table["group"].to_list() == ["up to 33", "34 and more"]
        and table["users"].to_list() == halves
    )
    assert abs(halves[0] - halves[1]) <= 2
    assert expected.counts["users_outside_age"] == 5 and expected.settings["slices"] == {
        "age": "quantiles(2)"
    }
    for numbers in (pl.DataFrame({"user": list(ages), "age": list(ages.values())}), path):
        same(sliced({"age": {"of": numbers, "by": "Quantiles( 2 )"}}).slices, expected.slices)
    in_order = [ages.get(name) for name in NAMES]
    same(sliced({"age": {"of": in_order, "by": "quantiles(2)"}}).slices, expected.slices)


def test_slices_of_lists():
    lists = {
        name: row.topk(3).indices.tolist() for name, row in zip(NAMES, SCORES) if name != "u07"
    }
    result = weft.evaluate(
        lists,
        TRUTH,
        metrics=["nDCG@3"],
        train=SEEN,
        items=list(range(ITEMS)),
        slices={"activity": "quantiles(2)"},
        batch_size=9,
    )
    assert result.slices["users"].sum() == result.counts["evaluated_users"]


# --------------------------------------------------------------------------------------------------


def cut_numbers(numbers, is_evaluated, cut):
    values = CutNumbers(numbers, is_evaluated, cut)
    return values.assign(values.group_names())


def grouped(numbers, cut, among=None):
    numbers = np.array(numbers, dtype=float)
    is_evaluated = np.ones(len(numbers), dtype=bool) if among is None else np.array(among)
    labels = cut_numbers(numbers, is_evaluated, Cut.parse(cut, "x"))
    codes = labels.codes.values.tolist()
    return [labels.names[code] if code >= 0 else None for code in codes]


def test_quantiles():
    assert grouped([1, 2, 3, 4], "quantiles(2)") == [
        "up to 2",
        "up to 2",
        "3 and more",
        "3 and more",
    ]
    assert grouped([10, 3, 11, 2], "quantiles(4)") == ["10", "3 to 9", "11 and more", "up to 2"]
    assert grouped([1, 1, 1, 2], "quantiles(2)") == ["up to 1"] * 3 + ["2 and more"]
    assert grouped([1, 2, 2, 2], "quantiles(2)") == ["up to 1"] + ["2 and more"] * 3
    assert grouped([5, 5, 5], "quantiles(3)") == ["all"] * 3
    assert grouped([0.5, 1.25, 7], "quantiles(3)") == [
        "below 1.25",
        "1.25 to below 7",
        "7 and more",
    ]
    # Users beyond those whose quantiles they are, and users without a number.
    assert grouped([1, 2, 9, math.nan], "quantiles(2)", [True, True, False, True]) == [
        "up to 1",
        "2 and more",
        "2 and more",
        None,
    ]
    assert grouped([math.nan], "quantiles(2)") == [None]
    assert grouped([], "quantiles(2)") == []


def test_bins():
    assert grouped([4, 5, 19, 20], "bins(5, 20)") == [
        "up to 4",
        "5 to 19",
        "5 to 19",
        "20 and more",
    ]
    assert grouped([2, 3], "bins(2.5)") == ["up to 2", "3 and more"]
    assert grouped([2.5, 2.4], "bins(2.5)") == ["2.5 and more", "below 2.5"]
    assert grouped([1.00001, 1.00002], "bins(1.00001, 1.00002)") == [
        "1.00001 to below 1.00002",
        "1.00002 and more",
    ]


@given(st.lists(st.integers(0, 12), min_size=1, max_size=40), st.integers(2, 6))
def test_quantiles_keep_equal_numbers_together(numbers, wanted):
    cut = Cut("quantiles", (float(wanted),))
    labels = cut_numbers(np.array(numbers, dtype=float), np.ones(len(numbers), dtype=bool), cut)
    codes = labels.codes.values.tolist()
    assert len(labels.names) <= min(wanted, len(set(numbers))) and set(codes) == set(
        range(len(labels.names))
    )
    assert all(
        (a < b) <= (x <= y) and (a == b) <= (x == y)
        for a, x in zip(numbers, codes)
        for b, y in zip(numbers, codes)
    )
    if (
        len(set(numbers)) == len(numbers) >= wanted
    ):  # nothing repeats: as many groups as asked, of sizes that differ by one
        sizes = np.bincount(codes)
        assert len(sizes) == wanted and sizes.max() - sizes.min() <= 1


def test_notes_fewer_groups_than_requested():
    result = sliced(
        {
            "age": {"of": dict.fromkeys(NAMES, 30), "by": "quantiles(4)"},
            "empty": {"of": {}, "by": "bins(3)"},
        }
    )
    assert (
        "the slice 'age' has 1 of the groups of quantiles(4): too many users have the same number"
        in result.notes
    )
    assert "the slice 'empty' has no group: no user has a number" in result.notes
    assert result.slices["slice"].unique().to_list() == ["age"]


# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "message"),
    [
        (
            {"activty": "quantiles(4)"},
            "'activty' is not a known number of users. Did you mean 'activity'?",
        ),
        ({"activity": "quantile(4)"}, "Expected quantiles\\(4\\)"),
        ({"activity": "often"}, "Expected quantiles\\(4\\)"),
        ({"activity": "quantiles(1)"}, "one integer of at least 2"),
        ({"activity": "quantiles(2, 3)"}, "one integer of at least 2"),
        ({"activity": "quantiles(2.5)"}, "one integer of at least 2"),
        ({"activity": "bins()"}, "contains a value that is not a number"),
        ({"activity": "bins(a)"}, "contains a value that is not a number"),
        ({"activity": "bins(5, 3)"}, "ascending"),
        ({"activity": "bins(inf)"}, "ascending"),
        ({"age": {"of": {"u01": 3}, "by": 4}}, "\\['by'\\] has 4. Expected quantiles"),
        (["activity"], "slices= is a list"),
        ({3: "quantiles(4)"}, "slices has the name 3"),
    ],
)
def test_rejects_wrong_slices_before_reading(how, message):
    with pytest.raises(SettingError, match=message):
        weft.evaluate(
            SCORES, "no such file", metrics="nDCG@3", train="no such file either", slices=how
        )


def test_rejects_missing_inputs_and_wrong_numbers():
    with pytest.raises(
        MissingInput, match="slices\\['activity'\\] counts train interactions and needs train="
    ):
        sliced({"activity": "quantiles(4)"}, train=None)
    with pytest.raises(
        InputError, match="slices\\['age'\\] has 'young', which is not a finite number"
    ):
        sliced({"age": {"of": {"u01": "young"}, "by": "quantiles(2)"}})
    with pytest.raises(InputError, match="more than one label to the same user"):
        sliced({"age": pl.DataFrame({"user": ["u01", "u01"], "age": [1, 2]})})
    with pytest.raises(InputError, match="no such file"):
        sliced({"age": "nowhere.csv"})
    with pytest.raises(InputError, match="needs user_indices to know which slice users are in"):
        weft.Evaluator("nDCG@3", slices={"age": GROUPS}).update(SCORES, TARGET)
    with pytest.raises(InputError, match="slices\\['age'\\]"):
        weft.Evaluator("nDCG@3", slices={"age": ["a", "b"]}).update(SCORES, TARGET, EVERYONE)


# --------------------------------------------------------------------------------------------------


def test_saves_and_loads_slices(tmp_path):
    groups = list(GROUPS)
    groups[0] = "alone"
    result = sliced({"age": groups, "activity": "quantiles(3)"}, metrics=["nDCG@3", "GAUC"])
    assert result.slices.columns == list(SLICE_COLUMNS)
    loaded = weft.load_result(result.save(tmp_path / "a.json"))
    same(loaded.slices, result.slices)
    assert loaded.slices.schema == result.slices.schema
    same(loaded.slice("activity"), result.slice("activity"))
    with pytest.raises(KeyError, match=r"there is no slice 'agee'\. Did you mean 'age'\?"):
        loaded.slice("agee")
    document = json.loads((tmp_path / "a.json").read_text())
    document["slices"][0]["value"] = "high"
    (tmp_path / "b.json").write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"slices\[0\]\['value'\] is 'high'; expected a number"):
        weft.load_result(tmp_path / "b.json")
    with pytest.raises(KeyError, match="give slices="):
        sliced(None).slice("age")


def test_slices_as_text(tmp_path):
    results = [
        sliced({"age": GROUPS, "activity": "quantiles(3)"}, name="a|b"),
        sliced(None, name="none"),
    ]
    assert slices(results).columns == ["model", *SLICE_COLUMNS] and slices([results[1]]).is_empty()
    assert slices_to_csv(results).count("\n") == 1 + results[0].slices.height
    text = slices_to_markdown(results)
    assert (
        text.startswith("| model")
        and text.count("\n") == 2 + 5
        and "a\\|b" in text
        and " ± " in text
    )
    files = save_results(results, tmp_path / "out")
    assert [path.name for path in files] == ["a_b.json", "none.json", "summary.csv", "slices.csv"]
    assert files[-1].read_text() == slices_to_csv(results)
    assert [path.name for path in save_results([results[1]], tmp_path / "other")] == [
        "none.json",
        "summary.csv",
    ]


def test_slices_in_the_terminal():
    result = passed(
        evaluator({"age": GROUPS, "of": ["a very long label that hardly fits into a row"] * USERS})
    ).compute()
    tables = slice_tables([result, sliced(None)], 80)
    assert len(tables) == 2 and slice_tables([], 80) == []
    console = Console(width=80, record=True, file=io.StringIO())
    for said, table in tables:
        console.print(said)
        console.print(table)
    text = console.export_text()
    assert max(map(len, text.splitlines())) <= 80
    assert (
        "model by age" in text
        and "Accuracy@3" in text
        and "young" in text
        and "metrics; for all of them, use --format json or --out DIR)" in text
    )
    value = result.slices.filter(
        (pl.col("group") == "young") & (pl.col("metric") == "Accuracy") & (pl.col("k") == 3)
    )
    (row,) = [line for line in text.splitlines() if line.startswith("young")]
    assert f"{value['value'][0]:.4f}" in row and "●" in row
    wide = slice_tables([result], 40 * len(result))
    assert "metrics" not in wide[0][0]  # all of them are shown


def print_tables(tables, width):
    console = Console(width=width, record=True, file=io.StringIO())
    for title, table in tables:
        console.print(title)
        console.print(table)
    return console.export_text()


def test_models_are_columns_of_one_table_for_each_slice():
    results = [
        weft.evaluate(
            lists,
            {"ann": ["a"], "bob": ["b"], "cid": ["c"]},
            metrics="Recall",
            top_k=[1, 2],
            slices={"age": {"ann": "young", "bob": "old", "cid": "old"}},
            name=name,
        )
        for name, lists in {
            "good": {"ann": ["a", "b"], "bob": ["b", "a"], "cid": ["b", "c"]},
            "poor": {"ann": ["b", "a"], "bob": ["b", "a"], "cid": ["a", "b"]},
        }.items()
    ]
    (table,) = slice_tables(results, 80)
    assert table[0] == "By age (users: old = 2, young = 1)"
    text = print_tables([table], 80)
    lines = {line.split("│")[0].strip(): line.split("│")[1:] for line in text.splitlines()}
    assert [cell.split()[0] for cell in lines["Recall@1 young"]] == ["1.0000*", "0"]
    assert [cell.split()[0] for cell in lines["Recall@1 old"]] == ["0.5000", "0.5000"]  # no best
    assert [cell.split()[0] for cell in lines["Recall@2 old"]] == ["1.0000*", "0.5000"]
    # Models that do not fit as columns have tables of their own, and so has a single model.
    narrow = [title.partition(" (")[0] for title, _ in slice_tables(results, 20)]
    assert narrow == ["good by age", "poor by age"]
    assert [title for title, _ in slice_tables(results[:1], 80)] == ["good by age"]
    many = [result for number in range(30) for result in results[:1]]
    assert len(slice_tables(many, 80)) == 30


def test_long_slices_show_some_metrics():
    users = [f"u{number}" for number in range(20)]
    results = [
        weft.evaluate(
            {user: ["a", "b"] for user in users},
            {user: ["a"] for user in users},
            metrics=["Recall", "Precision", "MRR"],
            top_k=1,
            slices={"user": {user: user for user in users}},
            name=name,
        )
        for name in ("one", "two")
    ]
    ((title, table),) = slice_tables(results, 80)
    assert title.endswith("(1 of 3 metrics; for all of them, use --format json or --out DIR)")
    assert print_tables([(title, table)], 80).count("Recall@1 u") == 20


@pytest.mark.parametrize("metric", ["Gini", "ItemCoverage", "RMSE"])
def test_slices_of_metrics_without_a_value_per_user_are_empty(metric, tmp_path):
    made = evaluator({"age": GROUPS}, metrics=[metric])
    passed(made)
    result = made.compute()
    assert result.slices.columns == list(SLICE_COLUMNS) and result.slices.is_empty()
    assert "the slices are empty: no metric of this run has a value per user" in result.notes
    save_results([result], tmp_path)
    assert weft.load_result(tmp_path / "model.json").slices.is_empty()
    assert slice_tables([result], 80) == [] and "slice" not in to_markdown([result])
    assert "<html" in result.to_html()


def test_a_slice_is_a_column_of_a_file(tmp_path):
    users = tmp_path / "users.csv"
    users.write_text("user,gender,age\na,F,20\nb,M,40\n")
    lists, truth = {"a": ["x"], "b": ["y"]}, {"a": ["x"], "b": ["x"]}
    result = weft.evaluate(
        lists,
        truth,
        metrics="HitRate@1",
        slices={"gender": f"{users}:gender", "age": {"of": f"{users}:age", "by": "bins(30)"}},
    )
    rows = result.slices.select("slice", "group", "value").rows()
    assert rows == [
        ("gender", "F", 1),
        ("gender", "M", 0),
        ("age", "up to 29", 1),
        ("age", "30 and more", 0),
    ]

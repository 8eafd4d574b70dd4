"""Exposure of items, popularity, and labels of users in results."""

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from metric_cases import make_labels
from process_groups import run_in_processes
from test_evaluator import EVERYONE, ITEMS, SCORES, TARGET, TRAIN, USERS, evaluator
from test_states import alike
from weft.errors import InputError, MissingInput, SettingError
from weft.evaluation.finalize import lorenz_curve
from weft.evaluation.result import slice_column

CUTOFFS = [1, 3, 20]
EVERY_PERCENT = [Fraction(percent, 100) for percent in range(101)]


# ---------------------------------------------------------------------------------------- oracles,


def top(scores, train, k):
    """The list of each user: what is offered and not in train, best first, equal scores by item."""
    for row, seen in zip(scores.tolist(), train.tolist()):
        offered = [item for item in range(len(row)) if row[item] > -math.inf and not seen[item]]
        yield sorted(offered, key=lambda item: (-row[item], item))[:k]


def times_listed(lists, num_items):
    return [sum(item in items for items in lists) for item in range(num_items)]


def corners(counts):
    """The exact Lorenz curve, as far as it bends."""
    counts, total = sorted(counts), sum(counts)
    return [
        (Fraction(number, len(counts)), Fraction(sum(counts[:number]), total))
        for number in range(len(counts) + 1)
    ]


def height(curve, x):
    """The share of recommendations of the share x of items, least recommended first."""
    for (x0, y0), (x1, y1) in itertools.pairwise(curve):
        if x0 <= x <= x1:
            return y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    raise AssertionError(x)


def reached(curve, y):
    """The most items that have no more than the share y of recommendations."""
    for (x0, y0), (x1, y1) in reversed(list(itertools.pairwise(curve))):
        if y0 <= y <= y1 and y0 < y1:
            return x0 + (x1 - x0) * (y - y0) / (y1 - y0)
    raise AssertionError(y)


def points(counts):
    """The rows of `exposure`, exactly: at each percent of the items, and where each percent of the
    recommendations is reached.
    """
    curve = corners(counts)
    return sorted(
        {(x, height(curve, x)) for x in EVERY_PERCENT}
        | {(reached(curve, y), y) for y in EVERY_PERCENT}
    )


def bins(counts, interactions):
    """The rows of `popularity` without their cut-off."""
    low, high, rows = 0, 0, []
    while low <= max(interactions):
        members = [item for item, number in enumerate(interactions) if low <= number <= high]
        rows.append(
            (
                low,
                high,
                len(members),
                sum(interactions[item] for item in members),
                sum(counts[item] for item in members),
            )
        )
        low, high = high + 1, 2 * (high + 1) - 1 if high else 1
    return rows


def check(result, counts_at, interactions=None):
    """Both frames against the oracles; `counts_at`: how often each item is recommended, by
    cut-off.
    """
    assert result.exposure.schema == {
        "k": pl.Int64,
        "items": pl.Float64,
        "recommendations": pl.Float64,
    }
    assert result.exposure["k"].unique(maintain_order=True).to_list() == [
        k for k, counts in counts_at.items() if any(counts)
    ]
    for k, counts in counts_at.items():
        rows = result.exposure.filter(pl.col("k") == k).drop("k").rows()
        if not any(counts):
            continue
        expected = points(counts)
        assert rows[0] == (0, 0) and rows[-1] == (1, 1) and len(rows) <= 202
        assert all(
            x0 <= x1 and y0 <= y1 and (x0, y0) != (x1, y1)
            for (x0, y0), (x1, y1) in itertools.pairwise(rows)
        )
        assert distinct(rows) == [
            pytest.approx((float(x), float(y)), abs=1e-12) for x, y in distinct(expected)
        ]
    if interactions is None:
        assert result.popularity is None
        return
    wanted = [
        (k, *row)
        for k, counts in counts_at.items()
        if any(counts)
        for row in bins(counts, interactions)
    ]
    assert result.popularity.columns == [
        "k",
        "low",
        "high",
        "items",
        "interactions",
        "recommendations",
    ]
    assert set(result.popularity.dtypes) == {pl.Int64} and result.popularity.rows() == wanted


def distinct(rows):
    """Without those that rounding alone tells apart."""
    kept = rows[:1]
    for row in rows[1:]:
        kept += (
            [row]
            if max(abs(float(one - other)) for one, other in zip(row, kept[-1])) > 1e-11
            else []
        )
    return kept


def gini_of(frame, k):
    """From the area under the curve."""
    rows = frame.filter(pl.col("k") == k).drop("k").rows()
    return 1 - sum((x1 - x0) * (y0 + y1) for (x0, y0), (x1, y1) in itertools.pairwise(rows))


# --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def expected():
    return {k: times_listed(list(top(SCORES, TRAIN, k)), ITEMS) for k in CUTOFFS}


POPULARITY = TRAIN.sum(0).tolist()


@pytest.mark.parametrize("batch", [1, 5, USERS])
@pytest.mark.parametrize(
    "metrics", [["nDCG"], ["nDCG", "Gini"], ["nDCG@20", "ItemCoverage@1", "MRR@3"]]
)
def test_exposure_and_popularity_match_the_oracles(expected, metrics, batch):
    made = evaluator(metrics=metrics, top_k=CUTOFFS if "nDCG" in metrics else None, exposure=True)
    for rows in EVERYONE.split(batch):
        made.update(SCORES[rows], TARGET[rows], rows)
    check(made.compute(), expected, POPULARITY)


def test_metrics_that_count_items_bring_exposure(expected):
    made = evaluator(
        metrics=["nDCG", "Gini@3", "ShannonEntropy@1", "Gini(users=evaluated)@20"], top_k=[5]
    )
    made.update(SCORES, TARGET, EVERYONE)
    check(made.compute(), {k: expected[k] for k in (1, 3)}, POPULARITY)
    for metrics in (["nDCG@3"], ["Gini(users=evaluated)@3"], ["GAUC"]):
        made = evaluator(metrics=metrics, top_k=None)
        made.update(SCORES, TARGET, EVERYONE)
        assert made.compute().exposure is None and made.compute().popularity is None


def test_exposure_shares_the_counts_of_metrics():
    counting = ["nDCG", "ItemCoverage", "Gini"]
    assert (
        evaluator(metrics=counting, exposure=True).sums.numel()
        == evaluator(metrics=counting).sums.numel()
    )
    assert (
        evaluator(metrics=["nDCG"], exposure=True).sums.numel()
        == evaluator(metrics=["nDCG"]).sums.numel() + 3 * ITEMS
    )
    assert (
        evaluator(metrics=["GAUC"], top_k=None, exposure=True).sums.numel()
        == evaluator(metrics=["GAUC"], top_k=None).sums.numel()
    )


def test_no_popularity_without_train():
    made = weft.Evaluator(metrics=["nDCG"], top_k=[2], num_items=ITEMS, exposure=True)
    made.update(SCORES, TARGET)
    check(made.compute(), {2: times_listed(list(top(SCORES, torch.zeros_like(TRAIN), 2)), ITEMS)})
    with pytest.raises(
        MissingInput,
        match="exposure=True counts the recommendations of each item and needs num_items=",
    ):
        weft.Evaluator(metrics=["nDCG"], top_k=[2], exposure=True)
    with pytest.raises(SettingError, match="exposure='yes'; it must be True or False"):
        weft.Evaluator(metrics=["nDCG"], top_k=[2], num_items=3, exposure="yes")


def test_no_rows_without_recommendations():
    made = evaluator(metrics=["nDCG", "Gini"], top_k=[2])
    assert made.compute().exposure is None and made.compute().popularity is None
    made.update(torch.full((2, ITEMS), -torch.inf), TARGET[:2], EVERYONE[:2])
    assert made.compute().exposure is None and made.compute().popularity is None


def test_padded_candidates_are_not_counted():
    items = torch.tensor([[0, 3, -1, -1], [3, 2, 1, 0], [-1, -1, -1, -1]])
    scores = torch.tensor([[0.1, 0.9, 9.0, 9.0], [0.4, 0.3, -torch.inf, 0.9], [0.0, 0.0, 0.0, 0.0]])
    made = weft.Evaluator(metrics=["nDCG"], top_k=[1, 3], num_items=5, exposure=True)
    made.update(scores, [[0], [1], [2]], items=items)
    check(made.compute(), {1: [1, 0, 0, 1, 0], 3: [2, 0, 1, 2, 0]})


@pytest.mark.parametrize("batch_size", [None, 1])
@pytest.mark.parametrize("form", ["dict", "frame"])
def test_short_lists_count_their_items(form, batch_size):
    lists = {"ann": ["tea", "rye", "oat"], "bob": ["tea"], "dan": ["fig"]}
    source = lists
    if form == "frame":
        rows = [
            (user, item, -place)
            for user, items in lists.items()
            for place, item in enumerate(items)
        ]
        source = pl.DataFrame(rows, schema=["user", "item", "score"], orient="row")
    truth = {"ann": ["rye"], "bob": ["oat"], "cat": ["tea"]}
    train = [
        ("bob", "rye"),
        ("cat", "rye"),
        ("ann", "rye"),
        ("eve", "oat"),
        ("eve", "oat"),
        ("eve", "nut"),
    ]
    result = weft.evaluate(
        source,
        truth,
        train=pl.DataFrame(train, schema=["user", "item"], orient="row"),
        metrics=["nDCG"],
        top_k=[1, 2, 5],
        exposure=True,
        batch_size=batch_size,
    )
    # tea, rye, oat, fig, nut; repeated train rows count once, those of users who are not evaluated,
    # too.
    check(result, {1: [2, 0, 0, 1, 0], 2: [2, 1, 0, 1, 0], 5: [2, 1, 1, 1, 0]}, [0, 3, 1, 0, 1])
    assert result.counts["train_interactions"] == 5


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=130).filter(any), st.integers(0, 50))
def test_lorenz_curve_matches_the_definition(counts, unlisted):
    x, y = lorenz_curve(np.array(counts), len(counts) + unlisted)
    expected = [(float(x), float(y)) for x, y in distinct(points(counts + [0] * unlisted))]
    assert distinct(list(zip(x.tolist(), y.tolist()))) == [
        pytest.approx(point, abs=1e-12) for point in expected
    ]
    assert len(x) <= 202 and (np.diff(x) >= 0).all() and (np.diff(y) >= 0).all()


@pytest.mark.parametrize("num_items", [2, 30, 3000])
def test_area_under_the_lorenz_curve_matches_gini(num_items):
    scores = torch.rand(200, num_items, generator=torch.Generator().manual_seed(5)) ** (
        1 + torch.arange(num_items) / num_items
    )
    made = weft.Evaluator(
        metrics=["Gini", "Gini(denominator=N)"], top_k=[1, 20], num_items=num_items
    )
    made.update(scores, [[0]] * 200)
    result = made.compute()
    for k in (1, 20):
        assert gini_of(result.exposure, k) == pytest.approx(
            result[f"Gini(denominator=N)@{k}"], abs=2e-4
        )
        assert gini_of(result.exposure, k) * num_items / (num_items - 1) == pytest.approx(
            result[f"Gini@{k}"], abs=4e-4
        )


def test_large_catalogues_give_the_same_exposure():
    """Above some number of items, only those that stand in a list are read."""
    num_items = 200_000
    train = {0: [7, 199_999], 1: [7]}
    lists = {0: [3, 199_999], 1: [3], 2: [5, 6]}
    result = weft.evaluate(
        lists,
        {0: [3]},
        train=train,
        items=range(num_items),
        metrics=["nDCG"],
        top_k=[1, 2],
        exposure=True,
    )
    rows = result.popularity.filter(pl.col("k") == 2).drop("k").rows()
    assert rows == [(0, 0, num_items - 2, 0, 4), (1, 1, 1, 1, 1), (2, 3, 1, 2, 0)]
    at_one = result.exposure.filter(pl.col("k") == 1)
    unlisted = (num_items - 2) / num_items
    assert at_one.filter(pl.col("recommendations") == 0)["items"].max() == pytest.approx(
        unlisted, abs=1e-15
    )
    half = at_one.filter((pl.col("recommendations") - 1 / 3).abs() < 0.004)["items"].to_list()
    assert half and all(unlisted < place < unlisted + 1.1 / num_items for place in half)


# ----------------------------------------------------------------------------------------------- wh

KEPT = {
    "metrics": ["nDCG", "Recall"],
    "top_k": CUTOFFS,
    "exposure": True,
    "per_user": True,
    "slices": {"half": [("low", "high")[row >= 10] for row in range(USERS)]},
}


@pytest.fixture(scope="module")
def whole():
    return fed([EVERYONE], **KEPT).compute()


def fed(batches, **settings):
    made = evaluator(**settings)
    for rows in batches:
        made.update(SCORES[rows], TARGET[rows], rows)
    return made


def test_merged_states_have_the_same_exposure(whole, expected, tmp_path):
    check(whole, expected, POPULARITY)
    first, second = fed([EVERYONE[:9]], **KEPT), fed([EVERYONE[9:]], **KEPT)
    paths = [
        weft.save_state(one, tmp_path / f"{number}.state")
        for number, one in enumerate((first, second))
    ]
    alike(weft.merge_states(paths), whole)
    alike(weft.load_state(paths[0]).clone().compute(), first.compute())
    first.merge(second)
    alike(first.compute(), whole)
    with pytest.raises(SettingError, match="differ in exposure: True and False"):
        first.merge(evaluator(**{**KEPT, "exposure": False}))


def test_exposure_does_not_change_values():
    how = {"metrics": ["nDCG", "UserMADRanking", "GAUC", "ARP"], "top_k": CUTOFFS, "bootstrap": 20}
    without, counted = (
        fed([EVERYONE[:9], EVERYONE[9:]], **how, exposure=exposure).compute()
        for exposure in (False, True)
    )
    assert without.exposure is None and counted.exposure is not None
    assert (counted.notes, counted.counts, counted.settings) == (
        without.notes,
        without.counts,
        without.settings,
    )
    assert repr(counted.entries) == repr(without.entries)  # as text, NaN equals NaN


def test_repeated_users_count_once(whole):
    twice = fed([EVERYONE[:9], EVERYONE[4:]], **KEPT, repeated_users="drop").compute()
    for name in ("exposure", "popularity"):
        assert getattr(twice, name).equals(getattr(whole, name))
    assert twice.user_labels.sort("user").equals(whole.user_labels)
    assert (
        not fed([EVERYONE[:9], EVERYONE[4:]], **KEPT).compute().popularity.equals(whole.popularity)
    )


def evaluated(evaluate, **more):
    """By ids, in another order than that of the rows' names."""
    users, items = (
        [f"u{row:02}" for row in reversed(range(USERS))],
        [f"i{item}" for item in range(ITEMS)],
    )
    matrix = {
        users[row]: {
            items[item]: float(TARGET[row, item]) for item in TARGET[row].nonzero().flatten()
        }
        for row in range(USERS)
    }
    seen = [(users[row], items[item]) for row, item in TRAIN.nonzero().tolist()]
    return evaluate(
        SCORES,
        matrix,
        train=pl.DataFrame(seen, schema=["user", "item"], orient="row"),
        users=users,
        items=items,
        batch_size=4,
        **{
            **KEPT,
            "slices": {"activity": "quantiles(2)"},
            "user_groups": dict(zip(users, make_labels(USERS, ITEMS)["user_groups"])),
            **more,
        },
    )


def _shared(rank, number):
    from weft.engines import distributed

    result = evaluated(distributed.evaluate)
    return result.exposure.rows(), result.popularity.rows(), result.user_labels.rows()


@pytest.mark.slow
def test_two_processes_match_one():
    alone = evaluated(weft.evaluate)
    for found in run_in_processes(2, _shared):
        assert found == (alone.exposure.rows(), alone.popularity.rows(), alone.user_labels.rows())


def test_resumed_runs_have_the_same_exposure(monkeypatch, tmp_path, expected):
    monkeypatch.setattr("weft.evaluation.checkpoint._SAVE_SECONDS", 0.0)
    calls = []

    def model(users):
        calls.append(users)
        if len(calls) == 4:
            raise RuntimeError("out of power")
        return SCORES[torch.as_tensor(users)]

    how = {
        "train": TRAIN,
        "users": range(USERS),
        "items": range(ITEMS),
        "batch_size": 5,
        "checkpoint": tmp_path / "run.state",
    }
    truth = {row: TARGET[row].nonzero().flatten().tolist() for row in range(USERS)}
    with pytest.raises(RuntimeError, match="out of power"):
        weft.evaluate(model, truth, metrics=["nDCG"], top_k=CUTOFFS, exposure=True, **how)
    check(
        weft.evaluate(model, truth, metrics=["nDCG"], top_k=CUTOFFS, exposure=True, **how),
        expected,
        POPULARITY,
    )


# --------------------------------------------------------------------------------------------------


def test_user_labels_match_values_per_user():
    groups = make_labels(USERS, ITEMS)["user_groups"]
    slices = {
        name: [("x", "y", None)[row % 3] for row in range(USERS)]
        for name in ("user", "activity", "user_groups", "slices[user]")
    }
    result = fed([EVERYONE[12:], EVERYONE[:12]], **{**KEPT, "slices": slices}).compute()
    assert (
        result.user_labels["user"].equals(result.per_user["user"])
        and result.user_labels["user"][0] == 12
    )
    assert result.user_labels.columns == [
        "user",
        "activity",
        "user_groups",
        *map(slice_column, slices),
    ]
    for row in result.user_labels.iter_rows(named=True):
        user = row["user"]
        assert (row["activity"], row["user_groups"]) == (int(TRAIN[user].sum()), groups[user])
        assert {row[slice_column(name)] for name in slices} == {("x", "y", None)[user % 3]}
    assert result.user_labels.dtypes[1:] == [pl.Int64, *[pl.String] * 5]


def test_user_labels_have_the_given_ids():
    result = evaluated(weft.evaluate)
    assert result.user_labels["user"].to_list() == result.per_user["user"].to_list()
    for row in result.user_labels.iter_rows(named=True):
        number = USERS - 1 - int(row["user"][1:])
        activity = int(TRAIN[number].sum())
        assert (
            row["activity"] == activity
            and row["user_groups"] == make_labels(USERS, ITEMS)["user_groups"][number]
        )
        label = row[slice_column("activity")]
        assert (
            (activity <= int(label.split()[-1]))
            if label.startswith("up to")
            else activity >= int(label.split()[0])
        )
    assert evaluated(weft.evaluate, per_user=False).user_labels is None


def test_user_labels_have_only_known_columns():
    plain = weft.Evaluator(metrics=["nDCG"], top_k=[2], per_user=True)
    plain.update(SCORES, TARGET, EVERYONE)
    assert plain.compute().user_labels is None
    # Rows that nobody named are nobody's.
    unnamed = weft.Evaluator(
        metrics=["nDCG"], top_k=[2], train=TRAIN, mask_seen=False, per_user=True
    )
    unnamed.update(SCORES, TARGET)
    assert unnamed.compute().per_user is not None and unnamed.compute().user_labels is None
    # Where nothing is masked, users may be no rows of train.
    made = weft.Evaluator(
        metrics=["nDCG"], top_k=[2], train=TRAIN[:20], mask_seen=False, per_user=True
    )
    made.update(SCORES, TARGET, EVERYONE)
    found = dict(made.compute().user_labels.rows())
    assert found == {
        user: int(TRAIN[user].sum()) if user < 20 else None
        for user in made.compute().per_user["user"]
    }


# --------------------------------------------------------------------------------------------------


def test_saved_results_keep_exposure_and_labels(whole, tmp_path):
    path = whole.save(tmp_path / "a.json")
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        "a.json",
        "a.per_user.parquet",
        "a.user_labels.parquet",
    ]
    again = weft.load_result(path)
    for name in ("exposure", "popularity", "user_labels", "per_user", "slices"):
        assert getattr(again, name).equals(getattr(whole, name)), name
    assert (
        again.exposure.schema == whole.exposure.schema
        and again.popularity.schema == whole.popularity.schema
    )
    assert again.to_dict() == whole.to_dict()
    json.dumps(whole.to_dict(), allow_nan=False)
    whole.save(tmp_path / "plain")
    assert weft.load_result(tmp_path / "plain").user_labels.equals(whole.user_labels)
    assert (tmp_path / "plain-user_labels.parquet").exists()


def test_older_files_and_missing_tables(whole, tmp_path):
    path = whole.save(tmp_path / "a.json")
    (tmp_path / "a.user_labels.parquet").unlink()
    lacking = weft.load_result(path)
    assert lacking.user_labels is None and lacking.per_user is not None
    assert (
        "the labels of the users were saved in a.user_labels.parquet, which is not in the folder "
        "of a.json" in lacking.notes
    )
    document = json.loads(path.read_text())
    for key in ("exposure", "popularity", "user_labels"):
        del document[key]
    path.write_text(json.dumps(document))
    older = weft.load_result(path)
    assert (older.exposure, older.popularity, older.user_labels) == (
        None,
        None,
        None,
    ) and older.notes == whole.notes


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("exposure", [{"k": 1}], "exposure[0]['items'] is missing; expected a value"),
        ("exposure", 3, "exposure is 3; expected a list"),
        (
            "popularity",
            [{"k": 1, "low": "x", "high": 1, "items": 1, "interactions": 1, "recommendations": 1}],
            "popularity[0]['low'] is 'x'; expected an integer",
        ),
        (
            "user_labels",
            "../b.parquet",
            "user_labels is '../b.parquet'; expected the name of a file in the same folder",
        ),
    ],
)
def test_rejects_changed_files(whole, tmp_path, key, value, message):
    path = whole.save(tmp_path / "a.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: value}))
    with pytest.raises(InputError, match="damaged or was changed") as caught:
        weft.load_result(path)
    assert message in str(caught.value)

"""Recommendation lists: every form, against the evaluation of scores, and rejected input."""

import math
import random
import statistics

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import weft
from local_engine import evaluate as evaluate_locally
from metric_cases import BUILT_IN, has_trait
from oracles import RankedList, lauc
from weft.data import sorting
from weft.data.row_readers import read_rows
from weft.errors import InputError, MissingInput, SettingError
from weft.ranking import TIE_RULES

K = [1, 3, 8]
# What depends on the items that could have been recommended: all of the catalogue with lists, the
# listed ones in a dense matrix.
OF_OFFERED = {"Accuracy", "FallOut", "LAUC", "MCC", "PopRSP", "RSP"}
SAME = [
    name
    for name in BUILT_IN
    if name.partition("(")[0] not in OF_OFFERED and not has_trait(name, "needs_all_scores")
]
UNSCORED = [name for name in SAME if not has_trait(name, "reads_scores")]


def numbers(result):
    """Everything that a result says in numbers."""
    return {value.name: (value.value, value.std_error, value.users) for value in result.entries}


def same(a, b):
    one, other = numbers(a), numbers(b)
    assert one.keys() == other.keys()
    for name, values in one.items():
        assert values == pytest.approx(other[name], abs=1e-12, nan_ok=True), name


# --------------------------------------------------------------------------------------------------


class World:
    """Lists `{user: {item: score}}`, truth, train and labels over a catalogue."""

    def __init__(self, lists, truth, train, items):
        self.lists, self.truth, self.train, self.items = lists, truth, train, items
        self.about = {
            "user_groups": {
                user: "FM"[number % 2]
                for number, user in enumerate(sorted({*lists, *truth, *train}))
                if number % 5 != 4
            },
            "item_clusters": {
                item: number % 3 for number, item in enumerate(items) if number % 4 != 3
            },
            "item_features": {
                item: {number % 3, "x"} for number, item in enumerate(items) if number % 5
            },
        }

    def rows(self, seed=0):
        """The lists as shuffled rows."""
        rows = [
            (user, item, score) for user, row in self.lists.items() for item, score in row.items()
        ]
        random.Random(seed).shuffle(rows)
        kind = pl.String if isinstance(self.items[0], str) else pl.Int64
        return pl.DataFrame(
            rows, schema={"user": kind, "item": kind, "score": pl.Float64}, orient="row"
        )

    def dense(self):
        """The lists as a matrix, `-inf` for what is not listed, and its rows and columns."""
        users = sorted(self.lists)
        scores = torch.full((len(users), len(self.items)), -torch.inf, dtype=torch.float64)
        for row, user in enumerate(users):
            for item, score in self.lists[user].items():
                scores[row, self.items.index(item)] = score
        return scores, {"users": users, "items": self.items}

    def ranked(self, user, masked=False):
        """A list by score, then item."""
        seen = self.train.get(user, ()) if masked else ()
        row = {item: score for item, score in self.lists.get(user, {}).items() if item not in seen}
        return sorted(row, key=lambda item: (-row[item], self.items.index(item)))

    def offered(self, user, masked):
        return [item for item in self.items if not (masked and item in self.train.get(user, ()))]

    def everyone(self):
        return sorted({*self.lists, *self.truth})


@st.composite
def worlds(draw):
    named = draw(st.booleans())
    items = [f"i{n}" for n in range(9)] if named else [3, 5, 6, 9, 10, 12, 400, -7, 8]
    items = sorted(items)
    users = [f"u{n}" for n in range(7)] if named else [4, 2, 90, 1, 17, 5, 6]
    item, user = st.sampled_from(items), st.sampled_from(users)
    score = st.integers(-2, 2).map(float)
    lists = draw(st.dictionaries(user, st.dictionaries(item, score, max_size=9), min_size=1))
    lists = {user: row for user, row in lists.items() if row}
    truth = draw(
        st.dictionaries(
            user, st.dictionaries(item, st.sampled_from([0.0, 1.0, 2.0, 5.0]), max_size=6)
        )
    )
    train = draw(st.dictionaries(user, st.sets(item, max_size=4)))
    return World(lists, truth, {user: sorted(row) for user, row in train.items()}, items)


@pytest.mark.slow
@settings(max_examples=30, deadline=None)
@given(
    worlds(),
    st.sampled_from(TIE_RULES),
    st.booleans(),
    st.sampled_from(["zero", "skip"]),
    st.sampled_from([1, 3, None]),
    st.sampled_from([[2], [1, 3], [1, 4, 12]]),
)
def test_lists_match_masked_scores(world, ties, masked, missing, batch_size, cutoffs):
    scores, ids = world.dense()
    common = {
        "metrics": SAME,
        "top_k": cutoffs,
        "train": world.train,
        "ties": ties,
        "mask_seen": masked,
        "missing_lists": missing,
        "per_user": True,
        **world.about,
    }
    lists = weft.evaluate(
        world.rows(), world.truth, items=world.items, batch_size=batch_size, **common
    )
    dense = weft.evaluate(scores, world.truth, **ids, **common)
    same(lists, dense)
    assert lists.per_user.sort("user").equals(dense.per_user.sort("user"))
    kept = (
        "users",
        "evaluated_users",
        "users_without_relevant",
        "users_without_truth",
        "missing_users",
        "relevant_items",
    )
    kept += (
        "relevant_seen",
        "ratings_without_score",
        *(f"{what}@{k}" for what in ("short_lists", "ties") for k in cutoffs),
    )
    assert {name: lists.counts[name] for name in kept} == {
        name: dense.counts[name] for name in kept
    }
    assert lists.counts["relevant_not_offered"] == 0


@settings(max_examples=30, deadline=None)
@given(worlds(), st.booleans(), st.integers(1, 4))
def test_offered_items_are_the_catalogue_without_masked_items(world, masked, k):
    result = weft.evaluate(
        world.rows(),
        world.truth,
        items=world.items,
        train=world.train,
        mask_seen=masked,
        metrics=[
            "LAUC",
            "LAUC(completion=none)",
            "PopRSP(pop_ratio=0.5)",
            "PopRSP(pop_ratio=0.5, users=evaluated)",
            "RSP",
            "REO",
        ],
        top_k=k,
        **world.about,
    )
    wanted = {
        user: {item: r for item, r in world.truth.get(user, {}).items() if r > 0}
        for user in world.everyone()
    }
    evaluated = [user for user, row in wanted.items() if row]
    lists = {user: world.ranked(user, masked)[:k] for user in wanted}
    offered = {user: world.offered(user, masked) for user in wanted}

    for completion in ("line", "none"):
        values = [
            lauc(
                RankedList(
                    tuple(wanted[user].get(item, 0.0) for item in lists[user]),
                    tuple(sorted(wanted[user].values(), reverse=True)),
                    len([item for item in offered[user] if item not in wanted[user]]),
                    k,
                ),
                completion,
            )
            for user in evaluated
        ]
        values = [value for value in values if not math.isnan(value)]
        mean = statistics.fmean(values) if values else math.nan
        entry = result.entry(f"LAUC@{k}" if completion == "line" else f"LAUC(completion=none)@{k}")
        assert (entry.value, entry.users) == (pytest.approx(mean, nan_ok=True), len(values))

    def rate(cluster, shown, chances):
        below = sum(item in cluster for row in chances for item in row)
        return sum(item in cluster for row in shown for item in row) / below if below else None

    def spread(rates):
        known = [one for one in rates if one is not None]
        if len(known) < 2 or not any(known):
            return math.nan
        return statistics.pstdev(known) / statistics.fmean(known)

    counts = {item: sum(item in set(row) for row in world.train.values()) for item in world.items}
    by_popularity = sorted(world.items, key=lambda item: (-counts[item], world.items.index(item)))
    head, reached = set(), 0
    for item in by_popularity:
        if reached >= 0.5 * sum(counts.values()):
            break
        head.add(item)
        reached += counts[item]
    sides = [head, set(world.items) - head]
    for users, name in (
        (world.everyone(), "PopRSP(pop_ratio=0.5)"),
        (evaluated, "PopRSP(pop_ratio=0.5, users=evaluated)"),
    ):
        rates = [
            rate(side, [lists[user] for user in users], [offered[user] for user in users])
            for side in sides
        ]
        expected = math.nan if None in rates else spread(rates)
        assert result[f"{name}@{k}"] == pytest.approx(expected, nan_ok=True)

    labels = world.about["item_clusters"]
    clusters = [
        {item for item in labels if labels[item] == label} for label in sorted(set(labels.values()))
    ]
    rates = [rate(cluster, lists.values(), offered.values()) for cluster in clusters]
    assert result[f"RSP@{k}"] == pytest.approx(spread(rates), nan_ok=True)
    hits = [[item for item in lists[user] if item in wanted[user]] for user in wanted]
    rates = [rate(cluster, hits, wanted.values()) for cluster in clusters]
    assert result[f"REO@{k}"] == pytest.approx(spread(rates), nan_ok=True)


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(worlds(), st.sampled_from(TIE_RULES), st.integers(0, 3))
def test_values_do_not_depend_on_row_order_or_form(world, ties, seed):
    common = {
        "metrics": SAME,
        "top_k": K,
        "train": world.train,
        "ties": ties,
        "seed": seed,
        **world.about,
    }
    first = weft.evaluate(world.rows(), world.truth, **common)
    for given_lists in (world.rows(seed=1), world.rows(seed=2).lazy(), world.lists):
        again = weft.evaluate(given_lists, world.truth, **common)
        same(again, first)
        assert again.counts == first.counts
        assert again.provenance["fingerprint"] == first.provenance["fingerprint"]


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@given(worlds(), st.booleans(), st.randoms(use_true_random=False))
def test_ranks_and_plain_lists_keep_their_order(world, masked, rng):
    """Any order of the items, against a dense matrix whose scores fall along it; scores beside
    ranks decide nothing.
    """
    orders = {user: rng.sample(sorted(row), len(row)) for user, row in world.lists.items()}
    falling = World(
        {user: {item: -float(p) for p, item in enumerate(row)} for user, row in orders.items()},
        {},
        {},
        world.items,
    )
    scores, ids = falling.dense()
    common = {
        "metrics": UNSCORED,
        "top_k": K,
        "train": world.train,
        "mask_seen": masked,
        "ties": "expected",
        **world.about,
    }
    dense = weft.evaluate(scores, world.truth, **ids, **common)
    rows = [
        (user, item, 3 * p - 5.5, world.lists[user][item])
        for user, row in orders.items()
        for p, item in enumerate(row)
    ]
    rng.shuffle(rows)
    kind = pl.String if isinstance(world.items[0], str) else pl.Int64
    ranked = pl.DataFrame(
        rows,
        schema={"user": kind, "item": kind, "rank": pl.Float64, "score": pl.Float64},
        orient="row",
    )
    for given_lists in (orders, ranked, ranked.drop("score")):
        lists = weft.evaluate(given_lists, world.truth, items=world.items, **common)
        same(lists, dense)
        assert not any(lists.counts[f"ties@{k}"] for k in K)


# --------------------------------------------------------------------------------------------------

LISTS = {"ann": ["tea", "milk", "rye"], "bob": ["milk"], "cid": ["rye", "tea"]}
TRUTH = {"ann": ["rye", "oat"], "bob": ["milk"], "dot": ["tea"]}
SCORES = {
    "ann": {"tea": 0.9, "milk": 0.5, "rye": -0.1},
    "bob": {"milk": 3.0},
    "cid": {"rye": 1.0, "tea": 0.0},
}
FRAME = pl.DataFrame(
    [(user, item, score) for user, row in SCORES.items() for item, score in row.items()],
    schema=["user", "item", "score"],
    orient="row",
)
FORMS = {
    "dict": LISTS,
    "dict of tuples": {user: tuple(row) for user, row in LISTS.items()},
    "dict of arrays": {user: np.array(row) for user, row in LISTS.items()},
    "dict of series": {user: pl.Series(row) for user, row in LISTS.items()},
    "dict of iterators": {user: dict.fromkeys(row).keys() for user, row in LISTS.items()},
    "dict of scores": SCORES,
    "polars": FRAME,
    "polars lazy": FRAME.lazy(),
    "polars categorical": FRAME.with_columns(pl.col("user", "item").cast(pl.Categorical)),
    "polars other names": FRAME.rename({"user": "User_ID", "item": "DOC", "score": "Prediction"}),
    "polars float32": FRAME.with_columns(pl.col("score").cast(pl.Float32)),
    "polars worst first": FRAME.reverse(),
    "polars without scores": FRAME.drop("score"),
    "polars ranks": FRAME.with_columns(rank=-pl.col("score")).drop("score").reverse(),
    "pandas": pd.DataFrame(FRAME.to_dict(as_series=False)),
    "pandas worst first": pd.DataFrame(FRAME.reverse().to_dict(as_series=False)),
    "pandas categories": pd.DataFrame(FRAME.to_dict(as_series=False)).astype(
        {"user": "category", "item": "category"}
    ),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_reads_every_form_of_lists(form):
    result = weft.evaluate(form, TRUTH, metrics=["MRR", "Recall", "LAUC", "Gini"], top_k=3)
    # ann: rye third of her two relevant; bob: first; dot has no list
    assert result["MRR@3"] == pytest.approx((1 / 3 + 1 + 0) / 3)
    assert result["Recall@3"] == pytest.approx((1 / 2 + 1 + 0) / 3)
    # ann: two misses of two, then one hit of two, so an area of 0; bob 1; dot 1/2
    assert result["LAUC@3"] == pytest.approx((0 + 1 + 0.5) / 3)
    assert result.counts["items"] == 4 and result.counts["users"] == 4
    assert (result.counts["missing_users"], result.counts["users_without_truth"]) == (1, 1)
    assert "1 user of the truth has no list and is evaluated with an empty one" in result.notes
    assert result.name == "recommendation lists" == result.provenance["fingerprint"]["source_kind"]


def test_does_not_change_lists():
    frame, rows = FRAME.reverse(), {user: list(row) for user, row in LISTS.items()}
    kept = frame.clone()
    for lists in (frame, rows):
        weft.evaluate(
            lists, TRUTH, train={"ann": ["tea"]}, mask_seen=True, metrics="MRR@3", ties="random"
        )
    assert frame.equals(kept) and rows == LISTS


def test_empty_lists_are_lists():
    result = weft.evaluate(
        {"ann": ["rye"], "dot": []}, TRUTH, metrics=["UserCoverage", "LAUC"], top_k=2
    )
    assert (
        result.counts["missing_users"] == 1
        and result["UserCoverage@2"] == 1
        and result.counts["users"] == 3
    )
    skipped = weft.evaluate(
        {"ann": ["rye"], "dot": []}, TRUTH, metrics="HitRate@2", missing_lists="skip"
    )
    assert (
        skipped["HitRate@2"] == 0.5
        and "1 user of the truth has no list and is excluded (missing_lists='skip')"
        in skipped.notes
    )


@pytest.mark.parametrize(
    "nothing", [{}, FRAME.clear(), pl.DataFrame(schema=["user", "item"]), {"zoe": []}], ids=repr
)
def test_no_lists(nothing):
    result = weft.evaluate(nothing, TRUTH, metrics=["MRR", "LAUC", "Gini", "nDCG"], top_k=3)
    assert (result["MRR@3"], result["LAUC@3"], result["nDCG@3"]) == (0, 0.5, 0) and math.isnan(
        result["Gini@3"]
    )
    assert result.counts["missing_users"] == 3


def test_no_truth():
    result = weft.evaluate(LISTS, {}, metrics=["MRR", "NumRetrieved"], top_k=3)
    assert math.isnan(result["MRR@3"]) and result["NumRetrieved@3"] == 2


@pytest.mark.parametrize("matrix", [torch.tensor, np.array], ids=["torch", "numpy"])
def test_matrices_number_users_and_items(matrix):
    truth = matrix([[0, 0, 1, 0], [0, 0, 0, 0], [1, 0, 0, 0]])
    result = weft.evaluate(
        {0: [3, 2], 1: [0]},
        truth,
        train=truth,
        metrics=["MRR", "LAUC"],
        top_k=2,
        item_clusters=[1, 1, 2, 2],
    )
    assert result["MRR@2"] == 0.25 and result.counts["items"] == 4
    assert (result.counts["missing_users"], result.counts["users_without_relevant"]) == (1, 1)
    named = weft.evaluate(
        {0: ["d", "c"], 1: ["a"]}, truth, items=["a", "b", "c", "d"], metrics="MRR@2"
    )
    assert named["MRR@2"] == 0.25
    with pytest.raises(
        InputError,
        match=(
            r"source has items that are not in the catalogue of 4 items "
            r"\(column numbers 0 to 3\)"
        ),
    ):
        weft.evaluate({0: [4]}, truth, metrics="MRR@2")
    with pytest.raises(InputError, match="truth is a matrix with 4 columns for 3 items"):
        weft.evaluate({0: ["a"]}, truth, items=["a", "b", "c"], metrics="MRR@2")
    with pytest.raises(
        InputError, match=r"source has strings.*column numbers of truth, 0 to 3.*items="
    ):
        weft.evaluate({0: ["a"]}, truth, metrics="MRR@2")
    with pytest.raises(InputError, match=r"truth has integers.*user ids, but source has strings"):
        weft.evaluate({"ann": [0]}, truth, metrics="MRR@2")


# --------------------------------------------------------------------------------------------------


def test_catalogue_is_given_or_found():
    train = {"eve": ["yam"]}
    assert weft.evaluate(LISTS, TRUTH, metrics="Gini@2").counts["items"] == 4
    assert weft.evaluate(LISTS, TRUTH, train=train, metrics="Gini@2").counts["items"] == 5
    items = ["zest", "yam", "tea", "rye", "oat", "milk"]
    given_items = weft.evaluate(
        LISTS, TRUTH, train=train, items=items, metrics=["Gini@2", "LAUC@2"]
    )
    assert given_items.counts["items"] == 6
    # bob 1, dot 1/2; ann lists two of her four negatives and then none of two relevant: (1 - 2/4) /
    # 2
    assert given_items["LAUC@2"] == pytest.approx((1 + 0.5 + 0.25) / 3)


def test_ties_follow_the_order_of_items():
    tied, truth = {"u": {"b": 1.0, "a": 1.0, "c": 1.0}}, {"u": ["c"]}
    assert weft.evaluate(tied, truth, metrics="MRR@3")["MRR@3"] == pytest.approx(1 / 3)
    assert weft.evaluate(tied, truth, metrics="MRR@3", items=["c", "b", "a"])["MRR@3"] == 1
    numbers_ = {1: {10: 1.0, 9: 1.0, 2: 1.0}}  # by size, not as text
    assert weft.evaluate(numbers_, {1: [2]}, metrics="MRR@3")["MRR@3"] == 1
    assert weft.evaluate(numbers_, {1: [10]}, metrics="MRR@3")["MRR@3"] == pytest.approx(1 / 3)
    bounds = [
        weft.evaluate(tied, {"u": ["b"]}, metrics="MRR@3", ties=ties)["MRR@3"]
        for ties in ("pessimistic", "optimistic", "expected")
    ]
    assert bounds == pytest.approx([1 / 3, 1, (1 + 1 / 2 + 1 / 3) / 3])


def test_expected_ties_share_the_last_position():
    scores = {"u": {"a": 2.0, "b": 1.0, "c": 1.0, "d": 1.0, "e": 0.0}}
    expected = {"a": 1, "b": 1 / 3, "d": 1 / 3, "e": 0, "f": 0}
    for item, chance in expected.items():
        result = weft.evaluate(scores, {"u": [item]}, metrics="HitRate@2", ties="expected")
        assert result["HitRate@2"] == pytest.approx(chance)
    drawn = [
        weft.evaluate(scores, {"u": ["d"]}, metrics="HitRate@2", ties="random", seed=seed)[
            "HitRate@2"
        ]
        for seed in range(60)
    ]
    assert 5 < sum(drawn) < 40  # a third of 60, more or less: always the same, because seeds are


def test_counts_and_notes_ties():
    result = weft.evaluate(
        {"u": {"b": 1.0, "a": 1.0, "c": 1.0}}, {"u": ["c"]}, metrics="MRR", top_k=[2, 3]
    )
    assert (result.counts["ties@2"], result.counts["ties@3"]) == (1, 0)
    assert any("equal scores at positions 2 and 3" in note for note in result.notes)


def test_negative_zero_ties_with_zero_and_large_scores_differ():
    assert weft.evaluate({"u": {"b": 0.0, "a": -0.0}}, {"u": ["a"]}, metrics="MRR@2")["MRR@2"] == 1
    close = {"u": {"a": 1.0, "b": 1.0 + 2**-52}, "v": {"a": -1e300, "b": 1e300}}
    assert weft.evaluate(close, {"u": ["b"], "v": ["b"]}, metrics="MRR@2")["MRR@2"] == 1


def test_scores_may_overflow_together():
    lists = {1: {7: 1.7e308, 8: 1.6e308, 9: 1.5e308}}
    assert weft.evaluate(lists, {1: [8]}, metrics="MRR@3")["MRR@3"] == 0.5
    with pytest.raises(InputError, match=r"not finite numbers:\n.*item 9, score nan"):
        weft.evaluate({1: {7: 1.7e308, 8: 1.6e308, 9: np.nan}}, {1: [8]}, metrics="MRR@3")


def test_sorts_long_and_short_lists_alike():
    """Lists of all lengths at once, with many ties, against sorting one by one."""
    rng = np.random.default_rng(5)
    lists = {
        user: dict(
            zip(
                rng.permutation(3000)[:length].tolist(),
                rng.integers(0, 60, length).astype(float).tolist(),
            )
        )
        for user, length in enumerate([1, 2, 3, 5, 8, 40, 40, 41, 333, 2999, 7, 1, 64, 65])
    }
    truth = {
        user: [item for n, item in enumerate(row) if n % 3 == 0] for user, row in lists.items()
    }
    first = weft.evaluate(lists, truth, metrics=["nDCG", "MAP"], top_k=[1, 10, 100, 4000])
    by_hand = {
        user: sorted(row, key=lambda item, row=row: (-row[item], item))
        for user, row in lists.items()
    }
    same(weft.evaluate(by_hand, truth, metrics=["nDCG", "MAP"], top_k=[1, 10, 100, 4000]), first)


def test_sorts_ids_that_do_not_fit_in_63_bits(monkeypatch):
    """Where user, item and row do not fit into 63 bits together, another way to sort gives the
    same.
    """
    expected = weft.evaluate(FRAME.reverse(), TRUTH, metrics=["MRR", "Gini"], top_k=3)

    class Wide(int):
        def bit_length(self):
            return 70

    packing = sorting.sort_keys
    monkeypatch.setattr(sorting, "sort_keys", lambda keys, limit: packing(keys, Wide(limit)))
    same(weft.evaluate(FRAME.reverse(), TRUTH, metrics=["MRR", "Gini"], top_k=3), expected)


def test_reads_distant_integer_ids():
    far = {2**62: [-(2**62), 5, 2**40], -(2**63): [2**40]}
    result = weft.evaluate(far, {2**62: [2**40], -(2**63): [5, 2**40], 0: [5]}, metrics="MRR@3")
    assert result["MRR@3"] == pytest.approx((1 / 3 + 1 + 0) / 3)


# --------------------------------------------------------------------------------------------------

SEEN = {"ann": ["tea", "oat"], "bob": ["rye"], "zoe": ["tea"]}


@pytest.mark.parametrize(
    ("mask_seen", "mrr", "lauc_", "count", "note"),
    [
        (
            "auto",
            (1 / 3 + 1) / 3,
            (0 + 1 + 0.5) / 3,
            1,
            "1 recommended item is in its user's train and is kept; mask_seen=True",
        ),
        (False, (1 / 3 + 1) / 3, (0 + 1 + 0.5) / 3, None, None),
        # ann is offered milk and rye: her one negative comes first, and so no area is left
        (
            True,
            (1 / 2 + 1) / 3,
            (0 + 1 + 0.5) / 3,
            1,
            "1 recommended item is in its user's train and is removed",
        ),
    ],
)
def test_seen_items_are_kept_masked_or_counted(mask_seen, mrr, lauc_, count, note):
    result = weft.evaluate(
        LISTS,
        TRUTH,
        train=SEEN,
        mask_seen=mask_seen,
        metrics=["MRR", "LAUC", "NumRetrieved"],
        top_k=3,
    )
    assert (result["MRR@3"], result["LAUC@3"]) == (pytest.approx(mrr), pytest.approx(lauc_))
    assert result["NumRetrieved@3"] == (5 if mask_seen is True else 6) / 4
    assert result.counts.get("seen_in_lists") == count
    told = [found for found in result.notes if "user's train and" in found]
    assert (told[0].startswith(note) and len(told) == 1) if note else not told
    assert result.settings["mask_seen"] is (mask_seen is True)
    assert result.counts["relevant_seen"] == (1 if mask_seen is True else 0)


def test_masking_fills_up_the_top_k():
    lists, seen = {"u": list("abcdef")}, {"u": list("abe")}
    hits = [
        weft.evaluate(lists, {"u": [item]}, train=seen, mask_seen=True, metrics="HitRate@2")[
            "HitRate@2"
        ]
        for item in "abcdef"
    ]
    assert hits == [0, 0, 1, 1, 0, 0]


def test_no_note_without_seen_items():
    result = weft.evaluate(LISTS, TRUTH, train={"zoe": ["tea"]}, metrics="MRR@3")
    assert result.counts["seen_in_lists"] == 0 and not any(
        "user's train" in note for note in result.notes
    )


def test_rating_errors_use_scores_before_masking():
    result = weft.evaluate(
        SCORES,
        {"ann": {"tea": 1.0, "oat": 3.0}},
        train={"ann": ["tea"]},
        mask_seen=True,
        metrics="MAE",
    )
    assert result["MAE"] == pytest.approx(0.1) and result.counts["ratings_without_score"] == 1


# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ties", TIE_RULES)
@pytest.mark.parametrize("batch_size", [1, 2, 7])
def test_values_do_not_depend_on_batches(ties, batch_size):
    rng = np.random.default_rng(0)
    lists = (
        pl.DataFrame({"user": rng.integers(0, 40, 900), "item": rng.integers(0, 60, 900)})
        .unique()
        .sort("user", "item")
    )
    lists = lists.with_columns(score=pl.Series(rng.integers(0, 9, len(lists)).astype(float)))
    truth, train = (
        {u: rng.permutation(60)[: u % 7].tolist() for u in range(start, 45)} for start in (3, 0)
    )
    common = {
        "train": train,
        "mask_seen": True,
        "ties": ties,
        "per_user": True,
        "metrics": [*SAME, "LAUC", "RSP", "PopRSP"],
        "top_k": [1, 5],
    }
    common |= {
        "user_groups": {u: u % 3 for u in range(45)},
        "item_clusters": {i: i % 4 for i in range(60)},
        "item_features": {i: [i % 7] for i in range(60)},
    }
    whole = weft.evaluate(lists, truth, **common)
    parts = weft.evaluate(lists, truth, batch_size=batch_size, **common)
    same(whole, parts)
    assert whole.counts == parts.counts
    assert_frame_equal(whole.per_user, parts.per_user, abs_tol=1e-12)


def test_profiles_count_users_as_their_tool_does():
    result = weft.evaluate(LISTS, TRUTH, metrics=["MAP", "MRR"], top_k=3, profile="trec_eval")
    assert result.entry("MRR@3").users == 2 and result["MRR@3"] == pytest.approx((1 / 3 + 1) / 2)
    assert result["MAP@3"] == pytest.approx((1 / 3 / 2 + 1) / 2)


def test_variants_on_one_data_set():
    """The lists of the README; other tools' values of them are in docs/reference/profiles.md."""
    lists = {1: [1, 2, 3, 4, 5], 2: [1, 2, 3, 4, 5], 3: [6, 7], 4: [9, 10, 11, 12, 1]}
    truth = {1: [1], 2: [1, 3, 5, 6, 7, 8, 9, 10], 3: [7, 8], 4: [2, 3]}
    expected = {
        "Precision": 0.25,
        "Recall": 0.4688,
        "MRR": 0.625,
        "F1": 0.2701,
        "MAP": 0.4258,
        "nDCG(gain=binary)": 0.5067,
    }
    result = weft.evaluate(lists, truth, metrics=list(expected), top_k=5)
    assert {name: round(result[f"{name}@5"], 4) for name in expected} == expected


def test_a_name_and_a_device():
    result = weft.evaluate(LISTS, TRUTH, metrics="MRR@3", name="als", device="cpu")
    assert result.name == "als"


def test_positional_labels_need_users_or_items():
    items = ["milk", "oat", "rye", "tea"]
    for name, labels, metric in (
        ("item_clusters", [1, 2, 1, 2], "REO@2"),
        ("item_features", [{1}, {2}, {1}, {2}], "SRecall@2"),
    ):
        with pytest.raises(InputError, match="the order of the items is not known"):
            weft.evaluate(LISTS, TRUTH, metrics=metric, **{name: labels})
        in_order = weft.evaluate(LISTS, TRUTH, metrics=metric, items=items, **{name: labels})
        same(
            in_order,
            weft.evaluate(LISTS, TRUTH, metrics=metric, **{name: dict(zip(items, labels))}),
        )
    with pytest.raises(
        InputError, match=r"the order of the users is not known; give \{id: label\}\.$"
    ):
        weft.evaluate(LISTS, TRUTH, metrics="UserMADRanking@2", user_groups=["F", "M", "F"])


@pytest.fixture
def own_metrics(monkeypatch):
    """The registry forgets what a test registers."""
    monkeypatch.setattr("weft.metrics.registry._classes", dict(weft.metrics.registry._classes))


def test_custom_metrics_see_listed_items(own_metrics):
    met = []

    @weft.register
    class Watching(weft.UserAverageTopKMetric):
        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            met.append(
                (
                    preds.clone(),
                    target.clone(),
                    kwargs[f"top_{self.k}_indices"].clone(),
                    kwargs[f"top_{self.k}_values"].clone(),
                )
            )
            return top_k_rel.sum(1) / self.k

    @weft.register
    class Counting(weft.BaseMetric):
        def __init__(self, **kwargs):
            super().__init__(**kwargs)
            self.add_state("total", torch.zeros(()), dist_reduce_fx="sum")

        def update(self, preds, **kwargs):
            self.total = self.total + (preds > -torch.inf).sum()

        def compute(self):
            return self.total

    result = weft.evaluate(
        SCORES,
        TRUTH,
        train={"ann": ["milk"]},
        mask_seen=True,
        metrics=["Watching@2", "Precision@2", "Counting"],
    )
    assert result["Watching@2"] == result["Precision@2"] and result["Counting"] == 5
    preds, target, indices, values = met[0]  # users ann bob cid; items milk oat rye tea
    inf = math.inf
    assert preds.tolist() == [
        [-inf, -inf, -0.1, 0.9],
        [3.0, -inf, -inf, -inf],
        [-inf, -inf, 1.0, 0.0],
    ]
    assert target.tolist() == [[0, 1, 1, 0], [1, 0, 0, 0], [0, 0, 0, 0]]
    assert indices.tolist() == [[3, 2], [0, -1], [2, 3]]
    assert values.tolist() == [[0.9, -0.1], [3.0, -inf], [1.0, 0.0]]
    assert (met[1][0] == -inf).all() and met[1][0].shape == (1, 4)  # dot, who has no list
    met.clear()
    weft.evaluate(LISTS, TRUTH, metrics="Watching@2")
    assert met[0][0].tolist() == [
        [-2.0, -inf, -3.0, -1.0],
        [-1.0, -inf, -inf, -inf],
        [-inf, -inf, -1.0, -2.0],
    ]
    assert met[0][3].tolist() == [[-1.0, -2.0], [-1.0, -inf], [-1.0, -2.0]]


# --------------------------------------------------------------------------------------------------


class Largest(TorchDispatchMode):
    """The most elements of any tensor that is made."""

    elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if isinstance(leaf, torch.Tensor):
                self.elements = max(
                    self.elements, leaf.untyped_storage().nbytes() // leaf.element_size()
                )
        return out


@pytest.mark.parametrize("ties", TIE_RULES)
def test_one_long_list_does_not_widen_others(ties):
    users, long = 2000, 20_000
    rng = np.random.default_rng(1)
    lists = pl.DataFrame(
        {
            "user": np.concatenate(
                [np.zeros(long, dtype=np.int64), np.repeat(np.arange(1, users), 5)]
            ),
            "item": np.concatenate([rng.permutation(long), np.tile(np.arange(5), users - 1)]),
            "score": rng.integers(0, 50, long + 5 * (users - 1)).astype(float),
        }
    )
    truth = {user: [user % 7] for user in range(users)}
    about = {
        "user_groups": {0: "F", 1: "M"},
        "item_clusters": {0: 1, 1: 2},
        "item_features": {0: ["x"]},
    }
    common = {"train": {0: [1]}, "top_k": [5, 10], "ties": ties, "mask_seen": True, **about}
    with Largest() as largest:
        result = weft.evaluate(lists, truth, metrics=[*SAME, "LAUC", "RSP", "PopRSP"], **common)
    assert largest.elements < users * long / 16  # no more than the totals over items need
    with Largest() as largest:
        weft.evaluate(lists, truth, metrics=["nDCG", "LAUC", "MAE"], **common)
    assert largest.elements < 4 * (long + 11 * users)
    assert result.counts["short_lists@10"] == users - 1


# --------------------------------------------------------------------------------------------------


def frame(**columns):
    return pl.DataFrame({"user": [1, 1, 2], "item": [10, 11, 10], **columns})


REFUSED = {
    "an item twice": (
        {"source": frame(item=[10, 10, 10])},
        InputError,
        ["source has the same item twice in a list", "row 1: user 1, item 10", "once per user"],
    ),
    "an item twice in a dict": (
        {"source": {1: [10, 11, 10]}},
        InputError,
        ["twice in a list", "row 2: user 1, item 10"],
    ),
    "many twice": (
        {"source": pl.DataFrame({"user": [1] * 9, "item": [10] * 9})},
        InputError,
        ["row 1", "row 5", "8 rows in all"],
    ),
    "a rank twice": (
        {"source": frame(rank=[2, 2, 1])},
        InputError,
        ["gives the same rank to several items", "row 1: user 1, item 11", "must be unique"],
    ),
    "a rank twice, out of order": (
        {
            "source": pl.DataFrame(
                {"user": [1, 2, 1, 1], "item": [1, 1, 2, 3], "rank": [5, 5, 4, 5]}
            )
        },
        InputError,
        ["gives the same rank", "row 3: user 1, item 3"],
    ),
    "no rank": (
        {"source": frame(rank=[1, None, 1])},
        InputError,
        ["source has ranks that are not finite", "row 1: user 1, item 11, rank nan"],
    ),
    "ranks in words": (
        {"source": frame(rank=["a", "b", "c"])},
        InputError,
        ["the column 'rank' has the type String; ranks must be numbers"],
    ),
    "NaN": (
        {"source": frame(score=[1.0, math.nan, 2.0])},
        InputError,
        ["source has scores that are not finite", "row 1: user 1, item 11, score nan"],
    ),
    "inf": ({"source": frame(score=[1.0, math.inf, 2.0])}, InputError, ["not finite", "score inf"]),
    "-inf": (
        {"source": {1: {10: -math.inf}}},
        InputError,
        ["not finite", "row 0: user 1, item 10, score -inf"],
    ),
    "no score": ({"source": frame(score=[1.0, None, 2.0])}, InputError, ["not finite", "row 1"]),
    "scores in words": (
        {"source": frame(score=["a", "b", "c"])},
        InputError,
        ["'score' has the type String; scores must be numbers"],
    ),
    "a score in words": ({"source": {1: {10: "good"}}}, InputError, ["score 'good'", "numbers"]),
    "large integers": (
        {"source": frame(score=[2**60, 2**60 + 1, 1])},
        InputError,
        [r"integers beyond 2\*\*53", "rescale"],
    ),
    "no user": (
        {"source": frame(user=[1, None, 2])},
        InputError,
        ["source has no user id in row 1"],
    ),
    "no item": (
        {"source": frame(item=[1, None, 2])},
        InputError,
        ["source has no item id in row 1"],
    ),
    "a list in each row": (
        {"source": pl.DataFrame({"user": [1, 2], "item": [[10, 11], [10]]})},
        InputError,
        ["ids are integers or strings; write one row for each item of a list, as frame.explode"],
    ),
    "no column of users": (
        {"source": frame().drop("user")},
        InputError,
        ["source has the columns", "'user'", "Rename"],
    ),
    "scores in a frame": (
        {"source": pl.DataFrame({"a": [0.5], "b": [0.1]})},
        InputError,
        ["DataFrame with the columns", "read as recommendation lists", "weft.Scores"],
    ),
    "a misspelt column": (
        {"source": frame(scroe=[1.0, 2.0, 3.0])},
        InputError,
        ["no column of scores or ranks", "'scroe'", "Did you mean 'score'", "best first"],
    ),
    "a doubled column": (
        {"source": pd.DataFrame([[1, 2, 3]], columns=["user", "item", "item"])},
        InputError,
        ["source has the column 'item' twice"],
    ),
    "a set": (
        {"source": {1: {10, 11}}},
        InputError,
        [r"source\[1\] is \{1", "a list of items, best first"],
    ),
    "a word": ({"source": {"u": "milk"}}, InputError, [r"source\['u'\] is 'milk'"]),
    "a number": ({"source": {1: 10}}, InputError, [r"source\[1\] is 10"]),
    "pairs": ({"source": {1: [(10, 0.5)]}}, InputError, ["item ids of type tuple"]),
    "some with scores": (
        {"source": {1: {10: 0.5}, 2: [10]}},
        InputError,
        ["not for 2", "for all users"],
    ),
    "float ids": (
        {"source": frame(item=[1.0, 2.0, 3.0])},
        InputError,
        ["source has Float64", "integers or strings"],
    ),
    "an item outside the catalogue": (
        {"items": [11, 12, 13]},
        InputError,
        ["not in the catalogue of 3 items", "row 0: user 1, item 10", r"items="],
    ),
    "a relevant item outside": (
        {"items": [10, 11], "truth": {1: [12]}},
        InputError,
        ["truth has items", "user 1, item 12"],
    ),
    "a train item outside": (
        {"items": [10, 11], "truth": {}, "train": {1: [12]}},
        InputError,
        ["train has items", "user 1, item 12"],
    ),
    "users=": (
        {"users": [1, 2]},
        SettingError,
        ["users= gives the ids of the rows of scores", "Remove it"],
    ),
    "text against numbers": (
        {"truth": {"1": [10]}},
        InputError,
        [
            r"truth has strings \('1'\) as user ids, but source has integers \(1, 2\)",
            "1 and '1' are different",
        ],
    ),
    "items in text": (
        {"truth": {1: ["10"]}},
        InputError,
        [r"truth has strings \('10'\) as item ids, but source has integers \(10, 11\)", "Convert"],
    ),
    "train in text": (
        {"train": {1: ["10"]}},
        InputError,
        ["train has strings", "but source has integers"],
    ),
    "the catalogue in text": (
        {"items": ["10", "11"]},
        InputError,
        ["source has integers", "items= has strings"],
    ),
    "masking without train": ({"mask_seen": True}, MissingInput, ["mask_seen=True needs train="]),
    "AUC": (
        {"metrics": ["AUC", "MRR"]},
        MissingInput,
        ["AUC needs the scores of all items, which lists do not have; use a metric of lists"],
    ),
    "GAUC and AUC": (
        {"metrics": ["GAUC(weight=positives)", "AUC"]},
        MissingInput,
        [r"GAUC\(weight=positives\), AUC need", "LAUC"],
    ),
    "GAUC inside": (
        {"metrics": "F1(metric_name_1=GAUC, metric_name_2=Recall)"},
        MissingInput,
        ["needs the scores of all items"],
    ),
    "AUC inside": (
        {"metrics": "EucDistance(metric_names=[AUC, Recall], utopia_points=[1, 1])"},
        MissingInput,
        ["needs the scores of all items"],
    ),
    "MAE without scores": (
        {"metrics": ["MAE", "UserMADRating"], "user_groups": {1: "F"}},
        MissingInput,
        ["MAE, UserMADRating need scores", "'score'"],
    ),
    "MAE with ranks alone": (
        {"source": frame(rank=[1, 2, 1]), "metrics": "MAE"},
        MissingInput,
        ["MAE needs scores"],
    ),
    "a series": (
        {"source": pl.Series([1])},
        InputError,
        ["cannot evaluate a Series", "recommendation lists as a file or a frame"],
    ),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_rejects_wrong_lists(case):
    changes, error, words = case
    with pytest.raises(error, match="(?s)" + ".*".join(words)):
        weft.evaluate(
            **{"source": frame(), "truth": {1: [10]}, "metrics": "MRR", "top_k": 2, **changes}
        )


def test_rejects_metrics_of_all_scores_before_reading():
    with pytest.raises(MissingInput, match="AUC needs the scores of all items"):
        weft.evaluate({1: "no list"}, object(), metrics="AUC")


def test_notes_what_decides_the_order():
    both = frame(rank=[2, 1, 1], score=[0.9, 0.5, 0.1])
    result = weft.evaluate(
        both, {1: [11]}, metrics=["MRR", "UserMADRating"], top_k=1, user_groups={1: "F", 2: "M"}
    )
    assert (
        result["MRR@1"] == 1
        and "the lists have ranks and scores; the ranks are used" in result.notes
    )
    assert result["UserMADRating@1"] == pytest.approx(
        0.4
    )  # item 11 has the score 0.5, item 10 of the other 0.1
    plain = weft.evaluate(frame(day=[1, 2, 3]), {1: [11]}, metrics="MRR@2")
    assert plain["MRR@2"] == 0.5
    assert (
        "the lists have neither scores nor ranks; the order of the rows is used, best first "
        "(columns that were not read: 'day')" in plain.notes
    )
    assert not weft.evaluate(frame(), {1: [10], 2: [10]}, metrics="MRR@1").notes


@pytest.mark.parametrize("library", [pl.DataFrame, pd.DataFrame])
def test_rows_with_errors_are_listed_and_the_others_are_read(library):
    data = library({"user": [1.0, math.nan, 3.0], "item": ["a", "b", None], "score": [2**60, 1, 2]})
    table = read_rows(data, "lists", use="lists")
    assert table.frame.to_dict(as_series=False) == {"user": [1], "item": ["a"], "score": [2.0**60]}
    assert [(error.kind, error.role, error.rows.tolist()) for error in table.errors] == [
        ("fractional-id", "user", [0, 2]),
        ("missing-id", "user", [1]),
        ("missing-id", "item", [2]),
        ("beyond-precision", "score", [0]),
    ]
    assert table.row_numbers.tolist() == [0]
    assert table.rejected.rows() == [(1, None, "b", 1.0), (2, "3", None, 2.0)]
    with pytest.raises(InputError, match="lists has Float64"):
        table.to_interactions("score", 0.0)


def test_rows_without_errors_are_read_with_their_times():
    data = {"user": ["u", "v"], "item": [1, 2], "rating": [None, 2], "date": ["2020", "2021"]}
    table = read_rows(pl.DataFrame(data), "truth", use="timed")
    assert table.errors == () and table.row_numbers is None and table.rejected is None
    assert table.frame["timestamp"].to_list() == ["2020", "2021"]
    assert math.isnan(table.frame["rating"][0])


# --------------------------------------------------------------------------------------------------


IDS = np.array([[17, 3, 25], [25, 17, -1], [-1, -1, -1], [3, 40, 17]])
SCORES_OF_IDS = np.array([[0.9, 0.5, 0.5], [3.0, -2.0, -9e9], [0.0, 0.0, 0.0], [0.3, 0.2, 0.1]])
TRUTH_OF_IDS = {"a": [3, 40], "b": [25], "c": [17], "e": [3]}
AS_DICT = {"a": [17, 3, 25], "b": [25, 17], "c": [], "d": [3, 40, 17]}


@pytest.mark.parametrize(
    "ids",
    [
        IDS,
        IDS.astype(np.int32),
        np.asfortranarray(IDS),
        torch.tensor(IDS),
        torch.tensor(IDS, dtype=torch.int16),
        IDS.tolist(),
    ],
)
@pytest.mark.parametrize(
    "scores", [None, SCORES_OF_IDS, torch.tensor(SCORES_OF_IDS), SCORES_OF_IDS.astype("f4")]
)
def test_top_k_items_are_lists(ids, scores):
    how = {"metrics": [*UNSCORED, "Recall"], "top_k": [1, 2, 3], "item_clusters": {3: "x"}}
    how |= {"train": {"a": [25]}, "user_groups": {"a": "F", "b": "M"}, "item_features": {3: ["x"]}}
    wanted = weft.evaluate(AS_DICT, TRUTH_OF_IDS, **how)
    result = weft.evaluate(weft.TopKItems(ids, scores, users=list("abcd")), TRUTH_OF_IDS, **how)
    same(result, wanted)
    scored = {"ratings_without_score": 3} if scores is not None else {}
    counts = {**wanted.counts, **scored}  # ratings of items that are in no list
    assert result.counts == counts
    apart = evaluate_locally(
        weft.TopKItems(ids, scores, users=pl.Series(list("abcd"))), TRUTH_OF_IDS, **how
    )
    assert apart.counts == counts and apart["MRR@3"] == wanted["MRR@3"]


def test_top_k_items_as_positions_in_a_catalogue():
    positions = np.array([[2, 0, -1], [1, 2, 0]])
    truth = {0: ["x"], 1: ["x", "z"]}
    lists = weft.TopKItems(positions, users=[0, 1], items=["x", "y", "z"])
    wanted = weft.evaluate({0: ["z", "x"], 1: ["y", "z", "x"]}, truth, metrics=["nDCG@3", "MRR@3"])
    same(weft.evaluate(lists, truth, metrics=["nDCG@3", "MRR@3"]), wanted)
    checked = weft.check(lists, truth, metrics="MRR", top_k=2)
    assert checked.values["lists"]["MRR@2"] == 0.5


@pytest.mark.parametrize("evaluate", [weft.evaluate, evaluate_locally])
def test_rows_of_top_k_items_that_are_row_numbers(evaluate):
    lists = weft.TopKItems([[7, 8], [8, 7]])
    note = "user ids are read as row numbers of weft.TopKItems"
    for truth in ({0: [8], 1: [8]}, {0: {8: 1}, 1: {8: 1}}):
        result = evaluate(lists, truth, metrics="MRR@2")
        assert result["MRR@2"] == 0.75 and note in result.notes
    with pytest.warns(weft.errors.InputWarning, match="no user of truth has the id 0"):
        evaluate(lists, {1: [8]}, metrics="MRR@2")
    frame_of_truth = pl.DataFrame({"user": [0, 1], "item": [8, 8]})
    with pytest.raises(InputError, match=r"which rows of weft.TopKItems.*users='positions'"):
        evaluate(lists, frame_of_truth, metrics="MRR@2", items=[7, 8])
    declared = weft.TopKItems([[7, 8], [8, 7]], users="positions")
    result = evaluate(declared, frame_of_truth, metrics="MRR@2")
    assert result["MRR@2"] == 0.75 and not result.notes
    if evaluate is weft.evaluate:
        matrix = np.zeros((2, 9))
        matrix[:, 8] = 1
        assert not evaluate(lists, matrix, metrics="MRR@2").notes


def test_scores_of_top_k_items_are_read():
    lists = weft.TopKItems(IDS, SCORES_OF_IDS, users=list("abcd"))
    how = {"metrics": ["MAE", "UserMADRating@2"], "user_groups": {"a": "F", "b": "M"}}
    frame_of_ids = pl.DataFrame(
        [
            (user, item, score, rank)
            for user, items, scores in zip("abcd", IDS.tolist(), SCORES_OF_IDS.tolist())
            for rank, (item, score) in enumerate(zip(items, scores))
            if item >= 0
        ],
        schema=["user", "item", "score", "rank"],
        orient="row",
    )
    same(
        weft.evaluate(lists, TRUTH_OF_IDS, **how), weft.evaluate(frame_of_ids, TRUTH_OF_IDS, **how)
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((IDS / 2,), "has the type float64; expected integers"),
        ((IDS[0],), r"ids of weft.TopKItems has shape \[3\]; expected \[users, k\]"),
        ((IDS - 2,), "has -3; only -1"),
        ((IDS, SCORES_OF_IDS[:2]), r"scores of weft.TopKItems has shape \[2, 3\].*\[4, 3\]"),
        ((IDS, -SCORES_OF_IDS), "increase in row 0, to -0.5 at position 2; .* negate distances"),
    ],
)
def test_rejects_wrong_top_k_items(arguments, words):
    with pytest.raises(InputError, match=words):
        weft.TopKItems(*arguments)


def test_rejects_wrong_ids_of_top_k_items():
    with pytest.raises(InputError, match=r"users of weft.TopKItems has 3 ids, but ids has 4 rows"):
        weft.TopKItems(IDS, users=[1, 2, 3])
    with pytest.raises(InputError, match="position 40, but items has 3 ids"):
        weft.TopKItems(IDS, items=[1, 2, 3])
    with pytest.raises(SettingError, match=r"as in weft.TopKItems\(ids, users=\[...\]\)"):
        weft.evaluate(weft.TopKItems(IDS), {0: [17]}, users=list("abcd"), metrics="MRR@1")
    with pytest.raises(InputError, match="same item twice in a list"):
        weft.evaluate(weft.TopKItems([[3, 3]]), {0: [3]}, metrics="MRR@1")
    nan = np.where(IDS == 40, np.nan, SCORES_OF_IDS)
    with pytest.raises(InputError, match="scores that are not finite"):
        weft.evaluate(weft.TopKItems(IDS, nan), {0: [3]}, metrics="MRR@1")


@pytest.mark.parametrize("form", [np.asarray, torch.tensor])
@pytest.mark.parametrize("ids", [IDS, np.array([[0, 1], [2, 3]]), np.array([[90, 17, 4]])])
def test_rejects_item_ids_as_scores(form, ids):
    with pytest.raises(InputError, match=r"look like item ids.*weft.TopKItems\(ids, users="):
        weft.evaluate(form(ids), {0: [0]}, metrics="MRR@1")


@pytest.mark.parametrize(
    "scores",
    [
        [[3, 1, 2], [1, 3, 2]],  # ranks in reverse
        [[2, 0, 1], [0, 2, 1]],
        [[50, 0, 0], [7, 9, 12]],  # counts
        [[-5, 100, 3], [4, 2, 90]],
        [[90.0, 17.0, 4.0], [40.0, 3.0, 25.0]],
    ],
)
def test_accepts_integer_scores(scores):
    for source in (np.array(scores), torch.tensor(scores)):
        assert weft.evaluate(source, {0: [0, 1, 2]}, metrics="MRR@1")["MRR@1"] == 1


# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("ranks", "count"),
    [
        ([1, 2, 3, 1, 2], 0),
        ([0, 1, 2, 0, 1], 0),
        ([3, 1, 2, 2, 1], 0),
        ([1, 2, 4, 1, 2], 1),
        ([2, 3, 4, 1, 2], 1),
        ([10, 20, 30, 0, 2], 2),
        ([1, 2, 3, 7, 2], 1),
        ([0.1, 0.2, 0.4, 1, 2.5], 0),  # these order the items, but are no positions
    ],
)
def test_counts_gaps_in_ranks(ranks, count):
    users = ["a", "a", "a", "b", "b"]
    lists = pl.DataFrame({"user": users, "item": [1, 2, 3, 1, 2], "rank": ranks})
    truth = {"a": [2], "b": [2]}
    lists_have = "1 list has gaps in its" if count == 1 else f"{count} lists have gaps in their"
    note = f"{lists_have} ranks; the items below a gap move up"
    for shuffled in (lists, lists.sample(fraction=1, shuffle=True, seed=3)):
        for evaluate in (weft.evaluate, evaluate_locally):
            result = evaluate(shuffled, truth, metrics="MRR", top_k=3)
            assert result.counts["lists_with_rank_gaps"] == count
            assert (note in result.notes) == bool(count)


def test_lists_without_ranks_have_no_gaps_on_partitions():
    lists = {user: [1, 2, 3] for user in range(20)}
    truth = {user: [2] for user in range(20)}
    results = [
        evaluate(lists, truth, metrics="MRR", top_k=3)
        for evaluate in (weft.evaluate, evaluate_locally)
    ]
    assert results[0].counts == results[1].counts
    assert results[0].counts["lists_with_rank_gaps"] == 0
    padded = weft.TopKItems([[1, -1, 2], [1, 2, -1]])
    assert weft.evaluate(padded, {0: [2]}, metrics="MRR@3").counts["lists_with_rank_gaps"] == 1
    twice = pl.DataFrame({"user": [1, 1, 1], "item": [5, 5, 6], "rank": [1, 2, 3]})
    kept = weft.evaluate(twice, {1: [6]}, metrics="MRR@2", duplicates="keep-best")
    assert kept["MRR@2"] == 0.5 and kept.counts["lists_with_rank_gaps"] == 0


@pytest.mark.parametrize("library", [pl.DataFrame, pd.DataFrame])
def test_counts_repeated_train_rows_and_users_without_truth(library):
    train = library({"user": ["a", "a", "b"], "item": [1, 1, 2]})
    lists = {"a": [3, 2], "b": [3], "c": [1]}
    for evaluate in (weft.evaluate, evaluate_locally):
        result = evaluate(lists, {"a": [2], "b": [3]}, train=train, metrics="MRR", top_k=2)
        assert result.counts["train_repetitions"] == 1
        assert result.counts["users_without_truth"] == 1
        assert (
            "train contains 1 repeated (user, item) row; each pair is counted once" in result.notes
        )
        assert any("1 of 3 users is not in the truth" in note for note in result.notes)

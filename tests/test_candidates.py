"""Candidates per user, cold, warm and listed items, against the evaluation of masked scores."""

import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from metric_cases import BUILT_IN, BY_POSITION, RATINGS, has_trait, make_labels
from oracles import RankedList, lauc
from weft.errors import InputError, MissingInput, SettingError
from weft.ranking import TIE_RULES

# What is about the ranking of what is offered; a rating's error is that of the score, offered or
# not.
RANKED = [name for name in BUILT_IN if name not in RATINGS] + [
    "AUC(scope=pooled)",
    "SRecall(numerator=list)",
    "EPC(relevance=none)",
]
USERS, ITEMS = 7, 9
NAMES = {"users": [f"u{n}" for n in range(USERS)], "items": [f"i{n}" for n in range(ITEMS)]}


def numbers(result):
    """Everything that a result says in numbers."""
    return {value.name: (value.value, value.std_error, value.users) for value in result.entries}


def same(one, other):
    found, expected = numbers(one), numbers(other)
    assert found.keys() == expected.keys()
    for name, values in found.items():
        assert values == pytest.approx(expected[name], abs=1e-12, nan_ok=True), name
    if one.per_user is not None:
        pl.testing.assert_frame_equal(one.per_user, other.per_user, check_exact=False)


def same_counts(one, other, *, but=("ratings_without_score",)):
    common = [name for name in other.counts if name in one.counts and name not in but]
    assert {name: one.counts[name] for name in common} == {
        name: other.counts[name] for name in common
    }


class World:
    """Scores over a few users and items, with ties; candidates of some users; truth, also of a user
    who has no scores; train.
    """

    def __init__(self, scores, truth, train, candidates):
        self.scores, self.truth, self.train, self.candidates = scores, truth, train, candidates
        self.common = {
            "train": train,
            "metrics": RANKED,
            "top_k": [1, 3, 12],
            "per_user": True,
            **NAMES,
            **make_labels(USERS, ITEMS),
        }

    def without_others(self, offered):
        """The scores with `-inf` for whatever is not offered: `{user: items}`."""
        scores = torch.full_like(self.scores, -torch.inf)
        for row, user in enumerate(NAMES["users"]):
            for item in offered.get(user, ()):
                column = NAMES["items"].index(item)
                scores[row, column] = self.scores[row, column]
        return scores


@st.composite
def worlds(draw, kind=torch.float64):
    score = st.sampled_from([-torch.inf, -1.5, 0.0, 0.25, 2.0])
    scores = torch.tensor(
        draw(
            st.lists(
                st.lists(score, min_size=ITEMS, max_size=ITEMS), min_size=USERS, max_size=USERS
            )
        ),
        dtype=kind,
    )
    user, item = st.sampled_from([*NAMES["users"], "u8"]), st.sampled_from(NAMES["items"])
    rating = st.sampled_from([0.0, 1.0, 2.0, 5.0])
    truth = draw(st.dictionaries(user, st.dictionaries(item, rating, max_size=5)))
    train = {
        name: sorted(row)
        for name, row in draw(st.dictionaries(user, st.sets(item, max_size=4))).items()
    }
    candidates = {
        name: sorted(row)
        for name, row in draw(st.dictionaries(user, st.sets(item, max_size=8))).items()
    }
    return World(scores, truth, train, candidates)


def relevant(row, threshold=None):
    return [
        item
        for item, rating in row.items()
        if (rating > 0 if threshold is None else rating >= threshold)
    ]


class Scorer:
    """A model that can score some items of each user, and notes what it was asked for."""

    def __init__(self, world):
        self.world, self.asked = world, []

    def score(self, users, items):
        self.asked += [(user, frozenset(row)) for user, row in zip(users, items)]
        rows = [NAMES["users"].index(user) for user in users]
        columns = [[NAMES["items"].index(item) for item in row] for row in items]
        return torch.stack([self.world.scores[row, column] for row, column in zip(rows, columns)])


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(
    worlds(),
    st.sampled_from(TIE_RULES),
    st.booleans(),
    st.sampled_from(["full", "sampled"]),
    st.sampled_from([None, 2.0]),
    st.sampled_from([1, 3, None]),
    st.sampled_from(["matrix", "array", "model", "scorer"]),
)
def test_candidates_match_masked_scores(world, ties, masked, strategy, threshold, batch_size, kind):
    common = {**world.common, "ties": ties, "mask_seen": masked, "relevance_threshold": threshold}
    scorer = Scorer(world)
    rows = {user: row for row, user in enumerate(NAMES["users"])}
    source = {
        "matrix": world.scores,
        "array": world.scores.numpy(),
        "model": lambda users: world.scores[[rows[user] for user in users]],
        "scorer": scorer,
    }[kind]
    found = weft.evaluate(
        source,
        world.truth,
        candidates=world.candidates,
        strategy=strategy,
        batch_size=batch_size,
        **common,
    )
    offered = {
        user: {
            *world.candidates.get(user, ()),
            *(relevant(world.truth.get(user, {}), threshold) if strategy == "sampled" else ()),
        }
        for user in NAMES["users"]
    }
    expected = weft.evaluate(world.without_others(offered), world.truth, **common)
    same(found, expected)
    same_counts(found, expected)
    seen = {user: set(world.train.get(user, ())) if masked else set() for user in NAMES["users"]}
    assert found.counts["candidates"] == sum(len(offered[user] - seen[user]) for user in offered)
    assert found.counts["users_without_candidates"] == sum(
        not world.candidates.get(user) for user in offered
    )
    # A scorer is asked once for each user, for the candidates and the cells of the truth, and for
    # nobody else.
    if kind == "scorer":
        wanted = {
            user: (offered[user] - seen[user]) | world.truth.get(user, {}).keys()
            for user in offered
        }
        assert sorted(scorer.asked) == sorted(
            (user, frozenset(items)) for user, items in wanted.items() if items
        )


@settings(max_examples=5, deadline=None)
@given(worlds(), st.booleans(), st.sampled_from(["given", "sampled", "cold"]))
def test_rating_errors_do_not_depend_on_candidates(world, masked, how):
    """An error of a rating has nothing to do with what is offered."""
    common = {"train": world.train, "metrics": RATINGS, "mask_seen": masked, **NAMES}
    how = {
        "given": {"candidates": world.candidates},
        "sampled": {"strategy": "sampled"},
        "cold": {"candidates": "cold"},
    }[how]
    found, expected = (
        weft.evaluate(world.scores, world.truth, **how, **common),
        weft.evaluate(world.scores, world.truth, **common),
    )
    same(found, expected)
    assert found.counts["ratings_without_score"] == expected.counts["ratings_without_score"]


@settings(max_examples=6, deadline=None)
@given(
    worlds(),
    st.sampled_from(TIE_RULES),
    st.booleans(),
    st.sampled_from(["cold", "warm"]),
    st.sampled_from([1, 3, None]),
)
def test_cold_and_warm_items_match_masked_scores(world, ties, masked, pool, batch_size):
    common = {**world.common, "ties": ties, "mask_seen": masked}
    before = world.scores.clone()
    found = weft.evaluate(
        world.scores, world.truth, candidates=pool, batch_size=batch_size, **common
    )
    warm = {item for row in world.train.values() for item in row}
    chosen = [item for item in NAMES["items"] if (item in warm) == (pool == "warm")]
    expected = weft.evaluate(
        world.without_others(dict.fromkeys(NAMES["users"], chosen)), world.truth, **common
    )
    same(found, expected)
    same_counts(found, expected)
    assert torch.equal(world.scores, before) and found.counts["candidate_items"] == len(chosen)


def as_lists(world):
    """The finite scores as lists."""
    return {
        user: {item: float(score) for item, score in zip(NAMES["items"], row) if score > -torch.inf}
        for user, row in zip(NAMES["users"], world.scores)
    }


@settings(max_examples=6, deadline=None)
@given(worlds(), st.sampled_from(TIE_RULES), st.booleans(), st.sampled_from([2, None]))
def test_listed_candidates_match_full_scores(world, ties, masked, batch_size):
    common = {
        **world.common,
        "ties": ties,
        "mask_seen": masked,
        "metrics": [*BUILT_IN, "AUC(scope=pooled)"],
    }
    expected = weft.evaluate(world.scores, world.truth, **common)
    del common["users"]
    common["user_groups"] = dict(zip(NAMES["users"], common["user_groups"]))
    found = weft.evaluate(
        as_lists(world), world.truth, candidates="listed", batch_size=batch_size, **common
    )
    same(found, expected)
    same_counts(found, expected, but=())


@pytest.mark.slow
@settings(max_examples=10, deadline=None)
@given(
    worlds(),
    st.sampled_from(TIE_RULES),
    st.booleans(),
    st.sampled_from(["given", "sampled", "cold"]),
    st.sampled_from([2, None]),
)
def test_lists_skip_items_that_are_no_candidates(world, ties, masked, how, batch_size):
    of_offered = {"Accuracy", "FallOut", "LAUC", "MCC", "PopRSP", "RSP"}
    common = {**world.common, "ties": ties, "mask_seen": masked}
    common["metrics"] = [
        name
        for name in RANKED
        if name.partition("(")[0] not in of_offered and not has_trait(name, "needs_all_scores")
    ]
    lists = as_lists(world)
    warm = {item for row in world.train.values() for item in row}
    if how == "cold":
        offered = {
            user: {item for item in NAMES["items"] if item not in warm}
            for user in [*NAMES["users"], "u8"]
        }
        asked = {"candidates": "cold"}
    else:
        offered = {user: set(world.candidates.get(user, ())) for user in [*NAMES["users"], "u8"]}
        asked = {
            "candidates": world.candidates,
            "strategy": "sampled" if how == "sampled" else "full",
        }
        if how == "sampled":
            offered = {
                user: row | set(relevant(world.truth.get(user, {})))
                for user, row in offered.items()
            }
    expected = weft.evaluate(world.without_others(offered), world.truth, **common)
    del common["users"]
    common["user_groups"] = dict(zip(NAMES["users"], common["user_groups"]))
    found = weft.evaluate(lists, world.truth, batch_size=batch_size, **common, **asked)
    same(found, expected)
    # What could have been recommended is the candidates, listed or not.
    common |= {"metrics": ["LAUC", "RSP"], "top_k": [3]}
    found = weft.evaluate(
        lists, world.truth, batch_size=batch_size, **{**common, "ties": "index"}, **asked
    )
    seen = {user: set(world.train.get(user, ())) if masked else set() for user in offered}
    values, slots = [], {}
    clusters = dict(zip(NAMES["items"], common["item_clusters"]))
    everyone = [*NAMES["users"], *(["u8"] if "u8" in world.truth else [])]
    for user in everyone:
        can = offered[user] - seen[user]
        ranked = sorted(
            (item for item in lists.get(user, {}) if item in can),
            key=lambda item: (-lists[user][item], item),
        )
        wanted = relevant(world.truth.get(user, {}))
        for item in can:
            slots.setdefault(clusters[item], [0, 0])[1] += 1
            slots[clusters[item]][0] += item in ranked[:3]
        if wanted:
            grades = tuple(
                world.truth[user][item] if item in wanted else 0.0 for item in ranked[:3]
            )
            values.append(
                lauc(
                    RankedList(
                        grades,
                        tuple(world.truth[user][item] for item in wanted),
                        len(can - set(wanted)),
                        3,
                    )
                )
            )
    values = [value for value in values if not np.isnan(value)]
    assert found["LAUC@3"] == pytest.approx(
        np.mean(values) if values else np.nan, abs=1e-12, nan_ok=True
    )
    rates = [listed / number for label, (listed, number) in slots.items() if label is not None]
    fair = np.std(rates) / np.mean(rates) if len(rates) > 1 and sum(rates) else np.nan
    assert found["RSP@3"] == pytest.approx(fair, abs=1e-12, nan_ok=True)


# --------------------------------------------------------------------------------------------------

SCORES = torch.tensor([[0.9, 0.1, 0.5, 0.3], [0.2, 0.8, 0.4, 0.6], [0.7, 0.6, 0.5, 0.4]])
TRUTH = {0: {2: 1}, 1: {0: 1, 3: 1}, 2: {1: 1}}
GIVEN = {0: [1, 2], 1: [3, 1]}


def of(source=SCORES, truth=TRUTH, **settings):
    return weft.evaluate(
        source, truth, **{"metrics": ["MRR", "Recall"], "top_k": [1, 2], **settings}
    )


def test_candidates_on_worked_example():
    result = of(candidates=GIVEN)
    # 0: item 2 before 1; 1: item 1 before 3, and item 0 was not offered; 2 is offered nothing.
    assert result["MRR@2"] == pytest.approx((1 + 1 / 2 + 0) / 3) and result[
        "Recall@2"
    ] == pytest.approx((1 + 1 / 2 + 0) / 3)
    assert result.counts["relevant_not_offered"] == 2 and result.counts["candidates"] == 4
    assert (
        result.counts["users_without_candidates"] == 1 and result.settings["candidates"] == "given"
    )
    assert any(
        "1 user has no candidates and is evaluated with an empty ranking" in note
        for note in result.notes
    )
    assert any(
        "2 of 4 relevant items cannot be recommended (not among the candidates" in note
        for note in result.notes
    )
    sampled = of(candidates=GIVEN, strategy="sampled")  # the relevant items join
    assert sampled.counts["candidates"] == 4 + 2 and sampled.counts["relevant_not_offered"] == 0
    assert sampled["MRR@2"] == pytest.approx((1 + 1 / 2 + 1) / 3)


def test_reads_every_form_of_candidates(tmp_path):
    rows = [(user, item) for user, items in GIVEN.items() for item in items]
    frame = pl.DataFrame(rows, schema=["user_id", "item_id"], orient="row").with_columns(
        score=pl.lit(None, dtype=pl.Float64)
    )
    frame.write_csv(tmp_path / "candidates.csv")
    matrix = np.zeros((3, 4))
    for user, item in rows:
        matrix[user, item] = 1
    expected = of(candidates=GIVEN)
    path = tmp_path / "candidates.csv"
    forms = [
        frame,
        pd.DataFrame(rows, columns=["user", "item"]),
        matrix,
        str(path),
        path,
        weft.File(path),
        frame.lazy(),
    ]
    for form in [*forms, {user: dict.fromkeys(items, -3.0) for user, items in GIVEN.items()}]:
        found = of(candidates=form)
        same(found, expected)
        assert (
            found.provenance["fingerprint"]["candidates"]
            == expected.provenance["fingerprint"]["candidates"]
        )
    assert (
        of(candidates={0: [1, 3]}).provenance["fingerprint"]["candidates"]
        != expected.provenance["fingerprint"]["candidates"]
    )


def test_notes_unused_and_repeated_candidates():
    doubled = pl.DataFrame({"user": [0, 0, 0, 1, 9, 9], "item": [1, 2, 2, 3, 1, 2]})
    result = of(candidates=doubled)
    assert "2 rows of candidates belong to users that are not evaluated" in result.notes
    assert (
        "candidates contain 1 repeated (user, item) row; each pair is counted once" in result.notes
    )
    assert result.counts["candidates"] == 3 and result.counts["candidates_unmatched"] == 2


def test_users_without_candidates():
    for how in (
        {"candidates": {}},
        {"candidates": "cold", "train": {0: [0, 1, 2, 3]}},
        {"candidates": {0: []}},
    ):
        result = of(metrics=["MRR@2", "AUC", "GAUC", "LAUC@2", "ItemCoverage@2"], top_k=None, **how)
        assert result["MRR@2"] == 0 and result["ItemCoverage@2"] == 0
        assert np.isnan([result["AUC"], result["GAUC"], result["LAUC@2"]]).all()


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float32])
def test_candidates_with_half_precision_scores(kind):
    scores = (SCORES * 8).round().div(8).to(kind)
    offered = torch.full_like(scores, -torch.inf)
    for user, items in GIVEN.items():
        offered[user, items] = scores[user, items]
    metrics = ["AUC", "nDCG@2", "UserCoverage@2"]
    same(
        of(scores, candidates=GIVEN, metrics=metrics, top_k=None),
        of(offered, metrics=metrics, top_k=None),
    )


def test_notes_metrics_that_ran_on_candidates():
    every = [name for name in BUILT_IN if not name.startswith(("EucDistance", "Hypervolume"))]
    names = [*every, "EPC(relevance=none)", "F1(metric_name_1=Precision, metric_name_2=ARP)"]
    about_items = make_labels(3, 4)
    result = of(candidates=GIVEN, metrics=names, train={0: [0]}, **about_items)
    (note,) = [note for note in result.notes if "only candidates were ranked" in note]
    named = set(
        note.partition(" look at")[0]
        .replace("), ", ")|")
        .replace("e, F1", "e|F1")
        .replace(", ", "|")
        .split("|")
    )
    assert {
        "ItemCoverage",
        "Gini",
        "ShannonEntropy",
        "RSP",
        "PopRSP",
        "ARP",
        "BiasDisparityBR",
        "EPC(relevance=none)",
    } <= named
    assert not named & {"nDCG", "AUC", "EPC", "BiasDisparityBS", "UserMADRanking", "REO", "MAE"}
    assert not any(
        "only candidates were ranked" in note
        for note in of(metrics=names, train={0: [0]}, **about_items).notes
    )
    cold = of(candidates="cold", train={0: [0]}, metrics="Gini")
    assert (
        "Gini depends on which items are recommended; only candidates were ranked: cold items"
        in cold.notes
    )


def test_custom_metrics_see_the_candidates():
    class Offered(weft.TopKMetric):
        higher_is_better = True

        def __init__(self, k, **settings):
            super().__init__(k, **settings)
            self.add_state("seen", torch.zeros(()), dist_reduce_fx="sum")

        def update(self, preds, **kwargs):
            self.seen += (preds > -torch.inf).sum() + 100 * preds.shape[1]

        def compute(self):
            return self.seen

    assert (
        of(candidates=GIVEN, metrics=[Offered(k=1)], top_k=None, batch_size=3)["Offered@1"]
        == 4 + 400
    )


# --------------------------------------------------------------------------------------------------


def test_models_score_candidates_by_id():
    asked = []

    class Module(torch.nn.Module):
        def forward(self, users, items=None):
            asked.append((users.tolist(), None if items is None else items.tolist()))
            chosen = SCORES[users - 10]
            return chosen if items is None else chosen.gather(1, items // 5)

    ids = {"users": [10, 11, 12], "items": [0, 5, 10, 15]}
    truth = {user + 10: {item * 5: 1 for item in row} for user, row in TRUTH.items()}
    given = {user + 10: [item * 5 for item in items] for user, items in GIVEN.items()}
    result = of(Module(), truth, candidates=given, **ids)
    assert result["MRR@2"] == of(candidates=GIVEN)["MRR@2"]
    # The user without candidates is asked for the cell of the truth; short rows are filled up with
    # an item of their own.
    assert asked == [([10, 11, 12], [[5, 10, 5], [0, 5, 15], [5, 5, 5]])]
    asked.clear()
    assert of(Module(), truth, **ids)["MRR@2"] == of()["MRR@2"] and asked == [([10, 11, 12], None)]


def test_models_that_need_items():
    class Pairs:
        def score(self, users, items):
            return SCORES[users].gather(1, items)

    assert of(Pairs(), items=range(4))["MRR@2"] == of()["MRR@2"]
    assert of(Pairs(), items=range(4), candidates=GIVEN)["MRR@2"] == of(candidates=GIVEN)["MRR@2"]
    assert (
        of(Pairs(), train=np.eye(3, 4))["MRR@2"] == of(train=np.eye(3, 4))["MRR@2"]
    )  # train tells how many there are
    with pytest.raises(
        InputError, match=r"of the model needs the items; give their ids with items="
    ):
        of(Pairs())


def test_models_without_a_parameter_for_items():
    rows = lambda users: SCORES[users]  # noqa: E731
    for model in (
        lambda items: rows(items),
        lambda users, *items: rows(users),
        lambda users, **items: rows(users),
    ):
        assert of(model, candidates=GIVEN)["MRR@2"] == of(candidates=GIVEN)["MRR@2"]

    def by_place(users, items=None, /):
        return rows(users) if items is None else rows(users).gather(1, items)

    assert of(by_place, candidates=GIVEN)["MRR@2"] == of(candidates=GIVEN)["MRR@2"]


def test_rejects_wrong_shapes_of_model_scores():
    with pytest.raises(
        InputError,
        match=(
            r"for 3 items of each of 3 users, .* returned scores of shape \[3, 4\]; expected "
            r"\[3, 3\]"
        ),
    ):
        of(lambda users, items: SCORES, items=range(4), candidates=GIVEN)
    with pytest.raises(InputError, match="returned 4 columns, but there are 5 items"):
        of(lambda users: SCORES, items=range(5), candidates=GIVEN)
    for bad, word in ((float("nan"), "NaN"), (float("inf"), r"\+inf")):
        scores = SCORES.clone()
        scores[1, 3] = bad
        with pytest.raises(InputError, match=f"contain {word}, first in row 1, column 3"):
            of(scores, candidates=GIVEN)
        with pytest.raises(InputError, match=f"contain {word}, first in row 1, column 3"):
            of(scores, candidates="cold", train={0: [3]})


@pytest.mark.parametrize("num_items", [40, 5000])
def test_factors_score_pairs(num_items):
    made = torch.Generator().manual_seed(1)
    users, items = (torch.randint(-2, 3, (n, 6), generator=made).double() for n in (30, num_items))
    biases = {"user_biases": torch.arange(30.0), "item_biases": torch.arange(num_items) % 3}
    source = weft.Factors(users, items, **biases)
    rows, columns = torch.tensor([3, 0, 29]), torch.randint(0, num_items, (3, 8), generator=made)
    assert torch.equal(
        source.scores_for_items(rows, None, columns, None),
        source.scores(0, 30, None)[rows].gather(1, columns),
    )


# --------------------------------------------------------------------------------------------------


def test_evaluator_takes_candidates():
    scores, made = (
        torch.rand(12, 20, generator=torch.Generator().manual_seed(2)),
        np.random.default_rng(2),
    )
    candidates = [made.permutation(20)[: 4 + user % 5].tolist() for user in range(12)]
    truth = [made.permutation(20)[: user % 4].tolist() for user in range(12)]
    train = np.zeros((12, 20))
    train[np.arange(12), made.integers(0, 20, 12)] = 1
    items = torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(row) for row in candidates], batch_first=True, padding_value=-1
    )
    preds = torch.where(
        items >= 0, scores.gather(1, items.clamp(min=0)), torch.nan
    )  # what stands in padding is nothing
    settings = {"metrics": RANKED, "top_k": [1, 5], "train": train, **make_labels(12, 20)}
    expected = weft.evaluate(
        scores,
        {user: dict.fromkeys(row, 1) for user, row in enumerate(truth)},
        candidates=dict(enumerate(candidates)),
        **settings,
        **BY_POSITION,
    )
    dense = torch.zeros(12, 20)
    for user, row in enumerate(truth):
        dense[user, row] = 1
    for target in (truth, dense, dense.to_sparse()):
        evaluator = weft.Evaluator(num_users=12, num_items=20, **settings)
        for start in (0, 5):
            some = slice(start, 5 if start == 0 else 12)
            part = (
                target.to_dense()[some].to_sparse()
                if getattr(target, "is_sparse", False)
                else target[some]
            )
            evaluator.update(preds[some], part, torch.arange(12)[some], items=items[some])
        same(evaluator.compute(), expected)
    aligned = torch.where(items >= 0, dense.gather(1, items.clamp(min=0)), 0)
    evaluator = weft.Evaluator(["nDCG@5"], num_items=20)
    evaluator.update(preds, aligned, items=items)
    within = {
        user: [item for item in row if item in candidates[user]] for user, row in enumerate(truth)
    }
    given = {"candidates": dict(enumerate(candidates)), "metrics": "nDCG@5", **BY_POSITION}
    assert evaluator.compute()["nDCG@5"] == weft.evaluate(scores, within, **given)["nDCG@5"]


def test_evaluator_rejects_wrong_candidates():
    preds, items = torch.rand(2, 2), torch.tensor([[0, 3], [1, -1]])
    evaluator = weft.Evaluator(["MRR@1"], num_items=4)
    for wrong, message in (
        (items[:, :1], r"items has shape \[2, 1\], but preds has shape \[2, 2\]"),
        (items.float(), "items has the type torch.float32; expected integer item numbers"),
        (items + 1, "items has 4; item numbers range from 0 to 3"),
        (items - 2, "items has -2; item numbers range from 0 to 3"),
        (torch.zeros(2, 2, dtype=torch.int64), "a row of items has the same item twice"),
    ):
        with pytest.raises(InputError, match=message):
            evaluator.update(preds, [[0], [1]], items=wrong)
    with pytest.raises(InputError, match="target has a rating where items is -1"):
        evaluator.update(preds, torch.ones(2, 2), items=items)
    with pytest.raises(InputError, match="the scores contain NaN, first in row 0, column 3"):
        evaluator.update(torch.tensor([[0.0, torch.nan], [0.0, 0.0]]), [[0], [1]], items=items)
    with pytest.raises(InputError, match="give the Evaluator num_items="):
        weft.Evaluator(["MRR@1"]).update(preds, [[0], [1]], items=items)
    assert evaluator.compute().counts["users"] == 0


# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"candidates": "cold"}, MissingInput, "candidates='cold' needs train="),
        ({"candidates": "clod"}, SettingError, "and there is no such file.*Did you mean 'cold'"),
        ({"candidates": None}, SettingError, "candidates=None is not known"),
        ({"candidates": "nowhere.csv"}, InputError, "nowhere.csv"),
        ({"candidates": 3}, InputError, "candidates is an int; expected a path"),
        (
            {"candidates": {0: [9]}},
            InputError,
            "candidates has items that are not in the catalogue of 4 items",
        ),
        ({"candidates": {"0": [1]}}, InputError, "candidates has strings .* as user ids"),
        (
            {"candidates": "listed"},
            SettingError,
            "candidates='listed' applies to recommendation lists",
        ),
        (
            {"num_negatives": 9},
            SettingError,
            "num_negatives=9 applies to sampled negatives, but strategy='full'",
        ),
        (
            {"negative_sampling": "uniform"},
            SettingError,
            "negative_sampling='uniform' applies to sampled negatives",
        ),
        ({"neg_alpha": 0.5}, SettingError, "neg_alpha=0.5 applies to sampled negatives"),
        (
            {"candidates": GIVEN, "strategy": "sampled", "num_negatives": 9},
            SettingError,
            "but candidates= gives the candidates",
        ),
        (
            {"strategy": "smapled"},
            SettingError,
            "strategy='smapled' is not known.*Did you mean 'sampled'",
        ),
        (
            {"strategy": "sampled", "num_negatives": 0},
            SettingError,
            "num_negatives=0; it must be an integer of at least 1",
        ),
        (
            {"strategy": "sampled", "negative_sampling": "popular"},
            SettingError,
            "Did you mean 'popularity'",
        ),
        (
            {"strategy": "sampled", "negative_sampling": "popularity"},
            MissingInput,
            "needs train=, whose interactions are counted",
        ),
        (
            {"strategy": "sampled", "neg_alpha": 1},
            SettingError,
            "neg_alpha=1 applies to negative_sampling='popularity'",
        ),
    ],
)
def test_rejects_conflicting_settings(settings, error, message):
    with pytest.raises(error, match=message):
        of(**settings)


def test_rejects_candidates_that_lists_cannot_have():
    lists = {0: {1: 0.5, 2: 0.25}, 1: {0: 0.5}}
    with pytest.raises(MissingInput, match="AUC needs the scores of all items"):
        of(lists, candidates=GIVEN, metrics="AUC")
    with pytest.raises(MissingInput, match="AUC needs scores, which these lists do not have"):
        of({0: [1, 2]}, candidates="listed", metrics="AUC")
    with pytest.raises(SettingError, match="there are no negatives to sample"):
        of(lists, candidates="listed", strategy="sampled")
    with pytest.raises(SettingError, match="neg_alpha=-1; it must be a number of at least 0"):
        of(strategy="sampled", negative_sampling="popularity", neg_alpha=-1, train={0: [1]})


def test_listed_items_are_ordered_by_rank():
    """Ranks rule over scores: AUC goes by the order that was given."""
    frame = pl.DataFrame(
        {"user": [0] * 4, "item": [0, 1, 2, 3], "rank": [1, 2, 3, 4], "score": [1.0, 1.0, 2.0, 1.0]}
    )
    result = of(frame, {0: [1]}, candidates="listed", metrics=["AUC", "GAUC"], top_k=None)
    assert result["AUC"] == result["GAUC"] == pytest.approx(2 / 3)


def test_candidates_extend_the_catalogue_of_lists():
    lists = {"a": {"x": 2.0, "y": 1.0}}
    result = of(
        lists, {"a": ["y"]}, candidates={"a": ["y", "z"]}, metrics=["MRR@1", "LAUC@1"], top_k=None
    )
    assert result.counts["items"] == 3 and result["MRR@1"] == 1 and result["LAUC@1"] == 1
    assert result.counts["candidates_not_listed"] == 1
    assert any("1 of 2 candidates is in no list" in note for note in result.notes)

"""Tie rules against the oracle and brute force, and their properties."""

import itertools
import math
import re
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import chisquare
from sklearn.metrics import ndcg_score

import weft
from metric_cases import BUILT_IN, BY_POSITION, VARIANTS, has_trait
from oracles import tied_groups
from test_accuracy import METRICS, SPECS, Problem, check, close, problems, quick, tables, text
from weft.batch.negatives_above import count_negatives_above
from weft.data.targets import read_target
from weft.metrics.accuracy import partial_ranking
from weft.metrics.base.formulas import UserMeanMetric
from weft.metrics.names import parse_name
from weft.metrics.registry import find_metric, needs_cutoff
from weft.ranking import TIE_RULES, MaskedScores, TieRule

# A further hit lowers none of these, as it may the mean precision over the hits.
FALLING = ("FallOut", "Judged", "RBPResidual", "infAP")
RISING = [spec for spec in SPECS if spec[0] not in ("AUC", *FALLING) and "hits" not in str(spec)]
# Metrics for which ties are averaged (F1: those of its components); for others they are drawn.
AVERAGED = [name for name in METRICS if name == "F1" or find_metric(name).has_expected_tie_form]
AVERAGED_SPECS = [spec for spec in SPECS if spec[0] in AVERAGED]
DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@st.composite
def tied_problems(draw):
    """Two users, at most seven items, two or three scores; not too many orders for brute force."""
    num_items = draw(st.integers(1, 7))
    levels = draw(
        st.sampled_from([(0.0, 1.0), (0.0, -0.0, 1.0), (0.5, 1.0, 2.0), (0.0, 1.0, -math.inf)])
    )
    rows = torch.from_numpy(draw(tables(2, num_items, st.sampled_from(levels)))).to(
        draw(st.sampled_from(DTYPES))
    )
    rated = draw(
        tables(2, num_items, st.sampled_from([math.nan, math.nan, 0.0, 1.0, 2.0, 5.0]))
    ).tolist()
    truth = {
        user: {item: r for item, r in enumerate(row) if r == r} for user, row in zip("ab", rated)
    }
    assume(any(truth.values()))
    problem = Problem(rows, ("a", "b"), truth)
    groups = [tied_groups(case) for case in problem.cases().values()]
    assume(
        all(math.prod(math.factorial(len(group)) for group in of_user) <= 750 for of_user in groups)
    )
    return problem


cutoffs = st.integers(1, 8)


@pytest.mark.parametrize("ties", ["index", "pessimistic", "optimistic"])
@quick(7)
@given(problem=problems(tied=True), k=cutoffs)
def test_sorting_rules_match_the_oracle(ties, problem, k):
    check(problem, SPECS, [k], ties=ties, batch_size=7)


@pytest.mark.slow
@pytest.mark.parametrize("metric", AVERAGED)
@quick(15)
@given(problem=tied_problems(), k=cutoffs)
def test_expected_matches_all_orders(metric, problem, k):
    check(
        problem, [(metric, params) for params in METRICS[metric]], sorted({k, 3}), ties="expected"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "wanted", [{6: 1.0}, {0: 2.0, 3: 1.0, 4: 5.0}, dict.fromkeys(range(6), 1.0)], ids=len
)
def test_expected_where_everything_ties(wanted):
    problem = Problem(torch.zeros(1, 7), ("a",), {"a": wanted})
    specs = [
        ("MAP", {}),
        ("MAP", {"normalizer": "hits"}),
        ("MRR", {}),
        ("nDCG", {}),
        ("LAUC", {}),
        ("LAUC", {"completion": "none"}),
    ]
    check(problem, specs, [3], ties="expected")


# Of F1 the components are averaged, and of other means of ranks the rank, not the value; ROC curves
# are straight lines over ties.
OF_ALL_ORDERS = [
    name
    for name in BUILT_IN + VARIANTS
    if issubclass(find_metric(parse_name(name).name), UserMeanMetric)
    and has_trait(name, "has_expected_tie_form")
    and has_trait(name, "is_user_mean")
    and has_trait(name, "family") != "rating"
    and not name.startswith(("F1", "GAUC(max_fpr", "MeanRank("))
]


@pytest.mark.parametrize("name", OF_ALL_ORDERS)
def test_expected_is_the_mean_of_all_orders(name):
    """Two groups of ties, one of them with a judged item that is not relevant."""
    rated = {0: 2, 1: 0, 3: 1, 4: 3}
    orders = [
        [*first, *second]
        for first in itertools.permutations([4.0, 5.0, 6.0])
        for second in itertools.permutations([1.0, 2.0])
    ]
    settings = {
        "metrics": name,
        "top_k": [1, 2, 3, 4, 9] if needs_cutoff(parse_name(name).name) else None,
        "per_user": True,
        "mask_seen": False,
        "item_features": [["x"], ["x"], ["y"], ["x", "y"], ["z"]],
        **BY_POSITION,
    }
    train = torch.tensor([[4, 3, 2, 1, 0]])  # for metrics that need it; others ignore it
    every = weft.evaluate(
        torch.tensor(orders),
        dict.fromkeys(range(len(orders)), rated),
        ties="index",
        train=train.expand(len(orders), -1),
        **settings,
    )
    tied = torch.tensor([[1.0, 1.0, 1.0, 0.0, 0.0]])
    expected = weft.evaluate(tied, {0: rated}, ties="expected", train=train, **settings)
    for value in expected.entries:
        mean = every.per_user[value.name].mean()
        assert value.value == pytest.approx(mean, abs=1e-12), value.name


@pytest.mark.parametrize("ties", TIE_RULES)
def test_first_negatives_are_averaged_over_the_orders_of_ties(ties):
    """Of two relevant items and two negatives, all tied, one of the first is first in half of the
    orders; a relevant item is above both negatives in a third, above one in another third.
    """
    result = weft.evaluate(
        torch.zeros(1, 4), {0: [0, 1]}, metrics=["PartialAUC", "PAP"], top_k=[1, 2], ties=ties
    )
    assert result["PAP@1"] == pytest.approx(1 / 2)
    assert result["PartialAUC@1"] == pytest.approx(1 / 3)
    assert result["PAP@2"] == result["PartialAUC@2"] == pytest.approx(1 / 2)


@pytest.mark.parametrize("levels", [2, 10, 60, 10**6])
@pytest.mark.parametrize("share", [0.04, 0.2, 0.7])
def test_first_negatives_match_those_among_all_scores(levels, share, monkeypatch):
    """Lists are cut in ties or hold more relevant items than k, at small and large cut-offs."""
    random = np.random.default_rng(levels)
    scores = torch.from_numpy(random.integers(0, levels, (60, 50)) / 8.0)
    scores[torch.from_numpy(random.random((60, 50)) < 0.1)] = -torch.inf
    target, train = (torch.from_numpy(random.random((60, 50)) < part) for part in (share, 0.2))
    names = [
        f"{name}(insufficient={how})"
        for name in ("PAP", "PartialAUC")
        for how in ("ignore", "exclude")
    ]

    def evaluate(cutoffs):
        options = {"metrics": names, "top_k": cutoffs, "per_user": True}
        return weft.evaluate(scores, target.int(), train=train.int(), **options).per_user

    few, many = evaluate([1, 2, 5]), evaluate([1, 2, 5, 24, 60])
    monkeypatch.setattr(
        partial_ranking,
        "count_first_negatives_above",
        lambda batch, k: count_negatives_above(batch),
    )
    exact = evaluate([1, 2, 5, 24, 60])
    for name in exact.columns[1:]:
        for found in (few, many) if name in few.columns else (many,):
            np.testing.assert_allclose(found[name], exact[name], rtol=0, atol=1e-12, err_msg=name)
    assert exact["PAP@5"].n_unique() > 5


@pytest.mark.parametrize("size", [50, 3000])
def test_expected_of_large_ties(size):
    """All items tie, h of them are relevant: hits are h k / n, the first k all miss with a
    hypergeometric chance.
    """
    hits, k = size // 10, 20
    names = ["Recall", "HitRate", "MAP(normalizer=relevant)", "MAP(normalizer=hits)"]
    result = weft.evaluate(
        torch.zeros(1, size), {0: list(range(hits))}, metrics=names, top_k=k, ties="expected"
    )
    missed = math.comb(size - hits, k) / math.comb(size, k)
    # A hit at p has (p - 1) (h - 1) / (n - 1) hits before it.
    precisions = [
        hits / size * (1 + (p - 1) * (hits - 1) / (size - 1)) / p for p in range(1, k + 1)
    ]
    chances = [
        math.comb(hits, h) * math.comb(size - hits, k - h) / math.comb(size, k)
        for h in range(k + 1)
    ]
    # Given h hits among the first k places: a hit at p has (p - 1) (h - 1) / (k - 1) before it.
    per_hit = [
        sum(1 / k * (1 + (p - 1) * (h - 1) / (k - 1)) / p for p in range(1, k + 1)) if h else 0.0
        for h in range(k + 1)
    ]
    wanted = [
        k / size,
        1 - missed,
        sum(precisions) / hits,
        math.fsum(c * x for c, x in zip(chances, per_hit)),
    ]
    assert [result[f"{name}@{k}"] for name in names] == close(wanted)


# --------------------------------------------------------------------------------------------------


def users_and_items(ids):
    users, items = list(range(40, 0, -1)), list(range(100, 112))
    return (
        (users, items)
        if ids == "integers"
        else ([f"user {u}" for u in users], [f"item {i}" for i in items])
    )


@pytest.mark.parametrize("ties", ["random", "expected"])
@pytest.mark.parametrize("ids", ["strings", "integers"])
def test_random_order_depends_only_on_seed_user_and_item(ids, ties):
    rng = np.random.default_rng(0)
    scores = rng.integers(0, 3, (40, 12)).astype(np.float32)
    users, items = users_and_items(ids)
    truth = {
        user: {items[item]: 1 + item % 3 for item in rng.choice(12, 3, replace=False)}
        for user in users
    }

    def table(rows, columns, **how):
        named = {
            "users": [users[row] for row in rows],
            "items": [items[column] for column in columns],
        }
        result = weft.evaluate(
            scores[np.ix_(rows, columns)],
            truth,
            metrics=["nDCG", "MRR"],
            top_k=[3, 12],
            ties=ties,
            per_user=True,
            **named,
            **how,
        )
        return {row[0]: row[1:] for row in result.per_user.iter_rows()}

    torch.set_warn_always(
        True
    )  # else PyTorch warns once per process, and only the first test would see it
    try:
        base = {user: close(values) for user, values in table(range(40), range(12)).items()}
        for batch_size in (1, 7, None):
            assert table(rng.permutation(40), rng.permutation(12), batch_size=batch_size) == base
        assert table(range(40), range(12), seed=0) == base
        assert (table(range(40), range(12), seed=1) == base) is (ties == "expected")
    finally:
        torch.set_warn_always(False)


@pytest.mark.parametrize(("depth", "num_items"), [(4, 4), (2, 5), (1, 7), (6, 3)])
@pytest.mark.parametrize("over", ["users", "seeds"])
def test_random_orders_are_equally_likely(over, depth, num_items):
    lists = min(depth, num_items)
    possible = math.perm(num_items, lists)
    repetitions = 40 * possible
    keys = torch.arange(repetitions if over == "users" else 1)
    none = read_target([[]] * len(keys), len(keys), num_items=num_items, device=torch.device("cpu"))
    seeds = range(1 if over == "users" else repetitions)
    drawn = [
        TieRule("random", seed)
        .rank(MaskedScores(torch.zeros(len(keys), num_items)), depth, user_keys=keys, relevant=none)
        .items
        for seed in seeds
    ]
    counts = Counter(tuple(row) for row in torch.cat(drawn)[:, :lists].tolist())
    assert len(counts) == possible and all(len(set(row)) == lists for row in counts)
    assert chisquare(list(counts.values())).pvalue > 1e-3


def test_random_approaches_expected():
    """Three rows with ties, each for 400 users under 8 seeds. F1 of expected parts is not an
    expected F1.
    """
    rng = np.random.default_rng(1)
    specs = [spec for spec in AVERAGED_SPECS if spec[0] not in ("F1", "AUC")]
    rows = torch.from_numpy(rng.integers(0, 2, (3, 9)).astype(np.float64)).repeat(400, 1)
    likes = [
        {int(item): float(rng.integers(1, 4)) for item in rng.choice(9, count, replace=False)}
        for count in (1, 2, 4)
    ]
    problem = Problem(
        rows, tuple(map(str, range(1200))), {str(user): likes[user % 3] for user in range(1200)}
    )
    expected = problem.run(specs, [1, 4, 9], ties="expected")
    drawn = [problem.run(specs, [1, 4, 9], ties="random", seed=seed) for seed in range(8)]
    for number, value in enumerate(expected.entries):
        found = [result.entries[number] for result in drawn]
        error = math.sqrt(sum(one.std_error**2 for one in found)) / 8
        assert np.mean([one.value for one in found]) == pytest.approx(
            value.value, rel=0, abs=4 * error + 1e-9
        ), value.name


# -------------------------------------------------------------------------------------------------


@pytest.mark.slow
@quick(6)
@given(problem=problems(tied=True), k=cutoffs)
def test_every_rule_lies_between_the_bounds(problem, k):
    tables = {
        ties: problem.run(RISING, [k], ties=ties).per_user.drop("user").to_numpy()
        for ties in TIE_RULES
    }
    for ties in TIE_RULES:
        defined = ~np.isnan(tables[ties])
        assert np.array_equal(defined, ~np.isnan(tables["index"]))
        assert (tables["pessimistic"] <= tables[ties] + 1e-9)[defined].all()
        assert (tables[ties] <= tables["optimistic"] + 1e-9)[defined].all()


@quick(10)
@given(problem=problems(tied=True))
def test_auc_does_not_depend_on_the_rule(problem):
    specs = [spec for spec in SPECS if spec[0] in ("AUC", "GAUC")]
    runs = [
        [value.value for value in problem.run(specs, (), ties=ties).entries] for ties in TIE_RULES
    ]
    assert all(run == pytest.approx(runs[0], rel=0, abs=0, nan_ok=True) for run in runs)


@pytest.mark.parametrize("ties", TIE_RULES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_auc_of_constant_scores_is_one_half(dtype, ties):
    problem = Problem(
        torch.full((3, 5), 0.1, dtype=dtype),
        ("a", "b", "c"),
        {"a": {0: 1.0}, "b": {4: 1.0, 1: 2.0}, "c": {2: 1.0}},
    )
    result = problem.run([spec for spec in SPECS if spec[0] in ("AUC", "GAUC")], (), ties=ties)
    assert len(result.entries) == 7
    assert [value.value for value in result.entries] == close([0.5] * 7)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("k", [1, 3, 10, 30])
def test_tied_ndcg_matches_scikit_learn(k, dtype):
    rng = np.random.default_rng(k)
    scores = rng.integers(-2, 3, (50, 20)).astype(dtype)
    truth = rng.integers(0, 5, (50, 20)) * (rng.random((50, 20)) < 0.3)
    truth[:3] = 0  # scikit-learn counts users without a relevant item as 0
    name = f"nDCG(gain=linear)@{k}"
    result = weft.evaluate(
        scores, truth, metrics=name, ties="expected", empty_users="zero", per_user=True
    )
    assert result[name] == close(ndcg_score(truth, scores, k=k, ignore_ties=False))
    rows = [ndcg_score(truth[[row]], scores[[row]], k=k, ignore_ties=False) for row in range(50)]
    assert result.per_user[name].to_list() == close(rows)


def test_expected_does_not_depend_on_the_position_of_the_target():
    """A constant model, one target, ten items: the target's place decides under "index", and under
    "expected" nothing does.
    """
    names = [text(*spec) for spec in AVERAGED_SPECS if spec[0] != "AUC"]
    runs = [
        weft.evaluate(
            torch.ones(1, 10), {0: [item]}, metrics=names, top_k=3, ties="expected", **BY_POSITION
        )
        for item in range(10)
    ]
    assert all(
        [value.value for value in run.entries] == close([value.value for value in runs[0].entries])
        for run in runs
    )
    assert runs[0]["HitRate@3"] == close(3 / 10) and runs[0]["MRR@3"] == close(
        (1 + 1 / 2 + 1 / 3) / 10
    )
    assert runs[0]["LAUC@3"] == close(1 / 2)
    first = weft.evaluate(torch.ones(1, 10), {0: [0]}, metrics="HitRate@3")
    last = weft.evaluate(torch.ones(1, 10), {0: [9]}, metrics="HitRate@3", **BY_POSITION)
    assert (first["HitRate@3"], last["HitRate@3"]) == (1, 0)
    for item in (0, 9):
        drawn = weft.evaluate(
            torch.ones(4000, 10),
            {user: [item] for user in range(4000)},
            metrics="HitRate@3",
            ties="random",
            **BY_POSITION,
        )
        assert drawn["HitRate@3"] == pytest.approx(0.3, abs=4 * math.sqrt(0.3 * 0.7 / 4000))


@quick(10)
@given(problem=problems(tied=True), k=cutoffs, data=st.data())
def test_expected_does_not_depend_on_item_order(problem, k, data):
    columns = data.draw(st.permutations(range(problem.scores.shape[1])))
    new = {old: place for place, old in enumerate(columns)}
    truth = {
        user: {new[item]: rating for item, rating in row.items()}
        for user, row in problem.truth.items()
    }
    train = problem.train and {
        user: [new[item] for item in row] for user, row in problem.train.items()
    }
    moved = Problem(
        problem.scores[:, list(columns)], problem.users, truth, train, problem.threshold
    )
    here, there = (one.run(AVERAGED_SPECS, [k], ties="expected") for one in (problem, moved))
    assert [value.value for value in here.entries] == close(
        [value.value for value in there.entries]
    )


@quick(15)
@given(
    problem=problems(tied=True),
    ks=st.lists(cutoffs, min_size=1, max_size=3, unique=True),
    ties=st.sampled_from(TIE_RULES),
)
def test_counts_and_notes_ties_at_the_cutoff(problem, ks, ties):
    result = problem.run([("MRR", {})], ks, ties=ties, batch_size=7)
    for k in ks:
        rows = [
            sorted((score for score in case.scores or () if score > -math.inf), reverse=True)
            for case in problem.cases().values()
        ]
        tied = sum(len(row) > k and row[k - 1] == row[k] for row in rows)
        assert result.counts[f"ties@{k}"] == tied
        shown = [
            int(users)
            for note in result.notes
            if "tie rule" in note
            for users in re.findall(
                rf"(\d+)(?: users? ha(?:s|ve) equal scores at positions| at) {k} and {k + 1}[,:]",
                note,
            )
        ]
        assert shown == [tied] * (tied > 0)
    assert sum("equal scores at positions" in note for note in result.notes) <= 1


@pytest.mark.parametrize("ties", TIE_RULES)
@pytest.mark.parametrize("dtype", DTYPES)
def test_minus_zero_ties_with_zero(dtype, ties):
    signs = torch.tensor(list(itertools.product([0.0, -0.0], repeat=5)), dtype=dtype)
    rows = torch.cat(
        [signs, torch.full((32, 2), 1.0, dtype=dtype), torch.full((32, 1), -1.0, dtype=dtype)],
        dim=1,
    )
    users = tuple(f"user {row}" for row in range(32))
    truth = {user: {row % 5: 2.0, 3: 1.0, 6: 1.0} for row, user in enumerate(users)}
    signed, plain = (
        Problem(scores, users, truth).run(SPECS, [1, 3, 4], ties=ties)
        for scores in (rows, rows + 0.0)
    )
    assert rows.signbit().sum() == 32 + 80 and (rows + 0.0).signbit().sum() == 32
    for mine, other in zip(signed.entries, plain.entries):
        assert mine.value == close(other.value), mine.name
    assert signed.counts["ties@3"] == 32 and signed.counts["ties@1"] == 32

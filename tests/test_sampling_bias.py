"""Rank estimators, expectations of sampled metrics, and identification of orders of models."""

import itertools
import math
from functools import cache

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import hypergeom

import weft
from test_accuracy import quick
from weft.batch.batch import BatchInputs
from weft.data import BatchLists
from weft.data.tensors import SparseRows
from weft.errors import InputError, SettingError
from weft.evaluation.sampling_settings import rank_estimator
from weft.evaluation.settings import EvaluationSettings
from weft.ranking import SampleSizes, estimate_ranks, estimate_weights
from weft.ranking.rank_estimator import RankEstimator
from weft.sampling import deviation, exact, expected, is_identified, is_identified_from_sample

# --------------------------------------------------------------------------------------------------


@cache
def chances(E, m):
    """h(x | a), [E + 1, m + 1]."""
    return np.array([hypergeom.pmf(np.arange(m + 1), E, a, m) for a in range(E + 1)]).reshape(
        E + 1, m + 1
    )


@cache
def dense_weights(E, m, gamma):
    """The least squares that the estimator solves, as they are written: for every f that is 1 at
    one a, [m + 1, E + 1].
    """
    prior = 1 / (E + 1)
    A = math.sqrt(prior) * chances(E, m)
    c = prior * chances(E, m).sum(0)
    return np.linalg.solve((1 - gamma) * A.T @ A + gamma * np.diag(c), A.T * math.sqrt(prior))


def positions(correction, places, E, m):
    """For each relevant item, best first, {position from 1: weight} from its place (from 1) among
    the candidates.
    """
    found = []
    for j, place in enumerate(sorted(places), start=1):
        x = place - j
        if m == E:
            found.append({place: 1.0})
        elif m == 0:
            found.append({})
        elif correction.method == "rank_estimate":
            found.append({math.floor(x * E / m + 0.5 + 1e-12) + j: 1.0})
        else:
            found.append({a + j: w for a, w in enumerate(dense_weights(E, m, correction.gamma)[x])})
    return found


def values_of(weights, gains, ideal, R, k):
    """Each corrected metric of a user, from the weights of the items and their gains (both best
    placed first).
    """

    def total(of, chosen=None):
        return sum(
            w * of(j, p)
            for j, at in enumerate(weights, 1)
            for p, w in at.items()
            if p <= k and chosen in (None, j)
        )

    hits = total(lambda j, p: 1)
    return {
        "Precision": hits / k,
        "Recall": hits / R,
        "Recall(normalizer=capped)": hits / min(R, k),
        "HitRate": total(lambda j, p: 1, chosen=1),
        "MRR": total(lambda j, p: 1 / p, chosen=1),
        "MAP": total(lambda j, p: j / p) / min(R, k),
        "MAP(normalizer=relevant)": total(lambda j, p: j / p) / R,
        "MAP(normalizer=k)": total(lambda j, p: j / p) / k,
        "MAR": total(lambda j, p: j) / R / min(R, k),
        "RPrecision": total(lambda j, p: p <= R) / R,
        "RPrecision(multiple=0.5)": total(lambda j, p: p <= int(R / 2 + 0.9)) / int(R / 2 + 0.9),
        "RBP(p=0.5)": total(lambda j, p: 0.5**p),
        "RBP(p=0.5, relevance=graded)": total(lambda j, p: gains[j - 1] * 0.5**p),
        "DCG(gain=linear)": total(lambda j, p: gains[j - 1] / math.log2(p + 1)),
        "NCRR": total(lambda j, p: 1 / p) / sum(1 / p for p in range(1, min(R, k) + 1)),
        "nDCG(gain=linear)": total(lambda j, p: gains[j - 1] / math.log2(p + 1))
        / sum(g / math.log2(p + 1) for p, g in enumerate(sorted(ideal, reverse=True)[:k], 1)),
        "nDCGRendle2020": total(lambda j, p: 1 / math.log2(p + 1))
        / sum(1 / math.log2(p + 1) for p in range(1, min(R, k) + 1)),
        "F1": 0.0
        if hits == 0
        else 2 * hits / (k + R),  # of Precision and Recall, which share their hits
    }


# --------------------------------------------------------------------------------------------------


def rows_of(rated, num_items):
    """The truth of a batch, from {item: rating} of each user."""
    offsets = torch.tensor([0, *itertools.accumulate(map(len, rated))])
    cells = [(item, float(user[item])) for user in rated for item in sorted(user)]
    items, values = (torch.tensor([cell[n] for cell in cells]) for n in (0, 1))
    return SparseRows(offsets, items.long(), values.double(), num_items)


def lists_of(ranked, num_items, scores=None):
    """Candidates of a batch, best first."""
    offsets = torch.tensor([0, *itertools.accumulate(map(len, ranked))])
    items = torch.tensor([item for user in ranked for item in user]).long()
    return BatchLists(offsets, items, scores, num_items, is_order_given=scores is None)


def options_of(estimator):
    """The settings of an estimator."""
    if estimator is None:
        return {}
    gamma = {"gamma": estimator.gamma} if estimator.method == "bias_variance" else {}
    return {"estimator": estimator.method, **gamma}


def evaluate(users, correction, metrics, cutoffs, num_items, **settings):
    """A pass over users, each (candidates best first, {item: rating}, drawn, eligible)."""
    evaluator = weft.Evaluator(
        metrics, cutoffs, num_items=num_items, per_user=True, **options_of(correction), **settings
    )
    for start in range(0, len(users), 3):
        ranked, rated, drawn, eligible = zip(*users[start : start + 3])
        pools = SampleSizes(torch.tensor(drawn), torch.tensor(eligible))
        numbers = torch.arange(start, start + len(ranked))
        lists, truth = lists_of(ranked, num_items), rows_of(rated, num_items)
        evaluator.add(BatchInputs(lists, truth, numbers, sample_sizes=pools))
    return evaluator.compute()


@st.composite
def sampled_users(draw):
    """Up to seven users of one catalogue, with their own numbers of relevant, eligible and drawn
    items.
    """
    users = []
    for _ in range(draw(st.integers(1, 7))):
        eligible = draw(st.integers(0, 16))
        drawn = draw(st.one_of(st.just(eligible), st.integers(0, eligible)))
        relevant = draw(st.integers(1, 4))
        offered = draw(st.integers(0, relevant)) if draw(st.booleans()) else relevant
        candidates = draw(st.permutations([*range(offered), *range(10, 10 + drawn)]))
        users.append(
            (
                candidates,
                {item: draw(st.sampled_from([1, 2, 5])) for item in range(relevant)},
                drawn,
                eligible,
            )
        )
    return users


CORRECTIONS = [
    RankEstimator("rank_estimate"),
    RankEstimator("bias_variance"),
    RankEstimator("bias_variance", 0.6),
]


@pytest.mark.parametrize("correction", CORRECTIONS, ids=str)
@quick(25)
@given(users=sampled_users(), cutoffs=st.sampled_from([(1,), (3, 7), (2, 40)]))
def test_estimates_match_the_oracle(correction, users, cutoffs):
    names = list(values_of([{1: 1.0}], [1.0], [1.0], 1, 1))
    result = evaluate(users, correction, [f"{name}@{k}" for name in names for k in cutoffs], (), 30)
    for user, (candidates, rated, drawn, eligible) in enumerate(users):
        found = [(place, rated[item]) for place, item in enumerate(candidates, 1) if item in rated]
        weights = positions(correction, [place for place, _ in found], eligible, drawn)
        for k in cutoffs:
            wanted = values_of(
                weights, [gain for _, gain in found], list(rated.values()), len(rated), k
            )
            got = result.per_user.row(user, named=True)
            for name in names:
                assert got[weft.metrics.registry.canonical_name(f"{name}@{k}")] == pytest.approx(
                    wanted[name], abs=1e-9
                ), (name, k)


@quick(25)
@given(users=sampled_users(), data=st.data())
def test_estimates_from_all_negatives_are_exact(users, data):
    users = [(candidates, rated, drawn, drawn) for candidates, rated, drawn, _ in users]
    names = [
        "nDCG",
        "MAP",
        "MRR",
        "Precision",
        "HitRate",
        "MAR",
        "F1(metric_name_1=nDCG, metric_name_2=MAP)",
    ]
    correction = data.draw(st.sampled_from(CORRECTIONS))
    plain, corrected = (evaluate(users, how, names, [1, 5], 30) for how in (None, correction))
    for value in plain.entries:
        assert corrected[value.name] == pytest.approx(value.value, abs=1e-12)


# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("E", "m"), [(7, 3), (12, 12), (20, 5), (30, 29), (15, 1), (60, 20), (1, 1), (90, 40)]
)
@pytest.mark.parametrize("gamma", [0.001, 0.1, 0.3, 1.0])
@pytest.mark.parametrize("depth", [1, 9, 130])
def test_closed_form_solves_the_least_squares(E, m, gamma, depth):
    x = torch.arange(m + 1)
    got = estimate_weights(
        x, torch.full_like(x, m), torch.full_like(x, E), gamma=gamma, depth=depth
    ).numpy()
    wanted = np.zeros((m + 1, max(depth, E + 1)))
    wanted[:, : E + 1] = dense_weights(E, m, gamma)
    np.testing.assert_allclose(got, wanted[:, :depth], atol=1e-9)
    assert (got[:, E + 1 :] == 0).all()


def test_pools_together_match_each_alone():
    rng = np.random.default_rng(1)
    E = torch.from_numpy(rng.integers(20, 60, 200))
    m = torch.minimum(E, torch.from_numpy(rng.choice([5, 20, 30], 200)))
    x = torch.from_numpy(rng.integers(0, m.numpy() + 1))
    together = estimate_weights(x, m, E, gamma=0.2, depth=12)
    for row in range(0, 200, 7):
        one = slice(row, row + 1)
        torch.testing.assert_close(
            together[one], estimate_weights(x[one], m[one], E[one], gamma=0.2, depth=12)
        )


@pytest.mark.parametrize("gamma", [0.05, 0.4])
def test_estimator_minimizes_bias_and_variance(gamma):
    E, m, k = 40, 9, 10
    f = np.array([1 / math.log2(a + 2) if a < k else 0.0 for a in range(E + 1)])
    x = torch.arange(m + 1)
    best = (
        estimate_weights(
            x, torch.full_like(x, m), torch.full_like(x, E), gamma=gamma, depth=k
        ).numpy()
        @ f[:k]
    )

    def cost(estimate):
        mean = chances(E, m) @ estimate
        variance = chances(E, m) @ estimate**2 - mean**2
        return ((mean - f) ** 2 + gamma * variance).sum()

    rng = np.random.default_rng(0)
    assert all(cost(best + change) > cost(best) for change in rng.normal(0, 0.01, (50, m + 1)))


def test_smaller_gamma_has_less_bias_and_more_variance():
    ranks, about = [3, 8, 20, 50], {"num_items": 200, "num_negatives": 40, "metrics": "Recall@10"}
    true = exact(ranks, num_items=200, metrics="Recall@10")["Recall@10"]
    runs = [{"estimator": "bias_variance", "gamma": gamma} for gamma in (1.0, 0.1, 0.01, 0.001)]
    bias = [abs(expected(ranks, **about, **run)["Recall@10"] - true) for run in runs]
    spread = [deviation(ranks, **about, **run)["Recall@10"] for run in runs]
    assert bias == sorted(bias, reverse=True) and spread == sorted(spread)


def test_rank_estimates_are_unbiased_except_for_rounding():
    E, m = 37, 8
    for a in range(E + 1):
        assert chances(E, m)[a] @ (np.arange(m + 1) * E / m) == pytest.approx(a)
    x, whole = torch.arange(5), torch.full((5,), 4)
    assert estimate_ranks(x, whole, torch.full((5,), 10)).tolist() == [
        0,
        3,
        5,
        8,
        10,
    ]  # 2.5 and 7.5 go up


def test_rank_estimates_of_large_catalogues_are_exact_integers():
    x, m, E = torch.tensor([999]), torch.tensor([1000]), torch.tensor([10**9 + 1])
    assert int(estimate_ranks(x, m, E)) == (2 * 999 * (10**9 + 1) + 1000) // 2000


# --------------------------------------------------------------------------------------------------


def test_items_without_a_sample_have_no_estimate():
    users = [
        ([10, 11], {0: 1}, 2, 9),
        ([0], {0: 1}, 0, 9),
        ([0], {0: 1}, 0, 0),
    ]  # not offered; no sample; nothing to sample
    for correction in CORRECTIONS:
        result = evaluate(users, correction, ["HitRate", "nDCG"], [1], 30)
        assert result.per_user["HitRate@1"].to_list() == pytest.approx([0, 0, 1])
        assert result.per_user["nDCG@1"].to_list() == pytest.approx([0, 0, 1])


def test_users_without_candidates_count_zero():
    evaluator = weft.Evaluator("nDCG@2", num_items=5, **options_of(CORRECTIONS[1]))
    evaluator.add(BatchInputs(None, rows_of([{0: 1}, {}], 5), torch.arange(2)))
    assert evaluator.compute()["nDCG@2"] == 0


NOT_CORRECTED = [
    "LAUC",
    "MAP(normalizer=hits)",
    "Precision(denominator=list)",
    "ItemCoverage",
    "Gini",
]


@pytest.mark.parametrize("correction", CORRECTIONS, ids=str)
def test_notes_metrics_without_an_estimate(correction):
    users = [
        ([10, 0, 11, 1, 12], {0: 1, 1: 2}, 3, 14),
        ([0, 10, 11], {0: 1}, 2, 14),
        ([10, 11, 12, 0], {0: 1}, 3, 14),
    ]
    names = [*NOT_CORRECTED, "EucDistance(metric_names=[nDCG, LAUC], utopia_points=[1, 1])"]
    plain, corrected = (
        evaluate(users, how, [*names, "nDCG"], [3], 30) for how in (None, correction)
    )
    for name in NOT_CORRECTED:
        assert corrected[f"{name}@3"] == plain[f"{name}@3"]
    assert corrected["nDCG@3"] != plain["nDCG@3"]
    distance = math.hypot(corrected["nDCG@3"] - 1, corrected["LAUC@3"] - 1)
    assert corrected[f"{names[-1]}@3"] == pytest.approx(
        distance
    )  # a composite combines what its parts are
    (note,) = [note for note in corrected.notes if "does not apply to" in note]
    assert (
        note
        == f"the estimator {correction.method!r} does not apply to {', '.join(names)}: computed on "
        "the sampled candidates"
    )
    assert (
        f"nDCG is an estimate of the value of the full ranking (estimator {correction.method!r})"
        in corrected.notes
    )
    assert not any("estimator" in note for note in plain.notes)


def test_user_fairness_uses_the_estimates():
    users = [([10, 0, 11], {0: 1}, 2, 9), ([10, 11, 0], {0: 1}, 2, 9)]
    result = evaluate(
        users, CORRECTIONS[1], ["nDCG", "UserMADRanking"], [4], 30, user_groups=["F", "M"]
    )
    one, other = result.per_user["nDCG@4"]
    assert result["UserMADRanking@4"] == pytest.approx(abs(one - other)) and not any(
        "does not apply to" in note for note in result.notes
    )
    assert (
        "nDCG, UserMADRanking are estimates of the value of the full ranking (estimator "
        "'bias_variance')" in result.notes
    )


def test_subclasses_of_estimated_metrics_see_the_candidates():
    class OwnPrecision(weft.metrics.Precision):
        """Reads blocks."""

        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            return top_k_rel.sum(dim=1) / self.k

    users = [([10, 0, 11], {0: 1}, 2, 9)]
    result = evaluate(users, CORRECTIONS[1], [OwnPrecision(k=2)], [2], 30)
    assert result["OwnPrecision@2"] == 0.5 and any(
        "does not apply to OwnPrecision" in note for note in result.notes
    )


def test_draws_ties_and_notes_it():
    scores = torch.tensor([1.0, 1.0, 0.5], dtype=torch.float64)
    evaluator = weft.Evaluator(
        ["nDCG", "LAUC"], 2, num_items=20, ties="expected", **options_of(CORRECTIONS[0])
    )
    drawn = SampleSizes(torch.tensor([2]), torch.tensor([9]))
    lists, truth = lists_of([[0, 10, 11]], 20, scores), rows_of([{0: 1}], 20)
    evaluator.add(BatchInputs(lists, truth, torch.arange(1), sample_sizes=drawn))
    assert any(
        note.startswith("the tie rule 'expected' has no closed form for nDCG:")
        for note in evaluator.compute().notes
    )


def test_estimator_is_recorded_and_checked_by_merge():
    made = [
        weft.Evaluator("nDCG@2", **options_of(how))
        for how in (None, CORRECTIONS[0], CORRECTIONS[1], CORRECTIONS[2])
    ]
    recorded = [
        {name: one.compute().settings.get(name) for name in ("estimator", "gamma")} for one in made
    ]
    assert recorded == [
        {"estimator": None, "gamma": None},
        {"estimator": "rank_estimate", "gamma": None},
        {"estimator": "bias_variance", "gamma": 0.1},
        {"estimator": "bias_variance", "gamma": 0.6},
    ]
    with pytest.raises(SettingError, match="differ in"):
        made[2].merge(made[3])


def test_rejects_batches_without_sampled_negatives():
    evaluator = weft.Evaluator("nDCG@2", **options_of(CORRECTIONS[0]))
    with pytest.raises(
        SettingError,
        match="estimator='rank_estimate' needs uniformly sampled negatives",
    ):
        evaluator.update(torch.rand(2, 5), torch.eye(2, 5))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"estimator": "rank"},
            "estimator='rank' is not known. Choose one of 'rank_estimate', 'bias_variance'",
        ),
        (
            {"estimator": None, "gamma": 0.5},
            "gamma=0.5 is a parameter of estimator='bias_variance'",
        ),
        (
            {"estimator": "rank_estimate", "gamma": 0.5},
            "estimator='rank_estimate' has no such parameter",
        ),
        (
            {"estimator": "bias_variance", "gamma": 0},
            "gamma=0; it must be a number above 0 and at most 1",
        ),
        ({"estimator": "bias_variance", "gamma": 1.5}, "at most 1"),
        (
            {"estimator": "bias_variance", "gamma": "much"},
            "gamma='much'; it must be a number above 0 and at most 1",
        ),
        (
            {"estimator": "bias_variance", "strategy": "full"},
            "strategy='full' samples none; set strategy='sampled'",
        ),
        (
            {"estimator": "bias_variance", "candidates": "given"},
            "Remove the candidates or the estimator",
        ),
        (
            {"estimator": "bias_variance", "negative_sampling": "popularity"},
            "Set negative_sampling='uniform'",
        ),
    ],
)
def test_rejects_settings_without_an_estimate(settings, message):
    options = {"strategy": "sampled", **settings}
    with pytest.raises(SettingError) as error:
        EvaluationSettings.from_options(**options).resolve({"train", "candidates"})
    assert message in str(error.value)


def test_settings_choose_the_estimator():
    def chosen(**options):
        settings = EvaluationSettings.from_options(strategy="sampled", **options)
        return rank_estimator(settings.resolve(()))

    assert chosen() is None
    assert chosen(estimator="Rank_Estimate") == RankEstimator("rank_estimate")
    assert chosen(estimator="bias_variance") == RankEstimator("bias_variance", 0.1)
    assert chosen(estimator="bias_variance", gamma=1) == RankEstimator("bias_variance", 1.0)


def test_estimates_are_closer_to_the_full_value():
    """Two hundred users with one to three relevant items, thirty draws of 50 of 1,000 negatives."""
    rng, E, m, k = np.random.default_rng(0), 1000, 50, 20
    full = [
        sorted(rng.choice(np.minimum(rng.geometric(0.02, 9), E), rng.integers(1, 4), replace=False))
        for _ in range(200)
    ]
    true = exact(
        [np.array(above) + np.arange(1, len(above) + 1) for above in full],
        num_items=E + 3,
        metrics=f"nDCG@{k}",
    )
    means = {}
    for correction in (None, *CORRECTIONS[:2]):
        evaluator = weft.Evaluator(f"nDCG@{k}", num_items=E + 3, **options_of(correction))
        for seed in range(30):
            draws = np.random.default_rng(seed)
            users = []
            for above in full:
                negatives = np.sort(draws.choice(E, m, replace=False))
                places = [(int((negatives < a).sum()) - 0.5, item) for item, a in enumerate(above)]
                order = sorted(
                    [*places, *((n, 3 + int(negative)) for n, negative in enumerate(negatives))]
                )
                users.append([item for _, item in order])
            truth = rows_of([dict.fromkeys(range(len(above)), 1) for above in full], E + 3)
            pools = SampleSizes(torch.full((len(full),), m), torch.full((len(full),), E))
            lists, numbers = lists_of(users, E + 3), torch.arange(len(full))
            evaluator.add(BatchInputs(lists, truth, numbers, sample_sizes=pools))
        means[correction] = evaluator.compute()[f"nDCG@{k}"]
    off = {how: abs(value - true[f"nDCG@{k}"]) for how, value in means.items()}
    assert off[CORRECTIONS[1]] < 0.25 * off[None] and off[CORRECTIONS[0]] < 0.6 * off[None]


# --------------------------------------------------------------------------------------------------

PLAIN = ["Precision", "Recall", "HitRate", "MRR", "MAP", "MAR", "nDCG"]


def by_draws(ranks, num_items, m, metrics, replacement):
    """The mean and the standard deviation of each metric, over every draw for every user."""
    means, variances = [], []
    for of_user in ranks:
        negatives = [rank for rank in range(1, num_items + 1) if rank not in of_user]
        m_of_user = m if replacement or len(negatives) > m else len(negatives)
        draws = (
            itertools.product(negatives, repeat=m)
            if replacement
            else itertools.combinations(negatives, m_of_user)
        )
        values = cache(
            lambda places, size: list(exact([places], num_items=size, metrics=metrics).values())
        )
        seen = []
        for draw in draws:
            places = tuple(
                1 + sum(rank < own for rank in draw) + sum(rank < own for rank in of_user)
                for own in of_user
            )
            seen.append(values(places, m_of_user + len(of_user)))
        means.append(np.mean(seen, axis=0))
        variances.append(np.var(seen, axis=0))
    return np.mean(means, axis=0), np.sqrt(np.sum(variances, axis=0)) / len(ranks)


@pytest.mark.parametrize(
    ("replacement", "num_items", "m"), [(False, 9, 4), (False, 6, 5), (True, 6, 3)]
)
@quick(5)
@given(data=st.data())
def test_expectations_are_the_mean_over_all_draws(replacement, num_items, m, data):
    places = st.lists(st.integers(1, num_items), min_size=1, max_size=3, unique=True)
    ranks = data.draw(st.lists(places, min_size=1, max_size=3))
    metrics = [f"{name}@{k}" for name in PLAIN for k in (2, 20)] + ["GAUC"]
    mean, spread = by_draws(ranks, num_items, m, metrics, replacement)
    about = {
        "num_items": num_items,
        "num_negatives": m,
        "metrics": metrics,
        "replacement": replacement,
    }
    assert list(expected(ranks, **about).values()) == pytest.approx(mean, abs=1e-12)
    assert list(deviation(ranks, **about).values()) == pytest.approx(spread, abs=1e-7)


@pytest.mark.parametrize("name", ["nDCG", "MRR", "MAP"])
def test_exact_matches_evaluate(name):
    scores = -torch.arange(40.0).repeat(3, 1)
    truth = {0: [0, 7], 1: [3], 2: [11, 12, 39]}
    result = weft.evaluate(scores, truth, metrics=[name, "AUC", "GAUC"], top_k=[5, 20])
    ranks = [[item + 1 for item in items] for items in truth.values()]
    found = exact(ranks, num_items=40, metrics=[name, "AUC", "GAUC"], top_k=[5, 20])
    assert found == pytest.approx({value.name: value.value for value in result.entries})


def test_expectations_of_estimates_match_sums_over_positions():
    E, m, ranks, k = 30, 8, [4, 12], 10
    for correction in CORRECTIONS:
        gamma = correction.gamma if correction.method == "bias_variance" else None
        about = {
            "num_items": E + 2,
            "num_negatives": m,
            "estimator": correction.method,
            "gamma": gamma,
        }
        got = expected([ranks], metrics=f"MAP@{k}", **about)[f"MAP@{k}"]
        wanted = 0.0
        for j, rank in enumerate(ranks, 1):
            for x in range(m + 1):
                # The other item stands elsewhere; only the one with number j is looked at.
                at = positions(correction, [x + j] if j == 1 else [1, x + j], E, m)[-1]
                wanted += (
                    chances(E, m)[rank - j, x] * sum(w * j / p for p, w in at.items() if p <= k) / 2
                )
        assert got == pytest.approx(wanted)


def test_expectations_match_monte_carlo():
    """20,000 draws of 99 of 9,998 negatives for a user with two relevant items."""
    rng, ranks, E, m = np.random.default_rng(0), np.array([60, 900]), 9998, 99
    first = rng.hypergeometric(ranks[0] - 1, E - ranks[0] + 1, m, 20_000)
    between = rng.hypergeometric(ranks[1] - 1 - ranks[0], E - ranks[1] + 2, m - first)
    p, q = first + 1, first + between + 2
    values = (1 / p + 2 / q) / 2
    about = {"num_items": 10_000, "num_negatives": m, "metrics": "MAP@10000"}
    assert expected([ranks], **about)["MAP@10000"] == pytest.approx(
        values.mean(), abs=5 * values.std() / math.sqrt(20_000)
    )
    assert deviation([ranks], **about)["MAP@10000"] == pytest.approx(values.std(), rel=0.03)


def test_auc_is_unbiased():
    ranks, about = [[3, 9], [17], [1, 2, 20]], {"metrics": ["AUC", "GAUC"]}
    true = exact(ranks, num_items=20, **about)
    for m in (1, 5, 40):
        assert expected(ranks, num_items=20, num_negatives=m, **about) == pytest.approx(true)


def test_accepts_sizes_per_user_and_skips_empty_users():
    ranks = [[2], [], [2, 5]]
    both = expected(ranks, num_items=[3, 9, 50], num_negatives=4, metrics="MRR@9")["MRR@9"]
    alone = [
        expected([of], num_items=n, num_negatives=4, metrics="MRR@9")["MRR@9"]
        for of, n in (([2], 3), ([2, 5], 50))
    ]
    assert both == pytest.approx(np.mean(alone))
    forms = [
        [2, 5, 9],
        np.array([2, 5, 9]),
        torch.tensor([2, 5, 9]),
        pl.Series([2, 5, 9]),
        [[2], [5], [9]],
        np.array([[2], [5], [9]]),
    ]
    assert len({exact(form, num_items=9, metrics="MRR@9")["MRR@9"] for form in forms}) == 1


def test_auc_skips_users_without_negatives():
    ranks, sizes = [[1, 2], [2, 3], [5]], [2, 5, 9]
    for name in ("AUC", "GAUC"):
        assert exact(ranks, num_items=sizes, metrics=name) == exact(
            ranks[1:], num_items=sizes[1:], metrics=name
        )
        about = {"num_negatives": 2, "metrics": name}
        for function in (expected, deviation):
            every, some = (
                function(ranks, num_items=sizes, **about),
                function(ranks[1:], num_items=sizes[1:], **about),
            )
            assert every == pytest.approx(some) and not math.isnan(every[name])


def test_users_with_only_relevant_items():
    assert expected([[1, 2]], num_items=2, num_negatives=5, metrics="nDCG@2") == {
        "nDCG@2": pytest.approx(1)
    }
    assert math.isnan(expected([[1, 2]], num_items=2, num_negatives=5, metrics="AUC")["AUC"])


@pytest.mark.parametrize(
    ("ranks", "settings", "message"),
    [
        (
            [0, 3],
            {},
            "ranks contain 0; ranks are integers from 1 to num_items, which is 10 for this user",
        ),
        ([3, 11], {}, "ranks contain 11"),
        ([[3, 3]], {}, "ranks give the same rank to two items of a user"),
        ([1.5], {}, r"ranks contain \[1.5\]; ranks are integers of at least 1"),
        ([], {}, "ranks are empty"),
        ({"A": [1]}, {}, "ranks are a dict; give one rank for each user"),
        (7, {}, "ranks are an int"),
        (
            [1],
            {"num_items": [4, 4]},
            "give the number of ranked items, one for all users or one for each",
        ),
        ([1], {"num_items": 2.5}, "num_items=2.5"),
        ([1], {"num_negatives": 0}, "num_negatives=0; it must be an integer of at least 1"),
        ([1], {"metrics": "LAUC@3"}, "LAUC@3 cannot be computed from ranks"),
        ([1], {"metrics": "F1@3"}, "F1@3 cannot be computed from ranks"),
        ([1], {"metrics": "MAP(normalizer=hits)@3"}, "cannot be computed from ranks"),
        ([1], {"metrics": "AUC(scope=pooled)"}, "cannot be computed from ranks"),
        ([1], {"metrics": "RMSE"}, "RMSE cannot be computed from ranks"),
        (
            [1],
            {"estimator": "rank_estimate", "replacement": True},
            "is for negatives without replacement",
        ),
    ],
)
def test_rejects_wrong_ranks_and_settings(ranks, settings, message):
    about = {"num_items": 10, "num_negatives": 3, "metrics": "MRR@3"} | settings
    with pytest.raises((InputError, SettingError), match=message):
        expected(ranks, **about)


# -------------------------------------------------------------------------------------- the paper's

PAPER = {"A": [100] * 5, "B": [40, 40, 8437, 9266, 4482], "C": [212, 2, 743, 5342, 1548]}
NAMES = {"AUC": "AUC", "AP": "MAP@10000", "NDCG": "nDCG@10000", "Recall": "Recall@10"}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("AUC", (0.990, 0.555, 0.843)),
        ("AP", (0.010, 0.010, 0.101)),
        ("NDCG", (0.150, 0.122, 0.208)),
        ("Recall", (0.0, 0.0, 0.2)),
    ],
)
def test_exact_metrics_match_the_paper(name, wanted):
    metric = NAMES[name]
    found = [exact(ranks, num_items=10_000, metrics=metric)[metric] for ranks in PAPER.values()]
    assert tuple(round(value, 3) for value in found) == wanted


def test_expected_metrics_match_the_paper():
    """The paper draws with replacement; without, A's average precision is 0.636."""

    def of(**how):
        about = {"num_items": 10_000, "num_negatives": 99, "metrics": ["MAP@10000", "AUC"], **how}
        return [
            tuple(round(value, 3) for value in expected(ranks, **about).values())
            for ranks in PAPER.values()
        ]

    assert of(replacement=True) == [(0.637, 0.990), (0.341, 0.555), (0.326, 0.843)]
    assert of() == [(0.636, 0.990), (0.341, 0.555), (0.326, 0.843)]


def test_order_of_the_paper_is_identified_by_auc_only():
    about = {"num_items": 10_000, "num_negatives": 99}
    verdict = is_identified(PAPER, metric="MAP@10000", **about)
    assert not verdict
    pairs = {(pair.model_a, pair.model_b): pair for pair in verdict.pairs}
    worst = pairs["A", "C"]
    assert worst.low_a == worst.high_a == pytest.approx(0.01) and worst.low_b == pytest.approx(
        0.1013792
    )
    assert worst.sampled_a > worst.sampled_b and worst.probability < 0.05
    assert (
        "C is better (0.01 and 0.101), but the sample favours A (expected 0.636 and 0.326)"
        in str(verdict)
    )
    assert is_identified(PAPER, metric="AUC", **about)
    frame = verdict.to_frame()
    assert (
        frame.height == 3
        and frame["identified"].to_list() == [False] * 3
        and frame["probability"].max() < 0.5
    )


def test_estimator_identifies_an_order_that_sampling_reverses():
    many = {name: ranks * 1000 for name, ranks in PAPER.items()}
    about = {"metric": "MAP@10000", "num_items": 10_000, "num_negatives": 99}
    pairs = is_identified(many, **about, estimator="bias_variance", gamma=0.001).pairs
    assert [pair.identified for pair in pairs if "C" in (pair.model_a, pair.model_b)] == [
        True,
        True,
    ]
    assert not any(pair.identified for pair in is_identified(many, **about).pairs)


def test_sampling_all_items_identifies_every_order():
    assert is_identified(PAPER, metric="MAP@10000", num_items=10_000, num_negatives=9_999)


def test_probability_of_the_right_order_matches_simulation():
    rng = np.random.default_rng(0)
    ranks = {"A": rng.integers(1, 500, 400), "B": rng.integers(1, 540, 400)}
    (pair,) = is_identified(ranks, metric="MRR@50", num_items=1000, num_negatives=50).pairs
    right = pair.low_a > pair.low_b

    def sampled(above):
        return (1 / (1 + rng.hypergeometric(above, 999 - above, 50, (4000, 400)))).mean(1)

    means = [sampled(of - 1) for of in ranks.values()]
    assert pair.probability == pytest.approx(((means[0] > means[1]) == right).mean(), abs=0.04)


def test_equal_models_are_not_identified():
    about = {"metric": "MRR@10", "num_items": 50, "num_negatives": 5}
    (pair,) = is_identified({"A": [4, 9], "B": [9, 4]}, **about).pairs
    assert (
        not pair.identified
        and pair.probability == 0
        and "equal (0.181), but a sample ranks one higher" in pair.why
    )
    assert is_identified({"A": [1, 1], "B": [1, 1]}, **about)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["Recall@10", "Recall@200", "MRR@1000", "AUC"])
def test_bounds_from_sampled_ranks_contain_the_full_value(metric):
    rng = np.random.default_rng(3)
    above = {
        "good": np.minimum(rng.geometric(0.02, 3000) - 1, 1999),
        "bad": rng.integers(0, 2000, 3000),
    }
    places = {name: 1 + rng.hypergeometric(a, 1999 - a, 60) for name, a in above.items()}
    (pair,) = is_identified_from_sample(
        places, metric=metric, num_items=2000, num_negatives=60
    ).pairs
    for low, high, a in (
        (pair.low_a, pair.high_a, above["good"]),
        (pair.low_b, pair.high_b, above["bad"]),
    ):
        assert low - 1e-9 <= exact(a + 1, num_items=2000, metrics=metric)[metric] <= high + 1e-9
    assert pair.identified == (
        metric in ("Recall@200", "AUC")
    )  # ten of 2,000 are finer than sixty can tell
    assert math.isnan(pair.probability)


def test_sampled_ranks_among_all_items_are_exact():
    (pair,) = is_identified_from_sample(
        {"A": [1, 5], "B": [2, 9]}, metric="MRR@9", num_items=10, num_negatives=20
    ).pairs
    assert pair.low_a == pair.high_a == pytest.approx(0.6) and pair.identified


def test_rejects_sampled_ranks_that_no_ranks_explain():
    places = {
        "A": [1, 61] * 5000,
        "B": [30] * 10_000,
    }  # the first and the last item stand so; none is always seen in the middle
    with pytest.raises(InputError, match="no ranks explain the positions of B"):
        is_identified_from_sample(places, metric="AUC", num_items=2000, num_negatives=60)


@pytest.mark.parametrize(
    ("models", "settings", "message"),
    [
        ({"A": [1]}, {}, "compares two or more models: give {name: ranks, ...}"),
        ([[1], [2]], {}, "compares two or more models: give {name: ranks, ...}"),
        ({"A": [1], "B": [1, 2]}, {}, r"different numbers of users: \[1, 2\]"),
        ({"A": [1], "B": [99]}, {}, "the ranks of B contain 99"),
        (
            {"A": [1], "B": [2]},
            {"confidence": 1},
            "confidence=1; it must be a number between 0 and 1",
        ),
        ({"A": [1], "B": [2]}, {"metric": "MRR"}, "MRR needs a cut-off"),
    ],
)
def test_rejects_wrong_comparisons(models, settings, message):
    about = {"metric": "MRR@3", "num_items": 10, "num_negatives": 3} | settings
    with pytest.raises((InputError, SettingError), match=message):
        is_identified(models, **about)


@pytest.mark.parametrize(
    ("models", "settings", "message"),
    [
        ({"A": [1]}, {}, "compares two or more models: give {name: ranks, ...}"),
        ({"A": [1], "B": [9]}, {}, "the positions of B contain 9"),
        ({"A": [[1, 2]], "B": [[1, 3]]}, {}, "several relevant items per user"),
        ({"A": [1], "B": [2]}, {"num_items": [5]}, "num_items="),
        ({"A": [1], "B": [1]}, {"num_items": 1}, "leaves no negative to sample"),
        ({"A": [1], "B": [2]}, {"confidence": 1}, "confidence=1; it must be"),
    ],
)
def test_rejects_wrong_comparisons_of_sampled_ranks(models, settings, message):
    about = {"metric": "MRR@3", "num_items": 10, "num_negatives": 3} | settings
    with pytest.raises((InputError, SettingError), match=message):
        is_identified_from_sample(models, **about)

"""Sampled evaluation: the draw of negatives, and metrics that match masked scores."""

import itertools
import math

import numpy as np
import polars as pl
import polars.testing
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from metric_cases import BUILT_IN, BY_POSITION, RATINGS, make_labels
from weft.errors import SettingError
from weft.evaluation.candidates import draw
from weft.ranking import TIE_RULES
from weft.ranking.negative_sampling import NegativeSampler

RANKED = [name for name in BUILT_IN if name not in RATINGS]


def drawn(sampler, user_keys, taken=None):
    """`{user key: items}` that a sampler draws, and from how many; `taken`: `{user key: items}`."""
    taken, size = taken or {}, sampler._num_items
    cells = [
        row * size + item
        for row, key in enumerate(user_keys)
        for item in sorted(taken.get(key, ()))
    ]
    found, eligible = sampler.draw(
        np.array(user_keys, dtype=np.int64), np.array(cells, dtype=np.int64)
    )
    assert (np.diff(found) > 0).all()
    rows = {key: set() for key in user_keys}
    for cell in found.tolist():
        rows[user_keys[cell // size]].add(cell % size)
    return rows, dict(zip(user_keys, eligible.tolist()))


def sampler_of(size, number, seed=0, weights=None, pool=None, keys=None):
    pool, keys = (
        np.arange(size) if pool is None else pool,
        np.arange(size) if keys is None else keys,
    )
    return NegativeSampler(pool, keys, number=number, seed=seed, weights=weights)


# --------------------------------------------------------------------------------------------------


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 30),
    st.integers(1, 40),
    st.integers(0, 2**62),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_draws_the_number_or_the_whole_pool(size, number, seed, weighted, random):
    pool = np.array(sorted(random.sample(range(size), random.randint(0, size))), dtype=np.int64)
    weights = np.array([random.choice([0.001, 1.0, 50.0]) for _ in pool]) if weighted else None
    sampler = sampler_of(size, number, seed, weights, pool)
    taken = {key: random.sample(range(size), random.randint(0, size)) for key in range(-3, 4)}
    rows, eligible = drawn(sampler, list(taken), taken)
    for key, items in rows.items():
        open_items = set(pool.tolist()) - set(taken[key])
        assert (
            items <= open_items
            and len(items) == min(number, len(open_items))
            and eligible[key] == len(open_items)
        )
    some = list(taken)[2:5]
    assert drawn(sampler, some, taken)[0] == {
        key: rows[key] for key in some
    }  # whoever else is there


def test_draws_do_not_depend_on_column_order():
    keys = np.random.default_rng(0).permutation(400) * 7 - 900
    weights = np.arange(1.0, 401.0)
    for given_weights in (None, weights):
        straight = drawn(sampler_of(400, 30, 5, given_weights, keys=keys), range(20))[0]
        order = np.random.default_rng(1).permutation(400)
        turned = sampler_of(
            400, 30, 5, None if given_weights is None else given_weights[order], keys=keys[order]
        )
        found = drawn(turned, range(20))[0]
        assert {user: {keys[item] for item in row} for user, row in straight.items()} == {
            user: {keys[order][item] for item in row} for user, row in found.items()
        }


def test_another_seed_or_user_draws_another_sample():
    one, other = (drawn(sampler_of(1000, 20, seed), range(50))[0] for seed in (0, 1))
    assert all(one[user] != other[user] for user in one)
    assert len({frozenset(row) for row in one.values()}) == 50


def successive(weights, number):
    """The chance of each set, drawing one after the other without replacement."""
    chances = {}
    for order in itertools.permutations(range(len(weights)), number):
        left, chance = sum(weights), 1.0
        for item in order:
            chance *= weights[item] / left
            left -= weights[item]
        chances[frozenset(order)] = chances.get(frozenset(order), 0) + chance
    return chances


def chi_square_is_small(counts, chances, total):
    """Pearson's statistic against its mean, the degrees of freedom, with six standard deviations of
    room. The seed is fixed.
    """
    statistic = sum(
        (counts.get(key, 0) - total * chance) ** 2 / (total * chance)
        for key, chance in chances.items()
    )
    free = len(chances) - 1
    return statistic < free + 6 * math.sqrt(2 * free)


@pytest.mark.slow
@pytest.mark.parametrize("weights", [None, [8.0, 4.0, 1.0, 1.0, 0.5], [1.0, 1e-3, 1.0, 2.0, 1e-3]])
@pytest.mark.parametrize("number", [1, 2, 3])
@pytest.mark.parametrize("taken", [(), (0,)])
def test_sets_have_their_probabilities(weights, number, taken):
    """Small weights, and pools nearly used up, are left to the exponential times."""
    users = range(20_000)
    sampler = sampler_of(5, number, 11, None if weights is None else np.array(weights))
    rows, _ = drawn(sampler, users, dict.fromkeys(users, taken))
    left = [item for item in range(5) if item not in taken]
    chances = successive([(weights or [1.0] * 5)[item] for item in left], number)
    counts = {}
    for row in rows.values():
        key = frozenset(left.index(item) for item in row)
        counts[key] = counts.get(key, 0) + 1
    likely = {key: chance for key, chance in chances.items() if chance * len(users) > 5}
    rest = 1 - sum(likely.values())
    if rest * len(users) > 5:
        counts["rest"] = sum(count for key, count in counts.items() if key not in likely)
        likely["rest"] = rest
    assert chi_square_is_small(counts, likely, len(users))


@pytest.mark.parametrize("draws", ["few", "none"])
def test_exponential_times_complete_the_draw(draws, monkeypatch):
    """Sets are as frequent when most of them, or all, are drawn by exponential times."""
    draw = NegativeSampler._draw_distinct

    def draw_few(self, rows, keys, excluded, **_):
        return draw(self, rows, keys, excluded, draws=2 if draws == "few" else 1)

    monkeypatch.setattr(NegativeSampler, "_draw_distinct", draw_few)
    weights = [8.0, 4.0, 1.0, 1.0, 0.5]
    rows, _ = drawn(sampler_of(5, 3, 3, np.array(weights)), range(20_000))
    counts = {}
    for row in rows.values():
        counts[frozenset(row)] = counts.get(frozenset(row), 0) + 1
    assert chi_square_is_small(counts, successive(weights, 3), 20_000)


def test_items_of_a_large_pool_are_equally_likely():
    rows, _ = drawn(sampler_of(500, 99, 1), range(4000))
    counts = np.bincount([item for row in rows.values() for item in row], minlength=500)
    expected = 4000 * 99 / 500
    assert ((counts - expected) ** 2).sum() / (expected * (1 - 99 / 500)) < 499 + 6 * math.sqrt(
        2 * 499
    )


# --------------------------------------------------------------------------------------------------


def world(num_users=40, num_items=60, seed=0, kind=torch.float32):
    made = np.random.default_rng(seed)
    scores = torch.as_tensor(made.integers(0, 12, (num_users, num_items)) / 4).to(kind)
    truth = {
        user: {
            int(item): int(made.integers(0, 4)) for item in made.permutation(num_items)[: user % 5]
        }
        for user in range(num_users)
    }
    train = {
        user: made.permutation(num_items // 2)[: user % 9].tolist() for user in range(num_users)
    }
    return scores, truth, train


def pairs(frame):
    rows = {}
    for user, item in frame.iter_rows():
        rows.setdefault(user, set()).add(item)
    return rows


@pytest.mark.parametrize("pool", ["all", "cold", "warm"])
@pytest.mark.parametrize(
    "how",
    [{}, {"negative_sampling": "popularity"}, {"negative_sampling": "popularity", "neg_alpha": 0}],
)
def test_never_draws_seen_or_relevant_items(pool, how):
    _, truth, train = world()
    warm = {item for row in train.values() for item in row}
    chosen = {item for item in range(60) if pool == "all" or (item in warm) == (pool == "warm")}
    if how.get("negative_sampling") and "neg_alpha" not in how:
        chosen &= warm  # without an interaction there is no weight
    rows = pairs(draw(truth, train=train, num_negatives=20, items=60, candidates=pool, **how))
    for user, row in truth.items():
        wanted = {item for item, rating in row.items() if rating > 0}
        negatives, left = rows.get(user, set()) - wanted, chosen - set(row) - set(train[user])
        assert (
            wanted <= rows.get(user, set())
            and negatives <= left
            and len(negatives) == min(20, len(left))
        )


@pytest.mark.parametrize("ties", TIE_RULES)
@pytest.mark.parametrize("masked", [True, False])
def test_all_metrics_match_masked_scores(ties, masked):
    scores, truth, train = world()
    common = {
        "train": train,
        "metrics": RANKED,
        "top_k": [1, 5, 100],
        "ties": ties,
        "mask_seen": masked,
        "per_user": True,
        "seed": 4,
    }
    common |= make_labels(40, 60)
    found = weft.evaluate(scores, truth, strategy="sampled", num_negatives=9, **common)
    dense = torch.full_like(scores, -torch.inf)
    for user, items in pairs(draw(truth, train=train, num_negatives=9, items=60, seed=4)).items():
        dense[user, list(items)] = scores[user, list(items)]
    expected = weft.evaluate(dense, truth, **common)
    assert [value.name for value in found.entries] == [value.name for value in expected.entries]
    for one, other in zip(found.entries, expected.entries):
        assert (one.value, one.std_error, one.users) == pytest.approx(
            (other.value, other.std_error, other.users), abs=1e-12, nan_ok=True
        ), one.name
    pl.testing.assert_frame_equal(found.per_user, expected.per_user, check_exact=False)
    for name, count in expected.counts.items():
        assert found.counts[name] == count or name == "ratings_without_score", name
    assert (
        found.counts["candidates"]
        == int((dense > -torch.inf).sum()) - found.counts["relevant_seen"]
    )


def test_values_do_not_depend_on_execution():
    scores, truth, train = world(num_users=50, num_items=150)
    common = {
        "train": train,
        "metrics": ["nDCG@5", "AUC", "Gini@5", "MRR@5"],
        "strategy": "sampled",
        "seed": 9,
        "per_user": True,
    }
    expected = weft.evaluate(scores, truth, **common)
    for batch_size in (1, 7, 50):
        found = weft.evaluate(scores, truth, batch_size=batch_size, **common)
        assert [value.value for value in found.entries] == pytest.approx(
            [value.value for value in expected.entries], abs=1e-12
        )
        assert (
            found.provenance["fingerprint"]["candidates"]
            == expected.provenance["fingerprint"]["candidates"]
        )
    # Users and items in another order, under their ids.
    rows, columns = (
        np.random.default_rng(0).permutation(50),
        np.random.default_rng(1).permutation(150),
    )
    turned = weft.evaluate(
        scores[rows][:, columns], truth, users=rows, items=columns, ties="random", **common
    )
    straight = weft.evaluate(
        scores, truth, users=range(50), items=range(150), ties="random", **common
    )
    pl.testing.assert_frame_equal(turned.per_user.sort("user"), straight.per_user.sort("user"))
    assert (
        turned.provenance["fingerprint"]["candidates"]
        == expected.provenance["fingerprint"]["candidates"]
    )
    # Some users only.
    some = {user: truth[user] for user in range(20, 30)}
    few = weft.evaluate(
        scores[20:30], some, users=range(20, 30), items=range(150), ties="random", **common
    )
    pl.testing.assert_frame_equal(
        few.per_user, straight.per_user.filter(pl.col("user").is_between(20, 29))
    )
    other = weft.evaluate(scores, truth, **{**common, "seed": 10})
    assert (
        other.provenance["fingerprint"]["candidates"]
        != expected.provenance["fingerprint"]["candidates"]
    )


@pytest.mark.parametrize(
    "how", [{}, {"negative_sampling": "popularity"}, {"num_negatives": 12, "candidates": "warm"}]
)
def test_drawn_candidates_as_frame_give_the_same_values(how):
    scores, truth, train = world()
    truth = {
        f"u{user}": {f"i{item}": rating for item, rating in row.items()}
        for user, row in truth.items()
    }
    train = {f"u{user}": [f"i{item}" for item in row] for user, row in train.items()}
    ids = {"users": list(truth), "items": [f"i{item}" for item in range(60)]}
    common = {
        "metrics": [*RANKED, *RATINGS],
        "top_k": [3],
        "train": train,
        "ties": "index",
        **ids,
        **make_labels(40, 60),
    }
    expected = weft.evaluate(scores, truth, strategy="sampled", **how, **common)
    frame = draw(truth, train=train, items=ids["items"], **how)
    assert frame.schema == {"user": pl.String, "item": pl.String} and frame["user"].n_unique() == 40
    for strategy in ("full", "sampled"):
        found = weft.evaluate(scores, truth, candidates=frame, strategy=strategy, **common)
        assert [value.value for value in found.entries] == pytest.approx(
            [value.value for value in expected.entries], nan_ok=True
        )
        assert (
            found.provenance["fingerprint"]["candidates"]
            == expected.provenance["fingerprint"]["candidates"]
        )
        assert found.counts["candidates"] == expected.counts["candidates"]
    # Scored elsewhere, the frame comes back as lists that hold all that was offered.
    rows = frame.with_columns(
        score=pl.Series(
            [
                float(scores[ids["users"].index(user), ids["items"].index(item)])
                for user, item in frame.iter_rows()
            ]
        )
    )
    del common["users"]
    common["user_groups"] = dict(zip(ids["users"], common["user_groups"]))
    listed = weft.evaluate(
        rows, truth, candidates="listed", mask_seen=True, **{**common, "metrics": RANKED}
    )
    same = {value.name: value.value for value in expected.entries}
    assert {value.name: value.value for value in listed.entries} == pytest.approx(
        {value.name: same[value.name] for value in listed.entries}, nan_ok=True
    )


def test_counts_and_notes_short_pools():
    scores, truth, train = world()
    result = weft.evaluate(
        scores, truth, train=train, metrics="AUC", strategy="sampled", num_negatives=55
    )
    short = sum(60 - len({*truth[user], *train[user]}) < 55 for user in range(40))
    assert result.counts["users_with_few_negatives"] == short > 0
    assert (
        f"{short} users have fewer than 55 items to draw from; all of these items are used"
        in result.notes
    )
    everything = weft.evaluate(
        scores,
        truth,
        train=train,
        metrics="nDCG@5",
        strategy="sampled",
        num_negatives=1000,
        ties="index",
    )
    judged = {
        user: {item for item, rating in row.items() if rating == 0} for user, row in truth.items()
    }
    hidden = scores.clone()
    for user, items in judged.items():
        hidden[
            user, list(items)
        ] = -torch.inf  # cells of the truth are no negatives, relevant or not
    assert everything["nDCG@5"] == pytest.approx(
        weft.evaluate(hidden, truth, train=train, metrics="nDCG@5")["nDCG@5"], abs=1e-12
    )


def test_batches_have_pool_sizes(monkeypatch):
    scores, truth, train = world()
    met, add = [], weft.Evaluator.add

    def recording(self, inputs, *ranked):
        met.append(inputs.sample_sizes)
        add(self, inputs, *ranked)

    monkeypatch.setattr(weft.Evaluator, "add", recording)
    left = [60 - len({*truth[user], *train[user]}) for user in range(40)]
    weft.evaluate(
        scores,
        truth,
        train=train,
        metrics="AUC",
        strategy="sampled",
        num_negatives=55,
        batch_size=15,
    )
    assert torch.cat([part.num_eligible for part in met]).tolist() == left
    assert torch.cat([part.num_negatives for part in met]).tolist() == [
        min(55, number) for number in left
    ]
    for strategy in ("full", "sampled"):
        met.clear()
        weft.evaluate(scores, truth, candidates={0: [1]}, strategy=strategy, metrics="AUC")
        assert met == [None]  # nothing was drawn


def test_result_records_the_sampling():
    scores, truth, train = world()
    result = weft.evaluate(
        scores,
        truth,
        train=train,
        metrics=["nDCG@5", "Gini@5"],
        strategy="sampled",
        num_negatives=20,
        seed=3,
        **BY_POSITION,
    )
    said = {
        "strategy": "sampled",
        "candidates": "all",
        "num_negatives": 20,
        "negative_sampling": "uniform",
        "neg_alpha": None,
        "seed": 3,
    }
    assert said.items() <= result.settings.items()
    assert result.notes[0].startswith(
        "strategy='sampled': each user's relevant items are ranked among 20 negatives"
    )
    assert any(
        note.startswith(
            "Gini depends on which items are recommended; only candidates were ranked: the relevant"
        )
        for note in result.notes
    )
    full = weft.evaluate(scores, truth, metrics="nDCG@5")
    said = {
        "strategy": "full",
        "candidates": "all",
        "num_negatives": None,
        "negative_sampling": None,
        "neg_alpha": None,
    }
    assert said.items() <= full.settings.items() and "candidates" not in full.counts


def test_small_batches_of_many_negatives_give_the_same_values(monkeypatch):
    """Batches are as small as their widest user makes them; that changes nothing."""
    scores, truth, train = world()
    common = {
        "train": train,
        "metrics": ["nDCG@5", "AUC"],
        "strategy": "sampled",
        "num_negatives": 30,
    }
    expected = weft.evaluate(scores, truth, **common)
    taken = []
    monkeypatch.setattr("weft.evaluation.runner._BATCH_POSITIONS", 100)
    monkeypatch.setattr("weft.evaluation.runner._show_progress", _recording(taken))
    found = weft.evaluate(scores, truth, **common, progress=True)
    assert sum(taken) == 40 and max(taken) <= 3
    assert [value.value for value in found.entries] == pytest.approx(
        [value.value for value in expected.entries], abs=1e-12
    )


def _recording(taken):
    def record(spans):
        for start, stop in spans:
            taken.append(stop - start)
            yield start, stop

    return record


# --------------------------------------------------------------------------------------------------


def test_constant_scores_have_the_value_of_chance():
    """One relevant item among 99 negatives: in the first ten with chance 10/100, wherever it stands
    in the catalogue.
    """
    scores = torch.zeros(800, 300)
    first = {user: [0] for user in range(800)}  # which `index` favours
    anywhere = {
        user: [int(item)]
        for user, item in enumerate(np.random.default_rng(0).integers(0, 300, 800))
    }
    common = {"metrics": ["HitRate@10", "MRR@100", "AUC", "GAUC", "LAUC@10"], "strategy": "sampled"}
    harmonic = sum(1 / rank for rank in range(1, 101)) / 100
    for truth in (first, anywhere):
        exact = weft.evaluate(scores, truth, ties="expected", **common)
        assert exact["HitRate@10"] == pytest.approx(0.1, abs=1e-12) and exact[
            "MRR@100"
        ] == pytest.approx(harmonic, abs=1e-12)
        assert (exact["AUC"], exact["GAUC"], exact["LAUC@10"]) == pytest.approx(
            (0.5, 0.5, 0.5), abs=1e-12
        )
        by_default = weft.evaluate(
            scores, truth, **{**common, "strategy": "Sampled"}
        )  # in any case
        assert (
            abs(by_default["HitRate@10"] - 0.1) < 4 * math.sqrt(0.09 / 800)
            and by_default.settings["ties"] == "random"
        )
    # Only who asks for the order of the catalogue gets it; even so, relevant items have no place of
    # their own among candidates.
    assert weft.evaluate(scores, first, ties="index", **common)["HitRate@10"] == 1
    assert abs(
        weft.evaluate(scores, anywhere, ties="index", **common)["HitRate@10"] - 0.1
    ) < 4 * math.sqrt(0.09 / 800)


def test_random_scores_have_an_auc_of_one_half():
    scores = torch.rand(1000, 400, generator=torch.Generator().manual_seed(0))
    truth = {user: [(user * 7) % 400, (user * 3 + 1) % 400] for user in range(1000)}
    result = weft.evaluate(
        scores,
        truth,
        metrics=["AUC", "GAUC", "AUC(scope=pooled)", "LAUC@10"],
        strategy="sampled",
        num_negatives=20,
    )
    for value in result.entries:
        assert abs(value.value - 0.5) < 0.03, value.name


def test_sampled_auc_estimates_the_full_auc():
    """The area of a user's candidates is an unbiased estimate of the whole one."""
    scores, truth, train = world(num_users=200, num_items=300)
    full = weft.evaluate(scores, truth, train=train, metrics="GAUC", relevance_threshold=1)["GAUC"]
    means = [
        weft.evaluate(
            scores,
            truth,
            train=train,
            metrics="GAUC",
            strategy="sampled",
            seed=seed,
            num_negatives=50,
        )["GAUC"]
        for seed in range(12)
    ]
    assert abs(np.mean(means) - full) < 5 * np.std(means) / math.sqrt(len(means)) + 0.002


# --------------------------------------------------------------------------------------------------


def test_lists_with_drawn_candidates():
    scores, truth, train = world()
    lists = {
        user: {int(item): float(scores[user, item]) for item in scores[user].topk(25).indices}
        for user in range(40)
    }
    found = weft.evaluate(
        lists,
        truth,
        train=train,
        items=range(60),
        metrics=["nDCG@5", "Recall@5"],
        strategy="sampled",
        num_negatives=20,
        ties="index",
    )
    offered = pairs(draw(truth, train=train, items=60, num_negatives=20))
    listed = {
        user: {item: score for item, score in row.items() if item in offered[user]}
        for user, row in lists.items()
    }
    expected = weft.evaluate(listed, truth, items=range(60), metrics=["nDCG@5", "Recall@5"])
    assert [value.value for value in found.entries] == pytest.approx(
        [value.value for value in expected.entries]
    )
    number = sum(map(len, offered.values()))
    unlisted = number - sum(map(len, listed.values()))
    assert (
        found.counts["candidates"] == number
        and found.counts["candidates_not_listed"] == unlisted > 0
    )
    assert any(
        f"{unlisted:,} of {number:,} candidates are in no list" in note for note in found.notes
    )


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16, torch.float64])
def test_factors_and_models_with_drawn_candidates(kind):
    made = torch.Generator().manual_seed(3)
    users, items = (torch.randint(-3, 4, (n, 4), generator=made).to(kind) for n in (40, 60))
    scores, (_, truth, train) = users @ items.T, world()
    common = {
        "train": train,
        "metrics": ["nDCG@5", "AUC", "MAE", "UserMADRating@5"],
        "strategy": "sampled",
        "num_negatives": 1,
        **make_labels(40, 60),
    }
    ids = {"users": range(40), "items": range(60)}
    expected = [value.value for value in weft.evaluate(scores, truth, **common).entries]
    found = weft.evaluate(weft.Factors(users, items), truth, **common)
    assert [value.value for value in found.entries] == pytest.approx(expected)
    asked = []

    def model(who, items):
        asked.append(items)
        return scores[who].gather(1, items)

    found = weft.evaluate(model, truth, **ids, **common)
    assert [value.value for value in found.entries] == pytest.approx(expected)
    assert max(part.shape[1] for part in asked) <= 5  # the truth has up to four cells
    found = weft.evaluate(
        lambda who: scores[who], truth, users=range(40), **common
    )  # its first answer tells how many items
    assert [value.value for value in found.entries] == pytest.approx(expected)


def test_draw_returns_a_frame():
    truth, train = {"b": ["x"], "a": ["y"], "c": []}, {"a": ["x"], "z": ["w", "v"]}
    frame = draw(truth, train=train)
    assert frame.rows() == [
        ("a", "v"),
        ("a", "w"),
        ("a", "y"),
        ("b", "v"),
        ("b", "w"),
        ("b", "x"),
        ("b", "y"),
    ] + [("c", item) for item in "vwxy"]
    assert draw(truth, train=train, users=["c", "q"])["user"].unique().sort().to_list() == [
        "c",
        "q",
    ]
    assert draw(np.eye(2, 3), num_negatives=1).group_by("user").len()["len"].to_list() == [2, 2]
    assert draw({}, items=4).is_empty()
    for wrong in ({"a": ["x"]}, "listed"):
        with pytest.raises(
            SettingError, match=r"draw\(\) samples candidates|applies to recommendation lists"
        ):
            draw(truth, candidates=wrong)

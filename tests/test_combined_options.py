"""Candidates, estimators, bootstrap and slices in one run match separate runs."""

import dataclasses

import numpy as np
import polars as pl
import polars.testing
import pytest
import torch

import weft
from metric_cases import BUILT_IN, RATINGS, make_labels
from weft.sampling import draw

USERS, ITEMS = 45, 40
METRICS = [name for name in BUILT_IN if name not in RATINGS]
generator = np.random.default_rng(5)
SCORES = torch.from_numpy(generator.normal(size=(USERS, ITEMS)))
TRUTH = {
    user: {
        int(item): int(rating) for item, rating in zip(generator.choice(40, 3, False), (1, 2, 4))
    }
    for user in range(USERS)
}
TRAIN = {user: generator.choice(35, 1 + user % 7, False).tolist() for user in range(USERS)}
COMMON = {
    "train": TRAIN,
    "metrics": METRICS,
    "top_k": [3, 8],
    "seed": 3,
    **make_labels(USERS, ITEMS),
}
SLICES = {
    "parity": ["odd" if user % 2 else "even" for user in range(USERS)],
    "activity": "quantiles(3)",
}


def hidden(cells):
    """The scores with `-inf` for all but some cells of (user, item)."""
    scores = torch.full_like(SCORES, -torch.inf)
    for user, item in cells:
        scores[user, item] = SCORES[user, item]
    return scores


def told(result):
    return {value.name: dataclasses.astuple(value)[2:] for value in result.entries}


DRAWN = draw(TRUTH, train=TRAIN, items=ITEMS, num_negatives=12, seed=3)
COLD = [item for item in range(ITEMS) if not any(item in row for row in TRAIN.values())]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("how", "cells"),
    [
        ({"strategy": "sampled", "num_negatives": 12}, DRAWN.iter_rows()),
        ({"candidates": DRAWN}, DRAWN.iter_rows()),
        ({"candidates": "cold"}, [(user, item) for user in range(USERS) for item in COLD]),
    ],
    ids=["sampled", "given", "cold"],
)
def test_candidates_with_bootstrap_and_slices_match_masked_scores(how, cells):
    """Every metric with its intervals, and every slice."""
    found = weft.evaluate(
        SCORES, TRUTH, bootstrap=40, slices=SLICES, batch_size=13, **how, **COMMON
    )
    expected = weft.evaluate(hidden(cells), TRUTH, bootstrap=40, slices=SLICES, **COMMON)
    assert told(found).keys() == told(expected).keys()
    for name, values in told(found).items():
        for one, other in zip(values, told(expected)[name]):
            if one == other:
                continue
            if isinstance(one, tuple):  # values by the power of propensities
                one, other = np.array(one), np.array(other)
                assert one.shape == other.shape
            assert one == pytest.approx(other, rel=1e-9, abs=1e-12, nan_ok=True), name
    pl.testing.assert_frame_equal(found.slices, expected.slices, check_exact=False)
    assert found.entry("Gini@3").boot_low != found.entry("Gini@3").boot_high


@pytest.mark.parametrize("estimator", ["rank_estimate", "bias_variance"])
def test_estimates_with_bootstrap_and_slices_use_values_per_user(estimator):
    settings = {"strategy": "sampled", "num_negatives": 12, "estimator": estimator}
    accurate = {**COMMON, "metrics": ["nDCG", "Recall", "MAP"]}
    result = weft.evaluate(
        SCORES, TRUTH, per_user=True, bootstrap=60, slices=SLICES, **settings, **accurate
    )
    plain = weft.evaluate(SCORES, TRUTH, strategy="sampled", num_negatives=12, **accurate)
    assert result["nDCG@3"] != plain["nDCG@3"]
    for row in result.slice("parity").iter_rows(named=True):
        name = f"{row['metric']}@{row['k']}"
        of_group = result.per_user.filter(pl.col("user") % 2 == (row["group"] == "odd"))[name]
        assert row["value"] == pytest.approx(of_group.mean(), abs=1e-12) and row["users"] == len(
            of_group
        )
    for value in result.entries:
        column = result.per_user[value.name]
        assert value.value == pytest.approx(column.mean(), abs=1e-12)
        assert value.boot_std_error == pytest.approx(column.std() / len(column) ** 0.5, rel=0.4)
        assert value.boot_low < value.value < value.boot_high


def test_sampling_all_negatives_equals_the_full_evaluation():
    truth = {user: dict.fromkeys(row, 1) for user, row in TRUTH.items()}
    common = {
        "train": TRAIN,
        "metrics": ["nDCG", "Recall", "MAP", "MRR", "HitRate"],
        "top_k": [3, 8],
    }
    full = weft.evaluate(SCORES, truth, bootstrap=30, slices=SLICES, **common)
    for how in ({}, {"estimator": "rank_estimate"}, {"estimator": "bias_variance", "gamma": 0.3}):
        found = weft.evaluate(
            SCORES,
            truth,
            strategy="sampled",
            num_negatives=ITEMS,
            bootstrap=30,
            slices=SLICES,
            **how,
            **common,
        )
        for value in found.entries:
            other = full.entry(value.name)
            assert value.value == pytest.approx(
                other.value, abs=1e-9
            ) and value.bca_low == pytest.approx(other.bca_low, abs=1e-9)
        pl.testing.assert_frame_equal(found.slices, full.slices, check_exact=False, abs_tol=1e-9)


def test_compares_sampled_results_per_user():
    noisy = SCORES + 2 * torch.from_numpy(np.random.default_rng(1).normal(size=(USERS, ITEMS)))
    best = torch.full_like(SCORES, 0.0)
    for user, row in TRUTH.items():
        best[user, list(row)] = 1.0
    common = {
        **COMMON,
        "metrics": "nDCG",
        "per_user": True,
        "strategy": "sampled",
        "num_negatives": 12,
    }
    results = {
        name: weft.evaluate(scores, TRUTH, **common)
        for name, scores in (("best", best + SCORES / 9), ("noisy", noisy))
    }
    assert (
        len({result.provenance["fingerprint"]["candidates"] for result in results.values()}) == 1
    )  # the same draw for both
    row = weft.compare(results, tests=["randomization"]).to_frame().row(0, named=True)
    assert row["users"] == USERS and row["difference"] > 0 and row["significant"]


def test_comparison_notes_that_one_model_was_sampled():
    common = {**COMMON, "metrics": "nDCG", "per_user": True, "ties": "index"}
    full, sampled = (
        weft.evaluate(SCORES, TRUTH, **common),
        weft.evaluate(SCORES, TRUTH, strategy="sampled", num_negatives=12, **common),
    )
    assert weft.compare({"a": full, "b": full}).notes[1:] == ()  # behind that nothing differs
    notes = weft.compare({"full": full, "sampled": sampled}).notes
    assert notes == ("'sampled' was evaluated with strategy 'sampled', 'full' with 'full'",)

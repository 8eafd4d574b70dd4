"""Sums by feature: the table of few features and the pairs of many give the same values."""

import numpy as np
import pytest
import torch

import weft
from weft.metrics import feature_sums

METRICS = [
    "Calibration",
    "Calibration(divergence=js)",
    "Calibration(divergence=hellinger)",
    "CategoryDiversity",
    "CategoryEntropy",
    "CategoryEntropy(weight=log)",
    "AWRF",
    "AWRF(weight=uniform)",
    "ILD(distance=category)",
    "ILD(distance=hamming)",
]


def evaluate(num_users, num_items, **settings):
    """Evaluate random scores; some items have no feature or cluster, some users no train."""
    random = np.random.default_rng(7)
    features = {
        item: [f"f{code}" for code in range(6) if random.random() < 0.3]
        for item in range(num_items)
    }
    clusters = {item: f"c{random.integers(4)}" for item in range(0, num_items, 2)}
    train = random.random((num_users, num_items)) < random.choice([0, 0.1, 0.4], (num_users, 1))
    scores = torch.from_numpy(random.random((num_users, num_items)))
    scores[:, 3:][torch.from_numpy(random.random((num_users, num_items - 3)) < 0.5)] = -torch.inf
    return weft.evaluate(
        scores,
        torch.from_numpy(random.random((num_users, num_items)) < 0.2).int(),
        train=torch.from_numpy(train).int(),
        metrics=METRICS,
        top_k=[2, 3, 10, 60],
        item_features=features,
        item_clusters=clusters,
        per_user=True,
        **settings,
    )


@pytest.mark.parametrize("batch_size", [None, 1, 7])
def test_table_and_pairs_agree(monkeypatch, batch_size):
    settings = {} if batch_size is None else {"batch_size": batch_size}
    table = evaluate(40, 50, **settings)
    monkeypatch.setattr(feature_sums, "_MAX_TABLE_FEATURES", 0)
    pairs = evaluate(40, 50)
    for name in table.per_user.columns:
        if name != "user":
            mine, theirs = (result.per_user[name].to_numpy() for result in (table, pairs))
            assert np.isfinite(theirs).any(), name
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=1e-12, err_msg=name)


def test_tiles_do_not_change_values(monkeypatch):
    whole = evaluate(40, 50)
    monkeypatch.setattr(feature_sums, "_TILE_VALUES", 100)
    assert evaluate(40, 50).per_user.equals(whole.per_user, null_equal=True)


def test_large_tables_are_not_built(monkeypatch):
    features = weft.metrics.CategoryEntropy(k=1, item_features=[["a"], ["b", "a"]])._features
    device = torch.device("cpu")
    assert feature_sums.has_table(features, device)
    monkeypatch.setattr(feature_sums, "_MAX_TABLE_VALUES", 3)
    assert not feature_sums.has_table(features, device)
    assert features.table.tolist() == [[0, 0], [1, 0], [1, 1]]
    assert features.share_table.tolist() == [[0, 0], [1, 0], [0.5, 0.5]]

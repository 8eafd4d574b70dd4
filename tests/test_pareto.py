"""The Pareto front of several models and its hypervolume."""

import itertools
import math

import numpy as np
import pytest
import torch

import weft
from weft.statistics.pareto import compute_front, hypervolume


@pytest.mark.parametrize("dimensions", [1, 2, 3, 4])
def test_hypervolume_matches_inclusion_exclusion(dimensions):
    """By inclusion and exclusion: the boxes all start at 0, so an intersection is the box of the
    smallest coordinates.
    """
    generator = np.random.default_rng(dimensions)
    for count in range(1, 7):
        points = generator.integers(1, 6, (count, dimensions)) / 4
        expected = sum(
            (-1) ** (size + 1) * np.prod(np.min(chosen, axis=0))
            for size in range(1, count + 1)
            for chosen in itertools.combinations(points, size)
        )
        assert hypervolume([tuple(point) for point in points]) == pytest.approx(expected)


def test_front_has_the_models_that_no_other_dominates():
    found = compute_front(
        {
            "a": (3, 1),
            "b": (1, 3),
            "c": (1, 1),
            "d": (3, 1),
            "lost": (-1, 9),
            "unknown": (math.nan, 9),
        }
    )
    assert found.models == ("a", "b", "d", "lost")  # equal points do not beat each other
    assert found.hypervolume == 3 + 3 - 1  # a point beyond the nadir spans no box
    assert compute_front({"a": (-1, 2)}).hypervolume == 0 and math.isnan(
        compute_front({"a": (math.nan, 2)}).hypervolume
    )


def test_compare_computes_the_front_of_the_models():
    generator = torch.Generator().manual_seed(3)
    truth = (torch.rand(30, 12, generator=generator) < 0.2).int()
    volume = "Hypervolume(metric_names=[nDCG, Gini], nadir_points=[0, 1])"  # more nDCG, less Gini
    models = {
        "accurate": truth + torch.rand(30, 12, generator=generator) / 9,
        "even": torch.rand(30, 12, generator=generator),
        "neither": torch.arange(12).float().expand(30, 12),
    }
    settings = {"metrics": [volume, "nDCG", "Gini"], "top_k": 3, "per_user": True}
    results = {name: weft.evaluate(scores, truth, **settings) for name, scores in models.items()}
    points = {name: (result["nDCG@3"], 1 - result["Gini@3"]) for name, result in results.items()}
    for name, result in results.items():
        assert result.entry(f"{volume}@3").parts == (result["nDCG@3"], result["Gini@3"])
        assert result[f"{volume}@3"] == pytest.approx(math.prod(points[name]))
    (name, found), *others = weft.compare(results).fronts.items()
    assert name == f"{volume}@3" and not others and "neither" not in found.models
    assert found.hypervolume == pytest.approx(hypervolume([points[name] for name in found.models]))
    assert found.hypervolume >= max(result[name] for result in results.values())


def test_no_front_of_values_per_user_or_of_one_model_only(tmp_path):
    scores, truth = torch.rand(9, 5), torch.eye(9, 5)
    per_user, whole = (
        f"Hypervolume(metric_names=[nDCG, Recall], nadir_points=[0, 0]{more})@2"
        for more in (", scope=users", "")
    )
    a, b = (
        weft.evaluate(scores, truth, metrics=[per_user, *more], per_user=True)
        for more in ([], [whole])
    )
    assert weft.compare({"a": a, "b": b}).fronts == {}
    saved = weft.load_result(b.save(tmp_path / "b.json"))
    assert list(weft.compare({"b": b, "saved": saved}).fronts) == [b.entry(whole).name]

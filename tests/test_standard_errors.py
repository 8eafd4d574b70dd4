"""Standard errors against exact rational arithmetic, for values far from 0 and close together."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import weft
from weft.metrics.mean_sums import MEAN_SUMS, mean_sums, standard_error_from_sums

RATIOS = (1.0, 1e3, 1e6, 1e8, 1e10)  # of the mean to the standard deviation
WEIGHTS = ("equal", "integers", "fractions")


def exact_standard_error(values, weights):
    """The definition, in rational numbers, with a root of 40 digits; and its tolerance.

    It is 1e-9, or 1e-29 of the sum of squares for weights with which that is more: two users with
    the weights 1 and 999 are as hard as a mean of 1e13 deviations."""
    values, weights = ([Fraction(one) for one in column] for column in (values, weights))
    users, weight = len(values), sum(weights)
    mean = sum(w * x for w, x in zip(weights, values)) / weight
    spread = sum((w * (x - mean)) ** 2 for w, x in zip(weights, values))
    square = Fraction(users, users - 1) * spread / weight**2
    with localcontext(prec=40):
        root = float((Decimal(square.numerator) / Decimal(square.denominator)).sqrt())
    squares = sum((w * x) ** 2 for w, x in zip(weights, values))
    tolerance = max(1e-9, 1e-29 * float(squares / spread))
    return pytest.approx(root, rel=tolerance, abs=0)


def draw(generator, users, *, ratio, scale=1.0, weights="equal"):
    values = scale * (1 + generator.standard_normal(users) / ratio)
    if weights == "equal":
        return values, np.ones(users)
    if weights == "integers":
        return values, generator.integers(1, 1000, users).astype(float)
    return values, generator.random(users) + 0.001


def sums_of_parts(values, weights, parts):
    """The sums of parts of the users, merged in the order of the parts."""
    total = torch.zeros(len(MEAN_SUMS), dtype=torch.float64)
    for rows in parts:
        of_users = None if (weights == 1).all() else torch.from_numpy(weights[rows])
        total += mean_sums(torch.from_numpy(values[rows])[:, None], of_users)[:, 0]
    return total


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("weights", WEIGHTS)
@given(
    users=st.integers(2, 25),
    cuts=st.lists(st.floats(0, 1), max_size=6),
    scale=st.sampled_from([1.0, -1.0, 1e-9, 0.3, 4e7]),
    seed=st.integers(0, 10_000),
)
def test_sums_of_any_split_give_the_exact_standard_error(ratio, weights, users, cuts, scale, seed):
    generator = np.random.default_rng(seed)
    values, of_users = draw(generator, users, ratio=ratio, scale=scale, weights=weights)
    order = generator.permutation(users)
    parts = np.split(order, sorted(int(cut * users) for cut in cuts))
    found = standard_error_from_sums(sums_of_parts(values, of_users, parts))
    assert found == exact_standard_error(values, of_users)


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("weights", WEIGHTS)
def test_thousands_of_single_users_and_merged_halves(ratio, weights):
    values, of_users = draw(np.random.default_rng(3), 1000, ratio=ratio, weights=weights)
    expected = exact_standard_error(values, of_users)
    singles = [sums_of_parts(values, of_users, [[row]]) for row in range(1000)]
    one_by_one = sum(singles)
    halves = sum(singles[500:]) + sum(singles[:500])
    whole = sums_of_parts(values, of_users, [slice(None)])
    for sums in (one_by_one, halves, whole):
        assert standard_error_from_sums(sums) == expected


@pytest.mark.parametrize("value", [0.1, 1 / 3, 7e8, -2.3e-7, 0.0])
@pytest.mark.parametrize("weights", WEIGHTS)
def test_equal_values_have_the_standard_error_0(value, weights):
    _, of_users = draw(np.random.default_rng(0), 999, ratio=1.0, weights=weights)
    parts = np.array_split(np.arange(999), 7)
    sums = sums_of_parts(np.full(999, value), of_users, parts)
    assert standard_error_from_sums(sums) == 0


def test_undefined_without_two_finite_values_or_weights():
    one, two = torch.tensor([[0.5]]).double(), torch.tensor([[0.5], [math.inf]]).double()
    assert math.isnan(standard_error_from_sums(mean_sums(one)[:, 0]))
    assert math.isnan(standard_error_from_sums(mean_sums(two)[:, 0]))
    assert math.isnan(standard_error_from_sums(mean_sums(two * 0 + 1, torch.zeros(2))[:, 0]))
    undefined = torch.tensor([[0.5], [math.nan], [0.7]]).double()
    sums = mean_sums(undefined)[:, 0]
    assert sums[0] == 2 and standard_error_from_sums(sums) == pytest.approx(0.1)


def test_float32_of_devices_without_float64():
    values, of_users = draw(np.random.default_rng(1), 500, ratio=100.0, weights="integers")
    values = values.astype(np.float32)
    total = torch.zeros(len(MEAN_SUMS))
    for rows in np.array_split(np.arange(500), 9):
        total += mean_sums(
            torch.from_numpy(values[rows])[:, None], torch.from_numpy(of_users[rows])
        )[:, 0]
    expected = exact_standard_error(values.tolist(), of_users).expected
    assert standard_error_from_sums(total) == pytest.approx(expected, rel=1e-4)


# --------------------------------------------------------------------------------------------------
# Evaluators, states and metrics of TorchMetrics


class TopScore(weft.UserAverageTopKMetric):
    """The score of the first item."""

    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        return preds[:, 0].double()


class WeightedTopScore(TopScore):
    """The score of the first item, weighted with that of the second."""

    def user_weights(self, batch):
        return batch.dense_scores[:, 1].double()


METRICS = [TopScore(1), WeightedTopScore(1)]


USERS = 90
GROUP = np.arange(USERS) % 3


def scores_of(ratio):
    values, weights = draw(np.random.default_rng(8), USERS, ratio=ratio, weights="integers")
    values[GROUP == 0] *= 50  # a group far from the others
    return torch.from_numpy(np.stack([values, weights], axis=1))


def exact(scores, metric, rows):
    weights = scores[:, 1] if metric == "WeightedTopScore" else torch.ones(USERS)
    return exact_standard_error(scores[rows, 0].tolist(), weights[rows].tolist())


@pytest.mark.parametrize("ratio", RATIOS)
def test_evaluators_slices_and_merged_states(ratio, tmp_path):
    scores, target = scores_of(ratio), torch.ones(USERS, 2)

    def evaluator():
        return weft.Evaluator(METRICS, slices={"group": GROUP.tolist()})

    files = []
    for part, rows in enumerate(torch.arange(USERS).split(30)):
        made = evaluator()
        for batch in rows.split(11):
            made.update(scores[batch], target[batch], batch)
        files.append(weft.save_state(made, tmp_path / f"{part}.state"))
    result = weft.merge_states(files, evaluator())
    for metric in ("TopScore", "WeightedTopScore"):
        everyone = exact(scores, metric, slice(None))
        assert result.entry(f"{metric}@1").std_error == everyone
        rows = result.slices.filter(result.slices["metric"] == metric)
        assert rows["group"].to_list() == ["0", "1", "2"]
        for number, found in enumerate(rows["std_error"]):
            assert found == exact(scores, metric, number == GROUP)


@pytest.mark.parametrize("ratio", RATIOS)
@pytest.mark.parametrize("make", [TopScore, WeightedTopScore])
def test_metrics_on_their_own_merge(ratio, make):
    """A metric on its own has a value without a standard error."""
    scores, target = scores_of(ratio), torch.ones(USERS, 2)
    merged = make(1)
    for batch in torch.arange(USERS).split(23):
        other = make(1)
        other.update(scores[batch], target[batch])
        merged.merge_state(other)
    whole = make(1)
    whole.update(scores, target)
    assert float(merged.compute()) == pytest.approx(float(whole.compute()), rel=1e-14)
    assert len(merged.metric_state["sums"]) == 3

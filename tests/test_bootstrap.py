"""Bootstrap intervals: against evaluations of resampled users and SciPy, and their edge cases."""

import json
import math

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from metric_cases import BUILT_IN, make_labels
from weft.batch.batch import BatchInputs
from weft.data.targets import read_target
from weft.errors import InputError, SettingError
from weft.evaluation import resample_weights
from weft.evaluation.bootstrap import bootstrap_interval, group_acceleration
from weft.evaluation.contributions import LocalContributions, UserContributions
from weft.evaluation.metric_value import MetricValue
from weft.evaluation.resample_weights import poisson_weights
from weft.evaluation.resamples import resample_metrics
from weft.evaluation.update_inputs import select_seen
from weft.metrics.names import parse_name
from weft.metrics.registry import needs_cutoff, prototype

USERS, ITEMS, CUTOFFS = 40, 25, [3, 10]
GENERATOR = torch.Generator().manual_seed(6)
SCORES = (torch.rand(USERS, ITEMS, generator=GENERATOR) * 40).round() / 8  # with ties
SCORES[torch.rand(USERS, ITEMS, generator=GENERATOR) < 0.1] = -torch.inf
SCORES[3] = -torch.inf
TARGET = (torch.rand(USERS, ITEMS, generator=GENERATOR) < 0.15) * torch.randint(
    1, 4, (USERS, ITEMS), generator=GENERATOR
)
TARGET[5] = 0
TRAIN = (torch.rand(USERS, ITEMS, generator=GENERATOR) < 0.2).int()
EVERYONE = torch.arange(USERS)
ABOUT = make_labels(USERS, ITEMS)
VARIANTS = [
    "GAUC(weight=positives)",
    "GAUC(weight=interactions)",
    "RMSE(average=users)",
    "UserCoverage(as_fraction=True)",
    "Gini(users=evaluated)",
    "ItemMADRating(appearances=all)",
    "EucDistance(metric_names=[nDCG, Gini, ItemCoverage], utopia_points=[1, 0, 25])",
    "Hypervolume(metric_names=[nDCG, Recall], nadir_points=[0, 0], scope=users)",
]


def evaluator(metrics, **more):
    settings = {
        "train": TRAIN,
        "bootstrap": 24,
        "seed": 7,
        "num_users": USERS,
        "num_items": ITEMS,
        **ABOUT,
        **more,
    }
    return weft.Evaluator(metrics, CUTOFFS, **settings)


def passed(made, scores=SCORES, order=EVERYONE, batch=11):
    for rows in order.split(batch):
        made.update(scores[rows], TARGET[rows], rows)
    return made


def contributions(made):
    """Return the contributions of each user."""
    return UserContributions.from_rows(made.state.rows, made.metric_set.layout)


def resamples_of(made):
    """Return the resampled values and the acceleration of each value, by name."""
    values = tuple(made.metric_set.values(made.metric_set.layout.view(made.sums)))
    resamples, accelerations = resample_metrics(
        made.metric_set,
        LocalContributions(contributions(made)),
        values,
        resamples=made.settings.bootstrap,
        seed=made.settings.seed,
    )
    return dict(zip(resamples.names, zip(resamples.values.T, accelerations)))


def resampled(made):
    """Return the resampled values of each value, by name."""
    return {name: values for name, (values, _) in resamples_of(made).items()}


def weights(number, keys=EVERYONE, seed=7):
    return poisson_weights(keys, seed, 0, number).astype(int)


# ---------------------------------------------------------------------------------------- the same


def build(name):
    spec = parse_name(name)
    return prototype(spec.with_cutoff(1) if needs_cutoff(spec.name) else spec)


@pytest.mark.parametrize("ties", ["index", "expected"])
def test_resamples_equal_evaluations_with_repeated_users(ties):
    """User u evaluated w times, on data in which they occur w times: for every metric and several
    resamples.
    """
    metrics = [name for name in [*BUILT_IN, *VARIANTS] if not build(name).reads_history]
    masked = SCORES.masked_fill(
        TRAIN > 0, -torch.inf
    )  # so that copies of users need no train of their own
    found = resampled(passed(evaluator(metrics, mask_seen=False, ties=ties), masked))
    _compare(found, metrics, masked, TRAIN, mask_seen=False, ties=ties)


def test_resamples_masked_items_with_their_users():
    """Of metrics without train, which resampling the evaluated users does not touch."""
    metrics = [
        name for name in [*BUILT_IN, *VARIANTS] if "train" not in build(name).needed_inputs()
    ]
    for scores in (SCORES, torch.where(SCORES.isinf(), 0, SCORES)):
        _compare(resampled(passed(evaluator(metrics), scores)), metrics, scores, None)


def _compare(found, metrics, scores, train, **settings):
    for number, of_users in enumerate(weights(5)):
        rows = EVERYONE.repeat_interleave(torch.as_tensor(of_users))
        copies = USERS + torch.arange(
            len(rows)
        )  # with train at the originals' places, and theirs empty, or of their own
        empty = torch.zeros(len(rows), ITEMS, dtype=torch.int32)
        own = (
            torch.cat([torch.zeros_like(TRAIN), TRAIN[rows]])
            if train is None
            else torch.cat([train, empty])
        )
        groups = [*ABOUT["user_groups"], *(ABOUT["user_groups"][row] for row in rows)]
        labels = {**ABOUT, "user_groups": groups}
        again = weft.Evaluator(
            metrics,
            CUTOFFS,
            train=own,
            num_users=USERS + len(rows),
            num_items=ITEMS,
            **labels,
            **{"seed": 7, **settings},
        )
        truth = read_target(TARGET[rows], len(rows), num_items=ITEMS, device=torch.device("cpu"))
        inputs = BatchInputs(
            scores[rows].clone(),
            truth,
            users=copies,
            user_keys=rows,  # where lists are drawn among ties, copies draw as the originals
            seen=select_seen(again.inputs["train"], copies, scores.device)
            if again.masks_seen
            else None,
        )
        again.add(inputs)
        literal = again.compute()
        assert set(literal) == set(found)
        for name in literal:
            expected = literal[name]
            if (
                name.startswith("UserCoverage") and "as_fraction" not in name
            ):  # counts are scaled to the number of users
                expected *= USERS / len(rows)
            assert found[name][number] == pytest.approx(
                expected, rel=1e-9, abs=1e-12, nan_ok=True
            ), name


def test_resamples_custom_metrics():
    class Hits(weft.UserAverageTopKMetric):
        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            return top_k_rel.sum(1)

    class Cubed(weft.RatingMetric):
        def compute_errors(self, preds, target):
            return (preds - target).abs() ** 3

    class Offers(weft.BaseMetric):
        _REQUIRED_COMPONENTS = {weft.MetricBlock.VALID_USERS}

        def __init__(self, **settings):
            super().__init__(**settings)
            self.add_state("total", torch.zeros(()), dist_reduce_fx="sum")

        def update(self, preds, **kwargs):
            self.total += (preds > -torch.inf).sum()

        def compute(self):
            return self.total

    metrics = [Hits(k=3), "Precision@3", Cubed(), Offers(), weft.metrics.AUC(scope="pooled")]
    result = passed(evaluator(metrics, bootstrap=50)).compute()
    mine, precision = result.entry("Hits@3"), result.entry("Precision@3")
    assert mine.bca_low == pytest.approx(3 * precision.bca_low) and mine.boot_high == pytest.approx(
        3 * precision.boot_high
    )
    cubed = result.entry("Cubed")
    assert cubed.bca_low < cubed.value < cubed.bca_high
    for name in ("Offers", "AUC(scope=pooled)"):
        assert (
            math.isnan(result.entry(name).boot_low) and result.entry(name).interval.kind == "none"
        )
    assert (
        "Offers, AUC(scope=pooled) keep their own states: no bootstrap intervals. "
        "Metrics derived from weft.SummedMetric or weft.UserAverageMetric have them" in result.notes
    )


# -------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_intervals_do_not_depend_on_batches_order_or_shards():
    metrics = [*BUILT_IN, *VARIANTS]
    whole = passed(evaluator(metrics), batch=USERS).compute()
    shuffled = EVERYONE[torch.randperm(USERS, generator=torch.Generator().manual_seed(1))]
    first, second = (
        passed(evaluator(metrics), order=shuffled[:13]),
        passed(evaluator(metrics), order=shuffled[13:], batch=4),
    )
    first.merge(second)
    for other in (passed(evaluator(metrics), order=shuffled, batch=1).compute(), first.compute()):
        for value in whole.entries:
            again = other.entry(value.name)
            for field in ("boot_low", "boot_high", "bca_low", "bca_high", "boot_std_error"):
                expected = getattr(value, field)
                assert getattr(again, field) == pytest.approx(
                    expected, rel=1e-9, abs=1e-12, nan_ok=True
                ), value.name
        assert other.notes == whole.notes


def test_weights_depend_only_on_seed_user_and_resample():
    keys = torch.arange(1000, 3000)
    drawn = poisson_weights(keys, 3, 0, 40)
    assert (poisson_weights(keys.flip(0), 3, 0, 40) == drawn[:, ::-1]).all()
    assert (poisson_weights(keys[50:60], 3, 5, 23) == drawn[5:23, 50:60]).all()
    assert (poisson_weights(keys, 4, 0, 40) != drawn).mean() > 0.5
    counts = np.bincount(drawn.astype(int).ravel(), minlength=9)
    law = scipy.stats.poisson(1).pmf(np.arange(8))
    assert (
        scipy.stats.chisquare(
            np.append(counts[:6], counts[6:].sum()),
            np.append(law[:6], 1 - law[:6].sum()) * drawn.size,
        ).pvalue
        > 1e-3
    )
    assert (
        abs(np.corrcoef(drawn)[np.triu_indices(40, 1)]).max() < 0.11
    )  # 780 pairs of resamples: 5 standard deviations
    assert abs(np.corrcoef(drawn[0], scipy.stats.rankdata(keys))[0, 1]) < 0.1


def test_intervals_do_not_depend_on_row_order():
    names, order = (
        [f"user {n}" for n in range(USERS)],
        torch.randperm(USERS, generator=torch.Generator().manual_seed(2)),
    )
    about_scores = {
        "metrics": ["nDCG", "Gini"],
        "top_k": 5,
        "bootstrap": 50,
        "items": list(range(ITEMS)),
    }
    truth = {
        name: dict.fromkeys(row.nonzero().flatten().tolist(), 1) for name, row in zip(names, TARGET)
    }
    one = weft.evaluate(SCORES, truth, users=names, **about_scores)
    other = weft.evaluate(
        SCORES[order], truth, users=[names[n] for n in order], batch_size=7, **about_scores
    )
    numbers = weft.evaluate(SCORES, truth, users=names, seed=1, **about_scores)
    for name in ("nDCG@5", "Gini@5"):
        assert one.entry(name).boot_low == pytest.approx(other.entry(name).boot_low, rel=1e-12)
        assert one.entry(name).bca_high == pytest.approx(
            other.entry(name).bca_high, rel=1e-12, nan_ok=True
        )
        assert one.entry(name).boot_low != numbers.entry(name).boot_low
    assert one.settings["bootstrap"] == 50 and one.settings["seed"] == 0


def test_block_size_does_not_change_resamples(monkeypatch):
    expected = resampled(passed(evaluator(BUILT_IN)))
    monkeypatch.setattr(resample_weights, "_BLOCK_BYTES", 1)
    for name, values in resampled(passed(evaluator(BUILT_IN))).items():
        assert values == pytest.approx(expected[name], rel=1e-12, nan_ok=True)


def test_bootstrap_does_not_change_values():
    plain = passed(evaluator(BUILT_IN, bootstrap=None)).compute()
    booted = passed(evaluator(BUILT_IN)).compute()
    for value in plain.entries:
        assert booted[value.name] == pytest.approx(value.value, rel=1e-12, nan_ok=True)
        assert booted.entry(value.name).std_error == pytest.approx(
            value.std_error, rel=1e-12, nan_ok=True
        )


# --------------------------------------------------------------------------------------------------


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.floats(-5, 5).map(lambda x: round(x, 3)), min_size=3, max_size=20),
    st.integers(0, 2**31),
)
def test_bca_matches_scipy(values, seed):
    """Given replicates and users, the ends are those of SciPy, which resamples alike with its own
    numbers.
    """
    sample = np.array(values)
    draws = np.random.default_rng(seed).integers(0, len(sample), (99, len(sample)))
    replicates, estimate = sample[draws].mean(1), float(sample.mean())
    left_out = (sample.sum() - sample) / (len(sample) - 1)
    found = bootstrap_interval(estimate, replicates, group_acceleration(left_out))
    near = np.isclose(
        replicates, estimate, rtol=1e-11, atol=1e-11 * max(abs(replicates).max(), abs(estimate))
    )
    if near.all():
        assert (found.low, found.bca_high, found.std_error) == (estimate, estimate, 0)
        return
    assert (found.low, found.high) == pytest.approx(
        tuple(np.percentile(replicates, [2.5, 97.5])), abs=1e-9
    )
    assert found.std_error == pytest.approx(replicates.std(ddof=1), abs=1e-9)
    share = ((replicates < estimate) & ~near).mean() + near.mean() / 2
    differences = left_out.mean() - left_out
    bend = (
        (differences**3).sum() / (6 * (differences**2).sum() ** 1.5) if np.ptp(sample) > 1e-9 else 0
    )
    z0 = scipy.stats.norm.ppf(share)
    levels = [
        scipy.stats.norm.cdf(z0 + (z0 + z) / (1 - bend * (z0 + z)))
        for z in scipy.stats.norm.ppf([0.025, 0.975])
    ]
    if 0 < share < 1 and levels[0] <= share <= levels[1]:
        snapped = np.where(near, estimate, replicates)
        assert (found.bca_low, found.bca_high) == pytest.approx(
            tuple(np.quantile(snapped, levels)), abs=1e-6
        )
    else:
        assert math.isnan(found.bca_low) and math.isnan(found.bca_high)


def test_intervals_of_a_mean_match_scipy():
    """The same law drawn by other numbers: both ends agree to a few hundredths of the standard
    error.
    """
    generator = torch.Generator().manual_seed(8)
    scores = torch.rand(400, 30, generator=generator)
    target = (torch.rand(400, 30, generator=generator) < 0.1).int()
    result = weft.evaluate(scores, target, metrics="MRR@5", bootstrap=8000, per_user=True)
    values = result.per_user["MRR@5"].drop_nans().to_numpy()
    entry = result.entry("MRR@5")
    for method, ends in (
        ("percentile", (entry.boot_low, entry.boot_high)),
        ("BCa", (entry.bca_low, entry.bca_high)),
    ):
        theirs = scipy.stats.bootstrap(
            (values,), np.mean, n_resamples=8000, method=method, rng=np.random.default_rng(1)
        )
        assert ends == pytest.approx(tuple(theirs.confidence_interval), abs=0.1 * entry.std_error)
    assert entry.boot_std_error == pytest.approx(entry.std_error, rel=0.05)
    assert entry.interval.kind == "BCa" and result.entry("MRR@5").ci_low == pytest.approx(
        entry.boot_low, abs=0.3 * entry.std_error
    )


def test_acceleration_of_means_is_the_exact_jackknife():
    made = passed(evaluator(["nDCG@3", "GAUC(weight=positives)"]))
    found = resamples_of(made)
    values = (
        passed(evaluator(["nDCG@3", "GAUC(weight=positives)"], per_user=True, bootstrap=None))
        .compute()
        .per_user
    )
    counts = torch.as_tensor((TARGET > 0).sum(1))[values["user"].to_torch()].numpy()
    for name, weight in (("nDCG@3", np.ones(len(values))), ("GAUC(weight=positives)", counts)):
        defined = values[name].is_not_nan().to_numpy()
        x, w = values[name].to_numpy()[defined], weight[defined]
        left_out = np.array(
            [np.average(np.delete(x, u), weights=np.delete(w, u)) for u in range(len(x))]
        )
        assert found[name][1] == pytest.approx(group_acceleration(left_out), rel=1e-9)


@pytest.mark.slow
def test_acceleration_of_formulas_uses_a_grouped_jackknife():
    made = passed(evaluator(["Gini@3", "AUC"]))
    one_by_one = {name: bend for name, (_, bend) in resamples_of(made).items()}
    for name in ("Gini@3", "AUC"):
        left_out = [
            passed(evaluator([name], bootstrap=None), order=EVERYONE[u != EVERYONE]).compute()[name]
            for u in range(USERS)
        ]
        assert one_by_one[name] == pytest.approx(group_acceleration(np.array(left_out)), rel=1e-6)


def test_grouped_jackknife_estimates_the_exact_acceleration():
    """The mean of a skewed quantity, computed as a formula (by groups) and as a mean over users
    (exactly).
    """
    generator = torch.Generator().manual_seed(4)
    scores, target = (
        torch.rand(6000, 8, generator=generator),
        (torch.rand(6000, 8, generator=generator) < 0.1).int(),
    )
    target[:, 0] = 1
    metrics = ["MRR@1", "EucDistance(metric_names=[MRR], utopia_points=[0])@1"]
    made = weft.Evaluator(metrics, num_users=6000, bootstrap=2)
    made.update(scores, target, torch.arange(6000))
    found = resamples_of(made)
    exact, grouped = (found[name][1] for name in found)
    assert exact > 0.002 and grouped == pytest.approx(exact, abs=0.02)


# --------------------------------------------------------------------------------------------------


def test_intervals_have_nominal_coverage():
    """Simulated users of known law: a hit rate and a mean over users, 95% intervals, 60 samples of
    80 users.
    """
    held = {"HitRate@1": 0, "MRR@4": 0}
    truth = {"HitRate@1": 0.25, "MRR@4": (1 + 1 / 2 + 1 / 3 + 1 / 4) / 4}
    for sample in range(60):
        generator = torch.Generator().manual_seed(sample)
        target = torch.zeros(80, 4).scatter_(
            1, torch.randint(0, 4, (80, 1), generator=generator), 1
        )
        scores = torch.rand(80, 4, generator=generator)
        result = weft.evaluate(scores, target.int(), metrics=["HitRate@1", "MRR@4"], bootstrap=400)
        for name in held:
            low, high, kind = result.entry(name).interval
            held[name] += low <= truth[name] <= high
            assert kind == "BCa"
    assert all(52 <= count <= 60 for count in held.values()), held


@pytest.mark.slow
def test_intervals_of_means_contain_the_value():
    """Resample users, not what they have (pitfall 15)."""
    result = passed(evaluator([*BUILT_IN, *VARIANTS], bootstrap=300)).compute()
    with_users = [value for value in result.entries if not math.isnan(value.std_error)]
    assert len(with_users) > 40
    for value in with_users:
        assert (
            value.boot_low <= value.value <= value.boot_high
            and value.bca_low <= value.value <= value.bca_high
        )


def test_gini_and_coverage_have_intervals():
    result = passed(
        evaluator(["Gini", "ItemCoverage", "ShannonEntropy", "BiasDisparityBR"], bootstrap=300)
    ).compute()
    for value in result.entries:
        assert value.boot_low <= value.boot_high and value.boot_std_error >= 0
        low, high, kind = value.interval
        assert kind in ("BCa", "bootstrap") and low <= value.value <= high
    assert result.entry("Gini@3").boot_std_error > 0
    shifted = [value.name for value in result.entries if value.interval.kind == "bootstrap"]
    assert all(math.isnan(result.entry(name).bca_low) for name in shifted)
    if shifted:
        assert any(
            "the BCa interval is undefined" in note and shifted[0] in note for note in result.notes
        )


def test_no_bca_interval_for_biased_statistics():
    """Each user is recommended an item of their own: every resample covers fewer."""
    result = weft.evaluate(
        torch.eye(30), torch.eye(30).int(), metrics=["ItemCoverage@1", "HitRate@1"], bootstrap=100
    )
    covered = result.entry("ItemCoverage@1")
    assert covered.value == 30 and covered.boot_high < 30 and math.isnan(covered.bca_low)
    assert (
        covered.interval.kind == "bootstrap" and covered.interval.low < 30 < covered.interval.high
    )
    assert any(
        note.startswith("ItemCoverage@1: the BCa interval is undefined") for note in result.notes
    )
    hits = result.entry("HitRate@1")
    assert (hits.boot_low, hits.boot_high, hits.bca_low, hits.bca_high, hits.boot_std_error) == (
        1,
        1,
        1,
        1,
        0,
    )


# --------------------------------------------------------------------------------------------------


def test_user_counts_have_zero_width_intervals():
    result = weft.evaluate(
        torch.rand(9, 5),
        torch.ones(9, 5).int(),
        metrics=["UserCoverage@2", "NumRetrieved@2"],
        bootstrap=30,
    )
    for value in result.entries:
        assert value.boot_low == value.boot_high == value.bca_low == value.bca_high == value.value


@pytest.mark.parametrize("users", [0, 1])
def test_no_intervals_for_fewer_than_two_users(users):
    result = weft.evaluate(
        SCORES[:users], TARGET[:users], metrics=["nDCG@3", "Gini@3"], bootstrap=10
    )
    assert all(
        math.isnan(value.boot_low) and value.interval.kind == "none" for value in result.entries
    )
    assert (
        "there are fewer than two users to resample, so there are no bootstrap "
        "intervals" in result.notes
    )
    assert result.to_frame()["bca_low"].is_nan().all()


def test_no_interval_for_the_mean_of_one_user():
    target = torch.zeros(12, 4).int()
    target[3, 1] = 1
    result = weft.evaluate(
        torch.rand(12, 4), target, metrics=["HitRate@2", "NumRetrieved@2"], bootstrap=40
    )
    assert (
        math.isnan(result.entry("HitRate@2").boot_low)
        and result.entry("NumRetrieved@2").boot_low == 2
    )


def test_undefined_resamples_are_dropped_and_counted():
    target = torch.zeros(12, 4).int()
    target[3, 1] = target[4, 2] = 1
    scores = torch.rand(12, 4, generator=torch.Generator().manual_seed(3))
    made = weft.Evaluator(["MRR@4", "AUC"], num_users=12, bootstrap=400, seed=1)
    made.update(scores, target, torch.arange(12))
    result = made.compute()
    without = int((poisson_weights(torch.arange(12), 1, 0, 400)[:, 3:5].sum(1) == 0).sum())
    assert 30 < without < 80
    assert (
        f"MRR@4, AUC are undefined in up to {without} of 400 resamples; the intervals use the "
        "other resamples" in result.notes
    )
    assert result.entry("MRR@4").boot_low < result.entry("MRR@4").boot_high


def test_undefined_values_have_no_interval():
    target = torch.zeros(6, 4).int()
    result = weft.evaluate(
        torch.rand(6, 4, generator=torch.Generator().manual_seed(0)),
        target,
        metrics=["nDCG@2", "AUC", "Gini@2"],
        bootstrap=10,
    )
    assert math.isnan(result.entry("nDCG@2").boot_low) and math.isnan(result.entry("AUC").boot_low)
    assert result.entry("Gini@2").boot_low > 0


def test_half_precision_scores_and_lists():
    for scores in (SCORES.half(), SCORES.bfloat16()):
        exact = weft.evaluate(
            scores.float(), TARGET, metrics=["nDCG@3", "Gini@3", "RMSE"], bootstrap=20
        )
        result = weft.evaluate(scores, TARGET, metrics=["nDCG@3", "Gini@3", "RMSE"], bootstrap=20)
        assert [value.boot_low for value in result.entries] == pytest.approx(
            [value.boot_low for value in exact.entries]
        )
    lists = {
        f"u{n}": [f"i{item}" for item in row.topk(5).indices.tolist()]
        for n, row in enumerate(SCORES)
    }
    truth = {
        f"u{n}": [f"i{item}" for item in row.nonzero().flatten().tolist()]
        for n, row in enumerate(TARGET)
    }
    catalogue = [f"i{item}" for item in range(ITEMS)]
    metrics = ["nDCG@3", "PopRSP@3", "Gini@3"]
    train = {
        f"u{n}": [f"i{item}" for item in row.nonzero().flatten().tolist()]
        for n, row in enumerate(TRAIN)
    }
    result = weft.evaluate(
        lists, truth, train=train, items=catalogue, metrics=metrics, bootstrap=60, mask_seen=True
    )
    assert all(value.boot_low < value.boot_high for value in result.entries)


def test_rejects_wrong_numbers_of_resamples():
    for wrong in (0, 1, -3, 2.5, True, "many"):
        with pytest.raises(SettingError, match="bootstrap="):
            weft.Evaluator("nDCG@3", bootstrap=wrong)
        with pytest.raises(SettingError, match="bootstrap="):
            weft.evaluate(SCORES, "no such file", metrics="nDCG@3", bootstrap=wrong)
    with pytest.raises(InputError, match="needs user_indices to know the users that are resampled"):
        weft.Evaluator("nDCG@3", bootstrap=10).update(SCORES, TARGET)
    with pytest.raises(SettingError, match="differ in bootstrap: 24 and 30"):
        evaluator("nDCG").merge(evaluator("nDCG", bootstrap=30))
    with pytest.raises(SettingError, match="differ in bootstrap: 24 and None"):
        evaluator("nDCG").merge(evaluator("nDCG", bootstrap=None))


def test_reset_clears_the_resamples():
    made = passed(evaluator(["nDCG", "Gini"]))
    expected = made.compute()
    made.reset()
    again = passed(made).compute()
    assert [value.bca_low for value in again.entries] == pytest.approx(
        [value.bca_low for value in expected.entries], nan_ok=True
    )
    twice = made.compute()  # nothing is used up
    assert [value.bca_low for value in twice.entries] == pytest.approx(
        [value.bca_low for value in again.entries], nan_ok=True
    )


# --------------------------------------------------------------------------------------------------


def test_contributions_use_little_memory():
    """8 bytes per user and mean, 12 per term: a place of a list, a relevant item, a masked item."""
    made = passed(evaluator(["nDCG", "Gini", "RSP"]), torch.where(SCORES.isinf(), 0, SCORES))
    kept = contributions(made)
    assert kept.values.nbytes == 8 * USERS * len(CUTOFFS)
    listed = 10 * USERS
    assert kept.terms.nnz == listed + int((TRAIN > 0).sum()) + USERS
    assert kept.terms.data.nbytes + kept.terms.indices.nbytes == 12 * kept.terms.nnz


def test_results_with_intervals_are_saved_and_shown(tmp_path):
    result = passed(evaluator(["nDCG@3", "Gini@3"], bootstrap=200)).compute()
    loaded = weft.load_result(result.save(tmp_path / "a.json"))
    assert repr(loaded.entries) == repr(result.entries) and loaded.is_bootstrapped
    assert loaded.to_frame().equals(result.to_frame(), null_equal=True)
    assert loaded.to_frame().columns[-5:] == [
        "boot_low",
        "boot_high",
        "bca_low",
        "bca_high",
        "boot_std_error",
    ]
    entry = result.entry("nDCG@3")
    shown = f"{entry.bca_low:.4f} to {entry.bca_high:.4f}"
    assert shown in repr(result) and shown in result._repr_html_()
    assert str(result.entry("Gini@3").interval) in repr(result)
    document = json.loads((tmp_path / "a.json").read_text())
    assert document["settings"]["bootstrap"] == 200


def test_results_without_bootstrap_have_no_intervals(tmp_path):
    result = passed(evaluator(["nDCG@3", "Gini@3"], bootstrap=None)).compute()
    path = result.save(tmp_path / "a.json")
    assert "boot" not in path.read_text() and "slices" not in path.read_text()
    assert "boot_low" not in result.to_frame().columns
    assert math.isnan(weft.load_result(path).entry("nDCG@3").bca_low)
    assert (
        result.entry("nDCG@3").interval.kind == "normal"
        and result.entry("Gini@3").interval.kind == "none"
    )


def test_interval_property_chooses_the_kind():
    value = MetricValue("nDCG", 3, 0.5, 0.1, 7)
    assert value.interval == (value.ci_low, value.ci_high, "normal")
    assert MetricValue(
        "nDCG", 3, 0.5, 0.1, 7, bca_low=0.2, bca_high=0.6, boot_std_error=0.1
    ).interval == (0.2, 0.6, "BCa")
    low, high, kind = MetricValue(
        "Gini", 3, 0.5, boot_low=0.6, boot_high=0.7, boot_std_error=0.05
    ).interval
    assert kind == "bootstrap" and (low, high) == pytest.approx((0.402, 0.598), abs=1e-5)
    assert (
        MetricValue("Gini", 3, 0.5).interval.kind == "none"
        and str(MetricValue("Gini", 3, 0.5).interval) == ""
    )


def test_no_interval_from_too_few_resamples():
    few = bootstrap_interval(0.5, np.array([0.4, math.nan, math.nan]), 0.0)
    assert math.isnan(few.low) and few.undefined == 2
    assert math.isnan(bootstrap_interval(math.nan, np.array([0.4, 0.5]), 0.0).low)
    unknown = bootstrap_interval(0.5, np.array([0.4, 0.5, 0.6]), math.nan)
    assert unknown.low < unknown.high and math.isnan(unknown.bca_low)

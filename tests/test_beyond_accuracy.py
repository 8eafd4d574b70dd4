"""Metrics beyond accuracy against the oracles: every parameter, on data with edge cases."""

import itertools
import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from oracles_beyond_accuracy import (
    CELL_METRICS,
    GLOBAL_METRICS,
    LOWER_IS_BETTER,
    RANKED,
    RATING,
    SCORED,
    TARGETS,
    USER_METRICS,
    WITHOUT_K,
    World,
    answer,
    has_user_values,
    user_answer,
)
from weft.metrics.registry import built_in_metrics, canonical_name, metric_parameters


def every(**choices):
    """All combinations of the values of some parameters."""
    return [dict(zip(choices, values)) for values in itertools.product(*choices.values())]


GAINS = ("exponential", "linear", "binary", "exponential_shifted")
USERS = ("lists", "evaluated")
RATIOS = (0.8, 0.5, 1.0)
COLD = ("one", "skip")
SIMILARITIES = ("cosine", "category", "jaccard", "cooccurrence")
WEIGHTS = ("uniform", "geometric", "log", "reciprocal")
FIRST_PAIR = {"metric_names": ["nDCG", "Recall"]}
OTHER_PAIR = {"metric_names": ["Gini", "EPC"]}
BY_USER = {
    "metric_names": [
        ("nDCG", {"gain": "linear"}),
        ("MAE", {"average": "users"}),
        ("ARP", {"users": "evaluated"}),
        "UserCoverage",
    ],
    "scope": "users",
}
NESTED = {
    "metric_names": [
        (
            "EucDistance",
            {"metric_names": ["MRR", "EFD"], "utopia_points": [1, 2.5], "scope": "users"},
        ),
        (
            "F1",
            {
                "metric_name_1": "SRecall",
                "metric_name_2": ("EPC", {"relevance": "none"}),
                "beta": 0.5,
            },
        ),
    ],
    "nadir_points": [9, -0.25],
}
HIGHER = [
    "ItemCoverage",
    "UserCoverage",
    "NumRetrieved",
    "ValidRate",
    "UserCoverageAtN",
    "ShannonEntropy",
    "SRecall",
    "ACLT",
    "APLT",
    "MAP",
]
HIT_SUMS = (
    *("Precision", "Recall", "DCG", "nDCG", "nDCGRendle2020", "NCRR", "RBP"),
    ("Precision", {"denominator": "list"}),
    ("Recall", {"normalizer": "capped"}),
    ("DCG", {"gain": "linear", "discount": "reciprocal"}),
    ("nDCG", {"gain": "binary", "ideal": "full"}),
    ("nDCG", {"ideal": "k", "discount": "capped_log"}),
    ("RBP", {"p": 0.5, "relevance": "graded"}),
    ("RBP", {"normalize": True}),
)
METRICS: dict[str, list[dict[str, Any]]] = {
    "MAE": every(average=("cells", "users")),
    "MSE": every(average=("cells", "users")),
    "RMSE": every(average=("cells", "users")),
    "LogLoss": every(scores=("logits",), cells=("truth", "offered"), average=("cells", "users")),
    **{
        name: every(average=("cells", "users"))
        for name in ("MAPE", "SMAPE", "R2", "ExplainedVariance", "Pearson")
    },
    "MeanRank": every(average=("users", "items"), mean=("arithmetic", "geometric")),
    "PercentileRank": every(average=("users", "items")),
    "AMRI": [{}],
    "NE": every(scores=("logits",)),
    "ScoreCalibration": every(scores=("logits",)),
    "ECE": every(scores=("logits",), bins=(1, 3, 10)),
    "ItemCoverage": every(as_fraction=(False, True), users=USERS, universe=("catalogue", "train")),
    "UserCoverage": every(as_fraction=(False, True), users=USERS),
    "NumRetrieved": every(users=USERS),
    "ValidRate": every(users=USERS),
    "DuplicateRate": every(users=USERS),
    "UserCoverageAtN": every(n=(None, 1, 3), as_fraction=(False, True), users=USERS),
    "EFD": every(relevance=("binary", "discounted", "none"), denominator=("k", "list"))
    + every(relevance=("graded",), gain=GAINS),
    "EPC": every(relevance=("binary", "discounted", "none"), unseen=(0, 1))
    + every(relevance=("graded",), gain=GAINS)
    + every(relevance=("graded", "none"), denominator=("list",)),
    **{
        name: every(power=(0.5, 0, 2), clip=(0.1, 0.5, 1))
        for name in ("IPSRecall", "SNIPSRecall", "IPSDCG", "SNIPSDCG")
    },
    "IPS": every(metric=HIT_SUMS, self_normalized=(False, True))
    + every(metric=("nDCG",), power=(0, 2), clip=(0.5, 1)),
    "MIUF": every(cold_items=COLD, denominator=("list", "k"), users=USERS),
    "SelfInformation": every(cold_items=COLD, denominator=("list", "k"), users=USERS),
    "Surprisal": every(cold_items=COLD, denominator=("list", "k"), users=USERS),
    "Gini": every(denominator=("N-1", "N"), users=USERS, weight=WEIGHTS)
    + every(weight=("geometric",), p=(0.5,)),
    "ShannonEntropy": every(base=("e", 2), normalized=(False, True), users=USERS)
    + every(base=("e", 2), users=USERS, weights=("lists",)),
    "Personalization": every(overlap=("k", "cosine"), users=USERS),
    "ILD": every(
        distance=("cosine", "category", "hamming", "jaccard", "cooccurrence"), users=USERS
    ),
    "ILS": every(distance=("cosine", "category", "jaccard", "cooccurrence"), users=USERS),
    "NewToUser": every(users=USERS),
    "Serendipity": every(definition=("popularity", "dissimilarity", "base")),
    "Unexpectedness": every(users=USERS),
    "Intersection": every(ref_k=(None, 1, 4), users=USERS),
    "Calibration": every(divergence=("kl", "js", "hellinger"), users=USERS) + every(alpha=(0.2,)),
    "CategoryDiversity": every(users=USERS),
    "CategoryEntropy": every(weight=WEIGHTS, users=USERS) + every(weight=("geometric",), p=(0.5,)),
    "alpha_nDCG": every(alpha=(0.5, 0, 0.3, 1)),
    "ERR_IA": every(alpha=(0.5, 0, 0.3, 1), normalize=(True, False)),
    "P_IA": [{}],
    "SRecall": every(denominator=("relevant", "catalogue"), numerator=("relevant", "list")),
    "ACLT": every(pop_ratio=RATIOS, users=USERS) + every(tail_ratio=(0.1, 0.5)),
    "APLT": every(pop_ratio=RATIOS, users=USERS, denominator=("k", "list"))
    + every(tail_ratio=(0.1, 0.5, 1.0)),
    "ARP": every(users=USERS, unseen=(0, 1, "skip"), normalize=("none", "interactions", "max")),
    "PopularityQuantile": every(users=USERS),
    "ExpectedExposureLoss": every(weight=WEIGHTS) + every(p=(0.8,)),
    "ExpectedExposureDisparity": every(weight=WEIGHTS) + every(p=(0.8,)),
    "ExpectedExposureRelevance": every(weight=WEIGHTS) + every(p=(0.8,)),
    "AWRF": every(weight=WEIGHTS, users=USERS) + every(weight=("geometric",), p=(0.5,)),
    "PopREO": every(pop_ratio=RATIOS),
    "PopRSP": every(pop_ratio=RATIOS, users=USERS),
    "BiasDisparityBD": [{}],
    "BiasDisparityBR": [{}],
    "BiasDisparityBS": [{}],
    "ItemMADRanking": every(gain=GAINS, discount=(True, False))
    + every(discount=(True, False), users=("lists",)),
    "ItemMADRating": every(appearances=("relevant", "all")),
    "REO": [{}],
    "RSP": [{}],
    "UserMADRanking": every(gain=GAINS),
    "UserMADRating": every(users=USERS),
    "EucDistance": [
        {**FIRST_PAIR, "utopia_points": [1, 1]},
        {**FIRST_PAIR, "utopia_points": [1, 1], "scope": "users"},
        {**OTHER_PAIR, "utopia_points": [0, 1], "scope": "system"},
        {**BY_USER, "utopia_points": [1, 0, 2.5, 1]},
        {
            "metric_names": ["AUC", "RMSE", ("PopRSP", {"pop_ratio": 0.5}), "HitRate"],
            "utopia_points": [1, 0, 0.5, 1],
        },
    ],
    "Hypervolume": [
        {**FIRST_PAIR, "nadir_points": [-0.5, 0]},
        {**FIRST_PAIR, "nadir_points": [-0.5, 0], "scope": "users"},
        {**OTHER_PAIR, "nadir_points": [1, 0], "scope": "system"},
        {**OTHER_PAIR, "nadir_points": [0.1, 0.9], "higher_is_better": [True, False]},
        {
            **BY_USER,
            "nadir_points": [-1, 99, 99, -1],
            "higher_is_better": [True, False, False, True],
        },
        {**BY_USER, "nadir_points": [-1, 99, 99, -1]},
        {"metric_names": HIGHER, "nadir_points": [-1] * len(HIGHER)},
        *(
            {"metric_names": [name, "LAUC"], "nadir_points": [50, -1]}
            for name in LOWER_IS_BETTER
            if name != "EucDistance"
        ),
        NESTED,
        {**NESTED, "scope": "users"},
    ],
}
# Oracles of metrics without parameters need no line above.
METRICS |= {
    metric: [{}]
    for metric in (*USER_METRICS, *GLOBAL_METRICS, *CELL_METRICS, *RATING, *SCORED)
    if metric not in METRICS
}
F1_OF_TWO_FAMILIES = ("F1", {"metric_name_1": "EPC", "metric_name_2": "nDCG"})
SPECS = [(metric, params) for metric, several in METRICS.items() for params in several]
# Others in the same run, which must not change anything, and whose values the composites borrow.
COMPANY = [
    F1_OF_TWO_FAMILIES,
    ("nDCG", {}),
    ("nDCG", {"gain": "linear"}),
    ("Precision", {}),
    ("GAUC", {}),
    ("F1", {}),
]
FEW_SCORES = (-1.5, -0.0, 0.0, 0.5, 2.0, 2.0 + 2.0**-40)


def quick(examples):
    return settings(max_examples=examples, deadline=None, derandomize=True)


def shown(value):
    """A parameter's value as it is written in a name."""
    if isinstance(value, tuple):
        return text(*value)
    return f"[{', '.join(map(shown, value))}]" if isinstance(value, list) else repr(value)


def text(metric, params, k=None):
    """The name that Weft reads."""
    inside = ", ".join(f"{key}={shown(value)}" for key, value in params.items())
    return f"{metric}({inside})" + ("" if k is None else f"@{k}")


def close(value, scale=1.0):
    """Equal to 1e-9, absolutely or relatively; of a difference, relatively to what was
    subtracted.
    """
    return pytest.approx(
        value, rel=1e-9, abs=1e-9 * max(1.0, 0.0 if math.isnan(scale) else abs(scale)), nan_ok=True
    )


@dataclass(frozen=True)
class Problem:
    """Rows of scores for `users`, everything else under these and further ids, and how to
    read it.
    """

    scores: torch.Tensor
    users: tuple[Any, ...]
    truth: dict[Any, dict[int, float]]
    train: dict[Any, list[int]] = field(default_factory=dict)
    mask_seen: bool = True
    threshold: float | None = None
    user_groups: dict[Any, Any] = field(default_factory=dict)
    item_clusters: dict[int, Any] = field(default_factory=dict)
    item_features: dict[int, list[Any]] = field(default_factory=dict)
    item_vectors: dict[int, list[float]] = field(default_factory=lambda: {77: [1.0, 0.5, 2.0]})
    propensities: dict[int, float] | None = None
    reference: dict[Any, list[int]] = field(default_factory=dict)

    def run(self, specs, cutoffs, **how):
        before = self.scores.clone()
        result = weft.evaluate(
            self.scores,
            self.truth,
            users=list(self.users),
            items="positions",
            train=self.train,
            mask_seen=self.mask_seen,
            relevance_threshold=self.threshold,
            user_groups=self.user_groups,
            item_clusters=self.item_clusters,
            item_features=self.item_features,
            inputs={
                name: getattr(self, name) for name in ("item_vectors", "propensities", "reference")
            },
            metrics=[text(*spec) for spec in specs],
            top_k=cutoffs,
            per_user=True,
            **how,
        )
        assert torch.equal(self.scores, before)  # masked scores are given back
        return result

    def world(self):
        """The same as the oracles see it; users of the truth without a row of scores come last."""
        rows = {user: tuple(row) for user, row in zip(self.users, self.scores.double().tolist())}
        rows |= {user: None for user in self.truth if user not in rows}
        return World(
            rows,
            self.truth,
            self.scores.shape[1],
            self.train,
            self.mask_seen,
            self.threshold,
            self.user_groups,
            self.item_clusters,
            self.item_features,
            self.item_vectors,
            self.propensities,
            self.reference,
        )


@st.composite
def problems(draw):
    """Random data of every kind: hypothesis chooses the kind, a generator fills it, lest most of it
    be zeros.
    """
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    num_items, num_rows = int(random.choice([1, 2, 5, 9, 14, 20])), int(random.integers(1, 9))
    ids = (lambda number: f"u{number}") if draw(st.booleans()) else (lambda number: number)
    users = tuple(map(ids, range(100, 100 + num_rows)))
    untold, trained, unknown = (
        [ids(900), ids(901)],
        [ids(998), ids(999)],
        ids(5),
    )  # truth alone, train alone, labels alone

    def table(rows, values):
        return random.choice(values, (rows, num_items))

    dtype = draw(st.sampled_from([torch.float64, torch.float32, torch.float16, torch.bfloat16]))
    tied = draw(st.booleans())
    scores = (
        table(num_rows, FEW_SCORES) if tied else random.uniform(-100, 100, (num_rows, num_items))
    )
    scores[random.random(scores.shape) < draw(st.sampled_from([0.2, 0.0, 0.2, 0.9]))] = -math.inf

    threshold = draw(st.sampled_from([None, 0.5, 2.0]))
    absent = [math.nan] * draw(st.sampled_from([4, 20]))
    rated = table(
        num_rows + 2, [0.0, 0.5, 1.0, 2.0, 5.0, *absent, *([] if threshold is None else [-1.0])]
    ).tolist()
    told = {
        user: {item: r for item, r in enumerate(row) if r == r}
        for user, row in zip((*users, *untold), rated)
    }
    truth = with_cells(told, users)

    popular = random.random(num_items) < 0.5  # the others are cold, or nearly so
    met = table(num_rows + 3, [0, 0, 1, 2]) * (
        popular | (table(num_rows + 3, [0, 1]) * table(num_rows + 3, [0, 1]) > 0)
    )
    share = draw(st.sampled_from([0.7, 1.0, 0.7, 0.7, 0.0]))  # of the users who are in the train
    met *= random.random((num_rows + 3, 1)) < share
    met[0] |= draw(st.sampled_from([0, 0, 0, 1]))  # 1: the first user has met every item
    train = {
        user: [item for item, count in enumerate(row) for _ in range(count)]
        for user, row in zip((*users, untold[0], *trained), met.tolist())
    }

    groups, clusters, tags = (
        draw(st.sampled_from([("F", "M", "Film Noir"), (0, 1, 22), ("F", "M"), ("A",)]))
        for _ in range(3)
    )
    vectors = {
        item: random.choice([-1.5, 0.0, 0.0, 1.0, 2.0], 3).tolist()
        for item in (*range(num_items), 77)
        if item == 77 or random.random() < 0.8
    }
    observed = random.choice([0.0, 0.05, 0.3, 0.8, 1.0], num_items).tolist()
    return Problem(
        torch.from_numpy(scores).to(dtype),
        users,
        truth,
        with_cells(train, (*users, *truth)),
        draw(st.sampled_from([True, True, False])),
        threshold,
        labels(random, (*users, *untold, *trained, unknown), groups),
        labels(random, (*range(num_items), 77), clusters),
        {
            item: [tag for tag in tags if random.random() < 0.4]
            for item in (*range(num_items), 77)
            if random.random() < 0.8
        },
        vectors,
        dict(enumerate(observed)) if draw(st.booleans()) else None,
        {
            user: random.permutation([*range(num_items), 77])[: random.integers(0, 8)].tolist()
            for user in (*users, *untold, unknown)
            if random.random() < 0.8
        },
    )


def with_cells(rows, known):
    """Without the empty rows of users whom nothing else knows: whether such a row makes a user is
    nobody's concern.
    """
    return {user: row for user, row in rows.items() if row or user in known}


def labels(random, ids, kinds):
    """A label for each id; None or no entry for some."""
    chosen = random.integers(-2, 3 * len(kinds), len(ids)).tolist()
    return {
        one: None if choice == -1 else kinds[choice % len(kinds)]
        for one, choice in zip(ids, chosen)
        if choice != -2
    }


def read(metric, cutoffs):
    """The cut-offs at which a metric is read."""
    return [None] if metric in WITHOUT_K else cutoffs


def differences(entries, table, world, metric, params, k):
    """Everything in which a metric of the result differs from the oracle."""
    wanted, plain = answer(metric, world, k, **params), canonical_name(text(metric, params, k))
    if metric not in TARGETS:  # these have cells alone
        entry = entries[plain]
        if entry.value != close(wanted.value):
            yield f"{plain}: {entry.value}, not {wanted.value}"
        if entry.std_error != close(wanted.std_error, wanted.value):
            yield f"{plain}: a standard error of {entry.std_error}, not {wanted.std_error}"
        if entry.users != wanted.users:
            yield f"{plain}: {entry.users} users, not {wanted.users}"
    cells = {name: entry.value for name, entry in entries.items() if name.startswith(f"{plain}[")}
    expected = {
        f"{plain}[{', '.join(map(str, cell))}]": value for cell, value in wanted.cells.items()
    }
    if cells != close(expected):
        yield f"{plain}: cells {cells}, not {expected}"
    if has_user_values(metric, params) != (plain in table):
        yield f"{plain}: {'no ' * (plain not in table)}values per user"
    elif plain in table:
        users = {user: user_answer(metric, world, user, k, **params) for user in world.scores}
        users = {user: value for user, value in users.items() if not math.isnan(value)}
        if table[plain] != close(users):
            yield f"{plain}: users {table[plain]}, not {users}"


def values_per_user(result):
    """The table as {name: {user: value}}, without what is undefined."""
    users, *columns = result.per_user.select(
        "user", *(name for name in result.per_user.columns if name != "user")
    )
    return {
        column.name: {
            user: value
            for user, value in zip(users, column)
            if value is not None and not math.isnan(value)
        }
        for column in columns
    }


def check(problem, specs, cutoffs, **how):
    """Compare values, cells, standard errors, numbers of users and the table of users with the
    oracles.
    """
    result, world = problem.run(specs, cutoffs, **how), problem.world()
    entries, table = {entry.name: entry for entry in result.entries}, values_per_user(result)
    wrong = [
        difference
        for metric, params in specs
        for k in read(metric, cutoffs)
        for difference in differences(entries, table, world, metric, params, k)
    ]
    assert not wrong, "\n".join(wrong)


def test_covers_every_metric_and_parameter_beyond_accuracy():
    known = {
        metric.__name__: set(metric_parameters(metric))
        for metric in built_in_metrics()
        if metric.family != "accuracy" or metric.__name__ in RANKED or metric.needs
    }
    assert known == {
        metric: {name for params in METRICS[metric] for name in params} for metric in METRICS
    }


cutoff_lists = st.lists(
    st.sampled_from([1, 2, 3, 4, 5, 7, 25]), min_size=2, max_size=3, unique=True
)


@pytest.mark.slow
@quick(24)
@given(problem=problems(), cutoffs=cutoff_lists, batch_size=st.sampled_from([1, 3, None]))
def test_all_metrics_in_one_run_match_the_oracles(problem, cutoffs, batch_size):
    check(problem, SPECS + COMPANY, cutoffs, batch_size=batch_size)


@pytest.mark.slow
@pytest.mark.parametrize("metric", METRICS)
@quick(5)
@given(problem=problems(), cutoffs=cutoff_lists, batch_size=st.sampled_from([1, 3, None]))
def test_each_metric_alone_matches_the_oracle(metric, problem, cutoffs, batch_size):
    check(problem, [(metric, params) for params in METRICS[metric]], cutoffs, batch_size=batch_size)


SCORES = torch.tensor([[3.0, 1.0, 2.0, 1.0], [0.0, 0.5, 0.25, 1.0], [1.0, 1.0, 1.0, 1.0]])
NAMES = ("u0", "u1", "u2")
PLAIN = Problem(
    SCORES,
    NAMES,
    truth={"u0": {1: 3.0, 2: 1.0, 0: 0.0}, "u1": {0: 2.0}, "x": {3: 1.0, 1: 5.0}, "u2": {2: 0.0}},
    train={"u0": [0, 0, 3], "u2": [0], "x": [1, 3], "y": [1]},
    user_groups={"u0": "F", "u1": "M", "u2": "F", "y": "M"},
    item_clusters={0: "Drama", 1: "Drama", 2: "Noir", 3: None},
    item_features={0: ["a", "b"], 1: ["b"], 2: [], 3: ["c", "a"]},
    item_vectors={0: [1.0, 0.0], 1: [0.0, 0.0], 2: [-1.0, 2.0], 77: [1.0, 1.0]},
    reference={"u0": [2, 0, 77, 1], "u1": [], "x": [3], "y": [0]},
)
AWKWARD = {
    "plain": PLAIN,
    "nothing is masked": replace(PLAIN, mask_seen=False),
    "one item": replace(
        PLAIN, scores=SCORES[:, :1], truth={"u0": {0: 1.0}, "u1": {0: 0.0}}, train={"y": [0]}
    ),
    "one item, all masked": replace(
        PLAIN,
        scores=SCORES[:, :1],
        truth={"u0": {0: 1.0}},
        train={user: [0] for user in (*NAMES, "y")},
    ),
    "one user": replace(PLAIN, scores=SCORES[:1], users=NAMES[:1], truth={"u0": {1: 1.0}}),
    "nothing offered": replace(PLAIN, scores=torch.full((3, 4), -math.inf)),
    "everything masked": replace(PLAIN, train={user: [0, 1, 2, 3] for user in (*NAMES, "x")}),
    "one user all masked": replace(PLAIN, train={"u1": [0, 1, 2, 3], "u0": [1]}),
    "no truth": replace(PLAIN, truth={}),
    "no train": replace(PLAIN, train={}),
    "empty rows of train": replace(PLAIN, train={user: [] for user in NAMES}),
    "train of others alone": replace(PLAIN, train={"y": [0, 1], "z": [0, 2]}),
    "train of one cell": replace(PLAIN, train={"y": [2]}),
    "nobody has a row": replace(PLAIN, scores=SCORES[:0], users=()),
    "nobody at all": replace(PLAIN, scores=SCORES[:0], users=(), truth={}),
    "everything relevant": replace(
        PLAIN, truth={"u0": dict.fromkeys(range(4), 1.0), "u1": {0: 2.0}}
    ),
    "negative ratings": replace(
        PLAIN, truth={"u0": {0: -3.0, 1: 4.0}, "u1": {2: -1.0}, "x": {0: -1.0}}, threshold=4.0
    ),
    "nobody labelled": replace(PLAIN, user_groups={}, item_clusters={}, item_features={}),
    "labels of strangers": replace(
        PLAIN, user_groups={"q": "F"}, item_clusters={77: "Drama"}, item_features={77: ["a"]}
    ),
    "missing labels": replace(
        PLAIN, user_groups=dict.fromkeys(NAMES), item_clusters=dict.fromkeys(range(4))
    ),
    "one cluster": replace(
        PLAIN, user_groups=dict.fromkeys(NAMES, 0), item_clusters=dict.fromkeys(range(4), 0)
    ),
    "a cluster each": replace(
        PLAIN,
        user_groups={user: user for user in (*NAMES, "x")},
        item_clusters={i: i for i in range(4)},
    ),
    "equal users": replace(
        PLAIN,
        scores=SCORES[[0, 0, 0]],
        truth={user: {1: 3.0, 2: 1.0} for user in NAMES},
        train={"y": [0]},
    ),
    "almost equal scores far from 0": replace(PLAIN, scores=1e4 + SCORES.double() / 64),
    "beyond any float32": replace(PLAIN, scores=SCORES.double() * 1e60),
}


@pytest.mark.parametrize("name", AWKWARD)
def test_edge_cases_match_the_oracle(name):
    check(AWKWARD[name], SPECS + COMPANY, [2, 20], batch_size=2)


@pytest.mark.slow
@quick(6)
@given(problem=problems(), cutoffs=cutoff_lists, data=st.data())
def test_values_do_not_depend_on_user_order_or_batches(problem, cutoffs, data):
    base = problem.run(SPECS + COMPANY, cutoffs, batch_size=7)
    order = data.draw(st.permutations(range(len(problem.users))))
    moved = replace(
        problem,
        scores=problem.scores[list(order)],
        users=tuple(problem.users[row] for row in order),
    )
    for batch_size in (1, 3):
        other = moved.run(SPECS + COMPANY, cutoffs, batch_size=batch_size)
        found = {entry.name: entry for entry in other.entries}
        assert set(base) == set(found)
        for mine in base.entries:
            theirs = found[mine.name]
            assert (mine.value, mine.users) == (close(theirs.value), theirs.users), mine.name
            assert mine.std_error == close(theirs.std_error, theirs.value), mine.name
        mine, theirs = values_per_user(base), values_per_user(other)
        assert mine == {name: close(users) for name, users in theirs.items()}


def test_names_have_parameters_and_labels():
    """Lists at 2: u0 2 1, u1 3 1, u2 1 2, x nothing. Labelled slots: F 2 1 1 2, M 1; Drama is two
    of three labelled items.
    """
    asked = [("Gini", {"denominator": "N"}), ("Gini", {}), ("UserCoverageAtN", {"n": 2})]
    asked += [(metric, {}) for metric in ("BiasDisparityBR", "BiasDisparityBS", "REO")]
    result = PLAIN.run(asked, [2, 3])
    assert result.entry("BiasDisparityBR@2[F, Drama]").users is None
    assert result["BiasDisparityBR@2[F, Drama]"] == close(1 / 2 / (2 / 3))
    assert result["BiasDisparityBR@2[F, Noir]"] == close(1 / 2 / (1 / 3))
    assert result["BiasDisparityBR@2[M, Drama]"] == close(1 / (2 / 3))
    assert result["BiasDisparityBR@2[M, Noir]"] == 0
    # Train: u0 0 3 and u2 0 for F, y 1 for M; item 3 has no label
    assert (
        result["BiasDisparityBS[F, Drama]"] == result["BiasDisparityBS[M, Drama]"] == close(3 / 2)
    )
    # Relevant: u0 1 (hit) and 2 (hit), u1 0, x 1 and 3 (no label)
    assert result["REO@2[Drama]"] == close(1 / 3) and result["REO@2[Noir]"] == 1
    assert result["REO@2"] == close((1 / 3) / (2 / 3))
    # Lists with items 0 to 3: 0 3 2 1, ascending 0 1 2 3 times -3 -1 1 3 is 10; sum 6
    assert (
        result["Gini(denominator='N')@2"] == result["gini(denominator=N)@2"] == close(10 / (4 * 6))
    )
    assert result["Gini(denominator='N-1')@2"] == result["Gini@2"] == close(10 / (3 * 6))
    assert result["UserCoverageAtN(n=2)@3"] == 3
    assert (
        "UserCoverageAtN(n=2)@3" in result.per_user.columns
        and "Gini@2" not in result.per_user.columns
    )


def test_the_order_of_equally_popular_items_decides_the_border_of_the_head():
    train = {"a": ["x", "y"], "b": ["x", "y"]}
    lists = truth = {"a": ["z"], "b": ["x"]}
    names = [f"{name}(pop_ratio=0.5)" for name in ("ACLT", "APLT", "PopREO", "PopRSP")]

    def values(items, ties):
        result = weft.evaluate(
            lists,
            truth,
            train=train,
            items=items,
            metrics=names,
            ties=ties,
            top_k=1,
            mask_seen=False,
        )
        return [result[f"{name}@1"] for name in names]

    for ties in ("index", "expected", "random"):
        # The head is x, the first of two items with equally many interactions.
        assert values(None, ties) == values(["x", "y", "z"], ties) == [0.5, 0.5, 0, 1 / 3]
        assert values(["y", "x", "z"], ties)[:2] == [1, 1]  # the head is y

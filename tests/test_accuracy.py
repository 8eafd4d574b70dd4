"""Accuracy metrics against the oracles: every parameter, on small data with edge cases."""

import itertools
import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import weft
from oracles import (
    LIST_METRICS,
    Case,
    Summary,
    gauc_weight,
    mean_summary,
    relevant,
    summary,
    user_value,
)
from oracles_ranks import RANKED
from weft.batch.gains import compute_gain
from weft.metrics.registry import built_in_metrics, metric_parameters

LINEAR = ("nDCG", {"gain": "linear"})
METRICS: dict[str, list[dict[str, Any]]] = {
    "Precision": [{"denominator": name} for name in ("k", "list")],
    "Recall": [{"normalizer": name} for name in ("relevant", "capped")],
    "HitRate": [{}],
    "F1": [
        {},
        {"beta": 0.5},
        {"metric_name_1": "nDCG", "metric_name_2": "MAP", "beta": 2.0},
        {"metric_name_1": LINEAR, "metric_name_2": ("MAP", {"normalizer": "hits"})},
        {"metric_1": ("Recall", {"normalizer": "capped"}), "metric_2": "LAUC", "beta": 3.0},
        {"metric_name_1": "GAUC", "metric_name_2": "HitRate"},
        {"metric_name_1": ("F1", {"metric_name_1": LINEAR, "beta": 2.0}), "metric_name_2": "MRR"},
    ],
    "MAP": [{"normalizer": name} for name in ("capped", "relevant", "k", "list", "hits")],
    "MAR": [{}],
    "MRR": [{}],
    "nDCG": [
        {"gain": gain, "ideal": ideal}
        for gain, ideal in itertools.product(
            ("exponential", "linear", "binary", "exponential_shifted"), ("cut", "full", "k")
        )
    ]
    + [
        {"gain": [[1.0, 3.0], [2.0, 0.0]], "ideal": "cut"},
        {"gain": [[0.5, 0.25], [1.0, 3.0], [5.0, 4.5]], "ideal": "k"},
        {"gain": "linear", "discount": "capped_log"},
        {"discount": "capped_log", "ideal": "k"},
        {"discount": "reciprocal", "ideal": "full"},
    ],
    "DCG": [{"gain": "linear"}, {"gain": [[1.0, 3.0]], "discount": "capped_log"}],
    "RPrecision": [{"multiple": multiple} for multiple in (1.0, 0.35, 2.0)],
    "RBP": [
        {"p": 0.5},
        {"relevance": "graded"},
        {"relevance": "graded", "max_grade": 5.0},
        {"normalize": True},
    ],
    "ERR": [{"max_grade": highest} for highest in (5.0, 7.0)],
    "nERR": [{"max_grade": 5.0}],
    "IPrec": [{}, {"recall": 0.6}, {"recall": [0.0, 0.25, 1.0], "rounding": "nearest"}],
    "Judged": [{"users": "evaluated"}],
    "RBPResidual": [{"p": 0.5, "users": "evaluated"}],
    **{
        name: [{"universe": one} for one in ("offered", "catalogue")]
        for name in ("Accuracy", "MCC")
    },
    "nDCGRendle2020": [{}],
    "LAUC": [{"completion": name} for name in ("line", "none")],
    "GAUC": [
        *({"weight": name} for name in ("uniform", "positives", "interactions")),
        {"max_fpr": 0.3},
        {"max_fpr": 0.75, "weight": "positives"},
    ],
    **{
        name: [{"insufficient": one} for one in ("ignore", "exclude")]
        for name in ("PartialAUC", "PAP")
    },
    "AUC": [{"scope": name} for name in ("positives", "pooled")],
}
# Oracles of metrics without parameters need no line above.
METRICS |= {metric: [{}] for metric in LIST_METRICS if metric not in METRICS}
SPECS = [(metric, params) for metric, several in METRICS.items() for params in several]
# The last two differ in float64 alone: a cast to a narrower type would tie them.
FEW_SCORES = (-1.5, -0.0, 0.0, 0.5, 2.0, 2.0 + 2.0**-40)


def quick(examples):
    return settings(max_examples=examples, deadline=None, derandomize=True)


def text(metric, params, k=None):
    """The name that Weft reads."""
    shown = {
        key: text(*value) if isinstance(value, tuple) else repr(value)
        for key, value in params.items()
    }
    inside = ", ".join(f"{key}={value}" for key, value in shown.items())
    return f"{metric}({inside})" + ("" if k is None or metric in ("AUC", "GAUC") else f"@{k}")


def close(value):
    return pytest.approx(value, rel=0, abs=1e-9, nan_ok=True)


@dataclass(frozen=True)
class Problem:
    """Rows of scores for `users`, a truth and a train under these and further ids, and how to read
    them.
    """

    scores: torch.Tensor
    users: tuple[Any, ...]
    truth: dict[Any, dict[int, float]]
    train: dict[Any, list[int]] | None = None
    threshold: float | None = None

    def run(self, specs, cutoffs, **how):
        before = self.scores.clone()
        # A cut-off that is optional belongs into the name.
        metrics = [
            text(*spec, k)
            for spec in specs
            for k in (cutoffs if spec[0] == "RPrecision" else [None])
        ]
        named = {
            "users": list(self.users),
            "items": "positions",
            "train": self.train,
            "relevance_threshold": self.threshold,
        }
        result = weft.evaluate(
            self.scores,
            self.truth,
            metrics=metrics,
            top_k=cutoffs,
            per_user=True,
            **named,
            **how,
        )
        assert torch.equal(self.scores, before)  # masked scores are given back
        return result

    def cases(self, missing_lists="zero"):
        """The users as the oracles see them; those of the truth without a row of scores
        come last.
        """
        cases = {}
        for user, row in zip(self.users, self.scores.double().tolist()):
            seen = (self.train or {}).get(user, ())
            scores = tuple(-math.inf if item in seen else score for item, score in enumerate(row))
            cases[user] = Case(scores, self.truth.get(user, {}), self.threshold)
        for user in sorted(self.truth.keys() - cases.keys()):
            if missing_lists == "zero":
                cases[user] = Case(None, self.truth[user], self.threshold, self.scores.shape[1])
        return cases


@st.composite
def problems(draw, tied=False):
    num_items, num_rows = draw(st.integers(1, 12)), draw(st.integers(1, 9))
    dtype = draw(st.sampled_from([torch.float64, torch.float32, torch.float16, torch.bfloat16]))
    some = st.sampled_from(FEW_SCORES) if tied or draw(st.booleans()) else st.floats(-1e4, 1e4)
    scores = draw(tables(num_rows, num_items, some | some | some | st.just(-math.inf)))
    users = tuple(range(100, 100 + num_rows))
    threshold = draw(st.sampled_from([None, 0.5, 2.0]))
    ratings = [0.0, 0.5, 1.0, 2.0, 5.0, math.nan, math.nan, math.nan] + (
        [] if threshold is None else [-1.0]
    )  # NaN: no cell
    rated = draw(tables(num_rows + 2, num_items, st.sampled_from(ratings)))
    truth = {
        user: {item: r for item, r in enumerate(row) if r == r}
        for user, row in zip((*users, 900, 901), rated.tolist())
    }
    train = None
    if draw(st.booleans()):
        seen = draw(tables(num_rows + 2, num_items, st.sampled_from([0, 0, 1])))
        train = {user: np.flatnonzero(row).tolist() for user, row in zip((*users, 900, 999), seen)}
    return Problem(torch.from_numpy(scores).to(dtype), users, truth, train, threshold)


def tables(rows, columns, elements):
    return arrays(np.float64, (rows, columns), elements=elements, fill=st.nothing())


def values_of_users(problem, metric, params, k, ties="index", **how):
    """Value of every user by the oracles; a user of the truth without a relevant item has NaN, or 0
    if so wanted.
    """
    empty = dict.fromkeys(problem.truth, 0.0) if how.get("empty_users") == "zero" else {}
    cases = problem.cases(how.get("missing_lists", "zero"))
    return {
        user: user_value(metric, case, k, ties=ties, **params)
        if relevant(case)
        else empty.get(user, math.nan)
        for user, case in cases.items()
    }


def expected_summary(problem, metric, params, k, ties="index", **how):
    cases = list(problem.cases(how.get("missing_lists", "zero")).values())
    if metric == "AUC" or how.get("empty_users") != "zero":
        return summary(metric, cases, k, ties=ties, **params)
    values = list(values_of_users(problem, metric, params, k, ties, **how).values())
    weights = [gauc_weight(case, params.get("weight", "uniform")) for case in cases]
    counted = [weight for value, weight in zip(values, weights) if not math.isnan(value)]
    return (
        mean_summary(values, weights) if sum(counted) else Summary(math.nan, math.nan, len(counted))
    )


def check(problem, specs, cutoffs, ties="index", **how):
    """Compare values, standard errors, numbers of users and the table of users with the oracles."""
    result = problem.run(specs, cutoffs, ties=ties, **how)
    for (metric, params), k in itertools.product(specs, cutoffs):
        entry = result.entry(text(metric, params, k))
        wanted = expected_summary(problem, metric, params, k, ties, **how)
        assert (entry.value, entry.std_error, entry.users) == close(
            (wanted.value, wanted.std_error, wanted.users)
        ), entry.name
        if metric == "AUC":
            assert entry.name not in result.per_user.columns
            continue
        users = values_of_users(problem, metric, params, k, ties, **how)
        cases, zero = problem.cases(), how.get("empty_users") == "zero"
        users = {
            user: value
            for user, value in users.items()
            if relevant(cases[user]) or (zero and user in problem.truth)
        }
        assert dict(result.per_user.select("user", entry.name).iter_rows()) == close(users), (
            entry.name
        )


def test_covers_every_accuracy_metric_and_parameter():
    known = {
        metric.__name__: set(metric_parameters(metric))
        for metric in built_in_metrics()
        if metric.family == "accuracy" and metric.__name__ not in RANKED and not metric.needs
    }
    assert known == {
        metric: {name for params in METRICS[metric] for name in params} - {"metric_1", "metric_2"}
        for metric in METRICS
    }


settings_of_runs = st.fixed_dictionaries(
    {"batch_size": st.sampled_from([1, 7, None])},
    optional={"empty_users": st.just("zero"), "missing_lists": st.just("skip")},
)
cutoff_lists = st.lists(st.integers(1, 15), min_size=1, max_size=2, unique=True)


@pytest.mark.slow
@pytest.mark.parametrize("metric", METRICS)
@quick(20)
@given(problem=problems(), cutoffs=cutoff_lists, how=settings_of_runs)
def test_every_parameter_matches_the_oracle(metric, problem, cutoffs, how):
    check(problem, [(metric, params) for params in METRICS[metric]], cutoffs, **how)


SCORES = torch.tensor([[3.0, 1.0, 2.0, 1.0], [0.0, 0.5, 0.25, 1.0], [1.0, 1.0, 1.0, 1.0]])
NAMES = ("u0", "u1", "u2")
TRUTH = {"u0": {1: 3.0, 2: 1.0, 0: 0.0}, "u1": {0: 2.0}, "x": {3: 1.0, 1: 5.0}, "u2": {2: 0.0}}
AWKWARD = {
    "plain": Problem(SCORES, NAMES, TRUTH),
    "one item": Problem(SCORES[:, :1], NAMES, {"u0": {0: 1.0}, "u1": {0: 0.0}}),
    "one user": Problem(SCORES[:1], NAMES[:1], {"u0": {1: 1.0}}),
    "nothing offered": Problem(torch.full((3, 4), -math.inf), NAMES, TRUTH),
    "everything masked": Problem(
        SCORES, NAMES, TRUTH, train={user: [0, 1, 2, 3] for user in (*NAMES, "x")}
    ),
    "no truth": Problem(SCORES, NAMES, {}),
    "nobody has a row": Problem(SCORES[:0], (), TRUTH),
    "nobody at all": Problem(SCORES[:0], (), {}),
    "everything relevant": Problem(
        SCORES, NAMES, {"u0": dict.fromkeys(range(4), 1.0), "u1": {0: 2.0}}
    ),
    "negative ratings": Problem(
        SCORES, NAMES, {"u0": {0: -3.0, 1: 4.0}, "u1": {2: -1.0}, "x": {0: -1.0}}, threshold=4.0
    ),
    "relevant items masked": Problem(SCORES, NAMES, TRUTH, train={"u0": [1], "u1": [0, 3]}),
    "equal users": Problem(SCORES[[0, 0, 0]], NAMES, {user: {1: 3.0, 2: 1.0} for user in NAMES}),
    "beyond any float32": Problem(SCORES.double() * 1e300, NAMES, TRUTH),
}


@pytest.mark.parametrize(
    "how", [{}, {"empty_users": "zero", "missing_lists": "skip"}], ids=["default", "zero and skip"]
)
@pytest.mark.parametrize("name", AWKWARD)
def test_edge_cases_match_the_oracle(name, how):
    check(AWKWARD[name], SPECS, [2, 20], batch_size=2, **how)


@pytest.mark.parametrize("metric", ["GAUC", "HitRate"])
def test_f1_of_a_metric_with_itself_is_that_metric(metric):
    check(
        AWKWARD["plain"],
        [("F1", {"metric_name_1": metric, "metric_name_2": metric}), ("MRR", {})],
        [1, 3],
    )


@pytest.mark.slow
@quick(15)
@given(
    problem=problems(),
    cutoffs=cutoff_lists,
    ties=st.sampled_from(["index", "random", "expected"]),
    data=st.data(),
)
def test_values_do_not_depend_on_user_order_or_batches(problem, cutoffs, ties, data):
    specs = [(metric, params[-1]) for metric, params in METRICS.items()]
    base = problem.run(specs, cutoffs, ties=ties, batch_size=7)
    table = {row[0]: row[1:] for row in base.per_user.iter_rows()}
    order = data.draw(st.permutations(range(len(problem.users))))
    moved = replace(
        problem,
        scores=problem.scores[list(order)],
        users=tuple(problem.users[row] for row in order),
    )
    for batch_size in (1, 3, None):
        other = moved.run(specs, cutoffs, ties=ties, batch_size=batch_size)
        for mine, theirs in zip(base.entries, other.entries):
            assert (mine.value, mine.std_error, mine.users) == close(
                (theirs.value, theirs.std_error, theirs.users)
            ), mine.name
        assert {row[0]: row[1:] for row in other.per_user.iter_rows()} == {
            user: close(row) for user, row in table.items()
        }


@pytest.mark.parametrize("rating", [1e-3, 1e-9, 1e-17, 1e-300, 5e-324])
def test_small_ratings_have_gains(rating):
    scores = torch.tensor([[2.0, 1.0, 0.0], [1.0, 2.0, 3.0]])
    truth = {0: {0: rating, 1: 3 * rating}, 1: {1: 1.0}}
    names = ["nDCG@2", "nDCG(gain=linear)@2"]
    result = weft.evaluate(scores, truth, metrics=names, per_user=True)
    assert [value.users for value in result.entries] == [2, 2]
    exponential, linear = (result.per_user[name].to_list() for name in names)
    # Close to 0 the exponential gain is proportional to the rating.
    assert exponential == pytest.approx(linear, rel=0.5 if rating == 5e-324 else 3 * rating + 1e-12)


def test_gains_of_ordinary_ratings_are_exact():
    ratings = torch.arange(0, 40, 0.5, dtype=torch.float64)
    assert torch.equal(compute_gain(ratings, "exponential"), torch.exp2(ratings) - 1)
    assert compute_gain(ratings[::2], "exponential").tolist() == [2**r - 1 for r in range(40)]
    assert compute_gain(ratings[::2], "exponential_shifted").tolist() == [
        2 ** (r + 1) - 1 for r in range(40)
    ]

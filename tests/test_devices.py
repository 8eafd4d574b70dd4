"""Updates on any device do not synchronize, do not mix devices, and match the CPU."""

import json
import os
import subprocess
import sys
import warnings
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from torch.utils._pytree import tree_leaves

import weft
from fake_device_updates import CASES, FAILING, EverySum
from metric_cases import BUILT_IN, OF_OTHER_INPUTS, VARIANTS, has_trait, make_labels
from synchronization_guard import SYNCHRONIZING, SynchronizationError, SynchronizationGuard
from weft._input_kinds import BUILT_IN_INPUTS
from weft.data import DeviceColumn, Train
from weft.data.devices import DEFERRED_ERRORS, is_host_readable, to_device, treat_cpu_as_device
from weft.data.features import read_features
from weft.data.labels import read_positional_labels
from weft.data.side_inputs import read_positional_inputs
from weft.data.targets import read_target
from weft.data.vocabulary import Vocabulary
from weft.errors import InputError, render
from weft.evaluation.update_inputs import select_seen
from weft.metrics.names import parse_name
from weft.metrics.registry import build_metric, needs_cutoff
from weft.ranking import TIE_RULES

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
HERE = Path(__file__).parent
USERS, ITEMS = 12, 61


# --------------------------------------------------------------------------------------- fake tenso


@pytest.fixture(scope="module")
def fake_device_outcomes():
    """What went wrong in each case, None where nothing did; from a process of its own."""
    paths = os.pathsep.join([str(HERE), *sys.path])
    command = [sys.executable, "-W", "ignore", str(HERE / "fake_device_updates.py")]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
        timeout=500,
    )
    assert done.returncode == 0, done.stderr
    return dict(map(json.loads, done.stdout.splitlines()))


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_updates_on_another_device_do_not_synchronize(case, fake_device_outcomes):
    assert fake_device_outcomes[case] is None


@pytest.mark.slow
@pytest.mark.parametrize("case", FAILING)
def test_guard_detects_synchronization(case, fake_device_outcomes):
    assert str(fake_device_outcomes[case]).startswith(FAILING[case][1])


def test_every_metric_has_a_case():
    assert {*BUILT_IN, *VARIANTS} <= set(CASES)


@pytest.mark.parametrize("waiting", SYNCHRONIZING.values(), ids=SYNCHRONIZING)
def test_guard_detects_synchronization_on_the_cpu(waiting):
    with pytest.raises(SynchronizationError), SynchronizationGuard():
        waiting(torch.tensor([1, 2, 3]), torch.tensor([True, False, True]))


# --------------------------------------------------------------------- the same way on the CPU, whe


@contextmanager
def elsewhere():
    """The CPU as any other device, under the guard."""
    with treat_cpu_as_device(), SynchronizationGuard():
        yield


def problem(seed, dtype, *, density=0.06):
    """Scores with ties, items that are not offered, users with everything and with nothing; ratings
    from 0 to 5; train.
    """
    draw = torch.Generator().manual_seed(seed)
    shape = (USERS, ITEMS)
    scores = (torch.randint(-6, 6, shape, generator=draw) / 4).to(dtype)
    scores[torch.rand(shape, generator=draw) < 0.1] = -torch.inf
    scores[3], scores[4, 2:], scores[5] = -torch.inf, -torch.inf, 0.5
    scores[6, ::2] = -0.0
    truth = torch.where(
        torch.rand(shape, generator=draw) < 0.2, torch.randint(0, 6, shape, generator=draw), 0
    ).double()
    truth[1], truth[2] = 0, 1 + torch.arange(ITEMS) % 5
    return scores, truth, torch.rand(shape, generator=draw) < density


def as_ids(truth):
    """The items of each row in any order, -1 anywhere between them; their ratings are lost."""
    draw, ids = torch.Generator().manual_seed(7), torch.full((len(truth), ITEMS + 4), -1)
    for row, ratings in enumerate(truth):
        items = ratings.nonzero().flatten()
        places = torch.randperm(ITEMS + 4, generator=draw)[: len(items)]
        ids[row, places] = items[torch.randperm(len(items), generator=draw)]
    return ids


def forms(truth):
    return {"csr": truth.to_sparse_csr(), "coo": truth.to_sparse_coo(), "ids": as_ids(truth)}


def close(mine, theirs):
    return np.allclose(mine, theirs, rtol=1e-12, atol=1e-12, equal_nan=True)


def same_results(mine, theirs):
    assert mine.counts == theirs.counts
    assert mine.notes == theirs.notes
    assert [value.name for value in mine.entries] == [value.name for value in theirs.entries]
    for one, other in zip(mine.entries, theirs.entries):
        assert close(one.value, other.value), one.name
        assert close(one.std_error, other.std_error), one.name
        assert one.users == other.users
    assert close(mine.per_user.to_numpy(), theirs.per_user.to_numpy())
    assert close(mine.slices["value"].to_numpy(), theirs.slices["value"].to_numpy())


@pytest.mark.parametrize(
    ("rule", "form", "dtype"),
    [
        ("index", "csr", torch.float64),
        ("index", "ids", torch.float16),
        ("random", "ids", torch.float32),
        ("expected", "csr", torch.bfloat16),
        ("pessimistic", "ids", torch.float64),
        ("optimistic", "csr", torch.float32),
    ],
)
def test_evaluator_matches_without_synchronization(rule, form, dtype):
    scores, truth, train = problem(1, dtype)
    assert train.sum(1).max() * 8 <= ITEMS  # so that masking does not wait either

    def run(guard):
        made = weft.Evaluator(
            [*BUILT_IN, *VARIANTS],
            [1, 3, 70],
            train=train,
            ties=rule,
            relevance_threshold=3 if rule != "index" and form == "csr" else None,
            per_user=True,
            slices={"half": ["first", "second", None] * 4},
            **make_labels(USERS, ITEMS),
        )
        for rows in (slice(0, 7), slice(7, 8), slice(8, 12), slice(0, 0)):
            target, users, given = (
                forms(truth[rows])[form],
                torch.arange(USERS)[rows],
                scores[rows].clone(),
            )
            with guard():
                made.update(given, target, users)
            assert torch.equal(given, scores[rows])
        return made.compute()

    same_results(run(elsewhere), run(nullcontext))


@pytest.mark.parametrize("name", [*BUILT_IN, *VARIANTS, *OF_OTHER_INPUTS])
def test_metrics_match_without_synchronization(name):
    scores, truth, train = problem(2, torch.float32)
    inputs = {"train": Train.read(train), **read_labels(), "num_users": USERS, "num_items": ITEMS}
    vectors = torch.randn(ITEMS, 3, generator=torch.Generator().manual_seed(1))
    given = {"item_vectors": vectors, "reference": [[0, 2, 5], None, [1]] + [[4, 3]] * (USERS - 3)}
    inputs |= read_positional_inputs(given, BUILT_IN_INPUTS, USERS, ITEMS)
    spec = parse_name(name)
    for form, target in forms(truth).items():
        if form == "coo" and name not in ("nDCG", "RMSE"):  # the same to all of them as CSR
            continue
        found = []
        for guard in (nullcontext, elsewhere):
            metric = build_metric(
                spec.with_cutoff(4) if needs_cutoff(spec.name) else spec, inputs=inputs
            )
            with guard():
                metric.update(scores.clone(), target, torch.arange(USERS))
                metric.update(scores.clone(), target, torch.arange(USERS))
            value = metric.compute()
            found.append(
                [float(one) for one in (value.values() if isinstance(value, dict) else [value])]
            )
        assert close(*found), form


@pytest.mark.parametrize(
    ("rule", "target"),
    [*zip(TIE_RULES, ("of the candidates", "csr", "csr", "of the candidates", "csr"))],
)
def test_candidates_match_without_synchronization(rule, target):
    scores, truth, train = problem(3, torch.float32)
    items = torch.stack(
        [
            torch.randperm(ITEMS, generator=torch.Generator().manual_seed(user))[:20]
            for user in range(USERS)
        ]
    )
    items[torch.rand(items.shape, generator=torch.Generator().manual_seed(1)) < 0.3] = -1
    items[3], items[4] = -1, torch.arange(20) + ITEMS - 20
    given = torch.where(items >= 0, scores.gather(1, items.clamp(min=0)), 0)
    ratings = torch.where(items >= 0, truth.gather(1, items.clamp(min=0)), 0)

    def run(guard):
        made = weft.Evaluator(
            [*BUILT_IN, *VARIANTS],
            [1, 3, 30],
            train=train,
            ties=rule,
            per_user=True,
            slices={"all": ["one"] * USERS},
            **make_labels(USERS, ITEMS),
        )
        for rows in (slice(0, 5), slice(5, USERS)):
            rated = forms(truth[rows])["csr"] if target == "csr" else ratings[rows]
            with guard():
                made.update(given[rows], rated, torch.arange(USERS)[rows], items[rows])
        return made.compute()

    same_results(run(elsewhere), run(nullcontext))


def read_labels():
    given = make_labels(USERS, ITEMS)
    return {
        "user_groups": read_positional_labels(given["user_groups"], "user_groups", "user", USERS),
        "item_clusters": read_positional_labels(
            given["item_clusters"], "item_clusters", "item", ITEMS
        ),
        "item_features": read_features(
            given["item_features"], "item_features", Vocabulary.from_size("item", ITEMS)
        ),
    }


RANKING = [name for name in BUILT_IN if not has_trait(name, "needs_all_scores")]
EVALUATIONS = {
    "lists without seen items": ("lists", RANKING, {"mask_seen": True, "ties": "random"}),
    "lists of warm items": (
        "lists",
        RANKING,
        {"mask_seen": True, "candidates": "warm", "ties": "expected"},
    ),
    "warm items": ("scores", BUILT_IN, {"candidates": "warm", "ties": "optimistic"}),
    "complete lists": (
        "lists",
        BUILT_IN,
        {"candidates": "listed", "mask_seen": True, "ties": "expected"},
    ),
    "sampled negatives": (
        "scores",
        BUILT_IN,
        {"strategy": "sampled", "num_negatives": 9, "estimator": "rank_estimate"},
    ),
    "resampled users": ("scores", ["nDCG", "Gini", "PopRSP"], {"bootstrap": 20}),
}


@pytest.mark.parametrize("name", EVALUATIONS)
def test_evaluate_matches_with_fixed_shapes(name):
    """It may wait, for a source if for nothing else; but its batches are those of the device."""
    source, metrics, given_settings = EVALUATIONS[name]
    scores, dense, train = problem(5, torch.float32)
    users, items = list(range(USERS)), list(range(ITEMS))
    of_users = [[item for item in items if row[item]] for row in (scores > 0.2).tolist()]
    lists = {user: {item: float(scores[user, item]) for item in of_users[user]} for user in users}
    truth = {
        user: {item: value for item, value in enumerate(row) if value}
        for user, row in enumerate(dense.tolist())
    }
    labels = {name: dict(enumerate(labels)) for name, labels in make_labels(USERS, ITEMS).items()}
    about_scores = {"users": users} if source == "scores" else {}

    def run():
        given_source = scores.clone() if source == "scores" else lists
        return weft.evaluate(
            given_source,
            truth,
            metrics=metrics,
            top_k=[1, 5],
            train=train.int(),
            items=items,
            **about_scores,
            **labels,
            **given_settings,
        )

    usual = run()
    with treat_cpu_as_device():
        other = run()
    assert usual.counts == other.counts
    for one, also in zip(usual.entries, other.entries):
        assert close(
            [one.value, one.std_error, one.boot_low], [also.value, also.std_error, also.boot_low]
        ), one.name


def test_blocks_of_custom_metrics_do_not_synchronize():
    scores, truth, _ = problem(4, torch.float32)

    class Everything(weft.TopKMetric):
        _REQUIRED_COMPONENTS = set(weft.MetricBlock)

        def __init__(self, k, **settings):
            super().__init__(k, **settings)
            zeros = torch.zeros(len(weft.MetricBlock), dtype=torch.float64)
            self.add_state("total", zeros, dist_reduce_fx="sum")

        def update(self, preds, **blocks):
            found = [blocks[which.keyword(self.k)] for which in weft.MetricBlock]
            offered = [torch.where(torch.isinf(block), 0, block).double() for block in found]
            self.total = self.total + torch.stack(
                [(block * torch.arange(block.shape[-1])).sum() for block in offered]
            )

        def compute(self):
            return self.total

    for target in forms(truth).values():
        found = []
        for guard in (nullcontext, elsewhere):
            metric = Everything(k=5, relevance_threshold=1)
            with guard():
                metric.update(scores.clone(), target)
            found.append(metric.compute())
        assert close(*found)


def test_accumulators_of_custom_metrics_do_not_synchronize():
    scores, truth, _ = problem(4, torch.float32)
    groups = ["a", "b", None] * len(scores)
    inputs = {"num_items": scores.shape[1], "user_groups": groups[: len(scores)]}
    for target in forms(truth).values():
        found = []
        for guard in (nullcontext, elsewhere):
            metric = EverySum(k=5, relevance_threshold=1, **inputs)
            with guard():
                metric.update(scores.clone(), target)
            found.append(metric.compute())
        assert close(*found)


# ------------------------------------------------------------------------------------------------ c


@st.composite
def cells(draw):
    rows, items = draw(st.integers(1, 4)), draw(st.integers(1, 6))
    values = draw(
        st.lists(
            st.lists(st.sampled_from([0.0, 0.0, 1.0, 2.5]), min_size=items, max_size=items),
            min_size=rows,
            max_size=rows,
        )
    )
    return torch.tensor(values, dtype=torch.float64), draw(st.integers(0, 3))


@settings(max_examples=30, deadline=None)
@given(cells())
def test_padded_rows_match_unpadded_rows(given_cells):
    dense, width = given_cells
    rows, items = dense.shape
    ids = torch.full((rows, items + width), -1)
    for row in range(rows):
        liked = dense[row].nonzero().flatten()
        ids[row, width : width + len(liked)] = liked.flip(0)
    compact = read_target(
        [row[row >= 0].tolist() for row in ids], rows, num_items=items, device=torch.device("cpu")
    )
    with elsewhere():
        fixed = read_target(
            ids if width else torch.cat([ids, torch.full((rows, 1), -1)], 1),
            rows,
            num_items=items,
            device=torch.device("cpu"),
        )
    everything = torch.arange(items).expand(rows, -1)
    keys = torch.arange(rows * items)
    for kept in (None, 2):
        if kept is not None:
            compact = compact.filter(compact.items % kept == 0)
            with elsewhere():
                fixed = fixed.filter(fixed.items % kept == 0)
        assert fixed.lengths.tolist() == compact.lengths.tolist()
        assert torch.equal(fixed.sum_rows(fixed.items + 1), compact.sum_rows(compact.items + 1))
        assert torch.equal(fixed.to_dense(fixed.values), compact.to_dense(compact.values))
        assert torch.equal(fixed.contains(keys), compact.contains(keys))
        (places, found), (_, also_found) = fixed.find(everything), compact.find(everything)
        assert torch.equal(found, also_found)
        assert torch.equal(fixed.items[places][found], everything[found])
        assert float(fixed.valid_ones.sum()) == len(compact.items)


def test_host_inputs_are_sent_without_synchronization():
    """To a device that nothing can be read from."""
    nowhere = torch.device("meta")
    lists = [[3, 1], [], [5]]
    dense = torch.zeros(3, ITEMS)
    dense[0, [1, 3]], dense[2, 5] = 1, 1
    train = Train.read(torch.ones(4, ITEMS))
    with SynchronizationGuard("meta", may_send=True):
        for target in (lists, as_ids(dense), dense, forms(dense)["csr"], csr_matrix(dense.numpy())):
            rows = read_target(target, 3, num_items=ITEMS, device=nowhere)
            assert {
                part.device
                for part in (rows.offsets, rows.items, rows.values, rows.rows, rows.keys)
            } == {nowhere}
            assert len(rows.items) == 3
        seen = select_seen(train, [2, 0], nowhere)
        assert (len(seen.items), seen.items.device) == (2 * ITEMS, nowhere)


def test_sending_does_not_synchronize_and_receiving_does():
    class Copies(SynchronizationGuard):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func is torch.ops.aten._to_copy.default:
                assert kwargs["non_blocking"]
            return func(*args, **(kwargs or {}))

    with Copies():
        assert to_device(torch.ones(3), torch.device("meta")).device.type == "meta"
    here = torch.ones(3)
    assert to_device(here, torch.device("cpu")) is here


# --------------------------------------------------------------------------------------- what is wr


def _unchecked(item, pointers=(0, 1, 2, 2)):
    """A CSR target with this item, about which torch was not asked whether it is a column."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            list(pointers), [2, item], torch.ones(2), size=(3, ITEMS), check_invariants=False
        )


def faulty():
    """By name: what is given to an evaluator, and which fault it is."""
    scores, users = torch.rand(3, ITEMS), torch.arange(3)
    ids, ones = torch.tensor([[1, 2], [3, -1], [-1, -1]]), torch.ones(3)

    def cells(rows, items, values, is_checked=True):
        return torch.sparse_coo_tensor(
            torch.tensor([rows, items]),
            torch.tensor(values),
            size=(3, ITEMS),
            check_invariants=is_checked,
        )

    def with_score(value, *place):
        changed = scores.clone()
        changed[place] = value
        return changed

    few = torch.tensor([[4, 5], [6, -1], [7, 8]])
    good = torch.rand(3, 2)
    return {
        "NaN": ((with_score(torch.nan, 1, 4), ids, users), "bad_scores"),
        "+inf": ((with_score(torch.inf, 1, 4), ids, users), "bad_scores"),
        "a masked NaN": ((with_score(torch.nan, 1, 0), ids, users), "bad_scores"),
        "a large integer": ((torch.full((3, ITEMS), 2**60), ids, users), "bad_scores"),
        "an item behind the last": (
            (scores, torch.tensor([[1, 2], [3, ITEMS], [-1, -1]]), users),
            "bad_targets",
        ),
        "an item below -1": (
            (scores, torch.tensor([[1, 2], [3, -2], [-1, -1]]), users),
            "bad_targets",
        ),
        "an item twice": (
            (scores, torch.tensor([[2, 2], [3, -1], [-1, -1]]), users),
            "bad_targets",
        ),
        "a cell twice": (
            (scores, cells([0, 0, 1], [2, 2, 3], [1.0, 1.0, 1.0]), users),
            "bad_targets",
        ),
        "no column": ((scores, _unchecked(ITEMS), users), "bad_targets"),
        "no row": (
            (scores, cells([0, 3], [2, 3], [1.0, 1.0], is_checked=False), users),
            "bad_targets",
        ),
        "a negative row": (
            (scores, cells([0, -1], [2, 3], [1.0, 1.0], is_checked=False), users),
            "bad_targets",
        ),
        "pointers behind the end": ((scores, _unchecked(3, (0, 1, 2, 9)), users), "bad_targets"),
        "descending pointers": ((scores, _unchecked(3, (0, 2, 1, 2)), users), "bad_targets"),
        "a rating of NaN": (
            (scores, cells([0, 1], [2, 3], [1.0, torch.nan]), users),
            "bad_ratings",
        ),
        "a rating of inf": (
            (scores, cells([0, 1], [2, 3], [1.0, torch.inf]), users),
            "bad_ratings",
        ),
        "a negative rating": ((scores, cells([0, 1], [2, 3], [1.0, -1.0]), users), "bad_ratings"),
        "a user behind the last": ((scores, ids, torch.tensor([0, 1, 3])), "bad_users"),
        "a negative user": ((scores, ids, torch.tensor([0, 1, -1])), "bad_users"),
        "no candidate": (
            (good, ids[:, :1], users, torch.tensor([[4, 5], [6, ITEMS], [7, 8]])),
            "bad_candidates",
        ),
        "a candidate below -1": (
            (good, ids[:, :1], users, torch.tensor([[4, 5], [6, -2], [7, 8]])),
            "bad_candidates",
        ),
        "a candidate twice": (
            (good, ids[:, :1], users, torch.tensor([[4, 4], [6, -1], [7, 8]])),
            "bad_candidates",
        ),
        "a rating of no candidate": ((good, torch.ones(3, 2), users, few), "bad_candidates"),
        "a candidate of NaN": (
            (torch.stack([ones, ones * torch.nan], 1), ids[:, :1], users, few + 10),
            "bad_scores",
        ),
    }


@pytest.mark.parametrize("name", faulty())
def test_rejects_wrong_input_at_once_or_in_compute(name):
    arguments, fault = faulty()[name]

    def made():
        train = torch.zeros(3, ITEMS)
        train[:, 0] = 1
        return weft.Evaluator(["nDCG", "BiasDisparityBR"], 3, train=train, **make_labels(3, ITEMS))

    with pytest.raises(InputError):
        made().update(*arguments)
    evaluator = made()
    with elsewhere():
        evaluator.update(*arguments)
    with pytest.raises(InputError) as refused:
        evaluator.compute()
    assert str(refused.value) == render(DEFERRED_ERRORS[fault])
    evaluator.reset()
    with elsewhere():
        evaluator.update(
            torch.rand(3, ITEMS), torch.tensor([[1, 2], [3, -1], [-1, -1]]), torch.arange(3)
        )
    assert evaluator.compute().counts["users"] == 3


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, (arguments, fault) in faulty().items()
        if len(arguments) == 3 and "masked" not in name
    ],
)
def test_metrics_reject_wrong_input_at_once_or_in_compute(name):
    arguments, fault = faulty()[name]
    groups = read_positional_labels(["F", "M", "F"], "user_groups", "user", 3)
    for made in (
        lambda: weft.metrics.UserMADRanking(k=3, user_groups=groups),
        lambda: weft.metrics.AUC(scope="pooled"),
    ):
        if fault == "bad_users" and "user_groups" not in made().own_inputs():
            continue
        with pytest.raises(InputError):
            made().update(*arguments)
        metric = made()
        with elsewhere():
            metric.update(*arguments)
        with pytest.raises(InputError) as refused:
            metric.compute()
        assert str(refused.value) == render(DEFERRED_ERRORS[fault])
        metric.reset()
        with elsewhere():
            metric.update(
                torch.rand(3, ITEMS), torch.tensor([[1, 2], [3, -1], [-1, -1]]), torch.arange(3)
            )
        metric.compute()


def test_masks_long_train_rows_on_the_host():
    """Padding them would take more memory than the scores; so this waits, and the docs say so."""
    train = torch.ones(3, ITEMS)
    train[1:, 1:] = 0
    evaluator = weft.Evaluator("nDCG", 3, train=train)
    arguments = (torch.rand(3, ITEMS), torch.tensor([[1], [2], [3]]), torch.arange(3))
    with treat_cpu_as_device():
        evaluator.update(*arguments)
    usual = weft.Evaluator("nDCG", 3, train=train)
    usual.update(*arguments)
    assert evaluator.compute()["nDCG@3"] == usual.compute()["nDCG@3"]


# --------------------------------------------------------------------------------------------------


def narrow_scores(dtype):
    """Scores that the type rounds together, its smallest numbers, and both zeros; as they come out
    of the type.
    """
    tiny = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps  # the smallest that is not 0
    apart = [
        1 + step * torch.finfo(dtype).eps / 8 for step in range(8)
    ]  # distinct in float32, two values here
    values = [
        0.0,
        -0.0,
        tiny,
        -tiny,
        2 * tiny,
        *apart,
        -1.0,
        5e4,
        -torch.inf,
        *(-value for value in apart),
    ]
    draw = torch.Generator().manual_seed(5)
    scores = torch.stack(
        [torch.tensor(values)[torch.randperm(len(values), generator=draw)] for _ in range(40)]
    ).to(dtype)
    assert scores.float().unique().numel() == 10  # of 24 that were given
    return scores


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("guard", [nullcontext, elsewhere], ids=["CPU", "any device"])
def test_16_bit_scores_are_ranked_as_given(guard, dtype):
    scores = narrow_scores(dtype)
    users, items = scores.shape
    exact = scores.double().tolist()  # which holds every 16-bit number
    ranked = [
        sorted(
            (item for item in range(items) if row[item] > -np.inf),
            key=lambda item: (-row[item], item),
        )
        for row in exact
    ]
    target = torch.arange(users) % items
    k = 12
    expected = [
        (ranked[user] + [-1])[:k].index(item) + 1 if item in ranked[user][:k] else k + 1
        for user, item in enumerate(target.tolist())
    ]
    evaluator, alone = weft.Evaluator("MRR", k, per_user=True), weft.metrics.MRR(k=k)
    with guard():
        ranks = weft.get_topk_ranks(scores.clone(), target, topk=k)
        evaluator.update(scores.clone(), target)
        alone.update(scores.clone(), target)
    assert ranks.flatten().tolist() == expected
    reciprocal = [1 / rank if rank <= k else 0.0 for rank in expected]
    assert evaluator.compute().per_user[f"MRR@{k}"].to_list() == reciprocal
    assert close(alone.compute(), np.mean(reciprocal))
    assert 0 < np.mean([rank <= k for rank in expected]) < 1


# --------------------------------------------------------------------------------------------------


def test_devices_without_float64_sum_in_float32(monkeypatch):
    """As MPS does; here the CPU is such a device."""
    scores, truth, train = problem(6, torch.float32, density=0.03)

    class NoFloat64(SynchronizationGuard):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            found = super().__torch_dispatch__(func, types, args, kwargs)
            assert not any(
                part.dtype == torch.float64
                for part in tree_leaves(found)
                if isinstance(part, torch.Tensor)
            ), func
            return found

    def narrowed(values):
        return values.float() if values.dtype == torch.float64 else values

    def made():
        labels = read_labels()
        slices = {"half": ["first", "second", None] * 4}
        return weft.Evaluator(
            [*BUILT_IN, *VARIANTS],
            [3],
            train=Train.read(train),
            num_users=USERS,
            per_user=True,
            slices=slices,
            **labels,
        )

    usual, narrow, batch = made(), made(), (scores, as_ids(truth), torch.arange(USERS))
    usual.update(*batch)
    for module in [
        module
        for name, module in sys.modules.items()
        if name.startswith("weft") and hasattr(module, "float_type")
    ]:
        monkeypatch.setattr(module, "float_type", lambda device: torch.float32)
    monkeypatch.setattr(DeviceColumn, "to", lambda column, device: narrowed(column.values))
    narrow.to("cpu")
    assert {narrow.sums.dtype, narrow.counts.dtype} == {torch.float32}
    with treat_cpu_as_device():
        narrow.update(*batch)  # brings the inputs there
        narrow.reset()
        with NoFloat64():
            narrow.update(*batch)
    for one, other in zip(narrow.compute().entries, usual.compute().entries):
        assert np.isclose(one.value, other.value, rtol=1e-4, atol=1e-5, equal_nan=True), one.name


def test_moving_an_evaluator_moves_values_per_user():
    evaluator = weft.Evaluator("Recall", 1, per_user=True)
    evaluator.update(torch.rand(2, 3), torch.tensor([[0], [1]]))
    evaluator.to("meta")
    assert {
        part.device.type
        for part in (evaluator.sums, evaluator.counts, *evaluator._table[0].values())
    } == {"meta"}


def test_only_the_cpu_is_host_readable():
    assert is_host_readable(torch.device("cpu"))
    assert not is_host_readable(torch.device("cuda", 0))
    with treat_cpu_as_device():
        assert not is_host_readable(torch.device("cpu"))
    assert is_host_readable(torch.device("cpu"))


def test_rejects_ranks_of_wrong_rows_in_compute():
    scores = torch.rand(4, 5)
    scores[0, 1], scores[1, 2] = torch.nan, torch.inf
    target = torch.tensor([0, 1, 5, 3])
    with elsewhere():
        ranks = weft.get_topk_ranks(scores, target, topk=5)
        metric = weft.NDCG(5)
        metric.update(ranks)
    assert ranks[:3].flatten().tolist() == [0, 0, 0]
    assert 1 <= int(ranks[3]) <= 5
    with pytest.raises(InputError, match="3 ranks are below 1"):
        metric.compute()
    with pytest.raises(InputError, match="target contains the item 5"):
        weft.get_topk_ranks(scores, target, topk=5)

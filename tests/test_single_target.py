"""Ranks and metrics of single targets match HitRate, nDCG and MRR."""

import copy
import io
import math
import pickle

import numpy as np
import pytest
import torch
from torchmetrics import MetricCollection

import weft
from weft.errors import InputError, SettingError, UnknownParameter, WeftError
from weft.ranking import TieRule

ROWS, ITEMS = 40, 17
GENERATOR = torch.Generator().manual_seed(9)
SCORES = torch.randint(
    -6, 6, (ROWS, ITEMS), generator=GENERATOR
).float()  # ties everywhere, negative scores
SCORES[torch.rand(ROWS, ITEMS, generator=GENERATOR) < 0.2] = -torch.inf
TARGET = torch.randint(0, ITEMS, (ROWS,), generator=GENERATOR)
PAIRS = {
    "HR": (weft.HR, weft.metrics.HitRate),
    "NDCG": (weft.NDCG, weft.metrics.nDCG),
    "MRR": (weft.MRR, weft.metrics.MRR),
}


def rank_of(row, target, topk):
    """By definition: position by (score descending, index ascending) among what is offered."""
    offered = sorted(
        (i for i in range(len(row)) if row[i] > -math.inf), key=lambda i: (-row[i], i)
    )[:topk]
    return offered.index(target) + 1 if target in offered else topk + 1


@pytest.mark.parametrize("topk", [1, 3, ITEMS, ITEMS + 1, 4 * ITEMS])
@pytest.mark.parametrize("column", [False, True])
def test_ranks_match_the_definition(topk, column):
    ranks = weft.get_topk_ranks(SCORES, TARGET[:, None] if column else TARGET, topk)
    assert ranks.shape == (ROWS, 1) and ranks.dtype == torch.int64
    assert ranks.flatten().tolist() == [
        rank_of(row, target, topk) for row, target in zip(SCORES.tolist(), TARGET.tolist())
    ]


@pytest.mark.parametrize(
    "kind", [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32]
)
def test_ranks_of_other_types(kind):
    scores = SCORES.nan_to_num(neginf=-9.0)
    assert torch.equal(
        weft.get_topk_ranks(scores.to(kind), TARGET.int(), 5),
        weft.get_topk_ranks(scores, TARGET, 5),
    )


def test_ranks_of_other_layouts():
    expected = weft.get_topk_ranks(SCORES, TARGET, 5)
    with torch.inference_mode():
        inference = SCORES.clone()
    for scores in (SCORES.T.contiguous().T, SCORES.clone().requires_grad_(), inference):
        before = scores.detach().clone()
        ranks = weft.get_topk_ranks(scores, TARGET, 5)
        assert (
            torch.equal(ranks, expected) and not ranks.requires_grad and torch.equal(scores, before)
        )


def test_equal_scores_rank_by_index():
    constant = torch.zeros(ITEMS, ITEMS)
    assert weft.get_topk_ranks(constant, torch.arange(ITEMS), ITEMS).flatten().tolist() == list(
        range(1, ITEMS + 1)
    )
    assert weft.get_topk_ranks(torch.tensor([[0.0, -0.0]]), torch.tensor([1]), 2).item() == 2


def test_masked_targets_are_misses():
    scores = torch.tensor([[-math.inf, 1.0], [-math.inf, -math.inf]])
    assert weft.get_topk_ranks(scores, torch.tensor([0, 1]), 2).flatten().tolist() == [3, 3]


@pytest.mark.parametrize(("rows", "items"), [(0, 4), (3, 0), (0, 0)])
def test_empty_scores(rows, items):
    ranks = weft.get_topk_ranks(torch.zeros(rows, items), torch.zeros(rows, dtype=torch.int64), 2)
    assert ranks.tolist() == [[3]] * rows


@pytest.mark.parametrize("k", [1, 2, 5, ITEMS, ITEMS + 5])
@pytest.mark.parametrize("name", PAIRS)
def test_matches_general_metrics(name, k):
    single, general = PAIRS[name][0](k=k), PAIRS[name][1](k=k)
    for rows in torch.arange(ROWS).split(13):
        single.update(weft.get_topk_ranks(SCORES[rows], TARGET[rows], topk=max(k, 5)))
        general.update(SCORES[rows], TARGET[rows])
    assert float(single.compute()) == pytest.approx(float(general.compute()), abs=1e-12)
    evaluated = weft.evaluate(
        SCORES, {row: [int(item)] for row, item in enumerate(TARGET)}, metrics=[general.spec]
    )
    assert (
        float(single.compute()) == pytest.approx(evaluated[str(general.spec)], abs=1e-12)
        and 0 < float(single.compute()) <= 1
    )


RULES = ["index", "random", "pessimistic", "optimistic"]
USERS = torch.randperm(1000, generator=GENERATOR)[:ROWS]
KINDS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


def rank_by_rule(row, target, topk, rule, user):
    """By definition: whoever is offered and scores higher comes first; of those that score alike,
    as the rule says.
    """
    if row[target] == -math.inf:
        return topk + 1
    alike = [i for i in range(len(row)) if row[i] == row[target] and i != target]
    drawn = (
        TieRule(rule.split()[0], 3)
        .hash(torch.tensor([user]), torch.arange(len(row))[None])[0]
        .tolist()
    )
    first = {
        "index": [i for i in alike if i < target],
        "random": [i for i in alike if drawn[i] < drawn[target]],
        "pessimistic": alike,
        "optimistic": [],
    }[rule]
    return min(topk + 1, 1 + sum(score > row[target] for score in row) + len(first))


@pytest.mark.parametrize("topk", [1, 4, ITEMS, ITEMS + 3])
@pytest.mark.parametrize("rule", RULES)
def test_ranks_match_the_definition_under_each_tie_rule(rule, topk):
    ranks = weft.get_topk_ranks(SCORES, TARGET, topk, ties=rule, seed=3, user_indices=USERS)
    wanted = [
        rank_by_rule(*row, topk, rule, user)
        for *row, user in zip(SCORES.tolist(), TARGET.tolist(), USERS.tolist())
    ]
    assert ranks.flatten().tolist() == wanted
    assert len(set(wanted)) > 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rule", RULES)
def test_matches_general_metrics_under_each_tie_rule(rule, kind):
    """Alone and in an Evaluator, in batches, with targets that are not offered (a fifth of
    them).
    """
    scores = (SCORES / 7).to(kind)
    names = {
        f"{name}@{k}": str(general(k=k).spec)
        for name, (_, general) in PAIRS.items()
        for k in (1, 3, 10)
    }
    single = MetricCollection(
        {f"{name}@{k}": metric(k) for name, (metric, _) in PAIRS.items() for k in (1, 3, 10)}
    )
    alone = [general(k=k, ties=rule, seed=5) for _, general in PAIRS.values() for k in (1, 3, 10)]
    evaluator = weft.Evaluator(list(names.values()), ties=rule, seed=5)
    for rows in torch.arange(ROWS).split(13):
        users = USERS[rows]
        single.update(
            weft.get_topk_ranks(
                scores[rows], TARGET[rows], 10, ties=rule, seed=5, user_indices=users
            )
        )
        for other in (*alone, evaluator):
            other.update(scores[rows], TARGET[rows], users)
    found, result = single.compute(), evaluator.compute()
    assert result.counts["relevant_not_offered"] > 0
    for metric in alone:
        assert float(metric.compute()) == pytest.approx(result[str(metric.spec)], abs=1e-12)
    for name, general in names.items():
        assert float(found[name]) == pytest.approx(result[general], abs=1e-12), name


def test_tie_rules_lie_between_the_bounds():
    """Every rule lies between the worst and the best; the mean of many random draws is the expected
    value.
    """
    ranks = {rule: weft.get_topk_ranks(SCORES, TARGET, ITEMS, ties=rule) for rule in RULES}
    assert (ranks["optimistic"] <= ranks["random"]).all() and (
        ranks["random"] <= ranks["pessimistic"]
    ).all()
    assert (ranks["optimistic"] < ranks["pessimistic"]).any()
    metric, expected = weft.NDCG(k=5), weft.metrics.nDCG(k=5, ties="expected")
    for seed in range(300):
        metric.update(weft.get_topk_ranks(SCORES, TARGET, 5, ties="random", seed=seed))
    expected.update(SCORES, TARGET)
    assert float(metric.compute()) == pytest.approx(float(expected.compute()), abs=0.01)


def test_rejects_expected_ties():
    with pytest.raises(
        SettingError, match=r"expected.*not give a single rank.*nDCG\(k=10, ties='expected'\)"
    ):
        weft.get_topk_ranks(SCORES, TARGET, 5, ties="expected")
    with pytest.raises(SettingError, match=r"ties='best'.*index"):
        weft.get_topk_ranks(SCORES, TARGET, 5, ties="best")
    with pytest.raises(InputError, match="user_indices"):
        weft.get_topk_ranks(SCORES, TARGET, 5, ties="random", user_indices=USERS[:3])


def test_random_ties_depend_on_the_user_and_not_on_the_batch():
    whole = weft.get_topk_ranks(SCORES, TARGET, 5, ties="random", user_indices=USERS)
    parts = [
        weft.get_topk_ranks(SCORES[rows], TARGET[rows], 5, ties="random", user_indices=USERS[rows])
        for rows in torch.arange(ROWS).split(7)
    ]
    assert torch.equal(torch.cat(parts), whole)
    assert not torch.equal(
        weft.get_topk_ranks(SCORES, TARGET, 5, ties="random", seed=1, user_indices=USERS), whole
    )


def saved_and_loaded(ranks):
    file = io.BytesIO()
    torch.save(ranks, file)
    file.seek(0)
    return torch.load(file)


MOVED = {
    "to": lambda ranks: ranks.to(torch.int32),
    "clone": torch.clone,
    "cat": lambda ranks: torch.cat([ranks, ranks]),
    "cat with plain ones": lambda ranks: torch.cat([torch.tensor([[1]]), ranks]),
    "stack": lambda ranks: torch.stack([ranks, ranks]),
    "row": lambda ranks: ranks[0],
    "some rows": lambda ranks: ranks[torch.tensor([0])],
    "resampled": lambda ranks: ranks.index_select(0, torch.tensor([0, 0])),
    "split": lambda ranks: ranks.split(1)[0],
    "flat": lambda ranks: ranks.flatten(),
    "squeezed": lambda ranks: ranks.squeeze(1).contiguous().view(-1),
    "copied": copy.deepcopy,
    "pickled": lambda ranks: pickle.loads(pickle.dumps(ranks)),
    "saved": saved_and_loaded,
    "like it": torch.zeros_like,
}


@pytest.mark.parametrize("moved", MOVED.values(), ids=MOVED)
def test_ranks_keep_their_topk(moved):
    ranks = moved(weft.get_topk_ranks(SCORES, TARGET, 3))
    with pytest.raises(SettingError, match=r"k=5.*topk=3"):
        weft.HR(k=5).update(ranks)
    assert isinstance(ranks, torch.Tensor) and repr(ranks).startswith("tensor(")


@pytest.mark.parametrize("metric", [weft.HR, weft.NDCG, weft.MRR])
def test_empty_batches_add_nothing(metric):
    made = metric(k=3)
    assert math.isnan(made(weft.get_topk_ranks(SCORES[:0], TARGET[:0], 3)))
    made.update(torch.tensor([[1]]))
    assert float(made.compute()) == 1


def test_concatenated_ranks_have_the_smallest_topk():
    joined = torch.cat([weft.get_topk_ranks(SCORES, TARGET, topk) for topk in (9, 4, 7)])
    with pytest.raises(SettingError, match="topk=4"):
        weft.HR(k=5).update(joined)
    weft.HR(k=4).update(joined)


def test_operations_on_ranks_return_plain_tensors():
    ranks = weft.get_topk_ranks(SCORES, TARGET, 3)
    for computed in (
        ranks <= 2,
        1 / ranks,
        ranks.double(),
        ranks.sum(),
        ranks + 1,
        ranks.float().mean(),
    ):
        assert type(computed) is torch.Tensor
    assert ranks.tolist() == ranks.numpy().tolist()


@pytest.mark.parametrize("metric", [weft.HR, weft.NDCG, weft.MRR])
def test_accepts_settings_of_torchmetrics(metric):
    assert metric(k=3, sync_on_compute=False, compute_with_cache=False).sync_on_compute is False
    with pytest.raises(
        UnknownParameter, match=r"no parameter 'sync_on_computer'. Did you mean 'sync_on_compute'"
    ):
        metric(k=3, sync_on_computer=False)
    with pytest.raises(UnknownParameter, match="no parameter 'ties'"):
        metric(k=3, ties="index")


def test_values_on_worked_example():
    ranks = torch.tensor([[1], [2], [4], [3]])  # topk = 3: the third row is a miss
    wanted = {
        "HR": 3 / 4,
        "NDCG": (1 + 1 / math.log2(3) + 1 / 2) / 4,
        "MRR": (1 + 1 / 2 + 1 / 3) / 4,
    }
    for name, (metric, _) in PAIRS.items():
        for form in (ranks, ranks.flatten(), ranks.int()):
            assert float(metric(k=3)(form)) == pytest.approx(wanted[name], abs=1e-12)
    assert float(weft.HR(k=2)(ranks)) == 0.5  # a smaller cut-off reads the same ranks


def test_an_all_miss_first_batch_in_a_collection():
    metrics = {f"{name}@{k}": metric(k) for name, (metric, _) in PAIRS.items() for k in (1, 3)}
    collection = MetricCollection(metrics)
    for ranks in ([[4], [4]], [[2], [2]]):
        collection.update(torch.tensor(ranks))
    got = {name: float(value) for name, value in collection.compute().items()}
    wanted = {
        "HR@1": 0,
        "NDCG@1": 0,
        "MRR@1": 0,
        "HR@3": 0.5,
        "NDCG@3": 0.5 / math.log2(3),
        "MRR@3": 0.25,
    }
    assert got == pytest.approx(wanted)
    collection.reset()
    collection.update(torch.tensor([[1]]))
    assert {float(value) for value in collection.compute().values()} == {1.0}


@pytest.mark.parametrize(
    "clone", [copy.deepcopy, lambda metric: pickle.loads(pickle.dumps(metric))]
)
def test_copies_have_their_own_state(clone):
    metric = weft.MRR(k=5)
    metric.update(torch.tensor([[2]]))
    other = clone(metric)
    other.update(torch.tensor([[6]]))
    assert (float(metric.compute()), float(other.compute())) == (0.5, 0.25)
    metric.reset()
    metric.update(torch.tensor([[1]]))
    assert float(metric.compute()) == 1.0


RANKING_ERRORS = {
    "too few targets": (
        lambda: (SCORES, TARGET[:3], 2),
        InputError,
        r"\[40, 17\].*\[3\].*one target per row",
    ),
    "several targets": (
        lambda: (SCORES, TARGET[:, None].repeat(1, 2), 2),
        InputError,
        r"\[40, 2\].*one target per row",
    ),
    "scores of a row": (
        lambda: (SCORES[0], TARGET[:1], 2),
        InputError,
        r"\[17\].*\[batch, items\]",
    ),
    "topk 0": (lambda: (SCORES, TARGET, 0), SettingError, "topk=0.*of at least 1"),
    "topk True": (lambda: (SCORES, TARGET, True), SettingError, "topk=True.*an integer"),
    "topk 2.5": (lambda: (SCORES, TARGET, 2.5), SettingError, "topk=2.5.*an integer"),
    "topk a word": (lambda: (SCORES, TARGET, "2"), SettingError, "topk='2'.*an integer"),
    "lists": (
        lambda: (SCORES.tolist(), TARGET.tolist(), 2),
        InputError,
        "pred_scores.*list.*tensor",
    ),
    "arrays": (
        lambda: (SCORES.numpy(), TARGET.numpy(), 2),
        InputError,
        "pred_scores.*ndarray.*tensor",
    ),
    "NaN": (
        lambda: (SCORES.masked_fill(SCORES == 2, math.nan), TARGET, 2),
        InputError,
        "NaN.*finite",
    ),
    "+inf": (
        lambda: (SCORES.masked_fill(SCORES == 2, math.inf), TARGET, 2),
        InputError,
        r"\+inf.*finite",
    ),
    "target beyond the catalogue": (
        lambda: (SCORES, TARGET + ITEMS, 2),
        InputError,
        "target.*0 to 16",
    ),
    "target negative": (lambda: (SCORES, TARGET - ITEMS, 2), InputError, "target.*0 to 16"),
    "target fractions": (lambda: (SCORES, TARGET + 0.5, 2), InputError, "target.*float32"),
}


@pytest.mark.parametrize(("given", "error", "says"), RANKING_ERRORS.values(), ids=RANKING_ERRORS)
def test_rejects_wrong_scores_and_targets(given, error, says):
    with pytest.raises(error, match=f"(?s){says}"):
        weft.get_topk_ranks(*given())


@pytest.mark.parametrize("metric", [weft.HR, weft.NDCG, weft.MRR])
def test_rejects_cutoffs_beyond_topk(metric):
    """A miss is topk + 1: with a larger k it would count as a hit."""
    with pytest.raises(WeftError, match=r"k=10.*topk"):
        metric(k=10).update(
            weft.get_topk_ranks(torch.tensor([[0.9, 0.8, 0.1]]), torch.tensor([2]), topk=1)
        )


@pytest.mark.parametrize("metric", [weft.HR, weft.NDCG, weft.MRR])
@pytest.mark.parametrize("k", [0, -1, 2.5, True, "3", None])
def test_rejects_wrong_cutoffs(metric, k):
    with pytest.raises(SettingError, match=f"{metric.__name__} got the cut-off k=.*of at least 1"):
        metric(k=k)


@pytest.mark.parametrize(
    "ranks",
    [[1, 2], np.array([1]), torch.tensor([[0]]), torch.tensor([[-1]]), torch.tensor([[1.5]]), None],
    ids=repr,
)
def test_rejects_wrong_ranks(ranks):
    with pytest.raises(InputError, match="rank"):
        weft.NDCG(k=3).update(ranks)


def test_metric_of_hits_can_be_overridden():
    class HalfLife(weft.MRR):
        """The sum of 2^(1 - rank), over the ranks of hits only."""

        def _metric(self, topk_rank):
            assert (topk_rank <= self.k).all()
            return torch.sum(2.0 ** (1 - topk_rank))

    class Doubled(weft.NDCG):
        def _metric(self, topk_rank):
            return 2 * super()._metric(topk_rank)

    ranks = weft.get_topk_ranks(SCORES, TARGET, 5)
    half_life, doubled, ndcg = HalfLife(k=3), Doubled(k=3), weft.NDCG(k=3)
    for metric in (half_life, doubled, ndcg):
        metric.update(ranks[:15])
        metric.update(ranks[15:])
    hits = [rank for rank in ranks.flatten().tolist() if rank <= 3]
    assert 0 < len(hits) < ROWS
    assert half_life.compute() == pytest.approx(sum(2.0 ** (1 - rank) for rank in hits) / ROWS)
    assert doubled.compute() == pytest.approx(2 * float(ndcg.compute()), rel=1e-12)


@pytest.mark.parametrize("name", PAIRS)
def test_states_have_aliases(name):
    metric = PAIRS[name][0](k=3)
    metric.update(weft.get_topk_ranks(SCORES, TARGET, 5))
    assert metric.accumulate_count == ROWS
    assert metric.compute() == metric.accumulate_metric / metric.accumulate_count
    metric.accumulate_count += ROWS
    metric._computed = None
    assert metric.compute() == metric.accumulate_metric / (2 * ROWS)
    metric.reset()
    assert metric.accumulate_count == metric.accumulate_metric == 0

"""Accumulators: each is computed once per batch, for all metrics and cut-offs."""

from collections import Counter
from contextlib import closing

import pytest
import torch

import weft
from metric_cases import BUILT_IN, make_labels
from weft.batch.batch import BatchInputs, RankingOptions
from weft.batch.ranked_batch import rank_batch
from weft.data.targets import read_target
from weft.evaluation.update_inputs import select_seen
from weft.metrics import accumulators, state_layout
from weft.metrics.accumulators import (
    Accumulator,
    ItemCandidacy,
    ItemExposure,
    ItemHits,
    ItemRelevance,
)
from weft.metrics.mean_sums import MEAN_SUMS
from weft.ranking import TieRule

USERS, ITEMS, CUTOFFS = 40, 25, [5, 1, 20, 10, 3]
GENERATOR = torch.Generator().manual_seed(5)
SCORES = torch.rand(USERS, ITEMS, generator=GENERATOR)
SCORES[torch.rand(USERS, ITEMS, generator=GENERATOR) < 0.1] = -torch.inf
SCORES[3] = -torch.inf
TARGET = (torch.rand(USERS, ITEMS, generator=GENERATOR) < 0.15).int()
TRAIN = (torch.rand(USERS, ITEMS, generator=GENERATOR) < 0.2).int()
EVERYONE = torch.arange(USERS)


def evaluator(metrics, top_k=CUTOFFS):
    return weft.Evaluator(metrics, top_k, train=TRAIN, **make_labels(USERS, ITEMS))


def kinds():
    found, stack = [], [Accumulator]
    while stack:
        stack += (more := stack.pop().__subclasses__())
        found += [kind for kind in more if "contributions" in vars(kind)]
    return found


def test_computes_each_accumulator_once_per_batch(monkeypatch):
    computed = Counter()
    for kind in kinds():
        how = "batch_total" if "batch_total" in vars(kind) else "contributions"
        summed = getattr(kind, how)

        def counting(self, lists, real=summed):
            computed[self] += 1
            return real(self, lists)

        monkeypatch.setattr(kind, how, counting)
    made = evaluator(BUILT_IN)
    for rows in EVERYONE.split(10):
        made.update(SCORES[rows], TARGET[rows], rows)
    made.compute()
    beside_means = [
        total
        for total in made.metric_set.layout.cutoffs
        if not isinstance(total, accumulators.UserMeanSums)
    ]
    assert set(computed.values()) == {4} and len(computed) == len(beside_means)
    by_item = [total for total in computed if isinstance(total, accumulators.ItemAccumulator)]
    # In lists of all and of evaluated users, hits, gains, scores of hits, relevant, offered: for
    # fourteen metrics at five cut-offs.
    assert len(by_item) == 7


def test_composites_add_no_accumulators_to_those_of_their_parts():
    parts = ["nDCG", "EPC", "Gini", "ItemCoverage", "BiasDisparityBS", "BiasDisparityBR", "REO"]
    composites = [
        "EucDistance(metric_names=[nDCG, EPC, Gini], utopia_points=[1, 1, 0])",
        "Hypervolume(metric_names=[ItemCoverage, REO, nDCG], nadir_points=[0, 9, 0])",
        "BiasDisparityBD",
        "ShannonEntropy",
        "PopREO",
    ]
    alone, together = evaluator(parts), evaluator([*parts, *composites])
    assert together.sums.numel() == alone.sums.numel() > 0
    assert [type(total) for total in together.metric_set.layout.cutoffs] == [
        type(total) for total in alone.metric_set.layout.cutoffs
    ]


def test_state_has_only_the_sums_of_the_requested_metrics():
    assert evaluator(["nDCG", "Recall"]).sums.numel() == 2 * len(CUTOFFS) * len(MEAN_SUMS)
    assert evaluator(["BiasDisparityBS"]).sums.numel() == 0


def test_item_counts_at_every_cutoff():
    masked = SCORES.masked_fill(TRAIN > 0, -torch.inf)
    made = evaluator(["Gini", "REO", "RSP", "PopRSP(users=evaluated)"])
    for rows in EVERYONE.split(7):
        made.update(SCORES[rows], TARGET[rows], rows)
    assert made.metric_set.layout.size == made.sums.numel()
    read, evaluated = made.metric_set.layout.view(made.sums), (TARGET > 0).any(1)
    for k in CUTOFFS:
        lists = [
            row.argsort(descending=True)[: min(k, int(row.isfinite().sum()))].tolist()
            for row in masked
        ]
        exposure = torch.tensor([sum(item in items for items in lists) for item in range(ITEMS)])
        hits = torch.tensor(
            [
                sum(item in items and TARGET[u, item] > 0 for u, items in enumerate(lists))
                for item in range(ITEMS)
            ]
        )
        among = torch.tensor(
            [
                sum(item in items for items, one in zip(lists, evaluated) if one)
                for item in range(ITEMS)
            ]
        )
        assert read(k)[ItemExposure(ITEMS)].tolist() == exposure.tolist()
        assert read(k)[ItemExposure(ITEMS, "evaluated")].tolist() == among.tolist()
        assert read(k)[ItemHits(ITEMS)].tolist() == hits.tolist()
        assert read(k)[ItemRelevance(ITEMS)].tolist() == (TARGET > 0).sum(0).tolist()
        assert read(k)[ItemCandidacy(ITEMS)].tolist() == masked.isfinite().sum(0).tolist()
        assert (
            read(k)[ItemCandidacy(ITEMS, "evaluated")].tolist()
            == masked[evaluated].isfinite().sum(0).tolist()
        )


@pytest.mark.parametrize("gaps", [False, True])
def test_offered_items_with_and_without_gaps_in_the_scores(gaps):
    """Rows in which only train is missing are not looked at; the count is the same."""
    scores = (
        SCORES if gaps else torch.rand(USERS, ITEMS, generator=torch.Generator().manual_seed(9))
    )
    made = evaluator(["RSP@3"])
    made.update(scores, TARGET, EVERYONE)
    offered = scores.masked_fill(TRAIN > 0, -torch.inf).isfinite().sum(0)
    assert (
        made.metric_set.layout.view(made.sums)(3)[ItemCandidacy(ITEMS)].tolist() == offered.tolist()
    )


@pytest.mark.parametrize("evaluated", [False, True])
def test_offered_items_per_user_sum_to_the_batch_total(evaluated):
    """Whoever lacks nothing but train, a little, most or everything; in as few cells as
    can say it.
    """
    scores = torch.rand(USERS, ITEMS, generator=torch.Generator().manual_seed(9))
    scores[0] = -torch.inf
    scores[1, 3:] = -torch.inf
    scores[2, :3] = -torch.inf
    made = evaluator(["RSP@3"])
    rows = read_target(TARGET, USERS, num_items=ITEMS, device=scores.device)
    seen = select_seen(made.inputs["train"], EVERYONE, scores.device)
    inputs = BatchInputs(scores, rows, EVERYONE, seen=seen)
    with closing(rank_batch(inputs, RankingOptions(TieRule(), 3))) as batch:
        everything, cells = batch.offered.by_user(only_evaluated=evaluated)
        offered = everything[:, None] + cells.to_dense(cells.values)
        expected = (batch.dense_scores > -torch.inf) & (
            (TARGET > 0).any(1, keepdim=True) | (not evaluated)
        )
        assert offered.tolist() == expected.double().tolist()
        assert (
            offered.sum(0).tolist()
            == batch.offered.count_by_item(only_evaluated=evaluated).tolist()
        )
        assert (cells.lengths * 2 <= ITEMS).all()


VARIANTS = [
    *BUILT_IN,
    "Gini(users=evaluated)",
    "ItemCoverage(as_fraction=True)",
    "ItemMADRating(appearances=all)",
    "GAUC(weight=positives)",
]


def test_large_catalogues_give_the_same_values(monkeypatch):
    def values():
        made = evaluator(VARIANTS)
        for rows in EVERYONE.split(10):
            made.update(SCORES[rows, :], TARGET[rows], rows)
        return {value.name: value.value for value in made.compute().entries}

    expected = values()
    monkeypatch.setattr(state_layout, "_SMALL_CATALOGUE", 0)
    assert values() == pytest.approx(expected, rel=1e-12, nan_ok=True)


def test_reads_only_items_with_counts(monkeypatch):
    monkeypatch.setattr(state_layout, "_SMALL_CATALOGUE", 0)
    made = evaluator(["Gini"], [1, 2])
    made.update(SCORES[:2], TARGET[:2], EVERYONE[:2])
    masked = SCORES[:2].masked_fill(TRAIN[:2] > 0, -torch.inf)
    listed = sorted({int(item) for row in masked for item in row.argsort(descending=True)[:2]})
    sums = made.metric_set.layout.view(made.sums)
    assert sums(1).items(ItemExposure(ITEMS)).tolist() == listed
    assert (
        sums(2).at_items(ItemExposure(ITEMS)).sum() == 4
        and sums(1).at_items(ItemExposure(ITEMS)).sum() == 2
    )

"""Metrics synchronized by TorchMetrics over several processes match one process."""

import pytest
import torch
import torch.distributed as dist
from torchmetrics import MetricCollection

import weft
from metric_cases import BUILT_IN, CUSTOM_METRICS, VARIANTS, make_labels
from process_groups import run_in_processes
from weft.errors import SettingError
from weft.metrics.names import parse_name
from weft.metrics.registry import build_metric, needs_cutoff

USERS, ITEMS, K = 41, 19, 5
# By number of processes: where each one's share of the users ends. "none" has a process without
# users.
SHARES = {2: {"uneven": (11, 41), "none": (0, 41)}, 4: {"none": (17, 17, 20, 41)}}
TOGETHER = ("nDCG", "Gini", "AUC(scope=pooled)", "BiasDisparityBR", "Keeper")


def metrics():
    """By name, one of each: built in and their variants, of authors, of ranks."""
    specs = [parse_name(name) for name in (*BUILT_IN, *VARIANTS)]
    train = (torch.rand((USERS, ITEMS), generator=torch.Generator().manual_seed(1)) < 0.3).int()
    inputs = {**make_labels(USERS, ITEMS), "train": train, "num_users": USERS, "num_items": ITEMS}
    found = {
        str(spec): build_metric(
            spec.with_cutoff(K) if needs_cutoff(spec.name) else spec, inputs=inputs
        )
        for spec in specs
    }
    found |= {kind.__name__: kind(K) if needs_cutoff(kind) else kind() for kind in CUSTOM_METRICS}
    return found | {kind.__name__.lower(): kind(K) for kind in (weft.HR, weft.NDCG, weft.MRR)}


def computed(metric):
    """The value, or the value of each label."""
    value = metric.compute()
    return (
        {name: float(one) for name, one in value.items()}
        if isinstance(value, dict)
        else {"value": float(value)}
    )


def data():
    generator = torch.Generator().manual_seed(0)
    return torch.rand((USERS, ITEMS), generator=generator), (
        torch.rand((USERS, ITEMS), generator=generator) < 0.2
    ) * 3.0


def arguments(metric, rows):
    """What a metric is told about some users."""
    scores, target = data()
    if type(metric) in (weft.HR, weft.NDCG, weft.MRR):
        return (weft.get_topk_ranks(scores[rows], target[rows].argmax(1), K),)
    return scores[rows], target[rows], torch.arange(USERS)[rows]


def feed(metric, first=0, last=USERS, size=USERS):
    """Add the users in batches."""
    for start in range(first, last, size):
        metric.update(*arguments(metric, slice(start, min(start + size, last))))
    return metric


class Unequal(weft.BaseMetric):
    """Keeps lists that are not joined, of which there must be as many in each process."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.add_state("batches", [], dist_reduce_fx=None)

    def update(self, preds, **kwargs):
        self.batches.append(preds.sum())

    def compute(self):
        return torch.stack(list(self.batches)).sum()


class Ragged(weft.TopKMetric):
    """Keeps lists whose tensors are of another width in each process."""

    def __init__(self, k, **settings):
        super().__init__(k, **settings)
        self.add_state("rows", [], dist_reduce_fx="cat")

    def update(self, preds, **kwargs):
        self.rows.append(preds[:, : 1 + dist.get_rank()])

    def compute(self):
        return self.rows.sum()


def work(rank, size):
    found = {}
    for case, ends in SHARES[size].items():
        first = ends[rank - 1] if rank else 0
        for name, metric in metrics().items():
            feed(metric, first, ends[rank], size=3 + rank)
            found[case, name] = computed(metric)
            if (
                name in TOGETHER
            ):  # what was gathered is let go again: each process goes on with its own
                found[case, name, "again"] = computed(feed(metric, rank, rank + 1))
        found[case, "collection"] = computed(feed(collection(), first, ends[rank], size=5))
    # A value of all processes in every step, and a metric that keeps to its own.
    rows = slice(*(0, 11) if rank == 0 else (11, 12))
    stepwise = weft.metrics.nDCG(K, dist_sync_on_step=True)
    found["step"] = float(stepwise(*arguments(stepwise, rows)))
    found["after the step"] = float(stepwise.compute())
    found["own"] = float(weft.metrics.nDCG(K, sync_on_compute=False)(*arguments(None, rows)))
    for metric in (Unequal(), Ragged(K)):
        try:
            feed(metric, 0, 1 + rank, size=1).compute()
        except SettingError as error:
            found[type(metric).__name__] = str(error)
    return found


def collection():
    found = metrics()
    return MetricCollection({name: found[name] for name in TOGETHER})


@pytest.mark.slow
@pytest.mark.parametrize("size", SHARES)
def test_several_processes_match_one(size):
    found = run_in_processes(size, work)
    same = {"abs": 1e-9, "rel": 1e-9, "nan_ok": True}
    for name, metric in metrics().items():
        expected = computed(feed(metric))
        more = computed(feed(metric, 0, size, size=1))
        for rank in range(size):
            for case in SHARES[size]:
                assert found[rank][case, name] == pytest.approx(expected, **same), (
                    rank,
                    case,
                    name,
                )
                assert found[rank].get((case, name, "again"), more) == pytest.approx(
                    more, **same
                ), (rank, case, name)
    expected = computed(feed(collection()))
    one, other = (
        float(weft.metrics.nDCG(K)(*arguments(None, rows)))
        for rows in (slice(0, 11), slice(11, 12))
    )
    evaluated = [int((data()[1][rows] > 0).any(1).sum()) for rows in (slice(0, 11), slice(11, 12))]
    weights = [evaluated[0], (size - 1) * evaluated[1]]
    together = (one * weights[0] + other * weights[1]) / sum(weights)
    for rank in range(size):
        for case in SHARES[size]:
            assert found[rank][case, "collection"] == pytest.approx(expected, **same), (rank, case)
        assert found[rank]["step"] == pytest.approx(together) == found[rank]["after the step"]
        assert found[rank]["own"] == pytest.approx(other if rank else one)
        assert (
            "Unequal cannot be synchronized: its list 'batches' has [1, 2" in found[rank]["Unequal"]
        )
        assert (
            "Ragged@5 cannot be synchronized: the tensors in its list 'rows'"
            in found[rank]["Ragged"]
        )

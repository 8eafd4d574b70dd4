"""Updates on fake tensors of another device, under the synchronization guard.

Run in its own process, because a backend cannot be unregistered. Prints a line per case: its name,
and the error, if there was one.
"""

import json
import math
import sys
import traceback
from functools import partial

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

import weft
import weft.data.devices
import weft.evaluation.evaluator  # imports `to_device` before it is replaced
from metric_cases import BUILT_IN, OF_REFERENCE, VARIANTS, make_labels
from synchronization_guard import SYNCHRONIZING, SYNCHRONIZING_ON_DEVICE, SynchronizationGuard
from weft.data import Train
from weft.data.features import read_features
from weft.data.item_lists import read_item_lists
from weft.data.labels import read_positional_labels
from weft.data.vocabulary import Vocabulary
from weft.metrics.names import parse_name
from weft.metrics.registry import build_metric, needs_cutoff
from weft.ranking import TIE_RULES

DEVICE = "fakegpu"
USERS, ITEMS = 6, 48
NAMES = (*BUILT_IN, *VARIANTS, *OF_REFERENCE, "Serendipity(definition=base)")
mode = FakeTensorMode(allow_non_fake_inputs=False)


def there(values):
    """Return a tensor of the host as a fake tensor on the device."""
    return mode.from_tensor(values).to(DEVICE)


def numbers(*shape):
    return torch.zeros(shape, dtype=torch.int64, device=DEVICE)


def targets():
    """Return the forms of targets whose shape gives the number of interactions.

    Fake CSR tensors cannot be made; test_devices.py has real ones.
    """
    cells = torch.sparse_coo_tensor(
        numbers(2, 9), torch.zeros(9, device=DEVICE), size=(USERS, ITEMS)
    )
    return {
        "items of each row": numbers(USERS, 5),
        "one item per row": numbers(USERS),
        "sparse": cells,
    }


def copied_before(*_):
    raise AssertionError("an input is copied to the device again")


def guarded(update):
    """Run an update once to move inputs to the device, and once under the guard."""
    with mode:
        weft.data.devices.to_device = lambda values, device, dtype=None: there(values)
        update()
        weft.data.devices.to_device = copied_before
        with SynchronizationGuard(DEVICE):
            update()


def inputs():
    labels, train = make_labels(USERS, ITEMS), torch.zeros(USERS, ITEMS)
    train[:, 3:8] = 1
    read, features = (
        Train.read(train),
        read_features(
            labels["item_features"], "item_features", Vocabulary.from_size("item", ITEMS)
        ),
    )
    sizes = [Vocabulary.from_size("user", USERS), Vocabulary.from_size("item", ITEMS)]
    # The host knows these sizes; they are computed here, where tensors are real.
    assert (read.on_device.max_length, features.max_per_item) == (5, 2)
    return {
        "train": read,
        "user_groups": read_positional_labels(labels["user_groups"], "user_groups", "user", USERS),
        "item_clusters": read_positional_labels(
            labels["item_clusters"], "item_clusters", "item", ITEMS
        ),
        "item_features": features,
        "reference": read_item_lists([[1, 2]] * USERS, "reference", *sizes),
        "num_users": USERS,
        "num_items": ITEMS,
    }


class EverySum(weft.SummedTopKMetric):
    """Reads all that lists have, in every kind of accumulator."""

    def __init__(self, k, *, num_items, user_groups, **settings):
        super().__init__(k, **settings)
        self.total, self.items = weft.UserSum(self.add_all), weft.ItemSums(num_items, self.weigh)
        self.groups = weft.GroupSums(user_groups, self.add_all)
        self.counts = weft.Histogram([0, 1, 4, math.inf], self.add_all)

    def add_all(self, lists):
        first = lists.first_hit.nan_to_num(0) + lists.sum_positions(lists.gains)
        return lists.hits + lists.lengths + lists.num_relevant + first + lists.users[:, None] % 3

    def weigh(self, lists):
        return lists.is_hit * lists.discounts + lists.positions + lists.scores.clamp(min=0)

    def compute_value(self, sums):
        weights = torch.arange(len(sums[self.items])) + 1
        parts = (sums[self.groups], sums[self.counts], sums[self.items] * weights)
        return sums[self.total] + sum(float(part.sum()) for part in parts)


def metric_alone(name, dtype=torch.float32, metric_class=None, **settings):
    spec = parse_name(name)
    if needs_cutoff(metric_class or spec.name):
        spec = spec.with_cutoff(3)
    metric = build_metric(spec, metric_class=metric_class, inputs=inputs(), **settings)
    metric._apply(there)
    with mode:
        preds, users = torch.zeros(USERS, ITEMS, dtype=dtype, device=DEVICE), numbers(USERS)
        given = targets()
    for form in ("items of each row", "sparse"):
        guarded(partial(metric.update, preds, given[form], users))


def evaluator(form, dtype=torch.float32, candidates=False, **settings):
    slices = {"half": ["first", "second", None] * (USERS // 3)}
    given = inputs()
    others = {"reference": given.pop("reference")}
    made = weft.Evaluator(
        NAMES, [1, 3, 60], per_user=True, slices=slices, inputs=others, **given, **settings
    )
    made._apply(there)
    states = [
        made.sums,
        made.counts,
        *(state for metric in made.own_metrics for state in metric.metric_state.values()),
    ]
    assert all(
        part.device.type == DEVICE
        for state in states
        for part in (state if isinstance(state, list) else [state])
    )
    with mode:
        target, users = targets()[form], numbers(USERS)
        if candidates:
            preds, items = torch.zeros(USERS, 9, dtype=dtype, device=DEVICE), numbers(USERS, 9)
        else:
            preds, items = torch.zeros(USERS, ITEMS, dtype=dtype, device=DEVICE), None
    guarded(lambda: made.update(preds, target, users, items))


def single_target():
    with mode:
        preds, target = torch.zeros(USERS, ITEMS, device=DEVICE), numbers(USERS)
    metrics = [metric(k) for metric in (weft.HR, weft.NDCG, weft.MRR) for k in (1, 3)]
    for metric in metrics:
        metric._apply(there)

    def update(rule):
        ranks = weft.get_topk_ranks(preds, target, topk=3, ties=rule)
        for metric in metrics:
            metric.update(ranks)

    for rule in TIE_RULES:
        if rule != "expected":  # not one rank
            guarded(partial(update, rule))


def dense():
    metric = weft.metrics.Recall(k=3)
    metric._apply(there)
    with mode, SynchronizationGuard(DEVICE):
        preds = torch.zeros(USERS, ITEMS, device=DEVICE)
        metric.update(preds, preds)


def synchronize(operation):
    with mode, SynchronizationGuard(DEVICE):
        operation(numbers(5), torch.zeros(5, dtype=torch.bool, device=DEVICE))


def copied_again():
    columns = iter([weft.data.DeviceColumn(torch.ones(3)) for _ in range(2)])
    guarded(lambda: next(columns).lookup(numbers(2)))


CASES = {name: partial(metric_alone, name) for name in NAMES}
CASES |= {
    f"nDCG of {dtype}": partial(metric_alone, "nDCG", dtype)
    for dtype in (torch.float64, torch.float16, torch.bfloat16)
}
CASES |= {
    f"nDCG of {dtype}": partial(metric_alone, "nDCG", dtype) for dtype in (torch.int64, torch.int32)
}
CASES |= {f"MAP with ties={rule}": partial(metric_alone, "MAP", ties=rule) for rule in TIE_RULES}
FORMS = ("items of each row", "one item per row", "sparse", "sparse", "items of each row")
CASES |= {
    f"Evaluator, ties={rule}, {form}": partial(evaluator, form, ties=rule)
    for rule, form in zip(TIE_RULES, FORMS)
}
CASES["Evaluator with a threshold"] = partial(
    evaluator, "sparse", relevance_threshold=2, dtype=torch.bfloat16
)
for rule in ("index", "expected", "pessimistic"):
    CASES[f"Evaluator of candidates, ties={rule}"] = partial(
        evaluator, "sparse", candidates=True, ties=rule
    )
CASES["get_topk_ranks"] = single_target
CASES["accumulators of an author"] = partial(metric_alone, "EverySum", metric_class=EverySum)
# Cases that must fail, and the start of their errors.
FAILING = {
    f"guard: {name}": (partial(synchronize, operation), "SynchronizationError")
    for name, operation in (SYNCHRONIZING | SYNCHRONIZING_ON_DEVICE).items()
}
for name in ("an index on the CPU", "a list as a tensor"):
    # Real values cannot be copied to the fake device.
    FAILING[f"guard: {name}"] = (FAILING[f"guard: {name}"][0], "NotImplementedError")
FAILING["a dense target"] = (dense, "SynchronizationError")
FAILING["an input copied again"] = (copied_again, "AssertionError: an input is copied")


def main(chosen):
    _setup_privateuseone_for_python_backend(DEVICE)
    for name, run in (CASES | {name: run for name, (run, _) in FAILING.items()}).items():
        if chosen and not any(part in name for part in chosen):
            continue
        try:
            run()
            wrong = None
        except Exception as error:
            at = [
                f"{part.filename.rpartition('/')[2]}:{part.lineno}"
                for part in traceback.extract_tb(error.__traceback__)
            ]
            wrong = (
                f"{type(error).__name__}: {error} "
                f"({' '.join(part for part in at if not part.startswith('_'))})"
            )
            if chosen:
                traceback.print_exc()
        print(json.dumps([name, wrong]), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

"""Metrics with states of their own beside others: what they lack is noted, others keep theirs."""

from types import SimpleNamespace

import pytest
import torch

import weft

GENERATOR = torch.Generator().manual_seed(8)
USERS = 12
SCORES = torch.rand(USERS, 9, generator=GENERATOR, dtype=torch.float64)
TRUTH = (torch.rand(USERS, 9, generator=GENERATOR) < 0.4).double()
TRUTH[torch.arange(USERS), torch.arange(USERS) % 9] = 1  # all users have a relevant item
# Two processes get 7 rows each: users 0 and 5 come twice.
ROWS = torch.tensor([*range(USERS), 0, 5])


class RowCount(weft.BaseMetric):
    """The number of rows, in a state of its own."""

    _REQUIRED_COMPONENTS = set()

    def __init__(self, **settings):
        super().__init__(**settings)
        self.add_state("rows", torch.zeros(()), dist_reduce_fx="sum")

    def update(self, preds, **kwargs):
        self.rows += len(kwargs["user_indices"])

    def compute(self):
        return self.rows


def run_callback(evaluator, *, world_size):
    """Return the result of one validation epoch of a trainer with so many processes."""
    pytest.importorskip("lightning")
    from weft.integrations.lightning import EvaluationCallback

    callback = EvaluationCallback(evaluator)
    trainer = SimpleNamespace(
        world_size=world_size,
        testing=False,
        sanity_checking=False,
        num_val_batches=[1],
        datamodule=None,
        current_epoch=0,
        global_step=0,
        is_global_zero=True,
    )
    module = SimpleNamespace(device=torch.device("cpu"), log=lambda *_, **__: None)
    callback.on_validation_epoch_start(trainer, module)
    for rows in ROWS.split(7):
        outputs = {"preds": SCORES[rows], "target": TRUTH[rows], "user_indices": rows}
        callback.on_validation_batch_end(trainer, module, outputs, None, 0)
    callback.on_validation_epoch_end(trainer, module)
    return callback.result


@pytest.mark.parametrize("world_size", [1, 2])
def test_callback_counts_repeated_users_alike_beside_own_states(world_size):
    metrics = ["nDCG@3", "ItemCoverage@3", "AUC(scope=pooled)"]
    alone = run_callback(weft.Evaluator(metrics, num_items=9), world_size=world_size)
    beside = run_callback(
        weft.Evaluator([*metrics, RowCount()], num_items=9), world_size=world_size
    )
    for name in alone:
        assert beside[name] == alone[name]
        assert beside.entry(name).users == alone.entry(name).users
    assert beside.counts == alone.counts
    assert beside.entry("nDCG@3").users == (USERS if world_size > 1 else len(ROWS))
    assert beside["RowCount"] == len(ROWS)


def test_note_on_repeated_users_names_metrics_with_own_states():
    result = run_callback(weft.Evaluator(["nDCG@3", RowCount()], num_items=9), world_size=2)
    assert (
        "2 rows repeat users of earlier rows and are excluded, except in RowCount, which keeps "
        "its own state" in result.notes
    )


OPTIONS = {
    "bootstrap": (20, "no bootstrap intervals"),
    "per_user": (True, "no per-user values (needed for comparisons)"),
    "slices": ({"half": ["a", "b"] * (USERS // 2)}, "no values by slice"),
}


@pytest.mark.parametrize("asked", [["bootstrap"], ["per_user"], ["slices"], list(OPTIONS), []])
def test_notes_name_what_own_states_lack(asked):
    options = {name: OPTIONS[name][0] for name in asked}
    evaluator = weft.Evaluator(["nDCG@3", RowCount()], **options)
    evaluator.update(SCORES, TRUTH, torch.arange(USERS))
    notes = [note for note in evaluator.compute().notes if "its own state" in note]
    if not asked:
        assert notes == []
        return
    lacks = ", ".join(OPTIONS[name][1] for name in OPTIONS if name in asked)
    bases = "weft.SummedMetric or weft.UserAverageMetric have them"
    if asked != ["bootstrap"]:
        bases = "weft.UserAverageMetric have them"
    if len(asked) > 1:
        bases += ", and those derived from weft.SummedMetric have bootstrap intervals"
    assert notes == [f"RowCount keeps its own state: {lacks}. Metrics derived from {bases}"]


def test_built_in_metrics_have_no_pointer_to_base_classes():
    evaluator = weft.Evaluator(["AUC(scope=pooled)"], bootstrap=5)
    evaluator.update(SCORES, TRUTH, torch.arange(USERS))
    assert "AUC(scope=pooled) keeps its own state: no bootstrap intervals" in (
        evaluator.compute().notes
    )

"""Inputs that metrics declare in training loops: processes, Lightning and Hugging Face."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import weft
from process_groups import run_in_processes
from test_side_inputs import (
    BY_POSITION,
    ITEM_IDS,
    ITEMS,
    PRICES,
    SCORES,
    SHUFFLED,
    TRUTH,
    TRUTH_BY_ID,
    USER_IDS,
    USERS,
    ListRevenue,
    agree,
    expected_values,
    options,
)
from weft.engines import distributed
from weft.integrations.huggingface import ComputeMetrics


def work(rank, number):
    """Evaluate in a process: by an evaluator, `evaluate`, a metric alone, and with other prices."""
    rows_of_rank = torch.arange(USERS)[rank::number].split(2)
    prices = [PRICES, [1.0] * ITEMS]
    evaluators = [
        weft.Evaluator(**options(inputs={**BY_POSITION, "price": price}))
        for price in (PRICES, prices[rank])
    ]
    metric = ListRevenue(3, price=PRICES, budget=BY_POSITION["budget"])
    for rows in rows_of_rank:
        for one in (*evaluators, metric):
            one.update(SCORES[rows], TRUTH[rows], rows)
    found = {"loop": evaluators[0].compute(), "metric": float(metric.compute())}
    arguments = {"users": USER_IDS, "items": ITEM_IDS}
    found["evaluate"] = distributed.evaluate(
        SCORES, TRUTH_BY_ID, **options(inputs=SHUFFLED), **arguments
    )
    errors = []
    different = {**SHUFFLED, "price": dict(zip(ITEM_IDS, prices[rank]))}
    for evaluate in (
        evaluators[1].compute,
        lambda: distributed.evaluate(SCORES, TRUTH_BY_ID, **options(inputs=different), **arguments),
    ):
        with pytest.raises(weft.WeftError) as error:
            evaluate()
        errors.append(str(error.value))
    return found, errors


@pytest.mark.slow
def test_processes():
    for found, errors in run_in_processes(2, work):
        agree(found["loop"])
        agree(found["evaluate"])
        assert found["metric"] == pytest.approx(expected_values()["ListRevenue@3"], rel=1e-12)
        assert all("differ in price" in error for error in errors), errors


def test_lightning_callback():
    lightning = pytest.importorskip("lightning")
    from lightning_modules import ITEMS, QUIET, USERS, Given, Users, data
    from weft.integrations.lightning import EvaluationCallback

    generator = np.random.default_rng(8)
    inputs = {
        "price": generator.random(ITEMS),
        "budget": generator.random(USERS),
        "item_vectors": generator.normal(size=(ITEMS, 4)),
        "region": ["north", "south"] * (USERS // 2) + [None],
    }
    scores, target, _ = data()
    expected = weft.evaluate(scores, target, **options(inputs=inputs))
    callback = EvaluationCallback(weft.Evaluator(**options(inputs=inputs)))
    trainer = lightning.Trainer(
        **QUIET, callbacks=[callback], logger=False, enable_checkpointing=False
    )
    loader = torch.utils.data.DataLoader(Users(), batch_size=4)
    logged = trainer.validate(Given(), loader, verbose=False)
    agree(callback.result, expected)
    name = "ListRevenue@3"
    assert logged[0][f"val_{name}"] == pytest.approx(expected[name], rel=1e-6)


def test_hugging_face():
    compute = ComputeMetrics(
        weft.Evaluator(**options()),
        inputs=lambda batch: {
            "preds": batch.predictions,
            "target": batch.label_ids,
            "user_indices": batch.inputs,
        },
    )
    for rows in torch.arange(USERS).split(5):
        batch = SimpleNamespace(predictions=SCORES[rows], label_ids=TRUTH[rows], inputs=rows)
        values = compute(batch, compute_result=int(rows[-1]) == USERS - 1)
    assert values == pytest.approx(expected_values(), rel=1e-12)

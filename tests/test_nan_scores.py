"""Scores that are NaN or +inf: an error, or values that are NaN, for training loops."""

import math
from functools import partial

import lightning
import pytest
import torch
from lightning.pytorch.callbacks import EarlyStopping
from torch.utils.data import DataLoader
from torchmetrics import MetricCollection

import weft
from lightning_modules import ITEMS, QUIET, USERS, Given, Users, everything
from metric_cases import BUILT_IN, make_labels
from weft.errors import InputError, SettingError
from weft.integrations.lightning import EvaluationCallback
from weft.metrics.names import parse_name
from weft.metrics.registry import build_metric, needs_cutoff

SCORES = torch.rand(USERS, ITEMS, generator=torch.Generator().manual_seed(4))
TARGET = (torch.rand(USERS, ITEMS, generator=torch.Generator().manual_seed(5)) < 0.2).float()
BAD = pytest.mark.parametrize("bad", [math.nan, math.inf])


def spoil(bad):
    scores = SCORES.clone()
    scores[3, 2] = scores[3, 7] = scores[10, 0] = bad
    return scores


def update(evaluator, scores, **more):
    for rows in (slice(0, 9), slice(9, 30), slice(30, None)):
        given = {name: values[rows] for name, values in more.items()}
        evaluator.update(scores[rows], TARGET[rows], torch.arange(USERS)[rows], **given)


@BAD
def test_every_value_of_an_evaluator_is_nan(bad):
    options = {"per_user": True, "bootstrap": 5, "mask_seen": False}
    evaluator = everything(nan_scores="nan", **options)
    scores = spoil(bad)
    before = scores.clone()
    update(evaluator, scores)
    result = evaluator.compute()
    assert torch.equal(scores.nan_to_num(), before.nan_to_num())  # the caller's scores are kept
    assert all(math.isnan(value.value) for value in result.entries)
    plain = everything(**options)
    update(plain, SCORES)
    assert list(result.to_tensors()) == list(plain.compute().to_tensors())
    assert result.counts["invalid_scores"] == 2 and result.counts["users"] == USERS
    assert result.notes[0] == "every value is NaN: 2 rows have scores that are NaN or +inf"
    assert str(result) and result.settings["nan_scores"] == "nan"
    evaluator.reset()
    update(evaluator, SCORES)
    assert evaluator.compute() == plain.compute()


def test_valid_scores_give_the_usual_values():
    evaluator, plain = weft.Evaluator(["nDCG@3"], nan_scores="nan"), weft.Evaluator(["nDCG@3"])
    scores = SCORES.clone()
    scores[2] = -math.inf
    for one in (evaluator, plain):
        update(one, scores)
    result = evaluator.compute()
    assert result == plain.compute()
    assert result.counts["invalid_scores"] == 0


@BAD
def test_candidates(bad):
    items = torch.arange(ITEMS).expand(USERS, -1).clone()
    evaluator = weft.Evaluator(["nDCG@3"], num_items=ITEMS, nan_scores="nan")
    update(evaluator, spoil(bad), items=items)
    assert math.isnan(evaluator.compute()["nDCG@3"])


@BAD
def test_merged_and_saved_states_stay_undefined(bad, tmp_path):
    first, second = (weft.Evaluator(["nDCG@3"], nan_scores="nan") for _ in range(2))
    update(first, spoil(bad))
    update(second, SCORES)
    second.merge(first)
    assert math.isnan(second.compute()["nDCG@3"])
    weft.save_state(second, tmp_path / "state")
    assert math.isnan(weft.load_state(tmp_path / "state").compute()["nDCG@3"])


@BAD
@pytest.mark.parametrize("name", BUILT_IN)
def test_every_metric_is_nan(name, bad):
    inputs = {
        **make_labels(USERS, ITEMS),
        "train": (SCORES < 0.2).int(),
        "num_users": USERS,
        "num_items": ITEMS,
    }
    spec = parse_name(name)
    spec = spec.with_cutoff(3) if needs_cutoff(spec.name) else spec
    metric = build_metric(spec, inputs=inputs, nan_scores="nan")
    update(metric, spoil(bad))
    value = metric.compute()
    values = value.values() if isinstance(value, dict) else [value]
    assert values and all(torch.isnan(one).all() for one in values)
    metric.reset()
    update(metric, SCORES)
    plain = build_metric(spec, inputs=inputs)
    update(plain, SCORES)
    assert torch.allclose(
        *(
            torch.stack(list(one.values())) if isinstance(one, dict) else one
            for one in (metric.compute(), plain.compute())
        ),
        equal_nan=True,
    )


@BAD
def test_metrics_in_a_collection_do_not_share_what_differs(bad):
    collection = MetricCollection(
        {
            "nan": weft.metrics.nDCG(k=3, nan_scores="nan"),
            "mrr": weft.metrics.MRR(k=3, nan_scores="nan"),
        }
    )
    collection.update(spoil(bad), TARGET)
    assert all(torch.isnan(value) for value in collection.compute().values())
    mixed = MetricCollection(
        {"nan": weft.metrics.nDCG(k=3, nan_scores="nan"), "raise": weft.metrics.nDCG(k=3)}
    )
    with pytest.raises(InputError, match="the scores contain"):
        mixed.update(spoil(bad), TARGET)


@BAD
def test_the_default_is_an_error(bad):
    for one in (weft.Evaluator(["nDCG@3"]), weft.metrics.nDCG(k=3)):
        with pytest.raises(InputError, match="the scores contain"):
            one.update(spoil(bad), TARGET)


def test_other_choices_are_refused():
    for build in (partial(weft.Evaluator, ["nDCG@3"]), partial(weft.metrics.nDCG, k=3)):
        with pytest.raises(SettingError, match=r"zero.*raise.*nan"):
            build(nan_scores="zero")


class Diverging(Given):
    """Its scores become NaN in the second epoch."""

    def validation_step(self, *arguments):
        outputs = super().validation_step(*arguments)
        if self.current_epoch:
            outputs["preds"] = outputs["preds"] * math.nan
        return outputs


def test_early_stopping_can_act(tmp_path):
    callback = EvaluationCallback(weft.Evaluator(["nDCG"], 5, nan_scores="nan"))
    stopping = EarlyStopping("val_nDCG@5", mode="max", check_finite=True)
    trainer = lightning.Trainer(
        callbacks=[callback, stopping],
        logger=False,
        enable_checkpointing=False,
        max_epochs=9,
        default_root_dir=tmp_path,
        **QUIET,
    )
    loader = DataLoader(Users(), batch_size=20)
    trainer.fit(Diverging(), loader, loader)
    assert trainer.current_epoch == 2 and "nan" in str(stopping.stopping_reason_message)

"""Evaluation inside Lightning: the callback in one process and in two, and the example."""

import csv
import importlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path

import lightning
import polars as pl
import pytest
import torch
from lightning.pytorch.callbacks import EarlyStopping, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader

import weft
from lightning_modules import (
    BUILT_IN,
    CUTOFFS,
    ITEMS,
    QUIET,
    USERS,
    Given,
    Users,
    data,
    everything,
)
from weft.errors import InputError, SettingError, WeftError
from weft.integrations.lightning import EvaluationCallback

ROOT = Path(__file__).parents[1]


def trainer(folder, *callbacks, **settings):
    settings = {
        "logger": False,
        "enable_checkpointing": False,
        "max_epochs": 2,
        **QUIET,
        **settings,
    }
    return lightning.Trainer(callbacks=list(callbacks), default_root_dir=folder, **settings)


def users(batch_size=7, count=USERS):
    return DataLoader(Users(count), batch_size=batch_size)


def expected(scores=None, **settings):
    """In one go, without Lightning."""
    evaluator = everything(**settings)
    given, target, _ = data()
    evaluator.update(given if scores is None else scores, target, torch.arange(USERS))
    return evaluator.compute()


def values(result):
    return {value.name: value.value for value in result.entries}


def approx(result):
    return pytest.approx(values(result), abs=1e-9, nan_ok=True)


def small(**settings):
    return weft.Evaluator(["nDCG", "HitRate"], 5, **settings)


# --------------------------------------------------------------------------------------------------


def test_every_metric_matches_evaluate(tmp_path):
    callback = EvaluationCallback(everything())
    (logged,) = trainer(tmp_path, callback).validate(Given(), users(), verbose=False)
    assert values(callback.result) == approx(expected())
    assert callback.results == {"val": callback.result}
    assert logged == pytest.approx(
        {f"val_{name}": value for name, value in values(expected()).items()}, abs=1e-9, nan_ok=True
    )
    scores, target, train = data()
    accuracy = weft.evaluate(
        scores, target, train=train, metrics=["nDCG", "Recall", "Gini"], top_k=CUTOFFS
    )
    for name in accuracy:
        assert callback.result[name] == pytest.approx(accuracy[name], abs=1e-12)
    assert "repeated_users" not in callback.result.settings  # one process: nothing is kept for it


def test_training_logs_monitors_and_saves(tmp_path):
    callback = EvaluationCallback(
        everything(), save_to=tmp_path / "saved", prog_bar=["ndcg@5", "BiasDisparityBR@3"]
    )
    best = ModelCheckpoint(
        tmp_path, filename="best-{epoch}-{val_nDCG@5:.2f}", monitor="val_nDCG@5", mode="max"
    )
    stop = EarlyStopping(monitor="val_nDCG@5", mode="max", patience=1)
    logger = CSVLogger(tmp_path, name=None, version="")
    fit = trainer(
        tmp_path, callback, best, stop, logger=logger, enable_checkpointing=True, max_epochs=9
    )
    module = Given()
    fit.fit(module, users(), users())

    epochs = fit.current_epoch
    assert 2 <= epochs < 9  # perfect, and then no better
    saved = {path.name: weft.load_result(path) for path in (tmp_path / "saved").iterdir()}
    assert sorted(saved) == [
        f"val-epoch{epoch}-step{6 * (epoch + 1)}.json" for epoch in range(epochs)
    ]  # no sanity check
    latest = saved[f"val-epoch{epochs - 1}-step{6 * epochs}.json"]
    assert values(latest) == approx(callback.result)
    assert latest.provenance["epoch"] == epochs - 1 and latest.name == "Given"
    scores, target, _ = data()
    assert values(latest) == approx(expected(scores + module.shift.detach() * (target > 0)))

    assert (
        float(best.best_model_score)
        == max(result["nDCG@5"] for result in saved.values())
        > expected()["nDCG@5"]
    )
    assert Path(best.best_model_path).name.startswith("best-epoch=")
    shown = fit.progress_bar_metrics
    assert set(shown) == {
        "val_nDCG@5",
        *(f"val_{name}" for name in latest if name.startswith("BiasDisparityBR@3")),
    }
    with open(tmp_path / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == epochs
    for row, result in zip(
        rows, (saved[f"val-epoch{epoch}-step{6 * (epoch + 1)}.json"] for epoch in range(epochs))
    ):
        found = {name: float(row[f"val_{name}"]) for name in result}
        assert found == pytest.approx(
            values(result), rel=1e-6, nan_ok=True
        )  # also names with commas and brackets


@pytest.mark.slow
def test_epochs_start_from_an_empty_state(tmp_path):
    evaluator = everything()
    evaluator.update(*data()[:2], torch.arange(USERS))
    before = values(evaluator.compute())
    callback = EvaluationCallback(evaluator)
    run = trainer(tmp_path, callback)
    for _ in range(2):
        run.validate(Given(), users(), verbose=False)
        assert values(callback.result) == approx(expected())
    run.test(Given(), users(count=20), verbose=False)
    assert callback.results["val"].counts["users"] == USERS
    assert callback.result is callback.results["test"] and callback.result.counts["users"] == 20
    assert set(callback.result.to_tensors()) == {f"test_{name}" for name in callback.result}
    assert values(evaluator.compute()) == pytest.approx(before, nan_ok=True)


class Bare(Given):
    """A module with nothing but what training needs."""

    def validation_step(self, batch, batch_idx):
        assert not self.training

    def test_step(self, batch, batch_idx):
        raise AssertionError("the stage is not evaluated")


def inputs_of(module, batch):
    assert not torch.is_grad_enabled() and not module.training
    return module.at(batch)


def test_inputs_need_no_code_in_the_module(tmp_path):
    callback = EvaluationCallback(everything(), inputs=inputs_of, stages="val")
    trainer(tmp_path, callback, precision="bf16-mixed").validate(Bare(), users(), verbose=False)
    assert values(callback.result) == approx(expected())


def candidates_of(module, batch):
    scores, target, _ = data()
    items = torch.arange(ITEMS - 1, 3, -1).repeat(len(batch), 1)
    return {
        "preds": scores[batch][:, items[0]],
        "target": target[batch][:, items[0]],
        "user_indices": batch,
        "items": items,
    }


def test_inputs_may_be_candidates(tmp_path):
    callback = EvaluationCallback(small(num_items=ITEMS), inputs=candidates_of)
    trainer(tmp_path, callback).validate(Bare(), users(), verbose=False)
    scores, target, _ = data()
    alone = small()
    alone.update(scores[:, 4:], target[:, 4:])
    assert values(callback.result) == approx(alone.compute())


def test_each_dataloader_has_its_result(tmp_path):
    callback = EvaluationCallback(small(), save_to=tmp_path, prog_bar="nDCG@5")
    run = trainer(
        tmp_path,
        callback,
        ModelCheckpoint(monitor="val_nDCG@5/dataloader_idx_1"),
        enable_checkpointing=True,
    )
    run.fit(Given(), users(), [users(count=10), users(count=31)])
    first, second = (callback.results[f"val/dataloader_idx_{number}"] for number in range(2))
    assert (first.counts["users"], second.counts["users"]) == (10, 31)
    assert (
        float(run.callback_metrics["val_nDCG@5/dataloader_idx_1"])
        == second["nDCG@5"]
        != first["nDCG@5"]
    )
    assert (tmp_path / "val-epoch1-step12-dataloader_idx_1.json").exists()
    with pytest.raises(
        SettingError,
        match=r"several results; use one of results: val/dataloader_idx_0, val/dataloader_idx_1",
    ):
        callback.result  # noqa: B018


class OwnMetrics(Given):
    """A module that updates metrics of its own for each data loader, and resets them at the end."""

    def __init__(self):
        super().__init__()
        self.evaluators = nn.ModuleList(small() for _ in range(2))
        self.metrics = nn.ModuleList(weft.metrics.nDCG(k=5) for _ in range(2))
        self.epochs = []

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        step = self.at(batch)
        for metrics in (self.evaluators, self.metrics):
            metrics[dataloader_idx].update(step["preds"], step["target"], step["user_indices"])
        return super().validation_step(batch, batch_idx)

    def on_validation_epoch_end(self):
        found = []
        for evaluator, metric in zip(self.evaluators, self.metrics):
            found.append((evaluator.compute()["nDCG@5"], float(metric.compute())))
            evaluator.reset()
            metric.reset()
        if not self.trainer.sanity_checking:
            self.epochs.append((float(self.shift), found))


@pytest.mark.parametrize("sanity_steps", [0, 2, -1])
def test_several_dataloaders_while_training_and_the_sanity_check(tmp_path, sanity_steps):
    """Each data loader has its own values in every epoch, and the sanity check leaves nothing."""
    callback, module = EvaluationCallback(small(), save_to=tmp_path / "saved"), OwnMetrics()
    loaders = [users(), users(count=USERS - 11)]
    fit = trainer(tmp_path, callback, num_sanity_val_steps=sanity_steps)
    fit.fit(module, users(), loaders)
    scores, target, _ = data()
    assert len(module.epochs) == 2
    for shift, found in module.epochs:
        for count, both in zip((USERS, USERS - 11), found):
            shifted = scores[:count] + shift * (target[:count] > 0)
            value = weft.evaluate(shifted, target[:count], metrics="nDCG@5")["nDCG@5"]
            assert both == pytest.approx((value, value))
    latest = {name: result["nDCG@5"] for name, result in callback.results.items()}
    assert latest == pytest.approx(
        {
            f"val/dataloader_idx_{number}": both[0]
            for number, both in enumerate(module.epochs[-1][1])
        }
    )
    assert len(list((tmp_path / "saved").iterdir())) == 4  # of two epochs and two data loaders


@pytest.mark.filterwarnings("ignore:Checkpoint directory .* exists and is not empty")
@pytest.mark.filterwarnings("ignore:You.re resuming from a checkpoint that ended before the epoch")
def test_training_resumes_in_the_middle_of_an_epoch(tmp_path):
    """Validations after a resumed step have the values of a training that was not interrupted."""

    def train(folder, kept, *, max_steps=-1, ckpt_path=None):
        callback = EvaluationCallback(small(), save_to=folder)
        saved = ModelCheckpoint(tmp_path / kept, "{step}", every_n_train_steps=3)
        settings = {"val_check_interval": 2, "max_steps": max_steps, "enable_checkpointing": True}
        fit = trainer(tmp_path, callback, saved, **settings)
        fit.fit(Given(), users(), users(), ckpt_path=ckpt_path)
        return fit.global_step, callback

    assert train(tmp_path / "whole", "a")[0] == 12  # two epochs of six steps
    assert train(tmp_path / "resumed", "b", max_steps=3)[0] == 3
    steps, callback = train(tmp_path / "resumed", "b", ckpt_path=tmp_path / "b" / "step=3.ckpt")
    assert steps == 12
    whole, resumed = (
        {path.name: values(weft.load_result(path)) for path in (tmp_path / name).iterdir()}
        for name in ("whole", "resumed")
    )
    assert sorted(whole) == sorted(
        f"val-epoch{epoch}-step{6 * epoch + step}.json" for epoch in (0, 1) for step in (2, 4, 6)
    )
    assert resumed == {name: pytest.approx(found) for name, found in whole.items()}
    assert values(callback.result) == pytest.approx(whole["val-epoch1-step12.json"])


class HalfPrecision(Given):
    """Scores in the precision of the trainer, without operations that some processors lack."""

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        step = super().validation_step(batch, batch_idx)
        kind = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else None
        step["preds"] = step["preds"].to(kind or self.shift.dtype)
        self.kinds = {step["preds"].dtype}
        return step


@pytest.mark.parametrize("precision", ["bf16-mixed", "bf16-true"])
def test_bf16_scores_are_evaluated_as_they_are(tmp_path, precision):
    callback, module = EvaluationCallback(everything()), HalfPrecision()
    alone = weft.metrics.nDCG(k=5)
    module.alone = alone  # moved with the module, in its precision
    trainer(tmp_path, callback, precision=precision).validate(module, users(), verbose=False)
    assert module.kinds == {torch.bfloat16}
    scores, target, _ = data()
    rounded = scores.bfloat16()
    assert values(callback.result) == approx(expected(rounded.float()))
    with torch.autocast("cpu", torch.bfloat16):
        alone.update(rounded, target)
        evaluator = small()
        evaluator.update(rounded, target)
        found = evaluator.compute()
    assert alone.sums.dtype == torch.float64
    value = weft.evaluate(rounded.float(), target, metrics="nDCG@5")["nDCG@5"]
    assert float(alone.compute()) == pytest.approx(value, abs=1e-12)
    assert found["nDCG@5"] == pytest.approx(value, abs=1e-12)


def test_logs_undefined_values(tmp_path):
    callback = EvaluationCallback(small())
    module = Given()
    module.target = torch.zeros_like(module.target)
    (logged,) = trainer(tmp_path, callback).validate(module, users(), verbose=False)
    assert math.isnan(logged["val_nDCG@5"])


@pytest.mark.parametrize(
    ("keys", "settings", "message"),
    [
        (
            ("target",),
            {},
            "validation_step returned a dict without 'preds' (it has 'loss', 'target')",
        ),
        (("preds",), {}, "validation_step returned a dict without 'target'"),
        (
            ("preds", "target"),
            {"repeated_users": "drop"},
            "validation_step returned no 'user_indices'",
        ),
    ],
)
def test_sanity_check_rejects_wrong_steps(tmp_path, keys, settings, message):
    run = trainer(tmp_path, EvaluationCallback(small(**settings)))
    with pytest.raises(InputError) as error:
        run.fit(Given(keys), users(), users())
    assert message in str(error.value)
    assert run.global_step == 0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            None,
            "inputs returned nothing; expected a dict with 'preds', 'target' and 'user_indices'",
        ),
        (torch.zeros(3), "inputs returned a Tensor"),
        (
            {"preds": torch.zeros(7, 3), "target": torch.ones(7, 3), "user_index": 1},
            "'user_index', which is not known. Did you mean 'user_ind",
        ),
    ],
)
def test_rejects_wrong_inputs(tmp_path, given, message):
    run = trainer(tmp_path, EvaluationCallback(small(), inputs=lambda module, batch: given))
    with pytest.raises(InputError) as error:
        run.validate(Given(), users(), verbose=False)
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"evaluator": ["nDCG@5"]}, "takes a weft.Evaluator; got a list"),
        ({"stages": "train"}, "stages='train' is not known"),
        ({"stages": ()}, "stages is empty"),
        (
            {"prog_bar": "nDCG@10"},
            "prog_bar has 'nDCG@10', which is not evaluated. Did you mean 'nDCG@5'? "
            "Evaluated metrics: nDCG@5, HitRate@5.",
        ),
        ({"prog_bar": ["nonsense"]}, "prog_bar has 'nonsense'"),
        ({"inputs": "preds"}, "inputs is a str"),
        ({"save_to": "result.json"}, "one file for two stages"),
    ],
)
def test_rejects_wrong_settings(settings, message):
    with pytest.raises(SettingError) as error:
        EvaluationCallback(**{"evaluator": small(), **settings})
    assert message in str(error.value)


def test_progress_bar_names_under_a_profile():
    evaluator = weft.Evaluator(["nDCG"], 5, profile="rectools")
    callback = EvaluationCallback(evaluator, prog_bar="nDCG@5")
    assert callback.prog_bar == tuple(map(str, evaluator.specs)) != ("nDCG@5",)


def test_rejects_callbacks_that_log_the_same_names(tmp_path):
    once, again = EvaluationCallback(small()), EvaluationCallback(small())
    with pytest.raises(
        SettingError,
        match="two EvaluationCallbacks would log 'test_HitRate@5'; give one of the evaluators a "
        "prefix=",
    ):
        trainer(tmp_path, once, again).validate(Given(), users(), verbose=False)
    again = EvaluationCallback(small(prefix="cold_"))
    (logged,) = trainer(tmp_path, once, again).validate(Given(), users(), verbose=False)
    assert set(logged) == {"val_nDCG@5", "val_HitRate@5", "val_cold_nDCG@5", "val_cold_HitRate@5"}


class Logging(Given):
    """A module that logs a value under a name of the callback, in a step or at the end."""

    def __init__(self, in_step):
        super().__init__()
        self.in_step = in_step

    def validation_step(self, *arguments):
        if self.in_step:
            self.log("val_nDCG@5", 0.5)
        return super().validation_step(*arguments)

    def on_validation_epoch_end(self):
        if not self.in_step:
            self.log("val_nDCG@5", 0.5)


@pytest.mark.parametrize("in_step", [True, False])
def test_rejects_modules_that_log_the_same_names(tmp_path, in_step):
    module = Logging(in_step)
    with pytest.raises(SettingError, match="both log 'val_nDCG@5'; remove it from the module"):
        trainer(tmp_path, EvaluationCallback(small())).fit(module, users(), users())
    assert module.global_step == 0  # the sanity check was enough
    other = EvaluationCallback(small(prefix="mine_"))
    run = trainer(tmp_path, other)
    run.fit(Logging(in_step), users(), users())
    assert run.callback_metrics["val_nDCG@5"] == 0.5
    assert run.callback_metrics["val_mine_nDCG@5"] == pytest.approx(other.result["nDCG@5"])


def test_logs_standard_errors_and_slices(tmp_path):
    groups = ["a", "b", None] * (USERS // 3 + 1)
    evaluator = small(num_users=USERS, slices={"half": groups[:USERS]}, postfix="!")
    callback = EvaluationCallback(evaluator, log_std_errors=True, log_slices=True)
    (logged,) = trainer(tmp_path, callback).validate(Given(), users(), verbose=False)
    result, frame = callback.result, callback.result.slices
    expected = {}
    for metric in ("nDCG", "HitRate"):
        expected[f"val_{metric}@5!"] = result[f"{metric}@5"]
        expected[f"val_{metric}@5!/std_error"] = result.entry(f"{metric}@5").std_error
        for group in ("a", "b"):
            row = frame.row(
                by_predicate=(pl.col("metric") == metric) & (pl.col("group") == group), named=True
            )
            expected[f"val_{metric}@5[half={group}]!"] = row["value"]
    assert {name: logged.get(name) for name in expected} == pytest.approx(expected)
    with pytest.raises(SettingError, match="log_slices=True needs an evaluator with slices"):
        EvaluationCallback(small(), log_slices=True)


def test_one_file_for_one_dataloader(tmp_path):
    callback = EvaluationCallback(small(), stages="val", save_to=tmp_path / "deep" / "result.json")
    with pytest.raises(SettingError, match="nothing has been evaluated yet"):
        callback.result  # noqa: B018
    run = trainer(tmp_path, callback)
    run.validate(Given(), users(), verbose=False)
    assert values(weft.load_result(tmp_path / "deep" / "result.json")) == approx(callback.result)
    with pytest.raises(SettingError, match="one file for 2 dataloaders; give a folder"):
        run.validate(Given(), [users(), users()], verbose=False)


def test_reports_a_missing_extra(monkeypatch):
    monkeypatch.delitem(sys.modules, "weft.integrations.lightning")
    for name in ("lightning", "lightning.pytorch"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ImportError) as error:
        importlib.import_module("weft.integrations.lightning")
    assert isinstance(error.value, WeftError)
    assert (
        str(error.value)
        == "weft.integrations.lightning needs Lightning; install it with: pip install "
        "'weft[lightning]'"
    )


# --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def two_processes(tmp_path_factory):
    """What each of two processes found, and the folder with what they wrote."""
    folder = tmp_path_factory.mktemp("ddp")
    launcher = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
    ]
    command = [*launcher, str(ROOT / "tests" / "lightning_modules.py"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-5000:]
    return folder, [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "repeated"), [(0, 1), (1, 0), (2, 0)], ids=["padded", "empty rank", "uneven"]
)
def test_two_processes_match_one(two_processes, number, repeated):
    folder, ranks = two_processes
    whole = expected()
    saved = weft.load_result(folder / "saved" / f"val-epoch0-step0-dataloader_idx_{number}.json")
    assert values(saved) == approx(whole)
    for rank in ranks:
        found = rank["found"][f"val/dataloader_idx_{number}"]
        assert found["values"] == pytest.approx(
            {f"val_{name}": value for name, value in values(whole).items()}, abs=1e-9, nan_ok=True
        )
        assert found["counts"] == {**whole.counts, "repeated_users": repeated}
        assert rank["said"] == []  # Lightning does not ask for sync_dist


@pytest.mark.slow
def test_spawned_processes_return_their_results(tmp_path):
    """Of half of the metrics: Lightning sends logged values through a pipe of 64 KiB, and a process
    that logs more never ends."""
    script = tmp_path / "spawned.py"
    script.write_text(
        "import lightning\n"
        "from torch.utils.data import DataLoader\n"
        "from lightning_modules import BUILT_IN, QUIET, Given, Users, everything\n"
        "from weft.integrations.lightning import EvaluationCallback\n"
        "if __name__ == '__main__':\n"
        "    callback = EvaluationCallback(everything(BUILT_IN[::2], per_user=True))\n"
        "    trainer = lightning.Trainer(callbacks=[callback], logger=False, devices=2,\n"
        "        enable_checkpointing=False, strategy='ddp_spawn', **QUIET)\n"
        "    trainer.validate(Given(), DataLoader(Users(), batch_size=7), verbose=False)\n"
        f"    callback.result.save({str(tmp_path / 'result.json')!r})\n"
        "    assert list(callback.results) == ['val']\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "tests")}
    done = subprocess.run(
        [sys.executable, str(script)], env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr[-5000:]
    result = weft.load_result(tmp_path / "result.json")
    assert (
        values(result) == approx(expected(metrics=BUILT_IN[::2]))
        and result.counts["users"] == USERS
    )
    assert len(result.per_user) == len(expected(metrics=BUILT_IN[::2], per_user=True).per_user)


@pytest.mark.slow
def test_training_in_two_processes(two_processes):
    folder, ranks = two_processes
    result = weft.load_result(folder / "fit.json")
    assert result.counts["users"] == USERS and result.counts["repeated_users"] == 1
    assert sorted(result.per_user["user"]) == sorted(expected(per_user=True).per_user["user"])
    with open(folder / "log" / "metrics.csv", newline="") as file:
        assert float(list(csv.DictReader(file))[-1]["val_nDCG@5"]) == pytest.approx(
            result["nDCG@5"], rel=1e-6
        )
    assert ranks[0]["best"] == ranks[1]["best"] >= result["nDCG@5"]
    for rank in ranks:
        assert "validation_step returned no 'user_indices'" in rank["errors"]["user_indices"]
        assert "sync_on_compute=False" in rank["errors"]["sync"]
        assert "the other processes would wait forever" in rank["errors"]["skip"]


@pytest.mark.slow
def test_example_in_two_processes(two_processes):
    _, ranks = two_processes
    for rank in ranks:
        callback = rank["found"]["sasrec"]
        assert callback["counts"]["users"] == 101  # shared out unevenly, nobody twice
        assert rank["tested"]["test_HR@10"] == pytest.approx(
            callback["values"]["test_HitRate@10"], abs=1e-7
        )
        assert rank["tested"]["test_NDCG@10"] == pytest.approx(
            callback["values"]["test_nDCG@10"], abs=1e-7
        )


# --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_example_beats_popularity(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(ROOT / "examples")
    import sasrec_lightning

    threads = torch.get_num_threads()
    try:
        tested, baseline, beyond = sasrec_lightning.run(epochs=5, out=tmp_path)
    finally:
        torch.set_num_threads(threads)
    assert tested["test_NDCG@10"] > 1.1 * baseline["nDCG@10"]
    assert tested["test_HR@10"] == pytest.approx(beyond.result["HitRate@10"], abs=1e-7)
    printed = capsys.readouterr().out
    assert f"NDCG@10{tested['test_NDCG@10']:13.4f}{baseline['nDCG@10']:12.4f}" in printed
    assert (tmp_path / "best.ckpt").exists()
    assert beyond.result.counts["users"] == 1000

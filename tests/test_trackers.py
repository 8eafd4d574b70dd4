"""Results in MLflow, W&B and TensorBoard, read back from their stores."""

import importlib
import json
import math
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import weft
from weft import cli
from weft.errors import MissingExtra, SettingError
from weft.integrations import tracking

ROOT = Path(__file__).parents[1]
TRUTH = np.eye(6, 8)
OPTIONS = {"metrics": ["nDCG", "F1(beta=0.5)", "ItemCoverage", "Gini"], "top_k": [2, 3]}


def evaluate(seed=0, **options):
    scores = np.random.default_rng(seed).random((6, 8))
    return weft.evaluate(scores, TRUTH, **{"name": f"model {seed}", **OPTIONS, **options})


RESULT = evaluate(per_user=True)
COMPARISON = weft.compare({"a": RESULT, "b": evaluate(1, per_user=True)})
EXPECTED = {
    "nDCG_at_2": RESULT["nDCG@2"],
    "nDCG_at_2_ci_low": RESULT.entry("nDCG@2").ci_low,
    "nDCG_at_2_ci_high": RESULT.entry("nDCG@2").ci_high,
    "F1_beta_0_5_at_3": RESULT["F1(beta=0.5)@3"],
    "ItemCoverage_at_3": RESULT["ItemCoverage@3"],
}


# Names and values


def test_names_are_letters_digits_and_underscores_and_differ():
    names = [
        "nDCG@10",
        "F1(beta=0.5)@5",
        "F1(beta=0,5)@5",
        "3rd",
        "Recall@5[gender=F]",
        "é",
        "(",
        "]",
    ]
    assert list(tracking.legal_names(names).values()) == [
        *("nDCG_at_10", "F1_beta_0_5_at_5", "F1_beta_0_5_at_5_2", "_3rd"),
        *("Recall_at_5_gender_F", "metric", "metric_2", "metric_3"),
    ]


def test_values_have_intervals_and_undefined_ones_are_left_out():
    values = tracking.metric_values(RESULT, "val_")
    assert {f"val_{name}" for name in EXPECTED} <= values.keys()
    assert "val_Gini_at_2" in values and "val_Gini_at_2_ci_low" not in values
    nothing = weft.evaluate(np.eye(2), np.zeros((2, 2)), metrics=["nDCG", "ItemCoverage"], top_k=1)
    assert math.isnan(nothing["nDCG@1"])
    assert tracking.metric_values(nothing).keys() == {"ItemCoverage_at_1"}


def test_the_interval_is_the_one_that_results_show():
    entry = (result := evaluate(bootstrap=50)).entry("Gini@2")
    values = tracking.metric_values(result)
    assert (values["Gini_at_2_ci_low"], values["Gini_at_2_ci_high"]) == entry.interval[:2]


def test_long_texts_are_cut():
    assert tracking.shorten("a" * tracking.MAX_TEXT) == "a" * tracking.MAX_TEXT
    cut = tracking.shorten("a" * 7000)
    assert len(cut) == tracking.MAX_TEXT and cut.endswith("a ...")


@pytest.mark.parametrize("tool", ["mlflow", "wandb", "tensorboard"])
def test_a_tracker_that_is_not_installed_is_named(tool, monkeypatch):
    monkeypatch.setitem(sys.modules, tool, None)
    module = importlib.import_module(f"weft.integrations.{tool}")
    with pytest.raises(MissingExtra, match=rf"pip install 'weft\[{tool}\]'"):
        module.log(RESULT)
    done = CliRunner().invoke(cli.app, ["evaluate", "--log", tool])
    assert done.exit_code == 2 and f"weft[{tool}]" in done.output


def test_the_report_is_left_out_without_its_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "altair", None)
    files = tracking.write_artifacts(RESULT, tmp_path, report=True)
    assert [file.name for file in files] == ["result.json"]


# TensorBoard


def read_events(folder):
    """Return {tag: [(step, value)]} of scalars, and {tag: text}."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder)).Reload()
    tags = events.Tags()
    scalars = {
        tag: [(one.step, one.value) for one in events.Scalars(tag)] for tag in tags["scalars"]
    }
    texts = {
        tag.removesuffix("/text_summary"): events.Tensors(tag)[-1]
        .tensor_proto.string_val[0]
        .decode()
        for tag in tags["tensors"]
    }
    return scalars, texts


def test_tensorboard(tmp_path, monkeypatch):
    from weft.integrations.tensorboard import log

    monkeypatch.chdir(tmp_path)
    folder = log(RESULT, report=False)
    assert folder == Path("runs/model_0")
    scalars, texts = read_events(folder)
    for name, value in EXPECTED.items():
        assert scalars[name] == [(0, pytest.approx(value, rel=1e-6))]
    assert "| ties | index |" in texts["weft/settings"] and texts["weft/model"] == "model 0"
    assert all(note in texts["weft/notes"] for note in RESULT.notes)
    assert weft.load_result(folder / "result.json") == RESULT
    assert not (folder / "report.html").exists()


def test_tensorboard_by_epoch(tmp_path):
    from torch.utils.tensorboard import SummaryWriter

    from weft.integrations.tensorboard import log

    with SummaryWriter(str(tmp_path)) as writer:
        for epoch in range(3):
            assert log(evaluate(epoch), writer, step=epoch, prefix="val_") == tmp_path
    steps = read_events(tmp_path)[0]["val_nDCG_at_2"]
    assert steps == [(e, pytest.approx(evaluate(e)["nDCG@2"], rel=1e-6)) for e in range(3)]
    assert not (tmp_path / "result.json").exists()


@pytest.mark.slow
def test_tensorboard_of_a_comparison(tmp_path):
    from weft.integrations.tensorboard import log

    log(COMPARISON, tmp_path)
    assert "nDCG@2" in read_events(tmp_path)[1]["weft/comparison"]
    assert "model_a" in (tmp_path / "comparison.csv").read_text()
    assert "<html" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize("tool", ["mlflow", "wandb", "tensorboard"])
def test_other_objects_are_refused(tool):
    module = importlib.import_module(f"weft.integrations.{tool}")
    with pytest.raises(SettingError, match="takes a Result or a Comparison; got a dict"):
        module.log({"nDCG@2": 1.0})


# MLflow


@pytest.fixture(scope="module")
def mlflow(tmp_path_factory):
    """Give MLflow with a store of its own."""
    patch = pytest.MonkeyPatch()
    patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    import mlflow

    folder = tmp_path_factory.mktemp("mlflow")
    mlflow.set_tracking_uri(f"sqlite:///{folder}/store.db")
    mlflow.create_experiment("weft", artifact_location=(folder / "artifacts").as_uri())
    mlflow.set_experiment("weft")
    yield mlflow
    mlflow.set_tracking_uri(None)
    patch.undo()


def find_artifacts(mlflow, run_id):
    return {Path(one.path).name for one in mlflow.MlflowClient().list_artifacts(run_id, "weft")}


@pytest.mark.slow
def test_mlflow(mlflow):
    from weft.integrations.mlflow import log

    run = mlflow.get_run(log(RESULT))
    for name, value in EXPECTED.items():
        assert run.data.metrics[name] == value
    assert run.data.params["weft.ties"] == "index" and run.data.tags["weft.model"] == "model 0"
    assert run.data.tags["weft.notes"] == "\n".join(RESULT.notes)
    assert json.loads(run.data.tags["weft.counts"])["users"] == 6
    assert run.info.run_name == "model 0" and run.info.status == "FINISHED"
    assert find_artifacts(mlflow, run.info.run_id) == {"result.json", "report.html"}
    path = mlflow.artifacts.download_artifacts(
        run_id=run.info.run_id, artifact_path="weft/result.json"
    )
    assert weft.load_result(path) == RESULT


@pytest.mark.slow
def test_mlflow_by_epoch_in_the_active_run(mlflow):
    from weft.integrations.mlflow import log

    with mlflow.start_run() as run:
        mlflow.log_param("rate", 0.1)
        for epoch in range(3):
            assert log(evaluate(epoch), step=epoch, prefix="val/") == run.info.run_id
        assert mlflow.active_run() is not None
        log(COMPARISON, report=False)
    history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "val/nDCG_at_2")
    assert [(one.step, one.value) for one in history] == [
        (epoch, evaluate(epoch)["nDCG@2"]) for epoch in range(3)
    ]
    assert find_artifacts(mlflow, run.info.run_id) == {"comparison.csv"}
    assert mlflow.get_run(run.info.run_id).data.params["rate"] == "0.1"


@pytest.mark.slow
def test_mlflow_results_with_different_settings_in_one_run(mlflow):
    from weft.integrations.mlflow import log

    with mlflow.start_run() as run:
        log(evaluate(metrics="nDCG"), step=0, prefix="val_")
        log(evaluate(name="best"), prefix="test_", report=False)
        with pytest.raises(mlflow.MlflowException, match="Changing param values"):
            log(evaluate(metrics="Recall"), step=1, prefix="val_")
    data = mlflow.get_run(run.info.run_id).data
    assert "Gini@2" not in data.params["weft.val_metrics"]
    assert "Gini@2" in data.params["weft.test_metrics"]
    assert data.tags["weft.val_model"] == "model 0" and data.tags["weft.test_model"] == "best"
    assert "val_Recall_at_2" not in data.metrics  # nothing of the refused result is logged


# Weights & Biases


def read_run(folder):
    """Return the records of an offline run by kind: a LevelDB log of protocol buffers."""
    from wandb.proto import wandb_internal_pb2

    (path,) = folder.glob("wandb/offline-run-*/*.wandb")
    data, place, part = path.read_bytes(), 7, b""
    records = {}
    while place + 7 <= len(data):
        if (left := 32768 - place % 32768) < 7:
            place += left
            continue
        _, length, kind = struct.unpack("<IHB", data[place : place + 7])
        part += data[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # a complete record, or the last part of one
            record = wandb_internal_pb2.Record.FromString(part)
            records.setdefault(record.WhichOneof("record_type"), []).append(record)
            part = b""
    return records


def read_items(items):
    return {(one.key or one.nested_key[0]): json.loads(one.value_json) for one in items}


@pytest.mark.slow
def test_wandb_offline(tmp_path, monkeypatch):
    import wandb

    from weft.integrations.wandb import log

    for name, value in {
        "WANDB_MODE": "offline",
        "WANDB_DIR": tmp_path,
        "WANDB_SILENT": "true",
    }.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(tmp_path)
    with wandb.init(name="tuning", config={"rate": 0.1}) as run:
        for epoch in range(2):
            assert log(evaluate(epoch), step=epoch, prefix="val_") == run.id
        log(RESULT, report=False)
    wandb.teardown()  # waits until the file is written
    records = read_run(tmp_path)
    rows = [read_items(one.history.item) for one in records["history"]]
    assert [row["val_nDCG_at_2"] for row in rows[:2]] == [
        evaluate(epoch)["nDCG@2"] for epoch in range(2)
    ]
    assert {name: rows[-1][name] for name in EXPECTED} == EXPECTED
    config = {}
    for one in records["config"]:
        config |= read_items(one.config.update)
    assert config["weft"]["ties"] == "index"
    summary = {}
    for one in records["summary"]:
        summary |= read_items(one.summary.update)
    assert summary["weft_model"] == "model 0" and summary["weft_notes"] == "\n".join(RESULT.notes)
    (artifact,) = (one.artifact for one in records["artifact"])
    assert (artifact.type, artifact.name) == ("evaluation", "model_0")
    assert [one.path for one in artifact.manifest.contents] == ["result.json"]


# The command line and the example


def write_files(folder):
    (folder / "als.csv").write_text("user,item,score\nann,tea,0.9\nann,rye,0.4\nbob,rye,0.7\n")
    (folder / "test.csv").write_text("user,item\nann,rye\nbob,rye\n")
    return ["evaluate", "--recs", "als.csv", "--truth", "test.csv", "-m", "MRR", "-k", "2"]


def test_the_command_line_logs_every_model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = write_files(tmp_path)
    done = CliRunner().invoke(cli.app, [*words, "--recs", "b=als.csv", "--log", "tensorboard"])
    assert done.exit_code == 0, done.output
    assert "Logged to tensorboard: als, runs/als" in done.output
    for name in ("als", "b"):
        assert read_events(Path("runs") / name)[0]["MRR_at_2"] == [(0, 0.75)]


def test_the_command_line_names_unknown_and_failing_trackers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = write_files(tmp_path)
    done = CliRunner().invoke(cli.app, [*words, "--log", "tensorbord"])
    assert done.exit_code == 2 and "Did you mean 'tensorboard'?" in done.output
    (tmp_path / "runs").write_text("a file in the place of the folder")
    done = CliRunner().invoke(cli.app, [*words, "--log", "tensorboard"])
    assert done.exit_code == 2
    assert "als was evaluated, but tensorboard cannot store it" in " ".join(done.output.split())
    assert "0.7500" in done.output  # the table comes first


@pytest.mark.slow
def test_the_optuna_example_tunes_and_prunes(tmp_path):
    words = [sys.executable, "-W", "error", ROOT / "examples" / "tune_optuna.py", "--trials", "10"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    first, best, _ = done.stdout.splitlines()
    completed, pruned = (int(words[0]) for words in map(str.split, first.split(", ")))
    assert completed + pruned == 10 and pruned > 0
    assert float(best.split()[2]) > 0.2

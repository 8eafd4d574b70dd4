"""The same settings have the same outcome in Python, in YAML and on the command line."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML
from typer.testing import CliRunner

import weft
from weft import cli
from weft.cli.flags import command_line_style
from weft.config import load
from weft.config.document import configuration_style
from weft.config.run import run
from weft.evaluation.settings import EvaluationSettings

FILES = {
    "truth": "user,item,rating\nann,tea,5\nann,rye,2\nbob,oat,4\ncat,tea,3\n",
    "train": "user,item\nann,oat\nbob,tea\nbob,rye\ncat,rye\n",
    "lists": "user,item,score\nann,tea,0.9\nann,oat,0.5\nbob,oat,0.8\nbob,rye,0.8\ncat,tea,0.7\n",
    "candidates": "user,item\nann,tea\nann,rye\nbob,oat\nbob,rye\ncat,tea\ncat,oat\n",
}
# Some allowed and some wrong values of every setting that all three interfaces offer.
VALUES = {
    "metrics": [["nDCG", "Recall"], ["EPC"], ["AUC"], ["nDGC"], ["MRR@3"]],
    "top_k": [[2], [1, 2], [0], [2, "x"]],
    "profile": ["ranx", "Trec_Eval", "trec"],
    "relevance_threshold": [3.0, 0.0],
    "mask_seen": [True, False],
    "ties": ["random", "EXPECTED", "indx"],
    "seed": [3, -1],
    "empty_users": ["zero", "none"],
    "missing_lists": ["skip", "none"],
    "extra_users": ["count", "SKIP", "none"],
    "implicit": [True, False],
    "feature_separator": ["|", ""],
    "duplicates": ["keep-best", "keep", "miss"],
    "unknown_items": ["MISS", "error", "skip"],
    "candidates": ["cold", "warm", "listed", "wram", "candidates.csv"],
    "strategy": ["full", "sampled", "sample"],
    "num_negatives": [2, 0],
    "negative_sampling": ["uniform", "popularity", "popular"],
    "neg_alpha": [0.5, -1.0],
    "estimator": ["rank_estimate", "bias_variance", "bias"],
    "gamma": [0.5, 2.0],
    "bootstrap": [5, 1],
    "skill": [True, False],
    "slices": [{"activity": "quantiles(2)"}, {"activty": "quantiles(2)"}],
    "item_slices": [{"tail": "head_tail", "repeat": "targets"}, {"price": "quantiles(2)"}],
    "targets": ["new", "REPEATED", "old"],
    "batch_size": [2, 0],
    "threads": [2, 0],
    "device": ["cpu"],
    "memory": ["1KiB", "much"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("interfaces")
    for name, text in FILES.items():
        (path / f"{name}.csv").write_text(text)
    return path


def outcome_in_python(options, *, has_train):
    """Return the result, or the error."""
    train = Path("train.csv") if has_train else None
    try:
        return weft.evaluate(
            Path("lists.csv"), Path("truth.csv"), train=train, name="lists", **options
        )
    except weft.WeftError as error:
        return error


def outcome_in_yaml(options, *, has_train):
    """Return the result, or the text of the error."""
    evaluation, data = dict(options), {"truth": "truth.csv"}
    if has_train:
        data["train"] = "train.csv"
    if evaluation.get("candidates") == "candidates.csv":
        data["candidates"] = evaluation.pop("candidates")
    with open("run.yaml", "w") as file:
        document = {"data": data, "models": {"lists": "lists.csv"}, "evaluation": evaluation}
        YAML().dump(document, file)
    try:
        (result,) = run(load("run.yaml"))
        return result
    except weft.WeftError as error:
        return str(error)


def outcome_on_the_command_line(options, *, has_train):
    """Return the result as plain JSON, or the text of the error."""
    words = ["evaluate", "--recs", "lists.csv", "--truth", "truth.csv", "--format", "json"]
    words += ["--train", "train.csv"] if has_train else []
    flags = {field.name: field.option.flag for field in EvaluationSettings.fields()}
    for name, value in options.items():
        if name == "mask_seen":
            words.append("--mask-seen" if value else "--keep-seen")
        elif name in ("slices", "item_slices"):
            words += [f"{flags[name]}={group}={by}" for group, by in value.items()]
        elif name in ("implicit", "skill"):
            words += [flags[name]] if value else []
        else:
            values = value if isinstance(value, list) else [value]
            words.append(f"{flags[name]}={','.join(map(str, values))}")
    done = CliRunner().invoke(cli.app, words, prog_name="weft")
    assert done.exit_code in (0, 2), done.output
    return done.stderr if done.exit_code else json.loads(done.stdout)[0]


def plain(result):
    document = result if isinstance(result, dict) else json.loads(json.dumps(result.to_dict()))
    return {key: document.get(key) for key in ("values", "counts", "notes", "settings")}


@st.composite
def pairs(draw):
    names = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=2, unique=True))
    return {name: draw(st.sampled_from(VALUES[name])) for name in names}


def test_draws_every_setting_of_all_interfaces():
    offered = {
        field.name
        for field in EvaluationSettings.fields()
        if field.option.flag and field.option.key and field.option.in_evaluate
    }
    # --per-user and --keep-lists need a folder to write to, --checkpoint a file.
    assert offered - {"per_user", "keep_lists", "checkpoint"} == set(VALUES)


@seed(20)
@settings(
    max_examples=60,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(options=pairs(), has_train=st.booleans())
def test_pairs_of_settings_have_the_same_outcome(folder, monkeypatch, options, has_train):
    monkeypatch.chdir(folder)
    options = {"metrics": ["nDCG", "Recall"], "top_k": [2], **options}
    in_python = outcome_in_python(options, has_train=has_train)
    in_yaml = outcome_in_yaml(options, has_train=has_train)
    on_the_command_line = outcome_on_the_command_line(options, has_train=has_train)
    if isinstance(in_python, weft.WeftError):
        assert isinstance(in_yaml, str) and isinstance(on_the_command_line, str)
        assert in_python.render(configuration_style) in in_yaml
        assert in_python.render(command_line_style) in on_the_command_line
    else:
        assert plain(in_yaml) == plain(in_python) == plain(on_the_command_line)


def test_rejects_sampling_settings_without_sampling(folder, monkeypatch):
    monkeypatch.chdir(folder)
    options = {"metrics": ["nDCG"], "top_k": [2], "num_negatives": 5}
    error = outcome_in_python(options, has_train=True)
    assert str(error).startswith("num_negatives=5 applies to sampled negatives")
    assert outcome_in_yaml(options, has_train=True).startswith(
        "run.yaml:11:18: num_negatives: 5 applies to sampled negatives"
    )
    assert outcome_on_the_command_line(options, has_train=True).startswith(
        "error: --num-negatives 5 applies to sampled negatives, but --strategy full ranks all"
    )

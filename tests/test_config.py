"""Configurations: loading, the positions of mistakes, and running."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import stats

import weft
from test_golden import GOLDEN, stored
from weft.config import Configuration, from_mapping, load, load_evaluation, schema
from weft.config import run as config_run
from weft.metrics import registry

ROOT = Path(__file__).parents[1]
SEEDS = ROOT.parent / "shared" / "seeds"
LISTS = {
    "als": [
        ("u1", "a", 0.9),
        ("u1", "b", 0.5),
        ("u2", "c", 0.8),
        ("u2", "a", 0.1),
        ("u3", "d", 0.7),
    ]
}
LISTS["pop"] = [("u1", "c", 3), ("u1", "a", 2), ("u2", "a", 3), ("u2", "c", 2), ("u3", "a", 1)]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with data; the current folder is another one."""
    home, elsewhere = tmp_path / "home", tmp_path / "elsewhere"
    home.mkdir()
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    for name, rows in LISTS.items():
        pl.DataFrame(rows, schema=["user", "item", "score"], orient="row", strict=False).write_csv(
            home / f"{name}.csv"
        )
    truth = [("u1", "a", 5), ("u1", "d", 1), ("u2", "c", 4), ("u3", "b", 3)]
    pl.DataFrame(truth, schema=["user", "item", "rating"], orient="row").write_csv(
        home / "truth.csv"
    )
    train = [("u1", "c", 1), ("u2", "a", 1), ("u2", "d", 1), ("u3", "a", 1)]
    pl.DataFrame(train, schema=["user", "item", "rating"], orient="row").write_csv(
        home / "train.csv"
    )
    return home


@pytest.fixture
def registered():
    """Metrics that a test registers are forgotten after it."""
    registry.all_metrics()
    before = dict(registry._classes)
    yield
    registry._classes.clear()
    registry._classes.update(before)
    registry.canonical_name.cache_clear()


def write_config(folder, text):
    path = folder / "run.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def error_lines(folder, text):
    """Return the lines of the error of a configuration, without the file."""
    with pytest.raises(weft.WeftError) as caught:
        load(write_config(folder, text))
    return [line.removeprefix(f"{folder / 'run.yaml'}:") for line in str(caught.value).split("\n")]


# --------------------------------------------------------------------------------------------------

EXAMPLES = {
    "complex F1": """evaluation:
    top_k: [10, 20, 50]
    complex_metrics:
        - name: F1
          params:
              metric_name_1: nDCG
              metric_name_2: MAP
              beta: 0.5
""",
    "F1": "evaluation: {top_k: [10, 20, 50], metrics: [F1]}",
    "AUC": "evaluation: {metrics: [AUC]}",
    "GAUC": "evaluation: {metrics: [GAUC]}",
    "accuracy": "evaluation: {top_k: [10,20,50], metrics: [LAUC, MAP, MAR, MRR, nDCG, "
    "nDCGRendle2020]}",
    "one cut-off": "evaluation: {top_k: 10, metrics: [Precision, Recall, HitRate]}",
    "EucDistance": "evaluation: {top_k: 10, complex_metrics: [{name: EucDistance, params: "
    "{metric_names: [Precision, nDCG],"
    " utopia_points: [1, 1]}}]}",
    "Hypervolume": "evaluation: {top_k: 10, complex_metrics: [{name: Hypervolume, params: "
    "{metric_names: [nDCG, ItemCoverage],"
    " nadir_points: [0.0, 0], higher_is_better: [true, true]}}]}",
}
ASKED = {
    "complex F1": ("F1(metric_name_1=nDCG, metric_name_2=MAP, beta=0.5)", [10, 20, 50]),
    "F1": ("F1", [10, 20, 50]),
    "AUC": ("AUC", None),
    "GAUC": ("GAUC", None),
    "accuracy": (["LAUC", "MAP", "MAR", "MRR", "nDCG", "nDCGRendle2020"], [10, 20, 50]),
    "one cut-off": (["Precision", "Recall", "HitRate"], 10),
    "EucDistance": ("EucDistance(metric_names=[Precision, nDCG], utopia_points=[1, 1])", 10),
    "Hypervolume": (
        "Hypervolume(metric_names=[nDCG, ItemCoverage], nadir_points=[0, 0], "
        "higher_is_better=[True, True])",
        10,
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_run_on_scores(folder, name):
    """With scores in Python; with lists they are run below, where lists can serve them."""
    generator = np.random.default_rng(3)
    scores, truth = generator.random((20, 60)), (generator.random((20, 60)) < 0.1).astype(float)
    arguments = load_evaluation(write_config(folder, EXAMPLES[name])).settings()
    metrics, top_k = ASKED[name]
    expected = weft.evaluate(scores, truth, metrics=metrics, top_k=top_k)
    got = weft.evaluate(scores, truth, **arguments)
    assert {value.name: value.value for value in got.entries} == {
        value.name: value.value for value in expected.entries
    }
    assert load(write_config(folder, EXAMPLES[name])).data is None


@pytest.mark.parametrize("name", [name for name in EXAMPLES if "AUC" not in name])
def test_examples_run_with_files_of_overrides(folder, name):
    files = {"data": {"truth": "../home/truth.csv"}, "models": {"als": "../home/als.csv"}}
    (result,) = config_run.run(load(write_config(folder, EXAMPLES[name]), files))
    metrics, top_k = ASKED[name]
    truth = {"u1": {"a": 5, "d": 1}, "u2": {"c": 4}, "u3": {"b": 3}}
    expected = weft.evaluate(
        {"u1": ["a", "b"], "u2": ["c", "a"], "u3": ["d"]}, truth, metrics=metrics, top_k=top_k
    )
    assert {value.name: value.value for value in result.entries} == {
        value.name: value.value for value in expected.entries
    }


@pytest.mark.skipif(not SEEDS.is_dir(), reason=f"the texts are not here: {SEEDS}")
def test_blocks_of_shared_texts_load_or_are_rejected(folder):
    blocks = [block for path in sorted(SEEDS.glob("*.txt")) for block in yaml_blocks(path)]
    broken = []
    for block in blocks:
        try:
            assert load(write_config(folder, block)).evaluation.all_metrics
        except weft.WeftError as error:
            broken.append(str(error))
    assert len(blocks) > 10 and len(broken) == 1
    assert (
        "bad indentation: 'params' starts in column 13, but 'name' in line 4 starts in column 11"
        in broken[0]
    )


def yaml_blocks(path):
    return re.findall(
        r"^```yaml\n(.*?)^```", path.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
    )


def test_every_key_reaches_the_evaluation(folder):
    text = """
evaluation:
  metrics: nDCG
  top_k: 5
  profile: Ranx
  relevance_threshold: 2
  mask_seen: false
  ties: Expected
  seed: 7
  empty_users: skip
  missing_lists: skip
  duplicates: keep-best
  batch_size: 100
  device: cpu
  per_user: yes
  candidates: Warm
  strategy: Sampled
  num_negatives: 9
  negative_sampling: popularity
  neg_alpha: 1
  bootstrap: 200
  slices: {activity: quantiles(2)}
"""
    assert load(write_config(folder, text)).evaluation.settings() == {
        "metrics": ["nDCG"],
        "top_k": (5,),
        "profile": "ranx",
        "relevance_threshold": 2.0,
        "mask_seen": False,
        "ties": "expected",
        "seed": 7,
        "empty_users": "skip",
        "missing_lists": "skip",
        "duplicates": "keep-best",
        "batch_size": 100,
        "device": "cpu",
        "per_user": True,
        "candidates": "warm",
        "strategy": "sampled",
        "num_negatives": 9,
        "negative_sampling": "popularity",
        "neg_alpha": 1.0,
        "bootstrap": 200,
        "slices": {"activity": "quantiles(2)"},
    }
    corrected = (
        "evaluation: {strategy: sampled, estimator: Bias_Variance, gamma: 0.5, num_negatives: 7}"
    )
    assert load(write_config(folder, corrected)).evaluation.settings() == {
        "metrics": [],
        "strategy": "sampled",
        "num_negatives": 7,
        "estimator": "bias_variance",
        "gamma": 0.5,
    }


def test_rejects_sampling_keys_without_sampling(folder):
    lines = error_lines(
        folder, "evaluation: {num_negatives: 7, negative_sampling: uniform, neg_alpha: 0.5}"
    )
    assert [line.partition(" applies to ")[0] for line in lines] == [
        "1:29: num_negatives: 7",
        "1:51: negative_sampling: uniform",
        "1:71: neg_alpha: 0.5",
    ]


def test_reads_files_as_path_or_mapping(folder):
    text = """
data:
  truth: {path: truth.csv, format: CSV, separator: ',', header: true, columns: {user: 0, item: sku}}
  train: ~/nothing
models: {1: als.csv, 2020-01-01: {path: pop.csv, separator: '\\t'}}
output: results
report: pages/all.htm
"""
    home = {"HOME": str(folder)}
    (folder / "nothing").write_text("")
    before = os.environ.copy()
    os.environ.update(home)
    try:
        configuration = load(write_config(folder, text))
    finally:
        os.environ.clear()
        os.environ.update(before)
    file = configuration.data.truth.file()
    assert (file.path, file.format, file.separator, file.header) == (
        folder / "truth.csv",
        "csv",
        ",",
        True,
    )
    assert file.columns == {"user": 0, "item": "sku"}
    assert configuration.data.train.path == folder / "nothing"
    assert (
        list(configuration.models) == ["1", "2020-01-01"]
        and configuration.models["2020-01-01"].separator == "\t"
    )
    assert (
        configuration.output == folder / "results"
        and configuration.report == folder / "pages" / "all.htm"
    )


def test_reads_booleans_with_an_anchor(folder):
    text = "evaluation: {metrics: nDCG@2, save_per_user: &keep true, exposure: *keep}"
    evaluation = load(write_config(folder, text)).evaluation
    assert evaluation.per_user is True and evaluation.exposure is True


def test_text_that_looks_like_a_number_is_quoted_in_errors(folder):
    (line,) = error_lines(folder, "evaluation: {metrics: nDCG, top_k: '10'}")
    assert line == (
        "1:36: top_k: '10'; cut-offs are integers of at least 1, such as top_k: [10, 20]."
    )


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("data: {truth: truth.csv}\nmetrics: nDCG@5", "It belongs to the section 'evaluation:'."),
        ("data: {truth: truth.csv}\nrecommendations: {a: als.csv}", "Did you mean 'models'?"),
        ("data: {truth: truth.csv, test: truth.csv}", "Did you mean 'truth'?"),
        ("models: {als: {path: als.csv, file: als.csv}}", "Did you mean 'path'?"),
    ],
)
def test_unknown_keys_suggest_the_key_with_this_meaning(folder, text, hint):
    (line,) = error_lines(folder, text)
    assert "unknown key" in line and hint in line


def test_warns_if_lists_or_train_are_the_truth(folder):
    files = "data: {truth: truth.csv, train: truth.csv}\nmodels: {als: als.csv, b: truth.csv}\n"
    path = write_config(folder, f"{files}evaluation: {{metrics: nDCG@2}}")
    assert load(path).warnings == (
        f"{path}:1:26: data.train: is the same file as data.truth; give two different files.",
        f"{path}:2:24: models.b: is the same file as data.truth; give two different files.",
    )


def test_anchors_aliases_and_merged_keys(folder):
    text = """
x-common: &common
  top_k: [3, 5]
  metrics: &metrics [nDCG, Recall]
evaluation:
  <<: *common
  metrics: *metrics
  ties: random
data: {truth: &file truth.csv, train: *file}
"""
    configuration = load(write_config(folder, text))
    assert configuration.evaluation.settings() == {
        "metrics": ["nDCG", "Recall"],
        "top_k": (3, 5),
        "ties": "random",
    }
    assert configuration.data.train == configuration.data.truth
    merged = text.replace("[3, 5]", "[3, five]")
    assert error_lines(folder, merged) == [
        "3:14: top_k: five; cut-offs are integers of at least 1, such as top_k: [10, 20]."
    ]


def nested_anchors(levels, width, form):
    """Return lists or merged mappings of `width` aliases each, whose size is `width**levels`."""
    lines = ["x-0: &x0 {metrics: nDCG}"]
    for level in range(1, levels):
        aliases = ", ".join([f"*x{level - 1}"] * width)
        lines.append(form.format(number=level, aliases=aliases))
    return "\n".join([*lines, f"data: *x{levels - 1}"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            nested_anchors(10, 9, "x-{number}: &x{number} [{aliases}]"),
            r"6:\d+: aliases up to \*x4 expand to more than 100,000 values",
        ),
        (
            nested_anchors(10, 9, "x-{number}: &x{number} {{<<: [{aliases}]}}"),
            r"6:\d+: aliases up to \*x4 expand to more than 100,000 values",
        ),
        (
            f"x-text: &x {'long' * 20_000}\ndata: [{', '.join(['*x'] * 100)}]",
            r"2:\d+: aliases up to \*x expand to more than 100,000 values",
        ),
        ("data: !!set 1", " a tag such as !!set or !!omap does not fit its value; remove the tag"),
        ("data: &a {<<: *a}", r"1:15: \*a refers to &a, which contains it; remove"),
        ("data: &a\n  - b: *a", r"2:8: \*a refers to &a, which contains it"),
        (f"data: {'[' * 5000}", "1:56: lists or mappings are nested more than 50 levels deep"),
        (f"data: {'{a: ' * 5000}", "1:203: lists or mappings are nested more than 50 levels"),
        ("- " * 5000, "1:101: lists or mappings are nested more than 50 levels deep"),
        ("? " * 5000, "1:101: lists or mappings are nested more than 50 levels deep"),
        (
            nested_anchors(60, 1, "x-{number}: &x{number} [{aliases}]"),
            r"50:\d+: lists or mappings are nested more than 50 levels deep",
        ),
    ],
)
def test_limits_what_aliases_repeat_and_how_deep_values_nest(folder, text, message):
    path = write_config(folder, text)
    with pytest.raises(weft.WeftError, match=f"^{re.escape(str(path))}:{message}"):
        load(path)


@pytest.mark.parametrize(
    ("seed", "cases"), [(1, 400), pytest.param(2, 10_000, marks=pytest.mark.slow)]
)
def test_any_anchors_aliases_and_merges_load_or_are_an_error(folder, seed, cases):
    random = np.random.default_rng(seed)
    words = ["&a ", "&b ", "*a ", "*b ", "<<: ", "[", "]", "{", "}", ", ", ": ", "- ", "? ", "\n"]
    words += ["\n  ", "data", "models", "evaluation", "metrics", "nDCG", "!!set ", "!x ", "~", "1"]
    start = "x-a: &a {metrics: nDCG}\nx-b: &b [*a, *a]\n"
    messages = []
    for _ in range(cases):
        text = start + "".join(random.choice(words, random.integers(1, 12)))
        path = write_config(folder, text)
        try:
            load(path)
        except weft.WeftError as error:
            messages.append(str(error))
    assert 0 < len(messages) < cases
    assert all(message.startswith(str(path)) for message in messages)


def test_reads_many_aliases_and_levels_within_the_limits(folder):
    text = f"""
x-levels: {"[" * 49 + "]" * 49}
x-first: &x [1, 2]
x-second: &x [3, 4]
x-many: [{", ".join(["*x"] * 1000)}]
models: {{als: als.csv}}
"""
    assert list(load(write_config(folder, text)).models) == ["als"]


def test_ignores_keys_without_a_value(folder):
    configuration = load(
        write_config(
            folder, "evaluation:\n  metrics: [nDCG@3]\n  top_k:\n  ties:\ndata:\nmodels:\n"
        )
    )
    assert (
        configuration.evaluation.settings() == {"metrics": ["nDCG@3"]}
        and configuration.data is None
    )


# --------------------------------------------------------------------------------------------------

DATA = "data: {truth: truth.csv}\n"
MISTAKES = [
    (
        "evaluation:\n  metricz: [nDCG]",
        "2:3: evaluation.metricz: unknown key 'metricz'. Did you mean 'metrics'? Allowed keys: "
        "metrics,",
    ),
    (
        "evaluatoin: {}",
        "1:1: evaluatoin: unknown key 'evaluatoin'. Did you mean 'evaluation'? Allowed keys: "
        "evaluation, data, models,",
    ),
    (
        "evaluation:\n  top_k: [10, 0]",
        "2:15: top_k: 0; cut-offs are integers of at least 1, such as top_k: [10, 20].",
    ),
    (
        "evaluation: {top_k: 10.5}",
        "1:21: top_k: 10.5; cut-offs are integers of at least 1, such as top_k: [10, 20].",
    ),
    (
        "evaluation: {top_k: true}",
        "1:21: top_k: true; cut-offs are integers of at least 1, such as top_k: [10, 20].",
    ),
    (
        "evaluation: {top_k: '10, 20'}",
        "1:21: top_k: '10, 20'; cut-offs are integers of at least 1, such as top_k: [10, 20].",
    ),
    (
        "evaluation: {top_k: {a: 1}}",
        "1:21: top_k: a; cut-offs are integers of at least 1, such as top_k: [10, 20].",
    ),
    (
        "evaluation:\n  metrics: [nDCG@5, nDGC@5]",
        "2:21: evaluation.metrics[1]: there is no metric named 'nDGC'. Did you mean 'nDCG'?",
    ),
    (
        "evaluation:\n  metrics:\n    - nDCG(gian=linear)@5",
        "3:7: evaluation.metrics[0]: nDCG has no parameter 'gian'. Did you mean",
    ),
    (
        "evaluation: {metrics: [nDCG@]}",
        "1:24: evaluation.metrics[0]: cannot read the metric name 'nDCG@': expected a number",
    ),
    (
        "evaluation: {metrics: [5]}",
        "1:24: evaluation.metrics[0]: got 5, expected a metric name, such as nDCG or nDCG@10.",
    ),
    (
        "evaluation: {metrics: nDCG}",
        "1:23: evaluation.metrics: nDCG needs a cut-off: write 'nDCG@10', or give top_k: [10, 20].",
    ),
    (
        "evaluation: {metrics: 'nDCG, MAP'}",
        "1:23: evaluation.metrics: got 'nDCG, MAP', expected one metric name; use a list for "
        "several: [nDCG, MAP].",
    ),
    (
        "evaluation: {metrics: [F1(beta=2]}",
        "1:24: evaluation.metrics[0]: got 'F1(beta=2' with unbalanced parentheses; in [...], "
        "quote a name that contains commas:",
    ),
    (
        "evaluation: {metrics: [AUC@5]}",
        "1:24: evaluation.metrics[0]: AUC does not depend on a cut-off",
    ),
    (
        "evaluation:\n  top_k: 5\n  complex_metrics:\n    - name: F1\n      params: {metric_1: "
        "nDCG, betta: 2}",
        "5:32: evaluation.complex_metrics[0].params.betta: F1 has no parameter 'betta'. Did you "
        "mean 'beta'?",
    ),
    (
        "evaluation:\n  top_k: 5\n  complex_metrics:\n    - name: F1\n      params:\n        "
        "metric_1: nDGC",
        "6:19: evaluation.complex_metrics[0].params.metric_1: there is no metric named 'nDGC'. Did "
        "you mean 'nDCG'?",
    ),
    (
        "evaluation: {top_k: 5, complex_metrics: [{name: F1, params: {beta: -1}}]}",
        "1:68: evaluation.complex_metrics[0].params.beta: F1 got beta=-1; it must be a number "
        "above 0.",
    ),
    (
        "evaluation: {top_k: 5, complex_metrics: [{name: EucDistance, params: {metric_names: "
        "[nDCG, MAP], utopia_points: [1]}}]}",
        "1:113: evaluation.complex_metrics[0].params.utopia_points: EucDistance got "
        "utopia_points=(1,); give one number for each",
    ),
    (
        "evaluation: {top_k: 5, complex_metrics: [{name: EucDistance}]}",
        "1:42: evaluation.complex_metrics[0]: EucDistance@5 needs metric_names and utopia_points: "
        "write for example",
    ),
    (
        "evaluation: {complex_metrics: [{name: G1}]}",
        "1:39: evaluation.complex_metrics[0].name: there is no metric named 'G1'.",
    ),
    (
        "evaluation: {complex_metrics: [{nam: F1}]}",
        "1:32: evaluation.complex_metrics[0]: the key 'name' is missing; add it.",
    ),
    (
        "evaluation: {complex_metrics: [7]}",
        "1:32: evaluation.complex_metrics[0]: got 7, expected a mapping with name, params.",
    ),
    (
        "evaluation: {complex_metrics: [{name: F1, params: 3}]}",
        "1:51: evaluation.complex_metrics[0].params: got 3, expected a mapping of parameters, such "
        "as {beta: 0.5}.",
    ),
    (
        "evaluation: {top_k: 5, complex_metrics: [{name: F1, params: {beta: {a: 1}}}]}",
        "1:61: evaluation.complex_metrics[0].params: got a mapping for the parameter 'beta', "
        "expected a value or a list.",
    ),
    (
        "evaluation: {strategy: fulll}",
        "1:24: strategy: fulll is not known. Choose one of 'full', 'sampled'. Did you mean 'full'?",
    ),
    (
        "evaluation: {strategy: sampled, num_negatives: 0}",
        "1:48: num_negatives: 0; it must be an integer of at least 1.",
    ),
    (
        "evaluation: {strategy: sampled, negative_sampling: popular}",
        "1:52: negative_sampling: popular is not known. Choose one of 'uniform', "
        "'popularity'. Did you mean 'popularity'?",
    ),
    (
        "evaluation: {strategy: sampled, neg_alpha: -1}",
        "1:44: neg_alpha: -1; it must be a number of at least 0.",
    ),
    (
        "evaluation: {estimator: rank_estimate}",
        "1:25: estimator: rank_estimate estimates the values of a full ranking from sampled "
        "negatives, but strategy: full samples none; set strategy:",
    ),
    (
        "evaluation: {strategy: sampled, negative_sampling: popularity, estimator: bias_variance}",
        "1:75: estimator: bias_variance needs negatives that are sampled uniformly, not "
        "negative_sampling: popularity. Set",
    ),
    (
        "evaluation: {strategy: sampled, estimator: bias_variance, gamma: 0}",
        "1:66: gamma: 0; it must be a number above 0 and at most 1: the weight of variance "
        "against bias.",
    ),
    (
        "evaluation: {strategy: sampled, estimator: rank_estimate, gamma: 0.1}",
        "1:66: gamma: 0.1 is a parameter of estimator: bias_variance; estimator: rank_estimate "
        "has no such parameter.",
    ),
    (
        "evaluation: {candidates: negatives.csv}",
        "1:26: candidates: negatives.csv is not known; give a file with the candidates of each "
        "user as data.candidates.",
    ),
    (
        "data: {truth: truth.csv}\nevaluation: {candidates: cold}",
        "2:26: candidates: cold needs data.train, the interactions that make an item warm.",
    ),
    (
        "data: {truth: truth.csv}\nevaluation: {strategy: sampled, negative_sampling: popularity}",
        "2:52: negative_sampling: popularity needs data.train, whose interactions are counted.",
    ),
    (
        "data: {truth: truth.csv, candidates: truth.csv}\nevaluation: {candidates: listed}",
        "2:26: evaluation.candidates: data.candidates also gives the candidates of each user; "
        "remove one of the two.",
    ),
    (
        "data: {truth: truth.csv, candidates: truth.csv}\nevaluation: {strategy: sampled, "
        "num_negatives: 9}",
        "2:48: num_negatives: 9 applies to sampled negatives, but candidates gives the "
        "candidates; remove one of the two.",
    ),
    (
        "evaluation: {bootstrap: yes please}",
        "1:25: bootstrap: 'yes please'; it must be an integer of at least 2.",
    ),
    (
        "evaluation: {slices: [gender]}",
        "1:22: evaluation.slices: got a list, expected a mapping of slices, such as {activity: "
        "quantiles(4),",
    ),
    (
        "evaluation: {slices: {gender: 4}}",
        "1:31: evaluation.slices.gender: got 4, expected 'quantiles(4)', 'bins(5, 20)', a file "
        "(user, label), a column of a file such as users.csv:gender,",
    ),
    (
        "evaluation: {slices: {gender: none.csv}}",
        "1:31: evaluation.slices.gender: there is no file or folder ",
    ),
    (
        "data: {truth: truth.csv}\nevaluation: {slices: {activity: quantiles(4)}}",
        "2:33: evaluation.slices.activity: slices['activity'] counts train interactions "
        "and needs data.train.",
    ),
    (
        "evaluation: {slices: {activity: quantiles(1)}}",
        "1:33: evaluation.slices.activity: slices['activity'] has 'quantiles(1)'; quantiles take "
        "one integer of at least 2",
    ),
    (
        "evaluation: {slices: {activity: quantile(4)}}",
        "1:33: evaluation.slices.activity: slices['activity'] has 'quantile(4)'",
    ),
    (
        "evaluation: {slices: {activty: quantiles(4)}}",
        "1:32: evaluation.slices.activty: slices['activty'] is 'quantiles(4)', but 'activty' is "
        "not a known number of users.",
    ),
    (
        "evaluation: {slices: {age: {of: truth.csv, by: 'bins(3, 1)'}}}",
        "1:48: evaluation.slices.age.by: age has 'bins(3, 1)'; bins take the lower bounds of the "
        "groups in ascending order,",
    ),
    (
        "evaluation: {item_slices: [genre]}",
        "1:27: evaluation.item_slices: got a list, expected a mapping of item slices, such as "
        "{tail: head_tail,",
    ),
    (
        "evaluation: {item_slices: {genre: 4}}",
        "1:35: evaluation.item_slices.genre: got 4, expected 'head_tail', 'targets', ",
    ),
    (
        "data: {truth: truth.csv}\nevaluation: {item_slices: {tail: head_tail}}",
        "2:34: evaluation.item_slices.tail: item_slices['tail'] is 'head_tail(0.8)' and needs "
        "data.train.",
    ),
    (
        "evaluation: {item_slices: {month: time(mnth)}}",
        "1:35: evaluation.item_slices.month: item_slices['month'] has 'time(mnth)'. Did you mean "
        "'month'?",
    ),
    (
        "evaluation: {slices: {a: truth.csv}, item_slices: {a: head_tail}}",
        "1:55: evaluation.item_slices.a: ",
    ),
    (
        "evaluation: {targets: repeated, mask_seen: true}",
        "1:23: targets: repeated counts items of the user's train, which mask_seen: true removes",
    ),
    (
        "evaluation: {ties: indx}",
        "1:20: ties: indx is not known. Choose one of 'index', 'random', 'expected', "
        "'pessimistic', 'optimistic'. Did you mean 'index'?",
    ),
    (
        "evaluation: {profile: trec}",
        "1:23: profile: trec is not known. Choose one of 'warprec', 'elliot', "
        "'trec_eval', 'ranx', 'recbole', 'torchmetrics', 'rectools', 'sklearn', "
        "'replay', 'lenskit', 'ir_measures', 'recommenders', 'cornac', 'pyg', 'evidently', "
        "'recpack'.",
    ),
    (
        "evaluation: {profile: trec_eval, metrics: Gini@5}",
        "1:43: evaluation.metrics: profile: trec_eval does not cover Gini. It covers: F1,",
    ),
    (
        "evaluation: {empty_users: none}",
        "1:27: empty_users: none is not known. Choose one of 'skip', 'zero'.",
    ),
    (
        "evaluation: {missing_lists: 5}",
        "1:29: missing_lists: 5 is not known. Choose one of 'skip', 'zero'.",
    ),
    (
        "evaluation: {duplicates: keep}",
        "1:26: duplicates: keep is not known. Choose one of 'error', 'keep-best', "
        "'miss'. Did you mean 'keep-best'?",
    ),
    (
        "evaluation: {mask_seen: maybe}",
        "1:25: mask_seen: maybe is not known; choose True, False or 'auto'.",
    ),
    (
        "evaluation: {relevance_threshold: high}",
        "1:35: relevance_threshold: high; it must be a number above 0: the lowest rating of a "
        "relevant item.",
    ),
    (
        "evaluation: {relevance_threshold: .nan}",
        "1:35: relevance_threshold: nan; it must be a number above 0: the lowest rating of a "
        "relevant item.",
    ),
    ("evaluation: {seed: -1}", "1:20: seed: -1; it must be an integer of at least 0."),
    (
        "evaluation: {batch_size: 0}",
        "1:26: batch_size: 0; it must be an integer of at least 1.",
    ),
    (
        "evaluation: {save_per_user: 3}",
        "1:29: per_user: 3; it must be True or False.",
    ),
    ("evaluation: {per_user: 3}", "1:24: per_user: 3; it must be True or False."),
    (
        "evaluation: {per_user: true, save_per_user: true}",
        "1:14: evaluation.per_user: is an alias of save_per_user, which is",
    ),
    ("evaluation: {gates: ['nDCG@10 ?? 3']}", "1:22: evaluation.gates[0]: "),
    (
        "evaluation: {stat_significance: true}",
        "1:33: evaluation.stat_significance: got true, expected a mapping with paired_t_test,",
    ),
    (
        "evaluation:\n  stat_significance:\n    pared_t_test: true",
        "3:5: evaluation.stat_significance.pared_t_test: unknown key 'pared_t_test'. Did you mean "
        "'paired_t_test'?",
    ),
    (
        "evaluation: {stat_significance: {corrections: {alpha: 5}}}",
        "1:55: evaluation.stat_significance.corrections: alpha: 5; it must be between 0 and 1.",
    ),
    ("evaluation: 5", "1:13: evaluation: got 5, expected a mapping with metrics,"),
    ("data: {train: train.csv}", "1:7: data: the key 'truth' is missing; add it."),
    (
        "data:\n  truth: truth.csv\n  tran: train.csv",
        "3:3: data.tran: unknown key 'tran'. Did you mean 'train'? Allowed keys: truth, train,",
    ),
    (
        "data: {truth: [truth.csv]}",
        "1:15: data.truth: got a list, expected a path, or a mapping with path,",
    ),
    ("data: {truth: {format: csv}}", "1:15: data.truth: the key 'path' is missing; add it."),
    (
        "data:\n  truth: {path: truth.csv, fromat: csv}",
        "2:28: data.truth.fromat: unknown key 'fromat'. Did you mean 'format'?",
    ),
    (
        "data: {truth: {path: truth.csv, format: xls}}",
        "1:41: data.truth: format: xls is not known. Choose one of 'csv', 'tsv', "
        "'parquet', 'jsonl', 'json', 'recbole', 'trec'.",
    ),
    (
        "data: {truth: {path: truth.csv, separator: ''}}",
        "1:44: data.truth.separator: got '', expected the text between two columns, such as "
        "',' or '\\t'.",
    ),
    (
        "data: {truth: {path: truth.csv, columns: {usr: a}}}",
        "1:43: data.truth.columns.usr: unknown role 'usr'. Did you mean 'user'?",
    ),
    (
        "data: {truth: {path: truth.csv, columns: {user: -1}}}",
        "1:49: data.truth.columns.user: got -1, expected a column name, or its position from 0.",
    ),
    ("data: {truth: truht.csv}", "1:15: data.truth: there is no file or folder "),
    (
        "models: [als.csv]",
        "1:9: models: got a list, expected a name and a file for each model, such as {als: "
        "als.parquet}.",
    ),
    ("models: {als: }", "1:14: models.als: got nothing, expected a path, or a mapping with path,"),
    (
        "models: {a/b: als.csv}",
        "1:10: models.a/b: expected a valid file name, without '/'",
    ),
    ("models:\n  als:\n    pth: als.csv", "2:3: models.als: the key 'path' is missing; add it."),
    (
        "models: {als: als.csv}\nevaluation: {metrics: [AUC]}",
        "2:24: evaluation.metrics[0]: AUC needs the scores of all items, which",
    ),
    (
        DATA + "evaluation:\n  metrics: [Gini@5, EPC@5]",
        "3:21: evaluation.metrics[1]: EPC@5 needs train, the train interactions; give data.train "
        "(a file",
    ),
    (
        DATA + "evaluation: {metrics: REO@5}",
        "2:23: evaluation.metrics: REO@5 needs item_clusters, a label per item; give "
        "data.item_clusters (a file",
    ),
    (
        DATA + "evaluation: {mask_seen: true}",
        "2:25: mask_seen: true needs data.train, the interactions whose items are masked.",
    ),
    ("data: {truth: ~nobody.csv}", "1:15: data.truth: there is no file or folder"),
    ("output: [a]", "1:9: output: got a list, expected the path of a folder."),
    ("report: 3", "1:9: report: got 3, expected the path of a file that ends in .html or .htm."),
    (
        "report: a.pdf",
        "1:9: report: got 'a.pdf', expected the path of a file that ends in .html or .htm.",
    ),
    (
        "evaluation: {seed: !secret 5}",
        "1:20: evaluation.seed: the tag !secret is not supported; remove it.",
    ),
]


@pytest.mark.parametrize(("text", "expected"), MISTAKES, ids=range(len(MISTAKES)))
def test_errors_have_a_position(folder, text, expected):
    lines = error_lines(folder, text)
    assert any(line.startswith(expected) for line in lines), "\n".join(lines)
    assert "Traceback" not in "".join(lines) and "pydantic" not in "".join(lines)


def test_errors_explain_urls(folder):
    (line,) = error_lines(folder, "data: {truth: 's3a://lake/test'}")
    assert "This is a URL, which weft.engines.spark and weft.engines.ray read in Python" in line


def test_reports_each_error_once(folder):
    """Only a misspelt key, which is also missing or also two names, makes two."""
    several = [text for text, _ in MISTAKES if len(error_lines(folder, text)) > 1]
    assert several == [
        "evaluation: {complex_metrics: [{nam: F1}]}",
        "models:\n  als:\n    pth: als.csv",
    ]


def test_reports_all_errors_in_the_order_of_the_file(folder):
    lines = error_lines(
        folder,
        """models:
  als: alss.csv
evaluation:
  seed: x
  metrics: [nDCGG@5, EPC@5, Recall]
  typo: 1
data:
  truht: truth.csv
  truth: truth.csv
""",
    )
    assert [line.partition(": ")[0] for line in lines] == [
        "2:8",
        "4:9",
        "5:13",
        "5:22",
        "5:29",
        "6:3",
        "8:3",
    ]
    assert (
        "Did you mean 'als.csv'?" in lines[0]
        and "needs train" in lines[3]
        and "needs a cut-off" in lines[4]
    )


def test_hints_at_files_in_the_current_folder(folder):
    Path("here.csv").write_text("user,item\n")
    (line,) = error_lines(folder, "data: {truth: here.csv}")
    assert (
        f"there is no file or folder '{folder / 'here.csv'}'. There is one in the current folder"
        in line
    )
    assert "write '../elsewhere/here.csv'" in line
    load(write_config(folder, "data: {truth: ../elsewhere/here.csv}"))
    load(write_config(folder, "data: {truth: '*.csv'}"))


SYNTAX = [
    ("evaluation:\n\ttop_k: 5\n", "2:1: found a tab; YAML is indented with spaces only."),
    (
        "evaluation:\n  a: 1\n   b: 2\n",
        "3:5: bad indentation: 'b' starts in column 4, but 'a' in line 2 starts in column 3.",
    ),
    (
        "evaluation:\n    a: 1\n  b: 2\n",
        "3:3: bad indentation: 'b' starts in column 3, but 'a' in line 2 starts in column 5.",
    ),
    (
        "evaluation:\n  metrics: nDCG\n  top_k 3\n  seed: 4\n",
        "4:3: line 3 ('top_k 3') has no ':' after its key; write 'key: value'.",
    ),
    (
        "evaluation: metrics: nDCG",
        "1:20: this line contains a second ': '; quote the value",
    ),
    (
        "evaluation: {seed: 1}\nevaluation: {seed: 2}",
        "2:1: the key 'evaluation' occurs twice in one mapping; remove one.",
    ),
    (
        "evaluation:\n  seed: 1\n  seed: 2",
        "3:3: the key 'seed' occurs twice in one mapping; remove one.",
    ),
    ("evaluation: {metrics: [nDCG\n", "the '[' at line 1, column 23 is not closed; add ']'"),
    ("evaluation: {seed: 1\ndata: {}", "the '{' at line 1, column 13 is not closed; add '}'"),
    ("evaluation: *nothing", "1:13: *nothing refers to an anchor that is not defined above"),
    ("evaluation: {device: 'cpu}", "the quote at line 1, column 22 is not closed"),
    ("evaluation: {device: @cpu}", "1:22: a value cannot begin with '@'; quote the value."),
    ("evaluation: {}\n---\ndata: {}", "2:1: a second document starts here ('---')"),
    ("evaluation: {<<: 5}", "1:18: the file is not valid YAML here: "),
    ("? evaluation: {seed: 5}", " a key is a list or a mapping; keys must be names."),
    ("!run {evaluation: {}}", "the tag !run is not supported; remove it."),
    ("evaluation: {seed: !!float x}", " the file is not valid YAML: "),
    ("evaluation: \x07", "1:13: the file is not valid YAML: special characters are not allowed."),
    ("", " the file is empty; expected sections such as"),
    ("# nothing\n", " the file is empty; expected sections such as"),
    ("- evaluation\n", "1:1: the file contains a list; expected sections such as"),
    ("evaluation", "1:1: the file contains the value 'evaluation'; expected sections such as"),
]


@pytest.mark.parametrize(("text", "expected"), SYNTAX, ids=range(len(SYNTAX)))
def test_syntax_errors_are_one_line_with_a_position(folder, text, expected):
    (line,) = error_lines(folder, text)
    assert expected in line if not expected[0].isdigit() else line.startswith(expected), line


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_any_text_loads_or_is_rejected(folder, data):
    """Characters that mean something to YAML, anywhere in texts that nearly load."""
    text = data.draw(
        st.sampled_from(
            [WARPREC, *EXAMPLES.values(), *(mistake for mistake, _ in (*MISTAKES, *SYNTAX))]
        )
    )
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(text)))
        text = (
            text[:place]
            + data.draw(st.sampled_from(" \t\n:-[]{},'\"#&*!|>%@?~0a\\=()\0"))
            + text[place + data.draw(st.integers(0, 3)) :]
        )
    lines = []
    try:
        load(write_config(folder, text))
    except weft.WeftError as error:
        lines = str(error).split("\n")
    assert all(line.startswith(f"{folder / 'run.yaml'}:") for line in lines)


def test_rejects_unreadable_files(folder):
    with pytest.raises(weft.WeftError, match=r"nothing\.yaml: there is no such file"):
        load(folder / "nothing.yaml")
    with pytest.raises(weft.WeftError, match="is a folder; expected a YAML file"):
        load(folder)
    (folder / "latin.yaml").write_bytes(b"a: 1\nb: \xe9\n")
    with pytest.raises(weft.WeftError, match=r"latin\.yaml:2:4: the file is not UTF-8"):
        load(folder / "latin.yaml")
    (folder / "bom.yaml").write_bytes(b"\xef\xbb\xbfevaluation: {seed: 3}\n")
    assert load(folder / "bom.yaml").evaluation.seed == 3
    with pytest.raises(weft.WeftError, match="the section 'evaluation:' is missing"):
        load_evaluation(write_config(folder, "data: {truth: gone.csv}"))


# -------------------------------------------------------------------------------------------------


def test_checks_mappings_like_files(folder):
    given = {
        "data": {"truth": "truth.csv"},
        "models": {"als": "als.csv"},
        "evaluation": {"metrics": ["F1(beta=2)"], "top_k": 3},
    }
    before = json.dumps(given)
    configuration = from_mapping(given, folder=folder)
    assert configuration.evaluation.all_metrics == ["F1(beta=2)"] and json.dumps(given) == before
    with pytest.raises(weft.WeftError) as caught:
        from_mapping({"evaluation": {"top_k": 0, "metrics": ["x"]}, "data": {"truth": "truth.csv"}})
    lines = str(caught.value).split("\n")
    assert lines[0] == "top_k: 0; cut-offs are integers of at least 1, such as top_k: [10, 20]."
    assert lines[1] == "data.truth: there is no file or folder 'truth.csv'."
    assert (
        lines[2].startswith("evaluation.metrics[0]: there is no metric named 'x'.")
        and len(lines) == 3
    )
    assert (
        from_mapping({"data": {"truth": Path("truth.csv")}}, folder=folder).data.truth.path
        == folder / "truth.csv"
    )
    with pytest.raises(weft.WeftError, match="expected a mapping with the keys"):
        from_mapping(["nDCG"])


def test_overrides_replace_values_of_the_file(folder):
    text = """
data: {truth: gone.csv, train: train.csv}
models: {old: gone.csv}
evaluation: {top_k: [5, 6], ties: random, metrics: [MRR],
  complex_metrics: [{name: F1, params: {beta: 2}}]}
output: there
"""
    path = write_config(folder, text)
    flags = {
        "data": {"truth": "../home/truth.csv"},
        "models": {"als": {"path": "../home/als.csv", "separator": ","}},
        "evaluation": {"metrics": ["nDCG"], "seed": 4, "device": None},
        "output": "here",
        "report": "here.html",
    }
    configuration = load(path, flags)
    assert configuration.evaluation.settings() == {
        "metrics": ["nDCG"],
        "top_k": (5, 6),
        "ties": "random",
        "seed": 4,
    }
    assert (
        configuration.data.truth.path == Path("../home/truth.csv")
        and configuration.data.train.path == folder / "train.csv"
    )
    assert list(configuration.models) == ["als"] and configuration.output == Path("here")
    assert configuration.report == Path("here.html")
    with pytest.raises(weft.WeftError) as caught:
        load(
            path,
            {
                "models": {"a": "../home/als.csv"},
                "evaluation": {"top_k": [0]},
                "data": {"truth": "gone.csv"},
            },
        )
    assert "top_k: 0" in str(caught.value) and "run.yaml" not in str(caught.value)
    assert "there is no file or folder 'gone.csv'" in str(caught.value)
    path.write_text("evaluation: {per_user: false}")
    assert load(path, {"evaluation": {"save_per_user": True}}).evaluation.per_user
    path.write_text("evaluation: [5]")
    with pytest.raises(weft.WeftError, match=r"1:13: evaluation: got a list, expected a mapping"):
        load(path, {"evaluation": {"metrics": ["nDCG@5"]}})
    path.write_text(text)
    assert list(load(path, flags | {"models": {"m": str(folder / "pop.csv")}}).models) == ["m"]


# --------------------------------------------------------------------------------------------------


FILES = "data: {truth: truth.csv, train: train.csv}\nmodels: {als: als.csv, pop: pop.csv}\n"


def run_file(folder, evaluation="top_k: [1, 2], metrics: [nDCG, Recall, Gini, EPC]"):
    return load(write_config(folder, f"{FILES}evaluation: {{{evaluation}}}\n"))


def test_run_matches_evaluate(folder):
    steps = []
    outcome = config_run.run(run_file(folder), steps.append)
    assert steps == ["reading the data", "evaluating als", "evaluating pop"]
    assert (
        [result.name for result in outcome] == ["als", "pop"]
        and len(outcome) == 2
        and outcome.comparisons == ()
    )
    for result in outcome:
        expected = weft.evaluate(
            pl.read_csv(folder / f"{result.name}.csv"),
            pl.read_csv(folder / "truth.csv"),
            train=pl.read_csv(folder / "train.csv"),
            metrics=["nDCG", "Recall", "Gini", "EPC"],
            top_k=[1, 2],
        )
        assert [(v.name, v.value) for v in result.entries] == [
            (v.name, v.value) for v in expected.entries
        ]
        assert result.per_user is None


def test_yields_results_one_by_one(folder):
    results = config_run.results(run_file(folder))
    assert next(results).name == "als" and next(results).name == "pop"


def test_provenance_reproduces_a_result(folder, monkeypatch):
    first = config_run.run(
        run_file(
            folder,
            evaluation="top_k: 2, metrics: nDCG, relevance_threshold: 2, ties: random, seed: 3",
        )
    ).results[1]
    first.save(folder / "pop.json")
    monkeypatch.chdir("/")
    again = from_mapping(
        json.loads((folder / "pop.json").read_text())["provenance"]["configuration"]
    )
    (second,) = config_run.run(again)
    assert second.name == "pop" and second["nDCG@2"] == first["nDCG@2"]
    assert second.provenance == first.provenance
    assert again.evaluation.settings() == {
        "metrics": ["nDCG"],
        "top_k": (2,),
        "relevance_threshold": 2.0,
        "ties": "random",
        "seed": 3,
    }


def test_ratings_can_be_ignored(folder):
    text = (
        "data: {truth: {path: truth.csv, ratings: false}}\nmodels: {als: als.csv}\nevaluation: "
        "{top_k: 2, metrics: nDCG}"
    )
    (unrated,) = config_run.run(load(write_config(folder, text)))
    (rated,) = config_run.run(load(write_config(folder, text.replace("false", "true"))))
    lists = {"u1": ["a", "b"], "u2": ["c", "a"], "u3": ["d"]}
    assert (
        unrated["nDCG@2"]
        == weft.evaluate(lists, {"u1": ["a", "d"], "u2": ["c"], "u3": ["b"]}, metrics="nDCG@2")[
            "nDCG@2"
        ]
    )
    assert rated["nDCG@2"] != unrated["nDCG@2"]


@pytest.mark.parametrize(
    ("missing", "message"),
    [
        ({}, "no truth; add 'data:' with 'truth: FILE'"),
        ({"data": {"truth": "truth.csv"}}, "no models; add 'models:'"),
        (
            {"data": {"truth": "truth.csv"}, "models": {"als": "als.csv"}},
            "no metrics; add 'metrics:",
        ),
    ],
)
def test_run_rejects_missing_sections(folder, missing, message):
    with pytest.raises(weft.WeftError, match=message):
        config_run.run(from_mapping(missing, folder=folder))


def test_runs_every_test_and_correction(folder):
    wanted = (
        "paired_t_test: true, wilcoxon_test: yes, kruskal_test: true, whitney_u_test: true, "
        "randomization_test: true, sign_test: on"
    )
    wanted += ", corrections: {bonferroni: true, fdr: true, alpha: 0.2}"
    evaluation = f"top_k: 2, metrics: [nDCG, Gini], stat_significance: {{{wanted}}}"
    steps = []
    configuration = run_file(folder, evaluation=evaluation)
    outcome = config_run.run(configuration, steps.append)
    assert steps[-1] == "comparing the models"
    assert [(one.correction, one.alpha) for one in outcome.comparisons] == [
        ("bonferroni", 0.2),
        ("fdr", 0.2),
    ]
    assert all(result.per_user is None for result in outcome)  # they were kept for the tests alone
    a, b = (result.per_user["nDCG@2"].to_numpy() for result in config_run.results(configuration))
    expected = {
        "paired_t": stats.ttest_rel(a, b),
        "wilcoxon": stats.wilcoxon(a - b),
        "kruskal": stats.kruskal(a, b),
        "mann_whitney": stats.mannwhitneyu(a, b),
        "randomization": stats.permutation_test((a - b,), np.mean, permutation_type="samples"),
        "sign": stats.binomtest(int((a > b).sum()), int((a != b).sum())),
    }
    for row in outcome.comparisons[0].rows:
        assert row["metric"] == "nDCG"
        assert (row["statistic"], row["p_value"]) == pytest.approx(
            (expected[row["test"]].statistic, expected[row["test"]].pvalue)
        )
    assert {row["test"] for row in outcome.comparisons[0].rows} == set(expected)
    assert any("independent samples" in note for note in outcome.comparisons[0].notes)
    assert outcome.warnings == ()


def test_settings_of_significance(folder):
    wanted = (
        "paired_t_test: true, randomization_test: true, family: Metric, alternative: greater, "
        "resamples: 7"
    )
    (comparison,) = config_run.run(
        run_file(
            folder,
            evaluation=f"top_k: [1, 2], metrics: nDCG, seed: 3, stat_significance: {{{wanted}}}",
        )
    ).comparisons
    assert (comparison.family, comparison.alternative) == ("metric", "greater")
    results = list(
        config_run.results(
            run_file(
                folder, evaluation=f"top_k: [1, 2], metrics: nDCG, stat_significance: {{{wanted}}}"
            )
        )
    )
    expected = weft.compare(
        results,
        tests=["paired_t", "randomization"],
        family="metric",
        alternative="greater",
        resamples=7,
        seed=3,
    )
    assert comparison.to_frame().equals(expected.to_frame())


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ("kruskal_test: true, alternative: less", "kruskal_test is always two-sided"),
        (
            "family: tests",
            "family: tests is not known. Choose one of 'test', 'metric', 'pair', 'all'.",
        ),
        ("alternative: 1", "alternative: 1 is not known. Choose one of 'two-sided'"),
        ("resamples: 0", "resamples: 0; it must be an integer of at least 1"),
        ("sign_tests: true", "Did you mean 'sign_test'?"),
    ],
)
def test_rejects_wrong_settings_of_significance(folder, wanted, message):
    with pytest.raises(weft.WeftError) as caught:
        run_file(folder, evaluation=f"top_k: 2, metrics: nDCG, stat_significance: {{{wanted}}}")
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("corrections", "chosen"),
    [
        ("{}", ("holm",)),
        ("{alpha: 0.1}", ("holm",)),
        ("{fdr: true}", ("fdr",)),
        ("{bonferroni: false}", ("none",)),
    ],
)
def test_names_of_corrections(folder, corrections, chosen):
    evaluation = (
        f"top_k: 2, metrics: nDCG, save_per_user: true, stat_significance: "
        f"{{paired_t_test: true, corrections: {corrections}}}"
    )
    outcome = config_run.run(run_file(folder, evaluation=evaluation))
    assert tuple(comparison.correction for comparison in outcome.comparisons) == chosen
    assert all(result.per_user is not None for result in outcome)


def test_impossible_comparisons_are_warnings(folder):
    one = {"data": {"truth": "truth.csv"}, "models": {"als": "als.csv"}}
    tests = {"stat_significance": {"wilcoxon_test": True}, "top_k": 2}
    outcome = config_run.run(
        from_mapping({**one, "evaluation": {"metrics": "nDCG", **tests}}, folder=folder)
    )
    assert outcome.comparisons == () and "there is only one" in outcome.warnings[0]
    two = {**one, "models": {"als": "als.csv", "pop": "pop.csv"}}
    outcome = config_run.run(
        from_mapping({**two, "evaluation": {"metrics": "Gini", **tests}}, folder=folder)
    )
    assert len(outcome) == 2 and "share no metric with a value per user" in outcome.warnings[0]
    tests["stat_significance"]["wilcoxon_test"] = False
    outcome = config_run.run(
        from_mapping({**two, "evaluation": {"metrics": "nDCG", **tests}}, folder=folder)
    )
    assert (outcome.comparisons, outcome.warnings) == ((), ())


# --------------------------------------------------------------------------------------------------

OWN = """import weft
{more}
@weft.register
class {name}(weft.UserAverageTopKMetric):
    "Hits."
    higher_is_better = True
    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        return top_k_rel.sum(dim=1)
"""


@pytest.mark.parametrize(
    "named", ["own_metrics.py", "own_metrics", "./own_metrics.py", "parts.own_metrics"]
)
def test_custom_metrics(folder, registered, named):
    home = folder / "parts" if named.startswith("parts") else folder
    home.mkdir(exist_ok=True)
    (home / "beside.py").write_text("factor = 1\n")
    (home / "own_metrics.py").write_text(OWN.format(name="HitsOfMine", more="import beside"))
    evaluation = f"top_k: 2, metrics: [hitsofmine], custom_modules: {named}"
    (result, _) = config_run.run(run_file(folder, evaluation=evaluation))
    assert result["HitsOfMine@2"] == pytest.approx(2 / 3)
    again = from_mapping(result.provenance["configuration"])
    assert [found["HitsOfMine@2"] for found in config_run.run(again)] == [result["HitsOfMine@2"]]
    assert str(home) not in sys.path


def test_imports_installed_modules_by_name(folder):
    assert load(
        write_config(folder, "evaluation: {custom_modules: [json, email.mime]}")
    ).evaluation.custom_modules == [
        "json",
        "email.mime",
    ]


def test_rejects_modules_that_cannot_be_imported(folder, registered):
    (folder / "needs.py").write_text("import not_installed_at_all\n")
    (folder / "fails.py").write_text("\nvalue = 1 / 0\n")
    (folder / "broken.py").write_text("def x(:\n")
    (folder / "taken.py").write_text(OWN.format(name="nDCG", more=""))
    lines = error_lines(
        folder,
        "evaluation:\n  custom_modules: [nowhere, no.py, needs.py, fails.py, broken.py, taken.py, "
        "5]\n  metrics: [Mine@3]",
    )
    expected = [
        "2:20: evaluation.custom_modules[0]: there is no module 'nowhere' in the folder "
        f"{str(folder.resolve())!r} or among the installed packages",
        f"2:29: evaluation.custom_modules[1]: there is no file '{folder / 'no.py'}'",
        "cannot be imported: No module named 'not_installed_at_all'. Install the missing module.",
        "cannot be imported: ZeroDivisionError: division by zero (line 2 of ",
        "cannot be imported: SyntaxError: ",
        "a metric named 'nDCG' is already registered",
        "evaluation.custom_modules[6]: got 5, expected a string.",
        "3:13: evaluation.metrics[0]: there is no metric named 'Mine'.",
    ]
    assert len(lines) == len(expected)
    for line, piece in zip(lines, expected):
        assert piece in line


# --------------------------------------------------------------------------------------------------

WARPREC = """
reader:
  loading_strategy: split
  data_type: transaction
  reading_method: local
  rating_type: implicit
  split:
    local_path: split
    ext: .tsv
    sep: "\\t"
    header: true
  labels: {user_id_label: uid, item_id_label: iid, rating_label: stars}
  clustering:
    user_local_path: groups.tsv
    item_local_path: clusters.csv
    item_sep: ','
  side: {local_path: genres.tsv}
writer:
  dataset_name: toy
  writing_method: local
  local_experiment_path: experiments
filtering: {}
splitter: {test_splitting: {strategy: temporal_holdout}}
dashboard: {}
models:
  BPR:
    embedding_size: 32
    meta: {load_from: bpr.pth}
  Pop: {}
  ProxyRecommender:
    recommendation_file: one.tsv
    separator: "\\t"
    header: true
    optimization: {num_workers: 0}
  External:
    meta: {model_name: ProxyRecommender}
    recommendation_file: [two.csv, three.csv]
    separator: [',']
    header: [true]
    magic: 5
evaluation:
  top_k: [2]
  metrics: [nDCG, Recall, AUC, APLT, 'F1[nDCG, MAP]', 'EPC[discounted]', F1]
  complex_metrics:
    - name: F1
      params: {metric_1: nDCG, metric_2: MRR}
    - name: APLT
      params: {pop_ratio: 0.5}
  beta: 0.5
  pop_ratio: 0.6
  validation_metric: nDCG@5
  full_evaluation_on_report: false
  max_metric_per_row: 4
  save_evaluation: true
  num_negatives: 99
  negative_sampling: uniform
  neg_alpha: 0.75
  candidates: all
  mask_seen: none
  seed: 42
  strategy: full
  stat_significance:
    wilcoxon_test: True
    corrections: {bonferroni: True, alpha: 0.05}
  save_per_user: True
general: {device: cpu}
"""


@pytest.fixture
def warprec(folder):
    (folder / "split").mkdir()
    for name, rows in (
        ("test", "1\t10\t5\n1\t11\t0\n2\t12\t1\n"),
        ("train", "1\t12\t5\n2\t10\t3\n2\t13\t1\n"),
    ):
        (folder / "split" / f"{name}.tsv").write_text("user\titem\trating\n" + rows)
    lists = "user\titem\tscore\n1\t10\t0.5\n1\t13\t0.3\n2\t12\t-1\n2\t11\t-2\n"
    (folder / "one.tsv").write_text(lists)
    (folder / "two.csv").write_text(lists.replace("\t", ","))
    (folder / "three.csv").write_text("user,item,score\n1,13,2\n1,12,1\n2,11,5\n2,12,4\n")
    (folder / "groups.tsv").write_text("user\tlabel\n1\tF\n2\tM\n")
    (folder / "clusters.csv").write_text("item,label\n10,A\n11,B\n12,A\n13,B\n")
    return folder


def test_warprec_files_run(warprec):
    text = WARPREC.replace(
        "  labels: {user_id_label: uid, item_id_label: iid, rating_label: stars}\n", ""
    )
    outcome = config_run.run(load(write_config(warprec, text)))
    assert [result.name for result in outcome] == ["ProxyRecommender", "External_1", "External_2"]
    metrics = [
        "nDCG",
        "Recall",
        "APLT(pop_ratio=0.6)",
        "F1(metric_name_1=nDCG, metric_name_2=MAP, beta=0.5)",
        "EPC(relevance=graded)",
        "F1(beta=0.5)",
        "F1(metric_name_1=nDCG, metric_name_2=MRR, beta=0.5)",
        "APLT(pop_ratio=0.5)",
    ]
    expected = weft.evaluate(
        {1: [10, 13], 2: [12, 11]},
        {1: [10, 11], 2: [12]},  # every row counts 1: rating_type implicit
        train={1: [12], 2: [10, 13]},
        metrics=metrics,
        top_k=2,
    )
    for result in outcome.results[:2]:
        assert {value.name: value.value for value in result.entries} == {
            value.name: value.value for value in expected.entries
        }
        assert result.per_user is not None
    assert [comparison.correction for comparison in outcome.comparisons] == ["bonferroni"]
    lines = [
        line.removeprefix(f"{warprec / 'run.yaml'}:").partition(": ")[2]
        for line in outcome.warnings
    ]
    starts = [
        "metrics follow Weft's definitions",
        "reader.side: is ignored",
        "writer: is not supported",
        "filtering: is not supported",
        "splitter: is not supported",
        "dashboard: is not supported",
        "models.BPR: is a model that WarpRec trains; it is skipped.",
        "models.Pop: is a model that WarpRec trains; it is skipped.",
        "models.External.magic: is not supported",
        "evaluation.metrics[2]: is skipped: AUC needs the scores of all items",
        "evaluation.validation_metric: is not supported",
        "evaluation.full_evaluation_on_report: is not supported",
        "evaluation.max_metric_per_row: is not supported",
        "evaluation.save_evaluation: is not supported",
        "evaluation.num_negatives: is ignored",
        "evaluation.negative_sampling: is ignored",
        "evaluation.neg_alpha: is ignored",
        "general: is not supported",
    ]
    assert len(lines) == len(starts)
    for line, start in zip(lines, starts):
        assert line.startswith(start)


def test_reads_data_of_warprec_files(warprec):
    configuration = load(write_config(warprec, WARPREC))
    truth = configuration.data.truth
    assert (truth.path, truth.separator, truth.header, truth.ratings) == (
        warprec / "split" / "test.tsv",
        "\t",
        True,
        False,
    )
    assert truth.columns == {"user": "uid", "item": "iid", "rating": "stars"}
    assert configuration.data.user_groups.path == warprec / "groups.tsv"
    assert configuration.data.item_clusters.separator == ","
    assert configuration.evaluation.mask_seen is False and configuration.evaluation.seed == 42
    explicit = WARPREC.replace("implicit", "explicit").replace("mask_seen: none", "mask_seen: pair")
    configuration = load(write_config(warprec, explicit))
    assert configuration.data.truth.ratings and configuration.evaluation.mask_seen is True
    mixed = load(write_config(warprec, WARPREC + "data: {truth: two.csv}\n"))
    assert (
        mixed.data.truth.path == warprec / "two.csv"
        and mixed.data.train.path == warprec / "split" / "train.tsv"
    )


def test_searches_files_of_warprec_in_the_current_folder(warprec, monkeypatch):
    path = warprec / "configs" / "run.yaml"
    path.parent.mkdir()
    path.write_text(WARPREC)
    monkeypatch.chdir(warprec)
    assert load(path).models["ProxyRecommender"].path == Path("one.tsv")


def test_errors_in_warprec_files_name_their_keys(warprec):
    text = (
        WARPREC.replace("local_path: split", "local_path: gone")
        .replace("one.tsv", "none.tsv")
        .replace("candidates: all", "candidates: lukewarm")
    )
    lines = error_lines(warprec, text.replace("mask_seen: none", "mask_seen: context"))
    starts = [
        "8:17: reader.split.local_path: there is no file or folder ",
        "31:26: models.ProxyRecommender.recommendation_file: there is no file or folder ",
        "58:15: candidates: lukewarm is not known",
        "59:14: evaluation.mask_seen: got 'context'",
    ]
    assert [line for line, start in zip(lines[1:], starts) if not line.startswith(start)] == []
    taken = (
        "models: {A: {recommendation_file: [one.tsv, two.csv]}, A_2: {recommendation_file: "
        "one.tsv}}"
    )
    assert error_lines(warprec, taken) == [
        "1:13: models.A: has several files, but the name 'A_2' of one of them is already used; "
        "rename that model."
    ]
    assert error_lines(warprec, "models: {ProxyRecommender: {separator: ','}}") == [
        "1:28: models.ProxyRecommender: ProxyRecommender needs 'recommendation_file', the file "
        "with the lists."
    ]


def test_warns_of_warprec_files_without_a_split(warprec):
    text = """
reader: {loading_strategy: dataset, reading_method: local, local_path: ratings.tsv}
models: {A: {recommendation_file: one.tsv}}
evaluation: {top_k: 2, metrics: [nDCG]}
"""
    configuration = load(write_config(warprec, text))
    assert "reader: is ignored (loading_strategy: 'dataset')" in "".join(configuration.warnings)
    with pytest.raises(weft.WeftError, match="no truth; add 'data:'"):
        config_run.run(configuration)
    (result,) = config_run.run(
        load(write_config(warprec, text), {"data": {"truth": warprec / "split" / "test.tsv"}})
    )
    assert result.name == "A"
    assert load(write_config(warprec, "models: {BPR: {k: 5}}\nsplitter: {}")).models == {}


# --------------------------------------------------------------------------------------------------


def fits(value, rule, root):
    """Whether a value is valid: the words of JSON Schema that the schema uses."""
    known = {
        "title",
        "description",
        "default",
        "$defs",
        "$schema",
        "anyOf",
        "enum",
        "const",
        "type",
        "properties",
        "required",
    }
    known |= {
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "items",
        "$ref",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "format",
    }
    assert rule.keys() <= known, rule.keys() - known
    if "$ref" in rule and not fits(value, root["$defs"][rule["$ref"].rpartition("/")[2]], root):
        return False
    if "anyOf" in rule and not any(fits(value, one, root) for one in rule["anyOf"]):
        return False
    if ("enum" in rule and value not in rule["enum"]) or (
        "const" in rule and value != rule["const"]
    ):
        return False
    kinds = {
        "string": str,
        "object": dict,
        "array": list,
        "boolean": bool,
        "integer": int,
        "number": (int, float),
        "null": type(None),
    }
    if "type" in rule and not isinstance(value, kinds[rule["type"]]):
        return False
    if rule.get("type") in ("integer", "number") and (
        isinstance(value, bool)
        or not rule.get("minimum", value) <= value <= rule.get("maximum", value)
        or value <= rule.get("exclusiveMinimum", value - 1)
    ):
        return False
    if isinstance(value, list) and "items" in rule:
        return all(fits(one, rule["items"], root) for one in value)
    if isinstance(value, dict) and ("properties" in rule or "additionalProperties" in rule):
        named, others = rule.get("properties", {}), rule.get("additionalProperties", True)
        free = tuple(rule.get("patternProperties", ()))
        value = {
            key: one
            for key, one in value.items()
            if not any(re.match(pattern, key) for pattern in free)
        }
        return (
            set(rule.get("required", ())) <= value.keys()
            and all(fits(key, rule.get("propertyNames", {}), root) for key in value)
            and all(
                fits(one, named[key], root)
                if key in named
                else others is True or (others is not False and fits(one, others, root))
                for key, one in value.items()
            )
        )
    return True


def plain(text):
    from ruamel.yaml import YAML

    return YAML(typ="safe").load(text)


def test_schema_agrees_with_loading():
    made = schema()
    assert (
        made["$schema"].startswith("https://json-schema.org/")
        and json.loads(json.dumps(made)) == made
    )
    for text in (*EXAMPLES.values(), (ROOT / "examples" / "evaluate.yaml").read_text()):
        assert fits(plain(text), made, made), text
    for text in (
        "x-common: &it {a: 1}\nevaluation: {metrics: nDCG, top_k: 3, profile: ranx, ties: null}",
        "evaluation: {gates: 'nDCG@3 > 1', mask_seen: auto, per_user: true}",
        "evaluation: {strategy: sampled, num_negatives: 9, negative_sampling: popularity, "
        "neg_alpha: 0.5, candidates: warm}",
        "evaluation: {strategy: sampled, estimator: bias_variance, gamma: 0.01, bootstrap: 1000}",
        "evaluation: {slices: {activity: quantiles(4), a: {path: b.csv, header: true}, age: {of: "
        "c.csv, by: 'bins(18, 65)'}}}",
        "evaluation: {targets: new, item_slices: {tail: head_tail, g: {path: b.csv}, m: "
        "time(month), y: {of: c.csv, by: 'bins(1990, 2010)'}}}",
        "data: {truth: a.csv, train: {path: b.csv, columns: {user: 0, item: sku}, format: "
        "tsv}}\nmodels: {a: x, b: {path: y}}",
        "evaluation: {stat_significance: {paired_t_test: true, corrections: {fdr: true}}, "
        "custom_modules: mine, mask_seen: false}",
    ):
        assert fits(plain(text), made, made), text
    for text in (
        "evaluation: {metricz: nDCG}",
        "evaluation: {top_k: 0}",
        "evaluation: {top_k: ten}",
        "evaluation: {ties: first}",
        "evaluation: {strategy: fully}",
        "evaluation: {candidates: lukewarm}",
        "evaluation: {bootstrap: 0}",
        "evaluation: {slices: [gender]}",
        "evaluation: {slices: {gender: {off: a.csv}}}",
        "evaluation: {item_slices: {genre: {off: a.csv}}}",
        "evaluation: {targets: old}",
        "evaluation: {complex_metrics: [{params: {}}]}",
        "data: {train: a.csv}",
        "data: {truth: {file: a.csv}}",
        "data: {truth: {path: a.csv, format: xls}}",
        "data: {truth: {path: a.csv, columns: {usr: a}}}",
        "models: [a.csv]",
        "other: 5",
    ):
        assert not fits(plain(text), made, made), text


def test_schema_describes_every_key_and_choice():
    made = schema()
    sections = [made, *made["$defs"].values()]
    sections += [one for section in sections for one in section.get("anyOf", ())]
    properties = [
        (key, rule) for section in sections for key, rule in section.get("properties", {}).items()
    ]
    assert len(properties) > 45
    assert not any(">>>" in section.get("description", "") for section in sections)
    for key, rule in properties:
        assert rule["description"].rstrip(").").strip() and rule.get(
            "title", rule.get("$ref", rule.get("anyOf"))
        ), key
    text = json.dumps(made)
    for name in (
        "nDCGRendle2020",
        "Hypervolume",
        "trec_eval",
        "pessimistic",
        "keep-best",
        "recbole",
        "EucDistance",
    ):
        assert f'"{name}"' in text
    assert set(made["properties"]) == set(Configuration.model_fields)
    assert "HitsOfMine" not in text


def test_importing_configurations_does_not_load_torch():
    code = "import weft.config, sys; print(*({'torch', 'polars', 'scipy'} & sys.modules.keys()))"
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == ""
    )


def test_example_configuration_runs():
    outcome = config_run.run(load(ROOT / "examples" / "evaluate.yaml"))
    popular, taste = outcome
    assert popular["nDCG@10"] < taste["nDCG@10"] and popular["Gini@10"] > taste["Gini@10"]
    assert outcome.comparisons[0].to_frame().filter(metric="nDCG", k=10)[
        "significant"
    ].to_list() == [True]
    assert outcome.warnings == ()


# -------------------------------------------------------------------------------------------------


@pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"the golden values are not here: {GOLDEN}")
def test_warprec_files_give_the_values_of_warprec(folder):
    """Stored values of WarpRec 2.2.8 on MovieLens 100K, which it computed in float32; see
    test_golden.py.
    """
    names = {
        "nDCG",
        "Recall",
        "MRR",
        "MAP",
        "HitRate",
        "Precision",
        "EPC",
        "EFD",
        "ARP",
        "Gini",
        "ItemCoverage",
        "ShannonEntropy",
    }
    text = f"""
reader:
  loading_strategy: split
  data_type: transaction
  reading_method: local
  rating_type: explicit
  split: {{local_path: {GOLDEN / "ml100k_tlo"}, ext: .csv.gz, sep: ','}}
models:
  ProxyRecommender:
    recommendation_file: {GOLDEN / "ml100k_tlo" / "rec_itemknn.csv.gz"}
    separator: ','
    header: true
evaluation:
  top_k: [10, 100]
  metrics: [{", ".join(sorted(names))}]
  profile: warprec
"""
    (result,) = config_run.run(load(write_config(folder, text)))
    theirs = stored("ml100k_tlo/itemknn/rating")["warprec"]
    for name in names:
        for k in (10, 100):
            assert result[f"{name}@{k}"] == pytest.approx(theirs[f"{name}@{k}"], rel=2e-6), name


@pytest.mark.skipif(not GOLDEN.is_dir(), reason=f"the golden values are not here: {GOLDEN}")
@pytest.mark.parametrize(
    ("tool", "profile", "names"),
    [
        (
            "pytrec_eval",
            "trec_eval",
            {
                "ndcg_cut_{}": "nDCG",
                "map_cut_{}": "MAP",
                "P_{}": "Precision",
                "recall_{}": "Recall",
            },
        ),
        ("ranx", "ranx", {"ndcg@{}": "nDCG", "map@{}": "MAP", "mrr@{}": "MRR", "f1@{}": "F1"}),
    ],
)
def test_profiles_give_the_values_of_other_tools(tool, profile, names):
    configuration = from_mapping(
        {
            "data": {"truth": "test.csv.gz"},
            "models": {model: f"rec_{model}.csv.gz" for model in ("itemknn", "pop")},
            "evaluation": {
                "metrics": list(names.values()),
                "top_k": [5, 10, 100],
                "profile": profile,
            },
        },
        folder=GOLDEN / "ml100k_tlo",
    )
    for result in config_run.run(configuration):
        theirs = stored(f"ml100k_tlo/{result.name}/rating")[tool]
        for key, name in names.items():
            for k in (5, 10, 100):
                assert result[f"{name}@{k}"] == pytest.approx(theirs[key.format(k)], abs=1e-9)

"""The command line: options and files in, text, files and exit codes out.

Most tests run it in this process, which saves the time to load torch; a few start a process.
"""

import csv
import gzip
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, fields
from pathlib import Path
from types import SimpleNamespace

import polars as pl
import pytest
from typer.testing import CliRunner

import weft
import weft.engines
from test_golden import DATA, stored
from test_golden import pytestmark as needs_golden
from weft import cli
from weft.cli import compare_command, error_handling, evaluate_command, options
from weft.cli.flags import command_line_style, split_models
from weft.config import load
from weft.config import run as config_run
from weft.config.document import configuration_style
from weft.errors import InputError, render, setting_ref
from weft.evaluation.result import Result
from weft.metrics import registry
from weft.metrics.names import format_labels, split_labels
from weft.metrics.registry import built_in_metrics
from weft.statistics.significance_tests import TESTS


def run_process(*arguments, cwd, check=True):
    """Run the command line in a process."""
    done = subprocess.run(
        [sys.executable, "-m", "weft", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=120,
    )
    if check:
        assert done.returncode == 0, done.stderr
    return done


@pytest.fixture
def call(monkeypatch):
    """Return a function that runs the command line in this process."""

    def run(*arguments, cwd, code=0):
        monkeypatch.chdir(cwd)
        monkeypatch.setenv("COLUMNS", "80")
        done = CliRunner().invoke(
            cli.app, [str(argument) for argument in arguments], prog_name="weft"
        )
        assert done.exit_code == code, done.output
        return done

    return run


# --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return folder, run_process("demo", cwd=folder)


@pytest.mark.slow
def test_demo_prints_a_table_and_writes_results(demo):
    folder, done = demo
    for word in (
        "pop",
        "knn",
        "als",
        "nDCG@10",
        "GAUC",
        "├●┤",
        "95% interval over users",
        "als (matrix",
        "seen items are",
    ):
        assert word in done.stdout
    assert done.stderr == ""  # no progress bar without a terminal
    written = next(line for line in done.stdout.splitlines() if line.startswith("Written: "))
    assert (
        written.endswith("weft-demo/report.html")
        and (folder / "weft-demo" / "report.html").stat().st_size
    )
    assert (
        "nDCG@20" not in done.stdout
        and "REO@10[" not in done.stdout
        and len(done.stdout.splitlines()) < 90
    )
    results = {path.stem: weft.load_result(path) for path in (folder / "weft-demo").glob("*.json")}
    assert set(results) == {"pop", "knn", "als"}
    for result in results.values():
        assert result.counts["evaluated_users"] == 1000
        assert result.per_user is not None and len(result.per_user) == 1000
        assert result.entry("nDCG@10").ci_low < result["nDCG@10"] < result.entry("nDCG@10").ci_high
        assert (
            {value.k for value in result.entries}
            == {None, 5, 10, 20}
            == {None, *result.exposure["k"], *result.popularity["k"]}
        )
        assert (
            set(result.slices["slice"]) == {"gender", "activity"}
            and len(result.user_labels) == 1000
        )
        assert (
            len(
                {
                    registry.find_metric(
                        name.partition("(")[0].partition("@")[0].partition("[")[0]
                    ).family
                    for name in result
                }
            )
            == 7
        )
    assert results["knn"]["nDCG@10"] > 1.2 * results["pop"]["nDCG@10"]
    assert any("equal scores" in note for note in results["pop"].notes)


@pytest.mark.slow
def test_demo_writes_its_data(demo):
    folder = demo[0] / "weft-demo"
    read = {path.stem: pl.read_csv(path) for path in folder.glob("*.csv")}
    assert len(read["train"]) + len(read["test"]) == len(read["ratings"])
    assert read["users"].columns == ["user", "gender", "age_group"]
    assert len(read["items"]) == 1700 and "|" in "".join(read["items"]["genres"])
    for model in ("als", "knn", "pop"):
        result = weft.evaluate(
            folder / f"{model}.csv",
            folder / "test.csv",
            metrics=["nDCG", "Recall"],
            top_k=[5, 20],
        )
        stored = weft.load_result(folder / f"{model}.json")
        assert dict(result) == pytest.approx({name: stored[name] for name in result})


@pytest.mark.slow
def test_demo_is_deterministic(demo, tmp_path, call):
    folder, _ = demo
    call("demo", "--out", "again", cwd=tmp_path)
    for name in ("pop", "knn", "als"):
        first, second = (
            json.loads((where / f"{name}.json").read_text())
            for where in (folder / "weft-demo", tmp_path / "again")
        )
        assert first == second


def test_demo_suggests_commands_that_work(demo, call):
    folder, done = demo
    lines = [line.strip() for line in done.stdout.splitlines()]
    suggested = "\n".join(lines[lines.index("Next, try:") + 1 :]).replace("\\\n", " ")
    commands = [line.split() for line in suggested.splitlines()]
    assert [command[1] for command in commands] == ["compare", "metrics", "evaluate"]
    comparison, explanation, evaluated = (
        call(*command[1:], cwd=folder).stdout for command in commands
    )
    assert "By gender" in evaluated and "als" in evaluated
    assert "\nals - knn\n" in comparison and "nDCG@10" in comparison and "*" in comparison
    assert "trec_eval" in explanation and "0.4258" in explanation and "0.5639" in explanation


def test_tables_fit_80_columns(demo, call):
    folder, done = demo
    files = [f"weft-demo/{name}.json" for name in ("knn", "als", "pop")]
    two, three = (
        call("compare", *some, "-t", "paired_t", "-t", "kruskal", cwd=folder).stdout
        for some in (files[:2], files)
    )
    for line in [*done.stdout.splitlines(), *two.splitlines(), *three.splitlines()]:
        assert len(line) <= 80 or line.startswith(("Written", "  weft ")), line


def test_compare_takes_metrics_tests_and_corrections(demo, call):
    folder, _ = demo
    files = [f"weft-demo/{name}.json" for name in ("pop", "knn", "als")]
    done = call(
        "compare", *files, "-m", "ndcg@10", "-t", "wilcoxon", "--correction", "fdr", cwd=folder
    )
    assert (
        done.stdout.count("\nnDCG@10 ") == 4 and "Recall" not in done.stdout
    )  # the means with letters, and three pairs
    verdict = done.stdout.partition("\n\n")[0].replace("\n", " ")
    assert verdict.startswith(
        "nDCG@10: als leads with 0.229 (95% interval 0.219 to 0.239), 0.0486 (27%) above knn; "
    )
    assert verdict.endswith(
        "(Wilcoxon's signed-rank test, p < 0.001 after Benjamini and Hochberg's correction over "
        "the 3 pairs of models on this metric)."
    )
    assert (
        "Wilcoxon's signed-rank test, p-values adjusted by Benjamini and Hochberg's correction "
        "over the 3 pairs of models on each metric, alpha = 0.05; 1,000 users  Values of all "
        "models: * best; models that share a letter" in done.stdout.replace("\n", " ")
    )
    more = [
        "-t",
        "sign",
        "--family",
        "pair",
        "--alternative",
        "greater",
        "--alpha",
        "0.1",
        "--no-pairs",
        "--metrics",
        "mrr@10,ndcg@10",
    ]
    done = call("compare", *files, *more, cwd=folder)
    assert (
        "Sign test, one-sided (greater), p-values adjusted by Holm's correction over the 2 metrics "
        "of each pair of models, alpha = 0.1"
        in done.stdout.replace("\n", " ")
        and "pop - knn" not in done.stdout
    )
    done = call(
        "compare",
        *files[:2],
        "-t",
        "randomization",
        "--resamples",
        "99",
        "--seed",
        "5",
        "-f",
        "json",
        cwd=folder,
    )
    assert min(row["p_value"] for row in json.loads(done.stdout)["rows"]) == 1 / 100


def test_compare_writes_its_output_to_a_file(demo, call, tmp_path):
    folder, _ = demo
    files = [f"weft-demo/{name}.json" for name in ("pop", "knn", "als")]
    done = call(
        "compare",
        *files,
        "-f",
        "latex",
        "--pairs",
        "--out",
        str(tmp_path / "new" / "c.tex"),
        cwd=folder,
    )
    assert (tmp_path / "new" / "c.tex").read_text() == done.stdout and "Written" in done.stderr
    done = call("compare", *files, "--out", str(tmp_path / "c.json"), cwd=folder)
    assert json.loads((tmp_path / "c.json").read_text())["models"] == [
        "pop",
        "knn",
        "als",
    ]
    assert "Written" in done.stdout and "\npop - knn\n" in done.stdout


def test_compare_prints_only_the_requested_format(demo, call):
    folder, _ = demo
    files = ["weft-demo/knn.json", "weft-demo/als.json"]
    printed = {
        form: call("compare", *files, "-f", form, cwd=folder)
        for form in ("json", "csv", "markdown", "latex")
    }
    rows = json.loads(printed["json"].stdout)["rows"]
    table = pl.read_csv(printed["csv"].stdout.encode())
    assert table["difference"].to_list() == [
        row["difference"] for row in rows
    ] and table.columns == list(rows[0])
    assert (
        printed["markdown"].stdout.count("\n| ") == len(rows) + 1
        and printed["latex"].stdout.count("knn &") == 1
    )
    for form, done in printed.items():
        assert "not compared" in done.stderr and ("not compared" in done.stdout) == (
            form == "json"
        )  # where notes have a place


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["metrics", "nDGC"], "Did you mean 'nDCG'?"),
        (["metrics", "foo bar"], "no metric named 'foo bar'"),
        (["compare", "a.json", "b.json"], "a.json: there is no such file"),
        (["compare", "weft-demo/als.json"], "at least two results"),
        (
            ["compare", "weft-demo/als.json", "weft-demo/knn.json", "-m", "nDCG@7"],
            "'nDCG@7' was not evaluated for 'als'",
        ),
        (
            ["compare", "weft-demo/als.json", "weft-demo/knn.json", "--correction", "hol"],
            "Did you mean 'holm'?",
        ),
        (
            ["compare", "weft-demo/als.json", "weft-demo/knn.json", "-f", "xml"],
            "--format xml is not known",
        ),
        (
            ["compare", "weft-demo/als.json", "weft-demo/knn.json", "--out", "c.html"],
            "--out c.html: give a name that ends in",
        ),
        (
            ["compare", "weft-demo/als.json", "weft-demo/knn.json", "--family", "tests"],
            "Did you mean 'test'?",
        ),
        (
            ["compare", "weft-demo/als.json", "weft-demo/knn.json", "--resamples", "0"],
            "--resamples 0; it must be",
        ),
        (
            ["demo", "--out", "weft-demo/als.json"],
            "--out weft-demo/als.json: weft-demo/als.json is a file; give a folder.",
        ),
    ],
)
def test_user_errors_are_one_message_and_exit_code_2(demo, call, arguments, message):
    folder, _ = demo
    done = call(*arguments, cwd=folder, code=2)
    assert message in done.stderr and "Traceback" not in done.stderr
    assert done.stderr.startswith("error: ") and done.stdout == ""


# --------------------------------------------------------------------------------------------------

TRUTH = "user,item,rating\nann,tea,5\nann,rye,2\nbob,oat,4\ncat,tea,3\n"
TRAIN = "user,item\nann,oat\nbob,tea\ncat,rye\n"
GOOD = "user,item,score\nann,tea,0.9\nann,oat,0.5\nbob,oat,0.8\nbob,rye,0.1\ncat,tea,0.7\n"
POOR = "user,item,score\nann,oat,0.9\nann,rye,0.5\nbob,rye,0.8\ncat,oat,0.7\ncat,tea,0.3\n"
FLAGS = ("evaluate", "--recs", "good.csv", "--recs", "poor=poor.csv", "--truth", "test.csv")
BRIEF = (*FLAGS, "-m", "nDCG,Recall", "-k", "1,2")


@pytest.fixture
def folder(tmp_path):
    for name, text in {
        "test.csv": TRUTH,
        "train.csv": TRAIN,
        "good.csv": GOOD,
        "poor.csv": POOR,
    }.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "items.csv").write_text("item\ntea\nrye\noat\nfig\n")
    return tmp_path


def in_python(folder, name, **settings):
    """Return the result of `weft.evaluate` for the same files."""
    read = {file: pl.read_csv(folder / f"{file}.csv") for file in ("test", name)}
    return weft.evaluate(
        read[name], read["test"], **{"metrics": ["nDCG", "Recall"], "top_k": [1, 2], **settings}
    )


def printed_values(done):
    """{(model, metric@k): value} of the CSV on standard output."""
    values = {}
    for row in csv.DictReader(io.StringIO(done.stdout)):
        metric, labels = split_labels(row["metric"])
        values[
            row["model"], metric + (f"@{row['k']}" if row["k"] else "") + format_labels(labels)
        ] = float(row["value"])
    return values


def test_evaluates_with_flags_only(folder, call):
    done = call(*BRIEF, cwd=folder)
    assert (
        "3 evaluated users, 3 items, 4 relevant interactions." in done.stdout and done.stderr == ""
    )
    for name in ("good", "poor"):
        expected = in_python(folder, name)
        for value in expected.entries:
            number, margin = (
                f"{one:.4f}" if one else "0" for one in (value.value, 1.959964 * value.std_error)
            )
            assert re.search(rf"{number}[* ] ± {margin}", done.stdout), done.stdout
    assert "*" in done.stdout and "fewer than 2 recommended items" in done.stdout


def test_every_setting_reaches_the_evaluation(folder, call):
    flags = [
        "--train",
        "train.csv",
        "--items",
        "items.csv",
        "--mask-seen",
        "--relevance-threshold",
        "3",
        "--ties",
        "random",
    ]
    flags += [
        "--seed",
        "7",
        "--empty-users",
        "zero",
        "--missing-lists",
        "skip",
        "--batch-size",
        "2",
        "--device",
        "cpu",
    ]
    done = call(*BRIEF, *flags, "--format", "json", cwd=folder)
    good, poor = json.loads(done.stdout)
    train, items = pl.read_csv(folder / "train.csv"), ["tea", "rye", "oat", "fig"]
    how = {
        "relevance_threshold": 3,
        "ties": "random",
        "seed": 7,
        "empty_users": "zero",
        "missing_lists": "skip",
    }
    for got, name in ((good, "good"), (poor, "poor")):
        expected = in_python(folder, name, train=train, items=items, mask_seen=True, **how)
        assert got["values"] == expected.to_dict()["values"] and got["name"] == name
        assert (
            got["settings"] == expected.to_dict()["settings"] and got["counts"] == expected.counts
        )
    kept = call(*BRIEF, "--train", "train.csv", "--keep-seen", "-f", "json", cwd=folder)
    assert [one["settings"]["mask_seen"] for one in json.loads(kept.stdout)] == [False, False]


def test_reads_labels_and_features(folder, call):
    (folder / "groups.csv").write_text("user,group\nann,F\nbob,M\ncat,F\n")
    (folder / "clusters.csv").write_text("item,cluster\ntea,hot\nrye,bread\noat,bread\n")
    (folder / "features.csv").write_text("item,feature\ntea,leaf\ntea,hot\nrye,grain\noat,grain\n")
    files = [
        "--user-groups",
        "groups.csv",
        "--item-clusters",
        "clusters.csv",
        "--item-features",
        "features.csv",
    ]
    done = call(
        *FLAGS, *files, "-m", "UserMADRanking,REO,SRecall", "-k", "2", "-f", "csv", cwd=folder
    )
    got = printed_values(done)
    expected = in_python(
        folder,
        "good",
        metrics=["UserMADRanking", "REO", "SRecall"],
        top_k=2,
        user_groups={"ann": "F", "bob": "M", "cat": "F"},
        item_clusters={"tea": "hot", "rye": "bread", "oat": "bread"},
        item_features={"tea": ["leaf", "hot"], "rye": ["grain"], "oat": ["grain"]},
    )
    assert {name: got["good", name] for name in expected} == pytest.approx(
        {name: expected[name] for name in expected}
    )


def test_flags_replace_values_of_the_file(folder, call):
    (folder / "conf").mkdir()
    (folder / "conf" / "run.yaml").write_text(
        "evaluation: {metrics: [Recall], top_k: [1], ties: random}\n"
        f"data: {{truth: {{path: {folder}/test.csv}}}}\n"
        f"models: {{good: {{path: {folder}/good.csv}}}}\n"
    )
    alone = printed_values(call("evaluate", "conf/run.yaml", "-f", "csv", cwd=folder))
    assert set(alone) == {("good", "Recall@1")}
    changed = call(
        "evaluate",
        "conf/run.yaml",
        "-m",
        "nDCG",
        "-k",
        "2",
        "--recs",
        "other=poor.csv",
        "--format",
        "json",
        cwd=folder,
    )
    (only,) = json.loads(changed.stdout)
    assert only["name"] == "other" and [value["name"] for value in only["values"]] == ["nDCG@2"]
    assert only["settings"]["ties"] == "random"


def test_model_names_come_from_file_names(folder, call):
    for file in ("als.v2.csv", "knn.csv.gz"):
        pl.read_csv(folder / "good.csv").write_csv(
            folder / file, **({"compression": "gzip"} if file.endswith("gz") else {})
        )
    done = call(
        "evaluate",
        "--recs",
        "als.v2.csv",
        "--recs",
        "./knn.csv.gz",
        "--truth",
        "test.csv",
        "-m",
        "MRR@1",
        "-f",
        "csv",
        cwd=folder,
    )
    assert [model for model, _ in printed_values(done)] == ["als.v2", "knn"]


@pytest.mark.parametrize(
    ("given", "name", "path"),
    [
        ("als.csv", "als", "als.csv"),
        ("x=a=b.csv", "x", "a=b.csv"),
        ("runs/seed=1/als.CSV.gz", "als", "runs/seed=1/als.CSV.gz"),
        ("parts/als/", "als", "parts/als"),
        ("v1.2.jsonl", "v1.2", "v1.2.jsonl"),
        ("bm25.run", "bm25", "bm25.run"),
        ("bm25.trec", "bm25", "bm25.trec"),
    ],
)
def test_model_names_are_given_or_come_from_the_file(given, name, path):
    assert split_models([given]) == {name: Path(path)}
    assert len(split_models(["."])) == 1 and "" not in split_models(["."])


def test_splits_metrics_outside_of_brackets(folder, call):
    names = (
        "ndcg, F1(metric_name_1=Precision, beta=0.5),EucDistance(metric_names=[Precision, nDCG], "
        "utopia_points=[1, 1])@2"
    )
    done = call(
        *FLAGS,
        "--metrics",
        names,
        "--metrics",
        "MRR",
        "--top-k",
        "2",
        "--top-k",
        "1",
        "-f",
        "json",
        cwd=folder,
    )
    assert [value["name"] for value in json.loads(done.stdout)[0]["values"]] == [
        *("nDCG@2", "nDCG@1", "F1(beta=0.5)@2", "F1(beta=0.5)@1"),
        *("EucDistance(metric_names=[Precision, nDCG], utopia_points=[1, 1])@2", "MRR@2", "MRR@1"),
    ]


def test_reading_options_apply_to_files_they_fit(folder, call, monkeypatch):
    seen = {}
    original = config_run.run

    def watch(configuration, *rest, **more):
        seen.update(
            {name: getattr(configuration.data, name) for name in ("truth", "train", "user_groups")}
        )
        seen.update(configuration.models)
        return original(configuration, *rest, **more)

    monkeypatch.setattr(config_run, "run", watch)
    for name in ("test", "train", "good"):
        text = (folder / f"{name}.csv").read_text().replace(",", ";")
        (folder / f"{name}.csv").write_text(text)
    pl.read_csv(folder / "poor.csv").write_parquet(folder / "poor.parquet")
    (folder / "groups.csv").write_text("user;group\nann;F\nbob;M\n")
    options = [
        "--separator",
        ";",
        "--ids",
        "string",
        "--column",
        "user=user",
        "--column",
        "truth.item=item",
        "--column",
        "score=2",
    ]
    call(
        *(
            "evaluate",
            "--recs",
            "good.csv",
            "--recs",
            "poor.parquet",
            "--truth",
            "test.csv",
            "--train",
            "train.csv",
        ),
        *("--user-groups", "groups.csv", "-m", "MRR@1", *options),
        cwd=folder,
    )
    assert {name: file.separator for name, file in seen.items()} == {
        **dict.fromkeys(("truth", "train", "user_groups", "good"), ";"),
        "poor": None,
    }
    assert {file.ids for file in seen.values()} == {"string"} and {
        file.header for file in seen.values()
    } == {None}
    assert dict(seen["truth"].columns) == {"user": "user", "item": "item"} and dict(
        seen["user_groups"].columns
    ) == {"user": "user"}
    assert dict(seen["good"].columns) == {"user": "user", "score": 2} and dict(
        seen["train"].columns
    ) == {"user": "user"}


@pytest.mark.parametrize("form", ["json", "csv", "markdown", "latex"])
def test_standard_output_has_only_the_format(folder, call, form):
    done = call(*BRIEF, "--out", "results", "--gate", "Recall@2 >= 0", "-f", form, cwd=folder)
    for words in ("3 evaluated users", "Written: results", "gate passed", "fewer than 2"):
        assert words in done.stderr and words not in (done.stdout if form != "json" else "")
    starts = {"json": "[\n", "csv": "model,metric,k,value,", "markdown": "| metric", "latex": "%"}
    assert done.stdout.startswith(starts[form])
    if form == "csv":
        assert done.stdout == (folder / "results" / "summary.csv").read_text()
    if form == "json":
        assert [one["name"] for one in json.loads(done.stdout)] == ["good", "poor"]


def test_out_writes_results_and_a_summary(folder, call):
    done = call(*BRIEF, "--out", "new/results", "--per-user", cwd=folder)
    assert (
        "Written: new/results/good.json, new/results/poor.json, new/results/summary.csv"
        in done.stdout
    )
    out = folder / "new" / "results"
    assert sorted(path.name for path in out.iterdir()) == sorted(
        ["good.json", "good.per_user.parquet", "poor.json", "poor.per_user.parquet", "summary.csv"]
    )
    for name in ("good", "poor"):
        loaded, expected = (
            weft.load_result(out / f"{name}.json"),
            in_python(folder, name, per_user=True),
        )
        assert {metric: loaded[metric] for metric in loaded} == {
            metric: expected[metric] for metric in expected
        }
        assert loaded.per_user.equals(expected.per_user)
    rows = list(csv.DictReader((out / "summary.csv").read_text().splitlines()))
    assert [(row["model"], row["metric"], row["k"]) for row in rows[:2]] == [
        ("good", "nDCG", "1"),
        ("good", "nDCG", "2"),
    ]
    compared = call("compare", "new/results/good.json", "new/results/poor.json", cwd=folder)
    assert "good - poor" in compared.stdout


def test_writes_no_parquet_without_per_user(folder, call):
    call(*BRIEF, "--out", "results", cwd=folder)
    assert sorted(path.name for path in (folder / "results").iterdir()) == [
        "good.json",
        "poor.json",
        "summary.csv",
    ]


def test_file_names_are_safe(folder, call):
    call(
        "evaluate",
        "--recs",
        "..: x=good.csv",
        "--recs",
        "! x=poor.csv",
        "--truth",
        "test.csv",
        "-m",
        "MRR@1",
        "--out",
        "deep/out",
        cwd=folder,
    )
    assert sorted(path.name for path in (folder / "deep" / "out").iterdir()) == [
        "_x-2.json",
        "_x.json",
        "summary.csv",
    ]
    assert list((folder / "deep").iterdir()) == [folder / "deep" / "out"]
    assert weft.load_result(folder / "deep" / "out" / "_x.json").name == "..: x"


def test_writes_nothing_if_a_model_fails(folder, call):
    (folder / "poor.csv").write_text("user,item,score\nann,tea,0.9\nann,tea,0.5\n")
    before = sorted(folder.iterdir())
    done = call(*BRIEF, "--out", "results/deep", cwd=folder, code=2)
    assert (
        done.stderr.startswith("error: ")
        and done.stdout == ""
        and sorted(folder.iterdir()) == before
    )


def parquet(**columns):
    written = io.BytesIO()
    pl.DataFrame(columns).write_parquet(written)
    return written.getvalue()


BROKEN = {
    "a truncated Parquet": (
        "poor.parquet",
        parquet(user=["ann"], item=["tea"], score=[0.5])[:-20],
        "poor.parquet",
    ),
    "bad UTF-8": (
        "poor.csv",
        b"user,item,score\nann,tea,0.9\nbob,caf\xe9,0.4\n",
        "poor.csv, line 3",
    ),
    "ragged rows": (
        "poor.csv",
        b"user,item,score\nann,tea,0.9\nbob,oat,0.1,7,8\n",
        "poor.csv, line 3",
    ),
    "text for a number": (
        "poor.csv",
        b"user,item,score\nann,tea,0.9\nbob,oat,high\n",
        "poor.csv, line 3: the score",
    ),
    "an empty file": ("poor.csv", b"", "poor.csv"),
    "a header alone": ("poor.csv", b"user,item,score\n", "poor.csv"),
    "a missing column": ("poor.csv", b"user,colour,score\nann,red,0.9\n", "poor.csv"),
    "a wrong separator": (
        "poor.csv",
        b"user;item;score\nann;tea;0.9\n",
        "poor.csv",
        "--separator",
        ",",
    ),
    "truncated gzip": ("poor.csv.gz", gzip.compress(GOOD.encode())[:-12], "poor.csv.gz"),
    "JSON Lines that break off": (
        "poor.jsonl",
        b'{"user": "ann", "item": "tea"}\n{"user": "ann", "it',
        "poor.jsonl, line 2",
    ),
    "an empty folder": ("poor", None, "poor"),
    "no file": ("nothing.csv", ..., "nothing.csv"),
}


@pytest.mark.parametrize("what", BROKEN)
def test_broken_files_are_one_message_with_a_line(folder, call, what):
    name, content, place, *more = BROKEN[what]
    if content is None:
        (folder / name).mkdir()
    elif content is not ...:
        (folder / name).write_bytes(content)
    before = sorted(folder.rglob("*"))
    models = (
        "--recs",
        "good.csv",
        "--recs",
        f"broken={name}",
        "--truth",
        "test.csv",
        "-m",
        "nDCG",
        "-k",
        "2",
    )
    done = call("evaluate", *models, *more, "--out", "results", "--per-user", cwd=folder, code=2)
    assert done.stdout == "" and done.stderr.startswith("error: ") and place in done.stderr, (
        done.stderr
    )
    assert "Traceback" not in done.stderr and "polars" not in done.stderr.lower()
    assert sorted(folder.rglob("*")) == before


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is forbidden to root"
)
def test_rejects_files_without_permission(folder, call):
    (folder / "poor.csv").chmod(0)
    assert "poor.csv" in call(*BRIEF, "--out", "results", cwd=folder, code=2).stderr
    assert not (folder / "results").exists()


def test_failed_runs_keep_older_results(folder, call):
    call(*BRIEF, "--out", "results", cwd=folder)
    before = {path.name: path.read_bytes() for path in (folder / "results").iterdir()}
    (folder / "good.csv").write_text(POOR)
    (folder / "results" / "poor.json").unlink()
    (folder / "results" / "poor.json").mkdir()
    done = call(*BRIEF, "--out", "results", cwd=folder, code=2)
    assert "poor.json: cannot be written" in done.stderr
    after = {
        path.name: path.read_bytes() for path in (folder / "results").iterdir() if path.is_file()
    }
    assert after == {name: text for name, text in before.items() if name != "poor.json"}


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="nothing is forbidden to root"
)
def test_checks_permissions_of_the_folder_first(folder, call):
    (folder / "locked").mkdir(mode=0o500)
    done = call(*BRIEF, "--out", "locked/results", cwd=folder, code=2)
    assert "no permission to write" in done.stderr and done.stdout == ""


NO_CUTOFF = (*FLAGS, "-m", "nDCG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["evaluate"], "--recs and --truth must be given, or a configuration"),
        (["evaluate", "--recs", "good.csv"], "--truth must be given"),
        (
            ["evaluate", "good.csv", "--truth", "test.csv"],
            "good.csv: expected a YAML configuration, got a .csv file.",
        ),
        (
            ["check", "good.Parquet.gz"],
            "Recommendation lists are given with --recs: weft check --recs good.Parquet.gz",
        ),
        (["evaluate", "--truth", "test.csv"], "--recs must be given"),
        (NO_CUTOFF, "--top-k"),
        ([*NO_CUTOFF, "-k", "0"], "--top-k"),
        ([*NO_CUTOFF, "-k", "5,x"], "--top-k x; cut-offs are integers"),
        ([*BRIEF, "-m", "nDGC"], "Did you mean 'nDCG'?"),
        ([*BRIEF, "-m", "nDCG(gian=linear)"], "has no parameter 'gian'"),
        ([*BRIEF, "-m", "EPC"], "--train"),
        ([*BRIEF, "-m", "GAUC"], "needs the scores of all items"),
        ([*BRIEF, "--ties", "indx"], "Did you mean 'index'?"),
        ([*BRIEF, "--ties", "indx"], "--ties"),
        ([*BRIEF, "--profile", "trec"], "Did you mean 'trec_eval'?"),
        ([*BRIEF, "--empty-users", "zer"], "Did you mean 'zero'?"),
        ([*BRIEF, "--batch-size", "0"], "--batch-size"),
        ([*BRIEF, "--device", "abacus"], "--device"),
        ([*BRIEF, "--mask-seen"], "--train"),
        (
            [*BRIEF, "--recs", "other/good.csv"],
            "there is already a model 'good', good.csv; give each model its own name",
        ),
        ([*BRIEF, "--recs", "good="], "expected a path after '='"),
        ([*BRIEF, "--column", "usr=1"], "Did you mean 'user'?"),
        ([*BRIEF, "--column", "truht.user=1"], "Did you mean 'truth'?"),
        ([*BRIEF, "--column", "items.user=1"], "Choose one of item."),
        ([*BRIEF, "--column", "user"], "expected ROLE=NAME"),
        (
            [*BRIEF, "--column", "user=a", "--column", "truth.user=b"],
            "the column of user in truth is given twice; remove one, or name a file in each, as in "
            "recs.user=NAME",
        ),
        (
            [*BRIEF, "--column", "good.rank=slot"],
            "models with different columns need a configuration file",
        ),
        ([*BRIEF, "--per-user"], "give a folder for the results with --out DIR"),
        ([*BRIEF, "--out", "good.csv"], "good.csv is a file; give a folder"),
        ([*BRIEF, "--out", "good.csv/deep"], "good.csv is a file; give a folder"),
        ([*BRIEF, "--format", "yaml"], "--format yaml is not known"),
        (
            [*BRIEF, "--engine", "sparc"],
            "--engine sparc is not known. Choose one of 'ray', 'spark'. Did you mean 'spark'?",
        ),
        (
            [*BRIEF, "--engine", "ray", "--parts", "0"],
            "--parts 0; it must be an integer of at least 1",
        ),
        (
            [*BRIEF, "--address", "ray://head:10001"],
            "got address without an engine; add its name (--engine), ray or spark",
        ),
        ([*BRIEF, "--gate", "nDCG@10"], "has no operator"),
        ([*BRIEF, "--gate", "nDCG > 0.1"], "needs a cut-off"),
        ([*BRIEF, "--gate", "nDCG@1 > none.json"], "none.json: there is no such file"),
        ([*BRIEF, "--gate", "god: nDCG@1 > 0"], "Did you mean 'good'?"),
        (["evaluate", "none.yaml"], "none.yaml"),
    ],
)
def test_errors_name_options_of_the_command_line(folder, call, monkeypatch, arguments, message):
    files = sorted(folder.iterdir())
    done = call(*arguments, cwd=folder, code=2)
    assert message in done.stderr and done.stderr.startswith("error: ") and done.stdout == ""
    assert not re.search(
        r"Traceback|\b(top_k|mask_seen|batch_size|empty_users|ties)=|pydantic|(evaluation|data)\.[a-z]",
        done.stderr,
    )
    assert sorted(folder.iterdir()) == files


def test_usage_errors_exit_with_2(folder, call):
    assert "No such option" in call(*BRIEF, "--tie", "index", cwd=folder, code=2).stderr
    assert "--seed" in call(*BRIEF, "--seed", "x", cwd=folder, code=2).stderr
    assert "No such command" in call("evalaute", cwd=folder, code=2).stderr


@pytest.mark.parametrize(
    ("reference", "on_the_command_line", "in_yaml"),
    [
        (("top_k", [10, 20]), "--top-k 10,20", "top_k: [10, 20]"),
        (("top_k",), "--top-k", "top_k"),
        (("ties", "random"), "--ties random", "ties: random"),
        (("mask_seen", True), "--mask-seen", "mask_seen: true"),
        (("mask_seen", False), "--keep-seen", "mask_seen: false"),
        (("per_user", True), "--per-user", "per_user: true"),
        (("truth",), "--truth FILE", "data.truth"),
        (("candidates", "listed"), "--candidates listed", "candidates: listed"),
        (("models.v1.2",), "--recs v1.2", "models.v1.2"),
        (("separator", ";"), "--separator ';'", "separator: ';'"),
        (("header", False), "--no-header", "header: false"),
        (("ids", "string"), "--ids string", "ids: string"),
        (
            ("columns", {"user": "visitor", "item": 0}),
            "--column user=visitor --column item=0",
            "columns: {user: visitor, item: 0}",
        ),
        (("users",), "--users FILE", "data.users"),
        (("items", "positions"), "--items positions", "data.items: positions"),
        (("columns_of",), "columns_of=", "columns_of"),
    ],
)
def test_messages_spell_settings_as_the_interface_does(reference, on_the_command_line, in_yaml):
    message = f"give {setting_ref(*reference)}, not train=1/a.csv"
    assert render(message, command_line_style) == f"give {on_the_command_line}, not train=1/a.csv"
    assert render(message, configuration_style) == f"give {in_yaml}, not train=1/a.csv"


def test_errors_quote_file_names_unchanged(folder, call):
    (folder / "seed=3.csv").write_text("user,item,score\n")
    done = call(
        "evaluate", "--recs", "x=seed=3.csv", *FLAGS[-2:], "-m", "MRR@1", cwd=folder, code=2
    )
    assert done.stderr == "error: --recs x (seed=3.csv) has no rows below its header.\n"


# --------------------------------------------------------------------------------------------------


class Table:
    """As much of a Spark DataFrame as the command line sees."""

    def __init__(self, frame):
        self.frame, self.write = frame, self

    def parquet(self, place):
        folder = Path(place.removeprefix("file://"))
        folder.mkdir()
        (folder / "_SUCCESS").touch()
        for number, part in enumerate(
            (self.frame.tail(-2), self.frame.head(0), self.frame.head(2))
        ):
            part.write_parquet(folder / f"part-{number:05}.snappy.parquet")


@dataclass(frozen=True, eq=False, repr=False)
class ResultOnEngine(Result):
    """As much of a SparkResult as the command line sees."""

    per_user_table: Table | None = None

    def collected(self):
        known = {one.name: getattr(self, one.name) for one in fields(Result)}
        return Result(**known | {"per_user": self.per_user_table and self.per_user_table.frame})


@pytest.fixture
def engines(monkeypatch):
    """Engines that evaluate here and take notes: (engine, address), then the arguments of each
    evaluation, then "stopped".
    """
    notes = []

    def engine(name, opening):
        def evaluate(source, truth, *, parts=None, **settings):
            notes.append({"source": source, "truth": truth, "parts": parts, **settings})
            result = weft.evaluate(source, truth, **settings)
            if name == "ray":
                return result
            known = {one.name: getattr(result, one.name) for one in fields(Result)}
            table = None if result.per_user is None else Table(result.per_user)
            return ResultOnEngine(
                **known | {"per_user": None, "user_labels": None}, per_user_table=table
            )

        @contextmanager
        def opened(address=None):
            notes.append((name, address))
            yield
            notes.append("stopped")

        monkeypatch.setattr(
            weft.engines,
            name,
            SimpleNamespace(**{"evaluate": evaluate, opening: opened}),
            raising=False,
        )

    engine("ray", "cluster")
    engine("spark", "session")
    return notes


def test_engines_get_the_files_and_give_the_same_values(folder, call, engines):
    labels = "user,label\nann,a\nbob,b\ncat,a\n"
    (folder / "labels.csv").write_text(labels)
    given = [
        *BRIEF,
        "--train",
        "train.csv",
        "--user-groups",
        "labels.csv",
        "--slice",
        "plan=labels.csv",
        "--format",
        "csv",
    ]
    here = call(*given, cwd=folder)
    there = call(
        *given, "--engine", "Ray", "--address", "ray://head:10001", "--parts", "7", cwd=folder
    )
    assert there.stdout == here.stdout and "nDCG" in there.stdout and there.stderr == here.stderr
    assert (
        engines[0] == ("ray", "ray://head:10001") and engines[-1] == "stopped" and len(engines) == 4
    )
    for notes, model in zip(engines[1:], ("good", "poor")):
        assert notes["parts"] == 7 and notes["name"] == model
        files = {name: notes[name] for name in ("source", "truth", "train", "user_groups")} | notes[
            "slices"
        ]
        assert {name: file.path.name for name, file in files.items()} == {
            "source": f"{model}.csv",
            "truth": "test.csv",
            "train": "train.csv",
            "user_groups": "labels.csv",
            "plan": "labels.csv",
        }


def test_flags_replace_the_engine_of_the_file(folder, call, engines):
    start = (
        "models: {good: good.csv}\ndata: {truth: {path: test.csv, ratings: false}}\nevaluation: "
        "{metrics: nDCG@2}\n"
    )
    (folder / "run.yaml").write_text(
        f"{start}engine: {{name: spark, address: 'local[2]', parts: 3}}\n"
    )
    for flags, expected in (
        ([], ("spark", "local[2]", 3)),
        (["--parts", "5"], ("spark", "local[2]", 5)),
        (["--engine", "spark", "--address", "local[1]"], ("spark", "local[1]", 3)),
        (["--engine", "ray"], ("ray", None, None)),  # the address was one of Spark
    ):
        engines.clear()
        call("evaluate", "run.yaml", *flags, cwd=folder)
        assert (*engines[0], engines[1]["parts"]) == expected
        assert "rating" not in engines[1]["truth"].columns
    engines.clear()
    call("evaluate", "run.yaml", "--engine", "none", cwd=folder)
    assert engines == []
    (folder / "run.yaml").write_text(f"{start}engine: sparc\n")
    assert (
        "run.yaml:4:9: engine: sparc is not known. Choose one of 'ray', 'spark'."
        in call("evaluate", "run.yaml", cwd=folder, code=2).stderr
    )
    (folder / "run.yaml").write_text(f"{start}engine: Spark\n")
    call("evaluate", "run.yaml", cwd=folder)
    assert engines[0] == ("spark", None)


def test_spark_writes_its_values_per_user(folder, call, engines):
    call(*BRIEF, "--engine", "none", "--out", "here", "--per-user", cwd=folder)
    done = call(*BRIEF, "--engine", "spark", "--out", "there", "--per-user", cwd=folder)
    assert (
        "Written: there/good.json, there/poor.json, there/summary.csv (with values per "
        "user)" in done.stdout
    )
    assert (folder / "there" / "good.per_user.parquet" / "_SUCCESS").exists()
    names = [
        "good.json",
        "good.per_user.parquet",
        "poor.json",
        "poor.per_user.parquet",
        "summary.csv",
    ]
    assert sorted(path.name for path in (folder / "there").iterdir()) == names
    for model in ("good", "poor"):
        here, there = (
            weft.load_result(folder / where / f"{model}.json") for where in ("here", "there")
        )
        assert (
            there.per_user.equals(here.per_user.sort("user")) and there["nDCG@2"] == here["nDCG@2"]
        )
    assert "good - poor" in call("compare", "there/good.json", "there/poor.json", cwd=folder).stdout
    # Never over those of another run, unless that is wanted.
    engines.clear()
    again = [*BRIEF, "--engine", "spark", "--out", "there", "--per-user"]
    refused = call(*again, cwd=folder, code=2)
    assert (
        "there/good.per_user.parquet exists already; replace it with --overwrite" in refused.stderr
        and engines == []
    )
    call(*again, "--overwrite", "-m", "Precision@2", cwd=folder)
    assert weft.load_result(folder / "there" / "good.json").per_user.columns[-1] == "Precision@2"
    for name in ("good", "poor"):
        (folder / "there" / f"{name}.per_user.parquet").rename(folder / name)
    (folder / "poor").rename(folder / "there" / "good.per_user.parquet")
    (folder / "good").rename(folder / "there" / "poor.per_user.parquet")
    swapped = call("compare", "there/good.json", "there/poor.json", cwd=folder, code=2).stderr
    assert (
        "good.per_user.parquet: this is not the Parquet table that was saved with good.json"
        in swapped
    )
    assert sorted(path.name for path in (folder / "there").iterdir()) == names
    call(*BRIEF, "--engine", "spark", "--out", "here", "--per-user", "--overwrite", cwd=folder)
    assert (folder / "here" / "good.per_user.parquet").is_dir()
    refused = call(*BRIEF, "--out", "there", "--per-user", "--overwrite", cwd=folder, code=2)
    assert (
        "there/good.per_user.parquet is a folder, which an earlier run on Spark" in refused.stderr
    )


def test_removes_incomplete_tables_of_spark(folder, call, engines, monkeypatch):
    def elsewhere(self, place):
        Path(place.removeprefix("file://")).mkdir()

    given = [*BRIEF, "--engine", "spark", "--out", "there", "--per-user"]
    monkeypatch.setattr(Table, "parquet", elsewhere)
    assert "Give a folder that all machines share." in call(*given, cwd=folder, code=2).stderr
    assert not (folder / "there").exists()


def test_significance_tests_collect_the_values_of_spark(folder, call, engines):
    text = (
        "models: {good: good.csv, poor: poor.csv}\ndata: {truth: test.csv}\nengine: "
        "spark\nevaluation: {metrics: nDCG@2, %s}\n"
    )
    (folder / "run.yaml").write_text(
        text % "save_per_user: true, stat_significance: {paired_t_test: true}"
    )
    done = call("evaluate", "run.yaml", "--out", "there", cwd=folder)
    assert "good - poor" in done.stdout and (folder / "there" / "good.per_user.parquet").is_file()
    (folder / "run.yaml").write_text(text % "save_per_user: true")
    assert all(
        result.per_user is not None for result in config_run.run(load(folder / "run.yaml"))
    )  # the session is over


def test_rejects_an_engine_under_torchrun(folder, call, engines, monkeypatch):
    monkeypatch.setenv(error_handling.TORCHRUN, "x")
    monkeypatch.setattr(evaluate_command, "_process_group", nullcontext)
    done = call(*BRIEF, "--engine", "ray", cwd=folder, code=2)
    assert "--engine ray: torchrun distributes the users already" in done.stderr and engines == []


# --------------------------------------------------------------------------------------------------


def test_gates_decide_the_exit_code(folder, call):
    passed = call(*BRIEF, "--gate", "good: nDCG@2 >= 0.5", "--gate", "recall@2 > 0.1", cwd=folder)
    assert passed.stdout.count("gate passed") == 3 and "3 of 3 gates passed." in passed.stdout
    failed = call(*BRIEF, "--gate", "nDCG@2 >= 0.9", "--out", "results", cwd=folder, code=1)
    assert "gate FAILED  poor: nDCG@2" in failed.stdout and "difference -" in failed.stdout
    assert (folder / "results" / "poor.json").exists()  # a failed gate is a result too


def test_evaluates_the_metrics_of_gates(folder, call):
    done = call(*FLAGS, "--gate", "MRR@2 >= 0.1", "-f", "csv", cwd=folder)
    assert set(printed_values(done)) == {("good", "MRR@2"), ("poor", "MRR@2")}
    same = call(*BRIEF, "--gate", "ndcg(gain=exponential)@2 >= 0", "-f", "csv", cwd=folder)
    assert len(printed_values(same)) == 8


def test_gates_against_a_baseline(folder, call):
    call(*BRIEF, "--out", "base", cwd=folder)
    good = ("evaluate", "--recs", "good.csv", "--truth", "test.csv", "-m", "nDCG@2")
    call(
        *good, "--gate", "nDCG@2 > base/poor.json", "--gate", "nDCG@2 == base/good.json", cwd=folder
    )
    call(*good, "--gate", "nDCG@2 > base/good.json", cwd=folder, code=1)
    assert (
        "(base/good.json - 0.01)"
        in call(*good, "--gate", "nDCG@2 >= base/good.json - 0.01", cwd=folder).stdout
    )
    (folder / "test.csv").write_text(TRUTH + "dan,oat,1\n")
    assert (
        "another truth"
        in call(*good, "--gate", "nDCG@2 > base/poor.json", "-f", "csv", cwd=folder).stderr
    )


def test_gates_that_test_differences(folder, call):
    call(*BRIEF, "--out", "base", "--per-user", cwd=folder)
    good = ("evaluate", "--recs", "good.csv", "--truth", "test.csv", "-m", "nDCG@2")
    files = ("--gate-summary", "ci/gates.md", "--junit", "ci/gates.xml")
    same = "nDCG@2 not worse than base/good.json"
    done = call(*good, "--gate", same, *files, "--out", "results", cwd=folder)
    assert "gate passed  good: nDCG@2" in done.stdout
    assert "3 users" in done.stdout and "ci/gates.md, ci/gates.xml" in done.stdout
    assert "### All gates passed" in (folder / "ci" / "gates.md").read_text()
    assert 'failures="0"' in (folder / "ci" / "gates.xml").read_text()
    assert not (folder / "results" / "good.per_user.parquet").exists()  # was not requested
    poor = ("evaluate", "--recs", "poor.csv", "--truth", "test.csv", "-m", "nDCG@2")
    done = call(*poor, "--gate", same, *files, cwd=folder, code=1)
    assert "gate FAILED  poor: nDCG@2" in done.stdout
    assert "### 1 of 1 gates failed" in (folder / "ci" / "gates.md").read_text()
    assert 'failures="1"' in (folder / "ci" / "gates.xml").read_text()
    call(*BRIEF, "--out", "plain", cwd=folder)
    done = call(*good, "--gate", "nDCG@2 better than plain/good.json", cwd=folder, code=2)
    assert "it has no values per user" in done.stderr
    done = call(*good, "--gate", same, "--junit", "base", cwd=folder, code=2)
    assert "--junit base: this is a folder" in done.stderr


@pytest.mark.parametrize("option", ["--junit", "--gate-summary"])
def test_refuses_files_about_no_gates(folder, call, option):
    done = call(*BRIEF, option, "gates.out", cwd=folder, code=2)
    assert f"{option} (" in done.stderr
    assert "there are no gates, so nothing would be checked" in done.stderr
    assert not (folder / "gates.out").exists()


def test_refuses_a_title_without_a_report(folder, call):
    call(*BRIEF, "--out", "base", cwd=folder)
    for command in (BRIEF, ("compare", "base/good.json", "base/poor.json")):
        done = call(*command, "--report-title", "Release 12", cwd=folder, code=2)
        assert "no report is written; give its file with --report FILE" in done.stderr


def test_extends_the_summary_of_a_github_step(folder, call, monkeypatch):
    summary = folder / "summary.md"
    summary.write_text("before\n")
    options = (*BRIEF, "--gate", "nDCG@2 >= 0", "--gate-summary", str(summary))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    call(*options, cwd=folder)
    assert summary.read_text().startswith("before\n### All gates passed\n")
    monkeypatch.delenv("GITHUB_STEP_SUMMARY")
    call(*options, cwd=folder)
    assert summary.read_text().startswith("### All gates passed\n")


def test_gate_files_of_a_configuration(folder, call):
    (folder / "run.yaml").write_text(
        "evaluation: {metrics: [Recall], top_k: [2], gates: ['Recall@2[side=x] >= 0'],\n"
        "  slices: {side: side.csv}}\n"
        "data: {truth: test.csv}\nmodels: {good: good.csv}\n"
        "gate_summary: out/gates.md\njunit: out/gates.xml\n"
    )
    (folder / "side.csv").write_text("user,side\nann,x\nbob,y\ncyd,x\n")
    done = call("evaluate", "run.yaml", cwd=folder)
    assert "gate passed  good: Recall@2[side=x]" in done.stdout
    assert (folder / "out" / "gates.md").exists() and (folder / "out" / "gates.xml").exists()
    done = call("evaluate", "run.yaml", "--gate", "Recall@2[sid=x] > 0", cwd=folder, code=2)
    assert "the slice 'sid', which is not evaluated. Did you mean 'side'?" in done.stderr


def test_checks_baselines_first(folder, call):
    (folder / "test.csv").write_text("nothing that can be read")
    (folder / "base.json").write_text("{}")
    assert (
        "not a Weft result"
        in call(*BRIEF, "--gate", "nDCG@2 > base.json", cwd=folder, code=2).stderr
    )


def test_gates_of_a_configuration_are_relative_to_its_folder(folder, call):
    call(*BRIEF, "--out", "conf/base", cwd=folder)
    (folder / "conf" / "run.yaml").write_text(
        "evaluation: {metrics: [Recall], top_k: [2], gates: ['Recall@2 >= base/poor.json']}\n"
        f"data: {{truth: {{path: {folder}/test.csv}}}}\n"
        f"models: {{good: {{path: {folder}/good.csv}}}}\n"
    )
    done = call(
        "evaluate", "conf/run.yaml", "--gate", "nDCG@2 > conf/base/good.json", cwd=folder, code=1
    )
    assert done.stdout.count("gate passed") == 1 and done.stdout.count("gate FAILED") == 1


def test_undefined_values_fail_the_gate(folder, call):
    (folder / "test.csv").write_text("user,item,rating\nann,tea,0\n")
    done = call(*BRIEF, "--gate", "nDCG@2 <= 1", cwd=folder, code=1)
    assert "the value is undefined, so the gate fails" in done.stdout


# --------------------------------------------------------------------------------------------------

PROFILES = [
    (
        "trec_eval",
        "bin",
        "trec_eval_10.0-rc3",
        {"nDCG": "ndcg_cut_{k}", "MAP": "map_cut_{k}", "Precision": "P_{k}"},
        5e-5,
    ),
    (
        "trec_eval",
        "rating",
        "pytrec_eval",
        {"nDCG": "ndcg_cut_{k}", "MAP": "map_cut_{k}", "Recall": "recall_{k}"},
        1e-9,
    ),
    (
        "ranx",
        "rating",
        "ranx",
        {"nDCG": "ndcg@{k}", "MAP": "map@{k}", "MRR": "mrr@{k}", "F1": "f1@{k}"},
        1e-9,
    ),
    (
        "rectools",
        "bin",
        "rectools",
        {"nDCG": "NDCG@{k}", "MAP": "MAP@{k}", "Recall": "Recall@{k}"},
        1e-9,
    ),
]


@needs_golden
@pytest.mark.parametrize(("profile", "relevance", "tool", "names", "tolerance"), PROFILES)
def test_profile_matches_another_tool_on_movielens(
    tmp_path, call, profile, relevance, tool, names, tolerance
):
    """Compare with stored values of the tools, which were not computed with Weft."""
    cutoffs = (5, 10, 20)
    truth = DATA / "test.csv.gz"
    if relevance == "bin":  # every row counts 1
        pl.read_csv(truth).select("user", "item").write_csv(tmp_path / "truth.csv")
        truth = tmp_path / "truth.csv"
    done = call(
        *(
            "evaluate",
            "--recs",
            f"itemknn={DATA}/rec_itemknn.csv.gz",
            "--truth",
            truth,
            "--profile",
            profile,
        ),
        *("--metrics", ",".join(names), "--top-k", ",".join(map(str, cutoffs)), "--format", "csv"),
        cwd=tmp_path,
    )
    values = stored(f"ml100k_tlo/itemknn/{relevance}")[tool]
    wanted = {
        (name, k): values[theirs.format(k=k)] for name, theirs in names.items() for k in cutoffs
    }
    rows = csv.DictReader(io.StringIO(done.stdout))
    got = {(re.match(r"\w+", row["metric"])[0], int(row["k"])): float(row["value"]) for row in rows}
    assert got == pytest.approx(wanted, rel=0, abs=tolerance)


# ------------------------------------------------------------------------------------------------ s


def test_schema(tmp_path, call):
    schema = json.loads(call("schema", cwd=tmp_path).stdout)
    assert {"data", "models", "evaluation"} <= set(schema["properties"])
    assert (
        call("schema", "--out", "deep/weft.json", cwd=tmp_path).stdout
        == "Written: deep/weft.json\n"
    )
    assert json.loads((tmp_path / "deep" / "weft.json").read_text()) == schema


def test_version_help_and_list(tmp_path, call):
    assert call("--version", cwd=tmp_path).stdout.startswith("weft 0.")
    assert "weft demo" in call("--help", cwd=tmp_path).stdout
    listed = call("metrics", cwd=tmp_path).stdout
    assert (
        "nDCG@k" in listed and "GAUC" in listed and "higher" in listed and "closer to 1" in listed
    )
    assert "\naccuracy " in listed and "\nmulti-objective" in listed
    assert "HitRate@k" in call("metrics", "hit rate", cwd=tmp_path).stdout


def is_tidy(text, width=80):
    """Lines that fit and end where they end, without colours; what names files may be longer."""
    commands = ("  weft compare ", "  weft evaluate ")
    lines = [line for line in text.splitlines() if not line.startswith(("Written: ", *commands))]
    return (
        max(map(len, lines)) <= width
        and all(line == line.rstrip() for line in lines)
        and "\x1b" not in text
    )


def test_piped_output_has_80_columns_and_no_colours(demo, call, monkeypatch):
    folder, shown = demo
    assert is_tidy(shown.stdout)
    files = [f"weft-demo/{name}.json" for name in ("pop", "knn", "als")]
    for command in (
        ("compare", *files),
        ("compare", *files[:2], "-t", "kruskal"),
        ("metrics",),
        ("metrics", "MAP", "--profiles"),
    ):
        assert is_tidy(call(*command, cwd=folder).stdout), command
    printed = call("metrics", "nDCG", cwd=folder).stdout
    assert is_tidy(printed) and "tensor(0.7098, dtype=torch.float64)" in printed
    monkeypatch.setenv("COLUMNS", "140")
    wide = CliRunner().invoke(cli.app, ["compare", *files]).stdout
    assert is_tidy(wide, 140) and not is_tidy(wide) and "┊" in wide  # differences around zero


@pytest.mark.slow
def test_an_ascii_terminal(folder):
    pl.DataFrame({"user": ["ann"], "item": ["tea"], "score": [1.0]}).write_csv(folder / "née.csv")
    done = subprocess.run(
        [sys.executable, "-m", "weft", *BRIEF, "--recs", "née.csv"],
        cwd=folder,
        env={**os.environ, "PYTHONIOENCODING": "ascii:strict", "COLUMNS": "80"},
        capture_output=True,
    )
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode("ascii")
    assert "[-o-] 95% interval" in text and "n\\xe9e" in text


@pytest.mark.parametrize("command", ["evaluate", "compare", "metrics", "schema"])
def test_help_teaches_by_example(tmp_path, call, command):
    printed = call(command, "--help", cwd=tmp_path).stdout
    examples = [
        line.strip() for line in printed.splitlines() if line.strip().startswith(f"weft {command}")
    ]
    assert len(examples) >= (1 if command == "schema" else 3)
    assert max(map(len, printed.splitlines())) <= 80


def test_explains_a_metric(tmp_path, call):
    printed = call("metrics", "precision", cwd=tmp_path).stdout
    assert "When to use it: It answers" in printed and "related    Recall, " in printed
    assert "frac" not in printed
    printed = call("metrics", "ndcg", cwd=tmp_path).stdout
    assert (
        "2^r - 1" in printed
        and "Järvelin" in printed
        and '\n  gain = "exponential"\n      Gain of a relevant item' in printed
        and "scores and truth only" in printed
    )
    assert (
        "needs      train, user_groups, item_clusters"
        in call("metrics", "BiasDisparityBD", cwd=tmp_path).stdout
    )
    assert "\n  metric_names (required)\n" in call("metrics", "Hypervolume", cwd=tmp_path).stdout
    assert "Parameters:" not in call("metrics", "MRR", cwd=tmp_path).stdout


def test_shows_a_metric_as_each_tool_defines_it(tmp_path, call):
    shown = call("metrics", "nDCG", "--profiles", cwd=tmp_path).stdout
    for words in ("nDCG(gain=exponential_shifted)", "rectools", "0.2983", "0.5067", "0.4249"):
        assert words in shown
    gini = call("metrics", "Gini", "--profiles", cwd=tmp_path).stdout
    assert "1 - Gini" in gini and "Not available in: trec_eval, ranx" in gini
    assert "rectools" in call("metrics", "--profiles", cwd=tmp_path).stdout


# --------------------------------------------------------------------------------------------------


@pytest.fixture
def reported(monkeypatch):
    """What reports are about that are written; the page itself is tested elsewhere."""
    subjects = []

    def render(subject, *, title=None):
        subjects.append(subject)
        return f"<p>{', '.join(subject.models)}</p>"

    monkeypatch.setattr("weft.report.html.render", render)
    return subjects


def test_evaluate_writes_a_report_with_all_that_it_needs(folder, call, reported):
    done = call(
        *BRIEF, "--train", "train.csv", "--out", "results", "--report", "deep/page.html", cwd=folder
    )
    assert (
        done.stdout.splitlines()[-1].startswith("Written: results/good.json, ")
        and done.stderr == ""
    )
    assert done.stdout.splitlines()[-1].endswith("summary.csv, deep/page.html")
    assert (folder / "deep" / "page.html").read_text() == "<p>good, poor</p>"
    (subject,) = reported
    assert subject.comparison.tests == ("paired_t",) and subject.comparison.correction == "holm"
    for result in subject.results.values():
        assert len(result.per_user) == 3 and result.user_labels["activity"].to_list() == [1, 1, 1]
        assert result.exposure["k"].unique().to_list() == [1, 2] and result.popularity is not None
    saved = weft.load_result(folder / "results" / "good.json")  # values per user were not asked for
    assert (
        saved.per_user is None
        and saved.user_labels is None
        and saved.notes == subject.results["good"].notes
    )
    assert saved.exposure.equals(subject.results["good"].exposure)
    assert "report" not in saved.provenance["configuration"]
    call(*BRIEF, "--out", "kept", "--per-user", "--report", "page.htm", "-f", "csv", cwd=folder)
    assert weft.load_result(folder / "kept" / "good.json").per_user is not None


def test_warns_of_a_report_without_a_comparison(folder, call, reported):
    done = call(*FLAGS, "-m", "ItemCoverage@2", "--report", "page.html", cwd=folder)
    assert (
        done.stderr.startswith("warning: report: it does not compare the models: ")
        and done.stderr.count("\n") == 1
    )
    assert done.stdout.splitlines()[-1] == "Written: page.html"
    alone = call(
        "evaluate",
        "--recs",
        "good.csv",
        "--truth",
        "test.csv",
        "-m",
        "MRR@2",
        "--report",
        "page.html",
        cwd=folder,
    )
    assert alone.stderr == ""
    assert [subject.comparison for subject in reported] == [None, None]
    assert (
        reported[0].warnings == (done.stderr.removeprefix("warning: ").strip(),)
        and reported[1].warnings == ()
    )


def test_a_configuration_sets_the_report_and_its_tests(folder, call, reported):
    (folder / "conf").mkdir()
    (folder / "conf" / "run.yaml").write_text(
        "evaluation: {metrics: [Recall, GAUC], top_k: [1], stat_significance: {sign_test: true, "
        "corrections: {fdr: true}}}\n"
        "data: {truth: ../test.csv}\nmodels: {good: ../good.csv, poor: ../poor.csv}\nreport: "
        "page.html\n"
    )
    config = folder / "conf" / "run.yaml"
    config.write_text(config.read_text().replace(", GAUC", ""))
    done = call("evaluate", "conf/run.yaml", cwd=folder)
    assert (
        done.stdout.splitlines()[-1] == "Written: conf/page.html"
        and (folder / "conf" / "page.html").exists()
    )
    assert reported[0].comparison.tests == ("sign",) and reported[0].comparison.correction == "fdr"
    call("evaluate", "conf/run.yaml", "--report", "here.html", cwd=folder)  # the flag wins
    assert (folder / "here.html").exists() and len(reported) == 2


def test_compare_writes_a_report(folder, call, reported):
    call(*BRIEF, "--out", "results", "--per-user", cwd=folder)
    files = ["results/good.json", "results/poor.json"]
    done = call(
        "compare", *files, "-t", "sign", "--report", "page.html", "--out", "c.csv", cwd=folder
    )
    assert (
        done.stdout.splitlines()[-1] == "Written: c.csv, page.html"
        and (folder / "page.html").exists()
    )
    assert reported[0].comparison.tests == ("sign",) and reported[0].models == ["good", "poor"]
    quiet = call("compare", *files, "--report", "page.html", "-f", "json", cwd=folder)
    assert json.loads(quiet.stdout) and "Written: page.html" in quiet.stderr


@pytest.mark.parametrize("command", ["evaluate", "compare"])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("page.pdf", "--report page.pdf: give a name that ends in .html or .htm."),
        ("page", "--report page: give a name that ends in .html or .htm."),
        ("dir.html", "--report dir.html: this is a folder; give the name of a file."),
        ("test.csv/page.html", "--report test.csv/page.html: test.csv is a file; give a folder."),
    ],
)
def test_checks_the_report_file_first(folder, call, monkeypatch, command, name, message):
    (folder / "dir.html").mkdir()
    monkeypatch.setattr(config_run, "run", None)
    monkeypatch.setattr("weft.statistics.compare", None)
    words = BRIEF if command == "evaluate" else ("compare", "good.json", "poor.json")
    done = call(*words, "--report", name, cwd=folder, code=2)
    assert done.stderr == f"error: {message}\n" and done.stdout == ""


@pytest.mark.parametrize("package", ["altair", "jinja2", "vl_convert"])
def test_checks_the_report_extra_first(folder, call, monkeypatch, package):
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setattr(config_run, "run", None)
    (folder / "run.yaml").write_text(
        "evaluation: {metrics: MRR@1}\ndata: {truth: test.csv}\nmodels: {a: good.csv}\nreport: "
        "p.html\n"
    )
    for words in (
        (*BRIEF, "--report", "p.html"),
        ("compare", "no.json", "nor.json", "--report", "p.html"),
        ("evaluate", "run.yaml"),
    ):
        done = call(*words, cwd=folder, code=2)
        message = (
            "a report needs Altair, Jinja and vl-convert; install them with: pip install "
            "'weft[report]'"
        )
        assert (
            done.stderr == f"error: {message}\n"
            and done.stdout == ""
            and not (folder / "p.html").exists()
        )


def test_demo_without_the_extra_explains_how_to_install_it(demo, call, monkeypatch, tmp_path):
    found = [
        weft.load_result(demo[0] / "weft-demo" / f"{name}.json") for name in ("pop", "knn", "als")
    ]
    monkeypatch.setattr("weft.cli.demo.demonstration.run", lambda step: found)
    monkeypatch.setitem(sys.modules, "altair", None)
    done = call("demo", cwd=tmp_path)
    assert (
        "report.html was not written: a report needs Altair, Jinja and vl-convert; install them "
        "with: pip install" in done.stdout
    )
    assert "report.html" not in done.stdout.partition("Written: ")[2].splitlines()[0]
    assert (
        not (tmp_path / "weft-demo" / "report.html").exists()
        and (tmp_path / "weft-demo" / "summary.csv").exists()
    )


# --------------------------------------------------------------------------------------------------


def test_metrics_explains_names_with_a_cutoff_or_parameters(tmp_path, call):
    expected = call("metrics", "F1", cwd=tmp_path).stdout
    assert call("metrics", "F1@10", cwd=tmp_path).stdout == expected
    assert call("metrics", "f1(beta=2)@10", cwd=tmp_path).stdout == expected


def test_default_metrics(folder, call):
    (folder / "run.yaml").write_text("data: {truth: test.csv}\nmodels: {good: good.csv}\n")
    hint = "nDCG and Recall are the default metrics; choose others with --metrics."
    for files in (["--recs", "good.csv", "--truth", "test.csv"], ["run.yaml"]):
        for cutoffs, k in (([], 10), (["-k", "2"], 2)):
            done = call("evaluate", *files, *cutoffs, "--format", "csv", cwd=folder)
            assert printed_values(done) == {
                ("good", name): value for name, value in in_python(folder, "good", top_k=k).items()
            }
            assert hint in done.stderr
    done = call("evaluate", "run.yaml", "--gate", "MRR@2 > 0", "--format", "csv", cwd=folder)
    assert {name for _, name in printed_values(done)} == {"MRR@2"} and hint not in done.stderr


def test_slices_of_columns_of_one_file(folder, call):
    (folder / "users.csv").write_text("user,gender,age\nann,F,30\nbob,M,40\ncat,F,50\n")
    slices = ["gender=users.csv:gender", "age=bins(35) of users.csv:age"]
    flags = [word for one in slices for word in ("--slice", one)]
    call(*BRIEF, *flags, "--out", "results", cwd=folder)
    (folder / "run.yaml").write_text(
        "data: {truth: test.csv}\nmodels: {good: good.csv}\nevaluation:\n  metrics: nDCG\n"
        "  top_k: 2\n  slices:\n    gender: users.csv:gender\n"
        "    age: {of: 'users.csv:age', by: bins(35)}\n"
    )
    call("evaluate", "run.yaml", "--out", "yaml", cwd=folder)
    users = pl.read_csv(folder / "users.csv")
    expected = in_python(
        folder,
        "good",
        slices={
            "gender": users.select("user", "gender"),
            "age": {"of": users.select("user", "age"), "by": "bins(35)"},
        },
    ).slices
    names = ["slice", "group", "metric", "k"]
    for out, values in (("results", expected), ("yaml", expected.filter(metric="nDCG", k=2))):
        found = weft.load_result(folder / out / "good.json").slices
        assert found.sort(names).equals(values.sort(names))
    (folder / "kinds.csv").write_text(
        "item,name,kind\ntea,Tea,drink\nrye,Rye,grain\noat,Oat,grain\n"
    )
    call(*BRIEF, "--item-slice", "kind=kinds.csv:kind", "--out", "items", cwd=folder)
    groups = weft.load_result(folder / "items" / "good.json").slices["group"]
    assert set(groups) == {"drink", "grain"}
    done = call(*BRIEF, "--slice", "gender=users.csv:sex", cwd=folder, code=2)
    assert "has no column 'sex'" in done.stderr
    for rule in ("activity=quantile(4)", "age=quantile(4) of users.csv:age"):
        done = call(*BRIEF, "--slice", rule, cwd=folder, code=2)
        assert "Did you mean 'quantiles'?" in done.stderr


@pytest.fixture
def registered():
    """Metrics that a test registers are forgotten after it."""
    registry.all_metrics()
    before = dict(registry._classes)
    yield
    registry._classes.clear()
    registry._classes.update(before)
    registry.canonical_name.cache_clear()


OWN_METRIC = """import weft
@weft.register
class HitsOfCommand(weft.UserAverageTopKMetric):
    '''Hits in the list.

    Parameters:
        start: First position that counts,
            from 1.
    '''
    higher_is_better = True
    def __init__(self, k, *, start=1, **settings):
        super().__init__(k, **settings)
        self.start = start
    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        return top_k_rel[:, self.start - 1 :].sum(dim=1)
"""


@pytest.mark.parametrize("named", ["own.py", "own", "deep/own.py"])
def test_custom_modules(folder, call, registered, named):
    (folder / "deep").mkdir()
    for place in ("own.py", "deep/own.py"):
        (folder / place).write_text(OWN_METRIC)
    option = ("--custom-modules", named, "-m", "HitsOfCommand", "-k", "2")
    done = call(*FLAGS, *option, "--format", "csv", cwd=folder)
    assert printed_values(done)[("good", "HitsOfCommand@2")] == pytest.approx(1)
    # Files are relative to the current folder, not to that of the configuration.
    (folder / "configs").mkdir()
    (folder / "configs" / "run.yaml").write_text(
        "data: {truth: ../test.csv}\nmodels: {good: ../good.csv}\n"
    )
    done = call("evaluate", "configs/run.yaml", *option, "--format", "csv", cwd=folder)
    assert printed_values(done)[("good", "HitsOfCommand@2")] == pytest.approx(1)
    checked = call("check", *FLAGS[1:], *option, "--format", "json", cwd=folder)
    assert json.loads(checked.stdout)["values"]["good"] == {"HitsOfCommand@2": 1.0}
    shown = call("metrics", "HitsOfCommand", "--custom-modules", named, cwd=folder)
    assert "Hits in the list.\n\nParameters:\n  start = 1\n" in shown.stdout
    assert "\n      First position that counts, from 1.\n" in shown.stdout


def test_custom_modules_that_cannot_be_imported(folder, call):
    option = ("--custom-modules", "nowhere.py", "-m", "nDCG", "-k", "2")
    done = call(*FLAGS, *option, cwd=folder, code=2)
    assert "there is no file" in done.stderr and "--custom-modules" in done.stderr
    done = call("metrics", "--custom-modules", "nowhere", cwd=folder, code=2)
    assert "there is no module 'nowhere'" in done.stderr


def test_warns_if_lists_are_the_truth(folder, call):
    files = ["--recs", "test.csv", "--truth", "test.csv"]
    done = call("evaluate", *files, "-m", "nDCG@2", cwd=folder)
    assert done.stderr == (
        "warning: --recs test: is the same file as --truth FILE; give two different files.\n"
    )


def test_completion_offers_every_choice():
    assert compare_command.TESTS == TESTS
    built_in = {metric.__name__ for metric in built_in_metrics()}
    assert set(options.metric_names()) == built_in
    assert options.complete_metrics("ndc") == [
        "nDCG",
        "nDCGRendle2020",
    ] and options.complete_metrics("MAP,mr") == ["MAP,MRR"]


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("weft metrics nD", {"nDCG", "nDCGRendle2020"}),
        (
            "weft evaluate --profile r",
            {"ranx", "recbole", "rectools", "replay", "recommenders", "recpack"},
        ),
        ("weft evaluate --ties p", {"pessimistic"}),
        ("weft ev", {"evaluate"}),
    ],
)
def test_completion_answers_without_torch(tmp_path, words, offered):
    code = (
        "import sys, weft.cli\ntry: weft.cli.main()\nfinally: print(*sys.modules, file=sys.stderr)"
    )
    how = {
        "_WEFT_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
    }
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **how},
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert set(done.stdout.split()) == offered, done.stderr
    assert not {"torch", "polars", "numpy"} & set(done.stderr.split())


def test_completion_can_be_installed(tmp_path):
    command = [sys.executable, "-m", "weft", "--show-completion", "bash"]
    # For the named shell, not the one that runs the tests.
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert "_WEFT_COMPLETE=complete_bash" in done.stdout


# -------------------------------------------------------------------------------------------------


def test_debug_shows_the_traceback_before_or_after_the_command(folder, call):
    for arguments in (["--debug", *BRIEF, "--ties", "x"], [*BRIEF, "--ties", "x", "--debug"]):
        printed = call(*arguments, cwd=folder, code=2).stderr
        assert "Traceback" in printed
        assert printed.splitlines()[-1].startswith("error: --ties x is not known")
    assert "Traceback" not in call(*BRIEF, "--ties", "x", cwd=folder, code=2).stderr


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (
            KeyError("surprise"),
            3,
            "error: KeyError: 'surprise'. This is a bug in Weft, not an error in your files. "
            "Please report it with the traceback",
        ),
        (MemoryError(), 3, "error: out of memory"),
        (
            RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"),
            3,
            "error: out of memory",
        ),
        (KeyboardInterrupt(), 130, "interrupted"),
        (InputError("this is wrong"), 2, "error: this is wrong"),
    ],
)
def test_exceptions_are_one_line(folder, call, monkeypatch, error, code, message):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr(config_run, "run", fail)
    done = call(*BRIEF, "--out", "results", cwd=folder, code=code)
    assert done.stderr.startswith(message) and done.stderr.count("\n") == 1 and done.stdout == ""
    assert not (folder / "results").exists()
    assert "Traceback" in call(*BRIEF, "--debug", cwd=folder, code=code).stderr


@pytest.mark.skipif(os.name == "nt", reason="signals differ on this system")
@pytest.mark.parametrize(
    ("name", "code", "message"),
    [
        ("SIGINT", 130, "interrupted\n"),
        ("SIGTERM", 143, "interrupted by SIGTERM\n"),
        ("SIGHUP", 129, "interrupted by SIGHUP\n"),
    ],
)
@pytest.mark.parametrize("is_swallowed", [False, True])
def test_signals_interrupt(folder, call, monkeypatch, name, code, message, is_swallowed):
    before = signal.signal(signal.Signals[name], lambda *_: pytest.fail("not handled"))

    def receive(*_, **__):
        try:
            os.kill(os.getpid(), signal.Signals[name])
            time.sleep(10)
        except KeyboardInterrupt:
            if is_swallowed:  # as polars does with exceptions of files that it writes to
                raise RuntimeError("of native code") from None
            raise

    monkeypatch.setattr(config_run, "run", receive)
    try:
        assert call(*BRIEF, "--out", "results", cwd=folder, code=code).stderr == message
        signal.signal(signal.Signals[name], signal.SIG_IGN)  # as under nohup
        monkeypatch.setattr(time, "sleep", lambda seconds: None)
        monkeypatch.setattr(config_run, "run", lambda *_, **__: receive() or 1 / 0)
        assert call(*BRIEF, cwd=folder, code=3).stderr.startswith("error: ZeroDivisionError")
    finally:
        signal.signal(signal.Signals[name], before)
    assert not (folder / "results").exists()


def test_checkpoints_of_commands(folder, call, monkeypatch):
    """A file for one model, one for each of several, relative to the YAML file."""
    seen = []
    monkeypatch.setattr(config_run, "results", spy_on_checkpoints(seen, config_run.results))
    one = ["evaluate", "--recs", "good.csv", "--truth", "test.csv", "-m", "nDCG@2"]
    call(*one, "--checkpoint", "run.state", cwd=folder)
    (folder / "inner").mkdir()
    (folder / "inner" / "run.yaml").write_text(
        "models: {good: ../good.csv, a b: ../poor.csv}\ndata: {truth: ../test.csv}\n"
        "evaluation: {metrics: nDCG@2, checkpoint: run.state}\n"
    )
    call("evaluate", "inner/run.yaml", cwd=folder)
    call("evaluate", "inner/run.yaml", "--checkpoint", "x", cwd=folder)
    several = ("run.state.good", "run.state.a_b")
    assert seen[0] == Path("run.state")
    assert [path.name for path in seen[1:3]] == list(several)
    assert all(path.parent == Path("inner") for path in seen[1:3])
    assert seen[3:] == [Path("x.good"), Path("x.a_b")]
    refused = call(*BRIEF, "--checkpoint", "test.csv/x", cwd=folder, code=2)
    assert "give --checkpoint in a writable folder" in refused.stderr


def spy_on_checkpoints(seen, results):
    def spied(configuration, *arguments, evaluate, **keywords):
        def record(*inputs, **settings):
            seen.append(settings["checkpoint"])
            return evaluate(*inputs, **settings)

        return results(configuration, *arguments, evaluate=record, **keywords)

    return spied


@pytest.mark.slow
def test_processes_have_the_same_streams_and_exit_codes(folder):
    done = run_process(*BRIEF, "-f", "csv", "--gate", "nDCG@2 > 2", cwd=folder, check=False)
    assert (
        done.returncode == 1
        and done.stdout.startswith("model,metric")
        and "gate FAILED" in done.stderr
    )
    done = run_process(*BRIEF, "--ties", "x", cwd=folder, check=False)
    assert (
        done.returncode == 2
        and done.stdout == ""
        and done.stderr.startswith("error: ")
        and "Traceback" not in done.stderr
    )


@pytest.mark.slow
def test_closed_pipes_are_silent(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "weft", "metrics"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.close()  # before anything is printed, as by `| true`
    with process.stderr:
        assert process.stderr.read() == b""
    assert process.wait() == 141


@pytest.mark.slow
@pytest.mark.skipif(
    not hasattr(signal, "SIGINT") or os.name == "nt", reason="signals differ on this system"
)
def test_ctrl_c_is_one_line(tmp_path):
    (tmp_path / "slow.py").write_text(
        "import signal, time, weft.cli, weft.metrics.registry\n"
        # The process that runs the tests may ignore the signal.
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "def wait(): print('ready', flush=True); time.sleep(60)\n"
        "weft.metrics.registry.all_metrics = wait\n"
        "import sys; sys.argv = ['weft', 'metrics']; weft.cli.main()\n"
    )
    process = subprocess.Popen(
        [sys.executable, "slow.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    printed = process.communicate(timeout=30)[1]
    assert printed == "interrupted\n" and process.returncode == 130


def watched(arguments, cwd):
    """Return the output of a process on a terminal, and its exit code."""
    pty = pytest.importorskip("pty")
    terminal, stderr = pty.openpty()
    process = subprocess.Popen(
        arguments,
        cwd=cwd,
        stdout=subprocess.DEVNULL,
        stderr=stderr,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(stderr)
    shown = b""
    try:
        while part := os.read(terminal, 4096):
            shown += part
    except OSError:  # the other end was closed
        pass
    return shown, process.wait()


@pytest.mark.slow
def test_shows_progress_on_a_terminal(folder):
    shown, code = watched([sys.executable, "-m", "weft", *BRIEF], folder)
    assert code == 0 and b"loading torch" in shown


@pytest.mark.slow
def test_shows_a_progress_bar_after_a_second(tmp_path):
    (tmp_path / "slow.py").write_text(
        "import time, torch, weft\n"
        "def model(users):\n"
        "    time.sleep(0.4)\n"
        "    return torch.rand(len(users), 50)\n"
        "weft.evaluate(model, {user: [1] for user in range(20)}, metrics='MRR@5', batch_size=4, "
        "progress=True)\n"
    )
    shown, code = watched([sys.executable, "slow.py"], tmp_path)
    assert code == 0 and b"evaluating users" in shown

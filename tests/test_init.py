"""`weft init`: the configuration that it writes runs as it is, or names what is missing."""

import json
import shlex

import pytest

import weft
from doc_commands import run_weft, write_data
from weft.config import load
from weft.config.draft import draft_configuration, quote
from weft.config.folder_files import find_folder_files
from weft.config.yaml_reader import read_yaml


def find_kinds(folder):
    return {file.path.name: file.kind for file in find_folder_files(folder)}


def init(folder, *words, code=0):
    done = run_weft(["init", str(folder), *words])
    assert done.code == code, done.output
    return done.output


def test_the_configuration_runs_as_it_is(tmp_path):
    write_data(tmp_path)
    (tmp_path / "users.csv").write_text(
        "user,plan,born\n" + "".join(f"u{n:02},{'ab'[n % 2]},{1900 + n}\n" for n in range(60))
    )
    output = init(tmp_path)
    assert f"Written: {tmp_path / 'weft.yaml'}" in output and "Missing" not in output
    configuration = load(tmp_path / "weft.yaml")
    assert list(configuration.models) == ["als", "knn", "pop"]
    assert configuration.data.truth.path.name == "test.csv"
    assert configuration.data.train.path.name == "train.csv"
    assert list(configuration.evaluation.slices) == ["plan"]  # born has many values
    done = run_weft(["evaluate", str(tmp_path / "weft.yaml")])
    assert done.code == 0 and "By plan" in done.output
    result = weft.load_result(tmp_path / "results" / "als.json")
    expected = weft.evaluate(
        tmp_path / "als.csv",
        tmp_path / "test.csv",
        train=tmp_path / "train.csv",
        metrics=["nDCG", "Recall", "MRR", "EPC", "ItemCoverage", "Gini"],
        top_k=10,
    )
    assert dict(result) == pytest.approx(dict(expected))
    compared = run_weft(
        ["compare", *(str(tmp_path / "results" / f"{name}.json") for name in ("als", "pop"))]
    )
    assert compared.code == 0 and "nDCG@10: als leads" in compared.output
    # Results that were written into the folder are no input of a second configuration.
    run_weft(["evaluate", str(tmp_path / "weft.yaml"), "--out", str(tmp_path), "--per-user"])
    kinds = find_kinds(tmp_path)
    assert set(kinds) == {
        *("als.csv", "knn.csv", "pop.csv", "test.csv", "train.csv", "catalogue.csv", "users.csv"),
        "rows.csv",
    }
    assert kinds["catalogue.csv"] == "items"
    assert kinds["rows.csv"] == "unknown"  # ids of users alone can mean many things


def test_nothing_is_overwritten_without_force(tmp_path):
    write_data(tmp_path)
    path = tmp_path / "weft.yaml"
    path.write_text("mine")
    assert "exists already; replace it with --force" in init(tmp_path, code=2)
    assert path.read_text() == "mine"
    init(tmp_path, "--force")
    assert "models:" in path.read_text()
    init(tmp_path, "--out", str(tmp_path / "other.yaml"))
    assert (tmp_path / "other.yaml").read_text() == path.read_text()
    assert "must be in" in init(tmp_path, "--out", str(tmp_path.parent / "x.yaml"), code=2)
    assert "there is no such folder" in init(tmp_path / "nowhere", code=2)


def test_missing_files_are_named(tmp_path):
    (tmp_path / "ratings.csv").write_text("user,item,rating,timestamp\na,x,1,3\na,y,2,4\nb,x,1,5\n")
    output = init(tmp_path)
    assert "Missing: test interactions" in output and "Missing: recommendation lists" in output
    (command,) = (line for line in output.splitlines() if "weft split" in line)
    words = shlex.split(command.partition(": ")[2].partition(": weft ")[2])
    words = [str(tmp_path / word) if word in ("ratings.csv", "parts") else word for word in words]
    assert run_weft(words).code == 0  # the command that it suggests
    text = (tmp_path / "weft.yaml").read_text()
    assert text.count("# MISSING: ") == 3
    read_yaml(tmp_path / "weft.yaml")  # it is YAML all the same
    (tmp_path / "parts" / "popular.csv").write_text("user,item,score\na,y,2\na,x,1\n")
    assert "Missing" not in init(tmp_path / "parts")
    assert run_weft(["evaluate", str(tmp_path / "parts" / "weft.yaml")]).code == 0


FOLDERS = {
    "trec": (
        {
            "qrels.txt": "q1 0 d1 1\nq2 0 d2 1\n",
            "bm25.run": "q1 Q0 d1 1 2.0 bm25\nq2 Q0 d1 1 2.0 bm25\n",
        },
        {"qrels.txt": "truth", "bm25.run": "lists"},
    ),
    "no header": (
        {
            "test.tsv": "1\t2\t5\n2\t3\t4\n",
            "train.tsv": "1\t9\t5\n2\t8\t4\n",
            "knn.tsv": "1\t2\t0.5\n2\t7\t0.4\n",
        },
        {"test.tsv": "truth", "train.tsv": "train", "knn.tsv": "lists"},
    ),
    "recbole": (
        {
            "ml.test.inter": "user_id:token\titem_id:token\trating:float\n1\t2\t5\n",
            "ml.train.inter": "user_id:token\titem_id:token\trating:float\n1\t3\t5\n",
            "bpr.csv": "user_id,item_id,prediction\n1,2,0.3\n",
        },
        {"ml.test.inter": "truth", "ml.train.inter": "train", "bpr.csv": "lists"},
    ),
    "ratings as scores": (
        {
            "ground_truth.csv": "user,item\na,x\n",
            "als.csv": "user,item,rating\na,x,0.3\n",
            "clicks.csv": "user,item,timestamp\na,x,3\n",
            "session.csv": "user,item,rating,timestamp\na,x,5,3\n",
            "valid.csv": "user,item\na,y\n",
        },
        {
            "ground_truth.csv": "truth",
            "als.csv": "lists",
            "clicks.csv": "interactions",
            "session.csv": "interactions",
            "valid.csv": "validation",
        },
    ),
    "unreadable": (
        {
            "test.csv": "user,item\na,x\n",
            "als.csv": "user,item,score\na,x,0.3\n",
            "odd.csv": "who,what\nq,x\n",
            "empty.csv": "",
        },
        {"test.csv": "truth", "als.csv": "lists", "odd.csv": "unknown", "empty.csv": "unknown"},
    ),
    "names": (
        {
            "test.csv": "user,item\na,x\n",
            "no.csv": "user,item,score\na,x,0.3\n",
            "1e3.csv": "user,item,score\na,x,0.3\n",
            "a: b #c.csv": "user,item,score\na,x,0.3\n",
            "no.tsv": "user\titem\tscore\na\tx\t0.3\n",
            "people.csv": 'user,"the: #plan"\na,free\nb,paid\n',
        },
        {
            "test.csv": "truth",
            "no.csv": "lists",
            "1e3.csv": "lists",
            "a: b #c.csv": "lists",
            "no.tsv": "lists",
            "people.csv": "users",
        },
    ),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_files_of_other_kinds(tmp_path, name):
    files, kinds = FOLDERS[name]
    for file, text in files.items():
        (tmp_path / file).write_text(text)
    assert find_kinds(tmp_path) == kinds
    assert "Missing" not in init(tmp_path)
    models = load(tmp_path / "weft.yaml").models.values()
    assert {file.path.name for file in models} == {
        file for file, kind in kinds.items() if kind == "lists"
    }
    done = run_weft(["evaluate", str(tmp_path / "weft.yaml"), "--format", "json"])
    assert done.code == 0, done.output
    text = (tmp_path / "weft.yaml").read_text()
    for file, kind in kinds.items():
        assert (f"#   {quote(file)}: " in text) == (
            kind in ("unknown", "interactions", "validation")
        )


def test_one_of_several_test_files_is_chosen(tmp_path):
    for file in ("test-small.csv", "test.csv", "train_1.csv", "train_2.csv"):
        (tmp_path / file).write_text("user,item\na,x\n")
    text = draft_configuration(tmp_path).text
    assert "\n  truth: test.csv " in text and "\n  train: train_1.csv " in text
    assert "#   test-small.csv: another file of test interactions" in text
    assert "#   train_2.csv: another file of train interactions" in text


@pytest.mark.parametrize(
    "text", ["als", "no", "Null", "12", "1e3", "a b", "é", "x: y", "-", "a\nb"]
)
def test_quoted_texts_are_read_as_they_are(tmp_path, text):
    (tmp_path / "a.yaml").write_text(f"{quote(text)}: {quote(text)}\n")
    assert json.dumps(dict(read_yaml(tmp_path / "a.yaml").values)) == json.dumps({text: text})


def test_reasons_are_about_the_configuration(tmp_path):
    """The advice about a file that cannot be used has the spelling of the keys to write."""
    (tmp_path / "other.csv").write_text("who,price\n1,2\n")
    (missing,) = (line for line in draft_configuration(tmp_path).missing if "other.csv" in line)
    assert "columns: {user: NAME}" in missing and "columns={" not in missing

"""Manifests of splits in `weft check`, in results and in the report."""

import json

import pytest

import weft
from test_splits import write_ratings
from weft.evaluation.splitting.manifest import MANIFEST_NAME
from weft.report import text
from weft.report.context import ReportContext

KINDS = {
    *("split-manifest", "changed-since-split", "wrong-part", "parts-of-two-splits"),
    *("leak-in-split", "unreadable-manifest"),
}


@pytest.fixture
def parts(tmp_path):
    """Return the folder of a split at one point in time, and lists for its test users."""
    split = weft.split(write_ratings(tmp_path / "r.csv"), "timeline", validation_share=0.1)
    split.save(tmp_path / "parts")
    lists = {user: ["i0", "i1", "i2"] for user in split.test["user"].unique()}
    return tmp_path / "parts", lists


def find_kinds(lists, truth, train):
    checked = weft.check(lists, truth, train=train, metrics="Recall", top_k=2)
    return {one.kind: one for one in checked.findings if one.kind in KINDS}


def test_parts_that_are_as_the_manifest_says(parts):
    folder, lists = parts
    found = find_kinds(lists, folder / "test.csv", folder / "train.csv")
    assert list(found) == ["split-manifest"]
    assert found["split-manifest"].severity == "note"
    assert "split by timeline (test_share=0.2, validation_share=0.1, seed=0)" in str(
        found["split-manifest"].message
    )
    assert list(find_kinds(lists, folder / "validation.csv", folder / "train.csv")) == [
        "split-manifest"
    ]
    copy = folder.parent / "test.csv"  # has no manifest beside it
    copy.write_bytes((folder / "test.csv").read_bytes())
    assert not find_kinds(lists, copy, None)


def test_changed_and_swapped_files(parts):
    folder, lists = parts
    found = find_kinds(lists, folder / "train.csv", folder / "test.csv")
    assert list(found) == ["wrong-part"]
    with (folder / "train.csv").open("a") as file:
        file.write("u1,i99,1,5\n")
    found = find_kinds(lists, folder / "test.csv", folder / "train.csv")
    assert list(found) == ["changed-since-split"]
    assert (found["changed-since-split"].where, found["changed-since-split"].severity) == (
        "train",
        "warning",
    )


def test_manifests_that_are_wrong(parts):
    folder, lists = parts
    path = folder / MANIFEST_NAME
    content = json.loads(path.read_text())
    for entry in content["files"]:
        if entry["part"] == "train":
            entry["last"] = 10**9
    path.write_text(json.dumps(content))
    found = find_kinds(lists, folder / "test.csv", folder / "train.csv")
    assert list(found) == ["leak-in-split"]
    path.write_text("{")
    found = find_kinds(lists, folder / "test.csv", folder / "train.csv")
    assert list(found) == ["unreadable-manifest"]
    result = weft.evaluate(lists, folder / "test.csv", metrics="Recall", top_k=2)
    assert "cannot be read" in result.provenance["split"]


def test_parts_of_different_folds(tmp_path):
    split = weft.split(write_ratings(tmp_path / "r.csv"), "folds", folds=2)
    split.save(tmp_path / "folds")
    lists = {user: ["i0", "i1", "i2"] for user in split.folds[0].test["user"].unique()}
    one, two = (tmp_path / "folds" / f"fold-{number}-train.csv" for number in (1, 2))
    truth = tmp_path / "folds" / "fold-1-test.csv"
    assert list(find_kinds(lists, truth, one)) == ["split-manifest"]
    assert list(find_kinds(lists, truth, two)) == ["parts-of-two-splits"]


def test_later_rows_in_train_are_a_note_if_the_split_is_random(tmp_path):
    split = weft.split(write_ratings(tmp_path / "r.csv"), "random")
    split.save(tmp_path / "parts")
    truth, train = tmp_path / "parts" / "test.csv", tmp_path / "parts" / "train.csv"
    lists = {user: ["i0", "i1", "i2"] for user in split.test["user"].unique()}

    def severity():
        checked = weft.check(lists, truth, train=train, metrics="Recall", top_k=2)
        return next(one.severity for one in checked.findings if one.kind == "train-after-truth")

    assert severity() == "note"
    (tmp_path / "parts" / MANIFEST_NAME).unlink()
    assert severity() == "warning"


def test_results_and_reports_name_the_split(parts, tmp_path):
    folder, lists = parts
    result = weft.evaluate(
        lists, folder / "test.csv", train=folder / "train.csv", metrics="Recall", top_k=2
    )
    expected = (
        "timeline (test_share=0.2, validation_share=0.1, seed=0); truth is test, train is train"
    )
    assert result.provenance["split"] == expected
    result.save(tmp_path / "result.json")
    context = ReportContext.from_result(weft.load_result(tmp_path / "result.json"))
    assert ("data", f"split by {expected}") in text.facts(context)
    assert "split" not in dict(text.provenance(context))
    with (folder / "test.csv").open("a") as file:
        file.write("u1,i99,1,5\n")
    changed = weft.evaluate(lists, folder / "test.csv", metrics="Recall", top_k=2)
    assert changed.provenance["split"].endswith("; truth is test, changed since")
    plain = weft.evaluate(lists, {"u1": ["i0"]}, extra_users="count", metrics="Recall", top_k=2)
    assert "split" not in plain.provenance


def test_the_page_shows_the_split(parts):
    pytest.importorskip("altair")
    folder, lists = parts
    result = weft.evaluate(lists, folder / "test.csv", metrics="Recall", top_k=2, name="popular")
    result.to_html(folder / "report.html")
    page = (folder / "report.html").read_text().replace("<wbr>", "")  # where a line may break
    assert "split by timeline (test_share=0.2" in page

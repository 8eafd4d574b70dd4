"""The Result: lookup, frames, files, display, counts, notes and provenance."""

import dataclasses
import importlib.metadata
import json
import math
import os
import platform
import re
import sys
from collections.abc import Mapping

import numpy as np
import pandas
import polars as pl
import pytest
import scipy.sparse as sp
import torch

import weft
from metric_cases import by_position
from weft.errors import InputError, MissingExtra
from weft.evaluation.metric_value import MetricValue
from weft.evaluation.result import Result

GENERATOR = torch.Generator().manual_seed(2)
USERS, ITEMS = 9, 8
SCORES = torch.rand(USERS, ITEMS, generator=GENERATOR)
TRUTH = {user: {user % ITEMS: 3.0, (user + 3) % ITEMS: 1.0} for user in range(USERS)}
METRICS = [
    "nDCG",
    "nDCG(gain=linear)",
    "F1(metric_name_1=nDCG, beta=0.5)",
    "AUC",
    "AUC(scope=pooled)",
    "GAUC",
]


def evaluate(truth=None, scores=SCORES, **settings):
    return weft.evaluate(
        scores,
        TRUTH if truth is None else truth,
        **{"metrics": METRICS, "top_k": [2, 5], **by_position(scores), **settings},
    )


@pytest.fixture(scope="module")
def result():
    return evaluate(per_user=True, name="mine")


@pytest.fixture(scope="module")
def undefined():
    """No user has a negative: LAUC is NaN for all; one user: no standard error."""
    return evaluate(
        {0: dict.fromkeys(range(ITEMS), 1.0)}, metrics=["LAUC", "MRR"], top_k=3, per_user=True
    )


# --------------------------------------------------------------------------------------------------


def test_finds_values_by_any_spelling(result):
    for name in ("nDCG@2", "ndcg@2", "NDCG( gain = Exponential )@2", "nDCG(ideal=cut)@2"):
        assert result[name] == result["nDCG@2"] and isinstance(result[name], float)
    assert result["f1(metric_1=NDCG, Beta=0.5)@5"] == result["F1(metric_name_1=nDCG, beta=0.5)@5"]
    assert (
        result["f1(beta=.5, metric_name_1='nDCG')@5"]
        == result["F1(metric_name_1=nDCG, beta=0.5)@5"]
    )
    assert result["auc(scope=positives)"] == result["AUC"] != result["AUC(SCOPE=pooled)"]
    assert result["nDCG(gain=linear)@2"] != result["nDCG@2"]
    assert result.entry("ndcg@2").users == USERS


def test_iterates_and_contains_names(result):
    names = [f"{name}@{k}" for name in METRICS[:3] for k in (2, 5)] + METRICS[3:]
    assert list(result) == names and len(result) == len(names)
    for name in (
        "nDCG@3",
        "nDCG",
        "MAP@2",
        "Nonsense@2",
        "AUC@2",
        "nDCG(gain=binary)@2",
        "(",
        "",
        2,
        None,
        ("nDCG", 2),
    ):
        assert name not in result
    assert "ndcg@2" in result


@pytest.mark.parametrize(
    ("name", "says"),
    [
        (
            "nDCG@3",
            "'nDCG@3' was not evaluated. Did you mean 'nDCG@[25]'.*This result has: nDCG@2, nDCG@5",
        ),
        ("nDCG", "'nDCG' was not evaluated. Did you mean 'nDCG@"),
        ("MAP@2", "'MAP@2' was not evaluated.*This result has"),
        ("nDGC@2", "'nDGC@2' was not evaluated. Did you mean 'nDCG@2'"),
        ("AUC@2", "'AUC@2' was not evaluated. Did you mean 'AUC'"),
        (2, "2 was not evaluated.*This result has"),
        (("nDCG", 2), "was not evaluated.*This result has"),
    ],
)
def test_missing_values_raise_a_helpful_key_error(result, name, says):
    with pytest.raises(KeyError, match=says):
        result[name]


def test_results_are_mappings(result, undefined):
    names = [value.name for value in result.entries]
    values = [value.value for value in result.entries]
    assert isinstance(result, Mapping) and [*result] == [*result.keys()] == names
    assert [*result.values()] == values and dict(result) == dict(zip(names, values))
    assert all(type(value) is float for value in dict(result).values())
    assert [*result.items()] == [*zip(names, values)] and {**result} == dict(result)
    assert result.get("ndcg@2") == result["nDCG@2"] and result.get("MAP@2") is None
    assert result.get("MAP@2", 0.5) == 0.5 and result.get("no (name", 1) == 1
    assert "nDCG@2" in result and "MAP@2" not in result and "no (name" not in result
    name = next(name for name, value in undefined.items() if math.isnan(value))
    assert name in undefined and math.isnan(undefined.get(name, 0))


def test_equality_is_that_of_names_and_values(result, undefined):
    assert result == dict(result) and dict(result) == result
    assert result == dataclasses.replace(result, name="other", counts={})
    less = dataclasses.replace(result, entries=result.entries[1:])
    assert result != less and less != result and result != 1 and result != undefined
    first = dataclasses.replace(result.entries[0], value=0.123)
    assert result != dataclasses.replace(result, entries=(first, *result.entries[1:]))
    assert any(map(math.isnan, undefined.values()))
    assert undefined == dataclasses.replace(
        undefined, entries=tuple(dataclasses.replace(value) for value in undefined.entries)
    )
    assert undefined != dict.fromkeys(undefined, 0.0)
    with pytest.raises(TypeError, match="unhashable"):
        hash(result)


def test_values_are_equal_if_their_undefined_numbers_are():
    def create(nan, number=0.5):
        powers = ((0.0, nan), (1.0, number))
        return MetricValue("nDCG", 5, nan, parts=(nan, number), by_power=powers, floor=nan)

    one, other = create(math.nan), create(float("nan"))
    assert one == other and hash(one) == hash(other) and (one,) == (other,)
    for different in (create(0.25), create(math.nan, 0.25), dataclasses.replace(one, floor=0.0)):
        assert one != different and different != one
    assert one != "nDCG" and one != dataclasses.asdict(one)


def test_results_are_frozen(result):
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.name = "other"
    with pytest.raises(dataclasses.FrozenInstanceError):
        result.entries[0].value = 1.0


# --------------------------------------------------------------------------------------------------


def test_to_frame(result):
    frame = result.to_frame()
    assert frame["model"].unique().to_list() == ["mine"]
    assert frame.schema == {
        "model": pl.String,
        "metric": pl.String,
        "k": pl.Int64,
        "value": pl.Float64,
        "std_error": pl.Float64,
        "ci_low": pl.Float64,
        "ci_high": pl.Float64,
        "users": pl.Int64,
    }
    assert frame["metric"].to_list() == [name.split("@")[0] for name in result]
    assert frame["k"].to_list() == [2, 5, 2, 5, 2, 5, None, None, None]
    for row in frame.iter_rows(named=True):
        name = row["metric"] if row["k"] is None else f"{row['metric']}@{row['k']}"
        assert row["value"] == result[name]
        if row["metric"].startswith("AUC"):
            assert (
                math.isnan(row["std_error"])
                and math.isnan(row["ci_low"])
                and math.isnan(row["ci_high"])
            )
        else:
            values = result.per_user[name]
            assert row["std_error"] == pytest.approx(values.std() / math.sqrt(USERS), rel=1e-9)
            assert row["ci_low"] == pytest.approx(
                row["value"] - 1.959964 * row["std_error"], abs=1e-15
            )
            assert row["ci_high"] == pytest.approx(
                row["value"] + 1.959964 * row["std_error"], abs=1e-15
            )
        assert row["users"] == USERS


def test_to_pandas_needs_no_pyarrow(result, undefined, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    frame = result.to_pandas()
    rows = [dict(zip(frame.columns, row)) for row in frame.itertuples(index=False)]
    for row, expected in zip(rows, result.to_frame().iter_rows(named=True), strict=True):
        for name, value in expected.items():
            is_missing = value is None or value != value
            assert pandas.isna(row[name]) if is_missing else row[name] == value
    assert str(frame["k"].dtype) == str(frame["users"].dtype) == "Int64"
    assert frame["value"].dtype == "float64" and list(undefined.to_pandas().columns) == [
        *result.to_frame().columns
    ]
    other = evaluate(scores=-SCORES, per_user=True, name="other")
    compared = weft.compare([result, other])
    frame = compared.to_pandas()
    assert list(frame.columns) == compared.to_frame().columns
    assert frame["p_value"].to_list() == compared.to_frame()["p_value"].to_list()
    assert str(frame["significant"].dtype) == "boolean"


def test_to_pandas_without_pandas(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(MissingExtra, match="pip install pandas"):
        result.to_pandas()


def test_undefined_values_are_nan_in_the_frame(undefined):
    frame = undefined.to_frame()
    assert frame["value"].is_nan().to_list() == [True, False] and frame["users"].to_list() == [0, 1]
    assert frame["std_error"].is_nan().all() and frame["value"].null_count() == 0


def test_empty_results_have_the_same_schema(result):
    assert Result(()).to_frame().schema == result.to_frame().schema


# --------------------------------------------------------------------------------------------------


def equal(one, other):
    assert repr(one.entries) == repr(other.entries)  # NaN equals NaN here, and every digit counts
    assert (one.name, dict(one.counts), one.notes) == (other.name, dict(other.counts), other.notes)
    assert dict(one.settings) == dict(other.settings) and dict(one.provenance) == dict(
        other.provenance
    )
    assert (one.per_user is None) == (other.per_user is None)
    assert one.per_user is None or (
        one.per_user.equals(other.per_user) and one.per_user.schema == other.per_user.schema
    )


@pytest.mark.parametrize("which", ["result", "undefined", "plain", "named users"])
def test_saves_and_loads(which, request, tmp_path):
    made = {
        "plain": lambda: evaluate(name="Zoë <3"),
        "named users": lambda: evaluate(
            {"b": {0: 1}, "zz": {1: 1}}, scores=SCORES[:2], users=["a", "b"], per_user=True
        ),
    }
    saved = made[which]() if which in made else request.getfixturevalue(which)
    path = saved.save(tmp_path / "deep" / "a.json")
    assert path == tmp_path / "deep" / "a.json"
    equal(weft.load_result(str(path)), saved)
    names = sorted(entry.name for entry in path.parent.iterdir())
    assert (
        names == ["a.json"]
        if saved.per_user is None
        else len(names) == 2 and {name.rsplit(".", 1)[1] for name in names} == {"json", "parquet"}
    )
    document = json.loads(
        path.read_text(encoding="utf-8"),
        parse_constant=lambda word: pytest.fail(f"{word} is not JSON"),
    )
    assert document["format"] == "weft-result"
    assert path.stat().st_mode & 0o777 == 0o666 & ~current_umask()


def current_umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_saving_replaces_older_files(tmp_path, result):
    path = tmp_path / "a.json"
    result.save(path)
    other = evaluate(metrics="MRR@2")
    other.save(path)
    equal(weft.load_result(path), other)
    result.save(path)
    equal(weft.load_result(path), result)


def test_results_in_one_folder_keep_their_own_tables(tmp_path):
    names = ["als.v1", "als.v2", "als", "als.json"]
    made = {
        name: evaluate(metrics="MRR@2", per_user=True, seed=number, truth={0: {number: 1}})
        for number, name in enumerate(names)
    }
    for name, one in made.items():
        one.save(tmp_path / name)
    for name, one in made.items():
        equal(weft.load_result(tmp_path / name), one)


def test_saves_numpy_settings(tmp_path):
    given = {
        "seed": np.int64(3),
        "relevance_threshold": np.float32(0.5),
        "name": np.str_("n"),
        "top_k": np.array([2]),
    }
    saved = evaluate(metrics=["MRR"], **given)
    assert weft.load_result(saved.save(tmp_path / "a.json"))["MRR@2"] == saved["MRR@2"]


def test_loads_values_of_unregistered_metrics(tmp_path):
    values = (
        MetricValue("FromAfar(alpha=0.5)", 10, 0.25, 0.01, 7, True),
        MetricValue("Far", None, 1.0),
    )
    loaded = weft.load_result(Result(values).save(tmp_path / "a.json"))
    assert (
        loaded["FromAfar(alpha=0.5)@10"]
        == loaded["fromafar(Alpha=0.5)@10"]
        == loaded["FromAfar( alpha = 0.5 )@10"]
        == 0.25
    )
    assert loaded["far"] == 1.0 and "Far" in loaded and "Near" not in loaded
    with pytest.raises(KeyError, match=r"'FromAfar@10' was not evaluated.*This result has"):
        loaded["FromAfar@10"]


def test_reads_the_estimator_of_older_files(tmp_path, result):
    path = result.save(tmp_path / "a.json")
    document = json.loads(path.read_text())
    document["settings"]["correction"] = "rank_estimate"
    path.write_text(json.dumps(document))
    settings = weft.load_result(path).settings
    assert settings == {**result.settings, "estimator": "rank_estimate"}


def test_notes_a_missing_table(tmp_path, result):
    path = result.save(tmp_path / "a.json")
    next(tmp_path.glob("*.parquet")).unlink()
    loaded = weft.load_result(path)
    assert loaded.per_user is None and any(
        "not in the folder of a.json" in note for note in loaded.notes
    )


def test_reads_the_tables_of_names_with_pattern_characters(tmp_path):
    two_results(tmp_path)
    for name in ("[ab]", "?", "*"):
        made = evaluate(metrics="MRR@2", per_user=True, truth={0: {0: 1}, 1: {2: 1}})
        loaded = weft.load_result(made.save(tmp_path / f"{name}.json"))
        assert loaded.per_user.equals(made.per_user)


def two_results(folder):
    """Save two results with values per user and labels as a.json and b.json."""
    for name, metric in {"a": "MRR@2", "b": "nDCG@2"}.items():
        made = evaluate(
            metrics=metric,
            per_user=True,
            truth={0: {0: 1}, 1: {2: 1}},
            slices={"kind": {0: name, 1: name}},
        )
        made.save(folder / f"{name}.json")


@pytest.mark.parametrize("table", ["per_user", "user_labels"])
def test_rejects_tables_of_another_result(tmp_path, table):
    two_results(tmp_path)
    one, other = (tmp_path / f"{name}.{table}.parquet" for name in "ab")
    original = one.read_bytes()
    other.rename(one)
    message = rf"a\.{table}\.parquet: this is not the Parquet table that was saved with a\.json"
    with pytest.raises(InputError, match=message):
        weft.load_result(tmp_path / "a.json")
    one.write_bytes(original)
    assert weft.load_result(tmp_path / "a.json").per_user is not None


def test_rejects_a_result_under_the_name_of_another(tmp_path):
    two_results(tmp_path)
    (tmp_path / "a.json").write_text(
        (tmp_path / "b.json").read_text().replace("b.per_user", "a.per_user")
    )
    with pytest.raises(InputError, match=r"a\.per_user\.parquet: this is not the Parquet table"):
        weft.load_result(tmp_path / "a.json")


def test_reads_results_without_digests(tmp_path):
    two_results(tmp_path)
    document = json.loads((tmp_path / "a.json").read_text())
    assert set(document.pop("digests")) == {"per_user", "user_labels"}
    (tmp_path / "a.json").write_text(json.dumps(document))
    assert weft.load_result(tmp_path / "a.json").per_user.height == 2


def leftovers(folder):
    return sorted(entry.name for entry in folder.iterdir())


def test_rejects_a_file_as_folder(tmp_path, result):
    (tmp_path / "file").write_text("x")
    with pytest.raises(InputError, match=r"file/a\..*: cannot be written"):
        result.save(tmp_path / "file" / "a.json")
    assert leftovers(tmp_path) == ["file"]


def test_rejects_a_folder_as_file(tmp_path, result):
    (tmp_path / "a.json").mkdir()
    with pytest.raises(InputError, match=r"a.json: cannot be written"):
        result.save(tmp_path / "a.json")
    assert leftovers(tmp_path) == ["a.json"] and leftovers(tmp_path / "a.json") == []


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="root may write anywhere")
def test_rejects_folders_without_permission(tmp_path, result):
    tmp_path.chmod(0o500)
    with pytest.raises(InputError, match="cannot be written"):
        result.save(tmp_path / "a.json")
    tmp_path.chmod(0o700)
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    "error",
    [OSError(28, "No space left on device"), KeyboardInterrupt()],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("fails", ["os.replace", "polars.DataFrame.write_parquet", "os.chmod"])
def test_failed_saving_keeps_older_files(tmp_path, result, monkeypatch, error, fails):
    path = evaluate(metrics="MRR@2", per_user=True).save(tmp_path / "a.json")
    before = {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()}

    def fail(*args, **kwargs):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(fails, fail)
        with pytest.raises(InputError if isinstance(error, OSError) else KeyboardInterrupt):
            result.save(path)
    assert {entry.name: entry.read_bytes() for entry in tmp_path.iterdir()} == before


def test_writes_all_files_or_none(tmp_path, result, monkeypatch):
    old = evaluate(metrics="MRR@2", per_user=True)
    path = old.save(tmp_path / "a.json")
    calls, replace = [], os.replace

    def fail_the_second_time(*args, **kwargs):
        calls.append(args)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        return replace(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", fail_the_second_time)
        with pytest.raises(InputError):
            result.save(path)
    equal(weft.load_result(path), old)


GOOD = {
    "format": "weft-result",
    "version": 1,
    "name": "n",
    "values": [],
    "counts": {},
    "notes": [],
    "settings": {},
    "provenance": {},
    "per_user": None,
}
BROKEN = {
    "empty": (b"", "JSON"),
    "not JSON": (b"{", "not a JSON file"),
    "not text": (b"\xff\xfe\x00", "not a JSON file"),
    "another JSON": (b'{"a": 1}', "not a Weft result"),
    "a list": (b"[1, 2]", "not a Weft result"),
    "a word": (b'"weft-result"', "not a Weft result"),
    "newer": (
        json.dumps(GOOD | {"version": 2, "provenance": {"weft": "9.9"}}).encode(),
        "version 2.*reads version 1.*9.9",
    ),
    "newer and odd": (
        json.dumps(GOOD | {"version": 2, "provenance": None}).encode(),
        "version 2.*reads version 1",
    ),
    "no version": (json.dumps({"format": "weft-result"}).encode(), "version"),
    "truncated": (
        json.dumps({"format": "weft-result", "version": 1}).encode(),
        "values|name|notes|incomplete",
    ),
    "values that are none": (json.dumps(GOOD | {"values": [{"metric": "a"}]}).encode(), "values?"),
    "values of words": (json.dumps(GOOD | {"values": "abc"}).encode(), "values?"),
    "a value of text": (
        json.dumps(
            GOOD
            | {
                "values": [
                    {
                        "metric": "a",
                        "k": 1,
                        "value": "x",
                        "std_error": 0,
                        "users": 1,
                        "higher_is_better": True,
                    }
                ]
            }
        ).encode(),
        "values?",
    ),
    "a table elsewhere": (
        json.dumps(GOOD | {"per_user": "../secret.parquet"}).encode(),
        "per_user|secret",
    ),
    "digests of another type": (json.dumps(GOOD | {"digests": 5}).encode(), "digests is 5"),
    "a table of another type": (json.dumps(GOOD | {"per_user": 5}).encode(), "per_user"),
}


@pytest.mark.parametrize(("content", "says"), BROKEN.values(), ids=BROKEN)
def test_rejects_files_that_are_no_results(tmp_path, content, says):
    path = tmp_path / "odd.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"(?s)odd.json.*({says})"):
        weft.load_result(path)


def test_loads_a_minimal_file(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(GOOD))
    assert len(weft.load_result(tmp_path / "a.json")) == 0


def test_rejects_missing_files_folders_and_broken_tables(tmp_path, result):
    with pytest.raises(InputError, match=r"none.json: there is no such file"):
        weft.load_result(tmp_path / "none.json")
    with pytest.raises(InputError, match="cannot be read"):
        weft.load_result(tmp_path)
    path = result.save(tmp_path / "a.json")
    table = next(tmp_path.glob("*.parquet"))
    table.write_bytes(table.read_bytes()[:100])
    with pytest.raises(InputError, match=f"{table.name}.*(Parquet|parquet)"):
        weft.load_result(path)


# --------------------------------------------------------------------------------------------------


def test_repr_shows_values_and_notes(result, undefined):
    text = repr(result)
    assert text.splitlines()[0] == "mine: 9 evaluated users, 8 items"
    low, high = result.entry("nDCG@2").ci_low, result.entry("nDCG@2").ci_high
    line = next(line for line in text.splitlines() if line.startswith("nDCG "))
    assert line.split() == [
        "nDCG",
        "2",
        f"{result['nDCG@2']:.4f}",
        f"{low:.4f}",
        "to",
        f"{high:.4f}",
        "9",
    ]
    rows = [line for line in text.splitlines()[2:] if not line.startswith("- ")]
    assert len({len(line.rstrip()) for line in rows if "AUC" not in line}) == 1
    assert "nan" in repr(undefined).lower() and "- " + undefined.notes[0] in repr(undefined)


@pytest.mark.parametrize("name", ["<script>alert(1)</script>", 'a"b&c'])
def test_html_is_escaped(name):
    odd = Result(
        (MetricValue("<script>m</script>", 1, 0.5, 0.1, 1234),), name, notes=("<script>n</script>",)
    )
    shown = odd._repr_html_()
    assert (
        "<script>" not in shown
        and "&lt;script&gt;m&lt;/script&gt;@1" in shown
        and "&lt;script&gt;n" in shown
    )
    assert (
        "0.5000" in shown
        and "0.3040 to 0.6960" in shown
        and name not in shown.replace("&amp;", "&")
    )


def test_html_shows_the_values_of_the_text(result, undefined):
    for shown in (result, undefined):
        html = shown._repr_html_()
        assert html.count("<tr>") == len(shown) + 1
        assert all(f"{value.value:.4f}" in html for value in shown.entries)
        assert all(note in html for note in shown.notes)
        assert ("0 users" in html) == ("0 users" in repr(shown))
    assert (
        "<td>0</td>" in undefined._repr_html_()
    )  # LAUC is over no user, which is not the same as unknown


def test_default_names_of_models():
    assert evaluate(metrics="MRR@2").name == "score matrix"
    assert evaluate(metrics="MRR@2", scores=lambda users: SCORES).name == "model"
    assert evaluate(metrics="MRR@2", name="ALS").name == "ALS"


# -------------------------------------------------------------------------------------------- notes


FLAT = torch.zeros(3, 4)
STEPS = torch.arange(4.0, 0, -1).expand(3, 4)
SOME = {0: [0], 1: [1], 2: [2]}
SUSPICIOUS = {
    "short lists": (
        {"top_k": [3, 9]},
        "short_lists@9",
        3,
        "3 users have fewer than 9 recommended items",
    ),
    "ties": (
        {"scores": FLAT},
        "ties@2",
        3,
        "3 users have equal scores at positions 2 and 3.*the tie rule 'index'",
    ),
    "ties at one cut-off": (
        {"scores": torch.tensor([[3.0, 2.0, 2.0, 1.0]]).expand(3, 4), "top_k": [2, 3]},
        "ties@2",
        3,
        "positions 2 and 3",
    ),
    "missing users": (
        {"truth": {"a": [0], "x": [0], "y": [1]}, "users": ["a", "b", "c"]},
        "missing_users",
        2,
        "2 users of the truth have no scores",
    ),
    "users without truth": (
        {"truth": {0: [0]}},
        "users_without_truth",
        2,
        "2 of 3 users are not in the truth",
    ),
    "users without relevant items": (
        {"truth": {0: [0], 1: [], 2: []}},
        "users_without_relevant",
        2,
        "2 of 3 users have no relevant",
    ),
    "below the threshold": (
        {"truth": {0: {0: 5}, 1: {0: 1}, 2: {0: 1}}, "relevance_threshold": 3},
        "users_without_relevant",
        2,
        "2 of 3 users have no relevant item",
    ),
    "threshold without ratings": (
        {"truth": {0: [0], 1: [0], 2: [0]}, "relevance_threshold": 4},
        "judged_not_relevant",
        3,
        "relevance_threshold is 4, but the truth has no rating above 1",
    ),
    "averaged ties": (
        {"scores": torch.zeros(3, 4), "ties": "expected"},
        "ties@2",
        3,
        "3 users have equal scores at positions 2 and 3: the tie rule 'expected' averages over all",
    ),
    "relevant items seen": (
        {"train": {0: [0], 2: [2, 3]}},
        "relevant_seen",
        2,
        "2 of 3 relevant items are masked because they are in train",
    ),
    "not offered": (
        {"scores": STEPS.masked_fill(STEPS > 3, -torch.inf)},
        "relevant_not_offered",
        1,
        "1 of 3 relevant items cannot be recommended",
    ),
    "repetitions in train": (
        {"train": pl.DataFrame({"user": [0, 0, 0], "item": [3, 3, 3]})},
        "train_repetitions",
        2,
        "train contains 2 repeated",
    ),
    "nobody": (
        {"truth": {}},
        "evaluated_users",
        0,
        "no user has a relevant item: every mean over evaluated users is undefined",
    ),
}


@pytest.mark.parametrize(
    ("settings", "count", "number", "note"), SUSPICIOUS.values(), ids=SUSPICIOUS
)
def test_counts_and_notes_suspicious_data(settings, count, number, note, tmp_path):
    got = evaluate(**{"truth": SOME, "scores": STEPS, "metrics": ["MRR"], "top_k": [2], **settings})
    assert got.counts[count] == number
    with_note = [line for line in got.notes if re.search(note, line)]
    assert (
        len(with_note) == 1
        and with_note[0] in repr(got)
        and with_note[0] in weft.load_result(got.save(tmp_path / "a.json")).notes
    )


def test_clean_data_has_no_notes():
    got = evaluate(SOME, STEPS, metrics=["MRR"], top_k=[2, 3], train={0: [3]})
    assert got.notes == ()
    assert {name: count for name, count in got.counts.items() if count} == {
        "users": 3,
        "evaluated_users": 3,
        "relevant_items": 3,
        "items": 4,
        "truth_interactions": 3,
        "train_interactions": 1,
    }


GRADED = {0: {0: 5, 3: 1}, 1: {1: 2}, 2: {2: 1}}
GAIN_NOTE = "the truth has ratings r other than 0 and 1: the gain is "


@pytest.mark.parametrize(
    ("metrics", "settings", "gain"),
    [
        ("nDCG", {}, "2^r - 1 in nDCG, and every rating above 0 is relevant"),
        (
            "nDCG",
            {"relevance_threshold": 2},
            "2^r - 1 in nDCG, and every rating of at least 2 is relevant",
        ),
        ("nDCG(gain=linear)", {}, "r in nDCG(gain=linear), and every"),
        (["nDCG", "F1(metric_name_1=nDCG(gain=linear))"], {}, "2^r - 1 in nDCG; r in F1("),
        ("nDCG", {"profile": "warprec"}, "2^(r+1) - 1 in nDCG("),
        ("nDCG(gain=binary)", {}, None),
        (["MRR", "Recall"], {}, None),
        ("nDCG", {"implicit": True}, None),
    ],
)
def test_gain_and_threshold_of_ratings_are_noted(metrics, settings, gain):
    """Of ratings that are not all 0 or 1, where a metric reads them; with how to change it."""
    settings = {"metrics": metrics, "top_k": [2], **settings}
    lists = {user: [0, 1, 2, 3] for user in range(3)}
    evaluator = weft.Evaluator(**settings)
    evaluator.update(STEPS, torch.tensor([[5, 0, 0, 1], [0, 2, 0, 0], [0, 0, 1, 0]]))
    results = [weft.evaluate(source, GRADED, **settings) for source in (STEPS, lists)]
    for got in (*results, evaluator.compute()):
        notes = [note for note in got.notes if note.startswith(GAIN_NOTE)]
        assert got.counts["graded_ratings"] == (0 if settings.get("implicit") else 2)
        if gain is None:
            assert not notes
        else:
            assert len(notes) == 1 and notes[0].startswith(GAIN_NOTE + gain)
            assert all(word in notes[0] for word in ("linear", "relevance_threshold", "implicit"))


@pytest.mark.parametrize(
    ("metrics", "settings", "is_noted"),
    [
        (["MRR", "Recall"], {}, True),
        ("nDCG(gain=binary)", {}, True),
        ("Recall", {"relevance_threshold": 2}, False),
        ("Recall", {"implicit": True}, False),
        (["ItemCoverage", "RMSE"], {}, False),
        ("nDCG", {}, False),  # the note on gains states the threshold too
    ],
)
def test_threshold_of_ratings_is_noted_without_gains(metrics, settings, is_noted):
    result = weft.evaluate(STEPS, GRADED, metrics=metrics, top_k=[2], **settings)
    notes = [
        note for note in result.notes if "every rating above 0 is relevant. To change this" in note
    ]
    thresholds = [note for note in notes if not note.startswith(GAIN_NOTE)]
    assert len(thresholds) == is_noted
    assert all("relevance_threshold" in note for note in thresholds)


@pytest.mark.parametrize("rating", [2, 0.5, 3])
def test_ratings_of_zero_and_one_need_no_note(rating):
    plain = weft.evaluate(STEPS, {0: {0: 1, 1: 0}, 1: {1: 1}}, metrics="nDCG@2")
    graded = weft.evaluate(STEPS, {0: {0: 1, 1: 0}, 1: {1: rating}}, metrics="nDCG@2")
    assert not any(note.startswith(GAIN_NOTE) for note in plain.notes)
    assert any(note.startswith(GAIN_NOTE) for note in graded.notes)


def test_counts_that_let_one_item_decide_are_warned_of_first():
    """2^811 does not overflow: without the warning nobody would know."""
    plays = {0: {0: 811, 1: 700, 2: 3}, 1: {1: 1}, 2: {2: 21}}
    settings = {"metrics": ["nDCG", "MRR"], "top_k": [2], "train": {0: [3]}}
    got = weft.evaluate(STEPS, plays, **settings)
    assert got.counts["large_ratings"] == 3
    assert got.notes[0].startswith("warning: 3 ratings of relevant items are above 20")
    assert "2^r - 1 of nDCG," in got.notes[0] and "implicit" in got.notes[0]
    few = {0: {0: 20, 1: 5}}
    others = [
        weft.evaluate(STEPS, few, **settings),
        weft.evaluate(STEPS, plays, **{**settings, "metrics": ["nDCG(gain=linear)", "MRR"]}),
        weft.evaluate(STEPS, plays, **settings, implicit=True),
    ]
    assert not any("warning" in note for other in others for note in other.notes)


@pytest.mark.parametrize("mask_seen", ["auto", False])
@pytest.mark.parametrize("form", ["scores", "lists"])
def test_truth_that_is_also_in_train_is_counted(form, mask_seen):
    source = STEPS if form == "scores" else {user: [0, 1, 2, 3] for user in range(3)}
    train = {0: [0, 3], 1: [2], 2: [0, 2], 7: [1]}
    settings = {"metrics": "MRR@2", "mask_seen": mask_seen, "items": range(4)}
    users = {"users": range(3)} if form == "scores" else {}
    got = weft.evaluate(source, SOME, train=train, **settings, **users)
    assert got.counts["truth_in_train"] == 2 and got.counts["truth_interactions"] == 3
    notes = [note for note in got.notes if "also in train" in note]
    assert len(notes) == 1 and notes[0].startswith("2 of 3 rows of the truth are also in train")
    assert "weft check" in notes[0]
    clean = weft.evaluate(source, SOME, train={0: [3]}, **settings, **users)
    assert clean.counts["truth_in_train"] == 0
    assert not any("also in train" in note for note in clean.notes)


def test_many_users_are_compared_with_train_in_tiles(monkeypatch):
    monkeypatch.setattr("weft.data.interactions._TILE_USERS", 2)
    rng = np.random.default_rng(3)
    both = [sp.csr_array(rng.random((7, 9)) < share) for share in (0.3, 0.5)]
    got = weft.evaluate(rng.random((7, 9)), both[0], train=both[1], metrics="MRR@2")
    assert got.counts["truth_in_train"] == int((both[0].toarray() & both[1].toarray()).sum()) > 0


def test_counts_are_consistent():
    truth = {0: {0: 5, 1: 1}, 1: {2: 5}, 7: {3: 5, 0: 4}}
    got = evaluate(
        truth, STEPS, users=[0, 1, 2], train={0: [0]}, relevance_threshold=2, metrics="MRR", top_k=2
    )
    wanted = {
        "users": 4,
        "evaluated_users": 3,
        "users_without_relevant": 0,
        "users_without_truth": 1,
        "missing_users": 1,
        "relevant_items": 4,
        "relevant_seen": 1,
    }
    assert {name: got.counts[name] for name in wanted} == wanted
    assert got.counts["ratings_without_score"] == 2 and got.counts["items"] == 4


def test_notes_train_users_without_a_match():
    got = evaluate(
        {"a": [0]}, STEPS, users=["a", "b", "c"], train={"A": [0], "B": [1]}, metrics="MRR", top_k=2
    )
    assert "train" in str(got.notes) and "2" in str(got.notes)


def test_notes_metrics_without_an_expected_tie_form():
    kept = dict(weft.metrics.registry._classes)
    try:
        weft.register(
            type(
                "Drawn",
                (weft.UserAverageTopKMetric,),
                {"compute_scores": lambda self, p, t, rel, **_: rel[:, 0]},
            )
        )
        got = evaluate(SOME, FLAT, metrics=["Drawn", "MRR"], top_k=2, ties="expected")
    finally:
        weft.metrics.registry._classes.clear()
        weft.metrics.registry._classes.update(kept)
    assert [note for note in got.notes if "no closed form for Drawn:" in note]
    assert "MRR" not in str(got.notes)


def test_provenance_reproduces_the_values():
    settings = {
        "ties": "random",
        "seed": 12,
        "relevance_threshold": 2.0,
        "mask_seen": False,
        "empty_users": "zero",
        "missing_lists": "skip",
    }
    got = evaluate(train={0: [0]}, **settings)
    assert settings.items() <= got.settings.items()
    assert got.settings["metrics"] == list(got)
    assert got.provenance["weft"] == importlib.metadata.version("weft")
    assert (
        got.provenance["torch"] == torch.__version__ and got.provenance["numpy"] == np.__version__
    )
    assert got.provenance["python"] == platform.python_version()
    assert got.provenance["fingerprint"]["source_kind"] == "score matrix"
    assert json.dumps(dict(got.provenance)) and json.dumps(dict(got.settings))


def test_fingerprint_depends_on_the_inputs():
    def prints(**changed):
        given = {"truth": TRUTH, "train": {0: [0]}, "scores": SCORES, "metrics": "MRR@2", **changed}
        found = evaluate(**given).provenance["fingerprint"]
        return found["truth"], found["train"], found["source"]

    base = prints()
    assert prints() == base == prints(metrics="nDCG@5", batch_size=2)
    assert [a == b for a, b in zip(base, prints(truth={**TRUTH, 0: {1: 1.0}}))] == [
        False,
        True,
        True,
    ]
    assert [a == b for a, b in zip(base, prints(truth={**TRUTH, 0: {0: 2.0, 3: 1.0}}))] == [
        False,
        True,
        True,
    ]
    assert [a == b for a, b in zip(base, prints(train={0: [1]}))] == [True, False, True]
    assert [a == b for a, b in zip(base, prints(scores=SCORES + 1))] == [True, True, False]
    assert [a == b for a, b in zip(base, prints(scores=SCORES.T.contiguous().T))] == [
        True,
        True,
        True,
    ]
    assert (
        evaluate(scores=lambda users: SCORES[users], metrics="MRR@2").provenance["fingerprint"][
            "source"
        ]
        is None
    )


@pytest.mark.parametrize(
    ("truth", "implicit", "is_noted"),
    [
        ({0: [1], 1: [2]}, False, True),
        ({0: [1], 1: [2]}, True, False),  # the ratings are ignored on request
        ({0: {1: 4.0}, 1: {2: 1.0}}, False, False),
        ({0: {1: 1.0}, 1: {2: 0.0}}, False, False),  # binary judgements
    ],
)
def test_notes_errors_without_ratings(truth, implicit, is_noted):
    result = evaluate(scores=SCORES, truth=truth, metrics=["RMSE", "MAE"], implicit=implicit)
    text = "RMSE, MAE compare every score with 1: the truth has no rating above 1"
    assert any(note.startswith(text) for note in result.notes) == is_noted

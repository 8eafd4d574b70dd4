"""Scores with their own ids: wide frames, and files of score matrices and factors."""

import json
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from safetensors.torch import save_file

import weft
from doc_commands import run_weft
from weft.data.sources import open_source
from weft.engines.ray.model_actors import check_source
from weft.errors import InputError, MissingExtra, SettingError

USERS, ITEMS = [f"u{number}" for number in range(12)], list(range(100, 120))
GENERATOR = np.random.default_rng(3)
SCORES = GENERATOR.random((12, 20)).astype(np.float32)
LEFT, RIGHT = (GENERATOR.normal(size=(size, 4)).astype(np.float32) for size in (12, 20))
BIASES = GENERATOR.normal(size=20).astype(np.float32)
TRUTH = pl.DataFrame({"user": [*USERS, *USERS], "item": [*ITEMS[:12], *ITEMS[8:]]})
TRAIN = pl.DataFrame({"user": USERS, "item": ITEMS[4:16]})
SETTINGS = {"train": TRAIN, "metrics": ["nDCG@5", "AUC", "Gini@5"]}
IDS = {"users": USERS, "items": ITEMS}
POSITIONS = {"users": "positions", "items": "positions"}


def evaluate(source, **more):
    return weft.evaluate(source, TRUTH, **SETTINGS, **more)


@pytest.fixture(scope="module")
def expected():
    return evaluate(SCORES, **IDS)


@pytest.fixture(scope="module")
def expected_factors():
    return evaluate(weft.Factors(LEFT, RIGHT, item_biases=BIASES), **IDS)


# --------------------------------------------------------------------------------------------------

WIDE = {
    "pandas": pd.DataFrame(SCORES, index=USERS, columns=ITEMS),
    "polars": pl.DataFrame({"who": USERS, **dict(zip(map(str, ITEMS), SCORES.T))}),
}
WIDE["lazy"] = WIDE["polars"].lazy()
WIDE["pyarrow"] = WIDE["polars"].to_arrow()


@pytest.mark.parametrize("kind", WIDE)
def test_wide_frames(kind, expected):
    found = evaluate(weft.Scores(WIDE[kind]))
    assert found == expected and found.counts == expected.counts
    assert found.provenance["ids"] == {"users": "given", "items": "given"}
    assert found.provenance["fingerprint"] == expected.provenance["fingerprint"]


def test_columns_of_text_stay_text():
    frame = pl.DataFrame({"user": ["a"], "007": [0.5], "8": [0.1]})
    assert weft.Scores(frame).items == ["007", "8"] and weft.Scores(frame).users.to_list() == ["a"]
    assert weft.Scores(frame.rename({"007": "7"})).items == [7, 8]
    assert weft.Scores(frame, items=["x", "y"]).items == ["x", "y"]


def test_arrays_and_factors_with_ids(expected, expected_factors):
    assert evaluate(weft.Scores(SCORES, **IDS)) == expected
    assert evaluate(weft.Scores(torch.from_numpy(SCORES), **IDS)) == expected
    factors = weft.Factors(LEFT, RIGHT, item_biases=BIASES)
    assert evaluate(weft.Scores(factors, **IDS)) == expected_factors
    assert factors.user_ids is None  # not changed
    half = weft.evaluate(weft.Scores(SCORES, users=USERS), TRUTH, items=ITEMS, **SETTINGS)
    assert half == expected


def test_prepared_evaluations_take_scores_of_any_order(expected):
    prepared = weft.prepare(TRUTH, **SETTINGS)
    assert prepared.evaluate(weft.Scores(SCORES, **IDS)) == expected
    turned = weft.Scores(SCORES[::-1].copy(), users=USERS[::-1], items=ITEMS)
    assert prepared.evaluate(turned) == expected
    with pytest.raises(InputError):
        prepared.evaluate(SCORES)  # no ids


def test_ids_are_given_once():
    with pytest.raises(SettingError, match=r"users= gives the ids of the scores, but these scores"):
        evaluate(weft.Scores(SCORES, **IDS), users=USERS)
    with pytest.raises(InputError, match=r"users of weft.Scores has 2 ids.*12 rows"):
        weft.Scores(SCORES, users=["a", "b"])
    with pytest.raises(InputError, match=r"items of weft.Scores has 1 id,.*20 columns"):
        weft.Scores(SCORES, items=["a"])


def test_positions():
    numbered = pl.DataFrame({"user": [0, 1], "item": [3, 4]})
    scores = weft.Scores(SCORES[:2], users="positions", items="positions")
    found = weft.evaluate(scores, numbered, metrics="AUC")
    assert found == weft.evaluate(
        SCORES[:2], numbered, users="positions", items="positions", metrics="AUC"
    )


@pytest.mark.parametrize("frame", [WIDE["pandas"], WIDE["polars"]])
def test_wide_frames_are_not_taken_for_lists(frame):
    with pytest.raises(InputError, match=r"a column per item as weft.Scores\(frame\)"):
        evaluate(frame)


@pytest.mark.parametrize(
    ("scores", "says"),
    [
        (pl.DataFrame({"user": ["a"]}), "expected a column of user ids first"),
        (pl.DataFrame({"user": ["a"], "item": ["x"], "score": [0.1]}), "columns of String"),
        (pd.DataFrame({"x": ["a"]}), "A frame with a row per user and item"),
        ([[0.1]], "got a list"),
        (SCORES[0], r"\[users, items\]"),
        ("scores.csv", "got a str"),
    ],
)
def test_other_data_is_refused(scores, says):
    with pytest.raises(InputError, match=says):
        weft.Scores(scores)


# --------------------------------------------------------------------------------------------------


def save_matrix(path, kind, **arrays):
    tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    if kind == "npy":
        np.save(path, next(iter(arrays.values())))
    elif kind in ("npz", "compressed"):
        (np.savez if kind == "npz" else np.savez_compressed)(path, **arrays)
    elif kind == "tensor":
        torch.save(next(iter(tensors.values())), path)
    elif kind == "old":
        torch.save(tensors, path, _use_new_zipfile_serialization=False)
    elif kind == "pt":
        torch.save(tensors, path)
    else:
        save_file(tensors, path)
    return path


SUFFIXES = {
    "npy": ".npy",
    "npz": ".npz",
    "compressed": ".npz",
    "tensor": ".pt",
    "pt": ".pth",
    "old": ".pt",
    "safetensors": ".safetensors",
}


@pytest.mark.parametrize("kind", SUFFIXES)
@pytest.mark.parametrize("order", ["C", "F"])
def test_files_of_matrices(tmp_path, kind, order, expected):
    path = tmp_path / f"als{SUFFIXES[kind]}"
    save_matrix(path, kind, scores=np.asarray(SCORES, order=order))
    for source in (path, str(path), weft.File(path)):
        found = evaluate(source, **IDS)
        assert found == expected and found.name == "als"
        assert found.provenance["files"]["source"] == str(path)
    sampled = {"strategy": "sampled", "num_negatives": 5, **IDS}
    assert evaluate(path, **sampled) == evaluate(SCORES, **sampled)


@pytest.mark.parametrize("kind", ["npz", "compressed", "pt", "old", "safetensors"])
@pytest.mark.parametrize(
    "names",
    [
        ("user_embeddings", "item_embeddings", "item_biases"),
        ("user_factors", "item_factors", "item_bias"),
        ("user_embedding.weight", "item_embedding.weight", "item_bias.weight"),
        ("users", "items", "item_biases"),
    ],
)
def test_files_of_factors(tmp_path, kind, names, expected_factors):
    path = tmp_path / f"als{SUFFIXES[kind]}"
    save_matrix(path, kind, **dict(zip(names, (LEFT, RIGHT, BIASES))))
    found = evaluate(path, **IDS)
    assert found == expected_factors and found.provenance["files"]["source"] == str(path)


@pytest.mark.parametrize("compress", [False, True])
def test_ids_in_the_file(tmp_path, compress, expected):
    path = tmp_path / "a.npz"
    (np.savez_compressed if compress else np.savez)(path, m=SCORES, users=USERS, items=ITEMS)
    assert evaluate(path) == expected == evaluate(weft.File(path))
    with pytest.raises(SettingError, match="users="):
        evaluate(path, users=USERS)
    other = weft.Scores(path, users=[f"x{user}" for user in USERS])
    assert other.users[0] == "xu0" and list(other.items) == ITEMS


def test_ids_of_files(tmp_path, expected):
    np.save(tmp_path / "a.npy", SCORES)
    (tmp_path / "users.csv").write_text("user\n" + "\n".join(USERS))
    (tmp_path / "items.txt").write_text("\n".join(map(str, ITEMS)))
    ids = {"users": tmp_path / "users.csv", "items": tmp_path / "items.txt"}
    assert evaluate(tmp_path / "a.npy", **ids) == expected
    assert evaluate(weft.Scores(tmp_path / "a.npy", **ids)) == expected


@pytest.mark.parametrize("kind", ["npy", "npz"])
def test_matrices_are_mapped_and_not_changed(tmp_path, kind, expected):
    path = save_matrix(tmp_path / f"a.{kind}", kind, scores=SCORES)
    before = path.read_bytes()
    source = open_source(path)
    assert isinstance(source._scores, np.memmap) and not source._scores.flags.writeable
    assert evaluate(path, **IDS) == expected and path.read_bytes() == before


@pytest.mark.parametrize(
    ("arrays", "says"),
    [
        ({"scores": SCORES[0]}, r"has shape \[20\]; expected \[users, items\]"),
        ({"scores": SCORES.astype(np.complex64)}, "scores must be real numbers"),
        ({"scores": SCORES, "other": SCORES}, "contains scores .*other .*; expected one matrix"),
        ({"a": SCORES, "b": SCORES}, r"contains a \[12, 20\], b \[12, 20\]; expected one matrix"),
        ({"user_factors": LEFT}, r"contains user_factors \[12, 4\]; expected"),
        ({"user_factors": LEFT, "item_factors": RIGHT, "mlp.0": LEFT}, "mlp.0 .*; expected"),
        ({"user_factors": LEFT, "item_factors": SCORES}, "with the same d"),
        ({"users": np.arange(12), "items": np.arange(20)}, "expected one matrix"),
        ({"scores": SCORES, "users": np.arange(3)}, "has 3 ids, but the scores have 12 rows"),
        ({"scores": np.arange(12).reshape(4, 3)}, "weft.TopKItems"),
    ],
)
def test_wrong_content(tmp_path, arrays, says):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(InputError, match=says):
        evaluate(tmp_path / "a.npz")


def test_files_of_scores_have_no_columns(tmp_path):
    np.save(tmp_path / "a.npy", SCORES)
    with pytest.raises(SettingError, match="Give only its path"):
        evaluate(weft.File(tmp_path / "a.npy", columns={"user": 0}), **IDS)


def test_damaged_and_unsafe_files(tmp_path):
    for suffix in sorted(set(SUFFIXES.values())):
        path = tmp_path / f"a{suffix}"
        with pytest.raises(InputError, match="there is no such file"):
            evaluate(path)
        path.write_bytes(b"\x93NUMPY no file of this format")
        with pytest.raises(InputError, match=rf"source \(.*a\{suffix}\) cannot be read as"):
            evaluate(path)
    np.save(tmp_path / "b.npy", np.array([[object()]]), allow_pickle=True)
    with pytest.raises(InputError, match=r"cannot be read as \.npy"):
        evaluate(tmp_path / "b.npy")
    torch.save(Unsafe(), tmp_path / "b.pt")
    with pytest.raises(InputError, match=r"cannot be read as .pt"):
        evaluate(tmp_path / "b.pt")
    torch.save([1, 2], tmp_path / "c.pt")
    with pytest.raises(InputError, match="contains a list; expected a tensor"):
        evaluate(tmp_path / "c.pt")


class Unsafe:
    """An object whose class must not be imported when it is read."""


def test_safetensors_is_an_extra(tmp_path, monkeypatch):
    path = save_matrix(tmp_path / "a.safetensors", "safetensors", scores=SCORES)
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(MissingExtra, match=r"pip install 'weft\[safetensors\]'"):
        evaluate(path)


def test_ids_are_required_for_frames_of_truth(tmp_path):
    np.save(tmp_path / "a.npy", SCORES)
    numbered = pl.DataFrame({"user": [0], "item": [1]})
    with pytest.raises(InputError, match="it is not known which rows and columns"):
        weft.evaluate(tmp_path / "a.npy", numbered, metrics="AUC")


@pytest.mark.parametrize("source", [weft.Scores(SCORES, **IDS), "a.npy", weft.File("a.pt")])
def test_ray_refuses_what_is_in_this_process(source):
    with pytest.raises(InputError, match=r"evaluate it with weft\.evaluate"):
        check_source(source)
    with pytest.raises(InputError, match=r"weft\.check reads recommendation lists"):
        weft.check(source, TRUTH)


# --------------------------------------------------------------------------------------------------
# The command line and YAML


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("als.npy", SCORES)
    np.savez("pair.npz", user_factors=LEFT, item_factors=RIGHT, users=USERS, items=ITEMS)
    TRUTH.write_csv("test.csv")
    TRAIN.write_csv("train.csv")
    pl.DataFrame({"user": USERS}).write_csv("rows.csv")
    pl.DataFrame({"item": ITEMS}).write_csv("columns.csv")
    rows = [(user, ITEMS[item], 1 / (1 + item)) for user in USERS for item in range(6)]
    pl.DataFrame(rows, schema=["user", "item", "score"], orient="row").write_csv("pop.csv")
    return tmp_path


ROWS = ["--users", "rows.csv", "--items", "columns.csv"]
COMMAND = ["evaluate", "--truth", "test.csv", "--train", "train.csv", "--out", "out"]


def test_the_command_line_evaluates_scores(files, expected):
    done = run_weft([*COMMAND, *ROWS, "--recs", "als.npy", "-m", "nDCG@5,AUC,Gini@5"])
    assert done.code == 0, done.output
    found = weft.load_result("out/als.json")
    assert found == expected
    assert found.provenance["configuration"]["data"]["users"].endswith("rows.csv")
    sampled = ["--strategy", "sampled", "--num-negatives", "5"]
    done = run_weft([*COMMAND, *ROWS, *sampled, "--recs", "als.npy", "-m", "nDCG@5,AUC,Gini@5"])
    assert done.code == 0, done.output
    expected = evaluate(SCORES, **IDS, strategy="sampled", num_negatives=5)
    assert weft.load_result("out/als.json") == expected


def test_yaml_evaluates_factors_with_their_ids(files):
    Path("run.yaml").write_text(
        "data: {truth: test.csv, train: train.csv}\nmodels: {pair: pair.npz}\noutput: out\n"
        "evaluation: {metrics: [nDCG, AUC, Gini], top_k: 5}\n"
    )
    done = run_weft(["evaluate", "run.yaml"])
    assert done.code == 0, done.output
    assert weft.load_result("out/pair.json") == evaluate(weft.Factors(LEFT, RIGHT), **IDS)


def test_scores_and_lists_in_one_run(files):
    models = ["--recs", "als.npy", "--recs", "pop.csv", "-m"]
    done = run_weft([*COMMAND, *ROWS, *models, "nDCG@5", "--keep-seen"])
    assert done.code == 0, done.output
    keep = {"metrics": "nDCG@5", "train": TRAIN, "mask_seen": False}
    assert weft.load_result("out/als.json") == weft.evaluate(SCORES, TRUTH, **IDS, **keep)
    assert weft.load_result("out/pop.json") == weft.evaluate("pop.csv", TRUTH, items=ITEMS, **keep)
    done = run_weft([*COMMAND, *ROWS, *models, "AUC"])
    assert done.code == 2 and "AUC needs the scores of all items" in done.output


def test_positions_on_the_command_line(files):
    pl.DataFrame({"user": [0, 1], "item": [3, 4]}).write_csv("numbers.csv")
    command = ["evaluate", "--recs", "als.npy", "--truth", "numbers.csv", "-m", "AUC"]
    done = run_weft(command)
    assert done.code == 2 and "or --users positions, --items positions if" in done.output
    positions = ["--users", "positions", "--items", "positions", "--out", "out"]
    done = run_weft([*command, *positions])
    assert done.code == 0, done.output
    found = weft.load_result("out/als.json")
    assert (
        found["AUC"] == weft.evaluate(SCORES, {0: [3], 1: [4]}, **POSITIONS, metrics="AUC")["AUC"]
    )
    assert found.provenance["configuration"]["data"]["users"] == "positions"
    Path("again.yaml").write_text(json.dumps(found.provenance["configuration"]))
    assert run_weft(["evaluate", "again.yaml"]).code == 0


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ["--recs", "pop.csv", "--users", "rows.csv"],
            "--users FILE gives the ids of the rows of scores",
        ),
        (["--recs", "pair.npz", "--users", "rows.csv"], "these scores have user ids already"),
        (
            ["--recs", "als.npy", "--users", "columns.csv"],
            "has 20 ids, but the scores have 12 rows",
        ),
        (["--recs", "als.npy", "--users", "absent.csv"], "there is no file or folder"),
        (["--recs", "als.npy", "--engine", "spark"], "Spark evaluates recommendation lists"),
    ],
)
def test_errors_of_the_command_line(files, words, says):
    done = run_weft(["evaluate", "--truth", "test.csv", "-m", "nDCG@5", *words])
    assert done.code == 2 and says in " ".join(done.output.split())

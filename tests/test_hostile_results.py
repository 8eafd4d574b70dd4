"""Damaged and hostile result files: loaded as they were saved, or one error with file and field."""

import copy
import hashlib
import json
import random

import polars as pl
import pytest

import weft
from test_hostile_states import EVERYTHING, ODD, SCORES, TARGET, USERS, fields, look_up
from weft.errors import InputError, WeftError


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    made = weft.Evaluator(**EVERYTHING, bootstrap=4)
    made.update(SCORES, TARGET, range(USERS))
    made.compute().save(folder / "a.json")
    return folder / "a.json"


def use(path, other):
    """Load a result, show and compare it; returns it as text, or the error of Weft."""
    try:
        result = weft.load_result(path)
        text = repr(result) + repr(result.to_frame())
        str(weft.compare({"a": result, "b": weft.load_result(other)}))
    except WeftError as error:
        return error
    return text


def mutate(document, draw):
    document = copy.deepcopy(document)
    paths = [path for path in fields(document) if path and path[0] not in ("format", "version")]
    *parents, key = draw.choice(paths)
    parent, kind = look_up(document, parents), draw.randrange(3)
    if kind == 0 and isinstance(parent, dict):
        del parent[key]
    elif kind == 1:
        other = draw.choice(paths)
        parent[key] = copy.deepcopy(look_up(document, other))
    else:
        parent[key] = draw.choice(ODD)
    return document


@pytest.mark.parametrize(
    "seeds", [range(60), pytest.param(range(1000, 2500), marks=pytest.mark.slow)]
)
def test_odd_results_give_a_result_or_an_error_of_weft(seeds, saved, tmp_path):
    document, path = json.loads(saved.read_text()), tmp_path / "odd.json"
    for name in ("per_user", "user_labels"):
        (tmp_path / document[name]).write_bytes((saved.parent / document[name]).read_bytes())
    path.write_text(saved.read_text())
    errors = 0
    assert isinstance(use(path, saved), str)
    for seed in seeds:
        draw = random.Random(seed)
        if seed % 4:
            path.write_text(json.dumps(mutate(document, draw)))
        else:
            content = bytearray(saved.read_bytes())
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
            path.write_bytes(content[: draw.choice([len(content), draw.randrange(len(content))])])
        errors += isinstance(use(path, saved), WeftError)
    assert errors > len(seeds) / 4


WRONG = {
    "counts": ({"counts": {"users": "many"}}, r"counts\['users'\] is 'many'"),
    "notes": ({"notes": [3]}, "notes is 3; expected a string"),
    "name": ({"name": None}, "name is None; expected a string"),
    "settings": ({"settings": []}, "settings is a list of 0; expected fields by name"),
    "provenance": ({"provenance": {"ids": 2}}, r"provenance\['ids'\] is 2"),
    "digests": ({"digests": {"per_user": 1}}, "digests is 1; expected a string"),
    "slices": ({"slices": [{"slice": 1}]}, r"slices\[0\]\['slice'\] is 1; expected a string"),
    "exposure": ({"exposure": [{"k": "x"}]}, r"exposure\[0\]\['k'\] is 'x'"),
    "popularity": ({"popularity": 7}, "popularity is 7; expected a list"),
}
VALUES = {
    "value": ("value", "high"),
    "cut-off": ("k", 2**70),
    "users": ("users", -1),
    "direction": ("higher_is_better", 1),
    "target": ("target", [1]),
    "labels": ("cell", [1]),
    "parts": ("parts", ["x"]),
    "interval": ("bca_low", True),
    "a number beyond floats": ("value", 10**400),
}


@pytest.mark.parametrize(("change", "says"), WRONG.values(), ids=WRONG)
def test_wrong_fields_are_one_error_with_their_name(change, says, saved, tmp_path):
    path = tmp_path / "odd.json"
    path.write_text(json.dumps(json.loads(saved.read_text()) | change))
    with pytest.raises(InputError, match=rf"odd\.json: {says}"):
        weft.load_result(path)


@pytest.mark.parametrize(("field", "wrong"), VALUES.values(), ids=VALUES)
def test_wrong_values_are_one_error_with_their_name(field, wrong, saved, tmp_path):
    document, path = json.loads(saved.read_text()), tmp_path / "odd.json"
    document["values"][1][field] = wrong
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=rf"odd\.json: values\[1\]\['{field}'\] is "):
        weft.load_result(path)
    document["values"][1] = document["values"][0]
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"odd\.json: values is .*each value once"):
        weft.load_result(path)


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (pl.DataFrame({"item": [1, 2]}), "there is no column 'user'"),
        (pl.DataFrame({"user": [1], "nDCG@2": [[0.5]]}), "the column 'nDCG@2' is List"),
    ],
)
def test_tables_with_a_right_digest_are_checked(table, says, saved, tmp_path):
    document, path = json.loads(saved.read_text()), tmp_path / "odd.json"
    table.write_parquet(tmp_path / document["per_user"])
    content = (tmp_path / document["per_user"]).read_bytes()
    document["digests"] = {"per_user": f"sha256:{hashlib.sha256(content).hexdigest()}"}
    path.write_text(json.dumps(document))
    with pytest.raises(InputError, match=f"parquet: {says}"):
        weft.load_result(path)

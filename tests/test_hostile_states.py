"""Damaged and hostile files of states and checkpoints: loaded as they were saved, or one error."""

import contextlib
import copy
import hashlib
import math
import random
import warnings

import numpy as np
import pytest
import torch

import weft
from weft.errors import InputError, WeftError
from weft.evaluation import checkpoint
from weft.evaluation.documents import FORMAT, VERSION, pack_document, read_document

USERS, ITEMS = 12, 9
GENERATOR = torch.Generator().manual_seed(4)
SCORES = torch.rand(USERS, ITEMS, generator=GENERATOR)
TARGET = (torch.rand(USERS, ITEMS, generator=GENERATOR) < 0.3).int()
TRAIN = (torch.rand(USERS, ITEMS, generator=GENERATOR) < 0.2).int()
LABELS = {
    "user_groups": ["a", "b", "c"] * 4,
    "item_clusters": [1, 2, 3] * 3,
    "item_features": [["x"], ["x", "y"], []] * 3,
}
EVERYTHING = {
    "metrics": ["nDCG", "Gini", "GAUC(weight=positives)", "AUC", "REO", "SRecall", "RMSE"],
    "top_k": [2, 4],
    "train": TRAIN,
    "slices": {"half": [0, 1] * 6},
    "per_user": True,
    "exposure": True,
    **LABELS,
}
CASES = {
    "everything": EVERYTHING | {"bootstrap": 5},
    "dropped repeats": EVERYTHING | {"repeated_users": "drop"},
    "states of metrics": {"metrics": ["AUC(scope=pooled)", "nDCG"], "top_k": 3},
    "pooled, dropped": {"metrics": ["AUC(scope=pooled)"], "repeated_users": "drop"},
}


def evaluator(case):
    made = weft.Evaluator(**CASES[case])
    for rows in torch.arange(USERS).split(5):
        made.update(SCORES[rows], TARGET[rows], rows)
    return made


def use(path):
    """Load a state and do everything with it; returns the values, or the error of Weft.

    Errors of files name them. Legal numbers that no evaluation gives may be refused later."""
    try:
        loaded = weft.load_state(path)
    except WeftError as error:
        return error if path.name in str(error) else AssertionError(str(error))
    try:
        values = [(one.name, one.value) for one in loaded.compute().entries]
        weft.merge_states([path])
        loaded.update(SCORES[:3], TARGET[:3], torch.arange(3))
        loaded.compute()
    except WeftError as error:
        return error
    return values


def packed(content):
    """A file with the right digest for this content."""
    digest = hashlib.sha256(content).hexdigest()
    return f"{FORMAT} {VERSION} {digest} {len(content)}\n".encode() + content


@pytest.fixture(scope="module", autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NaN and overflows in wild but legal numbers
        yield


@pytest.fixture(scope="module", params=CASES)
def saved(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("states")
    return weft.save_state(evaluator(request.param), folder / "a.state")


# --------------------------------------------------------------------------------------------------
# The fuzzer

ODD = (
    *(None, True, -1, 0, 3, 2**31, 2**63, 2**70, 1.5, float("nan"), float("inf"), -1e300),
    *("", "x", "$tensor", "nDCG@2", [], [1], [[]], {}, {"a": 1}),
)


def fields(value, path=()):
    """All paths into a document, inner ones too."""
    yield path
    if isinstance(value, (dict, list)):
        for key, one in value.items() if isinstance(value, dict) else enumerate(value):
            yield from fields(one, (*path, key))


def look_up(document, path):
    for key in path:
        document = document[key]
    return document


def odd_tensor(tensor, draw):
    tensor = tensor.clone()
    kind = draw.randrange(5)
    if kind == 0 and tensor.numel():
        value = torch.tensor(draw.choice([-1, 1, 2**31, 2**40, 2**62])).to(tensor.dtype)
        tensor.view(-1)[draw.randrange(tensor.numel())] = value
    elif kind == 1 and tensor.is_floating_point() and tensor.numel():
        value = torch.tensor(draw.choice([np.nan, np.inf, -0.5, 1e300])).to(tensor.dtype)
        tensor.view(-1)[draw.randrange(tensor.numel())] = value
    elif kind == 2:
        tensor = tensor[: len(tensor) // 2] if tensor.ndim else tensor[None]
    elif kind == 3:
        tensor = tensor.to(draw.choice([torch.int8, torch.bool, torch.float16, torch.int64]))
    else:
        tensor = tensor[..., None] if draw.random() < 0.5 else torch.cat([tensor.reshape(-1)] * 2)
    return tensor


def mutate(document, draw):
    """Change one field, remove it, or swap two; the digest will be right."""
    document = copy.deepcopy(document)
    paths = [path for path in fields(document) if path]
    *parents, key = draw.choice(paths)
    parent = look_up(document, parents)
    kind = draw.randrange(4)
    if isinstance(parent[key], torch.Tensor) and kind < 3:
        parent[key] = odd_tensor(parent[key], draw)
    elif kind == 0 and isinstance(parent, dict):
        del parent[key]
    elif kind == 1:
        *others, other = draw.choice(paths)
        sibling = look_up(document, others)
        parent[key], sibling[other] = sibling[other], parent[key]
        if any(one is parent[key] for one in (parent, sibling)):  # inside of itself
            return {}
    else:
        parent[key] = draw.choice(ODD)
    return document


def fuzz_bytes(path, seed):
    draw, content = random.Random(seed), bytearray(path.read_bytes())
    kind = draw.randrange(4)
    if kind == 0:
        content = content[: draw.randrange(len(content))]
    elif kind == 1:
        start = draw.randrange(len(content))
        del content[start : start + draw.randrange(1, 50)]
    else:
        for _ in range(draw.randrange(1, 4)):
            content[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    return bytes(content)


def fuzz_form(path, seed):
    """Change a byte of the JSON and repair the digest."""
    draw = random.Random(seed)
    _, text, tensors = path.read_bytes().split(b"\n", 2)
    text = bytearray(text)
    for _ in range(draw.randrange(1, 3)):
        text[draw.randrange(len(text))] = draw.choice(b'0123456789"[]{}:,-e tfn')
    return packed(bytes(text) + b"\n" + tensors)


def fuzz_fields(path, seed):
    draw, document = random.Random(seed), read_document(path)
    for _ in range(draw.randrange(1, 3)):
        document = mutate(document, draw)
        if not document:
            break
    try:
        return pack_document(document)
    except WeftError:
        return b""


FUZZERS = (fuzz_bytes, fuzz_form, fuzz_fields)


@pytest.mark.parametrize(
    "seeds", [range(100), pytest.param(range(1000, 4000), marks=pytest.mark.slow)]
)
def test_odd_files_give_their_state_or_an_error_of_weft(seeds, saved, tmp_path):
    expected, path, errors = use(saved), tmp_path / "odd.state", 0
    assert isinstance(expected, list)
    for seed in seeds:
        fuzzer = FUZZERS[seed % len(FUZZERS)]
        path.write_bytes(fuzzer(saved, seed))
        found = use(path)
        assert not isinstance(found, AssertionError), (seed, found)
        if isinstance(found, WeftError):
            errors += 1
        elif fuzzer is fuzz_bytes:
            assert repr(found) == repr(expected), seed  # the header alone may differ
    assert errors > len(seeds) / 2


# --------------------------------------------------------------------------------------------------
# Single fields, with the right digest


def with_number(number, position=0):
    def change(tensor):
        tensor = tensor.clone()
        tensor.view(-1)[position] = number
        return tensor

    return change


ROWS = ("state", "rows")
WILD = {
    "users": ((*ROWS, "users"), with_number(USERS), r"rows\['users'\]"),
    "table users": ((*ROWS, "table_users"), with_number(-1), r"rows\['table_users'\]"),
    "table": ((*ROWS, "table_values"), lambda table: table[:, :1], r"rows\['table_values'\]"),
    "terms": (
        (*ROWS, "contribution_indices"),
        with_number(2**40),
        r"contributions\['indices'\] is with 1099511627776",
    ),
    "lengths": ((*ROWS, "contribution_lengths"), with_number(0), r"contributions\['lengths'\]"),
    "negative lengths": (
        (*ROWS, "contribution_lengths"),
        with_number(-1),
        r"contributions\['lengths'\]",
    ),
    "weights": (
        (*ROWS, "contribution_weights_2"),
        lambda weights: weights[1:],
        r"contributions\['weights_2'\]",
    ),
    "infinite values": (
        (*ROWS, "contribution_values"),
        with_number(math.inf),
        r"contributions\['values'\] is with infinity among its numbers",
    ),
    "items of train": (("inputs", "train", "items"), with_number(ITEMS), r"train\['items'\]"),
    "order of train": (
        ("inputs", "train", "items"),
        lambda items: items.flip(0),
        r"train\['items'\]",
    ),
    "offsets of train": (
        ("inputs", "train", "offsets"),
        with_number(2**33, 3),
        r"train\['offsets'\]",
    ),
    "groups": (("inputs", "user_groups", "codes"), with_number(3), r"user_groups\['codes'\]"),
    "slices": (
        ("inputs", "slices", "half", "codes"),
        with_number(-2),
        r"slices\['half'\]\['codes'\] is with -2 among its numbers; expected numbers from -1 to 1",
    ),
    "features": (("inputs", "item_features", "codes"), with_number(9), r"item_features\['codes'\]"),
    "clusters of fewer items": (
        ("inputs", "item_clusters", "codes"),
        lambda codes: codes[:4],
        "item_clusters is for 4 items; expected 9 items",
    ),
    "labels twice": (
        ("inputs", "user_groups", "names"),
        lambda names: names[:1] * 3,
        "each name once",
    ),
    "sums": (("state", "sums"), lambda sums: sums[:-1], "sums is a tensor"),
    "users of a mean": (
        ("state", "sums"),
        with_number(np.nan),
        "sums is with nan among its counts",
    ),
    "counts": (("state", "counts"), with_number(-1.0), "counts is with -1.0"),
    "rows": (("state", "num_rows"), lambda _: -1, "num_rows is -1"),
    "items": (("state", "num_items"), lambda _: 8, "num_items is 8; expected 9"),
    "flags": (("state", "has_lists"), lambda _: 1, "has_lists is 1; expected True or False"),
    "an unknown field": (("state",), lambda state: state | {"more": 1}, r"state\['more'\] is 1"),
    "a setting": (("settings", "bootstrap"), lambda _: "many", "bootstrap"),
    "a metric": (("settings", "metrics"), lambda _: [3], r"metrics\[0\] is 3; expected a string"),
    "too many items": (("settings", "num_items"), lambda _: 2**62, "train is for 9 items"),
}


def rewritten(path, keys, change, name="wild.state"):
    document = read_document(path)
    *parents, key = keys
    parent = look_up(document, parents)
    parent[key] = change(parent[key])
    (path.parent / name).write_bytes(pack_document(document))
    return path.parent / name


@pytest.mark.parametrize(("keys", "change", "says"), WILD.values(), ids=WILD)
def test_wild_fields_are_one_error_with_their_name(keys, change, says, tmp_path):
    path = weft.save_state(evaluator("everything"), tmp_path / "a.state")
    wild = rewritten(path, keys, change)
    with pytest.raises(WeftError, match=rf"(?s)wild\.state: .*{says}"):
        weft.load_state(wild)
    if keys[0] == "state":  # the inputs of a second file are compared by digest, and not used
        with pytest.raises(WeftError, match=rf"(?s)wild\.state: .*{says}"):
            weft.merge_states([path, wild])
        restored = weft.Evaluator(**CASES["everything"])
        with pytest.raises(WeftError, match=f"(?s){says}"):
            restored.load_state_dict({"_extra_state": read_document(wild)["state"]})


class Kept(weft.BaseMetric):
    """The sum of the scores, in a state of its own."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.add_state("total", torch.zeros(2), dist_reduce_fx="sum")
        self.add_state("seen", [], dist_reduce_fx="cat")

    def update(self, preds, **blocks):
        self.total += preds.sum()
        self.seen.append(preds[:, 0])

    def compute(self):
        return self.total.sum()


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("total", torch.zeros(3)), ("total", 2.5), ("seen", [1.5]), ("seen", "text"), ("total", [])],
)
def test_states_of_metrics_are_tensors_of_their_shapes(name, wrong, tmp_path):
    made = weft.Evaluator([Kept()])
    made.update(SCORES, TARGET)
    path = weft.save_state(made, tmp_path / "a.state")
    assert weft.merge_states([path], weft.Evaluator([Kept()]))["Kept"] == made.compute()["Kept"]
    wild = rewritten(path, ("state", "metric_states", 0, name), lambda _: wrong)
    with pytest.raises(InputError, match=rf"wild\.state: the state '{name}' of Kept"):
        weft.load_state(wild, weft.Evaluator([Kept()]))


def test_every_type_of_tensor_is_saved_exactly(tmp_path):
    tensors = [
        torch.tensor(values).to(dtype)
        for dtype in (torch.float16, torch.bfloat16, torch.int8, torch.bool, torch.complex64)
        for values in ([[0, 1], [1, 0]], [], 1)
    ]
    document = {"a": tensors, "$tensor": {"$x": None}, "é\ud800": [1.5, float("inf"), True, "b"]}
    path = tmp_path / "a"
    path.write_bytes(pack_document(document))
    read = read_document(path)
    assert read.keys() == document.keys() and list(read.values())[1:] == list(document.values())[1:]
    for found, wanted in zip(read["a"], tensors):
        assert found.dtype == wanted.dtype and torch.equal(found, wanted)


@pytest.mark.parametrize("version", [1, 2, 3])
def test_older_versions_are_refused(version, tmp_path):
    path = weft.save_state(evaluator("states of metrics"), tmp_path / "a.state")
    _, _, rest = path.read_bytes().split(b" ", 2)
    path.write_bytes(f"{FORMAT} {version} ".encode() + rest)
    with pytest.raises(InputError, match=rf"a\.state: written in version '{version}'"):
        weft.load_state(path)


# --------------------------------------------------------------------------------------------------
# Checkpoints


class Breaking(Exception):
    pass


def run(path, scores=SCORES, **more):
    return weft.evaluate(
        scores,
        TARGET.numpy(),
        train=TRAIN.numpy(),
        metrics=["nDCG", "Gini"],
        top_k=2,
        strategy="sampled",
        num_negatives=3,
        per_user=True,
        batch_size=4,
        checkpoint=path,
        **more,
    )


@pytest.fixture
def interrupted(tmp_path, monkeypatch):
    """A checkpoint after the second of three batches."""
    monkeypatch.setattr(checkpoint, "_SAVE_SECONDS", 0.0)
    add, calls = weft.Evaluator.add, []

    def broken(self, inputs, batch=None):
        calls.append(1)
        if len(calls) == 3:
            raise Breaking
        return add(self, inputs, batch)

    with monkeypatch.context() as patch:
        patch.setattr(weft.Evaluator, "add", broken)
        with pytest.raises(Breaking):
            run(tmp_path / "a.state")
    return tmp_path / "a.state"


WILD_CHECKPOINTS = {
    "users": (("state", "rows", "table_users"), with_number(USERS), r"rows\['table_users'\]"),
    "done": (
        ("done",),
        lambda _: [[0, 13]],
        "done is a list of 2; expected ranges",
    ),
    "done backwards": (("done",), lambda _: [[5, 2]], "done"),
    "counts": (("candidates", "counts"), lambda counts: counts[1:], r"candidates\['counts'\]"),
    "digest": (("candidates", "digest"), lambda _: [0, 2**64], r"candidates\['digest'\]"),
    "sums": (("state", "sums"), lambda sums: sums.int(), "sums"),
    "identity": (("identity",), lambda _: 3, "identity is 3"),
}


@pytest.mark.parametrize(
    ("keys", "change", "says"), WILD_CHECKPOINTS.values(), ids=WILD_CHECKPOINTS
)
def test_wild_checkpoints_are_one_error_with_the_field(keys, change, says, interrupted):
    wild = rewritten(interrupted, keys, change)
    with pytest.raises(WeftError, match=rf"wild\.state: {says}.* Remove the file to start again"):
        run(wild)


def test_odd_checkpoints_resume_or_are_an_error_of_weft(interrupted):
    expected, document = repr(run(None).entries), read_document(interrupted)
    odd = interrupted.parent / "odd.state"
    for seed in range(60):
        odd.write_bytes(pack_document(mutate(document, random.Random(seed))))
        with contextlib.suppress(WeftError):
            run(odd)
        odd.unlink(missing_ok=True)
    assert repr(run(interrupted).entries) == expected

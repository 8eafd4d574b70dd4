"""Evaluator states: copies, state_dict, files, merging, and repeated users."""

import copy
import pickle
from dataclasses import replace

import pytest
import torch
from torch import nn

import weft
from local_engine import assert_same_resamples
from metric_cases import BUILT_IN, VARIANTS, ScoreRange
from test_evaluator import (
    EVERYONE,
    ITEMS,
    METRICS,
    SCORES,
    TARGET,
    TRAIN,
    USERS,
    evaluator,
    fed,
    same,
)
from weft.errors import InputError, SettingError

EVERYTHING = [*BUILT_IN, *VARIANTS]
SLICES = {"third": [number % 3 for number in range(USERS)]}
KEPT = {
    "per_user": True,
    "bootstrap": 12,
    "slices": SLICES,
    "seed": 3,
}  # everything that is kept of users


def alike(result, expected):
    """Equal in every respect but for the order of users and rounding."""
    same(result, expected)
    assert result.settings == expected.settings
    for value, wanted in zip(result.entries, expected.entries):
        assert value.interval == pytest.approx(wanted.interval, abs=1e-9, nan_ok=True), value.name
    assert_same_resamples(result.resamples, expected.resamples)
    assert (result.slices is None) == (expected.slices is None)
    if expected.slices is not None:
        assert result.slices.drop("value", "std_error", "ci_low", "ci_high").equals(
            expected.slices.drop("value", "std_error", "ci_low", "ci_high")
        )
        assert result.slices["value"].to_list() == pytest.approx(
            expected.slices["value"].to_list(), abs=1e-9, nan_ok=True
        )
    for name in ("exposure", "popularity"):
        mine, theirs = getattr(result, name), getattr(expected, name)
        assert (mine is None) == (theirs is None) and (theirs is None or mine.equals(theirs))
    assert (result.user_labels is None) == (expected.user_labels is None)
    if expected.user_labels is not None:
        assert result.user_labels["user"].equals(result.per_user["user"])
        assert result.user_labels.sort("user").equals(expected.user_labels.sort("user"))
    if expected.per_user is not None:
        mine, theirs = (table.sort("user") for table in (result.per_user, expected.per_user))
        assert mine["user"].equals(theirs["user"])
        for column in theirs.columns[1:]:
            assert mine[column].to_list() == pytest.approx(
                theirs[column].to_list(), abs=1e-9, nan_ok=True
            )


# --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def once():
    """Every user once, with everything that can be kept."""
    return fed([EVERYONE], metrics=EVERYTHING, repeated_users="drop", **KEPT).compute()


REPEATED = {
    "none": (list(EVERYONE.split(7)), 0),
    "padding at the end": ([EVERYONE[:12], torch.cat([EVERYONE[12:], EVERYONE[:2]])], 2),
    "within a batch": ([torch.cat([EVERYONE, EVERYONE[3:4], EVERYONE[3:4]])], 2),
    "everybody": ([EVERYONE, EVERYONE], USERS),
}


def test_counts_are_the_same_with_and_without_a_table_of_users(once):
    summed = fed(list(EVERYONE.split(7)), metrics=EVERYTHING, **KEPT).compute()
    assert summed.counts == {
        name: count for name, count in once.counts.items() if name in summed.counts
    }
    assert sum(count > 0 for count in summed.counts.values()) > 5


@pytest.mark.parametrize(("batches", "repeated"), REPEATED.values(), ids=REPEATED)
def test_drop_counts_each_user_once(batches, repeated, once):
    result = fed(batches, metrics=EVERYTHING, repeated_users="drop", **KEPT).compute()
    assert result.counts["repeated_users"] == repeated
    assert any("earlier rows and are excluded" in note for note in result.notes) == (repeated > 0)
    counts = {**result.counts, "repeated_users": 0}
    notes = tuple(note for note in result.notes if "earlier rows" not in note)
    alike(replace(result, counts=counts, notes=notes), once)


def test_drop_keeps_the_first_row_of_a_user():
    made = weft.Evaluator(["Recall"], 1, repeated_users="drop", per_user=True)
    made.update(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), [[0], []], [5, 6])
    made.update(
        torch.tensor([[0.0, 1.0], [1.0, 0.0]]), [[0], [0]], [5, 6]
    )  # now a miss, and somebody with a relevant item
    result = made.compute()
    assert (
        result["Recall@1"],
        result.counts["repeated_users"],
        result.counts["users_without_relevant"],
    ) == (1.0, 2, 1)
    assert result.per_user.rows() == [(5, 1.0)]


def test_drop_matches_count_without_repeated_users(once):
    counted = fed(list(EVERYONE.split(5)), metrics=EVERYTHING, **KEPT).compute()
    assert "repeated_users" not in counted.counts and "repeated_users" not in counted.settings
    for value, wanted in zip(counted.entries, once.entries):
        assert value.value == pytest.approx(wanted.value, abs=1e-12, nan_ok=True), value.name


def test_counts_every_row_by_default_and_notes_it():
    result = fed([EVERYONE, EVERYONE[:4]], metrics=["Recall"], top_k=3).compute()
    assert (result.counts["repeated_users"], result.counts["users"]) == (4, USERS + 4)
    assert (
        "4 rows repeat users of earlier rows and are counted again (reset() starts a new epoch; "
        "in one epoch, repeated_users='drop' excludes such rows)"
    ) in result.notes


def test_rows_without_user_indices_are_not_repeated():
    made = weft.Evaluator(["Recall"], 1)
    for _ in range(2):
        made.update(SCORES, TARGET)
    assert "repeated_users" not in made.compute().counts


def test_drop_needs_user_indices():
    with pytest.raises(InputError, match=r"user_indices to know which users were counted already"):
        weft.Evaluator(["Recall"], 1, repeated_users="drop").update(SCORES, TARGET)
    with pytest.raises(
        SettingError,
        match=(
            r"repeated_users='drop' needs the contributions of each user, but ScoreRange keeps "
            r"its own states"
        ),
    ):
        weft.Evaluator([ScoreRange(), "Recall@1"], repeated_users="drop")
    with pytest.raises(SettingError, match=r"repeated_users='twice'.*'count', 'drop'"):
        weft.Evaluator(["Recall"], 1, repeated_users="twice")


# --------------------------------------------------------------------------------------------------


def test_forward_returns_the_batch_and_accumulates():
    made = evaluator(per_user=True)
    for rows in EVERYONE.split(9):
        same(made(SCORES[rows], TARGET[rows], rows), fed([rows]).compute())
    alike(made.compute(), fed([EVERYONE]).compute())


def test_failed_forward_does_not_count():
    made = fed([EVERYONE[:9]])
    before = made.compute()
    with pytest.raises(InputError):
        made(SCORES[:2], TARGET[:3], EVERYONE[:2])
    alike(made.compute(), before)


def test_forward_numbers_rows_without_user_indices():
    made = weft.Evaluator(["Recall"], 1, per_user=True)
    for rows in EVERYONE.split(9):
        made(SCORES[rows], TARGET[rows])
    assert set(made.compute().per_user["user"]) == set(range(USERS)) - {4}


def test_values_as_tensors_under_a_prefix():
    made = fed([EVERYONE])
    plain, named = made.compute(), made.clone(prefix="val_", postfix="/0").compute()
    assert set(named.to_tensors()) == {f"val_{name}/0" for name in plain} and set(
        plain.to_tensors()
    ) == set(plain)
    for name, value in plain.to_tensors().items():
        assert value.shape == () and value.dtype == torch.float64
        assert float(value) == pytest.approx(plain[name], abs=0, nan_ok=True)
    assert all(
        name.startswith("b_")
        for name in made.clone(prefix="a_").clone(prefix="b_").compute().to_tensors()
    )
    assert made.clone(prefix="a_").clone().prefix == "a_"


@pytest.mark.parametrize(
    "copied",
    [lambda made: made.clone(), copy.deepcopy, lambda made: pickle.loads(pickle.dumps(made))],
)
def test_copies_have_their_own_state(copied):
    made = fed([EVERYONE[:9]], **KEPT)
    other = copied(made)
    before = made.compute()
    other.update(SCORES[9:], TARGET[9:], EVERYONE[9:])
    alike(made.compute(), before)
    alike(other.compute(), fed([EVERYONE], **KEPT).compute())


def test_copies_share_inputs():
    made = evaluator()
    assert made.clone().inputs["train"] is made.inputs["train"]


# --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_state_dict_restores_everything(tmp_path):
    made = fed([EVERYONE[:9], EVERYONE[9:14]], **KEPT)
    torch.save(made.state_dict(), tmp_path / "state.pt")
    other = fed([EVERYONE[2:4]], **KEPT)
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    alike(other.compute(), made.compute())
    other.update(SCORES[14:], TARGET[14:], EVERYONE[14:])
    alike(other.compute(), fed([EVERYONE], **KEPT).compute())


def test_state_dict_is_a_copy():
    made = fed([EVERYONE[:9]])
    state, before = made.state_dict(), made.compute()
    made.update(SCORES[9:], TARGET[9:], EVERYONE[9:])
    made.load_state_dict(state)
    alike(made.compute(), before)
    made.update(SCORES[9:], TARGET[9:], EVERYONE[9:])
    made.load_state_dict(state)
    alike(made.compute(), before)


class Model(nn.Module):
    def __init__(self, **settings):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.evaluator = evaluator(**settings)


def test_modules_do_not_save_evaluators_by_default():
    model = Model()
    model.evaluator.update(SCORES, TARGET, EVERYONE)
    assert set(model.state_dict()) == {"layer.weight", "layer.bias"}
    model.load_state_dict(Model(ties="random").state_dict())  # and has no need for the same metrics
    assert model.evaluator.compute().counts["users"] == USERS
    model.evaluator.persistent()
    other = Model()
    other.load_state_dict(model.state_dict())
    alike(other.evaluator.compute(), model.evaluator.compute())


def test_sums_in_modules_stay_float64():
    """DistributedDataParallel sends the buffers of rank 0 to all; half precision would
    ruin sums.
    """
    model = Model().half()
    assert list(model.buffers()) == []
    model.evaluator.update(SCORES, TARGET, EVERYONE)
    alike(model.evaluator.compute(), fed([EVERYONE], per_user=False).compute())


# --------------------------------------------------------------------------------------------------

SHARDS = {
    "two": (EVERYONE[:9], EVERYONE[9:]),
    "many, some empty": (EVERYONE[:0], *EVERYONE.split(4), EVERYONE[:0]),
    "one": (EVERYONE,),
}


@pytest.mark.parametrize("kept", [{}, KEPT], ids=["sums", "users"])
@pytest.mark.parametrize("shards", SHARDS.values(), ids=SHARDS)
def test_merged_files_equal_the_whole(shards, kept, tmp_path):
    paths = [
        weft.save_state(fed([rows], metrics=METRICS, **kept), tmp_path / f"{number}.state")
        for number, rows in enumerate(shards)
    ]
    alike(weft.merge_states(paths), fed([EVERYONE], metrics=METRICS, **kept).compute())


def test_state_files_keep_every_setting(tmp_path):
    settings = {
        "ties": "random",
        "seed": 5,
        "empty_users": "zero",
        "relevance_threshold": 2.0,
        "mask_seen": False,
    }
    made = fed(
        [EVERYONE],
        metrics=["MAP", "Recall", "nDCG(gain=exponential)"],
        profile="ranx",
        repeated_users="drop",
        **settings,
    )
    path = weft.save_state(made.clone(prefix="val_"), tmp_path / "a.state")
    loaded = weft.load_state(path)
    assert loaded.identity() == made.identity() and loaded.prefix == "val_"
    for other in (loaded, copy.deepcopy(made), pickle.loads(pickle.dumps(made))):
        alike(other.compute(), made.compute())
    assert (
        weft.load_state(weft.save_state(loaded, tmp_path / "b.state")).identity() == made.identity()
    )


def test_state_files_keep_the_estimator(tmp_path):
    made = weft.Evaluator(["nDCG"], 3, num_items=ITEMS, estimator="bias_variance")
    path = weft.save_state(made, tmp_path / "a.state")
    assert weft.load_state(path).estimator == made.estimator


def test_merged_files_count_users_once(tmp_path):
    shares = EVERYONE[:13], EVERYONE[10:]
    drop = {"metrics": EVERYTHING, "repeated_users": "drop"}
    paths = [
        weft.save_state(fed([rows], **drop), tmp_path / f"{number}")
        for number, rows in enumerate(shares)
    ]
    result = weft.merge_states(paths)
    assert result.counts["repeated_users"] == 3
    for value, wanted in zip(result.entries, fed([EVERYONE], **drop).compute().entries):
        assert value.value == pytest.approx(wanted.value, abs=1e-9, nan_ok=True), value.name


class Unregistered(weft.UserAverageTopKMetric):
    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        return top_k_rel.sum(1)


def test_unregistered_metrics_need_the_evaluator(tmp_path):
    made = weft.Evaluator([Unregistered(k=3)])
    made.update(SCORES, TARGET, EVERYONE)
    path = weft.save_state(made, tmp_path / "a.state")
    with pytest.raises(SettingError, match=r"a\.state: .*'Unregistered'.*give the evaluator too"):
        weft.merge_states([path])
    assert (
        weft.merge_states([path], weft.Evaluator([Unregistered(k=3)]))["Unregistered@3"]
        == made.compute()["Unregistered@3"]
    )


def test_resumed_loops_count_users_once(tmp_path):
    """Saved after the second batch, killed in the third: what was not saved is met again, and
    nobody else.
    """
    batches = list(EVERYONE.split(6))
    made = evaluator(**KEPT)
    for number, rows in enumerate(batches[:3]):
        made.update(SCORES[rows], TARGET[rows], rows)
        if number == 1:
            path = weft.save_state(made, tmp_path / "run.state")
    resumed = weft.load_state(path)
    met = set(resumed.users_met.tolist())
    assert met == set(range(12))
    for rows in batches:
        if not met.issuperset(rows.tolist()):
            resumed.update(SCORES[rows], TARGET[rows], rows)
    alike(resumed.compute(), fed([EVERYONE], **KEPT).compute())


DAMAGED = {
    "truncated": (
        lambda content: content[:-100],
        r"bytes of state, but was written with \d+.*truncated",
    ),
    "only its head": (lambda content: content.split(b"\n")[0], "truncated"),
    "a byte changed": (
        lambda content: content[:2000] + bytes([content[2000] ^ 1]) + content[2001:],
        "was changed after it was written",
    ),
    "empty": (lambda content: b"", "not a state of Weft"),
    "another file": (lambda content: b"PK\x03\x04" + content, "not a state of Weft"),
    "of the future": (
        lambda content: content.replace(b"weft-state 4", b"weft-state 9", 1),
        "version '9'",
    ),
}


@pytest.mark.parametrize(("damage", "says"), DAMAGED.values(), ids=DAMAGED)
def test_rejects_damaged_files(damage, says, tmp_path):
    path = weft.save_state(fed([EVERYONE]), tmp_path / "a.state")
    path.write_bytes(damage(path.read_bytes()))
    for read in (weft.load_state, lambda path: weft.merge_states([path])):
        with pytest.raises(InputError, match=rf"(?s)a\.state: .*{says}"):
            read(path)


def test_rejects_missing_files(tmp_path):
    with pytest.raises(InputError, match="no such file"):
        weft.load_state(tmp_path / "a.state")
    with pytest.raises(InputError, match="cannot be read"):
        weft.load_state(tmp_path)
    with pytest.raises(SettingError, match="no files"):
        weft.merge_states([])
    path = weft.save_state(fed([EVERYONE]), tmp_path / "a.state")
    with pytest.raises(SettingError, match=r"a\.state more than once"):
        weft.merge_states([path, path])


OTHERS = {
    "metrics": ({"metrics": ["Recall"]}, r"metrics: .*'Recall@1'"),
    "ties": ({"ties": "random"}, "ties: 'index' and 'random'"),
    "train": ({"train": 1 - TRAIN}, "train; give both the same"),
    "labels": ({"user_groups": ["a"] * USERS}, "user_groups; give both the same"),
    "what is kept": ({"per_user": True}, "per_user: False and True"),
}


@pytest.mark.parametrize(("other", "says"), OTHERS.values(), ids=OTHERS)
def test_rejects_files_of_other_settings(other, says, tmp_path):
    paths = [
        weft.save_state(evaluator(**settings), tmp_path / f"{name}.state")
        for name, settings in (("a", {}), ("b", other))
    ]
    with pytest.raises(
        SettingError,
        match=rf"(?s)cannot merge the states of .*a\.state and .*b\.state, which differ in {says}",
    ):
        weft.merge_states(paths)
    with pytest.raises(
        SettingError,
        match=(
            rf"(?s)b\.state: cannot load this state: the evaluator and the state differ in "
            rf"{says}"
        ),
    ):
        weft.load_state(paths[1], evaluator())


def test_failed_writing_leaves_no_file(tmp_path):
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match="cannot be written"):
        weft.save_state(fed([EVERYONE]), tmp_path / "folder")
    assert list(tmp_path.iterdir()) == [tmp_path / "folder"] and not list(
        (tmp_path / "folder").iterdir()
    )

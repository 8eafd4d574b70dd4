"""`evaluate(checkpoint=)` resumes an interrupted run and counts each user once."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch

import weft
from metric_cases import make_labels
from test_evaluator import ITEMS, METRICS, SCORES, TARGET, TRAIN, USERS, fed
from test_states import alike
from weft.errors import InputError, SettingError

TRUTH = {
    row: {item: float(TARGET[row, item]) for item in range(ITEMS) if TARGET[row, item]}
    for row in range(USERS)
}
HOW = {
    "scores": {"metrics": METRICS, "per_user": True, "bootstrap": 6, **make_labels(USERS, ITEMS)},
    "sampled": {"metrics": ["nDCG", "ARP"], "strategy": "sampled", "num_negatives": 5},
    "candidates": {
        "metrics": ["nDCG"],
        "candidates": {row: [1, 2, 5] for row in range(0, USERS, 2)},
    },
}


class Model:
    """Scores of users; asked too often, it breaks. It remembers who was asked for."""

    def __init__(self, breaks_after=10**9, scores=SCORES):
        self.asked, self.breaks_after, self.scores = [], breaks_after, scores

    def score(self, users):
        if len(self.asked) + len(users) > self.breaks_after:
            raise RuntimeError("out of power")
        self.asked += map(int, users)
        return self.scores[torch.as_tensor(users)]


def evaluate(model, how="scores", **more):
    settings = {
        "train": TRAIN,
        "users": range(USERS),
        "items": range(ITEMS),
        "top_k": [1, 3],
        "batch_size": 3,
        **HOW[how],
        **more,
    }
    return weft.evaluate(model, TRUTH, **settings)


@pytest.fixture(autouse=True)
def saved_after_every_batch(monkeypatch):
    monkeypatch.setattr("weft.evaluation.checkpoint._SAVE_SECONDS", 0.0)


@pytest.mark.parametrize("batch_size", [3, 4, 50])
@pytest.mark.parametrize("how", HOW)
def test_resumes_after_the_last_saved_batch(how, batch_size, tmp_path):
    path = tmp_path / "run.state"
    with pytest.raises(RuntimeError, match="out of power"):
        evaluate(Model(13), how, checkpoint=path)
    assert path.exists()
    resumed = Model()
    alike(evaluate(resumed, how, checkpoint=path, batch_size=batch_size), evaluate(Model(), how))
    assert resumed.asked == list(range(12, USERS))
    assert not path.exists() and not list(tmp_path.iterdir())


def test_resumes_after_several_failures(tmp_path):
    path, times = tmp_path / "run.state", 0
    while True:
        times += 1
        try:
            result = evaluate(Model(8), checkpoint=path)
            break
        except RuntimeError:
            assert times < 20
    alike(result, evaluate(Model()))
    assert times > 2


def test_writes_nothing_before_the_save_interval(tmp_path, monkeypatch):
    monkeypatch.setattr("weft.evaluation.checkpoint._SAVE_SECONDS", 1e9)
    with pytest.raises(RuntimeError):
        evaluate(Model(13), checkpoint=tmp_path / "run.state")
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_resumes_after_a_killed_process(tmp_path):
    """Not an exception: the process is gone in the middle of a batch."""
    program = """
import os, sys
sys.path.insert(0, sys.argv[1])
import weft.evaluation.checkpoint, test_checkpoints
weft.evaluation.checkpoint._SAVE_SECONDS = 0.0
class Dies(test_checkpoints.Model):
    def score(self, users):
        if len(self.asked) + len(users) > 13:
            os.kill(os.getpid(), 9)
        return super().score(users)
test_checkpoints.evaluate(Dies(), checkpoint=sys.argv[2])
"""
    path = tmp_path / "run.state"
    died = subprocess.run(
        [sys.executable, "-c", program, str(Path(__file__).parent), str(path)], timeout=120
    )
    assert died.returncode == -9
    resumed = Model()
    alike(evaluate(resumed, checkpoint=path), evaluate(Model()))
    assert resumed.asked == list(range(12, USERS))


REFUSED = {
    "metrics": ({"metrics": ["nDCG"]}, "metrics"),
    "ties": ({"ties": "pessimistic"}, "ties: 'index' and 'pessimistic'"),
    "truth": ({"truth": {0: [1]}}, "truth"),
    "train": ({"train": 1 - TRAIN}, "train"),
    "the order of users": ({"users": [*range(1, USERS), 0]}, "users; give both the same"),
    "masking": ({"mask_seen": False}, "mask_seen: True and False"),
    "another kind of source": ({"model": SCORES}, "source"),
}


@pytest.mark.parametrize(("other", "says"), REFUSED.values(), ids=REFUSED)
def test_rejects_the_checkpoint_of_another_evaluation(other, says, tmp_path):
    path = tmp_path / "run.state"
    with pytest.raises(RuntimeError):
        evaluate(Model(13), checkpoint=path)
    saved = path.read_bytes()
    given = {
        "train": TRAIN,
        "users": range(USERS),
        "items": range(ITEMS),
        "top_k": [1, 3],
        "batch_size": 3,
        **HOW["scores"],
    }
    given |= {name: value for name, value in other.items() if name not in ("truth", "model")}
    with pytest.raises(
        SettingError,
        match=(
            rf"run\.state: cannot resume from this file: the file and this evaluation differ in "
            rf"{says}.*start again"
        ),
    ):
        weft.evaluate(
            other.get("model", Model()), other.get("truth", TRUTH), checkpoint=path, **given
        )
    assert path.read_bytes() == saved


def test_rejects_the_checkpoint_of_other_candidates(tmp_path):
    path = tmp_path / "run.state"
    with pytest.raises(RuntimeError):
        evaluate(Model(13), "candidates", checkpoint=path)
    with pytest.raises(SettingError, match="differ in candidates given"):
        evaluate(Model(), "candidates", checkpoint=path, candidates={0: [1]})


def test_rejects_files_that_are_not_checkpoints(tmp_path):
    path = tmp_path / "run.state"
    with pytest.raises(RuntimeError):
        evaluate(Model(13), checkpoint=path)
    with pytest.raises(InputError, match=r"this is a checkpoint of evaluate\(\)"):
        weft.load_state(path)
    weft.save_state(fed([torch.arange(3)]), path)
    with pytest.raises(
        InputError, match=r"run\.state: this is the state of an Evaluator.*load_state"
    ):
        evaluate(Model(), checkpoint=path)
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(InputError, match="truncated"):
        evaluate(Model(), checkpoint=path)


@pytest.mark.parametrize(
    "name", ["file/run.state", "file/new/run.state", "n" * 300, "new/" + "n" * 300]
)
def test_refuses_a_checkpoint_that_cannot_be_written_before_the_first_batch(name, tmp_path):
    (tmp_path / "file").write_text("no folder")
    model = Model()
    with pytest.raises(
        InputError, match=r"cannot be written \(.*give checkpoint= in a writable folder"
    ) as caught:
        evaluate(model, checkpoint=tmp_path / name)
    assert caught.value.setting == "checkpoint" and model.asked == []
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_creates_the_folders_of_a_checkpoint(tmp_path):
    path = tmp_path / "new" / "folder" / "run.state"
    with pytest.raises(RuntimeError, match="out of power"):
        evaluate(Model(breaks_after=7), checkpoint=path)
    assert path.is_file()

"""Evaluators, evaluate and the command in several processes over gloo match one process."""

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from torch.utils.data import DistributedSampler
from typer.testing import CliRunner

import weft
from metric_cases import make_labels
from process_groups import run_in_processes
from test_evaluator import EVERYONE, ITEMS, METRICS, SCORES, TARGET, TRAIN, USERS, evaluator, fed
from test_states import EVERYTHING, SLICES, alike
from weft import cli
from weft.engines import distributed
from weft.errors import SettingError, WeftError
from weft.integrations.huggingface import ComputeMetrics

KEPT = {"per_user": True, "bootstrap": 8, "slices": SLICES, "seed": 3}
TRUTH = {row: dict(zip(range(ITEMS), ratings)) for row, ratings in enumerate(TARGET.tolist())}
LISTS = {
    row: TARGET[row].argsort(descending=True)[: row % 6].tolist() for row in range(USERS) if row % 5
}
HOW = {
    "scores": (SCORES, {"metrics": METRICS, "per_user": True, "batch_size": 3}),
    "one batch": (SCORES, {"metrics": ["nDCG", "AUC"]}),
    "a model": (
        lambda users: SCORES[torch.as_tensor(users)],
        {"metrics": ["nDCG", "Gini"], "batch_size": 2},
    ),
    "lists": (
        LISTS,
        {"metrics": ["nDCG", "ItemCoverage"], "per_user": True, "bootstrap": 6, "batch_size": 4},
    ),
    "sampled": (
        SCORES,
        {"metrics": ["nDCG", "ARP"], "strategy": "sampled", "num_negatives": 5, "batch_size": 4},
    ),
    "candidates": (
        LISTS,
        {
            "metrics": ["nDCG"],
            "candidates": {row: [1, 2, 5] for row in range(0, USERS, 2)},
            "batch_size": 5,
        },
    ),
    "random ties": (
        SCORES,
        {"metrics": ["nDCG"], "ties": "random", "seed": 5, "mask_seen": False, "batch_size": 2},
    ),
}


def evaluated(how, evaluate):
    source, settings = HOW[how]
    truth = {
        row: {item: rating for item, rating in ratings.items() if rating}
        for row, ratings in TRUTH.items()
    }
    labels = make_labels(USERS, ITEMS) if how == "scores" else {}
    return evaluate(
        source,
        truth,
        train=TRAIN,
        items=range(ITEMS),
        users=_ids(source),
        top_k=[1, 3],
        **labels,
        **settings,
    )


def _ids(source):
    return range(USERS) if isinstance(source, torch.Tensor) or callable(source) else None


class Collectives:
    """Counts what is sent round."""

    def __init__(self):
        self.calls = []

    def __enter__(self):
        self.before = dist.all_reduce, dist.all_gather_object
        dist.all_reduce, dist.all_gather_object = (self.counting(one) for one in self.before)
        return self

    def counting(self, collective):
        def call(*args, **kwargs):
            self.calls.append(collective.__name__)
            return collective(*args, **kwargs)

        return call

    def __exit__(self, *_):
        dist.all_reduce, dist.all_gather_object = self.before


def shares(number):
    """Uneven, in batches of different sizes; the last process has none."""
    cuts = {
        2: [list(EVERYONE.split(5)), []],
        4: [[EVERYONE[:1]], list(EVERYONE[1:14].split(3)), [EVERYONE[14:]], []],
    }
    return cuts[number]


def work(rank, number):
    found = {}
    loop = evaluator(metrics=EVERYTHING, **KEPT)
    for rows in shares(number)[rank]:
        loop.update(SCORES[rows], TARGET[rows], rows)
    with Collectives() as sent:
        found["loop"] = loop.compute()
    found["collectives"] = sent.calls
    with Collectives() as sent:
        fed(shares(number)[rank], metrics=["nDCG"]).compute()
    found["collectives of one metric"] = sent.calls
    found["again"] = loop.compute()
    loop.sync_on_compute = False
    found["alone"] = loop.compute().counts["users"]
    padded = evaluator(metrics=EVERYTHING, repeated_users="drop", **KEPT)
    for rows in torch.tensor(list(DistributedSampler(range(USERS), shuffle=True, seed=2))).split(4):
        padded.update(SCORES[rows], TARGET[rows], rows)
    found["padded"] = padded.compute()
    # The Trainer of Hugging Face gathers the rows of all processes in each of them.
    compute = ComputeMetrics(weft.Evaluator(["nDCG", "Gini"], 3, num_items=ITEMS))
    compute(SimpleNamespace(predictions=SCORES, label_ids=TARGET))
    found["gathered"] = compute.result
    for how in HOW:
        found[how] = evaluated(how, distributed.evaluate)
    different = {
        "settings": lambda: fed(
            [EVERYONE], metrics=["Recall"], ties="index" if rank else "random"
        ).compute(),
        "train": lambda: fed(
            [EVERYONE], metrics=["Recall"], train=TRAIN if rank else 1 - TRAIN
        ).compute(),
        "scores": lambda: distributed.evaluate(SCORES + (rank == 1), TRUTH, metrics="Recall@1"),
        "one stops": lambda: distributed.evaluate(
            _stops if rank == 1 else _scores, TRUTH, users=range(USERS), metrics="Recall@1"
        ),
    }
    for name, evaluate in different.items():
        try:
            evaluate()
            found[f"refused {name}"] = ""
        except WeftError as error:
            found[f"refused {name}"] = str(error)
    return found


def _scores(users):
    return SCORES[torch.as_tensor(users)]


def _stops(users):
    if len(users) < USERS:  # not when it is asked for its shape
        raise weft.errors.InputError("the model has lost its weights")
    return _scores(users)


@pytest.fixture(scope="module", params=[2, 4])
def together(request):
    """What each of two, and of four processes found."""
    return run_in_processes(request.param, work)


@pytest.mark.slow
def test_evaluator_loops_match_one_process(together):
    expected = fed([EVERYONE], metrics=EVERYTHING, **KEPT).compute()
    for found in together:
        alike(found["loop"], expected)
        alike(found["again"], expected)
        assert found["loop"].provenance["processes"] == len(together)
        assert (
            found["collectives"]
            == found["collectives of one metric"]
            == ["all_gather_object", "all_reduce"]
        )
    assert sum(found["alone"] for found in together) == USERS


@pytest.mark.slow
def test_repeated_users_of_samplers_count_once(together):
    expected = fed([EVERYONE], metrics=EVERYTHING, repeated_users="drop", **KEPT).compute()
    padded = -USERS % len(together)
    for found in together:
        result = found["padded"]
        assert padded > 0 and result.counts["repeated_users"] == padded
        notes = tuple(note for note in result.notes if "earlier rows" not in note)
        assert len(notes) == len(result.notes) - 1
        alike(replace(result, notes=notes, counts={**result.counts, "repeated_users": 0}), expected)


@pytest.mark.slow
def test_rows_gathered_by_the_trainer_of_hugging_face_count_once(together):
    compute = ComputeMetrics(weft.Evaluator(["nDCG", "Gini"], 3, num_items=ITEMS))
    compute(SimpleNamespace(predictions=SCORES, label_ids=TARGET))
    assert compute.result.counts["users"] == USERS
    for found in together:
        alike(found["gathered"], compute.result)


@pytest.mark.slow
@pytest.mark.parametrize("how", HOW)
def test_evaluate_matches_one_process(together, how):
    expected = evaluated(how, weft.evaluate)
    for found in together:
        alike(found[how], expected)
        assert found[how].provenance["fingerprint"] == expected.provenance["fingerprint"]
        if expected.per_user is not None:
            assert found[how].per_user["user"].equals(expected.per_user["user"])


SAID = {
    "settings": "cannot merge processes .* that differ in ties: 'random' and 'index'",
    "train": "cannot merge processes .* that differ in train",
    "scores": "cannot merge processes .* that differ in source",
    "one stops": "the model has lost its weights",
}


@pytest.mark.slow
@pytest.mark.parametrize("what", SAID)
def test_errors_and_differences_stop_all_processes(together, what):
    for rank, found in enumerate(together):
        assert re.search(SAID[what], found[f"refused {what}"]), found[f"refused {what}"]
        if what == "one stops":
            assert ("failed on rank 1" in found["refused one stops"]) == (rank != 1)


@pytest.mark.slow
def test_command_under_torchrun(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.chdir(tmp_path)
    example = str(Path(__file__).parents[1] / "examples" / "evaluate.yaml")
    one, two = (
        [
            "evaluate",
            example,
            "--out",
            str(tmp_path / name),
            "--report",
            str(tmp_path / name / "report.html"),
        ]
        for name in ("one", "two")
    )
    alone = CliRunner().invoke(cli.app, one, prog_name="weft")
    shared = subprocess.run(
        [
            sys.executable,
            "-m",
            "torch.distributed.run",
            "--nproc-per-node",
            "2",
            "-m",
            "weft",
            *two,
        ],
        capture_output=True,
        text=True,
        timeout=240,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert alone.exit_code == shared.returncode == 0, shared.stderr
    assert shared.stdout.replace("/two/", "/one/") == alone.stdout  # once, and the same
    assert all((tmp_path / name / "report.html").stat().st_size for name in ("one", "two"))
    for path in (tmp_path / "one").glob("*.json"):
        one, two = (
            json.loads((tmp_path / name / path.name).read_text()) for name in ("one", "two")
        )
        assert two["provenance"].pop("processes") == 2
        assert (one["counts"], one["notes"], one["provenance"]["fingerprint"]) == (
            two["counts"],
            two["notes"],
            two["provenance"]["fingerprint"],
        )
        assert [value["value"] for value in one["values"]] == pytest.approx(
            [value["value"] for value in two["values"]], abs=1e-12
        )


# --------------------------------------------------------------------------------------------------


def test_single_process_matches_evaluate():
    alike(evaluated("scores", distributed.evaluate), evaluated("scores", weft.evaluate))


def test_rejects_unknown_arguments():
    with pytest.raises(TypeError, match="metric"):
        distributed.evaluate(SCORES, TRUTH, metric="Recall@1")


@pytest.mark.parametrize("number", [1, 2, 3, 7])
@pytest.mark.parametrize("rows", [0, 1, 5, 12])
def test_every_row_belongs_to_one_process(rows, number):
    samplers = [
        distributed.ShareSampler(range(rows), rank=rank, number=number) for rank in range(number)
    ]
    assert sorted(row for sampler in samplers for row in sampler) == list(range(rows))
    assert [len(sampler) for sampler in samplers] == [len(list(sampler)) for sampler in samplers]


def test_rejects_wrong_ranks():
    with pytest.raises(
        SettingError, match=r"rank=2 is out of range: there are 2 processes, with ranks 0 to 1"
    ):
        distributed.ShareSampler(range(5), rank=2, number=2)
    assert list(distributed.ShareSampler(range(3))) == [0, 1, 2]

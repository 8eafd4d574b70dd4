"""Evaluations in forked processes: the result of the parent or an error, and never a hang."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")

PROGRAM = """
import multiprocessing, os, signal, sys, warnings
import numpy as np, polars as pl, torch, weft
from scipy.sparse import csr_matrix
from weft.errors import EngineError

warnings.simplefilter("ignore")
torch.set_num_threads(3)
rng = np.random.default_rng(0)
scores = rng.standard_normal((60, 20_000), dtype=np.float32)
truth = {user: [user, 3 * user + 1] for user in range(60)}
pairs = [(user, item) for user, items in truth.items() for item in items]
matrix = csr_matrix((np.ones(120), np.array(pairs).T), (60, 20_000))
frame = pl.DataFrame(pairs, schema=["user", "item"], orient="row")
lists = {user: items + [500] for user, items in truth.items()}
frame.write_csv(sys.argv[1])
embeddings = torch.from_numpy(scores[:, :64].copy()), torch.randn(20_000, 64)
settings = dict(metrics=["nDCG", "Gini", "AUC"], top_k=[10])
listed = dict(metrics=["nDCG", "Gini"], top_k=[10])

def update():
    evaluator = weft.Evaluator(num_items=20_000, **settings)
    evaluator.update(torch.from_numpy(scores), matrix)
    return evaluator.compute()

CASES = {
    "matrix": (lambda: weft.evaluate(scores, matrix, train=matrix, mask_seen=False, **settings), 0),
    "factors": (lambda: weft.evaluate(weft.Factors(*embeddings), matrix, **settings), 0),
    "model": (lambda: weft.evaluate(lambda users: embeddings[0][users] @ embeddings[1].T,
                                    matrix, **settings), 0),
    "batches": (update, 0),
    "sampled": (lambda: weft.evaluate(scores, matrix, strategy="sampled", **settings), 0),
    "dict": (lambda: weft.evaluate(scores, truth, items="positions", **settings), 1),
    "frame": (lambda: weft.evaluate(scores, frame, items="positions", **settings), 1),
    "lists": (lambda: weft.evaluate(lists, truth, **listed), 1),
    "list frame": (lambda: weft.evaluate(frame, frame, **listed), 1),
    "file": (lambda: weft.evaluate(sys.argv[1], sys.argv[1], **listed), 1),
    "per user": (lambda: weft.evaluate(scores, matrix, per_user=True, **settings), 1),
}

def run(name, expected):
    signal.alarm(20)  # kills a child that hangs
    try:
        values = [(value.name, value.value) for value in CASES[name][0]().entries]
    except EngineError as error:
        assert 'get_context("spawn")' in str(error)
        return 1
    return 0 if values == expected else 2

found = {name: [(value.name, value.value) for value in case().entries]
         for name, (case, _) in CASES.items()}
torch.ones(1_000_000).sum(), torch.mm(*(torch.randn(500, 500) for _ in range(2)))
for name, (_, expected) in CASES.items():
    child = os.fork()
    if child == 0:
        code = 3
        try:
            code = run(name, found[name])
        finally:
            os._exit(code)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == expected, (name, status)
with multiprocessing.get_context("fork").Pool(2) as pool:
    assert pool.starmap(run, [("matrix", found["matrix"])] * 3, chunksize=1) == [0, 0, 0]
assert run("dict", found["dict"]) == 0  # the parent has its threads
"""


@pytest.mark.slow
def test_evaluations_after_a_fork(tmp_path):
    program = [sys.executable, "-c", PROGRAM, str(tmp_path / "pairs.csv")]
    outcome = subprocess.run(program, capture_output=True, text=True, timeout=240, check=False)
    assert outcome.returncode == 0, outcome.stderr


@pytest.mark.slow
def test_child_starts_threads_of_its_own_if_the_parent_had_none():
    program = """
import os, warnings
import weft.data.forks, weft
warnings.simplefilter("ignore")

def evaluate():
    import polars as pl
    frame = pl.DataFrame({"user": [1, 2], "item": [3, 4]}).sort("item")
    weft.evaluate(frame, frame, metrics="nDCG@1")

child = os.fork()
if child == 0:
    code = 1
    try:
        evaluate()
        grandchild = os.fork()
        if grandchild == 0:
            os._exit(0)
        os.waitpid(grandchild, 0)
        evaluate()  # it has forked with threads of its own, and has them still
        code = 0
    finally:
        os._exit(code)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)

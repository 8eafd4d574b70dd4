"""Any device: `update` never mixes devices and never makes the host wait, and gives there what it gives on the CPU."""

import json
import os
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix

import weft
import weft.data.devices
from everything import BUILT_IN, VARIANTS, about
from no_waiting import CAUGHT, NoWaiting, Waited
from on_fakegpu import CASES, FAILING
from weft.data.devices import FAULTS, host_sees, like_any_device, send
from weft.data.rows import SparseRows, rows_of_target
from weft.errors import InputError
from weft.ranking import TIE_RULES
from weft.ranking.kernels import anywhere, using
from weft.registry import takes_k

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")
HERE = Path(__file__).parent
USERS, ITEMS = 12, 61
FLOATS = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


# --------------------------------------------------------------------------------------- fake tensors of another device


@pytest.fixture(scope="module")
def on_fakegpu():
    """What went wrong in each case, None where nothing did; from a process of its own."""
    paths = os.pathsep.join([str(HERE), *sys.path])
    command = [sys.executable, "-W", "ignore", str(HERE / "on_fakegpu.py")]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": paths}, timeout=500)
    assert done.returncode == 0, done.stderr
    return dict(map(json.loads, done.stdout.splitlines()))


@pytest.mark.parametrize("case", CASES)
def test_an_update_on_another_device_does_not_wait(case, on_fakegpu):
    assert on_fakegpu[case] is None


@pytest.mark.parametrize("case", FAILING)
def test_what_waits_is_noticed(case, on_fakegpu):
    assert str(on_fakegpu[case]).startswith(FAILING[case][1])


def test_every_metric_is_proved():
    assert {*BUILT_IN, *VARIANTS} <= set(CASES)
    assert len(BUILT_IN) == 40


@pytest.mark.parametrize("waiting", CAUGHT.values(), ids=CAUGHT)
def test_the_guard_notices_on_the_cpu_too(waiting):
    with pytest.raises(Waited), NoWaiting():
        waiting(torch.tensor([1, 2, 3]), torch.tensor([True, False, True]))


# --------------------------------------------------------------------- the same way on the CPU, where values can be seen


@contextmanager
def elsewhere():
    """The CPU as any other device, under the guard."""
    with like_any_device(), NoWaiting():
        yield


def problem(seed, dtype, *, density=0.06):
    """Scores with ties, items that are not offered, users with everything and with nothing; ratings from 0 to 5; train."""
    draw = torch.Generator().manual_seed(seed)
    shape = (USERS, ITEMS)
    scores = (torch.randint(-6, 6, shape, generator=draw) / 4).to(dtype)
    scores[torch.rand(shape, generator=draw) < 0.1] = -torch.inf
    scores[3], scores[4, 2:], scores[5] = -torch.inf, -torch.inf, 0.5
    scores[6, ::2] = -0.0
    truth = torch.where(torch.rand(shape, generator=draw) < 0.2, torch.randint(0, 6, shape, generator=draw), 0).double()
    truth[1], truth[2] = 0, 1 + torch.arange(ITEMS) % 5
    return scores, truth, torch.rand(shape, generator=draw) < density


def as_ids(truth):
    """The items of each row in any order, -1 anywhere between them; their ratings are lost."""
    draw, ids = torch.Generator().manual_seed(7), torch.full((len(truth), ITEMS + 4), -1)
    for row, ratings in enumerate(truth):
        items = ratings.nonzero().flatten()
        places = torch.randperm(ITEMS + 4, generator=draw)[: len(items)]
        ids[row, places] = items[torch.randperm(len(items), generator=draw)]
    return ids


def forms(truth):
    return {"csr": truth.to_sparse_csr(), "coo": truth.to_sparse_coo(), "ids": as_ids(truth)}


def close(mine, theirs):
    return np.allclose(mine, theirs, rtol=1e-12, atol=1e-12, equal_nan=True)


def same_results(mine, theirs):
    assert mine.counts == theirs.counts
    assert mine.notes == theirs.notes
    assert [value.name for value in mine.values] == [value.name for value in theirs.values]
    for one, other in zip(mine.values, theirs.values):
        assert close(one.value, other.value), one.name
        assert close(one.std_error, other.std_error), one.name
        assert one.users == other.users
    assert close(mine.per_user.to_numpy(), theirs.per_user.to_numpy())
    assert close(mine.slices["value"].to_numpy(), theirs.slices["value"].to_numpy())


@pytest.mark.parametrize("form", ["csr", "ids"])
@pytest.mark.parametrize(("rule", "dtype"), [*zip(TIE_RULES, [*FLOATS, torch.float32])])
def test_an_evaluator_gives_the_same_without_waiting(rule, dtype, form):
    scores, truth, train = problem(1, dtype)
    assert train.sum(1).max() * 8 <= ITEMS  # so that masking does not wait either

    def run(guard):
        made = weft.Evaluator(
            [*BUILT_IN, *VARIANTS],
            [1, 3, 70],
            train=train,
            ties=rule,
            relevance_threshold=3 if rule != "index" and form == "csr" else None,
            per_user=True,
            slices={"half": ["first", "second", None] * 4},
            **about(USERS, ITEMS),
        )
        for rows in (slice(0, 7), slice(7, 8), slice(8, 12), slice(0, 0)):
            target, users, given = forms(truth[rows])[form], torch.arange(USERS)[rows], scores[rows].clone()
            with guard():
                made.update(given, target, users)
            assert torch.equal(given, scores[rows])
        return made.compute()

    same_results(run(elsewhere), run(nullcontext))

"""An interrupt at any line of a pass leaves an evaluator with the whole batch or without it."""

from functools import partial
from pathlib import Path

import pytest
import torch

import metric_cases
import weft
from metric_cases import Keeper
from stopping import stop_at

# The files whose lines are interrupted: the package, and the metric of the tests.
FILES = (str(Path(weft.__file__).parent), metric_cases.__file__)
USERS, ITEMS = 6, 5
GENERATOR = torch.Generator().manual_seed(4)
SCORES = torch.rand(USERS, ITEMS, generator=GENERATOR)
TARGET = (torch.rand(USERS, ITEMS, generator=GENERATOR) < 0.5).int()
TARGET[3] = 0
ROWS = torch.arange(USERS)


def plain(value):
    """Return a state as values that can be compared."""
    if isinstance(value, torch.Tensor):
        return str(value.dtype), value.shape, value.nan_to_num(-7).tolist()
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    return [plain(part) for part in value] if isinstance(value, (list, tuple)) else value


def evaluate_rows(rows, metrics, **settings):
    evaluator = weft.Evaluator(
        metrics,
        2,
        num_items=ITEMS,
        num_users=USERS,
        slices={"half": ["a", "b"] * 3},
        per_user=True,
        **settings,
    )
    evaluator.update(SCORES[rows], TARGET[rows], rows)
    return evaluator


def update(evaluator, other):
    evaluator.update(SCORES[2:], TARGET[2:], ROWS[2:])


def forward(evaluator, other):
    evaluator.forward(SCORES[2:], TARGET[2:], ROWS[2:])


def merge(evaluator, other):
    evaluator.merge(other)


def load(evaluator, other):
    evaluator.load_state_dict(other.state_dict())


@pytest.mark.parametrize(
    ("metrics", "settings", "action"),
    [
        (["nDCG", "Gini", "AUC(scope=pooled)"], {}, update),
        (["Recall", Keeper(2)], {"bootstrap": 5, "extra_users": "skip"}, update),
        pytest.param(["nDCG", Keeper(2)], {}, forward, marks=pytest.mark.slow),
        (["Recall", "Gini"], {}, merge),
        (["Recall", Keeper(2)], {}, load),
    ],
    ids=["update", "contributions", "forward", "merge", "load"],
)
def test_interrupts_leave_a_batch_whole_or_out(metrics, settings, action):
    start, other = (evaluate_rows(rows, metrics, **settings) for rows in (ROWS[:2], ROWS[2:]))
    after = start.clone()
    action(after, other)  # also fills caches, so that every later pass runs the same lines
    expected = [plain(evaluator.get_extra_state()) for evaluator in (start, after)]
    assert expected[0] != expected[1]
    outcomes, line = set(), 0
    while True:
        line += 1
        evaluator = start.clone()
        place = stop_at(line, partial(action, evaluator, other), files=FILES)
        if place is None:
            break
        found = plain(evaluator.get_extra_state())
        assert found in expected, place
        outcomes.add(expected.index(found))
    assert 0 in outcomes and line > 100

"""Metrics and evaluators inside of code that `torch.compile` traces."""

import contextlib
import subprocess
import sys

import pytest
import torch

import weft
from weft.errors import InputError, SettingError

SCORES = torch.rand(12, 30, generator=torch.Generator().manual_seed(5))
TARGET = torch.randint(0, 30, (12,), generator=torch.Generator().manual_seed(6))
pytestmark = pytest.mark.slow  # importing the compiler takes seconds
MODES = pytest.mark.parametrize(
    "mode", [contextlib.nullcontext, torch.no_grad, torch.inference_mode]
)


@pytest.fixture(autouse=True)
def _new_compiler():
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def compile_step(step, **options):
    return torch.compile(step, backend="aot_eager", **options)


@MODES
@pytest.mark.parametrize("ties", ["index", "random", "optimistic", "pessimistic"])
def test_ranks_compile_without_a_graph_break(mode, ties):
    def step(scores, target):
        return weft.get_topk_ranks(scores.round(decimals=1), target, 5, ties=ties, seed=3)

    with mode():
        ranks = compile_step(step, fullgraph=True)(SCORES, TARGET)
        assert torch.equal(ranks, step(SCORES, TARGET)) and ranks.shape == (12, 1)
    with pytest.raises(SettingError, match="topk=5"):  # the ranks remember where they were cut
        weft.HR(k=6).update(ranks)


def test_compiled_ranks_check_their_arguments():
    step = compile_step(lambda scores, target: weft.get_topk_ranks(scores, target, 5))
    with pytest.raises(InputError, match="target contains the item 50"):
        step(SCORES, TARGET + 30)
    with pytest.raises(InputError, match="NaN"):
        step(SCORES * torch.nan, TARGET)


class HitSum(weft.TopKMetric):
    """A metric with states of its own, which reads blocks."""

    _REQUIRED_COMPONENTS = {weft.MetricBlock.TOP_K_BINARY_RELEVANCE}

    def __init__(self, k, **settings):
        super().__init__(k, **settings)
        self.add_state("total", torch.zeros(()), dist_reduce_fx="sum")

    def update(self, preds, **blocks):
        self.total += blocks[f"top_{self.k}_binary_relevance"].sum()

    def compute(self):
        return self.total


@MODES
@pytest.mark.parametrize(
    "build",
    [
        lambda: weft.metrics.nDCG(k=5),
        lambda: HitSum(k=5),
        lambda: weft.Evaluator(["nDCG@5", "Gini@5", "AUC"], num_items=30, per_user=True),
    ],
)
def test_updates_inside_a_compiled_step(mode, build):
    compiled, eager = build(), build()
    batches = [(SCORES, TARGET), (SCORES.flip(0), TARGET), (SCORES[:7], TARGET[:7])]

    def step(metric, scores, target):
        scores = scores * 2
        metric.update(scores, target[:, None])
        return scores.sum()

    run = compile_step(step)
    with mode():
        for scores, target in batches:
            assert run(compiled, scores, target) == step(eager, scores, target)
        values = [metric.compute() for metric in (compiled, eager)]
    assert values[0] == values[1]


def test_the_compiler_is_not_imported_without_need():
    code = (
        "import sys, torch, weft\n"
        "weft.Evaluator(['nDCG@2']).update(torch.rand(3, 4), [[1], [2], [0]])\n"
        "metric = weft.metrics.nDCG(k=2)\n"
        "metric.update(torch.rand(3, 4), [[1], [2], [0]])\n"
        "weft.get_topk_ranks(torch.rand(3, 4), torch.tensor([1, 2, 0]), 2)\n"
        "assert 'torch._dynamo' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)

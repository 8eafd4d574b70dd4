"""Evaluation in several processes of torch.distributed: each evaluates its share of the users.

An `Evaluator` in a loop does not need this module: its `compute` synchronizes the states of all
processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import torch.distributed as dist
from torch.utils.data import Sampler

from weft.errors import InputError, SettingError, check_int, setting_ref
from weft.evaluation.api import bind_arguments
from weft.evaluation.api import evaluate as evaluate_alone
from weft.evaluation.arguments import read_arguments
from weft.evaluation.prepared import PreparedEvaluation
from weft.evaluation.result import Result
from weft.evaluation.state import check_compatible, num_processes

if TYPE_CHECKING:
    from weft.evaluation.argument_types import EvaluationSource, Interactions

__all__ = ["ShareSampler", "evaluate"]

T = TypeVar("T")


def evaluate(source: EvaluationSource, truth: Interactions, **settings: Any) -> Result:
    """Evaluate on all processes of torch.distributed.

    All processes must call it with the same arguments. Each process reads the data and evaluates
    some of the users, and a model scores only these. An error in one process is raised in all
    processes.

    Parameters
    ----------
    source
        Scores or recommendation lists of the model, as in `weft.evaluate`.
    truth
        Test interactions (ground truth), as in `weft.evaluate`.
    settings
        Other keyword arguments of `weft.evaluate`.

    Returns
    -------
    Result
        The result of all users, the same in every process.

    Examples
    --------
    >>> from weft.engines import distributed
    >>> result = distributed.evaluate({"ann": ["a"]}, {"ann": ["a"]}, metrics="HitRate@1")
    >>> result["HitRate@1"]  # one process, without torchrun
    1.0
    """
    arguments = bind_arguments(source, truth, settings)
    rank, number = process_rank(), num_processes()
    if number == 1:
        return evaluate_alone(source, truth, **settings)
    if arguments["checkpoint"] is not None:
        arguments["checkpoint"] = f"{arguments['checkpoint']}.{rank}-of-{number}"
    arguments["progress"] = arguments["progress"] and rank == 0

    run = _run_on_all(lambda: PreparedEvaluation(*read_arguments(arguments)).start(source))
    identities = _gather_objects(run.identity())
    for other, identity in enumerate(identities):
        check_compatible(
            identities[0], identity, f"cannot merge processes (rank 0 and {other}) that"
        )
    _run_on_all(lambda: run.run((rank, number)))
    for other, state in enumerate(_gather_objects(run.candidates.state())):
        if other != rank:
            run.candidates.merge(state)
    run.evaluator.sync_on_compute = True
    return run.result()


def _gather_objects(value: T) -> list[T]:
    """Return the values of all processes, by rank."""
    values: list[Any] = [None] * num_processes()
    dist.all_gather_object(values, value)
    return values


def _run_on_all(function: Callable[[], T]) -> T:
    """Call a function on each process; raise an error on all if it fails on one.

    Otherwise the other processes would wait for the failed one.
    """
    result, error = None, None
    try:
        result = function()
    except Exception as raised:
        error = raised
    messages = _gather_objects(None if error is None else str(error) or type(error).__name__)
    if error is not None:
        raise error
    for rank, message in enumerate(messages):
        if message is not None:
            raise InputError(f"the evaluation failed on rank {rank}: {message}")
    return result  # type: ignore[return-value]


def process_rank() -> int:
    """Return the rank of this process, 0 without torch.distributed."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


@contextmanager
def process_group() -> Iterator[None]:
    """Open the process group of torchrun while the block runs; do nothing without torchrun."""
    if not dist.is_available() or not dist.is_torchelastic_launched() or dist.is_initialized():
        yield
        return
    dist.init_process_group("gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


class ShareSampler(Sampler[int]):
    """A sampler of the rows of a data set that belong to this process.

    Each row belongs to exactly one process. `torch.utils.data.DistributedSampler` repeats rows
    until all processes have the same number, so that some users count twice. With this sampler, the
    numbers of rows of two processes can differ by one, which is harmless as long as no collective
    operation runs per batch.

    Parameters
    ----------
    rows
        The data set, or another object with a length.
    rank
        Rank of the process. Default: that of torch.distributed.
    number
        Number of processes. Default: that of torch.distributed.

    Examples
    --------
    >>> from weft.engines.distributed import ShareSampler
    >>> [list(ShareSampler(range(5), rank=rank, number=2)) for rank in (0, 1)]
    [[0, 2, 4], [1, 3]]
    """

    def __init__(self, rows: Sized, *, rank: int | None = None, number: int | None = None) -> None:
        self._num_rows = len(rows)
        self._number = num_processes() if number is None else check_int("number", number)
        self._rank = process_rank() if rank is None else check_int("rank", rank, least=0)
        if self._rank >= self._number:
            raise SettingError(
                f"{setting_ref('rank', self._rank)} is out of range: there are {self._number} "
                f"processes, with ranks 0 to {self._number - 1}."
            )

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._rank, self._num_rows, self._number))

    def __len__(self) -> int:
        return len(range(self._rank, self._num_rows, self._number))

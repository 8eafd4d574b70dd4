"""Several processes of torch.distributed: each evaluates its share of the users, and all get the
same result.

An `Evaluator` in a loop needs none of this: its `compute` puts together what all processes have
met."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager
from typing import Any, TypeVar

import torch.distributed as dist
from torch.utils.data import Sampler

from weft.errors import InputError, SettingError, check_int
from weft.evaluation.api import evaluate as evaluate_alone
from weft.evaluation.api import read_arguments
from weft.evaluation.result import Result
from weft.evaluation.runner import build_run
from weft.evaluation.state import check_compatible, num_processes

T = TypeVar("T")


def evaluate(source: Any, truth: Any, **settings: Any) -> Result:
    """`weft.evaluate`, shared out among all processes of torch.distributed. All must call it, with
    the same arguments.

    Each process reads the data, evaluates its share of the users, and gets the result of all of
    them. A model is asked only for the users of the share. Where an error stops one process, it
    stops all."""
    bound = inspect.signature(evaluate_alone).bind(source, truth, **settings)
    bound.apply_defaults()
    arguments = dict(bound.arguments)
    rank, number = this_process(), num_processes()
    if number == 1:
        return evaluate_alone(source, truth, **settings)
    if arguments["checkpoint"] is not None:
        arguments["checkpoint"] = f"{arguments['checkpoint']}.{rank}-of-{number}"
    arguments["progress"] = arguments["progress"] and rank == 0

    job = _all_or_none(lambda: build_run(*read_arguments(arguments)))
    everyone: list[Any] = [None] * number
    dist.all_gather_object(everyone, job.identity())
    for other, theirs in enumerate(everyone):
        check_compatible(everyone[0], theirs, f"cannot merge processes (rank 0 and {other}) that")
    _all_or_none(lambda: job.run((rank, number)))
    counted: list[Any] = [None] * number
    dist.all_gather_object(counted, job.candidates.state())
    for other, theirs in enumerate(counted):
        if other != rank:
            job.candidates.merge(theirs)
    job.evaluator.sync_on_compute = True
    return job.result()


def _all_or_none(work: Callable[[], T]) -> T:
    """What each process does by itself; an error in one is an error in all, so that nobody waits
    for it.
    """
    found, error = None, None
    try:
        found = work()
    except Exception as raised:
        error = raised
    said: list[str | None] = [None] * num_processes()
    dist.all_gather_object(said, None if error is None else str(error) or type(error).__name__)
    if error is not None:
        raise error
    for rank, message in enumerate(said):
        if message is not None:
            raise InputError(
                f"rank {rank} of the processes that evaluate together stopped: {message}"
            )
    return found  # type: ignore[return-value]


def this_process() -> int:
    """The rank of this process: 0 where it is alone."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


@contextmanager
def joined() -> Iterator[None]:
    """The processes that torchrun started work together; without torchrun, this process alone."""
    if not dist.is_available() or not dist.is_torchelastic_launched() or dist.is_initialized():
        yield
        return
    dist.init_process_group("gloo")
    try:
        yield
    finally:
        dist.destroy_process_group()


class ShareSampler(Sampler[int]):
    """The rows of a data set that are this process's, each row on one process: for evaluation,
    where repeating rows is wrong.

    `torch.utils.data.DistributedSampler` repeats rows until all processes have as many, so that
    some users count twice. Here processes may have one row more or less than others, or none. That
    is harmless as long as no collective runs per batch.

    >>> from weft.engines.distributed import ShareSampler
    >>> [list(ShareSampler(range(5), rank=rank, number=2)) for rank in (0, 1)]
    [[0, 2, 4], [1, 3]]
    """

    def __init__(self, rows: Sized, *, rank: int | None = None, number: int | None = None) -> None:
        self._rows = len(rows)
        self._number = num_processes() if number is None else check_int("number", number)
        self._rank = this_process() if rank is None else check_int("rank", rank, least=0)
        if self._rank >= self._number:
            raise SettingError(
                f"rank={self._rank} is not one of {self._number} processes, which are 0 to "
                f"{self._number - 1}."
            )

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._rank, self._rows, self._number))

    def __len__(self) -> int:
        return len(range(self._rank, self._rows, self._number))

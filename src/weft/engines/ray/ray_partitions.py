"""Partitions in the object store of Ray, and tasks that work on them."""

from __future__ import annotations

import os
import pickle
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from weft.engines.partitioned.partitions import Partition, Partitions
from weft.errors import EngineError, InputError, WeftError

if TYPE_CHECKING:
    import polars as pl

    from weft.engines.ray.model_actors import Pool

S = TypeVar("S")
T_co = TypeVar("T_co", covariant=True)

RETRIES = 3  # of what was lost with its worker
_FAN_IN = 8  # results that are joined by one task


@dataclass(frozen=True)
class Packed:
    """Something pickled, with its arrays apart, which are not copied into the object store twice.

    Ray would give back arrays that cannot be written to: torch warns of them, and a write that goes
    wrong ends the process."""

    pickled: bytes
    arrays: list[pickle.PickleBuffer]

    @classmethod
    def of(cls, value: Any) -> Packed:
        """Packed by value where workers cannot import it."""
        from ray import cloudpickle

        arrays: list[pickle.PickleBuffer] = []
        pickled: bytes = cloudpickle.dumps(value, protocol=5, buffer_callback=arrays.append)  # type: ignore[no-untyped-call]
        return cls(pickled, arrays)

    def open(self) -> Any:
        """Another one of what was packed."""
        return pickle.loads(self.pickled, buffers=[bytearray(array) for array in self.arrays])


def sent(value: Any) -> Any:
    """A reference to something that tasks will open."""
    import ray

    try:
        return ray.put(Packed.of(value))
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise InputError(
            f"what the workers need cannot be sent to them: {first_line(error)}. A model that "
            "cannot be pickled is given as a "
            "class, which each worker constructs, or as Ray actors that hold it."
        ) from error


@dataclass(frozen=True)
class Failed:
    """What was raised in a task, as a value: Ray itself would log it for every task that fails, and
    for every one behind it.
    """

    pickled: bytes
    traceback: str

    def again(self) -> Exception:
        """The same here."""
        error: Exception = pickle.loads(self.pickled)
        if not isinstance(error, WeftError):
            error.add_note(f"In a worker of Ray:\n{self.traceback}")
        return error


def attempted(task: Callable[..., S], *given: Any) -> S | Failed:
    """What comes of a task, or of one that it needs, if that has failed."""
    from ray import cloudpickle

    settle()
    if failed := next((one for one in given if isinstance(one, Failed)), None):
        return failed
    try:
        return task(*given)
    except Exception as error:
        told = "".join(traceback.format_exception(error))
        try:
            pickled = cloudpickle.dumps(error)  # type: ignore[no-untyped-call]
            pickle.loads(pickled)
        except Exception:  # it cannot travel
            pickled = pickle.dumps(EngineError(f"{type(error).__name__}: {error}"))
        return Failed(pickled, told)


def _work(*given: Any) -> tuple[Failed | None, Packed | Failed]:
    """Do something with a part. The first of the two things that come back says whether it is done."""
    found = attempted(_worked, *given)
    return found if isinstance(found, Failed) else None, found


def _worked(work: Packed, opening: Packed, *pieces: Any) -> Packed:
    return Packed.of(work.open()(opening.open()(*pieces)))


def joined(*given: Any) -> Packed | Failed:
    """Put some results together."""
    return attempted(_joined, *given)


def _joined(join: Packed, *found: Packed) -> Packed:
    return Packed.of(join.open()([one.open() for one in found]))


def all_right(done: list[Any]) -> None:
    """Fetch whether some tasks are done; raises what they raised."""
    import ray

    for failed in ray.get(done):
        if failed is not None:
            raise failed.again()


def as_part(arguments: Sequence[tuple[str, int]], *pieces: Any) -> Partition:
    """The tables of a part from their pieces: so many of each argument, in this order."""
    import polars as pl

    frames, start = {}, 0
    for argument, number in arguments:
        frames[argument] = pl.concat(
            [from_arrow(piece) for piece in pieces[start : start + number]], rechunk=True
        )
        start += number
    return Partition(frames)


def with_source(
    opening: Callable[..., Partition], number: int, make: Callable[..., Any], *pieces: Any
) -> Partition:
    """A part whose last pieces make its source."""
    return replace(opening(*pieces[:-number]), source=make(*pieces[-number:]))


class RayPartitions(Partitions[T_co]):
    """Partitions in Ray's object store. `opening` makes of the `pieces` of a part what work is done
    with.
    """

    def __init__(
        self,
        opening: Callable[..., T_co],
        pieces: list[tuple[Any, ...]],
        *,
        pool: Pool | None = None,
        gpus: float = 0,
    ) -> None:
        self._opening, self._pieces, self._pool, self._gpus = opening, pieces, pool, gpus

    def map(self, work: Callable[[T_co], S]) -> Partitions[S]:
        return RayPartitions(Packed.open, [(found,) for found in self._each(work)], pool=self._pool)

    def map_reduce(self, work: Callable[[T_co], S], join: Callable[[list[S]], S]) -> S:
        import ray

        found, packed = self._each(work), sent(join)
        task: Any = ray.remote(max_retries=RETRIES)(joined)
        with own_errors():
            while True:
                some = [found[start : start + _FAN_IN] for start in range(0, len(found), _FAN_IN)]
                found = [
                    task.remote(packed, *few)
                    if self._pool is None
                    else self._pool.join(packed, few, number)
                    for number, few in enumerate(some)
                ]
                if len(found) == 1:
                    one = ray.get(found[0])
                    if isinstance(one, Failed):
                        raise one.again()
                    result: S = one.open()
                    return result

    def release(self) -> None:
        self._pieces.clear()

    def _each(self, work: Callable[[T_co], S]) -> list[Any]:
        """References to what comes of each part, when all are done."""
        import ray

        packed, opening = sent(work), sent(self._opening)
        if self._pool is not None:
            return self._pool.start(packed, opening, self._pieces)
        task = ray.remote(max_retries=RETRIES, num_returns=2, num_gpus=self._gpus)(_work)
        started = [task.remote(packed, opening, *pieces) for pieces in self._pieces]
        pending = [done for done, _ in started]
        with own_errors():
            try:
                while pending:
                    ready, pending = ray.wait(pending, num_returns=1, fetch_local=False)
                    all_right(ready)
            except BaseException:
                for done in pending:  # nobody waits for them
                    ray.cancel(done)
                raise
        return [found for _, found in started]


@contextmanager
def own_errors() -> Iterator[None]:
    """What was raised inside a task is raised here as what it is."""
    from ray.exceptions import (
        ActorDiedError,
        OutOfMemoryError,
        RayError,
        RayTaskError,
        WorkerCrashedError,
    )

    try:
        yield
    except RayError as error:
        cause: BaseException | None = error
        while isinstance(cause, RayTaskError):
            cause = cause.cause
        if isinstance(cause, WeftError):
            raise cause from None
        if isinstance(cause, Exception) and not isinstance(cause, RayError):
            raise cause from error
        died = isinstance(cause, (WorkerCrashedError, ActorDiedError, OutOfMemoryError))
        what = "a worker died each time that this was tried" if died else "Ray could not go on"
        raise EngineError(f"{what}: {first_line(cause or error)}.") from error


def settle() -> None:
    """One thread for each CPU that the task has; polars asks for their number when it is first
    imported.
    """
    import ray

    context: Any = ray.get_runtime_context()
    cpus = max(1, int(context.get_assigned_resources().get("CPU", 1)))
    os.environ.setdefault("POLARS_MAX_THREADS", str(cpus))
    if torch.get_num_threads() != cpus:
        torch.set_num_threads(cpus)


def first_line(error: BaseException) -> str:
    """What an error says first, without its full stop."""
    return (str(error).strip().partition("\n")[0] or type(error).__name__).rstrip(".")


def to_arrow(frame: pl.DataFrame) -> Any:
    """A table that Ray stores without copying it again; text in a form that holds nothing of other
    rows.
    """
    import polars as pl

    return frame.to_arrow(compat_level=pl.CompatLevel.oldest())


def from_arrow(table: Any) -> pl.DataFrame:
    """The same table, which is not copied."""
    import polars as pl

    found = pl.from_arrow(table)
    assert isinstance(found, pl.DataFrame)
    return found

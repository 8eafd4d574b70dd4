"""Partitions in the object store of Ray, and the tasks that process them."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from weft.engines.partitioned.partitions import Partition, Partitions, first_line, use_cores
from weft.errors import EngineError, InputError, WeftError
from weft.evaluation.progress import ShowProgress, progress_bar

if TYPE_CHECKING:
    import polars as pl

    from weft.engines.ray.model_actors import ModelPool

S = TypeVar("S")
T_co = TypeVar("T_co", covariant=True)

RETRIES = 3  # of a task after the loss of its worker
_FAN_IN = 8  # results that one task, or the driver, combines


@dataclass(frozen=True)
class PickledValue:
    """A pickled value with its arrays out of band, which the object store does not copy twice.

    Arrays that Ray itself returns are read-only: torch warns about them, and writing to one can
    crash the process. `unpack` returns writable arrays.
    """

    content: bytes
    arrays: list[pickle.PickleBuffer]

    @classmethod
    def pack(cls, value: Any) -> PickledValue:
        """Pickle a value; objects that workers cannot import are pickled by value."""
        from ray import cloudpickle

        arrays: list[pickle.PickleBuffer] = []
        content: bytes = cloudpickle.dumps(value, protocol=5, buffer_callback=arrays.append)  # type: ignore[no-untyped-call]
        return cls(content, arrays)

    def unpack(self) -> Any:
        """Return a new copy of the value."""
        return pickle.loads(self.content, buffers=[bytearray(array) for array in self.arrays])


def put_pickled(value: Any) -> Any:
    """Return a reference to a `PickledValue` in the object store."""
    import ray

    try:
        return ray.put(PickledValue.pack(value))
    except (TypeError, AttributeError, pickle.PicklingError) as error:
        raise InputError(
            f"the inputs cannot be sent to the workers: {first_line(error)}. Give a model that "
            "cannot be pickled as a class, which each worker constructs, or as Ray actors."
        ) from error


@dataclass(frozen=True)
class TaskError:
    """An error in a task, as its return value: Ray would log an exception for every later task."""

    content: bytes  # the pickled exception
    traceback: str

    def to_exception(self) -> Exception:
        """Return the exception, with the traceback of the worker if it is not one of Weft."""
        error: Exception = pickle.loads(self.content)
        if not isinstance(error, WeftError):
            error.add_note(f"In a worker of Ray:\n{self.traceback}")
        return error


def run_task(function: Callable[..., S], *args: Any) -> S | TaskError:
    """Call a function inside a task; return the error of the task, or of one that it depends on."""
    from ray import cloudpickle

    set_thread_counts()
    if failed := next((value for value in args if isinstance(value, TaskError)), None):
        return failed
    try:
        return function(*args)
    except Exception as error:
        text = "".join(traceback.format_exception(error))
        try:
            content = cloudpickle.dumps(error)  # type: ignore[no-untyped-call]
            pickle.loads(content)
        except Exception:  # the exception cannot be pickled
            content = pickle.dumps(EngineError(f"{type(error).__name__}: {error}"))
        return TaskError(content, text)


def split_error(result: Any) -> tuple[TaskError | None, Any]:
    """Return the error of `run_task`, which is small, and its result: two values of a task."""
    return result if isinstance(result, TaskError) else None, result


def _process(*args: Any) -> tuple[TaskError | None, Any]:
    return split_error(run_task(_apply, *args))


def _apply(function: PickledValue, build: PickledValue, *pieces: Any) -> PickledValue:
    return PickledValue.pack(function.unpack()(build.unpack()(*pieces)))


def combine_results(combine: PickledValue, *results: PickledValue) -> PickledValue:
    """Combine some results with a function."""
    return PickledValue.pack(combine.unpack()([result.unpack() for result in results]))


def build_partition(num_pieces: Sequence[tuple[str, int]], *pieces: Any) -> Partition:
    """Return a partition from its pieces, ordered by input; `num_pieces` is (input, number)."""
    import polars as pl

    frames, start = {}, 0
    for argument, number in num_pieces:
        frames[argument] = pl.concat(
            [from_arrow(piece) for piece in pieces[start : start + number]], rechunk=True
        )
        start += number
    return Partition(frames)


def add_source(
    build: Callable[..., Partition], number: int, make_source: Callable[..., Any], *pieces: Any
) -> Partition:
    """Return a partition with a source, which is made of the last `number` pieces."""
    return replace(build(*pieces[:-number]), source=make_source(*pieces[-number:]))


class RayPartitions(Partitions[T_co]):
    """Values in Ray's object store, one per partition.

    `build` makes the value of a partition from its pieces. With a pool, its actors process the
    partitions; else tasks do.
    """

    def __init__(
        self,
        build: Callable[..., T_co],
        pieces: list[tuple[Any, ...]],
        *,
        pool: ModelPool | None = None,
        gpus: float = 0,
        progress: bool = False,
    ) -> None:
        self._build, self._pieces, self._pool, self._gpus = build, pieces, pool, gpus
        self._progress = progress

    def map(self, function: Callable[[T_co], S]) -> Partitions[S]:
        results = [(result,) for result in self._start(function)]
        return RayPartitions(PickledValue.unpack, results, pool=self._pool, progress=self._progress)

    def map_reduce(self, function: Callable[[T_co], S], combine: Callable[[list[S]], S]) -> S:
        import ray

        packed, results = put_pickled(combine), self._start(function)
        with unwrap_ray_errors():
            while len(results) > _FAN_IN:
                results = self._combine_level(results, packed)
            values = ray.get(results)
        if failed := next((value for value in values if isinstance(value, TaskError)), None):
            raise failed.to_exception()
        return combine([value.unpack() for value in values])

    def _combine_level(self, results: list[Any], combine: Any) -> list[Any]:
        """Combine groups of at most `_FAN_IN` results; return references."""
        import ray

        groups = [results[start : start + _FAN_IN] for start in range(0, len(results), _FAN_IN)]
        if self._pool is not None:
            return [self._pool.combine(combine, group, i) for i, group in enumerate(groups)]
        task: Any = ray.remote(max_retries=RETRIES)(run_task)
        return [task.remote(combine_results, combine, *group) for group in groups]

    def release(self) -> None:
        self._pieces.clear()

    def _start(self, function: Callable[[T_co], S]) -> list[Any]:
        """Return references to the result of each partition, when all are finished."""
        packed, build = put_pickled(function), put_pickled(self._build)
        with progress_bar("partitions on Ray", is_enabled=self._progress) as show:
            if self._pool is not None:
                return self._pool.process(packed, build, self._pieces, show)
            return self._run_tasks(packed, build, show)

    def _run_tasks(self, packed: Any, build: Any, show: ShowProgress) -> list[Any]:
        import ray

        task = ray.remote(max_retries=RETRIES, num_returns=2, num_gpus=self._gpus)(_process)
        started = [task.remote(packed, build, *pieces) for pieces in self._pieces]
        pending = [error for error, _ in started]
        with unwrap_ray_errors():
            try:
                while pending:
                    ready, pending = ray.wait(pending, num_returns=1, fetch_local=False)
                    if (failed := ray.get(ready[0])) is not None:
                        raise failed.to_exception()
                    show(len(started) - len(pending), len(started))
            except BaseException:
                for error in pending:
                    ray.cancel(error)
                raise
        return [result for _, result in started]


@contextmanager
def unwrap_ray_errors() -> Iterator[None]:
    """Raise the exception of a task instead of Ray's wrapper around it."""
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
        what = "a worker died at every attempt" if died else "Ray stopped"
        raise EngineError(f"{what}: {first_line(cause or error)}.") from error


def set_thread_counts() -> None:
    """Use one thread per CPU of the task."""
    import ray

    context: Any = ray.get_runtime_context()
    use_cores(max(1, int(context.get_assigned_resources().get("CPU", 1))))


def to_arrow(frame: pl.DataFrame) -> Any:
    """Return an Arrow table that Ray stores without a copy; its strings hold no other rows."""
    import polars as pl

    return frame.to_arrow(compat_level=pl.CompatLevel.oldest())


def from_arrow(table: Any) -> pl.DataFrame:
    """Return an Arrow table as a frame, without a copy."""
    import polars as pl

    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame)
    return frame

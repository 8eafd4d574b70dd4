"""Parts in the object store of Ray, and tasks that work on them."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import torch

from weft.engines.parts import Part
from weft.errors import EngineError, InputError, WeftError

if TYPE_CHECKING:
    import polars as pl

    from weft.engines.ray.models import Pool

T = TypeVar("T")
S = TypeVar("S")

RETRIES = 3  # of what was lost with its worker
_FAN_IN = 8  # results that are joined by one task


@dataclass(frozen=True)
class Packed:
    """Something pickled by value, which is unpickled when it is asked for: large arrays in it are read where they lie."""

    pickled: bytes
    buffers: list[pickle.PickleBuffer]

    @classmethod
    def of(cls, value: Any) -> Any:
        """A reference to it in the object store."""
        import ray
        from ray import cloudpickle

        buffers: list[pickle.PickleBuffer] = []
        try:
            pickled = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
        except (TypeError, pickle.PicklingError, AttributeError) as error:
            raise InputError(
                f"what the workers need cannot be sent to them: {first_line(error)}. A model that cannot be pickled is given as a "
                "class, which each worker constructs, or as Ray actors that hold it."
            ) from error
        return ray.put(cls(pickled, buffers))

    def open(self, *, writable: bool = False) -> Any:
        """What was packed; arrays can be written to only if asked for, which copies them."""
        return pickle.loads(self.pickled, buffers=[bytearray(one) for one in self.buffers] if writable else self.buffers)


def _work(work: Packed, opening: Packed, *pieces: Any) -> tuple[None, Any]:
    """Do something with a part. The first of the two things that come back says that it is done."""
    settle()
    return None, work.open()(opening.open()(*pieces))


def _join(join: Packed, *found: Any) -> Any:
    settle()
    return join.open()(list(found))


def _same(found: T) -> T:
    return found


def as_part(arguments: Sequence[tuple[str, int]], *pieces: Any) -> Part:
    """The tables of a part from their pieces: so many of each argument, in this order."""
    import polars as pl

    frames, start = {}, 0
    for argument, number in arguments:
        frames[argument] = pl.concat([from_arrow(piece) for piece in pieces[start : start + number]], rechunk=True)
        start += number
    return Part(frames)


def with_source(opening: Callable[..., Part], number: int, make: Callable[..., Any], *pieces: Any) -> Part:
    """A part whose last pieces make its source."""
    return replace(opening(*pieces[:-number]), source=make(*pieces[-number:]))


class RayParts(Generic[T]):
    """Parts in Ray's object store. `opening` makes of the `pieces` of a part what work is done with."""

    def __init__(
        self, opening: Callable[..., T], pieces: list[tuple[Any, ...]], *, pool: Pool | None = None, gpus: float = 0
    ) -> None:
        self._opening, self._pieces, self._pool, self._gpus = opening, pieces, pool, gpus

    def keep(self, work: Callable[[T], S]) -> RayParts[S]:
        return RayParts(_same, [(found,) for found in self._each(work)])

    def merged(self, work: Callable[[T], S], join: Callable[[list[S]], S]) -> S:
        import ray

        found, packed, task = self._each(work), Packed.of(join), ray.remote(max_retries=RETRIES)(_join)
        with own_errors():
            while True:
                some = [found[start : start + _FAN_IN] for start in range(0, len(found), _FAN_IN)]
                found = [task.remote(packed, *few) for few in some]
                if len(found) == 1:
                    one: S = ray.get(found[0])
                    return one

    def release(self) -> None:
        self._pieces.clear()

    def _each(self, work: Callable[[T], S]) -> list[Any]:
        """References to what comes of each part, when all are done."""
        import ray

        packed, opening = Packed.of(work), Packed.of(self._opening)
        if self._pool is not None:
            return self._pool.start(packed, opening, self._pieces)
        task = ray.remote(max_retries=RETRIES, num_returns=2, num_gpus=self._gpus)(_work)
        started = [task.remote(packed, opening, *pieces) for pieces in self._pieces]
        pending = [done for done, _ in started]
        with own_errors():
            try:
                while pending:
                    ready, pending = ray.wait(pending, num_returns=1, fetch_local=False)
                    ray.get(ready)
            except BaseException:
                for done in pending:  # nobody waits for them
                    ray.cancel(done)
                raise
        return [found for _, found in started]


@contextmanager
def own_errors() -> Iterator[None]:
    """What was raised inside a task is raised here as what it is."""
    from ray.exceptions import RayError, RayTaskError

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
        raise EngineError(f"Ray could not do it, tried {RETRIES + 1} times: {first_line(cause or error)}.") from error


def settle() -> None:
    """One thread for each CPU that the task has; polars asks for their number when it is first imported."""
    import ray

    cpus = max(1, int(ray.get_runtime_context().get_assigned_resources().get("CPU", 1)))
    os.environ.setdefault("POLARS_MAX_THREADS", str(cpus))
    if torch.get_num_threads() != cpus:
        torch.set_num_threads(cpus)


def first_line(error: BaseException) -> str:
    """What an error says first, without its full stop."""
    return (str(error).strip().partition("\n")[0] or type(error).__name__).rstrip(".")


def to_arrow(frame: pl.DataFrame) -> Any:
    """A table that Ray stores without copying it again; text in a form that holds nothing of other rows."""
    import polars as pl

    return frame.to_arrow(compat_level=pl.CompatLevel.oldest())


def from_arrow(table: Any) -> pl.DataFrame:
    """The same table, which is not copied."""
    import polars as pl

    found = pl.from_arrow(table)
    assert isinstance(found, pl.DataFrame)
    return found

"""Models on the workers of Ray: in a pool of actors, or as factors sent with the partitions."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from weft.data.readers.file_settings import is_matrix_file
from weft.data.recommendations import are_lists
from weft.data.sources import Factors, Model, Scores, open_source
from weft.data.sources.matrix import ScoreMatrix
from weft.engines.partitioned.partitions import Partition
from weft.engines.partitioned.user_split import hash_checksum, split_by_user
from weft.engines.ray.ray_partitions import (
    RETRIES,
    PickledValue,
    RayPartitions,
    TaskError,
    add_source,
    combine_results,
    from_arrow,
    put_pickled,
    run_task,
    set_thread_counts,
    split_error,
    unwrap_ray_errors,
)
from weft.errors import InputError, setting_ref
from weft.evaluation.progress import ShowProgress

if TYPE_CHECKING:
    import polars as pl


class _ModelActor:
    """An actor with a model: unpickled, constructed, or a proxy of another actor.

    `reference` is a list with a reference to the model or an actor handle; Ray resolves references
    only at the top level.
    """

    def __init__(self, reference: list[Any]) -> None:
        self._reference = reference

    def process(self, *args: Any) -> tuple[TaskError | None, PickledValue | TaskError]:
        """Apply a function to a partition; return its error, or None, and its result."""
        return split_error(run_task(self._apply, *args))

    def _apply(self, function: PickledValue, build: PickledValue, *pieces: Any) -> PickledValue:
        value = build.unpack()(*pieces)
        if isinstance(value, Partition):
            value = replace(value, source=self._model)
        return PickledValue.pack(function.unpack()(value))

    def combine(self, *args: Any) -> PickledValue | TaskError:
        """Combine some results."""
        return run_task(combine_results, *args)

    def count_items(self, users: Any) -> int:
        """Return the number of columns of the model's scores."""
        set_thread_counts()
        ids = from_arrow(users)["user"]
        return Model(self._model).probe(0, len(ids), ids)

    @cached_property
    def _model(self) -> Any:
        # Not loaded in the constructor, since Ray does not return errors of constructors.
        import ray

        (reference,) = self._reference
        if isinstance(reference, ray.actor.ActorHandle):
            return _ActorModel(reference)
        loaded = ray.get(reference).unpack()
        return loaded() if isinstance(loaded, type) else loaded


class _ActorModel:
    """A model that forwards `score` to an actor."""

    def __init__(self, handle: Any) -> None:
        def score(users: Any, **items: Any) -> Any:
            import ray

            with unwrap_ray_errors():
                return ray.get(handle.score.remote(users, **items))

        # Ray has no public way to read the signature of a method.
        known = getattr(handle, "_ray_method_signatures", {}).get("score", ())
        parameters = [inspect.Parameter("users", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
        parameters += [
            inspect.Parameter("items", inspect.Parameter.KEYWORD_ONLY, default=each.default)
            for each in known
            if each.name == "items"
        ]
        score.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        self.score = score


class ModelPool:
    """Actors with the model, which process partitions whenever they are free."""

    def __init__(self, source: Any, handles: Sequence[Any], workers: int, gpus: float) -> None:
        import ray

        # Without stated needs, actors hold no CPU while idle, so that tasks do not wait for them.
        needs: dict[str, Any] = {"num_gpus": gpus, "num_cpus": 0} if gpus else {}
        options: Any = {
            "max_restarts": -1,
            "max_task_retries": RETRIES,
            "scheduling_strategy": "SPREAD",
            **needs,
        }
        kind: Any = ray.remote(**options)(_ModelActor)
        self._models = list(handles) or [put_pickled(source)]
        self._actors = [
            kind.remote([self._models[index % len(self._models)]]) for index in range(workers)
        ]

    def process(
        self,
        function: Any,
        build: Any,
        partitions: Sequence[tuple[Any, ...]],
        show: ShowProgress,
    ) -> list[Any]:
        """Return references to the result of each partition, when all are finished."""
        from ray.util import ActorPool

        results: list[Any] = [None] * len(partitions)

        def start(actor: Any, index: int) -> Any:
            call = actor.process.options(num_returns=2)
            error, results[index] = call.remote(function, build, *partitions[index])
            return error

        # Each actor has up to two calls, so that pieces are transferred while it computes.
        queue: Any = ActorPool([*self._actors, *self._actors])
        with unwrap_ray_errors():
            errors = queue.map_unordered(start, range(len(partitions)))
            for finished, error in enumerate(errors, start=1):
                if error is not None:
                    raise error.to_exception()
                show(finished, len(partitions))
        return results

    def combine(self, combine: Any, results: Sequence[Any], index: int) -> Any:
        """Return a reference to combined results; actors do it to avoid starting processes."""
        return self._actors[index % len(self._actors)].combine.remote(combine, *results)

    def count_items(self, users: Any) -> int:
        """Return the number of columns of the model's scores."""
        import ray

        with unwrap_ray_errors():
            number: int = ray.get(self._actors[0].count_items.remote(users))
        return number

    def shut_down(self) -> None:
        """End the actors."""
        import ray

        for actor in self._actors:
            ray.kill(actor)


def _store_tensor(tensor: torch.Tensor) -> Any:
    """Return a reference to (bytes, dtype, shape), which workers read without a copy."""
    import ray

    plain = tensor.detach().cpu().contiguous()
    return ray.put((plain.reshape(-1).view(torch.uint8).numpy(), plain.dtype, tuple(plain.shape)))


def _load_tensor(stored: tuple[Any, torch.dtype, tuple[int, ...]]) -> torch.Tensor:
    memory, dtype, shape = stored
    if not memory.size:
        return torch.empty(shape, dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the memory is read-only; factors are never written to
        return torch.from_numpy(memory).view(dtype).reshape(shape)


def _load_factors(names: Sequence[str], device: str, *stored: Any) -> Factors:
    return Factors(**{name: _load_tensor(each).to(device) for name, each in zip(names, stored)})


def add_factors(
    source: Factors,
    users: pl.DataFrame,
    build: Callable[..., Partition],
    pieces: list[tuple[Any, ...]],
    *,
    gpus: float,
    progress: bool,
) -> RayPartitions[Partition]:
    """Return partitions with the embeddings of their users, and of all items.

    `users` has the user of each row of the factors, in order.
    """
    rows = [
        piece["row"].to_numpy()
        for piece in split_by_user(users.with_row_index("row"), len(pieces), hash_checksum())
    ]
    tensors = {name: tensor for name, tensor in source.tensors.items() if tensor is not None}
    shared = {
        name: _store_tensor(tensor) for name, tensor in tensors.items() if name.startswith("item")
    }
    pieces_with_factors = []
    for partition_rows, partition_pieces in zip(rows, pieces):
        selected = torch.as_tensor(partition_rows.astype(np.int64))
        stored = shared | {
            name: _store_tensor(tensor[selected.to(tensor.device)])
            for name, tensor in tensors.items()
            if name.startswith("user")
        }
        pieces_with_factors.append((*partition_pieces, *(stored[name] for name in tensors)))
    load = partial(_load_factors, list(tensors), "cuda" if gpus else "cpu")
    build_with_factors = partial(add_source, build, len(tensors), load)
    return RayPartitions(build_with_factors, pieces_with_factors, gpus=gpus, progress=progress)


def actor_handles(source: Any) -> list[Any]:
    """Return the actors if the source consists of Ray actors, else an empty list."""
    from ray.actor import ActorHandle

    handles = list(source) if isinstance(source, (list, tuple)) else [source]
    if not handles or not all(isinstance(handle, ActorHandle) for handle in handles):
        return []
    if any(not hasattr(handle, "score") for handle in handles):
        raise InputError(
            "the actor has no method 'score'; expected score(users) or score(users, items), which "
            "returns scores."
        )
    return handles


def check_source(source: Any) -> None:
    """Raise InputError for a source that cannot be evaluated, or exists in one process only."""
    if isinstance(source, type):
        if not callable(getattr(source, "score", None)) and "__call__" not in vars(source):
            raise InputError(
                f"the class {source.__name__} has no method 'score'; expected score(users) or "
                "score(users, items)."
            )
    elif isinstance(source, Scores) or is_matrix_file(source):
        raise InputError(
            "source has scores or factors with ids, or is a file of scores or factors, in this "
            "process; evaluate it with weft.evaluate. On Ray, give weft.Factors, with "
            f"{setting_ref('items')} for its items."
        )
    elif not are_lists(source) and isinstance(open_source(source), ScoreMatrix):
        raise InputError(
            "source is a matrix of scores in the memory of this process; evaluate it with "
            "weft.evaluate. On Ray, give weft.Factors, a model that computes the scores, or a "
            "class of models that load them."
        )

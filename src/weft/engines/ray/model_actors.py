"""Models on workers of Ray: in a pool of actors, or as factors that come with the parts."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from weft.data.recommendations import are_lists
from weft.data.sources import Factors, Model, open_source
from weft.data.sources.matrix import ScoreMatrix
from weft.engines.partitioned.partitions import Partition
from weft.engines.ray.ray_partitions import (
    RETRIES,
    Failed,
    Packed,
    RayPartitions,
    all_right,
    attempted,
    from_arrow,
    joined,
    own_errors,
    sent,
    settle,
    with_source,
)
from weft.engines.ray.ray_tables import by_part, stamp_of_hashes
from weft.errors import InputError

if TYPE_CHECKING:
    import polars as pl


class _Worker:
    """An actor that holds the model: unpickled, constructed, or another actor that is asked."""

    def __init__(self) -> None:
        self._model: Any = None

    def work(self, *given: Any) -> tuple[Failed | None, Packed | Failed]:
        """Do something with a part."""
        found = attempted(self._worked, *given)
        return found if isinstance(found, Failed) else None, found

    def _worked(self, model: list[Any], work: Packed, opening: Packed, *pieces: Any) -> Packed:
        part = opening.open()(*pieces)
        return Packed.of(
            work.open()(
                replace(part, source=self._opened(model)) if isinstance(part, Partition) else part
            )
        )

    def join(self, *given: Any) -> Packed | Failed:
        """Put some results together."""
        return joined(*given)

    def number_of_items(self, model: list[Any], users: Any) -> int:
        """How many columns the model answers with."""
        settle()
        ids = from_arrow(users)["user"]
        return Model(self._opened(model)).probe(0, len(ids), ids)

    def _opened(self, model: list[Any]) -> Any:
        """The model, from a reference to it, or the actor to ask. Not in the constructor: what that
        raises does not come back.
        """
        import ray

        if self._model is None:
            if isinstance(model[0], ray.actor.ActorHandle):
                self._model = _Asked(model[0])
            else:
                opened = ray.get(model[0]).open()
                self._model = opened() if isinstance(opened, type) else opened
        return self._model


class _Asked:
    """A model in an actor."""

    def __init__(self, handle: Any) -> None:
        def score(users: Any, **items: Any) -> Any:
            import ray

            with own_errors():
                return ray.get(handle.score.remote(users, **items))

        # Ray has no other way to tell what a method takes.
        known = getattr(handle, "_ray_method_signatures", {}).get("score", ())
        score.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter("users", inspect.Parameter.POSITIONAL_OR_KEYWORD),
                *(
                    inspect.Parameter("items", inspect.Parameter.KEYWORD_ONLY, default=one.default)
                    for one in known
                    if one.name == "items"
                ),
            ]
        )
        self.score = score


class Pool:
    """Actors that hold the model. Partitions go to those that are free."""

    def __init__(self, source: Any, handles: Sequence[Any], workers: int, gpus: float) -> None:
        import ray

        # They hold no CPU while they live, as actors that do not say what they need: nothing waits
        # for a CPU until they end.
        needs: dict[str, Any] = {"num_gpus": gpus, "num_cpus": 0} if gpus else {}
        options: Any = {
            "max_restarts": -1,
            "max_task_retries": RETRIES,
            "scheduling_strategy": "SPREAD",
            **needs,
        }
        kind: Any = ray.remote(**options)(_Worker)
        # The model comes with every call, for an actor that had to start again; in a list, so that
        # it is fetched only then.
        models = list(handles) or [sent(source)]
        self._actors = [
            (kind.remote(), [models[number % len(models)]]) for number in range(workers)
        ]

    def start(self, work: Any, opening: Any, parts: Sequence[tuple[Any, ...]]) -> list[Any]:
        """References to what comes of each part, when all are done. While an actor works, the next
        part's pieces come to it.
        """
        found: list[Any] = []
        busy: dict[Any, Any] = {}
        free = [*self._actors, *self._actors]
        with own_errors():
            for pieces in parts:
                if not free:
                    free = self._freed(busy)
                actor, model = free.pop(0)
                done, one = actor.work.options(num_returns=2).remote(model, work, opening, *pieces)
                busy[done] = actor, model
                found.append(one)
            while busy:
                self._freed(busy)
        return found

    @staticmethod
    def _freed(busy: dict[Any, Any]) -> list[Any]:
        import ray

        ready, _ = ray.wait(list(busy), num_returns=1, fetch_local=False)
        all_right(ready)
        return [busy.pop(done) for done in ready]

    def join(self, join: Any, found: Sequence[Any], number: int) -> Any:
        """A reference to some results, put together by one of the actors: other processes would
        have to be started for it.
        """
        actor, _ = self._actors[number % len(self._actors)]
        return actor.join.remote(join, *found)

    def number_of_items(self, users: Any) -> int:
        """How many columns the model answers with."""
        import ray

        actor, model = self._actors[0]
        with own_errors():
            number: int = ray.get(actor.number_of_items.remote(model, users))
        return number

    def end(self) -> None:
        """The model is not needed any more."""
        import ray

        for actor, _ in self._actors:
            ray.kill(actor)


def _stored(tensor: torch.Tensor) -> Any:
    """A tensor as it lies in memory, in the object store, where workers read it without a copy; and
    how to see it.
    """
    import ray

    plain = tensor.detach().cpu().contiguous()
    return ray.put((plain.reshape(-1).view(torch.uint8).numpy(), plain.dtype, tuple(plain.shape)))


def _seen(stored: tuple[Any, torch.dtype, tuple[int, ...]]) -> torch.Tensor:
    memory, dtype, shape = stored
    if not memory.size:
        return torch.empty(shape, dtype=dtype)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it cannot be written to, which factors never do
        return torch.from_numpy(memory).view(dtype).reshape(shape)


def _factors(names: Sequence[str], device: str, *stored: Any) -> Factors:
    return Factors(**{name: _seen(one).to(device) for name, one in zip(names, stored)})


def with_factors(
    source: Factors,
    users: pl.DataFrame,
    opening: Callable[..., Partition],
    pieces: list[tuple[Any, ...]],
    gpus: float,
) -> RayPartitions[Partition]:
    """Each part with the embeddings of its users, and all with the same ones of the items. `users`:
    those of the rows, in order.
    """
    rows = [
        piece["row"].to_numpy()
        for piece in by_part(users.with_row_index("row"), len(pieces), stamp_of_hashes())
    ]
    given = {name: tensor for name, tensor in source.tensors.items() if tensor is not None}
    shared = {name: _stored(tensor) for name, tensor in given.items() if name.startswith("item")}
    with_rows = []
    for some, of_part in zip(rows, pieces):
        chosen = torch.as_tensor(some.astype(np.int64))
        own = {
            name: _stored(tensor[chosen.to(tensor.device)])
            for name, tensor in given.items()
            if name.startswith("user")
        }
        with_rows.append((*of_part, *({**own, **shared}[name] for name in given)))
    make = partial(_factors, list(given), "cuda" if gpus else "cpu")
    return RayPartitions(partial(with_source, opening, len(given), make), with_rows, gpus=gpus)


def refuse_other_rows(
    parts: RayPartitions[Partition], rows: int, wheres: Mapping[str, str]
) -> None:
    """Without users=, users are row numbers: refuse others. `wheres`: the arguments to look at, and
    what they are called.
    """
    for argument, where in wheres.items():
        if (found := parts.map_reduce(partial(_other, argument, rows), _first_of)) is not None:
            raise InputError(
                f"{where} has the user {found!r}, who is not a row of the scores, 0 to {rows - 1}. "
                "Give the ids of the scores' "
                "rows as users=[...]."
            )


def _other(argument: str, rows: int, part: Partition) -> int | None:
    """A user who is no row number."""
    users = part.frames[argument]["user"]
    found = users.filter((users < 0) | (users >= rows)).min()
    assert found is None or isinstance(found, int)
    return found


def _first_of(found: list[int | None]) -> int | None:
    return min((one for one in found if one is not None), default=None)


def handles_of(source: Any) -> list[Any]:
    """The actors that were given as a model."""
    from ray.actor import ActorHandle

    given = list(source) if isinstance(source, (list, tuple)) else [source]
    if not given or not all(isinstance(one, ActorHandle) for one in given):
        return []
    if any(not hasattr(one, "score") for one in given):
        raise InputError(
            "the actor has no method 'score'; expected score(users), or score(users, items), that "
            "answers with scores."
        )
    return given


def refuse_source(source: Any) -> None:
    """Refuse what is no source, or what only one process has."""
    if isinstance(source, type):
        if not callable(getattr(source, "score", None)) and "__call__" not in vars(source):
            raise InputError(
                f"the class {source.__name__} has no method 'score'; expected score(users), or "
                "score(users, items)."
            )
    elif not are_lists(source) and isinstance(open_source(source), ScoreMatrix):
        raise InputError(
            "source is a matrix of scores in the memory of this process; evaluate it here with "
            "weft.evaluate. On Ray, give "
            "weft.Factors, a model that computes the scores, or a class of models that load them."
        )

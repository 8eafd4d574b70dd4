"""What a pass has gathered, as one value: it adds up with that of other batches, files and
processes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from weft.errors import SettingError
from weft.metrics.base.metric import BaseMetric

States = dict[str, Any]  # of a metric that keeps its own: tensors, or lists of tensors


@dataclass(frozen=True)
class Gathered:
    """`sums` and `tallies` add up, `rows` (about users) come behind one another; `own` are states
    of metrics that keep their own.

    `rows_met`: rows so far; `items_met`: columns of the scores, None before the first batch.
    `is_named`: every row came with the number of its user, in `rows["users"]`; else rows are
    numbered as they come. `has_lists`, `has_candidates`: see `telling.Pass`."""

    sums: Tensor
    tallies: Tensor
    rows: Mapping[str, Tensor] = field(default_factory=dict)
    own: tuple[States, ...] = ()
    rows_met: int = 0
    items_met: int | None = None
    is_named: bool = True
    has_lists: bool = False
    has_candidates: bool = False

    def first_of_each_user(self) -> Tensor | None:
        """Whether a row is the first of its user, `[rows]`; None where rows were not named."""
        users = self.rows.get("users")
        if not self.is_named or users is None:
            return None
        order = users.sort(stable=True)
        is_new = torch.ones_like(users, dtype=torch.bool)
        is_new[1:] = order.values.diff() != 0
        return torch.empty_like(is_new).scatter_(0, order.indices, is_new)


def put_together(parts: Sequence[Gathered], own_metrics: Sequence[BaseMetric]) -> Gathered:
    """All parts as one. What differs in the number of items is refused."""
    return replace(
        _behind_one_another(parts, own_metrics),
        sums=_added([part.sums for part in parts]),
        tallies=_added([part.tallies for part in parts]),
    )


def _added(vectors: Sequence[Tensor]) -> Tensor:
    total = vectors[0].clone()
    for vector in vectors[1:]:
        total += vector.to(total.device)
    return total


def _behind_one_another(parts: Sequence[Gathered], own_metrics: Sequence[BaseMetric]) -> Gathered:
    """All parts as one but for the sums, which are those of the first."""
    met = {part.items_met for part in parts} - {None}
    if len(met) > 1:
        raise SettingError(
            f"cannot put together scores of {' and of '.join(map(str, sorted(met, key=str)))} "
            "items."
        )
    rows: dict[str, list[Tensor]] = {}
    before = 0
    for part in parts:
        for name, values in part.rows.items():
            # Rows that nobody named go on counting, so that no two share a number.
            rows.setdefault(name, []).append(
                values + before if name == "table_users" and not part.is_named else values
            )
        before += part.rows_met
    own = list(parts[0].own)
    for part in parts[1:]:
        own = [
            metric.join_states(mine, further)
            for metric, mine, further in zip(own_metrics, own, part.own)
        ]
    first = parts[0].sums.device
    return replace(
        parts[0],
        rows={
            name: torch.cat([values.to(first) for values in found]) for name, found in rows.items()
        },
        own=tuple(own),
        rows_met=before,
        items_met=next(iter(met), None),
        is_named=all(part.is_named for part in parts),
        has_lists=any(part.has_lists for part in parts),
        has_candidates=any(part.has_candidates for part in parts),
    )


def refuse_others(mine: Mapping[str, Any], theirs: Mapping[str, Any], what: str) -> None:
    """Refuse to put together what was evaluated in different ways; `what` names both: "cannot merge
    evaluators that" (differ).
    """
    for name in {**mine, **theirs}:
        if mine.get(name) != theirs.get(name):
            both = mine.get(name), theirs.get(name)
            values = "" if name in DIGESTS or "[" in name else f": {both[0]!r} and {both[1]!r}"
            raise SettingError(
                f"{what} differ in {name}{values}{'' if values else '; give both the same'}."
            )


# What is known by a digest, which says nothing to a reader.
DIGESTS = (
    "train",
    "user_groups",
    "item_clusters",
    "item_features",
    "truth",
    "source",
    "users",
    "items",
    "candidates given",
)


# --------------------------------------------------------------------------------------------------


def number_of_processes() -> int:
    """How many processes evaluate together: those of torch.distributed, where it is in use."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def synchronised(
    mine: Gathered, identity: Mapping[str, Any], own_metrics: Sequence[BaseMetric]
) -> Gathered:
    """What all processes have gathered, the same on each. All must call it.

    Two collectives, whatever there is: everything that is small or about rows is sent to all at
    once, then sums are added up."""
    everyone: list[Any] = [None] * number_of_processes()
    rows = {name: values.cpu() for name, values in mine.rows.items()}
    own = tuple({name: _on_cpu(value) for name, value in states.items()} for states in mine.own)
    light = replace(
        mine, sums=mine.sums[:0].cpu(), tallies=mine.tallies[:0].cpu(), rows=rows, own=own
    )
    dist.all_gather_object(everyone, (dict(identity), light))
    for rank, (theirs, _) in enumerate(
        everyone
    ):  # the same on every process, so that all stop alike
        refuse_others(
            everyone[0][0], theirs, f"cannot put together processes (rank 0 and {rank}) that"
        )
    whole = _behind_one_another([part for _, part in everyone], own_metrics)
    # Gloo adds up on the CPU; other backends on their devices.
    where = torch.device("cpu") if "gloo" in str(dist.get_backend()) else mine.sums.device
    both = torch.cat([mine.sums, mine.tallies]).to(where)
    dist.all_reduce(both)
    both = both.cpu()
    return replace(whole, sums=both[: len(mine.sums)], tallies=both[len(mine.sums) :])


def _on_cpu(value: Any) -> Any:
    return [one.cpu() for one in value] if isinstance(value, list) else value.cpu()

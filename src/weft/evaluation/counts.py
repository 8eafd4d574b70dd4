"""What is counted in every pass, whatever its metrics: users, relevant items, short lists, ties,
what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from weft.batch.batch import Batch
from weft.data import Labels
from weft.data.devices import DEFERRED_ERRORS, is_host_readable, raise_deferred_errors
from weft.data.rows import SparseRows

_ALWAYS = (
    "users",
    "evaluated_users",
    "users_without_relevant",
    "users_without_truth",
    "missing_users",
    "relevant_items",
    "relevant_seen",
    "relevant_not_offered",
    "ratings_without_score",
    *DEFERRED_ERRORS,
)


class BatchCounter:
    """The counts of a pass, by the names that a result has; at each cut-off short lists and ties;
    who is in no group or slice.
    """

    def __init__(
        self, cutoffs: tuple[int, ...], groups: Labels | None, slices: Mapping[str, Labels]
    ) -> None:
        self._cutoffs = cutoffs
        self._labels = {} if groups is None else {"users_without_group": groups}
        self._labels |= {f"users_outside_{name}": labels for name, labels in slices.items()}
        self.names = (
            *_ALWAYS,
            *(f"{what}@{k}" for what in ("short_lists", "ties") for k in cutoffs),
            *self._labels,
        )

    def count(self, batch: Batch, *, by_user: bool) -> Tensor:
        """What is counted of a batch, `[counts]`, or of each of its users, `[batch, counts]`."""

        def of_cells(counted: Tensor, rows: SparseRows) -> Tensor:
            return rows.sum(counted.to(batch.dtype)) if by_user else rows.only(counted, False).sum()

        def of_users(counted: Tensor) -> Tensor:
            return counted if by_user else counted.sum()

        evaluated = batch.relevant.lengths > 0
        everyone = torch.ones_like(evaluated)
        nobody = of_users(torch.zeros_like(evaluated))
        seen = (
            nobody if batch.seen is None else of_cells(_is_seen(batch, batch.seen), batch.relevant)
        )
        found = {
            "users": of_users(everyone),
            "evaluated_users": of_users(evaluated),
            "users_without_relevant": of_users(batch.judged & ~evaluated),
            "users_without_truth": of_users(~batch.judged),
            "missing_users": of_users(everyone) if batch.is_missing else nobody,
            "relevant_items": of_users(batch.relevant.lengths),
            "relevant_seen": seen,
            "relevant_not_offered": of_cells(~batch.relevant_offered, batch.relevant)
            - seen.to(batch.dtype),
            "ratings_without_score": of_cells(batch.raw_scores == -torch.inf, batch.truth),
            # Any is too much, whoever's it is.
            **{
                name: count.expand(batch.size) if by_user else count
                for name, count in zip(DEFERRED_ERRORS, batch.faults.unbind())
            },
        }
        for k in self._cutoffs:
            values = batch.ranking.values
            found[f"short_lists@{k}"] = of_users(batch.lengths < k)
            found[f"ties@{k}"] = nobody
            if not batch.is_certain and k < values.shape[1]:
                found[f"ties@{k}"] = of_users(
                    (values[:, k - 1] == values[:, k]) & (values[:, k] > -torch.inf)
                )
        for name, labels in self._labels.items():
            found[name] = of_users(labels.codes.at(batch.users, -1) < 0)
        return torch.stack([found[name].to(batch.dtype) for name in self.names], dim=-1)

    def read(self, counted: Tensor) -> dict[str, int]:
        """The counts of all batches by name; what could not be refused before is refused now."""
        counts = {name: int(count) for name, count in zip(self.names, counted.tolist())}
        raise_deferred_errors({name: counts.pop(name) for name in DEFERRED_ERRORS})
        return counts


def _is_seen(batch: Batch, seen: SparseRows) -> Tensor:
    """Whether each relevant cell is masked."""
    keys = batch.relevant.keys
    if not is_host_readable(batch.device):
        return seen.contains(keys)
    hidden = batch.relevant_scores == -torch.inf  # only these can be: few, or none
    found = torch.zeros_like(hidden)
    if bool(hidden.any()):
        found[hidden] = seen.contains(keys[hidden])
    return found

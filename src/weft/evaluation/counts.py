"""Counts of an evaluation that no metric is needed for: users, relevant items, ties, errors."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from weft.batch.batch import Batch
from weft.data import Labels
from weft.data.devices import DEFERRED_ERRORS, raise_deferred_errors
from weft.data.tensors import SparseRows

# Counts that every evaluation has.
COUNT_NAMES = (
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
    """Counts users and items of batches, by the names of `Result.counts`.

    Besides the counts of `_count_users` and `_count_items`: short lists and ties at each cut-off,
    users without a label in `groups` and in each slice, and errors that are raised at the end.
    """

    def __init__(
        self, cutoffs: tuple[int, ...], groups: Labels | None, slices: Mapping[str, Labels]
    ) -> None:
        self._cutoffs = cutoffs
        self._labels = {} if groups is None else {"users_without_group": groups}
        self._labels |= {f"users_outside_{name}": labels for name, labels in slices.items()}
        self.names = (
            *COUNT_NAMES,
            *(f"{count}@{k}" for count in ("short_lists", "ties") for k in cutoffs),
            *self._labels,
        )

    def count(self, batch: Batch, *, by_user: bool) -> Tensor:
        """Return the counts of a batch, `[counts]`, or of each of its users, `[batch, counts]`."""
        counts = dict(self._count_users(batch, by_user)) | _count_items(batch, by_user)
        # Errors are of the whole batch: any is one too many.
        for name, count in zip(DEFERRED_ERRORS, batch.validation.counts(batch.device).unbind()):
            counts[name] = count.expand(batch.size) if by_user else count
        return torch.stack([counts[name].to(batch.dtype) for name in self.names], dim=-1)

    def _count_users(self, batch: Batch, by_user: bool) -> Iterator[tuple[str, Tensor]]:
        """Yield the counts that need no look at single interactions."""

        def count(mask: Tensor) -> Tensor:
            return mask if by_user else mask.sum()

        is_evaluated = batch.relevant.lengths > 0
        users, zero = count(torch.ones_like(is_evaluated)), count(torch.zeros_like(is_evaluated))
        yield "users", users
        yield "evaluated_users", count(is_evaluated)
        yield "users_without_relevant", count(batch.has_truth & ~is_evaluated)
        yield "users_without_truth", count(~batch.has_truth)
        yield "missing_users", users if batch.is_missing else zero
        yield "relevant_items", count(batch.relevant.lengths)
        for k in self._cutoffs:
            scores = batch.ranking.values
            yield f"short_lists@{k}", count(batch.lengths < k)
            if batch.is_tie_free or k >= scores.shape[1]:
                yield f"ties@{k}", zero
            else:
                is_tied = (scores[:, k - 1] == scores[:, k]) & (scores[:, k] > -torch.inf)
                yield f"ties@{k}", count(is_tied)
        for name, labels in self._labels.items():
            yield name, count(labels.codes.lookup(batch.users, -1) < 0)

    def read(self, totals: Tensor) -> dict[str, int]:
        """Return the counts of all batches by name. Raises the errors that were deferred."""
        counts = {name: int(count) for name, count in zip(self.names, totals.tolist())}
        raise_deferred_errors({name: counts.pop(name) for name in DEFERRED_ERRORS})
        return counts


def _count_items(batch: Batch, by_user: bool) -> dict[str, Tensor]:
    """Count relevant items that are masked or not offered, and ratings without a score."""

    def count(mask: Tensor, rows: SparseRows) -> Tensor:
        return (
            rows.sum_rows(mask.to(batch.dtype)) if by_user else rows.fill_invalid(mask, False).sum()
        )

    not_offered = count(~batch.offered.is_relevant_offered, batch.relevant)
    if batch.seen is None:
        seen = torch.zeros_like(not_offered)
    else:
        seen = count(_is_seen(batch, batch.seen), batch.relevant)
    return {
        "relevant_seen": seen,
        "relevant_not_offered": not_offered - seen.to(batch.dtype),
        "ratings_without_score": count(batch.raw_scores == -torch.inf, batch.truth),
    }


def _is_seen(batch: Batch, seen: SparseRows) -> Tensor:
    """Return a mask of the relevant interactions that are masked because they are in train."""
    keys = batch.relevant.keys
    if not batch.is_host_readable:
        return seen.contains(keys)
    is_hidden = batch.relevant_scores == -torch.inf  # only these, few or none, need a look-up
    is_seen = torch.zeros_like(is_hidden)
    if bool(is_hidden.any()):
        is_seen[is_hidden] = seen.contains(keys[is_hidden])
    return is_seen

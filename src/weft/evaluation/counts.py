"""Counts of an evaluation that no metric is needed for: users, relevant items, ties, errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import Tensor

from weft.batch.batch import Batch
from weft.data import Labels
from weft.data.devices import DEFERRED_ERRORS, raise_deferred_errors
from weft.data.item_lists import ItemLists
from weft.data.side_inputs import UserValue
from weft.data.tensors import SparseRows
from weft.data.truth_groups import TruthGroups

# Counts that every evaluation has, in the order of `BatchCounter.count`.
COUNT_NAMES = (
    "users",
    "evaluated_users",
    "users_without_relevant",
    "users_without_truth",
    "missing_users",
    "relevant_items",
    "relevant_seen",
    "relevant_not_offered",
    "judged_not_relevant",
    "ratings_without_score",
    "zero_ratings",
    "graded_ratings",
    "large_ratings",
    *DEFERRED_ERRORS,
)
# Under the gain 2^r - 1, one item with such a rating weighs as much as a million items rated 1.
LARGE_RATING = 20


def users_without(name: str) -> str:
    """Return the name of the count of users without a value in an input."""
    return "users_without_group" if name == "user_groups" else f"users_without_{name}"


def items_without(name: str) -> str:
    """Return the name of the count of items without a value in an input."""
    short_names = {"item_clusters": "cluster", "item_features": "features"}
    return f"items_without_{short_names.get(name, name)}"


def unknown_items(name: str) -> str:
    """Return the name of the count of items that an input of lists has and the catalogue lacks."""
    return f"unknown_items_of_{name}"


class BatchCounter:
    """Counts users and items of batches, by the names of `Result.counts`.

    Besides `COUNT_NAMES`: short lists and ties at each cut-off, and users without a value in each
    input about users and without a label in each slice, unknown items in inputs of lists, relevant
    items in no group of each item slice, and interactions of the truth that are no targets.
    """

    def __init__(
        self,
        cutoffs: tuple[int, ...],
        user_inputs: Mapping[str, UserValue],
        slices: Mapping[str, Labels],
        *,
        item_slices: Mapping[str, TruthGroups] | None = None,
        has_targets: bool = False,
    ) -> None:
        self._cutoffs = cutoffs
        self._labels = {users_without(name): value for name, value in user_inputs.items()}
        for name, labels in slices.items():
            self._labels[f"users_outside_{name}"] = labels
        self._lists = {
            unknown_items(name): value
            for name, value in user_inputs.items()
            if isinstance(value, ItemLists)
        }
        short_lists, ties = (f"short_lists@{k}" for k in cutoffs), (f"ties@{k}" for k in cutoffs)
        self._groups = {
            f"relevant_outside_{name}": groups for name, groups in (item_slices or {}).items()
        }
        self._left_out = ("truth_outside_targets",) if has_targets else ()
        of_inputs = (*self._labels, *self._lists, *self._groups, *self._left_out)
        self.names = (*COUNT_NAMES, *short_lists, *ties, *of_inputs)

    def count(self, batch: Batch) -> Tensor:
        """Return the counts of each user of a batch, `[batch, counts]`."""

        def add_up(rows: SparseRows, mask: Tensor) -> Tensor:
            return rows.sum_rows(mask.to(batch.dtype))

        return torch.stack([each.to(batch.dtype) for each in self._columns(batch, add_up)], dim=1)

    def total(self, batch: Batch) -> Tensor:
        """Return the sums of `count`, `[counts]`, without a table of users."""

        def select(rows: SparseRows, mask: Tensor) -> Tensor:
            return rows.fill_invalid(mask, 0)

        columns = self._columns(batch, select)
        return torch.stack([each.sum(dtype=batch.dtype) for each in columns])

    def _columns(
        self, batch: Batch, add_up: Callable[[SparseRows, Tensor], Tensor]
    ) -> Iterator[Tensor]:
        """Yield each count. `add_up` is called with numbers or masks of interactions."""
        relevant, truth = batch.relevant, batch.truth
        is_evaluated = relevant.lengths > 0
        none, every = torch.zeros_like(is_evaluated), torch.ones_like(is_evaluated)
        not_offered, seen = (~batch.offered.is_relevant_offered).to(batch.dtype), none
        if batch.seen is not None:
            is_seen = _is_seen(batch, batch.seen).to(batch.dtype)
            not_offered, seen = not_offered - is_seen, add_up(relevant, is_seen)
        yield from (every, is_evaluated, batch.has_truth & ~is_evaluated, ~batch.has_truth)
        yield every if batch.is_missing else none
        yield from (relevant.lengths, seen, add_up(relevant, not_offered))
        yield truth.lengths - relevant.lengths
        yield add_up(truth, batch.raw_scores == -torch.inf)
        yield add_up(truth, truth.values == 0)
        yield add_up(truth, (truth.values != 0) & (truth.values != 1))
        yield add_up(relevant, relevant.values > LARGE_RATING)
        # Errors are of the whole batch: any is one too many.
        yield from batch.validation.counts(batch.device)[:, None].expand(-1, batch.size)
        for k in self._cutoffs:
            yield batch.lengths < k
        for k in self._cutoffs:
            yield _is_tied(batch, k)
        yield from self._input_columns(batch, add_up)

    def _input_columns(
        self, batch: Batch, add_up: Callable[[SparseRows, Tensor], Tensor]
    ) -> Iterator[Tensor]:
        """Yield each count about labels, lists and groups of users and of the truth."""
        for labels in self._labels.values():
            yield labels.lacks(batch.users)
        for lists in self._lists.values():
            yield lists.count_unknown(batch.users)
        for groups in self._groups.values():
            yield add_up(batch.relevant, groups.lacks(batch.users, batch.relevant))
        for _ in self._left_out:
            left_out = batch.num_left_out
            yield torch.zeros_like(batch.has_truth) if left_out is None else left_out

    def read(self, totals: Tensor, *, allows_nan: bool = False) -> dict[str, int]:
        """Return the counts of all batches by name. Raises the errors that were deferred.

        With `allows_nan`, rows with NaN or +inf scores are the count `invalid_scores`."""
        counts = dict(zip(self.names, map(int, totals.tolist())))
        if allows_nan:
            counts["invalid_scores"], counts["bad_scores"] = counts["bad_scores"], 0
        raise_deferred_errors(counts)
        for name in DEFERRED_ERRORS:
            del counts[name]
        return counts


def _is_tied(batch: Batch, k: int) -> Tensor:
    """Return a mask of the users with equal scores at position k and after it, `[batch]`."""
    scores = batch.ranking.values
    if batch.is_tie_free or k >= scores.shape[1]:
        return torch.zeros_like(batch.has_truth)
    return (scores[:, k - 1] == scores[:, k]) & (scores[:, k] > -torch.inf)


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

"""The items that could be recommended to the users of a batch, and the negatives among them.

Offered are the candidates, or all items with a score above `-inf`, or, for incomplete lists, all
items that are not masked."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from weft.data import BatchLists
from weft.data.tensors import SparseRows
from weft.ranking import MaskedScores, count_offered, get_kernel

if TYPE_CHECKING:
    from weft.batch.batch import Batch

# Elements of a tile that compares scores over the whole catalogue.
_TILE_SCORES = 1 << 20


class OfferedItems:
    """The offered items of a batch. `only_evaluated` restricts to users with a relevant item."""

    def __init__(self, batch: Batch) -> None:
        self._batch = batch
        self._relevant = batch.relevant
        self._num_items = batch.truth.num_items
        lists = batch.lists
        # The offered interactions one by one, if they are known: complete lists, or candidates.
        self._rows: BatchLists | SparseRows | None = batch.candidates
        if lists is not None and lists.is_complete:
            self._rows = lists
        self._tile_rows = max(1, _TILE_SCORES // max(1, self._num_items))

    @property
    def has_all_scores(self) -> bool:
        """True if every offered item has a score."""
        lists = self._batch.lists
        return self._batch.scores is not None or (lists is not None and lists.is_complete)

    @cached_property
    def counts(self) -> Tensor:
        """The number of offered items, `[batch]`."""
        batch = self._batch
        if self._rows is not None:
            return self._rows.lengths.to(batch.dtype)
        if batch.lists is not None:
            return (self._num_unmasked - self._num_masked).to(batch.dtype)
        if batch.scores is None:
            return torch.zeros(batch.size, dtype=batch.dtype, device=batch.device)
        if batch.counts_ranks:  # which counts these, too
            return self.rank_sums[1].to(batch.dtype)
        return count_offered(batch.scores).to(batch.dtype)

    @property
    def _num_unmasked(self) -> Tensor | int:
        """The number of items offered to a user without masked items."""
        mask = self._batch.item_mask
        return self._num_items if mask is None else mask.sum()

    @cached_property
    def _num_masked(self) -> Tensor:
        """The number of masked items of each user, `[batch]`."""
        seen, mask = self._batch.seen, self._batch.item_mask
        if seen is None:
            return torch.zeros_like(self._relevant.lengths)
        if mask is None:
            return seen.lengths
        return seen.sum_rows(mask[seen.items].to(seen.values.dtype)).long()

    @cached_property
    def is_relevant_offered(self) -> Tensor:
        """True where a relevant item can be recommended, `[n]`."""
        batch, relevant = self._batch, self._relevant
        if self._rows is not None:
            return relevant.fill_invalid(self._rows.contains(relevant.keys), False)
        if batch.lists is None:
            return batch.relevant_scores > -torch.inf
        is_offered = torch.ones_like(relevant.items, dtype=torch.bool)
        if batch.item_mask is not None:
            is_offered = batch.item_mask[relevant.items]
        if batch.seen is not None:
            is_offered = is_offered & ~batch.seen.contains(relevant.keys)
        return relevant.fill_invalid(is_offered, False)

    @cached_property
    def num_negatives(self) -> Tensor:
        """The number of offered items that are not relevant, `[batch]`."""
        is_offered = self.is_relevant_offered.to(self._batch.dtype)
        return self.counts - self._relevant.sum_rows(is_offered)

    @cached_property
    def has_pairs(self) -> Tensor:
        """True where a user has both a relevant item and a negative, `[batch]`."""
        return (self.num_negatives > 0) & (self._batch.num_relevant > 0)

    @cached_property
    def rank_sums(self) -> tuple[Tensor, Tensor]:
        """Doubled ranks summed over the relevant items, and the number of offered items, `[batch]`.

        The doubled rank of an item counts the items above it plus those at least as high."""
        batch = self._batch
        scan = batch.scan
        if scan is not None and scan.double_ranks is not None and scan.offered is not None:
            return scan.double_ranks, scan.offered
        if batch.lists is not None:
            return self._relevant.sum_rows(self.double_ranks), batch.ordered_lists.lengths
        assert batch.scores is not None
        return get_kernel(batch.device).double_ranks(
            batch.scores, self._relevant, batch.relevant_scores
        )

    @cached_property
    def double_ranks(self) -> Tensor:
        """The doubled rank of each relevant item, 0 if it was not offered, `[n]`.

        `rank_sums` has their sums at much less cost."""
        batch, relevant = self._batch, self._relevant
        ranks = torch.zeros_like(relevant.items)
        if batch.lists is not None:
            lists = batch.ordered_lists
            index, is_listed = lists.locate(relevant.keys)
            if len(lists.items) == 0:
                return ranks
            return torch.where(is_listed, lists.double_ranks.index_select(0, index), 0)
        if batch.scores is None:
            return ranks
        kernel, values = get_kernel(batch.device), batch.relevant_scores
        for start in range(0, len(ranks), self._tile_rows):
            some = slice(start, start + self._tile_rows)
            scores = MaskedScores(batch.scores.select(relevant.rows[some]))
            offsets = torch.arange(len(values[some]) + 1, device=batch.device)
            single = SparseRows(offsets, relevant.items[some], values[some], self._num_items)
            ranks[some] = kernel.double_ranks(scores, single, values[some])[0]
        return ranks

    @cached_property
    def pairwise_wins(self) -> Tensor:
        """The share of negatives that a relevant item outranks, summed over relevant items.

        Ties count half. Relevant items that were not offered outrank nothing. `[batch]`."""
        batch = self._batch
        if not self.has_all_scores:
            return torch.zeros(batch.size, dtype=batch.dtype, device=batch.device)
        ranks = self.rank_sums[0].to(batch.dtype)
        num_offered = self._relevant.sum_rows(self.is_relevant_offered.to(batch.dtype))
        # Pairs of relevant items count twice in the ranks, and each item once itself: its square.
        losses = (ranks - num_offered.square()) / 2
        return num_offered - losses / torch.where(
            self.num_negatives > 0, self.num_negatives, torch.nan
        )

    def negative_scores(self, users: Tensor) -> tuple[Tensor, Tensor]:
        """Return the scores of the negatives of the users where a mask `[batch]` is true.

        The scores come row by row, with their number per row, `[batch]`. Where the host cannot read
        these numbers: all scores, with `-inf` in place of the others."""
        batch, relevant = self._batch, self._relevant
        if batch.lists is not None:
            return self._listed_negative_scores(batch.lists, users)
        counts = torch.zeros_like(relevant.padded_lengths)
        if batch.scores is None:
            return batch.truth.values.new_empty(0), counts
        if not batch.is_host_readable:
            scores = batch.scores.mask(relevant).to_dense()
            kept = torch.where(users[:, None], scores, -torch.inf).to(batch.dtype)
            return kept.view(-1), counts + batch.scores.shape[1]
        parts = [batch.truth.values.new_empty(0)]
        for row in users.nonzero().flatten():
            scores = batch.scores.select(row[None])[0]
            is_negative = scores > -torch.inf
            is_negative[relevant.items[relevant.rows == row]] = False
            parts.append(scores[is_negative].to(batch.dtype))
            counts[row] = len(parts[-1])
        return torch.cat(parts), counts

    def _listed_negative_scores(self, lists: BatchLists, users: Tensor) -> tuple[Tensor, Tensor]:
        index, is_listed = lists.locate(self._relevant.keys)
        is_listed = self._relevant.fill_invalid(is_listed, False)
        # Relevant items that are not listed are written to one more element, which is dropped.
        is_negative = torch.ones(len(lists.items) + 1, dtype=torch.bool, device=self._batch.device)
        is_negative[torch.where(is_listed, index, len(lists.items))] = False
        mask = is_negative[:-1] & users[lists.rows]
        scores, counts = lists.select_values(lists.scores, mask, -torch.inf)
        return scores.to(self._batch.dtype), counts

    def sum_scores(self, compute: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the sums of `compute(scores)` over the offered items of each user, `[batch]`.

        It is called for some scores at a time, with 0 in the place of items not offered. Items of
        incomplete lists have no scores: only the listed ones are added up."""
        batch = self._batch
        sums = torch.zeros(batch.size, dtype=batch.dtype, device=batch.device)
        if batch.lists is not None:
            is_offered = (batch.lists.scores > -torch.inf) & (batch.lists.items >= 0)
            values = compute(torch.where(is_offered, batch.lists.scores, 0).to(batch.dtype))
            return sums.index_add_(0, batch.lists.rows, torch.where(is_offered, values, 0))
        if batch.scores is not None:
            for rows, tile in batch.scores.tiles(self._tile_rows):
                is_offered = tile > -torch.inf
                values = compute(torch.where(is_offered, tile, 0).to(batch.dtype))
                sums[rows] = torch.where(is_offered, values, 0).sum(1)
        return sums

    # ------------------------------------------------------------------------- by item and by user

    def _select_users(self, *, only_evaluated: bool) -> Tensor:
        lengths = self._relevant.lengths
        return lengths > 0 if only_evaluated else torch.ones_like(lengths, dtype=torch.bool)

    def count_by_item(self, *, only_evaluated: bool) -> Tensor:
        """Return the number of users to whom each item was offered, `[items]`."""
        return self._batch.cached(
            ("count_by_item", only_evaluated),
            lambda: self._count_by_item(self._select_users(only_evaluated=only_evaluated)).to(
                self._batch.dtype
            ),
        )

    def _count_by_item(self, users: Tensor) -> Tensor:
        batch, rows = self._batch, self._rows
        counts = torch.zeros(self._num_items, dtype=torch.int64, device=batch.device)
        if rows is not None:
            counted = rows.fill_invalid(users[rows.rows], False)
            return counts.index_add_(0, rows.items, counted.long())
        if batch.scores is None and batch.lists is None:
            return counts
        if batch.is_host_readable or batch.lists is not None:
            # Users who are offered everything but masked items need no look at the scores.
            is_complete = users & (self.counts == self._num_unmasked - self._num_masked)
            self._add_complete_users(counts, is_complete)
            users = users & ~is_complete
            if batch.scores is None or not users.any():
                return counts
        assert batch.scores is not None
        for tile_users, tile in batch.scores.tiles(self._tile_rows):
            counts += ((tile > -torch.inf) & users[tile_users, None]).sum(0)
        return counts

    def _add_complete_users(self, counts: Tensor, users: Tensor) -> None:
        """Add users who are offered everything but masked items to counts `[items]`, in place."""
        batch, seen = self._batch, self._batch.seen
        counts += users.sum()
        if seen is not None:
            if batch.is_host_readable and bool(users.all()):
                masked = torch.full((1,), -1).expand(len(seen.items))
            else:
                masked = -seen.fill_invalid(users[seen.rows], False).long()
            counts.index_add_(0, seen.items, masked)
        if batch.item_mask is not None:
            counts *= batch.item_mask

    def find_masked_items(self, *, only_evaluated: bool) -> tuple[Tensor, Tensor] | None:
        """Return the number of users, and their masked items one by one, `[n]`.

        None unless all of them were offered everything but masked items, as far as the host can
        read it."""
        batch = self._batch
        if not batch.is_host_readable or batch.item_mask is not None or self._rows is not None:
            return None
        users = self._select_users(only_evaluated=only_evaluated)
        if not bool((self.counts == self._num_items - self._num_masked)[users].all()):
            return None
        if batch.seen is None:
            return users.sum(), batch.truth.items.new_empty(0)
        items = batch.seen.items
        return users.sum(), items if bool(users.all()) else items[users[batch.seen.rows]]

    def by_user(self, *, only_evaluated: bool) -> tuple[Tensor, SparseRows]:
        """Return the offered items of each user in the shorter of two forms.

        A user for whom the mask `[batch]` is true was offered every item except those of value -1;
        another one the items of value 1. The sums over users equal `count_by_item`."""
        batch, num_items = self._batch, self._num_items
        users = self._select_users(only_evaluated=only_evaluated)
        if batch.scores is None and batch.lists is None:
            users = torch.zeros_like(users)
        is_complement, is_known, keys = self._known_offers(users)
        parts = [keys]
        for rows in torch.split((users & ~is_known).nonzero().flatten(), self._tile_rows):
            differs = self._is_offered(rows) != is_complement[rows, None]
            number, items = differs.nonzero(as_tuple=True)
            parts.append(rows[number] * num_items + items)
        keys = torch.cat(parts).sort().values
        offsets = torch.searchsorted(
            keys, torch.arange(batch.size + 1, device=batch.device) * num_items
        )
        signs = torch.where(is_complement, -1, 1).to(batch.dtype)
        values = signs.repeat_interleave(offsets.diff(), output_size=len(keys))
        return is_complement, SparseRows(offsets, keys % max(1, num_items), values, num_items)

    def _known_offers(self, users: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Find the users with offered items that are known without a look at the scores.

        Return: whether a user gets the complement form, whether the user is known, both `[batch]`;
        and the keys of the known users, `[n]`."""
        batch, num_items = self._batch, self._num_items
        if self._rows is not None:
            rows = self._rows.rows
            keys = rows * num_items + self._rows.items
            return torch.zeros_like(users), users, keys[self._rows.fill_invalid(users[rows], False)]
        keys = torch.empty(0, dtype=torch.int64, device=batch.device)
        is_complement = users & (self.counts * 2 > num_items)
        if batch.item_mask is not None:
            return is_complement, torch.zeros_like(users), keys
        # Usually nothing but masked items is missing.
        is_known = users & (self.counts == num_items - self._num_masked)
        seen = batch.seen
        if seen is not None:
            keys = seen.keys[seen.fill_invalid(is_known[seen.rows], False)]
        return is_complement | is_known, is_known, keys

    def _is_offered(self, rows: Tensor) -> Tensor:
        """Return whether each item was offered to the users of some rows, `[rows, items]`."""
        batch, seen = self._batch, self._batch.seen
        if batch.scores is not None:
            return batch.scores.select(rows) > -torch.inf
        mask = batch.item_mask
        if mask is None:
            mask = torch.ones(self._num_items, dtype=torch.bool, device=batch.device)
        is_offered = mask.repeat(len(rows), 1)
        if seen is not None:
            index = torch.full((batch.size,), -1, device=batch.device)
            index[rows] = torch.arange(len(rows), device=batch.device)
            masked = index[seen.rows]
            is_offered[masked[masked >= 0], seen.items[masked >= 0]] = False
        return is_offered

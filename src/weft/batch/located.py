"""Where some interactions of a batch, such as the relevant ones, are in its lists."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from weft.data.tensors import SparseRows
from weft.ranking import count_equal_scores, get_kernel
from weft.ranking.positions import ObservedPositions, Positions, TieAveragedPositions

if TYPE_CHECKING:
    from weft.batch.batch import Batch


class LocatedItems:
    """Interactions of a batch, row by row, with their scores and positions in the lists."""

    def __init__(self, batch: Batch, rows: SparseRows) -> None:
        self._batch, self._rows = batch, rows
        # One pass over the scores has found the relevant items already.
        self._scan = batch.scan if rows is batch.relevant else None

    @cached_property
    def scores(self) -> Tensor:
        """The masked score of each item, `-inf` if not offered, listed or valid, `[n]`."""
        batch, rows = self._batch, self._rows
        if self._scan is not None:
            return self._scan.scores
        if batch.lists is not None:
            scores = batch.lists.scores_at(rows.keys)
        elif batch.scores is not None:
            scores = get_kernel(batch.device).read(batch.scores, rows)
        else:
            return torch.full_like(rows.values, -torch.inf)
        return rows.fill_invalid(scores, -torch.inf)

    @cached_property
    def indices(self) -> Tensor:
        """The position of each item from 0, `depth` if it is not in the list, `[n]`."""
        batch, rows = self._batch, self._rows
        if self._scan is not None:
            return self._scan.positions
        if batch.lists is None:
            return get_kernel(batch.device).find_positions(
                batch.items, batch.values, rows, self.scores
            )
        index, is_listed = batch.ordered_lists.locate(rows.keys)
        position = (index - batch.ordered_lists.offsets[rows.rows]).clamp(max=batch.depth)
        return rows.fill_invalid(torch.where(is_listed, position, batch.depth), batch.depth)

    @cached_property
    def observed(self) -> ObservedPositions:
        """The positions in the lists as they are, ties in the order drawn."""
        batch = self._batch
        return ObservedPositions(self.indices, self._rows, batch.depth, dtype=batch.dtype)

    @cached_property
    def positions(self) -> Positions:
        """The positions, averaged over all orders of ties for the tie rule `expected`."""
        batch = self._batch
        if batch.tie_rule.name != "expected" or batch.is_tie_free:
            return self.observed
        ties_with_last = batch.cached("ties_with_last", self._count_ties_with_last)
        values = batch.ranking.values[:, : batch.depth]  # those of empty positions, too
        return TieAveragedPositions(
            values, ties_with_last, self._rows, self.scores, dtype=batch.dtype
        )

    def _count_ties_with_last(self) -> Tensor:
        """Return the number of items with the score of the last position, `[batch]`."""
        batch = self._batch
        last = batch.ranking.values[:, batch.depth - 1]
        if batch.lists is not None:
            return count_equal_scores(batch.ordered_lists, last)
        assert batch.scores is not None
        offsets = torch.arange(batch.size + 1, device=batch.device)
        rows = SparseRows(offsets, torch.zeros_like(offsets[1:]), last, batch.truth.num_items)
        ranks, _ = get_kernel(batch.device).double_ranks(batch.scores, rows, last)
        # Every item that scores higher than the last one is in the list.
        return ranks - 2 * (batch.values > last[:, None]).sum(1)


class LocatedSubset(LocatedItems):
    """Some of the interactions of `whole`, `rows` those of a mask: located once for all of them."""

    def __init__(self, batch: Batch, rows: SparseRows, whole: LocatedItems, mask: Tensor) -> None:
        super().__init__(batch, rows)
        self._whole, self._mask = whole, mask

    @cached_property
    def scores(self) -> Tensor:
        """The masked score of each item, `-inf` if not offered, listed or valid, `[n]`."""
        return self._select(self._whole.scores, -torch.inf)

    @cached_property
    def indices(self) -> Tensor:
        """The position of each item from 0, `depth` if it is not in the list, `[n]`."""
        return self._select(self._whole.indices, self._batch.depth)

    def _select(self, values: Tensor, fill: float) -> Tensor:
        if self._batch.is_host_readable:
            return values[self._mask]
        return self._rows.fill_invalid(values, fill)

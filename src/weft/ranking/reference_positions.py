"""Positions of relevant items in lists that no model made: a random order of the offered items, and
the best order. Metrics of these are the floor and the ceiling of a model's value.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.data.tensors import SparseRows
from weft.ranking.positions import Cutoffs, ObservedPositions, TieAveragedPositions


class RandomPositions(TieAveragedPositions):
    """Relevant items averaged over all orders of the offered items: all of them are tied.

    `num_offered [batch]`; `is_offered [n]`: whether each relevant item was offered."""

    def __init__(
        self,
        num_offered: Tensor,
        relevant: SparseRows,
        is_offered: Tensor,
        depth: int,
        *,
        dtype: torch.dtype,
    ) -> None:
        self._dtype = dtype
        positions = torch.arange(depth, device=num_offered.device)
        length = num_offered[:, None].long()
        is_filled = positions < length
        # The positions after the last offered item are a group of their own, without an item.
        self._start = torch.where(is_filled, 0, length)
        self._size = torch.where(is_filled, length, depth - length).to(dtype)
        self._offset = (positions - self._start).to(dtype)
        self._group, self._is_listed = relevant.rows * depth, is_offered
        self._set_hits(relevant)


class IdealPositions(ObservedPositions):
    """Relevant items in the best order: those that were offered, by decreasing value."""

    def __init__(
        self, relevant: SparseRows, is_offered: Tensor, depth: int, *, dtype: torch.dtype
    ) -> None:
        self._is_offered = is_offered
        positions = _positions_by_value(torch.zeros_like(relevant.values), is_offered, relevant)
        super().__init__(positions.clamp(max=depth), relevant, depth, dtype=dtype)

    def gains(self, cutoffs: Cutoffs, values: Tensor, weights: Tensor | None = None) -> Tensor:
        positions = _positions_by_value(values, self._is_offered, self._relevant)
        return ObservedPositions(
            positions.clamp(max=self._depth), self._relevant, self._depth, dtype=self._dtype
        ).gains(cutoffs, values, weights)


def _positions_by_value(values: Tensor, is_offered: Tensor, relevant: SparseRows) -> Tensor:
    """Return the position, from 0, of each relevant item by decreasing value in its row, `[n]`.

    Items that were not offered have positions beyond all lists."""
    rows = relevant.rows
    order = torch.where(is_offered, values, -torch.inf).argsort(descending=True, stable=True)
    order = order[rows[order].argsort(stable=True)]
    first = relevant.offsets.index_select(0, rows)
    positions = torch.arange(len(rows), device=rows.device) - first
    positions = torch.empty_like(positions).scatter_(0, order, positions)
    return torch.where(is_offered, positions, torch.iinfo(positions.dtype).max)

"""Scores in which some interactions are masked, without writing to the scores themselves."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from weft.data.devices import is_host_readable
from weft.data.tensors import SparseRows


@dataclass(frozen=True)
class MaskedScores:
    """Scores `[batch, items]` that count as `-inf` at the interactions `masked`.

    `data` are the scores before masking, which may be the caller's: they are never written to."""

    data: Tensor
    masked: SparseRows | None = None

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and of items."""
        rows, items = self.data.shape
        return rows, items

    @property
    def has_masks(self) -> bool:
        """True if a score may be masked."""
        return self.masked is not None and len(self.masked.items) > 0

    def mask(self, others: SparseRows) -> MaskedScores:
        """Return the scores with further interactions masked."""
        rows = self.masked
        if rows is None:
            return MaskedScores(self.data, others)
        keys, order = torch.cat([rows.keys, others.keys]).sort()
        offsets, is_valid = rows.offsets + others.offsets, None
        if is_host_readable(keys.device):
            keys = keys.unique_consecutive()  # type: ignore[no-untyped-call]
            starts = torch.arange(len(offsets)) * rows.num_items
            offsets = torch.searchsorted(keys, starts)
        else:
            is_valid = torch.cat([rows.valid_ones, others.valid_ones])[order] > 0
        items = keys % max(1, rows.num_items)
        ones = torch.ones_like(keys, dtype=rows.values.dtype)
        return MaskedScores(self.data, SparseRows(offsets, items, ones, rows.num_items, is_valid))

    def tiles(self, step: int) -> Iterator[tuple[slice, Tensor]]:
        """Return all rows, `step` at a time: their numbers, and their masked scores.

        A tile is to be read only, since it may be `data`, and before the next one, which may use
        the same memory."""
        num_rows, num_items = self.shape
        is_copied = self.has_masks and is_host_readable(self.data.device)
        buffer = self.data.new_empty((min(step, num_rows), num_items) if is_copied else (0, 0))
        for start in range(0, num_rows, step):
            rows = slice(start, min(start + step, num_rows))
            tile = self.data[rows]
            if self.masked is not None and is_copied:
                first, last = self.masked.offsets[start], self.masked.offsets[rows.stop]
                keys = self.masked.keys[first:last] - start * num_items
                tile = _write_masks(buffer[: len(tile)].copy_(tile), keys)
            elif self.has_masks:
                tile = torch.where(self._is_masked[rows], -torch.inf, tile)
            yield rows, tile

    def select(self, rows: Tensor) -> Tensor:
        """Return a copy of some rows `[n]` with masked scores, `[n, items]`."""
        selected = self.data.index_select(0, rows)
        if self.masked is None or not self.has_masks:
            return selected
        if not is_host_readable(rows.device):
            return torch.where(self._is_masked[rows], -torch.inf, selected)
        lengths = self.masked.padded_lengths[rows]
        ends = lengths.cumsum(0)
        shift = (self.masked.offsets[rows] - ends + lengths).repeat_interleave(lengths)
        items = self.masked.items[torch.arange(len(shift)) + shift]
        first = torch.arange(len(rows)).repeat_interleave(lengths) * self.data.shape[1]
        return _write_masks(selected, first + items)

    def to_dense(self) -> Tensor:
        """Return a copy of all rows with masked scores, `[batch, items]`."""
        return self.select(torch.arange(len(self.data), device=self.data.device))

    @cached_property
    def _is_masked(self) -> Tensor:
        """True where a score is masked, `[batch, items]`, if the host cannot read rows."""
        assert self.masked is not None
        size = self.data.numel()
        # Padding is written to one more element, which is dropped.
        flat = torch.zeros(size + 1, dtype=torch.bool, device=self.data.device)
        flat.scatter_(0, self.masked.fill_invalid(self.masked.keys, size), True)
        return flat[:-1].view(self.data.shape)


def _write_masks(scores: Tensor, keys: Tensor) -> Tensor:
    """Set scores to `-inf` in place at indices of the flattened scores."""
    # Writing a tensor is several times faster than writing a number.
    scores.view(-1).scatter_(0, keys, scores.new_full((len(keys),), -torch.inf))
    return scores

"""Everything that one pass over the scores of a batch gives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from weft.data.tensors import SparseRows
from weft.ranking.masked_scores import MaskedScores


@dataclass(frozen=True)
class RowScan:
    """The ranked items of each row, and where some interactions are among them.

    `values` and `items`, `[batch, k]`, are the k best by (score descending, item ascending);
    after the end of a list the value is `-inf` and the item is not defined. `scores [n]` are those
    of the interactions, `-inf` if masked or padding. `positions [n]` are from 0, and k - 1 for
    interactions that are not in the first k - 1. `double_ranks` and `offered`, `[batch]`, are those
    of `Kernel.double_ranks`, if they were asked for."""

    values: Tensor
    items: Tensor
    scores: Tensor
    positions: Tensor
    double_ranks: Tensor | None = None
    offered: Tensor | None = None


Scan = Callable[[MaskedScores, int, SparseRows, bool], RowScan]


def compose_scan(
    top_k: Callable[[MaskedScores, int], tuple[Tensor, Tensor]],
    read: Callable[[MaskedScores, SparseRows], Tensor],
    find_positions: Callable[[Tensor, Tensor, SparseRows, Tensor], Tensor],
    double_ranks: Callable[[MaskedScores, SparseRows, Tensor], tuple[Tensor, Tensor]],
) -> Scan:
    """Return the operation `Kernel.scan`, composed of the other operations of a kernel."""

    def scan(scores: MaskedScores, k: int, rows: SparseRows, counts_ranks: bool) -> RowScan:
        values, items = top_k(scores, min(k, scores.shape[1]))
        values, items = pad_lists(values, items, k)
        own = rows.fill_invalid(read(scores, rows), -torch.inf)
        lists = torch.where(values > -torch.inf, items, -1)[:, : k - 1]
        positions = find_positions(lists, values[:, : k - 1], rows, own)
        ranks, offered = double_ranks(scores, rows, own) if counts_ranks else (None, None)
        return RowScan(values, items, own, positions, ranks, offered)

    return scan


def pad_lists(values: Tensor, items: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return lists `[batch, n]` with k positions, at least n: `-inf` and -1 after their end."""
    missing = k - values.shape[1]
    if missing:
        values = torch.nn.functional.pad(values, (0, missing), value=-torch.inf)
        items = torch.nn.functional.pad(items, (0, missing), value=-1)
    return values, items

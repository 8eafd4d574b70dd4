"""What stands at each position of the ranked lists: in the one order that was chosen, or over all orders of tied items.

Both give the same four quantities, so that a metric is one formula under every tie rule:

- `relevance`: the chance that position p holds a relevant item (0 or 1 in one order),
- `per_position(x)`: the expected value at p of a quantity given per relevant cell, such as its gain,
- `hit_pairs`: the expected product of relevance at p and hits up to p,
- `miss_run`: the chance that none of the first p positions holds a relevant item.

The closed forms for tied items follow McSherry and Najork (2008), doi 10.1007/978-3-540-78646-7_38.
"""

from __future__ import annotations

from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from weft.data.rows import SparseRows


class Order(Protocol):
    """Quantities by position, each `[batch, depth]`."""

    @property
    def relevance(self) -> Tensor: ...
    @property
    def hit_pairs(self) -> Tensor: ...
    @property
    def miss_run(self) -> Tensor: ...
    def per_position(self, of_cells: Tensor) -> Tensor: ...
    def precision_per_hit(self, k: int) -> Tensor: ...


class TheOrder:
    """One certain order: for each position the relevant cell that it hits, and whether it hits one."""

    def __init__(self, cells: Tensor, found: Tensor, *, dtype: torch.dtype) -> None:
        self._cells = cells
        self._found = found
        self.relevance = found.to(dtype)

    def per_position(self, of_cells: Tensor) -> Tensor:
        return torch.where(self._found, of_cells[self._cells], 0) if len(of_cells) else torch.zeros_like(self.relevance)

    @cached_property
    def hit_pairs(self) -> Tensor:
        return self.relevance * self.relevance.cumsum(1)

    @cached_property
    def miss_run(self) -> Tensor:
        return (1 - self.relevance).cumprod(1)

    def precision_per_hit(self, k: int) -> Tensor:
        """The mean over the hits among the first k of the precision at each, 0 without a hit; `[batch]`."""
        positions = torch.arange(1, k + 1, dtype=self.relevance.dtype, device=self.relevance.device)
        return (self.hit_pairs[:, :k] / positions).sum(1) / self.relevance[:, :k].sum(1).clamp(min=1)


class AllOrders:
    """Every order of tied items, equally likely.

    A group is a set of items with equal scores; only the last group of a list can reach beyond it. For each position: `start`,
    the number of items above its group; `size`, the items of its group; `hits`, its relevant ones; `before`, the relevant items
    above the group, all of which are certain.
    """

    def __init__(
        self, values: Tensor, ties_with_last: Tensor, relevant: SparseRows, relevant_scores: Tensor, *, dtype: torch.dtype
    ) -> None:
        if values.dtype in (torch.float16, torch.bfloat16):  # exact, and searchsorted knows it everywhere
            values, relevant_scores = values.float(), relevant_scores.float()
        self._relevant, self._dtype = relevant, dtype
        depth = values.shape[1]
        places = torch.arange(depth, device=values.device).expand_as(values)
        fresh = torch.ones_like(values, dtype=torch.bool)
        fresh[:, 1:] = values[:, 1:] != values[:, :-1]
        self._start = torch.where(fresh, places, 0).cummax(1).values
        ones = torch.ones_like(values, dtype=dtype)
        size = torch.zeros_like(ones).scatter_add_(1, self._start, ones).gather(1, self._start)
        listed = values > -torch.inf
        last_group = (self._start == self._start[:, -1:]) & listed
        self._size = torch.where(last_group, ties_with_last[:, None].to(dtype), size)
        self._offset = (places - self._start).to(dtype)

        # The group of each relevant cell: the first position whose score is not above its own, if the scores agree.
        scores = relevant.padded(relevant_scores, -torch.inf)
        group = torch.searchsorted(-values.contiguous(), -scores.contiguous()).clamp(max=depth - 1)
        self._group = group
        self._in_list = (values.gather(1, group) == scores) & (scores > -torch.inf)
        starting = self._sum_by_group(torch.ones_like(relevant.values))
        self._hits = starting.gather(1, self._start)
        self._before = (starting.cumsum(1) - starting).gather(1, self._start)

    def _sum_by_group(self, of_cells: Tensor) -> Tensor:
        """Sums over the relevant cells of each group, at the position where the group starts."""
        padded = torch.where(self._in_list, self._relevant.padded(of_cells, 0.0), 0).to(self._dtype)
        return torch.zeros_like(self._size).scatter_add_(1, self._group, padded)

    def per_position(self, of_cells: Tensor) -> Tensor:
        return self._sum_by_group(of_cells).gather(1, self._start) / self._size

    @cached_property
    def relevance(self) -> Tensor:
        return self._hits / self._size

    @cached_property
    def hit_pairs(self) -> Tensor:
        others = self._offset * (self._hits - 1) / (self._size - 1).clamp(min=1)
        return self.relevance * (self._before + 1 + others)

    @cached_property
    def miss_run(self) -> Tensor:
        left = self._size - self._offset
        return ((left - self._hits).clamp(min=0) / left).cumprod(1)

    def precision_per_hit(self, k: int) -> Tensor:
        """As in one order. The number of hits is uncertain in the group at the cut alone: sum over what it can be."""
        dtype, device = self._dtype, self._size.device
        positions = torch.arange(1, k + 1, dtype=dtype, device=device)
        inside = self._start[:, :k] == self._start[:, k - 1 : k]  # the positions of the group at the cut
        certain = torch.where(inside, 0, self.hit_pairs[:, :k] / positions).sum(1, keepdim=True)
        first = torch.where(inside, 1 / positions, 0).sum(1, keepdim=True)
        second = torch.where(inside, self._offset[:, :k] / positions, 0).sum(1, keepdim=True)
        slots = inside.sum(1, keepdim=True).to(dtype)
        size, hits, before = (x[:, k - 1 : k] for x in (self._size, self._hits, self._before))
        drawn = torch.arange(k + 1, dtype=dtype, device=device)
        possible = (drawn <= hits) & (drawn <= slots) & (slots - drawn <= size - hits)
        chance = torch.where(
            possible, torch.exp(_log_choose(hits, drawn) + _log_choose(size - hits, slots - drawn) - _log_choose(size, slots)), 0
        )
        pairs = drawn * (drawn - 1) / (slots * (slots - 1).clamp(min=1))
        precisions = certain + drawn / slots * (before + 1) * first + pairs * second
        found = before + drawn
        return (chance * torch.where(found > 0, precisions / found.clamp(min=1), 0)).sum(1)


def _log_choose(n: Tensor, k: Tensor) -> Tensor:
    """log of n over k, for the places where 0 <= k <= n; anything elsewhere."""
    k = torch.minimum(k.clamp(min=0), n)
    return torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)

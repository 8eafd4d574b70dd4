"""Where relevant items stand in the ranked lists: in the one order that was chosen, or over all orders of tied items.

Both give the same sums over the first k positions, for all cut-offs at once, so that a metric is one formula under every tie rule.
Each takes weights by position `[depth]`; without them every position counts 1.

- `hits(cutoffs)`: over the relevant items, the chance that one stands there (0 or 1 in one order),
- `gains(cutoffs, x)`: over the relevant items, a quantity given per relevant cell, such as its gain,
- `pairs(cutoffs)`: over the relevant items, the hits up to there,
- `first_hits(cutoffs)`: over the first relevant item of each list.

The closed forms for tied items follow McSherry and Najork (2008), doi 10.1007/978-3-540-78646-7_38.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor

from weft.data.rows import SparseRows

Cutoffs = tuple[int, ...]
CORRECTIONS = ("rank_estimate", "bias_variance")


@dataclass(frozen=True)
class Correction:
    """How ranks among sampled negatives become estimates of ranks among all. `gamma`: how much variance weighs against bias."""

    method: str
    gamma: float = 0.1


class Order(Protocol):
    """Sums over positions, each `[batch, cut-offs]`."""

    def hits(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor: ...
    def gains(self, cutoffs: Cutoffs, of_cells: Tensor, weights: Tensor | None = None) -> Tensor: ...
    def pairs(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor: ...
    def first_hits(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor: ...
    def precision_per_hit(self, k: int) -> Tensor: ...


def segments(cutoffs: Cutoffs, depth: int, device: torch.device) -> Tensor:
    """For each position, the number of the first cut-off that holds it, `[depth + 1]`; behind the last, the number of cut-offs."""
    spans = enumerate(zip((0, *cutoffs), (*cutoffs, depth + 1)))
    return torch.cat([torch.full((stop - start,), number, device=device) for number, (start, stop) in spans])


class TheOrder:
    """One certain order: the position of each relevant cell, `depth` where it is not in the list.

    Everything is a sum over the relevant cells, of which there are far fewer than positions.
    """

    def __init__(self, positions: Tensor, relevant: SparseRows, depth: int, *, dtype: torch.dtype) -> None:
        self.positions = positions
        self._relevant = relevant
        self._depth = depth
        self._dtype = dtype
        self._slots: dict[Cutoffs, Tensor] = {}

    def sum(self, cutoffs: Cutoffs, of_cells: Tensor) -> Tensor:
        """The sum of a quantity over the cells among the first k positions."""
        width = len(cutoffs) + 1  # what is in no list goes into a last column, which is cut off
        if cutoffs not in self._slots:
            place = segments(cutoffs, self._depth, self.positions.device).index_select(0, self.positions)
            self._slots[cutoffs] = self._relevant.rows * width + place
        sums = torch.zeros(self._relevant.num_rows * width, dtype=self._dtype, device=self.positions.device)
        return sums.scatter_add_(0, self._slots[cutoffs], of_cells).view(-1, width)[:, :-1].cumsum(1)

    def at_cells(self, weights: Tensor | None) -> Tensor:
        """Weights by position as a weight for each cell, which is 0 or irrelevant where it is not in the list."""
        if weights is None:
            return torch.ones_like(self._relevant.values)
        return torch.nn.functional.pad(weights, (0, 1)).index_select(0, self.positions)

    def hits(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor:
        return self.sum(cutoffs, self.at_cells(weights))

    def gains(self, cutoffs: Cutoffs, of_cells: Tensor, weights: Tensor | None = None) -> Tensor:
        return self.sum(cutoffs, of_cells if weights is None else of_cells * self.at_cells(weights))

    def pairs(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor:
        return self.gains(cutoffs, self._hits_up_to, weights)

    def first_hits(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor:
        return self.gains(cutoffs, (self._hits_up_to == 1).to(self._dtype), weights)

    @cached_property
    def _hits_up_to(self) -> Tensor:
        """For each cell that is hit, the hits of its list up to and with it."""
        rows = self._relevant.rows
        by_position = (rows * (self._depth + 1) + self.positions).argsort(stable=True)  # the rows stay where they were
        numbers = torch.arange(1, len(rows) + 1, device=rows.device) - self._relevant.offsets.index_select(0, rows)
        return torch.empty_like(numbers).scatter_(0, by_position, numbers).to(self._dtype)

    def per_position(self, of_cells: Tensor) -> Tensor:
        """A quantity given per relevant cell at the positions of the lists, `[batch, depth]`."""
        width = self._depth + 1
        spread = of_cells.new_zeros(self._relevant.num_rows * width)
        return spread.scatter_(0, self._relevant.rows * width + self.positions, of_cells).view(-1, width)[:, :-1]

    def precision_per_hit(self, k: int) -> Tensor:
        """The mean over the hits among the first k of the precision at each, 0 without a hit; `[batch]`."""
        positions = torch.arange(1, self._depth + 1, dtype=self._dtype, device=self.positions.device)
        return (self.pairs((k,), 1 / positions) / self.hits((k,)).clamp(min=1))[:, 0]


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

    def hits(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor:
        return _sums(self._relevance, cutoffs, weights)

    def gains(self, cutoffs: Cutoffs, of_cells: Tensor, weights: Tensor | None = None) -> Tensor:
        return _sums(self._sum_by_group(of_cells).gather(1, self._start) / self._size, cutoffs, weights)

    def pairs(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor:
        return _sums(self._hit_pairs, cutoffs, weights)

    def first_hits(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor:
        left = self._size - self._offset
        missed = ((left - self._hits).clamp(min=0) / left).cumprod(1)  # the chance that no hit has come up to here
        return _sums(torch.nn.functional.pad(missed, (1, 0), value=1.0)[:, :-1] - missed, cutoffs, weights)

    @cached_property
    def _relevance(self) -> Tensor:
        """The chance that a position holds a relevant item."""
        return self._hits / self._size

    @cached_property
    def _hit_pairs(self) -> Tensor:
        """The expected product of relevance at a position and hits up to it."""
        others = self._offset * (self._hits - 1) / (self._size - 1).clamp(min=1)
        return self._relevance * (self._before + 1 + others)

    def precision_per_hit(self, k: int) -> Tensor:
        """As in one order. The number of hits is uncertain in the group at the cut alone: sum over what it can be."""
        dtype, device = self._dtype, self._size.device
        positions = torch.arange(1, k + 1, dtype=dtype, device=device)
        inside = self._start[:, :k] == self._start[:, k - 1 : k]  # the positions of the group at the cut
        certain = torch.where(inside, 0, self._hit_pairs[:, :k] / positions).sum(1, keepdim=True)
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


def _sums(per_position: Tensor, cutoffs: Cutoffs, weights: Tensor | None) -> Tensor:
    sums = (per_position if weights is None else per_position * weights).cumsum(1)
    return torch.stack([sums[:, k - 1] for k in cutoffs], dim=1)


def _log_choose(n: Tensor, k: Tensor) -> Tensor:
    """log of n over k, for the places where 0 <= k <= n; anything elsewhere."""
    k = torch.minimum(k.clamp(min=0), n)
    return torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)

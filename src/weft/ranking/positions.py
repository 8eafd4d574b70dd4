"""Where relevant items stand in the ranked lists: in the one order that was chosen, over all orders
of tied items, or as estimated.

All give the same sums over the first k positions, for all cut-offs at once, so that a metric is one
formula under every tie rule, and with sampled negatives too. Each takes weights by position
`[depth]`; without them every position counts 1.

- `hits(cutoffs)`: over the relevant items, the chance that one stands there (0 or 1 in one order),
- `gains(cutoffs, x)`: over the relevant items, a quantity given per relevant cell, such as its
  gain,
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
from weft.errors import SettingError, check_choice, check_float
from weft.ranking import SampleSizes, count_above, estimate_ranks, estimate_weights

Cutoffs = tuple[int, ...]
ESTIMATORS = ("rank_estimate", "bias_variance")


@dataclass(frozen=True)
class RankEstimator:
    """How ranks among sampled negatives become estimates of ranks among all. `gamma`: how much
    variance weighs against bias.
    """

    method: str
    gamma: float = 0.1

    @classmethod
    def from_settings(
        cls,
        correction: str | None,
        gamma: float | None = None,
        *,
        strategy: str = "sampled",
        negative_sampling: str | None = "uniform",
        pool: str = "all",
    ) -> RankEstimator | None:
        """What the settings of a run ask for; None: nothing. Refuses what has no estimate.

        `pool`: what negatives are drawn from, "given" where the caller gives the candidates.
        """
        if correction is None:
            if gamma is not None:
                raise SettingError(
                    f"gamma={gamma!r} belongs to correction='bias_variance'; give that too, or "
                    "leave gamma out."
                )
            return None
        method = check_choice("correction", correction, ESTIMATORS)
        if strategy != "sampled":
            raise SettingError(
                f"correction={method!r} estimates from sampled negatives what all items would "
                f"give, but strategy={strategy!r} "
                "samples none; give strategy='sampled', or leave correction out."
            )
        if pool == "given":
            raise SettingError(
                f"correction={method!r} holds for negatives that Weft draws uniformly; how the "
                "candidates that were given came "
                "about is not known. Leave candidates out, or correction."
            )
        if negative_sampling not in (None, "uniform"):
            raise SettingError(
                f"correction={method!r} holds for negatives that are drawn uniformly; with "
                f"negative_sampling={negative_sampling!r} there is no estimate. Give "
                "negative_sampling='uniform', or leave "
                "correction out."
            )
        if gamma is None:
            return cls(method)
        if method != "bias_variance":
            raise SettingError(
                f"gamma={gamma!r} belongs to correction='bias_variance'; correction={method!r} has "
                "no such parameter."
            )
        wanted = float(check_float("gamma", gamma, more=" above 0, at most 1"))
        if not 0 < wanted <= 1:
            raise SettingError(
                f"gamma={gamma!r}; it must be a number above 0, at most 1: the weight of variance "
                "against bias."
            )
        return cls(method, wanted)

    def settings(self) -> dict[str, object]:
        """What a result records."""
        return {"correction": self.method} | (
            {"gamma": self.gamma} if self.method == "bias_variance" else {}
        )


class Positions(Protocol):
    """Sums over positions, each `[batch, cut-offs]`."""

    def hits(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor: ...
    def gains(
        self, cutoffs: Cutoffs, of_cells: Tensor, weights: Tensor | None = None
    ) -> Tensor: ...
    def pairs(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor: ...
    def first_hits(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor: ...
    def precision_per_hit(self, k: int) -> Tensor: ...


def segments(cutoffs: Cutoffs, depth: int, device: torch.device) -> Tensor:
    """For each position, the number of the first cut-off that holds it, `[depth + 1]`; behind the
    last, the number of cut-offs.
    """
    spans = enumerate(zip((0, *cutoffs), (*cutoffs, depth + 1)))
    return torch.cat(
        [torch.full((stop - start,), number, device=device) for number, (start, stop) in spans]
    )


def rank_in_rows(positions: Tensor, relevant: SparseRows, limit: int) -> Tensor:
    """Which of its row's relevant cells each is by position, the first 1. All positions are below
    `limit`.
    """
    rows = relevant.rows
    by_position = (rows * limit + positions).argsort(stable=True)  # the rows stay where they were
    numbers = torch.arange(1, len(rows) + 1, device=rows.device) - relevant.offsets.index_select(
        0, rows
    )
    return torch.empty_like(numbers).scatter_(0, by_position, numbers)


class ObservedPositions:
    """One certain order: the position of each relevant cell, `depth` where it is not in the list.

    Everything is a sum over the relevant cells, of which there are far fewer than positions.
    `numbers`: which of its row's relevant cells each is, the best 1, where that is known otherwise.
    """

    def __init__(
        self,
        positions: Tensor,
        relevant: SparseRows,
        depth: int,
        *,
        dtype: torch.dtype,
        numbers: Tensor | None = None,
    ) -> None:
        self.positions = positions
        self._relevant = relevant
        self._depth = depth
        self._dtype = dtype
        self._numbers = numbers
        self._slots: dict[Cutoffs, Tensor] = {}

    def sum(self, cutoffs: Cutoffs, of_cells: Tensor) -> Tensor:
        """The sum of a quantity over the cells among the first k positions."""
        width = len(cutoffs) + 1  # what is in no list goes into a last column, which is cut off
        if cutoffs not in self._slots:
            place = segments(cutoffs, self._depth, self.positions.device).index_select(
                0, self.positions
            )
            self._slots[cutoffs] = self._relevant.rows * width + place
        sums = torch.zeros(
            self._relevant.num_rows * width, dtype=self._dtype, device=self.positions.device
        )
        return (
            sums.scatter_add_(0, self._slots[cutoffs], of_cells).view(-1, width)[:, :-1].cumsum(1)
        )

    def at_cells(self, weights: Tensor | None) -> Tensor:
        """Weights by position as a weight for each cell, which is 0 or irrelevant where it is not
        in the list.
        """
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
        found = (
            rank_in_rows(self.positions, self._relevant, self._depth + 1)
            if self._numbers is None
            else self._numbers
        )
        return found.to(self._dtype)

    def per_position(self, of_cells: Tensor) -> Tensor:
        """A quantity given per relevant cell at the positions of the lists, `[batch, depth]`."""
        width = self._depth + 1
        spread = of_cells.new_zeros(self._relevant.num_rows * width)
        return spread.scatter_(0, self._relevant.rows * width + self.positions, of_cells).view(
            -1, width
        )[:, :-1]

    def precision_per_hit(self, k: int) -> Tensor:
        """The mean over the hits among the first k of the precision at each, 0 without a hit;
        `[batch]`.
        """
        positions = torch.arange(
            1, self._depth + 1, dtype=self._dtype, device=self.positions.device
        )
        return (self.pairs((k,), 1 / positions) / self.hits((k,)).clamp(min=1))[:, 0]


class TieAveragedPositions:
    """Every order of tied items, equally likely.

    A group is a set of items with equal scores; only the last group of a list can reach beyond it.
    For each position: `start`, the number of items above its group; `size`, the items of its group;
    `hits`, its relevant ones; `before`, the relevant items above the group, all of which are
    certain."""

    def __init__(
        self,
        values: Tensor,
        ties_with_last: Tensor,
        relevant: SparseRows,
        relevant_scores: Tensor,
        *,
        dtype: torch.dtype,
    ) -> None:
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

        # The group of each relevant cell: the first position whose score is not above its own, if
        # the scores agree.
        group = count_above(values, relevant.rows, relevant_scores).clamp(max=depth - 1)
        self._group = relevant.rows * depth + group
        self._in_list = (values.reshape(-1).index_select(0, self._group) == relevant_scores) & (
            relevant_scores > -torch.inf
        )
        starting = self._sum_by_group(torch.ones_like(relevant.values))
        self._hits = starting.gather(1, self._start)
        self._before = (starting.cumsum(1) - starting).gather(1, self._start)

    def _sum_by_group(self, of_cells: Tensor) -> Tensor:
        """Sums over the relevant cells of each group, at the position where the group starts."""
        in_list = torch.where(self._in_list, of_cells, 0).to(self._dtype)
        return (
            self._size.new_zeros(self._size.numel())
            .scatter_add_(0, self._group, in_list)
            .view_as(self._size)
        )

    def hits(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor:
        return _sums(self._relevance, cutoffs, weights)

    def gains(self, cutoffs: Cutoffs, of_cells: Tensor, weights: Tensor | None = None) -> Tensor:
        return _sums(
            self._sum_by_group(of_cells).gather(1, self._start) / self._size, cutoffs, weights
        )

    def pairs(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor:
        return _sums(self._hit_pairs, cutoffs, weights)

    def first_hits(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor:
        left = self._size - self._offset
        missed = ((left - self._hits).clamp(min=0) / left).cumprod(
            1
        )  # the chance that no hit has come up to here
        return _sums(
            torch.nn.functional.pad(missed, (1, 0), value=1.0)[:, :-1] - missed, cutoffs, weights
        )

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
        """As in one order. The number of hits is uncertain in the group at the cut alone: sum over
        what it can be.
        """
        dtype, device = self._dtype, self._size.device
        positions = torch.arange(1, k + 1, dtype=dtype, device=device)
        inside = (
            self._start[:, :k] == self._start[:, k - 1 : k]
        )  # the positions of the group at the cut
        certain = torch.where(inside, 0, self._hit_pairs[:, :k] / positions).sum(1, keepdim=True)
        first = torch.where(inside, 1 / positions, 0).sum(1, keepdim=True)
        second = torch.where(inside, self._offset[:, :k] / positions, 0).sum(1, keepdim=True)
        slots = inside.sum(1, keepdim=True).to(dtype)
        size, hits, before = (x[:, k - 1 : k] for x in (self._size, self._hits, self._before))
        drawn = torch.arange(k + 1, dtype=dtype, device=device)
        possible = (drawn <= hits) & (drawn <= slots) & (slots - drawn <= size - hits)
        chance = torch.where(
            possible,
            torch.exp(
                _log_choose(hits, drawn)
                + _log_choose(size - hits, slots - drawn)
                - _log_choose(size, slots)
            ),
            0,
        )
        pairs = drawn * (drawn - 1) / (slots * (slots - 1).clamp(min=1))
        precisions = certain + drawn / slots * (before + 1) * first + pairs * second
        found = before + drawn
        return (chance * torch.where(found > 0, precisions / found.clamp(min=1), 0)).sum(1)


class EstimatedPositions:
    """For some relevant cells a weight at each position, `[cells, depth]`; the others are in no
    list.

    Weights that estimate may be negative. `numbers`: which of its row's relevant cells each is, the
    best 1, which is certain."""

    def __init__(
        self, weights: Tensor, cells: Tensor, numbers: Tensor, relevant: SparseRows
    ) -> None:
        self._weights, self._cells, self._relevant = weights, cells, relevant
        self._numbers = numbers.to(weights.dtype)

    def _sum(self, cutoffs: Cutoffs, of_cells: Tensor | None, weights: Tensor | None) -> Tensor:
        positions = torch.arange(self._weights.shape[1], device=self._weights.device)
        columns = torch.stack([positions < k for k in cutoffs], dim=1).to(self._weights.dtype)
        at_cells = self._weights @ (columns if weights is None else columns * weights[:, None])
        if of_cells is not None:
            at_cells = at_cells * of_cells[:, None]
        sums = at_cells.new_zeros((self._relevant.num_rows, len(cutoffs)))
        return sums.index_add_(0, self._relevant.rows.index_select(0, self._cells), at_cells)

    def hits(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor:
        return self._sum(cutoffs, None, weights)

    def gains(self, cutoffs: Cutoffs, of_cells: Tensor, weights: Tensor | None = None) -> Tensor:
        return self._sum(cutoffs, of_cells.index_select(0, self._cells), weights)

    def pairs(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor:
        return self._sum(cutoffs, self._numbers, weights)

    def first_hits(self, cutoffs: Cutoffs, weights: Tensor | None = None) -> Tensor:
        return self._sum(cutoffs, (self._numbers == 1).to(self._numbers.dtype), weights)

    def precision_per_hit(self, k: int) -> Tensor:
        raise SettingError(
            "the mean precision over the hits is no sum over relevant items; it has no estimate "
            "from sampled negatives."
        )


def estimate_positions(
    correction: RankEstimator | None,
    positions: Tensor,
    offered: Tensor,
    numbers: Tensor,
    drawn: SampleSizes,
    relevant: SparseRows,
    depth: int,
    *,
    dtype: torch.dtype,
) -> Positions:
    """Where relevant cells would stand among all items, from their `positions` (from 0, not cut)
    among sampled negatives.

    `numbers`: which of its row's relevant cells each is, the best 1. Cells that were not `offered`
    are in no list, nor are those of a user for whom none of the eligible negatives was drawn:
    nothing says where they stand. Without a correction: as they stand.

    The tables behind `bias_variance` are made on the CPU, which waits for the positions.
    """
    above = positions - (numbers - 1)
    if correction is None:
        return ObservedPositions(
            torch.where(offered, positions, depth).clamp(max=depth),
            relevant,
            depth,
            dtype=dtype,
            numbers=numbers,
        )
    negatives, eligible = (
        part.index_select(0, relevant.rows) for part in (drawn.negatives, drawn.eligible)
    )
    known = offered & ((negatives > 0) | (eligible == 0))
    if correction.method == "rank_estimate":
        estimated = estimate_ranks(above, negatives, eligible) + numbers - 1
        return ObservedPositions(
            torch.where(known, estimated, depth).clamp(max=depth),
            relevant,
            depth,
            dtype=dtype,
            numbers=numbers,
        )
    cells = known.nonzero().flatten()
    x, m, pool = (part.index_select(0, cells).cpu() for part in (above, negatives, eligible))
    weights = estimate_weights(x, m, pool, correction.gamma, depth).to(positions.device, dtype)
    numbers = numbers.index_select(0, cells)
    # w[a] is about `a` negatives above, which stands at the position a + j - 1, from 0.
    places = torch.arange(depth, device=positions.device) - (numbers - 1)[:, None]
    weights = torch.where(places >= 0, weights.gather(1, places.clamp(min=0)), 0)
    return EstimatedPositions(weights, cells, numbers, relevant)


def _sums(per_position: Tensor, cutoffs: Cutoffs, weights: Tensor | None) -> Tensor:
    sums = (per_position if weights is None else per_position * weights).cumsum(1)
    return torch.stack([sums[:, k - 1] for k in cutoffs], dim=1)


def _log_choose(n: Tensor, k: Tensor) -> Tensor:
    """log of n over k, for the places where 0 <= k <= n; anything elsewhere."""
    k = torch.minimum(k.clamp(min=0), n)
    return torch.lgamma(n + 1) - torch.lgamma(k + 1) - torch.lgamma(n - k + 1)

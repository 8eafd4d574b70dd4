"""Tie rules: the order of items with equal scores, and the ranked lists that follow."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from weft._choices import TieRuleName, choices
from weft.data.devices import DeviceColumn, is_host_readable
from weft.data.tensors import SparseRows
from weft.errors import check_choice, check_int
from weft.ranking.kernels import get_kernel, top_k
from weft.ranking.kernels.row_scan import pad_lists
from weft.ranking.masked_scores import MaskedScores

TIE_RULES = choices(TieRuleName)
# Scores of a tile in which every item gets a random number.
_TILE_SCORES = 1 << 20
SPLITMIX_STEP = -7046029254386353131


@dataclass(frozen=True)
class Ranking:
    """Ranked items `[batch, depth]`, -1 after the end of a list, and their scores, `-inf` there."""

    items: Tensor
    values: Tensor

    @classmethod
    def from_lists(cls, values: Tensor, items: Tensor) -> Ranking:
        """Return the ranking of lists in which items with the score `-inf` come last."""
        # Usually all lists are full.
        if is_host_readable(values.device) and bool((values[:, -1:] > -torch.inf).all()):
            return cls(items, values)
        return cls(torch.where(values > -torch.inf, items, -1), values)


class TieRule:
    """The rule for all equal scores of a run.

    `"index"`: lower item index first. `"random"`: by a hash of (seed, user, item), and of nothing
    else. `"pessimistic"` and `"optimistic"`: relevant items last or first. `"expected"` draws its
    lists as `"random"`; accuracy metrics then average over all orders."""

    def __init__(self, name: str = "index", seed: int = 0, item_keys: Tensor | None = None) -> None:
        self.name = check_choice("ties", name, TIE_RULES)
        self.seed = check_int("seed", seed, least=0)
        self._item_keys = None if item_keys is None else DeviceColumn(item_keys)

    def rank(
        self, scores: MaskedScores, depth: int, *, user_keys: Tensor, relevant: SparseRows
    ) -> Ranking:
        """Return the `depth` best items of each row of `scores [batch, items]`.

        Items with the score `-inf` are never ranked."""
        if self.name == "index":
            values, items = top_k(scores, depth)
        elif self.name in ("random", "expected"):
            values, items = self._rank_by_hash(scores, depth, user_keys)
        else:
            values, items = self._rank_by_relevance(scores, depth, relevant)
        return Ranking.from_lists(*pad_lists(values, items, depth))

    def hash(self, user_keys: Tensor, items: Tensor) -> Tensor:
        """Return a nonnegative random number for each (user, item); `items [batch, n]`."""
        keys = items if self._item_keys is None else self._item_keys.to(items.device)[items]
        seeded = mix64(user_keys + mix64(torch.full_like(user_keys, self.seed)))
        return mix64(seeded[:, None] + keys * SPLITMIX_STEP) & 0x7FFF_FFFF_FFFF_FFFF

    def hash_entries(self, user_keys: Tensor, items: Tensor) -> Tensor:
        """Return a nonnegative random number for each (user, item) of lists, `[n]` both.

        Negative items, of empty positions, are their own keys."""
        keys = items
        if self._item_keys is not None:
            keys = torch.where(items >= 0, self._item_keys.lookup(items), items)
        return TieRule(self.name, self.seed).hash(user_keys, keys[:, None])[:, 0]

    def _rank_by_hash(
        self, scores: MaskedScores, depth: int, user_keys: Tensor
    ) -> tuple[Tensor, Tensor]:
        values, items = top_k(scores, depth + 1)
        if values.shape[1] > depth:
            has_tie = (values[:, depth] == values[:, depth - 1]) & (values[:, depth] > -torch.inf)
            values, items = values[:, :depth], items[:, :depth].clone()
            # Rows without a tie at the cut stay as they are: where the host cannot read which these
            # are, all rows are drawn.
            drawn_rows = torch.arange(len(values), device=values.device)
            if is_host_readable(values.device):
                drawn_rows = has_tie.nonzero().flatten()
            for rows in torch.split(drawn_rows, max(1, _TILE_SCORES // scores.shape[1])):
                items[rows] = self._draw_last_group(
                    scores.select(rows), values[rows], items=items[rows], user_keys=user_keys[rows]
                )
        order = self.hash(user_keys, items).argsort(dim=1, stable=True)
        by_value = torch.sort(values.gather(1, order), dim=1, descending=True, stable=True)
        order = order.gather(1, by_value.indices)
        return values.gather(1, order), items.gather(1, order)

    def _draw_last_group(
        self, scores: Tensor, values: Tensor, *, items: Tensor, user_keys: Tensor
    ) -> Tensor:
        """Return the lists with items of their lowest score drawn from all items of that score."""
        depth = items.shape[1]
        lowest = values[:, -1:]
        every_item = torch.arange(scores.shape[1], device=scores.device).expand(len(scores), -1)
        random = torch.where(
            scores == lowest, self.hash(user_keys, every_item), torch.iinfo(torch.int64).max
        )
        drawn = random.topk(depth, dim=1, largest=False).indices
        num_above = (values > lowest).sum(1, keepdim=True)
        index = torch.arange(depth, device=scores.device) - num_above
        return torch.where(index < 0, items, drawn.gather(1, index.clamp(min=0)))

    def _rank_by_relevance(
        self, scores: MaskedScores, depth: int, relevant: SparseRows
    ) -> tuple[Tensor, Tensor]:
        """Rank the other items, then insert the relevant ones before or after their ties."""
        is_optimistic = self.name == "optimistic"
        own = get_kernel(scores.data.device).read(scores, relevant)
        own = relevant.fill_invalid(own, -torch.inf)
        values, items = top_k(scores.mask(relevant), depth)
        if len(own) == 0:
            return values, items
        depth = values.shape[1]
        # Sort the relevant items of a row by score, then grade, then item; + 0.0: -0.0 equals 0.0.
        order = torch.sort(relevant.values, descending=is_optimistic, stable=True).indices
        order = order[torch.sort(own[order] + 0.0, descending=True, stable=True).indices]
        order = order[torch.sort(relevant.rows[order], stable=True).indices]
        rows, falling = relevant.rows, own[order]  # a sort by row leaves the rows as they are
        before = torch.arange(len(rows), device=rows.device) - relevant.offsets[rows]
        position = before + count_above(values, rows, falling, or_equal=not is_optimistic)
        position = torch.where(falling > -torch.inf, position.clamp(max=depth), depth)
        width = depth + 1  # items in no list go to one more column, which is dropped
        inserted = torch.full((len(values) * width,), -1, device=rows.device)
        inserted = inserted.scatter_(0, rows * width + position, order).view(-1, width)[:, :-1]
        is_free, index = inserted < 0, inserted.clamp(min=0)
        rest = (is_free.cumsum(1) - 1).clamp(min=0)  # the others keep their order
        merged = torch.where(is_free, values.gather(1, rest), own[index])
        # NaN and +inf, which are to be refused, must stay the first.
        merged[:, 0] = torch.where(values[:, 0] < torch.inf, merged[:, 0], values[:, 0])
        return merged, torch.where(is_free, items.gather(1, rest), relevant.items[index])


def count_above(values: Tensor, rows: Tensor, scores: Tensor, *, or_equal: bool = False) -> Tensor:
    """Return how many values of its row are above (or equal to) each score, `[n]`.

    `values [batch, depth]` fall in each row; `rows [n]` are the rows of the scores."""
    depth = values.shape[1]
    flat, first = values.reshape(-1), rows * depth
    count = torch.zeros_like(rows)
    step = 1 << max(0, depth.bit_length() - 1)
    while step and depth:  # a binary search for all scores at once
        reached = count + step
        value = flat.index_select(0, first + reached.clamp(max=depth) - 1)
        is_above = value >= scores if or_equal else value > scores
        count = torch.where((reached <= depth) & is_above, reached, count)
        step //= 2
    return count


def mix64(numbers: Tensor) -> Tensor:
    """Return int64 numbers hashed by the finalizer of splitmix64."""
    numbers = (numbers ^ _shift(numbers, 30)) * -4658895280553007687
    numbers = (numbers ^ _shift(numbers, 27)) * -7723592293110705685
    return numbers ^ _shift(numbers, 31)


def _shift(numbers: Tensor, bits: int) -> Tensor:
    """Shift right without the sign."""
    return (numbers >> bits) & ((1 << (64 - bits)) - 1)

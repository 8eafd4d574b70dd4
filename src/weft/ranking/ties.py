"""Who comes first among equal scores, and the ranked lists that follow."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from weft._choices import TieRuleName, choices
from weft.data.columns import DeviceColumn
from weft.data.devices import is_host_readable
from weft.data.rows import SparseRows
from weft.errors import check_choice, check_int
from weft.ranking.masking import hidden
from weft.ranking.topk import top_k

TIE_RULES = choices(TieRuleName)
_TILE = 1 << 20


@dataclass(frozen=True)
class Ranking:
    """Ranked items `[batch, depth]` (-1 where a list has ended) and their scores (`-inf` there)."""

    items: Tensor
    values: Tensor


class TieRule:
    """One rule for all equal scores of a run.

    `"index"`: lower item index first. `"random"`: by a hash of (seed, user, item), and of nothing
    else. `"pessimistic"` and `"optimistic"`: relevant items last or first, which the caller tells.
    `"expected"` draws its lists like `"random"`; the accuracy metrics then average over all orders.
    """

    def __init__(self, name: str = "index", seed: int = 0, item_keys: Tensor | None = None) -> None:
        self.name = check_choice("ties", name, TIE_RULES)
        self.seed = check_int("seed", seed, least=0)
        self._item_keys = None if item_keys is None else DeviceColumn(item_keys)

    def rank(self, scores: Tensor, depth: int, user_keys: Tensor, relevant: SparseRows) -> Ranking:
        """The `depth` best items of each row of `scores [batch, items]`; `-inf` is never ranked."""
        if self.name == "index":
            values, items = top_k(scores, depth)
        elif self.name in ("random", "expected"):
            values, items = self._by_hash(scores, depth, user_keys)
        else:
            values, items = self._by_relevance(scores, depth, relevant)
        missing = depth - values.shape[1]
        if missing:
            values = torch.nn.functional.pad(values, (0, missing), value=-torch.inf)
            items = torch.nn.functional.pad(items, (0, missing), value=-1)
        return Ranking(torch.where(values > -torch.inf, items, -1), values)

    def hash(self, user_keys: Tensor, items: Tensor) -> Tensor:
        """A number from 0 up for each (user, item); `items [batch, n]`."""
        keys = items if self._item_keys is None else self._item_keys.on(items.device)[items]
        seeded = mix64(user_keys + mix64(torch.full_like(user_keys, self.seed)))
        return mix64(seeded[:, None] + keys * -7046029254386353131) & 0x7FFF_FFFF_FFFF_FFFF

    def _by_hash(self, scores: Tensor, depth: int, user_keys: Tensor) -> tuple[Tensor, Tensor]:
        values, items = top_k(scores, depth + 1)
        if values.shape[1] > depth:
            open_rows = (values[:, depth] == values[:, depth - 1]) & (values[:, depth] > -torch.inf)
            values, items = values[:, :depth], items[:, :depth].clone()
            step = max(1, _TILE // scores.shape[1])
            # Rows that are not open come out as they are: where the host does not see which they
            # are, all are drawn.
            drawn = (
                open_rows.nonzero().flatten()
                if is_host_readable(scores.device)
                else torch.arange(len(scores), device=scores.device)
            )
            for rows in torch.split(drawn, step):
                items[rows] = self._choose_last_tie(
                    scores[rows], values[rows], items[rows], user_keys[rows]
                )
        order = self.hash(user_keys, items).argsort(dim=1, stable=True)
        order = order.gather(
            1, torch.sort(values.gather(1, order), dim=1, descending=True, stable=True).indices
        )
        return values.gather(1, order), items.gather(1, order)

    def _choose_last_tie(
        self, scores: Tensor, values: Tensor, items: Tensor, user_keys: Tensor
    ) -> Tensor:
        """The lists with the items of their lowest score drawn from all that have this score."""
        depth = items.shape[1]
        lowest = values[:, -1:]
        everything = torch.arange(scores.shape[1], device=scores.device).expand(len(scores), -1)
        draw = torch.where(
            scores == lowest, self.hash(user_keys, everything), torch.iinfo(torch.int64).max
        )
        drawn = draw.topk(depth, dim=1, largest=False).indices
        above = (values > lowest).sum(1, keepdim=True)
        place = torch.arange(depth, device=scores.device) - above
        return torch.where(place < 0, items, drawn.gather(1, place.clamp(min=0)))

    def _by_relevance(
        self, scores: Tensor, depth: int, relevant: SparseRows
    ) -> tuple[Tensor, Tensor]:
        """Rank the other items alone, then let the relevant ones in on the wanted side of their
        ties.
        """
        best_first = self.name == "optimistic"
        own = relevant.only(scores.view(-1).index_select(0, relevant.keys), -torch.inf)
        with hidden(scores, relevant) as (others, _):
            values, items = top_k(others, depth)
        if len(own) == 0:
            return values, items
        depth = values.shape[1]
        # The relevant items of a row among themselves: by score, then by grade, then by item, in
        # which order they come.
        order = torch.sort(relevant.values, descending=best_first, stable=True).indices
        order = order[
            torch.sort(own[order] + 0.0, descending=True, stable=True).indices
        ]  # + 0.0: -0.0 equals 0.0
        order = order[torch.sort(relevant.rows[order], stable=True).indices]
        rows, falling = relevant.rows, own[order]  # sorted by row: the rows stay where they were
        before = torch.arange(len(rows), device=rows.device) - relevant.offsets[rows]
        position = before + count_above(values, rows, falling, or_equal=not best_first)
        position = torch.where(falling > -torch.inf, position.clamp(max=depth), depth)
        width = depth + 1  # one more column, for what is in no list, is cut off
        taken = torch.full((len(scores) * width,), -1, device=rows.device)
        taken = taken.scatter_(0, rows * width + position, order).view(-1, width)[:, :-1]
        free, cell = taken < 0, taken.clamp(min=0)
        rest = (free.cumsum(1) - 1).clamp(min=0)  # the others keep their order
        return torch.where(free, values.gather(1, rest), own[cell]), torch.where(
            free, items.gather(1, rest), relevant.items[cell]
        )


def count_above(values: Tensor, rows: Tensor, scores: Tensor, *, or_equal: bool = False) -> Tensor:
    """For scores given per cell, how many of its row's falling `values [batch, depth]` are above
    (or equal).
    """
    depth = values.shape[1]
    flat, first = values.reshape(-1), rows * depth
    found = torch.zeros_like(rows)
    step = 1 << max(0, depth.bit_length() - 1)
    while step and depth:  # a binary search for all cells at once
        reached = found + step
        value = flat.index_select(0, first + reached.clamp(max=depth) - 1)
        is_above = value >= scores if or_equal else value > scores
        found = torch.where((reached <= depth) & is_above, reached, found)
        step //= 2
    return found


def mix64(numbers: Tensor) -> Tensor:
    """The finishing steps of splitmix64: every bit of the input moves every bit of the output."""
    numbers = (numbers ^ _shift(numbers, 30)) * -4658895280553007687
    numbers = (numbers ^ _shift(numbers, 27)) * -7723592293110705685
    return numbers ^ _shift(numbers, 31)


def _shift(numbers: Tensor, bits: int) -> Tensor:
    return (numbers >> bits) & ((1 << (64 - bits)) - 1)

"""The recommendation lists of one batch as tensors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import pad

from weft._native import call, is_built
from weft.data.devices import float_type, is_host_readable
from weft.data.sorting import sort_by_item
from weft.data.tensors import RaggedRows

_MAX_NATIVE_ENTRIES = 1 << 31


@dataclass(frozen=True)
class BatchLists(RaggedRows):
    """The lists of one batch, on its device: offsets `[batch + 1]`, items and scores `[entries]`.

    `is_order_given`: equal scores are not ties. `is_missing`: the source has no list for these
    users, not even an empty one. `is_complete`: the lists hold all candidates. `has_empty`: there
    may be empty positions, entries with a negative item (see `list_policy`). `item_index`: keys in
    a flattened `[batch, items]` matrix, ascending, and the entries there; None: not computed.
    """

    offsets: Tensor
    items: Tensor
    given_scores: Tensor | None
    num_items: int
    is_order_given: bool
    is_missing: bool = False
    is_complete: bool = False
    has_empty: bool = False
    is_valid: Tensor | None = None
    error_counts: Mapping[str, Tensor] = field(default_factory=dict)
    item_index: tuple[Tensor, Tensor] | None = None

    @classmethod
    def from_candidates(cls, scores: Tensor, items: Tensor, num_items: int) -> BatchLists:
        """Return complete lists of the items `[batch, n]` with a score above `-inf`, best first.

        Items ascend in each row; -1 is padding.
        """
        scores = torch.where(items >= 0, scores.to(float_type(scores.device)), -torch.inf)
        is_candidate = scores > -torch.inf
        offsets = pad(is_candidate.sum(1).cumsum(0), (1, 0))
        *ranked, positions = _rank_candidates(scores, items)
        first = torch.arange(len(items), device=items.device)[:, None] * num_items
        index = (first + items, positions.add_(offsets[:-1, None]))
        if bool(is_candidate.all()):  # mostly all rows are full
            listed, values, keys, entries = (part.reshape(-1) for part in (*ranked, *index))
        else:
            is_listed = ranked[1] > -torch.inf
            listed, values = (part[is_listed] for part in ranked)
            keys, entries = (part[is_candidate] for part in index)
        return cls(
            offsets,
            listed,
            values,
            num_items,
            is_order_given=False,
            is_complete=True,
            item_index=(keys, entries),
        )

    @classmethod
    def from_masked_candidates(
        cls, scores: Tensor, items: Tensor, num_items: int, error_counts: Mapping[str, Tensor]
    ) -> BatchLists:
        """Return complete lists where the host cannot read how many candidates there are.

        Items `[batch, n]` that are no candidates have a score of `-inf` and become padding;
        `num_items` means no item.
        """
        width = items.shape[1]
        best = scores.to(float_type(scores.device)).sort(dim=1, descending=True, stable=True)
        rows = torch.arange(len(items) + 1, device=items.device)
        items = items.clamp(max=num_items - 1)
        keys = rows[:-1, None] * num_items + items
        entries = rows[:-1, None] * width + _invert(best.indices)
        return cls(
            rows * width,
            items.gather(1, best.indices).reshape(-1),
            best.values.reshape(-1),
            num_items,
            is_order_given=False,
            is_complete=True,
            item_index=(keys.reshape(-1), entries.reshape(-1)),
            is_valid=(best.values > -torch.inf).reshape(-1),
            error_counts=error_counts,
        )

    @classmethod
    def empty(cls, users: int, num_items: int, device: torch.device) -> BatchLists:
        """Return missing lists for a number of users."""
        none = torch.empty(0, dtype=torch.int64, device=device)
        offsets = torch.zeros(users + 1, dtype=torch.int64, device=device)
        return cls(
            offsets,
            none,
            None,
            num_items,
            is_order_given=True,
            is_missing=True,
            item_index=(none, none),
        )

    @cached_property
    def scores(self) -> Tensor:
        """The score of each entry; without scores -1, -2, -3, ... in each list."""
        if self.given_scores is not None:
            return self.given_scores
        entries = torch.arange(len(self.items), device=self.items.device)
        positions = entries - self.offsets[self.rows]
        return -1 - positions.to(float_type(self.items.device))

    def locate(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """Look up keys of a flattened `[batch, items]` matrix.

        Return the entry at each key, and whether there is one, both of the shape of `keys`.
        """
        if id(keys) not in self._locations:  # the keys of the truth are looked up several times
            self._locations[id(keys)] = keys, self._locate(keys)
        return self._locations[id(keys)][1]

    @cached_property
    def _locations(self) -> dict[int, tuple[Tensor, tuple[Tensor, Tensor]]]:
        return {}

    def _locate(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        if len(self.items) == 0:
            return torch.zeros_like(keys), torch.zeros_like(keys, dtype=torch.bool)
        if self.item_index is None and (entries := self._locate_natively(keys)) is not None:
            return entries.clamp(min=0), entries >= 0
        index_keys, index_entries = self._item_index
        if len(index_keys) == 0:  # all positions are empty
            return torch.zeros_like(keys), torch.zeros_like(keys, dtype=torch.bool)
        if is_host_readable(keys.device):  # NumPy is faster for sorted keys
            places = torch.from_numpy(np.searchsorted(index_keys.numpy(), keys.numpy()))
        else:
            places = torch.searchsorted(index_keys, keys)
        places = places.clamp_(max=len(index_keys) - 1)
        entries = index_entries.index_select(0, places)
        is_listed = index_keys.index_select(0, places) == keys
        if self.is_valid is not None:
            is_listed = is_listed & self.is_valid.index_select(0, entries)
        return entries, is_listed

    def _locate_natively(self, keys: Tensor) -> Tensor | None:
        """Return the entry at each key, -1 for none; None if the native loop does not apply."""
        is_usable = is_built() and is_host_readable(keys.device) and not self.has_empty
        if not is_usable or len(self.items) >= _MAX_NATIVE_ENTRIES:
            return None
        entries = torch.empty_like(keys)
        lists = (self.offsets.numpy(), self.num_rows, self.items.numpy(), self.num_items)
        sought = np.ascontiguousarray(keys.numpy())
        num_done = call("find_in_lists", *lists, sought, len(keys), entries.numpy())
        return entries if num_done == len(keys) else None

    @cached_property
    def _item_index(self) -> tuple[Tensor, Tensor]:
        """`item_index`, computed if it is None; it is given where the host cannot read items."""
        if self.item_index is not None:
            return self.item_index
        keys, entries = index_items(
            self.items.numpy(),
            self.offsets.numpy(),
            num_items=self.num_items,
            has_empty=self.has_empty,
        )
        return torch.from_numpy(keys), torch.from_numpy(entries)

    def contains(self, keys: Tensor) -> Tensor:
        """Return whether an item is listed at each key of a flattened `[batch, items]` matrix."""
        return self.locate(keys)[1]

    @cached_property
    def tie_bounds(self) -> tuple[Tensor, Tensor]:
        """For each entry, the first entry of its tie, and the first one after it, `[n]` both."""
        entries = torch.arange(len(self.items), device=self.items.device)
        if not len(entries):
            return entries, entries
        is_first = torch.ones(len(entries) + 1, dtype=torch.bool, device=entries.device)  # of a tie
        if not self.is_order_given and len(entries) > 1:
            differs = self.scores[1:] != self.scores[:-1]
            is_first[1:-1] = differs | (self.rows[1:] != self.rows[:-1])
        start = torch.where(is_first[:-1], entries, 0).cummax(0).values
        ends = torch.where(is_first[1:], entries + 1, len(entries))
        stop = ends.flip(0).cummin(0).values.flip(0)
        return start, stop

    @cached_property
    def double_ranks(self) -> Tensor:
        """For each entry, how many of its list score above it plus how many at least as high."""
        start, stop = self.tie_bounds
        return start + stop - 2 * self.offsets[self.rows]

    def scores_at(self, keys: Tensor) -> Tensor:
        """Return the scores at keys of a flattened `[batch, items]` matrix; `-inf` for none."""
        nothing = keys.new_full(keys.shape, -torch.inf, dtype=float_type(keys.device))
        entries, is_listed = self.locate(keys)
        if self.given_scores is None or len(self.items) == 0:
            return nothing
        return torch.where(is_listed, self.given_scores.index_select(0, entries), nothing)

    def top(self, depth: int) -> tuple[Tensor, Tensor]:
        """Return the first items of each list and their scores, -1 and `-inf` after its end.

        Empty positions keep their codes, below -1, and their scores.
        Shape `[batch, depth + 1]`, or `[batch, depth]` if no list has more items.
        """
        depth += 1
        device = self.items.device
        shape = (self.num_rows, depth)
        if len(self.items) == 0:
            scores = torch.full(shape, -torch.inf, dtype=float_type(device))
            return self.items.new_full(shape, -1), scores.to(device)
        length = len(self.items) // self.num_rows
        if is_host_readable(device) and bool((self.lengths == length).all()):
            depth -= length < depth  # lists of equal length are a matrix
            items, scores = self.items.view(-1, length), self.scores.view(-1, length)
            return _pad_columns(items, depth, -1), _pad_columns(scores, depth, -torch.inf)
        positions = torch.arange(depth, device=device)
        is_listed = positions < self.lengths[:, None]
        entries = torch.where(is_listed, self.offsets[:-1, None] + positions, 0)
        items = torch.where(is_listed, self.items[entries], -1)
        return items, torch.where(is_listed, self.scores[entries], -torch.inf)

    def to_dense(self) -> Tensor:
        """Return the scores as a `[batch, items]` matrix, `-inf` for items that are not listed."""
        size = self.num_rows * self.num_items
        dense = self.scores.new_full((size,), -torch.inf)
        keys = self.rows * self.num_items + self.items
        if self.has_empty:
            is_item = self.items >= 0
            keys, scores = torch.where(is_item, keys, 0), self.fill_invalid(self.scores, -torch.inf)
            dense.scatter_reduce_(0, keys, torch.where(is_item, scores, -torch.inf), "amax")
        elif self.is_valid is None:
            dense[keys] = self.scores
        else:  # padding may have the key of a valid entry
            scores = self.fill_invalid(self.scores, -torch.inf)
            dense.scatter_reduce_(0, keys, scores, "amax")
        return dense.view(self.num_rows, self.num_items)

    def filter(self, mask: Tensor) -> BatchLists:
        """Return lists of the entries where the mask `[entries]` is true, without gaps."""
        given = self.given_scores
        if not is_host_readable(mask.device):
            is_valid = self.fill_invalid(mask, False)
            # Invalid entries come last in their list.
            order = (self.rows * 2 + (~is_valid).long()).argsort(stable=True)
            scores = None if given is None else torch.where(is_valid, given, -torch.inf)
            return replace(self, given_scores=scores, is_valid=is_valid).reorder(order)
        new_entries = pad(mask.long().cumsum(0), (1, 0))
        index = None
        if self.item_index is not None:
            keys, entries = self.item_index
            is_kept = mask[entries]
            index = keys[is_kept], new_entries[entries[is_kept]]
        return replace(
            self,
            offsets=new_entries[self.offsets],
            items=self.items[mask],
            given_scores=None if given is None else given[mask],
            item_index=index,
        )

    def reorder(self, order: Tensor) -> BatchLists:
        """Return the entries in another order `[entries]`, which leaves each in its list."""
        index = self.item_index
        if index is not None:
            new_entries = torch.empty_like(order)
            new_entries[order] = torch.arange(len(order), device=order.device)
            index = index[0], new_entries[index[1]]
        return replace(
            self,
            items=self.items[order],
            given_scores=None if self.given_scores is None else self.given_scores[order],
            item_index=index,
            is_valid=None if self.is_valid is None else self.is_valid[order],
        )

    def exchange(self, places: Tensor, sources: Tensor) -> BatchLists:
        """Return lists in which entries `places [n]` hold what `sources [n]` held, the same entries
        in another order; each stays in its list. Faster than `reorder` if there are few.
        """
        items, scores, index = self.items.clone(), self.given_scores, self.item_index
        items[places] = self.items[sources]
        if scores is not None:
            scores = scores.clone()
            scores[places] = scores[sources]
        if index is not None:
            keys, entries = index[0], index[1].clone()
            moved = self.rows[places] * self.num_items + items[places]
            entries[torch.searchsorted(keys, moved)] = places
            index = keys, entries
        return replace(self, items=items, given_scores=scores, item_index=index)


def index_items(
    items: NDArray[np.int64], offsets: NDArray[np.int64], *, num_items: int, has_empty: bool
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return `BatchLists.item_index`, without empty positions."""
    if not has_empty:
        return sort_by_item(items, offsets, num_items=num_items)
    is_item = items >= 0
    item_offsets = np.concatenate([[0], np.cumsum(is_item)])[offsets]
    keys, index = sort_by_item(items[is_item], item_offsets, num_items=num_items)
    return keys, np.flatnonzero(is_item)[index]


def _rank_candidates(scores: Tensor, items: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return items and scores `[rows, n]` by falling score, and the position of each item.

    Equal scores stay in the order of their items."""
    if scores.dtype == torch.float64 and is_host_readable(scores.device) and is_built():
        scores, items = scores.contiguous(), items.contiguous()
        values, ranked, positions = (
            scores.new_empty(scores.shape),
            *items.new_empty((2, *items.shape)),
        )
        arrays = (part.numpy() for part in (values, ranked, positions))
        call("rank_candidates", scores.numpy(), items.numpy(), *scores.shape, *arrays)
        return ranked, values, positions
    best = scores.sort(dim=1, descending=True, stable=True)
    return items.gather(1, best.indices), best.values, _invert(best.indices)


def _invert(permutations: Tensor) -> Tensor:
    """Return the inverse of the permutation in each row, `[rows, n]`."""
    positions = torch.arange(permutations.shape[1], device=permutations.device)
    inverse = torch.empty_like(permutations)
    return inverse.scatter_(1, permutations, positions.expand_as(permutations))


def _pad_columns(part: Tensor, width: int, fill: float) -> Tensor:
    """Return the first `width` columns, filled up with `fill`."""
    length = part.shape[1]
    if length >= width:
        return part[:, :width]
    padded = part.new_empty((len(part), width))
    padded[:, :length] = part
    padded[:, length:] = fill
    return padded

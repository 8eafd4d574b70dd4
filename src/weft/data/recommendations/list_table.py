"""Recommendation lists as they are read, and their encoding."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft._native import call, is_built
from weft.data.interaction_table import InteractionTable
from weft.data.recommendations.encoded_lists import EncodedLists
from weft.data.sorting import Numbers, order_by_owner, sort_keys, sort_lists, tile_lists
from weft.data.vocabulary import Vocabulary
from weft.errors import InputError, setting_ref

if TYPE_CHECKING:
    import polars as pl

_FEW_ROWS = 16  # tables that are too small for their order to matter
_MAX_NATIVE_LISTS = 1 << 31


@dataclass(frozen=True)
class ListTable:
    """Lists as read, under the caller's ids: one entry (user, item, score) per row."""

    entries: InteractionTable
    ranks: NDArray[np.float64] | None = None
    unused_columns: tuple[str, ...] = ()

    @property
    def has_scores(self) -> bool:
        """True if items have scores."""
        return self.entries.value_name == "score"

    @property
    def order(self) -> str:
        """The criterion of ranking: "rank", "score", or "rows" for the order of rows."""
        if self.ranks is not None:
            return "rank"
        return "score" if self.has_scores else "rows"

    @cached_property
    def runs(self) -> tuple[pl.Series, Numbers] | None:
        """The user and the first row of each run of rows of one user; None if runs are short."""
        users = self.entries.users
        is_first = (users != users.shift()).fill_null(True)
        if is_first.sum() > max(_FEW_ROWS, len(users) // 2):
            return None
        starts = np.flatnonzero(is_first.to_numpy())
        return users.gather(starts), starts

    @property
    def users(self) -> pl.Series:
        """The users of the lists, including those with empty lists; they may repeat."""
        if self.entries.all_users is not None:
            return self.entries.all_users
        return self.entries.users if self.runs is None else self.runs[0]

    def encode(
        self, users: Vocabulary, items: Vocabulary, *, keep_best: bool = False
    ) -> EncodedLists:
        """Return the lists by code, best item first.

        Raise `InputError` for a rank that occurs twice in a list and, unless `keep_best`, for an
        item that does. With `keep_best` the best entry of an item stays.
        """
        offsets, rows = self._group_by_user(users)
        dtype = np.int32 if items.size < 1 << 31 else np.int64
        listed = self.entries.encode_items(items, dtype=dtype)
        scores, merit = self.entries.values, self._merit()
        if rows is not None:
            is_by_score = merit is scores
            listed, scores = listed[rows], scores[rows]
            if merit is not None:
                merit = scores if is_by_score else merit[rows]
        if not self._is_sorted(offsets, listed, merit, items.size):
            scores, duplicates = self._sort(
                offsets,
                listed,
                scores,
                merit=merit,
                num_items=items.size,
                keep_best=keep_best,
                owns_scores=rows is not None,
            )
            is_duplicate = self._mask_rows(rows, duplicates["item"])
            if keep_best and is_duplicate.any():
                lists = self._filter(~is_duplicate).encode(users, items)
                return replace(lists, num_dropped=int(is_duplicate.sum()))
            self._check_unique(is_duplicate, self._mask_rows(rows, duplicates["rank"]))
        return EncodedLists(
            offsets,
            listed,
            scores if self.has_scores else None,
            items.size,
            is_order_given=self.order != "score",
        )

    def _sort(
        self,
        offsets: Numbers,
        items: NDArray[Any],
        scores: NDArray[np.float64],
        *,
        merit: NDArray[np.float64] | None,
        num_items: int,
        keep_best: bool,
        owns_scores: bool,
    ) -> tuple[NDArray[np.float64], dict[str, list[Numbers]]]:
        """Sort the entries of each list, best first: `items` in place, and `scores` if it is owned.

        Return the sorted scores, and the entries with an item or a rank that their list has
        already. With `keep_best`, these are the entries that are not the best of their item.
        """
        duplicates: dict[str, list[Numbers]] = {"item": [], "rank": []}
        for first, last in tile_lists(offsets):
            start, stop = offsets[first], offsets[last]
            part, part_offsets = slice(start, stop), offsets[first : last + 1] - start
            part_merit = None if merit is None else merit[part]
            tile = sort_lists(items[part], part_merit, offsets=part_offsets, num_items=num_items)
            repeated = tile.find_repeated()
            if keep_best and len(repeated):
                repeated = tile.find_worse()
            duplicates["item"].append(repeated + start)
            if self.order == "rank" and part_merit is not None:
                duplicates["rank"].append(tile.find_tied(part_merit, part_offsets) + start)
            if tile.order is not None:
                if not owns_scores:
                    scores, owns_scores = scores.copy(), True
                items[part], scores[part] = items[part][tile.order], scores[part][tile.order]
        return scores, duplicates

    def _is_sorted(
        self,
        offsets: Numbers,
        items: NDArray[Any],
        merit: NDArray[np.float64] | None,
        num_items: int,
    ) -> bool:
        """True if the native check finds that lists are best first and repeat nothing.

        Lists of most files are, so that they need no sorting.
        """
        if not is_built() or items.dtype != np.int32 or len(offsets) > _MAX_NATIVE_LISTS:
            return False
        lists = (offsets, len(offsets) - 1, items, merit, num_items)
        return bool(call("lists_are_in_order", *lists, int(self.order == "rank")))

    def _group_by_user(self, users: Vocabulary) -> tuple[Numbers, Numbers | None]:
        """Return the first entry of each user, and the row of each entry (None: its own number)."""
        offsets = np.zeros(users.size + 1, dtype=np.int64)
        if self.runs is None:
            codes = users.encode(self.entries.users, self.entries.where)
            offsets[1:] = np.cumsum(np.bincount(codes, minlength=users.size))
            return offsets, sort_keys(codes, users.size)[1]
        owners, starts = self.runs
        codes = users.encode(owners, self.entries.where)
        lengths = np.diff(starts, append=len(self.entries.values))
        offsets[1:] = np.cumsum(np.bincount(codes, lengths, minlength=users.size))
        if (codes[1:] > codes[:-1]).all():
            return offsets, None
        return offsets, order_by_owner(codes, starts, lengths=lengths, limit=users.size)

    def _merit(self) -> NDArray[np.float64] | None:
        """Return what entries are ranked by, highest first; None for the order of rows."""
        if self.order == "rows":
            return None
        return self.entries.values if self.ranks is None else -self.ranks

    def _mask_rows(self, rows: Numbers | None, entries: list[Numbers]) -> NDArray[np.bool_]:
        """Return a mask of the rows of some entries; `rows` as `_group_by_user` returns them."""
        mask = np.zeros(len(self.entries.values), dtype=np.bool_)
        if any(map(len, entries)):
            numbers = np.concatenate(entries)
            mask[numbers if rows is None else rows[numbers]] = True
        return mask

    def _filter(self, rows: NDArray[np.bool_]) -> ListTable:
        ranks = None if self.ranks is None else self.ranks[rows]
        return replace(self, entries=self.entries.filter(rows), ranks=ranks)

    def _check_unique(
        self, has_duplicate_item: NDArray[np.bool_], has_duplicate_rank: NDArray[np.bool_]
    ) -> None:
        """Raise `InputError` with the rows that repeat an item or a rank of their list."""
        where = self.entries.where
        if has_duplicate_item.any():
            raise InputError(
                f"{where} holds the same item twice in a list:\n"
                f"{self.entries.format_rows(has_duplicate_item)}\nEach item may occur once "
                f"per user; {setting_ref('duplicates', 'keep-best')} keeps the best-ranked one."
            )
        if has_duplicate_rank.any():
            raise InputError(
                f"{where} gives one rank to several items of a list:\n"
                f"{self.entries.format_rows(has_duplicate_rank)}\nThe ranks of a user must differ."
            )

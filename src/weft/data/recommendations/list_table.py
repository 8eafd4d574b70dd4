"""Recommendation lists as they are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.data.frames import is_frame
from weft.data.interactions import InteractionTable
from weft.data.readers.file_settings import is_matrix_file
from weft.data.readers.files import FileTable, is_file
from weft.data.readers.roles import COLUMNS
from weft.data.recommendations.encoded_lists import EncodedLists
from weft.data.recommendations.list_policy import ListPolicy
from weft.data.recommendations.row_groups import RowGroups
from weft.data.row_readers import read_rows
from weft.data.sorting import (
    Numbers,
    are_sorted,
    sort_lists,
    tile_lists,
)
from weft.data.topk_items import TopKItems
from weft.data.vocabulary import Vocabulary
from weft.errors import InputError, did_you_mean, setting_ref

if TYPE_CHECKING:
    import polars as pl

_FEW_ROWS = 16  # tables that are too small for their order to matter
# Rows by what they repeat of their list: "item" or "rank".
Duplicates = dict[str, InteractionTable]
COUNT_AS_MISSES = f" With {setting_ref('unknown_items', 'miss')} they count as misses."
# Added to row numbers that serve as ranks of partitioned lists, so that they are no positions.
ROW_RANK_OFFSET = 0.5


def code_type(vocabulary: Vocabulary) -> type[np.signedinteger[Any]]:
    """Return the type of codes, which the native loops support if it is int32."""
    return np.int32 if vocabulary.size < 1 << 31 else np.int64


def are_lists(data: Any) -> bool:
    """True if a source of this type is read as recommendation lists."""
    if is_matrix_file(data):
        return False
    return isinstance(data, (Mapping, TopKItems)) or is_frame(data) or is_file(data)


def read_lists(data: Any, where: str = "source") -> ListTable:
    """Return lists from a file, a frame, a dict or `TopKItems`. `where` names them in messages.

    Raise `InputError` for scores and ranks that are not finite.
    """
    rows = read_rows(data, where, use="lists")
    entries = rows.to_interactions("score", 0.0)
    ranks = rows.frame["rank"].to_numpy() if "rank" in rows.frame.columns else None
    if not entries.value_name and ranks is None:
        check_similar_names(rows.unused_columns, entries.where)
    entries.check_finite()
    if ranks is not None:
        replace(entries, values=ranks, value_name="rank").check_finite()
    return ListTable(entries, ranks, rows.unused_columns, rows.has_undeclared_rows)


def check_similar_names(unused_columns: tuple[str, ...], where: str) -> None:
    """Raise if lists without scores and ranks have a column with nearly the name of one."""
    for name in unused_columns:
        if hint := did_you_mean(name, (*COLUMNS["score"], *COLUMNS["rank"])):
            raise InputError(
                f"{where} has no column of scores or ranks, but a column {name!r}.{hint} Rename "
                "it, or remove it if the rows of each user are ordered best first."
            )


def ranking_criterion(*, has_scores: bool, has_ranks: bool) -> str:
    """Return what lists are ranked by: "rank", "score", or "rows" for the order of rows."""
    if has_ranks:
        return "rank"
    return "score" if has_scores else "rows"


def check_unique(duplicates: Duplicates) -> None:
    """Raise `InputError` with the rows that repeat an item or a rank of their list."""
    if (rows := duplicates.get("item")) is not None:
        raise InputError(
            f"{rows.where} has the same item twice in a list:\n{rows.format_all()}\nEach item may "
            f"occur once per user; {setting_ref('duplicates', 'keep-best')} keeps the best "
            f"position, and {setting_ref('duplicates', 'miss')} counts the other positions as "
            "misses."
        )
    if (rows := duplicates.get("rank")) is not None:
        raise InputError(
            f"{rows.where} gives the same rank to several items of a "
            f"list:\n{rows.format_all()}\nThe ranks of each user must be unique."
        )


@dataclass(frozen=True)
class ListTable:
    """Lists as read, under the caller's ids: one entry (user, item, score) per row."""

    entries: InteractionTable
    ranks: NDArray[np.float64] | None = None
    unused_columns: tuple[str, ...] = ()
    has_undeclared_rows: bool = False  # users are row numbers, which the caller does not say

    @property
    def where(self) -> str:
        """The data in messages."""
        return self.entries.where

    @property
    def file(self) -> FileTable | None:
        """The file that the lists are from."""
        return self.entries.table

    @property
    def has_scores(self) -> bool:
        """True if items have scores."""
        return self.entries.value_name == "score"

    @property
    def order(self) -> str:
        """The criterion of ranking: "rank", "score", or "rows" for the order of rows."""
        return ranking_criterion(has_scores=self.has_scores, has_ranks=self.ranks is not None)

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

    @property
    def items(self) -> pl.Series:
        """The items of the lists; they may repeat."""
        return self.entries.items

    def encode(
        self, users: Vocabulary, items: Vocabulary, policy: ListPolicy | None = None
    ) -> EncodedLists:
        """Return the lists by code, best item first.

        Raise `InputError` for a rank that occurs twice in a list and, unless the policy is another,
        for an item that does, and for an item that is not in the catalogue.
        """
        policy = policy or ListPolicy()
        codes = policy.extend(items, self.items, self.where)
        lists, duplicates = self.encode_unchecked(users, codes, policy, num_items=items.size)
        check_unique(duplicates)
        return lists

    def encode_unchecked(
        self, users: Vocabulary, items: Vocabulary, policy: ListPolicy, *, num_items: int
    ) -> tuple[EncodedLists, Duplicates]:
        """Return the lists as `encode` does, and the rows for which it raises an error.

        The first `num_items` of the items are the catalogue, others become empty positions.
        """
        groups = self._group_by_user(users)
        offsets = groups.offsets
        codes = self.entries.encode_items(items, dtype=code_type(items), remedy=COUNT_AS_MISSES)
        listed, scores = groups.group_all(codes, self.entries.values)
        num_rank_gaps = self._count_rank_gaps(groups)
        merit = self._group_merit(groups, scores)
        masks: dict[str, NDArray[np.bool_]] = {}
        are_ranked = self.order == "rank"
        if not are_sorted(
            listed, merit, offsets=offsets, num_items=items.size, are_distinct=are_ranked
        ):
            listed = np.require(listed, requirements="W")  # ids that are codes are the caller's
            scores, duplicates = self._sort(
                offsets,
                listed,
                scores,
                merit=merit,
                num_items=items.size,
                keep_best=policy.duplicates == "keep-best",
                owns_scores=not groups.are_in_order,
            )
            rows = {kind: self._mask_rows(groups, each) for kind, each in duplicates.items()}
            masks = {kind: mask for kind, mask in rows.items() if mask.any()}
        if policy.duplicates == "keep-best" and "item" in masks:
            kept, once = self._filter(~masks["item"]), replace(policy, duplicates="error")
            lists, repeating = kept.encode_unchecked(users, items, once, num_items=num_items)
            num_dropped = int(masks["item"].sum())
            lists = replace(lists, num_dropped=num_dropped, num_rank_gaps=num_rank_gaps)
            return lists, repeating
        if policy.duplicates == "miss":
            masks.pop("item", None)
        has_empty = False
        if policy.leaves_empty:
            listed = policy.mark_empty(listed, offsets, num_items=num_items)
            has_empty = bool((listed < 0).any())
        given = scores if self.has_scores else None
        lists = EncodedLists(offsets, listed, given, num_items, self.order != "score")
        lists = replace(lists, num_rank_gaps=num_rank_gaps, has_empty=has_empty)
        return lists, {kind: self.entries.filter(mask) for kind, mask in masks.items()}

    def _group_merit(
        self, groups: RowGroups, scores: NDArray[np.float64]
    ) -> NDArray[np.float64] | None:
        """Return the number by which entries are ranked, high first; None for the order of rows."""
        if self.ranks is not None:
            return -groups.group(self.ranks)
        return scores if self.has_scores else None

    def _count_rank_gaps(self, groups: RowGroups) -> int:
        """Return how many lists have ranks that start after 1 or leave numbers out.

        Only whole ranks are positions.
        """
        if self.ranks is None or not len(self.ranks) or (self.ranks % 1).any():
            return 0
        ranks = groups.group(self.ranks)
        starts, lengths = groups.offsets[:-1], np.diff(groups.offsets)
        starts, lengths = starts[lengths > 0], lengths[lengths > 0]
        first, last = np.minimum.reduceat(ranks, starts), np.maximum.reduceat(ranks, starts)
        return int(((first > 1) | (last - first >= lengths)).sum())

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

    def _group_by_user(self, users: Vocabulary) -> RowGroups:
        owners, lengths = self.entries.users, None
        if self.runs is not None:
            owners, starts = self.runs
            lengths = np.diff(starts, append=len(self.entries.values))
        codes = users.encode(owners, self.entries.where, dtype=code_type(users))
        return RowGroups.from_owners(codes, users.size, lengths)

    def _mask_rows(self, groups: RowGroups, entries: list[Numbers]) -> NDArray[np.bool_]:
        """Return a mask of the rows of some entries."""
        mask = np.zeros(len(self.entries.values), dtype=np.bool_)
        if any(map(len, entries)):
            mask[groups.rows[np.concatenate(entries)]] = True
        return mask

    def _filter(self, rows: NDArray[np.bool_]) -> ListTable:
        ranks = None if self.ranks is None else self.ranks[rows]
        return replace(self, entries=self.entries.filter(rows), ranks=ranks)

"""Recommendation lists: as they come (frames, dicts), as rows by code, and as the rows of one
batch.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft._native import call, is_built
from weft.data.devices import float_type, is_host_readable
from weft.data.interaction_table import (
    InteractionTable,
    is_frame,
    open_frame,
    read_ids,
    read_numbers,
)
from weft.data.interactions import Interactions
from weft.data.readers.files import FileTable, is_file, read_table
from weft.data.readers.roles import COLUMNS, find_column, find_column_name
from weft.data.sorting import (
    Numbers,
    order_by_owner,
    sort_by_item,
    sort_keys,
    sort_lists,
    tile_lists,
)
from weft.data.tensors import RaggedRows
from weft.data.vocabulary import Vocabulary, id_series
from weft.errors import InputError, did_you_mean

if TYPE_CHECKING:
    import polars as pl

# Rows whose order is not worth a thought.
_FEW_ROWS = 16
# Cells that a fingerprint looks at.
_SAMPLE = 1 << 16
# Cells and lists that the native loops can number.
_MOST_CELLS = 1 << 31


@dataclass(frozen=True)
class ListTable:
    """Lists under the caller's ids, a cell for each row. `order` is what ranks them: "score",
    "rank", or "rows" as they stand.
    """

    entries: InteractionTable  # their values are the scores
    ranks: NDArray[np.float64] | None = None
    unused_columns: tuple[str, ...] = ()  # columns that play no role

    @property
    def has_scores(self) -> bool:
        """Whether items have scores."""
        return self.entries.value_name == "score"

    @property
    def order(self) -> str:
        """What ranks the items of a list."""
        return "rank" if self.ranks is not None else "score" if self.has_scores else "rows"

    @cached_property
    def runs(self) -> tuple[pl.Series, Numbers] | None:
        """Who each stretch of rows of one user belongs to, and where it starts; None where rows are
        in no such order.
        """
        users = self.entries.users
        is_first = (users != users.shift()).fill_null(True)
        if is_first.sum() > max(_FEW_ROWS, len(users) // 2):
            return None
        starts = np.flatnonzero(is_first.to_numpy())
        return users.gather(starts), starts

    @property
    def users(self) -> pl.Series:
        """The users of the lists, empty lists included; they may repeat."""
        if self.entries.all_users is not None:
            return self.entries.all_users
        return self.entries.users if self.runs is None else self.runs[0]

    def encode(
        self, users: Vocabulary, items: Vocabulary, *, keep_best: bool = False
    ) -> EncodedLists:
        """The lists as rows of the first `users`, best first. A rank twice in a list is an error.

        So is an item, unless `keep_best`: then its best place counts, and the result says how many
        others were dropped."""
        offsets, rows = self._by_user(users)
        listed = self.entries.encode_items(
            items, dtype=np.int32 if items.size < 1 << 31 else np.int64
        )
        scores, merit = self.entries.values, self._merit()
        if rows is not None:
            listed, gathered = listed[rows], scores[rows]
            merit = None if merit is None else gathered if merit is scores else merit[rows]
            scores = gathered
        certain = self.order != "score"
        if self._is_in_order(offsets, listed, merit, items.size):
            return EncodedLists(
                offsets, listed, scores if self.has_scores else None, items.size, certain
            )
        is_own = rows is not None  # whether scores may be changed
        twice: dict[str, list[Numbers]] = {"item": [], "rank": []}
        for first, last in tile_lists(offsets):
            start, stop = offsets[first], offsets[last]
            part, own = slice(start, stop), offsets[first : last + 1] - start
            portion = sort_lists(
                listed[part],
                None if merit is None else merit[part],
                offsets=own,
                num_items=items.size,
            )
            twice["item"].append(
                (
                    portion.find_worse()
                    if keep_best and len(portion.find_repeated())
                    else portion.find_repeated()
                )
                + start
            )
            if self.order == "rank" and merit is not None:
                twice["rank"].append(portion.find_tied(merit[part], own) + start)
            if portion.order is not None:
                if not is_own:
                    scores, is_own = scores.copy(), True
                listed[part], scores[part] = (
                    listed[part][portion.order],
                    scores[part][portion.order],
                )
        if keep_best and (worse := self._rows(rows, twice["item"])).any():
            best = replace(
                self,
                entries=self.entries.filter(~worse),
                ranks=None if self.ranks is None else self.ranks[~worse],
            )
            return replace(best.encode(users, items), num_dropped=int(worse.sum()))
        self._refuse(
            self._rows(rows, twice["item"]),
            "holds the same item twice in a list",
            "Each item may occur once per user; duplicates='keep-best' keeps the best-ranked one.",
        )
        self._refuse(
            self._rows(rows, twice["rank"]),
            "gives one rank to several items of a list",
            "The ranks of a user must differ.",
        )
        return EncodedLists(
            offsets, listed, scores if self.has_scores else None, items.size, certain
        )

    def _is_in_order(
        self,
        offsets: Numbers,
        items: NDArray[Any],
        merit: NDArray[np.float64] | None,
        num_items: int,
    ) -> bool:
        """Whether it is known without sorting that lists are best first and hold nothing twice, as
        those of most files are.
        """
        if not is_built() or items.dtype != np.int32 or len(offsets) > _MOST_CELLS:
            return False
        lists = (offsets, len(offsets) - 1, items, merit, num_items)
        return bool(call("lists_are_in_order", *lists, int(self.order == "rank")))

    def _by_user(self, users: Vocabulary) -> tuple[Numbers, Numbers | None]:
        """Where the rows of each user start, and which they are; None: those from there on."""
        offsets = np.zeros(users.size + 1, dtype=np.int64)
        if self.runs is None:
            codes = users.encode(self.entries.users, self.entries.where)
            offsets[1:] = np.cumsum(np.bincount(codes, minlength=users.size))
            return offsets, sort_keys(codes, users.size)[1]
        owners, starts = self.runs
        codes, lengths = (
            users.encode(owners, self.entries.where),
            np.diff(starts, append=len(self.entries.values)),
        )
        offsets[1:] = np.cumsum(np.bincount(codes, lengths, minlength=users.size))
        return offsets, None if (codes[1:] > codes[:-1]).all() else order_by_owner(
            codes, starts, lengths=lengths, limit=users.size
        )

    def _merit(self) -> NDArray[np.float64] | None:
        """What ranks the cells of a list, the highest first; None: nothing but their order."""
        if self.order == "rows":
            return None
        return self.entries.values if self.ranks is None else -self.ranks

    def _rows(self, rows: Numbers | None, cells: list[Numbers]) -> NDArray[np.bool_]:
        """The rows of some cells. `rows`: the row of each cell; None: they are the same."""
        chosen = np.zeros(len(self.entries.values), dtype=np.bool_)
        if any(map(len, cells)):
            found = np.concatenate(cells)
            chosen[found if rows is None else rows[found]] = True
        return chosen

    def _refuse(self, wrong: NDArray[np.bool_], what: str, how: str) -> None:
        """An error that shows the wrong rows, if there are any."""
        if wrong.any():
            raise InputError(
                f"{self.entries.where} {what}:\n{self.entries.format_rows(wrong)}\n{how}"
            )


@dataclass(frozen=True)
class EncodedLists:
    """Lists by code: offsets `[users + 1]`; items and scores `[cells]`, best first in each list.

    `certain`: the order is given, so that equal scores are no ties. `dropped`: how many cells
    repeated an item of their list."""

    offsets: Numbers
    items: NDArray[Any]  # of 32 bits, mostly
    scores: NDArray[np.float64] | None
    num_items: int
    is_order_given: bool
    num_dropped: int = 0

    def to_batch(self, start: int, stop: int, device: torch.device) -> BatchLists:
        """The lists of users `start` to `stop - 1`."""
        first, last = self.offsets[start], self.offsets[stop]

        def moved(part: NDArray[Any]) -> Tensor:
            return torch.as_tensor(np.require(part, requirements="W")).to(device)

        scores = (
            None if self.scores is None else moved(self.scores[first:last]).to(float_type(device))
        )
        offsets, items = (
            self.offsets[start : stop + 1] - first,
            self.items[first:last].astype(np.int64),
        )
        lists = BatchLists(
            moved(offsets), moved(items), scores, self.num_items, self.is_order_given
        )
        if is_host_readable(device):
            return lists
        keys, cells = sort_by_item(items, offsets, num_items=self.num_items)
        return replace(lists, item_index=(moved(keys), moved(cells)))

    def count_listed(self, cells: Interactions) -> int:
        """How many of these cells are listed."""
        here = torch.device("cpu")
        some = (
            (self.to_batch(*part, here), torch.as_tensor(cells.slice_users(*part).flat_keys))
            for part in tile_lists(self.offsets)
        )
        return sum(int(lists.contains(keys).sum()) for lists, keys in some)

    def fingerprint(self) -> str:
        """A digest of the lengths and of up to 65,536 evenly spread cells."""
        digest = hashlib.blake2b(digest_size=8)
        step = max(1, len(self.items) // _SAMPLE)
        for part in (
            self.offsets,
            self.items[::step].astype(np.int64),
            None if self.scores is None else self.scores[::step],
        ):
            if part is not None:
                digest.update(np.ascontiguousarray(part).data)
        return digest.hexdigest()


@dataclass(frozen=True)
class BatchLists(RaggedRows):
    """The lists of a batch: `EncodedLists` as tensors, on the batch's device.

    `missing`: the source has no list for these users, not even an empty one. `complete`: they hold
    everything that was offered. `by_item`: places in a flattened `[batch, items]` matrix,
    ascending, and the cells there, where they are known."""

    offsets: Tensor
    items: Tensor
    given_scores: Tensor | None
    num_items: int
    is_order_given: bool
    is_missing: bool = False
    is_complete: bool = False
    is_valid: Tensor | None = None
    error_counts: Mapping[str, Tensor] = field(default_factory=dict)
    item_index: tuple[Tensor, Tensor] | None = None

    @classmethod
    def from_candidates(cls, scores: Tensor, items: Tensor, num_items: int) -> BatchLists:
        """Complete lists: the items `[batch, n]` (ascending in a row, -1 = none) that have a score
        above `-inf`, best first.
        """
        scores = torch.where(items >= 0, scores.to(float_type(scores.device)), -torch.inf)
        offered = scores > -torch.inf
        lengths = offered.sum(1)
        offsets = torch.nn.functional.pad(lengths.cumsum(0), (1, 0))
        best = scores.sort(
            dim=1, descending=True, stable=True
        )  # equal scores stay in the order of their items
        standing = torch.empty_like(best.indices)
        standing.scatter_(
            1, best.indices, torch.arange(items.shape[1], device=items.device).expand_as(items)
        )
        first = torch.arange(len(items), device=items.device)[:, None] * num_items
        in_order = (items.gather(1, best.indices), best.values)
        by_item = (first + items, offsets[:-1, None] + standing)
        if bool(offered.all()):  # mostly rows are full
            (listed, values), (keys, places) = (
                tuple(part.reshape(-1) for part in parts) for parts in (in_order, by_item)
            )
        else:
            is_listed = best.values > -torch.inf
            listed, values = (part[is_listed] for part in in_order)
            keys, places = (part[offered] for part in by_item)
        return cls(
            offsets,
            listed,
            values,
            num_items,
            is_order_given=False,
            is_complete=True,
            item_index=(keys, places),
        )

    @classmethod
    def from_masked_candidates(
        cls, scores: Tensor, items: Tensor, num_items: int, error_counts: Mapping[str, Tensor]
    ) -> BatchLists:
        """The same where the host does not see how many are offered; `num_items` = none. What is
        not offered does not count.
        """
        number = items.shape[1]
        best = scores.to(float_type(scores.device)).sort(dim=1, descending=True, stable=True)
        standing = torch.empty_like(best.indices)
        standing.scatter_(
            1, best.indices, torch.arange(number, device=items.device).expand_as(items)
        )
        rows = torch.arange(len(items) + 1, device=items.device)
        items = items.clamp(max=num_items - 1)
        return cls(
            rows * number,
            items.gather(1, best.indices).reshape(-1),
            best.values.reshape(-1),
            num_items,
            is_order_given=False,
            is_complete=True,
            item_index=(
                (rows[:-1, None] * num_items + items).reshape(-1),
                (rows[:-1, None] * number + standing).reshape(-1),
            ),
            is_valid=(best.values > -torch.inf).reshape(-1),
            error_counts=error_counts,
        )

    @classmethod
    def empty(cls, users: int, num_items: int, device: torch.device) -> BatchLists:
        """Users without a list."""
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
        """The score of each cell; lists without scores fall from -1 in steps of 1, so that their
        order can be seen.
        """
        if self.given_scores is not None:
            return self.given_scores
        positions = (
            torch.arange(len(self.items), device=self.items.device) - self.offsets[self.rows]
        )
        return -1 - positions.to(float_type(self.items.device))

    def locate(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        """For places in a flattened `[batch, items]` matrix: the cell there, and whether there is
        one.
        """
        if id(keys) not in self._found:  # the truth's cells are looked for several times
            self._found[id(keys)] = keys, self._find(keys)
        return self._found[id(keys)][1]

    @cached_property
    def _found(self) -> dict[int, tuple[Tensor, tuple[Tensor, Tensor]]]:
        return {}

    def _find(self, keys: Tensor) -> tuple[Tensor, Tensor]:
        if len(self.items) == 0:
            return torch.zeros_like(keys), torch.zeros_like(keys, dtype=torch.bool)
        if self.item_index is None and (cells := self._look_up(keys)) is not None:
            return cells.clamp(min=0), cells >= 0
        places, cells = self._by_item
        if is_host_readable(keys.device):  # NumPy is faster where what is looked for is in order
            found = torch.from_numpy(np.searchsorted(places.numpy(), keys.numpy()))
        else:
            found = torch.searchsorted(places, keys)
        found = found.clamp_(max=len(places) - 1)
        cells, is_there = cells.index_select(0, found), places.index_select(0, found) == keys
        return cells, is_there if self.is_valid is None else is_there & self.is_valid.index_select(
            0, cells
        )

    def _look_up(self, keys: Tensor) -> Tensor | None:
        """The cell at each of these places, -1 for none; None where that has to be found otherwise."""
        if not (is_built() and is_host_readable(keys.device)) or len(self.items) >= _MOST_CELLS:
            return None
        cells = torch.empty_like(keys)
        lists = (self.offsets.numpy(), self.num_rows, self.items.numpy(), self.num_items)
        looked = call(
            "find_in_lists", *lists, np.ascontiguousarray(keys.numpy()), len(keys), cells.numpy()
        )
        return cells if looked == len(keys) else None

    @cached_property
    def _by_item(self) -> tuple[Tensor, Tensor]:
        """What `by_item` says, found where it is not known; it is, where the host does not see the
        items.
        """
        if self.item_index is not None:
            return self.item_index
        keys, cells = sort_by_item(
            self.items.numpy(), self.offsets.numpy(), num_items=self.num_items
        )
        return torch.from_numpy(keys), torch.from_numpy(cells)

    def contains(self, keys: Tensor) -> Tensor:
        """Whether something is listed at each of these places of the flattened matrix."""
        return self.locate(keys)[1]

    @cached_property
    def double_ranks(self) -> Tensor:
        """For each cell, how many of its list score above it, plus how many at least as high;
        itself among them.
        """
        cells = torch.arange(len(self.items), device=self.items.device)
        is_first = torch.ones(
            len(cells) + 1, dtype=torch.bool, device=cells.device
        )  # of those that score alike
        if not self.is_order_given and len(cells) > 1:
            is_first[1:-1] = (self.scores[1:] != self.scores[:-1]) | (
                self.rows[1:] != self.rows[:-1]
            )
        start = torch.where(is_first[:-1], cells, 0).cummax(0).values if len(cells) else cells
        stop = (
            torch.where(is_first[1:], cells + 1, len(cells)).flip(0).cummin(0).values.flip(0)
            if len(cells)
            else cells
        )
        return start + stop - 2 * self.offsets[self.rows]

    def scores_at(self, keys: Tensor) -> Tensor:
        """The scores at places in a flattened `[batch, items]` matrix, `-inf` where nothing is
        listed or has a score.
        """
        cells, found = self.locate(keys)
        nothing = torch.full(
            keys.shape, -torch.inf, dtype=float_type(keys.device), device=keys.device
        )
        return (
            nothing
            if self.given_scores is None or len(self.items) == 0
            else torch.where(found, self.given_scores.index_select(0, cells), nothing)
        )

    def top(self, depth: int) -> tuple[Tensor, Tensor]:
        """The first items of each list and their scores, `[batch, depth]`; -1 and `-inf` behind its
        end.

        And one position more, unless all lists end there.
        """
        depth += 1
        shape = (self.num_rows, depth)
        places = torch.arange(depth, device=self.items.device)
        if len(self.items) == 0:
            return self.items.new_full(shape, -1), torch.full(
                shape, -torch.inf, dtype=float_type(self.items.device)
            ).to(self.items.device)
        length = len(self.items) // self.num_rows
        if is_host_readable(self.items.device) and bool(
            (self.lengths == length).all()
        ):  # there is nothing to look up
            depth -= length < depth
            return _fitted(self.items.view(-1, length), depth, -1), _fitted(
                self.scores.view(-1, length), depth, -torch.inf
            )
        listed = places < self.lengths[:, None]
        cells = torch.where(listed, self.offsets[:-1, None] + places, 0)
        return torch.where(listed, self.items[cells], -1), torch.where(
            listed, self.scores[cells], -torch.inf
        )

    def to_dense(self) -> Tensor:
        """The scores as a `[batch, items]` matrix, `-inf` for items that are not listed."""
        out = torch.full(
            (self.num_rows * self.num_items,),
            -torch.inf,
            dtype=self.scores.dtype,
            device=self.items.device,
        )
        keys = self.rows * self.num_items + self.items
        if self.is_valid is None:
            out[keys] = self.scores
        else:  # a cell that does not count may have the place of one that does
            out.scatter_reduce_(0, keys, self.fill_invalid(self.scores, -torch.inf), "amax")
        return out.view(self.num_rows, self.num_items)

    def filter(self, cells: Tensor) -> BatchLists:
        """Only the cells where the mask `[cells]` is true; each list closes up."""
        if not is_host_readable(cells.device):
            is_valid = self.fill_invalid(cells, False)
            order = (self.rows * 2 + (~is_valid).long()).argsort(
                stable=True
            )  # what does not count comes last in its list
            scores = (
                None
                if self.given_scores is None
                else torch.where(is_valid, self.given_scores, -torch.inf)
            )
            return replace(self, given_scores=scores, is_valid=is_valid).reorder(order)
        before = torch.nn.functional.pad(cells.long().cumsum(0), (1, 0))
        found = None
        if self.item_index is not None:
            keys, places = self.item_index
            kept = cells[places]
            found = keys[kept], before[places[kept]]
        return replace(
            self,
            offsets=before[self.offsets],
            items=self.items[cells],
            given_scores=None if self.given_scores is None else self.given_scores[cells],
            item_index=found,
        )

    def reorder(self, cells: Tensor) -> BatchLists:
        """The cells in another order, which leaves each in its list."""
        places = torch.empty_like(cells)
        places[cells] = torch.arange(len(cells), device=cells.device)
        return replace(
            self,
            items=self.items[cells],
            given_scores=None if self.given_scores is None else self.given_scores[cells],
            item_index=None
            if self.item_index is None
            else (self.item_index[0], places[self.item_index[1]]),
            is_valid=None if self.is_valid is None else self.is_valid[cells],
        )


# --------------------------------------------------------------------------------------------------


def are_lists(given: Any) -> bool:
    """Whether this is read as recommendation lists."""
    return isinstance(given, Mapping) or is_frame(given) or is_file(given)


def _fitted(part: Tensor, width: int, fill: float) -> Tensor:
    """The first columns, filled up to `width`."""
    length = part.shape[1]
    if length >= width:
        return part[:, :width]
    fitted = part.new_empty((len(part), width))
    fitted[:, :length] = part
    fitted[:, length:] = fill
    return fitted


def read_lists(given: Any, where: str = "source") -> ListTable:
    """Lists in any of the accepted forms. `where` names them in messages."""
    if isinstance(given, Mapping):
        return _from_dict(given, where)
    if is_file(given):
        return _from_table(read_table(given, where, use="lists"))
    columns, column = open_frame(given, where)
    if not any(find_column_name(columns, role, where) for role in ("user", "item")):
        raise InputError(
            f"{where} is a {type(given).__name__} with the columns {columns}. It is read as "
            "recommendation lists: expected the "
            "columns 'user', 'item' and, if there is one, 'score' or 'rank'. Scores [users, items] "
            "are given as an array: "
            "frame.to_numpy(), with users= and items=."
        )
    users, items = read_ids(columns, column, where)
    score, rank = (find_column(columns, role, where) for role in ("score", "rank"))
    read = {find_column(columns, role, where) for role in ("user", "item", "score", "rank")}
    unread = tuple(name for name in columns if name not in read)
    if score is None and rank is None:
        _refuse_near_names(unread, where)
    values, what = np.zeros(len(users)), ""
    if score is not None:
        values, what = read_numbers(column(score), score, where, "score"), "score"
        _refuse_large(column(score), score, where)
    cells = InteractionTable(where, users, items, values, value_name=what)
    ranks = None
    if rank is not None:
        ranks = read_numbers(column(rank), rank, where, "rank")
        InteractionTable(
            where, users, items, ranks, value_name="rank"
        )  # finite, or an error that shows the rows
    return ListTable(cells, ranks, unread)


def _refuse_near_names(unread: tuple[str, ...], where: str) -> None:
    """Lists with neither scores nor ranks: refuse a column whose name is nearly that of one."""
    for name in unread:
        if hint := did_you_mean(name, (*COLUMNS["score"], *COLUMNS["rank"])):
            raise InputError(
                f"{where} has neither a column of scores nor one of ranks, but one named "
                f"{name!r}.{hint} Rename it, or drop it "
                "if the rows of each user stand best first."
            )


def _from_table(table: FileTable) -> ListTable:
    score, rank = (table.columns.get(role) for role in ("score", "rank"))
    if score is None and rank is None:
        _refuse_near_names(table.unused_columns, table.where)
    values = np.zeros(len(table)) if score is None else score.to_numpy()
    users, items, what = (
        table.columns["user"],
        table.columns["item"],
        "" if score is None else "score",
    )
    cells = InteractionTable(
        table.where, users, items, values, all_users=table.all_users, value_name=what, table=table
    )
    ranks = None if rank is None else rank.to_numpy()
    if ranks is not None:
        InteractionTable(
            table.where, users, items, ranks, value_name="rank", table=table
        )  # finite, or an error that shows the rows
    return ListTable(cells, ranks, table.unused_columns)


def _refuse_large(scores: Any, name: str, where: str) -> None:
    """Refuse whole numbers that float64 would merge into ties."""
    import polars as pl

    numbers = scores if isinstance(scores, pl.Series) else pl.Series(scores, strict=False)
    extremes = (numbers.min(), numbers.max()) if numbers.dtype.is_integer() and len(numbers) else ()
    if any(abs(int(extreme)) > 2**53 for extreme in extremes):  # type: ignore[arg-type]
        raise InputError(
            f"{where}: the column {name!r} has integers beyond 2**53, which float64 cannot tell "
            "apart; rescale the scores."
        )


def _from_dict(given: Mapping[Any, Any], where: str) -> ListTable:
    lists: list[Any] = []
    scored = [isinstance(row, Mapping) for row in given.values()]
    if any(scored) and not all(scored):
        user = next(user for user, has_scores in zip(given, scored) if not has_scores)
        raise InputError(
            f"{where} has scores for some users but none for {user!r}; give {{item: score}} for "
            "all, or lists for all."
        )
    for user, row in given.items():
        if isinstance(row, (str, bytes, set, frozenset)) or not hasattr(row, "__iter__"):
            raise InputError(
                f"{where}[{user!r}] is {row!r}; expected a list of items, best first, or {{item: score}}."
            )
        lists.append(
            row.tolist()
            if hasattr(row, "tolist")
            else row
            if hasattr(row, "__len__")
            else list(row)
        )
    everyone = id_series(list(given), "user", where)
    users = (
        everyone.gather(np.repeat(np.arange(len(lists)), list(map(len, lists))))
        if lists
        else everyone
    )
    items = id_series(list(itertools.chain.from_iterable(lists)), "item", where)
    if not any(scored):
        what = "" if len(items) else "score"  # where nothing is listed, nothing lacks a score
        return ListTable(
            InteractionTable(
                where, users, items, np.zeros(len(items)), all_users=everyone, value_name=what
            )
        )
    flat = list(itertools.chain.from_iterable(row.values() for row in lists))
    try:
        scores = np.array([float(score) for score in flat], dtype=np.float64)
    except (TypeError, ValueError):
        wrong = next(score for score in flat if not hasattr(score, "__float__"))
        raise InputError(f"{where} has the score {wrong!r}; scores must be numbers.") from None
    return ListTable(
        InteractionTable(where, users, items, scores, all_users=everyone, value_name="score")
    )

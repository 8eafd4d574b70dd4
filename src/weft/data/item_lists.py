"""Lists of items as an input of metrics: one of each user, such as those of another model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data.devices import DeviceColumn
from weft.data.interactions import MAX_EXAMPLES, digest, hash_rows, sum_hashes
from weft.data.label_readers import check_in_order
from weft.data.recommendations import ListPolicy, ListTable, are_lists, read_lists
from weft.data.topk_items import TopKItems
from weft.data.vocabulary import Vocabulary, distinct_ids
from weft.errors import InputError, describe_type

Codes = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class ItemLists:
    """A list of items per user by code, best first: `items [n]` with `offsets [users + 1]`.

    An item that is not known has the code -1 and keeps its position. `has_list [users]` is False
    for users without a list; a user with an empty list has one. `num_unknown` lists belonged to
    users who are not evaluated.
    """

    offsets: Codes
    items: Codes
    has_list: NDArray[np.bool_]
    num_items: int
    num_unknown: int = 0

    @property
    def size(self) -> int:
        """The number of users, with or without a list."""
        return len(self.has_list)

    @property
    def num_unlabelled(self) -> int:
        """The number of users without a list."""
        return self.size - int(self.has_list.sum())

    @cached_property
    def _ranks(self) -> Codes:
        """The position, from 1, of each entry, `[n]`."""
        lengths = np.diff(self.offsets)
        return np.arange(1, len(self.items) + 1) - np.repeat(self.offsets[:-1], lengths)

    @cached_property
    def _owners(self) -> Codes:
        """The user of each entry, `[n]`."""
        return np.repeat(np.arange(self.size), np.diff(self.offsets))

    @cached_property
    def _index(self) -> tuple[DeviceColumn, DeviceColumn]:
        """The ascending keys `user * num_items + item` of known items, and their positions."""
        is_known = self.items >= 0
        keys = self._owners[is_known] * self.num_items + self.items[is_known]
        order = np.argsort(keys, kind="stable")
        arrays = (keys[order], self._ranks[is_known][order])
        first, second = (DeviceColumn(torch.from_numpy(array)) for array in arrays)
        return first, second

    @cached_property
    def _user_columns(self) -> tuple[DeviceColumn, DeviceColumn, DeviceColumn]:
        """Of each user: no list, the length of the list, and its items that are not known."""
        num_unknown = np.bincount(self._owners[self.items < 0], minlength=self.size)
        columns = (~self.has_list, np.diff(self.offsets), num_unknown)
        first, second, third = (DeviceColumn(torch.from_numpy(column)) for column in columns)
        return first, second, third

    @property
    def has_repetitions(self) -> bool:
        """True if an item occurs twice in a list."""
        keys = self._index[0].values
        return bool((keys[1:] == keys[:-1]).any())

    def find_ranks(self, users: Tensor, items: Tensor) -> Tensor:
        """Return the position, from 1, of each item in the list of its user, 0 if it is not there.

        `users [batch]` and `items [batch, n]`, or both `[n]`; the result has the shape of `items`.
        The item -1, after the end of a list, has 0."""
        keys, ranks = (column.to(items.device) for column in self._index)
        if len(keys) == 0:
            return torch.zeros_like(items)
        owners = users[:, None] if items.ndim > users.ndim else users
        is_known = (items >= 0) & (items < self.num_items)
        sought = torch.where(is_known, owners * self.num_items + items, -1).contiguous()
        places = torch.searchsorted(keys, sought).clamp(max=len(keys) - 1)
        return torch.where(keys[places] == sought, ranks[places], 0)

    def list_lengths(self, users: Tensor) -> Tensor:
        """Return the length of the list of each user, 0 without a list."""
        return self._user_columns[1].lookup(users)

    def lacks(self, users: Tensor) -> Tensor:
        """Return True for each user without a list."""
        return self._user_columns[0].lookup(users, True)

    def count_unknown(self, users: Tensor) -> Tensor:
        """Return the number of items in the list of each user that are not in the catalogue."""
        return self._user_columns[2].lookup(users)

    def select(self, codes: Codes) -> ItemLists:
        """Return the lists of some users, in their order."""
        lengths = np.diff(self.offsets)[codes]
        offsets = np.zeros(len(codes) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        rows = np.arange(offsets[-1]) + np.repeat(self.offsets[codes] - offsets[:-1], lengths)
        return replace(self, offsets=offsets, items=self.items[rows], has_list=self.has_list[codes])

    def equals(self, other: ItemLists) -> bool:
        """True if both give the same lists to the same users."""
        return self.fingerprint() == other.fingerprint()

    def fingerprint(self) -> str:
        """Return a short digest."""
        return digest(self.offsets, self.items, self.has_list)

    def hash_sums(self, users: Vocabulary, items: Vocabulary) -> NDArray[np.uint64]:
        """Return sums of hashes of the lists by id, `[3]`; those of several partitions add up."""
        user_keys = users.hash_keys()[: self.size]
        item_keys = np.append(items.hash_keys_of(self.items[self.items >= 0]), 0)
        entries = hash_rows(user_keys[self._owners], item_keys[self.items], self._ranks)
        num_lists = int(self.has_list.sum())
        is_there = np.full(num_lists, -1, dtype=np.int64)
        lists = hash_rows(user_keys[self.has_list], is_there)  # also the empty ones
        sums: NDArray[np.uint64] = sum_hashes(entries) + sum_hashes(lists)
        return sums


NO_LISTS = ItemLists(
    np.zeros(1, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_), 0
)


def read_item_lists(
    data: Any,
    where: str,
    users: Vocabulary,
    items: Vocabulary | None,
    *,
    num_in_order: int | None = None,
) -> ItemLists:
    """Return a list for each user, from recommendation lists, an integer matrix `[users, n]` with
    -1 as padding, or a sequence of lists, in which None is no list.

    Matrices and sequences hold the lists of the first `num_in_order` users, by default of all; 0:
    users have no known order. Without `items`, item ids are numbers from 0. Raises `InputError` for
    an item or a rank that occurs twice in a list.
    """
    if isinstance(data, ItemLists):
        if data.size < users.size:
            raise InputError(
                f"{where} has lists for {data.size} users, but there are {users.size}."
            )
        return data
    in_order = users.size if num_in_order is None else num_in_order
    table = read_lists(
        data if are_lists(data) else _name_users(data, where, users, in_order), where
    )
    items = _count_items(table) if items is None else items
    all_users, user_codes = _extend(users, table.users, table.where)
    listed, _ = _extend(items, table.items, table.where)
    lists, duplicates = table.encode_unchecked(
        all_users, listed, ListPolicy(), num_items=listed.size
    )
    for repeated, rows in duplicates.items():
        raise InputError(
            f"{table.where} has the same {repeated} twice in a list:\n{rows.format_all()}\nEach "
            f"{repeated} may occur once per user; remove the others."
        )
    has_list = np.zeros(all_users.size, dtype=np.bool_)
    has_list[user_codes] = True
    codes = lists.items[: lists.offsets[users.size]].astype(np.int64)
    return ItemLists(
        lists.offsets[: users.size + 1],
        np.where(codes < items.size, codes, -1),
        has_list[: users.size],
        items.size,
        int(has_list[users.size :].sum()),
    )


def _extend(known: Vocabulary, ids: Any, where: str) -> tuple[Vocabulary, Codes]:
    """Return a vocabulary with the ids that are not known after its own, and the codes of all."""
    distinct = distinct_ids(ids)
    is_unknown = known.encode(distinct, where) < 0
    vocabulary = known.extend(distinct.filter(is_unknown)) if is_unknown.any() else known
    return vocabulary, vocabulary.encode(distinct, where)


def _count_items(table: ListTable) -> Vocabulary:
    """Return the item numbers of lists as a vocabulary. Raises `InputError` for other ids."""
    if len(table.items) and not table.items.dtype.is_integer():
        shown = ", ".join(map(repr, table.items.head(MAX_EXAMPLES)))
        raise InputError(
            f"{table.where} has the item ids {shown}; expected item numbers from 0, as the columns "
            "of the scores have no ids here."
        )
    highest = table.items.max() if len(table.items) else -1
    return Vocabulary.from_size("item", int(highest) + 1)  # type: ignore[arg-type]


def _name_users(data: Any, where: str, users: Vocabulary, num_in_order: int) -> Any:
    """Return lists in the order of the users under their ids."""
    if not hasattr(data, "__len__") or isinstance(data, (str, bytes)):
        raise InputError(
            f"{where} is {describe_type(data)}; expected recommendation lists: a file, a frame "
            "(user, item, and score, rank or neither), {user: [items]} or weft.TopKItems."
        )
    check_in_order(len(data), where, users, num_in_order, value="list")
    ids = users.ids[:num_in_order]
    if getattr(data, "ndim", 1) == 2:
        return TopKItems(data, users=ids)
    rows: Mapping[Any, Any] = {user: row for user, row in zip(ids, data) if row is not None}
    return rows

"""Sums over the items of lists by feature, of which there are few or many.

Few features are summed in a table `[users, cut-offs, features]`. Of many, a list has only some:
there is one sum for each (user, feature) pair that occurs, and nothing of the size
`[users, features]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from weft.batch.topk import TopK
from weft.data import DeviceColumn, Features, Labels
from weft.data.devices import is_host_readable

# Numbers processed at once, to bound temporaries.
_TILE_VALUES = 1 << 16
# The most features of a table by feature, and the most numbers of one by item and feature.
_MAX_TABLE_FEATURES, _MAX_TABLE_VALUES = 64, 1 << 21


class Entries(NamedTuple):
    """Items `[n]` (-1: none) with their rows, columns and weights, `[n]` each."""

    items: Tensor
    rows: Tensor
    columns: Tensor
    weights: Tensor


class FeatureSums(Protocol):
    """Sums by row and feature, `values`, of which the second dimension are the columns."""

    @property
    def values(self) -> Tensor: ...

    def lookup(self, column: DeviceColumn) -> Tensor:
        """Return a value per feature, to be broadcast with `values`."""
        ...

    def shares(self, values: Tensor) -> Tensor:
        """Return values like `values` over their sums in a row; NaN if that is 0."""
        ...

    def sum_rows(self, values: Tensor) -> Tensor:
        """Return the sums of values like `values` over the features, `[rows, columns]`."""
        ...


class TableSums(NamedTuple):
    """Sums of few features, `values [rows, columns, features]`."""

    values: Tensor

    def lookup(self, column: DeviceColumn) -> Tensor:
        return column.to(self.values.device)

    def shares(self, values: Tensor) -> Tensor:
        return values / values.sum(2, keepdim=True)

    def sum_rows(self, values: Tensor) -> Tensor:
        return values.sum(2)


class PairSums(NamedTuple):
    """Sums by (row, feature) pair, `values [n, columns]`, with the `rows [n]` and the feature
    `codes [n]` of the pairs.

    Row `num_rows` is for entries that belong to no pair; their values are to be ignored."""

    values: Tensor
    rows: Tensor
    codes: Tensor
    num_rows: int

    def lookup(self, column: DeviceColumn) -> Tensor:
        return column.lookup(self.codes)[:, None]

    def shares(self, values: Tensor) -> Tensor:
        total = torch.nn.functional.pad(self.sum_rows(values), (0, 0, 0, 1))
        return values / total.index_select(0, self.rows)

    def sum_rows(self, values: Tensor) -> Tensor:
        sums = values.new_zeros((self.num_rows + 1, values.shape[1]))
        return sums.index_add_(0, self.rows, values)[:-1]


def sum_by_feature(
    features: Features | Labels,
    entries: Entries,
    *,
    num_rows: int,
    num_columns: int,
    is_shared: bool = False,
) -> PairSums:
    """Return the sums of the weights of entries by row and feature, in each column.

    With `is_shared`, an item with m features gives 1 / m of its weight to each."""
    index, code = _lookup(features, entries.items)
    weights = entries.weights
    if is_shared:
        ones = (code >= 0).to(weights.dtype)
        weights = weights / torch.zeros_like(weights).index_add_(0, index, ones).clamp_(min=1)
    num_features = max(1, len(features.names))
    outside = num_rows * num_features
    key = entries.rows.index_select(0, index).mul_(num_features).add_(code)
    # Stable, so that the order in which weights are added does not depend on other users.
    key, order = torch.where(code < 0, outside, key).sort(stable=True)
    is_first = torch.ones_like(key)
    is_first[1:] = key[1:] != key[:-1]
    pair, index = is_first.cumsum(0) - 1, index.index_select(0, order)
    weights = weights.index_select(0, index)
    slot = (pair * num_columns).add_(entries.columns.index_select(0, index))
    values = weights.new_zeros(len(key) * num_columns).index_add_(0, slot, weights)
    keys = torch.full_like(key, outside).scatter_(0, pair, key)
    rows = keys.div(num_features, rounding_mode="floor")
    return PairSums(values.view(-1, num_columns), rows, keys - rows * num_features, num_rows)


def _lookup(features: Features | Labels, items: Tensor) -> tuple[Tensor, Tensor]:
    """Return (index into `items`, feature code) for each feature of items `[n]`, -1 = none."""
    if isinstance(features, Features):
        return features.lookup(items)
    return torch.arange(len(items), device=items.device), features.lookup(items)


def split_rows(num_rows: int, row_size: int) -> Iterator[tuple[int, int]]:
    """Yield the first and last row (exclusive) of a few rows at a time, at least once.

    `row_size`: the numbers per row of a temporary."""
    step = max(1, _TILE_VALUES // row_size)
    for start in range(0, max(1, num_rows), step):
        yield start, min(start + step, num_rows)


def list_entries(topk: TopK, start: int, stop: int, weights: Tensor | None = None) -> Entries:
    """Return the items of the lists of users `start` to `stop - 1`, with rows that count from 0.

    The column of an item is the number of the first cut-off that includes it. `weights [depth]` by
    position; 1 by default."""
    last = min(topk.cutoffs[-1], topk.batch.depth)
    items = topk.batch.items[start:stop, :last]
    rows = torch.arange(stop - start, device=items.device)[:, None]
    weights = torch.ones_like(topk.positions) if weights is None else weights
    by_position = (rows, topk.cutoff_index[:last], weights[:last])
    return Entries(items.reshape(-1), *(one.expand_as(items).reshape(-1) for one in by_position))


def reduce_list_features(
    features: Features | Labels,
    topk: TopK,
    compute: Callable[[FeatureSums], Tensor],
    *,
    weights: Tensor | None = None,
    is_shared: bool = False,
) -> Tensor:
    """Return `compute(sums)`, `[batch, ...]`, of the sums of weights by feature over the top k.

    It is called for a few users at a time; the columns of the sums are the cut-offs. `weights
    [depth]` by position; 1 by default. With `is_shared`, an item with m features gives 1 / m of its
    weight to each."""
    values = []
    if has_table(features, topk.batch.device):
        for _, _, table in list_table_sums(features, topk, weights=weights, is_shared=is_shared):
            values.append(compute(table))
        return torch.cat(values)
    for start, stop in split_rows(topk.batch.size, topk.cutoffs[-1]):
        sums = sum_by_feature(
            features,
            list_entries(topk, start, stop, weights),
            num_rows=stop - start,
            num_columns=len(topk.cutoffs),
            is_shared=is_shared,
        )
        values.append(compute(sums._replace(values=sums.values.cumsum(1))))
    return torch.cat(values)


def has_table(features: Features | Labels, device: torch.device) -> bool:
    """Return True if features are few enough for `list_table_sums`, on a device that has it."""
    size, num_items = len(features.names), len(features.codes)
    if isinstance(features, Features):
        num_items = features.size
    is_small = 0 < size <= _MAX_TABLE_FEATURES and size * num_items <= _MAX_TABLE_VALUES
    return is_small and is_host_readable(device)


def list_table_sums(
    features: Features | Labels,
    topk: TopK,
    *,
    weights: Tensor | None = None,
    is_shared: bool = False,
) -> Sequence[tuple[int, int, TableSums]]:
    """Return the sums over the top k, a few users at a time: first and last user (exclusive), sums.

    The arguments are those of `reduce_list_features`. Sums without weights are computed once."""

    last = min(topk.cutoffs[-1], topk.batch.depth)
    ends = torch.tensor([0, *topk.cutoffs[:-1]]).clamp_(max=last)
    by_position = torch.ones_like(topk.positions) if weights is None else weights

    def sum_tile(start: int, stop: int) -> TableSums:
        items = topk.batch.items[start:stop, :last]
        offsets = torch.arange(len(items))[:, None] * last + ends
        sums = sum_table_rows(
            features,
            items.reshape(-1),
            offsets.view(-1),
            weights=by_position[:last].expand_as(items).reshape(-1),
            is_shared=is_shared,
        )
        return TableSums(sums.view(len(items), len(ends), sums.shape[1]).cumsum(1))

    def sum_tiles() -> list[tuple[int, int, TableSums]]:
        rows = split_rows(topk.batch.size, topk.cutoffs[-1])
        return [(start, stop, sum_tile(start, stop)) for start, stop in rows]

    if weights is not None:
        return sum_tiles()
    return topk.batch.cached(
        ("list_table_sums", features.codes, topk.cutoffs, is_shared), sum_tiles
    )


def sum_table_rows(
    features: Features | Labels,
    items: Tensor,
    offsets: Tensor,
    *,
    weights: Tensor,
    is_shared: bool,
) -> Tensor:
    """Return the sums of the weights of items `[n]` (-1: none) by feature, `[rows, features]`.

    Row r has the items from `offsets[r]` to the next offset."""
    table = features.table
    if is_shared and isinstance(features, Features):
        table = features.share_table
    # With weights, since sums without them are several times slower in float64.
    return torch.nn.functional.embedding_bag(
        items + 1, table, offsets, mode="sum", per_sample_weights=weights
    )


def relative_entropy(p: Tensor, q: Tensor) -> Tensor:
    """Return the terms p log2(p / q), 0 where p is 0; both may be broadcast."""
    ratio = torch.where(p > 0, p / q, 1)
    return p * torch.log2(ratio)

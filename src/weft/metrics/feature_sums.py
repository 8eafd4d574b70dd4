"""Sums over the items of lists by feature: one for each (user, feature) pair that occurs.

Lists have few features of the many that a catalogue may have, so that nothing here is of the size
`[users, features]`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from weft.batch.topk import TopK
from weft.data import Features, Labels

# Numbers processed at once, to bound temporaries.
_TILE_VALUES = 1 << 16


class Entries(NamedTuple):
    """Items `[n]` (-1: none) with their rows, columns and weights, `[n]` each."""

    items: Tensor
    rows: Tensor
    columns: Tensor
    weights: Tensor


class FeatureSums(NamedTuple):
    """Sums by (row, feature) pair, `values [n, columns]`, with the `rows [n]` and the feature
    `codes [n]` of the pairs.

    Row `num_rows` is for entries that belong to no pair; their values are to be ignored."""

    values: Tensor
    rows: Tensor
    codes: Tensor
    num_rows: int

    def shares(self, values: Tensor) -> Tensor:
        """Return values of pairs `[n, columns]` over their sums in a row; NaN if that is 0."""
        total = torch.nn.functional.pad(self.sum_rows(values), (0, 0, 0, 1))
        return values / total.index_select(0, self.rows)

    def sum_rows(self, values: Tensor) -> Tensor:
        """Return the sums of values of pairs `[n, columns]` over the pairs of each row."""
        sums = values.new_zeros((self.num_rows + 1, values.shape[1]))
        return sums.index_add_(0, self.rows, values)[:-1]


def sum_by_feature(
    features: Features | Labels,
    entries: Entries,
    *,
    num_rows: int,
    num_columns: int,
    is_shared: bool = False,
) -> FeatureSums:
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
    return FeatureSums(values.view(-1, num_columns), rows, keys - rows * num_features, num_rows)


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


def relative_entropy(p: Tensor, q: Tensor) -> Tensor:
    """Return the terms p log2(p / q), 0 where p is 0; both may be broadcast."""
    ratio = torch.where(p > 0, p / q, 1)
    return p * torch.log2(ratio)

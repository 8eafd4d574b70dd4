"""Sums of distances over the pairs of items of each list, at all cut-offs.

Each function returns the sum of the distances and the number of pairs, both `[batch, cut-offs]`.
All but the Jaccard distance follow from sums over items, without the pairs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from weft.batch.topk import TopK
from weft.data import Features, Labels, Train
from weft.data.numbers import Numbers
from weft.metrics.feature_sums import FeatureSums, reduce_list_features
from weft.metrics.unit_vectors import unit_vectors

# Numbers of a temporary.
_TILE_VALUES = 1 << 21


def category_distances(categories: Labels, topk: TopK) -> tuple[Tensor, Tensor]:
    """Sum up the pairs of items with different categories, of those that have one."""

    def count_items_and_equal_pairs(sums: FeatureSums) -> Tensor:
        counts = (sums.values, _count_pairs(sums.values))
        return torch.stack([sums.sum_rows(one) for one in counts], dim=1)

    items, equal = reduce_list_features(categories, topk, count_items_and_equal_pairs).unbind(1)
    return _count_pairs(items) - equal, _count_pairs(items)


def hamming_distances(features: Features, topk: TopK) -> tuple[Tensor, Tensor]:
    """Sum up the numbers of features that one item of a pair has and the other has not."""

    # A feature that c of m items have is in one of both items of c (m - c) pairs.
    def sum_counts_and_squares(sums: FeatureSums) -> Tensor:
        powers = (sums.values, sums.values * sums.values)
        return torch.stack([sums.sum_rows(one) for one in powers], dim=1)

    counts, squares = reduce_list_features(features, topk, sum_counts_and_squares).unbind(1)
    return counts * topk.num_listed - squares, _count_pairs(topk.num_listed)


def cosine_distances(vectors: Numbers, topk: TopK) -> tuple[Tensor, Tensor]:
    """Sum up 1 - cosine of the vectors of two items, of items that have one.

    The sum of the cosines of all pairs follows from the squared norm of the sum of the unit
    vectors."""
    lists = topk.batch.items[:, : topk.cutoffs[-1]]
    step = max(1, _TILE_VALUES // (lists.shape[1] * vectors.values.values.shape[1]))
    squares, counts = [], []
    for items in torch.split(lists, step):
        units, exists = unit_vectors(vectors, items)
        spans = zip((0, *topk.cutoffs), topk.cutoffs)
        sums = torch.stack([units[:, start:stop].sum(1) for start, stop in spans], dim=1).cumsum(1)
        squares.append((sums * sums).sum(2))
        counts.append(topk.sum_positions(exists.to(topk.k.dtype)))
    count = torch.cat(counts)
    num_pairs = _count_pairs(count)
    return (num_pairs - (torch.cat(squares) - count) / 2).clamp(min=0), num_pairs


def jaccard_distances(features: Features, topk: TopK) -> tuple[Tensor, Tensor]:
    """Sum up 1 - common features / features of both items; 0 for two items without features."""
    lists = topk.batch.items[:, : topk.cutoffs[-1]]
    length, num_features = lists.shape[1], len(features.names) + 1  # a column for no feature
    step = max(1, _TILE_VALUES // (length * max(length, num_features)))
    sums = []
    for items in torch.split(lists, step):
        index, code = features.lookup(items.reshape(-1))
        has_feature = torch.zeros(items.numel() * num_features, device=items.device)
        has_feature[index * num_features + torch.where(code < 0, num_features - 1, code)] = 1
        has_feature = has_feature.view(*items.shape, num_features)[..., :-1]
        common = has_feature @ has_feature.transpose(1, 2)
        counts = has_feature.sum(2)
        union = (counts[:, :, None] + counts[:, None] - common).to(topk.k.dtype)
        distance = torch.where(union > 0, 1 - common / union, 0)
        is_pair = (items >= 0)[:, :, None] & (items >= 0)[:, None]
        # The pairs of each position with all positions before.
        sums.append(topk.sum_positions((distance * is_pair).tril(-1).sum(2)))
    return torch.cat(sums), _count_pairs(topk.num_listed)


def cooccurrence_distances(train: Train, topk: TopK) -> tuple[Tensor, Tensor]:
    """Sum up 1 - c_ij / √(n_i n_j), of items with train interactions.

    c_ij / √(n_i n_j) is the product of the unit vectors of both items over train users. Products of
    all pairs follow from the squared norm of the sum of the vectors, which grows with every item by
    the weight of the item times the sum before and after, over the users of the item."""
    users_of = train.users_of_items
    num_users = max(1, train.interactions.num_users)
    lists = topk.batch.items[:, : topk.cutoffs[-1]]
    step = max(1, _TILE_VALUES // max(num_users, lists.shape[1] * users_of.max_length))
    squares = []
    for items in torch.split(lists, step):
        sums = topk.k.new_zeros(len(items) * num_users)
        square, by_cutoff = topk.k.new_zeros(len(items)), []
        for start, stop in zip((0, *topk.cutoffs), topk.cutoffs):
            span = items[:, start:stop]
            entries = users_of.select(span.reshape(-1))
            list_row = entries.rows.div(max(1, span.shape[1]), rounding_mode="floor")
            slot = list_row * num_users + entries.items
            norm = train.popularity.lookup(span.reshape(-1)).sqrt()
            weight = entries.valid_ones / norm.index_select(0, entries.rows).clamp(min=1)
            before = sums.index_select(0, slot)
            after = sums.index_add_(0, slot, weight).index_select(0, slot)
            square = square.index_add(0, list_row, weight * (before + after))
            by_cutoff.append(square)
        squares.append(torch.stack(by_cutoff, dim=1))
    known = topk.sum_column(train.is_warm)
    similarity = (torch.cat(squares) - known) / 2
    return _count_pairs(known) - similarity, _count_pairs(known)


def _count_pairs(items: Tensor) -> Tensor:
    return items * (items - 1) / 2

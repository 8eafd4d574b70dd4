"""Removal of users without an interaction in the truth from an encoded dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.data.interactions import Interactions
from weft.data.popularity import Train
from weft.data.recommendations import EncodedLists
from weft.data.sources import ListSource
from weft.data.truth_groups import TruthGroups

if TYPE_CHECKING:
    from weft.data.dataset import EvaluationData


def skip_extra_users(dataset: EvaluationData) -> EvaluationData:
    """Return the dataset without the users who have no interaction in the truth.

    Their train interactions still count: they become users of train alone. Items that only their
    lists have stay in the catalogue.
    """
    has_truth = np.diff(dataset.truth.offsets) > 0
    counts = Counter({**dataset.counts, "users_without_truth": int((~has_truth).sum())})
    if has_truth.all():
        return replace(dataset, counts=counts)
    kept, skipped = np.flatnonzero(has_truth), np.flatnonzero(~has_truth)
    order = np.concatenate([kept, skipped, np.arange(len(has_truth), dataset.all_users.size)])
    rows = kept[kept < dataset.num_rows]
    counts["users_without_source"] = len(kept) - len(rows)
    truth = dataset.truth.select_users(kept)
    is_same = dataset.relevant is dataset.truth
    train, candidates, source = dataset.train, dataset.candidates, dataset.source.select_users(rows)
    if train is not None:
        counts["train_rows_unmatched"] += _count_rows(train.interactions, skipped)
        train = train.select_users(order)
    if candidates is not None:
        counts["candidates_unmatched"] += _count_rows(candidates, skipped)
        candidates = candidates.select_users(kept)
    lists = source.encoded if isinstance(source, ListSource) else None
    if lists is not None:
        counts = Counter({**counts, **_count_lists(lists, counts, train)})
    return replace(
        dataset,
        users=dataset.users.select(kept),
        truth=truth,
        relevant=truth if is_same else dataset.relevant.select_users(kept),
        is_judged=dataset.is_judged[kept],
        train=train,
        all_users=dataset.all_users.select(order),
        candidates=candidates,
        lists=lists,
        counts=counts,
        source=source,
        num_rows=len(rows),
        num_probed=dataset.num_probed if has_truth[: dataset.num_probed].all() else 0,
        side={**dataset.side, **_select_users(dataset.user_inputs, order)},
        slices=_select_users(dataset.slices, order),
        item_slices=_select_groups(dataset.item_slices, order),
        derived={},
    )


def _count_lists(
    lists: EncodedLists, counts: Mapping[str, int], train: Train | None
) -> dict[str, int]:
    """Return the counts of positions of lists, of those kinds that were counted before."""
    numbers = lists.count_empty()
    if train is not None and "seen_in_lists" in counts:
        seen = train.interactions.slice_users(0, len(lists.offsets) - 1)
        numbers["seen_in_lists"] = lists.count_listed(seen)
    return {name: number for name, number in numbers.items() if name in counts}


def _count_rows(interactions: Interactions, users: NDArray[np.int64]) -> int:
    return int(np.diff(interactions.offsets)[users].sum())


def _select_users(inputs: Mapping[str, Any], order: NDArray[np.int64]) -> dict[str, Any]:
    """Return inputs of users, of all or of the evaluated ones, in another order."""
    return {name: each.select(order[: each.size]) for name, each in inputs.items()}


def _select_groups(
    slices: Mapping[str, TruthGroups], order: NDArray[np.int64]
) -> dict[str, TruthGroups]:
    """Return the groups of the truth of all users in another order."""
    return {name: groups.select_users(order) for name, groups in slices.items()}

"""Recommendation lists by code: the stage between reading and batches."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data.devices import float_type, is_host_readable
from weft.data.interactions import Interactions
from weft.data.recommendations.batch_lists import BatchLists
from weft.data.sorting import Numbers, sort_by_item, tile_lists

_SAMPLE_ENTRIES = 1 << 16  # entries in a fingerprint


@dataclass(frozen=True)
class EncodedLists:
    """All lists by code: offsets `[users + 1]`, items and scores `[entries]`, best first per user.

    `is_order_given`: the order is given, so that equal scores are not ties. `num_dropped`: entries
    that repeated an item of their list.
    """

    offsets: Numbers
    items: NDArray[Any]  # int32 unless the catalogue is larger
    scores: NDArray[np.float64] | None
    num_items: int
    is_order_given: bool
    num_dropped: int = 0

    def to_batch(self, start: int, stop: int, device: torch.device) -> BatchLists:
        """Return the lists of users `start` to `stop - 1` as tensors on a device."""
        first, last = self.offsets[start], self.offsets[stop]

        def to_tensor(part: NDArray[Any]) -> Tensor:
            return torch.as_tensor(np.require(part, requirements="W")).to(device)

        scores = None
        if self.scores is not None:
            scores = to_tensor(self.scores[first:last]).to(float_type(device))
        offsets = self.offsets[start : stop + 1] - first
        items = self.items[first:last].astype(np.int64)
        lists = BatchLists(
            to_tensor(offsets), to_tensor(items), scores, self.num_items, self.is_order_given
        )
        if is_host_readable(device):
            return lists
        keys, entries = sort_by_item(items, offsets, num_items=self.num_items)
        return replace(lists, item_index=(to_tensor(keys), to_tensor(entries)))

    def select_users(self, users: Numbers) -> EncodedLists:
        """Return the lists of some users, in their order."""
        lengths = np.diff(self.offsets)[users]
        offsets = np.zeros(len(users) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        entries = np.arange(offsets[-1]) + np.repeat(self.offsets[users] - offsets[:-1], lengths)
        scores = None if self.scores is None else self.scores[entries]
        return replace(self, offsets=offsets, items=self.items[entries], scores=scores)

    def count_listed(self, interactions: Interactions) -> int:
        """Return how many of these interactions are in the lists of their users."""
        cpu = torch.device("cpu")
        batches = (
            (self.to_batch(*users, cpu), interactions.slice_users(*users).flat_keys)
            for users in tile_lists(self.offsets)
        )
        return sum(int(lists.contains(torch.as_tensor(keys)).sum()) for lists, keys in batches)

    def fingerprint(self) -> str:
        """Return a digest of the lengths and of up to 65,536 evenly spaced entries."""
        digest = hashlib.blake2b(digest_size=8)
        step = max(1, len(self.items) // _SAMPLE_ENTRIES)
        parts: list[NDArray[Any]] = [self.offsets, self.items[::step].astype(np.int64)]
        if self.scores is not None:
            parts.append(self.scores[::step])
        for part in parts:
            digest.update(np.ascontiguousarray(part).data)
        return digest.hexdigest()

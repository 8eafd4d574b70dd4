"""Recommendation lists by code."""

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
from weft.data.recommendations.batch_lists import BatchLists, index_items
from weft.data.recommendations.disk_arrays import DiskArray
from weft.data.recommendations.list_policy import REPEATED, REPEATED_UNKNOWN, UNKNOWN
from weft.data.sorting import Numbers, tile_lists

_SAMPLE_ENTRIES = 1 << 16  # entries in a fingerprint
_TILE_SAMPLES = 1 << 12  # read at once


@dataclass(frozen=True)
class EncodedLists:
    """All lists by code: offsets `[users + 1]`, items and scores `[entries]`, best first per user.

    Negative items are empty positions (see `list_policy`); `has_empty`: there may be some.
    `is_order_given`: the order is given, so that equal scores are not ties. `num_dropped`: entries
    that repeated an item of their list. `num_rank_gaps`: lists with gaps in their ranks.
    `disk_arrays`: those of items and scores, if these are on disk.
    """

    offsets: Numbers
    items: NDArray[Any]  # int32 unless the catalogue is larger
    scores: NDArray[np.float64] | None
    num_items: int
    is_order_given: bool
    num_dropped: int = 0
    num_rank_gaps: int = 0
    has_empty: bool = False
    disk_arrays: tuple[DiskArray, ...] = ()

    def to_batch(self, start: int, stop: int, device: torch.device) -> BatchLists:
        """Return the lists of users `start` to `stop - 1` as tensors on a device."""
        self._release()
        first, last = self.offsets[start], self.offsets[stop]

        def to_tensor(part: NDArray[Any]) -> Tensor:
            return torch.as_tensor(np.require(part, requirements="W")).to(device)

        scores = None
        if self.scores is not None:
            scores = to_tensor(self.scores[first:last]).to(float_type(device))
        offsets = self.offsets[start : stop + 1] - first
        items = self.items[first:last].astype(np.int64)
        lists = BatchLists(
            to_tensor(offsets),
            to_tensor(items),
            scores,
            self.num_items,
            self.is_order_given,
            has_empty=self.has_empty,
        )
        if is_host_readable(device):
            return lists
        keys, entries = index_items(
            items, offsets, num_items=self.num_items, has_empty=self.has_empty
        )
        return replace(lists, item_index=(to_tensor(keys), to_tensor(entries)))

    def select_users(self, users: Numbers) -> EncodedLists:
        """Return the lists of some users, in their order."""
        lengths = np.diff(self.offsets)[users]
        offsets = np.zeros(len(users) + 1, dtype=np.int64)
        np.cumsum(lengths, out=offsets[1:])
        arrays = [self.items] if self.scores is None else [self.items, self.scores]
        disk_arrays = tuple(
            DiskArray(each.dtype, offsets[-1]) for each in arrays[: len(self.disk_arrays)]
        )
        selected = [each.values for each in disk_arrays] or [
            np.empty(offsets[-1], each.dtype) for each in arrays
        ]
        for first, last in tile_lists(offsets):
            starts = self.offsets[users[first:last]] - offsets[first:last]
            entries = np.arange(offsets[first], offsets[last]) + np.repeat(
                starts, lengths[first:last]
            )
            for source, target in zip(arrays, selected):
                target[offsets[first] : offsets[last]] = source[entries]
            self._release()
        scores = None if self.scores is None else selected[1]
        return replace(
            self, offsets=offsets, items=selected[0], scores=scores, disk_arrays=disk_arrays
        )

    def _release(self) -> None:
        for array in self.disk_arrays:
            array.release()

    def count_listed(self, interactions: Interactions) -> int:
        """Return how many of these interactions are in the lists of their users."""
        cpu = torch.device("cpu")
        batches = (
            (self.to_batch(*users, cpu), interactions.slice_users(*users).flat_keys)
            for users in tile_lists(self.offsets)
        )
        return sum(int(lists.contains(torch.as_tensor(keys)).sum()) for lists, keys in batches)

    def count_empty(self) -> dict[str, int]:
        """Return the numbers of positions that hold an unknown item, and that repeat an item."""
        counts = {"unknown_in_lists": 0, "repeated_in_lists": 0}
        if not self.has_empty:
            return counts
        for first, last in tile_lists(self.offsets):
            items = self.items[self.offsets[first] : self.offsets[last]]
            is_both = items == REPEATED_UNKNOWN
            counts["unknown_in_lists"] += int((is_both | (items == UNKNOWN)).sum())
            counts["repeated_in_lists"] += int((is_both | (items == REPEATED)).sum())
            self._release()
        return counts

    def fingerprint(self) -> str:
        """Return a digest of the lengths and of up to 65,536 evenly spaced entries."""
        digest = hashlib.blake2b(digest_size=8)
        step = max(1, len(self.items) // _SAMPLE_ENTRIES)
        digest.update(self.offsets.data)
        for values in (self.items, self.scores):
            if values is None:
                continue
            dtype = np.int64 if values is self.items else np.float64
            for start in range(0, len(values), step * _TILE_SAMPLES):
                tile = values[start : start + step * _TILE_SAMPLES : step]
                digest.update(tile.astype(dtype).data)
                self._release()
        return digest.hexdigest()

"""Recommendation lists as the source of an evaluation."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from weft.data.recommendations import BatchLists, EncodedLists, ListPolicy, open_lists
from weft.data.vocabulary import Vocabulary


class ListSource:
    """Recommendation lists of an evaluation: read first, then encoded, then served by batch.

    `data` is a file or a frame (user, item, and a score, a rank or neither), `{user: [items]}` best
    first, `{user: {item: score}}`, or `TopKItems`. Files that need more than `memory` bytes are
    sorted on disk.
    """

    kind = "recommendation lists"
    num_users: int | None = None  # lists name their users and items themselves
    num_items: int | None = None
    has_scores_in_memory = False
    path: str | None = None  # of a file that is no table

    def __init__(self, data: Any, memory: int | None = None) -> None:
        self.table = open_lists(data, memory)
        self._encoded: EncodedLists | None = None

    def encode(
        self, users: Vocabulary, items: Vocabulary, policy: ListPolicy | None = None
    ) -> EncodedLists:
        """Encode the lists; see `ListTable.encode`."""
        self._encoded = self.table.encode(users, items, policy)
        return self._encoded

    @property
    def encoded(self) -> EncodedLists:
        """The encoded lists."""
        assert self._encoded is not None
        return self._encoded

    def select_users(self, rows: NDArray[np.int64]) -> ListSource:
        """Return the encoded lists of some users, in their order."""
        selected = copy(self)
        selected._encoded = self.encoded.select_users(rows)
        return selected

    def lists(self, start: int, stop: int, device: torch.device) -> BatchLists:
        """Return the lists of users `start` to `stop - 1`; users after the last have none."""
        lists = self.encoded
        if start >= len(lists.offsets) - 1:
            return BatchLists.empty(stop - start, lists.num_items, device)
        return lists.to_batch(start, stop, device)

    def fingerprint(self) -> str | None:
        """Return a digest of the encoded lists."""
        return None if self._encoded is None else self._encoded.fingerprint()

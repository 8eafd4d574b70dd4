"""Recommendation lists that are already there."""

from __future__ import annotations

from typing import Any

import torch

from weft.data.recommendations import BatchLists, EncodedLists, read_lists
from weft.data.vocabulary import Vocabulary


class ListSource:
    """A frame or file (user, item, and a score or a rank or neither), `{user: [items]}` best first,
    or `{user: {item: score}}`.
    """

    kind = "recommendation lists"
    # Lists name their users and items themselves.
    num_users: int | None = None
    num_items: int | None = None
    has_scores_in_memory = False

    def __init__(self, given: Any) -> None:
        self.table = read_lists(given)
        self._rows: EncodedLists | None = None

    def encode(
        self, users: Vocabulary, items: Vocabulary, *, keep_best: bool = False
    ) -> EncodedLists:
        """Put the lists into the rows of their users, by code. `keep_best`: an item that stands
        twice in a list counts once.
        """
        self._rows = self.table.encode(users, items, keep_best=keep_best)
        return self._rows

    def lists(self, start: int, stop: int, device: torch.device) -> BatchLists:
        """The lists of rows start to stop - 1; behind the last row there are none."""
        assert self._rows is not None
        if start >= len(self._rows.offsets) - 1:
            return BatchLists.empty(stop - start, self._rows.num_items, device)
        return self._rows.to_batch(start, stop, device)

    def fingerprint(self) -> str | None:
        return None if self._rows is None else self._rows.fingerprint()

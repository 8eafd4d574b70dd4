"""What becomes of list entries that repeat an item or hold an item outside the catalogue."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.data.sorting import Numbers, sort_lists, tile_lists
from weft.data.vocabulary import Vocabulary, distinct_ids

if TYPE_CHECKING:
    import polars as pl

NO_ITEM = -1  # after the end of a list
# Codes of empty positions by what the list holds there: an item that is not in the catalogue, an
# item that the list has already, or both.
UNKNOWN, REPEATED, REPEATED_UNKNOWN = -2, -3, -4


@dataclass(frozen=True)
class ListPolicy:
    """The settings `duplicates` and `unknown_items`.

    "error" raises, "miss" leaves the position empty, "keep-best" removes all but the best entry of
    a repeated item. An id is repeated whether it is in the catalogue or not.
    """

    duplicates: str = "error"
    unknown_items: str = "error"

    @property
    def leaves_empty(self) -> bool:
        """True if positions of lists may become empty."""
        return "miss" in (self.duplicates, self.unknown_items)

    def extend(self, items: Vocabulary, listed: pl.Series, where: str) -> Vocabulary:
        """Return the catalogue, followed by unknown items of lists if these become empty."""
        if self.unknown_items != "miss":
            return items
        ids = distinct_ids(listed)
        unknown = ids.filter(items.encode(ids, where) < 0)
        return items.extend(unknown) if len(unknown) else items

    def mark_empty(self, codes: NDArray[Any], offsets: Numbers, *, num_items: int) -> NDArray[Any]:
        """Return the codes of sorted lists with those of empty positions.

        Codes from `num_items`, the size of the catalogue, on are unknown items."""
        is_unknown = codes >= num_items
        marked = np.where(is_unknown, codes.dtype.type(UNKNOWN), codes)
        if self.duplicates == "miss" and len(codes):
            later = _find_repeated(codes, offsets, int(codes.max()) + 1)
            marked[later] = np.where(is_unknown[later], REPEATED_UNKNOWN, REPEATED)
        return marked


def _find_repeated(codes: NDArray[Any], offsets: Numbers, num_codes: int) -> Numbers:
    """Return the entries with a code that an earlier entry of their list has."""
    found = []
    for first, last in tile_lists(offsets):
        start, stop = offsets[first], offsets[last]
        part = offsets[first : last + 1] - start
        tile = sort_lists(codes[start:stop], None, offsets=part, num_items=num_codes)
        found.append(tile.find_repeated() + start)
    return np.concatenate(found)

"""Features: a set of labels of each item."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.data.devices import DeviceColumn, is_host_readable
from weft.data.interactions import Interactions, digest
from weft.data.label_readers import Label, encode_labels, infer_vocabulary, number_integers
from weft.data.vocabulary import Vocabulary
from weft.errors import InputError


@dataclass(frozen=True)
class Features:
    """A set of features per item: `codes[offsets[i]:offsets[i + 1]]` into `names` for item i.

    `num_unknown` features belonged to ids that are not evaluated.
    """

    offsets: DeviceColumn
    codes: DeviceColumn
    names: tuple[Label, ...]
    num_unknown: int = 0

    def equals(self, other: Features) -> bool:
        """True if both give the same features to the same items."""
        return (
            self.names == other.names
            and torch.equal(self.offsets.values, other.offsets.values)
            and torch.equal(self.codes.values, other.codes.values)
        )

    def fingerprint(self) -> str:
        """Return a short digest."""
        arrays = (part.values.cpu().numpy() for part in (self.offsets, self.codes))
        return digest(*arrays, about=self.names)

    @property
    def size(self) -> int:
        """The number of items, with or without features."""
        return len(self.offsets) - 1

    @cached_property
    def max_per_item(self) -> int:
        """The largest number of features of an item."""
        return int(np.diff(self.offsets.values.numpy()).max(initial=0))

    def lookup(self, items: Tensor) -> tuple[Tensor, Tensor]:
        """Return (index into `items`, feature code) for each feature of items `[n]`, -1 = none.

        Where the host cannot read the number of features, each item has `max_per_item` pairs, with
        a code of -1 after its last feature.
        """
        offsets, codes = self.offsets.to(items.device), self.codes.to(items.device)
        known = items.clamp(min=0)
        first = offsets.index_select(0, known)
        counts = torch.where(items < 0, 0, offsets.index_select(0, known + 1) - first)
        indices = torch.arange(len(items), device=items.device)
        if is_host_readable(items.device):
            index = torch.repeat_interleave(indices, counts)
            starts = (first - counts.cumsum(0) + counts).index_select(0, index)
            return index, codes.index_select(0, starts.add_(torch.arange(len(index))))
        numbers = torch.arange(self.max_per_item, device=items.device)
        has_feature = numbers < counts[:, None]
        found = codes.new_empty(has_feature.shape)
        if self.max_per_item:
            found = codes[torch.where(has_feature, first[:, None] + numbers, 0)]
        index = indices[:, None].expand_as(has_feature)
        return index.reshape(-1), torch.where(has_feature, found, -1).reshape(-1)

    @property
    def num_unlabelled(self) -> int:
        """The number of items without a feature."""
        return int(np.count_nonzero(np.diff(self.offsets.values.cpu().numpy()) == 0))


NO_FEATURES = Features(
    DeviceColumn(torch.zeros(1, dtype=torch.int64)),
    DeviceColumn(torch.empty(0, dtype=torch.int64)),
    (),
)


def read_features(
    data: Any, where: str, ids: Vocabulary, *, num_in_order: int | None = None
) -> Features:
    """Return a set of features for each id.

    `data` is `{id: features}`, a frame (id, feature) with a row for each feature, a matrix
    `[ids, features]`, or a sequence of sets for the first `num_in_order` ids (by default all; 0:
    ids have no known order).
    """
    if isinstance(data, Features):
        if data.size != ids.size:
            raise InputError(
                f"{where} has features of {data.size} {ids.kind}s, but there are {ids.size}."
            )
        return data
    if _is_canonical_csr(data) and data.shape[0] == ids.size:
        names, numbers = number_integers(data.indices.astype(np.int64))
        offsets = torch.as_tensor(data.indptr.astype(np.int64))
        return Features(DeviceColumn(offsets), DeviceColumn(torch.as_tensor(numbers)), names)
    encoded = encode_labels(data, where, ids, ids.size if num_in_order is None else num_in_order)
    rows = Interactions.from_codes(
        encoded.codes,
        encoded.numbers,
        np.ones(len(encoded.codes)),
        ids.size,
        max(1, len(encoded.names)),
    )
    rows = rows.filter(~rows.find_duplicates())
    offsets, codes = torch.as_tensor(rows.offsets), torch.as_tensor(rows.items)
    return Features(DeviceColumn(offsets), DeviceColumn(codes), encoded.names, encoded.num_unknown)


def read_positional_features(data: Any, size: int | None) -> Features:
    """Return features of column numbers; `size` may be None if the features imply it."""
    if isinstance(data, Features):
        return data
    where = "item_features"
    return read_features(data, where, infer_vocabulary(data, where, "item", size))


def _is_canonical_csr(data: Any) -> bool:
    """True for a scipy CSR matrix with ascending, unique columns and no stored zeros."""
    is_csr = type(data).__module__.startswith("scipy") and getattr(data, "format", "") == "csr"
    if not is_csr or data.data.dtype.kind not in "biuf" or not data.has_canonical_format:
        return False
    return bool((np.isfinite(data.data) & (data.data != 0)).all())

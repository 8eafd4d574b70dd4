"""Groups of interactions of the truth: by their item, by train, or by their time.

Metrics of a group count only its relevant items. An interaction may be in several groups, or none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data.features import Features
from weft.data.interactions import Interactions
from weft.data.label_readers import Label
from weft.data.labels import Labels
from weft.data.popularity import Train
from weft.data.tensors import SparseRows

NEW, REPEATED = "new", "repeated"  # not in, and in, the train of the user


class TruthGroups(Protocol):
    """Groups of interactions of the truth, with their `names`."""

    @property
    def names(self) -> tuple[Label, ...]: ...

    @property
    def num_items(self) -> int:
        """The number of items of the catalogue."""
        ...

    def contains(self, users: Tensor, rows: SparseRows, *, group: int) -> Tensor:
        """Return whether each interaction `[n]` of some users `[batch]` is in a group."""
        ...

    def lacks(self, users: Tensor, rows: SparseRows) -> Tensor:
        """Return whether each interaction `[n]` of some users `[batch]` is in no group."""
        ...

    def select_users(self, users: NDArray[np.int64]) -> TruthGroups:
        """Return the groups with other numbers of users: their order, then users of train alone."""
        ...

    def fingerprint(self) -> str:
        """Return a short digest."""
        ...


@dataclass(frozen=True, eq=False)
class LabelGroups:
    """Groups by a label of the item."""

    labels: Labels

    @property
    def names(self) -> tuple[Label, ...]:
        return self.labels.names

    @property
    def num_items(self) -> int:
        return self.labels.size

    def contains(self, users: Tensor, rows: SparseRows, *, group: int) -> Tensor:
        return self.labels.codes.lookup(rows.items, -1) == group

    def lacks(self, users: Tensor, rows: SparseRows) -> Tensor:
        return self.labels.codes.lookup(rows.items, -1) < 0

    def select_users(self, users: NDArray[np.int64]) -> LabelGroups:
        return self

    def fingerprint(self) -> str:
        return self.labels.fingerprint()


@dataclass(frozen=True, eq=False)
class FeatureGroups:
    """Groups by the features of the item, of which it may have several."""

    features: Features

    @property
    def names(self) -> tuple[Label, ...]:
        return self.features.names

    @property
    def num_items(self) -> int:
        return self.features.size

    def contains(self, users: Tensor, rows: SparseRows, *, group: int) -> Tensor:
        index, codes = self.features.lookup(rows.items)
        return self._mark(rows, index, codes == group)

    def lacks(self, users: Tensor, rows: SparseRows) -> Tensor:
        index, codes = self.features.lookup(rows.items)
        return ~self._mark(rows, index, codes >= 0)

    @staticmethod
    def _mark(rows: SparseRows, index: Tensor, is_found: Tensor) -> Tensor:
        counts = torch.zeros_like(rows.items).index_add_(0, index, is_found.to(rows.items.dtype))
        return counts > 0

    def select_users(self, users: NDArray[np.int64]) -> FeatureGroups:
        return self

    def fingerprint(self) -> str:
        return self.features.fingerprint()


@dataclass(frozen=True, eq=False)
class RepeatGroups:
    """New interactions, and those with an item of the user's train."""

    train: Train

    @property
    def names(self) -> tuple[Label, ...]:
        return (NEW, REPEATED)

    @property
    def num_items(self) -> int:
        return self.train.num_items

    def contains(self, users: Tensor, rows: SparseRows, *, group: int) -> Tensor:
        is_seen = self.train.on_device.select(users).contains(rows.keys)
        return is_seen if group else ~is_seen

    def lacks(self, users: Tensor, rows: SparseRows) -> Tensor:
        return torch.zeros_like(rows.items, dtype=torch.bool)

    def select_users(self, users: NDArray[np.int64]) -> RepeatGroups:
        return RepeatGroups(self.train.select_users(users))

    def fingerprint(self) -> str:
        return "train"


@dataclass(frozen=True, eq=False)
class PairGroups:
    """Groups by a code of each interaction, such as its month.

    `pairs` are the interactions that have one, with the code as their value."""

    pairs: Interactions
    names: tuple[Label, ...]

    @property
    def num_items(self) -> int:
        return self.pairs.num_items

    def contains(self, users: Tensor, rows: SparseRows, *, group: int) -> Tensor:
        return self._codes(users, rows) == group

    def lacks(self, users: Tensor, rows: SparseRows) -> Tensor:
        return self._codes(users, rows) < 0

    def _codes(self, users: Tensor, rows: SparseRows) -> Tensor:
        numbers = users.cpu().numpy()
        known = SparseRows.from_interactions(self.pairs.select_users(numbers), users.device)
        return known.values_at(rows.keys, -1)

    def select_users(self, users: NDArray[np.int64]) -> PairGroups:
        evaluated = users[users < self.pairs.num_users]
        return PairGroups(self.pairs.select_users(evaluated), self.names)

    def fingerprint(self) -> str:
        return self.pairs.fingerprint()

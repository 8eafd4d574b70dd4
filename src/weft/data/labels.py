"""Labels: one group of each user, or one cluster of each item."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data.devices import DeviceColumn
from weft.data.interactions import MAX_EXAMPLES, digest
from weft.data.label_readers import Label, encode_labels, infer_vocabulary
from weft.data.vocabulary import Vocabulary
from weft.errors import InputError


@dataclass(frozen=True)
class GroupNames:
    """The groups of user labels or of a slice, over all users.

    `starts` are the lower ends of all groups but the first, if numbers are cut into groups.
    `unknown` labels belong to users who are not known.
    """

    names: tuple[Label, ...]
    starts: list[float] | None = None
    unknown: int = 0


@dataclass(frozen=True)
class Labels:
    """A label per user or item: `codes [n]` into `names`, -1 for none.

    `num_unknown` labels belonged to ids that are not evaluated.
    """

    codes: DeviceColumn
    names: tuple[Label, ...]
    num_unknown: int = 0

    def equals(self, other: Labels) -> bool:
        """True if both give the same labels to the same codes."""
        return self.names == other.names and torch.equal(self.codes.values, other.codes.values)

    def fingerprint(self) -> str:
        """Return a short digest."""
        return digest(self.codes.values.cpu().numpy(), about=self.names)

    def lookup(self, codes: Tensor) -> Tensor:
        """Return the number of each code's label in `names`, -1 for none, of the shape of `codes`.

        The code -1, for no item after the end of a list, has no label."""
        return self.codes.lookup(codes, -1)

    @cached_property
    def table(self) -> Tensor:
        """1 for the label of a code, else 0, `[1 + n, labels]`; the row of the code -1 is first."""
        table = torch.zeros((1 + len(self.codes), len(self.names) + 1), dtype=torch.float64)
        codes = self.codes.values.cpu()
        table[torch.arange(1, 1 + len(codes)), codes] = 1  # -1, for none, is the last column
        return table[:, :-1].contiguous()

    def lacks(self, codes: Tensor) -> Tensor:
        """Return True for each code without a label."""
        return self.lookup(codes) < 0

    def select(self, codes: NDArray[np.int64]) -> Labels:
        """Return the labels of some codes, in their order."""
        return replace(self, codes=DeviceColumn(self.codes.values[codes]))

    def group_names(self) -> GroupNames:
        """Return the labels as groups, if these are all users."""
        return GroupNames(self.names, unknown=self.num_unknown)

    def assign(self, groups: GroupNames) -> Labels:
        """Return these labels as codes into the groups, which include all of `self.names`."""
        numbers = {name: number for number, name in enumerate(groups.names)}
        new_codes = torch.tensor([*(numbers[name] for name in self.names), -1], dtype=torch.int64)
        return Labels(DeviceColumn(new_codes[self.codes.values]), groups.names, groups.unknown)

    @property
    def size(self) -> int:
        """The number of users or items, with or without a label."""
        return len(self.codes)

    @property
    def num_unlabelled(self) -> int:
        """The number of users or items without a label."""
        return int(np.count_nonzero(self.codes.values.cpu().numpy() < 0))

    @cached_property
    def sizes(self) -> torch.Tensor:
        """The number of users or items with each label, `[names]`."""
        return torch.bincount(self.codes.values + 1, minlength=len(self.names) + 1)[1:].double()


NO_LABELS = Labels(DeviceColumn(torch.empty(0, dtype=torch.int64)), ())


def read_labels(
    data: Any, where: str, ids: Vocabulary, *, num_in_order: int | None = None
) -> Labels:
    """Return a label for each id, from `{id: label}`, a frame (id, label) or a sequence.

    A sequence holds the labels of the first `num_in_order` ids, by default of all; 0: ids have no
    known order. Raise `InputError` if an id has several labels.
    """
    if isinstance(data, Labels):
        if data.size < ids.size:
            raise InputError(
                f"{where} has labels for {data.size} {ids.kind}s, but there are {ids.size}."
            )
        return data
    if getattr(data, "ndim", 1) > 1 and not hasattr(data, "columns"):
        raise InputError(
            f"{where} has shape {list(data.shape)}; expected one label for each {ids.kind}."
        )
    encoded = encode_labels(data, where, ids, ids.size if num_in_order is None else num_in_order)
    codes, numbers = encoded.codes, encoded.numbers
    if len(codes) == ids.size and (codes == np.arange(ids.size)).all():  # one each, in order
        values = np.require(numbers, requirements="W")
    else:
        values = np.full(ids.size, -1, dtype=np.int64)
        values[codes] = numbers
        differs = values[codes] != numbers
        if differs.any():
            shown = ", ".join(map(repr, ids.ids.gather(codes[differs][:MAX_EXAMPLES])))
            more = ", ..." if differs.sum() > MAX_EXAMPLES else ""
            raise InputError(
                f"{where} gives more than one label to the same {ids.kind}: {shown}{more}. Each "
                f"{ids.kind} has one label here; remove the others."
            )
    return Labels(DeviceColumn(torch.as_tensor(values)), encoded.names, encoded.num_unknown)


def read_positional_labels(data: Any, where: str, kind: str, size: int | None) -> Labels:
    """Return labels of row or column numbers; `size` may be None if the labels imply it."""
    if isinstance(data, Labels):
        return data
    return read_labels(data, where, infer_vocabulary(data, where, kind, size))

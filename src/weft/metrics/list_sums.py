"""Accumulators of authors: sums of a function of the recommendation lists.

The function takes a `RankedLists` and returns a value per user or per position. It is a method of
the metric, or a function of a module: both have a pickle. NaN adds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from weft.batch.ranked_lists import RankedLists
from weft.batch.topk import TopK
from weft.data import DeviceColumn
from weft.data.labels import read_positional_labels
from weft.errors import SettingError, check_int, describe_type
from weft.metrics.accumulators import Accumulator, Contribution, ListedItemAccumulator
from weft.metrics.base.batch_checks import check_users

ListValues = Callable[[RankedLists], Tensor]


class ListFunction:
    """A function of `RankedLists`, equal to others of the same definition.

    Methods of two metric objects are equal if the metrics have the same name and parameters."""

    def __init__(self, function: ListValues, accumulator: str) -> None:
        if not callable(function):
            raise SettingError(
                f"{accumulator} got {function!r}; expected a method of the metric or a function "
                "that takes RankedLists."
            )
        self._function = function

    @cached_property
    def _definition(self) -> Hashable:
        owner = getattr(self._function, "__self__", None)
        spec = getattr(owner, "shared_spec", None)
        if owner is None or spec is None:
            return self._function
        return (self._function.__func__, spec)  # type: ignore[attr-defined]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ListFunction) and self._definition == other._definition

    def __hash__(self) -> int:
        return hash(self._definition)

    def user_values(self, topk: TopK) -> Tensor:
        """Return the values by user, `[batch, cut-offs]`."""
        values, shape = self._call(topk), (topk.batch.size, len(topk.cutoffs))
        if values.ndim == 1 and shape[1] == 1:
            values = values[:, None]
        if values.shape not in (shape, (shape[0], 1)):
            raise self._shape_error(values, "[batch, cut-offs]", shape)
        return values.expand(shape)

    def position_values(self, topk: TopK) -> Tensor:
        """Return the values by position, `[batch, largest cut-off]`."""
        values, shape = self._call(topk), (topk.batch.size, topk.cutoffs[-1])
        if values.shape != shape:
            raise self._shape_error(values, "[batch, n], a value per position", shape)
        return values

    def _call(self, topk: TopK) -> Tensor:
        values = self._function(RankedLists(topk))
        if not isinstance(values, Tensor):
            raise SettingError(f"{self._name} returned {describe_type(values)}; expected a tensor.")
        return values.to(topk.k.dtype)

    def _shape_error(self, values: Tensor, expected: str, shape: tuple[int, int]) -> SettingError:
        return SettingError(
            f"{self._name} returned a tensor of shape {list(values.shape)}; expected {expected}, "
            f"here {list(shape)}."
        )

    @property
    def _name(self) -> str:
        return getattr(self._function, "__qualname__", repr(self._function))


@dataclass(frozen=True)
class UserSum(Accumulator):
    """An accumulator of the sum over users of `values(lists)`, a scalar.

    `values` is a method of the metric, or a function, that takes `RankedLists` and returns a tensor
    `[batch]` or `[batch, cut-offs]`. True counts as 1 and NaN as 0.

    >>> import torch, weft
    >>> class HitsPerUser(weft.SummedTopKMetric):
    ...     def __init__(self, k, **settings):
    ...         super().__init__(k, **settings)
    ...         self.hits = weft.UserSum(lambda lists: lists.hits)
    ...         self.users = weft.UserSum(lambda lists: lists.num_relevant > 0)
    ...     def compute_value(self, sums):
    ...         return sums[self.hits] / sums[self.users]
    >>> metric = HitsPerUser(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 1, 0]]))
    >>> metric.compute().item()
    2.0
    """

    values: ListValues = field(compare=False)
    function: ListFunction = field(init=False, repr=False)
    is_scalar = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "function", ListFunction(self.values, "UserSum"))

    @property
    def num_rows(self) -> int:
        return 1

    def contributions(self, topk: TopK) -> Contribution:
        return Contribution(self.function.user_values(topk).nan_to_num(0, torch.inf, -torch.inf))


@dataclass(frozen=True)
class ItemSums(ListedItemAccumulator):
    """An accumulator of the sum for each item of `values(lists)` over all lists, `[num_items]`.

    `values` is a method of the metric, or a function, that takes `RankedLists` and returns a value
    for each position, `[batch, n]`. NaN and empty positions add nothing. `num_items` is the number
    of items.

    >>> import torch, weft
    >>> class MostListed(weft.SummedTopKMetric):
    ...     def __init__(self, k, num_items, **settings):
    ...         super().__init__(k, **settings)
    ...         self.num_items = num_items
    ...         self.lists = weft.ItemSums(num_items, lambda lists: (lists.items >= 0).double())
    ...     def compute_value(self, sums):
    ...         return sums[self.lists].max()
    >>> metric = MostListed(k=1, num_items=3)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1], [0.8, 0.2, 0.3]]), torch.eye(3)[:2])
    >>> metric.compute().item()
    2.0
    """

    values: ListValues = field(compare=False)
    function: ListFunction = field(init=False, repr=False)
    is_per_position = True

    def __post_init__(self) -> None:
        check_int("ItemSums got num_items", self.num_items, least=0)
        object.__setattr__(self, "function", ListFunction(self.values, "ItemSums"))

    def contributions(self, topk: TopK) -> Contribution:
        values, slots = self.function.position_values(topk), topk.item_slots
        values = values[:, : slots.shape[1]]
        is_counted = (topk.batch.items[:, : slots.shape[1]] >= 0) & ~torch.isnan(values)
        return Contribution(torch.where(is_counted, values, 0), slots)


@dataclass(frozen=True)
class GroupSums(Accumulator):
    """An accumulator of the sum of `values(lists)` over the users of each group, `[groups]`.

    `groups` has a label for each user: the input `user_groups` of a run, or a list by user number.
    Users without a label are left out. `values` is a method of the metric, or a function, that
    takes `RankedLists` and returns a tensor `[batch]` or `[batch, cut-offs]`. The attribute
    `labels` has the names of the groups.

    >>> import torch, weft
    >>> class HitsByGroup(weft.SummedTopKMetric):
    ...     def __init__(self, k, groups, **settings):
    ...         super().__init__(k, **settings)
    ...         self.groups = groups
    ...         self.hits = weft.GroupSums(groups, lambda lists: lists.hits)
    ...     def compute_value(self, sums):
    ...         return dict(zip(self.hits.labels, sums[self.hits]))
    >>> metric = HitsByGroup(k=1, groups=["young", "old"])
    >>> scores, target = torch.tensor([[0.9, 0.1], [0.9, 0.1]]), torch.tensor([[1, 0], [0, 1]])
    >>> metric.update(scores, target, user_indices=[0, 1])
    >>> metric.hits.labels, [value.item() for value in metric.compute().values()]
    (('old', 'young'), [0.0, 1.0])
    """

    groups: Any
    values: ListValues = field(compare=False)
    function: ListFunction = field(init=False, repr=False)

    def __post_init__(self) -> None:
        groups = read_positional_labels(self.groups, "the groups of GroupSums", "user", None)
        object.__setattr__(self, "groups", groups)
        object.__setattr__(self, "function", ListFunction(self.values, "GroupSums"))

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the groups, in the order of the sums."""
        return tuple(map(str, self.groups.names))

    @property
    def num_rows(self) -> int:
        return len(self.groups.names)

    def contributions(self, topk: TopK) -> Contribution:
        check_users(topk.batch.users, self.groups.size, "the groups of GroupSums")
        values = self.function.user_values(topk)
        group = self.groups.codes.lookup(topk.batch.users, -1)[:, None]
        return _place_in_rows(values, group, topk)


@dataclass(frozen=True)
class Histogram(Accumulator):
    """An accumulator of the number of users in each interval of `values(lists)`, `[intervals]`.

    Interval i contains the values from `edges[i]` up to, but without, `edges[i + 1]`. Other values
    and NaN are not counted. `values` is a method of the metric, or a function, that takes
    `RankedLists` and returns a tensor `[batch]` or `[batch, cut-offs]`.

    >>> import torch, weft
    >>> class ShareWithTwoHits(weft.SummedTopKMetric):
    ...     def __init__(self, k, **settings):
    ...         super().__init__(k, **settings)
    ...         self.hits = weft.Histogram([0, 2, float("inf")], lambda lists: lists.hits)
    ...     def compute_value(self, sums):
    ...         few, many = sums[self.hits]
    ...         return many / (few + many)
    >>> metric = ShareWithTwoHits(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5], [0.9, 0.5]]), torch.tensor([[1, 1], [1, 0]]))
    >>> metric.compute().item()
    0.5
    """

    edges: Sequence[float]
    values: ListValues = field(compare=False)
    function: ListFunction = field(init=False, repr=False)
    _column: DeviceColumn = field(init=False, repr=False, compare=False)
    count_rows = slice(None)

    def __post_init__(self) -> None:
        edges = tuple(map(float, self.edges))
        if len(edges) < 2 or any(not low < high for low, high in pairwise(edges)):
            raise SettingError(
                f"Histogram got edges={self.edges!r}; expected at least two numbers in ascending "
                "order."
            )
        object.__setattr__(self, "edges", edges)
        object.__setattr__(self, "_column", DeviceColumn(torch.tensor(edges, dtype=torch.float64)))
        object.__setattr__(self, "function", ListFunction(self.values, "Histogram"))

    @property
    def num_rows(self) -> int:
        return len(self.edges) - 1

    def contributions(self, topk: TopK) -> Contribution:
        values = self.function.user_values(topk).contiguous()
        edges = self._column.to(values.device).to(values.dtype)
        interval = torch.bucketize(values, edges, right=True) - 1
        interval = torch.where(interval < self.num_rows, interval, -1)
        return _place_in_rows(torch.where(torch.isnan(values), values, 1), interval, topk)


def _place_in_rows(values: Tensor, rows: Tensor, topk: TopK) -> Contribution:
    """Return values `[batch, cut-offs]` as contributions to rows of an accumulator, -1 for none."""
    is_counted = (rows >= 0) & ~torch.isnan(values)
    width = len(topk.cutoffs)
    columns = torch.arange(width, device=values.device)
    indices = torch.where(is_counted, rows * width + columns, 0)
    return Contribution(torch.where(is_counted, values, 0), indices)

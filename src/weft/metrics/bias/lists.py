"""Popularity of the items of a list, and the share of the long tail.

Items are ordered by train interactions, highest first (ties: lower item index first). The shortest
prefix that reaches `pop_ratio` of all interactions is the head; the rest is the tail.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from weft._input_kinds import built_in_inputs
from weft.batch.topk import TopK
from weft.data import Train
from weft.data.popularity import check_ratio, check_unseen
from weft.errors import check_choice
from weft.metrics.base.formulas import POPULATIONS, UserAverageTopKMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.registry import register

_TAIL_REFERENCE = (
    "Abdollahpouri, Burke and Mobasher (2017), Controlling popularity bias in learning-to-rank "
    "recommendation, doi 10.1145/3109859.3109912"
)


class _PopularityMetric(UserAverageTopKMetric):
    """A number per list, over all lists or those of users with a relevant item."""

    family = "bias"
    needs = built_in_inputs("train")
    is_exposure_metric = True
    bounds: Bounds = (0.0, None)
    undefined = "no list counts"

    def __init__(self, k: int, *, users: str = "lists", **settings: Any) -> None:
        super().__init__(k, **settings)
        self._train: Train = self.inputs["train"]
        self.users = check_choice("users", users, POPULATIONS)


@register
class ACLT(_PopularityMetric):
    """The number of long-tail items in a list, averaged over all lists.

    `pop_ratio`: the share of all train interactions in the head. With `tail_ratio` the tail is that
    share of the items of the catalogue instead, the least popular ones (at least one item).
    `users="evaluated"` counts the lists of users with a relevant item only.

    Border of head and tail: items are ordered by train interactions, highest first, and equally
    popular ones by item index (columns of the scores, the order of `items=`, or else sorted ids);
    the head is the shortest prefix that has `pop_ratio` of all interactions. The value changes with
    the order of equally popular items at the border, under every tie rule (these are for scores).

    Edge cases: an empty list counts 0; items without train interactions are in the tail; if train
    is empty all items are in the tail.

    Example: item 0 has 4 of 5 train interactions and is the head; the list holds one tail item.

    >>> import torch, weft
    >>> train = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]])
    >>> metric = weft.metrics.ACLT(k=2, train=train)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(1., dtype=torch.float64)
    """

    higher_is_better = True
    reference = _TAIL_REFERENCE

    def __init__(
        self,
        k: int,
        *,
        pop_ratio: float = 0.8,
        tail_ratio: float | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(k, **settings)
        self.pop_ratio = check_ratio("pop_ratio", pop_ratio)
        self.tail_ratio = tail_ratio
        if tail_ratio is not None:
            self.tail_ratio = check_ratio("tail_ratio", tail_ratio)
            self.pop_ratio = 0.8  # without an effect

    def user_values(self, topk: TopK) -> Tensor:
        if self.tail_ratio is not None:
            return topk.sum_column(self._train.least_popular(self.tail_ratio))
        return topk.sum_column(self._train.long_tail(self.pop_ratio))


@register
class APLT(ACLT):
    """The share of long-tail items in a list, averaged over all lists.

    `denominator="list"` divides by the length of the list instead of k. `pop_ratio`,
    `tail_ratio` and `users` as for ACLT.

    Border of head and tail: items are ordered by train interactions, highest first, and equally
    popular ones by item index (columns of the scores, the order of `items=`, or else sorted ids);
    the head is the shortest prefix that has `pop_ratio` of all interactions. The value changes with
    the order of equally popular items at the border, under every tie rule (these are for scores).

    Edge cases: an empty list counts 0.

    Example: item 0 has 4 of 5 train interactions and is the head; one of two items is in the tail.

    >>> import torch, weft
    >>> train = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]])
    >>> metric = weft.metrics.APLT(k=2, train=train)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    bounds: Bounds = (0.0, 1.0)

    def __init__(
        self,
        k: int,
        *,
        pop_ratio: float = 0.8,
        users: str = "lists",
        denominator: str = "k",
        **settings: Any,
    ) -> None:
        super().__init__(k, pop_ratio=pop_ratio, users=users, **settings)
        self.denominator = check_choice("denominator", denominator, ("k", "list"))

    def user_values(self, topk: TopK) -> Tensor:
        length = topk.k if self.denominator == "k" else topk.num_listed.clamp(min=1)
        return super().user_values(topk) / length


@register
class ARP(_PopularityMetric):
    """The average popularity of the recommended items: the mean number of train interactions over a
    list, averaged over lists.

    `users="evaluated"` counts the lists of users with a relevant item only; `unseen` is the
    popularity of an item without train interactions, or `"skip"`, which leaves such items out, and
    lists without another item. `normalize` divides by the train interactions
    of all items (`"interactions"`) or by those of the most popular item (`"max"`).

    Edge cases: empty lists are left out; undefined with `normalize` if train is empty.

    Example: the items of the list have 3 and 1 train interactions.

    >>> import torch, weft
    >>> metric = weft.metrics.ARP(k=2, train=torch.tensor([[1, 1, 0], [1, 0, 0], [1, 0, 0]]))
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(2., dtype=torch.float64)
    """

    higher_is_better = False
    undefined = "all lists are empty, or train is empty and popularity is normalized"
    reference = (
        "Yin et al. (2012), Challenging the long tail recommendation, doi 10.14778/2311906.2311916"
    )

    def __init__(
        self,
        k: int,
        *,
        users: str = "lists",
        unseen: float | str = 0,
        normalize: str = "none",
        **settings: Any,
    ) -> None:
        super().__init__(k, users=users, **settings)
        is_skipped = isinstance(unseen, str) and unseen == "skip"
        self.unseen = "skip" if is_skipped else check_unseen(unseen)
        self.normalize = check_choice("normalize", normalize, ("none", "interactions", "max"))
        if self.normalize != "none" and (isinstance(self.unseen, str) or self.unseen <= 1):
            self.bounds = (0.0, 1.0)

    def user_values(self, topk: TopK) -> Tensor:
        if isinstance(self.unseen, str):
            popularity, length = self._train.popularity, topk.sum_column(self._train.is_warm)
        else:
            popularity, length = (
                self._train.popularity_with_default(self.unseen),
                topk.num_listed,
            )
        mean = topk.sum_column(popularity) / torch.where(length > 0, length, torch.nan)
        if self.normalize == "none":
            return mean
        counts = self._train.item_counts
        scale = counts.sum() if self.normalize == "interactions" else counts.max(initial=0)
        return mean / (float(scale) if scale else math.nan)


@register
class PopularityQuantile(_PopularityMetric):
    """The mean rank of the items of a list by popularity, from 0 (least popular) to 1 (the most),
    averaged over lists.

    Ranks are those among the items with train interactions, by ascending popularity, over their
    number; equally popular items have their mean rank. `users="evaluated"` counts the lists of
    users with a relevant item only.

    Edge cases: items without train interactions have 0; empty lists are left out.

    Example: items 0 and 1 have 3 and 1 train interactions, ranks 2 and 1 of 2: (2/2 + 1/2) / 2.

    >>> import torch, weft
    >>> train = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 0, 0]])
    >>> metric = weft.metrics.PopularityQuantile(k=2, train=train)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(0.7500, dtype=torch.float64)
    """

    higher_is_better = False
    bounds: Bounds = (0.0, 1.0)
    undefined = "all lists are empty"
    reference = (
        "Celma and Cano (2008), From hits to niches? or how popular artists can bias music "
        "recommendation and discovery, doi 10.1145/1722149.1722154"
    )

    def user_values(self, topk: TopK) -> Tensor:
        total = topk.sum_column(self._train.popularity_quantiles)
        return total / torch.where(topk.num_listed > 0, topk.num_listed, torch.nan)

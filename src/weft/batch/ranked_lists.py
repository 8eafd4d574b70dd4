"""The recommendation lists of a batch, as functions of authors see them."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from weft.batch.blocks import MetricBlock, metric_block
from weft.batch.topk import TopK
from weft.errors import SettingError


class RankedLists:
    """Recommendation lists of a batch of users, which the functions of accumulators receive.

    All tensors are copies that a metric may change. Tied items are in the order that was drawn. The
    number of positions, n, is the largest cut-off. Positions after the end of a list are empty, as
    are, with `unknown_items="miss"` or `duplicates="miss"`, those of unknown or repeated items.
    Quantities per user have the shape `[batch, cut-offs]` or `[batch, 1]`, so that they can be
    combined. Metrics without a cut-off can read only `users` and `num_relevant`.

    Attributes
    ----------
    cutoffs
        Cut-offs as integers in ascending order: one, unless the class of the metric declares
        `supports_all_cutoffs`.
    k
        Cut-offs as a tensor, `[cut-offs]`.

    Examples
    --------
    >>> import torch, weft
    >>> class LastHit(weft.SummedTopKMetric):
    ...     def __init__(self, k, **settings):
    ...         super().__init__(k, **settings)
    ...         self.last = weft.UserSum(self.find_last)
    ...     def find_last(self, lists):
    ...         return (lists.is_hit * lists.positions).max(dim=1).values
    ...     def compute_value(self, sums):
    ...         return sums[self.last]
    >>> metric = LastHit(k=3)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 1, 0]]))
    >>> metric.compute().item()
    2.0
    """

    def __init__(self, topk: TopK) -> None:
        self._batch, self.cutoffs, self.k = topk.batch, topk.cutoffs, topk.k.clone()

    def __len__(self) -> int:
        """Return the number of users."""
        return self._batch.size

    @cached_property
    def users(self) -> Tensor:
        """The numbers of the users, `[batch]`."""
        return self._batch.users.clone()

    @cached_property
    def num_relevant(self) -> Tensor:
        """The number of relevant items of each user, `[batch, 1]`."""
        return self._batch.num_relevant[:, None].clone()

    # ------------------------------------------------------------------------------- by position

    @property
    def _depth(self) -> int:
        if self.cutoffs[-1] == 0:
            raise SettingError(
                "a metric without a cut-off has no lists; derive it from weft.SummedTopKMetric, "
                "or read only users and num_relevant."
            )
        return self.cutoffs[-1]

    def _block(self, block: MetricBlock) -> Tensor:
        return metric_block(self._batch, block, self._depth)

    @cached_property
    def items(self) -> Tensor:
        """The item numbers, -1 at empty positions, `[batch, n]`."""
        return self._block(MetricBlock.TOP_K_INDICES)

    @cached_property
    def scores(self) -> Tensor:
        """The scores, `-inf` at empty positions, `[batch, n]`."""
        return self._block(MetricBlock.TOP_K_VALUES)

    @cached_property
    def is_hit(self) -> Tensor:
        """True where the item is relevant, `[batch, n]`."""
        return self._block(MetricBlock.TOP_K_BINARY_RELEVANCE) > 0

    @cached_property
    def gains(self) -> Tensor:
        """The gains `2^rating - 1` of relevant items, 0 of others, `[batch, n]`."""
        return self._block(MetricBlock.TOP_K_DISCOUNTED_RELEVANCE)

    @cached_property
    def positions(self) -> Tensor:
        """The positions 1, 2, ..., n, `[n]`."""
        return torch.arange(1, self._depth + 1, dtype=self.k.dtype, device=self.k.device)

    @property
    def discounts(self) -> Tensor:
        """The discount of each position, `1 / log2(position + 1)`, `[n]`."""
        return 1 / torch.log2(self.positions + 1)

    # ----------------------------------------------------------------------------------- by user

    def sum_positions(self, values: Tensor) -> Tensor:
        """Return sums over the first k positions for each cut-off, `[batch, cut-offs]`.

        `values` has a value for each position, `[batch, n]`.
        """
        sums = torch.nn.functional.pad(values.to(self.k.dtype).cumsum(1), (1, 0))
        return torch.stack([sums[:, k] for k in self.cutoffs], dim=1)

    @property
    def lengths(self) -> Tensor:
        """The number of items in each list, `[batch, cut-offs]`."""
        return self.sum_positions(self.items >= 0)

    @property
    def hits(self) -> Tensor:
        """The number of relevant items in each list, `[batch, cut-offs]`."""
        return self.sum_positions(self.is_hit)

    @property
    def first_hit(self) -> Tensor:
        """The position of the first relevant item, `[batch, cut-offs]`; NaN if there is none."""
        is_first = self.is_hit & (self.is_hit.cumsum(1) == 1)
        position = self.sum_positions(is_first * self.positions)
        return torch.where(position > 0, position, torch.nan)

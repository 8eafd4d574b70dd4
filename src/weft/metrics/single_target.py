"""One target per row, as in next-item prediction: the target's rank first, then metrics of the ranks.

The names are those under which sequential recommenders know them; the values equal HitRate, nDCG and MRR on the same data.
"""

from __future__ import annotations

import torch
import torchmetrics
from torch import Tensor

from weft.blocks import refuse_bad_scores
from weft.errors import InputError, SettingError, whole_number
from weft.ranking import top_k
from weft.sources.base import as_tensor


def get_topk_ranks(pred_scores: Tensor, target: Tensor, topk: int) -> Tensor:
    """The rank from 1 of each row's target among the row's scores, `topk + 1` for a miss: `[batch, 1]`.

    `pred_scores [batch, items]`, `target [batch]` or `[batch, 1]`. Equal scores rank by item index; a target that is not offered
    (`-inf`) is a miss.

    >>> import torch, weft
    >>> weft.get_topk_ranks(torch.tensor([[0.1, 0.9, 0.5], [0.7, 0.2, 0.6]]), torch.tensor([2, 1]), topk=2)
    tensor([[2],
            [3]])
    """
    topk = whole_number("topk", topk)
    if not (isinstance(pred_scores, Tensor) and isinstance(target, Tensor)):
        got = f"pred_scores is a {type(pred_scores).__name__} and target a {type(target).__name__}"
        raise InputError(f"{got}; expected a tensor each.")
    if pred_scores.ndim != 2 or target.shape not in (pred_scores.shape[:1], (len(pred_scores), 1)):
        raise InputError(
            f"pred_scores has shape {list(pred_scores.shape)} and target {list(target.shape)}; "
            "expected [batch, items] and one target per row, [batch] or [batch, 1]."
        )
    if target.is_floating_point() or target.dtype == torch.bool:
        raise InputError(f"target is of {target.dtype}; expected the item number of each row's target, as integers.")
    scores, wanted = as_tensor(pred_scores, "pred_scores").contiguous(), target.reshape(-1, 1)
    if target.device.type == "cpu" and scores.shape[1] and ((wanted < 0) | (wanted >= scores.shape[1])).any():
        bad = wanted[(wanted < 0) | (wanted >= scores.shape[1])][0]
        raise InputError(f"target holds the item {int(bad)}; items are the columns of pred_scores, 0 to {scores.shape[1] - 1}.")
    values, items = top_k(scores, topk)
    if values.device.type == "cpu" and not (values[:, :1] < torch.inf).all():
        refuse_bad_scores(scores, torch.arange(len(scores)))
    hit = (items == wanted) & (values > -torch.inf)
    ranks = torch.where(hit, torch.arange(1, items.shape[1] + 1, device=items.device), topk + 1)
    found = torch.cat([ranks, torch.full_like(wanted, topk + 1, dtype=torch.int64)], dim=1).amin(1, keepdim=True)
    found.cut_at = topk  # type: ignore[attr-defined]  # so that a metric with a larger cut-off can refuse them
    return found


class _OfRanks(torchmetrics.Metric):
    """A mean over rows of a value of the rank; ranks beyond k add 0."""

    full_state_update = False
    is_differentiable = False
    higher_is_better = True
    total: Tensor
    rows: Tensor

    def __init__(self, k: int) -> None:
        super().__init__()
        self.k = whole_number(f"{type(self).__name__} got the cut-off k", k)
        # State names of its own: a MetricCollection must not take one metric for another (see weft.metrics.base).
        self._total, self._rows = f"total_{type(self).__name__}_{k}", f"rows_{type(self).__name__}_{k}"
        self.add_state(self._total, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state(self._rows, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, ranks: Tensor) -> None:
        """Add the ranks of a batch, as `get_topk_ranks` gives them for a `topk` of at least k."""
        if not isinstance(ranks, Tensor) or ranks.is_floating_point() or ranks.dtype == torch.bool:
            got = f"a tensor of {ranks.dtype}" if isinstance(ranks, Tensor) else f"a {type(ranks).__name__}"
            raise InputError(f"ranks are {got}; expected the integers of get_topk_ranks, [batch, 1].")
        if ranks.device.type == "cpu" and (ranks < 1).any():
            raise InputError(f"ranks hold {int(ranks.min())}; ranks begin at 1, as get_topk_ranks gives them.")
        topk = getattr(ranks, "cut_at", self.k)
        if self.k > topk:
            raise SettingError(
                f"{type(self).__name__} has the cut-off k={self.k}, but the ranks were taken with topk={topk}, where a miss is "
                f"{topk + 1}; call get_topk_ranks with topk={self.k} or more."
            )
        within = torch.where(ranks <= self.k, self.worth(ranks.double()), 0)
        setattr(self, self._total, getattr(self, self._total) + within.sum())
        setattr(self, self._rows, getattr(self, self._rows) + ranks.numel())

    def compute(self) -> Tensor:
        return torch.as_tensor(getattr(self, self._total) / getattr(self, self._rows))

    def worth(self, rank: Tensor) -> Tensor:
        """What a target at this rank adds."""
        raise SettingError(f"{type(self).__name__} must define worth(self, rank).")


class HR(_OfRanks):
    """The share of rows whose target is among the first k.

    >>> import torch, weft
    >>> metric = weft.HR(k=2)
    >>> metric.update(torch.tensor([[1], [3]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    def worth(self, rank: Tensor) -> Tensor:
        return torch.ones_like(rank)


class NDCG(_OfRanks):
    """The mean of 1 / log2(rank + 1).

    >>> import torch, weft
    >>> metric = weft.NDCG(k=3)
    >>> metric.update(torch.tensor([[1], [3]]))
    >>> metric.compute()
    tensor(0.7500, dtype=torch.float64)
    """

    def worth(self, rank: Tensor) -> Tensor:
        return 1 / torch.log2(rank + 1)


class MRR(_OfRanks):
    """The mean of 1 / rank.

    >>> import torch, weft
    >>> metric = weft.MRR(k=2)
    >>> metric.update(torch.tensor([[2], [3]]))
    >>> metric.compute()
    tensor(0.2500, dtype=torch.float64)
    """

    def worth(self, rank: Tensor) -> Tensor:
        return 1 / rank

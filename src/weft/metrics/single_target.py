"""One target per row, as in next-item prediction: the target's rank first, then metrics of the ranks.

The names are those under which sequential recommenders know them; the values equal HitRate, nDCG and MRR on the same data.
"""

from __future__ import annotations

import torch
import torchmetrics
from torch import Tensor

from weft.errors import InputError, SettingError
from weft.ranking import top_k


def get_topk_ranks(pred_scores: Tensor, target: Tensor, topk: int) -> Tensor:
    """The rank from 1 of each row's target among the row's scores, `topk + 1` for a miss: `[batch, 1]`.

    `pred_scores [batch, items]`, `target [batch]` or `[batch, 1]`. Equal scores rank by item index; a target that is not offered
    (`-inf`) is a miss.

    >>> import torch, weft
    >>> weft.get_topk_ranks(torch.tensor([[0.1, 0.9, 0.5], [0.7, 0.2, 0.6]]), torch.tensor([2, 1]), topk=2)
    tensor([[2],
            [3]])
    """
    if pred_scores.ndim != 2 or target.shape not in (pred_scores.shape[:1], (len(pred_scores), 1)):
        raise InputError(
            f"pred_scores has shape {list(pred_scores.shape)} and target {list(target.shape)}; "
            "expected [batch, items] and one target per row, [batch] or [batch, 1]."
        )
    if topk < 1:
        raise SettingError(f"topk={topk!r}; it must be a whole number from 1 up.")
    values, items = top_k(pred_scores.detach().contiguous(), topk)
    hit = (items == target.reshape(-1, 1)) & (values > -torch.inf)
    rank = torch.arange(1, items.shape[1] + 1, device=items.device)
    return (
        torch.where(hit, rank, topk + 1).amin(1, keepdim=True)
        if items.shape[1]
        else hit.new_full((len(hit), 1), topk + 1, dtype=torch.int64)
    )


class _OfRanks(torchmetrics.Metric):
    """A mean over rows of a value of the rank; ranks beyond k add 0."""

    full_state_update = False
    is_differentiable = False
    higher_is_better = True
    total: Tensor
    rows: Tensor

    def __init__(self, k: int) -> None:
        super().__init__()
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise SettingError(f"{type(self).__name__} got the cut-off k={k!r}; it must be a whole number from 1 up.")
        self.k = k
        # State names of its own: a MetricCollection must not take one metric for another (see weft.metrics.base).
        self._total, self._rows = f"total_{type(self).__name__}_{k}", f"rows_{type(self).__name__}_{k}"
        self.add_state(self._total, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state(self._rows, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, ranks: Tensor) -> None:
        """Add the ranks of a batch, as `get_topk_ranks` gives them for a `topk` of at least k."""
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

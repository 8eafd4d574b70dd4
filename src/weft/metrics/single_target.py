"""One target per row, as in next-item prediction: the target's rank first, then metrics of the
ranks.

The names are those under which sequential recommenders know them; the values equal HitRate, nDCG
and MRR on the same data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from weft.batch.input_validation import check_readable_scores
from weft.data.devices import float_type, is_host_readable
from weft.data.tensors import SparseRows
from weft.errors import InputError, SettingError, check_int
from weft.metrics.base.metric import check_batch
from weft.metrics.base.stateful import TORCHMETRICS_SETTINGS, Bounds, StatefulMetric
from weft.ranking import TieRule

# What gives the same ranks in another place, form or company: it keeps in mind where they were cut.
_KEEPING = {
    *("to", "cpu", "cuda", "int", "long", "short", "clone", "detach", "contiguous", "pin_memory"),
    *(
        "reshape",
        "view",
        "view_as",
        "flatten",
        "unflatten",
        "squeeze",
        "unsqueeze",
        "ravel",
        "expand",
        "repeat",
    ),
    *(
        "t",
        "transpose",
        "permute",
        "flip",
        "roll",
        "__getitem__",
        "index_select",
        "select",
        "narrow",
        "masked_select",
        "take",
    ),
    *(
        "gather",
        "split",
        "tensor_split",
        "chunk",
        "unbind",
        "cat",
        "concat",
        "concatenate",
        "stack",
        "hstack",
        "vstack",
    ),
    *("zeros_like", "empty_like"),  # into which other processes' ranks are gathered
}


class Ranks(Tensor):
    """Ranks that know the `topk` at which they were taken, wherever they are moved, cut or joined.

    A miss has the rank `topk + 1`, which a metric with a larger cut-off would take for a hit.
    """

    cut_at: int

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Any = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        with torch._C.DisableTorchFunctionSubclass():
            found = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") not in _KEEPING:
            return found
        given = [
            one
            for arg in (*args, *(kwargs or {}).values())
            for one in (arg if isinstance(arg, (list, tuple)) else (arg,))
        ]
        cut_at = min(one.cut_at for one in given if isinstance(one, Ranks))
        if isinstance(found, (list, tuple)):
            return type(found)(_cut_at(one, cut_at) for one in found)
        return _cut_at(found, cut_at)

    def __repr__(self) -> str:  # type: ignore[override]
        return repr(self.as_subclass(Tensor))

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return self.clone()


torch.serialization.add_safe_globals([Ranks])  # so that torch.load takes what torch.save wrote


def _cut_at(ranks: Tensor, topk: int) -> Tensor:
    """The ranks, knowing where they were cut."""
    if type(ranks) is Tensor and not ranks.is_floating_point():
        ranks = ranks.as_subclass(Ranks)
    # also of other kinds of tensors, which lose it when they are moved
    ranks.cut_at = topk  # type: ignore[attr-defined]
    return ranks


@torch.no_grad()
def get_topk_ranks(
    pred_scores: Tensor,
    target: Tensor,
    topk: int,
    *,
    ties: str = "index",
    seed: int = 0,
    user_indices: Tensor | None = None,
) -> Tensor:
    """The rank from 1 of each row's target among the row's scores, `topk + 1` for a miss: `[batch,
    1]`.

    `pred_scores [batch, items]`, `target [batch]` or `[batch, 1]`. A target that is not offered
    (`-inf`) is a miss. `ties` says who comes first among equal scores: `"index"` the lower item
    index, `"random"` a hash of `seed`, the user's number and the item, `"optimistic"` the target,
    `"pessimistic"` the others. Without `user_indices [batch]` rows are numbered from 0 in every
    call.

    Scores of NaN or +inf, and targets that are no items, are refused on the CPU. On another device,
    where that would wait, such a row has the rank 0, which HR, NDCG and MRR refuse when they
    compute.

    >>> import torch, weft
    >>> weft.get_topk_ranks(torch.tensor([[0.1, 0.9, 0.5], [0.7, 0.2, 0.6]]), torch.tensor([2, 1]), topk=2)
    tensor([[2],
            [3]])
    """
    topk = check_int("topk", topk)
    rule = TieRule(ties, seed)
    if rule.name == "expected":
        raise SettingError(
            'ties="expected" is an average over all orders of equal scores, which one rank cannot '
            "tell; use HitRate, nDCG or MRR of weft.metrics, which equal HR, NDCG and MRR: "
            "nDCG(k=10, "
            'ties="expected").update(pred_scores, target).'
        )
    if not (isinstance(pred_scores, Tensor) and isinstance(target, Tensor)):
        got = f"pred_scores is a {type(pred_scores).__name__} and target a {type(target).__name__}"
        raise InputError(f"{got}; expected a tensor each.")
    if pred_scores.ndim != 2 or target.shape not in (pred_scores.shape[:1], (len(pred_scores), 1)):
        raise InputError(
            f"pred_scores has shape {list(pred_scores.shape)} and target {list(target.shape)}; "
            "expected [batch, items] and one target per row, [batch] or [batch, 1]."
        )
    if target.is_floating_point() or target.dtype == torch.bool:
        raise InputError(
            f"target is of {target.dtype}; expected the item number of each row's target, as "
            "integers."
        )
    scores, users = check_batch(pred_scores, user_indices)
    scores, wanted = scores.contiguous(), target.reshape(-1, 1).long()
    num_items = scores.shape[1]
    outside = (wanted < 0) | (wanted >= num_items)
    if is_host_readable(target.device) and num_items and outside.any():
        bad = wanted[outside][0]
        raise InputError(
            f"target holds the item {int(bad)}; items are the columns of pred_scores, 0 to "
            f"{num_items - 1}."
        )
    if num_items == 0:
        return _cut_at(torch.full_like(wanted, topk + 1), topk)
    depth = min(topk, num_items)
    ranking = rule.rank(scores, depth, user_keys=users, relevant=_one_each(wanted, num_items))
    is_bad = ~(ranking.values[:, :1] < torch.inf)
    if is_host_readable(scores.device) and is_bad.any():
        check_readable_scores(scores, users)
    hit = (ranking.items == wanted) & (ranking.items >= 0)
    places = torch.arange(1, depth + 1, device=scores.device)
    ranks = torch.where(hit, places, topk + 1).amin(1, keepdim=True)
    return _cut_at(torch.where(is_bad | outside, 0, ranks), topk)


def _one_each(wanted: Tensor, num_items: int) -> SparseRows:
    """One relevant item per row."""
    offsets = torch.arange(len(wanted) + 1, device=wanted.device)
    items = wanted[:, 0].clamp(
        0, num_items - 1
    )  # what is no item is refused on the CPU; elsewhere it is found nowhere
    return SparseRows(
        offsets, items, torch.ones_like(items, dtype=float_type(wanted.device)), num_items
    )


class _OfRanks(StatefulMetric):
    """A mean over rows of a value of the rank; ranks beyond k add 0."""

    higher_is_better = True
    bounds: Bounds = (0.0, 1.0)

    def __init__(self, k: int, **torchmetrics_settings: Any) -> None:
        self._refuse_unknown(torchmetrics_settings, ["k", *TORCHMETRICS_SETTINGS])
        super().__init__(**torchmetrics_settings)
        self.k = check_int(f"{type(self).__name__} got the cut-off k", k)
        # State names of its own: a MetricCollection must not take one metric for another (see
        # weft.metrics.base.metric).
        self._total, self._rows = (
            f"total_{type(self).__name__}_{k}",
            f"rows_{type(self).__name__}_{k}",
        )
        self.add_state(self._total, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state(self._rows, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self._bad = f"bad_{type(self).__name__}_{k}"
        self.add_state(self._bad, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    @property
    def title(self) -> str:
        return f"{type(self).__name__}@{self.k}"

    def update(self, ranks: Tensor) -> None:
        """Add the ranks of a batch, as `get_topk_ranks` gives them for a `topk` of at least k."""
        if not isinstance(ranks, Tensor) or ranks.is_floating_point() or ranks.dtype == torch.bool:
            got = (
                f"a tensor of {ranks.dtype}"
                if isinstance(ranks, Tensor)
                else f"a {type(ranks).__name__}"
            )
            raise InputError(
                f"ranks are {got}; expected the integers of get_topk_ranks, [batch, 1]."
            )
        topk = getattr(ranks, "cut_at", self.k)
        if self.k > topk:
            raise SettingError(
                f"{type(self).__name__} has the cut-off k={self.k}, but the ranks were taken with "
                f"topk={topk}, where a miss is {topk + 1}; call get_topk_ranks with topk={self.k} "
                "or more."
            )
        ranks = ranks.as_subclass(Tensor) if type(ranks) is Ranks else ranks
        is_bad = ranks < 1
        if is_host_readable(ranks.device) and is_bad.any():
            raise InputError(
                f"ranks hold {int(ranks.min())}; ranks begin at 1, as get_topk_ranks gives them."
            )
        within = torch.where(
            (ranks <= self.k) & ~is_bad, self.worth(ranks.to(float_type(ranks.device))), 0
        )
        setattr(self, self._bad, getattr(self, self._bad) + is_bad.sum())
        setattr(self, self._total, getattr(self, self._total) + within.sum())
        setattr(self, self._rows, getattr(self, self._rows) + ranks.numel())

    def compute(self) -> Tensor:
        if bad := int(getattr(self, self._bad)):
            raise InputError(
                f"{bad} ranks are below 1, where ranks begin; get_topk_ranks gives 0 for a row "
                "whose scores hold NaN or +inf, or whose target is no column of the scores."
            )
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

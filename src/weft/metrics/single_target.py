"""Metrics for one target per row, as in next-item prediction: the rank of the target, then HR, NDCG
and MRR of the ranks.

The names are those of sequential recommenders; the values equal HitRate, nDCG and MRR.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from weft.batch.input_validation import check_readable_scores
from weft.data.devices import float_type, is_host_readable
from weft.data.tensors import SparseRows
from weft.errors import InputError, SettingError, check_int, describe_type, setting_ref
from weft.metrics.base.batch_checks import check_batch, is_integer
from weft.metrics.base.stateful import TORCHMETRICS_SETTINGS, Bounds, StatefulMetric
from weft.ranking import MaskedScores, TieRule

if TYPE_CHECKING:
    from weft._choices import TieRuleName

# Tensor functions with a result of the same ranks, moved, reshaped, selected or joined. The last
# two receive the ranks of other processes.
_FUNCTIONS = (
    "to cpu cuda int long short clone detach contiguous pin_memory "
    "reshape view view_as flatten unflatten squeeze unsqueeze ravel expand repeat "
    "t transpose permute flip roll __getitem__ index_select select narrow masked_select take "
    "gather split tensor_split chunk unbind cat concat concatenate stack hstack vstack "
    "zeros_like empty_like"
)
_RANK_PRESERVING = frozenset(_FUNCTIONS.split())


class Ranks(Tensor):
    """Ranks with the `topk` at which they were taken, which is kept when they are moved or joined.

    A miss has the rank `topk + 1`, which a metric with a larger cut-off would take for a hit."""

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
            result = func(*args, **(kwargs or {}))
        if getattr(func, "__name__", "") not in _RANK_PRESERVING:
            return result
        arguments: list[Any] = []
        for argument in (*args, *(kwargs or {}).values()):
            arguments += argument if isinstance(argument, (list, tuple)) else [argument]
        cut_at = min(one.cut_at for one in arguments if isinstance(one, Ranks))
        if isinstance(result, (list, tuple)):
            return type(result)(_as_ranks(one, cut_at) for one in result)
        return _as_ranks(result, cut_at)

    def __repr__(self) -> str:  # type: ignore[override]
        return repr(self.as_subclass(Tensor))

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return self.clone()


torch.serialization.add_safe_globals([Ranks])  # so that torch.load accepts saved ranks


def _as_ranks(ranks: Tensor, topk: int) -> Tensor:
    """Return the ranks with the `topk` at which they were taken."""
    if type(ranks) is Tensor and not ranks.is_floating_point():
        ranks = ranks.as_subclass(Ranks)
    # Other kinds of tensors get the attribute too, but lose it when they are moved.
    ranks.cut_at = topk  # type: ignore[attr-defined]
    return ranks


@torch.no_grad()
def get_topk_ranks(
    pred_scores: Tensor,
    target: Tensor,
    topk: int,
    *,
    ties: TieRuleName = "index",
    seed: int = 0,
    user_indices: Tensor | None = None,
) -> Tensor:
    """Return the rank of the target of each row.

    On the CPU, `InputError` is raised for scores that are NaN or +inf, and for targets that are no
    columns. On other devices this would synchronize, so such a row has the rank 0, for which HR,
    NDCG and MRR raise the error in `compute`. `torch.compile` traces a call as one operation,
    without a graph break.

    Parameters
    ----------
    pred_scores
        Scores `[batch, items]`. A target with the score -inf is a miss.
    target
        Item number of the target of each row, `[batch]` or `[batch, 1]`.
    topk
        Largest rank. A target below it is a miss, with the rank `topk + 1`.
    ties
        Order of items with equal scores: `"index"` (default) ranks the lower item number first,
        `"random"` orders by a hash of `seed`, user number and item, `"optimistic"` ranks the target
        first, and `"pessimistic"` ranks it last.
    seed
        Seed of `ties="random"`.
    user_indices
        User number of each row, `[batch]`. By default rows are numbered from 0 in every call.

    Returns
    -------
    torch.Tensor
        Ranks from 1, `[batch, 1]`.

    Raises
    ------
    InputError
        If scores or targets are invalid.
    SettingError
        If `topk` is below 1, or `ties` is another rule.

    Examples
    --------
    >>> import torch, weft
    >>> scores = torch.tensor([[0.1, 0.9, 0.5], [0.7, 0.2, 0.6]])
    >>> weft.get_topk_ranks(scores, torch.tensor([2, 1]), topk=2)
    tensor([[2],
            [3]])
    """
    rank = _traced_ranks if torch.compiler.is_compiling() else _rank_targets
    return _as_ranks(rank(pred_scores, target, topk, ties, seed, user_indices), topk)


def _rank_targets(
    pred_scores: Tensor,
    target: Tensor,
    topk: int,
    ties: str,
    seed: int,
    user_indices: Tensor | None,
) -> Tensor:
    """Return the ranks of `get_topk_ranks` as a plain tensor."""
    topk = check_int("topk", topk)
    rule = TieRule(ties, seed)
    if rule.name == "expected":
        raise SettingError(
            f"{setting_ref('ties', 'expected')} averages over all orders of equal scores, which "
            "does not give a single rank; use HitRate, nDCG or MRR of weft.metrics, which equal "
            "HR, NDCG and MRR: nDCG(k=10, ties='expected').update(pred_scores, target)."
        )
    _check_target(pred_scores, target)
    scores, users = check_batch(pred_scores, user_indices)
    scores, targets = scores.contiguous(), target.reshape(-1, 1).long()
    num_items = scores.shape[1]
    if num_items == 0:
        return torch.full_like(targets, topk + 1)
    is_outside = (targets < 0) | (targets >= num_items)
    if is_host_readable(target.device) and is_outside.any():
        raise InputError(
            f"target contains the item {int(targets[is_outside][0])}; items are the columns of "
            f"pred_scores, from 0 to {num_items - 1}."
        )
    depth = min(topk, num_items)
    relevant = _target_rows(targets, num_items)
    ranking = rule.rank(MaskedScores(scores), depth, user_keys=users, relevant=relevant)
    is_bad = ~(ranking.values[:, :1] < torch.inf)
    if is_host_readable(scores.device) and is_bad.any():
        check_readable_scores(scores, users)
    is_hit = (ranking.items == targets) & (ranking.items >= 0)
    positions = torch.arange(1, depth + 1, device=scores.device)
    ranks = torch.where(is_hit, positions, topk + 1).amin(1, keepdim=True)
    return torch.where(is_bad | is_outside, 0, ranks)


_traced_ranks = torch.library.custom_op("weft::topk_ranks", _rank_targets, mutates_args=())


@_traced_ranks.register_fake
def _(pred_scores: Tensor, target: Tensor, *_: Any) -> Tensor:
    return target.new_empty((len(pred_scores), 1), dtype=torch.int64)


def _check_target(pred_scores: Any, target: Any) -> None:
    if not (isinstance(pred_scores, Tensor) and isinstance(target, Tensor)):
        got = f"pred_scores is {describe_type(pred_scores)} and target {describe_type(target)}"
        raise InputError(f"{got}; expected two tensors.")
    if pred_scores.ndim != 2 or target.shape not in (pred_scores.shape[:1], (len(pred_scores), 1)):
        raise InputError(
            f"pred_scores has shape {list(pred_scores.shape)} and target {list(target.shape)}; "
            "expected [batch, items] and one target per row, [batch] or [batch, 1]."
        )
    if target.is_floating_point() or target.dtype == torch.bool:
        raise InputError(
            f"target has the type {target.dtype}; expected integers, the item number of the target "
            "of each row."
        )


def _target_rows(targets: Tensor, num_items: int) -> SparseRows:
    """Return targets `[batch, 1]` as sparse rows with one relevant item each."""
    offsets = torch.arange(len(targets) + 1, device=targets.device)
    # A target outside the catalogue is an error on the CPU; elsewhere its rank is set to 0.
    items = targets[:, 0].clamp(0, num_items - 1)
    values = torch.ones_like(items, dtype=float_type(targets.device))
    return SparseRows(offsets, items, values, num_items)


class _RankMetric(StatefulMetric):
    """A mean over rows of a function of the rank; ranks beyond k add 0.

    A subclass defines `rank_values`, the value at each rank, or overrides `_metric`, the sum over
    the ranks of hits. The states are also available as `accumulate_metric` and `accumulate_count`.
    """

    higher_is_better = True
    bounds: Bounds = (0.0, 1.0)

    def __init__(self, k: int, **torchmetrics_settings: Any) -> None:
        self._check_keywords(torchmetrics_settings, ["k", *TORCHMETRICS_SETTINGS])
        super().__init__(**torchmetrics_settings)
        self.k = check_int(f"{type(self).__name__} got the cut-off k", k)
        # Unique state names: a MetricCollection merges metrics with equal states (see MetricType).
        names = (f"{state}_{type(self).__name__}_{k}" for state in ("total", "rows", "bad"))
        self._total, self._rows, self._bad = names
        for name in (self._total, self._rows, self._bad):
            self.add_state(name, torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    @property
    def title(self) -> str:
        return f"{type(self).__name__}@{self.k}"

    def update(self, ranks: Tensor) -> None:
        """Add the ranks of a batch, from `get_topk_ranks` with a `topk` of at least k."""
        if not isinstance(ranks, Tensor) or not is_integer(ranks):
            got = describe_type(ranks)
            if isinstance(ranks, Tensor):
                got = f"a tensor of {ranks.dtype}"
            raise InputError(
                f"ranks is {got}; expected the integers [batch, 1] that get_topk_ranks returns."
            )
        topk = getattr(ranks, "cut_at", self.k)
        if self.k > topk:
            raise SettingError(
                f"{type(self).__name__} has the cut-off k={self.k}, but the ranks were computed "
                f"with topk={topk}, so that a miss has the rank {topk + 1}; call get_topk_ranks "
                f"with topk={self.k} or more."
            )
        ranks = ranks.as_subclass(Tensor) if type(ranks) is Ranks else ranks
        is_bad = ranks < 1
        if is_host_readable(ranks.device) and is_bad.any():
            raise InputError(
                f"ranks contains {int(ranks.min())}; expected integers of at least 1, as "
                "get_topk_ranks returns them."
            )
        is_hit = (ranks <= self.k) & ~is_bad
        if type(self)._metric is _RankMetric._metric:
            # All ranks at once: the number of hits would synchronize the device.
            values = self.rank_values(ranks.to(float_type(ranks.device)))
            total: Tensor | float = torch.where(is_hit, values, 0).sum()
        else:
            total = self._metric(ranks[is_hit])
        setattr(self, self._bad, getattr(self, self._bad) + is_bad.sum())
        self.accumulate_metric = self.accumulate_metric + total
        self.accumulate_count = self.accumulate_count + ranks.numel()

    def _metric(self, topk_rank: Tensor) -> Tensor | float:
        """Return the sum of the values of hits, from their ranks `[hits]`."""
        return self.rank_values(topk_rank.to(float_type(topk_rank.device))).sum()

    @property
    def accumulate_metric(self) -> Tensor:
        """The state that holds the sum of the values of all hits so far."""
        return cast(Tensor, getattr(self, self._total))

    @accumulate_metric.setter
    def accumulate_metric(self, total: Tensor) -> None:
        setattr(self, self._total, total)

    @property
    def accumulate_count(self) -> Tensor:
        """The state that holds the number of rows so far."""
        return cast(Tensor, getattr(self, self._rows))

    @accumulate_count.setter
    def accumulate_count(self, rows: Tensor) -> None:
        setattr(self, self._rows, rows)

    def compute(self) -> Tensor:
        """Return the mean over all rows so far."""
        if bad := int(getattr(self, self._bad)):
            raise InputError(
                f"{bad} ranks are below 1; get_topk_ranks returns 0 for a row with scores that "
                "contain NaN or +inf, or with a target that is not a column of the scores."
            )
        return self.accumulate_metric / self.accumulate_count

    def rank_values(self, ranks: Tensor) -> Tensor:
        """Return the value of a target at each rank."""
        raise SettingError(f"{type(self).__name__} must define rank_values(self, ranks).")


class HR(_RankMetric):
    """Hit rate: the share of rows with the target among the first k items.

    >>> import torch, weft
    >>> metric = weft.HR(k=2)
    >>> metric.update(torch.tensor([[1], [3]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    def rank_values(self, ranks: Tensor) -> Tensor:
        return torch.ones_like(ranks)


class NDCG(_RankMetric):
    """The mean of 1 / log2(rank + 1), where ranks beyond k add 0.

    >>> import torch, weft
    >>> metric = weft.NDCG(k=3)
    >>> metric.update(torch.tensor([[1], [3]]))
    >>> metric.compute()
    tensor(0.7500, dtype=torch.float64)
    """

    def rank_values(self, ranks: Tensor) -> Tensor:
        return 1 / torch.log2(ranks + 1)


class MRR(_RankMetric):
    """The mean of 1 / rank, where ranks beyond k add 0.

    >>> import torch, weft
    >>> metric = weft.MRR(k=2)
    >>> metric.update(torch.tensor([[2], [3]]))
    >>> metric.compute()
    tensor(0.2500, dtype=torch.float64)
    """

    def rank_values(self, ranks: Tensor) -> Tensor:
        return 1 / ranks

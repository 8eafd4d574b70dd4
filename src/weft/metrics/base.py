"""The four interfaces that metrics are written against, each a TorchMetrics metric.

- `BaseMetric`: no cut-off. - `RatingMetric`: errors on raw ratings. - `TopKMetric`: ranking with a cut-off `k`.
- `UserAverageTopKMetric`: a value per user, averaged.

A metric says what it computes in one of four ways: `compute_scores` (a value per user from the relevance of the list),
`compute_errors` (an error per rating), `update(self, preds, **kwargs)` with declared blocks and states of its own, or, as the
built-in ones do, `per_user` (values for all cut-offs at once).
"""

from __future__ import annotations

import inspect
import re
from abc import ABCMeta
from collections import Counter
from collections.abc import Callable, Set
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import numpy as np
import torch
import torchmetrics
from torch import Tensor
from torchmetrics.utilities import dim_zero_sum

from weft.blocks import Batch, Lists, MetricBlock, open_batch
from weft.data.interactions import check_threshold
from weft.data.rows import rows_of_target
from weft.errors import InputError, SettingError, UnknownParameter, did_you_mean, one_of, whole_number
from weft.names import Spec, Value
from weft.ranking import TieRule, top_k
from weft.registry import SETTINGS, parameters
from weft.sources.base import as_tensor

EMPTY_USERS = ("skip", "zero")
_TORCHMETRICS_SETTINGS = (
    "compute_on_cpu",
    "compute_with_cache",
    "dist_sync_fn",
    "dist_sync_on_step",
    "distributed_available_fn",
    "process_group",
    "sync_on_compute",
)


class _MetricType(ABCMeta):
    """Gives every finished metric a state whose name is the metric's own.

    TorchMetrics' `MetricCollection` shares one state between metrics whose states have the same names and agree after the first
    batch, as those of any two metrics without a hit do. With a name of its own, a metric is never mistaken for another.
    """

    definitions: ClassVar[Counter[str]] = Counter()

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        metric = super().__call__(*args, **kwargs)
        about = f"{cls.__module__} {cls.__qualname__} {metric._definition} {metric.spec} {metric.settings()}"
        name = re.sub(r"\W+", "_", about)
        metric.add_state(f"of_{name}", torch.zeros(()), dist_reduce_fx="sum", persistent=False)
        return metric


class BaseMetric(torchmetrics.Metric, metaclass=_MetricType):
    """A metric without a cut-off.

    Settings, the same for every metric: `relevance_threshold`, `ties`, `seed`, `empty_users`, and those of TorchMetrics.
    Inside an `Evaluator` the run's settings hold.
    """

    full_state_update = False
    is_differentiable = False
    higher_is_better: bool | None = None
    k: int | None = None

    family: ClassVar[str] = "custom"
    bounds: ClassVar[tuple[float | None, float | None]] = (None, None)
    reference: ClassVar[str] = ""
    parameter_aliases: ClassVar[dict[str, str]] = {}
    # Whether ties="expected" reaches the metric in closed form (or ties do not touch it at all).
    averages_ties: bool = False
    _REQUIRED_COMPONENTS: ClassVar[Set[MetricBlock] | None] = None
    _definition: ClassVar[int] = 0
    # A user's own `update`, which reads blocks; None for metrics that take the batch itself.
    _update_from_blocks: ClassVar[Callable[..., None] | None] = None

    def __init__(
        self,
        *,
        relevance_threshold: float | None = None,
        ties: str = "index",
        seed: int = 0,
        empty_users: str = "skip",
        **torchmetrics_settings: Any,
    ) -> None:
        for name in torchmetrics_settings:
            if name not in _TORCHMETRICS_SETTINGS:
                known = [*parameters(type(self)), *SETTINGS]
                raise UnknownParameter(
                    f"{type(self).__name__} has no parameter {name!r}.{did_you_mean(name, known)} Known: {', '.join(known)}."
                )
        super().__init__(**torchmetrics_settings)
        self.relevance_threshold = check_threshold(relevance_threshold)
        self.empty_users = one_of("empty_users", empty_users, EMPTY_USERS)
        self._rule = TieRule(ties, seed)
        self._rows_met = 0  # rows without a user number are counted on, so that no two share one

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Classes of one name in one module, as a notebook makes them, are told apart by the order of their definition.
        _MetricType.definitions[f"{cls.__module__}.{cls.__qualname__}"] += 1
        cls._definition = _MetricType.definitions[f"{cls.__module__}.{cls.__qualname__}"]
        required = cls._REQUIRED_COMPONENTS
        declared = required if isinstance(required, (set, frozenset, list, tuple)) else {required} - {None}
        if not isinstance(required, (set, frozenset, type(None))) or not all(isinstance(which, MetricBlock) for which in declared):
            wrong = next((which for which in declared if not isinstance(which, MetricBlock)), required)
            names = [which.name for which in MetricBlock]
            raise SettingError(
                f"{cls.__name__} declares {wrong!r} in _REQUIRED_COMPONENTS.{did_you_mean(str(wrong), names)} "
                f"Declare a set of members of MetricBlock: {', '.join(names)}."
            )
        written = cls.__dict__.get("update")
        if written is not None:
            kinds = {parameter.kind for parameter in inspect.signature(written).parameters.values()}
            if inspect.Parameter.VAR_KEYWORD not in kinds:
                raise SettingError(f"{cls.__name__}.update must take its blocks as keywords: update(self, preds, **kwargs).")
            # A user's update takes blocks; the method that callers see takes preds and target and supplies them.
            cls._update_from_blocks = written
            cls.update = BaseMetric.update  # type: ignore[method-assign]

    # --------------------------------------------------------------------------------------------------------- names

    @property
    def spec(self) -> Spec:
        """The metric as a value: its name, the parameters that differ from their defaults, and its cut-off."""
        given: list[tuple[str, Value]] = []
        for name, parameter in parameters(type(self)).items():
            if not hasattr(self, name):
                raise SettingError(f"{type(self).__name__} must keep its parameter as self.{name}, so that it can be named.")
            value = _plain(getattr(self, name))
            if value != _plain(parameter.default):
                given.append((name, value))
        return Spec(type(self).__name__, tuple(given), self.k)

    def settings(self) -> dict[str, Any]:
        """How the metric counts when it is alone."""
        return {
            "relevance_threshold": self.relevance_threshold,
            "ties": self._rule.name,
            "seed": self._rule.seed,
            "empty_users": self.empty_users,
        }

    # ----------------------------------------------------------------------------------------------------- computing

    def update(self, preds: Tensor, target: Any = None, user_indices: Tensor | None = None, **blocks: Any) -> None:
        """Add a batch: scores `[batch, items]` with `-inf` for what is not offered, and its truth.

        The truth is dense or sparse `[batch, items]`, or the relevant items of each row. A metric that reads blocks may be
        given them ready-made instead of a target.
        """
        if target is None:
            if not blocks or self._update_from_blocks is None:
                raise InputError(f"{type(self).__name__}.update() needs a target: dense, sparse, or the items of each row.")
            type(self)._update_from_blocks(self, preds, user_indices=user_indices, **blocks)  # type: ignore[misc]
            return
        if blocks:
            raise InputError(
                f"{type(self).__name__}.update() got {', '.join(map(repr, blocks))} beside a target; give one or the other."
            )
        with self.open(preds, target, user_indices) as batch:
            self.accumulate(batch)
        self._rows_met += len(preds)

    def reset(self) -> None:
        """Forget every batch."""
        super().reset()
        self._rows_met = 0

    def open(self, preds: Tensor, target: Any, user_indices: Tensor | None = None) -> AbstractContextManager[Batch]:
        """The batch that the metric's own settings see."""
        scores, users = check_batch(preds, user_indices, first=self._rows_met)
        return open_batch(
            scores,
            rows_of_target(target, len(preds), preds.shape[1], preds.device),
            threshold=self.relevance_threshold,
            users=users,
            rule=self._rule,
            depth=self.k or 1,
        )

    def accumulate(self, batch: Batch) -> None:
        """Add a batch to the states. A metric with an `update` of its own is handed the blocks that it declared."""
        if self._update_from_blocks is None:
            raise SettingError(f"{type(self).__name__} must define update(self, preds, **kwargs), or accumulate(self, batch).")
        blocks = batch.keywords(self._REQUIRED_COMPONENTS, self.k)
        type(self)._update_from_blocks(self, batch.preds, **blocks)  # type: ignore[misc]

    def users_counted(self) -> Tensor | None:
        """The number of users behind the value, None where that says nothing."""
        return None

    def absorb(self, other: BaseMetric) -> None:
        """Add the states of the same metric over other users."""
        for name, reduction in self._reductions.items():
            mine, further = getattr(self, name), getattr(other, name)
            if isinstance(mine, list):
                mine.extend(further if isinstance(further, list) else [further])
            elif reduction is dim_zero_sum:
                setattr(self, name, mine + further.to(mine.device))
            else:
                raise SettingError(f"{self.spec} cannot be merged: its state {name!r} is not a sum (dist_reduce_fx='sum').")

    def compute(self) -> Tensor:
        """The metric's value over all batches so far."""
        raise SettingError(f"{type(self).__name__} must define compute(self).")

    # ------------------------------------------------------------------------------------------ helpers for authors

    def valid_users(self, target: Tensor) -> Tensor:
        """1 for each row of a dense relevance `[batch, items]` with a relevant item, `[batch]`."""
        return (target > 0).any(dim=1).float()

    def top_k_relevance(self, preds: Tensor, target: Tensor, k: int) -> Tensor:
        """The dense relevance of the k best items of each row, `[batch, k]`; 0 where nothing is offered."""
        values, items = top_k(preds.contiguous(), k)
        relevance = torch.where(values > -torch.inf, target.gather(1, items), 0)
        return torch.nn.functional.pad(relevance, (0, k - relevance.shape[1]))


def check_batch(preds: Any, user_indices: Any, first: int = 0) -> tuple[Tensor, Tensor]:
    """Scores `[batch, items]` and the number of each row's user, `[batch]`; without numbers they are counted from `first`."""
    if not isinstance(preds, Tensor) or preds.ndim != 2:
        got = f"of shape {list(preds.shape)}" if isinstance(preds, Tensor) else f"a {type(preds).__name__}"
        raise InputError(f"preds is {got}; expected a tensor of scores [batch, items].")
    scores = as_tensor(preds, "preds")
    if user_indices is None:
        return scores, torch.arange(first, first + len(preds), device=preds.device)
    users = torch.as_tensor(user_indices, device=preds.device)
    if users.shape != preds.shape[:1]:
        raise InputError(f"user_indices has shape {list(users.shape)} for {len(preds)} rows of preds; give one per row.")
    if (users.is_floating_point() or users.is_complex() or users.dtype == torch.bool) and len(users):
        raise InputError(f"user_indices are of {users.dtype}; expected whole numbers, one per row.")
    return scores, users.long()


def _plain(value: Any) -> Value:
    """A parameter as names hold it: lists as tuples, NumPy's numbers as Python's."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    plain: Value = value.item() if isinstance(value, np.generic) else value
    return plain


class RatingMetric(BaseMetric):
    """Errors on raw ratings, averaged over all rated cells that have a score.

    A subclass defines `compute_errors(self, preds, target) -> Tensor`: the error of each cell from its score before masking and
    its rating, all `[cells]`.
    """

    higher_is_better = False
    error_sum: Tensor
    cell_count: Tensor

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.add_state("error_sum", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")
        self.add_state("cell_count", torch.zeros((), dtype=torch.float64), dist_reduce_fx="sum")

    def compute_errors(self, preds: Tensor, target: Tensor) -> Tensor:
        """The error of each cell; `preds` and `target` are `[cells]`."""
        raise SettingError(f"{type(self).__name__} must define compute_errors(self, preds, target).")

    def accumulate(self, batch: Batch) -> None:
        scored = batch.raw_scores > -torch.inf
        # Cells without a score are judged as if predicted exactly, and then weighted with 0: no shape depends on the data.
        preds = torch.where(scored, batch.raw_scores.to(batch.dtype), batch.truth.values)
        errors = self.compute_errors(preds, batch.truth.values)
        self.error_sum = self.error_sum + torch.where(scored, errors, 0).sum()
        self.cell_count = self.cell_count + scored.sum()

    def compute(self) -> Tensor:
        return self.error_sum / self.cell_count


class TopKMetric(BaseMetric):
    """A ranking metric with a cut-off `k`, from 1 up."""

    k: int

    def __init__(self, k: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.k = whole_number(f"{type(self).__name__} got the cut-off k", k)


class UserMean(BaseMetric):
    """A mean of values per user.

    `per_user(lists)` gives the values `[batch, cut-offs]`, NaN where undefined. Users of the truth without a relevant item are left
    out, or count 0 with `empty_users="zero"`.
    """

    user_sums: Tensor
    # Whether one formula gives the values at all cut-offs; else there is an object for each.
    fuses_cutoffs: ClassVar[bool] = True

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.add_state("user_sums", torch.zeros((len(SUMS), 1), dtype=torch.float64), dist_reduce_fx="sum")

    @property
    def is_user_mean(self) -> bool:
        """Whether the metric is accumulated here, rather than by an `update` of its author's."""
        return self._update_from_blocks is None

    def per_user(self, lists: Lists) -> Tensor:
        """The value of each user at each cut-off."""
        raise SettingError(f"{type(self).__name__} must define compute_scores or per_user.")

    def user_weights(self, batch: Batch) -> Tensor | None:
        """How much each user counts, `[batch]`; None: all alike."""
        return None

    def evaluated(self, lists: Lists, empty_users: str) -> Tensor:
        """`per_user` as it enters the mean."""
        values = self.per_user(lists).to(lists.batch.dtype)
        left_out = torch.full_like(values, torch.nan)
        empty = torch.where(lists.batch.judged[:, None], 0, left_out) if empty_users == "zero" else left_out
        return torch.where(lists.relevant > 0, values, empty)

    def accumulate(self, batch: Batch) -> None:
        if not self.is_user_mean:
            super().accumulate(batch)
            return
        lists = batch.at((self.k or 1,))
        values = self.evaluated(lists, self.empty_users)
        self.user_sums = self.user_sums + user_sums(values, self.user_weights(batch))

    def compute(self) -> Tensor:
        return mean_of(self.user_sums)[0]


class UserAverageTopKMetric(TopKMetric, UserMean):
    """A value per user at a cut-off, averaged over the users with a relevant item.

    A subclass needs one method, `compute_scores`.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "compute_scores" in cls.__dict__ and "per_user" not in cls.__dict__:
            cls.per_user = UserAverageTopKMetric.per_user  # type: ignore[method-assign]  # also below a built-in metric
        cls.fuses_cutoffs = cls.per_user is not UserAverageTopKMetric.per_user

    def compute_scores(self, preds: Tensor, target: Tensor, top_k_rel: Tensor, **kwargs: Any) -> Tensor:
        """The value of each user, `[batch]`.

        `preds` are the masked scores and `target` the binary relevance, both `[batch, items]`; `top_k_rel [batch, k]` is 1 where
        the item at that position is relevant. Further blocks arrive as keywords: the declared ones, or all.
        """
        raise SettingError(f"{type(self).__name__} must define compute_scores(self, preds, target, top_k_rel, **kwargs).")

    def per_user(self, lists: Lists) -> Tensor:
        batch = lists.batch
        blocks = batch.keywords(self._REQUIRED_COMPONENTS, self.k)
        # Dense relevance is made for a metric that declared it, or declared nothing.
        target = blocks.get(MetricBlock.BINARY_RELEVANCE.value)
        relevance = batch.metric_block(MetricBlock.TOP_K_BINARY_RELEVANCE, self.k)
        values = self.compute_scores(batch.preds, target, relevance, **blocks)  # type: ignore[arg-type]
        if not isinstance(values, Tensor) or values.shape != (batch.size,):
            got = list(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise SettingError(f"{type(self).__name__}.compute_scores gave {got}; expected a tensor of shape [{batch.size}].")
        return values[:, None]


SUMS = ("users", "weight", "weighted", "weight2", "weight2_value", "weight2_value2")


def user_sums(values: Tensor, weights: Tensor | None) -> Tensor:
    """What a mean over users and its standard error need, as sums `[6, n]` of values `[batch, n]`; NaN is left out."""
    defined = ~torch.isnan(values)
    x = torch.where(defined, values, 0)
    w = defined.to(x.dtype) if weights is None else torch.where(defined, weights[:, None].to(x.dtype), 0)
    return torch.stack([defined.to(x.dtype).sum(0), *((part).sum(0) for part in (w, w * x, w * w, w * w * x, w * w * x * x))])


def mean_of(sums: Tensor) -> Tensor:
    """The (weighted) means `[n]`; NaN where no user counts."""
    return sums[2] / sums[1]


def standard_error_of(sums: Tensor) -> Tensor:
    """The standard errors `[n]`; with equal weights the sample standard deviation over the root of the number of users."""
    users, weight, weighted, weight2, weight2_value, weight2_value2 = sums
    mean = weighted / weight
    spread = weight2_value2 - 2 * mean * weight2_value + mean**2 * weight2
    # Below what rounding alone can leave there is no spread: users who all have the same value.
    spread = torch.where(spread > 1e-14 * weight2_value2, spread, 0)
    return torch.where(users > 1, (users / (users - 1) * spread).sqrt() / weight, torch.nan)

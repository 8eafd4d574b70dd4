"""Metrics that are accumulated for their author.

- `UserMeanMetric`: a value per user, averaged.
- `UserAverageMetric`: a value per user without a cut-off; authors define `compute_scores`.
- `UserAverageTopKMetric`: the same at a cut-off.
- `PooledMetric`: a formula over sums of all users, or a mean of values per user.
- `RatingMetric`: errors on ratings; authors define `compute_errors`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor

from weft._choices import choices
from weft.batch.batch import Batch
from weft.batch.blocks import MetricBlock, block_arguments, metric_block
from weft.batch.topk import TopK
from weft.errors import SettingError, check_choice, describe_type
from weft.metrics.accumulators import (
    Accumulator,
    RatingErrorSums,
    ReferenceSums,
    UserMeanSums,
)
from weft.metrics.base.block_interface import call_with_blocks, copy_preds
from weft.metrics.base.summed import ComputedValue, SummedMetric
from weft.metrics.base.top_k_metric import TopKMetric
from weft.metrics.mean_sums import standard_error_from_sums
from weft.metrics.parameter_types import Population, RankAverage, RatingAverage
from weft.metrics.state_layout import StateView

POPULATIONS = choices(Population)
# Families of metrics that measure how well relevant items are ranked.
_BY_RELEVANCE = ("accuracy", "multi-objective", "custom")


class UserMeanMetric(SummedMetric):
    """A mean of values per user.

    A subclass defines `user_values(topk)`. Users of the truth without a relevant item are left out,
    or count 0 with `empty_users="zero"`; with `users = "lists"` all lists count."""

    users: str = "evaluated"
    # True if `user_values` is also right for a random and the ideal order of the offered items.
    has_reference_values: bool = False
    supports_own_threshold = True

    def user_values(self, topk: TopK) -> Tensor:
        """Return the value of each user at each cut-off `[batch, cut-offs]`; NaN if undefined."""
        raise SettingError(f"{type(self).__name__} must define compute_scores or user_values.")

    def user_weights(self, batch: Batch) -> Tensor | None:
        """Return the weight of each user in the mean `[batch]`; None for equal weights."""
        return None

    @property
    def has_user_values(self) -> bool:
        """True if there is a value per user."""
        return self.is_summed

    @property
    def is_user_mean(self) -> bool:
        """True if the value is the mean of the values per user, not another function of them."""
        return self.has_user_values

    @property
    def has_truth_groups(self) -> bool:
        """True if there is a value for a group of the relevant items."""
        return self.has_user_values and self.users == "evaluated" and self.family in _BY_RELEVANCE

    @cached_property
    def mean_sums(self) -> UserMeanSums:
        """The accumulator of the mean, shared by all cut-offs if they are computed at once."""
        return UserMeanSums(self.shared_spec, self)

    def own_batch(self, batch: Batch) -> Batch:
        """Return the batch with the items that are relevant for this metric."""
        return batch if self.own_threshold is None else batch.at_threshold(self.own_threshold)

    def shared_user_values(self, topk: TopK) -> Tensor:
        """Return `user_values`, computed once per batch for all metrics that read them."""
        topk = topk.estimated if self.sampling_behaviour == "corrected" else topk
        cutoffs = topk.cutoffs if self.k is not None else ()
        known, key = topk.batch.user_values, (self.mean_sums.key, cutoffs)
        if key not in known:
            known[key] = self.user_values(topk).to(topk.batch.dtype)
        return known[key]

    def averaged_values(self, topk: TopK) -> Tensor:
        """Return the values that enter the mean `[batch, cut-offs]`; NaN for users left out."""
        topk = self.own_batch(topk.batch).at_cutoffs(topk.cutoffs)
        return self._select_users(self.shared_user_values(topk), topk.batch)

    def reference_values(self, topk: TopK, order: str) -> Tensor:
        """Return the values of a "random" or the "ideal" order of the offered items, for the users
        of `averaged_values`, `[batch, cut-offs]`.
        """
        is_left_out = torch.isnan(self.averaged_values(topk))
        topk = self.own_batch(topk.batch).at_cutoffs(topk.cutoffs)
        topk = topk.estimated if self.sampling_behaviour == "corrected" else topk
        values = self._select_users(self.user_values(topk.in_order(order)), topk.batch)
        return torch.where(is_left_out, torch.nan, values)

    @cached_property
    def reference_sums(self) -> tuple[ReferenceSums, ReferenceSums] | None:
        """The accumulators of the floor and the ceiling; None if the metric has none."""
        if not self.has_reference_values:
            return None
        key = self.mean_sums.key
        return ReferenceSums(key, self, "random"), ReferenceSums(key, self, "ideal")

    def _select_users(self, values: Tensor, batch: Batch) -> Tensor:
        """Return the values, NaN for users left out and 0 for empty users that count."""
        if self.users == "lists":
            return values
        is_empty, has_truth = batch.has_no_relevant, batch.has_truth[:, None]
        if self.empty_users == "zero":
            values, is_empty = torch.where(is_empty & has_truth, 0, values), is_empty & ~has_truth
        return torch.where(is_empty, torch.nan, values)

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (self.mean_sums,)

    def compute_value(self, state: StateView) -> Tensor:
        sums = state[self.mean_sums]
        return sums[2] / sums[1]  # NaN without users

    def summarize(self, state: StateView) -> ComputedValue:
        sums = state[self.mean_sums]
        return ComputedValue(
            self.compute_value(state), standard_error_from_sums(sums), int(sums[0])
        )


class UserAverageMetric(UserMeanMetric):
    """Base class of metrics that average a value per user, without a cut-off.

    A subclass defines one method, `compute_scores`. The average is over the users with a relevant
    item or, with the class attribute `users = "lists"`, over all users with a list or scores.

    >>> import torch, weft
    >>> class BestIsRelevant(weft.UserAverageMetric):
    ...     higher_is_better = True
    ...     def compute_scores(self, preds, target, **kwargs):
    ...         return target.gather(1, preds.argmax(dim=1, keepdim=True))[:, 0]
    >>> metric = BestIsRelevant()
    >>> metric.update(torch.tensor([[0.9, 0.5], [0.9, 0.5]]), torch.tensor([[1, 0], [0, 1]]))
    >>> metric.compute().item()
    0.5
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        users = cls.__dict__.get("users")
        if isinstance(users, str) and users not in POPULATIONS:
            raise SettingError(
                f"{cls.__name__} declares users = {users!r}; expected one of "
                f"{', '.join(map(repr, POPULATIONS))}."
            )
        if "compute_scores" in cls.__dict__ and "user_values" not in cls.__dict__:
            # Also in a subclass of a built-in metric. Blocks describe the lists as they are.
            cls.user_values = UserAverageMetric.user_values  # type: ignore[method-assign]
            cls.sampling_behaviour = "candidates"
        cls.supports_all_cutoffs = not cls.takes_blocks()

    @classmethod
    def takes_blocks(cls) -> bool:
        """Return True if the values come from `compute_scores`, which takes blocks."""
        return cls.user_values is UserAverageMetric.user_values

    def compute_scores(self, preds: Tensor, target: Tensor, **kwargs: Any) -> Tensor:
        """Return the value of each user, `[batch]`; users with the value NaN are left out.

        Parameters
        ----------
        preds
            Scores after masking, `[batch, items]`.
        target
            Binary relevance, `[batch, items]`; None if the class declares blocks without it.
        kwargs
            Further blocks by keyword: those that the class declares, or all.
        """
        raise SettingError(
            f"{type(self).__name__} must define compute_scores(self, preds, target, **kwargs)."
        )

    def user_values(self, topk: TopK) -> Tensor:
        batch, method = topk.batch, f"{type(self).__name__}.compute_scores"
        blocks = block_arguments(batch, self._REQUIRED_COMPONENTS, self.k)
        # Dense relevance exists only for a metric that declared it, or declared nothing.
        target = blocks.get(MetricBlock.BINARY_RELEVANCE.value)
        arguments: list[Tensor | None] = [copy_preds(batch, self.compute_scores), target]
        if self.k is not None:
            arguments.append(metric_block(batch, MetricBlock.TOP_K_BINARY_RELEVANCE, self.k))
        values = call_with_blocks(self.compute_scores, *arguments, metric=method, blocks=blocks)
        if not isinstance(values, Tensor) or values.shape != (batch.size,):
            got = describe_type(values)
            if isinstance(values, Tensor):
                got = f"a tensor of shape {list(values.shape)}"
            raise SettingError(
                f"{method} returned {got}; expected a tensor of shape [{batch.size}]."
            )
        return values[:, None].clone()  # the author may reuse the tensor


class UserAverageTopKMetric(TopKMetric, UserAverageMetric):
    """Base class of metrics that average a value per user at a cut-off.

    A subclass defines one method, `compute_scores`. The average is over the users with a relevant
    item or, with the class attribute `users = "lists"`, over all users with a list or scores.

    >>> import torch, weft
    >>> class FirstIsHit(weft.UserAverageTopKMetric):
    ...     higher_is_better = True
    ...     def compute_scores(self, preds, target, top_k_rel, **kwargs):
    ...         return top_k_rel[:, 0]
    >>> metric = FirstIsHit(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.5], [0.9, 0.5]]), torch.tensor([[1, 0], [0, 1]]))
    >>> metric.compute().item()
    0.5
    """

    def compute_scores(  # type: ignore[override]
        self, preds: Tensor, target: Tensor, top_k_rel: Tensor, **kwargs: Any
    ) -> Tensor:
        """Return the value of each user, `[batch]`; users with the value NaN are left out.

        Parameters
        ----------
        preds
            Scores after masking, `[batch, items]`.
        target
            Binary relevance, `[batch, items]`; None if the class declares blocks without it.
        top_k_rel
            1 if the item at a position is relevant, otherwise 0; `[batch, k]`.
        kwargs
            Further blocks by keyword: those that the class declares, or all.
        """
        raise SettingError(
            f"{type(self).__name__} must define compute_scores(self, preds, target, top_k_rel, "
            "**kwargs)."
        )


class PooledMetric(UserMeanMetric):
    """A formula over sums of all users, or (`average="users"`) a mean of values per user.

    A subclass defines `user_values(topk)`, `pooled_sums()` and `pooled_value(sums)`."""

    averages: ClassVar[tuple[str, ...]] = choices(RatingAverage)

    def __init__(self, *, average: RatingAverage | RankAverage = "cells", **settings: Any) -> None:
        super().__init__(**settings)
        self.average = check_choice("average", average, self.averages)

    def pooled_sums(self) -> Accumulator:
        """Return the sums over all users that the formula needs."""
        raise SettingError(f"{type(self).__name__} must define pooled_sums and pooled_value.")

    def pooled_value(self, sums: Tensor) -> Tensor:
        """Return the value of these sums, `[rows of pooled_sums]`; NaN if undefined."""
        raise SettingError(f"{type(self).__name__} must define pooled_sums and pooled_value.")

    @property
    def has_user_values(self) -> bool:
        return self.is_summed and self.average == "users"

    def accumulators(self) -> tuple[Accumulator, ...]:
        return super().accumulators() if self.average == "users" else (self.pooled_sums(),)

    def compute_value(self, state: StateView) -> Tensor:
        if self.average == "users":
            return super().compute_value(state)
        return self.pooled_value(state[self.pooled_sums()])

    def summarize(self, state: StateView) -> ComputedValue:
        if self.average == "users":
            return super().summarize(state)
        return ComputedValue(self.compute_value(state))


class RatingMetric(PooledMetric):
    """Base class of metrics that average errors of predicted ratings.

    A subclass defines `compute_errors(self, preds, target)`, and `transform_mean` if the value is a
    function of the mean error. The mean is over all ratings that have a score.

    Parameters:
        average: `"cells"` averages over all ratings, so that users with many of them weigh more.
            `"users"` averages over users the value of each user.

    >>> import torch, weft
    >>> class LargeErrors(weft.RatingMetric):
    ...     def compute_errors(self, preds, target):
    ...         return ((preds - target).abs() > 1).double()
    >>> metric = LargeErrors()
    >>> metric.update(torch.tensor([[4.5, 1.0]]), torch.tensor([[5.0, 3.0]]))
    >>> metric.compute().item()
    0.5
    """

    supports_own_threshold = False  # ratings need not be relevant
    higher_is_better = False
    has_expected_tie_form = True  # there are no lists, and so no ties
    sampling_behaviour = "unbiased"  # there are no negatives
    reads_scores = True
    users = "lists"  # all users who have a rating with a score
    undefined = "no rating has a score"

    def compute_errors(self, preds: Tensor, target: Tensor) -> Tensor:
        """Return the error of each rating, `[ratings]`.

        `preds` are the scores before masking and `target` the ratings, both `[ratings]`.
        """
        raise SettingError(
            f"{type(self).__name__} must define compute_errors(self, preds, target)."
        )

    def transform_mean(self, mean: Tensor) -> Tensor:
        """Return the value for a mean error."""
        return mean

    def rating_errors(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return the error of each rating, 0 without a score, and whether it has a score."""
        is_scored = batch.raw_scores > -torch.inf
        # Ratings without a score count as predicted exactly, so that no shape depends on the data.
        preds = torch.where(is_scored, batch.raw_scores.to(batch.dtype), batch.truth.values)
        errors = self.compute_errors(preds, batch.truth.values.clone())
        return torch.where(is_scored, errors, 0), is_scored

    def user_values(self, topk: TopK) -> Tensor:
        errors, is_scored = self.rating_errors(topk.batch)
        truth = topk.batch.truth
        mean = truth.sum_rows(errors) / truth.sum_rows(is_scored.to(errors.dtype))
        return self.transform_mean(mean)[:, None]

    def pooled_sums(self) -> Accumulator:
        return RatingErrorSums(self.spec, self)

    def pooled_value(self, sums: Tensor) -> Tensor:
        return self.transform_mean(sums[0] / sums[1])

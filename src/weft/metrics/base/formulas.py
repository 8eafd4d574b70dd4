"""Metrics that are formulas over totals: they say what adds up, and how the sums become a value.

- `SummedMetric`: any totals, any formula. - `UserMean`: a value per user, averaged. -
  `UserAverageTopKMetric`: the same with a
cut-off, and `compute_scores` for authors. - `RatingMetric`: errors on raw ratings, with
`compute_errors` for authors."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from weft.batch.batch import Batch
from weft.batch.blocks import MetricBlock, block_arguments, metric_block
from weft.batch.topk import TopK
from weft.data import Label, Labels
from weft.errors import InputError, SettingError, check_choice
from weft.metrics.accumulators import (
    Accumulator,
    ItemAccumulator,
    RatingErrorSums,
    StateLayout,
    StateView,
    UserMeanSums,
    mean_from_sums,
    standard_error_from_sums,
)
from weft.metrics.base.metric import BaseMetric, TopKMetric, check_users, count_users_outside
from weft.metrics.names import format_labels


@dataclass(frozen=True)
class ComputedValue:
    """What a metric reads off its totals: a value (None: it has labelled cells only), and for a
    mean over users its error.
    """

    value: Tensor | None
    std_error: float = float("nan")
    users: int | None = None
    parts: tuple[float, ...] = ()  # of a composite, the values that it combined


class SummedMetric(BaseMetric):
    """A formula over totals.

    `accumulators()` says what is added up, `compute_value(state)` gives the value; `label_values(state)` gives further
    values by label."""

    sums: Tensor
    # Whether one formula gives the values at all cut-offs; else there is an object for each.
    supports_all_cutoffs: bool = True
    has_scalar_value: ClassVar[bool] = True  # False: there are labelled cells only

    @property
    def is_summed(self) -> bool:
        """Whether the metric is accumulated here, rather than by an `update` or states of its
        author's.
        """
        return self._update_from_blocks is None

    def accumulators(self) -> tuple[Accumulator, ...]:
        """What adds up."""
        raise SettingError(f"{type(self).__name__} must define accumulators and compute_value.")

    def compute_value(self, sums: StateView) -> Tensor:
        """The value, a number; NaN where it is undefined."""
        raise SettingError(f"{type(self).__name__} must define accumulators and compute_value.")

    def label_values(self, sums: StateView) -> Mapping[tuple[Label, ...], Tensor]:
        """Values by label."""
        return {}

    def summarize(self, sums: StateView) -> ComputedValue:
        """The value and what is known about it."""
        return ComputedValue(self.compute_value(sums) if self.has_scalar_value else None)

    # ----------------------------------------------------------------------------------------------

    def add_states(self) -> None:
        if self.is_summed:
            self._layout = StateLayout({total: {self.k or 1} for total in self.accumulators()})
            self.add_state(
                "sums", torch.zeros(self._layout.size, dtype=torch.float64), dist_reduce_fx="sum"
            )

    def accumulate(self, batch: Batch) -> None:
        if not self.is_summed:
            super().accumulate(batch)
            return
        self.check(batch)
        terms = self._layout.contributions(batch)
        self.sums = self.sums.clone()
        self._layout.add(self.sums, terms)

    def check(self, batch: Batch) -> None:
        """Refuse a batch of other users or items than the inputs are about."""
        for size in self.known_item_counts():
            if size != batch.truth.num_items:
                raise InputError(
                    f"preds has {batch.truth.num_items} items, but {type(self).__name__} was made "
                    f"for {size}; give one column per item."
                )
        groups: Labels | None = self.own_inputs().get("user_groups")
        if groups is not None:
            check_users(batch.users, groups.size, "user_groups")
            batch.validation.add("bad_users", count_users_outside(batch.users, groups.size))

    def known_item_counts(self) -> set[int]:
        return super().known_item_counts() | {
            total.num_items for total in self.accumulators() if isinstance(total, ItemAccumulator)
        }

    def compute(self) -> Any:
        """The value over all batches so far; of a metric with labelled cells only, a value for each
        by its name.
        """
        sums = self._layout.view(self.sums)(self.k)
        if self.has_scalar_value:
            return self.compute_value(sums)
        return {
            f"{self.spec}{format_labels(labels)}": value
            for labels, value in self.label_values(sums).items()
        }


POPULATIONS = ("lists", "evaluated")


class UserMeanMetric(SummedMetric):
    """A mean of values per user.

    `user_values` gives the values `[batch, cut-offs]`, NaN where undefined. Users of the truth
    without a relevant item are left out, or count 0 with `empty_users="zero"`; a metric with `users
    = "lists"` looks at everybody's list instead."""

    users: str = "evaluated"

    def user_values(self, topk: TopK) -> Tensor:
        """The value of each user at each cut-off."""
        raise SettingError(f"{type(self).__name__} must define compute_scores or user_values.")

    def user_weights(self, batch: Batch) -> Tensor | None:
        """How much each user counts, `[batch]`; None: all alike."""
        return None

    def values(self, topk: TopK) -> Tensor:
        """`user_values`, computed once for all who read it."""
        key = self.spec.with_cutoff(None) if self.supports_all_cutoffs else self.spec
        cutoffs = topk.cutoffs if self.k is not None else ()
        topk = topk.estimated if self.sampling_behaviour == "corrected" else topk
        return topk.batch.cached(
            ("values", key, cutoffs), lambda: self.user_values(topk).to(topk.batch.dtype)
        )

    @property
    def has_user_values(self) -> bool:
        """Whether the value is a mean of values per user."""
        return self.is_summed

    @property
    def is_user_mean(self) -> bool:
        """Whether the value is the mean of these values, rather than something else that is made of
        them.
        """
        return self.has_user_values

    def averaged_values(self, topk: TopK) -> Tensor:
        """The values as they enter the mean."""
        values = self.values(topk)
        if self.users == "lists":
            return values
        without, judged = topk.batch.has_no_relevant, topk.batch.has_truth[:, None]
        if self.empty_users == "zero":
            values, without = torch.where(without & judged, 0, values), without & ~judged
        return torch.where(without, torch.nan, values)

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (self._user_sums(),)

    def _user_sums(self) -> UserMeanSums:
        """The total behind the mean."""
        return UserMeanSums(
            self.spec.with_cutoff(None) if self.supports_all_cutoffs else self.spec, self
        )

    def compute_value(self, sums: StateView) -> Tensor:
        return mean_from_sums(sums[self._user_sums()])

    def summarize(self, sums: StateView) -> ComputedValue:
        of_users = sums[self._user_sums()]
        return ComputedValue(
            self.compute_value(sums), standard_error_from_sums(of_users), int(of_users[0])
        )


class UserAverageTopKMetric(TopKMetric, UserMeanMetric):
    """A value per user at a cut-off, averaged over the users with a relevant item.

    A subclass needs one method, `compute_scores`.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "compute_scores" in cls.__dict__ and "user_values" not in cls.__dict__:
            # also below a built-in metric
            cls.user_values = UserAverageTopKMetric.user_values  # type: ignore[method-assign]
            cls.sampling_behaviour = "candidates"  # blocks are about the lists as they are
        cls.supports_all_cutoffs = cls.user_values is not UserAverageTopKMetric.user_values

    def compute_scores(
        self, preds: Tensor, target: Tensor, top_k_rel: Tensor, **kwargs: Any
    ) -> Tensor:
        """The value of each user, `[batch]`.

        `preds` are the masked scores and `target` the binary relevance, both `[batch, items]`;
        `top_k_rel [batch, k]` is 1 where the item at that position is relevant. Further blocks
        arrive as keywords: the declared ones, or all."""
        raise SettingError(
            f"{type(self).__name__} must define compute_scores(self, preds, target, top_k_rel, "
            "**kwargs)."
        )

    def user_values(self, topk: TopK) -> Tensor:
        batch = topk.batch
        blocks = block_arguments(batch, self._REQUIRED_COMPONENTS, self.k)
        # Dense relevance is made for a metric that declared it, or declared nothing.
        target = blocks.get(MetricBlock.BINARY_RELEVANCE.value)
        relevance = metric_block(batch, MetricBlock.TOP_K_BINARY_RELEVANCE, self.k)
        values = self.compute_scores(batch.preds, target, relevance, **blocks)  # type: ignore[arg-type]
        if not isinstance(values, Tensor) or values.shape != (batch.size,):
            got = list(values.shape) if isinstance(values, Tensor) else type(values).__name__
            raise SettingError(
                f"{type(self).__name__}.compute_scores gave {got}; expected a tensor of shape "
                f"[{batch.size}]."
            )
        return values[:, None]


AVERAGES = ("cells", "users")


class RatingMetric(UserMeanMetric):
    """Errors on raw ratings, averaged over all rated cells that have a score, or
    (`average="users"`) per user first.

    A subclass defines `compute_errors(self, preds, target) -> Tensor`: the error of each cell from
    its score before masking and its rating, all `[cells]`; and `of_mean`, if the mean error is not
    yet the value."""

    higher_is_better = False
    has_expected_tie_form = True  # there are no lists, and so no ties
    sampling_behaviour = "unbiased"  # nor any negatives
    reads_scores = True
    users = "lists"  # whoever has a rated cell with a score
    undefined = "no rating has a score"

    def __init__(self, *, average: str = "cells", **settings: Any) -> None:
        super().__init__(**settings)
        self.average = check_choice("average", average, AVERAGES)

    def compute_errors(self, preds: Tensor, target: Tensor) -> Tensor:
        """The error of each cell; `preds` and `target` are `[cells]`."""
        raise SettingError(
            f"{type(self).__name__} must define compute_errors(self, preds, target)."
        )

    def of_mean(self, mean: Tensor) -> Tensor:
        """The value of a mean error."""
        return mean

    def cell_errors(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The error of each cell, 0 where it has no score; and whether it has one."""
        scored = batch.raw_scores > -torch.inf
        # Cells without a score are judged as if predicted exactly, and then weighted with 0: no
        # shape depends on the data.
        preds = torch.where(scored, batch.raw_scores.to(batch.dtype), batch.truth.values)
        return torch.where(scored, self.compute_errors(preds, batch.truth.values), 0), scored

    @property
    def has_user_values(self) -> bool:
        return self.is_summed and self.average == "users"

    def user_values(self, topk: TopK) -> Tensor:
        errors, scored = self.cell_errors(topk.batch)
        mean = topk.batch.truth.sum_rows(errors) / topk.batch.truth.sum_rows(
            scored.to(errors.dtype)
        )
        return self.of_mean(mean)[:, None]

    def accumulators(self) -> tuple[Accumulator, ...]:
        return (self._cell_sums(),) if self.average == "cells" else super().accumulators()

    def _cell_sums(self) -> RatingErrorSums:
        return RatingErrorSums(self.spec, self)

    def compute_value(self, sums: StateView) -> Tensor:
        if self.average == "users":
            return super().compute_value(sums)
        total, cells = sums[self._cell_sums()]
        return self.of_mean(total / cells)

    def summarize(self, sums: StateView) -> ComputedValue:
        return (
            super().summarize(sums)
            if self.average == "users"
            else ComputedValue(self.compute_value(sums))
        )

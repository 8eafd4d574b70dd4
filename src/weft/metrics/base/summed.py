"""Metrics that are formulas over accumulators: `accumulators()` lists what is added up,
`compute_value(state)` turns the sums into a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

import torch
from torch import Tensor

from weft.batch.batch import Batch
from weft.batch.input_validation import DeferredValidation
from weft.data import Label
from weft.errors import InputError, SettingError
from weft.metrics.accumulators import (
    Accumulator,
    ItemAccumulator,
)
from weft.metrics.base.arithmetic_operators import ArithmeticOperators
from weft.metrics.base.batch_checks import check_users, count_users_outside
from weft.metrics.base.top_k_metric import TopKMetric
from weft.metrics.base.value_labels import LabelledValues, read_values
from weft.metrics.names import MetricSpec, format_labels
from weft.metrics.state_layout import NO_CUTOFF, StateLayout, StateView


@dataclass(frozen=True)
class ComputedValue:
    """A value computed from a state, with the standard error and users of a mean over users.

    `value` is None for a metric that has values by label only. `parts` are the values that a
    composite combined. `by_power` are the values with other powers of propensities."""

    value: Tensor | None
    std_error: float = float("nan")
    users: int | None = None
    parts: tuple[float, ...] = ()
    by_power: tuple[tuple[float, float], ...] = ()
    by_label: Mapping[tuple[Label, ...], Tensor] = field(default_factory=dict)


class SummedMetric(ArithmeticOperators):
    """Base class of metrics that are a formula over sums of all users, without a cut-off.

    A subclass sets its accumulators (`UserSum`, `ItemSums`, `GroupSums`, `Histogram`) as attributes
    in its constructor, and defines `compute_value`.

    >>> import torch, weft
    >>> class RelevantPerUser(weft.SummedMetric):
    ...     def __init__(self, **settings):
    ...         super().__init__(**settings)
    ...         self.relevant = weft.UserSum(lambda lists: lists.num_relevant)
    ...         self.users = weft.UserSum(lambda lists: lists.num_relevant >= 0)
    ...     def compute_value(self, sums):
    ...         return sums[self.relevant] / sums[self.users]
    >>> metric = RelevantPerUser()
    >>> metric.update(torch.rand(2, 3), torch.tensor([[1, 1, 0], [0, 0, 1]]))
    >>> metric.compute().item()
    1.5
    """

    sums: Tensor
    # True if one object computes all cut-offs at once; otherwise there is an object for each.
    supports_all_cutoffs: bool = True
    # True if the train interactions of each user are read, by user number.
    reads_history: bool = False
    # True if the value is a statistic of numbers per item, such as the lists that hold it: its
    # resamples, which have fewer different users, are biased.
    is_item_statistic: bool = False
    has_scalar_value: ClassVar[bool] = True  # False: `compute_value` returns values by label

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Authors may read self.k wherever they like, unless they declare the opposite.
        metrics = (base for base in cls.__mro__ if issubclass(base, SummedMetric))
        own = [metric for metric in metrics if not metric.__module__.startswith("weft.")]
        if own and not any("supports_all_cutoffs" in vars(metric) for metric in own):
            cls.supports_all_cutoffs = False

    @property
    def is_summed(self) -> bool:
        """True if accumulators are used; False if an author's `update` keeps its own states."""
        return self._update_from_blocks is None

    @property
    def shared_spec(self) -> MetricSpec:
        """The name under which accumulators are shared, by all cut-offs if computed at once."""
        return self.spec.with_cutoff(None) if self.supports_all_cutoffs else self.spec

    def accumulators(self) -> tuple[Accumulator, ...]:
        """Return the accumulators of the formula: by default those that are attributes."""
        declared = tuple(one for one in vars(self).values() if isinstance(one, Accumulator))
        if not declared:
            raise SettingError(
                f"{type(self).__name__} has no accumulator; set at least one in its constructor, "
                "such as self.hits = weft.UserSum(self.count_hits)."
            )
        return declared

    def accumulator_cutoffs(self, cutoffs: Iterable[int]) -> dict[Accumulator, set[int]]:
        """Return the accumulators with the cut-offs at which these cut-offs of the metric need
        them; `NO_CUTOFF` for a metric without one.
        """
        return {one: set(cutoffs) or {NO_CUTOFF} for one in self.accumulators()}

    def compute_value(self, sums: StateView) -> Any:
        """Return the value: a scalar, or a dict of scalars by label; NaN if it is undefined.

        `sums[accumulator]` is the sum over all users: a scalar for a `UserSum`, otherwise a vector.
        """
        raise SettingError(f"{type(self).__name__} must define compute_value(self, sums).")

    def label_values(self, state: StateView) -> Mapping[tuple[Label, ...], Tensor]:
        """Return values by label in addition to a scalar."""
        return {}

    def all_values(self, state: StateView) -> LabelledValues:
        """Return all values by label; () is the label of a scalar."""
        values = read_values(self, self.compute_value(state), "compute_value")
        return {**values, **self.label_values(state)}

    def summarize(self, state: StateView) -> ComputedValue:
        """Return the value with its standard error and number of users, if it has them."""
        values = self.all_values(state)
        return ComputedValue(values.pop((), None), by_label=values)

    # ----------------------------------------------------------------------------------------------
    # A metric on its own, outside an evaluator

    def add_states(self) -> None:
        if self.is_summed:
            cutoffs = self.accumulator_cutoffs(() if self.k is None else (self.k,))
            self._layout = StateLayout(cutoffs, has_standard_errors=False)
            self._item_counts = self.known_item_counts()
            self._user_counts = self._known_user_counts()
            sums = torch.zeros(self._layout.size, dtype=torch.float64)
            self.add_state("sums", sums, dist_reduce_fx="sum")

    def accumulate(self, batch: Batch) -> None:
        if not self.is_summed:
            super().accumulate(batch)
            return
        self._check_sizes(batch)
        contributions, sums = self._layout.contributions(batch), self.sums.clone()
        self._layout.add(sums, contributions)
        self.sums = sums

    def _check_sizes(self, batch: Batch) -> None:
        """Raise `InputError` for a batch of other users or items than those of the inputs."""
        for size in self._item_counts:
            if size != batch.truth.num_items:
                raise InputError(
                    f"preds has {batch.truth.num_items} items, but {type(self).__name__} was made "
                    f"for {size} items; give one column per item."
                )
        for name, size in self._user_counts.items():
            check_users(batch.users, size, name)
            if not batch.is_host_readable:
                validation = DeferredValidation()  # not that of the batch, which others share
                validation.add("bad_users", count_users_outside(batch.users, size))
                self.faults_on_device = self.faults_on_device + validation.counts(batch.device)

    def _known_user_counts(self) -> dict[str, int]:
        """Return the numbers of users of the inputs that are read by user, by name."""
        inputs, kinds = self.own_inputs(), self.declared_inputs()
        counts = {name: one.size for name, one in inputs.items() if kinds[name].axis == "user"}
        if self.reads_history:
            counts["train"] = inputs["train"].interactions.num_users
        return counts

    def known_item_counts(self) -> set[int]:
        return super().known_item_counts() | {
            one.num_items for one in self.accumulators() if isinstance(one, ItemAccumulator)
        }

    def compute(self) -> Any:
        """Return the value over all batches so far; a dict by name if there are only values by
        label.
        """
        computed = self.compute_value(self._layout.view(self.sums)(self.k))
        values = read_values(self, computed, "compute_value")
        if () in values:
            return values[()]
        return {f"{self.spec}{format_labels(labels)}": value for labels, value in values.items()}


class SummedTopKMetric(TopKMetric, SummedMetric):
    """Base class of metrics that are a formula over sums of all users, at a cut-off.

    A subclass sets its accumulators (`UserSum`, `ItemSums`, `GroupSums`, `Histogram`) as attributes
    in its constructor, and defines `compute_value`. The accumulators have further examples.

    >>> import torch, weft
    >>> class AllHits(weft.SummedTopKMetric):
    ...     def __init__(self, k, **settings):
    ...         super().__init__(k, **settings)
    ...         self.hits = weft.UserSum(lambda lists: lists.hits)
    ...     def compute_value(self, sums):
    ...         return sums[self.hits]
    >>> metric = AllHits(k=1)
    >>> metric.update(torch.tensor([[0.9, 0.1], [0.9, 0.1]]), torch.tensor([[1, 0], [1, 0]]))
    >>> metric.compute().item()
    2.0
    """

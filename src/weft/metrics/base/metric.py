"""The base of all metrics: a TorchMetrics metric with a name, a direction, a range and inputs."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import AbstractContextManager, closing
from typing import Any, ClassVar

import torch
from torch import Tensor

from weft._choices import EmptyUsers, NanScores, TieRuleName, choices
from weft.batch.batch import Batch, BatchInputs, RankingOptions
from weft.batch.blocks import MetricBlock, block_arguments
from weft.batch.gains import GAINS
from weft.batch.ranked_batch import rank_batch
from weft.data.devices import DEFERRED_ERRORS, raise_deferred_errors, run_eagerly
from weft.data.targets import read_target
from weft.errors import SettingError, check_choice, check_threshold, describe_type
from weft.metrics.base.batch_checks import (
    check_batch,
    check_item_numbers,
    count_items,
    read_predictions,
    replace_invalid_scores,
)
from weft.metrics.base.block_interface import (
    RelevanceHelpers,
    call_with_blocks,
    check_components,
    check_keywords,
    check_target,
    copy_preds,
    wrap_update,
)
from weft.metrics.base.identity import build_spec, build_state_name, check_same_metric
from weft.metrics.base.metric_inputs import MetricInputs
from weft.metrics.base.metric_type import MetricType
from weft.metrics.base.shared_batches import SHARED_BATCHES
from weft.metrics.base.stateful import Bounds as Bounds
from weft.metrics.base.stateful import StatefulMetric
from weft.metrics.declarations import (
    METRIC_SETTINGS,
    check_needs,
    metric_parameters,
)
from weft.metrics.names import MetricSpec, holds_data
from weft.ranking import TieRule

EMPTY_USERS = choices(EmptyUsers)


class BaseMetric(RelevanceHelpers, MetricInputs, StatefulMetric, metaclass=MetricType):
    """Base class of all metrics. It has no cut-off.

    Every metric is a TorchMetrics metric. All metrics take the following settings, and those of
    TorchMetrics. Inside an `Evaluator`, the settings of the run apply instead.

    Parameters:
        relevance_threshold: Lowest rating of a relevant item, a number above 0. With None, every
            item with a rating above 0 is relevant.
        ties: Order of items with equal scores: `"index"` is by item index, `"random"` at random,
            `"expected"` averages over all orders, and `"pessimistic"` and `"optimistic"` rank
            relevant items last or first.
        seed: Seed of the random numbers that order ties, an integer of at least 0.
        empty_users: Treatment of users in the truth who have no relevant item: `"skip"` leaves them
            out, and `"zero"` counts them with the value 0.
        nan_scores: Treatment of scores that are NaN or +inf: `"raise"` raises an error, and `"nan"`
            sets the value to NaN.

    >>> import torch, weft
    >>> metric = weft.metrics.GAUC()
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[0, 1, 0]]))
    >>> metric.compute().item()
    0.5
    """

    higher_is_better: bool | None = None
    # The best value, if it is neither the highest nor the lowest, or has a meaning.
    target: float | None = None
    k: int | None = None

    family: ClassVar[str] = "custom"
    reference: ClassVar[str] = ""
    undefined: ClassVar[str] = "no user has a value"  # why the value can be NaN
    undefined_cell: ClassVar[str] = ""  # why one of several values by label can be NaN
    # The labels of the entries, if the value is a vector.
    value_labels: Sequence[str] | None = None
    parameter_aliases: ClassVar[dict[str, str]] = {}
    # A name with parameters, for a metric that has required ones.
    example: ClassVar[str] = ""
    # True if the values of scores matter, not only their order.
    reads_scores: bool = False
    # True if the scores of all items are needed, so that recommendation lists are not enough.
    needs_all_scores: bool = False
    # True if items of the truth that are not relevant matter, because they were judged.
    reads_judgements: bool = False
    # True if items that are listed or candidates matter, relevant or not: not of selected ones.
    is_exposure_metric: bool = False
    # True if ties="expected" has a closed form for the metric, or ties do not affect it.
    has_expected_tie_form: bool = False
    # The value among sampled negatives: "corrected" if an estimator gives the value among all items
    # (the formula is a sum over relevant items), "unbiased" if the value is that already,
    # "combined" from such values, or of the "candidates" only.
    sampling_behaviour: str = "candidates"
    # The relevance threshold of the metric's name, if it has one and the metric supports it.
    supports_own_threshold: ClassVar[bool] = False
    own_threshold: float | None = None
    # True if `filter_rows` can restrict the metric's own states to some rows.
    supports_row_filtering: ClassVar[bool] = False
    _REQUIRED_COMPONENTS: ClassVar[Set[MetricBlock] | None] = None
    _definition: ClassVar[int] = 0
    _is_formula: bool = False  # True inside an evaluator, which keeps the sums: no states
    _is_shared: bool = False  # True inside an evaluator, of which partitions have other inputs
    _own_state: str
    faults_on_device: Tensor  # counts of DEFERRED_ERRORS, where `update` does not synchronize
    # The author's `update`, which takes blocks; None for metrics that take the batch itself.
    _update_from_blocks: ClassVar[Callable[..., None] | None] = None

    def __init__(
        self,
        *,
        relevance_threshold: float | None = None,
        ties: TieRuleName = "index",
        seed: int = 0,
        empty_users: EmptyUsers = "skip",
        nan_scores: NanScores = "raise",
        **torchmetrics_settings: Any,
    ) -> None:
        if torchmetrics_settings:
            known = [*metric_parameters(type(self)), *self.needs, *METRIC_SETTINGS]
            self._check_keywords(torchmetrics_settings, known)
        if self._is_formula:
            torch.nn.Module.__init__(self)
        else:
            super().__init__(**torchmetrics_settings)
        self.relevance_threshold = check_threshold(relevance_threshold)
        self.empty_users = check_choice("empty_users", empty_users, EMPTY_USERS)
        self.nan_scores = check_choice("nan_scores", nan_scores, choices(NanScores))
        self._rule = TieRule(ties, seed)
        self._spec: MetricSpec | None = None
        # Rows without a user number are numbered consecutively, after a reset from _first_row.
        self._num_rows = self._first_row = 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Classes of one name in one module, as a notebook makes them, are numbered.
        name = f"{cls.__module__}.{cls.__qualname__}"
        MetricType.definitions[name] += 1
        cls._definition = MetricType.definitions[name]
        check_components(cls.__name__, cls._REQUIRED_COMPONENTS)
        check_needs(cls.__name__, cls.needs)
        update = cls.__dict__.get("update")
        if update is None:
            return
        check_keywords(cls.__name__, update)
        cls._update_from_blocks = update
        cls.update = wrap_update(update, BaseMetric.update)  # type: ignore[method-assign]

    # ----------------------------------------------------------------------------------------------
    # Name, settings and inputs

    @property
    def title(self) -> str:
        return str(self.spec)

    @property
    def spec(self) -> MetricSpec:
        """The metric as a value: name, parameters that differ from their defaults, and cut-off."""
        if self._spec is not None:
            return self._spec
        spec = build_spec(self)
        self._spec = None if holds_data(spec) else spec  # arrays may change in place
        return spec

    def parameter(self, name: str) -> Any:
        """Return the value of a parameter of the metric."""
        if not hasattr(self, name):
            raise SettingError(
                f"{type(self).__name__} must store its parameter as self.{name}, because the name "
                "of the metric contains it."
            )
        return getattr(self, name)

    def settings(self) -> dict[str, Any]:
        """Return the values of `METRIC_SETTINGS`."""
        return {
            "relevance_threshold": self.relevance_threshold,
            "ties": self._rule.name,
            "seed": self._rule.seed,
            "empty_users": self.empty_users,
        }

    @property
    def cutoffs(self) -> frozenset[int]:
        """The cut-offs that the value depends on."""
        return frozenset(() if self.k is None else (self.k,))

    def used_gains(self) -> Set[str]:
        """Return the gains in which ratings enter the value, by the parameter `gain`."""
        gain = getattr(self, "gain", None)
        return {gain} if gain in GAINS else set()

    def own_state_name(self) -> str:
        """Return a state name that no other metric has: it depends on class, parameters, settings
        and, unless partitions share it, on the inputs."""
        return build_state_name(self)

    # ----------------------------------------------------------------------------------------------
    # Batches

    @run_eagerly
    def update(
        self,
        preds: Tensor,
        target: Any = None,
        user_indices: Tensor | None = None,
        *,
        items: Any = None,
        **blocks: Any,
    ) -> None:
        """Add a batch of users.

        On other devices than the CPU, `update` does not synchronize, except with a dense target,
        because the number of its ratings depends on the data.

        Parameters
        ----------
        preds
            Scores `[batch, items]`, or `[batch, n]` of the candidates in `items`. The score of an
            item that is not a candidate is -inf.
        target
            Truth of the batch: a dense or sparse matrix `[batch, items]`, or the relevant items of
            each row.
        user_indices
            User number of each row, `[batch]`. By default rows are numbered consecutively.
        items
            Item numbers of the candidates of each row, `[batch, n]`, padded with -1.
        blocks
            Blocks of `MetricBlock` by keyword, for a metric that reads them, instead of a target.
        """
        check_target(type(self).__name__, target, blocks)
        with SHARED_BATCHES.open(self, (preds, target, user_indices, items)) as batch:
            self.accumulate(batch)
            if batch.validation.has_counts:
                errors = batch.validation.counts(batch.device)
                self.faults_on_device = self.faults_on_device + errors
        self._num_rows += len(preds)
        setattr(self, self._own_state, getattr(self, self._own_state) + len(preds))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        first = self._first_row = self._num_rows  # TorchMetrics resets on the way
        try:
            return super().forward(*args, **kwargs)
        except BaseException:
            self._num_rows = first
            raise
        finally:
            self._first_row = 0

    def reset(self) -> None:
        super().reset()
        self._num_rows = self._first_row

    def open(
        self, preds: Tensor, target: Any, user_indices: Tensor | None = None, *, items: Any = None
    ) -> AbstractContextManager[Batch]:
        """Return the batch under the metric's own settings, as a context manager."""
        depth = max(self.cutoffs, default=0)
        return closing(self.rank(preds, target, user_indices, items, depth=depth))

    def rank(
        self, preds: Tensor, target: Any, user_indices: Any, items: Any, *, depth: int
    ) -> Batch:
        """Return the batch under the metric's own settings, ranked to a depth."""
        scores, users = check_batch(preds, user_indices, first=self._num_rows)
        scores, num_invalid = replace_invalid_scores(scores, self.nan_scores)
        candidates = None if items is None else check_item_numbers(items, scores)
        num_items = scores.shape[1]
        if candidates is not None:
            known = self.known_item_counts()
            num_items = max(known) if known else count_items(target, candidates)
        predictions = read_predictions(scores, candidates, users=users, num_items=num_items)
        truth = read_target(
            target, len(scores), num_items=num_items, device=scores.device, candidates=candidates
        )
        options = RankingOptions(self._rule, depth, relevance_threshold=self.relevance_threshold)
        batch = rank_batch(BatchInputs(predictions, truth, users), options)
        if self.nan_scores == "nan":
            batch.validation.add("bad_scores", torch.as_tensor(num_invalid))
        return batch

    def accumulate(self, batch: Batch) -> None:
        """Add a batch to the states; an author's `update` receives the blocks that it declared."""
        if self._update_from_blocks is None:
            raise SettingError(
                f"{type(self).__name__} must define update(self, preds, **kwargs), or "
                "accumulate(self, batch)."
            )
        blocks = block_arguments(batch, self._REQUIRED_COMPONENTS, self.k)
        update = self._update_from_blocks
        preds = copy_preds(batch, update)
        call_with_blocks(update, preds, metric=f"{type(self).__name__}.update", blocks=blocks)

    def compute(self) -> Any:
        """Return the value over all batches so far: a scalar, or a dict of values by label."""
        raise SettingError(f"{type(self).__name__} must define compute(self).")

    def _wrap_compute(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        """Raise deferred errors before TorchMetrics calls `compute`."""

        @functools.wraps(compute)
        def checked(*args: Any, **kwargs: Any) -> Any:
            errors = dict(zip(DEFERRED_ERRORS, self.faults_on_device.tolist()))
            is_undefined = self.nan_scores == "nan" and errors.pop("bad_scores") > 0
            raise_deferred_errors(errors)
            value = compute(*args, **kwargs)
            if not is_undefined:
                return value
            if isinstance(value, Mapping):
                return dict.fromkeys(value, torch.tensor(torch.nan, dtype=torch.float64))
            return torch.full_like(torch.as_tensor(value), torch.nan, dtype=torch.float64)

        return super()._wrap_compute(checked)

    def num_users_counted(self) -> Tensor | None:
        """Return the number of users of the value, None if it has no meaning for the metric."""
        return None

    # ----------------------------------------------------------------------------------------------
    # States

    def add_states(self) -> None:
        """Add the states of a standalone metric, once its parameters are known."""

    def states(self) -> dict[str, Any]:
        """Return a copy of all states, for `restore`."""
        return {
            name: list(state) if isinstance(state, list) else state.clone()
            for name, state in self.metric_state.items()
        }

    def restore(self, states: dict[str, Any]) -> None:
        """Replace the states by a copy from `states`."""
        for name, state in states.items():
            setattr(self, name, state)
        self._computed = None

    def filter_rows(self, states: dict[str, Any], rows: Tensor) -> dict[str, Any]:
        """Return states restricted to the rows where the mask `[rows]` is true.

        Available if the metric `supports_row_filtering`."""
        raise SettingError(f"{type(self).__name__} must define filter_rows(self, states, rows).")

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        has_own = prefix + self._own_state in state_dict
        super()._load_from_state_dict(state_dict, prefix, *args)
        if has_own:
            self._num_rows = int(getattr(self, self._own_state))

    def _add_states(self, states: Mapping[str, Any]) -> None:
        super()._add_states(states)
        self._num_rows += int(states[self._own_state])

    def _check_compatible(self, other: Any) -> None:
        if not isinstance(other, BaseMetric):
            raise SettingError(
                f"{self.spec} cannot be merged with {describe_type(other)}; expected the same "
                "metric with the same settings."
            )
        check_same_metric(self, other)

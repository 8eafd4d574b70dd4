"""What every metric is: a TorchMetrics metric with a name, a direction, a range, and batches that
go in.

Two of the four interfaces for authors are here, `BaseMetric` (no cut-off) and `TopKMetric` (ranking
with a cut-off `k`), for metrics with an `update(self, preds, **kwargs)` and states of their own.
`means.py` has those that are accumulated for their author."""

from __future__ import annotations

import functools
import inspect
import re
from abc import ABCMeta
from collections import Counter
from collections.abc import Callable, Mapping, Set
from contextlib import AbstractContextManager
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from weft._choices import EmptyUsers, choices
from weft.batch.batch import Batch, BatchInputs, RankingOptions, open_batch
from weft.batch.blocks import MetricBlock, block_arguments
from weft.batch.input_validation import validation_for
from weft.data import BatchLists, Features, Labels, Train
from weft.data.devices import DEFERRED_ERRORS, is_host_readable, raise_deferred_errors, to_device
from weft.data.sources.base import as_tensor
from weft.data.targets import read_target
from weft.errors import (
    InputError,
    SettingError,
    check_choice,
    check_int,
    check_threshold,
    did_you_mean,
)
from weft.metrics.base.stateful import Bounds as Bounds
from weft.metrics.base.stateful import StatefulMetric
from weft.metrics.names import MetricSpec, Value
from weft.metrics.registry import METRIC_SETTINGS, metric_parameters, required_inputs
from weft.ranking import TieRule, top_k

EMPTY_USERS = choices(EmptyUsers)


class _MetricType(ABCMeta):
    """Gives every finished metric a state whose name is the metric's own: the number of rows that
    it has met.

    TorchMetrics' `MetricCollection` shares one state between metrics whose states have the same
    names and agree after the first batch, as those of any two metrics without a hit do. With a name
    of its own, a metric is never mistaken for another, nor are its states when they are loaded or
    merged."""

    definitions: ClassVar[Counter[str]] = Counter()

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        # A part of a run or of another metric is a formula: what it adds up is kept there, and it
        # needs no states.
        standalone = kwargs.pop("standalone", True)
        metric: Any = cls.__new__(cls)  # type: ignore[call-arg, arg-type]
        # Most of the time of making one goes into what TorchMetrics prepares. Only ours are known
        # not to miss it.
        metric.__dict__["_is_formula"] = not standalone and cls.__module__.startswith(
            "weft.metrics."
        )
        metric.__init__(*args, **kwargs)
        if not standalone:
            return metric
        metric.add_states()
        metric.add_state(
            "faults_on_device",
            torch.zeros(len(DEFERRED_ERRORS)),
            dist_reduce_fx="sum",
            persistent=False,
        )
        metric._own_state = metric.own_state_name()
        persistent = any(
            metric._persistent.values()
        )  # saved with the others, so that nobody else takes them
        metric.add_state(
            metric._own_state,
            torch.zeros((), dtype=torch.int64),
            dist_reduce_fx="sum",
            persistent=persistent,
        )
        return metric


def _taking_a_target(written: Callable[..., None]) -> Callable[..., None]:
    """The `update` that callers see, around one that reads blocks; a subclass that calls it with
    blocks reaches that one.
    """

    def update(
        self: BaseMetric,
        preds: Tensor,
        target: Any = None,
        user_indices: Tensor | None = None,
        **blocks: Any,
    ) -> None:
        if target is None and blocks:
            written(self, preds, user_indices=user_indices, **blocks)
        else:
            BaseMetric.update(self, preds, target, user_indices, **blocks)

    update.__doc__ = BaseMetric.update.__doc__
    return update


class BaseMetric(StatefulMetric, metaclass=_MetricType):
    """A metric without a cut-off.

    Settings, the same for every metric: `relevance_threshold`, `ties`, `seed`, `empty_users`, and
    those of TorchMetrics. Inside an `Evaluator` the run's settings hold."""

    higher_is_better: bool | None = None
    target: float | None = (
        # the best value, where that is neither the highest nor the lowest, or where it has a
        # meaning
        None
    )
    k: int | None = None

    family: ClassVar[str] = "custom"
    reference: ClassVar[str] = ""
    undefined: ClassVar[str] = "no user has a value"  # why a value can be NaN
    undefined_cell: ClassVar[str] = ""  # the same for one of several values by label
    parameter_aliases: ClassVar[dict[str, str]] = {}
    # A name with parameters, for a metric that cannot do without them.
    example: ClassVar[str] = ""
    # Whether the values of scores matter, and not only their order.
    reads_scores: bool = False
    # Whether it looks at the scores of the whole catalogue, so that recommendation lists are not
    # enough.
    needs_all_scores: bool = False
    # Whether it is about which items are listed or offered, wanted or not: on some candidates it
    # tells little of the catalogue.
    is_exposure_metric: bool = False
    # Whether ties="expected" reaches the metric in closed form (or ties do not touch it at all).
    has_expected_tie_form: bool = False
    # With sampled negatives: "corrected", if correction= estimates the value among all items (its
    # formula is a sum over relevant items); "unbiased", if the value does that as it is; "combined"
    # of such values; or of the "candidates" alone.
    sampling_behaviour: str = "candidates"
    # Whether `only` can tell states of its own apart by the rows that they are made of.
    supports_row_filtering: ClassVar[bool] = False
    _REQUIRED_COMPONENTS: ClassVar[Set[MetricBlock] | None] = None
    _definition: ClassVar[int] = 0
    _own_state: str
    faults_on_device: (
        Tensor  # how many of each of DEFERRED_ERRORS, where `update` does not wait to look
    )
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
        self._refuse_unknown(
            torchmetrics_settings, [*metric_parameters(type(self)), *METRIC_SETTINGS]
        )
        super().__init__(**torchmetrics_settings)
        self.relevance_threshold = check_threshold(relevance_threshold)
        self.empty_users = check_choice("empty_users", empty_users, EMPTY_USERS)
        self._rule = TieRule(ties, seed)
        self._spec: MetricSpec | None = None
        # Rows without a user number are counted on, so that no two share one; from where, after a
        # reset.
        self._rows_met = self._first_row = 0

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        # Classes of one name in one module, as a notebook makes them, are told apart by the order
        # of their definition.
        _MetricType.definitions[f"{cls.__module__}.{cls.__qualname__}"] += 1
        cls._definition = _MetricType.definitions[f"{cls.__module__}.{cls.__qualname__}"]
        required = cls._REQUIRED_COMPONENTS
        declared = (
            required if isinstance(required, (set, frozenset, list, tuple)) else {required} - {None}
        )
        if not isinstance(required, (set, frozenset, type(None))) or not all(
            isinstance(which, MetricBlock) for which in declared
        ):
            wrong = next(
                (which for which in declared if not isinstance(which, MetricBlock)), required
            )
            names = [which.name for which in MetricBlock]
            raise SettingError(
                f"{cls.__name__} declares {wrong!r} in "
                f"_REQUIRED_COMPONENTS.{did_you_mean(str(wrong), names)} Declare a set of members "
                f"of MetricBlock: {', '.join(names)}."
            )
        written = cls.__dict__.get("update")
        if written is not None:
            kinds = {parameter.kind for parameter in inspect.signature(written).parameters.values()}
            if inspect.Parameter.VAR_KEYWORD not in kinds:
                raise SettingError(
                    f"{cls.__name__}.update must take its blocks as keywords: update(self, preds, "
                    "**kwargs)."
                )
            # A user's update takes blocks; the method that callers see takes preds and target and
            # supplies them.
            cls._update_from_blocks = written
            cls.update = _taking_a_target(written)  # type: ignore[method-assign]

    # ----------------------------------------------------------------------------------------------

    @property
    def title(self) -> str:
        return str(self.spec)

    def own_state_name(self) -> str:
        """A name that no metric has that counts something else: another one, with other settings,
        or about other inputs.
        """
        inputs = " ".join(given.fingerprint() for given in self.own_inputs().values())
        about = f"{type(self).__module__} {type(self).__qualname__} {self._definition} {self.spec} {self.settings()} {inputs}"
        return re.sub(r"\W+", "_", f"of {about}").rstrip("_")

    @property
    def spec(self) -> MetricSpec:
        """The metric as a value: its name, the parameters that differ from their defaults, and its
        cut-off.
        """
        if self._spec is not None:
            return self._spec
        given: list[tuple[str, Value]] = []
        for name, parameter in metric_parameters(type(self)).items():
            value = _plain(self.parameter(name))
            if value != _plain(parameter.default):
                given.append((name, value))
        self._spec = MetricSpec(type(self).__name__, tuple(given), self.k)
        return self._spec

    def parameter(self, name: str) -> Any:
        """The value of one of the metric's own parameters."""
        if not hasattr(self, name):
            raise SettingError(
                f"{type(self).__name__} must keep its parameter as self.{name}, so that it can be "
                "named."
            )
        return getattr(self, name)

    def settings(self) -> dict[str, Any]:
        """How the metric counts when it is alone."""
        return {
            "relevance_threshold": self.relevance_threshold,
            "ties": self._rule.name,
            "seed": self._rule.seed,
            "empty_users": self.empty_users,
        }

    # ----------------------------------------------------------------------------------------------

    def update(
        self,
        preds: Tensor,
        target: Any = None,
        user_indices: Tensor | None = None,
        *,
        items: Any = None,
        **blocks: Any,
    ) -> None:
        """Add a batch: scores `[batch, items]` with `-inf` for what is not offered, and its truth.

        The truth is dense or sparse `[batch, items]`, or the relevant items of each row. With
        `items [batch, n]`, the scores are those of some candidates of each row: item numbers, -1
        where a row has fewer. A metric that reads blocks may be given them ready-made instead of a
        target. Off the CPU nothing here waits for the device, but for a dense target on it, whose
        number of cells is data."""
        if target is None:
            raise InputError(
                f"{type(self).__name__}.update() needs a target: dense, sparse, or the items of "
                "each row."
            )
        if blocks:
            raise InputError(
                f"{type(self).__name__}.update() got {', '.join(map(repr, blocks))} beside a "
                "target; give one or the other."
            )
        candidates = {} if items is None else {"items": items}
        with self.open(preds, target, user_indices, **candidates) as batch:
            self.accumulate(batch)
            if not is_host_readable(batch.device):
                self.faults_on_device = self.faults_on_device + batch.validation.counts(
                    batch.device
                )
        self._rows_met += len(preds)
        setattr(self, self._own_state, getattr(self, self._own_state) + len(preds))

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        first = self._first_row = self._rows_met  # TorchMetrics resets on the way
        try:
            return super().forward(*args, **kwargs)
        except BaseException:
            self._rows_met = first
            raise
        finally:
            self._first_row = 0

    def reset(self) -> None:
        super().reset()
        self._rows_met = self._first_row

    def open(
        self, preds: Tensor, target: Any, user_indices: Tensor | None = None, *, items: Any = None
    ) -> AbstractContextManager[Batch]:
        """The batch that the metric's own settings see."""
        scores, users = check_batch(preds, user_indices, first=self._rows_met)
        offered: Tensor | BatchLists = scores
        candidates = None if items is None else check_item_numbers(items, scores)
        num_items = scores.shape[1]
        if candidates is not None:
            num_items = self._count_items(target, candidates)
            offered = validation_for(scores.device).read_candidates(
                scores, candidates, users=users, num_items=num_items
            )
        truth = read_target(
            target, len(preds), num_items=num_items, device=preds.device, candidates=candidates
        )
        return open_batch(
            BatchInputs(offered, truth, users),
            RankingOptions(self._rule, self.k or 0, relevance_threshold=self.relevance_threshold),
        )

    def known_item_counts(self) -> set[int]:
        """The numbers of items that the metric's inputs are about: one, unless they contradict each
        other; none if it has none.
        """
        sizes = [
            given.num_items if isinstance(given, Train) else given.size
            for name, given in self.own_inputs().items()
            if name != "user_groups"
        ]
        own = getattr(self, "num_items", None)
        return {*sizes, *([] if own is None else [own])}

    def _count_items(self, target: Any, candidates: Tensor) -> int:
        """How many items there are, where the scores are those of candidates only.

        As the metric's inputs say, or the columns of a target that is a matrix; else the numbers
        that occur tell enough."""
        if known := self.known_item_counts():
            return max(known)
        shape = tuple(getattr(target, "shape", ()))
        is_ids = isinstance(target, Tensor) and not (
            target.is_floating_point() or target.dtype == torch.bool or target.is_sparse
        )
        if len(shape) == 2 and not is_ids and shape != tuple(candidates.shape):
            return int(shape[1])
        numbers = [candidates]
        if isinstance(target, (list, tuple)) or (is_ids and shape != tuple(candidates.shape)):
            numbers += [torch.as_tensor(row, device=candidates.device) for row in target]
        return 1 + max((int(some.max()) for some in numbers if some.numel()), default=-1)

    def accumulate(self, batch: Batch) -> None:
        """Add a batch to the states. A metric with an `update` of its own is handed the blocks that
        it declared.
        """
        if self._update_from_blocks is None:
            raise SettingError(
                f"{type(self).__name__} must define update(self, preds, **kwargs), or "
                "accumulate(self, batch)."
            )
        blocks = block_arguments(batch, self._REQUIRED_COMPONENTS, self.k)
        type(self)._update_from_blocks(self, batch.preds, **blocks)  # type: ignore[misc]

    def add_states(self) -> None:
        """Make the states of a metric that stands alone, once its parameters are known."""

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        has_own = prefix + self._own_state in state_dict
        super()._load_from_state_dict(state_dict, prefix, *args)
        if has_own:
            self._rows_met = int(getattr(self, self._own_state))

    def _add_states(self, states: Mapping[str, Any]) -> None:
        super()._add_states(states)
        self._rows_met += int(states[self._own_state])

    def needed_inputs(self) -> set[str]:
        """The inputs of the run that the metric cannot do without."""
        return required_inputs(type(self))

    def own_inputs(self) -> dict[str, Any]:
        """The inputs that the metric was made with, by the names under which a run gives them."""
        names = {
            "train": "_train",
            "user_groups": "_groups",
            "item_clusters": "_clusters",
            "item_features": "_features",
        }
        found = ((name, getattr(self, own, None)) for name, own in names.items())
        return {
            name: given for name, given in found if isinstance(given, (Train, Labels, Features))
        }

    def num_users_counted(self) -> Tensor | None:
        """The number of users behind the value, None where that says nothing."""
        return None

    def filter_rows(self, states: dict[str, Any], rows: Tensor) -> dict[str, Any]:
        """States as they would be of some of the rows so far, where the mask `[rows]` is true; if
        the metric `supports_row_filtering`.
        """
        raise SettingError(f"{self.spec} does not know what each row has added to its states.")

    def states(self) -> dict[str, Any]:
        """A copy of all states, for `restore`."""
        found = ((name, getattr(self, name)) for name in self._defaults)
        return {
            name: list(value) if isinstance(value, list) else value.clone() for name, value in found
        }

    def restore(self, states: dict[str, Any]) -> None:
        """Take back what was added since `states` were copied."""
        for name, value in states.items():
            setattr(self, name, value)
        self._computed = None

    def _refuse_another(self, other: Any) -> None:
        if not isinstance(other, BaseMetric):
            raise SettingError(
                f"{self.spec} absorbs another {self.spec}; got a {type(other).__name__}."
            )
        mine, theirs = ((type(one), one.spec, one.settings()) for one in (self, other))
        if mine != theirs:
            raise SettingError(
                f"{self.spec} cannot absorb {other.spec}: the two are not the same metric with "
                "the same settings."
            )
        further_inputs = other.own_inputs()
        for name, given in self.own_inputs().items():
            if not given.equals(further_inputs[name]):
                raise SettingError(
                    f"{self.spec} cannot absorb a metric that was made with another {name}."
                )

    def compute(self) -> Tensor:
        """The metric's value over all batches so far."""
        raise SettingError(f"{type(self).__name__} must define compute(self).")

    def _wrap_compute(self, compute: Callable[..., Any]) -> Callable[..., Any]:
        """What TorchMetrics makes of `compute`, such that it refuses what could not be refused
        before.
        """

        @functools.wraps(compute)
        def refusing(*args: Any, **kwargs: Any) -> Any:
            raise_deferred_errors(dict(zip(DEFERRED_ERRORS, self.faults_on_device.tolist())))
            return compute(*args, **kwargs)

        wrapped: Callable[..., Any] = super()._wrap_compute(refusing)
        return wrapped

    # ------------------------------------------------------------------------------------------ hel

    def valid_users(self, target: Tensor) -> Tensor:
        """1 for each row of a dense relevance `[batch, items]` with a relevant item, `[batch]`."""
        return (target > 0).any(dim=1).float()

    def top_k_relevance(self, preds: Tensor, target: Tensor, k: int) -> Tensor:
        """The dense relevance of the k best items of each row, `[batch, k]`; 0 where nothing is
        offered.
        """
        values, items = top_k(preds.contiguous(), k)
        relevance = torch.where(values > -torch.inf, target.gather(1, items), 0)
        return torch.nn.functional.pad(relevance, (0, k - relevance.shape[1]))


def check_batch(preds: Any, user_indices: Any, first: int = 0) -> tuple[Tensor, Tensor]:
    """Scores `[batch, items]` and the number of each row's user, `[batch]`; without numbers they
    are counted from `first`.
    """
    if not isinstance(preds, Tensor) or preds.ndim != 2:
        got = (
            f"of shape {list(preds.shape)}"
            if isinstance(preds, Tensor)
            else f"a {type(preds).__name__}"
        )
        raise InputError(f"preds is {got}; expected a tensor of scores [batch, items].")
    scores = as_tensor(preds, "preds")
    if user_indices is None:
        return scores, torch.arange(first, first + len(preds), device=preds.device)
    users = to_device(torch.as_tensor(user_indices), preds.device)
    if users.shape != preds.shape[:1]:
        raise InputError(
            f"user_indices has shape {list(users.shape)} for {len(preds)} rows of preds; give one "
            "per row."
        )
    if (users.is_floating_point() or users.is_complex() or users.dtype == torch.bool) and len(
        users
    ):
        raise InputError(f"user_indices are of {users.dtype}; expected whole numbers, one per row.")
    return scores, users.long()


def check_item_numbers(items: Any, scores: Tensor) -> Tensor:
    """The number of the item that each score is of, `[batch, n]`."""
    numbers = to_device(torch.as_tensor(items), scores.device)
    if numbers.shape != scores.shape:
        raise InputError(
            f"items has shape {list(numbers.shape)}, but preds {list(scores.shape)}; expected an "
            "item for each score."
        )
    if (
        numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool
    ) and numbers.numel():
        raise InputError(
            f"items are of {numbers.dtype}; expected item numbers, and -1 to fill up short rows."
        )
    return numbers.long()


def check_users(users: Tensor, size: int, where: str) -> None:
    """Refuse users who are no rows of some input; where the host does not see it, `users_outside`
    counts them.
    """
    if (
        is_host_readable(users.device)
        and len(users)
        and (int(users.min()) < 0 or int(users.max()) >= size)
    ):
        outside = int(users[(users < 0) | (users >= size)][0])
        raise InputError(
            f"user_indices holds {outside}; expected rows of {where}, 0 to {size - 1}."
        )


def count_users_outside(users: Tensor, size: int) -> Tensor:
    """How many users are no rows of some input."""
    return ((users < 0) | (users >= size)).sum()


def _plain(value: Any) -> Value:
    """A parameter as names hold it: lists as tuples, NumPy's numbers as Python's."""
    if isinstance(value, (list, tuple)):
        return tuple(map(_plain, value))
    plain: Value = value.item() if isinstance(value, np.generic) else value
    return plain


class TopKMetric(BaseMetric):
    """A ranking metric with a cut-off `k`, from 1 up."""

    k: int

    def __init__(self, k: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.k = check_int(f"{type(self).__name__} got the cut-off k", k)

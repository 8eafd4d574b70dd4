"""`EvaluatorState`: the state of an evaluator, which can be saved, restored and merged."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor, nn

from weft.data import Labels
from weft.data.devices import dtype_preserving, float_type
from weft.data.side_inputs import InputValue, Kinds
from weft.data.truth_groups import TruthGroups
from weft.errors import InputError, SettingError, describe_type, setting_ref
from weft.evaluation.contributions import UserContributions
from weft.evaluation.counts import BatchCounter
from weft.evaluation.document_fields import check_mapping
from weft.evaluation.finalize import versions
from weft.evaluation.metric_set import MetricSet
from weft.evaluation.settings import EvaluationSettings
from weft.evaluation.state import (
    EvaluationState,
    check_compatible,
    combine_states,
    num_processes,
    synchronize,
)
from weft.evaluation.state_validation import validate_state
from weft.evaluation.tensor_fields import check_plain
from weft.metrics.accumulators import Contribution
from weft.metrics.arithmetic import CompositeSpec
from weft.metrics.base.metric import BaseMetric


class EvaluatorState(nn.Module):
    """The metrics and inputs of an evaluator, and the state of its batches so far."""

    settings: EvaluationSettings
    inputs: dict[str, Any]
    kinds: Kinds  # of the inputs
    slices: dict[str, Labels]
    item_slices: dict[str, TruthGroups]
    metric_set: MetricSet
    counter: BatchCounter
    num_items: int | None  # None if it is not known before the first batch
    masks_seen: bool  # True if items of train are masked
    drops_repeats: bool  # True if each user counts once
    stateful_metrics: list[BaseMetric]  # metrics that own states, no formulas over the sums
    prefix: str
    postfix: str
    sync_on_compute: bool
    _is_persistent: bool

    def _begin(self, device: torch.device) -> None:
        """Start with an empty state.

        The sums are no buffers: DistributedDataParallel broadcasts those, and `half()` casts them.
        """
        # NumPy's zeros take no memory until they are written: most items of a large catalogue are
        # never counted.
        size, dtype = self.metric_set.layout.size, float_type(device)
        self.sums = torch.from_numpy(np.zeros(size)).to(device, dtype)
        self.counts = torch.zeros(len(self.counter.names), device=device, dtype=dtype)
        self._users: list[Tensor] = []  # user indices, if the caller gives them
        self._table: list[dict[str, Tensor]] = []  # what is kept of each user, by batch
        self._contributions: list[UserContributions] = []
        self._num_items: int | None = None
        self._num_rows = 0
        self._has_user_indices = True
        self._has_lists = False
        self._has_candidates = False

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Move to another device. Sums keep their type when that of a model is changed."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        move = dtype_preserving(fn)
        self.sums, self.counts = (
            move(part).to(float_type(move(part[:0]).device)) for part in (self.sums, self.counts)
        )
        self._users = [move(users) for users in self._users]
        self._table = [
            {name: move(values) for name, values in rows.items()} for rows in self._table
        ]
        return self

    @property
    def specs(self) -> tuple[Any, ...]:
        """The metrics, each at every cut-off."""
        return self.metric_set.specs

    @property
    def user_inputs(self) -> dict[str, Any]:
        """The inputs that are about users, by name."""
        return {name: self.inputs[name] for name, kind in self.kinds.items() if kind.axis == "user"}

    @property
    def stores_contributions(self) -> bool:
        """True if the contributions of each user are kept, to resample or to drop users."""
        return self.settings.bootstrap is not None or self.drops_repeats

    def drop_repeated_users(self) -> None:
        """Count each user once from now on, as with `repeated_users="drop"`, except in metrics with
        states of their own.
        """
        self.settings = self.settings.model_copy(update={"repeated_users": "drop"})
        self.drops_repeats = True

    def _check_droppable(self) -> None:
        """Raise `SettingError` if a metric does not know what each row contributes to its state."""
        metrics = [one for one in self.stateful_metrics if not one.supports_row_filtering]
        if not metrics:
            return
        names = ", ".join(str(metric.spec) for metric in metrics)
        raise SettingError(
            f"{setting_ref('repeated_users', 'drop')} needs the contributions of each user, but "
            f"{names} keeps its own states; evaluate it separately, or make sure that no user "
            "occurs twice."
        )

    @property
    def users_met(self) -> Tensor:
        """The indices of the users so far in this process, `[users]`: a loop that resumes from a
        saved state skips them.
        """
        empty = torch.empty(0, dtype=torch.int64, device=self.sums.device)
        return torch.cat([empty, *self._users])

    @property
    def state(self) -> EvaluationState:
        """The state of all batches so far. It shares memory with the evaluator: copy it before
        the next batch.
        """
        rows = {"users": self.users_met}
        for name, (dtype, width) in self.table_columns().items():
            empty = torch.empty((0, *width), dtype=dtype, device=self.sums.device)
            rows[name] = torch.cat([empty, *(part[name].to(dtype) for part in self._table)])
        if self._contributions:
            stored = [part.to_rows() for part in self._contributions]
            if any(part.keys() != stored[0].keys() for part in stored):
                raise InputError(
                    "the weights of the loaded state do not match the batches after it; the file "
                    "is damaged or was changed."
                )
            rows |= {name: torch.cat([part[name] for part in stored]) for name in stored[0]}
        return EvaluationState(
            self.sums,
            self.counts,
            rows,
            tuple(map(BaseMetric.states, self.stateful_metrics)),
            self._num_rows,
            self._num_items,
            self._has_user_indices,
            self._has_lists,
            self._has_candidates,
        )

    def table_columns(self) -> dict[str, tuple[torch.dtype, tuple[int, ...]]]:
        """Return what is kept of each user by name: its type, and its shape after the users.

        `table_kept`: whether the user belongs in the table of values, `table_values`;
        `table_items`: the list, -1 after its end."""
        columns: dict[str, tuple[torch.dtype, tuple[int, ...]]] = {}
        if self.settings.per_user:
            width = len(self.metric_set.user_columns)
            columns |= {"table_kept": (torch.bool, ()), "table_values": (self.sums.dtype, (width,))}
        if self.settings.keep_lists:
            columns["table_items"] = (torch.int64, (self.list_length,))
        return {"table_users": (torch.int64, ()), **columns} if columns else {}

    @property
    def list_length(self) -> int:
        """The length of the lists that are kept: the largest cut-off, or the number of items."""
        depth, settings = self.metric_set.depth, self.settings
        # With empty positions, lists may be longer than the catalogue.
        if self.num_items is None or "miss" in (settings.unknown_items, settings.duplicates):
            return depth
        return min(depth, max(1, self.num_items))

    def restore(self, state: EvaluationState) -> None:
        """Replace the state. It is not copied."""
        self._begin(state.sums.device)
        self.sums, self.counts, rows = state.sums, state.counts, state.rows
        self._users = [rows["users"]]
        table = {name: values for name, values in rows.items() if name.startswith("table_")}
        self._table = [table] if table else []
        contributions = UserContributions.from_rows(rows, self.metric_set.layout)
        self._contributions = [] if contributions is None else [contributions]
        for metric, states in zip(self.stateful_metrics, state.metric_states):
            metric.restore(states)
        self._num_rows, self._num_items = state.num_rows, state.num_items
        self._has_user_indices = state.has_user_indices
        self._has_lists, self._has_candidates = state.has_lists, state.has_candidates

    def _replace_state(self, state: EvaluationState) -> None:
        """Replace the state, moved to the device of the present one; if that fails, keep it."""
        before, device = self.state, self.sums.device
        try:
            self.restore(state)
            self.to(device)
        except BaseException:
            self.restore(before)
            raise

    def synchronized_state(self) -> tuple[EvaluationState, dict[str, Any]]:
        """Return the state of all processes, and their number for the provenance of a result."""
        state, processes = self.state, num_processes() if self.sync_on_compute else 1
        if processes == 1:
            return state, {}
        state = synchronize(state, self.identity(), self.stateful_metrics)
        return state, {"processes": processes}

    def record_settings(self) -> dict[str, Any]:
        """Return the settings for a Result."""
        record = self.settings.record(of_run=False)
        slices = {"slices": list(self.slices), "item_slices": list(self.item_slices)}
        record |= {setting: names for setting, names in slices.items() if names}
        return {"metrics": list(map(str, self.metric_set.specs)), **record}

    def identity(self) -> dict[str, Any]:
        """Return the facts that evaluators must have in common for their states to be merged:
        settings, classes of metrics, and a digest of each input.
        """
        classes = [
            f"{metric.__module__}.{metric.__qualname__}"
            for metric in self.metric_set.classes.values()
        ]
        digests = {
            f"slices[{name!r}]": labels.fingerprint() for name, labels in self.slices.items()
        }
        for name, groups in self.item_slices.items():
            digests[f"item_slices[{name!r}]"] = groups.fingerprint()
        for name, value in self.inputs.items():
            is_digested = isinstance(value, InputValue)
            digests[name] = value.fingerprint() if is_digested else value
        return {
            "weft": versions()["weft"],  # another version may add other sums under the same names
            **self.record_settings(),
            "per_user": self.settings.per_user,
            "keep_lists": self.settings.keep_lists,
            "exposure": self.settings.exposure,
            "num_items": self.num_items,
            "definitions": [
                spec.definition for spec in self.specs if isinstance(spec, CompositeSpec)
            ],
            "classes of metrics": [name for name in classes if not name.startswith("weft.")],
            **digests,
        }

    def reset(self) -> None:
        """Remove all batches."""
        self._begin(self.sums.device)
        for metric in self.stateful_metrics:
            metric.reset()

    def clone(self, prefix: str | None = None, postfix: str | None = None) -> Self:
        """Return an independent copy, with another `prefix` or `postfix` if they are given."""
        other = copy.deepcopy(self)
        other.prefix = self.prefix if prefix is None else prefix
        other.postfix = self.postfix if postfix is None else postfix
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        slices = (*self.slices.values(), *self.item_slices.values())
        shared = (self.settings, *self.inputs.values(), *slices)  # immutable
        memo |= {id(value): value for value in shared}
        other = type(self).__new__(type(self))
        memo[id(self)] = other
        other.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return other

    def persistent(self, mode: bool = True) -> None:
        """Set whether the state is saved with a model that contains the evaluator.

        As for metrics of TorchMetrics, it is not by default. The `state_dict` of an evaluator
        itself always has it.
        """
        self._is_persistent = mode

    def get_extra_state(self) -> dict[str, Any]:
        """Return the content of `state_dict`: the identity of the evaluator, and its state."""
        state = self.state
        return {
            "identity": self.identity(),
            **vars(state),
            "sums": state.sums.clone(),
            "counts": state.counts.clone(),
        }

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state. Raises `SettingError` for other metrics, settings or inputs, and
        `InputError` for a state that `get_extra_state` cannot have returned.
        """
        subject = "cannot load this state: the evaluator and the state"
        self._replace_state(copy.deepcopy(self.read_state(state, subject)))

    def read_state(self, state: Mapping[str, Any], subject: str) -> EvaluationState:
        """Return the validated state of another evaluator from its fields and `identity`.

        `subject` starts the message if the identities differ."""
        theirs = check_plain(check_mapping(state, "state").get("identity"), "identity")
        check_compatible(self.identity(), theirs, subject)
        return validate_state(state, self)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        if not prefix or self._is_persistent:
            super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        if not prefix or self._is_persistent or f"{prefix}_extra_state" in state_dict:
            super()._load_from_state_dict(state_dict, prefix, *rest)

    def merge(self, other: EvaluatorState) -> None:
        """Add the batches of another evaluator with the same metrics, settings and inputs.

        Raises `SettingError` for an evaluator with other metrics, settings or inputs.
        """
        if not isinstance(other, EvaluatorState):
            raise SettingError(
                f"an Evaluator merges with another Evaluator; got {describe_type(other)}."
            )
        check_compatible(self.identity(), other.identity(), "cannot merge evaluators that")
        self._replace_state(combine_states([self.state, other.state], self.stateful_metrics))


class BatchTransaction:
    """A context in which a batch is added to an evaluator as a whole or, if an error or an
    interrupt ends it, not at all.

    Sums are large, so only those that the batch changes are copied, by `add_terms`. A class, not a
    generator: an interrupt could leave a generator suspended, which would undo the batch later.
    """

    _LISTS = ("_users", "_table", "_contributions")
    _VALUES = ("_num_items", "_num_rows", "_has_user_indices", "_has_lists", "_has_candidates")

    def __init__(self, evaluator: EvaluatorState) -> None:
        self._evaluator = evaluator
        if not torch.is_inference_mode_enabled():
            # Lightning calls `reset` in inference mode; its tensors are read-only outside.
            for name in ("sums", "counts"):
                if (values := getattr(evaluator, name)).is_inference():
                    setattr(evaluator, name, values.clone())
        self._values = {name: getattr(evaluator, name) for name in self._VALUES}
        self._lengths = {name: len(getattr(evaluator, name)) for name in self._LISTS}
        self._counts = evaluator.counts.clone()
        self._metric_states = [metric.states() for metric in evaluator.stateful_metrics]
        self._changed: list[tuple[Tensor, Contribution, Tensor]] = []

    def add_terms(self, terms: list[tuple[slice, Contribution]]) -> None:
        """Add the contributions of the batch to the sums."""
        sums = self._evaluator.sums
        self._changed = [
            (sums[section], contribution, contribution.select_from(sums[section]))
            for section, contribution in terms
            if section.start < section.stop
        ]
        self._evaluator.metric_set.layout.add(sums, terms)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None:
            return
        evaluator = self._evaluator
        for sums, contribution, before in self._changed:
            contribution.write_to(sums, before)
        evaluator.counts.copy_(self._counts)
        for metric, states in zip(evaluator.stateful_metrics, self._metric_states):
            metric.restore(states)
        for name, length in self._lengths.items():
            del getattr(evaluator, name)[length:]
        for name, value in self._values.items():
            setattr(evaluator, name, value)

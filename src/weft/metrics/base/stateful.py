"""What every metric here adds to those of TorchMetrics: states that merge, load, move and are
gathered exactly; and plots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
import torchmetrics
from torch import Tensor
from torchmetrics.utilities import dim_zero_cat, dim_zero_max, dim_zero_min, dim_zero_sum
from torchmetrics.utilities.distributed import gather_all_tensors

from weft.data.devices import dtype_preserving
from weft.errors import InputError, SettingError, UnknownParameter, did_you_mean

Bounds = tuple[float | None, float | None]
State = Tensor | list[Tensor]
TORCHMETRICS_SETTINGS = (
    "compute_on_cpu",
    "compute_with_cache",
    "dist_sync_fn",
    "dist_sync_on_step",
    "distributed_available_fn",
    "process_group",
    "sync_on_compute",
)
# What `forward` changes for the time of a batch.
_CHANGED = (
    "_update_count",
    "_computed",
    "_forward_cache",
    "_to_sync",
    "_should_unsync",
    "_enable_grad",
    "compute_on_cpu",
)
# The types that processes tell each other by number. New ones go to the end.
_TYPES = (
    torch.float64,
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.int64,
    torch.int32,
    torch.int16,
    torch.int8,
    torch.uint8,
    torch.bool,
)
_DIMENSIONS = 8


class StatefulMetric(torchmetrics.Metric):
    """A TorchMetrics metric whose value is a function of states that add up."""

    full_state_update = False
    is_differentiable = False
    bounds: Bounds = (None, None)
    _is_formula: bool = False  # a part of something that keeps the sums for it: it has no states

    def __init__(self, **settings: Any) -> None:
        self._refuse_unknown(settings, TORCHMETRICS_SETTINGS)
        if self._is_formula:
            torch.nn.Module.__init__(self)
        else:
            super().__init__(**settings)

    def _refuse_unknown(self, settings: Mapping[str, Any], known: Sequence[str]) -> None:
        for name in settings:
            if name not in TORCHMETRICS_SETTINGS:
                hint = did_you_mean(name, known)
                raise UnknownParameter(
                    f"{type(self).__name__} has no parameter {name!r}.{hint} Known: "
                    f"{', '.join(known)}."
                )

    @property
    def title(self) -> str:
        """The metric in messages and pictures."""
        return type(self).__name__

    @property
    def update_called(self) -> bool:
        """Whether there is something to compute: a batch has come, or may have come to another
        process.
        """
        return self._update_count > 0 or bool(self._to_sync and self.distributed_available_fn())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The value of a batch alone, which is also added. A batch that fails leaves everything as
        it was.
        """
        states = {
            name: list(state) if isinstance(state, list) else state
            for name, state in self.metric_state.items()
        }
        before = {name: self.__dict__[name] for name in _CHANGED}
        try:
            return super().forward(*args, **kwargs)
        except BaseException:
            for name, kept in {**before, **states}.items():
                setattr(self, name, kept)
            raise

    def reset(self) -> None:
        """Forget every batch."""
        for name, default in self._defaults.items():
            if isinstance(default, list):
                setattr(
                    self, name, []
                )  # not cleared: somebody may hold what was in it, as TorchMetrics' Running does
        super().reset()

    # ----------------------------------------------------------------------------------------------

    def merge_state(self, incoming_state: Mapping[str, Any] | torchmetrics.Metric) -> None:
        """Add what the same metric with the same settings has seen of other users: the metric, or
        its states by name.
        """
        if isinstance(incoming_state, torchmetrics.Metric):
            self.absorb(incoming_state)
        elif isinstance(incoming_state, Mapping):
            self._refuse_others(incoming_state, self._defaults)
            self._add_states(incoming_state)
            self._update_count += 1
        else:
            raise SettingError(
                f"{self.title} merges with a metric, or its states by name; got a "
                f"{type(incoming_state).__name__}."
            )

    def absorb(self, other: torchmetrics.Metric) -> None:
        """Add the states of the same metric over other users."""
        self._refuse_another(other)
        self._add_states(other.metric_state)
        self._update_count += other._update_count

    def _refuse_another(self, other: torchmetrics.Metric) -> None:
        """Refuse a metric whose states mean something else."""
        if type(other) is not type(self) or other.title != self.title:
            name = other.title if isinstance(other, StatefulMetric) else type(other).__name__
            raise SettingError(
                f"{self.title} cannot absorb {name}: the two are not the same metric with the "
                "same settings."
            )

    def _refuse_others(self, states: Mapping[str, Any], wanted: Iterable[str]) -> None:
        """Refuse states by name that are not of this metric."""
        missing = [name for name in wanted if name not in states]
        if missing:
            raise SettingError(
                f"{self.title} cannot take these states: they are of another metric, of other "
                f"settings or inputs, or incomplete. {missing[0]!r} is missing among "
                f"{', '.join(map(repr, states)) or 'none'}."
            )

    def _add_states(self, states: Mapping[str, State]) -> None:
        for name, state in self.join_states(self.metric_state, states).items():
            setattr(
                self,
                name,
                [one.to(self._device_of_lists) for one in state]
                if isinstance(state, list)
                else state,
            )
        self._computed = None

    @property
    def _device_of_lists(self) -> torch.device:
        return torch.device("cpu") if self.compute_on_cpu else torch.device(self.device)

    def join_states(
        self, mine: Mapping[str, State], theirs: Mapping[str, State]
    ) -> dict[str, State]:
        """States of this metric over some users, and over others, as those over all of them."""
        return {name: self._joined(name, mine[name], theirs[name]) for name in self._defaults}

    def _joined(self, name: str, mine: State, further: State) -> State:
        if isinstance(mine, list):
            return mine + (further if isinstance(further, list) else [further])
        reduction = self._reductions[name]
        if reduction not in (dim_zero_sum, dim_zero_min, dim_zero_max, dim_zero_cat):
            raise SettingError(
                f"{self.title} cannot be merged: its state {name!r} is no sum, minimum, maximum "
                "or list, so that two of them do not tell what it would be over both; declare "
                "dist_reduce_fx='sum', 'min', 'max' or 'cat'."
            )
        if not isinstance(further, Tensor) or (
            reduction is not dim_zero_cat and mine.shape != further.shape
        ):
            raise SettingError(
                f"{self.title} cannot absorb a metric that was made for another number of items "
                "or groups."
            )
        further = further.to(mine.device)
        if reduction is dim_zero_cat:
            return torch.cat([mine, further])
        if reduction is dim_zero_sum:
            return mine + further
        return (
            torch.minimum(mine, further)
            if reduction is dim_zero_min
            else torch.maximum(mine, further)
        )

    # -------------------------------------------------------------------------------------------- l

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Take the states that were saved, if any were: TorchMetrics saves those that are
        persistent.
        """
        given = {
            name: state_dict[prefix + name]
            for name in self._defaults
            if prefix + name in state_dict
        }
        saved = [name for name, persistent in self._persistent.items() if persistent]
        if given or (saved and any(key.startswith(prefix) for key in state_dict)):
            found = {
                key.removeprefix(prefix): state
                for key, state in state_dict.items()
                if key.startswith(prefix)
            }
            self._refuse_others(found, saved or self._defaults)
            loaded = {name: self._as_state(name, state) for name, state in given.items()}
            for name, state in loaded.items():
                setattr(self, name, state)
            self._update_count = max(1, self._update_count)
            self._computed = None
        others = {
            key: state for key, state in state_dict.items() if key.removeprefix(prefix) not in given
        }
        super()._load_from_state_dict(others, prefix, *args)

    def _as_state(self, name: str, given: Any) -> State:
        """A copy of a loaded state, on the device and of the type of what it replaces."""
        mine = getattr(self, name)
        if isinstance(mine, list) or self._reductions[name] is dim_zero_cat:
            copies = [
                one.detach().to(self._device_of_lists, copy=True)
                for one in (given if isinstance(given, list) else [given])
            ]
            return copies if isinstance(mine, list) else dim_zero_cat(copies)
        if not isinstance(given, Tensor) or given.shape != mine.shape:
            got = (
                f"of shape {list(given.shape)}"
                if isinstance(given, Tensor)
                else f"a {type(given).__name__}"
            )
            raise SettingError(
                f"{self.title} cannot take the state {name!r}, which is {got}; expected "
                f"{list(mine.shape)}. Was it made for another number of items or groups?"
            )
        return given.detach().to(mine.device, mine.dtype, copy=True)

    def _apply(
        self, fn: Callable[[Tensor], Tensor], exclude_state: Sequence[str] = ""
    ) -> torch.nn.Module:
        """Move the states. Their types stay, whatever the precision of a model around: sums of 16
        bits would end at 2048.

        TorchMetrics' `set_dtype` changes them, because it says so. Where the device has no float64,
        sums become float32."""

        if not self._dtype_convert:
            return super()._apply(dtype_preserving(fn), exclude_state)
        return super()._apply(
            lambda tensor: fn(tensor) if tensor.is_floating_point() else tensor, exclude_state
        )

    # ----------------------------------------------------------------------------------------------

    def _sync_dist(
        self, dist_sync_fn: Callable[..., Any] = gather_all_tensors, process_group: Any = None
    ) -> None:
        lists = [name for name in self._defaults if isinstance(getattr(self, name), list)]
        if lists:
            self._agree_on_lists(lists, dist_sync_fn, process_group or self.process_group)
        super()._sync_dist(dist_sync_fn, process_group)

    def _agree_on_lists(
        self, lists: list[str], dist_sync_fn: Callable[..., Any], group: Any
    ) -> None:
        """Give every process lists that can be gathered: one tensor each, of the same type and
        dimensions.

        TorchMetrics sends an empty float32 tensor for an empty list, which other types turn into
        garbage or an abort."""
        about = torch.full(
            (len(lists), 3 + _DIMENSIONS), -1
        )  # the number of tensors, their type, dimensions and lengths
        for row, name in zip(about, lists):
            tensors = getattr(self, name)
            if tensors and self._reductions[name] is dim_zero_cat:
                tensors = [dim_zero_cat(tensors)]
                setattr(self, name, tensors)
            row[0] = len(tensors)
            if tensors:
                self._describe(name, tensors[0], row[1:])
        everywhere = torch.stack(dist_sync_fn(about.to(self.device), group=group)).cpu()
        for place, name in enumerate(lists):
            of_processes = everywhere[:, place]
            if self._reductions[name] is not dim_zero_cat:
                numbers = of_processes[:, 0].tolist()
                if len(set(numbers)) > 1:
                    raise SettingError(
                        f"{self.title} cannot be gathered: its list {name!r} holds {numbers} "
                        "tensors in the processes, and without dist_reduce_fx='cat' they must be "
                        "as many in each."
                    )
            elif (of_processes[:, 0] > 0).any():
                setattr(
                    self, name, [self._like_others(name, of_processes[of_processes[:, 0] > 0, 1:])]
                )

    def _describe(self, name: str, tensor: Tensor, row: Tensor) -> None:
        if tensor.dtype not in _TYPES or tensor.ndim > _DIMENSIONS:
            raise SettingError(
                f"{self.title} cannot be gathered: its list {name!r} holds "
                f"{tensor.ndim}-dimensional {tensor.dtype}."
            )
        row[0], row[1] = _TYPES.index(tensor.dtype), tensor.ndim
        row[2 : 2 + tensor.ndim] = torch.tensor(tensor.shape)

    def _like_others(self, name: str, described: Tensor) -> Tensor:
        """The list as one tensor of the type that holds those of all processes."""
        shapes = {
            tuple(one[3 : 2 + one[1]]) for one in described.tolist()
        }  # beyond the first length, which is free
        if len(shapes) > 1:
            raise SettingError(
                f"{self.title} cannot be gathered: its list {name!r} holds tensors of different "
                f"shapes beyond the first dimension, {' and '.join(map(str, sorted(shapes)))}."
            )
        kind = _TYPES[int(described[0, 0])]
        for one in described[:, 0].tolist():
            kind = torch.promote_types(kind, _TYPES[one])
        own = getattr(self, name)
        if own:
            return own[0].to(kind)  # type: ignore[no-any-return]
        return torch.empty((0, *shapes.pop()), dtype=kind, device=self._device_of_lists)

    # ----------------------------------------------------------------------------------------------

    @property
    def plot_lower_bound(self) -> float | None:  # type: ignore[override]
        """The lowest value that a picture shows, where there is one."""
        return self.bounds[0]

    @property
    def plot_upper_bound(self) -> float | None:  # type: ignore[override]
        """The highest."""
        return self.bounds[1]

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """A figure and its axes: of the value so far, of a given one, or of a sequence of values
        over time. Needs matplotlib.

        Values are numbers, tensors, or what `compute` gives of a metric with labelled cells.
        """
        value = self.compute() if val is None else val
        if isinstance(value, Sequence) and len(value) == 0:
            raise InputError(
                f"{self.title} has no value to plot; give one value, or a sequence of them."
            )
        axes: Any
        figure, axes = self._plot(
            [_plain(one) for one in value] if isinstance(value, Sequence) else _plain(value), ax
        )
        axes.set_ylabel(self.title)
        return figure, axes


def _plain(value: Any) -> Any:
    """Numbers as tensors."""
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return value if isinstance(value, Tensor) else torch.as_tensor(value)

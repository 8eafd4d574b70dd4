"""Extensions of TorchMetrics' metric: states that merge, load, move and synchronize exactly, and
plots.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torchmetrics.metric import Metric as TorchMetric
from torchmetrics.utilities import dim_zero_cat, dim_zero_max, dim_zero_min, dim_zero_sum
from torchmetrics.utilities.distributed import gather_all_tensors

from weft.data.devices import dtype_preserving
from weft.errors import InputError, SettingError, UnknownParameter, describe_type, did_you_mean

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
# Attributes that `forward` changes while it processes a batch.
_CHANGED = (
    "_update_count",
    "_computed",
    "_forward_cache",
    "_to_sync",
    "_should_unsync",
    "_enable_grad",
    "compute_on_cpu",
)
# Types that processes exchange by number. New ones go to the end.
_DTYPES = (
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
_MAX_DIMENSIONS = 8


class StatefulMetric(TorchMetric):
    """A TorchMetrics metric with a value that is a function of states that add up."""

    full_state_update = False
    is_differentiable = False
    bounds: Bounds = (None, None)

    @classmethod
    def _check_keywords(cls, settings: Iterable[str], known: Sequence[str]) -> None:
        """Raise `UnknownParameter` for a keyword that is not a setting of TorchMetrics."""
        for name in settings:
            if name not in TORCHMETRICS_SETTINGS:
                hint = did_you_mean(name, known)
                raise UnknownParameter(
                    f"{cls.__name__} has no parameter {name!r}.{hint} Known: {', '.join(known)}."
                )

    @property
    def title(self) -> str:
        """The name of the metric in messages and plots."""
        return type(self).__name__

    @property
    def update_called(self) -> bool:
        """True after a batch, or if another process may have had one."""
        return self._update_count > 0 or bool(self._to_sync and self.distributed_available_fn())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Add a batch and return its own value. A batch that fails leaves the metric unchanged."""
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
        """Remove all batches: set the states to their defaults."""
        for name, default in self._defaults.items():
            if isinstance(default, list):
                # A new list: TorchMetrics' Running may hold the old one.
                setattr(self, name, [])
        super().reset()

    # ----------------------------------------------------------------------------------------------

    def merge_state(self, incoming_state: Mapping[str, Any] | TorchMetric) -> None:
        """Merge the same metric with the same settings over other users, or its states by name."""
        if isinstance(incoming_state, TorchMetric):
            self.absorb(incoming_state)
        elif isinstance(incoming_state, Mapping):
            self._check_state_names(incoming_state, self._defaults)
            self._add_states(incoming_state)
            self._update_count += 1
        else:
            raise SettingError(
                f"{self.title} cannot be merged with {describe_type(incoming_state)}; expected "
                "the same metric with the same settings, or a dict of its states by name."
            )

    def absorb(self, other: TorchMetric) -> None:
        """Add the states of the same metric over other users."""
        self._check_compatible(other)
        self._add_states(other.metric_state)
        self._update_count += other._update_count

    def _check_compatible(self, other: TorchMetric) -> None:
        """Raise `SettingError` for a metric with other states."""
        if type(other) is not type(self) or other.title != self.title:
            name = other.title if isinstance(other, StatefulMetric) else type(other).__name__
            raise SettingError(
                f"{self.title} cannot be merged with {name}; expected the same metric with the "
                "same settings."
            )

    def _check_state_names(self, states: Mapping[str, Any], required: Iterable[str]) -> None:
        """Raise `SettingError` for states by name that are not of this metric."""
        missing = [name for name in required if name not in states]
        if missing:
            raise SettingError(
                f"{self.title} cannot load or merge states without {missing[0]!r}; got "
                f"{', '.join(map(repr, states)) or 'no states'}. Give all states of the same "
                "metric with the same settings and inputs."
            )

    def _add_states(self, states: Mapping[str, State]) -> None:
        for name, state in self.join_states(self.metric_state, states).items():
            if isinstance(state, list):
                state = [tensor.to(self._list_device) for tensor in state]
            setattr(self, name, state)
        self._computed = None

    @property
    def _list_device(self) -> torch.device:
        return torch.device("cpu") if self.compute_on_cpu else torch.device(self.device)

    def join_states(
        self, states: Mapping[str, State], others: Mapping[str, State]
    ) -> dict[str, State]:
        """Return the merged states of this metric over some users and over others."""
        return {name: self._merge(name, states[name], others[name]) for name in self._defaults}

    def _merge(self, name: str, state: State, other: State) -> State:
        if isinstance(state, list):
            return state + (other if isinstance(other, list) else [other])
        reduction = self._reductions[name]
        if reduction not in (dim_zero_sum, dim_zero_min, dim_zero_max, dim_zero_cat):
            raise SettingError(
                f"{self.title} cannot be merged: its state {name!r} is not a sum, a minimum, a "
                "maximum or a list; declare dist_reduce_fx='sum', 'min', 'max' or 'cat'."
            )
        is_list = reduction is dim_zero_cat
        if not isinstance(other, Tensor) or (not is_list and state.shape != other.shape):
            raise SettingError(
                f"{self.title} cannot be merged with a metric that was made for a different number "
                "of items or groups; expected the same number."
            )
        other = other.to(state.device)
        if is_list:
            return torch.cat([state, other])
        if reduction is dim_zero_sum:
            return state + other
        return (torch.minimum if reduction is dim_zero_min else torch.maximum)(state, other)

    # ----------------------------------------------------------------------------------------------
    # Loading and moving

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        """Load the saved states, if there are any: TorchMetrics saves those that are persistent."""
        states, others = {}, {}
        for key, state in state_dict.items():
            name = key.removeprefix(prefix)
            if key.startswith(prefix):
                states[name] = state
            if name not in self._defaults:
                others[key] = state
        own = self._defaults.keys() & states.keys()
        saved = [name for name, persistent in self._persistent.items() if persistent]
        if own or (saved and states):
            self._check_state_names(states, saved or self._defaults)
            loaded = {name: self._copy_state(name, states[name]) for name in own}
            for name, state in loaded.items():
                setattr(self, name, state)
            self._update_count = max(1, self._update_count)
            self._computed = None
        super()._load_from_state_dict(others, prefix, *args)

    def _copy_state(self, name: str, loaded: Any) -> State:
        """Return a copy of a loaded state, on the device and of the type of the present state."""
        state = getattr(self, name)
        if isinstance(state, list) or self._reductions[name] is dim_zero_cat:
            tensors = loaded if isinstance(loaded, list) else [loaded]
            tensors = [self._check_tensor(name, tensor) for tensor in tensors]
            copies = [tensor.to(self._list_device, copy=True) for tensor in tensors]
            return copies if isinstance(state, list) else dim_zero_cat(copies)
        tensor = self._check_tensor(name, loaded, shape=state.shape)
        return tensor.to(state.device, state.dtype, copy=True)

    def _check_tensor(self, name: str, state: Any, shape: Any = None) -> Tensor:
        """Return a loaded state. Raises `SettingError` unless it is a tensor, of this shape."""
        if isinstance(state, Tensor) and shape in (None, state.shape):
            return state.detach()
        got = describe_type(state)
        if isinstance(state, Tensor):
            got = f"a tensor of shape {list(state.shape)}"
        expected = "a tensor" if shape is None else f"shape {list(shape)}"
        raise SettingError(
            f"{self.title} cannot load the state {name!r}, which is {got}; expected {expected}. "
            "Check that it was saved for the same number of items and groups."
        )

    def check_states(self, states: Mapping[str, State]) -> None:
        """Raise `InputError` if states, which are tensors of the right shapes, do not fit."""

    def _apply(
        self, fn: Callable[[Tensor], Tensor], exclude_state: Sequence[str] = ""
    ) -> torch.nn.Module:
        """Move the states. Their types stay when a model around them changes its precision: a
        16-bit sum ends at 2048.

        Only TorchMetrics' `set_dtype` changes them, and a device without float64, where sums become
        float32."""
        if not self._dtype_convert:
            return super()._apply(dtype_preserving(fn), exclude_state)
        return super()._apply(
            lambda tensor: fn(tensor) if tensor.is_floating_point() else tensor, exclude_state
        )

    # ----------------------------------------------------------------------------------------------
    # Synchronizing processes

    def _sync_dist(
        self, dist_sync_fn: Callable[..., Any] = gather_all_tensors, process_group: Any = None
    ) -> None:
        lists = [name for name in self._defaults if isinstance(getattr(self, name), list)]
        if lists:
            self._align_lists(lists, dist_sync_fn, group=process_group or self.process_group)
        super()._sync_dist(dist_sync_fn, process_group)

    def _align_lists(
        self, lists: list[str], dist_sync_fn: Callable[..., Any], *, group: Any
    ) -> None:
        """Give the lists the same form in every process: one tensor, of the same type and
        dimensions.

        TorchMetrics sends an empty float32 tensor for an empty list, which corrupts lists of other
        types or aborts."""
        # Per list: the number of tensors, their type, number of dimensions and shape.
        own_forms = torch.full((len(lists), 3 + _MAX_DIMENSIONS), -1)
        for row, name in zip(own_forms, lists):
            tensors = getattr(self, name)
            if tensors and self._reductions[name] is dim_zero_cat:
                tensors = [dim_zero_cat(tensors)]
                setattr(self, name, tensors)
            row[0] = len(tensors)
            if tensors:
                self._describe(name, tensors[0], row=row[1:])
        all_forms = torch.stack(dist_sync_fn(own_forms.to(self.device), group=group)).cpu()
        for index, name in enumerate(lists):
            forms = all_forms[:, index]
            has_tensors = forms[:, 0] > 0
            if self._reductions[name] is not dim_zero_cat:
                numbers = forms[:, 0].tolist()
                if len(set(numbers)) > 1:
                    raise SettingError(
                        f"{self.title} cannot be synchronized: its list {name!r} has {numbers} "
                        "tensors in the processes, but without dist_reduce_fx='cat' every process "
                        "must have the same number."
                    )
            elif has_tensors.any():
                setattr(self, name, [self._align_list(name, forms[has_tensors, 1:])])

    def _describe(self, name: str, tensor: Tensor, *, row: Tensor) -> None:
        """Write the type, the number of dimensions and the shape of a tensor into a row."""
        if tensor.dtype not in _DTYPES or tensor.ndim > _MAX_DIMENSIONS:
            raise SettingError(
                f"{self.title} cannot be synchronized: its list {name!r} contains a tensor of "
                f"{tensor.dtype} with {tensor.ndim} dimensions; expected real numbers, and at most "
                f"{_MAX_DIMENSIONS} dimensions."
            )
        row[0], row[1] = _DTYPES.index(tensor.dtype), tensor.ndim
        row[2 : 2 + tensor.ndim] = torch.tensor(tensor.shape)

    def _align_list(self, name: str, forms: Tensor) -> Tensor:
        """Return the list as one tensor of the type that holds those of all processes."""
        # The first length may differ.
        shapes = {tuple(form[3 : 2 + form[1]]) for form in forms.tolist()}
        if len(shapes) > 1:
            raise SettingError(
                f"{self.title} cannot be synchronized: the tensors in its list {name!r} have "
                f"different shapes, {' and '.join(map(str, sorted(shapes)))} after the first "
                "dimension; use the same shape in all processes."
            )
        dtypes = [_DTYPES[number] for number in forms[:, 0].tolist()]
        dtype = functools.reduce(torch.promote_types, dtypes)
        own = getattr(self, name)
        if own:
            return own[0].to(dtype)  # type: ignore[no-any-return]
        return torch.empty((0, *shapes.pop()), dtype=dtype, device=self._list_device)

    # ----------------------------------------------------------------------------------------------
    # Plots

    @property
    def plot_lower_bound(self) -> float | None:  # type: ignore[override]
        """The lower end of the value axis, None if the value has no lower bound."""
        return self.bounds[0]

    @property
    def plot_upper_bound(self) -> float | None:  # type: ignore[override]
        """The upper end of the value axis, None if the value has no upper bound."""
        return self.bounds[1]

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Return a figure and its axes: of the value so far, of `val`, or of a sequence of values
        over time. Needs matplotlib.

        Values are numbers, tensors, or dicts as `compute` returns for values by label."""
        value = self.compute() if val is None else val
        if isinstance(value, Sequence) and len(value) == 0:
            raise InputError(
                f"{self.title} has no value to plot; give a value, or a sequence of values."
            )
        is_sequence = isinstance(value, Sequence)
        tensors = [_as_tensors(one) for one in value] if is_sequence else _as_tensors(value)
        axes: Any
        figure, axes = self._plot(tensors, ax)
        axes.set_ylabel(self.title)
        return figure, axes


def _as_tensors(value: Any) -> Any:
    """Return a number, or the numbers of a mapping, as tensors."""
    if isinstance(value, Mapping):
        return {name: _as_tensors(one) for name, one in value.items()}
    return value if isinstance(value, Tensor) else torch.as_tensor(value)

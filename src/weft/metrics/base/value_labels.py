"""Values of metrics by label: what `compute` and `compute_value` of an author may return."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from weft.data import Label
from weft.errors import SettingError, describe_type

if TYPE_CHECKING:
    from weft.metrics.base.metric import BaseMetric

# Scalars by their labels; a single value has the label ().
LabelledValues = dict[tuple[Label, ...], Tensor]


def read_values(metric: BaseMetric, value: Any, method: str) -> LabelledValues:
    """Return what a method of a metric returned as scalars by label.

    A number or a tensor of one has the label (). A dict has labels as keys, or tuples of labels. A
    vector needs the labels of `metric.value_labels`. Raises `SettingError` for anything else."""
    if isinstance(value, Tensor) and value.ndim == 0:
        return {(): value}
    source = f"{type(metric).__name__}.{method}"
    if isinstance(value, Mapping):
        return _read_mapping(value, source)
    tensor = _read_tensor(value, source)
    if tensor.numel() == 1 and metric.value_labels is None:
        return {(): tensor.reshape(())}
    labels = metric.value_labels
    if tensor.ndim == 1 and labels is not None and len(labels) == len(tensor):
        return _read_mapping(dict(zip(labels, tensor.unbind())), source)
    fix = "Return a dict, or set the class attribute value_labels to one label per vector entry"
    if labels is not None:
        fix = f"For the {len(labels)} labels of value_labels, return a vector with one entry each"
    raise SettingError(
        f"{source} returned a tensor of shape {list(tensor.shape)}; expected one number, or a dict "
        f"{{label: number}}. {fix}."
    )


def _read_mapping(values: Mapping[Any, Any], source: str) -> LabelledValues:
    labelled: LabelledValues = {}
    for key, value in values.items():
        labels = key if isinstance(key, tuple) else (key,)
        # Fractions are labels of inputs, which come in tuples; alone they are rather a mistake.
        is_mistake = isinstance(key, float) or not labels
        if is_mistake or not all(isinstance(label, (str, int, float)) for label in labels):
            raise SettingError(
                f"{source} returned a dict with the key {key!r}; keys are labels, such as 'young' "
                "or ('young', 'drama')."
            )
        number = _read_tensor(value, f"{source}, for the label {key!r},")
        if number.numel() != 1:
            raise SettingError(
                f"{source} returned a tensor of shape {list(number.shape)} for the label {key!r}; "
                "expected one number. Return a label for each number."
            )
        labelled[labels] = number.reshape(())
    if len({tuple(map(str, labels)) for labels in labelled}) < len(labelled):
        raise SettingError(
            f"{source} returned two labels with the same text: {list(values)!r}; use different "
            "labels."
        )
    return labelled


def _read_tensor(value: Any, source: str) -> Tensor:
    try:
        return torch.as_tensor(value)
    except (TypeError, ValueError, RuntimeError):
        raise SettingError(
            f"{source} returned {describe_type(value)}; expected one number, or a dict "
            "{label: number}."
        ) from None

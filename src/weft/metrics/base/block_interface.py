"""Metrics that take blocks: their declaration, and the `update` that callers see."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from weft.batch.blocks import MetricBlock
from weft.errors import SettingError, did_you_mean


def check_components(metric: str, required: Any) -> None:
    """Raise `SettingError` if `_REQUIRED_COMPONENTS` of a metric is no set of `MetricBlock`."""
    is_set = isinstance(required, (set, frozenset))
    if required is None or (is_set and all(isinstance(one, MetricBlock) for one in required)):
        return
    declared = required if is_set or isinstance(required, (list, tuple)) else [required]
    wrong = next((one for one in declared if not isinstance(one, MetricBlock)), required)
    names = [block.name for block in MetricBlock]
    raise SettingError(
        f"{metric} declares {wrong!r} in _REQUIRED_COMPONENTS.{did_you_mean(str(wrong), names)} "
        f"Declare a set of members of MetricBlock: {', '.join(names)}."
    )


def wrap_update(
    update_from_blocks: Callable[..., None], update_from_target: Callable[..., None]
) -> Callable[..., None]:
    """Return the `update` that callers see, for an author's `update` that takes blocks.

    Called with a target it computes the blocks; a subclass that calls it with blocks reaches the
    author's."""

    def update(
        self: Any,
        preds: Tensor,
        target: Any = None,
        user_indices: Tensor | None = None,
        **blocks: Any,
    ) -> None:
        if target is None and blocks:
            update_from_blocks(self, preds, user_indices=user_indices, **blocks)
        else:
            update_from_target(self, preds, target, user_indices, **blocks)

    update.__doc__ = update_from_target.__doc__
    return update

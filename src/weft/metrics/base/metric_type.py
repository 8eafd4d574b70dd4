"""The metaclass of metrics, and the `update` of metrics that take blocks."""

from __future__ import annotations

from abc import ABCMeta
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from weft.data.devices import DEFERRED_ERRORS


class MetricType(ABCMeta):
    """Adds the states of a metric after its constructor has run, among them the number of its rows
    under a name that no other metric has.

    TorchMetrics' `MetricCollection` shares one state between metrics whose states have the same
    names and equal values after the first batch, as any two metrics without a hit do. The unique
    name prevents that, and also that states are loaded into or merged with another metric."""

    definitions: ClassVar[Counter[str]] = Counter()

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        standalone = kwargs.pop("standalone", True)
        metric: Any = cls.__new__(cls)  # type: ignore[call-arg, arg-type]
        # A metric inside an evaluator needs no states, and preparing them takes most of the time.
        # Authors' classes may rely on what TorchMetrics prepares.
        metric.__dict__["_is_formula"] = not standalone and cls.__module__.startswith(
            "weft.metrics."
        )
        metric.__init__(*args, **kwargs)
        if not standalone:
            return metric
        metric.add_states()
        errors = torch.zeros(len(DEFERRED_ERRORS))
        metric.add_state("faults_on_device", errors, dist_reduce_fx="sum", persistent=False)
        metric._own_state = metric.own_state_name()
        metric.add_state(
            metric._own_state,
            torch.zeros((), dtype=torch.int64),
            dist_reduce_fx="sum",
            persistent=any(metric._persistent.values()),  # saved if other states are
        )
        return metric


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

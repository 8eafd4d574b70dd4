"""Ranked batches that metrics share: those of a `MetricCollection`, or several in a row.

Metrics that are given the same tensors under the same settings need one ranking. Tensors are
recognised by identity and version counter, which every write through torch increases, never by
content. They are held weakly: when one is freed, or another batch comes, the ranking is freed too.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from weft.batch.batch import Batch
from weft.data.devices import is_host_readable

if TYPE_CHECKING:
    from weft.metrics.base.metric import BaseMetric

# preds, target, user_indices and items of `update`.
Arguments = tuple[Any, Any, Any, Any]


class _LatestBatch:
    """The rankings of the tensors that a thread was given last, by the settings they depend on."""

    def __init__(self, arguments: Arguments | tuple[()] = (), expected_depth: int = 0) -> None:
        self._versions = _read_versions(arguments)
        self._tensors = [
            None if tensor is None else weakref.ref(tensor, self._free) for tensor in arguments
        ]
        self.metrics: set[int] = set()  # the ids of those that have had the batch
        self.depth = 0  # their largest cut-off
        self.expected_depth = expected_depth  # the largest cut-off of the batch before
        self._rankings: dict[object, Batch] = {}

    def holds(self, arguments: Arguments) -> bool:
        """Return True for the tensors of this batch, if they were not written to since."""
        return self._versions == _read_versions(arguments) and all(
            tensor is (None if known is None else known())
            for known, tensor in zip(self._tensors, arguments)
        )

    def take(self, key: object, k: int) -> Batch | None:
        """Return and remove the ranking under some settings, if it is deep enough for k."""
        batch = self._rankings.pop(key, None)
        if batch is None:
            return None
        if batch.depth < min(k, max(1, batch.truth.num_items)):
            batch.close()
            return None
        return batch

    def put(self, key: object, batch: Batch) -> None:
        """Store a ranking. It has views of the caller's tensors, never these objects."""
        batch.user_values.clear()  # metrics of the same name may be of other classes or inputs
        if key in self._rankings:  # of a metric that was updated inside the update of another
            self._rankings[key].close()
        self._rankings[key] = batch

    def close(self) -> None:
        """Free all rankings."""
        self._versions, self._tensors = [], []
        while self._rankings:
            self._rankings.popitem()[1].close()

    def _free(self, _: object) -> None:
        self.close()


class SharedBatches(threading.local):
    """The latest batch of each thread."""

    def __init__(self) -> None:
        self._latest = _LatestBatch()

    @contextmanager
    def open(self, metric: BaseMetric, arguments: Arguments) -> Iterator[Batch]:
        """Open the ranked batch of the arguments of a metric's `update`."""
        if not _are_recognisable(arguments):
            with metric.open(*arguments[:3], items=arguments[3]) as batch:
                yield batch
            return
        latest, k = self._latest, max(metric.cutoffs, default=0)
        # A metric that has had the batch gets another one: its tensors may have been written to by
        # other means than torch.
        if id(metric) in latest.metrics or not latest.holds(arguments):
            latest.close()
            self._latest = latest = _LatestBatch(arguments, latest.depth)
        key = _ranking_key(metric, arguments)
        batch = latest.take(key, k) or metric.rank(
            *arguments, depth=max(k, latest.depth, latest.expected_depth)
        )
        try:
            yield batch
        except BaseException:
            batch.close()
            raise
        latest.metrics.add(id(metric))
        latest.depth = max(latest.depth, k)
        if self._latest is latest:
            latest.put(key, batch)
        else:
            batch.close()


def _are_recognisable(arguments: Arguments) -> bool:
    """Return True if all arguments are tensors with a version counter, or None after the first."""
    if torch.compiler.is_compiling() or arguments[0] is None:
        return False
    return all(
        argument is None or (isinstance(argument, Tensor) and not argument.is_inference())
        for argument in arguments
    )


def _ranking_key(metric: BaseMetric, arguments: Arguments) -> object:
    """Return everything that `metric.rank` depends on besides its arguments and its depth."""
    preds, _, user_indices, items = arguments
    return (
        metric._rule.name,
        metric._rule.seed,
        metric.relevance_threshold,
        metric.nan_scores,
        metric._num_rows if user_indices is None else None,
        None if items is None else frozenset(metric.known_item_counts()),
        is_host_readable(preds.device),
        torch.is_inference_mode_enabled(),
        torch.cuda.current_stream(preds.device) if preds.is_cuda else None,
    )


def _read_versions(arguments: Arguments | tuple[()]) -> list[int | None]:
    return [None if tensor is None else tensor._version for tensor in arguments]


SHARED_BATCHES = SharedBatches()

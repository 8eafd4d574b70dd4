"""An evaluation without users, which checks settings and receives the states of partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from weft.data import Vocabulary, read_features, read_labels
from weft.data.dataset import GlobalStats
from weft.data.grouping import GroupNames
from weft.data.popularity import TrainTotals
from weft.data.slices import UserSlice, parse_slices
from weft.data.sources import Model
from weft.engines.partitioned.global_stats import (
    USER_INPUTS,
    Arguments,
    build_partition_run,
)
from weft.engines.partitioned.partitions import InputOrigin, Partition
from weft.errors import InputError, SettingError, setting_ref
from weft.evaluation.runner import EvaluationRun
from weft.evaluation.settings import split_candidates
from weft.metrics.registry import as_metric_list

if TYPE_CHECKING:
    from weft.metrics.base.metric import BaseMetric

_COLUMNS = {
    "source": ("user", "item", "score"),
    "truth": ("user", "item", "rating"),
    "train": ("user", "item", "rating"),
    "candidates": ("user", "item"),
    "users": ("user",),
    "user_groups": ("user", "label"),
}


def check_arguments(arguments: Arguments, *, has_lists: bool, engine: str) -> None:
    """Raise an error for settings that are wrong or unsupported here, before any data is read."""
    if arguments["checkpoint"] is not None:
        raise SettingError(
            f"{setting_ref('checkpoint')} is for an evaluation in one process; {engine} itself "
            "computes again what is lost. Leave it out."
        )
    for name in ("truth", "train", "candidates", "items", "item_clusters"):
        _check_not_matrix(arguments[name], name, engine)
    if has_lists and arguments["users"] is not None:
        raise SettingError(
            f"{setting_ref('users')} names the rows of scores; recommendation lists name their "
            "users themselves. Leave it out."
        )
    slices = parse_slices(arguments["slices"], has_train=arguments["train"] is not None)
    run = build_empty_run(
        arguments, _expected_origins(arguments, slices, has_lists), empty_stats(arguments, slices)
    )
    metrics = run.evaluator.metric_set.stateful.items()
    if unsupported := [str(spec) for spec, metric in metrics if _has_list_state(metric)]:
        raise SettingError(
            f"{', '.join(unsupported)} keeps something of every row or score, which would all be "
            "collected on one machine; evaluate it in one process with weft.evaluate, or leave it "
            f"out on {engine}."
        )


def _check_not_matrix(data: Any, name: str, engine: str) -> None:
    if getattr(data, "ndim", 1) == 2 and not hasattr(data, "columns"):
        raise InputError(
            f"{name} is a matrix with row and column numbers; on {engine}, users and items have "
            "ids. Give a frame or a file, or evaluate it in one process with weft.evaluate."
        )


def _expected_origins(
    arguments: Arguments, slices: Sequence[UserSlice], has_lists: bool
) -> dict[str, InputOrigin]:
    """Return an origin for each input with rows of users."""
    names = [name for name in USER_INPUTS if arguments[name] is not None and name != "source"]
    if "candidates" in names and split_candidates(arguments["candidates"])[1] is None:
        names.remove("candidates")
    if has_lists:
        names.append("source")
    columns = {name: _COLUMNS[name] for name in names}
    columns |= {each.where: ("user", "label") for each in slices if each.source is not None}
    return {name: InputOrigin(name, columns=roles) for name, roles in columns.items()}


def _has_list_state(metric: BaseMetric) -> bool:
    return any(isinstance(default, list) for default in metric._defaults.values())


def empty_stats(arguments: Arguments, slices: Sequence[UserSlice]) -> GlobalStats:
    """Return the stats of inputs without rows, for a run that only checks settings."""
    sizes = [getattr(metric, "num_items", None) for metric in as_metric_list(arguments["metrics"])]
    items = Vocabulary.from_size("item", next((size for size in sizes if isinstance(size, int)), 0))
    totals = None
    if arguments["train"] is not None:
        totals = TrainTotals(np.zeros(items.size, dtype=np.int64), 0)
    labels: dict[str, Any] = {}
    if arguments["item_clusters"] is not None:
        labels["item_clusters"] = read_labels({}, "item_clusters", items)
    if arguments["item_features"] is not None:
        labels["item_features"] = read_features({}, "item_features", items)
    names = [each.where for each in slices]
    if arguments["user_groups"] is not None:
        names.append("user_groups")
    return GlobalStats(items, totals, labels, {name: GroupNames((), []) for name in names})


def build_empty_run(
    arguments: Arguments, origins: Mapping[str, InputOrigin], stats: GlobalStats
) -> EvaluationRun:
    """Return a run without users, into which merged partition states are loaded."""
    import polars as pl

    types = {"user": pl.Int64, "item": pl.Int64, "label": pl.String}
    frames = {
        name: pl.DataFrame(
            schema={column: types.get(column, pl.Float64) for column in origin.columns}
        )
        for name, origin in origins.items()
    }
    partition = Partition(frames, None if "source" in origins else Model(_score_no_items))
    # The driver may lack the device of the workers.
    return build_partition_run(partition, {**arguments, "device": None}, origins, stats)


def _score_no_items(users: Any) -> Tensor:
    return torch.empty((len(users), 0))

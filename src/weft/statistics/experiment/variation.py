"""Variation of values between seeds, folds and users."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from weft.metrics.names import format_labels

if TYPE_CHECKING:
    import polars as pl

    from weft.statistics.experiment.runs import Run

_NAMES_IN_NOTE = 5


def group_runs(runs: Iterable[Run]) -> dict[tuple[str, str], list[Run]]:
    """Return the runs by data set and model, in their order."""
    groups: dict[tuple[str, str], list[Run]] = {}
    for run in runs:
        groups.setdefault((run.dataset, run.model), []).append(run)
    return groups


def group_folds(runs: Iterable[Run]) -> dict[Any, list[Run]]:
    """Return the runs of one model by fold, in their order."""
    folds: dict[Any, list[Run]] = {}
    for run in runs:
        folds.setdefault(run.fold, []).append(run)
    return folds


def describe_variation(runs: Sequence[Run], metrics: Sequence[str]) -> pl.DataFrame:
    """Return the rows of `Experiment.summary`."""
    import polars as pl

    rows = [
        _describe_group(dataset, model, group, name)
        for (dataset, model), group in group_runs(runs).items()
        for name in metrics
    ]
    schema: dict[str, Any] = {"dataset": pl.String, "model": pl.String, "metric": pl.String}
    schema |= dict.fromkeys(("k", "runs", "folds", "seeds"), pl.Int64)
    numbers = ("mean", "std", "seed_std", "fold_std", "user_std_error")
    return pl.DataFrame(rows, schema=schema | dict.fromkeys(numbers, pl.Float64))


def _describe_group(dataset: str, model: str, runs: Sequence[Run], name: str) -> dict[str, Any]:
    folds = group_folds(runs)
    values = [np.array([run.result[name] for run in members]) for members in folds.values()]
    fold_means = np.array([one.mean() for one in values])
    entry = runs[0].result.entry(name)
    errors = np.array([run.result.entry(name).std_error for run in runs])
    freedom = sum(len(one) - 1 for one in values)
    squares = sum(float(((one - one.mean()) ** 2).sum()) for one in values)
    return {
        "dataset": dataset,
        "model": model,
        "metric": entry.metric + format_labels(entry.cell),
        "k": entry.k,
        "runs": len(runs),
        "folds": len(folds),
        "seeds": max(map(len, values)),
        "mean": float(fold_means.mean()),
        "std": _deviation(np.concatenate(values)),
        "seed_std": math.sqrt(squares / freedom) if freedom else math.nan,
        "fold_std": _deviation(fold_means),
        "user_std_error": float(np.sqrt((errors**2).mean())),
    }


def _deviation(values: np.ndarray[Any, np.dtype[np.float64]]) -> float:
    return float(values.std(ddof=1)) if len(values) > 1 else math.nan


def describe_gaps(runs: Sequence[Run]) -> list[str]:
    """Return notes about models with one seed, and about runs that some models lack."""
    groups = group_runs(runs)
    notes = []
    if single := [_name_group(*key) for key, group in groups.items() if _has_one_seed(group)]:
        notes.append(
            f"there is only one seed of {_list_names(single)}: the variation between training runs "
            "is unknown, and a difference may come from the seed alone"
        )
    models = dict.fromkeys(model for _, model in groups)
    datasets = dict.fromkeys(dataset for dataset, _ in groups)
    every = itertools.product(datasets, models)
    if missing := [_name_group(*key) for key in every if key not in groups]:
        notes.append(f"not every model was evaluated on every data set: {_list_names(missing)}")
    different = filter(lambda dataset: _have_other_folds(dataset, groups), datasets)
    return notes + [_describe_folds(dataset) for dataset in different]


def _describe_folds(dataset: str) -> str:
    where = f" of {dataset}" if dataset else ""
    return f"the models do not have the same folds{where}; comparisons use shared folds only"


def _name_group(dataset: str, model: str) -> str:
    return f"{model} on {dataset}" if dataset else model


def _has_one_seed(runs: Sequence[Run]) -> bool:
    """True if the model has one run on every fold."""
    return all(len(fold) == 1 for fold in group_folds(runs).values())


def _have_other_folds(dataset: str, groups: Mapping[tuple[str, str], Sequence[Run]]) -> bool:
    """True if two models have other folds of the data set."""
    folds = {
        frozenset(run.fold for run in group) for (of, _), group in groups.items() if of == dataset
    }
    return len(folds) > 1


def _list_names(names: Sequence[str]) -> str:
    more = len(names) - _NAMES_IN_NOTE
    return ", ".join(names[:_NAMES_IN_NOTE]) + (f" and {more} more" if more > 0 else "")

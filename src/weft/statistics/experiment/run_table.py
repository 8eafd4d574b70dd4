"""The table of an experiment: models by data sets and metrics, means over runs with deviations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from weft.evaluation.result import Result
from weft.statistics.comparison_text import row_metric
from weft.statistics.experiment.run_comparison import RunComparison
from weft.statistics.experiment.variation import group_runs
from weft.statistics.result_table import ResultTable
from weft.statistics.table_layout import BETTER, WORSE

if TYPE_CHECKING:
    from weft.statistics.experiment.runs import Run


def build_table(
    runs: Sequence[Run],
    metrics: Sequence[str],
    *,
    baseline: str | None,
    comparison: RunComparison | None,
    **options: Any,
) -> ResultTable:
    """Return the table; `comparison` has the differences from the baseline that are marked.

    The options are those of `ResultTable`. With several data sets, metrics are named by data set:
    `ml: nDCG@10`.
    """
    datasets = list(dict.fromkeys(run.dataset for run in runs))
    names = {
        (dataset, metric): metric if len(datasets) == 1 else f"{dataset}: {metric}"
        for dataset in datasets
        for metric in metrics
    }
    marks = None if comparison is None else _find_marks(runs, names, comparison)
    notes = list(options.pop("notes", ()))
    if comparison is not None and comparison.rows:
        test = f"test {comparison.rows[0]['test']}, {comparison.describe_adjustment()}"
        notes.append(f"{BETTER} significantly better than {baseline}, {WORSE} worse ({test})")
        notes += _describe_missing(names, comparison)
    return ResultTable(
        _merge_datasets(runs, names),
        list(names.values()),
        baseline=baseline,
        marks=marks,
        notes=notes,
        **options,
    )


def _merge_datasets(
    runs: Sequence[Run], names: dict[tuple[str, str], str]
) -> dict[str, list[Result]]:
    """Return results by model, each with the values of one run on every data set."""
    merged: dict[str, list[Result]] = {}
    for (dataset, model), group in group_runs(runs).items():
        results = merged.setdefault(model, [])
        for number, run in enumerate(group):
            entries = []
            for (of, metric), name in names.items():
                if of == dataset:
                    entry = run.result.entry(metric)
                    prefix = name.removesuffix(metric)
                    entries.append(replace(entry, metric=prefix + entry.metric))
            if number == len(results):
                results.append(Result((), model))
            results[number] = replace(results[number], entries=(*results[number].entries, *entries))
    return merged


def _describe_missing(
    names: dict[tuple[str, str], str], comparison: RunComparison
) -> Iterator[str]:
    """Yield a note on the values that have no mark because they have no p-value."""
    rows: dict[str, list[Mapping[str, Any]]] = {}
    for row in comparison.rows:
        rows.setdefault(names[row["dataset"], row_metric(row)], []).append(row)
    missing = []
    for name, of_metric in rows.items():
        models = [row["model_a"] for row in of_metric if row["significant"] is None]
        if models:
            is_partial = len(models) < len(of_metric)
            missing.append(f"{name} ({', '.join(models)})" if is_partial else name)
    if missing:
        yield f"no p-value: {', '.join(missing)}"


def _find_marks(
    runs: Sequence[Run], names: dict[tuple[str, str], str], comparison: RunComparison
) -> dict[str, dict[str, str]]:
    """Return the marks of models that differ significantly from the baseline, by metric."""
    higher = {
        metric: run.result.entry(metric).higher_is_better for run in runs[:1] for _, metric in names
    }
    marks: dict[str, dict[str, str]] = {}
    for row in comparison.rows:
        metric = row_metric(row)
        if row["significant"] and higher.get(metric) is not None:
            is_better = (row["difference"] > 0) == higher[metric]
            of_metric = marks.setdefault(names[row["dataset"], metric], {})
            of_metric[row["model_a"]] = BETTER if is_better else WORSE
    return marks

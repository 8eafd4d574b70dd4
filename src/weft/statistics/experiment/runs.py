"""`Experiment`: results labelled by model, data set, fold and seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.data.pandas_frames import to_pandas
from weft.errors import InputError, SettingError, agree, check_path, check_type, setting_ref
from weft.evaluation.result import Result
from weft.evaluation.result_io import load_result
from weft.statistics.experiment.dataset_ranking import DatasetRanking, Posthoc, rank_models
from weft.statistics.experiment.result_files import FIELDS, Label, find_results
from weft.statistics.experiment.run_comparison import (
    RunComparison,
    RunTestSettings,
    compare_runs,
)
from weft.statistics.experiment.run_table import build_table
from weft.statistics.experiment.variation import describe_gaps, describe_variation
from weft.statistics.result_table import ResultTable

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False)
class Run:
    """The result of one trained model: on one data set, on one fold, with one seed."""

    result: Result
    model: str
    dataset: str = ""
    fold: Label | None = None
    seed: Label | None = None

    @property
    def labels(self) -> tuple[str, str, Label | None, Label | None]:
        """Data set, model, fold and seed, which are unique in an experiment."""
        return self.dataset, self.model, self.fold, self.seed

    def __str__(self) -> str:
        named = zip(FIELDS, self.labels)
        return ", ".join(f"{name} {label!r}" for name, label in named if label not in ("", None))


class Experiment:
    """Results of models over data sets, folds and seeds.

    Folds are splits of the same data; seeds are repetitions of the training on one fold.

    >>> import weft
    >>> experiment = weft.Experiment()
    >>> truth = {"ann": ["tea"], "bob": ["rye"]}
    >>> for seed, lists in enumerate([{"ann": ["tea"]}, {"ann": ["tea"], "bob": ["rye"]}]):
    ...     result = weft.evaluate(lists, truth, metrics="MRR@5", per_user=True)
    ...     experiment.add(result, model="als", seed=seed)
    >>> experiment.summary().select("model", "runs", "mean", "seed_std").row(0)
    ('als', 2, 0.75, 0.3535533905932738)
    """

    def __init__(self) -> None:
        self._runs: list[Run] = []

    @classmethod
    def read(cls, pattern: str | Path, *, dataset: str = "") -> Experiment:
        """Read saved results, with labels from parts of their paths.

        Parameters
        ----------
        pattern
            Path with a placeholder for each label: `"runs/{dataset}/{model}-{fold}-{seed}.json"`. A
            placeholder matches text within the name of a folder or file; `{}` matches text that is
            no label. Without the placeholder `{model}`, models have the names of their results.
        dataset
            Label of the data set if the pattern does not contain it.

        Returns
        -------
        Experiment
            The results of all matching files.

        Raises
        ------
        InputError
            If no file matches, or a file is not a result.
        SettingError
            If the pattern has another placeholder, or one twice.
        """
        experiment = cls()
        for path, labels in find_results(str(check_path("pattern", pattern))):
            experiment.add(load_result(path), **{"dataset": dataset, **labels})
        return experiment

    def add(
        self,
        result: Result,
        *,
        model: str | None = None,
        dataset: str = "",
        fold: Label | None = None,
        seed: Label | None = None,
    ) -> None:
        """Add the result of a run.

        Parameters
        ----------
        result
            Result of `weft.evaluate`.
        model
            Name of the model, by default that of the result.
        dataset, fold, seed
            Labels of the run.

        Raises
        ------
        SettingError
            If the experiment has a run with the same labels.
        """
        check_type("result", result, Result, "a result of weft.evaluate")
        run = Run(result, result.name if model is None else model, dataset, fold, seed)
        if any(run.labels == other.labels for other in self._runs):
            raise SettingError(
                f"the experiment has a run of {run} already; give each run its own "
                f"{setting_ref('seed')} or {setting_ref('fold')}."
            )
        self._runs.append(run)

    @property
    def runs(self) -> tuple[Run, ...]:
        """All runs, in the order in which they were added."""
        return tuple(self._runs)

    @property
    def models(self) -> list[str]:
        """The models, in the order in which they were added."""
        return list(dict.fromkeys(run.model for run in self._runs))

    @property
    def datasets(self) -> list[str]:
        """The data sets, in the order in which they were added."""
        return list(dict.fromkeys(run.dataset for run in self._runs))

    @property
    def metrics(self) -> list[str]:
        """The names of the values that all runs have, such as `nDCG@10`."""
        if not self._runs:
            return []
        first, *others = (run.result for run in self._runs)
        return [name for name in first if all(name in list(other) for other in others)]

    @property
    def notes(self) -> list[str]:
        """Remarks that are needed to interpret the numbers, such as models with one seed."""
        return describe_gaps(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def __repr__(self) -> str:
        runs = agree(len(self), "{n} run{s}")
        models = agree(len(self.models), "{n} model{s}")
        counts = f"{runs} of {models} on {agree(len(self.datasets), '{n} data set{s}')}"
        return "\n".join([f"Experiment: {counts}", *(f"- {note}" for note in self.notes)])

    # ----------------------------------------------------------------------------------------------

    def to_frame(self) -> pl.DataFrame:
        """Return a frame with one row per run and value.

        The columns are `dataset`, `model`, `fold` and `seed`, and those of `Result.to_frame`.
        """
        import polars as pl

        schema = {"dataset": pl.String, "model": pl.String, "fold": pl.String, "seed": pl.String}
        frames = [pl.DataFrame(schema=schema)]
        for run in self._runs:
            values = run.result.to_frame().drop("model")
            texts = [None if label is None else str(label) for label in run.labels]
            labels = [pl.lit(text, pl.String).alias(name) for name, text in zip(schema, texts)]
            frames.append(values.select(*labels, *values.columns))
        return pl.concat(frames, how="diagonal")

    def to_pandas(self) -> Any:
        """Return the rows of `to_frame` as a pandas frame; pyarrow is not needed."""
        return to_pandas(self.to_frame())

    def summary(self, metrics: str | Sequence[str] | None = None) -> pl.DataFrame:
        """Return the mean over runs and its variation, by data set, model and metric.

        Parameters
        ----------
        metrics
            Names of metrics, by default all that every run has.

        Returns
        -------
        polars.DataFrame
            One row per data set, model and metric, with the columns:

            - `dataset`, `model`, `metric`, `k`: the labels.
            - `runs`, `folds`: the numbers of runs and folds.
            - `seeds`: the largest number of seeds of a fold.
            - `mean`: the mean over folds of the means over seeds.
            - `std`: the standard deviation over all runs.
            - `seed_std`: the standard deviation between the seeds of a fold, pooled over folds.
            - `fold_std`: the standard deviation between the means of folds.
            - `user_std_error`: the standard error of one run that comes from its users (root mean
              square over runs).

            Deviations divide by n - 1; those of a single seed, fold or run are NaN.
        """
        return describe_variation(self._runs, self._choose_metrics(metrics))

    def compare(
        self,
        metrics: str | Sequence[str] | None = None,
        *,
        baseline: str | None = None,
        **options: Any,
    ) -> RunComparison:
        """Compare every two models on each data set, or each model with a baseline.

        A test that cannot be run has no p-value, and a note gives the reason.

        Parameters
        ----------
        metrics
            Names of metrics, by default all that every run has.
        baseline
            Model with which all others are compared.
        options
            Further keyword arguments:

            - `tests`: one or several of `"hierarchical"`, a bootstrap of users, and of seeds within
              folds, which needs values per user and is about these train sets; `"corrected_t"`, the
              corrected resampled t-test of Nadeau and Bengio, which needs two folds and is about
              train sets in general; and `"seeds_t"`, Welch's t-test over the seeds of each fold,
              which needs two seeds and takes the users as fixed. By default the first two are run
              where possible, and the third where neither is.
            - `correction`: `"holm"` (default), `"bonferroni"`, `"fdr"` or `"none"`, over the pairs
              of models on one data set and metric.
            - `alpha`: significance level, 0.05.
            - `resamples`, `seed`: those of the bootstrap, 2000 and 0.
            - `test_ratio`: size of a test set divided by that of a train set, for `"corrected_t"`.
              Default: 1 / (folds - 1), as for k folds.

        Returns
        -------
        RunComparison
            One row per data set, pair of models, metric and test.
        """
        if baseline is not None:
            self._check_model(baseline)
        names, settings = self._choose_metrics(metrics), RunTestSettings(**options)
        return compare_runs(self._runs, names, baseline=baseline, settings=settings)

    def table(
        self,
        metrics: str | Sequence[str] | None = None,
        *,
        baseline: str | None = None,
        test: str | None = None,
        **options: Any,
    ) -> ResultTable:
        """Return a table of models by data sets and metrics: means over runs ± deviations.

        Parameters
        ----------
        metrics
            Names of metrics, by default all that every run has.
        baseline
            Model to compare with, as in `weft.table`.
        test
            Test of `Experiment.compare`. Marks then show significant differences from the baseline,
            adjusted for the number of models.
        options
            Options of `weft.table`, such as `percent=True` or `improvement=True`.

        Returns
        -------
        ResultTable
            The table.

        Raises
        ------
        SettingError
            If `test` is given without a baseline, or an option is invalid.

        Examples
        --------
        >>> import weft
        >>> experiment = weft.Experiment()
        >>> for seed, item in enumerate(["tea", "tea", "rye"]):
        ...     lists = {"ann": [item]}
        ...     result = weft.evaluate(lists, {"ann": ["tea"]}, metrics="MRR@1", name="als")
        ...     experiment.add(result, seed=seed)
        >>> print(experiment.table(digits=2).to_markdown())
        | model |     MRR@1 ↑ |
        | ----- | ----------: |
        | als   | 0.67 ± 0.58 |
        <BLANKLINE>
        ±: standard deviations over runs.
        <BLANKLINE>
        """
        names = self._choose_metrics(metrics)
        comparison = None
        if test is not None:
            if baseline is None:
                raise SettingError(
                    f"{setting_ref('test', test)} marks differences from a model; give "
                    f"{setting_ref('baseline')} one of {', '.join(self.models)}."
                )
            comparison = self.compare(names, baseline=baseline, tests=test)
        return build_table(self._runs, names, baseline=baseline, comparison=comparison, **options)

    def rank_datasets(
        self,
        metric: str,
        *,
        posthoc: Posthoc = "nemenyi",
        baseline: str | None = None,
        alpha: float = 0.05,
    ) -> DatasetRanking:
        """Rank the models on every data set, and test whether their average ranks differ.

        Parameters
        ----------
        metric
            Name of the metric.
        posthoc
            `"nemenyi"` (default) compares every two models by the critical difference; `"holm"`
            adjusts the p-values of all pairs, or of the pairs with the baseline, which has more
            power.
        baseline
            Model with which all others are compared, for `posthoc="holm"`.
        alpha
            Significance level.

        Returns
        -------
        DatasetRanking
            Ranks and tests.

        Raises
        ------
        InputError
            If a model lacks a data set, or there are fewer than two models or data sets.
        SettingError
            If an argument is invalid.
        """
        (name,) = self._choose_metrics(metric)
        first = self._runs[0].result.entry(name)
        if baseline is not None:
            self._check_model(baseline)
        return rank_models(
            self.summary(name), first, posthoc=posthoc, baseline=baseline, alpha=alpha
        )

    def _check_model(self, model: str) -> None:
        if model not in self.models:
            raise SettingError(
                f"{setting_ref('baseline', model)} is not a model of the experiment, which has: "
                f"{', '.join(self.models)}."
            )

    def _choose_metrics(self, metrics: str | Sequence[str] | None) -> list[str]:
        """Return canonical names of metrics that all runs have."""
        if not self._runs:
            raise InputError("the experiment has no runs; add results with experiment.add(result).")
        known = self.metrics
        if metrics is None:
            return known
        first = self._runs[0].result
        chosen = [metrics] if isinstance(metrics, str) else list(metrics)
        names = [first.entry(name).name if name in first else name for name in chosen]
        for name in names:
            if name not in known:
                raise SettingError(
                    f"{setting_ref('metrics', name)} is not in every run. All runs have: "
                    f"{', '.join(known) or 'no metric in common'}.",
                    setting="metrics",
                )
        return list(dict.fromkeys(names))

"""`Experiment`: results labelled by model, data set, fold and seed."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.data.pandas_frames import to_pandas
from weft.errors import InputError, SettingError, check_path, check_type, setting_ref
from weft.evaluation.result import Result
from weft.evaluation.result_io import load_result
from weft.statistics.experiment.dataset_ranking import DatasetRanking, rank_models
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

Label = str | int
_FIELDS = ("dataset", "model", "fold", "seed")
_PLACEHOLDER = re.compile(r"\{(\w*)\}")


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
        named = zip(_FIELDS, self.labels)
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
        """Read saved results; parts of their paths are the labels.

        The pattern has a placeholder for each label: `"runs/{dataset}/{model}-{fold}-{seed}.json"`.
        Each matches some text within the name of a folder or file, `{}` for text that is no
        label. A model without a placeholder is called as in its result. Raises `InputError` if no
        file matches.
        """
        experiment = cls()
        for path, labels in _find_files(str(check_path("pattern", pattern))):
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
        """Add the result of a run; the model is called as the result by default.

        Raises `SettingError` if there is a run with the same labels.
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
        """Remarks that a reader of the numbers needs, such as models with one seed."""
        return describe_gaps(self._runs)

    def __len__(self) -> int:
        return len(self._runs)

    def __repr__(self) -> str:
        counts = f"{len(self)} runs of {len(self.models)} models on {len(self.datasets)} data sets"
        return "\n".join([f"Experiment: {counts}", *(f"- {note}" for note in self.notes)])

    # ----------------------------------------------------------------------------------------------

    def to_frame(self) -> pl.DataFrame:
        """Return one row per run and value: dataset, model, fold, seed and those of a result."""
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

        `mean` is the mean over folds of the means over seeds, `std` the standard deviation over
        all runs. `seed_std` is the deviation between the seeds of a fold (pooled over folds),
        `fold_std` that between the means of folds, and `user_std_error` the standard error of one
        run that comes from its users (root mean square over runs). Deviations divide by n - 1;
        those of a single seed, fold or run are NaN.
        """
        return describe_variation(self._runs, self._choose_metrics(metrics))

    def compare(
        self,
        metrics: str | Sequence[str] | None = None,
        *,
        baseline: str | None = None,
        **options: Any,
    ) -> RunComparison:
        """Compare every two models on each data set, or each model with the baseline.

        The options are those of `RunTestSettings`: `tests` (`"hierarchical"`, `"corrected_t"`,
        `"seeds_t"`), `correction`, `alpha`, `resamples`, `seed` and `test_ratio`.
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
        """Return one table of models by data sets and metrics: means over runs ± deviations.

        The options are those of `weft.table`, such as `percent=True` or `improvement=True`. With a
        `baseline` and a `test` of `compare`, marks show significant differences from the baseline,
        adjusted for the number of models.

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

    def rank_datasets(self, metric: str, **options: Any) -> DatasetRanking:
        """Rank the models on every data set, and test whether their average ranks differ.

        The options are those of `rank_models`: `posthoc`, `baseline`, `alpha`.
        """
        (name,) = self._choose_metrics(metric)
        first = self._runs[0].result.entry(name)
        if options.get("baseline") is not None:
            self._check_model(options["baseline"])
        return rank_models(self.summary(name), first, **options)

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


def _find_files(pattern: str) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Yield the files that match the pattern with their labels, in the order of their names."""
    expression = re.compile(_to_expression(pattern))
    start = re.split(r"[^/]*\{", pattern, maxsplit=1)[0]
    paths = [Path(pattern)] if start == pattern else sorted(Path(start or ".").rglob("*.json"))
    matches = [(path, expression.fullmatch(path.as_posix())) for path in paths]
    if not any(match for _, match in matches):
        raise InputError(f"no result file matches the pattern {pattern!r}.")
    for path, match in matches:
        if match is not None:
            labels = match.groupdict()
            yield path, {name: _to_label(name, text) for name, text in labels.items()}


def _to_expression(pattern: str) -> str:
    """Return the regular expression of a pattern. Raises `SettingError` for other placeholders."""
    fields = _PLACEHOLDER.findall(pattern)
    for field in filter(None, fields):
        if field not in _FIELDS or fields.count(field) > 1:
            raise SettingError(
                f"{setting_ref('pattern', pattern)} has the placeholder {{{field}}}; expected "
                f"{', '.join(f'{{{name}}}' for name in _FIELDS)} or {{}}, each label once."
            )
    pieces = map(re.escape, _PLACEHOLDER.split(pattern)[::2])
    groups = (f"(?P<{field}>[^/]+?)" if field else "[^/]+?" for field in fields)
    return "".join(
        itertools.chain.from_iterable(itertools.zip_longest(pieces, groups, fillvalue=""))
    )


def _to_label(name: str, text: str) -> Label:
    is_number = name in ("fold", "seed") and text.isdecimal()
    return int(text) if is_number else text

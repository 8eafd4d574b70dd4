"""Comparison of models over several data sets by their ranks (Demšar 2006).

Reference: J. Demšar, Statistical comparisons of classifiers over multiple data sets, Journal of
Machine Learning Research 7.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from weft._choices import choices
from weft.data.pandas_frames import to_pandas
from weft.errors import InputError, SettingError, check_choice, check_float, setting_ref
from weft.evaluation.metric_value import MetricValue
from weft.evaluation.report_mixin import RankPlotMixin
from weft.statistics.corrections import adjust
from weft.statistics.experiment.model_pairs import pair_models
from weft.statistics.pairing import Floats

if TYPE_CHECKING:
    import polars as pl

Posthoc = Literal["nemenyi", "holm"]
POSTHOC = choices(Posthoc)
_FEW_DATASETS = 5


class FriedmanTest(NamedTuple):
    """Friedman's test of equal average ranks, and the less conservative form of Iman-Davenport."""

    statistic: float
    p_value: float
    f_statistic: float
    f_p_value: float


@dataclass(frozen=True, eq=False, repr=False)
class DatasetRanking(RankPlotMixin):
    """Ranks of models on several data sets, with tests of their average ranks.

    `Experiment.rank_datasets` returns it.

    Attributes
    ----------
    metric, models, datasets
        Names of the metric, the models and the data sets.
    ranks
        Rank of each model on each data set, `[data sets, models]`. Rank 1 is the best, and models
        with equal values share the mean of their ranks.
    values
        Values of the metric, `[data sets, models]`.
    friedman
        Friedman's test of equal average ranks: `statistic` and `p_value`, and `f_statistic` and
        `f_p_value` of the less conservative form of Iman and Davenport.
    posthoc, alpha, baseline
        Settings of the ranking.
    critical_difference
        Difference of average ranks from which two models differ under the Nemenyi test; NaN under
        Holm's procedure.
    pairs
        The rows of `to_frame` as mappings.
    notes
        Remarks, such as too few data sets.
    """

    metric: str
    models: tuple[str, ...]
    datasets: tuple[str, ...]
    ranks: Floats = field(repr=False)
    values: Floats = field(repr=False)
    friedman: FriedmanTest
    posthoc: Posthoc
    critical_difference: float
    alpha: float
    pairs: tuple[Mapping[str, Any], ...]
    baseline: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def average_ranks(self) -> dict[str, float]:
        """The mean rank of each model over the data sets, with the best model first."""
        means = dict(zip(self.models, self.ranks.mean(axis=0).tolist()))
        return dict(sorted(means.items(), key=lambda entry: entry[1]))

    @property
    def cliques(self) -> list[list[str]]:
        """The largest groups of models, adjacent in rank, without a significant difference.

        Empty if models were compared only with a baseline.
        """
        if self.baseline is not None:
            return []
        significant = [pair for pair in self.pairs if pair["significant"]]
        differs = {frozenset((pair["model_a"], pair["model_b"])) for pair in significant}
        return _find_cliques(list(self.average_ranks), differs)

    def to_frame(self) -> pl.DataFrame:
        """Return a frame with one row per pair of models.

        The columns are `model_a`, `model_b`, `rank_difference`, `z`, `p_value`, `p_adjusted`,
        `significant`, and `wins`, `ties` and `losses`: the numbers of data sets on which model_a is
        better, equal or worse.
        """
        import polars as pl

        schema: dict[str, Any] = dict.fromkeys(("model_a", "model_b"), pl.String)
        schema |= dict.fromkeys(("rank_difference", "z", "p_value", "p_adjusted"), pl.Float64)
        schema |= {"significant": pl.Boolean}
        schema |= dict.fromkeys(("wins", "ties", "losses"), pl.Int64)
        return pl.DataFrame(list(self.pairs), schema=schema)

    def to_pandas(self) -> Any:
        """Return the rows of `to_frame` as a pandas frame; pyarrow is not needed."""
        return to_pandas(self.to_frame())

    def leaderboard(self) -> pl.DataFrame:
        """Return a frame with one row per model, with the best average rank first.

        The columns are `model`, `average_rank`, and one column of values per data set.
        """
        import polars as pl

        order = [self.models.index(model) for model in self.average_ranks]
        columns = {
            name or "data": self.values[number, order] for number, name in enumerate(self.datasets)
        }
        return pl.DataFrame(
            {"model": list(self.average_ranks), "average_rank": list(self.average_ranks.values())}
            | columns
        )

    def __repr__(self) -> str:
        lines = [
            f"{self.metric} on {len(self.datasets)} data sets: Friedman p = "
            f"{self.friedman.p_value:.3g}, "
            f"Iman-Davenport p = {self.friedman.f_p_value:.3g}"
        ]
        lines.append("average rank (1 is best):")
        lines += [f"{rank:5.2f}  {model}" for model, rank in self.average_ranks.items()]
        if not math.isnan(self.critical_difference):
            lines.append(f"critical difference {self.critical_difference:.3f} ({self.posthoc})")
        lines += [f"not significantly different: {', '.join(group)}" for group in self.cliques]
        if self.baseline is not None:
            lines.append(f"p-values adjusted by Holm's correction over {len(self.pairs)} pairs")
            lines += [
                f"{pair['model_a']} vs. {pair['model_b']}: p = {pair['p_adjusted']:.3g}"
                for pair in self.pairs
            ]
        return "\n".join([*lines, *(f"- {note}" for note in self.notes)])


def _find_cliques(ordered: Sequence[str], differs: set[frozenset[str]]) -> list[list[str]]:
    """Return the largest runs of two or more models, of which no two are a pair in `differs`."""
    groups: list[list[str]] = []
    last_stop = 0
    for start in range(len(ordered)):
        stop = start + 1
        while stop < len(ordered) and not any(
            frozenset((one, ordered[stop])) in differs for one in ordered[start:stop]
        ):
            stop += 1
        if stop - start > 1 and stop > last_stop:  # otherwise a part of the group before
            groups.append(list(ordered[start:stop]))
            last_stop = stop
    return groups


def rank_models(
    summary: pl.DataFrame,
    entry: MetricValue,
    *,
    posthoc: Posthoc = "nemenyi",
    baseline: str | None = None,
    alpha: float = 0.05,
) -> DatasetRanking:
    """Rank models by the means of `Experiment.summary` of one metric; `entry` has its direction.

    `posthoc`: `"nemenyi"` compares every two models by the critical difference; `"holm"` adjusts
    the p-values of all pairs, or of the pairs with the `baseline`, which has more power. Raises
    `InputError` if a model lacks a data set, or there are fewer than two of either.
    """
    chosen = _check_options(posthoc, baseline, alpha)
    models, datasets, values = _read_values(summary)
    ranks = _rank(values, entry)
    error = math.sqrt(len(models) * (len(models) + 1) / (6 * len(datasets)))
    critical = math.nan
    if chosen == "nemenyi":
        critical = _studentized_quantile(1 - alpha, len(models)) * error
    pairs = _compare_pairs(dict(zip(models, ranks.T)), baseline, error)
    _decide(pairs, chosen, len(models), alpha)
    return DatasetRanking(
        metric=entry.name,
        models=tuple(models),
        datasets=tuple(datasets),
        ranks=ranks,
        values=values,
        friedman=_friedman(ranks),
        posthoc=chosen,
        critical_difference=critical,
        alpha=alpha,
        pairs=tuple(pairs),
        baseline=baseline,
        notes=(_describe_few(len(datasets)),) if len(datasets) < _FEW_DATASETS else (),
    )


def _check_options(posthoc: str, baseline: str | None, alpha: float) -> Posthoc:
    """Return the procedure. Raises `SettingError` for options that do not fit."""
    name = check_choice("posthoc", posthoc, POSTHOC)
    if not 0 < check_float("alpha", alpha) < 1:
        raise SettingError(f"{setting_ref('alpha', alpha)}; it must be between 0 and 1.")
    if baseline is not None and name == "nemenyi":
        raise SettingError(
            f"{setting_ref('posthoc', 'nemenyi')} compares all pairs of models, but "
            f"{setting_ref('baseline', baseline)} asks for those with one; choose 'holm'."
        )
    return "nemenyi" if name == "nemenyi" else "holm"


def _describe_few(num_datasets: int) -> str:
    return (
        f"there are only {num_datasets} data sets: with fewer than about five, these tests are "
        "approximate and detect only large differences"
    )


def _compare_pairs(
    ranks: Mapping[str, Floats], baseline: str | None, error: float
) -> list[dict[str, Any]]:
    """Return every two models, or each and the baseline, with ranks and wins, not yet decided."""
    pairs = []
    for a, b in pair_models(ranks, baseline):
        difference = float(ranks[a].mean() - ranks[b].mean())
        pair = {"model_a": a, "model_b": b, "rank_difference": difference, "z": difference / error}
        pairs.append(pair | _count_wins(ranks[a], ranks[b]))
    return pairs


def _read_values(summary: pl.DataFrame) -> tuple[list[str], list[str], Floats]:
    """Return models, data sets and the means, `[data sets, models]`."""
    models = summary["model"].unique(maintain_order=True).to_list()
    datasets = summary["dataset"].unique(maintain_order=True).to_list()
    means = {
        (dataset, model): mean
        for dataset, model, mean in summary.select("dataset", "model", "mean").iter_rows()
    }
    for pair in itertools.product(datasets, models):
        if math.isnan(means.get(pair, math.nan)):
            raise InputError(
                f"{pair[1]} has no value on the data set {pair[0]!r}; ranks need every model on "
                "every data set. Add its runs, or remove the model or the data set."
            )
    if len(models) < 2 or len(datasets) < 2:
        raise InputError(
            f"ranks over data sets need two models and two data sets or more; got {len(models)} "
            f"models and {len(datasets)} data sets."
        )
    return models, datasets, np.array([[means[one, model] for model in models] for one in datasets])


def _rank(values: Floats, entry: MetricValue) -> Floats:
    """Return the ranks of models on each data set, 1 for the best; ties share their mean rank."""
    from scipy import stats

    if entry.higher_is_better is not None:
        costs = -values if entry.higher_is_better else values
    elif entry.target is not None:
        costs = np.abs(values - entry.target)
    else:
        raise SettingError(
            f"{entry.name} has no direction: no value is better than another. "
            "Choose a metric for which higher or lower is better."
        )
    ranks: Floats = stats.rankdata(costs, axis=1)
    return ranks


def _friedman(ranks: Floats) -> FriedmanTest:
    """Return statistic and p-value of Friedman's test, and of the form of Iman and Davenport.

    Ties within a data set reduce the variance of ranks, which the statistic takes into account.
    """
    from scipy import stats

    count, size = ranks.shape
    spread = float(((ranks.mean(axis=0) - (size + 1) / 2) ** 2).sum()) * count**2
    variance = float(((ranks - (size + 1) / 2) ** 2).sum()) / (size - 1)
    if variance == 0:  # all models are equal on all data sets
        return FriedmanTest(0.0, 1.0, 0.0, 1.0)
    statistic = spread / variance
    p_value = float(stats.chi2.sf(statistic, size - 1))
    rest = count * (size - 1) - statistic
    if rest <= 1e-12 * statistic:  # the same order on every data set
        return FriedmanTest(statistic, p_value, math.inf, 0.0)
    f_statistic = (count - 1) * statistic / rest
    f_p_value = float(stats.f.sf(f_statistic, size - 1, (size - 1) * (count - 1)))
    return FriedmanTest(statistic, p_value, f_statistic, f_p_value)


def _studentized_quantile(level: float, size: int) -> float:
    """Return the quantile of the studentized range of `size` models, divided by √2."""
    from scipy import stats

    return float(stats.studentized_range.ppf(level, size, np.inf)) / math.sqrt(2)


def _decide(pairs: Sequence[dict[str, Any]], posthoc: str, size: int, alpha: float) -> None:
    """Add p-values to the pairs, and whether they are significant."""
    from scipy import stats

    z = np.abs([pair["z"] for pair in pairs])
    p_values = 2 * stats.norm.sf(z)
    if posthoc == "nemenyi":
        adjusted = stats.studentized_range.sf(z * math.sqrt(2), size, np.inf)
    else:
        adjusted = adjust(p_values, "holm")
    for pair, p_value, p_adjusted in zip(pairs, p_values.tolist(), adjusted.tolist()):
        pair |= {"p_value": p_value, "p_adjusted": p_adjusted, "significant": p_adjusted <= alpha}


def _count_wins(first: Floats, second: Floats) -> dict[str, int]:
    return {
        "wins": int((first < second).sum()),
        "ties": int((first == second).sum()),
        "losses": int((first > second).sum()),
    }

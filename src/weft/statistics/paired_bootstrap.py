"""The paired bootstrap test: differences of two models in resamples of the same users."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from weft.errors import setting_ref
from weft.evaluation.resamples import ITEM_FORM, SWAP_FORM, Resamples
from weft.evaluation.result import Result
from weft.metrics.names import format_labels
from weft.statistics.comparison_rows import build_row, shorten
from weft.statistics.exposure_swaps import swap_differences
from weft.statistics.pair_statistics import Pairs
from weft.statistics.pairing import Floats
from weft.statistics.resampled_difference import ResampledDifference

# The models and the metric of a test.
DifferenceKey = tuple[str, str, str]


def find_obstacle(results: Mapping[str, Result]) -> str | None:
    """Return why the resamples of the results cannot be compared, None if they can."""
    (first, reference), *others = results.items()
    for name, result in results.items():
        if result.resamples is None:
            return (
                f"the result {name!r} has no resamples, which the bootstrap test compares; "
                f"evaluate it with {setting_ref('bootstrap', 1000)}."
            )
    ours = reference.resamples
    assert ours is not None
    for name, result in others:
        theirs = result.resamples
        assert theirs is not None
        both = f"the resamples of {first!r} and {name!r} are not paired: they have "
        if theirs.seed != ours.seed:
            return f"{both}the seeds {ours.seed} and {theirs.seed}; evaluate both with one seed."
        if len(theirs.values) != len(ours.values):
            return (
                f"{both}{len(ours.values):,} and {len(theirs.values):,} resamples; evaluate both "
                f"with the same {setting_ref('bootstrap')}."
            )
        if theirs.users != ours.users:
            return (
                f"{both}different users ({ours.num_users:,} and {theirs.num_users:,}); evaluate "
                "both on the same users."
            )
    return None


@dataclass(frozen=True)
class BootstrapTest:
    """The paired bootstrap test of results with paired resamples."""

    results: Mapping[str, Result]
    alternative: str = "two-sided"

    @property
    def metrics(self) -> list[str]:
        """The metrics that all results have resampled values of."""
        kept = [self._resamples(model) for model in self.results]
        return [name for name in kept[0].names if all(name in other.names for other in kept)]

    @property
    def swapped_metrics(self) -> list[str]:
        """The metrics that are tested by swaps of lists."""
        kept = [self._resamples(model) for model in self.results]
        return [name for name in self.metrics if any(one.form(name) == SWAP_FORM for one in kept)]

    def find_swap_obstacle(self) -> str | None:
        """Return why lists cannot be swapped, None if they can or no metric is tested by swaps."""
        if not self.swapped_metrics:
            return None
        parts = {model: self._resamples(model).parts for model in self.results}
        for model, own in parts.items():
            if own is None:
                return (
                    f"the result {model!r} lacks the exposure of its items (exposure_parts), which "
                    "was saved with it; restore the file, or evaluate again."
                )
        known = {model: own for model, own in parts.items() if own is not None}
        sizes = {model: own.num_items for model, own in known.items()}
        types = {model: own.item_ids().dtype for model, own in known.items()}
        return _find_unequal("items", sizes) or _find_unequal("types of item ids", types)

    def run(self, metrics: Sequence[str], pairs: Pairs) -> dict[DifferenceKey, ResampledDifference]:
        """Return the resampled difference of each pair of models and metric."""
        models = list(self.results)
        tested = {}
        for a, b in pairs:
            swaps = self._swap(models[a], models[b], metrics)
            for metric in metrics:
                key = (models[a], models[b], metric)
                tested[key] = self._difference(*key, swaps.get(metric))
        return tested

    def rows(self, tested: Mapping[DifferenceKey, ResampledDifference]) -> Iterator[dict[str, Any]]:
        """Yield a row per pair of models and metric, with p-values that are not yet adjusted."""
        for (a, b, metric), difference in tested.items():
            first, second = (self.results[model].entry(metric) for model in (a, b))
            yield build_row(
                model_a=a,
                model_b=b,
                metric=first.metric + format_labels(first.cell),
                k=first.k,
                test="bootstrap",
                statistic=difference.difference,
                p_value=difference.p_value(self.alternative),
                mean_a=first.value,
                mean_b=second.value,
                difference=difference.difference,
                std_error=difference.std_error,
                users=self._resamples(a).num_users,
                form=difference.form,
            )

    def notes(self, tested: Mapping[DifferenceKey, ResampledDifference]) -> Iterator[str]:
        """Yield notes on the forms of the test, and on resamples without a value."""
        by_form: dict[str, dict[str, None]] = {}
        for (_, _, metric), difference in tested.items():
            by_form.setdefault(difference.form, {})[metric] = None
        if swapped := by_form.get(SWAP_FORM):
            yield (
                f"tested by swapping the lists of two models, because their resamples are biased: "
                f"{shorten(swapped)}"
            )
        if percentile := by_form.get(ITEM_FORM):
            yield (
                "tested by percentile intervals, which may miss differences, because their "
                f"resamples are biased: {shorten(percentile)}"
            )
        resamples = len(self._resamples(next(iter(self.results))).values)
        undefined = {
            metric: resamples - len(difference.draws)
            for (_, _, metric), difference in tested.items()
            if len(difference.draws) < resamples
        }
        if undefined:
            yield (
                f"up to {max(undefined.values()):,} of {resamples:,} resamples are left out of the "
                f"bootstrap test, because a model has no value in them: {shorten(undefined)}"
            )

    # ----------------------------------------------------------------------------------------------

    def _resamples(self, model: str) -> Resamples:
        kept = self.results[model].resamples
        assert kept is not None
        return kept

    def _swap(self, a: str, b: str, metrics: Sequence[str]) -> dict[str, Floats]:
        """Return the differences after swaps of lists, for the metrics that have this form."""
        first, second = self._resamples(a), self._resamples(b)
        known = self.swapped_metrics
        swapped = [name for name in metrics if name in known]
        if not swapped or first.parts is None or second.parts is None:
            return {}
        resamples, seed = len(first.values), first.seed
        return swap_differences(first.parts, second.parts, swapped, resamples=resamples, seed=seed)

    def _difference(self, a: str, b: str, metric: str, swaps: Floats | None) -> ResampledDifference:
        values = [self.results[model].entry(metric).value for model in (a, b)]
        difference = values[0] - values[1]
        (draws_a, left_a), (draws_b, left_b) = (
            self._resamples(model).column(metric) for model in (a, b)
        )
        drawn = np.abs(np.concatenate([draws_a, draws_b, values]))
        scale = float(drawn[np.isfinite(drawn)].max(initial=0))
        if swaps is not None:
            return ResampledDifference.from_swaps(difference, swaps, scale)
        form = self._resamples(a).form(metric)
        return ResampledDifference.from_bootstrap(
            difference, draws_a - draws_b, left_a - left_b, form, scale
        )


def _find_unequal(about: str, by_model: Mapping[str, Any]) -> str | None:
    """Return the first model that differs from the first of all, as a reason; None if none does."""
    (first, ours), *others = by_model.items()
    for model, theirs in others:
        if theirs != ours:
            return (
                f"{first!r} and {model!r} have different {about} ({ours} and {theirs}); "
                "evaluate both with the same catalogue."
            )
    return None

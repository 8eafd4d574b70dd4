"""Values of all metrics in bootstrap resamples of the users, for intervals and for tests."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from weft.data import Vocabulary
from weft.evaluation.bootstrap import Resampler, group_acceleration
from weft.evaluation.contributions import ContributionStore
from weft.evaluation.document_fields import (
    check_mapping,
    check_present,
    check_text,
    check_whole,
    describe,
    reject,
)
from weft.evaluation.exposure_parts import ExposureParts, can_swap
from weft.evaluation.metric_value import MetricValue
from weft.evaluation.resample_weights import Floats
from weft.metrics.accumulators import ItemAccumulator
from weft.metrics.base.formulas import UserMeanMetric
from weft.metrics.base.summed import SummedMetric
from weft.metrics.names import MetricSpec

if TYPE_CHECKING:
    import polars as pl

    from weft.evaluation.metric_set import MetricSet

_LabelledSpec = tuple[MetricSpec, tuple[str, ...]]  # a metric, and the labels of one of its values
_KINDS = ("bootstrap", "jackknife")  # of the rows of a saved table
# The forms in which the difference of two models is tested.
SMOOTH_FORM, SWAP_FORM, ITEM_FORM = "bca", "swaps", "percentile"


@dataclass(frozen=True, eq=False)
class Resamples:
    """Values of metrics in resamples of the users, kept to test the differences of two models.

    `values [resamples, metrics]` are those of the bootstrap, `left_out [groups, metrics]` those
    without each of up to 200 groups of users in turn; NaN if undefined. `users` is a digest of the
    resampled users, of which there are `num_users`: models with equal `users`, `seed` and number of
    resamples are resampled alike. `forms` has the form of the test of each metric for which it is
    not "bca": "swaps", from the `parts`, or "percentile".
    """

    names: tuple[str, ...]
    values: Floats
    left_out: Floats
    seed: int
    num_users: int
    users: str
    forms: Mapping[str, str] = field(default_factory=dict)
    parts: ExposureParts | None = None

    def to_frame(self) -> pl.DataFrame:
        """Return a row per resample and a column per metric."""
        import polars as pl

        return pl.DataFrame(dict(zip(self.names, self.values.T)))

    def column(self, name: str) -> tuple[Floats, Floats]:
        """Return the resampled values of a metric and its values without each group of users."""
        index = self.names.index(name)
        return self.values[:, index], self.left_out[:, index]

    def form(self, name: str) -> str:
        """Return the form of the test of a metric."""
        return self.forms.get(name, SMOOTH_FORM)

    # ----------------------------------------------------------------------------------------------
    # Files

    def to_dict(self) -> dict[str, Any]:
        """Return the fields but the tables as plain values for JSON."""
        fields = {"seed": self.seed, "num_users": self.num_users, "users": self.users}
        document: dict[str, Any] = {**fields, "forms": dict(self.forms)}
        if self.parts is not None:
            document["num_items"] = self.parts.num_items
        return document

    def to_tables(self) -> dict[str, pl.DataFrame]:
        """Return the tables of `from_tables` by name."""
        import polars as pl

        kinds = np.repeat(_KINDS, (len(self.values), len(self.left_out)))
        columns = np.concatenate([self.values, self.left_out]).T
        tables = {"resamples": pl.DataFrame({"kind": kinds, **dict(zip(self.names, columns))})}
        if self.parts is not None:
            tables["exposure_parts"] = self.parts.to_frame()
        return tables

    @classmethod
    def from_tables(cls, plain: object, tables: Mapping[str, pl.DataFrame]) -> Resamples:
        """Build the resamples from `to_dict` and `to_tables`; raises `InputError` for others.

        Without the table of exposure, metrics that need it cannot be tested.
        """
        document = check_mapping(plain, "resampling")
        check_present(document, ("seed", "num_users", "users", "forms"), "resampling")
        forms = check_mapping(document["forms"], "resampling['forms']")
        forms = {name: check_text(forms[name], "resampling['forms']") for name in forms}
        table, parts = tables["resamples"], None
        if "exposure_parts" in tables:
            swapped = [name for name, form in forms.items() if form == SWAP_FORM]
            num_items = check_whole(document.get("num_items"), "resampling['num_items']")
            parts = ExposureParts.from_frame(tables["exposure_parts"], swapped, num_items)
        values, left_out = (_read_kind(table, kind) for kind in _KINDS)
        return cls(
            tuple(values.columns),
            values.to_numpy(),
            left_out.to_numpy(),
            check_whole(document["seed"], "resampling['seed']"),
            check_whole(document["num_users"], "resampling['num_users']"),
            check_text(document["users"], "resampling['users']"),
            forms,
            parts,
        )


def _read_kind(table: pl.DataFrame, kind: str) -> pl.DataFrame:
    """Return the rows of a kind in a saved table, without the kind; they are float64 numbers."""
    import polars as pl

    types = dict(table.schema)
    if types.pop("kind", None) != pl.String or set(types.values()) > {pl.Float64}:
        reject("the table of resamples", describe(table.columns), "a kind, and float64 numbers")
    return table.filter(table["kind"] == kind).drop("kind")


# --------------------------------------------------------------------------------------------------


def resample_metrics(
    metric_set: MetricSet,
    store: ContributionStore | None,
    values: Sequence[MetricValue],
    *,
    resamples: int,
    seed: int,
    items: Vocabulary | None = None,
) -> tuple[Resamples, Floats] | None:
    """Return the values in all resamples of the users, and the acceleration of each metric.

    None for fewer than two users. `items` are the ids of the items.
    """
    if store is None or store.users < 2:
        return None
    means = _find_means(metric_set)
    others, columns = _find_others(metric_set, values), list(means.values())
    compute = partial(_compute_others, metric_set, list(others.values()))
    resampler = Resampler(store, metric_set.layout, compute, len(others))
    drawn, left_out = (
        np.concatenate([of_means[:, columns], of_formulas], axis=1)
        for of_means, of_formulas in (
            resampler.resample(resamples, seed),
            resampler.leave_groups_out(),
        )
    )
    of_formulas = map(group_acceleration, left_out[:, len(columns) :].T)
    accelerations = np.array([*resampler.mean_accelerations()[columns], *of_formulas])
    forms = _find_forms(metric_set, others)
    kept = Resamples(
        names=(*means, *others),
        values=drawn,
        left_out=left_out,
        seed=seed,
        num_users=store.users,
        users=resampler.digest_users(),
        forms=forms,
        parts=_collect_parts(metric_set, resampler, forms, items),
    )
    return kept, accelerations


def _find_means(metric_set: MetricSet) -> dict[str, int]:
    """Return the column of each metric that is a mean over users, by name."""
    return {
        str(spec): metric_set.layout.mean_column(formula.accumulators()[0], spec.k)
        for spec, formula in metric_set.formulas.items()
        if _is_mean(formula)
    }


def _collect_parts(
    metric_set: MetricSet,
    resampler: Resampler,
    forms: Mapping[str, str],
    items: Vocabulary | None,
) -> ExposureParts | None:
    """Return the exposure by part of the users, None if no metric needs it.

    Its metrics are in the order of `forms`, in which files have them."""
    formulas = {str(spec): (spec, formula) for spec, formula in metric_set.formulas.items()}
    swapped = dict(formulas[name] for name, form in forms.items() if form == SWAP_FORM)
    return ExposureParts.collect(resampler, metric_set.layout, swapped, items) if swapped else None


def _find_others(metric_set: MetricSet, values: Iterable[MetricValue]) -> dict[str, _LabelledSpec]:
    """Return the metrics and labels of the values of formulas that are no means, by name."""
    specs = {str(spec): spec for spec, one in metric_set.formulas.items() if not _is_mean(one)}
    return {
        value.name: (specs[value.plain_name], value.cell)
        for value in values
        if value.plain_name in specs
    }


def _compute_others(
    metric_set: MetricSet, labelled: Sequence[_LabelledSpec], sums: Tensor
) -> Floats:
    """Return the values of metrics with labels from a vector of sums, `[values]`.

    They are no means over users. NaN for a label that these sums do not have."""
    view_at = metric_set.layout.view(sums)
    computed: dict[_LabelledSpec, float] = {}
    for spec, formula in metric_set.formulas.items():
        if not _is_mean(formula):
            for labels, value in formula.all_values(view_at(spec.k)).items():
                computed[spec, tuple(map(str, labels))] = float(value)
    return np.array([computed.get(key, math.nan) for key in labelled])


def _find_forms(metric_set: MetricSet, others: Mapping[str, _LabelledSpec]) -> dict[str, str]:
    """Return the form of the test of metrics that are statistics of numbers per item."""
    forms = {}
    for name, (spec, labels) in others.items():
        metric = metric_set.formulas[spec]
        if _is_item_statistic(metric):
            forms[name] = SWAP_FORM if can_swap(metric) and not labels else ITEM_FORM
    return forms


def _is_item_statistic(metric: SummedMetric) -> bool:
    """Return True if resamples of the users are biased; for all sums per item of authors."""
    is_own = type(metric).__module__.startswith("weft.")
    return metric.is_item_statistic or (
        not is_own and any(isinstance(one, ItemAccumulator) for one in metric.accumulators())
    )


def _is_mean(metric: SummedMetric) -> bool:
    return isinstance(metric, UserMeanMetric) and metric.is_user_mean

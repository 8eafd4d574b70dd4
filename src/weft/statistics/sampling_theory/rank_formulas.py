"""Metrics computed from the ranks of relevant items, without scores or lists."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft.batch.batch import Batch, BatchInputs, RankingOptions
from weft.data.tensors import SparseRows
from weft.errors import SettingError
from weft.evaluation.setting_rules import read_cutoffs, read_metrics
from weft.metrics.base.formulas import UserMeanMetric
from weft.metrics.names import MetricSpec, parse_name
from weft.metrics.registry import build_metric, expand_metrics
from weft.ranking import TieRule
from weft.ranking.positions import ObservedPositions, Positions
from weft.statistics.pairing import Floats
from weft.statistics.sampling_theory.ranked_users import RankedUsers


@dataclass(frozen=True)
class RankFormulas:
    """Metrics that are means over users of sums over relevant items, by name."""

    metrics: dict[MetricSpec, UserMeanMetric]

    @classmethod
    def build(cls, metrics: Any, top_k: Any) -> RankFormulas:
        """Build the metrics; raises `SettingError` for those that ranks do not determine.

        AUC becomes the mean over users, weighted by relevant items, that it equals.
        """
        formulas: dict[MetricSpec, UserMeanMetric] = {}
        specs = expand_metrics(read_metrics(metrics), read_cutoffs(top_k) or (), available=set())
        for spec, metric_class in specs.items():
            if str(spec) == "AUC":
                formula = build_metric(
                    parse_name("GAUC(weight=positives)"), metric_class=None, standalone=False
                )
            else:
                formula = build_metric(spec, metric_class=metric_class, standalone=False)
            is_sum = formula.sampling_behaviour in ("corrected", "unbiased")
            if not (
                is_sum and formula.family == "accuracy" and isinstance(formula, UserMeanMetric)
            ):
                raise SettingError(
                    f"{spec} cannot be computed from ranks; choose a metric that is a sum over the "
                    "relevant items of a user, such as AUC, GAUC, HitRate, MAP, MAR, MRR, nDCG, "
                    "Precision or Recall."
                )
            formulas[spec] = formula
        return cls(formulas)

    @property
    def cutoffs(self) -> list[int]:
        """The cut-offs of the metrics that have one."""
        return [spec.k for spec in self.metrics if spec.k is not None]

    @property
    def names(self) -> list[str]:
        """The names of the metrics."""
        return [str(spec) for spec in self.metrics]

    def by_name(self, values: Floats) -> dict[str, float]:
        """Return values `[formulas]` by the names of the metrics."""
        return dict(zip(self.names, values.tolist()))

    def means(self, users: RankedUsers, values: Floats) -> Floats:
        """Return the metrics `[formulas]` from the values of users, `[users, formulas]`."""
        return np.asarray((self._weights(users, values) * np.nan_to_num(values)).sum(0))

    def variances(self, users: RankedUsers, variances: Floats) -> Floats:
        """Return the variances of the metrics from those of the values of users."""
        weights = self._weights(users, variances)
        return np.asarray((weights**2 * np.nan_to_num(variances)).sum(0))

    def _weights(self, users: RankedUsers, values: Floats) -> Floats:
        """Return the weights of users, `[users, formulas]`, which sum to 1; 0 if undefined."""
        weights = np.ones_like(values)
        for column, formula in enumerate(self.metrics.values()):
            if getattr(formula, "weight", "uniform") != "uniform":
                weights[:, column] = users.counts
        weights[np.isnan(values)] = 0
        with np.errstate(invalid="ignore"):
            return np.asarray(weights / weights.sum(0))

    def exact_values(self, users: RankedUsers) -> Floats:
        """Return the values of each user in the full ranking, `[users, formulas]`."""
        counts, above, eligible, item_numbers = (
            torch.from_numpy(part)
            for part in (users.counts, users.above, users.eligible, users.item_numbers)
        )

        def positions(relevant: SparseRows, depth: int) -> Positions:
            clamped = (above + item_numbers - 1).clamp(max=depth)
            return ObservedPositions(clamped, relevant, depth, dtype=torch.float64)

        rows = torch.repeat_interleave(torch.arange(len(counts)), counts)
        losses = torch.zeros(len(counts), dtype=torch.float64).index_add_(
            0, rows, above / eligible[rows].double()
        )
        return self.compute(counts, counts - losses, eligible.double(), positions)

    def compute(
        self,
        counts: Tensor,
        wins: Tensor,
        negatives: Tensor,
        positions: Callable[[SparseRows, int], Positions],
    ) -> Floats:
        """Return the values of users with `counts` relevant items, `[users, formulas]`.

        `wins` are the sums over relevant items of the share of negatives below, `negatives` the
        numbers of negatives, `[users]` both; `positions(relevant, depth)` gives the positions of
        the relevant items.
        """
        offsets = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
        items = torch.arange(int(offsets[-1])) - torch.repeat_interleave(offsets[:-1], counts)
        ratings = torch.ones(len(items), dtype=torch.float64)
        depth = max([1, *self.cutoffs])
        num_items = max(depth, int(counts.max()))  # a batch has no positions beyond its items
        relevant = SparseRows(offsets, items, ratings, num_items)
        numbers = torch.arange(len(counts))
        inputs = BatchInputs(
            None, relevant, users=numbers, relevant=relevant, raw_scores=relevant.values
        )
        batch = Batch(inputs, RankingOptions(TieRule(), depth))
        # Without lists, the quantities that depend on them are given.
        batch.positions = positions(relevant, depth)
        batch.offered.pairwise_wins = wins
        batch.offered.num_negatives = negatives
        values = [
            formula.shared_user_values(batch.at_cutoffs((spec.k or 1,)))[:, 0]
            for spec, formula in self.metrics.items()
        ]
        batch.close()
        return torch.stack(values, dim=1).numpy()

"""Calibration: whether a list has the categories of a user's train interactions in their shares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from weft._choices import choices
from weft._input_kinds import built_in_inputs
from weft.batch.topk import TopK
from weft.data import Features, Train
from weft.errors import SettingError, check_choice, check_float, setting_ref
from weft.metrics.base.formulas import POPULATIONS, UserAverageTopKMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.feature_sums import (
    Entries,
    FeatureSums,
    has_table,
    list_entries,
    list_table_sums,
    relative_entropy,
    split_rows,
    sum_by_feature,
    sum_table_rows,
)
from weft.metrics.parameter_types import Divergence, Population
from weft.metrics.registry import register


@register
class Calibration(UserAverageTopKMetric):
    r"""The divergence of the categories of a list from the categories of the user's train
    interactions, averaged over all lists. 0 if their shares are the same.

    Categories are item features; an item with m features adds 1/m to each of them.

    Formula: \mathrm{Calibration}_u = \sum_{f} p_{uf} \, \log_2 \frac{p_{uf}}{(1 - \alpha) \, q_{uf}
    + \alpha \, p_{uf}}

    Symbols: $p$ and $q$ are the shares of the feature $f$ in the user's train interactions and in
    the list; $\alpha = 0.01$.

    Parameters:
        divergence: Divergence of the shares in the list from those in train: `"kl"` is the
            Kullback-Leibler divergence in bits, `"js"` the Jensen-Shannon divergence in bits, and
            `"hellinger"` the Hellinger distance. The last two are at most 1.
        alpha: Share of the train distribution that is mixed into that of the list, α, between 0 and
            1, which keeps the Kullback-Leibler divergence finite. It has no effect on the others.
        users: As in ItemCoverage.

    Use: Calibration answers whether lists reflect the different interests of a user in their
    proportions, instead of the main interest alone. Use it to check for users with several
    interests that small interests are not lost. It ignores relevance and order, and it does not
    reward anything outside the history: use ILD for diversity and Serendipity for unexpected items.
    For the calibration of probabilities, use ECE or ScoreCalibration.

    Related: CategoryEntropy, SRecall, ILD, PopularityLift.

    Edge cases: items without features add nothing; users without a feature in train or in the list
    are left out.

    Example: train has one drama and one comedy, and the list has two dramas: √(1 - √(1/2 · 1)).

    >>> import torch, weft
    >>> metric = weft.metrics.Calibration(
    ...     k=2,
    ...     train=torch.tensor([[1, 1, 0, 0]]),
    ...     item_features=[["drama"], ["comedy"], ["drama"], ["drama"]],
    ...     divergence="hellinger",
    ... )
    >>> metric.update(torch.tensor([[0.1, 0.2, 0.9, 0.8]]), torch.tensor([[0, 0, 1, 0]]))
    >>> metric.compute()
    tensor(0.5412, dtype=torch.float64)
    """

    family = "diversity"
    needs = built_in_inputs("train", "item_features")
    higher_is_better = False
    is_exposure_metric = True
    reads_history = True
    bounds: Bounds = (0.0, None)
    undefined = "no user has items with features both in train and in the list"
    reference = "Steck (2018), Calibrated recommendations, doi 10.1145/3240323.3240372"

    def __init__(
        self,
        k: int,
        *,
        divergence: Divergence = "kl",
        alpha: float = 0.01,
        users: Population = "lists",
        **settings: Any,
    ) -> None:
        super().__init__(k, **settings)
        self._train: Train = self.inputs["train"]
        self._features: Features = self.inputs["item_features"]
        self.divergence = check_choice("divergence", divergence, choices(Divergence))
        self.users = check_choice("users", users, POPULATIONS)
        self.alpha = float(check_float("alpha", alpha, more=" between 0 and 1"))
        if not 0 < self.alpha < 1:
            raise SettingError(
                f"{setting_ref('alpha', alpha)}; it must be a number between 0 and 1."
            )
        if self.divergence != "kl":
            self.bounds = (0.0, 1.0)
            self.alpha = 0.01  # without an effect

    def user_values(self, topk: TopK) -> Tensor:
        if has_table(self._features, topk.batch.device):
            return torch.cat([*self._table_divergences(topk)])
        batch, history, values = topk.batch, self._train.on_device, []
        row_size = max(topk.cutoffs[-1], history.row_size(batch.device))
        for start, stop in split_rows(batch.size, row_size):
            lists = list_entries(topk, start, stop)
            rows = history.select(batch.users[start:stop])
            items = rows.fill_invalid(rows.items, -1)
            profile = Entries(items, rows.rows, torch.zeros_like(items), rows.valid_ones)
            lists = lists._replace(columns=lists.columns + 1)
            sums = sum_by_feature(
                self._features,
                Entries(*(torch.cat(both) for both in zip(profile, lists))),
                num_rows=stop - start,
                num_columns=len(topk.cutoffs) + 1,
                is_shared=True,
            )
            listed = sums.values[:, 1:].cumsum(1)
            values.append(self._divergences(sums, sums.values[:, :1], listed))
        return torch.cat(values)

    def _table_divergences(self, topk: TopK) -> Iterator[Tensor]:
        """Yield the divergences of a few users at a time, for few features."""
        history = self._train.on_device
        for start, stop, sums in list_table_sums(self._features, topk, is_shared=True):
            rows = history.select(topk.batch.users[start:stop])
            profile = sum_table_rows(
                self._features, rows.items, rows.offsets[:-1], weights=rows.values, is_shared=True
            )
            yield self._divergences(sums, profile[:, None], sums.values)

    def _divergences(self, sums: FeatureSums, profile: Tensor, listed: Tensor) -> Tensor:
        """Return the divergences `[rows, cut-offs]` of sums of the profile (one column) and of the
        positions up to each cut-off (a column each).
        """
        p, q = sums.shares(profile), sums.shares(listed)
        if self.divergence == "hellinger":
            value = (1 - sums.sum_rows((p * q).sqrt())).clamp(min=0).sqrt()
        elif self.divergence == "js":
            value = (
                sums.sum_rows(relative_entropy(p, (p + q) / 2) + relative_entropy(q, (p + q) / 2))
                / 2
            )
        else:
            value = sums.sum_rows(relative_entropy(p, (1 - self.alpha) * q + self.alpha * p))
        has_both = (sums.sum_rows(profile) > 0) & (sums.sum_rows(listed) > 0)
        return torch.where(has_both, value.clamp(min=0), torch.nan)

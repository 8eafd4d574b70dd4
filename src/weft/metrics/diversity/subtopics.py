"""Subtopic recall: how many of a user's interests a list covers."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from weft._choices import choices
from weft._input_kinds import built_in_inputs
from weft.batch.topk import TopK
from weft.data import Features
from weft.errors import check_choice
from weft.metrics.base.formulas import UserAverageTopKMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.parameter_types import SubtopicDenominator, SubtopicNumerator
from weft.metrics.registry import register


@register
class SRecall(UserAverageTopKMetric):
    r"""Subtopic recall: the share of the features of a user's relevant items that the hits of the
    list have, averaged over users.

    Items have sets of features, such as genres.

    Formula: \mathrm{SRecall}_u = \frac{\Big| \bigcup_{i \in L_u \cap R_u} F_i \Big|} {\Big|
    \bigcup_{i \in R_u} F_i \Big|}

    Parameters:
        denominator: Divisor: `"relevant"` is the number of different features of the user's
            relevant items, and `"catalogue"` that of all items of the catalogue.
        numerator: Items of the list with features that count: `"relevant"` means the hits, and
            `"list"` all items, with which the value may exceed 1.

    Use: SRecall answers how many of a user's interests a list serves with relevant items. Use it if
    one good item for each interest is enough. It ignores positions and repeated features:
    alpha_nDCG takes both into account. For the variety of lists whether relevant or not, use
    CategoryDiversity.

    Related: alpha_nDCG, Recall, CategoryDiversity, P_IA, Calibration.

    Edge cases: users with relevant items of which none has a feature are left out (with
    `denominator="catalogue"` they count 0); items without features add nothing.

    Example: the relevant items have two genres, and the one in the list has the first of them.

    >>> import torch, weft
    >>> genres = {0: ["drama"], 1: ["comedy", "drama"], 2: ["horror"]}
    >>> metric = weft.metrics.SRecall(k=2, item_features=genres, num_items=3)
    >>> metric.update(torch.tensor([[0.9, 0.1, 0.5]]), torch.tensor([[1, 1, 0]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    family = "diversity"
    needs = built_in_inputs("item_features")
    higher_is_better = True
    bounds: Bounds = (0.0, 1.0)
    undefined = "no user has a relevant item with a feature"
    reference = (
        "Zhai, Cohen and Lafferty (2003), Beyond independent relevance: methods and evaluation "
        "metrics for subtopic retrieval, doi 10.1145/860435.860440"
    )

    def __init__(
        self,
        k: int,
        *,
        denominator: SubtopicDenominator = "relevant",
        numerator: SubtopicNumerator = "relevant",
        **settings: Any,
    ) -> None:
        super().__init__(k, **settings)
        self._features: Features = self.inputs["item_features"]
        self.denominator = check_choice("denominator", denominator, choices(SubtopicDenominator))
        self.numerator = check_choice("numerator", numerator, choices(SubtopicNumerator))
        self.is_exposure_metric = self.numerator == "list"
        if (self.numerator, self.denominator) == ("list", "relevant"):
            self.bounds = (0.0, None)

    def user_values(self, topk: TopK) -> Tensor:
        batch = topk.batch
        relevant = batch.relevant
        relevant_items = relevant.fill_invalid(relevant.items, -1)
        by_cutoff = in_relevant = self._count_features(
            topk, relevant.rows, items=relevant_items, positions=batch.hit_positions
        )
        if self.numerator == "list":
            rows, positions = torch.meshgrid(
                torch.arange(batch.size, device=batch.device),
                torch.arange(batch.depth, device=batch.device),
                indexing="ij",
            )
            by_cutoff = self._count_features(
                topk,
                rows.reshape(-1),
                items=batch.items.reshape(-1),
                positions=positions.reshape(-1),
            )
        covered = by_cutoff[:, :-1].cumsum(1)
        if self.denominator == "relevant":
            total = in_relevant.sum(1, keepdim=True)
            return covered / torch.where(total > 0, total, torch.nan)
        num_features = len(self._features.names)
        return covered / num_features if num_features else torch.full_like(covered, torch.nan)

    def _count_features(
        self, topk: TopK, rows: Tensor, *, items: Tensor, positions: Tensor
    ) -> Tensor:
        """Return the number of distinct features of each row by the first cut-off that includes
        them, `[batch, cut-offs + 1]`; the last column is for features beyond all cut-offs.

        `items` (-1 = none) with their rows and positions, `[n]` each."""
        num_positions, width = topk.batch.depth + 1, len(topk.cutoffs) + 1
        size = topk.batch.size
        key = self._feature_keys(rows, items, positions, size=size, num_positions=num_positions)
        key = key.sort().values
        pair = key.div(num_positions, rounding_mode="floor")
        is_first = torch.ones_like(pair, dtype=torch.bool)
        is_first[1:] = pair[1:] != pair[:-1]
        row = pair.div_(max(1, len(self._features.names)), rounding_mode="floor")
        cutoff = topk.cutoff_index.index_select(0, key.remainder_(num_positions))
        counts = torch.zeros((size + 1) * width, dtype=topk.k.dtype, device=key.device)
        counts.index_add_(0, cutoff.add_(row, alpha=width), is_first.to(counts.dtype))
        return counts.view(-1, width)[:-1]

    def _feature_keys(
        self, rows: Tensor, items: Tensor, positions: Tensor, *, size: int, num_positions: int
    ) -> Tensor:
        """Return (row, feature, position) of each feature of each item as one integer: in sorted
        order the first position of a (row, feature) pair comes first.

        Row `size` is for items without a feature."""
        index, code = self._features.lookup(items)
        num_features = max(1, len(self._features.names))
        row = torch.where(code < 0, size, rows.index_select(0, index))
        key = row.mul_(num_features).add_(code.clamp(min=0))
        key = key.mul_(num_positions).add_(positions.index_select(0, index))
        # 32 bits sort faster and take less memory.
        return key.int() if (size + 1) * num_features * num_positions < 1 << 31 else key

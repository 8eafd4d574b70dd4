"""The sums of a metric over users, with the relevant items of one group of the truth only."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

from weft.batch.batch import Batch
from weft.batch.topk import TopK
from weft.data.truth_groups import TruthGroups
from weft.metrics.accumulators import UserMeanSums


@dataclass(frozen=True)
class GroupOfTruthSums(UserMeanSums):
    """The `MEAN_SUMS` of values per user, with the relevant items of one group of the truth only.

    `slice_name` and `group` identify the group."""

    slice_name: str
    group: int
    groups: TruthGroups = field(compare=False)

    def values(self, topk: TopK) -> Tensor:
        batch = topk.batch.in_group(self.groups, self.group)
        return self.metric.averaged_values(batch.at_cutoffs(topk.cutoffs))

    def user_weights(self, batch: Batch) -> Tensor | None:
        return super().user_weights(batch.in_group(self.groups, self.group))

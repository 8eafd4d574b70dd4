"""New and unexpected items: those not seen before, and hits that popularity does not explain."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace
from functools import cached_property
from math import nan
from typing import Any

import numpy as np
import torch
from torch import Tensor

from weft._input_kinds import BUILT_IN_INPUTS, ItemVectors, TrainInteractions, built_in_inputs
from weft.batch.batch import Batch
from weft.batch.topk import TopK
from weft.data import DeviceColumn, Train
from weft.data.item_lists import NO_LISTS, ItemLists
from weft.data.numbers import Numbers
from weft.data.popularity import NO_TRAIN
from weft.errors import check_choice
from weft.metrics.base.formulas import POPULATIONS, UserAverageTopKMetric
from weft.metrics.base.metric import Bounds
from weft.metrics.feature_sums import split_rows
from weft.metrics.parameter_types import Population, SerendipityDefinition
from weft.metrics.registry import register
from weft.metrics.unit_vectors import unit_vectors

# The inputs that each definition of serendipity reads.
_INPUTS: dict[str, Set[str]] = {
    "popularity": {"train"},
    "dissimilarity": {"train", "item_vectors"},
    "base": {"reference"},
}


@register
class NewToUser(UserAverageTopKMetric):
    r"""The share of a list that is not among the user's train interactions, averaged over all
    lists.

    Formula: \mathrm{NewToUser}_u = 1 - \frac{|L_u \cap P_u|}{|L_u|}

    Parameters:
        users: As in ItemCoverage.

    Use: NewToUser answers how much of a list the user does not know yet. Use it for data with
    repeated consumption, such as music or groceries, where seen items stay candidates
    (`mask_seen=False`). It is always 1 if seen items are masked, and new items can still be
    popular: use MIUF or EPC for popularity. To evaluate new and repeated items separately, give
    `targets` in the settings of the run.

    Related: Unexpectedness, MIUF, EPC, Serendipity.

    Edge cases: for users without train interactions, all items are new; empty lists are left out.

    Example: the user has seen one of the two items.

    >>> import torch, weft
    >>> metric = weft.metrics.NewToUser(k=2, train=torch.tensor([[1, 0, 1]]))
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    family = "novelty"
    needs = built_in_inputs("train")
    higher_is_better = True
    is_exposure_metric = True
    reads_history = True
    bounds: Bounds = (0.0, 1.0)
    undefined = "all lists are empty"
    reference = (
        "Castells, Hurley and Vargas (2015), Novelty and diversity in recommender systems, "
        "doi 10.1007/978-1-4899-7637-6_26"
    )

    def __init__(self, k: int, *, users: Population = "lists", **settings: Any) -> None:
        super().__init__(k, **settings)
        self._train: Train = self.inputs["train"]
        self.users = check_choice("users", users, POPULATIONS)

    def user_values(self, topk: TopK) -> Tensor:
        batch, history, num_seen = topk.batch, self._train.on_device, []
        row_size = max(topk.cutoffs[-1], history.row_size(batch.device))
        for start, stop in split_rows(batch.size, row_size):
            rows = history.select(batch.users[start:stop])
            _, is_seen = rows.find(batch.items[start:stop])
            num_seen.append(topk.sum_positions(is_seen.to(topk.k.dtype)))
        length = topk.num_listed
        return 1 - torch.cat(num_seen) / torch.where(length > 0, length, torch.nan)


@register
class Serendipity(UserAverageTopKMetric):
    r"""How unexpected the relevant items of a list are: the mean over its positions, where other
    items count 0, averaged over users.

    By default, a relevant item counts by how much higher it is ranked in the list than by
    popularity. Both ranks are scaled by the number N of items in the catalogue: the item at
    position p has (N + 1 - p) / N, and the item with rank t by train interactions has (N + 1 - t) /
    N, or 0 if it has no train interactions. Equally popular items share a rank, and the next rank
    follows without a gap. Items that popularity ranks higher count 0.

    Formula: \mathrm{Serendipity}_u = \frac{1}{|L_u|} \sum_{p=1}^{|L_u|} [i_p \in R_u] \max\left(
    \frac{{|I|} + 1 - p}{|I|} - e_{i_p}, \; 0 \right)

    Symbols: $e$ is $(|I| + 1 - t) / |I|$ for the item with rank $t$ by train interactions, and 0
    for items without train interactions.

    Parameters:
        definition: Measure of how unexpected a relevant item is. With `"popularity"`, the item
            counts by how much higher it is ranked in the list than by train interactions. With
            `"dissimilarity"`, it counts 1 minus the mean cosine of its vector in the input
            `item_vectors` and the vectors of the user's train interactions. With `"base"`, it
            counts 1 unless it is in the user's list in the input `reference`, cut at k, and the sum
            is divided by k instead of the length of the list.

    Use: Serendipity answers whether a model finds relevant items that are not obvious. Choose the
    definition by what obvious means: popular items (`"popularity"`), items like those in the user's
    history (`"dissimilarity"`), or items that a simple model recommends (`"base"`). It grows with
    the number of hits, so compare it at similar accuracy. For unexpected items whether relevant or
    not, use Unexpectedness.

    Related: Unexpectedness, EPC, Intersection, ILD.

    Edge cases: an empty list counts 0; undefined if train is needed and empty. With
    `definition="dissimilarity"`, items without a vector (or with a vector of zeros) count 0, and
    users without a vector for any of their train items are left out; with `definition="base"`,
    users without a list in `reference` are left out.

    Example: of three items, the relevant one is at position 1 and is the second most popular: (3/3
    - 2/3) / 2.

    >>> import torch, weft
    >>> train = torch.tensor([[1, 1, 0], [0, 1, 0]])
    >>> metric = weft.metrics.Serendipity(k=2, train=train)
    >>> metric.update(torch.tensor([[0.9, 0.1, 0.5]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(0.1667, dtype=torch.float64)
    """

    family = "novelty"
    needs = {
        "train": TrainInteractions(required=False),
        "item_vectors": ItemVectors(missing=nan, required=False),
        "reference": replace(BUILT_IN_INPUTS["reference"], required=False),
    }
    higher_is_better = True
    bounds: Bounds = (0.0, 1.0)
    undefined = (
        "no user has a relevant item, train is empty, or no such user has a list in reference"
    )
    reference = (
        "Kotkov, Wang and Veijalainen (2016), A survey of serendipity in recommender systems, "
        "doi 10.1016/j.knosys.2016.08.014"
    )

    def __init__(
        self,
        k: int,
        *,
        definition: SerendipityDefinition = "popularity",
        **settings: Any,
    ) -> None:
        super().__init__(k, **settings)
        self._train: Train = self.inputs.get("train", NO_TRAIN)
        self._vectors: Numbers | None = self.inputs.get("item_vectors")
        self._reference: ItemLists = self.inputs.get("reference", NO_LISTS)
        self.definition = check_choice("definition", definition, tuple(_INPUTS))
        self.reads_history = self.definition == "dissimilarity"
        if self.reads_history:
            self.bounds = (0.0, 2.0)
        if self.definition == "base":  # a sum over the hits, of values that no position changes
            self.has_expected_tie_form, self.sampling_behaviour = True, "corrected"

    def needed_inputs(self) -> Set[str]:
        return _INPUTS[self.definition]

    @cached_property
    def _expected(self) -> DeviceColumn:
        """s_i of each item, `[items]`."""
        counts, number = np.unique(self._train.item_counts, return_inverse=True)
        rank = len(counts) - number  # the most popular items have rank 1
        score = (self._train.num_items + 1 - rank) / max(1, self._train.num_items)
        return DeviceColumn(torch.from_numpy(np.where(self._train.item_counts > 0, score, 0.0)))

    def user_values(self, topk: TopK) -> Tensor:
        if self.definition == "base":
            return self._hits_beyond_reference(topk) / topk.k
        if self._train.num_interactions == 0:
            return torch.full_like(topk.list_length, torch.nan)
        batch, length = topk.batch, topk.list_length.clamp(min=1)
        if self._vectors is not None and self.reads_history:
            surprise, has_history = self._dissimilarity(batch, self._vectors)
            length = torch.where(has_history, length, torch.nan)
        else:
            num_items = self._train.num_items
            positions = batch.hit_positions.to(topk.k.dtype)  # from 0
            by_position = (num_items - positions) / num_items
            surprise = by_position - self._expected.lookup(batch.relevant.items)
        return batch.observed_positions.gains(topk.cutoffs, surprise.clamp(min=0)) / length

    def _hits_beyond_reference(self, topk: TopK) -> Tensor:
        """Return the number of hits that the first k of the reference lack, `[batch, cut-offs]`."""
        batch, relevant, reference = topk.batch, topk.batch.relevant, self._reference
        users, items = batch.users[relevant.rows], relevant.fill_invalid(relevant.items, -1)
        ranks = reference.find_ranks(users, items)
        is_missing = [((ranks == 0) | (ranks > k)).to(topk.k.dtype) for k in topk.cutoffs]
        hits = [
            topk.relevant_positions.gains((k,), missing)
            for k, missing in zip(topk.cutoffs, is_missing)
        ]
        lacks = reference.lacks(batch.users)[:, None]
        return torch.where(lacks, torch.nan, torch.cat(hits, dim=1))

    def _dissimilarity(self, batch: Batch, vectors: Numbers) -> tuple[Tensor, Tensor]:
        """Return 1 - the mean cosine of each relevant item and the items of the user's train `[n]`,
        and whether a user has such items, `[batch, 1]`.
        """
        size, history = vectors.values.values.shape[1], self._train.on_device
        profiles = []
        for start, stop in split_rows(batch.size, size * history.row_size(batch.device)):
            rows = history.select(batch.users[start:stop])
            units, exists = unit_vectors(vectors, rows.fill_invalid(rows.items, -1))
            sums = units.new_zeros(stop - start, size).index_add_(0, rows.rows, units)
            counts = rows.sum_rows(exists.to(units.dtype))[:, None]
            profiles.append(sums / torch.where(counts > 0, counts, torch.nan))
        profile = torch.cat(profiles)
        relevant, values = batch.relevant, []
        for start, stop in split_rows(len(relevant.items), size):
            units, exists = unit_vectors(vectors, relevant.items[start:stop])
            cosine = (units * profile.index_select(0, relevant.rows[start:stop])).sum(1)
            values.append(torch.where(exists, 1 - cosine, 0).nan_to_num(0))
        return torch.cat(values), ~torch.isnan(profile[:, :1])

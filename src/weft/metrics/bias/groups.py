"""Opportunity and parity of popular items and of the long tail."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from weft._input_kinds import built_in_inputs
from weft.data import Train
from weft.data.popularity import check_ratio
from weft.errors import check_choice
from weft.metrics.accumulators import (
    ItemAccumulator,
    ItemCandidacy,
    ItemExposure,
    ItemHits,
    ItemRelevance,
)
from weft.metrics.base.formulas import POPULATIONS
from weft.metrics.base.metric import Bounds
from weft.metrics.base.summed import SummedTopKMetric
from weft.metrics.group_rates import rates, relative_spread
from weft.metrics.parameter_types import Population
from weft.metrics.registry import register
from weft.metrics.state_layout import StateView


class _HeadAndTail(SummedTopKMetric):
    """The difference of the rates of head and tail: their standard deviation over their mean, from
    0 (fair) to 1 (one is 0).
    """

    family = "bias"
    needs = built_in_inputs("train")
    higher_is_better = False
    bounds: Bounds = (0.0, 1.0)
    target = 0.0
    reference = (
        "Zhu, Wang and Caverlee (2020), Measuring and mitigating item under-recommendation bias "
        "in personalized ranking systems, doi 10.1145/3397271.3401177"
    )

    def __init__(self, k: int, *, pop_ratio: float = 0.8, **settings: Any) -> None:
        super().__init__(k, **settings)
        self._train: Train = self.inputs["train"]
        self.pop_ratio = check_ratio("pop_ratio", pop_ratio)

    def accumulators(self) -> tuple[ItemAccumulator, ItemAccumulator]:
        """Return the numerator and the denominator of the rates."""
        raise NotImplementedError

    def compute_value(self, state: StateView) -> Tensor:
        tail = self._train.long_tail(self.pop_ratio)
        successes, chances = (state.by_group(one, tail, 2) for one in self.accumulators())
        return relative_spread(rates(successes, chances))


@register
class PopREO(_HeadAndTail):
    r"""Equal opportunity of popular items (head) and long-tail items: the share of relevant items
    that are recommended, compared between the two groups. 0 is fair.

    The head consists of the most popular items, which by default have 80% of all train
    interactions; the other items are the tail.

    The rate of a group is the number of its relevant items that are recommended divided by the
    number of its relevant items, both summed over users. The value is the standard deviation of the
    two rates divided by their mean, which is their difference divided by their sum.

    Formula: \mathrm{PopREO} = \frac{|x_{\mathrm{head}} - x_{\mathrm{tail}}|}{x_{\mathrm{head}} +
    x_{\mathrm{tail}}}, \quad x_g = \frac{\sum_{u \in U} {|L_u \cap R_u \cap I_g|}}{\sum_{u \in U}
    {|R_u \cap I_g|}}

    Symbols: $x$ are the rates of the groups, and $I_g$ is the set of items of a group.

    Parameters:
        pop_ratio: As in ACLT.

    Use: PopREO answers whether relevant long-tail items are found as often as relevant popular
    ones. Use it to see whether popularity bias harms users, while PopRSP and APLT look at exposure
    alone. The value does not tell which group is favoured, nor how well either is served: a bad
    model can be fair, so report Recall next to it. For other groups of items, use REO.

    Related: PopRSP, REO, APLT, Recall.

    Edge cases: relevant items that are not candidates count in the denominator; undefined if a
    group has no relevant item, or if no relevant item is recommended.

    Example: item 0 is the head. Its relevant item is recommended (1/1), and one of two relevant
    items in the tail is (1/2): 0.25 / 0.75.

    >>> import torch, weft
    >>> train = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]])
    >>> metric = weft.metrics.PopREO(k=2, train=train)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 1, 1]]))
    >>> metric.compute()
    tensor(0.3333, dtype=torch.float64)
    """

    undefined = "head or tail has no relevant item, or no relevant item is recommended"

    def accumulators(self) -> tuple[ItemAccumulator, ItemAccumulator]:
        return ItemHits(self._train.num_items), ItemRelevance(self._train.num_items)


@register
class PopRSP(_HeadAndTail):
    r"""Statistical parity of popular items (head) and long-tail items: the share of candidates that
    are recommended, compared between the two groups. 0 is fair.

    The head consists of the most popular items, which by default have 80% of all train
    interactions; the other items are the tail.

    The rate of a group is the number of its recommended (user, item) pairs divided by the number of
    its candidate pairs, over all lists. The value is the standard deviation of the two rates
    divided by their mean, which is their difference divided by their sum.

    Formula: \mathrm{PopRSP} = \frac{|x_{\mathrm{head}} - x_{\mathrm{tail}}|}{x_{\mathrm{head}} +
    x_{\mathrm{tail}}}, \quad x_g = \frac{\sum_{u \in U} {|L_u \cap I_g|}}{\sum_{u \in U} {|C_u \cap
    I_g|}}

    Symbols: $x$ are the rates of the groups, $I_g$ is the set of items of a group, and $U$ are all
    users, with or without relevant items.

    Parameters:
        pop_ratio: As in ACLT.
        users: As in ItemCoverage.

    Use: PopRSP answers whether a long-tail item is as likely to be recommended as a popular one,
    whatever users like. Use it if equal exposure is a goal in itself. Since popular items are
    relevant more often, an accurate model is rarely fair in this sense: PopREO compares relevant
    items only. The value does not tell which group is favoured; APLT does.

    Related: PopREO, RSP, APLT, ARP.

    Edge cases: masked items are not candidates; undefined if a group has no candidate, or if
    nothing is recommended.

    Example: item 0 is the head and is recommended (1/1), and one of the two tail items is (1/2):
    0.25 / 0.75.

    >>> import torch, weft
    >>> train = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 0, 0], [1, 0, 0]])
    >>> metric = weft.metrics.PopRSP(k=2, train=train)
    >>> metric.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 0]]))
    >>> metric.compute()
    tensor(0.3333, dtype=torch.float64)
    """

    is_exposure_metric = True
    undefined = "head or tail has no candidate, or nothing is recommended"

    def __init__(
        self, k: int, *, pop_ratio: float = 0.8, users: Population = "lists", **settings: Any
    ) -> None:
        super().__init__(k, pop_ratio=pop_ratio, **settings)
        self.users = check_choice("users", users, POPULATIONS)

    def accumulators(self) -> tuple[ItemAccumulator, ItemAccumulator]:
        num_items = self._train.num_items
        return ItemExposure(num_items, self.users), ItemCandidacy(num_items, self.users)

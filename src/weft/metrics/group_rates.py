"""What the metrics that compare groups have in common: rates by group of items, and how far numbers
lie apart.
"""

from __future__ import annotations

import torch
from torch import Tensor


def by_group(of_items: Tensor, codes: Tensor, groups: int) -> Tensor:
    """Sums over the items of each group `[groups]`; items without a group (-1) are left out."""
    return torch.bincount(codes + 1, weights=of_items, minlength=groups + 1)[1:]


def rates(successes: Tensor, chances: Tensor) -> Tensor:
    """Successes over chances; NaN without a chance."""
    return successes / torch.where(chances > 0, chances, torch.nan)


def relative_spread(values: Tensor) -> Tensor:
    """Population standard deviation over mean of the values that are defined; NaN for fewer than
    two, or if all are 0.
    """
    defined = values[~torch.isnan(values)]
    if len(defined) < 2:
        return torch.full_like(values.sum(), torch.nan)
    return defined.std(correction=0) / defined.mean()


def mean_difference(values: Tensor) -> Tensor:
    """The mean absolute difference over all pairs of the values that are defined; NaN for fewer
    than two.
    """
    defined = values[~torch.isnan(values)]
    if len(defined) < 2:
        return torch.full_like(values.sum(), torch.nan)
    return torch.pdist(defined[:, None], p=1).mean()

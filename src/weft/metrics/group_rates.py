"""Comparison of groups of items or users: rates, and how much numbers differ."""

from __future__ import annotations

import torch
from torch import Tensor


def rates(successes: Tensor, chances: Tensor) -> Tensor:
    """Return successes over chances; NaN without a chance."""
    return successes / torch.where(chances > 0, chances, torch.nan)


def relative_spread(values: Tensor) -> Tensor:
    """Return the population standard deviation over the mean of the defined values.

    NaN for fewer than two defined values, or if all are 0."""
    defined = values[~torch.isnan(values)]
    if len(defined) < 2:
        return torch.full_like(values.sum(), torch.nan)
    return defined.std(correction=0) / defined.mean()


def mean_difference(values: Tensor) -> Tensor:
    """Return the mean absolute difference over all pairs of the defined values.

    NaN for fewer than two defined values."""
    defined = values[~torch.isnan(values)]
    if len(defined) < 2:
        return torch.full_like(values.sum(), torch.nan)
    return torch.pdist(defined[:, None], p=1).mean()

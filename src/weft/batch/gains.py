"""Gains of relevant items by their ratings, and discounts of positions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from weft._choices import Discount, GainName, choices
from weft.errors import SettingError, check_choice

GAINS = choices(GainName)
DISCOUNTS = choices(Discount)
# The name of a gain, or the gains of some ratings, ascending; other ratings are their own gain.
Gain = str | tuple[tuple[float, float], ...]
GainSetting = GainName | Mapping[int, float] | Mapping[float, float] | Iterable[tuple[float, float]]


def check_gain(gain: GainSetting) -> Gain:
    """Return the name of a gain, or `{rating: gain}` as sorted pairs. Raises `SettingError`."""
    if isinstance(gain, str):
        return check_choice("gain", gain, GAINS)
    try:
        pairs = [(float(r), float(g)) for r, g in dict(gain).items()]
        is_valid = all(math.isfinite(r) and 0 <= g < math.inf for r, g in pairs)
    except (TypeError, ValueError):
        is_valid = False
    if not is_valid or not pairs:
        raise SettingError(
            f"got gain={gain!r}; expected one of {', '.join(GAINS)}, or gains of at least 0 by "
            "rating, such as {1: 3, 2: 9}; in a name, write gain=[[1, 3], [2, 9]]."
        )
    return tuple(sorted(pairs))


def compute_gain(ratings: Tensor, gain: Gain) -> Tensor:
    """Return the gain of relevant items with these ratings."""
    if isinstance(gain, tuple):
        gains = ratings
        for rating, value in gain:
            gains = torch.where(ratings == rating, value, gains)
        return gains
    if gain == "binary":
        return torch.ones_like(ratings)
    if gain == "linear":
        return ratings
    exponents = ratings + 1 if gain == "exponential_shifted" else ratings
    gains = torch.exp2(exponents) - 1  # exact for integers, but 0 for ratings close to 0
    return torch.where(exponents.abs() < 0.5, torch.expm1(exponents * math.log(2)), gains)


def discount_divisor(positions: Tensor, discount: str) -> Tensor:
    """Return what gains at positions (from 1) are divided by; `discount` is one of `DISCOUNTS`."""
    if discount == "log":
        return torch.log2(positions + 1)
    return positions if discount == "reciprocal" else torch.log2(positions).clamp(min=1)

"""Sums over users from which a mean and its standard error are computed.

A standard error is the root of a small difference of large sums if values are close to each other
and far from 0: for a mean of 10^8 deviations, all 16 digits of a float64 cancel. The sums of
`SPREAD_SUMS` are therefore stored in four parts of decreasing magnitude, 100 bits in all. A batch
is added up around its own mean, and each part but the last is rounded to 16 bits. Parts of 2^37
times the size of a batch are added without an error, so that states merge by adding vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from weft.data import Labels

SPREAD_SUMS = ("weight", "weighted", "weight2", "weight2_value", "weight2_value2")
NUM_PARTS = 4
# The sums of a mean, plain, and the parts of those that its standard error is computed from.
MEAN_SUMS = (
    *("users", "weight", "weighted"),
    *(f"{name}.{part}" for part in range(NUM_PARTS) for name in SPREAD_SUMS),
)
PLAIN_SUMS = MEAN_SUMS[:3]  # those of a mean without a standard error
_NUM_PLAIN = len(PLAIN_SUMS)
# A spread below this share of the sum of squares is rounding: all users have the same value.
_ROUNDING = 1e-28
# Binary digits of a type, and of a part.
_DIGITS = {torch.float64: (53, 16), torch.float32: (24, 7)}

# Adds up terms `[batch, n]` over the users of a batch: `[n]` each, or `[groups, n]`.
_AddUp = Callable[[Sequence[Tensor]], Sequence[Tensor]]
_Terms = tuple[Tensor, ...]


def plain_sums(values: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the `PLAIN_SUMS` `[3, n]` of values `[batch, n]`; NaN is left out."""
    is_defined = ~torch.isnan(values)
    x, users = torch.where(is_defined, values, 0), is_defined.sum(0, dtype=values.dtype)
    if weights is None:
        return torch.stack([users, users, x.sum(0)])
    w = torch.where(is_defined, weights[:, None].to(x.dtype), 0)
    return torch.stack([users, w.sum(0), (w * x).sum(0)])


def mean_sums(values: Tensor, weights: Tensor | None = None) -> Tensor:
    """Return the `MEAN_SUMS` `[len(MEAN_SUMS), n]` of values `[batch, n]`; NaN is left out."""
    return _mean_sums(values, weights, lambda terms: [term.sum(0) for term in terms])


def mean_sums_by_group(
    values: Tensor, groups: Labels, *, users: Tensor, weights: Tensor | None = None
) -> Tensor:
    """Return the `mean_sums` of each user group, `[groups, len(MEAN_SUMS), n]`.

    Users without a label are left out."""
    num_groups = len(groups.names)
    group = groups.codes.lookup(users, -1)
    group = torch.where(group >= 0, group, num_groups)  # an extra group, which is dropped

    def add_up(terms: Sequence[Tensor]) -> Sequence[Tensor]:
        stacked = torch.stack(list(terms), dim=1)
        totals = stacked.new_zeros((num_groups + 1, *stacked.shape[1:]))
        return totals.index_add_(0, group, stacked).unbind(1)

    return _mean_sums(values, weights, add_up, group)[:, :-1].movedim(1, 0)


def _mean_sums(
    values: Tensor, weights: Tensor | None, add_up: _AddUp, group: Tensor | None = None
) -> Tensor:
    """Return the `MEAN_SUMS` of values, `[len(MEAN_SUMS), ...]`."""
    is_defined = ~torch.isnan(values)
    x, ones = torch.where(is_defined, values, 0), is_defined.to(values.dtype)
    if weights is None:
        users, weighted = add_up([ones, x])
        w, weight = ones, users
    else:
        w = torch.where(is_defined, weights[:, None].to(x.dtype), 0)
        users, weight, weighted, weight2 = add_up([ones, w, w * x, w * w])
    center = high_half((weighted / weight).nan_to_num(0, 0, 0))
    deviation = x.sub_(center if group is None else center[group]).mul_(w)
    if weights is None:
        first, second = add_up([deviation, deviation * deviation])
        total, square = _expand(center, weight, first, second)
        w_parts, total_parts, square_parts = split_terms([(weight,), total, square]).unbind(1)
        parts = torch.stack([w_parts, total_parts] * 2 + [square_parts], dim=1)
    else:
        first, *moments2 = add_up([deviation, w * deviation, deviation * deviation])
        total, _ = _expand(center, weight, first, first)
        total2, square2 = _expand(center, weight2, *moments2)
        parts = split_terms([(weight,), total, (weight2,), total2, square2])
    return torch.cat([torch.stack([users, weight, weighted]), parts.flatten(0, 1)])


def high_half(x: Tensor) -> Tensor:
    """Round numbers to the first half of their digits (Veltkamp): products of halves are exact."""
    digits, _ = _DIGITS[x.dtype]
    scaled = x * (2.0 ** ((digits + 1) // 2) + 1)
    return scaled - (scaled - x)


def _expand(center: Tensor, weight: Tensor, first: Tensor, second: Tensor) -> tuple[_Terms, _Terms]:
    """Return terms with the exact sums of w x and of w x^2.

    `first` and `second` are the sums of w (x - center) and of w (x - center)^2. `center` has half
    of the digits of its type, so that all products are exact."""
    numbers = torch.stack([weight, 2 * first, center * center])
    high = high_half(numbers)
    (w, d, square), (w_low, d_low, square_low) = high, numbers - high
    total = (w * center, w_low * center, first)
    products = (w * square, w * square_low, w_low * square, w_low * square_low)
    return total, (*products, d * center, d_low * center, second)


def split_terms(expansions: Sequence[_Terms]) -> Tensor:
    """Return the sums of some terms each, `[parts, sums, ...]`, in parts of decreasing magnitude.

    Adding a large number and subtracting it again rounds all terms to the same last digit, without
    an error in the rest (Rump, Ogita and Oishi 2008, doi 10.1137/050645671)."""
    num_terms = max(map(len, expansions))
    zero = torch.zeros_like(expansions[0][0])
    padded = [term for terms in expansions for term in (*terms, *[zero] * (num_terms - len(terms)))]
    rest = torch.stack(padded).reshape(len(expansions), num_terms, *zero.shape)
    largest = rest.abs().amax(1, keepdim=True)
    digits, part_digits = _DIGITS[rest.dtype]
    parts = []
    for part in range(1, NUM_PARTS):
        offset = largest * 2.0 ** (digits - part * part_digits)
        rounded = (rest + offset).sub_(offset)
        parts.append(rounded.sum(1))
        rest -= rounded
    return torch.stack([*parts, rest.sum(1)])


def standard_error_from_sums(sums: Tensor) -> float:
    """Return the standard error from `MEAN_SUMS`.

    With equal weights it is the sample standard deviation over the root of the number of users."""
    numbers: list[float] = sums.tolist()
    users, weight = numbers[:2]
    if users <= 1 or not all(map(math.isfinite, numbers)):
        return math.nan
    ratios = [number.as_integer_ratio() for number in numbers[_NUM_PLAIN:]]
    unit = max(denominator for _, denominator in ratios)  # all are powers of 2
    parts = [numerator * (unit // denominator) for numerator, denominator in ratios]
    w, wx, w2, w2x, w2x2 = (sum(parts[row :: len(SPREAD_SUMS)]) for row in range(len(SPREAD_SUMS)))
    if w == 0:
        return math.nan
    spread = (w2x2 * w * w - 2 * wx * w2x * w + wx * wx * w2) / (w * w * unit)
    if spread <= _ROUNDING * (w2x2 / unit):
        return 0.0
    return math.sqrt(users / (users - 1) * spread) / weight

"""Sums from which variances and the covariance of two quantities are computed.

A variance is a small difference of large sums if values are far from 0 and close to each other. As
in `weft.metrics.mean_sums`, each sum is therefore stored in parts of decreasing magnitude, 100 bits
in all, and read as a fraction.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import torch
from torch import Tensor

from weft.data.tensors import SparseRows
from weft.metrics.mean_sums import NUM_PARTS, high_half, split_terms

# The number of pairs (x, y), and the parts of the sums of x, y, x², y² and xy.
_NUM_MOMENTS = 5
NUM_MOMENT_SUMS = 1 + NUM_PARTS * _NUM_MOMENTS
# A spread below this share of the sum of squares is rounding: all values are equal.
_ROUNDING = Fraction(1, 10**28)


@dataclass(frozen=True)
class Spread:
    """Population variances of x, of y and of y - x, the covariance of x and y, and the mean of
    (y - x)². All are NaN without values, and infinite if squares overflow.
    """

    x: Tensor
    y: Tensor
    difference: Tensor
    covariance: Tensor
    squared_difference: Tensor


def moment_sums(x: Tensor, y: Tensor, is_counted: Tensor, rows: SparseRows) -> Tensor:
    """Return the sums of pairs `[n]` for each row, `[rows, NUM_MOMENT_SUMS]`.

    They are of deviations from a center, and then moved to 0 without rounding errors."""
    number = rows.sum_rows(is_counted.to(x.dtype))
    total = number.sum().clamp(min=1)
    center_x, center_y = (high_half(torch.where(is_counted, z, 0).sum() / total) for z in (x, y))
    dx, dy = (torch.where(is_counted, z - c, 0) for z, c in ((x, center_x), (y, center_y)))
    sum_x, sum_y = rows.sum_rows(dx), rows.sum_rows(dy)
    terms = [
        (number * center_x, sum_x),
        (number * center_y, sum_y),
        _product_terms(number, (center_x, center_x), (sum_x, sum_x), rows.sum_rows(dx * dx)),
        _product_terms(number, (center_y, center_y), (sum_y, sum_y), rows.sum_rows(dy * dy)),
        _product_terms(number, (center_x, center_y), (sum_x, sum_y), rows.sum_rows(dx * dy)),
    ]
    return torch.cat([number[None], split_terms(terms).flatten(0, 1)]).T


def _product_terms(
    number: Tensor, centers: tuple[Tensor, Tensor], sums: tuple[Tensor, Tensor], products: Tensor
) -> tuple[Tensor, ...]:
    """Return terms with the exact sum of x y, from deviations: their sums, and the sum of
    their products.

    Centers have half of the digits of their type, so that all products are exact."""
    (center_x, center_y), (sum_x, sum_y) = centers, sums
    product = center_x * center_y
    terms = [products]
    for factor, summand in ((number, product), (center_x, sum_y), (center_y, sum_x)):
        high = high_half(summand)
        terms += [factor * high, factor * (summand - high)]
    return tuple(terms)


def read_spread(sums: Tensor) -> Spread:
    """Return the spread from the sums of all pairs, `[NUM_MOMENT_SUMS]`."""
    number, *parts = sums.tolist()
    if number == 0 or not all(map(math.isfinite, parts)):
        undefined = sums.new_tensor(math.nan if number == 0 else math.inf)
        return Spread(undefined, undefined, undefined, undefined, undefined)
    x, y, xx, yy, xy = (
        sum(map(Fraction, parts[moment::_NUM_MOMENTS])) / Fraction(number)
        for moment in range(_NUM_MOMENTS)
    )
    var_x, var_y = _variance(x, xx), _variance(y, yy)
    covariance = xy - x * y if var_x and var_y else Fraction(0)
    difference = _variance(y - x, yy - 2 * xy + xx)
    fractions = (var_x, var_y, difference, covariance, yy - 2 * xy + xx)
    return Spread(*(sums.new_tensor(float(one)) for one in fractions))


def _variance(mean: Fraction, mean_square: Fraction) -> Fraction:
    spread = mean_square - mean * mean
    return spread if spread > _ROUNDING * mean_square else Fraction(0)


def row_spread(x: Tensor, y: Tensor, is_counted: Tensor, rows: SparseRows) -> Spread:
    """Return the spread of the pairs `[n]` of each row, `[rows]`."""
    number = rows.sum_rows(is_counted.to(x.dtype))

    def center(z: Tensor) -> Tensor:
        # The lowest value is subtracted first: equal values become exactly 0.
        lowest = z.new_full((rows.num_rows,), torch.inf)
        filled = torch.where(is_counted, z, torch.inf)
        lowest = lowest.scatter_reduce(0, rows.rows, filled, "amin")
        above = torch.where(is_counted, z - lowest[rows.rows], 0)
        mean = rows.sum_rows(above) / number
        return torch.where(is_counted, above - mean[rows.rows], 0)

    dx, dy, gap = center(x), center(y), torch.where(is_counted, y - x, 0)
    deviation = dy - dx
    products = (dx * dx, dy * dy, deviation * deviation, dx * dy, gap * gap)
    return Spread(*(rows.sum_rows(product) / number for product in products))

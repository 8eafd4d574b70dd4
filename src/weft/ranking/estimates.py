"""What ranks among sampled candidates say of ranks among all items, after Krichene and Rendle
(2020), doi 10.1145/3394486.3403226.

Of `eligible` negatives, `negatives` are drawn uniformly without replacement. If `a` of the eligible
ones rank above an item, the number `above` of drawn ones that do is hypergeometric. Both numbers go
back from `above` to `a`: to one whole number, or to weights over all it can be."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

# Numbers that a table of chances may hold at once.
_TILE = 1 << 20
# What is smaller than this, against 1, changes nothing in double precision.
_NOTHING = 1e-17


def estimate_ranks(above: Tensor, negatives: Tensor, eligible: Tensor) -> Tensor:
    """`above * eligible / negatives`, the unbiased estimate of the number above, rounded to the
    nearest whole number (half: up).
    """
    return torch.div(
        2 * above * eligible + negatives, (2 * negatives).clamp(min=1), rounding_mode="floor"
    )


def estimate_weights(
    above: Tensor, negatives: Tensor, eligible: Tensor, *, gamma: float, depth: int
) -> Tensor:
    """For each of `[n]` observations, weights `[n, depth]`: w[a] estimates whether `a` negatives
    rank above, 1 or 0.

    Σ_a w[a] f(a) is then the estimate of f(a) that minimises bias² + γ variance, summed over all
    `a` from 0 to `eligible` alike, for every f at once. With γ = 1 it is the mean of f given the
    observation; with `negatives = eligible` it is exact. Weights may be negative. All tensors are
    on the CPU.

    The normal equations ((1-γ) A'A + γ C) f̂ = A'b are solved in closed form. With all `a` alike,
    every number of drawn ones is equally likely (C is the identity over m + 1), and the discrete
    Chebyshev polynomials are eigenvectors of A'A. Its eigenvalues ρ_d² / (m + 1) fall so fast with
    the degree d that for a large m few of them matter: beyond, the solution is that of A'A = 0."""
    weights = torch.zeros((len(above), depth), dtype=torch.float64)
    if len(above) == 0:
        return weights
    keys = negatives * (int(eligible.max()) + 1) + eligible
    by_pool = keys.argsort(stable=True)
    starts = (keys[by_pool].diff(prepend=keys.new_full((1,), -1)) > 0).nonzero().flatten()
    rows = torch.tensor_split(by_pool, starts[1:])  # of each pool
    sizes = torch.stack([negatives, eligible], dim=1)[by_pool[starts]]
    for m in sorted(set(sizes[:, 0].tolist())):
        width = min(m, depth - 1) + 1
        for some in torch.split(
            (sizes[:, 0] == m).nonzero().flatten(), max(1, _TILE // (width * depth))
        ):
            of_pool = sizes[some, 1]
            means = _posterior(m, of_pool, width, depth)
            shrink, basis = _shrinkage(m, of_pool, gamma)
            degrees = (shrink > 0).sum(1).tolist()
            for number, place in enumerate(some.tolist()):
                x, some_of = above[rows[place]], slice(degrees[number])
                own = (x[:, None] == torch.arange(width)).double() * (
                    1.0 if m == int(of_pool[number]) else 1 / gamma
                )
                others = (basis[x, some_of] * shrink[number, some_of]) @ basis[:width, some_of].T
                weights[rows[place]] = (own - others) @ means[number]
    return weights


def _posterior(m: int, eligible: Tensor, width: int, depth: int) -> Tensor:
    """The chance of `a` given x out of m, `[pools, width, depth]`, for x < width and a < depth.

    It is h(x | a) (m + 1) / (E + 1). The a best negatives are in the sample or not one after the
    other: h(. | a + 1) from h(. | a)."""
    of_pool, x = eligible.numpy()[:, None].astype(np.float64), np.arange(width)
    a = np.arange(depth)[:, None, None]
    left = np.where(of_pool > a, of_pool - a, np.inf)  # there is no more to come
    missed, drawn = np.maximum(of_pool - m - a + x, 0) / left, (m - x + 1) / left
    table = np.zeros((depth, len(eligible), width))
    table[0, :, 0] = 1
    for step in range(depth - 1):
        np.multiply(table[step], missed[step], out=table[step + 1])
        table[step + 1, :, 1:] += table[step, :, :-1] * drawn[step, :, 1:]
    return torch.from_numpy(table * ((m + 1) / (of_pool + 1))).permute(1, 2, 0)


def _shrinkage(m: int, eligible: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """By how much 1 / ((1-γ) ρ_d² + γ) falls short of 1 / γ, `[pools, degrees]`; and the
    polynomials, `[m + 1, degrees]`.
    """
    larger = eligible[eligible > m]  # where all are drawn, there is nothing to solve
    if gamma == 1 or len(larger) == 0:
        return torch.zeros((len(eligible), 0), dtype=torch.float64), torch.zeros(
            (m + 1, 0), dtype=torch.float64
        )
    least = _log_eigenvalues(m, larger.min()[None], m)
    matter = int((least > math.log(_NOTHING * gamma)).sum())
    degrees = min(m + 1, -(-matter // 16) * 16)  # rounded up, so that batches share the polynomials
    power = (1 - gamma) * _log_eigenvalues(m, eligible, degrees - 1).exp()
    power[power < _NOTHING * gamma] = 0
    return torch.where(eligible[:, None] > m, power / (gamma * (power + gamma)), 0), _polynomials(
        m, degrees
    )


def _log_eigenvalues(m: int, eligible: Tensor, last: int) -> Tensor:
    """log ρ_d², `[pools, last + 1]`: ρ_d² is m falling d over E falling d, times E + 2 rising d
    over m + 2 rising d.
    """
    d = torch.arange(last, dtype=torch.float64)
    of_pool = eligible[:, None].double()
    steps = torch.log((m - d) / (of_pool - d).clamp(min=1)) + torch.log(
        (of_pool + 2 + d) / (m + 2 + d)
    )
    return torch.nn.functional.pad(steps.cumsum(1), (1, 0))


@lru_cache(maxsize=8)
def _polynomials(m: int, degrees: int) -> Tensor:
    """The discrete Chebyshev polynomials on 0 to m of the first degrees, orthonormal, `[m + 1,
    degrees]`.

    They solve a difference equation, so that they are the first eigenvectors of a tridiagonal
    matrix with eigenvalues d (d + 1)."""
    from scipy.linalg import eigh_tridiagonal

    between = np.arange(m + 2.0) * (m + 1 - np.arange(m + 2.0))
    chosen = {"select": "i", "select_range": (0, degrees - 1), "lapack_driver": "stemr"}
    _, vectors = eigh_tridiagonal(between[:-1] + between[1:], -between[1:-1], **chosen)
    return torch.from_numpy(vectors)

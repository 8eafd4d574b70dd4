"""Estimates of ranks among all items from ranks among sampled negatives.

After Krichene and Rendle (2020), doi 10.1145/3394486.3403226. Of `eligible` negatives, `negatives`
are drawn uniformly without replacement. If `a` of the eligible ones rank above an item, the number
`above` of drawn ones that do is hypergeometric. Both functions invert that: to one integer, or to
weights over all values of `a`."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

# Elements of a table of probabilities.
_TABLE_SIZE = 1 << 20
# Terms below this, relative to 1, change nothing in double precision.
_NEGLIGIBLE = 1e-17


def estimate_ranks(above: Tensor, negatives: Tensor, eligible: Tensor) -> Tensor:
    """Return the unbiased estimate `above * eligible / negatives`, rounded (half up)."""
    return torch.div(
        2 * above * eligible + negatives, (2 * negatives).clamp(min=1), rounding_mode="floor"
    )


def estimate_weights(
    above: Tensor, negatives: Tensor, eligible: Tensor, *, gamma: float, depth: int
) -> Tensor:
    """Return weights `[n, depth]`: w[a] estimates whether `a` negatives rank above.

    Σ_a w[a] f(a) is then the estimate of f(a) that minimises bias² + γ variance, summed over all
    `a` from 0 to `eligible` with equal weight, for every f at once. With γ = 1 it is the mean of f
    given the observation; with `negatives = eligible` it is exact. Weights may be negative. All
    tensors are on the CPU.

    The normal equations ((1-γ) A'A + γ C) f̂ = A'b are solved in closed form. With equal weights,
    every number of drawn ones is equally likely (C is the identity over m + 1), and the discrete
    Chebyshev polynomials are eigenvectors of A'A. Its eigenvalues ρ_d² / (m + 1) fall so fast with
    the degree d that for a large m few of them matter: beyond, the solution is that of A'A = 0."""
    weights = torch.zeros((len(above), depth), dtype=torch.float64)
    if len(above) == 0:
        return weights
    keys = negatives * (int(eligible.max()) + 1) + eligible
    by_pool = keys.argsort(stable=True)
    starts = (keys[by_pool].diff(prepend=keys.new_full((1,), -1)) > 0).nonzero().flatten()
    rows = torch.tensor_split(by_pool, starts[1:])  # the observations of each pool
    sizes = torch.stack([negatives, eligible], dim=1)[by_pool[starts]]
    for m in sorted(set(sizes[:, 0].tolist())):
        width = min(m, depth - 1) + 1
        pools = (sizes[:, 0] == m).nonzero().flatten()
        for tile in torch.split(pools, max(1, _TABLE_SIZE // (width * depth))):
            pool_sizes = sizes[tile, 1]
            means = _compute_posterior(m, pool_sizes, width=width, depth=depth)
            shrinkage, basis = _compute_shrinkage(m, pool_sizes, gamma)
            degrees = (shrinkage > 0).sum(1).tolist()
            for number, pool in enumerate(tile.tolist()):
                x, kept = above[rows[pool]], slice(degrees[number])
                scale = 1.0 if m == int(pool_sizes[number]) else 1 / gamma
                own = (x[:, None] == torch.arange(width)).double() * scale
                others = (basis[x, kept] * shrinkage[number, kept]) @ basis[:width, kept].T
                weights[rows[pool]] = (own - others) @ means[number]
    return weights


def _compute_posterior(m: int, eligible: Tensor, *, width: int, depth: int) -> Tensor:
    """Return the probability of `a` given x out of m, `[pools, width, depth]`.

    For x < width and a < depth it is h(x | a) (m + 1) / (E + 1). The a best negatives are in the
    sample or not, one after the other: h(. | a + 1) from h(. | a)."""
    size, x = eligible.numpy()[:, None].astype(np.float64), np.arange(width)
    a = np.arange(depth)[:, None, None]
    left = np.where(size > a, size - a, np.inf)
    missed, drawn = np.maximum(size - m - a + x, 0) / left, (m - x + 1) / left
    table = np.zeros((depth, len(eligible), width))
    table[0, :, 0] = 1
    for step in range(depth - 1):
        np.multiply(table[step], missed[step], out=table[step + 1])
        table[step + 1, :, 1:] += table[step, :, :-1] * drawn[step, :, 1:]
    return torch.from_numpy(table * ((m + 1) / (size + 1))).permute(1, 2, 0)


def _compute_shrinkage(m: int, eligible: Tensor, gamma: float) -> tuple[Tensor, Tensor]:
    """Return 1/γ - 1/((1-γ) ρ_d² + γ), `[pools, degrees]`, and polynomials `[m + 1, degrees]`."""
    larger = eligible[eligible > m]  # if all are drawn, there is nothing to solve
    if gamma == 1 or len(larger) == 0:
        nothing = torch.zeros((len(eligible), 0), dtype=torch.float64)
        return nothing, nothing.new_zeros((m + 1, 0))
    smallest = _log_eigenvalues(m, larger.min()[None], m)
    num_relevant = int((smallest > math.log(_NEGLIGIBLE * gamma)).sum())
    degrees = min(m + 1, -(-num_relevant // 16) * 16)  # rounded up: batches share the polynomials
    power = (1 - gamma) * _log_eigenvalues(m, eligible, degrees - 1).exp()
    power[power < _NEGLIGIBLE * gamma] = 0
    shrinkage = torch.where(eligible[:, None] > m, power / (gamma * (power + gamma)), 0)
    return shrinkage, _polynomials(m, degrees)


def _log_eigenvalues(m: int, eligible: Tensor, last: int) -> Tensor:
    """Return log ρ_d², `[pools, last + 1]`.

    ρ_d² is m falling d over E falling d, times E + 2 rising d over m + 2 rising d."""
    d = torch.arange(last, dtype=torch.float64)
    size = eligible[:, None].double()
    steps = torch.log((m - d) / (size - d).clamp(min=1)) + torch.log((size + 2 + d) / (m + 2 + d))
    return torch.nn.functional.pad(steps.cumsum(1), (1, 0))


@lru_cache(maxsize=8)
def _polynomials(m: int, degrees: int) -> Tensor:
    """Return the first orthonormal discrete Chebyshev polynomials on 0 to m, `[m + 1, degrees]`.

    They solve a difference equation, and so are the first eigenvectors of a tridiagonal matrix with
    eigenvalues d (d + 1)."""
    from scipy.linalg import eigh_tridiagonal

    between = np.arange(m + 2.0) * (m + 1 - np.arange(m + 2.0))
    selection = {"select": "i", "select_range": (0, degrees - 1), "lapack_driver": "stemr"}
    _, vectors = eigh_tridiagonal(between[:-1] + between[1:], -between[1:-1], **selection)
    return torch.from_numpy(vectors)

"""What ranking all items costs beside ranking sampled candidates, from factors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from scipy.sparse import csr_matrix

import weft
from benchmarks.clock import Ratio, measure
from benchmarks.data import CUTOFFS, RELEVANT, SEEN, SIX, draw

USERS, ITEMS, DIMENSIONS = 20_000, 50_000, 64
UNIFORM = "99 negatives, uniform"


def cases(users: int = USERS, items: int = ITEMS) -> dict[str, Callable[[], weft.Result]]:
    """Whole evaluations of one pair of factors."""
    generator = torch.Generator().manual_seed(0)
    source = weft.Factors(
        *(torch.randn(size, DIMENSIONS, generator=generator) for size in (users, items))
    )
    cells = draw(users, items, RELEVANT + SEEN, np.random.default_rng(0))
    truth, train = (_matrix(part, items) for part in (cells[:, :RELEVANT], cells[:, RELEVANT:]))

    def evaluation(metrics: list[str], **settings: object) -> Callable[[], weft.Result]:
        return lambda: weft.evaluate(
            source, truth, train=train, metrics=metrics, top_k=CUTOFFS, **settings
        )

    return {
        UNIFORM: evaluation(SIX, strategy="sampled"),
        "99 negatives, by popularity": evaluation(
            SIX, strategy="sampled", negative_sampling="popularity"
        ),
        "999 negatives, uniform": evaluation(SIX, strategy="sampled", num_negatives=999),
        "all items": evaluation(SIX),
        "99 negatives, uniform, with AUC": evaluation([*SIX, "AUC"], strategy="sampled"),
        "all items, with AUC": evaluation([*SIX, "AUC"]),
    }


def compare(rounds: int) -> dict[str, Ratio]:
    """Each as a multiple of the first."""
    return measure(cases(), UNIFORM, rounds)


def _matrix(cells: np.ndarray, items: int) -> csr_matrix:
    users, per_user = cells.shape
    return csr_matrix(
        (
            np.ones(cells.size),
            np.sort(cells, axis=1).ravel(),
            np.arange(0, cells.size + 1, per_user),
        ),
        (users, items),
    )

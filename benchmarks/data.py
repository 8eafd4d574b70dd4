"""The made-up data that everything is measured on: random scores, a sparse truth, a sparse train,
labels.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_matrix

CUTOFFS = [5, 10, 20, 50, 100]
SIX = ["Precision", "Recall", "HitRate", "MAP", "MRR", "nDCG"]
# items, users. As many users as make the scores about 100 MB, 400 MB and 1 GB of float32.
SIZES = {"S": (3_706, 6_040), "M": (50_000, 2_000), "L": (1_000_000, 256)}
RELEVANT, SEEN = 10, 100


@dataclass(frozen=True)
class Problem:
    """Scores `[users, items]` (float32), what users wanted, what they had met, and labels for
    metrics that compare groups.
    """

    scores: torch.Tensor
    truth: csr_matrix
    train: csr_matrix
    about: dict[str, Any] = field(default_factory=dict)  # user_groups, item_clusters, item_features

    @property
    def users(self) -> int:
        """How many users there are."""
        return int(self.scores.shape[0])

    @property
    def items(self) -> int:
        """How many items there are."""
        return int(self.scores.shape[1])

    def first(self, users: int) -> Problem:
        """The same for some of the users: slow tools are measured on fewer, against `torch.topk` on
        the same ones.
        """
        about = {
            name: given[:users] if name == "user_groups" else given
            for name, given in self.about.items()
        }
        return Problem(self.scores[:users], self.truth[:users], self.train[:users], about)


def make(items: int, users: int, seed: int = 0) -> Problem:
    """About 10 relevant and 100 seen items per user, never both; 20 clusters and features, two
    groups.
    """
    generator = np.random.default_rng(seed)
    scores = torch.randn(users, items, generator=torch.Generator().manual_seed(seed))
    cells = draw(users, items, RELEVANT + SEEN, generator)
    relevant = np.arange(cells.shape[1]) < RELEVANT
    three = csr_matrix(
        (np.ones(3 * items), generator.integers(0, 20, 3 * items), np.arange(0, 3 * items + 1, 3)),
        shape=(items, 20),
    )
    three.sum_duplicates()
    three.data[:] = 1  # an item may have drawn a feature twice
    about = {
        "user_groups": generator.choice(["F", "M"], users),
        "item_clusters": generator.integers(0, 20, items),
        "item_features": three,
    }
    return Problem(
        scores, _matrix(cells[:, relevant], items), _matrix(cells[:, ~relevant], items), about
    )


def draw(
    users: int, items: int, per_user: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """`per_user` different random items for each user: one from each of as many equal stretches of
    the catalogue, shuffled.
    """
    starts = np.arange(per_user) * items // per_user
    widths = np.diff(np.append(starts, items))
    cells = starts + generator.integers(0, widths, (users, per_user))
    return generator.permuted(cells, axis=1)


def _matrix(cells: NDArray[np.int64], items: int) -> csr_matrix:
    users, per_user = cells.shape
    matrix = csr_matrix(
        (np.ones(cells.size), cells.ravel(), np.arange(0, cells.size + 1, per_user)),
        shape=(users, items),
    )
    matrix.sort_indices()
    return matrix

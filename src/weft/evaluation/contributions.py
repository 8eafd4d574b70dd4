"""Contributions of single users to the state, stored for resampling and for dropping repeats."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.batch.batch import Batch
from weft.data.sorted_values import SortedArray, SortedValues
from weft.evaluation.resample_weights import Floats, UserWeights, jackknife_hashes, rows_per_block
from weft.metrics.accumulators import Contribution
from weft.metrics.state_layout import StateLayout

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

ROW_PREFIX = "contribution_"  # of the names of these tensors in `EvaluationState.rows`


@dataclass(frozen=True)
class UserContributions:
    """Contributions of each of some users to every sum, on the CPU.

    They take 8 bytes per user and column of means, and 12 per other nonzero term.
    """

    keys: Tensor  # identify users for resampling, [users]
    values: Floats  # averaged over users, [users, columns]; NaN if undefined
    weights: dict[int, Floats]  # of users, [users], for columns that do not count users alike
    terms: csr_matrix  # all other terms, [users, terms]
    counts: Floats  # see `counts.BatchCounter`, [users, counts]

    @classmethod
    def from_batch(
        cls,
        batch: Batch,
        layout: StateLayout,
        terms: Sequence[tuple[slice, Contribution]],
        counts: Tensor,
    ) -> UserContributions:
        """Return the contributions of the users of a batch."""
        weights = {
            column: weight.cpu().double().numpy()
            for column, weight in layout.user_weights(batch).items()
        }
        values = layout.user_values(batch).cpu().double().numpy()
        sparse = _to_sparse(batch.size, layout.other_sums, terms)
        return cls(batch.user_keys.cpu(), values, weights, sparse, counts.cpu().double().numpy())

    def to_rows(self) -> dict[str, Tensor]:
        """Return tensors that can be concatenated with those of other users."""
        tensors = {
            "keys": self.keys,
            "values": torch.from_numpy(self.values),
            "counts": torch.from_numpy(self.counts),
            "lengths": torch.from_numpy(np.diff(self.terms.indptr).astype(np.int64)),
            "indices": torch.from_numpy(self.terms.indices.astype(np.int64)),
            "terms": torch.from_numpy(self.terms.data),
        }
        tensors |= {
            f"weights_{column}": torch.from_numpy(weights)
            for column, weights in self.weights.items()
        }
        return {f"{ROW_PREFIX}{name}": tensor for name, tensor in tensors.items()}

    @classmethod
    def from_rows(cls, rows: Mapping[str, Tensor], layout: StateLayout) -> UserContributions | None:
        """Build contributions from the rows of a state; None if it has none."""
        from scipy.sparse import csr_matrix

        arrays = {
            name.removeprefix(ROW_PREFIX): tensor.cpu().numpy()
            for name, tensor in rows.items()
            if name.startswith(ROW_PREFIX)
        }
        if not arrays:
            return None
        weights = {
            int(name.removeprefix("weights_")): array
            for name, array in arrays.items()
            if name.startswith("weights_")
        }
        starts = np.concatenate([[0], np.cumsum(arrays["lengths"])])
        shape = (len(arrays["keys"]), layout.other_sums.stop - layout.other_sums.start)
        terms = csr_matrix((arrays["terms"], arrays["indices"], starts), shape=shape)
        keys = torch.from_numpy(arrays["keys"])
        return cls(keys, arrays["values"], weights, terms, arrays["counts"])

    def select(self, mask: NDArray[np.bool_]) -> UserContributions:
        """Return the contributions of the users for whom `mask [users]` is True."""
        return UserContributions(
            self.keys[torch.from_numpy(mask)],
            self.values[mask],
            {column: weights[mask] for column, weights in self.weights.items()},
            self.terms[mask],
            self.counts[mask],
        )

    def total(self, layout: StateLayout, users: Tensor) -> Tensor:
        """Return the vector of sums over all users; `users` are their indices."""
        weights = {column: torch.from_numpy(weight) for column, weight in self.weights.items()}
        sums = torch.zeros(layout.size, dtype=torch.float64)
        layout.add(sums, list(layout.mean_tables(torch.from_numpy(self.values), weights, users)))
        sums[layout.other_sums] = torch.from_numpy(
            np.asarray(self.terms.sum(axis=0), dtype=np.float64).reshape(-1)
        )
        return sums


def _to_sparse(
    size: int, section: slice, terms: Sequence[tuple[slice, Contribution]]
) -> csr_matrix:
    """Return the terms inside a section of the vector of sums as a matrix `[size, section]`."""
    from scipy.sparse import csr_matrix

    users, columns, values = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0)]
    for target, (term_values, index, rows) in terms:
        if not section.start <= target.start < target.stop <= section.stop:
            continue
        device = term_values.device
        flat = term_values[:, None] if term_values.ndim == 1 else term_values.flatten(1)
        is_nonzero = flat != 0
        owners = torch.arange(len(flat), device=device) if rows is None else rows
        if index is None:
            positions = torch.arange(flat.shape[1], device=device).expand_as(flat)
        else:
            positions = index.reshape_as(flat)
        users.append(owners[:, None].expand_as(flat)[is_nonzero].cpu().numpy())
        offset = target.start - section.start
        columns.append(positions[is_nonzero].cpu().long().numpy() + offset)
        values.append(flat[is_nonzero].cpu().double().numpy())
    return csr_matrix(
        (np.concatenate(values), (np.concatenate(users), np.concatenate(columns))),
        shape=(size, section.stop - section.start),
    )


# --------------------------------------------------------------------------------------------------


class WeightedSums(NamedTuple):
    """Sums over users under rows of weights."""

    total: Floats  # of the weights, [rows]
    sums: Floats  # of the averaged values, [rows, columns]
    counts: Floats  # of the weights of users with a value, [rows, columns]
    terms: Floats  # of all other terms, [terms, rows]; no terms if not requested

    @staticmethod
    def merge(parts: Sequence[WeightedSums]) -> WeightedSums:
        """Add the sums of disjoint sets of users."""
        return WeightedSums(
            *(np.sum(part, axis=0) if len(part) > 1 else part[0] for part in zip(*parts))
        )

    @staticmethod
    def concatenate(blocks: Sequence[WeightedSums]) -> WeightedSums:
        """Concatenate the sums under several blocks of rows."""
        total, sums, counts, terms = zip(*blocks)
        return WeightedSums(
            np.concatenate(total),
            np.concatenate(sums),
            np.concatenate(counts),
            np.concatenate(terms, axis=1),
        )


class JackknifeMoments(NamedTuple):
    """Moments of the influence of single users on the means, `[columns]` each.

    The influence of a user is the change of a mean, in units of the mean, if the user is left out.
    """

    users: Floats  # number of users with a value
    first: Floats  # sum of the influences
    second: Floats  # sum of their squares
    third: Floats  # sum of their cubes
    largest: Floats  # largest absolute influence

    @staticmethod
    def merge(parts: Sequence[JackknifeMoments]) -> JackknifeMoments:
        """Combine the moments of disjoint sets of users."""
        users, first, second, third, largest = map(np.stack, zip(*parts))
        return JackknifeMoments(
            users.sum(0), first.sum(0), second.sum(0), third.sum(0), largest.max(0)
        )

    def acceleration(self, negligible: Floats) -> Floats:
        """Return the accelerations of BCa intervals, `[columns]`; NaN for fewer than two users.

        Influences up to `negligible` count as rounding, with an acceleration of 0.
        """
        mean = self.first / np.maximum(self.users, 1)
        square = self.second - mean * self.first
        cube = self.third - 3 * mean * self.second + 2 * self.users * mean**3
        varies = (self.largest > negligible) & (square > 0)
        values: Floats = np.where(varies, -cube / (6 * np.where(varies, square, 1) ** 1.5), 0.0)
        return np.where(self.users < 2, np.nan, values)


class ContributionStore(Protocol):
    """Contributions of `users` users, in this process or on workers."""

    users: int

    def weighted_sums(self, weights: UserWeights, *, terms: bool) -> WeightedSums:
        """Return the sums under these weights; `terms`: also of the terms that are not means."""
        ...

    def jackknife_moments(self, sums: Floats, counts: Floats) -> JackknifeMoments:
        """Return the moments of the influences of the users on the means `sums / counts`."""
        ...

    def hashes(self) -> SortedValues[np.int64]:
        """Return the `jackknife_hashes` of all users."""
        ...


class LocalContributions:
    """A `ContributionStore` in the memory of this process."""

    def __init__(self, contributions: UserContributions) -> None:
        self.keys = contributions.keys
        self.users = len(contributions.keys)
        is_defined = ~np.isnan(contributions.values)
        self._weighted = np.where(is_defined, contributions.values, 0)
        # Columns that are defined for the same users have the same counts: computed once.
        packed = np.packbits(is_defined, axis=0)
        column_of_key: dict[tuple[bytes, int], int] = {}
        counted: list[Floats] = []
        self._count_column = np.empty(is_defined.shape[1], dtype=np.int64)
        for column in range(is_defined.shape[1]):
            weights = contributions.weights.get(column)
            key = (packed[:, column].tobytes(), -1 if weights is None else column)
            if key not in column_of_key:
                column_of_key[key] = len(counted)
                counted.append(is_defined[:, column] * (1.0 if weights is None else weights))
            self._count_column[column] = column_of_key[key]
            if weights is not None:
                self._weighted[:, column] *= weights
        self._counted = np.stack(counted, axis=1) if counted else np.empty((self.users, 0))
        self._terms = contributions.terms.T

    @np.errstate(over="ignore", invalid="ignore")  # values near the largest float64
    def weighted_sums(self, weights: UserWeights, *, terms: bool) -> WeightedSums:
        step = rows_per_block(self.users)
        return WeightedSums.concatenate(
            [
                self._weighted_block(weights.block(row, row + step).compute(self.keys), terms)
                for row in range(0, weights.num_rows, step)
            ]
        )

    def _weighted_block(self, weights: Floats, terms: bool) -> WeightedSums:
        return WeightedSums(
            weights.sum(1),
            weights @ self._weighted,
            (weights @ self._counted)[:, self._count_column],
            self._terms @ weights.T if terms else np.empty((0, len(weights))),
        )

    def jackknife_moments(self, sums: Floats, counts: Floats) -> JackknifeMoments:
        moments = np.zeros((5, len(sums)))
        for column, count_column in enumerate(self._count_column):
            weights = self._counted[:, count_column]
            is_counted = weights > 0
            count = counts[column]
            if count == 0 or not is_counted.any():
                continue
            weights, weighted = weights[is_counted], self._weighted[is_counted, column]
            mean = sums[column] / count
            rest = count - weights
            # In units of the mean, so that powers of small numbers do not underflow.
            influence = (
                (weights * mean - weighted)
                / np.where(rest > 0, rest, np.inf)
                * (count / (abs(mean) or 1.0))
            )
            moments[:, column] = (
                len(weights),
                influence.sum(),
                np.square(influence).sum(),
                (influence**3).sum(),
                np.abs(influence).max(),
            )
        return JackknifeMoments(*moments)

    def hashes(self) -> SortedValues[np.int64]:
        return SortedArray(jackknife_hashes(self.keys))

"""How far values would move with other users: intervals by resampling the users of one pass.

A resample gives each user a Poisson(1) weight, which depends on the seed, the user's key and the
number of the resample, and on nothing else: not on batches, their order, or who else is there. What
adds up over users is added up again with these weights, and each metric is computed from it as from
any sums. Sums over users are scaled to their number, so that counts of users stay such."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from statistics import NormalDist
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.batch.batch import Batch
from weft.data.ordered import SortedArray, SortedValues
from weft.metrics.accumulators import MEAN_SUMS, Contribution, StateLayout
from weft.ranking.ties import mix64

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

Floats = NDArray[np.float64]
# What is taken for resampling several times at once, in bytes.
_ROOM = 1 << 26
# Groups of users that are left out in turn, where one user at a time would be too many.
_LEFT_OUT = 200
# Values that differ by less than rounding can leave are the same.
_ROUNDING = 1e-11
_SALT = 0x626F6F74  # so that weights have nothing to do with the order of ties under the same seed
_DRAWS = 4  # weights of 16 bits that a hash gives


@dataclass(frozen=True)
class BootstrapInterval:
    """What resampling tells of a value: 95 % intervals by percentiles and BCa, and the standard
    deviation of the resamples.

    `undefined`: how many resamples had no value. NaN where there is no interval.
    """

    low: float = math.nan
    high: float = math.nan
    bca_low: float = math.nan
    bca_high: float = math.nan
    std_error: float = math.nan
    undefined: int = 0


def bootstrap_interval(
    estimate: float, resampled: Floats, acceleration: float
) -> BootstrapInterval:
    """The intervals of an estimate from its values in resamples and the acceleration of a
    jackknife.

    BCa (Efron 1987, doi 10.1080/01621459.1987.10478410) is undefined where nearly all resamples lie
    on one side of the estimate, so that the interval would not hold it."""
    known = resampled[np.isfinite(resampled)]
    undefined = len(resampled) - len(known)
    if math.isnan(estimate) or len(known) < 2:
        return BootstrapInterval(undefined=undefined)
    near = np.abs(known - estimate) <= _ROUNDING * max(abs(estimate), float(np.abs(known).max()))
    known = np.where(near, estimate, known)
    if near.all():
        return BootstrapInterval(estimate, estimate, estimate, estimate, 0.0, undefined)
    low, high = (float(end) for end in np.quantile(known, (0.025, 0.975)))
    share = float((known < estimate).mean() + near.mean() / 2)
    ends = (math.nan, math.nan)
    if 0 < share < 1 and not math.isnan(acceleration):
        normal = NormalDist()
        shift = normal.inv_cdf(share)
        moved = [shift + normal.inv_cdf(end) for end in (0.025, 0.975)]
        levels = [
            normal.cdf(shift + z / (1 - acceleration * z)) if acceleration * z < 1 else math.nan
            for z in moved
        ]
        if (
            levels[0] <= share <= levels[1]
        ):  # else resampling shifts the value by more than it spreads it
            ends = tuple(np.quantile(known, levels).tolist())
    return BootstrapInterval(low, high, *ends, float(known.std(ddof=1)), undefined)


def acceleration(left_out: Floats) -> float:
    """The acceleration from the values without each user (or each group of users) in turn; NaN for
    fewer than two.
    """
    known = left_out[np.isfinite(left_out)]
    if len(known) < 2:
        return math.nan
    influence = known.mean() - known
    largest = np.abs(influence).max()
    scaled = influence / (largest or 1.0)  # so that no power of a small number vanishes
    below = 6 * float(np.square(scaled).sum()) ** 1.5
    return float((scaled**3).sum()) / below if below > 0 else 0.0


# --------------------------------------------------------------------------------------------------


@cache
def _poisson() -> NDArray[np.uint8]:
    """The weight that each number of 16 bits stands for: a Poisson(1) law, exact to 1 / 65,536."""
    density = [math.exp(-1) / math.factorial(weight) for weight in range(9)]
    starts = np.round(np.cumsum(density) * (1 << 16)).astype(np.int64)
    weights: NDArray[np.uint8] = np.searchsorted(starts, np.arange(1 << 16), side="right").astype(
        np.uint8
    )
    return weights


def poisson_weights(keys: Tensor, seed: int, start: int, stop: int) -> Floats:
    """The weights of users in the resamples `start` to `stop - 1`, `[resamples, users]`; `keys`: a
    number for each user.
    """
    seeded = mix64(keys + mix64(torch.full_like(keys, seed) + _SALT))
    first, last = start // _DRAWS, -(-stop // _DRAWS)
    found = np.empty(((last - first) * _DRAWS, len(keys)))
    for number in range(first, last):
        hashed = mix64(seeded + torch.full_like(keys, number) * -7046029254386353131).numpy()
        for draw in range(_DRAWS):
            found[(number - first) * _DRAWS + draw] = _poisson()[(hashed >> 16 * draw) & 0xFFFF]
    return found[start - first * _DRAWS : stop - first * _DRAWS]


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class UserContributions:
    """What each of some users adds to every sum: 8 bytes per user and column of means, 12 per
    further term that is not 0.
    """

    keys: Tensor  # by which users are resampled
    values: Floats  # that are averaged, [users, columns]
    weights: dict[
        int, Floats
    ]  # how much each counts, by column; without them all users count alike
    terms: csr_matrix  # all others, [users, places]
    counts: Floats  # what is counted of each user, [users, counts]

    @classmethod
    def from_batch(
        cls,
        batch: Batch,
        layout: StateLayout,
        terms: Sequence[tuple[slice, Contribution]],
        counts: Tensor,
    ) -> UserContributions:
        """What the users of a batch add, on the CPU."""
        weights = {
            column: found.cpu().double().numpy()
            for column, found in layout.user_weights(batch).items()
        }
        values = layout.user_values(batch).cpu().double().numpy()
        sparse = _sparse(batch.size, layout.other_sums, terms)
        return cls(batch.user_keys.cpu(), values, weights, sparse, counts.cpu().double().numpy())

    def to_rows(self) -> dict[str, Tensor]:
        """As tensors that come behind one another with those of other users."""
        found = {
            "kept_keys": self.keys,
            "kept_values": torch.from_numpy(self.values),
            "kept_counts": torch.from_numpy(self.counts),
            "kept_lengths": torch.from_numpy(np.diff(self.terms.indptr).astype(np.int64)),
            "kept_places": torch.from_numpy(self.terms.indices.astype(np.int64)),
            "kept_terms": torch.from_numpy(self.terms.data),
        }
        return found | {
            f"kept_weights_{column}": torch.from_numpy(weights)
            for column, weights in self.weights.items()
        }

    @classmethod
    def from_rows(cls, rows: Mapping[str, Tensor], layout: StateLayout) -> UserContributions | None:
        """From such tensors; None where nothing was kept."""
        from scipy.sparse import csr_matrix

        if "kept_keys" not in rows:
            return None
        found = {
            name.removeprefix("kept_"): values.cpu()
            for name, values in rows.items()
            if name.startswith("kept_")
        }
        weights = {
            int(name.removeprefix("weights_")): found[name].numpy()
            for name in found
            if name.startswith("weights_")
        }
        starts = np.concatenate([[0], np.cumsum(found["lengths"].numpy())])
        shape = (len(found["keys"]), layout.other_sums.stop - layout.other_sums.start)
        terms = csr_matrix((found["terms"].numpy(), found["places"].numpy(), starts), shape=shape)
        return cls(found["keys"], found["values"].numpy(), weights, terms, found["counts"].numpy())

    def select(self, chosen: NDArray[np.bool_]) -> UserContributions:
        """Those of some of the users."""
        weights = {column: of_users[chosen] for column, of_users in self.weights.items()}
        return UserContributions(
            self.keys[torch.from_numpy(chosen)],
            self.values[chosen],
            weights,
            self.terms[chosen],
            self.counts[chosen],
        )

    def sums(self, layout: StateLayout, users: Tensor) -> Tensor:
        """What they add up to; `users`: their numbers."""
        weights = {column: torch.from_numpy(found) for column, found in self.weights.items()}
        found = torch.zeros(layout.size, dtype=torch.float64)
        layout.add(found, list(layout.mean_tables(torch.from_numpy(self.values), weights, users)))
        found[layout.other_sums] = torch.from_numpy(
            np.asarray(self.terms.sum(axis=0), dtype=np.float64).reshape(-1)
        )
        return found


def _sparse(size: int, place: slice, terms: Sequence[tuple[slice, Contribution]]) -> csr_matrix:
    """The terms that lie within a part of the vector of sums, by user."""
    from scipy.sparse import csr_matrix

    users, places, values = [np.empty(0, np.int64)], [np.empty(0, np.int64)], [np.empty(0)]
    for where, (found, index, rows) in terms:
        if not place.start <= where.start < where.stop <= place.stop:
            continue
        flat = found[:, None] if found.ndim == 1 else found.flatten(1)
        counted = flat != 0
        owners = torch.arange(len(found), device=found.device) if rows is None else rows
        at = (
            torch.arange(flat.shape[1], device=found.device).expand_as(flat)
            if index is None
            else index.reshape_as(flat)
        )
        users.append(owners[:, None].expand_as(flat)[counted].cpu().numpy())
        places.append(at[counted].cpu().long().numpy() + (where.start - place.start))
        values.append(flat[counted].cpu().double().numpy())
    shape = (size, place.stop - place.start)
    return csr_matrix(
        (np.concatenate(values), (np.concatenate(users), np.concatenate(places))), shape=shape
    )


# --------------------------------------------------------------------------------------------------


class UserWeights(Protocol):
    """Some rows of weights, which depend on nothing but what identifies each user."""

    def of(self, keys: Tensor) -> Floats:
        """The weights of users, `[rows, users]`."""
        ...

    @property
    def rows(self) -> int:
        """How many rows there are."""
        ...

    def some(self, start: int, stop: int) -> UserWeights:
        """Some of the rows."""
        ...


@dataclass(frozen=True)
class PoissonWeights:
    """How often each user is drawn in the resamples `start` to `stop - 1`."""

    seed: int
    start: int
    stop: int

    def of(self, keys: Tensor) -> Floats:
        return poisson_weights(keys, self.seed, self.start, self.stop)

    @property
    def rows(self) -> int:
        return self.stop - self.start

    def some(self, start: int, stop: int) -> PoissonWeights:
        return PoissonWeights(self.seed, self.start + start, min(self.start + stop, self.stop))


@dataclass(frozen=True)
class LeaveGroupOut:
    """Everybody but the users of group `start`, of the next, and so on; groups start at these
    hashes, the first at none.
    """

    edges: NDArray[np.int64]
    start: int
    stop: int

    def of(self, keys: Tensor) -> Floats:
        group = np.searchsorted(self.edges, jackknife_hashes(keys), "right")
        weights: Floats = (group != np.arange(self.start, self.stop)[:, None]).astype(np.float64)
        return weights

    @property
    def rows(self) -> int:
        return self.stop - self.start

    def some(self, start: int, stop: int) -> LeaveGroupOut:
        return LeaveGroupOut(self.edges, self.start + start, min(self.start + stop, self.stop))


def jackknife_hashes(keys: Tensor) -> NDArray[np.int64]:
    """By which users are put into groups, so that neither their order nor batches play a part."""
    hashes: NDArray[np.int64] = mix64(keys + _SALT).numpy()
    return hashes


class WeightedSums(NamedTuple):
    """Sums over users under some rows of weights. Those of parts of the users add up."""

    total: Floats  # of the weights, [rows]
    sums: Floats  # of the values that are averaged, [rows, columns]
    counts: Floats  # of the weights of those who have a value, [rows, columns]
    places: Floats  # of all other terms, [places, rows]

    @staticmethod
    def merge(parts: Sequence[WeightedSums]) -> WeightedSums:
        """All parts together."""
        return WeightedSums(
            *(np.sum(one, axis=0) if len(one) > 1 else one[0] for one in zip(*parts))
        )


class JackknifeMoments(NamedTuple):
    """How much leaving out each user moves the means, `[columns]` each. Those of parts of the users
    add up.
    """

    users: Floats  # who have a value
    moved: Floats  # by how much, in all
    moved2: Floats  # the squares of it
    moved3: Floats  # the cubes
    most: Floats  # the largest

    @staticmethod
    def merge(parts: Sequence[JackknifeMoments]) -> JackknifeMoments:
        """All parts together."""
        users, moved, moved2, moved3, most = map(np.stack, zip(*parts))
        return JackknifeMoments(
            users.sum(0), moved.sum(0), moved2.sum(0), moved3.sum(0), most.max(0)
        )

    def acceleration(self, negligible: Floats) -> Floats:
        """From the third moment of what each user moves; NaN for fewer than two users."""
        mean = self.moved / np.maximum(self.users, 1)
        square = self.moved2 - mean * self.moved
        cube = self.moved3 - 3 * mean * self.moved2 + 2 * self.users * mean**3
        moves = (self.most > negligible) & (square > 0)
        found: Floats = np.where(moves, -cube / (6 * np.where(moves, square, 1) ** 1.5), 0.0)
        return np.where(self.users < 2, np.nan, found)


class ContributionStore(Protocol):
    """What users add to every sum, kept for resampling, wherever it is. `users`: how many there
    are.
    """

    users: int

    def weighted_sums(self, weights: UserWeights, *, terms: bool) -> WeightedSums:
        """The sums under these weights; `places`: whether terms beside the means are wanted."""
        ...

    def jackknife_moments(self, sums: Floats, counts: Floats) -> JackknifeMoments:
        """What leaving out each user does to the means `sums / counts`."""
        ...

    def hashes(self) -> SortedValues[np.int64]:
        """The `jackknife_hashes` of all users."""
        ...


class LocalContributions:
    """Users whose contributions are in this process."""

    def __init__(self, kept: UserContributions) -> None:
        self.keys = kept.keys
        defined = ~np.isnan(kept.values)
        self.users = len(kept.keys)
        self._weighted = np.where(defined, kept.values, 0)
        # What is defined for the same users has the same number of them: counted once.
        packed = np.packbits(defined, axis=0)
        different: dict[tuple[bytes, int], int] = {}
        counts: list[Floats] = []
        self._column_of = np.empty(defined.shape[1], dtype=np.int64)
        for column in range(defined.shape[1]):
            weights = kept.weights.get(column)
            key = (packed[:, column].tobytes(), -1 if weights is None else column)
            if key not in different:
                different[key] = len(counts)
                counts.append(defined[:, column] * (1.0 if weights is None else weights))
            self._column_of[column] = different[key]
            if weights is not None:
                self._weighted[:, column] *= weights
        self._counted = np.stack(counts, axis=1) if counts else np.empty((self.users, 0))
        self._by_place = kept.terms.T

    def weighted_sums(self, weights: UserWeights, *, terms: bool) -> WeightedSums:
        step = at_once(self.users)
        return _side_by_side(
            [
                self._under(weights.some(row, row + step), terms)
                for row in range(0, weights.rows, step)
            ]
        )

    def _under(self, weights: UserWeights, terms: bool) -> WeightedSums:
        some = weights.of(self.keys)
        by_place = self._by_place @ some.T if terms else np.empty((0, len(some)))
        return WeightedSums(
            some.sum(1), some @ self._weighted, (some @ self._counted)[:, self._column_of], by_place
        )

    def jackknife_moments(self, sums: Floats, counts: Floats) -> JackknifeMoments:
        found = np.zeros((5, len(sums)))
        for column, of in enumerate(self._column_of):
            weights = self._counted[:, of]
            counted = weights > 0
            if counted.sum() == 0 or counts[column] == 0:
                continue
            mine, values = (
                weights[counted],
                self._weighted[counted, column],
            )  # the values are weighted already
            mean = sums[column] / counts[column]
            left = counts[column] - mine
            # In the unit of the mean, so that no power of a small number vanishes.
            moved = (
                (mine * mean - values)
                / np.where(left > 0, left, np.inf)
                * (counts[column] / (abs(mean) or 1.0))
            )
            found[:, column] = (
                len(mine),
                moved.sum(),
                np.square(moved).sum(),
                (moved**3).sum(),
                np.abs(moved).max(),
            )
        return JackknifeMoments(*found)

    def hashes(self) -> SortedValues[np.int64]:
        return SortedArray(jackknife_hashes(self.keys))


def _side_by_side(parts: Sequence[WeightedSums]) -> WeightedSums:
    """Rows of weights one after the other."""
    total, sums, counts, places = zip(*parts)
    return WeightedSums(
        np.concatenate(total),
        np.concatenate(sums),
        np.concatenate(counts),
        np.concatenate(places, axis=1),
    )


def at_once(numbers: int) -> int:
    """How many rows of so many numbers are taken at once."""
    step = max(1, _ROOM // (8 * max(1, numbers)))
    return step - step % _DRAWS or step


# --------------------------------------------------------------------------------------------------

# The values of all metrics that are no plain means over users, from the sums that they are read
# from.
Formulas = Callable[[Tensor], Floats]


class Resampler:
    """The kept users, under weights.

    `formulas`: the values `[number]` of metrics that are no plain means, from a vector of sums.
    """

    def __init__(
        self, kept: ContributionStore, layout: StateLayout, formulas: Formulas, number: int
    ) -> None:
        self._kept, self._layout, self._formulas, self._number = kept, layout, formulas, number
        self._places = layout.other_sums.stop - layout.other_sums.start

    def resample(self, number: int, seed: int) -> tuple[Floats, Floats]:
        """The means `[resamples, columns]` and the values of the formulas `[resamples, values]` in
        each resample.
        """
        return self._under(PoissonWeights(seed, 0, number))

    def accelerations(self) -> tuple[Floats, Floats]:
        """Of the means, leaving out each user in turn; of the formulas, leaving out groups of users
        in turn.
        """
        return self._of_means(), self._of_formulas()

    def _of_means(self) -> Floats:
        everybody = self._kept.weighted_sums(
            LeaveGroupOut(np.empty(0, dtype=np.int64), 1, 2), terms=False
        )
        sums, counts = everybody.sums[0], everybody.counts[0]
        spread = self._kept.jackknife_moments(sums, counts)
        return spread.acceleration(_ROUNDING * counts / np.maximum(spread.users, 1))

    def _of_formulas(self) -> Floats:
        if self._number == 0:
            return np.empty(0)
        users = self._kept.users
        groups = min(users, _LEFT_OUT)
        starts = -(-np.arange(1, groups, dtype=np.int64) * users // groups)
        edges = self._kept.hashes().at(starts)
        _, without = self._under(LeaveGroupOut(edges, 0, groups))
        return np.array([acceleration(column) for column in without.T])

    def _under(self, weights: UserWeights) -> tuple[Floats, Floats]:
        """The values under many rows of weights, some at a time."""
        step = at_once(self._places if self._number else self._layout.other_sums.start)
        means, values = [], [np.empty((0, self._number))]
        for row in range(0, weights.rows, step):
            found = self._kept.weighted_sums(weights.some(row, row + step), terms=self._number > 0)
            means.append(found.sums / np.where(found.counts > 0, found.counts, np.nan))
            values += [one[None] for one in self._values(found)] if self._number else []
        return np.concatenate(means), np.concatenate(values)

    def _values(self, found: WeightedSums) -> Iterator[Floats]:
        vector = torch.zeros(self._layout.other_sums.stop, dtype=torch.float64)
        table = vector[: self._layout.other_sums.start].view(len(MEAN_SUMS), -1)
        table.fill_(math.nan)  # what only standard errors need is not resampled
        for row, total in enumerate(found.total):
            if total == 0:
                yield np.full(self._number, np.nan)
                continue
            # Sums over users as if there were as many as there are, for metrics that count users.
            # What is counted otherwise is only compared with itself, and stays a whole number.
            scale = self._kept.users / total
            table[1], table[2] = (
                torch.from_numpy(found.counts[row] * scale),
                torch.from_numpy(found.sums[row] * scale),
            )
            vector[self._layout.other_sums] = torch.from_numpy(found.places[:, row])
            yield self._formulas(vector)

"""What sampled negatives do to metrics, from ranks alone: exact expectations, and whether the order
of models can be trusted.

Ranks are 1-based: of one relevant item per user (`[users]`), or of several (a list of ranks for
each user), in a full ranking of `num_items` items, a number for all users or one for each. A
sampled evaluation ranks the relevant items among `num_negatives` others, which are drawn uniformly:
without replacement, or with (`replacement=True`), as Krichene and Rendle (2020), doi
10.1145/3394486.3403226, have it. Metrics go by name, as everywhere, and are computed by their own
formulas. Those will do that add up over the relevant items of a user: AUC, GAUC, HitRate, MAP, MAR,
MRR, nDCG, nDCGRendle2020, Precision and Recall."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.batch.batch import Batch, BatchInputs, RankingOptions
from weft.data.tensors import SparseRows
from weft.errors import InputError, SettingError, check_float, check_int
from weft.evaluation.candidates import draw
from weft.evaluation.evaluator import as_cutoffs
from weft.metrics.base.formulas import UserMeanMetric
from weft.metrics.names import MetricSpec, parse_name
from weft.metrics.registry import as_metric_list, build_metric, expand_metrics
from weft.ranking import SampleSizes, TieRule
from weft.ranking.positions import ObservedPositions, Positions
from weft.ranking.rank_estimator import RankEstimator, estimate_positions

if TYPE_CHECKING:
    import polars as pl

__all__ = ["Identification", "deviation", "draw", "exact", "expected", "is_identified"]

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]
Formulas = dict[MetricSpec, UserMeanMetric]
# Numbers that a table of chances may hold at once.
_TILE = 1 << 22
# Places among the candidates at which a distribution of ranks is compared with what was seen, and
# the steps of its grid.
_PLACES, _STEPS = 100, 400
# Differences that rounding leaves.
_ROUNDING = 1e-12


def exact(ranks: Any, *, num_items: Any, metrics: Any, top_k: Any = None) -> dict[str, float]:
    """The metrics of the full ranking, by name.

    >>> import weft
    >>> weft.sampling.exact([1, 3], num_items=9, metrics=["MRR@2", "AUC"])
    {'MRR@2': 0.5, 'AUC': 0.875}
    """
    users = _Users.read(ranks, num_items)
    formulas = _formulas(metrics, top_k)
    return _named(formulas, _means(users, formulas, _exact_values(users, formulas)))


def expected(
    ranks: Any,
    *,
    num_items: Any,
    num_negatives: int,
    metrics: Any,
    top_k: Any = None,
    replacement: bool = False,
    correction: str | None = None,
    gamma: float | None = None,
) -> dict[str, float]:
    """The exact mean of the sampled metrics over all draws, by name; with `correction`, of the
    corrected ones.

    >>> import weft
    >>> values = weft.sampling.expected([1, 4], num_items=10, num_negatives=3, metrics=["MRR@3", "AUC"])
    >>> [round(value, 6) for value in values.values()]
    [0.78869, 0.833333]
    """
    users = _Users.read(ranks, num_items)
    draw = _Draw.chosen(num_negatives, replacement, correction, gamma)
    formulas = _formulas(metrics, top_k)
    return _named(
        formulas, _means(users, formulas, _moments(users, draw, formulas, variance=False)[0])
    )


def deviation(
    ranks: Any,
    *,
    num_items: Any,
    num_negatives: int,
    metrics: Any,
    top_k: Any = None,
    replacement: bool = False,
    correction: str | None = None,
    gamma: float | None = None,
) -> dict[str, float]:
    """The exact standard deviation of the sampled metrics of these users over all draws, by name:
    how far one run is off by luck.

    Users are drawn for independently. With several relevant items per user it takes time: a table
    of all pairs of places for each.

    >>> import weft
    >>> weft.sampling.deviation([1, 1], num_items=10, num_negatives=3, metrics="MRR@3")
    {'MRR@3': 0.0}
    """
    users = _Users.read(ranks, num_items)
    draw = _Draw.chosen(num_negatives, replacement, correction, gamma)
    formulas = _formulas(metrics, top_k)
    return _named(
        formulas,
        np.sqrt(_variances(users, formulas, _moments(users, draw, formulas, variance=True)[1])),
    )


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ModelPair:
    """Two models. The full metric of each lies between its `low` and `high`, which are equal where
    full ranks were given.

    `sampled`: the sampled metric, expected (from full ranks) or as it was seen. `probability`: the
    chance that one sampled evaluation puts the two in the right order; NaN where only sampled ranks
    were given."""

    model_a: str
    model_b: str
    identified: bool
    low_a: float
    high_a: float
    low_b: float
    high_b: float
    sampled_a: float
    sampled_b: float
    probability: float
    why: str


@dataclass(frozen=True)
class Identification:
    """Whether the order of some models at a sample size can be trusted: true, if that of every pair
    can. `print` explains.
    """

    metric: str
    num_negatives: int
    pairs: tuple[ModelPair, ...]

    def __bool__(self) -> bool:
        return all(pair.identified for pair in self.pairs)

    def __str__(self) -> str:
        verdict = "is identified" if self else "is not identified"
        lines = [
            f"The order by {self.metric} {verdict} with {self.num_negatives:,} sampled negatives:"
        ]
        lines += [
            f"{'  yes' if pair.identified else '  no '}  {pair.model_a}, {pair.model_b}: {pair.why}"
            for pair in self.pairs
        ]
        return "\n".join(lines)

    def to_frame(self) -> pl.DataFrame:
        """A row for each pair."""
        import polars as pl

        names = [field.name for field in fields(ModelPair)]
        return pl.DataFrame(
            [[getattr(pair, name) for pair in self.pairs] for name in names], schema=names
        )


def is_identified(
    models: Mapping[str, Any],
    *,
    metric: Any,
    num_items: Any,
    num_negatives: int,
    sampled: bool = False,
    replacement: bool = False,
    correction: str | None = None,
    gamma: float | None = None,
    confidence: float = 0.95,
) -> Identification:
    """Whether a sampled evaluation of this size puts models, `{name: ranks of the same users}`, in
    the order of the full metric.

    With full ranks, a pair is identified if the expected sampled metrics are in the order of the
    exact ones, and one sampled evaluation of these users shows that order with a probability of at
    least `confidence`. The probability is normal, from the exact variance, with draws that are
    independent between users and models. (Models that share their candidates differ less by luck
    where they rank the same items first.) With `correction`, it is about the corrected metric.

    With `sampled=True` the ranks are places among the candidates, one relevant item per user, as a
    sampled evaluation saw them. Many distributions of full ranks explain the same places. All that
    do so, within the error of a sample of so many users (Dvoretzky, Kiefer and Wolfowitz, for all
    models together), give an interval for the full metric: a pair is identified if the two do not
    meet.

    >>> import weft
    >>> models = {"A": [100] * 500, "B": [1, 9000] * 250}
    >>> verdict = weft.sampling.is_identified(models, metric="MRR@10", num_items=10_000, num_negatives=99)
    >>> bool(verdict)
    False
    >>> print(verdict)  # doctest: +NORMALIZE_WHITESPACE
    The order by MRR@10 is not identified with 99 sampled negatives:
      no   A, B: B is better (0 and 0.5), but the sample favours A (0.636 and 0.5 expected): right
      with chance 0
    """
    if not isinstance(models, Mapping) or len(models) < 2:
        raise SettingError(
            f"is_identified compares models: give {{name: ranks, ...}} of two or more; got "
            f"{models!r}."
        )
    formula = _formulas([metric], None)
    if len(formula) != 1:
        raise SettingError(f"is_identified takes one metric; got {metric!r}.")
    share = float(check_float("confidence", confidence, more=" between 0 and 1"))
    if not 0 < share < 1:
        raise SettingError(f"confidence={confidence!r}; it must be a number between 0 and 1.")
    draw = _Draw.chosen(num_negatives, replacement, correction, gamma)
    if sampled and draw.correction is not None:
        raise SettingError(
            "correction= goes with full ranks; with sampled=True the bounds hold for every "
            "estimate. Leave one out."
        )
    judge = _from_places if sampled else _from_ranks
    pairs = judge(models, formula, num_items, draw, share)
    return Identification(str(next(iter(formula))), draw.negatives, tuple(pairs))


def _from_ranks(
    models: Mapping[str, Any], formula: Formulas, num_items: Any, draw: _Draw, confidence: float
) -> Iterator[ModelPair]:
    """Pairs from full ranks."""
    about: dict[Any, tuple[float, float, float]] = {}
    sizes = set()
    for name, ranks in models.items():
        users = _Users.read(ranks, num_items, f"the ranks of {name}")
        sizes.add(len(users.counts))
        means, variances = _moments(users, draw, formula, variance=True)
        full, mean = (
            _means(users, formula, values)[0] for values in (_exact_values(users, formula), means)
        )
        about[name] = float(full), float(mean), float(_variances(users, formula, variances)[0])
    if len(sizes) > 1:
        raise InputError(
            f"the models have ranks of different numbers of users: {sorted(sizes)}; give those of "
            "the same users."
        )
    for a, b in itertools.combinations(models, 2):
        (full_a, mean_a, variance_a), (full_b, mean_b, variance_b) = about[a], about[b]
        by, of_sample, spread = full_a - full_b, mean_a - mean_b, math.sqrt(variance_a + variance_b)
        expectations = f"({mean_a:.3g} and {mean_b:.3g} expected)"
        if abs(by) < _ROUNDING:
            identified = abs(of_sample) < _ROUNDING and spread < _ROUNDING
            right = float(identified)
            why = f"equal ({full_a:.3g}), " + (
                "on every sample too"
                if identified
                else f"but a sample shows an order {expectations}"
            )
        else:
            better, worse = (a, b) if by > 0 else (b, a)
            right = _chance_above_zero(of_sample if by > 0 else -of_sample, spread)
            identified = by * of_sample > 0 and right >= confidence
            how = (
                "and the sample agrees" if by * of_sample > 0 else f"but the sample favours {worse}"
            )
            why = f"{better} is better ({full_a:.3g} and {full_b:.3g}), {how} {expectations}: right with chance {right:.2g}"
        yield ModelPair(
            str(a), str(b), identified, full_a, full_a, full_b, full_b, mean_a, mean_b, right, why
        )


def _chance_above_zero(mean: float, deviation: float) -> float:
    """Of a normal number."""
    if deviation < _ROUNDING:
        return float(mean > 0)
    return 0.5 * (1 + math.erf(mean / deviation / math.sqrt(2)))


def _from_places(
    models: Mapping[str, Any], formula: Formulas, num_items: Any, draw: _Draw, confidence: float
) -> Iterator[ModelPair]:
    """Pairs from places among the candidates."""
    whole = check_int("num_items", num_items)
    eligible = whole - 1
    drawn = draw.of(np.array([eligible]))[0]
    if drawn == 0:
        raise SettingError(
            f"num_items={whole} leaves no negative to sample; give the number of items that are "
            "ranked in full."
        )
    seen: dict[Any, tuple[float, float, float]] = {}
    by_place = _contributions(formula, 1, int(drawn), eligible, draw)[0, :, 0]
    for name, ranks in models.items():
        users = _Users.read(ranks, int(drawn) + 1, f"the places of {name}")
        if (users.counts != 1).any():
            raise InputError(
                f"the places of {name} are of several relevant items per user; sampled=True takes "
                "one per user."
            )
        low, high = _bounds(
            users.above,
            formula,
            eligible,
            int(drawn),
            draw,
            (1 - confidence) / len(models),
            str(name),
        )
        seen[name] = low, high, float(by_place[users.above].mean())
    for a, b in itertools.combinations(models, 2):
        (low_a, high_a, seen_a), (low_b, high_b, seen_b) = seen[a], seen[b]
        identified = low_a > high_b or low_b > high_a
        ranges = (
            f"all items give {a} {low_a:.3g} to {high_a:.3g} and {b} {low_b:.3g} to {high_b:.3g}"
        )
        why = f"{ranges}: " + (
            f"{a if low_a > high_b else b} is better" if identified else "either may be better"
        )
        yield ModelPair(
            str(a), str(b), identified, low_a, high_a, low_b, high_b, seen_a, seen_b, math.nan, why
        )


def _bounds(
    places: Numbers,
    formula: Formulas,
    eligible: int,
    drawn: int,
    draw: _Draw,
    error: float,
    name: str,
) -> tuple[float, float]:
    """The least and the most that the full metric can be, over all distributions of ranks that
    explain the places.

    The distribution function of the places is known up to the error of Dvoretzky, Kiefer and
    Wolfowitz, and is linear in the distribution of ranks: a linear programme over a grid of ranks,
    all the best and ever fewer of the others."""
    from scipy.optimize import linprog

    if drawn == eligible and not draw.replacement:  # the places are the ranks
        grid = places
    else:
        finest = min(
            eligible,
            max(
                [_STEPS, *(spec.k for spec in formula if spec.k is not None and spec.k < eligible)]
            ),
        )
        spread = (
            np.concatenate(
                [np.geomspace(finest, eligible, _STEPS), np.linspace(0, eligible, _STEPS)]
            )
            .round()
            .astype(np.int64)
        )
        grid = np.union1d(np.arange(finest + 1), spread)
    values = _exact_values(_Users(np.ones_like(grid), grid, np.full_like(grid, eligible)), formula)[
        :, 0
    ]
    if grid is places:
        return float(values.mean()), float(values.mean())
    step = max(1, drawn // _PLACES)
    at = np.arange(0, drawn, step)
    below = _chances(grid[:, None], eligible, drawn, draw.replacement).cumsum(1)[:, at].T
    observed = (places[:, None] <= at).mean(0)
    error = math.sqrt(math.log(2 / error) / (2 * len(places)))
    limits = np.concatenate([observed + error, error - observed])
    bounds = []
    for sign in (1, -1):
        found = linprog(
            sign * values,
            A_ub=np.concatenate([below, -below]),
            b_ub=limits,
            A_eq=np.ones((1, len(grid))),
            b_eq=[1.0],
            method="highs",
        )
        if not found.success:
            raise InputError(
                f"no ranks explain the places of {name}: they are not those of items among {drawn} "
                f"of {eligible} negatives that "
                "were drawn uniformly. Check num_items and num_negatives."
            )
        bounds.append(float(sign * found.fun))
    return bounds[0], bounds[1]


# --------------------------------------------------------------------------------------------------


def _formulas(metrics: Any, top_k: Any) -> Formulas:
    """What was asked for, by name; AUC as the mean over users that it is, each weighted by its
    relevant items.
    """
    formulas: Formulas = {}
    for spec, metric in expand_metrics(
        as_metric_list(metrics), as_cutoffs(top_k), available=set()
    ).items():
        of = parse_name("GAUC(weight=positives)") if str(spec) == "AUC" else None
        formula = build_metric(of or spec, metric_class=None if of else metric, standalone=False)
        adds_up = (
            formula.sampling_behaviour in ("corrected", "unbiased") and formula.family == "accuracy"
        )
        if not (adds_up and isinstance(formula, UserMeanMetric)):
            raise SettingError(
                f"{spec} is not known from ranks alone: choose metrics that add up over the "
                "relevant items of a user, AUC, GAUC, "
                "HitRate, MAP, MAR, MRR, nDCG, Precision or Recall."
            )
        formulas[spec] = formula
    return formulas


def _named(formulas: Formulas, values: Floats) -> dict[str, float]:
    return {str(spec): float(value) for spec, value in zip(formulas, values)}


def _weights(users: _Users, formulas: Formulas, values: Floats) -> Floats:
    """How much each user counts, `[users, formulas]`, in shares; 0 where a value is undefined."""
    weights = np.ones_like(values)
    for column, formula in enumerate(formulas.values()):
        if getattr(formula, "weight", "uniform") != "uniform":
            weights[:, column] = users.counts
    weights[np.isnan(values)] = 0
    with np.errstate(invalid="ignore"):
        return np.asarray(weights / weights.sum(0))


def _means(users: _Users, formulas: Formulas, values: Floats) -> Floats:
    return np.asarray((_weights(users, formulas, values) * np.nan_to_num(values)).sum(0))


def _variances(users: _Users, formulas: Formulas, variances: Floats) -> Floats:
    """Of the means, from those of the users' values."""
    return np.asarray((_weights(users, formulas, variances) ** 2 * np.nan_to_num(variances)).sum(0))


def _values(
    formulas: Formulas,
    counts: Tensor,
    wins: Tensor,
    negatives: Tensor,
    order: Callable[[SparseRows, int], Positions],
) -> Floats:
    """The values of users with so many relevant items, `[users, formulas]`, in an order of them at
    so many positions.
    """
    offsets = torch.nn.functional.pad(counts.cumsum(0), (1, 0))
    items = torch.arange(int(offsets[-1])) - torch.repeat_interleave(offsets[:-1], counts)
    relevant = SparseRows(
        offsets, items, torch.ones(len(items), dtype=torch.float64), max(1, int(counts.max()))
    )
    numbers = torch.arange(len(counts))
    depth = max([1, *(spec.k for spec in formulas if spec.k is not None)])
    inputs = BatchInputs(
        None, relevant, users=numbers, relevant=relevant, raw_scores=relevant.values
    )
    batch = Batch(inputs, RankingOptions(TieRule(), depth))
    # Without lists, the quantities that depend on them are given.
    batch.positions = order(relevant, depth)
    batch.offered.pairwise_wins = wins
    batch.offered.num_negatives = negatives
    values = [
        formula.values(batch.at_cutoffs((spec.k or 1,)))[:, 0] for spec, formula in formulas.items()
    ]
    batch.close()
    return torch.stack(values, dim=1).numpy()


def _exact_values(users: _Users, formulas: Formulas) -> Floats:
    """The values of each user in the full ranking, `[users, formulas]`."""
    counts, above, eligible = (
        torch.from_numpy(part) for part in (users.counts, users.above, users.eligible)
    )
    numbers = torch.from_numpy(users.numbers)

    def order(relevant: SparseRows, depth: int) -> Positions:
        return ObservedPositions(
            (above + numbers - 1).clamp(max=depth), relevant, depth, dtype=torch.float64
        )

    rows = torch.repeat_interleave(torch.arange(len(counts)), counts)
    lost = torch.zeros(len(counts), dtype=torch.float64).index_add_(
        0, rows, above / eligible[rows].double()
    )
    return _values(formulas, counts, counts - lost, eligible.double(), order)


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Draw:
    """How negatives are drawn, and what is made of it."""

    negatives: int
    replacement: bool
    correction: RankEstimator | None

    @classmethod
    def chosen(
        cls, num_negatives: int, replacement: bool, correction: str | None, gamma: float | None
    ) -> _Draw:
        wanted = RankEstimator.from_settings(correction, gamma)
        if replacement and wanted is not None:
            raise SettingError(
                f"correction={wanted.method!r} is for negatives without replacement; leave "
                "replacement out."
            )
        return cls(check_int("num_negatives", num_negatives), replacement, wanted)

    def of(self, eligible: Numbers) -> Numbers:
        """How many are drawn out of so many: fewer than wanted, where there are not enough."""
        return (
            np.where(eligible > 0, self.negatives, 0)
            if self.replacement
            else np.minimum(self.negatives, eligible)
        )


@dataclass(frozen=True)
class _Users:
    """The relevant items of each user, best first: their number, and for each how many of the
    others rank above; and all others.
    """

    counts: Numbers
    above: Numbers
    eligible: Numbers

    @classmethod
    def read(cls, ranks: Any, num_items: Any, where: str = "ranks") -> _Users:
        """Users with a relevant item, from ranks as they were given."""
        rows = _rows_of(ranks, where)
        counts = np.fromiter(map(len, rows), dtype=np.int64, count=len(rows))
        sizes = np.asarray(num_items)
        if sizes.dtype.kind not in "iu" or sizes.shape not in ((), counts.shape):
            raise SettingError(
                f"num_items={num_items!r}; give the number of ranked items, one for all users or "
                "one for each."
            )
        sizes = np.broadcast_to(sizes, counts.shape).astype(np.int64)
        if len(counts) == 0 or counts.sum() == 0:
            raise InputError(f"{where} hold no rank; give one for each user, or a list for each.")
        flat = np.concatenate(rows)
        owner = np.repeat(np.arange(len(counts)), counts)
        order = np.lexsort((flat, owner))
        flat = flat[order]
        wrong = (flat < 1) | (flat > sizes[owner])
        if wrong.any():
            worst, most = flat[wrong][0], sizes[owner][wrong][0]
            raise InputError(
                f"{where} hold {worst}; ranks are whole numbers from 1 to num_items, which is "
                f"{most} there."
            )
        if ((flat[1:] == flat[:-1]) & (owner[1:] == owner[:-1])).any():
            raise InputError(
                f"{where} give the same rank to two items of a user; each rank may occur once."
            )
        kept = counts > 0
        users = cls(counts[kept], flat, (sizes - counts)[kept])
        return cls(users.counts, flat - users.numbers, users.eligible)

    @property
    def numbers(self) -> Numbers:
        """Which of its user's relevant items each is, from 1."""
        first = np.repeat(self.counts.cumsum() - self.counts, self.counts)
        return np.arange(1, len(first) + 1) - first


def _rows_of(ranks: Any, where: str) -> list[Numbers]:
    """The ranks of each user as an array."""
    if isinstance(ranks, Tensor):
        ranks = ranks.cpu().numpy()
    if isinstance(ranks, (str, Mapping)) or not hasattr(ranks, "__len__"):
        raise InputError(
            f"{where} are a {type(ranks).__name__}; give one rank for each user, or a list of "
            "ranks for each."
        )
    rows = [np.atleast_1d(np.asarray(row)) for row in ranks]
    for row in rows:
        if row.ndim != 1 or (row.dtype.kind not in "iu" and len(row)):
            raise InputError(f"{where} hold {row.tolist()!r}; ranks are whole numbers from 1 up.")
    return [row.astype(np.int64) for row in rows]


def _moments(
    users: _Users, draw: _Draw, formulas: Formulas, *, variance: bool
) -> tuple[Floats, Floats]:
    """The mean and the variance of each user's sampled values, `[users, formulas]` both; without
    `variance` the second is 0.
    """
    shape = (len(users.counts), len(formulas))
    means, variances = np.zeros(shape), np.zeros(shape)
    drawn, starts = draw.of(users.eligible), users.counts.cumsum() - users.counts
    # Users of a kind get the same values at the same places.
    pool = users.eligible if draw.correction is not None else np.zeros_like(drawn)
    kinds, kind = np.unique(
        np.stack([users.counts, drawn, pool], axis=1), axis=0, return_inverse=True
    )
    for number, (count, m, eligible) in enumerate(kinds.tolist()):
        values = _contributions(formulas, count, m, eligible, draw)
        members = np.flatnonzero(kind.ravel() == number)
        at_once = max(1, _TILE // ((m + 1) * (m + 1 if variance and count > 1 else count)))
        for some in np.split(members, range(at_once, len(members), at_once)):
            above = users.above[starts[some][:, None] + np.arange(count)]
            means[some], variances[some] = _moments_of(
                above, users.eligible[some], m, values, draw.replacement, variance
            )
    return means, variances


def _moments_of(
    above: Numbers, eligible: Numbers, m: int, values: Floats, replacement: bool, variance: bool
) -> tuple[Floats, Floats]:
    """The same for users of a kind, with `values [relevant items, m + 1, formulas]` of each item at
    each place.

    The places of a user's items are a chain: what is drawn between two items depends on what was
    drawn above the first. Along it go the chance of each place, and the first two moments of the
    sum so far."""
    chances = _chances(above[:, :, None], eligible[:, None, None], m, replacement)
    if not variance:
        means = np.einsum("njx,jxs->ns", chances, values)
        return means, np.zeros_like(means)
    chance = chances[:, 0, :, None]
    first, second = chance * values[0], chance * values[0] ** 2
    places = np.arange(m + 1)
    for j in range(1, above.shape[1]):
        between, left = above[:, j] - above[:, j - 1], eligible - above[:, j - 1]
        rest = m - places if replacement else np.minimum(m - places, left[:, None])
        step = _chances(
            between[:, None, None], left[:, None, None], rest[..., None], replacement, width=m + 1
        )
        # From "so many more" to "so many": the row x moves by x.
        more = places - places[:, None]
        step = np.where(more >= 0, step[:, places[:, None], np.maximum(more, 0)], 0)
        chance, first, second = (step.transpose(0, 2, 1) @ part for part in (chance, first, second))
        second = second + 2 * values[j] * first + values[j] ** 2 * chance
        first = first + values[j] * chance
    mean = first.sum(1)
    return mean, np.maximum(second.sum(1) - mean**2, 0)


def _contributions(formulas: Formulas, count: int, m: int, eligible: int, draw: _Draw) -> Floats:
    """What each of a user's relevant items adds to the values at each place among m negatives,
    `[count, m + 1, formulas]`.
    """
    found = []
    at_once = max(1, (_TILE // 8) // ((m + 1) * count))
    for some in torch.split(torch.arange(1, count + 1), at_once):
        number, x = (
            part.flatten() for part in torch.meshgrid(some, torch.arange(m + 1), indexing="ij")
        )

        def order(
            relevant: SparseRows, depth: int, number: Tensor = number, x: Tensor = x
        ) -> Positions:
            every = torch.arange(1, count + 1).repeat(len(x))
            offered = every == number.repeat_interleave(count)
            pools = SampleSizes(torch.full_like(x, m), torch.full_like(x, eligible))
            positions = (x + number - 1).repeat_interleave(count)
            return estimate_positions(
                draw.correction,
                positions,
                is_offered=offered,
                hit_ranks=every,
                sample_sizes=pools,
                relevant=relevant,
                depth=depth,
                dtype=torch.float64,
            )

        wins = 1 - x.double() / m if m else torch.full(x.shape, torch.nan)
        negatives = torch.full(x.shape, m, dtype=torch.float64)
        found.append(_values(formulas, torch.full_like(x, count), wins.double(), negatives, order))
    return np.concatenate(found).reshape(count, m + 1, len(formulas))


def _chances(
    above: Any, eligible: Any, m: Any, replacement: bool, width: int | None = None
) -> Floats:
    """The chance of each number of drawn negatives among those above, 0 to m; a last axis of that
    length, or of `width`.

    From ratios of neighbours, which are exact, where the factorials of a large catalogue would not
    be."""
    x = np.arange(int(np.max(m)) + 1 if width is None else width)
    if replacement:
        least, most = np.where((above == eligible) & (above > 0), m, 0), np.where(above == 0, 0, m)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (m - x) * above / ((x + 1.0) * (eligible - above))
    else:
        least, most = np.maximum(0, m - (eligible - above)), np.minimum(above, m)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = (above - x) * (m - x) / ((x + 1.0) * (eligible - above - m + x + 1))
    inside = (x >= least) & (x < most)
    steps = np.log(np.where(inside, ratio, 1.0))
    logs = np.concatenate([np.zeros_like(steps[..., :1]), steps.cumsum(-1)[..., :-1]], axis=-1)
    logs = np.where((x >= least) & (x <= most), logs, -np.inf)
    chances = np.exp(logs - logs.max(-1, keepdims=True))
    return np.asarray(chances / chances.sum(-1, keepdims=True))

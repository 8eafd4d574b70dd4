"""Slow oracles of the metrics beyond accuracy, in plain Python.

They are written from the definitions, like `oracles.py`, and use nothing of the code that is
compared with them; `oracle_world` has the data that they see."""

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import oracles_diversity
import oracles_exposure
import oracles_novelty
import oracles_propensity
from oracle_world import (
    Label,
    User,
    World,
    cluster_of,
    clusters,
    counted,
    discount,
    evaluated,
    features,
    group_of,
    groups,
    head,
    lists,
    popularity,
    ranked,
    tail,
    train_cells,
)
from oracles import (
    LIST_METRICS,
    NAN,
    RANKING_METRICS,
    grade,
    mean_summary,
    offered,
    relevant,
    summary,
    user_value,
)
from oracles_lists import gain_of
from oracles_ranks import DEFAULT_AVERAGES, RANKED, places
from oracles_ratings import BY_USER, SCORED, Cell


@dataclass(frozen=True)
class Answer:
    """A metric over everybody."""

    value: float  # NaN where undefined, and for the metrics that have only cells
    cells: dict[tuple[Label, ...], float] = field(
        default_factory=dict
    )  # the values that have labels
    std_error: float = NAN  # of means over users
    users: int | None = None  # how many users are in the mean, for means over users


# Rating: one user's errors, or everybody's


def errors(world: World, user: User) -> list[float]:
    """Give s - r of the user's truth cells that have a score, masked or not, relevant or not."""
    row = world.scores[user]
    cells = {} if row is None else world.truth.get(user, {})
    return [row[item] - rating for item, rating in cells.items() if row[item] != -math.inf]


def mae(deviations: Sequence[float]) -> float:
    """Mean |s - r|."""
    return math.fsum(abs(x) for x in deviations) / len(deviations) if deviations else NAN


def mse(deviations: Sequence[float]) -> float:
    """Mean (s - r)^2."""
    return math.fsum(x * x for x in deviations) / len(deviations) if deviations else NAN


def rmse(deviations: Sequence[float]) -> float:
    """Root of the mean (s - r)^2."""
    return math.sqrt(mse(deviations))


RATING: dict[str, Callable[[Sequence[float]], float]] = {"MAE": mae, "MSE": mse, "RMSE": rmse}


def scored_cells(world: World, user: User, cells: str = "truth") -> list[Cell]:
    """Give the cells of the user's truth that have a score, masked or not; or all "offered" items
    of a user of the truth.
    """
    row, case, truth = world.scores[user], world.cases()[user], world.truth.get(user, {})
    if cells == "offered":
        return [
            (row[item], truth.get(item, 0.0), item in relevant(case))
            for item in (offered(case) if user in world.truth else [])
        ]
    return [
        (row[item], rating, item in relevant(case))
        for item, rating in ({} if row is None else truth).items()
        if row[item] != -math.inf
    ]


def scored_value(
    metric: str,
    world: World,
    users: Iterable[User],
    cells: str = "truth",
    average: str = "cells",
    **params: Any,
) -> float:
    """Give a metric of the cells of some users together."""
    pooled = [cell for user in users for cell in scored_cells(world, user, cells)]
    return SCORED[metric](pooled, **params)


def ranked_value(
    metric: str, world: World, users: Iterable[User], average: str = "", **params: Any
) -> float:
    """Give a metric of the ranks of the relevant items of some users together."""
    pooled = [place for user in users for place in places(world.cases()[user])]
    return RANKED[metric](pooled, **params)


# Metrics with a value per user; NaN leaves the user out of the mean


def user_coverage(
    world: World, user: User, k: int, as_fraction: bool = False, users: str = "lists"
) -> float:
    """1 if anything is recommended, whether it is then summed or averaged."""
    return user_coverage_at_n(world, user, k, 1, as_fraction, users)


def user_coverage_at_n(
    world: World,
    user: User,
    k: int,
    n: int | None = None,
    as_fraction: bool = False,
    users: str = "lists",
) -> float:
    """1 if at least n items (None: k) are recommended."""
    enough = 1.0 if len(ranked(world, user, k)) >= (k if n is None else n) else 0.0
    return enough if user in counted(world, users) else NAN


def num_retrieved(world: World, user: User, k: int, users: str = "lists") -> float:
    """|L_u|."""
    return float(len(ranked(world, user, k))) if user in counted(world, users) else NAN


def valid_rate(world: World, user: User, k: int, users: str = "lists") -> float:
    """Items of the catalogue / |L_u|."""
    items = ranked(world, user, k) if user in counted(world, users) else []
    return sum(item in range(world.num_items) for item in items) / len(items) if items else NAN


def duplicate_rate(world: World, user: User, k: int, users: str = "lists") -> float:
    """Positions of L_u with an item of an earlier position / |L_u|."""
    items = ranked(world, user, k) if user in counted(world, users) else []
    later = [item for number, item in enumerate(items) if item in items[:number]]
    return len(later) / len(items) if items else NAN


def novelty(
    world: World,
    user: User,
    k: int,
    relevance: str,
    gain: str,
    denominator: str,
    novelties: Sequence[float],
) -> float:
    """Sum of w_p * nov(i_p) * d_p over the list / sum of d_p over k positions, or over those of the
    list (0 without any); NaN without a train or a relevant item.
    """
    case = world.cases()[user]
    if not relevant(case) or not train_cells(world):
        return NAN
    weigh: dict[str, Callable[[int], float]] = {
        "binary": lambda item: 1.0 if item in relevant(case) else 0.0,
        "graded": lambda item: gain_of(grade(case, item), gain),
        "discounted": lambda item: gain_of(grade(case, item), gain),
        "none": lambda item: 1.0,
    }
    weight = weigh[relevance]
    total = math.fsum(
        weight(item) * novelties[item] * discount(p)
        for p, item in enumerate(ranked(world, user, k), start=1)
    )
    length = {"k": k, "list": len(ranked(world, user, k))}[denominator]
    return total / (math.fsum(discount(p) for p in range(1, length + 1)) or 1)


def epc(
    world: World,
    user: User,
    k: int,
    relevance: str = "binary",
    gain: str = "exponential",
    unseen: float = 0,
    denominator: str = "k",
) -> float:
    """Novelty 1 - n_i / users with a train interaction; an item that nobody has seen counts
    `unseen` interactions.
    """
    watchers = len({watcher for watcher, _ in train_cells(world)})
    return novelty(
        world,
        user,
        k,
        relevance,
        gain,
        denominator,
        [1 - (n or unseen) / watchers if watchers else NAN for n in popularity(world)],
    )


def efd(
    world: World,
    user: User,
    k: int,
    relevance: str = "binary",
    gain: str = "exponential",
    denominator: str = "k",
) -> float:
    """Novelty -log2(n_i / T); an item that nobody has seen counts as if it had one interaction."""
    total = len(train_cells(world))
    return novelty(
        world,
        user,
        k,
        relevance,
        gain,
        denominator,
        [-math.log2(max(n, 1) / total) if total else NAN for n in popularity(world)],
    )


def s_recall(
    world: World, user: User, k: int, denominator: str = "relevant", numerator: str = "relevant"
) -> float:
    """Features of the relevant items in the list (or of all of the list) / features of R_u (or of
    the catalogue).
    """
    wanted, items = relevant(world.cases()[user]), ranked(world, user, k)
    if not wanted:
        return NAN
    got = {"relevant": [item for item in items if item in wanted], "list": items}[numerator]
    possible = {"relevant": wanted, "catalogue": list(range(world.num_items))}[denominator]
    return (
        len(features(world, got)) / len(features(world, possible))
        if features(world, possible)
        else NAN
    )


USER_METRICS: dict[str, Callable[..., float]] = {
    "UserCoverage": user_coverage,
    "UserCoverageAtN": user_coverage_at_n,
    "NumRetrieved": num_retrieved,
    "ValidRate": valid_rate,
    "DuplicateRate": duplicate_rate,
    "EPC": epc,
    "EFD": efd,
    "SRecall": s_recall,
    **oracles_novelty.USER_METRICS,
    **oracles_diversity.USER_METRICS,
    **oracles_exposure.USER_METRICS,
    **oracles_propensity.USER_METRICS,
}


# Metrics of all lists together


def exposure(world: World, k: int, users: str) -> list[int]:
    """Give c_i: the lists that hold item i."""
    shown = lists(world, k)
    counts = Counter(item for user in counted(world, users) for item in shown[user])
    return [counts[item] for item in range(world.num_items)]


def item_coverage(
    world: World,
    k: int,
    as_fraction: bool = False,
    universe: str = "catalogue",
    users: str = "lists",
) -> float:
    """Items of the universe in any list; as a fraction, of the universe; NaN if that is empty."""
    known = {"catalogue": [1] * world.num_items, "train": popularity(world)}[universe]
    size = sum(count > 0 for count in known)
    if as_fraction and not size:
        return NAN
    shown = exposure(world, k, users)
    covered = sum(count > 0 for count, interactions in zip(shown, known) if interactions)
    return covered / (size if as_fraction else 1)


def shannon_entropy(
    world: World,
    k: int,
    base: Any = "e",
    normalized: bool = False,
    users: str = "lists",
    weights: str = "positions",
) -> float:
    """Minus the sum of p_i log p_i, p_i = c_i / sum of c; normalized: / log N; NaN where nothing is
    recommended. Weighed by lists: minus the mean over the lists of their mean log p_i.
    """
    if base not in ("e", 2):
        raise ValueError(f"base must be 'e' or 2, got {base!r}")
    log, counts = (math.log2 if base == 2 else math.log), exposure(world, k, users)
    if not sum(counts) or (normalized and world.num_items == 1):
        return NAN
    shares = [count / sum(counts) for count in counts]
    shown = [items for user in counted(world, users) if (items := ranked(world, user, k))]
    total = {
        "positions": math.fsum(-p * log(p) for p in shares if p),
        "lists": statistics.fmean(
            statistics.fmean(-log(shares[item]) for item in items) for items in shown
        ),
    }[weights]
    return total / (log(world.num_items) if normalized else 1)


# Rates and their spread


def relative_spread(rates: Collection[float]) -> float:
    """Population std / mean of the rates that are not NaN; NaN for fewer than two, and where all
    are 0.
    """
    known = [rate for rate in rates if not math.isnan(rate)]
    return (
        statistics.pstdev(known) / statistics.fmean(known) if len(known) > 1 and any(known) else NAN
    )


def hit_rate_of(world: World, k: int, items: Collection[int]) -> float:
    """Relevant items recommended / relevant items, offered or not, of these items and all users;
    NaN without any.
    """
    cases, shown = world.cases(), lists(world, k)
    wanted = [
        (user, item) for user, case in cases.items() for item in relevant(case) if item in items
    ]
    return sum(item in shown[user] for user, item in wanted) / len(wanted) if wanted else NAN


def show_rate_of(world: World, k: int, items: Collection[int], users: str) -> float:
    """Recommended slots / offered slots, of these items and users; NaN without any offered."""
    cases, shown = world.cases(), lists(world, k)
    possible = [
        (user, item)
        for user in counted(world, users)
        for item in offered(cases[user])
        if item in items
    ]
    return sum(item in shown[user] for user, item in possible) / len(possible) if possible else NAN


def pop_reo(world: World, k: int, pop_ratio: float = 0.8) -> float:
    """Spread of the hit rates of head and tail."""
    return relative_spread(
        [hit_rate_of(world, k, items) for items in (head(world, pop_ratio), tail(world, pop_ratio))]
    )


def pop_rsp(world: World, k: int, pop_ratio: float = 0.8, users: str = "lists") -> float:
    """Spread of the show rates of head and tail."""
    return relative_spread(
        [
            show_rate_of(world, k, items, users)
            for items in (head(world, pop_ratio), tail(world, pop_ratio))
        ]
    )


def members(world: World, cluster: Label) -> list[int]:
    """Give the items of a cluster."""
    return [item for item in range(world.num_items) if cluster_of(world, item) == cluster]


def reo_cells(world: World, k: int) -> dict[tuple[Label, ...], float]:
    """Hit rate of every cluster."""
    return {
        (cluster,): hit_rate_of(world, k, members(world, cluster)) for cluster in clusters(world)
    }


def rsp_cells(world: World, k: int) -> dict[tuple[Label, ...], float]:
    """Show rate of every cluster, over all lists."""
    return {
        (cluster,): show_rate_of(world, k, members(world, cluster), "lists")
        for cluster in clusters(world)
    }


# Bias disparity


def disparity(world: World, slots: Iterable[tuple[User, int]]) -> dict[tuple[Label, ...], float]:
    """(share of the group's labelled slots that fall on the cluster) / (share of the labelled items
    that are in it).
    """
    labelled = [(group_of(world, user), cluster_of(world, item)) for user, item in slots]
    counts = Counter(
        (group, cluster) for group, cluster in labelled if group is not None and cluster is not None
    )
    items = {cluster: len(members(world, cluster)) for cluster in clusters(world)}
    cells = {}
    for group, cluster in itertools.product(groups(world), clusters(world)):
        total = sum(counts[group, other] for other in items)
        catalogue_share = items[cluster] / sum(items.values())
        cells[group, cluster] = counts[group, cluster] / total / catalogue_share if total else NAN
    return cells


def bs_cells(world: World, k: int | None = None) -> dict[tuple[Label, ...], float]:
    """Disparity of the train."""
    return disparity(world, train_cells(world))


def br_cells(world: World, k: int) -> dict[tuple[Label, ...], float]:
    """Disparity of the recommended slots of all lists."""
    return disparity(
        world, [(user, item) for user, items in lists(world, k).items() for item in items]
    )


def bd_cells(world: World, k: int) -> dict[tuple[Label, ...], float]:
    """(BR - BS) / BS; NaN where BS is 0."""
    source, shown = bs_cells(world), br_cells(world, k)
    return {
        cell: (shown[cell] - source[cell]) / source[cell] if source[cell] else NAN
        for cell in source
    }


# Mean absolute differences


def mean_difference(values: Iterable[tuple[Label | None, float]]) -> float:
    """Mean |difference| over the pairs of the labels' means, without what is NaN or unlabelled; NaN
    for fewer than two labels.
    """
    by_label: dict[Label, list[float]] = {}
    for label, value in values:
        if label is not None and not math.isnan(value):
            by_label.setdefault(label, []).append(value)
    means = [statistics.fmean(several) for several in by_label.values()]
    gaps = [abs(a - b) for a, b in itertools.combinations(means, 2)]
    return statistics.fmean(gaps) if gaps else NAN


def item_difference(world: World, appearances: Iterable[tuple[int, float]]) -> float:
    """Mean over each item's appearances, then the mean difference of the clusters."""
    by_item: dict[int, list[float]] = {}
    for item, value in appearances:
        by_item.setdefault(item, []).append(value)
    return mean_difference(
        (cluster_of(world, item), statistics.fmean(values)) for item, values in by_item.items()
    )


def item_mad_ranking(
    world: World,
    k: int,
    gain: str = "exponential",
    discount: bool = True,
    users: str = "evaluated",
) -> float:
    """Difference of g_p * d_p, or of g_p alone, over the lists of evaluated users, or of all."""
    cases, shown = world.cases(), lists(world, k)
    return item_difference(
        world,
        [
            (item, gain_of(grade(cases[user], item), gain) / (math.log2(p + 1) if discount else 1))
            for user in counted(world, users)
            for p, item in enumerate(shown[user], start=1)
        ],
    )


def item_mad_rating(world: World, k: int, appearances: str = "relevant") -> float:
    """Difference of the scores of the hits of evaluated users; or of all appearances, misses
    counting 0.
    """
    cases, shown = world.cases(), lists(world, k)
    hits = [
        (user, item)
        for user in evaluated(world)
        for item in shown[user]
        if item in relevant(cases[user])
    ]
    if appearances == "all":
        cells = [(user, item) for user in evaluated(world) for item in shown[user]]
        return item_difference(
            world,
            [
                (item, cases[user].scores[item] if (user, item) in hits else 0.0)
                for user, item in cells
            ],
        )
    return item_difference(world, [(item, cases[user].scores[item]) for user, item in hits])


def user_mad_ranking(world: World, k: int, gain: str = "exponential") -> float:
    """Difference of the groups' mean nDCG."""
    return mean_difference(
        (group_of(world, user), user_value("nDCG", case, k, gain=gain))
        for user, case in world.cases().items()
    )


def user_mad_rating(world: World, k: int, users: str = "lists") -> float:
    """Difference of the groups' mean of the mean score of a list that is not empty."""
    shown = {
        user: items
        for user, items in lists(world, k).items()
        if items and user in counted(world, users)
    }
    return mean_difference(
        (group_of(world, user), statistics.fmean(world.scores[user][item] for item in items))
        for user, items in shown.items()
    )


GLOBAL_METRICS: dict[str, Callable[..., float]] = {
    "ItemCoverage": item_coverage,
    "ShannonEntropy": shannon_entropy,
    "PopREO": pop_reo,
    "PopRSP": pop_rsp,
    "ItemMADRanking": item_mad_ranking,
    "ItemMADRating": item_mad_rating,
    "UserMADRanking": user_mad_ranking,
    "UserMADRating": user_mad_rating,
    **oracles_diversity.GLOBAL_METRICS,
    **oracles_exposure.GLOBAL_METRICS,
}
CELL_METRICS: dict[str, Callable[..., dict[tuple[Label, ...], float]]] = {
    "BiasDisparityBS": bs_cells,
    "BiasDisparityBR": br_cells,
    "BiasDisparityBD": bd_cells,
    "REO": reo_cells,
    "RSP": rsp_cells,
    **oracles_exposure.CELL_METRICS,
}


# Combinations of other metrics

WITHOUT_K = ("AUC", "GAUC", "BiasDisparityBS", *RATING, *SCORED, *RANKED)
TARGETS = ("BiasDisparityBS", "BiasDisparityBR", "BiasDisparityBD")
LOWER_IS_BETTER = (*RATING, "Gini", "PopREO", "PopRSP", "REO", "RSP", "EucDistance")
LOWER_IS_BETTER += ("LogLoss", "NE", "ECE", "MAPE", "SMAPE", "NDPM", "MeanRank", "PercentileRank")
LOWER_IS_BETTER += ("ItemMADRanking", "ItemMADRating", "UserMADRanking", "UserMADRating")
LOWER_IS_BETTER += (*oracles_diversity.LOWER_IS_BETTER, *oracles_exposure.LOWER_IS_BETTER)


def part(given: Any, k: int | None) -> tuple[str, int | None, dict[str, Any]]:
    """Give the name, cut-off and parameters of a part, named "nDCG" or ("nDCG", {"gain":
    "linear"}).
    """
    name, params = (given, {}) if isinstance(given, str) else given
    return name, None if name in WITHOUT_K else k, params


def distance(values: Sequence[float], utopia_points: Sequence[float]) -> float:
    """Euclidean distance to utopia; NaN if a value is."""
    return math.sqrt(
        math.fsum((value - best) ** 2 for value, best in zip(values, utopia_points, strict=True))
    )


def volume(
    values: Sequence[float], nadir_points: Sequence[float], higher_is_better: Sequence[bool]
) -> float:
    """Product of max(0, gap to nadir), each gap in its own direction; NaN if a value is."""
    if any(math.isnan(value) for value in values):
        return NAN
    gaps = [
        v - n if up else n - v
        for v, n, up in zip(values, nadir_points, higher_is_better, strict=True)
    ]
    return math.prod(max(0.0, gap) for gap in gaps)


def directions(metric_names: Sequence[Any], higher_is_better: Sequence[bool] | None) -> list[bool]:
    """Give which parts are better when higher, by the table or as overridden; metrics with a target
    have no direction.
    """
    names = [part(name, None)[0] for name in metric_names]
    if any(name in TARGETS for name in names):
        raise ValueError(f"a metric with a target value has no direction: {names}")
    return (
        [name not in LOWER_IS_BETTER for name in names]
        if higher_is_better is None
        else list(higher_is_better)
    )


def combine(metric: str, values: Sequence[float], params: Mapping[str, Any]) -> float:
    """Give EucDistance or Hypervolume of the parts' values."""
    if metric == "EucDistance":
        return distance(values, params["utopia_points"])
    return volume(
        values,
        params["nadir_points"],
        directions(params["metric_names"], params.get("higher_is_better")),
    )


def f1(
    world: World,
    user: User,
    k: int | None,
    metric_name_1: Any = "Precision",
    metric_name_2: Any = "Recall",
    beta: float = 1.0,
    metric_1: Any = None,
    metric_2: Any = None,
) -> float:
    """(1 + beta^2) a b / (beta^2 a + b) of the user's two values (NaN if one is), 0 when the
    denominator is 0.
    """
    a, b = (
        value_of_part(world, user, k, name)
        for name in (metric_1 or metric_name_1, metric_2 or metric_name_2)
    )
    below = beta**2 * a + b
    return 0.0 if below == 0 else (1 + beta**2) * a * b / below


def value_of_part(world: World, user: User, k: int | None, given: Any) -> float:
    """Give one user's value of a part."""
    name, cutoff, params = part(given, k)
    return user_answer(name, world, user, cutoff, **params)


# Answers

COMBINATIONS = ("F1", "EucDistance", "Hypervolume")
WITH_ORACLE = frozenset(
    (
        "AUC",
        "GAUC",
        *RANKING_METRICS,
        *COMBINATIONS,
        *LIST_METRICS,
        *USER_METRICS,
        *GLOBAL_METRICS,
        *CELL_METRICS,
    )
) | frozenset((*RATING, *SCORED, *RANKED))


def missing_oracles(metrics: Iterable[str]) -> list[str]:
    """Return the metrics that have no oracle, neither here nor in `oracles`."""
    return [metric for metric in metrics if metric not in WITH_ORACLE]


def has_user_values(metric: str, params: Mapping[str, Any]) -> bool:
    """Whether the metric, with these parameters, has a value per user."""
    if metric in RANKED:
        return params.get("average", DEFAULT_AVERAGES[metric]) == "users"
    if metric in RATING or metric in SCORED:
        return metric in BY_USER or params.get("average", "cells") == "users"
    if metric in ("EucDistance", "Hypervolume"):
        return params.get("scope", "system") == "users"
    return (
        metric in ("F1", "GAUC", *RANKING_METRICS)
        or metric in LIST_METRICS
        or metric in USER_METRICS
    )


def user_answer(metric: str, world: World, user: User, k: int | None, /, **params: Any) -> float:
    """Value of one user; NaN where it is undefined and where the user is not in the mean."""
    if not has_user_values(metric, params):
        raise ValueError(f"{metric} with {params} has no value per user")
    check_cutoff(metric, k)
    case = world.cases()[user]
    if metric in RATING:
        return RATING[metric](errors(world, user))
    if metric in SCORED:
        return scored_value(metric, world, [user], **params)
    if metric in RANKED:
        return ranked_value(metric, world, [user], **params)
    if metric == "F1":
        return f1(world, user, k, **params) if relevant(case) else NAN
    if metric in ("EucDistance", "Hypervolume"):
        values = [value_of_part(world, user, k, name) for name in params["metric_names"]]
        return combine(metric, values, params) if relevant(case) else NAN
    if metric in USER_METRICS:
        return USER_METRICS[metric](world, user, k, **params)
    return user_value(metric, case, k, **params)


def answer(metric: str, world: World, k: int | None, /, **params: Any) -> Answer:
    """Value over everybody, with its cells, its standard error and its number of users where it has
    such.
    """
    check_cutoff(metric, k)
    if metric in ("AUC", "GAUC"):
        found = summary(metric, list(world.cases().values()), None, **params)
        return Answer(
            found.value, std_error=found.std_error, users=None if metric == "AUC" else found.users
        )
    if metric in CELL_METRICS:
        cells = CELL_METRICS[metric](world, k, **params)
        if metric in oracles_exposure.SCALARS:
            return Answer(oracles_exposure.SCALARS[metric](world, k), cells)
        return Answer(NAN if metric in TARGETS else relative_spread(cells.values()), cells)
    if metric in GLOBAL_METRICS:
        return Answer(GLOBAL_METRICS[metric](world, k, **params))
    if metric in RATING and not has_user_values(metric, params):
        return Answer(
            RATING[metric]([error for user in world.scores for error in errors(world, user)])
        )
    if metric in SCORED and not has_user_values(metric, params):
        return Answer(scored_value(metric, world, world.scores, **params))
    if metric in RANKED and not has_user_values(metric, params):
        return Answer(ranked_value(metric, world, world.scores, **params))
    if metric in ("EucDistance", "Hypervolume") and not has_user_values(metric, params):
        parts = [part(name, k) for name in params["metric_names"]]
        return Answer(
            combine(
                metric,
                [answer(name, world, cutoff, **own).value for name, cutoff, own in parts],
                params,
            )
        )
    values = [user_answer(metric, world, user, k, **params) for user in world.scores]
    if metric in ("UserCoverage", "UserCoverageAtN") and not params.get("as_fraction", False):
        return Answer(math.fsum(value for value in values if not math.isnan(value)))
    found = mean_summary(values, [1.0] * len(values))
    return Answer(found.value, std_error=found.std_error, users=found.users)


def check_cutoff(metric: str, k: int | None) -> None:
    """Refuse a cut-off where there is none, and none where there must be one."""
    if (metric in WITHOUT_K) != (k is None) or (k is not None and k < 1):
        raise ValueError(f"{metric} cannot be read at a cut-off of {k}")

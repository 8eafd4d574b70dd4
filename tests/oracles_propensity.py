"""Slow oracles of metrics with propensities, in plain Python, written from the definitions."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from oracle_world import User, World, discount, popularity, ranked, train_cells
from oracles import LIST_METRICS, NAN, ranked_list, relevant


def propensities(world: World, power: float, clip: float) -> list[float]:
    """Give p_i = (n_i / max n)^power, clipped to [clip, 1]; the given ones instead if there are."""
    if world.propensities is not None:
        return [max(world.propensities[item], clip) for item in range(world.num_items)]
    counts = popularity(world)
    return [min(max((count / max(counts)) ** power, clip), 1.0) for count in counts]


def inverse_sum(
    world: World,
    user: User,
    k: int,
    power: float,
    clip: float,
    *,
    discounted: bool,
    divisor: str,
) -> float:
    """Sum of d_p / p_i (or 1 / p_i) over the hits / |R_u|, the sum of 1 / p_i over R_u, or 1."""
    wanted = relevant(world.cases()[user])
    if not wanted or (world.propensities is None and not train_cells(world)):
        return NAN
    p = propensities(world, power, clip)
    total = math.fsum(
        (discount(position) if discounted else 1) / p[item]
        for position, item in enumerate(ranked(world, user, k), start=1)
        if item in wanted
    )
    weight = math.fsum(1 / p[item] for item in wanted)
    return total / {"relevant": len(wanted), "weight": weight, "one": 1}[divisor]


def ips_recall(world: World, user: User, k: int, power: float = 0.5, clip: float = 0.1) -> float:
    """Sum of 1 / p_i over the hits / |R_u|."""
    return inverse_sum(world, user, k, power, clip, discounted=False, divisor="relevant")


def snips_recall(world: World, user: User, k: int, power: float = 0.5, clip: float = 0.1) -> float:
    """Sum of 1 / p_i over the hits / that over R_u."""
    return inverse_sum(world, user, k, power, clip, discounted=False, divisor="weight")


def ips_dcg(world: World, user: User, k: int, power: float = 0.5, clip: float = 0.1) -> float:
    """Sum of d_p / p_i over the hits."""
    return inverse_sum(world, user, k, power, clip, discounted=True, divisor="one")


def snips_dcg(world: World, user: User, k: int, power: float = 0.5, clip: float = 0.1) -> float:
    """Sum of d_p / p_i over the hits / the sum of 1 / p_i over R_u."""
    return inverse_sum(world, user, k, power, clip, discounted=True, divisor="weight")


def ips(
    world: World,
    user: User,
    k: int,
    metric: Any = "nDCG",
    self_normalized: bool = False,
    power: float = 0.5,
    clip: float = 0.1,
) -> float:
    """Sum over hits of 1 / p_i times the value of the metric if that hit were the only one; with
    self_normalized, 1 / p_i is divided by its mean over R_u, and DCG by |R_u| too.
    """
    name, params = (metric, {}) if isinstance(metric, str) else metric
    case = world.cases()[user]
    wanted, items = relevant(case), ranked(world, user, k)
    if not wanted or (world.propensities is None and not train_cells(world)):
        return NAN
    p, row = propensities(world, power, clip), ranked_list(case, items, k)
    if math.isnan(LIST_METRICS[name](row, **params)):  # the normalizer is 0
        return NAN
    total = 0.0
    for position, item in enumerate(items):
        alone = tuple(g if at == position else 0 for at, g in enumerate(row.grades))
        total += LIST_METRICS[name](replace(row, grades=alone), **params) / p[item]
    if not self_normalized:
        return total
    total /= math.fsum(1 / p[item] for item in wanted)
    return total if name == "DCG" else total * len(wanted)


USER_METRICS: dict[str, Callable[..., float]] = {
    "IPSRecall": ips_recall,
    "SNIPSRecall": snips_recall,
    "IPSDCG": ips_dcg,
    "SNIPSDCG": snips_dcg,
    "IPS": ips,
}

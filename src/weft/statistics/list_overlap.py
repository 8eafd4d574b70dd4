"""How similar the recommendation lists of two models are, user by user."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from weft.errors import InputError, SettingError, check_float, check_int, setting_ref
from weft.evaluation.result import Result
from weft.statistics.pairing import Floats

if TYPE_CHECKING:
    import polars as pl

LIST_COLUMNS = (
    *("overlap", "intersection", "jaccard"),
    *("rbo", "rbo_normalized", "rbo_extrapolated"),
    *("promoted", "deepest_promotion"),
)


def compare_lists(results: Mapping[str, Result], k: int | None, p: float) -> pl.DataFrame:
    """Return a row per ordered pair of models with the means over users; see `Comparison.lists`."""
    import polars as pl

    lists = {name: _listed(name, result) for name, result in results.items()}
    depths = [_depth(one) for one in lists.values()]
    k = max(1, min(depths)) if k is None else check_int("k", k)
    if k > max(1, *depths):
        raise SettingError(
            f"{setting_ref('k', k)}, but the kept lists end at {max(depths)}; give a smaller one, "
            "or evaluate with larger cut-offs."
        )
    if not 0 < check_float("p", p, more=" between 0 and 1") < 1:
        raise SettingError(f"{setting_ref('p', p)}; it must be between 0 and 1.")
    rows = [
        {"model_a": a, "model_b": b, "k": k, **_compare(lists[a], lists[b], k, p)}
        for a, b in itertools.permutations(lists, 2)
    ]
    schema = {"model_a": pl.String, "model_b": pl.String, "k": pl.Int64, "users": pl.Int64}
    return pl.DataFrame(rows, schema=schema | dict.fromkeys(LIST_COLUMNS, pl.Float64))


def _listed(name: str, result: Result) -> pl.DataFrame:
    if result.lists is None:
        raise InputError(
            f"the result {name!r} has no lists to compare; evaluate it with "
            f"{setting_ref('keep_lists', True)}."
        )
    return result.lists


def _depth(lists: pl.DataFrame) -> int:
    """Return the length of the longest list."""
    return int(lists["rank"].to_numpy().max(initial=0))


def _compare(a: pl.DataFrame, b: pl.DataFrame, k: int, p: float) -> dict[str, float]:
    """Return the means of `LIST_COLUMNS` over the users who have both lists, and their number."""
    import polars as pl

    top_a, top_b = (lists.filter(pl.col("rank") <= k) for lists in (a, b))
    users = top_a.group_by("user").agg(length_a=pl.len().cast(pl.Int64))
    users = users.join(top_b.group_by("user").agg(length_b=pl.len().cast(pl.Int64)), on="user")
    common = top_a.join(b, on=["user", "item"], suffix="_b")
    lower = np.maximum(common["rank"].to_numpy(), common["rank_b"].to_numpy())
    common = common.with_columns(
        is_shared=pl.Series(lower <= k, dtype=pl.Boolean),
        weight=pl.Series(_depth_weights(k, p)[np.minimum(lower, k + 1) - 1], dtype=pl.Float64),
    )
    sums = common.group_by("user").agg(
        shared=pl.col("is_shared").sum().cast(pl.Int64),
        rbo=(1 - p) * pl.col("weight").sum(),
        deepest=(pl.col("rank_b").max() - k).clip(lower_bound=0),
    )
    rows = users.join(sums, on="user", how="left").fill_null(0)
    shared, rbo = pl.col("shared"), pl.col("rbo")
    means = rows.select(
        overlap=shared / k,
        intersection=shared / pl.col("length_a"),
        jaccard=shared / (pl.col("length_a") + pl.col("length_b") - shared),
        rbo=rbo,
        rbo_normalized=rbo / (1 - p**k),
        rbo_extrapolated=rbo + shared / k * p**k,
        promoted=pl.col("length_a") - shared,
        deepest_promotion=pl.col("deepest"),
    ).mean()
    return {"users": len(rows), **means.row(0, named=True)}


def _depth_weights(k: int, p: float) -> Floats:
    """Return the weight in RBO of a common item by the lower of its positions, `[k + 1]`.

    The item counts at every depth d from there to k, with p^(d-1) / d. 0 beyond k."""
    depths = np.arange(1, k + 1)
    weights = (p ** (depths - 1) / depths)[::-1].cumsum()[::-1]
    return np.append(weights, 0.0)

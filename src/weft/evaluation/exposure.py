"""How recommendations are spread over the items of the catalogue, from the counts of a pass: small
enough to be drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.data import Train
from weft.evaluation.result import FRAMES
from weft.metrics.accumulators import ItemExposure, StateLayout, StateView

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]
_PERCENT = np.arange(101) / 100


def exposure_frames(
    layout: StateLayout, read: Callable[[int | None], StateView], train: Train | None
) -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
    """`Result.exposure`, and `Result.popularity` if there is train, at each cut-off at which all
    lists were counted by item.

    None where nothing was counted, or nothing recommended.
    """
    total = next(
        (
            total
            for total in layout.cutoffs
            if isinstance(total, ItemExposure) and total.users == "lists"
        ),
        None,
    )
    if total is None:
        return None, None
    curves, bins = [], []
    for k in layout.cutoffs[total]:
        counts = read(k).at_items(total).cpu().numpy().astype(np.int64)
        if not counts.any():
            continue
        curve = lorenz_curve(counts, total.num_items)
        curves.append((np.full(len(curve[0]), k), *curve))
        if train is not None:
            popular = train.popularity_bins
            recommended = (
                read(k)
                .by_group(total, popular.bins, len(popular.items))
                .cpu()
                .numpy()
                .astype(np.int64)
            )
            bins.append(
                (
                    np.full(len(recommended), k),
                    *popular.ranges,
                    popular.items,
                    popular.interactions,
                    recommended,
                )
            )
    return _frame("exposure", curves), _frame("popularity", bins)


def _frame(name: str, parts: Sequence[tuple[NDArray[Any], ...]]) -> pl.DataFrame | None:
    """A table of a result from its columns, some rows at a time."""
    if not parts:
        return None
    import polars as pl

    return pl.DataFrame(dict(zip(FRAMES[name], map(np.concatenate, zip(*parts)))))


def lorenz_curve(counts: NDArray[np.int64], num_items: int) -> tuple[Floats, Floats]:
    """Points of the Lorenz curve, least recommended items first: the share of items, and their
    share of recommendations.

    `counts`: how often items were recommended, of which some were; what lacks to `num_items` has 0.
    There is a point at each percent of the items and at each percent of the recommendations, so
    that the curve is followed where it is steep, too."""
    number = np.bincount(counts)  # of items, by how often they were recommended
    number[0] += num_items - len(counts)
    times = np.flatnonzero(number)
    of_items, of_all = number[times].cumsum(), (times * number[times]).cumsum()
    corners_x, corners_y = (
        np.append(0.0, of_items / of_items[-1]),
        np.append(0.0, of_all / of_all[-1]),
    )
    rises = int(times[0] == 0)  # behind the items that were never recommended
    x = np.append(_PERCENT, np.interp(_PERCENT, corners_y[rises:], corners_x[rises:]))
    y = np.append(np.interp(_PERCENT, corners_x, corners_y), _PERCENT)
    # The curve rises: sorted each for themselves they stay together, and rounding makes no step
    # back.
    x, y = np.sort(x), np.sort(y)
    new = np.append(True, (np.diff(x) > 0) | (np.diff(y) > 0))
    return x[new], y[new]

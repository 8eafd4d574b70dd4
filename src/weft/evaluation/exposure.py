"""Distribution of recommendations over the items of the catalogue, as small tables for charts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from weft.data import Train
from weft.evaluation.result import FRAMES
from weft.metrics.accumulators import ItemExposure
from weft.metrics.state_layout import StateLayout, StateView

if TYPE_CHECKING:
    import polars as pl

Floats = NDArray[np.float64]
_PERCENT = np.arange(101) / 100


def exposure_frames(
    layout: StateLayout, view: Callable[[int | None], StateView], train: Train | None
) -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
    """Return `Result.exposure`, and `Result.popularity` if there is train.

    They have rows for each cut-off at which recommendations were counted by item; None if there is
    none, or nothing was recommended. `view(k)` reads the state at a cut-off.
    """
    exposures = [
        accumulator
        for accumulator in layout.cutoffs
        if isinstance(accumulator, ItemExposure) and accumulator.users == "lists"
    ]
    if not exposures:
        return None, None
    exposure = exposures[0]
    curves, bins = [], []
    for k in layout.cutoffs[exposure]:
        counts = _to_integers(view(k).at_items(exposure))
        if not counts.any():
            continue
        curve = lorenz_curve(counts, exposure.num_items)
        curves.append((np.full(len(curve[0]), k), *curve))
        if train is not None:
            popularity = train.popularity_bins
            sizes = popularity.items, popularity.interactions
            recommended = _to_integers(view(k).by_group(exposure, popularity.bins, len(sizes[0])))
            cutoffs = np.full(len(recommended), k)
            bins.append((cutoffs, *popularity.ranges, *sizes, recommended))
    return _frame("exposure", curves), _frame("popularity", bins)


def _to_integers(counts: Tensor) -> NDArray[np.int64]:
    return counts.cpu().numpy().astype(np.int64)


def _frame(name: str, blocks: Sequence[tuple[NDArray[Any], ...]]) -> pl.DataFrame | None:
    """Return a table of a result from blocks of rows, each a tuple of columns."""
    if not blocks:
        return None
    import polars as pl

    return pl.DataFrame(dict(zip(FRAMES[name], map(np.concatenate, zip(*blocks)))))


def lorenz_curve(counts: NDArray[np.int64], num_items: int) -> tuple[Floats, Floats]:
    """Return points of the Lorenz curve: shares of the least recommended items, of recommendations.

    `counts` are the recommendations of items, at least one positive; items without a count, up to
    `num_items`, have 0. There is a point at each percent of the items and at each percent of the
    recommendations, so that steep parts are followed, too.
    """
    frequency = np.bincount(counts)  # number of items by number of recommendations
    frequency[0] += num_items - len(counts)
    levels = np.flatnonzero(frequency)
    items, recommendations = frequency[levels].cumsum(), (levels * frequency[levels]).cumsum()
    corners_x = np.append(0.0, items / items[-1])
    corners_y = np.append(0.0, recommendations / recommendations[-1])
    start = int(levels[0] == 0)  # after the items that were never recommended
    x = np.append(_PERCENT, np.interp(_PERCENT, corners_y[start:], corners_x[start:]))
    y = np.append(np.interp(_PERCENT, corners_x, corners_y), _PERCENT)
    # The curve is monotone: sorting each coordinate keeps the pairs and removes rounding errors.
    x, y = np.sort(x), np.sort(y)
    is_new = np.append(True, (np.diff(x) > 0) | (np.diff(y) > 0))
    return x[is_new], y[is_new]

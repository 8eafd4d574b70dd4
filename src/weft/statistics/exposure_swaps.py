"""Differences of two models on metrics of items, after random swaps of their lists.

If two models do not differ, their lists of a user can be exchanged. The users are in random parts,
and the lists of each part are exchanged with a probability of 1/2. Metrics are then computed again
from the sums of the parts, for as many random swaps as the bootstrap has resamples.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch

from weft.evaluation.exposure_parts import (
    ExposureParts,
    Integers,
    build_swappable,
    list_quantities,
)
from weft.evaluation.resample_weights import rows_per_block
from weft.metrics.accumulators import ItemAccumulator
from weft.metrics.base.summed import SummedMetric
from weft.metrics.names import MetricSpec
from weft.metrics.state_layout import StateLayout
from weft.statistics.pairing import Floats

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix


def swap_differences(
    a: ExposureParts, b: ExposureParts, metrics: Sequence[str], *, resamples: int, seed: int
) -> dict[str, Floats]:
    """Return by metric its differences `[resamples]` after random swaps of the lists.

    The models have as many items, and the same type of ids.
    """
    swaps = _ListSwaps.align(a, b, metrics)
    chosen = np.random.default_rng(seed).integers(0, 2, (swaps.num_parts, resamples))
    differences = np.concatenate(list(swaps.differences(chosen.astype(np.float64))))
    return dict(zip(metrics, differences.T))


@dataclass(frozen=True, eq=False)
class _ListSwaps:
    """The sums of two models in the parts of the users, `[sums, parts]`, and metrics of them."""

    metrics: dict[MetricSpec, SummedMetric]
    layout: StateLayout
    sums: tuple[csr_matrix, csr_matrix]
    num_parts: int

    @classmethod
    def align(cls, a: ExposureParts, b: ExposureParts, metrics: Sequence[str]) -> _ListSwaps:
        """Place the sums of two models in one layout, by the ids of their items."""
        built = build_swappable(metrics, a.num_items)
        cutoffs = {quantity: set[int]() for quantity in list_quantities(built)}
        for parts in (a, b):
            for quantity, own in _stored_cutoffs(parts).items():
                if quantity in cutoffs:
                    cutoffs[quantity] |= own
        layout = StateLayout(cutoffs)
        num_parts = max(a.num_parts, b.num_parts)
        codes = _align_items(a, b)
        placed = [_place(parts, of, layout, num_parts) for parts, of in zip((a, b), codes)]
        return cls(built, layout, (placed[0], placed[1]), num_parts)

    def differences(self, chosen: Floats) -> Iterator[Floats]:
        """Yield blocks of differences `[swaps, metrics]`; `chosen [parts, swaps]` is 0 or 1."""
        a, b = self.sums
        step = rows_per_block(2 * self.layout.size)
        for start in range(0, chosen.shape[1], step):
            kept = chosen[:, start : start + step]
            first, second = a @ kept + b @ (1 - kept), b @ kept + a @ (1 - kept)
            yield self._values(first) - self._values(second)

    def _values(self, sums: Floats) -> Floats:
        """Return the values `[swaps, metrics]` of sums `[sums, swaps]`."""
        columns = torch.from_numpy(np.ascontiguousarray(sums.T))
        return np.array(
            [
                [
                    float(metric.all_values(view(spec.k))[()])
                    for spec, metric in self.metrics.items()
                ]
                for view in map(self.layout.view, columns)
            ]
        )


def _stored_cutoffs(parts: ExposureParts) -> dict[object, set[int]]:
    """Return the cut-offs at which the sums of each accumulator are stored."""
    quantities = list_quantities(build_swappable(parts.metrics, parts.num_items))
    return {
        quantity: own | set(np.unique(parts.k[parts.quantity == number]).tolist())
        for number, (quantity, own) in enumerate(quantities.items())
    }


def _align_items(a: ExposureParts, b: ExposureParts) -> tuple[Integers, Integers]:
    """Return a number for the item of each entry of two models, equal for equal ids."""
    import polars as pl

    ids = [a.item_ids(), b.item_ids()]
    known = pl.concat(ids).drop_nulls().unique()
    index = pl.DataFrame({"item": known, "code": np.arange(len(known))})
    codes = [
        pl.DataFrame({"item": one})
        .join(index, on="item", how="left", maintain_order="left")["code"]
        .fill_null(0)
        .to_numpy()
        for one in ids
    ]
    return codes[0], codes[1]


def _place(
    parts: ExposureParts, codes: Integers, layout: StateLayout, num_parts: int
) -> csr_matrix:
    """Return the sums of a model in a layout, `[sums, parts]`."""
    from scipy.sparse import csr_matrix

    rows = np.full(len(codes), -1, dtype=np.int64)
    quantities = list_quantities(build_swappable(parts.metrics, parts.num_items))
    for number, quantity in enumerate(quantities):
        if quantity not in layout.cutoffs:
            continue
        is_own = parts.quantity == number
        cutoffs = np.array(layout.cutoffs[quantity])
        item = codes[is_own] if isinstance(quantity, ItemAccumulator) else 0
        column = np.searchsorted(cutoffs, parts.k[is_own])
        rows[is_own] = layout.term_section(quantity).start + item * len(cutoffs) + column
    is_placed = rows >= 0
    entries = (parts.value[is_placed], (rows[is_placed], parts.part[is_placed]))
    return csr_matrix(entries, shape=(layout.size, num_parts))

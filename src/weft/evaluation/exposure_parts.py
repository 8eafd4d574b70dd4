"""Exposure of items in random parts of the users, from which lists of two models can be swapped.

Metrics that count lists per item, such as Gini and coverage, have biased bootstrap resamples: these
hold fewer different users. Comparisons exchange the lists of two models instead, for whole parts of
the users, and need the sums of each part for that.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from weft.data import Vocabulary
from weft.evaluation.bootstrap import Resampler
from weft.evaluation.document_fields import describe, reject
from weft.evaluation.resample_weights import Floats
from weft.metrics.accumulators import Accumulator, ItemAccumulator, UserMeanSums
from weft.metrics.base.summed import SummedMetric
from weft.metrics.names import MetricSpec, parse_name
from weft.metrics.registry import build_metric
from weft.metrics.state_layout import StateLayout

if TYPE_CHECKING:
    import polars as pl

Integers = NDArray[np.int64]
NUM_PARTS = 32  # of the users; the swaps of a test are 2^32 then
# Columns of the table of a result, and of `ExposureParts`.
COLUMNS = ("quantity", "k", "part", "item", "value")


def can_swap(metric: SummedMetric) -> bool:
    """Return True if a metric can be computed from its name and the sums of lists by item."""
    is_built_in = type(metric).__module__.startswith("weft.")
    return (
        is_built_in
        and metric.needed_inputs() <= {"num_items"}
        and all(map(_is_kept, metric.accumulators()))
    )


def _is_kept(accumulator: Accumulator) -> bool:
    """Return True for numbers per item, and for single numbers that are no means."""
    if isinstance(accumulator, UserMeanSums):
        return False
    return isinstance(accumulator, ItemAccumulator) or accumulator.num_rows == 1


def build_swappable(names: Sequence[str], num_items: int) -> dict[MetricSpec, SummedMetric]:
    """Build the metrics of `ExposureParts.metrics`."""
    metrics: dict[MetricSpec, SummedMetric] = {}
    for spec in map(parse_name, names):
        metric = build_metric(spec, inputs={"num_items": num_items}, standalone=False)
        assert isinstance(metric, SummedMetric)
        metrics[spec] = metric
    return metrics


def list_quantities(metrics: dict[MetricSpec, SummedMetric]) -> dict[Accumulator, set[int]]:
    """Return the accumulators of metrics in a fixed order, with their cut-offs."""
    quantities: dict[Accumulator, set[int]] = {}
    for spec, metric in metrics.items():
        own = metric.accumulator_cutoffs(() if spec.k is None else (spec.k,))
        for accumulator, cutoffs in own.items():
            quantities.setdefault(accumulator, set()).update(cutoffs)
    return quantities


@dataclass(frozen=True, eq=False)
class ExposureParts:
    """Sums of each part of the users, as entries `[n]` other than 0.

    `quantity` is a number in `list_quantities`, `k` the cut-off at which the sum is stored (1
    without cut-offs), `item` an index, -1 for quantities that are not per item. `items` are the ids
    of the indices; None if these are ids themselves.
    """

    metrics: tuple[str, ...]
    num_items: int
    quantity: Integers
    k: Integers
    part: Integers
    item: Integers
    value: Floats
    items: Vocabulary | None = None

    @classmethod
    def collect(
        cls,
        resampler: Resampler,
        layout: StateLayout,
        metrics: dict[MetricSpec, SummedMetric],
        items: Vocabulary | None,
    ) -> ExposureParts:
        """Read the sums of the parts from the contributions of all users."""
        quantities = list_quantities(metrics)
        sizes = (one.num_items for one in quantities if isinstance(one, ItemAccumulator))
        entries: list[tuple[NDArray[np.generic], ...]] = []
        for first, terms in resampler.group_terms(NUM_PARTS):
            entries += _read_entries(layout, quantities, first, terms)
        quantity, k, part, item, value = map(np.concatenate, zip(*entries))
        names = tuple(map(str, metrics))
        return cls(names, next(sizes), quantity, k, part, item, value, items)

    @property
    def num_parts(self) -> int:
        """The number of parts with any entry, or more."""
        return int(self.part.max(initial=-1)) + 1

    def item_ids(self) -> pl.Series:
        """Return the id of the item of each entry, null for quantities that are not per item."""
        import polars as pl

        codes = pl.Series("item", self.item).set(pl.Series(self.item < 0), None)
        return codes if self.items is None else self.items.ids.gather(codes).alias("item")

    def to_frame(self) -> pl.DataFrame:
        """Return the entries as a table for `from_frame`."""
        import polars as pl

        columns = {name: getattr(self, name) for name in COLUMNS}
        return pl.DataFrame(columns | {"item": self.item_ids()})

    @classmethod
    def from_frame(
        cls, frame: pl.DataFrame, metrics: Sequence[str], num_items: int
    ) -> ExposureParts:
        """Build the parts from the table of `to_frame`; raises `InputError` for another one."""
        _check_frame(frame, num_items)
        ids = frame["item"].drop_nulls().unique().sort()
        items = Vocabulary("item", len(ids), ids)
        codes = np.full(len(frame), -1, dtype=np.int64)
        known = frame["item"].is_not_null().to_numpy()
        codes[known] = items.encode(frame["item"].drop_nulls(), "the exposure of items")
        quantity, k, part, value = (frame[name].to_numpy() for name in COLUMNS if name != "item")
        return cls(tuple(metrics), num_items, quantity, k, part, codes, value, items)


def _check_frame(frame: pl.DataFrame, num_items: int) -> None:
    """Raise `InputError` for a table that `ExposureParts.to_frame` cannot have written."""
    import polars as pl

    name, types = "the table of exposures", dict(frame.schema)
    expected = {"quantity": pl.Int64, "k": pl.Int64, "part": pl.Int64, "value": pl.Float64}
    if types.pop("item", None) is None or types != expected:
        reject(name, describe(frame.columns), f"the columns {', '.join(COLUMNS)}")
    if frame.select(*expected).null_count().sum_horizontal().item():
        reject(name, "without some numbers", "all of them")
    low, parts = frame.select("quantity", "k", "part").to_numpy(), frame["part"].to_numpy()
    if low.min(initial=0) < 0 or parts.max(initial=0) >= NUM_PARTS:
        reject(name, "about other parts of the users", f"parts from 0 to {NUM_PARTS - 1}")
    if frame["item"].drop_nulls().n_unique() > num_items:
        reject(name, "about more items than the catalogue has", f"{num_items:,} items")


def _read_entries(
    layout: StateLayout, quantities: Iterable[Accumulator], first: int, terms: Floats
) -> Iterator[tuple[NDArray[np.generic], ...]]:
    """Yield the columns of the nonzero terms `[terms, parts]` of each quantity."""
    for number, accumulator in enumerate(quantities):
        section, cutoffs = layout.term_section(accumulator), layout.cutoffs[accumulator]
        row, part = terms[section].nonzero()
        item, column = np.divmod(row, len(cutoffs))
        if not isinstance(accumulator, ItemAccumulator):
            item = np.full_like(item, -1)
        value = terms[section][row, part]
        k = np.array(cutoffs, dtype=np.int64)[column]
        yield np.full(len(row), number), k, part + first, item, value

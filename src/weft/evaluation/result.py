"""The result of an evaluation: values with their uncertainty, counts, notes and provenance."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.data.pandas_frames import to_pandas
from weft.errors import SettingError, agree, check_path, did_you_mean, escape_controls
from weft.evaluation.atomic_files import write_files
from weft.evaluation.metric_value import BOOTSTRAP_COLUMNS, SKILL_COLUMNS, MetricValue, nan_to_none
from weft.evaluation.report_mixin import ReportMixin
from weft.metrics.names import format_labels, parse_name, split_labels
from weft.metrics.profiles import profiled_name
from weft.metrics.registry import canonical_name

if TYPE_CHECKING:
    import polars as pl
    from torch import Tensor

    from weft.evaluation.resamples import Resamples

FORMAT = "weft-result"
VERSION = 1
_VALUE_COLUMNS = ("metric", "k", "value", "std_error", "ci_low", "ci_high", "users")
SLICE_COLUMNS = ("slice", "group", *_VALUE_COLUMNS)
# Optional tables of a result that are saved with its values, and their columns.
FRAMES = {
    "slices": SLICE_COLUMNS,
    "exposure": ("k", "items", "recommendations"),
    "popularity": ("k", "low", "high", "items", "interactions", "recommendations"),
}


def frame_schema(frame: str) -> dict[str, Any]:
    """Return the columns of a table of `FRAMES` and their polars types."""
    import polars as pl

    types: dict[str, dict[str, Any]] = {
        "slices": dict.fromkeys(("slice", "group", "metric"), pl.String)
        | {"k": pl.Int64, "users": pl.Int64},
        "exposure": {"k": pl.Int64},
        "popularity": dict.fromkeys(FRAMES["popularity"], pl.Int64),
    }
    return dict.fromkeys(FRAMES[frame], pl.Float64) | types[frame]


def slice_column(name: str) -> str:
    """Return the column of `Result.user_labels` with the labels of a slice.

    It differs from the name, because slices may be called `activity` or `user`.
    """
    return f"slices[{name}]"


@dataclass(frozen=True, eq=False, repr=False)
class Result(ReportMixin, Mapping[str, float]):
    """Values of one model: a mapping from the names of metrics to floats, with counts and notes.

    `result["nDCG@10"]` is a float. Every spelling of a name is accepted, also the plain name under
    a profile. Two results are equal if their names and values are equal, where undefined values
    (NaN) equal each other; model, counts and settings are not compared. Tables that were not
    requested are None.

    Attributes
    ----------
    entries
        Values with their standard errors, intervals and numbers of users.
    name
        Name of the model.
    counts
        Numbers of users and items that were evaluated, excluded or treated specially.
    notes
        Explanations of the counts, and other remarks.
    settings, provenance
        Settings of the evaluation, and further facts that are needed to reproduce the values.
    per_user
        Values of each user: the column `user`, and one column for each metric and cut-off.
    user_labels
        Labels of the users in `per_user`: the columns `user`, `activity` (number of train
        interactions), `user_groups`, and `slices[NAME]` for each slice of users.
    slices
        Values by slice: the columns `slice`, `group`, `metric`, `k`, `value`, `std_error`,
        `ci_low`, `ci_high` and `users`.
    lists
        Recommendation lists: the columns `user`, `item` and `rank`.
    exposure
        Lorenz curve of the recommendations, from (0, 0) to (1, 1): at cut-off `k`, the least
        recommended share `items` of the catalogue has the share `recommendations` of them.
    popularity
        Items by popularity: for each `k`, the number of items (`items`) with `low` to `high` train
        interactions, their train interactions and their recommendations.
    resamples
        Values of all metrics in each bootstrap resample, which `weft.compare` uses to test
        differences; `resamples.to_frame()` returns them.

    Examples
    --------
    >>> import weft
    >>> lists, truth = {"ann": ["x", "y"], "bob": ["y"]}, {"ann": ["y"], "bob": ["y"]}
    >>> result = weft.evaluate(lists, truth, metrics=["MRR", "Recall"], top_k=2)
    >>> result["MRR@2"], result.counts["evaluated_users"]
    (0.75, 2)
    >>> result.to_frame().select("metric", "k", "value").rows()
    [('MRR', 2, 0.75), ('Recall', 2, 1.0)]
    """

    entries: tuple[MetricValue, ...]
    name: str = "model"
    counts: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    per_user: pl.DataFrame | None = None
    slices: pl.DataFrame | None = None
    exposure: pl.DataFrame | None = None
    popularity: pl.DataFrame | None = None
    user_labels: pl.DataFrame | None = None
    lists: pl.DataFrame | None = None
    resamples: Resamples | None = None
    prefix: str = ""  # of the names in `to_tensors`
    postfix: str = ""

    def __getitem__(self, name: str) -> float:
        return self.entry(name).value

    def __contains__(self, name: object) -> bool:
        return self.get(str(name)) is not None

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a metric, or `default` if it was not evaluated."""
        try:
            return self[name]
        except (KeyError, SettingError):
            return default

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Mapping):
            return NotImplemented
        return self.keys() == other.keys() and all(
            value == other[name] or _are_nan(value, other[name]) for name, value in self.items()
        )

    def __iter__(self) -> Iterator[str]:
        return (value.name for value in self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def entry(self, name: str) -> MetricValue:
        """Return the value of a metric with its standard error, interval and number of users.

        Raises `KeyError` if the metric was not evaluated.
        """
        known = self._by_name
        if isinstance(name, str) and name in known:
            return known[name]
        spelling = str(name)
        if isinstance(name, str):
            plain, labels = split_labels(name)
            spelling = self._canonical_name(plain, format_labels(labels)) or name
            if spelling not in known and self.settings.get("profile"):
                try:
                    adopted = profiled_name(plain, self.settings["profile"]) + format_labels(labels)
                except SettingError:  # not a metric of the profile
                    adopted = spelling
                spelling = adopted if adopted in known else spelling
        if spelling in known:
            return known[spelling]
        raise KeyError(
            f"{name!r} was not evaluated.{did_you_mean(spelling, known)} This result has: "
            f"{', '.join(known)}."
        )

    def _canonical_name(self, plain: str, labels: str) -> str | None:
        """Return the canonical spelling of a name, None if the metric is unknown here."""
        try:
            return canonical_name(plain) + labels
        except SettingError:  # not registered here, such as a metric of a loaded result
            folded = {name.casefold(): name for name in self._by_name}
            return folded.get((str(parse_name(plain)) + labels).casefold())

    @cached_property
    def _by_name(self) -> dict[str, MetricValue]:
        return {value.name: value for value in self.entries}

    def to_tensors(self) -> dict[str, Tensor]:
        """Return the values as float64 tensors by name, as Lightning and TorchMetrics log them.

        Names have the prefix and the postfix of the evaluator, such as `val_nDCG@10`.
        """
        import torch

        return {
            f"{self.prefix}{value.name}{self.postfix}": torch.tensor(
                value.value, dtype=torch.float64
            )
            for value in self.entries
        }

    def to_frame(self) -> pl.DataFrame:
        """Return a frame with one row per value.

        Returns
        -------
        polars.DataFrame
            The columns:

            - `model`, `metric`, `k`: the names, and the cut-off or null.
            - `value`, `std_error`: the value and its standard error.
            - `ci_low`, `ci_high`: the ends of the normal 95% interval.
            - `users`: the number of users.
            - `floor`, `ceiling`, `skill`: only with `skill=True`.
            - `boot_low`, `boot_high`, `bca_low`, `bca_high`, `boot_std_error`: only with a
              bootstrap; the ends of the percentile and BCa intervals, and the standard deviation of
              the resamples.
        """
        import polars as pl

        columns = (*_VALUE_COLUMNS, *self.further_columns)
        rows = [
            {column: getattr(value, column) for column in columns}
            | {"model": self.name, "metric": value.metric + format_labels(value.cell)}
            for value in self.entries
        ]
        schema: dict[str, Any] = dict.fromkeys(("model", *columns), pl.Float64)
        schema |= {"model": pl.String, "metric": pl.String, "k": pl.Int64, "users": pl.Int64}
        return pl.DataFrame(rows, schema=schema)

    def to_pandas(self) -> Any:
        """Return the rows of `to_frame` as a pandas frame; pyarrow is not needed."""
        return to_pandas(self.to_frame())

    @property
    def further_columns(self) -> tuple[str, ...]:
        """The columns of values beyond those that every result has."""
        return (*self._skill_columns, *(BOOTSTRAP_COLUMNS if self.is_bootstrapped else ()))

    @property
    def _skill_columns(self) -> tuple[str, ...]:
        return SKILL_COLUMNS if self.settings.get("skill") else ()

    @property
    def is_bootstrapped(self) -> bool:
        """True if users were resampled."""
        return bool(self.settings.get("bootstrap"))

    def slice(self, name: str) -> pl.DataFrame:
        """Return the rows of one slice from `slices`.

        Raises `KeyError` if there is no slice of this name.
        """
        import polars as pl

        if self.slices is None:
            raise KeyError(
                f"there is no slice {name!r}. This result has no slices; give slices= to the "
                "evaluation."
            )
        known = self.slices["slice"].unique(maintain_order=True).to_list()
        if name not in known:
            raise KeyError(
                f"there is no slice {name!r}.{did_you_mean(str(name), known)} This result has: "
                f"{', '.join(known)}."
            )
        return self.slices.filter(pl.col("slice") == name)

    def save(self, path: str | Path) -> Path:
        """Write the result as JSON, and its large tables as Parquet files in the same folder.

        Either all files are written or none. `weft.load_result` reads them. Returns the path.
        """
        from weft.evaluation.result_io import result_files

        path = check_path("path", path)
        write_files(*result_files(self, path))
        return path

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values for JSON, without the tables that have a row per user.

        Undefined values are None.
        """
        return {
            "format": FORMAT,
            "version": VERSION,
            "name": self.name,
            "values": [value.to_dict() for value in self.entries],
            "counts": dict(self.counts),
            "notes": list(self.notes),
            "settings": dict(self.settings),
            "provenance": dict(self.provenance),
            "per_user": None,
            **({} if self.resamples is None else {"resampling": self.resamples.to_dict()}),
            **{
                name: [nan_to_none(row) for row in table.iter_rows(named=True)]
                for name in FRAMES
                if (table := getattr(self, name)) is not None
            },
        }

    def __repr__(self) -> str:
        skill = self._skill_columns
        rows = [("metric", "k", *_PRINTED, *skill)]
        for value in self.entries:
            metric, k = (
                value.metric + format_labels(value.cell),
                "" if value.k is None else str(value.k),
            )
            rows.append((metric, k, *_printed(value, skill)))
        widths = [max(map(len, column)) for column in zip(*rows)]
        lines = [
            "  ".join(
                cell.ljust(width) if column in (0, 3) else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths))
            ).rstrip()
            for row in rows
        ]
        users = agree(self.counts.get("evaluated_users", 0), "{n} evaluated user{s}")
        items = agree(self.counts.get("items", 0), "{n} item{s}")
        head = f"{self.name}: {users}, {items}"
        return escape_controls("\n".join([head, *lines, *(f"- {note}" for note in self.notes)]))

    def _repr_html_(self) -> str:
        def cell(text: str, tag: str = "td") -> str:
            return f"<{tag}>{html.escape(text)}</{tag}>"

        skill = self._skill_columns
        head = "".join(cell(title, "th") for title in ("metric", *_PRINTED, *skill))
        rows = "".join(
            f"<tr>{''.join(map(cell, (value.name, *_printed(value, skill))))}</tr>"
            for value in self.entries
        )
        notes = "".join(cell(note, "li") for note in self.notes)
        caption = cell(self.name, "caption")
        return f"<table>{caption}<tr>{head}</tr>{rows}</table><ul>{notes}</ul>"


_PRINTED = ("value", "95% interval", "users")


def _are_nan(*values: object) -> bool:
    return all(isinstance(value, float) and math.isnan(value) for value in values)


def _printed(value: MetricValue, skill: Sequence[str]) -> tuple[str, ...]:
    """Return the value, its interval, its number of users, and the columns of `skill` as text."""
    users = "" if value.users is None else f"{value.users:,}"
    numbers = (getattr(value, name) for name in skill)
    texts = ("" if math.isnan(number) else f"{number:.4f}" for number in numbers)
    return f"{value.value:.4f}", str(value.interval), users, *texts

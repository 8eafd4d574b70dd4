"""Periods of time: years, months, ..., or between given dates, of the interactions of the truth."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from weft.errors import InputError, SettingError, did_you_mean

if TYPE_CHECKING:
    import polars as pl

# By unit, the format of its periods. As text they are in the order of time.
_UNITS = {
    "year": "%Y",
    "month": "%Y-%m",
    "week": "%G-W%V",
    "day": "%Y-%m-%d",
    "weekday": "%u %A",
    "hour": "%H:00",
}
_RULE = re.compile(r"\s*time\s*\(([^()]*)\)\s*", re.IGNORECASE)
_EXPECTED = (
    f"time(UNIT) with one of {', '.join(_UNITS)} (weekday of the week, hour of the day), or the "
    "first dates of the periods in ascending order, as in time(2024-01-01, 2024-07-01)"
)
# Epoch times by the largest number that is read as each unit: seconds up to the year 5138.
_EPOCH_UNITS = ((1e11, 1_000_000), (1e14, 1_000), (1e17, 1), (np.inf, 1e-3))


@dataclass(frozen=True)
class TimeRule:
    """Periods of a `unit`, or, if it is None, those that the dates `starts` separate."""

    unit: str | None
    starts: tuple[datetime, ...] = ()

    def __str__(self) -> str:
        return f"time({self.unit or ', '.join(map(_format_date, self.starts))})"

    @classmethod
    def parse(cls, text: str, where: str) -> TimeRule | None:
        """Return the rule of `"time(month)"` or `"time(2024-07-01)"`; None for other text.

        Raises `SettingError` for `time(...)` with something else inside."""
        match = _RULE.fullmatch(text)
        if match is None:
            return None
        parts = [part.strip() for part in match[1].split(",")]
        unit, setting = parts[0].casefold(), where.partition("[")[0]
        if len(parts) == 1 and unit in _UNITS:
            return cls(unit)
        try:
            starts = tuple(_to_utc(datetime.fromisoformat(part)) for part in parts)
        except ValueError:
            hint = did_you_mean(unit, _UNITS)
            raise SettingError(
                f"{where} has {text!r}.{hint} Expected {_EXPECTED}.", setting=setting
            ) from None
        if any(low >= high for low, high in pairwise(starts)):
            raise SettingError(f"{where} has {text!r}; expected {_EXPECTED}.", setting=setting)
        return cls(None, starts)

    def assign(self, times: pl.Series) -> tuple[NDArray[np.int64], tuple[str, ...]]:
        """Return the period of each time `[n]`, -1 for none, and the names of all periods."""
        import polars as pl

        is_known = times.is_not_null().to_numpy()
        if self.unit is None:
            edges = pl.Series(self.starts, dtype=pl.Datetime("us")).to_numpy()
            codes = np.searchsorted(edges, times.to_numpy(), "right")
            return np.where(is_known, codes, -1), self._name_ranges()
        texts = times.dt.strftime(_UNITS[self.unit])
        names = texts.drop_nulls().unique().sort()
        codes = texts.cast(pl.Enum(names)).to_physical().cast(pl.Int64).fill_null(-1).to_numpy()
        return codes, tuple(name.partition(" ")[2] or name for name in names)

    def _name_ranges(self) -> tuple[str, ...]:
        dates = [*map(_format_date, self.starts)]
        middle = (f"{low} to before {high}" for low, high in pairwise(dates))
        return (f"before {dates[0]}", *middle, f"{dates[-1]} and later")


def _to_utc(time: datetime) -> datetime:
    """Return a time in UTC, without its zone."""
    return time if time.tzinfo is None else time.astimezone(UTC).replace(tzinfo=None)


def _format_date(time: datetime) -> str:
    is_day = time == datetime(time.year, time.month, time.day)
    return time.date().isoformat() if is_day else time.isoformat(" ")


def read_times(column: pl.Series, where: str) -> pl.Series:
    """Return timestamps as UTC times, Datetime in microseconds; null where one is missing.

    Numbers are seconds, milliseconds, microseconds or nanoseconds since 1970, by the size of the
    largest; text is a number or an ISO date or time. Raises `InputError` for other values."""
    import polars as pl

    times = column
    if times.dtype in (pl.String, pl.Categorical, pl.Enum):
        times = _read_text(times.cast(pl.String), where)
    if times.dtype.is_numeric():
        numbers = times.cast(pl.Float64).fill_nan(None)
        largest = np.abs(numbers.drop_nulls().to_numpy()).max(initial=0)
        if np.isinf(largest):
            raise InputError(f"{where} has timestamps that are not finite numbers; repair them.")
        factor = next(factor for limit, factor in _EPOCH_UNITS if largest < limit)
        return (numbers * factor).cast(pl.Int64).cast(pl.Datetime("us"))
    if isinstance(times.dtype, pl.Datetime):
        if times.dtype.time_zone is not None:
            times = times.dt.convert_time_zone("UTC").dt.replace_time_zone(None)
        return times.cast(pl.Datetime("us"))
    if times.dtype in (pl.Date, pl.Null):
        return times.cast(pl.Datetime("us"))
    raise InputError(
        f"{where} has timestamps of type {column.dtype}; expected dates and times, or seconds or "
        "milliseconds since 1970."
    )


def _read_text(texts: pl.Series, where: str) -> pl.Series:
    """Return times that are written as numbers or as ISO dates and times."""
    import polars as pl

    texts = texts.str.strip_chars().replace("", None)
    numbers = texts.cast(pl.Float64, strict=False)
    if numbers.null_count() == texts.null_count():
        return numbers
    times = [_from_text(text, where) for text in texts.to_list()]
    return pl.Series(times, dtype=pl.Datetime("us"))


def _from_text(text: str | None, where: str) -> datetime | None:
    try:
        return None if text is None else _to_utc(datetime.fromisoformat(text))
    except ValueError:
        raise InputError(
            f"{where} has the timestamp {text!r}; expected ISO dates and times, such as 2024-07-01 "
            "or 2024-07-01T12:30:00, or seconds or milliseconds since 1970."
        ) from None

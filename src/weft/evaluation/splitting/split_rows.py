"""Users, items and times of interactions as numbers, one per row."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.data.interactions import hash_rows
from weft.data.readers.column_reader import collect_columns
from weft.data.readers.roles import ID_ROLES
from weft.data.readers.scans import collect
from weft.data.vocabulary import Vocabulary
from weft.errors import InputError, SettingError, setting_ref
from weft.evaluation.splitting.split_input import SplitInput, find_rows

Codes = NDArray[np.int32]
_DATE_FORMATS = ("%Y-%m-%d", "%Y-%m-%d %H:%M:%S%.f", "%Y-%m-%dT%H:%M:%S%.f", "%Y-%m-%d %H:%M")
_ZONE_FORMATS = ("%Y-%m-%dT%H:%M:%S%.f%#z", "%Y-%m-%d %H:%M:%S%.f%#z")
_MICROSECONDS = pl.Datetime("us")


@dataclass(frozen=True)
class SplitRows:
    """Codes of users and items, times, and a hash of seed, user and item, `[rows]` each.

    Times are integers, floats, or microseconds since 1970 if `are_dates`; None if not needed.
    """

    users: Codes
    items: Codes
    pair_keys: NDArray[np.uint64]
    user_keys: NDArray[np.uint64]  # a hash of seed and user, by code
    times: NDArray[Any] | None
    are_dates: bool
    num_items: int

    @property
    def num_users(self) -> int:
        return len(self.user_keys)

    def __len__(self) -> int:
        return len(self.users)

    def select(self, rows: NDArray[Any]) -> SplitRows:
        """Return the rows of a mask or of indices; codes stay."""
        return SplitRows(
            self.users[rows],
            self.items[rows],
            self.pair_keys[rows],
            self.user_keys,
            None if self.times is None else self.times[rows],
            self.are_dates,
            self.num_items,
        )

    def describe_time(self, time: Any) -> float | int | str:
        """Return a time as a manifest has it: a number, or a date in ISO 8601."""
        if self.are_dates:
            start = datetime.datetime(1970, 1, 1)
            return (start + datetime.timedelta(microseconds=int(time))).isoformat()
        number: float | int = time.item()
        return number


def read_rows(data: SplitInput, seed: int, *, needs_times: bool) -> SplitRows:
    """Return the rows as numbers.

    Raises `InputError` for rows without a usable timestamp if it `needs_times`; else times that
    cannot be used are left out.
    """
    schema = data.keys.collect_schema()
    strings = [role for role in ID_ROLES if schema[role] == pl.String]
    columns = collect_columns(data.keys, {role: pl.col(role) for role in ID_ROLES}, strings)
    codes, keys = {}, {}
    for role in ID_ROLES:
        ids = columns.pop(role)
        vocabulary = Vocabulary.from_data(role, [ids], origin=data.where)
        codes[role] = vocabulary.encode(ids, data.where, dtype=np.int32)
        # Digests of texts: the id 7 has the same key as an integer and as a text.
        texts = vocabulary.ids.cast(pl.String)
        keys[role] = Vocabulary(role, len(texts), texts).hash_keys()
    users, items = codes["user"], codes["item"]
    seeds = np.broadcast_to(np.int64(seed), len(users))
    times = _read_times(data, is_required=needs_times)
    return SplitRows(
        users,
        items,
        hash_rows(seeds, keys["user"][users], keys["item"][items]),
        hash_rows(seeds[:1].repeat(len(keys["user"])), keys["user"]),
        None if times is None else times.to_physical().to_numpy(),
        times is not None and times.dtype == _MICROSECONDS,
        len(keys["item"]),
    )


# --------------------------------------------------------------------------------------------------


def _read_times(data: SplitInput, *, is_required: bool) -> pl.Series | None:
    schema = data.keys.collect_schema()
    if "timestamp" not in schema:
        if is_required:
            raise _missing_column_error(data)
        return None
    time = pl.col("timestamp")
    is_missing = time.is_null()
    if schema["timestamp"].is_float():
        is_missing |= ~time.is_finite()
    parsed, problem = _parse_times(data, schema["timestamp"])
    if problem is not None and is_required:
        raise problem
    missing = find_rows(data.keys, is_missing)
    if missing and is_required:
        raise InputError(
            f"{data.where} has no timestamp in {data.describe_rows(missing)}; every row needs "
            "one. Add the timestamps, drop these rows, or split at random: "
            f"{setting_ref('method', 'random')}."
        )
    if missing or parsed is None:
        return None
    return collect(data.keys.select(parsed.alias("timestamp")))["timestamp"].rechunk()


def _missing_column_error(data: SplitInput) -> InputError:
    """Return the error that a method needs timestamps."""
    remedy = "Rename the column"
    if data.layout is not None:
        columns = setting_ref("columns", {"timestamp": "NAME"})
        remedy = f"Name it in the setting {columns} of the file"
    return InputError(
        f"{data.where} has no column of timestamps, which this method needs; expected one named "
        f"'timestamp' (or 'time', 'date', 'datetime', 'ts'). {remedy}, or split at random: "
        f"{setting_ref('method', 'random')}."
    )


def _parse_times(data: SplitInput, dtype: Any) -> tuple[pl.Expr | None, InputError | None]:
    """Return timestamps as numbers or as dates, or the error with the rows that are neither."""
    time = pl.col("timestamp")
    if dtype.is_integer():
        return time.cast(pl.Int64), None
    if dtype.is_float() or dtype.is_decimal():
        return time.cast(pl.Float64), None
    if dtype == pl.Date or isinstance(dtype, pl.Datetime):
        return time.cast(_MICROSECONDS), None
    if dtype != pl.String:
        return None, InputError(
            f"{data.where}: timestamps have the type {dtype}; expected numbers, dates, or strings "
            "in ISO 8601."
        )
    candidates = [
        time.str.strip_chars().cast(pl.Int64, strict=False),
        time.str.strip_chars().cast(pl.Float64, strict=False),
        parse_dates(time),
    ]
    failures = [
        (time.is_not_null() & candidate.is_null()).sum().alias(str(number))
        for number, candidate in enumerate(candidates)
    ]
    counts = collect(data.keys.select(failures)).row(0)
    best = min(range(len(candidates)), key=lambda number: (counts[number], number))
    if counts[best]:
        wrong = find_rows(data.keys, time.is_not_null() & candidates[best].is_null())
        date = "date in ISO 8601, such as 2024-06-30T12:00:00"
        kinds = ("integer", "number", date)
        problem = f"not a valid {kinds[best]}"
        if len(set(counts)) == 1:  # no kind fits better than another
            problem = f"neither a number nor a {date}"
        return None, InputError(
            f"{data.where}: the timestamp in {data.describe_rows(wrong)} is {problem}; write all "
            "timestamps in one way."
        )
    return candidates[best], None


def parse_dates(column: pl.Expr) -> pl.Expr:
    """Return text in ISO 8601 as dates, null where it is none; offsets become UTC."""
    text = column.str.strip_chars().str.replace("Z$", "+00:00")
    local = [text.str.to_datetime(form, strict=False, time_unit="us") for form in _DATE_FORMATS]
    zoned = [
        text.str.to_datetime(form, strict=False, time_unit="us", time_zone="UTC")
        for form in _ZONE_FORMATS
    ]
    return pl.coalesce(*local, *(one.dt.replace_time_zone(None) for one in zoned))


def parse_moment(name: str, text: str, rows: SplitRows) -> Any:
    """Return a point in time of a setting as times of the rows are."""
    if rows.are_dates:
        moment = pl.select(parse_dates(pl.lit(text))).item()
        if moment is None:
            raise SettingError(
                f"{setting_ref(name, text)}: the timestamps are dates; expected a date such as "
                "'2024-06-30' or '2024-06-30T12:00:00'."
            )
        return (moment - datetime.datetime(1970, 1, 1)) // datetime.timedelta(microseconds=1)
    try:
        return float(text)
    except ValueError:
        moment = pl.select(parse_dates(pl.lit(text))).item()
    hint = "."
    if moment is not None:
        seconds = int(moment.replace(tzinfo=datetime.UTC).timestamp())
        hint = f"; {text} is {seconds} in seconds since 1970 (UTC)."
    raise SettingError(
        f"{setting_ref(name, text)}: the timestamps are numbers; expected a number{hint}"
    )

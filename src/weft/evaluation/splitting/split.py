"""`weft.split`: train, validation and test of interactions, without leaks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

import numpy as np
import polars as pl
from numpy.typing import NDArray

from weft.data.readers.scans import collect
from weft.errors import InputError, SettingError, agree, setting_ref
from weft.evaluation.splitting import row_filters
from weft.evaluation.splitting.assignment import TEST, TRAIN, VALIDATION, assign_parts
from weft.evaluation.splitting.manifest import build_manifest, describe_method
from weft.evaluation.splitting.split_input import SplitInput, filter_rows, open_input
from weft.evaluation.splitting.split_rows import SplitRows, read_rows
from weft.evaluation.splitting.split_settings import SplitSettings

if TYPE_CHECKING:
    from weft._choices import (
        ColdIds,
        RepeatedPairs,
        SplitFormat,
        SplitMethod,
        SplitScope,
        TimeTies,
    )
    from weft.evaluation.argument_types import Moment, Table

Mask = NDArray[np.bool_]
_DROPPED = -1  # in the place of a part


class SplitOptions(TypedDict, total=False):
    """Keyword arguments of `split`: the fields of `SplitSettings`."""

    test_share: float | None
    validation_share: float | None
    test_from: Moment | None
    validation_from: Moment | None
    n: int | None
    validation_n: int | None
    folds: int | None
    per: SplitScope | None
    ties: TimeTies | None
    duplicates: RepeatedPairs
    min_user_interactions: int
    min_item_interactions: int
    core: bool
    cold_users: ColdIds
    cold_items: ColdIds
    seed: int


@dataclass(frozen=True, eq=False)
class SplitPart:
    """One part of a split: some rows of the data, and facts about them for the manifest."""

    name: str  # "train", "validation" or "test"
    fold: int | None  # from 1 on; None if there are no folds
    mask: pl.Series  # `[rows]` of the data
    facts: dict[str, Any]

    @property
    def place(self) -> str:
        """The name of the file without its suffix: `train`, `fold-1-train`."""
        return self.name if self.fold is None else f"fold-{self.fold}-{self.name}"


@dataclass(frozen=True, eq=False)
class SplitFold:
    """Train and test of one fold."""

    _split: Split
    number: int  # from 1 on

    @property
    def train(self) -> pl.DataFrame:
        """The rows of all other folds."""
        return collect(self._split.scan("train", fold=self.number))

    @property
    def test(self) -> pl.DataFrame:
        """The rows of this fold."""
        return collect(self._split.scan("test", fold=self.number))


@dataclass(frozen=True, eq=False)
class Split:
    """Interactions that are split into train, validation and test, or into folds.

    `weft.split` returns it. The parts have all columns of the data, and its order of rows.

    Attributes
    ----------
    manifest
        Record of the method, its parameters, the dropped rows, and the size and time range of each
        part.

    Examples
    --------
    >>> import weft
    >>> clicks = {"user": ["ann", "ann"], "item": ["tea", "rye"], "timestamp": [2, 1]}
    >>> split = weft.split(pl.DataFrame(clicks), "leave-last-out", n=1)
    >>> split.train["item"].to_list(), split.test["item"].to_list()
    (['rye'], ['tea'])
    >>> split
    Split(leave-last-out (n=1, seed=0); train: 1 row, test: 1 row)
    """

    settings: SplitSettings
    manifest: dict[str, Any]
    data: SplitInput
    parts: tuple[SplitPart, ...]

    def __repr__(self) -> str:
        sizes = [part.place + agree(part.facts["rows"], ": {n} row{s}") for part in self.parts]
        return f"Split({describe_method(self.manifest)}; {', '.join(sizes)})"

    @property
    def train(self) -> pl.DataFrame:
        """The train interactions."""
        return collect(self.scan("train"))

    @property
    def validation(self) -> pl.DataFrame | None:
        """The validation interactions; None if the settings have no validation set."""
        return collect(self.scan("validation")) if self.settings.has_validation else None

    @property
    def test(self) -> pl.DataFrame:
        """The test interactions."""
        return collect(self.scan("test"))

    @property
    def folds(self) -> tuple[SplitFold, ...]:
        """The folds, each with `number`, `train` and `test`; empty for other methods."""
        return tuple(SplitFold(self, number + 1) for number in range(self.settings.folds or 0))

    def scan(
        self, part: Literal["train", "validation", "test"], *, fold: int | None = None
    ) -> pl.LazyFrame:
        """Return a part as a polars query, for data that do not fit into memory.

        `part` is `"train"`, `"validation"` or `"test"`; `fold` is the number of a fold, from 1.
        Raises `SettingError` if the split has no such part.
        """
        for one in self.parts:
            if (one.name, one.fold) == (part, fold):
                return filter_rows(self.data.typed, one.mask)
        places = ", ".join(one.place for one in self.parts)
        hint = " Use one of split.folds." if self.folds and fold is None else ""
        raise SettingError(
            f"{setting_ref('part', part)}: this split has no such part; it has {places}.{hint}"
        )

    def save(
        self,
        folder: str | Path,
        *,
        format: SplitFormat | None = None,  # noqa: A002
        overwrite: bool = False,
    ) -> list[Path]:
        """Write all parts and the manifest to a folder, completely or not at all.

        Parameters
        ----------
        folder
            Folder, which is created if it does not exist.
        format
            `"csv"`, `"tsv"`, `"parquet"` or `"jsonl"`. Default: the format of the input file, and
            Parquet for frames.
        overwrite
            Replace the files of another split.

        Returns
        -------
        list of Path
            The written files.

        Raises
        ------
        InputError
            If a file exists and `overwrite` is False.
        SettingError
            If `format` is unknown.
        """
        from weft.evaluation.splitting.split_files import save_split

        return save_split(self, folder, format_=format, overwrite=overwrite)


def split(data: Table, method: SplitMethod, **options: Unpack[SplitOptions]) -> Split:
    """Split interactions into train, validation and test, or into folds.

    Random choices depend only on the seed and the ids, and not on the order of rows.

    Parameters
    ----------
    data
        A path, a `weft.File`, or a polars or pandas frame, with the columns user, item and, for
        methods that sort by time, timestamp.
    method
        Which interactions form the test set:

        - `"timeline"`: those from one point in time on, for all users: from `test_from`, or the
          last `test_share` of the rows.
        - `"user-timeline"`: the last `test_share` of the interactions of each user.
        - `"leave-last-out"`: the last `n` interactions of each user.
        - `"random"`: a random `test_share`.
        - `"folds"`: each of `folds` random parts once.
    test_share, validation_share
        Share of the interactions in the test and validation set, above 0 and below 1. Default: 0.2,
        and no validation set.
    test_from, validation_from
        First timestamp of the test and validation set, for `"timeline"`: a number as in the data, a
        date, or text in ISO 8601.
    n, validation_n
        Number of test and validation interactions of each user, for `"leave-last-out"`. Default: 1,
        and no validation set.
    folds
        Number of folds. Default: 5.
    per
        For `"random"` and `"folds"`: divide the interactions of each user separately (`"user"`, the
        default) or all interactions as one set (`"global"`).
    ties
        Interactions of a user with the same timestamp at the border of two sets, for
        `"user-timeline"` and `"leave-last-out"`: `"break"` (default) orders them by a hash of seed,
        user and item; `"together"` puts all of them into the earlier set.
    duplicates
        Repeated interactions of a user with an item: `"error"` (default) raises an error; `"first"`
        and `"last"` keep one, by timestamp or else by row; `"keep"` keeps all.
    min_user_interactions, min_item_interactions
        Users and items with fewer interactions are dropped before the split. Default: 1.
    core
        Apply both minima repeatedly until all remaining users and items have enough interactions
        (k-core).
    cold_users, cold_items
        Validation and test interactions of users or items that are not in train: `"keep"` (default)
        or `"drop"`.
    seed
        Seed of the random numbers. Default: 0.

    Returns
    -------
    Split
        The parts, and a record of how they were made.

    Raises
    ------
    InputError
        If a row lacks a timestamp that the method needs, for repeated interactions, and if a part
        is empty.
    SettingError
        If an option is invalid, or the method does not have it.

    Examples
    --------
    >>> import polars as pl
    >>> import weft
    >>> clicks = pl.DataFrame(
    ...     {"user": ["ann"] * 3 + ["bob"], "item": ["tea", "rye", "oat", "tea"],
    ...      "timestamp": [3, 1, 2, 4]}
    ... )
    >>> split = weft.split(clicks, "leave-last-out", n=1)
    >>> split.test.rows()
    [('ann', 'tea', 3)]
    >>> [(part["part"], part["rows"]) for part in split.manifest["files"]]
    [('train', 3), ('test', 1)]
    """
    settings = SplitSettings.from_options(method=method, **options)
    opened = open_input(data)
    has_order = settings.duplicates in ("first", "last") and "timestamp" in opened.roles
    rows = read_rows(opened, settings.seed, needs_times=settings.is_temporal or has_order)
    codes, dropped = _assign_rows(rows, settings, opened)
    parts = tuple(_build_parts(rows, codes, settings, dropped))
    _check_parts(parts, settings, opened)
    return Split(settings, build_manifest(settings, opened, parts, dropped), opened, parts)


def _assign_rows(
    rows: SplitRows, settings: SplitSettings, data: SplitInput
) -> tuple[NDArray[np.int16], dict[str, int]]:
    """Return the part or fold of each row, -1 for rows that are dropped, and how many these are."""
    is_repeated = row_filters.find_repetitions(rows, settings, data)
    left = np.flatnonzero(~is_repeated)
    is_rare = row_filters.find_rare(rows.select(left), settings)
    left = left[~is_rare]
    if not len(left):
        raise InputError(
            f"{data.where}: no rows remain after {setting_ref('min_user_interactions')} and "
            f"{setting_ref('min_item_interactions')}; give smaller numbers."
        )
    codes = np.full(len(rows), _DROPPED, dtype=np.int16)
    codes[left] = assign_parts(rows.select(left), settings, data.where)
    return codes, {"duplicates": int(is_repeated.sum()), "few_interactions": int(is_rare.sum())}


def _build_parts(
    rows: SplitRows, codes: NDArray[np.int16], settings: SplitSettings, dropped: dict[str, int]
) -> Iterator[SplitPart]:
    """Yield the parts, fold by fold; add the rows of cold users and items to `dropped`."""
    dropped |= {"cold_users": 0, "cold_items": 0}
    folds = [None] if settings.folds is None else range(settings.folds)
    for fold in folds:
        if fold is None:
            masks = {"train": codes == TRAIN, "validation": codes == VALIDATION}
            masks["test"] = codes == TEST
        else:
            masks = {"train": (codes != fold) & (codes != _DROPPED), "test": codes == fold}
        if not settings.has_validation:
            masks.pop("validation", None)
        number = None if fold is None else fold + 1
        for name, mask in masks.items():
            facts: dict[str, Any] = {}
            if name != "train":
                mask, facts = _drop_cold(rows, masks["train"], mask, settings, dropped)
            yield SplitPart(name, number, pl.Series(mask), _describe(rows, mask) | facts)


def _drop_cold(
    rows: SplitRows,
    in_train: Mask,
    in_part: Mask,
    settings: SplitSettings,
    dropped: dict[str, int],
) -> tuple[Mask, dict[str, Any]]:
    """Return a part without the cold rows that are dropped, and the numbers of cold rows."""
    has_cold_user, has_cold_item = row_filters.find_cold(rows, in_train, in_part)
    facts = {"cold_user_rows": int(has_cold_user.sum()), "cold_item_rows": int(has_cold_item.sum())}
    if settings.cold_users == "drop":
        dropped["cold_users"] += int(has_cold_user.sum())
        in_part = in_part & ~has_cold_user
    if settings.cold_items == "drop":
        dropped["cold_items"] += int((has_cold_item & in_part).sum())
        in_part = in_part & ~has_cold_item
    return in_part, facts


def _describe(rows: SplitRows, mask: Mask) -> dict[str, Any]:
    """Return the size and the time range of a part."""
    facts: dict[str, Any] = {
        "rows": int(mask.sum()),
        "users": int(np.count_nonzero(np.bincount(rows.users[mask]))),
        "items": int(np.count_nonzero(np.bincount(rows.items[mask]))),
    }
    if rows.times is not None and mask.any():
        times = rows.times[mask]
        facts["first"] = rows.describe_time(times.min())
        facts["last"] = rows.describe_time(times.max())
    return facts


def _check_parts(parts: tuple[SplitPart, ...], settings: SplitSettings, data: SplitInput) -> None:
    """Raise `InputError` for a part without rows."""
    for part in parts:
        if not part.facts["rows"]:
            sizes = ", ".join(f"{one.place} {one.facts['rows']:,}" for one in parts)
            raise InputError(
                f"{data.where}: {setting_ref('method', settings.method)} leaves no rows for "
                f"{part.place} ({sizes}). Change the shares, numbers or points in time, drop "
                "fewer rows, or remove the validation set."
            )

"""What an evaluation found: values with their uncertainty, what was left out, and where it all came
from.
"""

from __future__ import annotations

import html
import json
import math
import os
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from weft.errors import InputError, SettingError, did_you_mean
from weft.evaluation.result_display import Shown
from weft.metrics.names import parse, print_cell, split_cell
from weft.metrics.profiles import adopted_name
from weft.metrics.registry import canonical

if TYPE_CHECKING:
    import polars as pl
    from torch import Tensor

FORMAT = "weft-result"
VERSION = 1
Z95 = 1.959964
Writer = Callable[[IO[bytes]], Any]  # writes a file's content


@dataclass(frozen=True)
class MetricValue:
    """One metric at one cut-off. What is undefined is NaN."""

    metric: str  # the name without its cut-off
    k: int | None
    value: float
    std_error: float = math.nan
    users: int | None = None
    higher_is_better: bool | None = None
    target: float | None = None  # the best value, where there is one
    cell: tuple[str, ...] = ()  # labels, of one of several values: BiasDisparityBR@10[F, Drama]
    parts: tuple[float, ...] = ()  # of a composite, the values that it combined
    # From resampled users: 95 % intervals by percentiles and BCa, and the standard deviation of the
    # resamples.
    boot_low: float = math.nan
    boot_high: float = math.nan
    bca_low: float = math.nan
    bca_high: float = math.nan
    boot_std_error: float = math.nan

    @property
    def plain_name(self) -> str:
        """The name of the metric at its cut-off, `nDCG@10`."""
        return self.metric if self.k is None else f"{self.metric}@{self.k}"

    @property
    def name(self) -> str:
        """The full name, with labels if it has any: `nDCG@10`, `BiasDisparityBR@10[F, Drama]`."""
        return self.plain_name + print_cell(self.cell)

    @property
    def merit(self) -> float | None:
        """How good the value is, more is better; None for a metric without a direction or a target."""
        if self.higher_is_better is None:
            return None if self.target is None else -abs(self.value - self.target)
        return self.value if self.higher_is_better else -self.value

    @property
    def ci_low(self) -> float:
        """The lower end of the normal 95 % confidence interval."""
        return self.value - Z95 * self.std_error

    @property
    def ci_high(self) -> float:
        """Its upper end."""
        return self.value + Z95 * self.std_error

    @property
    def interval(self) -> Interval:
        """The 95 % interval to show: BCa if users were resampled, else the normal one.

        Where BCa is undefined but resamples vary, the value ± 1.96 of their standard deviations
        ("bootstrap")."""
        if not math.isnan(self.bca_low):
            return Interval(self.bca_low, self.bca_high, "BCa")
        if not math.isnan(self.boot_std_error):
            half = Z95 * self.boot_std_error
            return Interval(self.value - half, self.value + half, "bootstrap")
        if not math.isnan(self.std_error):
            return Interval(self.ci_low, self.ci_high, "normal")
        return Interval(math.nan, math.nan, "none")


class Interval(NamedTuple):
    """A 95 % interval, and how it came about: "normal", "BCa" or "bootstrap"; "none" where there is
    none, with NaN for its ends.
    """

    low: float
    high: float
    kind: str

    def __str__(self) -> str:
        return "" if self.kind == "none" else f"{self.low:.4f} to {self.high:.4f}"


# The tables about users, which are saved as files of their own, and what notes call them.
BESIDE = {"per_user": "per-user values", "user_labels": "labels of the users"}
BOOTSTRAP_COLUMNS = ("boot_low", "boot_high", "bca_low", "bca_high", "boot_std_error")
SLICE_COLUMNS = (
    "slice",
    "group",
    "metric",
    "k",
    "value",
    "std_error",
    "ci_low",
    "ci_high",
    "users",
)


# The tables that a result may have beside its values, with their columns.
FRAMES = {
    "slices": SLICE_COLUMNS,
    "exposure": ("k", "items", "recommendations"),
    "popularity": ("k", "low", "high", "items", "interactions", "recommendations"),
}


def schema_of(frame: str) -> dict[str, Any]:
    """The columns of a table of `FRAMES` and their types."""
    import polars as pl

    kinds: dict[str, dict[str, Any]] = {
        "slices": dict.fromkeys(("slice", "group", "metric"), pl.String)
        | {"k": pl.Int64, "users": pl.Int64},
        "exposure": {"k": pl.Int64},
        "popularity": dict.fromkeys(FRAMES["popularity"], pl.Int64),
    }
    return dict.fromkeys(FRAMES[frame], pl.Float64) | kinds[frame]


def slice_column(name: str) -> str:
    """The column of `Result.user_labels` that has the labels of a slice: slices may be called
    `activity` or `user`, too.
    """
    return f"slices[{name}]"


@dataclass(frozen=True, eq=False, repr=False)
class Result(Shown):
    """The values of one model.

    `result["nDCG@10"]` is a float; any spelling of the name will do, and under a profile the plain
    name. `counts` tells how many users and items were evaluated, left out or looked suspicious,
    `notes` says in words what a reader should know, `settings` and `provenance` how to get the same
    numbers again. `per_user` has a row per user and a column per metric, `slices` a row per slice,
    group of users and metric; both are None unless they were asked for."""

    values: tuple[MetricValue, ...]
    name: str = "model"
    counts: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    provenance: Mapping[str, Any] = field(default_factory=dict)
    per_user: pl.DataFrame | None = None
    slices: pl.DataFrame | None = None
    # How recommendations are spread over the catalogue: k, items, recommendations. The least
    # recommended share `items` of items gets the share `recommendations` of all recommendations;
    # from (0, 0) to (1, 1), some hundred rows per k.
    exposure: pl.DataFrame | None = None
    # The same by popularity: k, low, high, items, interactions, recommendations. Of the items with
    # low to high train interactions: how many they are, how many train interactions and how many
    # recommendations they have.
    popularity: pl.DataFrame | None = None
    # The rows of `per_user` again: user, and what is known of each: activity (train interactions),
    # user_groups (the label), and of each slice the label, in the column `slice_column(name)`.
    user_labels: pl.DataFrame | None = None
    prefix: str = ""  # of the names in `as_dict`
    postfix: str = ""

    def __getitem__(self, name: str) -> float:
        return self.entry(name).value

    def __contains__(self, name: object) -> bool:
        try:
            self.entry(str(name))
        except (KeyError, SettingError):
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return (value.name for value in self.values)

    def __len__(self) -> int:
        return len(self.values)

    def entry(self, name: str) -> MetricValue:
        """The value of this name with its standard error, interval and number of users."""
        known = self._by_name
        if name in known:
            return known[name]
        wanted = str(name)
        if isinstance(name, str):
            plain, labels = split_cell(name)
            try:
                wanted = canonical(plain) + print_cell(labels)
            except (
                SettingError
            ):  # a metric that is not registered here, such as one of a loaded result
                folded = {known_name.casefold(): known_name for known_name in known}
                wanted = folded.get((str(parse(plain)) + print_cell(labels)).casefold(), name)
        if wanted in known:
            return known[wanted]
        if self.settings.get("profile") and isinstance(name, str):
            try:
                meant = adopted_name(plain, self.settings["profile"]) + print_cell(labels)
            except SettingError:  # no metric of the profile's
                meant = wanted
            if meant in known:
                return known[meant]
        raise KeyError(
            f"{name!r} was not evaluated.{did_you_mean(wanted, known)} This result has: "
            f"{', '.join(known)}."
        )

    @cached_property
    def _by_name(self) -> dict[str, MetricValue]:
        return {value.name: value for value in self.values}

    def as_dict(self) -> dict[str, Tensor]:
        """The values by name as tensors, as loggers and TorchMetrics have them: `{"nDCG@10":
        tensor(0.5, dtype=torch.float64)}`.

        Names have the prefix and the postfix of the evaluator, such as `val_nDCG@10`.
        """
        import torch

        return {
            f"{self.prefix}{value.name}{self.postfix}": torch.tensor(
                value.value, dtype=torch.float64
            )
            for value in self.values
        }

    def to_frame(self) -> pl.DataFrame:
        """One row per value: metric, k, value, std_error, ci_low, ci_high, users.

        If users were resampled, also boot_low, boot_high (percentiles), bca_low, bca_high and
        boot_std_error."""
        import polars as pl

        more = BOOTSTRAP_COLUMNS if self.is_bootstrapped else ()
        columns = ("metric", "k", "value", "std_error", "ci_low", "ci_high", "users", *more)
        rows = [
            {column: getattr(value, column) for column in columns}
            | {"metric": value.metric + print_cell(value.cell)}
            for value in self.values
        ]
        kinds = dict.fromkeys(columns, pl.Float64) | {
            "metric": pl.String,
            "k": pl.Int64,
            "users": pl.Int64,
        }
        return pl.DataFrame(rows, schema=kinds)

    @property
    def is_bootstrapped(self) -> bool:
        """Whether users were resampled."""
        return bool(self.settings.get("bootstrap"))

    def slice(self, name: str) -> pl.DataFrame:
        """The rows of `slices` about one slice."""
        import polars as pl

        known = (
            []
            if self.slices is None
            else self.slices["slice"].unique(maintain_order=True).to_list()
        )
        if self.slices is None or name not in known:
            have = (
                f"This result has: {', '.join(known)}."
                if known
                else "This result has none; give slices= to the evaluation."
            )
            raise KeyError(f"there is no slice {name!r}.{did_you_mean(str(name), known)} {have}")
        return self.slices.filter(pl.col("slice") == name)

    # ----------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write the result as JSON, and the tables about users, if kept, as Parquet beside it.
        Whole or not at all.
        """
        path = Path(path)
        write_whole(self.files(path))
        return path

    def files(self, path: Path, *, also: Collection[str] = ()) -> dict[Path, Writer]:
        """What `save` writes, for `write_whole`: so that the files of several results can be
        written together.

        `also`: tables that somebody else writes beside it.
        """
        beside = {name: table for name in BESIDE if (table := getattr(self, name)) is not None}
        document = self.to_dict() | {
            name: place_beside(path, name).name for name in (*beside, *also)
        }
        text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
        files: dict[Path, Writer] = {
            path.with_name(document[name]): table.write_parquet for name, table in beside.items()
        }
        return files | {path: lambda file: file.write(text.encode())}

    def to_dict(self) -> dict[str, Any]:
        """The result as plain values for JSON: what `save` writes, without the values per user.
        Undefined is None.
        """
        return {
            "format": FORMAT,
            "version": VERSION,
            "name": self.name,
            "values": [_as_json(value) for value in self.values],
            "counts": dict(self.counts),
            "notes": list(self.notes),
            "settings": dict(self.settings),
            "provenance": dict(self.provenance),
            "per_user": None,
            **{
                name: [_without_nan(row) for row in table.iter_rows(named=True)]
                for name in FRAMES
                if (table := getattr(self, name)) is not None
            },
        }

    # ----------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        rows = [("metric", "k", "value", "95 % interval", "users")]
        for value in self.values:
            users = "" if value.users is None else f"{value.users:,}"
            rows.append(
                (
                    value.metric + print_cell(value.cell),
                    "" if value.k is None else str(value.k),
                    f"{value.value:.4f}",
                    str(value.interval),
                    users,
                )
            )
        widths = [max(len(row[column]) for row in rows) for column in range(5)]
        lines = [
            "  ".join(
                cell.ljust(width) if column in (0, 3) else cell.rjust(width)
                for column, (cell, width) in enumerate(zip(row, widths))
            )
            for row in rows
        ]
        head = f"{self.name}: {self.counts.get('evaluated_users', 0):,} evaluated users, {self.counts.get('items', 0):,} items"
        return "\n".join(
            [head, *(line.rstrip() for line in lines), *(f"- {note}" for note in self.notes)]
        )

    def _repr_html_(self) -> str:
        def cell(text: str, tag: str = "td") -> str:
            return f"<{tag}>{html.escape(text)}</{tag}>"

        rows = []
        for value in self.values:
            users = "" if value.users is None else f"{value.users:,}"
            rows.append(
                f"<tr>{''.join(map(cell, (value.name, f'{value.value:.4f}', str(value.interval), users)))}</tr>"
            )
        head = "".join(cell(title, "th") for title in ("metric", "value", "95 % interval", "users"))
        notes = "".join(cell(note, "li") for note in self.notes)
        return f"<table><caption>{html.escape(self.name)}</caption><tr>{head}</tr>{''.join(rows)}</table><ul>{notes}</ul>"


# What moves a number, beside the data and the model.
_SETTINGS = (
    "relevance_threshold",
    "ties",
    "empty_users",
    "missing_lists",
    "mask_seen",
    "strategy",
    "candidates",
)
_OF_SAMPLES = (
    "num_negatives",
    "negative_sampling",
    "neg_alpha",
)  # which other strategies do not have
_CORRECTIONS = ("correction", "gamma")  # told only where there is one


def differences(one: Result, name: str, other: Result, other_name: str) -> list[str]:
    """How two results were evaluated differently, as far as they tell: reasons not to compare their
    numbers.
    """
    said = []
    ours, theirs = (result.provenance.get("fingerprint", {}) for result in (other, one))
    if "truth" in ours and "truth" in theirs and ours["truth"] != theirs["truth"]:
        said.append(
            f"{name} was evaluated on another truth: the numbers are not about the same users and "
            "items"
        )
    if (
        "candidates" in ours
        and "candidates" in theirs
        and ours["candidates"] != theirs["candidates"]
    ):
        said.append(f"{name} was evaluated on other candidates: part of the difference is theirs")
    for setting in (*_SETTINGS, *_OF_SAMPLES, *_CORRECTIONS):
        mine, its = (result.settings.get(setting) for result in (other, one))
        is_told = setting in _CORRECTIONS or (setting in other.settings and setting in one.settings)
        if mine != its and is_told and not (setting in _OF_SAMPLES and None in (mine, its)):
            said.append(
                f"{name} was evaluated with {setting}={its!r}, {other_name} with {setting}={mine!r}"
            )
    return said


def place_beside(path: Path, table: str) -> Path:
    """Where a table about users stands whose result is written to `path`."""
    return path.with_name(
        f"{path.stem}.{table}.parquet" if path.suffix == ".json" else f"{path.name}-{table}.parquet"
    )


def load_result(path: str | Path) -> Result:
    """Read what `Result.save` wrote."""
    path = Path(path)
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(
            f"{path}: there is no such file; expected a result written by Result.save."
        ) from None
    except OSError as error:
        raise InputError(
            f"{path}: cannot be read ({error.strerror}); expected a result written by Result.save."
        ) from None
    except ValueError as error:
        raise InputError(
            f"{path}: not a JSON file ({error}); expected a result written by Result.save."
        ) from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InputError(
            f"{path}: not a Weft result; expected a file written by Result.save or 'weft demo'."
        )
    if document.get("version") != VERSION:
        origin = document.get("provenance")
        writer = origin.get("weft", "unknown") if isinstance(origin, dict) else "unknown"
        raise InputError(
            f"{path}: written in version {document.get('version')!r} of the result format, but "
            "this Weft reads version "
            f"{VERSION}; evaluate again, or use the Weft that wrote it ({writer})."
        )
    try:
        values = tuple(_from_json(row) for row in document["values"])
        frames: dict[str, Any] = {
            name: _frame_from_json(name, document[name])
            for name in FRAMES
            if document.get(name) is not None
        }
        counts, settings, provenance = (
            dict(document[key]) for key in ("counts", "settings", "provenance")
        )
        beside = {"per_user": _file_name("per_user", document["per_user"])}
        beside["user_labels"] = _file_name("user_labels", document.get("user_labels"))
        name, notes = str(document["name"]), list(document["notes"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(
            f"{path}: incomplete or changed: values, name, counts, notes, settings, provenance or "
            "per_user are missing or wrong "
            f"({type(error).__name__}: {error}); evaluate again."
        ) from None
    for table, file in beside.items():
        if file is not None:
            frames[table] = _read_beside(path.with_name(file))
            if frames[table] is None:
                notes.append(
                    f"the {BESIDE[table]} were saved as {file}, which is not beside {path.name}"
                )
    return Result(values, name, counts, tuple(notes), settings, provenance, **frames)


def _file_name(table: str, given: Any) -> str | None:
    """The name of a file in the same folder, or None; nothing else."""
    if given is None:
        return None
    if not isinstance(given, str) or Path(given).name != given:
        raise ValueError(f"{table} is {given!r}, not the name of a file in the same folder")
    return given


def _read_beside(path: Path) -> pl.DataFrame | None:
    import polars as pl

    if not path.exists():
        return None
    try:
        return (
            pl.read_parquet(path / "*.parquet", glob=True).sort("user")
            if path.is_dir()
            else pl.read_parquet(path)
        )
    except (OSError, pl.exceptions.PolarsError) as error:
        raise InputError(
            f"{path}: cannot be read as Parquet ({error}); remove it, or evaluate again."
        ) from None


def _as_json(value: MetricValue) -> dict[str, Any]:
    row = {"name": value.name, **asdict(value), "ci_low": value.ci_low, "ci_high": value.ci_high}
    row |= {
        "cell": list(value.cell),
        "parts": [None if math.isnan(part) else part for part in value.parts],
    }
    if all(math.isnan(row[column]) for column in BOOTSTRAP_COLUMNS):
        row = {key: item for key, item in row.items() if key not in BOOTSTRAP_COLUMNS}
    return _without_nan(row)


def _without_nan(row: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: None if isinstance(item, float) and math.isnan(item) else item
        for key, item in row.items()
    }


def _frame_from_json(name: str, rows: list[dict[str, Any]]) -> pl.DataFrame:
    import polars as pl

    try:
        table = pl.DataFrame(
            [{column: row[column] for column in FRAMES[name]} for row in rows],
            schema=schema_of(name),
        )
    except pl.exceptions.PolarsError as error:
        raise ValueError(f"{name}: {str(error).partition(chr(10))[0]}") from None
    return table.with_columns(pl.col(pl.Float64).fill_null(math.nan))


def _from_json(row: dict[str, Any]) -> MetricValue:
    value, std_error, *boot = (
        math.nan if number is None else number
        for number in (
            row["value"],
            row["std_error"],
            *(row.get(column) for column in BOOTSTRAP_COLUMNS),
        )
    )
    for number in (value, std_error, *boot):
        if not isinstance(number, (int, float)):
            raise ValueError(f"values hold {number!r}, which is not a number")
    parts = tuple(math.nan if part is None else float(part) for part in row.get("parts", ()))
    cell = tuple(map(str, row.get("cell", ())))
    return MetricValue(
        row["metric"],
        row["k"],
        value,
        std_error,
        row["users"],
        row["higher_is_better"],
        row.get("target"),
        cell,
        parts,
        *boot,
    )


def write_whole(files: Mapping[Path, Writer]) -> None:
    """Write several files: all of them, or none. Each goes to a temporary file beside its place;
    then all are moved there.

    Folders are made as needed. If anything fails, what stood there before is there again, and
    nothing else."""
    written: dict[Path, Path] = {}
    predecessors: dict[Path, Path] = {}  # where what stood there before waits
    moved: list[Path] = []
    made: list[Path] = []
    path = next(iter(files))
    try:
        for path, write in files.items():
            for folder in reversed([folder for folder in path.parents if not folder.exists()]):
                folder.mkdir(exist_ok=True)
                made.append(folder)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.")
            written[path] = Path(temporary)
            with os.fdopen(handle, "wb") as file:
                write(file)
            os.chmod(temporary, 0o666 & ~_umask())
        for path, temporary_path in written.items():
            if path.is_dir():
                raise IsADirectoryError(0, "it is a folder")
            if path.exists():
                predecessors[path] = temporary_path.with_name(f"{temporary_path.name}.old")
                os.link(path, predecessors[path])
            os.replace(temporary_path, path)
            moved.append(path)
        made.clear()
    except BaseException as error:
        for place in moved:
            if place in predecessors:
                os.replace(predecessors[place], place)
            else:
                place.unlink()
        if isinstance(error, OSError):
            raise InputError(f"{path}: cannot be written ({error.strerror}).") from None
        raise
    finally:
        for leftover in (*written.values(), *predecessors.values()):
            leftover.unlink(missing_ok=True)
        for folder in reversed(made):
            with suppress(OSError):  # somebody else has put something into it
                folder.rmdir()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask

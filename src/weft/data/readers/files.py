"""Files of interactions, recommendation lists and labels: how to read them, and where in them a row
stands.

Polars reads them in streams, and only the columns that play a role are kept. String ids become
codes while they are read, so that a row takes four bytes for each id, whatever its length."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.data.readers.layouts import (
    FORMATS,
    INTEGER,
    SPACES,
    FileLayout,
    broken_parquet,
    is_plain,
    recognise,
)
from weft.data.readers.paths import PartFile, open_parts
from weft.data.readers.roles import COLUMNS, NEEDED, find_column, find_column_name
from weft.data.readers.row_errors import (
    IDS,
    explain,
    explain_number,
    has_quoted,
    places,
    refuse_odd_quotes,
)
from weft.errors import InputError, SettingError, check_choice, did_you_mean

if TYPE_CHECKING:
    import polars as pl

ID_TYPES = ("auto", "string", "integer")
# The roles that columns play in each kind of data, in the order of columns without names. Behind
# them may stand whatever else.
_USES = {
    "lists": ("user", "item", "score"),
    "truth": ("user", "item", "rating"),
    "train": ("user", "item", "rating"),
    "candidates": ("user", "item"),
    "timed": (
        "user",
        "item",
        "rating",
        "timestamp",
    ),  # truth and train, where the order in time matters
    "items": ("item",),
    "users": ("user",),
    "user_groups": ("user", "label"),
    "item_clusters": ("item", "label"),
    "item_features": ("item", "label"),
}
_ONLY_IDS = ("items", "users")
_AS_THEY_ARE = ("label", "timestamp")  # of whatever type
_MAIN_ROLES = ("user", "item", "score", "rating", "rank", "timestamp", "label")
_SEPARATORS = {
    "tab": "\t",
    "\\t": "\t",
    "comma": ",",
    "semicolon": ";",
    "pipe": "|",
    "space": SPACES,
    "spaces": SPACES,
    "whitespace": SPACES,
}
_SAME = {
    "score": "rating",
    "rating": "score",
    "group": "label",
    "cluster": "label",
    "feature": "label",
}
ROLES = tuple(dict.fromkeys((*_MAIN_ROLES, *_SAME)))


@dataclass(frozen=True)
class File:
    """A file, a folder of parts or a pattern such as `recs/*.csv`, and what cannot be told from it.

    format
        `"csv"`, `"tsv"`, `"parquet"`, `"jsonl"`, `"json"` (as ranx writes it), `"recbole"` or
        `"trec"`; found if it is not given.
    separator
        Between columns: any text, or `"tab"`, `"comma"`, `"semicolon"`, `"pipe"`, `"spaces"` (any
        number of spaces and tabs).
    header
        Whether the first line names the columns.
    columns
        What plays a role: `{"user": "visitor", "item": "sku"}`, or by position, from 0: `{"user":
        0, "item": 2}`. The roles are user, item, score, rating, rank, label.
    ids
        `"string"` or `"integer"` for what ids are. `"auto"` takes them as they are; in text they
        are integers if all of a column are written as one writes integers (007 is not).

    >>> import weft
    >>> weft.File("clicks.csv", columns={"user": "visitor"}).ids
    'auto'
    """

    path: Path
    format: str | None = None
    separator: str | None = None
    header: bool | None = None
    columns: Mapping[str, str | int] = field(default_factory=dict)
    ids: str = "auto"
    address: str = field(
        default="", init=False, repr=False, compare=False
    )  # as it was written: pathlib eats a slash of URLs

    def __post_init__(self) -> None:
        def settle(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        if not isinstance(self.path, (str, Path)) or not str(self.path):
            raise SettingError(
                f"path={self.path!r}; expected the path of a file, a folder or a pattern."
            )
        settle("address", str(self.path))
        settle("path", Path(self.path))
        settle("ids", check_choice("ids", self.ids, ID_TYPES))
        if self.format is not None:
            settle("format", check_choice("format", self.format, FORMATS))
        if self.separator is not None:
            if not isinstance(self.separator, str) or not self.separator or "\n" in self.separator:
                raise SettingError(
                    f"separator={self.separator!r}; expected the text between two columns, such as "
                    "',' or 'tab'."
                )
            settle("separator", _SEPARATORS.get(self.separator.casefold(), self.separator))
        if self.header is not None and not isinstance(self.header, bool):
            raise SettingError(f"header={self.header!r}; it must be True, False or None.")
        if not isinstance(self.columns, Mapping):
            raise SettingError(
                f"columns={self.columns!r}; expected {{role: column}}, such as {{'user': 'visitor'}}."
            )
        for role, column in self.columns.items():
            if role not in ROLES:
                hint = did_you_mean(str(role), ROLES)
                raise SettingError(
                    f"columns= names the role {role!r}. The roles are {', '.join(map(repr, _MAIN_ROLES))}.{hint}"
                )
            if (
                isinstance(column, bool)
                or not isinstance(column, (str, int))
                or (isinstance(column, int) and column < 0)
            ):
                raise SettingError(
                    f"columns={{{role!r}: {column!r}}}; expected the name of a column, or its position from 0 on."
                )
        settle("columns", dict(self.columns))


@dataclass(frozen=True)
class FileTable:
    """What was read: a column for each role that was found, with ids as integers (32 or 64 bits) or
    as `Enum` of sorted strings.

    `evaluate` takes it in the place of the file, any number of times.
    """

    where: str  # what it is and of which file, for messages: "truth (test.csv)"
    file: File
    columns: Mapping[str, pl.Series]
    roles: Mapping[str, str]  # the file's name of each column
    unused_columns: tuple[str, ...] = ()  # columns that play no role
    num_columns: int = 0  # how many columns the file has
    notes: tuple[str, ...] = ()
    all_users: pl.Series | None = (
        None  # users that are named, with rows or without; None: those with rows
    )

    @property
    def path(self) -> str | None:
        """The file's path as text; None if the rows are of no file."""
        return str(self.file.path)

    @property
    def is_id_list(self) -> bool:
        """Whether it is a list of ids."""
        return len(self.columns) == 1

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def locate_rows(self, rows: Sequence[int]) -> list[str]:
        """Where some rows stand: "line 17", "part-1.csv, line 17", "row 3". The file is read again
        up to the last of them.
        """
        wanted, found = set(map(int, rows)), dict[int, str]()
        try:
            with open_parts(self.file.path, self.where) as parts:
                layouts = [_layout(part, self.file, self.is_id_list) for part in parts]
                for row, (part, place) in enumerate(places(parts, layouts, self.roles)):
                    if row in wanted:
                        found[row] = place if len(parts) == 1 else f"{part.path.name}, {place}"
                        if len(found) == len(wanted):
                            break
        except InputError:  # the file is another now
            pass
        return [found.get(int(row), f"row {row}") for row in rows]


def is_file(given: Any) -> bool:
    """Whether this names a file to read, or is what was read of one."""
    return isinstance(given, (str, Path, File, FileTable))


def read_table(
    given: str | Path | File | FileTable, where: str, *, use: str | None = None
) -> FileTable:
    """Read a file once; `evaluate` takes the table wherever it takes the file.

    `where` says what it is, for messages. `use` says what its columns are for: "lists", "truth",
    "train", "candidates", "items", "users", "user_groups", "item_clusters" or "item_features";
    without it, `where` does, and what is none of these is lists."""
    if isinstance(given, FileTable):
        return given
    file = given if isinstance(given, File) else File(Path(given))
    use = use or (where if where in _USES else "lists")
    where = f"{where} ({file.path})"
    with open_parts(file.path, where) as parts:
        layouts = [_layout(part, file, use in _ONLY_IDS) for part in parts]
        _check_parts(parts, layouts)
        roles, unread = _roles(layouts[0], file, use, where)
        notes = list(_notes(layouts[0], roles, file))
        columns, everyone = _read(parts, layouts, roles, file, where)
    if len(next(iter(columns.values()))) == 0 and use in ("lists", "truth") and everyone is None:
        raise InputError(f"{where} has no rows{' below its header' if layouts[0].header else ''}.")
    if layouts[0].kind == "qrels" and (negative := int((columns["rating"] < 0).sum())):
        notes.append(
            f"{file.path.name}: {negative:,} negative judgements count as 0, as in trec_eval"
        )
        columns["rating"] = columns["rating"].clip(lower_bound=0)
    return FileTable(
        where, file, columns, roles, unread, len(layouts[0].names), tuple(notes), everyone
    )


def _layout(part: PartFile, file: File, only_ids: bool) -> FileLayout:
    named = tuple(name for name in file.columns.values() if isinstance(name, str))
    return recognise(
        part,
        form=file.format,
        separator=file.separator,
        header=file.header,
        named=named,
        only_ids=only_ids,
    )


def _check_parts(parts: list[PartFile], layouts: list[FileLayout]) -> None:
    for part, layout in zip(parts, layouts):
        first = layouts[0]
        same = (
            sorted(layout.names) == sorted(first.names)
            if first.format == "jsonl"
            else layout.names == first.names
        )
        if layout.format != first.format or not same or layout.separator != first.separator:
            raise InputError(
                f"the parts of a folder must have the same columns: {parts[0].path} has {list(first.names)}, but {part.path} has "
                f"{list(layout.names)}."
            )


# --------------------------------------------------------------------------------------------------


def _roles(
    layout: FileLayout, file: File, use: str, where: str
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The column of each role, and the columns without one."""
    names, wanted = list(layout.names), _USES[use]
    welcome = {"run": ("lists", "candidates"), "qrels": ("truth", "train", "candidates")}
    if layout.kind and use not in welcome[layout.kind]:
        is_, wants = ("a TREC run", "qrels") if layout.kind == "run" else ("TREC qrels", "a run")
        raise InputError(
            f"{where} is {is_}; expected {wants} here, or another table. Were the two files swapped?"
        )
    roles: dict[str, str] = {}
    for given, column in file.columns.items():
        role = given if given in wanted or given == "rank" else _SAME.get(given, given)
        if role in (*wanted, *(("rank",) if use == "lists" else ())):
            roles[role] = _named(names, column, given, layout, where)
        elif role not in ("timestamp", "rank", "score", "rating"):
            raise SettingError(
                f"{where}: columns= names the role {given!r}; expected {', '.join(map(repr, wanted))} here."
            )
    if not layout.header and not layout.kind:
        if not roles:
            if len(names) < len([role for role in wanted if role in (*NEEDED, "label")]):
                raise InputError(
                    f"{where} has {len(names)} column{'s' * (len(names) > 1)} and no header; expected {', '.join(wanted)}."
                )
            _refuse_ranks(layout, wanted, where)
            roles = dict(zip(wanted, names))
    else:
        _find_roles(roles, names, layout, use, where)
    for role in wanted:
        if role in (*NEEDED, "label") and role not in roles:
            raise InputError(
                f"{where}: columns= does not name the {role}; expected {', '.join(map(repr, wanted))} in a file without header."
            )
    known = (
        {name for role in COLUMNS if (name := find_column_name(names, role, where))}
        if use != "lists"
        else {*roles.values()}
    )
    return roles, tuple(name for name in names if name not in known and name not in roles.values())


def find_roles(
    columns: list[str], use: str, where: str, named: Mapping[str, str | int]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """The column of each role in a table that is no file, and the columns without one; `named`: as
    `File.columns`.
    """
    doubled = [name for name in columns if columns.count(name) > 1]
    if doubled:
        raise InputError(f"{where} has the column {doubled[0]!r} twice; rename or drop one.")
    layout = FileLayout("parquet", tuple(columns), header=True)
    return _roles(layout, File(Path("table"), columns=named), use, where)


def _find_roles(
    roles: dict[str, str], names: list[str], layout: FileLayout, use: str, where: str
) -> None:
    """Find by name what was not named."""
    wanted = _USES[use]
    asks = "Say which column holds the {role} ids: weft.File(path, columns={{'{role}': ...}}), or columns: in YAML."
    others = [name for name in names if name not in roles.values()]
    for role in wanted:
        if role in roles or role == "label":
            continue
        if role in NEEDED and layout.format == "text" and len(names) == 1 and use not in _ONLY_IDS:
            raise InputError(
                f"{where} has one column, {names[0]!r}; expected {', '.join(wanted)}. If the columns are separated by something "
                "unusual, say by what: separator=."
            )
        if role in NEEDED and len(names) == 1 and find_column_name(names, role, where) is None:
            roles[role] = names[0]  # one id per line, under whatever name
        elif (found := find_column(others, role, where, hint=asks)) is not None:
            roles[role] = found
    if (
        use == "lists"
        and "rank" not in roles
        and not layout.kind
        and (found := find_column_name(others, "rank", where))
    ):
        roles["rank"] = found
    if "label" in wanted and "label" not in roles:
        others = [name for name in names if name not in roles.values()]
        found = others[0] if len(others) == 1 else find_column_name(others, "label", where)
        if found is None:
            raise InputError(
                f"{where} has the columns {names}; expected {roles[wanted[0]]!r} and one with the labels. Say which: "
                "weft.File(path, columns={'label': ...})."
            )
        roles["label"] = found


def _named(names: list[str], column: str | int, role: str, layout: FileLayout, where: str) -> str:
    if isinstance(column, int):
        if column >= len(names):
            raise InputError(
                f"{where} has {len(names)} columns, numbered from 0; columns= wants number {column} for the {role}."
            )
        return names[column]
    if column in names:
        return column
    if not layout.header:
        raise InputError(
            f"{where} has no header, so that no column is named {column!r}; give positions: columns={{{role!r}: 0}}."
        )
    raise InputError(
        f"{where} has no column {column!r} for the {role}; it has {names}.{did_you_mean(column, names)}"
    )


def _refuse_ranks(layout: FileLayout, wanted: tuple[str, ...], where: str) -> None:
    """Refuse numbers that are taken for scores and count up from 1 in each list."""
    if wanted != _USES["lists"] or len(layout.names) < 3:
        return
    lists: dict[str, list[str]] = {}
    for row in layout.sample:
        if len(row) >= 3:
            lists.setdefault(row[0], []).append(row[2])
    counted = [
        [str(rank) for rank in range(start, start + len(values))]
        for values in lists.values()
        for start in (0, 1)
    ]
    if any(len(values) > 1 for values in lists.values()) and all(
        values in counted for values in lists.values()
    ):
        raise InputError(
            f"{where} has no header, and its third column counts 1, 2, 3, ... in each list, like ranks. Say what it is: "
            "columns={'user': 0, 'item': 1, 'rank': 2}, or 'score' in the place of 'rank'."
        )


def _notes(layout: FileLayout, roles: dict[str, str], file: File) -> Iterator[str]:
    if (
        layout.format == "text"
        and not layout.header
        and not layout.kind
        and file.header is None
        and not file.columns
        and len(roles) > 1
    ):
        yield f"{file.path.name} has no header: its columns are read as {', '.join(roles)}"


# --------------------------------------------------------------------------------------------------


def _read(
    parts: list[PartFile], layouts: list[FileLayout], roles: dict[str, str], file: File, where: str
) -> tuple[dict[str, pl.Series], pl.Series | None]:
    import polars as pl

    if layouts[0].format == "json":
        return _read_json(parts, roles, file, where)
    try:
        if layouts[0].format == "text":
            return _read_text(parts, layouts, roles, file, where), None
        return _read_typed(parts, layouts, roles, file, where), None
    except (pl.exceptions.PolarsError, OSError) as error:
        explain(parts, layouts, roles, file.ids)
        reason = str(error).partition("\n")[0]
        if layouts[0].format == "parquet":
            raise broken_parquet(parts[0], error) from None
        refuse_odd_quotes(parts)
        raise InputError(f"{where} cannot be read: {reason}.") from None


def _collect(
    scan: pl.LazyFrame, columns: Mapping[str, pl.Expr], keep: pl.Expr | None = None
) -> dict[str, pl.Series]:
    """Columns in one stretch of memory each."""
    chosen = scan.select(**columns) if keep is None else scan.filter(keep).select(**columns)
    frame = chosen.collect(engine="streaming")
    found = {}
    for name in frame.columns:  # one after the other, so that never two copies of all are there
        found[name] = frame.drop_in_place(name).rechunk()
    return found


def _coded(scan: pl.LazyFrame, column: pl.Expr) -> pl.Enum:
    """The type of a column of strings: all that occur, sorted, so that codes are the same in every
    run.
    """
    import polars as pl

    # Not `column.unique()` inside a select: that would hold the whole column.
    met = scan.select(column.alias("id")).unique().collect(engine="streaming")["id"]
    return pl.Enum(met.drop_nulls().sort())


def _read_text(
    parts: list[PartFile], layouts: list[FileLayout], roles: dict[str, str], file: File, where: str
) -> dict[str, pl.Series]:
    import polars as pl

    layout = layouts[0]
    place = {role: layout.names.index(name) for role, name in roles.items()}
    numbers = [role for role in roles if role not in (*IDS, *_AS_THEY_ARE)]
    types = {role: _likely(layout.sample, place[role], file.ids) for role in roles if role in IDS}
    if not layout.sample and all(_is_over(part, layout) for part, layout in zip(parts, layouts)):
        return {role: pl.Series(dtype=pl.Int64 if role in IDS else pl.Float64) for role in roles}
    as_text, quotes = not is_plain(layout.separator), True
    while True:
        reals = () if as_text else tuple(place[role] for role in numbers)
        scan = pl.concat(
            [_scan_text(part, layout, reals, quotes) for part, layout in zip(parts, layouts)]
        )
        ids = {role: pl.col(str(place[role])) for role in types}
        columns = {}
        for role in numbers:
            column = pl.col(str(place[role]))
            columns[role] = (
                column.str.strip_chars().cast(pl.Float64, strict=False) if as_text else column
            )
        columns |= {role: pl.col(str(place[role])) for role in _AS_THEY_ARE if role in roles}
        keep = ~pl.all_horizontal(column.is_null() for column in ids.values())  # empty lines
        try:
            coded = {role: _as_type(column, types[role], scan) for role, column in ids.items()}
            found = _collect(scan, {**coded, **columns, "extra": pl.col("extra")}, keep)
        except pl.exceptions.PolarsError:
            if not as_text:
                # numbers that polars does not read in one go, such as those with spaces around them
                as_text = True
            elif quotes and not any(has_quoted(part, layout) for part in parts):
                quotes = False  # quotes inside fields, such as inches
            else:
                raise
            continue
        if found.pop("extra").any() and not is_plain(layout.separator):
            explain(parts, layouts, roles, file.ids)
        wrong = [role for role in types if found[role].null_count() and types[role] in _WIDER]
        if not wrong:
            break
        types.update((role, _WIDER[types[role]]) for role in wrong)
    if any(found[role].null_count() for role in (*types, *numbers)):
        explain(
            parts, layouts, roles, file.ids
        )  # a row that is too short, an id that is missing, a number that is none
    _refuse_missing(found, where)
    if "label" in found:
        found["label"] = _label_column(found["label"])
    return found


# How ids of text are read, from the narrowest type on: where one does not hold them, the next is
# tried.
_WIDER = {"short": "long", "long": "string"}


def _likely(sample: Sequence[Any], place: int, option: str) -> str:
    """What the ids of a column seem to be."""
    if option != "auto":
        return option
    met = [row[place] for row in sample if len(row) > place]
    if not all(map(INTEGER.fullmatch, met)):
        return "string"
    return "short" if all(len(value) < 10 for value in met) else "long"


def _as_type(column: pl.Expr, kind: str, scan: pl.LazyFrame) -> pl.Expr:
    import polars as pl

    if kind == "string":
        return column.cast(_coded(scan, column))
    if kind == "integer":
        return column.str.strip_chars().cast(pl.Int64, strict=False)
    # Besides integers as one writes them, polars reads 007, +7 and -0 as integers.
    other = (column.str.starts_with("0") & (column.str.len_bytes() > 1)) | column.str.contains(
        r"^(\+|-0)"
    )
    return pl.when(~other).then(
        column.cast(pl.Int32 if kind == "short" else pl.Int64, strict=False)
    )


def _scan_text(
    part: PartFile, layout: FileLayout, reals: Sequence[int], quotes: bool
) -> pl.LazyFrame:
    """Columns "0", "1", ... as text or, where they hold numbers, as such; "extra": whether a row
    has fields behind the last.
    """
    import polars as pl

    width = len(layout.names)
    if is_plain(layout.separator):
        schema = {
            str(number): pl.Float64 if number in reals else pl.String for number in range(width)
        }
        scan = pl.scan_csv(
            part.plain,
            has_header=False,
            skip_rows=layout.first,
            separator=layout.separator,
            quote_char='"' if quotes else None,
            schema=schema,
            glob=False,
        )
        # All columns are asked for: only then polars refuses rows that go on behind the last.
        return scan.with_columns(extra=pl.any_horizontal(pl.all().is_null()))
    scan = pl.scan_csv(
        part.plain,
        has_header=False,
        skip_rows=layout.first,
        separator="\x1f",
        quote_char=None,
        schema={"line": pl.String},
        glob=False,
    )
    line = (
        pl.col("line").str.strip_chars(" \t\r\n") if layout.separator == SPACES else pl.col("line")
    )
    split = (
        line.str.replace_all(r"[ \t]+", "\x1f")
        if layout.separator == SPACES
        else line.str.replace_all(layout.separator, "\x1f", literal=True)
    )
    fields = split.str.split_exact("\x1f", width).struct.rename_fields(
        [*map(str, range(width)), "rest"]
    )
    scan = scan.select(fields.alias("fields")).unnest("fields")
    empty = [
        pl.when(pl.col(name) != "").then(pl.col(name)).alias(name)
        for name in map(str, range(width))
    ]
    return scan.select(*empty, extra=pl.col("rest").is_not_null())


def _is_over(part: PartFile, layout: FileLayout) -> bool:
    """Whether nothing but empty lines comes behind the header."""
    return all(not line.strip() for number, line in part.lines() if number > layout.first)


def _label_column(labels: pl.Series) -> pl.Series:
    import polars as pl

    met = labels.drop_nulls().unique()
    whole = all(INTEGER.fullmatch(label) and len(label) < 19 for label in met)
    return labels.cast(pl.Int64) if len(met) and whole else labels


def _read_typed(
    parts: list[PartFile], layouts: list[FileLayout], roles: dict[str, str], file: File, where: str
) -> dict[str, pl.Series]:
    """Parquet and JSON Lines, whose columns have types."""
    import polars as pl

    types = [_types(part, layout, roles) for part, layout in zip(parts, layouts)]
    for part, of in zip(parts, types):
        for role, dtype in of.items():
            _refuse_type(role, roles[role], dtype, part)
    strings = {
        role
        for role in roles
        if role in IDS
        and (file.ids == "string" or (file.ids == "auto" and not types[0][role].is_integer()))
    }
    mixed = next(
        (
            role
            for role in IDS
            if role in roles and len({of[role].is_integer() for of in types}) > 1
        ),
        None,
    )
    if mixed and file.ids == "auto":
        other = next(
            number
            for number, of in enumerate(types)
            if of[mixed].is_integer() != types[0][mixed].is_integer()
        )
        raise InputError(
            f"{where}: {parts[0].path.name} has {_kind(types[0][mixed])} as {mixed} ids, {parts[other].path.name} has "
            f"{_kind(types[other][mixed])}. Write them alike, or read all as strings: weft.File(path, ids='string')."
        )
    narrow = True
    while True:
        scans = []
        for part, layout, of in zip(parts, layouts, types):
            scan = (
                pl.scan_parquet(part.plain, glob=False)
                if layout.format == "parquet"
                else _scan_json(part, roles, of)
            )
            chosen = [pl.col(roles[role]).alias(role) for role in roles]
            chosen = [
                column.cast(pl.String)
                if role in strings
                else column.cast(pl.String).cast(pl.Int64, strict=False)
                if role in IDS and not of[role].is_integer()
                else column.cast(pl.Int32 if narrow else pl.Int64)
                if role in IDS
                else column
                if role in _AS_THEY_ARE
                else column.cast(pl.Float64)
                for role, column in zip(roles, chosen)
            ]
            scans.append(scan.select(chosen))
        scan = pl.concat(scans)
        columns = {
            role: pl.col(role).cast(_coded(scan, pl.col(role))) if role in strings else pl.col(role)
            for role in roles
        }
        try:
            found = _collect(scan, columns)
            break
        except pl.exceptions.InvalidOperationError:
            if not narrow:
                raise InputError(
                    f"{where} has ids beyond 63 bits; read them as strings: weft.File(path, ids='string')."
                ) from None
            narrow = False
    for role in found:
        if (
            role not in (*IDS, *_AS_THEY_ARE)
            and any(of[role].is_integer() for of in types)
            and (found[role].abs() > 2**53).any()
        ):
            raise InputError(
                f"{where}: the column {roles[role]!r} has integers beyond 2**53, which float64 cannot tell apart; rescale them."
            )
    if any(found[role].null_count() for role in found if role in IDS):
        explain(parts, layouts, roles, file.ids)
    _refuse_missing(found, where)
    return found


def _refuse_missing(found: dict[str, pl.Series], where: str) -> None:
    """Refuse rows without an id. A missing number becomes NaN, as in frames; whoever needs it says
    which rows those are.
    """
    for role, column in found.items():
        if role in IDS and column.null_count():
            row = int(column.is_null().arg_true()[0])
            raise InputError(f"{where} has no {role} id in row {row}; every row needs one.")
        if role not in (*IDS, *_AS_THEY_ARE):
            found[role] = column.fill_null(float("nan"))


def _types(part: PartFile, layout: FileLayout, roles: dict[str, str]) -> dict[str, Any]:
    """The polars type of each role's column."""
    import polars as pl

    if layout.format == "parquet":
        return {role: layout.types[name] for role, name in roles.items()}
    types: dict[str, Any] = {}
    for role, name in roles.items():
        met = layout.types[name]
        if role not in (*IDS, *_AS_THEY_ARE):
            types[role] = pl.Float64() if met <= {int, float, bool} else pl.String()
        elif met <= {int}:
            types[role] = pl.Int64()
        elif met == {list}:
            inner = {type(value) for row in layout.sample for value in row.get(name) or ()}
            types[role] = pl.List(pl.Int64 if inner == {int} else pl.String)
        elif met <= {int, float}:
            types[role] = pl.Float64()
        elif met == {bool}:
            types[role] = pl.Boolean()
        elif met == {str}:
            types[role] = pl.String()
        else:
            kinds = " and ".join(sorted(kind.__name__ for kind in met))
            raise InputError(
                f"{part.path}: {name!r} is {kinds} in different lines; write all in one way."
            )
    return types


def _scan_json(part: PartFile, roles: dict[str, str], types: dict[str, Any]) -> pl.LazyFrame:
    import polars as pl

    return pl.scan_ndjson(part.plain, schema={roles[role]: types[role] for role in roles})


def _kind(dtype: Any) -> str:
    return "integers" if dtype.is_integer() else "strings"


def _refuse_type(role: str, name: str, dtype: Any, part: PartFile) -> None:
    import polars as pl

    if role in _AS_THEY_ARE:
        return
    if role in IDS:
        if not (
            dtype.is_integer() or dtype in (pl.String, pl.Categorical) or isinstance(dtype, pl.Enum)
        ):
            raise InputError(
                f"{part.path}: the column {name!r} holds {dtype}; {role} ids are integers or strings."
            )
    elif not (dtype.is_numeric() or dtype == pl.Boolean):
        explain_number(part, role, name, dtype)


def _read_json(
    parts: list[PartFile], roles: dict[str, str], file: File, where: str
) -> tuple[dict[str, pl.Series], pl.Series]:
    """`{query: {document: number}}`, as ranx writes it."""
    import polars as pl

    rows: dict[str, dict[str, Any]] = {}
    for part in parts:
        for _ in part.lines():  # not UTF-8 is said with its line
            pass
        try:
            read = json.loads(part.plain.read_text(encoding="utf-8-sig"))
        except json.JSONDecodeError as error:
            raise InputError(
                f"{part.path}, line {error.lineno}: this is not JSON ({error.msg}, at column {error.colno})."
            ) from None
        if not isinstance(read, dict) or not all(isinstance(row, dict) for row in read.values()):
            raise InputError(
                f"{part.path} is JSON, but not {{query: {{document: score}}}}, which ranx writes, and not JSON Lines."
            )
        if twice := rows.keys() & read.keys():
            raise InputError(f"{part.path} has the query {min(twice)!r} of another part.")
        rows.update(read)
    value = next(role for role in ("score", "rating") if role in roles)
    for query, row in rows.items():
        for document, number in row.items():
            if isinstance(number, bool) or not isinstance(number, (int, float)):
                raise InputError(
                    f"{where}, query {query!r}: the {value} of {document!r} is {number!r}; expected a number."
                )
    users = pl.Series(
        list(chain.from_iterable(repeat(query, len(row)) for query, row in rows.items())),
        dtype=pl.String,
    )
    items = pl.Series(list(chain.from_iterable(rows.values())), dtype=pl.String)
    values = pl.Series(
        list(chain.from_iterable(row.values() for row in rows.values())),
        dtype=pl.Float64,
        strict=False,
    )
    everyone = pl.Series(list(rows), dtype=pl.String)
    if file.ids == "integer" or (file.ids == "auto" and all(map(_is_integer, rows))):
        users, everyone = _as_integers(users, "user", where), _as_integers(everyone, "user", where)
    if file.ids == "integer" or (file.ids == "auto" and all(map(_is_integer, items.unique()))):
        items = _as_integers(items, "item", where)
    return {"user": users, "item": items, value: values}, everyone


def _is_integer(text: str) -> bool:
    return len(text) <= 20 and INTEGER.fullmatch(text) is not None and -(2**63) <= int(text) < 2**63


def _as_integers(ids: pl.Series, role: str, where: str) -> pl.Series:
    import polars as pl

    numbers = ids.cast(pl.Int64, strict=False)
    if numbers.null_count():
        raise InputError(
            f"{where} has the {role} id {ids.filter(numbers.is_null())[0]!r}, which is no integer, but ids='integer'."
        )
    return numbers

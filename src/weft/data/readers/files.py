"""Files of interactions, recommendation lists and labels: their settings and their content.

Polars reads files in streams, and only columns with a role are kept. String ids become codes while
they are read, so that a row takes four bytes for each id, whatever its length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft._choices import IdType, choices
from weft.data.readers.layouts import (
    FORMATS,
    SPACES,
    FileLayout,
    LayoutOptions,
    broken_parquet,
    detect_layout,
)
from weft.data.readers.paths import open_parts
from weft.data.readers.ranx_files import read_ranx
from weft.data.readers.role_assignment import (
    ID_LISTS,
    MAIN_ROLES,
    ROLES,
    ROLES_OF_USE,
    assign_roles,
)
from weft.data.readers.roles import ID_ROLES, NUMBER_ROLES
from weft.data.readers.row_errors import check_quotes, check_rows, iter_locations
from weft.data.readers.tabular_files import read_text, read_typed
from weft.errors import InputError, SettingError, check_choice, did_you_mean, setting_ref

if TYPE_CHECKING:
    import polars as pl

ID_TYPES = choices(IdType)
_SEPARATOR_NAMES = {
    "tab": "\t",
    "\\t": "\t",
    "comma": ",",
    "semicolon": ";",
    "pipe": "|",
    "space": SPACES,
    "spaces": SPACES,
    "whitespace": SPACES,
}


@dataclass(frozen=True)
class File:
    """A file, a folder of part files or a pattern such as `recs/*.csv`, and how to read it.

    Settings that are not given are detected from the file.

    format
        `"csv"`, `"tsv"`, `"parquet"`, `"jsonl"`, `"json"` (as ranx writes it), `"recbole"` or
        `"trec"`.
    separator
        The text between columns, or `"tab"`, `"comma"`, `"semicolon"`, `"pipe"`, `"spaces"` (any
        number of spaces and tabs).
    header
        Whether the first line names the columns.
    columns
        The columns of roles, by name `{"user": "visitor", "item": "sku"}` or by position from 0
        `{"user": 0, "item": 2}`. The roles are user, item, score, rating, rank, timestamp, label.
    ids
        The type of ids: `"string"`, `"integer"` or `"auto"`. With `"auto"`, ids keep their type; in
        text they are integers if all ids of a column are canonical integers (007 is not).

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
    # The path as it was given: pathlib drops a slash of URLs.
    address: str = field(default="", init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.path, (str, Path)) or not str(self.path):
            raise SettingError(
                f"{setting_ref('path', self.path)}; expected the path of a file, a folder or a "
                "pattern."
            )
        if self.header is not None and not isinstance(self.header, bool):
            raise SettingError(
                f"{setting_ref('header', self.header)}; it must be True, False or None."
            )
        self._set("address", str(self.path))
        self._set("path", Path(self.path))
        self._set("ids", check_choice("ids", self.ids, ID_TYPES))
        if self.format is not None:
            self._set("format", check_choice("format", self.format, FORMATS))
        if self.separator is not None:
            self._set("separator", _check_separator(self.separator))
        self._set("columns", _check_columns(self.columns))

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


def _check_separator(separator: object) -> str:
    """Return the separator of a name such as "tab", or the separator itself."""
    if not isinstance(separator, str) or not separator or "\n" in separator:
        raise SettingError(
            f"{setting_ref('separator', separator)}; expected the text between two columns, such "
            "as ',' or 'tab'."
        )
    return _SEPARATOR_NAMES.get(separator.casefold(), separator)


def _check_columns(columns: object) -> dict[str, str | int]:
    if not isinstance(columns, Mapping):
        raise SettingError(
            f"{setting_ref('columns', columns)}; expected {{role: column}}, such as "
            "{'user': 'visitor'}."
        )
    for role, column in columns.items():
        if role not in ROLES:
            raise SettingError(
                f"{setting_ref('columns')} names the role {role!r}. The roles are "
                f"{', '.join(map(repr, MAIN_ROLES))}.{did_you_mean(str(role), ROLES)}"
            )
        is_position = isinstance(column, int) and not isinstance(column, bool) and column >= 0
        if not isinstance(column, str) and not is_position:
            raise SettingError(
                f"{setting_ref('columns', {role: column})}; expected the name of a column, or its "
                "position from 0 on."
            )
    return dict(columns)


@dataclass(frozen=True)
class FileTable:
    """The content of a file: a column for each role, with ids as integers or as sorted `Enum`.

    `evaluate` accepts it in place of the file, any number of times.
    """

    where: str  # the data and its file in messages: "truth (test.csv)"
    file: File
    columns: Mapping[str, pl.Series]
    roles: Mapping[str, str]  # the name of each column in the file
    unused_columns: tuple[str, ...] = ()
    num_columns: int = 0  # columns of the file
    notes: tuple[str, ...] = ()
    all_users: pl.Series | None = None  # users with or without rows; None: the users of the rows

    @property
    def path(self) -> str | None:
        """The file's path as text; None if the rows are not from a file."""
        return str(self.file.path)

    @property
    def is_id_list(self) -> bool:
        """True if there is only a column of ids."""
        return len(self.columns) == 1

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def locate_rows(self, rows: Sequence[int]) -> list[str]:
        """Return the location of each row: "line 17", "part-1.csv, line 17", "row 3".

        Reads the file again up to the last of these rows.
        """
        locations: dict[int, str] = {}
        remaining = set(map(int, rows))
        try:
            with open_parts(self.file.path, self.where) as parts:
                options = _layout_options(self.file, is_id_list=self.is_id_list)
                layouts = [detect_layout(part, options) for part in parts]
                for row, (part, location) in enumerate(iter_locations(layouts, self.roles)):
                    if not remaining:
                        break
                    if row in remaining:
                        remaining.remove(row)
                        prefix = "" if len(parts) == 1 else f"{part.path.name}, "
                        locations[row] = prefix + location
        except InputError:  # the file has changed
            pass
        return [locations.get(int(row), f"row {row}") for row in rows]


def is_file(data: Any) -> bool:
    """True if `data` is a path, a `File` or the content of a file."""
    return isinstance(data, (str, Path, File, FileTable))


def read_table(
    data: str | Path | File | FileTable, where: str, *, use: str | None = None
) -> FileTable:
    """Return the content of a file; `evaluate` accepts it wherever it accepts the file.

    `where` names the data in messages. `use` decides which columns are read: "lists", "truth",
    "train", "candidates", "items", "users", "user_groups", "item_clusters" or "item_features". By
    default it is `where` if that is one of these, else "lists".
    """
    if isinstance(data, FileTable):
        return data
    file = data if isinstance(data, File) else File(Path(data))
    use = use or (where if where in ROLES_OF_USE else "lists")
    where = f"{where} ({file.path})"
    with open_parts(file.path, where) as parts:
        options = _layout_options(file, is_id_list=use in ID_LISTS)
        layouts = [detect_layout(part, options) for part in parts]
        _check_same_columns(layouts)
        roles, unused = assign_roles(layouts[0], file.columns, use, where)
        notes = list(_notes(layouts[0], roles, file))
        columns, all_users = _read_columns(layouts, roles, file.ids, where)
    if not len(next(iter(columns.values()))) and use in ("lists", "truth") and all_users is None:
        below = " below its header" if layouts[0].has_header else ""
        raise InputError(f"{where} has no rows{below}.")
    if layouts[0].trec == "qrels" and (num_negative := int((columns["rating"] < 0).sum())):
        notes.append(
            f"{file.path.name}: {num_negative:,} negative judgements count as 0, as in trec_eval"
        )
        columns["rating"] = columns["rating"].clip(lower_bound=0)
    num_columns = len(layouts[0].names)
    return FileTable(where, file, columns, roles, unused, num_columns, tuple(notes), all_users)


def _layout_options(file: File, *, is_id_list: bool) -> LayoutOptions:
    columns = tuple(file.columns.values())
    return LayoutOptions(file.format, file.separator, file.header, columns, is_id_list)


def _check_same_columns(layouts: list[FileLayout]) -> None:
    first = layouts[0]
    for layout in layouts[1:]:
        names, expected = layout.names, first.names
        if first.format == "jsonl":  # objects have no order
            names, expected = tuple(sorted(names)), tuple(sorted(expected))
        if (layout.format, names, layout.separator) != (first.format, expected, first.separator):
            raise InputError(
                f"the parts of a folder must have the same columns: {first.part.path} has "
                f"{list(first.names)}, but {layout.part.path} has {list(layout.names)}."
            )


def _notes(layout: FileLayout, roles: dict[str, str], file: File) -> Iterator[str]:
    is_guessed = file.header is None and not file.columns and len(roles) > 1
    if layout.format == "text" and not layout.has_header and not layout.trec and is_guessed:
        yield f"{file.path.name} has no header: its columns are read as {', '.join(roles)}"


def _read_columns(
    layouts: list[FileLayout], roles: dict[str, str], ids: str, where: str
) -> tuple[dict[str, pl.Series], pl.Series | None]:
    """Return the column of each role, and all users if the file names users without rows."""
    import polars as pl

    if layouts[0].format == "json":
        value_role = next(role for role in ("score", "rating") if role in roles)
        return read_ranx(layouts, value_role, ids, where)
    read = read_text if layouts[0].format == "text" else read_typed
    try:
        columns = read(layouts, roles, ids, where)
    except (pl.exceptions.PolarsError, OSError) as error:
        check_rows(layouts, roles, ids)
        if layouts[0].format == "parquet":
            raise broken_parquet(layouts[0].part, error) from None
        check_quotes(layouts)
        reason = str(error).partition("\n")[0]
        raise InputError(f"{where} cannot be read: {reason}.") from None
    for role, column in columns.items():
        if role in ID_ROLES and column.null_count():
            row = int(column.is_null().arg_true()[0])
            raise InputError(f"{where} has no {role} id in row {row}; every row needs one.")
        if role in NUMBER_ROLES:
            columns[role] = column.fill_null(float("nan"))
    return columns, None

"""The content of files of interactions, recommendation lists and labels.

Polars reads files in streams, and only columns with a role are kept. String ids become codes while
they are read, so that a row takes four bytes for each id, whatever its length."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.data.readers.column_reader import CollectColumns, collect_columns
from weft.data.readers.file_settings import File as File
from weft.data.readers.layouts import FileLayout, broken_parquet, detect_layout
from weft.data.readers.paths import open_parts
from weft.data.readers.pipes import PipeBuffer, read_pipe
from weft.data.readers.ranx_files import read_ranx
from weft.data.readers.role_assignment import ID_LISTS, ROLES_OF_USE, assign_roles
from weft.data.readers.roles import ID_ROLES, is_number_role
from weft.data.readers.row_errors import check_lines, check_rows, iter_locations
from weft.data.readers.text_files import read_text
from weft.data.readers.typed_files import read_typed
from weft.errors import InputError, agree, plain_text

if TYPE_CHECKING:
    import polars as pl


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
    pipe: PipeBuffer | None = None  # the content, if the path is a pipe
    layout: FileLayout | None = None  # of the first part file

    @property
    def path(self) -> str | None:
        """The file's path as text; None if the rows are not from a file."""
        return plain_text(self.file.path)

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
        wanted = set(map(int, rows))
        with suppress(InputError), open_parts(self.file.path, self.where, self.pipe) as parts:
            layouts = [detect_layout(part, self.file, self.is_id_list) for part in parts]
            prefixes = [f"{part.path.name}, " if len(parts) > 1 else "" for part in parts]
            found = (
                prefix + location
                for prefix, layout in zip(prefixes, layouts)
                for location in iter_locations(layout)
            )
            for row, location in enumerate(islice(found, max(wanted, default=-1) + 1)):
                if row in wanted:
                    locations[row] = location
        # A file that has changed lacks rows.
        return [locations.get(int(row), f"row {row}") for row in rows]


def is_file(data: Any) -> bool:
    """True if `data` is a path, a `File` or the content of a file."""
    return isinstance(data, (str, Path, File, FileTable))


def read_table(
    data: str | Path | File | FileTable,
    where: str,
    *,
    use: str | None = None,
    collect: CollectColumns = collect_columns,
    verbatim: bool = False,
) -> FileTable:
    """Return the content of a file; `evaluate` accepts it wherever it accepts the file.

    `where` names the data in messages. `use` decides which columns are read: "lists", "truth",
    "train", "candidates", "items", "users", "user_groups", "item_clusters" or "item_features". By
    default it is `where` if that is one of these, else "lists". `collect` reads the columns of a
    scan; a `RowStream` keeps the scan instead, for files that do not fit into memory. If it is
    `verbatim`, columns other than ids and times are read as they are written, also those without a
    role, as `column 0`, `column 1`, ... by their position in the file.
    """
    if isinstance(data, FileTable):
        return data
    file = data if isinstance(data, File) else File(Path(data))
    use = use or _default_use(where)
    name, where = where, f"{where} ({file.path})"
    pipe = read_pipe(file.path, where)
    with open_parts(file.path, where, pipe) as parts:
        layouts = [detect_layout(part, file, use in ID_LISTS) for part in parts]
        _check_same_columns(layouts)
        roles, unused = assign_roles(layouts[0], file.columns, use, where, name)
        is_verbatim = verbatim and layouts[0].format != "json"
        read_roles = name_columns(layouts[0].names, roles) if is_verbatim else roles
        columns, all_users = _read_columns(layouts, read_roles, file.ids, where, collect)
    if use in ("lists", "truth") and all_users is None:
        _check_has_rows(columns, layouts[0], where)
    notes = tuple(_notes(layouts[0], columns, file))
    if layouts[0].trec == "qrels" and "rating" in columns:
        columns["rating"] = columns["rating"].clip(lower_bound=0)
    return FileTable(
        where,
        file,
        columns,
        roles,
        unused,
        num_columns=len(layouts[0].names),
        notes=notes,
        all_users=all_users,
        pipe=pipe,
        layout=layouts[0],
    )


def _default_use(where: str) -> str:
    return where if where in ROLES_OF_USE else "lists"


def _check_has_rows(columns: Mapping[str, Any], layout: FileLayout, where: str) -> None:
    if not len(next(iter(columns.values()))):
        below = " below its header" if layout.has_header else ""
        raise InputError(f"{where} has no rows{below}.")


def name_columns(names: Sequence[str], roles: Mapping[str, str]) -> dict[str, str]:
    """Return all columns in their order, under their role if they are ids or times.

    Others are `column 0`, `column 1`, ... by their position.
    """
    verbatim = {roles[role]: role for role in (*ID_ROLES, "timestamp") if role in roles}
    return {verbatim.get(name, f"column {number}"): name for number, name in enumerate(names)}


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


def _notes(layout: FileLayout, columns: Mapping[str, pl.Series], file: File) -> Iterator[str]:
    is_table = layout.format == "text" and not layout.has_header and not layout.trec
    if is_table and file.header is None and not file.columns and len(columns) > 1:
        yield f"{file.path.name} has no header: its columns are read as {', '.join(columns)}"
    ratings = columns.get("rating") if layout.trec == "qrels" else None
    if ratings is not None and (negative := int((ratings < 0).sum())):
        judgements = agree(negative, "{n} negative judgement{s} {count} as 0, as in trec_eval")
        yield f"{file.path.name}: {judgements}"


def _read_columns(
    layouts: list[FileLayout], roles: dict[str, str], ids: str, where: str, collect: CollectColumns
) -> tuple[dict[str, pl.Series], pl.Series | None]:
    """Return the column of each role, and all users if the file names users without rows."""
    import polars as pl

    if layouts[0].format == "json":
        value_role = next((role for role in ("score", "rating") if role in roles), "score")
        columns, users = read_ranx(layouts, value_role, ids, where)
        return {role: columns[role] for role in roles}, users
    try:
        if layouts[0].format == "text":
            columns = read_text(layouts, roles, ids, collect)
        else:
            columns = read_typed(layouts, roles, ids, where, collect)
    except (pl.exceptions.PolarsError, OSError) as error:
        check_rows(layouts, roles, ids)
        if layouts[0].format == "parquet":
            raise broken_parquet(layouts[0].part, error) from None
        check_lines(layouts)
        reason = str(error).partition("\n")[0]
        raise InputError(f"{where} cannot be read: {reason}.") from None
    return _fill_missing(columns, where), None


def _fill_missing(columns: Mapping[str, pl.Series], where: str) -> dict[str, pl.Series]:
    """Return columns with NaN for missing numbers; raise `InputError` for missing ids."""
    for role in ID_ROLES:
        if role in columns and columns[role].null_count():
            row = int(columns[role].is_null().arg_true()[0])
            raise InputError(f"{where} has no {role} id in row {row}; every row needs one.")
    return {
        role: column.fill_null(float("nan")) if is_number_role(role) else column
        for role, column in columns.items()
    }

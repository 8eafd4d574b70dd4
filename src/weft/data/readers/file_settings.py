"""`File`: a path and the settings with which it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from weft._choices import MATRIX_SUFFIXES, FileFormat, IdType, choices
from weft.data.readers.roles import MAIN_ROLES, ROLES
from weft.errors import SettingError, check_choice, describe_type, did_you_mean, setting_ref

_FORMATS = choices(FileFormat)
SPACES = " "  # any number of spaces and tabs
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


@dataclass(frozen=True, init=False)
class File:
    """The path of data, and how to read them.

    Settings that are not given are detected from the file.

    Parameters
    ----------
    path
        Path of a file, a folder of part files, or a pattern such as `recs/*.csv`.
    format
        `"csv"`, `"tsv"`, `"parquet"`, `"jsonl"`, `"json"` (as ranx writes it), `"recbole"` or
        `"trec"`.
    separator
        Text between columns, or one of the names `"tab"`, `"comma"`, `"semicolon"`, `"pipe"` and
        `"spaces"` (any number of spaces and tabs).
    header
        Whether the first line contains the names of the columns.
    columns
        Columns of the roles user, item, score, rating, rank, timestamp and label: by name, as in
        `{"user": "visitor", "item": "sku"}`, or by position from 0, as in `{"user": 0, "item": 2}`.
    ids
        Type of the ids: `"string"`, `"integer"` or `"auto"` (default). With `"auto"`, ids keep
        their type; text ids are integers if all ids of a column are canonical integers (007 is
        not).

    Raises
    ------
    SettingError
        If a setting is invalid.

    Examples
    --------
    >>> import weft
    >>> weft.File("clicks.csv", columns={"user": "visitor"}).ids
    'auto'
    """

    path: Path
    format: FileFormat | None
    separator: str | None
    header: bool | None
    columns: Mapping[str, str | int]
    ids: IdType
    # The path as it was given: pathlib drops a slash of URLs.
    address: str = field(init=False, repr=False, compare=False)

    def __init__(
        self,
        path: str | Path,
        format: FileFormat | None = None,  # noqa: A002
        separator: str | None = None,
        header: bool | None = None,
        columns: Mapping[str, str | int] | None = None,
        ids: IdType = "auto",
    ) -> None:
        if not isinstance(path, (str, Path)):
            raise SettingError(
                f"path is {describe_type(path)}; expected the path of a file, a folder or a "
                "pattern. Pass a frame without weft.File, and rename its columns.",
                setting="path",
            )
        if not str(path):
            raise SettingError(
                f"{setting_ref('path', path)}; expected the path of a file, a folder or a pattern."
            )
        if header is not None and not isinstance(header, bool):
            raise SettingError(f"{setting_ref('header', header)}; it must be True, False or None.")
        self._set("address", str(path))
        self._set("path", Path(path))
        is_open = format is None
        self._set("format", None if is_open else check_choice("format", format, _FORMATS))
        self._set("separator", None if separator is None else _check_separator(separator))
        self._set("header", header)
        self._set("columns", {} if columns is None else _check_columns(columns))
        self._set("ids", check_choice("ids", ids, choices(IdType)))

    @property
    def is_declared_table(self) -> bool:
        """True if the settings describe a table, which excludes the format TREC."""
        if self.format is not None:
            return self.format != "trec"
        is_described = self.header is False and bool(self.columns)
        return self.separator is not None or self.header is True or is_described

    def _set(self, name: str, value: object) -> None:
        object.__setattr__(self, name, value)


def is_matrix_file(data: object) -> bool:
    """True for the path of a file with a score matrix or factors."""
    if isinstance(data, File):
        return data.format is None and is_matrix_file(data.path)
    return isinstance(data, (str, Path)) and Path(data).suffix.lower() in MATRIX_SUFFIXES


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
                f"{setting_ref('columns')} has the unknown role {role!r}. The roles are "
                f"{', '.join(map(repr, MAIN_ROLES))}.{did_you_mean(str(role), ROLES)}"
            )
        is_position = isinstance(column, int) and not isinstance(column, bool) and column >= 0
        if not isinstance(column, str) and not is_position:
            raise SettingError(
                f"{setting_ref('columns', {role: column})}; expected the name of a column, or its "
                "position, counted from 0."
            )
    return dict(columns)

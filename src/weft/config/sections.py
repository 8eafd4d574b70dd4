"""The sections of a configuration that describe files and the engine, as typed models.

The descriptions are those of the JSON Schema and of the command-line options.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from weft._choices import POSITIONS, EngineName, FileFormat, IdType, choices
from weft.config.document import from_home, show
from weft.errors import check_choice, check_int, did_you_mean, hint_url, plain_text
from weft.evaluation import setting_rules
from weft.evaluation.setting_rules import checked, one_of

if TYPE_CHECKING:
    from weft.data.readers.files import File

REPORT_SUFFIXES = (".html", ".htm")
ENGINES = choices(EngineName)
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def read_bool(value: Any) -> Any:
    """Return the boolean that a YAML 1.1 word such as `yes` means; other values as they are."""
    return _BOOLEANS.get(value.casefold(), value) if isinstance(value, str) else value


def as_list(value: Any) -> list[Any]:
    """Return a list or tuple as a list, None as an empty list, and a value as a list of one."""
    if isinstance(value, (list, tuple)):
        return list(value)
    return [] if value is None else [value]


def expect(is_expected: Callable[[Any], bool], expected: str) -> BeforeValidator:
    """Return a validator that refuses other values; `expected` describes what is expected."""

    def validate(value: Any) -> Any:
        if not is_expected(value):
            raise ValueError(f"got {show(value)}, expected {expected}.")
        return value

    return BeforeValidator(validate)


def expect_mapping(expected: str) -> BeforeValidator:
    """Return a validator that refuses anything but a mapping."""
    return expect(lambda value: isinstance(value, Mapping), expected)


def is_text(value: Any) -> bool:
    """Return True for a text that is not blank."""
    return isinstance(value, str) and bool(value.strip())


def locate(value: Any, info: ValidationInfo, *, expected: str) -> Path:
    """Return a path that starts in the folder of the YAML file; a `Path` of an option as it is.

    `expected` describes the path. Raises `ValueError` for anything but a path.
    """
    if isinstance(value, Path):
        return value
    if not is_text(value):
        raise ValueError(f"got {show(value)}, expected {expected}.")
    folder: Path = (info.context or {}).get("folder", Path())
    return folder / from_home(value)


def column_roles() -> tuple[str, ...]:
    """Return the roles that a column can have."""
    from weft.data.readers.roles import ROLES

    return ROLES


def _role(value: Any) -> str:
    roles = column_roles()
    if value not in roles:
        hint = did_you_mean(str(value), roles)
        raise ValueError(f"unknown role {value!r}.{hint} Choose one of {', '.join(roles)}.")
    return str(value)


def _is_column(value: Any) -> bool:
    return isinstance(value, str) or (type(value) is int and value >= 0)


Bool = Annotated[setting_rules.Bool, BeforeValidator(read_bool)]
PositiveInt = Annotated[int, Field(ge=1), checked(check_int)]
Text = Annotated[str, expect(is_text, "a string")]
_Columns = Annotated[
    dict[
        Annotated[str, BeforeValidator(_role)],
        Annotated[str | int, expect(_is_column, "a column name, or its position from 0")],
    ],
    expect_mapping("a mapping of roles to columns, such as {user: visitor, item: sku}"),
]
_Separator = Annotated[
    str,
    AfterValidator(lambda text: text.replace("\\t", "\t")),  # YAML keeps it in single quotes
    expect(
        lambda value: isinstance(value, str) and value != "",
        "the text between two columns, such as ',' or '\\t'",
    ),
]


class Section(BaseModel):
    """A mapping of the configuration; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    expected: ClassVar[str] = ""  # what the section may be, if not only a mapping

    @model_validator(mode="before")
    @classmethod
    def _check_mapping(cls, value: Any) -> Any:
        if not isinstance(value, (Mapping, cls)):
            expected = cls.expected or f"a mapping with {', '.join(cls.model_fields)}"
            raise ValueError(f"got {show(value)}, expected {expected}.")
        return value


# --------------------------------------------------------------------------------------------------


class FileSettings(Section):
    """A file or a folder of part files, and how to read it. A path alone is also accepted.

    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "test.csv").write_text("user,item\\nann,a\\nbob,b\\n")
    >>> from weft.config import FileSettings
    >>> FileSettings(path=folder / "test.csv", ids="string").ids
    'string'
    """

    expected = "a path, or a mapping with path, format, separator, header, columns"
    path: Path = Field(
        description="Path of a file, a folder of part files, or a pattern such as recs/*.csv, "
        "relative to the folder of the YAML file."
    )
    format: Annotated[FileFormat, one_of(FileFormat)] | None = Field(
        default=None,
        description="Format of the file. Default: determined by the file name and the content.",
    )
    separator: _Separator | None = Field(
        default=None,
        description="Text between the columns of a text file: ',', '|' or another "
        "text, or one of the names tab, comma, semicolon, pipe and spaces. Default: detected.",
    )
    header: Bool | None = Field(
        default=None,
        description="Whether the first row of a text file contains the names of the columns. "
        "Default: detected.",
    )
    columns: _Columns = Field(
        default_factory=dict,
        description="Column of each role, by name or by position from 0, such as "
        "{user: visitor, item: sku}.",
    )
    ids: Annotated[IdType, one_of(IdType, is_required=True)] = Field(
        default="auto",
        description="Type of user and item ids: string, integer, or auto (the type in the file).",
    )
    ratings: Bool = Field(
        default=True,
        description="Whether ratings are read. Without them, every row of truth or train has the "
        "rating 1.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_path(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, (str, Path)) else value

    @field_validator("path", mode="before")
    @classmethod
    def _check_path(cls, value: Any, info: ValidationInfo) -> Path:
        path = locate(value, info, expected="the path of a file")
        context = info.context or {}
        if _exists(path):
            return path
        written = Path(value)
        if context.get("searches_current_folder") and _exists(written):
            return written
        hint = hint_url(written) or _hint_existing(path, written, context.get("folder", Path()))
        raise ValueError(f"there is no file or folder {str(path)!r}.{hint}")

    def file(self) -> File:
        """Return the file as the readers take it."""
        from weft.data.readers.files import File

        return File(self.path, self.format, self.separator, self.header, self.columns, self.ids)

    def plain(self) -> dict[str, Any] | str:
        """Return plain values that mean the same in a YAML file in any folder."""
        rest = self.model_dump(exclude={"path"}, exclude_defaults=True)
        path = plain_text(self.path.absolute())
        return {"path": path, **rest} if rest else path


def _exists(path: Path) -> bool:
    """Return True if there is a file, a folder, or a match of a pattern."""
    try:
        return path.exists() or (glob.has_magic(str(path)) and bool(glob.glob(str(path))))
    except PermissionError:
        return True  # the reader reports that it cannot be read
    except (OSError, ValueError):  # not a name that a file can have
        return False


def _hint_existing(path: Path, written: Path, folder: Path) -> str:
    """Return a hint to an existing file for a path that does not exist, else an empty text."""
    if not written.is_absolute() and _exists(written):
        return (
            " There is one in the current folder, but paths are relative to the folder of the YAML "
            f"file: write {os.path.relpath(written, folder)!r}, or an absolute path."
        )
    if os.path.isdir(path.parent) and os.access(path.parent, os.R_OK):
        return did_you_mean(path.name, sorted(os.listdir(path.parent))[:1000])
    return ""


class PositionsSetting(FileSettings):
    """`positions` in the place of a file: ids are row or column numbers of score matrices."""

    def file(self) -> Any:
        """Return the value of `users=` and `items=` for positions."""
        return POSITIONS

    def plain(self) -> str:
        """Return the value in a YAML file."""
        return POSITIONS


def _read_ids(value: Any) -> Any:
    """Return `PositionsSetting` for the word, else the value."""
    path = value.get("path") if isinstance(value, Mapping) else value
    return PositionsSetting.model_construct(path=Path(POSITIONS)) if path == POSITIONS else value


_Ids = Annotated[FileSettings, BeforeValidator(_read_ids)]


class DataFiles(Section):
    """The data on which all models are evaluated.

    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "test.csv").write_text("user,item\\nann,a\\nbob,b\\n")
    >>> from weft.config import DataFiles
    >>> list(DataFiles(truth=folder / "test.csv").files())
    ['truth']
    """

    truth: FileSettings = Field(
        description="Test interactions (ground truth), with columns for user, item and optionally "
        "rating."
    )
    train: FileSettings | None = Field(
        default=None,
        description="Train interactions, for masking and for metrics of popularity, novelty and "
        "bias.",
    )
    users: _Ids | None = Field(
        default=None,
        description="User ids of the rows of score matrices: a file with a column of user ids, or "
        "'positions' if the ids are row numbers.",
    )
    items: _Ids | None = Field(
        default=None,
        description="Item catalogue, which also gives the item ids of the columns of score "
        "matrices: a file with a column of item ids, or 'positions' if the ids are column "
        "numbers. Default: the items of train, truth and lists.",
    )
    user_groups: FileSettings | None = Field(
        default=None, description="Group of each user, with columns for user and label."
    )
    item_clusters: FileSettings | None = Field(
        default=None, description="Cluster of each item, with columns for item and label."
    )
    item_features: FileSettings | None = Field(
        default=None,
        description="Features of items, such as genres, with columns for item and "
        "feature and one row per feature.",
    )
    candidates: FileSettings | None = Field(
        default=None,
        description="Candidates of each user, with columns for user and item. Default: the "
        "setting candidates of the evaluation.",
    )
    inputs: Annotated[
        dict[str, FileSettings],
        expect_mapping("a mapping of inputs to files, such as {item_vectors: vectors.parquet}"),
    ] = Field(
        default_factory=dict,
        description="Other inputs of metrics, by name, such as "
        "{item_vectors: vectors.parquet, price: prices.csv}.",
    )

    def files(self) -> dict[str, FileSettings]:
        """Return the files that are given under keys of their own."""
        files = {name: getattr(self, name) for name in type(self).model_fields if name != "inputs"}
        return {name: file for name, file in files.items() if file is not None}

    def plain(self) -> dict[str, Any]:
        """Return plain values that mean the same in a YAML file in any folder."""
        plain: dict[str, Any] = {name: file.plain() for name, file in self.files().items()}
        inputs = {name: file.plain() for name, file in self.inputs.items()}
        return plain | ({"inputs": inputs} if inputs else {})


class EngineSettings(Section):
    """The engine that evaluates partitions of the users. Its name alone is also accepted.

    >>> from weft.config import EngineSettings
    >>> EngineSettings(name="ray", parts=4).parts
    4
    """

    expected = f"{' or '.join(ENGINES)}, or a mapping with name, address, parts"
    name: Annotated[
        EngineName, BeforeValidator(lambda value: check_choice("engine", value, ENGINES))
    ] = Field(description="Engine that evaluates partitions of the users: ray or spark.")
    address: Text | None = Field(
        default=None,
        description="Address of a running cluster, such as ray://head:10001 or spark://head:7077. "
        "Default: this machine.",
    )
    parts: PositiveInt | None = Field(
        default=None,
        description="Number of partitions of the users. Default: chosen by the engine.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        if isinstance(value, Mapping) and value.keys() <= {"address", "parts"}:
            raise ValueError(
                f"got {' and '.join(value)} without an engine; add its name (--engine), "
                f"{' or '.join(ENGINES)}."
            )
        return {"name": value} if isinstance(value, str) else value

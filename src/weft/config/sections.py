"""The sections of a configuration that describe files and the engine, as typed models.

The descriptions are those of the JSON Schema and of the command-line options.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from weft._choices import EngineName, FileFormat, IdType, choices
from weft.config.document import from_home, show
from weft.errors import check_bool, check_choice, check_int, did_you_mean

if TYPE_CHECKING:
    from weft.data.readers.files import File

REPORT_SUFFIXES = (".html", ".htm")
ENGINES = choices(EngineName)
_BOOLEANS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}


def checked(check: Callable[..., Any], **constraints: Any) -> BeforeValidator:
    """Return a validator that calls `check(field_name, value, **constraints)`."""

    def validate(value: Any, info: ValidationInfo) -> Any:
        return check(info.field_name, value, **constraints)

    return BeforeValidator(validate)


def read_bool(value: Any) -> Any:
    """Return the boolean that a YAML 1.1 word such as `yes` means; other values as they are."""
    return _BOOLEANS.get(value.casefold(), value) if isinstance(value, str) else value


def check_text(value: Any, *, expected: str = "a text") -> str:
    """Return a text that is not empty. Raises `ValueError` for anything else."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"got {show(value)}, expected {expected}.")
    return value


def as_list(value: Any) -> list[Any]:
    """Return a list or tuple as a list, None as an empty list, and a value as a list of one."""
    if isinstance(value, (list, tuple)):
        return list(value)
    return [] if value is None else [value]


def one_of(type_: Any, name: str | None = None) -> BeforeValidator:
    """Return a validator for the names of a `Literal` type, in any case.

    `name` is the setting in messages, by default the name of the field.
    """
    return BeforeValidator(
        lambda value, info: check_choice(name or str(info.field_name), value, choices(type_))
    )


def column_roles() -> tuple[str, ...]:
    """Return the roles that a column can have."""
    from weft.data.readers.role_assignment import ROLES

    return ROLES


def _role(value: Any) -> str:
    roles = column_roles()
    if value not in roles:
        hint = did_you_mean(str(value), roles)
        raise ValueError(f"there is no role {value!r}.{hint} Roles: {', '.join(roles)}.")
    return str(value)


def _column(value: Any) -> str | int:
    is_position = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if not is_position and not isinstance(value, str):
        raise ValueError(f"got {show(value)}, expected a column name, or its position from 0.")
    return value  # type: ignore[no-any-return]


def _columns(value: Any) -> Any:
    if not isinstance(value, Mapping):
        raise ValueError(
            f"got {show(value)}, expected a mapping of roles to columns, such as "
            "{user: visitor, item: sku}."
        )
    return value


def _separator(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(
            f"got {show(value)}, expected the text between columns, such as ',' or '\\t'."
        )
    return value.replace("\\t", "\t")  # in single quotes YAML keeps the backslash


Bool = Annotated[bool, checked(check_bool), BeforeValidator(read_bool)]
PositiveInt = Annotated[int, Field(ge=1), checked(check_int)]
Text = Annotated[str, BeforeValidator(check_text)]
_Role = Annotated[str, BeforeValidator(_role)]
_Column = Annotated[str | int, BeforeValidator(_column)]


class Section(BaseModel):
    """A mapping of the configuration; unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _check_mapping(cls, value: Any) -> Any:
        if not isinstance(value, (Mapping, cls)):
            raise ValueError(f"got {show(value)}, expected {cls.expected()}.")
        return value

    @classmethod
    def expected(cls) -> str:
        """Return what the section may be, for messages."""
        return f"a mapping with {', '.join(cls.model_fields)}"


# --------------------------------------------------------------------------------------------------


class FileSettings(Section):
    """A file or a folder of part files, and how to read it. A path is enough."""

    path: Path = Field(
        description="A file, a folder of part files, or a pattern such as recs/*.csv; relative to "
        "the folder of the YAML file."
    )
    format: Annotated[FileFormat, one_of(FileFormat)] | None = Field(
        default=None, description="The file format, if the file name does not show it."
    )
    separator: Annotated[str, BeforeValidator(_separator)] | None = Field(
        default=None, description="The text between the columns of a text file, such as ','."
    )
    header: Bool | None = Field(
        default=None,
        description="Whether the first row of a text file names the columns. Default: detected.",
    )
    columns: Annotated[dict[_Role, _Column], BeforeValidator(_columns)] = Field(
        default_factory=dict,
        description="The column of each role, by name or by position from 0: {user: visitor, item: "
        "sku}.",
    )
    ids: Annotated[IdType, one_of(IdType)] = Field(
        default="auto", description="Type of the ids: string, integer, or auto (as written)."
    )
    ratings: Bool = Field(
        default=True,
        description="Whether ratings are read; without them every row of truth or train counts 1.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_path(cls, value: Any) -> Any:
        return {"path": value} if isinstance(value, (str, Path)) else value

    @classmethod
    def expected(cls) -> str:
        """Return what the section may be, for messages."""
        return "a path, or a mapping with path, format, separator, header, columns"

    @field_validator("path", mode="before")
    @classmethod
    def _locate(cls, value: Any, info: ValidationInfo) -> Path:
        if isinstance(value, Path):  # of an option: relative to the current folder
            return _existing(value, None)
        text = check_text(value, expected="the path of a file")
        context = info.context or {}
        folder: Path = context.get("folder", Path())
        path = folder / from_home(text)
        if not _exists(path) and context.get("searches_current_folder") and _exists(Path(text)):
            return Path(text)
        return _existing(path, Path(text) if folder != Path() else None)

    def file(self) -> File:
        """Return the file as the readers take it."""
        from weft.data.readers.files import File

        return File(self.path, self.format, self.separator, self.header, self.columns, self.ids)

    def plain(self) -> dict[str, Any] | str:
        """Return plain values that mean the same in a YAML file in any folder."""
        rest = self.model_dump(exclude={"path"}, exclude_defaults=True)
        path = str(self.path.absolute())
        return {"path": path, **rest} if rest else path


def _exists(path: Path) -> bool:
    """Return True if there is a file, a folder, or a match of a pattern."""
    try:
        return path.exists() or (glob.has_magic(str(path)) and bool(glob.glob(str(path))))
    except PermissionError:
        return True  # the reader reports that it cannot be read
    except (OSError, ValueError):  # not a name that a file can have
        return False


def _existing(path: Path, relative: Path | None) -> Path:
    """Return the path if it exists, else raise `ValueError`.

    `relative` is the path as written, relative to the folder of the YAML file.
    """
    if _exists(path):
        return path
    hint = ""
    if relative is not None and not relative.is_absolute() and _exists(relative):
        base = path.parents[len(relative.parts) - 1]
        hint = (
            " There is one in the current folder, but paths are relative to the folder of the YAML "
            f"file: write {os.path.relpath(relative, base)!r}, or an absolute path."
        )
    elif os.path.isdir(path.parent) and os.access(path.parent, os.R_OK):
        hint = did_you_mean(path.name, sorted(os.listdir(path.parent))[:1000])
    raise ValueError(f"there is no file or folder {str(path)!r}.{hint}")


class DataFiles(Section):
    """The data on which all models are evaluated."""

    truth: FileSettings = Field(
        description="Test interactions (ground truth): user, item, and optionally a rating."
    )
    train: FileSettings | None = Field(
        default=None,
        description="Train interactions: for masking, popularity, novelty and train bias.",
    )
    items: FileSettings | None = Field(
        default=None,
        description="Item catalogue: a column of item ids. Default: the items of train, truth and "
        "lists.",
    )
    user_groups: FileSettings | None = Field(
        default=None, description="A label per user: user, label."
    )
    item_clusters: FileSettings | None = Field(
        default=None, description="A label per item: item, label."
    )
    item_features: FileSettings | None = Field(
        default=None, description="Features of items: item, feature; one row per feature."
    )
    candidates: FileSettings | None = Field(
        default=None,
        description="The candidates of each user: user, item. Default: evaluation.candidates.",
    )

    def files(self) -> dict[str, FileSettings]:
        """Return the files that are given, by input."""
        files = {name: getattr(self, name) for name in type(self).model_fields}
        return {name: file for name, file in files.items() if file is not None}


class EngineSettings(Section):
    """The engine that evaluates partitions of the users. Its name is enough."""

    name: Annotated[EngineName, one_of(EngineName, "engine")] = Field(
        description="Evaluate partitions of the users on Ray or Spark."
    )
    address: Text | None = Field(
        default=None,
        description="Address of a running cluster, such as ray://head:10001 or spark://head:7077. "
        "Default: this machine.",
    )
    parts: PositiveInt | None = Field(
        default=None, description="Number of partitions of the users."
    )

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        if (
            isinstance(value, Mapping)
            and "name" not in value
            and value.keys() <= cls.model_fields.keys()
        ):
            raise ValueError(
                f"no engine is named, but its {' and '.join(value)}; add the name (--engine), "
                f"{' or '.join(ENGINES)}."
            )
        return {"name": value} if isinstance(value, str) else value

    @classmethod
    def expected(cls) -> str:
        """Return what the section may be, for messages."""
        return f"{' or '.join(ENGINES)}, or a mapping with {', '.join(cls.model_fields)}"

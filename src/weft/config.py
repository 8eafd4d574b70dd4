"""What to evaluate, on which data, as typed models: from a YAML file, or from the flags of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from weft.data.files import File
from weft.errors import SettingError


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class FileSettings(_Section):
    """A file and how to read it; a path alone will do."""

    path: Path
    format: str | None = None
    separator: str | None = None
    header: bool | None = None
    columns: dict[str, str | int] = {}
    ids: str = "auto"

    def file(self) -> File:
        """What the readers understand."""
        return File(self.path, self.format, self.separator, self.header, self.columns)


class Data(_Section):
    """What all models are evaluated on."""

    truth: FileSettings
    train: FileSettings | None = None
    items: FileSettings | None = None
    user_groups: FileSettings | None = None
    item_clusters: FileSettings | None = None
    item_features: FileSettings | None = None


class Evaluation(_Section):
    """How they are evaluated: the keyword arguments of `weft.evaluate`."""

    metrics: list[str] = []
    top_k: list[int] = []
    relevance_threshold: float | None = None
    mask_seen: bool | str = "auto"
    ties: str | None = None
    seed: int = 0
    save_per_user: bool = False
    empty_users: str | None = None
    missing_lists: str | None = None
    profile: str | None = None
    duplicates: str = "error"
    batch_size: int | None = None
    device: str | None = None
    gates: list[str] = []


class Configuration(_Section):
    """A whole run."""

    data: Data
    models: dict[str, FileSettings]
    evaluation: Evaluation = Field(default_factory=Evaluation)

    @field_validator("models")
    @classmethod
    def _some(cls, models: dict[str, FileSettings]) -> dict[str, FileSettings]:
        if not models:
            raise ValueError("there is no model to evaluate")
        return models


def load(path: str | Path, overrides: Mapping[str, Any] | None = None) -> Configuration:
    """Read a YAML file. Paths in it are relative to its folder.

    `overrides` has the same sections and wins over the file: `evaluation` and `data` key by key, `models` as a whole.
    """
    from ruamel.yaml import YAML

    path = Path(path)
    try:
        given = YAML(typ="safe").load(path)
    except OSError as error:
        raise SettingError(f"{path}: cannot be read ({error.strerror}); expected a YAML file.") from None
    for section, values in (overrides or {}).items():
        given[section] = values if section == "models" else {**given.get(section, {}), **values}
    return from_mapping(given, folder=path.parent)


def schema() -> dict[str, Any]:
    """The JSON Schema of configuration files."""
    return Configuration.model_json_schema()


def from_mapping(given: dict[str, Any], *, folder: Path = Path()) -> Configuration:
    """A configuration from plain values; `folder` is where relative paths start."""
    from pydantic import ValidationError

    try:
        return Configuration.model_validate(given, context={"folder": folder})
    except ValidationError as error:
        raise SettingError(str(error)) from None

"""`Configuration`: the data, the models and the settings of a run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import Field, PrivateAttr, ValidationInfo, field_validator

from weft.config.document import Document, from_home, show
from weft.config.evaluation_section import EvaluationSection
from weft.config.sections import (
    REPORT_SUFFIXES,
    DataFiles,
    EngineSettings,
    FileSettings,
    Section,
    check_text,
)


class Configuration(Section):
    """A run: data, models, and the settings of their evaluation."""

    evaluation: EvaluationSection = Field(
        default_factory=EvaluationSection,
        description="The settings of the evaluation: metrics, cut-offs, sampling, slices.",
    )
    data: DataFiles | None = Field(
        default=None, description="The data on which all models are evaluated."
    )
    models: dict[str, FileSettings] = Field(
        default_factory=dict,
        description="Recommendation lists of each model: {als: als.parquet, pop: pop.csv}.",
    )
    output: Path | None = Field(
        default=None,
        description="The folder for the results; relative to the folder of the YAML file.",
    )
    report: Path | None = Field(
        default=None,
        description="The file for the report, an HTML page; relative to the folder of the YAML "
        "file.",
    )
    engine: EngineSettings | None = Field(
        default=None,
        description="Ray or Spark, to evaluate partitions of the users; does not change results. "
        "'none': this process.",
    )
    _document: Document = PrivateAttr(default_factory=lambda: Document({}))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Keys that have no meaning here, and replacements of values."""
        return self._document.warnings

    @property
    def document(self) -> Document:
        """The values as written, with their positions in the file."""
        return self._document

    @field_validator("models", mode="before")
    @classmethod
    def _check_models(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise ValueError(
                f"got {show(value)}, expected a name and a file for each model, such as "
                "{als: als.parquet}."
            )
        return value

    @field_validator("engine", mode="before")
    @classmethod
    def _read_none(cls, value: Any) -> Any:
        name = value["name"] if isinstance(value, Mapping) and value.keys() == {"name"} else value
        return None if isinstance(name, str) and name.casefold() == "none" else value

    @field_validator("output", mode="before")
    @classmethod
    def _locate_output(cls, value: Any, info: ValidationInfo) -> Path:
        return _absolute(value, info, expected="the path of a folder")

    @field_validator("report", mode="before")
    @classmethod
    def _locate_report(cls, value: Any, info: ValidationInfo) -> Path:
        expected = f"the path of a file that ends in {' or '.join(REPORT_SUFFIXES)}"
        path = _absolute(value, info, expected=expected)
        if path.suffix.lower() not in REPORT_SUFFIXES:
            raise ValueError(f"got {show(str(value))}, expected {expected}.")
        return path

    def plain(self, *models: str) -> dict[str, Any]:
        """Return plain JSON values from which `from_mapping` builds this configuration again.

        `models` are the models to keep; all if none is given.
        """
        evaluation = self.evaluation.model_dump(mode="json", exclude_defaults=True)
        for key, name in EvaluationSection.keys().items():
            if name in evaluation and key != name:
                evaluation[key] = evaluation.pop(name)
        if self.evaluation.slices:
            evaluation["slices"] = {
                name: slice_.plain() for name, slice_ in self.evaluation.slices.items()
            }
        plain: dict[str, Any] = {"evaluation": evaluation}
        if self.data is not None:
            plain["data"] = {name: file.plain() for name, file in self.data.files().items()}
        chosen = models or tuple(self.models)
        return plain | {"models": {name: self.models[name].plain() for name in chosen}}


def _absolute(value: Any, info: ValidationInfo, *, expected: str) -> Path:
    """Return a path of the file relative to the file's folder; a `Path` as it is."""
    if isinstance(value, Path):
        return value
    folder: Path = (info.context or {}).get("folder", Path())
    return folder / from_home(check_text(value, expected=expected))

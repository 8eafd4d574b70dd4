"""`Configuration`: data, models and settings of a run, from YAML files, mappings and options."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, get_args

from pydantic import Field, PrivateAttr, ValidationError, ValidationInfo, field_validator

from weft.config.custom_modules import import_custom_modules
from weft.config.document import Document, Keys, SettingStyle, show
from weft.config.evaluation_section import EvaluationSection
from weft.config.overrides import copy_values, drop_none, override
from weft.config.sections import (
    REPORT_SUFFIXES,
    DataFiles,
    EngineSettings,
    FileSettings,
    Section,
    expect_mapping,
    locate,
)
from weft.config.validation import check
from weft.config.warprec import is_warprec, translate
from weft.config.yaml_reader import read_yaml
from weft.errors import SettingError, WeftError, did_you_mean, setting_ref

# Keys that other tools use for the same thing.
_SYNONYMS = {
    "test": "truth",
    "ground_truth": "truth",
    "recs": "models",
    "recommendations": "models",
    "file": "path",
    "sep": "separator",
    "delimiter": "separator",
    "k": "top_k",
    "cutoffs": "top_k",
    "out": "output",
}


class Configuration(Section):
    """A run: data, models, and the settings of their evaluation.

    >>> import weft.config
    >>> configuration = weft.config.from_mapping({"evaluation": {"metrics": "nDCG@10"}})
    >>> configuration.evaluation.metrics, configuration.models
    (('nDCG@10',), {})
    """

    evaluation: EvaluationSection = Field(
        default_factory=EvaluationSection,
        description="Settings of the evaluation, such as metrics, cut-offs, sampling and slices.",
    )
    data: DataFiles | None = Field(
        default=None, description="Files with the data on which all models are evaluated."
    )
    models: Annotated[
        dict[str, FileSettings],
        expect_mapping("a name and a file for each model, such as {als: als.parquet}"),
    ] = Field(
        default_factory=dict,
        description="File with the recommendation lists or scores of each model, by name, such as "
        "{als: als.parquet, pop: pop.csv}.",
    )
    output: Path | None = Field(
        default=None,
        description="Folder for the results, relative to the folder of the YAML file. Default: "
        "results are printed, but not written.",
    )
    report: Path | None = Field(
        default=None,
        description="HTML file for the report, relative to the folder of the YAML file. Default: "
        "no report.",
    )
    report_title: str | None = Field(
        default=None, description="Title of the report. Default: the names of the models."
    )
    gate_summary: Path | None = Field(
        default=None,
        description="Markdown file for a summary of the gates, relative to the folder of the YAML "
        "file. Default: no summary.",
    )
    junit: Path | None = Field(
        default=None,
        description="JUnit XML file for the outcomes of the gates, relative to the folder of the "
        "YAML file. Default: none.",
    )
    engine: EngineSettings | None = Field(
        default=None,
        description="Engine that evaluates partitions of the users: ray, spark, or none for this "
        "process. It does not change results. Default: none.",
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

    @field_validator("engine", mode="before")
    @classmethod
    def _read_none(cls, value: Any) -> Any:
        name = value["name"] if isinstance(value, Mapping) and value.keys() == {"name"} else value
        return None if isinstance(name, str) and name.casefold() == "none" else value

    @field_validator("output", mode="before")
    @classmethod
    def _locate_output(cls, value: Any, info: ValidationInfo) -> Path:
        return locate(value, info, expected="the path of a folder")

    @field_validator("gate_summary", "junit", mode="before")
    @classmethod
    def _locate_file(cls, value: Any, info: ValidationInfo) -> Path:
        return locate(value, info, expected="the path of a file")

    @field_validator("report", mode="before")
    @classmethod
    def _locate_report(cls, value: Any, info: ValidationInfo) -> Path:
        expected = f"the path of a file that ends in {' or '.join(REPORT_SUFFIXES)}"
        path = locate(value, info, expected=expected)
        if path.suffix.lower() not in REPORT_SUFFIXES:
            raise ValueError(f"got {show(str(value))}, expected {expected}.")
        return path

    def plain(self, *models: str) -> dict[str, Any]:
        """Return plain JSON values from which `from_mapping` builds this configuration again.

        `models` are the models to keep; all if none is given. A checkpoint is left out.
        """
        evaluation = self.evaluation.model_dump(
            mode="json", exclude_defaults=True, exclude={"checkpoint"}
        )
        for key, name in EvaluationSection.keys().items():
            if name in evaluation and key != name:
                evaluation[key] = evaluation.pop(name)
        evaluation |= self.evaluation.plain_slices()
        plain: dict[str, Any] = {"evaluation": evaluation}
        if self.data is not None:
            plain["data"] = self.data.plain()
        chosen = models or tuple(self.models)
        return plain | {"models": {name: self.models[name].plain() for name in chosen}}


def load(
    path: str | Path,
    overrides: Mapping[str, Any] | None = None,
    *,
    style: SettingStyle | None = None,
) -> Configuration:
    """Read a configuration from a YAML file.

    Parameters
    ----------
    path
        YAML file. Paths in it are relative to its folder.
    overrides
        Values that replace those of the file, by section: `evaluation`, `data` and `engine` key by
        key, all other sections as a whole. New `metrics` also replace `complex_metrics`. Paths in
        it are relative to the current folder.
    style
        Function that spells overridden settings in messages, as in `WeftError.render`.

    Returns
    -------
    Configuration
        The validated configuration.

    Raises
    ------
    SettingError
        If the file is not valid; the message lists all mistakes.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "test.csv").write_text("user,item\\nann,a\\nbob,b\\n")
    >>> _ = (folder / "als.csv").write_text("user,item,rank\\nann,a,1\\nbob,c,1\\n")
    >>> import weft, weft.config
    >>> _ = (folder / "run.yaml").write_text(
    ...     "{data: {truth: test.csv}, models: {als: als.csv}, "
    ...     "evaluation: {metrics: HitRate, top_k: 1}}"
    ... )
    >>> configuration = weft.config.load(folder / "run.yaml", {"evaluation": {"seed": 7}})
    >>> list(configuration.models), configuration.evaluation.seed
    (['als'], 7)
    """
    document = read_yaml(path)
    document.override_style = style
    override(document, overrides or {})
    return _build(document, Path(path).parent)


def from_mapping(
    values: Mapping[str, Any], *, folder: Path = Path(), style: SettingStyle | None = None
) -> Configuration:
    """Build a configuration from plain values.

    Parameters
    ----------
    values
        Sections of the configuration, as in a YAML file.
    folder
        Folder to which paths are relative. Default: the current folder.
    style
        Function that spells settings in messages, as in `WeftError.render`.

    Returns
    -------
    Configuration
        The validated configuration.

    Raises
    ------
    SettingError
        If values are not valid; the message lists all mistakes.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "test.csv").write_text("user,item\\nann,a\\nbob,b\\n")
    >>> _ = (folder / "als.csv").write_text("user,item,rank\\nann,a,1\\nbob,c,1\\n")
    >>> import weft, weft.config
    >>> configuration = weft.config.from_mapping(
    ...     {"data": {"truth": "test.csv"}, "models": {"als": "als.csv"},
    ...      "evaluation": {"metrics": "HitRate@1"}},
    ...     folder=folder,
    ... )
    >>> list(configuration.models), configuration.evaluation.metrics
    (['als'], ('HitRate@1',))
    """
    if not isinstance(values, Mapping):
        raise SettingError(
            f"got {values!r}; expected a mapping with the keys "
            f"{', '.join(Configuration.model_fields)}."
        )
    return _build(Document(copy_values(values), override_style=style), folder)


def load_evaluation(path: str | Path) -> EvaluationSection:
    """Read the section `evaluation` of a YAML file.

    `settings()` of the section returns keyword arguments of `weft.evaluate`. Data and models of the
    file are ignored, so that models with scores can be evaluated with its settings.

    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "test.csv").write_text("user,item\\nann,a\\nbob,b\\n")
    >>> _ = (folder / "als.csv").write_text("user,item,rank\\nann,a,1\\nbob,c,1\\n")
    >>> import weft, weft.config
    >>> _ = (folder / "run.yaml").write_text(
    ...     "{data: {truth: test.csv}, models: {als: als.csv}, "
    ...     "evaluation: {metrics: HitRate, top_k: 1}}"
    ... )
    >>> weft.config.load_evaluation(folder / "run.yaml").top_k
    (1,)
    """
    document = read_yaml(path)
    document.values = {"evaluation": document.values.get("evaluation")}
    if document.values["evaluation"] is None:
        raise SettingError(f"{path}: the section 'evaluation:' is missing; add it with 'metrics:'.")
    return _build(document, Path(path).parent).evaluation


# --------------------------------------------------------------------------------------------------


def _build(document: Document, folder: Path) -> Configuration:
    """Validate the document. Raises one `SettingError` with all its mistakes."""
    # Keys that start with x- hold anchors.
    values = {key: value for key, value in document.values.items() if not key.startswith("x-")}
    document.values = drop_none(values)
    from_warprec = is_warprec(document.values)
    if from_warprec:
        translate(document)
    _rename_keys(document)
    import_custom_modules(document, folder)
    configuration = _validate(document, folder, from_warprec=from_warprec)
    evaluation = None if configuration is None else configuration.evaluation
    check(document, evaluation, drops_unsupported=from_warprec)
    document.raise_problems()
    if from_warprec:  # unsupported metrics may have been dropped
        configuration = _validate(document, folder, from_warprec=from_warprec)
        document.raise_problems()
    assert configuration is not None
    _warn_of_equal_files(document, configuration)
    configuration._document = document
    return configuration


def _warn_of_equal_files(document: Document, configuration: Configuration) -> None:
    """Add a warning for lists and train interactions that are the file of the truth."""
    if configuration.data is None:
        return
    data = configuration.data
    files: dict[Keys, FileSettings | None] = {
        ("models", name): file for name, file in configuration.models.items()
    }
    for keys, file in (files | {("data", "train"): data.train}).items():
        if file is not None and file == data.truth:
            truth = setting_ref("truth")
            document.add_warning(keys, f"is the same file as {truth}; give two different files.")


def _rename_keys(document: Document) -> None:
    """Rename keys of `evaluation` to the names of their settings: `save_per_user`."""
    evaluation = document.values.get("evaluation")
    if not isinstance(evaluation, dict):
        return
    keys = EvaluationSection.keys()
    for key, name in keys.items():
        if key == name or key not in evaluation:
            continue
        if name in evaluation:
            document.add_problem(
                ("evaluation", name),
                f"is an alias of {key}, which is also given; remove one of them.",
                at_key=True,
            )
        evaluation[name] = evaluation.pop(key)
        document.moved[("evaluation", name)] = ("evaluation", key)
    for name in evaluation.keys() & EvaluationSection.model_fields.keys() - set(keys.values()):
        document.add_problem(("evaluation", name), _unknown_key(name, list(keys)), at_key=True)
        del evaluation[name]


def _validate(document: Document, folder: Path, *, from_warprec: bool) -> Configuration | None:
    """Return the configuration, or None after adding its problems to the document."""
    context = {"folder": folder, "searches_current_folder": from_warprec}
    try:
        return Configuration.model_validate(document.values, context=context)
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            _add_problem(document, problem)
        return None


def _add_problem(document: Document, problem: Any) -> None:
    """Add an error of pydantic to the problems of the document."""
    keys: Keys = tuple(problem["loc"])
    cause = problem.get("ctx", {}).get("error")
    if keys and keys[-1] == "[key]":  # a key of a mapping with the user's own keys
        document.add_problem(keys[:-1], str(cause), at_key=True)
    elif problem["type"] == "extra_forbidden":
        message = _unknown_key(str(keys[-1]), _known_keys(keys[:-1]))
        document.add_problem(keys, message, at_key=True)
    elif problem["type"] == "missing":
        document.add_problem(keys[:-1], f"the key {str(keys[-1])!r} is missing; add it.")
    elif isinstance(cause, WeftError):
        document.add_problem(_element_of(keys, problem["input"]), cause.message)
    elif cause is not None:
        document.add_problem(keys, str(cause))
    else:
        document.add_problem(keys, f"got {problem['input']!r}: {problem['msg']}.")


def _element_of(keys: Keys, value: Any) -> Keys:
    """Return the keys of the first element that its setting refuses, if the value is a list."""
    if len(keys) == 2 and keys[0] == "evaluation" and isinstance(value, list):
        for index, element in enumerate(value):
            try:
                EvaluationSection.from_options(**{str(keys[1]): [element]})
            except SettingError:
                return (*keys, index)
    return keys


def _unknown_key(key: str, known: list[str]) -> str:
    """Return the message for a key that no section has."""
    hint, evaluation_keys = did_you_mean(key, known), EvaluationSection.keys()
    if _SYNONYMS.get(key) in known:
        hint = f" Did you mean {_SYNONYMS[key]!r}?"
    elif "evaluation" in known and key in evaluation_keys:
        hint = " It belongs to the section 'evaluation:'."
    return f"unknown key {key!r}.{hint} Allowed keys: {', '.join(known)}."


def _known_keys(keys: Keys) -> list[str]:
    """Return the keys of the section at these keys."""
    kind: Any = Configuration
    for key in keys:
        is_section = hasattr(kind, "model_fields")
        kind = kind.model_fields[key].annotation if is_section else get_args(kind)[-1]
        if type(None) in get_args(kind):  # of an optional section
            kind = get_args(kind)[0]
    return list(EvaluationSection.keys() if kind is EvaluationSection else kind.model_fields)

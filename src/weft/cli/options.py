"""The options of commands, generated from the models that define the settings.

Options of an evaluation come from `EvaluationSettings`; files, the reading of files and the engine
from the models of a configuration. Only the options of the output are declared here. Importing this
module does not load torch.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import typer
from pydantic import BaseModel

from weft._choices import TrackerName, choices
from weft._input_kinds import BUILT_IN_INPUTS, NAMED_INPUTS
from weft.config.sections import ENGINES, DataFiles, EngineSettings, FileSettings
from weft.evaluation.setting_rules import EXECUTION, INPUT, METRICS, OUTPUT, SettingField
from weft.evaluation.settings import EvaluationSettings

Command = TypeVar("Command", bound=Callable[..., None])

RESULT_FORMATS = ("table", "json", "csv", "markdown", "latex", "html", "typst")

FILE_FORMATS = "File formats"
GATES = "Gates"
OutputOption = partial(typer.Option, rich_help_panel=OUTPUT)
_METAVARS = {int: "INTEGER", float: "FLOAT", str: "TEXT", list[str]: "TEXT"}
# The last sentence of descriptions of settings that are None by default, but have a default.
_DEFAULT = re.compile(r" Default: (.+)\.$")


def complete_words(*words: str) -> Callable[[str], list[str]]:
    """Return a completion function that offers these words."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def metric_names() -> list[str]:
    """Return the built-in metrics, read from their source files: importing them takes seconds."""
    folder = Path(__file__).parents[1] / "metrics"
    definition = re.compile(r"^@register\nclass (\w+)", re.MULTILINE)
    sources = (file.read_text(encoding="utf-8") for file in folder.rglob("*.py"))
    return sorted(name for source in sources for name in definition.findall(source))


def complete_metrics(incomplete: str) -> list[str]:
    """Complete the last of several metrics between commas."""
    before, comma, last = incomplete.rpartition(",")
    names = (name for name in metric_names() if name.casefold().startswith(last.casefold()))
    return [before + comma + name for name in names]


# --------------------------------------------------------------------------------------------------


def declare(
    name: str, annotation: Any, *flags: str, default: Any = None, **option: Any
) -> inspect.Parameter:
    """Return the parameter of a command; `option` are the arguments of `typer.Option`.

    The default is shown in place of a last sentence "Default: ..." of the help text.
    """
    shown: bool | str = default is not None and default is not False
    if stated := _DEFAULT.search(option["help"]):
        option["help"], shown = option["help"][: stated.start()], stated[1]
    kind = next((kind for kind in _METAVARS if annotation in (kind, kind | None)), None)
    option = {"show_default": shown, **option}
    if option.get("metavar") is None and kind is not None:
        option["metavar"] = _METAVARS[kind]
    info = typer.Option(*flags, **option)
    annotated = Annotated[annotation, info]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotated
    )


def declare_choice(
    name: str, choices: tuple[str, ...], *, about: str, **option: Any
) -> inspect.Parameter:
    """Return a text parameter with these choices, which are checked where it is used."""
    return declare(
        name,
        str if option.get("default") else str | None,
        **{"metavar": "CHOICE", **option},
        help=_describe(about, choices),
        autocompletion=complete_words(*choices),
    )


def add_options(*parameters: inspect.Parameter) -> Callable[[Command], Command]:
    """Return a decorator that puts these parameters in the place of a command's `**options`."""

    def decorate(command: Command) -> Command:
        signature = inspect.signature(command, eval_str=True)
        own = [one for one in signature.parameters.values() if one.kind is not one.VAR_KEYWORD]
        positional = [one for one in own if one.kind is not one.KEYWORD_ONLY]
        keyword = [one for one in own if one.kind is one.KEYWORD_ONLY]
        command.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*positional, *parameters, *keyword]
        )
        return command

    return decorate


# --------------------------------------------------------------------------------------------------


def settings_options(*names: str) -> list[inspect.Parameter]:
    """Return the options of an evaluation that the command line offers: all, or these."""
    return [
        _from_setting(field)
        for field in EvaluationSettings.fields()
        if field.option.flag is not None and (not names or field.name in names)
    ]


def _from_setting(field: SettingField) -> inspect.Parameter:
    option = field.option
    assert option.flag is not None
    kind = _flag_type(field.annotation, is_switch="/" in option.flag)
    about = _describe(
        field.description, field.choices, default=field.default, is_repeatable=kind == list[str]
    )
    # Candidates that are given come from a file.
    words = [choice for choice in field.choices if choice != "given"]
    complete = complete_words(*words) if words else None
    return declare(
        field.name,
        kind | None,
        option.flag,
        *([option.short_flag] if option.short_flag else []),
        help=about,
        metavar=option.metavar or ("CHOICE" if words and kind is not bool else None),
        autocompletion=complete_metrics if field.name == "metrics" else complete,
        rich_help_panel=option.panel,
    )


def _describe(
    description: str, words: Sequence[str], *, default: Any = None, is_repeatable: bool = False
) -> str:
    """Return the help text of an option, which names all its choices; its default comes last."""
    if default not in (None, ()) and default is not False:
        description += f" Default: {default}."
    stated = _DEFAULT.search(description)
    text = description[: stated.start()] if stated else description
    if not all(word in text for word in words):
        text += f" Choices: {', '.join(words)}."
    if is_repeatable:
        text += " May be repeated."
    return text + (stated[0] if stated else "")


def _flag_type(annotation: Any, *, is_switch: bool) -> Any:
    """Return the type that typer reads: a number, a switch, several texts or one text."""
    kinds = set(_plain_types(annotation))
    if is_switch or kinds == {bool}:
        return bool
    if kinds & {tuple, dict, list}:
        return list[str]
    return next((kind for kind in (float, int) if kind in kinds), str)


def _plain_types(annotation: Any) -> Iterable[Any]:
    """Yield the types that a union names, without None and without type parameters."""
    origin = get_origin(annotation)
    if origin is Annotated:
        yield from _plain_types(get_args(annotation)[0])
    elif origin in (Union, types.UnionType):
        for part in get_args(annotation):
            yield from _plain_types(part)
    elif annotation is not type(None):
        yield origin or annotation


# --------------------------------------------------------------------------------------------------


def from_model(model: type[BaseModel], name: str, *flags: str, **option: Any) -> inspect.Parameter:
    """Return the option of a model's field, with its description."""
    field = model.model_fields[name]
    words = choices(field.annotation)
    kind = _flag_type(field.annotation, is_switch=False)
    about = (field.description or "") + (" Required." if field.is_required() else "")
    is_default_of_field = "default" not in option and not field.is_required()
    return declare(
        name,
        kind if "default" in option else kind | None,
        *flags,
        **{"metavar": "CHOICE" if words else None, **option},
        help=_describe(about, words, default=field.default if is_default_of_field else None),
        autocompletion=complete_words(*words) if words else None,
    )


def with_default(model: type[BaseModel], name: str, **option: Any) -> inspect.Parameter:
    """Return the option of a model's field, with the default of the field."""
    return from_model(model, name, default=model.model_fields[name].default, **option)


_reading_option = partial(from_model, FileSettings, rich_help_panel=FILE_FORMATS)
_engine_option = partial(from_model, EngineSettings, rich_help_panel=EXECUTION)
FILE_OPTIONS = [
    declare(
        "models",
        list[str] | None,
        "--recs",
        metavar="[NAME=]PATH",
        help="File with the recommendation lists of a model, or with its scores or factors (.npy, "
        ".npz, .pt, .safetensors). The name of the model defaults to the name of the file. May be "
        "repeated.",
        rich_help_panel=INPUT,
    ),
    *(
        declare(name, Path | None, metavar="PATH", help=field.description, rich_help_panel=INPUT)
        for name, field in DataFiles.model_fields.items()
        # --candidates takes a pool or a file, --input a name and a file.
        if name not in ("candidates", "inputs")
    ),
    declare(
        "inputs",
        list[str] | None,
        "--input",
        metavar="NAME=PATH",
        help="File with another input of metrics, such as item_vectors=vectors.parquet. May be "
        "repeated.",
        autocompletion=complete_words(
            *(f"{name}=" for name in BUILT_IN_INPUTS if name not in NAMED_INPUTS)
        ),
        rich_help_panel=INPUT,
    ),
]
READING_OPTIONS = [
    _reading_option("separator", metavar="TEXT"),
    _reading_option("header", "--header/--no-header"),
    _reading_option("ids"),
    declare(
        "columns",
        list[str] | None,
        "--column",
        metavar="[FILE.]ROLE=NAME",
        help="Name or position of the column with a role, such as user=visitor, truth.item=sku for "
        "one file, or user=0 for the first column. May be repeated.",
        rich_help_panel=FILE_FORMATS,
    ),
]
CUSTOM_MODULES = declare(
    "custom_modules",
    list[str] | None,
    "--custom-modules",
    metavar="MODULE",
    help="Python module or .py file that registers metrics. May be repeated.",
    rich_help_panel=METRICS,
)
ENGINE_OPTIONS = [
    declare_choice(
        "engine",
        (*ENGINES, "none"),
        about="Engine that evaluates partitions of the users: ray, spark, or none for this "
        "process. Default: none.",
        rich_help_panel=EXECUTION,
    ),
    _engine_option("address", metavar="URL"),
    _engine_option("parts"),
]

# --------------------------------------------------------------------------------------------------

ConfigPath = Annotated[
    Path | None,
    typer.Argument(
        metavar="CONFIG.yaml",
        help="Configuration file. Options override its values.",
        show_default=False,
    ),
]
ResultFolder = Annotated[
    Path | None,
    OutputOption(
        metavar="DIR",
        help="Folder for the results: NAME.json for each model, and summary.csv.",
        show_default=False,
    ),
]
ReportPath = Annotated[
    Path | None,
    OutputOption(
        metavar="FILE",
        help="HTML file for a report with tables, charts and notes.",
        show_default=False,
    ),
]
ResultFormat = Annotated[
    str,
    OutputOption(
        "--format",
        "-f",
        metavar="CHOICE",
        help="Output format: table, json, csv, markdown, latex, html or typst. With any format but "
        "table, notes and messages go to standard error.",
        autocompletion=complete_words(*RESULT_FORMATS),
    ),
]
REPORT_TITLE = declare(
    "report_title",
    str | None,
    metavar="TEXT",
    rich_help_panel=OUTPUT,
    help="Title of the report. Default: the names of the models.",
)
GATE_OPTIONS = [
    declare(
        "gates",
        list[str] | None,
        "--gate",
        metavar="CONDITION",
        rich_help_panel=GATES,
        help="Condition that must hold, or the exit code is 1: 'nDCG@10 >= 0.31' or 'nDCG@10 not "
        "worse than baseline.json'. May be repeated.",
    ),
    declare(
        "gate_summary",
        Path | None,
        metavar="FILE",
        rich_help_panel=GATES,
        help="Markdown file for the outcomes of the gates and the values of the metrics. The file "
        "of GITHUB_STEP_SUMMARY is appended to, any other file is replaced.",
    ),
    declare(
        "junit",
        Path | None,
        metavar="FILE",
        rich_help_panel=GATES,
        help="JUnit XML file for the outcomes of the gates, for CI systems.",
    ),
]
LOG = declare(
    "log",
    list[str] | None,
    "--log",
    metavar="TRACKER",
    help="Experiment tracker to which each model is logged as a run: mlflow, wandb or tensorboard. "
    "Its own settings determine where runs are stored. May be repeated.",
    autocompletion=complete_words(*choices(TrackerName)),
    rich_help_panel=OUTPUT,
)
GUARD_CSV = declare(
    "guard_csv",
    bool,
    "--guard-csv/--no-guard-csv",
    default=True,
    rich_help_panel=OUTPUT,
    help="Put an apostrophe before names in CSV that a spreadsheet would evaluate as formulas: "
    "those that begin with =, +, - or @.",
)
Overwrite = Annotated[
    bool,
    OutputOption(
        "--overwrite",
        help="Replace the folders of per-user values that an earlier run on Spark wrote.",
        show_default=False,
    ),
]

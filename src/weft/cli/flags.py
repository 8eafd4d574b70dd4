"""From the options of a command to a configuration, and from settings in messages to options.

Importing this module does not load torch.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from weft._choices import MATRIX_SUFFIXES, POSITIONS, CandidatePool, choices
from weft._input_kinds import BUILT_IN_INPUTS, SIDE_INPUTS, split_column
from weft.config.document import parse_repr
from weft.config.evaluation_section import ITEM_RULE
from weft.config.sections import DataFiles
from weft.errors import SettingError, did_you_mean, python_style
from weft.evaluation.settings import EvaluationSettings
from weft.metrics.names import unquoted_characters

# The columns of each kind of file.
_ROLES = {
    "recs": ("user", "item", "score", "rank"),
    "truth": ("user", "item", "rating", "timestamp"),
    "train": ("user", "item", "rating", "timestamp"),
    "users": ("user",),
    "items": ("item",),
    **{name: (BUILT_IN_INPUTS[name].axis, "label") for name in SIDE_INPUTS},
    "candidates": ("user", "item"),
}
_ID_ROLES = ("user", "item")
_INPUT_ROLES = (*_ID_ROLES, "value", "vector", "label", "score", "rank")  # of files of `--input`
_BINARY_SUFFIXES = (
    *(".parquet", ".pq", ".json", ".jsonl", ".ndjson", ".arrow", ".feather", ".ipc"),
    *MATRIX_SUFFIXES,
)
_TEXT_SUFFIXES = (".csv", ".tsv", ".txt", ".inter", ".run", ".trec", ".gz", ".zst", ".bz2", ".xz")
_SUFFIXES = re.compile(
    rf"(?:{'|'.join(map(re.escape, (*_TEXT_SUFFIXES, *_BINARY_SUFFIXES)))})+\Z", re.IGNORECASE
)
_SLICE = re.compile(r"(\w+\s*\([^()]*\))(?:\s+of\s+(.+))?")


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FileFlags:
    """How the files of a run are read; each file takes the options that fit it."""

    separator: str | None
    header: bool | None
    ids: str | None
    columns: dict[str, dict[str, str | int]]  # by kind of file and role

    @classmethod
    def from_options(cls, options: dict[str, Any]) -> FileFlags:
        """Read the options of a command."""
        inputs = split_inputs(options.get("inputs"))
        columns: dict[str, dict[str, str | int]] = {kind: {} for kind in (*_ROLES, *inputs)}
        for text in options["columns"] or ():
            kinds, role, column = _parse_column(text, inputs)
            for kind in kinds:
                if role in columns[kind]:
                    raise SettingError(
                        f"--column {text}: the column of {role} in {kind} is given twice; remove "
                        f"one, or name a file in each, as in recs.{role}=NAME."
                    )
                columns[kind][role] = column
        separator = {"tab": "\t", r"\t": "\t"}.get(options["separator"], options["separator"])
        return cls(separator, options["header"], options["ids"], columns)

    def describe(self, kind: str, path: Path) -> dict[str, Any]:
        """Return a file of this kind as a configuration describes it."""
        if kind == "recs" and path.suffix.lower() in MATRIX_SUFFIXES:
            return {"path": str(path)}
        is_text = not any(suffix.lower() in _BINARY_SUFFIXES for suffix in path.suffixes[-2:])
        return _without_none(
            {
                "path": str(path),
                "separator": self.separator if is_text else None,
                "header": self.header if is_text else None,
                "ids": self.ids,
                "columns": self.columns[kind] or None,
            }
        )


def _parse_column(text: str, inputs: Collection[str]) -> tuple[list[str], str, str | int]:
    """Return the kinds of files that `[FILE.]ROLE=NAME` is about, the role, and the column.

    Columns of ids are also about files of `--input`, their other columns only if these are named.
    """
    left, _, column = text.partition("=")
    file, dot, role = left.strip().rpartition(".")
    column = column.strip()
    if not column:
        raise SettingError(
            f"--column {text}: expected ROLE=NAME, such as user=visitor, or truth.item=sku for one "
            "file."
        )
    kind = file.replace("-", "_")
    known_files = dict.fromkeys(inputs, _INPUT_ROLES) | _ROLES
    roles = {kind: known_files[kind]} if kind in known_files else {}
    if not dot:
        roles = dict.fromkeys(inputs, _ID_ROLES) | _ROLES
    elif not roles:
        raise SettingError(
            f"--column {text}: unknown file {file!r}.{did_you_mean(file, known_files)} Choose one "
            f"of {', '.join(known_files)}; recs are the files of all models, and models with "
            "different columns need a configuration file."
        )
    kinds = [kind for kind, known in roles.items() if role in known]
    if not kinds:
        known = roles[kind] if dot else sorted(set().union(*roles.values()))
        raise SettingError(
            f"--column {text}: unknown role {role!r}.{did_you_mean(role, known)} Choose one of "
            f"{', '.join(known)}."
        )
    return kinds, role, int(column) if column.isdecimal() else column


def configuration_from_flags(options: dict[str, Any]) -> dict[str, Any]:
    """Return the options of a command, by setting, in the sections of a configuration."""
    reading = FileFlags.from_options(options)
    evaluation = _without_none(
        {
            field.option.key or field.name: options.get(field.name)
            for field in EvaluationSettings.fields()
        }
    )
    paths = _without_none({name: options.get(name) for name in DataFiles.model_fields})
    inputs = split_inputs(paths.pop("inputs", None))
    if "candidates" in paths:  # a file or a pool
        is_file = _is_candidates_file(paths["candidates"])
        (evaluation if is_file else paths).pop("candidates")
    readers: dict[str, Callable[[list[str]], Any]] = {
        "metrics": split_names,
        "top_k": split_numbers,
        "slices": partial(_split_slices, reading=reading),
        "item_slices": partial(_split_item_slices, reading=reading),
    }
    evaluation |= {key: read(evaluation[key]) for key, read in readers.items() if key in evaluation}
    if modules := options.get("custom_modules"):
        evaluation["custom_modules"] = locate_modules(modules)
    models = split_models(options["models"])
    engine = {"engine": "name", "address": "address", "parts": "parts"}
    sections: dict[str, dict[str, Any]] = {
        "data": {name: reading.describe(name, Path(path)) for name, path in paths.items()},
        "models": {name: reading.describe("recs", path) for name, path in models.items()},
        "evaluation": evaluation,
        "engine": _without_none({key: options.get(name) for name, key in engine.items()}),
    }
    if inputs:
        described = {name: reading.describe(name, path) for name, path in inputs.items()}
        sections["data"]["inputs"] = described
    return {name: values for name, values in sections.items() if values}


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}


# --------------------------------------------------------------------------------------------------


def split_models(texts: Sequence[str] | None) -> dict[str, Path]:
    """Return the files of `NAME=PATH` by name; a path without a name is named after its file."""
    models: dict[str, Path] = {}
    for text in texts or []:
        name, sign, place = text.partition("=")
        if not sign or "/" in name or os.sep in name:  # the path contains the sign
            name, place = "", text
        path = Path(place)
        if not place.strip():
            raise SettingError(f"--recs {text}: expected a path after '='.")
        name = name or _SUFFIXES.sub("", path.name) or path.resolve().name or "model"
        name = name.encode(errors="replace").decode()  # file names need not be UTF-8
        if name in models:
            raise SettingError(
                f"--recs {text}: there is already a model {name!r}, {models[name]}; give each "
                f"model its own name, as in --recs {name}_2={path}."
            )
        models[name] = path
    return models


def split_inputs(texts: Sequence[str] | None) -> dict[str, Path]:
    """Return the files of `NAME=PATH` by input."""
    inputs: dict[str, Path] = {}
    for text in texts or []:
        name, _, place = (part.strip() for part in text.partition("="))
        if not name.isidentifier() or not place:
            raise SettingError(
                f"--input {text}: expected NAME=PATH, such as item_vectors=vectors.parquet."
            )
        if name in inputs:
            raise SettingError(f"--input {text}: {name} is given twice; remove one.")
        inputs[name] = Path(place)
    return inputs


def split_names(texts: Sequence[str]) -> list[str]:
    """Split `nDCG,F1(beta=0.5)` at commas that are neither in brackets nor in quotes."""
    names = []
    for text in texts:
        commas = [position for position, sign in unquoted_characters(text) if sign == ","]
        for start, stop in zip([0, *(comma + 1 for comma in commas)], [*commas, len(text)]):
            names.append(text[start:stop].strip())
    return [name for name in names if name]


def split_numbers(texts: Sequence[str]) -> list[int | str]:
    """Split `10,20` into integers; other text is returned as it is."""
    parts = [part.strip() for text in texts for part in text.strip("[] ").split(",")]
    return [int(part) if re.fullmatch(r"[-+]?\d+", part) else part for part in parts]


def _is_candidates_file(text: str) -> bool:
    """Return True if `--candidates` names a file rather than a pool, even a misspelled one."""
    pools = choices(CandidatePool)
    is_pool = text.casefold() in pools
    return not is_pool and (os.path.exists(text) or not did_you_mean(text, pools))


def _split_slices(texts: Sequence[str], reading: FileFlags) -> dict[str, Any]:
    """Return `NAME=quantiles(4)`, `NAME=FILE` and `NAME=quantiles(4) of FILE` by name.

    A file may be a column of a file: `users.csv:gender`.
    """
    slices: dict[str, Any] = {}
    expected = (
        "activity=quantiles(4), gender=users.csv:gender or 'age=bins(18, 65) of users.csv:age'"
    )
    for name, groups in _split_groups(texts, "--slice", expected).items():
        expression = _SLICE.fullmatch(groups)
        by, path = (expression[1], expression[2]) if expression else (None, groups)
        file = None if path is None else _describe_slice_file(path, "user_groups", reading)
        slices[name] = _without_none({"by": by, "of": file})
    return slices


def _split_item_slices(texts: Sequence[str], reading: FileFlags) -> dict[str, Any]:
    """Return `NAME=head_tail` and other rules, `NAME=FILE` and `NAME=bins(5) of FILE` by name."""
    slices: dict[str, Any] = {}
    expected = "tail=head_tail, genre=items.csv:genre or 'year=bins(1990, 2010) of items.csv:year'"
    for name, groups in _split_groups(texts, "--item-slice", expected).items():
        cut, is_rule = _SLICE.fullmatch(groups), ITEM_RULE.fullmatch(groups)
        by, path = (cut[1], cut[2]) if cut else (None, groups)
        if cut is None and is_rule is not None:
            by, path = groups, None
        file = None if path is None else _describe_slice_file(path, "item_clusters", reading)
        slices[name] = _without_none({"by": by, "of": file})
    return slices


def _split_groups(texts: Sequence[str], flag: str, expected: str) -> dict[str, str]:
    """Return the groups of `NAME=GROUPS` by name; `expected` are examples for messages."""
    groups: dict[str, str] = {}
    for text in texts:
        name, sign, rule = (part.strip() for part in text.partition("="))
        if not sign or not name or not rule:
            raise SettingError(f"{flag} {text}: expected NAME=GROUPS, such as {expected}.")
        if name in groups:
            raise SettingError(
                f"{flag} {text}: there is already a slice {name!r}; give each slice its own name."
            )
        groups[name] = rule
    return groups


def _describe_slice_file(text: str, kind: str, reading: FileFlags) -> dict[str, Any]:
    """Return the file of `users.csv` or `users.csv:gender` as a configuration describes it."""
    path, column = split_column(text)
    file = reading.describe(kind, Path(path))
    if column is not None:
        file["columns"] = {**file.get("columns", {}), "label": column}
    return file


def locate_modules(names: Sequence[str]) -> list[str]:
    """Return modules with the full paths of their files, which are relative to the current folder.

    Names without a file there are those of installed modules.
    """
    return [_locate_module(name) for name in names]


def _locate_module(name: str) -> str:
    is_path = name.endswith(".py") or "/" in name or os.sep in name
    path = Path(name if is_path else name.replace(".", "/") + ".py").expanduser()
    return str(path.absolute()) if is_path or path.is_file() else name


# --------------------------------------------------------------------------------------------------


def command_line_style(name: str, value: str) -> str:
    """Print a reference to a setting as an option: `--top-k 10,20`, `--keep-seen`, `--truth FILE`.

    `models.als` is the file of a model; a setting without an option is printed as in Python.
    """
    if name.startswith("models."):
        return f"--recs {name.removeprefix('models.')}"
    if name.startswith("inputs."):
        return f"--input {name.removeprefix('inputs.')}=FILE"
    option = _command_options().get(name)
    if option is None:
        return python_style(name, value)
    flag: str = next(text for text in option.opts if text.startswith("--"))
    if option.metavar == "PATH":
        return f"{flag} {POSITIONS if value == repr(POSITIONS) else 'FILE'}"
    return _spell_option(flag, parse_repr(value), negation=option.secondary_opts)


def _spell_option(flag: str, value: Any, *, negation: Sequence[str]) -> str:
    """Return an option with its value; `negation` is the flag that switches it off."""
    if isinstance(value, bool):
        return flag if value or not negation else negation[0]
    if isinstance(value, dict):  # columns of a file
        return " ".join(f"{flag} {role}={column}" for role, column in value.items())
    if isinstance(value, (list, tuple)):
        value = ",".join(map(str, value))
    text = str(value)
    # Separators have a meaning in shells.
    return f"{flag} {text!r}" if re.fullmatch(r"\W+", text) else f"{flag} {text}".rstrip()


@cache
def _command_options() -> dict[str, Any]:
    """Return the options of all commands by the name of their setting."""
    import typer

    from weft.cli import app

    commands = typer.main.get_command(app).commands.values()  # type: ignore[attr-defined]
    return {
        option.name: option
        for command in commands
        for option in command.params
        if any(text.startswith("--") for text in option.opts)
    }

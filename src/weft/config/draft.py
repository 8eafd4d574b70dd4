"""A first configuration for the files of a folder, with comments that explain every choice."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from weft.config.folder_files import FolderFile, find_folder_files

_PLAIN = re.compile(r"[A-Za-z_][\w./-]*")
_YAML_WORDS = ("true", "false", "yes", "no", "on", "off", "null", "y", "n")
_METRICS = ("nDCG", "Recall", "MRR")
_TRAIN_METRICS = ("EPC", "ItemCoverage", "Gini")


@dataclass(frozen=True)
class Draft:
    """The text of a configuration, and what it lacks to run; nothing if it runs as it is."""

    text: str
    missing: tuple[str, ...]


def draft_configuration(folder: Path) -> Draft:
    """Return a configuration for the files of a folder, which the YAML file will lie in."""
    files = find_folder_files(folder)
    truths, trains = (_prefer(files, kind) for kind in ("truth", "train"))
    models = [file for file in files if file.kind == "lists"]
    missing = tuple(_missing(files, truths, models))
    lines = [
        "# Written by weft init from the names and columns of the files in this folder.",
        "# Check it: weft check FILE; run it: weft evaluate FILE.",
        "# All keys: weft schema, or the page Settings of the documentation.",
        *(f"# MISSING: {line}" for line in missing),
        "",
        *_data_lines(truths, trains, files),
        "",
        *_model_lines(models),
        "",
        *_evaluation_lines(truths, trains, files),
        "",
        "# Folder for the results, relative to this file. For a report, add: report: report.html",
        "output: results",
    ]
    unused = [*truths[1:], *trains[1:], *_of_kinds(files, "validation", "interactions", "unknown")]
    if unused:
        lines += ["", "# Unused files:", *(_unused_line(file) for file in unused)]
    return Draft("\n".join(lines) + "\n", missing)


def quote(text: str) -> str:
    """Return a text as YAML, in quotes if it would not be read as the same text."""
    is_plain = _PLAIN.fullmatch(text) and text.lower() not in _YAML_WORDS
    return text if is_plain else json.dumps(text, ensure_ascii=False)


def _of_kinds(files: Sequence[FolderFile], *kinds: str) -> list[FolderFile]:
    return [file for file in files if file.kind in kinds]


def _prefer(files: Sequence[FolderFile], kind: str) -> list[FolderFile]:
    """Return the files of a kind, the one with the shortest name first."""
    return sorted(_of_kinds(files, kind), key=lambda file: (len(file.path.name), file.path.name))


def _missing(
    files: Sequence[FolderFile], truths: Sequence[FolderFile], models: Sequence[FolderFile]
) -> Iterator[str]:
    if not truths:
        yield "test interactions: there is no file named test or truth with users and items."
        for file in _of_kinds(files, "interactions")[:1]:
            name = shlex.quote(quote(file.path.name))
            yield f"split {name}: weft split {name} --method leave-last-out --out parts"
    if not models:
        yield (
            "recommendation lists: there is no other file with users, items, and scores or ranks."
        )
    unknown = [] if truths and models else _of_kinds(files, "unknown")
    yield from (f"{quote(file.path.name)} cannot be used: {file.reason}" for file in unknown)


def _data_lines(
    truths: Sequence[FolderFile], trains: Sequence[FolderFile], files: Sequence[FolderFile]
) -> Iterator[str]:
    yield "data:"
    yield "  # Test interactions (ground truth)."
    if truths:
        yield f"  truth: {quote(truths[0].path.name)}{_describe_roles(truths[0])}"
    else:
        yield "  # truth: test.csv"
    if trains:
        yield "  # Train interactions, for novelty and popularity. Items of train in a list are"
        yield "  # counted in the result; mask_seen: true under evaluation removes them."
        yield f"  train: {quote(trains[0].path.name)}{_describe_roles(trains[0])}"
    else:
        yield "  # train: train.csv   # for novelty, popularity and masking; no file is named train"
    for file in _of_kinds(files, "items"):
        yield "  # The catalogue, if items without interactions can be recommended; by default it"
        yield "  # is the items of train, truth and lists."
        yield f"  # items: {quote(file.path.name)}"


def _describe_roles(file: FolderFile) -> str:
    """Return a comment with the columns of a file."""
    columns = ", ".join(
        role if role == column else f"{role}: {quote(column)}"
        for role, column in file.roles.items()
    )
    return f"   # {columns}"


def _model_lines(models: Sequence[FolderFile]) -> Iterator[str]:
    yield "# Recommendation lists: the name and the file of each model."
    if not models:
        yield "# models:"
        yield "#   model: lists.csv"
        return
    yield "models:"
    names: list[str] = []
    for file in models:
        name = file.model if file.model not in names else file.path.name
        names.append(name)
        yield f"  {quote(name)}: {quote(file.path.name)}{_describe_roles(file)}"


def _evaluation_lines(
    truths: Sequence[FolderFile], trains: Sequence[FolderFile], files: Sequence[FolderFile]
) -> Iterator[str]:
    yield "evaluation:"
    yield ("  # Metrics of accuracy and, if there are train interactions, of novelty and coverage.")
    yield f"  metrics: [{', '.join((*_METRICS, *(_TRAIN_METRICS if trains else ())))}]"
    yield "  # Cut-offs: the number of recommendations per user that count."
    yield "  top_k: [10]"
    yield "  # Values per user, which weft compare needs."
    yield "  per_user: true"
    if truths and "rating" in truths[0].roles:
        yield (
            "  # Lowest rating of a relevant item; by default, every rating above 0 is relevant."
        )
        yield "  # relevance_threshold: 4"
    sliced = [(file, column) for file in _of_kinds(files, "users") for column in file.columns]
    if sliced:
        yield "  # Groups of users for which metrics are also computed."
        yield "  slices:"
    used: list[str] = []
    for file, column in sliced:
        name = column if column not in used else f"{file.model} {column}"
        used.append(name)
        place = f"{{path: {quote(file.path.name)}, columns: {{label: {quote(column)}}}}}"
        yield f"    {quote(name)}: {place}"


def _unused_line(file: FolderFile) -> str:
    reasons = {
        "truth": "another file of test interactions",
        "train": "another file of train interactions",
        "validation": "validation interactions; use them as truth to select a model",
        "interactions": "all interactions; weft split divides them into train and test",
        "unknown": file.reason,
    }
    return f"#   {quote(file.path.name)}: {reasons[file.kind]}"

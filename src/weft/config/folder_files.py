"""Detection of truth, train, recommendation lists and labels among the files of a folder."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from weft.config.document import configuration_style
from weft.data.readers.file_settings import File
from weft.data.readers.files import read_table
from weft.data.readers.layouts import FileLayout, detect_layout
from weft.data.readers.paths import open_parts
from weft.data.readers.role_assignment import assign_roles
from weft.data.readers.roles import COLUMNS, ID_ROLES, find_column_name, fold
from weft.errors import InputError, plain_text

_SUFFIXES = {
    *(".csv", ".tsv", ".txt", ".dat", ".inter", ".parquet", ".pq", ".jsonl", ".ndjson", ".json"),
    *(".run", ".trec", ".qrels", ".gz", ".bz2", ".xz", ".zst"),
}
# Words in the names of files, by the kind of data.
_WORDS = {
    "truth": ("test", "truth", "heldout", "holdout", "target", "targets", "qrels", "groundtruth"),
    "train": ("train", "training", "history"),
    "validation": ("validation", "valid", "val", "dev"),
    "interactions": ("ratings", "interactions", "clicks", "events", "log", "logs", "all"),
}
# Names of columns that interactions do not have.
_LIST_COLUMNS = frozenset(
    fold(name) for name in ("score", "prediction", "predicted_rating", "pred", *COLUMNS["rank"])
)
_MAX_LABELS = 12  # more labels of users are no groups to compare


@dataclass(frozen=True)
class FolderFile:
    """A file of a folder and the kind of data in it.

    `kind` is "truth", "train", "validation", "interactions", "lists", "users" (labels of users in
    `columns`), "items" (facts about items) or "unknown", for the `reason` given.
    """

    path: Path
    kind: str
    roles: Mapping[str, str]  # the column of each role
    columns: tuple[str, ...] = ()  # of labels that group users
    reason: str = ""

    @property
    def model(self) -> str:
        """The name of the file without suffixes, for a model."""
        return self.path.name.partition(".")[0] or self.path.name


def find_folder_files(folder: Path) -> list[FolderFile]:
    """Return the tables of a folder with the kind of each, sorted by name."""
    paths = sorted(
        path
        for path in folder.iterdir()
        if path.is_file() and path.name[0] not in "._" and path.suffix.lower() in _SUFFIXES
    )
    return [_classify(path) for path in paths if not _is_result(path)]


def _is_result(path: Path) -> bool:
    """Return True for files that Weft writes: results, their tables, summaries and manifests."""
    if path.name in ("summary.csv", "slices.csv", "weft-split.json"):
        return True
    if path.suffix == ".json":
        with path.open("rb") as file:
            return b'"format": "weft' in file.read(400)
    return re.search(r"\.(per_user|user_labels|lists)\.parquet\Z", path.name) is not None


def _classify(path: Path) -> FolderFile:
    if plain_text(path.name) != path.name:
        return FolderFile(path, "unknown", {}, reason="the name of the file is not valid UTF-8")
    try:
        with open_parts(path, path.name) as parts:
            layout = detect_layout(parts[0], File(path), is_id_list=False)
        return _classify_layout(path, layout)
    except InputError as error:
        return FolderFile(
            path, "unknown", {}, reason=" ".join(error.render(configuration_style).split())
        )


def _classify_layout(path: Path, layout: FileLayout) -> FolderFile:
    """Return the kind by the format, the columns, and then the name of a file."""
    if layout.trec:
        kind = "truth" if layout.trec == "qrels" else "lists"
        return FolderFile(path, kind, assign_roles(layout, {}, _use(kind), path.name)[0])
    if layout.has_header and layout.format != "json":
        facts = _classify_facts(path, list(layout.names))
        if facts is not None:
            return facts
    named = _kind_by_name(path)
    kind = named or "lists"
    roles, _ = assign_roles(layout, {}, "timed", path.name)
    if named is None:
        has_scores = not _LIST_COLUMNS.isdisjoint(map(fold, layout.names))
        kind = "interactions" if "timestamp" in roles and not has_scores else "lists"
        roles, _ = assign_roles(layout, {}, _use(kind), path.name)
    return FolderFile(path, kind, roles)


def _classify_facts(path: Path, names: list[str]) -> FolderFile | None:
    """Return a file with facts about users or items, None for columns of both or neither."""
    found = [role for role in ID_ROLES if find_column_name(names, role, path.name)]
    if found == ["user"] and len(names) > 1:
        return _classify_users(path, names)
    if found == ["item"]:
        return FolderFile(path, "items", {"item": str(find_column_name(names, "item", ""))})
    return None


def _use(kind: str) -> str:
    return "lists" if kind == "lists" else "timed"


def _kind_by_name(path: Path) -> str | None:
    """Return the kind that a word of the file's name names, None if there is no such word."""
    words = re.split(r"[^a-z]+", path.name.partition(".")[0].lower())
    words.append("".join(words))  # ground_truth
    words += [suffix.lstrip(".").lower() for suffix in path.suffixes]
    return next((kind for kind, known in _WORDS.items() if set(words) & set(known)), None)


def _classify_users(path: Path, names: list[str]) -> FolderFile:
    """Return a file about users, with the columns that have a few labels."""
    user = str(find_column_name(names, "user", path.name))
    columns = []
    for name in names:
        if name == user:
            continue
        file = File(path, columns={"label": name})
        labels = read_table(file, path.name, use="user_groups").columns["label"]
        if 2 <= labels.drop_nulls().n_unique() <= _MAX_LABELS:
            columns.append(name)
    return FolderFile(path, "users", {"user": user}, tuple(columns))

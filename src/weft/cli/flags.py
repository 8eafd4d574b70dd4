"""Flags to a configuration, and messages back in the words of the command line. Light: the command
line imports it at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from weft.errors import SettingError, did_you_mean
from weft.metrics.names import unquoted_characters

# Which columns each kind of file has.
_ROLES = {
    "recs": ("user", "item", "score", "rank"),
    "truth": ("user", "item", "rating", "timestamp"),
    "train": ("user", "item", "rating", "timestamp"),
    "items": ("item",),
    "user_groups": ("user", "label"),
    "item_clusters": ("item", "label"),
    "item_features": ("item", "label"),
    "candidates": ("user", "item"),
}
CANDIDATES = ("all", "cold", "warm", "listed")
_NOT_TEXT = (".parquet", ".pq", ".json", ".jsonl", ".ndjson", ".arrow", ".feather", ".ipc")
_ENDINGS = re.compile(
    rf"(\.(csv|tsv|txt|inter|run|gz|zst|bz2|xz|{'|'.join(kind[1:] for kind in _NOT_TEXT)}))+\Z",
    re.IGNORECASE,
)


class FileFlags:
    """How the files of a run are read, as far as the flags say; each file takes what fits it."""

    def __init__(
        self, separator: str | None, header: bool | None, ids: str | None, columns: Sequence[str]
    ) -> None:
        self.separator = {"tab": "\t", r"\t": "\t"}.get(separator or "", separator)
        self.header = header
        self.ids = ids
        self.columns: dict[str, dict[str, str | int]] = {name: {} for name in _ROLES}
        for given in columns:
            self._add(given)

    def _add(self, given: str) -> None:
        left, sign, name = given.partition("=")
        file, dot, role = left.strip().rpartition(".")
        files = (
            [file.replace("-", "_")]
            if dot
            else [kind for kind, roles in _ROLES.items() if role in roles]
        )
        known = sorted({role for roles in _ROLES.values() for role in roles})
        if not sign or not name.strip():
            raise SettingError(
                f"--column {given}: expected ROLE=NAME, such as user=visitor, or truth.item=sku "
                "for one file."
            )
        if dot and files[0] not in _ROLES:
            raise SettingError(
                f"--column {given}: there is no file {file!r}.{did_you_mean(file, _ROLES)} Choose "
                f"one of {', '.join(_ROLES)}."
            )
        if role not in (_ROLES[files[0]] if dot else known):
            offered = _ROLES[files[0]] if dot else known
            raise SettingError(
                f"--column {given}: there is no role {role!r}.{did_you_mean(role, offered)} Choose "
                f"one of {', '.join(offered)}."
            )
        number = name.strip()
        for kind in files:
            if role in self.columns[kind]:
                raise SettingError(
                    f"--column {given}: the column of {role} is given twice; keep one."
                )
            self.columns[kind][role] = int(number) if number.isdecimal() else name

    def given(self) -> dict[str, Any]:
        """What was said at all, by the names of the configuration."""
        columns = any(self.columns.values()) or None
        return {
            "separator": self.separator,
            "header": self.header,
            "ids": self.ids,
            "columns": columns,
        }

    def file(self, kind: str, path: Path) -> dict[str, Any]:
        """A file of this kind as the configuration has it."""
        is_text = not any(suffix.lower() in _NOT_TEXT for suffix in path.suffixes[-2:])
        settings = {
            "path": str(path),
            "separator": self.separator if is_text else None,
            "header": self.header if is_text else None,
            "ids": self.ids,
            "columns": self.columns[kind] or None,
        }
        return {name: value for name, value in settings.items() if value is not None}


def mapping(
    files: dict[str, Path | None],
    models: dict[str, Path],
    settings: dict[str, Any],
    reading: FileFlags,
) -> dict[str, Any]:
    """What the flags say, in the shape of a configuration."""
    data = {name: reading.file(name, path) for name, path in files.items() if path is not None}
    sections = {
        "data": data,
        "models": {name: reading.file("recs", path) for name, path in models.items()},
        "evaluation": {name: value for name, value in settings.items() if value is not None},
    }
    return {name: values for name, values in sections.items() if values}


def named_files(given: Sequence[str] | None) -> dict[str, Path]:
    """`NAME=PATH`, or a path, whose stem is the name."""
    named: dict[str, Path] = {}
    for text in given or []:
        name, sign, place = text.partition("=")
        if not sign or "/" in name or os.sep in name:  # a path that has the sign in it
            name, place = "", text
        path = Path(place)
        if not place.strip():
            raise SettingError(f"--recs {text}: expected a path after '='.")
        if not name:
            name = _ENDINGS.sub("", path.name) or path.resolve().name or "model"
        if name in named:
            raise SettingError(
                f"--recs {text}: there is a model {name!r} already, {named[name]}; give each its "
                "own name, as in "
                f"--recs {name}_2={path}."
            )
        named[name] = path
    return named


def candidates_file(given: str | None) -> Path | None:
    """The file that `--candidates` names, None where it says which items in a word, or nearly so."""
    if given is None or given.casefold() in CANDIDATES:
        return None
    return None if did_you_mean(given, CANDIDATES) and not os.path.exists(given) else Path(given)


def slices(given: Sequence[str] | None, reading: FileFlags) -> dict[str, Any] | None:
    """`NAME=quantiles(4)`, `NAME=FILE` or `NAME=quantiles(4) of FILE`, as the configuration has
    them.
    """
    if given is None:
        return None
    found: dict[str, Any] = {}
    for text in given:
        name, sign, groups = (part.strip() for part in text.partition("="))
        if not sign or not name or not groups:
            raise SettingError(
                f"--slice {text}: expected NAME=GROUPS, such as activity=quantiles(4), "
                "gender=gender.csv or "
                "'age=bins(18, 65) of ages.csv'."
            )
        if name in found:
            raise SettingError(
                f"--slice {text}: there is a slice {name!r} already; give each its own name."
            )
        made = re.fullmatch(
            r"((?:quantiles|bins)\s*\([^()]*\))(?:\s+of\s+(.+))?", groups, re.IGNORECASE
        )
        by, path = (made[1], made[2]) if made else (None, groups)
        parts = {"by": by, "of": None if path is None else reading.file("user_groups", Path(path))}
        found[name] = {key: value for key, value in parts.items() if value is not None}
    return found


def names(given: Sequence[str] | None) -> list[str] | None:
    """`nDCG,F1(beta=0.5)`, once or more, as names: what stands between commas that are neither in
    brackets nor in quotes.
    """
    if given is None:
        return None
    found = []
    for text in given:
        commas = [position for position, sign in unquoted_characters(text) if sign == ","]
        found += [
            text[start:stop].strip()
            for start, stop in zip([0, *(comma + 1 for comma in commas)], [*commas, len(text)])
        ]
    return [name for name in found if name]


def numbers(given: Sequence[str] | None) -> list[int] | None:
    """`10,20`, once or more, as whole numbers."""
    if given is None:
        return None
    found = []
    for part in (part.strip() for text in given for part in text.strip("[] ").split(",")):
        if not re.fullmatch(r"[-+]?\d+", part):
            raise SettingError(
                f"--top-k {','.join(given)}: {part!r} is not a whole number; write for example "
                "--top-k 10,20."
            )
        found.append(int(part))
    return found


# Messages speak as Python does (`top_k=[10]`), and those of a configuration by its keys
# (`evaluation.top_k`).
KEYWORDS = {
    *(
        "metrics",
        "top_k",
        "relevance_threshold",
        "mask_seen",
        "ties",
        "seed",
        "profile",
        "empty_users",
        "missing_lists",
    ),
    *("duplicates", "batch_size", "device", "per_user", "save_per_user", "models", *_ROLES),
    *(
        "strategy",
        "num_negatives",
        "negative_sampling",
        "neg_alpha",
        "correction",
        "gamma",
        "bootstrap",
        "slices",
    ),
    *("separator", "header", "ids", "columns"),
} - {"recs"}
_OTHER_FLAGS = {
    "save_per_user": "per_user",
    "models": "recs",
    "columns": "column",
    "slices": "slice",
}
_SWITCHES = {
    ("mask_seen", "True"): "--mask-seen",
    ("mask_seen", "False"): "--keep-seen",
    ("header", "True"): "--header",
    ("header", "False"): "--no-header",
    ("per_user", "True"): "--per-user",
}
_SAID_TWICE = re.compile(r"\w+= \((?:[^()]*; )?(--[\w-]+ FILE) on the command line\)")
_SETTINGS_OF_FILES = r"(?:path|format|separator|header|columns|ids|ratings)"


def in_flags(message: str, names: Collection[str] = frozenset(KEYWORDS)) -> str:
    """A message in the words of the command line, as far as it is about settings of these names."""
    known = "|".join(sorted(names)) or "(?!)"
    compound = "|".join(sorted(name for name in names if "_" in name)) or "(?!)"
    message = _SAID_TWICE.sub(r"\1", message)
    if {"columns", "ids"} & set(names):
        message = re.sub(r"weft\.File\(path, ((?:[^()]|\([^()]*\))*)\)", r"\1", message)
    # Keys of a configuration, first with what lies below them at the start of a line.
    message = re.sub(
        rf"^(?:evaluation|data)\.({known})\b[^:\s]*(?=: )",
        lambda found: _flag(found[1]),
        message,
        flags=re.MULTILINE,
    )
    key = rf"(?<![\w/.-])(?:evaluation|data)\.({known})(?:: (FILE))?(?![\w/-]|\.\w)"
    message = re.sub(
        key, lambda found: " ".join(filter(None, (_flag(found[1]), found[2]))), message
    )
    if "models" in names:
        model = rf"^models\.(\S*?)(?:\.{_SETTINGS_OF_FILES}[^:\s]*)?(?=: | \()"
        message = re.sub(model, r"--recs \1", message, flags=re.MULTILINE)
    # Then `'name: value'` of a configuration, `name=value`, and names that can be no ordinary word.
    message = re.sub(
        rf"(?<!\w)'({known}): (\w+)'", lambda found: f"{_flag(found[1])} {found[2]}", message
    )
    message = re.sub(
        rf"\(({known}): (\w+)\)", lambda found: f"({_flag(found[1])} {found[2]})", message
    )
    value = r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|\{[^}]*\}|-?[\w.]*\w"
    message = re.sub(rf"(?<![\w/.-])({known})=({value})?(?![\w/])", _with_value, message)
    return re.sub(
        rf"(?<![\w/.'\"=-])({compound})(?![\w/.'\"=-])", lambda found: _flag(found[1]), message
    )


def _flag(name: str) -> str:
    return "--" + _OTHER_FLAGS.get(name, name).replace("_", "-")


def _with_value(found: re.Match[str]) -> str:
    name, value = found[1], found[2] or ""
    if name in _ROLES and value.strip("'") not in CANDIDATES:
        return f"{_flag(name)} FILE"
    if (name, value) in _SWITCHES:
        return _SWITCHES[name, value]
    if name == "separator":  # many a separator means something to shells
        return f"{_flag(name)} {value}".strip()
    if name == "columns":
        pairs = re.findall(r"'(\w+)': ('[^']*'|[\w.]+)", value)
        each = (
            f"--column {role}={column.strip(chr(39)) if column != '...' else 'NAME'}"
            for role, column in pairs
        )
        return " ".join(each) or _flag(name)
    plain = re.sub(r"['\"\[\]]", "", value).replace(", ", ",")
    return f"{_flag(name)} {plain}".strip()

"""Manifests: the JSON file in the folder of a split that records how its parts were made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.errors import InputError, plain_text

if TYPE_CHECKING:
    from weft.evaluation.splitting.split import SplitPart
    from weft.evaluation.splitting.split_input import SplitInput
    from weft.evaluation.splitting.split_settings import SplitSettings

MANIFEST_NAME = "weft-split.json"
_FORMAT, _VERSION = "weft-split", 1
# Parameters that the description of a split does not name if they have these values.
_USUAL = {
    "duplicates": "error",
    "min_user_interactions": 1,
    "min_item_interactions": 1,
    "cold_users": "keep",
    "cold_items": "keep",
    "ties": "break",
}


def build_manifest(
    settings: SplitSettings,
    data: SplitInput,
    parts: Sequence[SplitPart],
    dropped: Mapping[str, int],
) -> dict[str, Any]:
    """Return the content of a manifest, to which writing adds names and digests of files."""
    from importlib.metadata import version

    return {
        "format": _FORMAT,
        "version": _VERSION,
        "weft": version("weft"),
        "method": settings.method,
        "parameters": settings.parameters(),
        "input": {
            "file": None if data.path is None else plain_text(data.path.name),
            "digest": data.digest(),
            "rows": len(parts[0].mask),
        },
        "columns": dict(data.roles),
        "dropped": dict(dropped),
        "files": [{"part": part.name, "fold": part.fold, **part.facts} for part in parts],
    }


def describe_method(manifest: Mapping[str, Any]) -> str:
    """Return the method of a manifest and its parameters: `leave-last-out (n=1, seed=0)`."""
    parameters = manifest["parameters"]
    shown = [f"{name}={value}" for name, value in parameters.items() if _USUAL.get(name) != value]
    return f"{manifest['method']} ({', '.join(shown)})"


@dataclass(frozen=True)
class SplitManifest:
    """A manifest that was found in the folder of a file."""

    path: Path
    content: Mapping[str, Any]

    @property
    def method(self) -> str:
        """The method of the split."""
        return str(self.content["method"])

    def describe(self) -> str:
        """Return the method and its parameters as text."""
        return describe_method(self.content)

    def find_entry(self, path: Path) -> Mapping[str, Any] | None:
        """Return the entry of a file, None if the manifest does not list it."""
        for entry in self.content["files"]:
            if entry["file"] == path.name:
                return dict(entry)
        return None


def find_manifest(path: Path) -> SplitManifest | None:
    """Return the manifest in the folder of a file, None if there is none.

    Raises `InputError` for a manifest that cannot be read.
    """
    place = path.parent / MANIFEST_NAME
    return read_manifest(place) if place.is_file() else None


def read_manifest(path: Path) -> SplitManifest:
    """Return the manifest of a file; raise `InputError` if it is none, or of another version."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: this manifest of a split cannot be read ({error}).") from None
    is_manifest = isinstance(content, dict) and content.get("format") == _FORMAT
    if not is_manifest or not _is_complete(content):
        raise InputError(
            f"{path}: this is not a manifest of a split that Weft wrote. Split again, or remove "
            "the file."
        )
    if content["version"] != _VERSION:
        raise InputError(
            f"{path}: the manifest has version {content['version']} of the format, but this Weft "
            f"reads version {_VERSION}; split again, or remove it."
        )
    return SplitManifest(path, content)


def _is_complete(content: Mapping[str, Any]) -> bool:
    """Return True if the parts of a manifest that are read have the right types."""
    types = {"version": int, "method": str, "parameters": dict, "files": list}
    if not all(isinstance(content.get(name), kind) for name, kind in types.items()):
        return False
    return all(
        isinstance(entry, dict)
        and all(isinstance(entry.get(name), str) for name in ("file", "part", "digest"))
        and Path(entry["file"]).name == entry["file"] != ""
        for entry in content["files"]
    )

"""Origins of files: the split that a manifest in their folder records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from weft.errors import InputError
from weft.evaluation.splitting.manifest import MANIFEST_NAME, SplitManifest, find_manifest


@dataclass(frozen=True)
class PartOrigin:
    """A file that a manifest in its folder lists as a part of a split."""

    manifest: SplitManifest
    entry: Mapping[str, Any]
    is_changed: bool  # True if the file is not as it was written

    @property
    def part(self) -> str:
        """The part: "train", "validation" or "test"."""
        return str(self.entry["part"])

    def describe_part(self) -> str:
        """Return the part with its fold, and whether the file has changed."""
        fold = self.entry.get("fold")
        part = self.part if fold is None else f"{self.part} of fold {fold}"
        return f"{part}, changed since" if self.is_changed else part

    def is_of_same_split(self, other: PartOrigin) -> bool:
        """Return True if both files are parts of one split, and of the same fold of it."""
        one, two = self.manifest.path.resolve(), other.manifest.path.resolve()
        return one == two and self.entry.get("fold") == other.entry.get("fold")


def find_origin(path: Path) -> PartOrigin | None:
    """Return the origin of a file, None if there is no manifest that lists it.

    Raises `InputError` for a manifest that cannot be read.
    """
    if not path.is_file():
        return None
    manifest = find_manifest(path)
    entry = None if manifest is None else manifest.find_entry(path)
    if manifest is None or entry is None:
        return None
    status = path.stat()
    digest = _digest(path.resolve(), status.st_mtime_ns, status.st_size)
    return PartOrigin(manifest, entry, entry["digest"] != digest)


@lru_cache(maxsize=64)
def _digest(path: Path, changed: int, size: int) -> str:
    """Return the digest of a file, computed once for many evaluations of the same truth."""
    from weft.evaluation.splitting.split_input import digest_files

    return digest_files([path])


def describe_origins(paths: Mapping[str, Path]) -> str | None:
    """Return how the files of truth and train were split, None if no manifest lists them."""
    try:
        found = {name: find_origin(path) for name, path in paths.items()}
    except InputError:
        return f"unknown: {MANIFEST_NAME} in their folder cannot be read"
    origins = {name: origin for name, origin in found.items() if origin is not None}
    if not origins:
        return None
    first, *others = origins.values()
    text = first.manifest.describe()
    if not all(first.is_of_same_split(other) for other in others):
        text = "different splits: " + " and ".join(
            one.manifest.describe() for one in origins.values()
        )
    parts = (f"{name} is {origin.describe_part()}" for name, origin in origins.items())
    return f"{text}; {', '.join(parts)}"

"""Findings about the manifest of a split in the folder of truth or train."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from weft.diagnostics.reading import RawTable
from weft.diagnostics.what_if import DraftFinding
from weft.errors import InputError
from weft.evaluation.splitting.part_origins import PartOrigin, find_origin
from weft.evaluation.splitting.split_settings import TEMPORAL_METHODS

Origins = Mapping[str, PartOrigin]  # by "truth" and "train"


def find_origins(truth: RawTable, train: RawTable | None) -> tuple[Origins, list[DraftFinding]]:
    """Return the origins of the files, and a finding for each manifest that cannot be read."""
    origins, findings = {}, []
    for table in (truth, train):
        if table is None or table.file is None or table.file.pipe is not None:
            continue
        try:
            origin = find_origin(table.file.file.path)
        except InputError as error:
            fix = "Split again, or remove the manifest."
            findings.append(
                _origin_draft_finding("unreadable-manifest", table.where, str(error), fix)
            )
            continue
        if origin is not None:
            origins[table.where] = origin
    return origins, findings


def is_random(origins: Origins) -> bool:
    """Return True if the manifests record splits that do not order rows by time."""
    methods = {origin.manifest.method for origin in origins.values()}
    return bool(methods) and not methods & set(TEMPORAL_METHODS)


def check_origins(origins: Origins) -> Iterator[DraftFinding]:
    """Find files that are not the recorded parts of a split, and parts of different splits."""
    problems = [*_wrong_files(origins), *_wrong_pairs(origins)]
    yield from problems
    if origins and not problems:
        parts = ", ".join(f"{name} is {origin.part}" for name, origin in origins.items())
        manifest = next(iter(origins.values())).manifest
        yield _origin_draft_finding(
            "split-manifest",
            "truth",
            f"The data were split by {manifest.describe()}; {parts}. The files are unchanged.",
            "None needed; report the split together with the results.",
            severity="note",
        )


def _wrong_files(origins: Origins) -> Iterator[DraftFinding]:
    for name, origin in origins.items():
        file = origin.entry["file"]
        if origin.is_changed:
            yield _origin_draft_finding(
                "changed-since-split",
                name,
                f"{file} has changed since {origin.manifest.path.name} was written: its digest "
                f"differs. It was the {origin.part} set of a split by "
                f"{origin.manifest.describe()}.",
                "Split again, or remove the manifest if the change is intended.",
            )
        is_right = origin.part == "train" if name == "train" else origin.part != "train"
        if not is_right:
            yield _origin_draft_finding(
                "wrong-part",
                name,
                f"{file} is the {origin.part} set of its split, but is given as {name}.",
                "Give train as train, and validation or test as truth.",
            )


def _wrong_pairs(origins: Origins) -> Iterator[DraftFinding]:
    if len(origins) < 2:
        return
    truth, train = origins["truth"], origins["train"]
    if not truth.is_of_same_split(train):
        yield _origin_draft_finding(
            "parts-of-two-splits",
            "truth",
            f"{truth.entry['file']} and {train.entry['file']} come from different splits or "
            "folds, so train may contain rows of the truth.",
            "Give truth and train of the same split and fold.",
        )
        return
    last, first = train.entry.get("last"), truth.entry.get("first")
    is_timeline = truth.manifest.method == "timeline" and train.part == "train"
    if is_timeline and type(last) is type(first) and last is not None and last >= first:
        yield _origin_draft_finding(
            "leak-in-split",
            "train",
            f"{truth.manifest.path.name} records a split at one point in time, but train ends at "
            f"{last} and truth begins at {first}.",
            "Split again: the files or the manifest were changed.",
        )


def _origin_draft_finding(
    kind: str, where: str, message: str, fix: str, *, severity: str = "warning"
) -> DraftFinding:
    return DraftFinding(
        kind,
        severity,
        where,
        message,
        1,
        (),
        (),
        fix,
        remark="it does not change the metrics by itself",
    )

"""`Checkpoint`: the file from which an interrupted evaluation resumes."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from weft.errors import InputError, WeftError, setting_ref
from weft.evaluation.atomic_files import write_files
from weft.evaluation.candidates import CandidateProvider
from weft.evaluation.document_fields import check_list, check_mapping, check_whole, describe, reject
from weft.evaluation.documents import pack_document, read_document
from weft.evaluation.evaluator import Evaluator
from weft.evaluation.state import check_compatible
from weft.evaluation.tensor_fields import check_codes, check_plain

_SAVE_SECONDS = 60.0  # between two writings of a checkpoint

_FIELDS = ("identity", "state", "candidates", "done")
Span = tuple[int, int]  # users from the first number to below the second


class Checkpoint:
    """A file with the state of an evaluation and the users that are done.

    `identity` are the facts that must be equal for an evaluation to resume from the file.
    """

    def __init__(self, path: Path, identity: dict[str, Any]) -> None:
        self._path, self._identity = path, identity
        self._done: list[Span] = []
        self._saved = time.monotonic()

    def resume(
        self, evaluator: Evaluator, candidates: CandidateProvider, spans: list[Span]
    ) -> list[Span]:
        """Restore the saved state, if there is one, and return the users that are left.

        Raises `InputError` if the file cannot be read or will not be writable."""
        _check_writable(self._path)
        if not self._path.exists():
            return spans
        document = read_document(self._path)
        if "done" not in document:
            raise InputError(
                f"{self._path}: this is the state of an Evaluator, not of evaluate(); read it "
                "with weft.load_state."
            )
        try:
            self._restore(document, evaluator, candidates)
        except WeftError as error:
            message = f"{self._path}: {error.message} Remove the file to start again."
            raise type(error)(message, setting=error.setting) from None
        for done in self._done:
            spans = [left for span in spans for left in _subtract(span, done)]
        return spans

    def _restore(
        self, document: dict[str, Any], evaluator: Evaluator, candidates: CandidateProvider
    ) -> None:
        """Restore the state, the candidates and the users that are done, after validation."""
        fields = check_mapping(document, "checkpoint", _FIELDS)
        check_compatible(
            check_plain(fields["identity"], "identity"),
            self._identity,
            "cannot resume from this file: the file and this evaluation",
        )
        num_users = evaluator.inputs["num_users"]
        done = [_read_span(span, num_users) for span in check_list(fields["done"], "done")]
        state = check_mapping(fields["state"], "state")
        rows = check_mapping(state.get("rows"), "rows")
        for name in ("users", "table_users"):
            if name in rows:
                check_codes(rows[name], f"rows[{name!r}]", num_users)
        counts = _read_counts(fields["candidates"], candidates.state())
        evaluator.set_extra_state(state)
        candidates.merge(counts)
        self._done = done

    def add(
        self, evaluator: Evaluator, candidates: CandidateProvider, start: int, stop: int
    ) -> None:
        """Mark users as done; once a minute, write the file."""
        if self._done and self._done[-1][1] == start:
            start = self._done.pop()[0]
        self._done.append((start, stop))
        if time.monotonic() - self._saved < _SAVE_SECONDS:
            return
        document = {
            "identity": self._identity,
            "state": evaluator.get_extra_state(),
            "candidates": candidates.state(),
            "done": self._done,
        }
        write_files({self._path: lambda file: file.write(pack_document(document))})
        self._saved = time.monotonic()


def _read_counts(counts: object, own: dict[str, list[int]]) -> dict[str, list[int]]:
    """Return the counts and the digest of candidates, lists as long as the present ones."""
    fields = check_mapping(counts, "candidates", own)
    return {
        name: [
            check_whole(number, f"candidates[{name!r}]", end=1 << (64 if name == "digest" else 63))
            for number in check_list(fields[name], f"candidates[{name!r}]", len(numbers))
        ]
        for name, numbers in own.items()
    }


def _read_span(span: object, num_users: int) -> Span:
    start, stop = (check_whole(one, "done") for one in check_list(span, "done", 2))
    if not start < stop <= num_users:
        reject("done", describe([start, stop]), f"ranges of users below {num_users}")
    return start, stop


def _check_writable(path: Path) -> None:
    """Raise `InputError` if no file can be written to a path. Missing folders are not created."""
    if os.path.isdir(path):  # Path.is_dir raises for names that are too long
        raise InputError(
            f"{setting_ref('checkpoint', str(path))} is a folder; give the path of a file in it."
        )
    try:
        folder = next(parent for parent in path.absolute().parents if parent.exists())
        for name in path.absolute().relative_to(folder).parts:
            with suppress(FileNotFoundError):
                (folder / name).stat()  # raises for names that are too long
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (OSError, ValueError) as error:  # a null character in a path is a ValueError
        reason = error.strerror if isinstance(error, OSError) else error
        raise InputError(
            f"{str(path)!r} cannot be written ({reason}); give {setting_ref('checkpoint')} in a "
            "writable folder."
        ) from None


def _subtract(span: Span, done: Span) -> list[Span]:
    """Return the parts of a span of users that are not done."""
    (start, stop), (first, end) = span, done
    if start >= end or first >= stop:
        return [span]
    parts = (start, min(stop, first)), (max(start, end), stop)
    return [(left, right) for left, right in parts if left < right]

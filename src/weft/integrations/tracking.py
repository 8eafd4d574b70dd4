"""What experiment trackers store of results and comparisons, in forms that all of them accept."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from weft.errors import MissingExtra, SettingError, describe_type
from weft.evaluation.result import Result
from weft.report import require_report_extra
from weft.statistics.comparison import Comparison

# MLflow allows 6,000 characters in a parameter and 8,000 in a tag.
MAX_TEXT = 6000


def import_tracker(tool: str, package: str) -> Any:
    """Return a package of an experiment tracker. Raises `MissingExtra` if it is not installed."""
    try:
        return import_module(package)
    except ModuleNotFoundError as error:
        if str(error.name).partition(".")[0] not in (tool, package.partition(".")[0]):
            raise  # the tracker itself fails to import
        raise MissingExtra(
            f"weft.integrations.{tool} needs {tool}; install it with: pip install 'weft[{tool}]'"
        ) from error


def check_subject(tool: str, subject: object) -> Result | Comparison:
    """Return what is logged. Raises `SettingError` if it is neither a Result nor a Comparison."""
    if isinstance(subject, (Result, Comparison)):
        return subject
    raise SettingError(
        f"weft.integrations.{tool}.log takes a Result or a Comparison; got "
        f"{describe_type(subject)}."
    )


def legal_names(names: Iterable[str]) -> dict[str, str]:
    """Return each name in letters, digits and underscores, which every tracker accepts.

    Names that become equal are numbered.

    >>> legal_names(["nDCG@10", "F1(beta=0.5)@5", "F1(beta=0,5)@5"])
    {'nDCG@10': 'nDCG_at_10', 'F1(beta=0.5)@5': 'F1_beta_0_5_at_5', \
'F1(beta=0,5)@5': 'F1_beta_0_5_at_5_2'}
    """
    legal: dict[str, str] = {}
    for name in names:
        plain = re.sub(r"[^A-Za-z0-9]+", "_", name.replace("@", "_at_")).strip("_") or "metric"
        plain = f"_{plain}" if plain[0].isdigit() else plain
        unique, number = plain, 1
        while unique in legal.values():
            number += 1
            unique = f"{plain}_{number}"
        legal[name] = unique
    return legal


def metric_values(result: Result, prefix: str = "") -> dict[str, float]:
    """Return the values and the ends of their 95% intervals by legal name, without undefined ones.

    The interval of `nDCG_at_10` is `nDCG_at_10_ci_low` to `nDCG_at_10_ci_high`.
    """
    names = legal_names(entry.name for entry in result.entries)
    values: dict[str, float] = {}
    for entry in result.entries:
        name, interval = f"{prefix}{names[entry.name]}", entry.interval
        parts = {"": entry.value, "_ci_low": interval.low, "_ci_high": interval.high}
        values |= {f"{name}{part}": value for part, value in parts.items()}
    return {name: value for name, value in values.items() if math.isfinite(value)}


def setting_texts(result: Result) -> dict[str, str]:
    """Return the settings of a result as texts, by name."""
    return {name: shorten(_as_text(value)) for name, value in result.settings.items()}


def describe(result: Result) -> dict[str, str]:
    """Return the model, the notes, the counts and the provenance of a result as texts."""
    return {
        "model": result.name,
        "notes": shorten("\n".join(result.notes)),
        "counts": shorten(_as_text({name: n for name, n in result.counts.items() if n})),
        "provenance": shorten(_as_text(dict(result.provenance))),
    }


def shorten(text: str) -> str:
    """Return a text that trackers accept; the result that is stored with it has all of it."""
    return text if len(text) <= MAX_TEXT else f"{text[: MAX_TEXT - 4]} ..."


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)


@contextmanager
def artifact_files(subject: Result | Comparison, *, report: bool) -> Iterator[list[Path]]:
    """Write the result as JSON or the comparison as CSV, and the report, to a temporary folder.

    Yield the files. The report is left out if its extra is not installed.
    """
    with TemporaryDirectory(prefix="weft-") as folder:
        yield write_artifacts(subject, Path(folder), report=report)


def write_artifacts(subject: Result | Comparison, folder: Path, *, report: bool) -> list[Path]:
    """Write the files of `artifact_files` to a folder, and return them."""
    name = "result.json" if isinstance(subject, Result) else "comparison.csv"
    files = [subject.save(folder / name)]
    if report and has_report_extra():
        subject.to_html(folder / "report.html")
        files.append(folder / "report.html")
    return files


def has_report_extra() -> bool:
    """True if the packages of `weft[report]` are installed."""
    try:
        require_report_extra()
    except MissingExtra:
        return False
    return True

"""Consoles, progress, tables and files that commands write."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.cli.error_handling import process_rank
from weft.errors import escape_controls

if TYPE_CHECKING:
    from rich.console import Console

    from weft.config.gates import GateOutcome
    from weft.evaluation.result import Result
    from weft.report.context import ReportContext


def open_console(*, stderr: bool = False) -> Console:
    """Return a console that raises `BrokenPipeError`.

    It escapes control characters, and characters that it cannot encode.
    """
    from rich.console import Console
    from rich.segment import Segment

    stream = sys.stderr if stderr else sys.stdout
    is_unicode = (stream.encoding or "utf-8").lower().startswith("utf")
    if not is_unicode and isinstance(stream, TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")

    class PipeConsole(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

        def render(self, *args: Any, **kwargs: Any) -> Iterator[Segment]:
            for segment in super().render(*args, **kwargs):
                if segment.control:
                    yield segment
                else:
                    yield Segment(escape_controls(segment.text), segment.style)

    return PipeConsole(stderr=stderr)


@contextmanager
def show_progress(total: int | None) -> Iterator[Callable[[str], None]]:
    """Yield a function that announces each step.

    Steps are shown as a progress bar on standard error if that is a terminal.
    """
    if not sys.stderr.isatty() or process_rank():
        yield lambda step: None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=open_console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda step: bar.update(task, description=step, advance=1)


# --------------------------------------------------------------------------------------------------


def print_results(
    console: Console, results: Sequence[Result], *, numbers: str = "--format csv"
) -> None:
    """Print counts, the table of values, tables of slices, and notes.

    `numbers` is that of `results_tables`.
    """
    from weft.report.terminal import (
        console_symbols,
        counts_line,
        note_lines,
        paragraph,
        print_notes,
        print_tables,
        results_tables,
        slice_tables,
    )

    signs = console_symbols(console)
    console.print(paragraph(counts_line(results), console.width))
    console.print()
    legend, tables = results_tables(results, console.width, signs, numbers=numbers)
    if legend:
        console.print(paragraph(legend, console.width, "italic"))
    print_tables(console, tables)
    for title, table in slice_tables(results, console.width, signs):
        console.print()
        console.print(paragraph(title, console.width, "italic"))
        console.print(table)
    print_notes(console, note_lines(results))


def print_counts_and_notes(console: Console, results: Sequence[Result]) -> None:
    """Print counts and notes of results, for a table on another stream."""
    from weft.report.terminal import counts_line, note_lines, paragraph, print_notes

    console.print(paragraph(counts_line(results), console.width, "dim"))
    print_notes(console, note_lines(results))


def print_gates(console: Console, outcomes: Sequence[GateOutcome], notes: Iterable[str]) -> None:
    """Print the outcome of every gate, and how many passed."""
    from rich.text import Text

    console.print()
    for outcome in outcomes:
        style = "" if outcome.passed else "bold red"
        console.print(Text(f"gate {outcome}", style=style), soft_wrap=True)
    for note in notes:
        console.print(Text(f"gate warning: {note}", style="yellow"), soft_wrap=True)
    console.print(f"{sum(outcome.passed for outcome in outcomes)} of {len(outcomes)} gates passed.")


def print_written(console: Console, written: Sequence[object]) -> None:
    """Print the files that were written, if any."""
    if written:
        console.print(f"\nWritten: {', '.join(map(str, written))}", soft_wrap=True, markup=False)


# --------------------------------------------------------------------------------------------------


def check_folder(folder: Path, option: str) -> None:
    """Raise `InputError` if the folder cannot be written to. `option` names it in messages."""
    from weft.errors import InputError

    existing = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    if not existing.is_dir():
        raise InputError(f"{option}: {existing} is a file; give a folder.")
    if not os.access(existing, os.W_OK | os.X_OK):
        raise InputError(f"{option}: you have no permission to write to {existing}.")


def check_file(path: Path, option: str) -> None:
    """Raise `InputError` if the file cannot be written. `option` names it in messages."""
    from weft.errors import InputError

    if path.is_dir():
        raise InputError(f"{option}: this is a folder; give the name of a file.")
    check_folder(path.parent, option)


def check_report(path: Path | None, title: str | None) -> None:
    """Raise an error if a report cannot be made or written, before anything is computed."""
    from weft.config.sections import REPORT_SUFFIXES
    from weft.errors import SettingError
    from weft.report import require_report_extra

    if path is None:
        if title is not None:
            raise SettingError(
                "--report-title (report_title) is the title of the report, but no report is "
                "written; give its file with --report FILE."
            )
        return
    if path.suffix.lower() not in REPORT_SUFFIXES:
        endings = " or ".join(REPORT_SUFFIXES)
        raise SettingError(f"--report {path}: give a name that ends in {endings}.")
    require_report_extra()
    check_file(path, f"--report {path}")


def render_report(
    subject: ReportContext, path: Path, *, title: str | None = None
) -> dict[Path, str]:
    """Return the text of the report by its path."""
    with show_progress(None) as step:
        step("making the report")
        from weft.report.html import render

        return {path: render(subject, title=title)}

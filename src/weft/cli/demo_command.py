"""`weft demo`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.error_handling import Debug
from weft.cli.output import (
    check_folder,
    open_console,
    print_results,
    print_written,
    render_report,
    show_progress,
)

if TYPE_CHECKING:
    from rich.console import Console

    from weft.evaluation.result import Result


def demo(
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder for the results and the data.")
    ] = Path("weft-demo"),
    debug: Debug = False,
) -> None:
    """Evaluate three recommenders on an embedded data set.

    The recommenders are pop (popularity), knn (item-based nearest neighbours) and als (matrix
    factorization by alternating least squares). The command prints a table and writes the results
    (als.json, ...), an HTML report, and the data as files: train.csv, test.csv, users.csv,
    items.csv, and the recommendation lists als.csv, knn.csv and pop.csv. It needs no files and no
    network. The report needs an extra: pip install 'weft\\[report]'.

    Examples:

    \b
      weft demo
      weft demo --out /tmp/weft-demo
    """
    check_folder(out, f"--out {out}")
    with show_progress(6) as step:
        step("loading torch")
        from weft.cli.demo import demo_files, demonstration
        from weft.report.result_folder import save_results
        from weft.report.terminal.console_text import paragraph

        found = demonstration.run(step)
    inputs = {out / name: text for name, text in demo_files.input_files(found).items()}
    results = [replace(result, lists=None) for result in found]
    page, missing_extra = _render_report(results, out)
    files = save_results(results, out, report=page | inputs)
    console = open_console()
    models = ", ".join(f"{name} ({about})" for name, about in demonstration.MODELS.items())
    console.print(paragraph(f"Models: {models}.", console.width))
    shown = [demonstration.shorten_result(result) for result in results]
    print_results(console, shown, numbers=f"{out / 'summary.csv'}")
    cutoffs = ", ".join(str(k) for k in demonstration.TOP_K if k != demonstration.SHOWN_CUTOFF)
    console.print(
        f"\nNot shown: the cut-offs {cutoffs}, and values by groups of users and of items.",
        style="dim",
        highlight=False,
    )
    tables = f"{', '.join(map(str, files))} (with values per user)"
    print_written(console, [tables, *page])
    data = f"Data files in {out}: {', '.join(path.name for path in inputs)}"
    console.print(paragraph(data, console.width), soft_wrap=True)
    if not page:
        console.print(f"report.html was not written: {missing_extra}", soft_wrap=True, markup=False)
    for path in page:
        console.print(f"Open {path} in a browser.", soft_wrap=True, markup=False)
    _print_next_commands(console, out, files)


def _print_next_commands(console: Console, folder: Path, files: Sequence[Path]) -> None:
    """Print commands for the files that were written; `files` are the results."""
    lists = f"--recs {folder / 'als.csv'} --recs {folder / 'pop.csv'}"
    groups = f"--slice gender={folder / 'users.csv'}:gender"
    commands = [
        f"weft compare {files[2]} {files[1]} -m nDCG@10,EPC@10",
        "weft metrics MAP --profiles",
        f"weft evaluate {lists} \\\n    --truth {folder / 'test.csv'} {groups}",
    ]
    console.print("\nNext, try:")
    for command in commands:
        console.print(f"  {command}", soft_wrap=True, markup=False, highlight=False)


def _render_report(results: Sequence[Result], folder: Path) -> tuple[dict[Path, str], str]:
    """Return the text of the report by its path, or nothing and how to install what it needs."""
    from weft.errors import MissingExtra
    from weft.report import require_report_extra

    try:
        require_report_extra()
    except MissingExtra as error:
        return {}, str(error)
    from weft.report.context import ReportContext
    from weft.statistics import compare

    return render_report(ReportContext.from_result(compare(results)), folder / "report.html"), ""

"""`weft compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft._choices import CorrectionName, TestName, choices
from weft.cli.error_handling import Debug, print_text
from weft.cli.flags import split_names
from weft.cli.options import (
    GUARD_CSV,
    REPORT_TITLE,
    RESULT_FORMATS,
    ReportPath,
    ResultFormat,
    add_options,
    complete_words,
    declare,
    declare_choice,
    with_default,
)
from weft.cli.output import (
    check_report,
    open_console,
    print_written,
    render_report,
)
from weft.config.evaluation_section import CorrectionSettings, SignificanceSettings
from weft.evaluation.setting_rules import METRICS, OUTPUT

if TYPE_CHECKING:
    from rich.console import Console

    from weft.statistics import Comparison

TESTS = choices(TestName)
_TESTS_PANEL = "Significance tests"
_SETTINGS = [
    declare(
        "metrics",
        list[str] | None,
        "--metrics",
        "--metric",
        "-m",
        metavar="NAMES",
        rich_help_panel=METRICS,
        help="Metrics to compare, such as nDCG@10,MRR@5. May be repeated. Default: all metrics of "
        "the results.",
    ),
    declare(
        "tests",
        list[str] | None,
        "--test",
        "-t",
        metavar="CHOICE",
        rich_help_panel=_TESTS_PANEL,
        help=f"Significance test: {', '.join(TESTS)}. May be repeated. Default: paired_t, and "
        "bootstrap for metrics without values per user.",
        autocompletion=complete_words(*TESTS),
    ),
    declare_choice(
        "correction",
        choices(CorrectionName),
        default="holm",
        rich_help_panel=_TESTS_PANEL,
        about="Correction of the p-values for multiple tests.",
    ),
    *(
        with_default(SignificanceSettings, name, rich_help_panel=_TESTS_PANEL)
        for name in ("family", "alternative", "resamples")
    ),
    with_default(CorrectionSettings, "alpha", rich_help_panel=_TESTS_PANEL),
    declare(
        "seed",
        int,
        default=0,
        show_default=True,
        rich_help_panel=_TESTS_PANEL,
        help="Seed of the random numbers in the randomization test.",
    ),
]


_OUTPUT = [
    declare(
        "pairs",
        bool | None,
        "--pairs/--no-pairs",
        rich_help_panel=OUTPUT,
        help="Show a table for every pair of models. Default: only for --format table with up to "
        "three models.",
    ),
    declare(
        "out",
        Path | None,
        metavar="FILE",
        rich_help_panel=OUTPUT,
        help="File for the comparison, in the format of its suffix: .json, .csv, .parquet, .md, "
        ".tex or .typ.",
    ),
]
_ResultPaths = Annotated[
    list[Path],
    typer.Argument(
        metavar="RESULT.json",
        help="Two or more result files with values per user or bootstrap resamples.",
        show_default=False,
    ),
]


@add_options(*_SETTINGS, *_OUTPUT, REPORT_TITLE, GUARD_CSV)
def compare(
    results: _ResultPaths,
    *,
    format: ResultFormat = "table",  # noqa: A002
    report: ReportPath = None,
    debug: Debug = False,
    **options: Any,
) -> None:
    """Compare two or more evaluated models with significance tests.

    The output shows differences with confidence intervals, p-values adjusted for multiple tests,
    and effect sizes.

    The results must contain values per user, which 'weft evaluate --out DIR --per-user' writes.
    Metrics without a value per user, such as Gini, are compared if the results were evaluated with
    --bootstrap 1000.

    Examples:

    \b
      weft compare results/als.json results/pop.json
      weft compare results/*.json -m nDCG@10 -t wilcoxon --correction fdr
      weft compare results/als.json results/pop.json --format latex > table.tex
      weft compare results/*.json --report report.html
    """
    from weft.errors import check_choice

    chosen = check_choice("format", format, RESULT_FORMATS)
    out, pairs, guard_csv = (options.pop(name) for name in ("out", "pairs", "guard_csv"))
    title = options.pop("report_title")
    _check_outputs(out, report, title)
    from weft.evaluation.atomic_files import Writer, text_writer, write_files
    from weft.evaluation.result_io import load_result
    from weft.report.context import ReportContext
    from weft.statistics import compare as compare_results

    console = open_console(stderr=chosen != "table")
    options["metrics"] = options["metrics"] and split_names(options["metrics"])
    options["tests"] = options["tests"] or None
    comparison = compare_results([load_result(path) for path in results], **options)
    files: dict[Path, Writer] = {}
    if out is not None:
        files[out] = comparison.file_writer(out, pairs=bool(pairs), guard_formulas=guard_csv)
    if report is not None:
        pages = render_report(ReportContext.from_result(comparison), report, title=title)
        files |= {path: text_writer(text) for path, text in pages.items()}
    write_files(files)
    _print(console, comparison, chosen, pairs=pairs, guard_csv=guard_csv)
    print_written(console, list(files))


def _print(
    console: Console, comparison: Comparison, format_: str, *, pairs: bool | None, guard_csv: bool
) -> None:
    """Print the comparison, with a hint to pairs that the table does not show."""
    from weft.report.terminal import print_comparison, print_comparison_notes

    if format_ == "table":
        print_comparison(console, comparison, pairs=pairs)
        if pairs is None and len(comparison.results) > 3:
            console.print("\nFor a table of each pair of models, use --pairs.", style="dim")
    else:
        print_text(comparison.to_text(format_, pairs=bool(pairs), guard_formulas=guard_csv))
        print_comparison_notes(console, comparison)


def _check_outputs(out: Path | None, report: Path | None, title: str | None) -> None:
    """Raise an error for output that cannot be written, before anything is computed."""
    from weft.errors import SettingError
    from weft.statistics.comparison import SUFFIXES

    if out is not None and out.suffix.lower() not in SUFFIXES:
        raise SettingError(f"--out {out}: give a name that ends in one of {', '.join(SUFFIXES)}.")
    check_report(report, title)

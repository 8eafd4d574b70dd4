"""`weft compare`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from weft._choices import Alternative, CorrectionFamily, CorrectionName, TestName, choices
from weft.cli.completion import complete_words
from weft.cli.error_handling import Debug
from weft.cli.flags import split_names
from weft.cli.options import (
    RESULT_FORMATS,
    ReportPath,
    ResultFormat,
    add_options,
    declare,
    declare_choice,
)
from weft.cli.output import (
    check_report,
    open_console,
    print_comparison,
    print_comparison_notes,
    print_written,
    write_report,
)

TESTS = choices(TestName)
_SETTINGS = [
    declare(
        "metrics",
        list[str] | None,
        "--metrics",
        "--metric",
        "-m",
        metavar="NAMES",
        help="Compare only these, such as nDCG@10,MRR@5; may be repeated.",
    ),
    declare(
        "tests",
        list[str] | None,
        "--test",
        "-t",
        help=f"Significance tests: {', '.join(TESTS)}; may be repeated. Default: paired_t.",
        autocompletion=complete_words(*TESTS),
    ),
    declare_choice(
        "correction",
        choices(CorrectionName),
        default="holm",
        about="Correction of the p-values for multiple tests.",
    ),
    declare_choice(
        "family",
        choices(CorrectionFamily),
        default="test",
        about="Tests that are corrected as one family: all of one test, of one metric, of one "
        "pair, or all.",
    ),
    declare_choice(
        "alternative",
        choices(Alternative),
        default="two-sided",
        about="Alternative hypothesis: a difference, or that the first of two models has greater "
        "or less values.",
    ),
    declare("alpha", float, default=0.05, help="Significance level."),
    declare("resamples", int, default=10_000, help="Resamples of the randomization test."),
    declare("seed", int, default=0, show_default=True, help="Seed of the randomization test."),
]


@add_options(*_SETTINGS)
def compare(
    results: Annotated[
        list[Path],
        typer.Argument(help="Two or more result files with values per user.", show_default=False),
    ],
    *,
    pairs: Annotated[
        bool | None,
        typer.Option(
            "--pairs/--no-pairs",
            help="Show every pair of models. By default a table shows them for up to three models; "
            "Markdown and LaTeX do not.",
            show_default=False,
        ),
    ] = None,
    format: ResultFormat = "table",  # noqa: A002
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Also write the comparison to a file in .json, .csv, .parquet, .md or .tex.",
            show_default=False,
        ),
    ] = None,
    report: ReportPath = None,
    debug: Debug = False,
    **settings: Any,
) -> None:
    """Compare models user by user: differences with intervals, paired tests, adjusted p-values,
    effect sizes.

    The results must have values per user: weft evaluate ... --out DIR --per-user writes them.

    \b
    weft compare results/als.json results/pop.json
    weft compare results/*.json -m nDCG@10 -t wilcoxon --correction fdr
    weft compare results/als.json results/pop.json --format latex > table.tex
    weft compare results/*.json --report report.html
    """
    from weft.errors import check_choice

    chosen = check_choice("format", format, RESULT_FORMATS)
    _check_outputs(out, report)
    from weft.evaluation.result_io import load_result
    from weft.statistics import compare as compare_results

    console = open_console(stderr=chosen != "table")
    settings["metrics"] = split_names(settings["metrics"])
    settings["tests"] = settings["tests"] or ["paired_t"]
    comparison = compare_results([load_result(path) for path in results], **settings)
    if out is not None:
        comparison.save(out, pairs=bool(pairs))
    if chosen == "table":
        print_comparison(console, comparison, pairs=pairs)
        if pairs is None and len(comparison.results) > 3:
            console.print("Every pair: --pairs, or --format csv.", style="dim")
    else:
        sys.stdout.write(comparison.to_text(chosen, pairs=bool(pairs)))
        print_comparison_notes(console, comparison)
    written = [] if out is None else [out]
    if report is not None:
        from weft.report.context import ReportContext

        written.append(write_report(ReportContext.from_result(comparison), report))
    print_written(console, written)


def _check_outputs(out: Path | None, report: Path | None) -> None:
    """Raise an error for output that cannot be written, before anything is computed."""
    from weft.errors import SettingError
    from weft.statistics.comparison import SUFFIXES

    if out is not None and out.suffix.lower() not in SUFFIXES:
        raise SettingError(f"--out {out}: give a name that ends in one of {', '.join(SUFFIXES)}.")
    if report is not None:
        check_report(report)

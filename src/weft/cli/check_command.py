"""`weft check`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from weft.cli.error_handling import Debug, print_text
from weft.cli.evaluate_command import load_configuration
from weft.cli.options import (
    CUSTOM_MODULES,
    FILE_OPTIONS,
    READING_OPTIONS,
    ConfigPath,
    OutputOption,
    add_options,
    complete_words,
    settings_options,
)
from weft.cli.output import show_progress

_FORMATS = ("table", "json")


@add_options(
    *FILE_OPTIONS,
    *settings_options(
        "metrics", "top_k", "relevance_threshold", "implicit", "feature_separator", "profile"
    ),
    *READING_OPTIONS,
    CUSTOM_MODULES,
)
def check(
    config: ConfigPath = None,
    *,
    format: Annotated[  # noqa: A002
        str,
        OutputOption(
            "--format",
            "-f",
            metavar="CHOICE",
            help="Output format: table or json.",
            autocompletion=complete_words(*_FORMATS),
        ),
    ] = "table",
    strict: Annotated[
        bool, OutputOption("--strict", help="Also fail (exit code 1) if there are warnings.")
    ] = False,
    debug: Debug = False,
    **options: Any,
) -> None:
    """Check the input files for common problems, and show how they affect the metrics.

    The checks include ids that do not match, duplicates, train interactions in truth or lists,
    short lists, missing users, ties, scores that are missing or constant, and train data that is
    later than the truth. Each finding has a count, the first rows, and the values of the metrics
    with and without the problem. If no metrics are given, nDCG@10 and Recall@10 are computed.

    Examples:

    \b
      weft check --recs knn.csv --truth test.csv --train train.csv
      weft check --recs a=a.csv --recs b=b.tsv --truth test.csv -m nDCG -k 10,20
      weft check config.yaml --strict
    """
    from weft.errors import check_choice

    chosen = check_choice("format", format, _FORMATS)
    with show_progress(None) as step:
        step("loading torch")
        from weft.diagnostics import check_configuration

        checked = check_configuration(load_configuration("weft check", config, options), step)
    print_text(checked.to_json() if chosen == "json" else str(checked))
    if checked.of("error") or (strict and checked.of("warning")):
        raise typer.Exit(1)

"""`weft metrics`: the list of metrics, the definition of one, and its variants in other tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from weft.cli.error_handling import Debug
from weft.cli.options import complete_metrics

if TYPE_CHECKING:
    from weft.metrics.base.metric import BaseMetric


def metrics(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME",
            help="A metric to explain.",
            show_default=False,
            autocompletion=complete_metrics,
        ),
    ] = None,
    profiles: Annotated[
        bool,
        typer.Option(
            "--profiles", help="Show the metric as other tools define it, on the same lists."
        ),
    ] = False,
    debug: Debug = False,
) -> None:
    """List the metrics, or explain one.

    \b
    weft metrics
    weft metrics nDCG
    weft metrics MAP --profiles
    """
    if name is None:
        _list_metrics(with_profiles=profiles)
        return
    from weft.metrics.names import parse_name
    from weft.metrics.registry import find_metric

    metric = find_metric(parse_name(name).name)  # of nDCG@10, too
    if profiles:
        _print_definitions(metric)
    else:
        _explain_metric(metric)


def _list_metrics(*, with_profiles: bool) -> None:
    """Print every metric, by family."""
    from rich.text import Text

    from weft.cli.output import open_console
    from weft.metrics import profiles, registry
    from weft.report import definitions
    from weft.report.terminal import trimmed_table

    table, trimmed = trimmed_table(
        "metric", "better", "covered by" if with_profiles else "what it is"
    )
    family = None
    for metric in registry.all_metrics():
        if metric.family != family:
            if family is not None:
                table.add_section()
            family = metric.family
            table.add_row(Text(family, style="bold"), "", "")
        if with_profiles:
            tools = profiles.tool_definitions(metric.__name__).items()
            last = ", ".join(tool for tool, found in tools if not isinstance(found, str))
        else:
            last = definitions.describe(metric).summary
        direction = definitions.direction(metric).partition(" (")[0]
        table.add_row(definitions.title(metric), direction, Text(last))
    open_console().print(trimmed)


def _explain_metric(metric: type[BaseMetric]) -> None:
    """Print a metric's docstring, parameters, direction, range, inputs and reference."""
    from rich.text import Text

    from weft.cli.output import open_console
    from weft.report import definitions
    from weft.report.terminal import paragraph

    console = open_console()
    words = definitions.describe(metric)
    console.print(Text(definitions.title(metric), style="bold"))
    titled = (("Edge cases: ", words.edge_cases), ("Example: ", words.example))
    paragraphs = [
        words.summary,
        *words.definition.split("\n\n"),
        *(title + text for title, text in titled if text),
    ]
    for text in filter(None, paragraphs):
        console.print()
        console.print(paragraph(text, console.width))
    if words.code:
        console.print()
        console.print(Text(words.code), soft_wrap=True)
    console.print()
    for title, text in definitions.list_facts(metric):
        console.print(paragraph(text, console.width, first=f"{title:<10} "))


def _print_definitions(metric: type[BaseMetric]) -> None:
    """Print a metric's values under every tool's definition, on the same lists."""
    from rich.text import Text

    from weft.cli.output import open_console
    from weft.report import definitions
    from weft.report.terminal import paragraph, trimmed_table

    console = open_console()
    introduction = (
        f"{definitions.title(metric)} as each tool defines it, on the same four lists of up to "
        f"{definitions.K} items: with every rating 1, and with ratings of 1 to 5."
    )
    console.print(paragraph(introduction, console.width))
    table, trimmed = trimmed_table(
        "tool", "Weft's name for it", "ratings 1", "ratings 1-5", numbers=2
    )
    rows = definitions.compare_definitions(metric)
    for row in rows:
        name = Text(row.name) if row.name else Text(row.reason, style="dim")
        table.add_row(row.tool, name, row.binary or "-", row.graded or "-")
    console.print(trimmed)
    covered = {row.tool for row in rows}
    missing = [tool for tool in definitions.profile_tools() if tool not in covered]
    if missing:
        console.print(paragraph(f"not covered by: {', '.join(missing)}", console.width, "dim"))

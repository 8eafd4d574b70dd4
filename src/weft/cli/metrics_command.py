"""`weft metrics`: the list of metrics, the definition of one, and its variants in other tools."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from weft.cli.error_handling import Debug
from weft.cli.flags import locate_modules
from weft.cli.options import CUSTOM_MODULES, add_options, complete_metrics

if TYPE_CHECKING:
    from rich.console import Console

    from weft.metrics.base.metric import BaseMetric
    from weft.report.definitions import ParameterDescription


_Name = Annotated[
    str | None,
    typer.Argument(
        metavar="NAME",
        help="Metric to explain, or text to search for.",
        show_default=False,
        autocompletion=complete_metrics,
    ),
]
_Family = Annotated[
    str | None,
    typer.Option(
        "--family",
        metavar="FAMILY",
        help="List only metrics of this family, such as accuracy or novelty.",
    ),
]
_Needs = Annotated[
    str | None,
    typer.Option(
        "--needs", metavar="INPUT", help="List only metrics that need this input, such as train."
    ),
]
_Have = Annotated[
    str | None,
    typer.Option(
        "--have",
        metavar="INPUTS",
        help="List only metrics that can be computed from the truth and these inputs, separated "
        "by commas, such as lists,train: scores (of all items), lists, train, user_groups and "
        "others.",
    ),
]
_Profiles = Annotated[
    bool,
    typer.Option(
        "--profiles",
        help="Show the definitions of other tools, with their values on the same lists.",
    ),
]


@add_options(CUSTOM_MODULES)
def metrics(
    name: _Name = None,
    family: _Family = None,
    needs: _Needs = None,
    have: _Have = None,
    profiles: _Profiles = False,
    debug: Debug = False,
    **options: Any,
) -> None:
    """List the metrics, search for metrics, or explain one.

    Without a name, all metrics are listed. The name of a metric shows its definition; other text
    lists the metrics that it describes.

    Examples:

    \b
      weft metrics
      weft metrics nDCG
      weft metrics novelty
      weft metrics --family accuracy --have lists
      weft metrics --needs train
      weft metrics MAP --profiles
      weft metrics MyMetric --custom-modules my_metrics.py
    """
    from weft.metrics.names import parse_name
    from weft.metrics.registry import all_metrics, find_metric
    from weft.report.definitions import search_metrics

    if modules := options["custom_modules"]:
        from weft.config.custom_modules import import_modules

        import_modules(locate_modules(modules))
    is_filtered = any(option is not None for option in (family, needs, have))
    found = all_metrics() if name is None else []
    if name is not None:
        is_phrase = all(word.isalnum() for word in name.split())  # "hit rate" is no name
        text = name if is_phrase else parse_name(name).name  # of nDCG@10, too
        is_metric = any(metric.__name__.casefold() == text.casefold() for metric in all_metrics())
        found = [] if is_metric and not is_filtered else search_metrics(text)
        if not found:
            metric = find_metric(text)  # or raises an error with a suggestion
            (_print_definitions if profiles else _explain_metric)(metric)
            return
    _list_metrics(_filter_metrics(found, family, needs, have), with_profiles=profiles)


def _filter_metrics(
    metrics: list[type[BaseMetric]], family: str | None, needs: str | None, have: str | None
) -> list[type[BaseMetric]]:
    """Return the metrics of a family that need an input and can run with some inputs."""
    from weft._input_kinds import BUILT_IN_INPUTS
    from weft.errors import check_choice
    from weft.metrics.registry import all_metrics
    from weft.report.definitions import needed_inputs

    known = all_metrics()
    inputs = dict.fromkeys(one for metric in known for one in needed_inputs(metric))
    if family is not None:
        families = tuple(dict.fromkeys(metric.family for metric in known))
        family = check_choice("family", family, families)
        metrics = [metric for metric in metrics if metric.family == family]
    if needs is not None:
        needs = check_choice("needs", needs, tuple(inputs))
        metrics = [metric for metric in metrics if needs in needed_inputs(metric)]
    if have is not None:
        allowed = ("truth", "scores", "lists", *dict.fromkeys((*BUILT_IN_INPUTS, *inputs)))
        given = {check_choice("have", one.strip(), allowed) for one in have.split(",")}
        metrics = [metric for metric in metrics if _can_run(metric, given)]
    return metrics


def _can_run(metric: type[BaseMetric], given: set[str]) -> bool:
    """Return True if a metric needs no other inputs than those given."""
    from weft.metrics.registry import example_spec, prototype
    from weft.report.definitions import missing_inputs

    if missing_inputs(metric, given):
        return False
    has_lists = "lists" in given and "scores" not in given
    return not (has_lists and prototype(example_spec(metric)).needs_all_scores)


def _list_metrics(metrics: list[type[BaseMetric]], *, with_profiles: bool) -> None:
    """Print metrics, by family."""
    from rich.text import Text

    from weft.cli.output import open_console
    from weft.metrics import profiles
    from weft.report import definitions
    from weft.report.terminal import trimmed_table

    console = open_console()
    if not metrics:
        console.print("No metric matches.")
        return
    last_title = "covered by" if with_profiles else "description"
    table, trimmed = trimmed_table("metric", last_title)
    family = None
    for metric in metrics:
        if metric.family != family:
            if family is not None:
                table.add_section()
            family = metric.family
            table.add_row(Text(family, style="bold"), "")
        if with_profiles:
            tools = profiles.tool_definitions(metric.__name__).items()
            last = ", ".join(tool for tool, found in tools if not isinstance(found, str))
        else:
            last = definitions.describe(metric).summary
        direction = definitions.direction(metric).partition(" (")[0]
        needed = definitions.describe_inputs(metric)
        facts = f"better: {direction}" + (f"; needs {needed}" if needed else "")
        table.add_row(definitions.title(metric), Text(f"{last}\n").append(facts, style="dim"))
    console.print(trimmed)


def _explain_metric(metric: type[BaseMetric]) -> None:
    """Print a metric's docstring without the formula, and its properties."""
    from rich.text import Text

    from weft.cli.output import open_console
    from weft.report import definitions
    from weft.report.terminal import paragraph

    console = open_console()
    words = definitions.describe(metric)
    console.print(Text(definitions.title(metric), style="bold"))
    titled = (
        ("When to use it: ", words.use),
        ("Edge cases: ", words.edge_cases),
        ("Example: ", words.example),
    )
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
    _print_parameters(console, definitions.describe_parameters(metric))
    console.print()
    for title, text in definitions.list_facts(metric):
        console.print(paragraph(text, console.width, first=f"{title:<10} "))


def _print_parameters(console: Console, parameters: list[ParameterDescription]) -> None:
    """Print each parameter with its default and its description."""
    from rich.text import Text

    from weft.report.terminal import paragraph

    if parameters:
        console.print("\nParameters:")
    for one in parameters:
        console.print(Text(f"  {one.name} {f'= {one.default}' if one.default else '(required)'}"))
        if one.text:
            console.print(paragraph(one.text, console.width, first=" " * 6))


def _print_definitions(metric: type[BaseMetric]) -> None:
    """Print a metric's values under every tool's definition, on the same lists."""
    from rich.text import Text

    from weft.cli.output import open_console
    from weft.report import definitions
    from weft.report.terminal import paragraph, trimmed_table

    console = open_console()
    introduction = (
        f"{definitions.title(metric)} as each tool defines it, computed on the same four lists of "
        f"up to {definitions.K} items, with all ratings 1 and with ratings from 1 to 5."
    )
    console.print(paragraph(introduction, console.width))
    table, trimmed = trimmed_table("tool", "name in Weft", "ratings 1", "ratings 1-5", numbers=2)
    rows = definitions.compare_definitions(metric)
    for row in rows:
        name = Text(row.name) if row.name else Text(row.reason, style="dim")
        table.add_row(row.tool, name, row.binary or "-", row.graded or "-")
    console.print(trimmed)
    covered = {row.tool for row in rows}
    missing = [tool for tool in definitions.profile_tools() if tool not in covered]
    if missing:
        console.print(paragraph(f"Not available in: {', '.join(missing)}", console.width, "dim"))

"""The command line. Thin: every command builds the same objects as Python does, and imports them when it runs."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from weft.metrics.base import BaseMetric

app = typer.Typer(
    name="weft",
    help="Measures recommender systems: every metric of the field, in one pass over the users.",
    epilog="Start with: weft demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
_debug = False


def main() -> None:
    """The entry point: an error of the user's is one readable message and exit code 2."""
    from weft.errors import WeftError

    try:
        app()
    except WeftError as error:
        if _debug:
            raise
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None


@contextmanager
def _steps(total: int) -> Iterator[Callable[[str], None]]:
    """A function to tell what begins, shown as a progress bar on standard error if that is a terminal."""
    if not sys.stderr.isatty():
        yield lambda what: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda what: bar.update(task, description=what, advance=1)


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"weft {version('weft')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    global _debug
    _debug = debug


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The folder for the results.")] = Path("weft-demo"),
) -> None:
    """Evaluate three recommenders on the embedded data set, print a table, write the results as JSON.

    Needs no files and no network.
    """
    from rich.console import Console

    console = Console()
    with _steps(6) as step:
        step("loading torch")
        from weft.demo import run as demonstration
        from weft.report.terminal import results_table

        results = demonstration.run(step)
    files = demonstration.save(results, out)
    first = results[0]
    console.print(
        f"{first.counts['evaluated_users']:,} users, {first.counts['items']:,} items, "
        f"{first.counts['relevant_items']:,} held-out interactions; what users have seen is masked.\n"
    )
    console.print(results_table(results))
    shared = set.intersection(*(set(result.notes) for result in results))
    for note in (note for note in first.notes if note in shared):
        console.print(f"[dim]all: {note}[/dim]", highlight=False)
    for result in results:
        for note in (note for note in result.notes if note not in shared):
            console.print(f"[dim]{result.name}: {note}[/dim]", highlight=False)
    console.print(f"\nWritten: {', '.join(map(str, files))} (and values per user beside them)", highlight=False, soft_wrap=True)
    console.print("\nNext, try:")
    console.print(f"  weft compare {files[1]} {files[2]}", highlight=False, soft_wrap=True)
    console.print("  weft metrics MAP --profiles", highlight=False)


@app.command()
def compare(
    results: Annotated[list[Path], typer.Argument(help="Result files, two or more, with values per user.", show_default=False)],
    metric: Annotated[list[str] | None, typer.Option("--metric", "-m", help="Compare this metric only; may be repeated.")] = None,
    test: Annotated[list[str] | None, typer.Option("--test", "-t", help="paired_t or wilcoxon; may be repeated.")] = None,
    correction: Annotated[str, typer.Option(help="holm, bonferroni, fdr or none.")] = "holm",
    alpha: Annotated[float, typer.Option(help="The level of significance.")] = 0.05,
) -> None:
    """Compare models user by user: differences with intervals, paired tests, adjusted p-values.

    Example: weft compare weft-demo/item_knn.json weft-demo/factors.json -m nDCG@10
    """
    from rich.console import Console

    from weft.report.terminal import comparison_tables
    from weft.result import load_result
    from weft.significance import compare as compare_results

    console = Console()
    comparison = compare_results(
        [load_result(path) for path in results],
        metrics=metric,
        tests=test or ["paired_t"],
        correction=correction,
        alpha=alpha,
    )
    for table in comparison_tables(comparison):
        console.print(table)
    for name, front in comparison.fronts.items():
        console.print(
            f"{name}: {', '.join(front.models)} on the Pareto front, hypervolume {front.hypervolume:.4f}", highlight=False
        )
    for note in comparison.notes:
        console.print(f"[dim]{note}[/dim]", highlight=False)


@app.command()
def metrics(
    name: Annotated[str | None, typer.Argument(help="A metric to explain.", show_default=False)] = None,
    profiles: Annotated[
        bool, typer.Option("--profiles", help="Show the metric as other tools define it, on the same lists.")
    ] = False,
) -> None:
    """List the metrics, or explain one.

    Examples: weft metrics nDCG, weft metrics MAP --profiles
    """
    from weft import registry

    if name is not None and profiles:
        _compare_definitions(registry.find(name))
    elif name is not None:
        _explain(registry.find(name))
    else:
        _list_metrics(with_profiles=profiles)


def _list_metrics(*, with_profiles: bool) -> None:
    """Print every metric, by family."""
    from rich.console import Console
    from rich.table import Table

    from weft import profiles, registry
    from weft.report import definitions

    table = Table()
    columns = ("metric", "family", "better", "covered by") if with_profiles else ("metric", "family", "better", "what it is")
    for column in columns:
        table.add_column(column)
    for metric in registry.all_metrics():
        known = [tool for tool, found in profiles.definitions(metric.__name__).items() if not isinstance(found, str)]
        last = ", ".join(known) if with_profiles else definitions.words(metric).summary
        table.add_row(definitions.title(metric), metric.family, definitions.better(metric), last)
    Console().print(table)


def _explain(metric: type[BaseMetric]) -> None:
    """Print what a metric is: its docstring, parameters, direction, range, needs and reference."""
    import inspect

    from weft.report import definitions

    print(definitions.title(metric))
    print()
    print(inspect.cleandoc(metric.__doc__ or ""))
    print()
    for what, text in definitions.facts(metric):
        print(f"{what:<10} {text}")


def _compare_definitions(metric: type[BaseMetric]) -> None:
    """Print a metric under every tool's definition, on the same lists."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from weft.report import definitions

    console = Console()
    console.print(
        f"{definitions.title(metric)} as each tool defines it, on the same four lists of up to {definitions.K} items: with every "
        "rating 1, and with ratings of 1 to 5.",
        highlight=False,
    )
    table = Table()
    table.add_column("tool", no_wrap=True)
    table.add_column("Weft's name for it")
    for column in ("ratings 1", "ratings 1-5"):
        table.add_column(column, justify="right")
    for row in definitions.side_by_side(metric):
        name = Text(row.name) if row.name else Text(row.reason, style="dim")
        table.add_row(row.tool, name, row.binary or "-", row.graded or "-")
    console.print(table)
    missing = [tool for tool in definitions.tools() if tool not in {row.tool for row in definitions.side_by_side(metric)}]
    if missing:
        console.print(f"[dim]not covered by: {', '.join(missing)}[/dim]", highlight=False)


@app.command(epilog="Exit codes: 0, 1 if there is an error (with --strict: or a warning), 2 if something given cannot be read.")
def check(
    recs: Annotated[
        list[str], typer.Option(metavar="[NAME=]PATH", help="Recommendations of a model; may be repeated.", show_default=False)
    ],
    truth: Annotated[Path, typer.Option(metavar="PATH", help="What users wanted.", show_default=False)],
    train: Annotated[Path | None, typer.Option(metavar="PATH", help="What users had before.")] = None,
    items: Annotated[Path | None, typer.Option(metavar="PATH", help="The catalogue.")] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option("--metrics", "-m", metavar="NAMES", help="What to watch; may be repeated.", show_default="nDCG,Recall"),
    ] = None,
    top_k: Annotated[
        list[str] | None,
        typer.Option("--top-k", "-k", metavar="10,20", help="Cut-offs of metrics without one.", show_default="10"),
    ] = None,
    relevance_threshold: Annotated[
        float | None, typer.Option(metavar="RATING", help="From which rating on an item is relevant.")
    ] = None,
    profile: Annotated[str | None, typer.Option(help="Another tool's definitions, such as trec_eval.")] = None,
    format: Annotated[str, typer.Option("--format", "-f", help="table or json.")] = "table",  # noqa: A002
    strict: Annotated[bool, typer.Option("--strict", help="Warnings fail the command, too.")] = False,
) -> None:
    """Say everything suspicious about files, and how far each of it moves the metrics.

    Ids that do not match, duplicates, train in truth or lists, short lists, missing users, ties, scores that are no numbers or all
    the same, leaks in time and more: each with a count, the first rows, and the metrics with it treated the other way.

    \b
    weft check --recs knn.csv --truth test.csv --train train.csv
    weft check --recs a=a.csv --recs b=b.tsv --truth test.csv -m nDCG,MAP -k 10,20
    """
    from weft.errors import one_of

    chosen = one_of("--format", format, ("table", "json"))
    models, cutoffs = _named_files(recs), _numbers(top_k) or [10]
    names = [name for given in metrics or ["nDCG,Recall"] for name in _split(given)]
    with _steps(len(models) + 6) as step:
        step("loading torch")
        from weft.checks import check_models

        checked = check_models(
            models,
            truth,
            train=train,
            items=items,
            metrics=names,
            top_k=cutoffs,
            relevance_threshold=relevance_threshold,
            profile=profile,
            begin=step,
        )
    print(checked.to_json() if chosen == "json" else checked)
    if checked.of("error") or (strict and checked.of("warning")):
        raise typer.Exit(1)


def _named_files(given: Sequence[str]) -> dict[str, Path]:
    """`NAME=PATH`, or a path, whose stem is the name."""
    from weft.errors import SettingError

    named: dict[str, Path] = {}
    for text in given:
        name, sign, place = text.partition("=")
        if not sign or "/" in name:  # a path that has the sign in it
            name, place = "", text
        if not place.strip():
            raise SettingError(f"--recs {text}: expected a path after '='.")
        name = name or Path(place).name.partition(".")[0]
        if name in named:
            raise SettingError(
                f"--recs {text}: there is a model {name!r} already; give each its own name, as in --recs {name}_2={place}."
            )
        named[name] = Path(place)
    return named


def _split(text: str) -> list[str]:
    """Names between commas that are neither in parentheses nor in brackets nor in quotes."""
    parts, depth, quote = [""], 0, ""
    for sign in text:
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "'\"":
            quote = sign
        else:
            depth += (sign in "([") - (sign in ")]")
        if sign == "," and depth <= 0 and not quote:
            parts.append("")
        else:
            parts[-1] += sign
    return [part.strip() for part in parts if part.strip()]


def _numbers(given: Sequence[str] | None) -> list[int] | None:
    from weft.errors import SettingError

    if given is None:
        return None
    parts = [part.strip() for text in given for part in text.split(",")]
    wrong = next((part for part in parts if not part.lstrip("+-").isdecimal()), None)
    if wrong is not None:
        raise SettingError(f"--top-k {','.join(given)}: {wrong!r} is not a whole number; write for example --top-k 10,20.")
    return [int(part) for part in parts]


if __name__ == "__main__":
    main()

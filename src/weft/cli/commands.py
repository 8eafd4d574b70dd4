"""The command line. Thin: every command builds the same objects as Python does, and imports them
when it runs.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from weft.cli import options
from weft.cli.flags import (
    KEYWORDS,
    FileFlags,
    candidates_file,
    in_flags,
    mapping,
    named_files,
    names,
    numbers,
    slices,
)

if TYPE_CHECKING:
    from rich.console import Console

    from weft.config import Configuration
    from weft.config.gates import GateOutcome
    from weft.evaluation.result import Result
    from weft.metrics.base.metric import BaseMetric
    from weft.report.context import ReportContext
    from weft.statistics import Comparison

FAILED_GATE, USER_ERROR, BUG, INTERRUPTED, CLOSED_PIPE = (
    1,
    2,
    3,
    130,
    141,
)  # exit codes, the last two as shells have them
_DATA = {
    ".csv",
    ".tsv",
    ".parquet",
    ".pq",
    ".jsonl",
    ".inter",
    ".trec",
    ".run",
}  # suffixes of tables
TORCHRUN = "TORCHELASTIC_RUN_ID"  # in the environment of what torchrun has started
_debug = False


# -------------------------------------------------------------------------------------------------


@contextmanager
def _readable_errors() -> Iterator[None]:
    """Whatever goes wrong in a command is one message on standard error and an exit code; `--debug`
    adds the traceback.
    """
    from weft.errors import WeftError

    try:
        yield
        sys.stdout.flush()  # where a closed pipe shows
    except BrokenPipeError:  # `weft metrics | head -1`: whoever read has read enough
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(CLOSED_PIPE) from None
    except KeyboardInterrupt:
        _stop("interrupted", INTERRUPTED)
    except WeftError as error:
        _stop(f"error: {error}", USER_ERROR)
    except Exception as error:
        if isinstance(error, (typer.Exit, typer.Abort)) or hasattr(error, "exit_code"):
            raise  # typer's own: usage errors, --help
        said = " ".join(str(error).split())[:300]
        if isinstance(error, MemoryError) or re.search(
            r"out of memory|can't allocate memory|not enough memory", said
        ):
            _stop(
                f"error: there is not enough memory. {said} Try a smaller --batch-size; --debug "
                "shows where it happened.",
                BUG,
            )
        _stop(
            f"error: {type(error).__name__}: {said}. This is a bug in Weft, not in your files: "
            "--debug shows the traceback; "
            "please report it.",
            BUG,
        )


def _stop(message: str, code: int) -> None:
    if _debug:
        import traceback

        traceback.print_exc()
    print(f"rank {rank}: {message}" if (rank := _rank()) else message, file=sys.stderr)
    raise SystemExit(code) from None


def _rank() -> int:
    """Which one of the processes that torchrun has started this is; 0 without it."""
    return int(os.environ.get("RANK", "0")) if TORCHRUN in os.environ else 0


class _Commands(TyperGroup):
    """All commands, with readable errors."""

    def invoke(self, ctx: Any) -> Any:
        with _readable_errors():
            return super().invoke(ctx)


app = typer.Typer(
    name="weft",
    cls=_Commands,
    help="Measures recommender systems: every metric of the field, in one pass over the users.",
    epilog="Start with: weft demo",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


def main() -> None:
    """The entry point. Exit codes: 0, 1 a failed gate, 2 a user's error, 3 a bug or too little
    memory, 130 interrupted.
    """
    import warnings

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"warning: {message}", file=sys.stderr)

    warnings.showwarning = show  # without the line of Weft's code that said it
    app(prog_name="weft")


def _switch_debug(wanted: bool) -> None:
    global _debug
    _debug = _debug or wanted


def _console(*, stderr: bool = False) -> Console:
    """Where to print. A closed pipe is left to `_readable_errors`; what the terminal's encoding
    lacks is spelled out.
    """
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    if not (stream.encoding or "utf-8").lower().startswith("utf") and isinstance(
        stream, TextIOWrapper
    ):
        stream.reconfigure(errors="backslashreplace")

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Plain(stderr=stderr)


@contextmanager
def _steps(total: int | None) -> Iterator[Callable[[str], None]]:
    """A function to tell what begins, shown as a progress bar on standard error if that is a
    terminal.
    """
    if not sys.stderr.isatty() or _rank():
        yield lambda what: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total)
        yield lambda what: bar.update(task, description=what, advance=1)


# --------------------------------------------------------------------------------------------------

Debug = Annotated[
    bool, typer.Option("--debug", callback=_switch_debug, help="Show the traceback of an error.")
]


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        print(f"weft {version('weft')}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    global _debug
    _debug = debug


def _show_results(
    console: Console, results: Sequence[Result], said: Callable[[str], str] = str
) -> None:
    """On what, the table, and what to know about it. `said` words a note."""
    from weft.report.terminal import (
        console_symbols,
        counts_line,
        note_lines,
        paragraph,
        results_tables,
        slice_tables,
    )

    signs = console_symbols(console)
    console.print(paragraph(counts_line(results), console.width))
    console.print()
    legend, tables = results_tables(results, console.width, signs)
    if legend:
        console.print(paragraph(legend, console.width, "italic"))
    _print_apart(console, tables)
    for title, table in slice_tables(results, console.width, signs):
        console.print()
        console.print(paragraph(title, console.width, "italic"))
        console.print(table)
    notes = note_lines(results)
    if notes:
        console.print()
    for note in notes:
        console.print(paragraph(said(note), console.width, "dim"))


def _print_apart(console: Console, tables: Iterable[Any]) -> None:
    """Tables with an empty line between them."""
    for at, table in enumerate(tables):
        if at:
            console.print()
        console.print(table)


# --------------------------------------------------------------------------------------------------


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The folder for the results.")] = Path("weft-demo"),
    debug: Debug = False,
) -> None:
    """Evaluate three recommenders on the embedded data set, print a table, write the results as
    JSON and a report.

    Needs no files and no network; the report needs the extra "report": pip install 'weft\\[report]'
    """
    _check_folder(out, f"--out {out}")
    with _steps(6) as step:
        step("loading torch")
        from weft.cli.demo import demonstration
        from weft.report.result_folder import save_results

        results = demonstration.run(step)
    files = save_results(results, out)
    console = _console()
    _show_results(console, [demonstration.shorten_result(result) for result in results])
    cutoffs = ", ".join(str(k) for k in demonstration.TOP_K if k != demonstration.SHOWN)
    console.print(
        f"Not shown: the cut-offs {cutoffs}, values by group of users and of items.",
        style="dim",
        highlight=False,
    )
    page, lacking = _demo_report(results, out)
    said = f"{', '.join(map(str, files))} (and values per user beside them)" + (
        f", {page}" if page else ""
    )
    console.print(f"\nWritten: {said}", soft_wrap=True, markup=False)
    if lacking:
        console.print(f"Not written: report.html; {lacking}", soft_wrap=True, markup=False)
    if page:
        console.print(
            f"Open {page} in a browser: it needs nothing else.", soft_wrap=True, markup=False
        )
    console.print("\nNext, try:")
    console.print(
        f"  weft compare {files[1]} {files[2]} -m nDCG@10,EPC@10", soft_wrap=True, markup=False
    )
    console.print("  weft metrics MAP --profiles")


def _demo_report(results: Sequence[Result], folder: Path) -> tuple[Path | None, str]:
    """The report of the demonstration, or how to get it."""
    from weft.errors import MissingExtra
    from weft.report.requirements import require

    try:
        require()
    except MissingExtra as error:
        return None, str(error)
    from weft.report.context import ReportContext
    from weft.statistics import compare as compare_results

    return _write_report(
        ReportContext.from_result(compare_results(results)), folder / "report.html"
    ), ""


@app.command(
    epilog="Exit codes: 0; 1 if a gate failed; 2 for an error in what was given; 3 for a bug. "
    "More: docs/command-line.md"
)
def evaluate(
    config: options.Config = None,
    recs: options.Recs = None,
    truth: options.Truth = None,
    train: options.Train = None,
    items: options.Items = None,
    user_groups: options.UserGroups = None,
    item_clusters: options.ItemClusters = None,
    item_features: options.ItemFeatures = None,
    metrics: options.Metrics = None,
    top_k: options.TopK = None,
    relevance_threshold: options.Threshold = None,
    mask_seen: options.MaskSeen = None,
    ties: options.Ties = None,
    seed: options.Seed = None,
    profile: options.Profile = None,
    empty_users: options.EmptyUsers = None,
    missing_lists: options.MissingLists = None,
    duplicates: options.Duplicates = None,
    batch_size: options.BatchSize = None,
    device: options.Device = None,
    candidates: options.Candidates = None,
    strategy: options.Strategy = None,
    num_negatives: options.NumNegatives = None,
    negative_sampling: options.NegativeSampling = None,
    neg_alpha: options.NegAlpha = None,
    correction: options.Correction = None,
    gamma: options.Gamma = None,
    bootstrap: options.Bootstrap = None,
    slice: options.Slices = None,  # noqa: A002
    separator: options.Separator = None,
    header: options.Header = None,
    ids: options.Ids = None,
    column: options.Columns = None,
    out: options.Out = None,
    per_user: options.PerUser = False,
    report: options.Report = None,
    format: options.Format = "table",  # noqa: A002
    gate: options.Gates = None,
    engine: options.Engine = None,
    address: options.Address = None,
    parts: options.Parts = None,
    overwrite: options.Overwrite = False,
    debug: Debug = False,
) -> None:
    """Evaluate recommendation files: a table with intervals, result files, a report, gates for CI.

    With a YAML file, with flags only, or with flags that replace what the file says.

    \b
    weft evaluate --recs als.csv --truth test.csv -m nDCG,Recall -k 10,20
    weft evaluate --recs als=a.parquet --recs pop=b.tsv --truth test.csv \\
      --train train.csv -m nDCG,Gini,EPC -k 10 --out results --per-user
    weft evaluate config.yaml --gate 'nDCG@10 >= 0.31' --format markdown
    weft evaluate config.yaml --report report.html
    weft evaluate config.yaml --engine spark --address spark://head:7077
    """
    from weft.errors import check_choice, check_int

    file_of_candidates = candidates_file(candidates)
    settings: dict[str, Any] = {
        "top_k": numbers(top_k),
        "metrics": names(metrics),
        "relevance_threshold": relevance_threshold,
        "mask_seen": mask_seen,
        "ties": ties,
        "seed": seed,
        "profile": profile,
        "empty_users": empty_users,
        "missing_lists": missing_lists,
        "duplicates": duplicates,
        "batch_size": batch_size,
        "device": device,
        "save_per_user": per_user or None,
        "candidates": None if file_of_candidates else candidates,
        "strategy": strategy,
        "num_negatives": num_negatives,
        "negative_sampling": negative_sampling,
        "neg_alpha": neg_alpha,
        "correction": correction,
        "gamma": gamma,
        "bootstrap": bootstrap,
    }
    files = {
        "truth": truth,
        "train": train,
        "items": items,
        "user_groups": user_groups,
        "item_clusters": item_clusters,
        "item_features": item_features,
        "candidates": file_of_candidates,
    }
    chosen = check_choice("--format", format, options.FORMATS)
    reading = FileFlags(separator, header, ids, column or [])
    settings["slices"] = slices(slice, reading)
    shared = {
        "name": None if engine is None else check_choice("--engine", engine, options.ENGINES),
        "address": address,
        "parts": None if parts is None else check_int("--parts", parts),
    }
    with (
        _processes(),
        _in_flags("weft evaluate", config, files, recs, settings, reading) as (flags, said),
    ):
        flags["engine"] = {
            name: value for name, value in shared.items() if value is not None
        } or None
        _evaluate(config, flags, gate or [], chosen, out, report, said, overwrite=overwrite)


@contextmanager
def _processes() -> Iterator[None]:
    """All that torchrun started, together. Where it did not, nothing is loaded for it."""
    if TORCHRUN not in os.environ:
        yield
        return
    from weft.engines.distributed import joined

    with joined():
        yield


@contextmanager
def _in_flags(
    command: str,
    config: Path | None,
    files: dict[str, Path | None],
    recs: list[str] | None,
    settings: dict[str, Any],
    reading: FileFlags,
) -> Iterator[tuple[dict[str, Any], Callable[[str], str]]]:
    """What the flags say, in the shape of a configuration, and how to word a message; errors are
    worded so, too.
    """
    from weft.errors import SettingError, WeftError

    said = (settings, files, reading.given(), {"models": recs})
    given = {name for some in said for name, value in some.items() if value is not None}
    names = KEYWORDS if config is None else given  # a file is spoken of by its own keys
    try:
        flags = mapping(files, named_files(recs), settings, reading)
        if config is not None and (
            as_data := sorted(_DATA & {suffix.lower() for suffix in config.suffixes})
        ):
            raise SettingError(
                f"{config}: a configuration is YAML, and this is {as_data[-1]}. Recommendation "
                f"lists are given by name: {command} "
                f"--recs {config} --truth ..."
            )
        lacking = [
            flag for flag, value in (("--recs", recs), ("--truth", files["truth"])) if not value
        ]
        if config is None and lacking:
            raise SettingError(
                f"{' and '.join(lacking)} must be given, or a configuration: {command} --recs "
                "als.csv --truth test.csv -m nDCG "
                f"-k 10, or {command} config.yaml. {command} --help tells more."
            )
        yield flags, partial(in_flags, names=names)
    except WeftError as error:
        raise type(error)(in_flags(str(error), names)) from error


def _evaluate(
    config: Path | None,
    flags: dict[str, Any],
    gate_texts: list[str],
    chosen: str,
    out: Path | None,
    report: Path | None,
    said: Callable[[str], str],
    *,
    overwrite: bool,
) -> None:
    """Everything after the flags were read. `said` words what Weft says."""
    from weft.errors import SettingError

    console = _console(stderr=chosen != "table")
    with _steps(None) as step:
        step("loading torch")
        from weft.config import from_mapping, gates, load
        from weft.config import run as plan
        from weft.engines.distributed import evaluate as distributed_evaluate
        from weft.report.result_folder import save_results
        from weft.report.result_formats import RESULT_FORMATS

        configuration = from_mapping(flags) if config is None else load(config, flags)
        if configuration.engine is not None and TORCHRUN in os.environ:
            raise SettingError(
                f"--engine {configuration.engine.name}: torchrun shares the users out already. "
                "Leave torchrun out, or the engine "
                "(--engine none)."
            )
        out = out if out is not None else configuration.output
        report = report if report is not None else configuration.report
        if report is not None:
            _check_report(report)
            configuration = configuration.model_copy(update={"report": report})
        if out is not None:
            _check_folder(out, f"--out {out}")
        elif configuration.evaluation.save_per_user:
            raise SettingError(
                "--per-user (save_per_user) writes a table beside each result; say where with "
                "--out DIR."
            )
        if out is not None and configuration.evaluation.save_per_user:
            _check_tables(configuration, out, overwrite=overwrite)
        given = [gates.parse(text) for text in gate_texts]
        given_in_file = [gates.parse(text) for text in configuration.evaluation.gates]
        configuration = _with_metrics(
            configuration, [gate.plain_metric for gate in (*given_in_file, *given)]
        )
        models, profile = list(configuration.models), configuration.evaluation.profile
        folder = Path() if config is None else config.parent
        ready = gates.ready(given_in_file, models=models, profile=profile, folder=folder)
        ready += gates.ready(given, models=models, profile=profile)
        if _rank():  # the first one tells what all have found
            list(plan.results(configuration, evaluate=distributed_evaluate))
            return
        if configuration.engine is not None:
            step(f"starting {configuration.engine.name}")
        with plan.open_engine(configuration, distributed_evaluate) as evaluate:
            run = plan.run(configuration, step, evaluate=evaluate)
            results = list(run)
            files = [] if out is None else save_results(results, out)
    for warning in run.warnings:
        print(f"warning: {said(warning)}", file=sys.stderr)
    if chosen == "table":
        _show_results(console, results, said)
    else:
        _tell(console, results, said)
        sys.stdout.write(RESULT_FORMATS[chosen](results))
        sys.stdout.flush()
    for comparison in run.comparisons:
        console.print()
        _show_comparison(console, comparison)
    more = (
        " (and values per user beside them)"
        if files and configuration.evaluation.save_per_user
        else ""
    )
    written = [f"{', '.join(map(str, files))}{more}"] if files else []
    if report is not None and run.subject is not None:
        written.append(str(_write_report(run.subject, report)))
    if written:
        console.print(f"\nWritten: {', '.join(written)}", soft_wrap=True, markup=False)
    if ready:
        outcomes, notes = gates.judge(ready, results)
        _show_gates(console, outcomes, [said(note) for note in notes])
        if not all(outcome.passed for outcome in outcomes):
            raise typer.Exit(FAILED_GATE)


def _check_folder(folder: Path, flag: str) -> None:
    """Refuse a folder that cannot be written to before anything is computed. `flag`: what to call
    it.
    """
    from weft.errors import InputError

    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise InputError(f"{flag}: {there} is a file; give a folder.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"{flag}: no permission to write to {there}.")


def _check_tables(configuration: Configuration, folder: Path, *, overwrite: bool) -> None:
    """Refuse folders of values per user that are in the way before anything is computed."""
    from weft.errors import InputError
    from weft.evaluation.result_io import table_path
    from weft.report.result_folder import result_paths

    engine = configuration.engine
    by_spark = engine is not None and engine.name == "spark"
    by_spark = (
        by_spark and configuration.report is None and not configuration.evaluation.tests
    )  # these bring the values here
    for place in (
        table_path(one, "per_user") for one in result_paths(list(configuration.models), folder)
    ):
        if by_spark and place.exists() and not overwrite:
            raise InputError(
                f"--out {folder}: {place} is there already; --overwrite replaces it, or give "
                "another folder."
            )
        if not by_spark and place.is_dir():
            raise InputError(
                f"--out {folder}: {place} is a folder, as Spark writes it; remove it, or give "
                "another --out."
            )


def _check_report(path: Path) -> None:
    """Refuse a report that cannot be made or written before anything is computed."""
    from weft.config.models import PAGES
    from weft.errors import InputError, SettingError
    from weft.report.requirements import require

    if path.suffix.lower() not in PAGES:
        raise SettingError(f"--report {path}: give a name that ends in {' or '.join(PAGES)}.")
    require()
    if path.is_dir():
        raise InputError(f"--report {path}: it is a folder; give the name of a file.")
    _check_folder(path.parent, f"--report {path}")


def _write_report(subject: ReportContext, path: Path) -> Path:
    with _steps(None) as step:
        step("writing the report")
        from weft.report.html import render, write

        return write(render(subject), path)


def _tell(console: Console, results: Sequence[Result], said: Callable[[str], str]) -> None:
    """What stands around the table, where the table itself is printed elsewhere."""
    from weft.report.terminal import counts_line, note_lines, paragraph

    for line in (counts_line(results), *map(said, note_lines(results))):
        console.print(paragraph(line, console.width, "dim"))


def _show_gates(console: Console, outcomes: Sequence[GateOutcome], notes: Sequence[str]) -> None:
    from rich.text import Text

    console.print()
    for outcome in outcomes:
        console.print(
            Text(f"gate {outcome}", style="" if outcome.passed else "bold red"), soft_wrap=True
        )
    for note in notes:
        console.print(Text(f"gate warning: {note}", style="yellow"), soft_wrap=True)
    console.print(f"{sum(outcome.passed for outcome in outcomes)} of {len(outcomes)} passed.")


def _with_metrics(configuration: Configuration, names: Iterable[str]) -> Configuration:
    """The configuration with the metrics that gates speak of; those that are there already count
    once.
    """
    evaluation = configuration.evaluation
    wanted = evaluation.model_copy(update={"metrics": [*evaluation.metrics, *names]})
    return configuration.model_copy(update={"evaluation": wanted})


@app.command()
def compare(
    results: Annotated[
        list[Path],
        typer.Argument(help="Result files, two or more, with values per user.", show_default=False),
    ],
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metrics",
            "--metric",
            "-m",
            metavar="NAMES",
            help="Compare these only, such as nDCG@10,MRR@5; may be repeated.",
        ),
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(
            "--test",
            "-t",
            help=f"{', '.join(options.TESTS[:-1])} or {options.TESTS[-1]}; may be repeated.",
            autocompletion=options.offer(*options.TESTS),
        ),
    ] = None,
    correction: Annotated[
        str,
        typer.Option(
            help="holm, bonferroni, fdr or none.",
            autocompletion=options.offer("holm", "bonferroni", "fdr", "none"),
        ),
    ] = "holm",
    family: Annotated[
        str,
        typer.Option(
            help="Which tests are corrected together: those of one test, of one metric, of one "
            "pair, or all.",
            autocompletion=options.offer("test", "metric", "pair", "all"),
        ),
    ] = "test",
    alternative: Annotated[
        str,
        typer.Option(
            help="two-sided, or that the first of two models has greater or less values.",
            autocompletion=options.offer("two-sided", "greater", "less"),
        ),
    ] = "two-sided",
    alpha: Annotated[float, typer.Option(help="The level of significance.")] = 0.05,
    resamples: Annotated[int, typer.Option(help="Of the randomization test.")] = 10_000,
    seed: Annotated[int, typer.Option(help="Of the randomization test.")] = 0,
    pairs: Annotated[
        bool | None,
        typer.Option(
            "--pairs/--no-pairs",
            help="Show every pair of models. A table shows them for up to three models, Markdown "
            "and LaTeX if asked.",
            show_default=False,
        ),
    ] = None,
    format: options.Format = "table",  # noqa: A002
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Write it, too: a name in .json, .csv, .parquet, .md or .tex.",
            show_default=False,
        ),
    ] = None,
    report: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Write a report, one HTML page with charts.", show_default=False
        ),
    ] = None,
    debug: Debug = False,
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
    from weft.errors import SettingError, check_choice

    chosen = check_choice("--format", format, options.FORMATS)
    from weft.evaluation.result_io import load_result
    from weft.statistics import compare as compare_results
    from weft.statistics.comparison import SUFFIXES

    if out is not None and out.suffix.lower() not in SUFFIXES:
        raise SettingError(f"--out {out}: give a name that ends in one of {', '.join(SUFFIXES)}.")
    if report is not None:
        _check_report(report)
    console = _console(stderr=chosen != "table")
    comparison = compare_results(
        [load_result(path) for path in results],
        metrics=names(metrics),
        tests=test or ["paired_t"],
        correction=correction,
        family=family,
        alternative=alternative,
        alpha=alpha,
        resamples=resamples,
        seed=seed,
    )
    if out is not None:
        comparison.save(out, pairs=bool(pairs))
    if chosen == "table":
        _show_comparison(console, comparison, pairs)
        if pairs is None and len(comparison.results) > 3:
            console.print("Every pair: --pairs, or --format csv.", style="dim")
    else:
        sys.stdout.write(comparison.to_text(chosen, pairs=bool(pairs)))
        _tell_comparison(console, comparison)
    written = [] if out is None else [out]
    if report is not None:
        from weft.report.context import ReportContext

        written.append(_write_report(ReportContext.from_result(comparison), report))
    if written:
        console.print(f"\nWritten: {', '.join(map(str, written))}", soft_wrap=True, markup=False)


def _show_comparison(console: Console, comparison: Comparison, pairs: bool | None = None) -> None:
    from weft.report.terminal import (
        PAIRS_LEGEND,
        comparison_tables,
        comparison_verdicts,
        console_symbols,
        paragraph,
    )

    for verdict in comparison_verdicts(comparison):
        sentence = paragraph(verdict.sentence, console.width)
        sentence.stylize("bold", 0, len(verdict.metric))
        console.print(sentence)
        console.print()
    shown = comparison_tables(comparison, console.width, console_symbols(console), pairs=pairs)
    for at, (said, tables) in enumerate(shown):
        if at:
            console.print()
        console.print(paragraph(said, console.width, "italic"))
        _print_apart(console, tables)
    console.print()
    if any(" against " in said for said, _ in shown):
        console.print(paragraph(PAIRS_LEGEND, console.width, "italic"))
    _tell_comparison(console, comparison)


def _tell_comparison(console: Console, comparison: Comparison) -> None:
    """What stands around the tables."""
    from weft.report.terminal import paragraph

    for line in comparison.describe_fronts():
        console.print(paragraph(line, console.width))
    for note in comparison.notes:
        console.print(paragraph(note, console.width, "dim"))


@app.command()
def metrics(
    name: Annotated[
        str | None,
        typer.Argument(
            help="A metric to explain.", show_default=False, autocompletion=options.offer_metrics
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
    from weft.metrics import registry

    if name is not None and profiles:
        _compare_definitions(registry.find_metric(name))
    elif name is not None:
        _explain(registry.find_metric(name))
    else:
        _list_metrics(with_profiles=profiles)


@app.command()
def schema(
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write it to a file instead.", show_default=False),
    ] = None,
    debug: Debug = False,
) -> None:
    """Print the JSON Schema of configuration files, so that editors complete and check them.

    \b
    weft schema --out weft.schema.json

    For editors with the YAML language server, start a configuration with the line

    \b
    # yaml-language-server: $schema=weft.schema.json
    """
    import json

    from weft import config

    text = json.dumps(config.schema(), indent=2, ensure_ascii=False) + "\n"
    if out is None:
        sys.stdout.write(text)
        return
    from weft.evaluation.atomic_files import write_files

    write_files({out: lambda file: file.write(text.encode())})
    print(f"Written: {out}")


def _list_metrics(*, with_profiles: bool) -> None:
    """Print every metric, by family."""
    from rich.text import Text

    from weft.metrics import profiles, registry
    from weft.report import definitions
    from weft.report.terminal import trimmed_table

    console = _console()
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
        known = [
            tool
            for tool, found in profiles.tool_definitions(metric.__name__).items()
            if not isinstance(found, str)
        ]
        last = ", ".join(known) if with_profiles else definitions.words(metric).summary
        table.add_row(
            definitions.title(metric), definitions.better(metric).partition(" (")[0], Text(last)
        )
    console.print(trimmed)


def _explain(metric: type[BaseMetric]) -> None:
    """Print what a metric is: its docstring, parameters, direction, range, needs and reference."""
    from rich.text import Text

    from weft.report import definitions
    from weft.report.terminal import paragraph

    console = _console()
    words = definitions.words(metric)
    console.print(Text(definitions.title(metric), style="bold"))
    named = (("Edge cases: ", words.edge_cases), ("Example: ", words.example))
    said = [
        words.summary,
        *words.definition.split("\n\n"),
        *(name + text for name, text in named if text),
    ]
    for text in said:
        if text:
            console.print()
            console.print(paragraph(text, console.width))
    if words.code:
        console.print()
        console.print(Text(words.code), soft_wrap=True)
    console.print()
    for what, text in definitions.facts(metric):
        console.print(paragraph(text, console.width, first=f"{what:<10} "))


def _compare_definitions(metric: type[BaseMetric]) -> None:
    """Print a metric under every tool's definition, on the same lists."""
    from rich.text import Text

    from weft.report import definitions
    from weft.report.terminal import paragraph, trimmed_table

    console = _console()
    told = (
        f"{definitions.title(metric)} as each tool defines it, on the same four lists of up to "
        f"{definitions.K} items: with every "
        "rating 1, and with ratings of 1 to 5."
    )
    console.print(paragraph(told, console.width))
    table, trimmed = trimmed_table(
        "tool", "Weft's name for it", "ratings 1", "ratings 1-5", numbers=2
    )
    for row in definitions.side_by_side(metric):
        name = Text(row.name) if row.name else Text(row.reason, style="dim")
        table.add_row(row.tool, name, row.binary or "-", row.graded or "-")
    console.print(trimmed)
    missing = [
        tool
        for tool in definitions.tools()
        if tool not in {row.tool for row in definitions.side_by_side(metric)}
    ]
    if missing:
        console.print(paragraph(f"not covered by: {', '.join(missing)}", console.width, "dim"))


@app.command(
    epilog="Exit codes: 0, 1 if there is an error (with --strict: or a warning), 2 if something "
    "given cannot be read."
)
def check(
    config: options.Config = None,
    recs: options.Recs = None,
    truth: options.Truth = None,
    train: options.Train = None,
    items: options.Items = None,
    user_groups: options.UserGroups = None,
    item_clusters: options.ItemClusters = None,
    item_features: options.ItemFeatures = None,
    metrics: options.Metrics = None,
    top_k: options.TopK = None,
    relevance_threshold: options.Threshold = None,
    profile: options.Profile = None,
    separator: options.Separator = None,
    header: options.Header = None,
    ids: options.Ids = None,
    column: options.Columns = None,
    format: options.ShortFormat = "table",  # noqa: A002
    strict: options.Strict = False,
    debug: Debug = False,
) -> None:
    """Say everything suspicious about files, and how far each of it moves the metrics.

    Ids that do not match, duplicates, train in truth or lists, short lists, missing users, ties,
    scores that are no numbers or all the same, leaks in time and more: each with a count, the first
    rows, and the metrics with it treated the other way (nDCG and Recall at 10, if no metrics are
    given).

    \b
    weft check --recs knn.csv --truth test.csv --train train.csv
    weft check --recs a=a.csv --recs b=b.tsv --truth test.csv -m nDCG,MAP -k 10,20
    weft check config.yaml --strict
    """
    from weft.errors import check_choice

    settings: dict[str, Any] = {
        "top_k": numbers(top_k),
        "metrics": names(metrics),
        "relevance_threshold": relevance_threshold,
        "profile": profile,
    }
    chosen = check_choice("--format", format, ("table", "json"))
    files = {
        "truth": truth,
        "train": train,
        "items": items,
        "user_groups": user_groups,
        "item_clusters": item_clusters,
        "item_features": item_features,
    }
    with (
        _in_flags(
            "weft check",
            config,
            files,
            recs,
            settings,
            FileFlags(separator, header, ids, column or []),
        ) as (flags, _),
        _steps(None) as step,
    ):
        step("loading torch")
        from weft.config import from_mapping, load
        from weft.diagnostics import check_configuration

        checked = check_configuration(
            from_mapping(flags) if config is None else load(config, flags), step
        )
    print(checked.to_json() if chosen == "json" else checked)
    if checked.of("error") or (strict and checked.of("warning")):
        raise typer.Exit(1)


if __name__ == "__main__":
    main()

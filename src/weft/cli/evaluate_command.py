"""`weft evaluate`."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from weft.cli.error_handling import EXIT_FAILED_GATE, TORCHRUN, Debug, print_text, process_rank
from weft.cli.flags import command_line_style, configuration_from_flags
from weft.cli.options import (
    CUSTOM_MODULES,
    ENGINE_OPTIONS,
    FILE_OPTIONS,
    GATE_OPTIONS,
    GUARD_CSV,
    LOG,
    READING_OPTIONS,
    REPORT_TITLE,
    RESULT_FORMATS,
    ConfigPath,
    Overwrite,
    ReportPath,
    ResultFolder,
    ResultFormat,
    add_options,
    settings_options,
)
from weft.cli.output import (
    check_file,
    check_folder,
    check_report,
    open_console,
    print_counts_and_notes,
    print_gates,
    print_results,
    print_written,
    show_progress,
)
from weft.cli.trackers import check_trackers, log_results
from weft.evaluation.setting_defaults import DEFAULT_METRICS

if TYPE_CHECKING:
    from rich.console import Console

    from weft.config import Configuration
    from weft.config.gates import Gate
    from weft.config.run import RunOutcome
    from weft.evaluation.result import Result

# File name suffixes of tables, which are not configurations.
_TABLE_SUFFIXES = {".csv", ".tsv", ".parquet", ".pq", ".jsonl", ".inter", ".trec", ".run"}


@add_options(
    *FILE_OPTIONS,
    *settings_options(),
    *READING_OPTIONS,
    *ENGINE_OPTIONS,
    REPORT_TITLE,
    CUSTOM_MODULES,
    *GATE_OPTIONS,
    LOG,
    GUARD_CSV,
)
def evaluate(
    config: ConfigPath = None,
    *,
    out: ResultFolder = None,
    report: ReportPath = None,
    format: ResultFormat = "table",  # noqa: A002
    overwrite: Overwrite = False,
    debug: Debug = False,
    **options: Any,
) -> None:
    """Evaluate recommendations, and print a table of metrics with confidence intervals.

    The models, the data and the settings come from options, from a YAML file, or from both; options
    override the values of the file. If no metrics are given, nDCG@10 and Recall@10 are computed.

    Examples:

    \b
      weft evaluate --recs als.csv --truth test.csv -m nDCG,Recall -k 10,20
      weft evaluate --recs als=a.parquet --recs pop=b.tsv --truth test.csv \\
        --train train.csv -m nDCG,Gini,EPC -k 10 --out results --per-user
      weft evaluate config.yaml --gate 'nDCG@10 >= 0.31' --format markdown
      weft evaluate config.yaml --report report.html --log mlflow
      weft evaluate config.yaml --engine spark --address spark://head:7077
    """
    from weft.errors import check_choice

    chosen = check_choice("format", format, RESULT_FORMATS)
    console = open_console(stderr=chosen != "table")
    guard_csv, trackers = options.pop("guard_csv"), check_trackers(options.pop("log") or [])
    gates = options.pop("gates") or []
    outputs = {name: options.pop(name) for name in ("gate_summary", "junit", "report_title")}
    outputs |= {"output": out, "report": report}
    with _process_group(), show_progress(None) as step:
        step("loading torch")
        from weft.config.run import with_default_metrics

        configuration = load_configuration("weft evaluate", config, options)
        configuration = _with_outputs(configuration, outputs, overwrite=overwrite)
        configuration, ready_gates = _prepare_gates(configuration, config, gates)
        _check_gate_files(configuration, has_gates=bool(ready_gates))
        configuration, has_default = with_default_metrics(configuration)
        outcome, files = _run(configuration, ready_gates, step, guard_csv=guard_csv)
        if process_rank():  # the first process reports the results
            return
    _print_outcome(console, outcome, chosen, guard_csv=guard_csv)
    if has_default:
        names = " and ".join(DEFAULT_METRICS)
        console.print(
            f"{names} are the default metrics; choose others with --metrics.", style="dim"
        )
    written: list[object] = list(files)
    if files and configuration.evaluation.per_user:
        written[-1] = f"{files[-1]} (with values per user)"
    pages = (configuration.report, configuration.gate_summary, configuration.junit)
    print_written(console, [*written, *(path for path in pages if path is not None)])
    if outcome.gates:
        print_gates(console, outcome.gates, outcome.gate_notes)
    for line in log_results(trackers, outcome.results):
        console.print(f"Logged to {line}", style="dim", highlight=False)
    if not all(gate.passed for gate in outcome.gates):
        raise typer.Exit(EXIT_FAILED_GATE)


def _print_outcome(console: Console, outcome: RunOutcome, format_: str, *, guard_csv: bool) -> None:
    """Print warnings, results and comparisons."""
    for warning in outcome.warnings:
        print_text(f"warning: {warning}", stderr=True)
    if format_ == "table":
        print_results(console, outcome.results)
    else:
        from weft.report.result_formats import RESULT_FORMATS as FORMATTERS
        from weft.report.result_formats import to_csv

        print_counts_and_notes(console, outcome.results)
        formatters = FORMATTERS | {"csv": partial(to_csv, guard_formulas=guard_csv)}
        print_text(formatters[format_](outcome.results))
        sys.stdout.flush()
    from weft.report.terminal import print_comparison

    for comparison in outcome.comparisons:
        console.print()
        print_comparison(console, comparison)


def load_configuration(command: str, config: Path | None, options: dict[str, Any]) -> Configuration:
    """Return the configuration of a file and the options that replace its values."""
    from weft.errors import SettingError

    if config is not None:
        suffixes = sorted(_TABLE_SUFFIXES & {suffix.lower() for suffix in config.suffixes})
        if suffixes:
            raise SettingError(
                f"{config}: expected a YAML configuration, got a {suffixes[-1]} file. "
                f"Recommendation lists are given with --recs: {command} --recs {config} --truth "
                "..."
            )
    required = {"--recs": options["models"], "--truth": options["truth"]}
    missing = [flag for flag, value in required.items() if not value]
    if config is None and missing:
        raise SettingError(
            f"{' and '.join(missing)} must be given, or a configuration, as in '{command} --recs "
            f"als.csv --truth test.csv -m nDCG -k 10' or '{command} config.yaml'. See '{command} "
            "--help'."
        )
    from weft.config import from_mapping, load

    flags = configuration_from_flags(options)
    if config is None:
        return from_mapping(flags, style=command_line_style)
    return load(config, flags, style=command_line_style)


@contextmanager
def _process_group() -> Iterator[None]:
    """Join the processes that torchrun started. Without torchrun, nothing is loaded for it."""
    if TORCHRUN not in os.environ:
        yield
        return
    from weft.engines.distributed import process_group

    with process_group():
        yield


def _with_outputs(
    configuration: Configuration, outputs: dict[str, Any], *, overwrite: bool
) -> Configuration:
    """Return the configuration with the output that the options name.

    Raises an error for output that cannot be written, before anything is computed.
    """
    from weft.errors import SettingError

    given = {name: path for name, path in outputs.items() if path is not None}
    configuration = configuration.model_copy(update=given)
    out = configuration.output
    check_report(configuration.report, configuration.report_title)
    for flag, path in {
        "--gate-summary": configuration.gate_summary,
        "--junit": configuration.junit,
    }.items():
        if path is not None:
            check_file(path, f"{flag} {path}")
    if out is not None:
        check_folder(out, f"--out {out}")
    evaluation = configuration.evaluation
    for flag, is_given in {
        "--per-user (save_per_user)": evaluation.per_user,
        "--keep-lists (keep_lists)": evaluation.keep_lists,
    }.items():
        if is_given and out is None:
            raise SettingError(
                f"{flag} writes a table next to each result; give a folder for the results with "
                "--out DIR (output: DIR)."
            )
    if configuration.evaluation.per_user and out is not None:
        _check_user_tables(configuration, out, overwrite=overwrite)
    return configuration


def _check_user_tables(configuration: Configuration, folder: Path, *, overwrite: bool) -> None:
    """Raise `InputError` for tables of values per user that cannot be replaced."""
    from weft.errors import InputError
    from weft.evaluation.result_io import table_path
    from weft.report.result_folder import result_paths

    engine = configuration.engine
    # A report and tests collect the values in this process.
    is_written_by_spark = (
        engine is not None
        and engine.name == "spark"
        and configuration.report is None
        and not configuration.evaluation.tests
    )
    for result_path in result_paths(list(configuration.models), folder):
        path = table_path(result_path, "per_user")
        if is_written_by_spark and path.exists() and not overwrite:
            raise InputError(
                f"--out {folder}: {path} exists already; replace it with --overwrite, or give "
                "another folder."
            )
        if not is_written_by_spark and path.is_dir():
            raise InputError(
                f"--out {folder}: {path} is a folder, which an earlier run on Spark wrote; remove "
                "it, or give another folder."
            )


def _prepare_gates(
    configuration: Configuration, config: Path | None, texts: Sequence[str]
) -> tuple[Configuration, list[Gate]]:
    """Return the configuration with the metrics of all gates, and the gates with their baselines.

    Files in gates of a configuration are relative to its folder.
    """
    from weft.config.gates import parse_gate, prepare_gates

    evaluation = configuration.evaluation
    own, added = ([parse_gate(text) for text in some] for some in (evaluation.gates, texts))
    names = [gate.plain_metric for gate in (*own, *added)]
    updated = evaluation.model_copy(update={"metrics": (*evaluation.metrics, *names)})
    prepare = partial(
        prepare_gates,
        models=list(configuration.models),
        profile=evaluation.profile,
        slices=[*evaluation.slices, *evaluation.item_slices],
    )
    folder = Path() if config is None else config.parent
    gates = [*prepare(own, folder=folder), *prepare(added)]
    return configuration.model_copy(update={"evaluation": updated}), gates


def _check_gate_files(configuration: Configuration, *, has_gates: bool) -> None:
    """Raise `SettingError` for a file with the outcomes of gates if there are no gates."""
    from weft.errors import SettingError

    for name, path in {
        "--gate-summary (gate_summary)": configuration.gate_summary,
        "--junit (junit)": configuration.junit,
    }.items():
        if path is not None and not has_gates:
            raise SettingError(
                f"{name} writes the outcomes of gates, but there are no gates, so nothing would be "
                "checked; give at least one with --gate (evaluation.gates), or leave it out."
            )


def _run(
    configuration: Configuration,
    gates: Sequence[Gate],
    step: Callable[[str], None],
    *,
    guard_csv: bool,
) -> tuple[RunOutcome, list[Path]]:
    """Run the configuration, and write its results if it names a folder, and its pages."""
    from weft.config.run import RunOutcome, needs_pairs, open_engine, results, run
    from weft.evaluation.atomic_files import text_writer, write_files
    from weft.report.result_folder import save_results

    evaluate = _evaluate_function(configuration)
    if process_rank():
        others = results(configuration, evaluate=evaluate, pairs_users=needs_pairs(gates))
        return RunOutcome(tuple(others)), []
    if configuration.engine is not None:
        step(f"starting {configuration.engine.name}")
    with open_engine(configuration, evaluate) as evaluate_users:
        outcome = run(configuration, step, evaluate=evaluate_users, gates=gates)
        pages = _render_pages(configuration, outcome, step)
        if configuration.output is None:
            write_files({path: text_writer(text) for path, text in pages.items()})
            return outcome, []
        return outcome, save_results(
            outcome.results, configuration.output, report=pages, guard_formulas=guard_csv
        )


def _render_pages(
    configuration: Configuration, outcome: RunOutcome, step: Callable[[str], None]
) -> dict[Path, str]:
    """Return the texts of the report and of the outcomes of gates, by their paths."""
    pages: dict[Path, str] = {}
    if outcome.subject is not None and configuration.report is not None:
        from weft.report.html import render

        step("making the report")
        title = configuration.report_title
        pages[configuration.report] = render(outcome.subject, title=title)
    if configuration.gate_summary is not None:
        from weft.config.gates import to_summary

        path = configuration.gate_summary
        text = to_summary(outcome.gates, outcome.gate_notes, outcome.results)
        is_step = str(path) == os.environ.get("GITHUB_STEP_SUMMARY") and path.exists()
        pages[path] = path.read_text(encoding="utf-8") + text if is_step else text
    if configuration.junit is not None:
        from weft.config.gates import to_junit

        pages[configuration.junit] = to_junit(outcome.gates)
    return pages


def _evaluate_function(configuration: Configuration) -> Callable[..., Result]:
    """Return the function that evaluates a model, in all processes that torchrun started."""
    if TORCHRUN in os.environ:
        if configuration.engine is not None:
            from weft.errors import SettingError

            raise SettingError(
                f"--engine {configuration.engine.name}: torchrun distributes the users already. "
                "Run without torchrun, or without the engine (--engine none)."
            )
        from weft.engines import distributed

        return distributed.evaluate
    from weft.evaluation import api

    return api.evaluate

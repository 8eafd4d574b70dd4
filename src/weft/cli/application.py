"""The typer application, its entry point and the options that all commands share."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any

import typer

from weft.cli.check_command import check
from weft.cli.compare_command import compare
from weft.cli.demo_command import demo
from weft.cli.error_handling import CommandGroup, print_text, show_tracebacks
from weft.cli.evaluate_command import evaluate
from weft.cli.help_texts import WeftCommand
from weft.cli.init_command import init
from weft.cli.metrics_command import metrics
from weft.cli.schema_command import schema
from weft.cli.split_command import split

app = typer.Typer(
    name="weft",
    cls=CommandGroup,
    help="Evaluate recommender systems: accuracy, coverage, novelty, diversity, bias, fairness.",
    epilog="Run 'weft demo' for a first example, and 'weft COMMAND --help' for the options of a "
    "command.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)
_add_command = partial(app.command, cls=WeftCommand)
_add_command()(demo)
_add_command()(init)
_add_command()(split)
_add_command(
    epilog="Exit codes: 0 if nothing is wrong, 1 if errors were found (with --strict also "
    "warnings), 2 if an input cannot be read, 3 for a bug."
)(check)
_add_command(
    epilog="Exit codes: 0 for success, 1 if a gate failed, 2 for an error in the options or the "
    "input, 3 for a bug or too little memory."
)(evaluate)
_add_command()(compare)
_add_command()(metrics)
_add_command()(schema)


def main() -> None:
    """Run the command line.

    Exit codes: 0, 1 for a failed gate, 2 for a user error, 3 for a bug or too little memory, 128
    plus the number of a signal.
    """
    import warnings

    def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
        print_text(f"warning: {message}", stderr=True)

    warnings.showwarning = show_warning  # without the line of code that raised it
    app(prog_name="weft")


def _print_version(is_requested: bool) -> None:
    if is_requested:
        from importlib.metadata import version

        print_text(f"weft {version('weft')}")
        raise typer.Exit


@app.callback()
def _set_common_options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks of errors.")] = False,
) -> None:
    show_tracebacks(debug, reset=True)

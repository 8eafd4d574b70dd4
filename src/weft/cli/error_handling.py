"""Errors of commands as one message on standard error, and exit codes."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from weft.cli.flags import command_line_style
from weft.cli.help_texts import hide_switch_types
from weft.errors import WeftError, escape_controls

EXIT_FAILED_GATE = 1
EXIT_USER_ERROR = 2
EXIT_BUG = 3
EXIT_SIGNAL = 128  # plus the number of the signal, as shells have it
EXIT_CLOSED_PIPE = 141  # as shells have it
TORCHRUN = "TORCHELASTIC_RUN_ID"  # an environment variable of processes that torchrun started
_OUT_OF_MEMORY = re.compile(r"out of memory|can't allocate memory|not enough memory")
_SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")  # end a command; Windows has no SIGHUP
_shows_tracebacks = False


class CommandGroup(TyperGroup):
    """The commands of the application, with errors reported as messages."""

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options of the application, with --help."""
        return hide_switch_types(super().get_params(ctx))

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Read the command line."""
        with _report_errors():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the context names."""
        with _report_errors():
            return super().invoke(ctx)


def show_tracebacks(is_enabled: bool, *, reset: bool = False) -> None:
    """Add the traceback to error messages. `reset` starts from the state of a new process."""
    global _shows_tracebacks
    _shows_tracebacks = is_enabled or (_shows_tracebacks and not reset)


def _enable_tracebacks(is_enabled: bool) -> None:
    show_tracebacks(is_enabled)


Debug = Annotated[
    bool,
    typer.Option("--debug", callback=_enable_tracebacks, help="Show tracebacks of errors."),
]


def process_rank() -> int:
    """Return the rank of this process among those that torchrun started; 0 without torchrun."""
    return int(os.environ.get("RANK", "0")) if TORCHRUN in os.environ else 0


def print_text(text: str, *, stderr: bool = False) -> None:
    """Print text, with a line feed at its end and control characters escaped."""
    end = "" if text.endswith("\n") else "\n"
    print(escape_controls(text), end=end, file=sys.stderr if stderr else sys.stdout)


@contextmanager
def _report_errors() -> Iterator[None]:
    """Turn every exception and every signal into one message on standard error and an exit code."""
    received: list[int] = []
    try:
        with _signals_as_interrupts(received):
            yield
            sys.stdout.flush()  # raises if the pipe is closed
    except (SystemExit, GeneratorExit):
        raise
    except BaseException as error:  # panics of polars do not derive from Exception
        if received or isinstance(error, KeyboardInterrupt):
            # Native code turns an interrupt inside a callback into an error of its own.
            name = signal.Signals(received[0] if received else signal.SIGINT).name
            by_signal = "" if name == "SIGINT" else f" by {name}"
            _exit(f"interrupted{by_signal}", EXIT_SIGNAL + signal.Signals[name])
        _report_error(error)


@contextmanager
def _signals_as_interrupts(received: list[int]) -> Iterator[None]:
    """Raise `KeyboardInterrupt` for each signal that ends a command, and append its number.

    Signals that are ignored, as under nohup, stay ignored.
    """

    def interrupt(number: int, frame: object) -> NoReturn:
        received.append(number)
        raise KeyboardInterrupt

    replaced: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)):
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                replaced[number] = signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in replaced.items():
            signal.signal(number, handler)


def _report_error(error: BaseException) -> NoReturn:
    """Print the message of an error, and raise `SystemExit` with its exit code."""
    if isinstance(error, BrokenPipeError):  # `weft metrics | head -1` has read enough
        _discard_output()
        raise SystemExit(EXIT_CLOSED_PIPE) from None
    if isinstance(error, WeftError):
        _exit(f"error: {error.render(command_line_style)}", EXIT_USER_ERROR)
    if isinstance(error, OSError):  # a full disk, and others that no code of Weft expects
        _discard_output()
        place = f"{error.filename}: " if error.filename else ""
        _exit(f"error: {place}{error.strerror or error}", EXIT_USER_ERROR)
    if isinstance(error, (typer.Exit, typer.Abort)) or hasattr(error, "exit_code"):
        raise error  # usage errors and --help, which typer handles
    _exit(f"error: {_describe_bug(error)}", EXIT_BUG)


def _discard_output() -> None:
    """Send what is left of standard output nowhere if it cannot be written."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _describe_bug(error: BaseException) -> str:
    """Return the message for an exception that no user should see."""
    text = " ".join(str(error).split())[:300]
    if isinstance(error, MemoryError) or _OUT_OF_MEMORY.search(text):
        return f"out of memory. {text} Try a smaller --batch-size; --debug shows the traceback."
    return (
        f"{type(error).__name__}: {text}. This is a bug in Weft, not an error in your files. "
        "Please report it with the traceback that --debug shows."
    )


def _exit(message: str, code: int) -> NoReturn:
    if _shows_tracebacks:
        import traceback

        print_text(traceback.format_exc(), stderr=True)
    rank = process_rank()
    with suppress(OSError):  # the terminal is closed
        print_text(f"rank {rank}: {message}" if rank else message, stderr=True)
    raise SystemExit(code) from None

"""The command line. Thin: every command builds the same objects as Python does, and imports them when it runs."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from rich.console import Console

    from weft.config import Configuration
    from weft.gates import Outcome
    from weft.metrics.base import BaseMetric
    from weft.result import Result
    from weft.significance import Comparison

FAILED_GATE, USER_ERROR, BUG, INTERRUPTED, CLOSED_PIPE = 1, 2, 3, 130, 141  # exit codes, the last two as shells have them
_debug = False


# ------------------------------------------------------------------------------------------------- errors, exit codes


@contextmanager
def _readable_errors() -> Iterator[None]:
    """Whatever goes wrong in a command is one message on standard error and an exit code; `--debug` adds the traceback."""
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
        if isinstance(error, MemoryError) or re.search(r"out of memory|can't allocate memory|not enough memory", said):
            _stop(f"error: there is not enough memory. {said} Try a smaller --batch-size; --debug shows where it happened.", BUG)
        _stop(
            f"error: {type(error).__name__}: {said}. This is a bug in Weft, not in your files: --debug shows the traceback; "
            "please report it.",
            BUG,
        )


def _stop(message: str, code: int) -> None:
    if _debug:
        import traceback

        traceback.print_exc()
    print(message, file=sys.stderr)
    raise SystemExit(code) from None


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
    """The entry point. Exit codes: 0, 1 a failed gate, 2 a user's error, 3 a bug or too little memory, 130 interrupted."""
    import warnings

    def show(message: Warning | str, *_: Any, **__: Any) -> None:
        print(f"warning: {message}", file=sys.stderr)

    warnings.showwarning = show  # without the line of Weft's code that said it
    app(prog_name="weft")


def _switch_debug(wanted: bool) -> None:
    global _debug
    _debug = _debug or wanted


def _console(*, stderr: bool = False) -> Console:
    """Where to print. A closed pipe is left to `_readable_errors`."""
    from rich.console import Console

    class Plain(Console):
        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    return Plain(stderr=stderr)


@contextmanager
def _steps(total: int | None) -> Iterator[Callable[[str], None]]:
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


# ------------------------------------------------------------------------------------------------------- completion

# Known here again, because the modules that define them wait for torch, and a completion must not.
PROFILES = ("warprec", "elliot", "trec_eval", "ranx", "recbole", "torchmetrics", "rectools", "sklearn")
TIES = ("index", "random", "expected", "pessimistic", "optimistic")
FORMATS = ("table", "json", "csv", "markdown", "latex")


def _offer(*words: str) -> Callable[[str], list[str]]:
    """Completion by one of some words."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return complete


def _metric_names() -> list[str]:
    """The built-in metrics, read from their files: importing them takes seconds."""
    folder = Path(__file__).with_name("metrics")
    found = re.compile(r"^@register\nclass (\w+)", re.MULTILINE)
    return sorted(name for file in folder.glob("*.py") for name in found.findall(file.read_text(encoding="utf-8")))


def _offer_metrics(incomplete: str) -> list[str]:
    """Completion of one metric, or of the last of several between commas."""
    before, comma, last = incomplete.rpartition(",")
    return [before + comma + name for name in _metric_names() if name.casefold().startswith(last.casefold())]


# --------------------------------------------------------------------------------------------------- what all share

Debug = Annotated[bool, typer.Option("--debug", callback=_switch_debug, help="Show the traceback of an error.")]
Format = Annotated[
    str,
    typer.Option(
        "--format",
        "-f",
        help="What to print: table, json, csv, markdown or latex. All but a table leaves everything else to standard error.",
        autocompletion=_offer(*FORMATS),
        rich_help_panel="Output",
    ),
]


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


def _show_results(console: Console, results: Sequence[Result], said: Callable[[str], str] = str) -> None:
    """On what, the table, and what to know about it. `said` words a note."""
    from rich.text import Text

    from weft.report.terminal import LEGEND, counts_line, note_lines, results_tables

    console.print(Text(counts_line(results)))
    console.print()
    console.print(LEGEND, style="italic")
    for table in results_tables(results, console.width):
        console.print(table)
    for note in note_lines(results):
        console.print(Text(said(note), style="dim"))


# ---------------------------------------------------------------------------------------------------------- commands


@app.command()
def demo(
    out: Annotated[Path, typer.Option(help="The folder for the results.")] = Path("weft-demo"),
    debug: Debug = False,
) -> None:
    """Evaluate three recommenders on the embedded data set, print a table, write the results as JSON.

    Needs no files and no network.
    """
    with _steps(6) as step:
        step("loading torch")
        from weft.demo import run as demonstration
        from weft.report.tables import save_all

        results = demonstration.run(step)
    files = save_all(results, out)
    console = _console()
    _show_results(console, results)
    console.print(f"\nWritten: {', '.join(map(str, files))} (and values per user beside them)", soft_wrap=True, markup=False)
    console.print("\nNext, try:")
    console.print(f"  weft compare {files[1]} {files[2]}", soft_wrap=True, markup=False)
    console.print("  weft metrics MAP --profiles")


_DATA, _COUNTING, _READING, _OUTPUT = "Data", "How it counts", "How files are read", "Output"


@app.command(epilog="Exit codes: 0; 1 if a gate failed; 2 for an error in what was given; 3 for a bug. More: docs/command-line.md")
def evaluate(
    config: Annotated[
        Path | None,
        typer.Argument(metavar="CONFIG.yaml", help="A configuration; a flag replaces what it says.", show_default=False),
    ] = None,
    recs: Annotated[
        list[str] | None,
        typer.Option(metavar="[NAME=]PATH", help="Recommendations of a model; may be repeated.", rich_help_panel=_DATA),
    ] = None,
    truth: Annotated[Path | None, typer.Option(metavar="PATH", help="What users wanted.", rich_help_panel=_DATA)] = None,
    train: Annotated[
        Path | None, typer.Option(metavar="PATH", help="What users had before: seen items, popularity.", rich_help_panel=_DATA)
    ] = None,
    items: Annotated[
        Path | None,
        typer.Option(metavar="PATH", help="The catalogue. Without it: every item that occurs.", rich_help_panel=_DATA),
    ] = None,
    user_groups: Annotated[Path | None, typer.Option(metavar="PATH", help="A label per user.", rich_help_panel=_DATA)] = None,
    item_clusters: Annotated[Path | None, typer.Option(metavar="PATH", help="A label per item.", rich_help_panel=_DATA)] = None,
    item_features: Annotated[
        Path | None, typer.Option(metavar="PATH", help="Features of items, a row each.", rich_help_panel=_DATA)
    ] = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metrics",
            "-m",
            metavar="NAMES",
            help="Such as nDCG,Recall or 'F1(beta=0.5)@5'; may be repeated.",
            autocompletion=_offer_metrics,
            rich_help_panel=_COUNTING,
        ),
    ] = None,
    top_k: Annotated[
        list[str] | None,
        typer.Option("--top-k", "-k", metavar="10,20", help="Cut-offs of metrics without one.", rich_help_panel=_COUNTING),
    ] = None,
    relevance_threshold: Annotated[
        float | None, typer.Option(metavar="RATING", help="From which rating on an item is relevant.", rich_help_panel=_COUNTING)
    ] = None,
    mask_seen: Annotated[
        bool | None,
        typer.Option(
            "--mask-seen/--keep-seen",
            help="Remove a user's train items from their list. Lists keep and count them.",
            show_default=False,
            rich_help_panel=_COUNTING,
        ),
    ] = None,
    ties: Annotated[
        str | None,
        typer.Option(help="Among equal scores: " + ", ".join(TIES) + ".", autocompletion=_offer(*TIES), rich_help_panel=_COUNTING),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of everything random.", rich_help_panel=_COUNTING)] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            help="Another tool's definitions: " + ", ".join(PROFILES) + ".",
            autocompletion=_offer(*PROFILES),
            rich_help_panel=_COUNTING,
        ),
    ] = None,
    empty_users: Annotated[
        str | None,
        typer.Option(
            help="Users without a relevant item: skip or zero.",
            autocompletion=_offer("skip", "zero"),
            rich_help_panel=_COUNTING,
        ),
    ] = None,
    missing_lists: Annotated[
        str | None,
        typer.Option(
            help="Users of the truth without a list: zero or skip.",
            autocompletion=_offer("zero", "skip"),
            rich_help_panel=_COUNTING,
        ),
    ] = None,
    duplicates: Annotated[
        str | None,
        typer.Option(
            help="An item twice in a list: error or keep-best.",
            autocompletion=_offer("error", "keep-best"),
            rich_help_panel=_COUNTING,
        ),
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Users at once.", rich_help_panel=_COUNTING)] = None,
    device: Annotated[str | None, typer.Option(help="Such as cpu or cuda.", rich_help_panel=_COUNTING)] = None,
    separator: Annotated[
        str | None, typer.Option(metavar="SIGN", help="Between columns of text files; tab for a tab.", rich_help_panel=_READING)
    ] = None,
    no_header: Annotated[
        bool, typer.Option("--no-header", help="Text files start with data.", show_default=False, rich_help_panel=_READING)
    ] = False,
    ids: Annotated[
        str | None,
        typer.Option(help="Read ids as string or integer.", autocompletion=_offer("string", "integer"), rich_help_panel=_READING),
    ] = None,
    column: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[FILE.]ROLE=NAME",
            help="Which column is the user, item, score ...: user=visitor, truth.item=sku, user=0 (the first); may be repeated.",
            rich_help_panel=_READING,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write NAME.json per model and summary.csv, together.", rich_help_panel=_OUTPUT),
    ] = None,
    per_user: Annotated[
        bool,
        typer.Option(
            "--per-user", help="Write values per user too, for weft compare.", show_default=False, rich_help_panel=_OUTPUT
        ),
    ] = False,
    format: Format = "table",  # noqa: A002
    gate: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="Fail unless, such as 'nDCG@10 >= 0.31'; may be repeated.", rich_help_panel=_OUTPUT),
    ] = None,
    debug: Debug = False,
) -> None:
    """Evaluate recommendation files: a table with intervals, result files, gates for CI.

    With a YAML file, with flags only, or with flags that replace what the file says.

    \b
    weft evaluate --recs als.csv --truth test.csv -m nDCG,Recall -k 10,20
    weft evaluate --recs als=a.parquet --recs pop=b.tsv --truth test.csv \\
      --train train.csv -m nDCG,Gini,EPC -k 10 --out results --per-user
    weft evaluate config.yaml --gate 'nDCG@10 >= 0.31' --format markdown
    """
    from weft.errors import SettingError, WeftError, one_of

    settings = {
        "top_k": _numbers(top_k),
        "metrics": None if metrics is None else [name for given in metrics for name in _split(given)],
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
    }
    files = {
        "truth": truth,
        "train": train,
        "items": items,
        "user_groups": user_groups,
        "item_clusters": item_clusters,
        "item_features": item_features,
    }
    chosen = one_of("--format", format, FORMATS)
    reading = _Reading(separator, no_header, ids, column or [])
    given = {name for name, value in {**settings, **files, "models": recs}.items() if value is not None}
    names = _KEYWORDS if config is None else given  # a file is spoken of by its own keys
    try:
        flags = _mapping(files, _named_files(recs), settings, reading)
        if config is None and not (recs and truth):
            lacking = " and ".join(flag for flag, given in (("--recs", recs), ("--truth", truth)) if not given)
            raise SettingError(
                f"{lacking} must be given, or a configuration: weft evaluate --recs als.csv --truth test.csv -m nDCG -k 10, or "
                "weft evaluate config.yaml. weft evaluate --help tells more."
            )
        _evaluate(config, flags, gate or [], chosen, out, partial(_in_flags, names=names))
    except WeftError as error:
        raise type(error)(_in_flags(str(error), names)) from error


def _evaluate(
    config: Path | None, flags: dict[str, Any], gate_texts: list[str], chosen: str, out: Path | None, said: Callable[[str], str]
) -> None:
    """Everything after the flags were read. `said` words what Weft says."""
    from weft.errors import SettingError

    console = _console(stderr=chosen != "table")
    with _steps(None) as step:
        step("loading torch")
        from weft import gates, plan
        from weft.config import from_mapping, load
        from weft.report.tables import RESULT_FORMATS, save_all

        configuration = from_mapping(flags) if config is None else load(config, flags)
        out = out if out is not None else getattr(configuration, "output", None)
        if out is not None:
            _check_folder(out)
        elif configuration.evaluation.save_per_user:
            raise SettingError("--per-user (save_per_user) writes a table beside each result; say where with --out DIR.")

        given = [gates.parse(text) for text in gate_texts]
        given_in_file = [gates.parse(text) for text in configuration.evaluation.gates]
        configuration = _with_metrics(configuration, [gate.plain_metric for gate in (*given_in_file, *given)])
        models, profile = list(configuration.models), configuration.evaluation.profile
        folder = Path() if config is None else config.parent
        ready = gates.ready(given_in_file, models=models, profile=profile, folder=folder)
        ready += gates.ready(given, models=models, profile=profile)
        run = plan.run(configuration, step)
        results = list(run)
    for warning in getattr(run, "warnings", ()):
        print(f"warning: {said(warning)}", file=sys.stderr)
    files = [] if out is None else save_all(results, out)
    if chosen == "table":
        _show_results(console, results, said)
    else:
        _tell(console, results, said)
        sys.stdout.write(RESULT_FORMATS[chosen](results))
        sys.stdout.flush()
    for comparison in getattr(run, "comparisons", ()):
        console.print()
        _show_comparison(console, comparison)
    if files:
        more = " (and values per user beside them)" if any(result.per_user is not None for result in results) else ""
        console.print(f"\nWritten: {', '.join(map(str, files))}{more}", soft_wrap=True, markup=False)
    if ready:
        outcomes, notes = gates.judge(ready, results)
        _show_gates(console, outcomes, [said(note) for note in notes])
        if not all(outcome.passed for outcome in outcomes):
            raise typer.Exit(FAILED_GATE)


def _tell(console: Console, results: Sequence[Result], said: Callable[[str], str]) -> None:
    """What stands around the table, where the table itself is printed elsewhere."""
    from rich.text import Text

    from weft.report.terminal import counts_line, note_lines

    for line in (counts_line(results), *map(said, note_lines(results))):
        console.print(Text(line, style="dim"))


def _show_gates(console: Console, outcomes: Sequence[Outcome], notes: Sequence[str]) -> None:
    from rich.text import Text

    console.print()
    for outcome in outcomes:
        console.print(Text(f"gate {outcome}", style="" if outcome.passed else "bold red"), soft_wrap=True)
    for note in notes:
        console.print(Text(f"gate warning: {note}", style="yellow"), soft_wrap=True)
    console.print(f"{sum(outcome.passed for outcome in outcomes)} of {len(outcomes)} passed.")


def _with_metrics(configuration: Configuration, names: Iterable[str]) -> Configuration:
    """The configuration with the metrics that gates speak of; those that are there already count once."""
    evaluation = configuration.evaluation
    wanted = evaluation.model_copy(update={"metrics": [*evaluation.metrics, *names]})
    return configuration.model_copy(update={"evaluation": wanted})


# ----------------------------------------------------------------------------------------- flags to a configuration

# Which columns each kind of file has.
_ROLES = {
    "recs": ("user", "item", "score", "rank"),
    "truth": ("user", "item", "rating", "timestamp"),
    "train": ("user", "item", "rating", "timestamp"),
    "items": ("item",),
    "user_groups": ("user", "label"),
    "item_clusters": ("item", "label"),
    "item_features": ("item", "label"),
}
_NOT_TEXT = (".parquet", ".pq", ".json", ".jsonl", ".ndjson", ".arrow", ".feather", ".ipc")
_ENDINGS = re.compile(rf"(\.(csv|tsv|txt|inter|run|gz|zst|bz2|xz|{'|'.join(kind[1:] for kind in _NOT_TEXT)}))+\Z", re.IGNORECASE)


class _Reading:
    """How the files of a run are read, as far as the flags say; each file takes what fits it."""

    def __init__(self, separator: str | None, no_header: bool, ids: str | None, columns: Sequence[str]) -> None:
        self.separator = {"tab": "\t", r"\t": "\t"}.get(separator or "", separator)
        self.no_header = no_header
        self.ids = ids
        self.columns: dict[str, dict[str, str | int]] = {name: {} for name in _ROLES}
        for given in columns:
            self._add(given)

    def _add(self, given: str) -> None:
        from weft.errors import SettingError, did_you_mean

        left, sign, name = given.partition("=")
        file, dot, role = left.strip().rpartition(".")
        files = [file.replace("-", "_")] if dot else [kind for kind, roles in _ROLES.items() if role in roles]
        known = sorted({role for roles in _ROLES.values() for role in roles})
        if not sign or not name.strip():
            raise SettingError(f"--column {given}: expected ROLE=NAME, such as user=visitor, or truth.item=sku for one file.")
        if dot and files[0] not in _ROLES:
            raise SettingError(
                f"--column {given}: there is no file {file!r}.{did_you_mean(file, _ROLES)} Choose one of {', '.join(_ROLES)}."
            )
        if role not in (_ROLES[files[0]] if dot else known):
            offered = _ROLES[files[0]] if dot else known
            raise SettingError(
                f"--column {given}: there is no role {role!r}.{did_you_mean(role, offered)} Choose one of {', '.join(offered)}."
            )
        number = name.strip()
        for kind in files:
            if role in self.columns[kind]:
                raise SettingError(f"--column {given}: the column of {role} is given twice; keep one.")
            self.columns[kind][role] = int(number) if number.isdecimal() else name

    def file(self, kind: str, path: Path) -> dict[str, Any]:
        """A file of this kind as the configuration has it."""
        is_text = not any(suffix.lower() in _NOT_TEXT for suffix in path.suffixes[-2:])
        settings = {
            "path": str(path),
            "separator": self.separator if is_text else None,
            "header": False if self.no_header and is_text else None,
            "ids": self.ids,
            "columns": self.columns[kind] or None,
        }
        return {name: value for name, value in settings.items() if value is not None}


def _mapping(files: dict[str, Path | None], models: dict[str, Path], settings: dict[str, Any], reading: _Reading) -> dict[str, Any]:
    """What the flags say, in the shape of a configuration."""
    data = {name: reading.file(name, path) for name, path in files.items() if path is not None}
    sections = {
        "data": data,
        "models": {name: reading.file("recs", path) for name, path in models.items()},
        "evaluation": {name: value for name, value in settings.items() if value is not None},
    }
    return {name: values for name, values in sections.items() if values}


def _named_files(given: Sequence[str] | None) -> dict[str, Path]:
    """`NAME=PATH`, or a path, whose stem is the name."""
    from weft.errors import SettingError

    named: dict[str, Path] = {}
    for text in given or []:
        name, sign, place = text.partition("=")
        if not sign or "/" in name or os.sep in name:  # a path that has the sign in it
            name, place = "", text
        path = Path(place)
        if not place.strip():
            raise SettingError(f"--recs {text}: expected a path after '='.")
        if not name:
            name = re.sub(
                rf"(\.(gz|zst|bz2|xz|{'|'.join(kind[1:] for kind in _NOT_TEXT)}|csv|tsv|txt|inter|run))+\Z", "", path.name
            )
        if name in named:
            raise SettingError(
                f"--recs {text}: there is a model {name!r} already, {named[name]}; give each its own name, as in "
                f"--recs {name}_2={path}."
            )
        named[name] = path
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
    numbers = []
    for part in (part.strip() for text in given for part in text.strip("[] ").split(",")):
        if not re.fullmatch(r"[-+]?\d+", part):
            raise SettingError(f"--top-k {','.join(given)}: {part!r} is not a whole number; write for example --top-k 10,20.")
        numbers.append(int(part))
    return numbers


def _check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written to before anything is computed."""
    from weft.errors import InputError

    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    if not there.is_dir():
        raise InputError(f"--out {folder}: {there} is a file; give a folder.")
    if not os.access(there, os.W_OK | os.X_OK):
        raise InputError(f"--out {folder}: no permission to write to {there}.")


# Messages speak as Python does (`top_k=[10]`), and those of a configuration by its keys (`evaluation.top_k`).
_KEYWORDS = {
    *("metrics", "top_k", "relevance_threshold", "mask_seen", "ties", "seed", "profile", "empty_users", "missing_lists"),
    *("duplicates", "batch_size", "device", "per_user", "save_per_user", "models", *_ROLES),
} - {"recs"}
_SAID_TWICE = re.compile(r"\w+= \((?:[^()]*; )?(--[\w-]+ FILE) on the command line\)")


def _in_flags(message: str, names: Collection[str] = _KEYWORDS) -> str:
    """A message in the words of the command line, as far as it is about settings of these names."""

    def flag(name: str) -> str:
        return "--" + {"save_per_user": "per_user", "models": "recs"}.get(name, name).replace("_", "-")

    def with_value(found: re.Match[str]) -> str:
        name, value = found[1], found[2]
        if name in _ROLES:
            return f"{flag(name)} FILE"
        if value in ("True", "False") and name in ("mask_seen", "per_user"):
            return {"mask_seenTrue": "--mask-seen", "mask_seenFalse": "--keep-seen"}.get(name + value, flag(name))
        plain = re.sub(r"['\"\[\]]", "", value or "").replace(", ", ",")
        return f"{flag(name)} {plain}".strip()

    known = "|".join(sorted(names)) or "(?!)"
    compound = "|".join(sorted(name for name in names if "_" in name)) or "(?!)"
    message = _SAID_TWICE.sub(r"\1", message)
    # Keys of a configuration, first with what lies below them at the start of a line; then `name=value`; then names that can be no
    # ordinary word.
    message = re.sub(rf"^(?:evaluation|data)\.({known})\b[^:\s]*(?=: )", lambda found: flag(found[1]), message, flags=re.MULTILINE)
    key = rf"(?<![\w/.-])(?:evaluation|data)\.({known})(?:: (FILE))?(?![\w/-]|\.\w)"
    message = re.sub(key, lambda found: " ".join(filter(None, (flag(found[1]), found[2]))), message)
    if "models" in names:
        message = re.sub(r"^models\.([^:\s]*?)(\.\w+)?(?=:)", r"--recs \1", message, flags=re.MULTILINE)
    message = re.sub(rf"(?<![\w/.-])({known})=('[^']*'|\"[^\"]*\"|\[[^\]]*\]|-?[\w.]*\w)?(?![\w/])", with_value, message)
    return re.sub(rf"(?<![\w/.'\"=-])({compound})(?![\w/.'\"=-])", lambda found: flag(found[1]), message)


@app.command()
def compare(
    results: Annotated[list[Path], typer.Argument(help="Result files, two or more, with values per user.", show_default=False)],
    metric: Annotated[list[str] | None, typer.Option("--metric", "-m", help="Compare this metric only; may be repeated.")] = None,
    test: Annotated[
        list[str] | None,
        typer.Option("--test", "-t", help="paired_t or wilcoxon; may be repeated.", autocompletion=_offer("paired_t", "wilcoxon")),
    ] = None,
    correction: Annotated[
        str, typer.Option(help="holm, bonferroni, fdr or none.", autocompletion=_offer("holm", "bonferroni", "fdr", "none"))
    ] = "holm",
    alpha: Annotated[float, typer.Option(help="The level of significance.")] = 0.05,
    format: Format = "table",  # noqa: A002
    debug: Debug = False,
) -> None:
    """Compare models user by user: differences with intervals, paired tests, adjusted p-values.

    The results must have values per user: weft evaluate ... --out DIR --per-user writes them.

    \b
    weft compare results/als.json results/pop.json
    weft compare results/*.json -m nDCG@10 -t wilcoxon --correction fdr
    weft compare results/als.json results/pop.json --format latex > table.tex
    """
    from weft.errors import one_of

    chosen = one_of("--format", format, FORMATS)
    from weft.report.tables import COMPARISON_FORMATS
    from weft.result import load_result
    from weft.significance import compare as compare_results

    console = _console(stderr=chosen != "table")
    comparison = compare_results(
        [load_result(path) for path in results],
        metrics=metric,
        tests=test or ["paired_t"],
        correction=correction,
        alpha=alpha,
    )
    if chosen == "table":
        _show_comparison(console, comparison)
        return
    sys.stdout.write(COMPARISON_FORMATS[chosen](comparison))
    _tell_comparison(console, comparison)


def _show_comparison(console: Console, comparison: Comparison) -> None:
    from weft.report.terminal import comparison_tables

    for table in comparison_tables(comparison):
        console.print(table)
    _tell_comparison(console, comparison)


def _tell_comparison(console: Console, comparison: Comparison) -> None:
    """What stands around the tables."""
    for name, front in comparison.fronts.items():
        console.print(f"{name}: {', '.join(front.models)} on the Pareto front, hypervolume {front.hypervolume:.4f}", markup=False)
    for note in comparison.notes:
        console.print(note, style="dim", markup=False)


@app.command()
def metrics(
    name: Annotated[
        str | None, typer.Argument(help="A metric to explain.", show_default=False, autocompletion=_offer_metrics)
    ] = None,
    profiles: Annotated[
        bool, typer.Option("--profiles", help="Show the metric as other tools define it, on the same lists.")
    ] = False,
    debug: Debug = False,
) -> None:
    """List the metrics, or explain one.

    \b
    weft metrics
    weft metrics nDCG
    weft metrics MAP --profiles
    """
    from weft import registry

    if name is not None and profiles:
        _compare_definitions(registry.find(name))
    elif name is not None:
        _explain(registry.find(name))
    else:
        _list_metrics(with_profiles=profiles)


@app.command()
def schema(
    out: Annotated[Path | None, typer.Option(metavar="FILE", help="Write it to a file instead.", show_default=False)] = None,
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
    from weft.result import write_whole

    write_whole({out: lambda file: file.write(text.encode())})
    print(f"Written: {out}")


def _list_metrics(*, with_profiles: bool) -> None:
    """Print every metric, by family."""
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
    _console().print(table)


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
    from rich.table import Table
    from rich.text import Text

    from weft.report import definitions

    console = _console()
    console.print(
        f"{definitions.title(metric)} as each tool defines it, on the same four lists of up to {definitions.K} items: with every "
        "rating 1, and with ratings of 1 to 5.",
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
        console.print(f"[dim]not covered by: {', '.join(missing)}[/dim]")


if __name__ == "__main__":
    main()

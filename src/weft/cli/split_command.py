"""`weft split`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from weft._choices import SplitFormat, choices
from weft.cli.error_handling import Debug
from weft.cli.flags import FileFlags
from weft.cli.options import (
    READING_OPTIONS,
    OutputOption,
    add_options,
    complete_words,
    from_model,
)
from weft.cli.output import check_folder, open_console, print_written, show_progress
from weft.errors import agree
from weft.evaluation.splitting.split_settings import SplitSettings

if TYPE_CHECKING:
    from rich.table import Table

    from weft.evaluation.splitting.split import Split

_FORMATS = choices(SplitFormat)
_PANELS = {
    "Split": (
        *("method", "test_share", "validation_share", "test_from", "validation_from", "n"),
        *("validation_n", "folds", "per", "ties", "seed"),
    ),
    "Filtering": (
        *("duplicates", "min_user_interactions", "min_item_interactions", "core", "cold_users"),
        "cold_items",
    ),
}
_SETTINGS = [
    from_model(SplitSettings, name, rich_help_panel=panel)
    for panel, names in _PANELS.items()
    for name in names
]
_DROPPED = {
    "duplicates": "{n} repeated interaction{s}",
    "few_interactions": "{n} row{s} of users and items with few interactions",
    "cold_users": "{n} row{s} of users that are not in train",
    "cold_items": "{n} row{s} of items that are not in train",
}


_Format = Annotated[
    str | None,
    OutputOption(
        "--format",
        "-f",
        metavar="CHOICE",
        help=f"File format of the sets: {', '.join(_FORMATS)}.",
        show_default="the format of the input",
        autocompletion=complete_words(*_FORMATS),
    ),
]


@add_options(*_SETTINGS, *READING_OPTIONS)
def split(
    interactions: Annotated[
        Path, typer.Argument(metavar="INTERACTIONS", help="File of interactions.")
    ],
    *,
    out: Annotated[
        Path | None,
        OutputOption(
            metavar="DIR", help="Folder for the sets and the manifest weft-split.json. Required."
        ),
    ] = None,
    format: _Format = None,  # noqa: A002
    overwrite: Annotated[
        bool,
        OutputOption("--overwrite", help="Replace the files of an earlier split in the folder."),
    ] = False,
    debug: Debug = False,
    **options: Any,
) -> None:
    """Split interactions into train, validation and test sets.

    Writes the sets with all columns of the input, and weft-split.json, which records how they were
    made. 'weft check' and the report read this file.

    Examples:

    \b
      weft split ratings.csv --method leave-last-out --validation-n 1 --out parts
      weft split ratings.csv --method timeline --test-from 2024-01-01 --out parts
      weft split ratings.parquet --method user-timeline --test-share 0.2 \\
        --out parts
      weft split ratings.csv --method folds --folds 5 --out parts -f parquet
    """
    _check_given(interactions, method=options["method"], out=out)
    assert out is not None
    check_folder(out, f"--out {out}")
    with show_progress(None) as step:
        step("splitting")
        parts = _split_file(interactions, options)
        step("writing")
        files = parts.save(out, format=cast("SplitFormat | None", format), overwrite=overwrite)
    console = open_console()
    console.print(_table(parts))
    for name, count in parts.manifest["dropped"].items():
        if count:
            console.print(f"Dropped: {agree(count, _DROPPED[name])}.", highlight=False)
    print_written(console, files)


def _check_given(interactions: Path, *, method: str | None, out: Path | None) -> None:
    """Raise `SettingError` without a method or a folder for the parts."""
    from weft.errors import SettingError

    for flag, value in {"--method": method, "--out": out}.items():
        if value is None:
            raise SettingError(
                f"{flag} must be given, as in: weft split {interactions} --method leave-last-out "
                "--out parts. See weft split --help."
            )


def _split_file(interactions: Path, options: dict[str, Any]) -> Split:
    """Return the split of a file by the options of the command."""
    from weft.data.readers.files import File
    from weft.evaluation.splitting.split import split as split_data

    file = File(**FileFlags.from_options(options).describe("train", interactions))
    settings = {name: options[name] for name in SplitSettings.model_fields}
    return split_data(file, **{name: one for name, one in settings.items() if one is not None})


def _table(split: Split) -> Table:
    """Return the size and the time range of each part."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for title in ("part", "rows", "users", "items", "first", "last"):
        table.add_column(title, justify="left" if title == "part" else "right")
    for part in split.parts:
        facts = part.facts
        sizes = (f"{facts[name]:,}" for name in ("rows", "users", "items"))
        times = (Text(str(facts.get(name, ""))) for name in ("first", "last"))
        table.add_row(part.place, *sizes, *times)
    return table

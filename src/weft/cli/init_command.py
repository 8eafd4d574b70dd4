"""`weft init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.error_handling import Debug, print_text


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="Folder with the input files.")
    ] = Path(),
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Configuration file to write, in the same folder.",
            show_default="FOLDER/weft.yaml",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace an existing configuration file.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Write a commented configuration for the files in a folder.

    Test and train interactions are recognized by the names of files, recommendation lists by their
    columns, and groups of users by columns with few labels.

    Examples:

    \b
      weft init
      weft init data --out data/run.yaml
    """
    from weft.config.draft import draft_configuration
    from weft.evaluation.atomic_files import text_writer, write_files

    path = folder / "weft.yaml" if out is None else out
    _check_paths(folder, path, replace=force)
    draft = draft_configuration(folder)
    write_files({path: text_writer(draft.text)})
    print_text(f"Written: {path}")
    for line in draft.missing:
        print_text(f"Missing: {line}")
    if draft.missing:
        print_text(f"Add the missing entries to {path}, then run: weft evaluate {path}")
    else:
        print_text(f"Next: weft check {path}, weft evaluate {path}")


def _check_paths(folder: Path, path: Path, *, replace: bool) -> None:
    """Raise an error if there is no such folder, or if the file cannot be written there."""
    from weft.errors import InputError

    if not folder.is_dir():
        raise InputError(
            f"{folder}: there is no such folder; give the folder with the input files."
        )
    if path.exists() and not replace:
        raise InputError(
            f"{path} exists already; replace it with --force, or choose another name with --out."
        )
    if path.absolute().parent.resolve() != folder.resolve():
        raise InputError(
            f"--out {path}: the file must be in {folder}, because paths in a configuration are "
            "relative to its folder."
        )

"""`weft init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.error_handling import Debug, print_text


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder with the files.")
    ] = Path(),
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="The configuration. Default: FOLDER/weft.yaml."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace the file if it exists already.")
    ] = False,
    debug: Debug = False,
) -> None:
    """Write a configuration for the files in a folder, with comments that explain it.

    Test and train interactions are found by the names of files, recommendation lists by their
    columns, groups of users by columns with a few labels.

    \b
    weft init
    weft init data --out data/run.yaml
    """
    from weft.config.draft import draft_configuration
    from weft.errors import InputError
    from weft.evaluation.atomic_files import text_writer, write_files

    if not folder.is_dir():
        raise InputError(f"{folder}: there is no such folder; give the folder with the files.")
    path = folder / "weft.yaml" if out is None else out
    if path.exists() and not force:
        raise InputError(f"{path} exists already; --force replaces it, --out gives another name.")
    if path.absolute().parent.resolve() != folder.resolve():
        raise InputError(
            f"--out {path}: the file must lie in {folder}, because its paths are relative to it."
        )
    draft = draft_configuration(folder)
    write_files({path: text_writer(draft.text)})
    print_text(f"Written: {path}")
    for line in draft.missing:
        print_text(f"Missing: {line}")
    if draft.missing:
        print_text(f"Add to {path} what is missing, then: weft evaluate {path}")
    else:
        print_text(f"Next: weft check {path}, weft evaluate {path}")

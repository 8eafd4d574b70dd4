"""`weft schema`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.error_handling import Debug, print_text


def schema(
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File for the schema.",
            show_default="standard output",
        ),
    ] = None,
    debug: Debug = False,
) -> None:
    """Print the JSON Schema of configuration files, for completion and validation in editors.

    Editors with the YAML language server read the schema if the first line of a configuration is
    '# yaml-language-server: $schema=weft.schema.json'.

    Examples:

    \b
      weft schema
      weft schema --out weft.schema.json
    """
    import json

    from weft import config

    text = json.dumps(config.schema(), indent=2, ensure_ascii=False) + "\n"
    if out is None:
        print_text(text)
        return
    from weft.evaluation.atomic_files import text_writer, write_files

    write_files({out: text_writer(text)})
    print_text(f"Written: {out}")

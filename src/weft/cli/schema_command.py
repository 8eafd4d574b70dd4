"""`weft schema`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from weft.cli.error_handling import Debug, print_text


def schema(
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write it to a file instead.", show_default=False),
    ] = None,
    debug: Debug = False,
) -> None:
    """Print the JSON Schema of configuration files, with which editors complete and check them.

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
        print_text(text)
        return
    from weft.evaluation.atomic_files import text_writer, write_files

    write_files({out: text_writer(text)})
    print_text(f"Written: {out}")

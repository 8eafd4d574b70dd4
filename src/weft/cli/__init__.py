"""The command line: `main` is the entry point, `app` the typer application.

Every command builds the objects that Python users build, and imports them when it runs, so that
help and completion do not wait for torch.
"""

from weft.cli.application import app, main

__all__ = ["app", "main"]

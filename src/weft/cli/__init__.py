"""The command line."""

from weft.cli.commands import app, main

__all__ = ["app", "main"]

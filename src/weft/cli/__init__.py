"""The command line."""

from weft.cli.app import app, main

__all__ = ["app", "main"]

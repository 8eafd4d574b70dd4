"""Help texts that fit a terminal of any width, and options without the type of a switch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from typer.core import TyperCommand

_VERBATIM = "\b\n"  # marks a paragraph with lines that stay as they are


class WeftCommand(TyperCommand):
    """A command with the help of its docstring."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.help = unwrap_paragraphs(self.help or "")

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help, with the default that options state as a text."""
        with _stated_defaults(self.params):
            super().format_help(ctx, formatter)

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the options and arguments, with --help."""
        return hide_switch_types(super().get_params(ctx))


def unwrap_paragraphs(text: str) -> str:
    """Return the text with each paragraph in one line, except verbatim paragraphs (examples)."""
    return "\n\n".join(
        paragraph.removeprefix(_VERBATIM)
        if paragraph.startswith(_VERBATIM)
        else " ".join(paragraph.split())
        for paragraph in text.split("\n\n")
    )


@contextmanager
def _stated_defaults(parameters: Sequence[Any]) -> Iterator[None]:
    """Make stated defaults those of the parameters: typer puts stated ones in parentheses.

    Of a pair of flags, typer would show one of them as the default.
    """
    stated = [one for one in parameters if isinstance(one.show_default, str)]
    changed = ("default", "show_default", "is_bool_flag")
    originals = [[getattr(one, name, None) for name in changed] for one in stated]
    try:
        for one in stated:
            one.default, one.show_default, one.is_bool_flag = one.show_default, True, False
        yield
    finally:
        for one, values in zip(stated, originals):
            one.default, one.show_default, one.is_bool_flag = values


def hide_switch_types(parameters: list[Any]) -> list[Any]:
    """Return the parameters; help shows no type for those that take no value."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False) and parameter.metavar is None:
            parameter.metavar = ""
    return parameters

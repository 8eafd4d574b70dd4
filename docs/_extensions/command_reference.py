"""The commands with their arguments and options, written from the typer application."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any

import typer
from markdown_text import code, escape

from weft.cli import app

_WITHOUT_PANEL = "Options"


def render() -> str:
    """Return a section for each command as MyST Markdown."""
    group: Any = typer.main.get_command(app)
    lines = [*_section("weft", group)]
    for name, command in group.commands.items():
        lines += _section(f"weft {name}", command)
    return "\n".join(lines)


def _section(name: str, command: Any) -> Iterator[str]:
    arguments = [one for one in command.params if not _is_option(one)]
    options = [one for one in command.params if _is_option(one)]
    yield from (f"## {name}", "", f"```{{program}} {name}", "```", "")
    yield from _description(command.help)
    usage = [one.metavar or one.name.upper() for one in arguments]
    usage = [word if one.required else f"[{word}]" for one, word in zip(arguments, usage)]
    words = ["COMMAND", "..."] if hasattr(command, "commands") else usage
    yield from ("```text", " ".join([name, "[OPTIONS]", *words]), "```", "")
    for one in arguments:
        yield from _entry(one.metavar or one.name.upper(), one)
    panels = {getattr(one, "rich_help_panel", None) or _WITHOUT_PANEL: None for one in options}
    for panel in panels:
        if len(panels) > 1:
            yield from (f"### {panel}", "")
        for one in options:
            if (one.rich_help_panel or _WITHOUT_PANEL) == panel:
                yield from _entry(_signature(one), one)
    if command.epilog:
        yield from (escape(command.epilog), "")


def _description(text: str | None) -> Iterator[str]:
    """Yield the help text of a command; indented paragraphs and those of several lines are code."""
    for paragraph in (text or "").split("\n\n"):
        lines = textwrap.dedent(paragraph.removeprefix("\b\n")).splitlines()
        if paragraph.startswith(("\b", " ")) or len(lines) > 1:
            language = "bash" if lines[0].startswith("weft") else "yaml"
            yield from (f"```{language}", *lines, "```", "")
        else:
            yield from (escape(" ".join(paragraph.split())), "")


def _signature(option: Any) -> str:
    """Return the spellings of an option: `--top-k <10,20>, -k <10,20>`."""
    is_long = [text for text in option.opts if text.startswith("--")]
    names = [*is_long, *(text for text in option.opts if text not in is_long)]
    if option.is_flag:
        return ", ".join([*names, *option.secondary_opts])
    kind = option.type_descriptor.annotation
    words = {int: "INTEGER", float: "NUMBER"}
    metavar = option.metavar or words.get(kind, "TEXT")
    return ", ".join(f"{name} <{metavar}>" for name in names)


def _entry(signature: str, parameter: Any) -> Iterator[str]:
    """Yield the entry of an argument or option."""
    yield from (f"````{{option}} {signature}", escape(parameter.help or ""))
    facts = ["Required."] if parameter.required else []
    if isinstance(parameter.show_default, str):  # stated as a text
        facts.append(f"Default: {escape(parameter.show_default)}.")
    elif _shows_default(parameter):
        facts.append(f"Default: {code(parameter.default)}.")
    if parameter.multiple and "repeated" not in (parameter.help or ""):
        facts.append("May be repeated.")
    if parameter.envvar:
        facts.append(f"Environment variable: {code(parameter.envvar)}.")
    yield from ("", " ".join(facts), "````", "")


def _shows_default(parameter: Any) -> bool:
    has_default = parameter.default not in (None, False, ()) and not callable(parameter.default)
    return has_default and not (parameter.is_flag if _is_option(parameter) else False)


def _is_option(parameter: Any) -> bool:
    return any(text.startswith("-") for text in parameter.opts)

"""The keys of configuration files, written from their JSON Schema and the settings model."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

import typer
from markdown_text import code, escape

import weft
from weft.cli import app
from weft.config import schema
from weft.evaluation.settings import EvaluationSettings

# Sections by their place in a file, with the definition in the schema.
_SECTIONS = {
    "data": "DataFiles",
    "evaluation": "EvaluationSection",
    "evaluation.significance": "SignificanceSettings",
    "evaluation.significance.corrections": "CorrectionSettings",
    "evaluation.complex_metrics": "ComplexMetric",
    "evaluation.slices": "SliceSettings",
    "evaluation.item_slices": "ItemSliceSettings",
    "engine": "EngineSettings",
}
_FILE = "FileSettings"
_TYPES = {
    "array": "list",
    "boolean": "true or false",
    "integer": "integer",
    "null": "null",
    "number": "number",
    "object": "mapping",
    "string": "text",
}
_REFERENCES = {
    "ComplexMetric": "mapping with name and params",
    "CorrectionSettings": "mapping",
    "DataFiles": "mapping",
    "EngineSettings": "name, or mapping",
    "EvaluationSection": "mapping",
    "FileSettings": "path, or mapping (see Files)",
    "ItemSliceSettings": "rule, path, or mapping",
    "SignificanceSettings": "mapping",
    "SliceSettings": "rule, path, or mapping",
}
_MAX_LISTED = 20  # names of metrics are not listed
_NOT_IN_FILES = "Settings that are not in configuration files"


def render() -> str:
    """Return an entry for each key as MyST Markdown."""
    document = schema()
    lines = ["## Top level", ""]
    lines += _entries("", document)
    for place, name in _SECTIONS.items():
        lines += [f"## {place}", ""]
        lines += _section(place, document["$defs"][name])
    lines += ["## Files", ""]
    lines += _section("FILE", document["$defs"][_FILE])
    return "\n".join([*lines, *_python_only()])


def _section(place: str, definition: Mapping[str, Any]) -> Iterator[str]:
    yield from (escape(" ".join(definition["description"].split())), "")
    forms = definition.get("anyOf", [definition])
    yield from _entries(place, next(form for form in reversed(forms) if "properties" in form))


def _entries(place: str, definition: Mapping[str, Any]) -> Iterator[str]:
    required = definition.get("required", ())
    for key, value in definition["properties"].items():
        yield f"````{{confval}} {place}.{key}" if place else f"````{{confval}} {key}"
        yield from ("", escape(value.get("description", "")), "")
        yield f"- Type: {_type(value)}{', required' if key in required else ''}"
        if value.get("default") not in (None, []):
            yield f"- Default: {code(_yaml(value['default']))}"
        if words := _choices(value):
            yield f"- Values: {', '.join(map(code, words))}"
        yield from _other_interfaces(place, key)
        yield from ("````", "")


def _type(value: Mapping[str, Any]) -> str:
    """Return the type of a value in words."""
    forms = [form for form in value.get("anyOf", [value]) if form.get("type") != "null"]
    words: dict[str, None] = {}
    for form in forms:
        if "$ref" in form:
            words[_REFERENCES[form["$ref"].rpartition("/")[2]]] = None
        elif "anyOf" in form:
            words[_type(form)] = None
        else:
            words[_limit(_TYPES.get(form.get("type", "string"), "text"), form)] = None
    return " or ".join(words)


def _limit(word: str, form: Mapping[str, Any]) -> str:
    """Add the limits of a number to its type."""
    limits = {
        "minimum": "from {}",
        "exclusiveMinimum": "above {}",
        "maximum": "up to {}",
        "exclusiveMaximum": "below {}",
    }
    texts = [text.format(form[name]) for name, text in limits.items() if name in form]
    return " ".join([word, *texts])


def _choices(value: Mapping[str, Any]) -> list[str]:
    """Return the words that a key accepts."""
    forms = value.get("anyOf", [value])
    words = [word for form in forms for word in form.get("enum", ())]
    words += [form["const"] for form in forms if "const" in form]
    return words if len(words) <= _MAX_LISTED else []


def _yaml(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _flags() -> dict[str, str]:
    """Return the flags of `weft evaluate` by the name of their setting."""
    commands: Any = typer.main.get_command(app)
    parameters = commands.commands["evaluate"].params
    return {
        one.name: " / ".join([*one.opts[:1], *one.secondary_opts])
        for one in parameters
        if one.opts[0].startswith("--")
    }


def _other_interfaces(place: str, key: str) -> Iterator[str]:
    """Yield the flag and the Python argument of a key."""
    fields = {field.option.key: field for field in EvaluationSettings.fields()}
    name = fields[key].name if place == "evaluation" and key in fields else key
    flags = _flags()
    own = {"evaluation.gates": "gate", "models": "models", "engine.name": "engine"}
    name = own.get(f"{place}.{key}" if place else key, name)
    others = {"output": "out", "evaluation.complex_metrics": "metrics"}
    flag = flags.get(others.get(key, name))
    has_flag = place in ("", "data", "evaluation", "engine") or place == "FILE"
    if flag and has_flag:
        yield f"- Command line: {code(flag)}"
    if place in ("data", "evaluation") and name in inspect.signature(weft.evaluate).parameters:
        yield f"- Python: {code(f'weft.evaluate(..., {name}=...)')}"


def _python_only() -> Iterator[str]:
    """Yield the settings without a key: those of Python and of the command line."""
    fields = [field for field in EvaluationSettings.fields() if field.option.key is None]
    yield from (f"## {_NOT_IN_FILES}", "")
    for field in fields:
        yield from (f"````{{confval}} {field.name}", escape(field.description), "")
        yield f"- Default: {code(repr(field.default))}"
        if field.choices:
            yield f"- Values: {', '.join(map(code, field.choices))}"
        if field.option.flag:
            yield f"- Command line: {code(field.option.flag)}"
        owner = "weft.evaluate" if field.option.in_evaluate else "weft.Evaluator"
        yield from (f"- Python: {code(f'{owner}(..., {field.name}=...)')}", "````", "")

"""The JSON Schema of a configuration, with which editors complete and check it."""

from __future__ import annotations

from typing import Any

from weft.config.configuration import Configuration
from weft.config.evaluation_section import EvaluationSection
from weft.config.sections import ENGINES, column_roles

_DRAFT = "https://json-schema.org/draft/2020-12/schema"
_LISTS = ("top_k", "gates", "custom_modules", "complex_metrics")


def schema() -> dict[str, Any]:
    """Return the JSON Schema of a configuration.

    It contains every key with its description, its choices and its short forms.

    >>> import weft.config
    >>> sorted(weft.config.schema()["properties"])[:3]
    ['data', 'engine', 'evaluation']
    """
    document = Configuration.model_json_schema()
    sections = document["$defs"]
    _complete_evaluation(sections)
    _add_short_forms(sections)
    for definition in (document, *sections.values()):
        if "description" in definition:
            definition["description"] = _first_paragraph(definition["description"])
    anchors = {
        "patternProperties": {
            "^x-": {"description": "Any value, for use through a YAML anchor; otherwise ignored."}
        }
    }
    return {"$schema": _DRAFT, **document, "title": "Weft configuration", **anchors}


def _first_paragraph(docstring: str) -> str:
    """Return the summary of a section; editors show it without the examples of the docstring."""
    return " ".join(docstring.partition("\n\n")[0].split())


def _complete_evaluation(sections: dict[str, Any]) -> None:
    """Name the metrics, and keep the keys that YAML offers."""
    from weft.metrics.registry import built_in_metrics

    names = sorted((metric.__name__ for metric in built_in_metrics()), key=str.casefold)
    metric_name = {"anyOf": [{"enum": names}, {"type": "string"}]}
    section = sections["EvaluationSection"]
    properties = section["properties"]
    properties = {key: properties[name] for key, name in EvaluationSection.keys().items()}
    properties["metrics"] = _one_or_many(properties["metrics"], metric_name)
    for key in _LISTS:
        items = _array(properties[key])["items"]
        properties[key] = _one_or_many(properties[key], items)
    properties["candidates"]["enum"].remove("given")  # a file of the section data
    properties["per_user"] = {
        **properties["save_per_user"],
        "description": "Alias of save_per_user.",
    }
    section["properties"] = properties
    metric = sections["ComplexMetric"]["properties"]
    metric["name"] = _about(metric["name"]) | metric_name


def _add_short_forms(sections: dict[str, Any]) -> None:
    """Allow a path for a file, an expression or a file for a slice, a name for an engine."""
    file = sections["FileSettings"]
    file["properties"]["columns"] |= {
        "propertyNames": {"enum": list(column_roles())},
        "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 0}]},
    }
    path = {
        "type": "string",
        "title": "Path",
        "description": file["properties"]["path"]["description"],
    }
    sections["FileSettings"] = _any_of("File", path, file)
    expression = {
        "type": "string",
        "title": "Groups",
        "description": "'quantiles(4)', 'bins(5, 20)', or the path of a file.",
    }
    file_form = {"$ref": "#/$defs/FileSettings"}
    sections["SliceSettings"] = _any_of("Slice", expression, file_form, sections["SliceSettings"])
    rule = {
        "type": "string",
        "title": "Groups",
        "description": "'head_tail', 'targets', 'time(month)', 'quantiles(4)', 'bins(5, 20)', the "
        "name of an input, or the path of a file.",
    }
    sections["ItemSliceSettings"] = _any_of(
        "Item slice", rule, file_form, sections["ItemSliceSettings"]
    )
    engine = sections["EngineSettings"]
    short_name = {
        "enum": [*ENGINES, "none"],
        "title": "Name",
        "description": "Engine on this machine.",
    }
    sections["EngineSettings"] = _any_of("Engine", short_name, engine)


def _any_of(title: str, *forms: dict[str, Any]) -> dict[str, Any]:
    """Return a section with several forms, the last of which is its mapping."""
    return {"title": title, "description": forms[-1].pop("description"), "anyOf": list(forms)}


def _about(value: dict[str, Any]) -> dict[str, Any]:
    return {key: value[key] for key in value if key in ("title", "description", "default")}


def _array(value: dict[str, Any]) -> dict[str, Any]:
    """Return the array form of a value."""
    forms = (value, *value.get("anyOf", ()))
    return next(form for form in forms if form.get("type") == "array")


def _one_or_many(value: dict[str, Any], element: dict[str, Any]) -> dict[str, Any]:
    """Return a value that is one element, or a list of elements."""
    return {**_about(value), "anyOf": [element, {"type": "array", "items": element}]}

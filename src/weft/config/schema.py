"""The JSON Schema of a configuration, so that editors complete and check it."""

from __future__ import annotations

from typing import Any

from weft.config.models import CHOICES, ENGINES, Configuration, roles

_DRAFT = "https://json-schema.org/draft/2020-12/schema"


def schema() -> dict[str, Any]:
    """What `weft schema` prints: every key with its description, what can be chosen, and the short
    forms.
    """
    from weft.metrics.registry import all_metrics

    made = Configuration.model_json_schema()
    sections = made["$defs"]
    names = sorted(
        (metric.__name__ for metric in all_metrics() if metric.__module__.startswith("weft.")),
        key=str.casefold,
    )
    a_metric = {"anyOf": [{"enum": names}, {"type": "string"}]}
    for section in (made, *sections.values()):
        for key, value in section["properties"].items():
            if key in CHOICES:
                section["properties"][key] = _with_choices(value, list(CHOICES[key]()))
    evaluation = sections["Evaluation"]["properties"]
    evaluation["metrics"] = _one_or_many(evaluation["metrics"], a_metric)
    for key in ("top_k", "gates", "custom_modules", "complex_metrics"):
        evaluation[key] = _one_or_many(evaluation[key], evaluation[key]["items"])
    evaluation["per_user"] = {
        **evaluation["save_per_user"],
        "description": "Another name of save_per_user.",
        "title": "Per User",
    }
    metric = sections["ComplexMetric"]
    metric["properties"]["name"] |= a_metric
    del metric["properties"]["name"]["type"]
    file = sections["FileSettings"]
    file["properties"]["columns"] |= {
        "propertyNames": {"enum": list(roles())},
        "additionalProperties": {"anyOf": [{"type": "string"}, {"type": "integer", "minimum": 0}]},
    }
    sections["FileSettings"] = {
        "title": "File",
        "description": file.pop("description"),
        "anyOf": [
            {
                "type": "string",
                "title": "Path",
                "description": file["properties"]["path"]["description"],
            },
            file,
        ],
    }
    groups = sections["SliceSettings"]
    short = {
        "type": "string",
        "title": "Groups",
        "description": "'quantiles(4)', 'bins(5, 20)', or the path of a file.",
    }
    sections["SliceSettings"] = {
        "title": "Slice",
        "description": groups.pop("description"),
        "anyOf": [short, {"$ref": "#/$defs/FileSettings"}, groups],
    }
    engine = sections["Engine"]
    engine["properties"]["name"] = {**_kept(engine["properties"]["name"]), "enum": list(ENGINES)}
    sections["Engine"] = {
        "title": "Engine",
        "description": engine.pop("description"),
        "anyOf": [
            {
                "enum": [*ENGINES, "none"],
                "title": "Name",
                "description": "The engine, on this machine.",
            },
            engine,
        ],
    }
    anything = {
        "patternProperties": {
            "^x-": {"description": "Whatever is to be named by an anchor; it is not read."}
        }
    }
    return {"$schema": _DRAFT, **made, "title": "Weft configuration", **anything}


def _kept(value: dict[str, Any]) -> dict[str, Any]:
    return {key: value[key] for key in value if key in ("title", "description", "default")}


def _with_choices(value: dict[str, Any], options: list[str]) -> dict[str, Any]:
    """A text with what can be chosen; null, where it stands for the default."""
    kept = _kept(value)
    if any(kind.get("type") == "null" for kind in value.get("anyOf", ())):
        return {**kept, "anyOf": [{"enum": options}, {"type": "null"}]}
    return {**kept, "enum": options}


def _one_or_many(value: dict[str, Any], one: dict[str, Any]) -> dict[str, Any]:
    """One value, or a list of them."""
    kept = _kept(value)
    return {**kept, "anyOf": [one, {"type": "array", "items": one}]}

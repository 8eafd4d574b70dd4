"""Values that replace those of a YAML file, such as options of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from weft.config.document import Document, Keys, from_home
from weft.config.evaluation_section import SLICES

# Keys of values that map names to files.
_MAPPINGS_OF_FILES = (("models",), ("data", "inputs"), *(("evaluation", one) for one in SLICES))
# Keys of a file that an option with another name replaces.
_REPLACED_BY = {"complex_metrics": "metrics", "per_user": "save_per_user"}


def drop_none(values: Any) -> Any:
    """Return the values without keys that have no value, except in parameters and models."""
    if isinstance(values, dict):
        return {
            key: value if key in ("params", "models") else drop_none(value)
            for key, value in values.items()
            if value is not None
        }
    return [drop_none(value) for value in values] if isinstance(values, list) else values


def copy_values(values: Any) -> Any:
    """Return a copy of plain values; paths become text."""
    if isinstance(values, Mapping):
        return {str(key): copy_values(value) for key, value in values.items()}
    if isinstance(values, Path):
        return str(values)
    return [copy_values(value) for value in values] if isinstance(values, (list, tuple)) else values


def override(document: Document, overrides: Mapping[str, Any]) -> None:
    """Replace values of the document, and record which."""
    for section, values in copy_values(overrides).items():
        own = document.values.get(section)
        if section in ("evaluation", "data") and isinstance(values, dict):
            if own is None or isinstance(own, dict):  # others are refused for their shape
                _override_keys(document, section, values)
        elif values is not None:
            document.overridden.add((section,))
            document.values[section] = _resolve_paths((section,), values)
            if section == "engine":
                document.values[section] = _merge_engine(own, values)
    _drop_other_candidates(document)


def _drop_other_candidates(document: Document) -> None:
    """Remove the candidates of the file that an override replaces under another section."""
    sections = {section for section, *keys in document.overridden if keys == ["candidates"]}
    if len(sections) == 1:  # candidates are a pool of the evaluation, or a file of the data
        (other,) = {"evaluation", "data"} - sections
        if isinstance(document.values.get(other), dict):
            document.values[other].pop("candidates", None)


def _override_keys(document: Document, section: str, values: dict[str, Any]) -> None:
    """Replace the keys of a section that have a value."""
    replaced = {
        key: _resolve_paths((section, key), value)
        for key, value in values.items()
        if value is not None
    }
    own = document.values.get(section) or {}
    document.overridden |= {(section, key) for key in replaced.keys() - {"inputs"}}
    if "inputs" in replaced:  # input by input
        document.overridden |= {(section, "inputs", name) for name in replaced["inputs"]}
        kept = own.get("inputs")
        replaced["inputs"] = {**(kept if isinstance(kept, dict) else {}), **replaced["inputs"]}
    rest = {key: value for key, value in own.items() if _REPLACED_BY.get(key, key) not in replaced}
    document.values[section] = rest | replaced


def _resolve_paths(keys: Keys, value: Any) -> Any:
    """Return a value with each path as a `Path`, relative to the current folder, not the file's."""
    if keys in _MAPPINGS_OF_FILES and isinstance(value, dict):
        return {name: _resolve_paths((*keys, name), file) for name, file in value.items()}
    if keys[0] in ("evaluation", "engine") and not {*keys[1:2]} & {*SLICES, "checkpoint"}:
        return value
    if isinstance(value, str):
        return from_home(value)
    if isinstance(value, dict):  # a file, or a slice of a file
        return {
            key: _resolve_paths(keys, part) if key in ("path", "of") else part
            for key, part in value.items()
        }
    return value


def _merge_engine(own: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Return the engine of the options, merged with that of the file if it is the same one."""
    named = {"name": own} if isinstance(own, str) else own
    if isinstance(named, Mapping):
        name = str(named.get("name"))
        if str(values.get("name", name)).casefold() == name.casefold():
            return {**named, **values}
    return values

"""Configurations from YAML files, from mappings, and from options that replace values of a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import BaseModel, ValidationError

from weft.config.configuration import Configuration
from weft.config.custom_modules import import_custom_modules
from weft.config.document import Document, Keys, SettingStyle, from_home
from weft.config.evaluation_section import EvaluationSection
from weft.config.validation import check
from weft.config.warprec import is_warprec, translate
from weft.config.yaml_reader import read_yaml
from weft.errors import SettingError, WeftError, did_you_mean

# Keys of a file that an option with another name replaces.
_REPLACED_BY = {"complex_metrics": "metrics", "per_user": "save_per_user"}


def load(
    path: str | Path,
    overrides: Mapping[str, Any] | None = None,
    *,
    style: SettingStyle | None = None,
) -> Configuration:
    """Read a YAML file. Paths in it are relative to its folder.

    `overrides` has the same sections and wins over the file: `evaluation`, `data` and `engine` key
    by key, all others as a whole; new `metrics` replace `complex_metrics` too. Paths in it are
    relative to the current folder. `style` spells overridden settings in messages.
    """
    document = read_yaml(path)
    document.override_style = style
    _override(document, overrides or {})
    return _build(document, Path(path).parent)


def from_mapping(
    values: Mapping[str, Any], *, folder: Path = Path(), style: SettingStyle | None = None
) -> Configuration:
    """Build a configuration from plain values; relative paths start in `folder`.

    `style` spells settings in messages.
    """
    if not isinstance(values, Mapping):
        raise SettingError(
            f"a configuration is a mapping with {', '.join(Configuration.model_fields)}; got "
            f"{values!r}."
        )
    return _build(Document(_copy(values), override_style=style), folder)


def load_evaluation(path: str | Path) -> EvaluationSection:
    """Read the `evaluation` section of a YAML file.

    Its `settings()` are keyword arguments of `weft.evaluate`. Data and models of the file are
    ignored, so that models with scores can be evaluated with the settings of the file.
    """
    document = read_yaml(path)
    document.values = {"evaluation": document.values.get("evaluation")}
    if document.values["evaluation"] is None:
        raise SettingError(
            f"{path}: there is no section 'evaluation:'; expected one with 'metrics:'."
        )
    return _build(document, Path(path).parent).evaluation


def _copy(values: Any) -> Any:
    """Return a copy of plain values; paths become text."""
    if isinstance(values, Mapping):
        return {str(key): _copy(value) for key, value in values.items()}
    if isinstance(values, Path):
        return str(values)
    return [_copy(value) for value in values] if isinstance(values, (list, tuple)) else values


# --------------------------------------------------------------------------------------------------


def _override(document: Document, overrides: Mapping[str, Any]) -> None:
    """Replace values of the document, and record which."""
    for section, values in overrides.items():
        if values is None:
            continue
        own = document.values.get(section)
        if section in ("evaluation", "data") and isinstance(values, Mapping):
            if isinstance(own, (dict, type(None))):  # others are refused for their shape
                _override_section(document, section, values)
            continue
        document.values[section] = (
            _merge_engine(own, values) if section == "engine" else _copy(values)
        )
        document.overridden.add((section,))
    _override_candidates(document)
    for keys in document.overridden:
        if keys[0] in ("data", "models", "output", "report") or keys == ("evaluation", "slices"):
            _mark_paths(document.values, keys)


def _override_section(document: Document, section: str, values: Mapping[str, Any]) -> None:
    replaced = {key: value for key, value in values.items() if value is not None}
    own = document.values.get(section) or {}
    rest = {key: value for key, value in own.items() if _REPLACED_BY.get(key, key) not in replaced}
    document.values[section] = rest | _copy(replaced)
    document.overridden |= {(section, key) for key in replaced}


def _override_candidates(document: Document) -> None:
    """Drop candidates of the file if options give them in the other section."""
    for section, other in (("evaluation", "data"), ("data", "evaluation")):
        is_replaced = (section, "candidates") in document.overridden
        values = document.values.get(other)
        if (
            is_replaced
            and (other, "candidates") not in document.overridden
            and isinstance(values, dict)
        ):
            values.pop("candidates", None)


def _merge_engine(own: Any, values: Mapping[str, Any]) -> Any:
    """Return the engine of the options, merged with that of the file if it is the same one."""
    named = {"name": own} if isinstance(own, str) else own
    if isinstance(named, Mapping):
        names = (
            str(name).casefold()
            for name in (values.get("name", named.get("name")), named.get("name"))
        )
        if len(set(names)) == 1:
            return {**named, **values}
    return dict(values)


def _mark_paths(values: Any, keys: Keys) -> None:
    """Make paths `Path` objects that are relative to the current folder, not to the file's."""
    holder = values
    for key in keys[:-1]:
        holder = holder[key]
    value = holder[keys[-1]]
    if keys in (("models",), ("evaluation", "slices")) and isinstance(value, dict):
        for name in value:
            _mark_paths(values, (*keys, name))
    elif isinstance(value, dict) and "of" in value:  # a slice
        _mark_paths(values, (*keys, "of"))
    elif isinstance(value, str):
        holder[keys[-1]] = from_home(value)
    elif isinstance(value, dict) and isinstance(value.get("path"), str):
        value["path"] = from_home(value["path"])


# --------------------------------------------------------------------------------------------------


def _build(document: Document, folder: Path) -> Configuration:
    """Validate the document. Raises one `SettingError` with all its mistakes."""
    # Keys that start with x- hold anchors.
    values = {key: value for key, value in document.values.items() if not key.startswith("x-")}
    document.values = _drop_none(values)
    from_warprec = is_warprec(document.values)
    if from_warprec:
        translate(document)
    _rename_keys(document)
    import_custom_modules(document, folder)
    configuration = _validate(document, folder, from_warprec=from_warprec)
    check(document, configuration, drops_unsupported=from_warprec)
    document.raise_problems()
    if from_warprec:  # unsupported metrics may have been dropped
        configuration = _validate(document, folder, from_warprec=from_warprec)
        document.raise_problems()
    assert configuration is not None
    configuration._document = document
    return configuration


def _drop_none(values: Any) -> Any:
    """Return the values without keys that have no value, except in parameters and models."""
    if isinstance(values, dict):
        return {
            key: value if key in ("params", "models") else _drop_none(value)
            for key, value in values.items()
            if value is not None
        }
    return [_drop_none(value) for value in values] if isinstance(values, list) else values


def _rename_keys(document: Document) -> None:
    """Rename keys of `evaluation` to the names of their settings: `save_per_user`."""
    evaluation = document.values.get("evaluation")
    if not isinstance(evaluation, dict):
        return
    keys = EvaluationSection.keys()
    for key, name in keys.items():
        if key == name or key not in evaluation:
            continue
        if name in evaluation:
            document.add_problem(
                ("evaluation", name),
                f"is another name of {key}, which is given too; keep one.",
                at_key=True,
            )
        evaluation[name] = evaluation.pop(key)
        document.moved[("evaluation", name)] = ("evaluation", key)
    for name in evaluation.keys() & EvaluationSection.model_fields.keys() - set(keys.values()):
        document.add_problem(("evaluation", name), _unknown_key(name, list(keys)), at_key=True)
        del evaluation[name]


def _validate(document: Document, folder: Path, *, from_warprec: bool) -> Configuration | None:
    """Return the configuration, or None after adding its problems to the document."""
    context = {"folder": folder, "searches_current_folder": from_warprec}
    try:
        return Configuration.model_validate(document.values, context=context)
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            keys: Keys = tuple(problem["loc"])
            cause = problem.get("ctx", {}).get("error")
            if keys and keys[-1] == "[key]":  # a key of a mapping with the user's own keys
                document.add_problem(keys[:-1], str(cause), at_key=True)
            elif problem["type"] == "extra_forbidden":
                message = _unknown_key(str(keys[-1]), _known_keys(keys[:-1]))
                document.add_problem(keys, message, at_key=True)
            elif problem["type"] == "missing":
                message = f"the key {str(keys[-1])!r} is missing; add it."
                document.add_problem(keys[:-1], message)
            elif isinstance(cause, WeftError):
                document.add_problem(_element_of(keys, problem["input"]), cause.message)
            elif cause is not None:
                document.add_problem(keys, str(cause))
            else:
                document.add_problem(keys, f"got {problem['input']!r}: {problem['msg']}.")
        return None


def _element_of(keys: Keys, value: Any) -> Keys:
    """Return the keys of the first element that its setting refuses, if the value is a list."""
    if len(keys) == 2 and keys[0] == "evaluation" and isinstance(value, list):
        for index, element in enumerate(value):
            try:
                EvaluationSection.from_options(**{str(keys[1]): [element]})
            except SettingError:
                return (*keys, index)
    return keys


def _unknown_key(key: str, known: list[str]) -> str:
    """Return the message for a key that no section has."""
    return f"unknown key {key!r}.{did_you_mean(key, known)} Keys here: {', '.join(known)}."


def _known_keys(keys: Keys) -> list[str]:
    """Return the keys of the section at these keys."""
    kind: Any = Configuration
    for key in keys:
        kind = _section_type(
            kind.model_fields[key].annotation if _is_model(kind) else get_args(kind)[-1]
        )
    return list(EvaluationSection.keys() if kind is EvaluationSection else kind.model_fields)


def _is_model(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, BaseModel)


def _section_type(kind: Any) -> Any:
    """Return the section, list or mapping that a type is, or of which it is an optional."""
    if _is_model(kind) or get_origin(kind) in (list, dict):
        return kind
    parts = map(_section_type, get_args(kind))
    return next((part for part in parts if part is not None), None)

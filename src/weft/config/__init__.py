"""What to evaluate, on which data, as typed models: from a YAML file, or from the flags of the
command line.

Every mistake is said with file, line, column and key; all mistakes of a file are said together.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args, get_origin

from pydantic import ValidationError

from weft.config.document import Document, Keys, drop_none, from_home, read
from weft.config.models import Configuration, Data, Evaluation, FileSettings, Section
from weft.config.schema import schema
from weft.config.validation import check, import_modules
from weft.config.warprec import translate
from weft.errors import SettingError, did_you_mean

__all__ = [
    "Configuration",
    "Data",
    "Evaluation",
    "FileSettings",
    "from_mapping",
    "load",
    "load_evaluation",
    "schema",
]


def load(path: str | Path, overrides: Mapping[str, Any] | None = None) -> Configuration:
    """Read a YAML file. Paths in it are relative to its folder.

    `overrides` has the same sections and wins over the file: `evaluation`, `data` and `engine` key
    by key, all others as a whole; new `metrics` replace `complex_metrics` too. Paths in it are
    relative to the current folder."""
    document = read(path)
    _override(document, overrides or {})
    return _build(document, Path(path).parent)


def from_mapping(given: Mapping[str, Any], *, folder: Path = Path()) -> Configuration:
    """A configuration from plain values; `folder` is where relative paths start."""
    if not isinstance(given, Mapping):
        raise SettingError(
            f"a configuration is a mapping with {', '.join(Configuration.model_fields)}; got "
            f"{given!r}."
        )
    return _build(Document(_copied(given)), folder)


def load_evaluation(path: str | Path) -> Evaluation:
    """The `evaluation` section of a YAML file, whose `settings()` are keyword arguments of
    `weft.evaluate`.

    What the file says of data and models is not looked at, so that models with scores can be
    evaluated as the file says."""
    document = read(path)
    document.values = {"evaluation": document.values.get("evaluation")}
    if document.values["evaluation"] is None:
        raise SettingError(
            f"{path}: there is no section 'evaluation:'; expected one with 'metrics:'."
        )
    return _build(document, Path(path).parent).evaluation


def _copied(values: Any) -> Any:
    """Plain values of one's own, which translation may change."""
    if isinstance(values, Mapping):
        return {str(key): _copied(value) for key, value in values.items()}
    if isinstance(values, Path):
        return str(values)
    return [_copied(value) for value in values] if isinstance(values, (list, tuple)) else values


# What a key of the file gives way to: flags that say the same in another way.
_SAME = {"complex_metrics": "metrics", "per_user": "save_per_user"}


def _override(document: Document, overrides: Mapping[str, Any]) -> None:
    for section, given in overrides.items():
        if given is None:
            continue
        ours = document.values.get(section)
        if section in ("evaluation", "data") and isinstance(given, Mapping):
            if not isinstance(ours, (dict, type(None))):
                continue  # refused for its shape
            replaced = {key: value for key, value in given.items() if value is not None}
            kept = {
                key: value
                for key, value in (ours or {}).items()
                if _SAME.get(key, key) not in replaced
            }
            document.values[section] = kept | _copied(replaced)
            document.given |= {(section, key) for key in replaced}
        elif section == "engine":
            document.values[section] = _engine(ours, given)
            document.given.add((section,))
        else:
            document.values[section] = _copied(given)
            document.given.add((section,))
    for section, other in (("evaluation", "data"), ("data", "evaluation")):
        if (section, "candidates") in document.given and (
            other,
            "candidates",
        ) not in document.given:
            holder = document.values.get(other)
            if isinstance(
                holder, dict
            ):  # candidates by name, or from a file: the flag replaces either
                holder.pop("candidates", None)
    for keys in document.given:
        if keys[0] in ("data", "models", "output", "report") or keys == ("evaluation", "slices"):
            _from_here(document.values, keys)


def _engine(ours: Any, given: Mapping[str, Any]) -> Any:
    """What the flags say of the engine, in what the file says of the same one."""
    named = {"name": ours} if isinstance(ours, str) else ours
    if (
        isinstance(named, Mapping)
        and str(given.get("name", named.get("name"))).casefold()
        == str(named.get("name")).casefold()
    ):
        return {**named, **given}
    return dict(given)


def _from_here(values: Any, keys: Keys) -> None:
    """Mark paths that are relative to the current folder, rather than the file's: they are Path,
    not text.
    """
    holder = values
    for key in keys[:-1]:
        holder = holder[key]
    given = holder[keys[-1]]
    if keys in (("models",), ("evaluation", "slices")) and isinstance(given, dict):
        for name in given:
            _from_here(values, (*keys, name))
    elif isinstance(given, dict) and "of" in given:  # a slice
        _from_here(values, (*keys, "of"))
    elif isinstance(given, str):
        holder[keys[-1]] = from_home(given)
    elif isinstance(given, dict) and isinstance(given.get("path"), str):
        given["path"] = from_home(given["path"])


def _build(document: Document, folder: Path) -> Configuration:
    given = {
        key: value for key, value in document.values.items() if not key.startswith("x-")
    }  # these hold anchors
    document.values = drop_none(given, keep=("params", "models"))
    is_warprec = translate(document)
    _rename_per_user(document)
    import_modules(document, folder)
    configuration = _validate(document, folder, also_here=is_warprec)
    check(document, drops_unfit=is_warprec)
    document.refuse()
    if is_warprec:  # metrics may have been left out
        configuration = _validate(document, folder, also_here=is_warprec)
    document.refuse()
    assert configuration is not None
    configuration._warnings = document.warnings
    return configuration


def _rename_per_user(document: Document) -> None:
    """`per_user`, as Python has it, is `save_per_user`."""
    evaluation = document.values.get("evaluation")
    if isinstance(evaluation, dict) and "per_user" in evaluation:
        keys: Keys = ("evaluation", "per_user")
        if "save_per_user" in evaluation:
            document.problem(
                keys, "is another name of save_per_user, which is given too; keep one.", at_key=True
            )
        evaluation["save_per_user"] = evaluation.pop("per_user")
        document.move(("evaluation", "save_per_user"), keys)


def _validate(document: Document, folder: Path, *, also_here: bool) -> Configuration | None:
    try:
        return Configuration.model_validate(
            document.values, context={"folder": folder, "also_here": also_here}
        )
    except ValidationError as error:
        for found in error.errors(include_url=False):
            keys: Keys = tuple(found["loc"])
            if keys and keys[-1] == "[key]":  # of a mapping with keys of the user's
                document.problem(keys[:-1], str(found["ctx"]["error"]), at_key=True)
            elif found["type"] == "extra_forbidden":
                document.problem(keys, _unknown_key(keys), at_key=True)
            elif found["type"] == "missing":
                document.problem(keys[:-1], f"the key {str(keys[-1])!r} is missing; add it.")
            elif "error" in found.get("ctx", {}):
                document.problem(keys, str(found["ctx"]["error"]))
            else:
                document.problem(keys, f"got {found['input']!r}: {found['msg']}.")
        return None


def _unknown_key(keys: Keys) -> str:
    """What to say of a key that no section has."""
    kind: Any = Configuration
    for key in keys[:-1]:
        kind = _holder(
            kind.model_fields[key].annotation if _is_section(kind) else get_args(kind)[-1]
        )
    known = list(kind.model_fields)
    return f"unknown key {str(keys[-1])!r}.{did_you_mean(str(keys[-1]), known)} Keys here: {', '.join(known)}."


def _is_section(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Section)


def _holder(kind: Any) -> Any:
    """The section, list or mapping that a type is, or that it is besides None."""
    if _is_section(kind) or get_origin(kind) in (list, dict):
        return kind
    return next((found for part in get_args(kind) if (found := _holder(part)) is not None), None)

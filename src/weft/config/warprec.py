"""Configurations that were written for WarpRec, in Weft's words. What has no meaning here is named
in a warning.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from weft.config.document import Document, Keys, show
from weft.errors import SettingError
from weft.metrics.names import parse_name

# Sections of WarpRec's that Weft does not read, and what to do instead.
_SECTIONS = {
    "writer": "the results go where output: or --out says",
    "splitter": "Weft evaluates data that is split already",
    "filtering": "Weft evaluates data that is filtered already",
    "dashboard": "a report goes where report: or --report says",
    "general": "modules with metrics of your own go into evaluation.custom_modules",
    "estimate": "",
    "rerank": "lists are evaluated as they are",
    "run": "",
    "serving": "",
    "training": "",
}
_NOT_READ = (
    "validation_metric",
    "full_evaluation_on_report",
    "max_metric_per_row",
    "save_evaluation",
    "on_screen",
    "propensity",
)
# Parameters that WarpRec once set for all metrics, and the metrics that have them.
_FOR_ALL = {"beta": ("f1",), "pop_ratio": ("aclt", "aplt", "popreo", "poprsp")}
_LABELS = {
    "user_id_label": "user",
    "item_id_label": "item",
    "rating_label": "rating",
    "timestamp_label": "timestamp",
}
_PROXY = "ProxyRecommender"
_BESIDE = ("meta", "optimization", "early_stopping")  # what every model of WarpRec's has


def translate(document: Document) -> bool:
    """Put WarpRec's keys into Weft's, in place; whether there were sections of WarpRec's."""
    values = document.values
    models = values.get("models")
    proxies = (
        [name for name, model in models.items() if _is_proxy(name, model)]
        if isinstance(models, dict)
        else []
    )
    sections = [name for name in (*_SECTIONS, "reader") if name in values]
    for name in sections:
        section = values.pop(name)
        if name == "reader" and isinstance(section, dict):
            _translate_reader(document, section)
        else:
            instead = _SECTIONS.get(name, "")
            document.warn(
                (name,), f"has no meaning here and is not read{'; ' + instead if instead else ''}."
            )
    is_warprec = bool(sections or proxies)
    if isinstance(models, dict):
        values["models"] = _translate_models(document, models, is_warprec)
    if isinstance(values.get("evaluation"), dict):
        _translate_evaluation(document, values["evaluation"])
    if is_warprec and not (
        isinstance(values.get("evaluation"), dict) and "profile" in values["evaluation"]
    ):
        document.warn(
            (),
            "metrics follow Weft's definitions; 'profile: warprec' in evaluation gives WarpRec's "
            "numbers.",
        )
    return is_warprec


# --------------------------------------------------------------------------------------------------


def _translate_evaluation(document: Document, evaluation: dict[str, Any]) -> None:
    for key in _NOT_READ:
        if key in evaluation:
            document.warn(("evaluation", key), "has no meaning here and is not read.")
            del evaluation[key]
    masking = {"pair": True, "none": False}
    if evaluation.get("mask_seen") == "context":
        document.problem(
            ("evaluation", "mask_seen"),
            "got 'context', but Weft knows no contexts; expected true, false or auto.",
        )
        del evaluation["mask_seen"]
    elif isinstance(evaluation.get("mask_seen"), str):
        evaluation["mask_seen"] = masking.get(
            evaluation["mask_seen"].casefold(), evaluation["mask_seen"]
        )
    _translate_metrics(evaluation)


def _translate_metrics(evaluation: dict[str, Any]) -> None:
    """Older spellings of metrics, and parameters that hold for all metrics that have them."""
    listed = evaluation.get("metrics")
    names = (
        [_translate_name(name) for name in listed]
        if isinstance(listed, list)
        else _translate_name(listed)
    )
    for key, who in _FOR_ALL.items():
        if key not in evaluation:
            continue
        value = evaluation.pop(key)
        names = (
            [_with(name, key, value, who) for name in names]
            if isinstance(names, list)
            else _with(names, key, value, who)
        )
        asked = evaluation.get("complex_metrics")
        for metric in asked if isinstance(asked, list) else [asked]:
            if isinstance(metric, dict) and str(metric.get("name", "")).casefold() in who:
                params = metric.setdefault("params", {})
                if isinstance(params, dict):
                    params.setdefault(key, value)
    if names is not None:
        evaluation["metrics"] = names


def _translate_name(name: Any) -> Any:
    """`F1[nDCG, MAP]` and `EPC[discounted]` in the one grammar of names."""
    if not isinstance(name, str):
        return name
    if pair := re.fullmatch(r"\s*F1\s*\[\s*([\w-]+)\s*,\s*([\w-]+)\s*\]\s*", name, re.IGNORECASE):
        return f"F1(metric_name_1={pair[1]}, metric_name_2={pair[2]})"
    if one := re.fullmatch(r"\s*(EFD|EPC)\s*\[\s*(\w+)\s*\]\s*", name, re.IGNORECASE):
        return f"{one[1]}(relevance={one[2]})"
    return name


def _with(name: Any, key: str, value: Any, who: tuple[str, ...]) -> Any:
    """The name with a parameter, if it is of one of these metrics and does not say otherwise."""
    try:
        spec = parse_name(name) if isinstance(name, str) else None
    except SettingError:
        return name  # refused later, as it was written
    if (
        spec is None
        or spec.name.casefold() not in who
        or key in {known.casefold() for known, _ in spec.params}
    ):
        return name
    return str(type(spec)(spec.name, (*spec.params, (key, value)), spec.k))


# --------------------------------------------------------------------------------------------------


def _is_proxy(name: str, model: Any) -> bool:
    if not isinstance(model, dict) or "path" in model:
        return False
    meta = model.get("meta")
    called = meta.get("model_name") if isinstance(meta, dict) else None
    return "recommendation_file" in model or _PROXY.casefold() in (
        str(called).casefold(),
        name.casefold(),
    )


def _translate_models(
    document: Document, models: dict[str, Any], is_warprec: bool
) -> dict[str, Any]:
    """Proxies as files of lists; models that WarpRec would train cannot be evaluated here."""
    translated: dict[str, Any] = {}
    for name, model in models.items():
        if _is_proxy(name, model):
            translated |= _translate_proxy(document, name, model, set(models))
        elif is_warprec and (model is None or (isinstance(model, dict) and "path" not in model)):
            document.warn(
                ("models", name),
                "is a model that WarpRec trains; it is left out. Have WarpRec write its lists "
                "(meta: {save_recs: true}), "
                f"and give the file here: '{name}: FILE'.",
            )
        else:
            translated[name] = model
    return translated


def _translate_proxy(
    document: Document, name: str, model: dict[str, Any], others: set[str]
) -> dict[str, Any]:
    keys: Keys = ("models", name)
    known = ("recommendation_file", "separator", "header", *_BESIDE)
    for key in model:
        if key not in known:
            document.warn((*keys, key), "has no meaning here and is not read.")
    if "recommendation_file" not in model:
        document.problem(keys, f"{_PROXY} needs 'recommendation_file', the file with the lists.")
        return {}
    # WarpRec takes a list of values to try for everything; for files these are several models.
    files = (
        model["recommendation_file"]
        if isinstance(model["recommendation_file"], list)
        else [model["recommendation_file"]]
    )
    separator, header = (
        _only(model.get(key, default)) for key, default in (("separator", "\t"), ("header", True))
    )
    translated = {}
    for number, file in enumerate(files, start=1):
        called = name if len(files) == 1 else f"{name}_{number}"
        if called != name and called in others:
            document.problem(
                keys,
                f"has several files, but {called!r}, the name of one of them, is taken; rename "
                "that model.",
            )
        translated[called] = {"path": file, **_reading(file, separator, header)}
        document.move(("models", called), keys)
        document.move(("models", called, "path"), (*keys, "recommendation_file"))
    return translated


def _only(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _reading(
    file: Any, separator: Any, header: Any, columns: dict[str, Any] | None = None
) -> dict[str, Any]:
    """How a file of WarpRec's is read; Parquet needs no telling."""
    if str(file).endswith(".parquet"):
        return {"columns": columns} if columns else {}
    by_name = {"columns": columns} if columns and header is not False else {}
    return {"separator": separator, "header": header, **by_name}


# --------------------------------------------------------------------------------------------------


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _translate_reader(document: Document, reader: dict[str, Any]) -> None:
    """The files of a split as `data`, where it does not say otherwise."""
    found: dict[str, tuple[Any, Keys]] = {}
    labels, split, clustering = (
        _mapping(reader.get(key)) for key in ("labels", "split", "clustering")
    )
    columns = {role: labels[label] for label, role in _LABELS.items() if label in labels}
    if (
        reader.get("loading_strategy") == "split"
        and reader.get("reading_method", "local") == "local"
        and "local_path" in split
    ):
        ending = (
            "parquet"
            if split.get("file_format") == "parquet"
            else str(split.get("ext", ".tsv")).removeprefix(".")
        )
        ratings = (
            {"ratings": False}
            if str(reader.get("rating_type", "")).casefold() == "implicit"
            else {}
        )
        for key, stem in (("truth", "test"), ("train", "train")):
            file = str(Path(str(split["local_path"])) / f"{stem}.{ending}")
            reading = _reading(file, split.get("sep", "\t"), split.get("header", True), columns)
            found[key] = {"path": file, **reading, **ratings}, ("reader", "split", "local_path")
    else:
        what = show(reader.get("loading_strategy"))
        document.warn(
            ("reader",),
            f"is not read (loading_strategy: {what}): Weft evaluates data that is split already; "
            "add data: with truth and train.",
        )
    for key, who in (("user_groups", "user"), ("item_clusters", "item")):
        if f"{who}_local_path" in clustering:
            file = clustering[f"{who}_local_path"]
            reading = _reading(
                file, clustering.get(f"{who}_sep", "\t"), clustering.get(f"{who}_header", True)
            )
            found[key] = {"path": file, **reading}, ("reader", "clustering", f"{who}_local_path")
    if "side" in reader:
        document.warn(
            ("reader", "side"),
            "is not read; give the features of the items as data.item_features (item, feature).",
        )
    data = document.values.get("data")
    if found and (data is None or isinstance(data, dict)):
        document.values["data"] = {key: file for key, (file, _) in found.items()} | (data or {})
        for key, (_, origin) in found.items():
            if key not in (data or {}):
                document.move(("data", key), origin)
                document.move(("data", key, "path"), origin)

"""Translation of configurations for WarpRec. Keys without a counterpart are named in warnings."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from weft.config.document import Document, Keys, show
from weft.config.sections import as_list
from weft.errors import SettingError
from weft.evaluation.sampling_settings import NEGATIVE_SETTINGS
from weft.metrics.names import parse_name

# Sections of WarpRec that Weft ignores, and the alternative.
_SECTIONS = {
    "writer": "set the folder of the results with output: or --out",
    "splitter": "Weft expects data that is already split",
    "filtering": "Weft expects data that is already filtered",
    "dashboard": "set the file of the report with report: or --report",
    "general": "list modules with custom metrics in evaluation.custom_modules",
    "estimate": "",
    "rerank": "recommendation lists are evaluated as given",
    "run": "",
    "serving": "",
    "training": "",
}
_IGNORED = (
    "validation_metric",
    "full_evaluation_on_report",
    "max_metric_per_row",
    "save_evaluation",
    "on_screen",
    "propensity",
)
# Parameters that old versions of WarpRec set for all metrics, and the metrics that have them.
_SHARED_PARAMETERS = {"beta": ("f1",), "pop_ratio": ("aclt", "aplt", "popreo", "poprsp")}
_LABELS = {
    "user_id_label": "user",
    "item_id_label": "item",
    "rating_label": "rating",
    "timestamp_label": "timestamp",
}
_PROXY = "ProxyRecommender"
_MODEL_KEYS = ("meta", "optimization", "early_stopping")  # of every model of WarpRec


def is_warprec(values: dict[str, Any]) -> bool:
    """Return True if a configuration has sections or models of WarpRec."""
    return any(name in values for name in (*_SECTIONS, "reader")) or any(
        _is_proxy(name, model) for name, model in _mapping(values.get("models")).items()
    )


def translate(document: Document) -> None:
    """Translate the keys of WarpRec in place."""
    values = document.values
    for name in [name for name in (*_SECTIONS, "reader") if name in values]:
        section = values.pop(name)
        if name == "reader" and isinstance(section, dict):
            _translate_reader(document, section)
        else:
            instead = f"; {_SECTIONS[name]}" if _SECTIONS.get(name) else ""
            document.add_warning((name,), f"is not supported and is ignored{instead}.")
    if isinstance(values.get("models"), dict):
        values["models"] = _translate_models(document, values["models"])
    evaluation = values.get("evaluation")
    if isinstance(evaluation, dict):
        _translate_evaluation(document, evaluation)
    if not isinstance(evaluation, dict) or "profile" not in evaluation:
        document.add_warning(
            (),
            "metrics follow Weft's definitions; 'profile: warprec' in evaluation gives WarpRec's "
            "numbers.",
        )


# --------------------------------------------------------------------------------------------------


def _translate_evaluation(document: Document, evaluation: dict[str, Any]) -> None:
    for key in _IGNORED:
        if key in evaluation:
            document.add_warning(("evaluation", key), "is not supported and is ignored.")
            del evaluation[key]
    _drop_unused_sampling(document, evaluation)
    masking = evaluation.get("mask_seen")
    if masking == "context":
        document.add_problem(
            ("evaluation", "mask_seen"),
            "got 'context', but Weft has no contexts; expected true, false or auto.",
        )
        del evaluation["mask_seen"]
    elif isinstance(masking, str):
        evaluation["mask_seen"] = {"pair": True, "none": False}.get(masking.casefold(), masking)
    _translate_metrics(evaluation)


def _drop_unused_sampling(document: Document, evaluation: dict[str, Any]) -> None:
    """Drop keys about negatives, which WarpRec allows when they are not used."""
    unused: tuple[str, ...] = ()
    if str(evaluation.get("strategy", "full")).casefold() == "full":
        unused = NEGATIVE_SETTINGS
        reason = "all items are ranked (strategy: full)"
    elif str(evaluation.get("negative_sampling", "uniform")).casefold() == "uniform":
        unused, reason = NEGATIVE_SETTINGS[-1:], "negatives are sampled uniformly"
    for key in unused:
        if key in evaluation and ("evaluation", key) not in document.overridden:
            document.add_warning(("evaluation", key), f"is ignored, because {reason}.")
            del evaluation[key]


def _translate_metrics(evaluation: dict[str, Any]) -> None:
    """Translate old spellings of metrics, and parameters that apply to several metrics."""
    metrics = [_translate_name(name) for name in as_list(evaluation.get("metrics"))]
    for key, targets in _SHARED_PARAMETERS.items():
        if key not in evaluation:
            continue
        value = evaluation.pop(key)
        metrics = [_add_parameter(name, key, value, targets) for name in metrics]
        for metric in as_list(evaluation.get("complex_metrics")):
            if isinstance(metric, dict) and str(metric.get("name", "")).casefold() in targets:
                params = metric.setdefault("params", {})
                if isinstance(params, dict):
                    params.setdefault(key, value)
    if metrics:
        evaluation["metrics"] = metrics


def _translate_name(name: Any) -> Any:
    """Translate `F1[nDCG, MAP]` and `EPC[discounted]`."""
    if not isinstance(name, str):
        return name
    if pair := re.fullmatch(r"\s*F1\s*\[\s*([\w-]+)\s*,\s*([\w-]+)\s*\]\s*", name, re.IGNORECASE):
        return f"F1(metric_name_1={pair[1]}, metric_name_2={pair[2]})"
    if variant := re.fullmatch(r"\s*(EFD|EPC)\s*\[\s*(\w+)\s*\]\s*", name, re.IGNORECASE):
        return f"{variant[1]}(relevance={variant[2]})"
    return name


def _add_parameter(name: Any, key: str, value: Any, targets: tuple[str, ...]) -> Any:
    """Return the name with a parameter, if it names a target that does not set it."""
    try:
        spec = parse_name(name) if isinstance(name, str) else None
    except SettingError:
        return name  # refused later, as it was written
    is_target = spec is not None and spec.name.casefold() in targets
    if spec is None or not is_target or key in {known.casefold() for known, _ in spec.params}:
        return name
    return str(replace(spec, params=(*spec.params, (key, value))))


# --------------------------------------------------------------------------------------------------


def _is_proxy(name: str, model: Any) -> bool:
    """Return True if a model is a proxy for a file of recommendation lists."""
    if not isinstance(model, dict) or "path" in model:
        return False
    model_name = _mapping(model.get("meta")).get("model_name")
    names = (str(model_name).casefold(), name.casefold())
    return "recommendation_file" in model or _PROXY.casefold() in names


def _translate_models(document: Document, models: dict[str, Any]) -> dict[str, Any]:
    """Translate proxies to files of lists, and drop models that WarpRec would train."""
    translated: dict[str, Any] = {}
    for name, model in models.items():
        if _is_proxy(name, model):
            translated |= _translate_proxy(document, name, model, set(models))
        elif model is None or (isinstance(model, dict) and "path" not in model):
            document.add_warning(
                ("models", name),
                "is a model that WarpRec trains; it is skipped. Let WarpRec write its "
                f"recommendations (meta: {{save_recs: true}}), and give the file here: '{name}: "
                "FILE'.",
            )
        else:
            translated[name] = model
    return translated


def _translate_proxy(
    document: Document, name: str, model: dict[str, Any], names: set[str]
) -> dict[str, Any]:
    """Return the files of a proxy by model; `names` are the models of the configuration."""
    keys: Keys = ("models", name)
    known = ("recommendation_file", "separator", "header", *_MODEL_KEYS)
    for key in model:
        if key not in known:
            document.add_warning((*keys, key), "is not supported and is ignored.")
    if "recommendation_file" not in model:
        message = f"{_PROXY} needs 'recommendation_file', the file with the lists."
        document.add_problem(keys, message)
        return {}
    # WarpRec takes a list of values for every key; a list of files are several models.
    files = as_list(model["recommendation_file"])
    separator, header = (
        _unwrap(model.get(key, default)) for key, default in (("separator", "\t"), ("header", True))
    )
    translated = {}
    for number, file in enumerate(files, start=1):
        numbered = name if len(files) == 1 else f"{name}_{number}"
        if numbered != name and numbered in names:
            document.add_problem(
                keys,
                f"has several files, but the name {numbered!r} of one of them is already used; "
                "rename that model.",
            )
        translated[numbered] = {"path": file, **_reading_options(file, separator, header)}
        document.moved[("models", numbered)] = keys
        document.moved[("models", numbered, "path")] = (*keys, "recommendation_file")
    return translated


def _unwrap(value: Any) -> Any:
    return value[0] if isinstance(value, list) and len(value) == 1 else value


def _reading_options(
    file: Any, separator: Any, header: Any, columns: dict[str, Any] | None = None
) -> dict[str, Any]:
    """Return the keys that describe how a file is read."""
    named = {"columns": columns} if columns else {}
    if str(file).endswith(".parquet"):
        return named
    return {"separator": separator, "header": header, **(named if header is not False else {})}


# --------------------------------------------------------------------------------------------------


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _translate_reader(document: Document, reader: dict[str, Any]) -> None:
    """Add the files of a reader to the section `data`, unless the section names them."""
    if (
        reader.get("loading_strategy") == "split"
        and reader.get("reading_method", "local") == "local"
        and "local_path" in _mapping(reader.get("split"))
    ):
        files = _split_files(reader)
    else:
        files = {}
        strategy = show(reader.get("loading_strategy"))
        document.add_warning(
            ("reader",),
            f"is ignored (loading_strategy: {strategy}): Weft expects data that is already split; "
            "add data: with truth and train.",
        )
    files |= _cluster_files(_mapping(reader.get("clustering")))
    if "side" in reader:
        document.add_warning(
            ("reader", "side"),
            "is ignored; give the features of the items as data.item_features (item, feature).",
        )
    data = document.values.get("data") or {}
    if files and isinstance(data, dict):
        document.values["data"] = {key: file for key, (file, _) in files.items()} | data
        for key in files.keys() - data.keys():
            origin = files[key][1]
            document.moved |= {("data", key): origin, ("data", key, "path"): origin}


def _cluster_files(clustering: dict[str, Any]) -> dict[str, tuple[Any, Keys]]:
    """Return the groups of users and the clusters of items, each with the keys of its path."""
    files: dict[str, tuple[Any, Keys]] = {}
    for name, entity in (("user_groups", "user"), ("item_clusters", "item")):
        key = f"{entity}_local_path"
        if key in clustering:
            separator = clustering.get(f"{entity}_sep", "\t")
            header = clustering.get(f"{entity}_header", True)
            file = {
                "path": clustering[key],
                **_reading_options(clustering[key], separator, header),
            }
            files[name] = file, ("reader", "clustering", key)
    return files


def _split_files(reader: dict[str, Any]) -> dict[str, tuple[Any, Keys]]:
    """Return truth and train of a reader with a split, each with the keys of its path."""
    split, labels = _mapping(reader["split"]), _mapping(reader.get("labels"))
    columns = {role: labels[label] for label, role in _LABELS.items() if label in labels}
    ending = str(split.get("ext", ".tsv")).removeprefix(".")
    if split.get("file_format") == "parquet":
        ending = "parquet"
    is_implicit = str(reader.get("rating_type", "")).casefold() == "implicit"
    files: dict[str, tuple[Any, Keys]] = {}
    for key, stem in (("truth", "test"), ("train", "train")):
        path = str(Path(str(split["local_path"])) / f"{stem}.{ending}")
        reading = _reading_options(path, split.get("sep", "\t"), split.get("header", True), columns)
        ratings = {"ratings": False} if is_implicit else {}
        files[key] = {"path": path, **reading, **ratings}, ("reader", "split", "local_path")
    return files

"""Checks that need the positions of a document: names of models, metrics, gates and slices.

Rules between settings are those of `EvaluationSettings`; here they only get their positions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from weft._input_kinds import NAMED_INPUTS
from weft.config.document import Document, Keys
from weft.config.evaluation_section import ComplexMetric, EvaluationSection
from weft.config.sections import as_list
from weft.errors import WeftError, did_you_mean
from weft.metrics.names import MetricSpec, parse_name


def check(
    document: Document, section: EvaluationSection | None, *, drops_unsupported: bool
) -> None:
    """Add the problems of a document after the validation of its sections.

    `section` is None if they were not valid. `drops_unsupported`: metrics that lists do not support
    are dropped with a warning, else refused.
    """
    models = document.values.get("models")
    for name in models if isinstance(models, dict) else ():
        if not name.strip() or set(name) & set("/\\\0\n"):
            message = "expected a valid file name, without '/' and '\\'."
            document.add_problem(("models", name), message, at_key=True)
    evaluation = document.values.get("evaluation")
    if not isinstance(evaluation, dict):
        return
    _check_metrics(document, evaluation, drops_unsupported=drops_unsupported)
    _check_inputs(document, section)
    for index, gate in enumerate(as_list(evaluation.get("gates"))):
        if isinstance(gate, str):
            from weft.config.gates import parse_gate

            with document.collect(("evaluation", "gates", index)):
                parse_gate(gate)
    _check_slices(document, evaluation.get("slices"))
    _check_item_slices(document, evaluation)
    if section is not None:
        _check_rules(document, section)


def _available_inputs(document: Document) -> set[str] | None:
    """Return the inputs of a run with the data of the document; None without data."""
    data = document.values.get("data")
    if not isinstance(data, dict):
        return None
    return {*data, "lists"} if _has_lists(document) else {*data}


def _has_lists(document: Document) -> bool:
    """True unless all models of the document are files of score matrices or factors."""
    from weft.data.readers.file_settings import is_matrix_file

    models = document.values.get("models")
    files = list(models.values()) if isinstance(models, dict) else []
    paths = [file.get("path") if isinstance(file, dict) else file for file in files]
    return not paths or not all(map(is_matrix_file, paths))


def _check_rules(document: Document, evaluation: EvaluationSection) -> None:
    """Add the conflicts between settings, and between settings and the data."""
    available = _available_inputs(document)
    if available and "candidates" in available:
        if evaluation.candidates not in ("all", "given"):
            message = (
                "data.candidates also gives the candidates of each user; remove one of the two."
            )
            document.add_problem(("evaluation", "candidates"), message)
        evaluation = evaluation.model_copy(update={"candidates": "given"})
    for error in evaluation.conflicts(available):
        document.add_problem(("evaluation", str(error.setting)), error.message)


def _check_slices(document: Document, slices: Any) -> None:
    """Add the problems of slices of users."""
    from weft.data.slices import parse_slices

    available = _available_inputs(document)
    has_train = available is None or "train" in available
    _check_each_slice(
        document, "slices", slices, lambda slices: parse_slices(slices, has_train=has_train)
    )


def _check_item_slices(document: Document, evaluation: dict[str, Any]) -> None:
    """Add the problems of item slices by a rule, and of names that slices of users have, too."""
    from weft.data.item_slices import parse_item_slices

    data = document.values.get("data")
    available = {"train", "item_clusters", "item_features"}  # without data, nothing is missing
    if isinstance(data, dict):
        available = {*data, *_names(data.get("inputs"))}
    parse = partial(
        parse_item_slices, available=available, user_slices=evaluation.get("slices") or ()
    )
    _check_each_slice(document, "item_slices", evaluation.get("item_slices"), parse)


def _check_each_slice(
    document: Document, setting: str, slices: Any, parse: Callable[[dict[str, str]], object]
) -> None:
    """Add the problems of cuts of the user's own numbers, and of rules, which `parse` reads."""
    from weft.data.slices import Cut

    for name, given in slices.items() if isinstance(slices, dict) else ():
        keys: Keys = ("evaluation", setting, name)
        by = given.get("by") if isinstance(given, dict) else given
        if document.has_problem(keys) or not isinstance(by, str):
            continue
        if isinstance(given, dict) and "of" in given:
            with document.collect((*keys, "by")):
                Cut.parse(by, name)
        else:
            with document.collect(keys):
                parse({name: by})


# --------------------------------------------------------------------------------------------------


def _names(inputs: Any) -> list[str]:
    """Return the names of the inputs in `data.inputs`, if they are a mapping."""
    return list(inputs) if isinstance(inputs, dict) else []


def _check_inputs(document: Document, section: EvaluationSection | None) -> None:
    """Add the problems of inputs that no metric declares. Those of metrics are not repeated."""
    from weft.metrics.registry import find_input_kinds

    data = document.values.get("data")
    inputs = data.get("inputs") if isinstance(data, dict) else None
    sections = ("metrics", "complex_metrics")
    is_reported = any(document.has_problem(("evaluation", name)) for name in sections)
    for name in _names(inputs) if section is not None else ():
        with document.collect(("data", "inputs", name)):
            try:
                find_input_kinds([name], section.all_metrics if section is not None else ())
            except WeftError as error:
                if error.setting == "inputs" or not is_reported:
                    raise


def _check_metrics(
    document: Document, evaluation: dict[str, Any], *, drops_unsupported: bool
) -> None:
    """Add the problems of every metric; drop unsupported ones from `evaluation` if asked to."""
    for section in ("metrics", "complex_metrics"):
        metrics = as_list(evaluation.get(section))
        supported = []
        for index, metric in enumerate(metrics):
            keys = ("evaluation", section, index)
            reason = _check_metric(document, keys, metric, evaluation)
            if reason and drops_unsupported:
                document.add_warning(keys, f"is skipped: {reason}.")
            elif reason:
                document.add_problem(keys, f"{reason}.")
            if not reason:
                supported.append(metric)
        if drops_unsupported and supported != metrics:
            evaluation[section] = supported


def _check_metric(document: Document, keys: Keys, metric: Any, evaluation: dict[str, Any]) -> str:
    """Add the problems of a metric; return why lists do not support it, empty if they do."""
    spec = None if document.has_problem(keys) else _read_metric(document, keys, metric)
    if spec is not None:
        try:
            return _reject_lists(document, spec, evaluation)
        except WeftError as error:
            document.add_problem(_parameter_keys(keys, metric, str(error)), error.message)
    return ""


def _read_metric(document: Document, keys: Keys, metric: Any) -> MetricSpec | None:
    """Return the metric as a parsed name, or None after adding its problems."""
    if isinstance(metric, dict) and keys[1] == "complex_metrics":
        return _read_complex_metric(document, keys, metric)
    if not isinstance(metric, str) or not metric.strip():
        if keys[1] == "metrics":
            message = f"got {metric!r}, expected a metric name, such as nDCG or nDCG@10."
            document.add_problem(keys, message)
        return None
    if metric.count("(") != metric.count(")") and "," not in metric:
        document.add_problem(
            keys,
            f"got {metric!r} with unbalanced parentheses; in [...], quote a name that contains "
            "commas: ['F1(metric_name_1=nDCG, metric_name_2=MAP)'].",
        )
        return None
    if "," in metric and "(" not in metric:
        document.add_problem(
            keys, f"got {metric!r}, expected one metric name; use a list for several: [{metric}]."
        )
        return None
    with document.collect(keys):
        return parse_name(metric)
    return None


def _read_complex_metric(
    document: Document, keys: Keys, metric: dict[str, Any]
) -> MetricSpec | None:
    """Return the metric as a parsed name; unknown parameters are problems of their own."""
    from weft.metrics.declarations import metric_parameters
    from weft.metrics.registry import find_metric

    name, params = metric.get("name"), metric.get("params", {})
    if not isinstance(name, str) or not isinstance(params, dict):
        return None  # refused for its shape
    metric_class = None
    with document.collect((*keys, "name")):
        metric_class = find_metric(parse_name(name).name)
    if metric_class is None:
        return None
    known = metric_parameters(metric_class)
    folded = {known_name.casefold() for known_name in known} | set(metric_class.parameter_aliases)
    unknown = [key for key in params if key.casefold() not in folded]
    offers = f"Its parameters: {', '.join(known)}." if known else "It has no parameters."
    for key in unknown:
        hint = did_you_mean(key, folded)
        message = f"{metric_class.__name__} has no parameter {key!r}.{hint} {offers}"
        document.add_problem((*keys, "params", key), message, at_key=True)
    if unknown:
        return None
    with document.collect((*keys, "params")):
        return ComplexMetric.model_validate(metric).spec()
    return None


def _reject_lists(document: Document, spec: MetricSpec, evaluation: dict[str, Any]) -> str:
    """Return why lists do not support the metric, empty if they do.

    Raises the error that `weft.evaluate` raises for a metric it cannot compute.
    """
    from weft.metrics.declarations import RUN_FACTS
    from weft.metrics.profiles import PROFILES, apply_profile
    from weft.metrics.registry import expand_metrics, prototype

    profile = PROFILES.get(str(evaluation.get("profile", "")).casefold())
    profiled = spec if profile is None else apply_profile(spec, profile)
    cutoffs = [k for k in as_list(evaluation.get("top_k")) if isinstance(k, int) and k > 0]
    data = document.values.get("data")
    given = data if isinstance(data, dict) else dict.fromkeys(NAMED_INPUTS)
    inputs = given.get("inputs")
    (expanded, *_) = expand_metrics(
        [profiled],
        cutoffs or ([1] if "top_k" in evaluation else []),
        available={*RUN_FACTS, *(set(NAMED_INPUTS) & given.keys()), *_names(inputs)},
    )
    is_listed = str(evaluation.get("candidates", "")).casefold() == "listed"
    has_lists = bool(document.values.get("models")) and _has_lists(document)
    if prototype(expanded).needs_all_scores and has_lists and not is_listed:
        from weft.evaluation.prepared import ALL_SCORES

        return f"{expanded.with_cutoff(None)} needs {ALL_SCORES}"
    return ""


def _parameter_keys(keys: Keys, metric: Any, message: str) -> Keys:
    """Return the keys of the parameter that a message names, if the metric is a mapping."""
    params = metric.get("params") if isinstance(metric, dict) else None
    for key, value in (params or {}).items():
        names = (f"{key}=", repr(key), *(repr(part) for part in as_list(value) if part))
        if any(name in message for name in names):
            return (*keys, "params", key)
    return keys

"""Whether a configuration can be meant: metrics and their parameters, what they need, gates,
modules with metrics of one's own.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from weft.config.document import Document, Keys, from_home
from weft.config.models import ComplexMetric
from weft.errors import SettingError, did_you_mean
from weft.metrics.names import MetricSpec, parse_name

# The inputs of metrics that a file can give, all of them keys of `data`.
_INPUTS = ("train", "user_groups", "item_clusters", "item_features")


def check(document: Document, *, drops_unfit: bool) -> None:
    """Note what cannot be meant. `drops_unfit`: metrics that lists cannot serve are left out with a
    warning, else refused.
    """
    models = document.values.get("models")
    for name in models if isinstance(models, dict) else ():
        if not name.strip() or set(name) & set("/\\\0\n"):
            document.problem(
                ("models", name),
                "expected a name that a file can have, without '/' and '\\'.",
                at_key=True,
            )
    evaluation = document.values.get("evaluation")
    if not isinstance(evaluation, dict):
        return
    _check_metrics(document, evaluation, drops_unfit)
    for index, gate in enumerate(_as_list(evaluation.get("gates"))):
        if isinstance(gate, str):
            from weft.config.gates import parse as parse_gate

            _try(document, ("evaluation", "gates", index), lambda gate=gate: parse_gate(gate))
    data = document.values.get("data")
    if evaluation.get("mask_seen") is True and isinstance(data, dict) and "train" not in data:
        document.problem(
            ("evaluation", "mask_seen"),
            "true needs the train interactions, whose items are masked; add data.train.",
        )
    _check_candidates(document, evaluation, data if isinstance(data, dict) else None)


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [] if value is None else [value]


def _try(document: Document, keys: Keys, step: Any) -> Any:
    """The outcome of a step; None if it found a mistake of the user's, which is noted."""
    try:
        return step()
    except SettingError as error:
        document.problem(keys, str(error))
        return None


# ------------------------------------------------------------------------------------------------ c


def _check_candidates(
    document: Document, evaluation: dict[str, Any], data: dict[str, Any] | None
) -> None:
    """What is said of candidates, sampling and slices must fit together, and the data must be
    there.
    """
    given = {
        key: str(evaluation.get(key, "")).casefold()
        for key in ("strategy", "candidates", "negative_sampling", "correction")
    }
    drawing = ("num_negatives", "negative_sampling", "neg_alpha")
    if given["strategy"] != "sampled" and not document.is_wrong(("evaluation", "strategy")):
        for key in drawing:
            if key in evaluation:
                document.warn(
                    ("evaluation", key),
                    "is not read, because all items are ranked (strategy: full).",
                )
        if given["correction"]:
            document.problem(
                ("evaluation", "correction"),
                "corrects sampled evaluation; add 'strategy: sampled', or remove it.",
            )
    elif given["correction"] and given["negative_sampling"] == "popularity":
        document.problem(
            ("evaluation", "correction"),
            "is known for uniform sampling only; write 'negative_sampling: uniform'.",
        )
    if "gamma" in evaluation and given["correction"] != "bias_variance":
        document.problem(
            ("evaluation", "gamma"),
            "belongs to 'correction: bias_variance'; add that, or remove it.",
        )
    if (
        "neg_alpha" in evaluation
        and given["strategy"] == "sampled"
        and given["negative_sampling"] != "popularity"
    ):
        document.warn(
            ("evaluation", "neg_alpha"),
            "is not read, because negatives are drawn alike (negative_sampling: uniform).",
        )
    if given["candidates"] == "listed" and given["strategy"] == "sampled":
        document.problem(
            ("evaluation", "candidates"),
            "listed leaves nothing to draw; remove it, or write 'strategy: full'.",
        )
    _check_slices(document, evaluation.get("slices"), has_train=data is None or "train" in data)
    if data is None:
        return
    if "candidates" in data:
        if given["candidates"] not in ("", "all"):
            document.problem(
                ("evaluation", "candidates"),
                "data.candidates gives the candidates of each user; keep one of the two.",
            )
        for key in (*drawing, "correction"):
            if key in evaluation and given["strategy"] == "sampled":
                document.problem(
                    ("evaluation", key),
                    "is about drawn negatives, but data.candidates gives them; keep one of the "
                    "two.",
                )
    needs_train = [
        ("candidates", given["candidates"], ("cold", "warm")),
        ("negative_sampling", given["negative_sampling"], ("popularity",)),
    ]
    for key, value, needing in needs_train:
        sampled = key == "candidates" or given["strategy"] == "sampled"
        if value in needing and sampled and "train" not in data:
            document.problem(
                ("evaluation", key), f"{value} needs the train interactions; add data.train."
            )


def _check_slices(document: Document, slices: Any, *, has_train: bool) -> None:
    from weft.data.slices import Cut, parse_slices

    for name, given in slices.items() if isinstance(slices, dict) else ():
        keys: Keys = ("evaluation", "slices", name)
        by = given.get("by") if isinstance(given, dict) else given
        if document.is_wrong(keys) or not isinstance(by, str):
            continue
        if isinstance(given, dict) and "of" in given:
            _try(document, (*keys, "by"), lambda by=by, name=name: Cut.parse(by, name))
        else:
            made = _try(
                document, keys, lambda by=by, name=name: parse_slices({name: by}, has_train=True)
            )
            if made and made[0].cut is not None and not has_train:
                document.problem(keys, f"{name} counts train interactions; add data.train.")


# --------------------------------------------------------------------------------------------------


def _check_metrics(document: Document, evaluation: dict[str, Any], drops_unfit: bool) -> None:
    kept: dict[str, list[Any]] = {}
    for section in ("metrics", "complex_metrics"):
        asked = _as_list(evaluation.get(section))
        unfit = []
        for index, given in enumerate(asked):
            keys = ("evaluation", section, index)
            if not document.is_wrong(keys):
                spec = _spec(document, keys, given)
                if spec is not None and not _check_metric(
                    document, keys, given, spec, evaluation, drops_unfit
                ):
                    unfit.append(index)
        if unfit:
            kept[section] = [given for index, given in enumerate(asked) if index not in unfit]
    evaluation.update(kept)


def _spec(document: Document, keys: Keys, given: Any) -> MetricSpec | None:
    """The metric as a name, or None if it is no name; parameters are looked at one by one, for
    their places.
    """
    if isinstance(given, str):
        if given.count("(") != given.count(")") and "," not in given:
            hint = "in [...] a name with commas must be in quotes: ['F1(metric_name_1=nDCG, metric_name_2=MAP)']"
            document.problem(keys, f"got {given!r}, whose parentheses do not match; {hint}.")
            return None
        if "," in given and "(" not in given:
            document.problem(keys, f"got {given!r}, expected one name; write a list: [{given}].")
            return None
        named: MetricSpec | None = _try(document, keys, lambda: parse_name(given))
        return named
    from weft.metrics.registry import find_metric, metric_parameters

    if (
        not isinstance(given, dict)
        or not isinstance(given.get("name"), str)
        or not isinstance(given.get("params", {}), dict)
    ):
        return None  # refused for its shape
    named = _try(document, (*keys, "name"), lambda: parse_name(given["name"]))
    metric = (
        None if named is None else _try(document, (*keys, "name"), lambda: find_metric(named.name))
    )
    if named is None or metric is None:
        return None
    known = metric_parameters(metric)
    folded = {name.casefold() for name in known} | set(metric.parameter_aliases)
    unknown = [key for key in given.get("params", {}) if key.casefold() not in folded]
    for key in unknown:
        offers = f"Its parameters: {', '.join(known)}." if known else "It has no parameters."
        message = f"{metric.__name__} has no parameter {key!r}.{did_you_mean(key, folded)} {offers}"
        document.problem((*keys, "params", key), message, at_key=True)
    spec: MetricSpec | None = (
        None
        if unknown
        else _try(document, (*keys, "params"), ComplexMetric.model_validate(given).spec)
    )
    return spec


def _check_metric(
    document: Document,
    keys: Keys,
    given: Any,
    spec: MetricSpec,
    evaluation: dict[str, Any],
    drops_unfit: bool,
) -> bool:
    """Whether the metric can be kept; what is wrong with it is noted."""
    from weft.metrics.profiles import PROFILES, apply_profile
    from weft.metrics.registry import RUN_INPUTS, find_metric, needs_cutoff, prototype

    try:
        metric = find_metric(spec.name)
        profile = PROFILES.get(str(evaluation.get("profile", "")).casefold())
        adopted = spec if profile is None else apply_profile(spec, profile)
        cutoffs = [k for k in _as_list(evaluation.get("top_k")) if isinstance(k, int)]
        if needs_cutoff(metric) and spec.k is None and "top_k" not in evaluation:
            raise SettingError(
                f"{spec} needs a cut-off; write '{spec}@10', or add evaluation.top_k."
            )
        built = prototype(
            adopted.with_cutoff(max([*cutoffs, 1]))
            if needs_cutoff(metric) and adopted.k is None
            else adopted
        )
    except SettingError as error:
        document.problem(_parameter_at(keys, given, str(error)), str(error))
        return True
    data, name = document.values.get("data"), metric.__name__
    if isinstance(data, dict):
        for need in sorted(built.needed_inputs() & set(_INPUTS) - data.keys()):
            document.problem(
                keys, f"{name} needs {need}, {RUN_INPUTS[need][0]}; add data.{need}: FILE."
            )
    listed = str(evaluation.get("candidates", "")).casefold() == "listed"
    if built.needs_all_scores and document.values.get("models") and not listed:
        why = f"{name} needs the scores of all items, which lists do not have"
        if drops_unfit:
            document.warn(keys, f"is left out: {why}.")
            return False
        document.problem(
            keys,
            f"{why}. Remove it, or take LAUC, the area that a list tells; where the lists hold "
            "every item that was scored, write "
            "'candidates: listed'.",
        )
    return True


def _parameter_at(keys: Keys, given: Any, message: str) -> Keys:
    """The parameter that a message speaks of, if it is one of a mapping."""
    params = given.get("params") if isinstance(given, dict) else None
    for key, value in (params or {}).items():
        if (
            f"{key}=" in message
            or f"{key!r}" in message
            or any(f"{part!r}" in message for part in _as_list(value) if part)
        ):
            return (*keys, "params", key)
    return keys


# --------------------------------------------------------------------------------------------------


def import_modules(document: Document, folder: Path) -> None:
    """Run the modules that bring metrics of the user's own. Files are found from the YAML file's
    folder.
    """
    evaluation = document.values.get("evaluation")
    if not isinstance(evaluation, dict) or "custom_modules" not in evaluation:
        return
    asked = _as_list(evaluation["custom_modules"])
    found = []
    for index, given in enumerate(asked):
        keys = ("evaluation", "custom_modules", index)
        if isinstance(given, str) and given.strip():
            found.append(_try(document, keys, lambda given=given: _import(given, folder)))
        else:
            found.append(given)  # refused for its shape
    evaluation["custom_modules"] = [
        given if name is None else name for given, name in zip(asked, found)
    ]


def _import(given: str, folder: Path) -> str:
    """Run one module, and give the name under which any folder finds it: files by their full path."""
    path = folder / from_home(given)
    if not given.endswith(".py") and "/" not in given:
        beside = folder / (given.replace(".", "/") + ".py")
        if not beside.is_file():
            with _searching(folder):
                _run(given, lambda: importlib.import_module(given))
            return given
        path = beside
    if not path.is_file():
        raise SettingError(
            f"there is no file {str(path)!r}; expected a Python file, relative to the folder of "
            "the YAML file, or a module's name."
        )
    path = path.resolve()
    # A name of its own, so that two files of one name are two modules.
    name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise SettingError(f"{str(path)!r} is not a Python file; its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    loader = spec.loader
    try:
        with _searching(path.parent):
            _run(str(path), lambda: loader.exec_module(module))
    except SettingError:
        del sys.modules[name]
        raise
    return str(path)


def _run(what: str, step: Any) -> None:
    try:
        step()
    except SettingError as error:
        raise SettingError(f"{what}: {error}") from None
    except ModuleNotFoundError as error:
        if error.name is not None and what.split(".")[
            : len(error.name.split("."))
        ] == error.name.split("."):
            raise SettingError(
                f"there is no module {what!r} beside the YAML file or among the installed "
                "packages; "
                "give its name, or the path of its .py file."
            ) from None
        raise SettingError(
            f"{what} cannot be imported: {error}. Install what is missing."
        ) from None
    except Exception as error:
        inside = [
            frame
            for frame in traceback.extract_tb(error.__traceback__)
            if "importlib" not in frame.filename
        ]
        line = f" (line {inside[-1].lineno} of {inside[-1].filename})" if inside else ""
        if isinstance(error, SyntaxError):
            line = f" (line {error.lineno} of {error.filename})"
        raise SettingError(
            f"{what} cannot be imported: {type(error).__name__}: {error}{line}."
        ) from None


@contextmanager
def _searching(folder: Path) -> Iterator[None]:
    """Let modules import what lies beside them."""
    place = str(folder.resolve())
    sys.path.insert(0, place)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(place)

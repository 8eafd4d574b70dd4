"""How to get the same numbers again: the configuration of a command, or the calls in Python."""

from __future__ import annotations

import inspect
import io
import json
import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from weft.errors import SettingError
from weft.evaluation.api import evaluate
from weft.evaluation.result import Result
from weft.metrics.names import parse_name
from weft.metrics.registry import RUN_INPUTS, prototype
from weft.report.context import ReportContext
from weft.report.result_folder import file_names
from weft.statistics import Comparison, compare

# What a result says of how it was evaluated, and `weft.evaluate` and `weft.Evaluator` take, in
# their order.
_SETTINGS = (
    *(
        "relevance_threshold",
        "mask_seen",
        "candidates",
        "ties",
        "seed",
        "strategy",
        "num_negatives",
        "negative_sampling",
    ),
    *(
        "neg_alpha",
        "estimator",
        "gamma",
        "bootstrap",
        "empty_users",
        "missing_lists",
        "repeated_users",
        "profile",
    ),
)
_WIDE = 100  # a line of code


def rerun(context: ReportContext) -> list[tuple[str, str]]:
    """Headings, and what to run: a YAML configuration where a command made the results, calls of
    Python where Python did.

    Models that were evaluated alike stand together. A comparison follows.
    """
    groups: dict[str, dict[str, Result]] = {}
    for name, result in context.results.items():
        groups.setdefault(json.dumps(_alike(result), sort_keys=True, default=str), {})[name] = (
            result
        )
    found = []
    for group in groups.values():
        of_whom = "" if len(groups) == 1 else f" of {', '.join(group)}"
        if all("configuration" in result.provenance for result in group.values()):
            found.append(
                (
                    f"Configuration{of_whom}: save it as config.yaml, and run weft evaluate "
                    "config.yaml",
                    _yaml(group),
                )
            )
        else:
            found.append((f"Evaluation{of_whom} in Python", _python(group)))
    if context.comparison is not None:
        found += [
            ("Comparison in Python", _compare_call(context.comparison)),
            (
                "Comparison on the command line, of result files",
                _compare_command(context.comparison),
            ),
        ]
    return found


def _alike(result: Result) -> dict[str, Any]:
    """What results have in common that one configuration, or one call, makes."""
    if "configuration" in result.provenance:
        return {
            key: value
            for key, value in result.provenance["configuration"].items()
            if key != "models"
        }
    return {
        "settings": dict(result.settings),
        "given": _given(result),
        "per_user": result.per_user is not None,
    }


# --------------------------------------------------------------------------------------------------


def _yaml(group: Mapping[str, Result]) -> str:
    from ruamel.yaml import YAML

    first, *_ = (result.provenance["configuration"] for result in group.values())
    models: dict[str, Any] = {}
    for name, result in group.items():
        for own, file in result.provenance["configuration"].get("models", {}).items():
            models[own if models.get(own, file) == file else name] = file
    evaluation = dict(first.get("evaluation", {}))
    gates = evaluation.pop("gates", None)
    yaml = YAML()
    yaml.width = 4096  # nothing is folded
    yaml.allow_unicode = True
    text = io.StringIO()
    yaml.dump({**first, "evaluation": evaluation, "models": models}, text)
    return (
        "# without its gates, which judge numbers and do not make them\n" if gates else ""
    ) + text.getvalue()


# --------------------------------------------------------------------------------------------------


def _python(group: Mapping[str, Result]) -> str:
    result = next(iter(group.values()))
    if "fingerprint" not in result.provenance:
        return _evaluator(group, result)
    arguments = [f"{name}={name}" for name in _given(result)] + _settings(result)
    if result.per_user is not None:
        arguments.append("per_user=True")
    remarks = ["import weft", ""]
    if result.provenance["fingerprint"].get("source_kind") != "lists":
        remarks.append("# users=, items=: the ids of rows and columns, if they were given")
    if len(group) == 1:
        (name,) = group
        return "\n".join(
            [
                *remarks,
                _call("result = weft.evaluate", ["source", "truth", *arguments, f"name={name!r}"]),
            ]
        )
    names = list(group)
    call = _call("weft.evaluate", ["sources[name]", "truth", *arguments, "name=name"], indent=4)
    loop = f"    {call}\n    for name in {names!r}\n"
    return "\n".join([*remarks, f"results = [\n{loop}]"])


def _evaluator(group: Mapping[str, Result], result: Result) -> str:
    """Of batches that were added one by one."""
    arguments = [f"{name}={name}" for name in _given(result)] + _settings(result)
    if items := result.counts.get("items"):
        arguments.append(f"num_items={items}")
    if result.per_user is not None:
        arguments.append("per_user=True")
    lines = ["import weft", ""]
    if len(group) > 1:
        lines.append(f"# for each of {', '.join(group)}")
    lines += [
        _call("evaluator = weft.Evaluator", arguments),
        "for preds, target, user_indices in batches:",
        "    evaluator.update(preds, target, user_indices)",
        "result = evaluator.compute()",
    ]
    return "\n".join(lines)


def _given(result: Result) -> list[str]:
    """The data beside the truth that the run must have had: what it says, and what its metrics
    cannot do without.
    """
    needed = set(result.provenance.get("files", {})) - {"source", "truth"}
    if result.provenance.get("fingerprint", {}).get("train") is not None:
        needed.add("train")
    if "users_without_group" in result.counts:
        needed.add("user_groups")
    for value in result.values:
        try:
            needed |= prototype(parse_name(value.plain_name)).needed_inputs() - {
                "num_users",
                "num_items",
            }
        except SettingError:  # not registered here
            continue
    order = ("train", "users", "items", *RUN_INPUTS)
    return sorted(needed & set(order), key=order.index)


def _settings(result: Result) -> list[str]:
    """The arguments that say what was computed, and how; those that have their default are left
    out.
    """
    settings = result.settings
    metrics, top_k = _metrics(
        settings.get("metrics") or [value.plain_name for value in result.values]
    )
    found = [f"metrics={metrics!r}", *([f"top_k={top_k!r}"] if top_k else [])]
    defaults = {
        name: parameter.default
        for name, parameter in inspect.signature(evaluate).parameters.items()
    }
    for name in _SETTINGS:
        value = settings.get(name)
        if name == "candidates" and value == "given":
            found.append("candidates=candidates")
        elif (
            value is not None
            and value != defaults.get(name)
            and not (name == "neg_alpha" and _is_uniform(settings))
        ):
            found.append(f"{name}={value!r}")
    slices = settings.get("slices")
    if slices:
        how = slices if isinstance(slices, Mapping) else dict.fromkeys(slices, "labels")
        inside = ", ".join(
            f"{name!r}: {'labels' if cut == 'labels' else repr(cut)}" for name, cut in how.items()
        )
        found.append(f"slices={{{inside}}}")
    return found


def _is_uniform(settings: Mapping[str, Any]) -> bool:
    return settings.get("negative_sampling") == "uniform"


def _metrics(names: Iterable[str]) -> tuple[list[str], list[int]]:
    """Names and cut-offs that expand to these names in this order; or the names themselves."""
    full = [parse_name(name) for name in dict.fromkeys(names)]
    plain = list(dict.fromkeys(spec.with_cutoff(None) for spec in full))
    cutoffs = sorted({spec.k for spec in full if spec.k is not None})
    has_cutoff = {spec.with_cutoff(None) for spec in full if spec.k is not None}
    expanded = [
        spec.with_cutoff(k) for spec in plain for k in (cutoffs if spec in has_cutoff else [None])
    ]
    if expanded == full:
        return [str(spec) for spec in plain], cutoffs
    return [str(spec) for spec in full], []


def _call(function: str, arguments: list[str], indent: int = 0) -> str:
    """A call on one line, or with an argument on each."""
    short = f"{function}({', '.join(arguments)})"
    if len(short) + indent <= _WIDE:
        return short
    inner = " " * (indent + 4)
    return (
        f"{function}(\n"
        + "".join(f"{inner}{argument},\n" for argument in arguments)
        + " " * indent
        + ")"
    )


# --------------------------------------------------------------------------------------------------


def _differing(comparison: Comparison) -> dict[str, Any]:
    """How the models were compared, as far as it is not the default."""
    defaults = {
        name: parameter.default for name, parameter in inspect.signature(compare).parameters.items()
    }
    tables = [
        result.per_user for result in comparison.results.values() if result.per_user is not None
    ]
    shared = (
        set.intersection(*(set(table.columns) for table in tables)) - {"user"} if tables else set()
    )
    used = {
        "metrics": None if set(comparison.means) >= shared else list(comparison.means),
        "tests": list(comparison.tests),
        "correction": comparison.correction,
        "family": comparison.family,
        "alternative": comparison.alternative,
        "alpha": comparison.alpha,
        **(
            {"resamples": comparison.resamples, "seed": comparison.seed}
            if "randomization" in comparison.tests
            else {}
        ),
    }
    return {
        name: value
        for name, value in used.items()
        if value != defaults[name] and value != list(defaults["tests"])
    }


def _compare_call(comparison: Comparison) -> str:
    names = list(comparison.results)
    own = [result.name for result in comparison.results.values()]
    given = "results" if own == names else f"dict(zip({names!r}, results))"
    return _call(
        "comparison = weft.compare",
        [given, *(f"{name}={value!r}" for name, value in _differing(comparison).items())],
    )


def _compare_command(comparison: Comparison) -> str:
    words = [
        "weft",
        "compare",
        *(f"{name}.json" for name in file_names([r.name for r in comparison.results.values()])),
    ]
    for name, value in _differing(comparison).items():
        if name == "tests":
            words += [word for test in value for word in ("--test", test)]
        elif name == "metrics":
            words += [word for metric in value for word in ("--metric", metric)]
        else:
            words += [f"--{name}", str(value)]
    return shlex.join(words)

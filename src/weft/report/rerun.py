"""The configuration or the Python calls that reproduce a result ("run it again")."""

from __future__ import annotations

import inspect
import io
import json
import shlex
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from weft._choices import POSITIONS
from weft._input_kinds import NAMED_INPUTS, SIDE_INPUTS
from weft.errors import InputError, SettingError
from weft.evaluation.result import Result
from weft.evaluation.settings import EvaluationSettings
from weft.metrics.names import parse_name
from weft.metrics.registry import prototype
from weft.report.context import ReportContext
from weft.report.result_folder import file_names
from weft.statistics import Comparison, compare
from weft.statistics.comparison_text import row_metric
from weft.statistics.planned_tests import plan_tests

_LINE_LENGTH = 100


def rerun(context: ReportContext) -> list[tuple[str, str]]:
    """Return headings, each with a YAML configuration, a Python call or a command to run.

    Results of the command line have a configuration, results of Python have calls. Models that were
    evaluated in the same way share one. A comparison follows.
    """
    groups: dict[str, dict[str, Result]] = {}
    for name, result in context.results.items():
        key = json.dumps(_shared_settings(result), sort_keys=True, default=str)
        groups.setdefault(key, {})[name] = result
    sections = []
    for group in groups.values():
        models = "" if len(groups) == 1 else f" of {', '.join(group)}"
        if all("configuration" in result.provenance for result in group.values()):
            run = "save as config.yaml and run weft evaluate config.yaml"
            sections.append((f"Configuration file{models}: {run}", _configuration(group)))
        else:
            sections.append((f"Evaluation{models} in Python", _python_call(group)))
    if context.comparison is not None:
        heading = "Comparison of result files on the command line"
        sections.append(("Comparison in Python", _compare_call(context.comparison)))
        sections.append((heading, _compare_command(context.comparison)))
    return sections


def _shared_settings(result: Result) -> dict[str, Any]:
    """Return what results must have in common to share a configuration or a call."""
    if "configuration" in result.provenance:
        configuration = result.provenance["configuration"]
        return {key: value for key, value in configuration.items() if key != "models"}
    return {
        "settings": dict(result.settings),
        "inputs": _inputs(result),
        "per_user": result.per_user is not None,
    }


# --------------------------------------------------------------------------------------------------


def _configuration(group: Mapping[str, Result]) -> str:
    """Return one YAML configuration for all models of a group, without gates."""
    from ruamel.yaml import YAML

    configurations = [result.provenance["configuration"] for result in group.values()]
    models: dict[str, Any] = {}
    for name, configuration in zip(group, configurations):
        for own_name, file in configuration.get("models", {}).items():
            is_free = models.get(own_name, file) == file
            models[own_name if is_free else name] = file
    evaluation = dict(configurations[0].get("evaluation", {}))
    gates = evaluation.pop("gates", None)
    yaml = YAML()
    yaml.width = 4096  # no line is folded
    yaml.allow_unicode = True
    text = io.StringIO()
    yaml.dump({**configurations[0], "evaluation": evaluation, "models": models}, text)
    comment = "# Gates are omitted: they do not change results.\n" if gates else ""
    return comment + text.getvalue()


# --------------------------------------------------------------------------------------------------


def _python_call(group: Mapping[str, Result]) -> str:
    """Return the calls of `weft.evaluate`, or of `weft.Evaluator` for results of batches."""
    names = list(group)
    result = group[names[0]]
    ids = result.provenance.get("ids", {})
    arguments = [
        f"{name}={POSITIONS!r}" if ids.get(name) == POSITIONS else f"{name}={name}"
        for name in _inputs(result)
    ]
    arguments += _other_inputs(result) + _metric_arguments(result) + _setting_arguments(result)
    if result.per_user is not None:
        arguments.append("per_user=True")
    if "fingerprint" not in result.provenance:
        return _evaluator_call(names, result, arguments)
    lines = ["import weft", ""]
    if not ids and result.provenance["fingerprint"].get("source_kind") != "lists":
        lines.append("# Add users= and items= (ids of rows and columns) if they were given.")
    if len(names) == 1:
        arguments = ["source", "truth", *arguments, f"name={names[0]!r}"]
        return "\n".join([*lines, _format_call("result = weft.evaluate", arguments)])
    arguments = ["sources[name]", "truth", *arguments, "name=name"]
    call = _format_call("weft.evaluate", arguments, indent=4)
    return "\n".join([*lines, f"results = [\n    {call}\n    for name in {names!r}\n]"])


def _evaluator_call(names: list[str], result: Result, arguments: list[str]) -> str:
    if items := result.counts.get("items"):
        arguments = [*arguments, f"num_items={items}"]
    comment = [f"# Repeat for each of {', '.join(names)}."] if len(names) > 1 else []
    return "\n".join(
        [
            *("import weft", "", *comment),
            _format_call("evaluator = weft.Evaluator", arguments),
            "for preds, target, user_indices in batches:",
            "    evaluator.update(preds, target, user_indices)",
            "result = evaluator.compute()",
        ]
    )


def _inputs(result: Result) -> list[str]:
    """Return the inputs of the run beyond the truth: recorded ones, and those its metrics need."""
    names = set(result.provenance.get("files", {})) - {"source", "truth"}
    fingerprint, ids = result.provenance.get("fingerprint", {}), result.provenance.get("ids", {})
    if fingerprint.get("train") is not None:
        names.add("train")
    names |= {name for name, origin in ids.items() if origin in ("given", POSITIONS)}
    names |= fingerprint.keys() & set(SIDE_INPUTS)
    if fingerprint.get("source_kind") == "model" and ids.get("users") == POSITIONS:
        names.discard("users")  # the rows of a truth that is a matrix
    if "users_without_group" in result.counts:
        names.add("user_groups")
    recorded = {name for name, digest in fingerprint.items() if digest is not None}
    for value in result.entries:
        try:
            names |= prototype(parse_name(value.plain_name)).missing_inputs(recorded)
        except SettingError:  # not registered here
            continue
    order = ("train", "users", "items", *SIDE_INPUTS)
    return sorted(names & set(order), key=order.index)


def _other_inputs(result: Result) -> list[str]:
    """Return the argument `inputs`, with the inputs that have no argument of their own."""
    known = {"truth", "source", "source_kind", "candidates", *NAMED_INPUTS}
    names = [name for name in result.provenance.get("fingerprint", {}) if name not in known]
    return [f"inputs={{{', '.join(f'{name!r}: {name}' for name in names)}}}"] if names else []


def _metric_arguments(result: Result) -> list[str]:
    """Return the arguments `metrics` and, if the metrics share their cut-offs, `top_k`."""
    names = result.settings.get("metrics") or [value.plain_name for value in result.entries]
    metrics, cutoffs = _factor_cutoffs(names)
    return [_format_list("metrics", metrics), *([f"top_k={cutoffs!r}"] if cutoffs else [])]


def _setting_arguments(result: Result) -> list[str]:
    """Return the recorded settings that differ from their defaults as arguments."""
    recorded = {
        field.name: result.settings[field.name]
        for field in EvaluationSettings.fields()
        if field.option.recorded != "no"
        and result.settings.get(field.name) not in (None, field.default)
    }
    if "strategy" in result.settings:  # not the result of an `Evaluator`, which records less
        recorded = _drop_ineffective(recorded)
    arguments = [
        "candidates=candidates" if (name, value) == ("candidates", "given") else f"{name}={value!r}"
        for name, value in recorded.items()
    ]
    return [*arguments, *_slice_arguments(result)]


def _slice_arguments(result: Result) -> Iterator[str]:
    """Yield the arguments `slices` and `item_slices`; `labels` replaces the caller's own."""
    for setting in ("slices", "item_slices"):
        if slices := result.settings.get(setting):
            cuts = slices if isinstance(slices, Mapping) else dict.fromkeys(slices, "labels")
            texts = (
                f"{name!r}: {'labels' if cut == 'labels' else repr(cut)}"
                for name, cut in cuts.items()
            )
            yield f"{setting}={{{', '.join(texts)}}}"


def _drop_ineffective(recorded: dict[str, Any]) -> dict[str, Any]:
    """Return the settings without those that had no effect, which `evaluate` refuses.

    Earlier versions recorded them, too.
    """
    try:
        conflicts = list(EvaluationSettings.from_options(**recorded).conflicts())
    except SettingError:  # of another version
        return recorded
    refused = {error.setting for error in conflicts}
    return {name: value for name, value in recorded.items() if name not in refused}


def _factor_cutoffs(names: Iterable[str]) -> tuple[list[str], list[int]]:
    """Return names and cut-offs that expand to `names` in this order, or the names themselves."""
    full = [parse_name(name) for name in dict.fromkeys(names)]
    cutoffs = sorted({spec.k for spec in full if spec.k is not None})
    has_cutoff = {spec.with_cutoff(None): spec.k is not None for spec in full}
    expanded = [
        spec.with_cutoff(k)
        for spec, is_cut in has_cutoff.items()
        for k in (cutoffs if is_cut else [None])
    ]
    return ([*map(str, has_cutoff)], cutoffs) if expanded == full else ([*map(str, full)], [])


def _format_list(name: str, values: list[str]) -> str:
    """Return an argument on one line, or with a line per value if it is too long."""
    short = f"{name}={values!r}"
    if len(short) + 12 <= _LINE_LENGTH:
        return short
    return f"{name}=[\n{''.join(f'    {value!r},{chr(10)}' for value in values)}]"


def _format_call(function: str, arguments: list[str], indent: int = 0) -> str:
    """Return a call on one line, or with a line per argument if it is too long."""
    short = f"{function}({', '.join(arguments)})"
    if len(short) + indent <= _LINE_LENGTH and "\n" not in short:
        return short
    outer, inner = " " * indent, " " * (indent + 4)
    lines = "".join(textwrap.indent(f"{argument},\n", inner) for argument in arguments)
    return f"{function}(\n{lines}{outer})"


# --------------------------------------------------------------------------------------------------


def _comparison_settings(comparison: Comparison) -> dict[str, Any]:
    """Return the settings of a comparison that differ from their defaults."""
    parameters = inspect.signature(compare).parameters
    settings: dict[str, Any] = {
        **_chosen_tests(comparison),
        "correction": comparison.correction,
        "family": comparison.family,
        "alternative": comparison.alternative,
        "alpha": comparison.alpha,
    }
    if "randomization" in comparison.tests:
        settings |= {"resamples": comparison.resamples, "seed": comparison.seed}
    defaults = {name: parameters[name].default for name in settings}
    return {name: value for name, value in settings.items() if value != defaults[name]}


def _chosen_tests(comparison: Comparison) -> dict[str, list[str] | None]:
    """Return the tests and metrics of a comparison; None if they are the default and all."""
    tested = {(row["test"], row_metric(row)) for row in comparison.rows}
    for tests in (None, list(comparison.tests)):
        for metrics in (None, list(comparison.means)):
            with suppress(InputError, SettingError):  # results that lack these tests or metrics
                if plan_tests(comparison.results, tests, metrics).tested == tested:
                    return {"metrics": metrics, "tests": tests}
    return {"metrics": list(comparison.means), "tests": list(comparison.tests)}


def _compare_call(comparison: Comparison) -> str:
    names = list(comparison.results)
    own_names = [result.name for result in comparison.results.values()]
    results = "results" if own_names == names else f"dict(zip({names!r}, results))"
    settings = [f"{name}={value!r}" for name, value in _comparison_settings(comparison).items()]
    return _format_call("comparison = weft.compare", [results, *settings])


def _compare_command(comparison: Comparison) -> str:
    names = [result.name for result in comparison.results.values()]
    words = ["weft", "compare", *(f"{name}.json" for name in file_names(names))]
    repeated = {"tests": "--test", "metrics": "--metric"}
    for name, value in _comparison_settings(comparison).items():
        if name in repeated:
            words += [word for entry in value for word in (repeated[name], entry)]
        else:
            words += [f"--{name}", str(value)]
    return shlex.join(words)

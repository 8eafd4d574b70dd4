"""Running a configuration: evaluate every model on the same data, and compare the models."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from weft.config.configuration import Configuration
from weft.config.gates import Gate, GateOutcome, judge_gates
from weft.config.sections import DataFiles, FileSettings, PositionsSetting
from weft.data.item_slices import has_times
from weft.data.number_files import read_input_file
from weft.data.readers.file_settings import is_matrix_file
from weft.data.readers.files import File, FileTable, read_table
from weft.data.readers.pipes import check_pipes
from weft.errors import InputError, SettingError, WeftError, setting_ref
from weft.evaluation.api import evaluate
from weft.evaluation.result import Result
from weft.evaluation.setting_defaults import DEFAULT_METRICS, DEFAULT_TOP_K
from weft.metrics.registry import find_input_kinds
from weft.report.context import ReportContext
from weft.report.result_folder import file_names
from weft.statistics import Comparison, compare

__all__ = ["RunOutcome", "run"]

Evaluate = Callable[..., Result]


@dataclass(frozen=True, eq=False)
class RunOutcome:
    """The results of a run of a configuration. Iterating yields the results.

    Attributes
    ----------
    results
        One result per model.
    comparisons
        One comparison per correction of `stat_significance`.
    warnings
        Warnings of the configuration and of the run.
    subject
        Subject of the report, None without a report. Its results have values per user even if
        `results` do not.
    gates
        Outcomes of the gates.
    gate_notes
        Remarks on the baselines of the gates.

    Examples
    --------
    >>> import weft
    >>> result = weft.evaluate({"ann": ["a"]}, {"ann": ["a"]}, metrics="HitRate@1")
    >>> outcome = RunOutcome((result,))  # as `run` returns it
    >>> len(outcome), [result["HitRate@1"] for result in outcome]
    (1, [1.0])
    """

    results: tuple[Result, ...]
    comparisons: tuple[Comparison, ...] = ()
    warnings: tuple[str, ...] = ()
    subject: ReportContext | None = None
    gates: tuple[GateOutcome, ...] = ()
    gate_notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)


def run(
    configuration: Configuration,
    begin: Callable[[str], None] = lambda step: None,
    *,
    evaluate: Evaluate | None = None,
    gates: Sequence[Gate] = (),
) -> RunOutcome:
    """Evaluate all models of a configuration, compare them, and judge the gates.

    Parameters
    ----------
    configuration
        Data, models and settings.
    begin
        Function that is called with the name of each step when it starts.
    evaluate
        Function that is called instead of `weft.evaluate`, such as that of `open_engine`. By
        default the engine of the configuration runs for the time of the call, and values per user
        are collected.
    gates
        Gates from `prepare_gates`.

    Returns
    -------
    RunOutcome
        The results, comparisons and outcomes of gates.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "test.csv").write_text("user,item\\nann,a\\nbob,b\\n")
    >>> _ = (folder / "als.csv").write_text("user,item,rank\\nann,a,1\\nbob,c,1\\n")
    >>> import weft, weft.config
    >>> from weft.config.run import run
    >>> configuration = weft.config.from_mapping(
    ...     {"data": {"truth": "test.csv"}, "models": {"als": "als.csv"},
    ...      "evaluation": {"metrics": "HitRate@1"}},
    ...     folder=folder,
    ... )
    >>> [(result.name, result["HitRate@1"]) for result in run(configuration)]
    [('als', 0.5)]
    """
    if evaluate is None:
        with open_engine(configuration) as engine_evaluate:
            outcome = run(configuration, begin, evaluate=engine_evaluate, gates=gates)
            return replace(outcome, results=tuple(map(_collect, outcome.results)))
    pairs_users = needs_pairs(gates)
    evaluated = list(results(configuration, begin, evaluate=evaluate, pairs_users=pairs_users))
    with _located_errors(configuration):
        comparisons, warnings = _compare(configuration, evaluated, begin)
        subject = None
        if configuration.report is not None:
            comparison = comparisons[0] if comparisons else None
            if len(evaluated) > 1 and not configuration.evaluation.tests:
                skipped = "report: it does not compare the models"
                comparison, more = _try_compare(evaluated, begin, skipped)
                warnings += more
            subject = ReportContext(
                {result.name: result for result in evaluated},
                comparison,
                (*configuration.warnings, *warnings),
            )
    outcomes, gate_notes = judge_gates(gates, evaluated)
    if not configuration.evaluation.per_user:  # only tests, claims or the report needed them
        evaluated = [replace(result, per_user=None, user_labels=None) for result in evaluated]
    return RunOutcome(
        tuple(evaluated),
        comparisons,
        (*configuration.warnings, *warnings),
        subject,
        tuple(outcomes),
        tuple(gate_notes),
    )


def needs_pairs(gates: Sequence[Gate]) -> bool:
    """Return True if a gate compares the values of each user with those of a baseline."""
    return any(gate.claim is not None for gate in gates)


@contextmanager
def open_engine(configuration: Configuration, evaluate: Evaluate = evaluate) -> Iterator[Evaluate]:
    """Start the engine of the configuration and yield its `evaluate`; without one, `evaluate`."""
    engine = configuration.engine
    if engine is None:
        yield evaluate
    elif engine.name == "ray":
        from weft.engines import ray

        with ray.cluster(engine.address):
            yield partial(ray.evaluate, parts=engine.parts)
    else:
        from weft.engines import spark

        with spark.session(engine.address):
            yield partial(spark.evaluate, parts=engine.parts)


def results(
    configuration: Configuration,
    begin: Callable[[str], None] = lambda step: None,
    *,
    evaluate: Evaluate = evaluate,
    pairs_users: bool = False,
) -> Iterator[Result]:
    """Yield the result of each model, with values per user if they are saved, tested or reported.

    The arguments are those of `run`; `pairs_users` asks for values per user, too.
    """
    check_complete(configuration)
    assert configuration.data is not None
    reads_files = configuration.engine is None  # the workers of an engine read their partitions
    if reads_files:
        begin("reading the data")
    with _located_errors(configuration):
        data = _open_data(configuration, configuration.data, reads_files=reads_files)
        settings = configuration.evaluation.settings(reads_files=reads_files)
    if configuration.report is not None:
        settings |= {"per_user": True, "exposure": True}
    if pairs_users:
        settings["per_user"] = True
    settings.pop("checkpoint", None)  # each model has its own
    truth = data.pop("truth")
    checkpoints = _checkpoints(configuration)
    has_matrix = any(is_matrix_file(file.path) for file in configuration.models.values())
    for name, file in configuration.models.items():
        begin(f"evaluating {name}")
        with _located_errors(configuration):
            source: Any = file.file()
            inputs = data
            if has_matrix and not is_matrix_file(source):  # lists name their users themselves
                inputs = {key: value for key, value in data.items() if key != "users"}
            if reads_files and not is_matrix_file(source):
                label = configuration.document.spell(f"models.{name}", "")
                source = read_table(source, label, use="lists")
            result = evaluate(source, truth, **inputs, **settings, **checkpoints[name], name=name)
            if configuration.report is not None or configuration.evaluation.tests or pairs_users:
                result = _collect(result)
        provenance = {**result.provenance, "configuration": configuration.plain(name)}
        yield replace(result, provenance=provenance)


def _checkpoints(configuration: Configuration) -> dict[str, dict[str, Path]]:
    """Return the setting `checkpoint` by model: the file, or one for each of several models."""
    names, path = list(configuration.models), configuration.evaluation.checkpoint
    if path is None:
        return {name: {} for name in names}
    if len(names) == 1:
        return {names[0]: {"checkpoint": path}}
    return {
        name: {"checkpoint": path.with_name(f"{path.name}.{file_name}")}
        for name, file_name in zip(names, file_names(names))
    }


@contextmanager
def _located_errors(configuration: Configuration) -> Iterator[None]:
    """Print settings in errors as the configuration spells them, with their positions."""
    try:
        yield
    except WeftError as error:
        configuration.document.locate_error(error)
        raise


def _collect(result: Result) -> Result:
    """Return the result with values per user in this process, if an engine kept them."""
    return result.collected() if hasattr(result, "collected") else result


def with_default_metrics(configuration: Configuration) -> tuple[Configuration, bool]:
    """Return the configuration, with the default metrics if it has none, and whether it had none.

    Cut-offs that are given stay.
    """
    evaluation = configuration.evaluation
    if evaluation.all_metrics:
        return configuration, False
    updated = {"metrics": DEFAULT_METRICS, "top_k": evaluation.top_k or DEFAULT_TOP_K}
    changed = evaluation.model_copy(update=updated)
    return configuration.model_copy(update={"evaluation": changed}), True


def check_complete(configuration: Configuration) -> None:
    """Raise `SettingError` if data, models or metrics are missing."""
    if configuration.data is None:
        raise SettingError(
            "the configuration has no truth; add 'data:' with 'truth: FILE', or give --truth FILE."
        )
    if not configuration.models:
        raise SettingError(
            "the configuration has no models; add 'models:' with 'NAME: FILE' for each model, or "
            "give --recs NAME=FILE."
        )
    if not configuration.evaluation.all_metrics:
        raise SettingError(
            "the configuration has no metrics; add 'metrics: [nDCG, Recall]' to 'evaluation:', or "
            "give --metrics."
        )


def _open_file(
    file: FileSettings, name: str, *, reads_files: bool, reads_times: bool
) -> FileTable | File:
    """Return the table of a file, read once for all models; or the file, if an engine reads it.

    `reads_times`: the truth has timestamps, which some setting needs."""
    if isinstance(file, PositionsSetting) or (not reads_files and file.ratings):
        return file.file()
    table = read_table(file.file(), name, use="timed" if reads_times else None)
    if file.ratings:
        return table
    columns = {role: column for role, column in table.columns.items() if role != "rating"}
    return replace(table, columns=columns)


def _open_data(
    configuration: Configuration, data: DataFiles, *, reads_files: bool
) -> dict[str, Any]:
    """Return the data by argument of `weft.evaluate`: read, or as files for an engine."""
    files = data.files()
    models = {setting_ref(f"models.{name}"): file for name, file in configuration.models.items()}
    named = {**files, **data.inputs, **models}
    check_pipes({name: file.path for name, file in named.items()})
    slices = configuration.evaluation.item_slices.values()
    timed = {"truth"} if any(has_times({"": one.by}) for one in slices) else set()
    opened: dict[str, Any] = {
        name: _open_file(file, name, reads_files=reads_files, reads_times=name in timed)
        for name, file in files.items()
    }
    if data.inputs:
        opened["inputs"] = open_inputs(configuration, reads_files=reads_files)
    return opened


def open_inputs(configuration: Configuration, *, reads_files: bool) -> dict[str, Any]:
    """Return the inputs of `data.inputs`: read once for all models, or as files for an engine."""
    assert configuration.data is not None
    files = {name: file.file() for name, file in configuration.data.inputs.items()}
    if not reads_files:
        return dict(files)
    kinds = find_input_kinds(files, configuration.evaluation.all_metrics)
    return {name: read_input_file(file, name, kinds[name]) for name, file in files.items()}


def _compare(
    configuration: Configuration, evaluated: list[Result], begin: Callable[[str], None]
) -> tuple[tuple[Comparison, ...], tuple[str, ...]]:
    """Return the comparisons of `stat_significance`, and why there are none."""
    significance = configuration.evaluation.stat_significance
    if significance is None or not significance.tests:
        return (), ()
    skipped = "evaluation.stat_significance: the models were not compared"
    if len(evaluated) < 2:
        return (), (f"{skipped}, because there is only one model.",)
    first, *others = significance.corrections.names
    comparison, warnings = _try_compare(
        evaluated,
        begin,
        skipped,
        tests=significance.tests,
        correction=first,
        family=significance.family,
        alternative=significance.alternative,
        alpha=significance.corrections.alpha,
        resamples=significance.resamples,
        seed=configuration.evaluation.seed,
    )
    if comparison is None:
        return (), warnings
    return (comparison, *map(comparison.adjusted, others)), ()


def _try_compare(
    evaluated: list[Result], begin: Callable[[str], None], skipped: str, **options: Any
) -> tuple[Comparison | None, tuple[str, ...]]:
    """Return the comparison, or None and a warning that starts with `skipped`."""
    begin("comparing the models")
    try:
        return compare(evaluated, **options), ()
    except InputError as error:  # results and report are useful without it
        return None, (f"{skipped}: {error}",)

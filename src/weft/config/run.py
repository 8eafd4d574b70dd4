"""A configuration, carried out: every model evaluated on the same data, and the models compared."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from weft.config import Configuration, FileSettings
from weft.data.readers.files import File, FileTable, read_table
from weft.errors import InputError, SettingError
from weft.evaluation.api import evaluate
from weft.evaluation.result import Result
from weft.report.context import ReportContext
from weft.statistics import Comparison, compare


@dataclass(frozen=True, eq=False)
class RunOutcome:
    """What a run found. Iterating gives the results.

    `comparisons` has one entry for each correction that `stat_significance` asks for; `warnings`
    are those of the configuration and of the run. `subject`: what the report is about, if the
    configuration asks for one; it has values per user, whatever `results` have."""

    results: tuple[Result, ...]
    comparisons: tuple[Comparison, ...] = ()
    warnings: tuple[str, ...] = ()
    subject: ReportContext | None = None

    def __iter__(self) -> Iterator[Result]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)


Evaluate = Callable[..., Result]


def run(
    configuration: Configuration,
    begin: Callable[[str], None] = lambda what: None,
    *,
    progress: bool = False,
    evaluate: Evaluate | None = None,
) -> RunOutcome:
    """Evaluate all models and compare them. `begin` is told what starts; `progress` shows a bar for
    each model.

    `evaluate`: what `open_engine` gives, or whatever else takes the place of `weft.evaluate`.
    Without it the engine of the configuration, if it names one, runs for the time of the call, and
    values per user come here."""
    if evaluate is None:
        with open_engine(configuration) as shared:
            outcome = run(configuration, begin, progress=progress, evaluate=shared)
            return replace(outcome, results=tuple(map(_here, outcome.results)))
    found = list(results(configuration, begin, progress=progress, evaluate=evaluate))
    comparisons, warnings = _compare(configuration, found, begin)
    subject = None
    if configuration.report is not None:
        comparison = comparisons[0] if comparisons else None
        if len(found) > 1 and not configuration.evaluation.tests:
            comparison, more = _compare_for_report(found, begin)
            warnings += more
        subject = ReportContext(
            {result.name: result for result in found},
            comparison,
            (*configuration.warnings, *warnings),
        )
    if not configuration.evaluation.save_per_user:  # they were kept for the tests, or the report
        found = [replace(result, per_user=None, user_labels=None) for result in found]
    return RunOutcome(tuple(found), comparisons, (*configuration.warnings, *warnings), subject)


@contextmanager
def open_engine(configuration: Configuration, evaluate: Evaluate = evaluate) -> Iterator[Evaluate]:
    """What evaluates on the engine of the configuration, which runs as long as this lasts; without
    an engine, `evaluate`.
    """
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
    begin: Callable[[str], None] = lambda what: None,
    *,
    progress: bool = False,
    evaluate: Evaluate | None = None,
) -> Iterator[Result]:
    """The result of each model, as soon as it is there; with values per user if they are to be
    saved, tested or reported.

    `evaluate` is that of `run`.
    """
    if evaluate is None:
        with open_engine(configuration) as shared:
            yield from map(_here, results(configuration, begin, progress=progress, evaluate=shared))
        return
    check_complete(configuration)
    assert configuration.data is not None
    here = configuration.engine is None  # else, workers read what they evaluate
    if here:
        begin("reading the data")
    given = {
        name: getattr(configuration.data, name) for name in type(configuration.data).model_fields
    }
    data: dict[str, Any] = {
        name: _table(file, name, read=here) for name, file in given.items() if file is not None
    }
    truth = data.pop("truth")
    settings = configuration.evaluation.settings(read=here)
    if configuration.report is not None:
        settings |= {"per_user": True, "exposure": True}
    for name, file in configuration.models.items():
        begin(f"evaluating {name}")
        result = evaluate(
            read_table(file.file(), f"models.{name}", use="lists") if here else file.file(),
            truth,
            **data,
            **settings,
            progress=progress,
            name=name,
        )
        if configuration.report is not None or configuration.evaluation.tests:
            result = _here(result)
        yield replace(
            result, provenance={**result.provenance, "configuration": configuration.plain(name)}
        )


def _here(result: Result) -> Result:
    """The result with its values per user in this process, where an engine kept them."""
    return result.collected() if hasattr(result, "collected") else result


def check_complete(configuration: Configuration) -> None:
    """A configuration may be loaded without data and models, but not carried out."""
    if configuration.data is None:
        raise SettingError(
            "the configuration has no data; add 'data:' with 'truth: FILE', or give --truth FILE."
        )
    if not configuration.models:
        raise SettingError(
            "the configuration has no model to evaluate; add 'models:' with 'NAME: FILE' for each, "
            "or give --recs NAME=FILE."
        )
    if not configuration.evaluation.all_metrics:
        raise SettingError(
            "the configuration has no metrics; add 'metrics: [nDCG, Recall]' to 'evaluation:', or "
            "give --metrics."
        )


def _table(file: FileSettings, name: str, *, read: bool) -> FileTable | File:
    """What the file holds, read once for all models; or the file, if it need not be read here."""
    if not read and file.ratings:
        return file.file()
    table = read_table(file.file(), name)
    if file.ratings:
        return table
    return replace(
        table, columns={role: column for role, column in table.columns.items() if role != "rating"}
    )


def _compare(
    configuration: Configuration, found: list[Result], begin: Callable[[str], None]
) -> tuple[tuple[Comparison, ...], tuple[str, ...]]:
    wanted = configuration.evaluation.stat_significance
    if wanted is None or not wanted.tests:
        return (), ()
    if len(found) < 2:
        return (), (
            "evaluation.stat_significance: was not carried out, because it compares models and "
            "there is only one.",
        )
    begin("comparing the models")
    first, *others = wanted.corrections.chosen
    try:
        comparison = compare(
            found,
            tests=wanted.tests,
            correction=first,
            family=wanted.family,
            alternative=wanted.alternative,
            alpha=wanted.corrections.alpha,
            resamples=wanted.resamples,
            seed=configuration.evaluation.seed,
        )
        return (comparison, *map(comparison.adjusted, others)), ()
    except InputError as error:  # the results are worth having without
        return (), (f"evaluation.stat_significance: was not carried out: {error}",)


def _compare_for_report(
    found: list[Result], begin: Callable[[str], None]
) -> tuple[Comparison | None, tuple[str, ...]]:
    """The usual comparison, where none was asked for."""
    begin("comparing the models")
    try:
        return compare(found), ()
    except InputError as error:  # the report is worth having without
        return None, (f"report: the models are not compared in it: {error}",)

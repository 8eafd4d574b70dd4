"""Why metrics cannot be compared, and how to evaluate models so that they can."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from weft.errors import SettingError, agree, setting_ref
from weft.evaluation.result import Result
from weft.metrics.names import split_labels


def check_requested(
    results: Mapping[str, Result],
    requested: Iterable[str],
    testable: Collection[str],
    tests: Sequence[str] | None,
) -> None:
    """Raise `SettingError` for a metric that is not among the testable ones.

    `tests` are the requested tests, None for the default.
    """
    for name in requested:
        if name not in testable:
            can = f" These metrics can be compared: {', '.join(sorted(testable))}."
            raise SettingError(
                _explain(results, name, tests) + (can if testable else ""), setting="metrics"
            )


def describe_untested(results: Mapping[str, Result], tested: Collection[str]) -> list[str]:
    """Return notes on the metrics that are not compared, one per reason.

    Notes are shown by every interface, so they name options in both spellings.
    """
    names = dict.fromkeys(name for result in results.values() for name in result)
    missing: dict[str, None] = {}
    without_values: dict[str, None] = {}
    for name in names:
        if name not in tested:
            is_missing = _find_model_without(results, name) is not None
            (missing if is_missing else without_values)[split_labels(name)[0]] = None
    notes = []
    if missing:
        note = agree(len(missing), "not compared, because not every model has {them}: ")
        notes.append(note + ", ".join(missing))
    if without_values:
        count = len(without_values)
        note = agree(count, "not compared, because {they} {have} no value per user: ")
        note += ", ".join(without_values)
        if _find_model_without_resamples(results) is not None:
            note += agree(
                count,
                ". To compare {them}, evaluate all models with bootstrap=1000 (--bootstrap 1000), "
                "then compare again",
            )
        notes.append(note)
    return notes


def _explain(results: Mapping[str, Result], name: str, tests: Sequence[str] | None) -> str:
    """Return why a metric cannot be compared, and what to do."""
    model = _find_model_without(results, name)
    if model is not None:
        return f"{name!r} was not evaluated for {model!r}; evaluate all models with it."
    tables = [result.per_user for result in results.values()]
    if all(table is not None and name in table.columns for table in tables):  # but not resampled
        return f"{name!r} has no resamples; compare it with {setting_ref('tests', 'paired_t')}."
    needs = f"{name!r} has no value per user, so that only the bootstrap test can compare it"
    lacking = _find_model_without_resamples(results)
    if lacking is not None:
        return (
            f"{needs}, but the result {lacking!r} has no resamples. Evaluate all models with "
            f"{setting_ref('bootstrap', 1000)}, then compare again."
        )
    if tests is not None and "bootstrap" not in tests:
        return f"{needs}. Request it with {setting_ref('tests', 'bootstrap')}."
    return f"{name!r} has neither values per user nor resamples, which the tests need."


def _find_model_without_resamples(results: Mapping[str, Result]) -> str | None:
    """Return a model without resamples, None if all have them."""
    return next((model for model, result in results.items() if result.resamples is None), None)


def _find_model_without(results: Mapping[str, Result], name: str) -> str | None:
    """Return a model that lacks a metric, None if all have it."""
    return next((model for model, result in results.items() if name not in list(result)), None)

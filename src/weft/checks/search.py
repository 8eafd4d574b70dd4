"""The search for everything suspicious, in the order in which one thing hides another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from weft.checks import Finding
from weft.checks.between import between_tables
from weft.checks.ids import fractional, id_types, nameless, of_one_type
from weft.checks.lists import within_lists
from weft.checks.refused import outside_catalogue, refused_lists, refused_train, refused_truth
from weft.checks.repairs import repair_lists, repair_train, repair_truth
from weft.checks.trials import Inputs, Trial, evaluate_model
from weft.result import Result


def find(
    given: Inputs, settings: Mapping[str, Any], begin: Callable[[str], None]
) -> tuple[list[Finding], dict[str, dict[str, float]], tuple[str, ...]]:
    """All findings, the values of each model with errors repaired, and the models that an evaluation refuses."""
    begin("looking at the ids")
    threshold = settings["relevance_threshold"]
    if given.items is None and (width := next((t.width for t in (given.truth, given.train) if t is not None and t.width), None)):
        given = replace(given, items=pl.int_range(width, dtype=pl.Int64, eager=True))
    found = [*nameless(given), *fractional(given)]
    if (types := id_types(given)) is not None:
        found.append(types)
    given = of_one_type(given)
    begin("repairing what would be refused")
    found += refused_truth(given.truth, threshold)
    if given.train is not None:
        found += refused_train(given.train)
    for table in given.lists.values():
        found += refused_lists(table)
    whole = Inputs(
        {name: repair_lists(table) for name, table in given.lists.items()},
        repair_truth(given.truth, threshold=threshold),
        None if given.train is None else repair_train(given.train),
        given.items,
    )
    outside = outside_catalogue(whole)
    whole = whole.with_whole_catalogue()
    found += outside
    refused = tuple(
        name
        for name in given.lists
        if any(one.severity == "error" and one.where in (name, "truth", "train", "items", "ids") for one in found)
    )
    baselines: dict[str, Result] = {}
    for name in whole.lists:
        begin(f"evaluating {name}")
        baselines[name] = evaluate_model(whole, name, settings)
    values = {name: {value.name: value.value for value in result.values} for name, result in baselines.items()}
    cutoffs = sorted({value.k for result in baselines.values() for value in result.values if value.k is not None})
    begin("comparing the tables")
    found += between_tables(whole, settings, cutoffs)
    for table in whole.lists.values():
        found += within_lists(table, cutoffs, baselines[table.where])
    trial = Trial(whole, settings, values)
    findings = []
    for one in found:
        begin(f"trying {one.kind}")
        findings.append(trial.finding(one))
    return findings, values, refused

"""The search for everything suspicious, in the order in which one thing hides another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from weft.diagnostics import Finding
from weft.diagnostics.cross_table import between_tables
from weft.diagnostics.ids import fractional, id_types, nameless, of_one_type
from weft.diagnostics.list_checks import within_lists
from weft.diagnostics.rejected_rows import (
    outside_catalogue,
    refused_lists,
    refused_train,
    refused_truth,
)
from weft.diagnostics.repairs import repair_lists, repair_train, repair_truth
from weft.diagnostics.what_if import Inputs, Trial, evaluate_tables


def find(
    given: Inputs, settings: Mapping[str, Any], begin: Callable[[str], None]
) -> tuple[list[Finding], dict[str, float], bool]:
    """All findings about one model, its values with errors repaired, and whether an evaluation
    refuses it.
    """
    name, threshold = given.lists.where, settings["relevance_threshold"]
    begin(f"looking at {name}")
    if given.items is None and (
        width := next(
            (t.width for t in (given.truth, given.train) if t is not None and t.width), None
        )
    ):
        given = replace(given, items=pl.int_range(width, dtype=pl.Int64, eager=True))
    found = [*nameless(given), *fractional(given)]
    if (types := id_types(given)) is not None:
        found.append(types)
    given = of_one_type(given)
    found += refused_truth(given.truth, threshold)
    if given.train is not None:
        found += refused_train(given.train)
    found += refused_lists(given.lists)
    whole = Inputs(
        repair_lists(given.lists),
        repair_truth(given.truth, threshold=threshold),
        None if given.train is None else repair_train(given.train),
        given.items,
    )
    found += outside_catalogue(whole)
    begin(f"evaluating {name}")
    baseline = evaluate_tables(whole, settings)
    cutoffs = sorted({value.k for value in baseline.values if value.k is not None})
    begin(f"comparing {name} with the truth")
    found += between_tables(whole, settings, cutoffs)
    found += within_lists(whole.lists, cutoffs, baseline)
    refused = any(one.severity == "error" for one in found)
    values = {value.name: value.value for value in baseline.values}
    trial = Trial(whole, settings, values)
    findings = []
    for one in found:
        begin(f"{name}: trying {one.kind}")
        findings.append(trial.finding(one))
    return findings, values, refused

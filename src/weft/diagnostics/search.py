"""Run all checks of one model, in the order in which a finding can hide another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import polars as pl

from weft.diagnostics import Finding
from weft.diagnostics.cross_table import check_across_tables
from weft.diagnostics.ids import (
    check_fractional_ids,
    check_id_types,
    check_missing_ids,
    unify_id_types,
)
from weft.diagnostics.list_checks import check_within_lists
from weft.diagnostics.rejected_rows import (
    check_catalogue,
    check_list_rows,
    check_train_rows,
    check_truth_rows,
)
from weft.diagnostics.repairs import repair_lists, repair_train, repair_truth
from weft.diagnostics.what_if import (
    DraftFinding,
    EffectEvaluator,
    Inputs,
    drop_absent,
    evaluate_tables,
)


def find_all(
    data: Inputs, settings: Mapping[str, Any], begin: Callable[[str], None]
) -> tuple[list[Finding], dict[str, float], bool]:
    """Return (findings about one model, its values with errors repaired, is_refused).

    `is_refused` is True if `weft.evaluate` rejects the inputs. `begin` receives the name of each
    step when it starts.
    """
    name = data.lists.where
    begin(f"looking at {name}")
    repaired, drafts = _check_rows(data, settings["relevance_threshold"])
    begin(f"evaluating {name}")
    baseline = evaluate_tables(repaired, settings)
    cutoffs = sorted({value.k for value in baseline.values if value.k is not None})
    begin(f"comparing {name} with the truth")
    drafts += check_across_tables(repaired, settings, cutoffs)
    drafts += check_within_lists(repaired.lists, cutoffs, baseline)
    is_refused = any(draft.severity == "error" for draft in drafts)
    values = {value.name: value.value for value in baseline.values}
    evaluator = EffectEvaluator(repaired, settings, values)
    findings = []
    for draft in drafts:
        begin(f"{name}: trying {draft.kind}")
        findings.append(evaluator.complete(draft))
    return findings, values, is_refused


def _check_rows(data: Inputs, threshold: float | None) -> tuple[Inputs, list[DraftFinding]]:
    """Return the repaired inputs, and the findings about rows that an evaluation rejects."""
    tables = (data.truth, data.train)
    width = next((table.width for table in tables if table is not None and table.width), None)
    if data.items is None and width:
        data = replace(data, items=pl.int_range(width, dtype=pl.Int64, eager=True))
    drafts = [
        *check_missing_ids(data),
        *check_fractional_ids(data),
        *drop_absent(check_id_types(data)),
    ]
    data = unify_id_types(data)
    drafts += check_truth_rows(data.truth, threshold)
    if data.train is not None:
        drafts += check_train_rows(data.train)
    drafts += check_list_rows(data.lists)
    repaired = Inputs(
        repair_lists(data.lists),
        repair_truth(data.truth, threshold=threshold),
        None if data.train is None else repair_train(data.train),
        data.items,
    )
    drafts += check_catalogue(repaired)
    return repaired, drafts

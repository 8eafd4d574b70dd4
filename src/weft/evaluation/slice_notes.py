"""Notes about slices of users and of relevant items, and about relevant items that do not count."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from weft.data.truth_groups import LabelGroups
from weft.errors import agree
from weft.evaluation.settings import EvaluationSettings
from weft.metrics.base.formulas import UserMeanMetric

if TYPE_CHECKING:
    from weft.evaluation.evaluator import Evaluator

Counts = Mapping[str, int]


def target_notes(settings: EvaluationSettings, counts: Counts) -> Iterator[str]:
    """Yield how many interactions of the truth do not count because of `targets`."""
    if left_out := counts.get("truth_outside_targets"):
        relation = "in" if settings.targets == "new" else "not in"
        yield agree(
            left_out,
            "{n} interaction{s} of the truth {are} {relation} {their} user's train and {are} not "
            "counted (targets={targets!r})",
            relation=relation,
            targets=settings.targets,
        )


def slice_notes(evaluator: Evaluator, counts: Counts) -> Iterator[str]:
    """Yield notes about users and relevant items in no group, and metrics without groups."""
    metric_set = evaluator.metric_set
    if metric_set.slices and not metric_set.user_columns:
        yield "the slices are empty: no metric of this run has a value per user"
    for name in metric_set.slices:
        if outside := counts[f"users_outside_{name}"]:
            yield agree(
                outside,
                "{n} of {total:,} users {have} no label in the slice {name!r} and {belong} to no "
                "group",
                total=counts["users"],
                name=name,
            )
    if metric_set.item_slices:
        yield from _item_slice_notes(evaluator, counts)


def _item_slice_notes(evaluator: Evaluator, counts: Counts) -> Iterator[str]:
    metric_set = evaluator.metric_set
    left_out = metric_set.select_names(
        lambda metric: not (isinstance(metric, UserMeanMetric) and metric.has_truth_groups)
    )
    if left_out:
        yield (
            f"{', '.join(left_out)} {'has' if len(left_out) == 1 else 'have'} no values in item "
            "slices: only means over users of how well relevant items are ranked have them"
        )
    for name, groups in metric_set.item_slices.items():
        if outside := counts[f"relevant_outside_{name}"]:
            yield agree(
                outside,
                "{n} of {total:,} relevant items {are} in no group of the item slice {name!r}",
                total=counts["relevant_items"],
                name=name,
            )
        if isinstance(groups, LabelGroups) and groups.labels.num_unknown:
            yield agree(
                groups.labels.num_unknown,
                "{n} label{s} of the item slice {name!r} {belong} to unknown items",
                name=name,
            )


def named_inputs(settings: EvaluationSettings) -> set[str]:
    """Return the names in the requests of item slices, which may be those of inputs."""
    requests = (settings.item_slices or {}).values()
    named = (one.get("of") if isinstance(one, Mapping) else one for one in requests)
    return {name for name in named if isinstance(name, str)}

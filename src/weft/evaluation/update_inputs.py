"""Checks and reads the arguments of `Evaluator.update`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from weft.batch.batch import BatchInputs
from weft.data import BatchLists, Train
from weft.data.devices import is_host_readable, to_device
from weft.data.targets import read_target
from weft.data.tensors import SparseRows
from weft.data.truth_groups import RepeatGroups
from weft.errors import InputError, SettingError, setting_ref
from weft.metrics.base.batch_checks import (
    check_batch,
    check_item_numbers,
    check_users,
    read_predictions,
    replace_invalid_scores,
)
from weft.metrics.base.summed import SummedMetric
from weft.ranking.rank_estimator import RankEstimator

if TYPE_CHECKING:
    from weft.evaluation.evaluator import Evaluator

# Train rows are padded to the longest on a device, where user indices are there too, if the longest
# has at most one in so many of all items: temporaries are then no larger than the scores. Longer
# rows are looked up on the host, which synchronizes.
_PADDING_RATIO = 8


def check_sampled(estimator: RankEstimator, inputs: BatchInputs) -> None:
    """Raise `SettingError` if the predictions are not those of sampled candidates."""
    lists = inputs.predictions
    if isinstance(lists, BatchLists) and (inputs.sample_sizes is not None or lists.is_missing):
        return
    raise SettingError(
        f"{setting_ref('estimator', estimator.method)} needs uniformly sampled negatives and the "
        f"number of items that they were sampled from; set {setting_ref('strategy', 'sampled')}, "
        "or remove the estimator."
    )


@dataclass(frozen=True)
class UpdateInputs:
    """A batch that was read from the arguments of `update`.

    `num_rows`: the rows of the arguments, skipped ones included. `num_invalid`: those with scores
    that are NaN or +inf, if they do not raise an error."""

    batch: BatchInputs
    num_rows: int
    num_items: int
    num_invalid: Tensor | int


def read_update(
    evaluator: Evaluator,
    preds: Any,
    target: Any,
    user_indices: Any,
    items: Any,
    *,
    first_row: int,
    known_items: int | None,
) -> UpdateInputs:
    """Read the arguments of `update`. Raises `InputError` for those that are not valid.

    Users without indices are numbered from `first_row`. `known_items` is the number of items of
    earlier batches, if there are any."""
    settings = evaluator.settings
    if user_indices is None:
        _check_user_indices(evaluator)
    scores, users = check_batch(preds, user_indices, first=first_row)
    num_rows = len(scores)
    scores, num_invalid = replace_invalid_scores(scores, settings.nan_scores)
    candidates = None if items is None else check_item_numbers(items, scores)
    width = None if candidates is not None else scores.shape[1]
    num_items = _check_num_items(width, evaluator.num_items, known_items)
    _check_labelled_users(evaluator, users)
    truth = read_target(
        target, num_rows, num_items=num_items, device=scores.device, candidates=candidates
    )
    if settings.implicit:
        truth = replace(truth, values=torch.ones_like(truth.values))
    if settings.extra_users == "skip":
        rows = truth.lengths.nonzero().flatten()
        scores, users, truth = scores[rows], users[rows], truth.select_rows(rows)
        candidates = None if candidates is None else candidates[rows]
        if user_indices is not None:
            user_indices = torch.as_tensor(user_indices)
            user_indices = user_indices[rows.to(user_indices.device)]
    predictions = read_predictions(scores, candidates, users=users, num_items=num_items)
    seen = None
    if evaluator.masks_seen:
        seen = select_seen(evaluator.inputs["train"], user_indices, scores.device)
    batch = BatchInputs(predictions, truth, users, seen=seen)
    return UpdateInputs(batch, num_rows, num_items, num_invalid)


def _check_user_indices(evaluator: Evaluator) -> None:
    """Raise `InputError` if a setting needs the user indices of a batch."""
    if evaluator.masks_seen:
        raise InputError(
            "update() needs user_indices to mask seen items; give them, or set "
            f"{setting_ref('mask_seen', False)}."
        )
    bootstrap = evaluator.settings.bootstrap
    reasons = {
        "the groups of the users": "user_groups" in evaluator.inputs,
        "the train interactions of the users": _reads_history(evaluator),
        "which values of an input of users to use": evaluator.user_inputs,
        "which users were counted already": evaluator.drops_repeats,
        "which slice users are in": evaluator.slices,
        "which relevant items are in the user's train": _reads_repeats(evaluator),
        "the users that are resampled": bootstrap,
    }
    for reason, is_needed in reasons.items():
        if is_needed:
            raise InputError(f"update() needs user_indices to know {reason}.")


def _reads_repeats(evaluator: Evaluator) -> bool:
    """True if relevant items are grouped by the train of their user."""
    groups = evaluator.item_slices.values()
    return evaluator.settings.targets != "all" or any(isinstance(x, RepeatGroups) for x in groups)


def _check_num_items(width: int | None, given: int | None, known_items: int | None) -> int:
    """Return the number of items; raise `InputError` if batches do not agree on it.

    `width` is the number of columns of scores, None for scores of candidates; `given` the number
    of items of the evaluator."""
    if width is None:
        if given is None:
            raise InputError(
                "update() with items= needs to know how many items there are; give the Evaluator "
                "num_items=."
            )
        return given
    expected = known_items if given is None else given
    if expected is None or width == expected:
        return width
    known = f"an earlier batch had {expected}" if given is None else f"num_items={expected}"
    raise InputError(f"preds has {width} items, but {known}; give one column per item.")


def _check_labelled_users(evaluator: Evaluator, users: Tensor) -> None:
    """Raise `InputError` for users outside the rows of an input of users or of slices."""
    for name, value in evaluator.user_inputs.items():
        check_users(users, value.size, name)
    for name, labels in evaluator.slices.items():
        check_users(users, labels.size, f"slices[{name!r}]")
    if _reads_history(evaluator):
        check_users(users, evaluator.inputs["train"].interactions.num_users, "train")


def _reads_history(evaluator: Evaluator) -> bool:
    """True if a metric reads the train interactions of each user."""
    metrics = evaluator.metric_set.select_names(
        lambda metric: isinstance(metric, SummedMetric) and metric.reads_history
    )
    return len(metrics) > 0


def select_seen(train: Train, users: Any, device: torch.device) -> SparseRows:
    """Return the train rows of the users, looked up on the host if their indices are there."""
    indices = torch.as_tensor(users).long()
    if (
        not is_host_readable(indices.device)
        and train.on_device.max_length * _PADDING_RATIO <= train.num_items
    ):
        return train.on_device.select(to_device(indices, device))
    indices = indices.cpu()
    check_users(indices, train.interactions.num_users, "train")
    return SparseRows.from_interactions(train.interactions.select_users(indices.numpy()), device)

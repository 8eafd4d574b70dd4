"""`rank_batch`: builds a batch, masks seen items and ranks the rest."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from weft.batch.batch import Batch, BatchInputs, RankingOptions
from weft.batch.input_validation import validation_for
from weft.data.devices import is_host_readable
from weft.data.truth_groups import TruthGroups
from weft.ranking import remove_seen, restrict_lists


def rank_batch(inputs: BatchInputs, options: RankingOptions) -> Batch:
    """Return a ranked batch, in which seen items are masked. The inputs are not written to.

    Raises `InputError` if scores contain NaN or +inf, or ratings are invalid."""
    if options.targets is not None:
        inputs = _select_targets(inputs, *options.targets)
    predictions, truth, raw_scores = inputs.predictions, inputs.truth, inputs.raw_scores
    if isinstance(predictions, Tensor):
        return _rank_scores(inputs, predictions.contiguous(), options)
    if predictions is not None and raw_scores is None:
        raw_scores = truth.fill_invalid(predictions.scores_at(truth.keys), -torch.inf)
    if predictions is not None:
        predictions = remove_seen(restrict_lists(predictions, inputs.item_mask), inputs.seen)
    batch = Batch(replace(inputs, predictions=predictions, raw_scores=raw_scores), options)
    batch.rank()
    return batch


def _select_targets(inputs: BatchInputs, groups: TruthGroups, group: int) -> BatchInputs:
    """Return the inputs with a group of the truth alone; its users stay users of the truth."""
    truth, relevant, raw_scores = inputs.truth, inputs.relevant, inputs.raw_scores
    is_kept = groups.contains(inputs.users, truth, group=group)
    kept = truth.filter(is_kept)
    if relevant is truth:
        relevant = kept
    elif relevant is not None:
        relevant = relevant.filter(groups.contains(inputs.users, relevant, group=group))
    if raw_scores is not None and is_host_readable(is_kept.device):
        raw_scores = raw_scores[is_kept]
    kept = replace(kept, error_counts=truth.error_counts)
    return replace(
        inputs,
        truth=kept,
        relevant=relevant,
        raw_scores=raw_scores,
        num_left_out=truth.lengths - kept.lengths,
    )


def _rank_scores(inputs: BatchInputs, scores: Tensor, options: RankingOptions) -> Batch:
    """Return a ranked batch with scores. Raises `InputError` for the first NaN or +inf of them."""
    truth, validation = inputs.truth, validation_for(scores.device)
    raw_scores = scores.view(-1).index_select(0, truth.keys)
    raw_scores = truth.fill_invalid(raw_scores, -torch.inf)
    if inputs.item_mask is not None:
        validation.check_scores(scores, inputs.users)  # the mask would hide invalid scores
        scores = torch.where(inputs.item_mask, scores, -torch.inf)
    resolved = replace(inputs, predictions=scores, raw_scores=raw_scores)
    batch = Batch(resolved, options, validation)
    if not batch.rank():
        batch.close()
        validation.check_scores(scores, inputs.users)
    return batch

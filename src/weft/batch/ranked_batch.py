"""`rank_batch`: builds a batch, masks seen items and ranks the rest."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from weft.batch.batch import Batch, BatchInputs, RankingOptions
from weft.batch.input_validation import validation_for
from weft.ranking import remove_seen, restrict_lists


def rank_batch(inputs: BatchInputs, options: RankingOptions) -> Batch:
    """Return a ranked batch, in which seen items are masked. The inputs are not written to.

    Raises `InputError` if scores contain NaN or +inf, or ratings are invalid."""
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

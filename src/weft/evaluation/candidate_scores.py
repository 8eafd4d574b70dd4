"""The scores of candidates, requested from the source."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from weft.batch.input_validation import check_readable_scores
from weft.data import BatchLists
from weft.data.dataset import EvaluationData
from weft.data.devices import float_type
from weft.data.sources import Source
from weft.evaluation.candidates import CandidateSet, Codes
from weft.ranking.negative_sampling import is_in_sorted, sorted_union, split_keys


def score_candidates(
    source: Source,
    dataset: EvaluationData,
    candidates: CandidateSet,
    start: int,
    stop: int,
    device: torch.device | None,
) -> tuple[BatchLists, Tensor]:
    """Return the candidates of users `start` to `stop - 1` as complete lists, and the scores of
    the truth, `[interactions of the truth]`.

    The source is asked for these scores and for no others.
    """
    num_items, num_users = dataset.items.size, stop - start
    truth = dataset.truth.slice_users(start, stop).flat_keys
    keys = candidates.keys
    if not is_in_sorted(truth, keys).all():
        keys = sorted_union(keys, truth)
    rows, codes = split_keys(keys, num_users, num_items)
    lengths = np.bincount(rows, minlength=num_users)
    offsets = np.cumsum(lengths) - lengths
    width = int(lengths.max(initial=0))
    items = np.full((num_users, width), -1, dtype=np.int64)
    places = rows * width + np.arange(len(keys)) - offsets[rows]
    items.reshape(-1)[places] = codes
    scores = _request_scores(source, dataset, items, lengths, start, device)
    if len(keys) > len(candidates.keys):
        items.reshape(-1)[places[~is_in_sorted(keys, candidates.keys)]] = -1
    of_truth = torch.as_tensor(places[np.searchsorted(keys, truth)]).to(scores.device)
    lists = BatchLists.from_candidates(scores, torch.as_tensor(items).to(scores.device), num_items)
    return lists, scores.view(-1).index_select(0, of_truth)


def _request_scores(
    source: Source,
    dataset: EvaluationData,
    items: Codes,
    lengths: Codes,
    start: int,
    device: torch.device | None,
) -> Tensor:
    """Return the scores of `items [users, width]` (-1 fills rows); `-inf` for users without any."""
    num_users = len(items)
    empty = torch.full(
        items.shape, -torch.inf, dtype=float_type(device or torch.device("cpu")), device=device
    )
    rows = np.flatnonzero(lengths)
    if not len(rows):
        return empty
    wanted = items[rows]
    wanted = np.where(wanted >= 0, wanted, wanted[:, :1])
    users = torch.as_tensor(rows + start)
    ids = dataset.users.ids[start : start + num_users]
    scores = source.scores_for_items(
        users,
        ids if len(rows) == num_users else ids.gather(rows),
        torch.as_tensor(wanted),
        dataset.items.ids,
    )
    scores = scores if device is None else scores.to(device)
    scores = scores.to(float_type(scores.device))
    check_readable_scores(scores, users, torch.as_tensor(wanted))
    if len(rows) == num_users:
        return scores
    return empty.to(scores.device).index_copy_(0, torch.as_tensor(rows).to(scores.device), scores)

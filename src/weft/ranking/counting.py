"""Ranks by counting: how many items of a row score above or equal to a value. Nothing is sorted."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

# Elements that a comparison may hold at once on devices other than the CPU.
_TILE = 1 << 22


def count_above(scores: Tensor, rows: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    """For each (row, value): the number of scores in that row above it, and equal to it. rows ascending, `[n]` each."""
    if scores.device.type == "cpu":
        return _count_numpy(scores, rows, values)
    above, equal = torch.empty_like(rows), torch.empty_like(rows)
    step = max(1, _TILE // max(1, scores.shape[1]))
    for start in range(0, len(rows), step):
        part = slice(start, start + step)
        compared, value = scores[rows[part]], values[part, None]
        above[part] = (compared > value).sum(1)
        equal[part] = (compared == value).sum(1)
    return above, equal


def count_offered(scores: Tensor) -> Tensor:
    """The number of items with a finite score, `[batch]`."""
    rows = torch.arange(len(scores), device=scores.device)
    return count_above(scores, rows, scores.new_full((len(scores),), -torch.inf))[0]


def _count_numpy(scores: Tensor, rows: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
    above, equal = np.empty(len(rows), dtype=np.int64), np.empty(len(rows), dtype=np.int64)
    buffer = np.empty(scores.shape[1], dtype=np.bool_)
    current, row = -1, buffer
    wanted = values.float().numpy() if values.dtype == torch.bfloat16 else values.numpy()
    for n, number in enumerate(rows.tolist()):
        if number != current:
            current = number
            row = scores[number].float().numpy() if scores.dtype == torch.bfloat16 else scores[number].numpy()
        more = np.count_nonzero(np.greater(row, wanted[n], out=buffer))
        above[n] = more
        equal[n] = np.count_nonzero(np.greater_equal(row, wanted[n], out=buffer)) - more
    return torch.from_numpy(above), torch.from_numpy(equal)

"""`PairwiseModel`: adapts a model that scores pairs of a user and an item."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from weft.data.sources.base import as_tensor
from weft.errors import InputError, check_int, describe_type


class PairwiseModel(nn.Module):
    """A source for a model that scores pairs of a user and an item.

    Give the items to the evaluation, as in
    `weft.evaluate(PairwiseModel(model), truth, items=ids, ...)`. With `candidates` for each user or
    `strategy="sampled"`, only the pairs that are needed are scored.

    Parameters
    ----------
    model
        A `torch.nn.Module` with `forward(user_ids, item_ids)`, an object with
        `predict(user_ids, item_ids)`, or such a function. It returns a score for each pair,
        `[pairs]` or `[pairs, 1]`. A module and a function get ids as tensors, `predict` as NumPy
        arrays, and all of them get text ids as lists.
    batch_pairs
        Largest number of pairs that are scored in one call.

    Raises
    ------
    InputError
        If `model` is none of these.

    Examples
    --------
    >>> import torch, weft
    >>> model = weft.PairwiseModel(lambda users, items: -(users - items).abs())
    >>> weft.evaluate(model, {0: [0], 3: [2]}, items=[0, 1, 2, 3], metrics="MRR@2")["MRR@2"]
    0.75
    """

    def __init__(self, model: Any, *, batch_pairs: int = 1 << 20) -> None:
        super().__init__()
        self.batch_pairs = check_int("batch_pairs", batch_pairs)
        self._takes_arrays = not isinstance(model, nn.Module) and hasattr(model, "predict")
        self.model = model
        self._predict: Callable[..., Any] = model.predict if self._takes_arrays else model
        if not callable(self._predict):
            raise InputError(
                f"PairwiseModel got {describe_type(model)}; expected a torch.nn.Module, an "
                "object with predict(user_ids, item_ids), or a function of them."
            )

    def score(self, users: Any, items: Any) -> Tensor:
        """Return the scores `[batch, n]` of the items `[batch, n]` of each user `[batch]`."""
        width = len(items[0]) if len(items) else 0
        size = self.batch_pairs
        if isinstance(users, Tensor):
            pair_users: Any = users.repeat_interleave(width)
        else:
            pair_users = [user for user in users for _ in range(width)]
        if isinstance(items, Tensor):
            pair_items: Any = items.reshape(-1)
        else:
            pair_items = [item for row in items for item in row]
        scores = [
            self._score_pairs(pair_users[start : start + size], pair_items[start : start + size])
            for start in range(0, len(users) * width, size)
        ]
        return torch.cat([torch.empty(0), *scores]).view(len(users), width)

    def _score_pairs(self, users: Any, items: Any) -> Tensor:
        given = [users, items]
        if self._takes_arrays:
            given = [np.asarray(ids) for ids in given]
        answer = self._predict(*given)
        scores = as_tensor(
            answer if isinstance(answer, Tensor) else np.asarray(answer), "the model's answer"
        )
        if scores.shape not in ((len(users),), (len(users), 1)):
            raise InputError(
                f"for {len(users)} pairs of a user and an item, the model returned scores of "
                f"shape {list(scores.shape)}; expected [{len(users)}], a score for each pair."
            )
        return scores.reshape(-1)

"""A model that is asked for scores while it is evaluated."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from weft.errors import InputError
from weft.sources.base import as_tensor


class Model:
    """A callable `users -> scores [batch, items]`, or an object with such a method `score`.

    Users arrive as a tensor of their ids when these are integers, else as a list. A `torch.nn.Module` is asked in evaluation
    mode and without gradients; it and its parts get their modes back.
    """

    kind = "model"
    holds_scores = False

    def __init__(self, model: Any) -> None:
        self._model = model
        self._score = getattr(model, "score", model)
        self.num_users: int | None = None
        self.num_items: int | None = None
        self._first: tuple[tuple[int, int], Tensor] | None = None

    def probe(self, start: int, stop: int, users: Any) -> int:
        """How many items the model scores, from its first answer, which is kept for when it is asked again."""
        self._first = (start, stop), self.scores(start, stop, users)
        return self._first[1].shape[1]

    def scores(self, start: int, stop: int, users: Any) -> Tensor:
        if self._first is not None and self._first[0] == (start, stop):
            scores, self._first = self._first[1], None
            return scores
        asked = torch.as_tensor(users.to_numpy(writable=True)) if users.dtype.is_integer() else users.to_list()
        modules = list(self._model.modules()) if isinstance(self._model, torch.nn.Module) else []
        modes = [module.training for module in modules]
        try:
            if modules:
                self._model.eval()
            with torch.no_grad():
                answer = self._score(asked)
        finally:
            for module, mode in zip(modules, modes):
                module.training = mode
        scores = as_tensor(answer, "the model's answer")
        if scores.ndim != 2 or scores.shape[0] != stop - start:
            raise InputError(
                f"asked for {stop - start} users, the model answered with shape {list(scores.shape)}; "
                f"expected [{stop - start}, items], one row of scores per user."
            )
        return scores

    def fingerprint(self) -> None:
        return None

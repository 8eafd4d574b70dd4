"""A model that is asked for scores while it is evaluated."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from weft.data.sources.base import as_tensor
from weft.errors import InputError


class Model:
    """A callable `users -> scores [batch, items]`, or an object with such a method `score`.

    Users arrive as a tensor of their ids when these are integers, else as a list. A
    `torch.nn.Module` is asked in evaluation mode and without gradients; it and its parts get their
    modes back.

    A model that has a parameter named `items` is asked `score(users, items)` for the scores
    `[batch, n]` of some items of each user: ids `[batch, n]`, as a tensor when these are integers,
    else as lists. Short rows are filled up with one of their items. Where `items` has no default,
    the model is asked so for all items too."""

    kind = "model"
    has_scores_in_memory = False

    def __init__(self, model: Any) -> None:
        self._model = model
        self._score = getattr(model, "score", model)
        self._items = _parameter(self._score, "items")
        self.supports_item_subsets = self._items is not None
        self.num_users: int | None = None
        self.num_items: int | None = None
        self._first: tuple[Any, Tensor] | None = None

    def probe(self, start: int, stop: int, users: Any) -> int:
        """How many items the model scores, from its first answer, which is kept for when it is
        asked again.
        """
        if self._wants_items:
            raise InputError(
                "the model's score(users, items) has to be told the items; give their ids as "
                "items=[...]."
            )
        self._first = users.to_list(), self.scores(start, stop, users)
        return self._first[1].shape[1]

    @property
    def _wants_items(self) -> bool:
        """Whether the model cannot be asked without items."""
        return self._items is not None and self._items.default is inspect.Parameter.empty

    def scores(self, start: int, stop: int, users: Any, items: Any = None) -> Tensor:
        scores = self._scores_of_all(users, items)
        if items is not None and scores.shape[1] != len(items):
            raise InputError(
                f"the model answered with {scores.shape[1]} columns, but there are {len(items)} "
                "items; "
                "it must give one score per item, in the order of items=."
            )
        return scores

    def _scores_of_all(self, users: Any, items: Any) -> Tensor:
        if self._first is not None and self._first[0] == users.to_list():
            scores, self._first = self._first[1], None
            return scores
        if self._wants_items:
            everything = torch.arange(len(items)).expand(len(users), -1)
            return self.scores_for_items(torch.empty(0), users, everything, items)
        scores = as_tensor(self._ask(users), "the model's answer")
        if scores.ndim != 2 or scores.shape[0] != len(users):
            raise InputError(
                f"asked for {len(users)} users, the model answered with shape "
                f"{list(scores.shape)}; "
                f"expected [{len(users)}, items], one row of scores per user."
            )
        return scores

    def scores_for_items(self, rows: Tensor, users: Any, items: Tensor, ids: Any) -> Tensor:
        if self._items is None:
            scores = self.scores(0, len(users), users, ids)
            return scores.gather(1, items.to(scores.device))
        self._first = None  # from here on the model is asked for less
        asked = ids.to_numpy()[items.numpy()] if ids.dtype.is_integer() else _texts(ids, items)
        wanted = torch.as_tensor(asked) if ids.dtype.is_integer() else asked
        scores = as_tensor(self._ask(users, wanted), "the model's answer")
        if scores.shape != items.shape:
            raise InputError(
                f"asked for {items.shape[1]} items of each of {len(users)} users, the model's "
                "score(users, items) answered with "
                f"shape {list(scores.shape)}; expected {list(items.shape)}, a score for each item "
                "of each row."
            )
        return scores

    def _ask(self, users: Any, items: Any = None) -> Any:
        """The model's answer."""
        asked = (
            torch.as_tensor(users.to_numpy(writable=True))
            if users.dtype.is_integer()
            else users.to_list()
        )
        by_place = self._items is not None and self._items.kind is inspect.Parameter.POSITIONAL_ONLY
        modules = list(self._model.modules()) if isinstance(self._model, torch.nn.Module) else []
        modes = [module.training for module in modules]
        try:
            if modules:
                self._model.eval()
            with torch.no_grad():
                if items is None:
                    return self._score(asked)
                return self._score(asked, items) if by_place else self._score(asked, items=items)
        finally:
            for module, mode in zip(modules, modes):
                module.training = mode

    def fingerprint(self) -> None:
        return None


def _parameter(function: Callable[..., Any], name: str) -> inspect.Parameter | None:
    """The parameter of this name behind the first, if the function has one."""
    if isinstance(function, torch.nn.Module):  # whose __call__ takes anything
        function = function.forward
    try:
        _, *others = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # written in another language, or without parameters
        return None
    anything = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return next(
        (
            parameter
            for parameter in others
            if parameter.name == name and parameter.kind not in anything
        ),
        None,
    )


def _texts(ids: Any, items: Tensor) -> list[list[str]]:
    """The ids of items `[rows, n]` as lists."""
    width = items.shape[1]
    flat = ids.gather(items.reshape(-1).numpy()).to_list()
    return [flat[start : start + width] for start in range(0, len(flat), width)]

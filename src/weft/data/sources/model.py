"""A model as the source of an evaluation: it computes scores batch by batch."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data.sources.base import as_tensor
from weft.data.threads import with_caller_threads
from weft.errors import InputError, setting_ref


class Model:
    """A callable `users -> scores [batch, items]`, or an object with such a method `score`.

    Users arrive as a tensor of their ids if these are integers, else as a list. A
    `torch.nn.Module` is called in evaluation mode and without gradients; it and its submodules get
    their modes back.

    A model with a parameter named `items` is called as `score(users, items)` for the scores
    `[batch, n]` of some items of each user: ids `[batch, n]`, as a tensor if these are integers,
    else as lists. Short rows are padded with one of their items. If `items` has no default, the
    model is called in this way for all items, too.
    """

    kind = "model"
    has_scores_in_memory = False
    user_ids: Any = None
    item_ids: Any = None
    path: str | None = None

    def __init__(self, model: Any) -> None:
        self._model = model
        self._score = getattr(model, "score", model)
        self._items_parameter = _find_parameter(self._score, "items")
        _check_parameters(self._score)
        self.supports_item_subsets = self._items_parameter is not None
        self.num_users: int | None = None
        self.num_items: int | None = None
        self._probed: tuple[Any, Tensor] | None = None

    def probe(self, start: int, stop: int, users: Any) -> int:
        """Return the number of items from the scores of the first users, which are kept."""
        if self._requires_items:
            raise InputError(
                "the method score(users, items) of the model needs the items; give their ids with "
                f"{setting_ref('items')}."
            )
        self._probed = users.to_list(), self.scores(start, stop, users)
        return self._probed[1].shape[1]

    @property
    def _requires_items(self) -> bool:
        """True if the model cannot be called without items."""
        parameter = self._items_parameter
        return parameter is not None and parameter.default is inspect.Parameter.empty

    def scores(self, start: int, stop: int, users: Any, items: Any = None) -> Tensor:
        """Return the scores of all items; see `Source`."""
        scores = self._scores_for_all(users, items)
        if items is not None and scores.shape[1] != len(items):
            raise InputError(
                f"the model returned {scores.shape[1]} columns, but there are {len(items)} items; "
                f"expected one score per item, in the order of {setting_ref('items')}."
            )
        return scores

    def _scores_for_all(self, users: Any, items: Any) -> Tensor:
        if self._probed is not None and self._probed[0] == users.to_list():
            scores, self._probed = self._probed[1], None
            return scores
        if self._requires_items:
            columns = torch.arange(len(items)).expand(len(users), -1)
            return self.scores_for_items(torch.empty(0), users, columns, items)
        scores = as_tensor(self._call(users), "the model's answer")
        if scores.ndim != 2 or scores.shape[0] != len(users):
            raise InputError(
                f"for {len(users)} users, the model returned scores of shape "
                f"{list(scores.shape)}; expected [{len(users)}, items], one row of scores per "
                "user."
            )
        return scores

    def scores_for_items(self, rows: Tensor, users: Any, items: Tensor, ids: Any) -> Tensor:
        """Return the scores of some items of each row; see `Source`."""
        if self._items_parameter is None:
            scores = self.scores(0, len(users), users, ids)
            return scores.gather(1, items.to(scores.device))
        self._probed = None  # scores of all items are not needed any more
        requested: Any
        if ids.dtype.is_integer():
            requested = torch.as_tensor(ids.to_numpy()[items.numpy()])
        else:
            requested = _gather_texts(ids, items)
        scores = as_tensor(self._call(users, requested), "the model's answer")
        if scores.shape != items.shape:
            raise InputError(
                f"for {items.shape[1]} items of each of {len(users)} users, the method "
                f"score(users, items) of the model returned scores of shape {list(scores.shape)}; "
                f"expected {list(items.shape)}, a score for each item of each row."
            )
        return scores

    def select_users(self, rows: NDArray[np.int64]) -> Model:
        """Return the model itself, which scores any user."""
        return self

    def _call(self, users: Any, items: Any = None) -> Any:
        """Return the answer of the model."""
        if users.dtype.is_integer():
            users = torch.as_tensor(users.to_numpy(writable=True))
        else:
            users = users.to_list()
        modules = list(self._model.modules()) if isinstance(self._model, torch.nn.Module) else []
        modes = [module.training for module in modules]
        try:
            if modules:
                self._model.eval()
            with torch.no_grad():
                if items is None:
                    return with_caller_threads(self._score, users)
                if self._takes_items_by_position:
                    return with_caller_threads(self._score, users, items)
                return with_caller_threads(self._score, users, items=items)
        finally:
            for module, mode in zip(modules, modes):
                module.training = mode

    @property
    def _takes_items_by_position(self) -> bool:
        parameter = self._items_parameter
        return parameter is not None and parameter.kind is inspect.Parameter.POSITIONAL_ONLY

    def fingerprint(self) -> None:
        """Return None: the scores of a model cannot be read without computing them."""


_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def _named_parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a function but `*args` and `**kwargs`; none if it has none."""
    if isinstance(function, torch.nn.Module):  # its __call__ takes any arguments
        function = function.forward
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # not written in Python
        return []
    return [parameter for parameter in parameters if parameter.kind not in _VARIADIC]


def _find_parameter(function: Callable[..., Any], name: str) -> inspect.Parameter | None:
    """Return the parameter of this name after the first one; None if there is none."""
    others = _named_parameters(function)[1:]
    return next((other for other in others if other.name == name), None)


def _check_parameters(function: Callable[..., Any]) -> None:
    """Raise `InputError` for a model that cannot be called with users, or users and items."""
    for parameter in _named_parameters(function)[1:]:
        if parameter.name != "items" and parameter.default is inspect.Parameter.empty:
            raise InputError(
                f"the model requires {parameter.name!r} in addition to users; a model is called "
                "as score(users), or score(users, items) with items [batch, n] of each user. Wrap "
                "a model of (user, item) pairs in weft.PairwiseModel(model), and any other model "
                "in a function of users."
            )


def _gather_texts(ids: Any, items: Tensor) -> list[list[str]]:
    """Return the ids of items `[rows, n]` as lists."""
    width = items.shape[1]
    flat = ids.gather(items.reshape(-1).numpy()).to_list()
    return [flat[start : start + width] for start in range(0, len(flat), width)]

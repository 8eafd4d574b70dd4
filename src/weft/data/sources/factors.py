"""Factors as the source of an evaluation: scores are products of embeddings."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data.sources.base import as_tensor, digest_samples
from weft.data.threads import with_caller_threads
from weft.errors import InputError, agree, check_unmasked

_TILE_VALUES = 1 << 20  # values of item embeddings that are selected at once
# Selecting embeddings is cheaper than multiplying all of them if there are this many times more
# items than are requested.
_SELECT_FACTOR = 64


class Factors:
    """User and item embeddings; scores are their products.

    The score of user u and item i is
    `user_embeddings[u] · item_embeddings[i] + user_biases[u] + item_biases[i]`.

    Parameters
    ----------
    user_embeddings
        Embeddings of the users, `[users, d]`.
    item_embeddings
        Embeddings of the items, `[items, d]`.
    user_biases
        Biases of the users, `[users]`. Default: none.
    item_biases
        Biases of the items, `[items]`. Default: none.

    Raises
    ------
    InputError
        If the shapes do not match.

    Examples
    --------
    >>> import torch, weft
    >>> pair = weft.Factors(torch.eye(2), torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]))
    >>> pair.scores(0, 2, users=None)
    tensor([[1.0000, 0.0000, 0.5000],
            [0.0000, 1.0000, 0.5000]])
    """

    kind = "factors"
    user_ids: Any = None
    item_ids: Any = None
    path: str | None = None
    has_scores_in_memory = False
    supports_item_subsets = True

    def __init__(
        self,
        user_embeddings: Any,
        item_embeddings: Any,
        *,
        user_biases: Any = None,
        item_biases: Any = None,
    ) -> None:
        self._users = _read_factors(user_embeddings, "user_embeddings")
        self._items = _read_factors(item_embeddings, "item_embeddings")
        shapes = list(self._users.shape), list(self._items.shape)
        if any(len(shape) != 2 for shape in shapes) or shapes[0][1] != shapes[1][1]:
            raise InputError(
                f"user_embeddings has shape {shapes[0]} and item_embeddings {shapes[1]}; expected "
                "[users, d] and [items, d] with the same d."
            )
        self.num_users: int | None = self._users.shape[0]
        self.num_items: int | None = self._items.shape[0]
        dtype = torch.promote_types(self._users.dtype, self._items.dtype)
        self._users, self._items = self._users.to(dtype), self._items.to(self._users.device, dtype)
        self._user_biases = self._read_biases(user_biases, "user_biases", self._users)
        self._item_biases = self._read_biases(item_biases, "item_biases", self._items)

    @staticmethod
    def _read_biases(data: Any, name: str, embeddings: Tensor) -> Tensor | None:
        if data is None:
            return None
        biases = _read_factors(data, name).flatten()
        if len(biases) != len(embeddings):
            raise InputError(
                f"{name} has {agree(len(biases), '{n} value{s}')} for "
                f"{agree(len(embeddings), '{n} embedding{s}')}; expected one for each."
            )
        return biases.to(embeddings)

    @property
    def item_embeddings(self) -> Tensor:
        """The item embeddings `[items, d]`, which metrics can read as the input `item_vectors`."""
        return self._items

    @property
    def tensors(self) -> dict[str, Tensor | None]:
        """The embeddings and biases as tensors, by the names of the parameters."""
        return {
            "user_embeddings": self._users,
            "item_embeddings": self._items,
            "user_biases": self._user_biases,
            "item_biases": self._item_biases,
        }

    def scores(self, start: int, stop: int, users: Any, items: Any = None) -> Tensor:
        """Return the scores `[stop - start, items]` of the rows from `start` to `stop - 1`.

        `users` and `items` are ids, which factors do not use.
        """
        with torch.no_grad():
            scores = with_caller_threads(torch.mm, self._users[start:stop], self._items.T)
            if self._user_biases is not None:
                scores += self._user_biases[start:stop, None]
            if self._item_biases is not None:
                scores += self._item_biases
        return scores

    def scores_for_items(self, rows: Tensor, users: Any, items: Tensor, ids: Any) -> Tensor:
        """Return the scores `[rows, n]` of some items of each row.

        They equal those of `scores` up to rounding, or exactly where the embeddings of all items
        are multiplied.

        Parameters
        ----------
        rows
            Row numbers, `[rows]`.
        users
            Ids of these rows, which factors do not use.
        items
            Column numbers of the items of each row, `[rows, n]`.
        ids
            Ids of all columns, which factors do not use.
        """
        rows, items = rows.to(self._users.device), items.to(self._users.device)
        multiplies_all = len(self._items) <= _SELECT_FACTOR * items.shape[1]
        row_size = len(self._items)
        if not multiplies_all:
            row_size = max(1, items.shape[1] * self._items.shape[1])
        step = max(1, _TILE_VALUES // row_size)
        with torch.no_grad():
            scores = self._users.new_empty(items.shape)
            buffer = self._users.new_empty(
                (min(step, len(rows)) if multiplies_all else 0, row_size)
            )
            for start in range(0, len(rows), step):
                tile = slice(start, start + step)
                user_factors, columns = self._users[rows[tile]], items[tile]
                if multiplies_all:
                    dense = buffer[: len(columns)]  # new memory for each tile would cost more
                    with_caller_threads(torch.mm, user_factors, self._items.T, out=dense)
                    torch.gather(dense, 1, columns, out=scores[tile])
                else:
                    selected = self._items.index_select(0, columns.reshape(-1))
                    selected = selected.view(*columns.shape, -1)
                    scores[tile] = torch.bmm(selected, user_factors[:, :, None])[:, :, 0]
            if self._user_biases is not None:
                scores += self._user_biases[rows, None]
            if self._item_biases is not None:
                scores += self._item_biases[items]
        return scores

    def select_users(self, rows: NDArray[np.int64]) -> Factors:
        """Return the factors of some users, in the order of `rows`."""
        selected = copy(self)
        selected._users, selected.num_users = self._users[rows], len(rows)
        if self._user_biases is not None:
            selected._user_biases = self._user_biases[rows]
        return selected

    def fingerprint(self) -> str:
        """Return a digest of a sample of the factors."""
        return digest_samples(self._users, self._items, self._user_biases, self._item_biases)


def _read_factors(data: Any, name: str) -> Tensor:
    check_unmasked(
        data, name, "give a number for each, or -inf as the bias of an item that is not a candidate"
    )
    return as_tensor(data, name)

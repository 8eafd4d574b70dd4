"""A factor model: scores are products of embeddings, made one batch at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from weft.data.sources.base import as_tensor, sample_digest
from weft.errors import InputError

# Numbers of item embeddings that are gathered at once.
_TILE = 1 << 20
# From how many times more items than are asked for on, gathering embeddings is cheaper than
# multiplying all of them.
_FEW = 64


class Factors:
    """User embeddings `[users, d]` and item embeddings `[items, d]`, with optional biases.

    The score of user u and item i is `user_embeddings[u] · item_embeddings[i] + user_biases[u] +
    item_biases[i]`.

    >>> import torch, weft
    >>> pair = weft.Factors(torch.eye(2), torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]))
    >>> pair.scores(0, 2, users=None)
    tensor([[1.0000, 0.0000, 0.5000],
            [0.0000, 1.0000, 0.5000]])
    """

    kind = "factors"
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
        self._users = as_tensor(user_embeddings, "user_embeddings")
        self._items = as_tensor(item_embeddings, "item_embeddings")
        if (
            self._users.ndim != 2
            or self._items.ndim != 2
            or self._users.shape[1] != self._items.shape[1]
        ):
            raise InputError(
                f"user_embeddings has shape {list(self._users.shape)} and item_embeddings "
                f"{list(self._items.shape)}; "
                "expected [users, d] and [items, d] with the same d."
            )
        self.num_users: int | None = self._users.shape[0]
        self.num_items: int | None = self._items.shape[0]
        kind = torch.promote_types(self._users.dtype, self._items.dtype)
        self._users, self._items = self._users.to(kind), self._items.to(self._users.device, kind)
        self._user_biases = self._biases(user_biases, "user_biases", self._users)
        self._item_biases = self._biases(item_biases, "item_biases", self._items)

    @staticmethod
    def _biases(given: Any, name: str, embeddings: Tensor) -> Tensor | None:
        if given is None:
            return None
        biases = as_tensor(given, name).flatten()
        if len(biases) != len(embeddings):
            raise InputError(
                f"{name} has {len(biases)} values for {len(embeddings)} embeddings; expected one "
                "each."
            )
        return biases.to(embeddings)

    @property
    def tensors(self) -> dict[str, Tensor | None]:
        """What it was made of, by the names of the constructor."""
        return {
            "user_embeddings": self._users,
            "item_embeddings": self._items,
            "user_biases": self._user_biases,
            "item_biases": self._item_biases,
        }

    def scores(self, start: int, stop: int, users: Any, items: Any = None) -> Tensor:
        with torch.no_grad():
            scores = self._users[start:stop] @ self._items.T
            if self._user_biases is not None:
                scores += self._user_biases[start:stop, None]
            if self._item_biases is not None:
                scores += self._item_biases
        return scores

    def scores_for_items(self, rows: Tensor, users: Any, items: Tensor, ids: Any) -> Tensor:
        """Products of these pairs alone: those of the full product up to rounding, and the same
        where items are few.
        """
        rows, items = rows.to(self._users.device), items.to(self._users.device)
        multiplies_all = len(self._items) <= _FEW * items.shape[1]
        step = max(
            1,
            _TILE
            // (
                len(self._items)
                if multiplies_all
                else max(1, items.shape[1] * self._items.shape[1])
            ),
        )
        with torch.no_grad():
            scores = self._users.new_empty(items.shape)
            for start in range(0, len(rows), step):
                own, some = self._users[rows[start : start + step]], items[start : start + step]
                if multiplies_all:
                    scores[start : start + step] = (own @ self._items.T).gather(1, some)
                else:
                    chosen = self._items.index_select(0, some.reshape(-1)).view(*some.shape, -1)
                    scores[start : start + step] = torch.bmm(chosen, own[:, :, None])[:, :, 0]
            if self._user_biases is not None:
                scores += self._user_biases[rows, None]
            if self._item_biases is not None:
                scores += self._item_biases[items]
        return scores

    def fingerprint(self) -> str:
        return sample_digest(self._users, self._items, self._user_biases, self._item_biases)

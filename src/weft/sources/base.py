"""The shape of every source, and the way from what the caller holds to one."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from weft.errors import InputError


class Source(Protocol):
    """Scores for users, some rows at a time.

    `num_users` is None when the source can score whoever is asked for; `num_items` when it is known only from its answers.
    """

    kind: str
    num_users: int | None
    num_items: int | None

    def scores(self, start: int, stop: int, users: Any) -> Tensor:
        """The scores `[stop - start, items]` of rows start to stop - 1; `users` are their ids."""
        ...

    def fingerprint(self) -> str | None:
        """A digest of what the source holds, None if it holds nothing that can be read."""
        ...


def open_source(given: Any) -> Source:
    """A source from a score matrix, a factor pair, a callable or an object with `score`."""
    from weft.sources.factors import Factors
    from weft.sources.matrix import ScoreMatrix
    from weft.sources.model import Model

    if isinstance(given, (Factors, ScoreMatrix, Model)):
        return given
    if isinstance(given, (Tensor, np.ndarray)):
        return ScoreMatrix(given)
    score = getattr(given, "score", given)
    if callable(score):
        return Model(given)
    raise InputError(
        f"cannot evaluate a {type(given).__name__}; expected scores as a [users, items] tensor or array, "
        "weft.Factors(user_embeddings, item_embeddings), a callable users -> scores, or an object with score(users)."
    )


def as_tensor(scores: Any, what: str) -> Tensor:
    """Scores as a floating tensor. Integers become float64, which holds them exactly up to 2**53."""
    if isinstance(scores, np.ndarray):
        if scores.dtype.kind not in "fiub":
            raise InputError(f"{what} has the type {scores.dtype}; scores must be numbers.")
        # Copied when read-only: the ranking hides seen items in place, and gives the values back afterwards.
        scores = torch.from_numpy(scores if scores.flags.writeable else scores.copy())
    if not isinstance(scores, Tensor):
        raise InputError(f"{what} is a {type(scores).__name__}; expected a torch tensor or a NumPy array.")
    if scores.is_complex() or scores.layout != torch.strided:
        raise InputError(f"{what} is {scores.dtype}, {scores.layout}; expected a dense tensor of real numbers.")
    if scores.is_floating_point():
        return scores.detach()
    if scores.dtype == torch.int64 and scores.numel() and int(scores.abs().max()) > 2**53:
        raise InputError(f"{what} has integers beyond 2**53, which float64 cannot tell apart; rescale the scores.")
    return scores.double()


def sample_digest(*tensors: Tensor | None) -> str:
    """A digest of shapes, types and up to 65,536 evenly spread elements: the same cost for any size."""
    import hashlib

    digest = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        if tensor is None:
            continue
        digest.update(f"{tuple(tensor.shape)}{tensor.dtype}".encode())
        step = max(1, tensor.numel() // 65_536)
        sample = tensor.detach().flatten()[::step] if tensor.is_contiguous() else tensor.detach()[:256].flatten()[::step]
        digest.update(sample.cpu().double().numpy().tobytes())
    return digest.hexdigest()

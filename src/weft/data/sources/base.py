"""The shape of every source, and the way from what the caller holds to one."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from torch import Tensor

from weft.data.devices import float_type, is_host_readable
from weft.data.recommendations import are_lists
from weft.errors import InputError

if TYPE_CHECKING:
    from weft.data.sources.list_source import ListSource


class Source(Protocol):
    """Scores for users, some rows at a time.

    `num_users` is None when the source can score whoever is asked for; `num_items` when it is known
    only from its answers."""

    kind: str
    num_users: int | None
    num_items: int | None
    has_scores_in_memory: (
        bool  # whether `scores` gives views of what is there, so that a batch takes no memory
    )
    supports_item_subsets: (
        bool  # whether `scores_for_items` computes no more than what it is asked for
    )

    def scores(self, start: int, stop: int, users: Any, items: Any = None) -> Tensor:
        """The scores `[stop - start, items]` of rows start to stop - 1; `users` are their ids,
        `items` those of the catalogue.
        """
        ...

    def scores_for_items(self, rows: Tensor, users: Any, items: Tensor, ids: Any) -> Tensor:
        """The scores `[rows, n]` of some items of each row: `items [rows, n]` are columns, `ids`
        the ids of all columns.
        """
        ...

    def fingerprint(self) -> str | None:
        """A digest of what the source holds, None if it holds nothing that can be read."""
        ...


def open_source(given: Any) -> Source | ListSource:
    """A source from a score matrix, a factor pair, a callable or an object with `score`, or from
    recommendation lists.
    """
    from weft.data.sources.factors import Factors
    from weft.data.sources.list_source import ListSource
    from weft.data.sources.matrix import ScoreMatrix
    from weft.data.sources.model import Model

    if isinstance(given, (Factors, ScoreMatrix, Model, ListSource)):
        return given
    if are_lists(given):
        return ListSource(given)
    if isinstance(given, (Tensor, np.ndarray)):
        return ScoreMatrix(given)
    score = getattr(given, "score", given)
    if callable(score):
        return Model(given)
    raise InputError(
        f"cannot evaluate a {type(given).__name__}; expected scores as a [users, items] tensor or "
        "array, "
        "weft.Factors(user_embeddings, item_embeddings), a callable users -> scores, an object "
        "with score(users), or "
        "recommendation lists as a file or a frame (user, item, and a score or a rank) or {user: "
        "[items]}."
    )


def check_scores(scores: Any, what: str) -> None:
    """Refuse what cannot be read as real numbers."""
    if isinstance(scores, np.ndarray):
        readable = scores.dtype.kind in "fiub" and scores.dtype.itemsize <= 8
    elif isinstance(scores, Tensor):
        kinds = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
        numbers = scores.dtype in kinds or not (scores.is_floating_point() or scores.is_complex())
        readable = numbers and scores.layout == torch.strided and not scores.is_meta
    else:
        raise InputError(
            f"{what} is a {type(scores).__name__}; expected a torch tensor or a NumPy array."
        )
    if not readable:
        layout = f", {scores.layout}, on {scores.device}" if isinstance(scores, Tensor) else ""
        raise InputError(
            f"{what} is of {scores.dtype}{layout}; scores must be numbers: a dense matrix of real "
            "numbers, as float64, float32, "
            "float16, bfloat16 or integers."
        )


def as_tensor(given: Any, what: str) -> Tensor:
    """Scores as a floating tensor. Integers become float64, which holds them exactly up to 2**53."""
    check_scores(given, what)
    if isinstance(given, np.ndarray):
        # Copied when torch cannot share it: read-only (seen items are hidden in place), backwards,
        # or in foreign byte order.
        plain = (
            given.flags.writeable
            and given.dtype.isnative
            and all(step >= 0 for step in given.strides)
        )
        given = torch.from_numpy(
            given if plain else np.array(given, dtype=given.dtype.newbyteorder("="))
        )
    scores: Tensor = given.detach()
    if scores.is_floating_point():
        return scores
    wide = scores.dtype in (torch.int64, torch.uint64)
    if not is_host_readable(
        scores.device
    ):  # too large integers become NaN, which is counted and refused
        exact = scores.to(float_type(scores.device))
        limit = 2 / torch.finfo(exact.dtype).eps
        return (
            torch.where(exact.abs() <= limit, exact, torch.nan) if wide or limit < 2**53 else exact
        )
    if wide and scores.numel():
        low, high = torch.aminmax(scores.long())
        if low < -(2**53) or high > 2**53:
            raise InputError(
                f"{what} has integers beyond 2**53, which float64 cannot tell apart; rescale the "
                "scores."
            )
    return scores.double()


def sample_digest(*arrays: Any) -> str:
    """A digest of shapes, types and up to 65,536 evenly spread elements: the same cost for any
    size.
    """
    digest = hashlib.sha256()
    for array in arrays:
        if array is None:
            continue
        digest.update(f"{tuple(array.shape)}{array.dtype}".encode())
        rows, columns = (max(1, size // 256) for size in (*array.shape, 1)[:2])
        sample = array[::rows] if array.ndim == 1 else array[::rows, ::columns]
        digest.update(as_tensor(sample, "a sample").cpu().double().numpy().tobytes())
    return digest.hexdigest()[:16]

"""Sources of an evaluation: a score matrix, a model, factors or recommendation lists."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from weft.data.readers.file_settings import is_matrix_file
from weft.data.recommendations import are_lists
from weft.data.sources.base import Source
from weft.data.sources.factors import Factors
from weft.data.sources.list_source import ListSource
from weft.data.sources.matrix import ScoreMatrix
from weft.data.sources.model import Model
from weft.data.sources.named_scores import Scores
from weft.errors import InputError, describe_type

__all__ = ["Factors", "ListSource", "Model", "ScoreMatrix", "Scores", "Source", "open_source"]


def open_source(data: Any, memory: int | None = None) -> Source | ListSource:
    """Return the source of scores, factors, a callable, an object with `score`, or lists.

    `memory` is the number of bytes that lists of files may take; None: half of what is available.
    """
    if isinstance(data, (Factors, ScoreMatrix, Model, ListSource)):
        return data
    if is_matrix_file(data):
        return Scores(data).open()
    if isinstance(data, Scores):
        return data.open()
    if are_lists(data):
        return ListSource(data, memory)
    if isinstance(data, (Tensor, np.ndarray)):
        return ScoreMatrix(data)
    if callable(getattr(data, "score", data)):
        return Model(data)
    if callable(getattr(data, "predict", None)):
        raise InputError(
            f"{describe_type(data)} has a method predict, but no method score(users), and is "
            "not callable; give weft.PairwiseModel(model) if predict(user_ids, item_ids) scores "
            "pairs, or a function of users that returns scores [users, items]."
        )
    raise InputError(
        f"cannot evaluate {describe_type(data)}; expected scores as a [users, items] tensor or "
        "array, weft.Scores(frame), weft.Factors(user_embeddings, item_embeddings), a callable "
        "users -> scores, an object with score(users), or recommendation lists as a file or a "
        "frame (user, item, and a score or a rank), {user: [items]} or weft.TopKItems(ids)."
    )

"""Types of the data arguments of public functions.

Signatures import these names for type checkers and editors only, so that frameworks which a caller
does not use are not loaded. What an argument contains is documented with the function.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import polars as pl
import torch

from weft._choices import CandidatePool
from weft.data.readers.files import File
from weft.data.sources import Factors, Scores
from weft.data.sources.pairwise import PairwiseModel
from weft.data.topk_items import TopKItems
from weft.metrics.base.metric import BaseMetric
from weft.metrics.names import MetricSpec


class ArrowTable(Protocol):
    """A table with Arrow's stream interface, such as a pandas frame or a pyarrow table."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return the table as an Arrow stream."""


class ScoringModel(Protocol):
    """A model with a method `score(users)` or `score(users, items)`, which returns scores."""

    @property
    def score(self) -> Callable[..., Any]:
        """The method."""


class SparseMatrix(Protocol):
    """A SciPy sparse matrix or array."""

    @property
    def nnz(self) -> int:
        """The number of stored values."""

    def tocsr(self) -> Any:
        """Return the matrix in compressed sparse row format."""


Id: TypeAlias = int | str
Moment: TypeAlias = float | str | datetime.date | datetime.datetime
Array: TypeAlias = np.ndarray[Any, Any] | torch.Tensor
Table: TypeAlias = pl.DataFrame | pl.LazyFrame | ArrowTable | str | Path | File
IdList: TypeAlias = Sequence[Id] | Array | pl.Series | Table | Literal["positions"]

Interactions: TypeAlias = Table | SparseMatrix | Array | Mapping[Any, Any]
RecommendationLists: TypeAlias = Table | TopKItems | Mapping[Any, Any]
EvaluationSource: TypeAlias = (
    RecommendationLists
    | Array
    | Scores
    | Factors
    | PairwiseModel
    | ScoringModel
    | Callable[..., Any]
)
Labels: TypeAlias = Table | Mapping[Any, Any] | Sequence[Any] | Array
Features: TypeAlias = Table | SparseMatrix | Mapping[Any, Any] | Sequence[Any] | Array
UserRanks: TypeAlias = Sequence[int] | Sequence[Sequence[int]] | Array
ItemCounts: TypeAlias = int | Sequence[int] | Array
Candidates: TypeAlias = CandidatePool | Table | Mapping[Any, Any]
Metric: TypeAlias = str | MetricSpec | BaseMetric

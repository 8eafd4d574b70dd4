"""The named values of public options, declared once, as `Literal` types.

Every package may import this module: it is light and imports nothing. `EvaluationSettings` uses the
types for its fields; the code that implements a choice takes its names from `choices(...)`.
"""

from __future__ import annotations

from typing import Any, Literal, get_args

TieRuleName = Literal["index", "random", "expected", "pessimistic", "optimistic"]
CandidatePool = Literal["all", "cold", "warm", "listed", "given"]
Strategy = Literal["full", "sampled"]
NegativeSampling = Literal["uniform", "popularity"]
EstimatorName = Literal["rank_estimate", "bias_variance"]
EmptyUsers = Literal["skip", "zero"]
MissingLists = Literal["skip", "zero"]
ExtraUsers = Literal["count", "skip"]
Targets = Literal["all", "new", "repeated"]
Duplicates = Literal["error", "keep-best", "miss"]
UnknownItems = Literal["error", "miss"]
RepeatedUsers = Literal["count", "drop"]
NanScores = Literal["raise", "nan"]
ProfileName = Literal[
    "warprec",
    "elliot",
    "trec_eval",
    "ranx",
    "recbole",
    "torchmetrics",
    "rectools",
    "sklearn",
    "replay",
    "lenskit",
    "ir_measures",
    "recommenders",
    "cornac",
    "pyg",
    "evidently",
    "recpack",
]
FileFormat = Literal["csv", "tsv", "parquet", "jsonl", "json", "recbole", "trec"]
IdType = Literal["auto", "string", "integer"]
TestName = Literal[
    "paired_t", "wilcoxon", "randomization", "sign", "kruskal", "mann_whitney", "bootstrap"
]
Alternative = Literal["two-sided", "greater", "less"]
CorrectionName = Literal["none", "bonferroni", "holm", "fdr"]
CorrectionFamily = Literal["test", "metric", "pair", "all"]
EngineName = Literal["ray", "spark"]
TrackerName = Literal["mlflow", "wandb", "tensorboard"]
SplitMethod = Literal["timeline", "user-timeline", "leave-last-out", "random", "folds"]
SplitScope = Literal["user", "global"]
TimeTies = Literal["break", "together"]
RepeatedPairs = Literal["error", "first", "last", "keep"]
ColdIds = Literal["keep", "drop"]
SplitFormat = Literal["csv", "tsv", "parquet", "jsonl"]
Discount = Literal["log", "capped_log", "reciprocal"]
GainName = Literal["exponential", "linear", "binary", "exponential_shifted"]


def choices(type_: Any) -> tuple[str, ...]:
    """Return the names of a `Literal` type, also inside a union or `Annotated`."""
    names: tuple[str, ...] = ()
    for argument in get_args(type_):
        names += (argument,) if isinstance(argument, str) else choices(argument)
    return names


POSITIONS = "positions"  # the value of users= and items= for ids that are positions
# Files of score matrices and factors, which are not tables.
MATRIX_SUFFIXES = (".npy", ".npz", ".pt", ".pth", ".safetensors")

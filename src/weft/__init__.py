"""Weft measures recommender systems, with all metrics in one pass over the users."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import weft.errors as errors
    import weft.metrics as metrics
    import weft.sampling as sampling
    import weft.testing as testing
    from weft._input_kinds import (
        ItemFeatures,
        ItemLabels,
        ItemNumbers,
        ItemVectors,
        TrainInteractions,
        UserLabels,
        UserLists,
        UserNumbers,
        UserVectors,
    )
    from weft.batch.blocks import MetricBlock
    from weft.batch.ranked_lists import RankedLists
    from weft.data.readers.files import File
    from weft.data.sources import Factors, Scores
    from weft.data.sources.pairwise import PairwiseModel
    from weft.data.topk_items import TopKItems
    from weft.diagnostics import check
    from weft.errors import WeftError
    from weft.evaluation.api import evaluate, prepare
    from weft.evaluation.evaluator import Evaluator
    from weft.evaluation.result import Result
    from weft.evaluation.result_io import load_result
    from weft.evaluation.splitting.split import Split, split
    from weft.evaluation.state_io import load_state, merge_states, save_state
    from weft.metrics.accumulators import ItemRelevance
    from weft.metrics.base.composite_formula import Composite
    from weft.metrics.base.formulas import RatingMetric, UserAverageMetric, UserAverageTopKMetric
    from weft.metrics.base.metric import BaseMetric
    from weft.metrics.base.summed import SummedMetric, SummedTopKMetric
    from weft.metrics.base.top_k_metric import TopKMetric
    from weft.metrics.list_sums import GroupSums, Histogram, ItemSums, UserSum
    from weft.metrics.registry import register
    from weft.metrics.single_target import HR, MRR, NDCG, get_topk_ranks
    from weft.statistics import Comparison, compare
    from weft.statistics.experiment import Experiment
    from weft.statistics.result_table import ResultTable, table

# Where each public name lives. Names are imported when they are first used, so that `weft --help`
# does not wait for torch.
_HOMES = {
    "BaseMetric": "weft.metrics.base.metric",
    "Comparison": "weft.statistics",
    "Composite": "weft.metrics.base.composite_formula",
    "Evaluator": "weft.evaluation.evaluator",
    "Experiment": "weft.statistics.experiment",
    "Factors": "weft.data.sources",
    "File": "weft.data.readers.files",
    "GroupSums": "weft.metrics.list_sums",
    "HR": "weft.metrics.single_target",
    "Histogram": "weft.metrics.list_sums",
    "ItemFeatures": "weft._input_kinds",
    "ItemLabels": "weft._input_kinds",
    "ItemNumbers": "weft._input_kinds",
    "ItemRelevance": "weft.metrics.accumulators",
    "ItemSums": "weft.metrics.list_sums",
    "ItemVectors": "weft._input_kinds",
    "MRR": "weft.metrics.single_target",
    "MetricBlock": "weft.batch.blocks",
    "NDCG": "weft.metrics.single_target",
    "PairwiseModel": "weft.data.sources.pairwise",
    "RankedLists": "weft.batch.ranked_lists",
    "RatingMetric": "weft.metrics.base.formulas",
    "Result": "weft.evaluation.result",
    "Split": "weft.evaluation.splitting.split",
    "ResultTable": "weft.statistics.result_table",
    "Scores": "weft.data.sources",
    "SummedMetric": "weft.metrics.base.summed",
    "SummedTopKMetric": "weft.metrics.base.summed",
    "TopKItems": "weft.data.topk_items",
    "TopKMetric": "weft.metrics.base.top_k_metric",
    "TrainInteractions": "weft._input_kinds",
    "UserAverageMetric": "weft.metrics.base.formulas",
    "UserAverageTopKMetric": "weft.metrics.base.formulas",
    "UserLabels": "weft._input_kinds",
    "UserLists": "weft._input_kinds",
    "UserNumbers": "weft._input_kinds",
    "UserSum": "weft.metrics.list_sums",
    "UserVectors": "weft._input_kinds",
    "WeftError": "weft.errors",
    "check": "weft.diagnostics",
    "compare": "weft.statistics",
    "errors": "",
    "evaluate": "weft.evaluation.api",
    "get_topk_ranks": "weft.metrics.single_target",
    "load_result": "weft.evaluation.result_io",
    "load_state": "weft.evaluation.state_io",
    "merge_states": "weft.evaluation.state_io",
    "metrics": "",
    "prepare": "weft.evaluation.api",
    "register": "weft.metrics.registry",
    "sampling": "",
    "save_state": "weft.evaluation.state_io",
    "split": "weft.evaluation.splitting.split",
    "table": "weft.statistics.result_table",
    "testing": "",
}

__all__ = [
    "HR",
    "MRR",
    "NDCG",
    "BaseMetric",
    "Comparison",
    "Composite",
    "Evaluator",
    "Experiment",
    "Factors",
    "File",
    "GroupSums",
    "Histogram",
    "ItemFeatures",
    "ItemLabels",
    "ItemNumbers",
    "ItemRelevance",
    "ItemSums",
    "ItemVectors",
    "MetricBlock",
    "PairwiseModel",
    "RankedLists",
    "RatingMetric",
    "Result",
    "ResultTable",
    "Scores",
    "Split",
    "SummedMetric",
    "SummedTopKMetric",
    "TopKItems",
    "TopKMetric",
    "TrainInteractions",
    "UserAverageMetric",
    "UserAverageTopKMetric",
    "UserLabels",
    "UserLists",
    "UserNumbers",
    "UserSum",
    "UserVectors",
    "WeftError",
    "check",
    "compare",
    "errors",
    "evaluate",
    "get_topk_ranks",
    "load_result",
    "load_state",
    "merge_states",
    "metrics",
    "prepare",
    "register",
    "sampling",
    "save_state",
    "split",
    "table",
    "testing",
]

# The stability label of each public name, and of each module of `weft`, `weft.engines` and
# `weft.integrations`; names with an underscore are internal. docs/develop/stability.md explains the
# labels. A new name is provisional.
_STABILITY = {
    "BaseMetric": "stable",
    "Comparison": "stable",
    "Composite": "provisional",
    "Evaluator": "stable",
    "Experiment": "provisional",
    "Factors": "stable",
    "File": "stable",
    "GroupSums": "provisional",
    "HR": "stable",
    "Histogram": "provisional",
    "ItemFeatures": "provisional",
    "ItemLabels": "provisional",
    "ItemNumbers": "provisional",
    "ItemRelevance": "provisional",
    "ItemSums": "provisional",
    "ItemVectors": "provisional",
    "MRR": "stable",
    "MetricBlock": "stable",
    "NDCG": "stable",
    "PairwiseModel": "stable",
    "RankedLists": "provisional",
    "RatingMetric": "stable",
    "Result": "stable",
    "ResultTable": "provisional",
    "Scores": "stable",
    "Split": "stable",
    "SummedMetric": "provisional",
    "SummedTopKMetric": "provisional",
    "TopKItems": "stable",
    "TopKMetric": "stable",
    "TrainInteractions": "provisional",
    "UserAverageMetric": "stable",
    "UserAverageTopKMetric": "stable",
    "UserLabels": "provisional",
    "UserLists": "provisional",
    "UserNumbers": "provisional",
    "UserSum": "provisional",
    "UserVectors": "provisional",
    "WeftError": "stable",
    "batch": "internal",
    "check": "stable",
    "cli": "internal",
    "compare": "stable",
    "config": "provisional",
    "data": "internal",
    "diagnostics": "internal",
    "engines.captured_stderr": "internal",
    "engines.distributed": "provisional",
    "engines.partitioned": "internal",
    "engines.ray": "provisional",
    "engines.spark": "provisional",
    "errors": "stable",
    "evaluate": "stable",
    "evaluation": "internal",
    "get_topk_ranks": "stable",
    "integrations.huggingface": "provisional",
    "integrations.lightning": "provisional",
    "integrations.lightning_log": "internal",
    "integrations.mlflow": "provisional",
    "integrations.tensorboard": "provisional",
    "integrations.tracking": "internal",
    "integrations.wandb": "provisional",
    "load_result": "stable",
    "load_state": "stable",
    "merge_states": "stable",
    "metrics": "stable",
    "prepare": "stable",
    "ranking": "internal",
    "register": "stable",
    "report": "internal",
    "sampling": "provisional",
    "save_state": "stable",
    "split": "stable",
    "statistics": "internal",
    "table": "provisional",
    "testing": "provisional",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("weft")
    if name not in _HOMES:
        raise AttributeError(f"module 'weft' has no attribute {name!r}")
    home = _HOMES[name]
    value = (
        getattr(importlib.import_module(home), name)
        if home
        else importlib.import_module(f"weft.{name}")
    )
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__

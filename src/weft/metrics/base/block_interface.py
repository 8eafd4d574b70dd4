"""Metrics that take blocks: their declaration, the scores they get, and the `update` that callers
see.

A metric gets copies: whatever it writes to them, other metrics and the caller's data stay the same.
"""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable, Collection
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from weft.batch.batch import Batch
from weft.batch.blocks import MetricBlock, copy_lazily
from weft.data.devices import run_eagerly
from weft.errors import InputError, SettingError, did_you_mean
from weft.ranking import top_k


class RelevanceHelpers:
    """Methods with which authors of metrics read dense relevance."""

    def valid_users(self, target: Tensor) -> Tensor:
        """Return 1 for each row of a dense relevance `[batch, items]` with a relevant item."""
        return (target > 0).any(dim=1).float()

    def top_k_relevance(self, preds: Tensor, target: Tensor, k: int) -> Tensor:
        """Return the dense relevance of the k best items of each row, `[batch, k]`.

        Positions after the end of a list are 0.
        """
        values, items = top_k(preds.contiguous(), k)
        relevance = torch.where(values > -torch.inf, target.gather(1, items), 0)
        return torch.nn.functional.pad(relevance, (0, k - relevance.shape[1]))


def check_components(metric: str, required: Any) -> None:
    """Raise `SettingError` if `_REQUIRED_COMPONENTS` of a metric is no set of `MetricBlock`."""
    is_set = isinstance(required, (set, frozenset))
    if required is None or (is_set and all(isinstance(one, MetricBlock) for one in required)):
        return
    declared = required if is_set or isinstance(required, (list, tuple)) else [required]
    wrong = next((one for one in declared if not isinstance(one, MetricBlock)), required)
    names = [block.name for block in MetricBlock]
    raise SettingError(
        f"{metric} declares {wrong!r} in _REQUIRED_COMPONENTS; expected a set of members of "
        f"MetricBlock: {', '.join(names)}.{did_you_mean(str(wrong), names)}"
    )


def check_keywords(metric: str, update: Callable[..., Any]) -> None:
    """Raise `SettingError` if the `update` of a metric does not take blocks as keywords."""
    kinds = {parameter.kind for parameter in inspect.signature(update).parameters.values()}
    if inspect.Parameter.VAR_KEYWORD not in kinds:
        raise SettingError(
            f"{metric}.update must accept blocks as keyword arguments: update(self, preds, "
            "**kwargs)."
        )


def check_target(metric: str, target: Any, blocks: Collection[str]) -> None:
    """Raise `InputError` unless `update` got a target, and no blocks in addition."""
    if target is None:
        raise InputError(
            f"{metric}.update() needs a target: dense, sparse, or the items of each row."
        )
    if blocks:
        raise InputError(
            f"{metric}.update() got {', '.join(map(repr, blocks))} in addition to a target. "
            "Its arguments are preds, target, user_indices and items; blocks replace the target."
        )


def copy_preds(batch: Batch, method: Callable[..., Any]) -> Tensor:
    """Return a copy of the masked scores `[batch, items]` as the `preds` of an author's method.

    For a method that does not read them, which saves the memory of a batch, they are NaN."""
    if _reads_preds(getattr(method, "__func__", None)):
        return copy_lazily(batch.dense_scores)
    scores = batch.truth.values if batch.scores is None else batch.scores.data
    return scores.new_full((), torch.nan).expand(batch.size, batch.truth.num_items)


def call_with_blocks(
    method: Callable[..., Any], *arguments: Any, metric: str, blocks: dict[str, Tensor]
) -> Any:
    """Return what an author's method returns for these arguments, with blocks as keywords.

    Raises `SettingError` if it looks up a block that it was not given."""
    try:
        return method(*arguments, **blocks)
    except KeyError as error:
        name = error.args[0] if error.args else None
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        code = getattr(getattr(method, "__func__", method), "__code__", None)
        if not isinstance(name, str) or trace is None or trace.tb_frame.f_code is not code:
            raise
        raise SettingError(
            f"{metric} read the block {name!r}, which is not available."
            f"{did_you_mean(name, list(blocks))} Available: {', '.join(blocks)}. To get other "
            f"blocks, declare them in _REQUIRED_COMPONENTS: {', '.join(MetricBlock.__members__)}."
        ) from error


@lru_cache(maxsize=256)
def _reads_preds(function: Callable[..., Any] | None) -> bool:
    """Return False if the code of `function(self, preds, ...)` does not contain `preds`."""
    code = getattr(function, "__code__", None)
    is_wrapper = hasattr(function, "__wrapped__")
    if code is None or is_wrapper or code.co_argcount < 2 or "locals" in code.co_names:
        return True
    name = code.co_varnames[1]
    arguments = [instruction.argval for instruction in dis.get_instructions(code)]
    pairs = (value for value in arguments if isinstance(value, tuple))  # two variables at once
    return name in arguments or any(name in pair for pair in pairs)


def wrap_update(
    update_from_blocks: Callable[..., None], update_from_target: Callable[..., None]
) -> Callable[..., None]:
    """Return the `update` that callers see, for an author's `update` that takes blocks.

    Called with a target it computes the blocks; a subclass that calls it with blocks reaches the
    author's, which gets copies of them."""

    @run_eagerly
    def update(
        self: Any,
        preds: Tensor,
        target: Any = None,
        user_indices: Tensor | None = None,
        **blocks: Any,
    ) -> None:
        if target is None and blocks:
            blocks["user_indices"] = user_indices
            copies = {
                name: block.clone() if isinstance(block, Tensor) else block
                for name, block in blocks.items()
            }
            update_from_blocks(self, preds.clone(), **copies)
        else:
            update_from_target(self, preds, target, user_indices, **blocks)

    update.__doc__ = update_from_target.__doc__
    return update

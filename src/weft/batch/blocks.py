"""The public metric blocks: plain tensors of a batch for metrics of users."""

from __future__ import annotations

import enum
from collections.abc import Callable, Set
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from weft.errors import SettingError

if TYPE_CHECKING:
    from weft.batch.batch import Batch


_LAZY_COPY_VALUES = 1 << 14


class MetricBlock(enum.Enum):
    """A tensor of a batch that metrics can declare in `_REQUIRED_COMPONENTS`.

    Blocks are computed once per batch for all metrics. `compute_scores` and `update` receive a
    block under the value of its member as keyword, with the cut-off in the place of `k`.

    - `BINARY_RELEVANCE`: 1 for relevant items, `[batch, items]`.
    - `DISCOUNTED_RELEVANCE`: the gains 2^rating - 1 of relevant items, `[batch, items]`.
    - `VALID_USERS`: 1 for users with a relevant item, `[batch]`.
    - `TOP_K_INDICES`: the item numbers of the lists, -1 at empty positions, `[batch, k]`.
    - `TOP_K_VALUES`: the scores of the lists, -inf at empty positions, `[batch, k]`.
    - `TOP_K_BINARY_RELEVANCE`: 1 at the positions of relevant items, `[batch, k]`.
    - `TOP_K_DISCOUNTED_RELEVANCE`: the gains at the positions of relevant items, `[batch, k]`.
    - `TOP_K_LOG_DISCOUNTED_RELEVANCE`: these gains divided by log2(position + 1), `[batch, k]`.
    - `RATINGS`: the ratings of the truth, `[batch, items]`. Only metrics that declare this block
      receive it.

    >>> import weft
    >>> weft.MetricBlock.TOP_K_INDICES.keyword(10)
    'top_10_indices'
    """

    #: 1 for relevant items, otherwise 0, `[batch, items]`.
    BINARY_RELEVANCE = "binary_relevance"
    #: The gains 2^rating - 1 of relevant items, otherwise 0, `[batch, items]`.
    DISCOUNTED_RELEVANCE = "discounted_relevance"
    #: 1 for users with a relevant item, otherwise 0, `[batch]`.
    VALID_USERS = "valid_users"
    #: The recommended items, best first, -1 after the end of a list, `[batch, k]`.
    TOP_K_INDICES = "top_k_indices"
    #: The scores of the recommended items, `-inf` after the end of a list, `[batch, k]`.
    TOP_K_VALUES = "top_k_values"
    #: 1 at the positions of relevant items, otherwise 0, `[batch, k]`.
    TOP_K_BINARY_RELEVANCE = "top_k_binary_relevance"
    #: The gains at the positions of relevant items, not discounted, `[batch, k]`.
    TOP_K_DISCOUNTED_RELEVANCE = "top_k_discounted_relevance"
    #: These gains divided by log2(position + 1); the sum of a row is the DCG, `[batch, k]`.
    TOP_K_LOG_DISCOUNTED_RELEVANCE = "top_k_log_discounted_relevance"
    #: The ratings of the truth, 0 without one, `[batch, items]`; only if declared.
    RATINGS = "ratings"

    @property
    def needs_declaration(self) -> bool:
        """True if only metrics that declare the block get it: a further dense matrix."""
        return self is MetricBlock.RATINGS

    @property
    def has_cutoff(self) -> bool:
        """True if the block is cut at k."""
        return self.value.startswith("top_k_")

    def keyword(self, k: int | None) -> str:
        """Return the keyword of the block: for k = 10, `top_10_values`."""
        return self.value.replace("top_k_", f"top_{k}_") if self.has_cutoff else self.value


_COMPUTE: dict[MetricBlock, Callable[[Batch], Tensor]] = {
    MetricBlock.BINARY_RELEVANCE: lambda batch: batch.relevant.to_dense(
        batch.relevant.valid_ones.float()
    ),
    MetricBlock.DISCOUNTED_RELEVANCE: lambda batch: batch.relevant.to_dense(
        batch.gains("exponential")
    ),
    MetricBlock.VALID_USERS: lambda batch: (batch.relevant.lengths > 0).float(),
    MetricBlock.TOP_K_INDICES: lambda batch: batch.items,
    MetricBlock.TOP_K_VALUES: lambda batch: batch.values,
    MetricBlock.TOP_K_BINARY_RELEVANCE: lambda batch: batch.observed_positions.per_position(
        torch.ones_like(batch.relevant.values)
    ).float(),
    MetricBlock.TOP_K_DISCOUNTED_RELEVANCE: lambda batch: batch.observed_positions.per_position(
        batch.gains("exponential")
    ),
    MetricBlock.TOP_K_LOG_DISCOUNTED_RELEVANCE: lambda batch: (
        batch.observed_positions.per_position(batch.gains("exponential"))
        / torch.log2(torch.arange(2, batch.depth + 2, dtype=batch.dtype, device=batch.device))
    ),
    MetricBlock.RATINGS: lambda batch: batch.truth.to_dense(batch.truth.values),
}


def compute_block(batch: Batch, block: MetricBlock) -> Tensor:
    """Compute a block at the largest cut-off: `[batch]`, `[batch, items]` or `[batch, depth]`."""
    return _COMPUTE[block](batch)


def metric_block(batch: Batch, block: MetricBlock, k: int | None) -> Tensor:
    """Return a copy of a block, computed once per batch and cut at k if it has a cut-off."""
    values = batch.cached(block, lambda: compute_block(batch, block))
    if not block.has_cutoff:
        return copy_lazily(values)
    missing = max(0, (k or 0) - values.shape[1])  # positions beyond the catalogue
    if missing:
        fill = {MetricBlock.TOP_K_INDICES: -1, MetricBlock.TOP_K_VALUES: -torch.inf}.get(block, 0)
        return torch.nn.functional.pad(values, (0, missing), value=fill)
    return values[:, :k].clone()


def copy_lazily(values: Tensor) -> Tensor:
    """Return a copy, which a metric of users may write to without effect on others.

    Torch copies large tensors on the CPU at the first write to them or to their NumPy array, so
    that a metric that only reads costs nothing."""
    if values.device.type == "cpu" and values.numel() > _LAZY_COPY_VALUES:
        try:
            return values._lazy_clone()
        except (AttributeError, RuntimeError):  # other versions of torch, or memory of others
            pass
    return values.clone()


def block_arguments(
    batch: Batch, required: Set[MetricBlock] | None, k: int | None
) -> dict[str, Tensor]:
    """Return copies of the declared blocks by keyword, and of `user_indices`.

    Without a declaration, all blocks but those that need one."""
    if required is None:
        offered = (block for block in MetricBlock if not block.needs_declaration)
        required = {block for block in offered if k is not None or not block.has_cutoff}
    if k is None and any(block.has_cutoff for block in required):
        names = ", ".join(block.name for block in required if block.has_cutoff)
        raise SettingError(
            f"blocks that need a cut-off: {names}; derive the metric from weft.TopKMetric."
        )
    arguments = {block.keyword(k): metric_block(batch, block, k) for block in required}
    return {**arguments, "user_indices": batch.users.clone()}

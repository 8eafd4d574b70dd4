"""`BatchAccumulator`: adds the contributions of batches to the state of an evaluator."""

from __future__ import annotations

from contextlib import closing

import torch
from torch import Tensor

from weft.batch.batch import Batch, BatchInputs, RankingOptions
from weft.batch.ranked_batch import rank_batch
from weft.data import BatchLists
from weft.evaluation.contributions import UserContributions
from weft.evaluation.evaluator_state import BatchTransaction, EvaluatorState
from weft.evaluation.update_inputs import check_sampled
from weft.metrics.author_errors import author_errors
from weft.metrics.base.batch_checks import count_users_outside
from weft.ranking.rank_estimator import RankEstimator


class BatchAccumulator(EvaluatorState):
    """An evaluator that ranks batches and adds them to its state."""

    estimator: RankEstimator | None
    _ranking: RankingOptions

    def rank(self, inputs: BatchInputs) -> Batch:
        """Return a ranked batch for `add`. The evaluator is not changed."""
        return rank_batch(inputs, self._ranking)

    def add(self, inputs: BatchInputs, batch: Batch | None = None) -> None:
        """Add the contributions of a batch of checked and encoded inputs.

        `batch` is the batch that `rank` returned for these inputs, if it was called before; `add`
        closes it. If an error or an interrupt ends the call, nothing is added.
        """
        with BatchTransaction(self) as transaction:
            self._add(inputs, transaction, batch)

    @author_errors()
    def _add(
        self, inputs: BatchInputs, transaction: BatchTransaction, batch: Batch | None = None
    ) -> None:
        predictions = inputs.predictions
        if self.estimator is not None and predictions is not None:
            check_sampled(self.estimator, inputs)
        is_complete = isinstance(predictions, BatchLists) and predictions.is_complete
        self._has_lists = isinstance(predictions, BatchLists) and not is_complete
        self._has_candidates |= (
            is_complete or inputs.item_mask is not None or inputs.candidates is not None
        )
        with closing(batch or self.rank(inputs)) as ranked:
            self._accumulate(ranked, transaction)

    def _accumulate(self, batch: Batch, transaction: BatchTransaction) -> None:
        by_user = self.stores_contributions
        if not batch.is_host_readable:
            self._note_users(batch)
        layout = self.metric_set.layout
        terms = layout.contributions(batch, by_user=by_user)
        contributions = None
        if self.drops_repeats:
            user_counts = self.counter.count(batch)
            counts = user_counts.sum(0)
        else:
            counts = self.counter.total(batch)
            user_counts = counts.new_empty((batch.size, 0))
        if by_user:
            contributions = UserContributions.from_batch(batch, layout, terms, user_counts)
        table = self._user_rows(batch)
        for metric in self.stateful_metrics:
            metric.accumulate(batch)
        self.counts += counts
        transaction.add_terms(terms)
        if table:
            self._table.append(table)
        if contributions is not None:
            self._contributions.append(contributions)

    def _user_rows(self, batch: Batch) -> dict[str, Tensor]:
        """Return the stored values and lists of the users of a batch, by name."""
        rows = {}
        if self.settings.per_user:
            rows["table_kept"], rows["table_values"] = self.metric_set.user_values(batch)
        if self.settings.keep_lists:
            missing = self.list_length - batch.items.shape[1]
            rows["table_items"] = torch.nn.functional.pad(batch.items, (0, missing), value=-1)
        return {"table_users": batch.users, **rows} if rows else {}

    def _note_users(self, batch: Batch) -> None:
        """Count users outside the rows of an input if the host cannot read their indices."""
        sizes = [some.size for some in (*self.user_inputs.values(), *self.slices.values())]
        if self.masks_seen:
            sizes.append(self.inputs["train"].interactions.num_users)
        if sizes:
            batch.validation.add("bad_users", count_users_outside(batch.users, min(sizes)))

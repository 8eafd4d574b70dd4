"""`Evaluator`: one pass over batches of users that adds their contributions to one state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

import torch
from torch import Tensor, nn

from weft.batch.batch import Batch, BatchInputs, RankingOptions
from weft.batch.ranked_batch import rank_batch
from weft.data import BatchLists
from weft.data.dataset import EvaluationData
from weft.data.devices import run_eagerly
from weft.data.side_inputs import Kinds, merge_inputs, read_positional_inputs, with_separator
from weft.data.team import open_team
from weft.data.threads import count_threads, one_thread
from weft.evaluation.contributions import UserContributions
from weft.evaluation.counts import BatchCounter
from weft.evaluation.evaluator_state import BatchTransaction, EvaluatorState
from weft.evaluation.finalize import RunReport, finalize
from weft.evaluation.metric_selection import build_metric_set
from weft.evaluation.metric_set import MetricClasses, MetricSet
from weft.evaluation.result import Result
from weft.evaluation.run_slices import RunSlices, find_targets
from weft.evaluation.sampling_settings import rank_estimator
from weft.evaluation.settings import EvaluationSettings
from weft.evaluation.state import combine_states
from weft.evaluation.update_inputs import check_sampled, read_update
from weft.metrics.author_errors import author_errors
from weft.metrics.base.batch_checks import count_users_outside
from weft.metrics.declarations import MAX_RATING
from weft.metrics.profiles import find_profile, spell_out
from weft.metrics.registry import expand_metrics, find_input_kinds
from weft.ranking import TieRule

if TYPE_CHECKING:
    from weft._choices import (
        EmptyUsers,
        EstimatorName,
        ExtraUsers,
        NanScores,
        ProfileName,
        RepeatedUsers,
        Targets,
        TieRuleName,
    )
    from weft.evaluation.argument_types import Features, Interactions, Labels, Metric


class Evaluator(EvaluatorState):
    """Evaluates batch by batch. Users and items are row and column numbers.

    `metrics` are names or metric objects, `top_k` the cut-offs of those that are named without one.
    `train`, `user_groups`, `item_clusters`, `item_features` and `inputs` are as in `weft.evaluate`,
    but by number: a matrix or cells of row and column numbers, a label, a set of features or a
    value per number.
    Metrics that count items need `num_items` if train does not give it. The other settings are
    those of `weft.evaluate`.

    With `bootstrap`, the contributions of each user are stored until the end: 8 bytes per mean and
    cut-off, 12 per further term, such as a list position. `slices` holds a label per user by the
    name of the slice, `item_slices` a label per item or a rule about train.
    `repeated_users="drop"` counts each user once, also across processes: the first row of a user
    stays. Otherwise every row counts, and the result counts the repeated ones.
    `nan_scores="nan"` makes every value NaN if scores are NaN or +inf, for training loops that stop
    or go on by themselves; by default `update` raises an error.

    With `torch.distributed`, `compute` synchronizes all processes: all must call it, and all get
    the same result. `sync_on_compute=False` returns the result of this process alone. `prefix` and
    `postfix` are added to the names in `Result.to_tensors`.

    >>> import torch, weft
    >>> evaluator = weft.Evaluator(metrics=["Precision", "Recall"], top_k=[1, 2])
    >>> evaluator.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]]))
    >>> evaluator.compute()["Recall@1"]
    0.5
    """

    def __init__(
        self,
        metrics: Metric | Iterable[Metric],
        top_k: Iterable[int] | int | None = None,
        *,
        train: Interactions | None = None,
        num_users: int | None = None,
        num_items: int | None = None,
        user_groups: Labels | None = None,
        item_clusters: Labels | None = None,
        item_features: Features | None = None,
        inputs: Mapping[str, Any] | None = None,
        feature_separator: str | None = None,
        relevance_threshold: float | None = None,
        implicit: bool = False,
        mask_seen: bool | Literal["auto"] = "auto",
        targets: Targets = "all",
        ties: TieRuleName | None = None,
        seed: int = 0,
        estimator: EstimatorName | None = None,
        gamma: float | None = None,
        per_user: bool = False,
        keep_lists: bool = False,
        bootstrap: int | None = None,
        slices: Mapping[str, Any] | None = None,
        item_slices: Mapping[str, Any] | None = None,
        exposure: bool = False,
        skill: bool = False,
        empty_users: EmptyUsers | None = None,
        extra_users: ExtraUsers | None = None,
        repeated_users: RepeatedUsers | None = None,
        nan_scores: NanScores = "raise",
        profile: ProfileName | None = None,
        threads: int | None = None,
        sync_on_compute: bool = True,
        prefix: str = "",
        postfix: str = "",
    ) -> None:
        super().__init__()
        settings = EvaluationSettings.from_options(
            metrics=metrics,
            top_k=top_k,
            relevance_threshold=relevance_threshold,
            implicit=implicit,
            mask_seen=mask_seen,
            targets=targets,
            ties=ties,
            seed=seed,
            strategy="full" if estimator is None else "sampled",
            estimator=estimator,
            gamma=gamma,
            per_user=per_user,
            keep_lists=keep_lists,
            bootstrap=bootstrap,
            slices=slices,
            item_slices=item_slices,
            exposure=exposure,
            skill=skill,
            empty_users=empty_users,
            extra_users=extra_users,
            repeated_users=repeated_users,
            nan_scores=nan_scores,
            feature_separator=feature_separator,
            profile=profile,
            threads=threads,
        )
        given = merge_inputs(
            inputs,
            train=train,
            user_groups=user_groups,
            item_clusters=item_clusters,
            item_features=item_features,
        )
        settings = settings.resolve(given.keys())
        kinds = with_separator(find_input_kinds(given, settings.metrics), feature_separator)
        encoded = read_positional_inputs(given, kinds, num_users, num_items)
        run_slices = RunSlices.read_positional(settings, encoded)
        if run_slices.num_items is not None:
            encoded = {"num_items": run_slices.num_items, **encoded}
        self._set_up(
            settings,
            expand_metrics(settings.metrics, settings.top_k or (), available=set(encoded)),
            encoded,
            kinds,
            run_slices,
        )
        self.prefix, self.postfix, self.sync_on_compute = prefix, postfix, sync_on_compute

    @classmethod
    def from_dataset(
        cls, dataset: EvaluationData, settings: EvaluationSettings, classes: MetricClasses
    ) -> Self:
        """Return the evaluator of encoded data; the settings are resolved. It does not mask."""
        evaluator = cls.__new__(cls)
        nn.Module.__init__(evaluator)
        inputs: dict[str, Any] = {} if dataset.train is None else {"train": dataset.train}
        inputs |= dataset.side
        inputs |= {"num_users": dataset.users.size, "num_items": dataset.items.size}
        inputs[MAX_RATING] = dataset.stats.max_rating
        item_keys = None
        if settings.ties in ("random", "expected"):  # drawn by id, independent of the item order
            item_keys = torch.as_tensor(dataset.items.hash_keys())
        known = dataset.derived.get("metric_set")
        slices = RunSlices(dataset.slices, dataset.item_slices)
        evaluator._set_up(settings, classes, inputs, dataset.kinds, slices, item_keys, known)
        if evaluator.metric_set.is_shareable:
            dataset.derived["metric_set"] = evaluator.metric_set
        evaluator.prefix, evaluator.postfix, evaluator.sync_on_compute = "", "", False
        return evaluator

    def _set_up(
        self,
        settings: EvaluationSettings,
        classes: MetricClasses,
        inputs: dict[str, Any],
        kinds: Kinds,
        slices: RunSlices,
        item_keys: Tensor | None = None,
        metric_set: MetricSet | None = None,
    ) -> None:
        """`metric_set` has these metrics, if they were built before."""
        self.settings, self.inputs = settings, inputs
        self.slices, self.item_slices = slices.of_users, slices.of_items
        self.kinds = {name: kind for name, kind in kinds.items() if name in inputs}
        if settings.profile is not None:
            profile = find_profile(settings.profile)
            classes = {spell_out(spec, profile): metric for spec, metric in classes.items()}
        self.num_items = inputs.get("num_items")
        self.masks_seen = settings.mask_seen is True
        self.drops_repeats = settings.repeated_users == "drop"
        self.rule = TieRule(settings.ties or "index", settings.seed, item_keys)
        self.estimator = rank_estimator(settings)
        self.metric_set = build_metric_set(self, classes, metric_set)
        self._ranking = self._ranking_options()
        self.stateful_metrics = list(self.metric_set.stateful.values())
        self.own_metrics = nn.ModuleList(self.stateful_metrics)
        if self.drops_repeats:
            self._check_droppable()
        self.counter = BatchCounter(
            self.metric_set.cutoffs,
            self.user_inputs,
            slices.of_users,
            item_slices=slices.of_items,
            has_targets=settings.targets != "all",
        )
        self._is_persistent = False
        self._begin(torch.device("cpu"))

    def _ranking_options(self) -> RankingOptions:
        return RankingOptions(
            self.rule,
            self.metric_set.depth,
            relevance_threshold=self.settings.relevance_threshold,
            estimator=self.estimator,
            counts_ranks=self.metric_set.counts_ranks,
            targets=find_targets(self.settings, self.inputs),
        )

    def set_profile(self, profile: str) -> None:
        """Name the metrics, which have the parameters of a profile already, as it does."""
        settings = self.settings.model_copy(update={"profile": profile})
        slices = RunSlices(self.slices, self.item_slices)
        self._set_up(settings, self.metric_set.classes, self.inputs, self.kinds, slices)

    # ----------------------------------------------------------------------------------------------

    @run_eagerly
    @one_thread
    @torch.no_grad()
    def update(
        self, preds: Tensor, target: Any, user_indices: Any = None, items: Any = None
    ) -> None:
        """Add a batch: scores `[batch, items]`, and the truth as a dense or sparse matrix or as
        lists of item numbers.

        `user_indices [batch]` are the users of the rows; needed with `train`, and to name the rows
        of the per-user table.

        With `items [batch, n]`, item numbers (-1 fills short rows), `preds [batch, n]` are the
        scores of these candidates, and no other item can be recommended. The truth is by item
        number as before, or dense `[batch, n]`, a rating for each candidate.

        If an error or an interrupt ends it, nothing of the batch is added.

        Off the CPU nothing here synchronizes with the device, except a dense `[batch, items]`
        target on it (its number of interactions is data), `bootstrap`, `repeated_users="drop"`,
        `extra_users="skip"`, and masking by very long train rows; `docs/guide/devices.md` lists
        the forms that never do."""
        read = read_update(
            self,
            preds,
            target,
            user_indices,
            items,
            first_row=self._num_rows,
            known_items=self._num_items,
        )
        users = read.batch.users
        team = open_team(count_threads(self.settings.threads))
        with team, BatchTransaction(self) as transaction:
            self._add(read.batch, transaction)
            num_skipped = read.num_rows - len(users)
            self.counts[self.counter.names.index("users_without_truth")] += num_skipped
            self.counts[self.counter.names.index("bad_scores")] += read.num_invalid
            self._num_rows += read.num_rows
            self._num_items = read.num_items
            if user_indices is None:
                self._has_user_indices = False
            else:
                self._users.append(users)

    def rank(self, inputs: BatchInputs) -> Batch:
        """Return a ranked batch, for `add`. Nothing of the evaluator changes: any thread may."""
        return rank_batch(inputs, self._ranking)

    def add(self, inputs: BatchInputs, batch: Batch | None = None) -> None:
        """Add the contributions of a batch of checked and encoded inputs.

        `batch` is that of `rank`, if it was ranked before; it is closed. If an error or an
        interrupt ends it, nothing is added."""
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
        """Return what is kept of each user of a batch, by name: values, and the list."""
        rows = {}
        if self.settings.per_user:
            rows["table_kept"], rows["table_values"] = self.metric_set.user_values(batch)
        if self.settings.keep_lists:
            missing = self.list_length - batch.items.shape[1]
            rows["table_items"] = torch.nn.functional.pad(batch.items, (0, missing), value=-1)
        return {"table_users": batch.users, **rows} if rows else {}

    def _note_users(self, batch: Batch) -> None:
        """Count users who are no rows of an input, where the host cannot read their indices."""
        sizes = [some.size for some in (*self.user_inputs.values(), *self.slices.values())]
        if self.masks_seen:
            sizes.append(self.inputs["train"].interactions.num_users)
        if sizes:
            batch.validation.add("bad_users", count_users_outside(batch.users, min(sizes)))

    # ----------------------------------------------------------------------------------------------

    @run_eagerly
    @one_thread
    @torch.no_grad()
    def compute(self) -> Result:
        """Return the Result of all batches so far, of all processes."""
        state, provenance = self.synchronized_state()
        return finalize(state, self, RunReport(provenance=provenance))

    @run_eagerly
    @one_thread
    @torch.no_grad()
    def forward(
        self, preds: Tensor, target: Any, user_indices: Any = None, items: Any = None
    ) -> Result:
        """Add a batch, and return the Result of it alone."""
        before, device = self.state, self.sums.device
        try:
            self.reset()
            self._num_rows = before.num_rows
            self.update(preds, target, user_indices, items)
            of_batch = self.state
            # Rows without a user index are numbered already.
            parts = [before, replace(of_batch, has_user_indices=True)]
            combined = replace(
                combine_states(parts, self.stateful_metrics),
                num_rows=of_batch.num_rows,
                has_user_indices=before.has_user_indices and of_batch.has_user_indices,
            )
            self.restore(combined)
            self.to(device)
        except BaseException:
            self.restore(before)
            raise
        return finalize(of_batch, self, RunReport())

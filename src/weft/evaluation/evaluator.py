"""`Evaluator`: one pass over batches of users that adds their contributions to one state."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self

import torch
from torch import Tensor, nn

from weft.batch.batch import RankingOptions
from weft.data.dataset import EvaluationData
from weft.data.devices import run_eagerly
from weft.data.side_inputs import Kinds, merge_inputs, read_positional_inputs, with_separator
from weft.data.team import open_team
from weft.data.threads import count_threads, one_thread
from weft.evaluation.batch_accumulator import BatchAccumulator
from weft.evaluation.counts import BatchCounter
from weft.evaluation.evaluator_state import BatchTransaction
from weft.evaluation.finalize import RunReport, finalize
from weft.evaluation.metric_selection import build_metric_set
from weft.evaluation.metric_set import MetricClasses, MetricSet
from weft.evaluation.result import Result
from weft.evaluation.run_slices import RunSlices, find_targets
from weft.evaluation.sampling_settings import rank_estimator
from weft.evaluation.settings import EvaluationSettings
from weft.evaluation.state import combine_states
from weft.evaluation.update_inputs import read_update
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


class Evaluator(BatchAccumulator):
    """An evaluation that accumulates metrics batch by batch, such as in a training loop.

    Users and items are row and column numbers, from 0. With `torch.distributed`, `compute`
    synchronizes all processes: all of them must call it, and all get the same result.

    Parameters
    ----------
    metrics
        Names of metrics, such as `"nDCG"` or `"nDCG@10"`, or metric objects.
    top_k
        Cut-offs of the metrics that are named without one.
    train, user_groups, item_clusters, item_features, inputs
        Inputs of metrics as in `weft.evaluate`, by row and column number: interactions as a
        matrix, a table or a dict; a label, a set of features or a value for each number.
    num_users
        Number of users, if `train` does not give it.
    num_items
        Number of items, if `train` does not give it. Metrics that count items need it.
    repeated_users
        Users that occur in several rows: `"count"` (default) counts every row, and the result
        counts the repeated ones; `"drop"` counts only the first row of each user, also across
        processes.
    nan_scores
        Scores that are NaN or +inf: `"raise"` (default) raises an error in `update`; `"nan"` sets
        every value of the result to NaN, for training loops that handle such scores themselves.
    bootstrap
        Number of resamples of the users. The contributions of each user are stored until the end: 8
        bytes per mean and cut-off, and 12 per further term, such as a list position.
    slices
        Groups of users by the name of the slice: a label for each user, or a rule.
    item_slices
        Groups of relevant items by the name of the slice: a label for each item, or a rule.
    sync_on_compute
        Whether `compute` synchronizes processes. With False it returns the result of this process.
    prefix, postfix
        Texts before and after the names in `Result.to_tensors`.
    relevance_threshold, implicit, targets, empty_users, extra_users, feature_separator, profile
        Relevant items, users and definitions, as in `weft.evaluate`.
    mask_seen, ties, seed, estimator, gamma
        Ranking, as in `weft.evaluate`.
    per_user, keep_lists, exposure, skill, threads
        Output and execution, as in `weft.evaluate`.

    Raises
    ------
    SettingError
        If an option is invalid, or contradicts another option.
    InputError
        If inputs cannot be read. `MissingInput` is raised if a metric needs an input that was not
        given.

    Examples
    --------
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
        """Return an evaluator of encoded data with resolved settings; it does not mask items."""
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
        """Name the metrics as a profile does. They must already have its parameters."""
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
        """Add a batch of users.

        If an error or an interrupt ends the call, nothing of the batch is added. On other devices
        than the CPU, `update` does not synchronize, except with a dense target `[batch, items]` on
        the device, with `bootstrap`, `repeated_users="drop"` or `extra_users="skip"`, and for
        masking by very long rows of `train`; `docs/guide/devices.md` describes all forms.

        Parameters
        ----------
        preds
            Scores `[batch, items]`, or `[batch, n]` of the candidates in `items`. The score of an
            item that is not a candidate is -inf.
        target
            Truth of the batch: a dense or sparse matrix `[batch, items]`; a list of item numbers
            for each row; or integers `[batch, n]`, padded with -1. With `items`, also a dense
            matrix `[batch, n]` with a rating for each candidate.
        user_indices
            User number of each row, `[batch]`. Needed to mask seen items, for inputs and slices of
            users, for `bootstrap` and `repeated_users="drop"`, and to name the rows of
            `Result.per_user`.
        items
            Item numbers of the candidates of each row, `[batch, n]`, padded with -1. No other item
            can be recommended.

        Raises
        ------
        InputError
            If scores, truth, users or items are invalid.
        """
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

    # ----------------------------------------------------------------------------------------------

    @run_eagerly
    @one_thread
    @torch.no_grad()
    def compute(self) -> Result:
        """Return the `Result` of all batches so far, over all processes."""
        state, provenance = self.synchronized_state()
        return finalize(state, self, RunReport(provenance=provenance))

    @run_eagerly
    @one_thread
    @torch.no_grad()
    def forward(
        self, preds: Tensor, target: Any, user_indices: Any = None, items: Any = None
    ) -> Result:
        """Add a batch as `update` does, and return the `Result` of this batch alone."""
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

"""The single pass: batches of users go in, the sums of all metrics grow, a Result comes out."""

from __future__ import annotations

import copy
import inspect
import platform
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from weft.batch.batch import Batch, BatchInputs, RankingOptions, open_batch
from weft.batch.input_validation import validation_for
from weft.data import BatchLists, Features, Labels, Train
from weft.data.devices import dtype_preserving, float_type, is_host_readable, to_device
from weft.data.labels import read_positional_features, read_positional_labels
from weft.data.targets import read_target
from weft.data.tensors import SparseRows
from weft.errors import (
    InputError,
    MissingInput,
    SettingError,
    check_bool,
    check_choice,
    check_int,
    check_threshold,
)
from weft.evaluation.bootstrap import BootstrapInterval, bootstrap_interval
from weft.evaluation.contributions import ContributionStore, LocalContributions, UserContributions
from weft.evaluation.counts import BatchCounter
from weft.evaluation.exposure import exposure_frames
from weft.evaluation.metric_set import MetricSet
from weft.evaluation.metric_value import MetricValue
from weft.evaluation.notes import (
    NoteContext,
    count_items_without_input,
    count_notes,
    interval_notes,
    undefined_notes,
)
from weft.evaluation.result import Result, slice_column
from weft.evaluation.state import (
    EvaluationState,
    check_compatible,
    combine_states,
    num_processes,
    synchronize,
)
from weft.metrics.base.metric import (
    EMPTY_USERS,
    BaseMetric,
    check_batch,
    check_item_numbers,
    check_users,
    count_users_outside,
)
from weft.metrics.profiles import apply_profile, find_profile, resolve_defaults
from weft.metrics.registry import as_metric_list
from weft.ranking import TieRule
from weft.ranking.rank_estimator import RankEstimator

if TYPE_CHECKING:
    import polars as pl

REPEATED_USERS = ("count", "drop")


# Train rows are padded to the longest, where user numbers are on a device, if it has at most one in
# so many of all items: what is made on the way is then no larger than the scores. Longer ones are
# looked up on the host, which waits for the numbers.
_MOST_PADDING = 8


class Evaluator(nn.Module):
    """Evaluates batch by batch. Users and items are row and column numbers.

    `metrics`: names, specs or metric objects; `top_k`: the cut-offs of those that are named without
    one. With `train` (a matrix, or cells of row and column numbers), seen items are masked unless
    `mask_seen=False`. `per_user=True` keeps a value per user, metric and cut-off (8 bytes each).
    `user_groups`, `item_clusters`: a label for each number, as a dict, a frame or a list;
    `item_features`: a set of features for each. Metrics that count items need `num_items`, where
    train does not tell it. `profile`: another tool's definitions, such as `"trec_eval"`.

    `bootstrap=1000` gives intervals by so many resamples of the users, which depend on `seed` and
    the users' numbers alone. What each user adds to the sums is kept for it: 8 bytes per mean and
    cut-off, 12 per further term, such as a place of a list, or a masked item where a metric asks
    what was offered. `slices`: by name a label for each user, as `user_groups`; metrics with a
    value per user are then also given by label. `exposure=True` counts at every cut-off how often
    each item is recommended (8 bytes per item and cut-off), for `Result.exposure` and
    `Result.popularity`.

    `repeated_users="drop"` counts each user once, also if another process has met the same: the
    first row of a user's number stays. What each user adds is kept for it, as for `bootstrap`.
    Otherwise every row counts, and the result says how many were repeated.

    Where `torch.distributed` is in use, `compute` puts together what all processes have seen: all
    must call it, and all get the same result. With `sync_on_compute=False` it tells of this process
    alone. `prefix` and `postfix` are for the names of `Result.as_dict`.

    >>> import torch, weft
    >>> evaluator = weft.Evaluator(metrics=["Precision", "Recall"], top_k=[1, 2])
    >>> evaluator.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]]))
    >>> evaluator.compute()["Recall@1"]
    0.5
    """

    def __init__(
        self,
        metrics: Any,
        top_k: Iterable[int] | int | None = None,
        *,
        train: Any = None,
        num_users: int | None = None,
        num_items: int | None = None,
        user_groups: Any = None,
        item_clusters: Any = None,
        item_features: Any = None,
        relevance_threshold: float | None = None,
        mask_seen: bool | str = "auto",
        ties: str | None = None,
        seed: int = 0,
        correction: RankEstimator | str | None = None,
        per_user: bool = False,
        bootstrap: int | None = None,
        slices: Mapping[str, Any] | None = None,
        exposure: bool = False,
        empty_users: str | None = None,
        repeated_users: str | None = None,
        profile: str | None = None,
        sync_on_compute: bool = True,
        prefix: str = "",
        postfix: str = "",
    ) -> None:
        super().__init__()
        self.prefix, self.postfix, self.sync_on_compute = prefix, postfix, sync_on_compute
        self.repeated_users = (
            None
            if repeated_users is None
            else check_choice("repeated_users", repeated_users, REPEATED_USERS)
        )
        self.num_users = None if num_users is None else check_int("num_users", num_users, least=0)
        self.num_items = None if num_items is None else check_int("num_items", num_items, least=0)
        self.relevance_threshold = check_threshold(relevance_threshold)
        self.correction = (
            RankEstimator.from_settings(correction) if isinstance(correction, str) else correction
        )
        self.keeps_per_user, self.keeps_exposure = per_user, check_bool("exposure", exposure)
        self.profile = None if profile is None else find_profile(profile)
        chosen = resolve_defaults(self.profile, ties=ties, empty_users=empty_users)
        self.empty_users = check_choice("empty_users", chosen["empty_users"], EMPTY_USERS)
        self.rule = TieRule(chosen["ties"], seed)
        wanted = [
            metric if self.profile is None else apply_profile(metric, self.profile)
            for metric in as_metric_list(metrics)
        ]
        self.masks_seen = decide_masking(mask_seen, train is not None)
        labels = {
            "user_groups": user_groups,
            "item_clusters": item_clusters,
            "item_features": item_features,
        }
        self.inputs = self._read_inputs(train, labels)
        self._refuse_other_settings(wanted)
        self.bootstrap = None if bootstrap is None else check_int("bootstrap", bootstrap, least=2)
        self.slices = {
            name: read_positional_labels(given, f"slices[{name!r}]", "user", self.num_users)
            for name, given in dict(slices or {}).items()
        }
        self.metric_set = MetricSet(
            wanted,
            as_cutoffs(top_k),
            inputs=self.inputs,
            counting=self._counting(),
            slices=self.slices,
            exposure=self._exposed_items() if self.keeps_exposure else None,
        )
        self.specs, self.cutoffs, self.depth = (
            self.metric_set.specs,
            self.metric_set.cutoffs,
            self.metric_set.depth,
        )
        self.own_metrics = nn.ModuleList(self.metric_set.own.values())
        if self.drops_repeats:
            self._refuse_to_drop()

        self._counter = BatchCounter(self.cutoffs, self.inputs.get("user_groups"), self.slices)
        self._is_persistent = False
        self._begin(torch.device("cpu"))

    def _begin(self, device: torch.device) -> None:
        """No batch yet. The sums are no buffers: those of a model are sent round by
        DistributedDataParallel, and may be halved.
        """
        # NumPy's zeros take no memory before they are written to: of a large catalogue most items
        # stay untouched.
        self.sums = torch.from_numpy(np.zeros(self.metric_set.layout.size)).to(
            device, float_type(device)
        )
        self.counts = torch.zeros(len(self._counter.names), device=device, dtype=float_type(device))
        self._users: list[Tensor] = []  # who was met, where rows are named
        self._table: list[
            tuple[Tensor, Tensor, Tensor]
        ] = []  # the table per user: who, whether he stands in it, his values
        self._contributions: list[UserContributions] = []
        self._items_met: int | None = None
        self._rows_met = 0  # rows without a user number are counted on
        self._is_named = True  # whether every row came with the number of its user
        self._has_lists = False  # what the source gives: lists, or scores
        self._has_candidates = False  # whether something else than the whole catalogue was offered

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Evaluator:
        """Move to another device. Whatever type a model is changed to, sums keep theirs."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        move = dtype_preserving(fn)
        self.sums, self.counts = (
            move(part).to(float_type(move(part[:0]).device)) for part in (self.sums, self.counts)
        )
        self._users = [move(users) for users in self._users]
        self._table = [
            (move(users), move(kept), move(values)) for users, kept, values in self._table
        ]
        return self

    @property
    def drops_repeats(self) -> bool:
        """Whether each user counts once."""
        return self.repeated_users == "drop"

    @property
    def supports_row_filtering(self) -> bool:
        """Whether what each row adds can be told apart, so that repeated users can be dropped: not
        for authors' own states.
        """
        return all(metric.supports_row_filtering for metric in self.own)

    def _refuse_to_drop(self) -> None:
        if not self.supports_row_filtering:
            names = ", ".join(
                str(metric.spec) for metric in self.own if not metric.supports_row_filtering
            )
            raise SettingError(
                f"repeated_users='drop' needs to know what each user adds, but {names} keeps "
                "states of its own; evaluate it apart, "
                "or see to it that no user comes twice."
            )

    def _read_inputs(self, train: Any, labels: dict[str, Any]) -> dict[str, Any]:
        """What metrics may ask for, by number."""
        inputs: dict[str, Any] = {}
        if train is not None:
            try:
                inputs["train"] = Train.read(train, self.num_users, self.num_items)
            except SettingError as error:
                raise SettingError(
                    f"{str(error).rstrip('.')}, or give num_users= and num_items= too."
                ) from None
            self.num_items = inputs["train"].num_items
        for name, given in labels.items():
            if given is not None and name == "user_groups":
                inputs[name] = read_positional_labels(given, name, "user", self.num_users)
            elif given is not None:
                read = (
                    read_positional_features
                    if name == "item_features"
                    else partial(read_positional_labels, where=name, kind="item")
                )
                inputs[name] = read(given, size=self.num_items)
                self.num_items = inputs[name].size if self.num_items is None else self.num_items
        sizes = {"num_users": self.num_users, "num_items": self.num_items}
        return inputs | {name: size for name, size in sizes.items() if size is not None}

    def _exposed_items(self) -> int:
        if self.num_items is None:
            raise MissingInput(
                "exposure=True counts the recommendations of each item and needs num_items=, or "
                "train=."
            )
        return self.num_items

    def _counting(self) -> dict[str, Any]:
        """How this run counts, for metrics that are alone."""
        return {
            "relevance_threshold": self.relevance_threshold,
            "ties": self.rule.name,
            "seed": self.rule.seed,
            "empty_users": self.empty_users,
        }

    def _refuse_other_settings(self, metrics: list[Any]) -> None:
        """A metric object that was told to count in another way than the run would silently be
        overruled.
        """
        for metric in metrics:
            if isinstance(metric, BaseMetric):
                unsaid = inspect.signature(BaseMetric.__init__).parameters
                for name, value in metric.settings().items():
                    if value not in (unsaid[name].default, self._counting()[name]):
                        raise SettingError(
                            f"{metric.spec} was made with {name}={value!r}, but all metrics of a "
                            "run count alike, here with "
                            f"{name}={self._counting()[name]!r}; give {name}={value!r} to the "
                            "evaluation instead."
                        )
                size = getattr(metric, "num_items", None)
                if isinstance(size, int) and self.num_items not in (None, size):
                    raise SettingError(
                        f"{metric.spec} was made with num_items={size}, but the run has "
                        f"{self.num_items} items."
                    )
                for name, own in metric.own_inputs().items():
                    if name in self.inputs and not own.equals(self.inputs[name]):
                        raise SettingError(
                            f"{metric.spec} was made with another {name} than that of the run; "
                            "give metrics by name, or the same "
                            f"{name}."
                        )

    # ----------------------------------------------------------------------------------------------

    @torch.no_grad()
    def update(
        self, preds: Tensor, target: Any, user_indices: Any = None, items: Any = None
    ) -> None:
        """Add a batch: scores `[batch, items]`, and their truth as a dense or sparse matrix or as
        lists of item numbers.

        `user_indices` tells who the rows are; needed with `train`, and to name the rows of the
        per-user table.

        With `items [batch, n]`, item numbers (-1 fills up short rows), `preds [batch, n]` are the
        scores of these candidates, and nothing else was offered. The truth goes by item number as
        ever, or is dense `[batch, n]`, a rating for each candidate.

        Off the CPU nothing here waits for the device, but for a dense `[batch, items]` target on
        it, whose number of cells is data, `bootstrap`, `repeated_users="drop"`, and masking by very
        long train rows; `docs/devices.md` has the forms that never wait."""
        if user_indices is None and self.masks_seen:
            raise InputError(
                "update() needs user_indices, to know whose seen items to mask; or give "
                "mask_seen=False."
            )
        if user_indices is None and "user_groups" in self.inputs:
            raise InputError("update() needs user_indices, to know the groups of the users.")
        if user_indices is None and (self.slices or self.bootstrap or self.drops_repeats):
            why = (
                "which slice users are in"
                if self.slices
                else "users by something that stays the same, to resample them"
            )
            why = "who was counted already" if self.drops_repeats else why
            raise InputError(f"update() needs user_indices, to know {why}.")
        scores, users = check_batch(preds, user_indices, first=self._rows_met)
        offered: Tensor | BatchLists = scores
        candidates = None if items is None else check_item_numbers(items, scores)
        if candidates is None:
            num_items = scores.shape[1]
            self._check_items(num_items)
        elif self.num_items is None:
            raise InputError(
                "update() with items= needs to know how many items there are; give the Evaluator "
                "num_items=."
            )
        else:
            num_items = self.num_items
            offered = validation_for(scores.device).read_candidates(
                scores, candidates, users=users, num_items=num_items
            )
        if "user_groups" in self.inputs:
            check_users(users, self.inputs["user_groups"].size, "user_groups")
        for name, labels in self.slices.items():
            check_users(users, labels.size, f"slices[{name!r}]")
        truth = read_target(
            target,
            len(scores),
            num_items=num_items,
            device=scores.device,
            candidates=candidates,
        )
        seen = (
            self._seen(self.inputs["train"], user_indices, scores.device)
            if self.masks_seen
            else None
        )
        self.add(BatchInputs(offered, truth, users, seen=seen))
        self._rows_met += len(scores)
        self._items_met = num_items
        if user_indices is None:
            self._is_named = False
        else:
            self._users.append(users)

    def _check_items(self, found: int) -> None:
        """All batches have the same items: as many as was said, or as in the first batch."""
        expected = self.num_items if self.num_items is not None else self._items_met
        if expected is not None and found != expected:
            said = (
                f"num_items={expected}"
                if self.num_items is not None
                else f"an earlier batch had {expected}"
            )
            raise InputError(f"preds has {found} items, but {said}; give one column per item.")

    def _seen(self, train: Train, users: Any, device: torch.device) -> SparseRows:
        """The train rows of the users, looked up on the host if their numbers are there."""
        numbers = torch.as_tensor(users).long()
        if (
            not is_host_readable(numbers.device)
            and train.on_device.max_length * _MOST_PADDING <= train.num_items
        ):
            return train.on_device.select(to_device(numbers, device))
        numbers = numbers.cpu()
        check_users(numbers, train.interactions.num_users, "train")
        return SparseRows.from_interactions(
            train.interactions.select_users(numbers.numpy()), device
        )

    def add(self, inputs: BatchInputs) -> None:
        """Add a batch whose inputs are encoded already."""
        predictions = inputs.predictions
        lists = predictions if isinstance(predictions, BatchLists) else None
        has_sizes = lists is not None and (inputs.sample_sizes is not None or lists.is_missing)
        if self.correction is not None and predictions is not None and not has_sizes:
            raise SettingError(
                f"correction={self.correction.method!r} needs candidates with uniformly drawn "
                "negatives, and how many there were "
                "to draw from; give strategy='sampled', or leave correction out."
            )
        is_complete = lists is not None and lists.is_complete
        self._has_lists = lists is not None and not is_complete
        is_restricted = inputs.item_mask is not None or inputs.candidates is not None
        self._has_candidates |= is_complete or is_restricted
        options = RankingOptions(
            self.rule,
            self.depth,
            relevance_threshold=self.relevance_threshold,
            estimator=self.correction,
        )
        with open_batch(inputs, options) as batch:
            self._accumulate(batch)

    def _accumulate(self, batch: Batch) -> None:
        # Whatever may fail comes first, so that a batch that fails is not half counted.
        by_user = self.bootstrap is not None or self.drops_repeats
        self._note_users(batch)
        terms = self.metric_set.layout.contributions(batch, by_user=by_user)
        counts = self._counter.count(batch, by_user=self.drops_repeats).to(self.counts.dtype)
        of_each = counts if self.drops_repeats else counts.new_empty((batch.size, 0))
        contributions = (
            UserContributions.from_batch(batch, self.metric_set.layout, terms, of_each)
            if by_user
            else None
        )
        kept = self.metric_set.user_values(batch) if self.keeps_per_user else None
        own = self.metric_set.own.values()
        before = [(metric, metric.states()) for metric in own]
        try:
            for metric in own:
                metric.accumulate(batch)
        except BaseException:
            for metric, states in before:
                metric.restore(states)
            raise
        self.counts += counts.sum(0) if self.drops_repeats else counts
        self.metric_set.layout.add(self.sums, terms)
        if kept is not None:
            self._table.append((batch.users, *kept))
        if contributions is not None:
            self._contributions.append(contributions)

    def _note_users(self, batch: Batch) -> None:
        """Count users who are no rows of an input, where the host could not look."""
        if is_host_readable(batch.device):
            return
        about = [self.inputs["user_groups"]] if "user_groups" in self.inputs else []
        sizes = [labels.size for labels in (*about, *self.slices.values())]
        sizes += [self.inputs["train"].interactions.num_users] if self.masks_seen else []
        if sizes:
            batch.validation.add("bad_users", count_users_outside(batch.users, min(sizes)))

    # ----------------------------------------------------------------------------------------------

    @torch.no_grad()
    def compute(self, kept: ContributionStore | None = None) -> Result:
        """The Result of all batches so far, of all processes. `kept`: what is resampled, where that
        is kept elsewhere.
        """
        gathered, processes = self.gathered(), num_processes() if self.sync_on_compute else 1
        if processes > 1:
            gathered = synchronize(gathered, self.identity(), self.own)
        result = self._result(gathered, kept)
        return (
            replace(result, provenance={**result.provenance, "processes": processes})
            if processes > 1
            else result
        )

    @torch.no_grad()
    def forward(
        self, preds: Tensor, target: Any, user_indices: Any = None, items: Any = None
    ) -> Result:
        """Add a batch, and give the Result of it alone."""
        before, device = self.gathered(), self.sums.device
        self.reset()
        self._rows_met = before.num_rows
        try:
            self.update(preds, target, user_indices, items)
            of_batch = self.gathered()
        except BaseException:
            self.take(before)
            raise
        # Rows without a number were counted on already.
        whole = combine_states([before, replace(of_batch, has_user_indices=True)], self.own)
        self.take(
            replace(
                whole,
                num_rows=of_batch.num_rows,
                has_user_indices=before.has_user_indices and of_batch.has_user_indices,
            )
        )
        self.to(device)
        return self._result(of_batch)

    def _result(self, gathered: EvaluationState, kept: ContributionStore | None = None) -> Result:
        """What was gathered, as values."""
        first, contributions = (
            gathered.first_rows(),
            UserContributions.from_rows(gathered.rows, self.metric_set.layout),
        )
        repeated = 0 if first is None else len(first) - int(first.sum())
        if repeated and self.drops_repeats:
            assert first is not None and contributions is not None
            contributions = contributions.select(first.cpu().numpy())
            gathered = self._once_each(gathered, first, contributions)
        counts = self._counter.read(gathered.counts)
        counts |= {
            "items": self.num_items or gathered.num_items or 0,
            **count_items_without_input(self.metric_set, self.inputs),
        }
        counts |= {"repeated_users": repeated} if repeated or self.drops_repeats else {}
        train: Train | None = self.inputs.get("train")
        counts |= {} if train is None else {"train_interactions": train.num_interactions}
        sums = gathered.sums.cpu()
        read = self.metric_set.layout.view(sums)
        with self._own_states(gathered.metric_states):
            values = tuple(self.metric_set.values(read))
        how = (self.rule.name, self.empty_users, self.correction)
        about = NoteContext(
            self.metric_set,
            self.inputs,
            *how,
            gathered.has_lists,
            gathered.has_candidates,
            self.drops_repeats,
        )
        notes = count_notes(about, counts)
        notes += undefined_notes(self.metric_set, values, notes)
        if self.bootstrap is not None:
            kept = (
                LocalContributions(contributions)
                if kept is None and contributions is not None
                else kept
            )
            values, more = self._with_intervals(values, self.bootstrap, kept)
            notes += more
        per_user, labels = self._users_table(gathered)
        exposure, popularity = exposure_frames(self.metric_set.layout, read, train)
        return Result(
            values=values,
            counts=counts,
            notes=tuple(notes),
            settings=self._settings(),
            provenance=versions(),
            per_user=per_user,
            slices=self.metric_set.by_slice(sums) if self.slices else None,
            exposure=exposure,
            popularity=popularity,
            user_labels=labels,
            prefix=self.prefix,
            postfix=self.postfix,
        )

    def _once_each(
        self, gathered: EvaluationState, first: Tensor, contributions: UserContributions
    ) -> EvaluationState:
        """What was gathered of each user's first row."""
        users = gathered.rows["users"][first].cpu()
        rows = {
            name: values[first]
            for name, values in gathered.rows.items()
            if name.startswith("table_")
        }
        counts = torch.from_numpy(contributions.counts.sum(0))
        own = tuple(
            metric.filter_rows(states, first)
            for metric, states in zip(self.own, gathered.metric_states)
        )
        return replace(
            gathered,
            sums=contributions.total(self.metric_set.layout, users),
            counts=counts,
            rows=rows,
            metric_states=own,
        )

    def _with_intervals(
        self, values: tuple[MetricValue, ...], resamples: int, kept: ContributionStore | None
    ) -> tuple[tuple[MetricValue, ...], list[str]]:
        """The values with the intervals of resampled users, and what to say about these."""
        resampled = self.metric_set.resample(kept, values, resamples, self.rule.seed)
        if not resampled:
            return values, [
                "fewer than two users cannot be resampled: there are no bootstrap intervals"
            ]
        found = {
            value.name: bootstrap_interval(value.value, *resampled[value.name])
            for value in values
            if value.name in resampled and (value.users is None or value.users > 1)
        }
        with_intervals = tuple(
            _with(value, found.get(value.name, BootstrapInterval())) for value in values
        )
        return with_intervals, list(
            interval_notes(self.metric_set, with_intervals, found, resamples)
        )

    def _settings(self) -> dict[str, Any]:
        return {
            "metrics": [str(spec) for spec in self.specs],
            "mask_seen": self.masks_seen,
            **self._counting(),
            **({} if self.correction is None else self.correction.settings()),
            "profile": None if self.profile is None else self.profile.tool,
            **({} if self.bootstrap is None else {"bootstrap": self.bootstrap}),
            **({"slices": list(self.slices)} if self.slices else {}),
            **({} if self.repeated_users is None else {"repeated_users": self.repeated_users}),
        }

    def users_table(self) -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
        """The values of each user met so far, if they are kept, and what is known of these, if
        anything; by user number.
        """
        return self._users_table(self.gathered())

    def _users_table(
        self, gathered: EvaluationState
    ) -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
        if not self.keeps_per_user:
            return None, None
        values = self._per_user_frame(gathered.rows)
        return values, self._user_labels(values["user"]) if gathered.has_user_indices else None

    def _per_user_frame(self, rows: Mapping[str, Tensor]) -> pl.DataFrame:
        import polars as pl

        kept = rows["table_kept"]
        users, values = rows["table_users"][kept].cpu(), rows["table_values"][kept].cpu()
        columns, table = self.metric_set.user_columns, values.double().numpy()
        order = [spec for spec in self.specs if spec in columns]
        return pl.DataFrame(
            [
                pl.Series("user", users.numpy()),
                *(pl.Series(str(spec), table[:, columns.index(spec)]) for spec in order),
            ]
        )

    def _user_labels(self, users: pl.Series) -> pl.DataFrame | None:
        """What is known of each user, as `Result.user_labels` has it; None if nothing is."""
        import polars as pl

        numbers, columns = users.to_numpy(), list[pl.Series]()
        if "train" in self.inputs:
            activity = np.diff(self.inputs["train"].interactions.offsets)
            known = numbers < len(
                activity
            )  # others may be no rows of train, where nothing is masked
            found = pl.Series(
                "activity",
                activity[np.where(known, numbers, 0)] if len(activity) else numbers * 0,
                dtype=pl.Int64,
            )
            columns.append(found.set(pl.Series(~known), None))
        named = {"user_groups": self.inputs["user_groups"]} if "user_groups" in self.inputs else {}
        for name, labels in (
            named | {slice_column(name): labels for name, labels in self.slices.items()}
        ).items():
            codes = labels.codes.values.cpu().numpy()[numbers]
            texts = pl.Series(name, [*map(str, labels.names), None], dtype=pl.String)
            columns.append(texts.gather(np.where(codes < 0, len(labels.names), codes)))
        return pl.DataFrame([users, *columns]) if columns else None

    # ----------------------------------------------------------------------------------------------

    @property
    def own(self) -> list[BaseMetric]:
        """The metrics with states of their own."""
        return list(self.metric_set.own.values())

    @property
    def users_met(self) -> Tensor:
        """The numbers of the users met so far, in this process: a loop that goes on from a saved
        state leaves them out.
        """
        return torch.cat([torch.empty(0, dtype=torch.int64, device=self.sums.device), *self._users])

    def contributions(self) -> UserContributions | None:
        """What each user met so far adds to every sum; None where it is not kept."""
        return UserContributions.from_rows(self.gathered().rows, self.metric_set.layout)

    def gathered(self) -> EvaluationState:
        """All batches so far, as one value. It shares memory with the evaluator: copy it before the
        next batch.
        """
        device = self.sums.device
        rows = {"users": self.users_met}
        if self.keeps_per_user:
            nobody = torch.empty(
                (0, len(self.metric_set.user_columns)), dtype=self.sums.dtype, device=device
            )
            rows["table_users"] = torch.cat(
                [
                    torch.empty(0, dtype=torch.int64, device=device),
                    *(part[0] for part in self._table),
                ]
            )
            rows["table_kept"] = torch.cat(
                [
                    torch.empty(0, dtype=torch.bool, device=device),
                    *(part[1] for part in self._table),
                ]
            )
            rows["table_values"] = torch.cat(
                [nobody, *(part[2].to(nobody.dtype) for part in self._table)]
            )
        kept = [part.to_rows() for part in self._contributions]
        rows |= {
            name: torch.cat([part[name] for part in kept]) for name in (kept[0] if kept else ())
        }
        own = tuple(metric.states() for metric in self.own)
        facts = (
            self._rows_met,
            self._items_met,
            self._is_named,
            self._has_lists,
            self._has_candidates,
        )
        return EvaluationState(self.sums, self.counts, rows, own, *facts)

    def take(self, gathered: EvaluationState) -> None:
        """Be as if these had been the batches so far."""
        self._begin(gathered.sums.device)
        self.sums, self.counts, rows = gathered.sums, gathered.counts, gathered.rows
        self._users = [rows["users"]]
        self._table = (
            [(rows["table_users"], rows["table_kept"], rows["table_values"])]
            if self.keeps_per_user
            else []
        )
        kept = UserContributions.from_rows(rows, self.metric_set.layout)
        self._contributions = [] if kept is None else [kept]
        for metric, states in zip(self.own, gathered.metric_states):
            metric.restore(states)
        self._rows_met, self._items_met, self._is_named = (
            gathered.num_rows,
            gathered.num_items,
            gathered.has_user_indices,
        )
        self._has_lists, self._has_candidates = gathered.has_lists, gathered.has_candidates

    @contextmanager
    def _own_states(self, states: tuple[dict[str, Any], ...]) -> Iterator[None]:
        """Metrics with states of their own, in these for a while."""
        before = [metric.states() for metric in self.own]
        for metric, other in zip(self.own, states):
            metric.restore(other)
        try:
            yield
        finally:
            for metric, mine in zip(self.own, before):
                metric.restore(mine)

    def identity(self) -> dict[str, Any]:
        """What must be the same of evaluators whose states are put together: the settings, and a
        digest of each input.
        """
        classes = [f"{of.__module__}.{of.__qualname__}" for of in self.metric_set.classes.values()]
        others = [name for name in classes if not name.startswith("weft.")]
        digests = {
            f"slices[{name!r}]": labels.fingerprint() for name, labels in self.slices.items()
        }
        for name, given in self.inputs.items():
            digests[name] = (
                given.fingerprint() if isinstance(given, (Train, Labels, Features)) else given
            )
        kept = {"per_user": self.keeps_per_user, "exposure": self.keeps_exposure}
        about = {**kept, "num_items": self.num_items, "classes of metrics": others}
        # Another version may add up something else under the same names.
        return {"weft": versions()["weft"], **self._settings(), **about, **digests}

    def reset(self) -> None:
        """Forget every batch."""
        self._begin(self.sums.device)
        for metric in self.own:
            metric.reset()

    def clone(self, prefix: str | None = None, postfix: str | None = None) -> Evaluator:
        """A copy that goes on by itself, with another prefix or postfix if one is given."""
        other = copy.deepcopy(self)
        other.prefix = self.prefix if prefix is None else prefix
        other.postfix = self.postfix if postfix is None else postfix
        return other

    def __deepcopy__(self, memo: dict[int, Any]) -> Evaluator:
        memo |= {
            id(given): given for given in (*self.inputs.values(), *self.slices.values())
        }  # nobody changes them
        other: Evaluator = type(self).__new__(type(self))
        memo[id(self)] = other
        other.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return other

    def persistent(self, mode: bool = True) -> None:
        """Whether, as a part of a model, the state is saved with it. As for metrics of
        TorchMetrics, it is not unless asked for.

        The `state_dict` of an evaluator itself always has it.
        """
        self._is_persistent = mode

    def get_extra_state(self) -> dict[str, Any]:
        """What `state_dict` holds: the identity of the evaluator, and what it has gathered."""
        gathered = self.gathered()
        return {
            "identity": self.identity(),
            **vars(gathered),
            "sums": gathered.sums.clone(),
            "counts": gathered.counts.clone(),
        }

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        """Take up a state; refuses that of other metrics, settings or inputs."""
        check_compatible(
            self.identity(),
            state["identity"],
            "cannot take up this state: the evaluator and the state",
        )
        device = self.sums.device
        self.take(copy.deepcopy(EvaluationState.from_dict(state)))
        self.to(device)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        if not prefix or self._is_persistent:
            super()._save_to_state_dict(destination, prefix, keep_vars)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        if not prefix or self._is_persistent or f"{prefix}_extra_state" in state_dict:
            super()._load_from_state_dict(state_dict, prefix, *rest)

    def merge(self, other: Evaluator) -> None:
        """Add what another evaluator of the same metrics and settings has seen of other users."""
        if not isinstance(other, Evaluator):
            raise SettingError(
                f"an Evaluator merges with another Evaluator; got a {type(other).__name__}."
            )
        check_compatible(self.identity(), other.identity(), "cannot merge evaluators that")
        device = self.sums.device
        self.take(combine_states([self.gathered(), other.gathered()], self.own))
        self.to(device)


def _with(value: MetricValue, found: BootstrapInterval) -> MetricValue:
    """A value with its intervals."""
    return replace(
        value,
        boot_low=found.low,
        boot_high=found.high,
        bca_low=found.bca_low,
        bca_high=found.bca_high,
        boot_std_error=found.std_error,
    )


def as_cutoffs(top_k: Any) -> list[int]:
    """Cut-offs as a list; refuses anything but whole numbers from 1 up."""
    if top_k is None:
        return []
    cutoffs = top_k if isinstance(top_k, Iterable) and not isinstance(top_k, str) else [top_k]
    for k in cutoffs:
        try:
            check_int("top_k", k)
        except SettingError:
            raise SettingError(
                f"top_k holds {k!r}; cut-offs are whole numbers from 1 up, like top_k=[10, 20]."
            ) from None
    return [int(k) for k in cutoffs]


def decide_masking(mask_seen: bool | str, has_train: bool) -> bool:
    """Whether seen items are masked."""
    if not isinstance(mask_seen, (bool, str)) or mask_seen not in (True, False, "auto"):
        raise SettingError(f"mask_seen={mask_seen!r} is not known; choose True, False or 'auto'.")
    if mask_seen is True and not has_train:
        raise MissingInput("mask_seen=True needs train=, the interactions whose items are masked.")
    return has_train and mask_seen is not False


def versions() -> dict[str, str]:
    """What computed the result."""
    from importlib.metadata import version

    return {
        "weft": version("weft"),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
    }

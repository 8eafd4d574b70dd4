"""The single pass: batches of users go in, the sums of all metrics grow, a Result comes out."""

from __future__ import annotations

import inspect
import math
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import torch
from torch import Tensor, nn

from weft.blocks import Batch, complete_lists, open_batch
from weft.data import Features, Label, Labels, ListRows, Train
from weft.data.interactions import check_threshold
from weft.data.labels import features_by_number, labels_by_number
from weft.data.rows import SparseRows, rows_of_target
from weft.errors import InputError, MissingInput, SettingError, one_of, whole_number
from weft.metrics.base import EMPTY_USERS, BaseMetric, check_batch, check_users
from weft.metrics.means import Reading, SummedMetric, UserAverageTopKMetric, UserMean
from weft.metrics.totals import Ledger, Total
from weft.names import Spec, print_cell
from weft.orders import Correction
from weft.profiles import adopt, choose, find_profile
from weft.ranking import Drawn, TieRule
from weft.registry import as_list, build, expand
from weft.result import SLICE_COLUMNS, MetricValue, Result, slice_schema
from weft.uncertainty import Floats, Kept, Resampled, Resampling, interval

if TYPE_CHECKING:
    import polars as pl

# What is counted in every run, beside short lists and ties at each cut-off.
COUNTS = (
    "users",
    "evaluated_users",
    "users_without_relevant",
    "users_without_truth",
    "missing_users",
    "relevant_items",
    "relevant_seen",
    "relevant_not_offered",
    "ratings_without_score",
    "bad_scores",
)

# What becomes of metrics under a correction: see `BaseMetric.under_sampling`.
ESTIMATED = ("corrected", "combined")
# What to say of items that lack an input which a metric looks at: the count, and what follows.
_ITEMS_WITHOUT = {
    "train": ("items_without_train", "have no train interaction"),
    "item_clusters": ("items_without_cluster", "have no label in item_clusters and are in no cluster"),
    "item_features": ("items_without_features", "have no feature in item_features"),
}


@dataclass(frozen=True)
class _Group:
    """A metric at all its cut-offs: one formula, evaluated once per batch."""

    metric: SummedMetric
    cutoffs: tuple[int, ...]
    specs: tuple[Spec, ...]


class Evaluator(nn.Module):
    """Evaluates batch by batch. Users and items are row and column numbers.

    `metrics`: names, specs or metric objects; `top_k`: the cut-offs of those that are named without one. With `train` (a matrix,
    or cells of row and column numbers), seen items are masked unless `mask_seen=False`. `per_user=True` keeps a value per user,
    metric and cut-off (8 bytes each). `user_groups`, `item_clusters`: a label for each number, as a dict, a frame or a list;
    `item_features`: a set of features for each. Metrics that count items need `num_items`, where train does not tell it. `profile`:
    another tool's definitions, such as `"trec_eval"`.

    `bootstrap=1000` gives intervals by so many resamples of the users, which depend on `seed` and the users' numbers alone. What
    each user adds to the sums is kept for it: 8 bytes per mean and cut-off, 12 per further term, such as a place of a list, or a
    masked item where a metric asks what was offered. `slices`: by name a label for each user, as `user_groups`; metrics with a
    value per user are then also given by label.

    >>> import torch, weft
    >>> evaluator = weft.Evaluator(metrics=["Precision", "Recall"], top_k=[1, 2])
    >>> evaluator.update(torch.tensor([[0.9, 0.5, 0.1]]), torch.tensor([[1, 0, 1]]))
    >>> evaluator.compute()["Recall@1"]
    0.5
    """

    sums: Tensor
    tallies: Tensor

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
        correction: Correction | str | None = None,
        per_user: bool = False,
        bootstrap: int | None = None,
        slices: Mapping[str, Any] | None = None,
        empty_users: str | None = None,
        profile: str | None = None,
    ) -> None:
        super().__init__()
        self.num_users = None if num_users is None else whole_number("num_users", num_users, least=0)
        self.num_items = None if num_items is None else whole_number("num_items", num_items, least=0)
        self.relevance_threshold = check_threshold(relevance_threshold)
        self.correction = Correction.chosen(correction) if isinstance(correction, str) else correction
        self.keeps_per_user = per_user
        self.profile = None if profile is None else find_profile(profile)
        chosen = choose(self.profile, ties=ties, empty_users=empty_users)
        self.empty_users = one_of("empty_users", chosen["empty_users"], EMPTY_USERS)
        self.rule = TieRule(chosen["ties"], seed)
        wanted = [metric if self.profile is None else adopt(metric, self.profile) for metric in as_list(metrics)]
        self.masks_seen = decide_masking(mask_seen, train is not None)
        labels = {"user_groups": user_groups, "item_clusters": item_clusters, "item_features": item_features}
        self._inputs = self._read_inputs(train, labels)
        self._refuse_other_settings(wanted)
        self._classes = expand(wanted, as_cutoffs(top_k), available=set(self._inputs))
        self.specs = tuple(self._classes)
        self.cutoffs = tuple(sorted({spec.k for spec in self.specs if spec.k is not None}))
        self.depth = max(self.cutoffs, default=0)

        self._groups, own = self._fuse()
        self._own_specs = tuple(own)
        self.own_metrics = nn.ModuleList(own.values())
        self.bootstrap = None if bootstrap is None else whole_number("bootstrap", bootstrap, least=2)
        self.slices = {
            name: labels_by_number(given, f"slices[{name!r}]", "user", self.num_users) for name, given in dict(slices or {}).items()
        }
        self._ledger = self._make_ledger()
        self._resampled = Kept(self._ledger)
        self._columns = tuple(spec for group in self._user_means() for spec in group.specs)

        by_cutoff = (f"{what}@{k}" for what in ("short_lists", "ties") for k in self.cutoffs)
        self.count_names = (*COUNTS, *by_cutoff, *(("users_without_group",) if user_groups is not None else ()))
        self.count_names += tuple(f"users_outside_{name}" for name in self.slices)
        # NumPy's zeros take no memory before they are written to: of a large catalogue most items stay untouched.
        self.register_buffer("sums", torch.from_numpy(np.zeros(self._ledger.size)))
        self.register_buffer("tallies", torch.zeros(len(self.count_names), dtype=torch.float64))
        self._kept: list[tuple[Tensor, Tensor]] = []
        self._items_met: int | None = None
        self._rows_met = 0  # rows without a user number are counted on
        self._has_lists = False  # what the source gives: lists, or scores
        self._has_candidates = False  # whether something else than the whole catalogue was offered

    def _fuse(self) -> tuple[list[_Group], dict[Spec, BaseMetric]]:
        """Formulas over totals, in groups that differ in nothing but the cut-off; and metrics that keep states of their own."""
        groups: dict[Spec, _Group] = {}
        own: dict[Spec, BaseMetric] = {}
        for spec in self.specs:
            group = groups.get(spec.at(None))
            if group is not None and spec.k is not None:
                groups[spec.at(None)] = _Group(group.metric, (*group.cutoffs, spec.k), (*group.specs, spec))
                continue
            metric = build(spec, of=self._classes[spec], inputs=self._inputs, alone=False, **self._counting())
            if isinstance(metric, SummedMetric) and metric.is_summed:
                key = spec.at(None) if metric.fuses_cutoffs else spec
                groups[key] = _Group(metric, () if spec.k is None else (spec.k,), (spec,))
            else:
                own[spec] = build(spec, of=self._classes[spec], inputs=self._inputs, **self._counting())
        return list(groups.values()), own

    def _make_ledger(self) -> Ledger:
        """All that the metrics add up, what several of them need once."""
        wanted: dict[Total, set[int]] = {}
        for group in self._groups:
            for total in group.metric.totals():
                wanted.setdefault(total, set()).update(group.cutoffs or (1,))
        return Ledger(wanted, self.slices)

    def _user_means(self) -> list[_Group]:
        """The metrics that have a value per user."""
        return [group for group in self._groups if isinstance(group.metric, UserMean) and group.metric.has_user_values]

    def _read_inputs(self, train: Any, labels: dict[str, Any]) -> dict[str, Any]:
        """What metrics may ask for, by number."""
        inputs: dict[str, Any] = {}
        if train is not None:
            try:
                inputs["train"] = Train.read(train, self.num_users, self.num_items)
            except SettingError as error:
                raise SettingError(f"{str(error).rstrip('.')}, or give num_users= and num_items= too.") from None
            self.num_items = inputs["train"].num_items
        for name, given in labels.items():
            if given is not None and name == "user_groups":
                inputs[name] = labels_by_number(given, name, "user", self.num_users)
            elif given is not None:
                read = features_by_number if name == "item_features" else partial(labels_by_number, where=name, kind="item")
                inputs[name] = read(given, size=self.num_items)
                self.num_items = inputs[name].size if self.num_items is None else self.num_items
        sizes = {"num_users": self.num_users, "num_items": self.num_items}
        return inputs | {name: size for name, size in sizes.items() if size is not None}

    def _counting(self) -> dict[str, Any]:
        """How this run counts, for metrics that are alone."""
        return {
            "relevance_threshold": self.relevance_threshold,
            "ties": self.rule.name,
            "seed": self.rule.seed,
            "empty_users": self.empty_users,
        }

    def _refuse_other_settings(self, metrics: list[Any]) -> None:
        """A metric object that was told to count in another way than the run would silently be overruled."""
        for metric in metrics:
            if isinstance(metric, BaseMetric):
                unsaid = inspect.signature(BaseMetric.__init__).parameters
                for name, value in metric.settings().items():
                    if value not in (unsaid[name].default, self._counting()[name]):
                        raise SettingError(
                            f"{metric.spec} was made with {name}={value!r}, but all metrics of a run count alike, here with "
                            f"{name}={self._counting()[name]!r}; give {name}={value!r} to the evaluation instead."
                        )
                size = getattr(metric, "num_items", None)
                if isinstance(size, int) and self.num_items not in (None, size):
                    raise SettingError(f"{metric.spec} was made with num_items={size}, but the run has {self.num_items} items.")
                for name, own in metric.own_inputs().items():
                    if name in self._inputs and not own.same_as(self._inputs[name]):
                        raise SettingError(
                            f"{metric.spec} was made with another {name} than that of the run; give metrics by name, or the same "
                            f"{name}."
                        )

    @property
    def wants_dense(self) -> bool:
        """Whether a metric is handed blocks of `[batch, items]`, as authors' metrics are."""
        formulas = [group.metric for group in self._groups if isinstance(group.metric, UserAverageTopKMetric)]
        return len(self.own_metrics) > 0 or any(type(metric).per_user is UserAverageTopKMetric.per_user for metric in formulas)

    def _own(self) -> list[BaseMetric]:
        return cast("list[BaseMetric]", list(self.own_metrics))

    # ---------------------------------------------------------------------------------------------------- the pass

    @torch.no_grad()
    def update(self, preds: Tensor, target: Any, user_indices: Any = None, items: Any = None) -> None:
        """Add a batch: scores `[batch, items]`, and their truth as a dense or sparse matrix or as lists of item numbers.

        `user_indices` tells who the rows are; needed with `train`, and to name the rows of the per-user table.

        With `items [batch, n]`, item numbers (-1 fills up short rows), `preds [batch, n]` are the scores of these candidates, and
        nothing else was offered. The truth goes by item number as ever, or is dense `[batch, n]`, a rating for each candidate.
        """
        if user_indices is None and self.masks_seen:
            raise InputError("update() needs user_indices, to know whose seen items to mask; or give mask_seen=False.")
        if user_indices is None and "user_groups" in self._inputs:
            raise InputError("update() needs user_indices, to know the groups of the users.")
        if user_indices is None and (self.slices or self.bootstrap):
            why = "which slice users are in" if self.slices else "users by something that stays the same, to resample them"
            raise InputError(f"update() needs user_indices, to know {why}.")
        scores, users = check_batch(preds, user_indices, first=self._rows_met)
        offered: Tensor | ListRows = scores
        candidates = None if items is None else _item_numbers(items, scores)
        if candidates is None:
            num_items = scores.shape[1]
            self._check_items(num_items)
        elif self.num_items is None:
            raise InputError("update() with items= needs to know how many items there are; give the Evaluator num_items=.")
        else:
            num_items = self.num_items
            offered = complete_lists(scores, candidates, users, num_items)
        if "user_groups" in self._inputs:
            check_users(users, self._inputs["user_groups"].size, "user_groups")
        for name, labels in self.slices.items():
            check_users(users, labels.size, f"slices[{name!r}]")
        truth = rows_of_target(target, len(scores), num_items, scores.device, candidates)
        self.add(offered, truth, users=users, seen=self._seen(self._inputs["train"], users) if self.masks_seen else None)
        self._rows_met += len(scores)
        self._items_met = num_items

    def _check_items(self, found: int) -> None:
        """All batches have the same items: as many as was said, or as in the first batch."""
        expected = self.num_items if self.num_items is not None else self._items_met
        if expected is not None and found != expected:
            said = f"num_items={expected}" if self.num_items is not None else f"an earlier batch had {expected}"
            raise InputError(f"preds has {found} items, but {said}; give one column per item.")

    def _seen(self, train: Train, users: Tensor) -> SparseRows:
        check_users(users, train.cells.num_users, "train")
        return SparseRows.of(train.cells.select(users.cpu().numpy()), users.device)

    def add(
        self,
        scores: Tensor | ListRows | None,
        truth: SparseRows,
        *,
        users: Tensor,
        user_keys: Tensor | None = None,
        seen: SparseRows | None = None,
        relevant: SparseRows | None = None,
        judged: Tensor | None = None,
        raw_scores: Tensor | None = None,
        columns: Tensor | None = None,
        candidates: SparseRows | None = None,
        drawn: Drawn | None = None,
    ) -> None:
        """Add a batch that is prepared already: scores, lists, or None for users for whom the source has nothing.

        What can be recommended, where it is not everything: see `open_batch`.
        """
        known = scores is None or (isinstance(scores, ListRows) and (drawn is not None or scores.missing))
        if self.correction is not None and not known:
            raise SettingError(
                f"correction={self.correction.method!r} needs candidates with uniformly drawn negatives, and how many there were "
                "to draw from; give strategy='sampled', or leave correction out."
            )
        is_complete = isinstance(scores, ListRows) and scores.complete
        self._has_lists = isinstance(scores, ListRows) and not is_complete
        self._has_candidates |= is_complete or columns is not None or candidates is not None
        with open_batch(
            scores,
            truth,
            threshold=self.relevance_threshold,
            users=users,
            user_keys=user_keys,
            rule=self.rule,
            depth=self.depth,
            seen=seen,
            relevant=relevant,
            judged=judged,
            raw_scores=raw_scores,
            columns=columns,
            candidates=candidates,
            drawn=drawn,
            correction=self.correction,
        ) as batch:
            self._accumulate(batch)

    def _accumulate(self, batch: Batch) -> None:
        # Whatever may fail comes first, so that a batch that fails is not half counted.
        terms = self._ledger.terms(batch, by_user=self.bootstrap is not None)
        resampled = None if self.bootstrap is None else self._resampled.prepare(batch, terms)
        tallies = self._tally(batch)
        kept = self._per_user_values(batch) if self.keeps_per_user else None
        before = [(metric, metric.states()) for metric in self._own()]
        try:
            for metric in self._own():
                metric.accumulate(batch)
        except BaseException:
            for metric, states in before:
                metric.restore(states)
            raise
        self.tallies += tallies
        self._ledger.add(self.sums, terms)
        if kept is not None:
            self._kept.append(kept)
        if resampled is not None:
            self._resampled.add(resampled)

    def _per_user_values(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The users with a value in any column, and their values."""
        columns = [batch.truth.values.new_empty((batch.size, 0))]
        for group in self._user_means():
            assert isinstance(group.metric, UserMean)
            cutoffs = self._ledger.cutoffs[group.metric.totals()[0]]
            values = group.metric.evaluated(batch.at(cutoffs))
            columns.append(values[:, [cutoffs.index(k) for k in group.cutoffs or (1,)]])
        table = torch.cat(columns, dim=1)
        keep = (batch.relevant.lengths > 0) | (~torch.isnan(table)).any(1)
        return batch.users[keep], table[keep]

    def _tally(self, batch: Batch) -> Tensor:
        evaluated = (batch.relevant.lengths > 0).sum()
        seen = self._count_seen(batch)
        everyone = torch.full_like(evaluated, batch.size)
        missing = everyone if batch.is_missing else torch.zeros_like(evaluated)
        tallies = {
            "users": everyone,
            "evaluated_users": evaluated,
            "users_without_relevant": batch.judged.sum() - evaluated,
            "users_without_truth": everyone - batch.judged.sum(),
            "missing_users": missing,
            "relevant_items": torch.full_like(evaluated, len(batch.relevant.items)),
            "relevant_seen": seen,
            "relevant_not_offered": (~batch.relevant_offered).sum() - seen,
            "ratings_without_score": (batch.raw_scores == -torch.inf).sum(),
            "bad_scores": batch.bad_rows.sum(),
        }
        if self.cutoffs:
            values = batch.ranking.values
            for k in self.cutoffs:
                tallies[f"short_lists@{k}"] = (batch.lengths < k).sum()
                tied = (values[:, k - 1] == values[:, k]) & (values[:, k] > -torch.inf)
                tallies[f"ties@{k}"] = torch.zeros_like(evaluated) if batch.is_certain else tied.sum()
        if "user_groups" in self._inputs:
            tallies["users_without_group"] = (self._inputs["user_groups"].codes.at(batch.users, -1) < 0).sum()
        for name, labels in self.slices.items():
            tallies[f"users_outside_{name}"] = (labels.codes.at(batch.users, -1) < 0).sum()
        return torch.stack([tallies[name] for name in self.count_names]).to(self.tallies.dtype)

    @staticmethod
    def _count_seen(batch: Batch) -> Tensor:
        """How many relevant cells are masked."""
        keys = batch.relevant.keys
        if batch.seen is None:
            return torch.zeros((), dtype=torch.int64, device=batch.device)
        if batch.device.type == "cpu":  # only what has no score can be: few, but how many would have to be waited for elsewhere
            keys = keys[batch.relevant_scores == -torch.inf]
        return batch.seen.holds(keys).sum()

    # ------------------------------------------------------------------------------------------------- what comes out

    @torch.no_grad()
    def compute(self) -> Result:
        """The Result of all batches so far."""
        counts = {name: int(count) for name, count in zip(self.count_names, self.tallies.tolist())}
        if counts.pop("bad_scores"):
            raise InputError("the scores hold NaN or +inf; scores must be finite, or -inf for items that are not offered.")
        counts |= {"items": self.num_items or self._items_met or 0, **self._items_without()}
        values, notes = tuple(self._values()), self._notes(counts)
        notes += self._undefined(values, notes)
        if self.bootstrap is not None:
            values, more = self._with_intervals(values)
            notes += more
        return Result(
            values=values,
            counts=counts,
            notes=tuple(notes),
            settings=self._settings(),
            provenance=versions(),
            per_user=self._per_user_frame() if self.keeps_per_user else None,
            slices=self._slice_frame() if self.slices else None,
        )

    @property
    def _formulas(self) -> dict[Spec, SummedMetric]:
        found = {spec: group.metric for group in self._groups for spec in group.specs}
        return {spec: found[spec] for spec in self.specs if spec in found}

    def _values(self) -> Iterable[MetricValue]:
        read = self._ledger.read(self.sums.cpu())
        own = dict(zip(self._own_specs, self._own()))
        formulas = self._formulas
        for spec in self.specs:
            metric: BaseMetric
            cells: Mapping[tuple[Label, ...], Tensor] = {}
            if spec in formulas:
                metric = formula = formulas[spec]
                reading, cells = formula.read(read(spec.k)), formula.cells(read(spec.k))
            else:
                metric = own[spec]
                reading = self._read_own(spec, metric)
            about: dict[str, Any] = {"higher_is_better": type(metric).higher_is_better, "target": type(metric).target}
            name = str(spec.at(None))
            if reading.value is not None:
                value = _finite(spec, metric, reading.value)
                yield MetricValue(name, spec.k, value, reading.std_error, reading.users, **about, parts=reading.parts)
                about = {}  # the rates behind a value have no direction of their own
            for labels, cell in cells.items():
                yield MetricValue(name, spec.k, _finite(spec, metric, cell), cell=tuple(map(str, labels)), **about)

    @staticmethod
    def _read_own(spec: Spec, metric: BaseMetric) -> Reading:
        # The plain method: TorchMetrics' wrapper counts update() calls, and this metric was fed by accumulate().
        value = torch.as_tensor(type(metric).compute(metric))
        if value.numel() != 1:
            raise SettingError(f"{spec} computed a value of shape {list(value.shape)}; expected one number.")
        users = metric.users_counted()
        return Reading(value, users=None if users is None else int(users))

    # ------------------------------------------------------------------------------------------- intervals and slices

    def _with_intervals(self, values: tuple[MetricValue, ...]) -> tuple[tuple[MetricValue, ...], list[str]]:
        """The values with the intervals of resampled users, and what to say about these."""
        resampled = self._resample(values)
        if not resampled:
            return values, ["fewer than two users cannot be resampled: there are no bootstrap intervals"]
        found = {
            value.name: interval(value.value, *resampled[value.name])
            for value in values
            if value.name in resampled and (value.users is None or value.users > 1)
        }
        with_intervals = tuple(_with(value, found.get(value.name, Resampled())) for value in values)
        return with_intervals, list(self._notes_of_intervals(with_intervals, found))

    def _resample(self, values: tuple[MetricValue, ...]) -> dict[str, tuple[Floats, float]]:
        """What each value is in every resample of the users, and its acceleration, by name. Nothing for fewer than two users."""
        assert self.bootstrap is not None
        formulas = self._formulas
        means = {str(spec): self._column(spec, formula) for spec, formula in formulas.items() if _is_mean(formula)}
        named = set(map(str, formulas))
        others = [value.name for value in values if value.name not in means and value.plain_name in named]
        whole = self._resampled.whole()
        if whole is None or len(whole.keys) < 2:
            return {}

        def read_others(sums: Tensor) -> Floats:
            read = self._ledger.read(sums)
            found: list[Tensor] = []
            for spec, formula in formulas.items():
                if formula.has_value and not _is_mean(formula):
                    found.append(formula.finish(read(spec.k)))
                found += formula.cells(read(spec.k)).values()
            return np.array([float(value) for value in found])

        resampling = Resampling(whole, self._ledger, read_others, len(others))
        of_means, of_others = resampling.resample(self.bootstrap, self.rule.seed)
        bent_means, bent_others = resampling.accelerations()
        found = {name: (of_means[:, column], float(bent_means[column])) for name, column in means.items()}
        return found | {name: (of_others[:, place], float(bent_others[place])) for place, name in enumerate(others)}

    def _column(self, spec: Spec, formula: SummedMetric) -> int:
        """Where the mean of a metric at its cut-off lies in the table of means."""
        total = formula.totals()[0]
        cutoffs = self._ledger.cutoffs[total]
        first: int = self._ledger.columns(total).start
        return first + (cutoffs.index(spec.k) if total.has_cutoffs and spec.k is not None else 0)

    def _notes_of_intervals(self, values: tuple[MetricValue, ...], found: Mapping[str, Resampled]) -> Iterable[str]:
        if self._own_specs:
            names = ", ".join(map(str, self._own_specs))
            verb = "keeps a state" if len(self._own_specs) == 1 else "keep states"
            yield f"{names} {verb} of their own, which cannot be resampled: no bootstrap interval"
        if gone := {name: one.undefined for name, one in found.items() if one.undefined and not math.isnan(one.low)}:
            yield (
                f"{_some(gone)} {'has' if len(gone) == 1 else 'have'} no value in up to {max(gone.values()):,} of "
                f"{self.bootstrap:,} resamples; the intervals are those of the others"
            )
        if outside := [value.name for value in values if value.interval.kind == "bootstrap"]:
            yield (
                f"{_some(outside)}: the BCa interval is undefined, because nearly all resamples, which hold fewer different users, "
                "lie on one side of the value; shown is the value ± 1.96 standard deviations of the resamples"
            )

    def _slice_frame(self) -> pl.DataFrame:
        """The metrics with a value per user, by group."""
        import polars as pl

        sums, rows = self.sums.cpu(), []
        formulas = [(spec, one) for spec, one in self._formulas.items() if isinstance(one, UserMean) and one.has_user_values]
        for name, labels in self.slices.items():
            for group, label in enumerate(labels.names):
                read = self._ledger.read(self._ledger.of_group(sums, name, group))
                for spec, formula in formulas:
                    found = formula.read(read(spec.k))
                    assert found.value is not None
                    value = MetricValue(
                        str(spec.at(None)), spec.k, _finite(spec, formula, found.value), found.std_error, found.users
                    )
                    rows.append((name, str(label), *(getattr(value, column) for column in SLICE_COLUMNS[2:])))
        return pl.DataFrame(rows, schema=slice_schema(), orient="row")

    # ------------------------------------------------------------------------------------------------- what is said

    def _undefined(self, values: tuple[MetricValue, ...], already_said: list[str]) -> Iterable[str]:
        """Why values are undefined, one note per reason."""
        classes = {str(spec.at(None)): metric for spec, metric in self._classes.items()}
        names: dict[str, dict[str, list[str]]] = {}
        for value in values:
            reason = classes[value.metric].undefined_cell if value.cell else classes[value.metric].undefined
            if math.isnan(value.value) and not any(note.startswith(reason) for note in already_said):
                names.setdefault(reason, {}).setdefault(value.plain_name, []).append(print_cell(value.cell))
        told = {value.plain_name for value in values}
        for spec in self.specs:
            if str(spec) not in told:
                yield f"{spec} has no value: no user or no item has a label"
        for reason, metrics in names.items():
            shown = []
            for name, cells in metrics.items():
                more = f" and {len(cells) - 3} more" if len(cells) > 3 else ""
                shown.append(name + ("" if cells == [""] else f" for {', '.join(cells[:3])}{more}"))
            yield f"{', '.join(shown)} {'is' if len(shown) == 1 else 'are'} undefined: {reason}"

    def _items_without(self) -> dict[str, int]:
        """Items that the metrics leave out, or treat in their own way."""
        uses = self._needs()
        return {
            count: given.cold_items if isinstance(given, Train) else given.unlabelled
            for name, (count, _) in _ITEMS_WITHOUT.items()
            if name in uses and (given := self._inputs[name]) is not None
        }

    def _notes(self, counts: dict[str, int]) -> list[str]:
        notes = []
        if counts["evaluated_users"] == 0 and self.empty_users == "skip":
            notes.append("no user has a relevant item: every mean over evaluated users is undefined")
        if empty := counts["users_without_relevant"]:
            how = "count 0" if self.empty_users == "zero" else "are left out of the means over evaluated users"
            notes.append(f"{empty:,} of {counts['users']:,} users have no relevant item and {how}")
        if unknown := counts["users_without_truth"]:
            notes.append(
                f"{unknown:,} of {counts['users']:,} users are not in the truth and are left out of the means over evaluated users"
            )
        if missing := counts["missing_users"]:
            what = "list and are evaluated with an empty one" if self._has_lists else "scores and are evaluated with an empty list"
            notes.append(f"{missing:,} users of the truth have no {what}")
        if seen := counts["relevant_seen"]:
            notes.append(
                f"{seen:,} of {counts['relevant_items']:,} relevant items are masked because they are in train; "
                "they stay relevant and cannot be hit"
            )
        if (gone := counts["relevant_not_offered"]) and gone > 0:
            why = "not among the candidates, or without a finite score" if self._has_candidates else "no finite score"
            notes.append(f"{gone:,} of {counts['relevant_items']:,} relevant items were not offered ({why})")
        for k in self.cutoffs:
            if short := counts[f"short_lists@{k}"]:
                notes.append(f"{short:,} users have fewer than {k} recommended items")
        for k in self.cutoffs:
            if tied := counts[f"ties@{k}"]:
                notes.append(
                    f"{tied:,} users have equal scores at positions {k} and {k + 1}: ties={self.rule.name!r} decides what is "
                    f"in the top {k}"
                )
        uses = self._needs()
        for name in self.slices:
            if outside := counts[f"users_outside_{name}"]:
                notes.append(
                    f"{outside:,} of {counts['users']:,} users have no label in the slice {name!r} and are in no group of it"
                )
        if (without := counts.get("users_without_group")) and "user_groups" in uses:
            notes.append(f"{without:,} of {counts['users']:,} users have no label in user_groups and are in no group")
        for name, labels in (self._inputs | {f"slices[{name!r}]": labels for name, labels in self.slices.items()}).items():
            if isinstance(labels, (Labels, Features)) and labels.unknown:
                kind = "item" if name.startswith("item_") else "user"
                notes.append(f"{labels.unknown:,} labels of {name} belong to {kind}s that are not known here")
        for name, (what, effect) in _ITEMS_WITHOUT.items():
            if name in uses and (without := counts.get(what)):
                notes.append(f"{without:,} of {counts['items']:,} items {effect}")
        if self.rule.name == "expected" and (others := self._names_of(self._draws_ties)):
            notes.append(f"ties='expected' has no closed form for {', '.join(others)}: drawn as with ties='random'")
        if self.correction is not None and (corrected := self._names_of(lambda metric: metric.under_sampling in ESTIMATED)):
            notes.append(
                f"correction={self.correction.method!r}: {', '.join(corrected)} estimate{'' if len(corrected) > 1 else 's'} what "
                "ranking all items would give"
            )
        if self.correction is not None and (others := self._names_of(lambda metric: metric.under_sampling == "candidates")):
            notes.append(
                f"correction={self.correction.method!r} has no estimate for {', '.join(others)}: computed on the sampled candidates"
            )
        return notes

    def _draws_ties(self, metric: BaseMetric) -> bool:
        """Whether ties="expected" cannot be averaged over: never where positions are estimated."""
        return not metric.averages_ties or (self.correction is not None and metric.under_sampling in ESTIMATED)

    def _names_of(self, holds: Callable[[BaseMetric], bool]) -> list[str]:
        """The metrics for which something holds."""
        metrics = {spec: group.metric for group in self._groups for spec in group.specs} | dict(zip(self._own_specs, self._own()))
        return list(dict.fromkeys(str(spec.at(None)) for spec, metric in metrics.items() if holds(metric)))

    def _needs(self) -> set[str]:
        """The inputs that some metric looks at."""
        return set[str]().union(*(metric.needed_inputs() for metric in (*(group.metric for group in self._groups), *self._own())))

    def _settings(self) -> dict[str, Any]:
        return {
            "metrics": [str(spec) for spec in self.specs],
            "mask_seen": self.masks_seen,
            **self._counting(),
            **({} if self.correction is None else self.correction.settings()),
            "profile": None if self.profile is None else self.profile.tool,
            **({} if self.bootstrap is None else {"bootstrap": self.bootstrap}),
            **({"slices": list(self.slices)} if self.slices else {}),
        }

    def _per_user_frame(self) -> pl.DataFrame:
        import polars as pl

        users = torch.cat([users for users, _ in self._kept]) if self._kept else torch.empty(0, dtype=torch.int64)
        width = len(self._columns)
        values = torch.cat([values for _, values in self._kept]) if self._kept else torch.empty((0, width))
        table = values.cpu().double().numpy()
        order = [spec for spec in self.specs if spec in self._columns]
        return pl.DataFrame(
            [pl.Series("user", users.cpu().numpy()), *(pl.Series(str(spec), table[:, self._columns.index(spec)]) for spec in order)]
        )

    def reset(self) -> None:
        """Forget every batch."""
        self._items_met = None
        self._rows_met = 0
        self._has_candidates = False
        self.sums.zero_()
        self.tallies.zero_()
        self._kept.clear()
        self._resampled.clear()
        for metric in self._own():
            metric.reset()

    def merge(self, other: Evaluator) -> None:
        """Add what another evaluator of the same metrics and settings has seen of other users."""
        if not isinstance(other, Evaluator):
            raise SettingError(f"an Evaluator merges with another Evaluator; got a {type(other).__name__}.")
        mine, theirs = ({**x._settings(), "per_user": x.keeps_per_user, "num_items": x.num_items} for x in (self, other))
        for name in mine | theirs:
            if mine.get(name) != theirs.get(name):
                raise SettingError(f"cannot merge evaluators that differ in {name}: {mine.get(name)!r} and {theirs.get(name)!r}.")
        for name, labels in self.slices.items():
            if not labels.same_as(other.slices[name]):
                raise SettingError(f"cannot merge evaluators that differ in slices[{name!r}]; give both the same.")
        for name in self._inputs.keys() | other._inputs.keys():
            given, further = self._inputs.get(name), other._inputs.get(name)
            alike = (
                given.same_as(further) if isinstance(given, (Train, Labels, Features)) and further is not None else given == further
            )
            if not alike:
                raise SettingError(f"cannot merge evaluators that differ in {name}; give both the same.")
        self._has_candidates |= other._has_candidates
        if other._items_met is not None:
            self._check_items(other._items_met)
            self._items_met = other._items_met
        self.sums += other.sums.to(self.sums.device)
        self.tallies += other.tallies.to(self.tallies.device)
        self._kept += [(users.to(self.sums.device), values.to(self.sums.device)) for users, values in other._kept]
        self._resampled.absorb(other._resampled)
        for metric, further in zip(self._own(), other._own()):
            metric.absorb(further)


def _item_numbers(items: Any, scores: Tensor) -> Tensor:
    """The number of the item that each score is of, `[batch, n]`."""
    numbers = torch.as_tensor(items, device=scores.device)
    if numbers.shape != scores.shape:
        raise InputError(f"items has shape {list(numbers.shape)}, but preds {list(scores.shape)}; expected an item for each score.")
    if (numbers.is_floating_point() or numbers.is_complex() or numbers.dtype == torch.bool) and numbers.numel():
        raise InputError(f"items are of {numbers.dtype}; expected item numbers, and -1 to fill up short rows.")
    return numbers.long()


def _is_mean(metric: SummedMetric) -> bool:
    return isinstance(metric, UserMean) and metric.is_user_mean


def _with(value: MetricValue, found: Resampled) -> MetricValue:
    """A value with its intervals."""
    return replace(
        value,
        boot_low=found.low,
        boot_high=found.high,
        bca_low=found.bca_low,
        bca_high=found.bca_high,
        boot_std_error=found.std_error,
    )


def _some(names: Iterable[str]) -> str:
    """Names for a note, not all if they are many."""
    first = list(names)
    more = f" and {len(first) - 4} more" if len(first) > 4 else ""
    return ", ".join(first[:4]) + more


def _finite(spec: Spec, metric: BaseMetric, value: Tensor) -> float:
    """A value that is a number or undefined, never infinite."""
    number = float(value)
    if not math.isinf(number):
        return number
    if metric.reads_scores:
        raise InputError(f"{spec} is infinite: the scores or ratings are too large to compute with; rescale them.")
    raise InputError(
        f"{spec} is infinite: a division by zero, or ratings too large for the gain 2^r - 1. "
        "A metric's undefined values must be NaN; for large ratings use gain=linear, or rescale them."
    )


def as_cutoffs(top_k: Any) -> list[int]:
    """Cut-offs as a list; refuses anything but whole numbers from 1 up."""
    if top_k is None:
        return []
    cutoffs = top_k if isinstance(top_k, Iterable) and not isinstance(top_k, str) else [top_k]
    for k in cutoffs:
        try:
            whole_number("top_k", k)
        except SettingError:
            raise SettingError(f"top_k holds {k!r}; cut-offs are whole numbers from 1 up, like top_k=[10, 20].") from None
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

    return {"weft": version("weft"), "torch": torch.__version__, "numpy": np.__version__, "python": platform.python_version()}

"""The single pass: batches of users go in, the sums of all metrics grow, a Result comes out."""

from __future__ import annotations

import inspect
import platform
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from weft.blocks import Batch, complete_lists, open_batch
from weft.composition import Composition
from weft.data import Features, Labels, ListRows, Train
from weft.data.interactions import check_threshold
from weft.data.labels import features_by_number, labels_by_number
from weft.data.rows import SparseRows, rows_of_target
from weft.errors import InputError, MissingInput, SettingError, one_of, whole_number
from weft.metrics.base import EMPTY_USERS, BaseMetric, check_batch, check_users, item_numbers
from weft.orders import Correction
from weft.profiles import adopt, choose, find_profile
from weft.ranking import Drawn, TieRule
from weft.registry import as_list
from weft.result import MetricValue, Result
from weft.telling import Pass, items_without, notes_of, notes_of_intervals, undefined
from weft.uncertainty import Kept, Resampled, interval

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
        self.bootstrap = None if bootstrap is None else whole_number("bootstrap", bootstrap, least=2)
        self.slices = {
            name: labels_by_number(given, f"slices[{name!r}]", "user", self.num_users) for name, given in dict(slices or {}).items()
        }
        self.composition = Composition(
            wanted, as_cutoffs(top_k), inputs=self._inputs, counting=self._counting(), slices=self.slices
        )
        self.specs, self.cutoffs, self.depth = self.composition.specs, self.composition.cutoffs, self.composition.depth
        self.own_metrics = nn.ModuleList(self.composition.own.values())
        self._resampled = Kept(self.composition.ledger)

        by_cutoff = (f"{what}@{k}" for what in ("short_lists", "ties") for k in self.cutoffs)
        self.count_names = (*COUNTS, *by_cutoff, *(("users_without_group",) if user_groups is not None else ()))
        self.count_names += tuple(f"users_outside_{name}" for name in self.slices)
        # NumPy's zeros take no memory before they are written to: of a large catalogue most items stay untouched.
        self.register_buffer("sums", torch.from_numpy(np.zeros(self.composition.ledger.size)))
        self.register_buffer("tallies", torch.zeros(len(self.count_names), dtype=torch.float64))
        self._kept: list[tuple[Tensor, Tensor]] = []
        self._items_met: int | None = None
        self._rows_met = 0  # rows without a user number are counted on
        self._has_lists = False  # what the source gives: lists, or scores
        self._has_candidates = False  # whether something else than the whole catalogue was offered

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
        candidates = None if items is None else item_numbers(items, scores)
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
        terms = self.composition.ledger.terms(batch, by_user=self.bootstrap is not None)
        resampled = None if self.bootstrap is None else self._resampled.prepare(batch, terms)
        tallies = self._tally(batch)
        kept = self.composition.user_values(batch) if self.keeps_per_user else None
        own = self.composition.own.values()
        before = [(metric, metric.states()) for metric in own]
        try:
            for metric in own:
                metric.accumulate(batch)
        except BaseException:
            for metric, states in before:
                metric.restore(states)
            raise
        self.tallies += tallies
        self.composition.ledger.add(self.sums, terms)
        if kept is not None:
            self._kept.append(kept)
        if resampled is not None:
            self._resampled.add(resampled)

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
                tallies[f"ties@{k}"] = torch.zeros_like(evaluated)
                if not batch.is_certain and k < values.shape[1]:
                    tallies[f"ties@{k}"] += ((values[:, k - 1] == values[:, k]) & (values[:, k] > -torch.inf)).sum()
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
        counts |= {"items": self.num_items or self._items_met or 0, **items_without(self.composition, self._inputs)}
        sums = self.sums.cpu()
        values, notes = tuple(self.composition.values(sums)), notes_of(self._about(), counts)
        notes += undefined(self.composition, values, notes)
        if self.bootstrap is not None:
            values, more = self._with_intervals(values, self.bootstrap)
            notes += more
        return Result(
            values=values,
            counts=counts,
            notes=tuple(notes),
            settings=self._settings(),
            provenance=versions(),
            per_user=self._per_user_frame() if self.keeps_per_user else None,
            slices=self.composition.by_slice(sums) if self.slices else None,
        )

    def _about(self) -> Pass:
        how = (self.rule.name, self.empty_users, self.correction)
        return Pass(self.composition, self._inputs, *how, self._has_lists, self._has_candidates)

    def _with_intervals(self, values: tuple[MetricValue, ...], resamples: int) -> tuple[tuple[MetricValue, ...], list[str]]:
        """The values with the intervals of resampled users, and what to say about these."""
        resampled = self.composition.resample(self._resampled, values, resamples, self.rule.seed)
        if not resampled:
            return values, ["fewer than two users cannot be resampled: there are no bootstrap intervals"]
        found = {
            value.name: interval(value.value, *resampled[value.name])
            for value in values
            if value.name in resampled and (value.users is None or value.users > 1)
        }
        with_intervals = tuple(_with(value, found.get(value.name, Resampled())) for value in values)
        return with_intervals, list(notes_of_intervals(self.composition, with_intervals, found, resamples))

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
        columns = self.composition.user_columns
        values = torch.cat([values for _, values in self._kept]) if self._kept else torch.empty((0, len(columns)))
        table = values.cpu().double().numpy()
        order = [spec for spec in self.specs if spec in columns]
        return pl.DataFrame(
            [pl.Series("user", users.cpu().numpy()), *(pl.Series(str(spec), table[:, columns.index(spec)]) for spec in order)]
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
        for metric in self.composition.own.values():
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
        for metric, further in zip(self.composition.own.values(), other.composition.own.values()):
            metric.absorb(further)


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

"""An evaluation of all users of a source: what is given is read and checked, then users are
evaluated, in any shares and order.
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.batch.batch import BatchInputs
from weft.data import BatchLists
from weft.data.dataset import EvaluationData, GlobalStats, ListOrder, build_dataset
from weft.data.interactions import Interactions, digest, digest_by_id
from weft.data.recommendations import are_lists
from weft.data.slices import parse_slices
from weft.data.sources import ListSource, Source, open_source
from weft.data.tensors import SparseRows
from weft.errors import (
    InputError,
    MissingInput,
    SettingError,
    check_choice,
    check_int,
    check_threshold,
    setting_ref,
)
from weft.evaluation.atomic_files import write_files
from weft.evaluation.candidates import STRATEGIES, CandidateProvider, Choice, read_choice, score
from weft.evaluation.evaluator import Evaluator, as_cutoffs, decide_masking
from weft.evaluation.result import Result
from weft.evaluation.state import check_compatible
from weft.evaluation.state_io import pack_document, read_document
from weft.metrics.names import MetricSpec
from weft.metrics.profiles import apply_profile, find_profile, resolve_defaults
from weft.metrics.registry import as_metric_list, expand_metrics, prototype
from weft.ranking import TIE_RULES, TieRule, restrict_lists
from weft.ranking.rank_estimator import RankEstimator

if TYPE_CHECKING:
    import polars as pl

    from weft.evaluation.contributions import ContributionStore
    from weft.metrics.base.metric import BaseMetric

MISSING_LISTS = ("zero", "skip")
DUPLICATES = ("error", "keep-best")
NO_SOURCE = "the source has nothing"  # a column
# The size of a batch, where the caller does not say: small against memory, large against what a
# batch costs beside its scores.
_BATCH_BYTES = 1 << 26
_BATCH_USERS = 2048
# Positions of lists in one batch: what is computed for each of them should stay in the processor's
# cache.
_BATCH_POSITIONS = 1 << 19
_SAVE_EVERY = 60.0  # seconds between two writings of a checkpoint


class Checkpoint:
    """The file that an evaluation goes on from. `identity`: what must be the same of whoever goes
    on.
    """

    def __init__(self, path: Path, identity: dict[str, Any]) -> None:
        self._path, self._identity = path, identity
        self._done: list[tuple[int, int]] = []
        self._saved = time.monotonic()

    def resume(
        self, evaluator: Evaluator, offers: CandidateProvider, spans: list[tuple[int, int]]
    ) -> list[tuple[int, int]]:
        """Take up what was saved, if anything; gives what is left to do."""
        if not self._path.exists():
            return spans
        document = read_document(self._path)
        if "done" not in document:
            raise InputError(
                f"{self._path}: the state of an Evaluator, not of evaluate(); weft.load_state "
                "reads it."
            )
        try:
            check_compatible(
                document["identity"], self._identity, "cannot go on from it: it and this evaluation"
            )
        except SettingError as error:
            raise SettingError(f"{self._path}: {error} Remove the file to begin anew.") from None
        evaluator.set_extra_state(document["state"])
        offers.count(document["offered"])
        self._done = [(start, stop) for start, stop in document["done"]]
        for done in self._done:
            spans = [left for span in spans for left in _left_of(span, done)]
        return spans

    def add(self, evaluator: Evaluator, offers: CandidateProvider, start: int, stop: int) -> None:
        """These users are done; saved now and then."""
        if self._done and self._done[-1][1] == start:
            start = self._done.pop()[0]
        self._done.append((start, stop))
        if time.monotonic() - self._saved < _SAVE_EVERY:
            return
        document = {
            "identity": self._identity,
            "state": evaluator.get_extra_state(),
            "offered": offers.counted(),
            "done": self._done,
        }
        write_files({self._path: lambda file: file.write(pack_document(document))})
        self._saved = time.monotonic()


def _left_of(span: tuple[int, int], done: tuple[int, int]) -> list[tuple[int, int]]:
    """What of a span of users is not done."""
    (start, stop), (first, end) = span, done
    pieces = (start, min(stop, first)), (max(start, end), stop)
    return (
        [(left, right) for left, right in pieces if left < right]
        if start < end and first < stop
        else [span]
    )


@dataclass(frozen=True)
class EvaluationRun:
    """An evaluation that is ready to be carried out."""

    dataset: EvaluationData
    evaluator: Evaluator
    offers: CandidateProvider
    relevant: Interactions
    user_keys: Tensor | None  # by which ties are drawn and users resampled
    masks: bool
    missing_lists: str
    wanted: Mapping[MetricSpec, type[BaseMetric]]
    facts: Counter[
        str
    ]  # what is counted of the data, beside what metrics see; it adds up over parts of the users
    name: str | None
    device: torch.device | None
    step: int  # users in a batch, unless the widths of their candidates say otherwise
    widths: NDArray[np.int64] | None
    progress: bool
    checkpoint: Path | None

    def run(self, share: tuple[int, int] = (0, 1)) -> None:
        """Evaluate the users of a share: of the first, second, ... of so many processes."""
        share_of, among = share
        last = self.dataset.users.size if self.missing_lists == "zero" else self.dataset.num_rows
        step = min(self.step, max(1, -(-last // among)))
        spans = list(_spans(self.dataset, last, step, self.widths))[share_of::among]
        saved = None
        if self.checkpoint is not None:
            shared = (
                {} if share == (0, 1) else {"process": share, "batch_size": step}
            )  # by which users are shared out
            saved = Checkpoint(self.checkpoint, {**self.identity(), **shared})
            spans = saved.resume(self.evaluator, self.offers, spans)
        with _progress_bar(sum(stop - start for start, stop in spans), self.progress) as advance:
            for start, stop in spans:
                self._evaluate(start, stop)
                if saved is not None:
                    saved.add(self.evaluator, self.offers, start, stop)
                advance(stop - start)

    def _evaluate(self, start: int, stop: int) -> None:
        dataset, offers = self.dataset, self.offers
        scores, where, about = _of_users(dataset, offers, start, stop, self.device)
        if self.evaluator.sums.device != where:
            self.evaluator.to(where)
        truth = SparseRows.from_interactions(dataset.truth.slice_users(start, stop), where)
        seen = (
            dataset.train.interactions.slice_users(start, stop)
            if self.masks and dataset.train is not None
            else None
        )
        inputs = BatchInputs(
            scores,
            truth,
            users=torch.arange(start, stop, device=where),
            user_keys=None if self.user_keys is None else self.user_keys[start:stop].to(where),
            seen=None if seen is None else SparseRows.from_interactions(seen, where),
            relevant=truth
            if self.relevant is dataset.truth
            else SparseRows.from_interactions(self.relevant.slice_users(start, stop), where),
            has_truth=torch.as_tensor(dataset.judged[start:stop]).to(where),
            item_mask=None if offers.columns is None else torch.as_tensor(offers.columns).to(where),
            **about,
        )
        self.evaluator.add(inputs)

    def fingerprint(self) -> dict[str, Any]:
        """Digests of the data and of what was offered, in the names of a result."""
        train, offered = self.dataset.train, self.offers.fingerprint()
        return {
            "truth": digest_by_id(self.dataset.truth, self.dataset.users, self.dataset.items),
            "train": train.interactions.fingerprint() if train is not None else None,
            "source": self.dataset.source.fingerprint(),
            "source_kind": self.dataset.source.kind,
            **({} if offered is None else {"candidates": offered}),
        }

    def identity(self) -> dict[str, Any]:
        """What must be the same of all who carry it out together, or one after the other."""
        dataset = self.dataset
        data = {
            name: known for name, known in self.fingerprint().items() if name != "candidates"
        }  # what is drawn is not known yet
        data |= {
            "users": digest(dataset.users.hash_keys()),
            "items": digest(dataset.items.hash_keys()),
        }  # in the order of their numbers
        given = (
            {}
            if dataset.candidates is None
            else {"candidates given": dataset.candidates.fingerprint()}
        )
        offered = {
            **self.offers.choice.settings,
            "mask_seen": self.masks,
            "missing_lists": self.missing_lists,
        }
        return {**self.evaluator.identity(), **offered, **data, **given}

    def result(
        self, kept: ContributionStore | None = None, fingerprint: Mapping[str, Any] | None = None
    ) -> Result:
        """The result with the caller's ids, and what it should say of the data. A checkpoint has
        done its duty.

        `kept`: what users are resampled from, and `fingerprint`: the digests of all data, where the
        users are elsewhere."""
        found = self._label(self.evaluator.compute(kept), fingerprint or self.fingerprint())
        if self.checkpoint is not None:
            self.checkpoint.unlink(missing_ok=True)
        return found

    def _label(self, result: Result, fingerprint: Mapping[str, Any]) -> Result:
        notes = [note for table in self.dataset.tables.values() for note in table.notes]
        notes += self.dataset.notes
        counts = dict(self.facts)
        missing, repeated = counts.pop("users_without_source"), counts.pop("candidates_repeated", 0)
        if others := counts.get("candidates_unmatched", 0):
            notes.append(f"{others:,} rows of candidates belong to users who are not evaluated")
        if repeated:
            notes.append(f"candidates repeat {repeated:,} (user, item) rows; each counts once")
        if missing and self.missing_lists == "skip":
            what = "scores" if self.dataset.lists is None else "list"
            notes.append(
                f"{missing:,} users of the truth have no {what} and are left out "
                "(missing_lists='skip')"
            )
        notes += _notes_of_lists(self.dataset, self.masks, counts)
        notes += self.offers.notes(is_corrected="correction" in result.settings)
        notes += _notes_of_exposure(self.offers, self.wanted)
        if collapsed := counts["train_repetitions"]:
            notes.append(f"train repeats {collapsed:,} (user, item) rows; each counts once")
        if unmatched := counts["train_rows_unmatched"]:
            notes.append(f"{unmatched:,} rows of train belong to users who are not evaluated")
        files = {
            argument: table.path
            for argument, table in self.dataset.tables.items()
            if table.path is not None
        }
        return replace(
            result,
            name=self.name or _own_name(self.dataset.source),
            counts={**result.counts, **counts, **self.offers.all_counts},
            notes=(*notes, *result.notes),
            settings={
                **result.settings,
                "mask_seen": self.masks,
                "missing_lists": self.missing_lists,
                **self.offers.choice.settings,
                **({"slices": dict(self.dataset.sliced_by)} if self.dataset.sliced_by else {}),
            },
            provenance={
                **result.provenance,
                "fingerprint": dict(fingerprint),
                **({"files": files} if files else {}),
            },
            per_user=self._by_id(result.per_user),
            user_labels=self._by_id(result.user_labels),
        )

    def users_table(self) -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
        """The values and the labels of each user met, as a result has them, and in `NO_SOURCE`
        whether the source has nothing.
        """
        return tuple(  # type: ignore[return-value]
            None
            if rows is None
            else self._by_id(
                rows.with_columns((rows["user"] >= self.dataset.num_rows).alias(NO_SOURCE))
            )
            for rows in self.evaluator.users_table()
        )

    def _by_id(self, rows: pl.DataFrame | None) -> pl.DataFrame | None:
        """Rows of users by number, in order (processes have their users one after the other) and
        with the caller's ids.
        """
        if rows is None:
            return None
        rows = rows.sort("user")
        return rows.with_columns(
            self.dataset.users.ids.gather(rows["user"].to_numpy()).alias("user")
        )


def prepare(
    *,
    source: Any,
    truth: Any,
    metrics: Any,
    top_k: Iterable[int] | int | None,
    train: Any,
    users: Any,
    items: Any,
    user_groups: Any,
    item_clusters: Any,
    item_features: Any,
    relevance_threshold: float | None,
    mask_seen: bool | str,
    candidates: Any,
    ties: str | None,
    seed: int,
    strategy: str,
    num_negatives: int | None,
    negative_sampling: str | None,
    neg_alpha: float | None,
    correction: str | None,
    gamma: float | None,
    per_user: bool,
    bootstrap: int | None,
    slices: Mapping[str, Any] | None,
    exposure: bool,
    empty_users: str | None,
    missing_lists: str | None,
    duplicates: str,
    profile: str | None,
    batch_size: int | None,
    device: torch.device | str | None,
    progress: bool,
    checkpoint: str | Path | None,
    name: str | None,
    whole: GlobalStats | None = None,
) -> EvaluationRun:
    """Read and check everything that `weft.evaluate` is given. Nothing is scored yet, but for a
    model's first answer.

    `whole`: what is known of all users, where these are some of them.
    """
    tool = None if profile is None else find_profile(profile)
    chosen = resolve_defaults(tool, ties=ties, empty_users=empty_users, missing_lists=missing_lists)
    strategy = check_choice("strategy", strategy, STRATEGIES)
    if ties is None and tool is None and strategy == "sampled":
        chosen["ties"] = (
            # where the catalogue goes by popularity, its order tells relevant items from negatives
            "random"
        )
    missing_lists = check_choice("missing_lists", chosen["missing_lists"], MISSING_LISTS)
    batch_size = None if batch_size is None else check_int("batch_size", batch_size)
    relevance_threshold = check_threshold(relevance_threshold)
    masks = decide_masking(mask_seen, train is not None)
    has_lists = isinstance(source, ListSource) or are_lists(source)
    masks = masks and not (has_lists and mask_seen == "auto")
    duplicates = check_choice("duplicates", duplicates, DUPLICATES)
    if duplicates == "keep-best" and not has_lists:
        raise SettingError(
            "duplicates='keep-best' is about recommendation lists; scores have one place for each "
            "user and item."
        )
    metrics = [
        metric if tool is None else apply_profile(metric, tool)
        for metric in as_metric_list(metrics)
    ]
    labels = {
        "user_groups": user_groups,
        "item_clusters": item_clusters,
        "item_features": item_features,
    }
    labels = {name: given for name, given in labels.items() if given is not None}
    available = {"num_users", "num_items", *labels, *(("train",) if train is not None else ())}
    bootstrap = None if bootstrap is None else check_int("bootstrap", bootstrap, least=2)
    sliced = parse_slices(slices, has_train=train is not None)
    # A metric that cannot run is refused before any data is read.
    wanted = expand_metrics(metrics, as_cutoffs(top_k), available=available)
    choice = read_choice(
        candidates,
        strategy,
        num_negatives,
        negative_sampling,
        neg_alpha,
        has_train=train is not None,
        has_lists=has_lists,
    )
    corrected = RankEstimator.from_settings(
        correction,
        gamma,
        strategy=choice.strategy,
        negative_sampling=choice.negative_sampling,
        pool=choice.pool,
    )
    if has_lists and choice.pool != "listed":
        lacking = "the scores of all items, which lists do not have; LAUC is the area that a list tells, and where the lists hold "
        _refuse(
            wanted,
            "needs_all_scores",
            lacking + "every item that was scored, candidates='listed' says so",
        )
    hashes = check_choice("ties", chosen["ties"], TIE_RULES) in ("random", "expected")
    device = None if device is None else _device(device)
    opened = open_source(source)
    if isinstance(opened, ListSource) and not opened.table.has_scores:
        _refuse(
            wanted,
            "reads_scores",
            "scores, which these lists do not have; add a column 'score', or give {user: {item: "
            "score}}",
        )
        _refuse(
            wanted,
            "needs_all_scores",
            "scores, which these lists do not have; LAUC is the area that a list tells",
        )
    order = ListOrder(
        duplicates == "keep-best",
        tool is not None and tool.orders_ties_by_descending_id and ties is None,
    )
    dataset = build_dataset(
        opened,
        truth,
        train,
        users,
        items,
        labels,
        batch_size,
        relevance_threshold,
        order,
        choice.given,
        sliced,
        whole,
    )
    if dataset.lists is not None and dataset.train is not None and mask_seen is not False:
        dataset = replace(
            dataset,
            seen_in_lists=dataset.lists.count_listed(
                dataset.train.interactions.slice_users(0, dataset.num_rows)
            ),
        )
    evaluator = Evaluator(
        metrics,
        top_k,
        num_users=dataset.users.size,
        num_items=dataset.items.size,
        train=dataset.train,
        mask_seen=False,  # masked below
        **dataset.labels,
        relevance_threshold=relevance_threshold,
        ties=chosen["ties"],
        seed=seed,
        correction=corrected,
        per_user=per_user,
        bootstrap=bootstrap,
        slices=dataset.slices,
        exposure=exposure,
        empty_users=chosen["empty_users"],
        profile=profile,
        sync_on_compute=False,  # everybody evaluates what he was given
    )
    if hashes:  # ties go by the caller's ids, wherever their rows and columns stand
        evaluator.rule = TieRule(chosen["ties"], seed, torch.as_tensor(dataset.items.hash_keys()))
    if device is not None:
        evaluator.to(device)
    user_keys = (
        torch.as_tensor(dataset.users.hash_keys()) if hashes or bootstrap is not None else None
    )
    relevant = dataset.truth.filter_relevant(relevance_threshold)
    offers = CandidateProvider(choice, dataset, relevant, masks=masks, seed=seed)
    return EvaluationRun(
        dataset=dataset,
        evaluator=evaluator,
        offers=offers,
        relevant=relevant,
        user_keys=user_keys,
        masks=masks,
        missing_lists=missing_lists,
        wanted=wanted,
        facts=_facts(dataset),
        name=name,
        device=device,
        step=batch_size or _users_at_once(dataset, device, evaluator, choice),
        widths=offers.widths if choice.is_per_user and batch_size is None else None,
        progress=progress,
        checkpoint=None if checkpoint is None else Path(checkpoint),
    )


def _facts(dataset: EvaluationData) -> Counter[str]:
    """What was counted of the data, mostly by the names that a result has."""
    found = {
        "users_without_source": dataset.users.size - dataset.num_rows,
        "train_repetitions": 0 if dataset.train is None else dataset.train.num_duplicates,
        "train_rows_unmatched": dataset.unmatched,
        "seen_in_lists": dataset.seen_in_lists,
        "duplicates_dropped": dataset.dropped,
        "candidates_unmatched": None
        if dataset.candidates is None
        else dataset.candidates_unmatched,
        "candidates_repeated": None if dataset.candidates is None else dataset.candidates_repeated,
    }
    return Counter({name: number for name, number in found.items() if number is not None})


def _of_users(
    dataset: EvaluationData,
    offers: CandidateProvider,
    start: int,
    stop: int,
    device: torch.device | None,
) -> tuple[Tensor | BatchLists | None, torch.device, dict[str, Any]]:
    """What the source has for users `start` to `stop - 1`: scores, lists or nothing; where they
    are; and what they were offered.
    """
    source, where = dataset.source, device or torch.device("cpu")
    offer = offers.take(start, stop) if offers.has_rows(start) else None
    about: dict[str, Any] = {} if offer is None else {"sample_sizes": offer.counted(where)}
    if isinstance(source, ListSource):
        lists = source.lists(start, stop, where)
        if offers.choice.pool == "listed":
            return replace(lists, is_complete=True), where, about
        if offer is None:
            return lists, where, about
        about["raw_scores"] = lists.scores_at(
            SparseRows.from_interactions(dataset.truth.slice_users(start, stop), where).keys
        )
        about["candidates"] = SparseRows.from_interactions(
            offer.rows(stop - start, dataset.items.size), where
        )
        listed = restrict_lists(lists, about["candidates"])
        offers.counts["candidates_not_listed"] += len(offer.cells) - len(listed.items)
        return listed, where, about
    if start >= dataset.num_rows:
        return None, where, about
    if offer is not None:
        lists, about["raw_scores"] = score(source, dataset, offer, start, stop, device)
        where = lists.items.device
        return lists, where, about | {"sample_sizes": offer.counted(where)}
    scores = source.scores(start, stop, dataset.users.ids[start:stop], dataset.items.ids)
    scores = scores if device is None else scores.to(device)
    return scores, scores.device, about


def _refuse(wanted: Mapping[MetricSpec, type[BaseMetric]], trait: str, what: str) -> None:
    """Refuse metrics with a trait that the source cannot serve; `what` says what they need and how
    to get it.
    """
    different = {str(spec.with_cutoff(None)): (spec, metric) for spec, metric in wanted.items()}
    names = [
        name
        for name, (spec, metric) in different.items()
        if getattr(prototype(spec, metric), trait)
    ]
    if names:
        raise MissingInput(f"{', '.join(names)} {'need' if len(names) > 1 else 'needs'} {what}.")


def _users_at_once(
    dataset: EvaluationData, device: torch.device | None, evaluator: Evaluator, choice: Choice
) -> int:
    """How many users are in a batch: as many as the memory of their scores allows. Scores that are
    held already take none.
    """
    source = dataset.source
    if isinstance(source, ListSource) or (choice.is_per_user and source.supports_item_subsets):
        enough = max(1, _BATCH_POSITIONS // (evaluator.depth + 1))
        if not evaluator.metric_set.wants_dense:
            return enough
        return min(enough, _fitting(dataset.items.size))
    is_read_in_place = source.has_scores_in_memory and device is None and choice.pool == "all"
    return _BATCH_USERS if is_read_in_place else _fitting(dataset.items.size)


def _fitting(num_items: int) -> int:
    return int(np.clip(_BATCH_BYTES // (4 * max(1, num_items)), 1, _BATCH_USERS))


def _spans(
    dataset: EvaluationData, last: int, step: int, widths: NDArray[np.int64] | None = None
) -> Iterator[tuple[int, int]]:
    """Batches of rows; those with scores and those without never share one. A model's first answer
    is a batch of its own.

    `widths`: how many cells each user has at most; a batch as wide as the widest of its users stays
    in bounds."""
    if dataset.probed:
        yield 0, dataset.probed
    for first, end in ((dataset.probed, dataset.num_rows), (dataset.num_rows, last)):
        start = first
        while start < end:
            stop = min(start + step, end)
            while (
                widths is not None
                and stop - start > 1
                and (stop - start) * int(widths[start:stop].max()) > _BATCH_POSITIONS
            ):
                stop = start + (stop - start) // 2
            yield start, stop
            start = stop


def _device(given: Any) -> torch.device:
    """A device that is there."""
    try:
        return torch.empty(0, device=given).device
    except (RuntimeError, TypeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise SettingError(
            f"{setting_ref('device', str(given))} cannot be used here: {reason}. Without it, the "
            "scores stay where they are."
        ) from None


def _own_name(source: Source | ListSource) -> str:
    """What to call a model that has no name: after its file, or what it is."""
    table = source.table.entries.table if isinstance(source, ListSource) else None
    if table is None or table.path is None:
        return source.kind
    return Path(table.path).name.partition(".")[0] or source.kind


def _notes_of_exposure(
    offers: CandidateProvider, wanted: Mapping[MetricSpec, type[BaseMetric]]
) -> Iterator[str]:
    """Which metrics look at what was listed, or offered, where that was not the whole catalogue."""
    names = list(
        dict.fromkeys(
            str(spec.with_cutoff(None))
            for spec, metric in wanted.items()
            if prototype(spec, metric).is_exposure_metric
        )
    )
    if names and (what := offers.said_of()):
        many = len(names) > 1
        yield f"{', '.join(names)} {'look' if many else 'looks'} at which items are listed, and ran on candidates: {what}"


def _notes_of_lists(
    dataset: EvaluationData, masks: bool, counts: Mapping[str, int]
) -> Iterator[str]:
    """What to know about the lists that were given."""
    if not isinstance(dataset.source, ListSource):
        return
    named = dataset.source.table
    if named.order == "rank" and named.has_scores:
        yield "the lists have ranks and scores: they are ranked by rank"
    if named.order == "rows" and named.unused_columns:
        unread = ", ".join(map(repr, named.unused_columns))
        yield f"the lists have neither scores nor ranks: rows are taken best first (columns that were not read: {unread})"
    if dropped := counts.get("duplicates_dropped"):
        yield f"{dropped:,} rows repeat an item of their list; its best place is kept"
    if seen := counts.get("seen_in_lists"):
        kept = "and are removed" if masks else "and are kept; mask_seen=True removes them"
        yield f"{seen:,} recommended items are in their user's train {kept}"


@contextmanager
def _progress_bar(total: int, wanted: bool) -> Iterator[Callable[[int], None]]:
    """A bar on standard error, if it is wanted, a terminal, and the work takes more than a second."""
    if not (wanted and sys.stderr.isatty()):
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("evaluating users", total=total, visible=False)

        def advance(done: int) -> None:
            bar.update(task, advance=done, visible=(bar.tasks[0].elapsed or 0) > 1)

        yield advance

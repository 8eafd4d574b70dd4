"""`EvaluationRun`: evaluates all users of a source, batch by batch, in any order and parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from weft.batch.batch import Batch, BatchInputs
from weft.data import BatchLists
from weft.data.dataset import EvaluationData
from weft.data.devices import is_host_readable
from weft.data.interactions import digest
from weft.data.sources import ListSource, Model
from weft.data.team import Team, open_team
from weft.data.tensors import SparseRows
from weft.data.threads import count_threads, one_thread
from weft.evaluation.candidate_scores import score_candidates
from weft.evaluation.candidates import CandidateProvider, CandidateSet
from weft.evaluation.checkpoint import Checkpoint, Span
from weft.evaluation.evaluator import Evaluator
from weft.evaluation.finalize import RunReport, UserTables, finalize, user_tables
from weft.evaluation.metric_set import MetricClasses
from weft.evaluation.notes import input_notes
from weft.evaluation.progress import progress_bar
from weft.evaluation.result import Result
from weft.evaluation.settings import EvaluationSettings
from weft.evaluation.splitting.part_origins import describe_origins
from weft.metrics.declarations import MAX_RATING
from weft.ranking import restrict_lists

if TYPE_CHECKING:
    from weft.evaluation.contributions import ContributionStore

NO_SOURCE = "has no source"  # a column: True for users without scores or a list
_INTERNAL = ("users_without_source", "candidates_repeated")  # counts that a result does not have
# Bounds of a batch if the caller gives none: small against memory, large against the fixed cost of
# a batch.
_BATCH_BYTES = 1 << 26
_BATCH_USERS = 2048
# List positions of a batch: temporaries with a value per position should stay in the CPU cache.
_BATCH_POSITIONS = 1 << 19


class EvaluationRun:
    """An evaluation that is ready to run.

    `counts` are facts about the inputs by their names in a result; they add up over partitions of
    the users.
    """

    def __init__(
        self,
        dataset: EvaluationData,
        settings: EvaluationSettings,
        classes: MetricClasses,
        device: torch.device | None = None,
    ) -> None:
        self.dataset, self.settings, self.classes = dataset, settings, classes
        self.candidates = CandidateProvider(dataset, settings)
        self.evaluator = Evaluator.from_dataset(dataset, settings, classes)
        self.counts = Counter(dataset.counts)
        self._device = device
        if device is not None:
            self.evaluator.to(device)
        self._item_mask = None
        if self.candidates.item_mask is not None:
            self._item_mask = torch.as_tensor(self.candidates.item_mask)
        # Ties are drawn, and users resampled, by their ids.
        self._user_keys = None
        if settings.ties in ("random", "expected") or settings.bootstrap is not None:
            self._user_keys = torch.as_tensor(dataset.users.hash_keys())
        self._digests: Future[dict[str, Any]] | None = None  # of the data, if computed already
        self._max_lengths: NDArray[np.int64] | None = None
        if self.candidates.are_per_user and settings.batch_size is None:
            self._max_lengths = self.candidates.max_lengths

    @one_thread
    def run(self, part: tuple[int, int] = (0, 1)) -> None:
        """Evaluate the users of a part: `(rank, number of processes)`."""
        rank, num_parts = part
        dataset = self.dataset
        skips_missing = self.settings.missing_lists == "skip"
        num_users = dataset.num_rows if skips_missing else dataset.users.size
        batch_size = self.settings.batch_size or self._default_batch_size()
        batch_size = min(batch_size, max(1, -(-num_users // num_parts)))
        spans = list(self._spans(num_users, batch_size))[rank::num_parts]
        checkpoint = None
        if self.settings.checkpoint is not None:
            identity = self.identity()
            if part != (0, 1):
                identity |= {"process": part, "batch_size": batch_size}
            checkpoint = Checkpoint(self.settings.checkpoint, identity)
            spans = checkpoint.resume(self.evaluator, self.candidates, spans)
        shown = _show_progress(spans) if self.settings.progress else iter(spans)
        with open_team(count_threads(self.settings.threads)) as team:
            for inputs, batch in self._ranked_batches(spans, team):
                start, stop = next(shown)
                self.evaluator.add(inputs, batch)
                if checkpoint is not None:
                    checkpoint.add(self.evaluator, self.candidates, start, stop)
            next(shown, None)  # completes the bar

    def _ranked_batches(
        self, spans: list[Span], team: Team
    ) -> Iterator[tuple[BatchInputs, Batch | None]]:
        """Yield the inputs of batches in their order, ranked or not (None).

        With several threads on the CPU, the next batch is ranked while one is added."""
        # A model may return the same memory each time: it is called when a batch is added.
        is_ahead = team.size > 1 and len(spans) > 1 and not isinstance(self.dataset.source, Model)
        ahead: tuple[BatchInputs, Future[Batch]] | None = None
        for number, (start, stop) in enumerate(spans):
            inputs, following = self._batch(start, stop), None
            if is_ahead and is_host_readable(inputs.users.device):
                is_last = number == len(spans) - 1
                following = inputs, self._rank_ahead(inputs, team, is_last=is_last)
            if ahead is not None:
                yield ahead[0], team.result(ahead[1])
            if following is None:
                yield inputs, None
            ahead = following
        if ahead is not None:
            yield ahead[0], team.result(ahead[1])
            if self._digests is not None:
                team.result(self._digests)

    def _rank_ahead(self, inputs: BatchInputs, team: Team, *, is_last: bool) -> Future[Batch]:
        """Start to rank a batch; after the last one, also to compute the digests of the data."""
        ranked = team.submit(self.evaluator.rank, inputs)
        if is_last:
            self._digests = team.submit(self._digest_data)
        return ranked

    # ----------------------------------------------------------------------------------------------

    def _spans(self, num_users: int, batch_size: int) -> Iterator[Span]:
        """Yield the batches of users; those with scores and those without never share one.

        The users that a model was asked for first are a batch of their own. Batches with candidates
        per user are bounded by the widest of their users.
        """
        dataset, lengths = self.dataset, self._max_lengths
        if dataset.num_probed:
            yield 0, dataset.num_probed
        scored = (dataset.num_probed, dataset.num_rows)
        for first, end in (scored, (dataset.num_rows, num_users)):
            start = first
            while start < end:
                stop = min(start + batch_size, end)
                while (
                    lengths is not None
                    and stop - start > 1
                    and (stop - start) * int(lengths[start:stop].max()) > _BATCH_POSITIONS
                ):
                    stop = start + (stop - start) // 2
                yield start, stop
                start = stop

    def _default_batch_size(self) -> int:
        """Return the largest number of users with scores or lists within the bounds of a batch."""
        source, settings, metric_set = self.dataset.source, self.settings, self.evaluator.metric_set
        fitting = _BATCH_BYTES // (4 * max(1, self.dataset.items.size))
        fitting = int(np.clip(fitting, 1, _BATCH_USERS))
        if isinstance(source, ListSource) or (
            self.candidates.are_per_user and source.supports_item_subsets
        ):
            depth = min(metric_set.depth, self.dataset.items.size)
            by_positions = max(1, _BATCH_POSITIONS // (depth + 1))
            return min(by_positions, fitting) if metric_set.needs_dense_blocks else by_positions
        is_in_place = (
            source.has_scores_in_memory and settings.device is None and settings.candidates == "all"
        )
        return _BATCH_USERS if is_in_place else fitting

    def _batch(self, start: int, stop: int) -> BatchInputs:
        """Return the scores or lists of users `start` to `stop - 1`, with their truth."""
        dataset = self.dataset
        inputs = self._predict(start, stop)
        device = inputs.users.device
        if self.evaluator.sums.device != device:
            self.evaluator.to(device)
        relevant, seen = inputs.truth, None
        if dataset.relevant is not dataset.truth:
            relevant = SparseRows.from_interactions(
                dataset.relevant.slice_users(start, stop), device
            )
        if self.settings.mask_seen is True and dataset.train is not None:
            seen = SparseRows.from_interactions(
                dataset.train.interactions.slice_users(start, stop), device
            )
        keys, mask = self._user_keys, self._item_mask
        return replace(
            inputs,
            user_keys=None if keys is None else keys[start:stop].to(device),
            relevant=relevant,
            seen=seen,
            has_truth=torch.as_tensor(dataset.is_judged[start:stop]).to(device),
            item_mask=None if mask is None else mask.to(device),
        )

    def _predict(self, start: int, stop: int) -> BatchInputs:
        """Return the scores, lists or nothing that the source has for some users."""
        dataset, source, device = self.dataset, self.dataset.source, self._device
        candidates = None
        if self.candidates.are_per_user and (dataset.lists is not None or start < dataset.num_rows):
            candidates = self.candidates.provide(start, stop)
        predictions: Any = None
        raw_scores = None
        if isinstance(source, ListSource):
            where = device or torch.device("cpu")
            predictions = source.lists(start, stop, where)
            if self.settings.candidates == "listed":
                predictions = replace(predictions, is_complete=True)
        elif start >= dataset.num_rows:
            where = device or torch.device("cpu")
        elif candidates is not None:
            predictions, raw_scores = score_candidates(
                source, dataset, candidates, start, stop, device
            )
            where = predictions.items.device
        else:
            users = dataset.users.ids[start:stop]
            predictions = source.scores(start, stop, users, dataset.items.ids)
            predictions = predictions if device is None else predictions.to(device)
            where = predictions.device
        truth = SparseRows.from_interactions(dataset.truth.slice_users(start, stop), where)
        inputs = BatchInputs(
            predictions, truth, torch.arange(start, stop, device=where), raw_scores=raw_scores
        )
        if candidates is None:
            return inputs
        inputs = replace(inputs, sample_sizes=candidates.sample_sizes_on(where))
        return self._restrict_lists(inputs, candidates) if dataset.lists is not None else inputs

    def _restrict_lists(self, inputs: BatchInputs, candidates: CandidateSet) -> BatchInputs:
        """Return the lists with candidates only, and count the candidates that are in no list."""
        lists, truth = inputs.predictions, inputs.truth
        assert isinstance(lists, BatchLists)
        rows = SparseRows.from_interactions(
            candidates.to_rows(truth.num_rows, truth.num_items), truth.items.device
        )
        listed = restrict_lists(lists, rows)
        num_listed = int((listed.items >= 0).sum()) if listed.has_empty else len(listed.items)
        self.candidates.count_unlisted(len(candidates.keys) - num_listed)
        raw_scores = lists.scores_at(truth.keys)
        return replace(inputs, predictions=listed, raw_scores=raw_scores, candidates=rows)

    # ----------------------------------------------------------------------------------------------

    def fingerprint(self) -> dict[str, Any]:
        """Return digests of the data and of the candidates, by their names in a result."""
        data = self._digest_data() if self._digests is None else dict(self._digests.result())
        if self.candidates.are_per_user:
            data["candidates"] = self.candidates.fingerprint()
        return data

    def _digest_data(self) -> dict[str, Any]:
        dataset = self.dataset
        return {
            **dataset.input_digests(),
            "source": dataset.source.fingerprint(),
            "source_kind": dataset.source.kind,
        }

    def identity(self) -> dict[str, Any]:
        """Return the facts that runs must have in common for their states to be merged."""
        dataset, data = self.dataset, self.fingerprint()
        data.pop("candidates", None)  # not drawn yet
        # In the order of their codes.
        data |= {
            "users": digest(dataset.users.hash_keys()),
            "items": digest(dataset.items.hash_keys()),
        }
        if dataset.candidates is not None:
            data["candidates given"] = dataset.candidates.fingerprint()
        # The data first: inputs about users differ, too, if the users do.
        return {**data, **self.evaluator.identity(), **self.settings.record(of_run=True)}

    @one_thread
    def result(
        self,
        contributions: ContributionStore | None = None,
        fingerprint: Mapping[str, Any] | None = None,
    ) -> Result:
        """Return the Result of the users so far, and remove the checkpoint.

        `contributions` and `fingerprint` are those of all partitions, if these are not here.
        """
        state, provenance = self.evaluator.synchronized_state()
        provenance |= {"fingerprint": dict(fingerprint or self.fingerprint())}
        report = self._report(provenance)
        result = finalize(state, self.evaluator, report, contributions=contributions)
        if self.settings.checkpoint is not None:
            self.settings.checkpoint.unlink(missing_ok=True)
        return result

    def _report(self, provenance: dict[str, Any]) -> RunReport:
        dataset = self.dataset
        notes = input_notes(
            dataset, self.settings, self.candidates, self.counts, self.evaluator.metric_set
        )
        counts = {name: count for name, count in self.counts.items() if name not in _INTERNAL}
        files = {name: file.path for name, file in dataset.files.items() if file.path is not None}
        if dataset.source.path is not None:
            files = {"source": dataset.source.path, **files}
        reads_max_rating = MAX_RATING in self.evaluator.metric_set.needs
        return RunReport(
            name=self.settings.name or _source_name(dataset),
            counts={**counts, **self.candidates.counts},
            notes=tuple(notes),
            settings={
                **self.settings.record(of_run=True),
                **dataset.definitions,
                **({"max_grade": dataset.stats.max_rating} if reads_max_rating else {}),
            },
            provenance={
                **provenance,
                "ids": dict(dataset.stats.ids),
                **({"files": files} if files else {}),
                **_describe_split(dataset),
            },
            users=dataset.users,
            items=dataset.items,
        )

    @one_thread
    def user_tables(self) -> UserTables:
        """Return the values and the labels of each user so far, with the column `NO_SOURCE`.

        None where they are not kept.
        """
        if not self.settings.per_user:
            return None, None
        tables = user_tables(self.evaluator.state, self.evaluator)
        ids, num_rows = self.dataset.users.ids, self.dataset.num_rows

        def mark(rows: Any) -> Any:
            users = rows["user"]
            return rows.with_columns(
                (users >= num_rows).alias(NO_SOURCE), ids.gather(users.to_numpy()).alias("user")
            )

        values, labels = (None if rows is None else mark(rows.sort("user")) for rows in tables)
        return values, labels


def _source_name(dataset: EvaluationData) -> str:
    """Return the name of a model without one: that of its file, or its kind."""
    file = dataset.files.get("source")
    path = dataset.source.path if file is None else file.path
    name = "" if path is None else Path(path).name.partition(".")[0]
    return name or dataset.source.kind


def _show_progress(spans: list[Span]) -> Iterator[Span]:
    """Yield the batches, with a progress bar over their users."""
    total = sum(stop - start for start, stop in spans)
    finished = 0
    with progress_bar("evaluating users") as show:
        for start, stop in spans:
            yield start, stop
            finished += stop - start
            show(finished, total)


def _describe_split(dataset: EvaluationData) -> dict[str, str]:
    """Return how truth and train were split, if a manifest in their folder records it."""
    files = {name: dataset.files.get(name) for name in ("truth", "train")}
    described = describe_origins(
        {name: Path(file.path) for name, file in files.items() if file and file.path is not None}
    )
    return {} if described is None else {"split": described}

"""`evaluate`: the short way along the whole line, from what the caller holds to a Result."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data import ListRows
from weft.data.interactions import check_threshold, digest_by_id
from weft.data.recommendations import are_lists
from weft.data.rows import SparseRows
from weft.data.slices import parse_slices
from weft.errors import MissingInput, SettingError, one_of, whole_number
from weft.evaluator import Evaluator, as_cutoffs, decide_masking
from weft.names import Spec
from weft.offers import STRATEGIES, Choice, Offers, read_choice, score
from weft.orders import Correction
from weft.problem import ListOrder, Problem, pose
from weft.profiles import adopt, choose, find_profile
from weft.ranking import TIE_RULES, TieRule, within
from weft.registry import as_list, expand, nameable
from weft.result import Result
from weft.sources import RecommendationLists, Source, open_source

if TYPE_CHECKING:
    from weft.metrics.base import BaseMetric

MISSING_LISTS = ("zero", "skip")
DUPLICATES = ("error", "keep-best")
# The size of a batch, where the caller does not say: small against memory, large against what a batch costs beside its scores.
_BATCH_BYTES = 1 << 26
_BATCH_USERS = 1024
# Positions of lists in one batch: what is computed for each of them should stay in the processor's cache.
_BATCH_POSITIONS = 1 << 19


def evaluate(
    source: Any,
    truth: Any,
    *,
    metrics: Any,
    top_k: Iterable[int] | int | None = None,
    train: Any = None,
    users: Any = None,
    items: Any = None,
    user_groups: Any = None,
    item_clusters: Any = None,
    item_features: Any = None,
    relevance_threshold: float | None = None,
    mask_seen: bool | str = "auto",
    candidates: Any = "all",
    ties: str | None = None,
    seed: int = 0,
    strategy: str = "full",
    num_negatives: int | None = None,
    negative_sampling: str | None = None,
    neg_alpha: float | None = None,
    correction: str | None = None,
    gamma: float | None = None,
    per_user: bool = False,
    bootstrap: int | None = None,
    slices: Mapping[str, Any] | None = None,
    empty_users: str | None = None,
    missing_lists: str | None = None,
    duplicates: str = "error",
    profile: str | None = None,
    batch_size: int | None = None,
    device: torch.device | str | None = None,
    progress: bool = False,
    name: str | None = None,
) -> Result:
    """Evaluate a model in one pass over its users.

    source
        Scores `[users, items]` (torch, NumPy), `weft.Factors`, a callable `users -> scores`, or an object with `score(users)`. If
        it has a parameter `items` too, it is asked `score(users, items)` where only some items of each user are needed.
        Or recommendation lists: a polars or pandas frame (user, item, and a score, a rank or neither), `{user: [items]}` with the
        best first, or `{user: {item: score}}`. Scored lists are ranked by score and the tie rule, lists with ranks by rank, others
        as they stand. Or the path of a file of such lists.
    truth, train
        A frame (user, item, rating), a sparse or dense `[users, items]` matrix, `{user: {item: rating}}`, or a path.

        Wherever data is given as a frame, a path will do, or `weft.File` where the file does not tell how to read it: CSV, TSV,
        Parquet, JSON Lines, TREC and others, packed or not, a file or a folder of parts.
    metrics, top_k
        Names such as `"nDCG"`, `"nDCG@10"` or `"F1(beta=0.5)"`, or metric objects; the cut-offs for names without one.
    users, items
        The ids of the scores' rows and columns. Without them ids are row and column numbers. With lists, `items` is the catalogue;
        without it, every item of train, truth and lists.
    user_groups, item_clusters, item_features
        For metrics that compare groups: a label per user, a label per item, a set of features per item. `{id: label}`, a frame with
        a column of ids and one of labels (for features one row each), or a list in the order of the ids.
    relevance_threshold
        From which rating on an item is relevant; without it, above 0.
    mask_seen
        Whether items of `train` are never recommended to their user: `"auto"` (scores: if train is given; lists: no, but the result
        says how many they hold), True (lists close up over what is removed) or False.
    candidates
        The items that can be recommended: `"all"`, `"cold"` (without a train interaction), `"warm"` (with one), or the items of
        each user, as a frame (user, item), `{user: [items]}` or a path. With lists, `"listed"`: those that each list holds.
    ties, seed
        Who comes first among equal scores: `"index"` (default), `"random"` (default if sampled), `"expected"`, `"pessimistic"` or
        `"optimistic"`. The seed of everything random.
    strategy, num_negatives, negative_sampling, neg_alpha
        `"full"` ranks all candidates. `"sampled"` ranks each user's relevant items among `num_negatives` (99) others, drawn without
        replacement from those that are neither in the user's train nor truth: `"uniform"` (default) or `"popularity"`, by train
        interactions to the power of `neg_alpha` (0.75). The draw depends on the seed and the user's id alone.
    correction, gamma
        Estimate from sampled ranks what ranking all items would give: `"rank_estimate"` or `"bias_variance"` (`gamma`, 0.1: how
        much variance weighs against bias).
    per_user
        Keep a value per user, metric and cut-off, as `result.per_user`.
    bootstrap
        Percentile and BCa intervals of every metric from so many resamples of the users. Until the end this keeps 8 bytes per user,
        mean and cut-off, and 12 per further term that a user adds, such as a place of a list.
    slices
        Metrics by groups of users, as `result.slices`: by name a label per user as in `user_groups`, `"quantiles(4)"` or
        `"bins(5, 20)"` of `activity` (train interactions) or `item_popularity` (of the relevant items, in train), or
        `{"of": a number per user, "by": "quantiles(4)"}`.
    empty_users, missing_lists
        Users of the truth without a relevant item: `"skip"` (default) or `"zero"`. Users of the truth without scores or a list:
        `"zero"` (default) or `"skip"`.
    duplicates
        An item twice in a recommendation list: `"error"`, or `"keep-best"` for its best place; the result counts the others.
    profile
        Another tool's definitions, so that its numbers come out: `"warprec"`, `"elliot"`, `"trec_eval"`, `"ranx"`, `"recbole"`,
        `"torchmetrics"`, `"rectools"` or `"sklearn"`. It sets parameters, ties and how users count, where the caller does not.
    batch_size, device, progress
        How it runs; never what comes out.
    name
        What to call the model.

    >>> import torch, weft
    >>> scores = torch.tensor([[0.9, 0.1, 0.5], [0.2, 0.8, 0.4]])
    >>> result = weft.evaluate(scores, {0: {0: 1}, 1: {2: 1}}, metrics=["HitRate", "MRR"], top_k=[1, 2])
    >>> result["MRR@2"]
    0.75
    >>> lists = {"ann": ["tea", "milk"], "bob": ["milk", "tea", "rye"]}
    >>> weft.evaluate(lists, {"ann": ["tea"], "bob": ["rye"]}, metrics="MRR@2")["MRR@2"]
    0.5
    """
    tool = None if profile is None else find_profile(profile)
    chosen = choose(tool, ties=ties, empty_users=empty_users, missing_lists=missing_lists)
    strategy = one_of("strategy", strategy, STRATEGIES)
    if ties is None and tool is None and strategy == "sampled":
        chosen["ties"] = "random"  # where the catalogue goes by popularity, its order tells relevant items from negatives
    missing_lists = one_of("missing_lists", chosen["missing_lists"], MISSING_LISTS)
    batch_size = None if batch_size is None else whole_number("batch_size", batch_size)
    relevance_threshold = check_threshold(relevance_threshold)
    masks = decide_masking(mask_seen, train is not None)
    has_lists = isinstance(source, RecommendationLists) or are_lists(source)
    masks = masks and not (has_lists and mask_seen == "auto")
    duplicates = one_of("duplicates", duplicates, DUPLICATES)
    if duplicates == "keep-best" and not has_lists:
        raise SettingError("duplicates='keep-best' is about recommendation lists; scores have one place for each user and item.")
    metrics = [metric if tool is None else adopt(metric, tool) for metric in as_list(metrics)]
    labels = {"user_groups": user_groups, "item_clusters": item_clusters, "item_features": item_features}
    labels = {name: given for name, given in labels.items() if given is not None}
    available = {"num_users", "num_items", *labels, *(("train",) if train is not None else ())}
    bootstrap = None if bootstrap is None else whole_number("bootstrap", bootstrap, least=2)
    sliced = parse_slices(slices, has_train=train is not None)
    # A metric that cannot run is refused before any data is read.
    wanted = expand(metrics, as_cutoffs(top_k), available=available)
    choice = read_choice(
        candidates, strategy, num_negatives, negative_sampling, neg_alpha, has_train=train is not None, has_lists=has_lists
    )
    corrected = Correction.chosen(
        correction, gamma, strategy=choice.strategy, negative_sampling=choice.negative_sampling, pool=choice.pool
    )
    if has_lists and choice.pool != "listed":
        lacking = "the scores of all items, which lists do not have; LAUC is the area that a list tells, and where the lists hold "
        _refuse(wanted, "needs_all_scores", lacking + "every item that was scored, candidates='listed' says so")
    hashes = one_of("ties", chosen["ties"], TIE_RULES) in ("random", "expected")
    device = None if device is None else _device(device)
    opened = open_source(source)
    if isinstance(opened, RecommendationLists) and not opened.named.has_scores:
        _refuse(
            wanted, "reads_scores", "scores, which these lists do not have; add a column 'score', or give {user: {item: score}}"
        )
        _refuse(wanted, "needs_all_scores", "scores, which these lists do not have; LAUC is the area that a list tells")
    order = ListOrder(duplicates == "keep-best", tool is not None and tool.last_id_first and ties is None)
    problem = pose(opened, truth, train, users, items, labels, batch_size, relevance_threshold, order, choice.given, sliced)
    if problem.lists is not None and problem.train is not None and mask_seen is not False:
        problem = replace(problem, seen_in_lists=problem.lists.count(problem.train.cells.rows(0, problem.num_rows)))
    evaluator = Evaluator(
        metrics,
        top_k,
        num_users=problem.users.size,
        num_items=problem.items.size,
        train=problem.train,
        mask_seen=False,  # masked below
        **problem.labels,
        relevance_threshold=relevance_threshold,
        ties=chosen["ties"],
        seed=seed,
        correction=corrected,
        per_user=per_user,
        bootstrap=bootstrap,
        slices=problem.slices,
        empty_users=chosen["empty_users"],
        profile=profile,
    )
    if hashes:  # ties go by the caller's ids, wherever their rows and columns stand
        evaluator.rule = TieRule(chosen["ties"], seed, torch.as_tensor(problem.items.keys()))
    if device is not None:
        evaluator.to(device)
    user_keys = torch.as_tensor(problem.users.keys()) if hashes or bootstrap is not None else None
    relevant = problem.truth.relevant(relevance_threshold)
    offers = Offers(choice, problem, relevant, masks=masks, seed=seed)
    last = problem.users.size if missing_lists == "zero" else problem.num_rows
    step = batch_size or _users_at_once(problem, device, evaluator, choice)
    widths = offers.widths if choice.is_per_user and batch_size is None else None
    with _progress_bar(last, progress) as advance:
        for start, stop in _spans(problem, last, step, widths):
            scores, where, about = _of_users(problem, offers, start, stop, device)
            evaluator.to(where)
            codes = torch.arange(start, stop, device=where)
            truth = SparseRows.of(problem.truth.rows(start, stop), where)
            evaluator.add(
                scores,
                truth,
                users=codes,
                user_keys=None if user_keys is None else user_keys[start:stop].to(where),
                seen=SparseRows.of(problem.train.cells.rows(start, stop), where) if masks and problem.train is not None else None,
                relevant=truth if relevant is problem.truth else SparseRows.of(relevant.rows(start, stop), where),
                judged=torch.as_tensor(problem.judged[start:stop]).to(where),
                columns=None if offers.columns is None else torch.as_tensor(offers.columns).to(where),
                **about,
            )
            advance(stop - start)
    return _label(evaluator.compute(), problem, name, masks, missing_lists, offers, wanted)


def _of_users(
    problem: Problem, offers: Offers, start: int, stop: int, device: torch.device | None
) -> tuple[Tensor | ListRows | None, torch.device, dict[str, Any]]:
    """What the source has for users `start` to `stop - 1`: scores, lists or nothing; where they are; and what they were offered."""
    source, where = problem.source, device or torch.device("cpu")
    offer = offers.take(start, stop) if offers.has_rows(start) else None
    about: dict[str, Any] = {} if offer is None else {"drawn": offer.counted(where)}
    if isinstance(source, RecommendationLists):
        lists = source.lists(start, stop, where)
        if offers.choice.pool == "listed":
            return replace(lists, complete=True), where, about
        if offer is None:
            return lists, where, about
        about["raw_scores"] = lists.scores_at(SparseRows.of(problem.truth.rows(start, stop), where).keys)
        about["candidates"] = SparseRows.of(offer.rows(stop - start, problem.items.size), where)
        listed = within(lists, about["candidates"])
        offers.counts["candidates_not_listed"] += len(offer.cells) - len(listed.items)
        return listed, where, about
    if start >= problem.num_rows:
        return None, where, about
    if offer is not None:
        lists, about["raw_scores"] = score(source, problem, offer, start, stop, device)
        where = lists.items.device
        return lists, where, about | {"drawn": offer.counted(where)}
    scores = source.scores(start, stop, problem.users.ids[start:stop], problem.items.ids)
    scores = scores if device is None else scores.to(device)
    return scores, scores.device, about


def _refuse(wanted: Mapping[Spec, type[BaseMetric]], trait: str, what: str) -> None:
    """Refuse metrics with a trait that the source cannot serve; `what` says what they need and how to get it."""
    different = {str(spec.at(None)): (spec, metric) for spec, metric in wanted.items()}
    names = [name for name, (spec, metric) in different.items() if getattr(nameable(spec, metric), trait)]
    if names:
        raise MissingInput(f"{', '.join(names)} {'need' if len(names) > 1 else 'needs'} {what}.")


def _users_at_once(problem: Problem, device: torch.device | None, evaluator: Evaluator, choice: Choice) -> int:
    """How many users are in a batch: as many as the memory of their scores allows. Scores that are held already take none."""
    source = problem.source
    if isinstance(source, RecommendationLists) or (choice.is_per_user and source.scores_some):
        enough = max(1, _BATCH_POSITIONS // (evaluator.depth + 1))
        if not evaluator.composition.wants_dense:
            return enough
        return min(enough, _fitting(problem.items.size))
    is_read_in_place = source.holds_scores and device is None and choice.pool == "all"
    return _BATCH_USERS if is_read_in_place else _fitting(problem.items.size)


def _fitting(num_items: int) -> int:
    return int(np.clip(_BATCH_BYTES // (4 * max(1, num_items)), 1, _BATCH_USERS))


def _spans(problem: Problem, last: int, step: int, widths: NDArray[np.int64] | None = None) -> Iterator[tuple[int, int]]:
    """Batches of rows; those with scores and those without never share one. A model's first answer is a batch of its own.

    `widths`: how many cells each user has at most; a batch as wide as the widest of its users stays in bounds.
    """
    if problem.probed:
        yield 0, problem.probed
    for first, end in ((problem.probed, problem.num_rows), (problem.num_rows, last)):
        start = first
        while start < end:
            stop = min(start + step, end)
            while widths is not None and stop - start > 1 and (stop - start) * int(widths[start:stop].max()) > _BATCH_POSITIONS:
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
            f"device={given!r} cannot be used here: {reason}. Without device= the scores stay where they are."
        ) from None


def _label(
    result: Result,
    problem: Problem,
    name: str | None,
    masks: bool,
    missing_lists: str,
    offers: Offers,
    wanted: Mapping[Spec, type[BaseMetric]],
) -> Result:
    """The result with the caller's ids, and what it should say of the data."""
    notes = [note for table in problem.tables.values() for note in table.notes]
    notes += problem.notes
    missing = problem.users.size - problem.num_rows
    if missing and missing_lists == "skip":
        what = "scores" if problem.lists is None else "list"
        notes.append(f"{missing:,} users of the truth have no {what} and are left out (missing_lists='skip')")
    notes += _notes_of_lists(problem, masks)
    notes += offers.notes(is_corrected="correction" in result.settings)
    notes += _notes_of_exposure(offers, wanted)
    collapsed = 0 if problem.train is None else problem.train.repetitions
    if collapsed:
        notes.append(f"train repeats {collapsed:,} (user, item) rows; each counts once")
    if problem.unmatched:
        notes.append(f"{problem.unmatched:,} rows of train belong to users who are not evaluated")
    inputs = {
        "truth": digest_by_id(problem.truth, problem.users, problem.items),
        "train": problem.train.cells.fingerprint() if problem.train is not None else None,
        "source": problem.source.fingerprint(),
        "source_kind": problem.source.kind,
        **({} if offers.fingerprint() is None else {"candidates": offers.fingerprint()}),
    }
    files = {argument: str(table.file.path) for argument, table in problem.tables.items()}
    per_user = result.per_user
    if per_user is not None:
        per_user = per_user.with_columns(problem.users.ids.gather(per_user["user"].to_numpy()).alias("user"))
    return replace(
        result,
        name=name or _own_name(problem.source),
        counts={
            **result.counts,
            "train_repetitions": collapsed,
            "train_rows_unmatched": problem.unmatched,
            **({} if problem.seen_in_lists is None else {"seen_in_lists": problem.seen_in_lists}),
            **({} if problem.dropped is None else {"duplicates_dropped": problem.dropped}),
            **({} if problem.candidates is None else {"candidates_unmatched": problem.candidates_unmatched}),
            **offers.counts,
        },
        notes=(*notes, *result.notes),
        settings={
            **result.settings,
            "mask_seen": masks,
            "missing_lists": missing_lists,
            **offers.choice.settings,
            **({"slices": dict(problem.sliced_by)} if problem.sliced_by else {}),
        },
        provenance={**result.provenance, "fingerprint": inputs, **({"files": files} if files else {})},
        per_user=per_user,
    )


def _own_name(source: Source | RecommendationLists) -> str:
    """What to call a model that has no name: after its file, or what it is."""
    if isinstance(source, RecommendationLists) and source.named.cells.table is not None:
        return source.named.cells.table.file.path.name.partition(".")[0] or source.kind
    return source.kind


def _notes_of_exposure(offers: Offers, wanted: Mapping[Spec, type[BaseMetric]]) -> Iterator[str]:
    """Which metrics look at what was listed, or offered, where that was not the whole catalogue."""
    names = list(dict.fromkeys(str(spec.at(None)) for spec, metric in wanted.items() if nameable(spec, metric).is_of_exposure))
    if names and (what := offers.said_of()):
        many = len(names) > 1
        yield f"{', '.join(names)} {'look' if many else 'looks'} at which items are listed, and ran on candidates: {what}"


def _notes_of_lists(problem: Problem, masks: bool) -> Iterator[str]:
    """What to know about the lists that were given."""
    if not isinstance(problem.source, RecommendationLists):
        return
    named = problem.source.named
    if named.order == "rank" and named.has_scores:
        yield "the lists have ranks and scores: they are ranked by rank"
    if named.order == "rows" and named.unread:
        unread = ", ".join(map(repr, named.unread))
        yield f"the lists have neither scores nor ranks: rows are taken best first (columns that were not read: {unread})"
    if problem.dropped:
        yield f"{problem.dropped:,} rows repeat an item of their list; its best place is kept"
    if problem.seen_in_lists:
        kept = "and are removed" if masks else "and are kept; mask_seen=True removes them"
        yield f"{problem.seen_in_lists:,} recommended items are in their user's train {kept}"


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

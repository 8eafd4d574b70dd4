"""`evaluate`: the short way along the whole line, from what the caller holds to a Result."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data import Cells, Interactions, ListRows, Train, Vocabulary, read_cells, read_features, read_labels
from weft.data.cells import build
from weft.data.files import Table, is_file, read_table
from weft.data.interactions import check_threshold, digest_by_id
from weft.data.recommendations import Recommendations, are_lists
from weft.data.rows import SparseRows
from weft.data.vocabulary import distinct
from weft.errors import InputError, MissingInput, SettingError, one_of, whole_number
from weft.evaluator import Evaluator, as_cutoffs, decide_masking
from weft.names import Spec
from weft.profiles import adopt, choose, find_profile
from weft.ranking import TIE_RULES, TieRule
from weft.registry import as_list, expand, nameable
from weft.result import Result
from weft.sources import Model, RecommendationLists, Source, open_source

if TYPE_CHECKING:
    import polars as pl

    from weft.metrics.base import BaseMetric

MISSING_LISTS = ("zero", "skip")
DUPLICATES = ("error", "keep-best")
# The size of a batch, where the caller does not say: small against memory, large against what a batch costs beside its scores.
_BATCH_BYTES = 1 << 26
_BATCH_USERS = 1024
# Positions of lists in one batch: what is computed for each of them should stay in the processor's cache.
_BATCH_POSITIONS = 1 << 19


@dataclass(frozen=True)
class _Order:
    """How lists are put in order: whether an item may stand in one twice, and whether the last id goes first in a tie."""

    keep_best: bool
    last_id_first: bool


@dataclass(frozen=True)
class _Problem:
    """Everything by number: who is evaluated, on what."""

    source: Source | RecommendationLists
    users: Vocabulary  # first the source's rows, then users of the truth for whom it has nothing
    items: Vocabulary
    num_rows: int
    truth: Interactions
    judged: NDArray[np.bool_]  # who is a user of the truth; in a matrix every row is one
    train: Train | None  # also of users who are not evaluated, behind those who are
    labels: dict[str, Any]  # user_groups, item_clusters, item_features, by number
    unmatched: int  # rows of train whose users are not evaluated
    probed: int  # users whom the model was asked for already
    lists: Recommendations | None = None
    seen_in_lists: int | None = None  # listed items that are in their user's train; None where nobody asks
    dropped: int | None = None  # items that stood in a list already; None where that is an error
    tables: Mapping[str, Table] = field(default_factory=dict)  # the files that were read, by argument
    notes: tuple[str, ...] = ()


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
    ties: str | None = None,
    seed: int = 0,
    per_user: bool = False,
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
        Scores `[users, items]` (torch, NumPy), `weft.Factors`, a callable `users -> scores`, or an object with `score(users)`.
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
    ties, seed
        Who comes first among equal scores: `"index"` (default), `"random"`, `"expected"`, `"pessimistic"` or `"optimistic"`.
    per_user
        Keep a value per user, metric and cut-off, as `result.per_user`.
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
    # A metric that cannot run is refused before any data is read.
    wanted = expand(metrics, as_cutoffs(top_k), available=available)
    if has_lists:
        _refuse(wanted, "needs_all_scores", "the scores of all items, which lists do not have; LAUC is the area that a list tells")
    hashes = one_of("ties", chosen["ties"], TIE_RULES) in ("random", "expected")
    device = None if device is None else _device(device)
    opened = open_source(source)
    if isinstance(opened, RecommendationLists) and not opened.named.has_scores:
        _refuse(
            wanted, "reads_scores", "scores, which these lists do not have; add a column 'score', or give {user: {item: score}}"
        )
    order = _Order(duplicates == "keep-best", tool is not None and tool.last_id_first and ties is None)
    problem = _pose(opened, truth, train, users, items, labels, batch_size, relevance_threshold, order)
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
        per_user=per_user,
        empty_users=chosen["empty_users"],
        profile=profile,
    )
    if hashes:  # ties go by the caller's ids, wherever their rows and columns stand
        evaluator.rule = TieRule(chosen["ties"], seed, torch.as_tensor(problem.items.keys()))
    if device is not None:
        evaluator.to(device)
    user_keys = torch.as_tensor(problem.users.keys()) if hashes else None
    relevant = problem.truth.relevant(relevance_threshold)
    last = problem.users.size if missing_lists == "zero" else problem.num_rows
    step = batch_size or _users_at_once(problem, device, evaluator)
    with _progress_bar(last, progress) as advance:
        for start, stop in _spans(problem, last, step):
            scores: Tensor | ListRows | None = None
            where = device or torch.device("cpu")
            if isinstance(problem.source, RecommendationLists):
                scores = problem.source.lists(start, stop, where)
            elif start < problem.num_rows:
                scores = problem.source.scores(start, stop, problem.users.ids[start:stop])
                if scores.shape[1] != problem.items.size:
                    raise InputError(
                        f"the model answered with {scores.shape[1]} columns, but there are {problem.items.size} items; "
                        "it must give one score per item, in the order of items=."
                    )
                scores = scores if device is None else scores.to(device)
                where = scores.device
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
            )
            advance(stop - start)
    return _label(evaluator.compute(), problem, name, masks, missing_lists)


def _refuse(wanted: Mapping[Spec, type[BaseMetric]], trait: str, what: str) -> None:
    """Refuse metrics with a trait that the source cannot serve; `what` says what they need and how to get it."""
    different = {str(spec.at(None)): (spec, metric) for spec, metric in wanted.items()}
    names = [name for name, (spec, metric) in different.items() if getattr(nameable(spec, metric), trait)]
    if names:
        raise MissingInput(f"{', '.join(names)} {'need' if len(names) > 1 else 'needs'} {what}.")


def _pose(
    source: Source | RecommendationLists,
    truth: Any,
    train: Any,
    users: Any,
    items: Any,
    labels: dict[str, Any],
    batch_size: int | None,
    threshold: float | None,
    order: _Order,
) -> _Problem:
    """Number the users and items, and put truth and train into rows."""
    truth_cells = read_cells(truth, "truth")
    train_cells = None if train is None else read_cells(train, "train")
    labels = {name: read_table(given, name) if is_file(given) else given for name, given in labels.items()}
    users, items = (read_table(given, name) if is_file(given) else given for name, given in (("users", users), ("items", items)))
    named = source.named.cells if isinstance(source, RecommendationLists) else None
    cells = {"source": named, "truth": truth_cells, "train": train_cells}
    of_cells = {name: None if some is None else some.table for name, some in cells.items()}
    tables = {
        name: table for name, table in {**of_cells, "users": users, "items": items, **labels}.items() if isinstance(table, Table)
    }
    lists, probed = None, 0
    notes: list[str] = []
    items_in_order = True  # whether the caller knows which item comes first
    if isinstance(source, RecommendationLists):
        if users is not None:
            raise SettingError("users= names the rows of scores; recommendation lists name their users themselves. Leave it out.")
        items_in_order = items is not None or any(
            cells is not None and cells.shape is not None for cells in (truth_cells, train_cells)
        )
        item_ids = _catalogue(source, items, truth_cells, train_cells, order.last_id_first)
        truth_cells, train_cells = truth_cells.named(item_ids), None if train_cells is None else train_cells.named(item_ids)
        user_ids = Vocabulary.found("user", [source.named.users], origin=source.named.cells.where)
        notes += _refuse_strangers(source.named.cells, user_ids, truth_cells)
        lists = source.arrange(user_ids, item_ids, keep_best=order.keep_best)
    else:
        user_ids, item_ids, probed = _rows_and_columns(source, users, items, truth_cells, batch_size)
    num_rows = user_ids.size
    user_codes, item_codes = truth_cells.encode(user_ids, item_ids)
    judged = np.ones(num_rows, dtype=np.bool_)
    if truth_cells.shape is None:
        everyone = _named_users(truth_cells)
        missing = everyone.filter(user_ids.encode(everyone, "truth") < 0)
        if len(missing) and user_ids.is_numbers:
            raise InputError(
                f"truth names the user {missing[0]!r}, who is not a row of the scores, 0 to {num_rows - 1}; "
                "give the ids of the scores' rows as users=[...]."
            )
        if len(missing):
            user_ids = user_ids.extend(missing)
            user_codes = user_ids.encode(truth_cells.users, "truth")
        judged = np.zeros(user_ids.size, dtype=np.bool_)
        judged[user_ids.encode(everyone, "truth")] = True
    _refuse_negative(truth_cells, threshold)
    if lists is not None and not _overlap(lists.items, item_codes, item_ids.size):
        notes.append("no item of the truth is in any list: nothing can be hit. Are the ids of both written alike?")
    size = (user_ids.size, item_ids.size)
    rows = build(truth_cells, user_codes, item_codes, size)
    read_train, all_users, unmatched = None, user_ids, 0
    if train_cells is not None:
        read_train, all_users, unmatched = _train_rows(train_cells, user_ids, item_ids, num_rows)
    read = {
        name: read_features(given, name, item_ids, in_order=item_ids.size if items_in_order else 0)
        if name == "item_features"
        else read_labels(given, name, item_ids, in_order=item_ids.size if items_in_order else 0)
        if name == "item_clusters"
        else read_labels(given, name, all_users, in_order=num_rows if users is not None or source.num_users is not None else 0)
        for name, given in labels.items()
    }
    dropped = lists.dropped if lists is not None and order.keep_best else None
    return _Problem(
        source,
        user_ids,
        item_ids,
        num_rows,
        rows,
        judged,
        read_train,
        read,
        unmatched,
        probed,
        lists,
        dropped=dropped,
        tables=tables,
        notes=tuple(notes),
    )


def _rows_and_columns(
    source: Source, users: Any, items: Any, truth: Cells, batch_size: int | None
) -> tuple[Vocabulary, Vocabulary, int]:
    """The users and items of scores, and how many users a model was asked for to find out."""
    user_ids = _vocabulary("user", users, source.num_users)
    if user_ids is None:  # a model can score whoever is asked for: those of the truth
        if truth.shape is not None:
            user_ids = Vocabulary.numbers("user", truth.shape[0])
        else:
            user_ids = Vocabulary.of("user", _named_users(truth))
    item_ids = _vocabulary("item", items, source.num_items)
    if item_ids is None and truth.shape is not None:
        item_ids = Vocabulary.numbers("item", truth.shape[1])
    return (user_ids, item_ids, 0) if item_ids is not None else (user_ids, *_columns_of_model(source, user_ids, batch_size))


def _catalogue(
    source: RecommendationLists, items: Any, truth: Cells, train: Cells | None, last_id_first: bool = False
) -> Vocabulary:
    """The items that lists are about: those given, or the columns of a matrix, or every item that occurs."""
    if items is not None:
        return _given_ids("item", items)
    given = [cells for cells in (truth, train) if cells is not None]
    for cells in given:
        if cells.shape is not None:
            return Vocabulary.numbers("item", cells.shape[1], origin=cells.where)
    lists = source.named.cells
    listed = Vocabulary.found("item", [lists.items], origin=lists.where)
    for cells in given:
        if listed.ids.dtype.is_integer() != cells.items.dtype.is_integer():
            listed.encode(cells.items, cells.where)  # refuses ids of another type
    met = [distinct(cells.items) for cells in given]
    if lists.table is not None and listed.size and len(met[0]) and all((listed.encode(ids, "") < 0).all() for ids in met):
        raise InputError(
            f"{lists.where} and {truth.where} have no item in common: the lists have {_some(listed.ids)}, the truth {_some(met[0])}"
            ". Write the ids of both alike; if they are right, and nothing was hit, give the catalogue as items=."
        )
    found = Vocabulary.found("item", [listed.ids, *met], origin=lists.where)
    return found.by_text_descending() if last_id_first else found


def _some(ids: pl.Series) -> str:
    """A few ids, for a message."""
    return ", ".join(map(repr, ids.head(3))) + (", ..." if len(ids) > 3 else "")


def _refuse_strangers(lists: Cells, users: Vocabulary, truth: Cells) -> Iterator[str]:
    """Lists and truth that have no user in common are hardly about the same users: an error for files, else a note."""
    everyone = _named_users(truth)
    if users.size and len(everyone) and (users.encode(everyone, truth.where) < 0).all():
        what = f"{lists.where} and {truth.where} have no user in common: one has {_some(users.ids)}, the other {_some(everyone)}"
        if lists.table is not None or truth.table is not None:
            raise InputError(f"{what}. Write the ids of both alike, and check that both are of the same data.")
        yield what


def _overlap(listed: NDArray[Any], relevant: NDArray[np.int64], num_items: int) -> bool:
    """Whether an item of the truth stands in a list; nothing of either is no reason to say otherwise."""
    if not len(listed) or not len(relevant):
        return True
    wanted = np.zeros(num_items, dtype=np.bool_)
    wanted[relevant] = True
    return any(wanted[listed[start : start + _BATCH_POSITIONS]].any() for start in range(0, len(listed), _BATCH_POSITIONS))


def _given_ids(kind: str, ids: Any) -> Vocabulary:
    """Ids as the caller gives them; of a table with more than ids, each once."""
    if not isinstance(ids, Table):
        return Vocabulary.of(kind, ids)
    column = ids.columns[kind]
    return Vocabulary.of(kind, column if ids.width == 1 else column.unique(maintain_order=True), where=ids.where)


def _named_users(cells: Cells) -> pl.Series:
    """Each user that the cells name, once, in order."""
    return distinct(cells.users if cells.everyone is None else cells.everyone)


def _vocabulary(kind: str, ids: Any, size: int | None) -> Vocabulary | None:
    """The given ids, which must fit the scores; or row and column numbers; None if neither is known."""
    if ids is None:
        return None if size is None else Vocabulary.numbers(kind, size)
    vocabulary = _given_ids(kind, ids)
    if size is not None and vocabulary.size != size:
        what = "rows" if kind == "user" else "columns"
        raise InputError(f"{kind}s= has {vocabulary.size} ids, but the scores have {size} {what}; expected one id for each.")
    return vocabulary


def _columns_of_model(source: Source, users: Vocabulary, batch_size: int | None) -> tuple[Vocabulary, int]:
    """The catalogue of a model that was given without items, from its first answer, and how many users that was for."""
    assert isinstance(source, Model)
    if users.size == 0:
        raise InputError("the truth is empty and the model's items are not known; give the item ids as items=[...].")
    stop = min(users.size, batch_size or 16)  # few: how many items there are decides how many users fit into a batch
    return Vocabulary.numbers("item", source.probe(0, stop, users.ids[:stop])), stop


def _refuse_negative(cells: Cells, threshold: float | None) -> None:
    negative = cells.values < 0
    if threshold is None and negative.any():
        raise InputError(
            f"truth has negative ratings:\n{cells.show(negative)}\nGive relevance_threshold= to say from which rating on an item "
            "is relevant, or remove them."
        )


def _train_rows(cells: Cells, users: Vocabulary, items: Vocabulary, num_rows: int) -> tuple[Train, Vocabulary, int]:
    """Train as rows, first of the evaluated users, then of those it alone names; all these users; how many rows the latter have."""
    rows = users
    if cells.shape is not None and users.size > num_rows:
        rows = Vocabulary(users.kind, num_rows, users.ids[:num_rows])
    user_codes, item_codes = cells.encode(rows, items)
    unmatched = user_codes < 0
    if unmatched.any():
        users = users.extend(cells.users.filter(unmatched).unique(maintain_order=True))
        user_codes = users.encode(cells.users, "train")
    return Train(Interactions.from_codes(user_codes, item_codes, cells.values, users.size, items.size)), users, int(unmatched.sum())


def _users_at_once(problem: _Problem, device: torch.device | None, evaluator: Evaluator) -> int:
    """How many users are in a batch: as many as the memory of their scores allows. Scores that are held already take none."""
    if isinstance(problem.source, RecommendationLists):
        enough = max(1, _BATCH_POSITIONS // (evaluator.depth + 1))
        if not evaluator.wants_dense:
            return enough
        return min(enough, _fitting(problem.items.size))
    return _BATCH_USERS if problem.source.holds_scores and device is None else _fitting(problem.items.size)


def _fitting(num_items: int) -> int:
    return int(np.clip(_BATCH_BYTES // (4 * max(1, num_items)), 1, _BATCH_USERS))


def _spans(problem: _Problem, last: int, step: int) -> Iterator[tuple[int, int]]:
    """Batches of rows; those with scores and those without never share one. A model's first answer is a batch of its own."""
    if problem.probed:
        yield 0, problem.probed
    for start in range(problem.probed, problem.num_rows, step):
        yield start, min(start + step, problem.num_rows)
    for start in range(problem.num_rows, last, step):
        yield start, min(start + step, last)


def _device(given: Any) -> torch.device:
    """A device that is there."""
    try:
        return torch.empty(0, device=given).device
    except (RuntimeError, TypeError, AssertionError) as error:
        reason = str(error).partition("\n")[0]
        raise SettingError(
            f"device={given!r} cannot be used here: {reason}. Without device= the scores stay where they are."
        ) from None


def _label(result: Result, problem: _Problem, name: str | None, masks: bool, missing_lists: str) -> Result:
    """The result with the caller's ids, and what it should say of the data."""
    notes = [note for table in problem.tables.values() for note in table.notes]
    notes += problem.notes
    missing = problem.users.size - problem.num_rows
    if missing and missing_lists == "skip":
        what = "scores" if problem.lists is None else "list"
        notes.append(f"{missing:,} users of the truth have no {what} and are left out (missing_lists='skip')")
    notes += _notes_of_lists(problem, masks)
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
        },
        notes=(*notes, *result.notes),
        settings={**result.settings, "mask_seen": masks, "missing_lists": missing_lists},
        provenance={**result.provenance, "fingerprint": inputs, **({"files": files} if files else {})},
        per_user=per_user,
    )


def _own_name(source: Source | RecommendationLists) -> str:
    """What to call a model that has no name: after its file, or what it is."""
    if isinstance(source, RecommendationLists) and source.named.cells.table is not None:
        return source.named.cells.table.file.path.name.partition(".")[0] or source.kind
    return source.kind


def _notes_of_lists(problem: _Problem, masks: bool) -> Iterator[str]:
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

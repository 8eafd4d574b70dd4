"""The dataset, posed: what the caller holds, by number. Who is evaluated, on what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from weft.data import (
    Interactions,
    InteractionTable,
    Label,
    Labels,
    Train,
    Vocabulary,
    read_features,
    read_interactions,
    read_labels,
)
from weft.data.interaction_table import build, read_pairs
from weft.data.popularity import TrainTotals
from weft.data.readers.files import FileTable, is_file, read_table
from weft.data.recommendations import EncodedLists
from weft.data.slices import UserSlice, cut_at, cut_numbers
from weft.data.sources import ListSource, Model, Source
from weft.data.vocabulary import distinct
from weft.errors import InputError, SettingError, setting_ref

if TYPE_CHECKING:
    import polars as pl

NOTHING_HIT = (
    "no item of the truth is in any list: nothing can be hit. Are the ids of both written alike?"
)
# InteractionTable that are looked at together.
_PIECE = 1 << 19


@dataclass(frozen=True)
class ListOrder:
    """How lists are put in order: whether an item may stand in one twice, and whether the last id
    goes first in a tie.
    """

    keep_best: bool
    orders_ties_by_descending_id: bool


@dataclass(frozen=True)
class Groups:
    """The groups of a slice: their names, and where all but the first start, if they come of
    numbers.
    """

    names: tuple[Label, ...]
    starts: list[float] | None = None
    unknown: int = 0  # labels of users who are not known


@dataclass(frozen=True)
class GlobalStats:
    """What a part of the users has to know of all of them, so that its numbers mean the same as
    everybody's.

    `labels`: item_clusters and item_features, by number. `groups`: those of user_groups, and of
    slices by name; without those of a slice that is yet to be cut, where nobody is evaluated yet.
    """

    items: Vocabulary
    train: TrainTotals | None
    labels: Mapping[str, Any]
    groups: Mapping[str, Groups]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class EvaluationData:
    """Everything by number: who is evaluated, on what."""

    source: Source | ListSource
    users: Vocabulary  # first the source's rows, then users of the truth for whom it has nothing
    items: Vocabulary
    num_rows: int
    truth: Interactions
    judged: NDArray[np.bool_]  # who is a user of the truth; in a matrix every row is one
    train: Train | None  # also of users who are not evaluated, behind those who are
    labels: dict[str, Any]  # user_groups, item_clusters, item_features, by number
    slices: dict[str, Labels]  # by name, the groups of users
    unmatched: int  # rows of train whose users are not evaluated
    probed: int  # users whom the model was asked for already
    lists: EncodedLists | None = None
    seen_in_lists: int | None = (
        None  # listed items that are in their user's train; None where nobody asks
    )
    dropped: int | None = None  # items that stood in a list already; None where that is an error
    candidates: Interactions | None = None  # of each user, where they were given
    candidates_unmatched: int = 0  # rows of candidates whose users are not evaluated
    candidates_repeated: int = 0  # rows of candidates that repeat one
    tables: Mapping[str, FileTable] = field(
        default_factory=dict
    )  # the files that were read, by argument
    sliced_by: Mapping[str, str] = field(
        default_factory=dict
    )  # how each slice came about, for the record
    notes: tuple[str, ...] = ()
    all_users: Vocabulary | None = None  # those of train behind the others; None without train


def build_dataset(
    source: Source | ListSource,
    truth: Any,
    train: Any,
    users: Any,
    items: Any,
    labels: dict[str, Any],
    batch_size: int | None,
    threshold: float | None,
    order: ListOrder,
    candidates: Any = None,
    slices: Sequence[UserSlice] = (),
    whole: GlobalStats | None = None,
) -> EvaluationData:
    """Number the users and items, and put truth, train and candidates, where they are given, into
    rows.

    `whole`: what is known of all users, where these are some of them. It says which items there
    are."""
    items = items if whole is None else whole.items
    truth_cells = read_interactions(truth, "truth")
    train_cells = None if train is None else read_interactions(train, "train")
    pairs = None if candidates is None else read_pairs(candidates, "candidates")
    labels = {
        name: read_table(given, name) if is_file(given) else given for name, given in labels.items()
    }
    users, items = (
        read_table(given, name) if is_file(given) else given
        for name, given in (("users", users), ("items", items))
    )
    named = source.table.entries if isinstance(source, ListSource) else None
    cells = {"source": named, "truth": truth_cells, "train": train_cells, "candidates": pairs}
    of_cells = {name: None if some is None else some.table for name, some in cells.items()}
    tables = {
        name: table
        for name, table in {**of_cells, "users": users, "items": items, **labels}.items()
        if isinstance(table, FileTable)
    }
    lists, probed = None, 0
    notes: list[str] = []
    items_in_order = True  # whether the caller knows which item comes first
    if isinstance(source, ListSource):
        if users is not None:
            raise SettingError(
                "users= names the rows of scores; recommendation lists name their users "
                "themselves. Leave it out."
            )
        items_in_order = items is not None or any(
            cells is not None and cells.shape is not None for cells in (truth_cells, train_cells)
        )
        item_ids = _catalogue(
            source, items, truth_cells, train_cells, pairs, order.orders_ties_by_descending_id
        )
        truth_cells, train_cells = (
            truth_cells.with_ids(item_ids),
            None if train_cells is None else train_cells.with_ids(item_ids),
        )
        pairs = None if pairs is None else pairs.with_ids(item_ids)
        user_ids = Vocabulary.from_data(
            "user", [source.table.users], origin=source.table.entries.where
        )
        if whole is None:
            notes += _refuse_strangers(source.table.entries, user_ids, truth_cells)
        lists = source.encode(user_ids, item_ids, keep_best=order.keep_best)
    else:
        user_ids, item_ids, probed = _rows_and_columns(
            source, users, items, (truth_cells, train_cells), batch_size
        )
    num_rows = user_ids.size
    user_codes, item_codes = truth_cells.encode(user_ids, item_ids)
    judged = np.ones(num_rows, dtype=np.bool_)
    if truth_cells.shape is None:
        everyone = _named_users(truth_cells)
        missing = everyone.filter(user_ids.encode(everyone, "truth") < 0)
        if len(missing) and user_ids.is_positional:
            raise InputError(
                f"truth names the user {missing[0]!r}, who is not a row of the scores, 0 to "
                f"{num_rows - 1}; "
                "give the ids of the scores' rows as users=[...]."
            )
        if len(missing):
            user_ids = user_ids.extend(missing)
            user_codes = user_ids.encode(truth_cells.users, "truth")
        judged = np.zeros(user_ids.size, dtype=np.bool_)
        judged[user_ids.encode(everyone, "truth")] = True
    _refuse_negative(truth_cells, threshold)
    if whole is None and lists is not None and not _overlap(lists.items, item_codes, item_ids.size):
        notes.append(NOTHING_HIT)
    size = (user_ids.size, item_ids.size)
    rows = build(truth_cells, user_codes, item_codes, size)
    read_train, all_users, unmatched = None, user_ids, 0
    if train_cells is not None:
        totals = None if whole is None else whole.train
        read_train, all_users, unmatched = _train_rows(
            train_cells, user_ids, item_ids, num_rows, totals
        )
    offered, of_others, repeated = None, 0, 0
    if pairs is not None:
        offered, of_others, repeated = _candidate_rows(pairs, user_ids, item_ids, num_rows)
    read = {
        name: read_features(given, name, item_ids, in_order=item_ids.size if items_in_order else 0)
        if name == "item_features"
        else read_labels(given, name, item_ids, in_order=item_ids.size if items_in_order else 0)
        if name == "item_clusters"
        else read_labels(
            given,
            name,
            all_users,
            in_order=num_rows if users is not None or source.num_users is not None else 0,
        )
        for name, given in (labels if whole is None else {**labels, **whole.labels}).items()
    }
    by_row = num_rows if users is not None or source.num_users is not None else 0
    if whole is None:
        sliced = {
            one.name: _sliced(one, rows.filter_relevant(threshold), read_train, all_users, by_row)
            for one in slices
        }
    else:
        if isinstance(of_users := read.get("user_groups"), Labels):
            read["user_groups"] = _of_all(of_users, whole.groups["user_groups"])
        sliced = {
            one.name: _cut_as_all(
                one,
                rows.filter_relevant(threshold),
                read_train,
                all_users,
                by_row,
                whole.groups[one.where],
            )
            for one in slices
            if one.where in whole.groups
        }
    notes += _notes_of_slices(slices, sliced)
    dropped = lists.num_dropped if lists is not None and order.keep_best else None
    return EvaluationData(
        source,
        user_ids,
        item_ids,
        num_rows,
        rows,
        judged,
        read_train,
        read,
        sliced,
        unmatched,
        probed,
        lists,
        dropped=dropped,
        candidates=offered,
        candidates_unmatched=of_others,
        candidates_repeated=repeated,
        tables=tables,
        sliced_by={one.name: "labels" if one.cut is None else str(one.cut) for one in slices},
        notes=(*notes, *(() if whole is None else whole.notes)),
        all_users=None if read_train is None else all_users,
    )


def _sliced(
    wanted: UserSlice, relevant: Interactions, train: Train | None, users: Vocabulary, in_order: int
) -> Labels:
    """The groups of a slice. Quantiles are those of the users with a relevant item."""
    if wanted.cut is None:
        return wanted.read_labels(users, in_order)
    return cut_numbers(*numbers_of(wanted, relevant, train, users, in_order), wanted.cut)


def numbers_of(
    wanted: UserSlice, relevant: Interactions, train: Train | None, users: Vocabulary, in_order: int
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """The number of each user that a slice is cut by, and who has a relevant item."""
    evaluated = np.diff(relevant.offsets) > 0
    if wanted.source is not None:
        return wanted.read_numbers(users, in_order)[: len(evaluated)], evaluated
    assert train is not None
    numbers = np.diff(train.interactions.offsets)[: len(evaluated)].astype(np.float64)
    if wanted.name == "item_popularity":  # users without a relevant item have none
        met = np.bincount(
            relevant.users, weights=train.item_counts[relevant.items], minlength=len(evaluated)
        )
        numbers = met / np.where(evaluated, np.diff(relevant.offsets), np.nan)
    return numbers, evaluated


def _of_all(labels: Labels, groups: Groups) -> Labels:
    """Labels of some users, numbered as those of all."""
    return replace(labels.renumber(groups.names), num_unknown=groups.unknown)


def _cut_as_all(
    wanted: UserSlice,
    relevant: Interactions,
    train: Train | None,
    users: Vocabulary,
    in_order: int,
    groups: Groups,
) -> Labels:
    """The groups of a slice where those of all users are known."""
    if wanted.cut is None:
        return _of_all(wanted.read_labels(users, in_order), groups)
    numbers, _ = numbers_of(wanted, relevant, train, users, in_order)
    assert groups.starts is not None
    return cut_at(numbers, groups.starts, tuple(map(str, groups.names)))


def _notes_of_slices(wanted: Sequence[UserSlice], found: Mapping[str, Labels]) -> Iterator[str]:
    for one in wanted:
        if one.name not in found:
            continue
        groups = len(found[one.name].names)
        if groups == 0:
            yield f"the slice {one.name!r} has no group: no user has a {'label' if one.cut is None else 'number'}"
        elif one.cut is not None and one.cut.kind == "quantiles" and groups < one.cut.numbers[0]:
            yield f"the slice {one.name!r} has {groups} of the groups of {one.cut}: too many users have the same number"


def _rows_and_columns(
    source: Source,
    users: Any,
    items: Any,
    given: tuple[InteractionTable, InteractionTable | None],
    batch_size: int | None,
) -> tuple[Vocabulary, Vocabulary, int]:
    """The users and items of scores, and how many users a model was asked for to find out. `given`:
    truth and train.
    """
    truth, train = given
    user_ids = _vocabulary("user", users, source.num_users)
    if user_ids is None:  # a model can score whoever is asked for: those of the truth
        if truth.shape is not None:
            user_ids = Vocabulary.from_size("user", truth.shape[0])
        else:
            user_ids = Vocabulary.from_ids("user", _named_users(truth))
    item_ids = _vocabulary("item", items, source.num_items)
    if item_ids is None and truth.shape is not None:
        item_ids = Vocabulary.from_size("item", truth.shape[1])
    if item_ids is None and train is not None and train.shape is not None:
        item_ids = Vocabulary.from_size("item", train.shape[1], origin="train")
    return (
        (user_ids, item_ids, 0)
        if item_ids is not None
        else (user_ids, *_columns_of_model(source, user_ids, batch_size))
    )


def _catalogue(
    source: ListSource,
    items: Any,
    truth: InteractionTable,
    train: InteractionTable | None,
    pairs: InteractionTable | None,
    orders_ties_by_descending_id: bool = False,
) -> Vocabulary:
    """The items that lists are about: those given, or the columns of a matrix, or every item that
    occurs.
    """
    if items is not None:
        return given_ids("item", items)
    given = [cells for cells in (truth, train) if cells is not None]
    for cells in (*given, pairs):
        if cells is not None and cells.shape is not None:
            return Vocabulary.from_size("item", cells.shape[1], origin=cells.where)
    lists = source.table.entries
    listed = Vocabulary.from_data("item", [lists.items], origin=lists.where)
    for cells in given:
        if listed.ids.dtype.is_integer() != cells.items.dtype.is_integer():
            listed.encode(cells.items, cells.where)  # refuses ids of another type
    met = [distinct(cells.items) for cells in given]
    if (
        lists.table is not None
        and listed.size
        and len(met[0])
        and all((listed.encode(ids, "") < 0).all() for ids in met)
    ):
        raise nothing_in_common(lists.where, truth.where, listed.ids, met[0])
    met += [] if pairs is None else [distinct(pairs.items)]
    found = Vocabulary.from_data("item", [listed.ids, *met], origin=lists.where)
    return found.sorted_by_text_descending() if orders_ties_by_descending_id else found


def nothing_in_common(lists: str, truth: str, listed: pl.Series, relevant: pl.Series) -> InputError:
    """Lists, in a file, whose items are neither in the truth nor in train."""
    return InputError(
        f"{lists} and {truth} have no item in common: the lists have {some_ids(listed)}, the truth "
        f"{some_ids(relevant)}. Write the "
        "ids of both alike; if they are right, and nothing was hit, give the catalogue as "
        f"{setting_ref('items')}."
    )


def some_ids(ids: pl.Series) -> str:
    """A few ids, for a message."""
    return ", ".join(map(repr, ids.head(3))) + (", ..." if len(ids) > 3 else "")


def _refuse_strangers(
    lists: InteractionTable, users: Vocabulary, truth: InteractionTable
) -> Iterator[str]:
    """Lists and truth that have no user in common."""
    everyone = _named_users(truth)
    if users.size and len(everyone) and (users.encode(everyone, truth.where) < 0).all():
        are_files = lists.table is not None or truth.table is not None
        yield nobody_in_common(lists.where, truth.where, users.ids, everyone, are_files=are_files)


def nobody_in_common(
    lists: str, truth: str, listed: pl.Series, judged: pl.Series, *, are_files: bool
) -> str:
    """Lists and truth without a common user are hardly about the same users: an error for files,
    else what to note.
    """
    what = f"{lists} and {truth} have no user in common: one has {some_ids(listed)}, the other {some_ids(judged)}"
    if are_files:
        raise InputError(
            f"{what}. Write the ids of both alike, and check that both are of the same data."
        )
    return what


def _overlap(listed: NDArray[Any], relevant: NDArray[np.int64], num_items: int) -> bool:
    """Whether an item of the truth stands in a list; nothing of either is no reason to say
    otherwise.
    """
    if not len(listed) or not len(relevant):
        return True
    wanted = np.zeros(num_items, dtype=np.bool_)
    wanted[relevant] = True
    return any(
        wanted[listed[start : start + _PIECE]].any() for start in range(0, len(listed), _PIECE)
    )


def given_ids(kind: str, ids: Any) -> Vocabulary:
    """Ids as the caller gives them; of a table with more than ids, each once."""
    if isinstance(ids, Vocabulary):
        return ids
    if not isinstance(ids, FileTable):
        return Vocabulary.from_ids(kind, ids)
    column = ids.columns[kind]
    return Vocabulary.from_ids(
        kind,
        column if ids.num_columns == 1 else column.unique(maintain_order=True),
        where=ids.where,
    )


def _named_users(cells: InteractionTable) -> pl.Series:
    """Each user that the cells name, once, in order."""
    return distinct(cells.users if cells.all_users is None else cells.all_users)


def _vocabulary(kind: str, ids: Any, size: int | None) -> Vocabulary | None:
    """The given ids, which must fit the scores; or row and column numbers; None if neither is
    known.
    """
    if ids is None:
        return None if size is None else Vocabulary.from_size(kind, size)
    vocabulary = given_ids(kind, ids)
    if size is not None and vocabulary.size != size:
        what = "rows" if kind == "user" else "columns"
        raise InputError(
            f"{kind}s= has {vocabulary.size} ids, but the scores have {size} {what}; expected one "
            "id for each."
        )
    return vocabulary


def _columns_of_model(
    source: Source, users: Vocabulary, batch_size: int | None
) -> tuple[Vocabulary, int]:
    """The catalogue of a model that was given without items, from its first answer, and how many
    users that was for.
    """
    assert isinstance(source, Model)
    if users.size == 0:
        raise InputError(
            "the truth is empty and the model's items are not known; give the item ids as "
            "items=[...]."
        )
    stop = min(
        users.size, batch_size or 16
    )  # few: how many items there are decides how many users fit into a batch
    return Vocabulary.from_size("item", source.probe(0, stop, users.ids[:stop])), stop


def _refuse_negative(cells: InteractionTable, threshold: float | None) -> None:
    negative = cells.values < 0
    if threshold is None and negative.any():
        raise InputError(
            f"truth has negative ratings:\n{cells.format_rows(negative)}\nGive relevance_threshold= to "
            "say from which rating on an item "
            "is relevant, or remove them."
        )


def _train_rows(
    cells: InteractionTable,
    users: Vocabulary,
    items: Vocabulary,
    num_rows: int,
    totals: TrainTotals | None,
) -> tuple[Train, Vocabulary, int]:
    """Train as rows, first of the evaluated users, then of those it alone names; all these users;
    how many rows the latter have.
    """
    rows = users
    if cells.shape is not None and users.size > num_rows:
        rows = Vocabulary(users.kind, num_rows, users.ids[:num_rows])
    user_codes, item_codes = cells.encode(rows, items)
    unmatched = user_codes < 0
    if unmatched.any():
        users = users.extend(cells.users.filter(unmatched).unique(maintain_order=True))
        user_codes = users.encode(cells.users, "train")
    rows_of_all = Interactions.from_codes(
        user_codes, item_codes, cells.values, users.size, items.size
    )
    return Train(rows_of_all, totals), users, int(unmatched.sum())


def _candidate_rows(
    cells: InteractionTable, users: Vocabulary, items: Vocabulary, num_rows: int
) -> tuple[Interactions, int, int]:
    """The candidates of the evaluated users, each once; how many rows belong to others, and how
    many repeat one.
    """
    if cells.shape is not None:
        user_codes, item_codes = cells.encode(
            Vocabulary(users.kind, num_rows, users.ids[:num_rows]), items
        )
    else:
        user_codes, item_codes = users.encode(cells.users, cells.where), cells.encode_items(items)
    known = user_codes >= 0
    rows = Interactions.from_codes(
        user_codes[known], item_codes[known], cells.values[known], users.size, items.size
    )
    repeated = rows.find_duplicates()
    return rows.filter(~repeated), int((~known).sum()), int(repeated.sum())

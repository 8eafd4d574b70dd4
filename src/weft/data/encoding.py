"""Truth, train, candidates and lists encoded as rows of users and codes of items."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from weft.data.evaluation_inputs import Axes, InputTables, named_users
from weft.data.interactions import Interactions, InteractionTable, build_unique
from weft.data.popularity import Train, TrainTotals
from weft.data.recommendations import EncodedLists, ListPolicy
from weft.data.sources import ListSource, Source
from weft.data.vocabulary import Vocabulary
from weft.errors import InputError, setting_ref


class DatasetSettings(Protocol):
    """The settings of an evaluation that `build_dataset` reads."""

    @property
    def relevance_threshold(self) -> float | None: ...
    @property
    def implicit(self) -> bool: ...
    @property
    def batch_size(self) -> int | None: ...
    @property
    def duplicates(self) -> str: ...
    @property
    def unknown_items(self) -> str: ...
    @property
    def extra_users(self) -> str | None: ...
    @property
    def feature_separator(self) -> str | None: ...
    @property
    def slices(self) -> Mapping[str, Any] | None: ...
    @property
    def item_slices(self) -> Mapping[str, Any] | None: ...
    @property
    def mask_seen(self) -> bool | str: ...
    @property
    def orders_ties_by_id(self) -> bool: ...


@dataclass(frozen=True)
class EncodedInteractions:
    """Truth, train, candidates and lists as rows of users.

    Users are the rows of the source, followed by users of the truth without scores or a list.
    Train rows follow the order of users, then come those of users who are not evaluated.
    """

    users: Vocabulary
    truth: Interactions
    relevant: Interactions
    is_judged: NDArray[np.bool_]  # [users], True for users of the truth
    train: Train | None
    all_users: Vocabulary  # also those of train alone
    candidates: Interactions | None
    lists: EncodedLists | None
    counts: Counter[str]  # facts about the inputs, which add up over partitions of the users


def encode_interactions(
    tables: InputTables,
    source: Source | ListSource,
    axes: Axes,
    settings: DatasetSettings,
    totals: TrainTotals | None,
) -> EncodedInteractions:
    """Encode all tables. `totals` are those of train over all partitions, if these are some."""
    counts = Counter(dict.fromkeys(("train_repetitions", "train_rows_unmatched"), 0))
    lists = None
    if isinstance(source, ListSource):
        policy = ListPolicy(settings.duplicates, settings.unknown_items)
        lists = source.encode(axes.users, axes.items, policy)
    truth, users, is_judged = _encode_truth(tables.truth, axes, settings.relevance_threshold)
    counts["users_without_source"] = users.size - axes.users.size
    train, all_users = None, users
    if tables.train is not None:
        train, all_users = _encode_train(tables.train, users, axes, totals, counts)
        counts["truth_interactions"] = len(truth.items)
        counts["truth_in_train"] = truth.count_common(train.interactions)
    if lists is not None:
        _count_lists(lists, train, axes, settings, counts)
    candidates = None
    if tables.candidates is not None:
        candidates = _encode_candidates(tables.candidates, users, axes, counts)
    return EncodedInteractions(
        users=users,
        truth=truth,
        relevant=truth.filter_relevant(settings.relevance_threshold),
        is_judged=is_judged,
        train=train,
        all_users=all_users,
        candidates=candidates,
        lists=lists,
        counts=counts,
    )


def _encode_truth(
    table: InteractionTable, axes: Axes, threshold: float | None
) -> tuple[Interactions, Vocabulary, NDArray[np.bool_]]:
    """Return the truth as rows, all users, and `[users]` whether each is a user of the truth.

    Users of the truth without scores or a list follow those of the source. In a matrix every row
    is a user of the truth.
    """
    users = axes.users
    user_codes, item_codes = table.encode(users, axes.items)
    is_judged = np.ones(users.size, dtype=np.bool_)
    if table.shape is None:
        judged = named_users(table)
        missing = judged.filter(users.encode(judged, "truth") < 0)
        if len(missing) and users.is_positional:
            raise InputError(
                f"truth has the user {missing[0]!r}, but the rows of the scores are numbered 0 to "
                f"{users.size - 1}; give the ids of the rows as {setting_ref('users')}[...]."
            )
        if len(missing):
            users = users.extend(missing)
            user_codes = users.encode(table.users, "truth")
        is_judged = np.zeros(users.size, dtype=np.bool_)
        is_judged[users.encode(judged, "truth")] = True
    negative = table.values < 0
    if threshold is None and negative.any():
        raise InputError(
            f"truth has negative ratings:\n{table.format_rows(negative)}\nGive "
            f"{setting_ref('relevance_threshold')} (the lowest rating of a relevant item), or "
            "remove them."
        )
    return (
        build_unique(table, user_codes, item_codes, (users.size, axes.items.size)),
        users,
        is_judged,
    )


def _encode_train(
    table: InteractionTable,
    users: Vocabulary,
    axes: Axes,
    totals: TrainTotals | None,
    counts: Counter[str],
) -> tuple[Train, Vocabulary]:
    """Return train as rows, and all users: those who are evaluated, then those of train alone."""
    rows = axes.users if table.shape is not None else users
    user_codes, item_codes = table.encode(rows, axes.items)
    unmatched = user_codes < 0
    if unmatched.any():
        users = users.extend(table.users.filter(unmatched).unique(maintain_order=True))
        user_codes = users.encode(table.users, "train")
    train = Train(
        Interactions.from_codes(user_codes, item_codes, table.values, users.size, axes.items.size),
        totals,
    )
    counts["train_repetitions"] = train.num_duplicates
    counts["train_rows_unmatched"] = int(unmatched.sum())
    return train, users


def _encode_candidates(
    table: InteractionTable, users: Vocabulary, axes: Axes, counts: Counter[str]
) -> Interactions:
    """Return the candidates of the evaluated users as rows, each once."""
    if table.shape is not None:
        user_codes, item_codes = table.encode(axes.users, axes.items)
    else:
        user_codes = users.encode(table.users, table.where)
        item_codes = table.encode_items(axes.items)
    known = user_codes >= 0
    rows = Interactions.from_codes(
        user_codes[known], item_codes[known], table.values[known], users.size, axes.items.size
    )
    repeated = rows.find_duplicates()
    counts["candidates_unmatched"] = int((~known).sum())
    counts["candidates_repeated"] = int(repeated.sum())
    return rows.filter(~repeated)


def _count_empty(lists: EncodedLists, settings: DatasetSettings) -> dict[str, int]:
    """Return the counts of empty positions, of the kinds that the settings allow."""
    empty = lists.count_empty()
    kinds = {"unknown_in_lists": settings.unknown_items, "repeated_in_lists": settings.duplicates}
    return {name: empty[name] for name, setting in kinds.items() if setting == "miss"}


def _count_lists(
    lists: EncodedLists,
    train: Train | None,
    axes: Axes,
    settings: DatasetSettings,
    counts: Counter[str],
) -> None:
    """Count gaps in ranks, repeated and unknown items, and items of the user's train in lists."""
    counts["lists_with_rank_gaps"] = lists.num_rank_gaps
    if settings.duplicates == "keep-best":
        counts["duplicates_dropped"] = lists.num_dropped
    counts.update(_count_empty(lists, settings))
    if train is not None and settings.mask_seen is not False:
        counts["seen_in_lists"] = lists.count_listed(
            train.interactions.slice_users(0, axes.users.size)
        )

"""The data that the caller hands in, the tables read from it, and the axes of the evaluation: its
users and items.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from weft._input_kinds import InputKind
from weft.data.common_ids import check_common_items
from weft.data.interaction_readers import read_interactions, read_pairs
from weft.data.interactions import InteractionTable
from weft.data.number_files import read_input_files
from weft.data.positions import PositionalIds, are_positions
from weft.data.readers.files import FileTable, is_file, read_table
from weft.data.readers.pipes import check_pipes
from weft.data.recommendations import are_lists
from weft.data.sources import ListSource, Model, Source
from weft.data.vocabulary import Vocabulary, distinct_ids
from weft.errors import InputError, MissingInput, SettingError, agree, setting_ref

if TYPE_CHECKING:
    import polars as pl

LISTS_NAME_USERS = (
    f"{setting_ref('users')} gives the ids of the rows of scores, but recommendation lists "
    "contain their user ids, as in weft.TopKItems(ids, users=[...]). Remove it."
)
UNKNOWN_NEEDS_ITEMS = (
    f"{setting_ref('unknown_items', 'miss')} needs the catalogue to know which items are unknown; "
    f"give it as {setting_ref('items')}: a list, a table or a file of item ids."
)
# Users for whom a model without known items is asked first: few, because the number of items
# decides how many users fit into a batch.
_PROBE_USERS = 16


@dataclass(frozen=True)
class EvaluationInputs:
    """The data of an evaluation, as the caller gives it (see `weft.evaluate`).

    `side` holds the other inputs of metrics that were given, `kinds` the kind of each.
    `candidates` are the items of each user, if they were given. `reads_times`: some setting needs
    the timestamps of the truth.
    """

    source: Any  # None if it is not known yet
    truth: Any
    train: Any = None
    users: Any = None
    items: Any = None
    side: Mapping[str, Any] = field(default_factory=dict)
    candidates: Any = None
    kinds: Mapping[str, InputKind] = field(default_factory=dict)
    reads_times: bool = False

    def __post_init__(self) -> None:
        check_pipes(vars(self) | dict(self.side))

    @property
    def others(self) -> tuple[Any, ...]:
        """All data but the source; None for what was not given."""
        names = ("truth", "train", "users", "items", "candidates")
        return (*(getattr(self, name) for name in names), *self.side.values())

    def with_ids(self, ids: Mapping[str, Any]) -> EvaluationInputs:
        """Return the inputs with the ids of scores that name their users or items themselves.

        Raises `SettingError` if the caller gives them, too."""
        for name in ids:
            if getattr(self, name) is not None:
                raise SettingError(
                    f"{setting_ref(name)} gives the ids of the scores, but these scores have "
                    f"{name.removesuffix('s')} ids already; remove it, or give the scores "
                    "without ids."
                )
        return replace(self, **ids)

    @cached_property
    def available(self) -> frozenset[str]:
        """The names of the inputs that exist; "lists" if the source has recommendation lists."""
        names = set(self.side)
        if self.train is not None:
            names.add("train")
        if self.candidates is not None:
            names.add("candidates")
        if self.has_lists:
            names.add("lists")
        return frozenset(names)

    @cached_property
    def has_lists(self) -> bool:
        """True if the source has recommendation lists rather than scores."""
        return isinstance(self.source, ListSource) or are_lists(self.source)


@dataclass(frozen=True)
class InputTables:
    """The inputs besides the source, read but not encoded. Files of side inputs and ids are
    tables.
    """

    truth: InteractionTable
    train: InteractionTable | None
    candidates: InteractionTable | None
    users: Any
    items: Any
    side: Mapping[str, Any]
    declared_positions: frozenset[str] = frozenset()  # "users", "items"

    @classmethod
    def read(cls, inputs: EvaluationInputs) -> InputTables:
        """Read the inputs."""
        truth = read_interactions(inputs.truth, "truth", reads_times=inputs.reads_times)
        train = None if inputs.train is None else read_interactions(inputs.train, "train")
        candidates = inputs.candidates
        tables = cls(
            truth,
            train,
            None if candidates is None else read_pairs(candidates, "candidates"),
            users=None,
            items=None,
            side=read_input_files(inputs.side, inputs.kinds) if inputs.side else {},
        )
        return tables.with_ids(users=inputs.users, items=inputs.items)

    def with_ids(self, **ids: Any) -> InputTables:
        """Return the tables with these `users` and `items`; files are read."""
        declared = {name for name, given in ids.items() if are_positions(given)}
        tables: dict[str, Any] = {}
        for name, given in ids.items():
            tables[name] = None if name in declared else given
            if tables[name] is not None and is_file(given):
                tables[name] = read_table(given, name)
        return replace(self, declared_positions=self.declared_positions | declared, **tables)

    @property
    def interactions(self) -> list[InteractionTable]:
        """The truth, and train if it exists."""
        return [self.truth] if self.train is None else [self.truth, self.train]

    @cached_property
    def given_users(self) -> Vocabulary | None:
        """The ids of the rows of scores, if the caller gives them."""
        return None if self.users is None else read_ids("user", self.users)

    @cached_property
    def given_items(self) -> Vocabulary | None:
        """The ids of the catalogue, if the caller gives them."""
        return None if self.items is None else read_ids("item", self.items)

    def has_item_order(self, source: Source | ListSource) -> bool:
        """Return True if the caller knows the order of the items."""
        return (
            not isinstance(source, ListSource)
            or self.items is not None
            or any(table.shape is not None for table in self.interactions)
        )

    def files(self, source: Source | ListSource) -> dict[str, FileTable]:
        """Return the files that were read, by the name of the input."""
        tables: dict[str, Any] = {
            "source": source.table.file if isinstance(source, ListSource) else None,
            "truth": self.truth,
            "train": self.train,
            "candidates": self.candidates,
            "users": self.users,
            "items": self.items,
            **self.side,
        }
        files = {}
        for name, table in tables.items():
            file = table.table if isinstance(table, InteractionTable) else table
            if isinstance(file, FileTable):
                files[name] = file
        return files

    def with_item_ids(self, items: Any) -> InputTables:
        """Return the tables with the columns of matrices replaced by the ids of `items`."""
        return replace(
            self,
            truth=self.truth.with_ids(items),
            train=None if self.train is None else self.train.with_ids(items),
            candidates=None if self.candidates is None else self.candidates.with_ids(items),
        )


# --------------------------------------------------------------------------------------------------
# Users and items


@dataclass(frozen=True)
class Axes:
    """The users and items that the source has scores or lists for.

    `num_probed` users were scored already, to learn the items of a model.
    """

    users: Vocabulary
    items: Vocabulary
    num_probed: int = 0


def list_axes(
    tables: InputTables,
    source: ListSource,
    items: Vocabulary | None,
    *,
    orders_ties_by_id: bool,
    needs_items: bool,
) -> Axes:
    """Return the users and items of recommendation lists. `items` is the catalogue if known.

    Raise `MissingInput` if `needs_items`, and the catalogue would be what occurs in the lists."""
    if tables.users is not None:
        raise SettingError(LISTS_NAME_USERS)
    if items is None and needs_items and not tables.has_item_order(source):
        raise MissingInput(UNKNOWN_NEEDS_ITEMS)
    if items is None:
        items = _catalogue(tables, source, orders_ties_by_id=orders_ties_by_id)
    users = Vocabulary.from_data("user", [source.table.users], origin=source.table.where)
    return Axes(users, items)


def score_axes(
    tables: InputTables, source: Source, items: Vocabulary | None, batch_size: int | None
) -> Axes:
    """Return the users and items of scores. A model may have to be asked for its items."""
    truth, train = tables.truth, tables.train
    users = _vocabulary("user", tables.given_users, source.num_users)
    if users is None and truth.shape is not None:
        users = Vocabulary.from_size("user", truth.shape[0])
    elif users is None:  # a model can score any user: it is asked for those of the truth
        users = Vocabulary.from_ids("user", named_users(truth))
    found = _vocabulary("item", items or tables.given_items, source.num_items)
    if found is None and truth.shape is not None:
        found = Vocabulary.from_size("item", truth.shape[1])
    if found is None and train is not None and train.shape is not None:
        found = Vocabulary.from_size("item", train.shape[1], origin="train")
    if found is not None:
        return Axes(users, found)
    return _probe_model(source, users, batch_size)


def positional_axes(source: Source | ListSource, axes: Axes) -> list[Vocabulary]:
    """Return the users and items with row or column numbers of the source as ids."""
    if isinstance(source, ListSource):
        return [axes.users] if source.table.has_undeclared_rows else []
    return [axis for axis in (axes.users, axes.items) if axis.is_positional]


def position_notes(
    inputs: EvaluationInputs, tables: InputTables, source: Source | ListSource, axes: Axes
) -> list[str]:
    """Return the notes on ids of truth and train that are row or column numbers of the source."""
    names = ("truth", "train")
    with_ids = {
        name: table
        for name, table in zip(names, tables.interactions)
        if table.shape is None and table.num_rows is None
    }
    positional = positional_axes(source, axes)
    if not with_ids or not positional:
        return []
    origin = positional[-1].origin or "the scores"
    is_unsaid = inputs.users is None and inputs.items is None
    if isinstance(source, ListSource):
        origin, is_unsaid = "weft.TopKItems", True  # its own argument names its rows
    ids = PositionalIds(
        {axis.kind: axis.size for axis in positional},
        frozenset(name.removesuffix("s") for name in tables.declared_positions),
        tuple(with_ids),
        tuple(name for name in with_ids if not isinstance(getattr(inputs, name), Mapping)),
        is_unsaid=is_unsaid,
        origin=origin,
    )
    return ids.notes(
        {
            "user": [table.named_users for table in with_ids.values()],
            "item": [table.items for table in with_ids.values()],
        }
    )


def _catalogue(tables: InputTables, source: ListSource, *, orders_ties_by_id: bool) -> Vocabulary:
    """Return the items of lists: those given, columns of a matrix, or every item that occurs."""
    if tables.given_items is not None:
        return tables.given_items
    candidates = [] if tables.candidates is None else [tables.candidates]
    for table in (*tables.interactions, *candidates):
        if table.shape is not None:
            return Vocabulary.from_size("item", table.shape[1], origin=table.where)
    lists = source.table
    listed = Vocabulary.from_data("item", [lists.items], origin=lists.where)
    for table in tables.interactions:
        if listed.ids.dtype.is_integer() != table.items.dtype.is_integer():
            listed.encode(table.items, table.where)  # raises: the ids have different types
    others = [distinct_ids(table.items) for table in tables.interactions]
    if lists.file is not None:
        check_common_items(lists.where, tables.truth.where, listed, others)
    ids = [listed.ids, *others, *(distinct_ids(table.items) for table in candidates)]
    items = Vocabulary.from_data("item", ids, origin=lists.where)
    return items.sorted_by_text_descending() if orders_ties_by_id else items


def read_ids(kind: str, ids: Any) -> Vocabulary:
    """Return the ids that the caller gives; of a table with more columns than ids, each id once."""
    if not isinstance(ids, FileTable):
        return Vocabulary.from_ids(kind, ids)
    column = ids.columns[kind]
    return Vocabulary.from_ids(
        kind,
        column if ids.num_columns == 1 else column.unique(maintain_order=True),
        where=ids.where,
    )


def named_users(table: InteractionTable) -> pl.Series:
    """Return each user that a table names, once, in order."""
    return distinct_ids(table.named_users)


def _vocabulary(kind: str, ids: Vocabulary | None, size: int | None) -> Vocabulary | None:
    """Return the given ids, which must fit the scores; or positions; None if neither is known."""
    if ids is None:
        return None if size is None else Vocabulary.from_size(kind, size)
    if size is not None and ids.size != size:
        axis = "row" if kind == "user" else "column"
        raise InputError(
            f"{setting_ref(f'{kind}s')} has {agree(ids.size, '{n} id{s}')}, but the scores have "
            f"{agree(size, '{n} {axis}{s}', axis=axis)}; expected one id for each."
        )
    return ids


def _probe_model(source: Source, users: Vocabulary, batch_size: int | None) -> Axes:
    """Learn the number of items of a model from the scores of its first users."""
    assert isinstance(source, Model)
    if users.size == 0:
        raise InputError(
            "the truth is empty and the items of the model are not known; give the item ids as "
            f"{setting_ref('items')}[...]."
        )
    stop = min(users.size, batch_size or _PROBE_USERS)
    num_items = source.probe(0, stop, users.ids[:stop])
    return Axes(users, Vocabulary.from_size("item", num_items), stop)

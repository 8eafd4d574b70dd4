"""`EvaluationInputs`: the data that the caller hands in, and the tables read from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from weft.data.interaction_readers import read_interactions, read_pairs
from weft.data.interaction_table import InteractionTable
from weft.data.readers.files import FileTable, is_file, read_table
from weft.data.recommendations import are_lists
from weft.data.sources import ListSource, Source, open_source

LABEL_INPUTS = ("user_groups", "item_clusters", "item_features")


@dataclass(frozen=True)
class EvaluationInputs:
    """The data of an evaluation, as the caller gives it (see `weft.evaluate`).

    `labels` holds those of user_groups, item_clusters and item_features that were given.
    `candidates` are the items of each user, if they were given.
    """

    source: Any
    truth: Any
    train: Any = None
    users: Any = None
    items: Any = None
    labels: Mapping[str, Any] = field(default_factory=dict)
    candidates: Any = None

    @cached_property
    def available(self) -> frozenset[str]:
        """The names of the inputs that exist; "lists" if the source has recommendation lists."""
        optional = {"train": self.train, "candidates": self.candidates, **self.labels}
        names = {name for name, value in optional.items() if value is not None}
        return frozenset(names | ({"lists"} if self.has_lists else set()))

    @cached_property
    def has_lists(self) -> bool:
        """True if the source has recommendation lists rather than scores."""
        return isinstance(self.source, ListSource) or are_lists(self.source)

    def open_source(self) -> EvaluationInputs:
        """Return the inputs with the source opened; files of recommendation lists are read."""
        return replace(self, source=open_source(self.source))


@dataclass(frozen=True)
class InputTables:
    """The inputs, read but not encoded. Files of labels and ids are tables."""

    source: Source | ListSource
    truth: InteractionTable
    train: InteractionTable | None
    candidates: InteractionTable | None
    users: Any
    items: Any
    labels: Mapping[str, Any]
    has_item_order: bool  # True if the caller knows the order of the items

    @classmethod
    def read(cls, inputs: EvaluationInputs) -> InputTables:
        """Read the inputs. The source must be open."""
        truth = read_interactions(inputs.truth, "truth")
        train = None if inputs.train is None else read_interactions(inputs.train, "train")
        candidates = inputs.candidates
        has_item_order = (
            not isinstance(inputs.source, ListSource)
            or inputs.items is not None
            or any(table is not None and table.shape is not None for table in (truth, train))
        )
        return cls(
            inputs.source,
            truth,
            train,
            None if candidates is None else read_pairs(candidates, "candidates"),
            users=_read_file(inputs.users, "users"),
            items=_read_file(inputs.items, "items"),
            labels={name: _read_file(labels, name) for name, labels in inputs.labels.items()},
            has_item_order=has_item_order,
        )

    @property
    def interactions(self) -> list[InteractionTable]:
        """The truth, and train if it exists."""
        return [self.truth] if self.train is None else [self.truth, self.train]

    @property
    def has_user_order(self) -> bool:
        """True if the order of the users is known to the caller."""
        return self.users is not None or self.source.num_users is not None

    def files(self) -> dict[str, FileTable]:
        """Return the files that were read, by the name of the input."""
        lists = self.source.table.entries if isinstance(self.source, ListSource) else None
        tables = {
            "source": lists,
            "truth": self.truth,
            "train": self.train,
            "candidates": self.candidates,
        }
        files: dict[str, Any] = {
            name: None if table is None else table.table for name, table in tables.items()
        }
        files |= {"users": self.users, "items": self.items, **self.labels}
        return {name: file for name, file in files.items() if isinstance(file, FileTable)}

    def with_item_ids(self, items: Any) -> InputTables:
        """Return the tables with the columns of matrices replaced by the ids of `items`."""
        return replace(
            self,
            truth=self.truth.with_ids(items),
            train=None if self.train is None else self.train.with_ids(items),
            candidates=None if self.candidates is None else self.candidates.with_ids(items),
        )


def _read_file(value: Any, name: str) -> Any:
    return read_table(value, name) if is_file(value) else value

"""Slices of an evaluator: groups of users, and groups of relevant items."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from weft.data import Labels
from weft.data.item_slices import ItemSlice, parse_item_slices, read_item_slices
from weft.data.label_readers import infer_vocabulary
from weft.data.labels import read_positional_labels
from weft.data.truth_groups import RepeatGroups, TruthGroups
from weft.data.truth_times import TimeRule
from weft.data.vocabulary import Vocabulary
from weft.errors import SettingError
from weft.evaluation.settings import EvaluationSettings


@dataclass(frozen=True)
class RunSlices:
    """The slices of a run by name: labels of users, and groups of relevant items."""

    of_users: dict[str, Labels] = field(default_factory=dict)
    of_items: dict[str, TruthGroups] = field(default_factory=dict)

    @property
    def num_items(self) -> int | None:
        """The number of items of the item slices; None without any."""
        return next((groups.num_items for groups in self.of_items.values()), None)

    @classmethod
    def read_positional(cls, settings: EvaluationSettings, inputs: Mapping[str, Any]) -> Self:
        """Read the slices of row and column numbers; `inputs` are encoded."""
        of_users = {
            name: read_positional_labels(
                labels, f"slices[{name!r}]", "user", inputs.get("num_users")
            )
            for name, labels in (settings.slices or {}).items()
        }
        requests = parse_item_slices(
            settings.item_slices, available=inputs.keys(), user_slices=of_users
        )
        of_items: dict[str, TruthGroups] = {}
        for one in requests:
            of_items |= _read_groups(one, inputs)
        return cls(of_users, of_items)


def _read_groups(wanted: ItemSlice, inputs: Mapping[str, Any]) -> dict[str, TruthGroups]:
    if isinstance(wanted.rule, TimeRule):
        raise SettingError(
            f"{wanted.where} is {wanted.definition!r}, but batches have no timestamps; evaluate a "
            "frame or a file with weft.evaluate.",
            setting="item_slices",
        )
    train = inputs.get("train")
    if not wanted.is_about_items:
        assert train is not None
        return {wanted.name: RepeatGroups(train)}
    num_items = inputs.get("num_items")
    if wanted.is_own_data:
        items = infer_vocabulary(wanted.source, wanted.where, "item", num_items)
    else:
        items = Vocabulary.from_size("item", num_items or 0)
    return read_item_slices([wanted], items, num_in_order=items.size, inputs=inputs, train=train)


def find_targets(
    settings: EvaluationSettings, inputs: Mapping[str, Any]
) -> tuple[TruthGroups, int] | None:
    """Return the groups of new and repeated items, and which of them counts; None for all."""
    if settings.targets == "all":
        return None
    groups = RepeatGroups(inputs["train"])
    return groups, groups.names.index(settings.targets)

"""Inputs of metrics besides scores and truth: read by kind, under ids or by position."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft._input_kinds import InputKind, ItemFeatures, UserLists
from weft.data.features import NO_FEATURES, Features, read_features
from weft.data.interactions import hash_rows, sum_hashes
from weft.data.item_lists import NO_LISTS, ItemLists, read_item_lists
from weft.data.label_readers import infer_vocabulary
from weft.data.labels import NO_LABELS, Labels, read_labels
from weft.data.numbers import Numbers, empty_numbers, read_numbers
from weft.data.popularity import NO_TRAIN, Train
from weft.data.sources.factors import Factors
from weft.data.vocabulary import Vocabulary
from weft.errors import SettingError, check_int, check_type, setting_ref

UserValue = Labels | Numbers | ItemLists
InputValue = Train | Features | UserValue
Kinds = Mapping[str, InputKind]


def read_input(
    data: Any,
    where: str,
    kind: InputKind,
    ids: Vocabulary,
    *,
    items: Vocabulary | None = None,
    num_in_order: int | None = None,
    num_required: int | None = None,
) -> Features | UserValue:
    """Return an input of users or items by code; `where` names it in messages.

    `items` are those of lists; None if they are numbers from 0.

    A sequence holds the values of the first `num_in_order` ids, by default of all; 0: ids have no
    known order. The first `num_required` ids, by default all, must have a value if the kind
    requires it. Raises `InputError` for data that does not fit.
    """
    if kind.form == "label":
        return read_labels(data, where, ids, num_in_order=num_in_order)
    if isinstance(kind, UserLists):
        return read_item_lists(data, where, ids, items, num_in_order=num_in_order)
    if isinstance(kind, ItemFeatures):
        return read_features(data, where, ids, num_in_order=num_in_order, separator=kind.separator)
    vectors = _select_embeddings(data, kind)
    return read_numbers(
        vectors, where, ids, kind, num_in_order=num_in_order, num_required=num_required
    )


def _select_embeddings(data: Any, kind: InputKind) -> Any:
    """Return the item embeddings of factors as vectors of items; other data as they are."""
    is_model = isinstance(data, Factors) and kind.axis == "item" and kind.form == "vector"
    return data.item_embeddings if is_model else data


def read_item_inputs(
    data: Mapping[str, Any], kinds: Kinds, items: Vocabulary, *, num_in_order: int
) -> dict[str, Any]:
    """Return the inputs that are about items, encoded."""
    return {
        name: read_input(one, name, kinds[name], items, num_in_order=num_in_order)
        for name, one in data.items()
        if kinds[name].axis == "item"
    }


def hash_user_input(value: UserValue, users: Vocabulary, items: Vocabulary) -> NDArray[np.uint64]:
    """Return sums of hashes of the values by user id, `[3]`; those of several partitions add up."""
    if isinstance(value, ItemLists):
        return value.hash_sums(users, items)
    if isinstance(value, Labels):
        numbers = value.codes.values.cpu().numpy()
        labels = Vocabulary.from_ids("label", [repr(name) for name in value.names]).hash_keys()
        has_value = numbers >= 0
        columns = [labels[numbers[has_value]]]
    else:
        has_value = ~value.missing.values.cpu().numpy()
        table = value.values.values.cpu().numpy()[has_value].astype(np.float64)
        columns = list(np.ascontiguousarray(np.atleast_2d(table.T)).view(np.int64))
    return sum_hashes(hash_rows(users.hash_keys()[: len(has_value)][has_value], *columns))


def empty_input(kind: InputKind) -> InputValue:
    """Return an input of no user or item."""
    if kind.form == "interactions":
        return NO_TRAIN
    if kind.form == "label":
        return NO_LABELS
    if kind.form == "list":
        return NO_LISTS
    return NO_FEATURES if kind.form == "features" else empty_numbers(kind)


def read_positional_inputs(
    data: Mapping[str, Any],
    kinds: Kinds,
    num_users: int | None = None,
    num_items: int | None = None,
) -> dict[str, Any]:
    """Return inputs of row and column numbers, encoded, by name.

    Also `num_users` and `num_items`, if they are known. Inputs that are None are left out.
    """
    inputs: dict[str, Any] = {}
    sizes = {"num_users": num_users, "num_items": num_items}
    for name, size in sizes.items():
        sizes[name] = None if size is None else check_int(name, size, least=0)
    # Train and inputs of items come first, because they give the number of items.
    order = ("interaction", "item", "user")
    for name in sorted(data, key=lambda name: order.index(kinds[name].axis)):
        kind, axis = kinds[name], f"num_{kinds[name].axis}s"
        if data[name] is None:
            continue
        if kind.form == "interactions":
            inputs[name] = _read_train(data[name], **sizes)
            sizes["num_items"] = inputs[name].num_items
            continue
        inputs[name] = _read_positional(data[name], name, kind, sizes[axis], sizes["num_items"])
        if kind.axis == "item" and sizes[axis] is None:
            sizes[axis] = inputs[name].size
    return inputs | {name: size for name, size in sizes.items() if size is not None}


def _read_train(data: Any, num_users: int | None, num_items: int | None) -> Train:
    try:
        return Train.read(data, num_users, num_items)
    except SettingError as error:
        reason = str(error).rstrip(".")
        raise SettingError(f"{reason}, or give num_users= and num_items= too.") from None


def _read_positional(
    data: Any, where: str, kind: InputKind, size: int | None, num_items: int | None
) -> InputValue:
    if isinstance(data, InputValue):
        return data
    items = None if num_items is None else Vocabulary.from_size("item", num_items)
    data = _select_embeddings(data, kind)
    ids = infer_vocabulary(data, where, kind.axis, size)
    return read_input(data, where, kind, ids, items=items)


def merge_inputs(inputs: Mapping[str, Any] | None, **named: Any) -> dict[str, Any]:
    """Return all inputs of metrics that are given, by name, from `inputs` and their own arguments.

    Raises `SettingError` for an input that is given twice.
    """
    if inputs is not None:
        check_type("inputs", inputs, Mapping, "a dict of inputs by name")
    merged = {name: data for name, data in named.items() if data is not None}
    for name, data in (inputs or {}).items():
        check_type("a name in inputs", name, str, "a name, such as 'price'")
        if name in merged:
            raise SettingError(
                f"{name} is given twice, as {setting_ref(name)} and in {setting_ref('inputs')}; "
                "remove one.",
                setting="inputs",
            )
        if data is not None:
            merged[name] = data
    return merged


def with_separator(kinds: Kinds, separator: str | None) -> Kinds:
    """Return the kinds with the separator that the caller gives for item_features."""
    features = kinds.get("item_features")
    if separator is None or not isinstance(features, ItemFeatures):
        return kinds
    return {**kinds, "item_features": replace(features, separator=separator)}

"""Inputs of metrics as fields of a document, for files of states."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from weft._input_kinds import InputKind, ItemFeatures, ItemLabels
from weft.data import DeviceColumn, Features, Label, Labels, Numbers, Train
from weft.data.interactions import Interactions
from weft.data.item_lists import ItemLists
from weft.data.side_inputs import InputValue
from weft.data.truth_groups import FeatureGroups, LabelGroups, TruthGroups
from weft.evaluation.document_fields import check_list, check_mapping, check_whole, describe, reject
from weft.evaluation.tensor_fields import FLOATS, check_codes, check_offsets, check_tensor


def pack_input(value: InputValue) -> dict[str, Any]:
    """Return an input as tensors and plain values."""
    if isinstance(value, Numbers):
        columns = {"values": value.values.values, "missing": value.missing.values}
        return {**columns, "num_unknown": value.num_unknown}
    if isinstance(value, ItemLists):
        return _pack_lists(value)
    if isinstance(value, Train):
        interactions = value.interactions
        ratings = interactions.values
        if (ratings == ratings[:1]).all():  # mostly all are 1
            ratings = ratings[:1]
        arrays = {
            "offsets": interactions.offsets,
            "items": interactions.items.astype(
                np.int32 if interactions.num_items < 1 << 31 else np.int64
            ),
            "ratings": ratings,
        }
        tensors = {
            name: torch.from_numpy(np.ascontiguousarray(array).copy())
            for name, array in arrays.items()
        }
        return {
            **tensors,
            "num_items": interactions.num_items,
            "num_duplicates": value.num_duplicates,
        }
    columns = {"codes": value.codes.values}
    if isinstance(value, Features):
        columns["offsets"] = value.offsets.values
    return {**columns, "names": list(value.names), "num_unknown": value.num_unknown}


def _pack_lists(lists: ItemLists) -> dict[str, Any]:
    arrays = {"offsets": lists.offsets, "items": lists.items, "has_list": lists.has_list}
    tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
    return {**tensors, "num_items": lists.num_items, "num_unknown": lists.num_unknown}


def unpack_input(kind: InputKind, plain: object, field: str) -> Any:
    """Build an input from what `pack_input` returned. Raises `InputError` for anything else."""
    readers = {
        "interactions": _read_train,
        "label": _read_labels,
        "features": _read_features,
        "list": _read_lists,
        "number": _read_numbers,
        "vector": _read_numbers,
    }
    value = readers[kind.form](plain, field)
    if isinstance(value, Numbers) and value.is_vector != (kind.form == "vector"):
        reject(f"{field}['values']", describe(value.values.values), kind.title)
    return value


def pack_groups(groups: TruthGroups) -> dict[str, Any]:
    """Return the groups of an item slice as tensors and plain values, by their kind."""
    if isinstance(groups, LabelGroups):
        return {"labels": pack_input(groups.labels)}
    if isinstance(groups, FeatureGroups):
        return {"features": pack_input(groups.features)}
    return {"targets": None}  # follows from train


def unpack_groups(plain: object, field: str) -> Any:
    """Build the request of an item slice from what `pack_groups` returned."""
    kinds = {"labels": ItemLabels(), "features": ItemFeatures()}
    stored = check_mapping(plain, field)
    kind = next(iter(stored), None)
    if kind == "targets":
        return kind
    if kind not in kinds:
        reject(field, describe(plain), "labels, features or targets")
    return unpack_input(kinds[kind], stored[kind], field)


def _read_numbers(plain: object, field: str) -> Numbers:
    fields = check_mapping(plain, field, ("values", "missing", "num_unknown"))
    stored = fields["values"]
    shape = (None, None) if getattr(stored, "ndim", 1) == 2 else (None,)
    values = check_tensor(stored, f"{field}['values']", FLOATS, shape)
    missing = check_tensor(fields["missing"], f"{field}['missing']", (torch.bool,), (len(values),))
    if not values[~missing].isfinite().all():
        reject(f"{field}['values']", describe(values), "finite numbers")
    num_unknown = check_whole(fields["num_unknown"], f"{field}['num_unknown']")
    return Numbers(DeviceColumn(values), DeviceColumn(missing), num_unknown)


def _read_lists(plain: object, field: str) -> ItemLists:
    names = ("offsets", "items", "has_list", "num_items", "num_unknown")
    fields = check_mapping(plain, field, names)
    num_items = check_whole(fields["num_items"], f"{field}['num_items']")
    items = check_codes(fields["items"], f"{field}['items']", num_items, least=-1)
    offsets = check_offsets(fields["offsets"], f"{field}['offsets']", len(items))
    size = (len(offsets) - 1,)
    has_list = check_tensor(fields["has_list"], f"{field}['has_list']", (torch.bool,), size)
    num_unknown = check_whole(fields["num_unknown"], f"{field}['num_unknown']")
    lists = ItemLists(offsets.numpy(), items.numpy(), has_list.numpy(), num_items, num_unknown)
    if lists.has_repetitions or (offsets.diff() * ~has_list).any():
        reject(f"{field}['items']", describe(items), "lists in which no item occurs twice")
    return lists


def _read_train(plain: object, field: str) -> Train:
    names = ("offsets", "items", "ratings", "num_items", "num_duplicates")
    fields = check_mapping(plain, field, names)
    num_items = check_whole(fields["num_items"], "train['num_items']")
    stored = check_tensor(fields["items"], "train['items']", (torch.int32, torch.int64), (None,))
    codes = check_codes(stored.long(), "train['items']", num_items)
    offsets = check_offsets(fields["offsets"], "train['offsets']", len(codes))
    stored = check_tensor(fields["ratings"], "train['ratings']", (torch.float64,), (None,))
    if len(stored) not in (1, len(codes)) or not stored.isfinite().all():
        reject("train['ratings']", describe(stored), f"1 or {len(codes)} finite numbers")
    items, ratings = codes.numpy(), stored.numpy()
    if len(ratings) == 1:
        ratings = np.ascontiguousarray(np.broadcast_to(ratings, items.shape))
    interactions = Interactions(offsets.numpy(), items, ratings, num_items)
    if (np.diff(interactions.flat_keys) <= 0).any():
        reject("train['items']", describe(codes), "ascending items of each user")
    train = Train(interactions)
    train.num_duplicates = check_whole(fields["num_duplicates"], "train['num_duplicates']")
    return train


def _read_labels(plain: object, field: str) -> Labels:
    fields = check_mapping(plain, field, ("codes", "names", "num_unknown"))
    names = _read_names(fields["names"], field)
    codes = check_codes(fields["codes"], f"{field}['codes']", len(names), least=-1)
    num_unknown = check_whole(fields["num_unknown"], f"{field}['num_unknown']")
    return Labels(DeviceColumn(codes), names, num_unknown)


def _read_features(plain: object, field: str) -> Features:
    fields = check_mapping(plain, field, ("offsets", "codes", "names", "num_unknown"))
    names = _read_names(fields["names"], field)
    codes = check_codes(fields["codes"], f"{field}['codes']", len(names))
    offsets = check_offsets(fields["offsets"], f"{field}['offsets']", len(codes))
    num_unknown = check_whole(fields["num_unknown"], f"{field}['num_unknown']")
    return Features(DeviceColumn(offsets), DeviceColumn(codes), names, num_unknown)


def _read_names(plain: object, field: str) -> tuple[Label, ...]:
    """Return the names of labels: texts and numbers, each once."""
    names = tuple(check_list(plain, f"{field}['names']"))
    for name in names:
        if not isinstance(name, (str, int, float)):
            reject(f"{field}['names']", f"with {describe(name)} among them", "strings and numbers")
    if len(set(names)) != len(names):
        reject(f"{field}['names']", describe(list(names)), "each name once")
    return names

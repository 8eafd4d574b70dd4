"""The native loops over lists against plain Python; those over scores are in test_kernels."""

import itertools

import numpy as np
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import weft
from test_lists import SAME, K, same, worlds
from weft._native import call, is_built
from weft.data import BatchLists
from weft.data.recommendations import batch_lists, list_table, row_groups
from weft.data.recommendations.row_groups import RowGroups
from weft.errors import InputError

pytestmark = pytest.mark.skipif(
    not is_built(), reason="there was no C++ compiler when Weft was installed"
)
ITEMS = 7
cells = st.tuples(st.integers(0, ITEMS - 1), st.sampled_from([-1.0, -0.0, 0.0, 2.5]))
lists_of_cells = st.lists(st.lists(cells, max_size=6), max_size=6)


def offsets_of(lists):
    return np.array([0, *itertools.accumulate(map(len, lists))], dtype=np.int64)


@settings(max_examples=400, deadline=None)
@given(lists_of_cells, st.booleans(), st.booleans(), st.booleans())
def test_checks_the_order_of_lists(lists, has_merit, distinct, is_sorted):
    if is_sorted:  # which chance seldom makes
        lists = [sorted(row, key=lambda cell: (-cell[1], cell[0])) for row in lists]
    flat = [cell for row in lists for cell in row]
    items, merit = (
        np.array([item for item, _ in flat], dtype=np.int32),
        np.array([score for _, score in flat]),
    )
    about = (
        offsets_of(lists),
        len(lists),
        items,
        merit if has_merit else None,
        ITEMS,
        int(distinct),
    )
    repeated = any(len({item for item, _ in row}) < len(row) for row in lists)
    pairs = [pair for row in lists for pair in itertools.pairwise(row)] if has_merit else []
    unsorted = any(
        next_[1] > one[1] or (next_[1] == one[1] and next_[0] < one[0]) for one, next_ in pairs
    )
    tied = any(one[1] == next_[1] for one, next_ in pairs)
    assert call("lists_are_in_order", *about) == (
        not repeated and not unsorted and not (distinct and tied)
    )


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 4), max_size=12),
    st.booleans(),
    st.sampled_from([np.int8, np.int32, np.int64, np.float64]),
    st.sampled_from([np.int32, np.int64]),
    st.booleans(),
)
def test_groups_rows_by_user(users, has_runs, dtype, code_type, native):
    runs = [list(group) for _, group in itertools.groupby(users)]
    owners = [run[0] for run in runs] if has_runs else users
    lengths = np.array([len(run) for run in runs], dtype=np.int64) if has_runs else None
    rows = [row for user in range(5) for row, owner in enumerate(users) if owner == user]
    column = np.arange(len(users)).astype(dtype)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_groups, "is_built", lambda: native)
        groups = RowGroups.from_owners(np.array(owners, dtype=code_type), 5, lengths)
        assert groups.group(column).tolist() == column[rows].tolist()
    assert groups.rows.tolist() == rows
    assert np.diff(groups.offsets).tolist() == [users.count(user) for user in range(5)]
    assert groups.are_in_order == (users == sorted(users))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    st.lists(
        st.lists(st.integers(0, ITEMS - 1), unique=True, max_size=ITEMS), min_size=1, max_size=6
    ),
    st.data(),
)
def test_finds_items_in_lists(lists, data):
    keys = data.draw(st.lists(st.integers(0, ITEMS * len(lists) - 1), max_size=20))
    in_order = data.draw(st.booleans())
    keys = torch.tensor(sorted(keys) if in_order else keys, dtype=torch.int64)
    items = torch.tensor([item for row in lists for item in row], dtype=torch.int64)
    rows = BatchLists(torch.from_numpy(offsets_of(lists)), items, None, ITEMS, is_order_given=True)
    cells, found = rows.locate(keys)
    places = {
        row * ITEMS + item: (row, place)
        for row, held in enumerate(lists)
        for place, item in enumerate(held)
    }
    assert found.tolist() == [key in places for key in keys.tolist()]
    offsets = offsets_of(lists)
    for key, cell, is_there in zip(keys.tolist(), cells.tolist(), found.tolist()):
        assert not is_there or cell == offsets[places[key][0]] + places[key][1]


@pytest.mark.parametrize("keys", [[7, 8, 2], [0, 99]])
def test_rejects_unsorted_keys(keys):
    cells = np.empty(len(keys), dtype=np.int64)
    offsets, items = np.array([0, 2, 3]), np.array([3, 5, 1])
    assert call("find_in_lists", offsets, 2, items, ITEMS, np.array(keys), len(keys), cells) < len(
        keys
    )


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(worlds(), st.booleans(), st.sampled_from(["score", "rank", "none"]))
def test_sorted_lists_match_without_native_loops(world, masked, order):
    rows = world.rows().sort(["user", "score", "item"], descending=[False, True, False])
    if order == "rank":
        rows = rows.with_columns(rank=rows["score"].rank("ordinal", descending=True))
    elif order == "none":
        rows = rows.drop("score")
    metrics = SAME if order != "none" else ["nDCG", "MAP", "Gini", "LAUC"]
    settings_ = {
        "metrics": metrics,
        "top_k": K,
        "train": world.train,
        "mask_seen": masked,
        "items": world.items,
        **world.about,
    }
    expected = weft.evaluate(rows, world.truth, **settings_)
    with pytest.MonkeyPatch.context() as patch:
        for module in (batch_lists, list_table, row_groups):
            patch.setattr(module, "is_built", lambda: False)
        found = weft.evaluate(rows, world.truth, **settings_)
    same(found, expected)
    assert found.counts == expected.counts


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"score": [3.0, 2.0, 2.0]}, "the same item twice"),
        ({"rank": [1, 2, 3]}, "the same item twice"),
        ({}, "the same item twice"),
    ],
)
def test_rejects_wrong_lists_with_and_without_native_loops(monkeypatch, native, columns, message):
    for module in (batch_lists, list_table, row_groups):
        monkeypatch.setattr(module, "is_built", lambda: native)
    frame = pl.DataFrame({"user": [1, 1, 1], "item": [4, 5, 4], **columns})
    with pytest.raises(InputError, match=message):
        weft.evaluate(frame, {1: [4]}, metrics="MRR@3")
    kept = weft.evaluate(frame, {1: [4]}, metrics="MRR@3", duplicates="keep-best")
    assert (kept["MRR@3"], kept.counts["duplicates_dropped"]) == (1, 1)
    if columns.get("rank"):
        tied = pl.DataFrame({"user": [1, 1, 1], "item": [4, 5, 6], "rank": [1, 2, 2]})
        with pytest.raises(InputError, match="one rank to several items"):
            weft.evaluate(tied, {1: [4]}, metrics="MRR@3")

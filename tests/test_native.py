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
from weft.data import BatchLists, interactions, sorting
from weft.data.interactions import Interactions
from weft.data.recommendations import batch_lists, row_groups
from weft.data.recommendations.row_groups import RowGroups
from weft.data.team import open_team
from weft.errors import InputError
from weft.ranking import negative_sampling
from weft.ranking.negative_sampling import NegativeSampler

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
    expected = not repeated and not unsorted and not (distinct and tied)
    assert call("lists_are_in_order", *about) == expected
    with pytest.MonkeyPatch.context() as patch, open_team(2):
        patch.setattr(sorting, "_MIN_THREAD_LISTS", 1)
        offsets, *_, merit, num_items, _ = about
        size = {"offsets": offsets, "num_items": num_items}
        assert sorting.are_sorted(items, merit, **size, are_distinct=distinct) == expected


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
        patch.setattr(row_groups, "_MIN_THREAD_ROWS", 0)
        groups = RowGroups.from_owners(np.array(owners, dtype=code_type), 5, lengths)
        assert groups.group(column).tolist() == column[rows].tolist()
        with open_team(2):
            both = groups.group_all(column, -column)
        assert [part.tolist() for part in both] == [column[rows].tolist(), (-column)[rows].tolist()]
    assert groups.rows.tolist() == rows
    assert np.diff(groups.offsets).tolist() == [users.count(user) for user in range(5)]
    assert groups.are_in_order == (users == sorted(users))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(0, 60)), max_size=120),
    st.sampled_from(["none", "user", "both"]),
    st.booleans(),
)
def test_sorts_interactions(pairs, order, native):
    """Equal rows keep their order; more than a few rows of a user are sorted in another way."""
    if order != "none":
        pairs = sorted(pairs, key=lambda pair: pair[0] if order == "user" else pair)
    users, items = (np.array(codes, dtype=np.int64) for codes in zip(*pairs or [(0, 0)]))
    users, items = users[: len(pairs)], items[: len(pairs)]
    values = np.arange(len(pairs), dtype=np.float64)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interactions, "is_built", lambda: native)
        found = Interactions.from_codes(users, items, values, 5, 61)
    expected = sorted(range(len(pairs)), key=lambda row: pairs[row])
    assert found.values.tolist() == expected
    assert found.items.tolist() == [pairs[row][1] for row in expected]
    assert found.users.tolist() == [pairs[row][0] for row in expected]
    assert found.items.flags.writeable and found.values.flags.writeable


@settings(max_examples=200, deadline=None)
@given(*[st.lists(st.lists(st.integers(0, 9), max_size=8), min_size=4, max_size=4)] * 2)
def test_counts_common_interactions(rows, others):
    rows = [sorted(set(row)) for row in rows[:3]]  # one user fewer, each item once
    tables = [
        Interactions(
            offsets_of(lists),
            np.array([item for row in lists for item in sorted(row)], dtype=np.int64),
            np.ones(sum(map(len, lists))),
            10,
        )
        for lists in (rows, others)
    ]
    expected = sum(item in other for row, other in zip(rows, others) for item in row)
    assert tables[0].count_common(tables[1]) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interactions, "is_built", lambda: False)
        assert tables[0].count_common(tables[1]) == expected


def test_users_of_interactions_are_checked():
    """The native loop would write outside of its memory."""
    for user in (-1, 2):
        with pytest.raises(AssertionError, match="not in the vocabulary"):
            Interactions.from_codes(np.array([user]), np.array([0]), np.ones(1), 2, 1)


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
        for module in (batch_lists, sorting, row_groups):
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
    for module in (batch_lists, sorting, row_groups):
        monkeypatch.setattr(module, "is_built", lambda: native)
    frame = pl.DataFrame({"user": [1, 1, 1], "item": [4, 5, 4], **columns})
    with pytest.raises(InputError, match=message):
        weft.evaluate(frame, {1: [4]}, metrics="MRR@3")
    kept = weft.evaluate(frame, {1: [4]}, metrics="MRR@3", duplicates="keep-best")
    assert (kept["MRR@3"], kept.counts["duplicates_dropped"]) == (1, 1)
    if columns.get("rank"):
        tied = pl.DataFrame({"user": [1, 1, 1], "item": [4, 5, 6], "rank": [1, 2, 2]})
        with pytest.raises(InputError, match="the same rank to several items"):
            weft.evaluate(tied, {1: [4]}, metrics="MRR@3")


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 400), st.integers(1, 90), st.booleans(), st.integers(0, 1 << 70), st.data())
def test_draws_the_same_negatives_with_and_without_native_loops(
    items, number, weighted, seed, data
):
    """Also if nearly all items are excluded, so that many draws are not enough."""
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    pool = np.flatnonzero(rng.random(items) < data.draw(st.sampled_from([0.2, 1.0])))
    pool = pool if len(pool) else np.array([items - 1])
    users, share = 7, data.draw(st.sampled_from([0.0, 0.3, 0.97]))
    excluded = np.flatnonzero(rng.random(users * items) < share)
    sampler = NegativeSampler(
        pool,
        rng.integers(-(1 << 62), 1 << 62, items),
        number=number,
        seed=seed,
        weights=rng.exponential(size=len(pool)) ** 4 + 1e-9 if weighted else None,
    )
    user_keys = rng.integers(-(1 << 62), 1 << 62, users)
    drawn, eligible = sampler.draw(user_keys, excluded)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(negative_sampling, "is_built", lambda: False)
        expected, of_expected = sampler.draw(user_keys, excluded)
    assert drawn.tolist() == expected.tolist() and eligible.tolist() == of_expected.tolist()
    assert not set(drawn.tolist()) & set(excluded.tolist())


@pytest.mark.parametrize("width", [0, 1, 2, 150, 250, 1_000])
@pytest.mark.parametrize("kind", ["random", "floats", "ties", "few"])
def test_ranks_candidates_with_and_without_native_loops(monkeypatch, kind, width):
    """Equal scores, among them 0 and -0, stay in the order of their items; -inf is no candidate."""
    rng = np.random.default_rng(width)
    scores = {
        "random": rng.normal(size=(5, width)) * 10.0 ** rng.integers(-200, 200, (5, width)),
        "floats": rng.normal(size=(5, width)).astype(np.float32).astype(np.float64),
        "ties": rng.choice([-1.0, -0.0, 0.0, 2.5], (5, width)),
        "few": np.where(rng.random((5, width)) < 0.9, -np.inf, rng.integers(-2, 3, (5, width))),
    }[kind]
    items = np.sort(rng.permuted(np.tile(np.arange(2_000), (5, 1)), axis=1)[:, :width], axis=1)
    items[1, width // 2 :] = -1
    inputs = torch.from_numpy(scores), torch.from_numpy(items), 2_000
    found = BatchLists.from_candidates(*inputs)
    monkeypatch.setattr(batch_lists, "is_built", lambda: False)
    expected = BatchLists.from_candidates(*inputs)
    assert torch.equal(found.offsets, expected.offsets)
    assert torch.equal(found.items, expected.items)
    # As bytes: 0 and -0 differ.
    assert found.scores.numpy().tobytes() == expected.scores.numpy().tobytes()
    for ours, theirs in zip(found.item_index, expected.item_index):
        assert torch.equal(ours, theirs)


@settings(max_examples=100, deadline=None)
@given(lists_of_cells, st.randoms())
def test_exchanged_entries_match_a_reordered_list(lists, random):
    lists = [sorted(dict(row).items(), key=lambda cell: (-cell[1], cell[0])) for row in lists]
    width = max(map(len, lists), default=0)
    items = torch.tensor(
        [sorted(item for item, _ in row) + [-1] * (width - len(row)) for row in lists],
        dtype=torch.int64,
    ).reshape(len(lists), width)
    scores = torch.tensor(
        [[dict(row).get(item, 0.0) for item in own] for row, own in zip(lists, items.tolist())],
        dtype=torch.float64,
    ).reshape(len(lists), width)
    rows = BatchLists.from_candidates(scores, items, ITEMS)
    order = []
    for start, stop in itertools.pairwise(rows.offsets.tolist()):
        order += random.sample(range(start, stop), stop - start)
    order = torch.tensor(order, dtype=torch.int64)
    moved = (order != torch.arange(len(order))).nonzero().flatten()
    found, expected = rows.exchange(moved, order[moved]), rows.reorder(order)
    assert found.items.tolist() == expected.items.tolist()
    assert found.scores.tolist() == expected.scores.tolist()
    assert [part.tolist() for part in found.item_index] == [
        part.tolist() for part in expected.item_index
    ]

"""The Evaluator: forms of input, reset, merge, masking, and values per user."""

import contextlib
import copy
import math
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
import torch

import weft
from metric_cases import BUILT_IN, make_labels
from weft.errors import SettingError
from weft.metrics.names import parse_name
from weft.metrics.registry import prototype
from weft.ranking import TIE_RULES

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")

USERS, ITEMS = 23, 14
GENERATOR = torch.Generator().manual_seed(11)
SCORES = torch.randint(0, 9, (USERS, ITEMS), generator=GENERATOR).float()
SCORES[torch.rand(USERS, ITEMS, generator=GENERATOR) < 0.1] = -torch.inf
TARGET = torch.randint(1, 6, (USERS, ITEMS), generator=GENERATOR) * (
    torch.rand(USERS, ITEMS, generator=GENERATOR) < 0.25
)
TARGET[torch.arange(USERS), torch.arange(USERS) % ITEMS] = 3
TARGET[4] = 0  # the only user without a relevant item
TRAIN = (torch.rand(USERS, ITEMS, generator=GENERATOR) < 0.2).int()
METRICS = [
    *BUILT_IN,
    "AUC(scope=pooled)",
    "GAUC(weight=positives)",
    "F1(metric_name_1=nDCG, metric_name_2=MAP, beta=0.5)",
]
EVERYONE = torch.arange(USERS)


def evaluator(**settings):
    return weft.Evaluator(
        **{
            "metrics": METRICS,
            "top_k": [1, 3, 20],
            "train": TRAIN,
            **make_labels(USERS, ITEMS),
            **settings,
        }
    )


PROTOTYPE = evaluator(per_user=True)  # building the metrics costs more than a batch


def fed(batches, scores=SCORES, target=TARGET, **settings):
    made = evaluator(**settings) if settings else copy.deepcopy(PROTOTYPE)
    for rows in batches:
        made.update(scores[rows], target[rows], rows)
    return made


def same(result, expected, tolerance=1e-9):
    assert (
        list(result) == list(expected)
        and result.counts == expected.counts
        and result.notes == expected.notes
    )
    for value, wanted in zip(result.entries, expected.entries):
        got = (value.value, value.std_error)
        assert got == pytest.approx(
            (wanted.value, wanted.std_error), rel=tolerance, abs=tolerance, nan_ok=True
        ), value.name
        assert value.users == wanted.users


@pytest.fixture(scope="module")
def whole():
    return fed([EVERYONE]).compute()


def csr(target):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return target.double().to_sparse_csr()


def lists(target):
    return [row.nonzero().flatten().tolist() for row in target]


def padded(target):
    rows = [torch.tensor(row, dtype=torch.int64) for row in lists(target)]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=-1)


RATED = {
    "int": lambda t: t,
    "int32": lambda t: t.int(),
    "float": lambda t: t.float(),
    "bfloat16": lambda t: t.bfloat16(),
    "transposed": lambda t: t.T.contiguous().T,
    "requires_grad": lambda t: t.float().requires_grad_(),
    "numpy": lambda t: t.numpy(),
    "torch csr": csr,
    "torch coo": lambda t: t.to_sparse_coo(),
    "scipy csr": lambda t: sp.csr_matrix(t.numpy()),
    "scipy coo_array": lambda t: sp.coo_array(t.numpy()),
}
UNRATED = {
    "bool": lambda t: t > 0,
    "numpy bool": lambda t: t.numpy() > 0,
    "lists": lists,
    "tuples": lambda t: tuple(tuple(row) for row in lists(t)),
    "unordered lists": lambda t: [row[::-1] for row in lists(t)],
    "list of tensors": lambda t: [torch.tensor(row, dtype=torch.int64) for row in lists(t)],
    "padded": padded,
    "padded int32, -1 first": lambda t: padded(t).flip(1).int(),
}


@pytest.mark.parametrize("form", [*RATED, *UNRATED])
def test_reads_every_form_of_target(form):
    target = TARGET if form in RATED else (TARGET > 0).int()
    settings = {"metrics": ["nDCG", "AUC"], "top_k": [3]}
    got = evaluator(**settings)
    for rows in EVERYONE.split(9):
        got.update(SCORES[rows], (RATED | UNRATED)[form](target[rows]), rows)
    same(got.compute(), fed([EVERYONE], target=target, **settings).compute())
    alone = weft.metrics.nDCG(k=3)
    alone.update(SCORES, (RATED | UNRATED)[form](target))
    assert (
        float(alone.compute())
        == fed([EVERYONE], target=target, **settings, mask_seen=False).compute()["nDCG@3"]
    )


def test_reads_one_item_per_row():
    last = TARGET.argmax(1)
    for target in (last, last[:, None], last.tolist(), last[:, None].tolist()):
        got = weft.Evaluator(["MRR@5"])
        got.update(SCORES, target)
        assert (
            got.compute()["MRR@5"]
            == fed(
                [EVERYONE],
                target=torch.nn.functional.one_hot(last, ITEMS),
                metrics="MRR@5",
                train=None,
            ).compute()["MRR@5"]
        )


@pytest.mark.parametrize(
    "preds",
    [SCORES.double(), SCORES.half(), SCORES.bfloat16(), SCORES.clone().requires_grad_()],
    ids=lambda t: str(t.dtype),
)
def test_reads_every_form_of_preds(preds, whole):
    same(fed([EVERYONE], scores=preds).compute(), whole)


SPLITS = {
    "1": EVERYONE.split(1),
    "7": EVERYONE.split(7),
    "reversed": EVERYONE.flip(0).split(5),
    "shuffled": torch.randperm(USERS, generator=GENERATOR).split(4),
    "with empty batches": [EVERYONE[:0], EVERYONE[:9], EVERYONE[9:9], EVERYONE[9:]],
}


@pytest.mark.parametrize("batches", SPLITS.values(), ids=SPLITS)
def test_values_do_not_depend_on_batches_or_order(batches, whole):
    got = fed(batches).compute()
    same(got, whole)
    assert got.per_user.sort("user").equals(whole.per_user.sort("user"))


@pytest.mark.parametrize("ties", TIE_RULES)
def test_values_do_not_depend_on_batches_under_any_tie_rule(ties):
    settings = {"metrics": ["nDCG", "MAP", "LAUC"], "ties": ties, "seed": 4}
    same(fed(SPLITS["shuffled"], **settings).compute(), fed([EVERYONE], **settings).compute())


def test_evaluator_matches_evaluate(whole):
    settings = {
        "metrics": METRICS,
        "top_k": [1, 3, 20],
        "per_user": True,
        "batch_size": 6,
        **make_labels(USERS, ITEMS),
    }
    same_values = weft.evaluate(SCORES, TARGET, train=TRAIN, **settings)
    assert [same_values[name] for name in whole] == pytest.approx(
        [whole[name] for name in whole], rel=1e-9, nan_ok=True
    )
    assert same_values.per_user.select(whole.per_user.columns).equals(whole.per_user)


# --------------------------------------------------------------------------------------------------


def test_reset_clears_the_state():
    for settings in ({}, {"empty_users": "zero"}):
        used = fed([EVERYONE[:9]], **settings) if settings else fed([EVERYONE[:9]])
        used.compute()
        used.reset()
        nothing = used.compute()
        counted = {"ItemCoverage", "UserCoverage", "UserCoverageAtN"}
        assert all(
            value.value == 0 if value.metric in counted else math.isnan(value.value)
            for value in nothing.entries
            if value.k
        )
        assert {
            name: count
            for name, count in nothing.counts.items()
            if not name.startswith(("items", "train_interactions")) and count
        } == {}
        used.update(SCORES[9:], TARGET[9:], EVERYONE[9:])
        fresh = fed([EVERYONE[9:]], **settings) if settings else fed([EVERYONE[9:]])
        same(used.compute(), fresh.compute(), tolerance=0)
        if not settings:
            assert used.compute().per_user.equals(fresh.compute().per_user)


def test_compute_does_not_change_the_state(whole):
    made = fed([EVERYONE[:9]])
    first = made.compute()
    same(made.compute(), first, tolerance=0)
    made.update(SCORES[9:], TARGET[9:], EVERYONE[9:])
    same(made.compute(), whole)


@pytest.mark.parametrize("shards", [[12, 11], [1, 21, 1], [0, 23], [23, 0]])
def test_merged_shards_equal_the_whole(shards, whole):
    first, *others = (fed([rows]) if len(rows) else fed([]) for rows in EVERYONE.split(shards))
    for other in others:
        before = other.compute()
        first.merge(other)
        same(other.compute(), before, tolerance=0)  # what was merged is left alone
    got = first.compute()
    same(got, whole)
    assert got.per_user.equals(whole.per_user)
    if others:
        others[0].reset()
        same(first.compute(), whole)


@pytest.mark.parametrize(
    ("mine", "theirs", "differs"),
    [
        ({"metrics": ["nDCG"]}, {"metrics": ["MRR"]}, "metrics"),
        ({"top_k": [5]}, {"top_k": [6]}, "metrics"),
        ({"ties": "index"}, {"ties": "random"}, "ties"),
        ({"seed": 1}, {"seed": 2}, "seed"),
        ({"relevance_threshold": 3}, {}, "relevance_threshold"),
        ({"empty_users": "zero"}, {}, "empty_users"),
        ({"mask_seen": False}, {}, "mask_seen"),
        ({"per_user": True}, {}, "per_user"),
        (
            {},
            {
                "num_items": ITEMS + 1,
                "train": None,
                "mask_seen": False,
                "item_clusters": None,
                "item_features": None,
            },
            "mask_seen|num_items",
        ),
    ],
)
def test_rejects_merging_different_evaluators(mine, theirs, differs):
    one, other = (
        evaluator(**{"metrics": ["nDCG"], "top_k": [5], **settings}) for settings in (mine, theirs)
    )
    for first, second in ((one, other), (other, one)):
        with pytest.raises(
            SettingError, match=f"cannot merge evaluators that differ in ({differs})"
        ):
            first.merge(second)


# --------------------------------------------------------------------------------------------------


def test_masks_train_items_by_user_index():
    rows = torch.tensor([7, 2, 15])
    got = evaluator(metrics=["Recall", "AUC"])
    got.update(SCORES[rows], TARGET[rows], rows)
    by_hand = evaluator(metrics=["Recall", "AUC"], train=None)
    by_hand.update(SCORES[rows].masked_fill(TRAIN[rows] > 0, -torch.inf), TARGET[rows], rows)
    assert [got.compute()[name] for name in got.compute()] == [
        by_hand.compute()[name] for name in by_hand.compute()
    ]
    unmasked = evaluator(metrics=["Recall", "AUC"], mask_seen=False)
    unmasked.update(SCORES[rows], TARGET[rows], rows)
    assert unmasked.compute()["AUC"] != got.compute()["AUC"]
    assert (
        got.compute().settings["mask_seen"] is True
        and unmasked.compute().settings["mask_seen"] is False
    )
    assert (
        got.compute().counts["relevant_seen"] == int(((TARGET > 0) & (TRAIN > 0))[rows].sum()) > 0
    )


def test_reads_every_form_of_train():
    pairs = TRAIN.nonzero().tolist()
    forms = [
        sp.csr_matrix(TRAIN.numpy()),
        TRAIN.bool().numpy(),
        {u: [i for v, i in pairs if v == u] for u in range(USERS)},
    ]
    for train in forms:
        got = fed(
            [EVERYONE], metrics=["Recall"], train=train, num_users=USERS, num_items=ITEMS
        ).compute()
        same(got, fed([EVERYONE], metrics=["Recall"], num_users=USERS, num_items=ITEMS).compute())


def test_masks_every_row_of_a_repeated_user():
    rows = torch.tensor([3, 3, 3])
    got = evaluator(metrics=["Recall"])
    got.update(SCORES[rows], TARGET[rows], rows)
    once = evaluator(metrics=["Recall"])
    once.update(SCORES[rows[:1]], TARGET[rows[:1]], rows[:1])
    assert got.compute()["Recall@3"] == once.compute()["Recall@3"]


@pytest.mark.parametrize(
    "form", [torch.tensor, np.array, list, tuple, lambda users: torch.tensor(users).int()]
)
def test_reads_user_indices_of_any_type(form):
    got = evaluator(metrics=["Recall"], per_user=True)
    with contextlib.suppress(weft.WeftError):
        got.update(SCORES[[3, 5]], TARGET[[3, 5]], form([3, 5]))
        same(
            got.compute(), fed([torch.tensor([3, 5])], metrics=["Recall"], per_user=True).compute()
        )
        assert got.compute().per_user["user"].to_list() == [3, 5]


def test_updates_in_inference_mode(whole):
    made = copy.deepcopy(PROTOTYPE)
    with torch.inference_mode():
        made.update(SCORES[:9].clone(), TARGET[:9], EVERYONE[:9])
    made.update(SCORES[9:], TARGET[9:], EVERYONE[9:])
    same(made.compute(), whole)
    made.reset()


@pytest.mark.parametrize("prepare", ["reset", "clone"])
def test_updates_outside_after_reset_or_clone_in_inference_mode(whole, prepare):
    made = copy.deepcopy(PROTOTYPE)
    with torch.inference_mode():
        made = getattr(made, prepare)() or made
    made.update(SCORES[:9], TARGET[:9], EVERYONE[:9])
    made.update(SCORES[9:], TARGET[9:], EVERYONE[9:])
    same(made.compute(), whole)


# --------------------------------------------------------------------------------------------------


def test_values_per_user_average_to_the_value(whole):
    table = whole.per_user
    assert set(table.columns) < {"user", *whole}
    assert table["user"].to_list() == list(range(USERS))
    for name in table.columns[1:]:
        values = table[name].drop_nans()
        entry = whole.entry(name)
        if entry.metric in ("UserCoverage", "UserCoverageAtN"):  # counts, not means
            assert entry.users is None and values.sum() == entry.value
            continue
        assert len(values) == entry.users
        if not entry.users:  # such as ILD@1
            assert math.isnan(entry.value)
            continue
        # User 4 has no relevant item and no rating.
        metric = prototype(parse_name(name))
        counts_all_lists = metric.users == "lists" and metric.family != "rating"
        assert (4 in table.filter(table[name].is_not_nan())["user"]) == counts_all_lists
        if "weight" not in name:
            assert values.mean() == pytest.approx(entry.value, abs=1e-12)
            assert values.std() / math.sqrt(len(values)) == pytest.approx(
                entry.std_error, abs=1e-12
            )


@pytest.mark.parametrize("empty_users", ["skip", "zero"])
def test_notes_that_no_user_was_evaluated(empty_users):
    result = weft.Evaluator(["nDCG@10"], empty_users=empty_users).compute()
    assert math.isnan(result["nDCG@10"])
    assert result.notes[0].startswith("no users were evaluated: the data, or the batches passed")
    assert not any("every mean over evaluated users" in note for note in result.notes)


def test_empty_users_can_count_as_zero():
    got = fed([EVERYONE], metrics=["nDCG", "GAUC"], per_user=True, empty_users="zero").compute()
    skipped = fed([EVERYONE], metrics=["nDCG", "GAUC"]).compute()
    assert len(got.per_user) == USERS == got.entry("nDCG@3").users
    assert got["nDCG@3"] == pytest.approx(skipped["nDCG@3"] * (USERS - 1) / USERS)
    assert got.per_user.filter(got.per_user["user"] == 4)["nDCG@3"].to_list() == [0.0]
    assert "counts as 0" in str(got.notes)


def test_numbers_rows_without_user_indices():
    made = evaluator(metrics=["MRR@5"], per_user=True, train=None, user_groups=None)
    for rows in EVERYONE.split(9):
        made.update(SCORES[rows], TARGET[rows])
    assert made.compute().per_user["user"].to_list() == [user for user in range(USERS) if user != 4]


def test_no_values_per_user_by_default():
    assert fed([EVERYONE], metrics=["MRR@5"]).compute().per_user is None


def test_counts_items_without_num_items(whole):
    assert whole.counts["items"] == ITEMS


def test_random_ties_do_not_depend_on_batches_without_user_indices():
    """Random ties go by the user's number: the same rows in other batches must not share one."""
    scores, target = torch.zeros(40, 12), torch.nn.functional.one_hot(torch.arange(40) % 12, 12)
    values = []
    for size in (1, 7, 40):
        made, alone = (
            weft.Evaluator(["MRR@3"], ties="random", seed=3),
            weft.metrics.MRR(k=3, ties="random", seed=3),
        )
        for rows in torch.arange(40).split(size):
            made.update(scores[rows], target[rows])
            alone.update(scores[rows], target[rows])
        values += [made.compute()["MRR@3"], float(alone.compute())]
    assert values == pytest.approx([values[0]] * 6, abs=1e-12)
    assert 0 < values[0] < 1


# --------------------------------------------------------------------------------------------------

SOME_TARGET = TARGET * (torch.arange(USERS) % 4 > 0)[:, None]
WITH_TRUTH = (SOME_TARGET > 0).any(dim=1).nonzero().flatten()
FORMS = {
    "dense": lambda target: target,
    "sparse": lambda target: target.to_sparse_csr(),
    "lists": lambda target: [row.nonzero().flatten().tolist() for row in target],
    "padded": lambda target: torch.where(target > 0, torch.arange(ITEMS), -1)[:, : ITEMS - 1],
}


@pytest.mark.parametrize("form", FORMS)
def test_skipped_rows_without_truth_do_not_count(form):
    binary = (SOME_TARGET > 0).int()
    binary[:, -1] = 0  # not a column of the padded form
    with_truth = binary.any(dim=1).nonzero().flatten()
    kept, skipping = (
        evaluator(extra_users=choice, bootstrap=10, per_user=True, repeated_users="drop")
        for choice in (None, "skip")
    )
    for rows in torch.split(EVERYONE, 6):
        skipping.update(SCORES[rows], FORMS[form](binary[rows]), rows)
        skipping.update(SCORES[rows], FORMS[form](binary[rows]), rows.numpy())
    kept.update(SCORES[with_truth], binary[with_truth], with_truth)
    result, expected = skipping.compute(), kept.compute()
    assert [(value.name, value.users) for value in result.entries] == [
        (value.name, value.users) for value in expected.entries
    ]
    for value, other in zip(result.entries, expected.entries):
        assert (value.value, value.boot_low) == pytest.approx(
            (other.value, other.boot_low), rel=1e-9, nan_ok=True
        )
    skipped = 2 * (USERS - len(with_truth))
    assert result.counts["users_without_truth"] == skipped
    assert result.counts["users"] == len(with_truth)
    assert result.per_user["user"].to_list() == with_truth.tolist()
    note = f"{skipped} users have no interaction in the truth and are excluded from all metrics"
    assert any(text.startswith(note) for text in result.notes)


def test_skipped_rows_without_truth_survive_saving_and_merging(tmp_path):
    def made():
        return weft.Evaluator(
            ["nDCG", "Gini", "NumRetrieved"], 3, num_items=ITEMS, extra_users="skip", per_user=True
        )

    items = torch.arange(ITEMS).expand(USERS, -1)
    whole, first, second = made(), made(), made()
    whole.update(SCORES, SOME_TARGET, items=items)
    first.update(SCORES[:9], SOME_TARGET[:9])
    second.update(SCORES[9:], SOME_TARGET[9:], items=items[9:])
    paths = [
        weft.save_state(part, tmp_path / f"{n}.state") for n, part in enumerate((first, second))
    ]
    merged = weft.merge_states(paths)
    assert {name: merged[name] for name in merged} == pytest.approx(dict_of(whole.compute()))
    assert merged.counts["users_without_truth"] == USERS - len(WITH_TRUTH)
    assert merged.per_user["user"].to_list() == WITH_TRUTH.tolist()
    assert merged.settings["extra_users"] == "skip"
    alone = first.forward(SCORES[:1], SOME_TARGET[:1])  # the batch has no user with a truth
    assert alone.counts["users_without_truth"] == 1 and math.isnan(alone["nDCG@3"])
    with pytest.raises(SettingError, match="differ in extra_users"):
        first.merge(weft.Evaluator(["nDCG", "Gini", "NumRetrieved"], 3, num_items=ITEMS))


def dict_of(result):
    return {name: result[name] for name in result}

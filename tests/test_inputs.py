"""Every form of scores, truth and train gives the same result, and no data is changed or copied."""

import math
import tracemalloc
import warnings
from typing import ClassVar

import numpy as np
import pandas as pd
import polars as pl
import polars.testing
import pytest
import scipy.sparse as sp
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

import weft
from metric_cases import ACCURACY, BUILT_IN, BY_POSITION, by_position, has_trait, make_labels
from oracles import Case, summary
from oracles_ranks import RANKED
from weft.batch.blocks import MetricBlock
from weft.errors import InputError, InputWarning, MetricError, SettingError
from weft.metrics.names import parse_name
from weft.ranking import TIE_RULES

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta")

USERS, ITEMS = 12, 15
RNG = np.random.default_rng(7)
SCORES = torch.tensor(
    RNG.permuted(np.tile(np.arange(ITEMS) // 2, (USERS, 1)), axis=1)
).float()  # exact in every type, with ties
TRUTH = RNG.integers(1, 6, (USERS, ITEMS)) * (RNG.random((USERS, ITEMS)) < 0.3)
TRUTH[np.arange(USERS), np.arange(USERS)] = 3  # nobody without a relevant item
TRAIN = RNG.integers(1, 6, (USERS, ITEMS)) * (RNG.random((USERS, ITEMS)) < 0.2)
U_IDS, I_IDS = [f"u{n}" for n in range(USERS)], [f"i{n}" for n in range(ITEMS)]


def evaluate(source, truth=TRUTH, **settings):
    common = {"metrics": ["nDCG", "GAUC"], "top_k": [4, 20], "train": TRAIN}
    return weft.evaluate(source, truth, **{**common, **by_position(source), **settings})


def numbers(result):
    """All that must not depend on the form of the inputs."""
    return [(v.name, v.value, v.std_error, v.users) for v in result.entries], dict(result.counts)


def same(result, expected):
    assert dict(result.counts) == dict(expected.counts)
    same_values(result, expected)


def same_values(result, expected):
    values, wanted = numbers(result)[0], numbers(expected)[0]
    assert [value[0] for value in values] == [value[0] for value in wanted]
    for value, other in zip(values, wanted):
        assert value[1:3] == pytest.approx(other[1:3], rel=1e-12, abs=1e-12, nan_ok=True), value[0]
        assert value[3] == other[3], value[0]


def cells(matrix):
    users, items = np.nonzero(matrix)
    return {"user": users, "item": items, "rating": matrix[users, items]}


def as_dict(matrix):
    return {
        user: {int(item): float(row[item]) for item in np.flatnonzero(row)}
        for user, row in enumerate(matrix)
    }


def torch_csr(matrix):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.tensor(matrix).double().to_sparse_csr()


RATED = {
    "polars": lambda m: pl.DataFrame(cells(m)),
    "polars shuffled": lambda m: pl.DataFrame(cells(m)).sample(fraction=1.0, shuffle=True, seed=1),
    "polars small types": lambda m: pl.DataFrame(cells(m)).cast(
        {"user": pl.UInt16, "item": pl.Int8, "rating": pl.Float32}
    ),
    "lazy": lambda m: pl.LazyFrame(cells(m)),
    "other column names": lambda m: pl.DataFrame(cells(m)).rename(
        {"user": "User_ID", "item": "itemid", "rating": "value"}
    ),
    "pandas": lambda m: pd.DataFrame(cells(m)),
    "pandas nullable": lambda m: pd.DataFrame(cells(m)).astype(
        {"user": "Int64", "rating": "Float64"}
    ),
    "pandas odd index": lambda m: pd.DataFrame(
        cells(m), index=np.arange(np.count_nonzero(m))[::-1]
    ).sample(frac=1, random_state=1),
    "csr_matrix": sp.csr_matrix,
    "csr_array": sp.csr_array,
    "coo_matrix": sp.coo_matrix,
    "coo_array": sp.coo_array,
    "csc_matrix": sp.csc_matrix,
    "torch csr": torch_csr,
    "torch coo": lambda m: torch.tensor(m).to_sparse_coo(),
    "torch dense": torch.tensor,
    "torch bfloat16": lambda m: torch.tensor(m).bfloat16(),
    "torch requires_grad": lambda m: torch.tensor(m).float().requires_grad_(),
    "numpy float": lambda m: m.astype(np.float64),
    "numpy uint8": lambda m: m.astype(np.uint8),
    "dict of dicts": as_dict,
    "dict of pairs": lambda m: {user: list(row.items()) for user, row in as_dict(m).items()},
    "dict of pairs as lists": lambda m: {
        user: [[item, rating] for item, rating in row.items()] for user, row in as_dict(m).items()
    },
}
UNRATED = {
    "polars": lambda m: pl.DataFrame(cells(m)).drop("rating"),
    "lazy": lambda m: pl.LazyFrame(cells(m)).drop("rating"),
    "pandas": lambda m: pd.DataFrame(cells(m)).drop(columns="rating"),
    "numpy bool": lambda m: m > 0,
    "torch bool": lambda m: torch.tensor(m > 0),
    "torch sparse bool": lambda m: torch.tensor(m > 0).to_sparse_coo(),
    "csr bool": lambda m: sp.csr_matrix(m > 0),
    "dict of lists": lambda m: {user: list(row) for user, row in as_dict(m).items()},
    "dict of arrays": lambda m: {user: np.flatnonzero(row) for user, row in enumerate(m)},
    "dict of sets": lambda m: {user: set(row) for user, row in as_dict(m).items()},
}
FORMS = [
    (f"{name}, {kind}", form, kind == "rated")
    for kind, forms in (("rated", RATED), ("unrated", UNRATED))
    for name, form in forms.items()
]
IDS = [name for name, _, _ in FORMS]


@pytest.fixture(scope="module")
def expected():
    return {
        rated: evaluate(SCORES, TRUTH if rated else (TRUTH > 0).astype(float))
        for rated in (True, False)
    }


def test_expected_result_matches_the_oracle(expected):
    scores = np.where(TRAIN > 0, -math.inf, SCORES.numpy())
    people = [
        Case(tuple(row), {int(i): float(t[i]) for i in np.flatnonzero(t)})
        for row, t in zip(scores, TRUTH)
    ]
    depth = scores.shape[1]
    # Without a cut-off, the oracle takes the whole ranking.
    names = [name for name in ACCURACY if parse_name(name).name not in RANKED]
    for value in evaluate(SCORES, metrics=names).entries:
        spec = parse_name(value.metric)
        assert value.value == pytest.approx(
            summary(spec.name, people, value.k or depth, **dict(spec.params)).value, abs=1e-12
        ), value.name
    assert expected[True].counts["relevant_seen"] == ((TRUTH > 0) & (TRAIN > 0)).sum() > 0


@pytest.mark.parametrize(("form", "rated"), [form[1:] for form in FORMS], ids=IDS)
def test_reads_every_form_of_truth(form, rated, expected):
    result = evaluate(SCORES, form(TRUTH), batch_size=5)
    same(result, expected[rated])
    assert (
        result.provenance["fingerprint"]["truth"]
        == expected[rated].provenance["fingerprint"]["truth"]
    )


@pytest.mark.parametrize("form", [form[1] for form in FORMS], ids=IDS)
def test_reads_every_form_of_train(form, expected):
    same(evaluate(SCORES, train=form(TRAIN)), expected[True])


class WithScore:
    def score(self, users):
        return SCORES[users].numpy()


def by_number(users):
    assert isinstance(users, torch.Tensor) and users.dtype == torch.int64
    return SCORES[users]


EYE = torch.eye(USERS, dtype=torch.float64)
SHIFT = torch.linspace(-2, 2, USERS)
HALVES = SCORES.double() - SHIFT[:, None].double() - 0.25
SOURCES = {
    **{
        str(dtype): SCORES.to(dtype)
        for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.uint8)
    },
    **{
        f"numpy {kind}": SCORES.numpy().astype(kind)
        for kind in ("float64", "float32", "float16", "int32", "uint8")
    },
    "callable": by_number,
    "object with score": WithScore(),
    "numpy answers": lambda users: SCORES[users].numpy(),
    "factors": weft.Factors(EYE, SCORES.T.double()),
    "factors with biases": weft.Factors(
        EYE, HALVES.T, user_biases=SHIFT, item_biases=np.full(ITEMS, 0.25)
    ),
    "integer factors": weft.Factors(np.eye(USERS, dtype=np.int8), SCORES.T.long()),
}


@pytest.mark.parametrize("batch_size", [None, 7])
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_reads_every_form_of_scores(source, batch_size, expected):
    same(evaluate(source, batch_size=batch_size), expected[True])


MASK = RNG.random((USERS, ITEMS)) < 0.3
HIDDEN = SCORES.numpy().copy()
HIDDEN[MASK] = 99  # the numbers under a mask must not be read


@pytest.mark.parametrize("batch_size", [None, 7])
@pytest.mark.parametrize("kind", ["float64", "float32", "int64", "uint8"])
@pytest.mark.parametrize("is_model", [False, True])
def test_masked_scores_are_minus_infinity(kind, is_model, batch_size):
    masked = np.ma.masked_array(HIDDEN.astype(kind), MASK)
    plain = np.where(MASK, -np.inf, SCORES.numpy())
    source = (lambda users: masked[users.numpy()]) if is_model else masked
    settings = {"batch_size": batch_size, "metrics": ["nDCG", "GAUC", "ItemCoverage"]}
    same(evaluate(source, **settings), evaluate(plain, **settings))
    sampled = {**settings, "metrics": "nDCG", "strategy": "sampled", "num_negatives": 5}
    same(evaluate(source, **sampled), evaluate(plain, **sampled))


def test_a_masked_array_without_masked_cells_is_an_array(expected):
    for mask in (False, np.zeros((USERS, ITEMS), dtype=bool)):
        same(evaluate(np.ma.masked_array(SCORES.numpy(), mask)), expected[True])
        same(evaluate(SCORES, np.ma.masked_array(TRUTH, mask)), expected[True])


def test_masked_item_ids_are_not_read_as_scores():
    ids = np.ma.masked_array([[70, 3, 5], [5, 90, 9]], [[0, 0, 0], [0, 0, 1]])
    with pytest.raises(InputError, match="look like item ids"):
        weft.evaluate(ids, {0: [1], 1: [2]}, metrics="MRR", top_k=2)


def _update(**changes):
    target, users, items = np.eye(2), np.arange(2), np.array([[0, 1], [2, 3]])
    arguments = {"target": target, "user_indices": users, "items": items, **changes}
    evaluator = weft.Evaluator(metrics="MRR", top_k=2, num_items=5)
    evaluator.update(torch.rand(2, 2), **arguments)


HALF_MASKED = np.ma.masked_array(np.ones((2, 2), dtype=np.int64), [[0, 1], [0, 0]])
MASKED_ROW = HALF_MASKED[0]


@pytest.mark.parametrize(
    "call",
    {
        "truth": lambda: evaluate(SCORES, np.ma.masked_array(TRUTH, MASK)),
        "train": lambda: evaluate(SCORES, train=np.ma.masked_array(TRAIN, MASK)),
        "candidates": lambda: evaluate(SCORES, candidates=np.ma.masked_array(TRUTH, MASK)),
        "user_embeddings": lambda: weft.Factors(HALF_MASKED, np.eye(2)),
        "item_embeddings": lambda: weft.Factors(np.eye(2), HALF_MASKED),
        "item_biases": lambda: weft.Factors(np.eye(2), np.eye(2), item_biases=MASKED_ROW),
        "ids of weft.TopKItems": lambda: weft.TopKItems(HALF_MASKED),
        "scores of weft.TopKItems": lambda: weft.TopKItems(np.eye(2, dtype=int), HALF_MASKED),
        "users": lambda: evaluate(SCORES, users=np.ma.masked_equal(np.arange(USERS), 3)),
        "items": lambda: evaluate(SCORES, items=np.ma.masked_equal(np.arange(ITEMS), 3)),
        "item_features": lambda: evaluate(
            SCORES,
            item_features=np.ma.masked_array(np.eye(ITEMS), np.eye(ITEMS)),
            metrics="SRecall",
        ),
        "target": lambda: _update(target=HALF_MASKED),
        "row 1 of target": lambda: _update(target=[[0], MASKED_ROW]),
        "user_indices": lambda: _update(user_indices=MASKED_ROW),
    }.items(),
    ids=lambda call: call[0],
)
def test_other_masked_arrays_are_refused(call):
    what, function = call
    with pytest.raises(InputError, match=f"^{what}.* masked array with [0-9]+ masked values?"):
        function()


def test_masked_labels_are_missing():
    labels = np.arange(ITEMS) % 3
    settings = {"metrics": "REO", "top_k": 4}
    masked = evaluate(SCORES, item_clusters=np.ma.masked_array(labels, MASK[0]), **settings)
    given = {item: int(labels[item]) for item in np.flatnonzero(~MASK[0])}
    assert masked["REO@4"] == evaluate(SCORES, item_clusters=given, **settings)["REO@4"]


def _coo(row, column):
    indices = torch.tensor([[0, row], [1, column]])
    return torch.sparse_coo_tensor(indices, torch.ones(2), (USERS, ITEMS), check_invariants=False)


def _csr(column, **pointers):
    """A torch CSR matrix with one value per row, and some wrong row pointers."""
    crow = torch.arange(USERS + 1)
    for row, pointer in pointers.items():
        crow[int(row.removeprefix("row"))] = pointer
    columns = torch.arange(USERS)
    columns[3] = column
    return torch.sparse_csr_tensor(
        crow, columns, torch.ones(USERS), (USERS, ITEMS), check_invariants=False
    )


def _scipy(kind, name, place, value):
    """A SciPy matrix with one wrong index, which SciPy does not check after construction."""
    matrix = sp.eye(USERS, ITEMS, format=kind)
    getattr(matrix, name)[place] = value
    return matrix


WRONG_INDICES = {
    "coo column": (lambda: _coo(2, ITEMS), "column 15"),
    "coo far column": (lambda: _coo(2, 10**12), "column 1000000000000"),
    "coo negative column": (lambda: _coo(2, -1), "column -1"),
    "coo row": (lambda: _coo(USERS, 2), "row 12"),
    "coo negative row": (lambda: _coo(-3, 2), "row -3"),
    "csr column": (lambda: _csr(ITEMS), "column 15"),
    "csr negative column": (lambda: _csr(-1), "column -1"),
    "csr last pointer": (lambda: _csr(2, row12=10**9), "index pointers"),
    "csr short last pointer": (lambda: _csr(2, row12=11), "12 values but 11 row indices"),
    "csr first pointer": (lambda: _csr(2, row0=1), "index pointers"),
    "csr descending pointers": (lambda: _csr(2, row5=9), "index pointers"),
    "scipy coo column": (lambda: _scipy("coo", "col", 2, ITEMS), "column 15"),
    "scipy coo row": (lambda: _scipy("coo", "row", 2, -1), "row -1"),
    "scipy csr column": (lambda: _scipy("csr", "indices", 2, 99), "axis 1 index 99"),
    "scipy csr pointer": (lambda: _scipy("csr", "indptr", -1, 10**6), "index pointers"),
    "scipy csc row": (lambda: _scipy("csc", "indices", 2, 99), "axis 0 index 99"),
    "scipy csc pointer": (lambda: _scipy("csc", "indptr", 3, -7), "index pointers"),
    "scipy bsr column": (lambda: _scipy("bsr", "indices", 0, 99), "axis 1 index"),
    "scipy bsr pointer": (lambda: _scipy("bsr", "indptr", -1, 10**6), "index pointers"),
}


@pytest.mark.parametrize("name", WRONG_INDICES)
def test_refuses_wrong_indices_of_sparse_matrices(name):
    build, got = WRONG_INDICES[name]
    matrix = build()
    expected = rf"is a sparse matrix \[12, 15\] with .*{got}"
    calls = {
        "truth": lambda: evaluate(SCORES, matrix),
        "train": lambda: evaluate(SCORES, train=matrix),
        "candidates": lambda: evaluate(SCORES, candidates=matrix),
        "target": lambda: weft.Evaluator("MRR", 3).update(SCORES, matrix),
    }
    calls["train of Evaluator"] = lambda: weft.Evaluator("MRR", 3, train=matrix)
    calls["train of EPC"] = lambda: weft.metrics.EPC(k=3, train=matrix)
    for where, call in calls.items():
        with pytest.raises(InputError, match=f"^{where.split()[0]} {expected}"):
            call()


@pytest.mark.parametrize(
    ("name", "place", "value", "got"),
    [("indices", 2, 99, "index 99"), ("indices", 2, -1, "index"), ("indptr", -1, 10**6, "index")],
)
def test_refuses_wrong_indices_of_features(name, place, value, got):
    wrong = {"item_features": _scipy("csr", name, place, value), "metrics": "SRecall"}
    with pytest.raises(InputError, match=f"^item_features is a sparse matrix .* with .*{got}"):
        evaluate(SCORES[:, :USERS], TRUTH[:, :USERS], train=None, **wrong)


def test_item_ids_beyond_63_bits_are_refused():
    with pytest.raises(InputError, match="beyond 63 bits"):
        weft.TopKItems(np.array([[2**63 + 5, 1]], dtype=np.uint64))


def test_factors_of_two_types_use_the_wider_type():
    pair = weft.Factors(
        torch.ones(1, 1), torch.tensor([[1.0], [1.0 + 2**-40]], dtype=torch.float64)
    )
    assert weft.evaluate(pair, {0: [1]}, metrics="MRR@2", **BY_POSITION)["MRR@2"] == 1.0


def test_models_score_each_user_once():
    asked = []

    def model(users):
        asked.extend(users.tolist())
        return torch.rand(len(users), 30, generator=torch.Generator().manual_seed(0))

    weft.evaluate(model, {user: [user % 30] for user in range(700)}, metrics="MRR@5")
    assert sorted(asked) == list(range(700))


def test_models_get_string_ids_unchanged():
    asked = []

    def model(users):
        assert isinstance(users, list)
        asked.extend(users)
        return SCORES[[int(user[1:]) for user in users]]

    truth = pl.DataFrame({"user": ["u3", "u11", "u2"], "item": [1, 2, 3]})
    result = evaluate(model, truth, train=None, per_user=True)
    assert sorted(asked) == ["u11", "u2", "u3"] == sorted(result.per_user["user"])
    rows = torch.zeros(USERS, ITEMS)
    rows[[3, 11, 2], [1, 2, 3]] = 1
    assert numbers(result)[0] == [
        pytest.approx(row, nan_ok=True) for row in numbers(evaluate(SCORES, rows, train=None))[0]
    ]


class Network(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table = torch.nn.Embedding.from_pretrained(SCORES.clone())
        self.drop = torch.nn.Dropout(0.9)
        self.frozen = torch.nn.BatchNorm1d(3).eval()

    def forward(self, users):
        assert not (self.training or self.drop.training or torch.is_grad_enabled())
        return self.drop(self.table(users)).requires_grad_(False)


@pytest.mark.parametrize("training", [True, False])
def test_modules_score_in_evaluation_mode(training, expected):
    network = Network()
    network.train(training).frozen.eval()
    modes = {name: module.training for name, module in network.named_modules()}
    same(evaluate(network), expected[True])
    assert {name: module.training for name, module in network.named_modules()} == modes


def test_restores_the_mode_of_a_module_after_an_exception():
    class Failing(Network):
        def forward(self, users):
            raise ArithmeticError("the model's own")

    network = Failing().train()
    with pytest.raises(ArithmeticError, match="the model's own"):
        evaluate(network)
    assert network.training and network.drop.training


ID_FORMS = {
    "list": list,
    "numpy": np.array,
    "numpy objects": lambda ids: np.array(ids, dtype=object),
    "polars": pl.Series,
    "categorical": lambda ids: (
        pl.Series(ids).cast(pl.Categorical) if isinstance(ids[0], str) else pl.Series(ids)
    ),
    "pandas": pd.Series,
    "tensor": lambda ids: torch.tensor(ids) if isinstance(ids[0], int) else tuple(ids),
}


@pytest.mark.parametrize("kind", ["strings", "sparse integers"])
@pytest.mark.parametrize("form", ID_FORMS.values(), ids=ID_FORMS)
def test_reads_ids_of_users_and_items(form, kind, expected):
    users, items = (
        (U_IDS, I_IDS)
        if kind == "strings"
        else ([n * n - 50 for n in range(USERS)], [1000 - 7 * n for n in range(ITEMS)])
    )
    rows, columns = (
        RNG.permutation(USERS),
        np.arange(ITEMS),
    )  # columns stay: equal scores rank by column

    def named(matrix):
        frame = cells(matrix)
        return pl.DataFrame(
            {
                "user": [users[u] for u in frame["user"]],
                "item": [items[i] for i in frame["item"]],
                "rating": frame["rating"],
            }
        )

    given = {"users": form([users[n] for n in rows]), "items": form([items[n] for n in columns])}
    result = evaluate(SCORES[rows], named(TRUTH), train=named(TRAIN), per_user=True, **given)
    same(result, expected[True])
    assert result.per_user["user"].to_list() == [users[n] for n in rows]


def test_values_do_not_depend_on_column_order():
    scores = torch.rand(USERS, ITEMS, generator=torch.Generator().manual_seed(1))
    order = np.arange(ITEMS)[::-1]
    truth = {f"u{u}": {f"i{i}": r for i, r in row.items()} for u, row in as_dict(TRUTH).items()}
    shuffled = evaluate(
        scores[:, order.copy()], truth, train=None, users=U_IDS, items=[I_IDS[n] for n in order]
    )
    same(shuffled, evaluate(scores, truth, train=None, users=U_IDS, items=I_IDS))
    same(shuffled, evaluate(scores, train=None))


def test_users_without_scores_count_zero_or_are_skipped():
    truth = {"u1": {"i0": 1}, "gone": {"i1": 1}, "away": {"i2": 1}}
    ids = pl.Series(U_IDS)
    settings = {
        "metrics": ["HitRate@15", "AUC", "GAUC", "LAUC@15"],
        "users": ids,
        "items": I_IDS,
        "train": None,
        "per_user": True,
    }
    zero = evaluate(SCORES, truth, **settings)
    assert (
        zero["HitRate@15"] == pytest.approx(1 / 3)
        and zero.entry("GAUC").users == 1 == zero.entry("LAUC@15").users
    )
    assert zero.counts["missing_users"] == 2 and "2 users of the truth have no scores" in repr(zero)
    assert set(zero.per_user["user"]) == {"u1", "gone", "away"}
    skip = evaluate(SCORES, truth, missing_lists="skip", **settings)
    assert skip["HitRate@15"] == 1.0 and "are excluded" in repr(skip)
    assert ids.to_list() == U_IDS


# Users 2, 5 and 11 have no interaction in the truth; "gone" has one and no scores.
JUDGED = [user for user in range(USERS) if user not in (2, 5, 11)]
FACTORS = np.random.default_rng(5).normal(size=(USERS + ITEMS, 3))


def inputs_of(users, form):
    """A source for some users, and all inputs by id; scores of all users have labels in order."""
    ids, scores = [U_IDS[user] for user in users], SCORES[users]
    best = scores.argsort(dim=1, descending=True, stable=True)[:, :6].tolist()
    sources = {
        "scores": scores,
        "array": scores.numpy(),
        "factors": weft.Factors(FACTORS[users], FACTORS[USERS:], user_biases=np.array(users) / 9),
        "model": lambda asked: SCORES[[int(user[1:]) for user in asked]],
        "lists": {user: [I_IDS[item] for item in row] for user, row in zip(ids, best)},
        "scored lists": {
            user: {I_IDS[item]: float(row[item]) for item in items}
            for user, row, items in zip(ids, scores, best)
        },
    }
    truth, train = (
        {f"u{user}": {f"i{i}": rating for i, rating in as_dict(table)[user].items()} for user in of}
        for table, of in ((TRUTH, JUDGED), (TRAIN, range(USERS)))
    )
    labels, parity = make_labels(USERS, ITEMS), [user % 2 for user in range(USERS)]
    if "lists" in form or len(users) < USERS:
        labels["user_groups"] = dict(zip(U_IDS, labels["user_groups"]))
        parity = dict(zip(U_IDS, parity))
    return sources[form], {
        **({} if "lists" in form else {"users": ids}),
        **labels,
        "truth": {**truth, "gone": {"i1": 1}},
        "train": train,
        "items": I_IDS,
        "slices": {"parity": parity, "activity": "quantiles(2)"},
    }


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"bootstrap": 20, "seed": 4},
        {"strategy": "sampled", "num_negatives": 5},
        {"candidates": {f"u{user}": I_IDS[user % 3 :: 2] for user in range(USERS)}},
        {"missing_lists": "skip", "empty_users": "zero", "relevance_threshold": 4},
        {"ties": "random", "batch_size": 2},
    ],
    ids=str,
)
@pytest.mark.parametrize("form", ["scores", "array", "factors", "model", "lists", "scored lists"])
def test_skipped_users_without_truth_do_not_count(form, settings):
    refused = {"lists": ("needs_all_scores", "reads_scores"), "scored lists": ("needs_all_scores",)}
    metrics = [
        name
        for name in BUILT_IN
        if not any(has_trait(name, trait) for trait in refused.get(form, ()))
    ]
    how = {"metrics": metrics, "top_k": [3], "per_user": True, "exposure": True, **settings}
    source, inputs = inputs_of(list(range(USERS)), form)
    result = weft.evaluate(source, **inputs, extra_users="skip", **how)
    source, inputs = inputs_of(JUDGED, form)
    expected = weft.evaluate(source, **inputs, **how)
    changed = ("users_without_truth", "train_rows_unmatched", "candidates_unmatched")
    counts, wanted_counts = result.counts, expected.counts
    same_values(result, expected)
    assert {**counts, **dict.fromkeys(changed)} == {**wanted_counts, **dict.fromkeys(changed)}
    assert (counts["users_without_truth"], wanted_counts["users_without_truth"]) == (3, 0)
    for table in ("per_user", "slices", "exposure", "popularity", "user_labels"):
        pl.testing.assert_frame_equal(getattr(result, table), getattr(expected, table))
    for value, other in zip(result.entries, expected.entries):
        assert str(value.interval) == str(other.interval)
    note = "3 users have no interaction in the truth and are excluded from all metrics"
    assert any(text.startswith(note) for text in result.notes)
    assert result.settings["extra_users"] == "skip" and "extra_users" not in expected.settings


@pytest.mark.parametrize("form", RATED)
def test_skips_users_with_empty_rows_of_truth(form):
    truth = TRUTH * np.isin(np.arange(USERS), JUDGED)[:, None]
    metrics = ["nDCG", "ItemCoverage", "UserCoverage", "BiasDisparityBR", "UserMADRating"]
    labels = {
        "slices": {"parity": [user % 2 for user in range(USERS)]},
        **make_labels(USERS, ITEMS),
    }
    how = {"metrics": metrics, "extra_users": "skip", "per_user": True, **labels}
    result = evaluate(SCORES, RATED[form](truth), **how)
    expected = evaluate(
        SCORES[JUDGED],
        TRUTH[JUDGED],
        **how
        | {
            "train": TRAIN[JUDGED],
            "slices": {"parity": [user % 2 for user in JUDGED]},
            "user_groups": [labels["user_groups"][user] for user in JUDGED],
        },
    )
    same_values(result, expected)
    assert result.per_user["user"].to_list() == JUDGED
    assert result.counts["users_without_truth"] == 3


def test_users_without_truth_count_by_default():
    scores, truth = SCORES.clone(), TRUTH * np.isin(np.arange(USERS), JUDGED)[:, None]
    how = {"metrics": ["UserCoverage", "NumRetrieved"], "top_k": [4]}
    counted = evaluate(scores, truth, **how)
    same(counted, evaluate(scores, truth, extra_users="count", **how))
    assert (counted["UserCoverage@4"], counted.counts["users"]) == (USERS, USERS)
    skipped = evaluate(scores, truth, extra_users="skip", **how)
    assert (skipped["UserCoverage@4"], skipped.counts["users"]) == (len(JUDGED), len(JUDGED))
    assert torch.equal(scores, SCORES)
    with pytest.raises(weft.errors.SettingError, match=r"extra_users='none'.*'count', 'skip'"):
        evaluate(SCORES, TRUTH, extra_users="none")


@pytest.mark.parametrize(
    "setting", [{"missing_lists": "Zero"}, {"empty_users": "SKIP"}, {"ties": "Index"}]
)
def test_settings_ignore_case(setting):
    truth = {"u1": {"i0": 1}, "gone": {"i1": 1}}
    ids = {"users": U_IDS, "items": I_IDS, "train": None}
    same(evaluate(SCORES, truth, **ids, **setting), evaluate(SCORES, truth, **ids))


def test_zeros_are_absent_in_matrices_and_ratings_elsewhere():
    stored = sp.csr_matrix(([0.0, 1.0], ([0, 0], [1, 2])), shape=(USERS, ITEMS))
    for truth in (
        stored,
        {0: {1: 0, 2: 1}},
        pl.DataFrame({"user": [0, 0], "item": [1, 2], "rating": [0, 1]}),
    ):
        assert evaluate(SCORES, truth).counts["relevant_items"] == 1


# ---------------------------------------------------------------------------- ids and positions

# Scores that rank the relevant item of every user first; ids count from 1, as in MovieLens.
FROM_ONE = {user: [3 * user % 5 + 1] for user in range(1, 7)}
BEST_FIRST = torch.eye(5)[[3 * user % 5 for user in range(1, 7)]]
ONE_IDS = {"users": range(1, 7), "items": range(1, 6)}


def frame_of(interactions):
    rows = [(user, item) for user, row in interactions.items() for item in row]
    return pl.DataFrame(rows, schema=["user", "item"], orient="row")


def unlike_positions(source, truth, **settings):
    """The warnings about ids that nobody called positions, which are notes too; and the result."""
    with pytest.warns(InputWarning) as warned:
        result = weft.evaluate(source, truth, metrics="nDCG@1", **settings)
    texts = [str(one.message) for one in warned]
    assert all(one.filename == __file__ for one in warned)
    assert set(texts) <= set(result.notes)
    return texts, result


OF_SCORES = {
    "matrix": lambda scores: scores,
    "array": lambda scores: scores.numpy(),
    "factors": lambda scores: weft.Factors(scores, torch.eye(scores.shape[1])),
}


@pytest.mark.parametrize("source", OF_SCORES.values(), ids=OF_SCORES)
@pytest.mark.parametrize("argument", ["truth", "train"])
def test_a_frame_or_a_file_with_scores_needs_ids_or_positions(source, argument, tmp_path):
    frame = frame_of({user: row for user, row in FROM_ONE.items() if user < 4})
    frame.write_csv(tmp_path / "rows.csv")
    scores = source(torch.rand(7, 6))
    for rows in (frame, frame.lazy(), frame.to_pandas(), tmp_path / "rows.csv"):
        inputs = {"truth": {0: [0]}, "metrics": "nDCG@1", argument: rows}
        with pytest.raises(
            InputError,
            match=rf"^{argument} has ids, but it is not known which rows and columns of the scores "
            r"they belong to. Give .* with users= and items=, or users='positions', "
            r"items='positions' if the ids are the numbers",
        ):
            weft.evaluate(scores, **inputs)
        result = weft.evaluate(scores, **inputs, **BY_POSITION)
        assert result.provenance["ids"] == {"users": "positions", "items": "positions"}
        assert not any("numbers of the scores" in note for note in result.notes)
        weft.evaluate(scores, **inputs, users=range(7), items=range(6))


@pytest.mark.parametrize("source", OF_SCORES.values(), ids=OF_SCORES)
def test_ids_that_count_from_one_are_a_warning_with_the_fix(source):
    wrong = torch.cat([BEST_FIRST, BEST_FIRST[:1]])  # rows of user 1 to 6, and one that is unused
    wrong = torch.cat([wrong, torch.zeros(7, 1)], dim=1)
    texts, result = unlike_positions(source(wrong), FROM_ONE, train={1: [3]})
    assert texts == [
        "no user of truth and train has the id 0, so the ids may start at 1, but they are read as "
        "row numbers of the scores, 0 to 6. Give the ids of the rows with users=[...], or "
        "users='positions' if they are row numbers",
        "no item of truth and train has the id 0, so the ids may start at 1, but they are read as "
        "column numbers of the scores, 0 to 5. Give the ids of the columns with items=[...], or "
        "items='positions' if they are column numbers",
    ]
    assert result.notes[2] == (
        "user ids are read as row numbers and item ids are read as column numbers of the scores"
    )
    assert result["nDCG@1"] == 0
    right = weft.evaluate(source(BEST_FIRST), FROM_ONE, metrics="nDCG@1", **ONE_IDS)
    assert right["nDCG@1"] == 1 and right.provenance["ids"] == dict.fromkeys(ONE_IDS, "given")
    assert not any("ids" in note for note in right.notes)


def test_each_axis_is_judged_by_itself():
    scores = torch.rand(7, 6)
    assert len(unlike_positions(scores, {0: [1]})[0]) == 1
    texts, _ = unlike_positions(scores, {1: [0]})
    assert "no user of truth has the id 0" in texts[0] and len(texts) == 1
    assert len(unlike_positions(scores, {1: [1]}, users="positions")[0]) == 1
    assert len(unlike_positions(scores, frame_of({1: [1]}), items=range(6))[0]) == 1
    for truth, train in (({0: [0]}, None), ({1: [1]}, {0: [0]}), ({1: [0], 0: []}, None)):
        result = weft.evaluate(scores, truth, train=train, metrics="nDCG@1")
        assert result.notes[0].startswith("user ids are read as row numbers and item ids")
    for truth in ({}, torch.zeros(7, 6), np.eye(7, 6)):  # there are no ids
        result = weft.evaluate(scores, truth, metrics="nDCG@1")
        assert not any("are read as" in note for note in result.notes)
        assert result.provenance["ids"] == {"users": "positions", "items": "positions"}


def test_the_columns_of_a_model_are_positions_and_its_users_are_not():
    def model(users):
        return torch.rand(len(users), 6)

    assert len(unlike_positions(model, FROM_ONE)[0]) == 1
    with pytest.raises(InputError, match=r"which columns of the scores .* with items=, or items='"):
        weft.evaluate(model, frame_of(FROM_ONE), metrics="nDCG@1")
    result = weft.evaluate(model, frame_of(FROM_ONE), metrics="nDCG@1", items="positions")
    assert result.provenance["ids"] == {"users": "truth", "items": "positions"}
    with pytest.raises(SettingError, match=r"users='positions' means .* a model is called with"):
        weft.evaluate(model, FROM_ONE, metrics="nDCG@1", users="positions")


def test_lists_have_no_positions():
    lists = {1: [2, 3]}
    for name in ("users", "items"):
        with pytest.raises(SettingError, match=rf"^{name}='positions' means that .* lists contain"):
            weft.evaluate(lists, FROM_ONE, metrics="nDCG@1", **{name: "positions"})
    result = weft.evaluate(lists, FROM_ONE, metrics="nDCG@1")
    assert result.provenance["ids"] == {"users": "lists", "items": "lists"}


def test_ids_beyond_the_positions_are_refused_with_a_hint():
    with pytest.raises(InputError, match=r"(?s)users .*\nThe user ids are 1 to 6: they start at 1"):
        weft.evaluate(torch.rand(6, 7), FROM_ONE, metrics="nDCG@1")
    with pytest.raises(
        InputError, match=r"(?s)columns? .*\nThe item ids are 1 to 5: they start at 1"
    ):
        weft.evaluate(torch.rand(7, 5), FROM_ONE, metrics="nDCG@1")
    with pytest.raises(
        InputError, match=r"(?s)item 1, rating 1\nGive the ids of the rows of the scores"
    ):
        weft.evaluate(torch.rand(6, 7), {9: [1]}, metrics="nDCG@1")


EMPTY = {
    "dict": {},
    "dict of nothing": {0: {}, 1: []},
    "frame": pl.DataFrame({"user": [], "item": [], "rating": []}),
    "typed frame": pl.DataFrame(schema={"user": pl.Int64, "item": pl.Int64, "rating": pl.Float64}),
    "pandas": pd.DataFrame({"user": [], "item": []}),
    "csr": sp.csr_matrix((USERS, ITEMS)),
    "dense": torch.zeros(USERS, ITEMS),
}


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("empty", EMPTY.values(), ids=EMPTY)
def test_accepts_empty_truth_and_train(empty, named):
    ids = {"users": U_IDS, "items": I_IDS} if named else {}
    if named and isinstance(empty, dict):
        empty = {U_IDS[user]: row for user, row in empty.items()}
    result = evaluate(SCORES, empty, train=empty, **ids)
    assert all(math.isnan(value.value) and value.users == 0 for value in result.entries)
    assert "no user has a relevant item" in result.notes[0] and result.counts["users"] == USERS


@pytest.mark.parametrize(("users", "items"), [(0, 5), (3, 0), (0, 0), (3, 1)])
@pytest.mark.parametrize("ties", TIE_RULES)
def test_tiny_catalogues(users, items, ties):
    truth = {user: [0] for user in range(users)} if items else {}
    result = weft.evaluate(
        torch.zeros(users, items),
        truth,
        metrics=BUILT_IN,
        top_k=[1, 3],
        ties=ties,
        train={},
        **make_labels(users, items),
    )
    assert result["Recall@3"] == pytest.approx(1.0 if users and items else math.nan, nan_ok=True)
    assert math.isnan(result["AUC"]) and math.isnan(result["LAUC@1"])  # nobody has a negative


# -------------------------------------------------------------------------------------------------


def read_only():
    array = SCORES.numpy().copy()
    array.flags.writeable = False
    return array


def inference():
    with torch.inference_mode():
        return SCORES.clone()


def values_of(scores):
    return (scores.detach().numpy() if isinstance(scores, torch.Tensor) else scores).copy()


ONE_ROW = torch.arange(ITEMS).float()
HOLDERS = {
    "torch": SCORES.clone,
    "numpy": lambda: SCORES.numpy().copy(),
    "read-only numpy": read_only,
    "numpy broadcast": lambda: np.broadcast_to(ONE_ROW.numpy(), (USERS, ITEMS)),
    "numpy Fortran": lambda: np.asfortranarray(SCORES.numpy()),
    "numpy reversed": lambda: SCORES.numpy()[::-1, ::-1],
    "numpy big-endian": lambda: SCORES.numpy().astype(">f4"),
    "expanded": lambda: ONE_ROW.expand(USERS, ITEMS),
    "one score expanded": lambda: torch.tensor(0.5).expand(USERS, ITEMS),
    "transposed": lambda: SCORES.T.contiguous().T,
    "strided": lambda: torch.stack([SCORES, SCORES], dim=2)[:, :, 1],
    "requires_grad": lambda: SCORES.clone().requires_grad_(),
    "not a leaf": lambda: SCORES.clone().requires_grad_() * 1,
    "inference": inference,
}


@pytest.mark.parametrize(
    ("ties", "batch_size"),
    [("index", 1), ("index", None), ("expected", None), ("optimistic", None)],
)
@pytest.mark.parametrize("holder", HOLDERS.values(), ids=HOLDERS)
def test_does_not_change_scores(holder, ties, batch_size):
    scores = holder()
    before = values_of(scores)
    result = evaluate(scores, ties=ties, batch_size=batch_size)
    assert np.array_equal(values_of(scores), before)
    same(result, evaluate(torch.tensor(before.astype(np.float32)), ties=ties))
    assert result.counts["relevant_seen"] > 0
    if isinstance(scores, torch.Tensor):
        evaluator = weft.Evaluator(["nDCG", "GAUC"], top_k=[4, 20], train=TRAIN, ties=ties)
        evaluator.update(scores, torch.tensor(TRUTH), torch.arange(USERS))
        assert np.array_equal(values_of(scores), before)
        assert numbers(evaluator.compute())[0] == [
            pytest.approx(row, nan_ok=True) for row in numbers(result)[0]
        ]


@pytest.fixture
def own_metrics(monkeypatch):
    """The registry forgets what a test registers."""
    monkeypatch.setattr("weft.metrics.registry._classes", dict(weft.metrics.registry._classes))


@pytest.mark.parametrize("ties", ["index", "optimistic"])
def test_does_not_change_scores_if_a_metric_raises(ties, own_metrics):
    @weft.register
    class Exploding(weft.UserAverageTopKMetric):
        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            assert (preds == -torch.inf).any()  # masked at this moment
            raise ArithmeticError("the metric's own")

    scores = SCORES.clone()
    with pytest.raises(MetricError, match="ArithmeticError: the metric's own"):
        evaluate(scores, metrics=["Recall@2", "Exploding@2"], ties=ties)
    assert torch.equal(scores, SCORES)


def test_does_not_change_truth_and_train():
    frame, train = (
        pl.DataFrame(cells(TRUTH)).sample(fraction=1.0, shuffle=True, seed=3),
        sp.csr_matrix(TRAIN)[:, ::-1],
    )
    kept, data = frame.clone(), train.copy()
    evaluate(SCORES, frame, train=train)
    assert (
        frame.equals(kept)
        and (train != data).nnz == 0
        and np.array_equal(train.indices, data.indices)
    )


# --------------------------------------------------------------------------------------------------


class Largest(TorchDispatchMode):
    """The largest tensor that is made anew, in elements, outside the memory of what was given."""

    def __init__(self, given):
        super().__init__()
        self.given = {
            part.data_ptr() if isinstance(part, torch.Tensor) else part.ctypes.data
            for part in given
        }
        self.elements, self.by = 0, ""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for leaf in tree_leaves(out):
            if (
                isinstance(leaf, torch.Tensor)
                and leaf.untyped_storage().data_ptr() not in self.given
            ):
                elements = leaf.untyped_storage().nbytes() // leaf.element_size()
                if elements > self.elements:
                    self.elements, self.by = elements, str(func)
        return out


@pytest.fixture(scope="module")
def watch():
    """Watches work: the largest new tensor (elements, by what) and the peak of NumPy's memory
    (bytes).
    """
    with Largest([]):  # what is imported on first use does not count
        weft.evaluate(
            torch.rand(2, 3),
            {0: [0]},
            metrics=BUILT_IN,
            top_k=1,
            train={0: [0]},
            **make_labels(2, 3),
        )

    def watched(work, *given):
        tracemalloc.start()
        try:
            with Largest(given) as largest:
                work()
            return largest.elements, largest.by, tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return watched


BATCH, WIDE = 96, 40_000


@pytest.fixture(scope="module")
def wide():
    rng = np.random.default_rng(3)
    scores = torch.tensor(
        rng.integers(0, 500, (BATCH, WIDE)), dtype=torch.float32
    )  # ties everywhere
    truth, train = (sp.random(BATCH, WIDE, density=2e-4, rng=rng, format="csr") for _ in range(2))
    return scores, truth, train


@pytest.mark.parametrize("ties", TIE_RULES)
@pytest.mark.parametrize("form", ["scores", "lists"])
def test_positions_beyond_the_catalogue_take_no_memory(watch, form, ties):
    far = 20_000
    source, names, labels = SCORES, BUILT_IN, make_labels(USERS, ITEMS)
    if form == "lists":
        source = {user: dict(enumerate(row)) for user, row in enumerate(SCORES.tolist())}
        names, labels = ["nDCG", "MAP", "MRR", "LAUC", "EPC", "ARP", "Gini", "ItemCoverage"], {}
    settings = {"metrics": names, "top_k": [5, far], "ties": ties, **labels}
    elements, by, _ = watch(lambda: evaluate(source, **settings))
    assert elements <= 2 * far, by  # the discounts of all positions, but not for each user


@pytest.mark.parametrize("ties", TIE_RULES)
def test_positions_beyond_the_catalogue_are_empty(ties):
    """Further items that nobody can get fill the catalogue, and change no list."""
    names = [*ACCURACY, "EPC", "EFD", "EPC(relevance=none)", "nDCG(ideal=k)", "APLT", "ARP"]
    settings = {"metrics": names, "top_k": [4, ITEMS, ITEMS + 1, 40], "ties": ties, "seed": 3}
    more = ((0, 0), (0, 40 - ITEMS))
    wide = evaluate(
        np.pad(SCORES.numpy(), more, constant_values=-np.inf),
        np.pad(TRUTH, more),
        train=np.pad(TRAIN, more),
        **settings,
    )
    for value, other in zip(evaluate(SCORES, **settings).entries, wide.entries, strict=True):
        assert value.name == other.name
        assert value.value == pytest.approx(other.value, abs=1e-12, nan_ok=True), value.name


def test_blocks_have_k_columns_beyond_the_catalogue(own_metrics):
    seen = {}

    @weft.register
    class Blocks(weft.TopKMetric):
        _REQUIRED_COMPONENTS: ClassVar = {block for block in MetricBlock if block.has_cutoff}

        def update(self, preds, **blocks):
            seen.update({name: block for name, block in blocks.items() if block.ndim == 2})

        def compute(self):
            return torch.tensor(0.0)

    evaluate(SCORES, metrics="Blocks", top_k=20, train=None)
    fills = {"indices": -1, "values": -math.inf, "relevance": 0}
    assert len(seen) == len(Blocks._REQUIRED_COMPONENTS)
    for name, block in seen.items():
        assert block.shape == (USERS, 20)
        assert (block[:, ITEMS:] == fills[name.rsplit("_", 1)[1]]).all(), name


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ties", "kind"),
    [
        *((ties, torch.float32) for ties in TIE_RULES),
        ("index", torch.float64),
        ("expected", torch.bfloat16),
    ],
)
def test_allocates_nothing_as_large_as_the_scores(wide, watch, ties, kind):
    scores, truth, train = wide
    scores = scores.to(kind)
    settings = {
        "metrics": BUILT_IN,
        "top_k": [5, 20],
        "ties": ties,
        "batch_size": BATCH,
        **make_labels(BATCH, WIDE),
    }
    elements, by, peak = watch(
        lambda: weft.evaluate(scores, truth, train=train, **settings), scores
    )
    assert elements < BATCH * WIDE // 2, by
    assert peak < BATCH * WIDE * 4


TARGETS = {
    "scipy": lambda truth: truth,
    "torch csr": lambda truth: torch_csr(truth.toarray()),
    "lists": lambda truth: [row.indices.tolist() for row in truth],
    "dense": lambda truth: torch.tensor(truth.toarray()),
    "dense bool": lambda truth: torch.tensor(truth.toarray() > 0),
}


@pytest.mark.parametrize("form", TARGETS.values(), ids=TARGETS)
def test_allocates_nothing_as_large_as_the_scores_for_any_target(wide, watch, form):
    scores, target = wide[0], form(wide[1])
    evaluator = weft.Evaluator(BUILT_IN, top_k=[5, 20], train=wide[2], **make_labels(BATCH, WIDE))
    elements, by, peak = watch(
        lambda: evaluator.update(scores, target, torch.arange(BATCH)),
        scores,
        *([target] if isinstance(target, torch.Tensor) and target.layout == torch.strided else []),
    )
    assert elements < BATCH * WIDE // 2, by
    assert peak < BATCH * WIDE * 4


@pytest.mark.parametrize(
    "block", ["BINARY_RELEVANCE", "DISCOUNTED_RELEVANCE", "TOP_K_BINARY_RELEVANCE"]
)
def test_allocates_dense_blocks_on_request(wide, watch, block, own_metrics):
    @weft.register
    class Asking(weft.UserAverageTopKMetric):
        _REQUIRED_COMPONENTS = {weft.MetricBlock[block]}

        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            return top_k_rel.sum(1)

    scores, truth, train = wide
    settings = {"metrics": ["Asking", "nDCG"], "top_k": [5], "batch_size": BATCH}
    elements, _, _ = watch(lambda: weft.evaluate(scores, truth, train=train, **settings), scores)
    assert (elements >= BATCH * WIDE) == (not block.startswith("TOP_K"))


@pytest.mark.parametrize("kind", ["float32", "read-only", "int8"])
def test_does_not_copy_large_matrices(watch, kind):
    matrix = np.zeros((1500, 1000), dtype="int8" if kind == "int8" else "float32")
    matrix.flags.writeable = kind != "read-only"
    truth = {user: [user % 1000] for user in range(1500)}
    elements, by, peak = watch(
        lambda: weft.evaluate(matrix, truth, metrics="MRR@5", batch_size=100), matrix
    )
    assert elements < matrix.size / 4, by
    assert peak < matrix.size


# ----------------------------------------------------------------------------------- implicit truth


IMPLICIT = {
    "dict": {u: {i: float(r) for i, r in enumerate(row) if r} for u, row in enumerate(TRUTH)},
    "dense": TRUTH,
    "sparse": sp.csr_array(TRUTH),
    "frame": pl.DataFrame(
        {"user": TRUTH.nonzero()[0], "item": TRUTH.nonzero()[1], "rating": TRUTH[TRUTH > 0]}
    ),
}


@pytest.mark.parametrize("form", IMPLICIT)
def test_implicit_ignores_the_ratings_of_the_truth(form):
    """Every interaction counts 1, whatever its rating; play counts overflow no more."""
    metrics = {"metrics": ["nDCG", "EPC(relevance=graded)", "Recall", "MAE"]}
    expected = evaluate(SCORES, (TRUTH > 0).astype(int), **metrics)
    plays = IMPLICIT[form]
    if form == "frame":
        plays = plays.with_columns(rating=pl.col("rating") * 1000 - 3000)  # also negative, and 0
    got = evaluate(SCORES, plays, **metrics, implicit=True)
    same(got, expected)
    assert got.settings["implicit"] is True and "implicit" not in expected.settings
    assert got.provenance["fingerprint"]["truth"] == expected.provenance["fingerprint"]["truth"]
    if form != "frame":
        with_ratings = evaluate(SCORES, plays, **metrics)
        assert with_ratings["nDCG@4"] != expected["nDCG@4"]


def test_implicit_in_an_evaluator():
    settings = {"metrics": ["nDCG", "Recall"], "top_k": [4]}
    evaluator, expected = weft.Evaluator(**settings, implicit=True), weft.Evaluator(**settings)
    for form in (torch.tensor(TRUTH), torch.tensor(TRUTH).float().to_sparse()):
        evaluator.update(SCORES, form * 500)
        expected.update(SCORES, torch.tensor(TRUTH > 0))
    same(evaluator.compute(), expected.compute())
    with pytest.raises(SettingError, match="implicit"):
        expected.merge(evaluator)


def test_a_threshold_has_nothing_to_compare_where_ratings_are_ignored():
    with pytest.raises(
        SettingError, match=r"relevance_threshold=4.*implicit=True ignores them.*remove one"
    ):
        evaluate(SCORES, implicit=True, relevance_threshold=4)
    same(
        evaluate(SCORES, implicit=True, metrics="Recall", profile="trec_eval"),
        evaluate(SCORES, (TRUTH > 0).astype(int), metrics="Recall", profile="trec_eval"),
    )
    with pytest.raises(SettingError, match="implicit='yes'; it must be True or False"):
        evaluate(SCORES, implicit="yes")

"""Metrics of users that declare accumulators and a formula, against plain Python, everywhere."""

import copy
import math
import pickle

import numpy as np
import polars as pl
import pytest
import torch
from torchmetrics import MetricCollection

import local_engine
import weft
from process_groups import run_in_processes
from weft import GroupSums, Histogram, ItemRelevance, ItemSums, RankedLists, UserSum
from weft.errors import InputError, SettingError
from weft.metrics import registry
from weft.metrics.accumulators import ItemExposure

USERS, ITEMS, CUTOFFS = 40, 15, (2, 6)
GENERATOR = torch.Generator().manual_seed(21)
SCORES = torch.rand(USERS, ITEMS, generator=GENERATOR, dtype=torch.float64)
SCORES[torch.rand(USERS, ITEMS, generator=GENERATOR) < 0.3] = -torch.inf
SCORES[7, 2:] = -torch.inf  # a list of at most two items
RATINGS = torch.randint(1, 4, (USERS, ITEMS), generator=GENERATOR).double()
RATINGS[torch.rand(USERS, ITEMS, generator=GENERATOR) < 0.7] = 0
RATINGS[3] = 0
GROUPS = ["young", "old", None, "old"] * (USERS // 4)
EVERYONE = torch.arange(USERS)


class MicroRecall(weft.SummedTopKMetric):
    """Hits over relevant items, both of all users together."""

    higher_is_better = True
    bounds = (0.0, 1.0)

    def __init__(self, k, **settings):
        super().__init__(k, **settings)
        self.hits, self.relevant = UserSum(self.count_hits), UserSum(self.count_relevant)

    def count_hits(self, lists):
        return lists.hits[:, 0]

    def count_relevant(self, lists):
        return lists.num_relevant

    def compute_value(self, sums):
        return sums[self.hits] / sums[self.relevant]


class TopItemShare(weft.SummedTopKMetric):
    """The share of the discounted positions of all lists that the most exposed item has."""

    def __init__(self, k, *, num_items, **settings):
        super().__init__(k, **settings)
        self.exposure = ItemSums(num_items, self.discount)

    def discount(self, lists):
        return lists.discounts.expand(len(lists), self.k)

    def compute_value(self, sums):
        return sums[self.exposure].max() / sums[self.exposure].sum()


class GroupPrecision(weft.SummedTopKMetric):
    """Hits over list positions of the users of each group."""

    undefined_cell = "the group has no list"

    def __init__(self, k, *, user_groups, **settings):
        super().__init__(k, **settings)
        self.hits = GroupSums(user_groups, self.count_hits)
        self.positions = GroupSums(user_groups, self.count_positions)

    def count_hits(self, lists):
        return lists.hits

    def count_positions(self, lists):
        return lists.lengths

    def compute_value(self, sums):
        return dict(zip(self.hits.labels, sums[self.hits] / sums[self.positions]))


class FirstHits(weft.SummedTopKMetric):
    """The share of users by the position of their first hit, of those who have one."""

    value_labels = ("1", "2 to 3", "later")

    def __init__(self, k, **settings):
        super().__init__(k, **settings)
        self.users = Histogram([1, 2, 4, math.inf], self.first_hit)

    def first_hit(self, lists):
        return lists.first_hit

    def compute_value(self, sums):
        return sums[self.users] / sums[self.users].sum()


class RelevantSpread(weft.SummedMetric):
    """The variance of the number of relevant items, without a cut-off."""

    def __init__(self, **settings):
        super().__init__(**settings)
        self.squares, self.total = UserSum(self.square), UserSum(self.count)
        self.users = UserSum(self.count_users)

    def count(self, lists):
        return lists.num_relevant

    def square(self, lists):
        return lists.num_relevant**2

    def count_users(self, lists):
        return torch.ones(len(lists))

    def compute_value(self, sums):
        users = sums[self.users]
        return sums[self.squares] / users - (sums[self.total] / users) ** 2


METRICS = [MicroRecall, TopItemShare, GroupPrecision, FirstHits, RelevantSpread]
NAMES = [metric.__name__ for metric in METRICS]


@pytest.fixture(autouse=True)
def registered():
    """The metrics are registered during a test."""
    registry.all_metrics()
    before = dict(registry._classes)
    for metric in METRICS:
        weft.register(metric)
    yield
    registry._classes.clear()
    registry._classes.update(before)


def oracle(rows, cutoffs=CUTOFFS):
    """Return all values over some rows, in plain Python."""
    ranked, relevant = {}, {}
    for user in set(rows):
        scores, ratings = SCORES[user].tolist(), RATINGS[user].tolist()
        offered = [item for item in range(ITEMS) if scores[item] > -math.inf]
        ranked[user] = sorted(offered, key=lambda item: -scores[item])
        relevant[user] = {item for item in range(ITEMS) if ratings[item] > 0}
    values = {}
    for k in cutoffs:
        lists = [(user, ranked[user][:k]) for user in rows]
        hits = [sum(item in relevant[user] for item in items) for user, items in lists]
        total = sum(len(relevant[user]) for user in rows)
        values[f"MicroRecall@{k}"] = sum(hits) / total
        exposure = [0.0] * ITEMS
        for _, items in lists:
            for position, item in enumerate(items):
                exposure[item] += 1 / math.log2(position + 2)
        values[f"TopItemShare@{k}"] = max(exposure) / sum(exposure)
        for group in ("young", "old"):
            own = [number for number, user in enumerate(rows) if GROUPS[user] == group]
            positions = sum(len(lists[number][1]) for number in own)
            values[f"GroupPrecision@{k}[{group}]"] = sum(hits[number] for number in own) / positions
        counts = [0, 0, 0]
        for user, items in lists:
            places = [place for place, item in enumerate(items, 1) if item in relevant[user]]
            if places:
                counts[0 if places[0] == 1 else 1 if places[0] <= 3 else 2] += 1
        for label, count in zip(("1", "2 to 3", "later"), counts):
            values[f"FirstHits@{k}[{label}]"] = count / sum(counts)
    numbers = [len(relevant[user]) for user in rows]
    mean = sum(numbers) / len(numbers)
    values["RelevantSpread"] = sum((number - mean) ** 2 for number in numbers) / len(numbers)
    return values


def make_evaluator(metrics=NAMES, top_k=CUTOFFS, **options):
    options = {"num_items": ITEMS, "user_groups": GROUPS, **options}
    return weft.Evaluator(metrics, top_k, **options)


def feed(evaluator, rows=EVERYONE, batch=9):
    for part in torch.as_tensor(rows).split(batch):
        evaluator.update(SCORES[part], RATINGS[part], part)
    return evaluator


def agree(result, expected):
    assert dict(result) == pytest.approx(expected, rel=1e-12)


# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 9, USERS])
def test_evaluator_agrees_with_plain_python(batch):
    agree(feed(make_evaluator(), batch=batch).compute(), oracle(range(USERS)))


def test_evaluate_agrees_with_plain_python():
    groups = {user: group for user, group in enumerate(GROUPS) if group}
    result = weft.evaluate(
        SCORES, RATINGS, metrics=[*NAMES, "Recall"], top_k=list(CUTOFFS), user_groups=groups
    )
    expected = oracle(range(USERS))
    assert {name: result[name] for name in expected} == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("metric", METRICS)
def test_alone_agrees_with_plain_python(metric):
    inputs = {"num_items": ITEMS, "user_groups": GROUPS}
    inputs = {name: inputs[name] for name in registry.required_inputs(metric)}
    k = 6 if registry.needs_cutoff(metric) else None
    alone = metric(**inputs) if k is None else metric(k, **inputs)
    for rows in EVERYONE.split(13):
        alone.update(SCORES[rows], RATINGS[rows], rows)
    value = alone.compute()
    values = value if isinstance(value, dict) else {str(alone.spec): value}
    expected = oracle(range(USERS))
    for name, number in values.items():
        assert float(number) == pytest.approx(expected[name], rel=1e-12)
    assert len(values) == sum(name.partition("[")[0] == str(alone.spec) for name in expected)


def test_collection_agrees_with_plain_python():
    collection = MetricCollection(
        [MicroRecall(2), GroupPrecision(2, user_groups=GROUPS), FirstHits(2)]
    )
    for rows in EVERYONE.split(13):
        collection.update(SCORES[rows], RATINGS[rows], rows)
    expected = oracle(range(USERS))
    values = {name: float(value) for name, value in collection.compute().items()}
    assert values.pop("MicroRecall") == pytest.approx(expected["MicroRecall@2"])
    assert values == pytest.approx({name: expected[name] for name in values})
    assert len(values) == 5


@pytest.mark.parametrize("name", NAMES)
def test_checks_pass(name):
    outcomes = weft.testing.check_metric(name)
    assert outcomes["leaves_its_tensors_unchanged"] == "passed"


# --------------------------------------------------------------------------------------------------


def test_repeated_users_can_be_dropped():
    rows = torch.cat([EVERYONE, EVERYONE[5:12]])
    agree(feed(make_evaluator(), rows).compute(), oracle(rows.tolist()))
    agree(feed(make_evaluator(repeated_users="drop"), rows).compute(), oracle(range(USERS)))


def test_states_merge_and_travel(tmp_path):
    first, second = feed(make_evaluator(), EVERYONE[:17]), feed(make_evaluator(), EVERYONE[17:])
    weft.save_state(first, tmp_path / "first")
    weft.save_state(second, tmp_path / "second")
    first.merge(second)
    agree(first.compute(), oracle(range(USERS)))
    merged = weft.merge_states([tmp_path / "first", tmp_path / "second"])
    agree(merged, oracle(range(USERS)))


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))])
def test_copies_go_on(duplicate):
    half = duplicate(feed(make_evaluator(bootstrap=5), EVERYONE[:17]))
    agree(feed(half, EVERYONE[17:]).compute(), oracle(range(USERS)))
    alone = TopItemShare(6, num_items=ITEMS)
    alone.update(SCORES[:17], RATINGS[:17])
    alone = duplicate(alone)
    alone.update(SCORES[17:], RATINGS[17:])
    assert float(alone.compute()) == pytest.approx(oracle(range(USERS))["TopItemShare@6"])


def test_intervals_are_those_of_built_in_metrics():
    class OwnCoverage(weft.SummedTopKMetric):
        def __init__(self, k, *, num_items, **settings):
            super().__init__(k, **settings)
            self.lists = ItemSums(num_items, lambda lists: lists.items >= 0)

        def compute_value(self, sums):
            return (sums[self.lists] > 0).sum()

    class OwnPrecision(weft.SummedTopKMetric):
        def __init__(self, k, **settings):
            super().__init__(k, **settings)
            self.hits = UserSum(lambda lists: lists.hits)
            self.users = UserSum(lambda lists: lists.num_relevant > 0)

        def compute_value(self, sums):
            return sums[self.hits] / self.k / sums[self.users]

    metrics = [OwnCoverage, OwnPrecision, "ItemCoverage", "Precision", *NAMES]
    result = feed(make_evaluator(metrics, bootstrap=60)).compute()
    for k in CUTOFFS:
        for own, built_in in (("OwnCoverage", "ItemCoverage"), ("OwnPrecision", "Precision")):
            mine, theirs = result.entry(f"{own}@{k}"), result.entry(f"{built_in}@{k}")
            for field in ("value", "boot_low", "boot_high", "boot_std_error"):
                assert getattr(mine, field) == pytest.approx(getattr(theirs, field), rel=1e-12)
    # All items are covered, and no first hit of two positions is the fourth, in any resample.
    constant = {value.name for value in result.entries if not value.boot_low < value.boot_high}
    assert constant == {"OwnCoverage@6", "ItemCoverage@6", "FirstHits@2[later]"}


def test_slices_are_of_the_metrics_with_a_value_per_user():
    labels = ["a", "b"] * (USERS // 2)
    result = feed(make_evaluator([*NAMES, "Recall"], slices={"half": labels})).compute()
    assert set(result.slices["metric"]) == {"Recall"}
    agree(feed(make_evaluator(slices={"half": labels})).compute(), oracle(range(USERS)))


def test_partitions_agree():
    _, lists, truth = local_engine.make_lists(np.random.default_rng(4), 30, 20)
    groups = pl.DataFrame({"user": range(36), "label": ["a", "b", "c"] * 12})
    options = {
        "metrics": [*NAMES, "Recall"],
        "top_k": [2, 5],
        "user_groups": groups,
        "bootstrap": 10,
    }
    expected = weft.evaluate(lists, truth, **options)
    local_engine.assert_same(local_engine.evaluate(lists, truth, **options), expected)


def work(rank, number):
    for metric in METRICS:
        weft.register(metric)
    own = EVERYONE[rank::number]
    return feed(make_evaluator(), own).compute()


@pytest.mark.slow
def test_processes_agree():
    for found in run_in_processes(2, work):
        assert found == pytest.approx(oracle(range(USERS)), rel=1e-12)


class TierRevenue(weft.SummedTopKMetric):
    """The share of each tier of users in the prices of all hits."""

    needs = {"tier": weft.UserLabels(), "price": weft.ItemNumbers(missing=0.0)}

    def __init__(self, k, **settings):
        super().__init__(k, **settings)
        self.revenue = GroupSums(self.inputs["tier"], self.add_prices)

    def add_prices(self, lists):
        return lists.sum_positions(lists.is_hit * self.inputs["price"].lookup(lists.items))

    def compute_value(self, sums):
        return dict(zip(self.revenue.labels, sums[self.revenue] / sums[self.revenue].sum()))


def test_accumulators_read_side_data():
    weft.register(TierRevenue)
    result = weft.evaluate(
        {"ann": ["tea", "milk"], "bob": ["milk", "rye"]},
        {"ann": ["tea", "milk"], "bob": ["rye"]},
        metrics=["TierRevenue"],
        top_k=[1, 2],
        inputs={
            "price": {"tea": 4.0, "milk": 1.0, "rye": 2.0},
            "tier": {"ann": "gold", "bob": "blue"},
        },
    )
    assert dict(result) == pytest.approx(
        {
            "TierRevenue@1[blue]": 0.0,
            "TierRevenue@1[gold]": 1.0,
            "TierRevenue@2[blue]": 2 / 7,
            "TierRevenue@2[gold]": 5 / 7,
        }
    )


def test_composites_combine_sums():
    product = MicroRecall(k=2) * RelevantSpread()
    result = feed(make_evaluator([product])).compute()
    expected = oracle(range(USERS))
    (value,) = dict(result).values()
    assert value == pytest.approx(expected["MicroRecall@2"] * expected["RelevantSpread"])


def test_catalogues_of_another_size_are_refused():
    metric = TopItemShare(2, num_items=ITEMS - 1)
    with pytest.raises(InputError, match=r"preds has 15 items, but TopItemShare was made for 14"):
        metric.update(SCORES, RATINGS)


def test_custom_modules_of_a_configuration(tmp_path):
    from weft.config import from_mapping, run

    (tmp_path / "own.py").write_text(
        "import weft\n"
        "@weft.register\n"
        "class HitsPerPosition(weft.SummedTopKMetric):\n"
        "    def __init__(self, k, **settings):\n"
        "        super().__init__(k, **settings)\n"
        "        self.hits = weft.UserSum(self.count_hits)\n"
        "        self.all = weft.UserSum(self.count_all)\n"
        "    def count_hits(self, lists):\n"
        "        return lists.hits\n"
        "    def count_all(self, lists):\n"
        "        return lists.lengths\n"
        "    def compute_value(self, sums):\n"
        "        return sums[self.hits] / sums[self.all]\n"
    )
    (tmp_path / "lists.csv").write_text("user,item,score\nu,a,2\nu,b,1\nv,a,1\n")
    (tmp_path / "truth.csv").write_text("user,item\nu,a\nv,c\n")
    configuration = {
        "data": {"truth": "truth.csv"},
        "models": {"mine": "lists.csv"},
        "evaluation": {"metrics": "HitsPerPosition", "top_k": [1, 2], "custom_modules": "own.py"},
    }
    (result,) = run.run(from_mapping(configuration, folder=tmp_path))
    assert dict(result) == {"HitsPerPosition@1": 1 / 2, "HitsPerPosition@2": 1 / 3}


# --------------------------------------------------------------------------------------------------
# What the functions see, and how often they are called


class Seen(weft.SummedTopKMetric):
    """Records what its function was given."""

    def __init__(self, k, **settings):
        super().__init__(k, **settings)
        self.users = UserSum(self.look)

    def look(self, lists):
        assert lists.cutoffs == (self.k,) and lists.k.tolist() == [self.k]
        self.given.append(lists)
        return torch.ones(len(lists))

    def compute_value(self, sums):
        return sums[self.users] * self.k


def check_lists(lists):
    """Compare the lists of the first nine users at the cut-off 4 with plain Python."""
    expected = []
    for user in range(9):
        scores, ratings = SCORES[user].tolist(), RATINGS[user].tolist()
        offered = [item for item in range(ITEMS) if scores[item] > -math.inf]
        ranked = sorted(offered, key=lambda item: -scores[item])[:4]
        rows = [(item, scores[item], ratings[item]) for item in ranked]
        expected.append(rows + [(-1, -math.inf, 0.0)] * (4 - len(rows)))
    assert lists.users.tolist() == list(range(9)) and len(lists) == 9
    assert lists.items.tolist() == [[item for item, _, _ in row] for row in expected]
    assert lists.scores.tolist() == [[score for _, score, _ in row] for row in expected]
    assert lists.is_hit.tolist() == [[rating > 0 for _, _, rating in row] for row in expected]
    assert lists.gains.tolist() == [[2**rating - 1 for _, _, rating in row] for row in expected]
    assert lists.lengths.tolist() == [[sum(one[0] >= 0 for one in row)] for row in expected]
    assert lists.hits.tolist() == [[sum(one[2] > 0 for one in row)] for row in expected]
    first = [[p for p, one in enumerate(row, 1) if one[2] > 0][:1] or [0] for row in expected]
    assert lists.first_hit.nan_to_num(0).tolist() == first
    assert lists.positions.tolist() == [1, 2, 3, 4]
    discounts = [1 / math.log2(position + 1) for position in range(1, 5)]
    assert lists.discounts.tolist() == pytest.approx(discounts)
    assert lists.num_relevant.tolist() == (RATINGS[:9] > 0).sum(1, keepdim=True).tolist()
    assert lists.sum_positions(lists.is_hit * lists.positions).shape == (9, 1)


def test_lists_are_the_documented_copies(monkeypatch):
    seen = []

    def look(self, lists):
        assert isinstance(lists, RankedLists)
        check_lists(lists)
        seen.append(lists)
        for tensor in (lists.items, lists.scores, lists.users, lists.k, lists.num_relevant):
            tensor.fill_(1)
        return torch.ones(len(lists))

    monkeypatch.setattr(Seen, "look", look)
    result = feed(make_evaluator([Seen, "nDCG@4", "nDCG@9"], top_k=[4]), EVERYONE[:9]).compute()
    expected = feed(make_evaluator(["nDCG@4", "nDCG@9"], top_k=[4]), EVERYONE[:9]).compute()
    assert len(seen) == 1
    for name in expected:
        assert result[name] == expected[name]


def test_each_cut_off_has_its_own_object(monkeypatch):
    monkeypatch.setattr(Seen, "given", [], raising=False)
    result = feed(make_evaluator([Seen], top_k=[9, 2, 30])).compute()
    assert dict(result) == {f"Seen@{k}": USERS * k for k in (9, 2, 30)}


def test_cut_offs_are_computed_at_once_on_request():
    class AtOnce(MicroRecall):
        supports_all_cutoffs = True
        calls = 0

        def count_hits(self, lists):
            type(self).calls += 1
            assert lists.items.shape[1] == lists.cutoffs[-1]
            return lists.hits

    result = feed(make_evaluator([AtOnce, MicroRecall]), batch=USERS).compute()
    for k in CUTOFFS:
        assert result[f"AtOnce@{k}"] == result[f"MicroRecall@{k}"]
    assert AtOnce.calls == 1


def count_hits(lists):
    count_hits.calls += 1
    return lists.hits


def test_equal_accumulators_are_computed_once():
    class First(weft.SummedTopKMetric):
        def __init__(self, k, **settings):
            super().__init__(k, **settings)
            self.hits = UserSum(count_hits)

        def compute_value(self, sums):
            return sums[self.hits]

    class Second(First):
        def compute_value(self, sums):
            return -sums[UserSum(count_hits)]

    count_hits.calls = 0
    evaluator = feed(make_evaluator([First, Second]), batch=USERS)
    assert count_hits.calls == 1
    result = evaluator.compute()
    for k in CUTOFFS:
        assert result[f"First@{k}"] == -result[f"Second@{k}"] > 0
    shared = make_evaluator(["ItemCoverage", Exposed])
    assert sum(isinstance(one, ItemExposure) for one in shared.metric_set.layout.cutoffs) == 1


class Exposed(weft.SummedTopKMetric):
    """The share of items in a list among those that are relevant for someone."""

    def __init__(self, k, *, num_items, **settings):
        super().__init__(k, **settings)
        self.exposure, self.relevance = ItemExposure(num_items), ItemRelevance(num_items)

    def compute_value(self, sums):
        is_relevant = sums[self.relevance] > 0
        return (sums[self.exposure][is_relevant] > 0).double().mean()


def test_accumulators_of_built_in_metrics():
    result = feed(make_evaluator([Exposed], top_k=[2])).compute()
    relevant = set((RATINGS > 0).nonzero()[:, 1].tolist())
    listed = set()
    for row in SCORES.tolist():
        ranked = sorted((item for item in range(ITEMS) if row[item] > -9), key=lambda i: -row[i])
        listed |= set(ranked[:2])
    assert result["Exposed@2"] == len(listed & relevant) / len(relevant)


def test_nan_adds_nothing():
    class Picky(weft.SummedTopKMetric):
        def __init__(self, k, *, num_items, user_groups, **settings):
            super().__init__(k, **settings)
            self.total, self.groups = UserSum(self.pick), GroupSums(user_groups, self.pick)
            self.bins = Histogram([0, 5, 10], self.pick)
            self.by_item = ItemSums(num_items, self.pick_positions)

        def pick(self, lists):
            return torch.where(lists.users[:, None] < 12, lists.users[:, None].double(), torch.nan)

        def pick_positions(self, lists):
            return torch.where(lists.positions > 1, torch.nan, 1).expand(lists.items.shape)

        def compute_value(self, sums):
            low, high = sums[self.bins]
            return {
                "sum": sums[self.total],
                "young": dict(zip(self.groups.labels, sums[self.groups]))["young"],
                "below 5": low,
                "from 5": high,
                "items": sums[self.by_item].sum(),
            }

    result = feed(make_evaluator([Picky], top_k=[3])).compute()
    expected = {
        "sum": sum(range(12)),
        "young": sum(user for user in range(12) if GROUPS[user] == "young"),
        "below 5": 5,
        "from 5": 5,
        "items": int((SCORES.amax(1) > -torch.inf).sum()),
    }
    assert dict(result) == {f"Picky@3[{name}]": value for name, value in expected.items()}


# --------------------------------------------------------------------------------------------------
# Mistakes


def define(**body):
    body = {"compute_value": lambda self, sums: 1.0, **body}
    return type("Mistaken", (weft.SummedTopKMetric,), body)


def declare(**accumulators):
    def constructor(self, k, **settings):
        weft.SummedTopKMetric.__init__(self, k, **settings)
        for name, accumulator in accumulators.items():
            setattr(self, name, accumulator)

    return constructor


MISTAKES = {
    "no accumulator": (lambda: define(), "Mistaken has no accumulator; set at least one"),
    "no formula": (
        lambda: type(
            "Mistaken",
            (weft.SummedTopKMetric,),
            {"__init__": declare(hits=UserSum(lambda lists: lists.hits))},
        ),
        r"Mistaken must define compute_value\(self, sums\)",
    ),
    "undeclared": (
        lambda: define(
            __init__=declare(hits=UserSum(lambda lists: lists.hits)),
            compute_value=lambda self, sums: sums["hits"],
        ),
        "reads the sums of 'hits', which it does not declare",
    ),
    "by position": (
        lambda: define(__init__=declare(hits=UserSum(lambda lists: lists.is_hit))),
        r"returned a tensor of shape \[40, 3\]; expected \[batch, cut-offs\], here \[40, 1\]",
    ),
    "by user": (
        lambda: define(__init__=declare(hits=ItemSums(ITEMS, lambda lists: lists.hits))),
        r"shape \[40, 1\]; expected \[batch, n\], a value per position, here \[40, 3\]",
    ),
    "no tensor": (
        lambda: define(__init__=declare(hits=UserSum(lambda lists: 3))),
        "returned an int; expected a tensor",
    ),
    "no function": (lambda: UserSum("hits"), "UserSum got 'hits'; expected a method"),
    "no number": (lambda: ItemSums("hits", len), "ItemSums got num_items"),
    "no edges": (
        lambda: Histogram([3], len),
        r"edges=\[3\]; expected at least two numbers in ascending order",
    ),
    "descending": (
        lambda: Histogram([1, 3, 2], len),
        "expected at least two numbers in ascending order",
    ),
    "two values": (
        lambda: define(
            __init__=declare(hits=ItemSums(ITEMS, lambda lists: lists.is_hit)),
            compute_value=lambda self, sums: sums[self.hits],
        ),
        r"Mistaken.compute_value returned a tensor of shape \[15\]; expected one number, or a dict",
    ),
}


@pytest.mark.parametrize(("make", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_named(make, message):
    with pytest.raises(SettingError, match=message):
        feed(make_evaluator([make()], top_k=[3]), batch=USERS).compute()


def test_lists_need_a_cut_off():
    class WithoutCutoff(weft.SummedMetric):
        def __init__(self, **settings):
            super().__init__(**settings)
            self.hits = UserSum(lambda lists: lists.hits)

        def compute_value(self, sums):
            return sums[self.hits]

    for metrics in ([WithoutCutoff], [WithoutCutoff, "Recall@3"]):
        with pytest.raises(SettingError, match=r"has no lists; .*weft.SummedTopKMetric"):
            feed(make_evaluator(metrics))


def test_users_beyond_the_groups_are_refused():
    metric = GroupPrecision(2, user_groups=GROUPS[:10])
    with pytest.raises(InputError, match="user_indices contains 10; expected rows of the groups"):
        metric.update(SCORES, RATINGS)

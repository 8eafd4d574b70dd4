"""Evaluation on Ray with two CPUs matches one process, from files, frames and models."""

import os
import re
import signal
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import polars as pl
import polars.testing
import pytest
import torch

import weft
from engines import check_custom_metrics, require_ray
from local_engine import assert_same, make_lists
from metric_cases import BUILT_IN, BY_POSITION, has_trait, make_labels
from test_partitioned import WITH_EMPTY_ROWS, WITH_EMPTY_TRAIN
from weft.engines import ray as on_ray
from weft.engines.partitioned.user_ranges import split_into_ranges
from weft.errors import EngineError, InputError, InputWarning, MissingExtra, SettingError

USERS, ITEMS = 90, 40
generator = np.random.default_rng(99)
SCORES, LISTS, TRUTH = make_lists(generator, USERS, ITEMS)
SCORES = torch.from_numpy(SCORES)
# So that users are split over files.
LISTS, TRUTH = (frame.sample(fraction=1, shuffle=True, seed=2) for frame in (LISTS, TRUTH))
TRAIN = pl.DataFrame(
    [
        (user, int(item))
        for user in range(USERS)
        for item in generator.choice(ITEMS - 5, 1 + user % 7)
    ],  # may repeat
    schema=["user", "item"],
    orient="row",
)
MORE_TRAIN = TRAIN.vstack(
    pl.DataFrame({"user": [900, 900, 901], "item": [1, 2, 3]})
)  # of users who are not evaluated
GROUPS = pl.DataFrame(
    [(user, group) for user, group in enumerate(make_labels(USERS, ITEMS)["user_groups"])],
    schema=["user", "group"],
    orient="row",
)
CLUSTERS = dict(enumerate(make_labels(USERS, ITEMS)["item_clusters"]))
FEATURES = dict(enumerate(make_labels(USERS, ITEMS)["item_features"]))
AGES = pl.DataFrame({"user": range(USERS), "age": [float(user % 17) / 2 for user in range(USERS)]})
OF_LISTS = [name for name in BUILT_IN if not has_trait(name, "needs_all_scores")]

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def _running():
    require_ray()
    import ray

    # Workers find the modules of the tests, as they find those of a user who works in a folder.
    folders = os.pathsep.join(
        [
            str(Path(weft.__file__).parents[1]),
            str(Path(__file__).parent),
            os.environ.get("PYTHONPATH", ""),
        ]
    )
    ray.init(
        "local",  # not a cluster of another test on this machine
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        logging_level="ERROR",
        runtime_env={"env_vars": {"PYTHONPATH": folders}},
    )
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The tables as Parquet: lists and truth in several files, with several row groups."""
    folder = tmp_path_factory.mktemp("tables")
    written = {
        "lists": _write(folder / "lists", LISTS, 4),
        "truth": _write(folder / "truth", TRUTH, 3),
        "train": folder / "train.parquet",
        "groups": folder / "groups.parquet",
        "ages": folder / "ages.parquet",
        "candidates": folder / "candidates.parquet",
    }
    MORE_TRAIN.write_parquet(written["train"], row_group_size=50)
    GROUPS.write_parquet(written["groups"])
    AGES.write_parquet(written["ages"])
    LISTS.select("user", "item").vstack(TRAIN).write_parquet(written["candidates"])
    return {name: str(path) for name, path in written.items()}


def _write(folder, table, number):
    folder.mkdir()
    step = -(-len(table) // number)
    for part in range(number):
        table.slice(part * step, step).write_parquet(
            folder / f"part-{part}.parquet", row_group_size=60
        )
    return folder


def both(source, truth, parts=None, **settings):
    """Ray and one process agree."""
    result = on_ray.evaluate(source, truth, parts=parts, **settings)
    assert_same(result, weft.evaluate(source, truth, **settings))
    return result


# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [9, 0])  # read by ranges of users, or split
def test_files_of_lists_match_one_process(files, monkeypatch, limit):
    monkeypatch.setattr("weft.engines.partitioned.user_ranges._MAX_REPETITION", limit)
    ranges = []
    monkeypatch.setattr(
        "weft.engines.ray.ray_job.split_into_ranges",
        lambda *inputs: ranges.append(split_into_ranges(*inputs)) or ranges[0],
    )
    result = both(
        files["lists"],
        files["truth"],
        3,
        metrics=OF_LISTS,
        top_k=[3, 8],
        train=files["train"],
        user_groups=files["groups"],
        item_clusters=CLUSTERS,
        item_features=FEATURES,
        slices={
            "groups": files["groups"],
            "age": {"of": files["ages"], "by": "quantiles(3)"},
            "activity": "bins(2, 5)",
        },
        per_user=True,
        exposure=True,
        bootstrap=20,
    )
    assert result.provenance["engine"] == "Ray" and result.provenance["parts"] == 3
    assert (ranges == [None]) == (limit == 0)


@pytest.mark.parametrize(
    "settings",
    [
        {"strategy": "sampled", "num_negatives": 7},
        {"candidates": "candidates"},
        {"train": "train", "mask_seen": True, "missing_lists": "skip", "relevance_threshold": 2},
    ],
)
def test_candidates_match_one_process(files, settings):
    settings = {
        name: files.get(value, value) if isinstance(value, str) else value
        for name, value in settings.items()
    }
    both(
        files["lists"],
        files["truth"],
        2,
        metrics=["nDCG", "Recall", "ItemCoverage"],
        top_k=5,
        **settings,
    )


@pytest.mark.parametrize("order", ["rank", "rows"])
def test_lists_with_ranks_or_in_row_order(tmp_path, monkeypatch, order):
    monkeypatch.setattr("weft.engines.ray.ray_job._ROWS_READ", 100)  # several tasks read a file
    monkeypatch.setattr("weft.engines.ray.ray_job._MIN_ROWS", 30)
    ranked = LISTS.with_columns(rank=pl.col("score").rank("ordinal", descending=True).over("user"))
    ranked = (
        ranked.select("user", "item", "rank")
        if order == "rank"
        else ranked.sort("rank", "item").select("user", "item")
    )
    folder = _write(tmp_path / "lists", ranked, 3)
    both(folder, TRUTH, 4, metrics=["nDCG", "MRR", "Gini"], top_k=[2, 5], ties="random")


def test_more_partitions_than_users():
    few = LISTS.filter(pl.col("user") < 12)
    both(
        few,
        TRUTH.filter(pl.col("user") < 9),
        30,
        metrics=["nDCG", "Gini"],
        top_k=3,
        train=MORE_TRAIN,
        per_user=True,
    )


def test_users_without_items_in_train_do_not_count():
    both(*WITH_EMPTY_ROWS, 3, metrics=OF_LISTS, top_k=[2, 4], **WITH_EMPTY_TRAIN)


def test_text_ids_named_columns_and_skewed_users(tmp_path):
    names = {"user": "visitor_no", "item": "sku", "score": "points"}
    most = pl.DataFrame(
        {"user": [5] * ITEMS, "item": range(ITEMS), "score": generator.normal(size=ITEMS)}
    )
    lists = pl.concat([LISTS.filter((pl.col("user") % 9 == 0) & (pl.col("user") != 5)), most])
    as_text = [pl.format("user {}", "user").alias("user"), pl.format("é{}", "item").alias("item")]
    lists.with_columns(as_text).rename(names).with_columns(other=1).write_parquet(
        tmp_path / "lists.parquet"
    )
    truth = TRUTH.with_columns(as_text)
    source = weft.File(
        tmp_path / "lists.parquet", columns={"user": "visitor_no", "score": "points"}
    )
    both(source, truth, 3, metrics=["nDCG", "Recall"], top_k=4, per_user=True)
    # Whole numbers that are to be strings.
    TRUTH.write_parquet(tmp_path / "truth.parquet")
    as_strings = weft.File(tmp_path / "truth.parquet", ids="string")
    text_lists = LISTS.with_columns(pl.col("user", "item").cast(pl.String))
    both(text_lists, as_strings, 2, metrics=["nDCG"], top_k=4)


def test_progress_counts_partitions(files, monkeypatch):
    shown = []

    @contextmanager
    def record(description, *, is_enabled):
        yield lambda *counts: shown.append((is_enabled, *counts))

    monkeypatch.setattr("weft.engines.ray.ray_partitions.progress_bar", record)
    on_ray.evaluate(files["lists"], files["truth"], parts=3, progress=True, metrics="nDCG@3")
    assert shown[-3:] == [(True, number, 3) for number in (1, 2, 3)]
    on_ray.evaluate(scores_of, TRUTH, parts=2, metrics="nDCG@3", items="positions")
    assert shown[-2:] == [(False, 1, 2), (False, 2, 2)]


def test_reads_urls_and_patterns(files):
    expected = weft.evaluate(files["lists"], files["truth"], metrics="nDCG@3")["nDCG@3"]
    for source, truth in (
        (f"file://{files['lists']}/", f"file://{files['truth']}/part-*.parquet"),
        (f"{files['lists']}/part-*", weft.File(f"file://{files['truth']}/", columns={"user": 0})),
    ):
        assert on_ray.evaluate(source, truth, metrics="nDCG@3")["nDCG@3"] == pytest.approx(
            expected, abs=1e-12
        )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray's own, of its own settings
def test_reads_ray_datasets(files):
    data = pytest.importorskip("ray.data")
    data.DataContext.get_current().enable_progress_bars = False
    lists, truth = (
        data.read_parquet(files["lists"]),
        data.from_arrow([TRUTH[:100].to_arrow(), TRUTH[100:].to_arrow()]),
    )
    items = data.from_items([{"item": item} for item in range(ITEMS)])
    settings = {"metrics": ["nDCG", "Gini"], "top_k": 3, "bootstrap": 10}
    result = on_ray.evaluate(lists, truth, items=items, name="lists", **settings)
    assert_same(result, weft.evaluate(LISTS, TRUTH, items=range(ITEMS), name="lists", **settings))
    with pytest.raises(
        InputError, match=r"source \(a Ray Dataset\) has the columns .* without scores or ranks"
    ):
        on_ray.evaluate(lists.drop_columns(["score"]), truth, **settings)


# --------------------------------------------------------------------------------------------------


def scores_of(users):
    return SCORES[users]


class Loaded:
    """A model that loads itself. Where `mark` names a file that is not there yet, the first who is
    asked dies.
    """

    def __init__(self, mark=None):
        self.scores, self.mark = SCORES.clone(), mark or getattr(type(self), "mark", None)

    def score(self, users, items=None):
        _die_once(self.mark)
        return self.scores[users] if items is None else self.scores[users].gather(1, items)


def _die_once(mark):
    if mark is not None and not Path(mark).exists():
        Path(mark).touch()
        os.kill(os.getpid(), signal.SIGKILL)


class Silent:
    pass


def test_factors_match_one_process():
    pair = weft.Factors(
        generator.normal(size=(USERS + 6, 4)).astype(np.float32),
        generator.normal(size=(ITEMS, 4)),
        user_biases=np.arange(USERS + 6) / 50,
        item_biases=np.arange(ITEMS) / 20,
    )
    settings = {"metrics": ["nDCG", "Gini"], "top_k": 3, "per_user": True}
    both(pair, TRUTH, 3, train=TRAIN, **BY_POSITION, **settings)
    for given in ({}, {"train": TRAIN}):
        errors = []
        for evaluate in (on_ray.evaluate, weft.evaluate):
            with pytest.raises(InputError) as caught:
                evaluate(pair, TRUTH, **given, **settings)
            errors.append(str(caught.value))
        assert errors[0] == errors[1] and "users='positions', items='positions'" in errors[0]
    with pytest.warns(InputWarning) as warned:
        both(pair, {1: [2], 5: [0]}, 2, **settings)
    texts = [str(one.message) for one in warned]
    assert texts[0] == texts[1] and texts[0].startswith("no user of truth has the id 0")
    names = [f"user {number}" for number in range(USERS + 6)]
    truth = TRUTH.with_columns(pl.format("user {}", "user").alias("user"), pl.col("item") + 100)
    both(pair, truth, 200, users=names, items=range(100, 100 + ITEMS), **settings)
    with pytest.raises(InputError, match=r"users= has 2 ids, but the scores have 96 rows"):
        on_ray.evaluate(pair, TRUTH, users=[1, 2], metrics="nDCG@3")
    with pytest.raises(
        InputError,
        match=r"^truth has the user 500, but the rows of the scores are numbered 0 to 95",
    ):
        on_ray.evaluate(pair, {1: [2], 500: [3]}, metrics="nDCG@3")
    with pytest.raises(
        InputError,
        match=r"^truth has strings .* without users= ids are row numbers of the scores, 0 to 95",
    ):
        on_ray.evaluate(pair, truth, metrics="nDCG@3")


# --------------------------------------------------------------------------------------------------


def test_failed_workers_are_replaced_and_users_count_once(files, tmp_path):
    mark = tmp_path / "died"

    class HitsOfMortals(weft.UserAverageTopKMetric):
        """Hits; the first worker that computes it is killed."""

        def compute_scores(self, preds, target, top_k_rel, **kwargs):
            _die_once(mark)
            return top_k_rel.sum(dim=1)

    settings = {"metrics": [HitsOfMortals(k=3), "nDCG@3"], "per_user": True}
    result = on_ray.evaluate(files["lists"], files["truth"], parts=3, **settings)
    assert mark.exists()
    assert_same(result, weft.evaluate(files["lists"], files["truth"], **settings))


def test_errors_match_one_process(files, tmp_path):
    bad = LISTS.with_columns(
        pl.when(pl.col("user") == 7).then(float("nan")).otherwise("score").alias("score")
    )
    bad.write_parquet(tmp_path / "bad.parquet")
    with pytest.raises(
        InputError,
        match=(
            r"bad.parquet\) has scores that are not finite numbers:\n  .*user 7, item \d+, score "
            r"nan"
        ),
    ):
        on_ray.evaluate(tmp_path / "bad.parquet", TRUTH, parts=2, metrics="nDCG@3")
    pl.concat([LISTS, LISTS.filter(pl.col("user") == 8).head(1)]).write_parquet(
        tmp_path / "twice.parquet"
    )
    with pytest.raises(InputError, match=r"(?s)the same item twice in a list:\n  .*user 8,"):
        on_ray.evaluate(tmp_path / "twice.parquet", TRUTH, parts=2, metrics="nDCG@3")
    LISTS.with_columns(pl.col("user").cast(pl.String)).write_parquet(tmp_path / "text.parquet")
    here = _message(
        lambda: weft.evaluate(tmp_path / "text.parquet", files["truth"], metrics="nDCG@3")
    )
    there = _message(
        lambda: on_ray.evaluate(tmp_path / "text.parquet", files["truth"], metrics="nDCG@3")
    )
    assert (
        "Convert one of them: 1 and '1' are different ids" in here
        and "Convert one of them: 1 and '1' are different ids" in there
    )
    mixed = tmp_path / "mixed"
    _write(mixed, LISTS, 2)
    (tmp_path / "text.parquet").rename(mixed / "part-2.parquet")
    here = _message(lambda: weft.evaluate(mixed, TRUTH, metrics="nDCG@3"))
    assert here == _message(lambda: on_ray.evaluate(mixed, TRUTH, metrics="nDCG@3"))
    LISTS.with_columns(pl.col("user").cast(pl.Float64)).write_parquet(tmp_path / "floats.parquet")
    assert "has the type Float64; user ids are integers or strings" in _message(
        lambda: on_ray.evaluate(tmp_path / "floats.parquet", TRUTH, metrics="nDCG@3")
    )
    LISTS.with_columns(pl.when(pl.col("user") != 7).then("user").alias("user")).write_parquet(
        tmp_path / "nobody.parquet"
    )
    assert "nobody.parquet, row" in _message(
        lambda: on_ray.evaluate(tmp_path / "nobody.parquet", TRUTH, metrics="nDCG@3")
    )
    LISTS.head(0).write_parquet(tmp_path / "empty.parquet")
    assert "empty.parquet) has no rows" in _message(
        lambda: on_ray.evaluate(tmp_path / "empty.parquet", TRUTH, metrics="nDCG@3")
    )
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and nothing else")
    assert "cannot be read as Parquet" in _message(
        lambda: on_ray.evaluate(tmp_path / "broken.parquet", TRUTH, metrics="nDCG@3")
    )
    assert "there is no such file" in _message(
        lambda: on_ray.evaluate(tmp_path / "none.parquet", TRUTH, metrics="nDCG@3")
    )
    assert "cannot be read as Parquet" in _message(
        lambda: on_ray.evaluate("file:///no/such/folder/", TRUTH, metrics="nDCG@3")
    )


def _message(call):
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def test_rejects_unsupported_settings():
    with pytest.raises(SettingError, match="checkpoint= is supported only in one process"):
        on_ray.evaluate(LISTS, TRUTH, metrics="nDCG@3", checkpoint="state")
    with pytest.raises(InputError, match=r"a matrix of scores .* weft\.evaluate"):
        on_ray.evaluate(SCORES, TRUTH, metrics="nDCG@3")
    with pytest.raises(InputError, match="the class Silent has no method 'score'"):
        on_ray.evaluate(Silent, TRUTH, metrics="nDCG@3")
    with pytest.raises(InputError, match="cannot evaluate an int"):
        on_ray.evaluate(3, TRUTH, metrics="nDCG@3")
    with pytest.raises(InputError, match=r"cannot be sent to the workers: .*lock.* as a class"):
        on_ray.evaluate(_locked(), TRUTH, metrics="nDCG@3")
    with pytest.raises(SettingError, match="parts=0; it must be an integer"):
        on_ray.evaluate(LISTS, TRUTH, metrics="nDCG@3", parts=0)
    with pytest.raises(SettingError, match="gpus_per_worker=1, but Ray has 0 GPUs"):
        on_ray.evaluate(scores_of, TRUTH, metrics="nDCG@3", gpus_per_worker=1)
    with pytest.raises(TypeError, match="unexpected keyword argument 'metric'"):
        on_ray.evaluate(LISTS, TRUTH, metrics="nDCG@3", metric="nDCG@3")


def _locked():
    import threading

    lock = threading.Lock()
    return lambda users: lock and SCORES[users]


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://[::1]:1", "nobody.invalid:6379"])
def test_rejects_an_unreachable_address(address, monkeypatch):
    require_ray()
    monkeypatch.setattr(
        "ray.is_initialized", lambda: False
    )  # else it is used, whatever is asked for
    with (
        pytest.raises(EngineError, match=f"Ray cannot be reached at '{re.escape(address)}': "),
        on_ray.cluster(address),
    ):
        pass


def test_reports_a_missing_extra(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'weft\[ray\]'"):
        on_ray.evaluate(LISTS, TRUTH, metrics="nDCG@3")


def test_partitions_stay_on_workers_and_merge(monkeypatch):
    from weft.engines.ray.ray_partitions import RayPartitions, put_pickled

    def whole(numbers):
        return sum(numbers)

    parts = RayPartitions(_unpack, [(put_pickled(number),) for number in range(70)])
    kept = parts.map(_squares)
    assert kept.map_reduce(_length, whole) == 140
    assert kept.map_reduce(_first, whole) == sum(number * number for number in range(70))
    one = kept.map_reduce(_itself, _stacked)
    one += 1  # what comes back can be written to
    with pytest.raises(ZeroDivisionError):
        kept.map_reduce(_fails, whole)
    monkeypatch.setattr("weft.engines.ray.ray_partitions.RETRIES", 0)
    with pytest.raises(EngineError, match="a worker died"):
        RayPartitions(_unpack, [(put_pickled(1),)]).map_reduce(_dies, whole)
    kept.release()


def _unpack(packed):
    return packed.unpack()


def _squares(number):
    return np.array([number * number, 0])


def _length(squares):
    return len(squares)


def _first(squares):
    return int(squares[0])


def _itself(squares):
    return squares


def _stacked(found):
    return np.concatenate(found)


def _fails(squares):
    return 1 // int(squares[1])


def _dies(number):
    os.kill(os.getpid(), signal.SIGKILL)


def test_reading_is_distributed_by_rows():
    from weft.engines.partitioned.parquet_rows import RowReader
    from weft.engines.ray.ray_tables import RayTable

    table = RayTable(
        RowReader("source", {}, frozenset()),
        75,
        files=[("a", 10), ("b", 0), ("c", 5), ("d", 50), ("e", 10)],
    )
    shares = [
        [(span.path, span.start, span.num_rows, span.offset) for span in spans]
        for spans, _ in table.split(20)
    ]
    assert shares == [
        [("a", 0, 10, 0), ("c", 0, 5, 10)],
        [("d", 0, 20, 15)],
        [("d", 20, 20, 35)],
        [("d", 40, 10, 55), ("e", 0, 10, 65)],
    ]
    nothing = RayTable(RowReader("train", {}, frozenset()), 0, files=[("a", 0)])
    assert [len(spans) for spans, _ in nothing.split(20)] == [1]
    blocks = RayTable(RowReader("train", {}, frozenset()), 100, blocks=list("abcdefghij"))
    assert [blocks for _, blocks in blocks.split(30)] == [
        tuple("abc"),
        tuple("def"),
        tuple("ghi"),
        ("j",),
    ]


def test_running_clusters_are_not_stopped():
    import ray

    with on_ray.cluster("auto"):
        pass
    assert ray.is_initialized()


# -------------------------------------- pools of actors: last, since they take the processes of tas


def test_functions_without_items():
    both(
        scores_of,
        TRUTH,
        5,
        metrics=["nDCG", "AUC", "Gini"],
        top_k=[3],
        train=TRAIN,
        items="positions",
        per_user=True,
        bootstrap=10,
    )


def test_failed_actors_are_restarted_and_users_count_once(tmp_path):
    mark = str(tmp_path / "died")
    mortal = type("Mortal", (Loaded,), {"mark": mark})
    settings = {
        "metrics": ["nDCG", "Recall", "ItemCoverage"],
        "top_k": 3,
        "items": range(ITEMS),
        "users": range(USERS + 6),
    }
    result = on_ray.evaluate(
        mortal, TRUTH, workers=2, strategy="sampled", num_negatives=9, **settings
    )
    assert Path(mark).exists()
    assert_same(
        result, weft.evaluate(Loaded(), TRUTH, strategy="sampled", num_negatives=9, **settings)
    )


def test_actors_of_the_caller(tmp_path):
    import ray

    mark = str(tmp_path / "died")
    kind = ray.remote(max_restarts=1, max_task_retries=1)(Loaded)
    settings = {"metrics": ["nDCG"], "top_k": [3], "items": "positions"}
    settings["candidates"] = LISTS.select("user", "item")
    result = on_ray.evaluate([kind.remote(mark)], TRUTH, workers=1, **settings)
    assert_same(result, weft.evaluate(Loaded(), TRUTH, **settings))
    assert Path(mark).exists()
    with pytest.raises(InputError, match="the actor has no method 'score'"):
        on_ray.evaluate(ray.remote(Silent).remote(), TRUTH, metrics="nDCG@3")


def failing(users):
    raise KeyError("the weights of this model are lost")


def test_errors_of_models_are_raised():
    with pytest.raises(KeyError, match=r"^'the weights of this model are lost'$"):
        on_ray.evaluate(failing, TRUTH, workers=1, metrics="nDCG@3")


def test_custom_modules_are_sent_to_the_workers(tmp_path, monkeypatch):
    check_custom_metrics(tmp_path, "ray", monkeypatch)

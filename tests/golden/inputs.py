"""The golden input: made from the embedded data set, and read for the tools."""

import csv
import gzip
import io
from functools import cache
from pathlib import Path

import numpy as np

HERE = Path(__file__).parent
MODELS = ("popularity", "item_knn", "factors")
LISTS = (*MODELS, "short")  # "short": the lists of "factors", some cut and some missing
RELEVANCES = ("binary", "rating", "liked")
CUTOFFS = (1, 5, 10, 50)
DEPTH = 50  # length of the stored lists
LIKED = 4  # lowest rating that is relevant in the cases "liked"
PER_USER_CASE = "item_knn/rating"
PER_USER_LIKED_CASE = "factors/liked"


# ------------------------------------------------------------------------------------------- input


def make_input():
    """Write the input: every tenth user and every fourth item of the embedded data set."""
    import polars as pl
    import scipy.sparse as sparse

    from weft.cli.demo import demo_data, recommenders

    data = demo_data.load()
    all_users, all_items = data.users["user"].to_list(), data.items["item"].to_list()
    row_of = {user: row for row, user in enumerate(all_users)}
    column_of = {item: column for column, item in enumerate(all_items)}
    rows = [row_of[user] for user in data.train["user"]]
    columns = [column_of[item] for item in data.train["item"]]
    shape = (len(all_users), len(all_items))
    matrix = sparse.csr_matrix((np.ones(len(rows), dtype=np.float32), (rows, columns)), shape=shape)

    users, items = all_users[::10], all_items[::4]
    part = pl.col("user").is_in(users) & pl.col("item").is_in(items)
    train, truth = data.train.filter(part), data.test.filter(part)
    predictions = _predict_ratings(data.train, truth)
    _write("train.csv", train.select("user", "item").iter_rows(), "user", "item")
    rated = zip(truth["user"], truth["item"], truth["rating"], predictions)
    _write("truth.csv", rated, "user", "item", "rating", "prediction")
    groups = data.users.filter(pl.col("user").is_in(users)).select("user", "gender")
    _write(
        "users.csv", ((user, gender or "") for user, gender in groups.iter_rows()), "user", "gender"
    )
    genres = data.items.filter(pl.col("item").is_in(items)).select("item", "genres")
    _write(
        "items.csv",
        ((item, "|".join(names)) for item, names in genres.iter_rows()),
        "item",
        "genres",
    )

    user_factors, item_factors = recommenders.factor_model(matrix)
    raw = {
        "popularity": recommenders.popularity(matrix)(np.arange(len(all_users))),
        "item_knn": recommenders.item_knn(matrix) * 4,
        "factors": user_factors @ item_factors.T * 200,
    }
    # Whole numbers are the same in float32 and float64, and make ties.
    scores = {name: np.rint(raw[name].numpy())[::10, ::4].astype(np.int64) for name in MODELS}
    for name in MODELS:
        _write(f"scores_{name}.csv.gz", scores[name].tolist())
    seen = np.zeros((len(users), len(items)), dtype=bool)
    seen[
        [users.index(user) for user in train["user"]], [items.index(item) for item in train["item"]]
    ] = True
    _write("lists.csv.gz", _rank_lists(users, items, scores, seen), "model", "user", "items")


def _predict_ratings(train, truth):
    """Predict the ratings of `truth` as mean + user bias + item bias, with two decimals."""
    import polars as pl

    mean = train["rating"].mean()
    rest = train.with_columns(rest=pl.col("rating") - mean)
    damped = pl.col("rest").sum() / (pl.len() + 5)
    bias = rest.group_by("item").agg(item_bias=damped)
    rest = rest.join(bias, on="item").with_columns(rest=pl.col("rest") - pl.col("item_bias"))
    table = truth.join(
        rest.group_by("user").agg(user_bias=damped), on="user", how="left", maintain_order="left"
    )
    table = table.join(bias, on="item", how="left", maintain_order="left").fill_null(0)
    return (
        table.select((mean + pl.col("user_bias") + pl.col("item_bias")).round(2))
        .to_series()
        .to_list()
    )


def _rank_lists(users, items, scores, seen):
    """Yield the rows of the stored lists: highest score first, equal scores by item id."""
    for model in LISTS:
        matrix = scores["factors" if model == "short" else model]
        for row, user in enumerate(users):
            order = [
                column
                for column in np.argsort(-matrix[row], kind="stable")
                if not seen[row, column]
            ]
            depth = {0: 0, 1: 3}.get(row % 10, DEPTH) if model == "short" else DEPTH
            if depth:
                yield model, user, " ".join(items[column] for column in order[:depth])


def _write(name, rows, *header):
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    if header:
        writer.writerow(header)
    writer.writerows(rows)
    content = text.getvalue().encode()
    (HERE / name).write_bytes(gzip.compress(content, mtime=0) if name.endswith(".gz") else content)


# ------------------------------------------------------------------------------------- reading it


def read_rows(name):
    content = (HERE / name).read_bytes()
    content = gzip.decompress(content) if name.endswith(".gz") else content
    return list(csv.DictReader(io.StringIO(content.decode())))


@cache
def users():
    return [row["user"] for row in read_rows("users.csv")]


@cache
def items():
    return [row["item"] for row in read_rows("items.csv")]


@cache
def genres():
    """`{item: [genre, ...]}`."""
    return {row["item"]: row["genres"].split("|") for row in read_rows("items.csv")}


@cache
def train():
    """Pairs (user, item)."""
    return [(row["user"], row["item"]) for row in read_rows("train.csv")]


@cache
def truth(relevance):
    """`{user: {item: relevance}}`; in "liked" the other rated items are there with relevance 0."""
    value = {
        "binary": lambda rating: 1,
        "rating": int,
        "liked": lambda rating: int(int(rating) >= LIKED),
    }[relevance]
    by_user = {}
    for row in read_rows("truth.csv"):
        by_user.setdefault(row["user"], {})[row["item"]] = value(row["rating"])
    return by_user


@cache
def positives(relevance):
    """`{user: {item: relevance}}`, relevant items only and users who have one."""
    kept = {
        user: {item: value for item, value in rated.items() if value > 0}
        for user, rated in truth(relevance).items()
    }
    return {user: rated for user, rated in kept.items() if rated}


@cache
def predictions():
    """Ratings and predicted ratings of the truth, by user."""
    by_user = {}
    for row in read_rows("truth.csv"):
        by_user.setdefault(row["user"], []).append(
            (row["item"], float(row["rating"]), float(row["prediction"]))
        )
    return by_user


@cache
def lists(model):
    """`{user: [(item, score), ...]}`, best first."""
    matrix = scores("factors" if model == "short" else model)
    rows = {user: row for row, user in enumerate(users())}
    columns = {item: column for column, item in enumerate(items())}
    return {
        each["user"]: [
            (item, matrix[rows[each["user"]], columns[item]]) for item in each["items"].split()
        ]
        for each in read_rows("lists.csv.gz")
        if each["model"] == model
    }


@cache
def scores(model):
    """Scores `[users, items]`, float64; NaN where the item is in the user's train data."""
    text = gzip.decompress((HERE / f"scores_{model}.csv.gz").read_bytes()).decode()
    matrix = np.loadtxt(io.StringIO(text), delimiter=",")
    rows = {user: row for row, user in enumerate(users())}
    columns = {item: column for column, item in enumerate(items())}
    matrix[[rows[user] for user, _ in train()], [columns[item] for _, item in train()]] = np.nan
    return matrix


@cache
def unmasked_lists(model):
    """`{user: [item, ...]}`: the best items by score and then by item id, those of train too."""
    text = gzip.decompress((HERE / f"scores_{model}.csv.gz").read_bytes()).decode()
    order = np.argsort(-np.loadtxt(io.StringIO(text), delimiter=","), axis=1, kind="stable")
    return {user: [items()[column] for column in row[:DEPTH]] for user, row in zip(users(), order)}


@cache
def relevance_matrix(relevance):
    """Relevance values `[users, items]`."""
    matrix = np.zeros((len(users()), len(items())), dtype=np.int64)
    for row, user in enumerate(users()):
        for column, item in enumerate(items()):
            matrix[row, column] = truth(relevance).get(user, {}).get(item, 0)
    return matrix


def rank_scores(matrix):
    """Untied scores in (0, 1) of the same order, equal scores by item id; NaN stays."""
    order = np.argsort(
        np.argsort(-np.nan_to_num(matrix, nan=-np.inf), axis=1, kind="stable"), axis=1
    )
    return np.where(np.isnan(matrix), np.nan, 1 - (order + 1) / 1024)  # exact in float32


def untie(matrix):
    """Scores of the same order without ties, equal ones by item id; exact in float32. NaN stays."""
    return matrix - np.arange(matrix.shape[1]) / 1024


def user_groups():
    """Labels of the groups, and each user's group as a number from 1."""
    labels = [row["gender"] or "withheld" for row in read_rows("users.csv")]
    names = sorted(set(labels))
    return names, [names.index(label) + 1 for label in labels]


def item_clusters():
    """Labels of the clusters (first genres), and each item's cluster as a number from 1."""
    labels = [row["genres"].split("|")[0] for row in read_rows("items.csv")]
    names = sorted(set(labels))
    return names, [names.index(label) + 1 for label in labels]


def candidates(model, relevance, *, tied):
    """Yield each user of the truth with the scores and the relevance of the items not in train."""
    matrix = scores(model) if tied else rank_scores(scores(model))
    for user, row, relevant in zip(users(), matrix, relevance_matrix(relevance)):
        if user in truth(relevance):
            offered = ~np.isnan(row)
            yield user, row[offered], relevant[offered]


def surrogate_scores(model):
    """`{user: {item: score}}` of the lists, with scores that follow the ranks: nothing is tied."""
    return {
        user: {item: 1000.0 - rank for rank, (item, _) in enumerate(ranked)}
        for user, ranked in lists(model).items()
    }


def frame(rows, *columns):
    import pandas as pd

    return pd.DataFrame(list(rows), columns=list(columns))


def list_frame(model, *columns):
    """User, item, untied score and rank as a pandas frame under these column names."""
    return frame(
        (
            (user, item, 1000.0 - rank, rank)
            for user, ranked in lists(model).items()
            for rank, (item, _) in enumerate(ranked, start=1)
        ),
        *columns,
    )


def truth_frame(relevance, *columns):
    """Relevant items as a pandas frame under these names for user, item and relevance."""
    chosen = positives(relevance)
    return frame(
        ((user, item, value) for user, rated in chosen.items() for item, value in rated.items()),
        *columns,
    )


def fill(templates, cutoffs=CUTOFFS):
    return [
        template.replace("{k}", str(k))
        for template in templates
        for k in (cutoffs if "{k}" in template else (0,))
    ]

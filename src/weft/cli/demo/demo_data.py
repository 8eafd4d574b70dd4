"""A synthetic film-rating data set of the size and shape of MovieLens 100K, made within a second.

The rows are the same on every machine. Every draw uses `Generator.random`, 53 bits of the stream of
PCG64, because NumPy may change its samplers of other distributions between versions. Rounding does
not matter: no value that is sorted or compared is within 1e-8 of a tie.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import ndtri  # type: ignore[import-untyped, unused-ignore]

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

SEED = 20_240_607
NUM_USERS = 1_000
NUM_FACTORS = 8
MIN_ACTIVITY, MAX_ACTIVITY = 20, 500

DAY = 86_400
FIRST_SECOND = 1_672_531_200  # 2023-01-01 00:00 UTC
PERIOD = 730 * DAY
FIRST_YEAR, LAST_YEAR = 1950, 2022  # every film is out before the first rating

GENRES = (
    "Drama", "Comedy", "Thriller", "Romance", "Action", "Adventure",
    "Crime", "Science Fiction", "Documentary", "Horror", "Animation", "Musical",
)  # fmt: skip
GENDERS = ("female", "male", "nonbinary")
GENDER_SHARES = (0.44, 0.53, 0.03)
GENDER_WITHHELD = 0.02
AGE_GROUPS = ("under 18", "18-24", "25-34", "35-44", "45-54", "55+")
AGE_SHARES = (0.05, 0.22, 0.32, 0.20, 0.12, 0.09)

TITLE_OPENINGS = (
    "The Last", "A Quiet", "The Second", "Midnight at the", "Letters to the", "Return of the",
    "Waiting for the", "In Defence of the", "Nobody Told the", "The Patient",
    "A Brief History of the", "Beyond the", "The Unlikely", "My Brother's", "Requiem for the",
    "The Glass", "All Quiet at the", "Three Days with the", "The Honest", "A Winter without the",
    "The Borrowed", "Farewell to the", "The Secret Life of the", "Under the", "The Reluctant",
    "Songs from the", "The Trial of the", "Summer of the", "Against the", "The Paper",
    "Once More to the", "A Portrait of the", "The Silence of the", "Notes on the",
)  # fmt: skip
TITLE_SUBJECTS = (
    "Lighthouse", "Weaver", "Cartographer", "Clockmaker", "Archive", "Orchard", "Ferryman",
    "Observatory", "Harbour", "Librarian", "Loom", "Border", "Violinist", "Glacier", "Beekeeper",
    "Senate", "Tide", "Locksmith", "Railway", "Astronomer", "Garden", "Witness", "Translator",
    "Volcano", "Postmaster", "Theorem", "Bridge", "Chess Player", "Desert", "Understudy", "Radio",
    "Gravedigger", "Comet", "Apprentice", "Monsoon", "Stranger", "Bakery", "Submarine", "Auditor",
    "Carnival", "Mountain", "Surgeon", "Printing Press", "River", "Outlier", "Magistrate",
    "Circus", "Atlas", "Piano", "Night Shift",
)  # fmt: skip
NUM_ITEMS = len(TITLE_OPENINGS) * len(TITLE_SUBJECTS)  # 1,700: every title occurs once


@dataclass(frozen=True)
class DemoData:
    """The frames of the demo.

    - `train`, `test`: user ("u0007"), item ("m0312"), rating (1..5), timestamp (seconds), sorted by
      user and time. Each pair of user and item occurs at most once. The last fifth of each user's
      rows is the test set.
    - `users`: user, gender (null if withheld), age_group.
    - `items`: the catalogue: item, title, genres (one to three), year. A few items occur in `test`
      only, a few nowhere.
    """

    train: pl.DataFrame
    test: pl.DataFrame
    users: pl.DataFrame
    items: pl.DataFrame


@cache
def load() -> DemoData:
    """Return the demo data set."""
    generator = np.random.Generator(np.random.PCG64(SEED))
    items, item_genres = _make_items(generator)
    users, taste, activity = _make_users(generator)
    affinity = _make_affinity(generator, taste, item_genres)
    user, item = _draw_interactions(generator, affinity, activity)
    rating = _draw_ratings(generator, affinity, user, item)
    timestamp = _draw_timestamps(generator, activity)

    interactions = pl.DataFrame(
        {
            "user": users["user"][user],
            "item": items["item"][item],
            "rating": rating,
            "timestamp": timestamp,
        }
    )
    in_test = _positions_in_groups(activity) >= np.repeat(activity - activity // 5, activity)
    return DemoData(interactions.filter(~in_test), interactions.filter(in_test), users, items)


def _make_items(generator: np.random.Generator) -> tuple[pl.DataFrame, Floats]:
    """Return the table of items, and their genres as 0/1 `[items, genres]`."""
    genre_weights = np.linspace(1.6, 0.0, len(GENRES))  # drama is common, musicals are rare
    preference = genre_weights + _gumbel(generator, NUM_ITEMS, len(GENRES))
    genre_rank = (-preference).argsort(axis=1).argsort(axis=1)
    genres_per_item = _categories(generator, (0.35, 0.40, 0.25), NUM_ITEMS) + 1
    has_genre = genre_rank < genres_per_item[:, None]

    titles = np.array(
        [f"{opening} {subject}" for opening in TITLE_OPENINGS for subject in TITLE_SUBJECTS]
    )
    age = generator.random(NUM_ITEMS) ** 3 * (LAST_YEAR - FIRST_YEAR)  # most films are recent
    frame = pl.DataFrame(
        {
            "item": [f"m{number:04d}" for number in range(1, NUM_ITEMS + 1)],
            "title": titles[generator.random(NUM_ITEMS).argsort()],
            "genres": [[GENRES[genre] for genre in np.flatnonzero(row)] for row in has_genre],
            "year": LAST_YEAR - age.astype(np.int64),
        }
    )
    return frame, has_genre.astype(np.float64)


def _make_users(generator: np.random.Generator) -> tuple[pl.DataFrame, Floats, Ints]:
    """Return the table of users, taste `[users, genres]` and number of interactions `[users]`.

    Groups differ mildly in both, so that fairness metrics are not zero.
    """
    gender = _categories(generator, GENDER_SHARES, NUM_USERS)
    age_group = _categories(generator, AGE_SHARES, NUM_USERS)
    taste = (
        _normal(generator, NUM_USERS, len(GENRES))
        + 0.4 * _normal(generator, len(GENDERS), len(GENRES))[gender]
        + 0.4 * _normal(generator, len(AGE_GROUPS), len(GENRES))[age_group]
    )
    log_activity = (
        4.05
        + 0.15 * (gender == 1)
        - 0.08 * np.abs(age_group - 2)
        + 0.85 * _normal(generator, NUM_USERS)
    )
    activity = np.minimum(MIN_ACTIVITY + np.exp(log_activity), MAX_ACTIVITY).astype(np.int64)

    withheld = generator.random(NUM_USERS) < GENDER_WITHHELD
    frame = pl.DataFrame(
        {
            "user": [f"u{number:04d}" for number in range(1, NUM_USERS + 1)],
            "gender": [
                None if hide else GENDERS[code] for hide, code in zip(withheld, gender, strict=True)
            ],
            "age_group": [AGE_GROUPS[code] for code in age_group],
        }
    )
    return frame, taste, activity


def _make_affinity(generator: np.random.Generator, taste: Floats, item_genres: Floats) -> Floats:
    """Return the affinity of users to items `[users, items]`, about standard normal.

    One half is explained by genres, the other by latent factors.
    """
    by_genre = taste @ (item_genres / np.sqrt(item_genres.sum(axis=1, keepdims=True))).T
    user_factors = _normal(generator, NUM_USERS, NUM_FACTORS)
    item_factors = _normal(generator, NUM_ITEMS, NUM_FACTORS)
    by_factors = user_factors @ item_factors.T / np.sqrt(NUM_FACTORS)
    return np.asarray((by_genre + by_factors) / np.sqrt(2))


def _draw_interactions(
    generator: np.random.Generator, affinity: Floats, activity: Ints
) -> tuple[Ints, Ints]:
    """Return row and column numbers of the interactions, sorted by user and time.

    The `n` largest of utility + Gumbel noise are a draw of `n` items without replacement with
    weights exp(utility), for all users at once. Popularity is Zipf-Mandelbrot, steep because
    drawing without replacement flattens it.
    """
    popularity_rank = generator.random(NUM_ITEMS).argsort()
    log_popularity = -4 * np.log(popularity_rank + 400)
    utility = log_popularity + 1.15 * affinity + _gumbel(generator, NUM_USERS, NUM_ITEMS)
    user = np.repeat(np.arange(NUM_USERS), activity)
    item = (-utility).argsort(axis=1)[user, _positions_in_groups(activity)]
    # A random order in time: in the order of the draw, all the best items would be train items.
    in_time = np.lexsort((generator.random(len(user)), user))
    return user, item[in_time]


def _draw_ratings(generator: np.random.Generator, affinity: Floats, user: Ints, item: Ints) -> Ints:
    """Return ratings 1..5 of the interactions from affinity, user bias, item bias and noise."""
    user_bias = 0.40 * _normal(generator, NUM_USERS)
    item_bias = 0.45 * _normal(generator, NUM_ITEMS)
    noise = 0.75 * _normal(generator, len(user))
    opinion = 3.05 + 0.5 * affinity[user, item] + user_bias[user] + item_bias[item] + noise
    return np.clip(np.rint(opinion), 1, 5).astype(np.int64)


def _draw_timestamps(generator: np.random.Generator, activity: Ints) -> Ints:
    """Return timestamps in seconds, strictly increasing for each user.

    Sessions have about twenty ratings, with minutes within and days between sessions.
    """
    rows = int(activity.sum())
    pause = 10 - 60 * np.log1p(-generator.random(rows))
    break_between_sessions = -12 * DAY * np.log1p(-generator.random(rows))
    gap = (pause + (generator.random(rows) < 0.05) * break_between_sessions).astype(np.int64)
    elapsed: Ints = np.cumsum(gap)  # over all users; each user's clock starts at their first row
    last_row = np.cumsum(activity) - 1
    first_elapsed = elapsed[last_row + 1 - activity]
    duration = elapsed[last_row] - first_elapsed
    start = FIRST_SECOND + (generator.random(NUM_USERS) * (PERIOD - duration)).astype(np.int64)
    offset: Ints = np.repeat(start - first_elapsed, activity)
    return elapsed + offset


def _positions_in_groups(lengths: Ints) -> Ints:
    """Return positions 0, 1, ... within consecutive groups of these lengths."""
    first = np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.arange(len(first)) - first


def _normal(generator: np.random.Generator, *shape: int) -> Floats:
    return np.asarray(ndtri(generator.random(shape)))


def _gumbel(generator: np.random.Generator, *shape: int) -> Floats:
    return np.asarray(-np.log(-np.log(generator.random(shape))))


def _categories(generator: np.random.Generator, shares: tuple[float, ...], size: int) -> Ints:
    """Return random category numbers with these shares, `[size]`."""
    return np.searchsorted(np.cumsum(shares)[:-1], generator.random(size), side="right").astype(
        np.int64
    )

"""What each user is offered: everything, some items, the candidates given, or relevant items among
sampled negatives.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.batch.input_validation import check_readable_scores
from weft.data import BatchLists, Interactions, Train, Vocabulary, read_interactions
from weft.data.dataset import EvaluationData, ListOrder, build_dataset
from weft.data.devices import float_type
from weft.data.interactions import mixed
from weft.data.readers.files import is_file, read_table
from weft.data.sources import Model, Source
from weft.errors import (
    MissingInput,
    SettingError,
    check_choice,
    check_float,
    check_int,
    check_threshold,
    did_you_mean,
)
from weft.ranking.negative_sampling import NegativeSampler, SampleSizes, is_in_sorted, sorted_union

if TYPE_CHECKING:
    import polars as pl

Numbers = NDArray[np.int64]
CANDIDATES = ("all", "cold", "warm", "listed")
STRATEGIES = ("full", "sampled")
NEGATIVE_SAMPLING = ("uniform", "popularity")
NUM_NEGATIVES = 99
NEG_ALPHA = 0.75
# Users who are drawn for at once.
_USERS = 1024


@dataclass(frozen=True)
class Choice:
    """What can be recommended, as the caller puts it. `pool`: "all", "cold", "warm", "listed", or
    "given" per user.
    """

    strategy: str = "full"
    pool: str = "all"
    given: Any = None
    num_negatives: int | None = None
    negative_sampling: str | None = None
    neg_alpha: float | None = None

    @property
    def is_drawn(self) -> bool:
        """Whether negatives are drawn."""
        return self.num_negatives is not None

    @property
    def is_per_user(self) -> bool:
        """Whether each user has candidates of their own."""
        return self.is_drawn or self.pool == "given"

    @property
    def settings(self) -> dict[str, Any]:
        """What a result says of it."""
        drawn = {
            "num_negatives": self.num_negatives,
            "negative_sampling": self.negative_sampling,
            "neg_alpha": self.neg_alpha,
        }
        return {"strategy": self.strategy, "candidates": self.pool, **drawn}


def read_choice(
    candidates: Any,
    strategy: str,
    num_negatives: int | None,
    negative_sampling: str | None,
    neg_alpha: float | None,
    *,
    has_train: bool,
    has_lists: bool,
) -> Choice:
    """What the caller wants offered; refuses what does not fit together, before any data is read."""
    pool = _pool(candidates)
    given = {
        "num_negatives": num_negatives,
        "negative_sampling": negative_sampling,
        "neg_alpha": neg_alpha,
    }
    if said := [f"{name}={value!r}" for name, value in given.items() if value is not None]:
        if strategy == "full":
            raise SettingError(
                f"{said[0]} is about sampled negatives, but strategy='full' ranks all candidates; "
                "give strategy='sampled', or "
                "leave it out."
            )
        if pool == "given":
            raise SettingError(
                f"{said[0]} is about drawing negatives, but candidates= gives them; leave one of "
                "the two out."
            )
    if pool == "listed" and not has_lists:
        raise SettingError(
            "candidates='listed' is about recommendation lists; scores rank all items, or "
            "candidates= of each user."
        )
    if pool == "listed" and strategy == "sampled":
        raise SettingError(
            "candidates='listed' takes what each list holds for what was offered, so that nothing "
            "is left to draw; leave out "
            "strategy='sampled'."
        )
    if pool in ("cold", "warm") and not has_train:
        raise MissingInput(
            f"candidates={pool!r} needs train=, the interactions that make an item warm."
        )
    if strategy == "full" or pool == "given":
        return Choice(strategy, pool, candidates if pool == "given" else None)
    how = check_choice("negative_sampling", negative_sampling or "uniform", NEGATIVE_SAMPLING)
    if how == "uniform" and neg_alpha is not None:
        raise SettingError(
            f"neg_alpha={neg_alpha!r} is about negative_sampling='popularity', but this is "
            "'uniform'; leave it out."
        )
    if how == "popularity" and not has_train:
        raise MissingInput(
            "negative_sampling='popularity' needs train=, whose interactions are counted."
        )
    number = check_int("num_negatives", NUM_NEGATIVES if num_negatives is None else num_negatives)
    return Choice(
        strategy, pool, None, number, how, check_alpha(neg_alpha) if how == "popularity" else None
    )


def check_alpha(neg_alpha: float | None) -> float:
    """The power of popularity: a number from 0 up."""
    number = check_float(
        "neg_alpha", NEG_ALPHA if neg_alpha is None else neg_alpha, more=" from 0 up"
    )
    if number < 0:
        raise SettingError(f"neg_alpha={neg_alpha!r}; it must be a number from 0 up.")
    return number


def _pool(candidates: Any) -> str:
    """The name of a pool of candidates, or "given"."""
    if candidates is None:
        raise SettingError(
            f"candidates=None is not known. Choose one of {', '.join(map(repr, CANDIDATES))}, or "
            "give items per user."
        )
    if not isinstance(candidates, str):
        return "given"
    for name in CANDIDATES:
        if name == candidates.casefold():
            return name
    if Path(candidates).suffix or Path(candidates).exists():
        return "given"
    raise SettingError(
        f"candidates={candidates!r} is not known, nor is there such a file. Choose one of "
        f"{', '.join(map(repr, CANDIDATES))}, or "
        f"give items per user.{did_you_mean(candidates, CANDIDATES)}"
    )


@dataclass(frozen=True)
class CandidateSet:
    """The candidates of some users, what is masked not among them: cells as places in a flattened
    `[users, items]`, ascending.
    """

    cells: Numbers
    drawn: (
        tuple[Numbers, Numbers] | None
    )  # negatives, and how many there were to draw from, of each user

    def counted(self, device: torch.device) -> SampleSizes | None:
        """How many negatives there are, and how many there were, on a device; None where none were
        drawn.
        """
        return (
            None
            if self.drawn is None
            else SampleSizes(*(torch.as_tensor(part).to(device) for part in self.drawn))
        )

    def rows(self, num_users: int, num_items: int) -> Interactions:
        """The same as rows."""
        users, items = np.divmod(self.cells, max(1, num_items))
        return Interactions.from_codes(users, items, np.ones(len(items)), num_users, num_items)


# What is counted on the way.
COUNTED = (
    "candidates",
    "candidates_not_listed",
    "users_with_few_negatives",
    "users_without_candidates",
)


class CandidateProvider:
    """What the users of a dataset are offered. What is counted on the way is in `counts`, by the
    names that a result has.

    `columns [items]`: the items that anyone can be offered, None where these are all or each user
    has candidates."""

    def __init__(
        self,
        choice: Choice,
        dataset: EvaluationData,
        relevant: Interactions,
        *,
        masks: bool,
        seed: int,
    ) -> None:
        self.choice = choice
        self._problem, self._relevant = dataset, relevant
        self._masks = masks
        chosen = pool_of(choice.pool, dataset.train, dataset.items.size)
        self.columns = chosen if choice.pool in ("cold", "warm") and not choice.is_drawn else None
        self._sampler: NegativeSampler | None = None
        self._keys = (
            dataset.users.hash_keys() if choice.is_per_user else np.empty(0, dtype=np.int64)
        )
        self._item_keys = dataset.items.hash_keys() if choice.is_per_user else self._keys
        if choice.is_drawn:
            self._sampler = make_sampler(
                choice, np.flatnonzero(chosen), self._item_keys, dataset.train, seed
            )
        few = "users_with_few_negatives" if choice.is_drawn else "users_without_candidates"
        self.counts = Counter(dict.fromkeys(("candidates", few) if choice.is_per_user else (), 0))
        self._digest = np.zeros(2, dtype=np.uint64)

    @property
    def all_counts(self) -> dict[str, int]:
        """What was counted, and how many items can be offered where that is not every item."""
        return {
            **({} if self.columns is None else {"candidate_items": int(self.columns.sum())}),
            **self.counts,
        }

    def counted(self) -> dict[str, list[int]]:
        """What was counted and met on the way, as plain numbers for `count`."""
        return {
            "counts": [self.counts[name] for name in sorted(COUNTED)],
            "digest": [int(part) for part in self._digest],
        }

    def count(self, counted: Mapping[str, list[int]]) -> None:
        """Add what was counted elsewhere, of other users."""
        for name, number in zip(sorted(COUNTED), counted["counts"]):
            if number or name in self.counts:
                self.counts[name] += number
        self._digest += np.array(counted["digest"], dtype=np.uint64)

    @property
    def widths(self) -> Numbers:
        """For each user, how many cells may have to be scored at most."""
        dataset = self._problem
        own = np.diff(dataset.truth.offsets)
        if dataset.candidates is not None:
            return own + np.diff(dataset.candidates.offsets)
        return own + min(self.choice.num_negatives or 0, dataset.items.size)

    def has_rows(self, start: int) -> bool:
        """Whether the user at `start`, and those in the same batch, have candidates of their own:
        not where nothing is scored.
        """
        return self.choice.is_per_user and (
            self._problem.lists is not None or start < self._problem.num_rows
        )

    def take(self, start: int, stop: int) -> CandidateSet:
        """The candidates of users `start` to `stop - 1`, who are counted."""
        dataset, users = self._problem, stop - start
        truth, relevant = (
            dataset.truth.slice_users(start, stop).flat_keys,
            self._relevant.slice_users(start, stop).flat_keys,
        )
        seen = (
            np.empty(0, dtype=np.int64)
            if dataset.train is None
            else dataset.train.interactions.slice_users(start, stop).flat_keys
        )
        drawn = None
        if self._sampler is not None:
            cells, eligible = self._sampler.draw(self._keys[start:stop], sorted_union(seen, truth))
            drawn = np.bincount(cells // max(1, dataset.items.size), minlength=users), eligible
            self.counts["users_with_few_negatives"] += int(
                (eligible < (self.choice.num_negatives or 0)).sum()
            )
            cells = sorted_union(
                cells, self._without_masked(relevant, seen)
            )  # negatives are never masked
        else:
            assert dataset.candidates is not None
            rows = dataset.candidates.slice_users(start, stop)
            self.counts["users_without_candidates"] += int((np.diff(rows.offsets) == 0).sum())
            cells = (
                sorted_union(rows.flat_keys, relevant)
                if self.choice.strategy == "sampled"
                else rows.flat_keys
            )
            cells = self._without_masked(cells, seen)
        self.counts["candidates"] += len(cells)
        self._add_to_digest(cells, start)
        return CandidateSet(cells, drawn)

    def _without_masked(self, cells: Numbers, seen: Numbers) -> Numbers:
        return cells[~is_in_sorted(cells, seen)] if self._masks else cells

    def _add_to_digest(self, cells: Numbers, start: int) -> None:
        users, items = np.divmod(cells, max(1, self._problem.items.size))
        hashes = mixed(self._keys[users + start], self._item_keys[items])
        self._digest += np.array(
            [hashes.sum(dtype=np.uint64), (hashes * hashes).sum(dtype=np.uint64)]
        )

    def fingerprint(self) -> str | None:
        """A digest of the candidates by their ids, in whatever order they came; None where there
        are none of each user.
        """
        if not self.choice.is_per_user:
            return None
        return f"{self._digest[0] ^ (self._digest[1] << np.uint64(1)):016x}"

    def notes(self, *, is_corrected: bool) -> Iterator[str]:
        """What to know about what was offered. Where values are corrected, it is said elsewhere
        which are not.
        """
        choice = self.choice
        other = "" if is_corrected else "; the values are not those of ranking all items"
        if choice.is_drawn:
            how = (
                "uniformly"
                if choice.negative_sampling == "uniform"
                else f"by popularity to the power of {choice.neg_alpha:g}"
            )
            yield (
                "strategy='sampled': each user's relevant items are ranked among "
                f"{choice.num_negatives:,} negatives drawn {how}"
                f"{other}"
            )
        elif choice.strategy == "sampled":
            yield f"strategy='sampled': each user's relevant items are ranked among the candidates given{other}"
        if few := self.counts["users_with_few_negatives"]:
            yield f"{few:,} users have fewer than {choice.num_negatives:,} items to draw from, and get all of them"
        if without := self.counts["users_without_candidates"]:
            what = (
                "offered nothing"
                if choice.strategy == "full"
                else "offered nothing but their relevant items"
            )
            yield f"{without:,} users have no candidates and are {what}"
        if unlisted := self.counts["candidates_not_listed"]:
            yield f"{unlisted:,} of {self.counts['candidates']:,} candidates are in no list: they are offered, and not retrieved"

    def said_of(self) -> str:
        """In a few words, what was offered in place of the catalogue; empty where that is the
        catalogue.
        """
        choice = self.choice
        if choice.is_drawn:
            return f"the relevant items and {choice.num_negatives:,} sampled negatives of each user"
        whole = {
            "all": "",
            "given": "the candidates of each user",
            "listed": "what each list holds",
        }
        return whole.get(choice.pool, f"{choice.pool} items")


def pool_of(name: str, train: Train | None, num_items: int) -> NDArray[np.bool_]:
    """Whether each item is in a pool."""
    if train is None or name not in ("cold", "warm"):
        return np.ones(num_items, dtype=np.bool_)
    return train.item_counts == 0 if name == "cold" else train.item_counts > 0


def make_sampler(
    choice: Choice, pool: Numbers, item_keys: Numbers, train: Train | None, seed: int
) -> NegativeSampler:
    """A sampler of this pool. By popularity, items without an interaction are never drawn."""
    assert choice.num_negatives is not None
    weights = None
    if choice.negative_sampling == "popularity" and choice.neg_alpha:
        assert train is not None
        counts = train.item_counts[pool]
        weights = (
            counts / max(1, counts.max(initial=0))
        ) ** choice.neg_alpha  # at most 1, whatever the power
        pool, weights = pool[weights > 0], weights[weights > 0]
    return NegativeSampler(
        pool,
        item_keys,
        number=choice.num_negatives,
        seed=check_int("seed", seed, least=0),
        weights=weights,
    )


def score(
    source: Source,
    dataset: EvaluationData,
    offer: CandidateSet,
    start: int,
    stop: int,
    device: torch.device | None,
) -> tuple[BatchLists, Tensor]:
    """The candidates of users `start` to `stop - 1` as complete lists, and the scores of the
    truth's cells.

    The source is asked for these and for nothing else.
    """
    num_items, users = dataset.items.size, stop - start
    truth = dataset.truth.slice_users(start, stop).flat_keys
    cells = (
        offer.cells if is_in_sorted(truth, offer.cells).all() else sorted_union(offer.cells, truth)
    )
    rows = cells // max(1, num_items)
    lengths = np.bincount(rows, minlength=users)
    offsets = np.cumsum(lengths) - lengths
    width = int(lengths.max(initial=0))
    items = np.full((users, width), -1, dtype=np.int64)
    places = rows * width + np.arange(len(cells)) - offsets[rows]
    items.reshape(-1)[places] = cells - rows * num_items
    scores = torch.full(
        (users, width), -torch.inf, dtype=float_type(device or torch.device("cpu")), device=device
    )
    if len(cells):
        asked = np.flatnonzero(lengths)
        wanted = items[asked]
        wanted = np.where(wanted >= 0, wanted, wanted[:, :1])
        ids = dataset.users.ids[start:stop]
        found = source.scores_for_items(
            torch.as_tensor(asked + start),
            ids if len(asked) == users else ids.gather(asked),
            torch.as_tensor(wanted),
            dataset.items.ids,
        )
        found = found if device is None else found.to(device)
        found = found.to(float_type(found.device))
        check_readable_scores(found, torch.as_tensor(asked + start), torch.as_tensor(wanted))
        scores = (
            found
            if len(asked) == users
            else scores.to(found.device).index_copy_(
                0, torch.as_tensor(asked).to(found.device), found
            )
        )
    if len(cells) > len(offer.cells):
        items.reshape(-1)[places[~is_in_sorted(cells, offer.cells)]] = -1
    of_truth = torch.as_tensor(places[np.searchsorted(cells, truth)]).to(scores.device)
    return (
        BatchLists.from_candidates(scores, torch.as_tensor(items).to(scores.device), num_items),
        scores.view(-1).index_select(0, of_truth),
    )


def draw(
    truth: Any,
    *,
    train: Any = None,
    num_negatives: int | None = None,
    negative_sampling: str | None = None,
    neg_alpha: float | None = None,
    candidates: str = "all",
    seed: int = 0,
    items: Any = None,
    users: Any = None,
    relevance_threshold: float | None = None,
) -> pl.DataFrame:
    """The candidates that `evaluate(strategy="sampled")` draws, as a frame (user, item), to be
    scored elsewhere.

    Relevant items and negatives of a user stand in the order of the catalogue: `items` (or how many
    there are, where they are numbers), else the columns of a matrix, else every item of truth and
    train. `users`: for whom, instead of those of the truth.

    >>> from weft.sampling import draw
    >>> draw({"ann": ["tea"]}, items=["fig", "oat", "rye", "tea"], num_negatives=3)["item"].to_list()
    ['fig', 'oat', 'rye', 'tea']
    """
    import polars as pl

    choice = read_choice(
        candidates,
        "sampled",
        num_negatives,
        negative_sampling,
        neg_alpha,
        has_train=train is not None,
        has_lists=False,
    )
    if not choice.is_drawn:
        raise SettingError(
            "draw() draws candidates; candidates= names the pool they come from: 'all', 'cold' or "
            "'warm'."
        )
    truth, train = (
        read_table(given, name) if is_file(given) else given
        for name, given in (("truth", truth), ("train", train))
    )
    if items is None:
        cells = [
            read_interactions(given, name)
            for name, given in (("truth", truth), ("train", train))
            if given is not None
        ]
        if all(some.shape is None for some in cells):
            items = Vocabulary.from_data("item", [some.items for some in cells], origin="truth").ids
    elif hasattr(items, "__index__") and not hasattr(items, "__len__"):
        items = range(check_int("items", items))
    threshold = check_threshold(relevance_threshold)
    dataset = build_dataset(
        Model(lambda users: None),
        truth,
        train,
        users,
        items,
        {},
        None,
        threshold,
        ListOrder(False, False),
    )
    offers = CandidateProvider(
        choice, dataset, dataset.truth.filter_relevant(threshold), masks=False, seed=seed
    )
    drawn = [
        offers.take(start, min(start + _USERS, dataset.num_rows)).cells + start * dataset.items.size
        for start in range(0, dataset.num_rows, _USERS)
    ]
    people, listed = np.divmod(
        np.concatenate([np.empty(0, dtype=np.int64), *drawn]), max(1, dataset.items.size)
    )
    return pl.DataFrame(
        {"user": dataset.users.ids.gather(people), "item": dataset.items.ids.gather(listed)}
    )

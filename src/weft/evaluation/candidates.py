"""The candidates of each user: the items that can be recommended, given or sampled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np
import torch
from numpy.typing import NDArray

from weft.data import Interactions, Train, Vocabulary, read_interactions
from weft.data.dataset import EvaluationData, build_dataset
from weft.data.evaluation_inputs import EvaluationInputs
from weft.data.interactions import hash_rows
from weft.data.readers.files import is_file, read_table
from weft.data.sources import Model
from weft.errors import SettingError, UnknownParameter, agree, check_int, did_you_mean, setting_ref
from weft.evaluation.setting_rules import split_candidates
from weft.evaluation.settings import EvaluationSettings
from weft.ranking.negative_sampling import (
    NegativeSampler,
    SampleSizes,
    is_in_sorted,
    sorted_union,
    split_keys,
)

if TYPE_CHECKING:
    import polars as pl

Codes = NDArray[np.int64]
_DRAW_USERS = 1024  # users to draw for at once
# Counts that a provider adds to, by their names in a result.
COUNTS = (
    "candidates",
    "candidates_not_listed",
    "users_with_few_negatives",
    "users_without_candidates",
)


@dataclass(frozen=True)
class CandidateSet:
    """The candidates of some users, without masked items.

    `keys [candidates]` are positions in a flattened `[users, items]`, ascending. `sample_sizes` are
    the numbers of sampled and of eligible negatives, each `[users]`; None if none were sampled.
    """

    keys: Codes
    sample_sizes: tuple[Codes, Codes] | None

    def sample_sizes_on(self, device: torch.device) -> SampleSizes | None:
        """Return the numbers of sampled and eligible negatives as tensors on a device."""
        if self.sample_sizes is None:
            return None
        return SampleSizes(*(torch.as_tensor(part).to(device) for part in self.sample_sizes))

    def to_rows(self, num_users: int, num_items: int) -> Interactions:
        """Return the candidates as rows of users."""
        users, items = split_keys(self.keys, num_users, num_items)
        return Interactions.from_codes(users, items, np.ones(len(items)), num_users, num_items)


class CandidateProvider:
    """Provides the candidates of each user of a dataset, and counts them.

    `are_per_user` is True if each user has candidates of their own. `item_mask [items]` marks the
    items that can be recommended to any user; None if these are all, or `are_per_user`.
    """

    def __init__(self, dataset: EvaluationData, settings: EvaluationSettings) -> None:
        self.settings = settings
        self._dataset = dataset
        self._masks_seen = settings.mask_seen is True
        self.draws_negatives = settings.draws_negatives
        self.are_per_user = self.draws_negatives or settings.candidates == "given"
        self.item_mask: NDArray[np.bool_] | None = None
        if dataset.train is not None and settings.candidates in ("cold", "warm"):
            is_warm = dataset.train.item_counts > 0
            self.item_mask = is_warm if settings.candidates == "warm" else ~is_warm
        self._sampler: NegativeSampler | None = None
        self._user_keys = self._item_keys = np.empty(0, dtype=np.int64)
        names: tuple[str, ...] = ()
        if self.are_per_user:
            self._user_keys, self._item_keys = dataset.users.hash_keys(), dataset.items.hash_keys()
            names = ("candidates", "users_without_candidates")
        if self.draws_negatives:
            names = ("candidates", "users_with_few_negatives")
            items = np.arange(dataset.items.size)
            if self.item_mask is not None:
                items, self.item_mask = items[self.item_mask], None
            self._sampler = _build_sampler(settings, items, self._item_keys, dataset.train)
        self._counts = Counter(dict.fromkeys(names, 0))
        self._digest = np.zeros(2, dtype=np.uint64)

    @property
    def counts(self) -> dict[str, int]:
        """The counts for a result."""
        restricted = self.item_mask
        items = {} if restricted is None else {"candidate_items": int(restricted.sum())}
        return {**items, **self._counts}

    def state(self) -> dict[str, list[int]]:
        """Return the counts and the digest as plain numbers; `merge` adds them."""
        return {
            "counts": [self._counts[name] for name in COUNTS],
            "digest": [int(part) for part in self._digest],
        }

    def merge(self, state: Mapping[str, list[int]]) -> None:
        """Add the counts and the digest of other users."""
        for name, number in zip(COUNTS, state["counts"]):
            if number or name in self._counts:
                self._counts[name] += number
        self._digest += np.array(state["digest"], dtype=np.uint64)

    @property
    def max_lengths(self) -> Codes:
        """The largest number of scores that each user may need, `[users]`."""
        dataset = self._dataset
        lengths = np.diff(dataset.truth.offsets)
        if dataset.candidates is not None:
            return lengths + np.diff(dataset.candidates.offsets)
        return lengths + min(self.settings.num_negatives or 0, dataset.items.size)

    def count_unlisted(self, number: int) -> None:
        """Count candidates that are in no list."""
        self._counts["candidates_not_listed"] += number

    def provide(self, start: int, stop: int) -> CandidateSet:
        """Return the candidates of users `start` to `stop - 1`, and count them."""
        dataset, num_users = self._dataset, stop - start
        relevant = dataset.relevant.slice_users(start, stop).flat_keys
        seen = np.empty(0, dtype=np.int64)
        if dataset.train is not None:
            seen = dataset.train.interactions.slice_users(start, stop).flat_keys
        sample_sizes = None
        if self._sampler is not None:
            truth = dataset.truth.slice_users(start, stop).flat_keys
            keys, eligible = self._sampler.draw(
                self._user_keys[start:stop], sorted_union(seen, truth)
            )
            starts = np.arange(num_users + 1) * dataset.items.size
            sampled = np.diff(np.searchsorted(keys, starts))
            sample_sizes = sampled, eligible
            is_short = eligible < (self.settings.num_negatives or 0)
            self._counts["users_with_few_negatives"] += int(is_short.sum())
            keys = sorted_union(keys, self._remove_seen(relevant, seen))  # negatives are never seen
        else:
            assert dataset.candidates is not None
            rows = dataset.candidates.slice_users(start, stop)
            is_empty = np.diff(rows.offsets) == 0
            self._counts["users_without_candidates"] += int(is_empty.sum())
            is_sampled = self.settings.strategy == "sampled"
            keys = self._remove_seen(
                sorted_union(rows.flat_keys, relevant) if is_sampled else rows.flat_keys, seen
            )
        self._counts["candidates"] += len(keys)
        self._add_to_digest(keys, start, stop)
        return CandidateSet(keys, sample_sizes)

    def _remove_seen(self, keys: Codes, seen: Codes) -> Codes:
        return keys[~is_in_sorted(keys, seen)] if self._masks_seen else keys

    def _add_to_digest(self, keys: Codes, start: int, stop: int) -> None:
        users, items = split_keys(keys, stop - start, self._dataset.items.size)
        hashes = hash_rows(self._user_keys[users + start], self._item_keys[items])
        self._digest += np.array(
            [hashes.sum(dtype=np.uint64), (hashes * hashes).sum(dtype=np.uint64)]
        )

    def fingerprint(self) -> str:
        """Return a digest of the candidates of all users so far by id, in any order."""
        return f"{self._digest[0] ^ (self._digest[1] << np.uint64(1)):016x}"

    def notes(self) -> Iterator[str]:
        """Yield notes about the candidates."""
        settings, counts = self.settings, self._counts
        other = ""
        if settings.estimator is None:
            other = "; the values differ from those of a full ranking"
        if self.draws_negatives:
            how = "uniformly"
            if settings.negative_sampling == "popularity":
                how = f"by popularity to the power of {settings.neg_alpha:g}"
            yield (
                f"strategy='sampled': each user's relevant items are ranked among "
                f"{settings.num_negatives:,} negatives drawn {how}{other}"
            )
        elif settings.strategy == "sampled":
            yield (
                f"strategy='sampled': each user's relevant items are ranked among the given "
                f"candidates{other}"
            )
        if few := counts["users_with_few_negatives"]:
            yield agree(
                few,
                "{n} user{s} {have} fewer than {wanted:,} items to draw from; all of these items "
                "are used",
                wanted=settings.num_negatives,
            )
        if without := counts["users_without_candidates"]:
            ranking = "an empty ranking"
            if settings.strategy == "sampled":
                ranking = "a ranking of the relevant items only"
            yield agree(
                without, "{n} user{s} {have} no candidates and {are} evaluated with " + ranking
            )
        if unlisted := counts["candidates_not_listed"]:
            yield agree(
                unlisted,
                "{n} of {total:,} candidates {are} in no list; {they} {count} as not recommended",
                total=counts["candidates"],
            )

    def describe(self) -> str:
        """Return the candidates in a few words, if not all items are candidates."""
        settings = self.settings
        if self.draws_negatives:
            return (
                f"the relevant items and {settings.num_negatives:,} sampled negatives of each user"
            )
        words = {
            "given": "the candidates of each user",
            "listed": "the items of each list",
        }
        return words.get(settings.candidates, f"{settings.candidates} items")


def _build_sampler(
    settings: EvaluationSettings, items: Codes, item_keys: Codes, train: Train | None
) -> NegativeSampler:
    """Return a sampler of `items`. By popularity, items without an interaction are never drawn."""
    assert settings.num_negatives is not None
    weights = None
    if settings.negative_sampling == "popularity" and settings.neg_alpha:
        assert train is not None
        counts = train.item_counts[items]
        shares = counts / max(1, counts.max(initial=0))  # at most 1, also to any power
        weights = shares**settings.neg_alpha
        items, weights = items[weights > 0], weights[weights > 0]
    return NegativeSampler(
        items, item_keys, number=settings.num_negatives, seed=settings.seed, weights=weights
    )


class DrawOptions(TypedDict, total=False):
    """Further keyword arguments of `draw`, as in `weft.evaluate`."""

    negative_sampling: str | None
    neg_alpha: float | None
    candidates: str
    relevance_threshold: float | None


def draw(
    truth: Any,
    *,
    train: Any = None,
    num_negatives: int | None = None,
    seed: int = 0,
    items: Any = None,
    users: Any = None,
    **options: Unpack[DrawOptions],
) -> pl.DataFrame:
    """Return the candidates that `weft.evaluate` draws with `strategy="sampled"`.

    They can then be scored elsewhere. The items of a user are in the order of the catalogue.

    Parameters
    ----------
    truth
        Test interactions (ground truth), as in `weft.evaluate`.
    train
        Train interactions, as in `weft.evaluate`.
    num_negatives
        Number of negatives per user. Default: 99.
    seed
        Seed of the draw. Default: 0.
    items
        Ids of the catalogue, or their number if they are numbers from 0. Default: the columns of a
        matrix, or every item of truth and train.
    users
        Ids of the users to draw for. Default: those of the truth.
    options
        Further keyword arguments as in `weft.evaluate`: `negative_sampling`, `neg_alpha`,
        `candidates` (`"all"`, `"cold"` or `"warm"`) and `relevance_threshold`.

    Returns
    -------
    polars.DataFrame
        The columns `user` and `item`, with the relevant items and the negatives of each user.

    Examples
    --------
    >>> from weft.sampling import draw
    >>> items = ["fig", "oat", "rye", "tea"]
    >>> draw({"ann": ["tea"]}, items=items, num_negatives=3)["item"].to_list()
    ['fig', 'oat', 'rye', 'tea']
    """
    import polars as pl

    settings = _sampling_settings(train, num_negatives=num_negatives, seed=seed, **options)
    truth, train = (
        read_table(given, name) if is_file(given) else given
        for name, given in (("truth", truth), ("train", train))
    )
    if items is None:
        items = _items_of(truth, train)
    elif hasattr(items, "__index__") and not hasattr(items, "__len__"):
        items = range(check_int("items", items))
    inputs = EvaluationInputs(Model(lambda users: None), truth, train, users, items)
    dataset = build_dataset(inputs, settings)
    provider, num_items = CandidateProvider(dataset, settings), dataset.items.size
    keys = [
        provider.provide(start, min(start + _DRAW_USERS, dataset.num_rows)).keys + start * num_items
        for start in range(0, dataset.num_rows, _DRAW_USERS)
    ]
    codes = np.divmod(np.concatenate([np.empty(0, dtype=np.int64), *keys]), max(1, num_items))
    return pl.DataFrame(
        {"user": dataset.users.ids.gather(codes[0]), "item": dataset.items.ids.gather(codes[1])}
    )


def _sampling_settings(train: Any, **options: Any) -> EvaluationSettings:
    """Return the resolved settings of `draw`. Raises `SettingError` for other options."""
    known = ("num_negatives", "seed", *DrawOptions.__annotations__)
    for name in options:
        if name not in known:
            raise UnknownParameter(f"draw() has no argument {name!r}.{did_you_mean(name, known)}")
    pool, given = split_candidates(options.get("candidates", "all"))
    if given is not None or pool == "listed":
        raise SettingError(
            f"draw() samples candidates from a pool; {setting_ref('candidates')} must be 'all', "
            "'cold' or 'warm'."
        )
    options |= {"candidates": pool, "strategy": "sampled", "mask_seen": False}
    settings = EvaluationSettings.from_options(**options)
    return settings.resolve(() if train is None else ("train",))


def _items_of(truth: Any, train: Any) -> Any:
    """Return every item of truth and train; None if one is a matrix (its columns are items)."""
    tables = [read_interactions(truth, "truth")]
    tables += [] if train is None else [read_interactions(train, "train")]
    if any(table.shape is not None or table.num_rows is not None for table in tables):
        return None
    return Vocabulary.from_data("item", [table.items for table in tables], origin="truth").ids

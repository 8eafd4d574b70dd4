"""`draw`: the candidates of an evaluation with sampled negatives, as a frame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import numpy as np

from weft.data import Vocabulary, read_interactions
from weft.data.dataset import build_dataset
from weft.data.evaluation_inputs import EvaluationInputs
from weft.data.readers.files import is_file, read_table
from weft.data.sources import Model
from weft.errors import SettingError, UnknownParameter, check_int, did_you_mean, setting_ref
from weft.evaluation.candidates import CandidateProvider
from weft.evaluation.setting_rules import split_candidates
from weft.evaluation.settings import EvaluationSettings

if TYPE_CHECKING:
    import polars as pl

_DRAW_USERS = 1024  # users to draw for at once


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

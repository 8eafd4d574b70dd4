"""Settings of sampled negatives: their defaults, and the rules between them and other settings.

Importing this module loads neither torch nor polars.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from weft.errors import SettingError, WeftError, setting_ref

if TYPE_CHECKING:
    from weft.evaluation.settings import EvaluationSettings
    from weft.ranking.rank_estimator import RankEstimator

NEGATIVE_SETTINGS = ("num_negatives", "negative_sampling", "neg_alpha")  # None without sampling
NUM_NEGATIVES = 99
NEG_ALPHA = 0.75


def sampling_defaults(settings: EvaluationSettings) -> dict[str, Any]:
    """Return the values of settings that are None, for a run that samples."""
    defaults: dict[str, Any] = {}
    if settings.strategy == "sampled":
        # In a catalogue sorted by popularity, the order by index favours relevant items.
        defaults["ties"] = "random"
    if settings.draws_negatives:
        defaults |= {"num_negatives": NUM_NEGATIVES, "negative_sampling": "uniform"}
    if settings.negative_sampling == "popularity":
        defaults["neg_alpha"] = NEG_ALPHA
    return defaults


def sampling_conflicts(settings: EvaluationSettings) -> Iterator[WeftError]:
    """Yield an error for each sampling option that another option excludes."""
    for name in NEGATIVE_SETTINGS:
        value = getattr(settings, name)
        if value is not None and settings.strategy == "full":
            yield SettingError(
                f"{setting_ref(name, value)} applies to sampled negatives, but "
                f"{setting_ref('strategy', 'full')} ranks all candidates; set "
                f"{setting_ref('strategy', 'sampled')}, or remove it."
            )
        elif value is not None and settings.candidates == "given":
            yield SettingError(
                f"{setting_ref(name, value)} applies to sampled negatives, but "
                f"{setting_ref('candidates')} gives the candidates; remove one of the two."
            )
    if settings.candidates == "listed" and settings.strategy == "sampled":
        yield SettingError(
            f"{setting_ref('candidates', 'listed')} takes the items of each list as candidates, "
            f"so there are no negatives to sample; remove {setting_ref('strategy', 'sampled')}."
        )
    if (
        settings.neg_alpha is not None
        and settings.draws_negatives
        and settings.negative_sampling != "popularity"
    ):
        yield SettingError(
            f"{setting_ref('neg_alpha', settings.neg_alpha)} applies to "
            f"{setting_ref('negative_sampling', 'popularity')}, but the negatives are sampled "
            "uniformly; remove it."
        )


def empty_position_conflicts(settings: EvaluationSettings) -> Iterator[WeftError]:
    """Yield an error for settings under which an empty position of a list has no meaning."""
    others = {"candidates": "listed", "strategy": "sampled"}
    for name in ("duplicates", "unknown_items"):
        for other, value in others.items():
            if getattr(settings, name) == "miss" and getattr(settings, other) == value:
                yield SettingError(
                    f"{setting_ref(name, 'miss')} leaves positions of lists empty, but with "
                    f"{setting_ref(other, value)} lists are rankings of candidates, which have no "
                    "empty positions; remove one of the two."
                )


def rank_estimator(settings: EvaluationSettings) -> RankEstimator | None:
    """Return the estimator of resolved settings, None without one."""
    from weft.ranking.rank_estimator import RankEstimator

    if settings.estimator is None:
        return None
    gamma = {} if settings.gamma is None else {"gamma": settings.gamma}
    return RankEstimator(settings.estimator, **gamma)

"""Rules between settings, and between settings and the available inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from weft.errors import MissingInput, SettingError, WeftError, setting_ref

if TYPE_CHECKING:
    from weft.evaluation.settings import EvaluationSettings

NEGATIVE_SETTINGS = ("num_negatives", "negative_sampling", "neg_alpha")  # None without sampling


def sampling_conflicts(settings: EvaluationSettings) -> Iterator[WeftError]:
    """Yield an error for each sampling option that another option excludes."""
    for name in NEGATIVE_SETTINGS:
        value = getattr(settings, name)
        if value is not None and settings.strategy == "full":
            yield SettingError(
                f"{setting_ref(name, value)} is about sampled negatives, but "
                f"{setting_ref('strategy', 'full')} ranks all candidates; give "
                f"{setting_ref('strategy', 'sampled')}, or leave it out."
            )
        elif value is not None and settings.candidates == "given":
            yield SettingError(
                f"{setting_ref(name, value)} is about drawing negatives, but "
                f"{setting_ref('candidates')} gives them; leave one of the two out."
            )
    if settings.candidates == "listed" and settings.strategy == "sampled":
        yield SettingError(
            f"{setting_ref('candidates', 'listed')} takes the items of each list as its "
            "candidates, so that nothing is left to draw; leave out "
            f"{setting_ref('strategy', 'sampled')}."
        )
    if (
        settings.neg_alpha is not None
        and settings.draws_negatives
        and settings.negative_sampling != "popularity"
    ):
        yield SettingError(
            f"{setting_ref('neg_alpha', settings.neg_alpha)} is about "
            f"{setting_ref('negative_sampling', 'popularity')}, but this is 'uniform'; leave "
            "it out."
        )


def estimator_conflicts(settings: EvaluationSettings) -> Iterator[WeftError]:
    """Yield an error for each option of rank estimators that another option excludes."""
    chosen = setting_ref("estimator", settings.estimator)
    if settings.gamma is not None and settings.estimator is None:
        yield SettingError(
            f"{setting_ref('gamma', settings.gamma)} belongs to "
            f"{setting_ref('estimator', 'bias_variance')}; give that too, or leave gamma out."
        )
    elif settings.gamma is not None and settings.estimator != "bias_variance":
        yield SettingError(
            f"{setting_ref('gamma', settings.gamma)} belongs to "
            f"{setting_ref('estimator', 'bias_variance')}; {chosen} has no such parameter."
        )
    if settings.estimator is None:
        return
    if settings.strategy != "sampled":
        yield SettingError(
            f"{chosen} estimates from sampled negatives what all items would give, but "
            f"{setting_ref('strategy', settings.strategy)} samples none; give "
            f"{setting_ref('strategy', 'sampled')}, or leave the estimator out."
        )
    if settings.candidates == "given":
        yield SettingError(
            f"{chosen} holds for negatives that Weft draws uniformly; how the candidates that "
            "were given came about is not known. Leave candidates out, or the estimator."
        )
    if settings.negative_sampling == "popularity":
        yield SettingError(
            f"{chosen} holds for negatives that are drawn uniformly; with "
            f"{setting_ref('negative_sampling', 'popularity')} there is no estimate. Give "
            f"{setting_ref('negative_sampling', 'uniform')}, or leave the estimator out."
        )


def input_conflicts(
    settings: EvaluationSettings, available: Collection[str]
) -> Iterator[WeftError]:
    """Yield an error for each option that needs an input that is not available."""
    needs_train = f"needs {setting_ref('train')}"
    if settings.candidates == "listed" and "lists" not in available:
        yield SettingError(
            f"{setting_ref('candidates', 'listed')} is about recommendation lists; scores rank "
            f"all items, or {setting_ref('candidates')} of each user."
        )
    if settings.candidates in ("cold", "warm") and "train" not in available:
        yield MissingInput(
            f"{setting_ref('candidates', settings.candidates)} {needs_train}, the interactions "
            "that make an item warm."
        )
    if settings.candidates == "given" and "candidates" not in available:
        yield MissingInput(
            f"{setting_ref('candidates', 'given')} needs the candidates of each user; give "
            "them as a file or a table (user, item)."
        )
    if settings.negative_sampling == "popularity" and "train" not in available:
        yield MissingInput(
            f"{setting_ref('negative_sampling', 'popularity')} {needs_train}, whose "
            "interactions are counted."
        )
    if settings.mask_seen is True and "train" not in available:
        yield MissingInput(
            f"{setting_ref('mask_seen', True)} {needs_train}, the interactions whose items "
            "are masked."
        )
    if settings.duplicates == "keep-best" and "lists" not in available:
        yield SettingError(
            f"{setting_ref('duplicates', 'keep-best')} is about recommendation lists; scores "
            "have one position for each user and item."
        )

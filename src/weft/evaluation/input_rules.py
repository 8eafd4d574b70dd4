"""Rules between settings and the inputs of a run.

Importing this module loads neither torch nor polars.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from weft.errors import MissingInput, SettingError, WeftError, setting_ref

if TYPE_CHECKING:
    from weft.evaluation.settings import EvaluationSettings


def target_conflicts(
    settings: EvaluationSettings, available: Collection[str] | None
) -> Iterator[WeftError]:
    """Yield an error for each option that excludes metrics of some relevant items."""
    targets = setting_ref("targets", settings.targets)
    if settings.estimator is not None:
        part = targets if settings.targets != "all" else setting_ref("item_slices")
        yield SettingError(
            f"{setting_ref('estimator', settings.estimator)} treats every listed item that is not "
            f"relevant as a sampled negative, but with {part} some of them are relevant items "
            "that do not count; remove one of the two."
        )
    if settings.targets == "all":
        return
    if available is not None and "train" not in available:
        yield MissingInput(
            f"{targets} needs {setting_ref('train')} to know which interactions are repeated."
        )
    if settings.targets == "repeated" and _masks_seen(settings, available):
        yield SettingError(
            f"{targets} counts items of the user's train, which {setting_ref('mask_seen', True)} "
            "removes from the ranking, so there could be no hits. Set "
            f"{setting_ref('mask_seen', False)}."
        )


def _masks_seen(settings: EvaluationSettings, available: Collection[str] | None) -> bool:
    """Return True if seen items are masked; "auto" masks those of scores."""
    has_scores = available is not None and "lists" not in available
    return settings.mask_seen is True or (settings.mask_seen == "auto" and has_scores)


def input_conflicts(
    settings: EvaluationSettings, available: Collection[str]
) -> Iterator[WeftError]:
    """Yield an error for each option that needs an input that is not available."""
    if settings.candidates == "listed" and "lists" not in available:
        yield SettingError(
            f"{setting_ref('candidates', 'listed')} applies to recommendation lists; with scores, "
            f"all items are ranked, or the {setting_ref('candidates')} of each user."
        )
    if settings.candidates == "given" and "candidates" not in available:
        yield MissingInput(
            f"{setting_ref('candidates', 'given')} needs the candidates of each user; give "
            "them as a file or a table (user, item)."
        )
    if "train" not in available:
        yield from _train_conflicts(settings)
    if settings.feature_separator is not None and "item_features" not in available:
        yield MissingInput(
            f"{setting_ref('feature_separator', settings.feature_separator)} needs "
            f"{setting_ref('item_features')}, whose values it splits."
        )
    if "lists" not in available:
        yield from _list_conflicts(settings)


def _train_conflicts(settings: EvaluationSettings) -> Iterator[WeftError]:
    """Yield an error for each option that needs train, if it is not available."""
    needs_train = f"needs {setting_ref('train')}"
    if settings.candidates in ("cold", "warm"):
        yield MissingInput(
            f"{setting_ref('candidates', settings.candidates)} {needs_train}, the interactions "
            "that make an item warm."
        )
    if settings.negative_sampling == "popularity":
        yield MissingInput(
            f"{setting_ref('negative_sampling', 'popularity')} {needs_train}, whose "
            "interactions are counted."
        )
    if settings.mask_seen is True:
        yield MissingInput(
            f"{setting_ref('mask_seen', True)} {needs_train}, the interactions whose items "
            "are masked."
        )


def _list_conflicts(settings: EvaluationSettings) -> Iterator[WeftError]:
    """Yield an error for each option about positions of lists, if there are scores."""
    if settings.duplicates != "error":
        yield SettingError(
            f"{setting_ref('duplicates', settings.duplicates)} applies to recommendation lists, "
            "not to scores."
        )
    if settings.unknown_items == "miss":
        yield SettingError(
            f"{setting_ref('unknown_items', 'miss')} applies to recommendation lists, not to "
            "scores."
        )

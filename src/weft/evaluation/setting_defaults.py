"""Defaults of the settings that are None until a run is resolved.

Importing this module loads neither torch nor polars.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from weft.evaluation.sampling_settings import sampling_defaults

if TYPE_CHECKING:
    from weft.evaluation.settings import EvaluationSettings
    from weft.metrics.profiles import Profile

GAMMA = 0.1
# Metrics and cut-offs of `weft check`, and of `weft evaluate` on the command line.
DEFAULT_METRICS, DEFAULT_TOP_K = ("nDCG", "Recall"), (10,)
DEFAULTS = {"empty_users": "skip", "missing_lists": "zero", "ties": "index"}


def find_updates(
    settings: EvaluationSettings, profile: Profile | None, available: Collection[str]
) -> dict[str, Any]:
    """Return the values that resolved settings have instead of None, "auto" and metric names.

    `available` are the inputs of the run."""
    defaults = _find_defaults(settings)
    updates: dict[str, Any] = {}
    if profile is not None:
        from weft.metrics.profiles import apply_profile

        defaults |= {**DEFAULTS, **profile.settings}
        updates["metrics"] = tuple(apply_profile(metric, profile) for metric in settings.metrics)
    for name, default in defaults.items():
        if getattr(settings, name) is None:
            updates[name] = default
    if settings.implicit:  # there are no ratings to compare with the threshold of a profile
        updates.pop("relevance_threshold", None)
    if "train" not in available:
        updates["mask_seen"] = False
    elif settings.mask_seen == "auto" and "lists" not in available:
        updates["mask_seen"] = True
    return updates


def _find_defaults(settings: EvaluationSettings) -> dict[str, Any]:
    """Return the values of settings that are None, without a profile."""
    defaults: dict[str, Any] = DEFAULTS | sampling_defaults(settings)
    if settings.estimator == "bias_variance":
        defaults["gamma"] = GAMMA
    return defaults

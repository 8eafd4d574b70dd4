"""Profiles: the parameters with which Weft prints the number that another tool would print.

A profile lists the metrics that it covers with the parameters that differ from Weft's defaults, how
the tool counts users and ties, and the metrics that it excludes, with the reason. Each entry was
established by comparison with stored values of the tool on real data.
"""

from __future__ import annotations

from weft.errors import check_choice
from weft.metrics.names import MetricSpec
from weft.metrics.profiles.declaration import Profile
from weft.metrics.profiles.frameworks import CORNAC, ELLIOT, LENSKIT, RECBOLE, WARPREC
from weft.metrics.profiles.learning import PYG, SKLEARN, TORCHMETRICS
from weft.metrics.profiles.libraries import (
    EVIDENTLY,
    RECOMMENDERS,
    RECPACK,
    RECTOOLS,
    REPLAY,
)
from weft.metrics.profiles.profile_application import apply_profile, spell_out
from weft.metrics.profiles.retrieval import IR_MEASURES, RANX, TREC_EVAL
from weft.metrics.registry import canonical_name, find_metric

__all__ = [
    "PROFILES",
    "Profile",
    "apply_profile",
    "find_profile",
    "profiled_name",
    "spell_out",
    "tool_definitions",
]

PROFILES = {
    profile.tool: profile
    for profile in (
        *(WARPREC, ELLIOT, TREC_EVAL, RANX, RECBOLE, TORCHMETRICS, RECTOOLS, SKLEARN),
        *(REPLAY, LENSKIT, IR_MEASURES, RECOMMENDERS, CORNAC, PYG, EVIDENTLY, RECPACK),
    )
}


def find_profile(name: object) -> Profile:
    """Return the profile of a name; raises `SettingError` for an unknown one."""
    return PROFILES[check_choice("profile", name, tuple(PROFILES))]


def profiled_name(name: str, profile: str) -> str:
    """Return the full name of a metric under a profile, such as `nDCG(gain=linear)@10`."""
    tool = find_profile(profile)
    return str(spell_out(canonical_name(str(apply_profile(name, tool))), tool))


def tool_definitions(metric: str) -> dict[str, MetricSpec | str]:
    """Return a metric as each tool defines it: a spec, or the reason why it is excluded."""
    name = find_metric(metric).__name__
    definitions: dict[str, MetricSpec | str] = {}
    for tool, profile in PROFILES.items():
        if name in profile.excluded:
            definitions[tool] = profile.excluded[name]
        elif name in profile.covers:
            definitions[tool] = MetricSpec(name, tuple(profile.covers[name].items()))
    return definitions

"""What a profile declares: metrics with their parameters, settings, exclusions and notes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any


@dataclass(frozen=True)
class Profile:
    """One version of a tool, expressed as parameters and settings of Weft."""

    tool: str
    version: str
    covers: Mapping[str, Mapping[str, Any]]  # metric to the parameters that differ from defaults
    settings: Mapping[str, Any] = field(default_factory=dict)  # that differ from the defaults
    excluded: Mapping[str, str] = field(default_factory=dict)  # metric to the reason
    notes: tuple[str, ...] = ()  # points to know before comparing
    orders_ties_by_descending_id: bool = False  # ids compared as text

    def __reduce__(self) -> Any:
        from weft.metrics.profiles import find_profile

        return find_profile, (self.tool,)  # a copy or pickle is the profile of that name


BY_USERS = MappingProxyType({"average": "users"})
BY_LIST = MappingProxyType({"denominator": "list"})
ZERO = {"empty_users": "zero"}
JUDGED = {"relevance_threshold": 1, **ZERO}  # judgements are integers, negative ones not relevant


def default(*metrics: str) -> dict[str, Mapping[str, Any]]:
    """Return metrics that the tool defines like Weft's defaults."""
    return dict.fromkeys(metrics, MappingProxyType({}))

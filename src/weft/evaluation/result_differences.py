"""Differences that make the values of two evaluations incomparable."""

from __future__ import annotations

from weft.evaluation.result import Result
from weft.evaluation.sampling_settings import NEGATIVE_SETTINGS

# Settings that change values.
_SETTINGS = (
    "relevance_threshold",
    "ties",
    "empty_users",
    "missing_lists",
    "mask_seen",
    "strategy",
    "candidates",
)
_OPTIONAL_SETTINGS = {  # and their values if they are not recorded
    "implicit": False,
    "extra_users": "count",
    "estimator": None,
    "gamma": None,
    "targets": "all",
}
_FINGERPRINTS = {
    "truth": "another truth, so the values describe other users and items",
    "candidates": "other candidates, which cause part of the difference",
}


def describe_differences(
    result: Result, name: str, reference: Result, reference_name: str
) -> list[str]:
    """Return the differences that make the values of two evaluations incomparable.

    Only settings and fingerprints that both results have are compared.
    """
    notes = []
    theirs, ours = (one.provenance.get("fingerprint", {}) for one in (result, reference))
    for data, effect in _FINGERPRINTS.items():
        if data in ours and data in theirs and ours[data] != theirs[data]:
            notes.append(f"{name} was evaluated on {effect}")
    settings, expected = result.settings, reference.settings
    for setting in (*_SETTINGS, *NEGATIVE_SETTINGS, *_OPTIONAL_SETTINGS):
        default = _OPTIONAL_SETTINGS.get(setting)
        value, other = settings.get(setting, default), expected.get(setting, default)
        is_comparable = setting in _OPTIONAL_SETTINGS or (
            setting in settings and setting in expected
        )
        if setting in NEGATIVE_SETTINGS and None in (value, other):
            is_comparable = False
        if value != other and is_comparable:
            notes.append(
                f"{name} was evaluated with {setting} {value!r}, {reference_name} with {other!r}"
            )
    return notes

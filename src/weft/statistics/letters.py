"""Compact letter display: models that share a letter do not differ significantly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def compact_letters(
    models: Sequence[str], different_pairs: Iterable[tuple[str, str]]
) -> dict[str, str]:
    """Return the letters of each model; the first models get the first letters.

    Insert and absorb (Piepho 2004): all models start in one group; each difference splits every
    group that holds both models, and groups inside another group are removed.

    >>> compact_letters(["x", "y", "z"], [("x", "z")])
    {'x': 'a', 'y': 'ab', 'z': 'b'}
    """
    groups = [frozenset(models)]
    for a, b in different_pairs:
        split = {group - {model} for group in groups for model in (a, b) if {a, b} <= group}
        split |= {group for group in groups if not {a, b} <= group}
        groups = [group for group in split if not any(group < other for other in split)]
    position = {model: index for index, model in enumerate(models)}
    groups.sort(key=lambda group: sorted(position[model] for model in group))
    return {
        model: "".join(_letter(index) for index, group in enumerate(groups) if model in group)
        for model in models
    }


def _letter(index: int) -> str:
    round_number, position = divmod(index, len(_ALPHABET))
    return _ALPHABET[position] + (str(round_number + 1) if round_number else "")

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
    groups = [frozenset(range(len(models)))]
    for pair in different_pairs:
        a, b = map(models.index, pair)
        split: set[frozenset[int]] = set()
        for group in groups:
            split |= {group - {a}, group - {b}} if {a, b} <= group else {group}
        groups = [group for group in split if not any(group < other for other in split)]
    letters = [""] * len(models)
    for number, group in enumerate(sorted(groups, key=sorted)):
        for model in group:
            letters[model] += _letter(number)
    return dict(zip(models, letters))


def _letter(index: int) -> str:
    round_number, position = divmod(index, len(_ALPHABET))
    return _ALPHABET[position] + (str(round_number + 1) if round_number else "")

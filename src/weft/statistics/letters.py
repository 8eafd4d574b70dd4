"""Compact letters: models that share one do not differ significantly."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

_ALPHABET = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def compact_letters(models: Sequence[str], differ: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The letters of each model, given which pairs differ; the first models of the sequence get the
    first letters.

    Insert and absorb (Piepho 2004): all models begin in one group; each difference splits every
    group that holds both, and a group inside another goes.

    >>> compact_letters(["x", "y", "z"], [("x", "z")])
    {'x': 'a', 'y': 'ab', 'z': 'b'}
    """
    groups = [frozenset(models)]
    for a, b in differ:
        split: set[frozenset[str]] = set()
        for group in groups:
            split |= {group - {a}, group - {b}} if a in group and b in group else {group}
        groups = [group for group in split if not any(group < other for other in split)]
    place = {model: at for at, model in enumerate(models)}
    groups.sort(key=lambda group: sorted(place[model] for model in group))
    return {
        model: "".join(_letter(at) for at, group in enumerate(groups) if model in group)
        for model in models
    }


def _letter(at: int) -> str:
    number, place = divmod(at, len(_ALPHABET))
    return _ALPHABET[place] + (str(number + 1) if number else "")

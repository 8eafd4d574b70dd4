"""Short labels of names: different names never have the same label."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

TEXT_PIXELS = 12  # font size of texts in charts
_ELLIPSIS = "…"
_NARROW_SIGNS = frozenset("iljtfrI.,:;'|!()[] -")
_WIDE_SIGNS = frozenset("mwMW@%&…—")


def text_pixels(text: str) -> float:
    """Return an estimate of the width of a text in pixels, which is rather too high than too low.

    >>> text_pixels("ill") < text_pixels("knn") < text_pixels("推荐模")
    True
    """
    return TEXT_PIXELS * sum(map(_relative_width, text))


def _relative_width(sign: str) -> float:
    """Return the width of a sign relative to the font size."""
    if sign in _NARROW_SIGNS:
        return 0.38
    if sign in _WIDE_SIGNS or unicodedata.east_asian_width(sign) in "WF":
        return 1.0
    return 0.72 if sign.isupper() else 0.62


def distinct_labels(names: Sequence[str], pixels: float) -> dict[str, str]:
    """Return a label for each name, of at most about this many pixels.

    Long names are shortened in the middle, or to the part in which they differ if that would make
    their labels equal.

    >>> names = ["als", "transformer_v2_large_negatives", "transformer_v2_small_negatives"]
    >>> list(distinct_labels(names, 120).values())
    ['als', '…large_negatives', '…small_negatives']
    >>> list(distinct_labels(["item_knn_cosine_k200"], 120).values())
    ['item_kn…ne_k200']
    """
    labels = {name: _cut_middle(name, pixels) for name in names}
    groups: dict[str, list[str]] = {}
    for name, label in labels.items():
        groups.setdefault(label, []).append(name)
    for label, members in groups.items():
        if len(members) > 1:
            labels |= _cut_common_parts([name for name in members if name != label], pixels)
    return _number_equal(labels, pixels)


def _cut_middle(name: str, pixels: float) -> str:
    """Return the name, without its middle if it is too long."""
    if text_pixels(name) <= pixels:
        return name
    size = len(name) - 1
    while size > 2 and text_pixels(_join_ends(name, size)) > pixels:
        size -= 1
    return _join_ends(name, size)


def _join_ends(name: str, size: int) -> str:
    """Return the first and the last signs of a name, `size` of them, with an ellipsis between."""
    return f"{name[: (size + 1) // 2]}{_ELLIPSIS}{name[len(name) - size // 2 :]}"


def _cut_common_parts(names: Sequence[str], pixels: float) -> dict[str, str]:
    """Return long names without the words that all of them start with and, if needed, end with."""
    start = _shared_length(names)
    end = _shared_length([name[start:][::-1] for name in names])
    labels = {}
    for name in names:
        label = _mark_cut(name, start, len(name))
        if text_pixels(label) > pixels:
            label = _mark_cut(name, start, len(name) - end)
        labels[name] = _cut_middle(label, pixels)
    return labels


def _shared_length(names: Sequence[str]) -> int:
    """Return the length of the start that all names share, in complete words."""
    ends = zip(min(names), max(names))  # what these two share, all names between them share
    length = next((at for at, (one, other) in enumerate(ends) if one != other), len(min(names)))
    separators = [*re.finditer(r"[^\w.]|_", min(names)[:length])]
    return separators[-1].end() if separators else 0


def _mark_cut(name: str, start: int, end: int) -> str:
    before, after = _ELLIPSIS * (start > 0), _ELLIPSIS * (end < len(name))
    return f"{before}{name[start:end]}{after}"


def _number_equal(labels: dict[str, str], pixels: float) -> dict[str, str]:
    """Return the labels, with a number after those that another name has."""
    distinct: dict[str, str] = {}
    used = {label for name, label in labels.items() if name == label}
    for name, label in labels.items():
        number = 1
        while label in used and label != name:
            number += 1
            suffix = f" ({number})"
            label = _cut_middle(name, pixels - text_pixels(suffix)) + suffix
        used.add(label)
        distinct[name] = label
    return distinct

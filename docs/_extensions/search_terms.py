"""Sphinx extension: the search finds the page of a metric by the metric's name and its aliases.

Sphinx splits and stems the words of a page, so that `nDCG@k` or `HR` would not be found well. Index
entries are compared as they are, and an entry that equals the query comes first.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import PurePosixPath

from sphinx.application import Sphinx

from weft.metrics.aliases import aliased_metrics, metric_aliases
from weft.metrics.registry import built_in_metrics


@cache
def search_terms() -> dict[str, list[str]]:
    """Return the terms of each metric: its name, and aliases that no other metric has first."""
    names = [metric.__name__ for metric in built_in_metrics()]
    terms = {name: [name, *_split_words(name)] for name in names}
    taken = {term.casefold() for own in terms.values() for term in own}
    for is_shared in (False, True):
        for name in names:
            for alias in metric_aliases(name)[is_shared]:
                if alias.casefold() not in taken and _is_first(alias, name, names):
                    terms[name].append(alias)
                    taken.add(alias.casefold())
    return terms


def _split_words(name: str) -> list[str]:
    """Return `Hit Rate` for `HitRate`, nothing for a name of one word."""
    words = re.findall(r"[A-Z][a-z]+|[A-Z]+(?![a-z])", name)
    return [" ".join(words)] if len(words) > 1 and "".join(words) == name else []


def _is_first(alias: str, name: str, names: list[str]) -> bool:
    """True if the alias names this metric before all others."""
    return aliased_metrics(alias, names)[0] == name


def add_terms(app: Sphinx, docname: str, source: list[str]) -> None:
    """Put the terms of a metric below the title of its page, as entries of the index."""
    path = PurePosixPath(docname)
    terms = search_terms().get(path.name) if path.parent.name == "metrics" else None
    if terms:
        title, _, rest = source[0].partition("\n")
        entries = ", ".join(f"! {term}" for term in terms)
        source[0] = f"{title}\n\n```{{index}} {entries}\n```\n{rest}"


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the function above."""
    app.connect("source-read", add_terms)
    return {"parallel_read_safe": True, "parallel_write_safe": True}

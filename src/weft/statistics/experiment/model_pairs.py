"""Pairs of models that are compared."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator


def pair_models(models: Iterable[str], baseline: str | None) -> Iterator[tuple[str, str]]:
    """Yield every two models, or each model and the baseline, which is the second of its pairs."""
    for first, second in itertools.combinations(models, 2):
        if baseline is None or second == baseline:
            yield first, second
        elif first == baseline:
            yield second, first

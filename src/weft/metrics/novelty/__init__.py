"""Novelty: how unpopular, new or unexpected the recommended items are. Higher is better."""

from weft.metrics.novelty.discounted import EFD, EPC
from weft.metrics.novelty.lists import MIUF, SelfInformation, Surprisal
from weft.metrics.novelty.reference import Intersection, Unexpectedness
from weft.metrics.novelty.serendipity import NewToUser, Serendipity

__all__ = [
    "EFD",
    "EPC",
    "MIUF",
    "Intersection",
    "NewToUser",
    "SelfInformation",
    "Serendipity",
    "Surprisal",
    "Unexpectedness",
]

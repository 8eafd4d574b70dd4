"""Novelty: how unpopular, new or unexpected the recommended items are. Higher is better."""

from weft.metrics.novelty.discounted import EFD, EPC
from weft.metrics.novelty.lists import MIUF, SelfInformation, Surprisal

__all__ = ["EFD", "EPC", "MIUF", "SelfInformation", "Surprisal"]

"""Popularity bias: the shares of popular items and of the long tail in lists and hits."""

from weft.metrics.bias.groups import PopREO, PopRSP
from weft.metrics.bias.lift import PopularityLift
from weft.metrics.bias.lists import ACLT, APLT, ARP, PopularityQuantile

__all__ = ["ACLT", "APLT", "ARP", "PopREO", "PopRSP", "PopularityLift", "PopularityQuantile"]

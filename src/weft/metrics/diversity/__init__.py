"""Diversity: how evenly recommendations spread over the items, how different the items of a list
are, and how many of a user's interests a list covers.
"""

from weft.metrics.diversity.aspects import ERR_IA, P_IA, alpha_nDCG
from weft.metrics.diversity.calibration import Calibration
from weft.metrics.diversity.categories import CategoryDiversity, CategoryEntropy
from weft.metrics.diversity.exposure import Gini, Personalization, ShannonEntropy
from weft.metrics.diversity.intra_list import ILD, ILS
from weft.metrics.diversity.subtopics import SRecall

__all__ = [
    "ERR_IA",
    "ILD",
    "ILS",
    "P_IA",
    "Calibration",
    "CategoryDiversity",
    "CategoryEntropy",
    "Gini",
    "Personalization",
    "SRecall",
    "ShannonEntropy",
    "alpha_nDCG",
]

"""Interactions as sparse rows, the vocabularies that number users and items, their labels and
popularity.
"""

from weft.data.cells import Cells, read_cells
from weft.data.columns import Column
from weft.data.interactions import Interactions
from weft.data.labels import (
    NO_FEATURES,
    NO_LABELS,
    Features,
    Label,
    Labels,
    read_features,
    read_labels,
)
from weft.data.popularity import NO_TRAIN, Train
from weft.data.recommendations import ListRows
from weft.data.vocabulary import Vocabulary

__all__ = [
    "NO_FEATURES",
    "NO_LABELS",
    "NO_TRAIN",
    "Cells",
    "Column",
    "Features",
    "Interactions",
    "Label",
    "Labels",
    "ListRows",
    "Train",
    "Vocabulary",
    "read_cells",
    "read_features",
    "read_labels",
]

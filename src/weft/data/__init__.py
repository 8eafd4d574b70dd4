"""Interactions as sparse rows, and the vocabularies that number users and items."""

from weft.data.cells import Cells, read_cells
from weft.data.interactions import Interactions
from weft.data.vocabulary import Vocabulary

__all__ = ["Cells", "Interactions", "Vocabulary", "read_cells"]

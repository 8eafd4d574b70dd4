"""Recommendation lists, by stage of an evaluation.

`ListTable`     as read, under the caller's ids
`SpilledLists`  in a file that does not fit into memory
`EncodedLists`  all lists by code, best item first
`BatchLists`    the lists of one batch as tensors on its device

The source of an evaluation that owns them is `weft.data.sources.ListSource`."""

from weft.data.recommendations.batch_lists import BatchLists
from weft.data.recommendations.encoded_lists import EncodedLists
from weft.data.recommendations.list_policy import ListPolicy
from weft.data.recommendations.list_table import (
    ROW_RANK_OFFSET,
    ListTable,
    are_lists,
    read_lists,
)
from weft.data.recommendations.spilled_lists import SpilledLists, open_lists

__all__ = [
    "ROW_RANK_OFFSET",
    "BatchLists",
    "EncodedLists",
    "ListPolicy",
    "ListTable",
    "SpilledLists",
    "are_lists",
    "open_lists",
    "read_lists",
]

"""The inputs of an evaluation, read and encoded as integer codes."""

from weft.data.devices import DeviceColumn
from weft.data.features import Features, read_features
from weft.data.interaction_readers import read_interactions
from weft.data.interactions import Interactions, InteractionTable
from weft.data.label_readers import Label
from weft.data.labels import Labels, read_labels
from weft.data.numbers import Numbers
from weft.data.popularity import Train
from weft.data.recommendations import BatchLists
from weft.data.vocabulary import Vocabulary

__all__ = [
    "BatchLists",
    "DeviceColumn",
    "Features",
    "InteractionTable",
    "Interactions",
    "Label",
    "Labels",
    "Numbers",
    "Train",
    "Vocabulary",
    "read_features",
    "read_interactions",
    "read_labels",
]

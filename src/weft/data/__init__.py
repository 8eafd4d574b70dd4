"""The inputs of an evaluation, read and encoded as integer codes."""

from weft.data.devices import DeviceColumn
from weft.data.features import NO_FEATURES, Features, read_features
from weft.data.interaction_readers import read_interactions
from weft.data.interactions import Interactions, InteractionTable
from weft.data.label_readers import Label
from weft.data.labels import NO_LABELS, Labels, read_labels
from weft.data.popularity import NO_TRAIN, Train
from weft.data.recommendations import BatchLists
from weft.data.vocabulary import Vocabulary

__all__ = [
    "NO_FEATURES",
    "NO_LABELS",
    "NO_TRAIN",
    "BatchLists",
    "DeviceColumn",
    "Features",
    "InteractionTable",
    "Interactions",
    "Label",
    "Labels",
    "Train",
    "Vocabulary",
    "read_features",
    "read_interactions",
    "read_labels",
]

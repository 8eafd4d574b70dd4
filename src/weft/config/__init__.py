"""Configurations: the data, models and settings of a run as a YAML file with typed models.

Mistakes are reported with file, line, column and key, all mistakes of a file at once. Importing
this package does not load torch.
"""

from weft.config.configuration import Configuration, from_mapping, load, load_evaluation
from weft.config.evaluation_section import EvaluationSection
from weft.config.schema import schema
from weft.config.sections import DataFiles, EngineSettings, FileSettings

__all__ = [
    "Configuration",
    "DataFiles",
    "EngineSettings",
    "EvaluationSection",
    "FileSettings",
    "from_mapping",
    "load",
    "load_evaluation",
    "schema",
]

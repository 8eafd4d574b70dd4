"""The base classes of all metrics."""

from weft.metrics.base.light_torchmetrics import import_base_class

import_base_class()

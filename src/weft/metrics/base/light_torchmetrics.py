"""TorchMetrics' base class without its metrics: their import takes as long as that of torch.

The package is put into `sys.modules` before its `__init__` is executed. That happens when a name is
looked up that is not there yet, such as `torchmetrics.MetricCollection`.
"""

from __future__ import annotations

import importlib
import importlib.util
import logging
import sys
from types import ModuleType
from typing import Any

_NAME = "torchmetrics"


class _UnexecutedPackage(ModuleType):
    """A package with an `__init__` that is executed when one of its names is missing."""

    def __getattr__(self, name: str) -> Any:
        self.__class__ = ModuleType  # type: ignore[assignment]
        assert self.__spec__ is not None and self.__spec__.loader is not None
        self.__spec__.loader.exec_module(self)
        return getattr(self, name)


def import_base_class() -> None:
    """Import `torchmetrics.metric` and `torchmetrics.utilities`, without the other modules.

    Does nothing if TorchMetrics has been imported; if its modules do not work without its
    `__init__`, they are imported with it.
    """
    if _NAME in sys.modules or (spec := importlib.util.find_spec(_NAME)) is None:
        return
    package = importlib.util.module_from_spec(spec)
    package.__class__ = _UnexecutedPackage
    vars(package)["_logger"] = logging.getLogger(_NAME)  # the only name that both modules need
    sys.modules[_NAME] = package
    try:
        importlib.import_module(f"{_NAME}.utilities")
    except ImportError:
        for name in [name for name in sys.modules if name.partition(".")[0] == _NAME]:
            del sys.modules[name]

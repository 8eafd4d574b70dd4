"""TorchMetrics' base class without its metrics: their import takes as long as that of torch.

The package is put into `sys.modules` before its `__init__` is executed. That happens when a name is
looked up that is not there yet, such as `torchmetrics.MetricCollection`, or when a further module
is imported, such as `torchmetrics.retrieval`, which expects a complete package.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import logging
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_NAME = "torchmetrics"


class _UnexecutedPackage(ModuleType):
    """A package with an `__init__` that is executed when one of its names is missing."""

    def __getattr__(self, name: str) -> Any:
        self.execute()
        return getattr(self, name)

    def execute(self) -> None:
        """Execute the `__init__` of the package."""
        self.__class__ = ModuleType  # type: ignore[assignment]
        assert self.__spec__ is not None and self.__spec__.loader is not None
        self.__spec__.loader.exec_module(self)


class _PackageFirst(importlib.abc.MetaPathFinder):
    """Executes the package before one of its further modules is imported."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        package = sys.modules.get(_NAME)
        if not fullname.startswith(f"{_NAME}.") or not isinstance(package, _UnexecutedPackage):
            return None
        package.execute()
        module = sys.modules.get(fullname)
        if module is None:
            return None
        # importlib reads the spec of a module that is there by now, not the one returned.
        module.__spec__ = ModuleSpec(fullname, _ImportedModule(module))
        return module.__spec__


class _ImportedModule(importlib.abc.Loader):
    """Returns a module that the package has imported meanwhile, instead of a second copy."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module
        self._spec = module.__spec__

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return self._module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


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
    else:
        sys.meta_path.insert(0, _PackageFirst())

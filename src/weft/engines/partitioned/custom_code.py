"""The code of authors' metrics that workers cannot import, which is sent to them by value."""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from weft.evaluation.setting_rules import read_metrics
from weft.metrics.registry import all_metrics, is_metric_class

_STANDARD_LIBRARY = sysconfig.get_path("stdlib")


@contextmanager
def sent_by_value(cloudpickle: Any, metrics: Any) -> Iterator[None]:
    """Let an engine's cloudpickle send the code of metrics with what refers to it.

    These are the registered metrics and those of `metrics`, of modules that are not installed as a
    package: the file of a script, of `custom_modules`, and modules of its folder. What a notebook
    or the main script defines is sent in any case."""
    known = cloudpickle.list_registry_pickle_by_value()
    modules = [module for module in _find_modules(metrics) if module.__name__ not in known]
    for module in modules:
        cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in modules:
            cloudpickle.unregister_pickle_by_value(module)


def _find_modules(metrics: Any) -> list[ModuleType]:
    """Return the modules with the code of metrics, and other modules of their folders."""
    requested = read_metrics(metrics)
    classes = [one if is_metric_class(one) else type(one) for one in requested]
    functions = [getattr(one, "formula", None) for one in requested]
    names = {getattr(one, "__module__", "") for one in (*all_metrics(), *classes, *functions)}
    folders = {file.parent for name in names if (file := _own_file(sys.modules.get(name)))}
    return [
        module
        for module in list(sys.modules.values())
        if (file := _own_file(module)) is not None and not folders.isdisjoint(file.parents)
    ]


def _own_file(module: Any) -> Path | None:
    """Return the file of a module, None for Weft and for what is installed or built in."""
    file = getattr(module, "__file__", None)
    name = str(getattr(module, "__name__", ""))
    if not isinstance(file, str) or name.partition(".")[0] in ("weft", "__main__"):
        return None
    path = Path(file)
    is_installed = {"site-packages", "dist-packages"} & set(path.parts)
    return None if is_installed or path.is_relative_to(_STANDARD_LIBRARY) else path

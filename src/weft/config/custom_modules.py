"""Import of the Python modules with which a configuration registers metrics."""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from weft.config.document import Document, from_home
from weft.config.sections import as_list
from weft.errors import SettingError


def import_custom_modules(document: Document, folder: Path) -> None:
    """Import the modules of `evaluation.custom_modules`, and replace files by their full paths.

    Files are relative to `folder`, that of the YAML file. Modules that cannot be imported are
    problems of the document.
    """
    evaluation = document.values.get("evaluation")
    if not isinstance(evaluation, dict) or "custom_modules" not in evaluation:
        return
    modules = as_list(evaluation["custom_modules"])
    for index, name in enumerate(modules):
        if isinstance(name, str) and name.strip():  # others are refused for their type
            with document.collect(("evaluation", "custom_modules", index)):
                modules[index] = _import(name, folder)
    evaluation["custom_modules"] = modules


def import_modules(names: Sequence[str]) -> None:
    """Import modules by name or by the full path of their file."""
    for name in names:
        _import(name, Path())


def _import(name: str, folder: Path) -> str:
    """Import a module; return its name, or the full path of its file."""
    path = folder / from_home(name)
    if not name.endswith(".py") and "/" not in name:
        path = folder / (name.replace(".", "/") + ".py")
        if not path.is_file():
            with _import_errors(name, folder):
                importlib.import_module(name)
            return name
    if not path.is_file():
        raise SettingError(
            f"there is no file {str(path)!r}; give the path of a .py file, or the name of a module."
        )
    path = path.resolve()
    # The name depends on the path, so that files of the same name are different modules.
    module_name = f"{path.stem}_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise SettingError(f"{str(path)!r} is not a Python file; its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    try:
        with _import_errors(str(path), path.parent):
            spec.loader.exec_module(module)
    except SettingError:
        del sys.modules[module_name]
        raise
    return str(path)


@contextmanager
def _import_errors(name: str, folder: Path) -> Iterator[None]:
    """Let a module import from its folder, and raise its errors as `SettingError` with its name."""
    entry = str(folder.resolve())
    sys.path.insert(0, entry)
    importlib.invalidate_caches()
    try:
        yield
    except SettingError as error:
        raise SettingError(f"{name}: {error.message}") from None
    except (Exception, SystemExit) as error:
        raise SettingError(_explain(name, error, entry)) from None
    finally:
        sys.path.remove(entry)


def _explain(name: str, error: BaseException, folder: str) -> str:
    """Return the message for an exception that importing a module in `folder` raised."""
    if isinstance(error, ModuleNotFoundError):
        if error.name is not None and f"{name}.".startswith(f"{error.name}."):
            return (
                f"there is no module {name!r} in the folder {folder!r} or among the installed "
                "packages; give the name of a module, or the path of a .py file."
            )
        return f"{name} cannot be imported: {error}. Install the missing module."
    line = _name_line(error, folder)
    if isinstance(error, SystemExit):
        return (
            f"{name} cannot be imported: it calls sys.exit{line}. Move the code of the script "
            "under if __name__ == '__main__'."
        )
    if isinstance(error, SyntaxError):
        line = f" (line {error.lineno} of {error.filename})"
    return f"{name} cannot be imported: {type(error).__name__}: {error}{line}."


def _name_line(error: BaseException, folder: str) -> str:
    """Return the place where an import failed, in words: the last line in the author's folder.

    Without a line there, the last line outside the import system is named. The folder comes first
    because libraries replace functions such as `sys.exit` by their own.
    """
    frames = traceback.extract_tb(error.__traceback__)
    outside = [frame for frame in frames if "importlib" not in frame.filename]
    own = [frame for frame in outside if Path(folder) in Path(frame.filename).parents]
    found = (own or outside)[-1:]
    return "".join(f" (line {frame.lineno} of {frame.filename})" for frame in found)

"""Packages import in one direction, and importing Weft is cheap."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import weft

PACKAGE = Path(weft.__file__).parent
# The top-level packages and modules in order: each imports only from itself and from earlier ones.
ORDER = [
    "errors",
    "_choices",
    "_input_kinds",
    "_native",
    "data",
    "ranking",
    "batch",
    "metrics",
    "evaluation",
    "statistics",
    "sampling",
    "report",
    "engines",
    "config",
    "diagnostics",
    "integrations",
    "testing",
    "cli",
    "__main__",
]
# `Result.to_html` and `Result.plot` delegate to the report when they are called.
EXCEPTIONS = {("evaluation/report_mixin.py", "report")}
FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


def imported_modules(tree: ast.AST) -> list[str]:
    """Return the modules of weft that a file imports, anywhere in it, also as `importlib` strings.

    Imports for type checkers only are left out.
    """
    skipped = {
        id(node)
        for guard in ast.walk(tree)
        if isinstance(guard, ast.If) and "TYPE_CHECKING" in ast.dump(guard.test)
        for node in ast.walk(guard)
    }
    modules: list[str] = []
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the package"
            if node.module == "weft":
                modules += [f"weft.{alias.name}" for alias in node.names]
            elif node.module and node.module.startswith("weft."):
                modules.append(node.module)
        elif isinstance(node, ast.Import):
            modules += [alias.name for alias in node.names if alias.name.startswith("weft.")]
        elif isinstance(node, ast.Call) and "import_module" in ast.dump(node.func):
            modules += [
                text.value
                for text in ast.walk(node)
                if isinstance(text, ast.Constant) and str(text.value).startswith("weft.")
            ]
    return modules


def package_of(module: str) -> str:
    return module.split(".")[1]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_packages_import_in_one_direction(path):
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    for module in imported_modules(ast.parse(path.read_text())):
        imported = package_of(module)
        if (path.relative_to(PACKAGE).as_posix(), imported) in EXCEPTIONS:
            continue
        assert ORDER.index(imported) <= ORDER.index(own), f"{path.name} ({own}) imports {module}"


def test_every_package_has_a_place_in_the_order():
    assert {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in FILES} == set(ORDER)


def test_package_has_at_most_fifteen_entries():
    assert len([name for name in ORDER if not name.startswith("_")]) <= 15


def test_import_check_finds_every_kind_of_import():
    source = (
        "import weft.cli\nfrom weft import config\n"
        "def f():\n    from weft.report.html import render\n"
        "    importlib.import_module('weft.engines.ray')\n"
        "    importlib.import_module(f'weft.metrics.{name}')\n"
        "if TYPE_CHECKING:\n    import weft.testing"
    )
    packages = [package_of(module) for module in imported_modules(ast.parse(source))]
    assert sorted(packages) == ["cli", "config", "engines", "metrics", "report"]


def test_public_names_are_complete():
    assert sorted(weft.__all__) == sorted(weft._HOMES)
    for name in weft.__all__:
        assert getattr(weft, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'evaluat'"):
        weft.evaluat  # noqa: B018


def loaded_after(statement: str) -> set[str]:
    code = f"{statement}\nimport sys; print(*sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(out.stdout.split())


@pytest.mark.slow
def test_imports_are_light():
    assert not loaded_after("import weft, weft.cli") & {"torch", "polars", "pandas", "scipy"}
    loaded = loaded_after("import weft; weft.Evaluator; weft.metrics.nDCG(k=1)")
    assert not loaded & {"polars", "pandas", "rich", "sklearn"}

"""The line has one direction: each station imports only those before it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import weft

PACKAGE = Path(weft.__file__).parent
# The stations in order. A module may import from its own station and from earlier ones.
STATIONS = [
    "errors",
    "names",
    "markup",
    "native",
    "data",
    "sources",
    "ranking",
    "orders",
    "blocks",
    "registry",
    "profiles",
    "metrics",
    "shown",
    "result",
    "uncertainty",
    "exposure",
    "composition",
    "telling",
    "tallies",
    "gathered",
    "evaluator",
    "states",
    "problem",
    "offers",
    "job",
    "run",
    "engines",
    "sampling",
    "significance",
    "report",
    "testing",
    "demo",
    "integrations",
    "gates",
    "config",
    "plan",
    "checks",
    "options",
    "flags",
    "cli",
    "__main__",
]


# Whatever is shown asks the report for its looks, when it is asked: the one import that goes the other way.
TURNS_BACK = {("shown", "report")}


def station(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def imported_modules(tree: ast.AST) -> list[str]:
    """What a file imports from weft, except for type checkers only."""
    skipped = {
        id(node)
        for guard in ast.walk(tree)
        if isinstance(guard, ast.If) and "TYPE_CHECKING" in ast.dump(guard.test)
        for node in ast.walk(guard)
    }
    found = []
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "weft":
            found += [f"weft.{alias.name}" for alias in node.names] if node.module == "weft" else [node.module]
        elif isinstance(node, ast.Import):
            found += [alias.name for alias in node.names if alias.name.split(".")[0] == "weft"]
    return found


FILES = sorted(path for path in PACKAGE.rglob("*.py") if path != PACKAGE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_stations_know_only_those_before_them(path):
    own = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
    for module in imported_modules(ast.parse(path.read_text())):
        if (own, station(module)) in TURNS_BACK:
            continue
        assert STATIONS.index(station(module)) <= STATIONS.index(own), f"{path.name} ({own}) imports {module}"


def test_every_module_has_a_station():
    assert {path.relative_to(PACKAGE).parts[0].removesuffix(".py") for path in FILES} == set(STATIONS)


def test_the_check_sees_imports():
    source = "import weft.cli\nfrom weft import registry\nfrom weft.evaluation.api import evaluate\nif TYPE_CHECKING:\n    import weft.cli.demo"
    tree = ast.parse(source)
    assert imported_modules(tree) == ["weft.cli", "weft.metrics.registry", "weft.evaluation.api"]


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


def test_importing_is_light():
    assert not loaded_after("import weft, weft.cli") & {"torch", "polars", "pandas", "scipy"}
    assert not loaded_after("import weft; weft.Evaluator; weft.metrics.nDCG(k=1)") & {"polars", "pandas", "rich", "sklearn"}

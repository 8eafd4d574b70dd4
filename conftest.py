"""Runs the examples: docstrings of the package, and the Python blocks of the README and the docs."""

from pathlib import Path

import pytest
from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser
from sybil.parsers.rest import DocTestParser


@pytest.fixture(scope="module")
def in_an_empty_folder(tmp_path_factory, request):
    """Examples may write files; nobody should have to clean up after them."""
    patch = pytest.MonkeyPatch()
    patch.chdir(tmp_path_factory.mktemp("docs"))
    yield
    patch.undo()


pytest_collect_file = (
    Sybil([DocTestParser()], path=str(Path(__file__).parent / "src"), pattern="**/*.py")
    + Sybil(
        [PythonCodeBlockParser()],
        path=str(Path(__file__).parent),
        patterns=["README.md", "docs/*.md"],
        fixtures=["in_an_empty_folder"],
    )
).pytest()

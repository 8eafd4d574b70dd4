"""Set-up of all tests: examples in docstrings and documents, parallel processes, the fast tier."""

import gc
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import filelock
import hypothesis
import pytest
from sybil import Sybil
from sybil.document import PythonDocStringDocument
from sybil.example import Example, NotEvaluated
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser
from sybil.parsers.rest import DocTestParser
from sybil.python import import_path

# Files whose tests start Ray or Spark, which use the whole machine: they run in one process, one
# after another, and belong to the slow tier.
ENGINE_FILES = (
    "tests/test_clusters.py",
    "tests/test_engine_commands_of_docs.py",
    "tests/test_ray.py",
    "tests/test_spark.py",
    "docs/guide/scale.md",
)
# The folders of docs with examples as Python blocks; those of metrics/ are run as docstrings.
DOCS_FOLDERS = ("guide", "guide/migrate", "concepts", "reference", "develop")
MAX_PROCESSES = 4  # each needs about 1 GB for torch

# There is no time limit per example: these machines are shared. The fast tier draws fewer examples.
_UNTIMED = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("full", **_UNTIMED)
hypothesis.settings.register_profile("fast", **_UNTIMED, max_examples=15)

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread of torch per process


def pytest_configure(config):
    """Choose the number of hypothesis examples: fewer with `pytest -m "not slow"`."""
    tier = "fast" if "not slow" in (config.option.markexpr or "") else "full"
    hypothesis.settings.load_profile(tier)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """Use one process per core for the whole suite, and none for files named by the caller."""
    if config.args_source is not config.ArgsSource.TESTPATHS:
        return 0
    has_affinity = hasattr(os, "sched_getaffinity")
    cores = len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
    return min(MAX_PROCESSES, cores)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Run the tests of a file in one process, so that module fixtures are set up once."""
    from xdist.scheduler import LoadFileScheduling

    class FileScheduling(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return "engines" if file in ENGINE_FILES else file

    config.option.loadscopereorder = False
    return FileScheduling(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark tests of engines as slow, and start with the files that have most slow tests.

    Otherwise one process would still work on such a file when all others are done.
    """
    num_slow = {}
    for item in items:
        if item.nodeid.split("::")[0] in ENGINE_FILES:
            item.add_marker(pytest.mark.slow)
        is_slow = item.get_closest_marker("slow") is not None
        num_slow[item.path] = num_slow.get(item.path, 0) + is_slow
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: -num_slow[item.path])


@pytest.fixture(scope="session")
def demo_folder(tmp_path_factory):
    """The folder that `weft demo` writes, made once for all processes, and what it prints."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    folder = shared / "demo"
    with filelock.FileLock(shared / "demo.lock"):
        if not folder.exists():
            folder.mkdir()
            completed = subprocess.run(
                [sys.executable, "-m", "weft", "demo"],
                cwd=folder,
                env={**os.environ, "COLUMNS": "80"},
                capture_output=True,
                text=True,
                check=True,
            )
            (folder / "output.txt").write_text(completed.stdout, encoding="utf-8")
    return folder


def pytest_collection_finish():
    """Exempt what exists before the first test from garbage collection.

    The objects of more than 20,000 tests made every full collection take about a second.
    """
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="module")
def in_an_empty_folder(tmp_path_factory, request):
    """Change to an empty folder, or to that of `weft demo` if the page changes to it."""
    folder = tmp_path_factory.mktemp("docs")
    page = request.path
    if re.search(r"^(\$ )?cd weft-demo$", page.read_text(encoding="utf-8"), re.MULTILINE):
        shutil.copytree(request.getfixturevalue("demo_folder") / "weft-demo", folder / "weft-demo")
        folder /= "weft-demo"
    patch = pytest.MonkeyPatch()
    patch.chdir(folder)
    yield
    patch.undo()


class SeparateDocstrings(PythonDocStringDocument):
    """The docstrings of a module; an example sees the names of its module and of its docstring."""

    def import_document(self, example):
        if not example.namespace:
            example.namespace.update(vars(import_path(Path(self.path))))
        raise NotEvaluated

    def examples(self):
        namespaces = {(start, end): {} for start, end, _ in self.extract_docstrings(self.text)}
        for example in super().examples():
            position = example.start
            (namespace,) = (
                names for (start, end), names in namespaces.items() if start <= position <= end
            )
            yield Example(self, example.line, example.column, example.region, namespace)


pytest_collect_file = (
    Sybil(
        [DocTestParser()],
        path=str(Path(__file__).parent / "src"),
        pattern="**/*.py",
        document_types={".py": SeparateDocstrings},
    )
    + Sybil(
        [PythonCodeBlockParser(), SkipParser()],
        path=str(Path(__file__).parent),
        patterns=["README.md", "docs/*.md", *(f"docs/{name}/*.md" for name in DOCS_FOLDERS)],
        fixtures=["in_an_empty_folder"],
    )
).pytest()

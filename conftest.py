"""Runs the examples (docstrings of the package, Python blocks of the README and the docs), and
everything in several processes.
"""

import os
from pathlib import Path

import hypothesis
import pytest
from sybil import Sybil
from sybil.document import PythonDocStringDocument
from sybil.example import Example, NotEvaluated
from sybil.parsers.markdown import PythonCodeBlockParser, SkipParser
from sybil.parsers.rest import DocTestParser
from sybil.python import import_path

# What starts an engine, which wants the whole machine: one of them at a time, in one process.
ENGINES = ("tests/test_ray.py", "tests/test_spark.py", "docs/scale.md")
PROCESSES = 4  # at most: each loads torch, and 1 GB will do for it

# How long an example takes to draw depends on what else the machine does.
hypothesis.settings.register_profile(
    "untimed", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("untimed")

if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # torch's threads would wait for each other


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """`pytest` alone runs in as many processes as there are cores; what is named, in this one."""
    if config.args_source is not config.ArgsSource.TESTPATHS:
        return 0
    return min(
        PROCESSES,
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """A file's tests run in one process, so that what a module sets up is set up once."""
    from xdist.scheduler import LoadFileScheduling

    class Files(LoadFileScheduling):
        def _split_scope(self, nodeid):
            file = super()._split_scope(nodeid)
            return "engines" if file in ENGINES else file

    config.option.loadscopereorder = False
    return Files(config, log)


def pytest_collection_modifyitems(config, items):
    """Files with slow tests come first, so that no process works on one of them at the end while
    all others wait.
    """
    if not hasattr(config, "workerinput"):
        return
    slow = {}
    for item in items:
        slow[item.path] = slow.get(item.path, 0) + (item.get_closest_marker("slow") is not None)
    items.sort(key=lambda item: -slow[item.path])


@pytest.fixture(scope="module")
def in_an_empty_folder(tmp_path_factory, request):
    """Examples may write files; nobody should have to clean up after them."""
    patch = pytest.MonkeyPatch()
    patch.chdir(tmp_path_factory.mktemp("docs"))
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
        patterns=["README.md", "docs/*.md"],
        fixtures=["in_an_empty_folder"],
    )
).pytest()

"""A metric is added in one file: everything else finds it by itself.

A copy of the package gets one new module with one metric. Nothing else is changed.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
MODULE = '''"""A family of one metric."""

from torch import Tensor

from weft.batch.topk import TopK
from weft.metrics.base.formulas import UserAverageTopKMetric
from weft.metrics.registry import register


@register
class HitDensity(UserAverageTopKMetric):
    """The number of hits per position of the list.

    Edge cases: an empty list counts 0.

    Example: one of two positions is a hit.

    >>> import torch, weft
    >>> metric = weft.metrics.HitDensity(k=2)
    >>> metric.update(torch.tensor([[0.9, 0.1, 0.5]]), torch.tensor([[1, 1, 0]]))
    >>> metric.compute()
    tensor(0.5000, dtype=torch.float64)
    """

    family = "diversity"
    higher_is_better = True
    bounds = (0.0, 1.0)
    reference = "The invention of this test, doi 10.1145/963770.963772"

    def user_values(self, topk: TopK) -> Tensor:
        return topk.hits / topk.k
'''
# Runs in the copy; prints what each place knows of the metric.
SCRIPT = '''
import doctest, importlib, json, sys
from pathlib import Path

import metric_cases, weft
from benchmarks import cases
from oracles_beyond_accuracy import missing_oracles
from weft.cli import options
from weft.cli import main as run_command
from weft.config.schema import schema
from weft.metrics.registry import all_metrics, built_in_metrics, canonical_name
from weft.report.metric_pages import render_pages
from weft.testing import CHECKS, check_metric

def printed(*arguments):
    """Run `weft` and return what it prints."""
    import contextlib, io
    stream = io.StringIO()
    sys.argv = ["weft", *arguments]
    with contextlib.redirect_stdout(stream), contextlib.suppress(SystemExit):
        run_command()
    return stream.getvalue()

folder, name = Path(sys.argv[1]), "HitDensity"
pages = render_pages()
Path(folder / "lists.csv").write_text("user,item,score\\na,1,0.9\\na,2,0.5\\nb,2,0.7\\nb,1,0.6\\n")
Path(folder / "truth.csv").write_text("user,item\\na,1\\nb,1\\nb,2\\n")
Path(folder / "run.yaml").write_text(
    "data: {truth: truth.csv}\\nmodels: {mine: lists.csv}\\n"
    "evaluation: {metrics: [hitdensity], top_k: 2}\\n"
)
module = importlib.import_module("weft.metrics.hit_density")
print(json.dumps({
    "registry": name in [metric.__name__ for metric in all_metrics()],
    "canonical name": canonical_name("hitdensity@5"),
    "export": weft.metrics.HitDensity.__name__,
    "dir": name in dir(weft.metrics),
    "doctest": doctest.testmod(module).failed == 0 < doctest.testmod(module).attempted,
    "python": weft.evaluate({"a": [1, 2]}, {"a": [1]}, metrics="HitDensity@2").entries[0].value,
    "command line": printed("evaluate", str(folder / "run.yaml"), "--format", "json"),
    "weft metrics": printed("metrics"),
    "weft metrics NAME": printed("metrics", "hitdensity"),
    "completion": options.complete_metrics("nDCG,hitd"),
    "schema": name in json.dumps(schema()),
    "docs page": pages.get("metrics/HitDensity.md", ""),
    "docs index": "[HitDensity@k](HitDensity.md)" in pages["metrics/README.md"],
    "tests over all metrics": name in metric_cases.BUILT_IN,
    "conformance": check_metric(name).keys() == CHECKS.keys(),
    "benchmarks": name in cases.ALL_METRICS and name in cases.METRICS_BY_COST,
    "missing oracles": missing_oracles(m.__name__ for m in built_in_metrics()),
}))
'''


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("new_metric")
    ignored = shutil.ignore_patterns("__pycache__", "*.cpp")
    shutil.copytree(ROOT / "src" / "weft", folder / "weft", ignore=ignored)
    (folder / "weft" / "metrics" / "hit_density.py").write_text(MODULE)
    paths = os.pathsep.join(map(str, (folder, ROOT / "tests", ROOT)))
    environment = {**os.environ, "PYTHONPATH": paths, "COLUMNS": "100"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(folder)],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize(
    "where",
    [
        *("registry", "dir", "doctest", "schema", "docs index", "tests over all metrics"),
        *("conformance", "benchmarks"),
    ],
)
def test_finds_a_new_metric(found, where):
    assert found[where] is True


def test_evaluates_a_new_metric(found):
    assert found["canonical name"] == "HitDensity@5" and found["export"] == "HitDensity"
    assert found["python"] == 0.5


def test_command_line_knows_a_new_metric(found):
    assert '"HitDensity"' in found["command line"] and "0.75" in found["command line"]
    assert "HitDensity@k" in found["weft metrics"]
    assert "The number of hits per position of the list." in found["weft metrics NAME"]
    assert found["completion"] == ["nDCG,HitDensity"]


def test_new_metric_has_a_page(found):
    page = found["docs page"]
    assert page.startswith("# HitDensity@k\n\nThe number of hits per position of the list.")
    assert "An empty list counts 0." in page and ">>> metric = weft.metrics.HitDensity(k=2)" in page


def test_new_metric_lacks_only_an_oracle(found):
    assert found["missing oracles"] == ["HitDensity"]

"""Real engines for tests: Ray, and Spark with its Java. Without one, tests are skipped, or fail
under WEFT_REQUIRE_ENGINES=1.
"""

from __future__ import annotations

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from weft.config import load
from weft.config.run import run
from weft.errors import MetricError, SettingError
from weft.metrics import registry


def require_ray() -> None:
    """Go on only where Ray is installed."""
    if find_spec("ray") is None:
        _is_missing("no Ray; install it with: pip install -c constraints.txt '.[ray]'")


def require_spark() -> None:
    """Go on only where Spark and a Java for it are installed."""
    if find_spec("pyspark") is None:
        _is_missing("no Spark; install it with: pip install -c constraints.txt '.[spark]'")
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=os.path.join(home, "bin") if home else None) is None:
        _is_missing(
            "no Java for Spark; install Debian's default-jre-headless, or name a Java in JAVA_HOME"
        )


def write_custom_metrics(folder: Path, engine: str | None = None) -> Path:
    """Write a configuration with a module of metrics, which imports another one, and its data."""
    sys.modules.pop("own_helper", None)  # that of another folder, which another test imported
    (folder / "own_helper.py").write_text(
        "def divide(hits, k):\n"
        "    if k == 7:\n"
        "        raise ArithmeticError('not by seven')\n"
        "    return hits.double() / k\n"
    )
    (folder / "own_metrics.py").write_text(_CUSTOM_METRICS)
    users = [f"u{number}" for number in range(23)]
    lists = [
        (user, f"i{(number * 7 + place) % 11}", 9 - place)
        for number, user in enumerate(users)
        for place in range(6)
    ]
    truth = [
        (user, f"i{(number * 5 + place * 3) % 11}")
        for number, user in enumerate(users)
        for place in range(3)
    ]
    groups = [(user, "few" if number % 3 == 0 else "many") for number, user in enumerate(users)]
    for name, header, rows in (
        ("lists", "user,item,score", lists),
        ("truth", "user,item", truth),
        ("groups", "user,label", groups),
    ):
        lines = [header, *(",".join(map(str, row)) for row in rows)]
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    path = folder / "run.yaml"
    path.write_text(
        "data: {truth: truth.csv, user_groups: groups.csv}\nmodels: {m: lists.csv}\n"
        "evaluation:\n  custom_modules: own_metrics.py\n"
        "  metrics: [OwnShare@5, OwnGroupHits@5, OwnShare@5 * nDCG@5]\n"
        + (f"engine: {{name: {engine}, parts: 3}}\n" if engine else "")
    )
    return path


_CUSTOM_METRICS = '''
import own_helper
import torch
import weft


@weft.register
class OwnShare(weft.UserAverageTopKMetric):
    """Hits divided by k, by a function of another module of the folder."""

    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        return own_helper.divide(top_k_rel.sum(1), self.k)


@weft.register
class OwnGroupHits(weft.TopKMetric):
    """The difference of the hits of two groups of users, in states of its own."""

    _REQUIRED_COMPONENTS = {weft.MetricBlock.TOP_K_BINARY_RELEVANCE}

    def __init__(self, k, *, user_groups, **settings):
        super().__init__(k, **settings)
        self._groups = user_groups
        states = torch.zeros(len(user_groups.names), dtype=torch.float64)
        self.add_state("hits", states, dist_reduce_fx="sum")

    def update(self, preds, **kwargs):
        groups = self._groups.codes.lookup(kwargs["user_indices"], -1).long()
        hits = kwargs[f"top_{self.k}_binary_relevance"].sum(1).double()
        self.hits = self.hits.index_add(0, groups, hits)

    def compute(self):
        return self.hits[1] - self.hits[0]


@weft.register
class OwnRows(weft.TopKMetric):
    """A state with a row for each user."""

    def __init__(self, k, *, num_users, **settings):
        super().__init__(k, **settings)
        self.add_state("rows", torch.zeros(num_users), dist_reduce_fx="sum")

    def update(self, preds, **kwargs):
        self.rows = self.rows.index_fill(0, kwargs["user_indices"], 1)

    def compute(self):
        return self.rows.mean()
'''


def check_custom_metrics(folder: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that metrics of a file have the values of one process on an engine, and its errors."""
    monkeypatch.setattr("weft.metrics.registry._classes", dict(registry._classes))
    path = write_custom_metrics(folder)
    (expected,) = run(load(path))
    write_custom_metrics(folder, engine)
    (result,) = run(load(path))
    assert [value.name for value in result.entries] == [value.name for value in expected.entries]
    for one, other in zip(result.entries, expected.entries):
        assert one.value == pytest.approx(other.value, rel=1e-12)
        assert one.users == other.users
    assert expected["OwnGroupHits@5"] > 0
    assert result["OwnShare@5 * nDCG@5"] > 0
    with pytest.raises(
        MetricError, match="OwnShare@7 failed: ArithmeticError: not by seven"
    ) as error:
        run(load(path, {"evaluation": {"metrics": ["OwnShare@7"]}}))
    assert "own_helper.py" in str(error.value) and "in compute_scores" in str(error.value)
    with pytest.raises(SettingError, match=r"OwnRows@5 takes num_users, but on .* each partition"):
        run(load(path, {"evaluation": {"metrics": ["OwnRows@5"]}}))


def _is_missing(what: str) -> None:
    if os.environ.get("WEFT_REQUIRE_ENGINES") == "1":
        pytest.fail(what)
    pytest.skip(what)

"""The command line as a user meets it: a new process, an empty folder."""

import json
import os
import subprocess
import sys

import pytest

import weft


def run(*arguments, cwd, check=True):
    done = subprocess.run([sys.executable, "-m", "weft", *arguments], cwd=cwd, capture_output=True, text=True, timeout=120)
    if check:
        assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    folder = tmp_path_factory.mktemp("demo")
    return folder, run("demo", cwd=folder)


def test_demo_prints_a_table_and_writes_results(demo):
    folder, done = demo
    for word in ("popularity", "item_knn", "factors", "nDCG@10", "GAUC", "±", "95 % confidence intervals"):
        assert word in done.stdout
    assert done.stderr == ""  # no progress bar where nobody watches
    results = {path.stem: weft.load_result(path) for path in (folder / "weft-demo").glob("*.json")}
    assert set(results) == {"popularity", "item_knn", "factors"}
    for result in results.values():
        assert result.counts["evaluated_users"] == 1000
        assert result.per_user is not None and len(result.per_user) == 1000
        assert result.entry("nDCG@10").ci_low < result["nDCG@10"] < result.entry("nDCG@10").ci_high
    assert results["item_knn"]["nDCG@10"] > 1.2 * results["popularity"]["nDCG@10"]
    assert any("equal scores" in note for note in results["popularity"].notes)


def test_demo_is_deterministic(demo, tmp_path):
    folder, _ = demo
    run("demo", "--out", "again", cwd=tmp_path)
    for name in ("popularity", "item_knn", "factors"):
        first, second = (json.loads((where / f"{name}.json").read_text()) for where in (folder / "weft-demo", tmp_path / "again"))
        assert first == second


def test_the_next_two_commands_work(demo):
    folder, done = demo
    lines = [line.strip() for line in done.stdout.splitlines()]
    commands = [line.split() for line in lines[lines.index("Next, try:") + 1 :]]
    assert [command[:2] for command in commands] == [["weft", "compare"], ["weft", "metrics"]]
    comparison, explanation = (run(*command[1:], cwd=folder).stdout for command in commands)
    assert "item_knn against factors" in comparison and "nDCG@10" in comparison and "*" in comparison
    assert "trec_eval" in explanation and "0.4258" in explanation and "0.5639" in explanation


def test_tables_fit_80_columns(demo):
    folder, done = demo
    compared = run("compare", "weft-demo/item_knn.json", "weft-demo/factors.json", cwd=folder)
    for line in [*done.stdout.splitlines(), *compared.stdout.splitlines()]:
        assert len(line) <= 80 or line.startswith("Written"), line


def test_compare_takes_metrics_tests_and_corrections(demo):
    folder, _ = demo
    files = [f"weft-demo/{name}.json" for name in ("popularity", "item_knn", "factors")]
    done = run("compare", *files, "-m", "ndcg@10", "-t", "wilcoxon", "--correction", "fdr", cwd=folder)
    assert done.stdout.count("nDCG@10") == 3 and "Recall" not in done.stdout
    assert "wilcoxon, p adjusted by fdr" in done.stdout.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["metrics", "nDGC"], "Did you mean 'nDCG'?"),
        (["compare", "a.json", "b.json"], "a.json: there is no such file"),
        (["compare", "weft-demo/factors.json"], "at least two results"),
        (["compare", "weft-demo/factors.json", "weft-demo/item_knn.json", "-m", "nDCG@7"], "not every result has it"),
        (["compare", "weft-demo/factors.json", "weft-demo/item_knn.json", "--correction", "hol"], "Did you mean 'holm'?"),
        (["demo", "--out", "weft-demo/factors.json"], "cannot be written"),
    ],
)
def test_a_users_error_is_one_message_and_exit_code_2(demo, arguments, message):
    folder, _ = demo
    done = run(*arguments, cwd=folder, check=False)
    assert done.returncode == 2
    assert message in done.stderr and "Traceback" not in done.stderr
    assert done.stderr.startswith("error: ")


def test_debug_shows_the_traceback(tmp_path):
    done = run("--debug", "metrics", "nDGC", cwd=tmp_path, check=False)
    assert done.returncode != 0 and "Traceback" in done.stderr


def test_version_help_and_list(tmp_path):
    assert run("--version", cwd=tmp_path).stdout.startswith("weft 0.")
    assert "weft demo" in run("--help", cwd=tmp_path).stdout
    listed = run("metrics", cwd=tmp_path).stdout
    assert "nDCG@k" in listed and "GAUC" in listed and "higher" in listed and "closer to 1" in listed


def test_a_metric_is_explained(tmp_path):
    told = run("metrics", "ndcg", cwd=tmp_path).stdout
    assert (
        "2^r - 1" in told and "Järvelin" in told and "parameter  gain = 'exponential'" in told and "scores and truth only" in told
    )
    assert "needs      train, user_groups, item_clusters" in run("metrics", "BiasDisparityBD", cwd=tmp_path).stdout
    assert "parameter  metric_names must be given" in run("metrics", "Hypervolume", cwd=tmp_path).stdout


def test_a_metric_under_every_definition(tmp_path):
    shown = run("metrics", "nDCG", "--profiles", cwd=tmp_path).stdout
    for words in ("nDCG(gain=exponential_shifted)", "rectools", "0.2983", "0.5067", "0.4249"):
        assert words in shown
    gini = run("metrics", "Gini", "--profiles", cwd=tmp_path).stdout
    assert "1 - Gini" in gini and "not covered by: trec_eval, ranx" in gini
    assert "rectools" in run("metrics", "--profiles", cwd=tmp_path).stdout


def test_a_progress_bar_shows_where_somebody_watches_and_it_takes_longer_than_a_second(tmp_path):
    pty = pytest.importorskip("pty")
    (tmp_path / "slow.py").write_text(
        "import time, torch, weft\n"
        "def model(users):\n"
        "    time.sleep(0.4)\n"
        "    return torch.rand(len(users), 50)\n"
        "weft.evaluate(model, {user: [1] for user in range(20)}, metrics='MRR@5', batch_size=4, progress=True)\n"
    )
    watched, stderr = pty.openpty()
    process = subprocess.Popen([sys.executable, "slow.py"], cwd=tmp_path, stderr=stderr, env={**os.environ, "TERM": "xterm"})
    os.close(stderr)
    shown = b""
    try:
        while part := os.read(watched, 4096):
            shown += part
    except OSError:  # the other end was closed
        pass
    assert process.wait() == 0
    assert b"evaluating users" in shown

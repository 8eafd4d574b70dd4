"""Clusters of two nodes on loopback: equal values, also if a node is lost; causes of failures."""

import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

import weft
from clusters import SparkCluster, free_port, run_python, spark_environment, wait_until
from engines import require_ray, require_spark
from test_partitioned import LISTS, TRAIN, TRUTH
from weft.engines import ray as on_ray
from weft.engines.spark.job_watch import _find_problem
from weft.errors import EngineWarning

SETTINGS = {"metrics": ["nDCG", "Gini", "EPC"], "top_k": [3, 8], "bootstrap": 10}
NAMES = [f"{name}@{k}" for name in SETTINGS["metrics"] for k in SETTINGS["top_k"]]


class HitsAfterLoss(weft.UserAverageTopKMetric):
    """Hits; the first worker of the node `victim` waits until the node is killed."""

    victim = marker = ""

    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        import ray

        marker = Path(self.marker)
        if ray.get_runtime_context().get_node_id() == self.victim and not marker.exists():
            marker.touch()
            wait_until(lambda: False)
        return top_k_rel.sum(dim=1).float()


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    for name, frame in {"lists": LISTS, "truth": TRUTH, "train": TRAIN}.items():
        frame.write_parquet(folder / f"{name}.parquet")
    return folder


# --------------------------------------------------------------------------------------------------


DRIVER = """
import json, sys, time
from pathlib import Path

import weft
from weft.engines import spark

folder, address, marker, killed = sys.argv[1:5]

class HitsAfterLoss(weft.UserAverageTopKMetric):
    higher_is_better = True

    def compute_scores(self, preds, target, top_k_rel, **kwargs):
        try:
            with open(marker, "x") as file:
                file.write(str(Path.cwd()))  # in the work folder of the worker
        except FileExistsError:
            return top_k_rel.sum(dim=1).float()
        while not Path(killed).exists():
            time.sleep(0.1)
        raise SystemExit

settings = json.loads(sys.argv[5])
settings["metrics"].append(HitsAfterLoss(k=3))
lists, truth, train = (f"{folder}/{name}.parquet" for name in ("lists", "truth", "train"))
result = spark.evaluate(lists, truth, train=train, address=address, parts=4, **settings)
print(json.dumps({value.name: value.value for value in result.entries}))
"""


@pytest.fixture(scope="module")
def spark_cluster(tmp_path_factory):
    require_spark()
    cluster = SparkCluster(tmp_path_factory.mktemp("cluster"))
    yield cluster
    cluster.stop()


def evaluate_command(files, cluster):
    data = ["--recs", str(files / "lists.parquet"), "--truth", str(files / "truth.parquet")]
    engine = ["--engine", "spark", "--address", cluster.url, "--parts", "2"]
    return ["-m", "weft", "evaluate", *data, "-m", "nDCG@3", *engine]


def test_missing_memory_is_reported(files, spark_cluster):
    done = run_python(
        *evaluate_command(files, spark_cluster), environment=spark_environment(memory="4g")
    )
    assert done.returncode == 2 and done.stderr.count("error") == 1
    assert (
        "error: Spark cannot start executors: each asks for 4096 MB (spark.executor.memory), but "
        f"no worker of '{spark_cluster.url}' has more than 768 MB." in done.stderr
    )


def test_wrong_interpreter_is_reported(files, spark_cluster):
    environment = spark_environment(PYSPARK_PYTHON="/no/such/python")
    done = run_python(*evaluate_command(files, spark_cluster), environment=environment)
    assert done.returncode == 2 and "Caused by" not in done.stderr
    assert "error: the executors of Spark cannot start Python: '/no/such/python'" in done.stderr


def test_spark_cluster_loses_a_worker(files, spark_cluster, tmp_path):
    """Last of the tests of this cluster, which has one worker afterwards."""
    marker, killed = tmp_path / "marker", tmp_path / "killed"

    def kill():
        wait_until(lambda: marker.exists() and marker.read_text())
        spark_cluster.kill_worker(
            Path(marker.read_text()).relative_to(spark_cluster.folder).parts[0]
        )
        killed.touch()

    killer = threading.Thread(target=kill)
    killer.start()
    done = run_python(
        *("-W", "ignore", "-c", DRIVER, str(files), spark_cluster.url, str(marker), str(killed)),
        json.dumps(SETTINGS),
        environment=spark_environment(),
    )
    killer.join()
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    expected = weft.evaluate(LISTS, TRUTH, train=TRAIN, **SETTINGS)
    for name in NAMES:
        assert found[name] == pytest.approx(expected[name], abs=1e-12), name


class Context:
    """The answers of a session at a master that is no standalone one."""

    master, applicationId = "yarn", "app-1"

    @staticmethod
    def getConf():
        return {"spark.driver.host": "10.0.0.1"}


def test_executors_that_end_are_reported():
    problem = _find_problem(Context, ["Command exited with code 1"] * 2)
    assert not problem.is_final and "no executor of Spark has started at 'yarn'" in problem.message
    problem = _find_problem(Context, ["Command exited with code 1"] * 3)
    assert problem.is_final and "(3 so far): Command exited with code 1." in problem.message
    assert "file 'stderr' of the application app-1" in problem.message
    assert "'10.0.0.1' (spark.driver.host)" in problem.message
    assert issubclass(EngineWarning, UserWarning)


# --------------------------------------------------------------------------------------------------


def test_ray_cluster_loses_a_node(files, tmp_path):
    require_ray()
    import ray
    from ray.cluster_utils import Cluster

    folders = os.pathsep.join([str(Path(weft.__file__).parents[1]), str(Path(__file__).parent)])
    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "include_dashboard": False},
    )
    node = cluster.add_node(num_cpus=1)
    ray.init(
        cluster.address,
        log_to_driver=False,
        logging_level="ERROR",
        runtime_env={"env_vars": {"PYTHONPATH": folders}},
    )
    marker = tmp_path / "marker"
    metric = type(
        "HitsAfterLoss", (HitsAfterLoss,), {"victim": node.node_id, "marker": str(marker)}
    )

    def kill():
        wait_until(marker.exists)
        cluster.remove_node(node, allow_graceful=False)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        tables = {name: str(files / f"{name}.parquet") for name in ("lists", "truth", "train")}
        settings = {**SETTINGS, "metrics": [*SETTINGS["metrics"], metric(k=3)]}
        found = on_ray.evaluate(
            tables["lists"], tables["truth"], train=tables["train"], parts=4, **settings
        )
        killer.join()
        assert marker.exists() and len(ray.nodes()) == 2
    finally:
        ray.shutdown()
        cluster.shutdown()
    expected = weft.evaluate(LISTS, TRUTH, train=TRAIN, **SETTINGS)
    for name in NAMES:
        assert found[name] == pytest.approx(expected[name], abs=1e-12), name


def test_wrong_ray_token_is_reported():
    require_ray()
    with tempfile.TemporaryDirectory(prefix="ray", dir="/tmp") as folder:  # sockets: a short path
        _check_wrong_token(folder)


def _check_wrong_token(folder):
    port = free_port()
    secured = {**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a" * 64}
    start = ["--head", f"--port={port}", "--num-cpus=1", "--include-dashboard=false"]
    start.append(f"--temp-dir={folder}")  # else later tests would find this cluster
    head = subprocess.Popen(
        [sys.executable, "-m", "ray.scripts.scripts", "start", *start, "--block"],
        env=secured,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    connect = f"""
from weft.engines import ray
from weft.errors import EngineError
try:
    with ray.cluster("127.0.0.1:{port}"):
        print("connected")
except EngineError as error:
    print(error)
"""
    try:
        wait_until(lambda: _is_open(port))
        done = run_python("-c", connect, environment={**secured, "RAY_AUTH_TOKEN": "b" * 64})
    finally:
        head.terminate()
        head.wait()
    assert re.match(
        f"Ray at '127.0.0.1:{port}' rejected the token of this process.* RAY_AUTH_TOKEN",
        done.stdout,
    )
    assert "InvalidAuthToken" not in done.stderr


def _is_open(port):
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0

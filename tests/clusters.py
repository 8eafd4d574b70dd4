"""Clusters on the loopback interface: a standalone Spark master with workers, and the set-up of a
driver in a process of its own.
"""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


def wait_until(is_true, seconds=120.0):
    """Wait for a condition; fail if it does not become true."""
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.1)


class SparkCluster:
    """A master and two workers with a core and 768 MB each; `workers` has them by work folder."""

    def __init__(self, folder):
        import pyspark

        self.folder = Path(folder)
        self._program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        port = free_port()
        self.url = f"spark://127.0.0.1:{port}"
        common = ["--host", "127.0.0.1", "--webui-port", "0"]
        self._processes = [self._start("master.Master", *common, "--port", str(port))]
        self.workers = {}
        for name in ("one", "two"):
            limits = ["--cores", "1", "--memory", "768m", "--work-dir", str(self.folder / name)]
            self.workers[name] = self._start("worker.Worker", *common, *limits, self.url)
        self._processes += self.workers.values()
        wait_until(lambda: all("registered" in self._log(each) for each in self.workers.values()))

    def kill_worker(self, name):
        """Kill a worker and its executors at once."""
        os.killpg(self.workers[name].pid, signal.SIGKILL)

    def stop(self):
        for process in self._processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            process.wait()

    def _start(self, role, *arguments):
        log = self.folder / f"{role}-{len(list(self.folder.glob('*.log')))}.log"
        with log.open("w") as output:
            process = subprocess.Popen(
                [self._program, f"org.apache.spark.deploy.{role}", *arguments],
                env=spark_environment(),
                stdout=output,
                stderr=output,
                start_new_session=True,  # a group of its own, with its executors
            )
        process.log = log
        return process

    def _log(self, process):
        return process.log.read_text()


def spark_environment(*, memory="512m", **variables):
    """Return environment variables of a driver, with the settings of its session."""
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.memory": memory,
    }
    submit = " ".join(f"--conf {name}={value}" for name, value in settings.items())
    ours = {
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_SUBMIT_ARGS": f"{submit} pyspark-shell",
        "PYTHONPATH": str(ROOT / "src"),
    }
    return {**os.environ, **ours, **variables}


def run_python(*words, environment):
    """Run Python in a process of its own."""
    return subprocess.run(
        [sys.executable, *words], env=environment, capture_output=True, text=True, timeout=240
    )

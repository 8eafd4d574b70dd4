"""A watch over the jobs of an evaluation: progress, warnings, executors that never start."""

from __future__ import annotations

import re
import threading
import time
import uuid
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

from weft.engines.spark.failures import java_error
from weft.engines.spark.sessions import read_java_log
from weft.errors import EngineError, EngineWarning
from weft.evaluation.progress import ShowProgress, progress_bar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_POLL_SECONDS = 0.5
_PATIENCE_SECONDS = 10.0  # that tasks may wait for the first executor
_FAILED_STARTS = 3  # executors that ended before the evaluation is given up
_ENDED = re.compile(r"Executor \S+ removed: (?P<reason>.+)")


@contextmanager
def watch_jobs(spark: SparkSession, *, progress: bool) -> Iterator[None]:
    """Watch the jobs that this thread starts.

    Shows a bar of their tasks on a terminal if `progress`, issues Spark's warnings as
    `EngineWarning`, and raises EngineError if no executor can start.
    """
    watch = _JobWatch(spark, progress=progress)
    spark.sparkContext.addJobTag(watch.tag)
    watch.start()
    try:
        yield
    except Exception:
        if watch.failure is not None:
            raise EngineError(watch.failure) from None
        raise
    finally:
        watch.stop()
        if spark.sparkContext._jsc is not None:
            spark.sparkContext.removeJobTag(watch.tag)


class _Problem(NamedTuple):
    """Why no executor runs; `is_final` if waiting does not help."""

    message: str
    is_final: bool


class _JobWatch(threading.Thread):
    """Polls the state of a session until it is stopped; cancels its jobs if they cannot run."""

    def __init__(self, spark: SparkSession, *, progress: bool) -> None:
        super().__init__(name="weft-spark-watch", daemon=True)
        self.tag = f"weft-{uuid.uuid4().hex}"
        self.failure: str | None = None
        self._context: Any = spark.sparkContext
        self._progress = progress
        self._is_cluster = not str(self._context.master).startswith("local")
        self._idle_since: float | None = None
        self._has_warned = False
        self._ended: list[str] = []  # why executors ended
        self._is_stopped = threading.Event()

    def stop(self) -> None:
        self._is_stopped.set()
        self.join()

    def run(self) -> None:
        with progress_bar("tasks of Spark", is_enabled=self._progress) as show:
            while not self._is_stopped.wait(_POLL_SECONDS):
                try:
                    self._poll(show)
                except java_error():
                    if self._context._jsc is None or self._context._jsc.sc().isStopped():
                        return  # the jobs fail by themselves
                    raise

    def _poll(self, show: ShowProgress) -> None:
        if self._context._jsc is None:
            return
        stages = self._active_stages()
        if stages:
            show(
                sum(stage.numCompletedTasks for stage in stages),
                sum(stage.numTasks for stage in stages),
            )
        if self._is_cluster:
            self._read_log()
            is_idle = bool(stages) and not any(stage.numActiveTasks for stage in stages)
            self._check_executors(is_idle=is_idle)

    def _active_stages(self) -> list[Any]:
        """Return the `SparkStageInfo` of each stage that runs."""
        tracker = self._context.statusTracker()
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return [stage for stage in stages if stage is not None]

    def _check_executors(self, *, is_idle: bool) -> None:
        """Report that no executor runs if tasks have waited longer than `_PATIENCE_SECONDS`."""
        # The driver counts as one.
        if not is_idle or self._context._jsc.sc().getExecutorMemoryStatus().size() > 1:
            self._idle_since = None
        elif self._idle_since is None:
            self._idle_since = time.monotonic()
        elif time.monotonic() - self._idle_since > _PATIENCE_SECONDS and self.failure is None:
            self._report(_find_problem(self._context, self._ended))

    def _read_log(self) -> None:
        for level, message in read_java_log():
            if level != "INFO":
                warnings.warn(f"Spark: {message}", EngineWarning, stacklevel=1)
            elif match := _ENDED.fullmatch(message):
                self._ended.append(match["reason"])

    def _report(self, problem: _Problem) -> None:
        if problem.is_final:
            self.failure = problem.message
            self._context.cancelJobsWithTag(self.tag)
        elif not self._has_warned:
            self._has_warned = True
            warnings.warn(problem.message, EngineWarning, stacklevel=1)


# --------------------------------------------------------------------------------------------------


def _find_problem(context: Any, ended: list[str]) -> _Problem:
    """Return why tasks wait and no executor runs; `ended` are reasons why executors ended."""
    waiting = f"tasks are waiting, but no executor of Spark has started at {context.master!r}"
    driver = f"the driver at {context.getConf().get('spark.driver.host')!r} (spark.driver.host)"
    if len(ended) >= _FAILED_STARTS:
        return _Problem(
            f"the executors of Spark exit as soon as they start ({len(ended)} so far): "
            f"{ended[-1]}. See the file 'stderr' of the application {context.applicationId} in "
            "the work folder of each worker. Check the settings of executors (spark.executor.*), "
            f"their Java, and that they can reach {driver}.",
            is_final=True,
        )
    state = _ask_master(context) if context.master.startswith("spark://") else None
    workers = [] if state is None else state.workers()
    workers = [worker for worker in workers if worker.state().toString() == "ALIVE"]
    if workers and (problem := _find_excess(context, workers)):
        return problem
    if state is not None and not workers:
        return _Problem(f"{waiting}: the cluster has no workers.", is_final=False)
    return _Problem(
        f"{waiting}. Other applications may use the cluster; if not, check that it has the "
        "resources for executors (spark.executor.memory, spark.executor.cores), and that they can "
        f"reach {driver}.",
        is_final=False,
    )


def _find_excess(context: Any, workers: list[Any]) -> _Problem | None:
    """Return the problem that executors ask for more than any worker has."""
    asked = {
        "spark.executor.memory": (int(context._jsc.sc().executorMemory()), "memory", " MB"),
        "spark.executor.cores": (
            int(context.getConf().get("spark.executor.cores", "1")),
            "cores",
            "",
        ),
    }
    for setting, (number, resource, unit) in asked.items():
        largest = max(int(getattr(worker, resource)()) for worker in workers)
        if number > largest:
            return _Problem(
                f"Spark cannot start executors: each asks for {number}{unit} ({setting}), but no "
                f"worker of {context.master!r} has more than {largest}{unit}. Lower {setting}, or "
                "start workers with more.",
                is_final=True,
            )
    return None


def _ask_master(context: Any) -> Any:
    """Return the state of a standalone master; None if it does not answer.

    Spark has no public call for it, and the address of the master's web page is not known.
    """
    java = context._jvm
    try:
        environment = context._jsc.sc().schedulerBackend().rpcEnv()
        messages = getattr(java.org.apache.spark.deploy, "DeployMessages$RequestMasterState$")
        for address in context.master.removeprefix("spark://").split(","):
            url = java.org.apache.spark.rpc.RpcAddress.fromSparkURL(f"spark://{address}")
            master = environment.setupEndpointRef(url, "Master")
            state = master.askSync(getattr(messages, "MODULE$"), java.scala.reflect.ClassTag.Any())
            if len(state.workers()):  # a standby master knows none
                return state
        return state
    except java_error():
        return None

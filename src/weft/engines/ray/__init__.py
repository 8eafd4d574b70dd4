"""Evaluation on Ray.

A partition is a task that reads the rows of a range of users from Parquet files. If the rows of
users are spread over the files, or are no files, tasks read the tables, a few million rows each,
and split them by a hash of the user id into pieces in Ray's object store, of which partitions take
theirs. A model lives in a pool of actors, once in each, and partitions go to those that are free.
States are merged as a tree, so that only data of the size of the catalogue comes to the driver. Ray
repeats work that was lost with a worker or a machine.
"""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from weft.engines.captured_stderr import capture_stderr
from weft.engines.partitioned.custom_code import sent_by_value
from weft.engines.partitioned.partitions import first_line
from weft.engines.ray.ray_job import RayJob
from weft.errors import EngineError, MissingExtra, SettingError, check_int, setting_ref
from weft.evaluation.api import bind_arguments
from weft.evaluation.result import Result

__all__ = ["cluster", "evaluate"]

_HOST_AND_PORT = re.compile(r"(ray://)?\[?(?P<host>[^/\[\]]+?)\]?:(?P<port>\d{1,5})")
_CONNECT_TIMEOUT_SECONDS = 15.0
_CONNECT_ATTEMPTS = 4  # with a second between them


def evaluate(
    source: Any,
    truth: Any,
    *,
    parts: int | None = None,
    workers: int | None = None,
    gpus_per_worker: float = 0,
    **settings: Any,
) -> Result:
    """Evaluate a model or recommendation lists on Ray, with the same values as `weft.evaluate`.

    If Ray already runs (`ray.init`), it is used and left running. Otherwise it is started for the
    time of the call. With `per_user=True`, the values of all users are collected on the driver.

    Parameters
    ----------
    source
        Recommendation lists or a model, in one of these forms:

        - Recommendation lists as Parquet (a path, a folder, a pattern, or a URL as polars reads
          them), which tasks read; or a Ray Dataset. Parquet without scores and ranks has the order
          of the files by name, and of their rows.
        - A model: a function, an object with `score(users)` or `score(users, items)`,
          `weft.Factors`, or one or several handles of Ray actors with such a method. A class is
          constructed once on each worker, for models that load themselves.
        - Any other source of `weft.evaluate`, which the driver reads.
    truth
        Test interactions (ground truth): Parquet or a Ray Dataset, or any other form of
        `weft.evaluate`. Paths must be visible on all machines.
    parts
        Number of partitions of the users. Default: the number of CPUs (four for each worker of a
        model), and more if a partition would have more than 4 million rows, up to 512.
    workers
        Number of actors with the model. Default: one per CPU, or as many as the GPUs allow.
    gpus_per_worker
        Number of GPUs of each actor, which can be a fraction. Default: 0.
    settings
        Other keyword arguments of `weft.evaluate`. `train`, `users`, `candidates`, `user_groups`
        and `slices` can have the forms of `truth`. `items`, `item_clusters` and `item_features` are
        read by the driver, and can also be a Ray Dataset.

    Returns
    -------
    Result
        The result of all users.

    Raises
    ------
    EngineError
        If Ray cannot be reached, or a task fails.
    """
    arguments = bind_arguments(source, truth, settings)
    parts = None if parts is None else check_int("parts", parts)
    workers = None if workers is None else check_int("workers", workers)
    is_number = isinstance(gpus_per_worker, (int, float)) and not isinstance(gpus_per_worker, bool)
    if not is_number or not gpus_per_worker >= 0:
        raise SettingError(
            f"{setting_ref('gpus_per_worker', gpus_per_worker)}; it must be a number of at least 0."
        )
    with cluster():
        from ray import cloudpickle

        with sent_by_value(cloudpickle, arguments["metrics"]):
            return RayJob(arguments, parts, workers, gpus_per_worker).run()


@contextmanager
def cluster(address: str | None = None) -> Iterator[None]:
    """Connect to Ray while the block of a `with` statement runs.

    The Ray of this process is used if it runs already; otherwise this connects to `address`, or
    starts Ray on this machine if there is no address.
    """
    ray = _import_ray()
    if ray.is_initialized():
        yield
        return
    _check_reachable(address)
    handler = signal.getsignal(signal.SIGTERM)
    with capture_stderr() as output, _few_attempts():
        try:
            ray.init(
                address=address,
                include_dashboard=None if address else False,
                log_to_driver=False,
                logging_level="ERROR",
            )
        except (ConnectionError, ValueError, RuntimeError, ray.exceptions.RayError) as error:
            raise _connection_error(address, error, output.read_lines()) from error
        except SystemExit:  # raised by Ray's own handler of SIGTERM
            if callable(handler):
                handler(signal.SIGTERM, None)
            raise
        finally:
            output.close()
    if callable(handler) and signal.getsignal(signal.SIGTERM) is not handler:
        signal.signal(signal.SIGTERM, handler)  # Ray has replaced that of the caller
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _few_attempts() -> Iterator[None]:
    """Let `ray.init` try a few times only; by default it tries a wrong token for 20 seconds."""
    from ray._private import ray_constants

    constants: Any = ray_constants
    attempts = constants.NUM_REDIS_GET_RETRIES
    constants.NUM_REDIS_GET_RETRIES = min(attempts, _CONNECT_ATTEMPTS)
    try:
        yield
    finally:
        constants.NUM_REDIS_GET_RETRIES = attempts


def _connection_error(address: str | None, error: Exception, lines: list[str]) -> EngineError:
    place = "" if address is None else f" at {address!r}"
    text = "\n".join([str(error), *lines])
    if "InvalidAuthToken" in text or type(error).__name__ == "AuthenticationError":
        return EngineError(
            f"Ray{place} rejected the token of this process, or there is no token. Set "
            "RAY_AUTH_MODE=token and the token of the cluster in RAY_AUTH_TOKEN, or its file in "
            "RAY_AUTH_TOKEN_PATH (by default ~/.ray/auth_token)."
        )
    return EngineError(f"Ray cannot be reached{place}: {first_line(error)}")


def _check_reachable(address: str | None) -> None:
    """Raise EngineError for an address without a server; Ray itself would retry for minutes."""
    match = _HOST_AND_PORT.fullmatch(address or "")
    if match is None:  # None, "auto", "local"
        return
    host, port = match["host"], int(match["port"])
    try:
        socket.create_connection((host, port), timeout=_CONNECT_TIMEOUT_SECONDS).close()
    except OSError as error:
        raise EngineError(
            f"Ray cannot be reached at {address!r}: {error.strerror or error}. Expected the "
            "address of a running cluster, such as 'host:6379', 'ray://host:10001', or 'auto' for "
            "the one of this machine."
        ) from None


def _import_ray() -> Any:
    try:
        import pyarrow  # noqa: F401
        import ray
    except ImportError as error:
        raise MissingExtra(
            "weft.engines.ray needs Ray and pyarrow; install them with: pip install 'weft[ray]'"
        ) from error
    return ray

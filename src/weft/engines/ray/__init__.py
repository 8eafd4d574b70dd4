"""Ray: tasks bring the rows of each user together, evaluate parts of the users, and merge what
comes of it as a tree.

Tables are read by tasks, a few million rows each, and split by a hash of the user's id into pieces,
which lie in Ray's object store. A part is a task that takes its pieces. A model lives in a pool of
actors, once in each, and parts go to those that are free. Only what is of the size of the catalogue
comes to the driver. Ray runs again what was lost with a worker or a machine."""

from __future__ import annotations

import inspect
import re
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft._choices import CandidatePool, choices
from weft.data import Vocabulary
from weft.data.readers.files import File
from weft.data.recommendations import are_lists
from weft.data.slices import parse_slices
from weft.data.sources import Factors
from weft.engines.partitioned.driver import evaluate_partitions
from weft.engines.partitioned.empty_run import check_arguments
from weft.engines.partitioned.local_inputs import check_id_types, read_local
from weft.engines.partitioned.partition_results import collect_user_tables
from weft.engines.partitioned.partitions import ALL_USERS, InputOrigin, Partition
from weft.engines.ray.model_actors import (
    Pool,
    handles_of,
    refuse_other_rows,
    refuse_source,
    with_factors,
)
from weft.engines.ray.ray_partitions import (
    RETRIES,
    RayPartitions,
    as_part,
    first_line,
    own_errors,
    to_arrow,
)
from weft.engines.ray.ray_tables import (
    Rows,
    brought_here,
    by_part,
    head,
    is_dataset,
    open_dataset,
    open_files,
    parquet_files,
    split,
    stamp_of_hashes,
)
from weft.errors import EngineError, InputError, MissingExtra, SettingError, check_int
from weft.evaluation.api import evaluate as evaluate_alone
from weft.evaluation.result import Result

if TYPE_CHECKING:
    import polars as pl

_HOST_AND_PORT = re.compile(r"(ray://)?\[?(?P<host>[^/\[\]]+?)\]?:(?P<port>\d{1,5})")
_PATIENCE = 15.0  # seconds
# Rows of a task that reads, and of a part, where the number of parts is not given.
_ROWS_READ = 1 << 21
_ROWS_OF_PART = 1 << 22
_ROWS_AT_LEAST = 1 << 14
_MOST_PARTS = 1 << 9
# Each task that reads gives a piece to each part. The driver knows all of them, so that there must
# not be too many, and those below 100 kB go through it. Where there would be more or smaller ones,
# tasks read more rows.
_MOST_PIECES = 1 << 18
_ROWS_OF_PIECE = 1 << 13


def evaluate(
    source: Any,
    truth: Any,
    *,
    parts: int | None = None,
    workers: int | None = None,
    gpus_per_worker: float = 0,
    **settings: Any,
) -> Result:
    """`weft.evaluate` on Ray: the same arguments, the same values.

    If Ray runs already (`ray.init`), it is used, and left running; else it is started here for the
    time of the call.

    source
        Recommendation lists: Parquet (a path, folder, pattern, or a URL as polars reads them),
        which tasks read; a Ray Dataset; or whatever `weft.evaluate` reads, which the driver then
        holds. Or a model: a callable, an object with `score(users[, items])`, `weft.Factors`, a
        class of such objects, which is constructed once on each worker (for models that load
        themselves), or one or several handles of Ray actors with such a method.
    truth, train, users, candidates, user_groups, slices
        Tables of the same kinds. Paths must be visible on all machines.
    items, item_clusters, item_features
        As for `weft.evaluate`, read by the driver; also as a Ray Dataset.
    parts
        In how many parts the users are evaluated: by default as many as there are CPUs (four for
        each worker of a model), and more where a part would have more than 4 million rows, up to
        512.
    workers, gpus_per_worker
        How many actors hold the model, by default one per CPU, or as many as there are GPUs for;
        and how much of a GPU each has.

    Of lists in Parquet that have neither scores nor ranks the order is that of the files by name
    and of the rows in them. With `per_user=True` the table of all users is brought to the driver.
    """
    bound = inspect.signature(evaluate_alone).bind(source, truth, **settings)
    bound.apply_defaults()
    arguments = dict(bound.arguments)
    parts = None if parts is None else check_int("parts", parts)
    workers = None if workers is None else check_int("workers", workers)
    if (
        isinstance(gpus_per_worker, bool)
        or not isinstance(gpus_per_worker, (int, float))
        or not gpus_per_worker >= 0
    ):
        raise SettingError(f"gpus_per_worker={gpus_per_worker!r}; it must be a number from 0 up.")
    with cluster():
        return _Job(arguments, parts, workers, gpus_per_worker).run()


@contextmanager
def cluster(address: str | None = None) -> Iterator[None]:
    """Ray as it runs in this process, or else, for the time of the block, that at `address`, or one
    of this machine's own.
    """
    ray = _ray()
    if ray.is_initialized():
        yield
        return
    _refuse_silence(address)
    try:
        ray.init(
            address=address,
            include_dashboard=None if address else False,
            log_to_driver=False,
            logging_level="ERROR",
        )
    except (ConnectionError, ValueError, RuntimeError) as error:
        at = "" if address is None else f" at {address!r}"
        raise EngineError(f"Ray cannot be reached{at}: {first_line(error)}") from error
    try:
        yield
    finally:
        ray.shutdown()


def _refuse_silence(address: str | None) -> None:
    """Refuse an address where nobody answers: Ray itself would go on trying for minutes."""
    found = _HOST_AND_PORT.fullmatch(address or "")
    if found is None:  # None, "auto", "local"
        return
    try:
        socket.create_connection((found["host"], int(found["port"])), timeout=_PATIENCE).close()
    except OSError as error:
        raise EngineError(
            f"Ray cannot be reached at {address!r}: {error.strerror or error}. Expected that of a "
            "cluster that runs, such as "
            "'host:6379', 'ray://host:10001', or 'auto' for the one of this machine."
        ) from None


def _ray() -> Any:
    try:
        import pyarrow  # noqa: F401
        import ray
    except ImportError as error:
        raise MissingExtra(
            "weft.engines.ray needs Ray and pyarrow; install them with: pip install 'weft[ray]'"
        ) from error
    return ray


class _Job:
    """One evaluation: what is given becomes tables, tables become pieces, pieces make parts, and
    parts are evaluated together.
    """

    def __init__(
        self, arguments: dict[str, Any], parts: int | None, workers: int | None, gpus: float
    ) -> None:
        import ray

        self.arguments, self.parts, self.gpus = arguments, parts, gpus
        source = arguments["source"]
        self.handles = handles_of(source)
        if not self.handles and not is_dataset(source):
            refuse_source(source)
        self.has_lists = (
            not self.handles
            and not isinstance(source, type)
            and (is_dataset(source) or are_lists(source))
        )
        available: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        self.cpus = max(1, int(available.get("CPU", 1)))
        if gpus and available.get("GPU", 0) < gpus:
            raise SettingError(
                f"gpus_per_worker={gpus:g}, but Ray has {available.get('GPU', 0):g} GPUs."
            )
        most = int(available.get("GPU", 0) / gpus) if gpus else self.cpus
        # An actor that is asked waits while its answer is looked at: there may be two who ask it.
        self.workers = workers or (
            max(len(self.handles), min(most, 2 * len(self.handles))) if self.handles else most
        )
        self.tables: dict[str, Rows] = {}  # read by tasks
        self.frames: dict[str, pl.DataFrame] = {}  # held by the driver
        self.origins: dict[str, InputOrigin] = {}

    def run(self) -> Result:
        arguments, source = self.arguments, self.arguments["source"]
        check_arguments(arguments, has_lists=self.has_lists, engine="Ray")
        for name in ("items", "item_clusters", "item_features"):
            if is_dataset(arguments[name]):
                arguments[name] = brought_here(arguments[name], name)
        for argument, given in self._given():
            self._add(argument, given)
        if isinstance(source, Factors):
            self._add_rows(source)
        samples = self._samples()
        if (
            isinstance(source, Factors) and arguments["users"] is None
        ):  # refuses ids that are no row numbers
            Vocabulary.from_size("user", len(self.frames["users"])).encode(
                samples["truth"]["user"], self.origins["truth"].where
            )
        check_id_types(
            {name: few for name, few in samples.items() if name in self.origins}, self.origins
        )
        parts = self.parts or self._number_of_parts()
        pieces = self._split(parts)
        opening: Callable[..., Partition] = partial(
            as_part, [(name, len(of)) for name, of in pieces.items()]
        )
        by_user = [
            tuple(of_task[part] for of in pieces.values() for of_task in of)
            for part in range(parts)
        ]
        if self.has_lists:
            return self._evaluate(RayPartitions(opening, by_user))
        self.arguments = {**arguments, "source": None}  # the parts have it
        if isinstance(source, Factors):
            self.arguments["name"] = arguments["name"] or source.kind
            if arguments["users"] is None:
                wheres = {
                    name: origin.where
                    for name, origin in self.origins.items()
                    if name in ("truth", "train")
                }
                refuse_other_rows(
                    RayPartitions(opening, by_user), len(self.frames["users"]), wheres
                )
            return self._evaluate(
                with_factors(source, self.frames["users"], opening, by_user, self.gpus)
            )
        pool = Pool(source, self.handles, min(self.workers, parts), self.gpus)
        try:
            if arguments["items"] is None:
                self.arguments["items"] = self._columns(pool, samples)
            return self._evaluate(RayPartitions(opening, by_user, pool=pool))
        finally:
            pool.end()

    def _evaluate(self, parts: RayPartitions[Partition]) -> Result:
        result, answers = evaluate_partitions(parts, self.origins, self.arguments, engine="Ray")
        if not self.arguments["per_user"]:
            return result
        per_user, labels = map(self._in_order, collect_user_tables(answers))
        return replace(result, per_user=per_user, user_labels=labels)

    def _in_order(self, table: pl.DataFrame | None) -> pl.DataFrame | None:
        """Users who were named, in the order in which they were."""
        if table is None or "users" not in self.frames:
            return table
        order = self.frames["users"].with_row_index("weft row")
        return (
            table.join(order, on="user", how="left", maintain_order="left")
            .sort("weft row", nulls_last=True, maintain_order=True)
            .drop("weft row")
        )

    def _add_rows(self, source: Factors) -> None:
        """The users and items of factors, where they are not named: row numbers."""
        import polars as pl

        if "users" not in self.frames:
            self.frames["users"] = pl.DataFrame(
                {"user": pl.int_range(source.num_users or 0, dtype=pl.Int64, eager=True)}
            )
            self.origins["users"] = InputOrigin("users=", columns=("user",))
        if len(self.frames["users"]) != source.num_users:
            number = len(self.frames["users"])
            raise InputError(
                f"users= has {number} ids, but the scores have {source.num_users} rows; expected "
                "one id for each."
            )
        if self.arguments["items"] is None:
            self.arguments["items"] = range(source.num_items or 0)

    def _given(self) -> Iterator[tuple[str, Any]]:
        """The arguments that have rows of users."""
        arguments = self.arguments
        if self.has_lists:
            yield "source", arguments["source"]
        yield "truth", arguments["truth"]
        pool = arguments["candidates"]
        is_pool = isinstance(pool, str) and pool.casefold() in choices(CandidatePool)
        for name in ("train", "users", "user_groups", *(() if is_pool else ("candidates",))):
            if arguments[name] is not None:
                yield name, arguments[name]
        for one in parse_slices(arguments["slices"], has_train=arguments["train"] is not None):
            if one.source is not None:
                yield one.where, one.source

    def _add(self, argument: str, given: Any) -> None:
        in_order = argument == "users" and isinstance(
            self.arguments["source"], Factors
        )  # in which the rows are
        if in_order and is_dataset(given):
            raise InputError(
                "users= names the rows of the factors in their order, which a Ray Dataset does not "
                "have; give a list."
            )
        if isinstance(given, (str, Path)):
            given = File(given)  # type: ignore[arg-type]
        if is_dataset(given):
            self.tables[argument], self.origins[argument] = open_dataset(given, argument)
        elif not in_order and isinstance(given, File) and (paths := parquet_files(given, argument)):
            self.tables[argument], self.origins[argument] = open_files(given, paths, argument)
        else:
            frames, self.origins[argument] = read_local(given, argument)
            self.frames |= frames

    def _samples(self) -> dict[str, pl.DataFrame]:
        """The first rows of each table."""
        import ray

        task = ray.remote(max_retries=RETRIES)(head)
        asked = {}
        for argument, table in self.tables.items():
            spans, blocks = next(table.shares(_ROWS_READ))
            asked[argument] = task.remote(table.reading, spans, *blocks)
        with own_errors():
            found = dict(zip(asked, ray.get(list(asked.values()))))
        return found | {name: frame.head(3) for name, frame in self.frames.items()}

    def _number_of_parts(self) -> int:
        rows = max(
            [table.rows for table in self.tables.values()]
            + [len(frame) for frame in self.frames.values()]
        )
        enough = min(self.cpus, -(-rows // _ROWS_AT_LEAST)) if self.has_lists else 4 * self.workers
        return max(1, enough, min(_MOST_PARTS, -(-rows // _ROWS_OF_PART)))

    def _split(self, parts: int) -> dict[str, list[list[Any]]]:
        """By table, what each task makes of what it reads: a piece for each part."""
        import ray

        stamp = stamp_of_hashes()
        task = ray.remote(max_retries=RETRIES, num_returns=parts, scheduling_strategy="SPREAD")(
            split
        )
        pieces: dict[str, list[list[Any]]] = {}
        for name, table in self.tables.items():
            share = -(-table.rows // self.cpus)
            at_most = max(
                min(_ROWS_READ, max(_ROWS_AT_LEAST, share)),
                min(parts * _ROWS_OF_PIECE, share),
                -(-table.rows * parts // _MOST_PIECES),
            )
            made = [
                task.remote(table.reading, spans, parts, stamp, *blocks)
                for spans, blocks in table.shares(at_most)
            ]
            pieces[name] = [of_task if parts > 1 else [of_task] for of_task in made]
        for name, frame in self.frames.items():
            pieces[name] = [[ray.put(to_arrow(piece)) for piece in by_part(frame, parts, stamp)]]
        return pieces

    def _columns(self, pool: Pool, samples: Mapping[str, pl.DataFrame]) -> range:
        """The items of a model that was given without them: the columns of its first answer."""
        import ray

        named = next(
            (
                samples[name]
                for name in ("users", "truth", "truth" + ALL_USERS)
                if name in samples and len(samples[name])
            ),
            None,
        )
        if named is None:
            raise InputError(
                "the truth is empty and the model's items are not known; give the item ids as "
                "items=[...]."
            )
        asked = named.select("user").unique(maintain_order=True)
        number = pool.number_of_items(ray.put(to_arrow(asked)))
        if "truth" in samples:  # refuses ids that are no column numbers
            Vocabulary.from_size("item", number).encode(
                samples["truth"]["item"], self.origins["truth"].where
            )
        return range(number)

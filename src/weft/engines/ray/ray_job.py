"""One evaluation on Ray: inputs become tables, tables become pieces, pieces become partitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from weft.data import Vocabulary
from weft.data.readers.files import File
from weft.data.recommendations import are_lists
from weft.data.sources import Factors
from weft.engines.partitioned.driver import (
    collect_item_inputs,
    evaluate_partitions,
    take_user_inputs,
)
from weft.engines.partitioned.local_inputs import DriverInput, check_id_types, read_local
from weft.engines.partitioned.parquet_rows import ParquetTable
from weft.engines.partitioned.partition_results import collect_user_tables
from weft.engines.partitioned.partitions import ALL_USERS, InputOrigin, Partition
from weft.engines.partitioned.user_ranges import split_into_ranges
from weft.engines.partitioned.user_split import hash_checksum, split_by_user
from weft.engines.ray.model_actors import (
    ModelPool,
    actor_handles,
    add_factors,
    check_source,
)
from weft.engines.ray.ray_partitions import (
    RETRIES,
    RayPartitions,
    build_partition,
    to_arrow,
    unwrap_ray_errors,
)
from weft.engines.ray.ray_tables import (
    RayTable,
    collect_dataset,
    find_parquet_files,
    is_dataset,
    open_dataset,
    open_files,
    read_sample,
    split_rows,
)
from weft.errors import InputError, SettingError, agree, setting_ref
from weft.evaluation.result import Result

if TYPE_CHECKING:
    import polars as pl

# Rows of a reading task, and of a partition if the number of partitions is not given.
_ROWS_READ = 1 << 21
_ROWS_PER_PARTITION = 1 << 22
_MIN_ROWS = 1 << 14
_MAX_PARTITIONS = 1 << 9
# Each reading task makes a piece for each partition. The driver has a reference to every piece, so
# their number is limited; pieces below 100 kB are sent through the driver. Tasks read more rows if
# there would be more or smaller pieces.
_MAX_PIECES = 1 << 18
_ROWS_PER_PIECE = 1 << 13


class RayJob:
    """One evaluation on Ray, with the arguments of `weft.evaluate` by name."""

    def __init__(
        self, arguments: dict[str, Any], parts: int | None, workers: int | None, gpus: float
    ) -> None:
        import ray

        self.source = source = arguments["source"]
        self.parts, self.gpus = parts, gpus
        self.handles = actor_handles(source)
        if not self.handles and not is_dataset(source):
            check_source(source)
        is_model = bool(self.handles) or isinstance(source, type)
        self.has_lists = not is_model and (is_dataset(source) or are_lists(source))
        available: dict[str, float] = ray.cluster_resources()  # type: ignore[no-untyped-call]
        self.cpus, num_gpus = max(1, int(available.get("CPU", 1))), available.get("GPU", 0)
        if gpus and num_gpus < gpus:
            raise SettingError(
                f"{setting_ref('gpus_per_worker', gpus)}, but Ray has {num_gpus:g} "
                f"GPU{'s' * (num_gpus != 1)}."
            )
        self.workers = workers or self._default_workers(num_gpus)
        self.tables: dict[str, RayTable] = {}  # read by tasks
        self.frames: dict[str, pl.DataFrame] = {}  # in the memory of the driver
        self.origins: dict[str, InputOrigin] = {}
        self.inputs, self.arguments, self.positions = take_user_inputs(
            arguments, has_lists=self.has_lists, engine="Ray"
        )

    def _default_workers(self, num_gpus: float) -> int:
        limit = int(num_gpus / self.gpus) if self.gpus else self.cpus
        if not self.handles:
            return limit
        # A caller's actor is idle while its scores are evaluated, so it may serve two workers.
        return max(len(self.handles), min(limit, 2 * len(self.handles)))

    def run(self) -> Result:
        """Read the inputs, evaluate the partitions and return the result."""
        arguments, source = self.arguments, self.source
        collect_item_inputs(arguments, collect_dataset)
        for argument, data in self.inputs.items():
            self._open(argument, data)
        if isinstance(source, Factors):
            self._add_row_numbers(source)
        samples = self._read_samples()
        self._check_ids(samples)
        build, pieces = self._split(self.parts or self._default_parts())
        progress = arguments["progress"]
        if self.has_lists:
            return self._evaluate(RayPartitions(build, pieces, progress=progress))
        if isinstance(source, Factors):
            return self._evaluate_factors(source, build, pieces)
        pool = ModelPool(source, self.handles, min(self.workers, len(pieces)), self.gpus)
        try:
            if arguments["items"] is None:
                arguments["items"] = self._item_numbers(pool, samples)
            return self._evaluate(RayPartitions(build, pieces, pool=pool, progress=progress))
        finally:
            pool.shut_down()

    def _evaluate_factors(
        self, source: Factors, build: Callable[..., Partition], pieces: list[tuple[Any, ...]]
    ) -> Result:
        users = self.frames["users"]
        self.arguments["name"] = self.arguments["name"] or source.kind
        return self._evaluate(
            add_factors(
                source,
                users,
                build,
                pieces,
                gpus=self.gpus,
                progress=self.arguments["progress"],
            )
        )

    def _evaluate(self, partitions: RayPartitions[Partition]) -> Result:
        result, results = evaluate_partitions(
            partitions, self.origins, self.arguments, self.positions, engine="Ray"
        )
        if not self.arguments["per_user"]:
            return result
        assert results is not None
        per_user, labels = map(self._sort_users, collect_user_tables(results))
        return replace(result, per_user=per_user, user_labels=labels)

    def _sort_users(self, table: pl.DataFrame | None) -> pl.DataFrame | None:
        """Return the users of the argument `users` first, in its order."""
        if table is None or "users" not in self.frames:
            return table
        order = self.frames["users"].with_row_index("weft row")
        return (
            table.join(order, on="user", how="left", maintain_order="left")
            .sort("weft row", nulls_last=True, maintain_order=True)
            .drop("weft row")
        )

    def _add_row_numbers(self, source: Factors) -> None:
        """Name the users and items of factors by their row numbers, if they have no ids."""
        import polars as pl

        if "users" not in self.frames:
            numbers = pl.int_range(source.num_users or 0, dtype=pl.Int64, eager=True)
            self.frames["users"] = pl.DataFrame({"user": numbers})
            self.origins["users"] = InputOrigin("users=", columns=("user",))
            self._read_as_positions("user", len(numbers))
        if (number := len(self.frames["users"])) != source.num_users:
            raise InputError(
                f"{setting_ref('users')} has {agree(number, '{n} id{s}')}, but the scores have "
                f"{agree(source.num_users or 0, '{n} row{s}')}; expected one id for each."
            )
        if self.arguments["items"] is None:
            self.arguments["items"] = range(source.num_items or 0)
            self._read_as_positions("item", source.num_items or 0)

    def _read_as_positions(self, kind: str, size: int) -> None:
        sizes = {**self.positions.sizes, kind: size}
        self.positions = replace(self.positions, sizes=sizes)

    def _open(self, argument: str, data: Any) -> None:
        """Open an input as a table that tasks read, or read it on the driver."""
        needs_order = argument == "users" and isinstance(self.source, Factors)
        if needs_order and is_dataset(data):
            raise InputError(
                f"{setting_ref('users')} gives the ids of the rows of the factors in order, but a "
                "Ray Dataset has no order; give a list."
            )
        if isinstance(data, DriverInput):
            data = data.collect(collect_dataset)
        if isinstance(data, (str, Path)):
            data = File(data)
        paths = []
        if isinstance(data, File) and not needs_order:
            paths = find_parquet_files(data, argument)
        if is_dataset(data):
            self.tables[argument], self.origins[argument] = open_dataset(data, argument)
        elif paths:
            self.tables[argument], self.origins[argument] = open_files(data, paths, argument)
        else:
            frames, self.origins[argument] = read_local(data, argument)
            self.frames |= frames

    def _read_samples(self) -> dict[str, pl.DataFrame]:
        """Return the first rows of each table."""
        import ray

        task = ray.remote(max_retries=RETRIES)(read_sample)
        references = {}
        for argument, table in self.tables.items():
            spans, blocks = next(table.split(_ROWS_READ))
            references[argument] = task.remote(table.reader, spans, *blocks)
        with unwrap_ray_errors():
            samples = dict(zip(references, ray.get(list(references.values()))))
        return samples | {name: frame.head(3) for name, frame in self.frames.items()}

    def _check_ids(self, samples: Mapping[str, pl.DataFrame]) -> None:
        """Raise InputError if ids of the first rows have wrong types, or are no row numbers."""
        if isinstance(self.source, Factors) and self.arguments["users"] is None:
            rows = Vocabulary.from_size("user", len(self.frames["users"]))
            rows.encode(samples["truth"]["user"], self.origins["truth"].where)
        check_id_types(
            {name: sample for name, sample in samples.items() if name in self.origins}, self.origins
        )

    def _default_parts(self) -> int:
        """Return the number of partitions for the CPUs or workers and the largest table."""
        num_rows = [table.num_rows for table in self.tables.values()]
        largest = max(num_rows + [len(frame) for frame in self.frames.values()])
        number = 4 * self.workers
        if self.has_lists:
            number = min(self.cpus, -(-largest // _MIN_ROWS))
        return max(1, number, min(_MAX_PARTITIONS, -(-largest // _ROWS_PER_PARTITION)))

    def _split(self, number: int) -> tuple[Callable[..., Partition], list[tuple[Any, ...]]]:
        """Split all tables by user; return the function that builds a partition, and its pieces."""
        import ray

        if self.has_lists and (partitions := self._find_ranges(number)) is not None:
            return _return_partition, [(ray.put(partition),) for partition in partitions]
        checksum = hash_checksum()
        task = ray.remote(max_retries=RETRIES, num_returns=number, scheduling_strategy="SPREAD")(
            split_rows
        )
        pieces: dict[str, list[list[Any]]] = {}  # by input, task and partition
        for name, table in self.tables.items():
            references = [
                task.remote(table.reader, spans, number, checksum, *blocks)
                for spans, blocks in table.split(self._rows_per_task(table, number))
            ]
            pieces[name] = [each if number > 1 else [each] for each in references]
        for name, frame in self.frames.items():
            frames = split_by_user(frame, number, checksum)
            pieces[name] = [[ray.put(to_arrow(piece)) for piece in frames]]
        build = partial(build_partition, [(name, len(tasks)) for name, tasks in pieces.items()])
        all_tasks = [task_pieces for tasks in pieces.values() for task_pieces in tasks]
        return build, [tuple(each[index] for each in all_tasks) for index in range(number)]

    def _find_ranges(self, number: int) -> list[Partition] | None:
        """Return partitions that read their rows from files; None if rows are to be split."""
        tables = {
            name: ParquetTable(table.reader, table.files)
            for name, table in self.tables.items()
            if table.files
        }
        if len(tables) < len(self.tables):
            return None
        partitions = split_into_ranges(tables, self.frames, number)
        if partitions is not None:
            for name, table in self.tables.items():
                self.origins[name] = replace(self.origins[name], num_rows=table.num_rows)
        return partitions

    def _rows_per_task(self, table: RayTable, number: int) -> int:
        rows_per_cpu = -(-table.num_rows // self.cpus)
        return max(
            min(_ROWS_READ, max(_MIN_ROWS, rows_per_cpu)),
            min(number * _ROWS_PER_PIECE, rows_per_cpu),
            -(-table.num_rows * number // _MAX_PIECES),
        )

    def _item_numbers(self, pool: ModelPool, samples: Mapping[str, pl.DataFrame]) -> range:
        """Return the column numbers of a model without item ids, from its first scores."""
        import ray

        names = ("users", "truth", "truth" + ALL_USERS)
        filled = [samples[name] for name in names if name in samples and len(samples[name])]
        if not filled:
            raise InputError(
                "the truth is empty and the items of the model are not known; give the item ids "
                f"as {setting_ref('items')}[...]."
            )
        users = filled[0].select("user").unique(maintain_order=True)
        number = pool.count_items(ray.put(to_arrow(users)))
        if "truth" in samples:  # ids that are no column numbers raise an error
            columns = Vocabulary.from_size("item", number)
            columns.encode(samples["truth"]["item"], self.origins["truth"].where)
        self._read_as_positions("item", number)
        return range(number)


def _return_partition(partition: Partition) -> Partition:
    return partition

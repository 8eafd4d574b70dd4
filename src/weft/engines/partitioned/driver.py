"""An evaluation whose users lie in parts: what all parts must know is found first, each part
evaluates its users, and what they gathered adds up. The same for every engine; the values are those
of one process."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data import Interactions, Labels, Vocabulary, read_features, read_labels
from weft.data.dataset import GlobalStats
from weft.data.grouping import GroupNames
from weft.data.interactions import digest_sums, hash_sums_by_id
from weft.data.popularity import TrainTotals
from weft.data.slices import UserSlice, parse_slices
from weft.data.sorted_values import SortedValues
from weft.data.sources import Model
from weft.engines.partitioned.global_stats import (
    OF_ITEMS,
    OF_USERS,
    build_partition_run,
    survey,
    whole_of,
    with_cuts,
)
from weft.engines.partitioned.order_statistics import PartitionedIntegers
from weft.engines.partitioned.partitions import Origin, Part, Parts, kept, merged
from weft.errors import InputError, SettingError
from weft.evaluation.contributions import (
    ROW_PREFIX,
    JackknifeMoments,
    LocalContributions,
    UserContributions,
    WeightedSums,
)
from weft.evaluation.resample_weights import UserWeights, jackknife_hashes
from weft.evaluation.result import Result
from weft.evaluation.runner import NO_SOURCE, EvaluationRun
from weft.evaluation.settings import split_candidates
from weft.evaluation.state import EvaluationState, combine_states
from weft.metrics.registry import all_metrics, as_metric_list, register

if TYPE_CHECKING:
    import polars as pl

    from weft.metrics.base.metric import BaseMetric

Numbers = NDArray[np.int64]


# --------------------------------------------------------------------------------------------------


def check(arguments: Mapping[str, Any], *, has_lists: bool, engine: str) -> None:
    """Refuse settings that are wrong, or cannot run where users lie in parts, before anything is
    read.
    """
    if arguments["checkpoint"] is not None:
        raise SettingError(
            f"checkpoint= is for an evaluation in one process; on {engine}, what is lost is "
            f"computed again by {engine} itself. "
            "Leave it out."
        )
    for name in ("truth", "train", "candidates", *OF_ITEMS):
        given = arguments[name]
        if (
            getattr(given, "ndim", 1) == 2
            and not hasattr(given, "columns")
            and name != "item_features"
        ):
            raise InputError(
                f"{name} is a matrix, whose rows and columns are numbers; on {engine} users and "
                "items go by their ids. Give a "
                "frame or a file, or evaluate it in one process with weft.evaluate."
            )
    given = [name for name in OF_USERS if arguments[name] is not None and name != "source"]
    given = [
        name
        for name in given
        if name != "candidates" or split_candidates(arguments[name])[1] is not None
    ]
    origins = {name: Origin(name, columns=_COLUMNS[name]) for name in given}
    origins |= {"source": Origin("source", columns=_COLUMNS["source"])} if has_lists else {}
    if has_lists and arguments["users"] is not None:
        raise SettingError(
            "users= names the rows of scores; recommendation lists name their users themselves. "
            "Leave it out."
        )
    slices = parse_slices(arguments["slices"], has_train=arguments["train"] is not None)
    origins |= {
        one.where: Origin(one.where, columns=("user", "label"))
        for one in slices
        if one.source is not None
    }
    job = _nobody(arguments, origins, _no_whole(arguments, slices))
    if large := [
        str(spec)
        for spec, metric in job.evaluator.metric_set.stateful.items()
        if _keeps_rows(metric)
    ]:
        raise SettingError(
            f"{', '.join(large)} keeps something of every row or score, which would all come to "
            "one machine; evaluate it in one "
            f"process with weft.evaluate, or leave it out on {engine}."
        )


_COLUMNS = {
    "source": ("user", "item", "score"),
    "truth": ("user", "item", "rating"),
    "train": ("user", "item", "rating"),
    "candidates": ("user", "item"),
    "users": ("user",),
    "user_groups": ("user", "label"),
}


def _keeps_rows(metric: BaseMetric) -> bool:
    return any(isinstance(default, list) for default in metric._defaults.values())


def _no_whole(arguments: Mapping[str, Any], slices: Sequence[UserSlice]) -> GlobalStats:
    """A catalogue without items, to see whether settings fit together."""
    sizes = [getattr(metric, "num_items", None) for metric in as_metric_list(arguments["metrics"])]
    items = Vocabulary.from_size("item", next((size for size in sizes if isinstance(size, int)), 0))
    totals = (
        None if arguments["train"] is None else TrainTotals(np.zeros(items.size, dtype=np.int64), 0)
    )
    labels: dict[str, Any] = {}
    if arguments["item_clusters"] is not None:
        labels["item_clusters"] = read_labels({}, "item_clusters", items)
    if arguments["item_features"] is not None:
        labels["item_features"] = read_features({}, "item_features", items)
    where = [one.where for one in slices] + ["user_groups"] * (arguments["user_groups"] is not None)
    return GlobalStats(items, totals, labels, {name: GroupNames((), []) for name in where})


def _nobody(
    arguments: Mapping[str, Any], origins: Mapping[str, Origin], whole: GlobalStats
) -> EvaluationRun:
    """The evaluation of nobody: where what the parts gathered is put together."""
    import polars as pl

    types = {"user": pl.Int64, "item": pl.Int64, "label": pl.String}
    frames = {
        name: pl.DataFrame(
            schema={column: types.get(column, pl.Float64) for column in origin.columns}
        )
        for name, origin in origins.items()
    }
    arguments = {**arguments, "device": None}  # workers may have one that is not here
    return build_partition_run(
        Part(frames, None if "source" in origins else Model(_nothing)), arguments, origins, whole
    )


def _nothing(users: Any) -> Tensor:
    return torch.empty((len(users), 0))


# --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Told:
    """What parts have gathered, and what is counted beside it. It adds up."""

    gathered: EvaluationState
    facts: Counter[str]
    offered: dict[str, list[int]]
    digests: dict[str, NDArray[np.uint64]]
    by_label: Numbers | None
    users: int  # whose contributions are kept
    kind: str  # of the source
    parts: int = 1


@dataclass(frozen=True)
class Answer:
    """What a part has found. What is about single users stays there: their values, labels and
    contributions.
    """

    told: Told
    kept: LocalContributions | None
    values: pl.DataFrame | None  # of each user
    labels: pl.DataFrame | None


def _evaluate(
    part: Part,
    *,
    arguments: Mapping[str, Any],
    origins: Mapping[str, Origin],
    whole: GlobalStats,
    metrics: Sequence[type[BaseMetric]],
) -> Answer:
    for metric in metrics:  # which this process may not know
        register(metric)
    job = build_partition_run(part, arguments, origins, whole)
    job.run()
    job.evaluator.to("cpu")
    gathered = job.evaluator.state
    rows = {
        name: values[:0]
        for name, values in gathered.rows.items()
        if not name.startswith(ROW_PREFIX)
    }
    kept = UserContributions.from_rows(gathered.rows, job.evaluator.metric_set.layout)
    groups, clusters = (
        job.dataset.labels.get("user_groups"),
        job.dataset.labels.get("item_clusters"),
    )
    by_label = None
    if (
        job.dataset.train is not None
        and isinstance(groups, Labels)
        and isinstance(clusters, Labels)
    ):
        by_label = job.dataset.train.count_by_label(groups, clusters)
    told = Told(
        _sparse(replace(gathered, rows=rows)),
        job.counts,
        job.candidates.state(),
        _digests(job),
        by_label,
        0 if kept is None else len(kept.keys),
        job.dataset.source.kind,
    )
    ids = part.frames["truth"]["user"].dtype  # which nobody's table would not tell
    values, labels = (
        rows if rows is None else rows.with_columns(rows["user"].cast(ids))
        for rows in job.user_tables()
    )
    return Answer(told, None if kept is None else LocalContributions(kept), values, labels)


def _digests(job: EvaluationRun) -> dict[str, NDArray[np.uint64]]:
    """Of the data by id, as sums: the same, however the users are shared out."""
    dataset = job.dataset
    cells = {"truth": dataset.truth} | (
        {} if dataset.train is None else {"train": dataset.train.interactions}
    )
    users = dataset.all_users
    found = {name: hash_sums_by_id(some, users, dataset.items) for name, some in cells.items()}
    if dataset.lists is not None:
        lists = dataset.lists
        scores = np.zeros(len(lists.items)) if lists.scores is None else lists.scores
        rows = Interactions(lists.offsets, lists.items.astype(np.int64), scores, lists.num_items)
        found["source"] = hash_sums_by_id(rows, dataset.users, dataset.items)
    return found


def _sparse(gathered: EvaluationState) -> EvaluationState:
    """Sums of which most are 0, as those of few users over many items are, take no more room than
    the others.
    """
    filled = int(torch.count_nonzero(gathered.sums))
    return replace(
        gathered,
        sums=gathered.sums.to_sparse()
        if 4 * filled < len(gathered.sums)
        else gathered.sums.clone(),
    )


def _told(answer: Answer) -> Told:
    return answer.told


def _one_told(parts: list[Told], *, own: Sequence[BaseMetric]) -> Told:
    facts, offered = Counter[str](), copy.deepcopy(parts[0].offered)
    for part in parts:
        facts.update(part.facts)
    for part in parts[1:]:
        offered["counts"] = [
            mine + more for mine, more in zip(offered["counts"], part.offered["counts"])
        ]
        offered["digest"] = [
            (mine + more) % (1 << 64)
            for mine, more in zip(offered["digest"], part.offered["digest"])
        ]
    first = parts[0]
    gathered = combine_states(
        [replace(part.gathered, sums=part.gathered.sums.to_dense()) for part in parts], own
    )
    return Told(
        gathered,
        facts,
        offered,
        {
            name: np.sum([part.digests[name] for part in parts], axis=0, dtype=np.uint64)
            for name in first.digests
        },
        None
        if first.by_label is None
        else np.sum([part.by_label for part in parts if part.by_label is not None], axis=0),
        sum(part.users for part in parts),
        first.kind,
        sum(part.parts for part in parts),
    )


def evaluate(
    parts: Parts[Part], origins: Mapping[str, Origin], arguments: Mapping[str, Any], *, engine: str
) -> tuple[Result, Parts[Any]]:
    """The whole evaluation, and the answers of the parts, which stay where they are: `collect` and
    `users_table` read them.

    `origins`: one for each argument whose rows lie in the parts; `arguments`: those of
    `weft.evaluate` by name, where data that lies in the parts is not looked at. Items,
    item_clusters and item_features are read here."""
    given, arguments = {name: arguments[name] for name in OF_ITEMS}, _to_be_sent(arguments, origins)
    slices = parse_slices(arguments["slices"], has_train=arguments["train"] is not None)
    _nobody(
        arguments, origins, _no_whole(arguments, slices)
    )  # what cannot be evaluated is refused before anything is read
    found = survey(parts, origins, [one.where for one in slices if one.cut is None])
    whole = with_cuts(parts, arguments, origins, whole_of(found, origins, {**arguments, **given}))
    nobody = _nobody(arguments, origins, whole)
    work = partial(
        _evaluate,
        arguments=arguments,
        origins=origins,
        whole=replace(whole, notes=()),
        metrics=_of_others(nobody),
    )
    answers = kept(parts, work)
    told = merged(answers, _told, partial(_one_told, own=nobody.evaluator.stateful_metrics))
    if (
        told.by_label is not None and whole.train is not None
    ):  # what users had is compared with what they get
        whole = replace(whole, train=replace(whole.train, by_label=told.by_label))
    job = _nobody(arguments, origins, whole)
    job.evaluator.restore(told.gathered)
    job.counts.update(told.facts)
    job.candidates.merge(told.offered)
    resampled = (
        RemoteContributions(answers, told.users) if arguments["bootstrap"] is not None else None
    )
    digests = {name: digest_sums(sums) for name, sums in told.digests.items()}
    fingerprint: dict[str, Any] = {
        "truth": None,
        "train": None,
        "source": None,
        **digests,
        "source_kind": told.kind,
    }
    if (candidates := job.candidates.fingerprint()) is not None:
        fingerprint["candidates"] = candidates
    result = job.result(resampled, fingerprint)
    provenance = {**result.provenance, "engine": engine, "parts": told.parts}
    return replace(result, provenance=provenance, per_user=None, user_labels=None), answers


def _to_be_sent(arguments: Mapping[str, Any], origins: Mapping[str, Origin]) -> dict[str, Any]:
    """The arguments without data, which lies in the parts or is known to the whole: True says that
    there is some.
    """
    slices = {}
    for name, wanted in (arguments["slices"] or {}).items():
        of_numbers = isinstance(wanted, Mapping) and set(wanted) == {"of", "by"}
        slices[name] = (
            {"of": True, "by": wanted["by"]}
            if of_numbers
            else wanted
            if isinstance(wanted, str)
            else True
        )
        if f"slices[{name!r}]" in origins and isinstance(wanted, str):  # a file
            slices[name] = True
    items = {
        name: None if arguments[name] is None else True
        for name in ("item_clusters", "item_features")
    }
    in_parts = dict.fromkeys((name for name in origins if name in arguments), True)
    return {
        **arguments,
        **in_parts,
        **items,
        "items": None,
        "source": None,
        "slices": slices or None,
    }


def _of_others(job: EvaluationRun) -> list[type[BaseMetric]]:
    """The metrics that come from elsewhere, and that other processes may not know by name."""
    named = " ".join(map(str, job.classes))
    others = [metric for metric in all_metrics() if not metric.__module__.startswith("weft.")]
    return [metric for metric in others if metric.__name__ in named]


# --------------------------------------------------------------------------------------------------


def users_table(answer: Answer) -> pl.DataFrame:
    """The values of the users of a part: user, and a column for each metric that has a value per
    user.
    """
    assert answer.values is not None
    return answer.values.drop(NO_SOURCE)


def collect(answers: Parts[Any]) -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
    """The values and the labels of all users, in memory here, as a result has them."""
    values, labels = answers.merged(_tables, _one_table)
    if values is None:
        return None, None
    order = [NO_SOURCE, "user"]
    values = values.sort(order)
    return values.drop(NO_SOURCE), None if labels is None else labels.sort(order).drop(NO_SOURCE)


def _tables(answer: Answer) -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
    return answer.values, answer.labels


def _one_table(
    parts: list[tuple[pl.DataFrame | None, pl.DataFrame | None]],
) -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
    import polars as pl

    values, labels = ([frame for frame in frames if frame is not None] for frames in zip(*parts))
    return pl.concat(values) if values else None, pl.concat(labels) if labels else None


class RemoteContributions:
    """The contributions of users to every sum, each in its part."""

    def __init__(self, answers: Parts[Any], users: int) -> None:
        self._answers, self.users = answers, users

    def weighted_sums(self, weights: UserWeights, *, terms: bool) -> WeightedSums:
        return self._answers.merged(
            partial(_under, weights=weights, terms=terms), WeightedSums.merge
        )

    def jackknife_moments(
        self, sums: NDArray[np.float64], counts: NDArray[np.float64]
    ) -> JackknifeMoments:
        return self._answers.merged(
            partial(_spread, sums=sums, counts=counts), JackknifeMoments.merge
        )

    def hashes(self) -> SortedValues[np.int64]:
        return PartitionedIntegers(self._answers, _hashes)


def _under(answer: Answer, weights: UserWeights, terms: bool) -> WeightedSums:
    assert answer.kept is not None
    return answer.kept.weighted_sums(weights, terms=terms)


def _spread(
    answer: Answer, sums: NDArray[np.float64], counts: NDArray[np.float64]
) -> JackknifeMoments:
    assert answer.kept is not None
    return answer.kept.jackknife_moments(sums, counts)


def _hashes(answer: Answer) -> Numbers:
    assert answer.kept is not None
    return jackknife_hashes(answer.kept.keys)

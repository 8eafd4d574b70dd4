"""An evaluation whose users lie in parts: what all parts must know is found first, each part evaluates its users, and what they
gathered adds up. The same for every engine; the values are those of one process.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from weft.data import Interactions, Label, Labels, Vocabulary, read_features, read_labels
from weft.data.files import File, Table, is_file, read_table
from weft.data.interactions import digest_of, sums_by_id
from weft.data.labels import label_names
from weft.data.ordered import Ordered
from weft.data.slices import Slice, are_whole, parse_slices, ranges
from weft.data.train import TrainTotals
from weft.data.vocabulary import distinct
from weft.engines.parts import Origin, Part, Parts
from weft.engines.scattered import Scattered, ScatteredNumbers
from weft.errors import InputError, SettingError, WeftError
from weft.gathered import Gathered, put_together
from weft.job import NO_SOURCE, Job, prepare
from weft.offers import CANDIDATES
from weft.problem import NOTHING_HIT, Groups, Whole, given_ids, nobody_in_common, nothing_in_common, numbers_of
from weft.profiles import find_profile
from weft.registry import all_metrics, register
from weft.result import Result
from weft.sources import Model
from weft.uncertainty import KeptHere, Spread, Weighted, Weights, group_hashes

if TYPE_CHECKING:
    import polars as pl

    from weft.metrics.base import BaseMetric

T = TypeVar("T")
S = TypeVar("S")
Numbers = NDArray[np.int64]

# Arguments whose rows belong to users, and those that are about items.
OF_USERS = ("source", "truth", "train", "candidates", "users", "user_groups")
OF_ITEMS = ("items", "item_clusters", "item_features")
_FEW = 3  # ids that a message shows


@dataclass(frozen=True)
class Portion(Table):
    """The rows of a part, as a table."""

    file: File | None = None  # type: ignore[assignment]
    columns: Mapping[str, pl.Series] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    origin: Origin = field(default_factory=lambda: Origin(""))

    @property
    def path(self) -> str | None:
        return self.origin.path

    def places(self, rows: Sequence[int]) -> list[str]:
        return ["a row"] * len(rows)  # where it stands in which file, nobody knows any more


def _portion(frames: Mapping[str, pl.DataFrame], argument: str, origin: Origin) -> Portion:
    frame, everyone = frames[argument], frames.get(f"{argument} everyone")
    for kind in ("user", "item"):
        if kind in frame.columns and frame[kind].null_count():
            missing = frame.filter(frame[kind].is_null())
            shown = "\n".join(f"  a row: {_shown(row)}" for row in missing.head(_FEW).iter_rows(named=True))
            raise InputError(f"{origin.where} has no {kind} id in {len(missing):,} rows:\n{shown}\nEvery row needs one.")
    columns = {name: frame[name] for name in frame.columns}
    named = None if everyone is None else _together([frame["user"], everyone["user"]])
    return Portion(
        where=origin.where,
        columns=columns,
        unread=origin.unread,
        width=len(columns),
        notes=origin.notes,
        everyone=named,
        origin=origin,
    )


def _shown(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value!r}" for name, value in row.items())


def _together(ids: Sequence[pl.Series]) -> pl.Series:
    """All these ids, each once and in order."""
    return Vocabulary.found("user", ids, origin="").ids


# ------------------------------------------------------------------------------------------------------ before any work


def check(arguments: Mapping[str, Any], *, has_lists: bool, engine: str) -> None:
    """Refuse settings that are wrong, or cannot run where users lie in parts, before anything is read."""
    if arguments["checkpoint"] is not None:
        raise SettingError(
            f"checkpoint= is for an evaluation in one process; on {engine}, what is lost is computed again by {engine} itself. "
            "Leave it out."
        )
    for name in ("truth", "train", "candidates", *OF_ITEMS):
        given = arguments[name]
        if getattr(given, "ndim", 1) == 2 and not hasattr(given, "columns") and name != "item_features":
            raise InputError(
                f"{name} is a matrix, whose rows and columns are numbers; on {engine} users and items go by their ids. Give a "
                "frame or a file, or evaluate it in one process with weft.evaluate."
            )
    given = [name for name in OF_USERS if arguments[name] is not None and name != "source"]
    given = [name for name in given if name != "candidates" or not _is_pool(arguments[name])]
    origins = {name: Origin(name, columns=_COLUMNS[name]) for name in given}
    origins |= {"source": Origin("source", columns=_COLUMNS["source"])} if has_lists else {}
    if has_lists and arguments["users"] is not None:
        raise SettingError("users= names the rows of scores; recommendation lists name their users themselves. Leave it out.")
    slices = parse_slices(arguments["slices"], has_train=arguments["train"] is not None)
    origins |= {one.where: Origin(one.where, columns=("user", "label")) for one in slices if one.of is not None}
    job = _nobody(arguments, origins, _no_whole(arguments, slices))
    if large := [str(spec) for spec, metric in job.evaluator.composition.own.items() if _keeps_rows(metric)]:
        raise SettingError(
            f"{', '.join(large)} keeps something of every row or score, which would all come to one machine; evaluate it in one "
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


def _is_pool(candidates: Any) -> bool:
    return isinstance(candidates, str) and candidates.casefold() in CANDIDATES


def _keeps_rows(metric: BaseMetric) -> bool:
    return any(isinstance(default, list) for default in metric._defaults.values())


def _no_whole(arguments: Mapping[str, Any], slices: Sequence[Slice]) -> Whole:
    """A catalogue without items, to see whether settings fit together."""
    sizes = [getattr(metric, "num_items", None) for metric in _as_list(arguments["metrics"])]
    items = Vocabulary.numbers("item", next((size for size in sizes if isinstance(size, int)), 0))
    totals = None if arguments["train"] is None else TrainTotals(np.zeros(items.size, dtype=np.int64), 0)
    labels: dict[str, Any] = {}
    if arguments["item_clusters"] is not None:
        labels["item_clusters"] = read_labels({}, "item_clusters", items)
    if arguments["item_features"] is not None:
        labels["item_features"] = read_features({}, "item_features", items)
    where = [one.where for one in slices] + ["user_groups"] * (arguments["user_groups"] is not None)
    return Whole(items, totals, labels, {name: Groups((), []) for name in where})


def _as_list(metrics: Any) -> list[Any]:
    return list(metrics) if isinstance(metrics, (list, tuple)) else [metrics]


def _nobody(arguments: Mapping[str, Any], origins: Mapping[str, Origin], whole: Whole) -> Job:
    """The evaluation of nobody: where what the parts gathered is put together."""
    import polars as pl

    types = {"user": pl.Int64, "item": pl.Int64, "label": pl.String}
    frames = {
        name: pl.DataFrame(schema={column: types.get(column, pl.Float64) for column in origin.columns})
        for name, origin in origins.items()
    }
    return _job(Part(frames, None if "source" in origins else Model(_nothing)), arguments, origins, whole)


def _nothing(users: Any) -> Tensor:
    return torch.empty((len(users), 0))


def _job(part: Part, arguments: Mapping[str, Any], origins: Mapping[str, Origin], whole: Whole) -> Job:
    """The evaluation of the users of a part."""
    tables = {name: _portion(part.frames, name, origin) for name, origin in origins.items()}
    given: dict[str, Any] = {name: tables.get(name) for name in OF_USERS if name != "candidates"}
    if part.source is not None:
        given["source"] = part.source
        given["users"] = tables["users"].columns["user"] if "users" in tables else None
    if "candidates" in tables:
        given["candidates"] = tables["candidates"]
    slices = {
        name: (
            wanted
            if (where := f"slices[{name!r}]") not in tables
            else {"of": tables[where], "by": wanted["by"]}
            if isinstance(wanted, Mapping) and set(wanted) == {"of", "by"}
            else tables[where]
        )
        for name, wanted in (arguments["slices"] or {}).items()
    }
    given |= {"slices": slices or None, "progress": False, "checkpoint": None}
    given |= {name: None if name == "items" else whole.labels.get(name) for name in OF_ITEMS}
    return prepare(**{**arguments, **given}, whole=whole)


# -------------------------------------------------------------------------------------------------------- errors as values


@dataclass(frozen=True)
class Failure:
    """What is wrong in a part, on its way to the caller. `others`: how many other parts have failed too."""

    kind: type[WeftError]
    message: str
    others: int = 0

    def error(self) -> WeftError:
        more = f"\nSo have {self.others:,} other parts of the users; theirs are not shown." if self.others else ""
        return self.kind(self.message + more)


def _or_failure(work: Callable[[T], S], part: T | Failure) -> S | Failure:
    if isinstance(part, Failure):
        return part
    try:
        return work(part)
    except WeftError as error:
        return Failure(type(error), str(error))


def _joined(join: Callable[[list[S]], S], parts: list[S | Failure]) -> S | Failure:
    failures = sorted((part for part in parts if isinstance(part, Failure)), key=lambda failure: failure.message)
    if failures:
        others = sum(failure.others + 1 for failure in failures) - 1
        return replace(failures[0], others=others)
    return join(list(parts))  # type: ignore[arg-type]


def _merged(parts: Parts[Any], work: Callable[[Any], S], join: Callable[[list[S]], S]) -> S:
    found: S | Failure = parts.merged(partial(_or_failure, work), partial(_joined, join))
    if isinstance(found, Failure):
        raise found.error()
    return found


def _kept(parts: Parts[Any], work: Callable[[Any], Any]) -> Parts[Any]:
    return parts.keep(partial(_or_failure, work))


# ------------------------------------------------------------------------------------------------ what all parts must know


@dataclass(frozen=True)
class Survey:
    """What is found in some parts, before anybody is evaluated."""

    rows: Counter[str]  # of each argument
    users: Counter[str]  # "source", "truth", "both", and "train", those with an interaction
    some_users: dict[str, pl.Series]  # a few of the source's and of the truth's
    items: dict[str, pl.Series]  # all that source, truth, train and candidates name, each once
    popularity: pl.DataFrame | None  # item, and how many users have met it in train
    labels: dict[str, tuple[frozenset[Label], int]]  # of users: which there are, and how many belong to users nobody knows


def _survey(part: Part, origins: Mapping[str, Origin], slices: Sequence[str]) -> Survey:
    tables = {name: _portion(part.frames, name, origin) for name, origin in origins.items()}
    of_items = [name for name in ("source", "truth", "train", "candidates") if name in tables]
    people = {name: _people(tables[name]) for name in ("source", "users", "truth", "train") if name in tables}
    known = Vocabulary.found("user", list(people.values()), origin="source")
    if "users" in people or "source" not in people:
        people["source"] = people.get("users", people["truth"])
    both = np.isin(people["source"].to_numpy(), people["truth"].to_numpy()).sum() if len(people["source"]) else 0
    popularity = None
    if "train" in tables:
        frame = part.frames["train"].select("user", "item").unique()
        popularity = frame.group_by("item").len("number")
    labels = {}
    for name in ("user_groups", *slices):
        if name in tables:
            read = read_labels(tables[name], name, known, in_order=0)
            labels[name] = frozenset(read.names), read.unknown
    return Survey(
        Counter({name: len(table) for name, table in tables.items()}),
        Counter(
            {
                "source": len(people["source"]),
                "truth": len(people["truth"]),
                "both": int(both),
                "train": len(people.get("train", ())),
            }
        ),
        {name: people[name].head(_FEW + 1) for name in ("source", "truth")},
        {name: distinct(tables[name].columns["item"]) for name in of_items},
        popularity,
        labels,
    )


def _people(table: Portion) -> pl.Series:
    return distinct(table.columns["user"] if table.everyone is None else table.everyone)


def _one_survey(parts: list[Survey]) -> Survey:
    import polars as pl

    first = parts[0]
    rows, users = Counter[str](), Counter[str]()
    for part in parts:
        rows.update(part.rows)
        users.update(part.users)
    popularity = None
    if first.popularity is not None:
        tables = [part.popularity for part in parts if part.popularity is not None and len(part.popularity)]
        popularity = pl.concat(tables).group_by("item").agg(pl.col("number").sum()) if tables else first.popularity
    return Survey(
        rows,
        users,
        {name: _together([part.some_users[name] for part in parts]).head(_FEW + 1) for name in first.some_users},
        {name: _together([part.items[name] for part in parts]) for name in first.items},
        popularity,
        {
            name: (
                frozenset[Label]().union(*(part.labels[name][0] for part in parts)),
                sum(part.labels[name][1] for part in parts),
            )
            for name in first.labels
        },
    )


def _whole(found: Survey, origins: Mapping[str, Origin], arguments: Mapping[str, Any]) -> Whole:
    """What all parts must know; what is wrong with the whole is refused here."""
    source, truth = origins.get("source"), origins["truth"]
    for origin in (source, truth):
        name = "truth" if origin is truth else "source"
        if origin is not None and origin.path is not None and not found.rows[name]:
            raise InputError(f"{origin.where} has no rows.")
    items, notes = _catalogue(found, origins, arguments), list[str]()
    if source is not None and found.users["source"] and found.users["truth"] and not found.users["both"]:
        are_files = source.path is not None or truth.path is not None
        some = found.some_users["source"], found.some_users["truth"]
        notes.append(nobody_in_common(source.where, truth.where, *some, are_files=are_files))
    if source is not None and len(found.items["source"]) and len(found.items["truth"]):
        listed = Vocabulary("item", 0, found.items["source"])
        listed.size = len(found.items["source"])
        if (listed.encode(found.items["truth"], truth.where) < 0).all():
            notes.append(NOTHING_HIT)
    totals = None
    if found.popularity is not None:
        places, counts = items.encode(found.popularity["item"], "train"), np.zeros(items.size, dtype=np.int64)
        known = places >= 0  # what is not in the catalogue is refused with its rows, where these are
        counts[places[known]] = found.popularity["number"].to_numpy()[known]
        totals = TrainTotals(counts, found.users["train"])
    in_order = items.size if arguments["items"] is not None else 0
    labels = {}
    for name in ("item_clusters", "item_features"):
        if (given := arguments[name]) is not None:
            given = read_table(given, name) if is_file(given) else given
            read = read_features if name == "item_features" else read_labels
            labels[name] = read(given, name, items, in_order=in_order)
    groups = {name: Groups(label_names(names, name), None, unknown) for name, (names, unknown) in found.labels.items()}
    return Whole(items, totals, labels, groups, tuple(notes))


def _catalogue(found: Survey, origins: Mapping[str, Origin], arguments: Mapping[str, Any]) -> Vocabulary:
    """The items: those given, or every item that occurs."""
    if (given := arguments["items"]) is not None:
        return given_ids("item", read_table(given, "items") if is_file(given) else given)
    if "source" not in origins:
        raise InputError("the items that the model scores are not known; give their ids as items=[...].")
    source, truth = origins["source"], origins["truth"]
    listed = Vocabulary.found("item", [found.items["source"]], origin=source.where)
    met = [found.items[name] for name in ("truth", "train") if name in found.items]
    if source.path is not None and listed.size and len(met[0]) and all((listed.encode(ids, "") < 0).all() for ids in met):
        raise nothing_in_common(source.where, truth.where, listed.ids, met[0])
    everything = Vocabulary.found("item", list(found.items.values()), origin=source.where)
    tool = None if arguments["profile"] is None else find_profile(arguments["profile"])
    is_reversed = tool is not None and tool.last_id_first and arguments["ties"] is None
    return everything.by_text_descending() if is_reversed else everything


# ------------------------------------------------------------------------------------------------------------- slices


@dataclass(frozen=True)
class _Cut:
    """The numbers that a slice is cut by, of the users of a part who count for it; and what is known of all of them."""

    numbers: NDArray[np.float64]
    are_whole: bool


def _cuts(
    part: Part, names: Sequence[str], *, arguments: Mapping[str, Any], origins: Mapping[str, Origin], whole: Whole
) -> dict[str, _Cut]:
    job = _job(part, arguments, origins, whole)
    parsed = parse_slices(arguments["slices"], has_train=arguments["train"] is not None)
    found = {}
    for one in parsed:
        if one.where in names:
            table = replace(one, of=_portion(part.frames, one.where, origins[one.where])) if one.of is not None else one
            numbers, evaluated = numbers_of(table, job.relevant, job.problem.train, job.problem.users, 0)
            found[one.where] = _Cut(numbers[evaluated & ~np.isnan(numbers)], are_whole(numbers))
    return found


def _of_cut(cuts: Mapping[str, _Cut], name: str) -> NDArray[np.float64]:
    return cuts[name].numbers


def _with_cuts(parts: Parts[Part], arguments: Mapping[str, Any], origins: Mapping[str, Origin], whole: Whole) -> Whole:
    """Where slices by numbers are cut, which depends on all users."""
    wanted = parse_slices(arguments["slices"], has_train=arguments["train"] is not None)
    cut = [one for one in wanted if one.cut is not None]
    if not cut:
        return whole
    names = [one.where for one in cut]
    numbers = _kept(parts, partial(_cuts, names=names, arguments=arguments, origins=origins, whole=whole))
    whole_numbers = _merged(numbers, _are_whole, _all_of_each)
    groups = dict(whole.groups)
    for one in cut:
        assert one.cut is not None
        ordered = ScatteredNumbers(numbers, partial(_unfailed, partial(_of_cut, name=one.where)))
        starts = one.cut.starts(ordered) if ordered.size else []
        found = ranges(starts, are_whole=whole_numbers[one.where]) if ordered.size else []
        groups[one.where] = Groups(tuple(found), starts)
    numbers.release()
    return replace(whole, groups=groups)


def _are_whole(cuts: Mapping[str, _Cut]) -> dict[str, bool]:
    return {name: cut.are_whole for name, cut in cuts.items()}


def _all_of_each(parts: list[dict[str, bool]]) -> dict[str, bool]:
    return {name: all(part[name] for part in parts) for name in parts[0]}


def _unfailed(work: Callable[[T], S], part: T) -> S:
    assert not isinstance(part, Failure)  # they were looked at before
    return work(part)


# -------------------------------------------------------------------------------------------------------- evaluating


@dataclass(frozen=True)
class Told:
    """What parts have gathered, and what is counted beside it. It adds up."""

    gathered: Gathered
    facts: Counter[str]
    offered: dict[str, list[int]]
    digests: dict[str, NDArray[np.uint64]]
    by_label: Numbers | None
    users: int  # whose contributions are kept
    kind: str  # of the source
    parts: int = 1


@dataclass(frozen=True)
class Answer:
    """What a part has found. What is about single users stays there: their values, labels and contributions."""

    told: Told
    kept: KeptHere | None
    values: pl.DataFrame | None  # of each user
    labels: pl.DataFrame | None


def _evaluate(
    part: Part,
    *,
    arguments: Mapping[str, Any],
    origins: Mapping[str, Origin],
    whole: Whole,
    metrics: Sequence[type[BaseMetric]],
) -> Answer:
    for metric in metrics:  # which this process may not know
        register(metric)
    job = _job(part, arguments, origins, whole)
    job.carry_out()
    gathered = job.evaluator.gathered()
    rows = {name: values[:0] for name, values in gathered.rows.items() if not name.startswith("kept_")}
    kept = job.evaluator.contributions()
    groups, clusters = job.problem.labels.get("user_groups"), job.problem.labels.get("item_clusters")
    by_label = None
    if job.problem.train is not None and isinstance(groups, Labels) and isinstance(clusters, Labels):
        by_label = job.problem.train.cells_by_label(groups, clusters)
    told = Told(
        _sparse(replace(gathered, rows=rows)),
        job.facts,
        job.offers.counted(),
        _digests(job),
        by_label,
        0 if kept is None else len(kept.keys),
        job.problem.source.kind,
    )
    ids = part.frames["truth"]["user"].dtype  # which nobody's table would not tell
    values, labels = (rows if rows is None else rows.with_columns(rows["user"].cast(ids)) for rows in job.users_table())
    return Answer(told, None if kept is None else KeptHere(kept), values, labels)


def _digests(job: Job) -> dict[str, NDArray[np.uint64]]:
    """Of the data by id, as sums: the same, however the users are shared out."""
    problem = job.problem
    cells = {"truth": problem.truth} | ({} if problem.train is None else {"train": problem.train.cells})
    users = problem.all_users or problem.users
    found = {name: sums_by_id(some, users, problem.items) for name, some in cells.items()}
    if problem.lists is not None:
        lists = problem.lists
        scores = np.zeros(len(lists.items)) if lists.scores is None else lists.scores
        rows = Interactions(lists.offsets, lists.items.astype(np.int64), scores, lists.num_items)
        found["source"] = sums_by_id(rows, problem.users, problem.items)
    return found


def _sparse(gathered: Gathered) -> Gathered:
    """Sums of which most are 0, as those of few users over many items are, take no more room than the others."""
    filled = int(torch.count_nonzero(gathered.sums))
    return replace(gathered, sums=gathered.sums.to_sparse() if 4 * filled < len(gathered.sums) else gathered.sums.clone())


def _told(answer: Answer) -> Told:
    return answer.told


def _one_told(parts: list[Told], *, own: Sequence[BaseMetric]) -> Told:
    facts, offered = Counter[str](), copy.deepcopy(parts[0].offered)
    for part in parts:
        facts.update(part.facts)
    for part in parts[1:]:
        offered["counts"] = [mine + more for mine, more in zip(offered["counts"], part.offered["counts"])]
        offered["digest"] = [(mine + more) % (1 << 64) for mine, more in zip(offered["digest"], part.offered["digest"])]
    first = parts[0]
    gathered = put_together([replace(part.gathered, sums=part.gathered.sums.to_dense()) for part in parts], own)
    return Told(
        gathered,
        facts,
        offered,
        {name: np.sum([part.digests[name] for part in parts], axis=0, dtype=np.uint64) for name in first.digests},
        None if first.by_label is None else np.sum([part.by_label for part in parts if part.by_label is not None], axis=0),
        sum(part.users for part in parts),
        first.kind,
        sum(part.parts for part in parts),
    )


def evaluate(
    parts: Parts[Part], origins: Mapping[str, Origin], arguments: Mapping[str, Any], *, engine: str
) -> tuple[Result, Parts[Any]]:
    """The whole evaluation, and the answers of the parts, which stay where they are: `collect` and `users_table` read them.

    `origins`: one for each argument whose rows lie in the parts; `arguments`: those of `weft.evaluate` by name, where data that
    lies in the parts is not looked at. Items, item_clusters and item_features are read here.
    """
    arguments = {**arguments, **dict.fromkeys((name for name in origins if name in arguments), True)}
    slices = parse_slices(arguments["slices"], has_train=arguments["train"] is not None)
    labelled = [one.where for one in slices if one.cut is None]
    found = _merged(parts, partial(_survey, origins=origins, slices=labelled), _one_survey)
    whole = _whole(found, origins, arguments)
    for name in ("items", "item_clusters", "item_features"):
        arguments[name] = None  # they are in the whole
    whole = _with_cuts(parts, arguments, origins, whole)
    nobody = _nobody(arguments, origins, whole)
    work = partial(_evaluate, arguments=arguments, origins=origins, whole=replace(whole, notes=()), metrics=_of_others(nobody))
    answers = _kept(parts, work)
    told = _merged(answers, _told, partial(_one_told, own=nobody.evaluator.own))
    if told.by_label is not None and whole.train is not None:  # what users had is compared with what they get
        whole = replace(whole, train=replace(whole.train, by_label=told.by_label))
    job = _nobody(arguments, origins, whole)
    job.evaluator.take(told.gathered)
    job.facts.update(told.facts)
    job.offers.count(told.offered)
    kept = KeptApart(answers, told.users) if arguments["bootstrap"] is not None else None
    digests = {name: digest_of(sums) for name, sums in told.digests.items()}
    fingerprint: dict[str, Any] = {"truth": None, "train": None, "source": None, **digests, "source_kind": told.kind}
    if (candidates := job.offers.fingerprint()) is not None:
        fingerprint["candidates"] = candidates
    result = job.result(kept, fingerprint)
    provenance = {**result.provenance, "engine": engine, "parts": told.parts}
    return replace(result, provenance=provenance, per_user=None, user_labels=None), answers


def _of_others(job: Job) -> list[type[BaseMetric]]:
    """The metrics that come from elsewhere, and that other processes may not know by name."""
    named = " ".join(map(str, job.wanted))
    others = [metric for metric in all_metrics() if not metric.__module__.startswith("weft.")]
    return [metric for metric in others if metric.__name__ in named]


# ------------------------------------------------------------------------------------------------------------- single users


def users_table(answer: Answer) -> pl.DataFrame:
    """The values of the users of a part: user, and a column for each metric that has a value per user."""
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


def _one_table(parts: list[tuple[pl.DataFrame | None, pl.DataFrame | None]]) -> tuple[pl.DataFrame | None, pl.DataFrame | None]:
    import polars as pl

    values, labels = ([frame for frame in frames if frame is not None] for frames in zip(*parts))
    return pl.concat(values) if values else None, pl.concat(labels) if labels else None


class KeptApart:
    """The contributions of users to every sum, each in its part."""

    def __init__(self, answers: Parts[Any], users: int) -> None:
        self._answers, self.users = answers, users

    def under(self, weights: Weights, *, places: bool) -> Weighted:
        return self._answers.merged(partial(_under, weights=weights, places=places), Weighted.added)

    def spread(self, sums: NDArray[np.float64], counts: NDArray[np.float64]) -> Spread:
        return self._answers.merged(partial(_spread, sums=sums, counts=counts), Spread.added)

    def hashes(self) -> Ordered[np.int64]:
        return Scattered(self._answers, _hashes)


def _under(answer: Answer, weights: Weights, places: bool) -> Weighted:
    assert answer.kept is not None
    return answer.kept.under(weights, places=places)


def _spread(answer: Answer, sums: NDArray[np.float64], counts: NDArray[np.float64]) -> Spread:
    assert answer.kept is not None
    return answer.kept.spread(sums, counts)


def _hashes(answer: Answer) -> Numbers:
    assert answer.kept is not None
    return group_hashes(answer.kept.keys)

"""Findings about the lists themselves: their lengths, ranks and scores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import polars as pl

from weft.data.interactions import MAX_EXAMPLES
from weft.diagnostics.reading import RawTable
from weft.diagnostics.what_if import (
    DraftFinding,
    Inputs,
    Treatment,
    draft_finding,
    drop_absent,
    leave_users_out,
)
from weft.errors import agree
from weft.evaluation.metric_value import MetricValue
from weft.metrics.names import parse_name
from weft.metrics.registry import all_metrics

# Number of users from which it is suspicious that half of them have the same list.
_MANY_USERS = 20
_TIE_RANGE = tuple(
    Treatment(f"ties={rule!r}", settings={"ties": rule}) for rule in ("pessimistic", "optimistic")
)
_FIX_SCORES = (
    "Check that this column contains the scores of the model; ties='expected' gives the mean over "
    "all orders of equal scores."
)


def check_within_lists(
    table: RawTable, cutoffs: list[int], evaluated: Sequence[MetricValue]
) -> Iterator[DraftFinding]:
    """Find everything suspicious about the lists of one model."""
    if not len(table.frame):
        return
    yield from drop_absent(_check_lengths(table, cutoffs, evaluated))
    if "rank" in table.frame.columns:
        yield from _check_ranks(table)
    elif "score" in table.frame.columns:
        yield from _check_scores(table, cutoffs)
    elif table.unused_columns:
        yield _order_of_rows(table)
    if cutoffs:
        yield from drop_absent(_same_lists(table, max(cutoffs)))


def _check_lengths(
    table: RawTable, cutoffs: list[int], evaluated: Sequence[MetricValue]
) -> DraftFinding | None:
    """Find lists shorter than the largest cut-off, else lists of very different lengths."""
    counts = table.frame.group_by("user").agg(items=pl.len())
    lengths = table.users.to_frame("user").join(counts, "user", "left", maintain_order="left")
    lengths = lengths.with_columns(pl.col("items").fill_null(0))
    items = pl.col("items")
    low, middle, high = lengths.select(
        low=items.min(), middle=items.median(), high=items.max()
    ).row(0)
    description = f"lengths range from {low} to {high}, with median {middle:g}"
    if low == high:
        description = agree(low, "each list has {n} item{s}")
    short = lengths.filter(pl.col("items") < max(cutoffs, default=0))
    if not len(short):
        return _uneven_lists(table, lengths, low, high, description)
    depth, num_empty = max(cutoffs), int((short["items"] == 0).sum())
    items_of_depth = agree(depth, "{n} item{s}")
    # If all lists are short, the metrics are cut off at the end of the longest list.
    treatment = (
        _cut_off_treatment(evaluated, high)
        if len(short) == len(lengths)
        else leave_users_out("users with short lists", short["user"])
    )
    return draft_finding(
        "short-lists",
        "warning",
        table,
        short.sort("items", maintain_order=True),
        message=f"{{n}} of {len(lengths):,} lists {{have}} fewer than "
        f"{items_of_depth}{f', {num_empty:,} of them empty' if num_empty else ''}; {description}.",
        treatments=(treatment,),
        fix=f"Create lists of at least {items_of_depth}, or use smaller cut-offs; positions beyond "
        "the end of a list count as misses.",
    )


def _cut_off_treatment(evaluated: Sequence[MetricValue], end: int) -> Treatment:
    """Return the treatment that lowers all cut-offs beyond `end` to it."""
    known = {metric.__name__ for metric in all_metrics()}
    names = {
        value.name: value.metric if value.k is None else f"{value.metric}@{min(value.k, end)}"
        for value in evaluated
        if not value.cell and parse_name(value.metric).name in known
    }
    settings = {"metrics": tuple(dict.fromkeys(names.values())), "top_k": ()}
    return Treatment(
        f"cut-off {end}", lambda data: data if end and names else None, settings, names
    )


def _uneven_lists(
    table: RawTable, lengths: pl.DataFrame, shortest: int, longest: int, description: str
) -> DraftFinding | None:
    if longest < 2 * shortest or longest <= shortest + 1:
        return None

    def cut(data: Inputs) -> Inputs:
        rows = table.ranked.filter(pl.col("position") <= shortest)
        return replace(data, lists=table.with_frame(rows.drop("position").sort("row")))

    return DraftFinding(
        "uneven-lists",
        "note",
        table.where,
        f"The longest list has {longest} items, the shortest {shortest}; {description}.",
        int((lengths["items"] > shortest).sum()),
        table.examples(lengths.sort("items", descending=True, maintain_order=True)),
        (Treatment(f"all lists cut to {shortest} items", cut),),
        "None needed for metrics with a cut-off; metrics of whole lists favour longer lists.",
    )


def _order_of_rows(table: RawTable) -> DraftFinding:
    """Find lists whose order may be in a column that was not read."""

    def reverse(data: Inputs) -> Inputs:
        frame = table.frame.sort("row", descending=True)
        rows = frame.with_columns(row=pl.int_range(pl.len(), dtype=pl.Int64))
        return replace(data, lists=table.with_frame(rows))

    return DraftFinding(
        "order-of-rows",
        "warning",
        table.where,
        "The lists have neither scores nor ranks; the order of the rows is used, best first. "
        f"Columns that were not read: {', '.join(map(repr, table.unused_columns))}.",
        len(table.frame),
        table.examples(table.frame),
        (Treatment("rows in reverse order", reverse),),
        "If one of these columns gives the order, name it: --column score=NAME or --column "
        "rank=NAME, in Python and YAML the setting columns of the file. Otherwise, make sure that "
        "the rows of each user are in order.",
    )


def _check_ranks(table: RawTable) -> list[DraftFinding]:
    """Find ranks that do not start at 1, have gaps, or contradict the scores."""
    spans = table.frame.group_by("user", maintain_order=True).agg(
        first=pl.col("rank").min(), last=pl.col("rank").max(), items=pl.len()
    )
    return drop_absent(
        _ranks_not_from_1(table, spans),
        _gaps_in_ranks(table, spans),
        _ranks_against_scores(table, len(spans)) if "score" in table.frame.columns else None,
    )


def _ranks_not_from_1(table: RawTable, spans: pl.DataFrame) -> DraftFinding | None:
    odd = spans.filter(pl.col("first") != 1).select("user", pl.col("first").alias("first rank"))
    starts = [f"{start:g}" for start in odd["first rank"].unique().sort()]
    return draft_finding(
        "ranks-not-from-1",
        "note",
        table,
        odd,
        message=f"The ranks of {len(odd):,} of {len(spans):,} lists do not start at 1, but at "
        f"{' to '.join(dict.fromkeys(starts[:1] + starts[-1:]))}; only their order counts.",
        treatments=(Treatment("ranks from 1"),),
        fix="None needed if ranks count from 0; otherwise check whether the first rows are "
        "missing.",
    )


def _gaps_in_ranks(table: RawTable, spans: pl.DataFrame) -> DraftFinding | None:
    gaps = spans.filter(pl.col("last") - pl.col("first") + 1 != pl.col("items"))
    if not len(gaps):
        return None
    return DraftFinding(
        "gaps-in-ranks",
        "warning",
        table.where,
        f"The ranks of {len(gaps):,} of {len(spans):,} lists have gaps or fractions; only their "
        "order counts.",
        len(gaps),
        tuple(
            {"user": row[0], "ranks": f"{row[1]:g} to {row[2]:g}", "items": row[3]}
            for row in gaps.head(MAX_EXAMPLES).iter_rows()
        ),
        (leave_users_out("users with gaps", gaps["user"]),),
        "Check whether rows are missing or were removed after the ranks were assigned.",
    )


def _ranks_against_scores(table: RawTable, num_lists: int) -> DraftFinding | None:
    wrong = table.ranked.filter(
        (pl.col("score") > pl.col("score").shift()) & (pl.col("user") == pl.col("user").shift())
    )
    count = wrong["user"].n_unique()
    if not count:
        return None

    def rank_by_score(data: Inputs) -> Inputs:
        return replace(data, lists=table.with_frame(table.frame.drop("rank")))

    return DraftFinding(
        "ranks-against-scores",
        "warning",
        table.where,
        agree(
            count,
            f"{{n}} of {num_lists:,} lists {{have}} an item with a higher score than the item "
            "ranked before it; lists with both columns are ordered by rank.",
        ),
        count,
        table.examples(wrong),
        (Treatment("ordered by score", rank_by_score),),
        "Remove the column that does not give the order. If the score is a distance, lower values "
        "are better.",
    )


def _check_scores(table: RawTable, cutoffs: list[int]) -> list[DraftFinding]:
    """Find scores that do not order the lists, or order them in reverse."""
    spans = table.frame.group_by("user", maintain_order=True).agg(
        score=pl.col("score").min(),
        high=pl.col("score").max(),
        items=pl.len(),
        rises=((pl.col("score").diff() > 0).sum() == pl.len() - 1),
    )
    levels = table.frame["score"].unique().sort()
    constant = spans.filter((pl.col("score") == pl.col("high")) & (pl.col("items") > 1))
    ties = None
    if not len(constant) and len(levels) == 2 and (spans["items"] > 2).any():
        ties = _two_scores(table, levels)
    elif cutoffs:
        ties = _ties(table, constant["user"], cutoffs)
    message = (
        f"{{n}} of {len(spans):,} lists {{have}} the same score for all items: {{their}} order is "
        "arbitrary."
    )
    if len(levels) == 1:
        message = f"All scores are {levels[0]:g}: the order of each list is arbitrary."
    constant_scores = draft_finding(
        "constant-scores",
        "warning",
        table,
        constant.select("user", "score", "items"),
        message=message,
        treatments=_TIE_RANGE,
        fix=_FIX_SCORES,
    )
    return drop_absent(constant_scores, ties, _rising_scores(table, spans))


def _two_scores(table: RawTable, levels: pl.Series) -> DraftFinding:
    return DraftFinding(
        "two-scores",
        "warning",
        table.where,
        f"All {table.rows:,} scores are {levels[0]:g} or {levels[1]:g}: these look like labels "
        "rather than scores.",
        len(table.frame),
        table.examples(table.frame),
        _TIE_RANGE,
        _FIX_SCORES,
    )


def _rising_scores(table: RawTable, spans: pl.DataFrame) -> DraftFinding | None:
    several = spans.filter(pl.col("items") > 1)
    rising = several.filter(pl.col("rises") & (pl.col("items") > 2))
    if not len(rising) or 10 * len(rising) < 9 * len(several.filter(pl.col("items") > 2)):
        return None

    def negate(data: Inputs) -> Inputs:
        frame = table.frame.with_columns(-pl.col("score"))
        return replace(data, lists=table.with_frame(frame))

    return DraftFinding(
        "rising-scores",
        "warning",
        table.where,
        f"The rows of {len(rising):,} of {len(several):,} lists are sorted by ascending score, as "
        "if lower scores were better (distances).",
        len(rising),
        tuple(
            {"user": row[0], "scores": f"{row[1]:g} to {row[2]:g}"}
            for row in rising.head(MAX_EXAMPLES).iter_rows()
        ),
        (Treatment("lowest score first", negate),),
        "If lower scores are better, give the negative of the score, or a rank.",
    )


def _ties(table: RawTable, constant: pl.Series, cutoffs: list[int]) -> DraftFinding | None:
    """Find equal scores in the lists of all users but those with constant scores."""
    depth = max(cutoffs)
    tied = table.ranked.filter(
        pl.col("score") == pl.col("score").shift(-1),
        pl.col("user") == pl.col("user").shift(-1),
        pl.col("position") <= depth,
        ~pl.col("user").is_in(constant.implode()),
    )
    if not len(tied):
        return None
    users = tied["user"].n_unique()
    at_cut = tied.filter(pl.col("position").is_in(cutoffs))["user"].n_unique()
    cut = "one of the cut-offs" if len(cutoffs) > 1 else f"the cut-off {depth}"
    return DraftFinding(
        "ties",
        "warning",
        table.where,
        agree(
            users,
            f"{{n}} of {len(table.users):,} lists {{have}} equal scores among {{their}} first "
            f"{depth + 1} items. Lists with equal scores at {cut}: {at_cut:,}.",
        ),
        users,
        table.examples(tied),
        _TIE_RANGE,
        "Write scores with full precision, or set ties='expected' (--ties expected) for the mean "
        "over all orders.",
    )


def _same_lists(table: RawTable, depth: int) -> DraftFinding | None:
    first = table.ranked.filter(pl.col("position") <= depth)
    lists = first.group_by("user", maintain_order=True).agg(
        pl.col("item").cast(pl.String).str.join("\n")
    )
    counts = lists.group_by("item", maintain_order=True).len()
    joined, count = counts.sort("len", descending=True, maintain_order=True).row(0)
    is_shared_by_all = count == len(lists) and count > 1
    is_shared_by_half = len(lists) >= _MANY_USERS and 2 * count >= len(lists)
    if not (is_shared_by_all or is_shared_by_half):
        return None
    users = "All" if count == len(lists) else f"{count:,} of"
    items = joined.split("\n")
    return DraftFinding(
        "same-lists",
        "warning",
        table.where,
        f"{users} {len(lists):,} users have the same first "
        f"{f'{len(items)} items' if len(items) > 1 else 'item'}.",
        count,
        tuple({"item": item} for item in items[:MAX_EXAMPLES]),
        (),
        "None needed if the model is not personalised, such as most-popular; otherwise check how "
        "the lists were joined.",
        remark="there are no other lists to compare with",
    )

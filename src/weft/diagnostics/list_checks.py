"""What is odd about the lists themselves: their lengths, ranks and scores."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from weft.data.interaction_table import MAX_EXAMPLES
from weft.diagnostics.reading import RawTable
from weft.diagnostics.what_if import Found, Treatment
from weft.evaluation.result import Result
from weft.metrics.names import parse_name
from weft.metrics.registry import all_metrics

# From how many users on it is odd that half of them have one list.
_MANY_USERS = 20
_TIE_RANGE = tuple(
    Treatment(f"ties={rule!r}", settings={"ties": rule}) for rule in ("pessimistic", "optimistic")
)


def within_lists(table: RawTable, cutoffs: list[int], baseline: Result) -> Iterator[Found]:
    """Everything odd about the lists of one model."""
    if not len(table.frame):
        return
    yield from _lengths(table, cutoffs, baseline)
    if "rank" in table.frame.columns:
        yield from _ranks(table)
    elif "score" in table.frame.columns:
        yield from _scores(table, cutoffs)
    if cutoffs:
        yield from _same_lists(table, max(cutoffs))


def placed(table: RawTable) -> pl.DataFrame:
    """The rows of each user together, best first, and `place`, from 1."""
    frame = table.frame
    if "rank" in frame.columns:
        ordered = frame.sort("user", "rank")
    elif "score" in frame.columns:
        ordered = frame.sort("user", "score", "item", descending=[False, True, False])
    else:
        ordered = frame.sort("user", "row")
    start = pl.col("user").is_first_distinct()
    index = pl.int_range(pl.len())
    return ordered.with_columns(place=index - pl.when(start).then(index).forward_fill() + 1)


def _lengths(table: RawTable, cutoffs: list[int], baseline: Result) -> Iterator[Found]:
    lengths = table.users.to_frame("user").join(
        table.frame.group_by("user").len(), on="user", how="left", maintain_order="left"
    )
    lengths = lengths.with_columns(pl.col("len").fill_null(0))
    least, middle, most = (
        float(part)
        for part in lengths.select(
            pl.min("len"), pl.median("len").alias("m"), pl.max("len").alias("x")
        ).row(0)
    )
    spread = f"lengths run from {least:g} to {most:g}, half of them up to {middle:g}"
    deepest = max(cutoffs, default=0)
    short = lengths.filter(pl.col("len") < deepest).sort("len", maintain_order=True)
    if len(short):
        empty = int((short["len"] == 0).sum())
        users = short["user"]
        treatment = Treatment(
            "users with short lists left out", lambda data: data.of_users(users, keep=False)
        )
        if len(short) == len(lengths):
            # Nobody would be left, so the metrics are taken where the longest list ends.
            end = int(most)
            names = _cut_off(baseline, end)
            settings = {"metrics": list(dict.fromkeys(names.values())), "top_k": []}
            treatment = Treatment(
                f"cut-off {end}", lambda data: data if end and names else None, settings, names
            )
        yield Found(
            "short-lists",
            "warning",
            table.where,
            f"{len(short):,} of {len(lengths):,} lists have fewer than {deepest} items"
            f"{f', {empty:,} of them none' if empty else ''}; {spread}.",
            len(short),
            tuple(
                {"user": user, "items": length} for user, length in short.head(MAX_EXAMPLES).iter_rows()
            ),
            (treatment,),
            f"Ask for lists of at least {deepest} items, or for smaller cut-offs; places behind "
            "the end of a list count as misses.",
        )
    elif most >= 2 * least and most > least + 1:
        long = lengths.sort("len", descending=True, maintain_order=True)
        yield Found(
            "uneven-lists",
            "note",
            table.where,
            f"The longest list has {most:g} items, the shortest {least:g}; {spread}.",
            int((lengths["len"] > least).sum()),
            tuple({"user": user, "items": length} for user, length in long.head(MAX_EXAMPLES).iter_rows()),
            (
                Treatment(
                    f"all lists cut at {least:g}",
                    lambda data: replace(
                        data,
                        lists=table.with_frame(
                            placed(table).filter(pl.col("place") <= least).drop("place").sort("row")
                        ),
                    ),
                ),
            ),
            "Nothing for metrics at a cut-off; those that read whole lists favour long ones.",
        )


def _cut_off(baseline: Result, end: int) -> dict[str, str]:
    """For each metric that can be asked for by name, the same with its cut-off where the lists end,
    if it was behind that.
    """
    known = {metric.__name__ for metric in all_metrics()}
    return {
        value.name: value.metric if value.k is None else f"{value.metric}@{min(value.k, end)}"
        for value in baseline.values
        if not value.cell and parse_name(value.metric).name in known
    }


def _ranks(table: RawTable) -> Iterator[Found]:
    frame = table.frame
    spans = frame.group_by("user", maintain_order=True).agg(
        first=pl.col("rank").min(), last=pl.col("rank").max(), length=pl.len()
    )
    odd = spans.filter(pl.col("first") != 1)
    if len(odd):
        starts = odd["first"].unique().sort()
        yield Found(
            "ranks-not-from-1",
            "note",
            table.where,
            f"The ranks of {len(odd):,} of {len(spans):,} lists do not start at 1, but at "
            f"{starts[0]:g}{f' to {starts[-1]:g}' if len(starts) > 1 else ''}; only their order "
            "counts.",
            len(odd),
            tuple({"user": row[0], "first rank": row[1]} for row in odd.head(MAX_EXAMPLES).iter_rows()),
            (Treatment("ranks from 1"),),
            "Nothing, if ranks count from 0; else look whether the first rows are missing.",
        )
    gaps = spans.filter(pl.col("last") - pl.col("first") + 1 != pl.col("length"))
    if len(gaps):
        users = gaps["user"]
        yield Found(
            "gaps-in-ranks",
            "warning",
            table.where,
            f"The ranks of {len(gaps):,} of {len(spans):,} lists have gaps or fractions; the lists "
            "close up over them.",
            len(gaps),
            tuple(
                {"user": row[0], "ranks": f"{row[1]:g} to {row[2]:g}", "items": row[3]}
                for row in gaps.head(MAX_EXAMPLES).iter_rows()
            ),
            (Treatment("users with gaps left out", lambda data: data.of_users(users, keep=False)),),
            "Look whether rows are missing, or were taken out after the ranks were given.",
        )
    if "score" in frame.columns:
        below = placed(table).with_columns(
            better=(pl.col("score") > pl.col("score").shift())
            & (pl.col("user") == pl.col("user").shift())
        )
        wrong = below.filter("better")
        if len(wrong):
            count = wrong["user"].n_unique()
            yield Found(
                "ranks-against-scores",
                "warning",
                table.where,
                f"{count:,} of {len(spans):,} lists have an item with a higher score than the one "
                "ranked before it; lists with "
                "both are ranked by rank.",
                count,
                table.examples(wrong),
                (
                    Treatment(
                        "ranked by score",
                        lambda data: replace(
                            data, lists=table.with_frame(table.frame.drop("rank"))
                        ),
                    ),
                ),
                "Leave out the column that does not tell the order (a score may also be a "
                "distance, the lowest first).",
            )


def _scores(table: RawTable, cutoffs: list[int]) -> Iterator[Found]:
    frame = table.frame
    of_users = frame.group_by("user", maintain_order=True).agg(
        low=pl.col("score").min(),
        high=pl.col("score").max(),
        length=pl.len(),
        rises=((pl.col("score").diff() > 0).sum() == pl.len() - 1),
    )
    constant = of_users.filter((pl.col("low") == pl.col("high")) & (pl.col("length") > 1))
    several = of_users.filter(pl.col("length") > 1)
    levels = frame["score"].unique().sort()
    fix = "Look whether this column is the model's score; ties='expected' gives the mean over all orders of equal scores."
    if len(constant):
        everywhere = len(levels) == 1
        yield Found(
            "constant-scores",
            "warning",
            table.where,
            f"All scores are {levels[0]:g}: the order of each list is chance."
            if everywhere
            else f"{len(constant):,} of {len(of_users):,} lists have one score for all their "
            "items: their order is chance.",
            len(constant),
            tuple(
                {"user": row[0], "score": row[1], "items": row[3]}
                for row in constant.head(MAX_EXAMPLES).iter_rows()
            ),
            _TIE_RANGE,
            fix,
        )
    if not len(constant) and len(levels) == 2 and (several["length"] > 2).any():
        yield Found(
            "two-scores",
            "warning",
            table.where,
            f"All {table.rows:,} scores are {levels[0]:g} or {levels[1]:g}: these look like "
            "labels, not like scores.",
            len(frame),
            table.examples(frame),
            _TIE_RANGE,
            fix,
        )
    elif cutoffs:
        yield from _ties(table, constant, cutoffs)
    rising = several.filter(pl.col("rises") & (pl.col("length") > 2))
    if len(rising) and 10 * len(rising) >= 9 * len(several.filter(pl.col("length") > 2)):
        yield Found(
            "rising-scores",
            "warning",
            table.where,
            f"The rows of {len(rising):,} of {len(several):,} lists stand by rising score: is the "
            "lowest the best, as with "
            "distances?",
            len(rising),
            tuple(
                {"user": row[0], "scores": f"{row[1]:g} to {row[2]:g}"}
                for row in rising.head(MAX_EXAMPLES).iter_rows()
            ),
            (
                Treatment(
                    "the lowest score first",
                    lambda data: replace(
                        data, lists=table.with_frame(table.frame.with_columns(-pl.col("score")))
                    ),
                ),
            ),
            "Give the negative of a distance as the score, or a rank.",
        )


def _ties(table: RawTable, constant: pl.DataFrame, cutoffs: list[int]) -> Iterator[Found]:
    """Equal scores in lists that are not constant."""
    depth = max(cutoffs)
    tied = (
        placed(table)
        .filter(
            (pl.col("score") == pl.col("score").shift(-1))
            & (pl.col("user") == pl.col("user").shift(-1))
            & (pl.col("place") <= depth)
        )
        .join(constant, on="user", how="anti", maintain_order="left")
    )
    if not len(tied):
        return
    users = tied["user"].n_unique()
    at_cut = tied.filter(pl.col("place").is_in(cutoffs))["user"].n_unique()
    cut = "one of the cut-offs" if len(cutoffs) > 1 else f"the cut-off {depth}"
    yield Found(
        "ties",
        "warning",
        table.where,
        f"{users:,} of {len(table.users):,} lists have equal scores among their first {depth + 1} "
        f"items, {at_cut:,} of them across "
        f"{cut}.",
        users,
        table.examples(tied),
        _TIE_RANGE,
        "Give scores with all their digits, or say ties='expected' (--ties expected), the mean "
        "over all orders.",
    )


def _same_lists(table: RawTable, depth: int) -> Iterator[Found]:
    lists = (
        placed(table)
        .filter(pl.col("place") <= depth)
        .group_by("user", maintain_order=True)
        .agg(pl.col("item").cast(pl.String).str.join("\n"))
    )
    common = (
        lists.group_by("item", maintain_order=True)
        .agg(pl.len(), pl.col("user").head(MAX_EXAMPLES))
        .sort("len", descending=True, maintain_order=True)
    )
    count = int(common["len"][0])
    if (count == len(lists) and count > 1) or (
        len(lists) >= _MANY_USERS and 2 * count >= len(lists)
    ):
        whom = "All" if count == len(lists) else f"{count:,} of"
        items = common["item"][0].split("\n")
        yield Found(
            "same-lists",
            "warning",
            table.where,
            f"{whom} {len(lists):,} users have the same first "
            f"{f'{len(items)} items' if len(items) > 1 else 'item'}.",
            count,
            tuple({"item": item} for item in items[:MAX_EXAMPLES]),
            (),
            "Nothing, if this is a model without personalisation such as most-popular; else look "
            "at how the lists were joined.",
            remark="there are no other lists to compare with",
        )

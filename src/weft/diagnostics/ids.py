"""Ids that are missing, of several types or spellings, or of another data set."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import polars as pl

from weft.data.interaction_table import MAX_EXAMPLES
from weft.diagnostics.reading import RawTable
from weft.diagnostics.what_if import KINDS, Found, Inputs, Treatment, in_words


def nameless(given: Inputs) -> Iterator[Found]:
    """Rows without a user or an item."""
    for table in given.tables().values():
        if count := len(table.nameless):
            yield Found(
                "missing-ids",
                "error",
                table.where,
                f"{count:,} of {table.rows:,} rows have no user or no item.",
                count,
                table.examples(table.nameless),
                (Treatment("rows dropped"),),
                "Repair or remove these rows.",
            )


def fractional(given: Inputs) -> Iterator[Found]:
    """Ids such as 1.0."""
    for table in given.tables().values():
        for kind in table.fractional:
            yield Found(
                "fractional-ids",
                "error",
                table.where,
                f"The {kind} ids are numbers with a fraction, such as "
                f"{float(table.frame[kind][0]) if len(table.frame) else 1.0}: "
                "pandas turns integers into such numbers where one is missing.",
                len(table.frame),
                table.examples(table.frame),
                (Treatment("ids converted to integers"),),
                "Convert the column to integers before it is written: "
                f"frame[{kind!r}].astype('Int64').",
            )


def id_types(given: Inputs) -> Found | None:
    """Ids that are numbers here and text there."""
    told, examples = [], []
    for kind in KINDS:
        columns = _columns(given, kind)
        if len({column.dtype for column in columns.values()}) > 1:
            text, numbers = (
                [name for name, column in columns.items() if (column.dtype == pl.String) == is_text]
                for is_text in (True, False)
            )
            told.append(
                f"the {kind} ids are text in {in_words(text)}, but integers in {in_words(numbers)}"
            )
            examples += [
                {"where": names[0], kind: columns[names[0]][0]} for names in (text, numbers)
            ]
    if not told:
        return None
    return Found(
        "id-types",
        "error",
        "ids",
        f"T{in_words(told)[1:]}; 1 and '1' are different ids, and nothing would match.",
        len(told),
        tuple(examples),
        (Treatment("ids converted to text"),),
        "Write the ids of all files in one type.",
    )


def _columns(given: Inputs, kind: str) -> dict[str, pl.Series]:
    """The users or items of everything that has some."""
    columns = {name: table.ids(kind) for name, table in given.tables().items()}
    if kind == "item" and given.items is not None:
        columns["items"] = given.items
    return {name: column for name, column in columns.items() if len(column)}


def of_one_type(given: Inputs) -> Inputs:
    """Every id as text where some are, else as a number."""
    for kind in KINDS:
        is_text = any(column.dtype == pl.String for column in _columns(given, kind).values())
        dtype = pl.String if is_text else pl.Int64
        items = given.items
        given = given.map(lambda table, kind=kind, dtype=dtype: table.retyped(kind, dtype))  # type: ignore[misc]
        given = replace(
            given, items=items.cast(dtype) if kind == "item" and items is not None else items
        )
    return given


def _plain_spelling(ids: pl.Expr) -> pl.Expr:
    """An id without spaces around it, in lower case, without leading zeros and without ".0" behind
    a number.
    """
    bare = ids.str.strip_chars().str.to_lowercase()
    return bare.str.replace(r"^([+-]?\d+)\.0+$", "${1}").str.replace(r"^0+(\d+)$", "${1}")


def _respelled(ids: pl.Series, reference: pl.Series) -> pl.DataFrame:
    """Ids that the reference does not have but under another spelling: `old`, and `new` as the
    reference spells it.
    """
    nothing = pl.DataFrame(schema={"old": ids.dtype, "new": ids.dtype})
    if ids.dtype != pl.String or reference.dtype != pl.String:
        return nothing
    # Only where each table has one spelling: ids that differ in case within a table are different
    # ids.
    mine, theirs = (
        part.to_frame(name)
        .with_columns(plain=_plain_spelling(pl.col(name)))
        .filter(pl.col("plain").is_unique())
        for name, part in (("old", ids), ("new", reference))
    )
    return (
        mine.join(theirs, on="plain", how="inner", maintain_order="left")
        .filter(pl.col("old") != pl.col("new"))
        .select("old", "new")
    )


def _spellings(
    data: Inputs,
) -> tuple[dict[tuple[str, str], pl.DataFrame], Callable[[Inputs], Inputs]]:
    """Whose users or items are in the truth under another spelling, and the data with the truth's
    spelling throughout.
    """
    names = {
        (name, kind): found
        for kind in KINDS
        for name, table in data.tables().items()
        if name != "truth" and len(found := _respelled(table.ids(kind), data.truth.ids(kind)))
    }

    def spell(given: Inputs) -> Inputs:
        def change(table: RawTable) -> RawTable:
            for kind in KINDS:
                if (table.where, kind) in names:
                    table = table.renamed(kind, names[table.where, kind])
            return table

        return given.map(change)

    return names, spell


def spelling(data: Inputs) -> Iterator[Found]:
    """Ids that match those of the truth but for their spelling."""
    names, spell = _spellings(data)
    as_in_truth = Treatment("ids spelled as in the truth", spell)
    for (where, kind), found in names.items():
        yield Found(
            "id-spelling",
            "warning",
            where,
            f"{len(found):,} of {len(data.tables()[where].ids(kind)):,} {kind} ids are in the "
            "truth only under another spelling "
            "(spaces, upper case, leading zeros, or '.0' at the end).",
            len(found),
            tuple({kind: old, "in the truth": new} for old, new in found.head(MAX_EXAMPLES).iter_rows()),
            (as_in_truth,),
            "Spell the ids of all files in the same way.",
        )


def nothing_in_common(
    kind: str, one: str, other: str, first: pl.Series, second: pl.Series, severity: str = "warning"
) -> Found | None:
    """Two tables that share no user or no item."""
    if not len(first) or not len(second) or first.is_in(second.implode()).any():
        return None
    return Found(
        "nothing-in-common",
        severity,
        one,
        f"Not one of its {len(first):,} {kind}s is among the {len(second):,} of {other}.",
        len(first),
        ({"where": one, kind: first[0]}, {"where": other, kind: second[0]}),
        (),
        "Look whether both files are of the same data set and number users and items in the same "
        "way.",
        remark="nothing matches, so that there is nothing to compare with",
    )

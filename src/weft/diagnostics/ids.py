"""Findings about ids that are missing, or of several types, spellings or data sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from weft.data.interaction_table import MAX_EXAMPLES
from weft.diagnostics.reading import RawTable
from weft.diagnostics.what_if import KINDS, DraftFinding, Inputs, Treatment, join_words


def check_missing_ids(data: Inputs) -> Iterator[DraftFinding]:
    """Find rows without a user or an item."""
    for table in data.tables().values():
        if count := len(table.without_ids):
            yield DraftFinding(
                "missing-ids",
                "error",
                table.where,
                f"{count:,} of {table.rows:,} rows have no user or no item.",
                count,
                table.examples(table.without_ids),
                (Treatment("rows dropped"),),
                "Repair or remove these rows.",
            )


def check_fractional_ids(data: Inputs) -> Iterator[DraftFinding]:
    """Find ids such as 1.0."""
    for table in data.tables().values():
        for kind in table.fractional:
            yield DraftFinding(
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


def check_id_types(data: Inputs) -> DraftFinding | None:
    """Find ids that are numbers in one input and text in another."""
    descriptions, examples = [], []
    for kind in KINDS:
        columns = _columns(data, kind)
        if len({column.dtype for column in columns.values()}) > 1:
            text, numbers = (
                [name for name, column in columns.items() if (column.dtype == pl.String) == is_text]
                for is_text in (True, False)
            )
            descriptions.append(
                f"the {kind} ids are text in {join_words(text)}, "
                f"but integers in {join_words(numbers)}"
            )
            examples += [
                {"where": names[0], kind: columns[names[0]][0]} for names in (text, numbers)
            ]
    if not descriptions:
        return None
    return DraftFinding(
        "id-types",
        "error",
        "ids",
        f"T{join_words(descriptions)[1:]}; 1 and '1' are different ids, and nothing would match.",
        len(descriptions),
        tuple(examples),
        (Treatment("ids converted to text"),),
        "Write the ids of all files in one type.",
    )


def _columns(data: Inputs, kind: str) -> dict[str, pl.Series]:
    """Return the users or items of every input that has some, by its name."""
    columns = {name: table.ids(kind) for name, table in data.tables().items()}
    if kind == "item" and data.items is not None:
        columns["items"] = data.items
    return {name: column for name, column in columns.items() if len(column)}


def unify_id_types(data: Inputs) -> Inputs:
    """Return the inputs with all ids as text if some are text, else as integers."""
    for kind in KINDS:
        is_text = any(column.dtype == pl.String for column in _columns(data, kind).values())
        dtype = pl.String if is_text else pl.Int64
        items = data.items
        data = data.map(lambda table, kind=kind, dtype=dtype: table.cast_ids(kind, dtype))  # type: ignore[misc]
        data = replace(
            data, items=items.cast(dtype) if kind == "item" and items is not None else items
        )
    return data


def _normalize(ids: pl.Expr) -> pl.Expr:
    """Normalize ids: no surrounding spaces, lower case, no leading zeros, no ".0" at the end."""
    bare = ids.str.strip_chars().str.to_lowercase()
    return bare.str.replace(r"^([+-]?\d+)\.0+$", "${1}").str.replace(r"^0+(\d+)$", "${1}")


def _match_spellings(ids: pl.Series, reference: pl.Series) -> pl.DataFrame:
    """Return ids that the reference spells differently, as a frame [old, new]."""
    nothing = pl.DataFrame(schema={"old": ids.dtype, "new": ids.dtype})
    if ids.dtype != pl.String or reference.dtype != pl.String:
        return nothing
    # Ids that differ only in spelling within one table are different ids, so they are skipped.
    mine, theirs = (
        part.to_frame(name)
        .with_columns(normalized=_normalize(pl.col(name)))
        .filter(pl.col("normalized").is_unique())
        for name, part in (("old", ids), ("new", reference))
    )
    return (
        mine.join(theirs, on="normalized", how="inner", maintain_order="left")
        .filter(pl.col("old") != pl.col("new"))
        .select("old", "new")
    )


def check_spelling(data: Inputs) -> Iterator[DraftFinding]:
    """Find ids that differ from those of the truth only in spelling."""
    spellings = {
        (name, kind): pairs
        for kind in KINDS
        for name, table in data.tables().items()
        if name != "truth" and len(pairs := _match_spellings(table.ids(kind), data.truth.ids(kind)))
    }

    def respell(table: RawTable) -> RawTable:
        for kind in KINDS:
            if (table.where, kind) in spellings:
                table = table.rename_ids(kind, spellings[table.where, kind])
        return table

    treatment = Treatment("ids spelled as in the truth", lambda data: data.map(respell))
    for (where, kind), pairs in spellings.items():
        examples = pairs.head(MAX_EXAMPLES).iter_rows()
        yield DraftFinding(
            "id-spelling",
            "warning",
            where,
            f"{len(pairs):,} of {len(data.tables()[where].ids(kind)):,} {kind} ids are in the "
            "truth only under another spelling "
            "(spaces, upper case, leading zeros, or '.0' at the end).",
            len(pairs),
            tuple({kind: old, "in the truth": new} for old, new in examples),
            (treatment,),
            "Spell the ids of all files in the same way.",
        )


def nothing_in_common(
    kind: str, name: str, other: str, first: pl.Series, second: pl.Series, severity: str = "warning"
) -> DraftFinding | None:
    """Return a finding if two tables share no user, or no item."""
    if not len(first) or not len(second) or first.is_in(second.implode()).any():
        return None
    return DraftFinding(
        "nothing-in-common",
        severity,
        name,
        f"Not one of its {len(first):,} {kind}s is among the {len(second):,} of {other}.",
        len(first),
        ({"where": name, kind: first[0]}, {"where": other, kind: second[0]}),
        (),
        "Look whether both files are of the same data set and number users and items in the same "
        "way.",
        remark="nothing matches, so that there is nothing to compare with",
    )

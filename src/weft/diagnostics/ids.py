"""Findings about ids that are missing, or of several types, spellings or data sets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import polars as pl

from weft.diagnostics.reading import RawTable
from weft.diagnostics.what_if import (
    KINDS,
    DraftFinding,
    Inputs,
    Treatment,
    draft_finding,
    drop_absent,
    join_words,
)
from weft.errors import agree


def check_unreadable_ids(data: Inputs) -> Iterator[DraftFinding]:
    """Find rows without a user or an item, and ids such as 1.0."""
    for table in data.tables().values():
        missing = draft_finding(
            "missing-ids",
            "error",
            table,
            table.without_ids,
            message="rows {have} no user id or no item id.",
            treatments=(Treatment("rows dropped"),),
            fix="Repair or remove these rows.",
        )
        yield from drop_absent(missing)
    for table in data.tables().values():
        for kind in table.fractional:
            example = float(table.frame[kind][0]) if len(table.frame) else 1.0
            yield DraftFinding(
                "fractional-ids",
                "error",
                table.where,
                f"The {kind} ids are floating-point numbers, such as {example}; pandas converts "
                "integers to floats if a value is missing.",
                len(table.frame),
                table.examples(table.frame),
                (Treatment("ids converted to integers"),),
                "Convert the column to integers before you write the file: "
                f"frame[{kind!r}].astype('Int64').",
            )


def check_id_types(data: Inputs) -> Iterator[DraftFinding]:
    """Find ids that are numbers in one input and text in another."""
    descriptions, examples = [], []
    for kind in KINDS:
        columns = _columns(data, kind)
        text = [name for name, column in columns.items() if column.dtype == pl.String]
        numbers = [name for name in columns if name not in text]
        if text and numbers:
            descriptions.append(
                f"the {kind} ids are text in {join_words(text)}, "
                f"but integers in {join_words(numbers)}"
            )
            examples += [{"where": name, kind: columns[name][0]} for name in (text[0], numbers[0])]
    if descriptions:
        yield DraftFinding(
            "id-types",
            "error",
            "ids",
            f"T{join_words(descriptions)[1:]}; 1 and '1' are different ids, so no ids would match.",
            len(descriptions),
            tuple(examples),
            (Treatment("ids converted to text"),),
            "Use the same type of ids in all files.",
        )


def _columns(data: Inputs, kind: str) -> dict[str, pl.Series]:
    """Return the users or items of every input that has some, by its name."""
    columns = {name: table.ids(kind) for name, table in data.tables().items()}
    if kind == "item" and data.items is not None:
        columns["items"] = data.items
    return {name: column for name, column in columns.items() if len(column)}


def unify_id_types(data: Inputs) -> Inputs:
    """Return the inputs with all ids as text if some are text, else as integers."""
    dtypes: dict[str, pl.DataType] = {}
    for kind in KINDS:
        is_text = any(column.dtype == pl.String for column in _columns(data, kind).values())
        dtypes[kind] = pl.String() if is_text else pl.Int64()
    items = None if data.items is None else data.items.cast(dtypes["item"])
    casts = {kind: pl.col(kind).cast(dtype) for kind, dtype in dtypes.items()}
    return replace(data, items=items).map(lambda table: table.map_ids(casts))


def _normalize(ids: pl.Expr) -> pl.Expr:
    """Normalize ids: no surrounding spaces, lower case, no leading zeros, no ".0" at the end."""
    bare = ids.str.strip_chars().str.to_lowercase()
    return bare.str.replace(r"^([+-]?\d+)\.0+$", "${1}").str.replace(r"^0+(\d+)$", "${1}")


def _match_spellings(ids: pl.Series, reference: pl.Series) -> pl.DataFrame:
    """Return ids that the reference spells differently, as a frame [old, new]."""
    if ids.dtype != pl.String or reference.dtype != pl.String:
        return pl.DataFrame(schema=["old", "new"])
    # Ids that differ only in spelling within one table are different ids, so they are skipped.
    mine, theirs = (
        part.to_frame(name)
        .with_columns(normalized=_normalize(pl.col(name)))
        .filter(pl.col("normalized").is_unique())
        for name, part in (("old", ids), ("new", reference))
    )
    matches = mine.join(theirs, on="normalized", how="inner", maintain_order="left")
    return matches.filter(pl.col("old") != pl.col("new")).select("old", "new")


def check_spelling(data: Inputs) -> Iterator[DraftFinding]:
    """Find ids that differ from those of the truth only in spelling."""
    spellings = {
        (name, kind): pairs
        for kind in KINDS
        for name, table in data.tables().items()
        if name != "truth" and len(pairs := _match_spellings(table.ids(kind), data.truth.ids(kind)))
    }

    def respell(table: RawTable) -> RawTable:
        return table.map_ids(
            {
                kind: pl.col(kind).replace(pairs["old"], pairs["new"])
                for (name, kind), pairs in spellings.items()
                if name == table.where
            }
        )

    treatment = Treatment("ids written as in the truth", lambda data: data.map(respell))
    for (name, kind), pairs in spellings.items():
        table = data.tables()[name]
        finding = draft_finding(
            "id-spelling",
            "warning",
            table,
            pairs.rename({"old": kind, "new": "in the truth"}),
            message=f"{{n}} of {len(table.ids(kind)):,} {kind} ids {{are}} in the truth only "
            "in a different spelling (spaces, upper case, leading zeros, or '.0' at the end).",
            treatments=(treatment,),
            fix="Use the same spelling of ids in all files.",
        )
        yield from drop_absent(finding)


def nothing_in_common(
    kind: str, table: RawTable, truth: RawTable, severity: str = "warning"
) -> DraftFinding | None:
    """Return a finding if a table and the truth share no user, or no item."""
    first, second = table.ids(kind), truth.ids(kind)
    if not len(first) or not len(second) or first.is_in(second.implode()).any():
        return None
    return DraftFinding(
        "nothing-in-common",
        severity,
        table.where,
        f"None of its {agree(len(first), '{n} {kind}{s}', kind=kind)} is among the "
        f"{agree(len(second), '{n} {kind}{s}', kind=kind)} of the truth.",
        len(first),
        ({"where": table.where, kind: first[0]}, {"where": "truth", kind: second[0]}),
        (),
        "Check that both files come from the same data set and use the same user and item ids.",
        remark="no ids match",
    )

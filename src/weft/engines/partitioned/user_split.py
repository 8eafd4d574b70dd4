"""Rows of tables split by user, so that every machine puts a user into the same partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.errors import EngineError

if TYPE_CHECKING:
    import polars as pl


def split_by_user(frame: pl.DataFrame, number: int, checksum: int) -> list[pl.DataFrame]:
    """Return the rows of each partition, in order.

    A user is in the same partition of every table, on every machine; `checksum` is the
    `hash_checksum` of the driver.
    """
    import polars as pl

    if checksum != hash_checksum():
        raise EngineError(
            "the machines of the cluster have different versions of polars; install the same "
            "version on all machines."
        )
    if number == 1:
        return [frame]
    kind = pl.UInt16 if number < 1 << 16 else pl.UInt32
    name = "weft partition"
    keyed = frame.with_columns((pl.col("user").hash(0) % number).cast(kind).alias(name))
    pieces = keyed.partition_by(name, as_dict=True, include_key=False, maintain_order=True)
    empty = frame.clear()
    return [pieces.get((index,), empty) for index in range(number)]


def hash_checksum() -> int:
    """Return a number that is equal on machines with the same hashes of ids."""
    import polars as pl

    hashes = [
        *pl.Series([-1, 0, 1, 2**40]).hash(0),
        *pl.Series(["", "weft", "a longer text, and é"]).hash(0),
    ]
    return sum(number * value for number, value in enumerate(hashes, start=1))

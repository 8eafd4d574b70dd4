"""What the columns of a table are called, and which plays which role."""

from __future__ import annotations

import re

from weft.errors import InputError, did_you_mean

# Names that are understood, first the one that messages recommend. Case, `_`, `-`, spaces and dots
# make no difference.
COLUMNS = {
    "user": (
        "user",
        "user_id",
        "uid",
        "query",
        "query_id",
        "qid",
        "session",
        "session_id",
        "visitor",
        "visitor_id",
        "customer",
        "customer_id",
    ),
    "item": (
        "item",
        "item_id",
        "iid",
        "doc",
        "doc_id",
        "docno",
        "document",
        "document_id",
        "product",
        "product_id",
        "movie",
        "movie_id",
        "article",
        "article_id",
        "track",
        "track_id",
        "book",
        "book_id",
        "artist",
        "artist_id",
        "sku",
        "asin",
    ),
    "rating": ("rating", "relevance", "rel", "value", "weight", "score"),
    "score": (
        "score",
        "prediction",
        "predicted_rating",
        "pred",
        "rating",
        "relevance",
        "value",
        "weight",
    ),
    "rank": ("rank", "ranking", "position"),
    "timestamp": ("timestamp", "time", "date", "datetime", "ts"),
    "label": ("label", "group", "cluster", "feature", "user_group", "item_cluster", "item_feature"),
}
NEEDED = ("user", "item")
_TYPED = re.compile(r":(token|token_seq|float|float_seq)$")  # as RecBole writes its headers
_NO_DIFFERENCE = re.compile(r"[\s_.\-]+")


def fold(name: str) -> str:
    """A column's name without what makes no difference."""
    return _NO_DIFFERENCE.sub("", _TYPED.sub("", name.strip())).casefold()


_FOLDED = {role: tuple(dict.fromkeys(map(fold, names))) for role, names in COLUMNS.items()}
KNOWN = frozenset(name for names in _FOLDED.values() for name in names)


def find_column_name(columns: list[str], role: str, where: str) -> str | None:
    """The column that plays a role, under any of its names."""
    by_name: dict[str, list[str]] = {}
    for name in columns:
        by_name.setdefault(fold(name), []).append(name)
    for name in _FOLDED[role]:
        found = by_name.get(name, [])
        if len(found) > 1:
            raise InputError(
                f"{where} has the columns {found[0]!r} and {found[1]!r}, both for the {role}; "
                "rename or drop one."
            )
        if found:
            return found[0]
    return None


def find_column(
    columns: list[str],
    role: str,
    where: str,
    *,
    hint: str = "Rename the column that holds the {role} ids.",
) -> str | None:
    """The same; None where a table can do without it, else an error. `hint` says what to do about
    it.
    """
    found = find_column_name(columns, role, where)
    if found is not None or role not in NEEDED:
        return found
    near = next((near for name in columns if (near := did_you_mean(name, COLUMNS[role]))), "")
    raise InputError(
        f"{where} has the columns {columns}; expected one named {COLUMNS[role][0]!r}"
        f" (or {', '.join(map(repr, COLUMNS[role][1:]))}).{near} {hint.format(role=role)}"
    )
